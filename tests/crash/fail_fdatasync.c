/* Preloaded by test_disk.py: the first FAIL_FDATASYNC calls of fdatasync or fsync work, every later one fails with EIO. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static atomic_long calls;

static int sync_or_fail(const char *name, int fd) {
    const char *good = getenv("FAIL_FDATASYNC");
    long n = atomic_fetch_add(&calls, 1) + 1;
    if (good && n > strtol(good, NULL, 10)) {
        char text[64];
        int length = snprintf(text, sizeof text, "test: %s number %ld fails\n", name, n);
        if (write(2, text, (size_t)length) < 0)
            abort();
        errno = EIO;
        return -1;
    }
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    return real(fd);
}

int fdatasync(int fd) {
    return sync_or_fail("fdatasync", fd);
}

int fsync(int fd) {
    return sync_or_fail("fsync", fd);
}
