/* Inside `nixie work`: a fixed number of tasks (work_task.c: a message, its child process, its
 * pipes) and two exchanges with the server (work_talk.c: results and renewals out, messages in),
 * turned by one poll loop (work.c). Private to the three files. One thread; nothing in it blocks.
 *
 *     FREE --message--> RUNNING --child ended--> DONE --result taken by the server--> FREE
 *
 * With --retry-now a task whose child failed stays RUNNING, for the server: between two runs it has
 * no child, and again_at_ms is set.
 *
 * W1 A task that is not FREE holds a message that was claimed by us; there are never more than
 *    there are tasks, whatever the server sends.
 * W2 Free tasks promised to a claim that is under way are counted in `reserved`: two claims never
 *    compete for one task.
 * W3 A result stays in its task until the server answers for it; only an answer frees the task (or
 *    giving up at the very end).
 * W4 Signals go to a child's process group only while the child itself is not reaped, so the
 *    number cannot be somebody else's.
 * W5 A task whose lease is known to be lost sends no result: the message is somebody else's. */
#pragma once

#include "cli/call.h"

#include <signal.h>
#include <sys/types.h>

enum {
    WORK_TASKS_MAX = 256,
    WORK_LEASE_DEFAULT_S = 60,
    WORK_GRACE_MS = 5000,   /* between SIGTERM and SIGKILL */
    WORK_DRAIN_MS = 2000,   /* for our stderr to take a child's last words */
    WORK_TAIL_BYTES = 8192, /* of standard error kept as detail */
    WORK_ITEMS_MAX = 64,    /* in one exchange: with full details it stays far below LIMIT_BODY */
    WORK_BACKOFF_FIRST_MS = 200,
    WORK_BACKOFF_MAX_MS = 5000,
    WORK_SPAWN_HOLD_MS = 5000, /* no claims after a child could not be started */
    WORK_ITEM_HOLD_MS = 1000,  /* after the server could not take one item */
    WORK_LEASE_TOKEN_BYTES_MAX = 255,
    WORK_RETRY_NOW_MAX = 100,
    WORK_RETRY_NOW_DELAY_MAX_MS = 3600 * 1000,
};

enum task_state { TASK_FREE, TASK_RUNNING, TASK_DONE };
enum task_outcome {
    OUTCOME_SUCCEED,
    OUTCOME_FAIL,
    OUTCOME_FAIL_PERMANENT,
    OUTCOME_RELEASE,
    OUTCOME_LOST
};

struct task {
    enum task_state state;

    /* the message */
    uint64_t id;
    char lease[WORK_LEASE_TOKEN_BYTES_MAX + 1];
    struct buf payload;
    size_t payload_written;
    struct buf environment; /* "NAME=value" strings, each ended by a NUL */
    size_t environment_count;

    /* the child; descriptors are -1 when closed */
    pid_t pid;
    int pidfd, stdin_fd, stderr_fd;
    uint8_t tail[WORK_TAIL_BYTES]; /* a ring: byte k of standard error is at k % WORK_TAIL_BYTES */
    uint64_t stderr_bytes;

    /* monotonic, TIME_NEVER when not set */
    int64_t renew_at_ms;    /* the lease */
    int64_t limit_at_ms;    /* --kill-after */
    int64_t kill_at_ms;     /* SIGKILL, after SIGTERM */
    int64_t drain_until_ms; /* the child has ended; its stderr may still flow */
    int64_t again_at_ms;    /* between two runs: the next one */
    int64_t runs_left;      /* after the present one */
    bool is_timed_out, is_abandoned, is_lost;

    /* the result, in TASK_DONE */
    enum task_outcome outcome;
    char error_class[64];
    struct buf error; /* UTF-8 */
    bool was_sent;    /* an exchange with it got no answer */
};

/* Under way, or idle. */
struct exchange {
    struct call call;
    bool is_busy;
    int64_t sent_ms;
    unsigned claim_count; /* how many messages it asks for; 0: it does not claim */
    unsigned item_count;
    struct {
        struct task *task;
        bool is_renewal;
    } items[WORK_ITEMS_MAX];
};

struct work {
    const struct cli *cli;

    /* what was asked for */
    const char *queue, *worker, *worker_version;
    char **command;
    int64_t task_count, lease_s, kill_after_s, retry_now, retry_now_delay_ms;
    bool is_once, is_until_empty;

    struct task *tasks;
    int64_t next_task; /* where the next settling begins */
    struct exchange poll, settle;
    CURLM *multi;
    int signal_fd;
    sigset_t signals_before; /* the mask children get */

    unsigned reserved; /* free tasks promised to claims under way */
    uint64_t taken;    /* messages that came */
    bool is_empty;     /* the last claim found nothing, and no result was taken since */
    unsigned stops;    /* signals to stop, so far */
    int failure;       /* an exit code: no more claims; 0: none */
    bool is_unreachable;
    int64_t backoff_ms, hold_until_ms; /* nothing is sent before */
    int64_t claim_hold_until_ms;       /* nothing is claimed before */
    bool is_stderr_blocked;            /* ours: then nothing is read from the children's */

    uint64_t succeeded, failed, dead, released, lost;
};

/* "nixie: work: ..." on stderr; dropped rather than waited for when nobody reads it. */
void work_say(const struct work *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same, not when quiet. */
void work_note(const struct work *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

static inline bool work_is_stopping(const struct work *w) {
    return w->stops > 0 || w->failure != 0;
}

/* -- tasks ----------------------------------------------------------------------------------- */

void task_init(struct task *task);
void task_release(struct task *task);

/* Takes a message from a claim's reply: RUNNING, or DONE when its child could not be started or we
 * are stopping. False, and still FREE, when it is not a message. */
bool task_start(struct work *w, struct task *task, const struct json *message, int64_t now_ms);

/* Does what can be done without waiting: feeds the child, reads its stderr, sees to its limits,
 * notices its end (then DONE). */
void task_turn(struct work *w, struct task *task, int64_t now_ms);

/* Asks the child to end (SIGTERM, later SIGKILL). */
void task_terminate(struct task *task, int64_t now_ms);
void task_kill(struct task *task);

void task_free(struct task *task); /* to FREE */

/* The kept end of stderr, as UTF-8. */
void task_add_detail(const struct task *task, struct buf *out);

/* -- exchanges ------------------------------------------------------------------------------- */

void work_talk_init(struct work *w);
void work_talk_release(struct work *w);
/* Starts what is due. */
void work_talk_start(struct work *w, int64_t now_ms);
/* Moves bytes, and acts on the replies that came. */
void work_talk_turn(struct work *w);
/* Ends a claim that only waits. */
void work_talk_cancel_poll(struct work *w);
