/* Edits of JSON: text NUL path NUL value. The result is JSON; its tree is what an edit of the tree
 * gives; whatever was not at the path is there byte for byte. */
#include "base/json_edit.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What is before the next NUL, which is taken off, too. */
static struct span take_part(struct span *rest) {
    const uint8_t *nul = rest->n > 0 ? memchr(rest->p, '\0', rest->n) : NULL;
    size_t n = nul != NULL ? (size_t)(nul - rest->p) : rest->n;
    struct span part = span_of(rest->p, n);
    n += nul != NULL;
    *rest = span_of(rest->p + n, rest->n - n);
    return part;
}

static struct json *parse(struct span text) {
    struct json_error error;
    return json_parse(text, &error);
}

/* -- the path by other means ----------------------------------------------------------------- */

struct names {
    size_t n;
    struct json *trees[JSON_PATH_NAMES_MAX];
};

/* The path is valid. Each name as a JSON string, parsed. */
static struct names names_of(struct span path) {
    struct names names = {.n = 0};
    size_t i = 0;
    while (i < path.n) {
        struct buf quoted;
        buf_init(&quoted, 6 * path.n + 2);
        if (path.p[i] == '"') {
            size_t start = i++;
            while (path.p[i] != '"')
                i += path.p[i] == '\\' ? 2 : 1;
            buf_add(&quoted, path.p + start, ++i - start);
        } else {
            size_t start = i;
            while (i < path.n && path.p[i] != '.')
                i++;
            struct json_writer w;
            json_writer_init(&w, &quoted);
            json_put_string(&w, span_of(path.p + start, i - start));
        }
        i++; /* the dot */
        assert(names.n < JSON_PATH_NAMES_MAX);
        names.trees[names.n] = parse(buf_span(&quoted));
        assert(json_is(names.trees[names.n], JSON_STRING));
        names.n++;
        buf_release(&quoted);
    }
    return names;
}

static void names_free(struct names *names) {
    for (size_t i = 0; i < names->n; i++)
        json_free(names->trees[i]);
}

/* -- the same edit of the tree --------------------------------------------------------------- */

/* Writes a tree with the value at names[at..] set to `value`, or removed when that is NULL. */
struct edit {
    const struct names *names;
    size_t at;
    const struct json *value;
    struct buf *out;
    bool is_found, is_bad, has_items;
};

static void write_edited(struct edit *e, const struct json *v);

static void add_name(struct edit *e, struct span name) {
    struct json_writer w;
    json_writer_init(&w, e->out);
    json_put_string(&w, name);
    buf_add_byte(e->out, ':');
}

static void add_comma(struct edit *e) {
    if (e->has_items)
        buf_add_byte(e->out, ',');
    e->has_items = true;
}

static void descend(struct edit *e, const struct json *v) {
    struct edit below = {.names = e->names, .at = e->at + 1, .value = e->value, .out = e->out};
    write_edited(&below, v);
    e->is_bad |= below.is_bad;
}

static bool is_removed_here(const struct edit *e) {
    return e->value == NULL && e->at + 1 == e->names->n;
}

static bool write_member(void *ctx, const char *name, const struct json *member) {
    struct edit *e = ctx;
    bool is_wanted = span_equal_str(json_string(e->names->trees[e->at]), name);
    e->is_found |= is_wanted;
    if (is_wanted && is_removed_here(e))
        return true;
    add_comma(e);
    add_name(e, span_str(name));
    if (is_wanted)
        descend(e, member);
    else
        json_dump(member, e->out);
    return true;
}

static void write_object(struct edit *e, const struct json *v) {
    buf_add_byte(e->out, '{');
    if (v != NULL)
        json_each(v, write_member, e);
    if (!e->is_found && e->value != NULL) {
        add_comma(e);
        add_name(e, json_string(e->names->trees[e->at]));
        descend(e, NULL);
    }
    buf_add_byte(e->out, '}');
}

/* SIZE_MAX when it is none, or larger than any array here. */
static size_t index_of(struct span name) {
    size_t i = 0, value = 0;
    for (; i < name.n && name.p[i] >= '0' && name.p[i] <= '9'; i++)
        value = value > 1 << 30 ? value : value * 10 + (size_t)(name.p[i] - '0');
    return i > 0 && i == name.n ? value : SIZE_MAX;
}

static void write_array(struct edit *e, const struct json *v) {
    size_t wanted = index_of(json_string(e->names->trees[e->at])), n = json_count(v);
    buf_add_byte(e->out, '[');
    for (size_t i = 0; i < n; i++) {
        if (i == wanted && is_removed_here(e))
            continue;
        add_comma(e);
        if (i == wanted)
            descend(e, json_at(v, i));
        else
            json_dump(json_at(v, i), e->out);
    }
    if (wanted == n && e->value != NULL) {
        add_comma(e);
        descend(e, NULL);
    }
    e->is_bad |= wanted > n;
    buf_add_byte(e->out, ']');
}

static void write_edited(struct edit *e, const struct json *v) {
    if (e->at == e->names->n) {
        json_dump(e->value, e->out);
    } else if (v == NULL || json_is(v, JSON_OBJECT)) {
        write_object(e, v);
    } else if (json_is(v, JSON_ARRAY)) {
        write_array(e, v);
    } else {
        json_dump(v, e->out);
        e->is_bad = true;
    }
}

/* -- what must be so ------------------------------------------------------------------------- */

static void check_tree(struct span result, struct span expected_dump) {
    struct json *root = parse(result);
    assert(root != NULL);
    struct buf dump;
    buf_init(&dump, SIZE_MAX / 2);
    json_dump(root, &dump);
    assert(span_equal(buf_span(&dump), expected_dump));
    buf_release(&dump);
    json_free(root);
}

/* All but `inserted` bytes of the result are a beginning and an end of the text. */
static void check_kept(struct span text, struct span result, size_t inserted) {
    size_t head = 0, tail = 0, least = text.n < result.n ? text.n : result.n;
    while (head < least && text.p[head] == result.p[head])
        head++;
    while (tail < least && text.p[text.n - tail - 1] == result.p[result.n - tail - 1])
        tail++;
    assert(head + tail + inserted >= result.n);
}

static void check_get(struct span result, struct span path, const struct json *value) {
    struct json *root = parse(result);
    const struct json *found = json_path_get(root, path);
    assert(found != NULL);
    struct buf is, should;
    buf_init(&is, SIZE_MAX / 2);
    buf_init(&should, SIZE_MAX / 2);
    json_dump(found, &is);
    json_dump(value, &should);
    assert(span_equal(buf_span(&is), buf_span(&should)));
    buf_release(&is);
    buf_release(&should);
    json_free(root);
}

struct input {
    struct span text, path, value;
    const struct json *root, *new_value;
    struct names names;
};

static void check_set(const struct input *in) {
    struct buf result, expected;
    size_t most = in->text.n + in->value.n + 6 * (in->path.n + 1);
    buf_init(&result, most);
    buf_init(&expected, SIZE_MAX / 2);
    struct edit e = {.names = &in->names, .value = in->new_value, .out = &expected};
    write_edited(&e, in->root);
    struct json *reference = parse(buf_span(&expected)); /* NULL: too many levels */
    enum err err = json_edit_set(in->text, in->path, in->value, &result);
    assert(err == (e.is_bad || reference == NULL ? ERR_INVALID : OK));
    if (err == OK) {
        check_tree(buf_span(&result), buf_span(&expected));
        check_kept(in->text, buf_span(&result), in->value.n + 6 * (in->path.n + 1));
        check_get(buf_span(&result), in->path, in->new_value);
    } else {
        assert(result.n == 0);
    }
    json_free(reference);
    buf_release(&result);
    buf_release(&expected);
}

static void check_remove(const struct input *in) {
    struct buf result, expected;
    buf_init(&result, in->text.n);
    buf_init(&expected, SIZE_MAX / 2);
    struct edit e = {.names = &in->names, .out = &expected};
    write_edited(&e, in->root);
    enum err err = json_edit_remove(in->text, in->path, &result);
    assert(err == OK);
    check_tree(buf_span(&result), buf_span(&expected));
    check_kept(in->text, buf_span(&result), 0);
    if (json_path_get(in->root, in->path) == NULL)
        assert(span_equal(in->text, buf_span(&result)));
    buf_release(&result);
    buf_release(&expected);
}

static void check_refusal(const struct input *in) {
    struct buf result;
    buf_init(&result, in->text.n + in->value.n + 6 * (in->path.n + 1));
    enum err err = json_edit_set(in->text, in->path, in->value, &result);
    assert(err == ERR_INVALID);
    if (in->root == NULL || !json_path_is_valid(in->path)) {
        err = json_edit_remove(in->text, in->path, &result);
        assert(err == ERR_INVALID);
        assert(json_path_get(in->root, in->path) == NULL);
    }
    assert(result.n == 0);
    buf_release(&result);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct span rest = span_of(data, size);
    struct input in = {.text = take_part(&rest), .path = take_part(&rest)};
    in.value = rest;
    struct json *root = parse(in.text), *value = parse(in.value);
    in.root = root;
    in.new_value = value;
    bool has_path = json_path_is_valid(in.path);
    if (has_path)
        in.names = names_of(in.path);
    if (has_path && root != NULL && value != NULL)
        check_set(&in);
    else
        check_refusal(&in);
    if (has_path && root != NULL)
        check_remove(&in);
    names_free(&in.names);
    json_free(root);
    json_free(value);
    return 0;
}
