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

static struct record_message message_of(const struct engine *e, const struct queue *q, int64_t now,
                                        const struct message_new *m) {
    const struct policy *p = &q->policy;
    int64_t delay_ms = m->delay_ms < 0 ? p->delay_ms : m->delay_ms;
    int64_t ttl_ms = m->ttl_ms < 0 ? p->ttl_ms : m->ttl_ms;
    struct record_message r = {
        .id = e->st.next_id,
        .queue = q->number,
        .image = {.state = STATE_PENDING,
                  .max_retries = m->max_retries ? m->max_retries : p->max_retries,
                  .priority = m->priority,
                  .updated_at = now,
                  .next_at = delay_ms > 0 ? now + delay_ms : 0,
                  .expires_at = ttl_ms > 0 ? now + ttl_ms : 0},
        .created_at = now,
        .ttl_ms = ttl_ms,
        .headers = m->headers,
        .key = m->key,
        .payload = m->payload,
    };
    take_place(&r.image, q, r.id, r.key);
    return r;
}

/* There is no room for it in its queue, whose policy says what then: it is accepted, and dead. */
static void overflow(struct engine *e, int64_t now, const struct queue *q,
                     struct record_message *r) {
    const struct failure_facts facts = {.queue = span_of(q->name, q->name_bytes),
                                        .reason = REASON_MAX_LENGTH};
    struct group_choice choice;
    group_choose(e, now, q, &facts, (struct span){0}, true, &choice);
    group_append(e, &choice);
    r->image.state = STATE_DEAD;
    r->image.reason = REASON_MAX_LENGTH;
    r->image.next_at = 0;
    r->image.is_ordered = false;
    r->image.has_letter = true;
    r->image.letter = (struct letter_image){.died_at = now,
                                            .dead_seq = e->st.next_dead_seq,
                                            .group = choice.group,
                                            .version = choice.version};
}

/* One item into the open frame; a known key appends nothing. */
static struct enqueued enqueue_one(struct engine *e, int64_t now, struct queue *q,
                                   const struct message_new *m) {
    struct record_message r = message_of(e, q, now, m);
    if (m->idempotency_key.n > 0) {
        r.idempotency_hash = key_hash(q->number, m->idempotency_key);
        uint64_t first = key_find(&e->st, r.idempotency_hash, now);
        if (first)
            return (struct enqueued){.id = first, .duplicate = true};
        r.idempotency_until = now + q->policy.idempotency_window_ms;
    }
    if (q->policy.overflow == OVERFLOW_DEAD && !queue_fits(q, 1, m->payload.n))
        overflow(e, now, q, &r);
    append_message(e, &r);
    return (struct enqueued){.id = r.id};
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
    if (q->policy.overflow == OVERFLOW_REJECT && !queue_fits(q, messages, bytes))
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
    if (q && q->policy.overflow == OVERFLOW_DEAD) {
        record_bytes += log_record_bytes(GROUP_ROOM, 0); /* those that die have one cause */
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
        ret[i] = enqueue_one(e, now, q, &items[i]);
    log_frame_end(e->log);
    return OK;
}
