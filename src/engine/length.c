/* Queues that are longer than their settings allow: what is over dies of max_length, the head first,
 * the lowest priority before all. Whatever makes a message ready notes its queue; the verbs look at
 * what is noted when they are done, a bounded amount a turn, so that a death which fills the next
 * queue, and that one the next, is a loop and not a recursion. */
#include "engine/engine_int.h"

#include "base/mem.h"

bool queue_is_over(const struct queue *q) {
    if (!q->amqp || q->dropping)
        return false;
    const struct queue_settings *s = &q->amqp->effective;
    return (s->max_length >= 0 && q->ready > (uint64_t)s->max_length) ||
           (s->max_length_bytes >= 0 && q->ready_bytes > (uint64_t)s->max_length_bytes);
}

enum length_overflow queue_overflow(const struct queue *q) {
    int overflow = q->amqp ? q->amqp->effective.overflow : -1;
    bool is_dlx_of_quorum =
        overflow == LENGTH_REJECT_PUBLISH_DLX && q->amqp->image.type == QUEUE_QUORUM;
    return overflow < 0 || is_dlx_of_quorum ? LENGTH_DROP_HEAD : (enum length_overflow)overflow;
}

void queue_note_length(struct engine_state *st, struct queue *q) {
    if (!q->amqp || q->on_over_list || !queue_is_over(q) || queue_overflow(q) != LENGTH_DROP_HEAD)
        return;
    struct topology *t = &st->topology;
    if (t->over_count == t->over_cap) {
        t->over_cap = t->over_cap ? t->over_cap * 2 : 16;
        t->over = mem_grow(t->over, t->over_cap * sizeof *t->over);
    }
    t->over[t->over_count++] = q->number;
    q->on_over_list = true;
}

struct queue *state_over(struct engine_state *st) {
    struct topology *t = &st->topology;
    while (t->over_count > 0) {
        struct queue *q = queue_by_number(st, t->over[t->over_count - 1]);
        if (q && queue_is_over(q) && queue_overflow(q) == LENGTH_DROP_HEAD)
            return q;
        if (q)
            q->on_over_list = false;
        t->over_count--;
    }
    return NULL;
}

/* The ready message of the lowest priority that is there for longest. */
static uint32_t head_of(const struct engine_state *st, const struct queue *q) {
    for (unsigned priority = 0; priority <= PRIORITY_MAX; priority++) {
        uint32_t head = 0;
        for (unsigned line = PRIORITY_MAX - priority; line < LINES; line += PRIORITY_MAX + 1) {
            uint32_t i = set_after(st, q, SET_READY, line, 0);
            if (!i || slot_line(slot_at(st, i)) != line)
                continue;
            if (!head || slot_arrival(st, slot_at(st, i)) < slot_arrival(st, slot_at(st, head)))
                head = i;
        }
        if (head)
            return head;
    }
    return 0;
}

bool is_disk_behind(const struct engine *e) {
    return log_unsynced_bytes(e->log) > LIMIT_UNSYNCED / 2;
}

bool relieve(struct engine *e, int64_t now) {
    struct queue *q;
    for (unsigned n = 0; (q = state_over(&e->st)); n++) {
        if (n == LIMIT_TICK_MESSAGES || is_disk_behind(e) ||
            !log_has_room(e->log, LOG_USE_SETTLE, LOG_DEATH_ROOM))
            return false;
        die_of_length(e, slot_at(&e->st, head_of(&e->st, q)), now);
    }
    return true;
}
