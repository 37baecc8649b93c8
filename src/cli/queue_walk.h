/* All queues of the server, page by page. One thread. */
#pragma once

#include "cli/call.h"

/* Calls f for each queue object, in order of creation; stops when f says false. -1, or the exit
 * code and said. */
int queue_walk(struct call *r, bool (*f)(void *ctx, const struct json *queue), void *ctx);

/* The same for the queues named; one that is not there ends it. */
int queue_walk_named(struct call *r, char **names, int n,
                     bool (*f)(void *ctx, const struct json *queue), void *ctx);
