/* One simulated server: an engine and its log on a disk that fails, beside a model of what they should do.
 *
 * An operation is acknowledged when the batch it went with was synced. `base` is the model after all acknowledged operations, `ops` are
 * those since, `live` is the model after all. After a restart the engine must equal `base` and a prefix of the frames of `ops`: a frame
 * is there whole or not at all, and nothing behind a missing one is. */
#pragma once

#include "base/rng.h"
#include "sim/crash_io.h"
#include "sim/model.h"

#define SIM_RING 20
#define SIM_LINE 160

enum control {
    CONTROL_NONE,
    CONTROL_REPLY_BEFORE_SYNC, /* operations count as acknowledged at once */
    CONTROL_LOST_FRAME,        /* syncs that do nothing */
    CONTROL_SKIP_CLEAN_CARRY,  /* segments are dropped without carrying what lives in them */
    CONTROL_DOUBLE_CLAIM,      /* a claim's reply names a message somebody else holds */
};
#define CONTROL_COUNT 5

/* What a run tells; in memory that outlives the process it runs in. */
struct report {
    uint64_t steps, operations, power_losses, kills, restarts, faults, cleaned, bytes;
    uint64_t step; /* the last one begun */
    char ring[SIM_RING][SIM_LINE];
    uint64_t ring_count;
    char text[400]; /* what went wrong */
};

struct world {
    enum control control;
    bool trace, aborts; /* aborts: what goes wrong ends in abort(), for fuzzers */
    struct report *report;
    struct rng rng; /* seeded anew each step, so that leaving one out changes no other */
    int64_t now;

    struct crash_io *disk;
    struct log *log;
    struct engine *engine;
    bool batch_out, batch_written;
    int64_t next_due;      /* as the last tick said */
    bool blocked;          /* the last tick found no room: what is ready is not known */
    struct queue *watched; /* by the engine that runs now */
    uint64_t faults_told;
    uint64_t capacity_until; /* step at which a small disk grows again, 0 = it is not small */

    struct model live, base, scratch;
    struct op **ops;
    size_t op_count, op_cap;
    uint32_t next_tag;
};

struct world *world_new(uint64_t seed, enum control control, bool trace, struct report *report);
void world_free(struct world *w);

/* Says what went wrong and ends the process. */
_Noreturn void world_fail(struct world *w, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void world_note(struct world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* An operation to fill in; world_run does it, compares, and keeps it. */
struct op *world_op(struct world *w, enum op_kind kind, int queue);
void world_run(struct world *w, struct op *op);

/* Steps of a commit. False when the disk is full. May end the process and start the next one. */
void world_take(struct world *w);
bool world_write(struct world *w);
void world_done(struct world *w);
bool world_commit(struct world *w);

void world_tick(struct world *w);
void world_clean(struct world *w);

/* The process ends, with or without the power; the next one starts, and is compared. */
void world_crash(struct world *w, bool power);

/* Compares everything now. */
void world_compare(struct world *w);

/* One step of the simulation (steps.c): by chance, or a given kind of it. */
void world_step(struct world *w);
void world_step_of(struct world *w, unsigned kind); /* any number */
/* No more faults: everything is settled in bounded time. */
void world_settle_all(struct world *w);
