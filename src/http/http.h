/* The HTTP front end: a protocol for net/conn.h. It parses requests into calls of the engine and
 * formats results; it decides nothing about queues. Loop thread. */
#pragma once

#include "net/conn.h"
#include "server/server.h"

struct http; /* the front end of one server */

struct http *http_new(struct server *s);
void http_free(struct http *h);

extern const struct protocol http_protocol; /* listener ctx: the struct http */

/* The server changed time or a queue became ready: serves waiting claims of woken queues. Called by
 * the server in each turn. */
void http_on_woken(struct http *h, struct queue *q);

/* Draining: waiting claims are answered empty, idle connections closed, busy ones after their
 * reply. */
void http_drain(struct http *h);
/* Requests that are not answered yet. */
unsigned http_inflight(const struct http *h);
