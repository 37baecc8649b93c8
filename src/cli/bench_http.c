#include "cli/bench_http.h"

#include "base/limits.h"
#include "base/mem.h"
#include "cli/text.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define REQUEST_MAX ((size_t)LIMIT_BATCH * (LIMIT_PAYLOAD_MOST + 64))
#define KEY_DIGITS 10

enum step { STEP_ENQUEUE, STEP_CLAIM, STEP_SETTLE };

struct http_conn {
    struct buf enqueue; /* of its own where messages have keys */
    struct buf body;    /* of the settle request, while it is put together */
    struct buf settle;  /* that request */
    unsigned held;      /* messages claimed and not settled */
};

struct bench_http {
    struct load_script script;
    bool is_cycle, is_array, is_combined;
    unsigned batch, connections;
    char *common_head; /* header lines of every request, up to the value of Content-Length */
    char *queue_path;  /* "POST /queues/NAME" */
    struct buf enqueue, claim;
    uint32_t keys, first_key, next_key; /* keys 0: none */
    size_t first_key_at, key_stride;    /* in an enqueue: where the digits of the first are, and how
                                           far the next ones are from one another */
    struct http_conn *conns;
    char first_failure[400];
};

struct http_reply {
    unsigned status;
    struct span body;
};

/* -- reading --------------------------------------------------------------------------------- */

static size_t header_content_length(struct span head, bool *ret_found) {
    static const char name[] = "content-length:";
    const char *p = (const char *)head.p, *end = p + head.n;
    *ret_found = false;
    while (p != NULL && end - p > (ptrdiff_t)sizeof name) {
        if ((p[0] | 0x20) == 'c' && strncasecmp(p, name, sizeof name - 1) == 0) {
            *ret_found = true;
            return strtoul(p + sizeof name - 1, NULL, 10); /* the line's \r ends it */
        }
        p = memchr(p, '\n', (size_t)(end - p));
        if (p != NULL)
            p++;
    }
    return 0;
}

/* LOAD_TURN when `bytes` is exactly one whole reply. */
static enum load_verdict http_reply_parse(struct span bytes, struct http_reply *ret) {
    const uint8_t *blank = memmem(bytes.p, bytes.n, "\r\n\r\n", 4);
    if (blank == NULL)
        return bytes.n <= LIMIT_HEAD ? LOAD_MORE : LOAD_BROKEN;
    size_t head_bytes = (size_t)(blank - bytes.p) + 4;
    if (head_bytes < 16 || memcmp(bytes.p, "HTTP/1.1 ", 9) != 0)
        return LOAD_BROKEN;

    bool found = false;
    size_t body_bytes = header_content_length(span_of(bytes.p, head_bytes), &found);
    if (!found || body_bytes > LOAD_REPLY_MAX)
        return LOAD_BROKEN;
    if (bytes.n < head_bytes + body_bytes)
        return LOAD_MORE;
    if (bytes.n > head_bytes + body_bytes)
        return LOAD_BROKEN;

    ret->status = (unsigned)strtoul((const char *)bytes.p + 9, NULL, 10);
    ret->body = span_of(bytes.p + head_bytes, body_bytes);
    return LOAD_TURN;
}

/* Moves *at behind the next `"name":` (and spaces). A payload cannot hold one: its quotes are
 * escaped. */
static bool find_member(struct span body, const char *quoted_name, size_t *at) {
    size_t n = strlen(quoted_name);
    const uint8_t *p = memmem(body.p + *at, body.n - *at, quoted_name, n);
    if (p == NULL)
        return false;
    *at = (size_t)(p - body.p) + n;
    while (*at < body.n && body.p[*at] == ' ')
        (*at)++;
    return true;
}

/* The next claimed message's id and lease, both as they stand in the text. */
static bool next_claimed(struct span body, size_t *at, struct span *ret_id,
                         struct span *ret_lease) {
    if (!find_member(body, "\"id\":", at))
        return false;
    size_t end = *at;
    while (end < body.n && body.p[end] >= '0' && body.p[end] <= '9')
        end++;
    *ret_id = span_of(body.p + *at, end - *at);

    *at = end;
    if (!find_member(body, "\"lease\":", at) || *at >= body.n || body.p[*at] != '"')
        return false;
    const uint8_t *lease = body.p + *at + 1;
    const uint8_t *quote = memchr(lease, '"', body.n - *at - 1);
    if (quote == NULL || ret_id->n == 0)
        return false;
    *ret_lease = span_of(lease, (size_t)(quote - lease));
    *at = (size_t)(quote - body.p) + 1;
    return true;
}

/* -- writing --------------------------------------------------------------------------------- */

static void add_request(const struct bench_http *http, struct buf *out, const char *path,
                        struct span body) {
    buf_add_str(out, http->queue_path);
    buf_add_str(out, path);
    buf_add_str(out, http->common_head);
    buf_add_u64(out, body.n);
    buf_add_str(out, "\r\n\r\n");
    buf_add_span(out, body);
}

/* One message: POST .../messages/ID/succeed. */
static void make_succeed(const struct bench_http *http, struct http_conn *c, struct span id,
                         struct span lease) {
    buf_clear(&c->settle);
    buf_add_str(&c->settle, http->queue_path);
    buf_add_str(&c->settle, "/messages/");
    buf_add_span(&c->settle, id);
    buf_add_str(&c->settle, "/succeed");
    buf_add_str(&c->settle, http->common_head);
    buf_add_u64(&c->settle, sizeof "{\"lease\":\"\"}" - 1 + lease.n);
    buf_add_str(&c->settle, "\r\n\r\n{\"lease\":\"");
    buf_add_span(&c->settle, lease);
    buf_add_str(&c->settle, "\"}");
}

/* Many: the items of POST .../settle are gathered in c->body. */
static void settle_begin(struct http_conn *c) {
    c->held = 0;
    buf_clear(&c->body);
    buf_add_str(&c->body, "{\"items\":[");
}

static void settle_add(struct http_conn *c, struct span id, struct span lease) {
    buf_add_str(&c->body, c->held > 0 ? ",{\"id\":" : "{\"id\":");
    buf_add_span(&c->body, id);
    buf_add_str(&c->body, ",\"lease\":\"");
    buf_add_span(&c->body, lease);
    buf_add_str(&c->body, "\",\"action\":\"succeed\"}");
    c->held++;
}

static void settle_end(const struct bench_http *http, struct http_conn *c) {
    buf_add_str(&c->body, "]");
    if (http->is_combined) {
        buf_add_str(&c->body, ",\"claim\":{\"count\":");
        buf_add_u64(&c->body, http->batch);
        buf_add_str(&c->body, "}");
    }
    buf_add_str(&c->body, "}");
    buf_clear(&c->settle);
    add_request(http, &c->settle, "/settle", buf_span(&c->body));
}

/* -- the script ------------------------------------------------------------------------------ */

/* Combined cycles have no claim of their own. */
static enum step step_of(const struct bench_http *http, unsigned step) {
    if (step == 0)
        return STEP_ENQUEUE;
    return step == 1 && !http->is_combined ? STEP_CLAIM : STEP_SETTLE;
}

/* The connection's enqueue, with the keys that are next. */
static struct span keyed_enqueue(struct bench_http *http, struct http_conn *c) {
    if (c->enqueue.n == 0)
        buf_add_span(&c->enqueue, buf_span(&http->enqueue));
    for (unsigned i = 0; i < http->batch; i++) {
        uint64_t key = (uint64_t)http->first_key + http->next_key;
        http->next_key = (http->next_key + 1) % http->keys;
        uint8_t *digits = c->enqueue.p + http->first_key_at + i * http->key_stride;
        for (int d = KEY_DIGITS - 1; d >= 0; d--, key /= 10)
            digits[d] = (uint8_t)('0' + key % 10);
    }
    return buf_span(&c->enqueue);
}

static struct span http_request(void *ctx, unsigned connection, unsigned step) {
    struct bench_http *http = ctx;
    switch (step_of(http, step)) {
    case STEP_ENQUEUE:
        return http->keys > 0 ? keyed_enqueue(http, &http->conns[connection])
                              : buf_span(&http->enqueue);
    case STEP_CLAIM:
        return buf_span(&http->claim);
    case STEP_SETTLE:
        return buf_span(&http->conns[connection].settle);
    }
    assert(false);
    return (struct span){NULL, 0};
}

static enum load_verdict http_failed(struct bench_http *http, const char *what,
                                     const struct http_reply *reply, struct load_reply *ret) {
    ret->is_failure = true;
    if (http->first_failure[0] == '\0')
        snprintf(http->first_failure, sizeof http->first_failure, "%s: %u %.*s", what,
                 reply->status, (int)(reply->body.n < 300 ? reply->body.n : 300),
                 (const char *)reply->body.p);
    return LOAD_TURN;
}

/* Makes the settle request out of what a claim brought; false when that was less than asked for. */
static bool take_claimed(const struct bench_http *http, struct http_conn *c, struct span body) {
    struct span id, lease;
    size_t at = 0;
    if (!http->is_array) {
        bool found = next_claimed(body, &at, &id, &lease);
        if (found)
            make_succeed(http, c, id, lease);
        return found;
    }
    settle_begin(c);
    if (http->is_combined && !find_member(body, "\"messages\":", &at))
        return false;
    while (c->held < http->batch && next_claimed(body, &at, &id, &lease))
        settle_add(c, id, lease);
    settle_end(http, c);
    return c->held == http->batch;
}

static enum load_verdict http_settled(struct bench_http *http, struct http_conn *c,
                                      const struct http_reply *reply, struct load_reply *ret) {
    if (!http->is_array) {
        ret->units = 1;
        return LOAD_TURN;
    }
    if (memmem(reply->body.p, reply->body.n, "\"error\":", 8) != NULL)
        return http_failed(http, "settle", reply, ret);
    ret->units = c->held;
    if (http->is_combined && !take_claimed(http, c, reply->body))
        return http_failed(http, "claim brought too little", reply, ret);
    return LOAD_TURN;
}

static enum load_verdict http_reply(void *ctx, unsigned connection, unsigned step,
                                    struct span bytes, struct load_reply *ret) {
    struct bench_http *http = ctx;
    struct http_conn *c = &http->conns[connection];
    struct http_reply reply;
    enum load_verdict v = http_reply_parse(bytes, &reply);
    if (v != LOAD_TURN)
        return v;
    if (reply.status < 200 || reply.status > 299)
        return http_failed(http, http->script.step_names[step], &reply, ret);

    switch (step_of(http, step)) {
    case STEP_ENQUEUE:
        if (http->is_cycle)
            return LOAD_STEP;
        ret->units = http->batch;
        return LOAD_TURN;
    case STEP_CLAIM:
        if (!take_claimed(http, c, reply.body))
            return http_failed(http, "claim brought too little", &reply, ret);
        return LOAD_STEP;
    case STEP_SETTLE:
        return http_settled(http, c, &reply, ret);
    }
    assert(false);
    return LOAD_BROKEN;
}

/* -- set-up ---------------------------------------------------------------------------------- */

static char *buf_to_text(struct buf *b) {
    buf_add_byte(b, 0);
    return (char *)b->p; /* the caller's now */
}

static void make_heads(struct bench_http *http, const struct bench_http_options *o) {
    struct buf path, head;
    buf_init(&path, LIMIT_HEAD);
    buf_add_str(&path, "POST /queues/");
    text_add_segment(o->queue, &path);
    http->queue_path = buf_to_text(&path);

    buf_init(&head, LIMIT_HEAD);
    buf_printf(&head, " HTTP/1.1\r\nHost: %s:%s\r\n", o->host, o->port);
    if (o->token != NULL)
        buf_printf(&head, "Authorization: Bearer %s\r\n", o->token);
    buf_add_str(&head, "Content-Type: application/json\r\nContent-Length: ");
    http->common_head = buf_to_text(&head);
}

static void add_message(struct buf *body, struct span payload, bool has_key) {
    buf_add_str(body, "{\"payload\":\"");
    buf_add_span(body, payload);
    if (has_key)
        buf_printf(body, "\",\"key\":\"%0*d", KEY_DIGITS, 0);
    buf_add_str(body, "\"}");
}

static void make_enqueue(struct bench_http *http, size_t payload_bytes) {
    char *payload = mem_alloc(payload_bytes + 1);
    load_fill(payload, payload_bytes);
    struct buf body;
    buf_init(&body, REQUEST_MAX);
    if (http->is_array)
        buf_add_byte(&body, '[');
    for (unsigned i = 0; i < http->batch; i++) {
        if (i > 0)
            buf_add_byte(&body, ',');
        size_t begin = body.n;
        add_message(&body, span_of(payload, payload_bytes), http->keys > 0);
        http->key_stride = body.n - begin + 1;
    }
    if (http->is_array)
        buf_add_byte(&body, ']');
    buf_init(&http->enqueue, REQUEST_MAX);
    add_request(http, &http->enqueue, "/messages", buf_span(&body));
    size_t first_end = http->enqueue.n - body.n + (http->is_array ? 1 : 0) + http->key_stride - 1;
    http->first_key_at = first_end - sizeof "\"}" + 1 - KEY_DIGITS;
    buf_release(&body);
    free(payload);
}

static void make_claim(struct bench_http *http) {
    char body[32] = "";
    if (http->is_array)
        snprintf(body, sizeof body, "{\"count\":%u}", http->batch);
    buf_init(&http->claim, LIMIT_HEAD);
    add_request(http, &http->claim, "/claim", span_str(body));
}

struct bench_http *bench_http_new(const struct bench_http_options *o) {
    assert(o->batch >= 1 && o->batch <= LIMIT_BATCH && (o->batch == 1 || o->is_array));
    assert(!o->is_combined || (o->is_cycle && o->is_array));
    struct bench_http *http = mem_alloc(sizeof *http);
    http->is_cycle = o->is_cycle;
    http->is_array = o->is_array;
    http->is_combined = o->is_combined;
    http->batch = o->batch;
    http->connections = o->connections;
    http->keys = o->keys;
    http->first_key = o->first_key;
    make_heads(http, o);
    make_enqueue(http, o->payload_bytes);
    make_claim(http);

    http->conns = mem_alloc(o->connections * sizeof *http->conns);
    for (unsigned i = 0; i < o->connections; i++) {
        buf_init(&http->conns[i].enqueue, REQUEST_MAX);
        buf_init(&http->conns[i].body, REQUEST_MAX);
        buf_init(&http->conns[i].settle, REQUEST_MAX);
        settle_begin(&http->conns[i]);
        settle_end(http, &http->conns[i]); /* a combined cycle begins by settling nothing */
    }

    http->script = (struct load_script){
        .ctx = http,
        .step_count = !o->is_cycle     ? 1
                      : o->is_combined ? 2
                                       : 3,
        .step_names = {"enqueue", o->is_combined ? "settle+claim" : "claim", "settle"},
        .units_per_turn = o->batch,
        .request = http_request,
        .reply = http_reply,
    };
    return http;
}

void bench_http_free(struct bench_http *http) {
    if (http == NULL)
        return;
    for (unsigned i = 0; i < http->connections; i++) {
        buf_release(&http->conns[i].enqueue);
        buf_release(&http->conns[i].body);
        buf_release(&http->conns[i].settle);
    }
    free(http->conns);
    free(http->common_head);
    free(http->queue_path);
    buf_release(&http->enqueue);
    buf_release(&http->claim);
    free(http);
}

const struct load_script *bench_http_script(struct bench_http *http) {
    return &http->script;
}

const char *bench_http_first_failure(const struct bench_http *http) {
    return http->first_failure;
}
