/* For the tests of what reads JSON: the errors it found, and whether they are those to be expected. */
#pragma once

#include "check.h"

#include "model/fields.h"

static struct field_errors errors;

/* The first error, which may have others behind it. */
static inline bool said(const char *field, const char *code) {
    bool is_so = errors.count >= 1 && strcmp(errors.items[0].field, field) == 0 &&
                 strcmp(errors.items[0].code, code) == 0;
    for (unsigned i = 0; !is_so && i < errors.count; i++)
        printf("# said: %s %s %s\n", errors.items[i].field, errors.items[i].code,
               errors.items[i].message);
    return is_so;
}

static inline bool said_alone(const char *field, const char *code) {
    return said(field, code) && errors.count == 1;
}
