/* The grammar of filters, how they are evaluated, and what they ask. */
#include "check.h"

#include "base/mem.h"
#include "base/rng.h"
#include "model/filter.h"

#include <stdlib.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

#define NOW INT64_C(1780315200000) /* 2026-06-01 12:00:00 */
#define HOUR INT64_C(3600000)
#define DAY INT64_C(86400000)

static struct filter_error error;

static struct filter *parse(const char *text) {
    struct filter *f = filter_parse(span_str(text), FILTER_LETTERS, NOW, &error);
    if (f == NULL)
        printf("# %s: %zu+%zu: %s\n", text, error.at, error.bytes, error.text);
    CHECK(f != NULL);
    return f;
}

/* -- terms of one filter, in the order in which they are asked --------------------------------- */

struct asked {
    const struct filter_term *terms[FILTER_TERMS_MAX];
    size_t n;
    enum verdict answer; /* to all of them */
};

static enum verdict note(void *ctx, const struct filter_term *t) {
    struct asked *asked = ctx;
    asked->terms[asked->n++] = t;
    return asked->answer;
}

/* -- words --------------------------------------------------------------------------------------- */

static void words_are_allowed_in_their_scope(void) {
    static const enum filter_word of_groups[] = {WORD_QUEUE, WORD_REASON,  WORD_ERROR, WORD_GROUP,
                                                 WORD_STATE, WORD_VERSION, WORD_OWNER, WORD_COUNT,
                                                 WORD_SEEN,  WORD_MESSAGE};
    size_t n = 0;
    for (int w = 0; w < WORD_COUNT_ALL; w++) {
        enum filter_word word = (enum filter_word)w;
        CHECK(filter_word_name(word) != NULL);
        CHECK_EQ(filter_word_allowed(word, FILTER_LETTERS), w < WORD_STATE);
        n += filter_word_allowed(word, FILTER_GROUPS);
        for (int other = 0; other < w; other++)
            CHECK(strcmp(filter_word_name(word), filter_word_name((enum filter_word)other)) != 0);
    }
    CHECK_EQ(n, COUNT(of_groups));
    for (size_t i = 0; i < COUNT(of_groups); i++)
        CHECK(filter_word_allowed(of_groups[i], FILTER_GROUPS));
}

static void every_word_is_read(void) {
    static const char *const values[] = {
        [KIND_TEXT] = "x",       [KIND_NUMBER] = "5",   [KIND_TIME] = "2026-06-01",
        [KIND_DURATION] = ">2h", [KIND_YES_NO] = "yes", [KIND_JSON] = "x",
    };
    for (int w = 0; w < WORD_COUNT_ALL; w++) {
        enum filter_word word = (enum filter_word)w;
        enum filter_kind kind = filter_word_kind(word);
        char text[64];
        snprintf(text, sizeof text, "%s%s:%s", filter_word_name(word),
                 kind == KIND_JSON ? ".a" : "",
                 word == WORD_REASON  ? "manual"
                 : word == WORD_STATE ? "open"
                                      : values[kind]);
        enum filter_scope scope = w < WORD_STATE ? FILTER_LETTERS : FILTER_GROUPS;
        struct filter *f = filter_parse(span_str(text), scope, NOW, &error);
        CHECK(f != NULL);
        if (f == NULL)
            continue;
        struct asked asked = {.answer = VERDICT_MAYBE};
        CHECK_EQ(filter_eval(f, note, &asked), VERDICT_MAYBE);
        CHECK_EQ(asked.terms[0]->word, word);
        CHECK_EQ(asked.terms[0]->at, 0);
        CHECK_EQ(asked.terms[0]->bytes, strlen(text));
        for (int other = 0; other < WORD_COUNT_ALL; other++)
            CHECK_EQ(filter_has(f, (enum filter_word)other), other == w);
        filter_free(f);
    }
}

static void examples_parse(void) {
    static const char *const texts[] = {
        "reason:max_retries error:Timeout* queue:orders age:>2h died:2026-06-01..2026-06-02 "
        "header.tenant:acme payload.customer.id:123 key:K redrives:>=2 version:1.4 "
        "group:v1:0123456789abcdef",
        "-version:1.4",
        "(error:A OR error:B) -queue:\"my queue\"",
        "message:\"*connection refused*\"",
        "message:*refused*",
        "died:>=2026-06-01",
        "died:\"2026-06-01 12:00:00\"",
        "died:2026-06-01T12:00:00Z",
        "age:1h30m..2d",
        "payload.total:>=10.5",
        "payload.items.0.sku:A*",
        "payload.\"a.b\".c:x",
        "edited:no",
        "header.x-tenant:acme",
        "  -(error:A (queue:b)OR -(key:x)key:y  )  ",
    };
    for (size_t i = 0; i < COUNT(texts); i++)
        filter_free(parse(texts[i]));
}

static void groups_have_words_of_their_own(void) {
    struct filter *f = filter_parse(
        span_str("state:open -owner:\"\" count:>=100 seen:>2026-05-31 message:*refused*"),
        FILTER_GROUPS, NOW, &error);
    CHECK(f != NULL);
    CHECK(f != NULL && filter_has(f, WORD_OWNER) && !filter_has(f, WORD_QUEUE));
    filter_free(f);
}

static void a_filter_outlives_its_text(void) {
    static const char text[] = "header.\"a b\":\"x\\\"\"* payload.c.d:y OR error:Z";
    char *copy = mem_strdup(text);
    struct filter *f = parse(copy);
    memset(copy, '#', strlen(copy));
    free(copy);
    struct asked asked = {.answer = VERDICT_NO};
    CHECK_EQ(filter_eval(f, note, &asked), VERDICT_NO);
    CHECK_EQ(asked.n, 2);
    CHECK(span_equal_str(asked.terms[0]->pattern, "Z"));
    CHECK_EQ(asked.terms[0]->at, strlen(text) - 7);
    CHECK_EQ(asked.terms[0]->bytes, 7);
    CHECK(span_equal_str(asked.terms[1]->name, "a b"));
    CHECK(span_equal_str(asked.terms[1]->pattern, "x\"*"));
    filter_free(f);
}

/* -- evaluation ------------------------------------------------------------------------------------ */

/* Terms are version:a to version:d; bit i of the answers tells whether the i-th holds. */
static enum verdict ask_bits(void *ctx, const struct filter_term *t) {
    const unsigned *bits = ctx;
    return (*bits >> (t->pattern.p[0] - 'a') & 1) != 0 ? VERDICT_YES : VERDICT_NO;
}

static unsigned truth(const char *text) {
    struct filter *f = parse(text);
    unsigned table = 0;
    for (unsigned bits = 0; bits < 8; bits++)
        table |= (unsigned)(filter_eval(f, ask_bits, &bits) == VERDICT_YES) << bits;
    filter_free(f);
    return table;
}

static void not_binds_before_and_and_before_or(void) {
    unsigned a = 0xaa, b = 0xcc, c = 0xf0;
    CHECK_EQ(truth("version:a version:b OR version:c"), (a & b) | c);
    CHECK_EQ(truth("version:a OR version:b version:c"), a | (b & c));
    CHECK_EQ(truth("-version:a version:b OR version:c"), ((0xff ^ a) & b) | c);
    CHECK_EQ(truth("(version:a OR version:b) version:c"), (a | b) & c);
    CHECK_EQ(truth("version:a (version:b OR version:c)"), a & (b | c));
    CHECK_EQ(truth("-(version:a version:b) version:c"), (0xff ^ (a & b)) & c);
    CHECK_EQ(truth("-(version:a OR version:b) OR version:c"), (0xff ^ (a | b)) | c);
    CHECK_EQ(truth("-(-(version:a version:b)) version:c"), a & b & c);
    CHECK_EQ(truth("((version:a)) -(-version:b)"), a & b);
    CHECK_EQ(truth("version:a (version:b)OR(version:c)"), (a & b) | c);
}

static void check_asked(const char *text, enum verdict answer, enum verdict expected,
                        const char *order) {
    struct asked asked = {.answer = answer};
    struct filter *f = parse(text);
    CHECK_EQ(filter_eval(f, note, &asked), expected);
    char words[256] = "";
    size_t n = 0;
    for (size_t i = 0; i < asked.n; i++)
        n += (size_t)snprintf(words + n, sizeof words - n, " %.*s", (int)asked.terms[i]->bytes,
                              text + asked.terms[i]->at);
    if (strcmp(words, order) != 0)
        printf("# %s: asked%s\n", text, words);
    CHECK(strcmp(words, order) == 0);
    filter_free(f);
}

static void memory_is_asked_before_the_disk(void) {
    check_asked("payload.a:1 key:k id:1 queue:q", VERDICT_YES, VERDICT_YES,
                " queue:q id:1 key:k payload.a:1");
    check_asked("payload.a:1 queue:q", VERDICT_NO, VERDICT_NO, " queue:q");
    check_asked("payload.a:1 queue:q", VERDICT_MAYBE, VERDICT_MAYBE, " queue:q payload.a:1");
    check_asked("payload.a:1 OR queue:q", VERDICT_YES, VERDICT_YES, " queue:q");
    check_asked("payload.a:1 OR queue:q", VERDICT_NO, VERDICT_NO, " queue:q payload.a:1");
    check_asked("(queue:q payload.a:1) (id:1 key:k)", VERDICT_YES, VERDICT_YES,
                " queue:q id:1 key:k payload.a:1");
    check_asked("(queue:q OR payload.a:1) key:k id:1", VERDICT_NO, VERDICT_NO, " id:1");
    check_asked("(queue:q OR payload.a:1) key:k id:1", VERDICT_MAYBE, VERDICT_MAYBE,
                " id:1 key:k queue:q payload.a:1");
    check_asked("-payload.a:1 -(key:k OR error:E) id:1", VERDICT_NO, VERDICT_NO, " id:1");
    check_asked("-payload.a:1 -(key:k OR error:E)", VERDICT_NO, VERDICT_YES,
                " error:E key:k payload.a:1");
    check_asked("id:1 key:b id:2 key:a id:3 -key:c", VERDICT_MAYBE, VERDICT_MAYBE,
                " id:1 id:2 id:3 key:b key:a key:c");
}

struct tree {
    enum { TREE_TERM, TREE_AND, TREE_OR } kind;
    bool is_negated;
    unsigned variable, n; /* of a term; children */
    struct tree *children[4];
};

static struct tree pool[256];
static unsigned pool_n;

static const char *const variables[] = {"queue:a", "payload.x:b", "id:1",  "key:c",
                                        "age:>1h", "header.h:d",  "id:2*", "reason:manual"};
enum { VARIABLES = 6 }; /* how many of them the trees use */

/* A tree and, appended to text, its filter; an item, so in parentheses unless it is a term. */
static struct tree *grow(struct rng *rng, unsigned depth, struct buf *text) {
    struct tree *tree = &pool[pool_n++];
    *tree = (struct tree){.kind = TREE_TERM, .is_negated = rng_below(rng, 3) == 0};
    if (tree->is_negated)
        buf_add_byte(text, '-');
    if (depth == 0 || rng_below(rng, 4) == 0) {
        tree->variable = (unsigned)rng_below(rng, VARIABLES);
        buf_add_str(text, variables[tree->variable]);
        return tree;
    }
    tree->kind = rng_below(rng, 2) == 0 ? TREE_AND : TREE_OR;
    tree->n = 1 + (unsigned)rng_below(rng, 3);
    buf_add_byte(text, '(');
    for (unsigned i = 0; i < tree->n; i++) {
        if (i > 0)
            buf_add_str(text, tree->kind == TREE_AND ? " " : " OR ");
        tree->children[i] = grow(rng, depth - 1, text);
    }
    buf_add_byte(text, ')');
    return tree;
}

/* In Kleene's logic AND is the minimum and OR the maximum of no < maybe < yes, here -1, 0 and 1. */
static int value_of(const struct tree *tree, const int *values) {
    int value = tree->kind == TREE_TERM ? values[tree->variable] : tree->kind == TREE_AND ? 1 : -1;
    for (unsigned i = 0; i < tree->n; i++) {
        int child = value_of(tree->children[i], values);
        if (tree->kind == TREE_AND ? child < value : child > value)
            value = child;
    }
    return tree->is_negated ? -value : value;
}

static enum verdict ask_values(void *ctx, const struct filter_term *t) {
    static const int words[] = {WORD_QUEUE, WORD_PAYLOAD, WORD_ID, WORD_KEY, WORD_AGE, WORD_HEADER};
    static const enum verdict verdicts[] = {VERDICT_NO, VERDICT_MAYBE, VERDICT_YES};
    const int *values = ctx;
    for (int i = 0; i < VARIABLES; i++) {
        if (words[i] == (int)t->word)
            return verdicts[values[i] + 1];
    }
    return VERDICT_MAYBE;
}

static void evaluation_is_kleenes(void) {
    static const enum verdict verdicts[] = {VERDICT_NO, VERDICT_MAYBE, VERDICT_YES};
    struct rng rng;
    rng_seed(&rng, 11);
    struct buf text;
    buf_init(&text, FILTER_BYTES_MAX);
    for (int round = 0; round < 300; round++) {
        buf_clear(&text);
        pool_n = 0;
        const struct tree *tree = grow(&rng, 3, &text);
        buf_add_byte(&text, '\0');
        struct filter *f = parse((const char *)text.p);
        for (unsigned row = 0; row < 729; row++) { /* three to the power of VARIABLES */
            int values[VARIABLES];
            for (unsigned i = 0, rest = row; i < VARIABLES; i++, rest /= 3)
                values[i] = (int)(rest % 3) - 1;
            enum verdict expected = verdicts[value_of(tree, values) + 1];
            if (filter_eval(f, ask_values, values) != expected) {
                printf("# row %u of %s\n", row, (const char *)text.p);
                CHECK(false);
            }
        }
        filter_free(f);
    }
    buf_release(&text);
}

/* -- the range of times of death --------------------------------------------------------------------- */

static void check_range(const char *text, int64_t low, int64_t high) {
    struct filter *f = parse(text);
    int64_t is_low, is_high;
    filter_died_range(f, &is_low, &is_high);
    CHECK_EQ(is_low, low);
    CHECK_EQ(is_high, high);
    filter_free(f);
}

static void the_range_of_death(void) {
    const int64_t day = NOW - 12 * HOUR;
    check_range("queue:q", INT64_MIN, INT64_MAX);
    check_range("died:2026-06-01 queue:q", day, day + DAY - 1);
    check_range("died:>=2026-06-01 age:>=2h", day, NOW - 2 * HOUR);
    check_range("died:2026-06-01 OR died:2026-06-03", day, day + 3 * DAY - 1);
    check_range("died:2026-06-01 OR queue:q", INT64_MIN, INT64_MAX);
    check_range("(died:2026-06-01 OR died:2026-06-03) age:<0s", NOW + 1, day + 3 * DAY - 1);
    check_range("-died:2026-06-01", INT64_MIN, INT64_MAX);
    check_range("-(died:2026-06-01 queue:q) died:<=2026-06-01", INT64_MIN, day + DAY - 1);
    check_range("died:2026-06-01 died:2026-06-03", day + 2 * DAY, day + DAY - 1);
    check_range("(died:2026-06-01 died:2026-06-03) OR died:2026-06-02", day + DAY,
                day + 2 * DAY - 1);
    check_range("died:2026-06-02 OR (died:2026-06-01 died:2026-06-03)", day + DAY,
                day + 2 * DAY - 1);
}

int main(void) {
    RUN(words_are_allowed_in_their_scope);
    RUN(every_word_is_read);
    RUN(examples_parse);
    RUN(groups_have_words_of_their_own);
    RUN(a_filter_outlives_its_text);
    RUN(not_binds_before_and_and_before_or);
    RUN(memory_is_asked_before_the_disk);
    RUN(evaluation_is_kleenes);
    RUN(the_range_of_death);
    return check_done();
}
