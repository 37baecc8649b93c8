/* A connection: its frames in, its output in order, its end.
 *
 *   AWAIT_... --handshake.c--> OPEN --connection.close: gives all back, close-ok--> done
 *       \                       \--an error: connection.close--> CLOSING --close-ok--> done
 *        \--an error------------------------------------------/     \--LIMIT_AMQP_GRACE_MS--> gone
 *
 * "done" closes when all output was sent; the peer or the socket may be gone at any time.
 *
 * Invariants, beside those of front.h:
 * S1 A session is freed in closed() only, and nothing that a frame's handler calls closes it at once:
 *    they fail it or finish it. So a handler may go on looking at it.
 * S2 `held` is empty, or `commit` waits, or it is dirty: nothing is held and forgotten.
 * S3 It is paused for a reason that ends: the disk (stall), its output (commit, drained), room on the
 *    disk (session_look_at_disk), much to settle (session_settled). Each end calls resume(), which looks
 *    at all reasons anew. */
#include "amqp/front.h"

#include "amqp/be.h"
#include "base/logging.h"
#include "base/mem.h"

#include <assert.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HELD_KEEP_BYTES = 64 * 1024 };

struct span session_vhost(const struct session *s) {
    return span_str(s->vhost);
}

/* -- output ---------------------------------------------------------------------------------- */

static void make_dirty(struct session *s) {
    if (s->link_dirty != NULL)
        return;
    s->next_dirty = s->amqp->dirty;
    if (s->next_dirty != NULL)
        s->next_dirty->link_dirty = &s->next_dirty;
    s->link_dirty = &s->amqp->dirty;
    s->amqp->dirty = s;
}

static void make_clean(struct session *s) {
    if (s->link_dirty == NULL)
        return;
    *s->link_dirty = s->next_dirty;
    if (s->next_dirty != NULL)
        s->next_dirty->link_dirty = s->link_dirty;
    s->link_dirty = NULL;
}

static struct buf *out_of(struct session *s, bool after_commit) {
    make_dirty(s);
    s->held_is_new |= after_commit;
    return after_commit || s->held.n > 0 ? &s->held : conn_out(s->conn);
}

struct buf *session_out(struct session *s, bool after_commit) {
    if (s->phase != CLOSING)
        return out_of(s, after_commit);
    buf_clear(&s->amqp->sink);
    return &s->amqp->sink;
}

void session_send(struct session *s, uint32_t id, void *decoded) {
    method_write(session_out(s, false), 0, id, decoded);
}

/* Moves the first n held bytes to the connection. */
static void let_go(struct session *s, size_t n) {
    struct buf *out = conn_out(s->conn);
    if (n == s->held.n && out->n == 0) {
        struct buf empty = *out; /* without copying: both may grow as large */
        *out = s->held;
        s->held = empty;
    } else {
        buf_add_span(out, span_of(s->held.p, n));
        buf_consume(&s->held, n);
    }
    if (s->held.n == 0 && s->held.cap > HELD_KEEP_BYTES)
        buf_release(&s->held);
}

/* Sends what may go, and has the rest wait. */
static void send_ready(struct session *s) {
    struct server *server = s->amqp->server;
    if (s->held_is_new)
        s->held_position = log_end(server->log);
    s->held_is_new = false;
    if (s->held.n > 0 && log_durable(server->log) >= s->held_position) {
        barrier_cancel(&server->barrier, &s->commit);
        let_go(s, s->held.n);
    } else if (s->held.n > 0 && s->commit.link == NULL) {
        s->held_covered = s->held.n;
        barrier_wait(&server->barrier, &s->commit, log_end(server->log));
    }
    if (conn_out(s->conn)->n > 0) {
        s->sent_at = loop_now(server->loop);
        conn_flush(s->conn);
    }
    if (s->is_done && s->held.n == 0)
        conn_close_after_flush(s->conn, CLOSE_DONE);
}

bool session_is_congested(struct session *s) {
    bool is_so = s->held.n + conn_out_pending(s->conn) > CONN_OUT_HIGH;
    s->is_starved |= is_so;
    return is_so;
}

/* -- reading stops and goes on ----------------------------------------------------------------- */

/* It sends without reading what it is told. */
static bool is_clogged(const struct session *s) {
    return s->held.n + conn_out_pending(s->conn) > LIMIT_AMQP_UNSENT;
}

static bool is_blocked(const struct session *s) {
    return s->amqp->is_blocked && s->has_published && s->phase == OPEN;
}

static bool is_stalled(struct session *s) {
    struct server *server = s->amqp->server;
    if (s->stall.link != NULL)
        return true;
    if (log_unsynced_bytes(server->log) < LIMIT_UNSYNCED)
        return false;
    barrier_wait(&server->barrier, &s->stall, log_end(server->log));
    return true;
}

bool session_waits_for_us(const struct session *s) {
    return s->is_paused &&
           (is_blocked(s) || s->stall.link != NULL || s->held.n > 0 || s->is_settling);
}

static void tell_blocked(struct session *s) {
    if (!s->can_blocked || s->was_told_blocked)
        return;
    s->was_told_blocked = true;
    amqp_connection_blocked_t blocked = {.reason = method_str("low on disk")};
    session_send(s, AMQP_CONNECTION_BLOCKED_METHOD, &blocked);
}

/* True when nothing is read now; S3. */
static bool must_wait(struct session *s) {
    if (is_blocked(s)) {
        tell_blocked(s);
        s->is_paused = true;
        if (conn_is_ended(s->conn)) /* nobody would hear what becomes of the rest */
            session_finish(s, CLOSE_PEER);
    } else {
        s->is_paused = s->is_settling || is_clogged(s) || is_stalled(s);
    }
    if (s->is_paused)
        conn_pause(s->conn);
    return s->is_paused;
}

/* A reason to wait has ended. */
static void resume(struct session *s) {
    if (s->is_starved && !session_is_congested(s)) {
        s->is_starved = false;
        session_schedule(s);
    }
    if (!s->is_paused || is_blocked(s) || s->is_settling || s->stall.link != NULL || is_clogged(s))
        return;
    s->is_paused = false;
    s->heard_at = loop_now(s->amqp->server->loop);
    conn_resume(s->conn);
}

static void on_commit(struct barrier_waiter *w) {
    struct session *s = (struct session *)(void *)((char *)w - offsetof(struct session, commit));
    /* What was held later may be covered by now; send_ready() knows. Else it waits on. */
    if (log_durable(s->amqp->server->log) < s->held_position)
        let_go(s, s->held_covered);
    send_ready(s);
    resume(s);
}

void session_flush(struct session *s) {
    make_clean(s);
    send_ready(s);
    resume(s);
}

void session_settled(struct session *s) {
    if (conn_is_ended(s->conn) && conn_in(s->conn).n == 0)
        session_finish(s, CLOSE_PEER); /* it left meanwhile */
    else
        resume(s);
}

static void on_stall(struct barrier_waiter *w) {
    resume((struct session *)(void *)((char *)w - offsetof(struct session, stall)));
}

void session_look_at_disk(struct amqp *a) {
    bool is_full = log_stats(a->server->log).full;
    if (is_full == a->is_blocked)
        return;
    a->is_blocked = is_full;
    for (struct session *s = a->sessions; s != NULL; s = s->next) {
        if (s->phase != OPEN || !s->has_published)
            continue;
        if (is_full) {
            must_wait(s);
        } else if (s->was_told_blocked) {
            s->was_told_blocked = false;
            session_send(s, AMQP_CONNECTION_UNBLOCKED_METHOD, NULL);
        }
        if (!is_full)
            resume(s);
    }
}

/* -- the end --------------------------------------------------------------------------------- */

void session_wind_up(struct session *s) {
    if (s->is_wound_up)
        return;
    s->is_wound_up = true;
    for (uint32_t i = 0; i < s->channel_cap; i++)
        if (s->channels[i] != NULL)
            channel_free(s->channels[i]);
    registry_session_end(s);
}

void session_finish(struct session *s, enum close_reason reason) {
    if (s->is_done)
        return;
    log_debug("amqp %s: %s", conn_peer(s->conn), close_reason_text(reason));
    s->phase = CLOSING;
    s->is_done = true;
    conn_set_deadline(s->conn, LIMIT_AMQP_GRACE_MS); /* of what is held */
    make_dirty(s);
}

/* Confirms that are due are said before the last word. */
static void write_confirms(struct session *s) {
    for (uint32_t i = 0; i < s->channel_cap; i++)
        if (s->channels[i] != NULL)
            confirms_write(s->channels[i]);
}

static void link_failed(struct session *s) {
    s->next_failed = s->amqp->failed;
    if (s->next_failed != NULL)
        s->next_failed->link_failed = &s->next_failed;
    s->link_failed = &s->amqp->failed;
    s->amqp->failed = s;
}

static void unlink_failed(struct session *s) {
    if (s->link_failed == NULL)
        return;
    *s->link_failed = s->next_failed;
    if (s->next_failed != NULL)
        s->next_failed->link_failed = s->link_failed;
    s->link_failed = NULL;
}

void session_mend_text(char *text) {
    if (span_is_utf8(span_str(text)))
        return;
    for (; *text != 0; text++) {
        if (*text & 0x80)
            *text = '?';
    }
}

void session_fail(struct session *s, enum code code, uint32_t method, const char *format, ...) {
    if (s->phase == CLOSING)
        return;
    char why[512], text[640];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    int n = snprintf(text, sizeof text, "%s - %s", code_name(code), why);
    struct span cut = span_cut_utf8(span_of(text, n > 0 ? (size_t)n : 0), UINT8_MAX);
    text[cut.n] = 0;
    session_mend_text(text);
    log_info("amqp %s: closed: %d %.*s", conn_peer(s->conn), (int)code, TEXT(cut));

    write_confirms(s);
    amqp_connection_close_t close = {
        .reply_code = (uint16_t)code,
        .reply_text = method_bytes(cut),
        .class_id = METHOD_CLASS(method),
        .method_id = METHOD_NUMBER(method),
    };
    session_send(s, AMQP_CONNECTION_CLOSE_METHOD, &close);
    s->phase = CLOSING;
    conn_set_deadline(s->conn, LIMIT_AMQP_GRACE_MS);
    link_failed(s);
}

/* The client's connection.close: first everything is given back, then it is told. */
static void close_ok(struct session *s) {
    if (s->phase != CLOSING)
        session_wind_up(s);
    method_write(out_of(s, true), 0, AMQP_CONNECTION_CLOSE_OK_METHOD, NULL);
    session_finish(s, CLOSE_DONE);
}

/* -- frames ---------------------------------------------------------------------------------- */

/* The rest of what a failed session sends: only an end is looked for. */
static void closing_frame(struct session *s, const struct frame *f) {
    if (f->type != FRAME_METHOD || f->channel != 0 || f->payload.n < 4)
        return;
    uint32_t id = be_get32(f->payload.p);
    if (id == AMQP_CONNECTION_CLOSE_METHOD)
        close_ok(s);
    else if (id == AMQP_CONNECTION_CLOSE_OK_METHOD)
        session_finish(s, CLOSE_DONE);
}

static void open_method(struct session *s, const struct method *m) {
    if (m->id == METHOD_UPDATE_SECRET)
        session_send(s, METHOD_UPDATE_SECRET_OK, NULL);
    else
        session_fail(s, CODE_CHANNEL_ERROR, m->id, "unexpected method in connection state running");
}

bool session_read_method(struct session *s, const struct frame *f, struct method *ret) {
    enum err e = method_read(s->amqp->pool, f->payload, ret);
    if (e == ERR_NO_MESSAGE)
        session_fail(s, CODE_COMMAND_INVALID, ret->id, "unknown class or method %u.%u",
                     METHOD_CLASS(ret->id), METHOD_NUMBER(ret->id));
    else if (e == ERR_CORRUPT)
        session_fail(s, CODE_FRAME_ERROR, ret->id, "malformed UTF-8 in a short string");
    else if (e != OK)
        session_fail(s, CODE_SYNTAX_ERROR, ret->id, "the method's arguments are ill-formed");
    return e == OK;
}

/* Channel 0 is the connection. */
static void own_method(struct session *s, const struct frame *f) {
    struct method m;
    if (!session_read_method(s, f, &m))
        return;
    if (m.id == AMQP_CONNECTION_CLOSE_METHOD)
        close_ok(s);
    else if (s->phase == OPEN)
        open_method(s, &m);
    else
        handshake_method(s, &m);
    method_pool_clear(s->amqp->pool);
}

static void unexpected_frame(struct session *s, const struct frame *f) {
    session_fail(s, CODE_UNEXPECTED_FRAME, 0, "unexpected frame of type %u on channel %u", f->type,
                 f->channel);
}

static void take_frame(struct session *s, const struct frame *f) {
    if (s->phase == CLOSING)
        closing_frame(s, f);
    else if (f->type == FRAME_HEARTBEAT && f->channel == 0)
        return; /* its bytes were noted */
    else if (f->channel == 0 && f->type == FRAME_METHOD)
        own_method(s, f);
    else if (f->channel == 0 || f->type == FRAME_HEARTBEAT || s->phase != OPEN)
        unexpected_frame(s, f);
    else
        channel_frame(s, f);
}

/* The next whole piece of input; false: there is none. */
static bool take_next(struct session *s, struct span in) {
    struct frame f;
    const char *why;
    if (s->phase == AWAIT_HEADER) {
        size_t n = handshake_header(s, in);
        conn_consume(s->conn, n);
        return n > 0;
    }
    switch (frame_read(in, s->frame_max, &f, &why)) {
    case FRAME_WHOLE:
        conn_consume(s->conn, f.bytes); /* its bytes stay where they are until this returns */
        take_frame(s, &f);
        return true;
    case FRAME_MORE:
        return false;
    case FRAME_BAD:
        /* Where the next frame begins, nobody knows: no close-ok can be waited for. */
        session_fail(s, CODE_FRAME_ERROR, 0, "%s", why);
        session_finish(s, CLOSE_PROTOCOL);
        return true;
    }
    return false;
}

/* Works on what has come in. */
static void run(struct session *s) {
    for (int i = 0; i < LIMIT_AMQP_FRAMES; i++) {
        struct span in = conn_in(s->conn);
        if (s->is_done) {
            conn_consume(s->conn, in.n);
            in.n = 0;
        }
        if (in.n > 0 && s->phase != CLOSING && must_wait(s))
            return;
        if (in.n == 0 || !take_next(s, in)) {
            if (conn_is_ended(s->conn) && !s->is_settling)
                session_finish(s, CLOSE_PEER);
            return;
        }
    }
    conn_resume(s->conn); /* the rest in another turn */
}

/* -- what the connection tells --------------------------------------------------------------- */

static bool on_opened(struct conn *c, void *listener_ctx) {
    struct amqp *a = listener_ctx;
    if (a->is_draining || a->session_count >= a->server->limits.connections_max)
        return false;
    struct session *s = mem_alloc(sizeof *s);
    s->amqp = a;
    s->conn = c;
    s->frame_max = FRAME_MAX_FIRST;
    s->heard_at = s->sent_at = loop_now(a->server->loop);
    s->commit.done = on_commit;
    s->stall.done = on_stall;
    buf_init(&s->held, CONN_OUT_MAX);
    s->next = a->sessions;
    if (s->next != NULL)
        s->next->link = &s->next;
    s->link = &a->sessions;
    a->sessions = s;
    a->session_count++;
    conn_set_user(c, s);
    conn_set_in_max(c, (size_t)2 * FRAME_MAX_FIRST);
    conn_set_deadline(c, LIMIT_AMQP_HANDSHAKE_MS);
    return true;
}

static void on_readable(struct conn *c) {
    struct session *s = conn_user(c);
    s->heard_at = loop_now(s->amqp->server->loop);
    s->amqp->is_streamed |= s->commit.link != NULL;
    run(s);
}

static void on_ended(struct conn *c) {
    struct session *s = conn_user(c);
    /* What it sent before it left still counts, unless that may take for ever. */
    if (is_blocked(s))
        session_finish(s, CLOSE_PEER);
    else if (!s->is_paused)
        run(s);
}

static void on_drained(struct conn *c) {
    struct session *s = conn_user(c);
    s->heard_at = loop_now(s->amqp->server->loop); /* it read all there was */
    resume(s);
}

static void on_expired(struct conn *c) {
    conn_close(c, CLOSE_TIMEOUT);
}

static void on_closed(struct conn *c, enum close_reason reason) {
    struct session *s = conn_user(c);
    struct amqp *a = s->amqp;
    log_debug("amqp %s: %s%s%s: gone: %s", conn_peer(c), s->user != NULL ? s->user : "-",
              s->name != NULL ? " " : "", s->name != NULL ? s->name : "",
              close_reason_text(reason));
    s->phase = CLOSING; /* what is still said to it is lost */
    session_wind_up(s);
    make_clean(s);
    unlink_failed(s);
    barrier_cancel(&a->server->barrier, &s->commit);
    barrier_cancel(&a->server->barrier, &s->stall);
    *s->link = s->next;
    if (s->next != NULL)
        s->next->link = s->link;
    a->session_count--;
    buf_release(&s->held);
    free(s->channels);
    free(s->vhost);
    free(s->user);
    free(s->name);
    free(s);
}

const struct protocol amqp_protocol = {
    .name = "amqp",
    .opened = on_opened,
    .readable = on_readable,
    .ended = on_ended,
    .drained = on_drained,
    .expired = on_expired,
    .closed = on_closed,
};

/* -- for the turn ------------------------------------------------------------------------------ */

void session_end_failed(struct amqp *a) {
    while (a->failed != NULL) {
        struct session *s = a->failed;
        unlink_failed(s);
        session_wind_up(s);
    }
}

void session_drain(struct session *s) {
    if (s->phase == OPEN) {
        session_wind_up(s); /* with its confirms */
        session_fail(s, CODE_CONNECTION_FORCED, 0,
                     "broker forced connection closure with reason 'shutdown'");
    } else if (s->phase != CLOSING) {
        session_finish(s, CLOSE_SHUTDOWN);
    }
}
