#include "base/json.h"
#include "base/rng.h"
#include "check.h"

#include <math.h>
#include <stdlib.h>

#define BYTES(text) span_of((text), sizeof(text) - 1)

static struct json *parse(struct span text) {
    struct json_error error;
    struct json *root = json_parse(text, &error);
    if (root == NULL)
        printf("# %d:%d %s\n", error.line, error.column, error.text);
    return root;
}

static bool is_refused(struct span text) {
    struct json_error error = {.line = -1};
    struct json *root = json_parse(text, &error);
    if (root == NULL)
        return error.line != -1 && error.text[0] != '\0' && span_is_utf8(span_str(error.text));
    json_free(root);
    return false;
}

/* True when text is read and written again as expected. */
static bool dumps_as(struct span text, const char *expected) {
    struct json *root = parse(text);
    if (root == NULL)
        return false;
    struct buf out;
    buf_init(&out, 1 << 20);
    json_dump(root, &out);
    bool is_same = span_equal_str(buf_span(&out), expected);
    if (!is_same)
        printf("# got %.*s\n", (int)out.n, (const char *)out.p);
    buf_release(&out);
    json_free(root);
    return is_same;
}

static void kinds(void) {
    static const struct {
        const char *text;
        enum json_kind kind;
    } cases[] = {
        {"null", JSON_NULL},   {"true", JSON_BOOL}, {"false", JSON_BOOL},
        {"7", JSON_INTEGER},   {"7.5", JSON_REAL},  {"7e0", JSON_REAL},
        {"\"\"", JSON_STRING}, {"[]", JSON_ARRAY},  {"{}", JSON_OBJECT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct json *root = parse(span_str(cases[i].text));
        CHECK(root != NULL);
        CHECK(json_kind_of(root) == cases[i].kind);
        for (int kind = JSON_NULL; kind <= JSON_OBJECT; kind++)
            CHECK(json_is(root, (enum json_kind)kind) == (kind == (int)cases[i].kind));
        json_free(root);
    }
    CHECK(!json_is(NULL, JSON_NULL));
    json_free(NULL);
}

static void values(void) {
    struct json *root = parse(BYTES("{\"min\": -9223372036854775808, \"max\": 9223372036854775807,"
                                    " \"real\": 2.5, \"yes\": true, \"no\": false,"
                                    " \"text\": \"a\\u0000b\\u20ac\", \"list\": [1, [2], {}]}"));
    CHECK(root != NULL);
    CHECK_EQ(json_count(root), 7);
    CHECK(json_integer(json_get(root, "min")) == INT64_MIN);
    CHECK(json_integer(json_get(root, "max")) == INT64_MAX);
    CHECK(json_number(json_get(root, "real")) == 2.5);
    CHECK(json_number(json_get(root, "max")) == (double)INT64_MAX);
    CHECK(json_bool(json_get(root, "yes")));
    CHECK(!json_bool(json_get(root, "no")));
    CHECK(span_equal(json_string(json_get(root, "text")), BYTES("a\0b\xe2\x82\xac")));

    const struct json *list = json_get(root, "list");
    CHECK_EQ(json_count(list), 3);
    CHECK_EQ(json_integer(json_at(list, 0)), 1);
    CHECK_EQ(json_count(json_at(list, 1)), 1);
    CHECK_EQ(json_count(json_at(list, 2)), 0);
    CHECK_EQ(json_count(json_get(root, "text")), 0);
    CHECK_EQ(json_count(NULL), 0);

    CHECK(json_get(root, "none") == NULL);
    CHECK(json_get(list, "none") == NULL);
    CHECK(json_get(NULL, "none") == NULL);
    json_free(root);
}

static void other_texts_are_refused(void) {
    CHECK(is_refused(span_of(NULL, 0)));
    CHECK(is_refused(BYTES(" ")));
    CHECK(is_refused(BYTES("{")));
    CHECK(is_refused(BYTES("{\"a\": 1,}")));
    CHECK(is_refused(BYTES("[1 2]")));
    CHECK(is_refused(BYTES("{} {}")));
    CHECK(is_refused(BYTES("1 trailing")));
    CHECK(is_refused(BYTES("{\"a\": 1, \"a\": 2}")));
    CHECK(is_refused(BYTES("{\"a\": 1, \"\\u0061\": 2}")));
    CHECK(is_refused(BYTES("{\"a\\u0000b\": 1}")));
    CHECK(is_refused(BYTES("\"a\nb\"")));
    CHECK(is_refused(BYTES("\"a\0b\"")));
    CHECK(is_refused(BYTES("\"\xff\"")));
    CHECK(is_refused(BYTES("\"\xc0\x80\"")));
    CHECK(is_refused(BYTES("\"\\ud800\"")));
    CHECK(is_refused(BYTES("\"\\udc00\\ud800\"")));
    CHECK(is_refused(BYTES("'a'")));
    CHECK(is_refused(BYTES("NaN")));
    CHECK(is_refused(BYTES("Infinity")));
    CHECK(is_refused(BYTES("01")));
    CHECK(is_refused(BYTES("-")));
    CHECK(is_refused(BYTES("-a")));
    CHECK(is_refused(BYTES(".5")));
    CHECK(is_refused(BYTES("1e")));
    CHECK(is_refused(BYTES("1e+")));
    CHECK(is_refused(BYTES("0x1")));
    CHECK(is_refused(BYTES("-9223372036854775809")));
    CHECK(is_refused(BYTES("99999999999999999999999999")));
    CHECK(is_refused(BYTES("-1e999")));
    CHECK(is_refused(BYTES("tru")));
    CHECK(is_refused(BYTES("truex")));
    CHECK(is_refused(BYTES("nul")));
    CHECK(is_refused(BYTES("[1")));
    CHECK(is_refused(BYTES("[1,")));
    CHECK(is_refused(BYTES("[1,]")));
    CHECK(is_refused(BYTES("[,1]")));
    CHECK(is_refused(BYTES("]")));
    CHECK(is_refused(BYTES("{\"a\"")));
    CHECK(is_refused(BYTES("{\"a\":")));
    CHECK(is_refused(BYTES("{\"a\" 1}")));
    CHECK(is_refused(BYTES("{a: 1}")));
    CHECK(is_refused(BYTES("{1: 1}")));
    CHECK(is_refused(BYTES("{]")));
    CHECK(is_refused(BYTES("\"")));
    CHECK(is_refused(BYTES("\"\\")));
    CHECK(is_refused(BYTES("\"\\x\"")));
    CHECK(is_refused(BYTES("\"\\u12\"")));
    CHECK(is_refused(BYTES("\"\\u12g4\"")));
    CHECK(is_refused(BYTES("\"\\ud800x\"")));
    CHECK(is_refused(BYTES("\"\\ud800\\ud800\"")));
    CHECK(is_refused(BYTES("\"\\udfff\"")));
    CHECK(is_refused(BYTES("// comment\n1")));
    CHECK(is_refused(BYTES("\f1")));
    CHECK(is_refused(BYTES("+1")));
    CHECK(is_refused(BYTES("1.")));
    CHECK(is_refused(BYTES("9223372036854775808")));
    CHECK(is_refused(BYTES("1e999")));
    CHECK(is_refused(BYTES("\xef\xbb\xbf{}")));
    CHECK(is_refused(BYTES("{}\0")));
}

static void errors_say_where(void) {
    struct json_error error;
    CHECK(json_parse(BYTES("{\n  \"a\": 1,\n  oops\n}"), &error) == NULL);
    CHECK_EQ(error.line, 3);
    CHECK_EQ(error.column, 3);
    CHECK(strcmp(error.text, "'o' where a name in quotes is expected") == 0);

    CHECK(json_parse(BYTES("[\"\xe2\x82\xac\", 01]"), &error) == NULL);
    CHECK_EQ(error.line, 1);
    CHECK_EQ(error.column, 8); /* in characters */
    CHECK(json_parse(BYTES("[\n"), &error) == NULL);
    CHECK_EQ(error.line, 2);
    CHECK_EQ(error.column, 1);

    /* A long name is quoted, cut between two characters. */
    for (size_t shift = 0; shift < 4; shift++) {
        char name[200] = {0}, text[500];
        memset(name, 'x', shift);
        for (size_t i = shift; i + 3 < sizeof name; i += 3)
            memcpy(name + i, "\xe2\x82\xac", 3);
        snprintf(text, sizeof text, "{\"%s\": 1, \"%s\": 2}", name, name);
        CHECK(is_refused(span_str(text)));
    }
}

/* Names are compared each with each in a small object and by a table in a large one. */
static void doubles_are_found_in_any_size(void) {
    struct rng rng;
    rng_seed(&rng, 4);
    struct buf text;
    buf_init(&text, 1 << 20);
    for (unsigned members = 1; members < 2000; members += members < 100 ? 1 : 97) {
        for (int with_double = 0; with_double < 2; with_double++) {
            unsigned which = (unsigned)rng_below(&rng, members);
            buf_clear(&text);
            buf_add_byte(&text, '{');
            for (unsigned i = 0; i < members; i++)
                buf_printf(&text, "\"n%u\":%u,", i, i);
            buf_printf(&text, "\"n%u\":0}", with_double ? which : members);
            if (with_double) {
                CHECK(is_refused(buf_span(&text)));
                continue;
            }
            struct json *root = parse(buf_span(&text));
            char name[20];
            snprintf(name, sizeof name, "n%u", which);
            CHECK_EQ(json_count(root), members + 1);
            CHECK_EQ(json_integer(json_get(root, name)), which);
            json_free(root);
        }
    }
    buf_release(&text);
}

static void nesting_is_bounded(void) {
    enum { DEEP = 100000 };
    char *text = malloc(DEEP);
    memset(text, '[', DEEP);
    CHECK(is_refused(span_of(text, DEEP)));

    memset(text, '[', 2000);
    memset(text + 2000, ']', 2000);
    struct json *root = parse(span_of(text, 4000));
    CHECK(root != NULL);
    struct buf out;
    buf_init(&out, 5000);
    json_dump(root, &out);
    CHECK(span_equal(buf_span(&out), span_of(text, 4000)));
    buf_release(&out);
    json_free(root);
    free(text);
}

struct names {
    char text[64];
    size_t stop_after;
};

static bool collect_name(void *ctx, const char *name, const struct json *member) {
    struct names *names = ctx;
    size_t n = strlen(names->text);
    snprintf(names->text + n, sizeof names->text - n, "%s%lld ", name,
             (long long)json_integer(member));
    return --names->stop_after > 0;
}

static void members_keep_their_order(void) {
    struct json *root = parse(BYTES("{\"z\": 1, \"a\": 2, \"m\": 3, \"b\": 4}"));
    struct names all = {.stop_after = 100};
    CHECK(json_each(root, collect_name, &all));
    CHECK(strcmp(all.text, "z1 a2 m3 b4 ") == 0);

    struct names two = {.stop_after = 2};
    CHECK(!json_each(root, collect_name, &two));
    CHECK(strcmp(two.text, "z1 a2 ") == 0);
    json_free(root);
}

static void dumping_is_faithful(void) {
    CHECK(dumps_as(BYTES(" { \"b\" : [ 1 , -2.5, 1.0, 1e2, null ] , \"a\" : true } "),
                   "{\"b\":[1,-2.5,1.0,100.0,null],\"a\":true}"));
    CHECK(dumps_as(BYTES("{\"a\\\"\\\\\\n\": \"\\/\\u001f\\u007f\\u0000\"}"),
                   "{\"a\\\"\\\\\\n\":\"/\\u001f\x7f\\u0000\"}"));
    CHECK(dumps_as(BYTES("\"\\ud83d\\ude00\""), "\"\xf0\x9f\x98\x80\""));
    CHECK(dumps_as(BYTES("1e300"), "1e+300"));
    CHECK(dumps_as(BYTES("0.1"), "0.1"));
    CHECK(dumps_as(BYTES("[]"), "[]"));
    CHECK(dumps_as(BYTES("{}"), "{}"));
}

static void the_writer_puts_commas(void) {
    struct buf out;
    struct json_writer w;
    buf_init(&out, 1000);
    json_writer_init(&w, &out);
    json_begin(&w, '{');
    json_name(&w, "empty");
    json_begin(&w, '[');
    json_end(&w, ']');
    json_name(&w, "list");
    json_begin(&w, '[');
    json_put_i64(&w, -1);
    json_put_u64(&w, UINT64_MAX);
    json_begin(&w, '{');
    json_end(&w, '}');
    json_begin(&w, '{');
    json_name(&w, "a");
    json_put_null(&w);
    json_name(&w, "b");
    json_put_bool(&w, true);
    json_end(&w, '}');
    json_put_bool(&w, false);
    json_end(&w, ']');
    json_name(&w, "raw");
    json_put_raw(&w, BYTES("[1,2]"));
    json_name(&w, "base64");
    json_put_base64(&w, BYTES("fo"));
    json_name(&w, "text");
    json_put_str(&w, "a\tb");
    json_name(&w, "real");
    json_put_double(&w, 2.0);
    json_name(&w, "real");
    json_put_double(&w, 0.1);
    json_end(&w, '}');
    CHECK(span_equal_str(buf_span(&out),
                         "{\"empty\":[],\"list\":[-1,18446744073709551615,{},"
                         "{\"a\":null,\"b\":true},false],\"raw\":[1,2],\"base64\":\"Zm8=\","
                         "\"text\":\"a\\tb\",\"real\":2,\"real\":0.1}"));
    CHECK_EQ(w.depth, 0);
    buf_release(&out);
}

static void the_writer_goes_30_deep(void) {
    struct buf out;
    struct json_writer w;
    buf_init(&out, 1000);
    json_writer_init(&w, &out);
    for (int i = 0; i < 30; i++) {
        json_begin(&w, '[');
        json_put_u64(&w, 1);
    }
    for (int i = 0; i < 30; i++) {
        json_put_u64(&w, 2);
        json_end(&w, ']');
    }
    struct json *root = parse(buf_span(&out));
    CHECK(root != NULL);
    const struct json *v = root;
    for (int depth = 1; depth <= 30; depth++) {
        CHECK_EQ(json_count(v), depth < 30 ? 3 : 2);
        v = json_at(v, 1);
    }
    json_free(root);
    buf_release(&out);
}

/* Any UTF-8 text comes back as it was, wherever the bytes that need an escape stand. */
static void strings_survive(void) {
    static const char *const pieces[] = {
        "\"",
        "\\",
        "\n",
        "\x01",
        "\x1f",
        " ",
        "!",
        "#",
        "[",
        "]",
        "\x7f",
        "\xc2\x80",
        "\xe2\x80\xa8",
        "\xf0\x9f\x98\x80",
        "plain text of some length",
        "/",
        "u0041",
        "\x02",
    };
    struct rng rng;
    rng_seed(&rng, 1);
    struct buf text, out;
    buf_init(&text, 100000);
    buf_init(&out, 100000);
    for (int round = 0; round < 5000; round++) {
        buf_clear(&text);
        buf_clear(&out);
        for (uint64_t n = rng_below(&rng, 30); n > 0; n--) {
            if (rng_below(&rng, 10) == 0)
                buf_add_byte(&text, 0);
            else
                buf_add_str(&text, pieces[rng_below(&rng, sizeof pieces / sizeof *pieces)]);
        }
        struct json_writer w;
        json_writer_init(&w, &out);
        json_put_string(&w, buf_span(&text));
        struct json *root = parse(buf_span(&out));
        CHECK(json_is(root, JSON_STRING));
        CHECK(span_equal(json_string(root), buf_span(&text)));
        json_free(root);
    }
    buf_release(&text);
    buf_release(&out);
}

static void reals_survive(void) {
    struct rng rng;
    rng_seed(&rng, 2);
    struct buf out;
    buf_init(&out, 1000);
    for (int round = 0; round < 20000; round++) {
        uint64_t bits = rng_u64(&rng);
        double v;
        memcpy(&v, &bits, sizeof v);
        if (!isfinite(v))
            continue;
        struct json_writer w;
        buf_clear(&out);
        json_writer_init(&w, &out);
        json_put_double(&w, v);
        struct json *root = parse(buf_span(&out));
        CHECK(root != NULL && json_number(root) == v);
        json_free(root);
    }
    buf_release(&out);
}

static void base64_vectors(void) {
    static const char *const vectors[][2] = {
        {"", ""},
        {"f", "Zg=="},
        {"fo", "Zm8="},
        {"foo", "Zm9v"},
        {"foob", "Zm9vYg=="},
        {"fooba", "Zm9vYmE="},
        {"foobar", "Zm9vYmFy"},
        {"\xfb\xff\xbf", "+/+/"},
    };
    struct buf out;
    buf_init(&out, 1000);
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        buf_clear(&out);
        base64_encode(span_str(vectors[i][0]), &out);
        CHECK(span_equal_str(buf_span(&out), vectors[i][1]));
        buf_clear(&out);
        CHECK(base64_decode(span_str(vectors[i][1]), &out) == OK);
        CHECK(span_equal_str(buf_span(&out), vectors[i][0]));
    }
    buf_release(&out);
}

static void base64_of_another_form_is_refused(void) {
    static const char *const wrong[] = {
        "Z",        "Zg",       "Zg=",          "Zm8",      "=",          "==",   "====", "Z===",
        "Zg==Zg==", "Zm8=Zm8=", "Zg=a",         "Zm9v\n",   " Zm9v",      "Zm 9", "Zm9-", "Zm9_",
        "Zh==",     "Zm9=",     "Zg==\n\n\n\n", "Zm9v====", "Z\xc3\xa9v", "=m9v",
    };
    struct buf out;
    buf_init(&out, 1000);
    buf_add_str(&out, "kept");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK(base64_decode(span_str(wrong[i]), &out) == ERR_INVALID);
        CHECK(span_equal_str(buf_span(&out), "kept"));
    }
    CHECK(base64_decode(span_of("Zm9\0", 4), &out) == ERR_INVALID);
    buf_release(&out);
}

static void base64_survives(void) {
    struct rng rng;
    rng_seed(&rng, 3);
    struct buf text, back;
    buf_init(&text, 1000);
    buf_init(&back, 1000);
    for (int round = 0; round < 5000; round++) {
        uint8_t bytes[100];
        size_t n = (size_t)rng_below(&rng, sizeof bytes);
        for (size_t i = 0; i < n; i++)
            bytes[i] = (uint8_t)rng_u64(&rng);
        buf_clear(&text);
        buf_clear(&back);
        base64_encode(span_of(bytes, n), &text);
        CHECK_EQ(text.n, (n + 2) / 3 * 4);
        CHECK(base64_decode(buf_span(&text), &back) == OK);
        CHECK(span_equal(buf_span(&back), span_of(bytes, n)));

        /* One wrong byte anywhere is seen, or it decodes to other bytes: one text for one value. */
        if (text.n > 0) {
            size_t at = (size_t)rng_below(&rng, text.n);
            uint8_t was = text.p[at];
            text.p[at] = (uint8_t)rng_u64(&rng);
            buf_clear(&back);
            bool is_same = text.p[at] == was;
            if (base64_decode(buf_span(&text), &back) == OK)
                CHECK(span_equal(buf_span(&back), span_of(bytes, n)) == is_same);
        }
    }
    buf_release(&text);
    buf_release(&back);
}

int main(void) {
    RUN(kinds);
    RUN(values);
    RUN(other_texts_are_refused);
    RUN(errors_say_where);
    RUN(doubles_are_found_in_any_size);
    RUN(nesting_is_bounded);
    RUN(members_keep_their_order);
    RUN(dumping_is_faithful);
    RUN(the_writer_puts_commas);
    RUN(the_writer_goes_30_deep);
    RUN(strings_survive);
    RUN(reals_survive);
    RUN(base64_vectors);
    RUN(base64_of_another_form_is_refused);
    RUN(base64_survives);
    return check_done();
}
