/* Header frames of AMQP: reading a publisher's, the property list that is kept, writing a delivery's. */
#include "amqp/be.h"
#include "amqp/content.h"
#include "unit/check.h"

static struct method_pool *pool;
static struct buf wire, out, json;

static void head(uint16_t class_id, uint64_t body, uint16_t flags) {
    buf_clear(&wire);
    be_add16(&wire, class_id);
    be_add16(&wire, 0);
    be_add64(&wire, body);
    be_add16(&wire, flags);
}
#define ADD(text) buf_add(&wire, text, sizeof(text) - 1)

static uint16_t flags_of(const enum property_place *p, size_t n) {
    uint16_t flags = 0;
    for (size_t i = 0; i < n; i++)
        flags |= PLACE_FLAG(p[i]);
    return flags;
}
#define FLAGS(...)                                                                                 \
    flags_of((enum property_place[]){__VA_ARGS__},                                                 \
             sizeof((enum property_place[]){__VA_ARGS__}) / sizeof(enum property_place))

static void test_properties_are_found(void) {
    struct content_head c;
    head(60, 300, 0);
    CHECK_EQ(content_head_read(buf_span(&wire), &c), OK);
    CHECK_EQ(c.body_bytes, 300);
    CHECK_EQ(content_delivery_mode(&c), 0);
    head(60, 1,
         FLAGS(PLACE_CONTENT_TYPE, PLACE_HEADERS, PLACE_DELIVERY_MODE, PLACE_PRIORITY,
               PLACE_EXPIRATION, PLACE_TIMESTAMP, PLACE_USER_ID));
    ADD("\4text");
    ADD("\0\0\0\x1d\2CCA\0\0\0\6S\0\0\0\1k\3BCCA\0\0\0\6S\0\0\0\1b");
    ADD("\2\5\4");
    ADD("1000");
    ADD("\0\0\0\0\0\0\0\1\5guest");
    CHECK_EQ(content_head_read(buf_span(&wire), &c), OK);
    CHECK(span_equal_str(content_text(&c, PLACE_CONTENT_TYPE), "text"));
    CHECK(span_equal_str(content_text(&c, PLACE_EXPIRATION), "1000"));
    CHECK(span_equal_str(content_text(&c, PLACE_USER_ID), "guest"));
    CHECK_EQ(content_text(&c, PLACE_REPLY_TO).n, 0);
    CHECK(!content_has(&c, PLACE_REPLY_TO));
    CHECK_EQ(content_delivery_mode(&c), 2);
    CHECK_EQ(content_priority(&c), 5);
    struct span keys[2];
    size_t n = 0;
    CHECK_EQ(content_keys(c.cc, keys, 2, &n), OK);
    CHECK_EQ(content_keys(c.bcc, keys, 2, &n), OK);
    CHECK(n == 2 && span_equal_str(keys[0], "k") && span_equal_str(keys[1], "b"));
    CHECK_EQ(content_keys(c.bcc, keys, 2, &n), ERR_TOO_LARGE);

    buf_clear(&out);
    content_properties(&c, &out);
    struct content_head kept;
    CHECK_EQ(content_read_properties(buf_span(&out), &kept), OK);
    CHECK(!content_has(&kept, PLACE_EXPIRATION) && content_has(&kept, PLACE_USER_ID));
    CHECK_EQ(content_headers(&kept).n, 4 + 14);
}

static void test_ill_formed_headers_are_refused(void) {
    struct content_head c;
    head(60, 0, 0);
    for (size_t n = 0; n < wire.n; n++)
        CHECK_EQ(content_head_read(span_of(wire.p, n), &c), ERR_INVALID);
    ADD("x");
    CHECK_EQ(content_head_read(buf_span(&wire), &c), ERR_INVALID);
    head(60, 0, 1);
    ADD("\0\0");
    CHECK_EQ(content_head_read(buf_span(&wire), &c), ERR_INVALID);
    head(60, 0, 2);
    CHECK_EQ(content_head_read(buf_span(&wire), &c), ERR_INVALID);
    head(60, 0, FLAGS(PLACE_TIMESTAMP));
    ADD("\0\0\0\0\0\0\0");
    CHECK_EQ(content_head_read(buf_span(&wire), &c), ERR_INVALID);
    head(60, 0, FLAGS(PLACE_HEADERS));
    ADD("\0\0\0\1");
    CHECK_EQ(content_head_read(buf_span(&wire), &c), ERR_INVALID);
    head(60, 0, FLAGS(PLACE_TYPE));
    ADD("\4abc");
    CHECK_EQ(content_head_read(buf_span(&wire), &c), ERR_INVALID);
    head(10, 0, 1);
    CHECK_EQ(content_head_read(buf_span(&wire), &c), OK);
    CHECK_EQ(c.class_id, 10);
    head(60, 0, FLAGS(PLACE_HEADERS));
    ADD("\0\0\0\x9\2CCS\0\0\0\1k");
    CHECK_EQ(content_head_read(buf_span(&wire), &c), OK);
    CHECK(c.bad_keys);
    head(60, 0, FLAGS(PLACE_HEADERS));
    ADD("\0\0\0\xa\2CCA\0\0\0\2t\1");
    CHECK_EQ(content_head_read(buf_span(&wire), &c), OK);
    struct span keys[4];
    size_t n = 0;
    CHECK_EQ(content_keys(c.cc, keys, 4, &n), ERR_INVALID);
}

/* What a client reads from the frame in `out`: its headers as JSON. */
static struct span read_back(struct content_head *ret) {
    struct frame f;
    const char *why;
    CHECK_EQ(frame_read(buf_span(&out), FRAME_MAX_MOST, &f, &why), FRAME_WHOLE);
    CHECK_EQ(f.bytes, out.n);
    CHECK_EQ(content_head_read(f.payload, ret), OK);
    buf_clear(&json);
    if (content_headers(ret).n > 0) {
        amqp_table_t t;
        CHECK_EQ(table_read(pool, content_headers(ret), &t), OK);
        table_to_json(&t, NULL, &json);
        method_pool_clear(pool);
    }
    return buf_span(&json);
}

static struct span span(const char *s) {
    return span_str(s);
}

static void kill_twice(struct envelope *v) {
    v->deaths[0] = (struct death){.queue = span("q2"),
                                  .reason = REASON_MAX_LENGTH,
                                  .count = 2,
                                  .at = 2999,
                                  .exchange = span("dlx"),
                                  .keys = {span("k"), span("cc")},
                                  .key_count = 2};
    v->deaths[1] = (struct death){.queue = span("q1"),
                                  .reason = REASON_EXPIRED,
                                  .is_first = true,
                                  .count = 1,
                                  .at = 1000,
                                  .keys = {span("k")},
                                  .key_count = 1,
                                  .expiration = span("5")};
    v->death_count = 2;
}

static void test_deaths_are_told_in_the_order_of_fields(void) {
    head(60, 0, FLAGS(PLACE_HEADERS, PLACE_TYPE));
    ADD("\0\0\0\xd\7x-deathV\1at\1\2ty");
    struct envelope v = {.properties = span_of(wire.p + 12, wire.n - 12)};
    kill_twice(&v);
    struct content_out c = {
        .body_bytes = 9, .envelope = &v, .delivery_count = 3, .acquired_count = 4};
    buf_clear(&out);
    CHECK(content_write(&out, 1, &c, 4096));
    struct content_head back;
    CHECK(span_equal_str(
        read_back(&back),
        "{\"a\":true,\"x-delivery-count\":3,\"x-acquired-count\":4,"
        "\"x-first-death-reason\":\"expired\",\"x-first-death-queue\":\"q1\","
        "\"x-first-death-exchange\":\"\",\"x-last-death-reason\":\"maxlen\","
        "\"x-last-death-queue\":\"q2\",\"x-last-death-exchange\":\"dlx\",\"x-death\":["
        "{\"count\":2,\"reason\":\"maxlen\",\"queue\":\"q2\",\"time\":2,\"exchange\":\"dlx\","
        "\"routing-keys\":[\"k\",\"cc\"]},"
        "{\"original-expiration\":\"5\",\"count\":1,\"reason\":\"expired\",\"queue\":\"q1\","
        "\"time\":1,\"exchange\":\"\",\"routing-keys\":[\"k\"]}]}"));
    CHECK_EQ(back.body_bytes, 9);
    CHECK(span_equal_str(content_text(&back, PLACE_TYPE), "ty"));
}

static void test_without_deaths_it_goes_as_it_came(void) {
    head(60, 0, FLAGS(PLACE_HEADERS, PLACE_TYPE));
    ADD("\0\0\0\x9\7x-deathV\2ty");
    wire.p[14 + 3] = 9;
    struct envelope v = {.properties = span_of(wire.p + 12, wire.n - 12), .expiration = span("77")};
    struct content_out c = {.envelope = &v};
    struct content_head back;
    buf_clear(&out);
    CHECK(content_write(&out, 1, &c, 4096));
    CHECK(span_equal_str(read_back(&back), "{\"x-death\":null}"));
    CHECK(span_equal_str(content_text(&back, PLACE_EXPIRATION), "77"));
    v = (struct envelope){0};
    buf_clear(&out);
    CHECK(content_write(&out, 1, &c, 4096));
    read_back(&back);
    CHECK_EQ(back.flags, 0);
    c.has_id = true;
    c.id = 5;
    c.lease = 1;
    buf_clear(&out);
    CHECK(content_write(&out, 1, &c, 4096));
    CHECK(span_equal_str(read_back(&back), "{\"x-nixie-id\":5,\"x-nixie-lease\":\"5-1\"}"));
}

static void test_messages_of_http_have_headers_from_json(void) {
    struct content_out c = {.headers = span("{\"a\":[1],\"x-death\":\"mine\"}"), .priority = 3};
    struct content_head back;
    buf_clear(&out);
    CHECK(content_write(&out, 1, &c, 4096));
    CHECK(span_equal(read_back(&back), c.headers));
    CHECK_EQ(content_delivery_mode(&back), 2);
    CHECK_EQ(content_priority(&back), 3);
    head(60, 0, FLAGS(PLACE_HEADERS, PLACE_TYPE));
    ADD("\0\0\0\4\1at\1\2ty");
    struct envelope v = {.properties = span_of(wire.p + 12, wire.n - 12)};
    c.envelope = &v;
    c.replaces_headers = true;
    buf_clear(&out);
    CHECK(content_write(&out, 1, &c, 4096));
    CHECK(span_equal(read_back(&back), c.headers));
    CHECK(span_equal_str(content_text(&back, PLACE_TYPE), "ty"));
}

static void test_a_frame_is_never_outgrown(void) {
    static char name[255];
    memset(name, 'q', sizeof name);
    struct envelope v = {0};
    v.death_count = ENVELOPE_DEATHS;
    for (unsigned i = 0; i < v.death_count; i++) {
        struct death *d = &v.deaths[i];
        *d = (struct death){
            .queue = span_of(name, sizeof name), .reason = REASON_REJECTED, .count = i};
        d->key_count = ENVELOPE_KEYS;
        for (unsigned k = 0; k < ENVELOPE_KEYS; k++)
            d->keys[k] = span_of(name, 200);
    }
    v.deaths[ENVELOPE_DEATHS - 1].is_first = true;
    struct content_out c = {.envelope = &v};
    struct content_head back;
    size_t before = 0;
    for (uint32_t max = FRAME_MAX_LEAST; max <= FRAME_MAX_MOST; max += 1000) {
        buf_clear(&out);
        CHECK(content_write(&out, 1, &c, max));
        CHECK(out.n <= max && out.n >= before);
        before = out.n;
        read_back(&back);
    }
    CHECK(before > 100000);
    /* its own header is too large for this consumer */
    head(60, 0, FLAGS(PLACE_HEADERS));
    be_add32(&wire, 6 + 5000);
    ADD("\0S");
    be_add32(&wire, 5000);
    for (int i = 0; i < 20; i++)
        buf_add(&wire, name, 250);
    v = (struct envelope){.properties = span_of(wire.p + 12, wire.n - 12)};
    kill_twice(&v);
    buf_clear(&out);
    CHECK(!content_write(&out, 1, &c, FRAME_MAX_LEAST));
    CHECK_EQ(out.n, 0);
    CHECK(content_write(&out, 1, &c, (uint32_t)wire.n + FRAME_OVERHEAD));
    CHECK_EQ(out.n, wire.n + FRAME_OVERHEAD);
    buf_clear(&out);
    CHECK(!content_write(&out, 1, &c, (uint32_t)wire.n + FRAME_OVERHEAD - 1));
}

static void test_bodies_are_split(void) {
    static uint8_t body[10000];
    buf_clear(&out);
    content_write_body(&out, 1, span_of(body, 0), 4096);
    CHECK_EQ(out.n, 0);
    content_write_body(&out, 1, span_of(body, 4088), 4096);
    CHECK_EQ(out.n, 4096);
    buf_clear(&out);
    content_write_body(&out, 1, span_of(body, sizeof body), 4096);
    CHECK_EQ(out.n, sizeof body + (size_t)3 * FRAME_OVERHEAD);
}

int main(void) {
    pool = method_pool_new();
    buf_init(&wire, 1 << 20);
    buf_init(&out, 1 << 20);
    buf_init(&json, 1 << 22);
    RUN(test_properties_are_found);
    RUN(test_ill_formed_headers_are_refused);
    RUN(test_deaths_are_told_in_the_order_of_fields);
    RUN(test_without_deaths_it_goes_as_it_came);
    RUN(test_messages_of_http_have_headers_from_json);
    RUN(test_a_frame_is_never_outgrown);
    RUN(test_bodies_are_split);
    buf_release(&wire);
    buf_release(&out);
    buf_release(&json);
    method_pool_free(pool);
    return check_done();
}
