#include "engine/guard.h"

#include <assert.h>

static void succeed(struct engine *e, struct slot *s, int64_t now) {
    struct record_state r = change_of(e, s, now, EVENT_SUCCEEDED);
    r.image.state = STATE_SUCCEEDED;
    r.image.next_at = 0;
    r.image.letter.group = 0; /* its outcome is known */
    r.image.letter.job_part = JOB_PART_NONE;
    r.image.is_alone = r.image.in_company = false;
    struct queue *q = queue_at(&e->st, s->queue);
    duration_note(q, now - (int64_t)s->updated_at);
    end_note(q, true, s->deliveries);
    emit_state(e, &r);
    breaker_note(e, q, now, true, (struct span){0});
}

static void release(struct engine *e, struct slot *s, int64_t now, int64_t delay_ms) {
    struct record_state r = change_of(e, s, now, EVENT_RELEASED);
    r.image.state = STATE_PENDING;
    r.image.next_at = delay_ms > 0 ? now + delay_ms : 0;
    r.image.in_company = false;
    emit_state(e, &r);
    breaker_probe_back(e, queue_at(&e->st, s->queue));
}

static void extend(struct engine *e, struct slot *s, int64_t now, int64_t lease_ms) {
    struct record_state r = change_of(e, s, now, EVENT_NONE);
    if (!lease_ms)
        lease_ms = queue_at(&e->st, s->queue)->policy.lease_ms;
    r.image.next_at = now + lease_ms;
    emit_state(e, &r);
}

static void fail(struct engine *e, struct slot *s, int64_t now, const struct settle *item) {
    struct failure f = {
        .event = EVENT_FAILED,
        .permanent = item->permanent,
        .delay_ms = item->delay_ms,
        .error_class = span_cut_utf8(item->error_class, LIMIT_ERROR_CLASS),
        .error = span_cut_utf8(item->error, LIMIT_ERROR),
        .detail = span_cut_utf8(item->detail, LIMIT_DETAIL),
        .fingerprint = span_cut_utf8(item->fingerprint, LIMIT_FINGERPRINT),
    };
    if (f.error.n == 0)
        f.error = span_str("unknown error");
    fail_message(e, s, now, &f);
}

static enum err settle_one(struct engine *e, int64_t now, struct queue *q,
                           const struct settle *item) {
    uint32_t i = slot_find(&e->st, item->id);
    struct slot *s = i ? slot_at(&e->st, i) : NULL;
    if (!s || s->queue != q->place)
        return ERR_NO_MESSAGE;
    if (item->lease && item->lease != s->deliveries)
        return ERR_STALE_LEASE;
    if (s->state != STATE_PROCESSING)
        return item->lease ? ERR_STALE_LEASE : ERR_WRONG_STATE;
    switch (item->action) {
    case SETTLE_SUCCEED:
        succeed(e, s, now);
        break;
    case SETTLE_FAIL:
        fail(e, s, now, item);
        break;
    case SETTLE_RELEASE:
        release(e, s, now, item->delay_ms);
        break;
    case SETTLE_EXTEND:
        extend(e, s, now, item->lease_ms);
        break;
    case SETTLE_RETURN:
        return_message(e, s, now, item);
        break;
    case SETTLE_REJECT:
        reject_message(e, s, now, item);
        break;
    }
    return OK;
}

enum err engine_settle(struct engine *e, int64_t now, struct span queue, const struct settle *items,
                       size_t n, enum err *ret_results) {
    assert(n > 0 && n <= LIMIT_BATCH);
    struct queue *q = queue_by_name(&e->st, queue);
    if (!q)
        return ERR_NO_QUEUE;
    size_t bytes = LOG_DEATH_ROOM;
    for (size_t i = 0; i < n; i++)
        bytes += LOG_STATE_ROOM + items[i].error_class.n + items[i].error.n + items[i].detail.n;
    if (!log_has_room(e->log, LOG_USE_SETTLE, bytes))
        return ERR_DISK_FULL;
    for (size_t i = 0; i < n; i++)
        ret_results[i] = settle_one(e, now, q, &items[i]);
    (void)relieve(e, now);
    return OK;
}
