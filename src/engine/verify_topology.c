/* Slow looks at exchanges, bindings and policies. */
#include "engine/verify.h"

#include <string.h>

uint64_t topology_live_bytes(const struct engine *e) {
    const struct topology *t = &e->st.topology;
    uint64_t bytes = 0;
    for (uint32_t i = 1; i <= t->exchange_count; i++)
        bytes += t->exchanges[i] ? t->exchanges[i]->image_bytes : 0;
    for (uint32_t i = 1; i <= t->binding_count; i++)
        bytes += t->bindings[i] ? t->bindings[i]->image_bytes : 0;
    for (uint32_t i = 0; i < t->pattern_count; i++)
        bytes += t->patterns[i]->image_bytes;
    return bytes;
}

static uint64_t sum_record(const uint8_t *meta, size_t n, const struct span *spans, size_t count) {
    uint64_t sum = hash64(span_of(meta, n), 5);
    for (size_t i = 0; i < count; i++)
        sum = hash64(spans[i], sum);
    return sum;
}

/* They lie in any order: their sums are added up. */
uint64_t sum_topology(const struct engine *e) {
    const struct topology *t = &e->st.topology;
    uint8_t meta[RECORD_META_MAX];
    uint64_t sum = 0;
    for (uint32_t i = 1; i <= t->exchange_count; i++) {
        if (!t->exchanges[i])
            continue;
        struct span spans[EXCHANGE_SPANS];
        record_exchange_spans(&t->exchanges[i]->image, spans);
        size_t n = record_exchange_put(meta, &t->exchanges[i]->image);
        sum += sum_record(meta, n, spans, EXCHANGE_SPANS);
    }
    for (uint32_t i = 1; i <= t->binding_count; i++) {
        if (!t->bindings[i])
            continue;
        struct record_binding r = binding_image(&e->st, t->bindings[i]);
        struct span spans[BINDING_SPANS];
        record_binding_spans(&r, spans);
        sum += sum_record(meta, record_binding_put(meta, &r), spans, BINDING_SPANS);
    }
    for (uint32_t i = 0; i < t->pattern_count; i++) {
        struct span spans[PATTERN_SPANS];
        record_pattern_spans(&t->patterns[i]->image, spans);
        size_t n = record_pattern_put(meta, &t->patterns[i]->image);
        sum += sum_record(meta, n, spans, PATTERN_SPANS);
    }
    return sum;
}

/* Each binding is found from its source and from its destination, and is counted there. */
static bool verify_binding(const struct engine *e, const struct binding *b,
                           const struct complaint *c) {
    struct record_binding r = binding_image(&e->st, b);
    if (binding_find(&e->st, &r) != b || binding_by_number(&e->st, b->number) != b)
        return complain(c, "binding %llu is not in the index", (unsigned long long)b->number);
    const struct queue *q = b->to_exchange ? NULL : queue_at(&e->st, b->to);
    bool is_there = b->to_exchange ? exchange_at(&e->st, b->to)->number == b->destination
                                   : q && q->number == b->destination && !q->dropping;
    return is_there || complain(c, "binding %llu leads nowhere", (unsigned long long)b->number);
}

static bool verify_exchange(const struct engine *e, const struct exchange *x,
                            const struct complaint *c) {
    uint64_t from = 0, to = 0;
    for (uint32_t i = x->first; i; i = binding_at(&e->st, i)->next)
        from++;
    for (uint32_t i = binding_to(&e->st, x->number, true); i;
         i = binding_at(&e->st, i)->next_by_destination) {
        const struct binding *b = binding_at(&e->st, i);
        to += b->to_exchange && b->destination == x->number;
    }
    if (from != x->from || to != x->to || exchange_by_name(&e->st, x->image.name) != x)
        return complain(c, "exchange %llu counts %llu bindings of %llu, or has lost its name",
                        (unsigned long long)x->number, (unsigned long long)x->from,
                        (unsigned long long)from);
    return true;
}

bool verify_topology(const struct engine *e, const struct complaint *c) {
    const struct topology *t = &e->st.topology;
    uint32_t exchanges = 0, bindings = 0;
    for (uint32_t i = 1; i <= t->exchange_count; i++) {
        if (t->exchanges[i] && !verify_exchange(e, t->exchanges[i], c))
            return false;
        exchanges += t->exchanges[i] != NULL;
    }
    for (uint32_t i = 1; i <= t->binding_count; i++) {
        if (t->bindings[i] && !verify_binding(e, t->bindings[i], c))
            return false;
        bindings += t->bindings[i] != NULL;
    }
    return (exchanges == t->live_exchanges && bindings == t->live_bindings) ||
           complain(c, "exchanges or bindings are counted wrong");
}
