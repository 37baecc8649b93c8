/* The reader: a recursive descent over RFC 8259, one function a production.
 *
 * J1 A value is 16 bytes. An array's items, an object's names and values lie side by side in one
 *    block.
 * J2 Until its container ends, a value waits on the pile; then all of the container's are moved to
 *    their block. So nothing points into the pile, which may move, and whatever is pointed to
 *    stays.
 * J3 Decoded strings lie behind the root in one area as long as the text plus one: a string with
 *    its NUL is never longer than its source with the two quotes, and no escape is shorter than
 *    what it stands for.
 * J4 No name holds a NUL, no two names of an object are equal. */
#include "base/json.h"

#include "base/hash.h"
#include "base/json_text.h"
#include "base/mem.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
    DEPTH_MAX = 2048,
    PILE_FIRST = 64,       /* values; on the stack, enough for most requests */
    BLOCK_FIRST = 32,      /* values; doubled with each block */
    COMPARE_ALL_MAX = 16,  /* names: up to here comparing each with each is the fastest */
    NAME_QUOTED_BYTES = 64 /* of a name in an error's text */
};

struct json {
    uint8_t kind; /* enum json_kind */
    bool is_true;
    uint32_t n; /* bytes of a string, items of an array, members of an object */
    union {
        int64_t integer;
        double real;
        const char *text;         /* with a NUL after it */
        const struct json *items; /* of an object: name, value, name, value */
    };
};

static_assert(sizeof(struct json) == 16, "J1");

struct block {
    struct block *next;
    size_t used, cap;
    struct json values[];
};

struct document {
    struct json root; /* first: the caller's pointer is the document's */
    struct block *blocks;
    char strings[];
};

struct reader {
    const uint8_t *begin, *at, *end;
    struct document *document;
    char *strings_end; /* of what is written */
    struct json *pile;
    size_t pile_n, pile_cap;
    struct json first[PILE_FIRST];
    unsigned depth;
    struct json_error *error;
};

/* -- trouble --------------------------------------------------------------------------------- */

static bool fail_at(struct reader *r, const uint8_t *where, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Always false, for the caller to return. */
static bool fail_at(struct reader *r, const uint8_t *where, const char *format, ...) {
    int line = 1, column = 1;
    for (const uint8_t *p = r->begin; p < where; p++) {
        if (*p == '\n') {
            line++;
            column = 1;
        } else if ((*p & 0xc0) != 0x80) {
            column++; /* characters, not bytes */
        }
    }
    r->error->line = line;
    r->error->column = column;
    va_list args;
    va_start(args, format);
    vsnprintf(r->error->text, sizeof r->error->text, format, args);
    va_end(args);
    return false;
}

/* What stands at r->at is not what it should be. */
static bool fail_expected(struct reader *r, const char *what) {
    if (r->at == r->end)
        return fail_at(r, r->at, "the text ends where %s is expected", what);
    if (*r->at > 0x20 && *r->at < 0x7f)
        return fail_at(r, r->at, "'%c' where %s is expected", *r->at, what);
    return fail_at(r, r->at, "byte 0x%02x where %s is expected", *r->at, what);
}

/* -- memory ---------------------------------------------------------------------------------- */

static struct json *values_alloc(struct document *d, size_t n) {
    struct block *b = d->blocks;
    if (b == NULL || b->cap - b->used < n) {
        size_t cap = b == NULL ? BLOCK_FIRST : b->cap * 2;
        if (cap < n)
            cap = n;
        b = mem_grow(NULL, sizeof *b + cap * sizeof *b->values);
        *b = (struct block){.next = d->blocks, .cap = cap};
        d->blocks = b;
    }
    b->used += n;
    return b->values + b->used - n;
}

static void pile_push(struct reader *r, struct json v) {
    if (r->pile_n == r->pile_cap) {
        size_t cap = r->pile_cap * 2;
        bool is_first = r->pile == r->first;
        r->pile = mem_grow(is_first ? NULL : r->pile, cap * sizeof *r->pile);
        if (is_first)
            memcpy(r->pile, r->first, sizeof r->first);
        r->pile_cap = cap;
    }
    r->pile[r->pile_n++] = v;
}

/* Ends a container whose first value lies at `start` of the pile. */
static void pile_fold(struct reader *r, size_t start, enum json_kind kind) {
    size_t n = r->pile_n - start;
    struct json v = {.kind = (uint8_t)kind, .n = (uint32_t)(kind == JSON_OBJECT ? n / 2 : n)};
    assert(r->pile != NULL);
    if (n > 0) {
        struct json *items = values_alloc(r->document, n);
        memcpy(items, r->pile + start, n * sizeof *items);
        v.items = items;
    }
    r->pile_n = start;
    pile_push(r, v);
}

/* -- the grammar ----------------------------------------------------------------------------- */

static bool read_value(struct reader *r);

static void skip_space(struct reader *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\r' || *r->at == '\t'))
        r->at++;
}

/* Skips space and then c, if it is there. */
static bool take(struct reader *r, uint8_t c) {
    skip_space(r);
    if (r->at == r->end || *r->at != c)
        return false;
    r->at++;
    return true;
}

static bool read_word(struct reader *r, const char *word, struct json v) {
    size_t n = strlen(word);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n) != 0)
        return fail_expected(r, "a value");
    r->at += n;
    pile_push(r, v);
    return true;
}

static bool is_digit_at(const struct reader *r) {
    return r->at < r->end && *r->at >= '0' && *r->at <= '9';
}

static bool read_digits(struct reader *r) {
    if (!is_digit_at(r))
        return fail_expected(r, "a digit");
    while (is_digit_at(r))
        r->at++;
    return true;
}

static bool push_integer(struct reader *r, const uint8_t *start, bool is_negative) {
    uint64_t value = 0;
    for (const uint8_t *p = start + is_negative; p < r->at; p++) {
        if (__builtin_mul_overflow(value, 10U, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value))
            return fail_at(r, start, "a whole number that takes more than 64 bits");
    }
    if (value > (uint64_t)INT64_MAX + is_negative)
        return fail_at(r, start, "a whole number that takes more than 64 bits");
    int64_t integer = (int64_t)(is_negative ? 0 - value : value);
    pile_push(r, (struct json){.kind = JSON_INTEGER, .integer = integer});
    return true;
}

static bool push_real(struct reader *r, const uint8_t *start) {
    /* strtod wants a NUL. The rest of the string area is free, and longer than the number (J3). */
    size_t n = (size_t)(r->at - start);
    memcpy(r->strings_end, start, n);
    r->strings_end[n] = '\0';
    double real = strtod(r->strings_end, NULL);
    if (!isfinite(real))
        return fail_at(r, start, "a number that is too large");
    pile_push(r, (struct json){.kind = JSON_REAL, .real = real});
    return true;
}

static bool read_number(struct reader *r) {
    const uint8_t *start = r->at;
    bool is_negative = *r->at == '-';
    if (is_negative)
        r->at++;
    if (r->at < r->end && *r->at == '0')
        r->at++; /* and no digit after it */
    else if (!read_digits(r))
        return false;

    bool is_real = false;
    if (r->at < r->end && *r->at == '.') {
        is_real = true;
        r->at++;
        if (!read_digits(r))
            return false;
    }
    if (r->at < r->end && (*r->at == 'e' || *r->at == 'E')) {
        is_real = true;
        r->at++;
        if (r->at < r->end && (*r->at == '+' || *r->at == '-'))
            r->at++;
        if (!read_digits(r))
            return false;
    }
    return is_real ? push_real(r, start) : push_integer(r, start, is_negative);
}

static bool read_hex4(struct reader *r, uint32_t *ret_value) {
    uint32_t value = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        uint8_t c = r->at < r->end ? *r->at : 0;
        uint32_t digit;
        if (c >= '0' && c <= '9')
            digit = c - (uint32_t)'0';
        else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
            digit = (c | 0x20U) - 'a' + 10;
        else
            return fail_expected(r, "a hexadecimal digit");
        value = value << 4 | digit;
    }
    *ret_value = value;
    return true;
}

static char *put_utf8(char *p, uint32_t c) {
    if (c < 0x80) {
        *p++ = (char)c;
        return p;
    }
    if (c < 0x800) {
        *p++ = (char)(0xc0 | c >> 6);
    } else {
        if (c < 0x10000) {
            *p++ = (char)(0xe0 | c >> 12);
        } else {
            *p++ = (char)(0xf0 | c >> 18);
            *p++ = (char)(0x80 | (c >> 12 & 0x3f));
        }
        *p++ = (char)(0x80 | (c >> 6 & 0x3f));
    }
    *p++ = (char)(0x80 | (c & 0x3f));
    return p;
}

/* After "\u". Outside the first plane a character is written as two surrogates; one alone is none.
 */
static bool read_unicode(struct reader *r) {
    const uint8_t *start = r->at - 2;
    uint32_t c;
    if (!read_hex4(r, &c))
        return false;
    if (c >= 0xd800 && c <= 0xdfff) {
        uint32_t low = 0;
        bool is_pair = c <= 0xdbff && r->end - r->at >= 2 && r->at[0] == '\\' && r->at[1] == 'u';
        if (is_pair) {
            r->at += 2;
            if (!read_hex4(r, &low))
                return false;
        }
        if (low < 0xdc00 || low > 0xdfff)
            return fail_at(r, start, "half a surrogate pair");
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
    r->strings_end = put_utf8(r->strings_end, c);
    return true;
}

/* After the backslash. */
static bool read_escape(struct reader *r) {
    uint8_t c = r->at < r->end ? *r->at : 0;
    char stands_for;
    switch (c) {
    case '"':
    case '\\':
    case '/':
        stands_for = (char)c;
        break;
    case 'b':
        stands_for = '\b';
        break;
    case 'f':
        stands_for = '\f';
        break;
    case 'n':
        stands_for = '\n';
        break;
    case 'r':
        stands_for = '\r';
        break;
    case 't':
        stands_for = '\t';
        break;
    case 'u':
        r->at++;
        return read_unicode(r);
    default:
        return fail_expected(r, "one of \"\\/bfnrtu");
    }
    r->at++;
    *r->strings_end++ = stands_for;
    return true;
}

/* After the opening quote. */
static bool read_string(struct reader *r) {
    char *text = r->strings_end;
    for (;;) {
        size_t run = json_plain_run(r->at, (size_t)(r->end - r->at));
        /* What ends a run is ASCII, so it cuts no character. */
        if (!span_is_utf8(span_of(r->at, run)))
            return fail_at(r, r->at, "the string that goes on here is not UTF-8");
        memcpy(r->strings_end, r->at, run);
        r->strings_end += run;
        r->at += run;

        if (r->at == r->end)
            return fail_expected(r, "the end of the string");
        uint8_t c = *r->at;
        if (c == '"')
            break;
        if (c != '\\')
            return fail_at(r, r->at, "byte 0x%02x in a string needs an escape", c);
        r->at++;
        if (!read_escape(r))
            return false;
    }
    r->at++;
    size_t n = (size_t)(r->strings_end - text);
    *r->strings_end++ = '\0';
    pile_push(r, (struct json){.kind = JSON_STRING, .n = (uint32_t)n, .text = text});
    return true;
}

static bool read_array(struct reader *r) {
    size_t start = r->pile_n;
    if (!take(r, ']')) {
        do {
            if (!read_value(r))
                return false;
        } while (take(r, ','));
        if (!take(r, ']'))
            return fail_expected(r, "',' or ']'");
    }
    pile_fold(r, start, JSON_ARRAY);
    return true;
}

static bool is_same_name(const struct json *a, const struct json *b) {
    return a->n == b->n && memcmp(a->text, b->text, a->n) == 0;
}

/* The table is of the seed's making, so that nobody can send names which all meet in one place. */
static const struct json *find_double_hashed(const struct json *items, size_t members) {
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
        seed = (uint64_t)(uintptr_t)items;

    size_t slots = 64;
    while (slots < members * 2)
        slots *= 2;
    uint32_t *table = mem_alloc(slots * sizeof *table); /* index of a member plus one, 0 is free */
    const struct json *found = NULL;
    for (size_t i = 0; i < members && found == NULL; i++) {
        const struct json *name = items + 2 * i;
        size_t slot = hash64(span_of(name->text, name->n), seed) & (slots - 1);
        while (table[slot] != 0 && found == NULL) {
            if (is_same_name(items + 2 * (size_t)(table[slot] - 1), name))
                found = name;
            slot = (slot + 1) & (slots - 1);
        }
        table[slot] = (uint32_t)i + 1;
    }
    free(table);
    return found;
}

/* A name that stands twice, or NULL. */
static const struct json *find_double(const struct json *items, size_t members) {
    if (members > COMPARE_ALL_MAX)
        return find_double_hashed(items, members);
    for (size_t i = 1; i < members; i++) {
        for (size_t j = 0; j < i; j++) {
            if (is_same_name(items + 2 * i, items + 2 * j))
                return items + 2 * i;
        }
    }
    return NULL;
}

static bool read_member(struct reader *r) {
    if (!take(r, '"'))
        return fail_expected(r, "a name in quotes");
    const uint8_t *start = r->at;
    if (!read_string(r))
        return false;
    const struct json *name = r->pile + r->pile_n - 1;
    if (memchr(name->text, '\0', name->n) != NULL)
        return fail_at(r, start, "a NUL in a name");
    if (!take(r, ':'))
        return fail_expected(r, "':'");
    return read_value(r);
}

static bool read_object(struct reader *r) {
    size_t start = r->pile_n;
    if (!take(r, '}')) {
        do {
            if (!read_member(r))
                return false;
        } while (take(r, ','));
        if (!take(r, '}'))
            return fail_expected(r, "',' or '}'");
    }
    const struct json *twice = find_double(r->pile + start, (r->pile_n - start) / 2);
    if (twice != NULL) {
        struct span name = span_cut_utf8(span_of(twice->text, twice->n), NAME_QUOTED_BYTES);
        return fail_at(r, r->at, "two members named '%.*s' in the object that ends here",
                       (int)name.n, (const char *)name.p);
    }
    pile_fold(r, start, JSON_OBJECT);
    return true;
}

static bool read_container(struct reader *r, bool (*read)(struct reader *r)) {
    if (r->depth == DEPTH_MAX)
        return fail_at(r, r->at, "more than %d levels", DEPTH_MAX);
    r->depth++;
    r->at++;
    if (!read(r))
        return false;
    r->depth--;
    return true;
}

static bool read_value(struct reader *r) {
    skip_space(r);
    if (r->at == r->end)
        return fail_expected(r, "a value");
    switch (*r->at) {
    case '"':
        r->at++;
        return read_string(r);
    case '{':
        return read_container(r, read_object);
    case '[':
        return read_container(r, read_array);
    case 't':
        return read_word(r, "true", (struct json){.kind = JSON_BOOL, .is_true = true});
    case 'f':
        return read_word(r, "false", (struct json){.kind = JSON_BOOL});
    case 'n':
        return read_word(r, "null", (struct json){.kind = JSON_NULL});
    default:
        if (*r->at == '-' || is_digit_at(r))
            return read_number(r);
        return fail_expected(r, "a value");
    }
}

struct json *json_parse(struct span text, struct json_error *ret_error) {
    const uint8_t *begin = text.n > 0 ? text.p : (const uint8_t *)"";
    if (text.n >= UINT32_MAX) {
        *ret_error = (struct json_error){.line = 1, .column = 1, .text = "the text is too long"};
        return NULL;
    }

    struct document *d = mem_grow(NULL, sizeof *d + text.n + 1);
    d->blocks = NULL;
    struct reader r;
    r.begin = r.at = begin;
    r.end = begin + text.n;
    r.document = d;
    r.strings_end = d->strings;
    r.pile = r.first;
    r.pile_n = 0;
    r.pile_cap = PILE_FIRST;
    r.depth = 0;
    r.error = ret_error;

    bool is_good = read_value(&r);
    if (is_good) {
        skip_space(&r);
        if (r.at < r.end)
            is_good = fail_expected(&r, "the end of the text");
    }
    if (is_good) {
        assert(r.pile_n == 1);
        d->root = r.pile[0];
    }
    if (r.pile != r.first)
        free(r.pile);
    if (!is_good) {
        json_free(&d->root);
        return NULL;
    }
    return &d->root;
}

void json_free(struct json *root) {
    if (root == NULL)
        return;
    struct document *d = (struct document *)root;
    while (d->blocks != NULL) {
        struct block *next = d->blocks->next;
        free(d->blocks);
        d->blocks = next;
    }
    free(d);
}

/* -- values ---------------------------------------------------------------------------------- */

enum json_kind json_kind_of(const struct json *v) {
    return (enum json_kind)v->kind;
}

bool json_is(const struct json *v, enum json_kind kind) {
    return v != NULL && v->kind == kind;
}

const struct json *json_get(const struct json *v, const char *name) {
    if (!json_is(v, JSON_OBJECT))
        return NULL;
    size_t n = strlen(name);
    for (size_t i = 0; i < v->n; i++) {
        const struct json *item = v->items + 2 * i;
        if (item->n == n && memcmp(item->text, name, n) == 0)
            return item + 1;
    }
    return NULL;
}

bool json_each(const struct json *v,
               bool (*f)(void *ctx, const char *name, const struct json *member), void *ctx) {
    assert(json_is(v, JSON_OBJECT));
    for (size_t i = 0; i < v->n; i++) {
        const struct json *item = v->items + 2 * i;
        if (!f(ctx, item->text, item + 1))
            return false;
    }
    return true;
}

size_t json_count(const struct json *v) {
    return json_is(v, JSON_ARRAY) || json_is(v, JSON_OBJECT) ? v->n : 0;
}

const struct json *json_at(const struct json *v, size_t i) {
    assert(json_is(v, JSON_ARRAY) && i < v->n);
    return v->items + i;
}

struct span json_string(const struct json *v) {
    assert(json_is(v, JSON_STRING));
    return span_of(v->text, v->n);
}

int64_t json_integer(const struct json *v) {
    assert(json_is(v, JSON_INTEGER));
    return v->integer;
}

double json_number(const struct json *v) {
    assert(json_is(v, JSON_INTEGER) || json_is(v, JSON_REAL));
    return v->kind == JSON_INTEGER ? (double)v->integer : v->real;
}

bool json_bool(const struct json *v) {
    assert(json_is(v, JSON_BOOL));
    return v->is_true;
}
