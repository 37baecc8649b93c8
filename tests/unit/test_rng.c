#include "base/rng.h"
#include "check.h"

/* Reference values of splitmix64 (seed 0) feeding xoshiro256**: the sequence is a promise, a failing seed must fail tomorrow too. */
static void the_sequence_is_fixed(void) {
    struct rng r;
    rng_seed(&r, 0);
    CHECK(r.s[0] == UINT64_C(0xe220a8397b1dcdaf));
    CHECK(r.s[1] == UINT64_C(0x6e789e6aa1b965f4));
    CHECK(r.s[2] == UINT64_C(0x06c45d188009454f));
    CHECK(r.s[3] == UINT64_C(0xf88bb8a8724c81ec));

    r = (struct rng){.s = {1, 2, 3, 4}};
    CHECK(rng_u64(&r) == 11520);
    CHECK(rng_u64(&r) == 0);
    CHECK(rng_u64(&r) == 1509978240);
    CHECK(rng_u64(&r) == UINT64_C(1215971899390074240));
}

static void seeds_differ(void) {
    struct rng a, b, c;
    rng_seed(&a, 1);
    rng_seed(&b, 2);
    rng_seed(&c, 1);
    int equal = 0;
    for (int i = 0; i < 1000; i++) {
        uint64_t x = rng_u64(&a);
        equal += x == rng_u64(&b);
        CHECK(x == rng_u64(&c));
    }
    CHECK_EQ(equal, 0);
}

static void below_stays_below(void) {
    struct rng r;
    rng_seed(&r, 3);
    for (int i = 0; i < 100000; i++) {
        uint64_t n = (rng_u64(&r) >> rng_below(&r, 64)) | 1;
        CHECK(rng_below(&r, n) < n);
    }
    CHECK_EQ(rng_below(&r, 1), 0);
}

static void below_is_even(void) {
    enum { SIDES = 7, THROWS = 700000 };
    int seen[SIDES] = {0};
    struct rng r;
    rng_seed(&r, 4);
    for (int i = 0; i < THROWS; i++)
        seen[rng_below(&r, SIDES)]++;
    for (int i = 0; i < SIDES; i++) {
        int off = seen[i] - THROWS / SIDES;
        CHECK(off > -1500 && off < 1500); /* five standard deviations */
    }

    /* Two thirds of 2^64: a plain remainder would give the lower half two times out of three. */
    uint64_t n = UINT64_MAX / 3 * 2;
    int low = 0;
    for (int i = 0; i < 100000; i++)
        low += rng_below(&r, n) < n / 2;
    CHECK(low > 49000 && low < 51000);
}

int main(void) {
    RUN(the_sequence_is_fixed);
    RUN(seeds_differ);
    RUN(below_stays_below);
    RUN(below_is_even);
    return check_done();
}
