#include "engine/engine_int.h"

#include <assert.h>

static uint64_t unfinished(const struct queue *q) {
    return q->count[STATE_PENDING] + q->count[STATE_PROCESSING] + q->count[STATE_PARKED];
}

bool queue_fits(const struct queue *q, uint64_t messages, uint64_t bytes) {
    const struct policy *p = &q->policy;
    uint64_t held = q->bytes[STATE_PENDING] + q->bytes[STATE_PROCESSING] + q->bytes[STATE_PARKED];
    return (!p->messages_max || unfinished(q) + messages <= p->messages_max) &&
           (!p->bytes_max || held + bytes <= p->bytes_max);
}

void take_place(struct message_image *image, const struct queue *q, uint64_t id, struct span key) {
    image->is_ordered = q->policy.order != ORDER_NONE && key.n > 0;
    image->order_key = image->is_ordered ? hash64(key, q->number) : 0;
    image->order_rank = image->is_ordered ? id : 0;
}

/* -1 = none. */
static int64_t smaller_ttl(int64_t a, int64_t b) {
    return a < 0 || (b >= 0 && b < a) ? b : a;
}

void set_ttl(struct record_message *m, const struct queue *q, int64_t now, int64_t ttl_ms) {
    if (q->amqp)
        ttl_ms = smaller_ttl(ttl_ms, q->amqp->effective.message_ttl_ms);
    /* None at all: it may still be taken within the same millisecond. */
    if (ttl_ms == 0)
        ttl_ms = 1;
    m->ttl_ms = ttl_ms < 0 ? 0 : ttl_ms;
    m->image.expires_at = ttl_ms < 0 ? 0 : now + ttl_ms;
}

uint8_t priority_in(const struct queue *q, uint8_t priority) {
    int64_t most = q->amqp ? q->amqp->effective.max_priority : -1;
    if (most < 0)
        return 0;
    if (priority > PRIORITY_MAX)
        priority = PRIORITY_MAX;
    return priority > most ? (uint8_t)most : priority;
}

uint8_t priority_of_letter(const struct queue *q, uint8_t priority) {
    return q->amqp && q->amqp->image.is_declared ? priority_in(q, priority) : priority;
}

enum intake intake_of(const struct queue *q, uint64_t messages, uint64_t bytes) {
    if (!queue_fits(q, messages, bytes))
        return q->policy.overflow == OVERFLOW_DEAD ? INTAKE_KILLS : INTAKE_REFUSES;
    enum length_overflow overflow = queue_overflow(q);
    if (overflow == LENGTH_DROP_HEAD)
        return INTAKE_TAKES;
    const struct queue_settings *s = &q->amqp->effective;
    bool fits =
        (s->max_length < 0 || q->ready + messages <= (uint64_t)s->max_length) &&
        (s->max_length_bytes < 0 || q->ready_bytes + bytes <= (uint64_t)s->max_length_bytes);
    if (fits)
        return INTAKE_TAKES;
    return overflow == LENGTH_REJECT_PUBLISH_DLX && s->has_dlx ? INTAKE_REFUSES_DEAD
                                                               : INTAKE_REFUSES;
}

struct record_message message_for(const struct engine *e, const struct queue *q, int64_t now,
                                  const struct message_new *m, int64_t expiration_ms,
                                  struct span envelope) {
    const struct policy *p = &q->policy;
    int64_t delay_ms = m->delay_ms < 0 ? p->delay_ms : m->delay_ms;
    int64_t ttl_ms = m->ttl_ms < 0 ? p->ttl_ms : m->ttl_ms; /* 0 = none */
    bool is_by_settings = envelope.n > 0 || (q->amqp && q->amqp->image.is_declared);
    struct record_message r = {
        .id = e->st.next_id,
        .queue = q->number,
        .image = {.state = STATE_PENDING,
                  .max_retries = m->max_retries ? m->max_retries : p->max_retries,
                  .priority = is_by_settings ? priority_in(q, m->priority) : m->priority,
                  .updated_at = now,
                  .next_at = delay_ms > 0 ? now + delay_ms : 0},
        .created_at = now,
        .headers = m->headers,
        .key = m->key,
        .envelope = envelope,
        .payload = m->payload,
    };
    set_ttl(&r, q, now, smaller_ttl(expiration_ms, ttl_ms > 0 ? ttl_ms : -1));
    take_place(&r.image, q, r.id, r.key);
    return r;
}

/* One item into the open frame; a known key appends nothing. `room`: for where it goes when its queue
 * is full, whose policy says that it is dead then. */
static struct enqueued enqueue_one(struct engine *e, int64_t now, struct queue *q,
                                   const struct message_new *m, size_t room) {
    struct record_message r = message_for(e, q, now, m, -1, (struct span){0});
    if (m->idempotency_key.n > 0) {
        r.idempotency_hash = key_hash(q->number, m->idempotency_key);
        uint64_t first = key_find(&e->st, r.idempotency_hash, now);
        if (first)
            return (struct enqueued){.id = first, .duplicate = true};
        r.idempotency_until = now + q->policy.idempotency_window_ms;
    }
    if (q->policy.overflow == OVERFLOW_DEAD && !queue_fits(q, 1, m->payload.n)) {
        struct arrival a;
        arrival_plan(e, now, q, &r, room, &a);
        arrival_append(e, now, &r, &a);
    } else {
        append_message(e, &r);
    }
    return (struct enqueued){.id = r.id};
}

/* Room for all of them to go on from a queue that is full: where to, may differ from item to item. */
static size_t arrivals_room(struct engine *e, int64_t now, const struct queue *q,
                            const struct message_new *items, size_t n) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += items[i].payload.n;
    if (queue_fits(q, n, bytes))
        return 0;
    size_t room = 0;
    for (size_t i = 0; i < n; i++) {
        struct record_message m = message_for(e, q, now, &items[i], -1, (struct span){0});
        struct arrival a;
        arrival_plan(e, now, q, &m, SIZE_MAX, &a);
        room += a.target.count ? a.target.bytes : 0;
        target_release(&a.target);
    }
    return room;
}

static bool is_known(const struct engine *e, int64_t now, const struct queue *q,
                     const struct message_new *m) {
    return m->idempotency_key.n > 0 &&
           key_find(&e->st, key_hash(q->number, m->idempotency_key), now) != 0;
}

/* Only what is new can be in the way of a limit or a full disk. */
static enum err may_accept(const struct engine *e, int64_t now, const struct queue *q,
                           const struct message_new *items, size_t n, size_t record_bytes) {
    uint64_t messages = 0, bytes = 0;
    for (size_t i = 0; i < n; i++) {
        if (is_known(e, now, q, &items[i]))
            continue;
        messages++;
        bytes += items[i].payload.n;
    }
    if (messages == 0)
        return OK;
    enum intake intake = intake_of(q, messages, bytes);
    if (intake == INTAKE_REFUSES || intake == INTAKE_REFUSES_DEAD)
        return ERR_QUEUE_FULL;
    return log_has_room(e->log, LOG_USE_ACCEPT, record_bytes) ? OK : ERR_DISK_FULL;
}

enum err engine_key_find(struct engine *e, int64_t now, struct span queue, struct span key,
                         uint64_t *ret_id) {
    const struct queue *q = queue_by_name(&e->st, queue);
    if (!q)
        return ERR_NO_QUEUE;
    uint64_t id = key_find(&e->st, key_hash(q->number, key), now);
    if (!id)
        return ERR_NO_MESSAGE;
    *ret_id = id;
    return OK;
}

enum err engine_enqueue(struct engine *e, int64_t now, struct span queue,
                        const struct message_new *items, size_t n, struct enqueued *ret) {
    assert(n > 0 && n <= LIMIT_BATCH);
    size_t record_bytes = 0;
    for (size_t i = 0; i < n; i++)
        record_bytes += log_record_bytes(STATE_RECORD_BYTES,
                                         items[i].headers.n + items[i].key.n + items[i].payload.n);
    if (record_bytes > log_frame_bytes_max(e->log))
        return ERR_TOO_LARGE;

    struct queue *q = queue_by_name(&e->st, queue);
    size_t room = 0;
    if (q && q->policy.overflow == OVERFLOW_DEAD) {
        room = arrivals_room(e, now, q, items, n);
        record_bytes += log_record_bytes(GROUP_ROOM, 0); /* those that die have one cause */
        if (record_bytes + room > log_frame_bytes_max(e->log))
            room = 0; /* all or none of them are accepted: they stay */
        record_bytes += room;
        if (record_bytes > log_frame_bytes_max(e->log))
            return ERR_TOO_LARGE;
    }
    enum err r = need_queue(e, now, queue, LOG_USE_ACCEPT, &q);
    if (r == OK)
        r = may_accept(e, now, q, items, n, record_bytes);
    if (r != OK)
        return r;
    log_frame_begin(e->log, record_bytes);
    for (size_t i = 0; i < n; i++)
        ret[i] = enqueue_one(e, now, q, &items[i], room);
    log_frame_end(e->log);
    (void)relieve(e, now);
    return OK;
}
