/* Results on standard output: a table for people, JSON or NDJSON for programs. Machine output is
 * whole; a table may be cut to the terminal. Nothing else is written to standard output. One
 * thread. */
#pragma once

#include "base/json.h"
#include "cli/context.h"

#define OUT_COLUMNS_MAX 12

struct column {
    const char *title;
    bool is_right;
    /* In columns of the terminal; 0: any. The last column's is for when there is no terminal. */
    unsigned width_max;
};

struct out;
typedef void out_row(struct out *o, const struct json *item);

struct out {
    const struct cli *cli;
    bool is_list; /* JSON: an array, whatever the number of items */
    const struct column *columns;
    size_t column_count;
    out_row *row;
    uint64_t items;
    size_t terminal_columns; /* 0: standard output is no terminal */
    size_t widths[OUT_COLUMNS_MAX];
    struct buf cells; /* of the rows not printed yet, each cell ended by a NUL */
    size_t cell_count;
    bool has_header; /* it was printed */
};

/* `row` adds exactly one cell for each column; it and columns are not used in the other formats. */
void out_init(struct out *o, const struct cli *cli, bool is_list, const struct column *columns,
              size_t column_count, out_row *row);
void out_item(struct out *o, const struct json *item);
/* The same for each of an array; how many it holds, 0 when it is no array. */
size_t out_items(struct out *o, const struct json *items);
/* Prints the rows so far. Tables wait for this, so that they are aligned. */
void out_flush(struct out *o);
/* The same when there are 1000 of them: for rows that come one by one. */
void out_flush_many(struct out *o);
/* Ends the output and releases o. Returns code, or CLI_FAILED and said when standard output could
 * not be written. */
int out_finish(struct out *o, int code);
/* The same for a list: CLI_DONE when nothing was in the way (failure -1); else the exit code
 * `failure`, or CLI_PARTLY when some items were printed all the same. */
int out_finish_list(struct out *o, int failure);

/* Cells. Text is escaped to one line; a member that is missing or null is "-". */
void out_cell(struct out *o, struct span text);
void out_cell_member(struct out *o, const struct json *v, const char *name);
/* Two members as one text, FIRST before SECOND after, as far as they are strings. */
void out_cell_pair(struct out *o, const struct json *v, const char *first, const char *before,
                   const char *second, const char *after);
void out_cell_payload(struct out *o, const struct json *message);

/* An object as lines "name  value", members of members as name.name; for a table of one thing. */
void out_object(const struct json *v);
/* Pieces of a page about one thing: a short name and a value; a line; lines, each indented. Escaped,
 * never cut. */
void out_fact(const char *name, struct span value);
void out_line(struct span text);
void out_lines(struct span text, unsigned indent);
/* One JSON document and its newline, as the format says (not a table); out_text takes it as
 * compact text. */
void out_document(const struct cli *cli, const struct json *v);
void out_text(const struct cli *cli, struct span json);
/* Bytes as they are; on a terminal escaped. */
void out_bytes(struct span bytes);
/* out_finish without a struct out. */
int out_check(const struct cli *cli, int code);
/* All there is to print, one object: as out_object in a table, else as out_document. The exit code. */
int out_only(const struct cli *cli, const struct json *v);
