#include "base/hash_index.h"

#include "base/mem.h"

#include <assert.h>
#include <stdlib.h>

#define FIRST_LEVEL 4
#define LOAD 2 /* items a bucket */

void hash_index_init(struct hash_index *h, void *ctx, uint64_t (*hash)(void *ctx, uint32_t item),
                     uint32_t *(*link)(void *ctx, uint32_t item)) {
    *h = (struct hash_index){.ctx = ctx, .hash = hash, .link = link, .level = FIRST_LEVEL};
    h->cap = 1U << FIRST_LEVEL;
    h->buckets = mem_alloc(h->cap * sizeof *h->buckets);
}

void hash_index_release(struct hash_index *h) {
    free(h->buckets);
    h->buckets = NULL;
}

static uint32_t bucket_of(const struct hash_index *h, uint64_t hash) {
    uint32_t b = (uint32_t)hash & ((1U << h->level) - 1);
    if (b < h->split)
        b = (uint32_t)hash & ((2U << h->level) - 1);
    return b;
}

static void split_one(struct hash_index *h) {
    uint32_t from = h->split, to = (1U << h->level) + h->split;
    if (to >= h->cap) {
        h->cap *= 2;
        h->buckets = mem_grow(h->buckets, h->cap * sizeof *h->buckets);
    }
    uint32_t item = h->buckets[from];
    h->buckets[from] = h->buckets[to] = 0;
    h->split++;
    while (item) {
        uint32_t *link = h->link(h->ctx, item), next = *link;
        uint32_t b = (uint32_t)h->hash(h->ctx, item) & ((2U << h->level) - 1);
        assert(b == from || b == to);
        *link = h->buckets[b];
        h->buckets[b] = item;
        item = next;
    }
    if (h->split == 1U << h->level) {
        h->level++;
        h->split = 0;
    }
}

void hash_index_add(struct hash_index *h, uint32_t item) {
    assert(item != 0);
    uint32_t b = bucket_of(h, h->hash(h->ctx, item));
    *h->link(h->ctx, item) = h->buckets[b];
    h->buckets[b] = item;
    h->count++;
    if (h->count > LOAD * ((1U << h->level) + h->split))
        split_one(h);
}

void hash_index_remove(struct hash_index *h, uint32_t item) {
    uint32_t *at = &h->buckets[bucket_of(h, h->hash(h->ctx, item))];
    while (*at != item) {
        assert(*at != 0);
        at = h->link(h->ctx, *at);
    }
    *at = *h->link(h->ctx, item);
    h->count--;
}

uint32_t hash_index_first(const struct hash_index *h, uint64_t hash) {
    return h->buckets[bucket_of(h, hash)];
}
