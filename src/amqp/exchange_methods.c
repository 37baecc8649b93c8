/* exchange.declare, delete, bind, unbind. */
#include "amqp/front.h"

#include <stdio.h>
#include <string.h>

static bool is_default(struct channel *c, const struct place *x, uint32_t method) {
    if (x->plain.n > 0)
        return false;
    channel_fail(c, CODE_ACCESS_REFUSED, method, "operation not permitted on the default exchange");
    return true;
}

static bool is_reserved(struct span name) {
    return name.n >= 4 && memcmp(name.p, "amq.", 4) == 0;
}

static void fail_missing(struct channel *c, const struct place *x, uint32_t method) {
    channel_fail(c, CODE_NOT_FOUND, method, "no exchange '%.*s' in vhost '%.*s'", TEXT(x->plain),
                 TEXT(session_vhost(c->session)));
}

static void reply(struct channel *c, bool nowait, uint32_t id) {
    amqp_exchange_declare_ok_t ok = {0}; /* all of this class are empty */
    if (!nowait)
        channel_send(c, true, id, &ok);
}

/* -- declare --------------------------------------------------------------------------------- */

static bool is_inequivalent(struct channel *c, const struct place *x, const char *name,
                            struct span received, struct span current) {
    if (span_equal(received, current))
        return false;
    channel_fail(c, CODE_PRECONDITION_FAILED, AMQP_EXCHANGE_DECLARE_METHOD,
                 "inequivalent arg '%s' for exchange '%.*s' in vhost '%.*s': received '%.*s' but "
                 "current is '%.*s'",
                 name, TEXT(x->plain), TEXT(session_vhost(c->session)), TEXT(received),
                 TEXT(current));
    return true;
}

static struct span truth(bool v) {
    return span_str(v ? "true" : "false");
}

static bool is_same_alternate(struct channel *c, const struct place *x,
                              const struct exchange_new *want, const struct exchange_view *is) {
    if (want->has_alternate == is->has_alternate &&
        (!want->has_alternate || span_equal(want->alternate, is->alternate)))
        return true;
    char texts[2][300] = {"none", "none"};
    if (want->has_alternate)
        snprintf(texts[0], sizeof texts[0], "the value '%.*s' of type 'longstr'",
                 TEXT(want->alternate));
    if (is->has_alternate)
        snprintf(texts[1], sizeof texts[1], "the value '%.*s' of type 'longstr'",
                 TEXT(is->alternate));
    channel_fail(c, CODE_PRECONDITION_FAILED, AMQP_EXCHANGE_DECLARE_METHOD,
                 "inequivalent arg 'alternate-exchange' for exchange '%.*s' in vhost '%.*s': "
                 "received %s but current is %s",
                 TEXT(x->plain), TEXT(session_vhost(c->session)), texts[0], texts[1]);
    return false;
}

static bool is_equivalent(struct channel *c, const struct place *x, const struct exchange_new *want,
                          const struct exchange_view *is) {
    return !is_inequivalent(c, x, "type", span_str(exchange_type_name(want->type)),
                            span_str(exchange_type_name(is->type))) &&
           !is_inequivalent(c, x, "durable", truth(want->durable), truth(is->durable)) &&
           !is_inequivalent(c, x, "auto_delete", truth(want->auto_delete),
                            truth(is->auto_delete)) &&
           !is_inequivalent(c, x, "internal", truth(want->internal), truth(is->internal)) &&
           is_same_alternate(c, x, want, is);
}

static const amqp_field_value_t *find_argument(const amqp_table_t *t, const char *name) {
    for (int i = 0; i < t->num_entries; i++) {
        if (span_equal_str(method_span(t->entries[i].key), name))
            return &t->entries[i].value;
    }
    return NULL;
}

/* False: the channel failed. */
static bool read_alternate(struct channel *c, const struct place *x, const amqp_table_t *arguments,
                           struct exchange_new *want) {
    const amqp_field_value_t *v = find_argument(arguments, "alternate-exchange");
    if (v == NULL)
        return true;
    struct span name = {0};
    if (v->kind == AMQP_FIELD_KIND_UTF8)
        name = method_span(v->value.bytes);
    if (v->kind != AMQP_FIELD_KIND_UTF8 || name.n > LIMIT_QUEUE_NAME || !span_is_utf8(name)) {
        channel_fail(
            c, CODE_PRECONDITION_FAILED, AMQP_EXCHANGE_DECLARE_METHOD,
            "invalid arg 'alternate-exchange' for exchange '%.*s' in vhost '%.*s': it must "
            "be the name of an exchange",
            TEXT(x->plain), TEXT(session_vhost(c->session)));
        return false;
    }
    want->alternate = name;
    want->has_alternate = true;
    return true;
}

static void declare_new(struct channel *c, const struct place *x, struct exchange_new *want,
                        const amqp_table_t *arguments) {
    struct amqp *a = c->session->amqp;
    if (is_reserved(x->plain)) {
        channel_fail(c, CODE_ACCESS_REFUSED, AMQP_EXCHANGE_DECLARE_METHOD,
                     "exchange name '%.*s' contains reserved prefix 'amq.*'", TEXT(x->plain));
        return;
    }
    if (want->has_alternate &&
        (!access_exchange(c, ACCESS_READ, x->plain, AMQP_EXCHANGE_DECLARE_METHOD) ||
         !access_exchange(c, ACCESS_WRITE, want->alternate, AMQP_EXCHANGE_DECLARE_METHOD)))
        return;
    buf_clear(&a->json);
    if (arguments->num_entries > 0)
        table_to_json(arguments, NULL, &a->json);
    want->arguments = buf_span(&a->json);
    enum err e = want->arguments.n > LIMIT_HEADERS
                     ? ERR_TOO_LARGE
                     : engine_exchange_declare(a->server->engine, server_now(a->server), want);
    if (e != OK)
        channel_fail_err(c, AMQP_EXCHANGE_DECLARE_METHOD, e);
}

static void declare(struct channel *c, const amqp_exchange_declare_t *m) {
    struct amqp *a = c->session->amqp;
    const uint32_t method = AMQP_EXCHANGE_DECLARE_METHOD;
    struct place x;
    struct exchange_view is;
    if (!name_read(c, m->exchange, method, &a->name, &x) || is_default(c, &x, method) ||
        !access_exchange(c, m->passive ? ACCESS_ANY : ACCESS_CONFIGURE, x.plain, method))
        return;
    bool is_there = engine_exchange(a->server->engine, x.scoped, &is) == OK;
    if (m->passive) {
        if (!is_there)
            fail_missing(c, &x, method);
    } else {
        int type = exchange_type_parse(method_span(m->type));
        if (type < 0) {
            channel_fail(c, CODE_PRECONDITION_FAILED, method, "unknown exchange type '%.*s'",
                         TEXT(method_span(m->type)));
            return;
        }
        struct exchange_new want = {
            .name = x.scoped,
            .type = (enum exchange_type)type,
            .durable = m->durable,
            .auto_delete = m->auto_delete,
            .internal = m->internal,
        };
        if (!read_alternate(c, &x, &m->arguments, &want))
            return;
        if (is_there)
            (void)is_equivalent(c, &x, &want, &is);
        else
            declare_new(c, &x, &want, &m->arguments);
    }
    if (c->session->phase == OPEN && !c->is_closing)
        reply(c, m->nowait, AMQP_EXCHANGE_DECLARE_OK_METHOD);
}

/* -- delete ---------------------------------------------------------------------------------- */

static void delete_exchange(struct channel *c, const amqp_exchange_delete_t *m) {
    struct amqp *a = c->session->amqp;
    const uint32_t method = AMQP_EXCHANGE_DELETE_METHOD;
    struct place x;
    if (!name_read(c, m->exchange, method, &a->name, &x) || is_default(c, &x, method))
        return;
    if (is_reserved(x.plain)) {
        channel_fail(c, CODE_ACCESS_REFUSED, method,
                     "deletion of system exchange '%.*s' in vhost '%.*s' not allowed",
                     TEXT(x.plain), TEXT(session_vhost(c->session)));
        return;
    }
    if (!access_exchange(c, ACCESS_CONFIGURE, x.plain, method))
        return;
    enum err e =
        engine_exchange_delete(a->server->engine, server_now(a->server), x.scoped, m->if_unused);
    if (e == ERR_IN_USE)
        channel_fail(c, CODE_PRECONDITION_FAILED, method, "exchange '%.*s' in vhost '%.*s' in use",
                     TEXT(x.plain), TEXT(session_vhost(c->session)));
    else if (e != OK && e != ERR_NO_EXCHANGE)
        channel_fail_err(c, method, e);
    else
        reply(c, m->nowait, AMQP_EXCHANGE_DELETE_OK_METHOD);
}

/* -- bind and unbind ------------------------------------------------------------------------- */

struct ends {
    struct place source, destination;
};

static bool read_ends(struct channel *c, amqp_bytes_t source, amqp_bytes_t destination,
                      uint32_t method, struct ends *ret) {
    struct amqp *a = c->session->amqp;
    return name_read(c, destination, method, &a->name, &ret->destination) &&
           !is_default(c, &ret->destination, method) &&
           access_exchange(c, ACCESS_WRITE, ret->destination.plain, method) &&
           name_read(c, source, method, &a->scratch, &ret->source) &&
           !is_default(c, &ret->source, method) &&
           access_exchange(c, ACCESS_READ, ret->source.plain, method);
}

static struct span arguments_text(struct amqp *a, const amqp_table_t *arguments) {
    buf_clear(&a->json);
    if (arguments->num_entries > 0)
        table_to_json(arguments, NULL, &a->json);
    return buf_span(&a->json);
}

/* What a headers exchange matches by. False: the channel failed. */
bool binding_is_valid(struct channel *c, struct span source, const amqp_table_t *arguments,
                      uint32_t method) {
    struct exchange_view x;
    const amqp_field_value_t *match = find_argument(arguments, "x-match");
    if (match == NULL || engine_exchange(c->session->amqp->server->engine, source, &x) != OK ||
        x.type != EXCHANGE_HEADERS)
        return true;
    if (match->kind != AMQP_FIELD_KIND_UTF8) {
        channel_fail(c, CODE_PRECONDITION_FAILED, method,
                     "Invalid x-match field type; expected longstr");
        return false;
    }
    static const char *const ways[] = {"all", "any", "all-with-x", "any-with-x"};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        if (span_equal_str(method_span(match->value.bytes), ways[i]))
            return true;
    }
    channel_fail(
        c, CODE_PRECONDITION_FAILED, method,
        "Invalid x-match field value \"%.*s\"; expected all, any, all-with-x, or any-with-x",
        TEXT(span_cut_utf8(method_span(match->value.bytes), 64)));
    return false;
}

static void bind(struct channel *c, const amqp_exchange_bind_t *m) {
    struct amqp *a = c->session->amqp;
    struct engine *e = a->server->engine;
    const uint32_t method = AMQP_EXCHANGE_BIND_METHOD;
    struct ends ends;
    struct exchange_view x;
    if (!read_ends(c, m->source, m->destination, method, &ends))
        return;
    if (engine_exchange(e, ends.source.scoped, &x) != OK) {
        fail_missing(c, &ends.source, method);
        return;
    }
    if (engine_exchange(e, ends.destination.scoped, &x) != OK) {
        fail_missing(c, &ends.destination, method);
        return;
    }
    if (!binding_is_valid(c, ends.source.scoped, &m->arguments, method))
        return;
    const struct binding_new b = {
        .source = ends.source.scoped,
        .destination = ends.destination.scoped,
        .to_exchange = true,
        .key = method_span(m->routing_key),
        .arguments = arguments_text(a, &m->arguments),
    };
    enum err r =
        b.arguments.n > LIMIT_HEADERS ? ERR_TOO_LARGE : engine_bind(e, server_now(a->server), &b);
    if (r != OK)
        channel_fail_err(c, method, r);
    else
        reply(c, m->nowait, AMQP_EXCHANGE_BIND_OK_METHOD);
}

static void unbind(struct channel *c, const amqp_exchange_unbind_t *m) {
    struct amqp *a = c->session->amqp;
    struct ends ends;
    if (!read_ends(c, m->source, m->destination, AMQP_EXCHANGE_UNBIND_METHOD, &ends))
        return;
    const struct binding_new b = {
        .source = ends.source.scoped,
        .destination = ends.destination.scoped,
        .to_exchange = true,
        .key = method_span(m->routing_key),
        .arguments = arguments_text(a, &m->arguments),
    };
    enum err r = engine_unbind(a->server->engine, server_now(a->server), &b);
    if (r != OK && r != ERR_NO_EXCHANGE && r != ERR_NO_QUEUE)
        channel_fail_err(c, AMQP_EXCHANGE_UNBIND_METHOD, r);
    else
        reply(c, m->nowait, AMQP_EXCHANGE_UNBIND_OK_METHOD);
}

void exchange_method(struct channel *c, const struct method *m) {
    switch (m->id) {
    case AMQP_EXCHANGE_DECLARE_METHOD:
        declare(c, m->decoded);
        break;
    case AMQP_EXCHANGE_DELETE_METHOD:
        delete_exchange(c, m->decoded);
        break;
    case AMQP_EXCHANGE_BIND_METHOD:
        bind(c, m->decoded);
        break;
    case AMQP_EXCHANGE_UNBIND_METHOD:
        unbind(c, m->decoded);
        break;
    default:
        channel_unexpected(c, m);
    }
}
