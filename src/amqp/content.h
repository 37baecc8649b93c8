/* Content: the header frame of a message, read from a publisher and written to a consumer. Pure; any
 * thread. Source: AMQP 0-9-1, 4.2.6; RabbitMQ for CC, BCC, x-death. */
#pragma once

#include "amqp/method.h"
#include "model/envelope.h"

/* Properties (model/properties.h has their flags) by their place in the list; the flag of the first is bit
 * 15. */
enum property_place {
    PLACE_CONTENT_TYPE,
    PLACE_CONTENT_ENCODING,
    PLACE_HEADERS,
    PLACE_DELIVERY_MODE,
    PLACE_PRIORITY,
    PLACE_CORRELATION_ID,
    PLACE_REPLY_TO,
    PLACE_EXPIRATION,
    PLACE_MESSAGE_ID,
    PLACE_TIMESTAMP,
    PLACE_TYPE,
    PLACE_USER_ID,
    PLACE_APP_ID,
    PLACE_CLUSTER_ID,
};
#define PLACE_COUNT 14
#define PLACE_FLAG(p) ((uint16_t)(1U << (15 - (p))))

#define CONTENT_CLASS 60
/* A property list larger than this is refused when it is published (406): what a delivery adds to it
 * must fit the frame, too. */
#define CONTENT_PROPERTIES_MAX (64 * 1024)
/* CC and BCC of one message together, with the routing key of its method. */
#define CONTENT_KEYS_MAX ENVELOPE_KEYS

struct content_head {
    uint16_t class_id;
    uint64_t body_bytes;
    struct span properties; /* flags, then values, as they came */
    uint16_t flags;
    /* each as on the wire, with its own length if it has one; empty when it is not there */
    struct span values[PLACE_COUNT];
    /* of the headers' table: values of the first CC and BCC, as on the wire with their length; empty
     * when they are not there */
    struct span cc, bcc;
    bool bad_keys;   /* CC or BCC is no array: the message is refused (406) */
    bool has_deaths; /* there is an x-death */
};

/* Reads the payload of a header frame. The spans point into it. ERR_INVALID when it is ill-formed
 * (CODE_SYNTAX_ERROR); the class is the caller's to look at. */
enum err content_head_read(struct span payload, struct content_head *ret) MUST_CHECK;
/* The same of a property list alone; class, size and keys are 0. */
enum err content_read_properties(struct span list, struct content_head *ret) MUST_CHECK;
bool content_has(const struct content_head *c, enum property_place p);
/* Of a short string: without its length. */
struct span content_text(const struct content_head *c, enum property_place p);
/* 1, or 2 = persistent; 0 when it is not said. */
uint8_t content_delivery_mode(const struct content_head *c);
uint8_t content_priority(const struct content_head *c); /* 0 when it is not said */
/* The headers' table as on the wire, its length before it; empty when there is none. */
struct span content_headers(const struct content_head *c);
/* Appends the routing keys of an array (cc, bcc) to keys[*n...]. ERR_INVALID: one is no string, or
 * longer than a routing key may be; ERR_TOO_LARGE: more than `max` in all. */
enum err content_keys(struct span array, struct span *keys, size_t max, size_t *n) MUST_CHECK;
/* Appends the property list of an envelope: without BCC and expiration, numbers
 * widened (table_add_widened). */
void content_properties(const struct content_head *c, struct buf *out);

/* -- deaths that a publisher's headers tell of (deaths.c) ---------------------------------------- */

/* True for x-death, x-first-death-* and x-last-death-*. */
bool content_is_of_deaths(struct span key);
/* Takes the entries of x-death for the envelope's deaths, as if they had happened here: those that
 * make no sense are passed over, the first death is the one that x-first-death-* names, or the
 * oldest. Spans point into the headers. False, and no deaths, when there is no good one. */
bool content_take_deaths(const struct content_head *c, struct envelope *v);
/* Appends the headers' table without those keys. There is one. */
void content_headers_without_deaths(const struct content_head *c, struct buf *out);

/* -- writing --------------------------------------------------------------------------------- */

struct content_out {
    uint64_t body_bytes;
    const struct envelope *envelope; /* NULL: the message came by another way */
    /* a JSON object as text: instead of the envelope's headers when that is NULL, or when
     * `replaces_headers` (the message was edited); else not looked at */
    struct span headers;
    bool replaces_headers;
    uint8_t priority; /* without envelope; 0 = none */
    /* of redelivered messages of quorum queues; 0 = left out */
    uint32_t delivery_count, acquired_count;
    bool has_id; /* x-nixie-id, x-nixie-lease */
    uint64_t id;
    uint32_t lease;
};

/* Appends the header frame of a delivery. Never more than frame_max: x-death is cut to its newest
 * entries, then all of what we add is left out. False, and nothing appended, when even the message's
 * own properties do not fit. */
bool content_write(struct buf *out, uint16_t channel, const struct content_out *c,
                   uint32_t frame_max);
/* Appends the body frames; none for an empty payload. */
void content_write_body(struct buf *out, uint16_t channel, struct span payload, uint32_t frame_max);
