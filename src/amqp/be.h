/* Big-endian numbers in byte arrays, as AMQP has them, at any alignment. Any thread. */
#pragma once

#include "base/bytes.h"

#include <endian.h>
#include <string.h>

static inline uint16_t be_get16(const uint8_t *p) {
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return be16toh(v);
}

static inline uint32_t be_get32(const uint8_t *p) {
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return be32toh(v);
}

static inline uint64_t be_get64(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return be64toh(v);
}

static inline void be_put32(uint8_t *p, uint32_t v) {
    v = htobe32(v);
    memcpy(p, &v, sizeof v);
}

static inline void be_add16(struct buf *b, uint16_t v) {
    v = htobe16(v);
    buf_add(b, &v, sizeof v);
}

static inline void be_add32(struct buf *b, uint32_t v) {
    v = htobe32(v);
    buf_add(b, &v, sizeof v);
}

static inline void be_add64(struct buf *b, uint64_t v) {
    v = htobe64(v);
    buf_add(b, &v, sizeof v);
}
