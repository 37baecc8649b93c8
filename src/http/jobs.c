/* Jobs over many dead letters: redrives, discards and purges. */
#include "http/front.h"
#include "http/jobs_body.h"
#include "http/query.h"
#include "http/view.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

enum { EXAMPLES = 3, WARNING_SIZE = 640 };

/* -- a job as the API shows it --------------------------------------------------------------- */

static void put_counts(const struct job_counts *counts, struct json_writer *w) {
    view_number(w, "selected", counts->selected);
    view_number(w, "succeeded", counts->succeeded);
    view_number(w, "died_again", counts->died_again);
    view_number(w, "open", counts->open);
    view_number(w, "discarded", counts->discarded);
    view_number(w, "skipped", job_skipped(counts));
    json_name(w, "skipped_by");
    json_begin(w, '{');
    for (int i = 0; i < SKIP_COUNT; i++) {
        if (counts->skipped[i] > 0)
            view_number(w, job_skip_name((enum job_skip)i), counts->skipped[i]);
    }
    json_end(w, '}');
    view_number(w, "remaining", counts->remaining);
}

/* What was asked for. */
static void put_settings(const struct job_view *j, struct json_writer *w) {
    view_text_or_null(w, "queue", j->queue);
    view_text_or_null(w, "to", j->to);
    view_text_or_null(w, "filter", j->filter);
    view_text_or_null(w, "name", j->name);
    view_text_or_null(w, "actor", j->actor);
    view_text_or_null(w, "reason", j->reason);
    if (j->kind == JOB_DISCARD)
        view_str(w, "why", discard_reason_name(j->why));
    view_number(w, "fence", j->fence);
    json_name(w, "rate");
    if (j->rate_milli != 0)
        json_put_double(w, (double)j->rate_milli / 1000);
    else
        json_put_null(w);
    view_number(w, "sample", j->sample);
    json_name(w, "stop_if");
    if (j->stop_if_ppm != STOP_NEVER)
        json_put_double(w, (double)j->stop_if_ppm / 1000000);
    else
        json_put_null(w);
    view_flag(w, "force", j->force);
    view_flag(w, "clear_deaths", j->clear_deaths);
    if (j->patch.n > 0) {
        json_name(w, "patch");
        json_put_raw(w, j->patch);
    }
}

static void put_warning(struct json_writer *w, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void put_warning(struct json_writer *w, const char *code, const char *format, ...) {
    char text[WARNING_SIZE];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    assert(n > 0 && (size_t)n < sizeof text);
    json_begin(w, '{');
    view_str(w, "code", code);
    view_str(w, "message", text);
    json_end(w, '}');
}

static const char *was_or_were(uint64_t count) {
    return count == 1 ? "was" : "were";
}

static void put_warnings(const struct job_view *j, struct json_writer *w) {
    const struct job_warnings *warnings = &j->warnings;
    struct span queue = j->to.n > 0 ? j->to : j->queue; /* that gets the letters */
    const int n = (int)queue.n;
    const char *p = (const char *)queue.p;
    json_name(w, "warnings");
    json_begin(w, '[');
    for (size_t i = 0; warnings->old_version_claims && i < j->version_count; i++) {
        const struct job_version *v = &j->versions[i];
        if (v->is_claiming)
            put_warning(w, "old_version",
                        "workers of version %.*s, which failed %" PRIu64
                        " of these letters, still claim from %.*s",
                        (int)v->name.n, (const char *)v->name.p, v->count, n, p);
    }
    if (warnings->is_paused)
        put_warning(w, "paused", "%.*s is paused: what is sent there waits until it is resumed", n,
                    p);
    if (warnings->has_no_worker)
        put_warning(w, "no_worker",
                    "no worker asked %.*s for work in the last %d seconds: what is sent there "
                    "waits for one",
                    n, p, LIMIT_WORKER_SEEN_MS / 1000);
    uint64_t again = warnings->redriven_before, at_limit = warnings->at_limit;
    if (again > 0)
        put_warning(w, "redriven_before", "%" PRIu64 " of these letters %s sent again before",
                    again, was_or_were(again));
    if (at_limit > 0)
        put_warning(w, "at_limit",
                    "%" PRIu64 " of these letters %s sent again as often as redrive_limit "
                    "allows: %s",
                    at_limit, was_or_were(at_limit),
                    j->force ? "force sends them all the same" : "they are skipped, unless forced");
    json_end(w, ']');
}

static void put_versions(const struct job_view *j, struct json_writer *w) {
    json_name(w, "versions");
    json_begin(w, '[');
    for (size_t i = 0; i < j->version_count; i++) {
        json_begin(w, '{');
        view_text(w, "version", j->versions[i].name);
        view_number(w, "count", j->versions[i].count);
        view_flag(w, "claiming", j->versions[i].is_claiming);
        json_end(w, '}');
    }
    json_end(w, ']');
}

enum shown {
    SHOWN_WHOLE,
    SHOWN_LISTED, /* new_since was not counted */
    SHOWN_PLAN,   /* there is no such job */
};

static void put_members(const struct job_view *j, enum shown shown, struct json_writer *w) {
    if (shown != SHOWN_PLAN)
        view_number(w, "id", j->number);
    view_str(w, "kind", job_kind_name(j->kind));
    if (shown != SHOWN_PLAN)
        view_str(w, "state", job_state_name(j->state));
    view_flag(w, "selecting", j->is_selecting);
    put_settings(j, w);
    put_counts(&j->counts, w);
    view_number(w, "sent", j->sent);
    if (shown != SHOWN_LISTED) {
        view_number(w, "new_since", j->new_since);
        view_flag(w, "new_since_complete", j->new_since_is_complete);
    }
    view_time_or_null(w, "created_at", j->created_at);
    view_time_or_null(w, "changed_at", j->changed_at);
    view_time_or_null(w, "ended_at", j->ended_at);
    view_text_or_null(w, "stop_reason", j->stop_reason);
    put_warnings(j, w);
    put_versions(j, w);
}

/* -- making one ------------------------------------------------------------------------------ */

static bool is_redrive(enum job_kind kind) {
    return kind == JOB_REDRIVE;
}

static void reply_job(struct call *c, uint32_t number) {
    struct job_view j;
    enum err e = engine_job(call_engine(c), c->now, number, &j);
    if (e != OK) {
        reply_error(&c->reply, e);
        return;
    }
    assert(job_counts_hold(&j.counts));
    struct json_writer w;
    json_writer_init(&w, c->reply.body);
    json_begin(&w, '{');
    put_members(&j, SHOWN_WHOLE, &w);
    json_end(&w, '}');
}

/* True when there is a queue of that name, or none is named; false when the reply is set. */
static bool check_queue(struct call *c, struct span name) {
    struct queue_view q;
    if (name.n == 0 || engine_queue(call_engine(c), name, &q) == OK)
        return true;
    struct problem p = problem_of(ERR_NO_QUEUE);
    reply_problem(&c->reply, p.status, p.title, "there is no queue named %.*s", (int)name.n,
                  (const char *)name.p);
    return false;
}

static void start(struct call *c, const struct job_new *job) {
    uint32_t number;
    enum err e = engine_job_start(call_engine(c), c->now, job, &number);
    if (e != OK) {
        reply_error(&c->reply, e);
        return;
    }
    reply_job(c, number);
    c->reply.status = 202;
    snprintf(c->reply.location, sizeof c->reply.location, "/%s/%" PRIu32,
             is_redrive(job->kind) ? "redrives" : "discards", number);
}

/* -- planning one ---------------------------------------------------------------------------- */

static void put_parts(struct json_writer *w, const char *name, struct span headers,
                      struct span payload) {
    json_name(w, name);
    json_begin(w, '{');
    json_name(w, "headers");
    if (headers.n > 0)
        json_put_raw(w, headers);
    else
        json_put_null(w);
    view_payload(w, payload);
    json_end(w, '}');
}

/* A letter before and after the patch. */
static void put_preview(struct call *c, struct span patch, const struct message_view *m,
                        struct json_writer *w) {
    struct buf headers, payload;
    patched_init(&headers, &payload, m, c->server->limits.payload_bytes_max);
    enum err e = patch_apply(patch, m->headers, m->payload, &headers, &payload);
    json_begin(w, '{');
    view_number(w, "id", m->id);
    put_parts(w, "before", m->headers, m->payload);
    if (e == OK)
        put_parts(w, "after", buf_span(&headers), buf_span(&payload));
    else
        view_str(w, "error", patch_trouble(e, m->payload));
    json_end(w, '}');
    buf_release(&payload);
    buf_release(&headers);
}

static void put_examples(struct call *c, struct span patch, const uint64_t *ids, size_t n,
                         struct json_writer *w) {
    json_name(w, "examples");
    json_begin(w, '[');
    for (size_t i = 0; i < n; i++) {
        struct message_view m;
        enum err e = engine_letter(call_engine(c), ids[i], &m);
        assert(e == OK); /* it was found a moment ago */
        if (patch.n > 0)
            put_preview(c, patch, &m, w);
        else
            view_message(&m, 0, c->now, w);
    }
    json_end(w, ']');
}

static void reply_plan(struct call *c, const struct job_new *job) {
    struct job_view j;
    bool is_complete;
    uint64_t ids[EXAMPLES];
    size_t n = 0;
    enum err e = engine_job_plan(call_engine(c), c->now, job, &j, &is_complete, ids, EXAMPLES, &n);
    if (e != OK) {
        reply_error(&c->reply, e);
        return;
    }
    assert(job_counts_hold(&j.counts));
    struct json_writer w;
    json_writer_init(&w, c->reply.body);
    json_begin(&w, '{');
    view_flag(&w, "dry_run", true);
    view_flag(&w, "complete", is_complete);
    put_members(&j, SHOWN_PLAN, &w);
    put_examples(c, job->patch, ids, n, &w);
    json_end(&w, '}');
}

/* -- the requests that make one -------------------------------------------------------------- */

/* A repeated request answers with the job that the first one made, whatever its body holds. */
static bool reply_known(struct call *c, struct job_new *job) {
    struct span key = c->request->idempotency_key;
    uint32_t number;
    job->idempotency_key = key;
    if (engine_job_find(call_engine(c), c->now, job->kind, key, &number) != OK)
        return false;
    reply_job(c, number);
    return true;
}

static bool has_good_key(struct call *c) {
    struct span key = c->request->idempotency_key;
    if (key.p != NULL && (key.n == 0 || key.n > LIMIT_IDEMPOTENCY_KEY))
        field_error_add(&c->http->errors, "", "Idempotency-Key",
                        key.n == 0 ? "out_of_range" : "too_long", "must be 1 to %d bytes",
                        LIMIT_IDEMPOTENCY_KEY);
    return call_is_valid(c);
}

/* The body was read. */
static void plan_or_start(struct call *c, struct job_body *b) {
    if (!has_good_key(c) || !call_actor(c, &b->job.act.actor) || !check_queue(c, b->job.queue) ||
        !check_queue(c, b->job.to))
        return;
    if (b->is_dry_run)
        reply_plan(c, &b->job);
    else if (!reply_known(c, &b->job))
        start(c, &b->job);
}

static void handle_new(struct call *c, enum job_kind kind) {
    struct json *json;
    if (!call_body(c, true, &json))
        return;
    struct job_body b;
    job_body_init(&b);
    switch (kind) {
    case JOB_REDRIVE:
        redrive_body_read(&b, json, c->now, &c->http->errors);
        break;
    case JOB_DISCARD:
        discards_body_read(&b, json, c->now, &c->http->errors);
        break;
    case JOB_PURGE:
        purge_body_read(&b, c->queue, json, &c->http->errors);
        break;
    }
    plan_or_start(c, &b);
    job_body_release(&b);
    json_free(json);
}

void handle_redrive(struct call *c) {
    handle_new(c, JOB_REDRIVE);
}

void handle_discards_post(struct call *c) {
    handle_new(c, JOB_DISCARD);
}

void handle_purge(struct call *c) {
    handle_new(c, JOB_PURGE);
}

/* -- reading --------------------------------------------------------------------------------- */

struct job_page {
    struct json_writer w;
    bool is_redrives; /* else what is no redrive: discards and purges */
    uint64_t count, limit;
};

static bool put_listed(void *ctx, const struct job_view *j) {
    struct job_page *page = ctx;
    if (is_redrive(j->kind) != page->is_redrives)
        return true;
    json_begin(&page->w, '{');
    put_members(j, SHOWN_LISTED, &page->w);
    json_end(&page->w, '}');
    return ++page->count < page->limit && page->w.out->n < LIMIT_REPLY;
}

static void list(struct call *c, bool is_redrives) {
    static const char *const names[] = {"limit", "before", NULL};
    struct span values[2];
    struct field_errors *errors = &c->http->errors;
    query_read(c->request->query, names, values, &c->http->scratch, errors);
    struct job_page page = {.is_redrives = is_redrives,
                            .limit =
                                parameter_number(values[0], "limit", 1, LIMIT_BATCH, 100, errors)};
    uint32_t before = (uint32_t)parameter_number(values[1], "before", 1, UINT32_MAX, 0, errors);
    if (!call_is_valid(c))
        return;

    struct json_writer *w = &page.w;
    json_writer_init(w, c->reply.body);
    json_begin(w, '{');
    json_name(w, is_redrives ? "redrives" : "discards");
    json_begin(w, '[');
    engine_jobs(call_engine(c), c->now, is_redrives ? JOB_REDRIVE : 0, before, put_listed, &page);
    json_end(w, ']');
    view_number(w, "count", page.count);
    json_end(w, '}');
}

void handle_redrives(struct call *c) {
    list(c, true);
}

void handle_discards(struct call *c) {
    list(c, false);
}

struct sought {
    uint32_t number;
    bool is_redrive, is_found;
    enum job_state state;
};

static bool is_sought(void *ctx, const struct job_view *j) {
    struct sought *s = ctx;
    s->is_found = j->number == s->number && is_redrive(j->kind) == s->is_redrive;
    s->state = j->state;
    return false;
}

/* The job of the path, when it is of the kind that the path says; else the reply is set. */
static bool find(struct call *c, bool is_redrive_wanted, struct sought *ret) {
    *ret = (struct sought){.number = (uint32_t)c->id, .is_redrive = is_redrive_wanted};
    /* Not engine_job, which would count what is new since. */
    engine_jobs(call_engine(c), c->now, 0, ret->number + 1, is_sought, ret);
    if (!ret->is_found)
        reply_error(&c->reply, ERR_NO_JOB);
    return ret->is_found;
}

static void read_one(struct call *c, bool is_redrive_wanted) {
    struct sought s;
    if (find(c, is_redrive_wanted, &s))
        reply_job(c, s.number);
}

void handle_redrive_read(struct call *c) {
    read_one(c, true);
}

void handle_discards_read(struct call *c) {
    read_one(c, false);
}

/* -- changing -------------------------------------------------------------------------------- */

static void change(struct call *c, const struct sought *s, const struct job_change *change,
                   const struct act *act) {
    enum err e = engine_job_change(call_engine(c), c->now, s->number, change, act);
    if (e == OK)
        reply_job(c, s->number);
    else if (e == ERR_WRONG_STATE)
        reply_problem(&c->reply, problem_of(e).status, "job ended",
                      "job %" PRIu32 " is %s: what has ended stays as it is; make another",
                      s->number, job_state_name(s->state));
    else
        reply_error(&c->reply, e);
}

static void handle_change(struct call *c, bool is_redrive_wanted) {
    struct sought s;
    struct json *json;
    if (!find(c, is_redrive_wanted, &s) || !call_body(c, true, &json))
        return;
    struct job_change wanted;
    struct act act = {.actor = {NULL, 0}};
    job_change_read(&wanted, &act.reason, s.is_redrive, json, &c->http->errors);
    if (call_is_valid(c) && call_actor(c, &act.actor))
        change(c, &s, &wanted, &act);
    json_free(json);
}

void handle_redrive_change(struct call *c) {
    handle_change(c, true);
}

void handle_discards_change(struct call *c) {
    handle_change(c, false);
}
