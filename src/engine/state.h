/* The state of one engine: what is in memory of queues and messages, and apply, the only code that
 * changes it. Internal to src/engine/.
 *
 * A message is a slot of 56 bytes; what a message needs beyond that (a time, a lease, a failure)
 * sits in its `extra`. Payloads, headers and texts stay in the log. Each slot is in exactly one
 * ordered set of its queue; the set follows from its state and `aside`.
 *
 *   PENDING --claim--> PROCESSING --succeed--> SUCCEEDED --retention--> (gone)
 *      ^  ^                |  |
 *      |  +--release/fail--+  +--fail (last), permanent--> DEAD --retention--> (gone, discarded)
 *      |                                                   ^  |
 *      |           time to live ran out, from PENDING -----+  |
 *      +---------------------- replay ------------------------+
 *
 * S1 count[] of a queue equals the sizes of its sets.
 * S2 a timer exists exactly for what has a time.
 * S3 what is counted in a ledger follows from the record alone (log/record.h).
 * S4 `aside` (waiting, kept) is derived from the image and `now`: no record changes it, and it is
 *    not part of the checksum. */
#pragma once

#include "base/hash.h"
#include "base/hash_index.h"
#include "base/rng.h"
#include "base/timers.h"
#include "engine/engine.h"
#include "log/record.h"

struct slot {
    uint64_t id : 53;
    uint64_t state : 3;
    uint64_t priority : 4;
    /* pending: waits for its time; succeeded: kept for its idempotency key */
    uint64_t aside : 1;
    uint64_t updated_at : 42; /* milliseconds since the epoch: until the year 2109 */
    uint64_t deliveries : 22;
    uint64_t position8 : 56; /* of its whole image in the log, / 8 */
    uint64_t max_retries : 8;
    uint32_t bytes8; /* of that record, / 8 */
    uint32_t payload_bytes;
    uint32_t queue;       /* place in the queue table */
    uint32_t left, right; /* in its set */
    uint32_t extra;       /* 0 = none */
    uint32_t next;        /* in the chain of its id, or of the free slots */
};
#define UPDATED_AT_MOST ((UINT64_C(1) << 42) - 1)
#define POSITION8_MOST ((UINT64_C(1) << 56) - 1)
_Static_assert(sizeof(struct slot) == 56, "the memory of a pending message is a promise");

struct extra {
    int64_t next_at, expires_at, died_at, idempotency_until; /* 0 = none */
    uint64_t dead_seq;
    uint64_t history; /* position of the newest line of its story, 0 = none */
    uint64_t error;   /* position of the newest failure since the last replay */
    uint32_t history_bytes;
    uint32_t timer; /* place in the heap */
    uint8_t retry_count, reason;
    bool is_retry;
    bool has_story; /* more happened than a claim and a success */
    uint32_t next;  /* of the free ones */
};

enum set {
    SET_READY,   /* pending, by (priority, id) */
    SET_WAITING, /* pending, for a time */
    SET_PROCESSING,
    SET_SUCCEEDED,
    SET_KEPT, /* succeeded, for its idempotency key */
    SET_DEAD,
    SET_PARKED,
    SET_COUNT,
};

/* A known idempotency key. */
struct idempotency {
    struct hash128 hash; /* of queue and key */
    uint64_t id;         /* 0 = a newer entry took its place */
    int64_t until;
    uint32_t next_of_chain, next_of_queue; /* next_of_queue also links the free ones */
};

struct queue {
    uint32_t place;  /* in the queue table */
    uint64_t number; /* for ever its own */
    char *name;      /* NULL until its image was read */
    size_t name_bytes;
    uint32_t next_by_number, next_by_name;
    uint32_t older, newer; /* in order of creation */
    bool dropping, on_woken_list;
    int64_t created_at;
    struct policy policy;
    struct ledger ledger;
    uint64_t deliveries, failures, deaths;
    uint64_t next_dead_seq;
    uint64_t count[STATE_COUNT];
    uint64_t ready;
    uint64_t bytes[STATE_COUNT]; /* of payloads */
    uint32_t sets[SET_COUNT];
    uint32_t timer; /* retention and idempotency: when upkeep is due */
    /* Retention walks over the succeeded messages now and then: */
    int64_t trim_at;                   /* when the next walk begins, or goes on */
    uint64_t trim_after;               /* the id it has reached */
    int64_t trim_next_at;              /* the earliest end of retention among those it left */
    uint32_t keys_oldest, keys_newest; /* idempotency entries in order of arrival */
    uint64_t position;                 /* of its image in the log, 0 = none */
    size_t image_bytes;
    unsigned watchers;
    struct queue *next_woken;
};

struct engine_state {
    uint64_t next_id, next_queue;
    struct ledger deleted;
    uint64_t engine_position;
    size_t engine_bytes;

    struct slot **slot_pages;
    uint32_t slot_count, free_slot;
    uint64_t messages;
    struct hash_index by_id;

    struct extra **extra_pages;
    uint32_t extra_count, free_extra;

    struct queue **queues; /* by place; 0 is unused */
    uint32_t queue_count, queue_cap, live_queues, oldest_queue, newest_queue;
    uint32_t *free_places;
    uint32_t free_place_count, free_place_cap;
    struct hash_index queues_by_number, queues_by_name;
    struct queue *woken_first, *woken_last;

    struct idempotency *keys;
    uint32_t key_count, key_cap, free_key;
    struct hash_index by_key;

    struct timers timers;
    uint64_t hash_seed;
    uint64_t live_bytes;
    /* records of messages unknown since the last RECORD_CLEANED: must be 0 when the log was read */
    uint64_t orphans;
};

void state_init(struct engine_state *st, uint64_t seed);
void state_release(struct engine_state *st);

/* -- apply: the only code that changes the durable state; decides nothing -------------------- */

void apply_engine(struct engine_state *st, const struct record_engine *r, uint64_t position,
                  size_t bytes);
void apply_queue(struct engine_state *st, const struct record_queue *r, uint64_t position,
                 size_t bytes);
void apply_queue_gone(struct engine_state *st, const struct record_queue_gone *r);
void apply_message(struct engine_state *st, const struct record_message *r, uint64_t position,
                   size_t bytes);
void apply_state(struct engine_state *st, const struct record_state *r, uint64_t position,
                 size_t bytes);
void apply_gone(struct engine_state *st, const struct record_gone *r);
void apply_history(struct engine_state *st, const struct record_history *r, uint64_t position,
                   size_t bytes);
void apply_cleaned(struct engine_state *st);

/* Decodes a record as read from the log and applies it. ERR_CORRUPT when it makes no sense. */
enum err apply_record(struct engine_state *st, const struct log_record *r) MUST_CHECK;

/* -- messages (slots.c) ---------------------------------------------------------------------- */

struct slot *slot_at(const struct engine_state *st, uint32_t i);
uint32_t slot_find(const struct engine_state *st, uint64_t id); /* 0 = none */
uint32_t slot_new(struct engine_state *st, uint64_t id);        /* in the index by id, in no set */
void slot_free(struct engine_state *st, uint32_t i);            /* with its extra */
void slots_release(struct engine_state *st);
uint64_t slot_position(const struct slot *s);
size_t slot_record_bytes(const struct slot *s);
struct extra *extra_at(const struct engine_state *st, uint32_t i);
/* zeros when it has none */
const struct extra *slot_extra(const struct engine_state *st, const struct slot *s);
struct extra *slot_need_extra(struct engine_state *st, struct slot *s);
void slot_drop_extra(struct engine_state *st, struct slot *s);
struct message_image slot_image(const struct engine_state *st, const struct slot *s);

/* -- ordered sets (sets.c): treaps through the slots' own links ------------------------------ */

void set_add(struct engine_state *st, struct queue *q, enum set set, uint32_t i);
void set_remove(struct engine_state *st, struct queue *q, enum set set, uint32_t i);
uint32_t set_first(const struct engine_state *st, const struct queue *q, enum set set);
/* The first one whose key is above that of (priority, id); priority counts in SET_READY only. */
uint32_t set_after(const struct engine_state *st, const struct queue *q, enum set set,
                   unsigned priority, uint64_t id);

/* -- where a slot belongs (place.c): counts, sets and timers following its image ------------- */

enum set slot_set(const struct slot *s);
void slot_attach(struct engine_state *st, uint32_t i); /* by its image */
void slot_detach(struct engine_state *st, uint32_t i);
/* Pending whose time has come: it is ready from now on. Kept whose key's window is over: ordinary
 * retention. */
void slot_end_aside(struct engine_state *st, uint32_t i);
void queue_plan_upkeep(struct engine_state *st, struct queue *q);

/* -- queues (queue_table.c) ------------------------------------------------------------------ */

struct queue *queue_at(const struct engine_state *st, uint32_t place);
struct queue *queue_by_number(const struct engine_state *st, uint64_t number);
struct queue *queue_by_name(const struct engine_state *st, struct span name);
struct queue *queue_new(struct engine_state *st, uint64_t number); /* nameless */
void queue_set_name(struct engine_state *st, struct queue *q, struct span name);
/* its name is free; it stays until its messages are gone */
void queue_lose_name(struct engine_state *st, struct queue *q);
/* empty; freed now, or when the last watcher leaves */
void queue_remove(struct engine_state *st, struct queue *q);
void queues_release(struct engine_state *st);
struct record_queue queue_image(const struct queue *q);

/* Tells watchers that there may be something; state_woken gives one such queue back, NULL when
 * there is none. */
void queue_wake(struct engine_state *st, struct queue *q);
struct queue *state_woken(struct engine_state *st);
void queue_unwatch(struct queue *q);

/* -- idempotency keys (keys.c) --------------------------------------------------------------- */

struct hash128 key_hash(uint64_t queue, struct span key);
/* The id of the first message with this key whose window is open at `now`; 0 = none. */
uint64_t key_find(const struct engine_state *st, struct hash128 hash, int64_t now);
void key_add(struct engine_state *st, struct queue *q, struct hash128 hash, uint64_t id,
             int64_t until);
void keys_forget_until(struct engine_state *st, struct queue *q, int64_t now);
void keys_forget_all(struct engine_state *st, struct queue *q);

/* Owners in the timer heap. */
#define TIMER_OF_QUEUE 0x80000000U
