/* Channels: opening, closing, and who gets a frame.
 *
 *   --channel.open--> OPEN --channel.close--> gone (close-ok sent)
 *                       +--an error--> CLOSING (channel.close sent) --close-ok or close--> gone
 *
 * In CLOSING everything else that comes on the channel is dropped: it was sent before the client
 * read of the error. */
#include "amqp/front.h"

#include "base/mem.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLASS(id) ((id) >> 16)
#define CLASS_ACCESS 30
#define CLASS_CHANNEL 20
#define CLASS_EXCHANGE 40
#define CLASS_QUEUE 50
#define CLASS_BASIC 60
#define CLASS_CONFIRM 85
#define CLASS_TX 90

/* -- replies --------------------------------------------------------------------------------- */

void channel_send(struct channel *c, bool after_commit, uint32_t id, void *decoded) {
    method_write(session_out(c->session, after_commit), c->number, id, decoded);
}

/* What was waiting to be told, or to be done, is; what the channel held is given back. */
static void wind_up(struct channel *c) {
    confirms_write(c);
    publish_free(c);
    tx_free(c);
    reply_free(c);
    /* First the deliveries, and only then the end of consumers: a queue that goes with its last
     * consumer takes them with it. */
    deliveries_free(c);
    while (c->consumers != NULL)
        consumer_free(c->consumers);
}

static void send_close(struct channel *c, enum code code, uint32_t method, const char *text) {
    amqp_channel_close_t close = {
        .reply_code = (uint16_t)code,
        .reply_text = amqp_cstring_bytes(text),
        .class_id = (uint16_t)CLASS(method),
        .method_id = (uint16_t)(method & 0xffff),
    };
    channel_send(c, true, AMQP_CHANNEL_CLOSE_METHOD, &close);
}

void channel_fail(struct channel *c, enum code code, uint32_t method, const char *format, ...) {
    char why[512], text[640];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    if (code_is_hard(code)) {
        session_fail(c->session, code, method, "%s", why);
        return;
    }
    if (c->is_closing)
        return;
    int n = snprintf(text, sizeof text, "%s - %s", code_name(code), why);
    text[span_cut_utf8(span_of(text, n > 0 ? (size_t)n : 0), UINT8_MAX).n] = 0;
    session_mend_text(text);
    wind_up(c);
    c->is_closing = true;
    send_close(c, code, method, text);
}

void channel_fail_err(struct channel *c, uint32_t method, enum err e) {
    enum code code = CODE_PRECONDITION_FAILED;
    if (e == ERR_NO_QUEUE || e == ERR_NO_EXCHANGE || e == ERR_NO_VHOST || e == ERR_NO_MESSAGE)
        code = CODE_NOT_FOUND;
    else if (e == ERR_REFUSED)
        code = CODE_ACCESS_REFUSED;
    if (e == ERR_TOO_LARGE && CLASS(method) != CLASS_BASIC)
        channel_fail(c, code, method, "the arguments are larger than %d bytes", LIMIT_ARGUMENTS);
    else
        channel_fail(c, code, method, "%s", err_text(e));
}

/* -- life ------------------------------------------------------------------------------------ */

void channel_free(struct channel *c) {
    struct session *s = c->session;
    wind_up(c);
    s->channels[c->number] = NULL;
    s->channel_count--;
    free((void *)(uintptr_t)c->last_queue.p);
    free((void *)(uintptr_t)c->written.p);
    free(c);
}

static struct channel *find_channel(const struct session *s, uint16_t number) {
    return number < s->channel_cap ? s->channels[number] : NULL;
}

static void grow_channels(struct session *s, uint32_t number) {
    uint32_t cap = s->channel_cap ? s->channel_cap : 4;
    while (cap <= number)
        cap *= 2;
    if (cap == s->channel_cap)
        return;
    s->channels = mem_grow(s->channels, cap * sizeof(struct channel *));
    for (uint32_t i = s->channel_cap; i < cap; i++)
        s->channels[i] = NULL;
    s->channel_cap = cap;
}

static void open_channel(struct session *s, uint16_t number) {
    if (s->channel_count >= s->channel_max || number > s->channel_max) {
        session_fail(s, CODE_NOT_ALLOWED, AMQP_CHANNEL_OPEN_METHOD,
                     "number of channels opened (%u) has reached the negotiated channel_max (%u)",
                     s->channel_count, s->channel_max);
        return;
    }
    grow_channels(s, number);
    struct channel *c = mem_alloc(sizeof *c);
    c->session = s;
    c->number = number;
    s->channels[number] = c;
    s->channel_count++;
    amqp_channel_open_ok_t ok = {.channel_id = amqp_empty_bytes};
    channel_send(c, false, AMQP_CHANNEL_OPEN_OK_METHOD, &ok);
}

/* -- methods --------------------------------------------------------------------------------- */

void channel_unexpected(struct channel *c, const struct method *m) {
    channel_fail(c, CODE_COMMAND_INVALID, m->id, "method %u of class %u is not for a server",
                 m->id & 0xffff, CLASS(m->id));
}

static void channel_method(struct channel *c, const struct method *m) {
    switch (m->id) {
    case AMQP_CHANNEL_OPEN_METHOD:
        channel_fail(c, CODE_CHANNEL_ERROR, m->id, "second 'channel.open' seen");
        break;
    case AMQP_CHANNEL_CLOSE_METHOD: {
        wind_up(c);
        amqp_channel_close_ok_t ok = {0};
        channel_send(c, true, AMQP_CHANNEL_CLOSE_OK_METHOD, &ok);
        channel_free(c);
        break;
    }
    case AMQP_CHANNEL_CLOSE_OK_METHOD:
        break; /* of an error that is forgotten */
    case AMQP_CHANNEL_FLOW_METHOD: {
        const amqp_channel_flow_t *flow = m->decoded;
        if (!flow->active) {
            channel_fail(c, CODE_NOT_IMPLEMENTED, m->id, "active=false");
            break;
        }
        amqp_channel_flow_ok_t ok = {.active = 1};
        channel_send(c, false, AMQP_CHANNEL_FLOW_OK_METHOD, &ok);
        break;
    }
    case AMQP_CHANNEL_FLOW_OK_METHOD:
        break;
    default:
        channel_unexpected(c, m);
    }
}

static void access_method(struct channel *c, const struct method *m) {
    if (m->id != AMQP_ACCESS_REQUEST_METHOD) {
        channel_unexpected(c, m);
        return;
    }
    amqp_access_request_ok_t ok = {.ticket = 1};
    channel_send(c, false, AMQP_ACCESS_REQUEST_OK_METHOD, &ok);
}

static void dispatch(struct channel *c, const struct method *m) {
    switch (CLASS(m->id)) {
    case CLASS_CHANNEL:
        channel_method(c, m);
        break;
    case CLASS_ACCESS:
        access_method(c, m);
        break;
    case CLASS_EXCHANGE:
        exchange_method(c, m);
        break;
    case CLASS_QUEUE:
        queue_method(c, m);
        break;
    case CLASS_BASIC:
        basic_method(c, m);
        break;
    case CLASS_CONFIRM:
        confirm_method(c, m);
        break;
    case CLASS_TX:
        tx_method(c, m);
        break;
    default:
        channel_unexpected(c, m);
    }
}

/* A4 */
static void while_closing(struct channel *c, const struct method *m) {
    if (m->id == AMQP_CHANNEL_CLOSE_METHOD) {
        amqp_channel_close_ok_t ok = {0};
        channel_send(c, true, AMQP_CHANNEL_CLOSE_OK_METHOD, &ok);
        channel_free(c);
    } else if (m->id == AMQP_CHANNEL_CLOSE_OK_METHOD) {
        channel_free(c);
    }
}

static void method_frame(struct session *s, struct channel *c, const struct frame *f) {
    struct method m;
    if (c != NULL && c->is_closing && f->payload.n < 4)
        return;
    if (!session_read_method(s, f, &m))
        return;
    if (c == NULL) {
        if (m.id == AMQP_CHANNEL_OPEN_METHOD)
            open_channel(s, f->channel);
        else if (m.id != AMQP_CHANNEL_CLOSE_OK_METHOD)
            session_fail(s, CODE_CHANNEL_ERROR, m.id, "expected 'channel.open'");
    } else if (c->is_closing) {
        while_closing(c, &m);
    } else if (publish_is_open(c)) {
        session_fail(s, CODE_UNEXPECTED_FRAME, m.id,
                     "expected content header for class 60, got non content header frame instead");
    } else {
        dispatch(c, &m);
    }
    method_pool_clear(s->amqp->pool);
}

bool channel_frame(struct session *s, const struct frame *f) {
    struct channel *c = find_channel(s, f->channel);
    if (f->type == FRAME_METHOD)
        method_frame(s, c, f);
    else if (c == NULL)
        session_fail(s, CODE_CHANNEL_ERROR, 0, "expected 'channel.open'");
    else if (!c->is_closing)
        publish_frame(c, f);
    return s->phase == OPEN;
}
