#include "http/front.h"

#include "base/mem.h"

#include <stdlib.h>

enum { KEEP_BYTES = 1024 * 1024 }; /* a buffer that grew larger is freed after its request */

static void trim(struct buf *b) {
    if (b->cap > KEEP_BYTES)
        buf_release(b);
}

void http_trim(struct http *h) {
    trim(&h->body);
    trim(&h->enqueue.bytes);
}

struct http *http_new(struct server *s) {
    struct http *h = mem_alloc(sizeof *h);
    h->server = s;
    h->started_at = server_now(s);
    buf_init(&h->body, CONN_OUT_MAX - 1024 * 1024);
    buf_init(&h->scratch, LIMIT_HEAD);
    buf_init(&h->name, LIMIT_HEAD);
    buf_init(&h->policy, SIZE_MAX);
    enqueue_body_init(&h->enqueue, s->limits.body_bytes_max);
    return h;
}

void http_free(struct http *h) {
    if (h == NULL)
        return;
    definitions_release(h);
    buf_release(&h->body);
    buf_release(&h->scratch);
    buf_release(&h->name);
    buf_release(&h->policy);
    enqueue_body_release(&h->enqueue);
    free(h);
}

unsigned http_inflight(const struct http *h) {
    return h->inflight;
}
