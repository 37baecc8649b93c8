/* A connection's life and input; see conn_internal.h for the states and invariants. */
#include "net/conn.h"

#include "base/mem.h"
#include "net/conn_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    IN_FIRST_BYTES = 512,
    KEEPALIVE_S = 60, /* of silence; then the system asks whether the other side is still there */
};

const char *close_reason_text(enum close_reason r) {
    switch (r) {
    case CLOSE_PEER:
        return "closed by peer";
    case CLOSE_DONE:
        return "done";
    case CLOSE_TIMEOUT:
        return "timeout";
    case CLOSE_PROTOCOL:
        return "protocol error";
    case CLOSE_LIMIT:
        return "limit reached";
    case CLOSE_SHUTDOWN:
        return "shutdown";
    case CLOSE_ERROR:
        return "socket error";
    }
    return "unknown";
}

enum close_reason conn_reason_of(int uv_error) {
    switch (uv_error) {
    case UV_ECONNRESET:
    case UV_ECONNABORTED:
    case UV_EPIPE:
    case UV_ETIMEDOUT:
    case UV_EHOSTUNREACH:
    case UV_ENETUNREACH:
        return CLOSE_PEER;
    default:
        return CLOSE_ERROR;
    }
}

/* -- small things ---------------------------------------------------------------------------- */

void *conn_user(const struct conn *c) {
    return c->user;
}

void conn_set_user(struct conn *c, void *user) {
    c->user = user;
}

struct loop *conn_loop(const struct conn *c) {
    return c->loop;
}

const char *conn_peer(const struct conn *c) {
    return c->peer;
}

bool conn_is_ended(const struct conn *c) {
    return c->ended;
}

/* -- the list of connections to be looked at ------------------------------------------------- */

void conn_schedule(struct conn *c) {
    if (c->ready_link != NULL || c->closing)
        return;
    c->ready_next = c->loop->ready;
    if (c->ready_next != NULL)
        c->ready_next->ready_link = &c->ready_next;
    c->ready_link = &c->loop->ready;
    c->loop->ready = c;
}

static void unschedule(struct conn *c) {
    if (c->ready_link == NULL)
        return;
    *c->ready_link = c->ready_next;
    if (c->ready_next != NULL)
        c->ready_next->ready_link = c->ready_link;
    c->ready_next = NULL;
    c->ready_link = NULL;
}

static void pump(struct conn *c);

/* What is scheduled meanwhile waits for the next turn, so that two connections cannot keep the loop
 * busy between them. */
void conn_run_ready(struct loop *l) {
    struct conn *first = l->ready;
    l->ready = NULL;
    if (first != NULL)
        first->ready_link = &first;
    while (first != NULL) {
        struct conn *c = first;
        unschedule(c);
        pump(c);
    }
}

/* -- input ----------------------------------------------------------------------------------- */

static bool is_held(const struct conn *c) {
    return c->paused || c->over_hold;
}

/* How much more may be unread. */
static size_t room_in(const struct conn *c) {
    size_t max = c->in_max;
    if (is_held(c) && max > CONN_PAUSED_IN_BYTES)
        max = CONN_PAUSED_IN_BYTES;
    return c->unread.n < max ? max - c->unread.n : 0;
}

static bool is_owned(const struct conn *c) {
    return c->in != NULL && c->unread.p >= c->in && c->unread.p < c->in + c->in_cap;
}

static void free_in(struct conn *c) {
    free(c->in);
    c->in = NULL;
    c->in_cap = 0;
}

/* Makes `unread` lie in c->in with room for n more bytes after it. */
static void own_unread(struct conn *c, size_t n) {
    size_t kept = c->unread.n;
    bool owned = kept > 0 && is_owned(c);
    size_t offset = owned ? (size_t)(c->unread.p - c->in) : 0;
    if (owned && offset + kept + n <= c->in_cap)
        return;

    if (owned && offset > 0) {
        memmove(c->in, c->unread.p, kept);
        c->unread.p = c->in;
    }
    if (kept + n > c->in_cap) {
        size_t cap = c->in_cap < IN_FIRST_BYTES ? IN_FIRST_BYTES : c->in_cap * 2;
        if (cap > c->in_max)
            cap = c->in_max;
        if (cap < kept + n)
            cap = kept + n;
        c->in = mem_grow(c->in, cap);
        c->in_cap = cap;
    }
    if (kept > 0 && !owned)
        memcpy(c->in, c->unread.p, kept);
    c->unread.p = c->in;
}

/* Adds input that lies in shared memory; it is copied only when it must follow older input. */
static void take(struct conn *c, struct span input) {
    if (c->unread.n == 0) {
        c->unread = input;
        return;
    }
    own_unread(c, input.n);
    memcpy(c->in + (c->unread.p - c->in) + c->unread.n, input.p, input.n);
    c->unread.n += input.n;
}

static void drop_unread(struct conn *c) {
    c->unread = (struct span){0};
    if (c->in_cap > CONN_KEEP_BYTES)
        free_in(c);
}

/* Shows the protocol its input, and keeps what it leaves. */
static void offer(struct conn *c) {
    if (c->unread.n > 0 && !is_held(c) && !c->failed) {
        c->offering = true;
        c->protocol->readable(c);
        c->offering = false;
    }
    if (c->closing)
        return;
    if (c->unread.n == 0 || c->finishing)
        drop_unread(c);
    else if (!is_owned(c))
        own_unread(c, 0);
}

static void peer_ended(struct conn *c) {
    if (c->ended)
        return;
    c->ended = true;
    conn_update_reading(c);
    if (c->finishing)
        conn_finish_step(c);
    else
        c->protocol->ended(c);
}

/* On this connection no word of the protocol can be said any more. */
static void tls_failed(struct conn *c) {
    c->tls_ended = true;
    if (c->finishing)
        conn_schedule(c);
    else
        conn_close_after_flush(c, CLOSE_ERROR);
}

static void receive_tls(struct conn *c, struct span raw) {
    struct buf *plain = &c->loop->plain, *wire = &c->loop->wire;
    enum tls_result result;
    do {
        size_t room = c->finishing ? LOOP_READ_BYTES : room_in(c);
        if (room > LOOP_READ_BYTES)
            room = LOOP_READ_BYTES;
        bool was_ready = tls_is_ready(c->tls);
        buf_clear(plain);
        result = tls_receive(c->tls, raw, plain, room, wire);
        raw = (struct span){0};
        if (wire->n > 0)
            conn_send(c, wire);

        if (plain->n > 0 && !c->finishing) {
            take(c, buf_span(plain));
            offer(c);
            if (c->closing)
                return;
        }
        if (!was_ready && tls_is_ready(c->tls) && c->out.n > 0) {
            conn_flush(c);
            if (c->finishing)
                conn_schedule(c);
        }
    } while (result == TLS_OK && plain->n > 0 && tls_has_more(c->tls) && room_in(c) > 0);

    if (result == TLS_FAILED)
        tls_failed(c);
    else if (result == TLS_CLOSED)
        peer_ended(c);
}

/* What is to be sent before closing waits for the handshake. */
static bool is_finishing_handshake(const struct conn *c) {
    return c->tls != NULL && !c->tls_ended && !tls_is_ready(c->tls) && c->out.n > 0;
}

static void receive(struct conn *c, struct span raw) {
    c->active = true;
    if (c->finishing && !is_finishing_handshake(c)) {
        c->lingered_bytes += raw.n;
        if (c->lingered_bytes > CONN_LINGER_BYTES)
            conn_close(c, c->reason);
        return;
    }
    if (c->tls != NULL) {
        receive_tls(c, raw);
    } else {
        take(c, raw);
        offer(c);
    }
    if (!c->closing)
        conn_update_reading(c);
}

static void pump(struct conn *c) {
    if (c->finishing) {
        conn_finish_step(c);
        return;
    }
    if (c->failed) {
        conn_close(c, c->reason);
        return;
    }
    offer(c);
    if (!c->closing && c->tls != NULL && tls_has_more(c->tls) && room_in(c) > 0)
        receive_tls(c, (struct span){0});
    if (!c->closing)
        conn_update_reading(c);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buf) {
    (void)suggested;
    struct conn *c = handle->data;
    size_t n = LOOP_READ_BYTES;
    if (c->tls == NULL && !c->finishing && room_in(c) < n)
        n = room_in(c); /* 0 becomes UV_ENOBUFS */
    *ret_buf = (uv_buf_t){.base = (char *)c->loop->read_buf, .len = n};
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *b) {
    struct conn *c = stream->data;
    if (n > 0) {
        receive(c, span_of(b->base, (size_t)n));
    } else if (n == UV_ENOBUFS) {
        conn_update_reading(c);
    } else if (n == UV_EOF) {
        c->reading = false; /* libuv has stopped by itself */
        peer_ended(c);
    } else if (n < 0) {
        conn_close(c, c->finishing ? c->reason : conn_reason_of((int)n));
    }
}

void conn_update_reading(struct conn *c) {
    bool wanted = !c->ended &&
                  (c->finishing || (room_in(c) > 0 && !(c->tls != NULL && tls_has_more(c->tls))));
    if (wanted == c->reading || c->closing)
        return;
    c->reading = wanted;
    if (wanted)
        uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read);
    else
        uv_read_stop((uv_stream_t *)&c->tcp);
}

struct span conn_in(const struct conn *c) {
    return c->unread;
}

void conn_consume(struct conn *c, size_t n) {
    assert(n <= c->unread.n);
    c->unread.p += n;
    c->unread.n -= n;
    if (c->reading || c->offering)
        return;
    if (c->tls != NULL && tls_has_more(c->tls))
        conn_schedule(c);
    conn_update_reading(c);
}

void conn_set_in_max(struct conn *c, size_t n) {
    c->in_max = n;
    conn_update_reading(c);
}

void conn_pause(struct conn *c) {
    c->paused = true;
}

void conn_resume(struct conn *c) {
    c->paused = false;
    if (c->unread.n > 0 || (c->tls != NULL && tls_has_more(c->tls)))
        conn_schedule(c);
    else if (!c->reading)
        conn_update_reading(c);
}

/* -- life ------------------------------------------------------------------------------------ */

static void on_closed(uv_handle_t *handle) {
    struct conn *c = handle->data;
    listener_remove(c->listener, c);
    free_in(c);
    buf_release(&c->out);
    tls_free(c->tls);
    free(c);
}

static void start_closing(struct conn *c) {
    c->closing = true;
    c->unread = (struct span){0};
    unschedule(c);
    listener_on_closing(c->listener);
    uv_close((uv_handle_t *)&c->tcp, on_closed);
}

void conn_accept(struct listener *listener, int fd, const char *peer) {
    const struct listener_config *config = listener_config_of(listener);
    struct conn *c = mem_alloc(sizeof *c);
    c->listener = listener;
    c->loop = listener_loop(listener);
    c->protocol = config->protocol;
    c->in_max = config->in_bytes_max;
    c->out_hold = CONN_OUT_HIGH;
    buf_init(&c->out, CONN_OUT_MAX);
    memcpy(c->peer, peer, strnlen(peer, sizeof c->peer - 1));
    uv_tcp_init(&c->loop->uv, &c->tcp);
    c->tcp.data = c;
    listener_add(listener, c);

    if (uv_tcp_open(&c->tcp, fd) != 0) {
        close(fd);
        start_closing(c);
        return;
    }
    /* A reply is written whole: there is nothing to wait for. A failure costs only time. */
    uv_tcp_nodelay(&c->tcp, 1);
    uv_tcp_keepalive(&c->tcp, 1, KEEPALIVE_S);
    if (config->tls != NULL)
        c->tls = tls_new(config->tls);

    bool is_welcome = c->protocol->opened(c, config->ctx);
    if (c->closing)
        return;
    if (is_welcome)
        conn_update_reading(c);
    else
        start_closing(c);
}

void conn_close(struct conn *c, enum close_reason reason) {
    if (c->closing)
        return;
    if (c->tls != NULL && !c->tls_ended && !c->failed && c->sending == NULL)
        conn_send_tls_end(c);
    start_closing(c);
    c->protocol->closed(c, reason);
}

void conn_close_after_flush(struct conn *c, enum close_reason reason) {
    if (c->closing || c->finishing)
        return;
    conn_flush(c);
    c->finishing = true;
    c->reason = reason;
    c->deadline = loop_now(c->loop) + CONN_FINISH_MS;
    conn_schedule(c);
}

void conn_finish_step(struct conn *c) {
    drop_unread(c);
    if (c->failed) {
        conn_close(c, c->reason);
        return;
    }
    conn_update_reading(c);
    if (conn_out_pending(c) > 0)
        return; /* comes again when it is sent */
    if (c->tls != NULL && !c->tls_ended) {
        c->tls_ended = true;
        tls_close(c->tls, &c->loop->wire);
        conn_send(c, &c->loop->wire);
        if (conn_out_pending(c) > 0)
            return;
    }
    if (c->ended) {
        conn_close(c, c->reason);
    } else if (!c->shut) {
        c->shut = true;
        /* Nothing is left to be written, so libuv's way over the next turn would only cost more. */
        uv_os_fd_t fd;
        if (uv_fileno((uv_handle_t *)&c->tcp, &fd) != 0 || shutdown(fd, SHUT_WR) != 0)
            conn_close(c, c->reason);
    }
}

void conn_set_deadline(struct conn *c, int64_t after_ms) {
    if (!c->finishing)
        c->deadline = after_ms > 0 ? loop_now(c->loop) + after_ms : 0;
}

void conn_sweep(struct conn *c, int64_t now) {
    if (c->closing)
        return;
    if (c->deadline != 0 && c->deadline <= now) {
        c->deadline = 0;
        if (c->finishing)
            conn_close(c, c->reason);
        else
            c->protocol->expired(c);
        if (c->closing)
            return;
    }
    if (!c->active) {
        if (c->unread.n == 0)
            free_in(c);
        if (c->out.n == 0)
            buf_release(&c->out);
    }
    c->active = false;
}
