#include "engine/state.h"

#include "base/mem.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

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

static uint64_t line_hash(void *ctx, uint32_t i) {
    const struct engine_state *st = ctx;
    return st->lines[i].key;
}

static uint32_t *line_link(void *ctx, uint32_t i) {
    const struct engine_state *st = ctx;
    return &st->lines[i].next;
}

static uint64_t group_number_hash(void *ctx, uint32_t i) {
    return group_at(ctx, i)->number;
}

static uint32_t *group_number_link(void *ctx, uint32_t i) {
    return &group_at(ctx, i)->next_by_number;
}

static uint64_t group_key_hash(void *ctx, uint32_t i) {
    return group_at(ctx, i)->image.key;
}

static uint32_t *group_key_link(void *ctx, uint32_t i) {
    return &group_at(ctx, i)->next_by_key;
}

static uint32_t *timer_place(void *ctx, uint32_t owner) {
    struct engine_state *st = ctx;
    if (owner & TIMER_OF_JOB && !(owner & TIMER_OF_QUEUE))
        return &job_by_number(st, owner & ~TIMER_OF_JOB)->timer;
    if (owner & TIMER_OF_QUEUE)
        return &queue_at(st, owner & ~TIMER_OF_QUEUE)->timer;
    const struct slot *s = slot_at(st, owner);
    assert(s->extra);
    return &extra_at(st, s->extra)->timer;
}

void state_init(struct engine_state *st, uint64_t seed) {
    *st = (struct engine_state){.next_id = 1,
                                .next_queue = 1,
                                .next_dead_seq = 1,
                                .next_audit = 1,
                                .next_group = 1,
                                .next_job = 1,
                                .hash_seed = seed};
    hash_index_init(&st->by_id, st, slot_hash, slot_link);
    hash_index_init(&st->queues_by_number, st, number_hash, number_link);
    hash_index_init(&st->queues_by_name, st, name_hash, name_link);
    hash_index_init(&st->by_key, st, key_hash_of, key_link);
    hash_index_init(&st->lines_by_key, st, line_hash, line_link);
    hash_index_init(&st->groups_by_number, st, group_number_hash, group_number_link);
    hash_index_init(&st->groups_by_key, st, group_key_hash, group_key_link);
    timers_init(&st->timers, st, timer_place);
    topology_init(st);
}

void state_release(struct engine_state *st) {
    slots_release(st);
    topology_release(st);
    queues_release(st);
    groups_release(st);
    jobs_release(st);
    lines_release(st);
    audit_release(st);
    free(st->keys);
    hash_index_release(&st->by_id);
    hash_index_release(&st->queues_by_number);
    hash_index_release(&st->queues_by_name);
    hash_index_release(&st->by_key);
    hash_index_release(&st->lines_by_key);
    hash_index_release(&st->groups_by_number);
    hash_index_release(&st->groups_by_key);
    timers_release(&st->timers);
}

/* -- ledgers: a function of the record alone (S3) -------------------------------------------- */

static bool is_death(const struct record_state *r) {
    enum event e = r->event.event;
    return r->image.state == STATE_DEAD &&
           (e == EVENT_FAILED || e == EVENT_LEASE_EXPIRED || e == EVENT_EXPIRED);
}

static void count_event(struct queue *q, const struct record_state *r) {
    bool was_redriven = r->image.has_letter && r->image.letter.redrive_count > 0;
    if (is_death(r)) {
        q->deaths_by[r->image.reason]++;
        q->redriven_died += was_redriven;
    }
    switch (r->event.event) {
    case EVENT_CLAIMED:
        q->deliveries++;
        q->alone_claims += r->image.is_alone;
        break;
    case EVENT_FAILED:
    case EVENT_LEASE_EXPIRED:
        q->failures++;
        break;
    case EVENT_SUCCEEDED:
        q->ledger.succeeded++;
        q->redriven_succeeded += was_redriven;
        break;
    case EVENT_REPLAYED:
    case EVENT_REDRIVEN:
        q->redriven++;
        break;
    case EVENT_DISCARDED:
        q->ledger.discarded++;
        break;
    case EVENT_UNDISCARDED:
        q->ledger.discarded--;
        q->ledger.undiscarded++;
        break;
    case EVENT_NONE:
    case EVENT_RELEASED:
    case EVENT_EXPIRED:
    case EVENT_EDITED:
    case EVENT_PATCHED:
    case EVENT_DEAD_LETTERED:
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
    sum->undiscarded += l->undiscarded;
}

/* -- queues ---------------------------------------------------------------------------------- */

struct record_engine engine_image(const struct engine_state *st) {
    return (struct record_engine){.next_id = st->next_id,
                                  .next_queue = st->next_queue,
                                  .next_dead_seq = st->next_dead_seq,
                                  .next_audit = st->next_audit,
                                  .next_group = st->next_group,
                                  .next_job = st->next_job,
                                  .next_exchange = st->topology.next_exchange,
                                  .next_binding = st->topology.next_binding,
                                  .next_pattern = st->topology.next_pattern,
                                  .deleted = st->deleted};
}

void apply_engine(struct engine_state *st, const struct record_engine *r, uint64_t position,
                  size_t bytes) {
    st->next_id = r->next_id;
    st->next_queue = r->next_queue;
    st->next_dead_seq = r->next_dead_seq;
    st->next_audit = r->next_audit;
    st->next_group = r->next_group;
    st->next_job = r->next_job;
    st->topology.next_exchange = r->next_exchange;
    st->topology.next_binding = r->next_binding;
    st->topology.next_pattern = r->next_pattern;
    st->deleted = r->deleted;
    st->live_bytes += bytes - st->engine_bytes;
    st->engine_position = position;
    st->engine_bytes = bytes;
}

static void take_pause(struct engine_state *st, struct queue *q, const struct record_queue *r) {
    bool resumes = q->paused_at && !r->paused_at;
    char *texts = mem_alloc(r->paused_by.n + r->pause_reason.n + 1);
    if (r->paused_by.n)
        memcpy(texts, r->paused_by.p, r->paused_by.n);
    if (r->pause_reason.n)
        memcpy(texts + r->paused_by.n, r->pause_reason.p, r->pause_reason.n);
    free(q->pause_texts); /* r may point into the old ones */
    q->pause_texts = texts;
    q->paused_by_bytes = (uint32_t)r->paused_by.n;
    q->pause_reason_bytes = (uint32_t)r->pause_reason.n;
    q->paused_at = r->paused_at;
    if (resumes && q->ready > 0)
        queue_wake(st, q);
}

/* Its texts are taken with the queue's. */
static void take_amqp(struct queue *q, const struct record_queue *r) {
    if (r->has_amqp)
        queue_need_amqp(q)->image = r->amqp;
    else if (q->amqp)
        q->amqp->image = (struct record_queue_amqp){.settings = queue_settings_none()};
}

void apply_queue(struct engine_state *st, const struct record_queue *r, uint64_t position,
                 size_t bytes) {
    struct queue *q = queue_of_record(st, r->queue);
    if (r->queue >= st->next_queue)
        st->next_queue = r->queue + 1;
    q->created_at = r->created_at;
    if (q->policy.keep_succeeded_ms != r->policy.keep_succeeded_ms) {
        q->trim_at = INT64_MIN; /* what is kept is measured anew */
        q->trim_after = 0;
    }
    if (q->policy.keep_dead_ms != r->policy.keep_dead_ms) {
        q->dead_trim_at = INT64_MIN;
        q->dead_trim_group = 0;
    }
    bool orders_anew = q->policy.order != r->policy.order;
    q->policy = r->policy;
    q->ledger = r->ledger;
    q->deliveries = r->deliveries;
    q->failures = r->failures;
    memcpy(q->deaths_by, r->deaths_by, sizeof q->deaths_by);
    q->redriven = r->redriven;
    q->redriven_succeeded = r->redriven_succeeded;
    q->redriven_died = r->redriven_died;
    bool lets_more = q->breaker != r->breaker && r->breaker != BREAKER_OPEN;
    q->breaker = r->breaker;
    q->breaker_at = r->breaker_at;
    q->breaker_until = r->breaker_until;
    q->breaker_opened = r->breaker_opened;
    q->alone_claims = r->alone_claims;
    take_amqp(q, r);
    queue_take_texts(q, r);
    take_pause(st, q, r);
    if (lets_more && q->ready > 0)
        queue_wake(st, q);
    /* While the log is read letters may come before it: whether they hold their keys is known now. */
    for (uint32_t i = orders_anew ? set_first(st, q, SET_DEAD) : 0; i;
         i = set_after(st, q, SET_DEAD, 0, slot_arrival(st, slot_at(st, i))))
        line_follow(st, i);
    bool was_dropping = q->dropping;
    q->dropping = r->dropping;
    if (!q->name)
        queue_set_name(st, q, r->name);
    else if (r->dropping && !was_dropping)
        queue_lose_name(st, q);
    if (q->dropping)
        queue_lose_bindings(st, q);
    queue_take_settings(st, q);
    st->live_bytes += bytes - q->image_bytes;
    q->position = position;
    q->image_bytes = bytes;
    queue_plan_upkeep(st, q);
}

void apply_queue_gone(struct engine_state *st, const struct record_queue_gone *r) {
    ledger_add(&st->deleted, &r->ledger);
    struct queue *q = queue_by_number(st, r->queue);
    if (!q)
        return;
    while (q->first_group)
        group_remove(st, group_at(st, q->first_group));
    queue_lose_bindings(st, q);
    queue_remove(st, q);
}

/* -- messages -------------------------------------------------------------------------------- */

/* Also of a message that is not known (any more, or yet): a number is never given out again. */
static void note_dead_seq(struct engine_state *st, const struct letter_image *m) {
    if (m->dead_seq >= st->next_dead_seq)
        st->next_dead_seq = m->dead_seq + 1;
}

/* The same of an id, or what is given out like one. */
static void note_id(struct engine_state *st, uint64_t id) {
    if (id >= st->next_id)
        st->next_id = id + 1;
}

static void take_letter(struct engine_state *st, uint32_t i, const struct letter_image *m) {
    struct letter *l = slot_need_letter(st, i);
    struct queue *q = queue_at(st, slot_at(st, i)->queue);
    l->died_at = m->died_at;
    l->dead_seq = m->dead_seq;
    l->edited_to = m->edited_to;
    l->group = m->group ? group_of_record(st, m->group, q)->place : 0;
    l->job = m->job;
    l->job_part = (uint8_t)m->job_part;
    l->deliveries_before = m->deliveries_before;
    l->redrive_count = m->redrive_count;
    l->version = m->version;
    note_dead_seq(st, m);
}

static void take_image(struct engine_state *st, uint32_t i, const struct message_image *m) {
    struct slot *s = slot_at(st, i);
    s->state = (unsigned)m->state & 7;
    s->priority = (uint64_t)m->priority & 0xf;
    s->max_retries = m->max_retries;
    s->updated_at = (uint64_t)m->updated_at & UPDATED_AT_MOST;
    s->deliveries = m->deliveries & LIMIT_DELIVERIES;
    bool plain = m->next_at == 0 && m->expires_at == 0 && m->retry_count == 0 &&
                 m->first_failed_at == 0 && !m->has_letter && !m->is_ordered && !m->is_alone &&
                 !m->in_company && !m->is_unroutable && !m->arrival;
    if (plain && !s->extra)
        return;
    struct extra *x = slot_need_extra(st, s);
    x->next_at = m->next_at;
    x->expires_at = m->expires_at;
    x->first_failed_at = m->first_failed_at;
    x->retry_count = m->retry_count;
    x->reason = (uint8_t)m->reason;
    x->is_retry = m->is_retry;
    x->is_alone = m->is_alone;
    x->in_company = m->in_company;
    x->is_unroutable = m->is_unroutable;
    x->arrival = m->arrival;
    if (m->has_letter)
        take_letter(st, i, &m->letter);
    if (m->is_ordered)
        line_set(st, i, m->order_key, m->order_rank);
    else
        line_clear(st, i);
}

static void forget_story(struct engine_state *st, struct extra *x) {
    st->live_bytes -= x->history_bytes;
    x->history = x->error = 0;
    x->history_bytes = 0;
    x->has_story = false;
}

/* What a message's image counts in ledgers. */
static void count_message(struct engine_state *st, struct queue *q,
                          const struct record_message *r) {
    switch (r->how) {
    case MESSAGE_ACCEPTED:
    case MESSAGE_COPIED:
        q->ledger.accepted++;
        if (r->image.state == STATE_DEAD) { /* there was no room for it in its queue */
            q->deaths_by[r->image.reason]++;
            group_count_death(group_of_record(st, r->image.letter.group, q),
                              r->image.letter.died_at, r->image.letter.version);
        }
        break;
    case MESSAGE_IMPORTED:
        q->ledger.moved_in++;
        group_count_death(group_of_record(st, r->image.letter.group, q), r->image.letter.died_at,
                          r->image.letter.version);
        break;
    case MESSAGE_MOVED:
        queue_of_record(st, r->moved_from)->ledger.moved_out++;
        q->ledger.moved_in++;
        break;
    case MESSAGE_CARRIED:
        break;
    }
}

void apply_message(struct engine_state *st, const struct record_message *r, uint64_t position,
                   size_t bytes) {
    struct queue *q = queue_of_record(st, r->queue);
    count_message(st, q, r);
    note_id(st, r->id);
    note_id(st, r->image.arrival);

    uint32_t i = slot_find(st, r->id);
    bool was_on_time = false; /* its wait was over: it does not begin again */
    if (i) {
        assert(r->how == MESSAGE_CARRIED || r->how == MESSAGE_MOVED);
        was_on_time = r->how == MESSAGE_CARRIED && !slot_at(st, i)->aside;
        slot_detach(st, i);
    } else {
        i = slot_new(st, r->id);
    }
    struct slot *s = slot_at(st, i);
    if (r->how == MESSAGE_MOVED)
        line_clear(st, i); /* it stood in the other queue's */
    st->live_bytes += bytes - slot_record_bytes(s);
    s->queue = q->place;
    s->position8 = position / 8 & POSITION8_MOST;
    s->bytes8 = (uint32_t)(bytes / 8);
    s->payload_bytes = (uint32_t)r->payload.n;
    if (s->extra)
        forget_story(st, extra_at(st, s->extra)); /* its lines follow, carried */
    take_image(st, i, &r->image);
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
    job_count_event(st, r);
    note_dead_seq(st, &r->image.letter);
    if (is_death(r))
        group_count_death(group_of_record(st, r->image.letter.group, q), r->image.letter.died_at,
                          r->image.letter.version);
    uint32_t i = slot_find(st, r->id);
    if (!i) {
        st->orphans++;
        return;
    }
    slot_detach(st, i);
    struct slot *s = slot_at(st, i);
    take_image(st, i, &r->image);
    enum event event = r->event.event;
    if (event != EVENT_NONE)
        remember(st, s, event, event == EVENT_FAILED || event == EVENT_LEASE_EXPIRED, position,
                 bytes);
    if ((event == EVENT_REPLAYED || event == EVENT_REDRIVEN) && s->extra)
        extra_at(st, s->extra)->error = 0;
    /* A success at the first attempt has no story worth its memory. */
    if (s->state == STATE_SUCCEEDED && s->extra) {
        struct extra *x = extra_at(st, s->extra);
        if (!x->has_story)
            forget_story(st, x);
        line_clear(st, i); /* for good */
        if (!x->has_story && x->idempotency_until == 0 && !x->letter)
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
    job_count_gone(st, r);
    if (r->cause != GONE_KEPT_LONG_ENOUGH && r->cause != GONE_DISCARDED)
        q->ledger.discarded += r->count;
    if (r->cause == GONE_RETENTION)
        q->ledger.expired += r->count;
    if (r->cause == GONE_EXPIRED)
        queue_need_amqp(q)->image.expired += r->count;
    if (r->cause == GONE_MAX_LENGTH)
        queue_need_amqp(q)->image.max_length += r->count;
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
    bool is_new = m.how != MESSAGE_CARRIED && m.how != MESSAGE_MOVED;
    if (e == OK && is_new && slot_find(st, m.id))
        e = ERR_CORRUPT;
    if (e == OK)
        apply_message(st, &m, r->position, r->bytes);
    return e;
}

static enum err apply_state_record(struct engine_state *st, const struct log_record *r) {
    struct record_state s;
    enum err e = record_state_get(r->meta, r->data, &s);
    if (e == OK)
        apply_state(st, &s, r->position, r->bytes);
    return e;
}

static enum err apply_triage_record(struct engine_state *st, const struct log_record *r) {
    struct record_group group;
    struct record_job job;
    struct record_job_letters letters;
    struct record_job_skip skip;
    struct audit_entry audit;
    uint64_t ids[RECORD_JOB_IDS];
    uint32_t number;
    enum err e = ERR_CORRUPT;
    if (r->type == RECORD_GROUP) {
        if ((e = record_group_get(r->meta, r->data, &group)) == OK)
            apply_group(st, &group, r->position, r->bytes);
    } else if (r->type == RECORD_GROUP_GONE) {
        if ((e = record_group_gone_get(r->meta, &number)) == OK)
            apply_group_gone(st, number);
    } else if (r->type == RECORD_JOB) {
        if ((e = record_job_get(r->meta, r->data, &job)) == OK)
            apply_job(st, &job, r->position, r->bytes);
    } else if (r->type == RECORD_JOB_LETTERS) {
        if ((e = record_job_letters_get(r->meta, ids, &letters)) == OK)
            apply_job_letters(st, &letters);
    } else if (r->type == RECORD_JOB_SKIP) {
        if ((e = record_job_skip_get(r->meta, &skip)) == OK)
            apply_job_skip(st, &skip);
    } else if (r->type == RECORD_JOB_GONE) {
        if ((e = record_job_gone_get(r->meta, &number)) == OK)
            apply_job_gone(st, number);
    } else if (r->type == RECORD_AUDIT) {
        if ((e = record_audit_get(r->meta, r->data, &audit)) == OK)
            apply_audit(st, &audit, r->position, r->bytes);
    } else {
        e = apply_topology_record(st, r);
    }
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
        if ((e = record_queue_get(r->meta, r->data, &queue)) == OK)
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
        return apply_triage_record(st, r);
    }
}
