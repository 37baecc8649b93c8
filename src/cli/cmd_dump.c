/* nixie dump: the policies of the server as a file that nixie apply takes; or its topology as a file
 * that RabbitMQ takes, and nixie import-rabbitmq. */
#include "cli/call.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/options.h"
#include "cli/out.h"
#include "cli/queue_walk.h"
#include "cli/text.h"
#include "cli/yaml.h"

#include <stdio.h>

struct dump {
    uint64_t queues;
};

static bool print(void *ctx, const struct json *queue) {
    struct dump *d = ctx;
    struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    if (d->queues++ == 0)
        buf_add_str(&text, "queues:\n");
    buf_add_str(&text, "  ");
    yaml_add_text(call_text(queue, "queue"), &text);
    buf_add_str(&text, ":\n");
    const struct json *policy = json_get(queue, "policy");
    if (json_is(policy, JSON_OBJECT))
        yaml_add_object(policy, 4, &text);
    (void)fwrite(text.p, 1, text.n, stdout);
    buf_release(&text);
    return true;
}

static int dump_policies(struct call *r, char **queues, int n) {
    struct dump d = {0};
    int code = n > 0 ? queue_walk_named(r, queues, n, print, &d) : queue_walk(r, print, &d);
    if (code < 0 && d.queues == 0)
        (void)puts("queues: {}");
    return code;
}

static int dump_rabbitmq(struct call *r, const char *vhost) {
    call_begin(r);
    buf_add_str(&r->path, "/definitions");
    if (vhost != NULL)
        call_query(r, "vhost", vhost);
    call_run(r, "GET", 0);
    int code = call_check(r, vhost);
    if (code >= 0)
        return code;
    struct buf text, indented;
    buf_init(&text, TEXT_BYTES_MAX);
    buf_init(&indented, TEXT_BYTES_MAX);
    json_dump(r->reply, &text);
    text_add_json(buf_span(&text), true, 0, &indented);
    buf_add_byte(&indented, '\n');
    (void)fwrite(indented.p, 1, indented.n, stdout);
    buf_release(&text);
    buf_release(&indented);
    return -1;
}

int command_dump(struct cli *cli, int argc, char **argv) {
    bool is_rabbitmq = false;
    const char *vhost = NULL;
    const struct option_spec specs[] = {
        {.name = "rabbitmq",
         .flag = &is_rabbitmq,
         .help = "exchanges, queues, bindings and policies by pattern, as RabbitMQ's definitions"},
        {.name = "vhost",
         .value = "VHOST",
         .text = &vhost,
         .help = "with --rabbitmq: only those of VHOST"},
        OPTION_END,
    };
    int first;
    int code = options_parse(cli, specs, argc, argv, &first);
    if (code < 0 && is_rabbitmq && first < argc)
        code = cli_usage_error(cli, "--rabbitmq writes all queues, or those of a vhost");
    if (code < 0 && vhost != NULL && !is_rabbitmq)
        code = cli_usage_error(cli, "--vhost goes with --rabbitmq");
    if (code < 0)
        code = input_check_text(cli, "--vhost", vhost, LIMIT_QUEUE_NAME);
    if (code >= 0)
        return code;
    struct call r;
    call_init(&r, cli);
    code = is_rabbitmq ? dump_rabbitmq(&r, vhost) : dump_policies(&r, argv + first, argc - first);
    call_release(&r);
    return out_check(cli, code < 0 ? CLI_DONE : code);
}
