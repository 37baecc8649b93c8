/* What the fuzz targets of request bodies check of what they got. */
#pragma once

#include "base/bytes.h"
#include "model/fields.h"

#include <assert.h>

static inline void check_errors(const struct field_errors *errors) {
    for (unsigned i = 0; i < errors->count; i++) {
        assert(span_is_utf8(span_str(errors->items[i].field)));
        assert(span_is_utf8(span_str(errors->items[i].message)) &&
               errors->items[i].message[0] != '\0');
    }
}

/* Touches every byte, so that a span gone astray is found. */
static inline void touch(struct span s) {
    volatile uint8_t sum = 0;
    for (size_t i = 0; i < s.n; i++)
        sum = (uint8_t)(sum + s.p[i]);
}
