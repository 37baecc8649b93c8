/* Acting on one dead letter. */
#include "http/front.h"
#include "http/jobs_body.h"

#include <inttypes.h>

/* -- what is in the way ---------------------------------------------------------------------- */

static void refuse_limit(struct call *c, const struct message_view *m) {
    struct queue_view q;
    enum err e = engine_queue(call_engine(c), c->queue, &q);
    if (e != OK) {
        reply_error(&c->reply, e);
        return;
    }
    struct problem p = problem_of(ERR_REDRIVE_LIMIT);
    uint32_t count = m->redrive_count, limit = q.policy->redrive_limit;
    const char *times = count == 1 ? "time" : "times";
    if (limit == 0)
        reply_problem(&c->reply, p.status, p.title,
                      "the queue's redrive_limit is 0: force to send it again");
    else if (count == limit)
        reply_problem(&c->reply, p.status, p.title,
                      "it was sent again %" PRIu32 " %s, which is the queue's redrive_limit: force "
                      "to send it again",
                      count, times);
    else
        reply_problem(&c->reply, p.status, p.title,
                      "it was sent again %" PRIu32 " %s, and the queue's redrive_limit is %" PRIu32
                      ": force to send it again",
                      count, times, limit);
}

/* What to say of a verb that is refused. */
struct verb {
    const char *needs;   /* which state, and what for */
    const char *insists; /* what it takes, and gives, when there is an edited copy */
};

static const struct verb replaying = {"only a dead letter can be replayed",
                                      "force to send this one, too"};
static const struct verb editing = {"only a dead letter can be edited", "force to send another"};
static const struct verb discarding = {.needs = "only a dead letter can be discarded"};
static const struct verb undiscarding = {.needs = "only a discarded letter can be brought back"};

/* The error of a verb, with what is in the way and what would do. */
static void refuse(struct call *c, enum err e, const struct verb *verb) {
    struct message_view m;
    struct problem p = problem_of(e);
    bool is_told = e == ERR_WRONG_STATE || e == ERR_REDRIVE_LIMIT || e == ERR_EDITED;
    if (!is_told || engine_message(call_engine(c), c->queue, c->id, &m) != OK)
        reply_error(&c->reply, e);
    else if (e == ERR_WRONG_STATE)
        reply_problem(&c->reply, p.status, p.title, "message %" PRIu64 " is %s: %s", m.id,
                      state_name(m.state), verb->needs);
    else if (e == ERR_EDITED)
        reply_problem(&c->reply, p.status, p.title,
                      "an edited copy was sent in its place: message %" PRIu64 "; %s", m.edited_to,
                      verb->insists);
    else
        refuse_limit(c, &m);
}

static void reply_to(struct call *c, enum err e, const struct verb *verb) {
    if (e == OK)
        call_show(c, c->id);
    else
        refuse(c, e, verb);
}

/* -- replay, discard, undiscard -------------------------------------------------------------- */

void handle_replay(struct call *c) {
    struct json *json;
    if (!call_body(c, false, &json))
        return;
    struct replay_body b;
    struct act act;
    replay_body_read(&b, json, &c->http->errors);
    if (call_is_valid(c) && call_actor(c, &act.actor)) {
        act.reason = b.reason;
        enum err e =
            engine_replay(call_engine(c), c->now, c->queue, c->id, b.force, b.clear_deaths, &act);
        reply_to(c, e, &replaying);
    }
    json_free(json);
}

void handle_discard(struct call *c) {
    struct json *json;
    if (!call_body(c, true, &json))
        return;
    struct discard_body b;
    struct act act;
    discard_body_read(&b, json, &c->http->errors);
    if (call_is_valid(c) && call_actor(c, &act.actor)) {
        act.reason = b.reason;
        enum err e = engine_discard(call_engine(c), c->now, c->queue, c->id, b.why, &act);
        reply_to(c, e, &discarding);
    }
    json_free(json);
}

void handle_undiscard(struct call *c) {
    struct json *json;
    if (!call_body(c, false, &json))
        return;
    struct act act = {.reason = reason_body_read(json, &c->http->errors)};
    if (call_is_valid(c) && call_actor(c, &act.actor)) {
        enum err e = engine_undiscard(call_engine(c), c->now, c->queue, c->id, &act);
        reply_to(c, e, &undiscarding);
    }
    json_free(json);
}

/* -- edit ------------------------------------------------------------------------------------ */

static void edit(struct call *c, const struct edit_body *b) {
    struct act act = {.reason = b->reason};
    if (!call_actor(c, &act.actor))
        return;
    uint64_t id;
    enum err e = engine_edit(call_engine(c), c->now, c->queue, c->id, &b->edit, &act, &id);
    if (e != OK) {
        refuse(c, e, &editing);
        return;
    }
    call_show(c, id);
    c->reply.status = 201;
}

/* Applies the patch to the letter as it is, and edits it with what comes of that. */
static void edit_patched(struct call *c, struct edit_body *b) {
    struct message_view m;
    enum err e = engine_message(call_engine(c), c->queue, c->id, &m);
    if (e == OK && m.state != STATE_DEAD)
        e = ERR_WRONG_STATE;
    if (e != OK) {
        refuse(c, e, &editing);
        return;
    }
    struct buf headers, payload;
    patched_init(&headers, &payload, &m, c->server->limits.payload_bytes_max);
    e = patch_apply(b->patch, m.headers, m.payload, &headers, &payload);
    if (e == OK) {
        b->edit.has_headers = b->edit.has_payload = true;
        b->edit.headers = buf_span(&headers);
        b->edit.payload = buf_span(&payload);
        edit(c, b);
    } else {
        field_error_add(&c->http->errors, "", "patch",
                        e == ERR_TOO_LARGE ? "too_long" : "not_allowed", "cannot be applied: %s",
                        patch_trouble(e, m.payload));
        reply_fields(&c->reply, &c->http->errors);
    }
    buf_release(&payload);
    buf_release(&headers);
}

void handle_edit(struct call *c) {
    struct json *json;
    if (!call_body(c, true, &json))
        return;
    struct edit_body b;
    edit_body_init(&b);
    size_t payload_bytes_max = c->server->limits.payload_bytes_max;
    if (call_body_is_good(c, edit_body_read(&b, json, payload_bytes_max, &c->http->errors))) {
        if (b.patch.n > 0)
            edit_patched(c, &b);
        else
            edit(c, &b);
    }
    edit_body_release(&b);
    json_free(json);
}
