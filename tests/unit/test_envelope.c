/* Envelopes: both ways through their packed form, what is refused, and how deaths are counted. */
#include "check.h"

#include "model/envelope.h"

#include <stdlib.h>

static struct buf out, again;
static struct envelope v, back;

static void start(const char *exchange, const char *key) {
    memset(&v, 0, sizeof v);
    v.exchange = span_str(exchange);
    v.keys[0] = span_str(key);
    v.key_count = 1;
}

static bool same_texts(const struct span *a, const struct span *b, unsigned n) {
    for (unsigned i = 0; i < n; i++) {
        if (!span_equal(a[i], b[i]))
            return false;
    }
    return true;
}

static bool same_death(const struct death *a, const struct death *b) {
    return span_equal(a->queue, b->queue) && a->reason == b->reason && a->is_first == b->is_first &&
           a->count == b->count && a->at == b->at && span_equal(a->exchange, b->exchange) &&
           a->key_count == b->key_count && same_texts(a->keys, b->keys, a->key_count) &&
           span_equal(a->expiration, b->expiration);
}

static bool same(const struct envelope *a, const struct envelope *b) {
    if (!span_equal(a->exchange, b->exchange) || a->key_count != b->key_count ||
        a->bcc_count != b->bcc_count || !same_texts(a->keys, b->keys, a->key_count) ||
        !span_equal(a->properties, b->properties) || !span_equal(a->expiration, b->expiration) ||
        a->death_count != b->death_count)
        return false;
    for (unsigned i = 0; i < a->death_count; i++) {
        if (!same_death(a->deaths + i, b->deaths + i))
            return false;
    }
    return true;
}

/* Comes back the same, and is packed the same again. */
static bool round_trips(void) {
    buf_clear(&out);
    envelope_pack(&out, &v);
    if (out.n > ENVELOPE_BYTES_MAX + v.properties.n ||
        envelope_unpack(buf_span(&out), &back) != OK || !same(&v, &back))
        return false;
    buf_clear(&again);
    envelope_pack(&again, &back);
    return span_equal(buf_span(&out), buf_span(&again));
}

static void what_is_usual_is_small(void) {
    start("", "orders");
    CHECK(round_trips());
    CHECK_EQ(out.n, 2 + strlen("orders"));
    v.properties = span_of("\x10\x00\x02", 3);
    CHECK(round_trips());
    CHECK_EQ(out.n, 5 + strlen("orders"));
}

static void nothing_is_nothing(void) {
    memset(&v, 0, sizeof v);
    CHECK(round_trips());
    CHECK_EQ(out.n, 0);
}

static void all_of_it_comes_back(void) {
    start("events", "a.b");
    v.keys[1] = span_str("");
    v.keys[2] = span_str("hidden");
    v.key_count = 3;
    v.bcc_count = 1;
    v.expiration = span_str("60000");
    v.properties = span_of("\x00\x00", 2);
    CHECK(round_trips());
    envelope_die(&v, span_str("q1"), REASON_EXPIRED, 1780315200000, span_str("dlx"), NULL);
    struct span key = span_str("dead");
    CHECK(round_trips());
    envelope_die(&v, span_str("q2"), REASON_MAX_LENGTH, 1780315200001, span_str(""), &key);
    CHECK(round_trips());
    CHECK_EQ(back.death_count, 2);

    memset(&v, 0, sizeof v);
    v.properties = span_str("p");
    CHECK(round_trips());
}

static char texts[ENVELOPE_KEYS][ENVELOPE_TEXT + 1];

static void make_largest(unsigned i) {
    memset(&v, 0, sizeof v);
    v.key_count = ENVELOPE_KEYS;
    for (unsigned k = 0; k < ENVELOPE_KEYS; k++) {
        memset(texts[k], 'a' + (int)(i % 26), ENVELOPE_TEXT);
        v.keys[k] = span_of(texts[k], ENVELOPE_TEXT);
    }
    v.exchange = v.expiration = v.keys[0];
}

static void the_largest_is_bounded(void) {
    static char queues[40][ENVELOPE_TEXT];
    make_largest(0);
    for (unsigned i = 0; i < 40; i++) {
        memset(queues[i], 'A' + (int)i, ENVELOPE_TEXT);
        envelope_die(&v, span_of(queues[i], ENVELOPE_TEXT), REASON_REJECTED, INT64_MAX, v.keys[0],
                     NULL);
        v.expiration = v.keys[0];
        CHECK(round_trips());
    }
    CHECK_EQ(v.death_count, 2);
    CHECK_EQ(v.deaths[0].queue.p[0], 'A' + 39);
    CHECK_EQ(v.deaths[1].queue.p[0], 'A');
    CHECK(v.deaths[1].is_first);
}

static void every_cut_and_many_changes_are_refused_or_sane(void) {
    start("x", "k");
    v.keys[1] = span_str("other");
    v.key_count = 2;
    v.bcc_count = 1;
    v.expiration = span_str("5");
    envelope_die(&v, span_str("q"), REASON_DELIVERY_LIMIT, 1000, span_str("dlx"), NULL);
    CHECK(round_trips());
    size_t n = out.n;
    for (size_t i = 1; i < n; i++)
        CHECK_EQ(envelope_unpack(span_of(out.p, i), &back), ERR_CORRUPT);
    uint8_t *copy = malloc(n);
    for (size_t i = 0; copy != NULL && i < n; i++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            memcpy(copy, out.p, n);
            copy[i] ^= (uint8_t)(1U << bit);
            if (envelope_unpack(span_of(copy, n), &back) != OK)
                continue;
            buf_clear(&again);
            envelope_pack(&again, &back);
            CHECK(span_equal(buf_span(&again), span_of(copy, n)));
        }
    }
    free(copy);
}

static bool is_corrupt(const char *bytes, size_t n) {
    return envelope_unpack(span_of(bytes, n), &back) == ERR_CORRUPT;
}

static void other_forms_are_refused(void) {
    CHECK(is_corrupt("\x20\x01k", 3));                         /* an unknown flag */
    CHECK(is_corrupt("\x02\x00", 2));                          /* nothing, at length */
    CHECK(is_corrupt("\x02\x01\x01k", 4));                     /* one key, counted */
    CHECK(is_corrupt("\x04\x00\x01k", 4));                     /* no BCC, counted */
    CHECK(is_corrupt("\x04\x02\x01k", 4));                     /* more BCC than keys */
    CHECK(is_corrupt("\x01\x00\x01k", 4));                     /* the default exchange, named */
    CHECK(is_corrupt("\x08\x01k\x00", 4));                     /* an empty expiration */
    CHECK(is_corrupt("\x10\x01k\x00", 4));                     /* no deaths, counted */
    CHECK(is_corrupt("\x02\x41", 2));                          /* too many keys */
    CHECK(is_corrupt("\x10\x00\x01\x13\x01", 5));              /* a death cut off */
    CHECK(is_corrupt("\x10\x00\x01\x11\x01\x00\x01q\x00", 9)); /* another reason */
    CHECK(is_corrupt("\x10\x00\x01\x03\x01\x00\x01q\x00", 9)); /* no first death */
    CHECK(is_corrupt("\x10\x00\x01\x13\x00\x00\x01q\x00", 9)); /* none counted */
    CHECK(is_corrupt("\x10\x00\x01\x13\x81\x00\x00\x01q\x00", 10)); /* a long number */
    CHECK_EQ(envelope_unpack(span_of("\x10\x00\x01\x13\x01\x00\x01q\x00", 9), &back), OK);
}

static void deaths_are_counted_by_queue_and_reason(void) {
    start("", "work");
    v.expiration = span_str("100");
    envelope_die(&v, span_str("work"), REASON_REJECTED, 1000, span_str("dlx"), NULL);
    CHECK_EQ(v.death_count, 1);
    CHECK(v.deaths[0].is_first && v.deaths[0].count == 1 && v.deaths[0].at == 1000);
    CHECK(v.deaths[0].exchange.n == 0 && span_equal_str(v.deaths[0].keys[0], "work"));
    CHECK(span_equal_str(v.deaths[0].expiration, "100"));
    CHECK(span_equal_str(v.exchange, "dlx") && v.expiration.n == 0);
    CHECK(span_equal_str(v.keys[0], "work") && v.key_count == 1);

    struct span key = span_str("again");
    envelope_die(&v, span_str("retry"), REASON_EXPIRED, 2000, span_str(""), &key);
    CHECK_EQ(v.death_count, 2);
    CHECK(span_equal_str(v.deaths[0].queue, "retry") && !v.deaths[0].is_first);
    CHECK(span_equal_str(v.deaths[0].exchange, "dlx") && v.deaths[0].expiration.n == 0);
    CHECK(span_equal_str(v.keys[0], "again") && v.exchange.n == 0);

    envelope_die(&v, span_str("work"), REASON_REJECTED, 3000, span_str("dlx"), NULL);
    CHECK_EQ(v.death_count, 2);
    CHECK(span_equal_str(v.deaths[0].queue, "work") && v.deaths[0].count == 2);
    CHECK(v.deaths[0].at == 1000 && v.deaths[0].is_first);
    CHECK(span_equal_str(v.deaths[0].keys[0], "work"));
    CHECK(span_equal_str(v.deaths[0].expiration, "100"));

    envelope_die(&v, span_str("work"), REASON_EXPIRED, 4000, span_str("dlx"), NULL);
    CHECK_EQ(v.death_count, 3);
    CHECK(v.deaths[0].reason == REASON_EXPIRED && v.deaths[0].count == 1);
    v.deaths[0].count = UINT32_MAX;
    envelope_die(&v, span_str("work"), REASON_EXPIRED, 5000, span_str("dlx"), NULL);
    CHECK_EQ(v.deaths[0].count, UINT32_MAX);
    CHECK(round_trips());
}

static void hidden_keys_route_but_are_not_told(void) {
    start("x", "k");
    v.keys[1] = span_str("cc");
    v.keys[2] = span_str("bcc");
    v.key_count = 3;
    v.bcc_count = 1;
    envelope_die(&v, span_str("q"), REASON_EXPIRED, 1, span_str("dlx"), NULL);
    CHECK_EQ(v.deaths[0].key_count, 2);
    CHECK(v.key_count == 3 && v.bcc_count == 1);
    struct span key = v.keys[2];
    envelope_die(&v, span_str("q2"), REASON_EXPIRED, 1, span_str("dlx"), &key);
    CHECK(v.key_count == 1 && v.bcc_count == 0 && span_equal_str(v.keys[0], "bcc"));
}

static void the_first_death_is_never_forgotten(void) {
    static char names[40][4];
    start("", "k");
    for (int i = 0; i < 40; i++) {
        snprintf(names[i], sizeof names[i], "q%d", i);
        envelope_die(&v, span_str(names[i]), REASON_REJECTED, i, span_str("dlx"), NULL);
    }
    CHECK_EQ(v.death_count, ENVELOPE_DEATHS);
    CHECK(span_equal_str(v.deaths[0].queue, "q39") && span_equal_str(v.deaths[14].queue, "q25"));
    CHECK(span_equal_str(v.deaths[15].queue, "q0") && v.deaths[15].is_first);
    /* at the front it is safe too */
    envelope_die(&v, span_str("q0"), REASON_REJECTED, 50, span_str("dlx"), NULL);
    envelope_die(&v, span_str("new"), REASON_REJECTED, 51, span_str("dlx"), NULL);
    CHECK(span_equal_str(v.deaths[1].queue, "q0") && v.deaths[1].is_first);
    CHECK(span_equal_str(v.deaths[15].queue, "q26"));
    CHECK(round_trips());
}

static void circles(void) {
    start("", "work");
    struct span work = span_str("work"), retry = span_str("retry");
    CHECK(!envelope_makes_cycle(&v, work));
    envelope_die(&v, work, REASON_EXPIRED, 1, span_str("dlx"), NULL);
    CHECK(envelope_makes_cycle(&v, work));
    CHECK(!envelope_makes_cycle(&v, retry));
    envelope_die(&v, retry, REASON_EXPIRED, 2, span_str("dlx"), NULL);
    CHECK(envelope_makes_cycle(&v, work) && envelope_makes_cycle(&v, retry));

    start("", "work");
    envelope_die(&v, work, REASON_REJECTED, 1, span_str("dlx"), NULL);
    envelope_die(&v, retry, REASON_EXPIRED, 2, span_str("dlx"), NULL);
    CHECK(!envelope_makes_cycle(&v, work)); /* somebody rejected it on the way */
    CHECK(envelope_makes_cycle(&v, retry));
}

int main(void) {
    buf_init(&out, ENVELOPE_BYTES_MAX + 1000);
    buf_init(&again, ENVELOPE_BYTES_MAX + 1000);
    RUN(what_is_usual_is_small);
    RUN(nothing_is_nothing);
    RUN(all_of_it_comes_back);
    RUN(the_largest_is_bounded);
    RUN(every_cut_and_many_changes_are_refused_or_sane);
    RUN(other_forms_are_refused);
    RUN(deaths_are_counted_by_queue_and_reason);
    RUN(hidden_keys_route_but_are_not_told);
    RUN(the_first_death_is_never_forgotten);
    RUN(circles);
    buf_release(&out);
    buf_release(&again);
    return check_done();
}
