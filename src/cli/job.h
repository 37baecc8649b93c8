/* Jobs over dead letters as the server tells of them: the words and the exit code that stand for
 * it. A member that is missing counts as 0 or says nothing. Any thread. */
#pragma once

#include "base/json.h"
#include "cli/context.h"
#include "model/triage.h"

/* A member that is a whole number, 0 or more; else 0. */
uint64_t job_number(const struct json *job, const char *name);
int job_state(const struct json *job); /* enum job_state; -1: none that is known */
/* A redrive sends letters again; all other kinds discard them. */
bool job_is_redrive(const struct json *job);
/* Nothing more happens to it, unless somebody resumes what stopped. */
bool job_is_over(const struct json *job);

/* Appends "12,418 selected | 3,201 sent | 3,150 ok | 12 died"; those that are rare only when they
 * are not 0. */
void job_add_counts(const struct json *job, struct buf *out);
/* Appends "2 at their redrive limit, 1 edited"; nothing when none is skipped. */
void job_add_skips(const struct json *job, struct buf *out);

/* CLI_DONE when all that was selected succeeded (or was discarded), CLI_PARTLY when not,
 * CLI_NOT_FOUND when nothing was selected. */
int job_exit_code(const struct json *job);

/* Prints which job it is, its state and its counts, each on a line, for people. */
void job_print_counts(const struct json *job);
/* Prints what became of its letters on standard output, as the format says; returns the exit code
 * of the job, or of the output when that failed. */
int job_print_end(const struct cli *cli, const struct json *job);
