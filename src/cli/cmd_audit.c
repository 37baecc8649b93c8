/* nixie audit. */
#include "cli/call.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/options.h"
#include "cli/out.h"
#include "model/triage.h"

#include <stdio.h>
#include <time.h>

enum { FOLLOW_MS = 1000, FOLLOW_FIRST = 10 }; /* how often to look; entries before the first look */

static const struct column columns[] = {
    {.title = "NUMBER", .is_right = true}, {.title = "AT"},
    {.title = "ACTOR", .width_max = 32},   {.title = "ACTION"},
    {.title = "QUEUE", .width_max = 32},   {.title = "TARGET", .width_max = 24},
    {.title = "COUNT", .is_right = true},  {.title = "SCOPE", .width_max = 40},
    {.title = "RESULT", .width_max = 60},  {.title = "REASON", .width_max = 80},
};

static void add_row(struct out *o, const struct json *entry) {
    out_cell_member(o, entry, "number");
    out_cell_member(o, entry, "at");
    out_cell_member(o, entry, "actor");
    out_cell_member(o, entry, "action");
    out_cell_member(o, entry, "queue");
    out_cell_member(o, entry, "target");
    out_cell_member(o, entry, "count");
    out_cell_member(o, entry, "scope");
    out_cell_member(o, entry, "result");
    out_cell_member(o, entry, "reason");
}

struct listing {
    const char *queue, *actor, *action;
    int64_t limit, after, before;
    bool is_all, is_newest_first, is_following;
    bool is_last; /* the server knows of no page after the newest one */
};

/* The entries of the next page, and where the one after it begins. -1 or the exit code. */
static int get_page(struct call *r, struct listing *l, int64_t limit,
                    const struct json **ret_entries) {
    call_begin(r);
    buf_add_str(&r->path, "/audit");
    if (l->queue != NULL)
        call_query(r, "queue", l->queue);
    if (l->actor != NULL)
        call_query(r, "actor", l->actor);
    if (l->action != NULL)
        call_query(r, "action", l->action);
    call_query_number(r, "limit", limit);
    if (l->is_newest_first)
        call_query(r, "order", "newest");
    if (l->is_newest_first && l->before > 0)
        call_query_number(r, "before", l->before);
    if (!l->is_newest_first && l->after > 0)
        call_query_number(r, "after", l->after);
    call_run(r, "GET", 0);
    int code = call_check(r, NULL);
    if (code >= 0)
        return code;
    int64_t *place = l->is_newest_first ? &l->before : &l->after;
    int64_t before = *place, next = call_number(r->reply, "next", 0);
    bool moves = l->is_newest_first ? next < before || before == 0 : next > before;
    *ret_entries = json_get(r->reply, "entries");
    l->is_last = next <= 0;
    if (!json_is(*ret_entries, JSON_ARRAY) || (!l->is_last && !moves)) {
        cli_error(r->cli, "the server's audit does not go on");
        return CLI_FAILED;
    }
    if (!l->is_last)
        *place = next;
    return -1;
}

static int list_page(struct call *r, struct listing *l, int64_t limit, struct out *o,
                     size_t *ret_count) {
    const struct json *entries;
    int code = get_page(r, l, limit, &entries);
    if (code >= 0)
        return code;
    size_t n = out_items(o, entries);
    out_flush(o);
    /* After the last page, where one that comes later will begin. */
    if (n > 0 && l->is_last && !l->is_newest_first)
        l->after = call_number(json_at(entries, n - 1), "number", l->after);
    *ret_count = n;
    return -1;
}

static int list(struct call *r, struct listing *l) {
    struct out o;
    out_init(&o, r->cli, true, columns, sizeof columns / sizeof columns[0], add_row);
    int code = -1;
    int64_t left = l->is_all ? INT64_MAX : l->limit;
    do {
        size_t n = 0;
        code = list_page(r, l, left < LIMIT_BATCH ? left : LIMIT_BATCH, &o, &n);
        left -= (int64_t)n < left ? (int64_t)n : left;
    } while (code < 0 && !l->is_last && left > 0);
    if (code < 0 && o.items == 0)
        cli_note(r->cli, "no entries");
    bool has_more = code < 0 && !l->is_last && r->cli->format == FORMAT_TABLE;
    code = out_finish_list(&o, code);
    if (has_more)
        cli_note(r->cli, "there may be more: --%s %lld, or --all",
                 l->is_newest_first ? "before" : "after",
                 (long long)(l->is_newest_first ? l->before : l->after));
    return code;
}

/* -- following ------------------------------------------------------------------------------- */

/* The number of the newest entry of all. */
static int find_newest(struct call *r, int64_t *ret) {
    struct listing any = {.is_newest_first = true};
    const struct json *entries;
    int code = get_page(r, &any, 1, &entries);
    if (code < 0)
        *ret = json_count(entries) > 0 ? call_number(json_at(entries, 0), "number", 0) : 0;
    return code;
}

/* As tail -f begins: the newest few, in order; what comes after them is what to wait for. */
static int print_newest(struct call *r, struct listing *l, struct out *o) {
    int64_t newest = 0;
    struct listing last = *l;
    const struct json *entries = NULL;
    last.is_newest_first = true;
    int code = find_newest(r, &newest);
    if (code < 0)
        code = get_page(r, &last, FOLLOW_FIRST, &entries);
    if (code >= 0)
        return code;
    size_t n = json_count(entries);
    for (size_t i = n; i-- > 0;)
        out_item(o, json_at(entries, i));
    out_flush(o);
    l->after = n > 0 ? call_number(json_at(entries, 0), "number", newest) : newest;
    if (l->after < newest)
        l->after = newest;
    return -1;
}

static int follow(struct call *r, struct listing *l, bool from_start) {
    const struct timespec pause = {.tv_sec = FOLLOW_MS / 1000,
                                   .tv_nsec = FOLLOW_MS % 1000 * 1000000L};
    struct out o;
    out_init(&o, r->cli, true, columns, sizeof columns / sizeof columns[0], add_row);
    int code = from_start ? -1 : print_newest(r, l, &o);
    while (code < 0 && ferror(stdout) == 0) {
        size_t n;
        code = list_page(r, l, LIMIT_BATCH, &o, &n);
        if (code < 0 && l->is_last)
            (void)nanosleep(&pause, NULL);
    }
    return out_finish(&o, code);
}

/* -- the command ----------------------------------------------------------------------------- */

static int check(const struct cli *cli, const struct listing *l) {
    int code = l->queue != NULL ? input_check_queue(cli, l->queue) : -1;
    if (code < 0)
        code = input_check_text(cli, "--actor", l->actor, LIMIT_ACTOR);
    if (code >= 0)
        return code;
    if (l->action != NULL && audit_action_parse(span_str(l->action)) < 0)
        return cli_usage_error(cli, "--action %s: no such action", l->action);
    if (l->is_following && l->is_newest_first)
        return cli_usage_error(cli, "--follow goes on to what is newer; --newest goes back");
    if (l->is_following && cli->format == FORMAT_JSON)
        return cli_usage_error(cli, "--follow never ends a JSON document: -o ndjson");
    if (l->after != OPTION_NOT_GIVEN && l->is_newest_first)
        return cli_usage_error(cli, "--newest goes with --before");
    if (l->before != OPTION_NOT_GIVEN && !l->is_newest_first)
        return cli_usage_error(cli, "--before goes with --newest");
    return -1;
}

int command_audit(struct cli *cli, int argc, char **argv) {
    struct listing l = {.limit = 100, .after = OPTION_NOT_GIVEN, .before = OPTION_NOT_GIVEN};
    const struct option_spec specs[] = {
        {.name = "queue", .value = "QUEUE", .text = &l.queue, .help = "only about this queue"},
        {.name = "actor", .value = "NAME", .text = &l.actor, .help = "only by NAME"},
        {.name = "action",
         .value = "ACTION",
         .text = &l.action,
         .help = "only of this kind, such as replay or job_created"},
        {.name = "after",
         .value = "N",
         .number = &l.after,
         .max = INT64_MAX,
         .help = "only entries after number N"},
        {.name = "newest", .flag = &l.is_newest_first, .help = "the newest first"},
        {.name = "before",
         .value = "N",
         .number = &l.before,
         .min = 1,
         .max = INT64_MAX,
         .help = "with --newest: only entries before number N"},
        option_limit(&l.limit),
        {.name = "all", .letter = 'a', .flag = &l.is_all, .help = "all of them"},
        {.name = "follow",
         .letter = 'f',
         .flag = &l.is_following,
         .help = "go on with what comes, from the newest 10 or --after, until interrupted"},
        OPTION_END,
    };
    int first;
    int code = options_parse(cli, specs, argc, argv, &first);
    if (code < 0)
        code = check(cli, &l);
    if (code >= 0)
        return code;
    bool from_start = l.after != OPTION_NOT_GIVEN;
    l.after = from_start ? l.after : 0;
    l.before = l.before != OPTION_NOT_GIVEN ? l.before : 0;
    struct call r;
    call_init(&r, cli);
    code = l.is_following ? follow(&r, &l, from_start) : list(&r, &l);
    call_release(&r);
    return code;
}
