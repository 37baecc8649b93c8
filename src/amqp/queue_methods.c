/* queue.declare, bind, unbind, purge, delete. */
#include "amqp/front.h"

#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DECLARE AMQP_QUEUE_DECLARE_METHOD

static uint32_t counted(uint64_t n) {
    return n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

static uint64_t ready_in(struct amqp *a, struct span scoped) {
    struct queue_view v;
    return engine_queue_brief(a->server->engine, scoped, &v) == OK ? v.ready : 0;
}

static unsigned consumers_of(struct amqp *a, struct span scoped) {
    const struct amqp_queue *q = registry_find(a, scoped);
    return q != NULL ? q->consumer_count : 0;
}

static void remember(struct channel *c, struct span name) {
    if (span_equal(c->last_queue, name))
        return;
    char *copy = mem_grow((void *)(uintptr_t)c->last_queue.p, name.n + 1);
    memcpy(copy, name.p, name.n);
    c->last_queue = span_of(copy, name.n);
}

/* -- equivalence: is a declaration the same as what is there? -------------------------------------- */

static bool is_inequivalent(struct channel *c, const struct place *q, const char *name,
                            const char *received, const char *current) {
    channel_fail(c, CODE_PRECONDITION_FAILED, DECLARE,
                 "inequivalent arg '%s' for queue '%.*s' in vhost '%.*s': received %s but current "
                 "is %s",
                 name, TEXT(q->plain), TEXT(session_vhost(c->session)), received, current);
    return true;
}

static const char *truth(bool v) {
    return v ? "'true'" : "'false'";
}

static void describe(const struct json *v, char *text, size_t n) {
    if (v == NULL)
        snprintf(text, n, "none");
    else if (json_is(v, JSON_STRING))
        snprintf(text, n, "the value '%.*s' of type 'longstr'",
                 TEXT(span_cut_utf8(json_string(v), 64)));
    else if (json_is(v, JSON_INTEGER))
        snprintf(text, n, "the value '%" PRId64 "' of type '%s'", json_integer(v),
                 json_integer(v) == (int32_t)json_integer(v) ? "signedint" : "long");
    else if (json_is(v, JSON_BOOL))
        snprintf(text, n, "the value %s of type 'bool'", truth(json_bool(v)));
    else
        snprintf(text, n, "something else");
}

/* False: the channel failed. */
static bool has_same_arguments(struct channel *c, const struct place *q,
                               const struct json *received, struct span received_text,
                               struct span current_text) {
    char name[64], texts[2][200];
    if (!arguments_difference(received_text, current_text, name))
        return true;
    struct json_error error;
    struct json *current = current_text.n > 0 ? json_parse(current_text, &error) : NULL;
    describe(json_get(received, name), texts[0], sizeof texts[0]);
    describe(json_get(current, name), texts[1], sizeof texts[1]);
    json_free(current);
    return !is_inequivalent(c, q, name, texts[0], texts[1]);
}

/* A queue that AMQP never declared has no arguments yet: the first declaration gives it some. */
static bool is_equivalent(struct channel *c, const struct place *q,
                          const struct queue_declare *want, const struct json *arguments,
                          const struct queue_amqp_view *is) {
    const struct amqp_queue *known = registry_find(c->session->amqp, q->scoped);
    struct session *owner = known != NULL ? known->owner : NULL;
    if (owner != (want->exclusive ? c->session : NULL)) {
        channel_fail(c, CODE_RESOURCE_LOCKED, DECLARE,
                     "cannot obtain exclusive access to locked queue '%.*s' in vhost '%.*s'. It "
                     "could be originally declared on another connection or the exclusive property "
                     "value does not match that of the original declaration.",
                     TEXT(q->plain), TEXT(session_vhost(c->session)));
        return false;
    }
    bool durable = is->is_declared ? is->durable : true;
    if (want->durable != durable)
        return !is_inequivalent(c, q, "durable", truth(want->durable), truth(durable));
    if (want->auto_delete != is->auto_delete)
        return !is_inequivalent(c, q, "auto_delete", truth(want->auto_delete),
                                truth(is->auto_delete));
    return !is->is_declared || has_same_arguments(c, q, arguments, want->arguments, is->arguments);
}

/* -- declare --------------------------------------------------------------------------------- */

static void fail_argument(struct channel *c, const struct place *q,
                          const struct settings_error *error) {
    channel_fail(c, CODE_PRECONDITION_FAILED, DECLARE,
                 "invalid arg '%s' for queue '%.*s' in vhost '%.*s': %s", error->name,
                 TEXT(q->plain), TEXT(session_vhost(c->session)), error->why);
}

/* What a quorum queue cannot be. */
static bool fits_type(struct channel *c, const struct place *q, const struct queue_declare *want) {
    if (want->type != QUEUE_QUORUM)
        return true;
    const char *property = NULL;
    if (want->exclusive)
        property = "exclusive-owner";
    else if (!want->durable)
        property = "non-durable";
    else if (want->auto_delete)
        property = "auto-delete";
    if (property == NULL)
        return true;
    channel_fail(c, CODE_PRECONDITION_FAILED, DECLARE,
                 "invalid property '%s' for queue '%.*s' in vhost '%.*s'", property, TEXT(q->plain),
                 TEXT(session_vhost(c->session)));
    return false;
}

/* Asked of who gives a queue its exchange, once. */
static bool may_dead_letter(struct channel *c, const struct place *q,
                            const struct queue_settings *s) {
    return !s->has_dlx || (access_queue(c, ACCESS_READ, q->plain, DECLARE) &&
                           access_exchange(c, ACCESS_WRITE, s->dlx, DECLARE));
}

/* False: the channel failed. Creates the queue when there is none. */
static bool declare_so(struct channel *c, const struct place *q, struct queue_declare *want,
                       const struct json *arguments) {
    struct amqp *a = c->session->amqp;
    struct engine *engine = a->server->engine;
    struct settings_error error;
    struct queue_amqp_view is;
    bool is_there = engine_queue_amqp(engine, q->scoped, &is) == OK;
    struct amqp_queue *known = registry_find(a, q->scoped);
    if (!is_there && known != NULL)
        registry_gone(known); /* deleted over another protocol */
    if (is_there && !is_equivalent(c, q, want, arguments, &is))
        return false;
    if (!is_there || !is.is_declared) {
        if (!queue_settings_read(arguments, true, &want->settings, &want->type, &error)) {
            fail_argument(c, q, &error);
            return false;
        }
        if (!fits_type(c, q, want) || !may_dead_letter(c, q, &want->settings))
            return false;
        bool created;
        enum err e = engine_queue_declare(engine, server_now(a->server), want, &created);
        if (e != OK) {
            channel_fail_err(c, DECLARE, e);
            return false;
        }
        if (created && want->exclusive)
            registry_own(registry_need(a, q->scoped), c->session);
    }
    if (engine_queue_amqp(engine, q->scoped, &is) == OK)
        registry_touch(a, q->scoped, is.effective.expires_ms);
    return true;
}

/* The arguments as a JSON object; NULL: the channel failed. */
static struct json *read_arguments(struct channel *c, const struct place *q,
                                   const amqp_table_t *table) {
    struct amqp *a = c->session->amqp;
    buf_clear(&a->json);
    table_to_json(table, NULL, &a->json);
    struct json_error error;
    struct json *arguments =
        a->json.n <= LIMIT_HEADERS ? json_parse(buf_span(&a->json), &error) : NULL;
    if (arguments == NULL)
        channel_fail(c, CODE_PRECONDITION_FAILED, DECLARE,
                     "invalid arguments for queue '%.*s' in vhost '%.*s': too large",
                     TEXT(q->plain), TEXT(session_vhost(c->session)));
    return arguments;
}

static bool declare_active(struct channel *c, const amqp_queue_declare_t *m,
                           const struct place *q) {
    struct amqp *a = c->session->amqp;
    if (!access_queue(c, ACCESS_CONFIGURE, q->plain, DECLARE))
        return false;
    struct json *arguments = read_arguments(c, q, &m->arguments);
    if (arguments == NULL)
        return false;
    struct queue_declare want = {
        .name = q->scoped,
        .durable = m->durable && !m->exclusive,
        .exclusive = m->exclusive,
        .auto_delete = m->auto_delete,
        .arguments = m->arguments.num_entries > 0 ? buf_span(&a->json) : (struct span){0},
    };
    bool ok = declare_so(c, q, &want, arguments);
    json_free(arguments);
    return ok;
}

/* The name that the client gives to a new queue, or one of ours. False: the channel failed. */
static bool name_new(struct channel *c, amqp_bytes_t given, struct place *ret) {
    struct amqp *a = c->session->amqp;
    struct span name = name_strip(a, given);
    if (name.n >= 4 && memcmp(name.p, "amq.", 4) == 0) {
        channel_fail(c, CODE_ACCESS_REFUSED, DECLARE,
                     "queue name '%.*s' contains reserved prefix 'amq.*'", TEXT(name));
        return false;
    }
    if (name.n == 0) {
        name_make("amq.gen-", &a->scratch);
        name = buf_span(&a->scratch);
    }
    return name_read(c, method_bytes(name), DECLARE, &a->name, ret);
}

/* Whether answers can be asked for at all, and whether somebody still waits for them at an address:
 * that is asked by declaring the name of either. */
static void declare_address(struct channel *c, const amqp_queue_declare_t *m) {
    struct span name = method_span(m->queue);
    if (!span_equal_str(name, REPLY_QUEUE) && !reply_is_there(c->session->amqp, name)) {
        channel_fail(c, CODE_NOT_FOUND, DECLARE, "no queue '%.*s' in vhost '%.*s'",
                     TEXT(method_span(m->queue)), TEXT(session_vhost(c->session)));
        return;
    }
    amqp_queue_declare_ok_t ok = {.queue = m->queue, .consumer_count = 1};
    if (!m->nowait)
        channel_send(c, true, AMQP_QUEUE_DECLARE_OK_METHOD, &ok);
}

static void declare(struct channel *c, const amqp_queue_declare_t *m) {
    struct amqp *a = c->session->amqp;
    struct place q;
    struct queue_amqp_view view;
    struct span given = method_span(m->queue);
    if (span_equal_str(given, REPLY_QUEUE) || reply_is_address(given)) {
        declare_address(c, m);
        return;
    }
    if (m->passive) {
        if (!name_find_queue(c, m->queue, ACCESS_ANY, DECLARE, &a->name, &q, &view))
            return;
        registry_touch(a, q.scoped, view.effective.expires_ms);
    } else {
        if (!name_new(c, m->queue, &q) || !declare_active(c, m, &q))
            return;
    }
    remember(c, q.plain);
    amqp_queue_declare_ok_t ok = {
        .queue = method_bytes(q.plain),
        .message_count = counted(ready_in(a, q.scoped)),
        .consumer_count = consumers_of(a, q.scoped),
    };
    if (!m->nowait)
        channel_send(c, true, AMQP_QUEUE_DECLARE_OK_METHOD, &ok);
}

/* -- bind and unbind ------------------------------------------------------------------------- */

/* False: the channel failed. */
static bool read_exchange(struct channel *c, amqp_bytes_t given, uint32_t method,
                          struct place *ret) {
    if (!name_read(c, given, method, &c->session->amqp->scratch, ret))
        return false;
    if (ret->plain.n > 0)
        return access_exchange(c, ACCESS_READ, ret->plain, method);
    channel_fail(c, CODE_ACCESS_REFUSED, method, "operation not permitted on the default exchange");
    return false;
}

static struct span arguments_text(struct amqp *a, const amqp_table_t *arguments) {
    buf_clear(&a->json);
    if (arguments->num_entries > 0)
        table_to_json(arguments, NULL, &a->json);
    return buf_span(&a->json);
}

/* The queue that was declared last, not named, stands for an empty key, too. */
static struct binding_new binding_of(struct amqp *a, const struct place *q, const struct place *x,
                                     bool is_last_queue, amqp_bytes_t routing_key,
                                     const amqp_table_t *arguments) {
    struct span key = method_span(routing_key);
    return (struct binding_new){
        .source = x->scoped,
        .destination = q->scoped,
        .key = key.n == 0 && is_last_queue ? q->plain : key,
        .arguments = arguments_text(a, arguments),
    };
}

static void bind(struct channel *c, const amqp_queue_bind_t *m) {
    struct amqp *a = c->session->amqp;
    struct engine *engine = a->server->engine;
    const uint32_t method = AMQP_QUEUE_BIND_METHOD;
    struct place q, x;
    struct queue_amqp_view view;
    struct exchange_view exchange;
    if (!name_find_queue(c, m->queue, ACCESS_WRITE, method, &a->name, &q, &view) ||
        !read_exchange(c, m->exchange, method, &x))
        return;
    if (engine_exchange(engine, x.scoped, &exchange) != OK) {
        channel_fail(c, CODE_NOT_FOUND, method, "no exchange '%.*s' in vhost '%.*s'", TEXT(x.plain),
                     TEXT(session_vhost(c->session)));
        return;
    }
    if (!binding_is_valid(c, x.scoped, &m->arguments, method))
        return;
    const struct binding_new b =
        binding_of(a, &q, &x, name_strip(a, m->queue).n == 0, m->routing_key, &m->arguments);
    enum err e = b.arguments.n > LIMIT_HEADERS ? ERR_TOO_LARGE
                                               : engine_bind(engine, server_now(a->server), &b);
    if (e != OK) {
        channel_fail_err(c, method, e);
        return;
    }
    amqp_queue_bind_ok_t ok = {0};
    if (!m->nowait)
        channel_send(c, true, AMQP_QUEUE_BIND_OK_METHOD, &ok);
}

static void unbind(struct channel *c, const amqp_queue_unbind_t *m) {
    struct amqp *a = c->session->amqp;
    const uint32_t method = AMQP_QUEUE_UNBIND_METHOD;
    struct place q, x;
    if (!name_read_queue(c, m->queue, method, &a->name, &q) ||
        !access_queue(c, ACCESS_WRITE, q.plain, method) || !name_may_use(c, &q, method) ||
        !read_exchange(c, m->exchange, method, &x))
        return;
    const struct binding_new b =
        binding_of(a, &q, &x, name_strip(a, m->queue).n == 0, m->routing_key, &m->arguments);
    enum err e = engine_unbind(a->server->engine, server_now(a->server), &b);
    if (e != OK && e != ERR_NO_EXCHANGE && e != ERR_NO_QUEUE) {
        channel_fail_err(c, method, e);
        return;
    }
    amqp_queue_unbind_ok_t ok = {0};
    channel_send(c, true, AMQP_QUEUE_UNBIND_OK_METHOD, &ok);
}

/* -- purge and delete ------------------------------------------------------------------------ */

static void purge(struct channel *c, const amqp_queue_purge_t *m) {
    struct amqp *a = c->session->amqp;
    struct place q;
    struct queue_amqp_view view;
    if (!name_find_queue(c, m->queue, ACCESS_READ, AMQP_QUEUE_PURGE_METHOD, &a->name, &q, &view))
        return;
    uint64_t n = 0;
    enum err e = engine_queue_purge(a->server->engine, server_now(a->server), q.scoped, &n);
    if (e != OK) {
        channel_fail_err(c, AMQP_QUEUE_PURGE_METHOD, e);
        return;
    }
    amqp_queue_purge_ok_t ok = {.message_count = counted(n)};
    if (!m->nowait)
        channel_send(c, true, AMQP_QUEUE_PURGE_OK_METHOD, &ok);
}

static bool may_delete(struct channel *c, const struct place *q, const amqp_queue_delete_t *m,
                       uint64_t ready) {
    const char *why = NULL;
    if (m->if_unused && consumers_of(c->session->amqp, q->scoped) > 0)
        why = "in use";
    else if (m->if_empty && ready > 0)
        why = "not empty";
    if (why == NULL)
        return true;
    channel_fail(c, CODE_PRECONDITION_FAILED, AMQP_QUEUE_DELETE_METHOD,
                 "queue '%.*s' in vhost '%.*s' %s", TEXT(q->plain), TEXT(session_vhost(c->session)),
                 why);
    return false;
}

static void delete_queue(struct channel *c, const amqp_queue_delete_t *m) {
    struct amqp *a = c->session->amqp;
    const uint32_t method = AMQP_QUEUE_DELETE_METHOD;
    struct place q;
    if (!name_read_queue(c, m->queue, method, &a->name, &q) ||
        !access_queue(c, ACCESS_CONFIGURE, q.plain, method) || !name_may_use(c, &q, method))
        return;
    uint64_t ready = ready_in(a, q.scoped);
    if (!may_delete(c, &q, m, ready))
        return;
    enum err e = registry_delete(a, q.scoped, span_str(c->session->user), "queue.delete over AMQP");
    if (e != OK && e != ERR_NO_QUEUE) {
        channel_fail_err(c, method, e);
        return;
    }
    amqp_queue_delete_ok_t ok = {.message_count = counted(ready)};
    if (!m->nowait)
        channel_send(c, true, AMQP_QUEUE_DELETE_OK_METHOD, &ok);
}

void queue_method(struct channel *c, const struct method *m) {
    switch (m->id) {
    case AMQP_QUEUE_DECLARE_METHOD:
        declare(c, m->decoded);
        break;
    case AMQP_QUEUE_BIND_METHOD:
        bind(c, m->decoded);
        break;
    case AMQP_QUEUE_UNBIND_METHOD:
        unbind(c, m->decoded);
        break;
    case AMQP_QUEUE_PURGE_METHOD:
        purge(c, m->decoded);
        break;
    case AMQP_QUEUE_DELETE_METHOD:
        delete_queue(c, m->decoded);
        break;
    default:
        channel_unexpected(c, m);
    }
}
