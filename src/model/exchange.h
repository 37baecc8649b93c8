/* Exchanges, bindings and the settings of queues as AMQP has them: plain structs and their words. All
 * names are scoped (model/scope.h) unless they say otherwise. Any thread. */
#pragma once

#include "base/json.h"
#include "base/limits.h"
#include "model/message.h"

/* Stored in the log by number: append only. */
enum exchange_type {
    EXCHANGE_DIRECT = 0,
    EXCHANGE_FANOUT = 1,
    EXCHANGE_TOPIC = 2,
    EXCHANGE_HEADERS = 3,
};
const char *exchange_type_name(enum exchange_type t);
int exchange_type_parse(struct span name); /* -1 when it is none */

struct exchange_new {
    struct span name;
    enum exchange_type type;
    bool durable, auto_delete, internal;
    struct span arguments; /* a JSON object as text, or empty */
    struct span alternate; /* exchange for what finds no queue here; has_alternate */
    bool has_alternate;
};

struct binding_new {
    struct span source; /* an exchange */
    struct span destination;
    bool to_exchange; /* else to a queue */
    struct span key;
    struct span arguments; /* a JSON object as text, or empty */
};

/* What happens to a publishing to a queue that is over its length. Stored in the log by number. */
enum length_overflow {
    LENGTH_DROP_HEAD = 0,          /* the oldest ready message dies of max_length */
    LENGTH_REJECT_PUBLISH = 1,     /* it is refused */
    LENGTH_REJECT_PUBLISH_DLX = 2, /* it is refused, and dead-lettered all the same */
};

/* Settings of a queue by its arguments, or by a policy (`x-` left out there). -1 = not given. */
struct queue_settings {
    int64_t message_ttl_ms, expires_ms;
    int64_t max_length, max_length_bytes; /* of ready messages; of their payloads */
    int64_t delivery_limit;               /* NO_LIMIT_GIVEN; negative = none */
    int64_t max_priority;
    int overflow; /* enum length_overflow */
    bool single_active_consumer;
    bool has_dlx, has_dlrk;
    struct span dlx; /* name of the dead-letter exchange within the queue's vhost; "" the default */
    struct span dlrk; /* dead-letter routing key */
};
#define NO_LIMIT_GIVEN INT64_MIN
#define QUORUM_DELIVERY_LIMIT 20 /* of a quorum queue that names none */

/* Stored in the log by number: append only. */
enum queue_type { QUEUE_CLASSIC = 0, QUEUE_QUORUM = 1 };

/* A queue as AMQP declares it. */
struct queue_declare {
    struct span name;
    bool durable, exclusive, auto_delete;
    enum queue_type type;
    struct queue_settings settings; /* of its arguments */
    struct span arguments;          /* all of them: a JSON object as text, or empty */
};

/* A RabbitMQ policy: settings for all queues (or exchanges) of a vhost whose name matches. */
enum policy_applies {
    APPLIES_ALL,
    APPLIES_QUEUES,
    APPLIES_EXCHANGES,
    APPLIES_CLASSIC,
    APPLIES_QUORUM
};
struct pattern_policy {
    struct span vhost, name;
    struct span pattern; /* a regular expression (PCRE2) on the name within the vhost */
    enum policy_applies applies;
    int64_t priority;
    struct span definition; /* a JSON object as text */
};

struct settings_error {
    char text[200]; /* what is wrong: "invalid arg 'x-message-ttl': ..." without the queue's name */
};
/* Reads a queue's arguments (with_x: names begin with x-) or a policy's definition. Spans point into
 * `object`. False and *ret_error when a known one has a wrong type or value; unknown ones are left
 * alone. Values and types: docs/amqp.md. */
bool queue_settings_read(const struct json *object, bool with_x, struct queue_settings *ret,
                         enum queue_type *ret_type, struct settings_error *ret_error);
/* What holds for a queue: its own settings and those of the policy that matches it (NULL: none), by
 * the rules of precedence: the dead-letter exchange and key are the argument's, if it has them;
 * ttl, expires and lengths the smaller; overflow the argument's, of a quorum queue the policy's; the
 * delivery limit the smaller, or the larger when one of them is negative. */
struct queue_settings queue_settings_merge(const struct queue_settings *own,
                                           const struct queue_settings *policy,
                                           enum queue_type type);
/* True when the two JSON objects (texts; empty is {}) say the same: numbers by value, order of
 * members no matter. */
bool arguments_equal(struct span a, struct span b);
/* An equal text for both forms: the first member of `a` that differs in b, or of b missing in a, into
 * ret_name (cut); false when there is none. */
bool arguments_difference(struct span a, struct span b, char ret_name[64]);
