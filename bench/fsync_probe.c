/* fsync_probe: what the disk itself can do, to hold a server's figures against.
 *
 * Latency: the median time of one pwrite of --bytes plus one fdatasync, appending into a file that was allocated before. By default
 * the file is allocated as a log segment is (posix_fallocate: the blocks are reserved and read as zeros); --zeroed writes the zeros
 * out beforehand, which spares the file system the bookkeeping of first use and is the fastest a file can be.
 * Bandwidth: pwrite of 1 MiB plus fdatasync, again and again, in MB/s.
 *
 * The file is made in --dir, which must be on the file system under test, and removed at the end. */
#include "base/mem.h"
#include "cli/load.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MIB (1024 * 1024)

struct probe {
    const char *dir;
    size_t bytes;
    unsigned long count, mib;
    bool is_zeroed;
};

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static bool fail(const char *what) {
    fprintf(stderr, "fsync_probe: %s: %s\n", what, strerror(errno));
    return false;
}

static bool write_zeros(int fd, off_t bytes) {
    char *zeros = mem_alloc(MIB);
    bool ok = true;
    for (off_t at = 0; ok && at < bytes; at += MIB)
        ok = pwrite(fd, zeros, MIB, at) == MIB;
    free(zeros);
    return ok;
}

/* A file of at least `bytes` in the directory, already without a name, allocated and synced. -1 on failure. */
static int open_file(const struct probe *p, size_t bytes) {
    char path[4096];
    snprintf(path, sizeof path, "%s/probe-XXXXXX", p->dir);
    int fd = mkstemp(path);
    if (fd < 0) {
        fail(path);
        return -1;
    }
    unlink(path);
    off_t size = (off_t)((bytes + MIB - 1) / MIB * MIB);
    errno = posix_fallocate(fd, 0, size);
    if (errno != 0 || (p->is_zeroed && !write_zeros(fd, size)) || fsync(fd) != 0) {
        fail("cannot allocate the file");
        close(fd);
        return -1;
    }
    return fd;
}

/* Writes `count` pieces of `bytes` one behind the other, each synced; the time of each, and of all. */
static bool append_synced(const struct probe *p, size_t bytes, unsigned long count,
                          struct load_histogram *times, int64_t *ret_ns) {
    int fd = open_file(p, bytes * count);
    if (fd < 0)
        return false;
    char *piece = mem_alloc(bytes);
    load_fill(piece, bytes);
    bool ok = true;
    int64_t begin = now_ns(), last = begin;
    for (unsigned long i = 0; ok && i < count; i++) {
        ok = pwrite(fd, piece, bytes, (off_t)(i * bytes)) == (ssize_t)bytes && fdatasync(fd) == 0;
        int64_t now = now_ns();
        load_histogram_add(times, now - last);
        last = now;
    }
    if (!ok)
        fail("write");
    free(piece);
    close(fd);
    *ret_ns = last - begin;
    return ok;
}

static bool probe_run(const struct probe *p) {
    struct load_histogram *times = mem_alloc(2 * sizeof *times);
    int64_t small_ns = 0, big_ns = 0;
    bool ok = append_synced(p, p->bytes, p->count, &times[0], &small_ns) &&
              append_synced(p, MIB, p->mib, &times[1], &big_ns);
    if (ok)
        printf("{\"bytes\":%zu,\"count\":%lu,\"zeroed\":%s,\"p50_us\":%.2f,\"p90_us\":%.2f,"
               "\"p99_us\":%.2f,\"mb_per_second\":%.1f}\n",
               p->bytes, p->count, p->is_zeroed ? "true" : "false",
               (double)load_histogram_at(&times[0], 0.5) / 1e3,
               (double)load_histogram_at(&times[0], 0.9) / 1e3,
               (double)load_histogram_at(&times[0], 0.99) / 1e3,
               (double)p->mib * MIB / ((double)big_ns / 1e3));
    free(times);
    return ok;
}

static const char usage[] =
    "usage: fsync_probe --dir DIR [--bytes N] [--count N] [--mib N] [--zeroed]\n";

int main(int argc, char **argv) {
    static const struct option known[] = {
        {"dir", required_argument, NULL, 'd'},   {"bytes", required_argument, NULL, 'b'},
        {"count", required_argument, NULL, 'n'}, {"mib", required_argument, NULL, 'm'},
        {"zeroed", no_argument, NULL, 'z'},      {NULL, 0, NULL, 0},
    };
    struct probe p = {.bytes = 400, .count = 2000, .mib = 256};
    for (int o; (o = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (o == 'd')
            p.dir = optarg;
        else if (o == 'b')
            p.bytes = strtoul(optarg, NULL, 10);
        else if (o == 'n')
            p.count = strtoul(optarg, NULL, 10);
        else if (o == 'm')
            p.mib = strtoul(optarg, NULL, 10);
        else if (o == 'z')
            p.is_zeroed = true;
        else
            p.dir = NULL;
    }
    if (p.dir == NULL || p.bytes < 1 || p.bytes > MIB || p.count < 1 || p.mib < 1) {
        fputs(usage, stderr);
        return 2;
    }
    return probe_run(&p) ? 0 : 1;
}
