#include "log/format.h"

#include "base/hash.h"
#include "base/le.h"
#include "log/log.h"

#include <assert.h>

static const uint8_t segment_magic[8] = {'N', 'I', 'X', 'I', 'E', 'L', 'O', 'G'};

void segment_header_put(uint8_t *p, uint64_t number, uint64_t segment_bytes) {
    memset(p, 0, SEGMENT_HEADER_BYTES);
    memcpy(p, segment_magic, sizeof segment_magic);
    le_put32(p + 8, LOG_FORMAT_VERSION);
    le_put64(p + 16, number);
    le_put64(p + 24, segment_bytes);
    le_put64(p + 56, hash64(span_of(p, 56), 0));
}

enum err segment_header_get(const uint8_t *p, uint64_t *ret_number, uint64_t *ret_segment_bytes) {
    if (memcmp(p, segment_magic, sizeof segment_magic) != 0)
        return ERR_CORRUPT;
    if (le_get32(p + 8) > LOG_FORMAT_VERSION)
        return ERR_VERSION;
    if (le_get64(p + 56) != hash64(span_of(p, 56), 0))
        return ERR_CORRUPT;
    *ret_number = le_get64(p + 16);
    *ret_segment_bytes = le_get64(p + 24);
    return OK;
}

void frame_header_put(uint8_t *p, const struct frame_header *h) {
    le_put32(p, h->kind);
    le_put32(p + 4, h->body_bytes);
    le_put64(p + 8, h->position);
    le_put64(p + 16, h->durable);
    le_put64(p + 24, h->sum);
}

struct frame_header frame_header_get(const uint8_t *p) {
    return (struct frame_header){
        .kind = le_get32(p),
        .body_bytes = le_get32(p + 4),
        .position = le_get64(p + 8),
        .durable = le_get64(p + 16),
        .sum = le_get64(p + 24),
    };
}

bool frame_header_plausible(const struct frame_header *h, uint64_t position, uint64_t room) {
    if (h->position != position || h->durable > position)
        return false;
    if (h->kind == FRAME_DATA)
        return h->body_bytes > 0 && h->body_bytes % 8 == 0 &&
               (uint64_t)h->body_bytes + FRAME_HEADER_BYTES <= room;
    return (h->kind == FRAME_END || h->kind == FRAME_MARK) && h->body_bytes == 0;
}

void record_header_put(uint8_t *p, const struct record_header *h) {
    memset(p, 0, RECORD_HEADER_BYTES);
    le_put32(p, h->meta_bytes);
    le_put32(p + 4, h->data_bytes);
    p[8] = h->type;
    le_put64(p + 16, h->meta_sum);
    le_put64(p + 24, h->data_sum);
}

struct record_header record_header_get(const uint8_t *p) {
    return (struct record_header){
        .meta_bytes = le_get32(p),
        .data_bytes = le_get32(p + 4),
        .type = p[8],
        .meta_sum = le_get64(p + 16),
        .data_sum = le_get64(p + 24),
    };
}

uint64_t frame_sum_begin(const uint8_t *frame_header) {
    return hash64(span_of(frame_header, 24), 0);
}

uint64_t frame_sum_add(uint64_t sum, const uint8_t *record_header) {
    return hash64(span_of(record_header, RECORD_HEADER_BYTES), sum);
}

size_t frame_seal(uint8_t *p, uint64_t durable) {
    le_put64(p + 16, durable);
    size_t end = FRAME_HEADER_BYTES + le_get32(p + 4);
    uint64_t sum = frame_sum_begin(p);
    for (size_t at = FRAME_HEADER_BYTES; at < end;) {
        uint8_t *r = p + at;
        struct record_header h = record_header_get(r);
        const uint8_t *meta = r + RECORD_HEADER_BYTES;
        le_put64(r + 16, hash64(span_of(meta, h.meta_bytes), h.type));
        le_put64(r + 24, hash64(span_of(meta + h.meta_bytes, h.data_bytes), h.type));
        sum = frame_sum_add(sum, r);
        at += align8(RECORD_HEADER_BYTES + (size_t)h.meta_bytes + h.data_bytes);
        assert(at <= end);
    }
    le_put64(p + 24, sum);
    return end;
}

bool record_sums_hold(const struct record_header *h, struct span meta, struct span data) {
    return hash64(meta, h->type) == h->meta_sum && hash64(data, h->type) == h->data_sum;
}

static bool is_zero(const uint8_t *p, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (p[i] != 0)
            return false;
    return true;
}

bool frame_body_valid(const uint8_t *frame, const struct frame_header *h) {
    size_t end = FRAME_HEADER_BYTES + (size_t)h->body_bytes;
    uint64_t sum = frame_sum_begin(frame);
    for (size_t at = FRAME_HEADER_BYTES; at < end;) {
        if (end - at < RECORD_HEADER_BYTES)
            return false;
        const uint8_t *r = frame + at;
        struct record_header rh = record_header_get(r);
        size_t used = RECORD_HEADER_BYTES + (size_t)rh.meta_bytes + rh.data_bytes;
        if (align8(used) > end - at)
            return false;
        const uint8_t *meta = r + RECORD_HEADER_BYTES;
        if (!record_sums_hold(&rh, span_of(meta, rh.meta_bytes),
                              span_of(meta + rh.meta_bytes, rh.data_bytes)) ||
            !is_zero(r + used, align8(used) - used))
            return false;
        sum = frame_sum_add(sum, r);
        at += align8(used);
    }
    return sum == h->sum;
}
