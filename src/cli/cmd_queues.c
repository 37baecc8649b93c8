/* nixie queues: the list, one queue, its policy, its end. */
#include "cli/call.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/options.h"
#include "cli/out.h"
#include "cli/queue_walk.h"
#include "cli/text.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { POLICY_BYTES_MAX = 64 * 1024 };

static const struct column columns[] = {
    {.title = "PENDING", .is_right = true},    {.title = "READY", .is_right = true},
    {.title = "PROCESSING", .is_right = true}, {.title = "PARKED", .is_right = true},
    {.title = "DEAD", .is_right = true},       {.title = "SUCCEEDED", .is_right = true},
    {.title = "BYTES", .is_right = true},      {.title = "QUEUE"},
};

static void add_row(struct out *o, const struct json *queue) {
    const struct json *counts = json_get(queue, "counts");
    out_cell_member(o, counts, "pending");
    out_cell_member(o, counts, "ready");
    out_cell_member(o, counts, "processing");
    out_cell_member(o, counts, "parked");
    out_cell_member(o, counts, "dead");
    out_cell_member(o, counts, "succeeded");
    out_cell_member(o, queue, "bytes");
    out_cell_member(o, queue, "queue");
}

static bool list_queue(void *ctx, const struct json *queue) {
    struct out *o = ctx;
    out_item(o, queue);
    out_flush_many(o);
    return true;
}

static int list(struct call *r) {
    struct out o;
    out_init(&o, r->cli, true, columns, sizeof columns / sizeof columns[0], add_row);
    int code = queue_walk(r, list_queue, &o);
    if (code < 0 && o.items == 0)
        cli_note(r->cli, "there are no queues yet");
    return out_finish(&o, code < 0 ? CLI_DONE : code);
}

static int get(struct call *r, const char *queue) {
    call_begin_queue(r, queue);
    call_run(r, "GET", 0);
    return call_check(r, queue);
}

static int put(struct call *r, const char *queue, const char *file) {
    call_begin_queue(r, queue);
    int code = input_read_file(r->cli, file, POLICY_BYTES_MAX, &r->body);
    if (code >= 0)
        return code;
    call_run(r, "PUT", 0);
    return call_check(r, queue);
}

/* Asks for the queue's name on the terminal. */
static int confirm(struct call *r, const char *queue) {
    if (!isatty(STDIN_FILENO))
        return cli_usage_error(
            r->cli,
            "--discard ends messages for good; without a terminal to ask at, it needs --yes");
    int code = get(r, queue);
    if (code >= 0)
        return code;
    struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    const struct json *counts = json_get(r->reply, "counts");
    static const char *const names[] = {"pending", "processing", "parked", "dead"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const struct json *count = json_get(counts, names[i]);
        if (json_is(count, JSON_INTEGER))
            buf_printf(&text, "%lld %s, ", (long long)json_integer(count), names[i]);
    }
    (void)fprintf(stderr,
                  "%s holds %.*sall of which will be discarded.\nType the queue's name to go on: ",
                  queue, (int)text.n, text.n > 0 ? (const char *)text.p : "");
    buf_release(&text);

    struct input_lines in;
    struct span line;
    input_lines_init(&in, STDIN_FILENO, LIMIT_QUEUE_NAME);
    bool is_confirmed = input_lines_next(&in, r->cli, &line) > 0 && span_equal_str(line, queue);
    input_lines_release(&in);
    if (is_confirmed)
        return -1;
    cli_error(r->cli, "not confirmed; nothing was changed");
    return CLI_FAILED;
}

static int delete (struct call *r, const char *queue, bool is_discarding, bool is_sure) {
    int code = is_discarding && !is_sure ? confirm(r, queue) : -1;
    if (code >= 0)
        return code;
    call_begin_queue(r, queue);
    buf_add_str(&r->path, is_discarding ? "?discard=true" : "");
    call_run(r, "DELETE", 0);
    return call_check(r, queue);
}

int command_queues(struct cli *cli, int argc, char **argv) {
    const char *file = NULL;
    bool is_deleting = false, is_discarding = false, is_sure = false;
    const struct option_spec specs[] = {
        {.name = "put",
         .value = "FILE",
         .text = &file,
         .help = "create it, or change its policy to the JSON in FILE (-: standard input)"},
        {.name = "delete",
         .flag = &is_deleting,
         .help = "delete the queue; refused while it holds unfinished messages"},
        {.name = "discard",
         .flag = &is_discarding,
         .help = "with --delete: discard those, on record; asks first"},
        {.name = "yes", .flag = &is_sure, .help = "do not ask"},
        OPTION_END,
    };
    int first;
    int code = options_parse(cli, specs, argc, argv, &first);
    if (code >= 0)
        return code;
    const char *queue = first < argc ? argv[first] : NULL;
    if (queue == NULL && (file != NULL || is_deleting || is_discarding))
        return cli_usage_error(cli, "which queue?");
    if (is_discarding && !is_deleting)
        return cli_usage_error(cli, "--discard goes with --delete");
    if (file != NULL && is_deleting)
        return cli_usage_error(cli, "--put or --delete, not both");
    if (queue != NULL && (code = input_check_queue(cli, queue)) >= 0)
        return code;

    struct call r;
    call_init(&r, cli);
    if (queue == NULL)
        code = list(&r);
    else if (is_deleting)
        code = delete (&r, queue, is_discarding, is_sure);
    else
        code = file != NULL ? put(&r, queue, file) : get(&r, queue);
    if (code < 0)
        code = is_deleting ? CLI_DONE : out_only(cli, r.reply);
    call_release(&r);
    return code;
}
