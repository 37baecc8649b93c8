/* nixie dead. */
#include "base/clock.h"
#include "cli/commands.h"
#include "cli/letters.h"
#include "cli/options.h"
#include "cli/out.h"
#include "cli/text.h"

#include <stdio.h>
#include <string.h>

enum { PAYLOAD_COLUMN = 9 }; /* it is left out unless asked for */

static const struct column columns[] = {
    {.title = "ID", .is_right = true},
    {.title = "QUEUE", .width_max = 32},
    {.title = "REASON"},
    {.title = "ATTEMPTS", .is_right = true},
    {.title = "REDRIVES", .is_right = true},
    {.title = "DIED"},
    {.title = "EXPIRES", .is_right = true},
    {.title = "VERSION", .width_max = 20},
    {.title = "ERROR", .width_max = 60},
    {.title = "PAYLOAD", .width_max = 60},
};

/* How long until retention takes it. */
static void add_expiry(struct out *o, const struct json *letter) {
    const struct json *expires_at = letter_death(letter, "expires_at");
    int64_t at, left;
    struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    if (!json_is(expires_at, JSON_STRING) || time_parse(json_string(expires_at), &at) != OK)
        buf_add_byte(&text, '-');
    else if ((left = at - clock_now_ms()) <= 0)
        buf_add_str(&text, "now");
    else
        text_add_duration(left, &text);
    out_cell(o, buf_span(&text));
    buf_release(&text);
}

static void add_row(struct out *o, const struct json *letter) {
    const struct json *death = json_get(letter, "death");
    out_cell_member(o, letter, "id");
    out_cell_member(o, letter, "queue");
    out_cell_member(o, letter, "reason");
    out_cell_member(o, letter, "deliveries");
    out_cell_member(o, death, "redrive_count");
    out_cell_member(o, letter, "died_at");
    add_expiry(o, letter);
    out_cell_member(o, death, "worker_version");
    out_cell_pair(o, letter, "error_class", ": ", "last_error", "");
    if (o->column_count > PAYLOAD_COLUMN)
        out_cell_payload(o, letter);
}

struct listing {
    struct scope scope;
    struct letters letters;
    int64_t limit;
    bool is_all;
};

/* Prints pages until there are enough letters, or no more. An incomplete page is the end unless
 * all are asked for: what comes after it may take long. -1 or the exit code. */
static int list_pages(struct call *r, struct listing *l, struct out *o) {
    int64_t left = l->is_all ? INT64_MAX : l->limit;
    int code = -1;
    do {
        const struct json *letters;
        code = letters_next(&l->letters, r, left < LIMIT_BATCH ? left : LIMIT_BATCH, &letters);
        if (code >= 0)
            break;
        size_t n = out_items(o, letters);
        out_flush(o);
        left -= (int64_t)n < left ? (int64_t)n : left;
    } while (!l->letters.is_last && left > 0 && (l->letters.is_complete || l->is_all));
    return code;
}

/* Nothing was found: because the queue is not there, or because there is nothing. */
static int explain_nothing(struct call *r, const struct listing *l) {
    const char *queue = l->scope.queue;
    int code = queue != NULL ? letters_check_queue(r, queue) : -1;
    if (code < 0)
        cli_note(r->cli, "%s%sno dead letters%s", queue != NULL ? queue : "",
                 queue != NULL ? ": " : "",
                 scope_has_filter(&l->scope) ? " that match the filter" : "");
    return code;
}

static int list(struct call *r, struct listing *l) {
    struct out o;
    size_t column_count = sizeof columns / sizeof columns[0];
    out_init(&o, r->cli, true, columns, l->letters.has_payload ? column_count : PAYLOAD_COLUMN,
             add_row);
    int code = list_pages(r, l, &o);
    bool is_cut = code < 0 && !l->letters.is_last && !l->letters.is_complete && !l->is_all;
    if (code < 0 && o.items == 0 && l->letters.is_last)
        code = explain_nothing(r, l);
    bool has_more = code < 0 && !l->letters.is_last && !is_cut && r->cli->format == FORMAT_TABLE;
    code = is_cut ? out_finish(&o, CLI_PARTLY) : out_finish_list(&o, code);
    if (is_cut)
        cli_error(r->cli,
                  "not complete: the server looked at %lld letters and stopped there; "
                  "go on with --cursor %s, or --all",
                  (long long)l->letters.looked_at, l->letters.cursor);
    if (has_more)
        cli_note(r->cli, "there may be more: --cursor %s, or --all", l->letters.cursor);
    return code;
}

static int read_cursor(const struct cli *cli, const char *cursor, struct letters *l) {
    if (cursor == NULL)
        return -1;
    if (strlen(cursor) > LETTERS_CURSOR_MAX)
        return cli_usage_error(cli, "--cursor: longer than %d bytes", LETTERS_CURSOR_MAX);
    (void)snprintf(l->cursor, sizeof l->cursor, "%s", cursor);
    return -1;
}

int command_dead(struct cli *cli, int argc, char **argv) {
    struct listing l = {.limit = 100};
    const char *queue = NULL, *cursor = NULL;
    const struct option_spec specs[] = {
        {.name = "queue", .value = "QUEUE", .text = &queue, .help = "whatever its name looks like"},
        option_limit(&l.limit),
        {.name = "all", .letter = 'a', .flag = &l.is_all, .help = "all of them"},
        {.name = "oldest", .flag = &l.letters.is_oldest_first, .help = "the oldest death first"},
        {.name = "payload", .flag = &l.letters.has_payload, .help = "with their payloads"},
        {.name = "cursor",
         .value = "TEXT",
         .text = &cursor,
         .help = "go on where an earlier list ended"},
        OPTION_END,
    };
    int first;
    int code = options_parse(cli, specs, argc, argv, &first);
    if (code >= 0)
        return code;
    code = scope_read(&l.scope, cli, queue, argv + first, argc - first);
    if (code < 0)
        code = read_cursor(cli, cursor, &l.letters);
    if (code < 0) {
        struct call r;
        l.letters.scope = &l.scope;
        call_init(&r, cli);
        code = list(&r, &l);
        call_release(&r);
    }
    scope_release(&l.scope);
    return code;
}
