#include "engine/state.h"

#include "base/clock.h"
#include "base/mem.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct queue *queue_at(const struct engine_state *st, uint32_t place) {
    return st->queues[place];
}

struct queue *queue_by_number(const struct engine_state *st, uint64_t number) {
    uint32_t i = hash_index_first(&st->queues_by_number, number);
    while (i && queue_at(st, i)->number != number)
        i = queue_at(st, i)->next_by_number;
    return i ? queue_at(st, i) : NULL;
}

struct queue *queue_by_name(const struct engine_state *st, struct span name) {
    uint32_t i = hash_index_first(&st->queues_by_name, hash64(name, st->hash_seed));
    for (; i; i = queue_at(st, i)->next_by_name) {
        struct queue *q = queue_at(st, i);
        if (span_equal(span_of(q->name, q->name_bytes), name))
            return q;
    }
    return NULL;
}

static uint32_t place_new(struct engine_state *st) {
    if (st->free_place_count)
        return st->free_places[--st->free_place_count];
    uint32_t place = ++st->queue_count;
    assert(place < TIMER_OF_QUEUE);
    if (place >= st->queue_cap) {
        st->queue_cap = st->queue_cap ? st->queue_cap * 2 : 64;
        st->queues = mem_grow(st->queues, st->queue_cap * sizeof *st->queues);
    }
    return place;
}

/* Numbers grow with creation; when the log is read they may come in any order. */
static void link_by_age(struct engine_state *st, struct queue *q) {
    uint32_t older = st->newest_queue;
    while (older && queue_at(st, older)->number > q->number)
        older = queue_at(st, older)->older;
    q->older = older;
    q->newer = older ? queue_at(st, older)->newer : st->oldest_queue;
    if (q->older)
        queue_at(st, q->older)->newer = q->place;
    else
        st->oldest_queue = q->place;
    if (q->newer)
        queue_at(st, q->newer)->older = q->place;
    else
        st->newest_queue = q->place;
}

static void unlink_by_age(struct engine_state *st, const struct queue *q) {
    if (q->older)
        queue_at(st, q->older)->newer = q->newer;
    else
        st->oldest_queue = q->newer;
    if (q->newer)
        queue_at(st, q->newer)->older = q->older;
    else
        st->newest_queue = q->older;
}

struct queue *queue_new(struct engine_state *st, uint64_t number) {
    struct queue *q = mem_alloc(sizeof *q);
    q->place = place_new(st);
    st->queues[q->place] = q;
    q->number = number;
    q->policy = policy_default();
    q->trim_at = q->trim_next_at = q->dead_trim_at = TIME_NEVER;
    hash_index_add(&st->queues_by_number, q->place);
    link_by_age(st, q);
    st->live_queues++;
    return q;
}

struct queue *queue_of_record(struct engine_state *st, uint64_t number) {
    struct queue *q = queue_by_number(st, number);
    return q ? q : queue_new(st, number);
}

void queue_set_name(struct engine_state *st, struct queue *q, struct span name) {
    assert(!q->name);
    q->name = mem_alloc(name.n + 1);
    memcpy(q->name, name.p, name.n);
    q->name_bytes = name.n;
    if (!q->dropping)
        hash_index_add(&st->queues_by_name, q->place);
}

void queue_take_texts(struct queue *q, const struct record_queue *r) {
    struct span spans[QUEUE_SPANS];
    record_queue_spans(r, spans);
    bool has_new_rules = !span_equal(q->texts.rules, r->texts.rules);
    if (spans_bytes(spans, QUEUE_SPANS) == 0 && !q->texts_memory)
        return;
    char *memory = spans_keep(spans, QUEUE_SPANS);
    free(q->texts_memory); /* r may point into the old ones */
    q->texts_memory = memory;
    q->texts = policy_texts_of(spans);
    q->breaker_cause = spans[POLICY_TEXTS];
    if (q->amqp) {
        q->amqp->image.arguments = spans[POLICY_TEXTS + 1];
        q->amqp->image.settings.dlx = spans[POLICY_TEXTS + 2];
        q->amqp->image.settings.dlrk = spans[POLICY_TEXTS + 3];
    }
    if (!has_new_rules)
        return;
    rules_free(q->rules);
    q->rules = rules_new(q->texts.rules);
}

void queue_lose_name(struct engine_state *st, struct queue *q) {
    hash_index_remove(&st->queues_by_name, q->place);
    queue_wake(st, q);
}

static void queue_destroy(struct queue *q) {
    free(q->name);
    free(q->pause_texts);
    free(q->claimers);
    free(q->texts_memory);
    rules_free(q->rules);
    free(q->guard);
    free(q->amqp);
    free(q);
}

void queue_remove(struct engine_state *st, struct queue *q) {
    keys_leave(st, q);
    timers_clear(&st->timers, TIMER_OF_QUEUE | q->place);
    hash_index_remove(&st->queues_by_number, q->place);
    if (q->name && !q->dropping)
        hash_index_remove(&st->queues_by_name, q->place);
    unlink_by_age(st, q);
    st->live_queues--;
    st->live_bytes -= q->image_bytes;
    st->queues[q->place] = NULL;
    if (st->free_place_count == st->free_place_cap) {
        st->free_place_cap = st->free_place_cap ? st->free_place_cap * 2 : 64;
        st->free_places = mem_grow(st->free_places, st->free_place_cap * sizeof *st->free_places);
    }
    st->free_places[st->free_place_count++] = q->place;
    q->place = 0;
    if (q->watchers == 0 && !q->on_woken_list)
        queue_destroy(q);
}

/* -- waiting consumers ----------------------------------------------------------------------- */

void queue_wake(struct engine_state *st, struct queue *q) {
    bool is_shut = (q->paused_at || q->breaker == BREAKER_OPEN) && !q->dropping;
    if (q->watchers == 0 || q->on_woken_list || is_shut)
        return;
    q->on_woken_list = true;
    q->next_woken = NULL;
    if (st->woken_last)
        st->woken_last->next_woken = q;
    else
        st->woken_first = q;
    st->woken_last = q;
}

static struct queue *woken_pop(struct engine_state *st) {
    struct queue *q = st->woken_first;
    st->woken_first = q->next_woken;
    if (!st->woken_first)
        st->woken_last = NULL;
    q->on_woken_list = false;
    return q;
}

struct queue *state_woken(struct engine_state *st) {
    while (st->woken_first) {
        struct queue *q = woken_pop(st);
        if (q->watchers > 0)
            return q;
        if (q->place == 0)
            queue_destroy(q);
    }
    return NULL;
}

void queue_unwatch(struct queue *q) {
    assert(q->watchers > 0);
    q->watchers--;
    if (q->watchers == 0 && q->place == 0 && !q->on_woken_list)
        queue_destroy(q);
}

void queues_release(struct engine_state *st) {
    while (st->woken_first) {
        struct queue *q = woken_pop(st);
        if (q->place == 0)
            queue_destroy(q);
    }
    for (uint32_t i = st->oldest_queue; i;) {
        struct queue *q = queue_at(st, i);
        i = q->newer;
        queue_destroy(q);
    }
    free(st->queues);
    free(st->free_places);
}

struct record_queue queue_image(const struct queue *q) {
    struct record_queue r = {
        .queue = q->number,
        .dropping = q->dropping,
        .created_at = q->created_at,
        .name = span_of(q->name, q->name_bytes),
        .policy = q->policy,
        .ledger = q->ledger,
        .deliveries = q->deliveries,
        .failures = q->failures,
        .redriven = q->redriven,
        .redriven_succeeded = q->redriven_succeeded,
        .redriven_died = q->redriven_died,
        .texts = q->texts,
        .breaker = q->breaker,
        .breaker_at = q->breaker_at,
        .breaker_until = q->breaker_until,
        .breaker_opened = q->breaker_opened,
        .breaker_cause = q->breaker_cause,
        .alone_claims = q->alone_claims,
        .paused_at = q->paused_at,
        .paused_by = span_of(q->pause_texts, q->paused_by_bytes),
        .pause_reason = span_of(q->pause_texts + q->paused_by_bytes, q->pause_reason_bytes),
    };
    memcpy(r.deaths_by, q->deaths_by, sizeof r.deaths_by);
    r.amqp.settings = queue_settings_none();
    if (q->amqp) {
        r.amqp = q->amqp->image;
        r.has_amqp = r.amqp.is_declared || r.amqp.expired || r.amqp.max_length;
    }
    return r;
}
