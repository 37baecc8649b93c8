/* XXH3 (libxxhash, behind this header). Any thread. */
#pragma once

#include "base/bytes.h"

uint64_t hash64(struct span s, uint64_t seed);

struct hash128 {
    uint64_t lo, hi;
};
struct hash128 hash128(struct span s, uint64_t seed);
