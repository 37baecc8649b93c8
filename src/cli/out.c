#include "cli/out.h"

#include "cli/text.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    GAP = 2,
    LAST_COLUMN_MIN = 16,
    VALUE_COLUMNS_MAX = 1000,
    NAME_COLUMNS = 32,
    FACT_COLUMNS = 13,
    ROWS_MANY = 1000
};

/* Why standard output could not be written, the first time: stdio keeps only that it failed. */
static int write_errno;

static void flush(void) {
    if (fflush(stdout) != 0 && write_errno == 0)
        write_errno = errno;
}

static void write_span(struct span s) {
    if (s.n > 0)
        (void)fwrite(s.p, 1, s.n, stdout);
}

/* 0: standard output is no terminal. */
static size_t terminal_columns(void) {
    struct winsize size;
    if (!isatty(STDOUT_FILENO))
        return 0;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void out_init(struct out *o, const struct cli *cli, bool is_list, const struct column *columns,
              size_t column_count, out_row *row) {
    assert(column_count <= OUT_COLUMNS_MAX);
    *o = (struct out){.cli = cli,
                      .is_list = is_list,
                      .columns = columns,
                      .column_count = column_count,
                      .row = row,
                      .terminal_columns = terminal_columns()};
    buf_init(&o->cells, TEXT_BYTES_MAX);
    for (size_t i = 0; i < column_count; i++)
        o->widths[i] = text_columns(span_str(columns[i].title));
}

static void write_json_text(struct span json, bool is_indented, unsigned margin) {
    struct buf shown;
    buf_init(&shown, TEXT_BYTES_MAX);
    text_add_json(json, is_indented, margin, &shown);
    write_span(buf_span(&shown));
    buf_release(&shown);
}

static void write_json(const struct json *v, bool is_indented, unsigned margin) {
    struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    json_dump(v, &text);
    write_json_text(buf_span(&text), is_indented, margin);
    buf_release(&text);
}

void out_item(struct out *o, const struct json *item) {
    if (o->cli->format == FORMAT_TABLE) {
        size_t before = o->cell_count;
        o->row(o, item);
        assert(o->cell_count == before + o->column_count);
    } else if (o->cli->format == FORMAT_JSON) {
        if (o->is_list)
            (void)fputs(o->items == 0 ? "[\n  " : ",\n  ", stdout);
        write_json(item, true, o->is_list ? 2 : 0);
        if (!o->is_list)
            (void)fputc('\n', stdout);
    } else {
        write_json(item, false, 0);
        (void)fputc('\n', stdout);
    }
    o->items++;
}

size_t out_items(struct out *o, const struct json *items) {
    size_t n = json_is(items, JSON_ARRAY) ? json_count(items) : 0;
    for (size_t i = 0; i < n; i++)
        out_item(o, json_at(items, i));
    return n;
}

/* -- tables ---------------------------------------------------------------------------------- */

/* What stands in the cell is escaped already and clipped to its column. */
static void add_cell(struct out *o, struct span escaped) {
    size_t column = o->cell_count % o->column_count, start = o->cells.n;
    unsigned width_max = o->columns[column].width_max;
    bool is_last = column == o->column_count - 1;
    if (width_max > 0 && !(is_last && o->terminal_columns > 0))
        text_add_clipped(escaped, width_max, &o->cells);
    else
        buf_add_span(&o->cells, escaped);
    size_t columns = text_columns(span_of(o->cells.p + start, o->cells.n - start));
    if (columns > o->widths[column])
        o->widths[column] = columns;
    buf_add_byte(&o->cells, '\0');
    o->cell_count++;
}

void out_cell(struct out *o, struct span text) {
    struct buf escaped;
    buf_init(&escaped, TEXT_BYTES_MAX);
    text_escape(text, TEXT_ONE_LINE, &escaped);
    add_cell(o, buf_span(&escaped));
    buf_release(&escaped);
}

/* Appends a value for people: strings without their quotes. */
static void add_value(const struct json *v, struct buf *out) {
    if (v == NULL || json_is(v, JSON_NULL)) {
        buf_add_byte(out, '-');
    } else if (json_is(v, JSON_STRING)) {
        text_escape(json_string(v), TEXT_ONE_LINE, out);
    } else {
        struct buf text;
        buf_init(&text, TEXT_BYTES_MAX);
        json_dump(v, &text);
        text_escape(buf_span(&text), TEXT_ONE_LINE, out);
        buf_release(&text);
    }
}

void out_cell_member(struct out *o, const struct json *v, const char *name) {
    struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    add_value(json_get(v, name), &text);
    add_cell(o, buf_span(&text));
    buf_release(&text);
}

void out_cell_pair(struct out *o, const struct json *v, const char *first, const char *before,
                   const char *second, const char *after) {
    struct buf text;
    const struct json *a = json_get(v, first), *b = json_get(v, second);
    buf_init(&text, TEXT_BYTES_MAX);
    if (json_is(a, JSON_STRING))
        buf_add_span(&text, json_string(a));
    if (json_is(a, JSON_STRING) && json_is(b, JSON_STRING))
        buf_add_str(&text, before);
    if (json_is(b, JSON_STRING)) {
        buf_add_span(&text, json_string(b));
        buf_add_str(&text, after);
    }
    out_cell(o, text.n > 0 ? buf_span(&text) : span_str("-"));
    buf_release(&text);
}

void out_cell_payload(struct out *o, const struct json *message) {
    const struct json *base64 = json_get(message, "payload_base64");
    if (!json_is(base64, JSON_STRING)) {
        out_cell_member(o, message, "payload");
        return;
    }
    struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    buf_add_str(&text, "base64:");
    add_value(base64, &text);
    add_cell(o, buf_span(&text));
    buf_release(&text);
}

static void write_padded(const struct column *column, size_t width, bool is_last,
                         struct span text) {
    size_t columns = text_columns(text), pad = width > columns ? width - columns : 0;
    if (column->is_right)
        (void)printf("%*s", (int)pad, "");
    write_span(text);
    if (!column->is_right && !is_last)
        (void)printf("%*s", (int)pad, "");
    (void)fputs(is_last ? "\n" : "  ", stdout);
}

/* The last column takes what the terminal has left. */
static size_t last_column_width(const struct out *o) {
    size_t terminal = o->terminal_columns, used = 0, last = o->column_count - 1;
    if (terminal == 0)
        return SIZE_MAX;
    for (size_t i = 0; i < last; i++)
        used += o->widths[i] + GAP;
    return terminal > used + LAST_COLUMN_MIN ? terminal - used : LAST_COLUMN_MIN;
}

void out_flush(struct out *o) {
    if (o->cell_count > 0) {
        size_t last = o->column_count - 1, last_width = last_column_width(o);
        for (size_t i = 0; !o->has_header && i <= last; i++)
            write_padded(&o->columns[i], o->widths[i], i == last, span_str(o->columns[i].title));
        o->has_header = true;
        const char *p = (const char *)o->cells.p;
        struct buf clipped;
        buf_init(&clipped, TEXT_BYTES_MAX);
        for (size_t i = 0; i < o->cell_count; i++) {
            size_t column = i % o->column_count;
            buf_clear(&clipped);
            text_add_clipped(span_str(p), column == last ? last_width : SIZE_MAX, &clipped);
            write_padded(&o->columns[column], o->widths[column], column == last,
                         buf_span(&clipped));
            p += strlen(p) + 1;
        }
        buf_release(&clipped);
        buf_clear(&o->cells);
        o->cell_count = 0;
    }
    flush();
}

void out_flush_many(struct out *o) {
    if (o->cell_count >= ROWS_MANY * o->column_count)
        out_flush(o);
}

/* -- one thing ------------------------------------------------------------------------------- */

struct object_walk {
    char prefix[128];
    size_t columns; /* of a value */
};

/* Both are escaped already. */
static void write_fact(size_t name_columns, struct span name, struct span value) {
    const struct column column = {.title = ""};
    write_padded(&column, name_columns, false, name);
    write_padded(&column, 0, true, value);
}

static bool write_member(void *ctx, const char *name, const struct json *member) {
    const struct object_walk *walk = ctx;
    struct object_walk inner = {.columns = walk->columns};
    (void)snprintf(inner.prefix, sizeof inner.prefix, "%.80s%s%.40s", walk->prefix,
                   walk->prefix[0] != '\0' ? "." : "", name);
    if (json_is(member, JSON_OBJECT) && json_count(member) > 0 &&
        strlen(inner.prefix) < sizeof inner.prefix / 2)
        return json_each(member, write_member, &inner);

    struct buf label, value, clipped;
    buf_init(&label, TEXT_BYTES_MAX);
    buf_init(&value, TEXT_BYTES_MAX);
    buf_init(&clipped, TEXT_BYTES_MAX);
    text_escape(span_str(inner.prefix), TEXT_ONE_LINE, &label);
    add_value(member, &value);
    text_add_clipped(buf_span(&value), walk->columns, &clipped);
    write_fact(NAME_COLUMNS, buf_span(&label), buf_span(&clipped));
    buf_release(&label);
    buf_release(&value);
    buf_release(&clipped);
    return true;
}

void out_object(const struct json *v) {
    struct object_walk walk = {.columns = VALUE_COLUMNS_MAX};
    if (json_is(v, JSON_OBJECT))
        (void)json_each(v, write_member, &walk);
}

void out_fact(const char *name, struct span value) {
    struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    text_escape(value, TEXT_ONE_LINE, &text);
    write_fact(FACT_COLUMNS, span_str(name), buf_span(&text));
    buf_release(&text);
}

void out_line(struct span text) {
    struct buf escaped;
    buf_init(&escaped, TEXT_BYTES_MAX);
    text_escape(text, TEXT_ONE_LINE, &escaped);
    buf_add_byte(&escaped, '\n');
    write_span(buf_span(&escaped));
    buf_release(&escaped);
}

void out_lines(struct span text, unsigned indent) {
    while (text.n > 0) {
        const uint8_t *newline = memchr(text.p, '\n', text.n);
        size_t n = newline != NULL ? (size_t)(newline - text.p) : text.n;
        struct buf escaped;
        buf_init(&escaped, TEXT_BYTES_MAX);
        text_escape(span_of(text.p, n), TEXT_KEEP_LINES, &escaped);
        (void)printf("%*s", (int)indent, "");
        buf_add_byte(&escaped, '\n');
        write_span(buf_span(&escaped));
        buf_release(&escaped);
        n += newline != NULL;
        text = span_of(text.p + n, text.n - n);
    }
}

void out_document(const struct cli *cli, const struct json *v) {
    write_json(v, cli->format == FORMAT_JSON, 0);
    (void)fputc('\n', stdout);
}

void out_text(const struct cli *cli, struct span json) {
    write_json_text(json, cli->format == FORMAT_JSON, 0);
    (void)fputc('\n', stdout);
}

void out_bytes(struct span bytes) {
    if (!isatty(STDOUT_FILENO)) {
        write_span(bytes);
        return;
    }
    struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    text_escape(bytes, TEXT_KEEP_LINES, &text);
    write_span(buf_span(&text));
    buf_release(&text);
    (void)fputc('\n', stdout);
}

/* -- the end --------------------------------------------------------------------------------- */

int out_check(const struct cli *cli, int code) {
    flush();
    if (ferror(stdout) == 0)
        return code;
    cli_error(cli, "standard output: %s", strerror(write_errno != 0 ? write_errno : EIO));
    return CLI_FAILED;
}

int out_only(const struct cli *cli, const struct json *v) {
    if (cli->format == FORMAT_TABLE)
        out_object(v);
    else
        out_document(cli, v);
    return out_check(cli, CLI_DONE);
}

int out_finish(struct out *o, int code) {
    if (o->cli->format == FORMAT_TABLE)
        out_flush(o);
    else if (o->cli->format == FORMAT_JSON && o->is_list)
        (void)fputs(o->items == 0 ? "[]\n" : "\n]\n", stdout);
    buf_release(&o->cells);
    return out_check(o->cli, code);
}

int out_finish_list(struct out *o, int failure) {
    return out_finish(o, failure < 0 ? CLI_DONE : o->items > 0 ? CLI_PARTLY : failure);
}
