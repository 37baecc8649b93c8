/* nixie export. The file is written in one go, its first line last: room is left for it, since only
 * at the end it is known how many letters there are. */
#include "base/clock.h"
#include "cli/commands.h"
#include "cli/letters.h"
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

enum { PATH_BYTES = 4096 };

struct export {
    struct scope scope;
    const char *to;        /* NULL: standard output */
    char part[PATH_BYTES]; /* the file's name until it is whole */
    FILE *file;
    size_t room; /* bytes left for the manifest */
    struct manifest manifest;
    struct letters_sum sum;
    int64_t until_ms; /* the newest death when it began */
    struct ticker ticker;
};

/* -- the file -------------------------------------------------------------------------------- */

static int fail_file(const struct cli *cli, const struct export *e) {
    cli_error(cli, "%s: %s", e->to != NULL ? e->to : "a temporary file", strerror(errno));
    return CLI_FAILED;
}

static void add_manifest(const struct export *e, struct buf *out) {
    manifest_write(&e->manifest, &e->sum, out);
}

/* Leaves room for the longest manifest that can be. */
static int write_room(const struct cli *cli, struct export *e) {
    struct buf longest;
    buf_init(&longest, TEXT_BYTES_MAX);
    e->manifest.count = e->manifest.fence = UINT64_MAX;
    add_manifest(e, &longest);
    e->manifest.count = e->manifest.fence = 0;
    e->room = longest.n;
    buf_release(&longest);
    int written = fprintf(e->file, "%*s\n", (int)e->room, "");
    return written < 0 ? fail_file(cli, e) : -1;
}

static int open_file(const struct cli *cli, struct export *e) {
    int fd;
    if (e->to == NULL) {
        fd = spool_open(cli);
        if (fd < 0)
            return CLI_FAILED;
    } else {
        struct stat there;
        int n = snprintf(e->part, sizeof e->part, "%s.part", e->to);
        if (n >= (int)sizeof e->part)
            return cli_usage_error(cli, "--to: the name is too long");
        if (stat(e->to, &there) == 0 && !S_ISREG(there.st_mode))
            return cli_usage_error(cli, "--to %s: is there and no file; use standard output",
                                   e->to);
        fd = open(e->part, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (fd < 0)
            return fail_file(cli, e);
    }
    e->file = fdopen(fd, "w+");
    if (e->file == NULL) {
        (void)close(fd);
        return fail_file(cli, e);
    }
    return write_room(cli, e);
}

/* The first line, and then the file where it belongs. */
static int finish_file(const struct cli *cli, struct export *e) {
    struct buf line;
    if (fflush(e->file) != 0)
        return fail_file(cli, e);
    buf_init(&line, TEXT_BYTES_MAX);
    add_manifest(e, &line);
    ssize_t written = pwrite(fileno(e->file), line.p, line.n, 0);
    bool is_written = written == (ssize_t)line.n;
    buf_release(&line);
    if (!is_written)
        return fail_file(cli, e);
    if (e->to != NULL)
        return fsync(fileno(e->file)) != 0 || rename(e->part, e->to) != 0 ? fail_file(cli, e) : -1;
    if (lseek(fileno(e->file), 0, SEEK_SET) != 0)
        return fail_file(cli, e);
    return spool_copy(cli, fileno(e->file), "a temporary file", STDOUT_FILENO, "standard output");
}

static void close_file(struct export *e, bool is_whole) {
    if (e->file != NULL)
        (void)fclose(e->file);
    if (e->file != NULL && e->to != NULL && !is_whole)
        (void)unlink(e->part);
}

/* -- the letters ----------------------------------------------------------------------------- */

static int write_letter(const struct cli *cli, struct export *e, const struct json *letter) {
    struct buf plain, line;
    buf_init(&plain, TEXT_BYTES_MAX);
    buf_init(&line, TEXT_BYTES_MAX);
    json_dump(letter, &plain);
    text_add_json(buf_span(&plain), false, 0, &line);
    letters_sum_add(&e->sum, buf_span(&line));
    buf_add_byte(&line, '\n');
    size_t written = fwrite(line.p, 1, line.n, e->file);
    bool is_written = written == line.n;
    buf_release(&plain);
    buf_release(&line);
    return is_written ? -1 : fail_file(cli, e);
}

/* Writes the letters of a page; *ret_is_end when those that come died after the export began. */
static int write_page(const struct cli *cli, struct export *e, const struct json *letters,
                      bool *ret_is_end) {
    for (size_t i = 0; i < json_count(letters); i++) {
        const struct json *letter = json_at(letters, i), *seq = letter_death(letter, "dead_seq");
        int64_t died_at_ms = call_number(letter, "died_at_ms", -1);
        if (died_at_ms < 0 || !json_is(seq, JSON_INTEGER) || json_integer(seq) < 1) {
            cli_error(cli, "what the server sent is no dead letter");
            return CLI_FAILED;
        }
        if (died_at_ms > e->until_ms) {
            *ret_is_end = true;
            return -1;
        }
        int code = write_letter(cli, e, letter);
        if (code >= 0)
            return code;
        if ((uint64_t)json_integer(seq) > e->manifest.fence)
            e->manifest.fence = (uint64_t)json_integer(seq);
        ticker_count(&e->ticker, ++e->manifest.count);
    }
    return -1;
}

/* Letters may go on dying faster than they are written: those that are dead now are the ones. */
static int find_newest(struct call *r, struct export *e) {
    struct scope any = {.queue = e->scope.queue};
    struct letters newest = {.scope = &any, .is_exact = true};
    const struct json *letters;
    int code = letters_check_queue(r, e->scope.queue);
    if (code < 0)
        code = letters_next(&newest, r, 1, &letters);
    if (code < 0)
        e->until_ms =
            json_count(letters) > 0 ? call_number(json_at(letters, 0), "died_at_ms", 0) : 0;
    return code;
}

static int write_letters(struct call *r, struct export *e) {
    struct letters pages = {
        .scope = &e->scope, .is_oldest_first = true, .has_payload = true, .is_exact = true};
    bool is_end = false;
    int code = -1;
    ticker_init(&e->ticker, r->cli, "exported", 0);
    while (code < 0 && !is_end && !pages.is_last) {
        const struct json *letters;
        code = letters_next(&pages, r, LIMIT_BATCH, &letters);
        if (code < 0)
            code = write_page(r->cli, e, letters, &is_end);
    }
    ticker_clear(&e->ticker);
    return code;
}

static void say_exported(const struct cli *cli, const struct export *e) {
    struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    text_add_counted(e->manifest.count, "letter", "letters", &text);
    cli_note(cli, "%s: %.*s exported%s%s", e->scope.queue, (int)text.n, (const char *)text.p,
             e->to != NULL ? " to " : "", e->to != NULL ? e->to : "");
    buf_release(&text);
}

static int run(struct call *r, struct export *e) {
    int code = find_newest(r, e);
    if (code < 0)
        code = open_file(r->cli, e);
    if (code < 0)
        code = write_letters(r, e);
    if (code < 0)
        code = finish_file(r->cli, e);
    close_file(e, code < 0);
    if (code < 0)
        say_exported(r->cli, e);
    return code < 0 ? CLI_DONE : code;
}

int command_export(struct cli *cli, int argc, char **argv) {
    struct export e = {.to = NULL};
    const char *queue = NULL;
    const struct option_spec specs[] = {
        {.name = "queue", .value = "QUEUE", .text = &queue, .help = "whatever its name looks like"},
        {.name = "to",
         .value = "FILE",
         .text = &e.to,
         .help = "to FILE, which is only replaced when all is written"},
        OPTION_END,
    };
    int first;
    int code = options_parse(cli, specs, argc, argv, &first);
    if (code >= 0)
        return code;
    code = scope_read(&e.scope, cli, queue, argv + first, argc - first);
    if (code < 0 && e.scope.queue == NULL)
        code = cli_usage_error(cli, "which queue?");
    if (code < 0) {
        struct call r;
        (void)snprintf(e.manifest.queue, sizeof e.manifest.queue, "%s", e.scope.queue);
        e.manifest.filter = scope_has_filter(&e.scope) ? scope_filter(&e.scope) : NULL;
        e.manifest.exported_at = clock_now_ms();
        call_init(&r, cli);
        code = run(&r, &e);
        call_release(&r);
    }
    scope_release(&e.scope);
    return code;
}
