/* One request on its way to its handler: what is the same for all of them. */
#include "http/front.h"
#include "http/query.h"
#include "http/route.h"

#include "base/clock.h"

#include <string.h>
#include <strings.h>

enum {
    TICKS_MAX = 10000, /* of a test clock's jump: each moves many messages */
    RETRY_AFTER_S = 1,
};

struct engine *call_engine(struct call *c) {
    c->is_stateful = true;
    return c->server->engine;
}

bool call_body(struct call *c, bool is_required, struct json **ret_json) {
    struct span body = c->request->body;
    if (body.n == 0 && is_required && !c->request->has_length) {
        reply_problem(&c->reply, 411, "length required",
                      "this needs a body with a Content-Length or in chunks");
        c->reply.closes = true; /* if a body follows all the same, it is no request */
        return false;
    }
    if (body.n == 0 && !is_required) {
        *ret_json = NULL;
        return true;
    }
    struct json_error error;
    struct json *json = json_parse(body, &error);
    if (json == NULL) {
        reply_problem(&c->reply, 400, "malformed JSON", "line %d, column %d: %s", error.line,
                      error.column, error.text);
        return false;
    }
    *ret_json = json;
    return true;
}

bool call_actor(struct call *c, struct span *ret_actor) {
    struct span actor = c->request->actor;
    if (actor.p == NULL) {
        *ret_actor = span_str(c->server->token != NULL ? c->server->token_name : "anonymous");
        return true;
    }
    struct field_errors *errors = &c->http->errors;
    if (!span_is_utf8(actor))
        field_error_add(errors, "", "Nixie-Actor", "bad_encoding", "must be UTF-8");
    else if (actor.n == 0 || actor.n > LIMIT_ACTOR)
        field_error_add(errors, "", "Nixie-Actor", actor.n == 0 ? "out_of_range" : "too_long",
                        "must be 1 to %d bytes", LIMIT_ACTOR);
    *ret_actor = actor;
    return call_is_valid(c);
}

struct filter *call_filter(struct call *c, struct span text, const char *field,
                           enum filter_scope scope) {
    struct field_errors *errors = &c->http->errors;
    if (!span_is_utf8(text)) {
        field_error_add(errors, "", field, "bad_encoding", "must be UTF-8");
        return NULL;
    }
    struct filter_error error;
    struct filter *filter = filter_parse(text, scope, c->now, &error);
    if (filter == NULL)
        field_error_add_at(errors, field, "bad_filter", error.at, error.bytes, error.text);
    return filter;
}

bool call_is_valid(struct call *c) {
    if (c->http->errors.count == 0)
        return true;
    reply_fields(&c->reply, &c->http->errors);
    return false;
}

bool call_body_is_good(struct call *c, enum body_verdict verdict) {
    const struct field_errors *errors = &c->http->errors;
    switch (verdict) {
    case BODY_GOOD:
        return true;
    case BODY_INVALID:
        reply_fields(&c->reply, errors);
        break;
    case BODY_TOO_LARGE:
        reply_problem(&c->reply, 413, "payload too large", "%s %s", errors->items[0].field,
                      errors->items[0].message);
        break;
    }
    return false;
}

/* -- who may --------------------------------------------------------------------------------- */

/* Takes as long for a wrong token as for the right one. */
static bool is_token(struct span given, const char *token) {
    size_t n = strlen(token);
    volatile unsigned difference = given.n == n ? 0 : 1;
    for (size_t i = 0; i < given.n; i++)
        difference |= given.p[i] ^ (uint8_t)token[n > 0 ? i % n : 0];
    return difference == 0;
}

static bool has_token(const struct http *h, const struct request *r) {
    static const char scheme[] = "Bearer ";
    const size_t n = sizeof scheme - 1;
    if (h->server->token == NULL)
        return true;
    struct span given = r->authorization;
    if (given.n < n || strncasecmp((const char *)given.p, scheme, n) != 0)
        return false;
    given = span_of(given.p + n, given.n - n);
    while (given.n > 0 && *given.p == ' ')
        given = span_of(given.p + 1, given.n - 1);
    return is_token(given, h->server->token);
}

bool call_is_allowed(const struct http *h, const struct request *r) {
    if (has_token(h, r))
        return true;
    struct match m = route_find(r->method, r->path);
    return m.route != NULL && m.route->access == ACCESS_OPEN;
}

void call_refuse(struct reply *r) {
    reply_problem(r, 401, "unauthorized", "this needs the header Authorization: Bearer TOKEN");
    r->is_challenge = true;
}

/* True when work can be done now. Reads are not counted out: they wait for the disk at most, and
 * are bounded by the connections. */
static bool is_at_work(struct call *c, bool is_change) {
    if (c->server->draining) {
        reply_problem(&c->reply, 503, "draining", "the server is draining: it shuts down");
        c->reply.closes = true;
    } else if (is_change && c->http->inflight >= c->server->limits.inflight_max) {
        reply_problem(&c->reply, 503, "overloaded", "too many requests are in flight");
    } else {
        return true;
    }
    c->reply.retry_after_s = RETRY_AFTER_S;
    return false;
}

/* -- where to -------------------------------------------------------------------------------- */

static bool is_path_good(struct call *c) {
    struct span path = c->request->path;
    if (memchr(path.p, '%', path.n) == NULL)
        return true;
    buf_clear(&c->http->scratch);
    if (percent_decode(path, false, &c->http->scratch))
        return true;
    reply_problem(&c->reply, 400, "malformed path",
                  "an escape in the path is malformed, or stands for NUL");
    return false;
}

static bool read_queue(struct call *c, struct span encoded) {
    struct buf *name = &c->http->name;
    buf_clear(name);
    bool is_decoded =
        percent_decode(encoded, false, name); /* the whole path was looked at before */
    c->queue = buf_span(name);
    if (!is_decoded || !span_is_utf8(c->queue))
        field_error_add(&c->http->errors, "", "queue", "bad_encoding", "must be UTF-8");
    else if (c->queue.n > LIMIT_QUEUE_NAME)
        field_error_add(&c->http->errors, "", "queue", "too_long", "must be at most %d bytes",
                        LIMIT_QUEUE_NAME);
    return call_is_valid(c);
}

static bool read_id(struct call *c, struct span text, bool is_job) {
    if (number_parse(text, is_job ? UINT32_MAX : LIMIT_ID, &c->id) && c->id > 0)
        return true;
    reply_error(&c->reply, is_job ? ERR_NO_JOB : ERR_NO_MESSAGE);
    return false;
}

/* No route has both a queue and a key: they share the memory of a name. */
static bool read_key(struct call *c, struct span encoded) {
    struct buf *name = &c->http->name;
    buf_clear(name);
    if (percent_decode(encoded, false, name)) {
        c->key = buf_span(name);
        return true;
    }
    reply_error(&c->reply, ERR_NO_GROUP);
    return false;
}

/* Finds the route and reads its path; NULL when the reply is set. */
static const struct route *find_route(struct call *c) {
    const struct request *r = c->request;
    if (!is_path_good(c))
        return NULL;
    struct match m = route_find(r->method, r->path);
    bool is_open = m.route != NULL && m.route->access == ACCESS_OPEN;
    if (!is_open && !has_token(c->http, r)) {
        call_refuse(&c->reply);
        return NULL;
    }
    if (m.allowed == 0) {
        reply_problem(&c->reply, 404, "no such route", "there is nothing at this path");
        return NULL;
    }
    if (m.route == NULL) {
        reply_problem(&c->reply, 405, "method not allowed", "this path takes other methods");
        c->reply.allowed = m.allowed;
        return NULL;
    }
    if (m.queue.n > 0 && !read_queue(c, m.queue))
        return NULL;
    if (m.has_id && !read_id(c, m.id, m.is_job))
        return NULL;
    if (m.key.n > 0 && !read_key(c, m.key))
        return NULL;
    return m.route;
}

/* -- when ------------------------------------------------------------------------------------ */

/* The test clock's time for this request; then what is due by then happens first. False when the
 * reply is set. */
static bool set_clock(struct call *c) {
    struct server *s = c->server;
    if (s->test_clock && c->request->x_now.p != NULL) {
        int64_t now;
        if (time_parse(c->request->x_now, &now) != OK) {
            reply_problem(&c->reply, 400, "malformed X-Now",
                          "X-Now must be a time as YYYY-MM-DD HH:MM:SS");
            return false;
        }
        s->now = now;
    }
    c->now = server_now(s);
    if (s->test_clock) {
        for (int i = 0; i < TICKS_MAX && engine_tick(s->engine, c->now) <= c->now; i++) {}
    }
    return true;
}

void call_dispatch(struct call *c) {
    c->http->errors.count = 0;
    const struct route *route = find_route(c);
    if (route == NULL)
        return;
    if (route->access == ACCESS_WORK && !is_at_work(c, route->method != METHOD_GET))
        return;
    if (set_clock(c))
        route->handle(c);
}
