/* Permissions: what a user may do in a vhost, by expressions on the names of queues and exchanges, as
 * RabbitMQ has them. They are few, and fixed while the server runs. */
#include "amqp/front.h"

#include "base/mem.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { PERMISSIONS = 3 }; /* bits of enum access, in their order */

struct grant {
    const struct amqp_permission *of;
    struct expression *expressions[PERMISSIONS];
};

static struct expression *compile(struct span text) {
    struct expression_error error;
    struct expression *e = expression_new(text.n > 0 ? text : span_str("^$"), &error);
    assert(e != NULL); /* as amqp_permission says */
    return e;
}

void access_init(struct amqp *a) {
    a->grant_count = a->config.permission_count;
    a->grants = mem_alloc((a->grant_count + 1) * sizeof *a->grants);
    for (unsigned i = 0; i < a->grant_count; i++) {
        const struct amqp_permission *p = &a->config.permissions[i];
        a->grants[i] = (struct grant){
            .of = p, .expressions = {compile(p->configure), compile(p->write), compile(p->read)}};
    }
}

void access_release(struct amqp *a) {
    for (unsigned i = 0; i < a->grant_count; i++) {
        for (unsigned k = 0; k < PERMISSIONS; k++)
            expression_free(a->grants[i].expressions[k]);
    }
    free(a->grants);
    expression_memory_release(&a->expressions);
}

bool access_open(struct session *s, struct span vhost) {
    bool has_any = false;
    for (unsigned i = 0; i < s->amqp->grant_count; i++) {
        const struct grant *g = &s->amqp->grants[i];
        if (!span_equal_str(g->of->user, s->user))
            continue;
        has_any = true;
        if (span_equal(g->of->vhost, vhost))
            s->grant = g;
    }
    return !has_any || s->grant != NULL;
}

static bool is_granted(struct session *s, enum access access, struct span name) {
    for (unsigned k = 0; k < PERMISSIONS; k++) {
        if (access & 1U << k &&
            expression_matches(s->grant->expressions[k], name, &s->amqp->expressions))
            return true;
    }
    return false;
}

static bool check(struct channel *c, enum access access, const char *kind, struct span name,
                  uint32_t method) {
    struct session *s = c->session;
    if (s->grant == NULL || is_granted(s, access, name))
        return true;
    const char *what = access == ACCESS_CONFIGURE ? "configure "
                       : access == ACCESS_WRITE   ? "write "
                       : access == ACCESS_READ    ? "read "
                                                  : "";
    channel_fail(c, CODE_ACCESS_REFUSED, method,
                 "%saccess to %s '%.*s' in vhost '%.*s' refused for user '%s'", what, kind,
                 TEXT(name), TEXT(session_vhost(s)), s->user);
    return false;
}

bool access_queue(struct channel *c, enum access access, struct span name, uint32_t method) {
    return check(c, access, "queue", name, method);
}

bool access_exchange(struct channel *c, enum access access, struct span name, uint32_t method) {
    return check(c, access, "exchange", name.n > 0 ? name : span_str("amq.default"), method);
}

/* A channel publishes to the same exchange again and again. */
bool access_publish(struct channel *c, struct span exchange) {
    if (c->session->grant == NULL || (c->has_written && span_equal(c->written, exchange)))
        return true;
    if (!access_exchange(c, ACCESS_WRITE, exchange, AMQP_BASIC_PUBLISH_METHOD))
        return false;
    uint8_t *copy = mem_grow((void *)(uintptr_t)c->written.p, exchange.n + 1);
    if (exchange.n > 0)
        memcpy(copy, exchange.p, exchange.n);
    c->written = span_of(copy, exchange.n);
    c->has_written = true;
    return true;
}
