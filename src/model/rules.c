#include "model/rules.h"

#include "base/glob.h"
#include "base/mem.h"
#include "model/expression.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COMMENT_MAX = 255, PREFIX_SIZE = 32 };

static const char *const action_names[] = {
    [RULE_RETRY] = "retry",
    [RULE_DEAD] = "dead",
    [RULE_RELEASE] = "release",
    [RULE_PAUSE] = "pause",
    NULL,
};

const char *rule_action_name(enum rule_action a) {
    return action_names[a];
}

/* What one of the two texts must be like. */
struct test {
    enum { TEST_NONE, TEST_PATTERN, TEST_EXPRESSION } kind;
    struct span text;
    struct expression *code; /* of an expression, once it is compiled */
};

struct test_rule {
    struct rule rule;
    struct test error, message;
};

struct rules {
    size_t count;
    struct test_rule items[]; /* and behind them the bytes of their texts */
};

/* -- reading --------------------------------------------------------------------------------- */

static void read_test(const struct fields *f, const char *pattern, const char *expression,
                      struct test *ret) {
    bool has_pattern = json_get(f->object, pattern) != NULL;
    bool has_expression = json_get(f->object, expression) != NULL;
    if (has_pattern && has_expression)
        field_error_add(f->errors, f->prefix, expression, "conflict",
                        "says it once more: give either %s or %s", pattern, expression);
    ret->kind = has_expression ? TEST_EXPRESSION : has_pattern ? TEST_PATTERN : TEST_NONE;
    ret->text = field_string(f, has_expression ? expression : pattern, RULE_PATTERN_MAX);
}

/* What another action would use must not stand there as if it had an effect. */
static void refuse_for_action(const struct fields *f, const char *name, enum rule_action action) {
    if (json_get(f->object, name) != NULL)
        field_error_add(f->errors, f->prefix, name, "not_allowed", "has no meaning with action %s",
                        action_names[action]);
}

static void read_action(const struct fields *f, struct rule *r) {
    if (json_get(f->object, "action") == NULL)
        field_error_add(f->errors, f->prefix, "action", "required", "is required");
    int action = field_choice(f, "action", action_names, -1);
    if (action < 0)
        return;
    r->action = (enum rule_action)action;

    if (r->action == RULE_RETRY) {
        const struct json *backoff = json_get(f->object, "backoff");
        r->has_backoff = backoff != NULL;
        r->backoff = policy_default().backoff;
        backoff_from_json(backoff, f->prefix, f->errors, &r->backoff);
        r->max_retries = (uint8_t)field_int(f, "max_retries", 1, LIMIT_POLICY_RETRIES, 0);
    } else {
        refuse_for_action(f, "backoff", r->action);
        refuse_for_action(f, "max_retries", r->action);
    }

    r->delay_ms = -1;
    if (r->action != RULE_RELEASE)
        refuse_for_action(f, "delay_seconds", r->action);
    else if (json_get(f->object, "delay_seconds") != NULL)
        r->delay_ms = 1000 * field_int(f, "delay_seconds", 0, LIMIT_DELAY_SECONDS, 0);
}

/* The texts stay where they are; nothing is compiled yet. */
static struct test_rule read_rule(const struct json *v, size_t number,
                                  struct field_errors *errors) {
    static const char *const names[] = {"error",   "error_regex", "message",     "message_regex",
                                        "action",  "backoff",     "max_retries", "delay_seconds",
                                        "comment", NULL};
    char prefix[PREFIX_SIZE];
    snprintf(prefix, sizeof prefix, "rules[%zu].", number);
    const struct fields f = {.object = v, .prefix = prefix, .errors = errors};
    struct test_rule r = {.rule.number = number};
    fields_known(&f, names);
    read_test(&f, "error", "error_regex", &r.error);
    read_test(&f, "message", "message_regex", &r.message);
    read_action(&f, &r.rule);
    (void)field_string(&f, "comment", COMMENT_MAX);
    return r;
}

/* -- compiling ------------------------------------------------------------------------------- */

static void check_expression(const struct test *t, size_t number, const char *name,
                             struct field_errors *errors) {
    struct expression_error error;
    if (t->kind != TEST_EXPRESSION)
        return;
    struct expression *e = expression_new(t->text, &error);
    expression_free(e);
    if (e != NULL)
        return;
    char field[PREFIX_SIZE + 16];
    snprintf(field, sizeof field, "rules[%zu].%s", number, name);
    field_error_add_at(errors, field, "bad_regex", error.at, 0, error.text);
}

void rules_check(const struct json *rules, struct field_errors *errors) {
    if (!json_is(rules, JSON_ARRAY)) {
        field_error_add(errors, "", "rules", "wrong_type", "must be an array of rules");
        return;
    }
    if (json_count(rules) > RULES_MAX) {
        field_error_add(errors, "", "rules", "out_of_range", "must hold at most %d rules",
                        RULES_MAX);
        return;
    }
    for (size_t i = 0; i < json_count(rules); i++) {
        const struct json *v = json_at(rules, i);
        if (!json_is(v, JSON_OBJECT)) {
            char name[PREFIX_SIZE];
            snprintf(name, sizeof name, "rules[%zu]", i);
            field_error_add(errors, "", name, "wrong_type", "must be an object");
            continue;
        }
        struct test_rule r = read_rule(v, i, errors);
        check_expression(&r.error, i, "error_regex", errors);
        check_expression(&r.message, i, "message_regex", errors);
    }
}

/* Moves its text to *at, and compiles it. */
static void settle(struct test *t, uint8_t **at) {
    if (t->text.n > 0)
        memcpy(*at, t->text.p, t->text.n);
    t->text.p = *at;
    *at += t->text.n;
    if (t->kind != TEST_EXPRESSION)
        return;
    struct expression_error error;
    t->code = expression_new(t->text, &error);
    assert(t->code != NULL); /* rules_check found it good */
}

struct rules *rules_new(struct span json) {
    if (json.n == 0)
        return NULL;
    struct json_error json_error;
    struct json *v = json_parse(json, &json_error);
    assert(json_is(v, JSON_ARRAY) && json_count(v) <= RULES_MAX);
    /* No text is longer than its JSON. */
    size_t count = json_count(v);
    struct rules *r = mem_alloc(sizeof *r + count * sizeof r->items[0] + json.n);
    uint8_t *at = (uint8_t *)(r->items + count);
    r->count = count;
    struct field_errors errors = {0};
    for (size_t i = 0; i < count; i++) {
        r->items[i] = read_rule(json_at(v, i), i, &errors);
        settle(&r->items[i].error, &at);
        settle(&r->items[i].message, &at);
    }
    assert(errors.count == 0);
    json_free(v);
    return r;
}

void rules_free(struct rules *r) {
    for (size_t i = 0; r != NULL && i < r->count; i++) {
        expression_free(r->items[i].error.code);
        expression_free(r->items[i].message.code);
    }
    free(r);
}

/* -- finding --------------------------------------------------------------------------------- */

static bool passes(struct expression_memory *m, const struct test *t, struct span text) {
    switch (t->kind) {
    case TEST_NONE:
        return true;
    case TEST_PATTERN:
        return glob_match(t->text, text);
    case TEST_EXPRESSION:
        return expression_matches(t->code, text, m);
    }
    return false;
}

bool rules_find(const struct rules *r, struct span error_class, struct span error,
                struct rule *ret) {
    struct expression_memory m = {0};
    error_class = span_cut_utf8(error_class, LIMIT_ERROR_CLASS); /* what is kept of them */
    error = span_cut_utf8(error, LIMIT_ERROR);
    bool is_found = false;
    for (size_t i = 0; r != NULL && i < r->count && !is_found; i++) {
        const struct test_rule *item = &r->items[i];
        is_found = passes(&m, &item->error, error_class) && passes(&m, &item->message, error);
        if (is_found)
            *ret = item->rule;
    }
    expression_memory_release(&m);
    return is_found;
}
