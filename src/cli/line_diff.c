#include "cli/line_diff.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* CELLS_MAX: of the table of common lengths, two bytes each. */
enum { CONTEXT = 3, CELLS_MAX = 16 * 1024 * 1024, COMMON_MAX = UINT16_MAX };

struct lines {
    struct span *items; /* without their newlines */
    size_t n;
};

static struct lines split(struct span text) {
    struct lines lines = {.n = 0};
    size_t count = 1;
    for (size_t i = 0; i < text.n; i++)
        count += text.p[i] == '\n';
    lines.items = mem_alloc(count * sizeof lines.items[0]);
    while (text.n > 0) {
        const uint8_t *newline = memchr(text.p, '\n', text.n);
        size_t n = newline != NULL ? (size_t)(newline - text.p) : text.n;
        lines.items[lines.n++] = span_of(text.p, n);
        n += newline != NULL;
        text = span_of(text.p + n, text.n - n);
    }
    return lines;
}

/* A run of lines to print: n of them, all of both, of a or of b. */
struct printer {
    struct buf *out;
    bool has_printed; /* a marked line: context after it is shown */
};

static void add_line(struct printer *p, const char *mark, struct span line) {
    buf_add_str(p->out, mark);
    buf_add_span(p->out, line);
    buf_add_byte(p->out, '\n');
}

static void add_marked(struct printer *p, const char *mark, const struct span *lines, size_t n) {
    for (size_t i = 0; i < n; i++)
        add_line(p, mark, lines[i]);
    p->has_printed = p->has_printed || n > 0;
}

/* Common lines: the first few belong to what was marked before, the last few to what comes. */
static void add_common(struct printer *p, const struct span *lines, size_t n, bool is_end) {
    size_t first = p->has_printed ? CONTEXT : 0, last = is_end ? 0 : CONTEXT;
    for (size_t i = 0; i < n; i++) {
        if (i < first || n - i <= last)
            add_line(p, "  ", lines[i]);
        else if (i == first)
            buf_add_str(p->out, "...\n");
    }
}

/* cells[i * (b.n + 1) + j]: the most lines that a from i on and b from j on have in common, in
 * order. */
static uint16_t *common_lengths(struct lines a, struct lines b) {
    size_t width = b.n + 1;
    uint16_t *cells = mem_alloc((a.n + 1) * width * sizeof cells[0]);
    for (size_t i = a.n; i-- > 0;) {
        for (size_t j = b.n; j-- > 0;) {
            const uint16_t *here = &cells[i * width + j], down = here[width], right = here[1];
            cells[i * width + j] = span_equal(a.items[i], b.items[j])
                                       ? (uint16_t)(here[width + 1] + 1)
                                       : (down > right ? down : right);
        }
    }
    return cells;
}

/* Prints two runs of lines that neither begin nor end with the same. */
static void add_middle(struct printer *p, struct lines a, struct lines b) {
    size_t width = b.n + 1, i = 0, j = 0;
    if (a.n >= COMMON_MAX || b.n >= COMMON_MAX || (a.n + 1) * width > CELLS_MAX) {
        add_marked(p, "- ", a.items, a.n);
        add_marked(p, "+ ", b.items, b.n);
        return;
    }
    uint16_t *cells = common_lengths(a, b);
    while (i < a.n || j < b.n) {
        size_t from_a = i, from_b = j;
        while (i < a.n && j < b.n && span_equal(a.items[i], b.items[j])) {
            i++;
            j++;
        }
        add_common(p, a.items + from_a, i - from_a, false);
        from_a = i;
        while (i < a.n && (j == b.n || (!span_equal(a.items[i], b.items[j]) &&
                                        cells[(i + 1) * width + j] >= cells[i * width + j + 1])))
            i++;
        add_marked(p, "- ", a.items + from_a, i - from_a);
        from_b = j;
        while (j < b.n && (i == a.n || (!span_equal(a.items[i], b.items[j]) &&
                                        cells[(i + 1) * width + j] < cells[i * width + j + 1])))
            j++;
        add_marked(p, "+ ", b.items + from_b, j - from_b);
    }
    free(cells);
}

void line_diff(struct span a_text, struct span b_text, struct buf *out) {
    struct lines a = split(a_text), b = split(b_text);
    struct printer p = {.out = out};
    size_t head = 0, tail = 0;
    while (head < a.n && head < b.n && span_equal(a.items[head], b.items[head]))
        head++;
    while (tail < a.n - head && tail < b.n - head &&
           span_equal(a.items[a.n - tail - 1], b.items[b.n - tail - 1]))
        tail++;
    struct lines a_middle = {.items = a.items + head, .n = a.n - head - tail},
                 b_middle = {.items = b.items + head, .n = b.n - head - tail};
    bool is_same = a_middle.n == 0 && b_middle.n == 0;
    add_common(&p, a.items, head, is_same);
    add_middle(&p, a_middle, b_middle);
    add_common(&p, a.items + a.n - tail, tail, true);
    if (is_same && a_text.n != b_text.n)
        buf_add_str(out, "(only one ends with a newline)\n");
    free(a.items);
    free(b.items);
}
