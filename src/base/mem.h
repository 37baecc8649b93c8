/* Memory. Running out ends the process with a message: a queue server that cannot allocate a few
 * bytes cannot promise anything, and what it acknowledged is on disk. Big, input-driven amounts are
 * bounded by limits before they get here. Any thread. */
#pragma once

#include <stddef.h>

/* Zeroed. */
void *mem_alloc(size_t n) __attribute__((malloc, returns_nonnull));
/* realloc; the new bytes are undefined. */
void *mem_grow(void *p, size_t n) __attribute__((returns_nonnull));
char *mem_strdup(const char *s) __attribute__((malloc, returns_nonnull, nonnull));
