/* basic.qos, consume, cancel, get, ack, nack, reject, recover. Publishing is in publish.c. */
#include "amqp/front.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* -- qos ------------------------------------------------------------------------------------- */

static void qos(struct channel *c, const amqp_basic_qos_t *m) {
    if (m->prefetch_size != 0) {
        channel_fail(c, CODE_NOT_IMPLEMENTED, AMQP_BASIC_QOS_METHOD, "prefetch_size!=0 (%u)",
                     m->prefetch_size);
        return;
    }
    if (m->global) {
        c->prefetch_channel = m->prefetch_count;
        channel_schedule(c);
    } else {
        c->prefetch = m->prefetch_count;
    }
    amqp_basic_qos_ok_t ok = {0};
    channel_send(c, false, AMQP_BASIC_QOS_OK_METHOD, &ok);
}

/* -- consume --------------------------------------------------------------------------------- */

static const amqp_field_value_t *find_argument(const amqp_table_t *t, const char *name) {
    for (int i = 0; i < t->num_entries; i++) {
        if (span_equal_str(method_span(t->entries[i].key), name))
            return &t->entries[i].value;
    }
    return NULL;
}

static bool read_integer(const amqp_field_value_t *v, int64_t *ret) {
    switch (v->kind) {
    case AMQP_FIELD_KIND_I8:
        *ret = 0 + v->value.i8; /* a number, not a character */
        return true;
    case AMQP_FIELD_KIND_U8:
        *ret = v->value.u8;
        return true;
    case AMQP_FIELD_KIND_I16:
        *ret = v->value.i16;
        return true;
    case AMQP_FIELD_KIND_U16:
        *ret = v->value.u16;
        return true;
    case AMQP_FIELD_KIND_I32:
        *ret = v->value.i32;
        return true;
    case AMQP_FIELD_KIND_U32:
        *ret = v->value.u32;
        return true;
    case AMQP_FIELD_KIND_I64:
    case AMQP_FIELD_KIND_U64: /* both signed, as everybody reads them */
        *ret = v->value.i64;
        return true;
    default:
        return false;
    }
}

/* False: the channel failed. */
static bool read_consumer(struct channel *c, const struct place *q, const amqp_basic_consume_t *m,
                          struct consumer *ret) {
    *ret = (struct consumer){
        .no_ack = m->no_ack,
        .is_exclusive = m->exclusive,
        .prefetch = c->prefetch,
    };
    const amqp_field_value_t *v = find_argument(&m->arguments, "x-priority");
    int64_t priority = 0;
    if (v != NULL && !read_integer(v, &priority)) {
        channel_fail(c, CODE_PRECONDITION_FAILED, AMQP_BASIC_CONSUME_METHOD,
                     "invalid arg 'x-priority' for queue '%.*s' in vhost '%.*s': it must be an "
                     "integer",
                     TEXT(q->plain), TEXT(session_vhost(c->session)));
        return false;
    }
    if (priority < INT32_MIN || priority > INT32_MAX)
        priority = priority < 0 ? INT32_MIN : INT32_MAX;
    ret->priority = (int32_t)priority;
    v = find_argument(&m->arguments, "x-nixie-ids");
    ret->wants_ids = v != NULL && v->kind == AMQP_FIELD_KIND_BOOLEAN && v->value.boolean;
    return true;
}

/* The client's tag, or one of ours; false: the session failed. */
static bool read_tag(struct channel *c, const amqp_basic_consume_t *m, struct span *ret) {
    struct amqp *a = c->session->amqp;
    *ret = method_span(m->consumer_tag);
    if (ret->n == 0) {
        name_make("amq.ctag-", &a->scratch);
        *ret = buf_span(&a->scratch);
        return true;
    }
    if (consumer_find(c, *ret) == NULL && !reply_has_tag(c, *ret))
        return true;
    session_fail(c->session, CODE_NOT_ALLOWED, AMQP_BASIC_CONSUME_METHOD,
                 "attempt to reuse consumer tag '%.*s'", TEXT(*ret));
    return false;
}

static void consume_ok(struct channel *c, const amqp_basic_consume_t *m, struct span tag) {
    amqp_basic_consume_ok_t ok = {.consumer_tag = method_bytes(tag)};
    if (!m->nowait)
        channel_send(c, true, AMQP_BASIC_CONSUME_OK_METHOD, &ok);
}

static void consume(struct channel *c, const amqp_basic_consume_t *m) {
    struct amqp *a = c->session->amqp;
    const uint32_t method = AMQP_BASIC_CONSUME_METHOD;
    struct span tag;
    if (span_equal_str(method_span(m->queue), REPLY_QUEUE)) {
        if (read_tag(c, m, &tag) && reply_consume(c, m->no_ack, tag))
            consume_ok(c, m, tag);
        return;
    }
    struct place q;
    struct queue_amqp_view view;
    struct consumer like;
    if (c->session->consumer_count >= LIMIT_AMQP_CONSUMERS) {
        session_fail(c->session, CODE_NOT_ALLOWED, method,
                     "number of consumers (%u) has reached the maximum of a connection",
                     c->session->consumer_count);
        return;
    }
    if (!name_find_queue(c, m->queue, ACCESS_READ, method, &a->name, &q, &view) ||
        !read_consumer(c, &q, m, &like) || !read_tag(c, m, &tag))
        return;
    const struct amqp_queue *known = registry_find(a, q.scoped);
    if (known != NULL && known->consumer_count > 0 &&
        (m->exclusive || known->has_exclusive_consumer)) {
        channel_fail(c, CODE_ACCESS_REFUSED, method,
                     "queue '%.*s' in vhost '%.*s' in exclusive use", TEXT(q.plain),
                     TEXT(session_vhost(c->session)));
        return;
    }
    struct amqp_queue *queue = registry_need(a, q.scoped);
    if (queue->consumer_count == 0) {
        queue->is_single = view.effective.single_active_consumer;
        queue->is_auto_delete = view.auto_delete;
        queue->is_quorum = view.type == QUEUE_QUORUM;
    }
    like.tag = tag;
    consume_ok(c, m, tag);
    consumer_new(c, queue, &like);
}

static void cancel(struct channel *c, const amqp_basic_cancel_t *m) {
    struct span tag = method_span(m->consumer_tag);
    struct consumer *k = consumer_find(c, tag);
    if (k != NULL)
        consumer_free(k);
    else if (reply_has_tag(c, tag))
        reply_free(c);
    amqp_basic_cancel_ok_t ok = {.consumer_tag = m->consumer_tag};
    if (!m->nowait)
        channel_send(c, true, AMQP_BASIC_CANCEL_OK_METHOD, &ok);
}

/* -- get ------------------------------------------------------------------------------------- */

static void get(struct channel *c, const amqp_basic_get_t *m) {
    struct amqp *a = c->session->amqp;
    const uint32_t method = AMQP_BASIC_GET_METHOD;
    struct place q;
    struct queue_amqp_view view;
    if (!name_find_queue(c, m->queue, ACCESS_READ, method, &a->name, &q, &view))
        return;
    if (view.effective.single_active_consumer) {
        channel_fail(c, CODE_RESOURCE_LOCKED, method,
                     "cannot obtain access to queue '%.*s' in vhost '%.*s'. basic.get operations "
                     "are not supported by queues with single active consumer",
                     TEXT(q.plain), TEXT(session_vhost(c->session)));
        return;
    }
    if (view.effective.expires_ms >= 0)
        registry_touch(a, q.scoped, view.effective.expires_ms);
    enum err e = queue_get(c, &q, m->no_ack, view.type == QUEUE_QUORUM);
    if (e != OK)
        channel_fail_err(c, method, e);
}

/* -- settling -------------------------------------------------------------------------------- */

static void settle(struct channel *c, uint32_t method, uint64_t tag, bool multiple,
                   enum settle_action action) {
    bool known = c->is_tx ? tx_settle(c, tag, multiple, action)
                          : deliveries_settle(c, tag, multiple, action);
    if (!known)
        channel_fail(c, CODE_PRECONDITION_FAILED, method, "unknown delivery tag %" PRIu64, tag);
}

static void recover(struct channel *c, bool requeue, uint32_t method) {
    if (!requeue) {
        channel_fail(c, CODE_NOT_IMPLEMENTED, method, "requeue=false");
        return;
    }
    deliveries_recover(c, method == AMQP_BASIC_RECOVER_METHOD);
}

void basic_method(struct channel *c, const struct method *m) {
    switch (m->id) {
    case AMQP_BASIC_PUBLISH_METHOD:
        publish_begin(c, m);
        break;
    case AMQP_BASIC_ACK_METHOD: {
        const amqp_basic_ack_t *ack = m->decoded;
        settle(c, m->id, ack->delivery_tag, ack->multiple, SETTLE_SUCCEED);
        break;
    }
    case AMQP_BASIC_NACK_METHOD: {
        const amqp_basic_nack_t *nack = m->decoded;
        settle(c, m->id, nack->delivery_tag, nack->multiple,
               nack->requeue ? SETTLE_RETURN : SETTLE_REJECT);
        break;
    }
    case AMQP_BASIC_REJECT_METHOD: {
        const amqp_basic_reject_t *reject = m->decoded;
        settle(c, m->id, reject->delivery_tag, false,
               reject->requeue ? SETTLE_RETURN : SETTLE_REJECT);
        break;
    }
    case AMQP_BASIC_QOS_METHOD:
        qos(c, m->decoded);
        break;
    case AMQP_BASIC_CONSUME_METHOD:
        consume(c, m->decoded);
        break;
    case AMQP_BASIC_CANCEL_METHOD:
        cancel(c, m->decoded);
        break;
    case AMQP_BASIC_CANCEL_OK_METHOD:
        break; /* of a cancel of ours */
    case AMQP_BASIC_GET_METHOD:
        get(c, m->decoded);
        break;
    case AMQP_BASIC_RECOVER_METHOD:
        recover(c, ((const amqp_basic_recover_t *)m->decoded)->requeue, m->id);
        break;
    case AMQP_BASIC_RECOVER_ASYNC_METHOD:
        recover(c, ((const amqp_basic_recover_async_t *)m->decoded)->requeue, m->id);
        break;
    default:
        channel_unexpected(c, m);
    }
}
