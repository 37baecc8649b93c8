/* What a queue wants to be told of. */
#include "field_errors.h"

#include "model/alert.h"

#define URL "\"url\": \"https://example.org/hook\""

static void check(const char *text) {
    struct json_error error;
    struct json *v = json_parse(span_str(text), &error);
    CHECK(v != NULL);
    errors.count = 0;
    alerts_check(v, &errors);
    json_free(v);
}

static bool refused(const char *text, const char *field, const char *code) {
    check(text);
    return said_alone(field, code);
}

static size_t read(const char *text, struct alert *ret, size_t most) {
    check(text);
    CHECK_EQ(errors.count, 0);
    return alerts_read(span_str(text), ret, most);
}

static void kinds_have_names(void) {
    for (int k = 0; k < ALERT_KIND_COUNT; k++) {
        const char *name = alert_kind_name((enum alert_kind)k);
        CHECK_EQ(alert_kind_parse(span_str(name)), k);
    }
    CHECK(strcmp(alert_kind_name(ALERT_DEAD_LETTER), "dead_letter") == 0);
    CHECK(strcmp(alert_kind_name(ALERT_REDRIVE_STOPPED), "redrive_stopped") == 0);
    CHECK_EQ(alert_kind_parse(span_str("dead")), -1);
    CHECK_EQ(alert_kind_parse(span_of(NULL, 0)), -1);
}

static void every_kind_has_its_defaults(void) {
    static const struct alert wanted[ALERT_KIND_COUNT] = {
        [ALERT_DEAD_LETTER] = {.after_ms = 3600000},
        [ALERT_RATE] = {.per_minute = 60},
        [ALERT_OLDEST_AGE] = {.share_ppm = 800000},
        [ALERT_SOONEST_EXPIRY] = {.within_ms = 86400000},
    };
    for (int k = 0; k < ALERT_KIND_COUNT; k++) {
        char text[128];
        struct alert a;
        snprintf(text, sizeof text, "[{\"kind\": \"%s\", " URL "}]",
                 alert_kind_name((enum alert_kind)k));
        CHECK_EQ(read(text, &a, 1), 1);
        CHECK_EQ(a.kind, k);
        CHECK(strcmp(a.url, "https://example.org/hook") == 0);
        CHECK_EQ(a.secret_bytes, 0);
        CHECK_EQ(a.repeat_ms, 3600000);
        CHECK_EQ(a.after_ms, wanted[k].after_ms);
        CHECK_EQ(a.per_minute, wanted[k].per_minute);
        CHECK_EQ(a.share_ppm, wanted[k].share_ppm);
        CHECK_EQ(a.within_ms, wanted[k].within_ms);
    }
}

static void what_is_given_is_read(void) {
    struct alert a[8];
    CHECK_EQ(alerts_read(span_of(NULL, 0), a, 8), 0);
    CHECK_EQ(read("[]", a, 8), 0);
    CHECK_EQ(read("[{\"kind\": \"dead_letter\", \"url\": \"http://10.0.0.1:8080/x?y=z\", "
                  "\"secret\": \"a\\u0000\xc3\xa4\", \"after_seconds\": 0, \"repeat_seconds\": 60},"
                  " {\"kind\": \"rate\", " URL ", \"per_minute\": 1},"
                  " {\"kind\": \"oldest_age\", " URL ", \"share\": 0.01},"
                  " {\"kind\": \"oldest_age\", " URL ", \"share\": 1},"
                  " {\"kind\": \"soonest_expiry\", " URL ", \"within_seconds\": 31536000}]",
                  a, 8),
             5);
    CHECK(strcmp(a[0].url, "http://10.0.0.1:8080/x?y=z") == 0);
    CHECK_EQ(a[0].secret_bytes, 4);
    CHECK(memcmp(a[0].secret, "a\0\xc3\xa4", 4) == 0);
    CHECK_EQ(a[0].after_ms, 0);
    CHECK_EQ(a[0].repeat_ms, 60000);
    CHECK_EQ(a[1].per_minute, 1);
    CHECK_EQ(a[2].share_ppm, 10000);
    CHECK_EQ(a[3].share_ppm, 1000000);
    CHECK_EQ(a[4].within_ms, INT64_C(31536000000));

    const char *two = "[{\"kind\": \"rate\", " URL "}, {\"kind\": \"new_group\", " URL "}]";
    CHECK_EQ(read(two, a, 1), 1);
    CHECK_EQ(a[0].kind, ALERT_RATE);
}

static void bad_alerts_name_the_member(void) {
    CHECK(refused("{}", "alerts", "wrong_type"));
    CHECK(refused("[{\"kind\": \"rate\", " URL "}, 1]", "alerts[1]", "wrong_type"));
    CHECK(refused("[{" URL "}]", "alerts[0].kind", "required"));
    CHECK(refused("[{\"kind\": \"depth\", " URL "}]", "alerts[0].kind", "out_of_range"));
    CHECK(refused("[{\"kind\": \"rate\"}]", "alerts[0].url", "required"));
    CHECK(refused("[{\"kind\": \"rate\", \"url\": 1}]", "alerts[0].url", "wrong_type"));
    CHECK(refused("[{\"kind\": \"rate\", " URL ", \"to\": 1}]", "alerts[0].to", "unknown_field"));
    CHECK(refused("[{\"kind\": \"rate\", " URL ", \"secret\": 7}]", "alerts[0].secret",
                  "wrong_type"));
    CHECK(refused("[{\"kind\": \"rate\", " URL ", \"per_minute\": 0}]", "alerts[0].per_minute",
                  "out_of_range"));
    CHECK(refused("[{\"kind\": \"oldest_age\", " URL ", \"share\": 1.01}]", "alerts[0].share",
                  "out_of_range"));
    CHECK(refused("[{\"kind\": \"oldest_age\", " URL ", \"share\": \"80%\"}]", "alerts[0].share",
                  "wrong_type"));
    CHECK(refused("[{\"kind\": \"soonest_expiry\", " URL ", \"within_seconds\": 0}]",
                  "alerts[0].within_seconds", "out_of_range"));
    CHECK(refused("[{\"kind\": \"dead_letter\", " URL ", \"after_seconds\": -1}]",
                  "alerts[0].after_seconds", "out_of_range"));
    CHECK(refused("[{\"kind\": \"rate\", " URL ", \"repeat_seconds\": 59}]",
                  "alerts[0].repeat_seconds", "out_of_range"));
}

static void members_of_another_kind_are_refused(void) {
    static const char *const members[] = {"after_seconds", "per_minute", "share", "within_seconds"};
    static const enum alert_kind kinds[] = {ALERT_DEAD_LETTER, ALERT_RATE, ALERT_OLDEST_AGE,
                                            ALERT_SOONEST_EXPIRY};
    for (int k = 0; k < ALERT_KIND_COUNT; k++) {
        for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
            char text[160], field[64];
            snprintf(text, sizeof text, "[{\"kind\": \"%s\", " URL ", \"%s\": 1}]",
                     alert_kind_name((enum alert_kind)k), members[i]);
            snprintf(field, sizeof field, "alerts[0].%s", members[i]);
            if ((enum alert_kind)k != kinds[i]) {
                CHECK(refused(text, field, "not_allowed"));
                continue;
            }
            check(text);
            CHECK_EQ(errors.count, 0);
        }
    }
}

/* One alert with that URL. */
static bool is_good_url(const char *url) {
    char text[2048];
    snprintf(text, sizeof text, "[{\"kind\": \"rate\", \"url\": \"%s\"}]", url);
    check(text);
    CHECK(errors.count == 0 || strcmp(errors.items[0].field, "alerts[0].url") == 0);
    return errors.count == 0;
}

static void urls_are_of_http(void) {
    CHECK(is_good_url("http://h"));
    CHECK(is_good_url("https://user:word@example.org:8443/a/b?c=d#e"));
    CHECK(is_good_url("http://[::1]:8072/"));
    CHECK(!is_good_url(""));
    CHECK(!is_good_url("http://"));
    CHECK(!is_good_url("https:///path"));
    CHECK(!is_good_url("http://:80/"));
    CHECK(!is_good_url("ftp://example.org/"));
    CHECK(!is_good_url("example.org"));
    CHECK(!is_good_url("file:///etc/passwd"));
    CHECK(!is_good_url("https://example.org/a b"));
    CHECK(!is_good_url("https://example.org/\\u0000"));
    CHECK(!is_good_url("https://example.org/\\r\\nHost: x"));
    CHECK(!is_good_url("https://ex\xc3\xa4mple.org/"));
}

static void there_are_limits(void) {
    char text[2 * ALERT_URL_MAX];
    size_t n = (size_t)snprintf(text, sizeof text, "https://");
    memset(text + n, 'a', ALERT_URL_MAX - n);
    text[ALERT_URL_MAX] = '\0';
    CHECK(is_good_url(text));
    memcpy(text + ALERT_URL_MAX, "a", 2);
    CHECK(!is_good_url(text));
    CHECK(strcmp(errors.items[0].code, "too_long") == 0);

    for (size_t bytes = ALERT_SECRET_MAX; bytes <= ALERT_SECRET_MAX + 1; bytes++) {
        n = (size_t)snprintf(text, sizeof text, "[{\"kind\": \"rate\", " URL ", \"secret\": \"");
        memset(text + n, 's', bytes);
        memcpy(text + n + bytes, "\"}]", sizeof "\"}]");
        check(text);
        CHECK_EQ(errors.count, bytes > ALERT_SECRET_MAX);
    }

    struct buf many;
    buf_init(&many, 4096);
    for (int i = 0; i <= ALERTS_MAX; i++)
        buf_printf(&many, "%s{\"kind\": \"rate\", " URL "}", i == 0 ? "[" : ",");
    buf_add(&many, "]", 2);
    CHECK(refused((const char *)many.p, "alerts", "out_of_range"));
    buf_release(&many);
}

/* -- secrets that are not shown ------------------------------------------------------------------ */

#define TO(url_) "\"url\": \"https://" url_ "\""

static void secrets_are_masked(void) {
    struct buf out;
    buf_init(&out, 4096);
    alerts_mask(span_str(""), &out);
    CHECK_EQ(out.n, 0);
    alerts_mask(span_str("[]"), &out);
    CHECK(span_equal_str(buf_span(&out), "[]"));
    buf_clear(&out);
    alerts_mask(span_str("[{\"secret\": \"a\\u0000b\", \"kind\": \"rate\", \"per_minute\": 5, " TO(
                    "a") "}, "
                         "{\"kind\": \"rate\", " TO("b") "}, {\"kind\": \"rate\", " TO(
                             "c") ", \"secret\": \"\"}]"),
                &out);
    CHECK(span_equal_str(
        buf_span(&out),
        "[{\"secret\":\"***\",\"kind\":\"rate\",\"per_minute\":5,\"url\":\"https://a\"},"
        "{\"kind\":\"rate\",\"url\":\"https://b\"},"
        "{\"kind\":\"rate\",\"url\":\"https://c\",\"secret\":\"\"}]"));
    buf_release(&out);
}

/* What the one alert's secret becomes; NULL: it is refused. */
static const char *unmasked(const char *alert, const char *present, char text[static 256]) {
    char json[512];
    struct buf out;
    struct field_errors told = {0};
    (void)snprintf(json, sizeof json, "[%s]", alert);
    buf_init(&out, 4096);
    alerts_unmask(span_str(json), span_str(present), &out, &told);
    struct alert a;
    bool is_one = told.count == 0 && alerts_read(buf_span(&out), &a, 1) == 1;
    CHECK(is_one || (strcmp(told.items[0].field, "alerts[0].secret") == 0 &&
                     strcmp(told.items[0].code, "required") == 0));
    (void)snprintf(text, 256, "%.*s", is_one ? (int)a.secret_bytes : 0, (const char *)a.secret);
    buf_release(&out);
    return is_one ? text : NULL;
}

static void a_mask_is_the_secret_that_is_there(void) {
    const char *present =
        "[{\"kind\": \"rate\", " TO("a") ", \"secret\": \"one\"}, {\"kind\": \"new_group\", " TO(
            "a") ", \"secret\": \"two\"}, {\"kind\": \"rate\", " TO("b") "}]";
#define MASKED "\"secret\": \"***\""
    char text[256];
    CHECK(strcmp(unmasked("{\"kind\": \"rate\", " TO("a") ", " MASKED "}", present, text), "one") ==
          0);
    CHECK(strcmp(unmasked("{" MASKED ", \"kind\": \"new_group\", " TO("a") "}", present, text),
                 "two") == 0);
    /* Of another kind, to the same receiver: the first. */
    CHECK(strcmp(unmasked("{\"kind\": \"dead_letter\", " TO("a") ", " MASKED "}", present, text),
                 "one") == 0);
    /* Another receiver gets nobody's secret. */
    CHECK(unmasked("{\"kind\": \"rate\", " TO("a/") ", " MASKED "}", present, text) == NULL);
    CHECK(unmasked("{\"kind\": \"rate\", " TO("b") ", " MASKED "}", present, text) == NULL);
    CHECK(unmasked("{\"kind\": \"rate\", " TO("a") ", " MASKED "}", "", text) == NULL);
    /* What is no mask stays. */
    CHECK(strcmp(unmasked("{\"kind\": \"rate\", " TO("a") ", \"secret\": \"****\"}", present, text),
                 "****") == 0);
    CHECK(strcmp(unmasked("{\"kind\": \"rate\", " TO("a") "}", present, text), "") == 0);
}

int main(void) {
    RUN(kinds_have_names);
    RUN(every_kind_has_its_defaults);
    RUN(what_is_given_is_read);
    RUN(bad_alerts_name_the_member);
    RUN(members_of_another_kind_are_refused);
    RUN(urls_are_of_http);
    RUN(there_are_limits);
    RUN(secrets_are_masked);
    RUN(a_mask_is_the_secret_that_is_there);
    return check_done();
}
