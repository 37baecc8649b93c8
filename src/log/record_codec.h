/* Cursors over the meta of a record, for the files that write and read records. Private to them. */
#pragma once

#include "base/bytes.h"
#include "base/le.h"

#include <stdbool.h>

struct out {
    uint8_t *p;
    size_t n;
};

static inline void put8(struct out *o, unsigned v) {
    o->p[o->n++] = (uint8_t)v;
}

static inline void put16(struct out *o, size_t v) {
    le_put16(o->p + o->n, (uint16_t)v);
    o->n += 2;
}

static inline void put32(struct out *o, uint64_t v) {
    le_put32(o->p + o->n, (uint32_t)v);
    o->n += 4;
}

static inline void put64(struct out *o, uint64_t v) {
    le_put64(o->p + o->n, v);
    o->n += 8;
}

static inline void put_time(struct out *o, int64_t v) {
    put64(o, (uint64_t)v);
}

/* At most 255 bytes, in the meta itself. */
static inline void put_text(struct out *o, struct span text) {
    put8(o, (unsigned)text.n);
    memcpy(o->p + o->n, text.p ? text.p : (const uint8_t *)"", text.n);
    o->n += text.n;
}

struct in {
    struct span left;
    bool bad; /* something was missing: all later numbers read as 0 */
};

static inline const uint8_t *take(struct in *in, size_t n) {
    static const uint8_t zeros[8];
    if (in->left.n < n) {
        in->bad = true;
        in->left.n = 0;
        return n <= sizeof zeros ? zeros : NULL;
    }
    const uint8_t *p = in->left.p;
    in->left = span_of(p + n, in->left.n - n);
    return p;
}

static inline uint8_t get8(struct in *in) {
    return *take(in, 1);
}

static inline uint16_t get16(struct in *in) {
    return le_get16(take(in, 2));
}

static inline uint32_t get32(struct in *in) {
    return le_get32(take(in, 4));
}

static inline uint64_t get64(struct in *in) {
    return le_get64(take(in, 8));
}

static inline int64_t get_time(struct in *in) {
    return (int64_t)get64(in);
}

/* A number that must be one of an enum's. */
static inline uint8_t get_up_to(struct in *in, uint8_t most) {
    uint8_t v = get8(in);
    if (v > most)
        in->bad = true;
    return in->bad ? 0 : v;
}

/* The next n bytes of data; without bytes when data was not read. */
static inline struct span get_data(struct in *in, struct span *data, size_t n) {
    if (data->n < n) {
        in->bad = true;
        return (struct span){0};
    }
    struct span s = {data->p, n};
    data->p = data->p ? data->p + n : NULL;
    data->n -= n;
    return s;
}

static inline enum err done(const struct in *in, struct span data_left) {
    return in->bad || in->left.n != 0 || data_left.n != 0 ? ERR_CORRUPT : OK;
}

static inline struct span get_text(struct in *in) {
    size_t n = get8(in);
    const uint8_t *p = take(in, n);
    struct span none = {0};
    return in->bad ? none : span_of(p, n);
}
