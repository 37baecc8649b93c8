/* The engine: the verbs of a queue and the state they act on.
 *
 * A verb checks the request against the state and *decides*: it appends effect records to the log
 * and apply_* changes the state by them, here and on recovery alike. An enqueue is one frame, all
 * or none; what a claim, a settle or a tick does to each message is a frame of its own: after a
 * crash some may be done and some not, and nobody was told. An error means that nothing the caller
 * asked for was done. What was done counts when log_durable() reaches log_end() as it was after the
 * call: the caller holds the reply back until then, also for reads.
 *
 * No clock, no socket, no thread, no global: `now` is an argument (milliseconds; it may go back),
 * random bits come from the seed, and the only file access is through the log. One engine belongs
 * to one thread.
 *
 * Spans given are borrowed for the call; spans returned are valid until the next call on this
 * engine. */
#pragma once

#include "base/bytes.h"
#include "log/log.h"
#include "model/message.h"
#include "model/policy.h"

#include <stdbool.h>

struct engine;

/* An empty engine. `seed` feeds jitter and hash order. */
struct engine *engine_new(uint64_t seed);
void engine_free(struct engine *e); /* not its log; NULL is fine */

/* Recovery: the reader to open the log with, then the log to go on with. After a failed log_open
 * only engine_free may follow. */
struct log_reader engine_reader(struct engine *e);
void engine_attach(struct engine *e, struct log *log);
/* False when what was read misses something it speaks of: the log is damaged in a way its checksums
 * cannot tell. Ask before attaching. */
bool engine_is_whole(const struct engine *e);

/* -- producing ------------------------------------------------------------------------------- */

struct enqueued {
    uint64_t id;
    bool duplicate; /* known idempotency key: id is the first message's */
};

/* All n (1..LIMIT_BATCH) or none; makes the queue when it is missing. ret: n entries.
 * ERR_QUEUE_FULL, ERR_TOO_MANY_QUEUES, ERR_TOO_LARGE (the batch does not fit one frame),
 * ERR_DISK_FULL. */
enum err engine_enqueue(struct engine *e, int64_t now, struct span queue,
                        const struct message_new *items, size_t n, struct enqueued *ret) MUST_CHECK;

/* The id of the message first enqueued with this idempotency key, when its window is still open.
 * ERR_NO_QUEUE, ERR_NO_MESSAGE. */
enum err engine_key_find(struct engine *e, int64_t now, struct span queue, struct span key,
                         uint64_t *ret_id) MUST_CHECK;

/* -- consuming ------------------------------------------------------------------------------- */

struct claim {
    size_t count;     /* 1..LIMIT_BATCH */
    int64_t lease_ms; /* 0 = the queue's */
    /* of payload and headers together; the first message is given whatever its size */
    size_t bytes_max;
    struct span worker, worker_version;
};

/* Hands out up to count ready messages; their deliveries are raised. *ret_n is 0 when there is
 * nothing (also when there is no such queue). ERR_DISK_FULL. The lease token of a message is its
 * `deliveries`. */
enum err engine_claim(struct engine *e, int64_t now, struct span queue, const struct claim *claim,
                      uint64_t *ret_ids, size_t *ret_n) MUST_CHECK;

enum settle_action { SETTLE_SUCCEED, SETTLE_FAIL, SETTLE_RELEASE, SETTLE_EXTEND };

struct settle {
    enum settle_action action;
    uint64_t id;
    uint32_t lease;   /* deliveries at the claim; 0 = whoever holds it */
    int64_t delay_ms; /* fail: instead of the backoff; release: until due again; -1 = not given */
    int64_t lease_ms; /* extend: from now; 0 = the queue's */
    bool permanent;   /* fail: dead at once */
    struct span error, error_class, detail; /* fail; cut to their limits */
};

/* Settles n (1..LIMIT_BATCH) items in order, each OK or an error in ret_results: ERR_NO_MESSAGE,
 * ERR_WRONG_STATE, ERR_STALE_LEASE. Returns ERR_NO_QUEUE, ERR_DISK_FULL, ERR_TOO_LARGE for the
 * whole. */
enum err engine_settle(struct engine *e, int64_t now, struct span queue, const struct settle *items,
                       size_t n, enum err *ret_results) MUST_CHECK;

/* A dead message becomes pending with no failures. ERR_NO_QUEUE, ERR_NO_MESSAGE, ERR_WRONG_STATE,
 * ERR_DISK_FULL. */
enum err engine_replay(struct engine *e, int64_t now, struct span queue, uint64_t id) MUST_CHECK;

/* -- queues ---------------------------------------------------------------------------------- */

/* Makes the queue with this policy (NULL: the default), or gives it the policy (NULL: leaves it).
 * ERR_TOO_MANY_QUEUES, ERR_DISK_FULL. */
enum err engine_queue_put(struct engine *e, int64_t now, struct span queue,
                          const struct policy *policy, bool *ret_created) MUST_CHECK;

/* ERR_NOT_EMPTY unless `discard`; ERR_NO_QUEUE, ERR_DISK_FULL. The name is free at once; its
 * messages go in later turns of engine_tick. */
enum err engine_queue_delete(struct engine *e, int64_t now, struct span queue,
                             bool discard) MUST_CHECK;

struct queue_view {
    struct span name;
    int64_t created_at;
    const struct policy *policy;
    /* messages now, by state; STATE_SUCCEEDED: what retention still holds */
    uint64_t count[STATE_COUNT];
    uint64_t ready; /* part of pending that can be claimed */
    /* payload and headers of what is pending, processing, parked or dead */
    uint64_t bytes;
    struct ledger ledger;
    uint64_t deliveries, failures, deaths; /* totals, as counted since the log was begun */
    int64_t oldest_ready_at; /* since when the first in line has been as it is, 0 = none */
};

/* True when the equation of conservation holds for it. */
bool queue_view_holds(const struct queue_view *q);

/* ERR_NO_QUEUE */
enum err engine_queue(struct engine *e, struct span queue, struct queue_view *ret) MUST_CHECK;

/* Walks the queues in order of creation, beginning after the named one (empty: from the first;
 * ERR_NO_QUEUE); stops when f says false. */
enum err engine_queues(struct engine *e, struct span after,
                       bool (*f)(void *ctx, const struct queue_view *q), void *ctx) MUST_CHECK;

/* -- reading --------------------------------------------------------------------------------- */

/* ERR_NO_QUEUE, ERR_NO_MESSAGE. */
enum err engine_message(struct engine *e, struct span queue, uint64_t id,
                        struct message_view *ret) MUST_CHECK;

/* Its state alone, without reading the log. ERR_NO_QUEUE, ERR_NO_MESSAGE. */
enum err engine_message_state(struct engine *e, struct span queue, uint64_t id,
                              enum state *ret) MUST_CHECK;

/* The story, oldest first. ERR_NO_QUEUE, ERR_NO_MESSAGE. */
enum err engine_history(struct engine *e, struct span queue, uint64_t id,
                        void (*f)(void *ctx, const struct history_entry *entry),
                        void *ctx) MUST_CHECK;

struct list {
    int state;      /* enum state, or -1 for all */
    uint64_t after; /* only ids above */
    size_t offset;  /* skip so many */
    size_t limit;   /* 1..LIMIT_BATCH */
};
/* Ids in creation order into ret_ids (list->limit entries); *ret_n of them. None when there is no
 * such queue. */
void engine_list(struct engine *e, struct span queue, const struct list *list, uint64_t *ret_ids,
                 size_t *ret_n);

/* -- time and upkeep ------------------------------------------------------------------------- */

/* Moves what is due: retries, delays, leases, times to live, retention, deleted queues; a bounded
 * amount of work. Returns when to call again: `now` when more is due already, TIME_NEVER when
 * nothing has a time. With a full disk it waits. */
int64_t engine_tick(struct engine *e, int64_t now);

/* Carries live records of the oldest segment forward, a bounded amount; true when it should be
 * called again next turn. */
bool engine_clean(struct engine *e);

/* Waiting consumers: a watched queue that has ready messages is reported by engine_woken, once,
 * until it is asked again. Watches nest. A queue handle stays valid while it is watched, even when
 * the queue is deleted. */
struct queue;
/* makes it */
enum err engine_watch(struct engine *e, int64_t now, struct span queue,
                      struct queue **ret) MUST_CHECK;
void engine_unwatch(struct engine *e, struct queue *q);
struct queue *engine_woken(struct engine *e); /* NULL when there is none (any more) */

/* -- for metrics, tests and tools ------------------------------------------------------------ */

struct engine_stats {
    uint64_t queues, messages;
    uint64_t live_bytes;    /* what the live records take in the log */
    struct ledger deleted;  /* of the queues that are gone */
    uint64_t cleaned_bytes; /* carried forward since the start */
};
struct engine_stats engine_stats(const struct engine *e);

/* A checksum over the durable state, independent of positions in the log: two engines that agree
 * hold the same. Slow. */
uint64_t engine_checksum(const struct engine *e);

/* Recounts everything from the messages and compares with the maintained counters; false, with the
 * first difference in text. Slow. */
bool engine_verify(const struct engine *e, char *text, size_t text_bytes);
