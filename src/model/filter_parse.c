/* The grammar of filters: a recursive descent, one function a production. The values of terms are
 * read in filter_value.c. */
#include "base/json_edit.h"
#include "base/mem.h"
#include "model/filter_internal.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    WORD_BYTES_MAX = 10,   /* of the words that there are */
    MISSPELT_MAX = 2,      /* letters, for a word to be taken for a misspelt one */
    MISSPELT_SHORT = 3,    /* a word up to here has so few letters that only one may be wrong */
    WORD_SHOWN_BYTES = 40, /* of an unknown word in an error's text */
};

bool filter_fail(struct filter_reader *r, struct span where, const char *format, ...) {
    r->error->at = (size_t)(where.p - r->text.p);
    r->error->bytes = where.n;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(r->error->text, sizeof r->error->text, format, args);
    va_end(args);
    assert(n > 0 && (size_t)n < sizeof r->error->text);
    return false;
}

/* -- bytes ----------------------------------------------------------------------------------- */

/* Of a text that is not UTF-8: the first byte of what is no character. */
static const uint8_t *find_bad_utf8(struct span text) {
    size_t at = 0, n = 1;
    while (at + n <= text.n && n <= 4) {
        if (span_is_utf8(span_of(text.p + at, n))) {
            at += n;
            n = 1;
        } else {
            n++;
        }
    }
    return text.p + at;
}

static bool check_bytes(struct filter_reader *r) {
    struct span text = r->text;
    if (text.n > FILTER_BYTES_MAX)
        return filter_fail(r, span_of(text.p + FILTER_BYTES_MAX, text.n - FILTER_BYTES_MAX),
                           "a filter has at most %d bytes", FILTER_BYTES_MAX);
    if (!span_is_utf8(text))
        return filter_fail(r, span_of(find_bad_utf8(text), 1), "this byte is not UTF-8");
    for (const uint8_t *p = text.p; p < r->end; p++) {
        if (*p < 0x20 || *p == 0x7f)
            return filter_fail(r, span_of(p, 1),
                               "a filter holds no control characters: byte 0x%02x", *p);
    }
    return true;
}

static void skip_spaces(struct filter_reader *r) {
    while (r->at < r->end && *r->at == ' ')
        r->at++;
}

static bool is_at_end_or(const struct filter_reader *r, size_t ahead, const char *bytes) {
    return (size_t)(r->end - r->at) <= ahead || strchr(bytes, r->at[ahead]) != NULL;
}

/* Reads up to one of `ends` that does not stand in quotes. */
static bool read_up_to(struct filter_reader *r, const char *ends, struct span *ret_read) {
    const uint8_t *start = r->at, *quote = NULL;
    for (; r->at < r->end && (quote != NULL || strchr(ends, *r->at) == NULL); r->at++) {
        if (*r->at == '"')
            quote = quote == NULL ? r->at : NULL;
        else if (*r->at == '\\' && quote != NULL && r->end - r->at > 1)
            r->at++; /* what is escaped closes no quote */
    }
    *ret_read = span_of(start, (size_t)(r->at - start));
    return quote == NULL || filter_fail(r, span_of(quote, 1), "this quote is never closed");
}

bool filter_is_quoted(struct span raw) {
    if (raw.n < 2 || raw.p[0] != '"')
        return false;
    size_t i = 1;
    while (i < raw.n && raw.p[i] != '"')
        i += raw.p[i] == '\\' ? 2 : 1;
    return i == raw.n - 1;
}

bool filter_decode(struct filter_reader *r, struct span raw, struct span *ret_text,
                   const uint8_t **ret_marks) {
    size_t start = r->bytes_n;
    bool is_quoted = false;
    for (size_t i = 0; i < raw.n; i++) {
        if (raw.p[i] == '"') {
            is_quoted = !is_quoted;
            continue;
        }
        if (raw.p[i] == '\\' && is_quoted) {
            if (raw.p[i + 1] != '"' && raw.p[i + 1] != '\\')
                return filter_fail(r, span_of(raw.p + i, 1),
                                   "in quotes, \\ stands only before \" and \\: write \\\\");
            i++;
        }
        r->bytes[r->bytes_n] = raw.p[i];
        r->marks[r->bytes_n++] = raw.p[i] == '*' && !is_quoted;
    }
    *ret_text = span_of(r->bytes + start, r->bytes_n - start);
    *ret_marks = r->marks + start;
    return true;
}

/* -- nodes ----------------------------------------------------------------------------------- */

static struct filter_node *node_new(struct filter_reader *r, enum node_kind kind) {
    assert(r->nodes_n < 2 * r->terms_max); /* F2 */
    struct filter_node *node = &r->nodes[r->nodes_n++];
    node->kind = kind;
    return node;
}

static void node_insert(struct filter_node *parent, struct filter_node *child) {
    struct filter_node **place = &parent->first;
    while (*place != NULL && (*place)->greatest <= child->greatest)
        place = &(*place)->next;
    child->next = *place;
    *place = child;
    if (parent->greatest < child->greatest)
        parent->greatest = child->greatest;
}

/* `list` (NULL at first) and one more item of an AND or an OR. */
static struct filter_node *node_join(struct filter_reader *r, enum node_kind kind,
                                     struct filter_node *list, struct filter_node *item) {
    if (list == NULL)
        return item;
    if (list->kind != kind || list->is_negated) {
        struct filter_node *parent = node_new(r, kind);
        node_insert(parent, list);
        list = parent;
    }
    if (item->kind != kind || item->is_negated) {
        node_insert(list, item);
        return list;
    }
    for (struct filter_node *child = item->first, *next; child != NULL; child = next) {
        next = child->next;
        node_insert(list, child);
    }
    return list;
}

/* -- words ----------------------------------------------------------------------------------- */

/* -1 when it is none. */
static int word_parse(struct span name) {
    for (int w = 0; w < WORD_COUNT_ALL; w++) {
        if (span_equal_str(name, filter_word_name((enum filter_word)w)))
            return w;
    }
    return -1;
}

/* What stands before the first '.'. */
static struct span word_of(struct span head) {
    const uint8_t *dot = memchr(head.p, '.', head.n);
    return span_of(head.p, dot == NULL ? head.n : (size_t)(dot - head.p));
}

static unsigned least(unsigned a, unsigned b) {
    return a < b ? a : b;
}

static uint8_t lower(uint8_t c) {
    return c >= 'A' && c <= 'Z' ? (uint8_t)(c | 0x20) : c;
}

/* How many letters to add, leave out, change or swap with their neighbour make b of a. Row i and
 * column j of the table are what it takes from i letters of a to j of b. */
static unsigned misspelt(struct span a, struct span b) {
    unsigned table[WORD_BYTES_MAX + MISSPELT_MAX + 1][WORD_BYTES_MAX + 1];
    assert(b.n <= WORD_BYTES_MAX);
    if (a.n > WORD_BYTES_MAX + MISSPELT_MAX)
        return UINT32_MAX;
    for (unsigned j = 0; j <= b.n; j++)
        table[0][j] = j;
    for (unsigned i = 1; i <= a.n; i++) {
        table[i][0] = i;
        for (unsigned j = 1; j <= b.n; j++) {
            bool is_same = lower(a.p[i - 1]) == b.p[j - 1];
            unsigned n = least(table[i - 1][j], table[i][j - 1]) + 1;
            n = least(n, table[i - 1][j - 1] + !is_same);
            if (i > 1 && j > 1 && lower(a.p[i - 1]) == b.p[j - 2] &&
                lower(a.p[i - 2]) == b.p[j - 1])
                n = least(n, table[i - 2][j - 2] + 1);
            table[i][j] = n;
        }
    }
    return table[a.n][b.n];
}

/* The word that was meant, or NULL. */
static const char *word_meant(const struct filter_reader *r, struct span name) {
    const char *meant = NULL;
    unsigned nearest = MISSPELT_MAX + 1;
    for (int w = 0; w < WORD_COUNT_ALL; w++) {
        struct span word = span_str(filter_word_name((enum filter_word)w));
        if (!filter_word_allowed((enum filter_word)w, r->scope))
            continue;
        unsigned n = misspelt(name, word);
        if (n < nearest && (n < MISSPELT_MAX || word.n > MISSPELT_SHORT)) {
            nearest = n;
            meant = filter_word_name((enum filter_word)w);
        }
    }
    return meant;
}

static bool fail_unknown(struct filter_reader *r, struct span name) {
    struct span shown = span_cut_utf8(name, WORD_SHOWN_BYTES);
    const char *meant = word_meant(r, name);
    return filter_fail(r, name, "there is no word '%.*s'%s%s%s", (int)shown.n,
                       (const char *)shown.p, meant != NULL ? "; did you mean " : "",
                       meant != NULL ? meant : "", meant != NULL ? "?" : "");
}

static bool is_any_case(struct span s, const char *word) {
    return s.n == strlen(word) && strncasecmp((const char *)s.p, word, s.n) == 0;
}

/* A term without a colon. */
static bool fail_bare(struct filter_reader *r, struct span head) {
    if (is_any_case(head, "and"))
        return filter_fail(r, head, "items side by side mean AND already: leave it out");
    if (is_any_case(head, "or"))
        return filter_fail(r, head, "OR stands in capitals between two items");
    if (is_any_case(head, "not"))
        return filter_fail(r, head, "write '-' directly before what is negated: -word:value");
    if (word_parse(word_of(head)) >= 0)
        return filter_fail(r, head, "':' and a value are missing behind this");
    return filter_fail(r, head, "a term is word:value; to look for a text: message:*text*");
}

/* -- terms ----------------------------------------------------------------------------------- */

static bool read_header_name(struct filter_reader *r, struct span raw, struct filter_term *t) {
    if (memchr(raw.p, '"', raw.n) != NULL && !filter_is_quoted(raw))
        return filter_fail(r, raw, "quote the whole name of the header: header.\"a name\":value");
    const uint8_t *marks;
    if (!filter_decode(r, raw, &t->name, &marks))
        return false;
    return t->name.n > 0 || filter_fail(r, raw, "the name of a header is not empty");
}

static bool read_payload_path(struct filter_reader *r, struct span raw, struct filter_term *t) {
    if (!json_path_is_valid(raw))
        return filter_fail(r, raw,
                           "not a path: names between dots, \"quoted\" where they hold a dot or a "
                           "quote, at most %d",
                           JSON_PATH_NAMES_MAX);
    memcpy(r->bytes + r->bytes_n, raw.p, raw.n);
    t->name = span_of(r->bytes + r->bytes_n, raw.n);
    r->bytes_n += raw.n;
    return true;
}

/* What stands before the colon. */
static bool read_head(struct filter_reader *r, struct span head, struct filter_term *t) {
    struct span word = word_of(head);
    struct span name = span_of(word.p + word.n, head.n - word.n); /* with its dot */
    int w = word_parse(word);
    if (w < 0)
        return fail_unknown(r, word);
    t->word = (enum filter_word)w;
    if (!filter_word_allowed(t->word, r->scope))
        return filter_fail(r, word,
                           r->scope == FILTER_LETTERS
                               ? "'%s' is a word for cause groups, not for dead letters"
                               : "'%s' is a word for dead letters, not for cause groups",
                           filter_word_name(t->word));

    if (filter_word_kind(t->word) != KIND_JSON)
        return name.n == 0 || filter_fail(r, name, "only header and payload go on with a '.'");
    bool is_header = t->word == WORD_HEADER;
    if (name.n < 2)
        return filter_fail(r, span_of(head.p + head.n, 0), "here belongs %s",
                           is_header ? "the name of a header: header.NAME:value"
                                     : "the path of a value: payload.PATH:value");
    name = span_of(name.p + 1, name.n - 1);
    return is_header ? read_header_name(r, name, t) : read_payload_path(r, name, t);
}

static bool read_term(struct filter_reader *r, struct filter_term *t) {
    const uint8_t *start = r->at;
    struct span head, value;
    if (!read_up_to(r, " ():", &head))
        return false;
    if (is_at_end_or(r, 0, " ()"))
        return fail_bare(r, head);
    if (word_of(head).n == 0)
        return filter_fail(r, span_of(start, 1), "a word is missing before this");
    if (!read_head(r, head, t))
        return false;
    r->at++;
    if (!read_up_to(r, " )", &value))
        return false;

    t->at = (size_t)(start - r->text.p);
    t->bytes = (size_t)(r->at - start);
    if (r->filter->terms_n == FILTER_TERMS_MAX)
        return filter_fail(r, span_of(start, t->bytes), "a filter has at most %d terms",
                           FILTER_TERMS_MAX);
    return filter_read_value(r, value, t);
}

/* -- items: each gives its node, or NULL when it is ill-formed -------------------------------- */

static struct filter_node *read_or(struct filter_reader *r, const uint8_t *open);

static struct filter_node *read_leaf(struct filter_reader *r) {
    struct filter_term t = {.low = INT64_MAX, .high = INT64_MIN};
    if (!read_term(r, &t))
        return NULL;
    assert(r->filter->terms_n < r->terms_max); /* F1 */
    struct filter_term *kept = &r->filter->terms[r->filter->terms_n++];
    *kept = t;
    struct filter_node *node = node_new(r, NODE_TERM);
    node->greatest = t.word;
    node->term = kept;
    return node;
}

static bool fail_unclosed(struct filter_reader *r, const uint8_t *open) {
    return filter_fail(r, span_of(open, 1), "this parenthesis is never closed");
}

static struct filter_node *read_parentheses(struct filter_reader *r) {
    const uint8_t *open = r->at;
    if (r->depth == FILTER_DEPTH_MAX) {
        filter_fail(r, span_of(open, 1), "parentheses go at most %d deep", FILTER_DEPTH_MAX);
        return NULL;
    }
    r->depth++;
    r->at++;
    struct filter_node *node = read_or(r, open);
    if (node == NULL)
        return NULL;
    if (r->at == r->end) {
        fail_unclosed(r, open);
        return NULL;
    }
    r->at++;
    r->depth--;
    return node;
}

static struct filter_node *read_item(struct filter_reader *r) {
    bool is_negated = *r->at == '-';
    if (is_negated) {
        if (is_at_end_or(r, 1, " )-")) {
            filter_fail(r, span_of(r->at, 1),
                        "'-' stands directly before the term or '(' that it negates");
            return NULL;
        }
        r->at++;
    }
    struct filter_node *node = *r->at == '(' ? read_parentheses(r) : read_leaf(r);
    if (node != NULL && is_negated)
        node->is_negated = !node->is_negated; /* F3 */
    return node;
}

static bool is_at_or(const struct filter_reader *r) {
    return r->end - r->at >= 2 && memcmp(r->at, "OR", 2) == 0 && is_at_end_or(r, 2, " ()");
}

static bool fail_stray(struct filter_reader *r) {
    return filter_fail(r, span_of(r->at, 1),
                       "no '(' stands before this ')'; quote a value that holds one");
}

/* An item is expected, and there is none. */
static bool fail_no_item(struct filter_reader *r, const uint8_t *open, const uint8_t *or_before) {
    if (or_before != NULL)
        return filter_fail(r, span_of(or_before, 2), "nothing stands to the right of this OR");
    if (is_at_or(r))
        return filter_fail(r, span_of(r->at, 2), "nothing stands to the left of this OR");
    bool is_at_end = r->at == r->end;
    if (open == NULL)
        return is_at_end ? filter_fail(r, span_of(r->at, 0), "the filter is empty") : fail_stray(r);
    if (is_at_end)
        return fail_unclosed(r, open);
    return filter_fail(r, span_of(open, (size_t)(r->at + 1 - open)), "these parentheses are empty");
}

/* open, or_before: the "(" and the "OR" that it stands behind, or NULL. */
static struct filter_node *read_and(struct filter_reader *r, const uint8_t *open,
                                    const uint8_t *or_before) {
    struct filter_node *all = NULL;
    for (;;) {
        skip_spaces(r);
        if (is_at_end_or(r, 0, ")") || is_at_or(r))
            break;
        struct filter_node *item = read_item(r);
        if (item == NULL)
            return NULL;
        all = node_join(r, NODE_AND, all, item);
    }
    if (all == NULL)
        fail_no_item(r, open, or_before);
    return all;
}

/* Ends at a ")" or at the end. */
static struct filter_node *read_or(struct filter_reader *r, const uint8_t *open) {
    struct filter_node *any = NULL;
    const uint8_t *or_before = NULL;
    for (;;) {
        struct filter_node *all = read_and(r, open, or_before);
        if (all == NULL)
            return NULL;
        any = node_join(r, NODE_OR, any, all);
        if (!is_at_or(r))
            return any;
        or_before = r->at;
        r->at += 2;
    }
}

/* -- the filter ------------------------------------------------------------------------------ */

/* F1 */
static void reader_alloc(struct filter_reader *r) {
    for (const uint8_t *p = r->text.p; p < r->end && r->terms_max < FILTER_TERMS_MAX; p++)
        r->terms_max += *p == ':';
    struct filter *f = mem_alloc(sizeof *f + r->terms_max * sizeof f->terms[0] +
                                 2 * r->terms_max * sizeof *r->nodes + 2 * r->text.n);
    r->filter = f;
    r->nodes = (struct filter_node *)(f->terms + r->terms_max);
    r->bytes = (uint8_t *)(r->nodes + 2 * r->terms_max);
    r->marks = r->bytes + r->text.n;
}

struct filter *filter_parse(struct span text, enum filter_scope scope, int64_t now,
                            struct filter_error *ret_error) {
    if (text.n == 0)
        text = span_str(""); /* no pointer arithmetic with NULL */
    struct filter_reader r = {
        .text = text,
        .at = text.p,
        .end = text.p + text.n,
        .scope = scope,
        .now = now,
        .error = ret_error,
    };
    if (!check_bytes(&r))
        return NULL;

    reader_alloc(&r);
    r.filter->root = read_or(&r, NULL);
    if (r.filter->root != NULL && (r.at == r.end || fail_stray(&r)))
        return r.filter;
    filter_free(r.filter);
    return NULL;
}
