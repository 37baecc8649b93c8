/* nixie import-rabbitmq: RabbitMQ's exported definitions, sent as they are; what the server made of
 * them is printed. */
#include "cli/call.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/options.h"
#include "cli/out.h"
#include "cli/text.h"

enum { FILE_BYTES_MAX = LIMIT_BODY_MOST };

static const char *const sections[] = {"vhosts", "policies", "exchanges", "queues", "bindings"};

static void add_count(const struct json *section, const char *name, const char *word,
                      struct buf *line) {
    int64_t n = call_number(section, name, 0);
    if (n <= 0)
        return;
    buf_add_str(line, line->n > 0 ? ", " : "");
    text_add_grouped((uint64_t)n, line);
    buf_printf(line, " %s", word);
}

static void print_section(const struct json *report, const char *name) {
    const struct json *section = json_get(report, name);
    struct buf line;
    buf_init(&line, TEXT_BYTES_MAX);
    bool is_dry =
        json_is(json_get(report, "dry_run"), JSON_BOOL) && json_bool(json_get(report, "dry_run"));
    add_count(section, "made", is_dry ? "to make" : "made", &line);
    add_count(section, "changed", is_dry ? "to change" : "changed", &line);
    add_count(section, "there", "there already", &line);
    out_fact(name, line.n > 0 ? buf_span(&line) : span_str("none"));
    buf_release(&line);
}

static void print_page(const struct json *report) {
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++)
        print_section(report, sections[i]);
    const struct json *items = json_get(report, "not_carried");
    size_t n = json_is(items, JSON_ARRAY) ? json_count(items) : 0;
    struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    int64_t all = call_number(report, "not_carried_count", (int64_t)n);
    text_add_grouped(all > 0 ? (uint64_t)all : 0, &text);
    out_fact("not carried", buf_span(&text));
    for (size_t i = 0; i < n; i++) {
        buf_clear(&text);
        buf_add_str(&text, "  ");
        buf_add_span(&text, call_text(json_at(items, i), "what"));
        buf_add_str(&text, ": ");
        buf_add_span(&text, call_text(json_at(items, i), "why"));
        out_line(buf_span(&text));
    }
    if (all > (int64_t)n)
        out_line(span_str("  and others, which are not listed"));
    buf_release(&text);
}

static int print(const struct call *r, bool is_strict) {
    if (r->cli->format == FORMAT_TABLE)
        print_page(r->reply);
    else
        out_document(r->cli, r->reply);
    bool is_whole = call_number(r->reply, "not_carried_count", 0) == 0;
    return out_check(r->cli, is_strict && !is_whole ? CLI_FAILED : CLI_DONE);
}

int command_import_rabbitmq(struct cli *cli, int argc, char **argv) {
    const char *vhost = NULL, *reason = NULL;
    bool is_dry = false, is_strict = false;
    const struct option_spec specs[] = {
        {.name = "dry-run", .flag = &is_dry, .help = "change nothing, say what would be done"},
        {.name = "strict",
         .flag = &is_strict,
         .help = "exit status 1 when something was not carried"},
        {.name = "vhost",
         .value = "VHOST",
         .text = &vhost,
         .help = "of entries that name none, as in the export of one vhost (/)"},
        option_reason(&reason),
        OPTION_END,
    };
    int first;
    int code = options_parse(cli, specs, argc, argv, &first);
    if (code < 0)
        code = option_check_reason(cli, reason);
    if (code < 0)
        code = input_check_text(cli, "--vhost", vhost, LIMIT_QUEUE_NAME);
    if (code >= 0)
        return code;
    struct call r;
    call_init(&r, cli);
    call_begin(&r);
    buf_add_str(&r.path, "/definitions");
    if (vhost != NULL)
        call_query(&r, "vhost", vhost);
    if (is_dry)
        call_query(&r, "dry_run", "yes");
    if (reason != NULL)
        call_query(&r, "reason", reason);
    code = input_read_file(cli, argv[first], FILE_BYTES_MAX, &r.body);
    if (code < 0) {
        call_run(&r, "POST", 0);
        code = call_check(&r, argv[first]);
    }
    if (code < 0)
        code = print(&r, is_strict);
    call_release(&r);
    return code;
}
