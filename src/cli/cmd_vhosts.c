/* nixie vhosts, nixie vhost: AMQP's vhosts and what is set for them. */
#include "cli/call.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/options.h"
#include "cli/out.h"
#include "cli/text.h"

#include <string.h>

/* -- the list -------------------------------------------------------------------------------- */

static const struct column columns[] = {
    {.title = "NAME", .width_max = 60},
    {.title = "CLIENT X-DEATH"},
};

static void add_row(struct out *o, const struct json *vhost) {
    out_cell_member(o, vhost, "name");
    out_cell_member(o, vhost, "client_x_death");
}

static int list(struct call *r) {
    call_begin(r);
    buf_add_str(&r->path, "/vhosts");
    call_run(r, "GET", 0);
    int code = call_check(r, NULL);
    if (code >= 0)
        return code;
    struct out o;
    out_init(&o, r->cli, true, columns, sizeof columns / sizeof columns[0], add_row);
    (void)out_items(&o, json_get(r->reply, "vhosts"));
    return out_finish(&o, CLI_DONE);
}

int command_vhosts(struct cli *cli, int argc, char **argv) {
    const struct option_spec specs[] = {OPTION_END};
    int first;
    int code = options_parse(cli, specs, argc, argv, &first);
    if (code >= 0)
        return code;
    struct call r;
    call_init(&r, cli);
    code = list(&r);
    call_release(&r);
    return code;
}

/* -- one ------------------------------------------------------------------------------------- */

struct change {
    const char *name, *client_x_death, *reason;
};

static int put(struct call *r, const struct change *c) {
    struct json_writer w;
    call_begin(r);
    buf_add_str(&r->path, "/vhosts/");
    text_add_segment(c->name, &r->path);
    if (c->reason != NULL)
        call_query(r, "reason", c->reason);
    json_writer_init(&w, &r->body);
    json_begin(&w, '{');
    call_put_text(&w, "client_x_death", c->client_x_death);
    json_end(&w, '}');
    call_run(r, "PUT", 0);
    int code = call_check(r, c->name);
    return code < 0 ? out_only(r->cli, r->reply) : code;
}

int command_vhost(struct cli *cli, int argc, char **argv) {
    struct change c = {0};
    const struct option_spec specs[] = {
        {.name = "client-x-death",
         .value = "HOW",
         .text = &c.client_x_death,
         .help =
             "opaque, or read: taken for the broker's own, as RabbitMQ did before 4.0 (opaque)"},
        option_reason(&c.reason),
        OPTION_END,
    };
    int first;
    int code = options_parse(cli, specs, argc, argv, &first);
    if (code < 0 && strcmp(argv[first], "put") != 0)
        code = cli_usage_error(cli, "%s: must be put", argv[first]);
    if (code < 0 && argv[first + 1][0] == '\0')
        code = cli_usage_error(cli, "the vhost's name is empty");
    if (code < 0)
        code = input_check_text(cli, "the name", c.name = argv[first + 1], LIMIT_QUEUE_NAME);
    if (code < 0)
        code = input_check_text(cli, "--client-x-death", c.client_x_death, LIMIT_QUEUE_NAME);
    if (code < 0)
        code = option_check_reason(cli, c.reason);
    if (code >= 0)
        return code;
    struct call r;
    call_init(&r, cli);
    code = put(&r, &c);
    call_release(&r);
    return code;
}
