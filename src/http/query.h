/* Percent-encoding, and the parameters of a query. Pure functions. Any thread. */
#pragma once

#include "base/bytes.h"
#include "model/fields.h"

#include <stdbool.h>
#include <stdint.h>

/* Appends the decoded bytes to `out`; false when an escape is malformed or stands for NUL (then
 * some may have been appended). */
bool percent_decode(struct span text, bool plus_is_blank, struct buf *out);

/* A whole number as written here: digits alone, no leading zero, from 0 to `most`. */
bool number_parse(struct span text, uint64_t most, uint64_t *ret_value);

#define QUERY_PARAMETERS_MAX 8

/* Decodes the parameters of a query into values[i] for names[i] (NULL-terminated, at most
 * QUERY_PARAMETERS_MAX); a value is {NULL, 0} when it is not given. What is unknown, given twice or
 * ill encoded becomes an error. The values live in `scratch`, which is cleared first. */
void query_read(struct span query, const char *const names[], struct span values[],
                struct buf *scratch, struct field_errors *errors);

/* One of a NULL-terminated list of names: its index; 0 when it is not given, or wrong (then with an
 * error). */
int parameter_choice(struct span value, const char *name, const char *const names[],
                     struct field_errors *errors);

/* yes, true or no, false; false when it is not given, or wrong (then with an error). */
bool parameter_flag(struct span value, const char *name, struct field_errors *errors);

/* Text of at most `most` bytes of UTF-8; {NULL, 0} when it is not given, or wrong (then with an
 * error). */
struct span parameter_text(struct span value, const char *name, size_t most,
                           struct field_errors *errors);

/* The parameter as a whole number of the range; `fallback` when it is not given, or wrong (then
 * with an error). */
uint64_t parameter_number(struct span value, const char *name, uint64_t low, uint64_t high,
                          uint64_t fallback, struct field_errors *errors);
