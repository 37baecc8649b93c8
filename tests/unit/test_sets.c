/* The ordered sets against a sorted walk over all ids. */
#include "engine/state.h"

#include "check.h"

#include <stdbool.h>

#define IDS 2000

static struct engine_state st;
static struct queue queue;
static uint32_t slots[IDS + 1];

static void begin(void) {
    state_init(&st, 1);
    memset(&queue, 0, sizeof queue);
    struct rng r;
    rng_seed(&r, 3);
    for (uint64_t id = 1; id <= IDS; id++) {
        slots[id] = slot_new(&st, id);
        slot_at(&st, slots[id])->priority = rng_below(&r, PRIORITY_MAX + 1) & 0xf;
        slot_at(&st, slots[id])->behind = rng_below(&r, 3) == 0;
        slot_at(&st, slots[id])->again = rng_below(&r, 3) == 0;
    }
}

static void end(void) {
    state_release(&st);
}

/* Whether a slot stands in that line: in front by falling priority, then retries that have lines of
 * their own, then those behind, in the same way. */
static bool is_in_line(const struct slot *s, unsigned line) {
    unsigned lane = s->behind ? 2 : s->again ? 1 : 0;
    return lane == line / (PRIORITY_MAX + 1) &&
           s->priority == PRIORITY_MAX - line % (PRIORITY_MAX + 1);
}

/* The ids of a set in its order, compared with what must be there. */
static bool is_exactly(enum set set, const bool there[IDS + 1]) {
    uint32_t at = set_first(&st, &queue, set);
    for (unsigned line = 0; line < (set == SET_READY ? LINES : 1); line++)
        for (uint64_t id = 1; id <= IDS; id++) {
            const struct slot *s = slot_at(&st, slots[id]);
            if (!there[id] || (set == SET_READY && !is_in_line(s, line)))
                continue;
            if (at != slots[id] || (set == SET_READY && slot_line(s) != line))
                return false;
            at = set_after(&st, &queue, set, slot_line(s), id);
        }
    return at == 0;
}

static void churn(enum set set) {
    begin();
    bool there[IDS + 1] = {0};
    struct rng r;
    rng_seed(&r, 5);
    for (int step = 0; step < 20000; step++) {
        uint64_t id = 1 + rng_below(&r, IDS);
        if (there[id])
            set_remove(&st, &queue, set, slots[id]);
        else
            set_add(&st, &queue, set, slots[id]);
        there[id] = !there[id];
        if (step % 1000 == 0)
            CHECK(is_exactly(set, there));
    }
    CHECK(is_exactly(set, there));
    end();
}

static void by_id(void) {
    churn(SET_DEAD);
}

static void by_line_and_id(void) {
    churn(SET_READY);
}

/* The lowest priority still goes before the highest of those behind. */
static void those_behind_go_last(void) {
    begin();
    struct slot *front = slot_at(&st, slots[2]), *behind = slot_at(&st, slots[1]);
    front->priority = 0;
    front->behind = 0;
    front->again = 1;
    behind->priority = PRIORITY_MAX;
    behind->behind = 1;
    set_add(&st, &queue, SET_READY, slots[1]);
    CHECK_EQ(set_first(&st, &queue, SET_READY), slots[1]);
    set_add(&st, &queue, SET_READY, slots[2]);
    CHECK_EQ(set_first(&st, &queue, SET_READY), slots[2]);
    CHECK_EQ(set_after(&st, &queue, SET_READY, slot_line(front), 2), slots[1]);
    CHECK_EQ(set_after(&st, &queue, SET_READY, 2 * (PRIORITY_MAX + 1), 0), slots[1]);
    CHECK_EQ(set_after(&st, &queue, SET_READY, LINES - 1, 0), 0);
    end();
}

/* What a queue mostly does: add at the end, take from the front. The tree must not become a list. */
static void stays_flat(void) {
    begin();
    for (uint64_t id = 1; id <= IDS; id++)
        set_add(&st, &queue, SET_WAITING, slots[id]);
    unsigned deepest = 0;
    for (uint64_t id = 1; id <= IDS; id++) {
        unsigned depth = 0;
        for (uint32_t i = queue.sets[SET_WAITING]; i != slots[id]; depth++)
            i = id < slot_at(&st, i)->id ? slot_at(&st, i)->left : slot_at(&st, i)->right;
        deepest = depth > deepest ? depth : deepest;
    }
    CHECK(deepest < 50); /* log2(2000) is 11 */
    for (uint64_t id = 1; id <= IDS; id++) {
        CHECK_EQ(set_first(&st, &queue, SET_WAITING), slots[id]);
        set_remove(&st, &queue, SET_WAITING, slots[id]);
    }
    CHECK_EQ(queue.sets[SET_WAITING], 0);
    end();
}

int main(void) {
    RUN(by_id);
    RUN(by_line_and_id);
    RUN(those_behind_go_last);
    RUN(stays_flat);
    return check_done();
}
