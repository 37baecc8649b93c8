/* Engines whose guards are broken on purpose: for the time of an operation a queue's policy in memory is
 * not what it was given, or what a guard remembers is spoilt behind it. */
#include "sim/world.h"

#include "engine/engine_int.h"

/* -- for the time of an operation -------------------------------------------------------------------- */

static struct saved {
    struct policy policy;
    const char *texts_memory;
    struct policy_texts texts;
    struct rules *rules;
    enum breaker_state breaker;
} saved[2 * MODEL_QUEUES + 1];

static void spoil_queue(enum control control, struct queue *q) {
    switch ((int)control) {
    case CONTROL_ORDER_UNPARKED:
        if (q->policy.order == ORDER_PARK)
            q->policy.order = ORDER_BLOCK;
        break;
    case CONTROL_BREAKER_COSTS:
        if (q->breaker == BREAKER_OPEN)
            q->breaker = BREAKER_CLOSED;
        break;
    case CONTROL_BUDGET_FORGOTTEN:
        q->policy.retry_budget_ppm = 0;
        break;
    case CONTROL_DELIVERIES_UNBOUND:
        q->policy.deliveries_max = 0;
        break;
    case CONTROL_TARGET_FORGOTTEN:
        q->texts.target.n = 0;
        break;
    case CONTROL_TARGET_UNASKED:
        q->texts.allow_from.n = 0;
        break;
    case CONTROL_OVERFLOW_FORGOTTEN:
        q->policy.messages_max = q->policy.bytes_max = 0;
        break;
    case CONTROL_OVERFLOW_REJECTS:
        q->policy.overflow = OVERFLOW_REJECT;
        break;
    case CONTROL_RULES_FORGOTTEN:
        q->rules = NULL;
        break;
    default:
        break;
    }
}

static void save_queue(struct saved *s, const struct queue *q) {
    *s = (struct saved){q->policy, q->texts_memory, q->texts, q->rules, q->breaker};
}

/* What the operation itself gave the queue stays. */
static void mend_queue(enum control control, const struct saved *s, struct queue *q) {
    q->policy = s->policy;
    if (control == CONTROL_BREAKER_COSTS && s->breaker == BREAKER_OPEN &&
        q->breaker == BREAKER_CLOSED)
        q->breaker = s->breaker;
    if (q->texts_memory == s->texts_memory) {
        q->texts = s->texts;
        q->rules = s->rules;
    } else if (control == CONTROL_RULES_FORGOTTEN) {
        rules_free(s->rules);
    }
}

static bool is_spoilt(enum control control, enum op_kind kind) {
    if (control == CONTROL_BREAKER_COSTS)
        return kind == OP_SETTLE;
    return control >= CONTROL_ORDER_UNPARKED && control <= CONTROL_RULES_FORGOTTEN &&
           (kind == OP_ENQUEUE || kind == OP_CLAIM || kind == OP_SETTLE || kind == OP_TICK);
}

/* When its breaker turned, the spoilt policy would be written down, and found by that alone. */
static bool may_be_written(enum control control, const struct op *op, const struct queue *q) {
    bool may_turn = q->policy.breaker.is_on || q->rules || q->breaker != BREAKER_CLOSED;
    bool is_asked = op->kind == OP_TICK ||
                    span_equal(model_queue_name(op->queue), span_of(q->name, q->name_bytes));
    return may_turn && is_asked && control != CONTROL_BREAKER_COSTS &&
           control != CONTROL_RULES_FORGOTTEN;
}

/* A queue that the operation makes is left alone. */
void world_spoil_guards(struct world *w, const struct op *op, bool begins) {
    struct engine_state *st = &w->engine->st;
    static size_t count;
    size_t n = 0, most = begins ? sizeof saved / sizeof *saved : count;
    if (!is_spoilt(w->control, op->kind))
        return;
    for (uint32_t i = st->oldest_queue; i && n < most; i = queue_at(st, i)->newer) {
        struct queue *q = queue_at(st, i);
        if (q->dropping || !q->name)
            continue;
        if (begins) {
            save_queue(&saved[n++], q);
            if (!may_be_written(w->control, op, q))
                spoil_queue(w->control, q);
        } else {
            mend_queue(w->control, &saved[n++], q);
        }
    }
    count = n;
}

/* -- after an operation ------------------------------------------------------------------------------ */

/* A message that waits behind another of its key may go. */
void spoil_order(struct world *w) {
    struct engine_state *st = &w->engine->st;
    for (size_t i = 0; i < w->live.message_count; i++) {
        uint32_t slot = slot_find(st, w->live.messages[i].id);
        if (!slot || slot_set(slot_at(st, slot)) != SET_HELD)
            continue;
        slot_set_held(st, slot, false);
        return;
    }
}

/* What is open lets everything through. */
void spoil_breaker(struct world *w) {
    struct engine_state *st = &w->engine->st;
    for (uint32_t i = st->oldest_queue; i; i = queue_at(st, i)->newer)
        if (queue_at(st, i)->breaker == BREAKER_OPEN)
            queue_at(st, i)->breaker = BREAKER_CLOSED;
}
