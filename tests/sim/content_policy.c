/* Texts of policies that follow from small numbers, and what they mean, said once more in plain C:
 * the model never asks the engine's parsers. */
#include "sim/content.h"

#include <stdio.h>
#include <string.h>

/* -- rules ----------------------------------------------------------------------------------------- */

static const char *const rule_texts[MODEL_RULE_SETS] = {
    "",
    "[{\"error\":\"CauseA\",\"action\":\"dead\"},"
    "{\"error\":\"CauseB\",\"action\":\"release\",\"delay_seconds\":3},"
    "{\"error_regex\":\"^Cause[CD]$\",\"action\":\"retry\",\"max_retries\":6,"
    "\"backoff\":{\"kind\":\"fixed\",\"base_seconds\":1}},"
    "{\"message\":\"*10.0.0.3 *\",\"action\":\"release\"}]",
    "[{\"error\":\"CauseE\",\"action\":\"pause\"},"
    "{\"error\":\"lease_expired\",\"action\":\"release\",\"delay_seconds\":1},"
    "{\"error\":\"CauseA\",\"action\":\"retry\",\"max_retries\":1},"
    "{\"error\":\"CauseC\",\"action\":\"retry\",\"backoff\":{\"kind\":\"fixed\","
    "\"base_seconds\":4}}]",
    "[{\"error\":\"lease_expired\",\"action\":\"pause\"},"
    "{\"error\":\"CauseB\",\"message\":\"* 13 ms\",\"action\":\"dead\"},"
    "{\"error\":\"CauseC\",\"message_regex\":\"took (7|10) ms\",\"action\":\"pause\"}]",
    "[{\"error\":\"Cause*\",\"action\":\"retry\",\"max_retries\":2},"
    "{\"error\":\"lease_expired\",\"action\":\"retry\",\"max_retries\":2},"
    "{\"action\":\"dead\"}]",
};

/* The same in fields; NULL matches all. */
struct plain_rule {
    const char *class, *begins; /* the class is that, or begins so */
    const char *has[2];         /* the message has one of them in it */
    enum rule_action action;
    uint8_t max_retries;
    int64_t fixed_ms, delay_ms; /* backoff, 0 = none; release, -1 = none */
};

#define RULES_MOST 4
static const struct plain_rule plain_rules[MODEL_RULE_SETS][RULES_MOST + 1] = {
    {{0}},
    {{.class = "CauseA", .action = RULE_DEAD},
     {.class = "CauseB", .action = RULE_RELEASE, .delay_ms = 3000},
     {.class = "CauseC|CauseD", .action = RULE_RETRY, .max_retries = 6, .fixed_ms = 1000},
     {.has = {"10.0.0.3 "}, .action = RULE_RELEASE, .delay_ms = -1}},
    {{.class = "CauseE", .action = RULE_PAUSE},
     {.class = "lease_expired", .action = RULE_RELEASE, .delay_ms = 1000},
     {.class = "CauseA", .action = RULE_RETRY, .max_retries = 1},
     {.class = "CauseC", .action = RULE_RETRY, .fixed_ms = 4000}},
    {{.class = "lease_expired", .action = RULE_PAUSE},
     {.class = "CauseB", .has = {" 13 ms"}, .action = RULE_DEAD},
     {.class = "CauseC", .has = {"took 7 ms", "took 10 ms"}, .action = RULE_PAUSE}},
    {{.begins = "Cause", .action = RULE_RETRY, .max_retries = 2},
     {.class = "lease_expired", .action = RULE_RETRY, .max_retries = 2},
     {.action = RULE_DEAD}},
};
static const size_t rule_counts[MODEL_RULE_SETS] = {0, 4, 4, 3, 3};

/* One of the names between bars. */
static bool is_one_of(struct span text, const char *names) {
    for (;;) {
        size_t n = strcspn(names, "|");
        if (text.n == n && memcmp(text.p, names, n) == 0)
            return true;
        if (!names[n])
            return false;
        names += n + 1;
    }
}

static bool begins_with(struct span text, const char *part) {
    return text.n >= strlen(part) && memcmp(text.p, part, strlen(part)) == 0;
}

static bool has_part(struct span text, const char *part) {
    for (; text.n > 0; text.p++, text.n--)
        if (begins_with(text, part))
            return true;
    return false;
}

static bool is_meant(const struct plain_rule *r, uint32_t tag) {
    struct span class = error_class_kept(tag), error = error_kept(tag);
    if ((r->class && !is_one_of(class, r->class)) || (r->begins && !begins_with(class, r->begins)))
        return false;
    return !r->has[0] || has_part(error, r->has[0]) || (r->has[1] && has_part(error, r->has[1]));
}

bool rule_for(uint8_t rules, uint32_t tag, struct rule *ret) {
    for (size_t i = 0; i < rule_counts[rules]; i++) {
        const struct plain_rule *r = &plain_rules[rules][i];
        if (!is_meant(r, tag))
            continue;
        *ret = (struct rule){.number = i,
                             .action = r->action,
                             .has_backoff = r->fixed_ms > 0,
                             .backoff = {.kind = BACKOFF_FIXED, .base_ms = r->fixed_ms},
                             .max_retries = r->max_retries,
                             .delay_ms = r->delay_ms};
        return true;
    }
    return false;
}

/* -- patterns -------------------------------------------------------------------------------------- */

static const char *const patterns[MODEL_PATTERNS] = {"", "Cause*", "lease_expired", "CauseA"};

bool pattern_takes(uint8_t pattern, uint32_t tag) {
    struct span class = error_class_kept(tag);
    if (pattern == 0)
        return true;
    return pattern == 1 ? begins_with(class, "Cause") : is_one_of(class, patterns[pattern]);
}

/* -- all of them ----------------------------------------------------------------------------------- */

static struct span allow_text(uint8_t allow) {
    static char text[256];
    if (!allow)
        return (struct span){0};
    int n = snprintf(text, sizeof text, "[");
    for (int q = 0; q <= MODEL_QUEUES; q++)
        if (allow & 1U << q)
            n += snprintf(text + n, sizeof text - (size_t)n, "%s\"%s\"", n > 1 ? "," : "",
                          q < MODEL_QUEUES ? (const char *)model_queue_name(q).p : "nobody");
    snprintf(text + n, sizeof text - (size_t)n, "]");
    return span_str(text);
}

struct policy_texts model_policy_texts(const struct queue_texts *t) {
    return (struct policy_texts){.breaker_error = span_str(patterns[t->breaker_error]),
                                 .target = model_queue_or_none(t->target - 1),
                                 .rules = span_str(rule_texts[t->rules]),
                                 .allow_from = allow_text(t->allow)};
}

bool is_same_texts(const struct queue_texts *a, const struct queue_texts *b) {
    return a->rules == b->rules && a->breaker_error == b->breaker_error && a->target == b->target &&
           a->allow == b->allow;
}
