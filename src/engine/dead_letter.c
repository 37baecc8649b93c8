/* Dead-letter exchanges: a message that dies in a queue which names one goes through it by its
 * ordinary rules, to all queues found, in the frame of its death. Where none is found it stays. */
#include "engine/engine_int.h"

#include "model/properties.h"
#include "model/scope.h"

#include <assert.h>

/* As x-death has them. */
static enum reason reason_of(enum reason reason) {
    switch (reason) {
    case REASON_PERMANENT:
    case REASON_REJECTED:
        return REASON_REJECTED;
    case REASON_EXPIRED:
    case REASON_MAX_LENGTH:
        return reason;
    case REASON_NONE:
    case REASON_MAX_RETRIES:
    case REASON_DELIVERY_LIMIT:
    case REASON_LEASE_EXPIRED:
    case REASON_UNROUTABLE:
    case REASON_MANUAL:
        break;
    }
    return REASON_DELIVERY_LIMIT;
}

/* One that came by another way than AMQP is taken for one that was published to its queue by name. */
static void unpack(struct span packed, struct span name, struct envelope *v) {
    enum err err = envelope_unpack(packed, v);
    assert(err == OK); /* its record's checksum held */
    if (packed.n > 0)
        return;
    v->keys[0] = name;
    v->key_count = 1;
}

/* What its publisher asked for: the queue it dies in may not have priorities. */
static void note_priority(const struct envelope *v, struct target *t) {
    struct properties p;
    if (v->properties.n > 0 && properties_read(v->properties, &p) && p.has & PROPERTY_PRIORITY)
        t->priority = p.priority > PRIORITY_MAX ? PRIORITY_MAX : p.priority;
}

/* Without those that would close a circle. */
static size_t leave_cycles_out(struct routes *r, const struct envelope *v) {
    size_t n = 0;
    for (size_t i = 0; i < r->n; i++) {
        struct span vhost, name;
        scope_split(span_of(r->queues[i]->name, r->queues[i]->name_bytes), &vhost, &name);
        if (!envelope_makes_cycle(v, name))
            r->queues[n++] = r->queues[i];
    }
    return n;
}

bool dead_letter_find(struct engine *e, const struct queue *q, int64_t now, enum reason reason,
                      struct target *t) {
    const struct queue_settings *s = &q->amqp->effective;
    struct record_message *m = &t->message;
    struct span vhost, name;
    scope_split(span_of(q->name, q->name_bytes), &vhost, &name);
    struct envelope v;
    unpack(m->envelope, name, &v);
    note_priority(&v, t);
    enum reason as = reason_of(reason);
    envelope_die(&v, name, as, now, s->dlx, s->has_dlrk ? &s->dlrk : NULL);

    struct exchange *x = scope_name(vhost, s->dlx, &e->scoped)
                             ? exchange_by_name(&e->st, buf_span(&e->scoped))
                             : NULL;
    struct routes *r = &e->routed;
    r->n = 0;
    const struct message_keys keys = {
        .keys = v.keys, .count = v.key_count, .headers = m->headers, .deaths = &v};
    if (x)
        route(&e->st, x, &keys, r);
    if (as != REASON_REJECTED)
        r->n = leave_cycles_out(r, &v);
    t->by_exchange = true;
    t->is_unroutable = r->n == 0;
    if (r->n == 0)
        return false;
    t->queues = r->queues;
    t->count = r->n;
    buf_clear(&e->onward);
    envelope_pack(&e->onward, &v);
    m->envelope = buf_span(&e->onward);
    /* So that it is seen to have been here by a queue that has a target of its own. */
    if (trail_add(m->trail, q->number, reason, t->trail, &m->trail.n))
        m->trail.p = t->trail;
    return true;
}
