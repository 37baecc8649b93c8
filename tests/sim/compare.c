/* The model beside the engine: every difference there is to see, and the bytes that messages are made of. */
#include "sim/model.h"

#include "base/mem.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- bytes that follow from a number ---------------------------------------------------------------------- */

struct span model_queue_name(int queue) {
    static const char *const names[MODEL_QUEUES] = {"emails", "a/b", "\xe2\x9c\x89", "q 3", "x"};
    return span_str(names[queue]);
}

struct span model_worker(uint8_t worker) {
    static const char *const names[4] = {"", "w1", "worker two", "\xc3\xa4"};
    return span_str(names[worker % 4]);
}

struct span model_bytes(unsigned slot, uint32_t tag, size_t n) {
    static struct {
        uint8_t *p;
        size_t cap;
    } memory[4];
    if (memory[slot].cap < n + 8) {
        memory[slot].cap = n + 8;
        memory[slot].p = mem_grow(memory[slot].p, memory[slot].cap);
    }
    uint64_t x = (uint64_t)tag * UINT64_C(0x9e3779b97f4a7c15) + slot;
    for (size_t i = 0; i < n; i += 8) {
        x += UINT64_C(0x9e3779b97f4a7c15);
        memcpy(memory[slot].p + i, &x, 8);
    }
    return span_of(memory[slot].p, n);
}

#define TEXTS 256

/* Text of about n bytes whose characters have one to three: a piece of a long one. */
static struct span text_of(size_t n, uint32_t tag) {
    static const char *const letters[] = {"a", "\xc3\xa9", "\xe2\x82\xac", " "};
    static char text[LIMIT_DETAIL + TEXTS * 4];
    static size_t begins[TEXTS], end;
    for (uint32_t k = 1, i = 0; end + 3 < sizeof text; k = k * 1103515245 + 12345, i++) {
        if (i < TEXTS)
            begins[i] = end;
        for (const char *c = letters[k >> 16 & 3]; *c;)
            text[end++] = *c++;
    }
    size_t begin = begins[tag % TEXTS];
    while (((uint8_t)text[begin + n] & 0xc0) == 0x80)
        n++;
    return span_of(text + begin, n);
}

struct span model_error(uint32_t tag) {
    if (tag == MODEL_LEASE_TAG)
        return span_str("the lease ran out before the message was settled");
    return text_of(tag % 37 == 0 ? LIMIT_ERROR - 5 + tag % 11 : tag % 60, tag);
}

struct span model_error_class(uint32_t tag) {
    if (tag == MODEL_LEASE_TAG)
        return span_str("lease_expired");
    return text_of(tag % 41 == 0 ? LIMIT_ERROR_CLASS - 5 + tag % 11 : tag % 20, tag + 1);
}

struct span model_detail(uint32_t tag) {
    if (tag == MODEL_LEASE_TAG)
        return (struct span){0};
    return text_of(tag % 97 == 0 ? LIMIT_DETAIL - 5 + tag % 11 : tag % 200, tag + 2);
}

/* -- differences ------------------------------------------------------------------------------------------------- */

struct complaint {
    char *text;
    size_t bytes;
};

__attribute__((format(printf, 2, 3))) static bool differs(const struct complaint *c,
                                                          const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(c->text, c->bytes, format, args);
    va_end(args);
    return false;
}

static bool same_number(const struct complaint *c, const char *of, uint64_t id, const char *what,
                        long long got, long long want) {
    return got == want || differs(c, "%s %llu: %s is %lld, should be %lld", of,
                                  (unsigned long long)id, what, got, want);
}

#define SAME(of, id, what, got, want)                                                              \
    do {                                                                                           \
        if (!same_number(c, of, id, what, (long long)(got), (long long)(want)))                    \
            return false;                                                                          \
    } while (0)

static bool same_ledger(const struct complaint *c, const char *of, uint64_t id,
                        const struct ledger *got, const struct ledger *want) {
    SAME(of, id, "accepted", got->accepted, want->accepted);
    SAME(of, id, "moved_in", got->moved_in, want->moved_in);
    SAME(of, id, "succeeded", got->succeeded, want->succeeded);
    SAME(of, id, "discarded", got->discarded, want->discarded);
    SAME(of, id, "moved_out", got->moved_out, want->moved_out);
    SAME(of, id, "expired", got->expired, want->expired);
    return true;
}

static bool same_counts(const struct complaint *c, const struct model *m, int queue, bool ready,
                        const struct queue_view *v) {
    uint64_t count[STATE_COUNT] = {0}, now_ready = 0, bytes = 0, id = (uint64_t)queue;
    for (size_t i = 0; i < m->message_count; i++) {
        const struct model_message *x = &m->messages[i];
        if (x->queue != queue)
            continue;
        count[x->state]++;
        now_ready += x->state == STATE_PENDING && !x->waiting;
        bytes += x->state == STATE_SUCCEEDED ? 0 : x->payload_bytes;
    }
    for (int s = 0; s < STATE_COUNT; s++)
        SAME("queue", id, state_name((enum state)s), v->count[s], count[s]);
    if (ready)
        SAME("queue", id, "ready", v->ready, now_ready);
    SAME("queue", id, "bytes", v->bytes, bytes);
    return true;
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
    uint64_t id = (uint64_t)queue;
    SAME("queue", id, "created_at", v.created_at, q->created_at);
    SAME("queue", id, "deliveries", v.deliveries, q->deliveries);
    SAME("queue", id, "failures", v.failures, q->failures);
    SAME("queue", id, "deaths", v.deaths, q->deaths);
    if (!policy_equal(v.policy, &q->policy))
        return differs(c, "queue %d: its policy is not what it was given", queue);
    return same_ledger(c, "queue", id, &v.ledger, &q->ledger) &&
           same_counts(c, m, queue, ready, &v);
}

/* -- stories ---------------------------------------------------------------------------------------------------------- */

struct story_check {
    const struct complaint *c;
    const struct model_message *x;
    const struct model_story *story;
    size_t n;
    bool same;
    struct model_line newest;
};

static struct span error_kept(uint32_t tag) {
    struct span s = span_cut_utf8(model_error(tag), LIMIT_ERROR);
    return s.n ? s : span_str("unknown error");
}

static bool same_line(const struct complaint *c, uint64_t id, const struct history_entry *got,
                      const struct model_line *want) {
    if (got->event != want->event)
        return differs(c, "message %llu: its story says %s, should say %s", (unsigned long long)id,
                       event_name(got->event), event_name(want->event));
    SAME("message", id, "attempt in its story", got->attempt, want->attempt);
    SAME("message", id, "time in its story", got->at, want->at);
    SAME("message", id, "next time in its story", got->next_at, want->next_at);
    if (!span_equal(got->worker, model_worker(want->worker)))
        return differs(c, "message %llu: another worker in its story", (unsigned long long)id);
    bool is_failure = want->event == EVENT_FAILED || want->event == EVENT_LEASE_EXPIRED;
    if (!is_failure)
        return got->error.n == 0 ||
               differs(c, "message %llu: an error from nowhere", (unsigned long long)id);
    if (!span_equal(got->error, error_kept(want->tag)) ||
        !span_equal(got->error_class,
                    span_cut_utf8(model_error_class(want->tag), LIMIT_ERROR_CLASS)) ||
        !span_equal(got->detail, span_cut_utf8(model_detail(want->tag), LIMIT_DETAIL)))
        return differs(c, "message %llu: other texts in its story", (unsigned long long)id);
    return true;
}

static void check_line(void *ctx, const struct history_entry *entry) {
    struct story_check *s = ctx;
    const struct model_story *story = s->story;
    if (s->same && (story->n <= MODEL_STORY ? s->n < story->n : s->n == 0))
        s->same = same_line(s->c, s->x->id, entry, &story->lines[s->n]);
    s->newest = (struct model_line){entry->event, entry->attempt, 0, entry->at, entry->next_at, 0};
    s->n++;
}

static bool same_story(const struct complaint *c, const struct model *m, struct engine *e,
                       const struct model_message *x) {
    struct story_check s = {.c = c, .x = x, .story = &m->stories[x->story], .same = true};
    if (engine_history(e, model_queue_name(x->queue), x->id, check_line, &s) != OK)
        return differs(c, "message %llu has no story", (unsigned long long)x->id);
    if (!s.same)
        return false;
    if (s.story->n <= MODEL_STORY)
        SAME("message", x->id, "lines of its story", s.n, s.story->n);
    if (s.story->n == 0)
        return true;
    SAME("message", x->id, "last event", s.newest.event, s.story->last.event);
    SAME("message", x->id, "last attempt", s.newest.attempt, s.story->last.attempt);
    SAME("message", x->id, "last time", s.newest.at, s.story->last.at);
    return true;
}

/* -- messages ---------------------------------------------------------------------------------------------------------- */

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
    SAME("message", x->id, "died_at", v->died_at, x->died_at);
    SAME("message", x->id, "expires_at", v->expires_at,
         is_pending || x->state == STATE_PROCESSING ? x->expires_at : 0);
    return true;
}

static bool same_bytes(const struct complaint *c, const struct model_message *x,
                       const struct message_view *v) {
    if (!span_equal(v->payload, model_bytes(0, x->tag, x->payload_bytes)) ||
        !span_equal(v->headers, model_bytes(1, x->tag, x->headers_bytes)) ||
        !span_equal(v->key, model_bytes(2, x->tag, x->key_bytes)))
        return differs(c, "message %llu: other payload, headers or key", (unsigned long long)x->id);
    bool has_error = x->has_error && x->retry_count > 0;
    SAME("message", x->id, "has_error", v->has_error, has_error);
    if (!has_error)
        return true;
    if (!span_equal(v->error, error_kept(x->error_tag)) ||
        !span_equal(v->error_class,
                    span_cut_utf8(model_error_class(x->error_tag), LIMIT_ERROR_CLASS)) ||
        !span_equal(v->detail, span_cut_utf8(model_detail(x->error_tag), LIMIT_DETAIL)))
        return differs(c, "message %llu: other texts of its error", (unsigned long long)x->id);
    return true;
}

bool model_same_message(const struct model *m, struct engine *e, const struct model_message *x,
                        bool story, char *text, size_t text_bytes) {
    const struct complaint complaint = {text, text_bytes}, *c = &complaint;
    struct message_view v;
    enum err r = engine_message(e, model_queue_name(x->queue), x->id, &v);
    if (r != OK)
        return differs(c, "message %llu in queue %d: %s", (unsigned long long)x->id, x->queue,
                       err_text(r));
    if (v.state != x->state)
        return differs(c, "message %llu is %s, should be %s", (unsigned long long)x->id,
                       state_name(v.state), state_name(x->state));
    if (v.reason != (x->state == STATE_DEAD ? x->reason : REASON_NONE))
        return differs(c, "message %llu: reason %s, should be %s", (unsigned long long)x->id,
                       reason_name(v.reason), reason_name(x->reason));
    SAME("message", x->id, "retry_count", v.retry_count, x->retry_count);
    SAME("message", x->id, "max_retries", v.max_retries, x->max_retries);
    SAME("message", x->id, "priority", v.priority, x->priority);
    SAME("message", x->id, "deliveries", v.deliveries, x->deliveries);
    return same_times(c, x, &v) && same_bytes(c, x, &v) && (!story || same_story(c, m, e, x));
}

/* -- all --------------------------------------------------------------------------------------------------------------------- */

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

static bool same_ids(const struct complaint *c, const struct model *m, struct engine *e,
                     int queue) {
    uint64_t ids[LIMIT_BATCH];
    size_t n;
    struct list list = {.state = -1, .limit = LIMIT_BATCH};
    engine_list(e, model_queue_name(queue), &list, ids, &n);
    size_t k = 0;
    for (size_t i = 0; i < m->message_count; i++) {
        if (m->messages[i].queue != queue)
            continue;
        if (k >= n || ids[k] != m->messages[i].id)
            return differs(c, "queue %d: message %llu is not in its list", queue,
                           (unsigned long long)m->messages[i].id);
        k++;
    }
    return k == n || differs(c, "queue %d: its list has %zu messages too many", queue, n - k);
}

bool model_same(const struct model *m, struct engine *e, bool ready, char *text,
                size_t text_bytes) {
    const struct complaint complaint = {text, text_bytes}, *c = &complaint;
    struct order_check o = {.m = m, .sorted = true};
    if (engine_queues(e, (struct span){0}, check_order, &o) != OK || !o.sorted)
        return differs(c, "the queues are not listed in order of creation");
    for (int q = 0; q < MODEL_QUEUES; q++) {
        if (!model_same_queue(m, e, q, ready, text, text_bytes) || !same_ids(c, m, e, q))
            return false;
        o.n -= m->queues[q].exists;
    }
    if (o.n != 0)
        return differs(c, "there are other queues than there should be");
    for (size_t i = 0; i < m->message_count; i++)
        if (!model_same_message(m, e, &m->messages[i], true, text, text_bytes))
            return false;
    struct engine_stats stats = engine_stats(e);
    struct ledger sum = m->deleted;
    if (m->dropping_messages == 0 && m->dropping.accepted == 0)
        return same_ledger(c, "deleted queues", 0, &stats.deleted, &sum);
    return true;
}
