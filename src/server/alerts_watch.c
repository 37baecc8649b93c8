#include "server/alerts_watch.h"

#include "base/clock.h"
#include "base/mem.h"
#include "model/fingerprint.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MINUTE_MS 60000
#define SAMPLE_MS 2000
#define MILLION 1000000
enum { CAUSES_SHOWN = 10, TITLE_SHOWN = 256, CAUSES_BYTES_MAX = 48 * 1024 };

struct watch *watch_new(struct span name) {
    struct watch *w = mem_alloc(sizeof *w);
    assert(name.n <= sizeof w->name);
    memcpy(w->name, name.p, name.n);
    w->name_bytes = name.n;
    buf_init(&w->text, LIMIT_POLICY_TEXT);
    return w;
}

void watch_free(struct watch *w) {
    buf_release(&w->text);
    free(w->alerts);
    free(w);
}

struct span watch_name(const struct watch *w) {
    return span_of(w->name, w->name_bytes);
}

/* What the same alert had told before the policy changed. */
static struct alert_told told_before(const struct watch *w, const struct alert *a, int64_t now,
                                     uint64_t opened) {
    for (size_t i = 0; i < w->count; i++) {
        if (w->alerts[i].kind == a->kind && strcmp(w->alerts[i].url, a->url) == 0)
            return w->told[i];
    }
    return (struct alert_told){.since = now, .opened = opened};
}

bool watch_update(struct watch *w, struct engine *e, int64_t now) {
    struct queue_view q;
    if (engine_queue_brief(e, watch_name(w), &q) != OK || q.texts->alerts.n == 0)
        return false;
    if (span_equal(q.texts->alerts, buf_span(&w->text)))
        return w->count > 0;
    struct alert *alerts = mem_alloc(ALERTS_MAX * sizeof *alerts);
    struct alert_told told[ALERTS_MAX] = {0};
    size_t n = alerts_read(q.texts->alerts, alerts, ALERTS_MAX);
    for (size_t i = 0; i < n; i++)
        told[i] = told_before(w, &alerts[i], now, q.breaker_opened);
    memcpy(w->told, told, n * sizeof told[0]);
    free(w->alerts);
    w->alerts = alerts;
    w->count = n;
    buf_clear(&w->text);
    buf_add_span(&w->text, q.texts->alerts);
    return n > 0;
}

/* -- a look ---------------------------------------------------------------------------------- */

static const struct deaths_sample *sample_back(const struct watch *w, size_t n) {
    return &w->samples[(w->sample_next + WATCH_SAMPLES - 1 - n) % WATCH_SAMPLES];
}

void watch_look(struct watch *w, const struct queue_view *q, int64_t now) {
    bool goes_back = w->sample_count > 0 && sample_back(w, 0)->at > now;
    if (goes_back)
        w->sample_count = 0; /* only a test's clock does */
    if (w->sample_count == 0 || now - sample_back(w, 0)->at >= SAMPLE_MS) {
        w->samples[w->sample_next] = (struct deaths_sample){.at = now, .deaths = q->deaths};
        w->sample_next = (w->sample_next + 1) % WATCH_SAMPLES;
        if (w->sample_count < WATCH_SAMPLES)
            w->sample_count++;
    }
    if (q->deaths != w->deaths_seen || goes_back) {
        w->deaths_seen = q->deaths;
        w->died_at = now;
    }
}

/* Since the newest sample that is a minute old, or the oldest there is. */
static uint64_t deaths_a_minute(const struct watch *w, const struct queue_view *q, int64_t now) {
    for (size_t i = 0; i < w->sample_count; i++) {
        const struct deaths_sample *s = sample_back(w, i);
        if (now - s->at >= MINUTE_MS || i + 1 == w->sample_count)
            return q->deaths - s->deaths;
    }
    return 0;
}

/* -- causes ---------------------------------------------------------------------------------- */

/* The groups of the queue that are listed: all, or those with news. */
struct causes {
    struct json_writer w;
    struct buf out; /* a JSON array */
    enum alert_kind kind;
    int64_t since, until;
    size_t n; /* all of them: CAUSES_SHOWN are written */
};

static void put_text(struct json_writer *w, const char *name, struct span text) {
    json_name(w, name);
    json_put_string(w, text);
}

static void put_number(struct json_writer *w, const char *name, uint64_t value) {
    json_name(w, name);
    json_put_u64(w, value);
}

static void put_time(struct json_writer *w, const char *name, int64_t ms) {
    char text[TIME_TEXT_SIZE];
    json_name(w, name);
    if (ms == 0) {
        json_put_null(w);
        return;
    }
    time_format(ms, text);
    json_put_str(w, text);
}

static bool is_listed(const struct causes *c, const struct group_view *g) {
    int64_t at = c->kind == ALERT_NEW_GROUP ? g->first_seen : g->regressed_at;
    bool all = c->kind != ALERT_NEW_GROUP && c->kind != ALERT_REGRESSED_GROUP;
    return all || (at >= c->since && at < c->until && at > 0);
}

static void add_cause(void *ctx, const struct group_view *g) {
    struct causes *c = ctx;
    if (!is_listed(c, g) || ++c->n > CAUSES_SHOWN)
        return;
    char key[GROUP_KEY_SIZE];
    group_key_write(g->key, key);
    struct json_writer *w = &c->w;
    json_begin(w, '{');
    put_text(w, "key", span_str(key));
    put_text(w, "title", span_cut_utf8(g->title, TITLE_SHOWN));
    put_text(w, "error_class", g->error_class);
    put_text(w, "reason", span_str(reason_name(g->reason)));
    put_number(w, "count", g->count);
    put_number(w, "total", g->total);
    put_time(w, "first_seen", g->first_seen);
    put_time(w, "last_seen", g->last_seen);
    json_end(w, '}');
}

/* queue:"NAME", with its quotes and backslashes escaped */
static struct filter *filter_of_queue(const struct watch *w, int64_t now) {
    static const char head[] = "queue:\"";
    uint8_t text[2 * LIMIT_QUEUE_NAME + sizeof head + 1];
    size_t n = sizeof head - 1;
    memcpy(text, head, n);
    for (size_t i = 0; i < w->name_bytes; i++) {
        if (w->name[i] == '"' || w->name[i] == '\\')
            text[n++] = '\\';
        text[n++] = w->name[i];
    }
    text[n++] = '"';
    struct filter_error error;
    struct filter *f = filter_parse(span_of(text, n), FILTER_GROUPS, now, &error);
    assert(f != NULL);
    return f;
}

static void causes_init(struct causes *c, enum alert_kind kind, int64_t since, int64_t now) {
    *c = (struct causes){.kind = kind, .since = since, .until = now};
    buf_init(&c->out, CAUSES_BYTES_MAX);
    json_writer_init(&c->w, &c->out);
    json_begin(&c->w, '[');
}

static void add_groups(struct causes *c, const struct watch *w, struct engine *e, int64_t now) {
    struct filter *filter = filter_of_queue(w, now);
    bool is_news = c->kind == ALERT_NEW_GROUP || c->kind == ALERT_REGRESSED_GROUP;
    const struct group_query query = {
        .filter = filter,
        .order = c->kind == ALERT_NEW_GROUP         ? GROUPS_BY_FIRST_SEEN
                 : c->kind == ALERT_REGRESSED_GROUP ? GROUPS_BY_LAST_SEEN
                                                    : GROUPS_BY_COUNT,
        .with_empty = is_news,
        .limit = LIMIT_BATCH,
    };
    uint64_t ignored;
    engine_groups(e, now, &query, add_cause, c, &ignored);
    filter_free(filter);
}

/* -- redrives -------------------------------------------------------------------------------- */

struct job_walk {
    struct stopped_jobs *stopped;
    uint64_t left; /* of the jobs that have not ended */
};

static bool note_job(void *ctx, const struct job_view *job) {
    struct job_walk *walk = ctx;
    if (job->state == JOB_STOPPED)
        walk->stopped->numbers[walk->stopped->n++] = job->number;
    if (job->state != JOB_DONE && job->state != JOB_CANCELLED)
        walk->left--;
    return walk->left > 0;
}

static void find_stopped(struct stopped_jobs *stopped, struct engine *e, int64_t now) {
    if (stopped->is_known)
        return;
    stopped->is_known = true;
    struct job_walk walk = {.stopped = stopped, .left = engine_stats(e).jobs_active};
    if (walk.left > 0)
        engine_jobs(e, now, 0, 0, note_job, &walk);
}

static void add_stopped(struct causes *c, const struct watch *w, struct engine *e,
                        struct stopped_jobs *stopped, int64_t now) {
    find_stopped(stopped, e, now);
    struct job_view job;
    for (size_t i = 0; i < stopped->n; i++) {
        if (engine_job(e, now, stopped->numbers[i], &job) != OK ||
            !span_equal(job.queue, watch_name(w)) || ++c->n > CAUSES_SHOWN)
            continue;
        json_begin(&c->w, '{');
        put_number(&c->w, "redrive", job.number);
        put_text(&c->w, "title", span_cut_utf8(job.stop_reason, TITLE_SHOWN));
        put_number(&c->w, "sent", job.sent);
        put_number(&c->w, "died_again", job.counts.died_again);
        put_number(&c->w, "remaining", job.counts.remaining);
        put_time(&c->w, "stopped_at", job.changed_at);
        json_end(&c->w, '}');
    }
}

/* -- asking ---------------------------------------------------------------------------------- */

/* Whether it has something to tell, as far as the queue itself shows. */
static bool may_hold(const struct watch *w, const struct alert *a, const struct alert_told *t,
                     const struct queue_view *q, int64_t now) {
    int64_t oldest = q->oldest_death_at, keep_ms = q->policy->keep_dead_ms;
    switch (a->kind) {
    case ALERT_DEAD_LETTER:
        return oldest != 0 && now - oldest >= a->after_ms;
    case ALERT_RATE:
        return deaths_a_minute(w, q, now) >= a->per_minute;
    case ALERT_NEW_GROUP:
    case ALERT_REGRESSED_GROUP:
        return w->died_at >= t->since;
    case ALERT_OLDEST_AGE:
        return oldest != 0 && keep_ms != 0 &&
               (double)(now - oldest) * MILLION >= (double)keep_ms * a->share_ppm;
    case ALERT_SOONEST_EXPIRY:
        return q->soonest_expiry != 0 && q->soonest_expiry - now <= a->within_ms;
    case ALERT_BREAKER_OPENED:
        return q->breaker != BREAKER_CLOSED || q->breaker_opened > t->opened;
    case ALERT_REDRIVE_STOPPED:
        return true;
    }
    assert(false && "no such kind");
    return false;
}

static void say(struct buf *out, const struct watch *w, const struct alert *a,
                const struct queue_view *q, size_t causes, int64_t now) {
    buf_add(out, w->name, w->name_bytes);
    int64_t age_s = (now - q->oldest_death_at) / 1000, keep_s = q->policy->keep_dead_ms / 1000;
    int64_t left_s = q->soonest_expiry > now ? (q->soonest_expiry - now) / 1000 : 0;
    switch (a->kind) {
    case ALERT_DEAD_LETTER:
        buf_printf(out, ": dead letters: %" PRIu64 ", the oldest for %" PRId64 " seconds",
                   q->count[STATE_DEAD], age_s);
        break;
    case ALERT_RATE:
        buf_printf(out, ": %" PRIu64 " deaths within a minute", deaths_a_minute(w, q, now));
        break;
    case ALERT_NEW_GROUP:
        buf_printf(out, ": new causes of death: %zu", causes);
        break;
    case ALERT_REGRESSED_GROUP:
        buf_printf(out, ": causes that were resolved and came back: %zu", causes);
        break;
    case ALERT_OLDEST_AGE:
        buf_printf(out,
                   ": the oldest dead letter is dead for %" PRId64 " of the %" PRId64
                   " seconds that it is kept",
                   age_s, keep_s);
        break;
    case ALERT_SOONEST_EXPIRY:
        buf_printf(out, ": retention discards a dead letter in %" PRId64 " seconds", left_s);
        break;
    case ALERT_BREAKER_OPENED:
        buf_printf(out, ": the breaker opened; now it is %s", breaker_state_name(q->breaker));
        break;
    case ALERT_REDRIVE_STOPPED:
        buf_printf(out, ": jobs over dead letters that stopped by themselves: %zu", causes);
        break;
    }
}

static void write_body(struct watch *w, const struct alert *a, const struct queue_view *q,
                       struct causes *c, int64_t now, struct buf *body) {
    struct buf summary;
    buf_init(&summary, LIMIT_QUEUE_NAME + 256);
    say(&summary, w, a, q, c->n, now);
    struct json_writer writer, *out = &writer;
    json_writer_init(out, body);
    json_begin(out, '{');
    put_text(out, "kind", span_str(alert_kind_name(a->kind)));
    put_text(out, "queue", watch_name(w));
    json_name(out, "owner");
    if (q->texts->owner.n > 0)
        json_put_string(out, q->texts->owner);
    else
        json_put_null(out);
    put_time(out, "at", now);
    put_text(out, "summary", buf_span(&summary));
    put_number(out, "dead", q->count[STATE_DEAD]);
    put_time(out, "oldest_death", q->oldest_death_at);
    put_time(out, "soonest_expiry", q->soonest_expiry);
    put_number(out, "deaths_a_minute", deaths_a_minute(w, q, now));
    if (a->kind == ALERT_BREAKER_OPENED) {
        put_text(out, "breaker", span_str(breaker_state_name(q->breaker)));
        put_text(out, "breaker_cause", q->breaker_cause);
    }
    put_number(out, "causes_total", c->n);
    json_name(out, "causes");
    json_put_raw(out, buf_span(&c->out));
    json_end(out, '}');
    buf_release(&summary);
}

bool watch_ask(struct watch *w, struct engine *e, size_t i, const struct queue_view *q,
               struct stopped_jobs *stopped, int64_t now, struct buf *body) {
    const struct alert *a = &w->alerts[i];
    struct alert_told *t = &w->told[i];
    if (now < w->snoozed_until || (t->at != 0 && now < t->at + a->repeat_ms) ||
        !may_hold(w, a, t, q, now))
        return false;
    struct causes c;
    causes_init(&c, a->kind, t->since, now);
    if (a->kind == ALERT_REDRIVE_STOPPED)
        add_stopped(&c, w, e, stopped, now);
    else
        add_groups(&c, w, e, now);
    json_end(&c.w, ']');
    bool is_news = a->kind == ALERT_NEW_GROUP || a->kind == ALERT_REGRESSED_GROUP;
    bool holds = c.n > 0 || !(is_news || a->kind == ALERT_REDRIVE_STOPPED);
    struct queue_view again; /* looking at groups ended what q's texts were valid for */
    if (holds && engine_queue(e, watch_name(w), &again) == OK)
        write_body(w, a, &again, &c, now, body);
    else if (is_news)
        t->since = now;
    buf_release(&c.out);
    return holds;
}

void watch_told(struct watch *w, size_t i, const struct queue_view *q, int64_t now) {
    w->told[i] = (struct alert_told){.at = now, .since = now, .opened = q->breaker_opened};
}
