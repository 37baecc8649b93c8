#include "model/filter.h"

#include "base/glob.h"
#include "base/json_edit.h"
#include "model/filter_internal.h"

#include <assert.h>
#include <stdlib.h>

/* -- the table of words ---------------------------------------------------------------------- */

static const struct {
    const char *name;
    enum filter_kind kind;
    bool is_of_letters, is_of_groups;
} words[WORD_COUNT_ALL] = {
    [WORD_QUEUE] = {"queue", KIND_TEXT, true, true},
    [WORD_REASON] = {"reason", KIND_TEXT, true, true},
    [WORD_ERROR] = {"error", KIND_TEXT, true, true},
    [WORD_GROUP] = {"group", KIND_TEXT, true, true},
    [WORD_AGE] = {"age", KIND_DURATION, true, false},
    [WORD_DIED] = {"died", KIND_TIME, true, false},
    [WORD_REDRIVES] = {"redrives", KIND_NUMBER, true, false},
    [WORD_VERSION] = {"version", KIND_TEXT, true, true},
    [WORD_DELIVERIES] = {"deliveries", KIND_NUMBER, true, false},
    [WORD_ID] = {"id", KIND_NUMBER, true, false},
    [WORD_PRIORITY] = {"priority", KIND_NUMBER, true, false},
    [WORD_SIZE] = {"size", KIND_NUMBER, true, false},
    [WORD_EXPIRES] = {"expires", KIND_DURATION, true, false},
    [WORD_FIRST] = {"first", KIND_TIME, true, false},
    [WORD_EDITED] = {"edited", KIND_YES_NO, true, false},
    [WORD_ENQUEUED] = {"enqueued", KIND_TIME, true, false},
    [WORD_MESSAGE] = {"message", KIND_TEXT, true, true},
    [WORD_KEY] = {"key", KIND_TEXT, true, false},
    [WORD_WORKER] = {"worker", KIND_TEXT, true, false},
    [WORD_TRACE] = {"trace", KIND_TEXT, true, false},
    [WORD_HEADER] = {"header", KIND_JSON, true, false},
    [WORD_PAYLOAD] = {"payload", KIND_JSON, true, false},
    [WORD_STATE] = {"state", KIND_TEXT, false, true},
    [WORD_OWNER] = {"owner", KIND_TEXT, false, true},
    [WORD_COUNT] = {"count", KIND_NUMBER, false, true},
    [WORD_SEEN] = {"seen", KIND_TIME, false, true},
};

const char *filter_word_name(enum filter_word w) {
    assert((unsigned)w < WORD_COUNT_ALL);
    return words[w].name;
}

enum filter_kind filter_word_kind(enum filter_word w) {
    assert((unsigned)w < WORD_COUNT_ALL);
    return words[w].kind;
}

bool filter_word_allowed(enum filter_word w, enum filter_scope scope) {
    assert((unsigned)w < WORD_COUNT_ALL);
    return scope == FILTER_LETTERS ? words[w].is_of_letters : words[w].is_of_groups;
}

/* -- the tree -------------------------------------------------------------------------------- */

void filter_free(struct filter *f) {
    free(f);
}

static enum verdict verdict_not(enum verdict v) {
    return v == VERDICT_MAYBE ? v : v == VERDICT_YES ? VERDICT_NO : VERDICT_YES;
}

static enum verdict eval(const struct filter_node *node, filter_ask *ask, void *ctx) {
    enum verdict verdict;
    if (node->kind == NODE_TERM) {
        verdict = ask(ctx, node->term);
    } else {
        enum verdict decides = node->kind == NODE_AND ? VERDICT_NO : VERDICT_YES;
        verdict = verdict_not(decides);
        for (const struct filter_node *child = node->first; child != NULL; child = child->next) {
            enum verdict v = eval(child, ask, ctx);
            if (v == decides) {
                verdict = v;
                break;
            }
            if (v == VERDICT_MAYBE)
                verdict = v;
        }
    }
    return node->is_negated ? verdict_not(verdict) : verdict;
}

enum verdict filter_eval(const struct filter *f, filter_ask *ask, void *ctx) {
    return eval(f->root, ask, ctx);
}

struct range {
    int64_t low, high;
};

static const struct range range_all = {INT64_MIN, INT64_MAX}, range_none = {INT64_MAX, INT64_MIN};

static struct range range_both(struct range a, struct range b) {
    return (struct range){a.low > b.low ? a.low : b.low, a.high < b.high ? a.high : b.high};
}

static struct range range_either(struct range a, struct range b) {
    if (a.low > a.high)
        return b;
    if (b.low > b.high)
        return a;
    return (struct range){a.low < b.low ? a.low : b.low, a.high > b.high ? a.high : b.high};
}

static struct range died_range(const struct filter_node *node) {
    if (node->is_negated)
        return range_all;
    if (node->kind == NODE_TERM) {
        const struct filter_term *t = node->term;
        bool is_bound = t->word == WORD_AGE || t->word == WORD_DIED;
        return is_bound ? (struct range){t->low, t->high} : range_all;
    }
    struct range range = node->kind == NODE_AND ? range_all : range_none;
    for (const struct filter_node *child = node->first; child != NULL; child = child->next) {
        struct range r = died_range(child);
        range = node->kind == NODE_AND ? range_both(range, r) : range_either(range, r);
    }
    return range;
}

void filter_died_range(const struct filter *f, int64_t *ret_low, int64_t *ret_high) {
    struct range range = died_range(f->root);
    *ret_low = range.low;
    *ret_high = range.high;
}

bool filter_has(const struct filter *f, enum filter_word word) {
    for (size_t i = 0; i < f->terms_n; i++) {
        if (f->terms[i].word == word)
            return true;
    }
    return false;
}

/* -- answers --------------------------------------------------------------------------------- */

bool term_matches_text(const struct filter_term *t, struct span text) {
    return !t->is_numeric && glob_match_marked(t->pattern, t->wild, text);
}

bool term_matches_number(const struct filter_term *t, int64_t number) {
    return t->low <= number && number <= t->high;
}

static bool matches_real(const struct filter_term *t, double v) {
    return (t->low_open ? v > t->low_real : v >= t->low_real) &&
           (t->high_open ? v < t->high_real : v <= t->high_real);
}

/* A number, true, false or null as JSON writes it. */
static bool matches_written(const struct filter_term *t, const struct json *value) {
    enum { WRITTEN_MAX = 64 };
    if (t->is_numeric || t->is_quoted)
        return false;
    struct buf text;
    buf_init(&text, WRITTEN_MAX);
    json_dump(value, &text);
    bool matches = term_matches_text(t, buf_span(&text));
    buf_release(&text);
    return matches;
}

static bool matches_any(const struct filter_term *t, const struct json *array) {
    for (size_t i = 0, n = json_count(array); i < n; i++) {
        if (term_matches_json(t, json_at(array, i)))
            return true;
    }
    return false;
}

bool term_matches_json(const struct filter_term *t, const struct json *value) {
    if (value == NULL)
        return false;
    switch (json_kind_of(value)) {
    case JSON_NULL:
    case JSON_BOOL:
        return matches_written(t, value);
    case JSON_INTEGER:
        return term_matches_number(t, json_integer(value)) ||
               (t->has_wildcard && matches_written(t, value));
    case JSON_REAL:
        return matches_real(t, json_number(value)) ||
               (t->has_wildcard && matches_written(t, value));
    case JSON_STRING:
        return term_matches_text(t, json_string(value));
    case JSON_ARRAY:
        return matches_any(t, value);
    case JSON_OBJECT:
        break;
    }
    return false;
}

const struct json *term_value_at(const struct filter_term *t, const struct json *root) {
    assert(t->word == WORD_PAYLOAD);
    return json_path_get(root, t->name);
}
