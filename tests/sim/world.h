/* One simulated server: an engine and its log on a disk that fails, beside a model of what they should do.
 *
 * There are two kinds of it, which share the disk, the log, committing and crashing (world.c): of queues (world_run.c) and of a broker with its
 * exchanges (broker_world.c). What follows from `live` on is the first one's.
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

/* Harnesses and engines broken on purpose: each must be found out. */
enum control {
    CONTROL_NONE,
    CONTROL_REPLY_BEFORE_SYNC, /* operations count as acknowledged at once */
    CONTROL_LOST_FRAME,        /* syncs that do nothing */
    CONTROL_SKIP_CLEAN_CARRY,  /* segments are dropped without carrying what lives in them */
    CONTROL_DOUBLE_CLAIM,      /* a claim's reply names a message somebody else holds */
    /* controls.c: */
    CONTROL_JOB_SENDS_TWICE, /* a letter that a job sent and that died again goes once more */
    CONTROL_JOB_COUNT_DRIFT, /* a job counts a success that never was */
    CONTROL_JOB_ABOVE_FENCE, /* a job takes a letter that died after it was made */
    CONTROL_JOB_TOO_FAST,    /* a second's letters in each tick */
    CONTROL_JOB_NO_SAMPLE,   /* more than the sample */
    CONTROL_JOB_NO_STOP,     /* whatever dies again */
    CONTROL_JOB_OVERTAKES,   /* what a job sent goes before what was there */
    CONTROL_AUDIT_LOST,      /* a change without its entry */
    CONTROL_AUDIT_APART,     /* its entry is in another frame */
    CONTROL_DEAD_SEQ_AGAIN,  /* one number for two deaths */
    CONTROL_GROUP_DRIFT,     /* a group counts a death that never was */
    CONTROL_LETTER_TOUCHED,  /* a letter changes, and nobody asked for it */
    CONTROL_LETTER_UNLISTED, /* a dead letter is on no page */
    CONTROL_LETTER_KEPT,     /* retention of dead letters is forgotten */
    CONTROL_LETTER_EARLY,    /* retention takes them too early */
    /* controls_guards.c: */
    CONTROL_ORDER_OVERTAKES,    /* a message goes before others of its key */
    CONTROL_BREAKER_FORGETS,    /* an open breaker lets everything through */
    CONTROL_ORDER_UNPARKED,     /* a dead head lets its key go on */
    CONTROL_BREAKER_COSTS,      /* failures while it is open cost an attempt */
    CONTROL_BUDGET_FORGOTTEN,   /* retries have no budget */
    CONTROL_DELIVERIES_UNBOUND, /* deliveries are not counted */
    CONTROL_TARGET_FORGOTTEN,   /* dead letters stay */
    CONTROL_TARGET_UNASKED,     /* they move to a queue that does not take them */
    CONTROL_OVERFLOW_FORGOTTEN, /* queues hold any number */
    CONTROL_OVERFLOW_REJECTS,   /* what should have been accepted, and dead */
    CONTROL_RULES_FORGOTTEN,    /* failures are not classified */
    /* broker_controls.c: */
    CONTROL_BROKERS,
    CONTROL_SETTINGS_UNMERGED = CONTROL_BROKERS, /* policies by pattern do not hold */
    CONTROL_TTL_FORGOTTEN,                       /* messages expire by no queue */
    CONTROL_RETURNS_UNBOUND,                     /* any number of returns */
    CONTROL_DLX_FORGOTTEN,                       /* dead letters stay, or are discarded */
    CONTROL_DLRK_FORGOTTEN,                      /* they keep their keys */
    CONTROL_LENGTH_FORGOTTEN,                    /* queues have any length */
    CONTROL_REFUSED_KEPT,                        /* what should have been refused is there */
    CONTROL_PRIORITY_FORGOTTEN,                  /* queues have no priorities */
    CONTROL_KEEP_FORGOTTEN,                      /* what should have been kept is discarded */
    CONTROL_TRANSIENT_KEPT,                      /* queues that do not outlive a restart */
    CONTROL_HELD_KEPT,                           /* what connections held is not given back */
    CONTROL_ORPHAN_KEPT,                         /* exchanges do not delete themselves */
    CONTROL_ALTERNATE_FORGOTTEN,                 /* exchanges have no alternate ones */
    CONTROL_QUEUE_MISSED,                        /* a queue does not get what it should */
    CONTROL_COPY_MISSING,                        /* a dead letter does not go to all */
    CONTROL_COPIES_APART,                        /* its copies are in another frame */
    CONTROL_TAIL_DROPPED,                        /* another than the head is dropped */
    CONTROL_CIRCLE_DROPS,                        /* what leads nowhere is dropped */
    CONTROL_DEATH_UNTOLD,                        /* its envelope says nothing of it */
    CONTROL_ARRIVAL_FORGOTTEN,                   /* dead letters overtake */
    CONTROL_UNROUTABLE_UNMARKED,                 /* a letter that leads nowhere is not marked */
    CONTROL_BINDING_FORGOTTEN,                   /* it was made, and is not there */
    CONTROL_COUNT
};

/* What a run tells; in memory that outlives the process it runs in. */
struct report {
    uint64_t steps, operations, power_losses, kills, restarts, faults, cleaned, bytes;
    uint64_t step; /* the last one begun */
    char ring[SIM_RING][SIM_LINE];
    uint64_t ring_count;
    char text[400]; /* what went wrong */
};

struct world;
struct broker_world;

struct world_kind {
    const char *name;
    void (*begin)(struct world *w); /* a new log was opened */
    void (*release)(struct world *w);
    /* What was done up to that position is on disk, and its replies went out. */
    void (*certain)(struct world *w, uint64_t durable);
    /* The next process has read a log that ends there: compares, and goes on. */
    void (*survive)(struct world *w, uint64_t end);
    void (*step)(struct world *w);
    /* No more faults: everything is settled in bounded time. */
    void (*settle_all)(struct world *w);
};
extern const struct world_kind world_of_queues;

struct world {
    const struct world_kind *kind;
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

    struct broker_world *broker;
    struct model live, base, scratch;
    struct op **ops;
    size_t op_count, op_cap;
    uint32_t next_tag;
};

struct world *world_new(const struct world_kind *kind, uint64_t seed, enum control control,
                        bool trace, struct report *report);
void world_free(struct world *w);

/* Says what went wrong and ends the process. */
_Noreturn void world_fail(struct world *w, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void world_note(struct world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Break the engine as the control says (controls.c): after an operation; for the time of a tick; for
 * that of a look at pages of letters; a replay: false when it is not to be spoilt. */
void world_spoil(struct world *w);
void world_spoil_tick(struct world *w, bool begins);
void world_spoil_guards(struct world *w, const struct op *op, bool begins); /* for that of it */
void spoil_order(struct world *w);
void spoil_breaker(struct world *w);
void world_spoil_pages(struct world *w, bool begins);
/* What was appended is on disk, and what follows may not get there. */
void world_write_now(struct world *w);
bool world_replay_spoilt(struct world *w, const struct op *op);

/* An operation to fill in; world_run does it, compares, and keeps it. */
struct op *world_op(struct world *w, enum op_kind kind, int queue);
void world_run(struct world *w, struct op *op);
void world_op_free(struct op *op); /* one that is not run */

/* What the operation does in the engine; `got` is what it said. (world_ops.c) */
enum err world_do(struct world *w, struct op *op, struct outcome *got);
const char *world_op_name(enum op_kind kind);
struct job_new world_job_new(const struct op *op);
/* Compares the reply, and what the operation touched. */
void world_compare_reply(struct world *w, const struct op *op, const struct outcome *got,
                         const struct outcome *want);
void world_compare_touched(struct world *w, const struct op *op, const struct outcome *got,
                           uint64_t audit_before);

/* Without too much that waits for the disk. */
bool world_has_room(struct world *w);
/* Steps of a commit. False when the disk is full. May end the process and start the next one. */
void world_take(struct world *w);
bool world_write(struct world *w);
void world_done(struct world *w);
bool world_commit(struct world *w);
/* All of it, without any fault. */
void world_commit_safely(struct world *w);

void world_tick(struct world *w);
void world_clean(struct world *w);

/* The process ends, with or without the power; the next one starts, and is compared. */
void world_crash(struct world *w, bool power);

/* The engine recounts itself. */
void world_verify(struct world *w);
/* Compares everything now. */
void world_compare(struct world *w);

/* One step of the simulation (steps.c): by chance, or a given kind of it. */
void world_step(struct world *w);
void world_step_of(struct world *w, unsigned kind); /* any number */
/* No more faults: everything is settled in bounded time. */
void world_settle_all(struct world *w);
