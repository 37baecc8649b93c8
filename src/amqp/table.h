/* Field tables of AMQP 0-9-1: as on the wire, as librabbitmq's structs, as JSON. Pure but for the
 * pool; any thread that owns its pool.
 *
 * librabbitmq's decoder recurses as deep as the bytes say, and trusts a table's own length only
 * loosely: table_check walks before it, always (docs/decisions/0017-amqp-codec.md). */
#pragma once

#include "base/json.h"

#include <amqp.h>

#define TABLE_DEPTH_MAX 32 /* tables and arrays within one another; deeper is a syntax error */

struct method_pool; /* amqp/method.h */

/* A table as on the wire, its length before it: true when it is well formed (every length, every
 * letter, TABLE_DEPTH_MAX) and takes exactly n bytes (*ret_bytes) or, when ret_bytes is NULL, all of
 * it. */
bool table_check(struct span wire, size_t *ret_bytes);
/* Rewrites, in place, the letters that many clients cannot read: L becomes l, U becomes s; their
 * values have the same bytes. Only of a table that was checked. */
void table_normalise(uint8_t *wire, size_t n);

/* Appends the table without the entries of the key `skip` (or NULL) at its top, and with all whole
 * numbers but I as l: some clients read b, B, s, u, i, U and L as something else, or not at all. What
 * no other letter can hold (d, f, D) stays. Only of a table that was checked. */
void table_add_widened(struct span wire, const char *skip, struct buf *out);

/* ERR_INVALID when table_check says no. All of it lies in the pool; letters are normalised. */
enum err table_read(struct method_pool *p, struct span wire, amqp_table_t *ret) MUST_CHECK;
/* At most TABLE_DEPTH_MAX deep, of letters that table_read gives. */
void table_write(const amqp_table_t *t, struct buf *out);

/* One entry after the other, of a table that was checked: false after the last. `rest` begins as the
 * table without its 4 bytes of length. */
struct table_item {
    struct span key;
    uint8_t letter;
    struct span value; /* with its own length before it, if it has one */
    struct span whole; /* the entry as on the wire */
};
bool table_next(struct span *rest, struct table_item *ret);
/* The same for the values of an array (without key). */
bool array_next(struct span *rest, struct table_item *ret);

/* Appends the table as a JSON object. Strings that are no UTF-8, and bytes: {"base64": "..."};
 * timestamps: whole numbers; decimals: numbers; void, and what is no finite number: null. Of equal
 * keys the first counts; keys that JSON cannot have (no UTF-8, a NUL in it) are left out, and so is
 * `skip` (or NULL) at the top. */
void table_to_json(const amqp_table_t *t, const char *skip, struct buf *out);

/* The other way: strings S, {"base64": "..."} x, whole numbers l, others d, bool t, null V, arrays A,
 * objects F. What is deeper than TABLE_DEPTH_MAX becomes V, a name of more than 255 bytes is cut. */
amqp_table_t table_from_json(struct method_pool *p, const struct json *object);
/* The same, appended as on the wire. */
void table_wire_from_json(const struct json *object, struct buf *out);
