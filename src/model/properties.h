/* The property list of AMQP 0-9-1's content header, class basic: a word of flags, then the values of
 * those that are set, in order. Pure functions; any thread.
 * Source: specification 2.3.5.2, and basic's fields in the specification's XML. */
#pragma once

#include "base/bytes.h"

/* The bits of the word of flags, in the order of the values. */
enum property {
    PROPERTY_CONTENT_TYPE = 1 << 15,
    PROPERTY_CONTENT_ENCODING = 1 << 14,
    PROPERTY_HEADERS = 1 << 13,
    PROPERTY_DELIVERY_MODE = 1 << 12,
    PROPERTY_PRIORITY = 1 << 11,
    PROPERTY_CORRELATION_ID = 1 << 10,
    PROPERTY_REPLY_TO = 1 << 9,
    PROPERTY_EXPIRATION = 1 << 8,
    PROPERTY_MESSAGE_ID = 1 << 7,
    PROPERTY_TIMESTAMP = 1 << 6,
    PROPERTY_TYPE = 1 << 5,
    PROPERTY_USER_ID = 1 << 4,
    PROPERTY_APP_ID = 1 << 3,
    PROPERTY_CLUSTER_ID = 1 << 2,
};

/* Spans point into what was read. */
struct properties {
    unsigned has; /* of enum property; what is not there is empty, or 0 */
    struct span content_type, content_encoding;
    struct span headers; /* the table as on the wire, without its length; not looked at */
    uint8_t delivery_mode, priority;
    struct span correlation_id, reply_to, expiration, message_id;
    uint64_t timestamp; /* seconds since the epoch, by convention */
    struct span type, user_id, app_id, cluster_id;
};

/* Reads a whole list; an empty one is a list of none. False when it makes no sense: it ends early or
 * late, or has flags that basic has not. */
bool properties_read(struct span wire, struct properties *ret);

/* Bytes of a value of a field table, after its letter; or one of these. */
#define FIELD_HAS_LENGTH (-1) /* a length of four bytes, then so many */
#define FIELD_UNKNOWN (-2)    /* no letter of ours */
int field_value_bytes(uint8_t letter);

#define PROPERTIES_DEPTH_MAX 32 /* tables and arrays within one another */
/* True when a headers' table (without its length) is well-formed: every value of a known type and
 * within its table. */
bool properties_headers_check(struct span table);
