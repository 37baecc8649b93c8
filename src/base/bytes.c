#include "base/bytes.h"

#include "base/mem.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUF_FIRST_BYTES = 64, DECIMAL_DIGITS_MAX = 20 };

/* -- spans ----------------------------------------------------------------------------------- */

struct span span_of(const void *p, size_t n) {
    return (struct span){.p = p, .n = n};
}

struct span span_str(const char *s) {
    return span_of(s, s != NULL ? strlen(s) : 0);
}

bool span_equal(struct span a, struct span b) {
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

bool span_equal_str(struct span a, const char *s) {
    return span_equal(a, span_str(s));
}

static bool is_continuation(uint8_t c) {
    return (c & 0xc0) == 0x80;
}

/* The bytes of the well-formed sequence that begins at p (n > 0 bytes are left), 0 when there is
 * none. The second byte's range depends on the first: that is what keeps out overlong forms,
 * surrogates, and what lies beyond U+10FFFF. */
static size_t utf8_sequence(const uint8_t *p, size_t n) {
    uint8_t first = p[0];
    if (first < 0x80)
        return 1;

    uint8_t low = 0x80, high = 0xbf;
    size_t length;
    if (first >= 0xc2 && first <= 0xdf) {
        length = 2;
    } else if (first >= 0xe0 && first <= 0xef) {
        length = 3;
        if (first == 0xe0)
            low = 0xa0;
        else if (first == 0xed)
            high = 0x9f;
    } else if (first >= 0xf0 && first <= 0xf4) {
        length = 4;
        if (first == 0xf0)
            low = 0x90;
        else if (first == 0xf4)
            high = 0x8f;
    } else {
        return 0;
    }

    if (n < length || p[1] < low || p[1] > high)
        return 0;
    for (size_t i = 2; i < length; i++) {
        if (!is_continuation(p[i]))
            return 0;
    }
    return length;
}

int span_compare(struct span a, struct span b) {
    size_t n = a.n < b.n ? a.n : b.n;
    int c = n ? memcmp(a.p, b.p, n) : 0;
    return c ? c : a.n < b.n ? -1 : a.n > b.n;
}

size_t spans_bytes(const struct span *spans, size_t n) {
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += spans[i].n;
    return bytes;
}

char *spans_keep(struct span *spans, size_t n) {
    char *memory = mem_alloc(spans_bytes(spans, n) + 1), *at = memory;
    for (size_t i = 0; i < n; i++) {
        if (spans[i].n > 0)
            memcpy(at, spans[i].p, spans[i].n);
        spans[i].p = (const uint8_t *)at;
        at += spans[i].n;
    }
    return memory;
}

bool span_is_utf8(struct span s) {
    size_t i = 0;
    while (i < s.n) {
        uint64_t word;
        while (s.n - i >= sizeof word) {
            memcpy(&word, s.p + i, sizeof word);
            if ((word & UINT64_C(0x8080808080808080)) != 0)
                break;
            i += sizeof word;
        }
        if (i == s.n)
            return true;
        size_t length = utf8_sequence(s.p + i, s.n - i);
        if (length == 0)
            return false;
        i += length;
    }
    return true;
}

struct span span_cut_utf8(struct span s, size_t n) {
    if (s.n <= n)
        return s;
    /* A sequence has at most three continuation bytes: more of them is no UTF-8, and any cut will
     * do. */
    size_t cut = n;
    while (cut > 0 && n - cut < 3 && is_continuation(s.p[cut]))
        cut--;
    if (is_continuation(s.p[cut]))
        cut = n;
    return span_of(s.p, cut);
}

/* -- buffers --------------------------------------------------------------------------------- */

void buf_init(struct buf *b, size_t max) {
    *b = (struct buf){.max = max};
}

void buf_release(struct buf *b) {
    free(b->p);
    buf_init(b, b->max);
}

void buf_clear(struct buf *b) {
    b->n = 0;
}

static void buf_enlarge(struct buf *b, size_t n) {
    assert(n <= b->max - b->n);
    size_t cap = b->cap < BUF_FIRST_BYTES ? BUF_FIRST_BYTES : b->cap;
    while (cap - b->n < n)
        cap = cap > b->max / 2 ? b->max : cap * 2;
    if (cap > b->max)
        cap = b->max;
    b->p = mem_grow(b->p, cap);
    b->cap = cap;
}

uint8_t *buf_reserve(struct buf *b, size_t n) {
    if (b->cap - b->n < n || b->p == NULL)
        buf_enlarge(b, n);
    return b->p + b->n;
}

void buf_add(struct buf *b, const void *p, size_t n) {
    if (n == 0)
        return;
    memcpy(buf_reserve(b, n), p, n);
    b->n += n;
}

void buf_add_span(struct buf *b, struct span s) {
    buf_add(b, s.p, s.n);
}

void buf_add_str(struct buf *b, const char *s) {
    buf_add(b, s, strlen(s));
}

void buf_add_byte(struct buf *b, uint8_t c) {
    *buf_reserve(b, 1) = c;
    b->n++;
}

void buf_add_u64(struct buf *b, uint64_t v) {
    char digits[DECIMAL_DIGITS_MAX];
    size_t start = sizeof digits;
    do {
        digits[--start] = (char)('0' + v % 10);
        v /= 10;
    } while (v > 0);
    buf_add(b, digits + start, sizeof digits - start);
}

void buf_add_i64(struct buf *b, int64_t v) {
    if (v < 0)
        buf_add_byte(b, '-');
    buf_add_u64(b, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

void buf_printf(struct buf *b, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    assert(n >= 0);

    /* vsnprintf ends with a NUL that is not ours to keep: the room for it may lie beyond max. */
    size_t size = (size_t)n + 1;
    char small[256];
    char *text = size <= sizeof small ? small : mem_alloc(size);
    va_start(args, format);
    vsnprintf(text, size, format, args);
    va_end(args);
    buf_add(b, text, (size_t)n);
    if (text != small)
        free(text);
}

void buf_consume(struct buf *b, size_t n) {
    assert(n <= b->n);
    b->n -= n;
    if (b->n > 0 && n > 0)
        memmove(b->p, b->p + n, b->n);
}

struct span buf_span(const struct buf *b) {
    return span_of(b->p, b->n);
}
