/* The tree says what is there, a scan of the text says where.
 *
 * E1 The scan sees only text that json_parse took, from its first value on. Within a container the
 *    bracket that ends it stops every loop, so none of them looks for the end of the text.
 * E2 Tree and text are walked side by side. A member or item is found by its place in the tree's
 *    container, so no name in the text is ever decoded.
 * E3 A change replaces one run of bytes. */
#include "base/json_edit.h"

#include <assert.h>
#include <string.h>

/* -- paths ----------------------------------------------------------------------------------- */

struct path {
    struct span rest;
    struct span name;     /* the current one, decoded */
    struct json *decoded; /* which holds it when it is quoted; else NULL */
    size_t names;         /* read so far */
    bool is_bad;
};

static struct path path_open(struct span text) {
    return (struct path){.rest = text, .is_bad = text.n == 0 || !span_is_utf8(text)};
}

static void path_close(struct path *p) {
    json_free(p->decoded);
    p->decoded = NULL;
}

/* The bytes of the quoted name at the start of s, with both quotes; s.n when it is not closed. */
static size_t quoted_bytes(struct span s) {
    for (size_t i = 1; i < s.n; i++) {
        if (s.p[i] == '"')
            return i + 1;
        if (s.p[i] == '\\')
            i++;
    }
    return s.n;
}

/* The bytes up to the next dot or quote. */
static size_t plain_bytes(struct span s) {
    size_t n = 0;
    while (n < s.n && s.p[n] != '.' && s.p[n] != '"')
        n++;
    return n;
}

/* Reads one name off the rest; returns its bytes, 0 when there is none. */
static size_t path_read_name(struct path *p) {
    if (p->rest.p[0] != '"') {
        size_t n = plain_bytes(p->rest);
        p->name = span_of(p->rest.p, n);
        return n;
    }
    struct json_error error;
    size_t n = quoted_bytes(p->rest);
    p->decoded = json_parse(span_of(p->rest.p, n), &error);
    if (p->decoded == NULL)
        return 0;
    p->name = json_string(p->decoded);
    return n;
}

static bool has_nul(struct span s) {
    return s.n > 0 && memchr(s.p, '\0', s.n) != NULL;
}

/* True when there was another name; false at the end, and when what follows is no name. */
static bool path_next(struct path *p) {
    path_close(p);
    if (p->is_bad || p->rest.n == 0)
        return false;
    p->is_bad = true; /* until the name is known to be good */
    size_t n = path_read_name(p);
    if (n == 0 || has_nul(p->name) || p->names == JSON_PATH_NAMES_MAX)
        return false;
    /* A dot has a name after it. */
    if (n < p->rest.n && (p->rest.p[n++] != '.' || n == p->rest.n))
        return false;
    p->rest = span_of(p->rest.p + n, p->rest.n - n);
    p->names++;
    p->is_bad = false;
    return true;
}

bool json_path_is_valid(struct span path) {
    struct path p = path_open(path);
    while (path_next(&p))
        continue;
    path_close(&p);
    return !p.is_bad;
}

/* -- in the tree ----------------------------------------------------------------------------- */

/* An item of a container: where it stands and what it is. */
struct item {
    struct span name; /* wanted */
    size_t index;
    const struct json *value; /* NULL: there is none */
};

static bool is_other_member(void *ctx, const char *name, const struct json *member) {
    struct item *item = ctx;
    if (span_equal_str(item->name, name)) {
        item->value = member;
        return false;
    }
    item->index++;
    return true;
}

/* SIZE_MAX when name is no number or a large one: no array is that long. */
static size_t index_of(struct span name) {
    size_t index = name.n > 0 ? 0 : SIZE_MAX;
    for (size_t i = 0; i < name.n; i++) {
        if (name.p[i] < '0' || name.p[i] > '9' || index > UINT32_MAX)
            return SIZE_MAX;
        index = index * 10 + (size_t)(name.p[i] - '0');
    }
    return index;
}

/* What name means in v. Without a value, index is where it would be: SIZE_MAX when it cannot be. */
static struct item item_find(const struct json *v, struct span name) {
    struct item item = {.name = name};
    if (json_is(v, JSON_OBJECT)) {
        json_each(v, is_other_member, &item);
    } else {
        item.index = json_is(v, JSON_ARRAY) ? index_of(name) : SIZE_MAX;
        if (item.index < json_count(v))
            item.value = json_at(v, item.index);
        else if (item.index > json_count(v))
            item.index = SIZE_MAX;
    }
    return item;
}

const struct json *json_path_get(const struct json *root, struct span path) {
    struct path p = path_open(path);
    const struct json *v = root;
    while (v != NULL && path_next(&p))
        v = item_find(v, p.name).value;
    path_close(&p);
    return p.is_bad ? NULL : v;
}

/* -- in the text ----------------------------------------------------------------------------- */

static const uint8_t *skip_space(const uint8_t *p) {
    while (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')
        p++;
    return p;
}

/* This and the next two: from where it begins to just after it. */
static const uint8_t *skip_string(const uint8_t *p) {
    for (p++; *p != '"'; p++) {
        if (*p == '\\')
            p++;
    }
    return p + 1;
}

static const uint8_t *skip_container(const uint8_t *p) {
    size_t depth = 0;
    do {
        if (*p == '"') {
            p = skip_string(p);
            continue;
        }
        if (*p == '{' || *p == '[')
            depth++;
        else if (*p == '}' || *p == ']')
            depth--;
        p++;
    } while (depth > 0);
    return p;
}

/* What stands behind a number or a word within a container. */
static bool ends_scalar(uint8_t c) {
    return c == ',' || c == ']' || c == '}' || c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static const uint8_t *skip_value(const uint8_t *p) {
    if (*p == '"')
        return skip_string(p);
    if (*p == '{' || *p == '[')
        return skip_container(p);
    while (!ends_scalar(*p))
        p++;
    return p;
}

/* Where an item lies: [before, start) is the bracket or comma before it with its spaces, [start,
 * value) its name. */
struct place {
    const uint8_t *before, *start, *value, *end;
};

/* Item `index` of the container at p, which has that many and one more. */
static struct place place_find(const uint8_t *p, size_t index) {
    bool has_names = *p == '{';
    struct place at = {.end = p};
    for (size_t i = 0; i <= index; i++) {
        at.before = at.end;
        at.start = skip_space(skip_space(at.before) + 1);
        at.value = at.start;
        if (has_names)
            at.value = skip_space(skip_space(skip_string(at.start)) + 1);
        at.end = skip_value(at.value);
    }
    return at;
}

/* Where a path leads: as far as there is something, and the container that it stopped in. */
struct spot {
    const struct json *container;
    const uint8_t *at; /* of the container */
    struct item item;
    struct place place; /* of the item, when it has a value */
};

/* The path is valid, and open at its start; it stays at the name that was looked for last. */
static struct spot spot_find(const struct json *root, struct span text, struct path *p) {
    struct spot s = {.item.value = root, .place.value = skip_space(text.p)};
    while (s.item.value != NULL && path_next(p)) {
        s.container = s.item.value;
        s.at = s.place.value;
        s.item = item_find(s.container, p->name);
        if (s.item.value != NULL)
            s.place = place_find(s.at, s.item.index);
    }
    assert(s.container != NULL);
    return s;
}

static struct span bytes_between(const uint8_t *from, const uint8_t *to) {
    return span_of(from, (size_t)(to - from));
}

/* -- setting --------------------------------------------------------------------------------- */

/* Instead of `cut`: lead, the new value, and a '}' for each object made. */
struct change {
    struct span cut;
    struct buf lead;
    size_t objects_made;
};

static void lead_add_name(struct buf *lead, struct span name) {
    struct json_writer w;
    json_writer_init(&w, lead);
    json_put_string(&w, name);
    buf_add_byte(lead, ':');
}

/* There is nothing at the current name of p, but there may be: adds it, and the rest of p. */
static void change_add(struct change *c, const struct spot *s, struct path *p) {
    size_t count = json_count(s->container);
    const uint8_t *where = count == 0 ? s->at + 1 : place_find(s->at, count - 1).end;
    c->cut = span_of(where, 0);
    if (count > 0)
        buf_add_byte(&c->lead, ',');
    if (json_is(s->container, JSON_OBJECT))
        lead_add_name(&c->lead, p->name);
    while (path_next(p)) {
        buf_add_byte(&c->lead, '{');
        lead_add_name(&c->lead, p->name);
        c->objects_made++;
    }
}

static enum err change_find(struct change *c, const struct json *root, struct span text,
                            struct span path) {
    struct path p = path_open(path);
    struct spot s = spot_find(root, text, &p);
    enum err e = OK;
    if (s.item.value != NULL)
        c->cut = bytes_between(s.place.value, s.place.end);
    else if (s.item.index != SIZE_MAX)
        change_add(c, &s, &p);
    else
        e = ERR_INVALID;
    path_close(&p);
    return e;
}

static bool is_json(struct span text) {
    struct json_error error;
    struct json *root = json_parse(text, &error);
    json_free(root);
    return root != NULL;
}

static enum err change_write(const struct change *c, struct span text, struct span value,
                             struct buf *out) {
    size_t start = out->n, room = out->max - out->n;
    size_t kept = text.n - c->cut.n + c->lead.n + c->objects_made;
    if (kept > room || value.n > room - kept)
        return ERR_TOO_LARGE;
    buf_add_span(out, bytes_between(text.p, c->cut.p));
    buf_add_span(out, buf_span(&c->lead));
    buf_add_span(out, value);
    for (size_t i = 0; i < c->objects_made; i++)
        buf_add_byte(out, '}');
    buf_add_span(out, bytes_between(c->cut.p + c->cut.n, text.p + text.n));

    /* Text and value were good, but together they may have too many levels. */
    if (is_json(span_of(out->p + start, out->n - start)))
        return OK;
    out->n = start;
    return ERR_INVALID;
}

enum err json_edit_set(struct span text, struct span path, struct span value, struct buf *out) {
    struct json_error error;
    struct json *root = json_parse(text, &error);
    struct change c = {.objects_made = 0};
    buf_init(&c.lead, 6 * (path.n + 1)); /* a byte takes at most six in a JSON string */
    enum err e = ERR_INVALID;
    if (root != NULL && json_path_is_valid(path) && is_json(value))
        e = change_find(&c, root, text, path);
    if (e == OK)
        e = change_write(&c, text, value, out);
    buf_release(&c.lead);
    json_free(root);
    return e;
}

/* -- removing -------------------------------------------------------------------------------- */

/* With the comma before it, the first with the one after it, the only one with all that stands
 * between the brackets. Empty when there is nothing at the path. */
static struct span cut_find(const struct json *root, struct span text, struct span path) {
    struct path p = path_open(path);
    struct spot s = spot_find(root, text, &p);
    path_close(&p);
    if (s.item.value == NULL)
        return span_of(text.p, 0);
    if (s.item.index > 0)
        return bytes_between(s.place.before, s.place.end);
    const uint8_t *after = skip_space(s.place.end);
    if (json_count(s.container) == 1)
        return bytes_between(s.at + 1, after);
    return bytes_between(s.place.start, skip_space(after + 1));
}

enum err json_edit_remove(struct span text, struct span path, struct buf *out) {
    struct json_error error;
    struct json *root = json_parse(text, &error);
    if (root == NULL || !json_path_is_valid(path)) {
        json_free(root);
        return ERR_INVALID;
    }
    struct span cut = cut_find(root, text, path);
    json_free(root);
    if (text.n - cut.n > out->max - out->n)
        return ERR_TOO_LARGE;
    buf_add_span(out, bytes_between(text.p, cut.p));
    buf_add_span(out, bytes_between(cut.p + cut.n, text.p + text.n));
    return OK;
}
