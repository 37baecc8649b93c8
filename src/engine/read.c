#include "engine/engine_int.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void view_error(struct engine *e, const struct extra *x, struct message_view *v) {
    if (!x->error)
        return;
    struct record_event ev;
    size_t bytes;
    read_event(e, x->error, &e->story, &ev, &bytes);
    v->has_error = true;
    v->failed_at = ev.at;
    v->error_class = ev.error_class;
    v->error = ev.error;
    v->detail = ev.detail;
    v->fingerprint = ev.fingerprint;
    v->worker = ev.worker;
    v->worker_version = ev.worker_version;
}

/* The newest line of a discarded letter's story says why. */
static enum discard_reason read_discard(struct engine *e, const struct extra *x) {
    struct record_event ev = {0};
    size_t bytes;
    if (x->history)
        read_event(e, x->history, &e->message, &ev, &bytes);
    int why = ev.event == EVENT_DISCARDED ? discard_reason_parse(ev.error_class) : -1;
    return why < 0 ? DISCARD_NONE : (enum discard_reason)why;
}

static void view_letter(const struct engine *e, const struct slot *s, const struct letter *l,
                        struct message_view *v) {
    const struct queue *q = queue_at(&e->st, s->queue);
    const struct extra *x = slot_extra(&e->st, s);
    v->redrive_count = l->redrive_count;
    v->group_key = l->group ? group_at(&e->st, l->group)->image.key : 0;
    v->job = l->job;
    v->deliveries_before = l->deliveries_before;
    v->job_part = (enum job_part)l->job_part;
    v->edited_to = l->edited_to;
    if (s->state != STATE_DEAD && s->state != STATE_DISCARDED)
        return;
    v->reason = (enum reason)x->reason;
    v->died_at = l->died_at;
    v->dead_seq = l->dead_seq;
    if (s->state == STATE_DISCARDED)
        v->dead_expires_at = x->next_at;
    else if (q->policy.keep_dead_ms)
        v->dead_expires_at = l->died_at + q->policy.keep_dead_ms;
}

/* Parked is what stands behind a dead head of its key. */
static enum state state_of(const struct engine *e, const struct slot *s) {
    const struct line *l = s->state == STATE_PENDING && s->held ? line_of(&e->st, s) : NULL;
    return l && l->is_parked ? STATE_PARKED : (enum state)s->state;
}

void view_slot(struct engine *e, const struct slot *s, struct message_view *ret) {
    const struct extra *x = slot_extra(&e->st, s);
    const struct queue *q = queue_at(&e->st, s->queue);
    enum discard_reason why = s->state == STATE_DISCARDED ? read_discard(e, x) : DISCARD_NONE;
    struct record_message m;
    read_message(e, s, &e->message, &m);
    struct message_view v = {
        .id = s->id,
        .queue = span_of(q->name, q->name_bytes),
        .state = state_of(e, s),
        .retry_count = x->retry_count,
        .max_retries = (uint8_t)s->max_retries,
        .priority = (uint8_t)s->priority,
        .deliveries = (uint32_t)s->deliveries,
        .created_at = m.created_at,
        .updated_at = (int64_t)s->updated_at,
        .ttl_ms = m.ttl_ms,
        .expires_at = s->state == STATE_PENDING || s->state == STATE_PROCESSING ? x->expires_at : 0,
        .first_failed_at = x->first_failed_at,
        .payload = m.payload,
        .headers = m.headers,
        .key = m.key,
        .parent_id = m.parent_id,
        .origin = m.origin,
        .envelope = m.envelope,
        .is_unroutable = x->is_unroutable && s->state == STATE_DEAD,
        .discard_reason = why,
        .is_held = s->held,
    };
    if (s->state == STATE_PENDING && x->is_retry)
        v.retry_after = x->next_at;
    else if (s->state == STATE_PENDING && s->aside)
        v.available_at = x->next_at;
    else if (s->state == STATE_PROCESSING)
        v.lease_expires_at = x->next_at;
    const struct letter *l = slot_letter(&e->st, s);
    if (l)
        view_letter(e, s, l, &v);
    view_error(e, x, &v);
    *ret = v;
}

enum err engine_message(struct engine *e, struct span queue, uint64_t id,
                        struct message_view *ret) {
    uint32_t i;
    enum err r = find_message(e, queue, id, &i);
    if (r == OK)
        view_slot(e, slot_at(&e->st, i), ret);
    return r;
}

enum err engine_letter(struct engine *e, uint64_t id, struct message_view *ret) {
    uint32_t i = slot_find(&e->st, id);
    if (!i || queue_at(&e->st, slot_at(&e->st, i)->queue)->dropping)
        return ERR_NO_MESSAGE;
    view_slot(e, slot_at(&e->st, i), ret);
    return OK;
}

enum err engine_message_state(struct engine *e, struct span queue, uint64_t id, enum state *ret) {
    uint32_t i;
    enum err r = find_message(e, queue, id, &i);
    if (r == OK)
        *ret = state_of(e, slot_at(&e->st, i));
    return r;
}

/* -- the story ------------------------------------------------------------------------------- */

static struct history_entry entry_of(const struct record_event *ev) {
    return (struct history_entry){
        .event = ev->event,
        .attempt = ev->attempt,
        .at = ev->at,
        .next_at = ev->next_at,
        .worker = ev->worker,
        .worker_version = ev->worker_version,
        .error_class = ev->error_class,
        .error = ev->error,
        .detail = ev->detail,
        .fingerprint = ev->fingerprint,
    };
}

/* A line of the chain, which leads back in time. */
struct place {
    uint64_t at;
    uint32_t attempt;
};

static bool is_told(uint32_t attempt, uint32_t deliveries) {
    return attempt <= LIMIT_ATTEMPTS_FIRST || attempt + LIMIT_ATTEMPTS_LAST > deliveries;
}

enum err engine_history(struct engine *e, struct span queue, uint64_t id,
                        void (*f)(void *ctx, const struct history_entry *entry), void *ctx,
                        uint32_t *ret_omitted) {
    uint32_t i;
    enum err r = find_message(e, queue, id, &i);
    if (r != OK)
        return r;
    const struct slot *s = slot_at(&e->st, i);
    uint32_t deliveries = (uint32_t)s->deliveries, told = 0, newest = UINT32_MAX;
    struct buf places;
    buf_init(&places, SIZE_MAX);
    struct record_event ev;
    size_t bytes;
    for (uint64_t at = slot_extra(&e->st, s)->history; at; at = ev.previous) {
        read_event(e, at, &e->story, &ev, &bytes);
        if (!is_told(ev.attempt, deliveries))
            continue;
        struct place place = {at, ev.attempt};
        buf_add(&places, &place, sizeof place);
        told += ev.attempt > 0 && ev.attempt != newest;
        newest = ev.attempt;
    }
    const struct place *place = (const struct place *)(const void *)places.p;
    for (size_t n = places.n / sizeof *place; n > 0; n--) {
        read_event(e, place[n - 1].at, &e->story, &ev, &bytes);
        struct history_entry entry = entry_of(&ev);
        f(ctx, &entry);
    }
    if (places.n == 0 && s->state == STATE_SUCCEEDED) {
        /* At its first attempt: nothing more is kept than the message itself tells. */
        f(ctx, &(struct history_entry){
                   .event = EVENT_SUCCEEDED, .attempt = deliveries, .at = (int64_t)s->updated_at});
        told = 1;
    }
    buf_release(&places);
    *ret_omitted = deliveries > told ? deliveries - told : 0;
    return OK;
}

/* -- lists ----------------------------------------------------------------------------------- */

#define RUNS_MAX (LINES + SET_COUNT)

/* A list in order of arrival is a merge of runs that are: each set but the ready ones, and those once a
 * line. */
struct run {
    enum set set;
    int state; /* that is wanted, or -1 */
    unsigned line;
    uint32_t head; /* 0 = at its end */
};

static uint64_t arrival_of(const struct engine *e, uint32_t slot) {
    return slot_arrival(&e->st, slot_at(&e->st, slot));
}

static uint32_t run_after(const struct engine *e, const struct queue *q, const struct run *r,
                          uint64_t arrival) {
    uint32_t i = set_after(&e->st, q, r->set, r->line, arrival);
    /* Held ones are pending or parked. */
    while (i && r->state >= 0 && r->set == SET_HELD &&
           (int)state_of(e, slot_at(&e->st, i)) != r->state)
        i = set_after(&e->st, q, SET_HELD, 0, arrival_of(e, i));
    if (i && r->set == SET_READY && slot_line(slot_at(&e->st, i)) != r->line)
        return 0;
    return i;
}

static bool set_wanted(enum set set, int state) {
    static const int state_of[SET_COUNT] = {
        [SET_READY] = STATE_PENDING,         [SET_WAITING] = STATE_PENDING,
        [SET_PROCESSING] = STATE_PROCESSING, [SET_SUCCEEDED] = STATE_SUCCEEDED,
        [SET_KEPT] = STATE_SUCCEEDED,        [SET_DEAD] = STATE_DEAD,
        [SET_PARKED] = STATE_PARKED,         [SET_DISCARDED] = STATE_DISCARDED,
        [SET_HELD] = STATE_PENDING,
    };
    return (state < 0 && set != SET_DISCARDED) || (set == SET_HELD && state == STATE_PARKED) ||
           state == state_of[set];
}

static size_t runs_begin(const struct engine *e, const struct queue *q, const struct list *list,
                         struct run runs[static RUNS_MAX]) {
    uint32_t last = slot_find(&e->st, list->after);
    bool is_here = last && slot_at(&e->st, last)->queue == q->place;
    uint64_t after = is_here ? arrival_of(e, last) : list->after;
    size_t n = 0;
    for (enum set set = 0; set < SET_COUNT; set++) {
        if (!set_wanted(set, list->state))
            continue;
        for (unsigned line = 0; line < (set == SET_READY ? LINES : 1); line++) {
            runs[n] = (struct run){.set = set, .state = list->state, .line = line};
            runs[n].head = run_after(e, q, &runs[n], after);
            if (runs[n].head)
                n++;
        }
    }
    return n;
}

void engine_list(struct engine *e, struct span queue, const struct list *list, uint64_t *ret_ids,
                 size_t *ret_n) {
    *ret_n = 0;
    const struct queue *q = queue_by_name(&e->st, queue);
    if (!q)
        return;
    struct run runs[RUNS_MAX];
    size_t n = runs_begin(e, q, list, runs), skip = list->offset;
    while (n > 0 && *ret_n < list->limit) {
        size_t least = 0;
        for (size_t k = 1; k < n; k++)
            if (arrival_of(e, runs[k].head) < arrival_of(e, runs[least].head))
                least = k;
        uint32_t i = runs[least].head;
        if (skip > 0)
            skip--;
        else
            ret_ids[(*ret_n)++] = slot_at(&e->st, i)->id;
        runs[least].head = run_after(e, q, &runs[least], arrival_of(e, i));
        if (!runs[least].head)
            runs[least] = runs[--n];
    }
}
