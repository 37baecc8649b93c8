#include "http/query.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int hex_value(uint8_t c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

bool percent_decode(struct span text, bool plus_is_blank, struct buf *out) {
    uint8_t *to = buf_reserve(out, text.n);
    for (size_t i = 0; i < text.n; i++) {
        uint8_t c = text.p[i];
        if (c == '%') {
            int high = text.n - i > 2 ? hex_value(text.p[i + 1]) : -1;
            int low = high >= 0 ? hex_value(text.p[i + 2]) : -1;
            if (low < 0)
                return false;
            c = (uint8_t)(high * 16 + low);
            i += 2;
        } else if (c == '+' && plus_is_blank) {
            c = ' ';
        }
        if (c == '\0')
            return false;
        *to++ = c;
        out->n++;
    }
    return true;
}

bool number_parse(struct span text, uint64_t most, uint64_t *ret_value) {
    uint64_t value = 0;
    if (text.n == 0 || (text.n > 1 && text.p[0] == '0'))
        return false;
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] < '0' || text.p[i] > '9')
            return false;
        uint64_t digit = (uint64_t)(text.p[i] - '0');
        if (digit > most || value > (most - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *ret_value = value;
    return true;
}

/* Cuts the next parameter off: its name and value as sent. False at the end. */
static bool next_parameter(struct span *rest, struct span *ret_name, struct span *ret_value) {
    if (rest->n == 0)
        return false;
    const uint8_t *end = memchr(rest->p, '&', rest->n);
    size_t n = end == NULL ? rest->n : (size_t)(end - rest->p);
    const uint8_t *mark = n > 0 ? memchr(rest->p, '=', n) : NULL;
    size_t name_n = mark == NULL ? n : (size_t)(mark - rest->p);
    *ret_name = span_of(rest->p, name_n);
    *ret_value = mark == NULL ? span_of(rest->p + n, 0) : span_of(mark + 1, n - name_n - 1);
    size_t taken = end == NULL ? n : n + 1;
    *rest = span_of(rest->p + taken, rest->n - taken);
    return true;
}

static size_t name_index(const char *const names[], struct span name) {
    size_t i = 0;
    while (names[i] != NULL && !span_equal_str(name, names[i]))
        i++;
    return i;
}

/* A name from outside, fit for a message. */
static void add_unknown(struct field_errors *errors, struct span name) {
    char text[64];
    struct span cut = span_cut_utf8(name, sizeof text - 1);
    if (!span_is_utf8(cut))
        cut = span_str("?");
    if (cut.n > 0)
        memcpy(text, cut.p, cut.n);
    text[cut.n] = '\0';
    field_error_add(errors, "", text, "unknown_field", "is not known here");
}

void query_read(struct span query, const char *const names[], struct span values[],
                struct buf *scratch, struct field_errors *errors) {
    size_t count = 0;
    while (names[count] != NULL)
        count++;
    assert(count <= QUERY_PARAMETERS_MAX);
    memset(values, 0, count * sizeof values[0]);
    buf_clear(scratch);
    buf_reserve(scratch, query.n); /* decoding never grows: what lies in it will not move */

    struct span name, value;
    while (next_parameter(&query, &name, &value)) {
        if (name.n == 0 && value.n == 0)
            continue; /* "&&", and a query that is empty */
        size_t at = scratch->n;
        bool is_good = percent_decode(name, true, scratch);
        name = span_of(scratch->p + at, scratch->n - at);
        size_t i = name_index(names, name);
        if (i == count || !is_good) {
            add_unknown(errors, name);
            continue;
        }
        at = scratch->n;
        is_good = percent_decode(value, true, scratch);
        if (!is_good)
            field_error_add(errors, "", names[i], "bad_encoding", "is not percent-encoded text");
        else if (values[i].p != NULL)
            field_error_add(errors, "", names[i], "conflict", "is given twice");
        values[i] = span_of(scratch->p + at, scratch->n - at);
    }
}

uint64_t parameter_number(struct span value, const char *name, uint64_t low, uint64_t high,
                          uint64_t fallback, struct field_errors *errors) {
    if (value.p == NULL)
        return fallback;
    uint64_t number;
    if (number_parse(value, high, &number) && number >= low)
        return number;
    field_error_add(errors, "", name, "out_of_range",
                    "must be a whole number from %" PRIu64 " to %" PRIu64, low, high);
    return fallback;
}

int parameter_choice(struct span value, const char *name, const char *const names[],
                     struct field_errors *errors) {
    if (value.p == NULL)
        return 0;
    char list[sizeof errors->items[0].message];
    size_t n = 0;
    for (int i = 0; names[i] != NULL; i++) {
        if (span_equal_str(value, names[i]))
            return i;
        int more = snprintf(list + n, sizeof list - n, "%s%s", i == 0 ? "" : ", ", names[i]);
        assert(more > 0 && (size_t)more < sizeof list - n);
        n += (size_t)more;
    }
    field_error_add(errors, "", name, "out_of_range", "must be one of %s", list);
    return 0;
}

bool parameter_flag(struct span value, const char *name, struct field_errors *errors) {
    if (span_equal_str(value, "yes") || span_equal_str(value, "true"))
        return true;
    if (value.p != NULL && !span_equal_str(value, "no") && !span_equal_str(value, "false"))
        field_error_add(errors, "", name, "out_of_range", "must be yes or no");
    return false;
}

struct span parameter_text(struct span value, const char *name, size_t most,
                           struct field_errors *errors) {
    if (!span_is_utf8(value))
        field_error_add(errors, "", name, "bad_encoding", "must be UTF-8");
    else if (value.n > most)
        field_error_add(errors, "", name, "too_long", "must be at most %zu bytes", most);
    else
        return value;
    return span_of(NULL, 0);
}
