#include "cli/scope.h"

#include "cli/input.h"
#include "cli/text.h"
#include "model/filter.h"

#include <stdio.h>
#include <string.h>

enum { BEFORE_MARK = 60, AFTER_MARK = 40 }; /* bytes of a filter shown around what is wrong */

static bool is_filter(const char *arg) {
    return strchr(arg, ':') != NULL || arg[0] == '(';
}

static int add_part(struct scope *s, const struct cli *cli, const char *part) {
    if (strlen(part) > FILTER_BYTES_MAX - s->filter.n)
        return cli_usage_error(cli, "the filter: longer than %d bytes", FILTER_BYTES_MAX);
    if (s->filter.n > 0)
        buf_add_byte(&s->filter, ' ');
    buf_add_str(&s->filter, part);
    return -1;
}

int scope_read(struct scope *s, const struct cli *cli, const char *queue, char **args, int n) {
    *s = (struct scope){.queue = queue};
    buf_init(&s->filter, FILTER_BYTES_MAX + 2); /* a space and the NUL */
    int i = 0, code = -1;
    if (queue == NULL && n > 0 && !is_filter(args[0]))
        s->queue = args[i++];
    if (s->queue != NULL)
        code = input_check_queue(cli, s->queue);
    for (; i < n && code < 0; i++)
        code = add_part(s, cli, args[i]);
    buf_add_byte(&s->filter, '\0');
    if (code < 0)
        code = input_check_text(cli, "the filter", scope_filter(s), FILTER_BYTES_MAX);
    return code;
}

void scope_release(struct scope *s) {
    buf_release(&s->filter);
}

bool scope_has_filter(const struct scope *s) {
    return s->filter.n > 1;
}

const char *scope_filter(const struct scope *s) {
    return (const char *)s->filter.p;
}

void scope_add_query(const struct scope *s, struct call *r) {
    if (scope_has_filter(s))
        call_query(r, "q", scope_filter(s));
    if (s->queue != NULL)
        call_query(r, "queue", s->queue);
}

/* -- what was wrong -------------------------------------------------------------------------- */

/* Where a character of s begins, at or before `at`. */
static size_t character_start(struct span s, size_t at) {
    return span_cut_utf8(s, at).n;
}

/* "  ...error:Timeout colour:red" and under it "  ^^^^^^". */
static void print_marked(struct span filter, size_t at, size_t n) {
    size_t start = at > BEFORE_MARK ? character_start(filter, at - BEFORE_MARK) : 0;
    size_t end = n < filter.n - at ? at + n : filter.n;
    size_t stop =
        filter.n - end > AFTER_MARK ? character_start(filter, end + AFTER_MARK) : filter.n;
    struct buf before, marked, after;
    buf_init(&before, TEXT_BYTES_MAX);
    buf_init(&marked, TEXT_BYTES_MAX);
    buf_init(&after, TEXT_BYTES_MAX);
    if (start > 0)
        buf_add_str(&before, "…");
    text_escape(span_of(filter.p + start, at - start), TEXT_ONE_LINE, &before);
    text_escape(span_of(filter.p + at, end - at), TEXT_ONE_LINE, &marked);
    text_escape(span_of(filter.p + end, stop - end), TEXT_ONE_LINE, &after);
    if (stop < filter.n)
        buf_add_str(&after, "…");
    (void)fprintf(stderr, "  %.*s%.*s%.*s\n  %*s", (int)before.n, (const char *)before.p,
                  (int)marked.n, (const char *)marked.p, (int)after.n, (const char *)after.p,
                  (int)text_columns(buf_span(&before)), "");
    size_t marks = text_columns(buf_span(&marked));
    for (size_t i = 0; i < (marks > 0 ? marks : 1); i++)
        (void)fputc('^', stderr);
    (void)fputc('\n', stderr);
    buf_release(&before);
    buf_release(&marked);
    buf_release(&after);
}

/* The error about the filter in a problem, or NULL. */
static const struct json *filter_error_in(const struct json *problem) {
    const struct json *errors = json_get(problem, "errors");
    for (size_t i = 0; json_is(errors, JSON_ARRAY) && i < json_count(errors); i++) {
        const struct json *error = json_at(errors, i);
        if (span_equal_str(call_text(error, "code"), "bad_filter"))
            return error;
    }
    return NULL;
}

int scope_check(const struct scope *s, const struct call *r, const char *what) {
    const struct json *error = call_is_success(r) ? NULL : filter_error_in(r->reply);
    struct span filter = span_str(scope_filter(s));
    if (error == NULL)
        return call_check(r, what);
    int64_t at = call_number(error, "position", -1), n = call_number(error, "length", -1);
    if (at < 0 || n < 0 || (uint64_t)at > filter.n)
        return call_check(r, what);

    struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    text_escape(call_text(error, "message"), TEXT_ONE_LINE, &text);
    cli_error(r->cli, "the filter: %.*s", (int)text.n, (const char *)text.p);
    buf_release(&text);
    print_marked(filter, character_start(filter, (size_t)at), (size_t)n);
    return call_exit_code(r->status);
}
