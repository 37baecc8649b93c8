/* Messages as they go to clients: deliver, get-ok, return. */
#include "amqp/be.h"
#include "amqp/content.h"
#include "amqp/front.h"

#include "base/logging.h"
#include "model/scope.h"

#include <assert.h>
#include <inttypes.h>

/* The envelope of a message, NULL when it came by another way than AMQP. */
static const struct envelope *open_envelope(struct amqp *a, const struct message_view *m) {
    if (m->envelope.n == 0)
        return NULL;
    enum err e = envelope_unpack(m->envelope, a->envelope);
    assert(e == OK); /* its record's checksum was right */
    return a->envelope;
}

/* How often it was handed out before, since it came to this queue. */
static uint32_t returns_of(const struct message_view *m) {
    uint32_t here = m->deliveries - m->deliveries_before;
    return here > 0 ? here - 1 : 0;
}

static void write_method(struct buf *out, const struct handout *h, struct span exchange,
                         struct span key) {
    bool redelivered = returns_of(h->message) > 0;
    if (h->is_get) {
        amqp_basic_get_ok_t ok = {
            .delivery_tag = h->tag,
            .redelivered = redelivered,
            .exchange = method_bytes(exchange),
            .routing_key = method_bytes(key),
            .message_count = h->ready,
        };
        method_write(out, h->channel->number, AMQP_BASIC_GET_OK_METHOD, &ok);
        return;
    }
    amqp_basic_deliver_t deliver = {
        .consumer_tag = method_bytes(h->consumer_tag),
        .delivery_tag = h->tag,
        .redelivered = redelivered,
        .exchange = method_bytes(exchange),
        .routing_key = method_bytes(key),
    };
    method_write(out, h->channel->number, AMQP_BASIC_DELIVER_METHOD, &deliver);
}

void handout_write(struct buf *out, const struct handout *h) {
    struct session *s = h->channel->session;
    const struct message_view *m = h->message;
    const struct envelope *v = open_envelope(s->amqp, m);
    struct span exchange = {0}, key;
    if (v != NULL && v->key_count > 0) {
        exchange = v->exchange;
        key = v->keys[0];
    } else {
        struct span vhost;
        scope_split(m->queue, &vhost, &key);
    }
    write_method(out, h, exchange, key);
    struct content_out content = {
        .body_bytes = m->payload.n,
        .envelope = v,
        .headers = m->headers,
        .replaces_headers = m->parent_id != 0,
        .priority = m->priority,
        .has_id = h->with_ids,
        .id = m->id,
        .lease = m->deliveries,
    };
    if (h->is_quorum)
        content.delivery_count = content.acquired_count = returns_of(m);
    if (!content_write(out, h->channel->number, &content, s->frame_max)) {
        /* Its properties are larger than the client's frames: it gets the body alone. */
        log_warn("message %" PRIu64 " is delivered without its properties: frame_max is %u", m->id,
                 s->frame_max);
        content = (struct content_out){.body_bytes = m->payload.n};
        bool fits = content_write(out, h->channel->number, &content, s->frame_max);
        assert(fits);
    }
    content_write_body(out, h->channel->number, m->payload, s->frame_max);
}

/* A header frame of a property list as it came from another client of ours. */
static void write_header(struct buf *out, uint16_t channel, uint64_t body_bytes,
                         struct span properties) {
    size_t mark = frame_begin(out, FRAME_HEADER, channel);
    be_add16(out, CONTENT_CLASS);
    be_add16(out, 0);
    be_add64(out, body_bytes);
    if (properties.n > 0)
        buf_add_span(out, properties);
    else
        be_add16(out, 0);
    frame_end(out, mark);
}

void handout_return(struct channel *c, const struct publication *p) {
    struct buf *out = session_out(c->session, true);
    amqp_basic_return_t back = {
        .reply_code = CODE_NO_ROUTE,
        .reply_text = method_str("NO_ROUTE"),
        .exchange = method_bytes(p->exchange),
        .routing_key = method_bytes(p->key),
    };
    method_write(out, c->number, AMQP_BASIC_RETURN_METHOD, &back);
    write_header(out, c->number, p->body.n, p->content->properties);
    content_write_body(out, c->number, p->body, c->session->frame_max);
}

void handout_reply(struct channel *to, struct span tag, const struct publication *p,
                   struct span properties) {
    struct session *s = to->session;
    /* From memory to memory: there is nothing on disk to wait for. */
    struct buf *out = session_out(s, false);
    amqp_basic_deliver_t deliver = {
        .consumer_tag = method_bytes(tag),
        .delivery_tag = ++to->delivery_tag,
        .exchange = method_bytes(p->exchange),
        .routing_key = method_bytes(p->key),
    };
    method_write(out, to->number, AMQP_BASIC_DELIVER_METHOD, &deliver);
    if (properties.n + FRAME_OVERHEAD + 16 > s->frame_max)
        properties = (struct span){0};
    write_header(out, to->number, p->body.n, properties);
    content_write_body(out, to->number, p->body, s->frame_max);
}
