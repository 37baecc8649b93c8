#include "log_rig.h"

#include "log/log_thread.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#define KIB ((size_t)1024)

static struct rig rig;

/* -- a real directory -------------------------------------------------------------------------------- */

static char folder[64];

static struct log_dir *folder_make(void) {
    snprintf(folder, sizeof folder, "/tmp/nixie-log-XXXXXX");
    struct log_dir *dir = NULL;
    if (!mkdtemp(folder) || log_dir_open(folder, &dir) < 0)
        assert(false && "no directory for the test");
    return dir;
}

static void folder_remove_file(void *arg, const char *name, int64_t size) {
    (void)size;
    log_io_posix.remove(arg, name);
}

static void folder_remove(struct log_dir *dir) {
    log_io_posix.list(dir, folder_remove_file, dir);
    log_dir_free(dir);
    CHECK(rmdir(folder) == 0);
}

/* Runs a test over both tables. */
static void over_both(void (*test)(struct rig *r)) {
    struct crash_io *d = rig_on_new_disk(&rig, 1);
    test(&rig);
    CHECK_EQ(crash_io_counts(d).open_files, 0);
    crash_io_free(d);

    struct log_dir *dir = folder_make();
    rig_init(&rig, &log_io_posix, dir, LOG_SEGMENT_BYTES_MIN);
    test(&rig);
    folder_remove(dir);
}

/* -- appending and reading ------------------------------------------------------------------------------ */

static void append_commit_reopen(struct rig *r) {
    rig_open(r);
    CHECK_EQ(r->seen, 0);
    CHECK_EQ(r->found.torn_bytes, 0);
    uint64_t begin = log_end(r->log);
    CHECK(log_durable(r->log) == begin);
    CHECK(!log_batch_take(r->log));

    rig_append(r, 1, 100);
    rig_append(r, 5, 0);
    CHECK(log_durable(r->log) == begin && log_end(r->log) > begin);
    CHECK(log_unsynced_bytes(r->log) == log_end(r->log) - begin);
    rig_commit(r);
    CHECK_EQ(log_unsynced_bytes(r->log), 0);
    rig_append(r, 2, 33);
    rig_commit(r);
    uint64_t end = log_end(r->log);
    rig_close(r);

    CHECK(rig_check(r) == OK);
    CHECK(rig_saw(r, 1, 8));
    CHECK(r->found.end == end && r->found.torn_bytes == 0 && r->found.records == 8 &&
          r->found.frames == 3);
    rig_open(r);
    CHECK(rig_saw(r, 1, 8));
    CHECK(log_end(r->log) == end && log_durable(r->log) == end);
    rig_append(r, 1, 10);
    rig_commit(r);
    rig_reopen(r);
    CHECK(rig_saw(r, 1, 9));
    rig_close(r);
}

static void append_commit_reopen_over_both(void) {
    over_both(append_commit_reopen);
}

static void what_was_not_committed_is_gone(void) {
    struct crash_io *d = rig_on_new_disk(&rig, 1);
    rig_open(&rig);
    rig_append(&rig, 1, 10);
    rig_commit(&rig);
    rig_append(&rig, 1, 10);
    rig_reopen(&rig);
    CHECK(rig_saw(&rig, 1, 1));
    rig_close(&rig);
    crash_io_free(d);
}

static void an_empty_frame_leaves_nothing(void) {
    struct crash_io *d = rig_on_new_disk(&rig, 1);
    rig_open(&rig);
    uint64_t end = log_end(rig.log);
    log_frame_begin(rig.log, 1000);
    log_frame_end(rig.log);
    CHECK(log_end(rig.log) == end);
    CHECK(!log_batch_take(rig.log));
    rig_close(&rig);
    crash_io_free(d);
}

/* Reads record `tag` by its position, however it lies. */
static bool reads_back(struct rig *r, uint64_t position, size_t data_bytes, uint64_t tag) {
    struct buf b;
    buf_init(&b, SIZE_MAX);
    struct span meta, data;
    log_record_read(r->log, position, log_record_bytes(8, data_bytes), &b, &meta, &data);
    bool ok = data.n == data_bytes && rig_is_record(meta, data) && le_get64(meta.p) == tag;
    buf_release(&b);
    return ok;
}

/* Frames of all sizes, so that chunks and segments roll; each record is read while it waits, while its batch is out, from the file, and
 * after reopening. */
static void rolls_and_reads(struct rig *r) {
    enum { FRAMES = 400 };
    static uint64_t positions[FRAMES];
    static size_t sizes[FRAMES];
    struct rng rng;
    rng_seed(&rng, 1);
    rig_open(r);
    for (size_t i = 0; i < FRAMES; i++) {
        sizes[i] = (size_t)rng_below(&rng, rng_below(&rng, 8) == 0 ? 200 * KIB : 600);
        positions[i] = rig_append(r, 1, sizes[i]);
        CHECK(i == 0 || positions[i] > positions[i - 1]);
        CHECK(reads_back(r, positions[i], sizes[i], i + 1));
        if (rng_below(&rng, 10) == 0) {
            CHECK(log_batch_take(r->log));
            CHECK(!log_batch_take(r->log));
            uint64_t taken = log_end(r->log);
            CHECK(reads_back(r, positions[i], sizes[i], i + 1));
            CHECK(log_batch_write(r->log) == OK);
            CHECK(reads_back(r, positions[i], sizes[i], i + 1));
            log_batch_done(r->log);
            CHECK(log_durable(r->log) == taken);
            CHECK(reads_back(r, positions[i], sizes[i], i + 1));
        }
    }
    rig_commit(r);
    CHECK(log_stats(r->log).segments_made > 10);
    CHECK_EQ(log_stats(r->log).frames, FRAMES);
    rig_reopen(r);
    CHECK(rig_saw(r, 1, FRAMES));
    for (size_t i = 0; i < FRAMES; i++) {
        CHECK(r->positions[i] == positions[i]);
        CHECK(r->bytes[i] == log_record_bytes(8, sizes[i]));
        CHECK(reads_back(r, positions[i], sizes[i], i + 1));
    }
    rig_close(r);
}

static void rolls_and_reads_over_both(void) {
    over_both(rolls_and_reads);
}

static void a_frame_may_fill_a_segment(void) {
    struct crash_io *d = rig_on_new_disk(&rig, 1);
    rig_open(&rig);
    size_t most = log_frame_bytes_max(rig.log) - log_record_bytes(8, 0);
    for (int i = 0; i < 3; i++) {
        uint64_t position = rig_append(&rig, 1, most);
        CHECK(reads_back(&rig, position, most, rig.next_tag - 1));
    }
    rig_append(&rig, 1, 8);
    rig_commit(&rig);
    rig_reopen(&rig);
    CHECK(rig_saw(&rig, 1, 4));
    CHECK_EQ(rig.found.last_segment - rig.found.first_segment, 3);
    rig_close(&rig);
    crash_io_free(d);
}

static void the_directory_keeps_its_segment_size(void) {
    struct crash_io *d = rig_on_new_disk(&rig, 1);
    rig_open(&rig);
    rig_append(&rig, 1, 8);
    rig_commit(&rig);
    rig_close(&rig);
    rig.config.segment_bytes = 4 * LOG_SEGMENT_BYTES_MIN;
    rig_open(&rig);
    CHECK(rig_saw(&rig, 1, 1));
    CHECK(log_frame_bytes_max(rig.log) < LOG_SEGMENT_BYTES_MIN);
    rig_close(&rig);
    crash_io_free(d);
}

/* -- opening -------------------------------------------------------------------------------------------------- */

static void a_second_server_is_refused(void) {
    struct log_dir *dir = folder_make(), *again = NULL;
    rig_init(&rig, &log_io_posix, dir, LOG_SEGMENT_BYTES_MIN);
    rig_open(&rig);
    rig_append(&rig, 1, 8);
    rig_commit(&rig);

    static struct rig second;
    CHECK(log_dir_open(folder, &again) == 0);
    rig_init(&second, &log_io_posix, again, LOG_SEGMENT_BYTES_MIN);
    CHECK(rig_try_open(&second) == ERR_LOCKED);
    CHECK(strlen(second.trouble.text) > 0);
    CHECK(rig_check(&second) == OK); /* looking is allowed */
    CHECK(rig_saw(&second, 1, 1));

    rig_close(&rig);
    rig_open(&second);
    CHECK(rig_saw(&second, 1, 1));
    rig_close(&second);
    log_dir_free(again);
    folder_remove(dir);
}

static void a_reader_that_refuses_is_named(void) {
    struct crash_io *d = rig_on_new_disk(&rig, 1);
    rig_open(&rig);
    rig_append(&rig, 1, 8);
    rig_commit(&rig);
    rig_close(&rig);
    rig.refuse = true;
    CHECK(rig_try_open(&rig) == ERR_CORRUPT);
    CHECK(strstr(rig.trouble.text, "segment-0000000000000001, offset 64:"));
    CHECK(rig_check(&rig) == ERR_CORRUPT);
    CHECK_EQ(crash_io_counts(d).open_files, 0);
    crash_io_free(d);
}

/* The process may end in the middle of the first start, with any part of it on disk. */
static void a_first_start_can_be_cut_anywhere(void) {
    for (unsigned n = 1; n < 20; n++)
        for (uint64_t seed = 0; seed < 40; seed++) {
            struct crash_io *d = rig_on_new_disk(&rig, seed);
            crash_io_die_in(d, n);
            if (rig_try_open(&rig) == OK)
                rig_close(&rig);
            crash_io_restart(d, seed & 1);
            rig_open(&rig);
            CHECK_EQ(rig.seen, 0);
            rig_append(&rig, 1, 8);
            rig_commit(&rig);
            rig_close(&rig);
            crash_io_free(d);
        }
}

/* Every io error while opening is an answer, not a crash, and leaves a directory that opens. */
static void io_errors_while_opening(void) {
    struct crash_io *base = rig_on_new_disk(&rig, 1);
    rig_open(&rig);
    for (int i = 0; i < 40; i++) {
        rig_append(&rig, 1, 20 * KIB);
        rig_commit(&rig);
    }
    rig_close(&rig);
    const unsigned calls[] = {CRASH_READ,     CRASH_OPEN,   CRASH_WRITE,  CRASH_SYNC,
                              CRASH_SYNC_DIR, CRASH_CREATE, CRASH_REMOVE, CRASH_LIST};
    int refused = 0;
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++)
        for (unsigned after = 0; after < 60; after++) {
            struct crash_io *d = crash_io_copy(base);
            rig.config.io_ctx = d;
            crash_io_fail(d, calls[c], after, 1, EIO);
            enum err e = rig_try_open(&rig);
            CHECK(e == OK || (e == ERR_IO && strlen(rig.trouble.text) > 0));
            refused += e != OK;
            rig_close(&rig);
            CHECK_EQ(crash_io_counts(d).open_files, 0);
            crash_io_fail(d, 0, 0, 0, 0);
            rig_open(&rig);
            CHECK(rig_saw(&rig, 1, 40));
            rig_close(&rig);
            crash_io_free(d);
        }
    CHECK(refused > 20);
    crash_io_free(base);
}

/* After big data that is known to be durable, opening reads on without it. */
static void big_data_is_not_read_at_start(void) {
    enum { BIG = 30, BIG_BYTES = 1000 * 1000 };
    struct crash_io *d = rig_on_new_disk(&rig, 1);
    rig.config.segment_bytes = 4 << 20;
    rig_open(&rig);
    for (int i = 0; i < BIG; i++) {
        rig_append(&rig, 1, BIG_BYTES);
        rig_append(&rig, 3, 100);
        rig_commit(&rig);
    }
    rig_close(&rig);
    uint64_t before = crash_io_counts(d).bytes_read;
    rig_open(&rig);
    uint64_t read = crash_io_counts(d).bytes_read - before;
    CHECK(rig_saw(&rig, 1, BIG * 4));
    CHECK(rig.unread >= BIG * 2 / 3);
    /* Only what stands in the newest segment, and what is read ahead. */
    CHECK(read < BIG * BIG_BYTES / 3);
    for (size_t i = 0; i < rig.seen; i++)
        CHECK(reads_back(&rig, rig.positions[i], i % 4 == 0 ? BIG_BYTES : 100, i + 1));
    rig_close(&rig);

    before = crash_io_counts(d).bytes_read;
    CHECK(rig_check(&rig) == OK);
    CHECK_EQ(rig.unread, 0);
    CHECK(crash_io_counts(d).bytes_read - before > BIG * BIG_BYTES);
    crash_io_free(d);
}

/* -- marks ---------------------------------------------------------------------------------------------------------- */

static void a_mark_covers_the_last_data(void) {
    struct crash_io *d = rig_on_new_disk(&rig, 1);
    rig_open(&rig);
    log_mark(rig.log); /* nothing to cover */
    CHECK(!log_batch_take(rig.log));
    uint64_t position = rig_append(&rig, 1, 8);
    rig_commit(&rig);
    log_mark(rig.log);
    rig_commit(&rig);
    uint64_t end = log_end(rig.log);
    log_mark(rig.log);
    CHECK(log_end(rig.log) == end);
    rig_reopen(&rig);
    CHECK(rig_saw(&rig, 1, 1));
    CHECK_EQ(rig.found.records, 1);
    CHECK(log_end(rig.log) == end);
    rig_close(&rig);

    const uint8_t bad = 0xff;
    crash_io_poke(d, rig_segment(1), (int64_t)(position % LOG_SEGMENT_BYTES_MIN) + 41, &bad, 1);
    CHECK(rig_try_open(&rig) == ERR_CORRUPT);
    CHECK(strstr(rig.trouble.text, "segment-0000000000000001, offset 64"));
    crash_io_free(d);
}

/* -- a full disk ------------------------------------------------------------------------------------------------------ */

static size_t append_while_there_is_room(enum log_use use, size_t data_bytes) {
    size_t n = 0;
    while (log_has_room(rig.log, use, log_record_bytes(8, data_bytes)) && n < 10000) {
        rig_append(&rig, 1, data_bytes);
        rig_commit(&rig);
        n++;
    }
    CHECK(n < 10000);
    return n;
}

/* Each use stops before the next, and what was appended with leave can be written. */
static void room_ends_by_use(void) {
    CHECK(append_while_there_is_room(LOG_USE_ACCEPT, 1000) > 100);
    CHECK(log_stats(rig.log).full);
    CHECK(log_has_room(rig.log, LOG_USE_SETTLE, 2000));
    CHECK(append_while_there_is_room(LOG_USE_SETTLE, 1000) > 100);
    CHECK(!log_has_room(rig.log, LOG_USE_ACCEPT, 8));
    CHECK(log_has_room(rig.log, LOG_USE_CLEAN, 2000));
    CHECK(append_while_there_is_room(LOG_USE_CLEAN, 1000) > 30);
    CHECK(!log_has_room(rig.log, LOG_USE_SETTLE, 8));
}

static void full_by_limit_and_back(void) {
    struct crash_io *d = rig_on_new_disk(&rig, 1);
    rig.config.bytes_max = 6 * LOG_SEGMENT_BYTES_MIN;
    rig_open(&rig);
    room_ends_by_use();
    CHECK(crash_io_counts(d).bytes <= rig.config.bytes_max);
    uint64_t last = rig.next_tag - 1;
    rig_reopen(&rig); /* nothing acknowledged is lost, and it is still full */
    CHECK(rig_saw(&rig, 1, last));
    CHECK(!log_has_room(rig.log, LOG_USE_ACCEPT, 8));

    /* Room by cleaning: three segments go. */
    for (int i = 0; i < 3; i++) {
        log_clean_drop(rig.log);
        log_look_for_room(rig.log);
        rig_commit(&rig);
        CHECK(log_batch_take(rig.log) == false);
    }
    CHECK(log_has_room(rig.log, LOG_USE_ACCEPT, 1000));
    CHECK(append_while_there_is_room(LOG_USE_ACCEPT, 1000) > 10);
    rig_close(&rig);
    crash_io_free(d);
}

static void full_disk_and_back(void) {
    struct crash_io *d = rig_on_new_disk(&rig, 1);
    crash_io_capacity(d, 5 * LOG_SEGMENT_BYTES_MIN + 1000);
    rig_open(&rig);
    room_ends_by_use();
    CHECK(!log_batch_take(rig.log));
    log_look_for_room(rig.log); /* in vain */
    CHECK(log_batch_take(rig.log));
    CHECK(log_batch_write(rig.log) == OK);
    log_batch_done(rig.log);
    CHECK(!log_has_room(rig.log, LOG_USE_SETTLE, 8));

    crash_io_capacity(d, 0);
    log_look_for_room(rig.log);
    CHECK(log_batch_take(rig.log));
    CHECK(log_batch_write(rig.log) == OK);
    log_batch_done(rig.log);
    CHECK(!log_stats(rig.log).full);
    CHECK(log_has_room(rig.log, LOG_USE_ACCEPT, 100 * KIB));
    uint64_t last = rig.next_tag - 1;
    rig_reopen(&rig);
    CHECK(rig_saw(&rig, 1, last));
    rig_close(&rig);
    crash_io_free(d);
}

/* A batch that does not fit waits, whole and in order, until there is room. */
static void a_batch_waits_for_room(void) {
    struct crash_io *d = rig_on_new_disk(&rig, 1);
    rig_open(&rig);
    crash_io_capacity(d, 3 * LOG_SEGMENT_BYTES_MIN);
    for (int i = 0; i < 6; i++)
        rig_append(&rig, 1, 150 * KIB);
    uint64_t durable = log_durable(rig.log);
    CHECK(log_batch_take(rig.log));
    for (int i = 0; i < 3; i++) {
        CHECK(log_batch_write(rig.log) == ERR_DISK_FULL);
        CHECK(log_durable(rig.log) == durable);
        CHECK(log_stats(rig.log).full);
    }
    crash_io_capacity(d, 0);
    CHECK(log_batch_write(rig.log) == OK);
    log_batch_done(rig.log);
    CHECK(log_durable(rig.log) == log_end(rig.log));
    rig_reopen(&rig);
    CHECK(rig_saw(&rig, 1, 6));
    rig_close(&rig);
    crash_io_free(d);
}

/* -- a failing disk ------------------------------------------------------------------------------------------------------- */

static void a_failing_disk_is_told_from_a_full_one(void) {
    const unsigned calls[] = {CRASH_WRITE, CRASH_SYNC, CRASH_SYNC_DIR, CRASH_RENAME, CRASH_CREATE};
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
        struct crash_io *d = rig_on_new_disk(&rig, c);
        rig_open(&rig);
        rig_append(&rig, 1, 8);
        rig_commit(&rig);
        uint64_t durable = log_durable(rig.log);
        for (int i = 0; i < 3; i++)
            rig_append(&rig, 1, 200 * KIB);
        crash_io_fail(d, calls[c], 0, 1, EIO);
        errno = 0;
        CHECK(rig_try_commit(&rig) == ERR_IO);
        CHECK_EQ(errno, EIO);
        CHECK(log_durable(rig.log) == durable);
        rig_close(&rig);
        crash_io_restart(d, true);
        rig_open(&rig); /* what was acknowledged is there */
        CHECK(rig.seen >= 1 && rig_saw(&rig, 1, rig.seen));
        rig_close(&rig);
        CHECK_EQ(crash_io_counts(d).open_files, 0);
        crash_io_free(d);
    }
}

/* After a failed sync the kernel may hold lost data for clean. What the next process shows must survive the next loss of power. */
static void a_failed_sync_is_not_built_upon(void) {
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct crash_io *d = rig_on_new_disk(&rig, seed);
        rig_open(&rig);
        for (int i = 0; i < 5; i++)
            rig_append(&rig, 1, 700);
        crash_io_fail(d, CRASH_SYNC, 0, 1, EIO);
        CHECK(rig_try_commit(&rig) == ERR_IO);
        rig_close(&rig);
        crash_io_restart(d, false);
        rig_open(&rig);
        size_t seen = rig.seen;
        rig.next_tag = seen + 1;
        rig_append(&rig, 1, 700);
        rig_commit(&rig);
        rig_close(&rig);
        crash_io_restart(d, true);
        rig_open(&rig);
        CHECK(rig_saw(&rig, 1, seen + 1));
        rig_close(&rig);
        crash_io_free(d);
    }
}

/* -- cleaning ------------------------------------------------------------------------------------------------------------------- */

static void cleaning_reads_the_oldest_in_pieces(struct rig *r) {
    rig_open(r);
    CHECK(!log_can_clean(r->log));
    while (log_stats(r->log).segments_made < 3) {
        rig_append(r, 2, 5000);
        rig_commit(r);
    }
    CHECK(log_can_clean(r->log));
    uint64_t first = log_oldest(r->log), last_tag = r->next_tag - 1;
    CHECK(log_bytes(r->log) > 3 * LOG_SEGMENT_BYTES_MIN);
    size_t calls = 1;
    struct log_reader reader = rig_reader(r);
    while (!log_clean_read(r->log, 20 * KIB, &reader))
        calls++;
    CHECK(calls > 5 && calls < 20);
    CHECK(r->seen > 40 && rig_saw(r, 1, r->seen));
    size_t carried = r->seen;

    rig_append(r, 1, 100); /* stands for what is carried */
    log_clean_drop(r->log);
    CHECK(log_oldest(r->log) == first + 1);
    rig_commit(r);
    CHECK_EQ(log_stats(r->log).segments_removed, 0); /* only now durable: */
    rig_commit(r);
    CHECK_EQ(log_stats(r->log).segments_removed, 1);
    rig_reopen(r);
    CHECK(r->found.first_segment == first + 1);
    CHECK(rig_saw(r, carried + 1, last_tag + 1));

    reader = rig_reader(r); /* the next one begins at its begin */
    CHECK(!log_clean_read(r->log, 1, &reader));
    CHECK(r->seen > 0 && r->tags[0] == carried + 1);
    rig_close(r);
}

static void cleaning_over_both(void) {
    over_both(cleaning_reads_the_oldest_in_pieces);
}

/* Power may go anywhere around a drop: what was carried, or what it was carried from, is there. */
static void a_dropped_segment_stays_until_its_successor_is_durable(void) {
    for (unsigned n = 1; n < 12; n++)
        for (uint64_t seed = 0; seed < 60; seed++) {
            struct crash_io *d = rig_on_new_disk(&rig, seed);
            rig_open(&rig);
            while (log_stats(rig.log).segments_made < 2) {
                rig_append(&rig, 1, 30000);
                rig_commit(&rig);
            }
            uint64_t before = rig.next_tag;
            rig_append(&rig, 1, 30000); /* "carried" */
            log_clean_drop(rig.log);
            crash_io_die_in(d, n);
            enum err e = rig_try_commit(&rig);
            if (e == OK)
                e = rig_try_commit(&rig);
            bool is_dead = crash_io_is_dead(d);
            CHECK(e == OK ? !is_dead : is_dead);
            rig_close(&rig);
            crash_io_restart(d, true);
            rig_open(&rig);
            CHECK(rig.seen > 0);
            bool has_old = rig.tags[0] == 1, has_carried = rig.tags[rig.seen - 1] == before;
            CHECK(has_old || has_carried);
            CHECK(is_dead || (!has_old && has_carried));
            rig_close(&rig);
            crash_io_free(d);
        }
}

/* -- the thread --------------------------------------------------------------------------------------------------------------------- */

static void wake(void *ctx) {
    const int *pipes = ctx;
    CHECK(write(pipes[1], "x", 1) == 1);
}

static void wait_for_wake(const int *pipes) {
    char c;
    struct pollfd p = {.fd = pipes[0], .events = POLLIN};
    CHECK(poll(&p, 1, 20000) == 1);
    CHECK(read(pipes[0], &c, 1) == 1);
}

static void the_thread_commits(void) {
    int pipes[2];
    if (pipe(pipes) != 0)
        assert(false && "no pipe");
    struct log_dir *dir = folder_make();
    rig_init(&rig, &log_io_posix, dir, LOG_SEGMENT_BYTES_MIN);
    rig_open(&rig);
    struct log_thread *t = log_thread_new(rig.log, wake, pipes);
    CHECK(log_thread_collect(t) == COLLECTED_NOTHING);
    log_thread_push(t);
    for (int i = 0; i < 300; i++) {
        rig_append(&rig, 1, 3000);
        log_thread_push(t);
        if (i % 3 == 0) {
            wait_for_wake(pipes);
            CHECK(log_thread_collect(t) == COLLECTED_BATCH);
            log_thread_push(t);
        }
    }
    while (log_durable(rig.log) < log_end(rig.log)) {
        log_thread_push(t);
        wait_for_wake(pipes);
        CHECK(log_thread_collect(t) == COLLECTED_BATCH);
    }
    log_thread_free(t);
    rig_reopen(&rig);
    CHECK(rig_saw(&rig, 1, 300));
    rig_close(&rig);
    folder_remove(dir);
    close(pipes[0]);
    close(pipes[1]);
}

static void the_thread_says_full_and_failed(void) {
    int pipes[2];
    if (pipe(pipes) != 0)
        assert(false && "no pipe");
    struct crash_io *d = rig_on_new_disk(&rig, 1);
    rig_open(&rig);
    struct log_thread *t = log_thread_new(rig.log, wake, pipes);
    crash_io_fail(d, CRASH_CREATE | CRASH_RENAME, 0, 2, ENOSPC);
    for (int i = 0; i < 4; i++)
        rig_append(&rig, 1, 200 * KIB);
    log_thread_push(t);
    wait_for_wake(pipes);
    CHECK(log_thread_collect(t) == COLLECTED_FULL);
    wait_for_wake(pipes); /* it tried again by itself */
    CHECK(log_thread_collect(t) == COLLECTED_BATCH);

    /* More than one: the thread may be zeroing a spare, where a failure does not count. */
    crash_io_fail(d, CRASH_SYNC, 0, 1000000, EIO);
    rig_append(&rig, 1, 8);
    log_thread_push(t);
    wait_for_wake(pipes);
    CHECK(log_thread_collect(t) == COLLECTED_FAILED);
    CHECK_EQ(errno, EIO);
    log_thread_free(t);
    rig_close(&rig);
    crash_io_free(d);
    close(pipes[0]);
    close(pipes[1]);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0); /* what led to an assert must be seen */
    RUN(append_commit_reopen_over_both);
    RUN(what_was_not_committed_is_gone);
    RUN(an_empty_frame_leaves_nothing);
    RUN(rolls_and_reads_over_both);
    RUN(a_frame_may_fill_a_segment);
    RUN(the_directory_keeps_its_segment_size);
    RUN(a_second_server_is_refused);
    RUN(a_reader_that_refuses_is_named);
    RUN(a_first_start_can_be_cut_anywhere);
    RUN(io_errors_while_opening);
    RUN(big_data_is_not_read_at_start);
    RUN(a_mark_covers_the_last_data);
    RUN(full_by_limit_and_back);
    RUN(full_disk_and_back);
    RUN(a_batch_waits_for_room);
    RUN(a_failing_disk_is_told_from_a_full_one);
    RUN(a_failed_sync_is_not_built_upon);
    RUN(cleaning_over_both);
    RUN(a_dropped_segment_stays_until_its_successor_is_durable);
    RUN(the_thread_commits);
    RUN(the_thread_says_full_and_failed);
    return check_done();
}
