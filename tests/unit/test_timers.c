/* The timer heap against a linear search for the earliest. */
#include "base/rng.h"
#include "base/timers.h"

#include "check.h"

#include <stdbool.h>

#define OWNERS 500

static uint32_t places[OWNERS];

static uint32_t *place_of(void *ctx, uint32_t owner) {
    (void)ctx;
    return &places[owner];
}

static uint32_t earliest(const int64_t at[OWNERS], const bool set[OWNERS]) {
    uint32_t best = OWNERS;
    for (uint32_t i = 0; i < OWNERS; i++)
        if (set[i] && (best == OWNERS || at[i] < at[best]))
            best = i;
    return best;
}

static void the_first_is_the_earliest(void) {
    struct timers t;
    timers_init(&t, NULL, place_of);
    int64_t at[OWNERS] = {0};
    bool set[OWNERS] = {0};
    struct rng r;
    rng_seed(&r, 11);
    int wrong = 0;
    for (int step = 0; step < 50000; step++) {
        uint32_t owner = (uint32_t)rng_below(&r, OWNERS);
        if (rng_below(&r, 3) == 0) {
            timers_clear(&t, owner);
            set[owner] = false;
        } else {
            at[owner] = (int64_t)rng_below(&r, 1000); /* many are equal: the lower owner is first */
            timers_set(&t, owner, at[owner]);
            set[owner] = true;
        }
        const struct timer_entry *first = timers_first(&t);
        uint32_t best = earliest(at, set);
        wrong += first ? first->owner != best || first->at != at[best] : best != OWNERS;
    }
    CHECK_EQ(wrong, 0);
    timers_release(&t);
}

static void extremes(void) {
    struct timers t;
    timers_init(&t, NULL, place_of);
    memset(places, 0, sizeof places);
    CHECK(timers_first(&t) == NULL);
    timers_clear(&t, 3);
    timers_set(&t, 3, INT64_MAX);
    timers_set(&t, 4, INT64_MIN);
    CHECK_EQ(timers_first(&t)->owner, 4);
    timers_clear(&t, 4);
    CHECK_EQ(timers_first(&t)->owner, 3);
    timers_clear(&t, 3);
    CHECK(timers_first(&t) == NULL);
    CHECK_EQ(places[3], 0);
    timers_release(&t);
}

int main(void) {
    RUN(extremes);
    RUN(the_first_is_the_earliest);
    return check_done();
}
