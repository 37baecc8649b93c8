/* What a failure means, as the model has it: in this order permanent, the queue's rules, its breaker,
 * the limits of retries and deliveries. */
#include "sim/model_int.h"

/* -- what is made of it ---------------------------------------------------------------------------- */

struct meaning {
    enum { COUNTS, DIES, FREE } what; /* FREE: it costs no attempt */
    uint8_t max_retries;
    struct backoff backoff;
    int64_t delay_ms; /* -1 = the backoff */
    bool is_seen;     /* by the breaker */
    bool opens;       /* the breaker, whatever that has seen */
    bool is_probe;    /* it makes way for others */
};

bool is_doubtful(const struct model *m, const struct model_message *x, uint32_t tag) {
    const struct model_queue *q = &m->queues[x->queue];
    struct rule rule;
    if (rule_for(q->texts.rules, tag, &rule) && rule.action != RULE_RETRY)
        return false;
    return (q->policy.breaker.is_on || q->breaker != BREAKER_CLOSED) &&
           pattern_takes(q->texts.breaker_error, tag);
}

/* In a tick the engine chose in which order leases ended, and so which of them ended before the breaker
 * opened. */
static bool costs_nothing(struct run *r, const struct model_message *x) {
    bool is_free = r->m->queues[x->queue].breaker != BREAKER_CLOSED;
    if (!r->tick)
        return is_free;
    if (is_free != r->tick->costs_nothing && !r->op->is_rest)
        object(r, "message %llu: its lease should %shave cost an attempt",
               (unsigned long long)x->id, is_free ? "not " : "");
    return r->tick->costs_nothing;
}

static struct meaning judge(struct run *r, const struct model_message *x, uint32_t tag,
                            bool permanent, int64_t delay_ms) {
    const struct model_queue *q = &r->m->queues[x->queue];
    struct meaning v = {.max_retries = x->max_retries,
                        .backoff = q->policy.backoff,
                        .delay_ms = delay_ms,
                        .is_probe = q->breaker == BREAKER_HALF_OPEN};
    struct rule rule = {.action = RULE_RETRY};
    if (!permanent)
        (void)rule_for(q->texts.rules, tag, &rule);
    if (permanent || rule.action == RULE_DEAD) {
        v.what = DIES;
    } else if (rule.action == RULE_RELEASE) {
        v.what = FREE;
        v.delay_ms = rule.delay_ms;
        v.is_probe = false;
    } else if (rule.action == RULE_PAUSE) {
        v.what = FREE;
        v.delay_ms = -1;
        v.is_seen = v.opens = true;
    } else {
        v.is_seen = pattern_takes(q->texts.breaker_error, tag);
        if (rule.max_retries)
            v.max_retries = rule.max_retries;
        if (rule.has_backoff)
            v.backoff = rule.backoff;
        if (v.is_seen && costs_nothing(r, x)) {
            v.what = FREE;
            v.delay_ms = 0;
        }
    }
    return v;
}

/* -- how long it waits ----------------------------------------------------------------------------- */

/* The wait chosen by the engine. */
static int64_t wait_of(struct run *r, const struct model_message *x, enum event event) {
    struct looked l = {0};
    if (r->look)
        l = look_inside(r->look, x->id, x->deliveries, event);
    if (r->look && !l.failed_next_at)
        object(r, "message %llu should not have died", (unsigned long long)x->id);
    return (int64_t)remember(r, (uint64_t)(l.failed_next_at - r->op->now));
}

/* It must lie within what the backoff's jitter allows. */
static int64_t backoff(struct run *r, const struct model_message *x, enum event event,
                       const struct meaning *v) {
    struct backoff b = v->backoff;
    b.jitter = JITTER_NONE;
    unsigned failures = v->what == FREE || !x->retry_count ? 1 : x->retry_count;
    int64_t most = backoff_delay_ms(&b, failures, 0), least = most;
    if (v->backoff.jitter == JITTER_NONE)
        return most;
    least = v->backoff.jitter == JITTER_FULL ? 0 : most / 2;
    int64_t wait = wait_of(r, x, event);
    if (wait < least || wait > most)
        object(r, "message %llu waits %lld ms, which is not in %lld..%lld",
               (unsigned long long)x->id, (long long)wait, (long long)least, (long long)most);
    return wait;
}

/* How many others are ready is not always known: then the engine says how long it makes way. */
static int64_t probe_pause(struct run *r, const struct model_message *x, enum event event) {
    if (!r->tick && !r->op->full && !r->op->blocked)
        return probe_pause_ms(r->m, x->queue);
    int64_t open_ms = model_breaker_open_ms(r->m, x->queue), wait = wait_of(r, x, event);
    if (wait % open_ms || wait < open_ms || wait > 9 * open_ms)
        object(r, "probe %llu makes way for %lld ms", (unsigned long long)x->id, (long long)wait);
    return wait;
}

/* Which lease was the probe's is the engine's choice as well. */
static int64_t wait_in_tick(struct run *r, const struct model_message *x, enum event event,
                            const struct meaning *v) {
    int64_t wait = wait_of(r, x, event), open_ms = model_breaker_open_ms(r->m, x->queue);
    bool is_pause = wait >= open_ms && wait <= 9 * open_ms && wait % open_ms == 0;
    struct backoff b = v->backoff;
    b.jitter = JITTER_NONE;
    int64_t most = v->opens ? backoff_delay_ms(&b, 1, 0) : 0;
    if (wait > most && !is_pause)
        object(r, "message %llu waits %lld ms", (unsigned long long)x->id, (long long)wait);
    r->tick->probe_pauses[x->queue] += wait > most;
    return wait;
}

static int64_t wait_for(struct run *r, const struct model_message *x, enum event event,
                        const struct meaning *v) {
    if (v->what == FREE && v->is_seen && r->tick)
        return wait_in_tick(r, x, event, v);
    if (v->what == FREE && v->is_probe)
        return probe_pause(r, x, event);
    return v->delay_ms >= 0 ? v->delay_ms : backoff(r, x, event, v);
}

/* -- failing --------------------------------------------------------------------------------------- */

static uint64_t deliveries_left(const struct model *m, const struct model_message *x) {
    uint64_t most = m->queues[x->queue].policy.deliveries_max;
    uint64_t used = x->deliveries - x->deliveries_before;
    return !most ? UINT64_MAX : used < most ? most - used : 0;
}

bool is_at_delivery_limit(const struct model *m, const struct model_message *x) {
    return deliveries_left(m, x) == 0;
}

/* It costs an attempt: for what it dies then, REASON_NONE when it does not. */
static enum reason count_failure(const struct model *m, struct model_message *x,
                                 const struct meaning *v, bool is_expiry, bool was_in_company) {
    bool is_last = x->retry_count + 1 >= v->max_retries || is_at_delivery_limit(m, x);
    /* Whoever was claimed with others does not die of a lease that ran out: it goes once more, alone. */
    if (is_last && is_expiry && was_in_company) {
        x->retry_count = (uint8_t)(x->retry_count + (x->retry_count + 1 < v->max_retries));
        x->is_alone = true;
        return REASON_NONE;
    }
    x->retry_count++;
    if (x->retry_count >= v->max_retries)
        return is_expiry ? REASON_LEASE_EXPIRED : REASON_MAX_RETRIES;
    if (is_last)
        return REASON_DELIVERY_LIMIT;
    x->is_alone = is_expiry && (x->retry_count + 1 >= v->max_retries || deliveries_left(m, x) <= 1);
    return REASON_NONE;
}

bool is_sure_not_to_go_at_once(const struct model *m, const struct model_message *x) {
    const struct model_queue *q = &m->queues[x->queue];
    struct meaning v = {.max_retries = x->max_retries, .backoff = q->policy.backoff};
    struct rule rule;
    if (rule_for(q->texts.rules, MODEL_LEASE_TAG, &rule)) {
        v.max_retries = rule.max_retries ? rule.max_retries : v.max_retries;
        v.backoff = rule.has_backoff ? rule.backoff : v.backoff;
    }
    struct model_message then = *x;
    if (count_failure(m, &then, &v, true, x->in_company) != REASON_NONE)
        return true;
    if (v.backoff.jitter == JITTER_FULL)
        return false;
    v.backoff.jitter = JITTER_NONE; /* of the other kind half of it at least */
    return backoff_delay_ms(&v.backoff, then.retry_count ? then.retry_count : 1, 0) > 1;
}

static void go_back(struct run *r, struct model_message *x, enum event event,
                    const struct meaning *v) {
    x->next_at = r->op->now + wait_for(r, x, event, v);
    x->state = STATE_PENDING;
    x->is_retry = true;
}

/* It says who had it. */
static void die_of(struct run *r, struct model_message *x, enum reason reason, int to) {
    x->is_alone = false;
    x->error_worker = x->worker;
    x->error_version = x->version;
    die(r, x, reason, x->version, to < 0);
}

static void note_outcome(struct run *r, int queue, const struct meaning *v, uint32_t tag,
                         bool was_closed, bool is_before_crash) {
    bool is_probe = r->m->queues[queue].breaker == BREAKER_HALF_OPEN;
    if (!v->is_seen || (!was_closed && !is_probe))
        model_breaker_probe_back(r->m, queue);
    else if (!is_before_crash)
        model_breaker_outcome(r, queue, false, tag);
}

static bool was_before_crash(const struct op *op, const struct model_message *x) {
    for (size_t i = 0; i < op->ended_count; i++)
        if (op->ended[i] == x->id)
            return true;
    return false;
}

void fail(struct run *r, struct model_message *x, enum event event, uint32_t tag, bool permanent,
          int64_t delay_ms) {
    struct model *m = r->m;
    int64_t now = r->op->now;
    int queue = x->queue, to = -1;
    struct model_queue *q = &m->queues[queue];
    struct meaning v = judge(r, x, tag, permanent, delay_ms);
    bool was_closed = q->breaker == BREAKER_CLOSED, was_in_company = x->in_company;
    if (v.opens && q->breaker != BREAKER_OPEN && !model_breaker_turn(r, queue, BREAKER_OPEN, tag))
        return;
    if (!next_frame(r))
        return;
    x->is_alone = x->in_company = false;
    enum reason reason = REASON_NONE;
    if (v.what == COUNTS)
        reason = count_failure(m, x, &v, event == EVENT_LEASE_EXPIRED, was_in_company);
    else if (v.what == DIES)
        reason = REASON_PERMANENT;
    if (v.what == DIES)
        x->retry_count++;
    q->failures++;
    x->has_error = true;
    x->error_tag = tag;
    x->error_at = now;
    x->error_worker = x->error_version = 0;
    if (!x->first_failed_at)
        x->first_failed_at = now;
    bool is_before_crash = was_before_crash(r->op, x);
    if (reason != REASON_NONE) {
        to = target_with_room(r, x, reason);
        die_of(r, x, reason, to);
    } else {
        go_back(r, x, event, &v);
    }
    tell(m, x, now,
         (struct model_line){
             .event = event, .tag = tag, .worker = x->error_worker, .version = x->error_version});
    touch(x, now);
    if (to >= 0)
        dead_letter(r, x, to);
    note_outcome(r, queue, &v, tag, was_closed, is_before_crash);
}

void die_waiting(struct run *r, struct model_message *x, enum reason reason) {
    int to = target_with_room(r, x, reason);
    die(r, x, reason, 0, to < 0);
    tell(r->m, x, r->op->now, (struct model_line){.event = EVENT_EXPIRED});
    touch(x, r->op->now);
    if (to >= 0)
        dead_letter(r, x, to);
}
