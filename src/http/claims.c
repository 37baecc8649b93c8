#include "http/claims.h"

#include "http/view.h"

#include <assert.h>

static void put_messages(struct http *h, struct reply *r, struct span queue, const uint64_t *ids,
                         size_t n, int64_t now) {
    struct json_writer w;
    json_writer_init(&w, r->body);
    for (size_t i = 0; i < n; i++) {
        struct message_view m;
        enum err e = engine_message(h->server->engine, queue, ids[i], &m);
        assert(e == OK); /* it was claimed a moment ago */
        if (i > 0)
            buf_add_byte(r->body, ',');
        json_writer_init(&w, r->body);
        view_message(&m, VIEW_CLAIM, now, &w);
    }
}

/* Where there was nothing to claim, whether that is because the queue is paused or its breaker not
 * closed. */
static void put_brakes(struct http *h, struct reply *r, struct span queue) {
    struct queue_view q;
    if (engine_queue_brief(h->server->engine, queue, &q) != OK)
        return;
    struct json_writer w;
    json_writer_init(&w, r->body);
    if (q.paused_at != 0) {
        buf_add_str(r->body, ",\"paused\":");
        view_paused(&q, &w);
    }
    json_writer_init(&w, r->body);
    if (q.breaker != BREAKER_CLOSED) {
        buf_add_str(r->body, ",\"breaker\":");
        view_breaker(&q, &w);
    }
}

void claim_reply(struct http *h, struct reply *r, struct span queue, enum claim_shape shape,
                 const uint64_t *ids, size_t n, int64_t now) {
    const char *is_claimed = n > 0 ? "true" : "false";
    switch (shape) {
    case CLAIM_ONE:
        buf_printf(r->body, "{\"claimed\":%s,\"message\":%s", is_claimed, n > 0 ? "" : "null");
        put_messages(h, r, queue, ids, n, now);
        break;
    case CLAIM_MANY:
        buf_printf(r->body, "{\"claimed\":%s,\"messages\":[", is_claimed);
        put_messages(h, r, queue, ids, n, now);
        buf_add_byte(r->body, ']');
        break;
    case CLAIM_AFTER_SETTLE:
        buf_add_str(r->body, ",\"messages\":[");
        put_messages(h, r, queue, ids, n, now);
        buf_add_byte(r->body, ']');
        break;
    }
    if (n == 0)
        put_brakes(h, r, queue);
    buf_add_byte(r->body, '}');
}

void claim_reply_error(struct reply *r, enum claim_shape shape, enum err e) {
    if (shape != CLAIM_AFTER_SETTLE) {
        reply_error(r, e);
        return;
    }
    /* The items are settled, and their results must be told. */
    buf_add_str(r->body, ",\"messages\":[],\"claim_error\":");
    struct json_writer w;
    json_writer_init(&w, r->body);
    problem_write(problem_of(e), &w);
    buf_add_byte(r->body, '}');
}

void claim_let_others_first(struct call *c) {
    struct queue *q = engine_watched(call_engine(c), c->queue);
    if (!q)
        return;
    http_on_woken(c->http, q);
    buf_clear(c->reply.body); /* theirs were made in it */
}

void claim_or_wait(struct call *c, const struct claim_body *body, enum claim_shape shape) {
    struct http *h = c->http;
    size_t n = 0;
    enum err e = engine_claim(call_engine(c), c->now, c->queue, &body->claim, h->ids, &n);
    if (e == OK && n == 0 && body->wait_ms > 0) {
        e = waiter_add(c, body, shape, buf_span(c->reply.body));
        if (e == OK)
            return;
    }
    if (e != OK)
        claim_reply_error(&c->reply, shape, e);
    else
        claim_reply(h, &c->reply, c->queue, shape, h->ids, n, c->now);
}

void handle_claim(struct call *c) {
    struct json *json;
    if (!call_body(c, false, &json))
        return;
    struct claim_body body;
    claim_body_read(&body, json, "", &c->http->errors);
    if (call_is_valid(c)) {
        claim_let_others_first(c);
        claim_or_wait(c, &body, body.has_count ? CLAIM_MANY : CLAIM_ONE);
    }
    json_free(json);
}
