/* What a command is about: a queue and a filter, as its arguments say. The server judges the
 * filter; what it says of it is shown here. One thread. */
#pragma once

#include "cli/call.h"

struct scope {
    const char *queue; /* NULL: not given */
    struct buf filter; /* NUL-terminated; empty: not given */
};

/* Reads arguments [QUEUE] [FILTER...]: the first is the queue unless it holds a colon or begins
 * with a parenthesis; all others, joined by spaces, are the filter. With `queue` (from an option)
 * all of them are. -1, or CLI_USAGE and said; release it in any case. */
int scope_read(struct scope *s, const struct cli *cli, const char *queue, char **args, int n);
void scope_release(struct scope *s);

bool scope_has_filter(const struct scope *s);
const char *scope_filter(const struct scope *s); /* "" when there is none */

/* Appends "q=FILTER" and "queue=QUEUE" to the query of r->path, as far as they were given. */
void scope_add_query(const struct scope *s, struct call *r);

/* As call_check; when the filter is what was wrong, it is shown with marks under the place. */
int scope_check(const struct scope *s, const struct call *r, const char *what);
