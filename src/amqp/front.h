/* The inside of the AMQP front end, shared by the files of src/amqp: its state. Loop thread.
 *
 *   struct amqp            one: users, the registry of queues with consumers or an owner
 *     struct session       a connection: handshake, heartbeat, its channels      (session.c)
 *       struct channel     one at work: publishing, unacknowledged deliveries    (channel.c)
 *         struct consumer  of one queue                                          (consumer.c)
 *     struct amqp_queue    what only lives in memory of a queue: its consumers, whose it is, when it
 *                          was last used                                         (registry.c)
 *
 * Invariants:
 * A1 What a client is told happened (confirm, declare-ok, deliver) goes out when the log is durable up
 *    to log_end() as it was then: `held` of the session is the one queue of output that waits for the
 *    disk, in order. Output that waits for nothing goes behind what waits, never past it.
 * A2 After conn_close the session is gone (closed() was called inside): who may close says so by its
 *    result, and callers return.
 * A3 A delivery is in exactly one channel's list `unacked`, by rising tag, until it is settled; when
 *    the channel ends all of them are returned, oldest first.
 * A4 After a channel error only channel.close(-ok) of that channel is listened to. */
#pragma once

#include "amqp/amqp.h"
#include "amqp/frame.h"
#include "amqp/method.h"
#include "engine/topology.h"

#include "base/limits.h"

struct session;
struct channel;
struct consumer;
struct amqp_queue;

struct amqp {
    struct server *server;
    struct amqp_config config;
    struct session *sessions; /* all */
    unsigned session_count;
    unsigned inflight;
    bool is_draining, is_blocked; /* blocked: the disk is full */
    struct amqp_queue **buckets;  /* registry.c */
    unsigned bucket_count, queue_count;
    struct method_pool *pool; /* memory of the method at work */
    struct buf scratch, name, json, packed;
};

/* -- sessions (session.c): the other files use these -------------------------------------------- */

enum session_phase { AWAIT_HEADER, AWAIT_START_OK, AWAIT_TUNE_OK, AWAIT_OPEN, OPEN, CLOSING };

struct session {
    struct amqp *amqp;
    struct conn *conn;
    struct session *next, **link;
    enum session_phase phase;
    uint32_t frame_max;        /* as negotiated; FRAME_MAX_FIRST before */
    uint16_t channel_max;      /* how many may be open at once */
    uint16_t heartbeat_s;      /* 0 = none */
    char *vhost, *user, *name; /* name: the client's own, for the log; owned */
    /* what the client said it can do */
    bool can_cancel_notify, can_blocked, can_auth_close;
    bool has_published, was_told_blocked;
    struct channel **channels; /* by number; NULL = not open */
    uint32_t channel_cap, channel_count;
    int64_t heard_at, sent_at; /* loop_now: for heartbeats */
    struct buf held;           /* A1: frames that wait for the disk */
    uint64_t held_position;    /* and until where */
    struct barrier_waiter commit;
    struct amqp_queue *exclusive; /* queues that are this connection's */
};

struct span session_vhost(const struct session *s);
/* Where output is appended that may go at once, or, when it tells of what the engine did
 * (`after_commit`), once that is on disk. Frames are whole (frame.h). Flushed at the end of the turn
 * by session_flush. */
struct buf *session_out(struct session *s, bool after_commit);
void session_flush(struct session *s);
/* True when its output is more than may pile up: no deliveries until it drained. */
bool session_is_congested(const struct session *s);

/* Ends the connection with connection.close: code and text (at most 255 bytes; cut), class and method
 * that caused it or 0, 0. The rest of what it sends is not looked at. */
void session_fail(struct session *s, enum code code, uint32_t method, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* -- channels (channel.c) ------------------------------------------------------------------------ */

struct delivery {
    uint64_t tag;
    uint64_t id;
    uint32_t lease;
    uint32_t bytes;            /* of payload */
    struct amqp_queue *queue;  /* counted in its `refs` */
    struct consumer *consumer; /* NULL: by basic.get, or it was cancelled */
};

struct channel {
    struct session *session;
    uint16_t number;
    bool is_closing; /* A4 */
    bool confirms, is_tx;
    char *last_queue; /* the name last declared here, within the vhost; owned */
    /* a publishing that is being received: method, header, bodies */
    struct publishing *publishing; /* publish.c; NULL = none */
    uint64_t publish_seq;          /* of confirms: the last one given */
    struct tx *tx;                 /* tx.c */
    /* deliveries */
    uint64_t delivery_tag;    /* the last one given */
    struct delivery *unacked; /* a ring by rising tag (consumer.c) */
    uint32_t unacked_first, unacked_count, unacked_cap;
    uint32_t prefetch;         /* per consumer, of those to come; 0 = no limit */
    uint32_t prefetch_channel; /* shared by all its consumers; 0 = no limit */
    uint32_t consumer_unacked; /* of deliveries to consumers (not of get) */
    struct consumer *consumers;
};

/* A frame of an open session, whole; may close the session: false then. */
bool channel_frame(struct session *s, const struct frame *f);
/* Ends the channel with channel.close; its deliveries are given back, its consumers end. Codes that
 * are the connection's (frame.h) end that. */
void channel_fail(struct channel *c, enum code code, uint32_t method, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Frees it: deliveries are returned to their queues, consumers end. No frame is sent. */
void channel_free(struct channel *c);

/* -- method handlers, one file a class: each may fail the channel or the session ------------------- */

void exchange_method(struct channel *c, const struct method *m); /* exchange_methods.c */
void queue_method(struct channel *c, const struct method *m);    /* queue_methods.c */
void basic_method(struct channel *c, const struct method *m);    /* basic_methods.c */
void confirm_method(struct channel *c, const struct method *m);  /* tx.c */
void tx_method(struct channel *c, const struct method *m);       /* tx.c */

/* -- publishing (publish.c) -------------------------------------------------------------------- */

void publish_begin(struct channel *c, const struct method *m);
/* HEADER and BODY frames; false when the session is gone. */
bool publish_frame(struct channel *c, const struct frame *f);
void publish_drop(struct channel *c); /* what is half received goes */

/* -- consumers and deliveries (consumer.c) --------------------------------------------------------- */

struct consumer {
    struct channel *channel;
    struct amqp_queue *queue;
    struct consumer *next, **link;                      /* the channel's */
    struct consumer *next_of_queue, *previous_of_queue; /* a ring: the next to be served */
    char *tag;                                          /* owned */
    bool no_ack, is_exclusive, wants_ids;
    int32_t priority;
    uint32_t prefetch, unacked;
};

/* Delivers what is ready to consumers that have room, in turn, by priority. */
void queue_deliver(struct amqp *a, struct amqp_queue *q);
/* Settles the outstanding deliveries up to `tag` (multiple), or that one. False: unknown tag. */
bool deliveries_settle(struct channel *c, uint64_t tag, bool multiple, enum settle_action action);
void deliveries_return_all(struct channel *c, bool of_consumers_too);
void consumer_free(struct consumer *k); /* its deliveries stay outstanding on the channel */

/* -- queues in memory (registry.c) ------------------------------------------------------------------- */

struct amqp_queue {
    struct amqp *amqp;
    struct amqp_queue *next_of_bucket;
    struct span name;           /* scoped; owned */
    struct queue *watched;      /* engine_watch: while it has consumers */
    struct consumer *consumers; /* the next to be served; a ring */
    unsigned consumer_count;
    bool has_exclusive_consumer, had_consumer;
    struct session *owner; /* exclusive */
    struct amqp_queue *next_owned, **link_owned;
    unsigned refs; /* deliveries and consumers that name it; 0 and nothing else: it is forgotten */
    bool is_gone;  /* deleted; waits for refs */
    int64_t used_at;    /* for x-expires */
    int64_t expires_ms; /* -1 = never */
};

struct amqp_queue *registry_find(struct amqp *a, struct span scoped); /* NULL = nothing known */
struct amqp_queue *registry_need(struct amqp *a, struct span scoped);
/* Forgets it when nothing is left that it would remember. */
void registry_release(struct amqp *a, struct amqp_queue *q);
/* Deletes the queue in the engine and ends its consumers (basic.cancel to those that can hear it).
 * The frame is committed with what follows. */
void registry_delete(struct amqp *a, struct amqp_queue *q);
/* Queues whose x-expires has run out; when the next one does. */
int64_t registry_expire(struct amqp *a, int64_t now);
