/* The records of queues and messages: round trips, cuts, changes, noise. Those of work on dead letters are in test_record_triage.c. */
#include "record_values.h"

#define ROUNDS 2000
#define BIG_ROUNDS 200 /* of records with much data */

/* -- parts ------------------------------------------------------------------------------------------- */

static struct ledger any_ledger(void) {
    return (struct ledger){.accepted = any64(),
                           .moved_in = any64(),
                           .succeeded = any64(),
                           .discarded = any64(),
                           .moved_out = any64(),
                           .expired = any64(),
                           .undiscarded = any64()};
}

static bool ledger_equal(const struct ledger *a, const struct ledger *b) {
    return a->accepted == b->accepted && a->moved_in == b->moved_in &&
           a->succeeded == b->succeeded && a->discarded == b->discarded &&
           a->moved_out == b->moved_out && a->expired == b->expired &&
           a->undiscarded == b->undiscarded;
}

static struct policy any_policy(void) {
    struct policy p = {
        .max_retries = (uint8_t)rng_u64(&rng),
        .backoff = {.kind = (enum backoff_kind)rng_below(&rng, 3),
                    .jitter = (enum jitter)rng_below(&rng, 3),
                    .base_ms = any_time(),
                    .cap_ms = any_time(),
                    .factor_milli = any32(),
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
        .redrive_limit = (uint16_t)rng_below(&rng, LIMIT_REDRIVES + 1),
    };
    for (uint32_t i = 0; i < p.backoff.list_count; i++)
        p.backoff.list_seconds[i] = any32();
    return p;
}

static struct letter_image any_letter(void) {
    return (struct letter_image){
        .died_at = any_time(),
        .dead_seq = any64(),
        .edited_to = any64(),
        .group = any32(),
        .job = any32(),
        .job_part = (enum job_part)rng_below(&rng, JOB_PART_OPEN + 1),
        .redrive_count = (uint16_t)any64(),
        .version = (uint8_t)rng_u64(&rng),
    };
}

static bool letter_equal(const struct letter_image *a, const struct letter_image *b) {
    return a->died_at == b->died_at && a->dead_seq == b->dead_seq && a->edited_to == b->edited_to &&
           a->group == b->group && a->job == b->job && a->job_part == b->job_part &&
           a->redrive_count == b->redrive_count && a->version == b->version;
}

static bool has_died(const struct message_image *m) {
    return m->state == STATE_DEAD || m->state == STATE_DISCARDED;
}

static struct message_image any_image(void) {
    struct message_image m = {
        .state = (enum state)rng_below(&rng, STATE_COUNT),
        .reason = (enum reason)rng_below(&rng, REASON_COUNT),
        .retry_count = (uint8_t)rng_u64(&rng),
        .max_retries = (uint8_t)rng_u64(&rng),
        .priority = (uint8_t)rng_below(&rng, PRIORITY_MAX + 1),
        .is_retry = any_bool(),
        .deliveries = any32(),
        .updated_at = any_time(),
        .next_at = any_time(),
        .expires_at = any_time(),
        .first_failed_at = any_time(),
        .is_alone = any_bool(),
        .in_company = any_bool(),
        .is_unroutable = any_bool(),
        .is_ordered = any_bool(),
        .has_letter = any_bool(),
    };
    if (m.is_ordered) {
        m.order_key = any64();
        m.order_rank = any64();
    }
    m.has_letter |= has_died(&m);
    if (m.has_letter)
        m.letter = any_letter();
    if (has_died(&m) && m.letter.group == 0)
        m.letter.group = 1;
    return m;
}

static bool image_equal(const struct message_image *a, const struct message_image *b) {
    return a->state == b->state && a->reason == b->reason && a->retry_count == b->retry_count &&
           a->max_retries == b->max_retries && a->priority == b->priority &&
           a->is_retry == b->is_retry && a->deliveries == b->deliveries &&
           a->updated_at == b->updated_at && a->next_at == b->next_at &&
           a->expires_at == b->expires_at && a->first_failed_at == b->first_failed_at &&
           a->is_alone == b->is_alone && a->in_company == b->in_company &&
           a->is_unroutable == b->is_unroutable && a->is_ordered == b->is_ordered &&
           a->order_key == b->order_key && a->order_rank == b->order_rank &&
           a->has_letter == b->has_letter && letter_equal(&a->letter, &b->letter);
}

static bool image_is_sane(const struct message_image *m) {
    return m->state < STATE_COUNT && m->reason < REASON_COUNT && m->priority <= PRIORITY_MAX &&
           m->letter.job_part <= JOB_PART_OPEN && (!has_died(m) || m->letter.group != 0) &&
           (m->has_letter || letter_equal(&m->letter, &(struct letter_image){0}));
}

static uint8_t texts[EVENT_SPANS][UINT16_MAX];

static struct record_event any_event(void) {
    return (struct record_event){
        .event = (enum event)rng_below(&rng, EVENT_COUNT),
        .attempt = any32(),
        .at = any_time(),
        .next_at = any_time(),
        .previous = any64(),
        .worker = any_span(texts[0], 255),
        .worker_version = any_span(texts[1], 255),
        .error_class = any_span(texts[2], 255),
        .error = any_span(texts[3], UINT16_MAX),
        .detail = any_span(texts[4], UINT16_MAX),
        .fingerprint = any_span(texts[5], 255),
    };
}

static bool event_equal(const struct record_event *a, const struct record_event *b) {
    return a->event == b->event && a->attempt == b->attempt && a->at == b->at &&
           a->next_at == b->next_at && a->previous == b->previous &&
           span_equal(a->worker, b->worker) && span_equal(a->worker_version, b->worker_version) &&
           span_equal(a->error_class, b->error_class) && span_equal(a->error, b->error) &&
           span_equal(a->detail, b->detail) && span_equal(a->fingerprint, b->fingerprint);
}

static bool event_is_sane(const struct record_event *e, struct span data) {
    struct span parts[EVENT_SPANS];
    record_event_spans(e, parts);
    size_t bytes = 0;
    for (int i = 0; i < EVENT_SPANS; i++) {
        bytes += parts[i].n;
        if (!is_part(parts[i], data))
            return false;
    }
    return e->event < EVENT_COUNT && bytes == data.n;
}

static struct span event_data(struct buf *b, const struct record_event *e) {
    struct span parts[EVENT_SPANS];
    record_event_spans(e, parts);
    return joined(b, parts, EVENT_SPANS);
}

/* -- reading ----------------------------------------------------------------------------------------- */

static enum err read_engine(struct span meta, struct span data) {
    struct record_engine r;
    (void)data;
    return record_engine_get(meta, &r);
}

static enum err read_queue(struct span meta, struct span data) {
    struct record_queue r;
    enum err e = record_queue_get(meta, data, &r);
    if (e == OK)
        CHECK(r.name.n > 0 && is_part(r.name, meta) && is_part(r.paused_by, meta) &&
              is_part(r.pause_reason, meta) && r.policy.backoff.kind <= BACKOFF_LIST &&
              r.policy.backoff.jitter <= JITTER_EQUAL &&
              r.policy.backoff.list_count <= LIMIT_BACKOFF_LIST);
    return e;
}

static enum err read_queue_gone(struct span meta, struct span data) {
    struct record_queue_gone r;
    (void)data;
    return record_queue_gone_get(meta, &r);
}

static enum err read_cleaned(struct span meta, struct span data) {
    uint64_t segment;
    (void)data;
    return record_cleaned_get(meta, &segment);
}

static enum err read_message(struct span meta, struct span data) {
    struct record_message r;
    enum err e = record_message_get(meta, data, &r);
    if (e != OK)
        return e;
    struct span parts[MESSAGE_SPANS];
    record_message_spans(&r, parts);
    size_t bytes = 0;
    for (int i = 0; i < MESSAGE_SPANS; i++) {
        bytes += parts[i].n;
        CHECK(is_part(parts[i], data));
    }
    CHECK(bytes == data.n && r.id > 0 && r.id <= LIMIT_ID && r.how <= MESSAGE_COPIED &&
          image_is_sane(&r.image));
    return e;
}

static enum err read_state(struct span meta, struct span data) {
    struct record_state r;
    enum err e = record_state_get(meta, data, &r);
    if (e == OK)
        CHECK(r.id > 0 && r.id <= LIMIT_ID && image_is_sane(&r.image) &&
              r.job_was <= JOB_PART_OPEN && event_is_sane(&r.event, data));
    return e;
}

static enum err read_history(struct span meta, struct span data) {
    struct record_history r;
    enum err e = record_history_get(meta, data, &r);
    if (e == OK)
        CHECK(r.id > 0 && r.id <= LIMIT_ID && event_is_sane(&r.event, data));
    return e;
}

static enum err read_gone(struct span meta, struct span data) {
    static uint64_t ids[RECORD_GONE_IDS];
    struct record_gone r;
    (void)data;
    enum err e = record_gone_get(meta, ids, &r);
    if (e == OK)
        CHECK(r.count > 0 && r.count <= RECORD_GONE_IDS && r.ids == ids && r.cause > 0 &&
              r.cause <= GONE_CLEARED && r.job_part <= JOB_PART_OPEN);
    return e;
}

/* -- round trips ------------------------------------------------------------------------------------------ */

static void engine_round_trip(void) {
    uint8_t meta[RECORD_META_MAX];
    for (int i = 0; i < ROUNDS; i++) {
        struct record_engine r = {.next_id = any64(),
                                  .next_queue = any64(),
                                  .next_dead_seq = any64(),
                                  .next_audit = any64(),
                                  .next_group = any32(),
                                  .next_job = any32(),
                                  .next_exchange = any64(),
                                  .next_binding = any64(),
                                  .next_pattern = any32(),
                                  .deleted = any_ledger()};
        struct record_engine s;
        size_t n = record_engine_put(meta, &r);
        CHECK(record_engine_get(span_of(meta, n), &s) == OK);
        CHECK(s.next_id == r.next_id && s.next_queue == r.next_queue &&
              s.next_dead_seq == r.next_dead_seq && s.next_audit == r.next_audit &&
              s.next_group == r.next_group && s.next_job == r.next_job &&
              s.next_exchange == r.next_exchange && s.next_binding == r.next_binding &&
              s.next_pattern == r.next_pattern && ledger_equal(&s.deleted, &r.deleted));
        if (i < 10)
            cuts_are_corrupt(read_engine, span_of(meta, n), (struct span){0});
    }
}

static struct record_queue_amqp any_amqp(void) {
    static uint8_t arguments[LIMIT_ARGUMENTS], dlx[255], dlrk[255];
    return (struct record_queue_amqp){
        .is_declared = any_bool(),
        .durable = any_bool(),
        .exclusive = any_bool(),
        .auto_delete = any_bool(),
        .type = (enum queue_type)rng_below(&rng, QUEUE_QUORUM + 1),
        .settings = {.message_ttl_ms = any_time(),
                     .expires_ms = any_time(),
                     .max_length = any_time(),
                     .max_length_bytes = any_time(),
                     .delivery_limit = any_time(),
                     .max_priority = any_time(),
                     .overflow = (int)rng_below(&rng, LENGTH_REJECT_PUBLISH_DLX + 2) - 1,
                     .single_active_consumer = any_bool(),
                     .has_dlx = any_bool(),
                     .has_dlrk = any_bool(),
                     .dlx = any_span(dlx, sizeof dlx),
                     .dlrk = any_span(dlrk, sizeof dlrk)},
        .arguments = any_span(arguments, sizeof arguments),
        .expired = any64(),
        .max_length = any64(),
    };
}

static bool amqp_equal(const struct record_queue_amqp *a, const struct record_queue_amqp *b) {
    const struct queue_settings *s = &a->settings, *t = &b->settings;
    return a->is_declared == b->is_declared && a->durable == b->durable &&
           a->exclusive == b->exclusive && a->auto_delete == b->auto_delete && a->type == b->type &&
           s->message_ttl_ms == t->message_ttl_ms && s->expires_ms == t->expires_ms &&
           s->max_length == t->max_length && s->max_length_bytes == t->max_length_bytes &&
           s->delivery_limit == t->delivery_limit && s->max_priority == t->max_priority &&
           s->overflow == t->overflow && s->single_active_consumer == t->single_active_consumer &&
           s->has_dlx == t->has_dlx && s->has_dlrk == t->has_dlrk && span_equal(s->dlx, t->dlx) &&
           span_equal(s->dlrk, t->dlrk) && span_equal(a->arguments, b->arguments) &&
           a->expired == b->expired && a->max_length == b->max_length;
}

static struct record_queue any_queue(void) {
    static uint8_t name[LIMIT_QUEUE_NAME], by[LIMIT_ACTOR], why[LIMIT_PAUSE_REASON];
    static uint8_t owner[LIMIT_OWNER], target[LIMIT_QUEUE_NAME], cause[LIMIT_ERROR_CLASS];
    static uint8_t rules[LIMIT_POLICY_TEXT];
    struct record_queue r = {
        .queue = any64(),
        .dropping = any_bool(),
        .created_at = any_time(),
        .name = any_span(name, LIMIT_QUEUE_NAME),
        .policy = any_policy(),
        .ledger = any_ledger(),
        .deliveries = any64(),
        .failures = any64(),
        .redriven = any64(),
        .redriven_succeeded = any64(),
        .redriven_died = any64(),
        .paused_at = any_time(),
        .paused_by = any_span(by, sizeof by),
        .pause_reason = any_span(why, sizeof why),
    };
    for (int i = 0; i < REASON_COUNT; i++)
        r.deaths_by[i] = any64();
    r.texts = (struct policy_texts){.owner = any_span(owner, sizeof owner),
                                    .target = any_span(target, sizeof target),
                                    .rules = any_span(rules, sizeof rules)};
    r.breaker_cause = any_span(cause, sizeof cause);
    r.breaker = (enum breaker_state)rng_below(&rng, 3);
    r.breaker_at = any_time();
    r.breaker_until = any_time();
    r.breaker_opened = any64();
    r.alone_claims = any64();
    r.has_amqp = any_bool();
    r.amqp =
        r.has_amqp ? any_amqp() : (struct record_queue_amqp){.settings = queue_settings_none()};
    return r;
}

static void queue_round_trip(void) {
    uint8_t meta[RECORD_META_MAX];
    for (int i = 0; i < ROUNDS; i++) {
        struct record_queue r = any_queue(), s;
        size_t n = record_queue_put(meta, &r);
        struct span parts[QUEUE_SPANS];
        struct buf data;
        record_queue_spans(&r, parts);
        buf_init(&data, SIZE_MAX);
        for (int k = 0; k < QUEUE_SPANS; k++)
            buf_add_span(&data, parts[k]);
        enum err e = record_queue_get(span_of(meta, n), buf_span(&data), &s);
        if (e == OK)
            CHECK(policy_texts_equal(&r.texts, &s.texts) &&
                  span_equal(r.breaker_cause, s.breaker_cause) && r.breaker == s.breaker &&
                  r.breaker_at == s.breaker_at && r.breaker_until == s.breaker_until &&
                  r.breaker_opened == s.breaker_opened && r.alone_claims == s.alone_claims &&
                  r.has_amqp == s.has_amqp && amqp_equal(&r.amqp, &s.amqp));
        buf_release(&data);
        CHECK(e == (r.name.n ? OK : ERR_CORRUPT));
        if (e != OK)
            continue;
        CHECK(s.queue == r.queue && s.dropping == r.dropping && s.created_at == r.created_at &&
              span_equal(s.name, r.name) && policy_equal(&s.policy, &r.policy) &&
              s.policy.redrive_limit == r.policy.redrive_limit &&
              ledger_equal(&s.ledger, &r.ledger) && s.deliveries == r.deliveries &&
              s.failures == r.failures);
        CHECK(memcmp(s.deaths_by, r.deaths_by, sizeof s.deaths_by) == 0 &&
              s.redriven == r.redriven && s.redriven_succeeded == r.redriven_succeeded &&
              s.redriven_died == r.redriven_died);
        CHECK(s.paused_at == r.paused_at && span_equal(s.paused_by, r.paused_by) &&
              span_equal(s.pause_reason, r.pause_reason));
        if (i < 50)
            cuts_are_corrupt(read_queue, span_of(meta, n), (struct span){0});
        changes_are_corrupt_or_sane(read_queue, span_of(meta, n), (struct span){0});
    }
}

static struct record_message any_message(void) {
    static uint8_t origin[LIMIT_QUEUE_NAME], headers[LIMIT_HEADERS], key[255], payload[70000];
    static uint8_t envelope[70000];
    struct record_message r = {
        .id = any_id(),
        .queue = any64(),
        .how = (enum message_origin)rng_below(&rng, MESSAGE_COPIED + 1),
        .image = any_image(),
        .created_at = any_time(),
        .ttl_ms = any_time(),
        .idempotency_until = any_time(),
        .parent_id = any64(),
        .origin = any_span(origin, sizeof origin),
        .headers = any_span(headers, sizeof headers),
        .key = any_span(key, sizeof key),
        .envelope = any_span(envelope, sizeof envelope),
        .payload = any_span(payload, sizeof payload),
    };
    if (r.how == MESSAGE_MOVED)
        r.moved_from = any64();
    if (r.idempotency_until)
        r.idempotency_hash = (struct hash128){any64(), any64()};
    return r;
}

static void message_round_trip(void) {
    uint8_t meta[RECORD_META_MAX];
    struct buf b;
    buf_init(&b, 1 << 20);
    for (int i = 0; i < BIG_ROUNDS; i++) {
        struct record_message r = any_message(), s;
        struct span parts[MESSAGE_SPANS];
        record_message_spans(&r, parts);
        struct span data = joined(&b, parts, MESSAGE_SPANS);
        size_t n = record_message_put(meta, &r);
        CHECK(record_message_get(span_of(meta, n), data, &s) == OK);
        CHECK(s.id == r.id && s.queue == r.queue && s.how == r.how &&
              s.moved_from == r.moved_from && image_equal(&s.image, &r.image) &&
              s.created_at == r.created_at && s.ttl_ms == r.ttl_ms &&
              s.idempotency_until == r.idempotency_until &&
              s.idempotency_hash.lo == r.idempotency_hash.lo &&
              s.idempotency_hash.hi == r.idempotency_hash.hi && s.parent_id == r.parent_id);
        CHECK(span_equal(s.origin, r.origin) && span_equal(s.headers, r.headers) &&
              span_equal(s.key, r.key) && span_equal(s.payload, r.payload) &&
              span_equal(s.envelope, r.envelope));

        /* Data left unread: the sizes are known all the same. */
        CHECK(record_message_get(span_of(meta, n), (struct span){NULL, data.n}, &s) == OK);
        CHECK(!s.payload.p && s.payload.n == r.payload.n && !s.headers.p &&
              s.headers.n == r.headers.n && s.origin.n == r.origin.n);
        if (i < 10)
            cuts_are_corrupt(read_message, span_of(meta, n), data);
        for (int k = 0; k < 20; k++)
            changes_are_corrupt_or_sane(read_message, span_of(meta, n), data);
    }
    buf_release(&b);
}

static void state_round_trip(void) {
    uint8_t meta[RECORD_META_MAX];
    struct buf b;
    buf_init(&b, 1 << 20);
    for (int i = 0; i < BIG_ROUNDS; i++) {
        struct record_state r = {.id = any_id(),
                                 .queue = any64(),
                                 .image = any_image(),
                                 .job_was = (enum job_part)rng_below(&rng, JOB_PART_OPEN + 1),
                                 .event = any_event()};
        struct record_state s;
        struct span data = event_data(&b, &r.event);
        size_t n = record_state_put(meta, &r);
        CHECK(record_state_get(span_of(meta, n), data, &s) == OK);
        /* Not stored twice: when it happened is when the image was updated. A discarded one's time is
         * that of its end, not of the event. */
        r.event.at = r.image.updated_at;
        r.event.next_at = r.image.state == STATE_DISCARDED ? 0 : r.image.next_at;
        CHECK(s.id == r.id && s.queue == r.queue && image_equal(&s.image, &r.image) &&
              s.job_was == (r.image.has_letter ? r.job_was : JOB_PART_NONE) &&
              event_equal(&s.event, &r.event));
        CHECK(record_state_get(span_of(meta, n), (struct span){NULL, data.n}, &s) == OK);
        CHECK(!s.event.detail.p && s.event.detail.n == r.event.detail.n);
        if (i < 10)
            cuts_are_corrupt(read_state, span_of(meta, n), data);
        for (int k = 0; k < 20; k++)
            changes_are_corrupt_or_sane(read_state, span_of(meta, n), data);
    }
    buf_release(&b);
}

/* A dead or discarded message without a cause group makes no sense. */
static void the_dead_have_a_cause(void) {
    uint8_t meta[RECORD_META_MAX];
    for (int state = 0; state < STATE_COUNT; state++)
        for (int has_letter = 0; has_letter < 2; has_letter++) {
            struct record_state r = {
                .id = 1,
                .queue = 1,
                .image = {.state = (enum state)state, .has_letter = has_letter}};
            struct record_message m = {.id = 1, .image = r.image};
            enum err e = has_died(&r.image) ? ERR_CORRUPT : OK;
            CHECK(read_state(span_of(meta, record_state_put(meta, &r)), (struct span){0}) == e);
            CHECK(read_message(span_of(meta, record_message_put(meta, &m)), (struct span){0}) == e);
        }
}

static void history_round_trip(void) {
    uint8_t meta[RECORD_META_MAX];
    struct buf b;
    buf_init(&b, 1 << 20);
    for (int i = 0; i < BIG_ROUNDS; i++) {
        struct record_history r = {any_id(), any_bool(), any_event()}, s;
        struct span data = event_data(&b, &r.event);
        size_t n = record_history_put(meta, &r);
        CHECK(record_history_get(span_of(meta, n), data, &s) == OK);
        CHECK(s.id == r.id && s.is_error == r.is_error && event_equal(&s.event, &r.event));
        if (i < 10)
            cuts_are_corrupt(read_history, span_of(meta, n), data);
        for (int k = 0; k < 20; k++)
            changes_are_corrupt_or_sane(read_history, span_of(meta, n), data);
    }
    buf_release(&b);
}

static void gone_round_trip(void) {
    static uint64_t ids[RECORD_GONE_IDS], back[RECORD_GONE_IDS];
    static uint8_t meta[RECORD_GONE_META_MAX];
    const uint32_t counts[] = {1, 2, 999, RECORD_GONE_IDS};
    for (size_t i = 0; i < 4; i++)
        for (int cause = GONE_KEPT_LONG_ENOUGH; cause <= GONE_PURGED; cause++) {
            for (size_t k = 0; k < counts[i]; k++)
                ids[k] = any_id();
            struct record_gone r = {.queue = any64(),
                                    .cause = (enum gone_cause)cause,
                                    .job = any32(),
                                    .job_part = (enum job_part)rng_below(&rng, JOB_PART_OPEN + 1),
                                    .count = counts[i],
                                    .ids = ids};
            struct record_gone s;
            size_t n = record_gone_put(meta, &r);
            CHECK(record_gone_get(span_of(meta, n), back, &s) == OK);
            CHECK(s.queue == r.queue && s.cause == r.cause && s.job == r.job &&
                  s.job_part == r.job_part && s.count == r.count &&
                  memcmp(s.ids, ids, counts[i] * sizeof *ids) == 0);
            if (cause == GONE_PURGED)
                cuts_are_corrupt(read_gone, span_of(meta, n), (struct span){0});
            for (int k = 0; k < 500; k++)
                changes_are_corrupt_or_sane(read_gone, span_of(meta, n), (struct span){0});
        }
}

static void small_ones_round_trip(void) {
    uint8_t meta[RECORD_META_MAX];
    for (int i = 0; i < 100; i++) {
        struct record_queue_gone r = {any64(), any_ledger()}, s;
        size_t n = record_queue_gone_put(meta, &r);
        CHECK(record_queue_gone_get(span_of(meta, n), &s) == OK);
        CHECK(s.queue == r.queue && ledger_equal(&s.ledger, &r.ledger));
        cuts_are_corrupt(read_queue_gone, span_of(meta, n), (struct span){0});
        uint64_t segment = any64(), got_segment = 0;
        n = record_cleaned_put(meta, segment);
        CHECK(record_cleaned_get(span_of(meta, n), &got_segment) == OK && got_segment == segment);
        cuts_are_corrupt(read_cleaned, span_of(meta, n), (struct span){0});
    }
}

static void noise(void) {
    record_reader *const readers[] = {read_engine,  read_queue, read_queue_gone, read_cleaned,
                                      read_message, read_state, read_history,    read_gone};
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
        noise_is_corrupt_or_sane(readers[i], 50000);
}

int main(void) {
    rng_seed(&rng, 1);
    RUN(engine_round_trip);
    RUN(queue_round_trip);
    RUN(message_round_trip);
    RUN(state_round_trip);
    RUN(the_dead_have_a_cause);
    RUN(history_round_trip);
    RUN(gone_round_trip);
    RUN(small_ones_round_trip);
    RUN(noise);
    return check_done();
}
