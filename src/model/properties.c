#include "model/properties.h"

enum { PROPERTIES_KNOWN = 0xfffc };

/* What is still to be read; once something was not there, nothing more is. */
struct reader {
    struct span rest;
    unsigned flags;
    bool is_bad;
};

static struct span take(struct reader *r, size_t n) {
    if (r->is_bad || n > r->rest.n) {
        r->is_bad = true;
        return span_of(NULL, 0);
    }
    struct span s = span_of(r->rest.p, n);
    r->rest = span_of(r->rest.p + n, r->rest.n - n);
    return s;
}

/* Of `n` bytes, the highest first. */
static uint64_t take_number(struct reader *r, size_t n) {
    struct span s = take(r, n);
    uint64_t v = 0;
    for (size_t i = 0; i < s.n; i++)
        v = v << 8 | s.p[i];
    return v;
}

static uint64_t number(struct reader *r, enum property p, size_t n) {
    return r->flags & p ? take_number(r, n) : 0;
}

/* Its length in `length_bytes`, then its bytes. */
static struct span text(struct reader *r, enum property p, size_t length_bytes) {
    if (!(r->flags & p))
        return span_of(NULL, 0);
    return take(r, take_number(r, length_bytes));
}

bool properties_read(struct span wire, struct properties *ret) {
    *ret = (struct properties){0};
    if (wire.n == 0)
        return true;
    struct reader r = {.rest = wire};
    r.flags = (unsigned)take_number(&r, 2);
    if (r.flags & ~(unsigned)PROPERTIES_KNOWN)
        return false;
    ret->has = r.flags;
    ret->content_type = text(&r, PROPERTY_CONTENT_TYPE, 1);
    ret->content_encoding = text(&r, PROPERTY_CONTENT_ENCODING, 1);
    ret->headers = text(&r, PROPERTY_HEADERS, 4);
    ret->delivery_mode = (uint8_t)number(&r, PROPERTY_DELIVERY_MODE, 1);
    ret->priority = (uint8_t)number(&r, PROPERTY_PRIORITY, 1);
    ret->correlation_id = text(&r, PROPERTY_CORRELATION_ID, 1);
    ret->reply_to = text(&r, PROPERTY_REPLY_TO, 1);
    ret->expiration = text(&r, PROPERTY_EXPIRATION, 1);
    ret->message_id = text(&r, PROPERTY_MESSAGE_ID, 1);
    ret->timestamp = number(&r, PROPERTY_TIMESTAMP, 8);
    ret->type = text(&r, PROPERTY_TYPE, 1);
    ret->user_id = text(&r, PROPERTY_USER_ID, 1);
    ret->app_id = text(&r, PROPERTY_APP_ID, 1);
    ret->cluster_id = text(&r, PROPERTY_CLUSTER_ID, 1);
    return !r.is_bad && r.rest.n == 0;
}

/* -- the headers' table ---------------------------------------------------------------------- */

int field_value_bytes(uint8_t letter) {
    switch (letter) {
    case 'V':
        return 0;
    case 't':
    case 'b':
    case 'B':
        return 1;
    case 's': /* a number, as everybody but py-amqp reads it */
    case 'u':
    case 'U':
        return 2;
    case 'I':
    case 'i':
    case 'f':
        return 4;
    case 'D':
        return 5;
    case 'l':
    case 'L':
    case 'd':
    case 'T':
        return 8;
    case 'S':
    case 'x':
    case 'A':
    case 'F':
        return FIELD_HAS_LENGTH;
    default:
        return FIELD_UNKNOWN;
    }
}

static bool check_values(struct span values, bool has_names, unsigned depth);

static void check_value(struct reader *r, unsigned depth) {
    uint8_t letter = (uint8_t)take_number(r, 1);
    int bytes = field_value_bytes(letter);
    if (bytes >= 0) {
        (void)take(r, (size_t)bytes);
        return;
    }
    struct span inside = take(r, take_number(r, 4));
    if (bytes == FIELD_UNKNOWN ||
        ((letter == 'A' || letter == 'F') && !check_values(inside, letter == 'F', depth + 1)))
        r->is_bad = true;
}

static bool check_values(struct span values, bool has_names, unsigned depth) {
    struct reader r = {.rest = values, .is_bad = depth >= PROPERTIES_DEPTH_MAX};
    while (!r.is_bad && r.rest.n > 0) {
        if (has_names)
            (void)take(&r, take_number(&r, 1));
        check_value(&r, depth);
    }
    return !r.is_bad;
}

bool properties_headers_check(struct span table) {
    return check_values(table, true, 0);
}
