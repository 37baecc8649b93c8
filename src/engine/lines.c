/* The lines of keys. In an ordered queue the messages of one key stand in a line by rank; its head may
 * go, the others are held. A head that is dead keeps its place where the policy parks, so that all
 * behind it wait for a decision; else the dead leave the line. Nothing here is durable: lines follow
 * from the images. */
#include "engine/state.h"

#include "base/mem.h"

#include <assert.h>
#include <stdlib.h>

#define PAGE_BITS 12
#define PAGE (1U << PAGE_BITS)

/* -- places and lines ------------------------------------------------------------------------ */

static struct line_place *place_at(const struct engine_state *st, uint32_t i) {
    return &st->line_place_pages[i >> PAGE_BITS][i & (PAGE - 1)];
}

struct line_place *slot_line_place(const struct engine_state *st, const struct slot *s) {
    uint32_t i = s->extra ? extra_at(st, s->extra)->line : 0;
    return i ? place_at(st, i) : NULL;
}

static uint32_t place_new(struct engine_state *st) {
    uint32_t i = st->free_line_place;
    if (i) {
        st->free_line_place = place_at(st, i)->behind;
    } else {
        i = ++st->line_place_count;
        uint32_t page = i >> PAGE_BITS;
        if ((i & (PAGE - 1)) == 0 || i == 1) {
            st->line_place_pages =
                mem_grow(st->line_place_pages, (page + 1) * sizeof *st->line_place_pages);
            st->line_place_pages[page] = mem_grow(NULL, PAGE * sizeof **st->line_place_pages);
        }
    }
    *place_at(st, i) = (struct line_place){.counted_as = STATE_COUNT};
    return i;
}

static uint32_t line_find(const struct engine_state *st, uint32_t queue, uint64_t key) {
    uint32_t i = hash_index_first(&st->lines_by_key, key);
    while (i && (st->lines[i].key != key || st->lines[i].queue != queue))
        i = st->lines[i].next;
    return i;
}

static uint32_t line_need(struct engine_state *st, uint32_t queue, uint64_t key) {
    uint32_t i = line_find(st, queue, key);
    if (i)
        return i;
    i = st->free_line;
    if (i) {
        st->free_line = st->lines[i].next;
    } else {
        i = ++st->line_count;
        if (i >= st->line_cap) {
            st->line_cap = st->line_cap ? st->line_cap * 2 : 64;
            st->lines = mem_grow(st->lines, st->line_cap * sizeof *st->lines);
        }
    }
    st->lines[i] = (struct line){.key = key, .queue = queue};
    hash_index_add(&st->lines_by_key, i);
    return i;
}

static void line_free(struct engine_state *st, uint32_t i) {
    hash_index_remove(&st->lines_by_key, i);
    st->lines[i] = (struct line){.next = st->free_line};
    st->free_line = i;
}

const struct line *line_of(const struct engine_state *st, const struct slot *s) {
    const struct line_place *p = slot_line_place(st, s);
    return p && p->line ? &st->lines[p->line] : NULL;
}

/* -- what the queue counts of a line --------------------------------------------------------- */

static void uncount(struct engine_state *st, uint32_t i) {
    struct line *l = &st->lines[i];
    struct queue *q = queue_at(st, l->queue);
    if (l->is_parked) {
        q->parked -= l->pending;
        q->parked_keys--;
    }
}

static void count(struct engine_state *st, uint32_t i) {
    struct line *l = &st->lines[i];
    struct queue *q = queue_at(st, l->queue);
    const struct slot *head = l->first ? slot_at(st, place_at(st, l->first)->slot) : NULL;
    l->is_parked = head && head->state == STATE_DEAD;
    if (l->is_parked) {
        q->parked += l->pending;
        q->parked_keys++;
    }
}

/* -- standing in line ------------------------------------------------------------------------ */

/* By rank; an original that goes after all is before its copy, of the same rank, whoever came first. */
static bool is_before(const struct engine_state *st, const struct line_place *a,
                      const struct line_place *b) {
    return a->rank != b->rank ? a->rank < b->rank
                              : slot_at(st, a->slot)->id < slot_at(st, b->slot)->id;
}

static void stand(struct engine_state *st, uint32_t line, uint32_t i) {
    struct line *l = &st->lines[line];
    struct line_place *p = place_at(st, i);
    p->line = line;
    /* New ones come last. While the log is read, carried ones come late. */
    uint32_t before = l->last;
    if (l->first && is_before(st, p, place_at(st, l->first)))
        before = 0;
    while (before && is_before(st, p, place_at(st, before)))
        before = place_at(st, before)->before;
    p->before = before;
    p->behind = before ? place_at(st, before)->behind : l->first;
    if (p->before)
        place_at(st, p->before)->behind = i;
    else
        l->first = i;
    if (p->behind)
        place_at(st, p->behind)->before = i;
    else
        l->last = i;
}

static void step_out(struct engine_state *st, uint32_t i) {
    struct line_place *p = place_at(st, i);
    struct line *l = &st->lines[p->line];
    if (p->before)
        place_at(st, p->before)->behind = p->behind;
    else
        l->first = p->behind;
    if (p->behind)
        place_at(st, p->behind)->before = p->before;
    else
        l->last = p->before;
    p->line = p->before = p->behind = 0;
}

static void count_as(struct line *l, struct line_place *p, unsigned state) {
    l->pending -= p->counted_as == STATE_PENDING;
    l->processing -= p->counted_as == STATE_PROCESSING;
    l->pending += state == STATE_PENDING;
    l->processing += state == STATE_PROCESSING;
    p->counted_as = (uint8_t)state;
}

/* The head may go while none of the line is in processing; whoever stands right behind it may not. */
static void settle(struct engine_state *st, uint32_t line) {
    uint32_t first = st->lines[line].first;
    uint32_t second = place_at(st, first)->behind;
    const struct slot *head = slot_at(st, place_at(st, first)->slot);
    bool may_go = st->lines[line].processing == 0;
    if (head->state == STATE_PENDING && head->held == may_go)
        slot_set_held(st, place_at(st, first)->slot, !may_go);
    if (second) {
        const struct slot *s = slot_at(st, place_at(st, second)->slot);
        if (s->state == STATE_PENDING && !s->held)
            slot_set_held(st, place_at(st, second)->slot, true);
    }
}

static bool belongs(const struct engine_state *st, const struct slot *s) {
    const struct letter *l = slot_letter(st, s);
    switch ((enum state)s->state) {
    case STATE_PENDING:
    case STATE_PROCESSING:
        return true;
    case STATE_DEAD:
        /* One that was edited has its copy in its place. */
        return queue_at(st, s->queue)->policy.order == ORDER_PARK && l->edited_to == 0;
    case STATE_SUCCEEDED:
    case STATE_PARKED:
    case STATE_DISCARDED:
        break;
    }
    return false;
}

void line_follow(struct engine_state *st, uint32_t slot) {
    const struct slot *s = slot_at(st, slot);
    struct line_place *p = slot_line_place(st, s);
    if (!p)
        return;
    uint32_t i = extra_at(st, s->extra)->line, line = p->line;
    bool is_wanted = belongs(st, s);
    if (!line && !is_wanted)
        return;
    if (!line)
        line = line_need(st, s->queue, p->key);
    uncount(st, line);
    bool was_in = p->line != 0;
    count_as(&st->lines[line], p, s->state);
    if (is_wanted && !was_in)
        stand(st, line, i);
    else if (!is_wanted && was_in)
        step_out(st, i);
    count(st, line);
    if (st->lines[line].first)
        settle(st, line);
    else
        line_free(st, line);
}

bool line_holds(const struct engine_state *st, const struct slot *s) {
    const struct line_place *p = slot_line_place(st, s);
    if (!p || s->state != STATE_PENDING)
        return false;
    /* While it is detached its line still counts it as what it was. */
    uint32_t line = p->line ? p->line : line_find(st, s->queue, p->key);
    if (!line)
        return false;
    uint64_t others = st->lines[line].processing - (p->counted_as == STATE_PROCESSING);
    if (others > 0)
        return true;
    return p->line ? p->before != 0 : is_before(st, place_at(st, st->lines[line].first), p);
}

void line_set(struct engine_state *st, uint32_t slot, uint64_t key, uint64_t rank) {
    struct extra *x = slot_need_extra(st, slot_at(st, slot));
    if (!x->line)
        x->line = place_new(st);
    struct line_place *p = place_at(st, x->line);
    p->key = key;
    p->rank = rank;
    p->slot = slot;
}

void line_clear(struct engine_state *st, uint32_t slot) {
    struct slot *s = slot_at(st, slot);
    struct line_place *p = slot_line_place(st, s);
    if (!p)
        return;
    struct extra *x = extra_at(st, s->extra);
    uint32_t i = x->line, line = p->line;
    if (line) {
        uncount(st, line);
        count_as(&st->lines[line], p, STATE_COUNT);
        step_out(st, i);
        count(st, line);
    }
    x->line = 0;
    p->behind = st->free_line_place;
    st->free_line_place = i;
    if (line && st->lines[line].first)
        settle(st, line);
    else if (line)
        line_free(st, line);
}

void lines_release(struct engine_state *st) {
    for (uint32_t page = 0; st->line_place_count && page <= st->line_place_count >> PAGE_BITS;
         page++)
        free(st->line_place_pages[page]);
    free(st->line_place_pages);
    free(st->lines);
}
