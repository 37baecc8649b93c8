/* Following a job of the server until it is over, on standard error: one line that is redrawn on a
 * terminal, else a line at each change of state, or the job as a line of JSON once a second.
 * Ctrl-C ends the following, never the job. One thread. */
#pragma once

#include "cli/call.h"

#include <signal.h>

#define WARNINGS_MAX 16
#define WARNING_SIZE 600

/* What was warned of, so that it is said once. Zeroed: nothing yet. */
struct warnings {
    size_t n;
    char texts[WARNINGS_MAX][WARNING_SIZE]; /* harmless on a terminal */
};

/* Notes those warnings of a plan or job that are new, and those that are no longer so. One in which
 * only a number changed is not new. */
void warnings_say(struct warnings *w, const struct cli *cli, const struct json *job);

#define PROGRESS_SAMPLES 12

struct progress {
    struct call *r;
    bool is_json;     /* lines of JSON instead of words */
    bool is_terminal; /* standard error is one */
    struct warnings warnings;

    CURLM *multi;
    int signal_fd; /* -1: Ctrl-C is ignored */
    sigset_t signals_before;
    bool is_interrupted;

    uint64_t id;
    bool is_redrive; /* else it discards */
    char state[24];  /* as last shown */
    bool has_line;   /* the terminal's line is not empty */
    int64_t shown_us;
    /* the newest last: how many letters were done with, and when */
    struct {
        int64_t at_us;
        uint64_t moved;
    } samples[PROGRESS_SAMPLES];
    size_t sample_count;
};

/* The value of an option --progress: NULL or "json". -1, or CLI_USAGE and said. */
int progress_check(const struct cli *cli, const char *format);

/* From here to progress_end, Ctrl-C does not end the process. `format` was checked. */
void progress_begin(struct progress *p, struct call *r, const char *format);
/* Returns the code, or ends the process as an interrupted one when it was. */
int progress_end(struct progress *p, int code);

/* call_run for the request that makes the job. -1 when it came to its end, else it was interrupted,
 * and that was said. */
int progress_run(struct progress *p, const char *method);
/* Follows the job that is r's reply until it is over (or was stopped: somebody may resume it), and
 * prints what became of it. Returns the exit code. */
int progress_follow(struct progress *p);
