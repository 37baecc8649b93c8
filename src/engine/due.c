/* What time does: leases and times to live that run out, retries that become due, retention, queues
 * on their way out, jobs. */
#include "engine/guard.h"

#include "base/clock.h"

#include <assert.h>

/* before looking again whether a full disk has room for what is due */
#define FULL_DISK_PAUSE_MS 500
#define BEHIND_PAUSE_MS 5

static bool has_room(const struct engine *e, size_t bytes) {
    return log_has_room(e->log, LOG_USE_SETTLE, bytes);
}

/* False when it has to wait for room. */
static bool message_due(struct engine *e, uint32_t i, int64_t now) {
    struct slot *s = slot_at(&e->st, i);
    const struct extra *x = slot_extra(&e->st, s);
    switch (slot_set(s)) {
    case SET_WAITING:
        if (x->next_at <= now && !(x->expires_at && x->expires_at <= now)) {
            slot_end_aside(&e->st, i);
            return true;
        }
        break;
    case SET_KEPT:
        slot_end_aside(&e->st, i);
        return true;
    case SET_READY:
    case SET_PROCESSING:
    case SET_DISCARDED:
    case SET_HELD:
        break;
    case SET_DEAD:
    case SET_SUCCEEDED:
    case SET_PARKED:
    case SET_COUNT:
        assert(false && "nothing there has a time");
    }
    if (!has_room(e, LOG_DEATH_ROOM))
        return false;
    if (s->state == STATE_PENDING) {
        expire_message(e, s, now);
    } else if (s->state == STATE_PROCESSING) {
        struct failure f = {
            .event = EVENT_LEASE_EXPIRED,
            .delay_ms = -1,
            .error_class = span_str("lease_expired"),
            .error = span_str("the lease ran out before the message was settled"),
        };
        fail_message(e, s, now, &f);
    } else {
        uint64_t id = s->id;
        emit_gone(e, &(struct record_gone){.queue = queue_at(&e->st, s->queue)->number,
                                           .cause = GONE_DISCARDED,
                                           .count = 1,
                                           .ids = &id});
    }
    return true;
}

/* When there are many, a walk over them is not worth its time for each that is over: with N of them,
 * walks begin N / 10 ms apart (a million: 100 s), so that they take about one hundredth of it. */
static int64_t next_walk(const struct queue *q, int64_t now) {
    uint64_t n = q->count[STATE_SUCCEEDED];
    int64_t not_before = n < LIMIT_TICK_MESSAGES ? 0 : now + (int64_t)(n / 10);
    return q->trim_next_at > not_before ? q->trim_next_at : not_before;
}

/* Succeeded messages whose retention is over: while there are too many, the oldest by creation; then,
 * when a walk is due, whoever succeeded too long ago. Looks at no more than `most`, returns how many
 * it looked at. */
static uint32_t trim_succeeded(struct engine *e, struct queue *q, int64_t now, uint32_t most) {
    struct engine_state *st = &e->st;
    const struct policy *p = &q->policy;
    uint64_t count = q->count[STATE_SUCCEEDED];
    uint64_t over = count > p->keep_succeeded_max ? count - p->keep_succeeded_max : 0;
    bool walks = over == 0 && q->trim_at <= now;
    if (walks && q->trim_after == 0)
        q->trim_next_at = TIME_NEVER;
    uint32_t looked = 0, n = 0;
    uint32_t i = set_after(st, q, SET_SUCCEEDED, 0, walks ? q->trim_after : 0);
    for (; i && looked < most && (walks || n < over); looked++) {
        const struct slot *s = slot_at(st, i);
        int64_t over_at = (int64_t)s->updated_at + p->keep_succeeded_ms;
        if (!walks || over_at <= now)
            e->ids[n++] = s->id;
        else if (over_at < q->trim_next_at)
            q->trim_next_at = over_at;
        if (walks)
            q->trim_after = slot_arrival(st, s);
        i = set_after(st, q, SET_SUCCEEDED, 0, slot_arrival(st, s));
    }
    if (n > 0)
        emit_gone(
            e, &(struct record_gone){
                   .queue = q->number, .cause = GONE_KEPT_LONG_ENOUGH, .count = n, .ids = e->ids});
    if (walks && !i) {
        q->trim_at = q->sets[SET_SUCCEEDED] ? next_walk(q, now) : TIME_NEVER;
        q->trim_after = 0;
    }
    return looked;
}

/* -- dead letters whose retention is over ----------------------------------------------------- */

/* Messages are removed for one cause with a record for each run of them that stand alike in a job:
 * `gone` collects a run in e->ids. */
void gone_end(struct engine *e, struct record_gone *gone) {
    if (gone->count > 0)
        emit_gone(e, gone);
    gone->count = 0;
}

void gone_add(struct engine *e, struct record_gone *gone, const struct slot *s) {
    const struct record_state change = change_of(e, s, 0, EVENT_NONE);
    uint32_t job = change.job_was == JOB_PART_NONE ? 0 : change.image.letter.job;
    if (gone->count > 0 && (gone->job != job || gone->job_part != change.job_was))
        gone_end(e, gone);
    gone->job = job;
    gone->job_part = change.job_was;
    e->ids[gone->count++] = s->id;
}

#define BEFORE_ALL ((struct letter_place){INT64_MIN, 0})

/* Of the group that the walk has reached, oldest death first; when it is through, the walk stands at
 * the next group. What is kept for its idempotency key waits for that, too. */
static uint32_t trim_group(struct engine *e, struct queue *q, int64_t now, uint32_t most) {
    struct engine_state *st = &e->st;
    const struct group *g = group_at(st, q->dead_trim_group);
    struct record_gone gone = {.queue = q->number, .cause = GONE_RETENTION, .ids = e->ids};
    uint32_t looked = 0, i = dead_above(st, g, q->dead_trim_after);
    while (i && looked < most) {
        const struct letter *l = letter_at(st, i);
        const struct slot *s = slot_at(st, l->slot);
        int64_t over_at = l->died_at + q->policy.keep_dead_ms;
        bool is_last = over_at > now; /* those behind it may be due as soon, whatever keeps it */
        if (!is_last && slot_extra(st, s)->idempotency_until > over_at)
            over_at = slot_extra(st, s)->idempotency_until;
        looked++;
        if (over_at <= now)
            gone_add(e, &gone, s);
        else if (over_at < q->dead_trim_next_at)
            q->dead_trim_next_at = over_at;
        q->dead_trim_after = (struct letter_place){l->died_at, l->dead_seq};
        i = is_last ? 0 : dead_above(st, g, q->dead_trim_after);
    }
    if (!i) {
        q->dead_trim_group = g->next_of_queue;
        q->dead_trim_after = BEFORE_ALL;
        q->dead_trim_groups++;
    }
    gone_end(e, &gone);
    return looked;
}

/* Walks over the groups of the queue; with many groups not more often than is worth its time. */
static uint32_t trim_dead(struct engine *e, struct queue *q, int64_t now, uint32_t most) {
    if (!q->policy.keep_dead_ms || q->dead_trim_at > now || q->count[STATE_DEAD] == 0)
        return 0;
    if (!q->dead_trim_group) {
        q->dead_trim_group = q->first_group;
        q->dead_trim_after = BEFORE_ALL;
        q->dead_trim_groups = 0;
        q->dead_trim_next_at = TIME_NEVER;
    }
    uint32_t looked = 0;
    while (q->dead_trim_group && looked < most)
        looked += trim_group(e, q, now, most - looked);
    if (q->dead_trim_group)
        return looked;                                   /* it goes on in the next turn */
    int64_t not_before = now + q->dead_trim_groups / 10; /* ten thousand groups: a second */
    q->dead_trim_at = q->dead_trim_next_at;
    if (q->dead_trim_at > now && q->dead_trim_at < not_before)
        q->dead_trim_at = not_before;
    return looked;
}

/* A deleted queue: its messages go a bounded number at a time, then the queue itself. */
static uint32_t drop_some(struct engine *e, struct queue *q, uint32_t most) {
    struct engine_state *st = &e->st;
    uint32_t n = 0;
    for (enum set set = 0; set < SET_COUNT && n == 0; set++) {
        struct record_gone gone = {.queue = q->number, .ids = e->ids};
        gone.cause = set == SET_SUCCEEDED || set == SET_KEPT ? GONE_KEPT_LONG_ENOUGH
                     : set == SET_DISCARDED                  ? GONE_DISCARDED
                                                             : GONE_QUEUE_DELETED;
        for (uint32_t i = set_first(st, q, set); i && n < most; n++) {
            const struct slot *s = slot_at(st, i);
            unsigned line = slot_line(s);
            uint64_t arrival = slot_arrival(st, s);
            gone_add(e, &gone, s);
            i = set_after(st, q, set, line, arrival);
        }
        gone_end(e, &gone);
    }
    if (n > 0)
        return n;
    struct record_queue_gone r = {.queue = q->number, .ledger = q->ledger};
    uint8_t meta[RECORD_META_MAX];
    size_t bytes = record_queue_gone_put(meta, &r);
    log_frame_begin(e->log, log_record_bytes(bytes, 0));
    append_bare(e, RECORD_QUEUE_GONE, meta, bytes);
    log_frame_end(e->log);
    apply_queue_gone(st, &r);
    return 1;
}

/* False when it has to wait for room. */
static bool queue_due(struct engine *e, struct queue *q, int64_t now, uint32_t budget,
                      uint32_t *ret_done) {
    *ret_done = 1;
    if (!has_room(e, RECORD_GONE_META_MAX + LOG_STATE_ROOM))
        return false;
    if (q->dropping) {
        *ret_done = drop_some(e, q, budget);
        return true;
    }
    keys_forget_until(&e->st, q, now);
    breaker_due(e, q, now);
    uint32_t n = trim_succeeded(e, q, now, budget);
    if (n < budget)
        n += trim_dead(e, q, now, budget - n);
    queue_plan_upkeep(&e->st, q);
    if (n > 0)
        *ret_done = n;
    return true;
}

int64_t engine_tick(struct engine *e, int64_t now) {
    struct engine_state *st = &e->st;
    uint32_t budget = LIMIT_TICK_MESSAGES;
    const struct timer_entry *first;
    while ((first = timers_first(&st->timers)) && first->at <= now) {
        if (budget == 0)
            return now;
        if (is_disk_behind(e))
            return now + BEHIND_PAUSE_MS;
        uint32_t owner = first->owner, done = 1;
        bool ok;
        if (owner & TIMER_OF_QUEUE)
            ok = queue_due(e, queue_at(st, owner & ~TIMER_OF_QUEUE), now, budget, &done);
        else if (owner & TIMER_OF_JOB)
            ok = job_due(e, job_by_number(st, owner & ~TIMER_OF_JOB), now, &done);
        else
            ok = message_due(e, owner, now);
        if (!ok)
            return now + FULL_DISK_PAUSE_MS;
        budget -= done < budget ? done : budget;
    }
    if (!relieve(e, now))
        return is_disk_behind(e)             ? now + BEHIND_PAUSE_MS
               : has_room(e, LOG_DEATH_ROOM) ? now
                                             : now + FULL_DISK_PAUSE_MS;
    first = timers_first(&st->timers);
    return first ? first->at : TIME_NEVER;
}
