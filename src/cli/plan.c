#include "cli/plan.h"

#include "cli/ask.h"
#include "cli/change.h"
#include "cli/input.h"
#include "cli/job.h"
#include "cli/out.h"
#include "cli/progress.h"
#include "cli/text.h"

#include <stdio.h>
#include <string.h>

size_t plan_specs(struct plan *p, struct option_spec specs[static PLAN_SPECS]) {
    const struct option_spec all[PLAN_SPECS] = {
        {.name = "all", .flag = &p->is_all, .help = "all dead letters of the queue"},
        {.name = "name",
         .value = "TEXT",
         .text = &p->name,
         .help = "what to call the job, for people"},
        option_reason(&p->reason),
        option_yes(&p->is_sure),
        {.name = "dry-run",
         .flag = &p->is_dry_run,
         .help = "only print what would be done, as JSON"},
        {.name = "no-wait",
         .flag = &p->is_not_waiting,
         .help = "print the job when it is made, and leave it to the server"},
        {.name = "progress",
         .value = "json",
         .text = &p->progress,
         .help = "the job as JSON on standard error, once a second"},
    };
    memcpy(specs, all, sizeof all);
    return PLAN_SPECS;
}

int plan_check(const struct plan *p, const struct cli *cli) {
    const char *filter = scope_filter(&p->scope);
    bool is_empty = filter[strspn(filter, " \t\n")] == '\0';
    if (is_empty && !p->is_all)
        return cli_usage_error(cli,
                               "which letters? Give a filter, or --all for all dead letters of %s",
                               p->scope.queue);
    if (!is_empty && p->is_all)
        return cli_usage_error(cli, "a filter or --all, not both");
    int code = progress_check(cli, p->progress);
    if (code < 0)
        code = input_check_text(cli, "--name", p->name, LIMIT_JOB_NAME);
    return code < 0 ? option_check_reason(cli, p->reason) : code;
}

/* -- the plan in words ----------------------------------------------------------------------- */

static bool is_incomplete(const struct json *plan) {
    const struct json *complete = json_get(plan, "complete");
    return json_is(complete, JSON_BOOL) && !json_bool(complete);
}

/* "at least 12,418 letters of orders" */
static void add_letters(const struct plan *p, const struct json *plan, uint64_t n,
                        struct buf *out) {
    buf_add_str(out, is_incomplete(plan) ? "at least " : "");
    text_add_grouped(n, out);
    buf_add_str(out, n == 1 ? " letter of " : " letters of ");
    text_escape(span_str(p->scope.queue), TEXT_ONE_LINE, out);
}

static void begin_row(const char *name, struct buf *out) {
    buf_printf(out, "  %-8s ", name);
}

static void add_text_row(const struct json *plan, const char *name, struct buf *out) {
    const struct json *v = json_get(plan, name);
    if (!json_is(v, JSON_STRING) || json_string(v).n == 0)
        return;
    begin_row(name, out);
    text_escape(json_string(v), TEXT_ONE_LINE, out);
    buf_add_byte(out, '\n');
}

static bool is_number(const struct json *v) {
    return json_is(v, JSON_INTEGER) || json_is(v, JSON_REAL);
}

static void add_rate_row(const struct json *plan, struct buf *out) {
    const struct json *rate = json_get(plan, "rate");
    begin_row("rate", out);
    if (!is_number(rate) || json_number(rate) <= 0) {
        buf_add_str(out, "as fast as the server can\n");
        return;
    }
    double seconds = (double)job_number(plan, "remaining") / json_number(rate);
    buf_printf(out, "%g a second", json_number(rate));
    if (seconds < 1e9 && !is_incomplete(plan)) {
        buf_add_str(out, ", in about ");
        text_add_duration(1000 * (int64_t)(seconds + 0.5), out);
    }
    buf_add_byte(out, '\n');
}

static void add_sample_row(const struct json *plan, struct buf *out) {
    const struct json *stop_if = json_get(plan, "stop_if");
    uint64_t sample = job_number(plan, "sample");
    begin_row("sample", out);
    if (sample > 0) {
        text_add_grouped(sample, out);
        buf_add_str(out, sample == 1 ? " letter goes first" : " letters go first");
    } else {
        buf_add_str(out, "none");
    }
    if (is_number(stop_if))
        buf_printf(out, "; it stops when more than %g%% died again\n", json_number(stop_if) * 100);
    else
        buf_add_str(out, "; it never stops by itself\n");
}

static void add_skip_row(const struct json *plan, struct buf *out) {
    if (job_number(plan, "skipped") == 0)
        return;
    begin_row("skipped", out);
    job_add_skips(plan, out);
    buf_add_byte(out, '\n');
}

/* -- what a patch does ----------------------------------------------------------------------- */

/* Headers of a side as JSON text; its payload as it is. */
static void add_member_text(const struct json *side, const char *name, struct buf *out) {
    const struct json *v = json_get(side, name);
    if (json_is(v, JSON_STRING))
        buf_add_span(out, json_string(v));
    else if (v != NULL && !json_is(v, JSON_NULL))
        json_dump(v, out);
}

static void add_change(const struct json *example, const char *name, struct buf *out) {
    struct buf before, after;
    buf_init(&before, TEXT_BYTES_MAX);
    buf_init(&after, TEXT_BYTES_MAX);
    add_member_text(json_get(example, "before"), name, &before);
    add_member_text(json_get(example, "after"), name, &after);
    change_add(name, buf_span(&before), buf_span(&after), out);
    buf_release(&before);
    buf_release(&after);
}

static void add_examples(const struct json *plan, struct buf *out) {
    const struct json *examples = json_get(plan, "examples");
    for (size_t i = 0; json_is(examples, JSON_ARRAY) && i < json_count(examples); i++) {
        const struct json *example = json_at(examples, i), *error = json_get(example, "error");
        bool is_patched = json_get(example, "after") != NULL;
        if (!is_patched && !json_is(error, JSON_STRING))
            continue;
        buf_printf(out, "letter %llu", (unsigned long long)job_number(example, "id"));
        if (is_patched) {
            buf_add_str(out, " would go so:\n");
            add_change(example, "headers", out);
            add_change(example, "payload", out);
        } else {
            buf_add_str(out, ": ");
            text_escape(json_string(error), TEXT_ONE_LINE, out);
            buf_add_byte(out, '\n');
        }
    }
}

static void show(const struct plan *p, const struct cli *cli, const struct json *plan,
                 struct warnings *warnings) {
    struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    add_letters(p, plan, job_number(plan, "selected"), &text);
    buf_add_str(&text, p->is_all ? ", all that are dead now\n" : " match\n");
    add_text_row(plan, "filter", &text);
    begin_row("fence", &text);
    buf_printf(&text, "%llu: what dies from now on is not among them\n",
               (unsigned long long)job_number(plan, "fence"));
    add_text_row(plan, "to", &text);
    add_text_row(plan, "why", &text);
    if (job_is_redrive(plan)) {
        add_rate_row(plan, &text);
        add_sample_row(plan, &text);
    }
    add_skip_row(plan, &text);
    add_examples(plan, &text);
    (void)fwrite(text.p, 1, text.n, stderr);
    buf_release(&text);
    warnings_say(warnings, cli, plan);
}

/* -- the way --------------------------------------------------------------------------------- */

static void begin_request(const struct plan *p, struct call *r, bool is_dry_run) {
    struct json_writer w;
    call_begin(r);
    buf_add_str(&r->path, p->path);
    json_writer_init(&w, &r->body);
    json_begin(&w, '{');
    call_put_text(&w, "queue", p->scope.queue);
    if (p->is_all) {
        json_name(&w, "all");
        json_put_bool(&w, true);
    } else {
        call_put_text(&w, "filter", scope_filter(&p->scope));
    }
    p->write(p->ctx, &w);
    call_put_text(&w, "name", p->name);
    call_put_text(&w, "reason", p->reason);
    if (is_dry_run) {
        json_name(&w, "dry_run");
        json_put_bool(&w, true);
    }
    json_end(&w, '}');
}

/* -1 when there is something to do, else the exit code, said. */
static int check_count(const struct plan *p, const struct cli *cli, const struct json *plan) {
    if (is_incomplete(plan) || job_number(plan, "remaining") > 0)
        return -1;
    if (job_number(plan, "selected") == 0) {
        cli_error(cli, "%s: no dead letter %s", p->scope.queue, p->is_all ? "is there" : "matches");
        return CLI_NOT_FOUND;
    }
    struct buf skips;
    buf_init(&skips, TEXT_BYTES_MAX);
    job_add_skips(plan, &skips);
    cli_error(cli, "%s: none of them would go: %.*s", p->scope.queue, (int)skips.n,
              (const char *)skips.p);
    buf_release(&skips);
    return CLI_CONFLICT;
}

static int ask(const struct plan *p, const struct cli *cli, const struct json *plan) {
    const struct json *to = json_get(plan, "to");
    struct buf question;
    buf_init(&question, TEXT_BYTES_MAX);
    buf_printf(&question, "%s ", p->verb);
    add_letters(p, plan, job_number(plan, "remaining"), &question);
    if (json_is(to, JSON_STRING)) {
        buf_add_str(&question, " to ");
        text_escape(json_string(to), TEXT_ONE_LINE, &question);
    }
    buf_add_str(&question, "?");
    buf_add_byte(&question, '\0');
    int code = ask_yes(cli, (const char *)question.p);
    buf_release(&question);
    return code;
}

static int print_plan(struct cli *cli, const struct json *plan) {
    if (cli->format == FORMAT_TABLE)
        cli->format = FORMAT_JSON;
    out_document(cli, plan);
    bool is_nothing = job_number(plan, "selected") == 0 && !is_incomplete(plan);
    return out_check(cli, is_nothing ? CLI_NOT_FOUND : CLI_DONE);
}

/* -1 when the job is to be made. */
static int prepare(const struct plan *p, struct cli *cli, struct call *r,
                   struct warnings *warnings) {
    begin_request(p, r, true);
    call_run(r, "POST", 0);
    int code = scope_check(&p->scope, r, p->scope.queue);
    if (code >= 0)
        return code;
    if (p->is_dry_run)
        return print_plan(cli, r->reply);
    code = check_count(p, cli, r->reply);
    if (code < 0 && (!p->is_sure || (!cli->quiet && p->progress == NULL)))
        show(p, cli, r->reply, warnings);
    return code < 0 && !p->is_sure ? ask(p, cli, r->reply) : code;
}

static int make(const struct plan *p, const struct cli *cli, struct call *r,
                const struct warnings *warnings) {
    struct progress progress;
    progress_begin(&progress, r, p->progress);
    progress.warnings = *warnings;
    begin_request(p, r, false);
    int code = progress_run(&progress, "POST");
    if (code < 0)
        code = scope_check(&p->scope, r, p->scope.queue);
    if (code < 0)
        code = p->is_not_waiting ? out_only(cli, r->reply) : progress_follow(&progress);
    return progress_end(&progress, code);
}

int plan_run(const struct plan *p, struct cli *cli) {
    struct warnings warnings = {.n = 0};
    struct call r;
    call_init(&r, cli);
    int code = prepare(p, cli, &r, &warnings);
    if (code < 0)
        code = make(p, cli, &r, &warnings);
    call_release(&r);
    return code;
}
