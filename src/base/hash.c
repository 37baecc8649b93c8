#include "base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t hash64(struct span s, uint64_t seed) {
    return XXH3_64bits_withSeed(s.p, s.n, seed);
}

struct hash128 hash128(struct span s, uint64_t seed) {
    XXH128_hash_t h = XXH3_128bits_withSeed(s.p, s.n, seed);
    return (struct hash128){.lo = h.low64, .hi = h.high64};
}
