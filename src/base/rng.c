#include "base/rng.h"

#include <assert.h>

static uint64_t rotate_left(uint64_t x, unsigned k) {
    return (x << k) | (x >> (64 - k));
}

/* splitmix64: spreads a small seed over the whole state, which must not be all zero. */
static uint64_t seed_next(uint64_t *x) {
    *x += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = *x;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

void rng_seed(struct rng *r, uint64_t seed) {
    for (unsigned i = 0; i < 4; i++)
        r->s[i] = seed_next(&seed);
}

uint64_t rng_u64(struct rng *r) {
    uint64_t *s = r->s;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

uint64_t rng_below(struct rng *r, uint64_t n) {
    assert(n > 0);
    /* The lowest 2^64 mod n values would make the small results more likely: draw again. */
    uint64_t skip = (0 - n) % n;
    uint64_t x;
    do {
        x = rng_u64(r);
    } while (x < skip);
    return x % n;
}
