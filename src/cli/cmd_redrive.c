/* nixie redrive. */
#include "cli/call.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/job_args.h"
#include "cli/patch_args.h"
#include "cli/plan.h"
#include "cli/text.h"

struct redrive {
    const char *to, *rate, *stop_if;
    int64_t sample;
    bool force, clear_deaths;
    struct patch_args patch_args;
    struct buf patch; /* JSON; empty: none */
};

/* For struct plan. */
static void write_redrive(const void *ctx, struct json_writer *w) {
    const struct redrive *d = ctx;
    call_put_text(w, "to", d->to);
    call_put_number(w, "sample", d->sample);
    job_put_rate(w, d->rate);
    job_put_stop_if(w, d->stop_if);
    if (d->force) {
        json_name(w, "force");
        json_put_bool(w, true);
    }
    if (d->clear_deaths) {
        json_name(w, "clear_deaths");
        json_put_bool(w, true);
    }
    if (d->patch.n > 0) {
        json_name(w, "patch");
        json_put_raw(w, buf_span(&d->patch));
    }
}

static int check(const struct cli *cli, const struct plan *p, struct redrive *d) {
    int code = plan_check(p, cli);
    if (code < 0 && d->to != NULL)
        code = input_check_queue(cli, d->to);
    if (code < 0)
        code = job_check_rate(cli, d->rate);
    if (code < 0)
        code = job_check_stop_if(cli, d->stop_if);
    if (code < 0 && patch_args_given(&d->patch_args))
        code = patch_args_build(&d->patch_args, cli, &d->patch);
    return code;
}

int command_redrive(struct cli *cli, int argc, char **argv) {
    struct redrive d = {.sample = OPTION_NOT_GIVEN};
    struct plan p = {.path = "/redrives", .verb = "Redrive", .write = write_redrive, .ctx = &d};
    struct option_spec specs[PLAN_SPECS + 9] = {
        {.name = "rate",
         .value = "N",
         .text = &d.rate,
         .help = "at most N letters a second (default: as fast as it can)"},
        {.name = "sample",
         .value = "N",
         .number = &d.sample,
         .max = JOB_SAMPLE_MAX,
         .help = "N go first, and their outcomes are awaited (default 10 of more than 100)"},
        {.name = "stop-if",
         .value = "P",
         .text = &d.stop_if,
         .help = "stop when more than P (such as 5%) died again, or never (default 20%)"},
        {.name = "to",
         .value = "QUEUE",
         .text = &d.to,
         .help = "to another queue (default: each letter's own)"},
        {.name = "force",
         .flag = &d.force,
         .help = "also letters at their redrive limit, and edited ones"},
        {.name = "clear-deaths",
         .flag = &d.clear_deaths,
         .help = "they forget where they died before: x-death begins anew"},
        patch_option_set(&d.patch_args),
        patch_option_remove(&d.patch_args),
    };
    specs[8 + plan_specs(&p, specs + 8)] = (struct option_spec)OPTION_END;
    int first;
    int code = options_parse(cli, specs, argc, argv, &first);
    if (code >= 0)
        return code;
    buf_init(&d.patch, TEXT_BYTES_MAX);
    code = scope_read(&p.scope, cli, argv[first], argv + first + 1, argc - first - 1);
    if (code < 0)
        code = check(cli, &p, &d);
    if (code < 0)
        code = plan_run(&p, cli);
    scope_release(&p.scope);
    buf_release(&d.patch);
    return code;
}
