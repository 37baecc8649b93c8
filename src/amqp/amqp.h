/* The AMQP 0-9-1 front end: a protocol for net/conn.h. It parses frames into calls of the engine and
 * formats what they answer; it decides nothing about queues. Loop thread.
 *
 * Source of what it does: the AMQP 0-9-1 specification, and where RabbitMQ's brokers and clients
 * agree on more, or on something else, that. docs/amqp.md says what differs and why. */
#pragma once

#include "net/conn.h"
#include "server/server.h"

struct amqp; /* the front end of one server */

/* What a user may do in a vhost: expressions (model/expression.h), well-formed, that are looked for in
 * names; an empty one is found in the empty name only. */
struct amqp_permission {
    struct span user, vhost, configure, write, read;
};

struct amqp_config {
    const char *product, *version; /* told to clients; see docs/amqp.md */
    /* USER:PASSWORD each; none: guest:guest, from loopback only */
    const char *const *users;
    unsigned user_count;
    /* A user that none is of may do everything; else what they say, in the vhosts that they name. */
    const struct amqp_permission *permissions;
    unsigned permission_count;
};

struct amqp *amqp_new(struct server *s, const struct amqp_config *config);
void amqp_free(struct amqp *a);

extern const struct protocol amqp_protocol; /* listener ctx: the struct amqp */

/* A queue became ready: delivers to its consumers. Called by the server in each turn. */
void amqp_on_woken(struct amqp *a, struct queue *handle);
/* Once a turn, after the queues: heartbeats, queues that expire, connection.blocked. Returns when to
 * be called again at the latest (milliseconds of server_now), TIME_NEVER = no need. */
int64_t amqp_turn(struct amqp *a, int64_t now);
/* True when something became ready for a consumer after amqp_turn: there should be another turn. */
bool amqp_is_busy(const struct amqp *a);
/* Since it was asked last, a connection sent on while what it sent before waits for the disk. */
bool amqp_take_streamed(struct amqp *a);

/* Draining: consumers get nothing more; connections are closed with 320 when their publishings are
 * confirmed. */
void amqp_drain(struct amqp *a);
unsigned amqp_inflight(const struct amqp *a); /* publishings that are not confirmed yet */
