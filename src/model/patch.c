/* Patches: an array of changes, each to one header or to one value of a JSON payload. */
#include "model/triage.h"

#include "base/json_edit.h"
#include "model/fields.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum {
    CHANGES_MAX = 32,
    PREFIX_SIZE = 64,
    VALUE_FACTOR = 8, /* numbers grow when they are written out again (9e14), by less than this */
};

/* Cuts the beginning off; false when path does not begin so. */
static bool cut_start(struct span *path, const char *start) {
    size_t n = strlen(start);
    if (path->n < n || memcmp(path->p, start, n) != 0)
        return false;
    *path = span_of(path->p + n, path->n - n);
    return true;
}

/* -- checking -------------------------------------------------------------------------------- */

static void check_path(const struct fields *f) {
    const struct json *v = json_get(f->object, "path");
    if (v == NULL) {
        field_error_add(f->errors, f->prefix, "path", "required", "is required");
        return;
    }
    struct span path = field_string(f, "path", SIZE_MAX);
    if (path.p == NULL)
        return;
    bool is_good;
    if (cut_start(&path, "header."))
        is_good = path.n > 0 && memchr(path.p, '\0', path.n) == NULL;
    else
        is_good = cut_start(&path, "payload.") && json_path_is_valid(path);
    if (!is_good)
        field_error_add(f->errors, f->prefix, "path", "out_of_range",
                        "must be header.NAME, or payload. and names between dots");
}

static void check_change(const struct json *v, const char *prefix, struct field_errors *errors) {
    static const char *const ops[] = {"set", "remove", NULL};
    static const char *const names[] = {"op", "path", "value", NULL};
    const struct fields f = {.object = v, .prefix = prefix, .errors = errors};
    if (json_get(v, "op") == NULL)
        field_error_add(errors, prefix, "op", "required", "is required");
    int op = field_choice(&f, "op", ops, -1);
    check_path(&f);
    bool has_value = json_get(v, "value") != NULL;
    if (op == 0 && !has_value)
        field_error_add(errors, prefix, "value", "required", "is required to set");
    if (op == 1 && has_value)
        field_error_add(errors, prefix, "value", "not_allowed", "is not for remove");
    fields_known(&f, names);
}

void patch_check(const struct json *patch, const char *field, struct field_errors *errors) {
    if (!json_is(patch, JSON_ARRAY)) {
        field_error_add(errors, "", field, "wrong_type", "must be an array of changes");
        return;
    }
    size_t count = json_count(patch);
    if (count < 1 || count > CHANGES_MAX) {
        field_error_add(errors, "", field, "out_of_range", "must hold 1 to %d changes",
                        CHANGES_MAX);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        char prefix[PREFIX_SIZE];
        snprintf(prefix, sizeof prefix, "%s[%zu].", field, i);
        if (json_is(json_at(patch, i), JSON_OBJECT)) {
            check_change(json_at(patch, i), prefix, errors);
        } else {
            prefix[strlen(prefix) - 1] = '\0';
            field_error_add(errors, "", prefix, "wrong_type", "must be an object");
        }
    }
}

/* -- applying -------------------------------------------------------------------------------- */

/* Exchanges what two buffers hold. */
static void swap(struct buf *a, struct buf *b) {
    struct buf kept = *a;
    *a = *b;
    *b = kept;
}

/* One change to a JSON text: path as base/json_edit.h has it; no value: it is removed. */
static enum err text_change(struct buf *text, struct span path, struct span value) {
    struct buf changed;
    buf_init(&changed, text->max);
    enum err e = value.n > 0 ? json_edit_set(buf_span(text), path, value, &changed)
                             : json_edit_remove(buf_span(text), path, &changed);
    if (e == OK)
        swap(text, &changed);
    buf_release(&changed);
    return e;
}

static enum err header_change(struct buf *headers, struct span name, struct span value) {
    if (headers->n == 0)
        buf_add_str(headers, "{}");
    /* Quoted, so that a dot in it is part of the name. */
    struct buf path;
    buf_init(&path, 6 * name.n + 2);
    struct json_writer w;
    json_writer_init(&w, &path);
    json_put_string(&w, name);
    enum err e = text_change(headers, buf_span(&path), value);
    buf_release(&path);
    if (span_equal_str(buf_span(headers), "{}"))
        buf_clear(headers);
    return e;
}

static enum err apply_change(const struct json *change, struct buf *value, struct buf *headers,
                             struct buf *payload) {
    buf_clear(value);
    if (span_equal_str(json_string(json_get(change, "op")), "set"))
        json_dump(json_get(change, "value"), value);
    struct span path = json_string(json_get(change, "path"));
    if (cut_start(&path, "header."))
        return header_change(headers, path, buf_span(value));
    bool is_payload = cut_start(&path, "payload.");
    assert(is_payload);
    return text_change(payload, path, buf_span(value));
}

enum err patch_apply(struct span patch, struct span headers, struct span payload,
                     struct buf *ret_headers, struct buf *ret_payload) {
    if (headers.n > ret_headers->max || payload.n > ret_payload->max)
        return ERR_TOO_LARGE;
    struct json_error error;
    struct json *changes = json_parse(patch, &error);
    assert(json_is(changes, JSON_ARRAY)); /* it was checked */

    struct buf value, new_headers, new_payload;
    buf_init(&value, VALUE_FACTOR * patch.n);
    buf_init(&new_headers, ret_headers->max);
    buf_init(&new_payload, ret_payload->max);
    buf_add_span(&new_headers, headers);
    buf_add_span(&new_payload, payload);
    enum err e = OK;
    for (size_t i = 0; i < json_count(changes) && e == OK; i++)
        e = apply_change(json_at(changes, i), &value, &new_headers, &new_payload);
    if (e == OK) {
        swap(ret_headers, &new_headers);
        swap(ret_payload, &new_payload);
    }
    buf_release(&new_payload);
    buf_release(&new_headers);
    buf_release(&value);
    json_free(changes);
    return e;
}
