/* Small, seeded random numbers (xoshiro256**): the same seed gives the same sequence everywhere.
 * Not for secrets. One owner. */
#pragma once

#include <stdint.h>

struct rng {
    uint64_t s[4];
};

void rng_seed(struct rng *r, uint64_t seed);
uint64_t rng_u64(struct rng *r);
uint64_t rng_below(struct rng *r, uint64_t n); /* 0..n-1, unbiased; n > 0 */
