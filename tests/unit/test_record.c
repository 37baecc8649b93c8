#include "base/limits.h"
#include "base/rng.h"
#include "check.h"
#include "log/record.h"

#include <stdlib.h>

static struct rng rng;

/* -- values ------------------------------------------------------------------------------------------ */

static uint64_t any64(void) {
    const uint64_t special[] = {0,         1, UINT32_MAX, (uint64_t)INT64_MAX, (uint64_t)INT64_MIN,
                                UINT64_MAX};
    uint64_t k = rng_below(&rng, 8);
    return k < 6 ? special[k] : rng_u64(&rng);
}

static int64_t any_time(void) {
    return (int64_t)any64();
}

static uint64_t any_id(void) {
    const uint64_t special[] = {1, LIMIT_ID};
    uint64_t k = rng_below(&rng, 4);
    return k < 2 ? special[k] : 1 + rng_below(&rng, LIMIT_ID);
}

/* Empty, full, or between; the bytes are anything. */
static struct span any_span(uint8_t *memory, size_t most) {
    uint64_t k = rng_below(&rng, 4);
    size_t n = k == 0 ? 0 : k == 1 ? most : (size_t)rng_below(&rng, most + 1);
    for (size_t i = 0; i < n; i++)
        memory[i] = (uint8_t)rng_u64(&rng);
    return span_of(memory, n);
}

static struct ledger any_ledger(void) {
    return (struct ledger){any64(), any64(), any64(), any64(), any64(), any64()};
}

static bool ledger_equal(const struct ledger *a, const struct ledger *b) {
    return a->accepted == b->accepted && a->moved_in == b->moved_in &&
           a->succeeded == b->succeeded && a->discarded == b->discarded &&
           a->moved_out == b->moved_out && a->expired == b->expired;
}

static struct policy any_policy(void) {
    struct policy p = {
        .max_retries = (uint8_t)rng_u64(&rng),
        .backoff = {.kind = (enum backoff_kind)rng_below(&rng, 3),
                    .jitter = (enum jitter)rng_below(&rng, 3),
                    .base_ms = any_time(),
                    .cap_ms = any_time(),
                    .factor_milli = (uint32_t)any64(),
                    .list_count = (uint32_t)rng_below(&rng, LIMIT_BACKOFF_LIST + 1)},
        .lease_ms = any_time(),
        .delay_ms = any_time(),
        .ttl_ms = any_time(),
        .messages_max = any64(),
        .bytes_max = any64(),
        .idempotency_window_ms = any_time(),
        .keep_succeeded_ms = any_time(),
        .keep_succeeded_max = any64(),
        .keep_dead_ms = any_time(),
    };
    for (uint32_t i = 0; i < p.backoff.list_count; i++)
        p.backoff.list_seconds[i] = (uint32_t)any64();
    return p;
}

static struct message_image any_image(void) {
    struct message_image m = {
        .state = (enum state)rng_below(&rng, STATE_COUNT),
        .reason = (enum reason)rng_below(&rng, REASON_MANUAL + 1),
        .retry_count = (uint8_t)rng_u64(&rng),
        .max_retries = (uint8_t)rng_u64(&rng),
        .priority = (uint8_t)rng_below(&rng, PRIORITY_MAX + 1),
        .is_retry = rng_below(&rng, 2),
        .deliveries = (uint32_t)any64(),
        .updated_at = any_time(),
        .next_at = any_time(),
        .expires_at = any_time(),
    };
    if (m.state == STATE_DEAD) {
        m.died_at = any_time();
        m.dead_seq = any64();
    }
    return m;
}

static bool image_equal(const struct message_image *a, const struct message_image *b) {
    return a->state == b->state && a->reason == b->reason && a->retry_count == b->retry_count &&
           a->max_retries == b->max_retries && a->priority == b->priority &&
           a->is_retry == b->is_retry && a->deliveries == b->deliveries &&
           a->updated_at == b->updated_at && a->next_at == b->next_at &&
           a->expires_at == b->expires_at && a->died_at == b->died_at && a->dead_seq == b->dead_seq;
}

static uint8_t texts[5][UINT16_MAX];

static struct record_event any_event(void) {
    return (struct record_event){
        .event = (enum event)rng_below(&rng, EVENT_SUCCEEDED + 1),
        .attempt = (uint32_t)any64(),
        .at = any_time(),
        .next_at = any_time(),
        .previous = any64(),
        .worker = any_span(texts[0], 255),
        .worker_version = any_span(texts[1], 255),
        .error_class = any_span(texts[2], 255),
        .error = any_span(texts[3], UINT16_MAX),
        .detail = any_span(texts[4], UINT16_MAX),
    };
}

static bool event_equal(const struct record_event *a, const struct record_event *b) {
    return a->event == b->event && a->attempt == b->attempt && a->at == b->at &&
           a->next_at == b->next_at && a->previous == b->previous &&
           span_equal(a->worker, b->worker) && span_equal(a->worker_version, b->worker_version) &&
           span_equal(a->error_class, b->error_class) && span_equal(a->error, b->error) &&
           span_equal(a->detail, b->detail);
}

/* The data of a record as it stands in the log. */
static struct span joined(struct buf *b, const struct span *parts, size_t n) {
    buf_clear(b);
    for (size_t i = 0; i < n; i++)
        buf_add_span(b, parts[i]);
    return buf_span(b);
}

static struct span event_data(struct buf *b, const struct record_event *e) {
    return joined(
        b, (struct span[]){e->worker, e->worker_version, e->error_class, e->error, e->detail}, 5);
}

/* -- round trips ------------------------------------------------------------------------------------------ */

#define ROUNDS 3000

static void engine_round_trip(void) {
    uint8_t meta[RECORD_META_MAX];
    for (int i = 0; i < ROUNDS; i++) {
        struct record_engine r = {any64(), any64(), any_ledger()}, s;
        size_t n = record_engine_put(meta, &r);
        CHECK(record_engine_get(span_of(meta, n), &s) == OK);
        CHECK(s.next_id == r.next_id && s.next_queue == r.next_queue &&
              ledger_equal(&s.deleted, &r.deleted));
        CHECK(record_engine_get(span_of(meta, n - 1), &s) == ERR_CORRUPT);
    }
}

static void queue_round_trip(void) {
    uint8_t meta[RECORD_META_MAX], name[LIMIT_QUEUE_NAME];
    for (int i = 0; i < ROUNDS; i++) {
        struct record_queue r = {
            .queue = any64(),
            .dropping = rng_below(&rng, 2),
            .created_at = any_time(),
            .name = any_span(name, LIMIT_QUEUE_NAME),
            .policy = any_policy(),
            .ledger = any_ledger(),
            .deliveries = any64(),
            .failures = any64(),
            .deaths = any64(),
            .next_dead_seq = any64(),
        };
        struct record_queue s;
        size_t n = record_queue_put(meta, &r);
        enum err e = record_queue_get(span_of(meta, n), &s);
        if (r.name.n == 0) {
            CHECK(e == ERR_CORRUPT);
            continue;
        }
        CHECK(e == OK);
        CHECK(s.queue == r.queue && s.dropping == r.dropping && s.created_at == r.created_at &&
              span_equal(s.name, r.name) && policy_equal(&s.policy, &r.policy) &&
              ledger_equal(&s.ledger, &r.ledger) && s.deliveries == r.deliveries &&
              s.failures == r.failures && s.deaths == r.deaths &&
              s.next_dead_seq == r.next_dead_seq);
        CHECK(record_queue_get(span_of(meta, n - 1), &s) == ERR_CORRUPT);
    }
}

static void message_round_trip(void) {
    static uint8_t headers[LIMIT_HEADERS], payload[70000], key[255];
    uint8_t meta[RECORD_META_MAX];
    struct buf b;
    buf_init(&b, 1 << 20);
    for (int i = 0; i < 300; i++) {
        struct record_message r = {
            .id = any_id(),
            .queue = any64(),
            .carried = rng_below(&rng, 2),
            .image = any_image(),
            .created_at = any_time(),
            .ttl_ms = any_time(),
            .idempotency_until = any_time(),
            .headers = any_span(headers, sizeof headers),
            .key = any_span(key, sizeof key),
            .payload = any_span(payload, sizeof payload),
        };
        if (r.idempotency_until)
            r.idempotency_hash = (struct hash128){any64(), any64()};
        struct record_message s;
        struct span data = joined(&b, (struct span[]){r.headers, r.key, r.payload}, 3);
        size_t n = record_message_put(meta, &r);
        CHECK(record_message_get(span_of(meta, n), data, &s) == OK);
        CHECK(s.id == r.id && s.queue == r.queue && s.carried == r.carried &&
              image_equal(&s.image, &r.image) && s.created_at == r.created_at &&
              s.ttl_ms == r.ttl_ms && s.idempotency_until == r.idempotency_until &&
              s.idempotency_hash.lo == r.idempotency_hash.lo &&
              s.idempotency_hash.hi == r.idempotency_hash.hi);
        CHECK(span_equal(s.headers, r.headers) && span_equal(s.key, r.key) &&
              span_equal(s.payload, r.payload));

        /* Data left unread: the sizes are known all the same. */
        CHECK(record_message_get(span_of(meta, n), (struct span){NULL, data.n}, &s) == OK);
        CHECK(!s.payload.p && s.payload.n == r.payload.n && !s.headers.p &&
              s.headers.n == r.headers.n);

        CHECK(record_message_get(span_of(meta, n), span_of(data.p, data.n + 1), &s) == ERR_CORRUPT);
        if (data.n > 0)
            CHECK(record_message_get(span_of(meta, n), span_of(data.p, data.n - 1), &s) ==
                  ERR_CORRUPT);
    }
    buf_release(&b);
}

static void state_round_trip(void) {
    uint8_t meta[RECORD_META_MAX];
    struct buf b;
    buf_init(&b, 1 << 20);
    for (int i = 0; i < 300; i++) {
        struct record_state r = {any_id(), any64(), any_image(), any_event()}, s;
        struct span data = event_data(&b, &r.event);
        size_t n = record_state_put(meta, &r);
        CHECK(record_state_get(span_of(meta, n), data, &s) == OK);
        /* Not stored twice: when it happened is when the image was updated. */
        r.event.at = r.image.updated_at;
        r.event.next_at = r.image.state == STATE_DEAD ? 0 : r.image.next_at;
        CHECK(s.id == r.id && s.queue == r.queue && image_equal(&s.image, &r.image) &&
              event_equal(&s.event, &r.event));
        CHECK(record_state_get(span_of(meta, n - 1), data, &s) == ERR_CORRUPT);
        CHECK(record_state_get(span_of(meta, n), (struct span){NULL, data.n}, &s) == OK);
        CHECK(!s.event.detail.p && s.event.detail.n == r.event.detail.n);
    }
    buf_release(&b);
}

static void history_round_trip(void) {
    uint8_t meta[RECORD_META_MAX];
    struct buf b;
    buf_init(&b, 1 << 20);
    for (int i = 0; i < 300; i++) {
        struct record_history r = {any_id(), rng_below(&rng, 2), any_event()}, s;
        struct span data = event_data(&b, &r.event);
        size_t n = record_history_put(meta, &r);
        CHECK(record_history_get(span_of(meta, n), data, &s) == OK);
        CHECK(s.id == r.id && s.is_error == r.is_error && event_equal(&s.event, &r.event));
        CHECK(record_history_get(span_of(meta, n - 1), data, &s) == ERR_CORRUPT);
    }
    buf_release(&b);
}

static void gone_round_trip(void) {
    static uint64_t ids[RECORD_GONE_IDS], back[RECORD_GONE_IDS];
    static uint8_t meta[RECORD_GONE_META_MAX];
    const uint32_t counts[] = {1, 2, 999, RECORD_GONE_IDS};
    for (size_t i = 0; i < 4; i++)
        for (int cause = GONE_KEPT_LONG_ENOUGH; cause <= GONE_QUEUE_DELETED; cause++) {
            for (size_t k = 0; k < counts[i]; k++)
                ids[k] = any_id();
            struct record_gone r = {any64(), (enum gone_cause)cause, counts[i], ids}, s;
            size_t n = record_gone_put(meta, &r);
            CHECK(record_gone_get(span_of(meta, n), back, &s) == OK);
            CHECK(s.queue == r.queue && s.cause == r.cause && s.count == r.count &&
                  memcmp(s.ids, ids, counts[i] * sizeof *ids) == 0);
            CHECK(record_gone_get(span_of(meta, n - 1), back, &s) == ERR_CORRUPT);
        }
}

static void small_ones_round_trip(void) {
    uint8_t meta[RECORD_META_MAX];
    for (int i = 0; i < 100; i++) {
        struct record_queue_gone r = {any64(), any_ledger()}, s;
        size_t n = record_queue_gone_put(meta, &r);
        CHECK(record_queue_gone_get(span_of(meta, n), &s) == OK);
        CHECK(s.queue == r.queue && ledger_equal(&s.ledger, &r.ledger));
        CHECK(record_queue_gone_get(span_of(meta, n + 1), &s) == ERR_CORRUPT);
        uint64_t segment = any64(), got_segment = 0;
        n = record_cleaned_put(meta, segment);
        CHECK(record_cleaned_get(span_of(meta, n), &got_segment) == OK && got_segment == segment);
        CHECK(record_cleaned_get(span_of(meta, n - 1), &got_segment) == ERR_CORRUPT);
    }
}

/* -- noise -------------------------------------------------------------------------------------------------- */

static void get_all(struct span meta, struct span data) {
    static uint64_t ids[RECORD_GONE_IDS];
    struct record_engine engine;
    struct record_queue queue;
    struct record_message message;
    struct record_state state;
    struct record_gone gone;
    struct record_history history;
    struct record_queue_gone queue_gone;
    uint64_t segment;
    const enum err results[] = {
        record_engine_get(meta, &engine),         record_queue_get(meta, &queue),
        record_queue_gone_get(meta, &queue_gone), record_message_get(meta, data, &message),
        record_state_get(meta, data, &state),     record_gone_get(meta, ids, &gone),
        record_history_get(meta, data, &history), record_cleaned_get(meta, &segment),
    };
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        CHECK(results[i] == OK || results[i] == ERR_CORRUPT);
    if (results[3] == OK)
        CHECK(message.image.state < STATE_COUNT && message.id > 0 && message.id <= LIMIT_ID &&
              message.image.priority <= PRIORITY_MAX);
    if (results[5] == OK)
        CHECK(gone.count > 0 && gone.count <= RECORD_GONE_IDS);
}

static void noise_is_corrupt_or_fine(void) {
    for (int i = 0; i < 200000; i++) {
        /* Of exactly that size each, so that a sanitizer sees a read past the end. */
        size_t meta_bytes = (size_t)rng_below(&rng, 200), data_bytes = (size_t)rng_below(&rng, 64);
        uint8_t *meta = malloc(meta_bytes + 1), *data = malloc(data_bytes + 1);
        for (size_t k = 0; k < meta_bytes; k++)
            meta[k] = (uint8_t)(rng_below(&rng, 3) ? rng_below(&rng, 3) : rng_u64(&rng));
        memset(data, 'x', data_bytes);
        get_all(span_of(meta, meta_bytes), span_of(data, data_bytes));
        free(meta);
        free(data);
    }
    get_all((struct span){0}, (struct span){0});
}

/* Real records with one byte changed. */
static void changed_bytes_are_corrupt_or_fine(void) {
    uint8_t meta[RECORD_META_MAX], name[LIMIT_QUEUE_NAME];
    struct buf b;
    buf_init(&b, 1 << 20);
    for (int i = 0; i < 20000; i++) {
        size_t n;
        struct span data = {0};
        if (i % 3 == 0) {
            struct record_queue r = {.name = any_span(name, 20), .policy = any_policy()};
            n = record_queue_put(meta, &r);
        } else if (i % 3 == 1) {
            struct record_state r = {any_id(), 1, any_image(), {.worker = span_str("w1")}};
            data = event_data(&b, &r.event);
            n = record_state_put(meta, &r);
        } else {
            struct record_message r = {
                .id = any_id(), .image = any_image(), .payload = span_str("x")};
            data = r.payload;
            n = record_message_put(meta, &r);
        }
        meta[rng_below(&rng, n)] = (uint8_t)rng_u64(&rng);
        get_all(span_of(meta, n), data);
        get_all(span_of(meta, n), (struct span){NULL, data.n});
    }
    buf_release(&b);
}

int main(void) {
    rng_seed(&rng, 1);
    RUN(engine_round_trip);
    RUN(queue_round_trip);
    RUN(message_round_trip);
    RUN(state_round_trip);
    RUN(history_round_trip);
    RUN(gone_round_trip);
    RUN(small_ones_round_trip);
    RUN(noise_is_corrupt_or_fine);
    RUN(changed_bytes_are_corrupt_or_fine);
    return check_done();
}
