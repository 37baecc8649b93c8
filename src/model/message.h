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
};

const char *state_name(enum state s);
int state_parse(struct span name); /* -1 when it is none */
const char *reason_name(enum reason r);
const char *event_name(enum event e);

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
};

/* One line of a story, as written and as read. */
struct history_entry {
    enum event event;
    uint32_t attempt; /* the delivery it belongs to; 0 before the first */
    int64_t at;
    int64_t next_at; /* claimed: end of the lease; failed, released: due again; else 0 */
    struct span worker, worker_version;
    struct span error_class, error, detail;
};

/* A message as it is now. */
struct message_view {
    uint64_t id;
    struct span queue;
    enum state state;
    enum reason reason;
    uint8_t retry_count, max_retries, priority;
    uint32_t deliveries;
    int64_t created_at, updated_at;
    int64_t retry_after;      /* 0 = none */
    int64_t available_at;     /* 0 = now */
    int64_t expires_at;       /* 0 = never */
    int64_t lease_expires_at; /* 0 = not processing */
    int64_t died_at;          /* 0 = not dead */
    struct span payload, headers, key;
    bool has_error; /* a failure since the last replay: */
    struct span error_class, error, detail;
};
