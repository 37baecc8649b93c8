/* Where the entries of the audit lie: a ring of places by number. While the log is read, entries that
 * were carried on by the cleaner come late, so the ring may also grow at its front. */
#include "engine/state.h"

#include "base/mem.h"

#include <assert.h>
#include <stdlib.h>

static struct audit_place *place_at(const struct audit_index *a, uint64_t number) {
    return &a->places[(a->begin + (size_t)(number - a->first)) & (a->cap - 1)];
}

const struct audit_place *audit_at(const struct engine_state *st, uint64_t number) {
    const struct audit_index *a = &st->audit;
    if (number < a->first || number - a->first >= a->count)
        return NULL;
    const struct audit_place *p = place_at(a, number);
    return p->position ? p : NULL;
}

static void grow(struct audit_index *a, size_t need) {
    if (need <= a->cap)
        return;
    size_t cap = a->cap ? a->cap : 64;
    while (cap < need)
        cap *= 2;
    struct audit_place *places = mem_alloc(cap * sizeof *places);
    for (size_t i = 0; i < a->count; i++)
        places[i] = a->places[(a->begin + i) & (a->cap - 1)];
    free(a->places);
    a->places = places;
    a->cap = cap;
    a->begin = 0;
}

static void forget_first(struct engine_state *st) {
    struct audit_index *a = &st->audit;
    st->live_bytes -= place_at(a, a->first)->bytes;
    a->first++;
    a->begin = (a->begin + 1) & (a->cap - 1);
    a->count--;
}

void apply_audit(struct engine_state *st, const struct audit_entry *r, uint64_t position,
                 size_t bytes) {
    struct audit_index *a = &st->audit;
    if (r->number >= st->next_audit)
        st->next_audit = r->number + 1;
    if (st->next_audit - r->number > LIMIT_AUDIT)
        return; /* forgotten already: a carried one, read late */
    if (a->count == 0) {
        a->first = r->number;
        a->begin = 0;
    }
    if (r->number < a->first) {
        size_t more = (size_t)(a->first - r->number);
        grow(a, a->count + more);
        a->begin = (a->begin + a->cap - more) & (a->cap - 1);
        a->first = r->number;
        a->count += more;
        for (size_t i = 0; i < more; i++)
            *place_at(a, a->first + i) = (struct audit_place){0};
    }
    while (r->number - a->first >= a->count) {
        grow(a, a->count + 1);
        a->count++;
        *place_at(a, a->first + a->count - 1) = (struct audit_place){0};
    }
    struct audit_place *p = place_at(a, r->number);
    st->live_bytes += bytes - p->bytes;
    *p = (struct audit_place){.position = position, .bytes = (uint32_t)bytes};
    while (a->count > LIMIT_AUDIT)
        forget_first(st);
}

void audit_release(struct engine_state *st) {
    free(st->audit.places);
}
