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
#include "model/expression.h"

#include "base/limits.h"
#include "net/loop.h"

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
    bool is_streamed;             /* amqp_take_streamed */
    bool is_draining, is_blocked; /* blocked: the disk is full */
    /* registry.c: by name and, those that are watched, by the engine's handle */
    struct amqp_queue **buckets, **watched;
    unsigned bucket_count, queue_count, watched_bucket_count, watched_count;
    /* queues that have something for somebody, in the order they will be looked at (consumer.c) */
    struct amqp_queue *scheduled_first, **scheduled_last;
    bool is_stuck; /* there was no room on the disk to hand out: tried again in a later turn */
    struct channel *unconfirmed;   /* channels with confirms to be written (publish.c) */
    struct channel *unsettled;     /* channels with more to settle (deliveries.c) */
    struct reply_address *replies; /* reply.c */
    struct settling *settling;     /* what is settled once a turn (deliveries.c) */
    uint64_t consumer_numbers;
    struct envelope *envelope; /* of the message at work: it is large */
    int64_t expire_at;         /* the next x-expires is due then, or later (registry.c) */
    struct method_pool *pool;  /* memory of the method at work */
    struct grant *grants;      /* access.c */
    unsigned grant_count;
    struct expression_memory expressions;
    struct buf scratch, name, json, packed, headers;
    /* sessions: those that were written to, those that failed and must still give back what they
     * have (session.c); heartbeats (heartbeat.c) */
    struct session *dirty, *failed;
    struct buf sink; /* what is said to a session that ends, which hears nothing */
    struct loop_timer beat;
    bool is_beating;
};

/* At the end of a turn, when all input was worked on: settles, confirms, delivers, in this order; then
 * flushes whom it wrote to. True when there is more to do at once. */
bool amqp_work(struct amqp *a);
/* What the upper half keeps at the front end: once, after amqp_new's own, and before amqp_free's. */
void amqp_work_init(struct amqp *a);
void amqp_work_release(struct amqp *a);

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
    uint32_t consumer_count;   /* of all channels */
    size_t kept_bytes;         /* of all channels: publishings that are not whole, transactions */
    int64_t heard_at, sent_at; /* loop_now: for heartbeats */
    size_t unsent;             /* bytes that the socket had not taken at the last look */
    struct buf held;           /* A1: frames that wait for the disk */
    uint64_t held_position;    /* and until where */
    bool held_is_new;          /* since the position was taken */
    size_t held_covered;       /* bytes at the front that `commit` waits for */
    struct barrier_waiter commit;
    struct barrier_waiter stall;                /* reading waits until less is unsynced */
    bool is_paused;                             /* not read: stalled, congested or blocked */
    bool is_starved;                            /* somebody was told that it is congested */
    bool is_done;                               /* closes when all is sent */
    bool is_wound_up;                           /* has given back what it had */
    bool is_settling;                           /* a channel of it has more to settle */
    struct session *next_dirty, **link_dirty;   /* of amqp.dirty; link NULL = not on it */
    struct session *next_failed, **link_failed; /* the same of amqp.failed */
    struct amqp_queue *exclusive;               /* queues that are this connection's */
    const struct grant *grant;                  /* what it may do; NULL: everything */
};

struct span session_vhost(const struct session *s);
/* Where output is appended that may go at once, or, when it tells of what the engine did
 * (`after_commit`), once that is on disk. Frames are whole (frame.h). Flushed at the end of the turn
 * by session_flush. */
struct buf *session_out(struct session *s, bool after_commit);
void session_flush(struct session *s);
/* True when its output is more than may pile up: no deliveries until it drained, when
 * session_schedule is called. */
bool session_is_congested(struct session *s);
/* True when it is not read because of us. */
bool session_waits_for_us(const struct session *s);
/* It is read again, is_settling is over. */
void session_settled(struct session *s);

/* Ends the connection with connection.close: code and text (at most 255 bytes; cut), class and method
 * that caused it or 0, 0. The rest of what it sends is not looked at. Its channels live on until the
 * end of the turn, but are asked for nothing any more, and what is written to them is lost. */
void session_fail(struct session *s, enum code code, uint32_t method, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* What quotes a client's bytes becomes UTF-8, as short strings are. */
void session_mend_text(char *text);
/* Reads the method of a frame; false: the session failed (the code and text that tell why). */
bool session_read_method(struct session *s, const struct frame *f, struct method *ret);
/* Ends it, when all output is sent, without a word. */
void session_finish(struct session *s, enum close_reason reason);
/* A method of channel 0. Its arguments may be NULL. */
void session_send(struct session *s, uint32_t id, void *decoded);
/* Channels are freed, deliveries given back, exclusive queues deleted. */
void session_wind_up(struct session *s);

/* Gives back what the failed ones had. */
void session_end_failed(struct amqp *a);
void session_drain(struct session *s);

/* -- the handshake (handshake.c), users (auth.c) ----------------------------------------------------- */

/* The first bytes of a connection: the protocol header, or something else. Returns how many were
 * taken; 0 = more must come. */
size_t handshake_header(struct session *s, struct span in);
/* A method on channel 0 before it is open. */
void handshake_method(struct session *s, const struct method *m);

struct credentials {
    struct span user, password;
};
/* Reads the response of a mechanism. ERR_INVALID: ill-formed. */
enum err auth_read(bool is_amqplain, struct span response, struct credentials *ret) MUST_CHECK;
bool auth_is_user(const struct amqp_config *config, const struct credentials *c, const char *peer);

/* -- who may do what (access.c) -------------------------------------------------------------------------- */

enum access { ACCESS_CONFIGURE = 1, ACCESS_WRITE = 2, ACCESS_READ = 4, ACCESS_ANY = 7 };

void access_init(struct amqp *a);
void access_release(struct amqp *a);
/* Sets what the session's user may do in the vhost; false: it may not go there. */
bool access_open(struct session *s, struct span vhost);
/* True when it may do (one of) that with the queue or exchange of that name, or with the exchange that a
 * publishing names. False: 403, and the channel failed. */
bool access_queue(struct channel *c, enum access access, struct span name, uint32_t method);
bool access_exchange(struct channel *c, enum access access, struct span name, uint32_t method);
bool access_publish(struct channel *c, struct span exchange);

/* -- heartbeats (heartbeat.c) --------------------------------------------------------------------------- */

void heartbeat_init(struct amqp *a);
void heartbeat_release(struct amqp *a);
/* A session came: the timer runs while there is one. */
void heartbeat_start(struct amqp *a);
/* The disk is full, or no longer: tells the publishers (session.c). */
void session_look_at_disk(struct amqp *a);

/* -- channels (channel.c) ------------------------------------------------------------------------ */

struct delivery {
    uint64_t tag;
    uint64_t id; /* 0: it is settled, and only keeps its place */
    uint32_t lease;
    bool is_get;               /* by basic.get: counts towards no prefetch */
    struct amqp_queue *queue;  /* counted in its `refs` */
    struct consumer *consumer; /* NULL: by basic.get */
};

/* Deliveries by rising tag: a ring. */
struct deliveries {
    struct delivery *items;
    uint32_t first, count, cap; /* cap is 0 or a power of two */
    uint32_t settled;           /* of count: they only keep their place */
};

struct channel {
    struct session *session;
    uint16_t number;
    bool is_closing; /* A4 */
    bool confirms, is_tx;
    struct span last_queue; /* the name last declared here, within the vhost; owned */
    struct span written;    /* the exchange last published to, if that was asked about; owned */
    bool has_written;
    /* a publishing that is being received: method, header, bodies */
    struct publishing *publishing; /* publish.c; NULL = never was one */
    uint64_t publish_seq;          /* of confirms: the last one given */
    /* confirms that are not written yet: from..to, all acks or all nacks; none when from is 0 */
    uint64_t confirm_from, confirm_to;
    bool confirm_is_nack;
    struct channel *next_unconfirmed, **link_unconfirmed; /* of amqp.unconfirmed; or NULL */
    struct tx *tx;                                        /* tx.c */
    /* deliveries */
    uint64_t delivery_tag;     /* the last one given */
    struct deliveries unacked; /* deliveries.c */
    uint32_t prefetch;         /* per consumer, of those to come; 0 = no limit */
    uint32_t prefetch_channel; /* shared by all its consumers; 0 = no limit */
    uint32_t consumer_unacked; /* of deliveries to consumers (not of get) */
    /* what a method settles beyond a turn's measure: the rest, up to this tag; 0 = nothing */
    uint64_t settle_to;
    enum settle_action settle_action;
    bool is_recovering;                               /* and then it is told so */
    struct channel *next_unsettled, **link_unsettled; /* of amqp.unsettled; or NULL */
    struct consumer *consumers;
    struct reply_address *reply; /* direct reply-to (reply.c); NULL = not asked for */
};

/* A frame of an open session, whole; may close the session: false then. */
bool channel_frame(struct session *s, const struct frame *f);
/* Ends the channel with channel.close; its deliveries are given back, its consumers end. Codes that
 * are the connection's (frame.h) end that, and the channel is gone then: callers return. */
void channel_fail(struct channel *c, enum code code, uint32_t method, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The same for an error of the engine that a client's request met. */
void channel_fail_err(struct channel *c, uint32_t method, enum err e);
/* A method that is none of a server's. */
void channel_unexpected(struct channel *c, const struct method *m);
/* Frees it: deliveries are returned to their queues, consumers end. No frame is sent. */
void channel_free(struct channel *c);
/* Appends a method frame of the channel; `after_commit` as in session_out. */
void channel_send(struct channel *c, bool after_commit, uint32_t id, void *decoded);

/* A span as arguments of "%.*s". */
#define TEXT(s) (int)(s).n, (const char *)(s).p

/* -- names (names.c) ------------------------------------------------------------------------------- */

/* A queue or exchange as a client names it. */
struct place {
    struct span plain;  /* within the vhost */
    struct span scoped; /* model/scope.h; in the buffer given */
};
/* The name without CR and LF, until the method at work is done. */
struct span name_strip(struct amqp *a, amqp_bytes_t given);
/* `into` holds the text. False: the channel or session failed. */
bool name_read(struct channel *c, amqp_bytes_t given, uint32_t method, struct buf *into,
               struct place *ret);
/* The same for a queue: an empty name is the one last declared on the channel. */
bool name_read_queue(struct channel *c, amqp_bytes_t given, uint32_t method, struct buf *into,
                     struct place *ret);
/* Also looks it up: 403 when the user may not do that, 404 when there is none, 405 when it is another
 * connection's. *ret_view is valid until the next call on the engine. */
bool name_find_queue(struct channel *c, amqp_bytes_t given, enum access access, uint32_t method,
                     struct buf *into, struct place *ret, struct queue_amqp_view *ret_view);
/* False and 405 when it is another connection's. */
bool name_may_use(struct channel *c, const struct place *queue, uint32_t method);
/* 22 letters that nobody guesses, after `prefix`, into `out` (cleared). */
void name_make(const char *prefix, struct buf *out);

/* -- method handlers, one file a class: each may fail the channel or the session ------------------- */

void exchange_method(struct channel *c, const struct method *m); /* exchange_methods.c */
/* Of a binding from `source` (scoped): false when a headers exchange cannot match by these arguments,
 * and the channel failed. */
bool binding_is_valid(struct channel *c, struct span source, const amqp_table_t *arguments,
                      uint32_t method);
void queue_method(struct channel *c, const struct method *m);   /* queue_methods.c */
void basic_method(struct channel *c, const struct method *m);   /* basic_methods.c */
void confirm_method(struct channel *c, const struct method *m); /* tx.c */
void tx_method(struct channel *c, const struct method *m);      /* tx.c */

/* -- publishing (publish.c) -------------------------------------------------------------------- */

/* One publishing, whole. Spans are borrowed. */
struct content_head; /* amqp/content.h */
struct publication {
    struct span exchange, key; /* as the client gave them */
    bool mandatory;
    uint64_t seq; /* of its confirm; 0 = none */
    const struct content_head *content;
    struct span body;
};

void publish_begin(struct channel *c, const struct method *m);
/* HEADER and BODY frames. */
void publish_frame(struct channel *c, const struct frame *f);
bool publish_is_open(const struct channel *c); /* header or body is still to come */
/* Counts n bytes that the channel keeps; false, and nothing is counted, when they are too many: the
 * channel failed. */
bool publish_keep(struct channel *c, size_t n);
void publish_free(struct channel *c);

enum published_how {
    PUBLISH_DONE,
    PUBLISH_REFUSED, /* by a queue, or the full disk; a nack says so, if there are confirms */
    PUBLISH_FAILED,  /* the channel */
};
/* Routes it; returns and confirms it. */
enum published_how publish_now(struct channel *c, const struct publication *p);
/* Writes the confirms of the channel that are due, merged. */
void confirms_write(struct channel *c);

/* -- transactions (tx.c) ------------------------------------------------------------------------- */

/* Keeps it for the commit; its content is read again from `header`, the payload of its header
 * frame. */
void tx_publish(struct channel *c, const struct publication *p, struct span header);
/* Keeps what becomes of deliveries for the commit; false: unknown tag. When they are too many, the
 * channel failed. */
bool tx_settle(struct channel *c, uint64_t tag, bool multiple, enum settle_action action);
/* What it holds is not done; its deliveries are outstanding again. */
void tx_free(struct channel *c);

/* -- direct reply-to (reply.c): answers that go from memory to memory ------------------------------ */

#define REPLY_QUEUE "amq.rabbitmq.reply-to"
/* The channel's consumer of answers; false: the channel failed. */
bool reply_consume(struct channel *c, bool no_ack, struct span tag);
bool reply_has_tag(const struct channel *c, struct span tag);
void reply_free(struct channel *c);
/* The name that answers to the channel go to; empty when it does not consume any. */
struct span reply_name(const struct channel *c);
/* True when `key` is the name of an address. */
bool reply_is_address(struct span key);
/* False: nobody is there (any more), or does not read. */
bool reply_deliver(struct amqp *a, const struct publication *p);
bool reply_is_there(const struct amqp *a, struct span key);

/* -- deliveries (deliveries.c) ----------------------------------------------------------------------- */

/* Outstanding from now on; counts. */
void delivery_add(struct channel *c, const struct delivery *d);
/* Takes those up to `tag` out (multiple; 0: all), or that one, and gives each to f, the oldest first.
 * They still count. False: unknown tag. */
bool deliveries_take(struct channel *c, uint64_t tag, bool multiple,
                     void (*f)(void *ctx, const struct delivery *d), void *ctx);
/* Puts back what was taken. */
void deliveries_put_back(struct channel *c, const struct delivery *items, size_t n);
/* Settles one that was taken; it counts no longer. What is acknowledged is settled with others of its
 * queue, at the latest at the end of the turn. */
void delivery_settle(struct channel *c, const struct delivery *d, enum settle_action action);
/* Takes and settles; of more than LIMIT_AMQP_SETTLE the rest in later turns, and until then the session
 * is not read. False: unknown tag. */
bool deliveries_settle(struct channel *c, uint64_t tag, bool multiple, enum settle_action action);
/* Goes on with what is left of that; true when there still is something. */
bool deliveries_settle_rest(struct amqp *a);
/* Returns all that are outstanding, and tells it. */
void deliveries_recover(struct channel *c, bool tell);
void deliveries_free(struct channel *c); /* returns what is outstanding, the oldest first */
/* To be settled with others, soon. */
void settling_add(struct amqp *a, struct amqp_queue *q, uint64_t id, uint32_t lease,
                  enum settle_action action);
void settling_flush(struct amqp *a);
void settling_init(struct amqp *a);
void settling_release(struct amqp *a);

/* -- what goes out (handout.c) ----------------------------------------------------------------------- */

struct handout {
    struct channel *channel;
    const struct message_view *message;
    uint64_t tag;
    struct span consumer_tag;
    bool is_get; /* get-ok with `ready`, else deliver */
    uint32_t ready;
    bool with_ids;  /* x-nixie-id and x-nixie-lease */
    bool is_quorum; /* x-delivery-count */
};
/* Appends deliver or get-ok, the header and the body. */
void handout_write(struct buf *out, const struct handout *h);
/* Appends basic.return of a publishing that found no queue. */
void handout_return(struct channel *c, const struct publication *p);
/* Appends an answer's deliver with this property list. */
void handout_reply(struct channel *to, struct span tag, const struct publication *p,
                   struct span properties);

/* -- consumers and deliveries (consumer.c) --------------------------------------------------------- */

struct consumer {
    struct channel *channel;
    struct amqp_queue *queue;
    struct consumer *next, **link;                      /* the channel's */
    struct consumer *next_of_queue, *previous_of_queue; /* a ring: the next to be served */
    struct span tag;                                    /* owned */
    bool no_ack, is_exclusive, wants_ids;
    bool is_gone; /* from channel and queue; its memory stays while `unacked` deliveries name it */
    int32_t priority;
    uint64_t number; /* rising in the order of their coming */
    uint32_t prefetch, unacked;
};

struct consumer *consumer_find(const struct channel *c, struct span tag); /* NULL = none */
/* Of a queue that is there. */
void consumer_new(struct channel *c, struct amqp_queue *q, const struct consumer *like);
/* It ends; its deliveries stay outstanding on the channel. A queue that is deleted with its last consumer
 * is. */
void consumer_free(struct consumer *k);
/* A delivery of it was settled. */
void consumer_settled(struct consumer *k);
/* The queue is gone: tells the client, if it can hear it, and frees the consumer. */
void consumer_end(struct consumer *k);
/* Has the queue looked at in this turn, or the next. */
void queue_schedule(struct amqp_queue *q);
/* The same for all queues that the channel, or the session, consumes from: there is room again. */
void channel_schedule(struct channel *c);
void session_schedule(struct session *s);
/* Claims one message for the channel and sends get-ok, or get-empty. */
enum err queue_get(struct channel *c, const struct place *queue, bool no_ack,
                   bool is_quorum) MUST_CHECK;
/* Delivers what is scheduled, a bounded amount; true when there is more to do at once. */
bool queues_deliver(struct amqp *a);

/* -- queues in memory (registry.c) ------------------------------------------------------------------- */

struct amqp_queue {
    struct amqp *amqp;
    struct amqp_queue *next_of_bucket, *next_of_watched;
    struct span name;           /* scoped; owned */
    struct queue *watched;      /* engine_watch: while it has consumers */
    struct consumer *consumers; /* the next to be served; a ring */
    struct consumer *active;    /* is_single: the one that is served */
    int32_t priority_most;      /* of them, or more */
    unsigned consumer_count;
    bool has_exclusive_consumer;
    bool is_single, is_auto_delete, is_quorum; /* as declared, when the first consumer came */
    struct session *owner;                     /* exclusive */
    struct amqp_queue *next_owned, **link_owned;
    unsigned refs; /* deliveries that name it, and what is to be settled */
    bool is_gone;  /* deleted; waits for refs */
    bool is_scheduled;
    struct amqp_queue *next_scheduled;
    int64_t used_at;    /* for x-expires */
    int64_t expires_ms; /* -1 = never */
};

struct amqp_queue *registry_find(struct amqp *a, struct span scoped); /* NULL = nothing known */
struct amqp_queue *registry_need(struct amqp *a, struct span scoped);
struct amqp_queue *registry_watched(struct amqp *a, const struct queue *q);
/* Forgets it when nothing is left that it would remember. */
void registry_release(struct amqp_queue *q);
/* While it has consumers. */
void registry_watch(struct amqp_queue *q);
void registry_unwatch(struct amqp_queue *q);
void registry_own(struct amqp_queue *q, struct session *s);
/* Deletes the queue in the engine and ends its consumers (basic.cancel to those that can hear it).
 * `actor` is who did it, for the audit. */
enum err registry_delete(struct amqp *a, struct span scoped, struct span actor,
                         const char *reason) MUST_CHECK;
/* The queue is no longer there: what is known of it goes, its consumers end. */
void registry_gone(struct amqp_queue *q);
/* The connection ends: its queues are deleted. All channels are freed before. */
void registry_session_end(struct session *s);
/* It was used, or its settings may have changed. */
void registry_touch(struct amqp *a, struct span scoped, int64_t expires_ms);
/* Queues whose x-expires has run out are deleted; returns when the next one does. */
int64_t registry_expire(struct amqp *a, int64_t now);
