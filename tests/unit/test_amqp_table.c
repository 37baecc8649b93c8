/* Field tables of AMQP: the walk, JSON both ways. */
#include "amqp/be.h"
#include "amqp/method.h"
#include "unit/check.h"

#include <math.h>

static struct method_pool *pool;

/* The entries with their length before them. */
static struct span table(struct buf *b, const char *entries, size_t n) {
    buf_clear(b);
    be_add32(b, (uint32_t)n);
    buf_add(b, entries, n);
    return buf_span(b);
}

static bool is_json(const char *entries, size_t n, const char *skip, const char *expected) {
    struct buf wire, json;
    buf_init(&wire, 1 << 20);
    buf_init(&json, 1 << 20);
    amqp_table_t t;
    bool ok = table_read(pool, table(&wire, entries, n), &t) == OK;
    if (ok) {
        table_to_json(&t, skip, &json);
        ok = span_equal_str(buf_span(&json), expected);
        if (!ok)
            printf("# %.*s\n", (int)json.n, json.p);
        struct buf again;
        buf_init(&again, 1 << 20);
        table_write(&t, &again);
        ok = ok && again.n == wire.n;
        buf_release(&again);
    }
    buf_release(&wire);
    buf_release(&json);
    method_pool_clear(pool);
    return ok;
}
#define IS_JSON(entries, expected) CHECK(is_json(entries, sizeof(entries) - 1, NULL, expected))

static void test_every_letter_becomes_json(void) {
    IS_JSON("", "{}");
    IS_JSON("\1at\1", "{\"a\":true}");
    IS_JSON("\1ab\xff", "{\"a\":-1}");
    IS_JSON("\1aB\xff", "{\"a\":255}");
    IS_JSON("\1as\xff\xfe", "{\"a\":-2}");
    IS_JSON("\1aU\xff\xfe", "{\"a\":-2}");
    IS_JSON("\1au\xff\xfe", "{\"a\":65534}");
    IS_JSON("\1aI\xff\xff\xff\xff", "{\"a\":-1}");
    IS_JSON("\1ai\xff\xff\xff\xff", "{\"a\":4294967295}");
    IS_JSON("\1al\xff\xff\xff\xff\xff\xff\xff\xff", "{\"a\":-1}");
    IS_JSON("\1aL\0\0\0\1\0\0\0\0", "{\"a\":4294967296}");
    IS_JSON("\1aT\0\0\0\0\0\0\0\7", "{\"a\":7}");
    IS_JSON("\1ad\x3f\xf8\0\0\0\0\0\0", "{\"a\":1.5}");
    IS_JSON("\1af\x3f\xc0\0\0", "{\"a\":1.5}");
    IS_JSON("\1ad\x7f\xf8\0\0\0\0\0\0", "{\"a\":null}");
    IS_JSON("\1aD\2\0\0\1\0", "{\"a\":256e-2}");
    IS_JSON("\1aV", "{\"a\":null}");
    IS_JSON("\1aS\0\0\0\2h\"", "{\"a\":\"h\\\"\"}");
    IS_JSON("\1aS\0\0\0\1\xff", "{\"a\":{\"base64\":\"/w==\"}}");
    IS_JSON("\1ax\0\0\0\1h", "{\"a\":{\"base64\":\"aA==\"}}");
    IS_JSON("\1aF\0\0\0\3\1bV", "{\"a\":{\"b\":null}}");
    IS_JSON("\1aA\0\0\0\4t\0t\1", "{\"a\":[false,true]}");
}

static void test_keys_that_json_cannot_have_are_left_out(void) {
    IS_JSON("\1at\1\1bt\0\1at\0", "{\"a\":true,\"b\":false}");
    IS_JSON("\1\xfft\1\1bt\0", "{\"b\":false}");
    IS_JSON("\2a\0t\1\1bt\0", "{\"b\":false}");
    CHECK(is_json("\3BCCV\1aF\0\0\0\5\3BCCV", 17, "BCC", "{\"a\":{\"BCC\":null}}"));
}

static bool is_checked(const char *wire, size_t n, size_t *ret) {
    return table_check(span_of(wire, n), ret);
}

static void test_the_walk_refuses_what_lies(void) {
    size_t n = 0;
    CHECK(!is_checked("\0\0\0", 3, NULL));
    CHECK(is_checked("\0\0\0\0", 4, NULL));
    CHECK(!is_checked("\0\0\0\0x", 5, NULL));
    CHECK(is_checked("\0\0\0\0x", 5, &n) && n == 4);
    CHECK(!is_checked("\0\0\0\1", 4, NULL));
    CHECK(!is_checked("\0\0\0\1a", 5, NULL));
    CHECK(!is_checked("\0\0\0\3\1az", 7, NULL));           /* no such letter */
    CHECK(!is_checked("\0\0\0\4\1aI\0\0\0\0", 11, &n));    /* a value past its table */
    CHECK(!is_checked("\0\0\0\x7\1aF\0\0\0\1", 11, NULL)); /* a table past its table */
    CHECK(!is_checked("\0\0\0\x8\1aS\xff\xff\xff\xffx", 12, NULL));
    CHECK(!is_checked("\0\0\0\x9\1aF\0\0\0\2\1b", 13, NULL)); /* an entry past its table */
}

/* n tables (or arrays) within one another. */
static bool nests(unsigned n, bool arrays) {
    struct buf b;
    buf_init(&b, 1 << 20);
    size_t entry = arrays ? 5 : 7;
    for (unsigned i = 0; i < n; i++) {
        be_add32(&b, (uint32_t)(entry * (n - 1 - i) + (arrays && i == 0 && n > 1 ? 2 : 0)));
        if (i + 1 < n && (!arrays || i == 0))
            buf_add(&b, "\1aF", 3);
        if (i + 1 < n && arrays) {
            if (i == 0)
                b.n--;
            buf_add_byte(&b, 'A');
        }
    }
    bool ok = table_check(buf_span(&b), NULL);
    buf_release(&b);
    return ok;
}

static void test_depth_is_bounded(void) {
    CHECK(nests(1, false) && nests(2, false) && nests(TABLE_DEPTH_MAX, false));
    CHECK(!nests(TABLE_DEPTH_MAX + 1, false) && !nests(10000, false));
    CHECK(nests(2, true) && nests(TABLE_DEPTH_MAX, true));
    CHECK(!nests(TABLE_DEPTH_MAX + 1, true) && !nests(10000, true));
}

static struct json *parse(const char *text) {
    struct json_error error;
    return json_parse(span_str(text), &error);
}

static void test_json_becomes_a_table_and_is_json_again(void) {
    const char *text = "{\"s\":\"\xc3\xa4\",\"i\":-5,\"d\":1.5,\"t\":true,\"n\":null,"
                       "\"a\":[1,[],{\"x\":\"\"}],\"o\":{},\"b\":{\"base64\":\"AAE=\"},"
                       "\"no\":{\"base64\":\"?\"},\"m\":9223372036854775807}";
    struct json *root = parse(text);
    amqp_table_t t = table_from_json(pool, root);
    CHECK_EQ(t.num_entries, 10);
    const char kinds[] = "SldtVAFxFl";
    for (int i = 0; i < t.num_entries; i++)
        CHECK_EQ(t.entries[i].value.kind, kinds[i]);
    struct buf out;
    buf_init(&out, 1 << 20);
    table_to_json(&t, NULL, &out);
    CHECK(span_equal_str(buf_span(&out), text));
    buf_release(&out);
    json_free(root);
    method_pool_clear(pool);
}

static void test_deep_json_is_cut(void) {
    struct buf text, out;
    buf_init(&text, 1 << 20);
    buf_init(&out, 1 << 20);
    for (int i = 0; i < 1000; i++)
        buf_add_str(&text, "{\"a\":");
    buf_add_str(&text, "1");
    for (int i = 0; i < 1000; i++)
        buf_add_str(&text, "}");
    struct json_error error;
    struct json *root = json_parse(buf_span(&text), &error);
    CHECK(root != NULL);
    table_wire_from_json(root, &out);
    CHECK(table_check(buf_span(&out), NULL));
    json_free(root);
    buf_release(&text);
    buf_release(&out);
}

static void test_letters_are_made_readable(void) {
    static const char before[] = "\1aL\0\0\0\0\0\0\0\1\1bF\0\0\0\5\1cU\0\1\1dA\0\0\0\3U\0\2";
    static const char after[] = "\1al\0\0\0\0\0\0\0\1\1bF\0\0\0\5\1cs\0\1\1dA\0\0\0\3s\0\2";
    struct buf b;
    buf_init(&b, 1 << 20);
    table(&b, before, sizeof before - 1);
    CHECK(table_check(buf_span(&b), NULL));
    table_normalise(b.p, b.n);
    CHECK(span_equal(span_of(b.p + 4, b.n - 4), span_of(after, sizeof after - 1)));
    buf_release(&b);
}

static void test_numbers_are_widened(void) {
    static const char before[] =
        "\1ab\xfe\3BCCV\1bB\xfe\1cs\xff\xfe\1dU\xff\xfd\1eu\xff\xfe"
        "\1fi\xff\xff\xff\xff\1gL\0\0\0\0\0\0\0\7\1hI\xff\xff\xff\xff"
        "\1jF\0\0\0\x11\3BCCb\1\1kA\0\0\0\4b\2t\1\1mf\x3f\xc0\0\0\1nS\0\0\0\1s";
    struct buf b, out, json, wide;
    buf_init(&b, 1 << 20);
    buf_init(&out, 1 << 20);
    buf_init(&json, 1 << 20);
    buf_init(&wide, 1 << 20);
    table(&b, before, sizeof before - 1);
    CHECK(table_check(buf_span(&b), NULL));
    table_add_widened(buf_span(&b), "BCC", &out);
    CHECK(table_check(buf_span(&out), NULL));
    struct span rest = span_of(out.p + 4, out.n - 4);
    struct table_item item;
    while (table_next(&rest, &item))
        buf_add_byte(&wide, item.letter);
    CHECK(span_equal_str(buf_span(&wide), "lllllllIFfS"));
    amqp_table_t t;
    CHECK(table_read(pool, buf_span(&out), &t) == OK);
    table_to_json(&t, NULL, &json);
    CHECK(
        span_equal_str(buf_span(&json),
                       "{\"a\":-2,\"b\":254,\"c\":-2,\"d\":-3,\"e\":65534,\"f\":4294967295,\"g\":7,"
                       "\"h\":-1,\"j\":{\"BCC\":1,\"k\":[2,true]},\"m\":1.5,\"n\":\"s\"}"));
    method_pool_clear(pool);
    buf_release(&b);
    buf_release(&out);
    buf_release(&json);
    buf_release(&wide);
}

int main(void) {
    pool = method_pool_new();
    RUN(test_every_letter_becomes_json);
    RUN(test_keys_that_json_cannot_have_are_left_out);
    RUN(test_the_walk_refuses_what_lies);
    RUN(test_depth_is_bounded);
    RUN(test_json_becomes_a_table_and_is_json_again);
    RUN(test_deep_json_is_cut);
    RUN(test_letters_are_made_readable);
    RUN(test_numbers_are_widened);
    method_pool_free(pool);
    return check_done();
}
