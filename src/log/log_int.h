/* What log.c (appending and committing) and log_open.c (reading and repairing) share. Not for
 * others. */
#pragma once

#include "log/format.h"
#include "log/log.h"

#include <stdatomic.h>
#include <stdbool.h>

/* Segments made ahead: one to go on with, one to settle and one to clean in on a full disk. */
#define LOG_SPARES 3
#define LOG_NAME_BYTES 48
#define LOG_ZERO_BYTES ((size_t)256 * 1024) /* zeros written at a time */

struct segment {
    uint64_t number;
    int handle;
    uint64_t file_bytes; /* as found when opening */
};

struct segments {
    struct segment *items;
    size_t count, cap;
};

/* Bytes of the stream in memory, from `position` on, within one segment. */
struct chunk {
    struct chunk *next;
    uint64_t position;
    size_t n, cap;
    uint8_t p[];
};

struct chunk_list {
    struct chunk *first, *last;
};

struct drop {
    struct segment segment;
    uint64_t after; /* removed once everything below this is durable */
};

/* Durable bytes, as read from a file. */
#define PAGE_BYTES 4096
struct page {
    uint64_t position;
    size_t n;
    uint8_t p[PAGE_BYTES];
};

struct log {
    const struct log_io *io;
    void *io_ctx;
    uint64_t segment_bytes, bytes_max;
    bool skip_sync;

    /* loop thread */
    struct segments segments; /* what can be read, oldest first */
    struct chunk_list filling, taken, spare_chunks;
    uint64_t end, durable, taken_end;
    uint8_t *frame; /* the open frame's header, in filling.last */
    size_t frame_bytes_max;
    bool batch_out, unmarked, look_for_room;
    struct drop *drops;
    size_t drop_count, drop_cap;
    uint64_t clean_position;
    struct page page;
    struct log_stats stats;

    /* handed over with a batch: written by the loop thread before, by the log thread while it is
     * out */
    uint64_t batch_begin;
    struct segment batch_segment; /* the newest there was before this batch; number 0 = none */
    struct log_stats batch_stats; /* what the log thread did since the start */
    struct segments made;         /* by this batch */
    struct segments dropping;     /* to be removed with this batch */

    /* log thread */
    uint64_t spare_serial;
    uint64_t file_count;  /* segments and spares on disk */
    uint64_t written_end; /* of the last batch that was written */
    int zero_handle;      /* of the spare being zeroed, -1 = none */
    uint64_t zero_serial, zero_offset;
    atomic_uint spares;
    atomic_bool full;
};

void log_segment_name(char out[static LOG_NAME_BYTES], uint64_t number);
void log_spare_name(char out[static LOG_NAME_BYTES], uint64_t serial);
void segments_add(struct segments *s, uint64_t number, int handle);

/* Writes zeros to the offsets from .. to of a file; 0 or -errno. */
int log_write_zeros(struct log *log, int handle, uint64_t from, uint64_t to);

/* Ends the process: what was on disk is not what is read now. */
_Noreturn void log_damaged(const struct log *log, uint64_t position, const char *what);

/* Makes spares up to LOG_SPARES; sets `full` when there is no room. An error only for what is not
 * lack of room. */
enum err log_spares_fill(struct log *log) MUST_CHECK;
