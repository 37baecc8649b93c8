/* The table of cause groups. While the log is read a letter may name a group whose image is still to
 * come: it is there without one until then, and is counted by the letters all the same. */
#include "engine/state.h"

#include "base/mem.h"

#include <assert.h>
#include <stdlib.h>

#define MINUTE_MS 60000
#define HOUR_MS 3600000

struct group *group_at(const struct engine_state *st, uint32_t place) {
    return st->groups[place];
}

struct group *group_by_number(const struct engine_state *st, uint32_t number) {
    uint32_t i = hash_index_first(&st->groups_by_number, number);
    while (i && group_at(st, i)->number != number)
        i = group_at(st, i)->next_by_number;
    return i ? group_at(st, i) : NULL;
}

struct group *group_by_key(const struct engine_state *st, uint64_t key, uint32_t queue) {
    for (uint32_t i = hash_index_first(&st->groups_by_key, key); i;
         i = group_at(st, i)->next_by_key) {
        struct group *g = group_at(st, i);
        if (g->image.key == key && (queue ? g->queue == queue : !queue_at(st, g->queue)->dropping))
            return g;
    }
    return NULL;
}

static uint32_t place_new(struct engine_state *st) {
    if (st->free_group_count)
        return st->free_groups[--st->free_group_count];
    uint32_t place = ++st->group_count;
    if (place >= st->group_cap) {
        st->group_cap = st->group_cap ? st->group_cap * 2 : 64;
        st->groups = mem_grow(st->groups, st->group_cap * sizeof(struct group *));
    }
    return place;
}

static void link_to_queue(struct engine_state *st, struct group *g, struct queue *q) {
    g->queue = q->place;
    g->previous_of_queue = 0;
    g->next_of_queue = q->first_group;
    if (g->next_of_queue)
        group_at(st, g->next_of_queue)->previous_of_queue = g->place;
    q->first_group = g->place;
}

struct group *group_of_record(struct engine_state *st, uint32_t number, struct queue *q) {
    struct group *g = group_by_number(st, number);
    if (g)
        return g;
    g = mem_alloc(sizeof *g);
    g->place = place_new(st);
    g->number = number;
    st->groups[g->place] = g;
    st->live_groups++;
    if (number >= st->next_group)
        st->next_group = number + 1;
    hash_index_add(&st->groups_by_number, g->place);
    link_to_queue(st, g, q);
    return g;
}

static void unlink_from_queue(struct engine_state *st, struct group *g) {
    struct queue *q = queue_at(st, g->queue);
    if (q->dead_trim_group == g->place) { /* a walk goes on behind it */
        q->dead_trim_group = g->next_of_queue;
        q->dead_trim_after = (struct letter_place){INT64_MIN, 0};
    }
    if (g->previous_of_queue)
        group_at(st, g->previous_of_queue)->next_of_queue = g->next_of_queue;
    else
        q->first_group = g->next_of_queue;
    if (g->next_of_queue)
        group_at(st, g->next_of_queue)->previous_of_queue = g->previous_of_queue;
}

/* Copies the texts of an image into one piece of memory that the group owns. */
static void keep_texts(struct group *g, const struct record_group *r) {
    struct span spans[GROUP_SPANS];
    char *texts = spans_keep(spans, record_group_spans(r, spans));
    g->image = *r;
    g->image.title = spans[0];
    g->image.error_class = spans[1];
    g->image.owner = spans[2];
    g->image.note = spans[3];
    for (unsigned i = 0; i < r->version_count; i++)
        g->image.versions[i].name = spans[4 + i];
    free(g->texts); /* r may point into the old ones */
    g->texts = texts;
}

void apply_group(struct engine_state *st, const struct record_group *r, uint64_t position,
                 size_t bytes) {
    struct group *g = group_of_record(st, r->group, queue_of_record(st, r->queue));
    keep_texts(g, r);
    if (g->position == 0)
        hash_index_add(&st->groups_by_key, g->place);
    st->live_bytes += bytes - g->image_bytes;
    g->position = position;
    g->image_bytes = bytes;
}

bool group_is_empty(const struct group *g) {
    return g->count == 0 && g->open == 0 && g->discarded == 0;
}

void group_remove(struct engine_state *st, struct group *g) {
    unlink_from_queue(st, g);
    if (g->position)
        hash_index_remove(&st->groups_by_key, g->place);
    hash_index_remove(&st->groups_by_number, g->place);
    st->live_bytes -= g->image_bytes;
    st->live_groups--;
    st->groups[g->place] = NULL;
    if (st->free_group_count == st->free_group_cap) {
        st->free_group_cap = st->free_group_cap ? st->free_group_cap * 2 : 64;
        st->free_groups = mem_grow(st->free_groups, st->free_group_cap * sizeof(uint32_t));
    }
    st->free_groups[st->free_group_count++] = g->place;
    free(g->texts);
    free(g);
}

void apply_group_gone(struct engine_state *st, uint32_t number) {
    struct group *g = group_by_number(st, number);
    if (g && group_is_empty(g))
        group_remove(st, g);
}

/* -- counting -------------------------------------------------------------------------------- */

/* Moves a ring on to the slot of `number`, clearing what it passes over; false when the number is
 * older than the whole ring. */
static bool ring_move(uint32_t *ring, int64_t size, int64_t *newest, int64_t number) {
    if (number <= *newest - size)
        return false;
    int64_t from = *newest + 1 > number - size + 1 ? *newest + 1 : number - size + 1;
    for (int64_t i = from; i <= number; i++)
        ring[i % size] = 0;
    if (number > *newest)
        *newest = number;
    return true;
}

void group_count_death(struct group *g, int64_t at, uint8_t version) {
    struct record_group *r = &g->image;
    if (at < 0)
        at = 0;
    r->total++;
    if (at > r->last_seen)
        r->last_seen = at;
    if (r->first_seen == 0 || at < r->first_seen)
        r->first_seen = at;
    if (version < GROUP_VERSIONS_STORED)
        r->versions[version].total++;
    int64_t minute = at / MINUTE_MS, hour = at / HOUR_MS;
    if (ring_move(r->minutes, GROUP_MINUTES, &r->minute_at, minute))
        r->minutes[minute % GROUP_MINUTES]++;
    if (ring_move(r->hours, GROUP_HOURS, &r->hour_at, hour))
        r->hours[hour % GROUP_HOURS]++;
}

static uint64_t ring_sum(const uint32_t *ring, int64_t size, int64_t newest, int64_t now) {
    uint64_t sum = 0;
    for (int64_t i = now - size + 1; i <= now; i++)
        if (i <= newest && i > newest - size && i >= 0)
            sum += ring[i % size];
    return sum;
}

void group_window(const struct group *g, int64_t now, uint64_t *ret_hour, uint64_t *ret_day) {
    const struct record_group *r = &g->image;
    *ret_hour = ring_sum(r->minutes, GROUP_MINUTES, r->minute_at, now / MINUTE_MS);
    *ret_day = ring_sum(r->hours, GROUP_HOURS, r->hour_at, now / HOUR_MS);
}

void groups_release(struct engine_state *st) {
    for (uint32_t i = 1; i <= st->group_count; i++)
        if (st->groups[i]) {
            free(st->groups[i]->texts);
            free(st->groups[i]);
        }
    free(st->groups);
    free(st->free_groups);
}
