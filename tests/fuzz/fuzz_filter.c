/* Filters, in both scopes: an error points into the text; a filter says the same when it is read again, and the opposite when it is
 * negated. The answers to its terms come from the input. */
#include "base/mem.h"
#include "model/filter.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define NOW INT64_C(1780315200000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct world {
    struct span text; /* of the input */
    size_t shift;     /* how much further the terms stand than in it */
    enum filter_scope scope;
    const struct json *payload;
};

static void check_term(const struct world *w, const struct filter_term *t) {
    assert(t->at >= w->shift && t->bytes > 0 && t->at - w->shift + t->bytes <= w->text.n);
    assert(filter_word_allowed(t->word, w->scope));
    bool has_name = filter_word_kind(t->word) == KIND_JSON;
    assert(span_is_utf8(t->name) && has_name == (t->name.n > 0));
    assert(span_is_utf8(t->pattern));
    assert(t->is_numeric ? t->pattern.n == 0 : term_matches_text(t, t->pattern));
    assert(t->low > t->high || term_matches_number(t, t->low));
    (void)term_matches_text(t, w->text);
    if (has_name)
        (void)term_matches_json(t, w->payload);
    if (t->word == WORD_PAYLOAD)
        (void)term_matches_json(t, term_value_at(t, w->payload));
}

static enum verdict answer(void *ctx, const struct filter_term *t) {
    const struct world *w = ctx;
    check_term(w, t);
    uint8_t last = w->text.p[t->at - w->shift + t->bytes - 1];
    return (enum verdict)(last % 3);
}

/* The text with something before and behind it, or NULL when that is no filter. */
static struct filter *parse_within(struct world *w, const char *before, const char *behind) {
    w->shift = strlen(before);
    size_t n = w->shift + w->text.n + strlen(behind);
    char *text = mem_alloc(n + 1);
    memcpy(text, before, w->shift);
    memcpy(text + w->shift, w->text.p, w->text.n);
    memcpy(text + w->shift + w->text.n, behind, strlen(behind));
    struct filter_error error;
    struct filter *f = filter_parse(span_of(text, n), w->scope, NOW, &error);
    free(text);
    return f;
}

static void check_good(struct world *w, const struct filter *f) {
    w->shift = 0;
    enum verdict verdict = filter_eval(f, answer, w);
    int64_t low, high, low_again, high_again;
    filter_died_range(f, &low, &high);
    if (!filter_has(f, WORD_AGE) && !filter_has(f, WORD_DIED))
        assert(low == INT64_MIN && high == INT64_MAX);

    struct filter *again = parse_within(w, "", "");
    assert(again != NULL && filter_eval(again, answer, w) == verdict);
    filter_died_range(again, &low_again, &high_again);
    assert(low == low_again && high == high_again);
    filter_free(again);

    struct filter *opposite = parse_within(w, "-(", ")");
    if (opposite != NULL) { /* else it is too long or too deep now */
        enum verdict v = filter_eval(opposite, answer, w);
        assert(verdict == VERDICT_MAYBE ? v == VERDICT_MAYBE : v + verdict == VERDICT_YES);
        filter_free(opposite);
    }
}

static void try_scope(struct world *w) {
    struct filter_error error;
    struct filter *f = filter_parse(w->text, w->scope, NOW, &error);
    if (f != NULL) {
        check_good(w, f);
        filter_free(f);
        return;
    }
    assert(error.at <= w->text.n && error.bytes <= w->text.n - error.at);
    assert(error.text[0] != '\0' && span_is_utf8(span_str(error.text)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char payload[] =
        "{\"a\": [\"x\", \"5\", 5, -1.5, 9007199254740993, true, null, {}], \"b\": {\"c.d\": 1e3}}";
    struct json_error json_error;
    struct json *root = json_parse(span_str(payload), &json_error);
    struct world w = {.text = span_of(data, size), .payload = root};
    w.scope = FILTER_LETTERS;
    try_scope(&w);
    w.scope = FILTER_GROUPS;
    try_scope(&w);
    json_free(root);
    return 0;
}
