/* What time brings, as the model has it. */
#include "sim/model_int.h"

#include <stdlib.h>
#include <string.h>

/* With a full disk, what is due may have been left: the engine says. */
static bool was_done(struct run *r, const struct model_message *x) {
    if (!r->op->full)
        return true;
    struct message_view v;
    bool done = r->look && (!engine_has(r, x, &v) || v.state != x->state ||
                            v.deliveries != x->deliveries || v.retry_count != x->retry_count);
    return remember(r, done);
}

/* Of a retry the engine does not show it: the next tick that ends well decides. */
static bool wait_is_over(struct run *r, const struct model_message *x) {
    if (!r->op->full || x->is_retry)
        return true;
    struct message_view v;
    return remember(r, r->look && engine_has(r, x, &v) && v.available_at == 0);
}

/* True when the message is gone. */
static bool message_due(struct run *r, struct model_message *x) {
    int64_t now = r->op->now;
    if (x->state == STATE_PROCESSING && x->next_at <= now && was_done(r, x))
        fail(r, x, EVENT_LEASE_EXPIRED, MODEL_LEASE_TAG, false, -1);
    if (x->state == STATE_PENDING && x->expires_at && x->expires_at <= now && was_done(r, x))
        expire(r, x);
    if (x->state == STATE_PENDING && x->waiting && x->next_at <= now && wait_is_over(r, x))
        x->waiting = false;
    if (x->kept && x->idempotency_until <= now)
        x->kept = false;
    return x->state == STATE_DISCARDED && x->next_at <= now && x->idempotency_until <= now &&
           was_done(r, x);
}

static void messages_due(struct run *r) {
    struct model *m = r->m;
    for (size_t i = 0; i < m->message_count;) {
        if (!message_due(r, &m->messages[i])) {
            i++;
            continue;
        }
        if (m->messages[i].group)
            r->tick->group_left[m->messages[i].group - 1] = true;
        message_remove(m, i);
    }
}

/* -- deaths: they reach their groups in order --------------------------------------------------------- */

static int compare_deaths(const void *pa, const void *pb, void *ctx) {
    const uint64_t *a = pa, *b = pb;
    uint64_t x = model_find(ctx, *a)->dead_seq, y = model_find(ctx, *b)->dead_seq;
    return x < y ? -1 : x > y;
}

static void deaths_join(struct run *r) {
    struct model *m = r->m;
    struct tick *t = r->tick;
    qsort_r(t->deaths, t->death_count, sizeof *t->deaths, compare_deaths, m);
    for (size_t i = 0; i < t->death_count; i++) {
        struct model_message *x = model_find(m, t->deaths[i]);
        if (x->dead_seq != m->next_dead_seq)
            object(r, "message %llu has dead_seq %llu, should have %llu", (unsigned long long)x->id,
                   (unsigned long long)x->dead_seq, (unsigned long long)m->next_dead_seq);
        m->next_dead_seq = x->dead_seq + 1;
        group_join(r, x);
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
