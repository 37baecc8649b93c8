#include "cli/progress.h"

#include "base/clock.h"
#include "cli/job.h"
#include "cli/text.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum {
    WAIT_FIRST_MS = 50, /* doubled from look to look: a small job ends at once */
    WAIT_MS = 1000,
    RATE_US = 500000, /* over less than that no rate is told */
};

/* -- the line -------------------------------------------------------------------------------- */

static void clear_line(struct progress *p) {
    if (p->has_line)
        (void)fputs("\r\x1b[K", stderr);
    p->has_line = false;
}

static void draw_line(struct progress *p, struct span text) {
    struct winsize size;
    struct buf line;
    size_t columns =
        ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
    buf_init(&line, TEXT_BYTES_MAX);
    buf_add_str(&line, "\r\x1b[K");
    text_add_clipped(text, columns - 1, &line);
    (void)fwrite(line.p, 1, line.n, stderr);
    (void)fflush(stderr);
    buf_release(&line);
    p->has_line = true;
}

/* The line stays, and what follows begins on the next. */
static void keep_line(struct progress *p) {
    if (p->has_line)
        (void)fputc('\n', stderr);
    p->has_line = false;
}

/* -- warnings -------------------------------------------------------------------------------- */

static void warnings_read(struct warnings *w, const struct json *job) {
    const struct json *list = json_get(job, "warnings");
    struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    *w = (struct warnings){.n = 0};
    for (size_t i = 0; json_is(list, JSON_ARRAY) && i < json_count(list) && w->n < WARNINGS_MAX;
         i++) {
        buf_clear(&text);
        text_escape(call_text(json_at(list, i), "message"), TEXT_ONE_LINE, &text);
        struct span kept = span_cut_utf8(buf_span(&text), WARNING_SIZE - 1);
        (void)snprintf(w->texts[w->n++], WARNING_SIZE, "%.*s", (int)kept.n, (const char *)kept.p);
    }
    buf_release(&text);
}

/* The same words, but for those of digits alone: they count letters. */
static bool is_same_warning(const char *a, const char *b) {
    while (*a != '\0' && *b != '\0') {
        size_t n = strcspn(a, " "), m = strcspn(b, " ");
        bool are_counts = strspn(a, "0123456789") == n && strspn(b, "0123456789") == m;
        if (!are_counts && (n != m || memcmp(a, b, n) != 0))
            return false;
        a += n + (a[n] == ' ');
        b += m + (b[m] == ' ');
    }
    return *a == *b;
}

static bool warnings_have(const struct warnings *w, const char *text) {
    size_t i = 0;
    while (i < w->n && !is_same_warning(w->texts[i], text))
        i++;
    return i < w->n;
}

static bool warnings_cover(const struct warnings *w, const struct warnings *of) {
    size_t i = 0;
    while (i < of->n && warnings_have(w, of->texts[i]))
        i++;
    return i == of->n;
}

static void warnings_update(struct warnings *w, const struct warnings *now, const struct cli *cli) {
    for (size_t i = 0; i < w->n; i++) {
        if (!warnings_have(now, w->texts[i]))
            cli_note(cli, "no longer: %s", w->texts[i]);
    }
    for (size_t i = 0; i < now->n; i++) {
        if (!warnings_have(w, now->texts[i]))
            cli_note(cli, "warning: %s", now->texts[i]);
    }
    *w = *now;
}

void warnings_say(struct warnings *w, const struct cli *cli, const struct json *job) {
    struct warnings now;
    warnings_read(&now, job);
    warnings_update(w, &now, cli);
}

/* -- what is shown --------------------------------------------------------------------------- */

/* Sent, for a redrive; else discarded. */
static uint64_t moved(const struct json *job) {
    return job_number(job, job_is_redrive(job) ? "sent" : "discarded");
}

static void take_sample(struct progress *p, const struct json *job, int64_t now_us) {
    if (p->sample_count == PROGRESS_SAMPLES) {
        memmove(p->samples, p->samples + 1, sizeof p->samples - sizeof p->samples[0]);
        p->sample_count--;
    }
    p->samples[p->sample_count].at_us = now_us;
    p->samples[p->sample_count].moved = moved(job);
    p->sample_count++;
}

/* Letters a second over the samples; negative: not known yet. */
static double rate_of(const struct progress *p) {
    int64_t us = p->samples[p->sample_count - 1].at_us - p->samples[0].at_us;
    uint64_t from = p->samples[0].moved, to = p->samples[p->sample_count - 1].moved;
    return us < RATE_US || to < from ? -1 : (double)(to - from) * 1e6 / (double)us;
}

static void add_rate(double rate, struct buf *out) {
    if (rate < 10) {
        buf_printf(out, " | %.1f/s", rate);
    } else {
        buf_add_str(out, " | ");
        text_add_grouped((uint64_t)(rate + 0.5), out);
        buf_add_str(out, "/s");
    }
}

/* Only while letters are on their way: a sample waits for outcomes, whose time nobody knows. */
static void add_pace(const struct progress *p, const struct json *job, struct buf *out) {
    const struct json *limit = json_get(job, "rate");
    double rate = rate_of(p), left = (double)job_number(job, "remaining");
    if (job_state(job) != JOB_RUNNING || left <= 0)
        return;
    if (rate >= 0)
        add_rate(rate, out);
    else if (json_is(limit, JSON_INTEGER) || json_is(limit, JSON_REAL))
        rate = json_number(limit);
    if (rate > 0 && left / rate < 1e9) {
        buf_add_str(out, " | ETA ");
        text_add_duration(1000 * (int64_t)(left / rate + 0.5), out);
    }
}

static void show_json(const struct json *job) {
    struct buf plain, text;
    buf_init(&plain, TEXT_BYTES_MAX);
    buf_init(&text, TEXT_BYTES_MAX);
    json_dump(job, &plain);
    text_add_json(buf_span(&plain), false, 0, &text);
    buf_add_byte(&text, '\n');
    (void)fwrite(text.p, 1, text.n, stderr);
    buf_release(&plain);
    buf_release(&text);
}

/* Only when all letters are known: until then each look changes what is true of them. */
static void show_warnings(struct progress *p, const struct json *job) {
    struct warnings now;
    warnings_read(&now, job);
    if (warnings_cover(&now, &p->warnings) && warnings_cover(&p->warnings, &now))
        return;
    clear_line(p);
    warnings_update(&p->warnings, &now, p->r->cli);
}

static void show_text(struct progress *p, const struct json *job, bool is_new_state) {
    struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    text_escape(span_str(p->state), TEXT_ONE_LINE, &text);
    buf_add_str(&text, " | ");
    job_add_counts(job, &text);
    add_pace(p, job, &text);
    if (p->is_terminal)
        draw_line(p, buf_span(&text));
    else if (is_new_state)
        cli_note(p->r->cli, "job %llu: %.*s", (unsigned long long)p->id, (int)text.n,
                 (const char *)text.p);
    buf_release(&text);
}

static void show(struct progress *p) {
    const struct json *job = p->r->reply, *selecting = json_get(job, "selecting");
    int64_t now_us = clock_monotonic_us();
    bool is_selecting = json_is(selecting, JSON_BOOL) && json_bool(selecting) && !job_is_over(job);
    struct span state = is_selecting ? span_str("selecting") : call_text(job, "state");
    state = span_cut_utf8(state, sizeof p->state - 1);
    bool is_new_state = !span_equal_str(state, p->state);
    (void)snprintf(p->state, sizeof p->state, "%.*s", (int)state.n, (const char *)state.p);
    if (is_new_state)
        p->sample_count = 0;
    take_sample(p, job, now_us);
    if (p->r->cli->quiet)
        return;
    if (!p->is_json && !is_selecting && !job_is_over(job))
        show_warnings(p, job);
    if (!p->is_json)
        show_text(p, job, is_new_state);
    else if (is_new_state || now_us - p->shown_us >= WAIT_MS * INT64_C(1000))
        show_json(job);
    else
        return;
    p->shown_us = now_us;
}

/* -- waiting, until Ctrl-C ------------------------------------------------------------------- */

/* As a shell has it for what runs in the background. */
static bool interrupt_is_ignored(void) {
    struct sigaction action;
    return sigaction(SIGINT, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

int progress_check(const struct cli *cli, const char *format) {
    if (format != NULL && strcmp(format, "json") != 0)
        return cli_usage_error(cli, "--progress %s: must be json", format);
    return -1;
}

void progress_begin(struct progress *p, struct call *r, const char *format) {
    *p = (struct progress){.r = r,
                           .is_json = format != NULL,
                           .is_terminal = isatty(STDERR_FILENO),
                           .multi = curl_multi_init(),
                           .signal_fd = -1};
    assert(p->multi != NULL);
    (void)sigprocmask(SIG_BLOCK, NULL, &p->signals_before);
    if (!interrupt_is_ignored()) {
        sigset_t interrupt;
        (void)sigemptyset(&interrupt);
        (void)sigaddset(&interrupt, SIGINT);
        p->signal_fd = signalfd(-1, &interrupt, SFD_CLOEXEC | SFD_NONBLOCK);
        if (p->signal_fd >= 0) /* else it ends the process, as it always does */
            (void)sigprocmask(SIG_BLOCK, &interrupt, NULL);
    }
}

int progress_end(struct progress *p, int code) {
    curl_multi_cleanup(p->multi);
    if (p->signal_fd >= 0)
        (void)close(p->signal_fd);
    (void)sigprocmask(SIG_SETMASK, &p->signals_before, NULL);
    if (p->is_interrupted) {
        (void)fflush(NULL);
        (void)signal(SIGINT, SIG_DFL);
        (void)raise(SIGINT);
    }
    return code;
}

static bool take_interrupt(struct progress *p) {
    struct signalfd_siginfo info;
    if (p->signal_fd >= 0 && read(p->signal_fd, &info, sizeof info) == (ssize_t)sizeof info)
        p->is_interrupted = true;
    return p->is_interrupted;
}

static void wait_some(struct progress *p, int ms) {
    struct curl_waitfd fd = {.fd = p->signal_fd, .events = CURL_WAIT_POLLIN};
    (void)curl_multi_poll(p->multi, &fd, p->signal_fd >= 0 ? 1 : 0, ms, NULL);
}

/* False when it was interrupted. */
static bool wait_ms(struct progress *p, int64_t ms) {
    int64_t now_us = clock_monotonic_us(), end_us = now_us + ms * 1000;
    for (; now_us < end_us && !take_interrupt(p); now_us = clock_monotonic_us())
        wait_some(p, (int)((end_us - now_us + 999) / 1000));
    return !p->is_interrupted;
}

/* call_run, unless it is interrupted before it came to its end: then false. */
static bool run(struct progress *p, const char *method) {
    CURLcode result = CURLE_ABORTED_BY_CALLBACK;
    int left = 1, queued;
    call_prepare(p->r, method, 0);
    CURLMcode added = curl_multi_add_handle(p->multi, p->r->easy);
    assert(added == CURLM_OK);
    for (;;) {
        (void)curl_multi_perform(p->multi, &left);
        if (left == 0 || take_interrupt(p))
            break;
        wait_some(p, WAIT_MS);
    }
    const CURLMsg *message = curl_multi_info_read(p->multi, &queued);
    if (message != NULL)
        result = message->data.result;
    (void)curl_multi_remove_handle(p->multi, p->r->easy);
    call_complete(p->r, result);
    return left == 0;
}

int progress_run(struct progress *p, const char *method) {
    if (run(p, method))
        return -1;
    cli_error(p->r->cli, "interrupted before the server answered: nixie jobs tells whether it made "
                         "the job");
    return CLI_FAILED;
}

/* -- following ------------------------------------------------------------------------------- */

static void say_how_to_go_on(const struct progress *p, const char *what) {
    unsigned long long id = p->id;
    cli_note(p->r->cli,
             "%s\n  nixie jobs %llu --watch    watch it\n  nixie jobs %llu --pause    hold it\n"
             "  nixie jobs %llu --cancel   end it",
             what, id, id, id);
}

static int detach(struct progress *p) {
    char what[80];
    (void)snprintf(what, sizeof what, "job %llu goes on at the server", (unsigned long long)p->id);
    keep_line(p);
    say_how_to_go_on(p, what);
    return CLI_FAILED;
}

static bool is_away(const struct call *r) {
    return (r->status == 0 && !r->is_too_long) || r->status == 503;
}

/* Asks for the job again. A server that is away may be restarting: its jobs are durable. */
static int look(struct progress *p) {
    int64_t start_us = clock_monotonic_us(), patience_us = p->r->cli->timeout_s * 1000000;
    bool is_said = false;
    for (int64_t pause_ms = WAIT_FIRST_MS;;
         pause_ms = pause_ms < WAIT_MS ? 2 * pause_ms : WAIT_MS) {
        call_begin(p->r);
        buf_printf(&p->r->path, "/%s/%llu", p->is_redrive ? "redrives" : "discards",
                   (unsigned long long)p->id);
        if (!run(p, "GET"))
            return detach(p);
        if (!is_away(p->r) || clock_monotonic_us() - start_us >= patience_us)
            break;
        if (!is_said) {
            clear_line(p);
            cli_note(p->r->cli, "the server does not answer; trying again for %lld s",
                     (long long)p->r->cli->timeout_s);
        }
        is_said = true;
        if (!wait_ms(p, pause_ms))
            return detach(p);
    }
    if (!call_is_success(p->r))
        clear_line(p);
    char what[40];
    (void)snprintf(what, sizeof what, "job %llu", (unsigned long long)p->id);
    return call_check(p->r, what);
}

/* -1 when the reply is a job. */
static int check_job(struct progress *p) {
    p->id = job_number(p->r->reply, "id");
    p->is_redrive = job_is_redrive(p->r->reply);
    if (p->id > 0 && call_text(p->r->reply, "state").n > 0)
        return -1;
    cli_error(p->r->cli, "what the server sent is no job: is that a Nixie server?");
    return CLI_FAILED;
}

static void say_begun(const struct progress *p) {
    if (p->is_terminal && !p->is_json && !job_is_over(p->r->reply))
        cli_note(p->r->cli, "job %llu (Ctrl-C ends watching it, not the job)",
                 (unsigned long long)p->id);
}

static void say_stopped(const struct progress *p) {
    if (job_state(p->r->reply) == JOB_STOPPED && !p->is_json)
        cli_note(p->r->cli,
                 "it stopped by itself; nixie jobs %llu --resume goes on, --cancel ends it",
                 (unsigned long long)p->id);
}

int progress_follow(struct progress *p) {
    int code = check_job(p);
    if (code < 0)
        say_begun(p);
    for (int64_t pause_ms = WAIT_FIRST_MS; code < 0;
         pause_ms = pause_ms < WAIT_MS / 2 ? 2 * pause_ms : WAIT_MS) {
        show(p);
        if (job_is_over(p->r->reply)) {
            keep_line(p);
            say_stopped(p);
            return job_print_end(p->r->cli, p->r->reply);
        }
        code = wait_ms(p, pause_ms) ? look(p) : detach(p);
        if (code < 0)
            code = check_job(p);
    }
    keep_line(p);
    return code;
}
