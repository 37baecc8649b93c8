/* One HTTP connection: its requests in order, one at a time. See connection.c for its states. Loop
 * thread. */
#pragma once

#include "http/response.h"

struct connection;
struct waiter;

/* The reply of a request that waits for a message; the waiter has ended. */
void connection_answer(struct connection *k, const struct reply *reply);
/* The waiter of the request at work, freed when the connection closes. NULL when it has ended. */
void connection_set_waiter(struct connection *k, struct waiter *w);
