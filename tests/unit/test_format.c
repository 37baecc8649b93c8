#include "base/le.h"
#include "base/rng.h"
#include "check.h"
#include "log/format.h"
#include "log/log.h"

#include <stdlib.h>

static void segment_header_round_trip(void) {
    uint8_t p[SEGMENT_HEADER_BYTES];
    const uint64_t numbers[] = {1, 2, 77, UINT64_MAX};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        memset(p, 0xff, sizeof p);
        segment_header_put(p, numbers[i], LOG_SEGMENT_BYTES);
        uint64_t number = 0, bytes = 0;
        CHECK(segment_header_get(p, &number, &bytes) == OK);
        CHECK(number == numbers[i]);
        CHECK_EQ(bytes, LOG_SEGMENT_BYTES);
    }
    CHECK(memcmp(p, "NIXIELOG", 8) == 0);
    CHECK_EQ(le_get32(p + 8), LOG_FORMAT_VERSION);
}

static void every_bit_of_a_segment_header_counts(void) {
    uint8_t p[SEGMENT_HEADER_BYTES];
    for (size_t bit = 0; bit < sizeof p * 8; bit++) {
        segment_header_put(p, 3, LOG_SEGMENT_BYTES_MIN);
        p[bit / 8] ^= (uint8_t)(1U << bit % 8);
        uint64_t number, bytes;
        enum err e = segment_header_get(p, &number, &bytes);
        CHECK(e == ERR_CORRUPT || (e == ERR_VERSION && bit / 8 >= 8 && bit / 8 < 12));
    }
}

static void a_newer_version_is_told_from_damage(void) {
    uint8_t p[SEGMENT_HEADER_BYTES];
    segment_header_put(p, 1, LOG_SEGMENT_BYTES);
    le_put32(p + 8, LOG_FORMAT_VERSION + 1);
    uint64_t number, bytes;
    CHECK(segment_header_get(p, &number, &bytes) == ERR_VERSION);
    memset(p, 0, sizeof p);
    CHECK(segment_header_get(p, &number, &bytes) == ERR_CORRUPT);
}

static void small_headers_round_trip(void) {
    uint8_t p[FRAME_HEADER_BYTES];
    const struct frame_header f = {FRAME_MARK, UINT32_MAX - 7, UINT64_MAX, UINT64_MAX - 1, 42};
    frame_header_put(p, &f);
    struct frame_header g = frame_header_get(p);
    CHECK(g.kind == f.kind && g.body_bytes == f.body_bytes && g.position == f.position &&
          g.durable == f.durable && g.sum == f.sum);

    uint8_t q[RECORD_HEADER_BYTES];
    const struct record_header r = {1, UINT32_MAX, 255, UINT64_MAX, 7};
    record_header_put(q, &r);
    struct record_header s = record_header_get(q);
    CHECK(s.meta_bytes == r.meta_bytes && s.data_bytes == r.data_bytes && s.type == r.type &&
          s.meta_sum == r.meta_sum && s.data_sum == r.data_sum);
}

static void what_a_frame_header_may_say(void) {
    struct frame_header h = {
        .kind = FRAME_DATA, .body_bytes = 64, .position = 1000, .durable = 900};
    CHECK(frame_header_plausible(&h, 1000, 96));
    CHECK(!frame_header_plausible(&h, 1000, 95)); /* does not fit what is left */
    CHECK(!frame_header_plausible(&h, 1008, 96)); /* stands elsewhere */
    h.durable = 1000;
    CHECK(frame_header_plausible(&h, 1000, 96));
    h.durable = 1001; /* nothing knows of what comes after itself */
    CHECK(!frame_header_plausible(&h, 1000, 96));
    h.durable = 0;
    h.body_bytes = 63;
    CHECK(!frame_header_plausible(&h, 1000, 960));
    h.body_bytes = 0;
    CHECK(!frame_header_plausible(&h, 1000, 960));
    h.kind = FRAME_END;
    CHECK(frame_header_plausible(&h, 1000, 32));
    h.kind = FRAME_MARK;
    CHECK(frame_header_plausible(&h, 1000, 32));
    h.body_bytes = 8;
    CHECK(!frame_header_plausible(&h, 1000, 960));
    h = (struct frame_header){0};
    CHECK(!frame_header_plausible(&h, 0, 960));
    h = (struct frame_header){.kind = FRAME_DATA, .body_bytes = UINT32_MAX - 7, .position = 8};
    CHECK(!frame_header_plausible(&h, 8, UINT32_MAX)); /* no wrap-around */
}

/* Two records, the first with padding; returns the frame's bytes. */
static size_t frame_make(uint8_t *p) {
    size_t at = FRAME_HEADER_BYTES;
    const uint32_t sizes[][2] = {{5, 6}, {8, 0}};
    memset(p, 0, 256);
    for (size_t i = 0; i < 2; i++) {
        record_header_put(p + at, &(struct record_header){.meta_bytes = sizes[i][0],
                                                          .data_bytes = sizes[i][1],
                                                          .type = (uint8_t)(i + 1)});
        memset(p + at + RECORD_HEADER_BYTES, 'a' + (int)i, sizes[i][0] + sizes[i][1]);
        at += align8(RECORD_HEADER_BYTES + (size_t)sizes[i][0] + sizes[i][1]);
    }
    frame_header_put(p, &(struct frame_header){.kind = FRAME_DATA,
                                               .body_bytes = (uint32_t)(at - FRAME_HEADER_BYTES),
                                               .position = 4096});
    return frame_seal(p, 128);
}

static bool frame_is_valid(const uint8_t *p, size_t n) {
    struct frame_header h = frame_header_get(p);
    return frame_header_plausible(&h, 4096, n) && frame_body_valid(p, &h);
}

static void every_bit_of_a_frame_counts(void) {
    uint8_t p[256];
    size_t n = frame_make(p);
    CHECK_EQ(n, 32 + 48 + 40);
    CHECK(frame_is_valid(p, n));
    CHECK_EQ(frame_header_get(p).durable, 128);
    for (size_t bit = 0; bit < n * 8; bit++) {
        p[bit / 8] ^= (uint8_t)(1U << bit % 8);
        CHECK(!frame_is_valid(p, n));
        p[bit / 8] ^= (uint8_t)(1U << bit % 8);
    }
    CHECK(frame_is_valid(p, n));
}

static void sealing_again_changes_nothing(void) {
    uint8_t p[256], q[256];
    size_t n = frame_make(p);
    memcpy(q, p, sizeof q);
    CHECK_EQ(frame_seal(q, 128), n);
    CHECK(memcmp(p, q, n) == 0);
    frame_seal(q, 136);
    CHECK(memcmp(p, q, n) != 0);
    CHECK(frame_is_valid(q, n));
}

static void a_record_can_be_verified_alone(void) {
    uint8_t p[256];
    frame_make(p);
    const uint8_t *r = p + FRAME_HEADER_BYTES;
    struct record_header h = record_header_get(r);
    struct span meta = span_of(r + RECORD_HEADER_BYTES, h.meta_bytes);
    struct span data = span_of(meta.p + meta.n, h.data_bytes);
    CHECK(record_sums_hold(&h, meta, data));
    h.type++; /* the sums know the type */
    CHECK(!record_sums_hold(&h, meta, data));
}

/* Any bytes: no crash, and never valid. */
static void noise_is_no_frame(void) {
    struct rng r;
    rng_seed(&r, 1);
    for (int i = 0; i < 20000; i++) {
        size_t n = align8(FRAME_HEADER_BYTES + (size_t)rng_below(&r, 200));
        uint8_t *p = malloc(n); /* of exactly that size: a sanitizer sees a read past it */
        for (size_t k = 0; k < n; k++)
            p[k] = (uint8_t)(rng_below(&r, 4) ? 0 : rng_u64(&r));
        struct frame_header h = {.kind = FRAME_DATA,
                                 .body_bytes = (uint32_t)(n - FRAME_HEADER_BYTES),
                                 .position = 8,
                                 .sum = rng_u64(&r)};
        frame_header_put(p, &h);
        if (h.body_bytes > 0)
            CHECK(!frame_body_valid(p, &h));
        free(p);
    }
}

int main(void) {
    RUN(segment_header_round_trip);
    RUN(every_bit_of_a_segment_header_counts);
    RUN(a_newer_version_is_told_from_damage);
    RUN(small_headers_round_trip);
    RUN(what_a_frame_header_may_say);
    RUN(every_bit_of_a_frame_counts);
    RUN(sealing_again_changes_nothing);
    RUN(a_record_can_be_verified_alone);
    RUN(noise_is_no_frame);
    return check_done();
}
