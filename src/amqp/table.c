#include "amqp/table.h"

#include "amqp/be.h"
#include "amqp/method.h"
#include "model/properties.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* -- on the wire ----------------------------------------------------------------------------- */

/* Takes n bytes off the front; false when they are not there. */
static bool take(struct span *in, size_t n, struct span *ret) {
    if (in->n < n)
        return false;
    *ret = span_of(in->p, n);
    in->p += n;
    in->n -= n;
    return true;
}

static bool take_value(struct span *in, uint8_t *ret_letter, struct span *ret) {
    struct span letter, head;
    if (!take(in, 1, &letter))
        return false;
    int n = field_value_bytes(letter.p[0]);
    *ret_letter = letter.p[0];
    if (n == FIELD_UNKNOWN)
        return false;
    if (n != FIELD_HAS_LENGTH)
        return take(in, (size_t)n, ret);
    struct span at = *in;
    return take(&at, 4, &head) && take(in, (size_t)4 + be_get32(head.p), ret);
}

/* Takes nothing when there is no whole one. */
static bool take_item(struct span *in, bool has_key, struct table_item *ret) {
    struct span at = *in, length;
    ret->key = (struct span){0};
    if (has_key && (!take(&at, 1, &length) || !take(&at, length.p[0], &ret->key)))
        return false;
    if (!take_value(&at, &ret->letter, &ret->value))
        return false;
    ret->whole = span_of(in->p, (size_t)(at.p - in->p));
    *in = at;
    return true;
}

static bool walk(struct span in, bool has_keys, unsigned depth) {
    if (depth > TABLE_DEPTH_MAX)
        return false;
    while (in.n > 0) {
        struct table_item item;
        if (!take_item(&in, has_keys, &item))
            return false;
        if ((item.letter == 'F' || item.letter == 'A') &&
            !walk(span_of(item.value.p + 4, item.value.n - 4), item.letter == 'F', depth + 1))
            return false;
    }
    return true;
}

bool table_check(struct span wire, size_t *ret_bytes) {
    struct span head, entries;
    if (!take(&wire, 4, &head) || !take(&wire, be_get32(head.p), &entries))
        return false;
    if ((ret_bytes == NULL && wire.n > 0) || !walk(entries, true, 1))
        return false;
    if (ret_bytes != NULL)
        *ret_bytes = 4 + entries.n;
    return true;
}

bool table_next(struct span *rest, struct table_item *ret) {
    return rest->n > 0 && take_item(rest, true, ret);
}

bool array_next(struct span *rest, struct table_item *ret) {
    return rest->n > 0 && take_item(rest, false, ret);
}

static void normalise(uint8_t *wire, size_t n, bool has_keys) {
    struct span rest = span_of(wire, n);
    struct table_item item;
    while (rest.n > 0 && take_item(&rest, has_keys, &item)) {
        uint8_t *value = wire + (item.value.p - wire);
        if (item.letter == 'L')
            value[-1] = 'l';
        else if (item.letter == 'U')
            value[-1] = 's';
        else if (item.letter == 'F' || item.letter == 'A')
            normalise(value + 4, item.value.n - 4, item.letter == 'F');
    }
}

void table_normalise(uint8_t *wire, size_t n) {
    assert(n >= 4);
    normalise(wire + 4, n - 4, true);
}

/* -- letters that every client reads alike ------------------------------------------------------- */

static bool is_narrow(uint8_t letter) {
    return letter != '\0' && strchr("bBsUuiL", letter) != NULL;
}

static uint64_t widen(uint8_t letter, struct span value) {
    bool is_signed = letter == 'b' || letter == 's' || letter == 'U' || letter == 'L';
    uint64_t v = is_signed && value.p[0] >= 0x80 ? UINT64_MAX : 0;
    for (size_t i = 0; i < value.n; i++)
        v = v << 8 | value.p[i];
    return v;
}

static void add_items(struct span rest, bool has_keys, const char *skip, struct buf *out) {
    struct table_item item;
    while (rest.n > 0 && take_item(&rest, has_keys, &item)) {
        if (skip != NULL && span_equal_str(item.key, skip))
            continue;
        buf_add(out, item.whole.p, (size_t)(item.value.p - item.whole.p) - 1);
        buf_add_byte(out, is_narrow(item.letter) ? 'l' : item.letter);
        if (item.letter == 'F' || item.letter == 'A') {
            size_t start = out->n;
            be_add32(out, 0);
            add_items(span_of(item.value.p + 4, item.value.n - 4), item.letter == 'F', NULL, out);
            be_put32(out->p + start, (uint32_t)(out->n - start - 4));
        } else if (is_narrow(item.letter)) {
            be_add64(out, widen(item.letter, item.value));
        } else {
            buf_add_span(out, item.value);
        }
    }
}

void table_add_widened(struct span wire, const char *skip, struct buf *out) {
    assert(wire.n >= 4);
    size_t start = out->n;
    be_add32(out, 0);
    add_items(span_of(wire.p + 4, wire.n - 4), true, skip, out);
    be_put32(out->p + start, (uint32_t)(out->n - start - 4));
}

/* -- as librabbitmq's structs -------------------------------------------------------------------- */

enum err table_read(struct method_pool *p, struct span wire, amqp_table_t *ret) {
    if (!table_check(wire, NULL))
        return ERR_INVALID;
    uint8_t *copy = method_pool_alloc(p, wire.n);
    memcpy(copy, wire.p, wire.n);
    table_normalise(copy, wire.n);
    size_t at = 0;
    amqp_bytes_t in = {.len = wire.n, .bytes = copy};
    return amqp_decode_table(in, method_pool_inner(p), ret, &at) == 0 ? OK : ERR_INVALID;
}

void table_write(const amqp_table_t *t, struct buf *out) {
    enum { FIRST_BYTES = 512, MOST_BYTES = 64 * 1024 * 1024 };
    int e = -1;
    amqp_table_t table = *t;
    for (size_t room = FIRST_BYTES; e != 0 && room <= MOST_BYTES; room *= 2) {
        size_t at = 0;
        amqp_bytes_t to = {.len = room, .bytes = buf_reserve(out, room)};
        e = amqp_encode_table(to, &table, &at);
        if (e == 0)
            out->n += at;
    }
    assert(e == 0);
}
