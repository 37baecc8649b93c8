/* JSON (RFC 8259). Reading makes a tree; writing goes straight into a buffer, because a reply is
 * written once and never changed. Any thread. */
#pragma once

#include "base/bytes.h"

/* -- reading --------------------------------------------------------------------------------- */

enum json_kind {
    JSON_NULL,
    JSON_BOOL,
    JSON_INTEGER,
    JSON_REAL,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT
};

struct json; /* a value of a tree; the root owns all, values borrow from it */

struct json_error {
    int line, column;
    char text[160];
};

/* Parses one JSON text: UTF-8, any value at the top, no duplicate members, NUL in strings (but not
 * names) allowed, integers of 64 bits, at most 2048 levels. NULL and *ret_error when it is not. The
 * caller frees the root. The text may go away; the tree takes up to some ten times its bytes. */
struct json *json_parse(struct span text, struct json_error *ret_error);
void json_free(struct json *root); /* NULL is fine */

enum json_kind json_kind_of(const struct json *v);
bool json_is(const struct json *v, enum json_kind kind); /* false for NULL */

/* Of an object: the member, or NULL when v is NULL, no object, or has none of that name. */
const struct json *json_get(const struct json *v, const char *name);
/* Of an object: calls f for each member in the order of the text; stops and returns false when f
 * does. */
bool json_each(const struct json *v,
               bool (*f)(void *ctx, const char *name, const struct json *member), void *ctx);
size_t json_count(const struct json *v);                    /* of an array or object; else 0 */
const struct json *json_at(const struct json *v, size_t i); /* of an array; i < json_count(v) */

/* These assert the kind. A string's bytes live as long as the root. */
struct span json_string(const struct json *v);
int64_t json_integer(const struct json *v);
double json_number(const struct json *v); /* integer or real */
bool json_bool(const struct json *v);

/* Appends v as compact JSON text, members in the order of the text. */
void json_dump(const struct json *v, struct buf *out);

/* -- writing --------------------------------------------------------------------------------- */

/* Writes into out, with the commas. Depth at most 30 (assert). Names are trusted (no escaping);
 * values are escaped. json_begin(&w, '{'); json_name(&w, "id"); json_put_u64(&w, 7); json_end(&w,
 * '}'); */
struct json_writer {
    struct buf *out;
    uint32_t has_items; /* one bit a level */
    unsigned depth;
    bool after_name;
};

void json_writer_init(struct json_writer *w, struct buf *out);
void json_begin(struct json_writer *w, char bracket); /* '{' or '[' */
void json_end(struct json_writer *w, char bracket);   /* '}' or ']' */
void json_name(struct json_writer *w, const char *name);
void json_put_null(struct json_writer *w);
void json_put_bool(struct json_writer *w, bool v);
void json_put_i64(struct json_writer *w, int64_t v);
void json_put_u64(struct json_writer *w, uint64_t v);
void json_put_double(struct json_writer *w, double v);
void json_put_string(struct json_writer *w, struct span utf8); /* must be UTF-8 */
void json_put_str(struct json_writer *w, const char *utf8);
void json_put_base64(struct json_writer *w, struct span bytes);
void json_put_raw(struct json_writer *w, struct span json); /* already JSON */

/* -- base64 (RFC 4648, with padding) --------------------------------------------------------- */

void base64_encode(struct span bytes, struct buf *out);
/* Appends the bytes; ERR_INVALID when text is not exactly base64 with padding, and then out is
 * unchanged. */
enum err base64_decode(struct span text, struct buf *out) MUST_CHECK;
