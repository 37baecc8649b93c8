/* Writing the header frame of a delivery, and its body. */
#include "amqp/be.h"
#include "amqp/content.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

/* What is written: the message's own properties, in the order of the list, with the headers made
 * anew when we add to them. */
struct work {
    const struct content_out *c;
    struct content_head own; /* its properties; no headers when those are replaced */
    struct buf *out;
    size_t limit; /* out->n may not grow above it */
};

static const char *death_word(enum reason r) {
    const char *word = envelope_death_word(r);
    return word != NULL ? word : reason_name(r);
}

/* -- entries of a table ---------------------------------------------------------------------- */

static void add_key(struct buf *out, const char *key, uint8_t letter) {
    size_t n = strlen(key);
    buf_add_byte(out, (uint8_t)n);
    buf_add(out, key, n);
    buf_add_byte(out, letter);
}

static void add_long_string(struct buf *out, struct span s) {
    be_add32(out, (uint32_t)s.n);
    buf_add_span(out, s);
}

static void add_string(struct buf *out, const char *key, struct span s) {
    add_key(out, key, 'S');
    add_long_string(out, s);
}

static void add_number(struct buf *out, const char *key, uint8_t letter, uint64_t v) {
    add_key(out, key, letter);
    be_add64(out, v);
}

static size_t begin_long(struct buf *out) {
    be_add32(out, 0);
    return out->n;
}

static void end_long(struct buf *out, size_t start) {
    be_put32(out->p + start - 4, (uint32_t)(out->n - start));
}

/* -- x-death --------------------------------------------------------------------------------- */

/* The fields in the order that RabbitMQ sends: some clients compare tables as lists. */
static void add_death(struct buf *out, const struct death *d) {
    buf_add_byte(out, 'F');
    size_t table = begin_long(out);
    if (d->expiration.n > 0)
        add_string(out, "original-expiration", d->expiration);
    add_number(out, "count", 'l', d->count);
    add_string(out, "reason", span_str(death_word(d->reason)));
    add_string(out, "queue", d->queue);
    add_number(out, "time", 'T', (uint64_t)(d->at / 1000));
    add_string(out, "exchange", d->exchange);
    add_key(out, "routing-keys", 'A');
    size_t keys = begin_long(out);
    for (unsigned i = 0; i < d->key_count; i++) {
        buf_add_byte(out, 'S');
        add_long_string(out, d->keys[i]);
    }
    end_long(out, keys);
    end_long(out, table);
}

static void add_death_words(struct buf *out, bool is_first, const struct death *d) {
    add_string(out, is_first ? "x-first-death-reason" : "x-last-death-reason",
               span_str(death_word(d->reason)));
    add_string(out, is_first ? "x-first-death-queue" : "x-last-death-queue", d->queue);
    add_string(out, is_first ? "x-first-death-exchange" : "x-last-death-exchange", d->exchange);
}

/* As many of the newest deaths as there is room for; `after` bytes still follow the table. */
static void add_deaths(struct work *w, size_t after) {
    const struct envelope *v = w->c->envelope;
    size_t mark = w->out->n;
    add_key(w->out, "x-death", 'A');
    size_t array = begin_long(w->out);
    unsigned written = 0;
    for (; written < v->death_count; written++) {
        size_t before = w->out->n;
        add_death(w->out, &v->deaths[written]);
        if (w->out->n + after > w->limit) {
            w->out->n = before;
            break;
        }
    }
    end_long(w->out, array);
    if (written == 0)
        w->out->n = mark;
}

/* -- the headers' table ------------------------------------------------------------------------ */

/* True when an entry of this key, by whoever, gives way to ours. */
static bool is_ours(const struct content_out *c, struct span key) {
    if (key.n == 0 || key.p[0] != 'x')
        return false;
    if (c->envelope != NULL && c->envelope->death_count > 0 && content_is_of_deaths(key))
        return true;
    if (c->delivery_count > 0 && span_equal_str(key, "x-delivery-count"))
        return true;
    if (c->acquired_count > 0 && span_equal_str(key, "x-acquired-count"))
        return true;
    return c->has_id && (span_equal_str(key, "x-nixie-id") || span_equal_str(key, "x-nixie-lease"));
}

static bool adds_headers(const struct content_out *c) {
    return (c->envelope != NULL && c->envelope->death_count > 0) || c->delivery_count > 0 ||
           c->acquired_count > 0 || c->has_id;
}

/* The entries that the message itself has. */
static void add_own_headers(struct work *w, bool all) {
    const struct content_out *c = w->c;
    struct buf made;
    buf_init(&made, SIZE_MAX);
    struct span table = content_headers(&w->own);
    if (c->envelope == NULL || c->replaces_headers) {
        struct json_error error;
        struct json *headers = c->headers.n > 0 ? json_parse(c->headers, &error) : NULL;
        if (json_is(headers, JSON_OBJECT))
            table_wire_from_json(headers, &made);
        json_free(headers);
        table = buf_span(&made);
    }
    struct span rest = table.n > 4 ? span_of(table.p + 4, table.n - 4) : (struct span){0};
    struct table_item item;
    while (table_next(&rest, &item))
        if (all || !is_ours(c, item.key))
            buf_add_span(w->out, item.whole);
    buf_release(&made);
}

static void add_our_headers(struct work *w, size_t after) {
    const struct content_out *c = w->c;
    if (c->delivery_count > 0)
        add_number(w->out, "x-delivery-count", 'l', c->delivery_count);
    if (c->acquired_count > 0)
        add_number(w->out, "x-acquired-count", 'l', c->acquired_count);
    if (c->has_id) {
        add_number(w->out, "x-nixie-id", 'l', c->id);
        /* the token as HTTP wants it (docs/http-api.md) */
        char lease[48];
        snprintf(lease, sizeof lease, "%" PRIu64 "-%" PRIu32, c->id, c->lease);
        add_string(w->out, "x-nixie-lease", span_str(lease));
    }
    const struct envelope *v = c->envelope;
    if (v == NULL || v->death_count == 0)
        return;
    for (unsigned i = 0; i < v->death_count; i++)
        if (v->deaths[i].is_first)
            add_death_words(w->out, true, &v->deaths[i]);
    add_death_words(w->out, false, &v->deaths[0]);
    add_deaths(w, after);
}

/* Bytes of the properties behind the headers. */
static size_t bytes_after_headers(const struct work *w) {
    size_t n = 0;
    for (unsigned p = PLACE_HEADERS + 1; p < PLACE_COUNT; p++)
        n += w->own.values[p].n;
    return n;
}

/* The table, and whether there is anything in it. */
static void add_headers(struct work *w, bool with_ours) {
    size_t start = begin_long(w->out);
    add_own_headers(w, !with_ours);
    if (with_ours)
        add_our_headers(w, bytes_after_headers(w));
    end_long(w->out, start);
}

/* -- the frame ------------------------------------------------------------------------------- */

static void add_expiration(struct work *w, struct span text, uint8_t *bytes) {
    assert(text.n <= UINT8_MAX);
    bytes[0] = (uint8_t)text.n;
    memcpy(bytes + 1, text.p, text.n);
    w->own.flags |= PLACE_FLAG(PLACE_EXPIRATION);
    w->own.values[PLACE_EXPIRATION] = span_of(bytes, text.n + 1);
}

/* The list that the message brings, as far as it makes sense. */
static void own_properties(struct work *w, uint8_t *bytes) {
    static const uint8_t persistent[] = {2};
    const struct content_out *c = w->c;
    if (c->envelope == NULL) {
        w->own.flags = PLACE_FLAG(PLACE_DELIVERY_MODE);
        w->own.values[PLACE_DELIVERY_MODE] = span_of(persistent, 1);
        if (c->priority > 0) {
            bytes[0] = c->priority;
            w->own.flags |= PLACE_FLAG(PLACE_PRIORITY);
            w->own.values[PLACE_PRIORITY] = span_of(bytes, 1);
        }
    } else {
        if (content_read_properties(c->envelope->properties, &w->own) != OK)
            w->own = (struct content_head){0};
        if (c->envelope->expiration.n > 0)
            add_expiration(w, c->envelope->expiration, bytes);
    }
    if (c->envelope == NULL || c->replaces_headers) {
        w->own.values[PLACE_HEADERS] = (struct span){0};
        w->own.flags &= (uint16_t)~PLACE_FLAG(PLACE_HEADERS);
        if (c->headers.n > 0)
            w->own.flags |= PLACE_FLAG(PLACE_HEADERS);
    }
}

static bool put_frame(struct work *w, uint16_t channel, bool with_ours) {
    size_t mark = frame_begin(w->out, FRAME_HEADER, channel);
    be_add16(w->out, CONTENT_CLASS);
    be_add16(w->out, 0);
    be_add64(w->out, w->c->body_bytes);
    uint16_t flags = w->own.flags;
    if (with_ours)
        flags |= PLACE_FLAG(PLACE_HEADERS);
    be_add16(w->out, flags);
    for (unsigned p = 0; p < PLACE_COUNT; p++) {
        if (!(flags & PLACE_FLAG(p)))
            continue;
        if (p == PLACE_HEADERS)
            add_headers(w, with_ours);
        else
            buf_add_span(w->out, w->own.values[p]);
    }
    if (w->out->n > w->limit) {
        w->out->n = mark;
        return false;
    }
    frame_end(w->out, mark);
    return true;
}

bool content_write(struct buf *out, uint16_t channel, const struct content_out *c,
                   uint32_t frame_max) {
    uint8_t bytes[1 + UINT8_MAX];
    /* all but the end octet */
    struct work w = {.c = c, .out = out, .limit = out->n + frame_max - 1};
    own_properties(&w, bytes);
    return (adds_headers(c) && put_frame(&w, channel, true)) || put_frame(&w, channel, false);
}

void content_write_body(struct buf *out, uint16_t channel, struct span payload,
                        uint32_t frame_max) {
    size_t most = frame_max - FRAME_OVERHEAD;
    while (payload.n > 0) {
        size_t n = payload.n < most ? payload.n : most;
        size_t mark = frame_begin(out, FRAME_BODY, channel);
        buf_add(out, payload.p, n);
        frame_end(out, mark);
        payload = span_of(payload.p + n, payload.n - n);
    }
}
