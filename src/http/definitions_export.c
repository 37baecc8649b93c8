/* GET /definitions: all of the topology in RabbitMQ's form, for another server of this kind or that.
 * What belongs to a connection is left out, and what each vhost has by itself. */
#include "http/front.h"
#include "http/query.h"
#include "http/view.h"

#include "engine/topology.h"
#include "model/scope.h"

#include <string.h>

/* Of the reply, which is made at once. */
#define DEFINITIONS_BYTES_MAX ((size_t)96 * 1024 * 1024)

struct export {
    struct engine *engine;
    struct span vhost; /* p is NULL: all */
    struct json_writer w;
    bool is_too_large;
};

/* False when there is no room for more. */
static bool goes_on(struct export *x) {
    x->is_too_large = x->is_too_large || x->w.out->n > DEFINITIONS_BYTES_MAX;
    return !x->is_too_large;
}

static bool is_wanted(const struct export *x, struct span vhost) {
    return x->vhost.p == NULL || span_equal(x->vhost, vhost);
}

static bool is_reserved(struct span name) {
    return name.n == 0 || (name.n >= 4 && memcmp(name.p, "amq.", 4) == 0);
}

static void put_arguments(struct json_writer *w, struct span arguments) {
    json_name(w, "arguments");
    json_put_raw(w, arguments.n > 0 ? arguments : span_str("{}"));
}

static void put_empty(struct json_writer *w, const char *name) {
    json_name(w, name);
    json_begin(w, '[');
    json_end(w, ']');
}

/* -- sections -------------------------------------------------------------------------------- */

/* In its metadata, of which RabbitMQ keeps what it does not know; what is the same there is left out. */
static bool put_vhost(void *ctx, struct span vhost, const struct vhost_settings *s) {
    struct export *x = ctx;
    struct json_writer *w = &x->w;
    if (!is_wanted(x, vhost))
        return true;
    json_begin(w, '{');
    view_text(w, "name", vhost);
    if (s->reads_deaths) {
        json_name(w, "metadata");
        json_begin(w, '{');
        view_str(w, "client_x_death", view_client_x_death[s->reads_deaths]);
        json_end(w, '}');
    }
    json_end(w, '}');
    return goes_on(x);
}

static bool put_policy(void *ctx, const struct pattern_policy *p) {
    struct export *x = ctx;
    if (!is_wanted(x, p->vhost))
        return true;
    view_pattern_policy(p, &x->w);
    return goes_on(x);
}

static bool put_queue(void *ctx, const struct queue_view *q) {
    struct export *x = ctx;
    struct json_writer *w = &x->w;
    struct span vhost, name;
    struct queue_amqp_view amqp;
    scope_split(q->name, &vhost, &name);
    /* HTTP makes queues named as if they were of a vhost that nobody made. */
    if (!is_wanted(x, vhost) || !engine_vhost_is_there(x->engine, vhost) ||
        engine_queue_amqp(x->engine, q->name, &amqp) != OK || amqp.exclusive)
        return true;
    json_begin(w, '{');
    view_text(w, "name", name);
    view_text(w, "vhost", vhost);
    view_flag(w, "durable", amqp.durable);
    view_flag(w, "auto_delete", amqp.auto_delete);
    put_arguments(w, amqp.arguments);
    json_end(w, '}');
    return goes_on(x);
}

static bool put_exchange(void *ctx, const struct exchange_view *e) {
    struct export *x = ctx;
    struct json_writer *w = &x->w;
    struct span vhost, name;
    scope_split(e->name, &vhost, &name);
    if (!is_wanted(x, vhost) || is_reserved(name))
        return true;
    json_begin(w, '{');
    view_text(w, "name", name);
    view_text(w, "vhost", vhost);
    view_str(w, "type", exchange_type_name(e->type));
    view_flag(w, "durable", e->durable);
    view_flag(w, "auto_delete", e->auto_delete);
    view_flag(w, "internal", e->internal);
    put_arguments(w, e->arguments);
    json_end(w, '}');
    return goes_on(x);
}

static bool is_exclusive(const struct export *x, const struct binding_new *b) {
    struct queue_amqp_view amqp;
    return !b->to_exchange && engine_queue_amqp(x->engine, b->destination, &amqp) == OK &&
           amqp.exclusive;
}

static bool put_binding(void *ctx, const struct binding_new *b) {
    struct export *x = ctx;
    struct json_writer *w = &x->w;
    struct span vhost, source, destination, ignored;
    scope_split(b->source, &vhost, &source);
    scope_split(b->destination, &ignored, &destination);
    if (!is_wanted(x, vhost) || source.n == 0 || is_exclusive(x, b))
        return true;
    json_begin(w, '{');
    view_text(w, "source", source);
    view_text(w, "vhost", vhost);
    view_text(w, "destination", destination);
    view_str(w, "destination_type", b->to_exchange ? "exchange" : "queue");
    view_text(w, "routing_key", b->key);
    put_arguments(w, b->arguments);
    json_end(w, '}');
    return goes_on(x);
}

/* -- all of them ----------------------------------------------------------------------------- */

static void begin(struct json_writer *w, const char *name) {
    json_name(w, name);
    json_begin(w, '[');
}

static void put_topology(struct export *x) {
    struct json_writer *w = &x->w;
    begin(w, "vhosts");
    engine_vhosts(x->engine, put_vhost, x);
    json_end(w, ']');
    begin(w, "policies");
    engine_pattern_policies(x->engine, put_policy, x);
    json_end(w, ']');
    begin(w, "queues");
    if (engine_queues(x->engine, span_of(NULL, 0), put_queue, x) != OK)
        x->is_too_large = true; /* there is none to begin after: it does not happen */
    json_end(w, ']');
    begin(w, "exchanges");
    engine_exchanges(x->engine, put_exchange, x);
    json_end(w, ']');
    begin(w, "bindings");
    engine_bindings(x->engine, put_binding, x);
    json_end(w, ']');
}

void handle_definitions(struct call *c) {
    static const char *const names[] = {"vhost", NULL};
    struct span values[1];
    struct field_errors *errors = &c->http->errors;
    query_read(c->request->query, names, values, &c->http->scratch, errors);
    struct export x = {.vhost = parameter_text(values[0], "vhost", LIMIT_QUEUE_NAME, errors)};
    if (!call_is_valid(c))
        return;
    x.engine = call_engine(c);
    if (x.vhost.p != NULL && !engine_vhost_is_there(x.engine, x.vhost)) {
        reply_error(&c->reply, ERR_NO_VHOST);
        return;
    }
    struct json_writer *w = &x.w;
    json_writer_init(w, c->reply.body);
    json_begin(w, '{');
    view_str(w, "product_name", "Nixie");
    view_str(w, "product_version", NIXIE_VERSION);
    put_empty(w, "users"); /* they are the server's start options */
    put_empty(w, "permissions");
    put_empty(w, "topic_permissions");
    put_empty(w, "parameters");
    put_empty(w, "global_parameters");
    put_topology(&x);
    json_end(w, '}');
    if (x.is_too_large)
        reply_problem(&c->reply, 413, "too large",
                      "all definitions are too much for one reply; ask for a vhost's");
}
