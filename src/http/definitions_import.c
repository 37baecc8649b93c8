/* Definitions, entry by entry: each is made, is there, or is told of in the report. */
#include "http/definitions.h"
#include "http/topology_body.h"
#include "http/view.h"

#include "base/mem.h"
#include "model/scope.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { KIND_VHOST = 'v', KIND_EXCHANGE = 'x', KIND_QUEUE = 'q' };

/* -- what all have --------------------------------------------------------------------------- */

struct span import_vhost_of(const struct import *im, const struct json *item) {
    const struct json *v = json_get(item, "vhost");
    return json_is(v, JSON_STRING) ? json_string(v) : im->vhost;
}

static bool is_vhost(struct import *im, struct span vhost) {
    return engine_vhost_is_there(im->engine, vhost) ||
           (im->is_dry && names_have(&im->made, KIND_VHOST, vhost));
}

static bool is_made(struct import *im, char kind, struct span scoped) {
    return im->is_dry && names_have(&im->made, kind, scoped);
}

/* The outcome of a verb: true when it was done. */
static bool note(struct import *im, enum err e, uint64_t *counter) {
    if (e == OK)
        ++*counter;
    else
        im->error = e;
    return e == OK;
}

static bool is_reserved(struct span name) {
    return name.n == 0 || (name.n >= 4 && memcmp(name.p, "amq.", 4) == 0);
}

/* The entry's members were read into what they are; true when all is well with them and its vhost,
 * and `name` (of the vhost, or what it is told by) has a scoped name in `out`. */
static bool is_good(struct import *im, const char *kind, struct span name, struct span vhost,
                    struct buf *out) {
    if (im->errors.count > 0) {
        const struct field_error *e = &im->errors.items[0];
        bool is_whole = strncmp(e->message, "invalid arg", 11) == 0;
        if (is_whole)
            import_refuse(im, kind, name, &vhost, "%s", e->message);
        else
            import_refuse(im, kind, name, &vhost, "%s %s", e->field, e->message);
    } else if (!is_vhost(im, vhost)) {
        import_refuse(im, kind, name, &vhost, "there is no such vhost");
    } else if (!scope_name(vhost, name, out)) {
        import_refuse(im, kind, name, &vhost,
                      "with its vhost the name is too long, or begins with two slashes");
    } else {
        return true;
    }
    return false;
}

static struct fields begin(struct import *im, const struct json *item) {
    im->errors.count = 0;
    return (struct fields){.object = item, .prefix = "", .errors = &im->errors};
}

/* -- vhosts ---------------------------------------------------------------------------------- */

static void read_settings(struct import *im, struct span name, const struct json *metadata,
                          struct vhost_settings *s) {
    const struct json *deaths = json_get(metadata, "client_x_death");
    if (deaths == NULL)
        return;
    for (int i = 0; json_is(deaths, JSON_STRING) && view_client_x_death[i] != NULL; i++) {
        if (span_equal_str(json_string(deaths), view_client_x_death[i])) {
            s->reads_deaths = i == 1;
            return;
        }
    }
    import_refuse(im, "client_x_death of vhost", name, NULL, "it must be opaque or read");
}

void import_vhost(struct import *im, const struct json *item) {
    const struct fields f = begin(im, item);
    struct span name = field_string(&f, "name", LIMIT_QUEUE_NAME);
    if (!scope_vhost_is_valid(name) || name.n > VHOST_NAME_MAX) {
        import_refuse(im, "vhost", name, NULL,
                      "a vhost's name has 1 to %d bytes and no slash but at its beginning",
                      VHOST_NAME_MAX);
        return;
    }
    const struct json *metadata = json_get(item, "metadata");
    struct vhost_settings there, wanted;
    bool is_there = engine_vhost(im->engine, name, &there) == OK;
    wanted = there;
    read_settings(im, name, metadata, &wanted);
    bool is_same = is_there && wanted.reads_deaths == there.reads_deaths;
    uint64_t *counter = is_same || (!is_there && is_vhost(im, name)) ? &im->vhosts.there
                        : is_there                                   ? &im->vhosts.changed
                                                                     : &im->vhosts.made;
    enum err e = OK;
    if (im->is_dry)
        names_add(&im->made, KIND_VHOST, name);
    else
        e = engine_vhost_put(im->engine, im->now, name, &wanted, &im->act);
    if (!note(im, e, counter))
        return;
    const struct json *type = json_get(metadata, "default_queue_type");
    if (json_is(type, JSON_STRING) && !span_equal_str(json_string(type), "classic") &&
        !span_equal_str(json_string(type), "undefined"))
        import_refuse(im, "default queue type of vhost", name, NULL,
                      "a queue that names no type is classic");
}

/* -- exchanges ------------------------------------------------------------------------------- */

static void compare_exchange(struct import *im, const struct exchange_new *x,
                             const struct exchange_view *there, struct span name,
                             struct span vhost) {
    const char *differs = NULL;
    char argument[64];
    if (x->type != there->type)
        differs = "type";
    else if (x->durable != there->durable)
        differs = "durable";
    else if (x->auto_delete != there->auto_delete)
        differs = "auto_delete";
    else if (x->internal != there->internal)
        differs = "internal";
    else if (arguments_difference(x->arguments, there->arguments, argument))
        differs = argument;
    if (differs == NULL)
        im->exchanges.there++;
    else
        import_refuse(im, "exchange", name, &vhost, "it is there with another %s", differs);
}

void import_exchange(struct import *im, const struct json *item) {
    const struct fields f = begin(im, item);
    struct exchange_new x;
    struct span vhost = import_vhost_of(im, item);
    exchange_read(&x, &f, &im->texts);
    struct span name = x.name;
    if (is_reserved(name) && im->errors.count == 0)
        return; /* each vhost has them */
    if (!is_good(im, "exchange", name, vhost, &im->source))
        return;
    x.name = buf_span(&im->source);
    struct exchange_view there;
    if (engine_exchange(im->engine, x.name, &there) == OK) {
        compare_exchange(im, &x, &there, name, vhost);
    } else if (is_made(im, KIND_EXCHANGE, x.name)) {
        im->exchanges.there++;
    } else if (im->is_dry) {
        names_add(&im->made, KIND_EXCHANGE, x.name);
        im->exchanges.made++;
    } else {
        (void)note(im, engine_exchange_declare(im->engine, im->now, &x), &im->exchanges.made);
    }
}

/* -- queues ---------------------------------------------------------------------------------- */

struct telling {
    struct import *im;
    const char *kind;
    struct span name, vhost;
    bool (*is_told)(const char *name);
    const char *why;
};

static bool tell_member(void *ctx, const char *member, const struct json *value) {
    struct telling *t = ctx;
    (void)value;
    if (t->is_told(member))
        import_refuse(t->im, t->kind, t->name, &t->vhost, "%s %s", member, t->why);
    return true;
}

/* True when it is as the entry says, or was made so. */
static bool declare(struct import *im, const struct queue_declare *q, struct span name,
                    struct span vhost) {
    struct queue_amqp_view there;
    char argument[64];
    bool is_there = engine_queue_amqp(im->engine, q->name, &there) == OK;
    uint64_t *counter = is_there ? &im->queues.changed : &im->queues.made;
    if (!is_there || !there.is_declared) {
        bool is_created;
        if (!im->is_dry)
            return note(im, engine_queue_declare(im->engine, im->now, q, &is_created), counter);
        names_add(&im->made, KIND_QUEUE, q->name);
        ++*counter;
        return true;
    }
    const char *differs = NULL;
    if (there.exclusive)
        differs = "exclusive";
    else if (q->durable != there.durable)
        differs = "durable";
    else if (q->auto_delete != there.auto_delete)
        differs = "auto_delete";
    else if (arguments_difference(q->arguments, there.arguments, argument))
        differs = argument;
    if (differs == NULL)
        im->queues.there++;
    else
        import_refuse(im, "queue", name, &vhost, "it is there with another %s", differs);
    return differs == NULL;
}

void import_queue(struct import *im, const struct json *item) {
    const struct fields f = begin(im, item);
    struct queue_declare q;
    struct span vhost = import_vhost_of(im, item);
    queue_read(&q, &f, &im->texts);
    struct span name = q.name;
    if (!is_good(im, "queue", name, vhost, &im->source))
        return;
    q.name = buf_span(&im->source);
    if (!declare(im, &q, name, vhost))
        return;
    struct telling t = {.im = im,
                        .kind = "queue",
                        .name = name,
                        .vhost = vhost,
                        .is_told = queue_argument_is_idle,
                        .why = "is kept, but changes nothing here"};
    if (q.arguments.n > 0)
        (void)json_each(json_get(item, "arguments"), tell_member, &t);
}

/* -- bindings -------------------------------------------------------------------------------- */

static bool is_exchange(struct import *im, struct span scoped) {
    struct exchange_view x;
    return engine_exchange(im->engine, scoped, &x) == OK || is_made(im, KIND_EXCHANGE, scoped);
}

static bool is_queue(struct import *im, struct span scoped) {
    struct queue_view q;
    return engine_queue_brief(im->engine, scoped, &q) == OK || is_made(im, KIND_QUEUE, scoped);
}

/* RabbitMQ exports bindings of queues that it does not export, because they are a connection's. */
static void refuse_no_queue(struct import *im, const char *kind, struct span name,
                            struct span vhost) {
    if (!is_reserved(name))
        import_refuse(im, kind, name, &vhost, "there is no such queue");
}

void import_binding(struct import *im, const struct json *item) {
    const struct fields f = begin(im, item);
    struct binding_new b;
    struct span vhost = import_vhost_of(im, item);
    binding_read(&b, &f, &im->texts);
    if (b.source.n == 0 && im->errors.count == 0)
        return; /* every queue is bound to the default exchange */
    struct span name = b.destination;
    const char *kind = b.to_exchange ? "binding of exchange" : "binding of queue";
    if (!is_good(im, kind, name, vhost, &im->destination) ||
        !is_good(im, kind, b.source, vhost, &im->source))
        return;
    struct span source = b.source;
    b.source = buf_span(&im->source);
    b.destination = buf_span(&im->destination);
    if (!is_exchange(im, b.source))
        import_refuse(im, kind, name, &vhost, "there is no exchange '%.*s'", (int)source.n,
                      (const char *)source.p);
    else if (b.to_exchange && !is_exchange(im, b.destination))
        import_refuse(im, kind, name, &vhost, "there is no such exchange");
    else if (!b.to_exchange && !is_queue(im, b.destination))
        refuse_no_queue(im, kind, name, vhost);
    else if (engine_is_bound(im->engine, &b))
        im->bindings.there++;
    else if (im->is_dry)
        im->bindings.made++;
    else
        (void)note(im, engine_bind(im->engine, im->now, &b), &im->bindings.made);
}

/* -- policies -------------------------------------------------------------------------------- */

struct comparison {
    const struct pattern_policy *wanted;
    bool is_there, is_same;
};

static bool compare_policy(void *ctx, const struct pattern_policy *p) {
    struct comparison *c = ctx;
    const struct pattern_policy *w = c->wanted;
    if (!span_equal(p->name, w->name) || !span_equal(p->vhost, w->vhost))
        return true;
    c->is_there = true;
    c->is_same = p->applies == w->applies && p->priority == w->priority &&
                 span_equal(p->pattern, w->pattern) &&
                 arguments_equal(p->definition, w->definition);
    return false;
}

static bool is_unknown_key(const char *name) {
    return !policy_key_is_known(name);
}

void import_policy(struct import *im, const struct json *item) {
    const struct fields f = begin(im, item);
    struct pattern_policy p;
    struct span vhost = import_vhost_of(im, item);
    pattern_policy_read(&p, &f, &im->texts);
    p.name = field_string(&f, "name", LIMIT_QUEUE_NAME);
    p.vhost = vhost;
    if (p.name.n == 0)
        field_error_add(&im->errors, "", "name", "required", "is required");
    if (!is_good(im, "policy", p.name, vhost, &im->source))
        return;
    struct comparison c = {.wanted = &p};
    engine_pattern_policies(im->engine, compare_policy, &c);
    uint64_t *counter = c.is_same    ? &im->policies.there
                        : c.is_there ? &im->policies.changed
                                     : &im->policies.made;
    enum err e = OK;
    if (!c.is_same && !im->is_dry)
        e = engine_pattern_policy_put(im->engine, im->now, &p, &im->act);
    if (!note(im, e, counter))
        return;
    struct telling t = {.im = im,
                        .kind = "policy",
                        .name = p.name,
                        .vhost = vhost,
                        .is_told = is_unknown_key,
                        .why = "means nothing here"};
    (void)json_each(json_get(item, "definition"), tell_member, &t); /* an object, not empty */
}
