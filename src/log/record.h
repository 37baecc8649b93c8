/* The records of the engine and their bytes. Each is an after-image keyed by message id or queue
 * id, never "run this verb again". Pure functions; any thread. Reading checks every length: a
 * record that makes no sense is ERR_CORRUPT, never a crash.
 *
 * What is counted in a queue's ledger follows from the record alone (its queue, event and state),
 * not from what is known of the message: so a record counts the same whether or not the message's
 * own image was already cleaned away. */
#pragma once

#include "base/hash.h"
#include "model/exchange.h"
#include "model/policy.h"
#include "model/triage.h"

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
    RECORD_GROUP = 9,      /* a cause group's whole image */
    RECORD_GROUP_GONE = 10,
    RECORD_JOB = 11,         /* a job's whole image */
    RECORD_JOB_LETTERS = 12, /* letters that a job selected */
    RECORD_JOB_SKIP = 13,    /* a letter that a job selected and did not send after all */
    RECORD_JOB_GONE = 14,
    RECORD_AUDIT = 15,         /* who did what: in the same frame as what was done */
    RECORD_EXCHANGE = 16,      /* an exchange's whole image */
    RECORD_EXCHANGE_GONE = 17, /* with all bindings from and to it */
    RECORD_BINDING = 18,
    RECORD_BINDING_GONE = 19,
    RECORD_PATTERN = 20, /* a policy by pattern: its whole image */
    RECORD_PATTERN_GONE = 21,
};

#define RECORD_META_MAX 2048 /* of all but RECORD_GONE and RECORD_JOB_LETTERS */
#define RECORD_GONE_IDS 1000
#define RECORD_GONE_META_MAX (24 + RECORD_GONE_IDS * 8)
#define RECORD_JOB_IDS 1000
#define RECORD_JOB_LETTERS_META_MAX (16 + RECORD_JOB_IDS * 8)

struct record_engine {
    uint64_t next_id;
    uint64_t next_queue;
    uint64_t next_dead_seq;
    uint64_t next_audit;
    uint32_t next_group, next_job;
    uint64_t next_exchange, next_binding;
    uint32_t next_pattern;
    struct ledger deleted;
};

struct record_queue_gone {
    uint64_t queue;
    struct ledger ledger; /* its last */
};

/* What AMQP has to say of a queue. */
struct record_queue_amqp {
    bool is_declared; /* else only the totals count */
    bool durable, exclusive, auto_delete;
    enum queue_type type;
    struct queue_settings settings; /* of its arguments; its texts are among the queue's spans */
    struct span arguments;          /* a JSON object as text, or empty */
    uint64_t expired, max_length;   /* discarded for it, since ever */
};

struct record_queue {
    uint64_t queue;
    bool dropping; /* deleted; its messages are on their way out */
    int64_t created_at;
    struct span name;
    struct policy policy;
    struct ledger ledger;
    uint64_t deliveries, failures;
    uint64_t deaths_by[REASON_COUNT];
    uint64_t redriven, redriven_succeeded, redriven_died;
    int64_t paused_at; /* 0 = not paused */
    struct span paused_by, pause_reason;
    struct policy_texts texts;
    enum breaker_state breaker;
    int64_t breaker_at, breaker_until; /* in this state since; open: half open from */
    uint64_t breaker_opened;           /* how often */
    struct span breaker_cause;         /* what opened it last */
    uint64_t alone_claims;             /* of messages handed out alone, near their limit */
    bool has_amqp;
    struct record_queue_amqp amqp;
};
#define QUEUE_AMQP_SPANS 3
#define QUEUE_SPANS (POLICY_TEXTS + 1 + QUEUE_AMQP_SPANS)

/* What there is of a message once it died. */
struct letter_image {
    int64_t died_at; /* the last time */
    uint64_t dead_seq;
    uint64_t edited_to; /* the newest edited copy, 0 = none */
    uint32_t group;     /* of its cause, 0 = its outcome is known */
    uint32_t job;       /* the last one that took it, 0 = none */
    enum job_part job_part;
    uint32_t deliveries_before; /* it had when it was last sent again */
    uint16_t redrive_count;
    uint8_t version; /* of the worker that failed it last: its place in the group's table */
};
#define VERSION_NONE 255 /* none was given, or the table is full */
#define REDRIVE_COUNT_MOST UINT16_MAX

/* The part of a message that changes. */
struct message_image {
    enum state state;
    enum reason reason;
    uint8_t retry_count, max_retries, priority;
    bool is_retry; /* next_at is set by a failure */
    uint32_t deliveries;
    int64_t updated_at;
    /* pending: claimable from; processing: end of lease; discarded: gone from; 0 = none */
    int64_t next_at;
    int64_t expires_at;      /* end of its time to live; 0 = none */
    int64_t first_failed_at; /* 0 = it never failed */
    bool is_alone;           /* near its limit after a lease that ran out: handed out alone */
    bool in_company;         /* processing: it was not the only one of its claim */
    bool is_unroutable;      /* dead: its queue's dead-letter exchange led nowhere */
    bool is_ordered;         /* it stands in its key's line: */
    uint64_t order_key;      /* hash of the key */
    uint64_t order_rank;     /* its place there: its id, or that of what it is an edited copy of */
    /* Its place among those of its queue, when that is not by its id: a number like an id. */
    uint64_t arrival;
    bool has_letter; /* it died once, or is the copy of one that did */
    struct letter_image letter;
};

/* A line of a story as stored; `previous` is the position of the line before, 0 = none. */
struct record_event {
    enum event event;
    uint32_t attempt;
    int64_t at, next_at;
    uint64_t previous;
    struct span worker, worker_version, error_class, error, detail, fingerprint;
};
#define EVENT_SPANS 6

/* How a message's image came to be written. Stored by number: append only. */
enum message_origin {
    MESSAGE_ACCEPTED = 0,
    MESSAGE_CARRIED = 1,  /* moved on by the cleaner: counted before */
    MESSAGE_IMPORTED = 2, /* counted as moved in */
    MESSAGE_MOVED = 3,    /* from another queue: out there, in here */
    MESSAGE_COPIED = 4,   /* an edited copy: accepted, and perhaps open in a job */
};

struct record_message {
    uint64_t id;
    uint64_t queue;
    enum message_origin how;
    uint64_t moved_from; /* MESSAGE_MOVED: the queue it left */
    struct message_image image;
    int64_t created_at;
    int64_t ttl_ms;            /* 0 = none; a replay begins it anew */
    int64_t idempotency_until; /* 0 = no key */
    struct hash128 idempotency_hash;
    uint64_t parent_id; /* of what it is an edited copy of, 0 = none */
    struct span trail;  /* where it was dead-lettered before: struct trail_entry (record.c) */
    struct span origin; /* name of the queue it was accepted in, when that is another */
    struct span headers, key;
    struct span envelope; /* packed (model/envelope.h), or empty */
    struct span payload;
};

struct record_state {
    uint64_t id;
    uint64_t queue;
    struct message_image image;
    enum job_part job_was;     /* where it stood in image.letter.job before */
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
    GONE_DISCARDED = 4,        /* already counted as discarded; it can no longer be undone */
    GONE_PURGED = 5,           /* dead, and purged: discarded */
    GONE_EXPIRED = 6,          /* died of its time to live in a queue that keeps no such letters */
    GONE_MAX_LENGTH = 7,       /* the same, of the queue's length */
    GONE_CLEARED = 8,          /* ready, and its queue was purged by a client: discarded */
};

struct record_gone {
    uint64_t queue;
    enum gone_cause cause;
    /* the job that all of them are in, and where there; 0 = none */
    uint32_t job;
    enum job_part job_part;
    uint32_t count; /* 1..RECORD_GONE_IDS */
    const uint64_t *ids;
};

/* -- topology -------------------------------------------------------------------------------- */

struct record_exchange {
    uint64_t exchange; /* number */
    enum exchange_type type;
    bool durable, auto_delete, internal, has_alternate;
    bool reads_deaths; /* a default exchange's: its vhost takes x-death of clients for its own */
    struct span name, alternate, arguments;
};
#define EXCHANGE_SPANS 3

struct record_binding {
    uint64_t binding;     /* number */
    uint64_t source;      /* exchange */
    uint64_t destination; /* queue or exchange */
    bool to_exchange;
    struct span key, arguments;
};
#define BINDING_SPANS 2

/* A policy for the queues and exchanges whose names match. */
struct record_pattern {
    uint32_t pattern; /* number */
    struct pattern_policy policy;
};
#define PATTERN_SPANS 4

/* -- cause groups ---------------------------------------------------------------------------- */

#define GROUP_MINUTES 60
#define GROUP_HOURS 24
#define GROUP_VERSIONS_STORED 16

struct group_version {
    struct span name;
    uint64_t total;
};

/* Its totals also grow by each death that names it (a state image that is dead). */
struct record_group {
    uint32_t group;
    uint64_t queue;
    uint64_t key;
    enum reason reason; /* of its first letter */
    bool is_explicit;
    enum group_state state;
    int64_t state_at;
    int64_t first_seen, last_seen;
    int64_t regressed_at, quiet_ms;
    uint64_t total;
    int64_t minute_at, hour_at; /* the number (since the epoch) of the newest in each ring */
    uint32_t minutes[GROUP_MINUTES], hours[GROUP_HOURS]; /* deaths, at (number % size) */
    uint8_t version_count;
    struct group_version versions[GROUP_VERSIONS_STORED];
    struct span title, error_class, owner, note;
};

/* -- jobs ------------------------------------------------------------------------------------ */

/* Its counts also grow by each record that names it. */
struct record_job {
    uint32_t job;
    enum job_kind kind;
    enum job_state state;
    bool selecting;
    bool sample_passed; /* or there is none */
    bool force, clear_deaths;
    uint64_t queue, to; /* numbers; 0: all queues, each its own */
    uint64_t fence;
    uint64_t rate_milli;
    uint32_t sample, stop_if_ppm;
    enum discard_reason why;
    int64_t created_at, changed_at, ended_at;
    struct job_counts counts;
    uint64_t sent;
    uint64_t redriven_before, at_limit;
    /* what the share of stop_if leaves out: outcomes from before the job was resumed */
    uint64_t succeeded_before, died_before;
    int64_t cursor_died_at; /* selection has reached this place */
    uint64_t cursor_seq;
    uint8_t version_count;
    struct group_version versions[GROUP_VERSIONS_STORED];
    struct span queue_name, to_name, filter, name, actor, reason, patch, stop_reason;
    struct span idempotency_key; /* of the request that made it, or empty */
};

/* Marks them; the job's image in the same frame counts them. */
struct record_job_letters {
    uint32_t job;
    uint32_t count; /* 1..RECORD_JOB_IDS */
    const uint64_t *ids;
};

struct record_job_skip {
    uint32_t job;
    uint64_t id;
    enum job_skip why;
};

/* Writing: fills `meta` and returns its bytes; the data spans to append, in this order, are the
 * caller's: record_*_spans; of state and history those of its event. Others: none. */
#define MESSAGE_SPANS 6
#define GROUP_SPANS (4 + GROUP_VERSIONS_STORED)
#define JOB_SPANS (9 + GROUP_VERSIONS_STORED)
#define AUDIT_SPANS 5
void record_event_spans(const struct record_event *r, struct span ret[static EVENT_SPANS]);
void record_message_spans(const struct record_message *r, struct span ret[static MESSAGE_SPANS]);
/* return how many */
size_t record_group_spans(const struct record_group *r, struct span ret[static GROUP_SPANS]);
size_t record_job_spans(const struct record_job *r, struct span ret[static JOB_SPANS]);
void record_queue_spans(const struct record_queue *r, struct span ret[static QUEUE_SPANS]);
/* The trail of a message: a place it died in, and for what. Appends; false when it is full. */
#define TRAIL_MAX 16
#define TRAIL_ENTRY_BYTES 9
bool trail_add(struct span trail, uint64_t queue, enum reason reason,
               uint8_t ret[static TRAIL_MAX * TRAIL_ENTRY_BYTES], size_t *ret_bytes);
/* True when the message died there for that reason and was not rejected since. */
bool trail_has(struct span trail, uint64_t queue, enum reason reason);
void record_audit_spans(const struct audit_entry *r, struct span ret[static AUDIT_SPANS]);
size_t record_engine_put(uint8_t meta[static RECORD_META_MAX], const struct record_engine *r);
size_t record_queue_put(uint8_t meta[static RECORD_META_MAX], const struct record_queue *r);
size_t record_queue_gone_put(uint8_t meta[static RECORD_META_MAX],
                             const struct record_queue_gone *r);
size_t record_message_put(uint8_t meta[static RECORD_META_MAX], const struct record_message *r);
size_t record_state_put(uint8_t meta[static RECORD_META_MAX], const struct record_state *r);
size_t record_gone_put(uint8_t meta[static RECORD_GONE_META_MAX], const struct record_gone *r);
size_t record_history_put(uint8_t meta[static RECORD_META_MAX], const struct record_history *r);
size_t record_cleaned_put(uint8_t meta[static RECORD_META_MAX], uint64_t segment);
size_t record_group_put(uint8_t meta[static RECORD_META_MAX], const struct record_group *r);
size_t record_group_gone_put(uint8_t meta[static RECORD_META_MAX], uint32_t group);
size_t record_job_put(uint8_t meta[static RECORD_META_MAX], const struct record_job *r);
size_t record_job_letters_put(uint8_t meta[static RECORD_JOB_LETTERS_META_MAX],
                              const struct record_job_letters *r);
size_t record_job_skip_put(uint8_t meta[static RECORD_META_MAX], const struct record_job_skip *r);
size_t record_job_gone_put(uint8_t meta[static RECORD_META_MAX], uint32_t job);
void record_exchange_spans(const struct record_exchange *r, struct span ret[static EXCHANGE_SPANS]);
void record_binding_spans(const struct record_binding *r, struct span ret[static BINDING_SPANS]);
void record_pattern_spans(const struct record_pattern *r, struct span ret[static PATTERN_SPANS]);
size_t record_exchange_put(uint8_t meta[static RECORD_META_MAX], const struct record_exchange *r);
size_t record_binding_put(uint8_t meta[static RECORD_META_MAX], const struct record_binding *r);
size_t record_pattern_put(uint8_t meta[static RECORD_META_MAX], const struct record_pattern *r);
/* Of all three kinds that are gone: their number. */
size_t record_number_put(uint8_t meta[static RECORD_META_MAX], uint64_t number);
size_t record_audit_put(uint8_t meta[static RECORD_META_MAX], const struct audit_entry *r);

/* Reading: spans point into meta and data. `data.p` may be NULL (big data left unread): then the
 * data's spans are {NULL, n}. */
enum err record_engine_get(struct span meta, struct record_engine *ret) MUST_CHECK;
enum err record_queue_get(struct span meta, struct span data, struct record_queue *ret) MUST_CHECK;
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
enum err record_group_get(struct span meta, struct span data, struct record_group *ret) MUST_CHECK;
enum err record_group_gone_get(struct span meta, uint32_t *ret_group) MUST_CHECK;
enum err record_job_get(struct span meta, struct span data, struct record_job *ret) MUST_CHECK;
/* The ids as in record_gone_get. */
enum err record_job_letters_get(struct span meta, uint64_t ids[static RECORD_JOB_IDS],
                                struct record_job_letters *ret) MUST_CHECK;
enum err record_job_skip_get(struct span meta, struct record_job_skip *ret) MUST_CHECK;
enum err record_job_gone_get(struct span meta, uint32_t *ret_job) MUST_CHECK;
enum err record_audit_get(struct span meta, struct span data, struct audit_entry *ret) MUST_CHECK;
enum err record_exchange_get(struct span meta, struct span data,
                             struct record_exchange *ret) MUST_CHECK;
enum err record_binding_get(struct span meta, struct span data,
                            struct record_binding *ret) MUST_CHECK;
enum err record_pattern_get(struct span meta, struct span data,
                            struct record_pattern *ret) MUST_CHECK;
enum err record_number_get(struct span meta, uint64_t *ret) MUST_CHECK;
