/* What claims of every kind share. Loop thread. */
#pragma once

#include "http/front.h"

/* Serves the claims that wait for the queue: before anything of this call's reply is written. Else a
 * claim that is read between an enqueue and the end of the turn would overtake them. */
void claim_let_others_first(struct call *c);

/* Claims, and replies or waits. For CLAIM_AFTER_SETTLE the reply's body holds {"results":[...]
 * without its end. */
void claim_or_wait(struct call *c, const struct claim_body *body, enum claim_shape shape);

/* Completes a reply with n claimed messages. */
void claim_reply(struct http *h, struct reply *r, struct span queue, enum claim_shape shape,
                 const uint64_t *ids, size_t n, int64_t now);
/* Completes a reply to a claim that failed. */
void claim_reply_error(struct reply *r, enum claim_shape shape, enum err e);
