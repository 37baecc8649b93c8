#include "engine/state.h"

#include "base/mem.h"

#include <assert.h>
#include <stdlib.h>

/* -- what the indexes need to know ----------------------------------------------------------- */

static uint64_t slot_hash(void *ctx, uint32_t i) {
    return slot_at(ctx, i)->id;
}

static uint32_t *slot_link(void *ctx, uint32_t i) {
    return &slot_at(ctx, i)->next;
}

static uint64_t number_hash(void *ctx, uint32_t i) {
    return queue_at(ctx, i)->number;
}

static uint32_t *number_link(void *ctx, uint32_t i) {
    return &queue_at(ctx, i)->next_by_number;
}

static uint64_t name_hash(void *ctx, uint32_t i) {
    const struct engine_state *st = ctx;
    const struct queue *q = queue_at(st, i);
    return hash64(span_of(q->name, q->name_bytes), st->hash_seed);
}

static uint32_t *name_link(void *ctx, uint32_t i) {
    return &queue_at(ctx, i)->next_by_name;
}

static uint64_t key_hash_of(void *ctx, uint32_t i) {
    const struct engine_state *st = ctx;
    return st->keys[i].hash.lo;
}

static uint32_t *key_link(void *ctx, uint32_t i) {
    const struct engine_state *st = ctx;
    return &st->keys[i].next_of_chain;
}

static uint32_t *timer_place(void *ctx, uint32_t owner) {
    struct engine_state *st = ctx;
    if (owner & TIMER_OF_QUEUE)
        return &queue_at(st, owner & ~TIMER_OF_QUEUE)->timer;
    const struct slot *s = slot_at(st, owner);
    assert(s->extra);
    return &extra_at(st, s->extra)->timer;
}

void state_init(struct engine_state *st, uint64_t seed) {
    *st = (struct engine_state){.next_id = 1, .next_queue = 1, .hash_seed = seed};
    hash_index_init(&st->by_id, st, slot_hash, slot_link);
    hash_index_init(&st->queues_by_number, st, number_hash, number_link);
    hash_index_init(&st->queues_by_name, st, name_hash, name_link);
    hash_index_init(&st->by_key, st, key_hash_of, key_link);
    timers_init(&st->timers, st, timer_place);
}

void state_release(struct engine_state *st) {
    slots_release(st);
    queues_release(st);
    free(st->keys);
    hash_index_release(&st->by_id);
    hash_index_release(&st->queues_by_number);
    hash_index_release(&st->queues_by_name);
    hash_index_release(&st->by_key);
    timers_release(&st->timers);
}

/* -- ledgers: a function of the record alone (S3) -------------------------------------------- */

/* The queue a record speaks of. While the log is read its image may still be to come: it is
 * nameless until then. */
static struct queue *queue_of_record(struct engine_state *st, uint64_t number) {
    struct queue *q = queue_by_number(st, number);
    return q ? q : queue_new(st, number);
}

static void count_event(struct queue *q, const struct record_state *r) {
    switch (r->event.event) {
    case EVENT_CLAIMED:
        q->deliveries++;
        break;
    case EVENT_FAILED:
    case EVENT_LEASE_EXPIRED:
        q->failures++;
        q->deaths += r->image.state == STATE_DEAD;
        break;
    case EVENT_EXPIRED:
        q->deaths++;
        break;
    case EVENT_SUCCEEDED:
        q->ledger.succeeded++;
        break;
    case EVENT_NONE:
    case EVENT_RELEASED:
    case EVENT_REPLAYED:
        break;
    }
}

static void ledger_add(struct ledger *sum, const struct ledger *l) {
    sum->accepted += l->accepted;
    sum->moved_in += l->moved_in;
    sum->succeeded += l->succeeded;
    sum->discarded += l->discarded;
    sum->moved_out += l->moved_out;
    sum->expired += l->expired;
}

/* -- queues ---------------------------------------------------------------------------------- */

void apply_engine(struct engine_state *st, const struct record_engine *r, uint64_t position,
                  size_t bytes) {
    st->next_id = r->next_id;
    st->next_queue = r->next_queue;
    st->deleted = r->deleted;
    st->live_bytes += bytes - st->engine_bytes;
    st->engine_position = position;
    st->engine_bytes = bytes;
}

void apply_queue(struct engine_state *st, const struct record_queue *r, uint64_t position,
                 size_t bytes) {
    struct queue *q = queue_of_record(st, r->queue);
    if (r->queue >= st->next_queue)
        st->next_queue = r->queue + 1;
    q->created_at = r->created_at;
    if (q->policy.keep_succeeded_ms != r->policy.keep_succeeded_ms)
        q->trim_at = INT64_MIN; /* what is kept is measured anew */
    q->policy = r->policy;
    q->ledger = r->ledger;
    q->deliveries = r->deliveries;
    q->failures = r->failures;
    q->deaths = r->deaths;
    q->next_dead_seq = r->next_dead_seq;
    bool was_dropping = q->dropping;
    q->dropping = r->dropping;
    if (!q->name)
        queue_set_name(st, q, r->name);
    else if (r->dropping && !was_dropping)
        queue_lose_name(st, q);
    st->live_bytes += bytes - q->image_bytes;
    q->position = position;
    q->image_bytes = bytes;
    queue_plan_upkeep(st, q);
}

void apply_queue_gone(struct engine_state *st, const struct record_queue_gone *r) {
    ledger_add(&st->deleted, &r->ledger);
    struct queue *q = queue_by_number(st, r->queue);
    if (q)
        queue_remove(st, q);
}

/* -- messages -------------------------------------------------------------------------------- */

static void take_image(struct engine_state *st, struct slot *s, const struct message_image *m) {
    s->state = m->state;
    s->priority = (uint64_t)m->priority & 0xf;
    s->max_retries = m->max_retries;
    s->updated_at = (uint64_t)m->updated_at & UPDATED_AT_MOST;
    s->deliveries = m->deliveries & LIMIT_DELIVERIES;
    bool plain = m->next_at == 0 && m->expires_at == 0 && m->died_at == 0 && m->retry_count == 0;
    if (plain && !s->extra)
        return;
    struct extra *x = slot_need_extra(st, s);
    x->next_at = m->next_at;
    x->expires_at = m->expires_at;
    x->died_at = m->died_at;
    x->dead_seq = m->dead_seq;
    x->retry_count = m->retry_count;
    x->reason = (uint8_t)m->reason;
    x->is_retry = m->is_retry;
}

static void forget_story(struct engine_state *st, struct extra *x) {
    st->live_bytes -= x->history_bytes;
    x->history = x->error = 0;
    x->history_bytes = 0;
    x->has_story = false;
}

void apply_message(struct engine_state *st, const struct record_message *r, uint64_t position,
                   size_t bytes) {
    struct queue *q = queue_of_record(st, r->queue);
    if (!r->carried)
        q->ledger.accepted++;
    if (r->id >= st->next_id)
        st->next_id = r->id + 1;
    if (r->image.state == STATE_DEAD && r->image.dead_seq >= q->next_dead_seq)
        q->next_dead_seq = r->image.dead_seq + 1;

    uint32_t i = slot_find(st, r->id);
    bool was_on_time = false; /* its wait was over: it does not begin again */
    if (i) {
        assert(r->carried);
        was_on_time = !slot_at(st, i)->aside;
        slot_detach(st, i);
    } else {
        i = slot_new(st, r->id);
    }
    struct slot *s = slot_at(st, i);
    st->live_bytes += bytes - slot_record_bytes(s);
    s->queue = q->place;
    s->position8 = position / 8 & POSITION8_MOST;
    s->bytes8 = (uint32_t)(bytes / 8);
    s->payload_bytes = (uint32_t)r->payload.n;
    if (s->extra)
        forget_story(st, extra_at(st, s->extra)); /* its lines follow, carried */
    take_image(st, s, &r->image);
    if (r->idempotency_until) {
        slot_need_extra(st, s)->idempotency_until = r->idempotency_until;
        key_add(st, q, r->idempotency_hash, r->id, r->idempotency_until);
        queue_plan_upkeep(st, q);
    }
    slot_attach(st, i);
    if (was_on_time && s->aside)
        slot_end_aside(st, i);
}

static void remember(struct engine_state *st, struct slot *s, enum event event, bool is_error,
                     uint64_t position, size_t bytes) {
    struct extra *x = slot_need_extra(st, s);
    x->history = position;
    if (event != EVENT_CLAIMED && event != EVENT_SUCCEEDED)
        x->has_story = true;
    if (is_error)
        x->error = position;
    x->history_bytes += (uint32_t)bytes;
    st->live_bytes += bytes;
}

void apply_state(struct engine_state *st, const struct record_state *r, uint64_t position,
                 size_t bytes) {
    struct queue *q = queue_of_record(st, r->queue);
    count_event(q, r);
    if (r->image.state == STATE_DEAD && r->image.dead_seq >= q->next_dead_seq)
        q->next_dead_seq = r->image.dead_seq + 1;
    uint32_t i = slot_find(st, r->id);
    if (!i) {
        st->orphans++;
        return;
    }
    slot_detach(st, i);
    struct slot *s = slot_at(st, i);
    take_image(st, s, &r->image);
    enum event event = r->event.event;
    if (event != EVENT_NONE)
        remember(st, s, event, event == EVENT_FAILED || event == EVENT_LEASE_EXPIRED, position,
                 bytes);
    if (event == EVENT_REPLAYED && s->extra)
        extra_at(st, s->extra)->error = 0;
    /* A success at the first attempt has no story worth its memory. */
    if (s->state == STATE_SUCCEEDED && s->extra) {
        struct extra *x = extra_at(st, s->extra);
        if (!x->has_story)
            forget_story(st, x);
        if (!x->has_story && x->idempotency_until == 0)
            slot_drop_extra(st, s);
    }
    slot_attach(st, i);
}

void apply_history(struct engine_state *st, const struct record_history *r, uint64_t position,
                   size_t bytes) {
    uint32_t i = slot_find(st, r->id);
    if (i)
        remember(st, slot_at(st, i), r->event.event, r->is_error, position, bytes);
    else
        st->orphans++;
}

void apply_gone(struct engine_state *st, const struct record_gone *r) {
    struct queue *q = queue_of_record(st, r->queue);
    if (r->cause != GONE_KEPT_LONG_ENOUGH)
        q->ledger.discarded += r->count;
    if (r->cause == GONE_RETENTION)
        q->ledger.expired += r->count;
    for (uint32_t k = 0; k < r->count; k++) {
        uint32_t i = slot_find(st, r->ids[k]);
        if (!i) {
            st->orphans++;
            continue;
        }
        slot_detach(st, i);
        struct slot *s = slot_at(st, i);
        st->live_bytes -= slot_record_bytes(s) + slot_extra(st, s)->history_bytes;
        slot_free(st, i);
    }
}

void apply_cleaned(struct engine_state *st) {
    st->orphans = 0;
}

/* -- from the log ---------------------------------------------------------------------------- */

static enum err apply_message_record(struct engine_state *st, const struct log_record *r) {
    struct record_message m;
    enum err e = record_message_get(r->meta, r->data, &m);
    if (e == OK && (m.image.state == STATE_DISCARDED || (!m.carried && slot_find(st, m.id))))
        e = ERR_CORRUPT;
    if (e == OK)
        apply_message(st, &m, r->position, r->bytes);
    return e;
}

static enum err apply_state_record(struct engine_state *st, const struct log_record *r) {
    struct record_state s;
    enum err e = record_state_get(r->meta, r->data, &s);
    if (e == OK && s.image.state == STATE_DISCARDED)
        e = ERR_CORRUPT;
    if (e == OK)
        apply_state(st, &s, r->position, r->bytes);
    return e;
}

enum err apply_record(struct engine_state *st, const struct log_record *r) {
    struct record_engine engine;
    struct record_queue queue;
    struct record_queue_gone queue_gone;
    struct record_gone gone;
    struct record_history history;
    uint64_t ids[RECORD_GONE_IDS], number;
    enum err e;
    switch (r->type) {
    case RECORD_ENGINE:
        if ((e = record_engine_get(r->meta, &engine)) == OK)
            apply_engine(st, &engine, r->position, r->bytes);
        return e;
    case RECORD_QUEUE:
        if ((e = record_queue_get(r->meta, &queue)) == OK)
            apply_queue(st, &queue, r->position, r->bytes);
        return e;
    case RECORD_QUEUE_GONE:
        if ((e = record_queue_gone_get(r->meta, &queue_gone)) == OK)
            apply_queue_gone(st, &queue_gone);
        return e;
    case RECORD_MESSAGE:
        return apply_message_record(st, r);
    case RECORD_STATE:
        return apply_state_record(st, r);
    case RECORD_GONE:
        if ((e = record_gone_get(r->meta, ids, &gone)) == OK)
            apply_gone(st, &gone);
        return e;
    case RECORD_HISTORY:
        if ((e = record_history_get(r->meta, r->data, &history)) == OK)
            apply_history(st, &history, r->position, r->bytes);
        return e;
    case RECORD_CLEANED:
        if ((e = record_cleaned_get(r->meta, &number)) == OK)
            apply_cleaned(st);
        return e;
    default:
        return ERR_CORRUPT;
    }
}
