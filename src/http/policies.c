/* Policies by pattern: settings that many queues and exchanges of a vhost have in common. */
#include "http/front.h"
#include "http/query.h"
#include "http/topology_body.h"
#include "http/view.h"

#include "engine/topology.h"

/* -- one ------------------------------------------------------------------------------------- */

struct lookup {
    struct span vhost, name;
    struct json_writer *w; /* NULL: it is only looked whether it is there */
    bool is_found;
};

static bool look(void *ctx, const struct pattern_policy *p) {
    struct lookup *l = ctx;
    l->is_found = span_equal(p->vhost, l->vhost) && span_equal(p->name, l->name);
    if (l->is_found && l->w != NULL)
        view_pattern_policy(p, l->w);
    return !l->is_found;
}

static bool is_there(struct call *c, struct span vhost) {
    struct lookup l = {.vhost = vhost, .name = c->key};
    engine_pattern_policies(call_engine(c), look, &l);
    return l.is_found;
}

static void reply_policy(struct call *c, struct span vhost, unsigned status) {
    struct json_writer w;
    json_writer_init(&w, c->reply.body);
    struct lookup l = {.vhost = vhost, .name = c->key, .w = &w};
    engine_pattern_policies(call_engine(c), look, &l);
    if (l.is_found)
        c->reply.status = status;
    else
        reply_error(&c->reply, ERR_NO_POLICY);
}

/* The parameters vhost, and with `act` reason, and who. False when the reply is set. */
static bool read_parameters(struct call *c, struct span *ret_vhost, struct act *act) {
    const char *const names[] = {"vhost", act != NULL ? "reason" : NULL, NULL};
    struct span values[2] = {0};
    struct field_errors *errors = &c->http->errors;
    query_read(c->request->query, names, values, &c->http->scratch, errors);
    *ret_vhost = parameter_text(values[0], "vhost", LIMIT_QUEUE_NAME, errors);
    if (ret_vhost->p == NULL)
        *ret_vhost = span_str("/");
    if (!span_is_utf8(c->key))
        field_error_add(errors, "", "name", "bad_encoding", "must be UTF-8");
    else if (c->key.n > LIMIT_QUEUE_NAME)
        field_error_add(errors, "", "name", "too_long", "must be at most %d bytes",
                        LIMIT_QUEUE_NAME);
    if (act == NULL)
        return call_is_valid(c);
    act->reason = parameter_text(values[1], "reason", LIMIT_AUDIT_REASON, errors);
    return call_actor(c, &act->actor) && call_is_valid(c);
}

void handle_policy(struct call *c) {
    struct span vhost;
    if (read_parameters(c, &vhost, NULL))
        reply_policy(c, vhost, 200);
}

static void put(struct call *c, const struct json *json) {
    static const char *const names[] = {"pattern", "apply-to", "priority", "definition", NULL};
    struct field_errors *errors = &c->http->errors;
    const struct fields f = {.object = json, .prefix = "", .errors = errors};
    struct pattern_policy policy;
    struct act act = {0};
    struct span vhost;
    if (!json_is(json, JSON_OBJECT))
        field_error_add(errors, "", "body", "wrong_type", "must be an object");
    else
        pattern_policy_read(&policy, &f, &c->http->policy);
    fields_known(&f, names);
    if (!read_parameters(c, &vhost, &act))
        return;
    policy.vhost = vhost;
    policy.name = c->key;
    bool was_there = is_there(c, vhost);
    enum err e = engine_pattern_policy_put(call_engine(c), c->now, &policy, &act);
    if (e == OK)
        reply_policy(c, vhost, was_there ? 200 : 201);
    else
        reply_error(&c->reply, e);
}

void handle_policy_put(struct call *c) {
    struct json *json;
    if (!call_body(c, true, &json))
        return;
    put(c, json);
    json_free(json);
}

void handle_policy_delete(struct call *c) {
    struct act act = {0};
    struct span vhost;
    if (!read_parameters(c, &vhost, &act))
        return;
    enum err e = engine_pattern_policy_delete(call_engine(c), c->now, vhost, c->key, &act);
    if (e == OK)
        c->reply.status = 204;
    else
        reply_error(&c->reply, e);
}

/* -- all of them ----------------------------------------------------------------------------- */

struct page {
    struct span vhost; /* p is NULL: of all */
    struct json_writer w;
    uint64_t count;
};

static bool put_item(void *ctx, const struct pattern_policy *p) {
    struct page *page = ctx;
    if (page->vhost.p == NULL || span_equal(page->vhost, p->vhost)) {
        view_pattern_policy(p, &page->w);
        page->count++;
    }
    return true;
}

void handle_policies(struct call *c) {
    static const char *const names[] = {"vhost", NULL};
    struct span values[1];
    struct field_errors *errors = &c->http->errors;
    query_read(c->request->query, names, values, &c->http->scratch, errors);
    struct page page = {.vhost = parameter_text(values[0], "vhost", LIMIT_QUEUE_NAME, errors)};
    if (!call_is_valid(c))
        return;
    struct json_writer *w = &page.w;
    json_writer_init(w, c->reply.body);
    json_begin(w, '{');
    json_name(w, "policies");
    json_begin(w, '[');
    engine_pattern_policies(call_engine(c), put_item, &page);
    json_end(w, ']');
    view_number(w, "count", page.count);
    json_end(w, '}');
}
