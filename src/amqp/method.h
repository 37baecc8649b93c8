/* Methods of AMQP 0-9-1 as librabbitmq's structs (amqp_framing.h), read and written by its codec.
 * Memory of what is read comes from a pool and lives until method_pool_clear. Loop thread. */
#pragma once

#include "amqp/frame.h"
#include "amqp/table.h"

#include <amqp.h>
#include <amqp_framing.h>

/* RabbitMQ's, which librabbitmq does not have: `decoded` is NULL for both. */
#define METHOD_UPDATE_SECRET ((10U << 16) | 70U)
#define METHOD_UPDATE_SECRET_OK ((10U << 16) | 71U)

struct method_pool *method_pool_new(void);
void method_pool_free(struct method_pool *p); /* NULL is fine */
void method_pool_clear(struct method_pool *p);
void *method_pool_alloc(struct method_pool *p, size_t n); /* undefined bytes; never NULL */
amqp_pool_t *method_pool_inner(struct method_pool *p);

struct method {
    uint32_t id;   /* class << 16 | method, as AMQP_..._METHOD of librabbitmq */
    void *decoded; /* amqp_queue_declare_t and so on */
};
#define METHOD_CLASS(id) ((uint16_t)((id) >> 16))
#define METHOD_NUMBER(id) ((uint16_t)((id)&0xffff))

/* Reads one that a client may send. ERR_INVALID: the bytes are no such method's
 * (CODE_SYNTAX_ERROR); ERR_CORRUPT: a short string that is no UTF-8 (CODE_FRAME_ERROR);
 * ERR_NO_MESSAGE: unknown class or method, or one that only servers send (CODE_COMMAND_INVALID).
 * ret->id is set in all cases but when there are not even 4 bytes: then it is 0. All tables in it
 * are checked, and their letters are those of table_normalise. Strings point into the payload, or
 * into the pool. */
enum err method_read(struct method_pool *p, struct span payload, struct method *ret) MUST_CHECK;

/* Appends a method frame. Short strings of more than 255 bytes are a broken invariant. */
void method_write(struct buf *out, uint16_t channel, uint32_t id, void *decoded);

struct span method_span(amqp_bytes_t b);
amqp_bytes_t method_bytes(struct span s);
amqp_bytes_t method_str(const char *s);
bool method_is_string(amqp_bytes_t b); /* UTF-8 */
