#include "engine/engine_int.h"

#include "base/clock.h"

#include <assert.h>
#include <string.h>

static enum err make_queue(struct engine *e, int64_t now, struct span name,
                           const struct policy *policy, enum log_use use, struct queue **ret) {
    assert(name.n > 0 && name.n <= LIMIT_QUEUE_NAME);
    if (e->st.live_queues >= LIMIT_QUEUES)
        return ERR_TOO_MANY_QUEUES;
    if (!log_has_room(e->log, use, RECORD_META_MAX))
        return ERR_DISK_FULL;
    struct record_queue r = {
        .queue = e->st.next_queue,
        .created_at = now,
        .name = name,
        .policy = policy ? *policy : policy_default(),
        .next_dead_seq = 1,
    };
    emit_queue(e, &r);
    *ret = queue_by_number(&e->st, r.queue);
    return OK;
}

enum err need_queue(struct engine *e, int64_t now, struct span name, enum log_use use,
                    struct queue **ret) {
    *ret = queue_by_name(&e->st, name);
    return *ret ? OK : make_queue(e, now, name, NULL, use, ret);
}

enum err engine_queue_put(struct engine *e, int64_t now, struct span queue,
                          const struct policy *policy, bool *ret_created) {
    struct queue *q = queue_by_name(&e->st, queue);
    *ret_created = !q;
    if (!q)
        return make_queue(e, now, queue, policy, LOG_USE_ACCEPT, &q);
    if (!policy || policy_equal(policy, &q->policy))
        return OK;
    if (!log_has_room(e->log, LOG_USE_SETTLE, RECORD_META_MAX))
        return ERR_DISK_FULL;
    struct record_queue r = queue_image(q);
    r.policy = *policy;
    emit_queue(e, &r);
    return OK;
}

static uint64_t unfinished(const struct queue *q) {
    return q->count[STATE_PENDING] + q->count[STATE_PROCESSING] + q->count[STATE_PARKED] +
           q->count[STATE_DEAD];
}

enum err engine_queue_delete(struct engine *e, int64_t now, struct span queue, bool discard) {
    (void)now;
    struct queue *q = queue_by_name(&e->st, queue);
    if (!q)
        return ERR_NO_QUEUE;
    if (!discard && unfinished(q) > 0)
        return ERR_NOT_EMPTY;
    if (!log_has_room(e->log, LOG_USE_SETTLE, RECORD_META_MAX))
        return ERR_DISK_FULL;
    struct record_queue r = queue_image(q);
    r.dropping = true;
    emit_queue(e, &r);
    return OK;
}

/* -- views ----------------------------------------------------------------------------------- */

static struct queue_view view_of(const struct engine *e, const struct queue *q) {
    struct queue_view v = {
        .name = span_of(q->name, q->name_bytes),
        .created_at = q->created_at,
        .policy = &q->policy,
        .ready = q->ready,
        .bytes = q->bytes[STATE_PENDING] + q->bytes[STATE_PROCESSING] + q->bytes[STATE_PARKED] +
                 q->bytes[STATE_DEAD],
        .ledger = q->ledger,
        .deliveries = q->deliveries,
        .failures = q->failures,
        .deaths = q->deaths,
    };
    memcpy(v.count, q->count, sizeof v.count);
    uint32_t first = set_first(&e->st, q, SET_READY);
    if (first)
        v.oldest_ready_at = (int64_t)slot_at(&e->st, first)->updated_at;
    return v;
}

bool queue_view_holds(const struct queue_view *q) {
    const struct ledger *l = &q->ledger;
    return l->accepted + l->moved_in == q->count[STATE_PENDING] + q->count[STATE_PROCESSING] +
                                            q->count[STATE_PARKED] + q->count[STATE_DEAD] +
                                            l->succeeded + l->discarded + l->moved_out;
}

enum err engine_queue(struct engine *e, struct span queue, struct queue_view *ret) {
    const struct queue *q = queue_by_name(&e->st, queue);
    if (!q)
        return ERR_NO_QUEUE;
    *ret = view_of(e, q);
    return OK;
}

enum err engine_queues(struct engine *e, struct span after,
                       bool (*f)(void *ctx, const struct queue_view *q), void *ctx) {
    uint32_t i = e->st.oldest_queue;
    if (after.n > 0) {
        const struct queue *q = queue_by_name(&e->st, after);
        if (!q)
            return ERR_NO_QUEUE;
        i = q->newer;
    }
    for (; i; i = queue_at(&e->st, i)->newer) {
        const struct queue *q = queue_at(&e->st, i);
        if (q->dropping || !q->name)
            continue;
        struct queue_view v = view_of(e, q);
        if (!f(ctx, &v))
            break;
    }
    return OK;
}

/* -- waiting --------------------------------------------------------------------------------- */

enum err engine_watch(struct engine *e, int64_t now, struct span queue, struct queue **ret) {
    enum err r = need_queue(e, now, queue, LOG_USE_ACCEPT, ret);
    if (r != OK)
        return r;
    (*ret)->watchers++;
    if ((*ret)->ready > 0)
        queue_wake(&e->st, *ret);
    return OK;
}

void engine_unwatch(struct engine *e, struct queue *q) {
    (void)e;
    queue_unwatch(q);
}

struct queue *engine_woken(struct engine *e) {
    return state_woken(&e->st);
}
