/* From the wish to act on many letters to its end: what the server's dry run says is shown, it is
 * asked whether to go on, the job is made, and followed. One thread. */
#pragma once

#include "cli/options.h"
#include "cli/scope.h"

struct plan {
    const char *path; /* "/redrives" */
    const char *verb; /* "Redrive", for the question */
    struct scope scope;
    bool is_all;
    /* Writes the members of the body that say what is done; the others are written here. */
    void (*write)(const void *ctx, struct json_writer *w);
    const void *ctx;
    const char *name, *reason;
    /* how far to go */
    const char *progress;
    bool is_sure, is_dry_run, is_not_waiting;
};

/* The options that all such commands share: --all --name --reason --yes --dry-run --no-wait
 * --progress. Fills specs and returns how many. */
enum { PLAN_SPECS = 7 };
size_t plan_specs(struct plan *p, struct option_spec specs[static PLAN_SPECS]);

/* Checks what was given, p->scope included: -1, or CLI_USAGE and said. */
int plan_check(const struct plan *p, const struct cli *cli);
/* All of it; returns the exit code. */
int plan_run(const struct plan *p, struct cli *cli);
