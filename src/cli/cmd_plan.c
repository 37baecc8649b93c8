/* nixie plan: what limits mean, in numbers (model/plan.h). */
#include "model/plan.h"

#include "cli/call.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/options.h"
#include "cli/out.h"
#include "cli/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RATE_MAX 1e9
#define YEAR_MS INT64_C(31536000000)
#define FACTOR_MAX 100

/* -- what is given --------------------------------------------------------------------------- */

/* Digits with at most one point between them; what follows them is in *ret_end. */
static bool parse_number(const char *text, double *ret, const char **ret_end) {
    size_t whole = strspn(text, "0123456789"), part = 0;
    const char *end = text + whole;
    if (whole > 0 && *end == '.') {
        part = strspn(end + 1, "0123456789");
        end += 1 + part;
    }
    if (whole == 0 || end[-1] == '.' || whole + part > 18)
        return false;
    *ret = strtod(text, NULL);
    *ret_end = end;
    return true;
}

/* "2000" or "2000/s" */
static bool parse_rate(const char *text, double *ret) {
    const char *end;
    return parse_number(text, ret, &end) && (*end == '\0' || strcmp(end, "/s") == 0) &&
           *ret <= RATE_MAX;
}

/* "0.01", "1%" or "1/100000" */
static bool parse_share(const char *text, double *ret) {
    const char *end;
    double of = 1;
    if (!parse_number(text, ret, &end))
        return false;
    if (strcmp(end, "%") == 0)
        of = 100;
    else if (*end == '/' ? !parse_number(end + 1, &of, &end) || *end != '\0' || of <= 0
                         : *end != '\0')
        return false;
    *ret /= of;
    return *ret <= 1;
}

static bool parse_factor(const char *text, uint32_t *ret_milli) {
    const char *end;
    double factor;
    if (!parse_number(text, &factor, &end) || *end != '\0' || factor < 1 || factor > FACTOR_MAX)
        return false;
    *ret_milli = (uint32_t)lround(factor * 1000);
    return true;
}

/* One part of "KIND:part,part,..." after another. */
static bool parse_part(struct backoff *b, const char *part, unsigned number) {
    int64_t ms;
    if (b->kind == BACKOFF_EXPONENTIAL && number == 1)
        return parse_factor(part, &b->factor_milli);
    if (text_milliseconds(part, 0, YEAR_MS, &ms) != OK)
        return false;
    switch (b->kind) {
    case BACKOFF_FIXED:
        b->base_ms = ms;
        return number == 0;
    case BACKOFF_EXPONENTIAL:
        *(number == 0 ? &b->base_ms : &b->cap_ms) = ms;
        return number < 3;
    case BACKOFF_LIST:
        if (number == LIMIT_BACKOFF_LIST || ms % 1000 != 0)
            return false;
        b->list_seconds[number] = (uint32_t)(ms / 1000);
        b->list_count = number + 1;
        return true;
    }
    return false;
}

/* "fixed:60s", "exp:1s,2,1h" or "list:30,60,120" */
static bool parse_backoff(const char *text, struct backoff *ret) {
    static const struct {
        const char *start;
        enum backoff_kind kind;
    } kinds[] = {{"fixed:", BACKOFF_FIXED}, {"exp:", BACKOFF_EXPONENTIAL}, {"list:", BACKOFF_LIST}};
    *ret = policy_default().backoff;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        size_t n = strlen(kinds[i].start);
        if (strncmp(text, kinds[i].start, n) != 0)
            continue;
        ret->kind = kinds[i].kind;
        const char *at = text + n;
        for (unsigned number = 0;; number++) {
            char part[32];
            size_t bytes = strcspn(at, ",");
            snprintf(part, sizeof part, "%.*s", (int)bytes, at);
            if (bytes >= sizeof part || !parse_part(ret, part, number))
                return false;
            if (at[bytes] == '\0')
                return true;
            at += bytes + 1;
        }
    }
    return false;
}

/* The options as they were given; NULL or OPTION_NOT_GIVEN when not. */
struct given {
    const char *rate, *outage, *backoff, *poison, *handler, *transient, *queue;
    int64_t attempts, lease_s;
};

static int wrong(const struct cli *cli, const char *option, const char *value, const char *wanted) {
    return cli_usage_error(cli, "--%s %s: must be %s", option, value, wanted);
}

static int read_share(const struct cli *cli, const char *option, const char *value, double *ret) {
    if (value == NULL || parse_share(value, ret))
        return -1;
    return wrong(cli, option, value, "a share such as 0.01, 1% or 1/100");
}

static int read_time(const struct cli *cli, const char *option, const char *value, double *ret_s) {
    int64_t ms;
    if (value == NULL)
        return -1;
    if (text_milliseconds(value, 0, YEAR_MS, &ms) != OK)
        return wrong(cli, option, value, "a time such as 200ms, 90, 90s or 5m, at most 365d");
    *ret_s = (double)ms / 1000;
    return -1;
}

/* -1, or CLI_USAGE and said. */
static int read_given(const struct cli *cli, const struct given *g, struct plan_inputs *in) {
    if (g->rate != NULL && !parse_rate(g->rate, &in->rate))
        return wrong(cli, "rate", g->rate, "messages a second, such as 2000/s or 0.5");
    int code = read_time(cli, "outage", g->outage, &in->outage_s);
    if (code < 0)
        code = read_time(cli, "handler", g->handler, &in->handler_s);
    if (code < 0)
        code = read_share(cli, "poison", g->poison, &in->poison);
    if (code < 0)
        code = read_share(cli, "transient", g->transient, &in->transient);
    if (code >= 0)
        return code;
    if (g->backoff != NULL && !parse_backoff(g->backoff, &in->backoff))
        return wrong(cli, "backoff", g->backoff,
                     "fixed:TIME, exp:BASE,FACTOR,CAP or list:TIME,TIME,...");
    in->has_backoff = g->backoff != NULL;
    if (g->attempts != OPTION_NOT_GIVEN)
        in->attempts = (unsigned)g->attempts;
    if (g->lease_s != OPTION_NOT_GIVEN)
        in->lease_s = (double)g->lease_s;
    return -1;
}

/* -- a queue's policy ------------------------------------------------------------------------ */

static void note_policy(const struct cli *cli, const char *queue, const struct policy *p) {
    struct buf text;
    struct json_writer w;
    buf_init(&text, TEXT_BYTES_MAX);
    json_writer_init(&w, &text);
    backoff_to_json(&p->backoff, &w);
    cli_note(cli, "%s: %u attempts, a lease of %" PRId64 " s, backoff %.*s", queue,
             (unsigned)p->max_retries, p->lease_ms / 1000, (int)text.n, (const char *)text.p);
    buf_release(&text);
}

/* What was not given is as the queue's policy says. */
static int read_policy(struct call *r, const char *queue, struct plan_inputs *in) {
    call_begin_queue(r, queue);
    call_run(r, "GET", 0);
    int code = call_check(r, queue);
    if (code >= 0)
        return code;
    struct field_errors errors = {0};
    struct policy_texts texts;
    struct buf memory;
    buf_init(&memory, POLICY_JSON_TEXTS * LIMIT_POLICY_TEXT);
    const struct json *policy = json_get(r->reply, "policy");
    struct policy p = policy_from_json(policy, &errors, &memory, &texts);
    buf_release(&memory);
    if (policy == NULL || errors.count > 0) {
        cli_error(r->cli, "%s: its policy is not one that this program knows", queue);
        return CLI_FAILED;
    }
    note_policy(r->cli, queue, &p);
    if (in->attempts == 0)
        in->attempts = p.max_retries;
    if (!in->has_backoff)
        in->backoff = p.backoff;
    in->has_backoff = true;
    if (in->lease_s < 0)
        in->lease_s = (double)p.lease_ms / 1000;
    return -1;
}

static int read_queue(const struct cli *cli, const char *queue, struct plan_inputs *in) {
    int code = queue != NULL ? input_check_queue(cli, queue) : -1;
    if (queue == NULL || code >= 0)
        return code;
    struct call r;
    call_init(&r, cli);
    code = read_policy(&r, queue, in);
    call_release(&r);
    return code;
}

/* -- what follows ---------------------------------------------------------------------------- */

struct figure {
    const char *name, *meaning;
    double value;
    bool is_time;
};

enum { FIGURES = 7 };

static void list_figures(const struct plan_results *r, struct figure ret[static FIGURES]) {
    const struct figure all[FIGURES] = {
        {"retry_horizon_seconds", "from a message's first attempt to its last", r->horizon_s, true},
        {"outage_dead_letters", "healthy messages dead-lettered in the outage", r->outage_dead,
         false},
        {"outage_extra_claims_per_second", "retries a second at the end of the outage",
         r->outage_claims_per_s, false},
        {"poison_per_day", "messages a day that kill their worker", r->poison_per_day, false},
        {"poison_workers_after_a_day", "workers they take after a day without a limit",
         r->poison_workers, false},
        {"poison_workers_limited", "workers they take with these attempts",
         r->poison_workers_limited, false},
        {"false_dead_letters_per_day", "healthy messages dead-lettered by chance a day",
         r->false_dead_per_day, false},
    };
    memcpy(ret, all, sizeof all);
}

static void add_figure(const struct figure *f, struct buf *out) {
    if (f->is_time)
        text_add_duration((int64_t)(f->value * 1000 + 0.5), out);
    else if (f->value >= 999.5)
        text_add_grouped((uint64_t)(f->value + 0.5), out);
    else
        buf_printf(out, "%.3g", f->value);
}

static void print_table(const struct cli *cli, const struct figure figures[static FIGURES]) {
    static const struct column columns[] = {{.title = "FIGURE", .is_right = true}, {.title = "OF"}};
    struct out o;
    struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    out_init(&o, cli, true, columns, sizeof columns / sizeof columns[0], NULL);
    for (size_t i = 0; i < FIGURES; i++) {
        if (figures[i].value < 0)
            continue;
        buf_clear(&text);
        add_figure(&figures[i], &text);
        out_cell(&o, buf_span(&text));
        out_cell(&o, span_str(figures[i].meaning));
    }
    (void)out_finish(&o, CLI_DONE);
    buf_release(&text);
}

static void print_json(const struct cli *cli, const struct figure figures[static FIGURES]) {
    struct buf text;
    struct json_writer w;
    buf_init(&text, TEXT_BYTES_MAX);
    json_writer_init(&w, &text);
    json_begin(&w, '{');
    for (size_t i = 0; i < FIGURES; i++) {
        if (figures[i].value < 0)
            continue;
        json_name(&w, figures[i].name);
        json_put_double(&w, figures[i].value);
    }
    json_end(&w, '}');
    out_text(cli, buf_span(&text));
    buf_release(&text);
}

static int print(const struct cli *cli, const struct plan_inputs *in) {
    struct plan_results results = plan_compute(in);
    struct figure figures[FIGURES];
    list_figures(&results, figures);
    bool has_any = false;
    for (size_t i = 0; i < FIGURES; i++)
        has_any = has_any || figures[i].value >= 0;
    if (!has_any)
        return cli_usage_error(cli, "nothing follows from that: --backoff goes with --attempts, "
                                    "all else with --rate");
    if (cli->format == FORMAT_TABLE)
        print_table(cli, figures);
    else
        print_json(cli, figures);
    return out_check(cli, CLI_DONE);
}

int command_plan(struct cli *cli, int argc, char **argv) {
    struct given g = {.attempts = OPTION_NOT_GIVEN, .lease_s = OPTION_NOT_GIVEN};
    const struct option_spec specs[] = {
        {.name = "rate", .value = "N/s", .text = &g.rate, .help = "messages a second"},
        {.name = "outage",
         .value = "TIME",
         .text = &g.outage,
         .help = "how long every attempt fails"},
        {.name = "backoff",
         .value = "BACKOFF",
         .text = &g.backoff,
         .help = "fixed:60s, exp:BASE,FACTOR,CAP or list:30,60,120"},
        {.name = "attempts",
         .value = "N",
         .number = &g.attempts,
         .min = 1,
         .max = LIMIT_POLICY_RETRIES,
         .help = "a message is dead after N failures"},
        {.name = "poison",
         .value = "SHARE",
         .text = &g.poison,
         .help = "messages that kill their worker: 0.00001, 0.001% or 1/100000"},
        {.name = "handler",
         .value = "TIME",
         .text = &g.handler,
         .help = "how long a message takes, or poison until it kills"},
        {.name = "lease",
         .value = "S",
         .seconds = &g.lease_s,
         .min = 1,
         .max = LIMIT_LEASE_SECONDS,
         .help = "when a message whose worker is gone is handed out again"},
        {.name = "transient",
         .value = "SHARE",
         .text = &g.transient,
         .help = "attempts that fail by chance"},
        {.name = "queue",
         .value = "QUEUE",
         .text = &g.queue,
         .help = "take backoff, attempts and lease from its policy, where not given"},
        OPTION_END,
    };
    int first;
    struct plan_inputs in = plan_inputs_none();
    int code = options_parse(cli, specs, argc, argv, &first);
    if (code < 0)
        code = read_given(cli, &g, &in);
    if (code < 0)
        code = read_queue(cli, g.queue, &in);
    return code >= 0 ? code : print(cli, &in);
}
