/* Known idempotency keys. Only a hash of 128 bits is kept; the key itself stays with its message in
 * the log. */
#include "engine/state.h"

#include "base/mem.h"

#include <assert.h>

struct hash128 key_hash(uint64_t queue, struct span key) {
    return hash128(key, queue);
}

static uint32_t find(const struct engine_state *st, struct hash128 hash) {
    uint32_t i = hash_index_first(&st->by_key, hash.lo);
    for (; i; i = st->keys[i].next_of_chain)
        if (st->keys[i].hash.lo == hash.lo && st->keys[i].hash.hi == hash.hi)
            return i;
    return 0;
}

uint64_t key_find(const struct engine_state *st, struct hash128 hash, int64_t now) {
    uint32_t i = find(st, hash);
    if (!i || st->keys[i].until <= now)
        return 0;
    uint32_t slot = slot_find(st, st->keys[i].id);
    const struct slot *s = slot ? slot_at(st, slot) : NULL;
    /* It may be gone, and an imported letter have its id, or be in a queue that is deleted. */
    bool is_there = s && slot_extra(st, s)->idempotency_until && !queue_at(st, s->queue)->dropping;
    return is_there ? st->keys[i].id : 0;
}

static uint32_t key_new(struct engine_state *st) {
    uint32_t i = st->free_key;
    if (i) {
        st->free_key = st->keys[i].next_of_queue;
        return i;
    }
    i = ++st->key_count;
    if (i >= st->key_cap) {
        st->key_cap = st->key_cap ? st->key_cap * 2 : 64;
        st->keys = mem_grow(st->keys, st->key_cap * sizeof *st->keys);
    }
    return i;
}

static void append(struct engine_state *st, struct queue *q, uint32_t i) {
    st->keys[i].next_of_queue = 0;
    if (q->keys_newest)
        st->keys[q->keys_newest].next_of_queue = i;
    else
        q->keys_oldest = i;
    q->keys_newest = i;
}

void key_add(struct engine_state *st, struct queue *q, struct hash128 hash, uint64_t id,
             int64_t until) {
    uint32_t old = find(st, hash);
    if (old) {
        if (st->keys[old].id >= id)
            return; /* the same, or an older message is carried: the key is the newer one's */
        /* Its window was over: it stays in its queue's order, without meaning, until its time. */
        hash_index_remove(&st->by_key, old);
        st->keys[old].id = 0;
    }
    uint32_t i = key_new(st);
    st->keys[i] = (struct idempotency){.hash = hash, .id = id, .until = until};
    hash_index_add(&st->by_key, i);
    append(st, q, i);
}

static uint32_t take_oldest(struct engine_state *st, struct queue *q) {
    uint32_t i = q->keys_oldest;
    q->keys_oldest = st->keys[i].next_of_queue;
    if (!q->keys_oldest)
        q->keys_newest = 0;
    return i;
}

static void forget(struct engine_state *st, uint32_t i) {
    if (st->keys[i].id)
        hash_index_remove(&st->by_key, i);
    st->keys[i].next_of_queue = st->free_key;
    st->free_key = i;
}

void keys_forget_until(struct engine_state *st, struct queue *q, int64_t now) {
    while (q->keys_oldest && st->keys[q->keys_oldest].until <= now)
        forget(st, take_oldest(st, q));
}

/* The message may have moved to another queue, or come from it: which of them has its key depends on
 * where it was when the log was read. */
void keys_leave(struct engine_state *st, struct queue *q) {
    while (q->keys_oldest) {
        uint32_t i = take_oldest(st, q);
        uint32_t slot = st->keys[i].id ? slot_find(st, st->keys[i].id) : 0;
        struct queue *to = slot ? queue_at(st, slot_at(st, slot)->queue) : q;
        if (to == q) {
            forget(st, i);
            continue;
        }
        append(st, to, i);
        queue_plan_upkeep(st, to);
    }
}
