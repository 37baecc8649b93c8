/* Steps about queues and their policies. */
#include "sim/steps_int.h"

#include "base/limits.h"

static int64_t or_none(struct world *w, int64_t ms) {
    return dice(w, 2) ? 0 : 1 + (int64_t)dice(w, (uint64_t)ms);
}

/* -- guards ---------------------------------------------------------------------------------------- */

/* Each queue has an order of its own, mostly, and for ever its window: what a breaker saw is not told
 * apart by another one. */
static const struct {
    enum order order;
    int64_t window_ms;
    unsigned breaks; /* of 4, how often it has a breaker */
} kinds[MODEL_QUEUES] = {
    {ORDER_NONE, 32000, 3},  {ORDER_PARK, 16000, 1}, {ORDER_BLOCK, 80000, 2},
    {ORDER_PARK, 160000, 2}, {ORDER_NONE, 24000, 1},
};

static struct breaker_policy any_breaker(struct world *w, int queue) {
    static const uint32_t shares[] = {200000, 500000, 750000, 1000000};
    if (dice(w, 4) >= kinds[queue].breaks)
        return (struct breaker_policy){0};
    return (struct breaker_policy){.is_on = true,
                                   .share_ppm = shares[dice(w, 4)],
                                   .outcomes_min = (uint32_t)(1 + dice(w, 8)),
                                   .probes = (uint32_t)(1 + dice(w, 3)),
                                   .window_ms = kinds[queue].window_ms,
                                   .open_ms = 500 + (int64_t)dice(w, 6000)};
}

static void any_guards(struct world *w, int queue, struct policy *p, struct queue_texts *t) {
    static const uint32_t budgets[] = {1000, 50000, 200000, 500000};
    p->order = dice(w, 12) ? kinds[queue].order : (enum order)dice(w, 3);
    p->breaker = any_breaker(w, queue);
    p->retry_budget_ppm = dice(w, 3) ? 0 : budgets[dice(w, 4)];
    p->deliveries_max = dice(w, 3) ? 0 : (uint32_t)(1 + dice(w, 6));
    p->overflow = dice(w, 2) ? OVERFLOW_DEAD : OVERFLOW_REJECT;
    t->rules = (uint8_t)(dice(w, 2) ? 0 : dice(w, MODEL_RULE_SETS));
    t->breaker_error = (uint8_t)(dice(w, 2) ? 0 : dice(w, MODEL_PATTERNS));
    t->target = (uint8_t)(dice(w, 3) ? 1 + dice(w, MODEL_QUEUES) : 0);
    t->allow = (uint8_t)(dice(w, 2) ? 0 : 1 + dice(w, (2U << MODEL_QUEUES) - 1));
    if (dice(w, 2))
        p->target_reasons &= (uint32_t)dice(w, 1U << REASON_COUNT);
}

static void same_guards(const struct model_queue *q, struct policy *p, struct queue_texts *t) {
    p->order = q->policy.order;
    p->breaker = q->policy.breaker;
    p->retry_budget_ppm = q->policy.retry_budget_ppm;
    p->deliveries_max = q->policy.deliveries_max;
    p->overflow = q->policy.overflow;
    p->target_reasons = q->policy.target_reasons;
    *t = q->texts;
}

/* -- policies -------------------------------------------------------------------------------------- */

static struct policy any_policy(struct world *w) {
    struct policy p = policy_default();
    p.max_retries = (uint8_t)(1 + dice(w, dice(w, 5) ? 5 : 250));
    p.backoff.kind = (enum backoff_kind)dice(w, 3);
    p.backoff.jitter = dice(w, 4) ? JITTER_NONE : (enum jitter)dice(w, 3);
    p.backoff.base_ms = (int64_t)dice(w, 3000);
    p.backoff.cap_ms = (int64_t)dice(w, 60000);
    p.backoff.factor_milli = (uint32_t)(1000 + dice(w, 3000));
    p.backoff.list_count = (uint32_t)(1 + dice(w, LIMIT_BACKOFF_LIST));
    for (uint32_t i = 0; i < p.backoff.list_count; i++)
        p.backoff.list_seconds[i] = (uint32_t)dice(w, 20);
    p.lease_ms = 1000 + (int64_t)dice(w, 60000);
    p.delay_ms = dice(w, 4) ? 0 : (int64_t)dice(w, 3000);
    p.ttl_ms = dice(w, 4) ? 0 : 1000 + (int64_t)dice(w, 100000);
    p.messages_max = dice(w, 2) ? 0 : 1 + dice(w, 80);
    p.bytes_max = dice(w, 4) ? 0 : 1 + dice(w, 300000);
    p.idempotency_window_ms = 1000 + (int64_t)dice(w, 120000);
    p.keep_succeeded_ms = (int64_t)dice(w, 60000);
    p.keep_succeeded_max = dice(w, 40);
    p.keep_dead_ms = or_none(w, 200000);
    p.redrive_limit = (uint32_t)dice(w, 5);
    return p;
}

void put_queue(struct world *w, int queue) {
    struct op *op = world_op(w, OP_QUEUE_PUT, queue);
    const struct model_queue *q = &w->live.queues[queue];
    op->has_policy = dice(w, 8) != 0;
    op->who = any_who(w);
    op->policy = any_policy(w);
    if (q->exists && dice(w, 2))
        same_guards(q, &op->policy, &op->texts);
    else
        any_guards(w, queue, &op->policy, &op->texts);
    world_run(w, op);
}

/* -- steps ----------------------------------------------------------------------------------------- */

void step_queue_put(struct world *w) {
    put_queue(w, any_queue(w));
}

static void put_target(struct world *w, int queue, int target) {
    const struct model_queue *q = &w->live.queues[queue];
    struct op *op = world_op(w, OP_QUEUE_PUT, queue);
    op->has_policy = true;
    op->policy = q->policy;
    op->policy.target_reasons = policy_default().target_reasons;
    op->texts = q->texts;
    op->texts.target = (uint8_t)(target + 1);
    world_run(w, op);
}

/* Targets that lead back to where a message was dead-lettered from: no circle at any time, and yet it
 * may come round. */
void step_turn_target(struct world *w) {
    const struct model *m = &w->live;
    size_t start = m->message_count ? dice(w, m->message_count) : 0;
    for (size_t i = 0; i < m->message_count; i++) {
        const struct model_message *x = &m->messages[(start + i) % m->message_count];
        if (x->trail.n == 0 || x->state != STATE_PENDING)
            continue;
        int here = x->queue, from = 0;
        while (from < MODEL_QUEUES && m->queues[from].serial != x->trail.serials[x->trail.n - 1])
            from++;
        if (from == MODEL_QUEUES || !m->queues[from].exists || from == here)
            return;
        put_target(w, from, -1);
        put_target(w, here, from);
        return;
    }
}

void step_queue_delete(struct world *w) {
    struct op *op = world_op(w, OP_QUEUE_DELETE, any_queue(w));
    op->discard = dice(w, 3) == 0;
    op->who = any_who(w);
    world_run(w, op);
}

void step_queue_pause(struct world *w) {
    struct op *op = world_op(w, OP_QUEUE_PAUSE, any_queue(w));
    op->paused = dice(w, 8) == 0;
    op->who = any_who(w);
    world_run(w, op);
}

void step_watch(struct world *w) {
    world_run(w, world_op(w, OP_WATCH, any_queue(w)));
}
