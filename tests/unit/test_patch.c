#include "field_errors.h"

#include "base/json.h"
#include "base/limits.h"
#include "model/triage.h"

static unsigned check(const char *text) {
    struct json_error error;
    struct json *patch = json_parse(span_str(text), &error);
    errors.count = 0;
    patch_check(patch, "patch", &errors);
    json_free(patch);
    return errors.count;
}

static void good_patches(void) {
    CHECK_EQ(check("[{\"op\": \"set\", \"path\": \"payload.customer.id\", \"value\": 7}]"), 0);
    CHECK_EQ(check("[{\"op\": \"remove\", \"path\": \"payload.debug\"},"
                   "{\"op\": \"set\", \"path\": \"header.x-tenant\", \"value\": \"acme\"},"
                   "{\"op\": \"remove\", \"path\": \"header.a.b\"}]"),
             0);
    CHECK_EQ(check("[{\"op\": \"set\", \"path\": \"payload.\\\"a.b\\\".0\", \"value\": null}]"), 0);
}

static void bad_patches(void) {
    static const char *const wrong[][3] = {
        {"{}", "patch", "wrong_type"},
        {"null", "patch", "wrong_type"},
        {"[]", "patch", "out_of_range"},
        {"[7]", "patch[0]", "wrong_type"},
        {"[{\"path\": \"header.a\"}]", "patch[0].op", "required"},
        {"[{\"op\": \"add\", \"path\": \"header.a\"}]", "patch[0].op", "out_of_range"},
        {"[{\"op\": 7, \"path\": \"header.a\"}]", "patch[0].op", "wrong_type"},
        {"[{\"op\": \"remove\"}]", "patch[0].path", "required"},
        {"[{\"op\": \"remove\", \"path\": 7}]", "patch[0].path", "wrong_type"},
        {"[{\"op\": \"remove\", \"path\": \"\"}]", "patch[0].path", "out_of_range"},
        {"[{\"op\": \"remove\", \"path\": \"payload\"}]", "patch[0].path", "out_of_range"},
        {"[{\"op\": \"remove\", \"path\": \"payload.\"}]", "patch[0].path", "out_of_range"},
        {"[{\"op\": \"remove\", \"path\": \"payload.a..b\"}]", "patch[0].path", "out_of_range"},
        {"[{\"op\": \"remove\", \"path\": \"payload.\\\"a\"}]", "patch[0].path", "out_of_range"},
        {"[{\"op\": \"remove\", \"path\": \"header.\"}]", "patch[0].path", "out_of_range"},
        {"[{\"op\": \"remove\", \"path\": \"header.a\\u0000b\"}]", "patch[0].path", "out_of_range"},
        {"[{\"op\": \"remove\", \"path\": \"headers.a\"}]", "patch[0].path", "out_of_range"},
        {"[{\"op\": \"set\", \"path\": \"header.a\"}]", "patch[0].value", "required"},
        {"[{\"op\": \"remove\", \"path\": \"header.a\", \"value\": 7}]", "patch[0].value",
         "not_allowed"},
        {"[{\"op\": \"remove\", \"path\": \"header.a\"},"
         "{\"op\": \"remove\", \"path\": \"header.a\", \"vlaue\": 7}]",
         "patch[1].vlaue", "unknown_field"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        check(wrong[i][0]);
        CHECK(said_alone(wrong[i][1], wrong[i][2]));
    }
}

static void the_number_of_changes(void) {
    struct buf text;
    buf_init(&text, 4096);
    for (int count = 32; count <= 33; count++) {
        buf_clear(&text);
        buf_add_byte(&text, '[');
        for (int i = 0; i < count; i++)
            buf_printf(&text, "%s{\"op\": \"remove\", \"path\": \"header.a%d\"}", i == 0 ? "" : ",",
                       i);
        buf_add(&text, "]", 2);
        CHECK_EQ(check((const char *)text.p), count == 32 ? 0 : 1);
    }
    CHECK(said_alone("patch", "out_of_range"));
    buf_release(&text);
}

/* -- applying -------------------------------------------------------------------------------- */

static struct buf headers, payload;

static enum err apply(const char *patch, const char *old_headers, const char *old_payload) {
    CHECK_EQ(check(patch), 0);
    return patch_apply(span_str(patch), span_str(old_headers), span_str(old_payload), &headers,
                       &payload);
}

static bool gives(const char *new_headers, const char *new_payload) {
    return span_equal_str(buf_span(&headers), new_headers) &&
           span_equal_str(buf_span(&payload), new_payload);
}

static void payloads(void) {
    /* All that is not named keeps its bytes: spaces, the digits of numbers, the order. */
    CHECK_EQ(apply("[{\"op\": \"set\", \"path\": \"payload.customer.id\", \"value\": 7}]", "",
                   "{ \"z\": 1.500, \"customer\": {\"id\" : 6} , \"a\": 12345678901234567890.0 }"),
             OK);
    CHECK(gives("", "{ \"z\": 1.500, \"customer\": {\"id\" : 7} , "
                    "\"a\": 12345678901234567890.0 }"));
    CHECK_EQ(apply("[{\"op\": \"remove\", \"path\": \"payload.debug\"}]", "{\"h\":1}",
                   "{\"debug\": true, \"a\": 1}"),
             OK);
    CHECK(gives("{\"h\":1}", "{\"a\": 1}"));
    CHECK_EQ(apply("[{\"op\": \"remove\", \"path\": \"payload.nothing.there\"}]", "", "[1]"), OK);
    CHECK(gives("", "[1]"));
    CHECK_EQ(apply("[{\"op\": \"set\", \"path\": \"payload.a.b\", \"value\": {\"c\": [1, null]}}]",
                   "", "{}"),
             OK);
    CHECK(gives("", "{\"a\":{\"b\":{\"c\":[1,null]}}}"));
}

static void payloads_that_cannot_be_changed(void) {
    CHECK_EQ(apply("[{\"op\": \"set\", \"path\": \"payload.ok\", \"value\": 1}]", "{\"h\":1}",
                   "{\"a\": 1}"),
             OK);
    static const char *const patch = "[{\"op\": \"remove\", \"path\": \"header.h\"},"
                                     "{\"op\": \"set\", \"path\": \"payload.a.b\", \"value\": 1}]";
    CHECK_EQ(apply(patch, "{\"h\":2}", "not JSON"), ERR_INVALID);
    CHECK_EQ(apply(patch, "{\"h\":2}", ""), ERR_INVALID);
    CHECK_EQ(apply(patch, "{\"h\":2}", "{\"a\": 7}"), ERR_INVALID);
    CHECK_EQ(apply(patch, "{\"h\":2}", "7"), ERR_INVALID);
    CHECK(gives("{\"h\":1}", "{\"a\": 1,\"ok\":1}")); /* the last good ones, untouched */
}

static void of_headers(void) {
    CHECK_EQ(apply("[{\"op\": \"set\", \"path\": \"header.x-tenant\", \"value\": \"acme\"}]", "",
                   "any\xff"),
             OK);
    CHECK(gives("{\"x-tenant\":\"acme\"}", "any\xff"));
    CHECK_EQ(apply("[{\"op\": \"set\", \"path\": \"header.a.b\", \"value\": 1},"
                   "{\"op\": \"set\", \"path\": \"header.\\\"q\\\\\", \"value\": 2}]",
                   "{\"a\":{\"b\":0}}", ""),
             OK);
    CHECK(gives("{\"a\":{\"b\":0},\"a.b\":1,\"\\\"q\\\\\":2}", ""));
    CHECK_EQ(apply("[{\"op\": \"remove\", \"path\": \"header.a\"}]", "{\"a\":1,\"b\":2}", ""), OK);
    CHECK(gives("{\"b\":2}", ""));
    CHECK_EQ(apply("[{\"op\": \"remove\", \"path\": \"header.a\"}]", "{\"a\":1}", ""), OK);
    CHECK(gives("", ""));
    CHECK_EQ(apply("[{\"op\": \"remove\", \"path\": \"header.a\"}]", "", ""), OK);
    CHECK(gives("", ""));
}

static void changes_in_order(void) {
    CHECK_EQ(apply("[{\"op\": \"remove\", \"path\": \"payload.a\"},"
                   "{\"op\": \"set\", \"path\": \"payload.a\", \"value\": 2},"
                   "{\"op\": \"set\", \"path\": \"payload.l.1\", \"value\": \"x\"}]",
                   "", "{\"a\":1,\"l\":[0]}"),
             OK);
    CHECK(gives("", "{\"l\":[0,\"x\"],\"a\":2}"));
    CHECK_EQ(apply("[{\"op\": \"set\", \"path\": \"payload.n\", \"value\": 9e14}]", "", "{}"), OK);
    CHECK(gives("", "{\"n\":900000000000000.0}"));
}

static void what_does_not_fit(void) {
    struct buf small_headers, small_payload;
    buf_init(&small_headers, 16);
    buf_init(&small_payload, 16);
    static const char *const header = "[{\"op\":\"set\",\"path\":\"header.a\",\"value\":\"0123\"}]";
    static const char *const member = "[{\"op\":\"set\",\"path\":\"payload.a\",\"value\":\"01\"}]";
    static const struct {
        const char *patch, *headers, *payload;
        enum err e;
    } cases[] = {
        {header, "", "0123456789abcdef", OK},      {header, "", "0123456789abcdefg", ERR_TOO_LARGE},
        {header, "{\"b\":1}", "", ERR_TOO_LARGE},  {member, "", "{\"b\":1}", OK},
        {member, "", "{\"b\":12}", ERR_TOO_LARGE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        CHECK_EQ(patch_apply(span_str(cases[i].patch), span_str(cases[i].headers),
                             span_str(cases[i].payload), &small_headers, &small_payload),
                 cases[i].e);
    buf_release(&small_headers);
    buf_release(&small_payload);
}

int main(void) {
    buf_init(&headers, LIMIT_HEADERS);
    buf_init(&payload, LIMIT_PAYLOAD);
    RUN(good_patches);
    RUN(bad_patches);
    RUN(the_number_of_changes);
    RUN(payloads);
    RUN(payloads_that_cannot_be_changed);
    RUN(of_headers);
    RUN(changes_in_order);
    RUN(what_does_not_fit);
    buf_release(&headers);
    buf_release(&payload);
    return check_done();
}
