/* What the log makes of files that are not as it left them: a torn tail is cut and reported, everything else is named and refused. */
#include "log_rig.h"

#include "log/format.h"

#define SEGMENT LOG_SEGMENT_BYTES_MIN

static struct rig rig;

static int64_t offset_in_segment(uint64_t position) {
    return (int64_t)(position % SEGMENT);
}

/* Opens a disk; closes what opened. */
static enum err open_once(struct crash_io *d) {
    rig.config.io_ctx = d;
    enum err e = rig_try_open(&rig);
    rig_close(&rig);
    return e;
}

/* -- torn tails --------------------------------------------------------------------------------------- */

#define TAIL_FRAMES 5
static uint64_t
    tail_ends[TAIL_FRAMES + 1]; /* where each frame of the last batch begins, and their end */
static uint64_t tail_first_tag;

/* Two committed batches, then one whose frames the tests tear. */
static struct crash_io *torn_base(void) {
    struct crash_io *d = rig_on_new_disk(&rig, 1);
    rig_open(&rig);
    for (int i = 0; i < 2; i++) {
        rig_append(&rig, 2, 50);
        rig_commit(&rig);
    }
    tail_first_tag = rig.next_tag;
    for (size_t i = 0; i < TAIL_FRAMES; i++) {
        tail_ends[i] = log_end(rig.log);
        rig_append(&rig, 1, i * 17);
    }
    tail_ends[TAIL_FRAMES] = log_end(rig.log);
    rig_commit(&rig);
    rig_close(&rig);
    for (unsigned long long serial = 0; serial < 10; serial++) {
        char name[48];
        snprintf(name, sizeof name, "spare-%016llu", serial);
        crash_io_unlink(d, name);
    }
    return d;
}

/* Frames of the last batch that end at or before `position`. */
static uint64_t whole_frames(uint64_t position) {
    uint64_t n = 0;
    while (n < TAIL_FRAMES && tail_ends[n + 1] <= position)
        n++;
    return n;
}

/* Opens the torn disk: all before the tear is there, and the log goes on from there. */
static void check_torn(struct crash_io *d, uint64_t torn_at, uint64_t nonzero_end) {
    rig.config.io_ctx = d;
    uint64_t kept = whole_frames(torn_at), last = tail_first_tag + kept - 1;
    uint64_t end = tail_ends[kept];
    CHECK(rig_check(&rig) == OK);
    CHECK(rig_saw(&rig, 1, last));
    uint64_t torn_bytes = rig.found.torn_bytes;

    rig_open(&rig);
    CHECK(rig_saw(&rig, 1, last));
    CHECK(rig.found.end == end && log_end(rig.log) == end);
    CHECK(rig.found.torn_bytes == torn_bytes);
    if (nonzero_end > end) {
        CHECK(rig.found.torn_position == end);
        CHECK(torn_bytes >= nonzero_end - end && torn_bytes < nonzero_end - end + 8);
    } else {
        CHECK_EQ(torn_bytes, 0);
    }
    rig.next_tag = last + 1;
    rig_append(&rig, 1, 3);
    rig_commit(&rig);
    rig_reopen(&rig);
    CHECK(rig_saw(&rig, 1, last + 1));
    CHECK_EQ(rig.found.torn_bytes, 0);
    rig_close(&rig);
}

/* The position after the last byte from `from` on that is not zero. */
static uint64_t nonzero_end(const struct crash_io *d, uint64_t from) {
    int64_t size;
    const uint8_t *p = crash_io_bytes(d, rig_segment(1), &size);
    uint64_t end = from;
    for (uint64_t at = from; at < (uint64_t)size + SEGMENT; at++)
        if (p[at - SEGMENT])
            end = at + 1;
    return end;
}

/* The tail ends at any byte, with zeros behind it, as when later sectors were never written. */
static void a_tail_cut_at_every_byte(void) {
    struct crash_io *base = torn_base();
    static const uint8_t zeros[2048];
    for (uint64_t at = tail_ends[0]; at < tail_ends[TAIL_FRAMES]; at++) {
        struct crash_io *d = crash_io_copy(base);
        crash_io_poke(d, rig_segment(1), offset_in_segment(at), zeros,
                      (size_t)(tail_ends[TAIL_FRAMES] - at));
        /* Cutting zeros changes nothing. */
        int64_t size;
        const uint8_t *was = crash_io_bytes(base, rig_segment(1), &size);
        uint64_t changed = at;
        while (changed < tail_ends[TAIL_FRAMES] && was[offset_in_segment(changed)] == 0)
            changed++;
        check_torn(d, changed, nonzero_end(d, tail_ends[whole_frames(changed)]));
        crash_io_free(d);
    }
    crash_io_free(base);
}

/* One byte of it is another: the frame it is in, and all behind it, is cut. */
static void a_tail_with_one_bad_byte(void) {
    struct crash_io *base = torn_base();
    for (uint64_t at = tail_ends[0]; at < tail_ends[TAIL_FRAMES]; at++) {
        struct crash_io *d = crash_io_copy(base);
        int64_t size;
        uint8_t c = crash_io_bytes(base, rig_segment(1), &size)[offset_in_segment(at)];
        c = c ? 0 : 0xa5;
        crash_io_poke(d, rig_segment(1), offset_in_segment(at), &c, 1);
        check_torn(d, at, nonzero_end(d, tail_ends[whole_frames(at)]));
        crash_io_free(d);
    }
    crash_io_free(base);
}

/* From any byte on there is garbage, within the tail and far behind it. */
static void a_tail_of_garbage_at_every_byte(void) {
    struct crash_io *base = torn_base();
    struct rng rng;
    rng_seed(&rng, 1);
    static uint8_t garbage[40000];
    for (size_t i = 0; i < sizeof garbage; i++)
        garbage[i] = (uint8_t)(1 + rng_below(&rng, 255));
    for (uint64_t at = tail_ends[0]; at <= tail_ends[TAIL_FRAMES]; at++) {
        struct crash_io *d = crash_io_copy(base);
        size_t n = 1 + (size_t)rng_below(&rng, sizeof garbage);
        int64_t size;
        const uint8_t *was = crash_io_bytes(base, rig_segment(1), &size);
        uint64_t changed = at;
        while (changed < at + n && was[offset_in_segment(changed)] == garbage[changed - at])
            changed++;
        crash_io_poke(d, rig_segment(1), offset_in_segment(at), garbage, n);
        check_torn(d, changed, nonzero_end(d, tail_ends[whole_frames(changed)]));
        crash_io_free(d);
    }
    crash_io_free(base);
}

/* The batch made new segments; any of what it wrote may be missing. */
static void a_torn_batch_over_segments(void) {
    for (uint64_t seed = 0; seed < 300; seed++) {
        struct crash_io *d = rig_on_new_disk(&rig, seed);
        rig_open(&rig);
        rig_append(&rig, 3, 1000);
        rig_commit(&rig);
        for (int i = 0; i < 12; i++)
            rig_append(&rig, 1, 60000);
        crash_io_die_in(d, 1 + (unsigned)(seed % 13));
        bool written = rig_try_commit(&rig) == OK;
        rig_close(&rig);
        crash_io_restart(d, true);
        rig_open(&rig);
        CHECK(rig.seen >= 3 && rig_saw(&rig, 1, rig.seen));
        CHECK(!written || rig.seen == 15);
        rig.next_tag = rig.seen + 1;
        size_t before = rig.seen;
        for (int i = 0; i < 12; i++)
            rig_append(&rig, 1, 60000);
        rig_commit(&rig);
        rig_reopen(&rig);
        CHECK(rig_saw(&rig, 1, before + 12));
        CHECK_EQ(rig.found.torn_bytes, 0);
        rig_close(&rig);
        crash_io_free(d);
    }
}

/* -- damage ------------------------------------------------------------------------------------------------ */

static uint64_t damage_durable;

/* Three segments of small and big records; the last frame is a mark, so that all before it is known to be durable. */
static struct crash_io *damage_base(void) {
    struct crash_io *d = rig_on_new_disk(&rig, 1);
    rig_open(&rig);
    for (int i = 0; log_stats(rig.log).segments_made < 2 || i % 20; i++) {
        rig_append(&rig, 1 + (size_t)(i % 3), i % 25 == 24 ? 70000 : 100 + (size_t)(i % 50) * 40);
        rig_commit(&rig);
    }
    log_mark(rig.log);
    rig_commit(&rig);
    damage_durable = log_durable(rig.log) - FRAME_HEADER_BYTES;
    rig_close(&rig);
    return d;
}

/* The frame of segment `number` that holds `offset`; false when none does (what is behind the end frame). */
static bool frame_holds(const struct crash_io *d, uint64_t number, int64_t offset,
                        int64_t *ret_begin) {
    int64_t size, at = SEGMENT_HEADER_BYTES;
    const uint8_t *p = crash_io_bytes(d, rig_segment(number), &size);
    for (;;) {
        struct frame_header h = frame_header_get(p + at);
        int64_t next = at + FRAME_HEADER_BYTES + h.body_bytes;
        *ret_begin = at;
        if (offset < next)
            return offset >= at;
        if (h.kind == FRAME_END || h.kind == 0)
            return false;
        at = next;
    }
}

static bool names(const char *text, uint64_t number, int64_t offset) {
    char want[96];
    snprintf(want, sizeof want, "%s, offset %lld:", rig_segment(number), (long long)offset);
    return strstr(text, want) != NULL;
}

static void a_flipped_bit_is_named(void) {
    struct crash_io *base = damage_base();
    struct rng rng;
    rng_seed(&rng, 7);
    int flips = 0, unread = 0;
    while (flips < 1500) {
        uint64_t number = 1 + rng_below(&rng, damage_durable / SEGMENT);
        int64_t offset =
                    SEGMENT_HEADER_BYTES + (int64_t)rng_below(&rng, SEGMENT - SEGMENT_HEADER_BYTES),
                begin;
        if (number * SEGMENT + (uint64_t)offset >= damage_durable ||
            !frame_holds(base, number, offset, &begin))
            continue;
        flips++;
        struct crash_io *d = crash_io_copy(base);
        int64_t size;
        uint8_t c = crash_io_bytes(d, rig_segment(number), &size)[offset];
        c ^= (uint8_t)(1U << rng_below(&rng, 8));
        crash_io_poke(d, rig_segment(number), offset, &c, 1);

        rig.config.io_ctx = d;
        CHECK(rig_check(&rig) == ERR_CORRUPT);
        CHECK(names(rig.trouble.text, number, begin));
        enum err e = open_once(d);
        if (e == OK) /* big data is not read at the start, but when it is needed */
            unread++;
        else
            CHECK(e == ERR_CORRUPT && names(rig.trouble.text, number, begin));
        CHECK(e != OK || (rig.unread > 0 && number < damage_durable / SEGMENT));
        CHECK_EQ(crash_io_counts(d).open_files, 0);
        crash_io_free(d);
    }
    CHECK(unread > 50 && unread < flips / 2);
    crash_io_free(base);
}

/* A refused directory is left as it is: the same answer the second time. */
static void refusing_changes_nothing(void) {
    struct crash_io *d = damage_base();
    const uint8_t bad = 0x77;
    int64_t begin, size;
    CHECK(frame_holds(d, 2, 5000, &begin));
    crash_io_poke(d, rig_segment(2), begin + 16, &bad, 1);
    struct crash_io *before = crash_io_copy(d);
    for (int i = 0; i < 3; i++) {
        CHECK(open_once(d) == ERR_CORRUPT);
        CHECK(names(rig.trouble.text, 2, begin));
    }
    for (uint64_t n = 1; n <= damage_durable / SEGMENT; n++) {
        const uint8_t *a = crash_io_bytes(d, rig_segment(n), &size);
        const uint8_t *b = crash_io_bytes(before, rig_segment(n), &size);
        CHECK(a && b && memcmp(a, b, (size_t)size) == 0);
    }
    crash_io_free(before);
    crash_io_free(d);
}

static void every_bit_of_every_segment_header(void) {
    struct crash_io *base = damage_base();
    for (uint64_t number = 1; number <= 3; number++)
        for (int bit = 0; bit < SEGMENT_HEADER_BYTES * 8; bit++) {
            struct crash_io *d = crash_io_copy(base);
            int64_t size;
            uint8_t c = crash_io_bytes(d, rig_segment(number), &size)[bit / 8];
            c ^= (uint8_t)(1U << bit % 8);
            crash_io_poke(d, rig_segment(number), bit / 8, &c, 1);
            enum err e = open_once(d);
            CHECK(e == ERR_CORRUPT || (e == ERR_VERSION && bit / 8 >= 8 && bit / 8 < 12));
            CHECK(strstr(rig.trouble.text, rig_segment(number)));
            rig.config.io_ctx = d;
            CHECK(rig_check(&rig) == e);
            crash_io_free(d);
        }
    crash_io_free(base);
}

/* Its only segment: losing it would be losing everything, silently. */
static void the_only_segment_is_never_dropped(void) {
    struct crash_io *d = rig_on_new_disk(&rig, 1);
    rig_open(&rig);
    rig_append(&rig, 1, 100);
    rig_commit(&rig);
    rig_close(&rig);
    const uint8_t bad = 0xff;
    crash_io_poke(d, rig_segment(1), 20, &bad, 1);
    CHECK(open_once(d) == ERR_CORRUPT);
    CHECK(names(rig.trouble.text, 1, 0));
    crash_io_free(d);
}

static void a_newer_format_is_refused(void) {
    struct crash_io *d = damage_base();
    uint8_t version[4];
    le_put32(version, LOG_FORMAT_VERSION + 1);
    crash_io_poke(d, rig_segment(1), 8, version, sizeof version);
    CHECK(open_once(d) == ERR_VERSION);
    CHECK(strstr(rig.trouble.text, "newer"));
    crash_io_free(d);
}

static void a_missing_segment_is_named(void) {
    struct crash_io *d = damage_base();
    crash_io_unlink(d, rig_segment(2));
    CHECK(open_once(d) == ERR_CORRUPT);
    CHECK(strstr(rig.trouble.text, "segment-0000000000000002 is missing"));
    CHECK(rig_check(&rig) == ERR_CORRUPT);
    crash_io_free(d);
}

static void a_short_file_is_named(void) {
    struct crash_io *base = damage_base();
    for (uint64_t number = 1; number <= 3; number++)
        for (int64_t size = 0; size < SEGMENT; size = size * 3 + 1) {
            struct crash_io *d = crash_io_copy(base);
            crash_io_resize(d, rig_segment(number), size);
            CHECK(open_once(d) == ERR_CORRUPT);
            CHECK(strstr(rig.trouble.text, rig_segment(number)));
            CHECK(strstr(rig.trouble.text, "cut short"));
            rig.config.io_ctx = d;
            CHECK(rig_check(&rig) == ERR_CORRUPT);
            crash_io_free(d);
        }
    crash_io_free(base);
}

/* What the log did not put there is left alone. */
static void strange_files_do_not_matter(void) {
    struct crash_io *d = damage_base();
    const char *const strange[] = {"segment-1",  "segment-0000000000000002.bak", "spare-x",
                                   "core",       "segment-000000000000000x",     "lost+found",
                                   "segment--1", "segment-00000000000000002"};
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++)
        crash_io_poke(d, strange[i], 0, "x", 1);
    CHECK(open_once(d) == OK);
    int64_t size;
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++)
        CHECK(crash_io_bytes(d, strange[i], &size));
    crash_io_free(d);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0); /* what led to an assert must be seen */
    RUN(a_tail_cut_at_every_byte);
    RUN(a_tail_with_one_bad_byte);
    RUN(a_tail_of_garbage_at_every_byte);
    RUN(a_torn_batch_over_segments);
    RUN(a_flipped_bit_is_named);
    RUN(refusing_changes_nothing);
    RUN(every_bit_of_every_segment_header);
    RUN(the_only_segment_is_never_dropped);
    RUN(a_newer_format_is_refused);
    RUN(a_missing_segment_is_named);
    RUN(a_short_file_is_named);
    RUN(strange_files_do_not_matter);
    return check_done();
}
