/* Options about the pace of a redrive, for those who make one and those who change it. One
 * thread. */
#pragma once

#include "base/json.h"
#include "cli/context.h"

#define JOB_SAMPLE_MAX 1000000

/* "50", "0.5", "50/s", or "none". NULL is fine. -1, or CLI_USAGE and said. */
int job_check_rate(const struct cli *cli, const char *rate);
/* "5%", "0.05", or "never". NULL is fine. */
int job_check_stop_if(const struct cli *cli, const char *stop_if);

/* Members `rate` and `stop_if` of a body, from what was checked; none for NULL. */
void job_put_rate(struct json_writer *w, const char *rate);
void job_put_stop_if(struct json_writer *w, const char *stop_if);
