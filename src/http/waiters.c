#include "http/waiters.h"

#include "http/claims.h"
#include "http/connection.h"

#include "base/mem.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct waiter {
    struct loop_timer timer; /* first: see on_timer */
    struct later later;
    struct connection *connection;
    struct http *http;
    struct waiting_queue *at;
    struct waiter *previous, *next; /* of the same queue, oldest first */
    enum claim_shape shape;
    struct claim claim; /* its texts are those below */
    uint8_t worker[LIMIT_WORKER], worker_version[LIMIT_WORKER];
    uint8_t name[LIMIT_QUEUE_NAME];
    size_t name_bytes;
    struct buf results;
};

/* A queue with waiters; each of them holds one watch of the engine on it. */
struct waiting_queue {
    struct queue *queue;
    struct waiting_queue *next; /* of the same bucket */
    struct waiter *first, *last;
};

static struct span name_of(const struct waiter *w) {
    return span_of(w->name, w->name_bytes);
}

/* -- by queue -------------------------------------------------------------------------------- */

/* Where the pointer to the queue's entry is, or would be. */
static struct waiting_queue **find(struct waiters *all, const struct queue *q) {
    size_t bucket = ((uintptr_t)q >> 5) * UINT64_C(0x9e3779b97f4a7c15) >> 54;
    struct waiting_queue **at = &all->buckets[bucket % WAITERS_BUCKETS];
    while (*at != NULL && (*at)->queue != q)
        at = &(*at)->next;
    return at;
}

static void link_to(struct waiters *all, struct waiter *w, struct queue *q) {
    struct waiting_queue **at = find(all, q);
    if (*at == NULL) {
        *at = mem_alloc(sizeof **at);
        (*at)->queue = q;
    }
    w->at = *at;
    w->previous = w->at->last;
    if (w->previous != NULL)
        w->previous->next = w;
    else
        w->at->first = w;
    w->at->last = w;
}

static void unlink_from(struct waiters *all, struct waiter *w) {
    if (w->previous != NULL)
        w->previous->next = w->next;
    else
        w->at->first = w->next;
    if (w->next != NULL)
        w->next->previous = w->previous;
    else
        w->at->last = w->previous;
    if (w->at->first == NULL) {
        struct waiting_queue **at = find(all, w->at->queue);
        *at = w->at->next;
        free(w->at);
    }
}

/* -- life ------------------------------------------------------------------------------------ */

static struct waiter *waiter_of(struct later *l) {
    return (struct waiter *)(void *)((char *)l - offsetof(struct waiter, later));
}

static void on_closed(struct later *l) {
    waiter_free(waiter_of(l));
}

static void on_drain(struct later *l) {
    waiter_dismiss(waiter_of(l));
}

static void on_timer(struct loop_timer *t) {
    waiter_dismiss((struct waiter *)t);
}

static struct span copy(uint8_t *to, struct span from) {
    if (from.n > 0)
        memcpy(to, from.p, from.n);
    return span_of(to, from.n);
}

enum err waiter_add(struct call *c, const struct claim_body *claim, enum claim_shape shape,
                    struct span results) {
    struct queue *q;
    enum err e = engine_watch(call_engine(c), c->now, c->queue, &q);
    if (e != OK)
        return e;

    struct waiter *w = mem_alloc(sizeof *w);
    w->connection = c->connection;
    w->http = c->http;
    w->shape = shape;
    w->claim = claim->claim;
    w->claim.worker = copy(w->worker, claim->claim.worker);
    w->claim.worker_version = copy(w->worker_version, claim->claim.worker_version);
    w->name_bytes = copy(w->name, c->queue).n;
    buf_init(&w->results, results.n);
    buf_add_span(&w->results, results);
    link_to(&c->http->waiters, w, q);

    loop_timer_init(c->server->loop, &w->timer, on_timer);
    loop_timer_start(&w->timer, claim->wait_ms);
    /* A client that is gone must be given nothing. */
    w->later = (struct later){.closed = on_closed, .drain = on_drain, .ends_with_peer = true};
    connection_set_later(c->connection, &w->later);
    c->waits = true;
    return OK;
}

void waiter_free(struct waiter *w) {
    struct http *h = w->http;
    connection_set_later(w->connection, NULL);
    engine_unwatch(h->server->engine, w->at->queue);
    unlink_from(&h->waiters, w);
    loop_timer_close(&w->timer);
    buf_release(&w->results);
    free(w);
}

/* -- their ends ------------------------------------------------------------------------------ */

static void begin_reply(const struct waiter *w, struct reply *r) {
    reply_init(r, &w->http->body);
    buf_add_span(r->body, buf_span(&w->results));
}

static void finish(struct waiter *w, const struct reply *r) {
    struct connection *k = w->connection;
    waiter_free(w);
    connection_answer(k, r);
}

void waiter_dismiss(struct waiter *w) {
    struct reply r;
    begin_reply(w, &r);
    claim_reply(w->http, &r, name_of(w), w->shape, NULL, 0, 0);
    finish(w, &r);
}

/* False when there was nothing to claim for it. */
static bool serve(struct waiter *w) {
    struct http *h = w->http;
    int64_t now = server_now(h->server);
    size_t n = 0;
    enum err e = engine_claim(h->server->engine, now, name_of(w), &w->claim, h->ids, &n);
    if (e == OK && n == 0)
        return false;
    struct reply r;
    begin_reply(w, &r);
    if (e == OK)
        claim_reply(h, &r, name_of(w), w->shape, h->ids, n, now);
    else
        claim_reply_error(&r, w->shape, e);
    finish(w, &r);
    return true;
}

void http_on_woken(struct http *h, struct queue *q) {
    struct waiting_queue **at = find(&h->waiters, q);
    while (*at != NULL && serve((*at)->first))
        at = find(&h->waiters, q); /* with the last of them the entry went, too */
}

/* The queue of that name, when there are waiters for it. */
static const struct queue *find_named(const struct waiters *all, struct span name) {
    for (size_t i = 0; i < WAITERS_BUCKETS; i++) {
        for (const struct waiting_queue *q = all->buckets[i]; q != NULL; q = q->next) {
            if (span_equal(name_of(q->first), name))
                return q->queue;
        }
    }
    return NULL;
}

void waiters_dismiss(struct http *h, struct span queue) {
    const struct queue *q = find_named(&h->waiters, queue);
    if (q == NULL)
        return;
    for (struct waiting_queue **at = find(&h->waiters, q); *at != NULL; at = find(&h->waiters, q))
        waiter_dismiss((*at)->first);
}
