/* Header frames: what is read lies within the input; the list that is kept is one, without BCC and
 * expiration; a delivery made of it fits its frame and is read as the same, whatever else is put in. */
#include "amqp/content.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_keys(struct span array) {
    struct span keys[CONTENT_KEYS_MAX];
    size_t n = 0;
    enum err e = content_keys(array, keys, CONTENT_KEYS_MAX, &n);
    assert(e == OK || e == ERR_INVALID || e == ERR_TOO_LARGE);
    assert(n <= CONTENT_KEYS_MAX);
    for (size_t i = 0; i < n; i++)
        assert(keys[i].p >= array.p && keys[i].p + keys[i].n <= array.p + array.n);
}

/* What is taken for deaths can be packed, and is read as the same; the headers without are a table. */
static void take_deaths(const struct content_head *c, struct envelope *v) {
    static struct envelope back;
    struct buf bytes;
    *v = (struct envelope){0};
    if (!content_take_deaths(c, v)) {
        assert(v->death_count == 0);
        return;
    }
    assert(c->has_deaths && v->death_count <= ENVELOPE_DEATHS);
    buf_init(&bytes, SIZE_MAX);
    envelope_pack(&bytes, v);
    enum err e = envelope_unpack(buf_span(&bytes), &back);
    assert(e == OK && back.death_count == v->death_count);
    buf_clear(&bytes);
    content_headers_without_deaths(c, &bytes);
    assert(table_check(buf_span(&bytes), NULL));
    buf_release(&bytes);
}

static void die(struct envelope *v, struct span text) {
    v->death_count = (uint8_t)(text.n % (ENVELOPE_DEATHS + 1));
    struct span name = span_of(text.p, text.n < 255 ? text.n : 255);
    for (unsigned i = 0; i < v->death_count; i++) {
        v->deaths[i] = (struct death){.queue = name,
                                      .reason = REASON_EXPIRED,
                                      .is_first = i + 1 == v->death_count,
                                      .count = i + 1,
                                      .exchange = name,
                                      .key_count = (uint8_t)(text.n % ENVELOPE_KEYS)};
        for (unsigned k = 0; k < v->deaths[i].key_count; k++)
            v->deaths[i].keys[k] = name;
    }
}

static void deliver(const struct content_head *own, const struct content_out *c) {
    for (uint32_t max = FRAME_MAX_LEAST; max <= FRAME_MAX_MOST; max *= 2) {
        struct buf out;
        buf_init(&out, SIZE_MAX);
        struct frame f;
        const char *why;
        struct content_head back;
        if (content_write(&out, 1, c, max)) {
            assert(out.n <= max);
            enum frame_result r = frame_read(buf_span(&out), max, &f, &why);
            assert(r == FRAME_WHOLE && f.bytes == out.n);
            enum err e = content_head_read(f.payload, &back);
            assert(e == OK && back.body_bytes == c->body_bytes);
            if (c->envelope != NULL)
                for (unsigned p = PLACE_DELIVERY_MODE; p < PLACE_COUNT; p++)
                    assert(span_equal(back.values[p], own->values[p]));
        } else {
            assert(out.n == 0);
        }
        buf_release(&out);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct content_head c;
    struct span in = span_of(data, size);
    if (content_head_read(in, &c) != OK || c.class_id != CONTENT_CLASS)
        return 0;
    for (unsigned p = 0; p < PLACE_COUNT; p++) {
        assert(content_has(&c, (enum property_place)p) == (c.values[p].n > 0));
        assert(c.values[p].n == 0 || (c.values[p].p > in.p && c.values[p].p < in.p + in.n));
    }
    read_keys(c.cc);
    read_keys(c.bcc);

    static struct envelope told; /* large */
    take_deaths(&c, &told);

    struct buf list;
    buf_init(&list, SIZE_MAX);
    content_properties(&c, &list);
    struct content_head kept;
    enum err e = content_read_properties(buf_span(&list), &kept);
    assert(e == OK && !content_has(&kept, PLACE_EXPIRATION) && kept.bcc.n == 0);

    static struct envelope v; /* large */
    memset(&v, 0, sizeof v);
    v.properties = buf_span(&list);
    v.expiration = content_text(&c, PLACE_EXPIRATION);
    struct content_out out = {.body_bytes = c.body_bytes, .envelope = &v};
    if (v.expiration.n > 0 || !content_has(&c, PLACE_EXPIRATION))
        deliver(&c, &out);
    die(&v, in);
    out.delivery_count = 1;
    out.has_id = true;
    if (v.expiration.n > 0 || !content_has(&c, PLACE_EXPIRATION))
        deliver(&c, &out);
    buf_release(&list);

    struct content_out http = {.headers = in};
    deliver(&c, &http);
    return 0;
}
