/* Methods of AMQP 0-9-1 as librabbitmq's structs (amqp_framing.h), read and written by its codec, and
 * field tables as JSON and back. Memory of what is read comes from a pool and lives until
 * method_pool_clear. Loop thread. */
#pragma once

#include "amqp/frame.h"

#include "base/json.h"

#include <amqp.h>
#include <amqp_framing.h>

#define TABLE_DEPTH_MAX 32 /* tables and arrays within one another; deeper is a syntax error */

struct method_pool;
struct method_pool *method_pool_new(void);
void method_pool_free(struct method_pool *p);
void method_pool_clear(struct method_pool *p);

struct method {
    uint32_t id;   /* class << 16 | method, as AMQP_..._METHOD of librabbitmq */
    void *decoded; /* amqp_queue_declare_t and so on */
};
/* ERR_INVALID: the bytes are no such method's (CODE_SYNTAX_ERROR); ERR_NO_MESSAGE: unknown class or
 * method (CODE_COMMAND_INVALID). All tables in it are checked. */
enum err method_read(struct method_pool *p, struct span payload, struct method *ret) MUST_CHECK;

/* Appends a method frame. */
void method_write(struct buf *out, uint16_t channel, uint32_t id, void *decoded);

struct span method_span(amqp_bytes_t b);
amqp_bytes_t method_bytes(struct span s);
bool method_is_string(amqp_bytes_t b); /* UTF-8 */

/* Appends the table as a JSON object. Strings that are no UTF-8, and bytes: {"base64": "..."};
 * timestamps: whole numbers; decimals: numbers; void: null. `skip` (or NULL) is a key left out. */
void table_to_json(const amqp_table_t *t, const char *skip, struct buf *out);
/* The other way, from the pool: strings S, whole numbers l, others d, bool t, null V, arrays A,
 * objects F. */
amqp_table_t table_from_json(struct method_pool *p, const struct json *object);

/* A table as on the wire, its length before it: true when it is well formed (every length, every
 * letter, TABLE_DEPTH_MAX) and takes exactly n bytes (*ret_bytes) or, when ret_bytes is NULL, all of
 * it. */
bool table_check(struct span wire, size_t *ret_bytes);
enum err table_read(struct method_pool *p, struct span wire, amqp_table_t *ret) MUST_CHECK;
void table_write(const amqp_table_t *t, struct buf *out);
