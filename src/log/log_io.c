#include "log/log_io.h"

#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

struct log_dir {
    int fd;
    int lock_fd;
};

int log_dir_open(const char *path, struct log_dir **ret_dir) {
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return -errno;
    return log_dir_look(path, ret_dir);
}

int log_dir_look(const char *path, struct log_dir **ret_dir) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    struct log_dir *dir = mem_alloc(sizeof *dir);
    dir->fd = fd;
    dir->lock_fd = -1;
    *ret_dir = dir;
    return 0;
}

void log_dir_free(struct log_dir *dir) {
    if (!dir)
        return;
    if (dir->lock_fd >= 0)
        close(dir->lock_fd);
    close(dir->fd);
    free(dir);
}

static int dir_fd(void *ctx) {
    const struct log_dir *dir = ctx;
    return dir->fd;
}

static int posix_open(void *ctx, const char *name, bool create, int64_t size) {
    int flags = O_RDWR | O_CLOEXEC | (create ? O_CREAT | O_EXCL : 0);
    int fd = openat(dir_fd(ctx), name, flags, 0600);
    if (fd < 0)
        return -errno;
    if (create) {
        int e = posix_fallocate(fd, 0, size);
        if (e == 0 && fdatasync(fd) != 0)
            e = errno;
        if (e != 0) {
            close(fd);
            unlinkat(dir_fd(ctx), name, 0);
            return -e;
        }
    }
    return fd;
}

static int posix_close(void *ctx, int handle) {
    (void)ctx;
    return close(handle) == 0 ? 0 : -errno;
}

static int posix_read(void *ctx, int handle, int64_t offset, void *p, size_t n) {
    (void)ctx;
    for (size_t done = 0; done < n;) {
        ssize_t got = pread(handle, (uint8_t *)p + done, n - done, offset + (int64_t)done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? -errno : -EIO;
        done += (size_t)got;
    }
    return 0;
}

static int posix_write(void *ctx, int handle, int64_t offset, const void *p, size_t n) {
    (void)ctx;
    for (size_t done = 0; done < n;) {
        ssize_t put = pwrite(handle, (const uint8_t *)p + done, n - done, offset + (int64_t)done);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return put < 0 ? -errno : -EIO;
        done += (size_t)put;
    }
    return 0;
}

static int posix_sync(void *ctx, int handle) {
    (void)ctx;
    return fdatasync(handle) == 0 ? 0 : -errno;
}

static int posix_sync_dir(void *ctx) {
    return fsync(dir_fd(ctx)) == 0 ? 0 : -errno;
}

static int posix_remove(void *ctx, const char *name) {
    return unlinkat(dir_fd(ctx), name, 0) == 0 ? 0 : -errno;
}

static int posix_rename(void *ctx, const char *from, const char *to) {
    return renameat(dir_fd(ctx), from, dir_fd(ctx), to) == 0 ? 0 : -errno;
}

static int posix_list(void *ctx, void (*f)(void *arg, const char *name, int64_t size), void *arg) {
    int fd = openat(dir_fd(ctx), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    DIR *dir = fdopendir(fd);
    if (!dir) {
        int e = errno;
        close(fd);
        return -e;
    }
    for (const struct dirent *entry; (entry = readdir(dir));) {
        struct stat st;
        if (fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
            f(arg, entry->d_name, st.st_size);
    }
    closedir(dir);
    return 0;
}

static void posix_prefetch(void *ctx, int handle, int64_t offset, int64_t n) {
    (void)ctx;
    (void)posix_fadvise(handle, offset, n, POSIX_FADV_WILLNEED);
}

static int posix_lock(void *ctx) {
    struct log_dir *dir = ctx;
    int fd = openat(dir->fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        int e = errno;
        close(fd);
        return -e;
    }
    /* For people who look: the lock itself is the kernel's, and goes with the process. */
    if (ftruncate(fd, 0) != 0 || dprintf(fd, "%ld\n", (long)getpid()) < 0) {
        int e = errno;
        close(fd);
        return -e;
    }
    dir->lock_fd = fd;
    return 0;
}

static void posix_unlock(void *ctx) {
    struct log_dir *dir = ctx;
    if (dir->lock_fd >= 0)
        close(dir->lock_fd);
    dir->lock_fd = -1;
}

const struct log_io log_io_posix = {
    .open = posix_open,
    .close = posix_close,
    .read = posix_read,
    .write = posix_write,
    .sync = posix_sync,
    .sync_dir = posix_sync_dir,
    .remove = posix_remove,
    .rename = posix_rename,
    .list = posix_list,
    .prefetch = posix_prefetch,
    .lock = posix_lock,
    .unlock = posix_unlock,
};
