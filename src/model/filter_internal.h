/* What the parser of filters, its values and the evaluation share. Private to filter*.c.
 *
 * F1 A filter is one allocation: itself, its terms, its nodes, and twice the bytes of the text: once
 *    for decoded names and patterns, once for the marks of their wildcards. Nothing is longer
 *    decoded than in the text, and a term takes a colon, so the sizes are known before parsing.
 * F2 An AND or an OR has two children or more, in the order of their greatest word (equals as in the
 *    text). None of them is of its own kind unless negated. So n terms take less than 2n nodes.
 * F3 A negation is a mark of the node, and a double one is none. */
#pragma once

#include "model/filter.h"

enum node_kind { NODE_TERM, NODE_AND, NODE_OR };

struct filter_node {
    enum node_kind kind;
    enum filter_word greatest; /* of its terms: how far evaluating it may have to go */
    bool is_negated;
    const struct filter_term *term;   /* of a NODE_TERM */
    struct filter_node *first, *next; /* child, sibling; NULL: none */
};

struct filter {
    const struct filter_node *root;
    size_t terms_n;
    struct filter_term terms[];
};

/* A text being parsed. What is read are spans of the text, so a span says where it stands. */
struct filter_reader {
    struct span text;
    const uint8_t *at, *end; /* of what is still to be read */
    enum filter_scope scope;
    int64_t now;
    unsigned depth; /* open parentheses */
    struct filter *filter;
    struct filter_node *nodes; /* F1 */
    size_t nodes_n, terms_max; /* room for terms; for nodes it is twice that */
    uint8_t *bytes, *marks;    /* F1: marks[i] is 1 where bytes[i] is a star outside of quotes */
    size_t bytes_n;
    struct filter_error *error;
};

/* Always false, for the caller to return. `where` lies in the text. */
bool filter_fail(struct filter_reader *r, struct span where, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* True when raw is one "quoted" text and nothing else. */
bool filter_is_quoted(struct span raw);

/* Copies raw into the filter without its quotes and escapes. *ret_marks: see filter_reader. */
bool filter_decode(struct filter_reader *r, struct span raw, struct span *ret_text,
                   const uint8_t **ret_marks);

/* Reads the value of t, whose word and name are set. */
bool filter_read_value(struct filter_reader *r, struct span raw, struct filter_term *t);
