/* A disk in memory behind `struct log_io`, which can lose power between and inside calls, fail, fill up and lie.
 *
 * Each file has a volatile image (what a process reads) and a durable one, kept apart by sectors of 512 bytes; sync makes the one like the
 * other. The directory likewise: what was made, renamed or removed is durable after sync_dir, and may or may not be before. A process that
 * is killed loses nothing but its open files; when the power goes, each sector that was not synced is kept or lost by chance (or all, or
 * none), and now and then one of them holds garbage.
 *
 * All chance comes from the seed. One thread. */
#pragma once

#include "log/log_io.h"

#include <stdbool.h>
#include <stdint.h>

#define CRASH_SECTOR 512

struct crash_io;
extern const struct log_io crash_io_table; /* its context is a struct crash_io */

struct crash_io *crash_io_new(uint64_t seed);
void crash_io_free(struct crash_io *d);
/* A second disk that holds the same, with nothing open and no fault armed. The caller frees it. */
struct crash_io *crash_io_copy(const struct crash_io *d);
void crash_io_reseed(struct crash_io *d, uint64_t seed);

/* -- dying ---------------------------------------------------------------------------------------- */

/* The process ends during the n-th changing call from now (1 = the next): that call does nothing, or a part. It and all later calls fail
 * with -EIO until the restart. n = 0: never mind. */
void crash_io_die_in(struct crash_io *d, unsigned n);
bool crash_io_is_dead(const struct crash_io *d);

/* The next process: files closed, lock free, faults gone. `power`: what was not synced is lost, or not. */
void crash_io_restart(struct crash_io *d, bool power);

/* -- failing --------------------------------------------------------------------------------------- */

#define CRASH_WRITE 1U
#define CRASH_SYNC 2U
#define CRASH_SYNC_DIR 4U
#define CRASH_CREATE 8U
#define CRASH_RENAME 16U
#define CRASH_REMOVE 32U
#define CRASH_READ 64U
#define CRASH_OPEN 128U
#define CRASH_LIST 256U

/* After `countdown` more calls of these kinds, `times` of them fail with -error. times = 0: none. */
void crash_io_fail(struct crash_io *d, unsigned calls, unsigned countdown, unsigned times,
                   int error);
/* The disk holds so many bytes of files: making one more fails with -ENOSPC. 0 = no limit. */
void crash_io_capacity(struct crash_io *d, int64_t bytes);
/* One sync in n says it is done and does nothing. 0 = none. For negative controls. */
void crash_io_lie(struct crash_io *d, unsigned one_in);

/* -- looking and damaging -------------------------------------------------------------------------------- */

/* The file's bytes as a process would read them; NULL when there is none. Valid until the next change of the disk. */
const uint8_t *crash_io_bytes(const struct crash_io *d, const char *name, int64_t *ret_size);
/* Puts bytes into both images, making the file when it is missing. */
void crash_io_poke(struct crash_io *d, const char *name, int64_t offset, const void *p, size_t n);
/* Cuts or grows (with zeros) the file, durably. */
void crash_io_resize(struct crash_io *d, const char *name, int64_t size);
/* Takes the file away, durably. */
void crash_io_unlink(struct crash_io *d, const char *name);

struct crash_io_counts {
    uint64_t reads, bytes_read, writes, syncs,
        changes; /* changes: calls that change something, syncs among them */
    uint64_t faults, lies;
    int open_files;
    int64_t bytes; /* that files take */
};
struct crash_io_counts crash_io_counts(const struct crash_io *d);
