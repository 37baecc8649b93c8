/* Pages of dead letters (GET /dead), for whoever lists or exports them. One thread. */
#pragma once

#include "cli/scope.h"

#define LETTERS_CURSOR_MAX 1024

struct letters {
    /* what is asked for */
    const struct scope *scope;
    bool is_oldest_first;
    bool has_payload;
    bool is_exact; /* with attempts, and times in milliseconds */
    /* where it stands */
    char cursor[LETTERS_CURSOR_MAX + 1]; /* of the next page; empty: the first */
    bool is_last;                        /* there is no page after the newest */
    bool is_complete;                    /* false: the server's work for one call ended it early */
    int64_t looked_at;
};

/* Asks for the next page of at most `limit` (1..LIMIT_BATCH) letters. -1 and the array in
 * *ret_letters, which lives as long as r->reply; else the exit code, said. */
int letters_next(struct letters *l, struct call *r, int64_t limit, const struct json **ret_letters);

/* Says that a queue is not there: CLI_NOT_FOUND; -1 when it is. For a list that is empty. */
int letters_check_queue(struct call *r, const char *queue);

/* A member of a letter's death record, or NULL. */
const struct json *letter_death(const struct json *letter, const char *name);
