/* Rules, and the bounds of what their expressions may cost.
 *
 * 1 PCRE2's own match limit does not bound an expression's time: it counts some of the places where a
 *   match may go on, for each place where it may begin anew, and not what is read between them. So
 *   expressions are compiled with a callout before each of their items, and what an item reads is
 *   paid for there, from one budget for a text. The same expression on the same text costs the same
 *   everywhere; no clock is read.
 * 2 Expressions are interpreted. Machine code is three times as fast, where both take about a
 *   microsecond, but that of PCRE2 10.42 ends the process on (?|(\p{L}+)|(a\1)*+)*[xy] and 4 KiB of
 *   'a', and rules come from outside. */
#include "model/rules.h"

#include "base/glob.h"
#include "base/mem.h"
#include "model/ascii.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#ifdef PCRE2_MATCH_INVALID_UTF
#define TEXT_OPTIONS (PCRE2_UTF | PCRE2_MATCH_INVALID_UTF)
#else
#define TEXT_OPTIONS PCRE2_UTF /* a text that is not UTF-8 matches nothing */
#endif

enum {
    COMMENT_MAX = 255,
    PREFIX_SIZE = 32,

    /* An item that is tried costs ITEM, some 20 ns, or where it is the beginning or the end of a
     * group GROUP, and CAPTURE for each group of the expression. Each byte that it reads costs
     * READ, and 1 for each byte of the item: a class of many properties asks one after the other.
     * All of the budget is worth 2 to 10 ms. */
    BUDGET = 8000000,
    ITEM = 64,
    GROUP = 192,
    CAPTURE = 4,
    READ = 8,

    /* PCRE2's own, for what it does between two items. */
    MATCH_MAX = 100000,
    DEPTH_MAX = 20000,
    HEAP_KIB_MAX = 2 * 1024,
};

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
    pcre2_code *code; /* of an expression, once it is compiled */
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

static void *take(size_t n, void *ctx) {
    (void)ctx;
    return mem_alloc(n);
}

static void give(void *p, void *ctx) {
    (void)ctx;
    free(p);
}

/* NULL, PCRE2's error and where it is, when the text is no expression. */
static pcre2_code *compile(struct span text, int *ret_error, size_t *ret_at) {
    pcre2_general_context *memory = pcre2_general_context_create(take, give, NULL);
    pcre2_compile_context *context = pcre2_compile_context_create(memory);
    pcre2_code *code = pcre2_compile(text.n > 0 ? text.p : (PCRE2_SPTR) "", text.n,
                                     TEXT_OPTIONS | PCRE2_NEVER_BACKSLASH_C | PCRE2_AUTO_CALLOUT,
                                     ret_error, ret_at, context);
    pcre2_compile_context_free(context);
    pcre2_general_context_free(memory);
    return code;
}

static void check_expression(const struct test *t, size_t number, const char *name,
                             struct field_errors *errors) {
    int error;
    size_t at;
    if (t->kind != TEST_EXPRESSION)
        return;
    pcre2_code *code = compile(t->text, &error, &at);
    if (code != NULL) {
        pcre2_code_free(code);
        return;
    }
    char field[PREFIX_SIZE + 16], why[128], message[sizeof why + 32];
    (void)pcre2_get_error_message(error, (PCRE2_UCHAR *)why, sizeof why); /* cut when too long */
    snprintf(field, sizeof field, "rules[%zu].%s", number, name);
    snprintf(message, sizeof message, "%s, at offset %zu", why, at);
    field_error_add_at(errors, field, "bad_regex", at, 0, message);
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
    int error;
    size_t where;
    t->code = compile(t->text, &error, &where);
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
        pcre2_code_free(r->items[i].error.code);
        pcre2_code_free(r->items[i].message.code);
    }
    free(r);
}

/* -- finding --------------------------------------------------------------------------------- */

/* What a match needs besides the expression; made when the first expression is asked. */
struct matcher {
    pcre2_general_context *memory;
    pcre2_match_context *context;
    pcre2_match_data *data;
};

static void matcher_make(struct matcher *m) {
    m->memory = pcre2_general_context_create(take, give, NULL);
    m->context = pcre2_match_context_create(m->memory);
    m->data = pcre2_match_data_create(1, m->memory);
    (void)pcre2_set_match_limit(m->context, MATCH_MAX);
    (void)pcre2_set_depth_limit(m->context, DEPTH_MAX);
    (void)pcre2_set_heap_limit(m->context, HEAP_KIB_MAX);
}

static void matcher_release(struct matcher *m) {
    pcre2_match_data_free(m->data);
    pcre2_match_context_free(m->context);
    pcre2_general_context_free(m->memory);
}

/* The budget of an expression on a text. */
struct meter {
    struct span expression;
    uint32_t groups;   /* of the expression */
    size_t at;         /* in the text: where the last item was tried */
    size_t item_bytes; /* of it */
    int64_t left;
};

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* \1, \k<name>, (?P=name) read again what a group did; (?R), (?1), (?&name), (?P>name), \g<1> go
 * into a group anew, for which PCRE2 looks through all that it is in. */
static bool is_reference(struct span item) {
    const uint8_t *p = item.p;
    if (item.n >= 2 && p[0] == '\\')
        return (p[1] >= '1' && p[1] <= '9') || p[1] == 'g' || p[1] == 'k';
    if (item.n < 4 || p[0] != '(' || p[1] != '?')
        return false;
    bool is_relative = (p[2] == '-' || p[2] == '+') && is_digit(p[3]);
    bool is_named = p[2] == '&' || (p[2] == 'P' && (p[3] == '=' || p[3] == '>'));
    return is_digit(p[2]) || p[2] == 'R' || is_relative || is_named;
}

/* How much of the text an item may read and then fail, so that no item is tried behind it: what a
 * counted repeat asks for, and a reference at most. */
static size_t unseen(struct span item, size_t rest) {
    if (is_reference(item))
        return rest;
    const uint8_t *p = item.n > 0 ? memrchr(item.p, '{', item.n) : NULL;
    size_t n = 0;
    while (p != NULL && ++p < item.p + item.n && is_digit(*p) && n < rest)
        n = 10 * n + (*p - '0');
    return least(n, rest);
}

/* PCRE2 calls this before it tries an item. A negative result ends the match. Where the item stands
 * is not always true: behind a last (?i) its length is far too great. */
static int pay(pcre2_callout_block *b, void *ctx) {
    struct meter *m = ctx;
    size_t at = b->current_position, start = least(b->pattern_position, m->expression.n);
    struct span item =
        span_of(m->expression.p + start, least(b->next_item_length, m->expression.n - start));
    size_t moved = at > m->at ? at - m->at : m->at - at;
    bool is_group = item.n > 0 && memchr("(|)", item.p[0], 3) != NULL;
    m->left -= (is_group ? GROUP : ITEM) + CAPTURE * (int64_t)m->groups;
    m->left -= (int64_t)(moved * (READ + m->item_bytes) +
                         unseen(item, b->subject_length - at) * (READ + item.n));
    m->at = at;
    m->item_bytes = item.n;
    return m->left < 0 ? PCRE2_ERROR_CALLOUT : 0;
}

static bool matches_expression(struct matcher *m, const struct test *t, struct span text) {
    struct meter meter = {.expression = t->text, .left = BUDGET};
    (void)pcre2_pattern_info(t->code, PCRE2_INFO_CAPTURECOUNT, &meter.groups);
    if (m->data == NULL)
        matcher_make(m);
    if (text.n == 0)
        text = span_str(""); /* PCRE2 takes no NULL */
    (void)pcre2_set_callout(m->context, pay, &meter);
    return pcre2_match(t->code, text.p, text.n, 0, 0, m->data, m->context) >= 0;
}

static bool passes(struct matcher *m, const struct test *t, struct span text) {
    switch (t->kind) {
    case TEST_NONE:
        return true;
    case TEST_PATTERN:
        return glob_match(t->text, text);
    case TEST_EXPRESSION:
        return matches_expression(m, t, text);
    }
    return false;
}

bool rules_find(const struct rules *r, struct span error_class, struct span error,
                struct rule *ret) {
    struct matcher m = {0};
    error_class = span_cut_utf8(error_class, LIMIT_ERROR_CLASS); /* what is kept of them */
    error = span_cut_utf8(error, LIMIT_ERROR);
    bool is_found = false;
    for (size_t i = 0; r != NULL && i < r->count && !is_found; i++) {
        const struct test_rule *item = &r->items[i];
        is_found = passes(&m, &item->error, error_class) && passes(&m, &item->message, error);
        if (is_found)
            *ret = item->rule;
    }
    matcher_release(&m);
    return is_found;
}
