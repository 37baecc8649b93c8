/* YAML to JSON and back, as far as policies need it: one document of mappings, sequences and
 * scalars. Anchors, aliases and tags are refused: a file that declares what holds is written out.
 * Of plain scalars null (also ~, and nothing), true, false and numbers as JSON writes them are
 * that; everything else is text. One thread. */
#pragma once

#include "base/json.h"

#define YAML_DEPTH_MAX 16

struct yaml_error {
    unsigned line; /* from 1 */
    char text[160];
};

/* Where each value of a document stood. */
struct yaml_node {
    size_t parent;              /* index of a node; of the first, its own */
    size_t name_at, name_bytes; /* of a mapping's member, in `names` */
    size_t index;               /* of a sequence's element */
    bool is_element;
    unsigned line; /* of the member's name, or of the value */
};

struct yaml {
    struct json *root; /* the value; objects without duplicate members */
    struct yaml_node *nodes;
    size_t count, room;
    struct buf names;
};

/* False and *ret_error when the text is not well-formed or more than that. */
bool yaml_read(struct span text, struct yaml *ret, struct yaml_error *ret_error);
void yaml_release(struct yaml *y);

/* The node of a member of a node (the document's is 0); the node itself when it has none of that
 * name. */
size_t yaml_member(const struct yaml *y, size_t node, struct span name);
/* The line of "rules[3].message_regex" below a node, or of as much of it as is there. */
unsigned yaml_line(const struct yaml *y, size_t node, const char *field);

/* Appends an object as block YAML, each line indented by so much. yaml_read gives it back. What
 * might do harm on a terminal is escaped. */
void yaml_add_object(const struct json *object, unsigned indent, struct buf *out);
/* Appends text as a scalar that is read back as text. */
void yaml_add_text(struct span text, struct buf *out);
