#include "base/json.h"

#include "base/json_text.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 30, REAL_TEXT_SIZE = 32 };

/* -- texts of values ------------------------------------------------------------------------- */

/* Eight bytes at a time: the sums flag a byte below 0x20 and a byte equal to the quote or the
 * backslash. They tell that there is one, not which: the second loop finds it. */
size_t json_plain_run(const uint8_t *p, size_t n) {
    const uint64_t ones = UINT64_C(0x0101010101010101), tops = UINT64_C(0x8080808080808080);
    size_t i = 0;
    uint64_t word;
    while (n - i >= sizeof word) {
        memcpy(&word, p + i, sizeof word);
        uint64_t quote = word ^ (ones * '"');
        uint64_t backslash = word ^ (ones * '\\');
        uint64_t found = ((word - ones * 0x20) & ~word) | ((quote - ones) & ~quote) |
                         ((backslash - ones) & ~backslash);
        if ((found & tops) != 0)
            break;
        i += sizeof word;
    }
    while (i < n && p[i] >= 0x20 && p[i] != '"' && p[i] != '\\')
        i++;
    return i;
}

static void add_escape(struct buf *out, uint8_t c) {
    static const char digits[] = "0123456789abcdef";
    static const char short_forms[0x20] = {
        ['\b'] = 'b', ['\f'] = 'f', ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't',
    };

    uint8_t *p = buf_reserve(out, 6);
    p[0] = '\\';
    if (c >= 0x20 || short_forms[c] != 0) {
        p[1] = c >= 0x20 ? c : (uint8_t)short_forms[c];
        out->n += 2;
        return;
    }
    p[1] = 'u';
    p[2] = '0';
    p[3] = '0';
    p[4] = (uint8_t)digits[c >> 4];
    p[5] = (uint8_t)digits[c & 15];
    out->n += 6;
}

static void add_quoted(struct buf *out, struct span s) {
    buf_add_byte(out, '"');
    for (size_t i = 0; i < s.n;) { /* an empty span has no bytes to point at */
        size_t run = json_plain_run(s.p + i, s.n - i);
        buf_add(out, s.p + i, run);
        i += run;
        if (i < s.n)
            add_escape(out, s.p[i++]);
    }
    buf_add_byte(out, '"');
}

/* The shortest of the usual precisions that reads back as the same number. JSON has no word for
 * infinity or not-a-number. */
static size_t real_text(double v, char out[static REAL_TEXT_SIZE]) {
    assert(isfinite(v));
    int n = 0;
    for (int precision = 15; precision <= 17; precision++) {
        n = snprintf(out, REAL_TEXT_SIZE, "%.*g", precision, v);
        if (strtod(out, NULL) == v)
            break;
    }
    return (size_t)n;
}

/* -- a tree again as text -------------------------------------------------------------------- */

struct dump {
    struct buf *out;
    bool has_items;
};

static void dump_value(const struct json *v, struct buf *out);

static bool dump_member(void *ctx, const char *name, const struct json *member) {
    struct dump *d = ctx;
    if (d->has_items)
        buf_add_byte(d->out, ',');
    d->has_items = true;
    add_quoted(d->out, span_str(name));
    buf_add_byte(d->out, ':');
    dump_value(member, d->out);
    return true;
}

static void dump_object(const struct json *v, struct buf *out) {
    struct dump d = {.out = out};
    buf_add_byte(out, '{');
    (void)json_each(v, dump_member, &d);
    buf_add_byte(out, '}');
}

static void dump_array(const struct json *v, struct buf *out) {
    buf_add_byte(out, '[');
    for (size_t i = 0, n = json_count(v); i < n; i++) {
        if (i > 0)
            buf_add_byte(out, ',');
        dump_value(json_at(v, i), out);
    }
    buf_add_byte(out, ']');
}

static void dump_real(double v, struct buf *out) {
    char text[REAL_TEXT_SIZE];
    size_t n = real_text(v, text);
    buf_add(out, text, n);
    if (strpbrk(text, ".e") == NULL)
        buf_add_str(out, ".0"); /* it was no integer in the text that was read */
}

static void dump_value(const struct json *v, struct buf *out) {
    switch (json_kind_of(v)) {
    case JSON_NULL:
        buf_add_str(out, "null");
        break;
    case JSON_BOOL:
        buf_add_str(out, json_bool(v) ? "true" : "false");
        break;
    case JSON_INTEGER:
        buf_add_i64(out, json_integer(v));
        break;
    case JSON_REAL:
        dump_real(json_number(v), out);
        break;
    case JSON_STRING:
        add_quoted(out, json_string(v));
        break;
    case JSON_ARRAY:
        dump_array(v, out);
        break;
    case JSON_OBJECT:
        dump_object(v, out);
        break;
    }
}

/* Recursive: the reader bounds the depth. */
void json_dump(const struct json *v, struct buf *out) {
    dump_value(v, out);
}

/* -- writing --------------------------------------------------------------------------------- */

void json_writer_init(struct json_writer *w, struct buf *out) {
    *w = (struct json_writer){.out = out};
}

/* The comma before whatever comes next at this level, unless it is the first or the value of a
 * name. */
static void before_item(struct json_writer *w) {
    uint32_t level = UINT32_C(1) << w->depth;
    if (!w->after_name && (w->has_items & level) != 0)
        buf_add_byte(w->out, ',');
    w->has_items |= level;
    w->after_name = false;
}

void json_begin(struct json_writer *w, char bracket) {
    assert(bracket == '{' || bracket == '[');
    before_item(w);
    assert(w->depth < DEPTH_MAX);
    w->depth++;
    w->has_items &= ~(UINT32_C(1) << w->depth);
    buf_add_byte(w->out, (uint8_t)bracket);
}

void json_end(struct json_writer *w, char bracket) {
    assert(bracket == '}' || bracket == ']');
    assert(w->depth > 0 && !w->after_name);
    w->depth--;
    buf_add_byte(w->out, (uint8_t)bracket);
}

void json_name(struct json_writer *w, const char *name) {
    assert(!w->after_name);
    before_item(w);
    size_t n = strlen(name);
    uint8_t *p = buf_reserve(w->out, n + 3);
    p[0] = '"';
    memcpy(p + 1, name, n);
    p[n + 1] = '"';
    p[n + 2] = ':';
    w->out->n += n + 3;
    w->after_name = true;
}

void json_put_null(struct json_writer *w) {
    before_item(w);
    buf_add(w->out, "null", 4);
}

void json_put_bool(struct json_writer *w, bool v) {
    before_item(w);
    buf_add_str(w->out, v ? "true" : "false");
}

void json_put_i64(struct json_writer *w, int64_t v) {
    before_item(w);
    buf_add_i64(w->out, v);
}

void json_put_u64(struct json_writer *w, uint64_t v) {
    before_item(w);
    buf_add_u64(w->out, v);
}

void json_put_double(struct json_writer *w, double v) {
    before_item(w);
    char text[REAL_TEXT_SIZE];
    size_t n = real_text(v, text);
    buf_add(w->out, text, n);
}

void json_put_string(struct json_writer *w, struct span utf8) {
    before_item(w);
    add_quoted(w->out, utf8);
}

void json_put_str(struct json_writer *w, const char *utf8) {
    json_put_string(w, span_str(utf8));
}

void json_put_base64(struct json_writer *w, struct span bytes) {
    before_item(w);
    buf_add_byte(w->out, '"');
    base64_encode(bytes, w->out);
    buf_add_byte(w->out, '"');
}

void json_put_raw(struct json_writer *w, struct span json) {
    before_item(w);
    buf_add_span(w->out, json);
}
