#include "check.h"
#include "model/fingerprint.h"

#include <stdlib.h>

#define LENGTH(array) (sizeof(array) / sizeof *(array))

static char shown[4096];

static const char *normal(const char *message) {
    struct buf out;
    buf_init(&out, FINGERPRINT_NORMAL_MAX);
    message_normalise(span_str(message), &out);
    snprintf(shown, sizeof shown, "%.*s", (int)out.n, out.n > 0 ? (const char *)out.p : "");
    buf_release(&out);
    return shown;
}

/* -- messages -------------------------------------------------------------------------------- */

static const struct {
    const char *message, *normal;
} cases[] = {
    {"connecting to 10.0.0.1:5432 took 5003 ms", "connecting to <addr> took <n> ms"},
    {"", ""},
    {" \t\n ", ""},
    {"  one\r\n\ttwo  ", "one two"},
    {"plain words stay, don't they?", "plain words stay, don't they?"},
    {"order 550e8400-e29b-41d4-a716-446655440000 is gone", "order <id> is gone"},
    {"order {550E8400-E29B-41D4-A716-446655440000} is gone", "order {<id>} is gone"},
    {"user123 and user_456 and node-7", "user<n> and user_<n> and node-<n>"},
    {"1,234,567 of 9.5e10 in v1.2.3", "<n> of <n> in v<n>"},
    {"x=-5 (+7) a-5", "x=<n> (<n>) a-<n>"},
    {"10% of 100MB", "<n>% of <n>MB"},
    {"commit 7f3a9c1b and 12345678", "commit <n> and <n>"},
    {"digest e3b0c44298fc1c149afbf4c8996fb924", "digest <id>"},
    {"added a decade of facade", "added a decade of facade"},
    {"at 0x7f2b1c0d5e80, com.acme.Foo@1b2c3d4e", "at <ptr>, com.acme.Foo@<ptr>"},
    {"key AKIA5FODNN7EXAMPLE", "key <id>"},
    {"charge ch_3MqLiJLkdIwHu7ix0T3d2bR", "charge ch_<id>"},
    {"session V1StGXR8_Z5jdHi6B-myT", "session <id>"},
    {"job 01ARZ3NDEKTSV4RRFFQ69G5FAV", "job <id>"},
    {"utf8, UTF-8, sha256, int64, IPv6, k8s", "utf8, UTF-8, sha256, int64, IPv6, k8s"},
    {"step1of3", "step<n>of<n>"},
    {"field 'name' is \"too long\"", "field <s> is <s>"},
    {"it's the user's 'own'", "it's the user's <s>"},
    {"undefined method `foo' for b'x'", "undefined method <s> for b<s>"},
    {"cannot stat \xe2\x80\x98"
     "a b\xe2\x80\x99",
     "cannot stat <s>"},
    {"an \"open quote 7", "an \"open quote <n>"},
    {"a \"b \\\" c\" d", "a <s> d"},
    {"must be one of 'a', 'b', 'c'", "must be one of <s>"},
    {"ids [1, 2, 3],[4]", "ids [<n>],[<n>]"},
    {"mail bob.smith+x@example.co.uk bounced", "mail <email> bounced"},
    {"lodash@4.17.21 and @scope", "lodash@<n> and @scope"},
    {"GET https://api.example.com/v1/a?b=c,d (failed)", "GET <url> (failed)"},
    {"(see http://a.b/c).", "(see <url>)."},
    {"jdbc:postgresql://db:5432/x", "jdbc:<url>"},
    {"open /var/lib/a-b/550e.json: no such file", "open <path>: no such file"},
    {"C:\\Users\\bob\\a.txt is locked", "<path> is locked"},
    {"and/or application/json 1/2", "and/or application/json <n>/<n>"},
    {"[2001:db8::1]:443 and ::1 and fe80::1%eth0", "[<addr>]:<n> and <addr> and <addr>"},
    {"addr:10.0.0.1 tcp:10.0.0.1:80", "addr:<addr> tcp:<addr>"},
    {"00:1a:2b:3c:4d:5e std::vector a::b", "<addr> std::vector a::b"},
    {"10.1.2.0/24 db.internal:5432", "<addr> db.internal:<n>"},
    {"2024-01-15T12:34:56.123Z", "<time>"},
    {"2024-01-15 12:34:56,789 +0100 x", "<time> x"},
    {"Mon, 15 Jan 2024 12:34:56 GMT x", "<time> x"},
    {"on 15/Jan/2024:12:34:56 +0000 x", "on <time> x"},
    {"Jan 15 12:34:56 x", "<time> x"},
    {"May be wrong, Sun too", "May be wrong, Sun too"},
    {"30s 1.5ms 2m30s 100\xc2\xb5s PT1M30.5S.", "<time> <time> <time> <time> <time>."},
    {"HTTP 404, HTTP/1.1 503, http status 500", "HTTP 404, HTTP/1.1 503, http status 500"},
    {"status code 404: x", "status code 404: x"},
    {"statusCode=404 code: 17 [Errno 2]", "statusCode=404 code: 17 [Errno 2]"},
    {"exit status 1, exit code 137, signal 9", "exit status 1, exit code 137, signal 9"},
    {"HTTP 12345 code 1234 status 40.4", "HTTP <n> code <n> status <n>"},
    {"HRESULT: 0x80070005", "HRESULT: 0x80070005"},
    {"404 items of 500", "<n> items of <n>"},
    {"{\"id\": 5, \"name\": \"bob\", \"status\": 404}",
     "{\"id\": <n>, \"name\": <s>, \"status\": 404}"},
    {"{\\\"id\\\": 5, \\\"name\\\": \\\"bob\\\"}", "{\\\"id\\\": <n>, \\\"name\\\": \\<s>}"},
    {"{\"user_7\": 1}", "{<s>: <n>}"},
    {"Key (email)=(bob smith) already exists.", "Key (email)=<s> already exists."},
    {"IN (1, 2) AND name = 'O''Brien'", "IN (<n>) AND name = <s>"},
    {"\xc3\xbc"
     "ber 7 \xe2\x82\xac",
     "\xc3\xbc"
     "ber <n> \xe2\x82\xac"},
    {"ab\xc2\x85"
     "cd\xc2\xa0",
     "ab cd"},
    {"com.acme.v2.OrderService2Impl", "com.acme.v<n>.OrderService<n>Impl"},
    {"mismatched tag </order>", "mismatched tag </order>"},
    {"a\x01\x7f\xc2\x85"
     "b",
     "a b"},
};

static void placeholders(void) {
    for (size_t i = 0; i < LENGTH(cases); i++) {
        bool is_so = strcmp(normal(cases[i].message), cases[i].normal) == 0;
        if (!is_so)
            printf("# %s\n#  got %s\n#  not %s\n", cases[i].message, shown, cases[i].normal);
        CHECK(is_so);
    }
}

/* Which messages are of one cause. */
static const struct {
    bool together;
    const char *one, *other;
} pairs[] = {
    /* times and counts */
    {true, "timeout after 30s", "timeout after 1.5s"},
    {true, "took 5003 ms", "took 12 ms"},
    {true, "took 1m30s", "took 250ms"},
    {true, "expired at 2024-01-15T12:34:56.789Z", "expired at 2025-11-02T01:02:03+02:00"},
    {true, "expired at 2024-01-15 12:34:56", "expired at 2024-01-15 12:34:56,123"},
    {true, "not before Mon, 15 Jan 2024 12:34:56 GMT", "not before Sun, 2 Mar 2025 01:02:03 GMT"},
    {true, "lock held since 1705312496", "lock held since 1705399999"},
    {true, "batch of 100 (3 failed)", "batch of 7 (1 failed)"},
    {true, "used 1,024 of 2,048 bytes", "used 12 of 2,048,000 bytes"},
    {true, "disk 97.5% full", "disk 99% full"},
    {true, "attempt 1 of 5 failed", "attempt 4 of 5 failed"},
    {true, "items 1, 2, 3 are invalid", "items 17 are invalid"},
    {true, "line 7 column 12: expected ','", "line 70 column 2: expected ','"},
    {true, "at position 0x1f", "at position 0x10ffee"},
    /* ids */
    {true, "Timeout calling order 7f3a9c1b", "Timeout calling order 12345678"},
    {true, "user 550e8400-e29b-41d4-a716-446655440000 not found",
     "user 00000000-0000-0000-0000-000000000000 not found"},
    {true, "document 507f1f77bcf86cd799439011 is gone",
     "document 65a4f1e2b3c4d5e6f7a8b9c0 is gone"},
    {true, "No such charge: ch_3MqLiJLkdIwHu7ix0T3d2bR",
     "No such charge: ch_1NAbCdEf2GhIjKl3MnOpQr4"},
    {true, "session V1StGXR8_Z5jdHi6B-myT expired", "session 3aXk9Lm2Qr7_Tz4Wv8YbC expired"},
    {true, "user-123 is blocked", "user-98765 is blocked"},
    {true, "customer_7 has no address", "customer_1234 has no address"},
    {true, "shard12 is read-only", "shard3 is read-only"},
    {true, "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 mismatch",
     "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 mismatch"},
    {true, "pod orders-7d4b9c6f5d-x2x9k evicted", "pod orders-5c8f7d9b4a-q7w2e evicted"},
    {true, "trace 4bf92f3577b34da6a3ce929d0e0e4736", "trace 0af7651916cd43dd8448eb211c80319c"},
    {true, "invalid token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0",
     "invalid token eyJ0eXAiOiJKV1QiLCJ9.eyJpc3MiOiJqb2UifQ2"},
    /* addresses */
    {true, "connect ECONNREFUSED 127.0.0.1:5432", "connect ECONNREFUSED 10.20.30.40:6379"},
    {true, "connect ETIMEDOUT 2001:db8::1", "connect ETIMEDOUT fe80::1ff:fe23:4567:890a"},
    {true, "no route to 10.0.0.1", "no route to ::1"},
    {true, "dial tcp: lookup db on 10.0.0.2:53: no such host",
     "dial tcp: lookup db on 10.0.0.10:53: no such host"},
    {true, "db.internal:5432 refused", "db.internal:5433 refused"},
    {true, "mail to bob@example.com bounced", "mail to alice.w+news@mail.example.co.uk bounced"},
    {true, "GET https://api.example.com/users/1?x=2 failed",
     "GET https://api.example.com/users/77?y=z#f failed"},
    {true, "cannot read /var/spool/7/a.json", "cannot read /var/spool/8812/b.json"},
    {true, "C:\\data\\a.csv is locked", "D:\\in\\b7.csv is locked"},
    {true, "<Order object at 0x7f2b1c0d5e80> is closed",
     "<Order object at 0x7ffd00001230> is closed"},
    {true, "com.acme.Order@1b2c3d4e is closed", "com.acme.Order@77777777 is closed"},
    /* quoted values, JSON, SQL */
    {true, "no customer named 'bob'", "no customer named 'Mary O\\'Neil'"},
    {true, "KeyError: 'total'", "KeyError: 'sum'"},
    {true, "Unexpected token \"<\"", "Unexpected token \"}\""},
    {true, "undefined method `foo' for nil", "undefined method `bar' for nil"},
    {true, "bad payload {\"id\": 1, \"name\": \"a\"}",
     "bad payload {\"id\": 200, \"name\": \"b c\"}"},
    {true, "bad payload {\"tags\": [\"a\", \"b\"]}", "bad payload {\"tags\": [\"c\"]}"},
    {true, "bad payload {\"a\": {\"b\": -1.5}}", "bad payload {\"a\": {\"b\": 22}}"},
    {true, "Duplicate entry '7-a' for key 'orders.PRIMARY'",
     "Duplicate entry '8-b' for key 'orders.PRIMARY'"},
    {true, "Key (email)=(a@b.com) already exists.", "Key (email)=(c d) already exists."},
    {true, "syntax error: SELECT * FROM t WHERE id = 7 AND n = 'x'",
     "syntax error: SELECT * FROM t WHERE id = 123 AND n = 'y z'"},
    {true, "INSERT INTO t VALUES (1, 'a', 2.5)", "INSERT INTO t VALUES (22, 'bb', 0.1)"},
    {true, "DELETE WHERE id IN (1, 2, 3)", "DELETE WHERE id IN (4)"},
    /* spaces and lines */
    {true, "one\ntwo", "one two"},
    {true, " a  b ", "a b"},
    /* causes that differ */
    {false, "HTTP 404", "HTTP 500"},
    {false, "HTTP/1.1 404 from https://a.b/c", "HTTP/1.1 503 from https://a.b/c"},
    {false, "HTTP Error 401", "HTTP Error 403"},
    {false, "Request failed with status code 404", "Request failed with status code 429"},
    {false, "status=500", "status=502"},
    {false, "{\"status\": 400, \"id\": 1}", "{\"status\": 409, \"id\": 1}"},
    {false, "exit code 1", "exit code 137"},
    {false, "killed by signal 9", "killed by signal 11"},
    {false, "[Errno 2] open", "[Errno 13] open"},
    {false, "HRESULT: 0x80070005", "HRESULT: 0x80004005"},
    {false, "connection refused", "connection reset"},
    {false, "connect ECONNREFUSED 10.0.0.1:80", "connect ETIMEDOUT 10.0.0.1:80"},
    {false, "order 7 not found", "customer 7 not found"},
    {false, "timeout after 5s", "refused after 5s"},
    {false, "db.internal:5432 refused", "cache.internal:5432 refused"},
    {false, "no customer named 'bob'", "no supplier named 'bob'"},
    {false, "bad utf8", "bad utf16"},
    {false, "sha256 mismatch", "sha512 mismatch"},
    {false, "added facade", "added decade"},
    {false, "step1of3", "part1of3"},
    {false, "pod orders-7d4b9c6f5d-x2x9k evicted", "pod billing-7d4b9c6f5d-x2x9k evicted"},
    {false, "ch_3MqLiJLkdIwHu7ix0T3d2bR", "cus_3MqLiJLkdIwHu7ix0T3d2bR"},
    {false, "bad payload {\"id\": 1}", "bad payload {\"name\": 1}"},
    {false, "INSERT INTO orders VALUES (1)", "INSERT INTO users VALUES (1)"},
    {false, "over 90% full", "over 90 full"},
    {false, "may fail", "must fail"},
    {false, "null", ""},
};

static void together_and_apart(void) {
    for (size_t i = 0; i < LENGTH(pairs); i++) {
        char one[sizeof shown];
        snprintf(one, sizeof one, "%s", normal(pairs[i].one));
        bool is_so = (strcmp(one, normal(pairs[i].other)) == 0) == pairs[i].together;
        if (!is_so)
            printf("# %s\n# %s\n", one, shown);
        CHECK(is_so);
    }
}

/* What is read ends within a value now and then: that must not show. */
static void long_messages(void) {
    char one[5000], other[5000], first[sizeof shown];
    snprintf(one, sizeof one, "bad order 7: '%01900d' is too long for it", 0);
    snprintf(other, sizeof other, "bad order 1234567: '%03000d' is too long for it", 0);
    snprintf(first, sizeof first, "%s", normal(one));
    CHECK(strcmp(first, "bad order <n>: <s>") == 0);
    CHECK(strcmp(first, normal(other)) == 0);

    /* The end of what is read moves with the numbers, the end of what is written does not. */
    size_t n = 0, m = 0;
    for (int i = 0; i < 250; i++) {
        n += (size_t)snprintf(one + n, sizeof one - n, "word %d ", i % 10);
        m += (size_t)snprintf(other + m, sizeof other - m, "word %d ", 10 + i % 10);
    }
    snprintf(first, sizeof first, "%s", normal(one));
    CHECK_EQ(strlen(first), FINGERPRINT_NORMAL_MAX);
    CHECK(strcmp(first, normal(other)) == 0);

    memset(one, 0xe2, sizeof one);
    one[sizeof one - 1] = '\0';
    CHECK(strlen(normal(one)) <= FINGERPRINT_NORMAL_MAX);
    for (size_t i = 0; i + 3 < sizeof one; i += 3)
        memcpy(one + i, "\xe2\x82\xac", 4);
    CHECK(span_is_utf8(span_str(normal(one))));
}

static void what_was_in_the_buffer_does_not_count(void) {
    struct buf out;
    buf_init(&out, 100);
    buf_add_str(&out, "<n>, ");
    message_normalise(span_str(" 7 of 8 "), &out);
    CHECK(span_equal_str(buf_span(&out), "<n>, <n> of <n>"));
    buf_release(&out);
}

/* -- keys ------------------------------------------------------------------------------------ */

#define FACTS(...) (&(struct failure_facts){.reason = REASON_MAX_RETRIES, __VA_ARGS__})
#define KEY(...) fingerprint_v1(FACTS(__VA_ARGS__))
#define TEXT(s) span_str(s)

static const char trace_one[] = "X\n\tat a.B.c(B.java:3)\n",
                  trace_new[] = "X\n\tat a.B.c(B.java:9)\n";

static void keys_tell_causes_apart(void) {
    struct span q = TEXT("orders");
    uint64_t key = KEY(.queue = q, .error_class = TEXT("E"), .error = TEXT("x 7"));
    CHECK(key == KEY(.queue = q, .error_class = TEXT("E"), .error = TEXT("x 8")));
    CHECK(key != KEY(.queue = q, .error_class = TEXT("E"), .error = TEXT("y 7")));
    CHECK(key != KEY(.queue = q, .error_class = TEXT("F"), .error = TEXT("x 7")));
    CHECK(key != KEY(.queue = TEXT("mails"), .error_class = TEXT("E"), .error = TEXT("x 7")));
    struct failure_facts expired = {
        .queue = q, .reason = REASON_EXPIRED, .error_class = TEXT("E"), .error = TEXT("x 7")};
    CHECK(key != fingerprint_v1(&expired));
    /* A detail that is no trace does not count. */
    CHECK(key == KEY(.queue = q, .error_class = TEXT("E"), .error = TEXT("x 8"),
                     .detail = TEXT("what 7")));

    /* Parts do not run into each other. */
    CHECK(KEY(.queue = TEXT("ab"), .error_class = TEXT("c")) !=
          KEY(.queue = TEXT("a"), .error_class = TEXT("bc")));
    CHECK(KEY(.queue = q, .error_class = TEXT("x")) != KEY(.queue = q, .error = TEXT("x")));
    CHECK(KEY(.queue = q, .fingerprint = TEXT("x")) != KEY(.queue = q, .error = TEXT("x")));
}

static void traces_come_before_messages(void) {
    struct span q = TEXT("orders");
    uint64_t key = KEY(.queue = q, .error = TEXT("one"), .detail = TEXT(trace_one));
    CHECK(key == KEY(.queue = q, .error = TEXT("two"), .detail = TEXT(trace_new)));
    CHECK(key != KEY(.queue = q, .error = TEXT("one")));
    CHECK(key !=
          KEY(.queue = q, .error = TEXT("one"), .detail = TEXT("X\n\tat a.B.d(B.java:3)\n")));
    CHECK(key != KEY(.queue = q, .error_class = TEXT("E"), .error = TEXT("one"),
                     .detail = TEXT(trace_one)));
    /* Frames are not a message that reads like them. */
    CHECK(key != KEY(.queue = q, .error = TEXT("a.B.c\n")));
}

static void the_workers_own_comes_first(void) {
    struct span q = TEXT("orders"), own = TEXT("payment-7");
    uint64_t key =
        KEY(.queue = q, .fingerprint = own, .error_class = TEXT("E"), .detail = TEXT(trace_one));
    struct failure_facts other = {.queue = q, .reason = REASON_REJECTED, .fingerprint = own};
    CHECK(key == fingerprint_v1(&other));
    CHECK(key != KEY(.queue = q, .fingerprint = TEXT("payment-8")));
    CHECK(key != KEY(.queue = TEXT("mails"), .fingerprint = own));
}

/* If one of these fails, keys have changed, and links and notes are lost: the test is right. */
static void keys_never_change(void) {
    struct span q = TEXT("orders");
    CHECK(KEY(.queue = q, .fingerprint = TEXT("payment")) == UINT64_C(0xdbebe1ff31f79152));
    CHECK(KEY(.queue = q, .error_class = TEXT("Timeout"),
              .error = TEXT("connecting to 10.0.0.1:80 took 5003 ms")) ==
          UINT64_C(0x15b33b6f12ae006f));
    CHECK(KEY(.queue = q, .error_class = TEXT("KeyError"), .error = TEXT("'total'"),
              .detail = TEXT("Traceback (most recent call last):\n"
                             "  File \"/app/a.py\", line 3, in run\n"
                             "  File \"/app/b.py\", line 4, in load\n"
                             "KeyError: 'total'\n")) == UINT64_C(0xacb1a5dd142fc20d));
    CHECK(KEY(.queue = q) == UINT64_C(0xa59a4171a61423c3));
}

static void keys_as_text(void) {
    char text[GROUP_KEY_SIZE];
    group_key_write(UINT64_C(0x0123456789abcdef), text);
    CHECK(strcmp(text, "v1:0123456789abcdef") == 0);
    uint64_t key = 0;
    CHECK(group_key_parse(span_str(text), &key) && key == UINT64_C(0x0123456789abcdef));
    group_key_write(UINT64_MAX, text);
    CHECK(group_key_parse(span_str(text), &key) && key == UINT64_MAX);

    static const char *const bad[] = {"",
                                      "v1:",
                                      "v1:0123456789abcde",
                                      "v1:0123456789abcdef0",
                                      "v2:0123456789abcdef",
                                      "v1:0123456789ABCDEF",
                                      "v1:0123456789abcdeg",
                                      "0123456789abcdef",
                                      "v1:0000000000000000"};
    for (size_t i = 0; i < LENGTH(bad); i++) {
        key = 7;
        CHECK(!group_key_parse(span_str(bad[i]), &key) && key == 7);
    }
}

/* -- titles ---------------------------------------------------------------------------------- */

static bool has_title(const struct failure_facts *f, const char *expected) {
    struct buf out;
    buf_init(&out, FINGERPRINT_TITLE_MAX);
    buf_add_str(&out, "what was there");
    fingerprint_title(f, &out);
    bool is_so = span_equal_str(buf_span(&out), expected);
    if (!is_so)
        printf("# got %.*s\n", (int)out.n, (const char *)out.p);
    buf_release(&out);
    return is_so;
}

static void titles(void) {
    CHECK(has_title(
        FACTS(.error_class = TEXT("Timeout"), .error = TEXT("connecting to 10.0.0.1:80 took 7 ms")),
        "Timeout: connecting to <addr> took <n> ms"));
    CHECK(has_title(FACTS(.error = TEXT("order 7\n\tis gone")), "order <n> is gone"));
    CHECK(has_title(FACTS(.error_class = TEXT("Timeout"), .fingerprint = TEXT("f")), "Timeout"));
    CHECK(has_title(FACTS(.error_class = TEXT("KeyError"), .error = TEXT("KeyError: 'a'")),
                    "KeyError: <s>"));
    CHECK(has_title(FACTS(.error_class = TEXT("a.\x1b[1mB\n")), "a. [1mB"));
    CHECK(has_title(FACTS(.fingerprint = TEXT("pay\x7f"
                                              "ment\xc2\x9b-7")),
                    "pay ment -7"));
    CHECK(has_title(FACTS(.fingerprint = TEXT("\n")), "max_retries"));
    struct failure_facts nothing = {.reason = REASON_EXPIRED};
    CHECK(has_title(&nothing, "expired"));
}

static void titles_are_cut_at_a_character(void) {
    char text[1000];
    for (size_t i = 0; i + 3 < sizeof text; i += 3)
        memcpy(text + i, "\xe2\x82\xac", 4);
    struct buf out;
    buf_init(&out, FINGERPRINT_TITLE_MAX);
    for (size_t i = 0; i < 3; i++) {
        char class[4] = {'A', 'B', 'C', '\0'};
        class[i] = '\0';
        fingerprint_title(FACTS(.error_class = TEXT(class), .error = TEXT(text)), &out);
        CHECK(out.n <= FINGERPRINT_TITLE_MAX && out.n > FINGERPRINT_TITLE_MAX - 3);
        CHECK(span_is_utf8(buf_span(&out)));
    }
    buf_release(&out);
}

int main(void) {
    RUN(placeholders);
    RUN(together_and_apart);
    RUN(long_messages);
    RUN(what_was_in_the_buffer_does_not_count);
    RUN(keys_tell_causes_apart);
    RUN(traces_come_before_messages);
    RUN(the_workers_own_comes_first);
    RUN(keys_never_change);
    RUN(keys_as_text);
    RUN(titles);
    RUN(titles_are_cut_at_a_character);
    return check_done();
}
