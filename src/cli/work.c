/* nixie work: the command and its loop. */
#include "cli/work.h"

#include "base/clock.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/options.h"
#include "cli/text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* -- saying ---------------------------------------------------------------------------------- */

static void __attribute__((format(printf, 2, 0)))
say(const struct work *w, const char *format, va_list ap) {
    struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
    char line[PIPE_BUF];
    int n = snprintf(line, sizeof line, "nixie: %s: ", w->cli->command->name);
    int m = vsnprintf(line + n, sizeof line - (size_t)n - 1, format, ap);
    size_t end = (size_t)n + (m > 0 ? (size_t)m : 0);
    if (end > sizeof line - 2)
        end = sizeof line - 2;
    line[end++] = '\n';
    if (poll(&p, 1, 0) > 0)
        (void)!write(STDERR_FILENO, line, end);
}

void work_say(const struct work *w, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    say(w, format, ap);
    va_end(ap);
}

void work_note(const struct work *w, const char *format, ...) {
    if (w->cli->quiet)
        return;
    va_list ap;
    va_start(ap, format);
    say(w, format, ap);
    va_end(ap);
}

/* -- the loop -------------------------------------------------------------------------------- */

static bool all_are(const struct work *w, enum task_state state) {
    for (int64_t i = 0; i < w->task_count; i++) {
        if (w->tasks[i].state != state)
            return false;
    }
    return true;
}

static bool any_is(const struct work *w, enum task_state state) {
    for (int64_t i = 0; i < w->task_count; i++) {
        if (w->tasks[i].state == state)
            return true;
    }
    return false;
}

/* The first stop lets children finish, the second ends them, the third kills them. */
static void stop(struct work *w, int64_t now_ms) {
    w->stops++;
    work_talk_turn(w); /* a message that is here already is given back, not left to its lease */
    work_talk_cancel_poll(w);
    if (w->stops < 3 && !all_are(w, TASK_FREE))
        work_note(w, w->stops == 1 ? "stopping when what runs is done; once more to end it now"
                                   : "ending what runs, and giving its messages back");
    for (int64_t i = 0; w->stops > 1 && i < w->task_count; i++) {
        if (w->tasks[i].state != TASK_RUNNING || w->tasks[i].drain_until_ms != TIME_NEVER)
            continue; /* what has ended has its own result */
        w->tasks[i].is_abandoned = true;
        if (w->stops == 2)
            task_terminate(&w->tasks[i], now_ms);
        else
            task_kill(&w->tasks[i]);
    }
}

static void read_signals(struct work *w, int64_t now_ms) {
    struct signalfd_siginfo info;
    while (read(w->signal_fd, &info, sizeof info) == (ssize_t)sizeof info)
        stop(w, now_ms);
}

static bool is_finished(const struct work *w) {
    if (w->stops > 1 && w->is_unreachable && !any_is(w, TASK_RUNNING))
        return true; /* asked twice: nobody waits for a server that is gone */
    if (!all_are(w, TASK_FREE) || w->settle.is_busy)
        return false;
    if (work_is_stopping(w))
        return true;
    if (w->is_once && w->taken > 0)
        return true;
    return w->is_until_empty && w->is_empty && !w->poll.is_busy;
}

static void earlier(int64_t *at_ms, int64_t other_ms) {
    if (other_ms < *at_ms)
        *at_ms = other_ms;
}

/* When something is due that no descriptor tells of. */
static int64_t next_ms(const struct work *w, int64_t now_ms) {
    int64_t at_ms = TIME_NEVER;
    for (int64_t i = 0; i < w->task_count; i++) {
        const struct task *task = &w->tasks[i];
        earlier(&at_ms, task->limit_at_ms);
        earlier(&at_ms, task->kill_at_ms);
        earlier(&at_ms, task->drain_until_ms);
        earlier(&at_ms, task->again_at_ms);
        if (!w->settle.is_busy && task->renew_at_ms > w->hold_until_ms)
            earlier(&at_ms, task->renew_at_ms);
    }
    if (w->hold_until_ms > now_ms)
        earlier(&at_ms, w->hold_until_ms);
    if (w->claim_hold_until_ms > now_ms)
        earlier(&at_ms, w->claim_hold_until_ms);
    return at_ms;
}

static void watch(struct curl_waitfd *fds, unsigned *n, int fd, short events) {
    if (fd >= 0)
        fds[(*n)++] = (struct curl_waitfd){.fd = fd, .events = events};
}

static void wait_for_something(struct work *w, struct curl_waitfd *fds) {
    int64_t now_ms = clock_monotonic_us() / 1000, at_ms = next_ms(w, now_ms),
            wait_ms = at_ms - now_ms;
    unsigned n = 0;
    watch(fds, &n, w->signal_fd, CURL_WAIT_POLLIN);
    if (w->is_stderr_blocked)
        watch(fds, &n, STDERR_FILENO, CURL_WAIT_POLLOUT);
    for (int64_t i = 0; i < w->task_count; i++) {
        const struct task *task = &w->tasks[i];
        if (task->drain_until_ms == TIME_NEVER)
            watch(fds, &n, task->pidfd, CURL_WAIT_POLLIN);
        watch(fds, &n, task->stdin_fd, CURL_WAIT_POLLOUT);
        if (!w->is_stderr_blocked)
            watch(fds, &n, task->stderr_fd, CURL_WAIT_POLLIN);
    }
    if (wait_ms < 0)
        wait_ms = 0;
    (void)curl_multi_poll(w->multi, fds, n, wait_ms < 60000 ? (int)wait_ms : 60000, NULL);
}

static void loop(struct work *w) {
    struct curl_waitfd *fds = mem_alloc((2 + 3 * (size_t)w->task_count) * sizeof *fds);
    for (;;) {
        int64_t now_ms = clock_monotonic_us() / 1000;
        read_signals(w, now_ms);
        w->is_stderr_blocked = false;
        for (int64_t i = 0; i < w->task_count; i++) {
            struct task *task = &w->tasks[i];
            task_turn(w, task, now_ms);
            if (task->state == TASK_DONE && task->outcome == OUTCOME_LOST) {
                w->lost++;
                w->is_empty = false;
                task_free(task);
            }
        }
        work_talk_start(w, now_ms);
        if (is_finished(w))
            break;
        wait_for_something(w, fds);
        work_talk_turn(w);
    }
    free(fds);
}

/* -- the end --------------------------------------------------------------------------------- */

static void add_count(struct buf *text, uint64_t n, const char *what) {
    if (n > 0)
        buf_printf(text, ", %llu %s", (unsigned long long)n, what);
}

static int summary(const struct work *w) {
    uint64_t undelivered = 0;
    for (int64_t i = 0; i < w->task_count; i++)
        undelivered += w->tasks[i].state != TASK_FREE;
    struct buf text;
    buf_init(&text, 512);
    buf_printf(&text, "%llu succeeded, %llu failed, %llu dead", (unsigned long long)w->succeeded,
               (unsigned long long)w->failed, (unsigned long long)w->dead);
    add_count(&text, w->released, "released");
    add_count(&text, w->lost, "no longer ours");
    add_count(&text, undelivered, "with a result the server did not get");
    work_note(w, "%s: %.*s", w->queue, (int)text.n, (const char *)text.p);
    buf_release(&text);
    if (undelivered > 0)
        return CLI_UNREACHABLE;
    if (w->failure != 0)
        return w->failure;
    return w->is_once && w->taken == 0 && w->stops == 0 ? CLI_NOT_FOUND : CLI_DONE;
}

/* -- the beginning --------------------------------------------------------------------------- */

static bool can_execute(const char *path) {
    return access(path, X_OK) == 0;
}

/* A mistyped command must not cost every message its retries. */
static bool command_exists(const char *command) {
    const char *path = getenv("PATH");
    if (strchr(command, '/') != NULL)
        return can_execute(command);
    if (path == NULL)
        path = "/bin:/usr/bin";
    for (;;) {
        size_t n = strcspn(path, ":");
        struct buf file;
        buf_init(&file, TEXT_BYTES_MAX);
        buf_printf(&file, "%.*s/%s", n > 0 ? (int)n : 1, n > 0 ? path : ".", command);
        buf_add_byte(&file, '\0');
        bool is_there = can_execute((const char *)file.p);
        buf_release(&file);
        if (is_there || path[n] == '\0')
            return is_there;
        path += n + 1;
    }
}

/* HOST:PID, when nothing better was given. */
static const char *default_worker(char *ret, size_t size) {
    char host[65] = "";
    if (gethostname(host, sizeof host - 1) != 0 || !span_is_utf8(span_str(host)))
        host[0] = '\0';
    (void)snprintf(ret, size, "%s:%ld", host, (long)getpid());
    return ret;
}

/* So that no pipe of ours becomes a child's 0, 1 or 2 by accident. */
static void open_standard_fds(void) {
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    while (fd >= 0 && fd <= STDERR_FILENO)
        fd = open("/dev/null", O_RDWR);
    if (fd >= 0)
        (void)close(fd);
}

/* As under nohup(1); signalfd would see it all the same. */
static bool hangup_is_ignored(void) {
    struct sigaction action;
    return sigaction(SIGHUP, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

static int run(struct work *w) {
    sigset_t stopping;
    (void)sigemptyset(&stopping);
    (void)sigaddset(&stopping, SIGTERM);
    (void)sigaddset(&stopping, SIGINT);
    if (!hangup_is_ignored())
        (void)sigaddset(&stopping, SIGHUP);
    open_standard_fds();
    (void)signal(SIGPIPE, SIG_IGN);
    (void)sigprocmask(SIG_BLOCK, &stopping, &w->signals_before);
    w->signal_fd = signalfd(-1, &stopping, SFD_CLOEXEC | SFD_NONBLOCK);
    if (w->signal_fd < 0) {
        cli_error(w->cli, "signalfd: %s", strerror(errno));
        return CLI_FAILED;
    }
    w->tasks = mem_alloc((size_t)w->task_count * sizeof *w->tasks);
    for (int64_t i = 0; i < w->task_count; i++)
        task_init(&w->tasks[i]);
    work_talk_init(w);
    loop(w);
    int code = summary(w);
    work_talk_release(w);
    for (int64_t i = 0; i < w->task_count; i++)
        task_release(&w->tasks[i]);
    free(w->tasks);
    (void)close(w->signal_fd);
    return code;
}

static int read_delay(const struct cli *cli, const char *text, int64_t *ret_ms) {
    if (text == NULL || text_milliseconds(text, 0, WORK_RETRY_NOW_DELAY_MAX_MS, ret_ms) == OK)
        return -1;
    return cli_usage_error(cli, "--retry-now-delay %s: must be from 0 to 1h, as 200ms or 5s", text);
}

int command_work(struct cli *cli, int argc, char **argv) {
    struct work w = {.cli = cli, .task_count = 1, .lease_s = WORK_LEASE_DEFAULT_S};
    const char *delay = NULL;
    const struct option_spec specs[] = {
        {.name = "jobs",
         .letter = 'j',
         .value = "N",
         .number = &w.task_count,
         .min = 1,
         .max = WORK_TASKS_MAX,
         .help = "run N at the same time (default 1)"},
        {.name = "once", .flag = &w.is_once, .help = "one message, then exit; waits for it"},
        {.name = "until-empty",
         .flag = &w.is_until_empty,
         .help = "exit when there is nothing to claim"},
        {.name = "lease",
         .value = "S",
         .seconds = &w.lease_s,
         .min = 1,
         .max = LIMIT_LEASE_SECONDS,
         .help = "claim for S seconds, renewed at a third of it (default 60)"},
        {.name = "kill-after",
         .value = "S",
         .seconds = &w.kill_after_s,
         .min = 1,
         .max = LIMIT_DELAY_SECONDS,
         .help = "end a command that runs longer; its message failed (timeout)"},
        {.name = "retry-now",
         .value = "N",
         .number = &w.retry_now,
         .min = 0,
         .max = WORK_RETRY_NOW_MAX,
         .help = "run a command that failed again, up to N times, as one attempt"},
        {.name = "retry-now-delay",
         .value = "D",
         .text = &delay,
         .help = "after so long, 200ms or 5s (default 0)"},
        {.name = "worker",
         .value = "NAME",
         .text = &w.worker,
         .help = "for the message's story (default HOST:PID)"},
        {.name = "worker-version",
         .value = "V",
         .text = &w.worker_version,
         .help = "and which version of it"},
        OPTION_END,
    };
    char name[LIMIT_WORKER];
    int first;
    int code = options_parse(cli, specs, argc, argv, &first);
    if (code < 0)
        code = input_check_queue(cli, argv[first]);
    if (code < 0)
        code = input_check_text(cli, "--worker", w.worker, LIMIT_WORKER);
    if (code < 0)
        code = input_check_text(cli, "--worker-version", w.worker_version, LIMIT_WORKER);
    if (code < 0)
        code = read_delay(cli, delay, &w.retry_now_delay_ms);
    if (code < 0 && !command_exists(argv[first + 1]))
        code =
            cli_usage_error(cli, "%s: no such program, or it may not be executed", argv[first + 1]);
    if (code >= 0)
        return code;
    w.queue = argv[first];
    w.command = argv + first + 1;
    if (w.worker == NULL)
        w.worker = default_worker(name, sizeof name);
    return run(&w);
}
