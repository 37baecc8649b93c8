/* The bounds of what an expression may cost.
 *
 * 1 PCRE2's own match limit does not bound an expression's time: it counts some of the places where a
 *   match may go on, for each place where it may begin anew, and not what is read between them. So
 *   expressions are compiled with a callout before each of their items, and what an item reads is
 *   paid for there, from one budget for a text. The same expression on the same text costs the same
 *   everywhere; no clock is read.
 * 2 Expressions are interpreted. Machine code is three times as fast, where both take about a
 *   microsecond, but that of PCRE2 10.42 ends the process on (?|(\p{L}+)|(a\1)*+)*[xy] and 4 KiB of
 *   'a', and expressions come from outside. */
#include "model/expression.h"

#include "base/mem.h"
#include "model/ascii.h"

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

struct expression {
    pcre2_code *code;
    size_t n;
    uint8_t text[]; /* what the meter reads */
};

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

struct expression *expression_new(struct span text, struct expression_error *ret_error) {
    int error;
    pcre2_code *code = compile(text, &error, &ret_error->at);
    if (code == NULL) {
        char why[128];
        (void)pcre2_get_error_message(error, (PCRE2_UCHAR *)why,
                                      sizeof why); /* cut when too long */
        snprintf(ret_error->text, sizeof ret_error->text, "%s, at offset %zu", why, ret_error->at);
        return NULL;
    }
    struct expression *e = mem_alloc(sizeof *e + text.n);
    e->code = code;
    e->n = text.n;
    if (text.n > 0)
        memcpy(e->text, text.p, text.n);
    return e;
}

void expression_free(struct expression *e) {
    if (e != NULL)
        pcre2_code_free(e->code);
    free(e);
}

static void memory_make(struct expression_memory *m) {
    m->memory = pcre2_general_context_create(take, give, NULL);
    m->context = pcre2_match_context_create(m->memory);
    m->data = pcre2_match_data_create(1, m->memory);
    (void)pcre2_set_match_limit(m->context, MATCH_MAX);
    (void)pcre2_set_depth_limit(m->context, DEPTH_MAX);
    (void)pcre2_set_heap_limit(m->context, HEAP_KIB_MAX);
}

void expression_memory_release(struct expression_memory *m) {
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

bool expression_matches(const struct expression *e, struct span text, struct expression_memory *m) {
    struct meter meter = {.expression = span_of(e->text, e->n), .left = BUDGET};
    (void)pcre2_pattern_info(e->code, PCRE2_INFO_CAPTURECOUNT, &meter.groups);
    if (m->data == NULL)
        memory_make(m);
    if (text.n == 0)
        text = span_str(""); /* PCRE2 takes no NULL */
    (void)pcre2_set_callout(m->context, pay, &meter);
    return pcre2_match(e->code, text.p, text.n, 0, 0, m->data, m->context) >= 0;
}
