/* Reading the audit. Its entries are written by whoever does what they speak of (append_audit). */
#include "engine/engine_int.h"

#include <assert.h>

static bool is_wanted(const struct audit_query *q, const struct audit_entry *entry) {
    return (q->queue.n == 0 || span_equal(q->queue, entry->queue)) &&
           (q->actor.n == 0 || span_equal(q->actor, entry->actor)) &&
           (q->action == 0 || (int)entry->action == q->action);
}

static struct audit_entry read_entry(struct engine *e, const struct audit_place *p) {
    struct span meta, data;
    (void)log_record_read(e->log, p->position, p->bytes, &e->message, &meta, &data);
    struct audit_entry entry;
    enum err err = record_audit_get(meta, data, &entry);
    assert(err == OK);
    return entry;
}

void engine_audit(struct engine *e, const struct audit_query *query,
                  void (*f)(void *ctx, const struct audit_entry *entry), void *ctx,
                  uint64_t *ret_next) {
    assert(query->limit > 0 && query->limit <= LIMIT_BATCH);
    const struct audit_index *a = &e->st.audit;
    uint64_t end = a->first + a->count; /* behind the newest */
    uint64_t at = query->after >= a->first ? query->after + 1 : a->first;
    if (query->newest_first)
        at = query->before && query->before < end ? query->before - 1 : end - 1;
    size_t found = 0, looked = 0;
    uint64_t last = 0;
    while (at >= a->first && at < end && found < query->limit && looked < LIMIT_AUDIT_WALK) {
        const struct audit_place *p = audit_at(&e->st, at);
        assert(p);
        struct audit_entry entry = read_entry(e, p);
        if (is_wanted(query, &entry)) {
            f(ctx, &entry);
            found++;
        }
        looked++;
        last = at;
        at = query->newest_first ? at - 1 : at + 1;
    }
    bool is_over = at < a->first || at >= end;
    *ret_next = is_over ? 0 : last;
}
