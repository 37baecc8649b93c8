#include "engine/guard.h"

#include "base/clock.h"

#include <assert.h>
#include <string.h>

static uint64_t unfinished(const struct queue *q) {
    return q->count[STATE_PENDING] + q->count[STATE_PROCESSING] + q->count[STATE_PARKED] +
           q->count[STATE_DEAD];
}

struct record_queue new_queue(const struct engine *e, int64_t now, struct span name,
                              const struct policy *policy, const struct policy_texts *texts) {
    static const struct policy_texts none;
    assert(name.n > 0 && name.n <= LIMIT_QUEUE_NAME);
    return (struct record_queue){
        .queue = e->st.next_queue,
        .created_at = now,
        .name = name,
        .policy = policy ? *policy : policy_default(),
        .texts = texts ? *texts : none,
        .amqp = {.settings = queue_settings_none()},
    };
}

size_t queue_room(const struct queue *q) {
    struct record_queue r = queue_image(q);
    return queue_bytes(&r);
}

static enum err make_queue(struct engine *e, int64_t now, struct span name, enum log_use use,
                           struct queue **ret) {
    if (e->st.live_queues >= LIMIT_QUEUES)
        return ERR_TOO_MANY_QUEUES;
    if (!log_has_room(e->log, use, LOG_STATE_ROOM))
        return ERR_DISK_FULL;
    struct record_queue r = new_queue(e, now, name, NULL, NULL);
    emit_queue(e, &r);
    *ret = queue_by_number(&e->st, r.queue);
    return OK;
}

enum err need_queue(struct engine *e, int64_t now, struct span name, enum log_use use,
                    struct queue **ret) {
    *ret = queue_by_name(&e->st, name);
    return *ret ? OK : make_queue(e, now, name, use, ret);
}

/* A queue's new image and who wants it so, as one frame. */
static enum err emit_audited(struct engine *e, const struct record_queue *r, int64_t now,
                             enum audit_action action, const struct act *act, const char *result) {
    struct act who = act_cut(act);
    const struct audit_entry entry = {.at = now,
                                      .action = action,
                                      .queue = r->name,
                                      .actor = who.actor,
                                      .reason = who.reason,
                                      .result = span_str(result)};
    size_t bytes = queue_bytes(r) + audit_bytes(&entry);
    if (r->dropping)
        return emit_dropping(e, r, &entry);
    if (!log_has_room(e->log, LOG_USE_SETTLE, bytes))
        return ERR_DISK_FULL;
    log_frame_begin(e->log, bytes);
    append_audit(e, &entry); /* first: its spans may point into what the queue's image replaces */
    append_queue(e, r);
    log_frame_end(e->log);
    return OK;
}

/* Lines of keys begin with the messages: a queue that holds some keeps its order. */
static bool order_may_change(const struct queue *q) {
    return unfinished(q) == 0 && q->count[STATE_DISCARDED] == 0;
}

static enum err check_target(const struct engine *e, struct span queue,
                             const struct policy_texts *texts) {
    if (!texts || texts->target.n == 0)
        return OK;
    if (target_makes_cycle(e, queue, texts->target))
        return ERR_TARGET_CYCLE;
    const struct queue *to = queue_by_name(&e->st, texts->target);
    return to && !policy_admits(&to->texts, queue) ? ERR_TARGET_REFUSED : OK;
}

enum err engine_queue_put(struct engine *e, int64_t now, struct span queue,
                          const struct policy *policy, const struct policy_texts *texts,
                          const struct act *act, bool *ret_created) {
    const struct queue *q = queue_by_name(&e->st, queue);
    enum err err = check_target(e, queue, texts);
    if (err != OK)
        return err;
    *ret_created = !q;
    if (!q) {
        if (e->st.live_queues >= LIMIT_QUEUES)
            return ERR_TOO_MANY_QUEUES;
        if (!log_has_room(e->log, LOG_USE_ACCEPT, LOG_STATE_ROOM))
            return ERR_DISK_FULL;
        struct record_queue r = new_queue(e, now, queue, policy, texts);
        return emit_audited(e, &r, now, AUDIT_QUEUE_CREATED, act, "");
    }
    if (!policy || (policy_equal(policy, &q->policy) && policy_texts_equal(texts, &q->texts)))
        return OK;
    if (policy->order != q->policy.order && !order_may_change(q))
        return ERR_NOT_EMPTY;
    struct record_queue r = queue_image(q);
    r.policy = *policy;
    r.texts = *texts;
    return emit_audited(e, &r, now, AUDIT_QUEUE_CHANGED, act, "policy");
}

enum err engine_queue_pause(struct engine *e, int64_t now, struct span queue, bool paused,
                            const struct act *act) {
    const struct queue *q = queue_by_name(&e->st, queue);
    if (!q)
        return ERR_NO_QUEUE;
    if (!paused && !q->paused_at)
        return OK;
    struct act who = act_cut(act);
    struct record_queue r = queue_image(q);
    r.paused_at = !paused ? 0 : q->paused_at ? q->paused_at : now;
    r.paused_by = paused ? who.actor : (struct span){0};
    r.pause_reason = paused ? span_cut_utf8(who.reason, LIMIT_PAUSE_REASON) : (struct span){0};
    return emit_audited(e, &r, now, paused ? AUDIT_QUEUE_PAUSED : AUDIT_QUEUE_RESUMED, act, "");
}

enum err engine_queue_delete(struct engine *e, int64_t now, struct span queue, bool discard,
                             const struct act *act) {
    const struct queue *q = queue_by_name(&e->st, queue);
    if (!q)
        return ERR_NO_QUEUE;
    if (!discard && unfinished(q) > 0)
        return ERR_NOT_EMPTY;
    struct record_queue r = queue_image(q);
    r.dropping = true;
    buf_clear(&e->result);
    buf_printf(&e->result, "%llu unfinished messages discarded", (unsigned long long)unfinished(q));
    buf_add_byte(&e->result, 0);
    return emit_audited(e, &r, now, AUDIT_QUEUE_DELETED, act, (const char *)e->result.p);
}

/* -- views ----------------------------------------------------------------------------------- */

/* The oldest death is the first of one of its groups. */
static void view_groups(const struct engine *e, const struct queue *q, struct queue_view *v) {
    for (uint32_t i = q->first_group; i; i = group_at(&e->st, i)->next_of_queue) {
        const struct group *g = group_at(&e->st, i);
        uint32_t first = dead_first(&e->st, g);
        if (!first)
            continue;
        v->groups++;
        int64_t died_at = letter_at(&e->st, first)->died_at;
        if (!v->oldest_death_at || died_at < v->oldest_death_at)
            v->oldest_death_at = died_at;
    }
    if (v->oldest_death_at && q->policy.keep_dead_ms)
        v->soonest_expiry = v->oldest_death_at + q->policy.keep_dead_ms;
}

static struct queue_view brief_of(const struct engine *e, const struct queue *q) {
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
        .redriven = q->redriven,
        .redriven_succeeded = q->redriven_succeeded,
        .redriven_died = q->redriven_died,
        .paused_at = q->paused_at,
        .paused_by = span_of(q->pause_texts, q->paused_by_bytes),
        .pause_reason = span_of(q->pause_texts + q->paused_by_bytes, q->pause_reason_bytes),
        .claimed_at = q->claimed_at,
        .texts = &q->texts,
        .held = q->held - q->parked,
        .parked_keys = q->parked_keys,
        .alone_claims = q->alone_claims,
        .breaker = q->breaker,
        .breaker_at = q->breaker_at,
        .breaker_until = q->breaker_until,
        .breaker_opened = q->breaker_opened,
        .breaker_cause = q->breaker_cause,
        .tally = tally_of(q),
        .durations = q->guard ? q->guard->durations : NULL,
        .waiting = q->watchers,
    };
    memcpy(v.count, q->count, sizeof v.count);
    v.count[STATE_PENDING] -= q->parked; /* they stand behind a dead head */
    v.count[STATE_PARKED] += q->parked;
    memcpy(v.deaths_by, q->deaths_by, sizeof v.deaths_by);
    memcpy(v.dead_by, q->dead_by, sizeof v.dead_by);
    for (int i = 0; i < REASON_COUNT; i++)
        v.deaths += q->deaths_by[i];
    uint32_t first = set_first(&e->st, q, SET_READY);
    if (first)
        v.oldest_ready_at = (int64_t)slot_at(&e->st, first)->updated_at;
    uint32_t retry = q->ready_again ? set_after(&e->st, q, SET_READY, LINE_OF_RETRIES, 0) : 0;
    if (retry && (int64_t)slot_at(&e->st, retry)->updated_at < v.oldest_ready_at)
        v.oldest_ready_at = (int64_t)slot_at(&e->st, retry)->updated_at;
    return v;
}

static struct queue_view view_of(const struct engine *e, const struct queue *q) {
    struct queue_view v = brief_of(e, q);
    view_groups(e, q, &v);
    v.failing_since = failing_since(&e->st, q);
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

enum err engine_queue_brief(struct engine *e, struct span queue, struct queue_view *ret) {
    const struct queue *q = queue_by_name(&e->st, queue);
    if (!q)
        return ERR_NO_QUEUE;
    *ret = brief_of(e, q);
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

struct queue *engine_watched(const struct engine *e, struct span queue) {
    struct queue *q = queue_by_name(&e->st, queue);
    return q && q->watchers > 0 ? q : NULL;
}

struct queue *engine_woken(struct engine *e) {
    return state_woken(&e->st);
}
