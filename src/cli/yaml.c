#include "cli/yaml.h"

#include "base/mem.h"
#include "cli/text.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

/* -- reading --------------------------------------------------------------------------------- */

/* The JSON text has each value on the line it had in the file, so that what the JSON parser finds
 * wrong (a member given twice) has the right line, too. */
struct reader {
    yaml_parser_t parser;
    struct yaml *y;
    struct yaml_error *error;
    struct buf json;
    unsigned json_line;
};

static bool fail_at(struct reader *r, size_t line, const char *text) {
    r->error->line = (unsigned)line + 1;
    (void)snprintf(r->error->text, sizeof r->error->text, "%s", text);
    return false;
}

/* The next event, which the caller deletes; false when the text is malformed. */
static bool next(struct reader *r, yaml_event_t *ret) {
    if (yaml_parser_parse(&r->parser, ret))
        return true;
    bool is_read = r->parser.error == YAML_READER_ERROR;
    return fail_at(r, is_read ? r->parser.mark.line : r->parser.problem_mark.line,
                   r->parser.problem != NULL ? r->parser.problem : "no YAML");
}

static size_t add_node(struct reader *r, struct yaml_node node, size_t line) {
    struct yaml *y = r->y;
    if (y->count == y->room) {
        y->room = y->room > 0 ? 2 * y->room : 64;
        y->nodes = mem_grow(y->nodes, y->room * sizeof *y->nodes);
    }
    node.line = (unsigned)line + 1;
    y->nodes[y->count] = node;
    return y->count++;
}

static void go_to_line(struct reader *r, size_t line) {
    for (; r->json_line < line; r->json_line++)
        buf_add_byte(&r->json, '\n');
}

static bool is_any_of(struct span s, const char *const names[]) {
    for (; *names != NULL; names++) {
        if (span_equal_str(s, *names))
            return true;
    }
    return false;
}

/* What a plain scalar is when it is no text: JSON for it, or empty. */
static struct span plain_json(struct span s) {
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const trues[] = {"true", "True", "TRUE", NULL};
    static const char *const falses[] = {"false", "False", "FALSE", NULL};
    if (is_any_of(s, nulls))
        return span_str("null");
    if (is_any_of(s, trues))
        return span_str("true");
    if (is_any_of(s, falses))
        return span_str("false");
    bool may_be_number = (s.p[0] >= '0' && s.p[0] <= '9') || s.p[0] == '-';
    struct json_error ignored;
    struct json *v = may_be_number ? json_parse(s, &ignored) : NULL;
    bool is_number = json_is(v, JSON_INTEGER) || json_is(v, JSON_REAL);
    json_free(v);
    return is_number ? s : span_str("");
}

static void add_string(struct buf *out, struct span text) {
    struct json_writer w;
    json_writer_init(&w, out);
    json_put_string(&w, text);
}

static struct span scalar_text(const yaml_event_t *e) {
    return span_of(e->data.scalar.value, e->data.scalar.length);
}

static void read_scalar(struct reader *r, const yaml_event_t *e) {
    struct span text = scalar_text(e);
    struct span json =
        e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE ? plain_json(text) : span_str("");
    if (json.n > 0)
        buf_add_span(&r->json, json);
    else
        add_string(&r->json, text);
}

static bool read_value(struct reader *r, const yaml_event_t *e, size_t node, unsigned depth);

/* What is refused wherever a value may stand. */
static bool check_event(struct reader *r, const yaml_event_t *e, unsigned depth) {
    const yaml_char_t *anchor = NULL, *tag = NULL;
    if (e->type == YAML_SCALAR_EVENT) {
        anchor = e->data.scalar.anchor;
        tag = e->data.scalar.tag;
    } else if (e->type == YAML_SEQUENCE_START_EVENT) {
        anchor = e->data.sequence_start.anchor;
        tag = e->data.sequence_start.tag;
    } else if (e->type == YAML_MAPPING_START_EVENT) {
        anchor = e->data.mapping_start.anchor;
        tag = e->data.mapping_start.tag;
    }
    if (e->type == YAML_ALIAS_EVENT || anchor != NULL)
        return fail_at(r, e->start_mark.line,
                       "anchors (&) and aliases (*) are not taken: write it out");
    if (tag != NULL)
        return fail_at(r, e->start_mark.line, "tags (!) are not taken");
    if (depth > YAML_DEPTH_MAX)
        return fail_at(r, e->start_mark.line, "nested too deeply");
    return true;
}

static bool read_elements(struct reader *r, size_t node, unsigned depth) {
    yaml_event_t e;
    buf_add_byte(&r->json, '[');
    for (size_t i = 0;; i++) {
        if (!next(r, &e))
            return false;
        bool is_end = e.type == YAML_SEQUENCE_END_EVENT, is_good = true;
        if (!is_end) {
            buf_add_str(&r->json, i > 0 ? "," : "");
            const struct yaml_node element = {.parent = node, .index = i, .is_element = true};
            is_good = read_value(r, &e, add_node(r, element, e.start_mark.line), depth + 1);
        }
        yaml_event_delete(&e);
        if (is_end)
            buf_add_byte(&r->json, ']');
        if (is_end || !is_good)
            return is_good;
    }
}

/* The name of a member, and the node for it. */
static bool read_name(struct reader *r, const yaml_event_t *e, size_t node, size_t *ret_node) {
    if (!check_event(r, e, 0))
        return false;
    if (e->type != YAML_SCALAR_EVENT)
        return fail_at(r, e->start_mark.line, "a name must be text");
    struct span name = scalar_text(e);
    if (name.n == 0 || memchr(name.p, '\0', name.n) != NULL)
        return fail_at(r, e->start_mark.line, "a name is empty, or holds a NUL");
    struct yaml_node member = {.parent = node, .name_at = r->y->names.n, .name_bytes = name.n};
    buf_add_span(&r->y->names, name);
    *ret_node = add_node(r, member, e->start_mark.line);
    go_to_line(r, e->start_mark.line);
    add_string(&r->json, name);
    buf_add_byte(&r->json, ':');
    return true;
}

static bool read_member(struct reader *r, const yaml_event_t *name, size_t node, unsigned depth) {
    size_t member;
    yaml_event_t e;
    if (!read_name(r, name, node, &member) || !next(r, &e))
        return false;
    bool is_good = read_value(r, &e, member, depth + 1);
    yaml_event_delete(&e);
    return is_good;
}

static bool read_members(struct reader *r, size_t node, unsigned depth) {
    yaml_event_t e;
    buf_add_byte(&r->json, '{');
    for (bool is_first = true;; is_first = false) {
        if (!next(r, &e))
            return false;
        bool is_end = e.type == YAML_MAPPING_END_EVENT, is_good = true;
        if (!is_end) {
            buf_add_str(&r->json, is_first ? "" : ",");
            is_good = read_member(r, &e, node, depth);
        }
        yaml_event_delete(&e);
        if (is_end)
            buf_add_byte(&r->json, '}');
        if (is_end || !is_good)
            return is_good;
    }
}

static bool read_value(struct reader *r, const yaml_event_t *e, size_t node, unsigned depth) {
    if (!check_event(r, e, depth))
        return false;
    go_to_line(r, e->start_mark.line);
    if (e->type == YAML_SEQUENCE_START_EVENT)
        return read_elements(r, node, depth);
    if (e->type == YAML_MAPPING_START_EVENT)
        return read_members(r, node, depth);
    assert(e->type == YAML_SCALAR_EVENT);
    read_scalar(r, e);
    return true;
}

/* Passes over the event that must come; false when another does. */
static bool skip(struct reader *r, yaml_event_type_t type, const char *otherwise) {
    yaml_event_t e;
    if (!next(r, &e))
        return false;
    bool is_it = e.type == type || fail_at(r, e.start_mark.line, otherwise);
    yaml_event_delete(&e);
    return is_it;
}

static bool read_document(struct reader *r) {
    yaml_event_t e;
    if (!skip(r, YAML_STREAM_START_EVENT, "no YAML") ||
        !skip(r, YAML_DOCUMENT_START_EVENT, "there is nothing in it") || !next(r, &e))
        return false;
    size_t root = add_node(r, (struct yaml_node){0}, e.start_mark.line);
    bool is_good = read_value(r, &e, root, 0);
    yaml_event_delete(&e);
    if (!is_good || !skip(r, YAML_DOCUMENT_END_EVENT, "no YAML") ||
        !skip(r, YAML_STREAM_END_EVENT, "a second document: one is all it may hold"))
        return false;
    struct json_error error;
    r->y->root = json_parse(buf_span(&r->json), &error);
    return r->y->root != NULL || fail_at(r, (size_t)error.line - 1, error.text);
}

bool yaml_read(struct span text, struct yaml *ret, struct yaml_error *ret_error) {
    struct reader r = {.y = ret, .error = ret_error};
    int is_ready = yaml_parser_initialize(&r.parser);
    assert(is_ready);
    *ret = (struct yaml){0};
    buf_init(&ret->names, SIZE_MAX);
    buf_init(&r.json, SIZE_MAX);
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, text.p, text.n);
    bool is_good = read_document(&r);
    yaml_parser_delete(&r.parser);
    buf_release(&r.json);
    if (!is_good)
        yaml_release(ret);
    return is_good;
}

void yaml_release(struct yaml *y) {
    json_free(y->root);
    free(y->nodes);
    buf_release(&y->names);
    *y = (struct yaml){0};
}

/* -- lines ----------------------------------------------------------------------------------- */

size_t yaml_member(const struct yaml *y, size_t node, struct span name) {
    for (size_t i = node + 1; i < y->count; i++) {
        const struct yaml_node *n = &y->nodes[i];
        if (n->parent == node && !n->is_element &&
            span_equal(span_of(y->names.p + n->name_at, n->name_bytes), name))
            return i;
    }
    return node;
}

static size_t element(const struct yaml *y, size_t node, size_t index) {
    for (size_t i = node + 1; i < y->count; i++) {
        if (y->nodes[i].parent == node && y->nodes[i].is_element && y->nodes[i].index == index)
            return i;
    }
    return node;
}

unsigned yaml_line(const struct yaml *y, size_t node, const char *field) {
    while (*field != '\0') {
        size_t n = strcspn(field, ".[");
        size_t whole = yaml_member(y, node, span_str(field)); /* a name that holds a dot */
        if (whole != node)
            return y->nodes[whole].line;
        size_t below = n > 0 ? yaml_member(y, node, span_of(field, n))
                             : element(y, node, (size_t)strtoul(field + 1, NULL, 10));
        if (below == node)
            break;
        node = below;
        field += n > 0 ? n : strcspn(field, "]") + 1;
        field += *field == '.';
    }
    return y->nodes[node].line;
}

/* -- writing --------------------------------------------------------------------------------- */

/* Needs no quotes: begins with a letter, and is nothing else in any version of YAML. */
static bool is_plain_text(struct span s) {
    static const char *const words[] = {"null", "true", "false", "yes", "no",
                                        "on",   "off",  "y",     "n",   NULL};
    if (s.n == 0 || s.n > 64)
        return false;
    for (size_t i = 0; i < s.n; i++) {
        uint8_t c = s.p[i];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!is_letter && (i == 0 || c == '\0' || strchr("0123456789_-./", c) == NULL))
            return false;
    }
    for (size_t w = 0; words[w] != NULL; w++) {
        if (s.n == strlen(words[w]) && strncasecmp((const char *)s.p, words[w], s.n) == 0)
            return false;
    }
    return true;
}

static size_t character_bytes(uint8_t first) {
    return first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

static void add_escape(struct span character, struct buf *out) {
    uint32_t code = character.p[0];
    if (character.n > 1)
        code &= 0xffU >> (character.n + 1);
    for (size_t i = 1; i < character.n; i++)
        code = code << 6 | (character.p[i] & 0x3fU);
    buf_printf(out, code <= 0xff ? "\\x%02x" : code <= 0xffff ? "\\u%04x" : "\\U%08x", code);
}

/* Neither harmful on a terminal nor refused in YAML. */
static bool is_printable(struct span character) {
    char text[16];
    struct buf escaped = {.p = (uint8_t *)text, .cap = sizeof text, .max = sizeof text};
    text_escape(character, TEXT_ONE_LINE, &escaped);
    bool is_noncharacter = character.n == 3 && character.p[0] == 0xef && character.p[1] == 0xbf &&
                           character.p[2] >= 0xbe;
    return !is_noncharacter && span_equal(buf_span(&escaped), character);
}

void yaml_add_text(struct span text, struct buf *out) {
    if (is_plain_text(text)) {
        buf_add_span(out, text);
        return;
    }
    buf_add_byte(out, '"');
    for (size_t i = 0; i < text.n;) {
        struct span character = span_of(text.p + i, character_bytes(text.p[i]));
        if (text.p[i] == '"' || text.p[i] == '\\')
            buf_printf(out, "\\%c", text.p[i]);
        else if (is_printable(character))
            buf_add_span(out, character);
        else
            add_escape(character, out);
        i += character.n;
    }
    buf_add_byte(out, '"');
}

struct block {
    unsigned indent;
    bool is_inline; /* the first line is begun already */
    struct buf *out;
};

static void add_value(const struct json *v, unsigned indent, struct buf *out);

static bool add_member(void *ctx, const char *name, const struct json *v) {
    struct block *b = ctx;
    buf_printf(b->out, "%*s", b->is_inline ? 0 : (int)b->indent, "");
    b->is_inline = false;
    yaml_add_text(span_str(name), b->out);
    buf_add_byte(b->out, ':');
    add_value(v, b->indent, b->out);
    return true;
}

static bool is_block(const struct json *v) {
    return (json_is(v, JSON_OBJECT) || json_is(v, JSON_ARRAY)) && json_count(v) > 0;
}

/* A sequence on one line. */
static void add_flow(const struct json *list, struct buf *out) {
    buf_add_str(out, " [");
    for (size_t i = 0; i < json_count(list); i++) {
        if (i > 0)
            buf_add_str(out, ", ");
        if (json_is(json_at(list, i), JSON_STRING))
            yaml_add_text(json_string(json_at(list, i)), out);
        else
            json_dump(json_at(list, i), out);
    }
    buf_add_str(out, "]\n");
}

static void add_blocks(const struct json *list, unsigned indent, struct buf *out) {
    buf_add_byte(out, '\n');
    for (size_t i = 0; i < json_count(list); i++) {
        const struct json *v = json_at(list, i);
        buf_printf(out, "%*s-", (int)indent, "");
        if (json_is(v, JSON_OBJECT) && json_count(v) > 0) {
            struct block b = {.indent = indent + 2, .is_inline = true, .out = out};
            buf_add_byte(out, ' ');
            (void)json_each(v, add_member, &b);
        } else {
            add_value(v, indent, out);
        }
    }
}

/* What follows "name:", with its newline. */
static void add_value(const struct json *v, unsigned indent, struct buf *out) {
    bool has_blocks = false;
    for (size_t i = 0; json_is(v, JSON_ARRAY) && i < json_count(v); i++)
        has_blocks |= is_block(json_at(v, i));
    if (has_blocks) {
        add_blocks(v, indent + 2, out);
    } else if (json_is(v, JSON_ARRAY)) {
        add_flow(v, out);
    } else if (is_block(v)) {
        buf_add_byte(out, '\n');
        yaml_add_object(v, indent + 2, out);
    } else {
        buf_add_byte(out, ' ');
        if (json_is(v, JSON_STRING))
            yaml_add_text(json_string(v), out);
        else
            json_dump(v, out);
        buf_add_byte(out, '\n');
    }
}

void yaml_add_object(const struct json *object, unsigned indent, struct buf *out) {
    struct block b = {.indent = indent, .out = out};
    (void)json_each(object, add_member, &b);
}
