#include "base/bytes.h"
#include "base/rng.h"
#include "check.h"

#include <inttypes.h>
#include <stdlib.h>

#define BYTES(text) span_of((text), sizeof(text) - 1)

static void spans_compare(void) {
    CHECK(span_equal(BYTES("ab\0c"), BYTES("ab\0c")));
    CHECK(!span_equal(BYTES("ab\0c"), BYTES("ab\0d")));
    CHECK(!span_equal(BYTES("ab"), BYTES("abc")));
    CHECK(span_equal(span_of(NULL, 0), span_str("")));
    CHECK(span_equal_str(BYTES("queue"), "queue"));
    CHECK(!span_equal_str(BYTES("queue\0"), "queue"));
    CHECK_EQ(span_str(NULL).n, 0);
}

static void utf8_is_recognised(void) {
    CHECK(span_is_utf8(span_of(NULL, 0)));
    CHECK(span_is_utf8(BYTES("plain, and with a NUL \0 in it, longer than a word")));
    CHECK(span_is_utf8(BYTES("\x7f")));
    CHECK(span_is_utf8(BYTES("\xc2\x80 \xdf\xbf")));         /* U+0080, U+07FF */
    CHECK(span_is_utf8(BYTES("\xe0\xa0\x80 \xef\xbf\xbf"))); /* U+0800, U+FFFF */
    CHECK(span_is_utf8(BYTES("\xed\x9f\xbf \xee\x80\x80"))); /* either side of the surrogates */
    CHECK(span_is_utf8(BYTES("\xf0\x90\x80\x80 \xf4\x8f\xbf\xbf"))); /* U+10000, U+10FFFF */
}

static void utf8_is_refused(void) {
    static const char *const wrong[] = {
        "\x80",             /* a continuation alone */
        "\xbf",             /* and the last of them */
        "\xc0\x80",         /* overlong NUL */
        "\xc1\xbf",         /* overlong U+007F */
        "\xc2",             /* cut short */
        "\xc2 ",            /* interrupted */
        "\xe0\x9f\xbf",     /* overlong U+07FF */
        "\xe1\x80",         /* cut short */
        "\xe1\x80 ",        /* interrupted */
        "\xed\xa0\x80",     /* the first surrogate */
        "\xed\xbf\xbf",     /* the last */
        "\xf0\x8f\xbf\xbf", /* overlong U+FFFF */
        "\xf1\x80\x80",     /* cut short */
        "\xf4\x90\x80\x80", /* U+110000 */
        "\xf5\x80\x80\x80", /* beyond */
        "\xff",             /* never */
        "\xfe",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK(!span_is_utf8(span_str(wrong[i])));
        /* The fast path must not step over it, wherever it stands. */
        for (size_t before = 0; before < 20; before++) {
            char text[64];
            int n = snprintf(text, sizeof text, "%.*s%sxxxxxxxxx", (int)before,
                             "aaaaaaaaaaaaaaaaaaaa", wrong[i]);
            CHECK(!span_is_utf8(span_of(text, (size_t)n)));
        }
    }
}

static size_t put_code_point(uint8_t *p, uint32_t c) {
    if (c < 0x80) {
        p[0] = (uint8_t)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, c >>= 6)
        p[i] = (uint8_t)(0x80 | (c & 0x3f));
    static const uint8_t first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    p[0] = (uint8_t)(first[n] | c);
    return n;
}

static void every_code_point_is_utf8(void) {
    unsigned wrong = 0;
    for (uint32_t c = 0; c < 0x110000; c++) {
        uint8_t text[4];
        bool is_surrogate = c >= 0xd800 && c <= 0xdfff;
        if (span_is_utf8(span_of(text, put_code_point(text, c))) == is_surrogate)
            wrong++;
    }
    CHECK_EQ(wrong, 0);
}

static void cuts_keep_characters_whole(void) {
    struct rng rng;
    rng_seed(&rng, 1);
    for (int round = 0; round < 2000; round++) {
        uint8_t text[128];
        size_t n = 0;
        while (n < 100) {
            static const uint32_t below[] = {0x80, 0x800, 0xd800, 0x110000};
            uint32_t c = (uint32_t)rng_below(&rng, below[rng_below(&rng, 4)]);
            if (c < 0xd800 || c > 0xdfff)
                n += put_code_point(text + n, c);
        }
        size_t at = (size_t)rng_below(&rng, n + 10);
        struct span cut = span_cut_utf8(span_of(text, n), at);
        CHECK(cut.p == text && cut.n <= at && cut.n <= n);
        CHECK(span_is_utf8(cut));
        CHECK(at >= n ? cut.n == n : at - cut.n < 4);
    }
}

static void cuts_of_other_bytes_end(void) {
    CHECK_EQ(span_cut_utf8(BYTES("\x80\x80\x80\x80\x80\x80"), 5).n, 5);
    CHECK_EQ(span_cut_utf8(BYTES("\x80\x80"), 1).n, 1);
    CHECK_EQ(span_cut_utf8(BYTES("\xe2\x82\xac"), 2).n, 0);
    CHECK_EQ(span_cut_utf8(BYTES("a\xe2\x82\xac"), 3).n, 1);
    CHECK_EQ(span_cut_utf8(BYTES("abc"), 0).n, 0);
    CHECK_EQ(span_cut_utf8(span_of(NULL, 0), 0).n, 0);
}

static void buffers_grow_to_their_maximum(void) {
    struct buf b;
    buf_init(&b, 1000);
    CHECK(b.p == NULL);
    for (int i = 0; i < 1000; i++)
        buf_add_byte(&b, (uint8_t)i);
    CHECK_EQ(b.n, 1000);
    CHECK_EQ(b.cap, 1000);
    for (int i = 0; i < 1000; i++)
        CHECK_EQ(b.p[i], (uint8_t)i);

    buf_clear(&b);
    CHECK_EQ(b.n, 0);
    CHECK_EQ(b.cap, 1000);
    buf_release(&b);
    CHECK(b.p == NULL && b.n == 0 && b.cap == 0);

    buf_init(&b, 3); /* less than a first allocation */
    buf_add_str(&b, "abc");
    CHECK_EQ(b.cap, 3);
    buf_release(&b);
}

static void consuming_keeps_the_rest(void) {
    struct buf b;
    buf_init(&b, 100);
    buf_consume(&b, 0);
    buf_add_str(&b, "hello, world");
    buf_consume(&b, 7);
    CHECK(span_equal_str(buf_span(&b), "world"));
    buf_consume(&b, 5);
    CHECK_EQ(b.n, 0);
    buf_release(&b);
}

static void decimals_are_those_of_printf(void) {
    static const uint64_t edges[] = {0, 9, 10, 99, 100, INT64_MAX, (uint64_t)INT64_MIN, UINT64_MAX};
    struct rng rng;
    rng_seed(&rng, 2);
    struct buf b;
    buf_init(&b, 100);
    for (int i = 0; i < 10000; i++) {
        uint64_t v = i < 8 ? edges[i] : rng_u64(&rng) >> rng_below(&rng, 64);
        char expected[64];
        snprintf(expected, sizeof expected, "%" PRIu64 " %" PRId64, v, (int64_t)v);
        buf_clear(&b);
        buf_add_u64(&b, v);
        buf_add_byte(&b, ' ');
        buf_add_i64(&b, (int64_t)v);
        CHECK(span_equal_str(buf_span(&b), expected));
    }
    buf_release(&b);
}

static void printf_fits_exactly(void) {
    struct buf b;
    buf_init(&b, 1002);
    buf_add_byte(&b, '<');
    buf_printf(&b, "%01000d", 7); /* longer than what is kept on the stack */
    buf_printf(&b, "%s", ">");
    CHECK_EQ(b.n, 1002);
    CHECK(b.p[0] == '<' && b.p[1] == '0' && b.p[1000] == '7' && b.p[1001] == '>');
    buf_release(&b);
}

int main(void) {
    RUN(spans_compare);
    RUN(utf8_is_recognised);
    RUN(utf8_is_refused);
    RUN(every_code_point_is_utf8);
    RUN(cuts_keep_characters_whole);
    RUN(cuts_of_other_bytes_end);
    RUN(buffers_grow_to_their_maximum);
    RUN(consuming_keeps_the_rest);
    RUN(decimals_are_those_of_printf);
    RUN(printf_fits_exactly);
    return check_done();
}
