/* nixie groups: the causes, one a line. */
#include "base/clock.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/out.h"
#include "cli/scope.h"
#include "cli/text.h"
#include "model/filter.h"

#include <string.h>

static const struct column columns[] = {
    {.title = "COUNT", .is_right = true},
    {.title = "HOUR", .is_right = true},
    {.title = "DAY", .is_right = true},
    {.title = "FIRST SEEN", .is_right = true},
    {.title = "LAST SEEN", .is_right = true},
    {.title = "STATE", .width_max = 40},
    {.title = "QUEUE", .width_max = 32},
    {.title = "VERSIONS", .width_max = 24},
    {.title = "KEY"},
    {.title = "CAUSE", .width_max = 80},
};

/* "open, regressed (ann)" */
static void add_state(struct out *o, const struct json *group) {
    struct buf text;
    struct span owner = call_text(group, "owner");
    buf_init(&text, TEXT_BYTES_MAX);
    buf_add_span(&text, call_text(group, "state"));
    if (call_text(group, "regressed_at").n > 0)
        buf_add_str(&text, ", regressed");
    if (owner.n > 0) {
        buf_add_str(&text, " (");
        buf_add_span(&text, owner);
        buf_add_byte(&text, ')');
    }
    out_cell(o, buf_span(&text));
    buf_release(&text);
}

static void add_versions(struct out *o, const struct json *group) {
    struct buf text;
    const struct json *versions = json_get(group, "versions");
    buf_init(&text, TEXT_BYTES_MAX);
    for (size_t i = 0; json_is(versions, JSON_ARRAY) && i < json_count(versions); i++) {
        buf_add_str(&text, i > 0 ? " " : "");
        buf_add_span(&text, call_text(json_at(versions, i), "version"));
    }
    out_cell(o, text.n > 0 ? buf_span(&text) : span_str("-"));
    buf_release(&text);
}

/* "5m02s ago": leaves more of a line for the cause than the time would. */
static void add_age(struct out *o, const struct json *group, const char *name) {
    struct span time = call_text(group, name);
    int64_t at, ms;
    struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    if (time.n == 0 || time_parse(time, &at) != OK) {
        buf_add_byte(&text, '-');
    } else if ((ms = clock_now_ms() - at) < 1000) {
        buf_add_str(&text, "now");
    } else {
        text_add_duration(ms, &text);
        buf_add_str(&text, " ago");
    }
    out_cell(o, buf_span(&text));
    buf_release(&text);
}

static void add_row(struct out *o, const struct json *group) {
    out_cell_member(o, group, "count");
    out_cell_member(o, group, "last_hour");
    out_cell_member(o, group, "last_day");
    add_age(o, group, "first_seen");
    add_age(o, group, "last_seen");
    add_state(o, group);
    out_cell_member(o, group, "queue");
    add_versions(o, group);
    out_cell_member(o, group, "key");
    out_cell_member(o, group, "title");
}

struct listing {
    struct scope scope;
    const char *sort;
    int64_t limit, offset, total;
    bool with_empty;
};

/* -1 and the number of groups in the page, or the exit code. */
static int list_page(struct call *r, struct listing *l, int64_t limit, struct out *o,
                     size_t *ret_count) {
    call_begin(r);
    buf_add_str(&r->path, "/groups");
    if (scope_has_filter(&l->scope))
        call_query(r, "q", scope_filter(&l->scope));
    if (l->sort != NULL)
        call_query(r, "sort", l->sort);
    if (l->with_empty)
        call_query(r, "all", "yes");
    call_query_number(r, "limit", limit);
    call_query_number(r, "offset", l->offset);
    call_run(r, "GET", 0);
    int code = scope_check(&l->scope, r, NULL);
    if (code >= 0)
        return code;
    *ret_count = out_items(o, json_get(r->reply, "groups"));
    out_flush(o);
    l->total = call_number(r->reply, "total", 0);
    return -1;
}

static int list(struct call *r, struct listing *l) {
    struct out o;
    out_init(&o, r->cli, true, columns, sizeof columns / sizeof columns[0], add_row);
    int code = -1;
    int64_t left = l->limit;
    size_t n = 1;
    while (code < 0 && n > 0 && left > 0) {
        code = list_page(r, l, left < LIMIT_BATCH ? left : LIMIT_BATCH, &o, &n);
        if (code < 0) {
            left -= (int64_t)n < left ? (int64_t)n : left;
            l->offset += (int64_t)n;
            n = l->offset < l->total ? n : 0;
        }
    }
    if (code < 0 && o.items == 0)
        cli_note(r->cli, "no causes%s",
                 scope_has_filter(&l->scope) ? " that match the filter" : "");
    bool has_more = code < 0 && l->offset < l->total && r->cli->format == FORMAT_TABLE;
    code = out_finish_list(&o, code);
    if (has_more)
        cli_note(r->cli, "%lld of %lld causes; --limit says how many", (long long)l->offset,
                 (long long)l->total);
    return code;
}

/* The queue of the arguments as a word of the filter: groups are asked for by nothing else. */
static int queue_into_filter(const struct cli *cli, struct scope *s) {
    if (s->queue == NULL)
        return -1;
    struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    buf_add_str(&text, "queue:\"");
    for (const char *p = s->queue; *p != '\0'; p++) {
        buf_add_str(&text, *p == '"' || *p == '\\' ? "\\" : "");
        buf_add_byte(&text, (uint8_t)*p);
    }
    buf_add_byte(&text, '"');
    if (scope_has_filter(s))
        buf_printf(&text, " (%s)", scope_filter(s));
    buf_add_byte(&text, '\0');
    buf_release(&s->filter);
    s->filter = text;
    if (strlen(scope_filter(s)) > FILTER_BYTES_MAX)
        return cli_usage_error(cli, "the filter: longer than %d bytes", FILTER_BYTES_MAX);
    return -1;
}

static int check_sort(const struct cli *cli, const char *sort) {
    static const char *const names[] = {"last_seen", "count", "first_seen", "title"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (sort == NULL || strcmp(sort, names[i]) == 0)
            return -1;
    }
    return cli_usage_error(cli, "--sort %s: must be last_seen, count, first_seen or title", sort);
}

int command_groups(struct cli *cli, int argc, char **argv) {
    struct listing l = {.limit = 100};
    const char *queue = NULL;
    const struct option_spec specs[] = {
        {.name = "queue", .value = "QUEUE", .text = &queue, .help = "whatever its name looks like"},
        {.name = "sort",
         .value = "ORDER",
         .text = &l.sort,
         .help = "last_seen (default), count, first_seen or title"},
        option_limit(&l.limit),
        {.name = "all",
         .letter = 'a',
         .flag = &l.with_empty,
         .help = "also those without a letter that is dead or on its way"},
        OPTION_END,
    };
    int first;
    int code = options_parse(cli, specs, argc, argv, &first);
    if (code >= 0)
        return code;
    code = scope_read(&l.scope, cli, queue, argv + first, argc - first);
    if (code < 0)
        code = queue_into_filter(cli, &l.scope);
    if (code < 0)
        code = check_sort(cli, l.sort);
    if (code < 0) {
        struct call r;
        call_init(&r, cli);
        code = list(&r, &l);
        call_release(&r);
    }
    scope_release(&l.scope);
    return code;
}
