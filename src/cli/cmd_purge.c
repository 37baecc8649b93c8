/* nixie purge: all dead letters of a queue, for good. */
#include "cli/ask.h"
#include "cli/call.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/job.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/text.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct purge {
    const char *queue, *reason, *confirmed, *progress;
};

/* -1 when there are letters; their number. */
static int count(struct call *r, const struct purge *p, uint64_t *ret) {
    call_begin_queue(r, p->queue);
    call_run(r, "GET", 0);
    int code = call_check(r, p->queue);
    if (code >= 0)
        return code;
    *ret = job_number(json_get(r->reply, "counts"), "dead");
    if (*ret > 0)
        return -1;
    cli_error(r->cli, "%s: no dead letter is there", p->queue);
    return CLI_NOT_FOUND;
}

static int ask(const struct cli *cli, const struct purge *p, uint64_t n) {
    struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    text_add_grouped(n, &text);
    buf_add_str(&text, n == 1 ? " dead letter of " : " dead letters of ");
    text_escape(span_str(p->queue), TEXT_ONE_LINE, &text);
    buf_add_str(&text, " will be gone for good: there is no undo.\n");
    if (p->confirmed != NULL) {
        if (!cli->quiet)
            (void)fwrite(text.p, 1, text.n, stderr);
        buf_release(&text);
        return -1;
    }
    buf_add_str(&text, "Type the queue's name to go on: ");
    buf_add_byte(&text, '\0');
    int code = ask_name(cli, (const char *)text.p, p->queue);
    buf_release(&text);
    return code;
}

static int make(struct call *r, const struct purge *p) {
    struct progress progress;
    struct json_writer w;
    progress_begin(&progress, r, p->progress);
    call_begin_queue(r, p->queue);
    buf_add_str(&r->path, "/purge");
    json_writer_init(&w, &r->body);
    json_begin(&w, '{');
    call_put_text(&w, "confirm", p->queue);
    call_put_text(&w, "reason", p->reason);
    json_end(&w, '}');
    int code = progress_run(&progress, "POST");
    if (code < 0)
        code = call_check(r, p->queue);
    if (code < 0)
        code = progress_follow(&progress);
    return progress_end(&progress, code);
}

static int check(const struct cli *cli, const struct purge *p) {
    int code = input_check_queue(cli, p->queue);
    if (code < 0 && (p->reason == NULL || p->reason[0] == '\0'))
        code = cli_usage_error(cli, "--reason is missing: why are they to be gone for good?");
    if (code < 0)
        code = option_check_reason(cli, p->reason);
    if (code < 0 && p->confirmed != NULL && strcmp(p->confirmed, p->queue) != 0)
        code = cli_usage_error(cli, "--confirm %s: is not the queue's name", p->confirmed);
    if (code < 0 && p->confirmed == NULL && !isatty(STDIN_FILENO))
        code = cli_usage_error(cli, "without a terminal to ask at, it needs --confirm");
    if (code < 0)
        code = progress_check(cli, p->progress);
    return code;
}

int command_purge(struct cli *cli, int argc, char **argv) {
    struct purge p = {.queue = NULL};
    const struct option_spec specs[] = {
        option_reason(&p.reason),
        {.name = "confirm",
         .value = "NAME",
         .text = &p.confirmed,
         .help = "the queue's name once more, instead of being asked for it"},
        {.name = "progress",
         .value = "json",
         .text = &p.progress,
         .help = "the job as JSON on standard error, once a second"},
        OPTION_END,
    };
    int first;
    int code = options_parse(cli, specs, argc, argv, &first);
    if (code >= 0)
        return code;
    p.queue = argv[first];
    code = check(cli, &p);
    if (code >= 0)
        return code;
    struct call r;
    uint64_t n = 0;
    call_init(&r, cli);
    code = count(&r, &p, &n);
    if (code < 0)
        code = ask(cli, &p, n);
    if (code < 0)
        code = make(&r, &p);
    call_release(&r);
    return code;
}
