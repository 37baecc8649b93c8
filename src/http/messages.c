#include "http/front.h"
#include "http/query.h"
#include "http/story.h"
#include "http/view.h"

#include <assert.h>
#include <inttypes.h>

static void reply_view(struct call *c, const struct message_view *m, unsigned flags) {
    struct json_writer w;
    json_writer_init(&w, c->reply.body);
    view_message(m, flags, c->now, &w);
}

void call_show(struct call *c, uint64_t id) {
    struct message_view m;
    enum err e = engine_letter(call_engine(c), id, &m);
    if (e == OK)
        reply_view(c, &m, 0);
    else
        reply_error(&c->reply, e);
}

void call_refuse_verb(struct call *c, enum err e) {
    enum state state;
    if (e == ERR_WRONG_STATE && engine_message_state(call_engine(c), c->queue, c->id, &state) == OK)
        reply_problem(&c->reply, problem_of(e).status, problem_of(e).title,
                      "message %" PRIu64 " is %s", c->id, state_name(state));
    else
        reply_error(&c->reply, e);
}

/* -- enqueue --------------------------------------------------------------------------------- */

static void reply_batch(struct call *c, const struct enqueued *enqueued, size_t count) {
    struct json_writer w;
    json_writer_init(&w, c->reply.body);
    json_begin(&w, '{');
    view_number(&w, "count", count);
    json_name(&w, "ids");
    json_begin(&w, '[');
    size_t duplicates = 0;
    for (size_t i = 0; i < count; i++) {
        json_put_u64(&w, enqueued[i].id);
        duplicates += enqueued[i].duplicate ? 1 : 0;
    }
    json_end(&w, ']');
    view_number(&w, "duplicates", duplicates);
    json_end(&w, '}');
    c->reply.status = 201;
}

static void enqueue(struct call *c, const struct enqueue_body *body) {
    struct http *h = c->http;
    enum err e =
        engine_enqueue(call_engine(c), c->now, c->queue, body->items, body->count, h->enqueued);
    if (e != OK) {
        reply_error(&c->reply, e);
    } else if (body->is_batch) {
        reply_batch(c, h->enqueued, body->count);
    } else {
        c->reply.status = h->enqueued[0].duplicate ? 200 : 201;
        call_show(c, h->enqueued[0].id);
    }
}

/* The body of a repeated enqueue is ignored whatever it holds, so also when it is wrong. */
static void forgive_repeated(struct call *c) {
    struct span key = c->request->idempotency_key;
    if (key.n == 0 || key.n > LIMIT_IDEMPOTENCY_KEY || c->http->enqueue.is_batch)
        return;
    uint64_t id;
    if (engine_key_find(call_engine(c), c->now, c->queue, key, &id) != OK)
        return;
    reply_init(&c->reply, c->reply.body);
    call_show(c, id);
}

void handle_enqueue(struct call *c) {
    struct enqueue_body *body = &c->http->enqueue;
    body->is_batch = false;
    struct json *json;
    if (!call_body(c, true, &json)) {
        forgive_repeated(c);
        return;
    }

    const struct enqueue_limits limits = {
        .payload_bytes_max = c->server->limits.payload_bytes_max,
        .header_key = c->request->idempotency_key,
    };
    if (call_body_is_good(c, enqueue_body_read(body, json, &limits, &c->http->errors)))
        enqueue(c, body);
    else
        forgive_repeated(c);
    json_free(json);
}

/* -- reading --------------------------------------------------------------------------------- */

void handle_message(struct call *c) {
    struct message_view m;
    enum err e = engine_message(call_engine(c), c->queue, c->id, &m);
    if (e == OK)
        reply_view(c, &m, VIEW_DETAIL);
    else
        reply_error(&c->reply, e);
}

void handle_any_message(struct call *c) {
    struct message_view m;
    if (engine_letter(call_engine(c), c->id, &m) == OK)
        reply_view(c, &m, VIEW_DETAIL);
    else
        reply_problem(&c->reply, 404, problem_of(ERR_NO_MESSAGE).title,
                      "there is no message of that id in any queue");
}

void handle_payload(struct call *c) {
    struct message_view m;
    enum err e = engine_message(call_engine(c), c->queue, c->id, &m);
    if (e != OK) {
        reply_error(&c->reply, e);
        return;
    }
    c->reply.content_type = "application/octet-stream";
    buf_add_span(c->reply.body, m.payload);
}

void handle_attempts(struct call *c) {
    struct message_view m;
    enum err e = engine_message(call_engine(c), c->queue, c->id, &m);
    if (e != OK) {
        reply_error(&c->reply, e);
        return;
    }
    uint32_t total = m.deliveries, omitted = 0;
    uint64_t count = 0;
    struct json_writer w;
    json_writer_init(&w, c->reply.body);
    json_begin(&w, '{');
    json_name(&w, "attempts");
    e = story_write(call_engine(c), c->queue, c->id, 0, &w, &count, &omitted);
    assert(e == OK); /* it was read a moment ago */
    view_number(&w, "count", count);
    view_number(&w, "attempts_total", total);
    view_number(&w, "attempts_omitted", omitted);
    json_end(&w, '}');
}

/* -- list ------------------------------------------------------------------------------------ */

static int read_status(struct span value, struct field_errors *errors) {
    if (value.p == NULL)
        return -1;
    int state = state_parse(value);
    if (state >= 0)
        return state;
    field_error_add(errors, "", "status", "out_of_range",
                    "must be one of pending, processing, parked, succeeded, dead, discarded");
    return -1;
}

static struct list read_list(struct call *c) {
    static const char *const names[] = {"status", "limit", "offset", "after", NULL};
    struct span values[4];
    struct field_errors *errors = &c->http->errors;
    query_read(c->request->query, names, values, &c->http->scratch, errors);
    return (struct list){
        .state = read_status(values[0], errors),
        .limit = parameter_number(values[1], "limit", 1, LIMIT_BATCH, 100, errors),
        .offset = parameter_number(values[2], "offset", 0, LIMIT_OFFSET, 0, errors),
        .after = parameter_number(values[3], "after", 0, LIMIT_ID, 0, errors),
    };
}

void handle_list(struct call *c) {
    struct list list = read_list(c);
    if (!call_is_valid(c))
        return;
    struct engine *engine = call_engine(c);
    uint64_t *ids = c->http->ids;
    size_t n = 0, count = 0, bytes = 0;
    engine_list(engine, c->queue, &list, ids, &n);

    struct json_writer w;
    json_writer_init(&w, c->reply.body);
    json_begin(&w, '{');
    json_name(&w, "messages");
    json_begin(&w, '[');
    for (; count < n; count++) {
        struct message_view m;
        enum err e = engine_message(engine, c->queue, ids[count], &m);
        assert(e == OK); /* it was listed a moment ago */
        bytes += m.payload.n + m.headers.n;
        if (count > 0 && bytes > LIMIT_REPLY)
            break;
        view_message(&m, 0, c->now, &w);
    }
    json_end(&w, ']');
    view_number(&w, "count", count);
    json_end(&w, '}');
}
