/* The body of POST /dead: letters from elsewhere, in the form that GET /dead?exact=yes gives them.
 * JSON in, the engine's structs or errors out; nothing here asks the engine. What the engine finds
 * out by itself (the group, the job, what follows from other members) is known, and not looked at.
 * Any thread. */
#pragma once

#include "http/bodies.h"

struct letters_body {
    struct span queue, reason;
    size_t count;
    struct letter_new items[LIMIT_BATCH]; /* borrow from the JSON tree and from what is below */
    struct content contents[LIMIT_BATCH];
    size_t attempts_at[LIMIT_BATCH];
    size_t envelopes_at[LIMIT_BATCH]; /* in bytes */
    struct buf bytes;
    struct letter_attempt *attempts; /* of all letters, one after the other */
    size_t attempt_count, attempt_cap;
};

struct letters_body *letters_body_new(size_t body_bytes_max);
void letters_body_free(struct letters_body *b); /* NULL is fine */

enum body_verdict letters_body_read(struct letters_body *b, const struct json *v,
                                    size_t payload_bytes_max, struct field_errors *errors);
