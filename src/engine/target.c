/* Dead-letter targets: a message that dies moves on to the queue that its own names, in the frame of
 * its death; without a valid target it stays dead where it died. */
#include "engine/engine_int.h"

#include <assert.h>
#include <string.h>

/* The target for this death; NULL when it stays. */
static struct queue *find(struct engine *e, const struct queue *q, enum reason reason,
                          struct span trail) {
    if (q->texts.target.n == 0 || !(q->policy.target_reasons & 1U << reason))
        return NULL;
    struct queue *to = queue_by_name(&e->st, q->texts.target);
    if (!to || to == q || !policy_admits(&to->texts, span_of(q->name, q->name_bytes)))
        return NULL;
    /* It would come back to where it died of the same, and nobody rejected it since. */
    return trail_has(trail, to->number, reason) ? NULL : to;
}

void target_begin(struct target *t) {
    *t = (struct target){0};
    buf_init(&t->carry.lines, SIZE_MAX);
}

/* The queue's own policy has one. */
static bool find_by_policy(struct engine *e, const struct queue *q, enum reason reason,
                           struct target *t) {
    struct record_message *m = &t->message;
    t->one = find(e, q, reason, m->trail);
    if (!t->one || !trail_add(m->trail, q->number, reason, t->trail, &m->trail.n))
        return false;
    m->trail.p = t->trail;
    t->queues = &t->one;
    t->count = 1;
    return true;
}

void target_find(struct engine *e, const struct queue *q, const struct slot *s, int64_t now,
                 enum reason reason, struct target *t) {
    bool has_exchange = q->amqp && q->amqp->effective.has_dlx;
    if (!has_exchange && q->texts.target.n == 0)
        return;
    struct record_message *m = &t->message;
    if (s)
        read_message(e, s, &e->message, m);
    t->priority = s ? (uint8_t)s->priority : m->image.priority;
    bool goes =
        has_exchange ? dead_letter_find(e, q, now, reason, t) : find_by_policy(e, q, reason, t);
    if (!goes)
        return;
    const struct queue *to = t->queues[0];
    size_t copies = (t->count - 1) * (message_bytes(m) + LIMIT_QUEUE_NAME);
    m->how = MESSAGE_MOVED;
    m->moved_from = q->number;
    m->queue = to->number;
    struct span home = m->origin;
    if (home.n == 0)
        m->origin = span_of(q->name, q->name_bytes);
    else if (span_equal(home, span_of(to->name, to->name_bytes)))
        m->origin = (struct span){0};
    if (s)
        carry_plan(e, s, m, &t->carry);
    else
        t->carry.bytes = message_bytes(m);
    /* How it died, for what has a story, and where it went. */
    size_t around = copies + LOG_STATE_ROOM + 2 * LIMIT_QUEUE_NAME;
    if (s)
        around += LOG_STATE_ROOM + LIMIT_ERROR + LIMIT_DETAIL;
    t->bytes = t->carry.bytes + around;
    size_t most = log_frame_bytes_max(e->log) - 2 * LOG_DEATH_ROOM - LIMIT_DETAIL;
    if (t->bytes > most && has_exchange) { /* its story makes way */
        t->carry.count = 0;
        t->bytes = message_bytes(m) + around;
    }
    if (t->bytes <= most && (!copies || log_has_room(e->log, LOG_USE_SETTLE, t->bytes)))
        return;
    t->count = 0; /* it does not fit: it stays */
    t->is_unroutable = has_exchange;
}

/* The others that it goes to get copies. */
static void append_copies(struct engine *e, int64_t now, const struct queue *from,
                          const struct target *t) {
    for (size_t i = 1; i < t->count; i++) {
        const struct queue *q = t->queues[i];
        struct record_message copy = t->message;
        copy.id = e->st.next_id;
        copy.queue = q->number;
        copy.how = MESSAGE_ACCEPTED;
        copy.moved_from = 0;
        copy.created_at = now;
        copy.idempotency_until = 0;
        copy.parent_id = 0;
        copy.origin = span_of(from->name, from->name_bytes);
        copy.image = (struct message_image){.state = STATE_PENDING,
                                            .max_retries = q->policy.max_retries,
                                            .priority = priority_of_letter(q, t->priority),
                                            .updated_at = now};
        set_ttl(&copy, q, now, -1);
        take_place(&copy.image, q, copy.id, copy.key);
        append_message(e, &copy);
    }
}

/* A line of the story: how it died. */
static void append_line(struct engine *e, const struct slot *s, int64_t now,
                        const struct record_state *death) {
    uint64_t position = slot_extra(&e->st, s)->history;
    struct record_history line = {
        .id = s->id, .is_error = death->event.event != EVENT_EXPIRED, .event = death->event};
    line.event.at = now;
    line.event.next_at = 0;
    line.event.previous = position;
    append_history(e, &line, &position);
}

void target_append(struct engine *e, uint32_t slot, int64_t now, const struct record_state *death,
                   struct target *t) {
    const struct slot *s = slot_at(&e->st, slot);
    const struct queue *from = queue_at(&e->st, s->queue), *to = t->queues[0];
    buf_clear(&e->result);
    buf_add_str(&e->result, "from ");
    buf_add(&e->result, from->name, from->name_bytes);
    buf_add_str(&e->result, " to ");
    buf_add(&e->result, to->name, to->name_bytes);

    struct record_message *m = &t->message;
    m->image = slot_image(&e->st, s);
    append_copies(e, now, from, t);
    if (t->by_exchange) /* it goes behind what is in the queue already, as what is published does */
        m->image.arrival = e->st.next_id;
    m->image.priority = priority_of_letter(to, t->priority);
    m->image.state = STATE_PENDING;
    m->image.retry_count = 0;
    m->image.max_retries = to->policy.max_retries;
    set_ttl(m, to, now, -1); /* what was asked for was for where it came from */
    take_place(&m->image, to, m->id, m->key);
    m->image.letter.group = 0;
    m->image.letter.dead_seq = 0;
    m->image.letter.deliveries_before = m->image.deliveries;
    carry_append(e, m, &t->carry);
    if (death)
        append_line(e, s, now, death);
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
