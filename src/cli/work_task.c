#include "cli/work.h"

#include "base/clock.h"
#include "base/mem.h"
#include "cli/text.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EX_DATA_ERROR = 65 };

void task_init(struct task *task) {
    *task = (struct task){.pid = -1, .pidfd = -1, .stdin_fd = -1, .stderr_fd = -1};
    buf_init(&task->payload, CALL_REPLY_MAX);
    buf_init(&task->environment, TEXT_BYTES_MAX);
    buf_init(&task->error, 4 * (size_t)WORK_TAIL_BYTES);
    task_free(task);
}

static void close_fd(int *fd) {
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

void task_release(struct task *task) {
    close_fd(&task->pidfd);
    close_fd(&task->stdin_fd);
    close_fd(&task->stderr_fd);
    buf_release(&task->payload);
    buf_release(&task->environment);
    buf_release(&task->error);
}

/* Forgets the run of a child. */
static void forget_run(struct task *task) {
    task->payload_written = 0;
    task->stderr_bytes = 0;
    task->error_class[0] = '\0';
    buf_clear(&task->error);
}

void task_free(struct task *task) {
    assert(task->pid == -1);
    task->state = TASK_FREE;
    task->renew_at_ms = task->limit_at_ms = TIME_NEVER;
    task->kill_at_ms = task->drain_until_ms = task->again_at_ms = TIME_NEVER;
    task->is_timed_out = task->is_abandoned = task->is_lost = false;
    task->was_sent = false;
    buf_release(&task->payload); /* a free task keeps no memory: the next payload may be small */
    buf_release(&task->environment);
    forget_run(task);
}

/* -- the environment of a child -------------------------------------------------------------- */

static void add_text(struct task *task, const char *name, struct span value) {
    if (memchr(value.n > 0 ? (const void *)value.p : "", '\0', value.n) != NULL)
        return; /* no variable can hold it; NIXIE_HEADERS does, escaped */
    buf_add_str(&task->environment, name);
    buf_add_byte(&task->environment, '=');
    buf_add_span(&task->environment, value);
    buf_add_byte(&task->environment, '\0');
    task->environment_count++;
}

static void add_json(struct task *task, const char *name, const struct json *v) {
    struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    json_dump(v, &text);
    add_text(task, name, buf_span(&text));
    buf_release(&text);
}

static bool add_header(void *ctx, const char *name, const struct json *value) {
    struct task *task = ctx;
    struct buf variable;
    buf_init(&variable, TEXT_BYTES_MAX);
    buf_add_str(&variable, "NIXIE_HEADER_");
    for (const char *p = name; *p != '\0'; p++) {
        bool is_plain =
            (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9');
        buf_add_byte(&variable, (uint8_t)(is_plain ? toupper((unsigned char)*p) : '_'));
    }
    buf_add_byte(&variable, '\0');
    if (json_is(value, JSON_STRING))
        add_text(task, (const char *)variable.p, json_string(value));
    else
        add_json(task, (const char *)variable.p, value);
    buf_release(&variable);
    return true;
}

/* Those of a message; what we inherited of them (a worker inside a worker) is not passed on. */
static bool variable_is_ours(const char *variable) {
    static const char *const ours[] = {
        "NIXIE_ID=",  "NIXIE_QUEUE=",   "NIXIE_ATTEMPT=", "NIXIE_LEASE=",
        "NIXIE_KEY=", "NIXIE_HEADERS=", "NIXIE_HEADER_"};
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++) {
        if (strncmp(variable, ours[i], strlen(ours[i])) == 0)
            return true;
    }
    return false;
}

static void build_environment(const struct work *w, struct task *task, const struct json *message) {
    const struct json *attempt = json_get(message, "attempt"), *key = json_get(message, "key"),
                      *headers = json_get(message, "headers");
    task->environment_count = 0;
    char id[24];
    (void)snprintf(id, sizeof id, "%llu", (unsigned long long)task->id);
    add_text(task, "NIXIE_ID", span_str(id));
    add_text(task, "NIXIE_QUEUE", span_str(w->queue));
    add_text(task, "NIXIE_LEASE", span_str(task->lease));
    if (json_is(attempt, JSON_INTEGER))
        add_json(task, "NIXIE_ATTEMPT", attempt);
    if (json_is(key, JSON_STRING))
        add_text(task, "NIXIE_KEY", json_string(key));
    if (json_is(headers, JSON_OBJECT)) {
        add_json(task, "NIXIE_HEADERS", headers);
        (void)json_each(headers, add_header, task);
    } else {
        add_text(task, "NIXIE_HEADERS", span_str("{}"));
    }
}

/* What posix_spawn wants. The array is the caller's to free; the strings stay where they are. */
static char **environment_array(const struct task *task) {
    size_t inherited = 0, n = 0;
    while (environ[inherited] != NULL)
        inherited++;
    char **array = mem_alloc((inherited + task->environment_count + 1) * sizeof *array);
    for (size_t i = 0; i < inherited; i++) {
        if (!variable_is_ours(environ[i]))
            array[n++] = environ[i];
    }
    char *p = (char *)task->environment.p;
    for (size_t i = 0; i < task->environment_count; i++, p += strlen(p) + 1)
        array[n++] = p;
    return array;
}

/* -- starting -------------------------------------------------------------------------------- */

/* The child gets its pipes as 0 and 2, our stdout as 1, and nothing else; the signals that we were
 * started with; a process group of its own, so that it is ended with its children, and a Ctrl-C at
 * the terminal is for us alone. */
static int spawn(const struct work *w, struct task *task, int in, int err, char **env) {
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t ignored; /* by us */
    (void)sigemptyset(&ignored);
    (void)sigaddset(&ignored, SIGPIPE);
    int e = posix_spawn_file_actions_init(&files);
    if (e != 0)
        return e;
    e = posix_spawnattr_init(&attributes);
    if (e != 0) {
        (void)posix_spawn_file_actions_destroy(&files);
        return e;
    }
    if ((e = posix_spawn_file_actions_adddup2(&files, in, STDIN_FILENO)) == 0 &&
        (e = posix_spawn_file_actions_adddup2(&files, err, STDERR_FILENO)) == 0 &&
        (e = posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1)) == 0 &&
        (e = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                                       POSIX_SPAWN_SETSIGDEF)) == 0 &&
        (e = posix_spawnattr_setpgroup(&attributes, 0)) == 0 &&
        (e = posix_spawnattr_setsigmask(&attributes, &w->signals_before)) == 0 &&
        (e = posix_spawnattr_setsigdefault(&attributes, &ignored)) == 0)
        e = posix_spawnp(&task->pid, w->command[0], &files, &attributes, w->command, env);
    (void)posix_spawnattr_destroy(&attributes);
    (void)posix_spawn_file_actions_destroy(&files);
    return e;
}

/* 0, or an errno; then nothing runs and nothing is open. */
static int start_child(const struct work *w, struct task *task, int64_t now_ms) {
    int in[2] = {-1, -1}, err[2] = {-1, -1}, e = 0;
    char **array = environment_array(task);
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0 ||
        fcntl(in[1], F_SETFL, O_NONBLOCK) != 0 || fcntl(err[0], F_SETFL, O_NONBLOCK) != 0)
        e = errno;
    if (e == 0)
        e = spawn(w, task, in[0], err[1], array);
    if (e != 0)
        task->pid = -1;
    if (e == 0) {
        task->pidfd = pidfd_open(task->pid, 0);
        if (task->pidfd < 0) {
            e = errno;
            (void)kill(-task->pid, SIGKILL);
            (void)waitpid(task->pid, NULL, 0);
            task->pid = -1;
        }
    }
    close_fd(&in[0]);
    close_fd(&err[1]);
    if (e == 0) {
        task->stdin_fd = in[1];
        task->stderr_fd = err[0];
        task->limit_at_ms = w->kill_after_s > 0 ? now_ms + w->kill_after_s * 1000 : TIME_NEVER;
    } else {
        close_fd(&in[1]);
        close_fd(&err[0]);
    }
    free(array);
    return e;
}

static bool read_message(struct task *task, const struct json *message) {
    const struct json *id = json_get(message, "id"), *lease = json_get(message, "lease");
    const struct json *payload = json_get(message, "payload"),
                      *base64 = json_get(message, "payload_base64");
    if (!json_is(id, JSON_INTEGER) || json_integer(id) < 1 || json_integer(id) > (int64_t)LIMIT_ID)
        return false;
    if (!json_is(lease, JSON_STRING) || json_string(lease).n > WORK_LEASE_TOKEN_BYTES_MAX ||
        memchr(json_string(lease).p, '\0', json_string(lease).n) != NULL)
        return false;
    if (json_is(payload, JSON_STRING))
        buf_add_span(&task->payload, json_string(payload));
    else if (!json_is(base64, JSON_STRING) ||
             base64_decode(json_string(base64), &task->payload) != OK)
        return false;
    task->id = (uint64_t)json_integer(id);
    memcpy(task->lease, json_string(lease).p, json_string(lease).n);
    task->lease[json_string(lease).n] = '\0';
    return true;
}

bool task_start(struct work *w, struct task *task, const struct json *message, int64_t now_ms) {
    assert(task->state == TASK_FREE);
    if (!read_message(task, message)) {
        task_free(task);
        return false;
    }
    task->renew_at_ms = now_ms + w->lease_s * 1000 / 3;
    task->state = TASK_DONE;
    task->outcome = OUTCOME_RELEASE;
    if (work_is_stopping(w))
        return true;
    build_environment(w, task, message);
    int e = start_child(w, task, now_ms);
    if (e == 0) {
        task->state = TASK_RUNNING;
        task->runs_left = w->retry_now;
        return true;
    }
    work_say(w, "cannot start %s: %s", w->command[0], strerror(e));
    if (e == EAGAIN || e == ENOMEM || e == EMFILE || e == ENFILE) { /* it may pass */
        w->claim_hold_until_ms = now_ms + WORK_SPAWN_HOLD_MS;
    } else if (e == E2BIG) { /* it is this message's fault: its headers */
        task->outcome = OUTCOME_FAIL;
        (void)snprintf(task->error_class, sizeof task->error_class, "E2BIG");
        buf_add_str(&task->error, "the headers do not fit into an environment");
    } else {
        w->failure = CLI_FAILED;
    }
    return true;
}

/* -- while it runs --------------------------------------------------------------------------- */

static void feed(struct task *task) {
    while (task->stdin_fd >= 0) {
        size_t left = task->payload.n - task->payload_written;
        ssize_t n =
            left > 0 ? write(task->stdin_fd, task->payload.p + task->payload_written, left) : 0;
        if (n > 0)
            task->payload_written += (size_t)n;
        else if (n == 0)
            close_fd(&task->stdin_fd); /* all of it */
        else if (errno == EAGAIN)
            return;
        else if (errno != EINTR)
            close_fd(&task->stdin_fd); /* EPIPE: it does not want the rest, which is its right */
    }
}

static void keep_tail(struct task *task, const uint8_t *p, size_t n) {
    for (size_t i = 0; i < n; i++)
        task->tail[(task->stderr_bytes + i) % WORK_TAIL_BYTES] = p[i];
    task->stderr_bytes += n;
}

static bool our_stderr_takes_more(void) {
    struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
    return poll(&p, 1, 0) > 0;
}

/* Passes stderr on, at most PIPE_BUF bytes at a time: a pipe that is ready takes that much without
 * blocking. Whoever reads ours slowly slows the child down, not us. With is_last what does not fit
 * is kept only as the tail. True when there is nothing more to read now. */
static bool pass_stderr(struct work *w, struct task *task, bool is_last) {
    uint8_t chunk[PIPE_BUF];
    for (unsigned turns = 0; task->stderr_fd >= 0 && turns < 16; turns++) {
        bool is_ready = our_stderr_takes_more();
        if (!is_ready && !is_last) {
            w->is_stderr_blocked = true;
            return false;
        }
        ssize_t n = read(task->stderr_fd, chunk, sizeof chunk);
        if (n > 0) {
            keep_tail(task, chunk, (size_t)n);
            if (is_ready)
                (void)!write(STDERR_FILENO, chunk, (size_t)n);
        } else if (n < 0 && errno == EAGAIN) {
            return true;
        } else if (n == 0 || errno != EINTR) {
            close_fd(&task->stderr_fd);
        }
    }
    return task->stderr_fd < 0;
}

void task_kill(struct task *task) {
    if (task->pid > 0)
        (void)kill(-task->pid, SIGKILL);
}

void task_terminate(struct task *task, int64_t now_ms) {
    if (task->pid > 0 && task->kill_at_ms == TIME_NEVER) {
        (void)kill(-task->pid, SIGTERM);
        task->kill_at_ms = now_ms + WORK_GRACE_MS;
    }
}

/* -- its end --------------------------------------------------------------------------------- */

void task_add_detail(const struct task *task, struct buf *out) {
    struct buf bytes;
    buf_init(&bytes, WORK_TAIL_BYTES);
    uint64_t kept = task->stderr_bytes < WORK_TAIL_BYTES ? task->stderr_bytes : WORK_TAIL_BYTES;
    for (uint64_t i = task->stderr_bytes - kept; i < task->stderr_bytes; i++)
        buf_add_byte(&bytes, task->tail[i % WORK_TAIL_BYTES]);
    struct span text = buf_span(&bytes);
    /* The cut may have gone through a character. */
    for (int i = 0; i < 3 && task->stderr_bytes > kept && text.n > 0 && (text.p[0] & 0xc0) == 0x80;
         i++)
        text = span_of(text.p + 1, text.n - 1);
    text_add_utf8(text, out);
    buf_release(&bytes);
}

static bool is_blank(uint8_t c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* The last line of stderr that is not blank; empty when there is none. */
static void add_last_line(const struct task *task, struct buf *out) {
    struct buf detail;
    buf_init(&detail, 4 * (size_t)WORK_TAIL_BYTES);
    task_add_detail(task, &detail);
    size_t end = detail.n;
    while (end > 0 && is_blank(detail.p[end - 1]))
        end--;
    size_t start = end;
    while (start > 0 && detail.p[start - 1] != '\n')
        start--;
    if (end > start)
        buf_add_span(out, span_cut_utf8(span_of(detail.p + start, end - start), LIMIT_ERROR));
    buf_release(&detail);
}

static void name_signal(int signal, char *ret, size_t size) {
    const char *name = sigabbrev_np(signal);
    if (name != NULL)
        (void)snprintf(ret, size, "SIG%s", name);
    else
        (void)snprintf(ret, size, "signal %d", signal);
}

static void decide(const struct work *w, struct task *task, const siginfo_t *info) {
    bool exited = info->si_code == CLD_EXITED;
    char how[80];
    task->outcome = OUTCOME_FAIL;
    if (task->is_lost) {
        task->outcome = OUTCOME_LOST;
    } else if (task->is_abandoned) {
        task->outcome = OUTCOME_RELEASE;
    } else if (task->is_timed_out) {
        (void)snprintf(task->error_class, sizeof task->error_class, "timeout");
        (void)snprintf(how, sizeof how, "ended because it ran longer than %lld s",
                       (long long)w->kill_after_s);
        buf_add_str(&task->error, how); /* its own last words were not about this */
    } else if (exited && info->si_status == 0) {
        task->outcome = OUTCOME_SUCCEED;
    } else if (exited) {
        task->outcome = info->si_status == EX_DATA_ERROR ? OUTCOME_FAIL_PERMANENT : OUTCOME_FAIL;
        (void)snprintf(task->error_class, sizeof task->error_class, "exit %d", info->si_status);
        (void)snprintf(how, sizeof how, "ended with exit status %d", info->si_status);
    } else {
        name_signal(info->si_status, task->error_class, sizeof task->error_class);
        (void)snprintf(how, sizeof how, "killed by %s", task->error_class);
    }
    if (task->error_class[0] != '\0' && task->error.n == 0) {
        add_last_line(task, &task->error);
        if (task->error.n == 0)
            buf_add_str(&task->error, how);
    }
}

/* Whether the command is run again at once: it failed by itself, in a way that may pass. */
static bool runs_again(const struct work *w, const struct task *task) {
    return task->outcome == OUTCOME_FAIL && !task->is_timed_out && task->runs_left > 0 &&
           !work_is_stopping(w);
}

static void finish(struct task *task) {
    task->state = TASK_DONE;
    task->again_at_ms = TIME_NEVER;
    buf_release(&task->payload);
    buf_release(&task->environment);
}

/* Between two runs. When there is no other run, the last one's result stands. */
static void run_again(struct work *w, struct task *task, int64_t now_ms) {
    if (task->is_lost) {
        task->outcome = OUTCOME_LOST;
        finish(task);
    } else if (work_is_stopping(w)) {
        finish(task);
    } else if (now_ms >= task->again_at_ms) {
        int e = start_child(w, task, now_ms);
        if (e != 0) {
            work_say(w, "cannot start %s again: %s", w->command[0], strerror(e));
            finish(task);
            return;
        }
        task->again_at_ms = TIME_NEVER;
        forget_run(task);
    }
}

/* The child has ended when its pidfd says so, whoever still holds its pipes. Its last words may
 * have to wait for our reader, not for long. */
static void notice_end(struct work *w, struct task *task, int64_t now_ms) {
    siginfo_t info = {.si_pid = 0};
    if (waitid(P_PIDFD, (id_t)task->pidfd, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid == 0)
        return;
    if (task->drain_until_ms == TIME_NEVER)
        task->drain_until_ms = now_ms + WORK_DRAIN_MS;
    if (!pass_stderr(w, task, now_ms >= task->drain_until_ms) && now_ms < task->drain_until_ms)
        return;
    if (task->kill_at_ms != TIME_NEVER)
        task_kill(task); /* it was to end: with all it started */
    (void)waitid(P_PIDFD, (id_t)task->pidfd, &info, WEXITED | WNOHANG);
    task->pid = -1;
    close_fd(&task->pidfd);
    close_fd(&task->stdin_fd);
    close_fd(&task->stderr_fd);
    task->limit_at_ms = task->kill_at_ms = task->drain_until_ms = TIME_NEVER;
    decide(w, task, &info);
    if (!runs_again(w, task)) {
        finish(task);
        return;
    }
    task->runs_left--;
    task->again_at_ms = now_ms + w->retry_now_delay_ms;
    work_note(w, "%llu: failed (%s), run again", (unsigned long long)task->id, task->error_class);
}

void task_turn(struct work *w, struct task *task, int64_t now_ms) {
    if (task->state != TASK_RUNNING)
        return;
    if (task->again_at_ms != TIME_NEVER) {
        run_again(w, task, now_ms);
        return;
    }
    feed(task);
    (void)pass_stderr(w, task, false);
    notice_end(w, task, now_ms);
    if (now_ms >= task->limit_at_ms) {
        task->limit_at_ms = TIME_NEVER;
        task->is_timed_out = true;
        task_terminate(task, now_ms);
    }
    if (now_ms >= task->kill_at_ms) {
        task_kill(task);
        task->kill_at_ms = now_ms + WORK_GRACE_MS; /* set still: it was to end */
    }
}
