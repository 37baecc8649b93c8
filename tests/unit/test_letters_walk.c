/* Walking over dead letters: cursors both ways while letters come and go, fences, and the bounds of the work of one call. */
#include "engine_rig.h"

#define MINUTE INT64_C(60000)

static struct rig rig;

/* -- cursors and fences ------------------------------------------------------------------------------ */

static const struct rig_death plain = {
    .queue = "q", .class = "Timeout", .error = "took too long", .payload = "x", .permanent = true};

/* Letters come and go between pages: whoever stays is seen once, in its place. */
static void cursors_keep_their_place(void) {
    for (int oldest_first = 0; oldest_first < 2; oldest_first++) {
        rig_begin(&rig);
        uint64_t ids[100], page_ids[10], seen[100], late;
        struct rig_death two[2] = {plain, plain};
        two[1].class = "Refused";
        for (int i = 0; i < 100; i++, rig.now += i % 3)
            rig_die(&rig, &two[i % 2], 1, &ids[i]);
        struct letter_query q = {.oldest_first = oldest_first, .limit = 10};
        size_t n = 0;
        struct letter_page page = {0};
        for (int round = 0; !page.is_last && n < 90; round++) {
            size_t got = rig_page(&rig, &q, page_ids, &page);
            memcpy(seen + n, page_ids, got * sizeof *seen);
            n += got;
            q.has_after = true;
            q.after = page.next;
            /* The one the cursor stands at goes, and so does the next but one; another dies. */
            rig_discard(&rig, "q", page_ids[got - 1]);
            size_t ahead = (size_t)round + n + 1;
            if (ahead < 100)
                rig_discard(&rig, "q", ids[oldest_first ? ahead : 99 - ahead]);
            if (!oldest_first)
                rig_die(&rig, &two[round % 2], 1, &late);
        }
        CHECK(n > 80 && n < 100);
        for (size_t i = 1; i < n; i++)
            CHECK(oldest_first ? seen[i] > seen[i - 1] : seen[i] < seen[i - 1]);
        for (size_t i = 0; i < n; i++)
            CHECK(seen[i] <= ids[99]);
        rig_end(&rig);
    }
}

/* A cursor at a place where nothing is any more, beyond either end, and of a filter's range of times. */
static void cursors_of_any_place(void) {
    rig_begin(&rig);
    uint64_t ids[10], found[10];
    for (int i = 0; i < 10; i++, rig.now += 60000)
        rig_die(&rig, &plain, 1, &ids[i]);
    struct letter_page page;
    struct letter_query q = {.limit = 10, .has_after = true, .after = {INT64_MIN, 0}};
    CHECK(rig_page(&rig, &q, found, &page) == 0 && page.is_last && page.is_complete);
    q.after = (struct letter_place){INT64_MAX, UINT64_MAX};
    CHECK(rig_page(&rig, &q, found, &page) == 10 && found[0] == ids[9]);
    q.oldest_first = true;
    CHECK(rig_page(&rig, &q, found, &page) == 0 && page.is_last);
    q.after = (struct letter_place){RIG_START + 5 * MINUTE, 0};
    CHECK(rig_page(&rig, &q, found, &page) == 5 && found[0] == ids[5]);
    q.after.dead_seq = UINT64_MAX;
    CHECK(rig_page(&rig, &q, found, &page) == 4 && found[0] == ids[6]);
    q.oldest_first = false;
    CHECK(rig_page(&rig, &q, found, &page) == 6 && found[0] == ids[5]);

    /* The filter ends earlier than the cursor, or begins later: neither is overstepped. */
    struct filter *filter = rig_filter(&rig, "age:4m..6m");
    q = (struct letter_query){.filter = filter, .limit = 10};
    size_t n = rig_page(&rig, &q, found, &page);
    CHECK(n > 0 && n < 10 && page.is_last);
    q.has_after = true;
    q.after = (struct letter_place){INT64_MAX, UINT64_MAX};
    CHECK_EQ(rig_page(&rig, &q, found, &page), n);
    q.after = (struct letter_place){RIG_START, 1};
    CHECK(rig_page(&rig, &q, found, &page) == 0 && page.is_last);
    q.oldest_first = true;
    CHECK_EQ(rig_page(&rig, &q, found, &page), n);
    filter_free(filter);
    rig_end(&rig);
}

/* Many that died at the very first and last moment of a filter's range, a page each. */
static void cursors_at_the_edge_of_a_range(void) {
    rig_begin(&rig);
    uint64_t ids[10], found[10];
    rig_die(&rig, &plain, 5, ids);
    rig.now += 999;
    rig_die(&rig, &plain, 5, ids + 5);
    struct filter *filter = rig_filter(&rig, "died:2026-05-28T20:26:40");
    struct letter_query q = {.filter = filter, .oldest_first = true, .limit = 1};
    CHECK(rig_letters(&rig, q, found, 10) == 10 && rig_is_same(found, ids, 10));
    q.oldest_first = false;
    CHECK(rig_letters(&rig, q, found, 10) == 10 && found[0] == ids[9] && found[9] == ids[0]);
    filter_free(filter);
    rig_end(&rig);
}

static void fences(void) {
    rig_begin(&rig);
    CHECK_EQ(engine_fence(rig.engine), 0);
    uint64_t ids[30], found[30];
    for (int i = 0; i < 20; i++, rig.now++)
        rig_die(&rig, &plain, 1, &ids[i]);
    uint64_t fence = engine_fence(rig.engine);
    CHECK_EQ(fence, 20);
    for (int i = 20; i < 30; i++, rig.now++)
        rig_die(&rig, &plain, 1, &ids[i]);
    struct letter_page page;
    struct letter_query q = {.fence = fence, .limit = 30};
    CHECK(rig_page(&rig, &q, found, &page) == 20 && found[0] == ids[19] && page.is_last);
    q.oldest_first = true;
    CHECK(rig_page(&rig, &q, found, &page) == 20 && found[0] == ids[0] && found[19] == ids[19]);
    CHECK_EQ(page.looked_at, 30);

    /* Dead anew is behind the fence: by a discard that was undone, or by dying again. */
    const struct act act = {.actor = span_str("ann")};
    rig_discard(&rig, "q", ids[3]);
    CHECK(engine_undiscard(rig.engine, rig.now, span_str("q"), ids[3], &act) == OK);
    rig_replay(&rig, "q", ids[4]);
    rig_claim(&rig, &plain, 1, &ids[4]);
    rig_settle(&rig, &plain, SETTLE_FAIL, &ids[4], 1);
    CHECK_EQ(rig_page(&rig, &q, found, &page), 18);
    q.fence = 0;
    CHECK_EQ(rig_page(&rig, &q, found, &page), 30);
    /* The same death stands where it was; the new one comes last. */
    CHECK(found[3] == ids[3] && found[29] == ids[4]);
    q.fence = engine_fence(rig.engine);
    CHECK_EQ(rig_page(&rig, &q, found, &page), 30);
    rig_restart(&rig);
    CHECK_EQ(engine_fence(rig.engine), 32);
    q.fence = fence;
    CHECK_EQ(rig_page(&rig, &q, found, &page), 18);
    rig_end(&rig);
}

/* -- the work of one call ---------------------------------------------------------------------------- */

#define MANY (LIMIT_WALK_LETTERS + 5000)

static uint64_t many[MANY];

static void die_many(void) {
    for (size_t i = 0; i < MANY; i += LIMIT_BATCH, rig.now += 1000)
        rig_die(&rig, &plain, LIMIT_BATCH, &many[i]);
}

static void memory_has_a_bound(void) {
    rig_begin(&rig);
    die_many();
    uint64_t found[100];
    struct letter_page page;

    /* All of a group: no more is looked at than is given, also deep inside. */
    struct letter_query q = {.limit = 100};
    CHECK_EQ(rig_page(&rig, &q, found, &page), 100);
    CHECK(page.looked_at == 100 && page.is_complete && !page.is_last);
    q.has_after = true;
    q.after = (struct letter_place){RIG_START + 12000, 0};
    CHECK_EQ(rig_page(&rig, &q, found, &page), 100);
    CHECK(page.looked_at == 100 && page.is_complete && found[0] == many[11999]);

    /* None of them: the work is used up, and says so; it goes on where it stopped. */
    struct filter *filter = rig_filter(&rig, "redrives:>0");
    q = (struct letter_query){.filter = filter, .limit = 100};
    CHECK_EQ(rig_page(&rig, &q, found, &page), 0);
    CHECK(page.looked_at == LIMIT_WALK_LETTERS && !page.is_complete && !page.is_last);
    q.has_after = true;
    q.after = page.next;
    CHECK_EQ(rig_page(&rig, &q, found, &page), 0);
    CHECK(page.looked_at == MANY - LIMIT_WALK_LETTERS && page.is_complete && page.is_last);
    filter_free(filter);

    /* What matches last is found by the second call. */
    char text[64];
    snprintf(text, sizeof text, "id:%llu", (unsigned long long)many[10]);
    filter = rig_filter(&rig, text);
    q = (struct letter_query){.filter = filter, .limit = 100};
    CHECK(rig_page(&rig, &q, found, &page) == 0 && !page.is_complete);
    q.has_after = true;
    q.after = page.next;
    CHECK(rig_page(&rig, &q, found, &page) == 1 && found[0] == many[10] && page.is_complete);
    filter_free(filter);

    /* A whole group that cannot match costs nothing. */
    filter = rig_filter(&rig, "error:NoSuchClass");
    q = (struct letter_query){.filter = filter, .limit = 100};
    CHECK(rig_page(&rig, &q, found, &page) == 0 && page.is_last && page.looked_at == 0);
    filter_free(filter);
    /* Nor do times that are out of range. */
    filter = rig_filter(&rig, "age:>365d");
    q = (struct letter_query){.filter = filter, .limit = 100};
    CHECK(rig_page(&rig, &q, found, &page) == 0 && page.is_last && page.looked_at == 0);
    filter_free(filter);
    rig_end(&rig);
}

static void the_disk_has_bounds(void) {
    rig_begin(&rig);
    uint64_t ids[LIMIT_BATCH], found[100];
    for (int i = 0; i < 3; i++, rig.now++)
        rig_die(&rig, &plain, LIMIT_BATCH, ids);
    struct filter *filter = rig_filter(&rig, "key:none");
    struct letter_query q = {.filter = filter, .limit = 100};
    struct letter_page page;
    CHECK(rig_page(&rig, &q, found, &page) == 0 && !page.is_complete);
    CHECK_EQ(page.looked_at, LIMIT_WALK_READS);
    q.has_after = true;
    q.after = page.next;
    CHECK(rig_page(&rig, &q, found, &page) == 0 && page.is_complete && page.is_last);
    CHECK_EQ(page.looked_at, 3 * LIMIT_BATCH - LIMIT_WALK_READS);

    /* Bytes count, too. */
    size_t bytes = 64 * 1024;
    char *payload = malloc(bytes + 1);
    memset(payload, 'p', bytes);
    payload[bytes] = '\0';
    struct rig_death big = plain;
    big.queue = "big";
    big.payload = payload;
    for (int i = 0; i < 100; i++, rig.now++)
        rig_die(&rig, &big, 1, ids);
    q = (struct letter_query){.filter = filter, .queue = span_str("big"), .limit = 100};
    CHECK(rig_page(&rig, &q, found, &page) == 0 && !page.is_complete);
    CHECK(page.looked_at >= LIMIT_WALK_BYTES / bytes - 1 &&
          page.looked_at <= LIMIT_WALK_BYTES / bytes + 1);
    free(payload);
    filter_free(filter);
    rig_end(&rig);
}

int main(void) {
    RUN(cursors_keep_their_place);
    RUN(cursors_of_any_place);
    RUN(cursors_at_the_edge_of_a_range);
    RUN(fences);
    RUN(memory_has_a_bound);
    RUN(the_disk_has_bounds);
    return check_done();
}
