/* Closed-loop load over many TCP connections: each connection sends a request, waits for its reply,
 * and only then sends the next.
 *
 * The core knows sockets, time and histograms; what the bytes mean is the script's. It is written
 * to cost little, because the server under test shares the machine: one thread, one epoll set
 * registered once, one write() and one read() a request, requests handed over as ready-made bytes.
 * No library on purpose.
 *
 * A connection runs the script's steps (0, 1, ...) in order; that is a turn, after which it begins
 * the next one. Invariant: never more than one request is on its way on a connection, so a latency
 * is exactly one request's. One thread, the caller's. */
#pragma once

#include "base/bytes.h"

#define LOAD_STEPS 4 /* at most, in a script */
#define LOAD_CONNECTIONS_MAX 4096
#define LOAD_REPLY_MAX (64 * 1024 * 1024) /* a longer reply ends the run */
#define LOAD_STALL_MS 30000               /* no reply on any connection for so long ends the run */

/* -- latencies ------------------------------------------------------------------------------- */

/* Nanoseconds in logarithmic buckets, 128 to an octave: a value read back is within 0.4 % of the
 * one put in, from 1 ns to 18 minutes (longer ones count as that long; `max_ns` is exact). */
#define LOAD_BUCKETS (128 * 35)

struct load_histogram {
    uint64_t count;
    int64_t max_ns;
    uint64_t bucket[LOAD_BUCKETS];
};

void load_histogram_add(struct load_histogram *h, int64_t ns);
/* The value that a share `q` (0..1) of all values does not exceed; 0 when there are none. */
int64_t load_histogram_at(const struct load_histogram *h, double q);

/* -- the script ------------------------------------------------------------------------------ */

enum load_verdict {
    LOAD_MORE,   /* the reply is not whole yet */
    LOAD_STEP,   /* whole; the next step follows */
    LOAD_TURN,   /* whole; it was the turn's last */
    LOAD_BROKEN, /* not this protocol: the run ends */
};

struct load_reply {
    bool is_failure; /* the server said no: counted, the run goes on */
    uint64_t units;  /* what this reply completes: messages */
};

struct load_script {
    void *ctx;
    unsigned step_count;                /* 1..LOAD_STEPS */
    const char *step_names[LOAD_STEPS]; /* for the report */
    uint64_t units_per_turn;            /* what a turn takes from the budget */

    /* The bytes to send at `step`; they stay as they are until its reply is whole. */
    struct span (*request)(void *ctx, unsigned connection, unsigned step);
    /* Looks at everything that has come since the request. `ret` is zeroed before and read when the
     * reply is whole; bytes beyond a whole reply are a protocol error the script finds itself. */
    enum load_verdict (*reply)(void *ctx, unsigned connection, unsigned step, struct span bytes,
                               struct load_reply *ret);
};

/* -- a run ----------------------------------------------------------------------------------- */

struct load_options {
    const char *host, *port;
    unsigned connections; /* 1..LOAD_CONNECTIONS_MAX */
    uint64_t units;      /* turns are begun until this much is under way; 0 = no end but the time */
    int64_t duration_ms; /* no turn is begun after it; 0 = no end but the units */

    /* Called about five times a second while it runs; may be NULL. */
    void (*progress)(void *ctx, uint64_t units_done, int64_t elapsed_ms);
    void *progress_ctx;
};

struct load_result {
    uint64_t units, requests, failures;
    int64_t elapsed_ns; /* from the first request to the last reply; connecting is not in it */
    int64_t cpu_ns;     /* processor time of this process in between */
    struct load_histogram steps[LOAD_STEPS];
    char trouble[200]; /* why it ended early; empty when it did not */
};

/* Connects, runs, closes. Replies with is_failure do not end it: the caller looks at `failures`.
 * ERR_IO with ret->trouble said (and the counts so far) when it ended early. */
enum err load_run(const struct load_options *options, const struct load_script *script,
                  struct load_result *ret) MUST_CHECK;

/* A blocking TCP connection with TCP_NODELAY, for whatever has to be said before a run. -1 and a
 * text in `trouble` on failure. The caller closes it. */
int load_dial(const char *host, const char *port, char *trouble, size_t trouble_bytes);

/* Fills p with letters and digits: always the same, hardly to be compressed, nothing that JSON
 * would escape. */
void load_fill(char *p, size_t n);
