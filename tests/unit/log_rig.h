/* What the tests of the log share: a log over some io table, records that can be told from each other, and what a reader saw of them. */
#pragma once

#include "base/le.h"
#include "base/mem.h"
#include "base/rng.h"
#include "check.h"
#include "log/log.h"
#include "sim/crash_io.h"

#include <assert.h>
#include <stdlib.h>

#define RIG_SEEN_MAX 20000

struct rig {
    struct log_config config;
    struct log *log;
    struct log_findings found;
    struct log_trouble trouble;
    uint64_t next_tag;
    size_t seen; /* records the last open or check handed out */
    uint64_t tags[RIG_SEEN_MAX], positions[RIG_SEEN_MAX];
    size_t bytes[RIG_SEEN_MAX];
    size_t unread; /* of those, with data left unread */
    bool wrong;    /* a record was not what was written */
    bool refuse;   /* the reader says no */
};

static inline void rig_init(struct rig *r, const struct log_io *io, void *ctx,
                            int64_t segment_bytes) {
    *r = (struct rig){.config = {.io = io, .io_ctx = ctx, .segment_bytes = segment_bytes},
                      .next_tag = 1};
}

static inline void rig_on_disk(struct rig *r, struct crash_io *d) {
    rig_init(r, &crash_io_table, d, LOG_SEGMENT_BYTES_MIN);
}

/* The same on a disk made for it, which the caller frees. */
static inline struct crash_io *rig_on_new_disk(struct rig *r, uint64_t seed) {
    struct crash_io *d = crash_io_new(seed);
    rig_on_disk(r, d);
    return d;
}

/* Data of record `tag`: any piece of it is unlike that of another. */
static inline void rig_fill(uint8_t *p, size_t n, uint64_t tag) {
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)(tag * 31 + i * 7 + i / 251);
}

static inline bool rig_is_record(struct span meta, struct span data) {
    if (meta.n < 8)
        return false;
    uint64_t tag = le_get64(meta.p);
    for (size_t i = 0; data.p && i < data.n; i++)
        if (data.p[i] != (uint8_t)(tag * 31 + i * 7 + i / 251))
            return false;
    return true;
}

static inline enum err rig_record(void *ctx, const struct log_record *record) {
    struct rig *r = ctx;
    if (r->refuse)
        return ERR_CORRUPT;
    assert(r->seen < RIG_SEEN_MAX);
    if (!rig_is_record(record->meta, record->data) || record->type != 7)
        r->wrong = true;
    r->tags[r->seen] = le_get64(record->meta.p);
    r->positions[r->seen] = record->position;
    r->bytes[r->seen] = record->bytes;
    r->unread += record->data.n > 0 && !record->data.p;
    r->seen++;
    return OK;
}

static inline struct log_reader rig_reader(struct rig *r) {
    r->seen = r->unread = 0;
    r->wrong = false;
    return (struct log_reader){.ctx = r, .record = rig_record};
}

static inline enum err rig_try_open(struct rig *r) {
    struct log_reader reader = rig_reader(r);
    r->trouble.text[0] = '\0';
    enum err e = log_open(&r->config, &reader, &r->log, &r->found, &r->trouble);
    if (e != OK)
        r->log = NULL;
    return e;
}

static inline void rig_open(struct rig *r) {
    enum err e = rig_try_open(r);
    if (e != OK)
        printf("# %s: %s\n", err_text(e), r->trouble.text);
    CHECK(e == OK);
    CHECK(!r->wrong);
    assert(r->log);
}

static inline enum err rig_check(struct rig *r) {
    struct log_reader reader = rig_reader(r);
    r->trouble.text[0] = '\0';
    return log_check(&r->config, &reader, &r->found, &r->trouble);
}

static inline void rig_close(struct rig *r) {
    log_free(r->log);
    r->log = NULL;
}

static inline void rig_reopen(struct rig *r) {
    rig_close(r);
    rig_open(r);
}

/* One frame of n records with that much data each; returns the position of the last. */
static inline uint64_t rig_append(struct rig *r, size_t n, size_t data_bytes) {
    uint8_t meta[8];
    uint8_t *data = mem_alloc(data_bytes);
    uint64_t position = 0;
    log_frame_begin(r->log, n * log_record_bytes(8, data_bytes));
    for (size_t i = 0; i < n; i++) {
        le_put64(meta, r->next_tag);
        rig_fill(data, data_bytes, r->next_tag++);
        /* In two spans, as callers do. */
        struct span spans[2] = {span_of(data, data_bytes / 2),
                                span_of(data + data_bytes / 2, data_bytes - data_bytes / 2)};
        position = log_record_append(r->log, 7, span_of(meta, sizeof meta), spans, 2);
    }
    log_frame_end(r->log);
    free(data);
    return position;
}

static inline enum err rig_try_commit(struct rig *r) {
    if (!log_batch_take(r->log))
        return OK;
    enum err e = log_batch_write(r->log);
    if (e == OK)
        log_batch_done(r->log);
    return e;
}

static inline void rig_commit(struct rig *r) {
    CHECK(rig_try_commit(r) == OK);
    CHECK(log_durable(r->log) == log_end(r->log));
}

/* The tags seen are first .. last. */
static inline bool rig_saw(const struct rig *r, uint64_t first, uint64_t last) {
    if (r->seen != last + 1 - first)
        return false;
    for (size_t i = 0; i < r->seen; i++)
        if (r->tags[i] != first + i)
            return false;
    return true;
}

static inline const char *rig_segment(uint64_t number) {
    static char name[48];
    snprintf(name, sizeof name, "segment-%016llu", (unsigned long long)number);
    return name;
}
