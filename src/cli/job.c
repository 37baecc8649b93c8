#include "cli/job.h"

#include "cli/call.h"
#include "cli/out.h"
#include "cli/text.h"

#include <stdio.h>

uint64_t job_number(const struct json *job, const char *name) {
    int64_t n = call_number(job, name, 0);
    return n > 0 ? (uint64_t)n : 0;
}

int job_state(const struct json *job) {
    return job_state_parse(call_text(job, "state"));
}

bool job_is_redrive(const struct json *job) {
    return span_equal_str(call_text(job, "kind"), job_kind_name(JOB_REDRIVE));
}

bool job_is_over(const struct json *job) {
    int state = job_state(job);
    return state == JOB_STOPPED || state == JOB_CANCELLED || state == JOB_DONE;
}

/* -- words ----------------------------------------------------------------------------------- */

static void add_count(uint64_t n, const char *word, struct buf *out) {
    buf_add_str(out, " | ");
    text_add_grouped(n, out);
    buf_add_byte(out, ' ');
    buf_add_str(out, word);
}

static void add_rare(uint64_t n, const char *word, struct buf *out) {
    if (n > 0)
        add_count(n, word, out);
}

void job_add_counts(const struct json *job, struct buf *out) {
    text_add_grouped(job_number(job, "selected"), out);
    buf_add_str(out, " selected");
    if (job_is_redrive(job)) {
        add_count(job_number(job, "sent"), "sent", out);
        add_count(job_number(job, "succeeded"), "ok", out);
        add_count(job_number(job, "died_again"), "died", out);
        add_rare(job_number(job, "open"), "open", out);
        add_rare(job_number(job, "discarded"), "discarded", out);
    } else {
        add_count(job_number(job, "discarded"), "discarded", out);
    }
    add_rare(job_number(job, "skipped"), "skipped", out);
}

static const char *skip_words(const char *name) {
    static const char *const words[SKIP_COUNT] = {
        [SKIP_OTHER_JOB] = "taken by another job",
        [SKIP_REDRIVE_LIMIT] = "at their redrive limit",
        [SKIP_EDITED] = "replaced by an edited copy",
        [SKIP_REPLAYED] = "replayed by somebody",
        [SKIP_UNPATCHABLE] = "that the patch does not fit",
    };
    for (int i = 0; i < SKIP_COUNT; i++) {
        if (span_equal_str(span_str(name), job_skip_name((enum job_skip)i)))
            return words[i];
    }
    return name;
}

static bool add_skip(void *ctx, const char *name, const struct json *count) {
    struct buf *out = ctx;
    if (!json_is(count, JSON_INTEGER) || json_integer(count) <= 0)
        return true;
    if (out->n > 0)
        buf_add_str(out, ", ");
    text_add_grouped((uint64_t)json_integer(count), out);
    buf_add_byte(out, ' ');
    text_escape(span_str(skip_words(name)), TEXT_ONE_LINE, out);
    return true;
}

void job_add_skips(const struct json *job, struct buf *out) {
    const struct json *by = json_get(job, "skipped_by");
    struct buf skips;
    buf_init(&skips, TEXT_BYTES_MAX);
    if (json_is(by, JSON_OBJECT))
        (void)json_each(by, add_skip, &skips);
    buf_add_span(out, buf_span(&skips));
    buf_release(&skips);
}

/* -- the end --------------------------------------------------------------------------------- */

int job_exit_code(const struct json *job) {
    uint64_t selected = job_number(job, "selected");
    if (job_state(job) != JOB_DONE)
        return CLI_PARTLY;
    if (selected == 0)
        return CLI_NOT_FOUND;
    return job_number(job, job_is_redrive(job) ? "succeeded" : "discarded") == selected
               ? CLI_DONE
               : CLI_PARTLY;
}

static void add_escaped(const struct json *job, const char *name, const char *before,
                        struct buf *out) {
    struct span text = call_text(job, name);
    if (text.n > 0) {
        buf_add_str(out, before);
        text_escape(text, TEXT_ONE_LINE, out);
    }
}

/* "  12,418 selected" */
static void add_row(uint64_t n, const char *words, struct buf *out) {
    struct buf number;
    buf_init(&number, 32);
    text_add_grouped(n, &number);
    buf_printf(out, "%11.*s %s\n", (int)number.n, (const char *)number.p, words);
    buf_release(&number);
}

static void add_rows(const struct json *job, struct buf *out) {
    static const struct {
        const char *name, *words;
        bool is_always; /* else only when it is not 0 */
    } rows[] = {
        {"selected", "selected", true},      {"succeeded", "succeeded", false},
        {"died_again", "died again", false}, {"open", "sent, and not finished yet", false},
        {"discarded", "discarded", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t n = job_number(job, rows[i].name);
        if (n > 0 || rows[i].is_always)
            add_row(n, rows[i].words, out);
    }
    if (job_number(job, "remaining") > 0)
        add_row(job_number(job, "remaining"),
                job_is_over(job) ? "not reached: still dead letters" : "to come", out);
    struct buf skips;
    buf_init(&skips, TEXT_BYTES_MAX);
    buf_add_str(&skips, "skipped: ");
    job_add_skips(job, &skips);
    buf_add_byte(&skips, '\0');
    if (job_number(job, "skipped") > 0)
        add_row(job_number(job, "skipped"), (const char *)skips.p, out);
    buf_release(&skips);
    if (job_number(job, "new_since") > 0)
        add_row(job_number(job, "new_since"), "died since then and match: not among them", out);
}

void job_print_counts(const struct json *job) {
    struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    add_escaped(job, "kind", "", &text);
    buf_printf(&text, " %llu", (unsigned long long)job_number(job, "id"));
    add_escaped(job, "queue", " of ", &text);
    add_escaped(job, "to", " to ", &text);
    add_escaped(job, "state", ": ", &text);
    add_escaped(job, "stop_reason", ", ", &text);
    buf_add_byte(&text, '\n');
    add_rows(job, &text);
    (void)fwrite(text.p, 1, text.n, stdout);
    buf_release(&text);
}

int job_print_end(const struct cli *cli, const struct json *job) {
    if (cli->format == FORMAT_TABLE)
        job_print_counts(job);
    else
        out_document(cli, job);
    return out_check(cli, job_exit_code(job));
}
