/* nixie import. The file is read three times: to check it, to ask the server about all of it, and to
 * send it. */
#include "cli/ask.h"
#include "cli/call.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/letters_file.h"
#include "cli/options.h"
#include "cli/out.h"
#include "cli/spool.h"
#include "cli/text.h"
#include "cli/ticker.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BATCH_BYTES = 8 * 1024 * 1024, WHAT_BYTES = 400 };

struct import {
    const char *file, *queue, *reason;
    bool is_dry, is_sure;
    int fd;
    struct manifest manifest;
    uint64_t imported, known;
};

static const char *name_of(const struct import *im) {
    return strcmp(im->file, "-") == 0 ? "standard input" : im->file;
}

/* -- what is read ---------------------------------------------------------------------------- */

/* What can be read only once is copied. */
static int open_file(const struct cli *cli, struct import *im) {
    struct stat st;
    bool is_stdin = strcmp(im->file, "-") == 0;
    int fd = is_stdin ? STDIN_FILENO : open(im->file, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0) {
        cli_error(cli, "%s: %s", name_of(im), strerror(errno));
        return CLI_FAILED;
    }
    if (!is_stdin && S_ISREG(st.st_mode)) {
        im->fd = fd;
        return -1;
    }
    int code = -1;
    im->fd = spool_open(cli);
    if (im->fd < 0)
        code = CLI_FAILED;
    else
        code = spool_copy(cli, fd, name_of(im), im->fd, "a temporary file");
    if (!is_stdin)
        (void)close(fd);
    return code;
}

/* -- what is sent ---------------------------------------------------------------------------- */

/* One reading of the file, in batches. */
struct pass {
    const struct import *im;
    struct call *r;
    bool is_dry;
    struct letters_reader reader;
    struct span waiting; /* a line that did not fit into the batch before; empty: none */
    uint64_t first_line; /* of the batch */
    uint64_t imported, known;
    struct ticker ticker;
};

static void begin_batch(const struct pass *p, struct json_writer *w) {
    call_begin(p->r);
    buf_add_str(&p->r->path, "/dead");
    if (p->is_dry)
        call_query(p->r, "dry_run", "yes");
    json_writer_init(w, &p->r->body);
    json_begin(w, '{');
    call_put_text(w, "queue", p->im->queue);
    call_put_text(w, "reason", p->im->reason);
    json_name(w, "letters");
    json_begin(w, '[');
}

/* Fills the body. The number of letters, 0 at the end, -1 and said on an error. */
static int read_batch(struct pass *p) {
    struct json_writer w;
    int n = 0, got = 1;
    begin_batch(p, &w);
    while (n < LIMIT_BATCH) {
        if (p->waiting.n == 0 && (got = letters_reader_next(&p->reader, &p->waiting)) <= 0)
            break;
        if (n > 0 && p->r->body.n + p->waiting.n > BATCH_BYTES)
            break;
        if (n == 0)
            p->first_line = letters_reader_line(&p->reader);
        json_put_raw(&w, p->waiting);
        p->waiting = span_of(NULL, 0);
        n++;
    }
    json_end(&w, ']');
    json_end(&w, '}');
    return got < 0 ? -1 : n;
}

/* Which line the server speaks of, by "letters[N]" at the beginning of what it says; 0: of none. */
static uint64_t line_meant(const struct pass *p) {
    static const char before[] = "letters[";
    const struct json *errors = json_get(p->r->reply, "errors");
    struct span text = call_text(p->r->reply, "detail");
    if (json_is(errors, JSON_ARRAY) && json_count(errors) > 0)
        text = call_text(json_at(errors, 0), "field");
    size_t start = sizeof before - 1;
    const uint8_t *end = text.n > start ? memchr(text.p, ']', text.n) : NULL;
    int64_t at;
    if (end == NULL || memcmp(text.p, before, start) != 0 ||
        text_number(span_of(text.p + start, (size_t)(end - text.p) - start), 0, LIMIT_BATCH, &at) !=
            OK)
        return 0;
    return p->first_line + (uint64_t)at;
}

static int explain_batch(const struct pass *p, int n) {
    char what[WHAT_BYTES];
    uint64_t line = line_meant(p);
    if (line > 0)
        (void)snprintf(what, sizeof what, "%s, line %llu", name_of(p->im),
                       (unsigned long long)line);
    else
        (void)snprintf(what, sizeof what, "%s, lines %llu to %llu", name_of(p->im),
                       (unsigned long long)p->first_line,
                       (unsigned long long)p->first_line + (unsigned long long)n - 1);
    return call_check(p->r, what);
}

static int send_batches(struct pass *p) {
    for (;;) {
        int n = read_batch(p);
        if (n <= 0)
            return n < 0 ? CLI_FAILED : -1;
        call_run(p->r, "POST", 0);
        if (!call_is_success(p->r))
            ticker_clear(&p->ticker);
        int code = explain_batch(p, n);
        if (code >= 0)
            return code;
        p->imported += (uint64_t)call_number(p->r->reply, "imported", 0);
        p->known += (uint64_t)call_number(p->r->reply, "known", 0);
        ticker_count(&p->ticker, p->imported + p->known);
    }
}

/* Sends the whole file; -1 and what became of it, or the exit code. */
static int run_pass(struct call *r, struct import *im, bool is_dry) {
    struct pass p = {.im = im, .r = r, .is_dry = is_dry};
    ticker_init(&p.ticker, r->cli, is_dry ? "checked" : "imported", im->manifest.count);
    int code = letters_reader_init(&p.reader, r->cli, name_of(im), im->fd);
    if (code < 0)
        code = send_batches(&p);
    ticker_clear(&p.ticker);
    letters_reader_release(&p.reader);
    im->imported = p.imported;
    im->known = p.known;
    return code;
}

/* -- the command ----------------------------------------------------------------------------- */

static int print_result(const struct cli *cli, const struct import *im) {
    struct buf text;
    struct json_writer w;
    struct json_error ignored;
    buf_init(&text, TEXT_BYTES_MAX);
    json_writer_init(&w, &text);
    json_begin(&w, '{');
    call_put_text(&w, "queue", im->queue);
    call_put_number(&w, "imported", (int64_t)im->imported);
    call_put_number(&w, "known", (int64_t)im->known);
    json_name(&w, "dry_run");
    json_put_bool(&w, im->is_dry);
    json_end(&w, '}');
    struct json *result = json_parse(buf_span(&text), &ignored);
    int code = out_only(cli, result);
    json_free(result);
    buf_release(&text);
    return code;
}

static int confirm(const struct cli *cli, const struct import *im) {
    struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    text_add_counted(im->imported, "letter becomes a dead letter of ",
                     "letters become dead letters of ", &text);
    text_escape(span_str(im->queue), TEXT_ONE_LINE, &text);
    if (im->known > 0) {
        buf_add_str(&text, "; ");
        text_add_counted(im->known, "is there already and stays as it is",
                         "are there already and stay as they are", &text);
    }
    buf_add_str(&text, ". Import?");
    buf_add_byte(&text, '\0');
    int code = ask_yes(cli, (const char *)text.p);
    buf_release(&text);
    return code;
}

static int import_all(struct call *r, struct import *im) {
    int code = run_pass(r, im, false);
    if (code < 0 || im->imported == 0)
        return code;
    cli_error(r->cli, "%llu of %llu letters are imported; the same command goes on",
              (unsigned long long)im->imported, (unsigned long long)im->manifest.count);
    return CLI_PARTLY;
}

static int run(struct call *r, struct import *im) {
    int code = letters_verify(r->cli, name_of(im), im->fd, &im->manifest);
    if (code >= 0)
        return code;
    if (im->queue == NULL)
        im->queue = im->manifest.queue;
    code = run_pass(r, im, true);
    bool is_due = code < 0 && !im->is_dry && im->imported > 0;
    if (is_due && !im->is_sure)
        code = confirm(r->cli, im);
    if (is_due && code < 0)
        code = import_all(r, im);
    return code < 0 ? print_result(r->cli, im) : code;
}

int command_import(struct cli *cli, int argc, char **argv) {
    struct import im = {.fd = -1};
    const struct option_spec specs[] = {
        {.name = "queue",
         .value = "QUEUE",
         .text = &im.queue,
         .help = "into QUEUE, not the one they were exported from"},
        {.name = "dry-run", .flag = &im.is_dry, .help = "change nothing, say what would be done"},
        option_yes(&im.is_sure),
        option_reason(&im.reason),
        OPTION_END,
    };
    int first;
    int code = options_parse(cli, specs, argc, argv, &first);
    if (code < 0 && im.queue != NULL)
        code = input_check_queue(cli, im.queue);
    if (code < 0)
        code = option_check_reason(cli, im.reason);
    if (code < 0 && !im.is_dry && !im.is_sure && !isatty(STDIN_FILENO))
        code = cli_usage_error(cli, "without a terminal to ask at, this needs --yes");
    if (code >= 0)
        return code;
    im.file = argv[first];
    code = open_file(cli, &im);
    if (code < 0) {
        struct call r;
        call_init(&r, cli);
        code = run(&r, &im);
        call_release(&r);
    }
    if (im.fd >= 0)
        (void)close(im.fd);
    return code;
}
