/* The front end of one server: what is done once a turn, and at its end. */
#include "amqp/front.h"

#include "base/mem.h"

#include <assert.h>
#include <stdlib.h>

enum {
    KEEP_BYTES = 256 * 1024,        /* a buffer that grew larger is freed after the turn */
    JSON_MOST = 64 * 1024 * 1024,   /* of a table of the largest frame, all of it escaped */
    PACKED_MOST = 16 * 1024 * 1024, /* of an envelope, or a property list */
};

struct amqp *amqp_new(struct server *s, const struct amqp_config *config) {
    struct amqp *a = mem_alloc(sizeof *a);
    a->server = s;
    a->config = *config;
    a->pool = method_pool_new();
    buf_init(&a->scratch, PACKED_MOST);
    buf_init(&a->name, PACKED_MOST);
    buf_init(&a->json, JSON_MOST);
    buf_init(&a->packed, PACKED_MOST);
    buf_init(&a->headers, PACKED_MOST);
    buf_init(&a->sink, CONN_OUT_MAX);
    access_init(a);
    heartbeat_init(a);
    amqp_work_init(a);
    return a;
}

void amqp_free(struct amqp *a) {
    if (a == NULL)
        return;
    assert(a->sessions == NULL);
    amqp_work_release(a);
    heartbeat_release(a);
    access_release(a);
    method_pool_free(a->pool);
    buf_release(&a->scratch);
    buf_release(&a->name);
    buf_release(&a->json);
    buf_release(&a->packed);
    buf_release(&a->headers);
    buf_release(&a->sink);
    free(a);
}

static void trim(struct buf *b) {
    if (b->cap > KEEP_BYTES)
        buf_release(b);
}

int64_t amqp_turn(struct amqp *a, int64_t now) {
    session_end_failed(a);
    if (amqp_work(a))
        loop_again(a->server->loop);
    int64_t next = registry_expire(a, now);
    if (next <= now)
        loop_again(a->server->loop);
    while (a->dirty != NULL)
        session_flush(a->dirty);
    if (a->failed != NULL)
        loop_again(a->server->loop);
    trim(&a->json);
    trim(&a->packed);
    trim(&a->headers);
    trim(&a->scratch);
    trim(&a->sink);
    return next;
}

bool amqp_is_busy(const struct amqp *a) {
    return a->scheduled_first != NULL && !a->is_draining && !a->is_stuck;
}

bool amqp_take_streamed(struct amqp *a) {
    bool is_so = a->is_streamed;
    a->is_streamed = false;
    return is_so;
}

void amqp_drain(struct amqp *a) {
    a->is_draining = true;
    /* None is freed here: they close when their last words were sent. */
    for (struct session *s = a->sessions; s != NULL; s = s->next)
        session_drain(s);
}

unsigned amqp_inflight(const struct amqp *a) {
    unsigned n = 0;
    for (const struct session *s = a->sessions; s != NULL; s = s->next)
        n += s->held.n > 0;
    return n;
}
