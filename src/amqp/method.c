#include "amqp/method.h"

#include "amqp/be.h"
#include "base/logging.h"
#include "base/mem.h"

#include <assert.h>
#include <stdlib.h>

enum {
    POOL_PAGE_BYTES = 8192,
    WRITE_FIRST_BYTES = 1024, /* more than any method without a table needs in practice */
    WRITE_MOST_BYTES = FRAME_MAX_MOST,
};

struct method_pool {
    amqp_pool_t pool;
};

struct method_pool *method_pool_new(void) {
    struct method_pool *p = mem_alloc(sizeof *p);
    init_amqp_pool(&p->pool, POOL_PAGE_BYTES);
    return p;
}

void method_pool_free(struct method_pool *p) {
    if (p == NULL)
        return;
    empty_amqp_pool(&p->pool);
    free(p);
}

void method_pool_clear(struct method_pool *p) {
    recycle_amqp_pool(&p->pool);
}

void *method_pool_alloc(struct method_pool *p, size_t n) {
    void *bytes = amqp_pool_alloc(&p->pool, n > 0 ? n : 1);
    if (bytes == NULL)
        log_fatal("out of memory bytes=%zu", n);
    return bytes;
}

amqp_pool_t *method_pool_inner(struct method_pool *p) {
    return &p->pool;
}

struct span method_span(amqp_bytes_t b) {
    return span_of(b.bytes, b.len);
}

amqp_bytes_t method_bytes(struct span s) {
    /* librabbitmq has one struct for what it reads and what it writes; what is given here is only
       read. */
    return (amqp_bytes_t){.len = s.n, .bytes = (void *)(uintptr_t)s.p};
}

amqp_bytes_t method_str(const char *s) {
    return method_bytes(span_str(s));
}

bool method_is_string(amqp_bytes_t b) {
    return span_is_utf8(method_span(b));
}

/* -- reading --------------------------------------------------------------------------------- */

/* What a client may send, and how its arguments lie: 1, 2, 4, 8 = so many bytes, s = short string,
 * S = long string, T = table. */
static const struct layout {
    uint32_t id;
    const char *arguments;
} layouts[] = {
    {AMQP_BASIC_PUBLISH_METHOD, "2ss1"},
    {AMQP_BASIC_ACK_METHOD, "81"},
    {AMQP_BASIC_NACK_METHOD, "81"},
    {AMQP_BASIC_REJECT_METHOD, "81"},
    {AMQP_BASIC_GET_METHOD, "2s1"},
    {AMQP_BASIC_QOS_METHOD, "421"},
    {AMQP_BASIC_CONSUME_METHOD, "2ss1T"},
    {AMQP_BASIC_CANCEL_METHOD, "s1"},
    {AMQP_BASIC_CANCEL_OK_METHOD, "s"},
    {AMQP_BASIC_RECOVER_ASYNC_METHOD, "1"},
    {AMQP_BASIC_RECOVER_METHOD, "1"},
    {AMQP_CONNECTION_START_OK_METHOD, "TsSs"},
    {AMQP_CONNECTION_SECURE_OK_METHOD, "S"},
    {AMQP_CONNECTION_TUNE_OK_METHOD, "242"},
    {AMQP_CONNECTION_OPEN_METHOD, "ss1"},
    {AMQP_CONNECTION_CLOSE_METHOD, "2s22"},
    {AMQP_CONNECTION_CLOSE_OK_METHOD, ""},
    {METHOD_UPDATE_SECRET, "Ss"},
    {AMQP_CHANNEL_OPEN_METHOD, "s"},
    {AMQP_CHANNEL_FLOW_METHOD, "1"},
    {AMQP_CHANNEL_FLOW_OK_METHOD, "1"},
    {AMQP_CHANNEL_CLOSE_METHOD, "2s22"},
    {AMQP_CHANNEL_CLOSE_OK_METHOD, ""},
    {AMQP_ACCESS_REQUEST_METHOD, "s1"},
    {AMQP_EXCHANGE_DECLARE_METHOD, "2ss1T"},
    {AMQP_EXCHANGE_DELETE_METHOD, "2s1"},
    {AMQP_EXCHANGE_BIND_METHOD, "2sss1T"},
    {AMQP_EXCHANGE_UNBIND_METHOD, "2sss1T"},
    {AMQP_QUEUE_DECLARE_METHOD, "2s1T"},
    {AMQP_QUEUE_BIND_METHOD, "2sss1T"},
    {AMQP_QUEUE_PURGE_METHOD, "2s1"},
    {AMQP_QUEUE_DELETE_METHOD, "2s1"},
    {AMQP_QUEUE_UNBIND_METHOD, "2sssT"},
    {AMQP_CONFIRM_SELECT_METHOD, "1"},
    {AMQP_TX_SELECT_METHOD, ""},
    {AMQP_TX_COMMIT_METHOD, ""},
    {AMQP_TX_ROLLBACK_METHOD, ""},
};

static const struct layout *layout_of(uint32_t id) {
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++)
        if (layouts[i].id == id)
            return &layouts[i];
    return NULL;
}

/* How many bytes the argument at the front of `in` takes; 0 = it is ill-formed. */
static size_t argument_bytes(char kind, struct span in, bool *ret_is_text) {
    size_t n;
    *ret_is_text = true;
    switch (kind) {
    case 's':
        if (in.n == 0 || in.n - 1 < in.p[0])
            return 0;
        *ret_is_text = span_is_utf8(span_of(in.p + 1, in.p[0]));
        return 1U + in.p[0];
    case 'S':
        if (in.n < 4 || in.n - 4 < be_get32(in.p))
            return 0;
        return (size_t)4 + be_get32(in.p);
    case 'T':
        return table_check(in, &n) ? n : 0;
    default:
        n = (size_t)(kind - '0');
        return in.n < n ? 0 : n;
    }
}

/* The walk before librabbitmq's decoder: all of the payload, and nothing but. */
static enum err check(const struct layout *layout, struct span in, struct span *ret_table) {
    for (const char *kind = layout->arguments; *kind != '\0'; kind++) {
        bool is_text;
        size_t n = argument_bytes(*kind, in, &is_text);
        if (n == 0)
            return ERR_INVALID;
        if (!is_text)
            return ERR_CORRUPT;
        if (*kind == 'T')
            *ret_table = span_of(in.p, n);
        in = span_of(in.p + n, in.n - n);
    }
    return in.n == 0 ? OK : ERR_INVALID;
}

enum err method_read(struct method_pool *p, struct span payload, struct method *ret) {
    *ret = (struct method){0};
    if (payload.n < 4)
        return ERR_INVALID;
    ret->id = be_get32(payload.p);
    const struct layout *layout = layout_of(ret->id);
    if (layout == NULL)
        return ERR_NO_MESSAGE;
    struct span in = span_of(payload.p + 4, payload.n - 4), table = {0};
    enum err e = check(layout, in, &table);
    if (e != OK)
        return e;
    if (table.n > 4) {
        uint8_t *copy = method_pool_alloc(p, in.n);
        memcpy(copy, in.p, in.n);
        table_normalise(copy + (table.p - in.p), table.n);
        in.p = copy;
    }
    if (ret->id == METHOD_UPDATE_SECRET)
        return OK;
    return amqp_decode_method(ret->id, &p->pool, method_bytes(in), &ret->decoded) == 0
               ? OK
               : ERR_INVALID;
}

/* -- writing --------------------------------------------------------------------------------- */

void method_write(struct buf *out, uint16_t channel, uint32_t id, void *decoded) {
    size_t mark = frame_begin(out, FRAME_METHOD, channel);
    be_add32(out, id);
    if (id != METHOD_UPDATE_SECRET_OK) {
        int n = -1;
        for (size_t room = WRITE_FIRST_BYTES; n < 0 && room <= WRITE_MOST_BYTES; room *= 2) {
            amqp_bytes_t to = {.len = room, .bytes = buf_reserve(out, room)};
            n = amqp_encode_method(id, decoded, to);
        }
        assert(n >= 0);
        out->n += (size_t)n;
    }
    frame_end(out, mark);
}
