/* A heap of times. Owners are numbers; each keeps the place of its one entry (0 = none), so that it
 * can be moved or removed. Equal times come in order of owner. One owner thread. */
#pragma once

#include <stdint.h>

struct timer_entry {
    int64_t at;
    uint32_t owner;
};

struct timers {
    void *ctx;
    uint32_t *(*place)(void *ctx, uint32_t owner); /* where the owner keeps its place */
    struct timer_entry *entries;                   /* 1.. */
    uint32_t count, cap;
};

void timers_init(struct timers *t, void *ctx, uint32_t *(*place)(void *ctx, uint32_t owner));
void timers_release(struct timers *t);

void timers_set(struct timers *t, uint32_t owner, int64_t at); /* adds or moves */
void timers_clear(struct timers *t, uint32_t owner);           /* none is fine */

/* The earliest entry, NULL when there is none; valid until the next call. */
const struct timer_entry *timers_first(const struct timers *t);
