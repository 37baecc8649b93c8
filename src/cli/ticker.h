/* A line on standard error that counts while something long goes on; nothing when that is no
 * terminal, or quiet is asked for. One thread. */
#pragma once

#include "cli/context.h"

struct ticker {
    const char *word; /* "exported" */
    uint64_t total;   /* 0: nobody knows */
    bool is_shown;    /* there is a terminal to show it on */
    bool has_line;
    int64_t started_us, shown_us;
};

void ticker_init(struct ticker *t, const struct cli *cli, const char *word, uint64_t total);
/* "12,418 of 20,000 exported | 5,000/s", a few times a second however often it is called. */
void ticker_count(struct ticker *t, uint64_t count);
/* Clears the line: before anything else is said, and at the end. */
void ticker_clear(struct ticker *t);
