/* The records of the engine and their bytes. Each is an after-image keyed by message id or queue
 * id, never "run this verb again". Pure functions; any thread. Reading checks every length: a
 * record that makes no sense is ERR_CORRUPT, never a crash.
 *
 * What is counted in a queue's ledger follows from the record alone (its queue, event and state),
 * not from what is known of the message: so a record counts the same whether or not the message's
 * own image was already cleaned away. */
#pragma once

#include "base/hash.h"
#include "model/message.h"
#include "model/policy.h"

/* Stored by number: append only. */
enum record_type {
    RECORD_ENGINE = 1,     /* counters of the whole */
    RECORD_QUEUE = 2,      /* a queue's whole image */
    RECORD_QUEUE_GONE = 3, /* its ledger moves to the engine's */
    RECORD_MESSAGE = 4,    /* a message's whole image, with payload */
    RECORD_STATE = 5,      /* what changed of a message, and the event that changed it */
    RECORD_GONE = 6,       /* messages that are no more */
    RECORD_HISTORY = 7,    /* a line of a carried message's story */
    RECORD_CLEANED = 8,    /* all that lived in a segment stands before this record, above it */
};

#define RECORD_META_MAX 1024 /* of all but RECORD_GONE */
#define RECORD_GONE_IDS 1000
#define RECORD_GONE_META_MAX (16 + RECORD_GONE_IDS * 8)

struct record_engine {
    uint64_t next_id;
    uint64_t next_queue;
    struct ledger deleted;
};

struct record_queue_gone {
    uint64_t queue;
    struct ledger ledger; /* its last */
};

struct record_queue {
    uint64_t queue;
    bool dropping; /* deleted; its messages are on their way out */
    int64_t created_at;
    struct span name;
    struct policy policy;
    struct ledger ledger;
    uint64_t deliveries, failures, deaths;
    uint64_t next_dead_seq;
};

/* The part of a message that changes. */
struct message_image {
    enum state state;
    enum reason reason;
    uint8_t retry_count, max_retries, priority;
    bool is_retry; /* next_at is set by a failure */
    uint32_t deliveries;
    int64_t updated_at;
    /* pending: claimable from; processing: end of lease; dead: end of retention; 0 = none */
    int64_t next_at;
    int64_t expires_at; /* end of its time to live; 0 = none */
    int64_t died_at;    /* 0 = not dead */
    uint64_t dead_seq;
};

/* A line of a story as stored; `previous` is the position of the line before, 0 = none. */
struct record_event {
    enum event event;
    uint32_t attempt;
    int64_t at, next_at;
    uint64_t previous;
    struct span worker, worker_version, error_class, error, detail;
};

struct record_message {
    uint64_t id;
    uint64_t queue;
    bool carried; /* moved on by the cleaner: not accepted anew */
    struct message_image image;
    int64_t created_at;
    int64_t ttl_ms;            /* 0 = none; a replay begins it anew */
    int64_t idempotency_until; /* 0 = no key */
    struct hash128 idempotency_hash;
    struct span headers, key, payload;
};

struct record_state {
    uint64_t id;
    uint64_t queue;
    struct message_image image;
    struct record_event event; /* EVENT_NONE: not part of the story */
};

struct record_history {
    uint64_t id;
    bool is_error; /* the newest failure */
    struct record_event event;
};

/* Stored by number: append only. */
enum gone_cause {
    GONE_KEPT_LONG_ENOUGH = 1, /* succeeded, and retention is over: already counted as succeeded */
    GONE_RETENTION = 2,        /* dead, and retention is over: discarded, expired */
    GONE_QUEUE_DELETED = 3,    /* unfinished, and its queue was deleted: discarded */
};

struct record_gone {
    uint64_t queue;
    enum gone_cause cause;
    uint32_t count; /* 1..RECORD_GONE_IDS */
    const uint64_t *ids;
};

/* Writing: fills `meta` and returns its bytes; the data spans to append, in this order, are the
 * caller's: message: headers, key, payload. state, history: worker, worker_version, error_class,
 * error, detail. Others: none. */
size_t record_engine_put(uint8_t meta[static RECORD_META_MAX], const struct record_engine *r);
size_t record_queue_put(uint8_t meta[static RECORD_META_MAX], const struct record_queue *r);
size_t record_queue_gone_put(uint8_t meta[static RECORD_META_MAX],
                             const struct record_queue_gone *r);
size_t record_message_put(uint8_t meta[static RECORD_META_MAX], const struct record_message *r);
size_t record_state_put(uint8_t meta[static RECORD_META_MAX], const struct record_state *r);
size_t record_gone_put(uint8_t meta[static RECORD_GONE_META_MAX], const struct record_gone *r);
size_t record_history_put(uint8_t meta[static RECORD_META_MAX], const struct record_history *r);
size_t record_cleaned_put(uint8_t meta[static RECORD_META_MAX], uint64_t segment);

/* Reading: spans point into meta and data. `data.p` may be NULL (big data left unread): then the
 * data's spans are {NULL, n}. */
enum err record_engine_get(struct span meta, struct record_engine *ret) MUST_CHECK;
enum err record_queue_get(struct span meta, struct record_queue *ret) MUST_CHECK;
enum err record_queue_gone_get(struct span meta, struct record_queue_gone *ret) MUST_CHECK;
enum err record_message_get(struct span meta, struct span data,
                            struct record_message *ret) MUST_CHECK;
enum err record_state_get(struct span meta, struct span data, struct record_state *ret) MUST_CHECK;
/* The ids are copied into `ids`, which ret then points to. */
enum err record_gone_get(struct span meta, uint64_t ids[static RECORD_GONE_IDS],
                         struct record_gone *ret) MUST_CHECK;
enum err record_history_get(struct span meta, struct span data,
                            struct record_history *ret) MUST_CHECK;
enum err record_cleaned_get(struct span meta, uint64_t *ret_segment) MUST_CHECK;
