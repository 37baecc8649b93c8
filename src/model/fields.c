#include "model/fields.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* -- errors ---------------------------------------------------------------------------------- */

/* Appends as much of `text` as fits, without cutting a character in two: names of members come from
 * outside. */
static void append_cut(char *out, size_t size, size_t *n, const char *text) {
    struct span cut = span_cut_utf8(span_str(text), size - 1 - *n);
    if (cut.n > 0)
        memcpy(out + *n, cut.p, cut.n);
    *n += cut.n;
    out[*n] = '\0';
}

void field_error_add(struct field_errors *e, const char *prefix, const char *field,
                     const char *code, const char *format, ...) {
    if (e->count == FIELD_ERRORS_MAX)
        return;
    struct field_error *item = &e->items[e->count++];
    item->code = code;
    item->has_position = false;

    size_t n = 0;
    append_cut(item->field, sizeof item->field, &n, prefix);
    append_cut(item->field, sizeof item->field, &n, field);

    char text[2 * sizeof item->message];
    va_list args;
    va_start(args, format);
    int written = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    assert(written >= 0);
    n = 0;
    append_cut(item->message, sizeof item->message, &n, text);
}

void field_error_add_at(struct field_errors *e, const char *field, const char *code,
                        size_t position, size_t length, const char *message) {
    if (e->count == FIELD_ERRORS_MAX)
        return;
    field_error_add(e, "", field, code, "%s", message);
    struct field_error *item = &e->items[e->count - 1];
    item->has_position = true;
    item->position = position;
    item->length = length;
}

/* -- members --------------------------------------------------------------------------------- */

static int64_t read_int(const struct fields *f, const char *name, const struct json *v, int64_t low,
                        int64_t high, int64_t fallback) {
    const char *code = "wrong_type";
    if (json_is(v, JSON_INTEGER)) {
        int64_t value = json_integer(v);
        if (value >= low && value <= high)
            return value;
        code = "out_of_range";
    }
    field_error_add(f->errors, f->prefix, name, code,
                    "must be a whole number from %" PRId64 " to %" PRId64, low, high);
    return fallback;
}

int64_t field_int(const struct fields *f, const char *name, int64_t low, int64_t high,
                  int64_t fallback) {
    const struct json *v = json_get(f->object, name);
    return v == NULL ? fallback : read_int(f, name, v, low, high, fallback);
}

int64_t field_int_or_null(const struct fields *f, const char *name, int64_t low, int64_t high,
                          int64_t fallback) {
    const struct json *v = json_get(f->object, name);
    return v == NULL || json_is(v, JSON_NULL) ? fallback
                                              : read_int(f, name, v, low, high, fallback);
}

double field_number(const struct fields *f, const char *name, double low, double high,
                    double fallback) {
    const struct json *v = json_get(f->object, name);
    if (v == NULL)
        return fallback;

    const char *code = "wrong_type";
    if (json_is(v, JSON_INTEGER) || json_is(v, JSON_REAL)) {
        double value = json_number(v);
        if (value >= low && value <= high)
            return value;
        code = "out_of_range";
    }
    field_error_add(f->errors, f->prefix, name, code, "must be a number from %g to %g", low, high);
    return fallback;
}

bool field_bool(const struct fields *f, const char *name, bool fallback) {
    const struct json *v = json_get(f->object, name);
    if (v == NULL)
        return fallback;
    if (json_is(v, JSON_BOOL))
        return json_bool(v);
    field_error_add(f->errors, f->prefix, name, "wrong_type", "must be true or false");
    return fallback;
}

struct span field_string(const struct fields *f, const char *name, size_t most) {
    const struct json *v = json_get(f->object, name);
    if (v == NULL)
        return span_of(NULL, 0);
    if (!json_is(v, JSON_STRING)) {
        field_error_add(f->errors, f->prefix, name, "wrong_type", "must be a string");
        return span_of(NULL, 0);
    }
    struct span value = json_string(v);
    if (value.n <= most)
        return value;
    field_error_add(f->errors, f->prefix, name, "too_long", "must be at most %zu bytes", most);
    return span_of(NULL, 0);
}

int field_choice(const struct fields *f, const char *name, const char *const names[],
                 int fallback) {
    const struct json *v = json_get(f->object, name);
    if (v == NULL)
        return fallback;
    if (json_is(v, JSON_STRING)) {
        for (int i = 0; names[i] != NULL; i++) {
            if (span_equal_str(json_string(v), names[i]))
                return i;
        }
    }

    char list[sizeof f->errors->items[0].message] = "must be one of";
    size_t n = strlen(list);
    for (int i = 0; names[i] != NULL; i++) {
        append_cut(list, sizeof list, &n, i == 0 ? " " : ", ");
        append_cut(list, sizeof list, &n, names[i]);
    }
    field_error_add(f->errors, f->prefix, name,
                    json_is(v, JSON_STRING) ? "out_of_range" : "wrong_type", "%s", list);
    return fallback;
}

/* -- unknown members ------------------------------------------------------------------------- */

struct known {
    const struct fields *fields;
    const char *const *names;
};

static bool check_known(void *ctx, const char *name, const struct json *member) {
    (void)member;
    const struct known *known = ctx;
    for (size_t i = 0; known->names[i] != NULL; i++) {
        if (strcmp(known->names[i], name) == 0)
            return true;
    }
    struct field_errors *errors = known->fields->errors;
    field_error_add(errors, known->fields->prefix, name, "unknown_field", "is not known here");
    return errors->count < FIELD_ERRORS_MAX;
}

void fields_known(const struct fields *f, const char *const names[]) {
    if (!json_is(f->object, JSON_OBJECT))
        return;
    struct known known = {.fields = f, .names = names};
    json_each(f->object, check_known, &known);
}
