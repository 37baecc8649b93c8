/* The world of brokers: a simulated server beside the model of broker.h. What it shares with the other
 * world (disk, log, committing, crashing) is in world.h. */
#pragma once

#include "sim/broker.h"
#include "sim/world.h"

extern const struct world_kind world_of_brokers;

struct broker_world {
    struct broker live, base, scratch; /* as in struct world */
    struct broker_op **ops;
    size_t op_count, op_cap;
};

/* An operation to fill in; broker_run does it, compares, and keeps it. */
struct broker_op *broker_op(struct world *w, enum broker_op_kind kind, struct place name);
void broker_run(struct world *w, struct broker_op *op);
const char *broker_op_name(enum broker_op_kind kind);

/* What the operation does in the engine (broker_do.c). */
enum err broker_do(struct world *w, struct broker_op *op, struct broker_reply *got);

/* What the engine did of itself between the positions of the operation (broker_look.c). */
void broker_look(struct world *w, struct broker_op *op);

/* Break the engine as the control says, for the time of an operation, or behind it (broker_controls.c). */
void broker_spoil(struct world *w, const struct broker_op *op, bool begins);
void broker_spoil_after(struct world *w, const struct broker_op *op);

void broker_compare(struct world *w);
void broker_step(struct world *w);
void broker_settle_all(struct world *w);
