/* An engine with its log on a simulated disk, for tests that want dead letters: how they die, and a restart. Time stands still until the
 * test moves it. */
#pragma once

#include "base/limits.h"
#include "check.h"
#include "engine/engine.h"
#include "sim/crash_io.h"

#include <assert.h>
#include <stdlib.h>

#define RIG_START INT64_C(1780000000000) /* 2026-05-28 20:26:40 */

#ifndef RIG_SEGMENT_BYTES
#define RIG_SEGMENT_BYTES (1024 * 1024)
#endif

struct rig {
    struct crash_io *disk;
    struct log *log;
    struct engine *engine;
    int64_t now;
};

static inline void rig_open(struct rig *r) {
    const struct log_config config = {
        .io = &crash_io_table, .io_ctx = r->disk, .segment_bytes = RIG_SEGMENT_BYTES};
    struct log_findings findings;
    struct log_trouble trouble;
    r->engine = engine_new(1);
    struct log_reader reader = engine_reader(r->engine);
    enum err e = log_open(&config, &reader, &r->log, &findings, &trouble);
    assert(e == OK);
    engine_attach(r->engine, r->log);
}

static inline void rig_begin(struct rig *r) {
    *r = (struct rig){.disk = crash_io_new(1), .now = RIG_START};
    rig_open(r);
}

static inline void rig_commit(struct rig *r) {
    while (log_batch_take(r->log)) {
        CHECK(log_batch_write(r->log) == OK);
        log_batch_done(r->log);
    }
}

static inline void rig_close(struct rig *r) {
    char text[200] = "";
    CHECK(engine_verify(r->engine, text, sizeof text));
    if (text[0])
        printf("# %s\n", text);
    engine_free(r->engine);
    log_free(r->log);
}

static inline void rig_restart(struct rig *r) {
    rig_commit(r);
    uint64_t sum = engine_checksum(r->engine);
    rig_close(r);
    crash_io_restart(r->disk, false);
    rig_open(r);
    CHECK(engine_checksum(r->engine) == sum);
}

static inline void rig_end(struct rig *r) {
    rig_commit(r);
    rig_close(r);
    crash_io_free(r->disk);
}

/* A message and what kills it; NULL is empty. */
struct rig_death {
    const char *queue, *class, *error, *detail, *fingerprint, *worker, *version;
    const char *key, *headers, *payload;
    uint8_t priority;
    bool permanent;
};

static inline void rig_enqueue(struct rig *r, const struct rig_death *d, size_t n) {
    static struct message_new items[LIMIT_BATCH];
    static struct enqueued done[LIMIT_BATCH];
    for (size_t i = 0; i < n; i++)
        items[i] = (struct message_new){.payload = span_str(d->payload),
                                        .headers = span_str(d->headers),
                                        .key = span_str(d->key),
                                        .max_retries = 1,
                                        .priority = d->priority,
                                        .delay_ms = -1,
                                        .ttl_ms = -1};
    enum err e = engine_enqueue(r->engine, r->now, span_str(d->queue), items, n, done);
    assert(e == OK);
}

/* Claims n, which must be all that are ready there. */
static inline void rig_claim(struct rig *r, const struct rig_death *d, size_t n,
                             uint64_t *ret_ids) {
    const struct claim claim = {.count = n,
                                .bytes_max = SIZE_MAX,
                                .worker = span_str(d->worker),
                                .worker_version = span_str(d->version)};
    size_t got;
    enum err e = engine_claim(r->engine, r->now, span_str(d->queue), &claim, ret_ids, &got);
    assert(e == OK && got == n);
}

static inline void rig_settle(struct rig *r, const struct rig_death *d, enum settle_action action,
                              const uint64_t *ids, size_t n) {
    static struct settle items[LIMIT_BATCH];
    static enum err results[LIMIT_BATCH];
    for (size_t i = 0; i < n; i++)
        items[i] = (struct settle){.action = action,
                                   .id = ids[i],
                                   .delay_ms = -1,
                                   .permanent = d->permanent,
                                   .error = span_str(d->error),
                                   .error_class = span_str(d->class),
                                   .detail = span_str(d->detail),
                                   .fingerprint = span_str(d->fingerprint)};
    enum err e = engine_settle(r->engine, r->now, span_str(d->queue), items, n, results);
    assert(e == OK);
    for (size_t i = 0; i < n; i++)
        assert(results[i] == OK);
    rig_commit(r);
}

/* n alike (at most LIMIT_BATCH), in a queue with nothing else to do. */
static inline void rig_die(struct rig *r, const struct rig_death *d, size_t n, uint64_t *ret_ids) {
    rig_enqueue(r, d, n);
    rig_claim(r, d, n, ret_ids);
    rig_settle(r, d, SETTLE_FAIL, ret_ids, n);
}

static inline void rig_replay(struct rig *r, const char *queue, uint64_t id) {
    const struct act act = {.actor = span_str("ann")};
    enum err e = engine_replay(r->engine, r->now, span_str(queue), id, true, false, &act);
    assert(e == OK);
}

static inline void rig_discard(struct rig *r, const char *queue, uint64_t id) {
    const struct act act = {.actor = span_str("ann")};
    enum err e = engine_discard(r->engine, r->now, span_str(queue), id, DISCARD_TEST, &act);
    assert(e == OK);
}

/* -- finding ----------------------------------------------------------------------------------------- */

static inline struct filter *rig_filter(const struct rig *r, const char *text) {
    struct filter_error error;
    struct filter *f = filter_parse(span_str(text), FILTER_LETTERS, r->now, &error);
    if (!f)
        printf("# %s: %s at %zu\n", text, error.text, error.at);
    assert(f);
    return f;
}

/* One page. */
static inline size_t rig_page(struct rig *r, const struct letter_query *q, uint64_t *ret_ids,
                              struct letter_page *ret_page) {
    engine_letters(r->engine, r->now, q, ret_ids, ret_page);
    return ret_page->n;
}

/* All ids of a query (at most `most`), page by page. */
static inline size_t rig_letters(struct rig *r, struct letter_query q, uint64_t *ret_ids,
                                 size_t most) {
    struct letter_page page = {0};
    uint64_t ids[LIMIT_BATCH];
    size_t n = 0;
    while (!page.is_last) {
        rig_page(r, &q, ids, &page);
        CHECK(page.n <= q.limit && page.is_complete && page.looked_at >= page.n);
        CHECK(page.is_last || page.n == q.limit);
        assert(n + page.n <= most);
        memcpy(ret_ids + n, ids, page.n * sizeof *ids);
        n += page.n;
        q.has_after = true;
        q.after = page.next;
    }
    return n;
}

static inline bool rig_is_same(const uint64_t *a, const uint64_t *b, size_t n) {
    return n == 0 || memcmp(a, b, n * sizeof *a) == 0;
}
