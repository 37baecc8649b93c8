/* The JSON bodies of requests, read into the structs the engine takes. Pure functions: JSON in,
 * structs or errors out; nothing here asks the engine. One at a time for each struct. Any thread.
 */
#pragma once

#include "base/json.h"
#include "base/limits.h"
#include "engine/engine.h"
#include "model/fields.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum body_verdict {
    BODY_GOOD,
    BODY_INVALID,   /* errors say why: 422 */
    BODY_TOO_LARGE, /* a payload is over the limit, the first of errors says which: 413 */
};

/* -- payload and headers --------------------------------------------------------------------- */

/* What a message carries. The spans borrow from the JSON tree, and from a buffer that may move while
 * more is read into it: of those there are places first. */
struct content {
    struct span payload, headers;
    size_t payload_at, headers_at; /* in the buffer, +1; 0: not there */
};

/* How large that buffer may be for a body of so many bytes. */
size_t content_bytes_max(size_t body_bytes_max);
/* Reads payload or payload_base64, one of them required, and headers; appends what is decoded to
 * `bytes`. Errors are added. */
void content_read(struct content *c, const struct fields *f, struct buf *bytes);
/* Sets the spans, when `bytes` is complete. */
void content_place(struct content *c, const struct buf *bytes);
/* True when its payload is over the limit; then that is the only error. */
bool content_is_too_large(const struct content *c, const char *prefix, size_t payload_bytes_max,
                          struct field_errors *errors);

/* -- enqueue --------------------------------------------------------------------------------- */

struct enqueue_limits {
    size_t payload_bytes_max;
    struct span header_key; /* of the header Idempotency-Key; p is NULL when not given */
};

/* Items borrow from the JSON tree and from `bytes`. */
struct enqueue_body {
    bool is_batch;
    size_t count;
    struct message_new items[LIMIT_BATCH];
    struct content contents[LIMIT_BATCH];
    struct buf bytes;
};

void enqueue_body_init(struct enqueue_body *b, size_t body_bytes_max);
void enqueue_body_release(struct enqueue_body *b);
enum body_verdict enqueue_body_read(struct enqueue_body *b, const struct json *v,
                                    const struct enqueue_limits *limits,
                                    struct field_errors *errors);

/* -- claim ----------------------------------------------------------------------------------- */

/* Borrows from the JSON tree. */
struct claim_body {
    struct claim claim;
    bool has_count; /* the reply is a list */
    int64_t wait_ms;
};

/* v may be NULL: all defaults. Errors are added with the prefix; none: the result is good. */
void claim_body_read(struct claim_body *b, const struct json *v, const char *prefix,
                     struct field_errors *errors);

/* -- settle ---------------------------------------------------------------------------------- */

/* The body of one verb on the message `id`; v may be NULL. */
void settle_verb_read(struct settle *s, enum settle_action action, uint64_t id,
                      const struct json *v, struct field_errors *errors);

struct settle_body {
    size_t count;
    struct settle items[LIMIT_BATCH];
    bool has_claim;
    struct claim_body claim;
};

void settle_body_read(struct settle_body *b, const struct json *v, struct field_errors *errors);

/* -- lease tokens ---------------------------------------------------------------------------- */

#define LEASE_NEVER UINT32_MAX /* a token that is no message's: the engine finds it stale */

/* The deliveries a token for message `id` names; LEASE_NEVER when it is malformed or another
 * message's. */
uint32_t lease_parse(struct span token, uint64_t id);
/* Appends "ID-DELIVERIES". */
void lease_write(uint64_t id, uint32_t deliveries, struct buf *out);
