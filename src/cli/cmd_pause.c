/* nixie pause and nixie resume. */
#include "cli/call.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/options.h"
#include "cli/out.h"

static const struct column columns[] = {
    {.title = "PAUSED SINCE"},
    {.title = "BY", .width_max = 40},
    {.title = "READY", .is_right = true},
    {.title = "PROCESSING", .is_right = true},
    {.title = "QUEUE", .width_max = 40},
    {.title = "REASON", .width_max = 80},
};

static void add_row(struct out *o, const struct json *queue) {
    const struct json *paused = json_get(queue, "paused"), *counts = json_get(queue, "counts");
    out_cell_member(o, paused, "since");
    out_cell_member(o, paused, "by");
    out_cell_member(o, counts, "ready");
    out_cell_member(o, counts, "processing");
    out_cell_member(o, queue, "queue");
    out_cell_member(o, paused, "reason");
}

static int change(struct call *r, const char *queue, const char *verb, const char *reason) {
    struct json_writer w;
    struct out o;
    call_begin_queue(r, queue);
    buf_printf(&r->path, "/%s", verb);
    json_writer_init(&w, &r->body);
    json_begin(&w, '{');
    call_put_text(&w, "reason", reason);
    json_end(&w, '}');
    call_run(r, "POST", 0);
    int code = call_check(r, queue);
    if (code >= 0)
        return code;
    out_init(&o, r->cli, false, columns, sizeof columns / sizeof columns[0], add_row);
    out_item(&o, r->reply);
    return out_finish(&o, CLI_DONE);
}

static int run(struct cli *cli, int argc, char **argv, const char *verb) {
    const char *reason = NULL;
    const struct option_spec specs[] = {option_reason(&reason), OPTION_END};
    int first;
    int code = options_parse(cli, specs, argc, argv, &first);
    if (code < 0)
        code = input_check_queue(cli, argv[first]);
    if (code < 0)
        code = option_check_reason(cli, reason);
    if (code >= 0)
        return code;
    struct call r;
    call_init(&r, cli);
    code = change(&r, argv[first], verb, reason);
    call_release(&r);
    return code;
}

int command_pause(struct cli *cli, int argc, char **argv) {
    return run(cli, argc, argv, "pause");
}

int command_resume(struct cli *cli, int argc, char **argv) {
    return run(cli, argc, argv, "resume");
}
