/* Rules: which one takes a failure, what is wrong with one, and what a hostile one costs. */
#include "field_errors.h"

#include "model/rules.h"

#include <time.h>

static void check(const char *text) {
    struct json_error error;
    struct json *v = json_parse(span_str(text), &error);
    CHECK(v != NULL);
    errors.count = 0;
    rules_check(v, &errors);
    json_free(v);
}

static struct rules *compile(const char *text) {
    check(text);
    for (unsigned i = 0; i < errors.count; i++)
        printf("# %s: %s: %s\n", text, errors.items[i].field, errors.items[i].message);
    CHECK_EQ(errors.count, 0);
    return rules_new(span_str(text));
}

static bool refused(const char *text, const char *field, const char *code) {
    check(text);
    return said_alone(field, code);
}

/* The number of the rule that takes it, or -1. */
static int taken_by(const struct rules *r, const char *error_class, const char *error) {
    struct rule rule;
    return rules_find(r, span_str(error_class), span_str(error), &rule) ? (int)rule.number : -1;
}

/* One rule over the message. */
static bool matches(const char *member, const char *pattern, struct span text) {
    struct buf json;
    struct json_writer w;
    buf_init(&json, 16 * 1024);
    json_writer_init(&w, &json);
    json_begin(&w, '[');
    json_begin(&w, '{');
    json_name(&w, member);
    json_put_str(&w, pattern);
    json_name(&w, "action");
    json_put_str(&w, "dead");
    json_end(&w, '}');
    json_end(&w, ']');
    buf_add_byte(&json, '\0');
    struct rules *r = compile((const char *)json.p);
    struct rule rule;
    bool is_found = rules_find(r, span_of(NULL, 0), text, &rule);
    rules_free(r);
    buf_release(&json);
    return is_found;
}

static bool regex_matches(const char *expression, const char *text) {
    return matches("message_regex", expression, span_str(text));
}

/* -- which rule ------------------------------------------------------------------------------ */

static void no_rules_take_nothing(void) {
    CHECK(rules_new(span_of(NULL, 0)) == NULL);
    CHECK_EQ(taken_by(NULL, "Timeout", "x"), -1);
    struct rules *r = compile("[]");
    CHECK_EQ(taken_by(r, "Timeout", "x"), -1);
    rules_free(r);
    rules_free(NULL);
}

static void the_first_that_matches_decides(void) {
    struct rules *r =
        compile("[{\"error\": \"Timeout*\", \"message\": \"*refused*\", \"action\": \"retry\"},"
                " {\"error_regex\": \"^Http4..$\", \"action\": \"dead\"},"
                " {\"message\": \"rate limit*\", \"action\": \"release\"},"
                " {\"error\": \"Timeout\", \"action\": \"pause\"},"
                " {\"error\": \"Http404\", \"action\": \"retry\"},"
                " {\"error\": \"\", \"action\": \"release\"}]");
    CHECK_EQ(taken_by(r, "TimeoutError", "connection refused by peer"), 0);
    CHECK_EQ(taken_by(r, "TimeoutError", "no answer"), -1);
    CHECK_EQ(taken_by(r, "Timeout", "no answer"), 3);
    CHECK_EQ(taken_by(r, "Http404", ""), 1);
    CHECK_EQ(taken_by(r, "Http4040", ""), -1);
    CHECK_EQ(taken_by(r, "Http404", "rate limit reached"), 1);
    CHECK_EQ(taken_by(r, "X", "rate limit reached"), 2);
    CHECK_EQ(taken_by(r, "X", "a rate limit"), -1);
    CHECK_EQ(taken_by(r, "", "x"), 5);
    rules_free(r);

    r = compile("[{\"action\": \"dead\"}]");
    CHECK_EQ(taken_by(r, "", ""), 0);
    CHECK_EQ(taken_by(r, "anything", "at all"), 0);
    rules_free(r);
}

static void a_rule_says_what_it_does(void) {
    struct rules *r = compile(
        "[{\"error\": \"a\", \"action\": \"retry\", \"max_retries\": 250, \"backoff\": {\"kind\": "
        "\"list\", \"list_seconds\": [1, 5]}, \"comment\": \"slow\"},"
        " {\"error\": \"b\", \"action\": \"release\", \"delay_seconds\": 31536000},"
        " {\"error\": \"c\", \"action\": \"release\"},"
        " {\"error\": \"d\", \"action\": \"release\", \"delay_seconds\": 0},"
        " {\"error\": \"e\", \"action\": \"retry\"},"
        " {\"error\": \"f\", \"action\": \"pause\"},"
        " {\"error\": \"g\", \"action\": \"retry\", \"backoff\": {}}]");
    struct rule rules[7];
    for (size_t i = 0; i < 7; i++) {
        char name[2] = {(char)('a' + i), '\0'};
        CHECK(rules_find(r, span_str(name), span_str("x"), &rules[i]));
        CHECK_EQ(rules[i].number, i);
    }
    rules_free(r);

    CHECK_EQ(rules[0].action, RULE_RETRY);
    CHECK_EQ(rules[0].max_retries, 250);
    CHECK(rules[0].has_backoff);
    CHECK_EQ(backoff_delay_ms(&rules[0].backoff, 2, 0), 5000);
    CHECK_EQ(rules[1].action, RULE_RELEASE);
    CHECK_EQ(rules[1].delay_ms, INT64_C(31536000000));
    CHECK_EQ(rules[2].delay_ms, -1);
    CHECK_EQ(rules[3].delay_ms, 0);
    CHECK_EQ(rules[4].max_retries, 0);
    CHECK(!rules[4].has_backoff);
    CHECK_EQ(rules[5].action, RULE_PAUSE);
    CHECK(!rules[5].has_backoff && rules[5].max_retries == 0);
    /* What a backoff does not say is as in a queue's. */
    CHECK(rules[6].has_backoff);
    CHECK_EQ(backoff_delay_ms(&rules[6].backoff, 3, 0), 8000);

    CHECK(strcmp(rule_action_name(RULE_RETRY), "retry") == 0);
    CHECK(strcmp(rule_action_name(RULE_DEAD), "dead") == 0);
    CHECK(strcmp(rule_action_name(RULE_RELEASE), "release") == 0);
    CHECK(strcmp(rule_action_name(RULE_PAUSE), "pause") == 0);
}

/* -- patterns and expressions ---------------------------------------------------------------- */

static void expressions_are_pcre2(void) {
    CHECK(regex_matches("refused", "connection refused by peer"));
    CHECK(!regex_matches("REFUSED", "connection refused by peer"));
    CHECK(regex_matches("(?i)REFUSED", "connection refused by peer"));
    CHECK(regex_matches("^\\d{3} (?!OK)", "404 Not Found"));
    CHECK(!regex_matches("^\\d{3} (?!OK)", "200 OK"));
    CHECK(regex_matches("(['\"])x\\1", "it is 'x'"));
    CHECK(regex_matches("(?(?=a)ab|cd)", "cd"));
    CHECK(regex_matches("^.$", "\xc3\xa4"));
    CHECK(regex_matches("\\x{1F600}+", "\xf0\x9f\x98\x80"));
    CHECK(regex_matches("\\p{Greek}", "\xce\xb1"));
    CHECK(regex_matches("^a$", "a\n"));
    CHECK(!regex_matches("^a.b$", "a\nb"));
    CHECK(regex_matches("(?s)^a.b$", "a\nb"));
    CHECK(regex_matches("", "") && regex_matches("", "x") && regex_matches("^$", ""));
    CHECK(!regex_matches("x", ""));
    /* A callout of its own does not end the match. */
    CHECK(regex_matches("a(?C7)b(?C\"text\")c", "abc"));
}

static void a_text_that_is_not_utf8_harms_nothing(void) {
    CHECK(matches("message_regex", "refused", span_str("\xff\xfe refused \xc3")));
    CHECK(!matches("message_regex", "^.refused", span_str("\xffrefused")));
    CHECK(matches("message", "*refused*", span_str("\xff refused \xc3")));
    CHECK(matches("message_regex", "a.b", span_of("a\0b", 3)));
}

static void what_is_not_kept_is_not_looked_at(void) {
    static char text[LIMIT_ERROR + 2];
    memset(text, 'a', sizeof text - 1);
    text[LIMIT_ERROR - 1] = 'b';
    CHECK(regex_matches("b$", text));
    CHECK(matches("message", "*b", span_str(text)));
    text[LIMIT_ERROR] = 'b';
    text[LIMIT_ERROR - 1] = 'a';
    CHECK(!regex_matches("b", text));
}

/* -- errors ---------------------------------------------------------------------------------- */

static void bad_rules_name_the_member(void) {
    CHECK(refused("{}", "rules", "wrong_type"));
    CHECK(refused("[7]", "rules[0]", "wrong_type"));
    CHECK(refused("[{}]", "rules[0].action", "required"));
    CHECK(refused("[{\"action\": \"dead\"}, {\"action\": \"drop\"}]", "rules[1].action",
                  "out_of_range"));
    CHECK(refused("[{\"action\": 1}]", "rules[0].action", "wrong_type"));
    CHECK(refused("[{\"action\": \"dead\", \"class\": \"x\"}]", "rules[0].class", "unknown_field"));
    CHECK(refused("[{\"action\": \"dead\", \"error\": 1}]", "rules[0].error", "wrong_type"));
    CHECK(refused("[{\"action\": \"dead\", \"error\": null}]", "rules[0].error", "wrong_type"));
    CHECK(refused("[{\"action\": \"dead\", \"error\": \"a\", \"error_regex\": \"a\"}]",
                  "rules[0].error_regex", "conflict"));
    CHECK(refused("[{\"action\": \"dead\", \"message\": \"a\", \"message_regex\": \"a\"}]",
                  "rules[0].message_regex", "conflict"));
    CHECK(refused("[{\"action\": \"dead\", \"backoff\": {}}]", "rules[0].backoff", "not_allowed"));
    CHECK(refused("[{\"action\": \"pause\", \"max_retries\": 3}]", "rules[0].max_retries",
                  "not_allowed"));
    CHECK(refused("[{\"action\": \"retry\", \"delay_seconds\": 3}]", "rules[0].delay_seconds",
                  "not_allowed"));
    CHECK(refused("[{\"action\": \"retry\", \"max_retries\": 251}]", "rules[0].max_retries",
                  "out_of_range"));
    CHECK(refused("[{\"action\": \"retry\", \"backoff\": {\"kind\": \"fixed\", \"factor\": 2}}]",
                  "rules[0].backoff.factor", "not_allowed"));
    CHECK(
        refused("[{\"action\": \"retry\", \"backoff\": null}]", "rules[0].backoff", "wrong_type"));
    CHECK(refused("[{\"action\": \"release\", \"delay_seconds\": 31536001}]",
                  "rules[0].delay_seconds", "out_of_range"));
    CHECK(refused("[{\"action\": \"dead\", \"comment\": 1}]", "rules[0].comment", "wrong_type"));
}

static void bad_expressions_say_why_and_where(void) {
    CHECK(refused("[{\"action\": \"dead\", \"message_regex\": \"time(out\"}]",
                  "rules[0].message_regex", "bad_regex"));
    CHECK(strcmp(errors.items[0].message, "missing closing parenthesis, at offset 8") == 0);
    CHECK(errors.items[0].has_position);
    CHECK_EQ(errors.items[0].position, 8);
    CHECK(refused("[{\"action\": \"dead\"}, {\"action\": \"dead\", \"error_regex\": \"ab[c\"}]",
                  "rules[1].error_regex", "bad_regex"));
    CHECK(strstr(errors.items[0].message, "missing terminating ]") != NULL);
    /* \C would see half a character. */
    CHECK(refused("[{\"action\": \"dead\", \"error_regex\": \"\\\\C\"}]", "rules[0].error_regex",
                  "bad_regex"));
    CHECK(refused("[{\"action\": \"dead\", \"error_regex\": \"((a|b){1000}){100}\"}]",
                  "rules[0].error_regex", "bad_regex"));
}

/* JSON of `count` rules, each with that pattern of n bytes. */
static void check_big(const char *member, size_t n, int count) {
    struct buf json;
    buf_init(&json, 1024 * 1024);
    buf_add_byte(&json, '[');
    for (int i = 0; i < count; i++) {
        buf_printf(&json, "%s{\"action\": \"dead\", \"%s\": \"", i > 0 ? ", " : "", member);
        for (size_t k = 0; k < n; k++)
            buf_add_byte(&json, 'a');
        buf_add_str(&json, "\"}");
    }
    buf_add_str(&json, "]");
    buf_add_byte(&json, '\0');
    check((const char *)json.p);
    buf_release(&json);
}

static void there_are_limits(void) {
    check_big("error", RULE_PATTERN_MAX, RULES_MAX);
    CHECK_EQ(errors.count, 0);
    check_big("error_regex", RULE_PATTERN_MAX, 2);
    CHECK_EQ(errors.count, 0);
    check_big("comment", 255, 1);
    CHECK_EQ(errors.count, 0);
    check_big("error", RULE_PATTERN_MAX + 1, 1);
    CHECK_EQ(errors.count, 1);
    CHECK(strcmp(errors.items[0].code, "too_long") == 0);
    check_big("message_regex", RULE_PATTERN_MAX + 1, 1);
    CHECK(errors.count == 1 && strcmp(errors.items[0].field, "rules[0].message_regex") == 0);
    check_big("comment", 256, 1);
    CHECK(errors.count == 1 && strcmp(errors.items[0].field, "rules[0].comment") == 0);
    check_big("error", 1, RULES_MAX + 1);
    CHECK(errors.count == 1 && strcmp(errors.items[0].field, "rules") == 0);
}

/* -- what an expression costs ---------------------------------------------------------------- */

static double cpu_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* Milliseconds of asking once; the expression must not match. */
static double cost_ms(const char *expression, struct span text) {
    char json[2 * RULE_PATTERN_MAX + 64];
    size_t n = (size_t)snprintf(json, sizeof json, "[{\"action\": \"dead\", \"message_regex\": \"");
    for (const char *p = expression; *p != '\0'; p++) {
        if (*p == '\\')
            json[n++] = '\\';
        json[n++] = *p;
    }
    memcpy(json + n, "\"}]", sizeof "\"}]");
    struct rules *r = compile(json);
    struct rule rule;
    double start = cpu_ms();
    CHECK(!rules_find(r, span_of(NULL, 0), text, &rule));
    double ms = cpu_ms() - start;
    rules_free(r);
    return ms;
}

/* "(?:BEFORE1|BEFORE2|...)", as long as may be. */
static const char *alternatives(const char *before) {
    static char text[RULE_PATTERN_MAX + 1];
    size_t n = (size_t)snprintf(text, sizeof text, "(?:%s0", before);
    for (int i = 1; n + strlen(before) + 4 < sizeof text; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "|%s%d", before, i % 10);
    memcpy(text + n, ")", 2);
    return text;
}

/* The bound is some twenty times what most of them take, so that a slow and busy machine
 * passes; without limits most of these take seconds to years. */
static void hostile_expressions_cost_milliseconds(void) {
    enum { MOST_MS = 200 };
    static const char *const expressions[] = {
        "(a+)+$",
        "(a|aa)+$",
        "(.*)*[xy]",
        "(?:(?:a*)*)*[cd]",
        "(a+a+)+[cd]",
        "(a*)\\1*[cd]",
        ".*.*.*.*[xy]",
        "^(([a-z])+.)+[A-Z]([a-z])+$",
        "(?:(?=(a*+))a)*[cd]",
        "(?:(?=(a*+))a){0,300}[cd]",
        "(?:a|x){0,400}[cd]",
        "(?R)?a*[cd]",
        "(a(?1)?a)[cd]",
        "(?:a|a)(?:a|a)(?:a|a)(?:a|a)(?:a|a)(?:a|a)(?:a|a)(?:a|a)(?:a|a)(?:a|a)[cd]",
        "([^\\p{Lu}\\p{Greek}\\p{Nd}\\p{Han}\\p{Thai}]+)+[01]",
        "(.{1000})(?:\\1c|\\1d|\\1e)",
    };
    static char text[LIMIT_ERROR];
    memset(text, 'a', sizeof text);
    text[2999] = 'b';
    text[sizeof text - 1] = 'b';
    for (size_t i = 0; i < sizeof expressions / sizeof expressions[0]; i++) {
        double ms = cost_ms(expressions[i], span_of(text, sizeof text));
        if (ms > MOST_MS)
            printf("# %s: %.1f ms\n", expressions[i], ms);
        CHECK(ms <= MOST_MS);
    }
    /* What reads far without trying anything else. */
    CHECK(cost_ms(alternatives("a*+"), span_of(text, sizeof text)) <= MOST_MS);
    CHECK(cost_ms(alternatives("a{2998}"), span_of(text, sizeof text)) <= MOST_MS);
    CHECK(cost_ms(alternatives("(?=a*+)"), span_of(text, sizeof text)) <= MOST_MS);
    CHECK(cost_ms(alternatives("(?<=b.{2000})"), span_of(text, sizeof text)) <= MOST_MS);
}

static void usual_expressions_reach_through_long_texts(void) {
    static char text[LIMIT_ERROR + 1];
    static const char piece[] = "connect to host 10.0.0.1:5432 failed: timed out after 3000 ms; ";
    for (size_t i = 0; i < LIMIT_ERROR; i++)
        text[i] = piece[i % (sizeof piece - 1)];
    memcpy(text + LIMIT_ERROR - 9, " refused.", 9);
    CHECK(regex_matches("host.*refused", text));
    CHECK(regex_matches("refused\\.$", text));
    CHECK(regex_matches("^(?:[^,]|,)*refused", text));
    CHECK(regex_matches("(?:\\S+\\s)+refused", text));
    CHECK(regex_matches("after \\d+ ms; .*refused", text));
    CHECK(regex_matches("^(?!.*Refused)", text));
}

int main(void) {
    RUN(no_rules_take_nothing);
    RUN(the_first_that_matches_decides);
    RUN(a_rule_says_what_it_does);
    RUN(expressions_are_pcre2);
    RUN(a_text_that_is_not_utf8_harms_nothing);
    RUN(what_is_not_kept_is_not_looked_at);
    RUN(bad_rules_name_the_member);
    RUN(bad_expressions_say_why_and_where);
    RUN(there_are_limits);
    RUN(hostile_expressions_cost_milliseconds);
    RUN(usual_expressions_reach_through_long_texts);
    return check_done();
}
