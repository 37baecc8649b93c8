/* Opening a directory: finding the segments, reading every frame, telling a torn tail from
 * corruption (L3, L4, L5), repairing the tail. */
#include "log/log_int.h"
#include "log/scan.h"

#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct opening {
    struct log *log;
    bool repair; /* false: log_check, which changes nothing */
    const struct log_reader *reader;
    struct log_findings *findings;
    struct log_trouble *trouble;
    struct window window;
    struct segments spares; /* serials; no handles */
    uint64_t durable_max;
};

__attribute__((format(printf, 3, 4))) static enum err trouble(struct opening *o, enum err e,
                                                              const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(o->trouble->text, sizeof o->trouble->text, format, args);
    va_end(args);
    return e;
}

static enum err io_trouble(struct opening *o, const char *what, const char *name, int e) {
    return trouble(o, ERR_IO, "cannot %s %s: %s", what, name, strerror(-e));
}

/* -- finding the files ----------------------------------------------------------------------- */

static void found_file(void *arg, const char *name, int64_t size) {
    struct opening *o = arg;
    uint64_t number = 0;
    const char *digits = strchr(name, '-');
    if (!digits || sscanf(digits + 1, "%16" SCNu64, &number) != 1)
        return;
    char segment[LOG_NAME_BYTES], spare[LOG_NAME_BYTES];
    log_segment_name(segment, number);
    log_spare_name(spare, number);
    if (strcmp(name, spare) == 0)
        segments_add(&o->spares, number, -1);
    if (strcmp(name, segment) != 0)
        return;
    segments_add(&o->log->segments, number, -1);
    struct segment *s = o->log->segments.items;
    s[o->log->segments.count - 1].file_bytes = (uint64_t)size;
    for (size_t i = o->log->segments.count - 1; i > 0 && s[i - 1].number > s[i].number; i--) {
        struct segment t = s[i];
        s[i] = s[i - 1];
        s[i - 1] = t;
    }
}

/* Spares of an earlier run may be of another size or half made: they are made anew. */
static enum err remove_spares(struct opening *o) {
    for (size_t i = 0; i < o->spares.count; i++) {
        char name[LOG_NAME_BYTES];
        log_spare_name(name, o->spares.items[i].number);
        int e = o->log->io->remove(o->log->io_ctx, name);
        if (e < 0)
            return io_trouble(o, "remove", name, e);
    }
    return OK;
}

static enum err open_segments(struct opening *o) {
    struct segments *s = &o->log->segments;
    for (size_t i = 0; i < s->count; i++) {
        char name[LOG_NAME_BYTES];
        if (s->items[i].number != s->items[0].number + i) {
            log_segment_name(name, s->items[0].number + i);
            return trouble(o, ERR_CORRUPT,
                           "%s is missing: the segments before and after it are there; "
                           "restore it from a backup",
                           name);
        }
        log_segment_name(name, s->items[i].number);
        int handle = o->log->io->open(o->log->io_ctx, name, false, 0);
        if (handle < 0)
            return io_trouble(o, "open", name, handle);
        s->items[i].handle = handle;
    }
    return OK;
}

/* -- headers --------------------------------------------------------------------------------- */

static uint64_t begin_of(const struct opening *o, size_t i) {
    return o->log->segments.items[i].number * o->log->segment_bytes;
}

static enum err read_header(struct opening *o, size_t i) {
    char name[LOG_NAME_BYTES];
    log_segment_name(name, o->log->segments.items[i].number);
    uint64_t file_bytes = o->log->segments.items[i].file_bytes;
    if (file_bytes < SEGMENT_HEADER_BYTES)
        return trouble(o, ERR_CORRUPT, "%s, offset 0: the file is cut short", name);
    window_file(&o->window, o->log->segments.items[i].handle, SEGMENT_HEADER_BYTES);
    const uint8_t *p = window_at(&o->window, 0, SEGMENT_HEADER_BYTES);
    if (!p)
        return io_trouble(o, "read", name, o->window.error);
    uint64_t number, segment_bytes;
    enum err e = segment_header_get(p, &number, &segment_bytes);
    if (e == ERR_VERSION)
        return trouble(o, e,
                       "%s was written by a newer version of nixie (this one reads format %d)",
                       name, LOG_FORMAT_VERSION);
    if (e == OK && number == o->log->segments.items[i].number &&
        segment_bytes >= LOG_SEGMENT_BYTES_MIN && segment_bytes <= UINT32_MAX &&
        (i == 0 || segment_bytes == o->log->segment_bytes)) {
        /* Segments are made whole before they get their name: no crash leaves a short one. */
        if (file_bytes < segment_bytes)
            return trouble(o, ERR_CORRUPT, "%s, offset %" PRIu64 ": the file is cut short", name,
                           file_bytes);
        o->log->segment_bytes = segment_bytes;
        return OK;
    }
    return trouble(o, ERR_CORRUPT, "%s, offset 0: the segment's header is damaged", name);
}

static enum err drop_last_segment(struct opening *o) {
    struct segments *s = &o->log->segments;
    struct segment last = s->items[--s->count];
    o->log->io->close(o->log->io_ctx, last.handle);
    if (!o->repair)
        return OK;
    char name[LOG_NAME_BYTES];
    log_segment_name(name, last.number);
    int e = o->log->io->remove(o->log->io_ctx, name);
    if (e >= 0)
        e = o->log->io->sync_dir(o->log->io_ctx);
    return e < 0 ? io_trouble(o, "remove", name, e) : OK;
}

/* The newest segments may have been made, and even written in part, when the power went: without a
 * header, and with nothing in them that was ever seen durable, they hold nothing (L4). */
static enum err drop_unwritten_segments(struct opening *o) {
    struct segments *s = &o->log->segments;
    while (s->count > 1) {
        size_t i = s->count - 1;
        enum err e = read_header(o, i);
        if (e != ERR_CORRUPT || s->items[i].file_bytes < o->log->segment_bytes)
            return e;
        uint64_t found;
        window_file(&o->window, s->items[i].handle, o->log->segment_bytes);
        if (scan_finds_later(&o->window, begin_of(o, i), SEGMENT_HEADER_BYTES, begin_of(o, i),
                             &found))
            return e;
        if (o->window.error < 0)
            return io_trouble(o, "read", "the last segment", o->window.error);
        enum err r = drop_last_segment(o);
        if (r != OK)
            return r;
    }
    return OK;
}

/* -- frames ---------------------------------------------------------------------------------- */

/* True when all of segment i is known to be on disk: a batch syncs each segment before it writes
 * the first frame of the next one, so the head of that frame says so (`durable` is 0 when nothing
 * is ever synced). Then the big data of segment i need not be read. */
static bool is_trusted(struct opening *o, size_t i) {
    if (!o->repair || i + 1 >= o->log->segments.count)
        return false;
    window_file(&o->window, o->log->segments.items[i + 1].handle, o->log->segment_bytes);
    struct scan s = {.window = &o->window,
                     .segment_begin = begin_of(o, i + 1),
                     .offset = SEGMENT_HEADER_BYTES,
                     .budget = 1,
                     .trusted = true};
    return scan_frames(&s) != SCAN_BAD && s.durable_max > 0;
}

/* There is no valid frame at segment i, offset: torn or corrupt? L3: any valid frame behind it that
 * saw it durable. */
static enum err judge(struct opening *o, size_t i, uint64_t offset) {
    uint64_t position = begin_of(o, i) + offset, found;
    for (size_t k = i; k < o->log->segments.count; k++) {
        uint64_t from = k == i ? offset : SEGMENT_HEADER_BYTES;
        window_file(&o->window, o->log->segments.items[k].handle, o->log->segment_bytes);
        if (!scan_finds_later(&o->window, begin_of(o, k), from, position, &found))
            continue;
        char name[LOG_NAME_BYTES], later[LOG_NAME_BYTES];
        log_segment_name(name, o->log->segments.items[i].number);
        log_segment_name(later, o->log->segments.items[k].number);
        return trouble(o, ERR_CORRUPT,
                       "file %s, offset %" PRIu64 ": a frame that was on disk is damaged (file %s, "
                       "offset %" PRIu64 " was written after it); restore the file from a backup",
                       name, offset, later, found);
    }
    if (o->window.error < 0)
        return io_trouble(o, "read", "a segment", o->window.error);
    o->findings->end = position;
    o->findings->torn_position = position;
    return OK;
}

#define TAIL_STEP ((uint64_t)4096)

/* Measures what is torn (up to the last byte that is not zero) and, when repairing, puts zeros
 * there. */
static enum err cut_tail(struct opening *o, size_t i, uint64_t offset) {
    int handle = o->log->segments.items[i].handle;
    window_file(&o->window, handle, o->log->segment_bytes);
    uint64_t last = offset;
    for (uint64_t at = offset, n; at < o->log->segment_bytes; at += n) {
        n = o->log->segment_bytes - at < TAIL_STEP ? o->log->segment_bytes - at : TAIL_STEP;
        const uint8_t *p = window_at(&o->window, at, n);
        if (!p)
            return io_trouble(o, "read", "the last segment", o->window.error);
        if (p[0] == 0 && memcmp(p, p + 1, n - 1) == 0)
            continue;
        uint64_t used = n;
        while (p[used - 1] == 0)
            used--;
        last = at + align8(used);
    }
    o->findings->torn_bytes += last - offset;
    if (!o->repair)
        return OK;
    int e = log_write_zeros(o->log, handle, offset, last);
    return e < 0 ? io_trouble(o, "repair", "the last segment", e) : OK;
}

static enum err drop_segments_after(struct opening *o, size_t i) {
    while (o->log->segments.count > i + 1) {
        enum err e = drop_last_segment(o);
        if (e != OK)
            return e;
        o->findings->torn_bytes += o->log->segment_bytes;
    }
    return OK;
}

static enum err read_segment(struct opening *o, size_t i, bool *ret_last) {
    bool trusted = is_trusted(o, i);
    window_file(&o->window, o->log->segments.items[i].handle, o->log->segment_bytes);
    struct scan s = {.window = &o->window,
                     .segment_begin = begin_of(o, i),
                     .offset = SEGMENT_HEADER_BYTES,
                     .trusted = trusted,
                     .reader = o->reader,
                     .durable_max = o->durable_max};
    enum scan_stop stop = scan_frames(&s);
    o->durable_max = s.durable_max;
    o->findings->frames += s.frames;
    o->findings->records += s.records;
    *ret_last = false;
    if (stop == SCAN_END && i + 1 < o->log->segments.count)
        return OK;
    char name[LOG_NAME_BYTES];
    log_segment_name(name, o->log->segments.items[i].number);
    if (stop == SCAN_READER)
        return trouble(o, s.error,
                       "file %s, offset %" PRIu64
                       ": a frame is whole but its records make no sense",
                       name, s.offset);
    if (stop == SCAN_IO)
        return io_trouble(o, "read", name, o->window.error);
    *ret_last = true;
    if (stop == SCAN_END) {
        /* The next segment was not yet made: it will be, by the next batch. The end frame is
         * written again then. */
        o->findings->end = begin_of(o, i) + s.offset;
        return o->repair ? cut_tail(o, i, s.offset) : OK;
    }
    enum err e = judge(o, i, s.offset);
    if (e == OK)
        e = drop_segments_after(o, i);
    if (e == OK)
        e = cut_tail(o, i, s.offset);
    return e;
}

/* Writes again what is above every durable position seen: if a sync failed before, the kernel may
 * hold it for clean, and no sync would bring it to the disk. */
static int write_again(struct opening *o, size_t i) {
    uint64_t begin = begin_of(o, i), at = 0, end = o->log->segment_bytes;
    if (o->durable_max > begin)
        at = o->durable_max - begin;
    if (o->findings->end < begin + end)
        end = o->findings->end - begin;
    int handle = o->log->segments.items[i].handle;
    window_file(&o->window, handle, o->log->segment_bytes);
    while (at < end) {
        size_t n = end - at < 64 * 1024 ? (size_t)(end - at) : 64 * 1024;
        const uint8_t *p = window_at(&o->window, at, n);
        if (!p)
            return o->window.error;
        int e = o->log->io->write(o->log->io_ctx, handle, (int64_t)at, p, n);
        if (e < 0)
            return e;
        at += n;
    }
    return 0;
}

/* What was read may be in the page cache only (the process was killed, not the machine): nobody may
 * see it before it is on disk. */
static enum err sync_all(struct opening *o) {
    for (size_t i = 0; i < o->log->segments.count; i++) {
        if (begin_of(o, i) + o->log->segment_bytes <= o->durable_max)
            continue;
        /* Without any (it was written under skip_sync) that would be the whole log. */
        int e = o->durable_max > 0 ? write_again(o, i) : 0;
        if (e >= 0)
            e = o->log->io->sync(o->log->io_ctx, o->log->segments.items[i].handle);
        if (e < 0)
            return io_trouble(o, "sync", "a segment", e);
    }
    int e = o->log->io->sync_dir(o->log->io_ctx);
    return e < 0 ? io_trouble(o, "sync", "the data directory", e) : OK;
}

/* -- the whole ------------------------------------------------------------------------------- */

/* Under another name first: a segment is never seen before it is whole. */
static enum err begin_new(struct opening *o) {
    struct log *log = o->log;
    char spare[LOG_NAME_BYTES], name[LOG_NAME_BYTES];
    log_spare_name(spare, 0);
    log_segment_name(name, 1);
    int handle = log->io->open(log->io_ctx, spare, true, (int64_t)log->segment_bytes);
    if (handle < 0)
        return io_trouble(o, "make", name, handle);
    segments_add(&log->segments, 1, handle);
    int e = log_write_zeros(log, handle, 0, log->segment_bytes);
    uint8_t header[SEGMENT_HEADER_BYTES];
    segment_header_put(header, 1, log->segment_bytes);
    if (e >= 0)
        e = log->io->write(log->io_ctx, handle, 0, header, sizeof header);
    if (e >= 0)
        e = log->io->sync(log->io_ctx, handle);
    if (e >= 0)
        e = log->io->rename(log->io_ctx, spare, name);
    if (e < 0)
        return io_trouble(o, "write", name, e);
    o->findings->end = log->segment_bytes + SEGMENT_HEADER_BYTES;
    return OK;
}

static enum err read_all(struct opening *o) {
    struct log *log = o->log;
    int e = log->io->list(log->io_ctx, found_file, o);
    if (e < 0)
        return io_trouble(o, "list", "the data directory", e);
    enum err r = o->repair ? remove_spares(o) : OK;
    if (r == OK)
        r = open_segments(o);
    if (r != OK || log->segments.count == 0)
        return r != OK || !o->repair ? r : begin_new(o);
    r = read_header(o, 0);
    if (r == OK)
        r = drop_unwritten_segments(o);
    if (r != OK)
        return r;
    for (size_t i = 1; i < log->segments.count; i++)
        if ((r = read_header(o, i)) != OK)
            return r;
    bool last = false;
    for (size_t i = 0; i < log->segments.count && !last; i++)
        if ((r = read_segment(o, i, &last)) != OK)
            return r;
    return OK;
}

static enum err open_or_check(const struct log_config *config, bool repair,
                              const struct log_reader *reader, struct log **ret_log,
                              struct log_findings *findings, struct log_trouble *trouble_text) {
    struct log *log = mem_alloc(sizeof *log);
    log->io = config->io;
    log->io_ctx = config->io_ctx;
    log->segment_bytes = (uint64_t)config->segment_bytes;
    log->bytes_max = (uint64_t)config->bytes_max;
    log->skip_sync = config->skip_sync;
    log->zero_handle = -1;
    *findings = (struct log_findings){0};
    struct opening o = {.log = log,
                        .repair = repair,
                        .reader = reader,
                        .findings = findings,
                        .trouble = trouble_text};
    window_init(&o.window, log->io, log->io_ctx);

    enum err e = OK;
    if (repair) {
        int l = log->io->lock(log->io_ctx);
        if (l < 0)
            e = l == -EWOULDBLOCK
                    ? trouble(&o, ERR_LOCKED, "another process has this data directory")
                    : io_trouble(&o, "lock", "the data directory", l);
    }
    if (e == OK)
        e = read_all(&o);
    if (e == OK && repair)
        e = sync_all(&o);
    if (e == OK && log->segments.count > 0) {
        findings->first_segment = log_oldest(log);
        findings->last_segment = log->segments.items[log->segments.count - 1].number;
        findings->begin = findings->first_segment * log->segment_bytes;
    }
    if (e == OK && repair) {
        log->end = log->durable = findings->end;
        log->file_count = log->segments.count;
        e = log_spares_fill(log);
        if (e != OK)
            e = io_trouble(&o, "make", "a spare segment", -errno);
    }
    window_release(&o.window);
    free(o.spares.items);
    if (e == OK && repair)
        *ret_log = log;
    else
        log_free(log);
    return e;
}

enum err log_open(const struct log_config *config, const struct log_reader *reader,
                  struct log **ret_log, struct log_findings *ret_findings,
                  struct log_trouble *ret_trouble) {
    return open_or_check(config, true, reader, ret_log, ret_findings, ret_trouble);
}

enum err log_check(const struct log_config *config, const struct log_reader *reader,
                   struct log_findings *ret_findings, struct log_trouble *ret_trouble) {
    return open_or_check(config, false, reader, NULL, ret_findings, ret_trouble);
}

bool log_clean_read(struct log *log, size_t bytes, const struct log_reader *reader) {
    assert(log_can_clean(log));
    struct window w;
    window_init(&w, log->io, log->io_ctx);
    struct segment oldest = log->segments.items[0];
    window_file(&w, oldest.handle, log->segment_bytes);
    uint64_t begin = oldest.number * log->segment_bytes;
    if (log->clean_position < begin) {
        log->clean_position = begin + SEGMENT_HEADER_BYTES;
        log->io->prefetch(log->io_ctx, oldest.handle, 0, (int64_t)log->segment_bytes);
    }
    struct scan s = {.window = &w,
                     .segment_begin = begin,
                     .offset = log->clean_position - begin,
                     .budget = bytes,
                     .trusted = true,
                     .reader = reader};
    enum scan_stop stop = scan_frames(&s);
    log->clean_position = begin + s.offset;
    int error = w.error;
    window_release(&w);
    assert(stop != SCAN_READER);
    if (stop == SCAN_IO)
        log_damaged(log, log->clean_position, strerror(-error));
    if (stop == SCAN_BAD)
        log_damaged(log, log->clean_position, "a frame's checksum does not match");
    return stop == SCAN_END;
}
