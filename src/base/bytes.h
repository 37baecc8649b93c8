/* Spans (bytes somebody else owns) and growing buffers with a hard maximum. Any thread. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes owned by somebody else; not NUL-terminated. {NULL, 0} is empty. */
struct span {
    const uint8_t *p;
    size_t n;
};

struct span span_of(const void *p, size_t n);
struct span span_str(const char *s); /* without its NUL; NULL is empty */
bool span_equal(struct span a, struct span b);
bool span_equal_str(struct span a, const char *s);
int span_compare(struct span a, struct span b); /* by bytes; <0, 0, >0 */

size_t spans_bytes(const struct span *spans, size_t n); /* of all together */
/* Copies what they point to into one piece of memory, which the caller frees, and lets them point
 * there. */
char *spans_keep(struct span *spans, size_t n);

/* True when s is well-formed UTF-8 (no surrogates, no overlong forms). */
bool span_is_utf8(struct span s);

/* The longest prefix of s of at most n bytes that does not cut a UTF-8 sequence in two. */
struct span span_cut_utf8(struct span s, size_t n);

/* A growing buffer. `max` is a promise of the caller checked by assert: whoever appends untrusted
 * amounts checks first. */
struct buf {
    uint8_t *p;
    size_t n;
    size_t cap;
    size_t max;
};

void buf_init(struct buf *b, size_t max); /* allocates nothing */
void buf_release(struct buf *b);
void buf_clear(struct buf *b); /* keeps the memory */

/* Room for n more bytes at the end; the caller fills them and adds to b->n. */
uint8_t *buf_reserve(struct buf *b, size_t n);

void buf_add(struct buf *b, const void *p, size_t n);
void buf_add_span(struct buf *b, struct span s);
void buf_add_str(struct buf *b, const char *s);
void buf_add_byte(struct buf *b, uint8_t c);
void buf_add_u64(struct buf *b, uint64_t v); /* decimal */
void buf_add_i64(struct buf *b, int64_t v);  /* decimal */
void buf_printf(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Removes the first n bytes. */
void buf_consume(struct buf *b, size_t n);

struct span buf_span(const struct buf *b);
