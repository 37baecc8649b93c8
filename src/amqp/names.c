/* Names as clients give them: cleaned, resolved within the vhost, looked up. */
#include "amqp/front.h"

#include "base/logging.h"
#include "model/scope.h"

#include <assert.h>
#include <string.h>
#include <sys/random.h>

struct span name_strip(struct amqp *a, amqp_bytes_t given) {
    struct span text = method_span(given);
    if (text.n == 0 ||
        (memchr(text.p, '\r', text.n) == NULL && memchr(text.p, '\n', text.n) == NULL))
        return text;
    uint8_t *stripped = method_pool_alloc(a->pool, text.n);
    size_t n = 0;
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] != '\r' && text.p[i] != '\n')
            stripped[n++] = text.p[i];
    }
    return span_of(stripped, n);
}

bool name_read(struct channel *c, amqp_bytes_t given, uint32_t method, struct buf *into,
               struct place *ret) {
    struct span plain = name_strip(c->session->amqp, given);
    if (!scope_name(session_vhost(c->session), plain, into)) {
        channel_fail(c, CODE_PRECONDITION_FAILED, method,
                     "the name '%.*s' is too long, begins with '//', or holds a NUL",
                     TEXT(span_cut_utf8(plain, 64)));
        return false;
    }
    ret->plain = plain;
    ret->scoped = buf_span(into);
    return true;
}

bool name_read_queue(struct channel *c, amqp_bytes_t given, uint32_t method, struct buf *into,
                     struct place *ret) {
    if (name_strip(c->session->amqp, given).n > 0)
        return name_read(c, given, method, into, ret);
    if (c->last_queue.n == 0) {
        channel_fail(c, CODE_NOT_FOUND, method, "no previously declared queue");
        return false;
    }
    return name_read(c, method_bytes(c->last_queue), method, into, ret);
}

bool name_may_use(struct channel *c, const struct place *queue, uint32_t method) {
    const struct amqp_queue *q = registry_find(c->session->amqp, queue->scoped);
    if (q == NULL || q->owner == NULL || q->owner == c->session)
        return true;
    channel_fail(c, CODE_RESOURCE_LOCKED, method,
                 "cannot obtain exclusive access to locked queue '%.*s' in vhost '%.*s'. It could "
                 "be originally declared on another connection or the exclusive property value "
                 "does not match that of the original declaration.",
                 TEXT(queue->plain), TEXT(session_vhost(c->session)));
    return false;
}

bool name_find_queue(struct channel *c, amqp_bytes_t given, enum access access, uint32_t method,
                     struct buf *into, struct place *ret, struct queue_amqp_view *ret_view) {
    struct amqp *a = c->session->amqp;
    if (!name_read_queue(c, given, method, into, ret) ||
        !access_queue(c, access, ret->plain, method))
        return false;
    if (engine_queue_amqp(a->server->engine, ret->scoped, ret_view) == OK)
        return name_may_use(c, ret, method);
    struct amqp_queue *q = registry_find(a, ret->scoped);
    if (q != NULL)
        registry_gone(q); /* deleted over another protocol */
    channel_fail(c, CODE_NOT_FOUND, method, "no queue '%.*s' in vhost '%.*s'", TEXT(ret->plain),
                 TEXT(session_vhost(c->session)));
    return false;
}

void name_make(const char *prefix, struct buf *out) {
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    uint8_t random[22];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        log_fatal("the system gives no random bytes");
    buf_clear(out);
    buf_add_str(out, prefix);
    for (size_t i = 0; i < sizeof random; i++)
        buf_add_byte(out, (uint8_t)letters[random[i] & 63]);
}
