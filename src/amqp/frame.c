#include "amqp/frame.h"

#include "amqp/be.h"

#include <assert.h>

#define FRAME_HEAD 7
#define FRAME_END 0xce

const char *code_name(enum code c) {
    switch (c) {
    case CODE_OK:
        return "OK";
    case CODE_CONTENT_TOO_LARGE:
        return "CONTENT_TOO_LARGE";
    case CODE_NO_ROUTE:
        return "NO_ROUTE";
    case CODE_NO_CONSUMERS:
        return "NO_CONSUMERS";
    case CODE_CONNECTION_FORCED:
        return "CONNECTION_FORCED";
    case CODE_INVALID_PATH:
        return "INVALID_PATH";
    case CODE_ACCESS_REFUSED:
        return "ACCESS_REFUSED";
    case CODE_NOT_FOUND:
        return "NOT_FOUND";
    case CODE_RESOURCE_LOCKED:
        return "RESOURCE_LOCKED";
    case CODE_PRECONDITION_FAILED:
        return "PRECONDITION_FAILED";
    case CODE_FRAME_ERROR:
        return "FRAME_ERROR";
    case CODE_SYNTAX_ERROR:
        return "SYNTAX_ERROR";
    case CODE_COMMAND_INVALID:
        return "COMMAND_INVALID";
    case CODE_CHANNEL_ERROR:
        return "CHANNEL_ERROR";
    case CODE_UNEXPECTED_FRAME:
        return "UNEXPECTED_FRAME";
    case CODE_RESOURCE_ERROR:
        return "RESOURCE_ERROR";
    case CODE_NOT_ALLOWED:
        return "NOT_ALLOWED";
    case CODE_NOT_IMPLEMENTED:
        return "NOT_IMPLEMENTED";
    case CODE_INTERNAL_ERROR:
        return "INTERNAL_ERROR";
    }
    return "UNKNOWN";
}

bool code_is_hard(enum code c) {
    switch (c) {
    case CODE_OK:
    case CODE_CONTENT_TOO_LARGE:
    case CODE_NO_ROUTE:
    case CODE_NO_CONSUMERS:
    case CODE_ACCESS_REFUSED:
    case CODE_NOT_FOUND:
    case CODE_RESOURCE_LOCKED:
    case CODE_PRECONDITION_FAILED:
        return false;
    case CODE_CONNECTION_FORCED:
    case CODE_INVALID_PATH:
    case CODE_FRAME_ERROR:
    case CODE_SYNTAX_ERROR:
    case CODE_COMMAND_INVALID:
    case CODE_CHANNEL_ERROR:
    case CODE_UNEXPECTED_FRAME:
    case CODE_RESOURCE_ERROR:
    case CODE_NOT_ALLOWED:
    case CODE_NOT_IMPLEMENTED:
    case CODE_INTERNAL_ERROR:
        return true;
    }
    return true;
}

static bool is_type(uint8_t type) {
    return type == FRAME_METHOD || type == FRAME_HEADER || type == FRAME_BODY ||
           type == FRAME_HEARTBEAT;
}

static enum frame_result bad(const char **ret_why, const char *why) {
    *ret_why = why;
    return FRAME_BAD;
}

/* What can be told from the first bytes is told at once: nothing is waited for, or kept, that would
 * be refused when it is whole. */
enum frame_result frame_read(struct span in, uint32_t frame_max, struct frame *ret,
                             const char **ret_why) {
    if (in.n == 0)
        return FRAME_MORE;
    if (!is_type(in.p[0]))
        return bad(ret_why, "unknown frame type");
    if (in.n < FRAME_HEAD)
        return FRAME_MORE;
    size_t n = be_get32(in.p + 3);
    if (n > frame_max)
        return bad(ret_why, "frame is larger than the negotiated maximum");
    if (in.n < n + FRAME_OVERHEAD)
        return FRAME_MORE;
    if (in.p[FRAME_HEAD + n] != FRAME_END)
        return bad(ret_why, "frame has no end octet");
    *ret = (struct frame){
        .type = in.p[0],
        .channel = be_get16(in.p + 1),
        .payload = span_of(in.p + FRAME_HEAD, n),
        .bytes = n + FRAME_OVERHEAD,
    };
    return FRAME_WHOLE;
}

size_t frame_begin(struct buf *out, uint8_t type, uint16_t channel) {
    size_t mark = out->n;
    buf_add_byte(out, type);
    be_add16(out, channel);
    be_add32(out, 0);
    return mark;
}

void frame_end(struct buf *out, size_t mark) {
    size_t n = out->n - mark - FRAME_HEAD;
    assert(n <= UINT32_MAX);
    be_put32(out->p + mark + 3, (uint32_t)n);
    buf_add_byte(out, FRAME_END);
}
