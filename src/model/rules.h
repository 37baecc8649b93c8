/* Rules that classify a failure: tried in order, the first that matches decides. Compiled once when a
 * queue gets its policy. Any thread; a compiled set is read-only.
 *
 *   {"error": "Timeout*", "message": "*refused*", "action": "retry",
 *    "backoff": {...}, "max_retries": 10}
 *   {"error_regex": "^Http4..$", "action": "dead"}
 *   {"message": "rate limit*", "action": "release", "delay_seconds": 30}
 *   {"error": "DatabaseDown", "action": "pause"}
 *
 * `error` and `message` are patterns over the error class and the error message: the whole text, by
 * case, `*` for anything. `error_regex` and `message_regex` are regular expressions (PCRE2, found
 * anywhere in the text); a rule without any of the four matches every failure. */
#pragma once

#include "model/policy.h"

#define RULES_MAX 64
#define RULE_PATTERN_MAX 1024

enum rule_action {
    RULE_RETRY,   /* counts; with the rule's own backoff and limit, or else the queue's */
    RULE_DEAD,    /* dead at once, reason permanent */
    RULE_RELEASE, /* does not count: back to pending after the delay */
    RULE_PAUSE,   /* does not count, and the queue's breaker opens */
};
const char *rule_action_name(enum rule_action a);

/* Adds errors under "rules[3].message_regex" and the like. */
void rules_check(const struct json *rules, struct field_errors *errors);

struct rules;
/* From JSON text that rules_check has found good; NULL for an empty text. */
struct rules *rules_new(struct span json);
void rules_free(struct rules *r); /* NULL is fine */

struct rule {
    size_t number; /* from 0 */
    enum rule_action action;
    bool has_backoff;
    struct backoff backoff;
    uint8_t max_retries; /* 0 = the message's */
    int64_t delay_ms;    /* release: -1 = not given: the queue's backoff of a first failure */
};

/* The first rule that matches; false when none does (or r is NULL). Texts are looked at as they are
 * kept: LIMIT_ERROR_CLASS and LIMIT_ERROR bytes of them. An expression that would take more than
 * some milliseconds on a text (counted, not timed) does not match it. */
bool rules_find(const struct rules *r, struct span error_class, struct span error,
                struct rule *ret);
