/* What a message is, in plain structs: the words of design and API, and nothing that acts. Any
 * thread. */
#pragma once

#include "base/bytes.h"

#include <stdbool.h>
#include <stdint.h>

/* Stored in the log by number: append only. */
enum state {
    STATE_PENDING = 0,
    STATE_PROCESSING = 1,
    STATE_SUCCEEDED = 2,
    STATE_DEAD = 3,
    STATE_PARKED = 4,
    STATE_DISCARDED = 5,
};
#define STATE_COUNT 6

/* Why a message died. Stored in the log by number: append only. */
enum reason {
    REASON_NONE = 0,
    REASON_MAX_RETRIES = 1,
    REASON_PERMANENT = 2,
    REASON_REJECTED = 3,
    REASON_EXPIRED = 4,
    REASON_MAX_LENGTH = 5,
    REASON_DELIVERY_LIMIT = 6,
    REASON_LEASE_EXPIRED = 7,
    REASON_UNROUTABLE = 8,
    REASON_MANUAL = 9,
};
#define REASON_COUNT 10

/* What happened to a message, one line of its story. Stored in the log by number: append only. */
enum event {
    EVENT_NONE = 0,
    EVENT_CLAIMED = 1,
    EVENT_FAILED = 2,
    EVENT_LEASE_EXPIRED = 3,
    EVENT_RELEASED = 4,
    EVENT_EXPIRED = 5, /* its time to live ran out */
    EVENT_REPLAYED = 6,
    EVENT_SUCCEEDED = 7,
    EVENT_REDRIVEN = 8, /* sent again by a job */
    EVENT_EDITED = 9,   /* a changed copy was sent in its place, by a person */
    EVENT_PATCHED = 10, /* the same, by a job */
    EVENT_DISCARDED = 11,
    EVENT_UNDISCARDED = 12,
    EVENT_DEAD_LETTERED = 13, /* moved to its queue's target when it died */
};
#define EVENT_COUNT 14

/* Why a person discarded a dead letter. Stored in the log by number: append only. */
enum discard_reason {
    DISCARD_NONE = 0,
    DISCARD_FIXED = 1,
    DISCARD_OBSOLETE = 2,
    DISCARD_DUPLICATE = 3,
    DISCARD_BAD_DATA = 4,
    DISCARD_TEST = 5,
    DISCARD_OTHER = 6,
};
#define DISCARD_COUNT 7

/* Whose decision a death was. */
enum decider { BY_SYSTEM, BY_RECEIVER, BY_OPERATOR };

/* Where a message stands in a job. Stored in the log by number. */
enum job_part {
    JOB_PART_NONE = 0,      /* in none, or its outcome there is known */
    JOB_PART_REMAINING = 1, /* selected, still to be sent (or discarded) */
    JOB_PART_OPEN = 2,      /* sent, its outcome is awaited */
};

const char *state_name(enum state s);
int state_parse(struct span name); /* -1 when it is none */
const char *reason_name(enum reason r);
const char *event_name(enum event e);
int event_parse(struct span name); /* -1 when it is none */
const char *decider_name(enum decider d);
/* permanent and rejected are the receiver's decision, manual is an operator's, all else the
 * system's. */
enum decider reason_decider(enum reason r);
const char *discard_reason_name(enum discard_reason r); /* "bad data" */
int discard_reason_parse(struct span name);             /* -1 when it is none */
int reason_parse(struct span name);                     /* -1 when it is none */

#define PRIORITY_MAX 9

/* A message to be accepted. Spans are borrowed for the call. */
struct message_new {
    struct span payload;
    struct span headers; /* a JSON object as text, or empty */
    struct span key;     /* ordering key, or empty */
    struct span idempotency_key;
    uint8_t max_retries; /* 0 = the queue's */
    uint8_t priority;
    int64_t delay_ms; /* -1 = the queue's */
    int64_t ttl_ms;   /* -1 = the queue's, 0 = none */
};

/* The terms of conservation that are totals: of one queue, or of all queues that were deleted. */
struct ledger {
    uint64_t accepted, moved_in;
    uint64_t succeeded, discarded, moved_out;
    uint64_t expired; /* part of discarded: by retention of dead letters */
    /* discards that were undone, since ever; `discarded` is without them */
    uint64_t undiscarded;
};

/* One line of a story, as written and as read. */
struct history_entry {
    enum event event;
    uint32_t attempt; /* the delivery it belongs to; 0 before the first */
    int64_t at;
    int64_t next_at; /* claimed: end of the lease; failed, released: due again; else 0 */
    /* worker: of who did it, for what a person or a job did */
    struct span worker, worker_version;
    /* discarded: error_class is the reason's name, error the text; edited and patched: error is the
     * copy's id; redriven to another queue: error is where from and where to */
    struct span error_class, error, detail;
    struct span fingerprint; /* the worker's own */
};

/* A message as it is now. */
struct message_view {
    uint64_t id;
    struct span queue;
    enum state state;
    enum reason reason;
    uint8_t retry_count, max_retries, priority;
    uint32_t deliveries;
    uint32_t deliveries_before; /* it was last sent again, or on to this queue */
    int64_t created_at, updated_at;
    int64_t retry_after;  /* 0 = none */
    int64_t available_at; /* 0 = now */
    int64_t expires_at;   /* 0 = never */
    int64_t ttl_ms;       /* its time to live, which starts anew when it is sent again; 0 = none */
    int64_t lease_expires_at; /* 0 = not processing */
    int64_t died_at;          /* 0 = not dead or discarded */
    int64_t first_failed_at;  /* since ever; 0 = never */
    struct span payload, headers, key;
    bool has_error; /* a failure since the last replay: */
    int64_t failed_at;
    struct span error_class, error, detail, fingerprint;
    struct span worker, worker_version; /* of that failure; only known of dead letters */

    /* the dead letter; all 0 or empty for a message that never died */
    uint64_t dead_seq;       /* while it is dead or discarded */
    int64_t dead_expires_at; /* when retention discards it, 0 = never; discarded: when it is gone */
    uint64_t group_key;      /* of its cause group, 0 = none; kept until its outcome is known */
    uint32_t redrive_count;  /* replays and redrives; its generation is one more */
    uint32_t job;            /* the last job that took it, 0 = none */
    enum job_part job_part;
    uint64_t edited_to; /* id of the newest edited copy */
    uint64_t parent_id; /* of what it is an edited copy of */
    struct span origin; /* the queue it was accepted in, when that is another */
    enum discard_reason discard_reason;
    struct span envelope; /* packed (model/envelope.h), or empty */
    bool is_unroutable;   /* dead: its queue's dead-letter exchange led nowhere */
    bool is_held;         /* pending: waits behind the head of its key */
};

/* Stored in the log by number: append only. */
enum breaker_state { BREAKER_CLOSED = 0, BREAKER_OPEN = 1, BREAKER_HALF_OPEN = 2 };
const char *breaker_state_name(enum breaker_state s); /* "half_open" */
