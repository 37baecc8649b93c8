/* Slow looks at the whole state, for tests and tools. */
#include "engine/verify.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* -- the checksum ---------------------------------------------------------------------------- */

static uint64_t sum_message(const struct engine *e, const struct slot *s, uint64_t sum) {
    struct record_state r = {
        .id = s->id, .queue = queue_at(&e->st, s->queue)->number, .image = slot_image(&e->st, s)};
    uint8_t meta[RECORD_META_MAX];
    sum = hash64(span_of(meta, record_state_put(meta, &r)), sum);
    int64_t more[2] = {slot_extra(&e->st, s)->idempotency_until, (int64_t)s->payload_bytes};
    return hash64(span_of(more, sizeof more), sum);
}

/* Sums of messages are added up, so that the order of walking does not count. */
static uint64_t sum_messages(const struct engine *e, const struct queue *q) {
    uint64_t sum = 0;
    for (enum set set = 0; set < SET_COUNT; set++)
        for (uint32_t i = set_first(&e->st, q, set); i;) {
            const struct slot *s = slot_at(&e->st, i);
            sum += sum_message(e, s, 1);
            i = set_after(&e->st, q, set, slot_line(s), slot_arrival(&e->st, s));
        }
    return sum;
}

static uint64_t sum_spans(const struct span *spans, size_t n, uint64_t sum) {
    for (size_t i = 0; i < n; i++)
        sum = hash64(spans[i], sum);
    return sum;
}

/* Groups lie in any order: their sums are added up. */
static uint64_t sum_groups(const struct engine *e) {
    uint64_t sum = 0;
    for (uint32_t i = 1; i <= e->st.group_count; i++) {
        const struct group *g = e->st.groups[i];
        if (!g)
            continue;
        struct record_group image = g->image;
        image.group = g->number;
        uint8_t meta[RECORD_META_MAX];
        struct span spans[GROUP_SPANS];
        size_t n = record_group_spans(&image, spans);
        uint64_t one = hash64(span_of(meta, record_group_put(meta, &image)), 2);
        uint64_t counts[3] = {g->count, g->open, g->discarded};
        sum += hash64(span_of(counts, sizeof counts), sum_spans(spans, n, one));
    }
    return sum;
}

static uint64_t sum_jobs(const struct engine *e) {
    uint64_t sum = 3;
    for (uint32_t i = 0; i < e->st.job_count; i++) {
        struct record_job image = e->st.jobs[i]->image;
        image.job = e->st.jobs[i]->number;
        uint8_t meta[RECORD_META_MAX];
        struct span spans[JOB_SPANS];
        size_t n = record_job_spans(&image, spans);
        sum = hash64(span_of(meta, record_job_put(meta, &image)), sum);
        sum = sum_spans(spans, n, sum);
    }
    return sum;
}

uint64_t engine_checksum(const struct engine *e) {
    const struct record_engine all = engine_image(&e->st);
    uint8_t meta[RECORD_META_MAX];
    uint64_t sum = hash64(span_of(meta, record_engine_put(meta, &all)), 0);
    for (uint32_t i = e->st.oldest_queue; i; i = queue_at(&e->st, i)->newer) {
        const struct queue *q = queue_at(&e->st, i);
        struct record_queue image = queue_image(q);
        struct span texts[QUEUE_SPANS];
        record_queue_spans(&image, texts);
        sum = hash64(span_of(meta, record_queue_put(meta, &image)), sum);
        sum = sum_spans(texts, QUEUE_SPANS, sum);
        uint64_t messages = sum_messages(e, q);
        sum = hash64(span_of(&messages, sizeof messages), sum);
    }
    uint64_t more[5] = {sum_groups(e), sum_jobs(e), e->st.audit.first, e->st.audit.count,
                        sum_topology(e)};
    return hash64(span_of(more, sizeof more), sum);
}

/* -- the recount ----------------------------------------------------------------------------- */

struct recount {
    uint64_t count[STATE_COUNT];
    uint64_t bytes[STATE_COUNT];
    uint64_t ready, ready_bytes, live_bytes, messages, timers;
};

static bool verify_set(const struct engine *e, const struct queue *q, enum set set,
                       struct recount *r, const struct complaint *c) {
    for (uint32_t i = set_first(&e->st, q, set); i;) {
        const struct slot *s = slot_at(&e->st, i);
        const struct extra *x = slot_extra(&e->st, s);
        if (slot_set(s) != set || queue_at(&e->st, s->queue) != q)
            return complain(c, "message %llu is in the wrong set", (unsigned long long)s->id);
        if (slot_find(&e->st, s->id) != i)
            return complain(c, "message %llu is not in the index", (unsigned long long)s->id);
        if (s->state == STATE_PROCESSING && x->next_at && !x->timer)
            return complain(c, "message %llu has a lease without an end",
                            (unsigned long long)s->id);
        r->count[s->state]++;
        r->ready += set == SET_READY;
        r->ready_bytes += set == SET_READY ? s->payload_bytes : 0;
        r->bytes[s->state] += s->payload_bytes;
        r->live_bytes += slot_record_bytes(s) + x->history_bytes;
        r->messages++;
        r->timers += x->timer != 0;
        i = set_after(&e->st, q, set, slot_line(s), slot_arrival(&e->st, s));
    }
    return true;
}

static bool verify_queue(const struct engine *e, const struct queue *q, struct recount *all,
                         const struct complaint *c) {
    struct recount r = {0};
    for (enum set set = 0; set < SET_COUNT; set++)
        if (!verify_set(e, q, set, &r, c))
            return false;
    for (int state = 0; state < STATE_COUNT; state++)
        if (r.count[state] != q->count[state])
            return complain(c, "queue %.*s: %s is counted %llu and is %llu", (int)q->name_bytes,
                            q->name, state_name((enum state)state),
                            (unsigned long long)q->count[state],
                            (unsigned long long)r.count[state]);
    if (r.ready != q->ready || r.ready_bytes != q->ready_bytes ||
        memcmp(r.bytes, q->bytes, sizeof r.bytes) != 0)
        return complain(c, "queue %.*s: ready or bytes are counted wrong", (int)q->name_bytes,
                        q->name);
    struct queue_view v = {.ledger = q->ledger};
    memcpy(v.count, q->count, sizeof v.count);
    if (!queue_view_holds(&v))
        return complain(c, "queue %.*s: the equation of conservation does not hold",
                        (int)q->name_bytes, q->name);
    all->live_bytes += r.live_bytes + q->image_bytes;
    all->messages += r.messages;
    all->timers += r.timers + (q->timer != 0);
    return true;
}

bool engine_verify(const struct engine *e, char *text, size_t text_bytes) {
    struct complaint c = {text, text_bytes};
    struct recount all = {.live_bytes = e->st.engine_bytes};
    for (uint32_t i = e->st.oldest_queue; i; i = queue_at(&e->st, i)->newer)
        if (!verify_queue(e, queue_at(&e->st, i), &all, &c))
            return false;
    if (!verify_letters(e, &c) || !verify_lines(e, &c))
        return false;
    if (!verify_topology(e, &c))
        return false;
    all.live_bytes += triage_live_bytes(e) + topology_live_bytes(e);
    all.timers += job_timers(e);
    if (all.messages != e->st.messages)
        return complain(&c, "there are %llu messages, and %llu in queues",
                        (unsigned long long)e->st.messages, (unsigned long long)all.messages);
    if (all.live_bytes != e->st.live_bytes)
        return complain(&c, "live bytes are counted %llu and are %llu",
                        (unsigned long long)e->st.live_bytes, (unsigned long long)all.live_bytes);
    if (all.timers != e->st.timers.count)
        return complain(&c, "there are %u timers for %llu times", e->st.timers.count,
                        (unsigned long long)all.timers);
    return true;
}
