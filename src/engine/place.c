/* Where a message belongs, following its image: the set and the counts of its queue, and its timer.
 */
#include "engine/state.h"

#include "base/clock.h"

#include <assert.h>

enum set slot_set(const struct slot *s) {
    switch ((enum state)s->state) {
    case STATE_PENDING:
        return s->held ? SET_HELD : s->aside ? SET_WAITING : SET_READY;
    case STATE_PROCESSING:
        return SET_PROCESSING;
    case STATE_SUCCEEDED:
        return s->aside ? SET_KEPT : SET_SUCCEEDED;
    case STATE_DEAD:
        return SET_DEAD;
    case STATE_PARKED:
        return SET_PARKED;
    case STATE_DISCARDED:
        return SET_DISCARDED;
    }
    assert(false && "not a state");
    return SET_DEAD;
}

/* When the message wants to be looked at, 0 = never. */
static int64_t timer_at(const struct slot *s, const struct extra *x) {
    switch (slot_set(s)) {
    case SET_READY:
    case SET_HELD:
        return x->expires_at;
    case SET_WAITING:
        return x->expires_at && x->expires_at < x->next_at ? x->expires_at : x->next_at;
    case SET_PROCESSING:
        return x->next_at;
    case SET_KEPT:
        return x->idempotency_until;
    case SET_DISCARDED:
        return x->next_at < x->idempotency_until ? x->idempotency_until : x->next_at;
    case SET_DEAD:
    case SET_SUCCEEDED:
    case SET_PARKED:
    case SET_COUNT:
        break;
    }
    return 0;
}

/* A dead letter is counted by its cause group and reason; one that was sent again is open in its
 * group until its outcome is known. */
static void enter_group(struct engine_state *st, struct queue *q, const struct slot *s) {
    struct letter *l = slot_letter(st, s);
    if (!l)
        return;
    struct group *g = l->group ? group_at(st, l->group) : NULL;
    if (s->state == STATE_DEAD) {
        assert(g);
        q->dead_by[extra_at(st, s->extra)->reason]++;
        g->count++;
        if (l->version < GROUP_VERSIONS_STORED)
            g->version_count[l->version]++;
        dead_add(st, g, extra_at(st, s->extra)->letter);
        queue_plan_dead(q, l->died_at);
        queue_plan_upkeep(st, q);
    } else if (g && s->state == STATE_DISCARDED) {
        g->discarded++;
    } else if (g) {
        g->open++;
    }
}

static void leave_group(struct engine_state *st, struct queue *q, const struct slot *s) {
    struct letter *l = slot_letter(st, s);
    if (!l)
        return;
    struct group *g = l->group ? group_at(st, l->group) : NULL;
    if (s->state == STATE_DEAD) {
        assert(g);
        q->dead_by[extra_at(st, s->extra)->reason]--;
        g->count--;
        if (l->version < GROUP_VERSIONS_STORED)
            g->version_count[l->version]--;
        dead_remove(st, g, extra_at(st, s->extra)->letter);
    } else if (g && s->state == STATE_DISCARDED) {
        g->discarded--;
    } else if (g) {
        g->open--;
    }
    if (g && group_is_empty(g))
        st->emptied_groups++;
}

static bool is_in_retry_line(const struct slot *s) {
    return s->again && !s->behind;
}

static void enter_set(struct engine_state *st, struct queue *q, uint32_t i) {
    struct slot *s = slot_at(st, i);
    set_add(st, q, slot_set(s), i);
    q->held += slot_set(s) == SET_HELD;
    if (slot_set(s) == SET_READY) {
        q->ready++;
        q->ready_bytes += s->payload_bytes;
        q->ready_again += is_in_retry_line(s);
        queue_wake(st, q);
        queue_note_length(st, q);
    }
    int64_t at = timer_at(s, slot_extra(st, s));
    if (at)
        timers_set(&st->timers, i, at);
    if (s->state == STATE_SUCCEEDED) {
        int64_t over_at = (int64_t)s->updated_at + q->policy.keep_succeeded_ms;
        if (over_at < q->trim_at)
            q->trim_at = over_at;
        if (over_at < q->trim_next_at)
            q->trim_next_at = over_at; /* the walk may have passed it */
        queue_plan_upkeep(st, q);
    }
}

static void leave_set(struct engine_state *st, struct queue *q, uint32_t i) {
    struct slot *s = slot_at(st, i);
    set_remove(st, q, slot_set(s), i);
    q->held -= slot_set(s) == SET_HELD;
    if (slot_set(s) == SET_READY) {
        q->ready--;
        q->ready_bytes -= s->payload_bytes;
        q->ready_again -= is_in_retry_line(s);
    }
    if (s->extra)
        timers_clear(&st->timers, i);
}

void slot_attach(struct engine_state *st, uint32_t i) {
    struct slot *s = slot_at(st, i);
    struct queue *q = queue_at(st, s->queue);
    const struct extra *x = slot_extra(st, s);
    int64_t updated_at = (int64_t)s->updated_at;
    s->aside = (s->state == STATE_PENDING && x->next_at > updated_at) ||
               (s->state == STATE_SUCCEEDED && x->idempotency_until > updated_at);
    const struct letter *l = slot_letter(st, s);
    s->behind = l && l->job_part == JOB_PART_OPEN;
    s->again = x->retry_count > 0;
    s->held = line_holds(st, s);
    q->count[s->state]++;
    q->bytes[s->state] += s->payload_bytes;
    enter_set(st, q, i);
    enter_group(st, q, s);
    line_follow(st, i);
}

void slot_detach(struct engine_state *st, uint32_t i) {
    struct slot *s = slot_at(st, i);
    struct queue *q = queue_at(st, s->queue);
    leave_group(st, q, s);
    leave_set(st, q, i);
    q->count[s->state]--;
    q->bytes[s->state] -= s->payload_bytes;
}

void slot_set_held(struct engine_state *st, uint32_t i, bool held) {
    struct slot *s = slot_at(st, i);
    struct queue *q = queue_at(st, s->queue);
    leave_set(st, q, i);
    s->held = held;
    enter_set(st, q, i);
}

void slot_end_aside(struct engine_state *st, uint32_t i) {
    struct slot *s = slot_at(st, i);
    assert(s->aside);
    struct queue *q = queue_at(st, s->queue);
    leave_set(st, q, i);
    s->aside = 0;
    enter_set(st, q, i);
}

void queue_plan_dead(struct queue *q, int64_t died_at) {
    int64_t over_at = died_at + q->policy.keep_dead_ms;
    if (!q->policy.keep_dead_ms)
        return;
    if (over_at < q->dead_trim_at)
        q->dead_trim_at = over_at;
    if (over_at < q->dead_trim_next_at)
        q->dead_trim_next_at = over_at; /* the walk may have passed it */
}

/* Upkeep is due at once when the queue is being dropped or there are too many succeeded messages,
 * else when the next walk over them is, or over the dead ones, or the oldest of the idempotency keys. */
void queue_plan_upkeep(struct engine_state *st, struct queue *q) {
    uint32_t owner = TIMER_OF_QUEUE | q->place;
    int64_t at = q->sets[SET_SUCCEEDED] ? q->trim_at : TIME_NEVER;
    if (q->dropping ||
        (q->sets[SET_SUCCEEDED] && q->count[STATE_SUCCEEDED] > q->policy.keep_succeeded_max))
        at = INT64_MIN;
    if (q->count[STATE_DEAD] && q->policy.keep_dead_ms && q->dead_trim_at < at)
        at = q->dead_trim_at;
    if (q->breaker == BREAKER_OPEN && q->breaker_until < at)
        at = q->breaker_until;
    if (q->keys_oldest && st->keys[q->keys_oldest].until < at)
        at = st->keys[q->keys_oldest].until;
    if (at != TIME_NEVER)
        timers_set(&st->timers, owner, at);
    else
        timers_clear(&st->timers, owner);
}
