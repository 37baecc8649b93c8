/* The table of cause groups, and their windows of the last hour and day against a naive list of deaths. */
#include "engine/state.h"

#include "check.h"

#include <stdlib.h>

#define MINUTE INT64_C(60000)
#define HOUR INT64_C(3600000)
#define START INT64_C(1780000000000)

static struct engine_state st;
static struct rng rng;

static void begin(void) {
    state_init(&st, 1);
    rng_seed(&rng, 5);
}

static void end(void) {
    state_release(&st);
}

static struct queue *queue_called(uint64_t number, const char *name) {
    struct queue *q = queue_new(&st, number);
    queue_set_name(&st, q, span_str(name));
    return q;
}

/* An image in memory that is gone when it returns. */
static struct group *group_like(uint32_t number, uint64_t queue, uint64_t key, const char *title) {
    char *text = strdup(title);
    struct record_group r = {.group = number, .queue = queue, .key = key, .title = span_str(text)};
    apply_group(&st, &r, number * 1000, 800);
    memset(text, '?', strlen(text));
    free(text);
    return group_by_number(&st, number);
}

/* -- the table --------------------------------------------------------------------------------------- */

static void found_by_number_and_key(void) {
    begin();
    const struct queue *a = queue_called(1, "a"), *b = queue_called(2, "b");
    CHECK(!group_by_number(&st, 1) && !group_by_key(&st, 77, 0));
    struct group *one = group_like(1, 1, 77, "one"), *two = group_like(2, 1, 78, "two");
    struct group *other = group_like(3, 2, 77, "the same key in another queue");
    CHECK(group_by_number(&st, 1) == one && group_by_number(&st, 2) == two);
    CHECK(group_by_key(&st, 77, a->place) == one && group_by_key(&st, 77, b->place) == other);
    CHECK(group_by_key(&st, 78, a->place) == two && !group_by_key(&st, 78, b->place));
    CHECK(group_by_key(&st, 78, 0) == two && !group_by_key(&st, 79, 0));
    CHECK(group_at(&st, two->place) == two && two->queue == a->place);
    CHECK_EQ(st.live_groups, 3);
    CHECK_EQ(st.next_group, 4);
    CHECK_EQ(st.live_bytes, 3 * 800);
    end();
}

/* What goes with its queue is not found by its key alone. */
static void not_those_of_a_dropped_queue(void) {
    begin();
    struct queue *gone = queue_called(1, "a");
    struct group *of_gone = group_like(1, 1, 77, "old");
    CHECK(group_by_key(&st, 77, 0) == of_gone);
    gone->dropping = true;
    CHECK(!group_by_key(&st, 77, 0));
    queue_lose_name(&st, gone);
    const struct queue *q = queue_called(2, "a");
    struct group *g = group_like(2, 2, 77, "new");
    CHECK(group_by_key(&st, 77, 0) == g);
    CHECK(group_by_key(&st, 77, q->place) == g && group_by_key(&st, 77, gone->place) == of_gone);
    end();
}

/* While the log is read a letter may name a group before its image comes. */
static void without_an_image(void) {
    begin();
    struct queue *q = queue_called(1, "a");
    struct group *g = group_of_record(&st, 9, q);
    CHECK(g->queue == q->place && g->number == 9 && group_by_number(&st, 9) == g);
    CHECK(group_of_record(&st, 9, q) == g && !group_by_key(&st, 77, 0));
    CHECK_EQ(st.live_groups, 1);
    CHECK_EQ(st.next_group, 10);
    g->count = 3;
    CHECK(group_like(9, 1, 77, "late") == g);
    CHECK_EQ(g->count, 3); /* counted by letters, not by the image */
    CHECK(group_by_key(&st, 77, 0) == g);
    g->count = 0;
    struct group *never = group_of_record(&st, 10, q);
    group_remove(&st, never);
    CHECK(!group_by_number(&st, 10));
    end();
}

/* -- texts ------------------------------------------------------------------------------------------- */

static bool has_texts(const struct group *g, const char *const texts[4]) {
    const struct span have[] = {g->image.title, g->image.error_class, g->image.owner,
                                g->image.note};
    for (int i = 0; i < 4; i++)
        if (!span_equal_str(have[i], texts[i]))
            return false;
    return true;
}

static bool is_version(const struct group *g, unsigned i, const char *name) {
    return span_equal_str(g->image.versions[i].name, name);
}

static void texts_are_owned(void) {
    begin();
    queue_called(1, "a");
    char text[] = "titleclassownernote1.02.0";
    struct record_group r = {.group = 1,
                             .queue = 1,
                             .key = 7,
                             .title = span_of(text, 5),
                             .error_class = span_of(text + 5, 5),
                             .owner = span_of(text + 10, 5),
                             .note = span_of(text + 15, 4),
                             .version_count = 2,
                             .versions = {{span_of(text + 19, 3), 1}, {span_of(text + 22, 3), 2}}};
    apply_group(&st, &r, 8, 100);
    memset(text, '?', sizeof text);
    const struct group *g = group_by_number(&st, 1);
    CHECK(has_texts(g, (const char *[]){"title", "class", "owner", "note"}));
    CHECK(is_version(g, 0, "1.0") && is_version(g, 1, "2.0"));
    CHECK_EQ(g->image.versions[1].total, 2);

    /* A change is made from the image as it stands: its texts lie where the new ones go. */
    r = g->image;
    r.group = 1;
    r.owner = (struct span){0};
    r.note = span_str("a longer note than the one before");
    r.versions[r.version_count++] = (struct group_version){span_str("3.0"), 0};
    apply_group(&st, &r, 16, 150);
    CHECK(
        has_texts(g, (const char *[]){"title", "class", "", "a longer note than the one before"}));
    CHECK(is_version(g, 0, "1.0") && is_version(g, 1, "2.0") && is_version(g, 2, "3.0"));
    CHECK_EQ(g->position, 16);
    CHECK_EQ(st.live_bytes, 150);
    CHECK_EQ(st.live_groups, 1);
    end();
}

/* -- going ------------------------------------------------------------------------------------------- */

#define GROUPS 500

/* Groups come and go; the list of their queue, the indexes and the places stay right. */
static void coming_and_going(void) {
    begin();
    const struct queue *queues[] = {queue_called(1, "a"), queue_called(2, "b")};
    bool there[GROUPS + 1] = {0};
    for (int step = 0; step < 20000; step++) {
        uint32_t n = 1 + (uint32_t)rng_below(&rng, GROUPS);
        if (there[n])
            apply_group_gone(&st, n);
        else
            group_like(n, 1 + n % 2, n / 2, "x");
        there[n] = !there[n];
    }
    uint32_t count = 0, listed = 0;
    for (uint32_t n = 1; n <= GROUPS; n++) {
        struct group *g = group_by_number(&st, n);
        CHECK((g != NULL) == there[n]);
        CHECK(group_by_key(&st, n / 2, queues[n % 2]->place) == g);
        count += there[n];
    }
    for (int i = 0; i < 2; i++)
        for (uint32_t p = queues[i]->first_group; p; p = group_at(&st, p)->next_of_queue) {
            CHECK(group_at(&st, p)->queue == queues[i]->place);
            listed++;
        }
    CHECK_EQ(listed, count);
    CHECK_EQ(st.live_groups, count);
    CHECK_EQ(st.live_bytes, 800 * count);
    CHECK(st.group_count <= GROUPS); /* places are used again */
    end();
}

/* A record that says a group is gone is of a time when it was empty: one that is not stays. */
static void only_the_empty_go(void) {
    begin();
    queue_called(1, "a");
    struct group *g = group_like(1, 1, 7, "x");
    uint64_t *const counts[] = {&g->count, &g->open, &g->discarded};
    CHECK(group_is_empty(g));
    for (int i = 0; i < 3; i++) {
        *counts[i] = 1;
        CHECK(!group_is_empty(g));
        apply_group_gone(&st, 1);
        CHECK(group_by_number(&st, 1) == g);
        *counts[i] = 0;
    }
    apply_group_gone(&st, 1);
    CHECK(!group_by_number(&st, 1));
    apply_group_gone(&st, 1); /* nobody knows it */
    end();
}

/* -- counting deaths --------------------------------------------------------------------------------- */

#define DEATHS 20000

static struct {
    int64_t at[DEATHS];
    int count;
} list;

/* Deaths in the `size` units that end with the one `now` is in, as far as the ring reaches back from
 * the newest. */
static uint64_t naive(int64_t now, int64_t unit, int64_t size) {
    uint64_t n = 0;
    int64_t newest = INT64_MIN;
    for (int i = 0; i < list.count; i++)
        newest = list.at[i] > newest ? list.at[i] : newest;
    for (int i = 0; i < list.count; i++) {
        int64_t number = list.at[i] / unit;
        n += number > now / unit - size && number <= now / unit && number > newest / unit - size;
    }
    return n;
}

static void die(struct group *g, int64_t at, uint8_t version) {
    group_count_death(g, at, version);
    list.at[list.count++] = at < 0 ? 0 : at;
}

static void windows_are(const struct group *g, int64_t now) {
    uint64_t hour, day;
    group_window(g, now, &hour, &day);
    CHECK_EQ(hour, naive(now, MINUTE, GROUP_MINUTES));
    CHECK_EQ(day, naive(now, HOUR, GROUP_HOURS));
}

static void windows_move(void) {
    begin();
    struct group g = {0};
    list.count = 0;
    int64_t now = START;
    windows_are(&g, now);
    for (int i = 0; i < 3000; i++) {
        /* Bursts, minutes and hours of silence, now and then days. */
        uint64_t kind = rng_below(&rng, 20);
        now += (int64_t)(kind < 12   ? rng_below(&rng, 1000)
                         : kind < 17 ? rng_below(&rng, 20 * MINUTE)
                         : kind < 19 ? rng_below(&rng, 10 * HOUR)
                                     : rng_below(&rng, 100 * HOUR));
        windows_are(&g, now);
        for (uint64_t n = rng_below(&rng, 5); n > 0; n--)
            die(&g, now, VERSION_NONE);
        windows_are(&g, now);
    }
    CHECK_EQ(g.image.total, list.count);
    CHECK_EQ(g.image.last_seen, list.at[list.count - 1]);
    CHECK_EQ(g.image.first_seen, list.at[0]);
    end();
}

/* Exactly 60 minutes and 24 hours, at the edges. */
static void edges(void) {
    begin();
    struct group g = {0};
    uint64_t hour, day;
    int64_t at = START / HOUR * HOUR; /* the begin of an hour, and of a minute */
    group_count_death(&g, at, VERSION_NONE);
    group_window(&g, at + 60 * MINUTE - 1, &hour, &day);
    CHECK(hour == 1 && day == 1);
    group_window(&g, at + 60 * MINUTE, &hour, &day);
    CHECK(hour == 0 && day == 1);
    group_window(&g, at + 24 * HOUR - 1, &hour, &day);
    CHECK(hour == 0 && day == 1);
    group_window(&g, at + 24 * HOUR, &hour, &day);
    CHECK(hour == 0 && day == 0);
    group_window(&g, at - 1, &hour, &day); /* a clock that went back: not seen yet */
    CHECK(hour == 0 && day == 0);
    end();
}

/* Imported letters died long ago, and clocks go back: old deaths count where they belong, or nowhere. */
static void old_times(void) {
    begin();
    struct group g = {0};
    list.count = 0;
    int64_t now = START;
    for (int i = 0; i < 3000; i++) {
        uint64_t kind = rng_below(&rng, 6);
        int64_t at = kind == 0   ? now
                     : kind == 1 ? now - (int64_t)rng_below(&rng, 70 * MINUTE)
                     : kind == 2 ? now - (int64_t)rng_below(&rng, 30 * HOUR)
                     : kind == 3 ? (int64_t)rng_below(&rng, START)
                     : kind == 4 ? now + (int64_t)rng_below(&rng, 10 * MINUTE)
                                 : 0;
        die(&g, at, VERSION_NONE);
        windows_are(&g, now);
        windows_are(&g, now + (int64_t)rng_below(&rng, 2 * HOUR));
        now += (int64_t)rng_below(&rng, 5 * MINUTE);
    }
    CHECK_EQ(g.image.total, 3000);
    end();
}

/* Before the epoch there is nothing: it counts as its begin. */
static void times_before_the_epoch(void) {
    begin();
    struct group g = {0};
    list.count = 0;
    die(&g, -5, VERSION_NONE);
    die(&g, INT64_MIN, VERSION_NONE);
    windows_are(&g, 0);
    windows_are(&g, 59 * MINUTE);
    windows_are(&g, 30 * HOUR);
    die(&g, START, VERSION_NONE);
    windows_are(&g, START);
    CHECK_EQ(g.image.total, 3);
    CHECK_EQ(g.image.last_seen, START);
    end();
}

static void versions_count_each_their_own(void) {
    begin();
    struct group g = {.image = {.version_count = 2}};
    group_count_death(&g, START, 0);
    group_count_death(&g, START, 1);
    group_count_death(&g, START, 1);
    group_count_death(&g, START, VERSION_NONE);
    CHECK_EQ(g.image.versions[0].total, 1);
    CHECK_EQ(g.image.versions[1].total, 2);
    CHECK_EQ(g.image.total, 4);
    end();
}

int main(void) {
    RUN(found_by_number_and_key);
    RUN(not_those_of_a_dropped_queue);
    RUN(without_an_image);
    RUN(texts_are_owned);
    RUN(coming_and_going);
    RUN(only_the_empty_go);
    RUN(windows_move);
    RUN(edges);
    RUN(old_times);
    RUN(times_before_the_epoch);
    RUN(versions_count_each_their_own);
    return check_done();
}
