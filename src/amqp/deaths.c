/* Deaths that a publisher's headers tell of, for vhosts that take them for their own. */
#include "amqp/content.h"

#include "amqp/be.h"

static const char x_death[] = "x-death";

static bool has_prefix(struct span key, const char *prefix) {
    size_t n = strlen(prefix);
    return key.n >= n && memcmp(key.p, prefix, n) == 0;
}

bool content_is_of_deaths(struct span key) {
    return span_equal_str(key, x_death) || has_prefix(key, "x-first-death-") ||
           has_prefix(key, "x-last-death-");
}

/* -- values ---------------------------------------------------------------------------------- */

/* A whole number of any size that is not negative. */
static bool read_number(const struct table_item *i, uint64_t *ret) {
    if (i->letter == '\0' || strchr("bBsuUIilLT", i->letter) == NULL)
        return false;
    uint64_t v = 0;
    for (size_t k = 0; k < i->value.n; k++)
        v = v << 8 | i->value.p[k];
    *ret = v;
    bool is_unsigned = strchr("BuiT", i->letter) != NULL;
    return is_unsigned || i->value.p[0] < 0x80;
}

static bool read_text(const struct table_item *i, struct span *ret) {
    if (i->letter != 'S' || i->value.n - 4 > ENVELOPE_TEXT)
        return false;
    *ret = span_of(i->value.p + 4, i->value.n - 4);
    return span_is_utf8(*ret);
}

static bool read_reason(const struct table_item *i, enum reason *ret) {
    static const enum reason reasons[] = {REASON_REJECTED, REASON_EXPIRED, REASON_MAX_LENGTH,
                                          REASON_DELIVERY_LIMIT};
    struct span word;
    for (size_t k = 0; read_text(i, &word) && k < sizeof reasons / sizeof reasons[0]; k++) {
        if (span_equal_str(word, envelope_death_word(reasons[k]))) {
            *ret = reasons[k];
            return true;
        }
    }
    return false;
}

static bool read_keys(const struct table_item *i, struct death *d) {
    size_t n = 0;
    if (i->letter != 'A' || content_keys(i->value, d->keys, ENVELOPE_KEYS, &n) != OK)
        return false;
    d->key_count = (uint8_t)n;
    return true;
}

static bool read_count(const struct table_item *i, struct death *d) {
    uint64_t n;
    if (!read_number(i, &n) || n == 0)
        return false;
    d->count = n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
    return true;
}

static bool read_time(const struct table_item *i, struct death *d) {
    uint64_t seconds;
    if (!read_number(i, &seconds) || seconds > INT64_MAX / 1000)
        return false;
    d->at = (int64_t)seconds * 1000;
    return true;
}

/* -- entries --------------------------------------------------------------------------------- */

enum { HAS_QUEUE = 1, HAS_REASON = 2, HAS_COUNT = 4, HAS_TIME = 8, HAS_ALL = 15 };

/* One member; false: it is of a wrong kind. Others mean nothing. */
static bool read_member(const struct table_item *i, struct death *d, unsigned *has) {
    if (span_equal_str(i->key, "queue")) {
        *has |= HAS_QUEUE;
        return read_text(i, &d->queue);
    }
    if (span_equal_str(i->key, "reason")) {
        *has |= HAS_REASON;
        return read_reason(i, &d->reason);
    }
    if (span_equal_str(i->key, "count")) {
        *has |= HAS_COUNT;
        return read_count(i, d);
    }
    if (span_equal_str(i->key, "time")) {
        *has |= HAS_TIME;
        return read_time(i, d);
    }
    if (span_equal_str(i->key, "exchange"))
        return read_text(i, &d->exchange);
    if (span_equal_str(i->key, "routing-keys"))
        return read_keys(i, d);
    if (span_equal_str(i->key, "original-expiration"))
        return read_text(i, &d->expiration);
    return true;
}

static bool read_death(const struct table_item *entry, struct death *d) {
    unsigned has = 0;
    if (entry->letter != 'F')
        return false;
    *d = (struct death){0};
    struct span rest = span_of(entry->value.p + 4, entry->value.n - 4);
    struct table_item member;
    while (table_next(&rest, &member)) {
        if (!read_member(&member, d, &has))
            return false;
    }
    return has == HAS_ALL;
}

/* -- the headers ----------------------------------------------------------------------------- */

/* The first entry of that key; its letter is 0 when there is none. */
static struct table_item find(struct span headers, const char *key) {
    struct span rest = headers.n > 4 ? span_of(headers.p + 4, headers.n - 4) : (struct span){0};
    struct table_item item;
    while (table_next(&rest, &item)) {
        if (span_equal_str(item.key, key))
            return item;
    }
    return (struct table_item){0};
}

/* Which one the headers say was the first; else it is the oldest. */
static void mark_first(struct span headers, struct envelope *v) {
    const struct table_item queue = find(headers, "x-first-death-queue"),
                            reason = find(headers, "x-first-death-reason");
    struct span name;
    enum reason why;
    bool is_told = queue.letter != 0 && reason.letter != 0 && read_text(&queue, &name) &&
                   read_reason(&reason, &why);
    for (unsigned i = 0; is_told && i < v->death_count; i++) {
        struct death *d = &v->deaths[i];
        d->is_first = d->reason == why && span_equal(d->queue, name);
    }
}

bool content_take_deaths(const struct content_head *c, struct envelope *v) {
    v->death_count = 0;
    struct span headers = content_headers(c);
    const struct table_item deaths = find(headers, x_death);
    if (deaths.letter != 'A')
        return false;
    struct span rest = span_of(deaths.value.p + 4, deaths.value.n - 4);
    struct table_item entry;
    struct death d;
    while (array_next(&rest, &entry)) {
        if (read_death(&entry, &d))
            envelope_recall(v, &d);
    }
    mark_first(headers, v);
    envelope_recalled(v);
    return v->death_count > 0;
}

void content_headers_without_deaths(const struct content_head *c, struct buf *out) {
    struct span headers = content_headers(c);
    size_t start = out->n;
    be_add32(out, 0);
    struct span rest = span_of(headers.p + 4, headers.n - 4);
    struct table_item item;
    while (table_next(&rest, &item)) {
        if (!content_is_of_deaths(item.key))
            buf_add_span(out, item.whole);
    }
    be_put32(out->p + start, (uint32_t)(out->n - start - 4));
}
