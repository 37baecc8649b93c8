/* What the tests of records share: random values of the parts that records are made of, and bytes that are cut short or changed. */
#pragma once

#include "base/limits.h"
#include "base/rng.h"
#include "check.h"
#include "log/record.h"

#include <stdlib.h>

static struct rng rng;

/* -- values ------------------------------------------------------------------------------------------ */

static inline uint64_t any64(void) {
    const uint64_t special[] = {0,         1, UINT32_MAX, (uint64_t)INT64_MAX, (uint64_t)INT64_MIN,
                                UINT64_MAX};
    uint64_t k = rng_below(&rng, 8);
    return k < 6 ? special[k] : rng_u64(&rng);
}

static inline uint32_t any32(void) {
    return (uint32_t)any64();
}

static inline bool any_bool(void) {
    return rng_below(&rng, 2) == 1;
}

static inline int64_t any_time(void) {
    return (int64_t)any64();
}

static inline uint64_t any_id(void) {
    const uint64_t special[] = {1, LIMIT_ID};
    uint64_t k = rng_below(&rng, 4);
    return k < 2 ? special[k] : 1 + rng_below(&rng, LIMIT_ID);
}

/* A number of something that is there: never 0. */
static inline uint32_t any_number(void) {
    uint32_t n = any32();
    return n ? n : 1;
}

/* Empty, full, or between; the bytes are anything. */
static inline struct span any_span(uint8_t *memory, size_t most) {
    uint64_t k = rng_below(&rng, 4);
    size_t n = k == 0 ? 0 : k == 1 ? most : (size_t)rng_below(&rng, most + 1);
    for (size_t i = 0; i < n; i++)
        memory[i] = (uint8_t)rng_u64(&rng);
    return span_of(memory, n);
}

/* -- bytes ------------------------------------------------------------------------------------------- */

/* The data of a record as it stands in the log. */
static inline struct span joined(struct buf *b, const struct span *parts, size_t n) {
    buf_clear(b);
    for (size_t i = 0; i < n; i++)
        buf_add_span(b, parts[i]);
    return buf_span(b);
}

/* Reads a record into nowhere; what comes is checked to be sane when it says OK. */
typedef enum err record_reader(struct span meta, struct span data);

/* A part of what was read: its bytes lie in the whole, or were not read. */
static inline bool is_part(struct span part, struct span whole) {
    if (part.n == 0 || !part.p)
        return part.n <= whole.n;
    return part.p >= whole.p && part.p + part.n <= whole.p + whole.n;
}

/* Together they are the data, and each lies in it. */
static inline bool are_all_parts(const struct span *parts, size_t n, struct span data) {
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        bytes += parts[i].n;
        if (!is_part(parts[i], data))
            return false;
    }
    return bytes == data.n;
}

static inline uint8_t *copy_of_size(const uint8_t *p, size_t n, uint8_t **ret_memory) {
    *ret_memory = malloc(n + 1);
    uint8_t *copy = *ret_memory + 1;
    if (n)
        memcpy(copy, p, n);
    return copy;
}

/* Reads it from memory that ends where the bytes end, so that a sanitizer sees a read past them. */
static inline enum err read_exactly(record_reader *read, struct span meta, struct span data) {
    uint8_t *meta_memory, *data_memory;
    const uint8_t *m = copy_of_size(meta.p, meta.n, &meta_memory);
    const uint8_t *d = copy_of_size(data.p, data.n, &data_memory);
    enum err e = read(span_of(m, meta.n), span_of(d, data.n));
    free(meta_memory);
    free(data_memory);
    return e;
}

/* Every shorter meta and some shorter data make no sense, nor does more of either. */
static inline void cuts_are_corrupt(record_reader *read, struct span meta, struct span data) {
    for (size_t n = 0; n < meta.n; n++)
        CHECK(read_exactly(read, span_of(meta.p, n), data) == ERR_CORRUPT);
    struct buf more;
    buf_init(&more, SIZE_MAX);
    buf_add_span(&more, meta);
    buf_add_byte(&more, 0);
    CHECK(read_exactly(read, buf_span(&more), data) == ERR_CORRUPT);
    if (data.n > 0) {
        size_t n = (size_t)rng_below(&rng, data.n);
        CHECK(read_exactly(read, meta, span_of(data.p, n)) == ERR_CORRUPT);
        CHECK(read_exactly(read, meta, span_of(data.p, data.n - 1)) == ERR_CORRUPT);
        buf_clear(&more);
        buf_add_span(&more, data);
        buf_add_byte(&more, 0);
        CHECK(read_exactly(read, meta, buf_span(&more)) == ERR_CORRUPT);
    }
    buf_release(&more);
}

/* With a few bytes changed it is corrupt, or something else that is sane; also with the data left unread. */
static inline void changes_are_corrupt_or_sane(record_reader *read, struct span meta,
                                               struct span data) {
    uint8_t *changed = malloc(meta.n);
    memcpy(changed, meta.p, meta.n);
    for (uint64_t n = 1 + rng_below(&rng, 3); n > 0; n--)
        changed[rng_below(&rng, meta.n)] =
            (uint8_t)(any_bool() ? rng_below(&rng, 4) : rng_u64(&rng));
    enum err e = read_exactly(read, span_of(changed, meta.n), data);
    CHECK(e == OK || e == ERR_CORRUPT);
    CHECK(read(span_of(changed, meta.n), (struct span){NULL, data.n}) == e);
    free(changed);
}

/* Bytes that were never a record. */
static inline void noise_is_corrupt_or_sane(record_reader *read, int rounds) {
    uint8_t meta[400], data[64];
    memset(data, 'x', sizeof data);
    for (int i = 0; i < rounds; i++) {
        size_t n = (size_t)rng_below(&rng, sizeof meta);
        for (size_t k = 0; k < n; k++)
            meta[k] = (uint8_t)(rng_below(&rng, 3) ? rng_below(&rng, 3) : rng_u64(&rng));
        enum err e = read_exactly(read, span_of(meta, n),
                                  span_of(data, (size_t)rng_below(&rng, sizeof data)));
        CHECK(e == OK || e == ERR_CORRUPT);
    }
    CHECK(read((struct span){0}, (struct span){0}) == ERR_CORRUPT);
}
