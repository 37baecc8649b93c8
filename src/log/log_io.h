/* Every file call of the log, in one small table, so that a simulator can lose power between any
 * two of them. The real table is `log_io_posix`. Calls return >= 0, or -errno. Names are relative
 * to the data directory `ctx` stands for. They are made by the log thread, but for `read` (any
 * thread) and those of opening (before the threads start). */
#pragma once

#include "base/bytes.h"

#include <stdint.h>
#include <sys/types.h>

struct log_io {
    /* Opens for reading and writing; a handle >= 0. `create` makes a new file of exactly `size`
     * bytes, allocated and reading as zeros
     * (-EEXIST when it is there, -ENOSPC when there is no room, and then nothing is left behind).
     */
    int (*open)(void *ctx, const char *name, bool create, int64_t size);
    int (*close)(void *ctx, int handle);

    /* Whole or an error: short transfers are continued inside. A read past the end is -EIO. */
    int (*read)(void *ctx, int handle, int64_t offset, void *p, size_t n);
    int (*write)(void *ctx, int handle, int64_t offset, const void *p, size_t n);

    /* The file's data (and what is needed to read it) is on disk when this returns 0. */
    int (*sync)(void *ctx, int handle);
    /* So are the directory's entries: files made, removed, renamed. */
    int (*sync_dir)(void *ctx);

    int (*remove)(void *ctx, const char *name);
    int (*rename)(void *ctx, const char *from, const char *to);

    /* Calls f for each file's name, in no order. */
    int (*list)(void *ctx, void (*f)(void *arg, const char *name, int64_t size), void *arg);

    /* A hint that a range will be read soon; never fails. */
    void (*prefetch)(void *ctx, int handle, int64_t offset, int64_t n);

    /* Takes the directory for this process: -EWOULDBLOCK when another has it. Held until the
     * process ends or `unlock`. */
    int (*lock)(void *ctx);
    void (*unlock)(void *ctx);
};

extern const struct log_io log_io_posix;

/* The context of log_io_posix: the directory, made when it is missing. -errno on failure. The
 * caller frees it. */
struct log_dir;
int log_dir_open(const char *path, struct log_dir **ret_dir);
/* The same for looking only: -ENOENT when it is missing. */
int log_dir_look(const char *path, struct log_dir **ret_dir);
void log_dir_free(struct log_dir *dir);
