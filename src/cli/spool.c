#include "cli/spool.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COPY_BYTES = 256 * 1024, PATH_BYTES = 4096 };

/* For file systems that have no files without a name. */
static int open_and_unlink(const char *directory) {
    char path[PATH_BYTES];
    int n = snprintf(path, sizeof path, "%s/nixie-XXXXXX", directory);
    if (n >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        (void)unlink(path);
    return fd;
}

int spool_open(const struct cli *cli) {
    const char *directory = getenv("TMPDIR");
    if (directory == NULL || directory[0] == '\0')
        directory = "/tmp";
    int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL))
        fd = open_and_unlink(directory);
    if (fd < 0)
        cli_error(cli, "a temporary file in %s: %s", directory, strerror(errno));
    return fd;
}

static int write_all(int fd, const uint8_t *p, size_t n) {
    while (n > 0) {
        ssize_t written = write(fd, p, n);
        if (written < 0 && errno != EINTR)
            return -1;
        if (written > 0) {
            p += written;
            n -= (size_t)written;
        }
    }
    return 0;
}

int spool_copy(const struct cli *cli, int from, const char *from_name, int to,
               const char *to_name) {
    uint8_t *bytes = mem_alloc(COPY_BYTES);
    const char *failed = NULL;
    ssize_t got = 1;
    while (got != 0 && failed == NULL) {
        got = read(from, bytes, COPY_BYTES);
        if (got < 0 && errno != EINTR)
            failed = from_name;
        else if (got > 0 && write_all(to, bytes, (size_t)got) != 0)
            failed = to_name;
    }
    if (failed != NULL)
        cli_error(cli, "%s: %s", failed, strerror(errno));
    free(bytes);
    return failed != NULL ? CLI_FAILED : -1;
}
