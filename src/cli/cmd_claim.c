/* nixie claim. */
#include "cli/call.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/options.h"
#include "cli/out.h"

static const struct column columns[] = {
    {.title = "ID", .is_right = true},      {.title = "ATTEMPT", .is_right = true},
    {.title = "LEASE", .width_max = 64},    {.title = "LEASE UNTIL"},
    {.title = "PAYLOAD", .width_max = 100},
};

static void add_row(struct out *o, const struct json *message) {
    out_cell_member(o, message, "id");
    out_cell_member(o, message, "attempt");
    out_cell_member(o, message, "lease");
    out_cell_member(o, message, "lease_expires_at");
    out_cell_payload(o, message);
}

struct claim {
    int64_t count, lease_s, wait_s;
    const char *worker, *worker_version;
};

static int claim(struct call *r, const char *queue, const struct claim *c) {
    struct json_writer w;
    call_begin_queue(r, queue);
    buf_add_str(&r->path, "/claim");
    json_writer_init(&w, &r->body);
    json_begin(&w, '{');
    call_put_number(&w, "count", c->count);
    call_put_number(&w, "lease_seconds", c->lease_s);
    call_put_number(&w, "wait_seconds", c->wait_s);
    call_put_text(&w, "worker", c->worker);
    call_put_text(&w, "worker_version", c->worker_version);
    json_end(&w, '}');
    call_run(r, "POST", c->wait_s != OPTION_NOT_GIVEN ? c->wait_s : 0);
    int code = call_check(r, queue);
    if (code >= 0)
        return code;

    struct out o;
    out_init(&o, r->cli, c->count != OPTION_NOT_GIVEN, columns, sizeof columns / sizeof columns[0],
             add_row);
    const struct json *message = json_get(r->reply, "message");
    (void)out_items(&o, json_get(r->reply, "messages"));
    if (json_is(message, JSON_OBJECT))
        out_item(&o, message);
    if (o.items == 0)
        cli_note(r->cli, "%s: nothing to claim", queue);
    return out_finish(&o, o.items > 0 ? CLI_DONE : CLI_NOT_FOUND);
}

int command_claim(struct cli *cli, int argc, char **argv) {
    struct claim c = {
        .count = OPTION_NOT_GIVEN, .lease_s = OPTION_NOT_GIVEN, .wait_s = OPTION_NOT_GIVEN};
    const struct option_spec specs[] = {
        {.name = "count",
         .letter = 'n',
         .value = "N",
         .number = &c.count,
         .min = 1,
         .max = LIMIT_BATCH,
         .help = "up to N messages (default 1)"},
        {.name = "lease",
         .value = "S",
         .seconds = &c.lease_s,
         .min = 1,
         .max = LIMIT_LEASE_SECONDS,
         .help = "for S seconds (default: the queue's)"},
        {.name = "wait",
         .letter = 'w',
         .value = "S",
         .seconds = &c.wait_s,
         .max = LIMIT_WAIT_SECONDS,
         .help = "wait up to S seconds for the first message"},
        {.name = "worker",
         .value = "NAME",
         .text = &c.worker,
         .help = "who claims, for the message's story"},
        {.name = "worker-version",
         .value = "V",
         .text = &c.worker_version,
         .help = "and which version of it"},
        OPTION_END,
    };
    int first;
    int code = options_parse(cli, specs, argc, argv, &first);
    if (code < 0)
        code = input_check_queue(cli, argv[first]);
    if (code < 0)
        code = input_check_text(cli, "--worker", c.worker, LIMIT_WORKER);
    if (code < 0)
        code = input_check_text(cli, "--worker-version", c.worker_version, LIMIT_WORKER);
    if (code >= 0)
        return code;
    struct call r;
    call_init(&r, cli);
    code = claim(&r, argv[first], &c);
    call_release(&r);
    return code;
}
