/* The dead of a cause group against a sorted array. */
#include "engine/state.h"

#include "check.h"

#include <stdbool.h>
#include <stdlib.h>

#define LETTERS 2000
#define TIMES 50 /* so that many died at the same time */

static struct engine_state st;
static struct group groups[2];
static uint32_t letters[LETTERS]; /* in order of (died_at, dead_seq) */
static bool there[2][LETTERS];
static struct rng rng;

static struct letter_place place_of(int i) {
    const struct letter *l = letter_at(&st, letters[i]);
    return (struct letter_place){l->died_at, l->dead_seq};
}

static int compare(const void *pa, const void *pb) {
    const struct letter *a = letter_at(&st, *(const uint32_t *)pa),
                        *b = letter_at(&st, *(const uint32_t *)pb);
    if (a->died_at != b->died_at)
        return a->died_at < b->died_at ? -1 : 1;
    return a->dead_seq < b->dead_seq ? -1 : 1;
}

static void begin(void) {
    state_init(&st, 1);
    memset(groups, 0, sizeof groups);
    memset(there, 0, sizeof there);
    rng_seed(&rng, 7);
    for (uint32_t i = 0; i < LETTERS; i++) {
        uint32_t slot = slot_new(&st, i + 1);
        struct letter *l = slot_need_letter(&st, slot);
        l->died_at = (int64_t)rng_below(&rng, TIMES) - 5; /* some before the epoch */
        l->dead_seq = i + 1;
        letters[i] = extra_at(&st, slot_at(&st, slot)->extra)->letter;
    }
    qsort(letters, LETTERS, sizeof *letters, compare);
}

static void end(void) {
    state_release(&st);
}

static void put(int g, int i) {
    dead_add(&st, &groups[g], letters[i]);
    there[g][i] = true;
}

static void take(int g, int i) {
    dead_remove(&st, &groups[g], letters[i]);
    there[g][i] = false;
}

/* The nearest that is there, from i on in that direction; 0 = none. */
static uint32_t nearest(int g, int i, int step) {
    for (; i >= 0 && i < LETTERS; i += step)
        if (there[g][i])
            return letters[i];
    return 0;
}

/* Up and down, it holds what the array does. */
static bool is_exactly(int g) {
    uint32_t up = dead_first(&st, &groups[g]), down = dead_last(&st, &groups[g]);
    for (int i = 0; i < LETTERS; i++) {
        if (there[g][i]) {
            if (up != letters[i])
                return false;
            up = dead_above(&st, &groups[g], place_of(i));
        }
        int k = LETTERS - 1 - i;
        if (there[g][k]) {
            if (down != letters[k])
                return false;
            down = dead_below(&st, &groups[g], place_of(k));
        }
    }
    return up == 0 && down == 0;
}

/* Letters come, go, and go over to the other group; their links serve the one they are in. */
static void churn(void) {
    begin();
    for (int step = 0; step < 40000; step++) {
        int i = (int)rng_below(&rng, LETTERS), g = (int)rng_below(&rng, 2);
        bool was_in = there[g][i];
        if (there[0][i])
            take(0, i);
        if (there[1][i])
            take(1, i);
        if (!was_in)
            put(g, i);
        if (step % 2000 == 0)
            CHECK(is_exactly(0) && is_exactly(1));
    }
    CHECK(is_exactly(0) && is_exactly(1));
    end();
}

/* Above and below any place, whether or not a letter stands there. */
static void from_any_place(void) {
    begin();
    for (int i = 0; i < LETTERS; i++)
        if (rng_below(&rng, 3) == 0)
            put(0, i);
    for (int n = 0; n < 20000; n++) {
        int64_t at = (int64_t)rng_below(&rng, TIMES + 10) - 10;
        uint64_t seq = rng_below(&rng, LETTERS + 2);
        struct letter_place p = {at, seq};
        int above = 0; /* the first whose place is above */
        while (above < LETTERS &&
               (place_of(above).died_at < at ||
                (place_of(above).died_at == at && place_of(above).dead_seq <= seq)))
            above++;
        int below = above - 1; /* the last whose place is below */
        if (below >= 0 && place_of(below).died_at == at && place_of(below).dead_seq == seq)
            below--;
        CHECK_EQ(dead_above(&st, &groups[0], p), nearest(0, above, 1));
        CHECK_EQ(dead_below(&st, &groups[0], p), nearest(0, below, -1));
    }
    const struct letter_place first = {INT64_MIN, 0}, last = {INT64_MAX, UINT64_MAX};
    CHECK_EQ(dead_above(&st, &groups[0], first), dead_first(&st, &groups[0]));
    CHECK_EQ(dead_below(&st, &groups[0], last), dead_last(&st, &groups[0]));
    CHECK_EQ(dead_below(&st, &groups[0], first), 0);
    CHECK_EQ(dead_above(&st, &groups[0], last), 0);
    end();
}

static void of_none_and_of_one(void) {
    begin();
    const struct letter_place anywhere = {10, 10};
    CHECK_EQ(dead_first(&st, &groups[0]), 0);
    CHECK_EQ(dead_last(&st, &groups[0]), 0);
    CHECK_EQ(dead_above(&st, &groups[0], anywhere), 0);
    CHECK_EQ(dead_below(&st, &groups[0], anywhere), 0);
    put(0, 7);
    CHECK_EQ(dead_first(&st, &groups[0]), letters[7]);
    CHECK_EQ(dead_last(&st, &groups[0]), letters[7]);
    CHECK_EQ(dead_above(&st, &groups[0], place_of(7)), 0);
    CHECK_EQ(dead_below(&st, &groups[0], place_of(7)), 0);
    take(0, 7);
    CHECK_EQ(groups[0].letters, 0);
    end();
}

/* What mostly happens: deaths come in order, and the oldest or newest go first. */
static void stays_flat(void) {
    begin();
    for (int i = 0; i < LETTERS; i++)
        put(0, i);
    unsigned deepest = 0;
    for (int i = 0; i < LETTERS; i++) {
        unsigned depth = 0;
        for (uint32_t at = groups[0].letters; at != letters[i]; depth++)
            at = compare(&letters[i], &at) < 0 ? letter_at(&st, at)->left
                                               : letter_at(&st, at)->right;
        deepest = depth > deepest ? depth : deepest;
    }
    CHECK(deepest < 50); /* log2(2000) is 11 */
    for (int i = 0; i < LETTERS / 2; i++) {
        CHECK_EQ(dead_first(&st, &groups[0]), letters[i]);
        CHECK_EQ(dead_last(&st, &groups[0]), letters[LETTERS - 1 - i]);
        take(0, i);
        take(0, LETTERS - 1 - i);
    }
    CHECK_EQ(groups[0].letters, 0);
    end();
}

int main(void) {
    RUN(churn);
    RUN(from_any_place);
    RUN(of_none_and_of_one);
    RUN(stays_flat);
    return check_done();
}
