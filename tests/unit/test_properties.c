/* Property lists: all of them, some, and those that make no sense. */
#include "check.h"

#include "model/properties.h"

static struct properties p;

#define READS(bytes) properties_read(span_of(bytes, sizeof(bytes) - 1), &p)

static void none(void) {
    CHECK(properties_read(span_of(NULL, 0), &p) && p.has == 0);
    CHECK(READS("\x00\x00") && p.has == 0 && p.content_type.n == 0);
}

static void some(void) {
    CHECK(READS("\x90\x00\x0atext/plain\x02"));
    CHECK_EQ(p.has, PROPERTY_CONTENT_TYPE | PROPERTY_DELIVERY_MODE);
    CHECK(span_equal_str(p.content_type, "text/plain") && p.delivery_mode == 2);
    CHECK(READS("\x04\x40\x00\x00\x00\x00\x00\x6a\x1d\x9b\x80"));
    CHECK(p.has & PROPERTY_CORRELATION_ID && p.correlation_id.n == 0);
    CHECK_EQ(p.timestamp, 0x6a1d9b80);
}

static const char all[] = "\xff\xfc\x01"
                          "a\x01"
                          "b\x00\x00\x00\x03\x01xV\x01\x09\x01"
                          "c\x01"
                          "d\x01"
                          "e\x01"
                          "f\xff\xff\xff\xff\xff\xff\xff\xff\x01"
                          "g\x01"
                          "h\x01"
                          "i\x01"
                          "j";

static void all_of_them(void) {
    CHECK(READS(all));
    CHECK_EQ(p.has, 0xfffc);
    CHECK(span_equal_str(p.content_type, "a") && span_equal_str(p.content_encoding, "b"));
    CHECK(span_equal_str(p.headers, "\001xV"));
    CHECK(p.delivery_mode == 1 && p.priority == 9 && p.timestamp == UINT64_MAX);
    CHECK(span_equal_str(p.correlation_id, "c") && span_equal_str(p.reply_to, "d"));
    CHECK(span_equal_str(p.expiration, "e") && span_equal_str(p.message_id, "f"));
    CHECK(span_equal_str(p.type, "g") && span_equal_str(p.user_id, "h"));
    CHECK(span_equal_str(p.app_id, "i") && span_equal_str(p.cluster_id, "j"));
}

static void what_makes_no_sense(void) {
    for (size_t n = 1; n < sizeof all - 1; n++)
        CHECK(!properties_read(span_of(all, n), &p));
    CHECK(!properties_read(span_of(all, sizeof all), &p)); /* a byte too many */
    CHECK(!READS("\x00\x01\x00\x00"));                     /* another word of flags */
    CHECK(!READS("\x00\x02"));
    CHECK(!READS("\x20\x00\xff\xff\xff\xff\x00"));
}

#define IS_TABLE(bytes) properties_headers_check(span_of(bytes, sizeof(bytes) - 1))

static void headers(void) {
    CHECK(properties_headers_check(span_of(NULL, 0)));
    CHECK(IS_TABLE("\001xV"));
    CHECK(IS_TABLE("\001at\001\001bb\001\001cB\001\001ds\001\002\001eu\001\002\001fU\001\002"));
    CHECK(IS_TABLE("\001aI1234\001bi1234\001cf1234\001dD12345\001el12345678\001fL12345678"
                   "\001gd12345678\001hT12345678"));
    CHECK(IS_TABLE("\001aS\0\0\0\002hi\001bx\0\0\0\0\001cA\0\0\0\003VtX\001dF\0\0\0\003\001xV"));
    CHECK(!IS_TABLE("\001x"));
    CHECK(!IS_TABLE("\002x"));
    CHECK(!IS_TABLE("\001x?"));
    CHECK(!IS_TABLE("\001aS\0\0\0\003hi"));
    CHECK(!IS_TABLE("\001aS\xff\xff\xff\xffhi"));
    CHECK(!IS_TABLE("\001cA\0\0\0\002Vt"));
    CHECK(!IS_TABLE("\001dF\0\0\0\002\001x"));
    CHECK(!IS_TABLE("\001al1234567"));
}

/* `depth` arrays within one another. */
static bool is_deep_good(unsigned depth) {
    uint8_t bytes[1000] = {1, 'a'};
    size_t n = 2;
    for (unsigned i = 0; i < depth; i++) {
        unsigned rest = 5 * (depth - i - 1);
        const uint8_t head[] = {'A', 0, 0, 0, (uint8_t)rest};
        memcpy(bytes + n, head, sizeof head);
        n += sizeof head;
    }
    return properties_headers_check(span_of(bytes, n));
}

static void headers_are_not_too_deep(void) {
    CHECK(is_deep_good(PROPERTIES_DEPTH_MAX - 1));
    CHECK(!is_deep_good(PROPERTIES_DEPTH_MAX));
}

int main(void) {
    RUN(none);
    RUN(some);
    RUN(all_of_them);
    RUN(what_makes_no_sense);
    RUN(headers);
    RUN(headers_are_not_too_deep);
    return check_done();
}
