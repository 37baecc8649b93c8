/* A connection's output. The common reply is one write call on a socket with room; only what does
 * not fit goes through libuv's queue, in memory handed over to it. */
#include "base/mem.h"
#include "net/conn.h"
#include "net/conn_internal.h"

#include <stdlib.h>

enum {
    TLS_CHUNK_BYTES =
        48 * 1024, /* encrypted at a time, so that a slow reader's reply is not held twice */
    /* What a TLS session answers by itself while the peer reads nothing (key updates): more is an
       attack. */
    QUEUED_BYTES_MAX = 64 * 1024,
};

struct buf *conn_out(struct conn *c) {
    return &c->out;
}

size_t conn_out_pending(const struct conn *c) {
    size_t n = c->out.n - c->out_start;
    if (c->sending != NULL)
        n += uv_stream_get_write_queue_size((const uv_stream_t *)&c->tcp) + c->sending->queued.n;
    return n;
}

void conn_set_out_hold(struct conn *c, size_t n) {
    c->out_hold = n > CONN_OUT_HIGH ? n : CONN_OUT_HIGH;
}

static void empty(struct buf *b) {
    if (b->cap > CONN_KEEP_BYTES)
        buf_release(b);
    else
        buf_clear(b);
}

/* Never closes here: the caller may be in the middle of its work on c. */
static void fail(struct conn *c, int uv_error) {
    if (c->failed)
        return;
    c->failed = true;
    if (!c->finishing)
        c->reason = conn_reason_of(uv_error);
    conn_schedule(c);
}

/* -- the slow way ---------------------------------------------------------------------------- */

static void sending_free(struct sending *s) {
    buf_release(&s->bytes);
    buf_release(&s->queued);
    free(s);
}

static void on_written(uv_write_t *req, int status);

static int sending_start(struct sending *s, size_t from) {
    uv_buf_t rest = {.base = (char *)s->bytes.p + from, .len = s->bytes.n - from};
    return uv_write(&s->req, (uv_stream_t *)&s->c->tcp, &rest, 1, on_written);
}

/* Everything was handed to the socket. */
static void all_sent(struct conn *c) {
    if (c->finishing) {
        conn_finish_step(c);
        return;
    }
    if (!c->over_high)
        return;
    c->over_high = c->over_hold = false;
    if (c->protocol->drained != NULL)
        c->protocol->drained(c);
    conn_schedule(c); /* for input that was held back */
}

static void on_written(uv_write_t *req, int status) {
    struct sending *s = req->data;
    struct conn *c = s->c;
    if (status == 0 && !c->closing && s->queued.n > 0) {
        buf_release(&s->bytes);
        s->bytes = s->queued;
        buf_init(&s->queued, s->bytes.max);
        status = sending_start(s, 0);
        if (status == 0)
            return;
    }
    c->sending = NULL;
    sending_free(s);
    if (c->closing)
        return;
    if (status != 0) {
        conn_close(c, c->finishing ? c->reason : conn_reason_of(status));
        return;
    }
    conn_flush(c);
    if (conn_out_pending(c) == 0)
        all_sent(c);
}

/* -- the fast way ---------------------------------------------------------------------------- */

static void send_later(struct conn *c, struct buf *b, size_t from) {
    struct sending *s = mem_alloc(sizeof *s);
    s->c = c;
    s->req.data = s;
    s->bytes = *b;
    buf_init(&s->queued, b->max);
    buf_init(b, b->max);
    int status = sending_start(s, from);
    if (status != 0) {
        sending_free(s);
        fail(c, status);
        return;
    }
    c->sending = s;
}

void conn_send(struct conn *c, struct buf *b) {
    if (b->n == 0 || c->failed) {
        empty(b);
        return;
    }
    if (c->sending != NULL) {
        if (c->sending->queued.n + b->n > QUEUED_BYTES_MAX)
            fail(c, UV_ENOBUFS);
        else
            buf_add_span(&c->sending->queued, buf_span(b));
        empty(b);
        return;
    }

    uv_buf_t all = {.base = (char *)b->p, .len = b->n};
    int n = uv_try_write((uv_stream_t *)&c->tcp, &all, 1);
    if (n == UV_EAGAIN)
        n = 0;
    if (n < 0) {
        fail(c, n);
        empty(b);
    } else if ((size_t)n == b->n) {
        empty(b);
    } else {
        send_later(c, b, (size_t)n);
    }
}

static void flush_tls(struct conn *c) {
    while (c->out_start < c->out.n && c->sending == NULL && !c->failed) {
        size_t n = c->out.n - c->out_start;
        if (n > TLS_CHUNK_BYTES)
            n = TLS_CHUNK_BYTES;
        if (tls_send(c->tls, span_of(c->out.p + c->out_start, n), &c->loop->wire) != TLS_OK) {
            buf_clear(&c->loop->wire);
            fail(c, UV_EPROTO);
            return;
        }
        c->out_start += n;
        conn_send(c, &c->loop->wire);
    }
    if (c->out_start == c->out.n) {
        c->out_start = 0;
        empty(&c->out);
    } else if (c->out_start >= c->out.n / 2) {
        buf_consume(&c->out, c->out_start);
        c->out_start = 0;
    }
}

void conn_flush(struct conn *c) {
    if (c->closing)
        return;
    c->active = true;
    if (c->failed || c->shut || c->tls_ended) {
        buf_release(&c->out);
        c->out_start = 0;
    } else if (c->tls != NULL) {
        if (tls_is_ready(c->tls))
            flush_tls(c);
    } else if (c->sending == NULL) {
        conn_send(c, &c->out);
    }
    if (conn_out_pending(c) > CONN_OUT_HIGH)
        c->over_high = true;
    if (conn_out_pending(c) > c->out_hold)
        c->over_hold = true;
}

void conn_send_tls_end(struct conn *c) {
    struct buf *wire = &c->loop->wire;
    tls_close(c->tls, wire);
    if (wire->n > 0) {
        uv_buf_t all = {.base = (char *)wire->p, .len = wire->n};
        (void)uv_try_write((uv_stream_t *)&c->tcp, &all, 1);
        buf_clear(wire);
    }
}
