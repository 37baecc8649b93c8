#include "engine/verify.h"

#include "base/mem.h"

#include <stdlib.h>

/* What the messages say of the lines of keys, by line; and of a queue. */
struct recount {
    uint64_t *pending, *processing;
    uint32_t *head; /* slot */
};
struct sums {
    uint64_t held, parked, parked_keys;
};

static bool stands(const struct engine *e, const struct slot *s) {
    const struct letter *l = slot_letter(&e->st, s);
    bool parks = queue_at(&e->st, s->queue)->policy.order == ORDER_PARK;
    return s->state == STATE_PENDING || s->state == STATE_PROCESSING ||
           (s->state == STATE_DEAD && parks && l && !l->edited_to);
}

static bool is_before(const struct engine *e, const struct slot *a, const struct slot *b) {
    uint64_t x = slot_line_place(&e->st, a)->rank, y = slot_line_place(&e->st, b)->rank;
    return x != y ? x < y : a->id < b->id;
}

static bool count_slot(const struct engine *e, struct recount *r, uint32_t i,
                       const struct complaint *c) {
    const struct slot *s = slot_at(&e->st, i);
    const struct line_place *p = slot_line_place(&e->st, s);
    uint32_t line = p ? p->line : 0;
    if ((line != 0) != (p && stands(e, s)))
        return complain(c, "message %llu should %sstand in line", (unsigned long long)s->id,
                        line ? "not " : "");
    if (!line)
        return !s->held || complain(c, "message %llu is held by nobody", (unsigned long long)s->id);
    const struct line *l = &e->st.lines[line];
    if (p->slot != i || l->key != p->key || l->queue != s->queue)
        return complain(c, "message %llu stands in another's line", (unsigned long long)s->id);
    r->pending[line] += s->state == STATE_PENDING;
    r->processing[line] += s->state == STATE_PROCESSING;
    if (!r->head[line] || is_before(e, s, slot_at(&e->st, r->head[line])))
        r->head[line] = i;
    return true;
}

static bool check_slot(const struct engine *e, const struct recount *r, uint32_t i,
                       struct sums *sums, const struct complaint *c) {
    const struct slot *s = slot_at(&e->st, i);
    const struct line_place *p = slot_line_place(&e->st, s);
    if (!p || !p->line)
        return true;
    const struct line *l = &e->st.lines[p->line];
    bool is_head = r->head[p->line] == i;
    bool waits = s->state == STATE_PENDING && (!is_head || r->processing[p->line] > 0);
    bool is_parked = slot_at(&e->st, r->head[p->line])->state == STATE_DEAD;
    if ((p->before == 0) != is_head || s->held != waits)
        return complain(c, "message %llu should %s its key", (unsigned long long)s->id,
                        is_head ? "be the head of"
                        : waits ? "wait for"
                                : "not wait for");
    if (l->pending != r->pending[p->line] || l->processing != r->processing[p->line] ||
        l->is_parked != is_parked)
        return complain(c, "the line of message %llu is counted wrong", (unsigned long long)s->id);
    sums->held += s->held;
    sums->parked += is_parked && s->state == STATE_PENDING;
    sums->parked_keys += is_parked && is_head;
    return true;
}

static bool verify_queue(const struct engine *e, const struct queue *q, struct recount *r,
                         const struct complaint *c) {
    struct sums sums = {0};
    for (int round = 0; round < 2; round++)
        for (enum set set = 0; set < SET_COUNT; set++)
            for (uint32_t i = set_first(&e->st, q, set); i;) {
                const struct slot *s = slot_at(&e->st, i);
                if (!(round ? check_slot(e, r, i, &sums, c) : count_slot(e, r, i, c)))
                    return false;
                i = set_after(&e->st, q, set, slot_line(s), slot_arrival(&e->st, s));
            }
    return (sums.held == q->held && sums.parked == q->parked &&
            sums.parked_keys == q->parked_keys) ||
           complain(c, "queue %.*s: held or parked is counted wrong", (int)q->name_bytes, q->name);
}

bool verify_lines(const struct engine *e, const struct complaint *c) {
    size_t n = e->st.line_count + 1;
    struct recount r = {.pending = mem_alloc(n * sizeof *r.pending),
                        .processing = mem_alloc(n * sizeof *r.processing),
                        .head = mem_alloc(n * sizeof *r.head)};
    bool holds = true;
    for (uint32_t i = e->st.oldest_queue; i && holds; i = queue_at(&e->st, i)->newer)
        holds = verify_queue(e, queue_at(&e->st, i), &r, c);
    free(r.pending);
    free(r.processing);
    free(r.head);
    return holds;
}
