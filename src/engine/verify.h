/* The parts of engine_verify. Internal to src/engine/. */
#pragma once

#include "engine/engine_int.h"

/* Where the first difference is told. */
struct complaint {
    char *text;
    size_t bytes;
};
/* Always false. */
__attribute__((format(printf, 2, 3))) bool complain(const struct complaint *c, const char *format,
                                                    ...);

/* verify_letters.c: cause groups against their letters (S1), jobs against what says it is in them, and
 * the sums of their counts (S5). */
bool verify_letters(const struct engine *e, const struct complaint *c);
/* verify_lines.c: who stands in the line of his key, who is held, and what lines and queues count of it. */
bool verify_lines(const struct engine *e, const struct complaint *c);
/* What the records of groups, jobs and the audit take. */
uint64_t triage_live_bytes(const struct engine *e);
uint64_t job_timers(const struct engine *e);

/* verify_topology.c: exchanges and bindings against their indexes and counts. */
bool verify_topology(const struct engine *e, const struct complaint *c);
uint64_t topology_live_bytes(const struct engine *e);
uint64_t sum_topology(const struct engine *e);
