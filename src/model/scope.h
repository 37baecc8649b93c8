/* Namespaces (AMQP's vhosts) within the one namespace of queues: a queue `q` of the vhost "/" is the
 * queue named `q` everywhere; one of another vhost `v` is named `//v/q`. The same holds for
 * exchanges. Pure functions; any thread. */
#pragma once

#include "base/bytes.h"

/* Appends the name of `name` in `vhost` to `out` (cleared first). False when it is longer than
 * LIMIT_QUEUE_NAME, or when a name of the vhost "/" begins with "//", which would be another's. */
bool scope_name(struct span vhost, struct span name, struct buf *out);
/* The two parts of a scoped name; they point into it (the vhost "/" is static). */
void scope_split(struct span scoped, struct span *ret_vhost, struct span *ret_name);
