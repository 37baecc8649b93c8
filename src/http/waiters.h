/* Claims that wait for a message, by queue, first come first served. A waiter is made when a claim
 * found nothing, and ends with its reply: because a message came, its time is up, its queue was
 * deleted, or the server drains. When its client goes, it just ends: nothing is claimed for nobody.
 * Loop thread. */
#pragma once

#include "http/bodies.h"
#include "net/loop.h"

struct http;
struct call;
struct connection;

#define WAITERS_BUCKETS 1024

struct waiting_queue;
struct waiters {
    struct waiting_queue *buckets[WAITERS_BUCKETS];
};

/* How the reply to a claim looks. */
enum claim_shape {
    /* each with "paused" when that is why there was nothing */
    CLAIM_ONE,          /* {"claimed": ..., "message": ...} */
    CLAIM_MANY,         /* {"claimed": ..., "messages": [...]} */
    CLAIM_AFTER_SETTLE, /* {"results": [...], "messages": [...]} */
};

struct waiter;

/* Makes the call wait: its reply comes later, by connection_answer. Everything is copied. `results`
 * is the JSON of CLAIM_AFTER_SETTLE. */
enum err waiter_add(struct call *c, const struct claim_body *claim, enum claim_shape shape,
                    struct span results) MUST_CHECK;
/* Ends it without a reply. */
void waiter_free(struct waiter *w);
/* Replies that there was nothing. */
void waiter_dismiss(struct waiter *w);
/* The same for all of a queue. */
void waiters_dismiss(struct http *h, struct span queue);
