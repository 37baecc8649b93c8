/* The model beside the engine: queues, messages and their stories. */
#include "sim/compare_int.h"

#include "base/limits.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* -- differences --------------------------------------------------------------------------------- */

bool differs(const struct complaint *c, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(c->text, c->bytes, format, args);
    va_end(args);
    return false;
}

bool same_number(const struct complaint *c, const char *of, uint64_t id, const char *what,
                 long long got, long long want) {
    return got == want || differs(c, "%s %llu: %s is %lld, should be %lld", of,
                                  (unsigned long long)id, what, got, want);
}

/* -- queues -------------------------------------------------------------------------------------- */

static bool same_ledger(const struct complaint *c, const char *of, uint64_t id,
                        const struct ledger *got, const struct ledger *want) {
    SAME(of, id, "accepted", got->accepted, want->accepted);
    SAME(of, id, "moved_in", got->moved_in, want->moved_in);
    SAME(of, id, "succeeded", got->succeeded, want->succeeded);
    SAME(of, id, "discarded", got->discarded, want->discarded);
    SAME(of, id, "moved_out", got->moved_out, want->moved_out);
    SAME(of, id, "expired", got->expired, want->expired);
    SAME(of, id, "undiscarded", got->undiscarded, want->undiscarded);
    return true;
}

/* What is counted of the messages of a queue. */
struct sums {
    uint64_t count[STATE_COUNT], ready, held, parked_keys, bytes, dead_by[REASON_COUNT], groups;
    int64_t oldest_death_at;
};

static struct sums sums_of(const struct model *m, int queue) {
    struct sums s = {0};
    bool seen[MODEL_GROUPS];
    memset(seen, 0, m->group_count * sizeof *seen);
    for (size_t i = 0; i < m->message_count; i++) {
        const struct model_message *x = &m->messages[i];
        if (x->queue != queue)
            continue;
        enum standing standing = model_standing(m, x);
        s.count[standing == PARKED ? STATE_PARKED : x->state]++;
        s.ready += x->state == STATE_PENDING && standing == GOES && !x->waiting;
        s.held += standing == HELD;
        s.parked_keys += model_parks(m, x);
        if (x->state != STATE_SUCCEEDED && x->state != STATE_DISCARDED)
            s.bytes += x->payload.bytes;
        if (x->state != STATE_DEAD)
            continue;
        s.dead_by[x->reason]++;
        s.groups += !seen[x->group - 1];
        seen[x->group - 1] = true;
        if (!s.oldest_death_at || x->died_at < s.oldest_death_at)
            s.oldest_death_at = x->died_at;
    }
    return s;
}

static bool same_counts(const struct complaint *c, const struct model *m, int queue, bool ready,
                        const struct queue_view *v) {
    uint64_t id = (uint64_t)queue;
    struct sums s = sums_of(m, queue);
    for (int i = 0; i < STATE_COUNT; i++)
        SAME("queue", id, state_name((enum state)i), v->count[i], s.count[i]);
    if (ready)
        SAME("queue", id, "ready", v->ready, s.ready);
    SAME("queue", id, "held", v->held, s.held);
    SAME("queue", id, "parked_keys", v->parked_keys, s.parked_keys);
    SAME("queue", id, "bytes", v->bytes, s.bytes);
    for (int i = 0; i < REASON_COUNT; i++)
        SAME("queue", id, reason_name((enum reason)i), v->dead_by[i], s.dead_by[i]);
    SAME("queue", id, "groups", v->groups, s.groups);
    SAME("queue", id, "oldest_death_at", v->oldest_death_at, s.oldest_death_at);
    int64_t keep_ms = m->queues[queue].policy.keep_dead_ms;
    SAME("queue", id, "soonest_expiry", v->soonest_expiry,
         s.oldest_death_at && keep_ms ? s.oldest_death_at + keep_ms : 0);
    return true;
}

static bool same_totals(const struct complaint *c, uint64_t id, const struct model_queue *q,
                        const struct queue_view *v) {
    uint64_t deaths = 0;
    SAME("queue", id, "created_at", v->created_at, q->created_at);
    SAME("queue", id, "deliveries", v->deliveries, q->deliveries);
    SAME("queue", id, "failures", v->failures, q->failures);
    for (int i = 0; i < REASON_COUNT; i++) {
        deaths += q->deaths_by[i];
        SAME("queue", id, "deaths by reason", v->deaths_by[i], q->deaths_by[i]);
    }
    SAME("queue", id, "deaths", v->deaths, deaths);
    SAME("queue", id, "redriven", v->redriven, q->redriven);
    SAME("queue", id, "redriven_succeeded", v->redriven_succeeded, q->redriven_succeeded);
    SAME("queue", id, "redriven_died", v->redriven_died, q->redriven_died);
    SAME("queue", id, "paused_at", v->paused_at, q->paused_at);
    return true;
}

static bool same_breaker(const struct complaint *c, uint64_t id, const struct model_queue *q,
                         const struct queue_view *v) {
    SAME("queue", id, "breaker", v->breaker, q->breaker);
    SAME("queue", id, "breaker_at", v->breaker_at, q->breaker_at);
    SAME("queue", id, "breaker_until", v->breaker_until, q->breaker_until);
    SAME("queue", id, "breaker_opened", v->breaker_opened, q->breaker_opened);
    SAME("queue", id, "alone_claims", v->alone_claims, q->alone_claims);
    struct span cause = {0};
    if (q->breaker_opened)
        cause = error_class_kept(q->breaker_cause);
    return span_equal(v->breaker_cause, cause) ||
           differs(c, "queue %llu: its breaker opened for %.*s", (unsigned long long)id,
                   (int)v->breaker_cause.n, (const char *)v->breaker_cause.p);
}

static bool same_pause(const struct model_queue *q, const struct queue_view *v) {
    struct span by = {0}, reason = {0};
    if (q->paused_at) {
        by = model_actor_kept(q->paused_by.actor);
        reason = span_cut_utf8(model_reason_kept(q->paused_by.reason), LIMIT_PAUSE_REASON);
    }
    return span_equal(v->paused_by, by) && span_equal(v->pause_reason, reason);
}

bool model_same_queue(const struct model *m, struct engine *e, int queue, bool ready, char *text,
                      size_t text_bytes) {
    const struct complaint complaint = {text, text_bytes}, *c = &complaint;
    const struct model_queue *q = &m->queues[queue];
    struct queue_view v;
    enum err r = engine_queue(e, model_queue_name(queue), &v);
    if ((r == OK) != q->exists || (r != OK && r != ERR_NO_QUEUE))
        return differs(c, "queue %d: %s, should %sbe there", queue, err_text(r),
                       q->exists ? "" : "not ");
    if (r != OK)
        return true;
    if (!queue_view_holds(&v))
        return differs(c, "queue %d: the equation of conservation does not hold", queue);
    const struct policy_texts texts = model_policy_texts(&q->texts);
    if (!policy_equal(v.policy, &q->policy) || !policy_texts_equal(v.texts, &texts))
        return differs(c, "queue %d: its policy is not what it was given", queue);
    if (!same_pause(q, &v))
        return differs(c, "queue %d: paused by another, or for another reason", queue);
    return same_totals(c, (uint64_t)queue, q, &v) && same_breaker(c, (uint64_t)queue, q, &v) &&
           same_ledger(c, "queue", (uint64_t)queue, &v.ledger, &q->ledger) &&
           same_counts(c, m, queue, ready, &v);
}

/* -- stories ------------------------------------------------------------------------------------- */

#define STORY_JOBS 32

struct story_check {
    const struct complaint *c;
    const struct model_message *x;
    const struct model_story *story;
    size_t n;
    bool same;
    struct model_line newest;
    uint32_t told, newest_attempt; /* attempts that have a line */
    uint32_t jobs[STORY_JOBS];     /* that sent or discarded it: each once */
    size_t job_count;
};

/* What a line says of who, and why, in words. */
struct line_texts {
    struct span worker, version, class, error, detail, fingerprint;
};

static struct line_texts texts_of(const struct model_line *line, char memory[static 2][256]) {
    struct line_texts t = {.worker = model_worker(line->worker),
                           .version = model_version(line->version)};
    if (line->actor)
        t.worker = model_actor_kept(line->actor);
    if (line->job) {
        snprintf(memory[0], 256, "job %u", line->job);
        t.worker = span_str(memory[0]);
    }
    if (line->event == EVENT_FAILED || line->event == EVENT_LEASE_EXPIRED) {
        t.class = error_class_kept(line->tag);
        t.error = error_kept(line->tag);
        t.detail = detail_kept(line->tag);
        t.fingerprint = span_cut_utf8(model_fingerprint(line->tag), LIMIT_FINGERPRINT);
    } else if (line->event == EVENT_DISCARDED) {
        t.class = span_str(discard_reason_name(line->why));
        t.error = model_reason_kept(line->reason);
    } else if (line->copy) {
        snprintf(memory[1], 256, "%llu", (unsigned long long)line->copy);
        t.error = span_str(memory[1]);
    } else if (line->moved_from != line->moved_to) {
        snprintf(memory[1], 256, "from %s to %s",
                 (const char *)model_queue_name(line->moved_from).p,
                 (const char *)model_queue_name(line->moved_to).p);
        t.error = span_str(memory[1]);
    }
    return t;
}

static bool same_line(const struct complaint *c, uint64_t id, const struct history_entry *got,
                      const struct model_line *want) {
    if (got->event != want->event)
        return differs(c, "message %llu: its story says %s, should say %s", (unsigned long long)id,
                       event_name(got->event), event_name(want->event));
    SAME("message", id, "attempt in its story", got->attempt, want->attempt);
    SAME("message", id, "time in its story", got->at, want->at);
    SAME("message", id, "next time in its story", got->next_at, want->next_at);
    char memory[2][256];
    struct line_texts t = texts_of(want, memory);
    if (!span_equal(got->worker, t.worker) || !span_equal(got->worker_version, t.version))
        return differs(c, "message %llu: its story says it was %.*s, should say %.*s",
                       (unsigned long long)id, (int)got->worker.n, (const char *)got->worker.p,
                       (int)t.worker.n, (const char *)t.worker.p);
    if (!span_equal(got->error, t.error) || !span_equal(got->error_class, t.class) ||
        !span_equal(got->detail, t.detail) || !span_equal(got->fingerprint, t.fingerprint))
        return differs(c, "message %llu: other texts in its story", (unsigned long long)id);
    return true;
}

/* No job does anything to a letter twice, whatever the model thinks. */
static bool is_first_of_job(struct story_check *s, const struct history_entry *entry) {
    unsigned long job = 0;
    bool is_by_job = (entry->event == EVENT_REDRIVEN || entry->event == EVENT_PATCHED ||
                      entry->event == EVENT_DISCARDED) &&
                     entry->worker.n > 4 && span_equal_str(span_of(entry->worker.p, 4), "job ");
    for (size_t i = 4; is_by_job && i < entry->worker.n; i++)
        job = job * 10 + entry->worker.p[i] - '0';
    for (size_t i = 0; is_by_job && i < s->job_count; i++)
        if (s->jobs[i] == job)
            return differs(s->c, "message %llu: job %lu had it twice", (unsigned long long)s->x->id,
                           job);
    if (is_by_job && s->job_count < STORY_JOBS)
        s->jobs[s->job_count++] = (uint32_t)job;
    return true;
}

static void check_line(void *ctx, const struct history_entry *entry) {
    struct story_check *s = ctx;
    const struct model_story *story = s->story;
    s->same = s->same && is_first_of_job(s, entry);
    if (s->same && (story->n <= MODEL_STORY ? s->n < story->n : s->n == 0))
        s->same = same_line(s->c, s->x->id, entry, &story->lines[s->n]);
    s->told += entry->attempt > 0 && entry->attempt != s->newest_attempt;
    s->newest_attempt = entry->attempt;
    s->newest =
        (struct model_line){.event = entry->event, .attempt = entry->attempt, .at = entry->at};
    s->n++;
}

static bool same_story(const struct complaint *c, const struct model *m, struct engine *e,
                       const struct model_message *x) {
    struct story_check s = {.c = c, .x = x, .story = &m->stories[x->story], .same = true};
    uint32_t omitted;
    if (engine_history(e, model_queue_name(x->queue), x->id, check_line, &s, &omitted) != OK)
        return differs(c, "message %llu has no story", (unsigned long long)x->id);
    if (!s.same)
        return false;
    if (s.story->n <= MODEL_STORY)
        SAME("message", x->id, "lines of its story", s.n, s.story->n);
    SAME("message", x->id, "attempts left out", omitted,
         x->deliveries > s.told ? x->deliveries - s.told : 0);
    if (s.story->n == 0)
        return true;
    SAME("message", x->id, "last event", s.newest.event, s.story->last.event);
    SAME("message", x->id, "last attempt", s.newest.attempt, s.story->last.attempt);
    SAME("message", x->id, "last time", s.newest.at, s.story->last.at);
    return true;
}

/* -- messages ------------------------------------------------------------------------------------ */

static bool same_times(const struct complaint *c, const struct model_message *x,
                       const struct message_view *v) {
    bool is_pending = x->state == STATE_PENDING;
    SAME("message", x->id, "created_at", v->created_at, x->created_at);
    SAME("message", x->id, "updated_at", v->updated_at, x->updated_at);
    SAME("message", x->id, "retry_after", v->retry_after,
         is_pending && x->is_retry ? x->next_at : 0);
    SAME("message", x->id, "available_at", v->available_at,
         is_pending && !x->is_retry && x->waiting ? x->next_at : 0);
    SAME("message", x->id, "lease_expires_at", v->lease_expires_at,
         x->state == STATE_PROCESSING ? x->next_at : 0);
    SAME("message", x->id, "expires_at", v->expires_at,
         is_pending || x->state == STATE_PROCESSING ? x->expires_at : 0);
    SAME("message", x->id, "ttl_ms", v->ttl_ms, x->ttl_ms);
    SAME("message", x->id, "first_failed_at", v->first_failed_at, x->first_failed_at);
    return true;
}

static bool same_bytes(const struct complaint *c, const struct model_message *x,
                       const struct message_view *v) {
    if (!span_equal(v->payload, payload_bytes(0, &x->payload)) ||
        !span_equal(v->headers, headers_bytes(1, &x->headers)) ||
        !span_equal(v->key, key_bytes(x->key)))
        return differs(c, "message %llu: other payload, headers or key", (unsigned long long)x->id);
    SAME("message", x->id, "has_error", v->has_error, x->has_error);
    if (!x->has_error)
        return true;
    SAME("message", x->id, "failed_at", v->failed_at, x->error_at);
    if (!span_equal(v->error, error_kept(x->error_tag)) ||
        !span_equal(v->error_class, error_class_kept(x->error_tag)) ||
        !span_equal(v->detail, detail_kept(x->error_tag)) ||
        !span_equal(v->fingerprint,
                    span_cut_utf8(model_fingerprint(x->error_tag), LIMIT_FINGERPRINT)))
        return differs(c, "message %llu: other texts of its error", (unsigned long long)x->id);
    if (!span_equal(v->worker, model_worker(x->error_worker)) ||
        !span_equal(v->worker_version, model_version(x->error_version)))
        return differs(c, "message %llu: another worker failed it", (unsigned long long)x->id);
    return true;
}

static bool same_letter(const struct complaint *c, const struct model *m,
                        const struct model_message *x, const struct message_view *v) {
    bool is_dead = x->state == STATE_DEAD, is_discarded = x->state == STATE_DISCARDED;
    int64_t keep_ms = m->queues[x->queue].policy.keep_dead_ms;
    bool is_letter = is_dead || is_discarded;
    SAME("message", x->id, "reason", v->reason, is_letter ? x->reason : REASON_NONE);
    SAME("message", x->id, "died_at", v->died_at, is_letter ? x->died_at : 0);
    SAME("message", x->id, "dead_seq", v->dead_seq, is_letter ? x->dead_seq : 0);
    SAME("message", x->id, "dead_expires_at", v->dead_expires_at,
         is_discarded         ? x->next_at
         : is_dead && keep_ms ? x->died_at + keep_ms
                              : 0);
    SAME("message", x->id, "discard_reason", v->discard_reason,
         is_discarded ? x->why : DISCARD_NONE);
    SAME("message", x->id, "redrive_count", v->redrive_count, x->redrive_count);
    SAME("message", x->id, "group", v->group_key, x->group ? m->groups[x->group - 1].key : 0);
    SAME("message", x->id, "job", v->job, x->job);
    SAME("message", x->id, "part in its job", v->job_part, x->part);
    SAME("message", x->id, "edited_to", v->edited_to, x->edited_to);
    SAME("message", x->id, "parent", v->parent_id, x->parent);
    struct span origin = model_queue_or_none(x->origin);
    return span_equal(v->origin, origin) ||
           differs(c, "message %llu: another origin", (unsigned long long)x->id);
}

bool model_same_message(const struct model *m, struct engine *e, const struct model_message *x,
                        bool story, char *text, size_t text_bytes) {
    const struct complaint complaint = {text, text_bytes}, *c = &complaint;
    struct message_view v;
    enum err r = engine_message(e, model_queue_name(x->queue), x->id, &v);
    if (r != OK)
        return differs(c, "message %llu in queue %d: %s", (unsigned long long)x->id, x->queue,
                       err_text(r));
    enum state state = model_state(m, x);
    if (v.state != state)
        return differs(c, "message %llu is %s, should be %s", (unsigned long long)x->id,
                       state_name(v.state), state_name(state));
    SAME("message", x->id, "is_held", v.is_held, model_standing(m, x) != GOES);
    SAME("message", x->id, "retry_count", v.retry_count, x->retry_count);
    SAME("message", x->id, "max_retries", v.max_retries, x->max_retries);
    SAME("message", x->id, "priority", v.priority, x->priority);
    SAME("message", x->id, "deliveries", v.deliveries, x->deliveries);
    return same_times(c, x, &v) && same_letter(c, m, x, &v) && same_bytes(c, x, &v) &&
           (!story || same_story(c, m, e, x));
}

/* -- all ----------------------------------------------------------------------------------------- */

struct order_check {
    const struct model *m;
    uint64_t serial;
    bool sorted;
    size_t n;
};

static bool check_order(void *ctx, const struct queue_view *v) {
    struct order_check *o = ctx;
    for (int q = 0; q < MODEL_QUEUES; q++)
        if (span_equal(v->name, model_queue_name(q))) {
            o->sorted = o->sorted && o->m->queues[q].serial > o->serial;
            o->serial = o->m->queues[q].serial;
        }
    o->n++;
    return true;
}

static bool same_ids(const struct complaint *c, const struct model *m, struct engine *e, int queue,
                     bool discarded) {
    uint64_t ids[LIMIT_BATCH];
    size_t n, k = 0;
    struct list list = {.state = discarded ? STATE_DISCARDED : -1, .limit = LIMIT_BATCH};
    engine_list(e, model_queue_name(queue), &list, ids, &n);
    for (size_t i = 0; i < m->message_count; i++) {
        const struct model_message *x = &m->messages[i];
        if (x->queue != queue || (x->state == STATE_DISCARDED) != discarded)
            continue;
        if (k >= n || ids[k] != x->id)
            return differs(c, "queue %d: message %llu is not in its list", queue,
                           (unsigned long long)x->id);
        k++;
    }
    return k == n || differs(c, "queue %d: its list has %zu messages too many", queue, n - k);
}

bool model_same(const struct model *m, struct engine *e, int64_t now, bool ready, char *text,
                size_t text_bytes) {
    const struct complaint complaint = {text, text_bytes}, *c = &complaint;
    struct order_check o = {.m = m, .sorted = true};
    if (engine_queues(e, (struct span){0}, check_order, &o) != OK || !o.sorted)
        return differs(c, "the queues are not listed in order of creation");
    for (int q = 0; q < MODEL_QUEUES; q++) {
        if (!model_same_queue(m, e, q, ready, text, text_bytes) || !same_ids(c, m, e, q, false) ||
            !same_ids(c, m, e, q, true))
            return false;
        o.n -= m->queues[q].exists;
    }
    if (o.n != 0)
        return differs(c, "there are other queues than there should be");
    for (size_t i = 0; i < m->message_count; i++)
        if (!model_same_message(m, e, &m->messages[i], true, text, text_bytes))
            return false;
    struct engine_stats stats = engine_stats(e);
    if (m->dropping_messages == 0 && m->dropping.accepted == 0 && m->dropping.moved_in == 0 &&
        !same_ledger(c, "deleted queues", 0, &stats.deleted, &m->deleted))
        return false;
    return same_letters(c, m, e, now);
}
