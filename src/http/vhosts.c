/* Vhosts, and what is set for them. */
#include "http/front.h"
#include "http/query.h"
#include "http/view.h"

#include "engine/topology.h"
#include "model/scope.h"

static void reply_vhost(struct call *c, const struct vhost_settings *s, unsigned status) {
    struct json_writer w;
    json_writer_init(&w, c->reply.body);
    view_vhost(c->key, s, &w);
    c->reply.status = status;
}

static bool takes_no_parameters(struct call *c) {
    static const char *const names[] = {NULL};
    struct span values[1];
    query_read(c->request->query, names, values, &c->http->scratch, &c->http->errors);
    return call_is_valid(c);
}

static bool is_name_valid(struct call *c) {
    struct field_errors *errors = &c->http->errors;
    if (!span_is_utf8(c->key))
        field_error_add(errors, "", "name", "bad_encoding", "must be UTF-8");
    else if (c->key.n > VHOST_NAME_MAX)
        field_error_add(errors, "", "name", "too_long", "must be at most %d bytes", VHOST_NAME_MAX);
    else if (!scope_vhost_is_valid(c->key))
        field_error_add(errors, "", "name", "out_of_range",
                        "must have no slash but at its beginning");
    return call_is_valid(c);
}

void handle_vhost(struct call *c) {
    struct vhost_settings s;
    if (!takes_no_parameters(c))
        return;
    enum err e = engine_vhost(call_engine(c), c->key, &s);
    if (e == OK)
        reply_vhost(c, &s, 200);
    else
        reply_error(&c->reply, e);
}

static void put(struct call *c, const struct json *json) {
    static const char *const members[] = {"client_x_death", NULL}, *const names[] = {"reason",
                                                                                     NULL};
    struct field_errors *errors = &c->http->errors;
    const struct fields f = {.object = json, .prefix = "", .errors = errors};
    struct vhost_settings s = {0};
    struct span values[1];
    struct act act;
    if (json != NULL && !json_is(json, JSON_OBJECT)) {
        field_error_add(errors, "", "body", "wrong_type", "must be an object");
    } else if (json != NULL) {
        fields_known(&f, members);
        s.reads_deaths = field_choice(&f, "client_x_death", view_client_x_death, 0) == 1;
    }
    query_read(c->request->query, names, values, &c->http->scratch, errors);
    act.reason = parameter_text(values[0], "reason", LIMIT_AUDIT_REASON, errors);
    if (!call_actor(c, &act.actor) || !is_name_valid(c))
        return;
    bool was_there = engine_vhost_is_there(call_engine(c), c->key);
    enum err e = engine_vhost_put(call_engine(c), c->now, c->key, &s, &act);
    if (e == OK)
        reply_vhost(c, &s, was_there ? 200 : 201);
    else
        reply_error(&c->reply, e);
}

void handle_vhost_put(struct call *c) {
    struct json *json;
    if (!call_body(c, false, &json))
        return;
    put(c, json);
    json_free(json);
}

/* -- all of them ----------------------------------------------------------------------------- */

struct page {
    struct json_writer w;
    uint64_t count;
};

static bool put_item(void *ctx, struct span vhost, const struct vhost_settings *s) {
    struct page *page = ctx;
    view_vhost(vhost, s, &page->w);
    page->count++;
    return true;
}

void handle_vhosts(struct call *c) {
    if (!takes_no_parameters(c))
        return;
    struct page page = {0};
    struct json_writer *w = &page.w;
    json_writer_init(w, c->reply.body);
    json_begin(w, '{');
    json_name(w, "vhosts");
    json_begin(w, '[');
    engine_vhosts(call_engine(c), put_item, &page);
    json_end(w, ']');
    view_number(w, "count", page.count);
    json_end(w, '}');
}
