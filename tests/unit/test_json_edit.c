#include "base/json_edit.h"
#include "check.h"

#include <stdlib.h>

enum { TEXT_MAX = 1 << 20 };

#define LENGTH(array) (sizeof(array) / sizeof *(array))

/* -- paths ----------------------------------------------------------------------------------- */

static void paths(void) {
    static const char *const good[] = {
        "a",           "a.b",      "a.0.b", "\"\"", "\"a.b\".c", "a.\"b\\\"c\"",
        "\"\\u00e9\"", "\xc3\xa9", " a",    "a b",  "a\\b",      "a.\"\".\"x\"",
        "-1",          "a/b",      "\"0\"",
    };
    for (size_t i = 0; i < LENGTH(good); i++)
        CHECK(json_path_is_valid(span_str(good[i])));
    static const char *const bad[] = {"",        ".",        "a.",          ".a",     "a..b",
                                      "\"a",     "a\"",      "a\"b\"",      "\"a\"b", "\"a\"\"b\"",
                                      "\"\\x\"", "\"a\nb\"", "\"\\ud800\"", "\xff",   "\"\\u0000\"",
                                      "\"a\"."};
    for (size_t i = 0; i < LENGTH(bad); i++)
        CHECK(!json_path_is_valid(span_str(bad[i])));
    CHECK(!json_path_is_valid(span_of("a\0b", 3)));
    CHECK(!json_path_is_valid(span_of(NULL, 0)));
}

static struct span path_of_names(struct buf *out, size_t names) {
    buf_clear(out);
    for (size_t i = 0; i < names; i++)
        buf_add_str(out, i == 0 ? "a" : ".a");
    return buf_span(out);
}

static void paths_have_at_most_64_names(void) {
    struct buf path;
    buf_init(&path, 1000);
    CHECK(json_path_is_valid(path_of_names(&path, 64)));
    CHECK(!json_path_is_valid(path_of_names(&path, 65)));
    buf_release(&path);
}

static bool gets(const char *text, const char *path, const char *expected) {
    struct json_error error;
    struct json *root = json_parse(span_str(text), &error);
    struct buf out;
    buf_init(&out, TEXT_MAX);
    const struct json *v = json_path_get(root, span_str(path));
    if (v != NULL)
        json_dump(v, &out);
    bool is_so = root != NULL && span_equal_str(buf_span(&out), expected != NULL ? expected : "");
    json_free(root);
    buf_release(&out);
    return is_so;
}

static void values_at_paths(void) {
    const char *text = "{\"a\": {\"b.c\": [10, {\"\": true}], \"\\u00e9\": 1}, \"0\": \"zero\"}";
    CHECK(gets(text, "a.\"b.c\".0", "10"));
    CHECK(gets(text, "a.\"b.c\".1.\"\"", "true"));
    CHECK(gets(text, "a.\"b.c\".2", NULL));
    CHECK(gets(text, "a.\"b.c\".-1", NULL));
    CHECK(gets(text, "a.\"b.c\".18446744073709551616", NULL));
    CHECK(gets(text, "a.\xc3\xa9", "1"));
    CHECK(gets(text, "a.\"\\u00E9\"", "1"));
    CHECK(gets(text, "0", "\"zero\""));
    CHECK(gets(text, "0.a", NULL));
    CHECK(gets(text, "b", NULL));
    CHECK(gets(text, "a.", NULL));
    CHECK(gets(text, "", NULL));
    CHECK(json_path_get(NULL, span_str("a")) == NULL);
}

/* -- changes --------------------------------------------------------------------------------- */

/* True when the result is `expected` and, after what was in the buffer, nothing else. */
static bool sets(const char *text, const char *path, const char *value, const char *expected) {
    struct buf out;
    buf_init(&out, TEXT_MAX);
    buf_add_str(&out, "before");
    enum err e = json_edit_set(span_str(text), span_str(path), span_str(value), &out);
    buf_consume(&out, strlen("before"));
    bool is_so = expected == NULL ? e == ERR_INVALID && out.n == 0
                                  : e == OK && span_equal_str(buf_span(&out), expected);
    if (!is_so)
        printf("# %s of %s: got %d %.*s\n", path, text, (int)e, (int)out.n, (const char *)out.p);
    buf_release(&out);
    return is_so;
}

static bool removes(const char *text, const char *path, const char *expected) {
    struct buf out;
    buf_init(&out, TEXT_MAX);
    buf_add_str(&out, "before");
    enum err e = json_edit_remove(span_str(text), span_str(path), &out);
    buf_consume(&out, strlen("before"));
    bool is_so = expected == NULL ? e == ERR_INVALID && out.n == 0
                                  : e == OK && span_equal_str(buf_span(&out), expected);
    if (!is_so)
        printf("# %s of %s: got %d %.*s\n", path, text, (int)e, (int)out.n, (const char *)out.p);
    buf_release(&out);
    return is_so;
}

static void a_value_is_replaced_and_all_else_kept(void) {
    CHECK(sets("{\"a\":1}", "a", "2", "{\"a\":2}"));
    CHECK(sets(" { \"x\" : 1.50E+2 ,\n\t\"a\" : \"old\" , \"y\":[ ] } \n", "a", "{\"n\":null}",
               " { \"x\" : 1.50E+2 ,\n\t\"a\" : {\"n\":null} , \"y\":[ ] } \n"));
    CHECK(sets("{\"a\":{\"b\":{\"c\":-0.0}}}", "a.b.c", " [1, 2] ",
               "{\"a\":{\"b\":{\"c\": [1, 2] }}}"));
    CHECK(sets("[1, 2 ,3]", "1", "\"two\"", "[1, \"two\" ,3]"));
    CHECK(sets("[[1,2],[3,{\"a\":[true]}]]", "1.1.a.0", "false", "[[1,2],[3,{\"a\":[false]}]]"));
    CHECK(sets("{\"a\":[1,2],\"b\":{\"c\":3},\"d\":\"]}\"}", "d", "4",
               "{\"a\":[1,2],\"b\":{\"c\":3},\"d\":4}"));
    CHECK(sets("{\"s\":\"\\\"}],:\\\\\",\"t\":[\"{[\"],\"u\":0.1e-7}", "u", "1",
               "{\"s\":\"\\\"}],:\\\\\",\"t\":[\"{[\"],\"u\":1}"));
    CHECK(sets("{\"a\":true,\"b\":null\n}", "b", "false", "{\"a\":true,\"b\":false\n}"));
}

static void names_are_compared_decoded(void) {
    CHECK(sets("{\"\\u0061\\/\":1}", "a/", "2", "{\"\\u0061\\/\":2}"));
    CHECK(sets("{\"a.b\":1,\"a\":{\"b\":2}}", "\"a.b\"", "3", "{\"a.b\":3,\"a\":{\"b\":2}}"));
    CHECK(sets("{\"a.b\":1,\"a\":{\"b\":2}}", "a.b", "3", "{\"a.b\":1,\"a\":{\"b\":3}}"));
    CHECK(sets("{\"\xf0\x9f\x98\x80\":1}", "\"\\ud83d\\ude00\"", "2", "{\"\xf0\x9f\x98\x80\":2}"));
    CHECK(removes("{\"\\u00e9\":1,\"b\":2}", "\xc3\xa9", "{\"b\":2}"));
}

static void what_is_missing_is_added_last(void) {
    CHECK(sets("{}", "a", "1", "{\"a\":1}"));
    CHECK(sets("{ \n}", "a", "1", "{\"a\":1 \n}"));
    CHECK(sets("{\"a\":1 }", "b", "2", "{\"a\":1,\"b\":2 }"));
    CHECK(sets("{\"a\":{}}", "a.b.c", "2", "{\"a\":{\"b\":{\"c\":2}}}"));
    CHECK(sets("{\"a\":[{\"x\":0}]}", "a.0.y.z", "2", "{\"a\":[{\"x\":0,\"y\":{\"z\":2}}]}"));
    CHECK(sets("{}", "\"a\\\"\\\\\\n.\"", "1", "{\"a\\\"\\\\\\n.\":1}"));
    CHECK(sets("{}", "\"\"", "1", "{\"\":1}"));
    CHECK(sets("{}", "0.1", "1", "{\"0\":{\"1\":1}}"));
    CHECK(sets("[]", "0", "1", "[1]"));
    CHECK(sets("[ ]", "0", "1", "[1 ]"));
    CHECK(sets("[1, 2]", "2", "3", "[1, 2,3]"));
    CHECK(sets("[1, 2]", "2.a.b", "3", "[1, 2,{\"a\":{\"b\":3}}]"));
}

static void what_cannot_be_set_is_refused(void) {
    CHECK(sets("[1]", "2", "1", NULL));
    CHECK(sets("[1]", "a", "1", NULL));
    CHECK(sets("[1]", "-1", "1", NULL));
    CHECK(sets("[1]", "99999999999999999999999", "1", NULL));
    CHECK(sets("{\"a\":1}", "a.b", "1", NULL));
    CHECK(sets("{\"a\":\"text\"}", "a.0", "1", NULL));
    CHECK(sets("{\"a\":null}", "a.b", "1", NULL));
    CHECK(sets("1", "a", "1", NULL));
    CHECK(sets("{}", "a..b", "1", NULL));
    CHECK(sets("{}", "", "1", NULL));
    CHECK(sets("{}", "a", "", NULL));
    CHECK(sets("{}", "a", "1,2", NULL));
    CHECK(sets("{}", "a", "1}", NULL));
    CHECK(sets("{", "a", "1", NULL));
    CHECK(sets("", "a", "1", NULL));
    CHECK(sets("{\"a\":1,\"a\":2}", "a", "1", NULL));
}

static void a_value_is_removed_with_one_comma(void) {
    CHECK(removes("{\"a\":1,\"b\":2,\"c\":3}", "a", "{\"b\":2,\"c\":3}"));
    CHECK(removes("{\"a\":1,\"b\":2,\"c\":3}", "b", "{\"a\":1,\"c\":3}"));
    CHECK(removes("{\"a\":1,\"b\":2,\"c\":3}", "c", "{\"a\":1,\"b\":2}"));
    CHECK(removes(" { \"a\" : 1 , \"b\" : 2 } ", "a", " { \"b\" : 2 } "));
    CHECK(removes(" { \"a\" : 1 , \"b\" : 2 } ", "b", " { \"a\" : 1 } "));
    CHECK(removes("{\n  \"a\": [],\n  \"b\": {}\n}", "b", "{\n  \"a\": []\n}"));
    CHECK(removes("{ \"a\" : 1 } ", "a", "{} "));
    CHECK(removes("[ 1 ]", "0", "[]"));
    CHECK(removes("[1, 2, 3]", "0", "[2, 3]"));
    CHECK(removes("[1, 2, 3]", "1", "[1, 3]"));
    CHECK(removes("{\"x\":[{\"a\":\",}\",\"b\":1e5}]}", "x.0.a", "{\"x\":[{\"b\":1e5}]}"));
}

static void removing_nothing_is_fine(void) {
    CHECK(removes(" {\"a\": 1} ", "b", " {\"a\": 1} "));
    CHECK(removes("{\"a\":1}", "a.b", "{\"a\":1}"));
    CHECK(removes("[1]", "1", "[1]"));
    CHECK(removes("[1]", "a.b.c", "[1]"));
    CHECK(removes("7", "a", "7"));
    CHECK(removes("{", "a", NULL));
    CHECK(removes("{}", "a.", NULL));
    CHECK(removes("", "a", NULL));
}

/* -- bounds ---------------------------------------------------------------------------------- */

/* Arrays within arrays, around "1". */
static const char *nested(size_t levels, char *out) {
    memset(out, '[', levels);
    out[levels] = '1';
    memset(out + levels + 1, ']', levels);
    out[2 * levels + 1] = '\0';
    return out;
}

static void the_result_has_no_more_levels_than_can_be_read(void) {
    static char value[2 * 2048 + 2], expected[sizeof value + 16];
    nested(2047, value);
    snprintf(expected, sizeof expected, "{\"a\":%s}", value);
    CHECK(sets("{\"a\":null}", "a", value, expected));
    CHECK(sets("{}", "a", value, expected));
    CHECK(sets("{}", "a.b", value, NULL));
    nested(2048, value);
    CHECK(sets("{\"a\":null}", "a", value, NULL));
    CHECK(sets(value, "0", "1", "[1]"));
    CHECK(removes(value, "0.0", "[[]]"));
}

static void the_result_fits_or_nothing_is_written(void) {
    struct buf out;
    buf_init(&out, 10);
    CHECK_EQ(json_edit_set(span_str("{\"a\":1}"), span_str("a"), span_str("1234"), &out), OK);
    CHECK_EQ(out.n, 10);
    buf_clear(&out);
    CHECK_EQ(json_edit_set(span_str("{\"a\":1}"), span_str("a"), span_str("12345"), &out),
             ERR_TOO_LARGE);
    CHECK_EQ(json_edit_set(span_str("{}"), span_str("a.b"), span_str("1"), &out), ERR_TOO_LARGE);
    CHECK_EQ(json_edit_remove(span_str("{\"a\":123456}"), span_str("b"), &out), ERR_TOO_LARGE);
    CHECK_EQ(out.n, 0);
    CHECK_EQ(json_edit_remove(span_str("{\"a\":123456}"), span_str("a"), &out), OK);
    CHECK(span_equal_str(buf_span(&out), "{}"));
    buf_release(&out);
}

/* Every byte of the path takes six in the text. */
static void the_room_that_is_promised_is_enough(void) {
    struct buf path, out;
    buf_init(&path, 1000);
    for (int i = 0; i < JSON_PATH_NAMES_MAX; i++)
        buf_add_str(&path, i == 0 ? "\x01" : ".\x01");
    buf_init(&out, 4 + 1 + 6 * (path.n + 1));
    CHECK_EQ(json_edit_set(span_str("{  }"), buf_span(&path), span_str("1"), &out), OK);
    struct json_error error;
    struct json *root = json_parse(buf_span(&out), &error);
    CHECK(json_is(json_path_get(root, buf_span(&path)), JSON_INTEGER));
    json_free(root);
    buf_release(&path);
    buf_release(&out);
}

int main(void) {
    RUN(paths);
    RUN(paths_have_at_most_64_names);
    RUN(values_at_paths);
    RUN(a_value_is_replaced_and_all_else_kept);
    RUN(names_are_compared_decoded);
    RUN(what_is_missing_is_added_last);
    RUN(what_cannot_be_set_is_refused);
    RUN(a_value_is_removed_with_one_comma);
    RUN(removing_nothing_is_fine);
    RUN(the_result_has_no_more_levels_than_can_be_read);
    RUN(the_result_fits_or_nothing_is_written);
    RUN(the_room_that_is_promised_is_enough);
    return check_done();
}
