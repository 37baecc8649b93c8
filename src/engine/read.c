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
    v->error_class = ev.error_class;
    v->error = ev.error;
    v->detail = ev.detail;
}

enum err engine_message(struct engine *e, struct span queue, uint64_t id,
                        struct message_view *ret) {
    uint32_t i;
    enum err r = find_message(e, queue, id, &i);
    if (r != OK)
        return r;
    const struct slot *s = slot_at(&e->st, i);
    const struct extra *x = slot_extra(&e->st, s);
    const struct queue *q = queue_at(&e->st, s->queue);
    struct record_message m;
    read_message(e, s, &e->message, &m);
    struct message_view v = {
        .id = s->id,
        .queue = span_of(q->name, q->name_bytes),
        .state = (enum state)s->state,
        .reason = s->state == STATE_DEAD ? (enum reason)x->reason : REASON_NONE,
        .retry_count = x->retry_count,
        .max_retries = (uint8_t)s->max_retries,
        .priority = (uint8_t)s->priority,
        .deliveries = (uint32_t)s->deliveries,
        .created_at = m.created_at,
        .updated_at = (int64_t)s->updated_at,
        .expires_at = s->state == STATE_PENDING || s->state == STATE_PROCESSING ? x->expires_at : 0,
        .died_at = x->died_at,
        .payload = m.payload,
        .headers = m.headers,
        .key = m.key,
    };
    if (s->state == STATE_PENDING && x->is_retry)
        v.retry_after = x->next_at;
    else if (s->state == STATE_PENDING && s->aside)
        v.available_at = x->next_at;
    else if (s->state == STATE_PROCESSING)
        v.lease_expires_at = x->next_at;
    view_error(e, x, &v);
    *ret = v;
    return OK;
}

enum err engine_message_state(struct engine *e, struct span queue, uint64_t id, enum state *ret) {
    uint32_t i;
    enum err r = find_message(e, queue, id, &i);
    if (r == OK)
        *ret = (enum state)slot_at(&e->st, i)->state;
    return r;
}

/* -- the story ------------------------------------------------------------------------------- */

enum err engine_history(struct engine *e, struct span queue, uint64_t id,
                        void (*f)(void *ctx, const struct history_entry *entry), void *ctx) {
    uint32_t i;
    enum err r = find_message(e, queue, id, &i);
    if (r != OK)
        return r;
    /* The chain leads back in time: first the places, then the lines. */
    struct buf places;
    buf_init(&places, SIZE_MAX);
    struct record_event ev;
    size_t bytes;
    for (uint64_t at = slot_extra(&e->st, slot_at(&e->st, i))->history; at; at = ev.previous) {
        buf_add(&places, &at, sizeof at);
        read_event(e, at, &e->story, &ev, &bytes);
    }
    for (size_t n = places.n / sizeof(uint64_t); n > 0; n--) {
        uint64_t at;
        memcpy(&at, places.p + (n - 1) * sizeof at, sizeof at);
        read_event(e, at, &e->story, &ev, &bytes);
        struct history_entry entry = {
            .event = ev.event,
            .attempt = ev.attempt,
            .at = ev.at,
            .next_at = ev.next_at,
            .worker = ev.worker,
            .worker_version = ev.worker_version,
            .error_class = ev.error_class,
            .error = ev.error,
            .detail = ev.detail,
        };
        f(ctx, &entry);
    }
    if (places.n == 0 && slot_at(&e->st, i)->state == STATE_SUCCEEDED) {
        /* At its first attempt: nothing more is kept than the message itself tells. */
        const struct slot *s = slot_at(&e->st, i);
        f(ctx, &(struct history_entry){.event = EVENT_SUCCEEDED,
                                       .attempt = (uint32_t)s->deliveries,
                                       .at = (int64_t)s->updated_at});
    }
    buf_release(&places);
    return OK;
}

/* -- lists ----------------------------------------------------------------------------------- */

#define RUNS_MAX (PRIORITY_MAX + 1 + SET_COUNT)

/* A list in order of id is a merge of runs that are: each set but the ready ones, and those once a
 * priority. */
struct run {
    enum set set;
    unsigned priority;
    uint32_t head; /* 0 = at its end */
};

static uint32_t run_after(const struct engine *e, const struct queue *q, const struct run *r,
                          uint64_t id) {
    uint32_t i = set_after(&e->st, q, r->set, r->priority, id);
    if (i && r->set == SET_READY && slot_at(&e->st, i)->priority != r->priority)
        return 0;
    return i;
}

static bool set_wanted(enum set set, int state) {
    static const int state_of[SET_COUNT] = {
        [SET_READY] = STATE_PENDING,         [SET_WAITING] = STATE_PENDING,
        [SET_PROCESSING] = STATE_PROCESSING, [SET_SUCCEEDED] = STATE_SUCCEEDED,
        [SET_KEPT] = STATE_SUCCEEDED,        [SET_DEAD] = STATE_DEAD,
        [SET_PARKED] = STATE_PARKED,
    };
    return state < 0 || state == state_of[set];
}

static size_t runs_begin(const struct engine *e, const struct queue *q, const struct list *list,
                         struct run runs[static RUNS_MAX]) {
    size_t n = 0;
    for (enum set set = 0; set < SET_COUNT; set++) {
        if (!set_wanted(set, list->state))
            continue;
        for (unsigned p = 0; p <= (set == SET_READY ? PRIORITY_MAX : 0); p++) {
            runs[n] = (struct run){.set = set, .priority = p};
            runs[n].head = run_after(e, q, &runs[n], list->after);
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
            if (slot_at(&e->st, runs[k].head)->id < slot_at(&e->st, runs[least].head)->id)
                least = k;
        uint64_t id = slot_at(&e->st, runs[least].head)->id;
        if (skip > 0)
            skip--;
        else
            ret_ids[(*ret_n)++] = id;
        runs[least].head = run_after(e, q, &runs[least], id);
        if (!runs[least].head)
            runs[least] = runs[--n];
    }
}
