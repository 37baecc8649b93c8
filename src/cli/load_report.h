/* What a load run found, for a person or for a program. Shared by `nixie bench` and the peers in
 * bench/, so that their lines compare field by field. One thread. */
#pragma once

#include "cli/load.h"

#include <stdio.h>

/* What was asked for; printed with what came of it. */
struct load_setup {
    const char *target; /* "nixie", "redis" */
    const char *mode;
    unsigned connections;
    unsigned batch;
    size_t payload_bytes;
};

/* One line of JSON: the setup, totals, rates, and per step p50, p90, p99 and max in microseconds.
 */
void load_report_json(FILE *out, const struct load_setup *setup, const struct load_script *script,
                      const struct load_result *result);

/* The same as a few lines of text. */
void load_report_table(FILE *out, const struct load_setup *setup, const struct load_script *script,
                       const struct load_result *result);
