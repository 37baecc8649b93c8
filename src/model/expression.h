/* Regular expressions (PCRE2) from outside: their form is checked, what they may cost is bounded by a
 * count, not by a clock. Any thread; an expression is read-only, its memory is one thread's. */
#pragma once

#include "base/bytes.h"

struct expression_error {
    size_t at; /* in bytes */
    char text[160];
};

struct expression;
/* Keeps no part of `text`. NULL and *ret_error when it is ill-formed. */
struct expression *expression_new(struct span text, struct expression_error *ret_error);
void expression_free(struct expression *e); /* NULL is fine */

/* What matching needs besides the expression, for any number of them: all zero at first. */
struct expression_memory {
    void *memory, *context, *data;
};
void expression_memory_release(struct expression_memory *m);

/* True when it is found anywhere in the text. One that would take more than some milliseconds
 * (counted, not timed) is not found. */
bool expression_matches(const struct expression *e, struct span text, struct expression_memory *m);
