#include "http/claims.h"
#include "http/view.h"

static void settle_one(struct call *c, enum settle_action action) {
    struct json *json;
    if (!call_body(c, false, &json))
        return;
    struct settle settle;
    settle_verb_read(&settle, action, c->id, json, &c->http->errors);
    if (call_is_valid(c)) {
        enum err result = OK;
        enum err e = engine_settle(call_engine(c), c->now, c->queue, &settle, 1, &result);
        if (e == OK)
            e = result;
        if (e == OK)
            call_show(c, c->id);
        else
            call_refuse_verb(c, e);
    }
    json_free(json);
}

void handle_succeed(struct call *c) {
    settle_one(c, SETTLE_SUCCEED);
}

void handle_fail(struct call *c) {
    settle_one(c, SETTLE_FAIL);
}

void handle_release(struct call *c) {
    settle_one(c, SETTLE_RELEASE);
}

void handle_extend(struct call *c) {
    settle_one(c, SETTLE_EXTEND);
}

/* -- many at once ---------------------------------------------------------------------------- */

/* What a settled message is now. Asking the engine reads the whole message, so it is only asked
 * where the action alone does not tell. */
static enum state state_after(struct call *c, const struct settle *s) {
    switch (s->action) {
    case SETTLE_SUCCEED:
        return STATE_SUCCEEDED;
    case SETTLE_EXTEND:
        return STATE_PROCESSING;
    case SETTLE_FAIL:
        if (s->permanent)
            return STATE_DEAD;
        break;
    case SETTLE_RELEASE:
    case SETTLE_RETURN:
    case SETTLE_REJECT:
        break;
    }
    enum state state;
    enum err e = engine_message_state(call_engine(c), c->queue, s->id, &state);
    return e == OK ? state : STATE_DEAD; /* it died, and moved on to its queue's target */
}

/* {"results":[...], without its end */
static void put_results(struct call *c, const struct settle_body *body, const enum err *results) {
    struct json_writer w;
    json_writer_init(&w, c->reply.body);
    json_begin(&w, '{');
    json_name(&w, "results");
    json_begin(&w, '[');
    for (size_t i = 0; i < body->count; i++) {
        json_begin(&w, '{');
        view_number(&w, "id", body->items[i].id);
        if (results[i] == OK) {
            view_str(&w, "status", state_name(state_after(c, &body->items[i])));
        } else {
            json_name(&w, "error");
            problem_write(problem_of(results[i]), &w);
        }
        json_end(&w, '}');
    }
    json_end(&w, ']');
}

static void settle_many(struct call *c, const struct settle_body *body) {
    struct http *h = c->http;
    if (body->has_claim)
        claim_let_others_first(c);
    if (body->count > 0) {
        enum err e =
            engine_settle(call_engine(c), c->now, c->queue, body->items, body->count, h->results);
        if (e != OK) {
            reply_error(&c->reply, e);
            return;
        }
    }
    put_results(c, body, h->results);
    if (body->has_claim)
        claim_or_wait(c, &body->claim, CLAIM_AFTER_SETTLE);
    else
        buf_add_byte(c->reply.body, '}');
}

void handle_settle(struct call *c) {
    struct json *json;
    if (!call_body(c, true, &json))
        return;
    settle_body_read(&c->http->settle, json, &c->http->errors);
    if (call_is_valid(c))
        settle_many(c, &c->http->settle);
    json_free(json);
}
