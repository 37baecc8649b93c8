/* The log: an append-only stream of atomic frames in numbered segments; the only thing Nixie writes
 * to disk.
 *
 * It knows frames, records, positions and segments; what a record means is the engine's. Invariants
 * (L1..L6) stand at the head of log.c. A position is `segment number * segment_bytes + offset`: it
 * only grows and names one record for ever.
 *
 * Threads: one loop thread calls everything but log_write_batch, which one log thread calls (or, in
 * tests and tools, the same thread: nothing here starts a thread). See log_thread.h for the pair at
 * work. */
#pragma once

#include "base/bytes.h"
#include "log/log_io.h"

#define LOG_SEGMENT_BYTES (64 * 1024 * 1024) /* the default */
#define LOG_SEGMENT_BYTES_MIN (256 * 1024)
#define LOG_RECORD_ALIGN 8
#define LOG_FORMAT_VERSION 2 /* 1 had no dead letters' table; it was never released */

struct log_config {
    const struct log_io *io;
    void *io_ctx;
    /* of segments made from now on when the directory is empty; else that of the directory is used
     */
    int64_t segment_bytes;
    /* the directory's segments may not take more; 0 = no limit but the disk */
    int64_t bytes_max;
    /* never sync: what was acknowledged may be lost with the power (not with the process) */
    bool skip_sync;
};

struct log;

/* What was found wrong when opening: filled with ERR_CORRUPT, ERR_IO, ERR_VERSION, ERR_LOCKED. */
struct log_trouble {
    char text[256]; /* says file, offset, what and what to do */
};

/* One record as read: `meta` and `data` are valid during the callback only. */
struct log_record {
    uint64_t position;
    uint8_t type;
    struct span meta;
    struct span data; /* {NULL, n} when it was not read (log_open's `want_data` says no) */
    size_t bytes;     /* what it takes on disk, with its header and padding */
};

struct log_reader {
    void *ctx;
    /* Called for each record of each whole frame, in order. An error stops and is returned. */
    enum err (*record)(void *ctx, const struct log_record *record);
};

/* What a look at the directory found; for the start message and `nixie log check`. */
struct log_findings {
    uint64_t first_segment, last_segment;
    uint64_t begin, end; /* positions: first byte held, first byte free */
    uint64_t frames, records;
    uint64_t torn_bytes;    /* cut off at the tail, 0 when it was clean */
    uint64_t torn_position; /* where */
};

/* Locks the directory, reads every frame through `reader`, cuts a torn tail, and is ready to
 * append. Small directories are made. ERR_CORRUPT, ERR_IO, ERR_LOCKED, ERR_VERSION with
 * *ret_trouble said; the reader's error otherwise. */
enum err log_open(const struct log_config *config, const struct log_reader *reader,
                  struct log **ret_log, struct log_findings *ret_findings,
                  struct log_trouble *ret_trouble) MUST_CHECK;

/* The same look without changing anything: verifies every byte, data included. Does not lock. */
enum err log_check(const struct log_config *config, const struct log_reader *reader,
                   struct log_findings *ret_findings, struct log_trouble *ret_trouble) MUST_CHECK;

/* Closes without writing; what was not taken by log_write_batch is lost. NULL is fine. */
void log_free(struct log *log);

/* -- appending (loop thread) ----------------------------------------------------------------- */

/* Who asks for room: new messages leave a reserve for settling, settling leaves one for the
 * cleaner. */
enum log_use { LOG_USE_ACCEPT, LOG_USE_SETTLE, LOG_USE_CLEAN };

/* True when `bytes` more of records may be appended for that use; false is "disk full" until room
 * comes back. */
bool log_has_room(const struct log *log, enum log_use use, size_t bytes);

/* Begins a frame whose records will take at most `bytes_max` (sum of log_record_bytes); asserts
 * that no frame is open and that it fits a segment (log_frame_bytes_max). */
void log_frame_begin(struct log *log, size_t bytes_max);
size_t log_frame_bytes_max(const struct log *log);

/* Appends a record to the open frame; returns its position. */
uint64_t log_record_append(struct log *log, uint8_t type, struct span meta, const struct span *data,
                           size_t data_count);
/* What a record of that meta and data takes. */
size_t log_record_bytes(size_t meta_bytes, size_t data_bytes);

/* Ends the frame: it is now part of the stream, whole. An empty frame leaves nothing. */
void log_frame_end(struct log *log);

/* Reads the record at a position (durable or not) into `out` (cleared first): *ret_meta and
 * *ret_data point into it; returns its type. Its checksums are verified. Damage or a failing disk
 * ends the process with a message: see docs/storage-format.md. */
uint8_t log_record_read(struct log *log, uint64_t position, size_t bytes, struct buf *out,
                        struct span *ret_meta, struct span *ret_data);

/* The bytes of the record there. */
size_t log_record_size(struct log *log, uint64_t position);

/* -- committing ------------------------------------------------------------------------------ */

uint64_t log_end(const struct log *log);     /* the next position to be given out */
uint64_t log_durable(const struct log *log); /* everything below is on disk */
size_t log_unsynced_bytes(const struct log *log);

/* Takes what was appended since the last batch (loop thread). False when there is nothing or a
 * batch is out. */
bool log_batch_take(struct log *log);
/* Writes the taken batch and syncs it (log thread). OK, or ERR_DISK_FULL (nothing of it is durable;
 * try again later, in order), or ERR_IO with errno: stop the process, never try again. */
enum err log_batch_write(struct log *log) MUST_CHECK;
/* Between batches (log thread): writes zeros into a piece of the spare that comes next, which makes
 * later syncs in it cheaper (docs/decisions/0009-zeroed-segments.md). True when there is more to do.
 * Never fails: a spare that could not be zeroed is as good, only slower. */
bool log_zero_ahead(struct log *log);
/* Gives the written batch back (loop thread): log_durable moves. */
void log_batch_done(struct log *log);

/* Appends a frame that says "everything before me is on disk", when there was data since the last
 * one. Called when the log has been idle for a moment and before a clean stop, so that damage to
 * the last data is told from a torn tail (L3). */
void log_mark(struct log *log);
/* Makes the next log_batch_take say true, so that the log thread looks for room again after a full
 * disk. */
void log_look_for_room(struct log *log);

/* -- cleaning (loop thread) ------------------------------------------------------------------ */

uint64_t log_bytes(const struct log *log);  /* from the oldest segment's begin to log_end */
uint64_t log_oldest(const struct log *log); /* number of the oldest segment */
/* the oldest segment is whole and durable and not the one being filled */
bool log_can_clean(const struct log *log);

/* Reads records of the oldest segment from where the last call stopped, about `bytes` of them; true
 * when the last was among them. Damage ends the process, as in log_record_read; the reader must not
 * fail. */
bool log_clean_read(struct log *log, size_t bytes, const struct log_reader *reader);
/* Forgets the oldest segment; its file is removed once everything appended so far is durable. */
void log_clean_drop(struct log *log);

/* -- counters for metrics -------------------------------------------------------------------- */

struct log_stats {
    uint64_t syncs, written_bytes, frames;
    uint64_t segments_made, segments_removed;
    bool full; /* the last attempt to make a segment found no room */
};
struct log_stats log_stats(const struct log *log);
