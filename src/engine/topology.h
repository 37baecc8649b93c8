/* Exchanges, bindings and what AMQP adds to queues: the verbs. As in engine/engine.h: a verb decides,
 * appends records, and what it did counts when the log is durable up to log_end().
 *
 * Names are scoped (model/scope.h). Each vhost has its default exchange (the scoped empty name), bound
 * to every queue of the vhost by the queue's name, and amq.direct, amq.fanout, amq.topic,
 * amq.headers, amq.match, amq.rabbitmq.trace; a vhost is there as long as its default exchange is.
 * Loop thread.
 *
 * Source of the rules: AMQP 0-9-1 and RabbitMQ's documentation of exchanges, dead letters, policies. */
#pragma once

#include "engine/engine.h"
#include "model/envelope.h"
#include "model/exchange.h"

/* -- vhosts ------------------------------------------------------------------------------------ */

#define VHOST_NAME_MAX 234 /* with its longest exchange it is LIMIT_QUEUE_NAME */

struct vhost_settings {
    bool reads_deaths; /* x-death of a publisher's headers is taken for the broker's own history */
};
/* Makes the vhost with its exchanges, or changes its settings; OK and nothing done when it is there
 * so. "/" always is there, after engine_begin. `act` (NULL: nobody) goes on the audit. ERR_INVALID
 * (the name), ERR_TOO_MANY_EXCHANGES, ERR_DISK_FULL. */
enum err engine_vhost_put(struct engine *e, int64_t now, struct span vhost,
                          const struct vhost_settings *s, const struct act *act) MUST_CHECK;
bool engine_vhost_is_there(const struct engine *e, struct span vhost);
enum err engine_vhost(const struct engine *e, struct span vhost,
                      struct vhost_settings *ret) MUST_CHECK; /* ERR_NO_VHOST */
/* All, in order of creation: the "/" is the first. Stops when f says false. */
void engine_vhosts(const struct engine *e,
                   bool (*f)(void *ctx, struct span vhost, const struct vhost_settings *settings),
                   void *ctx);

/* -- exchanges --------------------------------------------------------------------------------- */

struct exchange_view {
    struct span name;
    enum exchange_type type;
    bool durable, auto_delete, internal;
    struct span arguments, alternate;
    bool has_alternate; /* by its own argument, or else by a policy; the name within the vhost */
    uint64_t bindings;  /* from it */
    bool is_bound;      /* something is bound from it, or it to another */
};
/* ERR_NO_EXCHANGE */
enum err engine_exchange(const struct engine *e, struct span name,
                         struct exchange_view *ret) MUST_CHECK;
/* All, in order of creation, until f says false. */
void engine_exchanges(const struct engine *e, bool (*f)(void *ctx, const struct exchange_view *x),
                      void *ctx);
/* Makes it; OK and nothing done when there is one of that name (the caller compares before).
 * ERR_NO_VHOST, ERR_TOO_LARGE (arguments over LIMIT_ARGUMENTS; so below), ERR_TOO_MANY_EXCHANGES,
 * ERR_DISK_FULL. */
enum err engine_exchange_declare(struct engine *e, int64_t now,
                                 const struct exchange_new *x) MUST_CHECK;
/* With its bindings, both ways. ERR_IN_USE when if_unused and something is bound from it; OK when
 * there is none. An auto-delete exchange that loses its last binding by it goes too. */
enum err engine_exchange_delete(struct engine *e, int64_t now, struct span name,
                                bool if_unused) MUST_CHECK;

/* -- bindings ---------------------------------------------------------------------------------- */

/* OK when it is there already. ERR_NO_EXCHANGE, ERR_NO_QUEUE (destination), ERR_DISK_FULL,
 * ERR_TOO_MANY_BINDINGS. */
enum err engine_bind(struct engine *e, int64_t now, const struct binding_new *b) MUST_CHECK;
bool engine_is_bound(const struct engine *e, const struct binding_new *b);
/* OK when there is none. An auto-delete exchange that loses its last binding goes too. */
enum err engine_unbind(struct engine *e, int64_t now, const struct binding_new *b) MUST_CHECK;
/* All, in order of creation. */
void engine_bindings(const struct engine *e, bool (*f)(void *ctx, const struct binding_new *b),
                     void *ctx);

/* -- queues ------------------------------------------------------------------------------------ */

/* What AMQP has to say of a queue. One that AMQP never declared is a durable classic one without
 * arguments: `is_declared` is false. */
struct queue_amqp_view {
    bool is_declared;
    bool durable, exclusive, auto_delete;
    enum queue_type type;
    struct span arguments;           /* JSON, or empty */
    struct queue_settings effective; /* with those of the policy that matches */
    struct span policy;              /* its name, or empty */
    uint64_t expired, max_length;    /* messages discarded for it, since ever */
};
enum err engine_queue_amqp(const struct engine *e, struct span queue,
                           struct queue_amqp_view *ret) MUST_CHECK;

/* Makes the queue; or, when it is there and AMQP never declared it, takes these arguments on; else
 * does nothing (the caller compares before). ERR_NO_VHOST, ERR_TOO_MANY_QUEUES, ERR_DISK_FULL. */
enum err engine_queue_declare(struct engine *e, int64_t now, const struct queue_declare *d,
                              bool *ret_created) MUST_CHECK;
/* All ready messages are discarded, on record; nothing is dead-lettered. A bounded number of frames,
 * at once. *ret_n of them. ERR_NO_QUEUE, ERR_DISK_FULL. */
enum err engine_queue_purge(struct engine *e, int64_t now, struct span queue,
                            uint64_t *ret_n) MUST_CHECK;
/* engine_queue_delete (engine.h) with discard = true deletes one, with its bindings. */

/* Queues whose `effective.expires_ms` is another than it was, however that came about, and at first all
 * that have one: one after the other, each once. False: there is none (any more). */
bool engine_expires_changed(struct engine *e, struct span *ret_queue, int64_t *ret_ms);

/* -- policies by pattern ----------------------------------------------------------------------- */

/* Takes effect at once on queues and exchanges that are there, and on their messages' ways from now
 * on. ERR_NO_VHOST, ERR_INVALID (pattern or definition: the caller checks before), ERR_DISK_FULL. */
enum err engine_pattern_policy_put(struct engine *e, int64_t now, const struct pattern_policy *p,
                                   const struct act *act) MUST_CHECK;
enum err engine_pattern_policy_delete(struct engine *e, int64_t now, struct span vhost,
                                      struct span name,
                                      const struct act *act) MUST_CHECK; /* ERR_NO_POLICY */
void engine_pattern_policies(const struct engine *e,
                             bool (*f)(void *ctx, const struct pattern_policy *p), void *ctx);

/* -- publishing -------------------------------------------------------------------------------- */

struct publish {
    struct span exchange;            /* scoped */
    const struct envelope *envelope; /* exchange and keys are the names within the vhost */
    struct span payload;
    struct span headers;   /* JSON, or empty: what a headers exchange looks at, and filters */
    uint8_t priority;      /* as published: a queue without max_priority takes it as 0 */
    int64_t expiration_ms; /* -1 = none */
};
struct published {
    unsigned queues;  /* that have it */
    unsigned refused; /* that were full and reject */
};
/* Routes the message and puts it into each queue found, once, in one frame (in several when they do
 * not fit one). None found: OK with queues == 0, and the message is gone (the publisher is told if
 * it asked). ERR_NO_EXCHANGE, ERR_REFUSED (the exchange is internal), ERR_TOO_LARGE, ERR_DISK_FULL. */
enum err engine_publish(struct engine *e, int64_t now, const struct publish *p,
                        struct published *ret) MUST_CHECK;

/* -- after a start ------------------------------------------------------------------------------ */

/* Once, after engine_attach and before anything else: makes what must be there (vhost "/"), deletes
 * queues and exchanges that do not outlive a restart, and gives back the messages that were held by
 * connections (CLAIM_HELD). True when there is more to do: call again. With a full disk it is tried
 * later. */
bool engine_begin(struct engine *e, int64_t now);
