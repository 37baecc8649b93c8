/* What a command reads besides its arguments: whole files, lines, lists of ids. All of it bounded.
 * One thread. */
#pragma once

#include "base/bytes.h"
#include "cli/context.h"

#define INPUT_LINE_MAX ((size_t)64 * 1024 * 1024) /* of a line that holds a message as JSON */

/* Appends a file ("-": standard input) to ret. Returns -1, or the exit code when it cannot be read
 * or is longer than bytes_max (ret's max must be at least one more); the error is said then. */
int input_read_file(const struct cli *cli, const char *path, size_t bytes_max, struct buf *ret);

/* Lines from a descriptor, without their newlines; the last one needs none. */
struct input_lines {
    int fd;
    const char *name; /* of what is read, for messages: "standard input" unless changed */
    size_t line_max;
    struct buf pending;
    size_t consumed; /* bytes of pending that were handed out */
    size_t scanned;  /* bytes of pending known to hold no newline after consumed */
    bool is_at_end;
    uint64_t count; /* lines handed out */
};

void input_lines_init(struct input_lines *in, int fd, size_t line_max);
void input_lines_release(struct input_lines *in);
/* 1: a line, valid until the next call; 0: the end; -1: error, said. */
int input_lines_next(struct input_lines *in, const struct cli *cli, struct span *ret_line);

/* The ids a command was given: its arguments, or with "-" the lines of standard input, each an id
 * or a JSON object with an `id` and perhaps a `lease` (as nixie ls and nixie claim print them). */
struct input_ids {
    char **args;
    int args_left;
    bool is_reading;
    struct input_lines lines;
    struct buf lease; /* NUL-terminated when not empty */
};

struct input_id {
    uint64_t id;
    struct span lease; /* empty: none was read; valid until the next call */
};

/* Checks the arguments: -1, or CLI_USAGE and said; then there is nothing to release. */
int input_ids_init(struct input_ids *in, const struct cli *cli, char **args, int n);
void input_ids_release(struct input_ids *in);
/* As input_lines_next. */
int input_ids_next(struct input_ids *in, const struct cli *cli, struct input_id *ret);

/* Checks a queue's name: -1, or CLI_USAGE and said. */
int input_check_queue(const struct cli *cli, const char *name);
/* Checks that an argument is UTF-8 of at most bytes_max bytes: -1, or CLI_USAGE and said. NULL is
 * fine. */
int input_check_text(const struct cli *cli, const char *what, const char *text, size_t bytes_max);
