/* What time brings, as the model has it. */
#include "sim/model_int.h"

#include <stdlib.h>
#include <string.h>

/* With a full disk, what is due may have been left: the engine says. */
static bool was_done(struct run *r, const struct model_message *x) {
    if (!r->op->full)
        return true;
    struct message_view v;
    bool done = r->look && !engine_has(r, x, &v);
    if (r->look && !done) {
        enum state state = v.state == STATE_PARKED ? STATE_PENDING : v.state;
        done =
            state != x->state || v.deliveries != x->deliveries || v.retry_count != x->retry_count;
    }
    return remember(r, done);
}

/* Of a retry the engine does not show it: the next tick that ends well decides. */
static bool wait_is_over(struct run *r, const struct model_message *x) {
    if (!r->op->full || x->is_retry)
        return true;
    struct message_view v;
    return remember(r, r->look && engine_has(r, x, &v) && v.available_at == 0);
}

/* -- leases that end ------------------------------------------------------------------------------------ */

static struct looked look_at(struct run *r, const struct model_message *x) {
    return r->look ? look_inside(r->look, x->id, x->deliveries, EVENT_LEASE_EXPIRED)
                   : (struct looked){0};
}

/* Those that cost an attempt ended first: after them the breaker was open. Of one that moved on at once
 * it is not known any more, and follows from the others. */
enum lease { NOT_DUE, COSTS, UNKNOWN, COSTS_NOTHING };

static bool has_opened(struct run *r, int queue) {
    struct queue_view v;
    return r->look && engine_queue_brief(r->look, model_queue_name(queue), &v) == OK &&
           v.breaker != BREAKER_CLOSED;
}

/* When the breaker was open by then, the message went back as it was, at once. */
static enum lease what_was(struct run *r, const struct model_message *x) {
    struct looked l = look_at(r, x);
    if (l.failed_next_at != r->op->now)
        return COSTS;
    if (l.has_counts)
        return l.retry_count != x->retry_count || l.is_alone ? COSTS : COSTS_NOTHING;
    if (is_sure_not_to_go_at_once(r->m, x))
        return COSTS_NOTHING;
    if (!r->op->is_rest)
        return UNKNOWN;
    /* With a crash between, nothing follows from the others; of what still shows it is this: */
    return has_opened(r, x->queue) ? COSTS_NOTHING : COSTS;
}

static void leases_end(struct run *r) {
    struct model *m = r->m;
    static enum lease leases[MODEL_MESSAGES];
    for (size_t i = 0; i < m->message_count; i++) {
        const struct model_message *x = &m->messages[i];
        leases[i] = NOT_DUE;
        if (x->state != STATE_PROCESSING || x->next_at > r->op->now || !was_done(r, x))
            continue;
        leases[i] = COSTS;
        if (!is_doubtful(m, x, MODEL_LEASE_TAG))
            continue;
        leases[i] = COSTS_NOTHING;
        if (m->queues[x->queue].breaker == BREAKER_CLOSED)
            leases[i] = (enum lease)remember(r, what_was(r, x));
    }
    for (enum lease lease = COSTS; lease <= COSTS_NOTHING; lease++)
        for (size_t i = 0; i < m->message_count; i++) {
            struct model_message *x = &m->messages[i];
            if (leases[i] != lease)
                continue;
            bool is_open = m->queues[x->queue].breaker != BREAKER_CLOSED;
            r->tick->costs_nothing = lease == UNKNOWN ? is_open : lease == COSTS_NOTHING;
            fail(r, x, EVENT_LEASE_EXPIRED, MODEL_LEASE_TAG, false, -1);
        }
}

/* -- other times ---------------------------------------------------------------------------------------- */

/* True when the message is gone. */
static bool message_due(struct run *r, struct model_message *x) {
    int64_t now = r->op->now;
    if (x->state == STATE_PENDING && x->expires_at && x->expires_at <= now && was_done(r, x))
        die_waiting(r, x, REASON_EXPIRED);
    if (x->kept && x->idempotency_until <= now)
        x->kept = false;
    return x->state == STATE_DISCARDED && x->next_at <= now && x->idempotency_until <= now &&
           was_done(r, x);
}

/* Who has to stand behind another has time: perhaps it did not for a moment. */
static void waits_end(struct run *r) {
    for (size_t i = 0; i < r->m->message_count; i++) {
        struct model_message *x = &r->m->messages[i];
        if (x->state != STATE_PENDING || !x->waiting || x->next_at > r->op->now)
            continue;
        if (model_standing(r->m, x) == GOES)
            x->waiting = !wait_is_over(r, x);
        else
            x->waiting = remember(r, look_at(r, x).waits);
    }
}

static void messages_due(struct run *r) {
    struct model *m = r->m;
    breakers_begin_tick(r);
    leases_end(r);
    breakers_end_tick(r);
    for (size_t i = 0; i < m->message_count;) {
        if (!message_due(r, &m->messages[i])) {
            i++;
            continue;
        }
        if (m->messages[i].group)
            r->tick->group_left[m->messages[i].group - 1] = true;
        message_remove(m, i);
    }
    waits_end(r);
}

/* -- deaths: they reach their groups in order --------------------------------------------------------- */

static int compare_deaths(const void *pa, const void *pb) {
    const struct model_death *a = pa, *b = pb;
    return a->position < b->position ? -1 : a->position > b->position;
}

static void deaths_join(struct run *r) {
    struct model *m = r->m;
    struct tick *t = r->tick;
    struct message_view v;
    qsort(t->deaths, t->death_count, sizeof *t->deaths, compare_deaths);
    for (size_t i = 0; i < t->death_count; i++) {
        const struct model_death *d = &t->deaths[i];
        uint64_t seq = m->next_dead_seq++;
        group_join(r, d);
        if (!d->stays)
            continue;
        struct model_message *x = model_find(m, d->id);
        x->dead_seq = seq;
        if (r->look && engine_has(r, x, &v) && v.dead_seq != seq)
            object(r, "message %llu has dead_seq %llu, should have %llu", (unsigned long long)x->id,
                   (unsigned long long)v.dead_seq, (unsigned long long)seq);
    }
}

/* -- retention of what succeeded ---------------------------------------------------------------------- */

/* Which succeeded messages retention let go: each must be allowed to go. */
static void retention(struct run *r, int queue) {
    struct model *m = r->m;
    const struct policy *p = &m->queues[queue].policy;
    uint64_t held = count_of(m, queue, STATE_SUCCEEDED);
    uint64_t over = held > p->keep_succeeded_max ? held - p->keep_succeeded_max : 0;
    for (size_t i = 0; i < m->message_count;) {
        struct model_message *x = &m->messages[i];
        struct message_view v;
        if (x->queue != queue || x->state != STATE_SUCCEEDED || x->kept ||
            !remember(r, r->look && !engine_has(r, x, &v))) {
            i++;
            continue;
        }
        bool by_time = x->updated_at + p->keep_succeeded_ms <= r->op->now;
        if (!by_time && over == 0)
            object(r, "message %llu went before its retention was over", (unsigned long long)x->id);
        over -= !by_time && over > 0;
        message_remove(m, i);
    }
}

/* And none may be left that had to go. */
static void retention_done(struct run *r, int queue) {
    const struct model *m = r->m;
    const struct policy *p = &m->queues[queue].policy;
    uint64_t held = count_of(m, queue, STATE_SUCCEEDED);
    for (size_t i = 0; i < m->message_count; i++) {
        const struct model_message *x = &m->messages[i];
        if (x->queue != queue || x->state != STATE_SUCCEEDED || x->kept)
            continue;
        if (held > p->keep_succeeded_max || x->updated_at + p->keep_succeeded_ms <= r->op->now)
            object(r, "message %llu is kept longer than its retention", (unsigned long long)x->id);
    }
}

/* -- queues on their way out -------------------------------------------------------------------------- */

static void queues_go(struct model *m) {
    m->deleted.accepted += m->dropping.accepted;
    m->deleted.moved_in += m->dropping.moved_in;
    m->deleted.succeeded += m->dropping.succeeded;
    m->deleted.discarded += m->dropping.discarded;
    m->deleted.moved_out += m->dropping.moved_out;
    m->deleted.expired += m->dropping.expired;
    m->deleted.undiscarded += m->dropping.undiscarded;
    m->dropping = (struct ledger){0};
    m->dropping_messages = 0;
}

/* What leaves a group goes before the deaths that join it: see `reopen`. */
void tick(struct run *r) {
    struct model *m = r->m;
    static struct tick t;
    t.death_count = 0;
    memset(t.group_left, 0, m->group_count * sizeof *t.group_left);
    memset(t.purged_due, 0, sizeof t.purged_due);
    r->tick = &t;
    jobs_begin_tick(r);
    letters_go(r);
    messages_due(r);
    deaths_join(r);
    for (int q = 0; q < MODEL_QUEUES; q++)
        if (m->queues[q].exists)
            retention(r, q);
    for (int q = 0; q < MODEL_QUEUES && !r->op->full; q++)
        if (m->queues[q].exists)
            retention_done(r, q);
    jobs_end_tick(r);
    if (!r->op->full)
        queues_go(m);
}
