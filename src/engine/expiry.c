/* Queues whose time to live without a use has changed, by whatever changed their settings. Who sees
 * their uses is told; here none is known. */
#include "engine/engine_int.h"

#include "base/mem.h"

void queue_note_expires(struct engine_state *st, struct queue *q) {
    struct topology *t = &st->topology;
    if (q->on_expires_list)
        return;
    if (t->expires_count == t->expires_cap) {
        t->expires_cap = t->expires_cap ? t->expires_cap * 2 : 16;
        t->expires = mem_grow(t->expires, t->expires_cap * sizeof *t->expires);
    }
    t->expires[t->expires_count++] = q->number;
    q->on_expires_list = true;
}

bool engine_expires_changed(struct engine *e, struct span *ret_queue, int64_t *ret_ms) {
    struct topology *t = &e->st.topology;
    while (t->expires_count > 0) {
        struct queue *q = queue_by_number(&e->st, t->expires[--t->expires_count]);
        if (!q)
            continue;
        q->on_expires_list = false;
        if (q->dropping)
            continue;
        *ret_queue = span_of(q->name, q->name_bytes);
        *ret_ms = q->amqp ? q->amqp->effective.expires_ms : -1;
        return true;
    }
    return false;
}
