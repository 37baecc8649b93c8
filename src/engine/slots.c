#include "engine/state.h"

#include "base/mem.h"

#include <assert.h>
#include <stdlib.h>

#define PAGE_BITS 14
#define PAGE (1U << PAGE_BITS)

struct slot *slot_at(const struct engine_state *st, uint32_t i) {
    return &st->slot_pages[i >> PAGE_BITS][i & (PAGE - 1)];
}

struct extra *extra_at(const struct engine_state *st, uint32_t i) {
    return &st->extra_pages[i >> PAGE_BITS][i & (PAGE - 1)];
}

struct letter *letter_at(const struct engine_state *st, uint32_t i) {
    return &st->letter_pages[i >> PAGE_BITS][i & (PAGE - 1)];
}

uint32_t slot_find(const struct engine_state *st, uint64_t id) {
    uint32_t i = hash_index_first(&st->by_id, id);
    while (i && slot_at(st, i)->id != id)
        i = slot_at(st, i)->next;
    return i;
}

uint32_t slot_new(struct engine_state *st, uint64_t id) {
    uint32_t i = st->free_slot;
    if (i) {
        st->free_slot = slot_at(st, i)->next;
    } else {
        i = ++st->slot_count;
        assert(i < TIMER_OF_JOB);
        uint32_t page = i >> PAGE_BITS;
        if ((i & (PAGE - 1)) == 0 || i == 1) {
            st->slot_pages = mem_grow(st->slot_pages, (page + 1) * sizeof *st->slot_pages);
            st->slot_pages[page] = mem_grow(NULL, PAGE * sizeof **st->slot_pages);
        }
    }
    struct slot *s = slot_at(st, i);
    *s = (struct slot){.id = id & LIMIT_ID};
    hash_index_add(&st->by_id, i);
    st->messages++;
    return i;
}

void slot_free(struct engine_state *st, uint32_t i) {
    struct slot *s = slot_at(st, i);
    line_clear(st, i);
    slot_drop_extra(st, s);
    hash_index_remove(&st->by_id, i);
    *s = (struct slot){.next = st->free_slot};
    st->free_slot = i;
    st->messages--;
}

void slots_release(struct engine_state *st) {
    for (uint32_t page = 0; st->slot_count && page <= st->slot_count >> PAGE_BITS; page++)
        free(st->slot_pages[page]);
    for (uint32_t page = 0; st->extra_count && page <= st->extra_count >> PAGE_BITS; page++)
        free(st->extra_pages[page]);
    for (uint32_t page = 0; st->letter_count && page <= st->letter_count >> PAGE_BITS; page++)
        free(st->letter_pages[page]);
    free(st->slot_pages);
    free(st->extra_pages);
    free(st->letter_pages);
}

uint64_t slot_position(const struct slot *s) {
    return (uint64_t)s->position8 * 8;
}

size_t slot_record_bytes(const struct slot *s) {
    return (size_t)s->bytes8 * 8;
}

const struct extra *slot_extra(const struct engine_state *st, const struct slot *s) {
    static const struct extra none;
    return s->extra ? extra_at(st, s->extra) : &none;
}

struct extra *slot_need_extra(struct engine_state *st, struct slot *s) {
    if (s->extra)
        return extra_at(st, s->extra);
    uint32_t i = st->free_extra;
    if (i) {
        st->free_extra = extra_at(st, i)->next;
    } else {
        i = ++st->extra_count;
        uint32_t page = i >> PAGE_BITS;
        if ((i & (PAGE - 1)) == 0 || i == 1) {
            st->extra_pages = mem_grow(st->extra_pages, (page + 1) * sizeof *st->extra_pages);
            st->extra_pages[page] = mem_grow(NULL, PAGE * sizeof **st->extra_pages);
        }
    }
    *extra_at(st, i) = (struct extra){0};
    s->extra = i;
    return extra_at(st, i);
}

struct letter *slot_letter(const struct engine_state *st, const struct slot *s) {
    uint32_t i = s->extra ? extra_at(st, s->extra)->letter : 0;
    return i ? letter_at(st, i) : NULL;
}

struct letter *slot_need_letter(struct engine_state *st, uint32_t slot) {
    struct extra *x = slot_need_extra(st, slot_at(st, slot));
    if (x->letter)
        return letter_at(st, x->letter);
    uint32_t i = st->free_letter;
    if (i) {
        st->free_letter = letter_at(st, i)->left;
    } else {
        i = ++st->letter_count;
        uint32_t page = i >> PAGE_BITS;
        if ((i & (PAGE - 1)) == 0 || i == 1) {
            st->letter_pages = mem_grow(st->letter_pages, (page + 1) * sizeof *st->letter_pages);
            st->letter_pages[page] = mem_grow(NULL, PAGE * sizeof **st->letter_pages);
        }
    }
    *letter_at(st, i) = (struct letter){.slot = slot, .version = VERSION_NONE};
    x->letter = i;
    return letter_at(st, i);
}

static void drop_letter(struct engine_state *st, struct extra *x) {
    if (!x->letter)
        return;
    letter_at(st, x->letter)->left = st->free_letter;
    st->free_letter = x->letter;
    x->letter = 0;
}

void slot_drop_extra(struct engine_state *st, struct slot *s) {
    if (!s->extra)
        return;
    struct extra *x = extra_at(st, s->extra);
    assert(x->timer == 0);
    drop_letter(st, x);
    x->next = st->free_extra;
    st->free_extra = s->extra;
    s->extra = 0;
}

static struct letter_image letter_image(const struct engine_state *st, const struct letter *l) {
    return (struct letter_image){
        .died_at = l->died_at,
        .dead_seq = l->dead_seq,
        .edited_to = l->edited_to,
        .group = l->group ? group_at(st, l->group)->number : 0,
        .job = l->job,
        .job_part = (enum job_part)l->job_part,
        .deliveries_before = l->deliveries_before,
        .redrive_count = l->redrive_count,
        .version = l->version,
    };
}

struct message_image slot_image(const struct engine_state *st, const struct slot *s) {
    const struct extra *x = slot_extra(st, s);
    const struct letter *l = slot_letter(st, s);
    const struct line_place *p = slot_line_place(st, s);
    return (struct message_image){
        .state = (enum state)s->state,
        .reason = (enum reason)x->reason,
        .retry_count = x->retry_count,
        .max_retries = (uint8_t)s->max_retries,
        .priority = (uint8_t)s->priority,
        .is_retry = x->is_retry,
        .deliveries = (uint32_t)s->deliveries,
        .updated_at = (int64_t)s->updated_at,
        .next_at = x->next_at,
        .expires_at = x->expires_at,
        .first_failed_at = x->first_failed_at,
        .is_alone = x->is_alone,
        .in_company = x->in_company,
        .is_unroutable = x->is_unroutable,
        .arrival = x->arrival,
        .is_ordered = p != NULL,
        .order_key = p ? p->key : 0,
        .order_rank = p ? p->rank : 0,
        .has_letter = l != NULL,
        .letter = l ? letter_image(st, l) : (struct letter_image){0},
    };
}
