/* A connection's requests, in order, one at a time:
 *
 *               +--------------- reply sent -----------------+
 *               v                                            |
 *     --> READING --whole request, reply at once-------------+
 *           |  |  --reply must be on disk first--> COMMITTING
 *           |  |  --the reply comes later-------> WAITING --it comes--> (as above)
 *           |  |  --too much is unsynced---------> STALLED ---synced--> READING
 *           |  +- last reply, broken request, idle, drained --> CLOSING --> closed()
 *           +---- peer or socket gone, from any phase ------> closed()
 *
 * Invariants:
 * H1 A reply that shows or changes the engine's state is not in conn_out while it waits for the
 *    disk, unless nothing else is: what is pending there is sent as the socket drains, whatever
 *    was appended behind it. It waits in `held` then.
 * H2 A request is consumed before its reply waits; nothing of it is kept.
 * H3 `inflight` counts the connections that are COMMITTING or WAITING; only those have `commit` in
 *    the barrier, or a `later`.
 * H4 After conn_close the connection is gone (closed() was called inside): every path from there
 *    returns without looking at it. */
#include "http/connection.h"

#include "http/front.h"

#include "base/mem.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>

enum {
    REQUESTS_PER_TURN = 16, /* of one connection, then the others */
    REFUSED_MAX = 64, /* connections over the limit that are still told so; more are just closed */
};

enum phase { PHASE_READING, PHASE_COMMITTING, PHASE_WAITING, PHASE_STALLED, PHASE_CLOSING };

struct connection {
    struct conn *conn;
    struct http *http;
    struct connection *next, **link; /* the front end's */
    struct request_parser *parser;
    enum phase phase;
    bool
        /* the first byte of a request has come: the request's deadline runs, not the idle one */
        has_begun;
    bool is_refused;              /* over the limit of connections */
    struct reply_options options; /* of the reply to come */
    struct barrier_waiter commit;
    struct later *later;
    struct buf held;
};

void connection_set_later(struct connection *k, struct later *l) {
    k->later = l;
}

static void close_after_flush(struct connection *k, enum close_reason reason) {
    k->phase = PHASE_CLOSING;
    conn_close_after_flush(k->conn, reason);
}

/* -- replies --------------------------------------------------------------------------------- */

/* The reply may go: it is in conn_out, or held. */
static void send_reply(struct connection *k) {
    if (k->held.n > 0) {
        buf_add_span(conn_out(k->conn), buf_span(&k->held));
        buf_release(&k->held);
    }
    if (!k->options.keeps_alive) {
        close_after_flush(k, CLOSE_DONE);
        return;
    }
    k->phase = PHASE_READING;
    conn_flush(k->conn);
    conn_set_deadline(k->conn, k->http->server->limits.idle_timeout_ms);
}

/* Sends the reply, or has it wait for the disk. */
static void reply(struct connection *k, const struct reply *r, bool is_stateful) {
    struct http *h = k->http;
    struct server *s = h->server;
    uint64_t end = log_end(s->log);
    bool must_wait = is_stateful && end > log_durable(s->log);
    bool is_held = must_wait && conn_out_pending(k->conn) > 0; /* H1 */

    if (r->closes || s->draining)
        k->options.keeps_alive = false;
    h->reply_counts[r->status / 100]++;
    reply_write(r, &k->options, &h->date, is_held ? &k->held : conn_out(k->conn));
    if (must_wait) {
        k->phase = PHASE_COMMITTING;
        h->inflight++;
        barrier_wait(&s->barrier, &k->commit, end);
    } else {
        send_reply(k);
    }
}

/* A problem outside of any route; the connection ends. */
static void refuse(struct connection *k, struct reply *r, enum close_reason reason) {
    k->options = (struct reply_options){.now = server_now(k->http->server)};
    k->http->reply_counts[r->status / 100]++;
    reply_write(r, &k->options, &k->http->date, conn_out(k->conn));
    close_after_flush(k, reason);
}

static void connection_run(struct connection *k);

/* Goes on after a reply, or a wait, that ended outside of connection_run. */
static void next(struct connection *k) {
    if (k->phase != PHASE_READING)
        return;
    if (conn_is_ended(k->conn))
        connection_run(k);
    else
        conn_resume(k->conn);
}

static void on_commit(struct barrier_waiter *w) {
    struct connection *k =
        (struct connection *)(void *)((char *)w - offsetof(struct connection, commit));
    if (k->phase == PHASE_STALLED) {
        k->phase = PHASE_READING;
    } else {
        assert(k->phase == PHASE_COMMITTING);
        k->http->inflight--;
        send_reply(k);
    }
    next(k);
}

void connection_answer(struct connection *k, const struct reply *r) {
    assert(k->phase == PHASE_WAITING && k->later == NULL);
    k->http->inflight--;
    reply(k, r, true);
    next(k);
}

/* -- requests -------------------------------------------------------------------------------- */

static void answer(struct connection *k, const struct request *request) {
    struct http *h = k->http;
    struct server *s = h->server;
    struct call call = {
        .http = h,
        .server = s,
        .connection = k,
        .request = request,
        .now = server_now(s),
    };
    k->has_begun = false;
    k->options = (struct reply_options){
        .is_http_1_0 = request->is_http_1_0,
        .keeps_alive = request->keep_alive,
        .is_head = request->method == METHOD_HEAD,
    };
    reply_init(&call.reply, &h->body);
    call_dispatch(&call);
    k->options.now = call.now;

    conn_consume(k->conn, request->bytes);
    request_parser_reset(k->parser);
    if (call.waits) {
        k->phase = PHASE_WAITING;
        h->inflight++;
        conn_set_deadline(k->conn, 0);
    } else {
        reply(k, &call.reply, call.is_stateful);
    }
    http_trim(h);
}

static void refuse_broken(struct connection *k, const struct request_failure *failure) {
    struct reply r;
    reply_init(&r, &k->http->body);
    reply_problem(&r, failure->status, failure->status == 400 ? "malformed request" : "too large",
                  "%s", failure->detail);
    refuse(k, &r, failure->status == 400 ? CLOSE_PROTOCOL : CLOSE_LIMIT);
}

/* The head is here and the body is not: says no before it comes, or asks for it. */
static void look_at_head(struct connection *k, const struct request *request) {
    if (!call_is_allowed(k->http, request)) {
        struct reply r;
        reply_init(&r, &k->http->body);
        call_refuse(&r);
        refuse(k, &r, CLOSE_DONE);
    } else if (request->expects_continue) {
        buf_add_str(conn_out(k->conn), "HTTP/1.1 100 Continue\r\n\r\n");
        conn_flush(k->conn);
    }
}

/* There is no whole request yet. */
static void wait_for_more(struct connection *k) {
    if (conn_is_ended(k->conn)) {
        close_after_flush(k, CLOSE_PEER);
    } else if (!k->has_begun) {
        k->has_begun = true;
        conn_set_deadline(k->conn, k->http->server->limits.request_timeout_ms);
    }
}

/* Empty lines before a request are nothing (some clients end a body with one). */
static struct span next_input(struct connection *k) {
    struct span in = conn_in(k->conn);
    size_t n = 0;
    while (!k->has_begun && n < in.n && (in.p[n] == '\r' || in.p[n] == '\n'))
        n++;
    if (n > 0)
        conn_consume(k->conn, n);
    return conn_in(k->conn);
}

/* True when reading must wait until more is on disk. */
static bool is_stalled(struct connection *k) {
    struct server *s = k->http->server;
    if (log_unsynced_bytes(s->log) < LIMIT_UNSYNCED)
        return false;
    k->phase = PHASE_STALLED;
    conn_pause(k->conn);
    barrier_wait(&s->barrier, &k->commit, log_end(s->log));
    return true;
}

/* Works on what has come in. */
static void connection_run(struct connection *k) {
    for (int i = 0; i < REQUESTS_PER_TURN; i++) {
        if (k->phase != PHASE_READING || conn_out_pending(k->conn) > CONN_OUT_HIGH)
            return;
        struct span in = next_input(k);
        if (in.n == 0) {
            if (conn_is_ended(k->conn))
                close_after_flush(k, CLOSE_PEER);
            return;
        }
        if (is_stalled(k))
            return;

        struct request request;
        struct request_failure failure;
        switch (request_parse(k->parser, in, &request, &failure)) {
        case PARSED_WHOLE:
            answer(k, &request);
            break;
        case PARSED_HEAD:
            look_at_head(k, &request);
            if (k->phase == PHASE_READING)
                wait_for_more(k);
            return;
        case PARSED_MORE:
            wait_for_more(k);
            return;
        case PARSED_FAILED:
            refuse_broken(k, &failure);
            return;
        }
    }
    conn_resume(k->conn); /* the rest in another turn */
}

/* -- what the connection tells --------------------------------------------------------------- */

static void refuse_over_limit(struct connection *k) {
    struct reply r;
    reply_init(&r, &k->http->body);
    reply_problem(&r, 503, "too many connections", "the server has as many connections as it may");
    r.retry_after_s = 1;
    refuse(k, &r, CLOSE_LIMIT);
}

static bool on_opened(struct conn *c, void *listener_ctx) {
    struct http *h = listener_ctx;
    const struct server_limits *limits = &h->server->limits;
    bool is_over = h->connection_count - h->refused_count >= limits->connections_max;
    if (h->server->draining || (is_over && h->refused_count >= REFUSED_MAX))
        return false;

    struct connection *k = mem_alloc(sizeof *k);
    k->conn = c;
    k->http = h;
    k->commit.done = on_commit;
    k->is_refused = is_over;
    buf_init(&k->held, CONN_OUT_MAX);
    k->next = h->connections;
    if (k->next != NULL)
        k->next->link = &k->next;
    k->link = &h->connections;
    h->connections = k;
    h->connection_count++;
    h->refused_count += is_over ? 1 : 0;
    conn_set_user(c, k);

    if (is_over) {
        refuse_over_limit(k);
        return true;
    }
    k->parser = request_parser_new(limits->body_bytes_max);
    conn_set_in_max(c, request_bytes_max(limits->body_bytes_max));
    conn_set_deadline(c, limits->idle_timeout_ms);
    return true;
}

static void on_readable(struct conn *c) {
    struct connection *k = conn_user(c);
    if (k->phase == PHASE_READING)
        connection_run(k);
    else
        conn_pause(c); /* a request sent ahead: until the reply before it has gone */
}

static void on_ended(struct conn *c) {
    struct connection *k = conn_user(c);
    if (k->phase == PHASE_WAITING && k->later->ends_with_peer)
        conn_close(c, CLOSE_PEER);
    else
        connection_run(k);
}

static void on_drained(struct conn *c) {
    connection_run(conn_user(c));
}

static void on_expired(struct conn *c) {
    struct connection *k = conn_user(c);
    if (k->phase != PHASE_READING)
        return; /* it is ours that takes long */
    if (!k->has_begun) {
        conn_close(c, CLOSE_TIMEOUT);
        return;
    }
    struct reply r;
    reply_init(&r, &k->http->body);
    reply_problem(&r, 408, "request timeout", "the request did not arrive whole in time");
    refuse(k, &r, CLOSE_TIMEOUT);
}

static void on_closed(struct conn *c, enum close_reason reason) {
    (void)reason;
    struct connection *k = conn_user(c);
    struct http *h = k->http;
    if (k->phase == PHASE_COMMITTING || k->phase == PHASE_WAITING)
        h->inflight--;
    barrier_cancel(&h->server->barrier, &k->commit);
    if (k->later != NULL)
        k->later->closed(k->later);

    *k->link = k->next;
    if (k->next != NULL)
        k->next->link = k->link;
    h->connection_count--;
    h->refused_count -= k->is_refused ? 1 : 0;
    request_parser_free(k->parser);
    buf_release(&k->held);
    free(k);
}

const struct protocol http_protocol = {
    .name = "http",
    .opened = on_opened,
    .readable = on_readable,
    .ended = on_ended,
    .drained = on_drained,
    .expired = on_expired,
    .closed = on_closed,
};

void http_drain(struct http *h) {
    struct connection *following;
    for (struct connection *k = h->connections; k != NULL; k = following) {
        following = k->next;
        if (k->phase == PHASE_WAITING && k->later->drain != NULL)
            k->later->drain(k->later);
        else if (k->phase == PHASE_COMMITTING)
            k->options.keeps_alive = false;
        else if (k->phase == PHASE_READING && !k->has_begun && conn_out_pending(k->conn) > 0)
            close_after_flush(k, CLOSE_SHUTDOWN);
        else if (k->phase == PHASE_READING && !k->has_begun)
            conn_close(k->conn, CLOSE_SHUTDOWN);
    }
}
