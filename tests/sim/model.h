/* What queues should do, as naively as it can be said: arrays and linear scans, no disk, no cleverness. The simulator runs the same
 * operations through this model and through the engine and compares.
 *
 * Three things the engine is free to choose are looked up in the engine the first time, checked against what is allowed, and remembered in
 * the operation, so that it can be applied again to an older model: the jitter of a backoff, which succeeded messages retention lets go
 * first, and what a full disk left undone. */
#pragma once

#include "engine/engine.h"

#include <stdbool.h>
#include <stdint.h>

#define MODEL_QUEUES 5
#define MODEL_MESSAGES 1024
#define MODEL_STORY 16 /* lines compared of a story; longer ones by their ends */
#define MODEL_KEYS 4096
#define MODEL_BATCH 64

/* -- operations -------------------------------------------------------------------------------------- */

enum op_kind {
    OP_ENQUEUE,
    OP_CLAIM,
    OP_SETTLE,
    OP_REPLAY,
    OP_QUEUE_PUT,
    OP_QUEUE_DELETE,
    OP_WATCH,
    OP_TICK,
};

struct op_item {
    /* enqueue: payload, headers and key follow from the tag */
    uint32_t tag, payload_bytes, headers_bytes;
    uint8_t key_bytes, idempotency; /* 0 = none */
    uint8_t max_retries, priority;
    int64_t delay_ms, ttl_ms;
    /* settle: texts follow from the tag, 0 = none */
    enum settle_action action;
    uint64_t id;
    uint32_t lease;
    int64_t lease_ms;
    bool permanent;
};

struct op {
    enum op_kind kind;
    int64_t now;
    int queue;
    size_t n;
    struct op_item items[MODEL_BATCH];
    struct claim claim;
    uint8_t worker;
    uint64_t id;
    bool has_policy, discard;
    struct policy policy;
    bool full;      /* the disk was: not all that is due may have been done */
    enum err error; /* what the engine said, where only it can know (ERR_DISK_FULL) */
    uint64_t end;   /* position in the log after it */
    unsigned limit; /* frames of it to apply; UINT32_MAX = all */
    uint64_t *seen; /* what was looked up in the engine, in order */
    size_t seen_count, seen_cap, seen_next;
};

void op_release(struct op *op);

/* What the verb should have answered. */
struct outcome {
    enum err error;
    size_t n;
    uint64_t ids[MODEL_BATCH];
    bool duplicates[MODEL_BATCH];
    enum err results[MODEL_BATCH];
    bool created;
};

/* -- the model ----------------------------------------------------------------------------------------- */

struct model_line {
    enum event event;
    uint32_t attempt, tag;
    int64_t at, next_at;
    uint8_t worker;
};

struct model_story {
    size_t n;
    struct model_line lines[MODEL_STORY], last;
};

struct model_message {
    uint64_t id;
    int queue;
    enum state state;
    enum reason reason;
    uint8_t retry_count, max_retries, priority;
    bool is_retry;
    bool waiting; /* pending: not ready before a tick says so */
    bool kept;    /* succeeded: its idempotency window is open */
    uint32_t deliveries;
    int64_t created_at, updated_at, next_at, expires_at, ttl_ms, died_at, idempotency_until;
    uint32_t tag, payload_bytes, headers_bytes;
    uint8_t key_bytes;
    bool has_error;
    uint32_t error_tag;
    size_t story;
};

struct model_queue {
    bool exists;
    int64_t created_at;
    uint64_t serial; /* order of creation */
    struct policy policy;
    struct ledger ledger;
    uint64_t deliveries, failures, deaths;
};

struct model_key {
    int queue;
    uint8_t key;
    uint64_t id;
    int64_t until;
};

struct model {
    uint64_t next_id, next_serial;
    int64_t latest; /* the latest time any operation had */
    struct model_queue queues[MODEL_QUEUES];
    struct ledger deleted, dropping; /* of deleted queues: gone, and on their way out */
    uint64_t dropping_messages;
    size_t message_count, key_count;
    struct model_message messages[MODEL_MESSAGES]; /* by id */
    struct model_key keys[MODEL_KEYS];
    struct model_story stories[MODEL_MESSAGES];
    size_t free_stories[MODEL_MESSAGES], free_story_count;
};

void model_init(struct model *m);

/* Applies an operation. With an engine: it has just done the same, and choices are looked up there (which items it called duplicates stands
 * in ret->duplicates); without: as remembered in op. A choice
 * that is not allowed is said in `wrong` (its size `wrong_bytes`), which stays empty otherwise. */
void model_apply(struct model *m, struct op *op, struct engine *look, struct outcome *ret,
                 char *wrong, size_t wrong_bytes);

/* What a restart changes: who waits is decided anew from times. */
void model_restart(struct model *m);

struct model_message *model_find(struct model *m, uint64_t id); /* NULL when it is gone */
uint64_t model_unfinished(const struct model *m, int queue);    /* without the dead */

/* Compares all there is to see of one queue but its messages / of one message / of all. False with the first difference in text.
 * `ready` false: leaves out what a tick that found no room left open. */
bool model_same_queue(const struct model *m, struct engine *e, int queue, bool ready, char *text,
                      size_t text_bytes);
bool model_same_message(const struct model *m, struct engine *e, const struct model_message *want,
                        bool story, char *text, size_t text_bytes);
bool model_same(const struct model *m, struct engine *e, bool ready, char *text, size_t text_bytes);

/* -- bytes that follow from a number ------------------------------------------------------------------------ */

struct span model_queue_name(int queue);
struct span model_worker(uint8_t worker);
/* Valid until the next call with the same `slot` (0..3). */
struct span model_bytes(unsigned slot, uint32_t tag, size_t n);
struct span model_error(uint32_t tag); /* as given: may be too long; valid for ever */
struct span model_error_class(uint32_t tag);
struct span model_detail(uint32_t tag);
#define MODEL_LEASE_TAG UINT32_MAX /* the texts of an expired lease */
