/* What the value of one term is read as, and what it matches. */
#include "check.h"

#include "base/mem.h"
#include "base/rng.h"
#include "model/filter.h"

#include <stdlib.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

#define NOW INT64_C(1780315200000) /* 2026-06-01 12:00:00 */
#define SECOND INT64_C(1000)
#define HOUR INT64_C(3600000)
#define DAY INT64_C(86400000)

static struct filter *filter;

static enum verdict keep(void *ctx, const struct filter_term *t) {
    const struct filter_term **kept = ctx;
    *kept = t;
    return VERDICT_YES;
}

/* The term of a filter that has just one; until the next call, or forget(). */
static const struct filter_term *term(const char *text) {
    const struct filter_term *t = NULL;
    struct filter_error error;
    filter_free(filter);
    filter = filter_parse(span_str(text), FILTER_LETTERS, NOW, &error);
    if (filter == NULL)
        printf("# %s: %zu+%zu: %s\n", text, error.at, error.bytes, error.text);
    CHECK(filter != NULL && filter_eval(filter, keep, &t) == VERDICT_YES);
    return t;
}

static void forget(void) {
    filter_free(filter);
    filter = NULL;
}

/* -- text ---------------------------------------------------------------------------------------- */

static bool matches(const char *term_text, const char *text) {
    const struct filter_term *t = term(term_text);
    return t != NULL && term_matches_text(t, span_str(text));
}

static void text_matches_as_a_whole(void) {
    CHECK(matches("error:Timeout", "Timeout"));
    CHECK(!matches("error:Timeout", "timeout"));
    CHECK(!matches("error:Timeout", "Timeouts"));
    CHECK(!matches("error:Timeout", ""));
    CHECK(matches("error:\"\"", ""));
    CHECK(!matches("error:\"\"", "x"));
    CHECK(matches("error:caf\xc3\xa9", "caf\xc3\xa9"));
    CHECK(matches("error:v1:a(b>..2", "v1:a(b>..2"));
    CHECK(matches("error:>5", ">5"));
    CHECK(matches("error:a\\b\\", "a\\b\\"));
    CHECK(matches("error:\"a b\"", "a b"));
    CHECK(matches("error:\"(a) \\\"b\\\" \\\\c\"", "(a) \"b\" \\c"));
    CHECK(matches("error:a\" b \"c", "a b c"));
    CHECK(matches("queue:\"a OR b\"", "a OR b"));
    CHECK(matches("reason:max_*", "max_length"));
    CHECK(matches("reason:\"lease_expired\"", "lease_expired"));
    forget();
}

static void a_star_is_any_run_of_bytes(void) {
    CHECK(matches("error:*", ""));
    CHECK(matches("error:*", "x"));
    CHECK(matches("error:***", ""));
    CHECK(matches("error:Time*", "Time"));
    CHECK(matches("error:Time*", "Timeout"));
    CHECK(!matches("error:Time*", "A Timeout"));
    CHECK(matches("error:*out", "Timeout"));
    CHECK(!matches("error:*out", "Timeouts"));
    CHECK(matches("error:*meo*", "Timeout"));
    CHECK(!matches("error:*moe*", "Timeout"));
    CHECK(matches("error:a*a", "aa"));
    CHECK(!matches("error:a*a", "a"));
    CHECK(matches("error:a*b*c", "a-b-b-c"));
    CHECK(!matches("error:a*b*c", "a-c-b"));
    CHECK(!matches("error:ab*ba", "aba"));
    CHECK(matches("error:\"Time out\"*", "Time out of mind"));
    CHECK(matches("message:\"*refused*\"", "*refused*"));
    CHECK(!matches("message:\"*refused*\"", "was refused"));
    CHECK(matches("message:*\"*\"*", "2*3"));
    CHECK(!matches("message:*\"*\"*", "23"));
    forget();
}

/* The definition, for comparison: exponential at worst. */
static bool matches_slowly(struct span pattern, const uint8_t *wild, struct span text) {
    if (pattern.n == 0)
        return text.n == 0;
    struct span rest = span_of(pattern.p + 1, pattern.n - 1);
    if (*wild == 1)
        return matches_slowly(rest, wild + 1, text) ||
               (text.n > 0 && matches_slowly(pattern, wild, span_of(text.p + 1, text.n - 1)));
    return text.n > 0 && *text.p == *pattern.p &&
           matches_slowly(rest, wild + 1, span_of(text.p + 1, text.n - 1));
}

static void wildcards_match_what_their_definition_says(void) {
    struct rng rng;
    rng_seed(&rng, 7);
    size_t matched = 0;
    for (int round = 0; round < 20000; round++) {
        char text[16] = "error:", subject[9] = "";
        size_t n = 1 + rng_below(&rng, 8), subject_n = rng_below(&rng, 9);
        for (size_t i = 0; i < n; i++)
            text[6 + i] = "ab*"[rng_below(&rng, 3)];
        for (size_t i = 0; i < subject_n; i++)
            subject[i] = "ab"[rng_below(&rng, 2)];
        const struct filter_term *t = term(text);
        bool expected = matches_slowly(t->pattern, t->wild, span_str(subject));
        matched += expected;
        CHECK_EQ(term_matches_text(t, span_str(subject)), expected);
    }
    CHECK(matched > 2000);
    forget();
}

/* What takes time that grows with the product of both lengths takes minutes here. */
static void wildcards_take_linear_time(void) {
    enum { PATTERN_BYTES = 4000, TEXT_BYTES = 1000000 };
    static char stars[PATTERN_BYTES + 1] = "error:", run[PATTERN_BYTES + 1] = "error:*";
    for (size_t i = strlen(stars); i < PATTERN_BYTES; i++)
        stars[i] = i % 2 == 0 ? '*' : 'a';
    memset(run + strlen(run), 'a', PATTERN_BYTES - strlen(run));
    memcpy(stars + PATTERN_BYTES - 3, "b*c", 3);
    memcpy(run + PATTERN_BYTES / 2, "b", 1);
    memcpy(run + PATTERN_BYTES - 2, "*c", 2);
    char *text = mem_alloc(TEXT_BYTES);
    memset(text, 'a', TEXT_BYTES);
    text[TEXT_BYTES - 1] = 'c';
    const char *const patterns[] = {stars, run};
    for (size_t i = 0; i < COUNT(patterns); i++) {
        const struct filter_term *t = term(patterns[i]);
        for (int times = 0; times < 20; times++)
            CHECK(!term_matches_text(t, span_of(text, TEXT_BYTES)));
        text[TEXT_BYTES - 2] = 'b';
        CHECK_EQ(term_matches_text(t, span_of(text, TEXT_BYTES)), i == 0);
        text[TEXT_BYTES - 2] = 'a';
    }
    forget();
    free(text);
}

/* -- numbers, times, durations --------------------------------------------------------------------- */

struct bounds {
    const char *text;
    int64_t low, high;
};

static void check_bounds(const struct bounds *b, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const struct filter_term *t = term(b[i].text);
        if (t == NULL)
            continue;
        if (t->low != b[i].low || t->high != b[i].high)
            printf("# %s: %lld..%lld\n", b[i].text, (long long)t->low, (long long)t->high);
        CHECK_EQ(t->low, b[i].low);
        CHECK_EQ(t->high, b[i].high);
        CHECK(t->is_numeric && t->pattern.n == 0 && !term_matches_text(t, span_str("")));
        CHECK(term_matches_number(t, t->low) && term_matches_number(t, t->high));
        CHECK(t->low == INT64_MIN || !term_matches_number(t, t->low - 1));
        CHECK(t->high == INT64_MAX || !term_matches_number(t, t->high + 1));
    }
    forget();
}

static void numbers(void) {
    static const struct bounds all[] = {
        {"redrives:5", 5, 5},
        {"redrives:05", 5, 5},
        {"redrives:>5", 6, INT64_MAX},
        {"redrives:>=5", 5, INT64_MAX},
        {"redrives:<5", INT64_MIN, 4},
        {"redrives:<=5", INT64_MIN, 5},
        {"redrives:<0", INT64_MIN, -1},
        {"redrives:2..5", 2, 5},
        {"redrives:5..5", 5, 5},
        {"redrives:2..", 2, INT64_MAX},
        {"redrives:..5", INT64_MIN, 5},
        {"redrives:\"2\"..\"5\"", 2, 5},
        {"id:9223372036854775806", INT64_MAX - 1, INT64_MAX - 1},
        {"id:>9223372036854775806", INT64_MAX, INT64_MAX},
        {"priority:0", 0, 0},
        {"deliveries:1..3", 1, 3},
        {"size:10k", 10240, 10240},
        {"size:>=2m", 2097152, INT64_MAX},
        {"size:1k..1m", 1024, 1048576},
        {"size:100..1k", 100, 1024},
        {"edited:yes", 1, 1},
        {"edited:no", 0, 0},
    };
    check_bounds(all, COUNT(all));
}

static void durations(void) {
    static const struct bounds all[] = {
        /* now - died > 2h, that is: died < now - 2h */
        {"age:>2h", INT64_MIN, NOW - 2 * HOUR - 1},
        {"age:>=2h", INT64_MIN, NOW - 2 * HOUR},
        {"age:<2h", NOW - 2 * HOUR + 1, INT64_MAX},
        {"age:<=2h", NOW - 2 * HOUR, INT64_MAX},
        {"age:2h..", INT64_MIN, NOW - 2 * HOUR},
        {"age:..2h", NOW - 2 * HOUR, INT64_MAX},
        {"age:1h30m..2d", NOW - 2 * DAY, NOW - HOUR - HOUR / 2},
        {"age:2h..2h", NOW - 2 * HOUR, NOW - 2 * HOUR},
        {"age:<0s", NOW + 1, INT64_MAX},
        {"age:>1w2d3h4m5s", INT64_MIN, NOW - (9 * DAY + 3 * HOUR + 245 * SECOND) - 1},
        {"age:>9223372036854775s", INT64_MIN, NOW - INT64_C(9223372036854775000) - 1},
        {"expires:<24h", INT64_MIN, NOW + DAY - 1},
        {"expires:<=24h", INT64_MIN, NOW + DAY},
        {"expires:>1d", NOW + DAY + 1, INT64_MAX},
        {"expires:>=1d", NOW + DAY, INT64_MAX},
        {"expires:1h..2h", NOW + HOUR, NOW + 2 * HOUR},
        {"expires:<9223372036854775s", INT64_MIN, INT64_MAX},
    };
    check_bounds(all, COUNT(all));
}

static void times(void) {
    const int64_t day = NOW - 12 * HOUR; /* 2026-06-01 */
    const struct bounds all[] = {
        {"died:2026-06-01", day, day + DAY - 1},
        {"died:>2026-06-01", day + DAY, INT64_MAX},
        {"died:>=2026-06-01", day, INT64_MAX},
        {"died:<2026-06-01", INT64_MIN, day - 1},
        {"died:<=2026-06-01", INT64_MIN, day + DAY - 1},
        {"died:2026-06-01..2026-06-02", day, day + 2 * DAY - 1},
        {"died:2026-06-01..", day, INT64_MAX},
        {"died:..2026-06-01", INT64_MIN, day + DAY - 1},
        {"died:2026-06-01T12:00", NOW, NOW + 60 * SECOND - 1},
        {"died:2026-06-01T12:00Z", NOW, NOW + 60 * SECOND - 1},
        {"died:2026-06-01T12:00:00", NOW, NOW + SECOND - 1},
        {"died:2026-06-01T12:00:00Z", NOW, NOW + SECOND - 1},
        {"died:\"2026-06-01 12:00:00\"", NOW, NOW + SECOND - 1},
        {"died:\"2026-06-01 12:00\"", NOW, NOW + 60 * SECOND - 1},
        {"died:>\"2026-06-01 12:00:00\"", NOW + SECOND, INT64_MAX},
        {"died:\"2026-06-01 12:00\"..\"2026-06-01 13:00:00\"", NOW, NOW + HOUR + SECOND - 1},
        {"died:2026-06-01T12:00..2026-06-01", NOW, day + DAY - 1},
        {"first:1970-01-01", 0, DAY - 1},
        {"enqueued:<1970-01-01", INT64_MIN, -1},
        {"enqueued:>9999-12-31", INT64_C(253402300800000), INT64_MAX},
        {"first:2024-02-29", INT64_C(1709164800000), INT64_C(1709164800000) + DAY - 1},
    };
    check_bounds(all, COUNT(all));
}

/* -- JSON ------------------------------------------------------------------------------------------ */

static bool json_matches(const char *term_text, const char *json) {
    struct json_error json_error;
    struct json *root = json_parse(span_str(json), &json_error);
    CHECK(root != NULL);
    const struct filter_term *t = term(term_text);
    bool answer = t != NULL && term_matches_json(t, root);
    json_free(root);
    return answer;
}

static void text_of_json(void) {
    CHECK(json_matches("payload.a:x", "\"x\""));
    CHECK(!json_matches("payload.a:x", "\"X\""));
    CHECK(json_matches("header.a:A*", "\"ABC\""));
    CHECK(json_matches("payload.a:\"A*\"", "\"A*\""));
    CHECK(!json_matches("payload.a:\"A*\"", "\"AB\""));
    CHECK(json_matches("payload.a:\"\"", "\"\""));
    CHECK(json_matches("payload.a:..", "\"..\""));
    CHECK(json_matches("payload.a:a..b", "\"a..b\""));
    CHECK(json_matches("payload.a:5..b", "\"5..b\""));
    CHECK(json_matches("payload.a:x..5", "\"x..5\""));
    CHECK(!json_matches("payload.a:x..5", "1"));
    CHECK(json_matches("payload.a:-", "\"-\""));
    CHECK(json_matches("payload.a:\">5\"", "\">5\""));
    CHECK(json_matches("payload.a:\"1..2\"", "\"1..2\""));

    CHECK(json_matches("payload.a:true", "true"));
    CHECK(json_matches("payload.a:true", "\"true\""));
    CHECK(!json_matches("payload.a:true", "false"));
    CHECK(json_matches("payload.a:fal*", "false"));
    CHECK(json_matches("payload.a:null", "null"));
    CHECK(!json_matches("payload.a:\"null\"", "null"));
    CHECK(!json_matches("payload.a:>0", "true"));

    CHECK(json_matches("payload.a:x", "[\"y\", [1, \"x\"]]"));
    CHECK(json_matches("payload.a:x", "[\"x\", \"y\"]"));
    CHECK(!json_matches("payload.a:x", "[\"y\"]"));
    CHECK(!json_matches("payload.a:*", "[]"));
    CHECK(!json_matches("payload.a:*", "{\"x\": \"x\"}"));
    CHECK(json_matches("payload.a:*", "null"));
    CHECK(json_matches("payload.a:>2", "[1, \"x\", 3]"));
    CHECK(!json_matches("payload.a:>3", "[1, \"x\", 3]"));
    CHECK(!term_matches_json(term("payload.a:*"), NULL));
    forget();
}

static void numbers_of_json(void) {
    CHECK(json_matches("payload.a:123", "123"));
    CHECK(json_matches("payload.a:123", "\"123\""));
    CHECK(json_matches("payload.a:123", "123.0"));
    CHECK(json_matches("payload.a:123", "1.23e2"));
    CHECK(json_matches("payload.a:1.23e2", "123"));
    CHECK(!json_matches("payload.a:123", "1234"));
    CHECK(!json_matches("payload.a:123", "123.5"));
    CHECK(json_matches("payload.a:12.5", "12.5"));
    CHECK(!json_matches("payload.a:12.5", "12"));
    CHECK(!json_matches("payload.a:12.5", "13"));
    CHECK(json_matches("payload.a:-0", "0"));
    CHECK(!json_matches("payload.a:\"123\"", "123"));
    CHECK(json_matches("payload.a:\"123\"", "\"123\""));
    CHECK(!json_matches("payload.a:0123", "123"));
    CHECK(json_matches("payload.a:0123", "\"0123\""));
    CHECK(!json_matches("payload.a:x", "0"));
    CHECK(json_matches("payload.a:1e999", "\"1e999\""));
    CHECK(json_matches("payload.a:12*", "1234"));
    CHECK(json_matches("payload.a:12*", "12.75"));
    CHECK(!json_matches("payload.a:12*", "34"));
    CHECK(!json_matches("payload.a:12*", "34.5"));
    CHECK(!json_matches("payload.a:\"12\"*", "1234"));
    CHECK(json_matches("payload.a:*.5", "0.5"));

    CHECK(json_matches("payload.a:>=10.5", "10.5"));
    CHECK(!json_matches("payload.a:>10.5", "10.5"));
    CHECK(json_matches("payload.a:>10.5", "11"));
    CHECK(!json_matches("payload.a:>=10.5", "10"));
    CHECK(!json_matches("payload.a:>=10.5", "\"11\""));
    CHECK(!json_matches("payload.a:>=10.5", "\">=10.5\""));
    CHECK(!json_matches("payload.a:1..2", "\"1..2\""));
    CHECK(json_matches("payload.a:<0", "-1"));
    CHECK(!json_matches("payload.a:<0", "0.0"));
    CHECK(json_matches("payload.a:<=0", "-0.0"));
    CHECK(json_matches("payload.a:-1.5..2", "-1.5"));
    CHECK(json_matches("payload.a:-1.5..2", "2"));
    CHECK(!json_matches("payload.a:-1.5..2", "-2"));
    CHECK(!json_matches("payload.a:-1.5..2", "2.0001"));
    CHECK(json_matches("header.a:1..", "1e300"));
    CHECK(json_matches("header.a:..-1", "-1e300"));
    forget();
}

static void big_numbers_of_json_are_exact(void) {
    CHECK(json_matches("payload.a:9007199254740993", "9007199254740993"));
    CHECK(!json_matches("payload.a:9007199254740993", "9007199254740992"));
    CHECK(!json_matches("payload.a:>9007199254740993", "9007199254740993"));
    CHECK(json_matches("payload.a:>9007199254740992", "9007199254740993"));
    CHECK(!json_matches("payload.a:<9007199254740993", "9007199254740993"));
    CHECK(json_matches("payload.a:9223372036854775807", "9223372036854775807"));
    CHECK(!json_matches("payload.a:>9223372036854775807", "9223372036854775807"));
    CHECK(!json_matches("payload.a:<-9223372036854775808", "-9223372036854775808"));
    CHECK(json_matches("payload.a:<=-9223372036854775808", "-9223372036854775808"));
    CHECK(!json_matches("payload.a:>1e17", "100000000000000000"));
    CHECK(json_matches("payload.a:>=1e17", "100000000000000000"));
    CHECK(!json_matches("payload.a:<1e17", "100000000000000000"));
    CHECK(!json_matches("payload.a:>=1e19", "9223372036854775807"));
    CHECK(json_matches("payload.a:<=1e19", "9223372036854775807"));
    CHECK(!json_matches("payload.a:1e300..2e300", "9223372036854775807"));
    CHECK(json_matches("payload.a:1e300..2e300", "1.5e300"));
    CHECK(!json_matches("payload.a:<=-1e19", "-9223372036854775808"));
    CHECK(json_matches("payload.a:>-1e19", "-9223372036854775808"));
    CHECK(json_matches("payload.a:>=-9223372036854775808.0", "-9223372036854775808"));
    CHECK(!json_matches("payload.a:>-9223372036854775808.0", "-9223372036854775808"));
    CHECK(json_matches("payload.a:<=-9223372036854775808.0", "-9223372036854775808"));
    CHECK(!json_matches("payload.a:>=9223372036854775808.0", "9223372036854775807"));
    CHECK(json_matches("payload.a:<9223372036854775808.0", "9223372036854775807"));
    forget();
}

static void values_at_paths(void) {
    struct json_error json_error;
    struct json *root = json_parse(
        span_str("{\"a.b\": {\"c\": \"x\"}, \"items\": [{\"sku\": \"A1\"}]}"), &json_error);
    const struct filter_term *t = term("payload.\"a.b\".c:x");
    CHECK(term_matches_json(t, term_value_at(t, root)));
    t = term("payload.items.0.sku:A*");
    CHECK(span_equal_str(t->name, "items.0.sku"));
    CHECK(term_matches_json(t, term_value_at(t, root)));
    CHECK(term_value_at(term("payload.items.1.sku:A*"), root) == NULL);
    CHECK(span_equal_str(term("header.\"a:b \\\"c\\\"\":x")->name, "a:b \"c\""));
    CHECK(span_equal_str(term("header.x.y-z:x")->name, "x.y-z"));
    forget();
    json_free(root);
}

int main(void) {
    RUN(text_matches_as_a_whole);
    RUN(a_star_is_any_run_of_bytes);
    RUN(wildcards_match_what_their_definition_says);
    RUN(wildcards_take_linear_time);
    RUN(numbers);
    RUN(durations);
    RUN(times);
    RUN(text_of_json);
    RUN(numbers_of_json);
    RUN(big_numbers_of_json_are_exact);
    RUN(values_at_paths);
    return check_done();
}
