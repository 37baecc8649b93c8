/* Packed envelopes: what is accepted is what packing it again gives, byte for byte; it stays within
 * its bounds through any deaths, and comes back. */
#include "model/envelope.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const enum reason reasons[] = {REASON_REJECTED, REASON_EXPIRED, REASON_MAX_LENGTH,
                                      REASON_DELIVERY_LIMIT};

static struct envelope v, back;

static void check_packs(struct buf *out) {
    buf_clear(out);
    envelope_pack(out, &v);
    assert(out->n <= ENVELOPE_BYTES_MAX + v.properties.n);
    assert(envelope_unpack(buf_span(out), &back) == OK);
    assert(back.death_count == v.death_count && back.key_count == v.key_count);
    assert(span_equal(back.properties, v.properties));
}

/* Dies wherever its own first bytes say, again and again. */
static void check_deaths(struct span input, struct buf *out) {
    for (size_t i = 0; i < input.n && i < 40; i++) {
        uint8_t c = input.p[i];
        struct span queue = span_of(input.p, c % 32U < input.n ? c % 32U : input.n);
        enum reason reason = reasons[c >> 6];
        envelope_die(&v, queue, reason, c, queue, c & 32 ? &queue : NULL);
        assert(v.deaths[0].reason == reason && span_equal(v.deaths[0].queue, queue));
        assert(envelope_makes_cycle(&v, queue) == (reason != REASON_REJECTED));
        assert(v.death_count > 0 && v.death_count <= ENVELOPE_DEATHS && v.expiration.n == 0);
        check_packs(out);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct span input = span_of(data, size);
    struct buf out;
    buf_init(&out, ENVELOPE_BYTES_MAX + size);
    if (envelope_unpack(input, &v) == OK) {
        check_packs(&out);
        assert(span_equal(buf_span(&out), input));
        check_deaths(input, &out);
    }
    buf_release(&out);
    return 0;
}
