/* Dead-letter targets: a message that dies moves on to the queue that its own names, in the frame of
 * its death; without a valid target it stays dead where it died. */
#include "engine/engine_int.h"

#include <assert.h>
#include <string.h>

bool target_is_allowed(const struct queue *target, struct span from) {
    if (target->texts.allow_from.n == 0)
        return true;
    struct json_error error;
    struct json *names = json_parse(target->texts.allow_from, &error);
    bool allowed = false;
    for (size_t i = 0; i < json_count(names); i++)
        allowed |= span_equal(json_string(json_at(names, i)), from);
    json_free(names);
    return allowed;
}

/* The target for this death; NULL when it stays. */
static const struct queue *find(struct engine *e, const struct queue *q, enum reason reason,
                                struct span trail) {
    if (q->texts.target.n == 0 || !(q->policy.target_reasons & 1U << reason))
        return NULL;
    const struct queue *to = queue_by_name(&e->st, q->texts.target);
    if (!to || to == q || !target_is_allowed(to, span_of(q->name, q->name_bytes)))
        return NULL;
    /* It would come back to where it died of the same, and nobody rejected it since. */
    return trail_has(trail, to->number, reason) ? NULL : to;
}

void target_find(struct engine *e, uint32_t slot, const struct record_state *r, struct target *t) {
    const struct slot *s = slot_at(&e->st, slot);
    const struct queue *q = queue_at(&e->st, s->queue);
    *t = (struct target){0};
    buf_init(&t->carry.lines, SIZE_MAX);
    if (q->texts.target.n == 0)
        return;
    read_message(e, s, &e->message, &t->message);
    struct record_message *m = &t->message;
    const struct queue *to = find(e, q, r->image.reason, m->trail);
    if (!to || !trail_add(m->trail, q->number, r->image.reason, t->trail, &m->trail.n))
        return;
    m->trail.p = t->trail;
    m->how = MESSAGE_MOVED;
    m->moved_from = q->number;
    m->queue = to->number;
    if (m->origin.n == 0)
        m->origin = span_of(q->name, q->name_bytes);
    else if (span_equal(m->origin, span_of(to->name, to->name_bytes)))
        m->origin = (struct span){0};
    carry_plan(e, s, m, &t->carry);
    t->bytes = t->carry.bytes + 2 * state_bytes(r) + 2 * LIMIT_QUEUE_NAME;
    if (t->bytes + LOG_DEATH_ROOM + state_bytes(r) > log_frame_bytes_max(e->log))
        return; /* its payload and story together fill a segment: it stays */
    t->queue = to;
}

void target_append(struct engine *e, uint32_t slot, int64_t now, const struct record_state *death,
                   struct target *t) {
    const struct slot *s = slot_at(&e->st, slot);
    const struct queue *from = queue_at(&e->st, s->queue);
    buf_clear(&e->result);
    buf_add_str(&e->result, "from ");
    buf_add(&e->result, from->name, from->name_bytes);
    buf_add_str(&e->result, " to ");
    buf_add(&e->result, t->queue->name, t->queue->name_bytes);

    struct record_message *m = &t->message;
    m->image = slot_image(&e->st, s);
    m->image.state = STATE_PENDING;
    m->image.retry_count = 0;
    m->image.max_retries = t->queue->policy.max_retries;
    m->image.expires_at = m->ttl_ms = 0; /* that was for where it came from */
    take_place(&m->image, t->queue, m->id, m->key);
    m->image.letter.group = 0;
    m->image.letter.dead_seq = 0;
    m->image.letter.deliveries_before = m->image.deliveries;
    carry_append(e, m, &t->carry);
    uint64_t position = slot_extra(&e->st, s)->history;
    struct record_history line = {
        .id = m->id, .is_error = death->event.event != EVENT_EXPIRED, .event = death->event};
    line.event.at = now;
    line.event.next_at = 0;
    line.event.previous = position;
    append_history(e, &line, &position);
    struct record_state r = change_of(e, s, now, EVENT_DEAD_LETTERED);
    r.event.error = buf_span(&e->result);
    append_state(e, &r);
}

void target_release(struct target *t) {
    carry_release(&t->carry);
}

bool target_makes_cycle(const struct engine *e, struct span queue, struct span target) {
    /* Follows the chain of targets: a queue has at most one. */
    for (uint32_t steps = 0; target.n > 0; steps++) {
        if (span_equal(target, queue) || steps > e->st.live_queues)
            return true;
        const struct queue *q = queue_by_name(&e->st, target);
        target = q ? q->texts.target : (struct span){0};
    }
    return false;
}
