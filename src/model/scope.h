/* Namespaces (AMQP's vhosts) within the one namespace of queues: a queue `q` of the vhost "/" is the
 * queue named `q` everywhere; one of another vhost `v` is named `//v/q`. The same holds for
 * exchanges. A vhost's name may begin with a slash (`/staging`: its queues are `///staging/q`); one
 * with a slash further on, or an empty one, could not be told from another and has no names here.
 * Neither has a name, or a vhost, with a NUL in it, which HTTP could not say. What has not this form is
 * of the vhost "/". Pure functions; any thread. */
#pragma once

#include "base/bytes.h"

/* True when things of that vhost can be named: "/", or as said above. */
bool scope_vhost_is_valid(struct span vhost);

/* Appends the name of `name` in `vhost` to `out` (cleared first). False when it is longer than
 * LIMIT_QUEUE_NAME or has a NUL, when the vhost is not valid, or when a name of the vhost "/" begins
 * with "//", which would be another's. */
bool scope_name(struct span vhost, struct span name, struct buf *out);
/* The two parts of a scoped name; they point into it (the vhost "/" is static). */
void scope_split(struct span scoped, struct span *ret_vhost, struct span *ret_name);
