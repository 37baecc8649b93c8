/* Frames of AMQP 0-9-1: type, channel, size, payload, end. Pure functions; any thread.
 * Source: specification 2.3.5; the limits are RabbitMQ's. */
#pragma once

#include "base/bytes.h"

#include <stdbool.h>

#define FRAME_METHOD 1
#define FRAME_HEADER 2
#define FRAME_BODY 3
#define FRAME_HEARTBEAT 8

#define FRAME_OVERHEAD 8     /* around a payload: 7 before, 1 after */
#define FRAME_MAX_FIRST 8192 /* before it is negotiated */
#define FRAME_MAX_MOST 131072
#define FRAME_MAX_LEAST 4096

/* Reply codes. Those marked hard end the connection, the others the channel. */
enum code {
    CODE_OK = 200,
    CODE_CONTENT_TOO_LARGE = 311,
    CODE_NO_ROUTE = 312,
    CODE_NO_CONSUMERS = 313,
    CODE_CONNECTION_FORCED = 320, /* hard, as all below but where it says soft */
    CODE_INVALID_PATH = 402,
    CODE_ACCESS_REFUSED = 403,      /* soft */
    CODE_NOT_FOUND = 404,           /* soft */
    CODE_RESOURCE_LOCKED = 405,     /* soft */
    CODE_PRECONDITION_FAILED = 406, /* soft */
    CODE_FRAME_ERROR = 501,
    CODE_SYNTAX_ERROR = 502,
    CODE_COMMAND_INVALID = 503,
    CODE_CHANNEL_ERROR = 504,
    CODE_UNEXPECTED_FRAME = 505,
    CODE_RESOURCE_ERROR = 506,
    CODE_NOT_ALLOWED = 530,
    CODE_NOT_IMPLEMENTED = 540,
    CODE_INTERNAL_ERROR = 541,
};
const char *code_name(enum code c); /* "NOT_FOUND" */
bool code_is_hard(enum code c);

struct frame {
    uint8_t type;
    uint16_t channel;
    struct span payload; /* points into the input */
    size_t bytes;        /* all of it */
};

enum frame_result {
    FRAME_WHOLE,
    FRAME_MORE, /* not all there yet */
    FRAME_BAD,  /* unknown type, too large, no end octet: CODE_FRAME_ERROR, *ret_why says it */
};
/* Reads the frame at the front of `in`; a payload may have frame_max bytes. */
enum frame_result frame_read(struct span in, uint32_t frame_max, struct frame *ret,
                             const char **ret_why);

/* Appending: the payload goes between the two calls. */
size_t frame_begin(struct buf *out, uint8_t type, uint16_t channel); /* returns a mark */
void frame_end(struct buf *out, size_t mark);
