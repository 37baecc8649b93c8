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
    /* exchange for what finds no queue here: its name within the vhost */
    struct span alternate;
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

/* Settings of a queue by its arguments, or by a policy (`x-` left out there). -1 = not given (of
 * delivery_limit NO_LIMIT_GIVEN). */
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
    /* of a policy, for the exchanges it matches: name of the alternate exchange in their vhost */
    bool has_alternate;
    struct span alternate;
};
#define NO_LIMIT_GIVEN INT64_MIN
#define QUORUM_DELIVERY_LIMIT 20                 /* of a quorum queue that names none */
#define QUEUE_TIME_MOST INT64_C(315360000000)    /* of message_ttl_ms and expires_ms: ten years */
#define QUEUE_PRIORITY_MOST 255                  /* of max_priority */
struct queue_settings queue_settings_none(void); /* nothing given */

/* Stored in the log by number: append only. */
enum queue_type { QUEUE_CLASSIC = 0, QUEUE_QUORUM = 1 };
const char *queue_type_name(enum queue_type t);

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
    APPLIES_QUORUM,
};
const char *policy_applies_name(enum policy_applies a); /* "all", "queues", ... */
int policy_applies_parse(struct span name);             /* -1 when it is none */
struct pattern_policy {
    struct span vhost, name;
    struct span pattern; /* a regular expression (PCRE2) on the name within the vhost */
    enum policy_applies applies;
    int64_t priority;
    struct span definition; /* a JSON object as text */
};

const char *length_overflow_name(enum length_overflow o); /* "drop-head" */

/* In RabbitMQ's words: "PRECONDITION_FAILED - invalid arg 'NAME' for queue 'q' in vhost '/': WHY". */
struct settings_error {
    char name[64];  /* of the argument */
    char why[128];  /* "{value_negative,-1}" */
    char text[224]; /* both: "invalid arg 'x-message-ttl': {value_negative,-1}" */
};
/* Reads a queue's arguments (with_x: names begin with x-) or a policy's definition; NULL is an empty
 * object. Spans point into `object`. False and *ret_error when a known one has a wrong type or value;
 * unknown ones are left alone. Numbers are whole. The type is always classic when !with_x. That a
 * quorum queue is durable and not exclusive is the caller's to check. Values and types:
 * docs/moving-from-rabbitmq.md. */
bool queue_settings_read(const struct json *object, bool with_x, struct queue_settings *ret,
                         enum queue_type *ret_type, struct settings_error *ret_error) MUST_CHECK;
/* What holds for a queue: its own settings and those of the policy that matches it (NULL: none), by
 * the rules of precedence: the dead-letter exchange and key are the argument's, if it has them;
 * ttl, expires and lengths the smaller; overflow the argument's, of a quorum queue the policy's; the
 * delivery limit the smaller, or the larger when one of them is negative; of a quorum queue where
 * neither names one, QUORUM_DELIVERY_LIMIT. */
struct queue_settings queue_settings_merge(const struct queue_settings *own,
                                           const struct queue_settings *policy,
                                           enum queue_type type);
/* True when the two JSON objects (texts; empty is {}) say the same: numbers by value, order of
 * members no matter. Of bindings: all their arguments make them what they are. */
bool arguments_equal(struct span a, struct span b);
/* For the declaring of what is there already: the name (cut) of an argument that means something and
 * differs between a and b, or is in only one of them, into ret_name; false when there is none.
 * Others are not compared, nor is a missing x-queue-type another than "classic". */
bool arguments_difference(struct span a, struct span b, char ret_name[64]);
