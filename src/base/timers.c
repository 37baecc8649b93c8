#include "base/timers.h"

#include "base/mem.h"

#include <stdbool.h>
#include <stdlib.h>

void timers_init(struct timers *t, void *ctx, uint32_t *(*place)(void *ctx, uint32_t owner)) {
    *t = (struct timers){.ctx = ctx, .place = place};
}

void timers_release(struct timers *t) {
    free(t->entries);
    t->entries = NULL;
}

static bool before(struct timer_entry a, struct timer_entry b) {
    return a.at != b.at ? a.at < b.at : a.owner < b.owner;
}

static void put(struct timers *t, uint32_t i, struct timer_entry e) {
    t->entries[i] = e;
    *t->place(t->ctx, e.owner) = i;
}

static void sift(struct timers *t, uint32_t i, struct timer_entry e) {
    while (i > 1 && before(e, t->entries[i / 2])) {
        put(t, i, t->entries[i / 2]);
        i /= 2;
    }
    for (uint32_t child; (child = i * 2) <= t->count; i = child) {
        if (child < t->count && before(t->entries[child + 1], t->entries[child]))
            child++;
        if (!before(t->entries[child], e))
            break;
        put(t, i, t->entries[child]);
    }
    put(t, i, e);
}

void timers_set(struct timers *t, uint32_t owner, int64_t at) {
    uint32_t place = *t->place(t->ctx, owner);
    if (place == 0) {
        place = ++t->count;
        if (place >= t->cap) {
            t->cap = t->cap ? t->cap * 2 : 64;
            t->entries = mem_grow(t->entries, t->cap * sizeof *t->entries);
        }
    }
    sift(t, place, (struct timer_entry){.at = at, .owner = owner});
}

void timers_clear(struct timers *t, uint32_t owner) {
    uint32_t *at = t->place(t->ctx, owner), place = *at;
    if (place == 0)
        return;
    *at = 0;
    struct timer_entry last = t->entries[t->count--];
    if (place <= t->count)
        sift(t, place, last);
}

const struct timer_entry *timers_first(const struct timers *t) {
    return t->count ? &t->entries[1] : NULL;
}
