/* The breaker and the retry budget, as the model has them. What they saw lately is forgotten in a
 * restart; in which state the breaker is, is not. */
#include "sim/model_int.h"

#include <string.h>

#define MILLION 1000000
#define BUDGET_WINDOW_MS 60000
#define BUDGET_CLAIMS_MIN 20
#define PROBES_BETWEEN 8
/* Of one that a rule opened in a queue without a breaker: */
#define OPEN_MS 30000
#define PROBES 1

/* -- windows --------------------------------------------------------------------------------------- */

static int64_t part_of(int64_t now, int64_t window_ms) {
    return now / (window_ms / MODEL_PARTS);
}

static void window_add(struct model_window *w, int64_t now, int64_t window_ms, bool is_bad) {
    int64_t number = part_of(now, window_ms);
    size_t i = (size_t)(number % MODEL_PARTS);
    if (w->parts[i].number != number) {
        w->parts[i].number = number;
        w->parts[i].all = w->parts[i].bad = 0;
    }
    w->parts[i].all++;
    w->parts[i].bad += is_bad;
}

static void window_sum(const struct model_window *w, int64_t now, int64_t window_ms,
                       uint64_t *ret_all, uint64_t *ret_bad) {
    int64_t number = part_of(now, window_ms);
    *ret_all = *ret_bad = 0;
    for (size_t i = 0; i < MODEL_PARTS; i++)
        if (w->parts[i].number <= number && w->parts[i].number > number - MODEL_PARTS) {
            *ret_all += w->parts[i].all;
            *ret_bad += w->parts[i].bad;
        }
}

/* -- the breaker ----------------------------------------------------------------------------------- */

int64_t model_breaker_open_ms(const struct model *m, int queue) {
    const struct breaker_policy *p = &m->queues[queue].policy.breaker;
    return p->is_on ? p->open_ms : OPEN_MS;
}

static uint64_t probes_of(const struct model *m, int queue) {
    const struct breaker_policy *p = &m->queues[queue].policy.breaker;
    return p->is_on ? p->probes : PROBES;
}

bool model_breaker_turn(struct run *r, int queue, enum breaker_state state, uint32_t cause) {
    struct model_queue *q = &r->m->queues[queue];
    int64_t now = r->op->now;
    if (!next_frame(r))
        return false;
    q->breaker = state;
    q->breaker_at = now;
    q->breaker_until = state == BREAKER_OPEN ? now + model_breaker_open_ms(r->m, queue) : 0;
    q->probes_out = q->probes_good = 0;
    if (state == BREAKER_OPEN) {
        q->breaker_opened++;
        q->breaker_cause = cause;
    }
    return true;
}

bool model_breaker_due(struct run *r, int queue) {
    const struct model_queue *q = &r->m->queues[queue];
    bool is_due = q->breaker == BREAKER_OPEN && q->breaker_until <= r->op->now;
    return !is_due || model_breaker_turn(r, queue, BREAKER_HALF_OPEN, 0);
}

static void probe_outcome(struct run *r, int queue, bool is_good, uint32_t tag) {
    struct model_queue *q = &r->m->queues[queue];
    if (!is_good) {
        (void)model_breaker_turn(r, queue, BREAKER_OPEN, tag);
        return;
    }
    model_breaker_probe_back(r->m, queue);
    if (++q->probes_good < probes_of(r->m, queue))
        return;
    memset(&q->outcomes, 0, sizeof q->outcomes); /* what was before says nothing of now */
    (void)model_breaker_turn(r, queue, BREAKER_CLOSED, 0);
}

void model_breaker_outcome(struct run *r, int queue, bool is_good, uint32_t tag) {
    struct model_queue *q = &r->m->queues[queue];
    const struct breaker_policy *p = &q->policy.breaker;
    uint64_t all, bad;
    if (q->breaker == BREAKER_HALF_OPEN) {
        probe_outcome(r, queue, is_good, tag);
        return;
    }
    if (q->breaker != BREAKER_CLOSED || !p->is_on)
        return;
    window_add(&q->outcomes, r->op->now, p->window_ms, !is_good);
    window_sum(&q->outcomes, r->op->now, p->window_ms, &all, &bad);
    if (!is_good && all >= p->outcomes_min && bad * MILLION >= p->share_ppm * all)
        (void)model_breaker_turn(r, queue, BREAKER_OPEN, tag);
}

void model_breaker_probe_back(struct model *m, int queue) {
    struct model_queue *q = &m->queues[queue];
    if (q->breaker == BREAKER_HALF_OPEN && q->probes_out > 0)
        q->probes_out--;
}

bool model_breaker_lets_go(const struct model *m, int queue, uint64_t most) {
    const struct model_queue *q = &m->queues[queue];
    return q->breaker == BREAKER_CLOSED ||
           (q->breaker == BREAKER_HALF_OPEN && q->probes_out + most <= probes_of(m, queue));
}

int64_t probe_pause_ms(const struct model *m, int queue) {
    size_t others = count_ready(m, queue);
    if (others > PROBES_BETWEEN)
        others = PROBES_BETWEEN;
    return (int64_t)(others + 1) * model_breaker_open_ms(m, queue);
}

/* -- the budget ------------------------------------------------------------------------------------ */

bool model_budget_is_spent(const struct model *m, int queue, int64_t now) {
    const struct model_queue *q = &m->queues[queue];
    uint64_t claims, retries;
    window_sum(&q->claims, now, BUDGET_WINDOW_MS, &claims, &retries);
    return q->policy.retry_budget_ppm && claims >= BUDGET_CLAIMS_MIN &&
           (retries + 1) * MILLION > q->policy.retry_budget_ppm * (claims + 1);
}

void model_budget_note(struct model *m, int queue, int64_t now, bool is_retry) {
    if (m->queues[queue].policy.retry_budget_ppm)
        window_add(&m->queues[queue].claims, now, BUDGET_WINDOW_MS, is_retry);
}

/* -- in a tick --------------------------------------------------------------------------------------- */

static bool view_of(struct run *r, int queue, struct queue_view *ret) {
    *ret = (struct queue_view){0};
    return r->look && engine_queue_brief(r->look, model_queue_name(queue), ret) == OK;
}

/* Whether an open one was half open before or after leases ended is the engine's: when one of them
 * opened it again, before. */
static bool turns_first[MODEL_QUEUES];

static bool is_due_in_tick(struct run *r, int queue) {
    const struct model_queue *q = &r->m->queues[queue];
    return q->exists && q->breaker == BREAKER_OPEN && q->breaker_until <= r->op->now;
}

void breakers_begin_tick(struct run *r) {
    struct queue_view v;
    for (int i = 0; i < MODEL_QUEUES; i++) {
        struct model_queue *q = &r->m->queues[i];
        r->tick->probe_pauses[i] = 0;
        turns_first[i] = false;
        if (!is_due_in_tick(r, i))
            continue;
        turns_first[i] = remember(r, view_of(r, i, &v) && v.breaker_opened > q->breaker_opened);
        if (turns_first[i])
            (void)model_breaker_turn(r, i, BREAKER_HALF_OPEN, 0);
    }
}

/* A crash was between: what was seen before it is forgotten, so that the engine says what followed. */
static void adopt(struct run *r, int queue) {
    struct model_queue *q = &r->m->queues[queue];
    struct queue_view v;
    (void)view_of(r, queue, &v);
    uint64_t opened = remember(r, v.breaker_opened);
    if (opened != q->breaker_opened)
        q->breaker_cause = MODEL_LEASE_TAG;
    q->breaker_opened = opened;
    q->breaker = (enum breaker_state)remember(r, v.breaker);
    q->breaker_at = (int64_t)remember(r, (uint64_t)v.breaker_at);
    q->breaker_until = (int64_t)remember(r, (uint64_t)v.breaker_until);
}

void breakers_end_tick(struct run *r) {
    struct queue_view v;
    for (int i = 0; i < MODEL_QUEUES; i++) {
        if (!r->m->queues[i].exists)
            continue;
        bool is_due = is_due_in_tick(r, i);
        if (is_due && r->op->full)
            is_due = remember(r, view_of(r, i, &v) && v.breaker == BREAKER_HALF_OPEN);
        if (is_due && !turns_first[i])
            (void)model_breaker_turn(r, i, BREAKER_HALF_OPEN, 0);
        if (r->op->is_rest)
            adopt(r, i);
        else if (r->tick->probe_pauses[i] > 1)
            object(r, "queue %d: %llu probes made way in one tick", i,
                   (unsigned long long)r->tick->probe_pauses[i]);
    }
}
