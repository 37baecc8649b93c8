#include "cli/change.h"

#include "base/json.h"
#include "cli/line_diff.h"
#include "cli/text.h"

#include <string.h>

enum { LINE_COLUMNS_MAX = 2000 }; /* a terminal wraps it */

static bool is_json_line(struct span s) {
    struct json_error ignored;
    if (s.n == 0 || memchr(s.p, '\n', s.n) != NULL)
        return false;
    struct json *v = json_parse(s, &ignored);
    json_free(v);
    return v != NULL;
}

/* Appends a JSON text without the spaces between its tokens. */
static void add_compact(struct span json, struct buf *out) {
    bool is_text = false;
    for (size_t i = 0; i < json.n; i++) {
        uint8_t c = json.p[i];
        if (is_text && c == '\\') {
            buf_add(out, json.p + i, 2);
            i++;
            continue;
        }
        if (c == '"')
            is_text = !is_text;
        if (is_text || (c != ' ' && c != '\t' && c != '\r'))
            buf_add_byte(out, c);
    }
}

static void add_indented(struct span json, struct buf *out) {
    struct buf compact;
    buf_init(&compact, TEXT_BYTES_MAX);
    add_compact(json, &compact);
    text_add_json(buf_span(&compact), true, 0, out);
    buf_release(&compact);
}

static void add_line(struct span line, struct buf *out) {
    struct buf escaped;
    buf_init(&escaped, TEXT_BYTES_MAX);
    text_escape(line, TEXT_KEEP_LINES, &escaped);
    text_add_clipped(buf_span(&escaped), LINE_COLUMNS_MAX, out);
    buf_add_byte(out, '\n');
    buf_release(&escaped);
}

static void add_difference(struct span before, struct span after, struct buf *out) {
    struct buf diff;
    buf_init(&diff, TEXT_BYTES_MAX);
    line_diff(before, after, &diff);
    for (struct span rest = buf_span(&diff); rest.n > 0;) {
        const uint8_t *newline = memchr(rest.p, '\n', rest.n);
        size_t n = newline != NULL ? (size_t)(newline - rest.p) : rest.n;
        add_line(span_of(rest.p, n), out);
        n += newline != NULL;
        rest = span_of(rest.p + n, rest.n - n);
    }
    buf_release(&diff);
}

static struct span without_newline(struct span s) {
    return span_of(s.p, s.n > 0 && s.p[s.n - 1] == '\n' ? s.n - 1 : s.n);
}

/* False when the two are not such JSON, or only the spaces in it differ. */
static bool add_json_difference(struct span before, struct span after, struct buf *out) {
    if (!is_json_line(before) || !is_json_line(after))
        return false;
    struct buf a, b;
    buf_init(&a, TEXT_BYTES_MAX);
    buf_init(&b, TEXT_BYTES_MAX);
    add_indented(before, &a);
    add_indented(after, &b);
    bool is_different = !span_equal(buf_span(&a), buf_span(&b));
    if (is_different)
        add_difference(buf_span(&a), buf_span(&b), out);
    buf_release(&a);
    buf_release(&b);
    return is_different;
}

void change_add(const char *title, struct span before, struct span after, struct buf *out) {
    if (span_equal(before, after))
        return;
    buf_printf(out, "%s:\n", title);
    if (span_equal(without_newline(before), without_newline(after)))
        buf_add_str(out, "(only the newline at the end differs)\n");
    else if (!add_json_difference(before, after, out))
        add_difference(before, after, out);
}
