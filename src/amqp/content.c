/* Reading the header frame of a publishing. */
#include "amqp/content.h"

#include "amqp/be.h"

enum {
    HEAD_BYTES = 2 + 2 + 8, /* class, weight, body size */
    FLAGS_BYTES = 2,
    FLAGS_UNKNOWN = 3, /* bit 1 belongs to nothing, bit 0 says that more flags follow */
};

/* Bytes of a value of its kind at the front of `in`; 0 = ill-formed. */
static size_t value_bytes(enum property_place p, struct span in) {
    size_t n = 0;
    switch (p) {
    case PLACE_HEADERS:
        return table_check(in, &n) ? n : 0;
    case PLACE_DELIVERY_MODE:
    case PLACE_PRIORITY:
        n = 1;
        break;
    case PLACE_TIMESTAMP:
        n = 8;
        break;
    case PLACE_CONTENT_TYPE:
    case PLACE_CONTENT_ENCODING:
    case PLACE_CORRELATION_ID:
    case PLACE_REPLY_TO:
    case PLACE_EXPIRATION:
    case PLACE_MESSAGE_ID:
    case PLACE_TYPE:
    case PLACE_USER_ID:
    case PLACE_APP_ID:
    case PLACE_CLUSTER_ID:
        n = in.n > 0 ? 1U + in.p[0] : 1;
        break;
    }
    return in.n < n ? 0 : n;
}

enum err content_read_properties(struct span list, struct content_head *ret) {
    *ret = (struct content_head){.properties = list};
    if (list.n == 0)
        return OK;
    if (list.n < FLAGS_BYTES)
        return ERR_INVALID;
    ret->flags = be_get16(list.p);
    if (ret->flags & FLAGS_UNKNOWN)
        return ERR_INVALID;
    struct span rest = span_of(list.p + FLAGS_BYTES, list.n - FLAGS_BYTES);
    for (unsigned p = 0; p < PLACE_COUNT; p++) {
        if (!(ret->flags & PLACE_FLAG(p)))
            continue;
        size_t n = value_bytes((enum property_place)p, rest);
        if (n == 0)
            return ERR_INVALID;
        ret->values[p] = span_of(rest.p, n);
        rest = span_of(rest.p + n, rest.n - n);
    }
    return rest.n == 0 ? OK : ERR_INVALID;
}

static void find_keys(struct content_head *c) {
    struct span headers = content_headers(c);
    if (headers.n <= 4)
        return;
    struct span rest = span_of(headers.p + 4, headers.n - 4);
    struct table_item item;
    while (table_next(&rest, &item)) {
        bool is_cc = span_equal_str(item.key, "CC"), is_bcc = span_equal_str(item.key, "BCC");
        c->has_deaths = c->has_deaths || span_equal_str(item.key, "x-death");
        if (!is_cc && !is_bcc)
            continue;
        struct span *keys = is_cc ? &c->cc : &c->bcc;
        if (item.letter != 'A')
            c->bad_keys = true;
        else if (keys->n == 0)
            *keys = item.value;
    }
}

enum err content_head_read(struct span payload, struct content_head *ret) {
    *ret = (struct content_head){0};
    if (payload.n < HEAD_BYTES + FLAGS_BYTES)
        return ERR_INVALID;
    uint16_t class_id = be_get16(payload.p);
    enum err e = OK;
    if (class_id == CONTENT_CLASS) /* else its properties are another class's */
        e = content_read_properties(span_of(payload.p + HEAD_BYTES, payload.n - HEAD_BYTES), ret);
    ret->class_id = class_id;
    ret->body_bytes = be_get64(payload.p + 4);
    if (e == OK)
        find_keys(ret);
    return e;
}

bool content_has(const struct content_head *c, enum property_place p) {
    return (c->flags & PLACE_FLAG(p)) != 0;
}

struct span content_text(const struct content_head *c, enum property_place p) {
    struct span v = c->values[p];
    return v.n > 0 ? span_of(v.p + 1, v.n - 1) : v;
}

uint8_t content_delivery_mode(const struct content_head *c) {
    return content_has(c, PLACE_DELIVERY_MODE) ? c->values[PLACE_DELIVERY_MODE].p[0] : 0;
}

uint8_t content_priority(const struct content_head *c) {
    return content_has(c, PLACE_PRIORITY) ? c->values[PLACE_PRIORITY].p[0] : 0;
}

struct span content_headers(const struct content_head *c) {
    return c->values[PLACE_HEADERS];
}

enum err content_keys(struct span array, struct span *keys, size_t max, size_t *n) {
    if (array.n <= 4)
        return OK;
    struct span rest = span_of(array.p + 4, array.n - 4);
    struct table_item item;
    while (array_next(&rest, &item)) {
        if (item.letter != 'S' || item.value.n - 4 > UINT8_MAX)
            return ERR_INVALID;
        if (*n >= max)
            return ERR_TOO_LARGE;
        keys[(*n)++] = span_of(item.value.p + 4, item.value.n - 4);
    }
    return OK;
}

/* -- the property list of an envelope --------------------------------------------------------- */

void content_properties(const struct content_head *c, struct buf *out) {
    uint16_t flags = c->flags & (uint16_t)~PLACE_FLAG(PLACE_EXPIRATION);
    if (flags == 0)
        return;
    be_add16(out, flags);
    for (unsigned p = 0; p < PLACE_COUNT; p++) {
        if (!(flags & PLACE_FLAG(p)))
            continue;
        if (p == PLACE_HEADERS)
            table_add_widened(c->values[p], "BCC", out);
        else
            buf_add_span(out, c->values[p]);
    }
}
