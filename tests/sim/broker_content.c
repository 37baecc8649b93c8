#include "sim/broker_content.h"

#include "model/scope.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- texts ------------------------------------------------------------------------------------------ */

static const char *const texts[TEXTS] = {
    "",
    /* queues */
    "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "q8", "q9",
    /* exchanges */
    "amq.direct", "amq.fanout", "amq.topic", "amq.headers", "amq.match", "amq.rabbitmq.trace", "x0",
    "x1", "x2", "x3", "x4", "x5", "absent",
    /* keys and patterns */
    "a", "b", "a.b", "b.a", "a.b.c", "a.a", "a..b", ".", "a.", ".b", "#", "*", "a.#", "#.b", "*.b",
    "a.*", "*.*", "#.a.#", "a.#.c", "#.#", "*.#.*", "a.*.#.b"};

struct span text_of(unsigned number) {
    assert(number < TEXTS);
    return span_str(texts[number]);
}

struct span text_or_none(int number) {
    if (number < 0)
        return (struct span){0};
    return text_of((unsigned)number);
}

struct span vhost_name(unsigned number) {
    static const char *const names[VHOSTS] = {"/", "v", "/w"};
    return span_str(names[number]);
}

bool is_same_place(struct place a, struct place b) {
    return a.vhost == b.vhost && a.text == b.text;
}

struct span place_name(struct place p) {
    static char names[8][64];
    static unsigned next;
    char *name = names[next++ % 8];
    if (p.vhost == 0)
        return text_of(p.text);
    int n = snprintf(name, sizeof names[0], "//%s/%s", (const char *)vhost_name(p.vhost).p,
                     texts[p.text]);
    return span_of(name, (size_t)n);
}

const char *place_words(struct place p) {
    return (const char *)place_name(p).p;
}

/* -- topics, by trying everything -------------------------------------------------------------------- */

struct words {
    size_t n;
    struct span words[16];
};

static struct words words_of(const char *text) {
    struct words w = {0};
    if (!*text)
        return w;
    for (;;) {
        size_t n = strcspn(text, ".");
        w.words[w.n++] = span_of(text, n);
        if (!text[n])
            return w;
        text += n + 1;
    }
}

static bool words_match(const struct words *p, size_t i, const struct words *k, size_t j) {
    if (i == p->n)
        return j == k->n;
    if (span_equal_str(p->words[i], "#"))
        return words_match(p, i + 1, k, j) || (j < k->n && words_match(p, i, k, j + 1));
    return j < k->n && (span_equal_str(p->words[i], "*") || span_equal(p->words[i], k->words[j])) &&
           words_match(p, i + 1, k, j + 1);
}

bool topic_takes(unsigned pattern, unsigned key) {
    struct words p = words_of(texts[pattern]), k = words_of(texts[key]);
    return words_match(&p, 0, &k, 0);
}

/* -- tables ------------------------------------------------------------------------------------------- */

#define NUMBER(name, value)                                                                        \
    { name, FIELD_NUMBER, value }
#define TEXT(name, value)                                                                          \
    { name, FIELD_TEXT, value }
#define YES(name)                                                                                  \
    { name, FIELD_YES, "true" }
#define NOTHING(name)                                                                              \
    { name, FIELD_VOID, "null" }
#define MATCH(how) TEXT("x-match", how)

static const struct field tables[TABLES][FIELDS] = {
    {{0}},
    {NUMBER("a", "1")},
    {NUMBER("a", "1"), TEXT("b", "x")},
    {TEXT("b", "x"), NUMBER("a", "1")},
    {NUMBER("a", "1.0")},
    {TEXT("b", "y")},
    {YES("a")},
    {TEXT("x-k", "v")},
    {TEXT("x-first-death-reason", "rejected")}, /* opaque until the message died */
    {MATCH("any"), NUMBER("a", "1"), TEXT("b", "x")},
    {MATCH("all"), NOTHING("a")},
    {MATCH("all-with-x"), TEXT("x-k", "v")},
    {MATCH("any-with-x"), TEXT("x-first-death-reason", "rejected"), NUMBER("a", "1")},
    {MATCH("all-with-x"), TEXT("x-last-death-queue", "q1")},
    {MATCH("any")},
    {MATCH("any-with-x"), NOTHING("x-last-death-reason")},
    {MATCH("all-with-x"), TEXT("x-first-death-exchange", "")},
    {MATCH("all-with-x"), TEXT("x-first-death-queue", "q2"),
     TEXT("x-last-death-reason", "expired")},
    {NUMBER("a", "2"), TEXT("c", "z")},
    {MATCH("all"), TEXT("x-k", "no"), NUMBER("a", "1")},
    {MATCH("any"), TEXT("x-k", "v")},
};

const struct field *table_of(unsigned number) {
    assert(number < TABLES);
    return tables[number];
}

struct span table_text(unsigned number) {
    static char written[TABLES][160];
    char *text = written[number];
    int n = 0;
    if (number == 0)
        return (struct span){0};
    for (const struct field *f = tables[number]; f < tables[number] + FIELDS && f->name; f++) {
        const char *quote = f->kind == FIELD_TEXT ? "\"" : "";
        n += snprintf(text + n, sizeof written[0] - (size_t)n, "%s\"%s\":%s%s%s", n ? "," : "{",
                      f->name, quote, f->value, quote);
    }
    n += snprintf(text + n, sizeof written[0] - (size_t)n, "}");
    return span_of(text, (size_t)n);
}

bool is_same_field(const struct field *a, const struct field *b) {
    if (a->kind == FIELD_NUMBER && b->kind == FIELD_NUMBER)
        return !(strtod(a->value, NULL) < strtod(b->value, NULL)) &&
               !(strtod(a->value, NULL) > strtod(b->value, NULL));
    return a->kind == b->kind && strcmp(a->value, b->value) == 0;
}

static bool is_within(unsigned a, unsigned b) {
    for (const struct field *f = tables[a]; f < tables[a] + FIELDS && f->name; f++) {
        bool found = false;
        for (const struct field *g = tables[b]; g < tables[b] + FIELDS && g->name; g++)
            found |= strcmp(f->name, g->name) == 0 && is_same_field(f, g);
        if (!found)
            return false;
    }
    return true;
}

bool is_same_table(unsigned a, unsigned b) {
    return is_within(a, b) && is_within(b, a);
}

/* -- settings ------------------------------------------------------------------------------------------- */

struct settings settings_none(void) {
    return (struct settings){.ttl_ms = -1,
                             .expires_ms = -1,
                             .length = -1,
                             .bytes = -1,
                             .limit = NO_LIMIT_GIVEN,
                             .priority = -1,
                             .overflow = -1,
                             .dlx = NO_TEXT,
                             .dlrk = NO_TEXT,
                             .alternate = NO_TEXT};
}

static char written[800];
static size_t used;

static void write_part(const char *x, const char *name, const char *quote, const char *value) {
    used += (size_t)snprintf(written + used, sizeof written - used, "%s\"%s%s\":%s%s%s",
                             used > 1 ? "," : "", x, name, quote, value, quote);
    assert(used < sizeof written);
}

static void write_number(const char *x, const char *name, int64_t value) {
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)value);
    write_part(x, name, "", text);
}

static void write_numbers(const struct settings *s, const char *x) {
    if (s->ttl_ms >= 0)
        write_number(x, "message-ttl", s->ttl_ms);
    if (s->expires_ms >= 0)
        write_number(x, "expires", s->expires_ms);
    if (s->length >= 0)
        write_number(x, "max-length", s->length);
    if (s->bytes >= 0)
        write_number(x, "max-length-bytes", s->bytes);
    if (s->limit != NO_LIMIT_GIVEN)
        write_number(x, "delivery-limit", s->limit);
    if (s->priority >= 0)
        write_number(x, "max-priority", s->priority);
}

struct span settings_text(const struct settings *s, bool is_arguments, bool is_quorum) {
    static const char *const overflows[] = {"drop-head", "reject-publish", "reject-publish-dlx"};
    const char *x = is_arguments ? "x-" : "";
    written[0] = '{';
    used = 1;
    write_numbers(s, x);
    if (s->overflow >= 0)
        write_part(x, "overflow", "\"", overflows[s->overflow]);
    if (s->dlx >= 0)
        write_part(x, "dead-letter-exchange", "\"", texts[s->dlx]);
    if (s->dlrk >= 0)
        write_part(x, "dead-letter-routing-key", "\"", texts[s->dlrk]);
    if (s->alternate >= 0)
        write_part(x, "alternate-exchange", "\"", texts[s->alternate]);
    if (s->keeps)
        write_part(x, "nixie-keep", "", "true");
    if (is_quorum)
        write_part(x, "queue-type", "\"", "quorum");
    written[used++] = '}';
    return span_of(written, used);
}

/* -- policies --------------------------------------------------------------------------------------------- */

static bool is_any(const char *name) {
    return *name != 0;
}

static bool is_all(const char *name) {
    (void)name;
    return true;
}

static bool is_low(const char *name) {
    return name[0] == 'q' && name[1] >= '0' && name[1] <= '2' && !name[2];
}

static bool is_third(const char *name) {
    return strcmp(name, "q3") == 0;
}

static bool is_even(const char *name) {
    return *name && strchr("02468", name[strlen(name) - 1]);
}

static bool begins_with_x(const char *name) {
    return *name == 'x';
}

static bool has_one(const char *name) {
    return strchr(name, '1') != NULL;
}

static bool is_amq(const char *name) {
    return strncmp(name, "amq.", 4) == 0;
}

static const struct {
    const char *text;
    bool (*takes)(const char *name);
} patterns[PATTERNS] = {
    {"^q[0-2]$", is_low},  {"^q3$", is_third},    {".", is_any},  {"", is_all},
    {"[02468]$", is_even}, {"^x", begins_with_x}, {"1", has_one}, {"^amq\\.", is_amq},
};

struct span pattern_text(unsigned number) {
    return span_str(patterns[number].text);
}

bool pattern_takes_name(unsigned number, unsigned text) {
    return patterns[number].takes(texts[text]);
}

struct span policy_name(unsigned number) {
    static const char *const names[POLICY_NAMES] = {"high", "low", "a", "zz"};
    return span_str(names[number]);
}
