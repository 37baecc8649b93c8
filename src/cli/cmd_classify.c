/* nixie classify: which rule of a queue would take a failure. */
#include "cli/call.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/options.h"
#include "cli/out.h"

#include <stdio.h>

static const struct column columns[] = {
    {.title = "ACTION"},
    {.title = "RULE", .is_right = true},
    {.title = "DELAY", .is_right = true},
    {.title = "LIMIT", .is_right = true},
    {.title = "BACKOFF"},
    {.title = "WHY", .width_max = 120},
};

static void add_number(struct out *o, const struct json *v, const char *name) {
    char text[24];
    int64_t n = call_number(v, name, -1);
    int bytes = n < 0 ? snprintf(text, sizeof text, "-")
                      : snprintf(text, sizeof text, "%lld", (long long)n);
    out_cell(o, span_of(text, (size_t)bytes));
}

static void add_row(struct out *o, const struct json *verdict) {
    out_cell_member(o, verdict, "action");
    add_number(o, verdict, "rule");
    add_number(o, verdict, "delay_seconds");
    add_number(o, verdict, "max_retries");
    out_cell_member(o, json_get(verdict, "backoff"), "kind");
    out_cell_member(o, verdict, "why");
}

static int classify(struct call *r, const char *queue, const char *error_class,
                    const char *message) {
    struct out o;
    call_begin_queue(r, queue);
    buf_add_str(&r->path, "/classify");
    call_query(r, "class", error_class);
    call_query(r, "message", message);
    call_run(r, "GET", 0);
    int code = call_check(r, queue);
    if (code >= 0)
        return code;
    out_init(&o, r->cli, false, columns, sizeof columns / sizeof columns[0], add_row);
    out_item(&o, r->reply);
    return out_finish(&o, CLI_DONE);
}

int command_classify(struct cli *cli, int argc, char **argv) {
    const char *error_class = "", *message = "";
    const struct option_spec specs[] = {
        {.name = "class",
         .value = "C",
         .text = &error_class,
         .help = "the failure's error class (default empty)"},
        {.name = "message",
         .value = "M",
         .text = &message,
         .help = "its error message (default empty)"},
        OPTION_END,
    };
    int first;
    int code = options_parse(cli, specs, argc, argv, &first);
    if (code < 0)
        code = input_check_queue(cli, argv[first]);
    if (code < 0)
        code = input_check_text(cli, "--class", error_class, LIMIT_ERROR_CLASS);
    if (code < 0)
        code = input_check_text(cli, "--message", message, LIMIT_ERROR);
    if (code >= 0)
        return code;
    struct call r;
    call_init(&r, cli);
    code = classify(&r, argv[first], error_class, message);
    call_release(&r);
    return code;
}
