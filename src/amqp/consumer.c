/* Consumers, and whose turn it is.
 *
 * A queue is scheduled when something of it may go: a message became ready (the engine says so), a
 * consumer came, or has room again. Once a turn each scheduled queue gives what is ready to its
 * consumers with room: those of the highest priority, one message each in turn. It is scheduled again
 * when the turn's measure was full; when it is empty, or nobody has room, whoever changes that
 * schedules it.
 *
 * Room: less unacknowledged than the consumer's and the channel's prefetch, and a connection whose
 * output does not pile up. */
#include "amqp/front.h"

#include "base/mem.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    DELIVER_PER_TURN = 1024,       /* messages of one queue */
    DELIVER_AT_ONCE = 128,         /* claimed for one consumer */
    DELIVER_BYTES_AT_ONCE = 65536, /* payloads of them */
    UNACKED_MAX = 1000000,         /* of a channel without any limit of its own */
};

/* -- life ------------------------------------------------------------------------------------ */

struct consumer *consumer_find(const struct channel *c, struct span tag) {
    struct consumer *k = c->consumers;
    while (k != NULL && !span_equal(k->tag, tag))
        k = k->next;
    return k;
}

static void join_ring(struct amqp_queue *q, struct consumer *k) {
    if (q->consumers == NULL) {
        q->consumers = k->next_of_queue = k->previous_of_queue = k;
        q->priority_most = k->priority;
        return;
    }
    if (k->priority > q->priority_most)
        q->priority_most = k->priority;
    struct consumer *first = q->consumers, *last = first->previous_of_queue;
    k->next_of_queue = first;
    k->previous_of_queue = last;
    last->next_of_queue = first->previous_of_queue = k;
}

static void leave_ring(struct amqp_queue *q, struct consumer *k) {
    if (k->next_of_queue == k) {
        q->consumers = NULL;
        return;
    }
    k->next_of_queue->previous_of_queue = k->previous_of_queue;
    k->previous_of_queue->next_of_queue = k->next_of_queue;
    if (q->consumers == k)
        q->consumers = k->next_of_queue;
}

/* The single active consumer: of the highest priority the one that came first. */
static struct consumer *elect(const struct amqp_queue *q) {
    struct consumer *best = q->consumers;
    if (best == NULL)
        return NULL;
    for (struct consumer *k = best->next_of_queue; k != q->consumers; k = k->next_of_queue) {
        if (k->priority > best->priority ||
            (k->priority == best->priority && k->number < best->number))
            best = k;
    }
    return best;
}

void consumer_new(struct channel *c, struct amqp_queue *q, const struct consumer *like) {
    struct consumer *k = mem_alloc(sizeof *k + like->tag.n);
    uint8_t *tag = (uint8_t *)(k + 1);
    *k = *like;
    memcpy(tag, like->tag.p, like->tag.n);
    k->tag = span_of(tag, like->tag.n);
    k->channel = c;
    k->queue = q;
    k->number = ++c->session->amqp->consumer_numbers;
    k->unacked = 0;

    k->next = c->consumers;
    k->link = &c->consumers;
    if (k->next != NULL)
        k->next->link = &k->next;
    c->consumers = k;
    c->session->consumer_count++;

    registry_watch(q);
    join_ring(q, k);
    q->consumer_count++;
    q->has_exclusive_consumer = k->is_exclusive;
    if (q->is_single && q->active == NULL)
        q->active = k;
    queue_schedule(q);
}

/* The last consumer of a queue went. */
static void without_consumers(struct amqp_queue *q) {
    struct amqp *a = q->amqp;
    q->has_exclusive_consumer = false;
    registry_unwatch(q);
    if (q->is_gone)
        return;
    if (q->is_auto_delete) {
        /* When there is no room on the disk for it, it stays, and goes when it was used again. */
        enum err e = registry_delete(a, q->name, span_str("amqp"), "auto-delete");
        (void)e;
        return;
    }
    if (q->expires_ms >= 0)
        registry_touch(a, q->name, q->expires_ms);
}

void consumer_free(struct consumer *k) {
    struct amqp_queue *q = k->queue;
    struct channel *c = k->channel;
    *k->link = k->next;
    if (k->next != NULL)
        k->next->link = k->link;
    leave_ring(q, k);
    c->session->consumer_count--;
    q->consumer_count--;
    if (q->active == k)
        q->active = q->is_gone ? NULL : elect(q);
    k->is_gone = true;
    if (k->unacked == 0)
        free(k);

    q->refs++;
    if (q->consumer_count == 0)
        without_consumers(q);
    else
        queue_schedule(q);
    q->refs--;
    registry_release(q);
}

void consumer_settled(struct consumer *k) {
    k->unacked--;
    if (k->is_gone && k->unacked == 0)
        free(k);
}

void consumer_end(struct consumer *k) {
    struct channel *c = k->channel;
    if (c->session->can_cancel_notify && !c->is_closing && c->session->phase == OPEN) {
        amqp_basic_cancel_t cancel = {.consumer_tag = method_bytes(k->tag), .nowait = 1};
        channel_send(c, true, AMQP_BASIC_CANCEL_METHOD, &cancel);
    }
    consumer_free(k);
}

/* -- scheduling ------------------------------------------------------------------------------ */

void queue_schedule(struct amqp_queue *q) {
    struct amqp *a = q->amqp;
    if (q->is_scheduled || q->is_gone)
        return;
    q->is_scheduled = true;
    q->next_scheduled = NULL;
    *a->scheduled_last = q;
    a->scheduled_last = &q->next_scheduled;
}

void channel_schedule(struct channel *c) {
    for (struct consumer *k = c->consumers; k != NULL; k = k->next)
        queue_schedule(k->queue);
}

void session_schedule(struct session *s) {
    for (uint32_t i = 0; i < s->channel_cap; i++) {
        if (s->channels[i] != NULL)
            channel_schedule(s->channels[i]);
    }
}

void amqp_on_woken(struct amqp *a, struct queue *handle) {
    struct amqp_queue *q = registry_watched(a, handle);
    if (q == NULL)
        return;
    struct queue_view v;
    if (engine_queue_brief(a->server->engine, q->name, &v) != OK) {
        registry_gone(q);
        return;
    }
    if (v.ready == 0) {
        /* Deleted, and made anew under the same name? */
        struct queue *now_named;
        enum err e = engine_watch(a->server->engine, server_now(a->server), q->name, &now_named);
        if (e != OK)
            return;
        engine_unwatch(a->server->engine, now_named);
        if (now_named != handle)
            registry_gone(q);
        return;
    }
    queue_schedule(q);
}

/* -- whose turn it is ------------------------------------------------------------------------ */

static uint32_t room_of(const struct consumer *k) {
    const struct channel *c = k->channel;
    if (c->is_closing || c->session->phase != OPEN || session_is_congested(c->session))
        return 0;
    uint32_t room = DELIVER_AT_ONCE;
    if (k->no_ack)
        return room;
    if (c->unacked.count >= UNACKED_MAX)
        return 0;
    if (k->prefetch != 0) {
        uint32_t left = k->unacked < k->prefetch ? k->prefetch - k->unacked : 0;
        room = left < room ? left : room;
    }
    if (c->prefetch_channel != 0) {
        uint32_t left = c->consumer_unacked < c->prefetch_channel
                            ? c->prefetch_channel - c->consumer_unacked
                            : 0;
        room = left < room ? left : room;
    }
    return room;
}

struct choice {
    struct consumer *consumer; /* NULL: nobody has room */
    uint32_t room;
};

/* The next one. Alone with its priority it may have several at once, else one. */
static struct choice choose(struct amqp_queue *q) {
    struct choice best = {0};
    bool has_equals = false;
    if (q->is_single) {
        best.consumer = q->active;
        best.room = q->active != NULL ? room_of(q->active) : 0;
        if (best.room == 0)
            best.consumer = NULL;
        return best;
    }
    struct consumer *k = q->consumers;
    if (k == NULL)
        return best;
    int32_t most = k->priority;
    do {
        most = k->priority > most ? k->priority : most;
        if (best.consumer == NULL || k->priority >= best.consumer->priority) {
            uint32_t room = room_of(k);
            if (room > 0 && best.consumer != NULL && k->priority == best.consumer->priority) {
                has_equals = true;
            } else if (room > 0) {
                best = (struct choice){.consumer = k, .room = room};
                has_equals = false;
            }
        }
        if (has_equals && best.consumer->priority >= q->priority_most)
            break; /* nobody comes before these */
        k = k->next_of_queue;
    } while (k != q->consumers);
    if (k == q->consumers)
        q->priority_most = most; /* all were looked at */
    if (has_equals)
        best.room = 1;
    return best;
}

/* -- delivering ------------------------------------------------------------------------------ */

static struct span worker_of(struct amqp *a, const struct session *s) {
    if (s->name != NULL && s->name[0] != 0)
        return span_cut_utf8(span_str(s->name), LIMIT_WORKER);
    buf_clear(&a->scratch);
    buf_printf(&a->scratch, "%s@%s", s->user, conn_peer(s->conn));
    return span_cut_utf8(buf_span(&a->scratch), LIMIT_WORKER);
}

static enum err claim(struct channel *c, struct span queue, uint32_t count, uint64_t *ret_ids,
                      size_t *ret_n) {
    struct amqp *a = c->session->amqp;
    const struct claim what = {
        .count = count,
        .lease_ms = CLAIM_HELD,
        .bytes_max = DELIVER_BYTES_AT_ONCE,
        .worker = worker_of(a, c->session),
    };
    return engine_claim(a->server->engine, server_now(a->server), queue, &what, ret_ids, ret_n);
}

static void deliver(struct consumer *k, const uint64_t *ids, size_t n) {
    struct channel *c = k->channel;
    struct amqp *a = c->session->amqp;
    struct amqp_queue *q = k->queue;
    struct buf *out = session_out(c->session, true);
    for (size_t i = 0; i < n; i++) {
        struct message_view m;
        enum err e = engine_message(a->server->engine, q->name, ids[i], &m);
        assert(e == OK); /* it was claimed a moment ago */
        const struct handout h = {
            .channel = c,
            .message = &m,
            .tag = ++c->delivery_tag,
            .consumer_tag = k->tag,
            .with_ids = k->wants_ids,
            .is_quorum = q->is_quorum,
        };
        handout_write(out, &h);
        if (k->no_ack) {
            settling_add(a, q, ids[i], m.deliveries, SETTLE_SUCCEED);
            continue;
        }
        const struct delivery d = {
            .tag = c->delivery_tag, .id = ids[i], .lease = m.deliveries, .queue = q, .consumer = k};
        delivery_add(c, &d);
    }
}

enum delivered { DELIVERED_ALL, DELIVERED_SOME, DELIVERED_STUCK };

/* SOME: there may be more, and somebody has room for it. */
static enum delivered queue_deliver(struct amqp_queue *q) {
    uint64_t ids[DELIVER_AT_ONCE];
    size_t given = 0;
    while (given < DELIVER_PER_TURN) {
        struct choice next = choose(q);
        if (next.consumer == NULL)
            return DELIVERED_ALL;
        size_t n = 0;
        enum err e = claim(next.consumer->channel, q->name, next.room, ids, &n);
        if (e != OK || n == 0)
            return e != OK ? DELIVERED_STUCK : DELIVERED_ALL;
        deliver(next.consumer, ids, n);
        if (!q->is_single)
            q->consumers = next.consumer->next_of_queue;
        given += n;
    }
    return DELIVERED_SOME;
}

bool queues_deliver(struct amqp *a) {
    struct amqp_queue *first = a->scheduled_first, *q;
    bool has_more = false;
    if (first == NULL || a->is_draining)
        return false;
    a->scheduled_first = NULL;
    a->scheduled_last = &a->scheduled_first;
    a->is_stuck = false;
    while ((q = first) != NULL) {
        first = q->next_scheduled;
        q->is_scheduled = false;
        enum delivered d = q->consumers != NULL ? queue_deliver(q) : DELIVERED_ALL;
        if (d != DELIVERED_ALL)
            queue_schedule(q);
        has_more = has_more || d == DELIVERED_SOME;
        a->is_stuck = a->is_stuck || d == DELIVERED_STUCK;
        registry_release(q);
    }
    return has_more;
}

/* -- basic.get ------------------------------------------------------------------------------- */

enum err queue_get(struct channel *c, const struct place *queue, bool no_ack, bool is_quorum) {
    struct amqp *a = c->session->amqp;
    uint64_t id;
    size_t n = 0;
    enum err e = claim(c, queue->scoped, 1, &id, &n);
    if (e != OK)
        return e;
    if (n == 0) {
        amqp_basic_get_empty_t empty = {.cluster_id = amqp_empty_bytes};
        channel_send(c, true, AMQP_BASIC_GET_EMPTY_METHOD, &empty);
        return OK;
    }
    struct queue_view v;
    struct message_view m;
    e = engine_queue_brief(a->server->engine, queue->scoped, &v);
    uint64_t ready = e == OK ? v.ready : 0;
    e = engine_message(a->server->engine, queue->scoped, id, &m);
    assert(e == OK); /* it was claimed a moment ago */
    const struct handout h = {
        .channel = c,
        .message = &m,
        .tag = ++c->delivery_tag,
        .is_get = true,
        .is_quorum = is_quorum,
        .ready = ready > UINT32_MAX ? UINT32_MAX : (uint32_t)ready,
    };
    handout_write(session_out(c->session, true), &h);
    struct amqp_queue *q = registry_need(a, queue->scoped);
    if (no_ack) {
        settling_add(a, q, id, m.deliveries, SETTLE_SUCCEED);
        return OK;
    }
    const struct delivery d = {
        .tag = c->delivery_tag, .id = id, .lease = m.deliveries, .is_get = true, .queue = q};
    delivery_add(c, &d);
    return OK;
}
