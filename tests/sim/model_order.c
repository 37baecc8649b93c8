/* The order of messages with one key, as the model has it: nothing is kept but each one's place. */
#include "sim/model_int.h"

/* It counts among those of its key: unfinished, or, where the queue parks, dead with nothing sent in
 * its place. */
static bool counts(const struct model *m, const struct model_message *x) {
    bool parks = m->queues[x->queue].policy.order == ORDER_PARK;
    return x->is_ordered && (x->state == STATE_PENDING || x->state == STATE_PROCESSING ||
                             (x->state == STATE_DEAD && parks && !x->edited_to));
}

static bool is_of_its_key(const struct model *m, const struct model_message *x,
                          const struct model_message *other) {
    return other->key.tag == x->key.tag && other->queue == x->queue &&
           is_same_key(other->key, x->key) && counts(m, other);
}

/* A copy stands where its original does; the original, should it go after all, before it. */
static bool is_before(const struct model_message *a, const struct model_message *b) {
    return a->rank != b->rank ? a->rank < b->rank : a->id < b->id;
}

enum standing model_standing(const struct model *m, const struct model_message *x) {
    if (x->state != STATE_PENDING || !x->is_ordered)
        return GOES;
    const struct model_message *head = x;
    bool is_in_work = false;
    for (size_t i = 0; i < m->message_count; i++) {
        const struct model_message *other = &m->messages[i];
        if (!is_of_its_key(m, x, other))
            continue;
        is_in_work |= other->state == STATE_PROCESSING;
        if (is_before(other, head))
            head = other;
    }
    if (head->state == STATE_DEAD)
        return PARKED;
    return head == x && !is_in_work ? GOES : HELD;
}

enum state model_state(const struct model *m, const struct model_message *x) {
    return model_standing(m, x) == PARKED ? STATE_PARKED : x->state;
}

bool model_parks(const struct model *m, const struct model_message *x) {
    if (x->state != STATE_DEAD || !counts(m, x))
        return false;
    for (size_t i = 0; i < m->message_count; i++)
        if (is_of_its_key(m, x, &m->messages[i]) && is_before(&m->messages[i], x))
            return false;
    return true;
}

void stand_in_line(const struct model *m, struct model_message *x) {
    x->is_ordered = m->queues[x->queue].policy.order != ORDER_NONE && x->key.bytes > 0;
    x->rank = x->id;
}
