/* nixie discard and nixie undiscard: letters by their ids, by a filter, by the job that took
 * them. */
#include "base/mem.h"
#include "cli/call.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/options.h"
#include "cli/out.h"
#include "cli/plan.h"
#include "model/message.h"

#include <stdio.h>
#include <stdlib.h>

/* -- one letter a request -------------------------------------------------------------------- */

static const struct column columns[] = {
    {.title = "ID", .is_right = true},
    {.title = "STATUS"},
    {.title = "DISCARDED"},
    {.title = "GONE AT"},
    {.title = "REASON"},
    {.title = "ERROR", .width_max = 80},
};

static void add_row(struct out *o, const struct json *message) {
    const struct json *discarded = json_get(message, "discarded");
    out_cell_member(o, message, "id");
    out_cell_member(o, message, "status");
    out_cell_member(o, discarded, "reason");
    out_cell_member(o, discarded, "gone_at");
    out_cell_member(o, message, "reason");
    out_cell_pair(o, message, "error_class", ": ", "last_error", "");
}

struct verb {
    const char *name;
    const char *queue;
    const char *why;    /* discard */
    const char *reason; /* NULL: none */
    struct out out;
    int failure; /* exit code of the first letter that could not be done; -1: none */
};

static void begin_verb(struct verb *v, const struct cli *cli) {
    v->failure = -1;
    out_init(&v->out, cli, true, columns, sizeof columns / sizeof columns[0], add_row);
}

/* Goes on after a letter that it could not be done to: false after a server that is gone or refuses
 * the token. */
static bool act(struct verb *v, struct call *r, uint64_t id) {
    struct json_writer w;
    char what[300];
    call_begin_queue(r, v->queue);
    buf_printf(&r->path, "/messages/%llu/%s", (unsigned long long)id, v->name);
    json_writer_init(&w, &r->body);
    json_begin(&w, '{');
    call_put_text(&w, "why", v->why);
    call_put_text(&w, "reason", v->reason);
    json_end(&w, '}');
    call_run(r, "POST", 0);
    (void)snprintf(what, sizeof what, "%s %llu", v->queue, (unsigned long long)id);
    int code = call_check(r, what);
    if (code < 0)
        out_item(&v->out, r->reply);
    else if (v->failure < 0)
        v->failure = code;
    out_flush_many(&v->out);
    return code != CLI_UNREACHABLE && code != CLI_DENIED;
}

static int act_on_ids(struct verb *v, const struct cli *cli, char **args, int n) {
    struct input_ids ids;
    struct input_id id;
    struct call r;
    int got, code = input_ids_init(&ids, cli, args, n);
    if (code >= 0)
        return code;
    call_init(&r, cli);
    begin_verb(v, cli);
    do {
        got = input_ids_next(&ids, cli, &id);
    } while (got > 0 && act(v, &r, id.id));
    if (got < 0 && v->failure < 0)
        v->failure = CLI_USAGE;
    call_release(&r);
    input_ids_release(&ids);
    return out_finish_list(&v->out, v->failure);
}

/* -- the letters of a job -------------------------------------------------------------------- */

struct discarded_page {
    int64_t after; /* only younger ones; then the last one of the page */
    bool is_last;
    size_t n;
    uint64_t ids[LIMIT_BATCH]; /* of those that the job took */
};

static int read_page(struct call *r, const struct verb *v, int64_t job,
                     struct discarded_page *page) {
    call_begin_queue(r, v->queue);
    buf_printf(&r->path, "/messages?status=discarded&limit=%d&after=%lld", LIMIT_BATCH,
               (long long)page->after);
    call_run(r, "GET", 0);
    int code = call_check(r, v->queue);
    if (code >= 0)
        return code;
    const struct json *messages = json_get(r->reply, "messages");
    size_t n = json_is(messages, JSON_ARRAY) ? json_count(messages) : 0;
    page->is_last = n == 0; /* it may end early when it holds much payload */
    page->n = 0;
    for (size_t i = 0; i < n && i < LIMIT_BATCH; i++) {
        int64_t id = call_number(json_at(messages, i), "id", 0);
        if (id <= page->after) {
            cli_error(r->cli, "%s: the server's list is out of order", v->queue);
            return CLI_FAILED;
        }
        page->after = id;
        if (call_number(json_at(messages, i), "job", 0) == job)
            page->ids[page->n++] = (uint64_t)id;
    }
    return -1;
}

static int undiscard_job(struct verb *v, const struct cli *cli, int64_t job) {
    struct discarded_page page = {.after = 0};
    struct call r;
    bool goes_on = true;
    uint64_t found = 0;
    call_init(&r, cli);
    begin_verb(v, cli);
    while (goes_on && !page.is_last) {
        int code = read_page(&r, v, job, &page);
        if (code >= 0) {
            v->failure = code;
            break;
        }
        for (size_t i = 0; i < page.n && goes_on; i++)
            goes_on = act(v, &r, page.ids[i]);
        found += page.n;
    }
    call_release(&r);
    if (found == 0 && v->failure < 0) {
        cli_error(cli, "%s: no letter that job %lld discarded is still there", v->queue,
                  (long long)job);
        v->failure = CLI_NOT_FOUND;
    }
    return out_finish_list(&v->out, v->failure);
}

/* -- the commands ---------------------------------------------------------------------------- */

/* For struct plan. */
static void write_why(const void *ctx, struct json_writer *w) {
    const struct verb *v = ctx;
    call_put_text(w, "why", v->why);
}

static int check_why(const struct cli *cli, const char *why) {
    static const char choices[] = "fixed, obsolete, duplicate, \"bad data\", test or other";
    if (why == NULL)
        return cli_usage_error(cli, "--why is missing: %s", choices);
    if (discard_reason_parse(span_str(why)) < 0)
        return cli_usage_error(cli, "--why %s: must be %s", why, choices);
    return -1;
}

static int discard_many(struct cli *cli, struct plan *p, const char *filter) {
    char *parts[] = {filter != NULL ? mem_strdup(filter) : NULL};
    int code = scope_read(&p->scope, cli, p->scope.queue, parts, filter != NULL ? 1 : 0);
    if (code < 0)
        code = plan_check(p, cli);
    if (code < 0)
        code = plan_run(p, cli);
    scope_release(&p->scope);
    free(parts[0]);
    return code;
}

int command_discard(struct cli *cli, int argc, char **argv) {
    struct verb verb = {.name = "discard"};
    struct plan p = {.path = "/discards", .verb = "Discard", .write = write_why, .ctx = &verb};
    const char *filter = NULL;
    struct option_spec specs[PLAN_SPECS + 3] = {
        {.name = "why",
         .value = "REASON",
         .text = &verb.why,
         .help = "fixed, obsolete, duplicate, \"bad data\", test or other"},
        {.name = "filter",
         .value = "FILTER",
         .text = &filter,
         .help = "those that match, as a job, instead of ids"},
    };
    specs[2 + plan_specs(&p, specs + 2)] = (struct option_spec)OPTION_END;
    int first;
    int code = options_parse(cli, specs, argc, argv, &first);
    if (code < 0)
        code = input_check_queue(cli, argv[first]);
    if (code < 0)
        code = check_why(cli, verb.why);
    if (code < 0)
        code = option_check_reason(cli, p.reason);
    if (code >= 0)
        return code;
    bool has_ids = first + 1 < argc, is_many = filter != NULL || p.is_all;
    if (has_ids == is_many)
        return cli_usage_error(cli, has_ids ? "ids, --filter or --all: only one of them"
                                            : "which letters? Give ids, --filter or --all");
    p.scope.queue = verb.queue = argv[first];
    verb.reason = p.reason;
    if (is_many)
        return discard_many(cli, &p, filter);
    if (p.is_dry_run || p.is_not_waiting || p.progress != NULL || p.name != NULL)
        return cli_usage_error(
            cli, "--dry-run, --no-wait, --progress and --name go with --filter or --all");
    return act_on_ids(&verb, cli, argv + first + 1, argc - first - 1);
}

int command_undiscard(struct cli *cli, int argc, char **argv) {
    struct verb verb = {.name = "undiscard"};
    int64_t job = OPTION_NOT_GIVEN;
    const struct option_spec specs[] = {
        {.name = "job",
         .value = "N",
         .number = &job,
         .min = 1,
         .max = UINT32_MAX,
         .help = "all that job N discarded and that are still there, instead of ids"},
        option_reason(&verb.reason),
        OPTION_END,
    };
    int first;
    int code = options_parse(cli, specs, argc, argv, &first);
    if (code < 0)
        code = input_check_queue(cli, argv[first]);
    if (code < 0)
        code = option_check_reason(cli, verb.reason);
    if (code >= 0)
        return code;
    bool has_ids = first + 1 < argc, is_job = job != OPTION_NOT_GIVEN;
    if (has_ids == is_job)
        return cli_usage_error(cli, has_ids ? "ids or --job, not both"
                                            : "which letters? Give ids, or --job");
    verb.queue = argv[first];
    return is_job ? undiscard_job(&verb, cli, job)
                  : act_on_ids(&verb, cli, argv + first + 1, argc - first - 1);
}
