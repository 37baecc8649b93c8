/* The dead of a cause group: a treap by (died_at, dead_seq) through the letters' own links, as the
 * ordered sets of a queue are (sets.c). */
#include "engine/state.h"

#include <assert.h>

static struct letter_place place_of(const struct letter *l) {
    return (struct letter_place){l->died_at, l->dead_seq};
}

static bool is_before(struct letter_place a, struct letter_place b) {
    return a.died_at != b.died_at ? a.died_at < b.died_at : a.dead_seq < b.dead_seq;
}

static uint32_t rank_of(const struct letter *l) {
    uint64_t x = l->dead_seq * UINT64_C(0x9e3779b97f4a7c15);
    x ^= x >> 32;
    return (uint32_t)((x * UINT64_C(0xd6e8feb86659fd93)) >> 32);
}

void dead_add(struct engine_state *st, struct group *g, uint32_t i) {
    struct letter *n = letter_at(st, i);
    struct letter_place p = place_of(n);
    uint32_t rank = rank_of(n);
    uint32_t *link = &g->letters;
    while (*link) {
        struct letter *l = letter_at(st, *link);
        if (rank_of(l) < rank)
            break;
        link = is_before(p, place_of(l)) ? &l->left : &l->right;
    }
    /* The new one takes this place; what was below is split between its two sides. */
    uint32_t below = *link, *left = &n->left, *right = &n->right;
    *link = i;
    while (below) {
        struct letter *l = letter_at(st, below);
        if (is_before(place_of(l), p)) {
            *left = below;
            left = &l->right;
            below = l->right;
        } else {
            *right = below;
            right = &l->left;
            below = l->left;
        }
    }
    *left = *right = 0;
}

void dead_remove(struct engine_state *st, struct group *g, uint32_t i) {
    struct letter *gone = letter_at(st, i);
    struct letter_place p = place_of(gone);
    uint32_t *link = &g->letters;
    while (*link != i) {
        assert(*link != 0);
        struct letter *l = letter_at(st, *link);
        link = is_before(p, place_of(l)) ? &l->left : &l->right;
    }
    uint32_t left = gone->left, right = gone->right;
    while (left && right) {
        struct letter *l = letter_at(st, left), *r = letter_at(st, right);
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

uint32_t dead_first(const struct engine_state *st, const struct group *g) {
    uint32_t i = g->letters;
    while (i && letter_at(st, i)->left)
        i = letter_at(st, i)->left;
    return i;
}

uint32_t dead_last(const struct engine_state *st, const struct group *g) {
    uint32_t i = g->letters;
    while (i && letter_at(st, i)->right)
        i = letter_at(st, i)->right;
    return i;
}

uint32_t dead_above(const struct engine_state *st, const struct group *g, struct letter_place p) {
    uint32_t best = 0;
    for (uint32_t i = g->letters; i;) {
        const struct letter *l = letter_at(st, i);
        if (is_before(p, place_of(l))) {
            best = i;
            i = l->left;
        } else {
            i = l->right;
        }
    }
    return best;
}

uint32_t dead_below(const struct engine_state *st, const struct group *g, struct letter_place p) {
    uint32_t best = 0;
    for (uint32_t i = g->letters; i;) {
        const struct letter *l = letter_at(st, i);
        if (is_before(place_of(l), p)) {
            best = i;
            i = l->right;
        } else {
            i = l->left;
        }
    }
    return best;
}
