/* The records of exchanges, bindings and policies by pattern: round trips, cuts, changes, noise. */
#include "record_values.h"

#define ROUNDS 300

static uint8_t meta[RECORD_META_MAX];
static uint8_t texts[4][5000];

static enum err read_exchange(struct span m, struct span data) {
    struct record_exchange r;
    struct span parts[EXCHANGE_SPANS];
    enum err e = record_exchange_get(m, data, &r);
    if (e != OK)
        return e;
    record_exchange_spans(&r, parts);
    CHECK(r.exchange > 0 && r.type <= EXCHANGE_HEADERS &&
          are_all_parts(parts, EXCHANGE_SPANS, data));
    return e;
}

static enum err read_binding(struct span m, struct span data) {
    struct record_binding r;
    struct span parts[BINDING_SPANS];
    enum err e = record_binding_get(m, data, &r);
    if (e != OK)
        return e;
    record_binding_spans(&r, parts);
    CHECK(r.binding > 0 && r.source > 0 && r.destination > 0 &&
          are_all_parts(parts, BINDING_SPANS, data));
    return e;
}

static enum err read_pattern(struct span m, struct span data) {
    struct record_pattern r;
    struct span parts[PATTERN_SPANS];
    enum err e = record_pattern_get(m, data, &r);
    if (e != OK)
        return e;
    record_pattern_spans(&r, parts);
    CHECK(r.pattern > 0 && r.policy.applies <= APPLIES_QUORUM &&
          are_all_parts(parts, PATTERN_SPANS, data));
    return e;
}

static enum err read_number(struct span m, struct span data) {
    uint64_t number;
    (void)data;
    enum err e = record_number_get(m, &number);
    CHECK(e != OK || number > 0);
    return e;
}

static uint64_t any_positive(void) {
    uint64_t n = any64();
    return n ? n : 1;
}

static void exchange_round_trip(void) {
    struct buf b;
    buf_init(&b, SIZE_MAX);
    for (int i = 0; i < ROUNDS; i++) {
        struct record_exchange r = {.exchange = any_positive(),
                                    .type = (enum exchange_type)rng_below(&rng, 4),
                                    .durable = any_bool(),
                                    .auto_delete = any_bool(),
                                    .internal = any_bool(),
                                    .has_alternate = any_bool(),
                                    .reads_deaths = any_bool(),
                                    .name = any_span(texts[0], 255),
                                    .alternate = any_span(texts[1], 255),
                                    .arguments = any_span(texts[2], sizeof texts[2])};
        struct record_exchange s;
        struct span parts[EXCHANGE_SPANS];
        record_exchange_spans(&r, parts);
        struct span m = span_of(meta, record_exchange_put(meta, &r));
        struct span data = joined(&b, parts, EXCHANGE_SPANS);
        CHECK(record_exchange_get(m, data, &s) == OK);
        CHECK(s.exchange == r.exchange && s.type == r.type && s.durable == r.durable &&
              s.auto_delete == r.auto_delete && s.internal == r.internal &&
              s.has_alternate == r.has_alternate && s.reads_deaths == r.reads_deaths &&
              span_equal(s.name, r.name) && span_equal(s.alternate, r.alternate) &&
              span_equal(s.arguments, r.arguments));
        cuts_are_corrupt(read_exchange, m, data);
        changes_are_corrupt_or_sane(read_exchange, m, data);
    }
    buf_release(&b);
}

static void binding_round_trip(void) {
    struct buf b;
    buf_init(&b, SIZE_MAX);
    for (int i = 0; i < ROUNDS; i++) {
        struct record_binding r = {.binding = any_positive(),
                                   .source = any_positive(),
                                   .destination = any_positive(),
                                   .to_exchange = any_bool(),
                                   .key = any_span(texts[0], 255),
                                   .arguments = any_span(texts[1], sizeof texts[1])};
        struct record_binding s;
        struct span parts[BINDING_SPANS];
        record_binding_spans(&r, parts);
        struct span m = span_of(meta, record_binding_put(meta, &r));
        struct span data = joined(&b, parts, BINDING_SPANS);
        CHECK(record_binding_get(m, data, &s) == OK);
        CHECK(s.binding == r.binding && s.source == r.source && s.destination == r.destination &&
              s.to_exchange == r.to_exchange && span_equal(s.key, r.key) &&
              span_equal(s.arguments, r.arguments));
        cuts_are_corrupt(read_binding, m, data);
        changes_are_corrupt_or_sane(read_binding, m, data);
    }
    buf_release(&b);
}

static void pattern_round_trip(void) {
    struct buf b;
    buf_init(&b, SIZE_MAX);
    for (int i = 0; i < ROUNDS; i++) {
        struct record_pattern r = {
            .pattern = any_number(),
            .policy = {.vhost = any_span(texts[0], 255),
                       .name = any_span(texts[1], 255),
                       .pattern = any_span(texts[2], sizeof texts[2]),
                       .applies = (enum policy_applies)rng_below(&rng, APPLIES_QUORUM + 1),
                       .priority = any_time(),
                       .definition = any_span(texts[3], sizeof texts[3])}};
        struct record_pattern s;
        struct span parts[PATTERN_SPANS];
        record_pattern_spans(&r, parts);
        struct span m = span_of(meta, record_pattern_put(meta, &r));
        struct span data = joined(&b, parts, PATTERN_SPANS);
        CHECK(record_pattern_get(m, data, &s) == OK);
        CHECK(s.pattern == r.pattern && span_equal(s.policy.vhost, r.policy.vhost) &&
              span_equal(s.policy.name, r.policy.name) &&
              span_equal(s.policy.pattern, r.policy.pattern) &&
              s.policy.applies == r.policy.applies && s.policy.priority == r.policy.priority &&
              span_equal(s.policy.definition, r.policy.definition));
        cuts_are_corrupt(read_pattern, m, data);
        changes_are_corrupt_or_sane(read_pattern, m, data);
    }
    buf_release(&b);
}

static void number_round_trip(void) {
    uint64_t s;
    struct span m = span_of(meta, record_number_put(meta, UINT64_MAX));
    CHECK(record_number_get(m, &s) == OK && s == UINT64_MAX);
    cuts_are_corrupt(read_number, m, (struct span){0});
}

static void noise(void) {
    noise_is_corrupt_or_sane(read_exchange, 20000);
    noise_is_corrupt_or_sane(read_binding, 20000);
    noise_is_corrupt_or_sane(read_pattern, 20000);
    noise_is_corrupt_or_sane(read_number, 20000);
}

int main(void) {
    rng_seed(&rng, 1);
    RUN(exchange_round_trip);
    RUN(binding_round_trip);
    RUN(pattern_round_trip);
    RUN(number_round_trip);
    RUN(noise);
    return check_done();
}
