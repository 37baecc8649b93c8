/* Appending, committing, cleaning. Invariants:
 *
 * L1 a reply's frame is synced before the reply is sent (the caller waits for log_durable;
 *    log_durable only moves in log_batch_done).
 * L2 positions only grow.
 * L3 a frame below a durable position seen in any later frame must be valid: if not, that is
 *    corruption, and log_open refuses. A batch is written only after the batch before it was
 *    synced, so each frame carries its own batch's begin as durable position.
 * L4 an invalid frame above every durable position seen is a torn tail: cut off and reported.
 * L5 the segments form one contiguous run, and only the oldest is ever cleaned: its live records
 *    are appended again at the tail, and it is removed once those are durable. So a delete can
 *    never be forgotten while the thing it deletes is remembered.
 * L6 a new segment's directory entry is synced before the first frame in it counts as durable.
 *
 *   loop thread                                    log thread
 *   frame_begin .. frame_end -> filling
 *   batch_take: filling -> taken    ----------->   batch_write: seal, write, sync,
 *                                                  remove what was cleaned, make spares
 *   batch_done: taken -> free       <-----------
 */
#include "log/log_int.h"

#include "base/le.h"
#include "base/logging.h"
#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define CHUNK_BYTES ((size_t)512 * 1024)
#define SPARE_CHUNKS_MAX 4

void log_segment_name(char out[static LOG_NAME_BYTES], uint64_t number) {
    snprintf(out, LOG_NAME_BYTES, "segment-%016" PRIu64, number);
}

void log_spare_name(char out[static LOG_NAME_BYTES], uint64_t serial) {
    snprintf(out, LOG_NAME_BYTES, "spare-%016" PRIu64, serial);
}

void segments_add(struct segments *s, uint64_t number, int handle) {
    if (s->count == s->cap) {
        s->cap = s->cap ? s->cap * 2 : 8;
        s->items = mem_grow(s->items, s->cap * sizeof *s->items);
    }
    s->items[s->count++] = (struct segment){.number = number, .handle = handle};
}

static uint64_t segment_of(const struct log *log, uint64_t position) {
    return position / log->segment_bytes;
}

static uint64_t offset_of(const struct log *log, uint64_t position) {
    return position % log->segment_bytes;
}

/* -- chunks ---------------------------------------------------------------------------------- */

static void chunk_push(struct chunk_list *list, struct chunk *c) {
    c->next = NULL;
    if (list->last)
        list->last->next = c;
    else
        list->first = c;
    list->last = c;
}

static struct chunk *chunk_new(struct log *log, uint64_t position, size_t bytes_min) {
    struct chunk *c = log->spare_chunks.first;
    if (c && bytes_min <= c->cap) {
        log->spare_chunks.first = c->next;
        if (!c->next)
            log->spare_chunks.last = NULL;
    } else {
        size_t cap = bytes_min > CHUNK_BYTES ? bytes_min : CHUNK_BYTES;
        c = mem_grow(NULL, sizeof *c + cap);
        c->cap = cap;
    }
    c->position = position;
    c->n = 0;
    chunk_push(&log->filling, c);
    return c;
}

static void chunks_free(struct chunk_list *list) {
    for (struct chunk *c = list->first, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    *list = (struct chunk_list){0};
}

static void chunks_recycle(struct log *log) {
    unsigned kept = 0;
    for (struct chunk *c = log->spare_chunks.first; c; c = c->next)
        kept++;
    for (struct chunk *c = log->taken.first, *next; c; c = next) {
        next = c->next;
        if (c->cap == CHUNK_BYTES && kept < SPARE_CHUNKS_MAX) {
            chunk_push(&log->spare_chunks, c);
            kept++;
        } else {
            free(c);
        }
    }
    log->taken = (struct chunk_list){0};
}

/* -- room ------------------------------------------------------------------------------------ */

bool log_has_room(const struct log *log, enum log_use use, size_t bytes) {
    if (!atomic_load_explicit(&log->full, memory_order_acquire))
        return true;
    uint64_t writer_end = (segment_of(log, log->durable) + 1) * log->segment_bytes;
    uint64_t room =
        writer_end + log->segment_bytes * atomic_load_explicit(&log->spares, memory_order_acquire);
    /* Rolling over may leave a frame's worth unused at the end of each segment. */
    uint64_t need = log->end + bytes + FRAME_HEADER_BYTES * 2 + SEGMENT_HEADER_BYTES;
    switch (use) {
    case LOG_USE_ACCEPT:
        need += log->segment_bytes * 9 / 4; /* settling goes on for a segment more */
        break;
    case LOG_USE_SETTLE:
        need += log->segment_bytes * 5 / 4; /* the cleaner may have to carry a whole segment */
        break;
    case LOG_USE_CLEAN:
        break;
    }
    return need <= room;
}

/* -- appending ------------------------------------------------------------------------------- */

size_t log_frame_bytes_max(const struct log *log) {
    return (size_t)log->segment_bytes - SEGMENT_HEADER_BYTES - 2 * FRAME_HEADER_BYTES;
}

size_t log_record_bytes(size_t meta_bytes, size_t data_bytes) {
    return align8(RECORD_HEADER_BYTES + meta_bytes + data_bytes);
}

/* The chunk that goes on at log->end, with room for `bytes`. */
static struct chunk *chunk_for(struct log *log, size_t bytes) {
    struct chunk *c = log->filling.last;
    if (c && c->position + c->n == log->end && c->cap - c->n >= bytes)
        return c;
    return chunk_new(log, log->end, bytes);
}

/* A frame without records. */
static void append_bare_frame(struct log *log, uint32_t kind) {
    struct chunk *c = chunk_for(log, FRAME_HEADER_BYTES);
    frame_header_put(c->p + c->n, &(struct frame_header){.kind = kind, .position = log->end});
    c->n += FRAME_HEADER_BYTES;
    log->end += FRAME_HEADER_BYTES;
}

static void roll(struct log *log) {
    /* before the end frame, which may fill it up */
    uint64_t number = segment_of(log, log->end) + 1;
    append_bare_frame(log, FRAME_END);
    log->end = number * log->segment_bytes;
    struct chunk *c = chunk_new(log, log->end, SEGMENT_HEADER_BYTES);
    segment_header_put(c->p, number, log->segment_bytes);
    c->n = SEGMENT_HEADER_BYTES;
    log->end += SEGMENT_HEADER_BYTES;
}

/* Room for a frame of `bytes` and the end frame after it. */
static void make_room(struct log *log, size_t bytes) {
    if (offset_of(log, log->end) + bytes + FRAME_HEADER_BYTES > log->segment_bytes)
        roll(log);
}

void log_frame_begin(struct log *log, size_t bytes_max) {
    assert(!log->frame);
    assert(bytes_max <= log_frame_bytes_max(log));
    size_t bytes = FRAME_HEADER_BYTES + bytes_max;
    make_room(log, bytes);
    struct chunk *c = chunk_for(log, bytes);
    log->frame = c->p + c->n;
    log->frame_bytes_max = bytes;
    frame_header_put(log->frame, &(struct frame_header){.kind = FRAME_DATA, .position = log->end});
}

uint64_t log_record_append(struct log *log, uint8_t type, struct span meta, const struct span *data,
                           size_t data_count) {
    assert(log->frame);
    size_t data_bytes = 0;
    for (size_t i = 0; i < data_count; i++)
        data_bytes += data[i].n;
    size_t body = le_get32(log->frame + 4);
    size_t used = RECORD_HEADER_BYTES + meta.n + data_bytes;
    assert(FRAME_HEADER_BYTES + body + align8(used) <= log->frame_bytes_max);

    uint8_t *p = log->frame + FRAME_HEADER_BYTES + body;
    record_header_put(p, &(struct record_header){.meta_bytes = (uint32_t)meta.n,
                                                 .data_bytes = (uint32_t)data_bytes,
                                                 .type = type});
    uint8_t *at = p + RECORD_HEADER_BYTES;
    memcpy(at, meta.p, meta.n);
    at += meta.n;
    for (size_t i = 0; i < data_count; i++) {
        if (data[i].n)
            memcpy(at, data[i].p, data[i].n);
        at += data[i].n;
    }
    memset(at, 0, align8(used) - used);
    le_put32(log->frame + 4, (uint32_t)(body + align8(used)));
    return log->end + FRAME_HEADER_BYTES + body;
}

void log_frame_end(struct log *log) {
    assert(log->frame);
    size_t body = le_get32(log->frame + 4);
    log->frame = NULL;
    if (body == 0)
        return;
    log->filling.last->n += FRAME_HEADER_BYTES + body;
    log->end += FRAME_HEADER_BYTES + body;
    log->stats.frames++;
    log->unmarked = true;
}

void log_mark(struct log *log) {
    if (!log->unmarked)
        return;
    make_room(log, FRAME_HEADER_BYTES);
    append_bare_frame(log, FRAME_MARK);
    log->unmarked = false;
}

void log_look_for_room(struct log *log) {
    log->look_for_room = true;
}

/* -- reading --------------------------------------------------------------------------------- */

static const uint8_t *in_memory(const struct chunk_list *list, uint64_t position) {
    for (const struct chunk *c = list->first; c; c = c->next)
        if (position >= c->position && position < c->position + c->n)
            return c->p + (position - c->position);
    return NULL;
}

static const struct segment *segment_find(const struct log *log, uint64_t number) {
    assert(log->segments.count > 0 && number >= log->segments.items[0].number);
    size_t i = (size_t)(number - log->segments.items[0].number);
    assert(i < log->segments.count && log->segments.items[i].number == number);
    return &log->segments.items[i];
}

void log_damaged(const struct log *log, uint64_t position, const char *what) {
    char name[LOG_NAME_BYTES];
    log_segment_name(name, segment_of(log, position));
    log_fatal("%s: file %s, offset %" PRIu64 ": stopped, so that nothing is built on it; "
              "`nixie log check DIR` shows what is damaged",
              what, name, offset_of(log, position));
}

/* Copies from memory what is not yet on disk; false when it is. All but the sums: the log thread
 * may be writing those. */
static bool read_memory(const struct log *log, uint64_t position, uint8_t *p, size_t bytes) {
    if (position < log->durable)
        return false;
    const uint8_t *memory = in_memory(&log->filling, position);
    if (!memory)
        memory = in_memory(&log->taken, position);
    assert(memory);
    memcpy(p, memory, RECORD_HEADER_BYTES / 2);
    memcpy(p + RECORD_HEADER_BYTES, memory + RECORD_HEADER_BYTES, bytes - RECORD_HEADER_BYTES);
    return true;
}

static void read_bytes(const struct log *log, uint64_t position, uint8_t *p, size_t bytes) {
    const struct segment *s = segment_find(log, segment_of(log, position));
    int e = log->io->read(log->io_ctx, s->handle, (int64_t)offset_of(log, position), p, bytes);
    if (e < 0)
        log_damaged(log, position, strerror(-e));
}

/* Durable bytes. A small read takes the rest of its page, too, and keeps it: what is asked for next
 * often lies right behind. */
static void read_file(struct log *log, uint64_t position, uint8_t *p, size_t bytes) {
    struct page *page = &log->page;
    if (position < page->position || position + bytes > page->position + page->n) {
        uint64_t offset = offset_of(log, position), end = (offset / PAGE_BYTES + 1) * PAGE_BYTES;
        uint64_t n = end - offset, durable = log->durable - position;
        if (n > durable)
            n = durable;
        if (bytes > n || end > log->segment_bytes) {
            read_bytes(log, position, p, bytes);
            return;
        }
        page->position = position;
        page->n = (size_t)n;
        read_bytes(log, position, page->p, page->n);
    }
    memcpy(p, page->p + (position - page->position), bytes);
}

static size_t bytes_of(const struct record_header *h) {
    return align8(RECORD_HEADER_BYTES + (size_t)h->meta_bytes + h->data_bytes);
}

size_t log_record_size(struct log *log, uint64_t position) {
    uint8_t p[RECORD_HEADER_BYTES];
    if (!read_memory(log, position, p, sizeof p))
        read_file(log, position, p, sizeof p);
    struct record_header h = record_header_get(p);
    if (offset_of(log, position) + bytes_of(&h) > log->segment_bytes)
        log_damaged(log, position, "a record's size is not what was written");
    return bytes_of(&h);
}

uint8_t log_record_read(struct log *log, uint64_t position, size_t bytes, struct buf *out,
                        struct span *ret_meta, struct span *ret_data) {
    buf_clear(out);
    uint8_t *p = buf_reserve(out, bytes);
    bool memory = read_memory(log, position, p, bytes);
    if (!memory)
        read_file(log, position, p, bytes);
    out->n = bytes;
    struct record_header h = record_header_get(p);
    if (bytes_of(&h) != bytes)
        log_damaged(log, position, "a record's size is not what was written");
    *ret_meta = span_of(p + RECORD_HEADER_BYTES, h.meta_bytes);
    *ret_data = span_of(p + RECORD_HEADER_BYTES + h.meta_bytes, h.data_bytes);
    /* What is still in memory has no sums yet. */
    if (!memory && !record_sums_hold(&h, *ret_meta, *ret_data))
        log_damaged(log, position, "a record's checksum does not match");
    return h.type;
}

/* -- committing ------------------------------------------------------------------------------ */

uint64_t log_end(const struct log *log) {
    return log->end;
}

uint64_t log_durable(const struct log *log) {
    return log->durable;
}

size_t log_unsynced_bytes(const struct log *log) {
    return (size_t)(log->end - log->durable);
}

static void take_drops(struct log *log) {
    size_t kept = 0;
    for (size_t i = 0; i < log->drop_count; i++) {
        if (log->drops[i].after <= log->durable)
            segments_add(&log->dropping, log->drops[i].segment.number,
                         log->drops[i].segment.handle);
        else
            log->drops[kept++] = log->drops[i];
    }
    log->drop_count = kept;
}

bool log_batch_take(struct log *log) {
    assert(!log->frame);
    if (log->batch_out)
        return false;
    take_drops(log);
    if (log->end == log->durable && log->dropping.count == 0 && !log->look_for_room)
        return false;
    log->look_for_room = false;
    log->taken = log->filling;
    log->filling = (struct chunk_list){0};
    log->taken_end = log->end;
    log->batch_begin = log->durable;
    log->batch_segment = log->segments.items[log->segments.count - 1];
    log->batch_out = true;
    return true;
}

static enum err err_of(int e) {
    errno = -e;
    return e == -ENOSPC || e == -EDQUOT ? ERR_DISK_FULL : ERR_IO;
}

static enum err spare_make(struct log *log) {
    if (log->bytes_max && (log->file_count + 1) * log->segment_bytes > log->bytes_max)
        return ERR_DISK_FULL;
    char name[LOG_NAME_BYTES];
    log_spare_name(name, log->spare_serial + 1);
    int handle = log->io->open(log->io_ctx, name, true, (int64_t)log->segment_bytes);
    if (handle < 0)
        return err_of(handle);
    log->io->close(log->io_ctx, handle);
    log->spare_serial++;
    log->file_count++;
    atomic_fetch_add(&log->spares, 1);
    return OK;
}

enum err log_spares_fill(struct log *log) {
    while (atomic_load(&log->spares) < LOG_SPARES) {
        enum err e = spare_make(log);
        if (e == ERR_DISK_FULL) {
            atomic_store_explicit(&log->full, true, memory_order_release);
            return OK;
        }
        if (e != OK)
            return e;
    }
    atomic_store_explicit(&log->full, false, memory_order_release);
    return OK;
}

int log_write_zeros(struct log *log, int handle, uint64_t from, uint64_t to) {
    static const uint8_t zeros[LOG_ZERO_BYTES];
    int e = 0;
    for (uint64_t at = from; e >= 0 && at < to; at += sizeof zeros) {
        size_t n = to - at < sizeof zeros ? (size_t)(to - at) : sizeof zeros;
        e = log->io->write(log->io_ctx, handle, (int64_t)at, zeros, n);
    }
    return e;
}

static uint64_t next_spare(const struct log *log) {
    return log->spare_serial + 1 - atomic_load(&log->spares);
}

static void zero_end(struct log *log) {
    if (log->zero_handle >= 0)
        log->io->close(log->io_ctx, log->zero_handle);
    log->zero_handle = -1;
}

/* Not before an eighth of the present segment is used: a log that hardly grows needs none. */
static bool zero_begin(struct log *log) {
    if (atomic_load(&log->spares) == 0 || log->zero_serial >= next_spare(log) ||
        offset_of(log, log->written_end) < log->segment_bytes / 8)
        return false;
    char name[LOG_NAME_BYTES];
    log_spare_name(name, next_spare(log));
    log->zero_serial = next_spare(log);
    log->zero_offset = 0;
    log->zero_handle = log->io->open(log->io_ctx, name, false, 0);
    return log->zero_handle >= 0;
}

bool log_zero_ahead(struct log *log) {
    if (log->zero_handle < 0 && !zero_begin(log))
        return false;
    uint64_t from = log->zero_offset, left = log->segment_bytes - from;
    log->zero_offset += left < LOG_ZERO_BYTES ? left : LOG_ZERO_BYTES;
    int e = log_write_zeros(log, log->zero_handle, from, log->zero_offset);
    if (e >= 0)
        e = log->io->sync(log->io_ctx, log->zero_handle);
    if (e < 0 || log->zero_offset == log->segment_bytes)
        zero_end(log);
    return log->zero_handle >= 0;
}

/* Turns a spare into segment `number` (L6: its directory entry is synced before anything is written
 * to it). */
static enum err segment_make(struct log *log, uint64_t number, int *ret_handle) {
    if (atomic_load(&log->spares) == 0) {
        enum err e = spare_make(log);
        if (e != OK)
            return e;
    }
    if (log->zero_serial == next_spare(log))
        zero_end(log); /* from now on nothing but frames is written there */
    char spare[LOG_NAME_BYTES], name[LOG_NAME_BYTES];
    log_spare_name(spare, next_spare(log));
    log_segment_name(name, number);
    int e = log->io->rename(log->io_ctx, spare, name);
    if (e >= 0)
        e = log->io->sync_dir(log->io_ctx);
    if (e < 0)
        return err_of(e);
    atomic_fetch_sub(&log->spares, 1);
    int handle = log->io->open(log->io_ctx, name, false, 0);
    if (handle < 0)
        return err_of(handle);
    segments_add(&log->made, number, handle);
    *ret_handle = handle;
    return OK;
}

static enum err handle_for(struct log *log, uint64_t number, int *ret_handle) {
    for (size_t i = 0; i < log->made.count; i++)
        if (log->made.items[i].number == number) {
            *ret_handle = log->made.items[i].handle;
            return OK;
        }
    if (log->batch_segment.number == number) {
        *ret_handle = log->batch_segment.handle;
        return OK;
    }
    return segment_make(log, number, ret_handle);
}

static void seal(struct chunk *c, uint64_t segment_bytes, uint64_t durable) {
    size_t at = c->position % segment_bytes == 0 ? SEGMENT_HEADER_BYTES : 0;
    while (at < c->n)
        at += frame_seal(c->p + at, durable);
}

static enum err sync_handle(struct log *log, int handle) {
    if (log->skip_sync)
        return OK;
    int e = log->io->sync(log->io_ctx, handle);
    if (e < 0) {
        errno = -e;
        return ERR_IO;
    }
    log->batch_stats.syncs++;
    return OK;
}

static enum err write_chunks(struct log *log) {
    int handle = -1;
    uint64_t number = 0;
    for (struct chunk *c = log->taken.first; c; c = c->next) {
        seal(c, log->segment_bytes, log->skip_sync ? 0 : log->batch_begin);
        if (handle >= 0 && segment_of(log, c->position) != number) {
            enum err e = sync_handle(log, handle);
            if (e != OK)
                return e;
        }
        number = segment_of(log, c->position);
        enum err e = handle_for(log, number, &handle);
        if (e != OK)
            return e;
        int w =
            log->io->write(log->io_ctx, handle, (int64_t)offset_of(log, c->position), c->p, c->n);
        if (w < 0)
            return err_of(w);
        log->batch_stats.written_bytes += c->n;
    }
    return handle >= 0 ? sync_handle(log, handle) : OK;
}

/* Oldest first, each removal on disk before the next, so that a crash leaves a contiguous run (L5).
 */
static enum err remove_dropped(struct log *log) {
    struct segments *d = &log->dropping;
    while (d->count > 0) {
        char name[LOG_NAME_BYTES];
        log_segment_name(name, d->items[0].number);
        int e = log->io->remove(log->io_ctx, name);
        if (e < 0)
            return err_of(e);
        log->io->close(log->io_ctx, d->items[0].handle);
        memmove(d->items, d->items + 1, --d->count * sizeof *d->items);
        e = log->io->sync_dir(log->io_ctx);
        if (e < 0)
            return err_of(e);
        log->file_count--;
        log->batch_stats.segments_removed++;
    }
    return OK;
}

enum err log_batch_write(struct log *log) {
    assert(log->batch_out);
    enum err e = write_chunks(log);
    if (e == OK)
        log->written_end = log->taken_end;
    if (e == ERR_DISK_FULL && log->dropping.count > 0) {
        /* What is being removed was durable elsewhere before this batch: it may make the room that
         * is missing. */
        e = remove_dropped(log);
        if (e == OK)
            e = write_chunks(log);
    }
    if (e == OK)
        e = remove_dropped(log);
    if (e == OK)
        e = log_spares_fill(log);
    if (e == ERR_DISK_FULL)
        atomic_store_explicit(&log->full, true, memory_order_release);
    return e;
}

void log_batch_done(struct log *log) {
    assert(log->batch_out);
    for (size_t i = 0; i < log->made.count; i++)
        segments_add(&log->segments, log->made.items[i].number, log->made.items[i].handle);
    log->batch_stats.segments_made += log->made.count;
    log->made.count = 0;
    uint64_t frames = log->stats.frames;
    log->stats = log->batch_stats;
    log->stats.frames = frames;
    log->durable = log->taken_end;
    log->batch_out = false;
    chunks_recycle(log);
}

/* -- cleaning -------------------------------------------------------------------------------- */

uint64_t log_oldest(const struct log *log) {
    return log->segments.items[0].number;
}

uint64_t log_bytes(const struct log *log) {
    return log->end - log_oldest(log) * log->segment_bytes;
}

bool log_can_clean(const struct log *log) {
    return log->segments.count > 1 && log_oldest(log) < segment_of(log, log->durable);
}

void log_clean_drop(struct log *log) {
    assert(log_can_clean(log));
    if (log->drop_count == log->drop_cap) {
        log->drop_cap = log->drop_cap ? log->drop_cap * 2 : 8;
        log->drops = mem_grow(log->drops, log->drop_cap * sizeof *log->drops);
    }
    log->drops[log->drop_count++] =
        (struct drop){.segment = log->segments.items[0], .after = log->end};
    log->segments.count--;
    memmove(log->segments.items, log->segments.items + 1,
            log->segments.count * sizeof *log->segments.items);
    log->clean_position = 0;
}

struct log_stats log_stats(const struct log *log) {
    struct log_stats s = log->stats;
    s.full = atomic_load_explicit(&log->full, memory_order_acquire);
    return s;
}

void log_free(struct log *log) {
    if (!log)
        return;
    for (size_t i = 0; i < log->segments.count; i++)
        if (log->segments.items[i].handle >= 0) /* else opening failed before it */
            log->io->close(log->io_ctx, log->segments.items[i].handle);
    for (size_t i = 0; i < log->made.count; i++)
        log->io->close(log->io_ctx, log->made.items[i].handle);
    for (size_t i = 0; i < log->dropping.count; i++)
        log->io->close(log->io_ctx, log->dropping.items[i].handle);
    for (size_t i = 0; i < log->drop_count; i++)
        log->io->close(log->io_ctx, log->drops[i].segment.handle);
    zero_end(log);
    chunks_free(&log->filling);
    chunks_free(&log->taken);
    chunks_free(&log->spare_chunks);
    free(log->segments.items);
    free(log->made.items);
    free(log->dropping.items);
    free(log->drops);
    log->io->unlock(log->io_ctx);
    free(log);
}
