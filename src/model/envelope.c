/* The packed form, smallest for what is usual (one key, the default exchange, no death):
 *
 *   flags (1)  [exchange]  [key count (1)]  [bcc count (1)]  keys  [expiration]
 *   [death count (1), deaths]  properties, up to the end
 *   death: flags and reason (1)  count  at  queue  [exchange]  [key count (1)]  keys  [expiration]
 *
 * A text is its length (1) and its bytes, count and at are LEB128, what is in brackets is there when
 * its flag is set.
 *
 * E1 There is one form of an envelope: a flag is set exactly when what it stands for is not empty (a
 *    key count: not 1), numbers are as short as they can be. What is read and packed again is the same
 *    bytes. */
#include "model/envelope.h"

#include <assert.h>
#include <string.h>

enum {
    HAS_EXCHANGE = 1 << 0,
    HAS_KEY_COUNT = 1 << 1,
    HAS_BCC = 1 << 2,
    HAS_EXPIRATION = 1 << 3,
    HAS_DEATHS = 1 << 4,
    FLAGS_KNOWN = (1 << 5) - 1
};

enum {
    DEATH_REASON = 0x0f,
    DEATH_IS_FIRST = 1 << 4,
    DEATH_HAS_EXCHANGE = 1 << 5,
    DEATH_HAS_KEY_COUNT = 1 << 6,
    DEATH_HAS_EXPIRATION = 1 << 7
};

static_assert(REASON_COUNT <= DEATH_REASON + 1, "a reason has four bits");

enum { DEATH_AROUND_MAX = 1 + 5 + 10 + 1 }; /* flags, count, at, key count */
static_assert(2 * (DEATH_AROUND_MAX + (ENVELOPE_KEYS + 3) * (1 + ENVELOPE_TEXT)) <=
                  ENVELOPE_DEATHS_BYTES,
              "the newest and the first always fit");

static bool is_death(enum reason r) {
    return r == REASON_REJECTED || r == REASON_EXPIRED || r == REASON_MAX_LENGTH ||
           r == REASON_DELIVERY_LIMIT;
}

/* -- packing --------------------------------------------------------------------------------- */

static size_t number_bytes(uint64_t v) {
    size_t n = 1;
    for (; v >= 0x80; v >>= 7)
        n++;
    return n;
}

static void put_number(struct buf *out, uint64_t v) {
    for (; v >= 0x80; v >>= 7)
        buf_add_byte(out, (uint8_t)(v | 0x80));
    buf_add_byte(out, (uint8_t)v);
}

static void put_text(struct buf *out, struct span s) {
    assert(s.n <= ENVELOPE_TEXT);
    buf_add_byte(out, (uint8_t)s.n);
    buf_add_span(out, s);
}

static void put_texts(struct buf *out, const struct span *s, unsigned n) {
    for (unsigned i = 0; i < n; i++)
        put_text(out, s[i]);
}

static size_t death_bytes(const struct death *d) {
    size_t n = 1 + number_bytes(d->count) + number_bytes((uint64_t)d->at) + 1 + d->queue.n;
    if (d->exchange.n > 0)
        n += 1 + d->exchange.n;
    if (d->key_count != 1)
        n++;
    for (unsigned i = 0; i < d->key_count; i++)
        n += 1 + d->keys[i].n;
    return n + (d->expiration.n > 0 ? 1 + d->expiration.n : 0);
}

static void put_death(struct buf *out, const struct death *d) {
    assert(is_death(d->reason) && d->count > 0 && d->at >= 0 && d->key_count <= ENVELOPE_KEYS);
    unsigned flags = (unsigned)d->reason | (d->is_first ? DEATH_IS_FIRST : 0U) |
                     (d->exchange.n > 0 ? DEATH_HAS_EXCHANGE : 0U) |
                     (d->key_count != 1 ? DEATH_HAS_KEY_COUNT : 0U) |
                     (d->expiration.n > 0 ? DEATH_HAS_EXPIRATION : 0U);
    buf_add_byte(out, (uint8_t)flags);
    put_number(out, d->count);
    put_number(out, (uint64_t)d->at);
    put_text(out, d->queue);
    if (flags & DEATH_HAS_EXCHANGE)
        put_text(out, d->exchange);
    if (flags & DEATH_HAS_KEY_COUNT)
        buf_add_byte(out, d->key_count);
    put_texts(out, d->keys, d->key_count);
    if (flags & DEATH_HAS_EXPIRATION)
        put_text(out, d->expiration);
}

static bool is_nothing(const struct envelope *v) {
    return v->exchange.n == 0 && v->key_count == 0 && v->properties.n == 0 &&
           v->expiration.n == 0 && v->death_count == 0;
}

void envelope_pack(struct buf *out, const struct envelope *v) {
    assert(v->key_count <= ENVELOPE_KEYS && v->bcc_count <= v->key_count &&
           v->death_count <= ENVELOPE_DEATHS);
    if (is_nothing(v))
        return;
    unsigned flags = (v->exchange.n > 0 ? HAS_EXCHANGE : 0U) |
                     (v->key_count != 1 ? HAS_KEY_COUNT : 0U) | (v->bcc_count > 0 ? HAS_BCC : 0U) |
                     (v->expiration.n > 0 ? HAS_EXPIRATION : 0U) |
                     (v->death_count > 0 ? HAS_DEATHS : 0U);
    buf_add_byte(out, (uint8_t)flags);
    if (flags & HAS_EXCHANGE)
        put_text(out, v->exchange);
    if (flags & HAS_KEY_COUNT)
        buf_add_byte(out, v->key_count);
    if (flags & HAS_BCC)
        buf_add_byte(out, v->bcc_count);
    put_texts(out, v->keys, v->key_count);
    if (flags & HAS_EXPIRATION)
        put_text(out, v->expiration);
    if (flags & HAS_DEATHS)
        buf_add_byte(out, v->death_count);
    size_t before = out->n;
    for (unsigned i = 0; i < v->death_count; i++)
        put_death(out, v->deaths + i);
    assert(out->n - before <= ENVELOPE_DEATHS_BYTES);
    buf_add_span(out, v->properties);
}

/* -- unpacking ------------------------------------------------------------------------------- */

/* What is still to be read; once something was not there, nothing more is. */
struct reader {
    struct span rest;
    bool is_bad;
};

static uint8_t get_byte(struct reader *r) {
    if (r->is_bad || r->rest.n == 0) {
        r->is_bad = true;
        return 0;
    }
    uint8_t v = *r->rest.p;
    r->rest = span_of(r->rest.p + 1, r->rest.n - 1);
    return v;
}

static uint64_t get_number(struct reader *r) {
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 63; shift += 7) {
        uint8_t c = get_byte(r);
        v |= (uint64_t)(c & 0x7f) << shift;
        if ((c & 0x80) == 0) {
            if (c == 0 && shift > 0)
                r->is_bad = true; /* E1 */
            return v;
        }
    }
    r->is_bad = true; /* 63 bits are enough for all that is written */
    return 0;
}

static struct span get_text(struct reader *r) {
    size_t n = get_byte(r);
    if (n > r->rest.n) {
        r->is_bad = true;
        return span_of(NULL, 0);
    }
    struct span s = span_of(r->rest.p, n);
    r->rest = span_of(r->rest.p + n, r->rest.n - n);
    return s;
}

/* One that is not empty, or none at all. */
static struct span get_text_if(struct reader *r, bool is_there) {
    if (!is_there)
        return span_of(NULL, 0);
    struct span s = get_text(r);
    if (s.n == 0)
        r->is_bad = true; /* E1 */
    return s;
}

static uint8_t get_keys(struct reader *r, bool has_count, struct span *keys) {
    uint8_t n = has_count ? get_byte(r) : 1;
    if (n > ENVELOPE_KEYS || (has_count && n == 1)) {
        r->is_bad = true;
        return 0;
    }
    for (uint8_t i = 0; i < n; i++)
        keys[i] = get_text(r);
    return n;
}

static void get_death(struct reader *r, struct death *d) {
    uint8_t flags = get_byte(r);
    d->reason = (enum reason)(flags & DEATH_REASON);
    d->is_first = (flags & DEATH_IS_FIRST) != 0;
    uint64_t count = get_number(r);
    d->count = (uint32_t)count;
    d->at = (int64_t)get_number(r);
    d->queue = get_text(r);
    d->exchange = get_text_if(r, flags & DEATH_HAS_EXCHANGE);
    d->key_count = get_keys(r, flags & DEATH_HAS_KEY_COUNT, d->keys);
    d->expiration = get_text_if(r, flags & DEATH_HAS_EXPIRATION);
    if (!is_death(d->reason) || count == 0 || count > UINT32_MAX)
        r->is_bad = true;
}

static void get_deaths(struct reader *r, struct envelope *v) {
    v->death_count = get_byte(r);
    if (v->death_count == 0 || v->death_count > ENVELOPE_DEATHS) {
        r->is_bad = true;
        return;
    }
    size_t before = r->rest.n;
    unsigned firsts = 0;
    for (unsigned i = 0; i < v->death_count; i++) {
        get_death(r, v->deaths + i);
        firsts += v->deaths[i].is_first;
    }
    if (firsts != 1 || before - r->rest.n > ENVELOPE_DEATHS_BYTES)
        r->is_bad = true;
}

enum err envelope_unpack(struct span packed, struct envelope *ret) {
    /* Not the arrays: an envelope is large, most have one key and no death. */
    ret->exchange = ret->properties = ret->expiration = span_of(NULL, 0);
    ret->key_count = ret->bcc_count = ret->death_count = 0;
    if (packed.n == 0)
        return OK;

    struct reader r = {.rest = packed};
    uint8_t flags = get_byte(&r);
    ret->exchange = get_text_if(&r, flags & HAS_EXCHANGE);
    uint8_t key_count = 1, bcc_count = 0;
    bool has_count = flags & HAS_KEY_COUNT;
    if (has_count)
        key_count = get_byte(&r);
    if (flags & HAS_BCC)
        bcc_count = get_byte(&r);
    if (flags & ~FLAGS_KNOWN || key_count > ENVELOPE_KEYS || (has_count && key_count == 1) ||
        bcc_count > key_count || ((flags & HAS_BCC) && bcc_count == 0))
        return ERR_CORRUPT;
    for (unsigned i = 0; i < key_count; i++)
        ret->keys[i] = get_text(&r);
    ret->key_count = key_count;
    ret->bcc_count = bcc_count;
    ret->expiration = get_text_if(&r, flags & HAS_EXPIRATION);
    if (flags & HAS_DEATHS)
        get_deaths(&r, ret);
    ret->properties = r.rest;
    if (r.is_bad || is_nothing(ret))
        return ERR_CORRUPT;
    return OK;
}

/* -- deaths ---------------------------------------------------------------------------------- */

/* A place at the front; the entry at `i` (death_count: a new one) goes there. */
static void move_to_front(struct envelope *v, unsigned i, const struct death *d) {
    memmove(v->deaths + 1, v->deaths, i * sizeof v->deaths[0]);
    v->deaths[0] = *d;
}

static void forget(struct envelope *v, unsigned i) {
    v->death_count--;
    memmove(v->deaths + i, v->deaths + i + 1, (v->death_count - i) * sizeof v->deaths[0]);
}

/* The oldest that is not the first. */
static void forget_one(struct envelope *v) {
    unsigned i = v->death_count - 1U;
    forget(v, v->deaths[i].is_first ? i - 1 : i);
}

static size_t deaths_bytes(const struct envelope *v) {
    size_t n = 0;
    for (unsigned i = 0; i < v->death_count; i++)
        n += death_bytes(v->deaths + i);
    return n;
}

static void record_death(struct envelope *v, struct span queue, enum reason reason, int64_t now) {
    for (unsigned i = 0; i < v->death_count; i++) {
        struct death d = v->deaths[i];
        if (d.reason == reason && span_equal(d.queue, queue)) {
            d.count += d.count < UINT32_MAX;
            move_to_front(v, i, &d);
            return;
        }
    }
    struct death d = {.queue = queue,
                      .reason = reason,
                      .is_first = v->death_count == 0,
                      .count = 1,
                      .at = now,
                      .exchange = v->exchange,
                      .key_count = (uint8_t)(v->key_count - v->bcc_count),
                      .expiration = v->expiration};
    memcpy(d.keys, v->keys, d.key_count * sizeof d.keys[0]);
    if (v->death_count == ENVELOPE_DEATHS)
        forget_one(v);
    move_to_front(v, v->death_count++, &d);
}

static void keep_to_bytes(struct envelope *v) {
    while (deaths_bytes(v) > ENVELOPE_DEATHS_BYTES)
        forget_one(v);
}

void envelope_recall(struct envelope *v, const struct death *d) {
    assert(is_death(d->reason) && d->count > 0 && d->at >= 0);
    for (unsigned i = 0; i < v->death_count; i++) {
        if (v->deaths[i].reason == d->reason && span_equal(v->deaths[i].queue, d->queue))
            return;
    }
    if (v->death_count == ENVELOPE_DEATHS)
        v->death_count--;
    v->deaths[v->death_count++] = *d;
}

void envelope_recalled(struct envelope *v) {
    if (v->death_count == 0)
        return;
    bool is_marked = false;
    for (unsigned i = 0; i < v->death_count; i++) {
        v->deaths[i].is_first = v->deaths[i].is_first && !is_marked;
        is_marked = is_marked || v->deaths[i].is_first;
    }
    if (!is_marked)
        v->deaths[v->death_count - 1].is_first = true;
    keep_to_bytes(v);
}

void envelope_die(struct envelope *v, struct span queue, enum reason reason, int64_t now,
                  struct span exchange, const struct span *key) {
    assert(is_death(reason) && now >= 0);
    record_death(v, queue, reason, now);
    keep_to_bytes(v);
    v->exchange = exchange;
    v->expiration = span_of(NULL, 0);
    if (key != NULL) {
        v->keys[0] = *key;
        v->key_count = 1;
        v->bcc_count = 0;
    }
}

bool envelope_makes_cycle(const struct envelope *v, struct span queue) {
    for (unsigned i = 0; i < v->death_count; i++) {
        if (v->deaths[i].reason == REASON_REJECTED)
            return false;
        if (span_equal(v->deaths[i].queue, queue))
            return true;
    }
    return false;
}

/* -- words ----------------------------------------------------------------------------------- */

const char *envelope_death_word(enum reason r) {
    switch (r) {
    case REASON_REJECTED:
        return "rejected";
    case REASON_EXPIRED:
        return "expired";
    case REASON_MAX_LENGTH:
        return "maxlen";
    case REASON_DELIVERY_LIMIT:
        return "delivery_limit";
    case REASON_NONE:
    case REASON_MAX_RETRIES:
    case REASON_PERMANENT:
    case REASON_LEASE_EXPIRED:
    case REASON_UNROUTABLE:
    case REASON_MANUAL:
        break;
    }
    return NULL;
}

static const struct death *first_death(const struct envelope *v) {
    for (unsigned i = 0; i < v->death_count; i++) {
        if (v->deaths[i].is_first)
            return &v->deaths[i];
    }
    return NULL;
}

bool envelope_death_header(const struct envelope *v, struct span name, struct span *ret) {
    static const char first[] = "x-first-death-", last[] = "x-last-death-";
    const struct death *d = NULL;
    size_t n = 0;
    if (name.n > sizeof first - 1 && memcmp(name.p, first, sizeof first - 1) == 0) {
        n = sizeof first - 1;
        d = first_death(v);
    } else if (name.n > sizeof last - 1 && memcmp(name.p, last, sizeof last - 1) == 0) {
        n = sizeof last - 1;
        d = v->death_count > 0 ? &v->deaths[0] : NULL;
    }
    if (d == NULL)
        return false;
    struct span what = span_of(name.p + n, name.n - n);
    if (span_equal_str(what, "reason"))
        *ret = span_str(envelope_death_word(d->reason));
    else if (span_equal_str(what, "queue"))
        *ret = d->queue;
    else if (span_equal_str(what, "exchange"))
        *ret = d->exchange;
    else
        return false;
    return true;
}
