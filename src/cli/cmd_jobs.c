/* nixie jobs: the list, one job, its changes, watching it. */
#include "cli/call.h"
#include "cli/commands.h"
#include "cli/job.h"
#include "cli/job_args.h"
#include "cli/options.h"
#include "cli/out.h"
#include "cli/progress.h"
#include "cli/text.h"

#include <stdio.h>

/* -- the list -------------------------------------------------------------------------------- */

enum { PAGE = 100 };

static const struct column columns[] = {
    {.title = "ID", .is_right = true},
    {.title = "KIND"},
    {.title = "STATE"},
    {.title = "SELECTED", .is_right = true},
    {.title = "OK", .is_right = true},
    {.title = "DIED", .is_right = true},
    {.title = "OPEN", .is_right = true},
    {.title = "SKIPPED", .is_right = true},
    {.title = "LEFT", .is_right = true},
    {.title = "QUEUE", .width_max = 40},
    {.title = "FILTER", .width_max = 80},
};

static void add_row(struct out *o, const struct json *job) {
    out_cell_member(o, job, "id");
    out_cell_member(o, job, "kind");
    out_cell_member(o, job, "state");
    out_cell_member(o, job, "selected");
    out_cell_member(o, job, job_is_redrive(job) ? "succeeded" : "discarded");
    out_cell_member(o, job, "died_again");
    out_cell_member(o, job, "open");
    out_cell_member(o, job, "skipped");
    out_cell_member(o, job, "remaining");
    out_cell_member(o, job, "queue");
    out_cell_member(o, job, "filter");
}

/* Jobs of one route, the newest first. Ids are unique over all kinds. */
struct source {
    const char *name; /* "redrives": of the route, and of the array in its reply */
    struct json *page;
    size_t next; /* in the page */
    uint64_t before;
    bool is_last; /* no page comes after this one */
};

static const struct json *jobs_of(const struct source *s) {
    const struct json *jobs = json_get(s->page, s->name);
    return json_is(jobs, JSON_ARRAY) ? jobs : NULL;
}

/* The job that comes next, or NULL. */
static const struct json *source_head(const struct source *s) {
    return s->next < json_count(jobs_of(s)) ? json_at(jobs_of(s), s->next) : NULL;
}

/* Makes sure that source_head has the next one, when there is one. */
static int source_fill(struct call *r, struct source *s) {
    if (source_head(s) != NULL || s->is_last)
        return -1;
    call_begin(r);
    buf_printf(&r->path, "/%s?limit=%d", s->name, PAGE);
    if (s->before > 0)
        call_query_number(r, "before", (int64_t)s->before);
    call_run(r, "GET", 0);
    int code = call_check(r, NULL);
    if (code >= 0)
        return code;
    json_free(s->page);
    s->page = r->reply;
    r->reply = NULL;
    s->next = 0;
    size_t n = json_count(jobs_of(s));
    uint64_t last = n > 0 ? job_number(json_at(jobs_of(s), n - 1), "id") : 0;
    if (n > 0 && (last == 0 || (s->before > 0 && last >= s->before))) {
        cli_error(r->cli, "the server's list of jobs does not go on");
        return CLI_FAILED;
    }
    s->before = last;
    s->is_last = n < PAGE;
    return -1;
}

/* Of two sources, the one with the newest job; NULL at the end. */
static struct source *newest(struct source sources[static 2]) {
    const struct json *a = source_head(&sources[0]), *b = source_head(&sources[1]);
    if (a == NULL && b == NULL)
        return NULL;
    return &sources[b == NULL || (a != NULL && job_number(a, "id") > job_number(b, "id")) ? 0 : 1];
}

static int list(struct call *r, int64_t limit) {
    struct source sources[2] = {{.name = "redrives"}, {.name = "discards"}}, *from = sources;
    struct out o;
    int code = -1;
    out_init(&o, r->cli, true, columns, sizeof columns / sizeof columns[0], add_row);
    while (code < 0 && from != NULL) {
        code = source_fill(r, &sources[0]);
        if (code < 0)
            code = source_fill(r, &sources[1]);
        from = code < 0 ? newest(sources) : NULL;
        if (from == NULL || o.items == (uint64_t)limit)
            break;
        out_item(&o, source_head(from));
        from->next++;
    }
    bool has_more = code < 0 && from != NULL && r->cli->format == FORMAT_TABLE;
    if (code < 0 && o.items == 0)
        cli_note(r->cli, "there are no jobs yet");
    code = out_finish_list(&o, code);
    if (has_more)
        cli_note(r->cli, "there are older ones: --limit %lld", (long long)limit * 10);
    json_free(sources[0].page);
    json_free(sources[1].page);
    return code;
}

/* -- one ------------------------------------------------------------------------------------- */

static void print_fact(const struct json *job, const char *name) {
    struct span text = call_text(job, name);
    if (text.n > 0)
        out_fact(name, text);
}

static void print_pace(const struct json *job) {
    const struct json *rate = json_get(job, "rate"), *stop_if = json_get(job, "stop_if");
    char text[64] = "as fast as the server can";
    if (json_is(rate, JSON_INTEGER) || json_is(rate, JSON_REAL))
        (void)snprintf(text, sizeof text, "%g a second", json_number(rate));
    out_fact("rate", span_str(text));
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)job_number(job, "sample"));
    out_fact("sample", span_str(text));
    if (json_is(stop_if, JSON_INTEGER) || json_is(stop_if, JSON_REAL))
        (void)snprintf(text, sizeof text, "more than %g%% died again", json_number(stop_if) * 100);
    else
        (void)snprintf(text, sizeof text, "never");
    out_fact("stop if", span_str(text));
}

static void print_page(const struct json *job) {
    const struct json *warnings = json_get(job, "warnings");
    job_print_counts(job);
    print_fact(job, "name");
    print_fact(job, "filter");
    print_fact(job, "why");
    if (job_is_redrive(job))
        print_pace(job);
    print_fact(job, "actor");
    print_fact(job, "reason");
    print_fact(job, "created_at");
    print_fact(job, "changed_at");
    print_fact(job, "ended_at");
    if (call_text(job, "ended_at").n > 0)
        return; /* there is nothing to be warned of any more */
    for (size_t i = 0; json_is(warnings, JSON_ARRAY) && i < json_count(warnings); i++)
        out_fact("warning", call_text(json_at(warnings, i), "message"));
}

static int print(const struct cli *cli, const struct json *job) {
    if (cli->format == FORMAT_TABLE)
        print_page(job);
    else
        out_document(cli, job);
    return out_check(cli, CLI_DONE);
}

struct change {
    bool pauses, resumes, cancels;
    const char *rate, *stop_if, *reason;
};

static bool changes_anything(const struct change *c) {
    return c->pauses || c->resumes || c->cancels || c->rate != NULL || c->stop_if != NULL;
}

static int change(struct call *r, int64_t id, const char *route, const struct change *c) {
    struct json_writer w;
    char what[40];
    call_begin(r);
    buf_printf(&r->path, "/%s/%lld", route, (long long)id);
    json_writer_init(&w, &r->body);
    json_begin(&w, '{');
    call_put_text(&w, "state",
                  c->pauses    ? job_state_name(JOB_PAUSED)
                  : c->resumes ? job_state_name(JOB_RUNNING)
                  : c->cancels ? job_state_name(JOB_CANCELLED)
                               : NULL);
    job_put_rate(&w, c->rate);
    job_put_stop_if(&w, c->stop_if);
    call_put_text(&w, "reason", c->reason);
    json_end(&w, '}');
    call_run(r, "PATCH", 0);
    (void)snprintf(what, sizeof what, "job %lld", (long long)id);
    return call_check(r, what);
}

/* -1 when r's reply is the job; its route in *ret_route. */
static int find(struct call *r, int64_t id, const char **ret_route) {
    static const char *const routes[] = {"redrives", "discards"};
    for (size_t i = 0; i < 2; i++) {
        call_begin(r);
        buf_printf(&r->path, "/%s/%lld", routes[i], (long long)id);
        call_run(r, "GET", 0);
        *ret_route = routes[i];
        if (r->status != 404)
            break;
    }
    char what[40];
    (void)snprintf(what, sizeof what, "job %lld", (long long)id);
    return call_check(r, what);
}

static int watch(struct call *r, const char *format) {
    struct progress progress;
    progress_begin(&progress, r, format);
    return progress_end(&progress, progress_follow(&progress));
}

/* -- the command ----------------------------------------------------------------------------- */

struct jobs {
    int64_t id, limit;
    struct change change;
    bool watches;
    const char *progress;
};

static int check(const struct cli *cli, const struct jobs *j, bool has_id) {
    const struct change *c = &j->change;
    if (!has_id && (changes_anything(c) || j->watches))
        return cli_usage_error(cli, "which job?");
    if (c->pauses + c->resumes + c->cancels > 1)
        return cli_usage_error(cli, "--pause, --resume or --cancel: only one of them");
    if (c->reason != NULL && !changes_anything(c))
        return cli_usage_error(cli, "--reason says why a job is changed; it is not");
    if (j->progress != NULL && !j->watches)
        return cli_usage_error(cli, "--progress goes with --watch");
    int code = progress_check(cli, j->progress);
    if (code < 0)
        code = job_check_rate(cli, c->rate);
    if (code < 0)
        code = job_check_stop_if(cli, c->stop_if);
    return code < 0 ? option_check_reason(cli, c->reason) : code;
}

static int run(struct cli *cli, const struct jobs *j, bool has_id) {
    struct call r;
    const char *route = NULL;
    call_init(&r, cli);
    int code = has_id ? find(&r, j->id, &route) : list(&r, j->limit);
    if (code < 0 && changes_anything(&j->change))
        code = change(&r, j->id, route, &j->change);
    if (code < 0)
        code = j->watches ? watch(&r, j->progress) : print(cli, r.reply);
    call_release(&r);
    return code;
}

int command_jobs(struct cli *cli, int argc, char **argv) {
    struct jobs j = {.limit = 20};
    const struct option_spec specs[] = {
        {.name = "watch",
         .letter = 'w',
         .flag = &j.watches,
         .help = "follow it until it is over; exit 0 when all of its letters succeeded"},
        {.name = "pause", .flag = &j.change.pauses, .help = "nothing more of it is sent"},
        {.name = "resume",
         .flag = &j.change.resumes,
         .help = "go on, also when it had stopped by itself"},
        {.name = "cancel", .flag = &j.change.cancels, .help = "end it; what is left stays dead"},
        {.name = "rate",
         .value = "N",
         .text = &j.change.rate,
         .help = "from now on at most N letters a second, or none: no limit"},
        {.name = "stop-if",
         .value = "P",
         .text = &j.change.stop_if,
         .help = "stop when more than P (such as 5%) died again, or never"},
        option_reason(&j.change.reason),
        {.name = "limit",
         .letter = 'n',
         .value = "N",
         .number = &j.limit,
         .min = 1,
         .max = 100000,
         .help = "list the newest N (default 20)"},
        {.name = "progress",
         .value = "json",
         .text = &j.progress,
         .help = "with --watch: the job as JSON on standard error, once a second"},
        OPTION_END,
    };
    int first;
    int code = options_parse(cli, specs, argc, argv, &first);
    if (code >= 0)
        return code;
    bool has_id = first < argc;
    if (has_id && text_number(span_str(argv[first]), 1, UINT32_MAX, &j.id) != OK)
        return cli_usage_error(cli, "%s: not the id of a job (a whole number, 1 or more)",
                               argv[first]);
    code = check(cli, &j, has_id);
    return code < 0 ? run(cli, &j, has_id) : code;
}
