/* Treaps: binary trees ordered by key, whose ranks (a hash of the id) keep them flat. A slot is in
 * one set at a time, so one pair of links in the slot serves all; adding at the end and taking from
 * the front stay within a few hot slots. */
#include "engine/state.h"

#include <assert.h>

unsigned slot_line(const struct slot *s) {
    unsigned lane = s->behind ? 2 : s->again ? 1 : 0;
    return (unsigned)(PRIORITY_MAX - s->priority) + lane * (PRIORITY_MAX + 1);
}

uint64_t slot_arrival(const struct engine_state *st, const struct slot *s) {
    uint64_t arrival = s->extra ? extra_at(st, s->extra)->arrival : 0;
    return arrival ? arrival : s->id;
}

static uint64_t key_of(enum set set, unsigned line, uint64_t arrival) {
    return set == SET_READY ? (uint64_t)line << 53 | arrival : arrival;
}

static uint64_t key(const struct engine_state *st, const struct slot *s, enum set set) {
    return key_of(set, slot_line(s), slot_arrival(st, s));
}

static uint32_t rank_of(const struct slot *s) {
    uint64_t x = s->id * UINT64_C(0x9e3779b97f4a7c15);
    x ^= x >> 32;
    return (uint32_t)((x * UINT64_C(0xd6e8feb86659fd93)) >> 32);
}

void set_add(struct engine_state *st, struct queue *q, enum set set, uint32_t i) {
    struct slot *n = slot_at(st, i);
    uint64_t k = key(st, n, set);
    uint32_t rank = rank_of(n);
    uint32_t *link = &q->sets[set];
    while (*link) {
        struct slot *s = slot_at(st, *link);
        if (rank_of(s) < rank)
            break;
        link = k < key(st, s, set) ? &s->left : &s->right;
    }
    /* The new slot takes this place; what was below is split between its two sides. */
    uint32_t below = *link, *left = &n->left, *right = &n->right;
    *link = i;
    while (below) {
        struct slot *s = slot_at(st, below);
        assert(key(st, s, set) != k);
        if (key(st, s, set) < k) {
            *left = below;
            left = &s->right;
            below = s->right;
        } else {
            *right = below;
            right = &s->left;
            below = s->left;
        }
    }
    *left = *right = 0;
}

void set_remove(struct engine_state *st, struct queue *q, enum set set, uint32_t i) {
    struct slot *gone = slot_at(st, i);
    uint64_t k = key(st, gone, set);
    uint32_t *link = &q->sets[set];
    while (*link != i) {
        assert(*link != 0);
        struct slot *s = slot_at(st, *link);
        link = k < key(st, s, set) ? &s->left : &s->right;
    }
    uint32_t left = gone->left, right = gone->right;
    while (left && right) {
        struct slot *l = slot_at(st, left), *r = slot_at(st, right);
        if (rank_of(l) >= rank_of(r)) {
            *link = left;
            link = &l->right;
            left = l->right;
        } else {
            *link = right;
            link = &r->left;
            right = r->left;
        }
    }
    *link = left ? left : right;
}

uint32_t set_first(const struct engine_state *st, const struct queue *q, enum set set) {
    uint32_t i = q->sets[set];
    while (i && slot_at(st, i)->left)
        i = slot_at(st, i)->left;
    return i;
}

uint32_t set_after(const struct engine_state *st, const struct queue *q, enum set set,
                   unsigned line, uint64_t arrival) {
    uint64_t k = key_of(set, line, arrival);
    uint32_t best = 0;
    for (uint32_t i = q->sets[set]; i;) {
        const struct slot *s = slot_at(st, i);
        if (key(st, s, set) > k) {
            best = i;
            i = s->left;
        } else {
            i = s->right;
        }
    }
    return best;
}
