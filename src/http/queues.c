#include "http/front.h"
#include "http/query.h"
#include "http/view.h"

#include <inttypes.h>

static void reply_queue(struct call *c, unsigned status) {
    struct queue_view q;
    enum err e = engine_queue(call_engine(c), c->queue, &q);
    if (e != OK) {
        reply_error(&c->reply, e);
        return;
    }
    c->reply.status = status;
    struct json_writer w;
    json_writer_init(&w, c->reply.body);
    view_queue(&q, &w);
}

void handle_queue(struct call *c) {
    reply_queue(c, 200);
}

void handle_queue_put(struct call *c) {
    struct json *json;
    if (!call_body(c, false, &json))
        return;
    struct policy policy = policy_from_json(json, &c->http->errors);
    json_free(json);
    if (!call_is_valid(c))
        return;
    bool is_created = false;
    enum err e = engine_queue_put(call_engine(c), c->now, c->queue, &policy, &is_created);
    if (e == OK)
        reply_queue(c, is_created ? 201 : 200);
    else
        reply_error(&c->reply, e);
}

static bool read_discard(struct call *c) {
    static const char *const names[] = {"discard", NULL};
    struct span value;
    query_read(c->request->query, names, &value, &c->http->scratch, &c->http->errors);
    if (value.p == NULL || span_equal_str(value, "false"))
        return false;
    if (!span_equal_str(value, "true"))
        field_error_add(&c->http->errors, "", "discard", "out_of_range", "must be true or false");
    return true;
}

static void reply_not_empty(struct call *c) {
    struct queue_view q;
    if (engine_queue(call_engine(c), c->queue, &q) != OK) {
        reply_error(&c->reply, ERR_NOT_EMPTY);
        return;
    }
    uint64_t unfinished = q.count[STATE_PENDING] + q.count[STATE_PROCESSING] +
                          q.count[STATE_PARKED] + q.count[STATE_DEAD];
    struct problem p = problem_of(ERR_NOT_EMPTY);
    reply_problem(&c->reply, p.status, p.title,
                  "the queue has %" PRIu64 " unfinished messages; discard=true discards them",
                  unfinished);
}

void handle_queue_delete(struct call *c) {
    bool discard = read_discard(c);
    if (!call_is_valid(c))
        return;
    enum err e = engine_queue_delete(call_engine(c), c->now, c->queue, discard);
    if (e == ERR_NOT_EMPTY) {
        reply_not_empty(c);
    } else if (e != OK) {
        reply_error(&c->reply, e);
    } else {
        waiters_dismiss(c->http, c->queue);
        reply_init(&c->reply, c->reply.body);
        c->reply.status = 204;
    }
}

/* -- all of them ----------------------------------------------------------------------------- */

struct queue_page {
    struct json_writer w;
    uint64_t count, limit;
};

static bool put_queue(void *ctx, const struct queue_view *q) {
    struct queue_page *page = ctx;
    view_queue(q, &page->w);
    return ++page->count < page->limit;
}

void handle_queues(struct call *c) {
    static const char *const names[] = {"limit", "after", NULL};
    struct span values[2];
    struct field_errors *errors = &c->http->errors;
    query_read(c->request->query, names, values, &c->http->scratch, errors);
    struct queue_page page = {
        .limit = parameter_number(values[0], "limit", 1, LIMIT_BATCH, 100, errors)};
    if (!call_is_valid(c))
        return;

    struct json_writer *w = &page.w;
    json_writer_init(w, c->reply.body);
    json_begin(w, '{');
    json_name(w, "queues");
    json_begin(w, '[');
    enum err e = engine_queues(call_engine(c), values[1], put_queue, &page);
    if (e != OK) {
        reply_error(&c->reply, e);
        return;
    }
    json_end(w, ']');
    json_name(w, "count");
    json_put_u64(w, page.count);
    json_end(w, '}');
}
