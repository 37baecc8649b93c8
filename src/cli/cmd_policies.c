/* nixie policies, nixie policy: RabbitMQ's policies, which give settings to all queues and exchanges
 * of a vhost whose names match. */
#include "cli/call.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/options.h"
#include "cli/out.h"
#include "cli/text.h"

#include "base/json.h"

#include <string.h>

/* -- the list -------------------------------------------------------------------------------- */

static const struct column columns[] = {
    {.title = "PRIORITY", .is_right = true},
    {.title = "VHOST", .width_max = 30},
    {.title = "NAME", .width_max = 40},
    {.title = "PATTERN", .width_max = 40},
    {.title = "APPLIES TO"},
    {.title = "DEFINITION"},
};

static void add_row(struct out *o, const struct json *policy) {
    out_cell_member(o, policy, "priority");
    out_cell_member(o, policy, "vhost");
    out_cell_member(o, policy, "name");
    out_cell_member(o, policy, "pattern");
    out_cell_member(o, policy, "apply-to");
    struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    const struct json *definition = json_get(policy, "definition");
    if (definition != NULL)
        json_dump(definition, &text);
    out_cell(o, buf_span(&text));
    buf_release(&text);
}

static int list(struct call *r, const char *vhost) {
    call_begin(r);
    buf_add_str(&r->path, "/policies");
    if (vhost != NULL)
        call_query(r, "vhost", vhost);
    call_run(r, "GET", 0);
    int code = call_check(r, NULL);
    if (code >= 0)
        return code;
    struct out o;
    out_init(&o, r->cli, true, columns, sizeof columns / sizeof columns[0], add_row);
    if (out_items(&o, json_get(r->reply, "policies")) == 0)
        cli_note(r->cli, "there are no policies");
    return out_finish(&o, CLI_DONE);
}

static struct option_spec option_vhost(const char **text, const char *help) {
    return (struct option_spec){.name = "vhost", .value = "VHOST", .text = text, .help = help};
}

int command_policies(struct cli *cli, int argc, char **argv) {
    const char *vhost = NULL;
    const struct option_spec specs[] = {
        option_vhost(&vhost, "only those of VHOST"),
        OPTION_END,
    };
    int first;
    int code = options_parse(cli, specs, argc, argv, &first);
    if (code < 0)
        code = input_check_text(cli, "--vhost", vhost, LIMIT_QUEUE_NAME);
    if (code >= 0)
        return code;
    struct call r;
    call_init(&r, cli);
    code = list(&r, vhost);
    call_release(&r);
    return code;
}

/* -- one ------------------------------------------------------------------------------------- */

struct change {
    const char *name, *pattern, *definition; /* pattern is NULL: delete it */
    const char *vhost, *applies, *reason;
    int64_t priority;
};

static void begin(struct call *r, const struct change *c) {
    call_begin(r);
    buf_add_str(&r->path, "/policies/");
    text_add_segment(c->name, &r->path);
    if (c->vhost != NULL)
        call_query(r, "vhost", c->vhost);
    if (c->reason != NULL)
        call_query(r, "reason", c->reason);
}

static int put(struct call *r, const struct change *c) {
    struct json_writer w;
    begin(r, c);
    json_writer_init(&w, &r->body);
    json_begin(&w, '{');
    call_put_text(&w, "pattern", c->pattern);
    call_put_text(&w, "apply-to", c->applies);
    call_put_number(&w, "priority", c->priority);
    json_name(&w, "definition");
    json_put_raw(&w, span_str(c->definition));
    json_end(&w, '}');
    call_run(r, "PUT", 0);
    int code = call_check(r, c->name);
    return code < 0 ? out_only(r->cli, r->reply) : code;
}

static int delete (struct call *r, const struct change *c) {
    begin(r, c);
    call_run(r, "DELETE", 0);
    int code = call_check(r, c->name);
    return code < 0 ? CLI_DONE : code;
}

static int check_definition(const struct cli *cli, const char *text) {
    struct json_error error;
    struct json *v = json_parse(span_str(text), &error);
    bool is_object = json_is(v, JSON_OBJECT);
    json_free(v);
    if (v == NULL)
        return cli_usage_error(cli, "the definition is no JSON: column %d: %s", error.column,
                               error.text);
    if (!is_object)
        return cli_usage_error(cli, "the definition must be an object, such as "
                                    "'{\"dead-letter-exchange\": \"dead\"}'");
    return -1;
}

/* The arguments are the verb, the name, and what the verb needs. */
static int read_arguments(const struct cli *cli, struct change *c, char **args, int n) {
    bool is_put = strcmp(args[0], "put") == 0;
    if (!is_put && strcmp(args[0], "delete") != 0)
        return cli_usage_error(cli, "%s: must be put or delete", args[0]);
    if (n != (is_put ? 4 : 2))
        return cli_usage_error(cli, "%s needs %s", args[0],
                               is_put ? "NAME PATTERN DEFINITION" : "NAME");
    c->name = args[1];
    if (c->name[0] == '\0')
        return cli_usage_error(cli, "the policy's name is empty");
    int code = input_check_text(cli, "the name", c->name, LIMIT_QUEUE_NAME);
    if (code >= 0 || !is_put)
        return code;
    c->pattern = args[2];
    c->definition = args[3];
    code = input_check_text(cli, "the pattern", c->pattern, LIMIT_ARGUMENTS);
    if (code < 0)
        code = input_check_text(cli, "the definition", c->definition, LIMIT_ARGUMENTS);
    return code < 0 ? check_definition(cli, c->definition) : code;
}

int command_policy(struct cli *cli, int argc, char **argv) {
    struct change c = {.priority = OPTION_NOT_GIVEN};
    const struct option_spec specs[] = {
        option_vhost(&c.vhost, "of queues and exchanges of VHOST (/)"),
        {.name = "apply-to",
         .value = "WHAT",
         .text = &c.applies,
         .help = "all, queues, exchanges, classic_queues or quorum_queues (all)"},
        {.name = "priority",
         .value = "N",
         .number = &c.priority,
         .min = 0,
         .max = INT32_MAX,
         .help = "of several that match, the one with the highest holds (0)"},
        option_reason(&c.reason),
        OPTION_END,
    };
    int first;
    int code = options_parse(cli, specs, argc, argv, &first);
    if (code < 0)
        code = read_arguments(cli, &c, argv + first, argc - first);
    if (code < 0 && c.pattern == NULL && (c.applies != NULL || c.priority != OPTION_NOT_GIVEN))
        code = cli_usage_error(cli, "--apply-to and --priority go with put");
    if (code < 0)
        code = input_check_text(cli, "--vhost", c.vhost, LIMIT_QUEUE_NAME);
    if (code < 0)
        code = input_check_text(cli, "--apply-to", c.applies, LIMIT_QUEUE_NAME);
    if (code < 0)
        code = option_check_reason(cli, c.reason);
    if (code >= 0)
        return code;
    struct call r;
    call_init(&r, cli);
    code = c.pattern != NULL ? put(&r, &c) : delete (&r, &c);
    call_release(&r);
    return code;
}
