/* The hash index against a plain array of "is there": adding, removing, finding, with good and with bad hashes. */
#include "base/hash_index.h"
#include "base/rng.h"

#include "check.h"

#include <stdbool.h>
#include <stdlib.h>

#define ITEMS 20000

struct table {
    uint32_t link[ITEMS + 1];
    uint64_t mask; /* of the hash: few bits make long chains */
    bool there[ITEMS + 1];
};

static uint64_t hash_of(void *ctx, uint32_t item) {
    const struct table *t = ctx;
    return item * UINT64_C(0x9e3779b97f4a7c15) >> 20 & t->mask;
}

static uint32_t *link_of(void *ctx, uint32_t item) {
    struct table *t = ctx;
    return &t->link[item];
}

static bool finds(const struct hash_index *h, struct table *t, uint32_t item) {
    uint32_t i = hash_index_first(h, hash_of(t, item));
    while (i && i != item)
        i = t->link[i];
    return i == item;
}

static void churn(uint64_t mask, uint32_t items, int steps) {
    struct table *t = calloc(1, sizeof *t);
    t->mask = mask;
    struct hash_index h;
    hash_index_init(&h, t, hash_of, link_of);
    struct rng r;
    rng_seed(&r, 7);
    uint32_t count = 0;
    int wrong = 0;
    for (int step = 0; step < steps; step++) {
        uint32_t item = 1 + (uint32_t)rng_below(&r, items);
        wrong += finds(&h, t, item) != t->there[item];
        if (t->there[item])
            hash_index_remove(&h, item);
        else
            hash_index_add(&h, item);
        count += t->there[item] ? -1U : 1U;
        t->there[item] = !t->there[item];
    }
    for (uint32_t item = 1; item <= items; item++)
        wrong += finds(&h, t, item) != t->there[item];
    CHECK_EQ(wrong, 0);
    CHECK_EQ(h.count, count);
    hash_index_release(&h);
    free(t);
}

static void finds_what_was_added(void) {
    churn(UINT64_MAX, ITEMS, 200000);
}

static void long_chains_are_slow_but_right(void) {
    churn(3, 400, 5000);
    churn(0, 50, 1000);
}

static void an_empty_index_has_nothing(void) {
    struct hash_index h;
    hash_index_init(&h, NULL, hash_of, link_of);
    CHECK_EQ(hash_index_first(&h, 0), 0);
    CHECK_EQ(hash_index_first(&h, UINT64_MAX), 0);
    hash_index_release(&h);
}

int main(void) {
    RUN(an_empty_index_has_nothing);
    RUN(finds_what_was_added);
    RUN(long_chains_are_slow_but_right);
    return check_done();
}
