/* The file of nixie export: a manifest and a letter a line, as docs/dead-letters-export.md defines
 * it. Nothing here asks a server. One thread. */
#pragma once

#include "base/json.h"
#include "base/limits.h"
#include "cli/context.h"
#include "cli/input.h"

#define LETTERS_FILE_VERSION 1
#define LETTERS_CHECKSUM_BYTES 52 /* of the member of the manifest, and its bracket */

/* -- the checksum ---------------------------------------------------------------------------- */

/* Of lines, one after the other: each sum is the hash of the one before it and of the line. */
struct letters_sum {
    uint8_t bytes[16];
};
void letters_sum_add(struct letters_sum *sum, struct span line); /* begins zeroed */

/* -- the manifest ---------------------------------------------------------------------------- */

struct manifest {
    char queue[LIMIT_QUEUE_NAME + 1];
    const char *filter; /* NULL: none. Of a manifest that was read: always NULL */
    uint64_t count;     /* letters */
    uint64_t fence;     /* the highest dead_seq among them, 0 when there are none */
    int64_t exported_at;
};

/* Appends the line, without its newline, with the checksum over it and the letters' lines. */
void manifest_write(const struct manifest *m, const struct letters_sum *sum, struct buf *out);

/* -- reading --------------------------------------------------------------------------------- */

struct letters_reader {
    const struct cli *cli;
    const char *name; /* of the file, for messages */
    struct input_lines lines;
    struct manifest manifest;
    struct letters_sum head;                  /* hash of the manifest before its checksum */
    uint8_t checksum[LETTERS_CHECKSUM_BYTES]; /* as it says it */
};

/* Reads from the beginning of fd, which must be a file. -1 when the manifest was read, else
 * CLI_FAILED and said. Release it in any case. */
int letters_reader_init(struct letters_reader *r, const struct cli *cli, const char *name, int fd);
void letters_reader_release(struct letters_reader *r);
/* 1: the line of the next letter, valid until the next call; 0: the end; -1: error, said. */
int letters_reader_next(struct letters_reader *r, struct span *ret_line);
/* Of the line that was read last; the manifest is line 1. */
uint64_t letters_reader_line(const struct letters_reader *r);

/* Reads a whole file and checks everything it says of itself: that each line is a letter, in the
 * order of their deaths, how many there are, and the checksum. -1 and the manifest, or CLI_FAILED
 * and said with the line. */
int letters_verify(const struct cli *cli, const char *name, int fd, struct manifest *ret);
