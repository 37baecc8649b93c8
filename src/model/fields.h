/* Reading members of a JSON object with a range each, collecting what is wrong for a 422. Any
 * thread. */
#pragma once

#include "base/json.h"

#include <stdbool.h>
#include <stdint.h>

#define FIELD_ERRORS_MAX 16 /* more are dropped: nobody reads them */

struct field_error {
    char field[96];
    /* static: required wrong_type out_of_range too_long not_allowed unknown_field bad_encoding
     * conflict bad_filter bad_regex */
    const char *code;
    char message[160];
    bool has_position;
    size_t position, length; /* in bytes from 0, of what is wrong within a text */
};

struct field_errors {
    unsigned count;
    struct field_error items[FIELD_ERRORS_MAX];
};

void field_error_add(struct field_errors *e, const char *prefix, const char *field,
                     const char *code, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* The same about a part of the field's text. */
void field_error_add_at(struct field_errors *e, const char *field, const char *code,
                        size_t position, size_t length, const char *message);

/* An object being read: `prefix` is put before each member's name in errors ("[2]." or "backoff.").
 */
struct fields {
    const struct json *object;
    const char *prefix;
    struct field_errors *errors;
};

/* Each gives `fallback` when the member is absent (or null, where null_is_absent); on a wrong type
 * or range an error is added and the fallback given. */
int64_t field_int(const struct fields *f, const char *name, int64_t low, int64_t high,
                  int64_t fallback);
int64_t field_int_or_null(const struct fields *f, const char *name, int64_t low, int64_t high,
                          int64_t fallback);
double field_number(const struct fields *f, const char *name, double low, double high,
                    double fallback);
bool field_bool(const struct fields *f, const char *name, bool fallback);
/* At most `most` bytes, else too_long; absent is {NULL, 0}. */
struct span field_string(const struct fields *f, const char *name, size_t most);
/* One of a NULL-terminated list of names; its index. */
int field_choice(const struct fields *f, const char *name, const char *const names[], int fallback);

/* An unknown_field error for each member not in the NULL-terminated list. */
void fields_known(const struct fields *f, const char *const names[]);
