/* jansson as a second opinion on JSON. A file of its own, because its names and those of base/json.h meet. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Whether jansson takes text with the rules of base/json.h. */
bool oracle_takes(const void *text, size_t n);

/* Whether it takes both, and takes them for equal values. */
bool oracle_finds_equal(const void *a, size_t a_bytes, const void *b, size_t b_bytes);
