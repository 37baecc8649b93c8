#include "http/front.h"
#include "http/query.h"
#include "http/view.h"

#include "model/alert.h"
#include "server/alerts.h"

#include <inttypes.h>

static void put_view(struct call *c, const struct queue_view *q, struct json_writer *w) {
    struct queue_amqp_view amqp;
    bool has_amqp = engine_queue_amqp(call_engine(c), q->name, &amqp) == OK;
    view_queue(q, alerts_snoozed_until(c->server->alerts, q->name, c->now), has_amqp ? &amqp : NULL,
               w);
}

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
    put_view(c, &q, &w);
}

void handle_queue(struct call *c) {
    reply_queue(c, 200);
}

/* The parameter `reason`, and who; `more` is another parameter, or NULL. False when the reply is
 * set. */
static bool read_act(struct call *c, const char *more, struct act *ret_act, bool *ret_flag) {
    const char *const names[] = {"reason", more, NULL};
    struct span values[2] = {0};
    struct field_errors *errors = &c->http->errors;
    query_read(c->request->query, names, values, &c->http->scratch, errors);
    ret_act->reason = parameter_text(values[0], "reason", LIMIT_AUDIT_REASON, errors);
    if (more != NULL)
        *ret_flag = parameter_flag(values[1], more, errors);
    return call_actor(c, &ret_act->actor) && call_is_valid(c);
}

/* Puts the queue's own secrets where masks stand; the alerts are then in `alerts`. */
static void unmask(struct call *c, struct policy_texts *texts, struct buf *alerts) {
    struct field_errors *errors = &c->http->errors;
    struct queue_view q;
    bool is_there = engine_queue_brief(call_engine(c), c->queue, &q) == OK;
    alerts_unmask(texts->alerts, is_there ? q.texts->alerts : span_of(NULL, 0), alerts, errors);
    texts->alerts = buf_span(alerts);
    if (alerts->n > LIMIT_POLICY_TEXT)
        field_error_add(errors, "", "alerts", "too_long", "must be at most %d bytes as JSON",
                        LIMIT_POLICY_TEXT);
}

static void put_queue(struct call *c, const struct policy *policy, const struct policy_texts *texts,
                      const struct act *act) {
    bool is_created = false;
    enum err e =
        engine_queue_put(call_engine(c), c->now, c->queue, policy, texts, act, &is_created);
    if (e == OK) {
        alerts_note(c->server->alerts, c->queue, c->now);
        reply_queue(c, is_created ? 201 : 200);
    } else if (e == ERR_NOT_EMPTY) {
        reply_problem(&c->reply, 409, "the queue is not empty",
                      "its order can be changed only while it holds no message");
    } else {
        reply_error(&c->reply, e);
    }
}

/* What a put would do: only that can tell whether a secret is another. */
static void reply_stand(struct call *c, const struct policy *policy,
                        const struct policy_texts *texts) {
    struct queue_view q;
    struct json_writer w;
    bool is_there = engine_queue_brief(call_engine(c), c->queue, &q) == OK;
    bool is_same = is_there && policy_equal(policy, q.policy) && policy_texts_equal(texts, q.texts);
    json_writer_init(&w, c->reply.body);
    json_begin(&w, '{');
    view_flag(&w, "dry_run", true);
    view_str(&w, "action", !is_there ? "create" : is_same ? "none" : "change");
    json_end(&w, '}');
}

void handle_queue_put(struct call *c) {
    struct json *json;
    if (!call_body(c, false, &json))
        return;
    struct policy_texts texts;
    struct policy policy = policy_from_json(json, &c->http->errors, &c->http->policy, &texts);
    struct buf alerts;
    buf_init(&alerts, ALERTS_MAX * LIMIT_POLICY_TEXT);
    if (c->http->errors.count == 0) {
        alerts_check_urls(c->server->alerts, texts.alerts, &c->http->errors);
        unmask(c, &texts, &alerts);
    }
    struct act act;
    bool is_dry_run = false;
    if (read_act(c, "dry_run", &act, &is_dry_run)) {
        if (is_dry_run)
            reply_stand(c, &policy, &texts);
        else
            put_queue(c, &policy, &texts, &act);
    }
    buf_release(&alerts);
    json_free(json);
}

static void pause_queue(struct call *c, bool paused) {
    static const char *const names[] = {"reason", NULL};
    struct json *json;
    if (!call_body(c, false, &json))
        return;
    struct field_errors *errors = &c->http->errors;
    const struct fields f = {.object = json, .prefix = "", .errors = errors};
    struct act act = {.reason = field_string(&f, "reason", LIMIT_AUDIT_REASON)};
    fields_known(&f, names);
    if (json != NULL && !json_is(json, JSON_OBJECT))
        field_error_add(errors, "", "body", "wrong_type", "must be an object");
    if (call_actor(c, &act.actor) && call_is_valid(c)) {
        enum err e = engine_queue_pause(call_engine(c), c->now, c->queue, paused, &act);
        if (e == OK)
            reply_queue(c, 200);
        else
            reply_error(&c->reply, e);
    }
    json_free(json);
}

void handle_queue_pause(struct call *c) {
    pause_queue(c, true);
}

void handle_queue_resume(struct call *c) {
    pause_queue(c, false);
}

void handle_alerts_snooze(struct call *c) {
    static const char *const names[] = {"seconds", NULL};
    struct json *json;
    if (!call_body(c, true, &json))
        return;
    struct field_errors *errors = &c->http->errors;
    const struct fields f = {.object = json, .prefix = "", .errors = errors};
    int64_t seconds = field_int(&f, "seconds", 0, ALERTS_SNOOZE_SECONDS, -1);
    fields_known(&f, names);
    if (!json_is(json, JSON_OBJECT))
        field_error_add(errors, "", "body", "wrong_type", "must be an object");
    else if (seconds < 0 && errors->count == 0)
        field_error_add(errors, "", "seconds", "required", "is required");
    json_free(json);
    struct queue_view q;
    if (!call_is_valid(c))
        return;
    enum err e = engine_queue_brief(call_engine(c), c->queue, &q);
    if (e != OK)
        reply_error(&c->reply, e);
    else if (alerts_snooze(c->server->alerts, c->queue, c->now + 1000 * seconds))
        reply_queue(c, 200);
    else
        reply_problem(&c->reply, 409, "no alerts", "the queue's policy has no alerts");
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
    struct act act;
    bool discard = false;
    if (!read_act(c, "discard", &act, &discard))
        return;
    enum err e = engine_queue_delete(call_engine(c), c->now, c->queue, discard, &act);
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
    struct call *call;
    struct json_writer w;
    uint64_t count, limit;
};

static bool add_queue(void *ctx, const struct queue_view *q) {
    struct queue_page *page = ctx;
    put_view(page->call, q, &page->w);
    return ++page->count < page->limit;
}

void handle_queues(struct call *c) {
    static const char *const names[] = {"limit", "after", NULL};
    struct span values[2];
    struct field_errors *errors = &c->http->errors;
    query_read(c->request->query, names, values, &c->http->scratch, errors);
    struct queue_page page = {
        .call = c, .limit = parameter_number(values[0], "limit", 1, LIMIT_BATCH, 100, errors)};
    if (!call_is_valid(c))
        return;

    struct json_writer *w = &page.w;
    json_writer_init(w, c->reply.body);
    json_begin(w, '{');
    json_name(w, "queues");
    json_begin(w, '[');
    enum err e = engine_queues(call_engine(c), values[1], add_queue, &page);
    if (e != OK) {
        reply_error(&c->reply, e);
        return;
    }
    json_end(w, ']');
    view_number(w, "count", page.count);
    json_end(w, '}');
}
