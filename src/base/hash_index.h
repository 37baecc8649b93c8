/* An index from hashes to objects named by a number (1.., 0 is none), which keep the chain's link
 * themselves: 4 bytes an object here and its own 4. It grows by linear hashing, one bucket at a
 * time, so that no insert ever pauses to rehash. One owner. */
#pragma once

#include <stdint.h>

struct hash_index {
    void *ctx;
    uint64_t (*hash)(void *ctx, uint32_t item);
    uint32_t *(*link)(void *ctx, uint32_t item); /* where the item keeps the next of its chain */
    uint32_t *buckets;
    uint32_t cap, level, split, count;
};

void hash_index_init(struct hash_index *h, void *ctx, uint64_t (*hash)(void *ctx, uint32_t item),
                     uint32_t *(*link)(void *ctx, uint32_t item));
void hash_index_release(struct hash_index *h);

void hash_index_add(struct hash_index *h, uint32_t item);
void hash_index_remove(struct hash_index *h, uint32_t item); /* it must be there */

/* The first item of the chain of this hash, 0 = none; the caller compares and follows the links. */
uint32_t hash_index_first(const struct hash_index *h, uint64_t hash);
