/* Dead-letter targets, as the model has them. */
#include "sim/model_int.h"

/* A message with its story and that once more has to fit a segment, else it stays: from about here on
 * the engine says. */
#define BIG_BYTES 20000

static bool is_allowed(const struct model *m, int to, int from) {
    uint8_t allow = m->queues[to].texts.allow;
    return !allow || allow & 1U << from;
}

/* It died there of that, and was not rejected since. */
static bool comes_back(const struct model_trail *t, uint64_t serial, enum reason reason) {
    for (size_t i = t->n; i > 0; i--) {
        enum reason was = (enum reason)t->reasons[i - 1];
        if (was == REASON_PERMANENT || was == REASON_REJECTED)
            return false;
        if (t->serials[i - 1] == serial && was == reason)
            return true;
    }
    return false;
}

int target_of(const struct model *m, const struct model_message *x, enum reason reason) {
    const struct model_queue *q = &m->queues[x->queue];
    int to = q->texts.target - 1;
    if (to < 0 || !(q->policy.target_reasons & 1U << reason) || !m->queues[to].exists ||
        to == x->queue || !is_allowed(m, to, x->queue) || x->trail.n == TRAIL_MAX ||
        comes_back(&x->trail, m->queues[to].serial, reason))
        return -1;
    return to;
}

int target_with_room(struct run *r, const struct model_message *x, enum reason reason) {
    struct message_view v;
    int to = target_of(r->m, x, reason);
    if (to < 0 || x->payload.bytes + x->headers.bytes + 4000 * x->deliveries < BIG_BYTES)
        return to;
    return remember(r, r->look && engine_has(r, x, &v)) ? -1 : to;
}

void move_to(struct model *m, struct model_message *x, int queue) {
    m->queues[x->queue].ledger.moved_out++;
    m->queues[queue].ledger.moved_in++;
    x->origin = x->origin < 0 ? (int8_t)x->queue : x->origin == queue ? -1 : x->origin;
    x->queue = queue;
    x->group = 0;
    stand_in_line(m, x);
}

void dead_letter(struct run *r, struct model_message *x, int to) {
    struct model *m = r->m;
    int from = x->queue;
    size_t group = x->group;
    x->trail.serials[x->trail.n] = (uint32_t)m->queues[from].serial;
    x->trail.reasons[x->trail.n++] = (uint8_t)x->reason;
    move_to(m, x, to);
    if (r->tick)
        x->group = group; /* until its death has its turn */
    x->state = STATE_PENDING;
    x->retry_count = 0;
    x->max_retries = m->queues[to].policy.max_retries;
    x->ttl_ms = x->expires_at = 0;
    x->deliveries_before = x->deliveries;
    x->dead_seq = 0;
    touch(x, r->op->now);
    tell(m, x, r->op->now,
         (struct model_line){
             .event = EVENT_DEAD_LETTERED, .moved_from = (int8_t)from, .moved_to = (int8_t)to});
}

/* Targets must not lead back, and the target has a say. */
enum err target_check(const struct model *m, int queue, const struct queue_texts *texts) {
    if (!texts->target)
        return OK;
    for (int at = texts->target - 1; at >= 0;) {
        if (at == queue)
            return ERR_TARGET_CYCLE;
        at = m->queues[at].exists ? m->queues[at].texts.target - 1 : -1;
    }
    int to = texts->target - 1;
    return m->queues[to].exists && !is_allowed(m, to, queue) ? ERR_TARGET_REFUSED : OK;
}
