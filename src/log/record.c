#include "log/record.h"

#include "log/record_codec.h"

#include <assert.h>
#include <string.h>

static const struct span no_data = {0};

/* -- parts ----------------------------------------------------------------------------------- */

static void ledger_put(struct out *o, const struct ledger *l) {
    put64(o, l->accepted);
    put64(o, l->moved_in);
    put64(o, l->succeeded);
    put64(o, l->discarded);
    put64(o, l->moved_out);
    put64(o, l->expired);
    put64(o, l->undiscarded);
}

static struct ledger ledger_get(struct in *in) {
    struct ledger l;
    l.accepted = get64(in);
    l.moved_in = get64(in);
    l.succeeded = get64(in);
    l.discarded = get64(in);
    l.moved_out = get64(in);
    l.expired = get64(in);
    l.undiscarded = get64(in);
    return l;
}

static void policy_put(struct out *o, const struct policy *p) {
    put8(o, p->max_retries);
    put8(o, p->backoff.kind);
    put8(o, p->backoff.jitter);
    put_time(o, p->backoff.base_ms);
    put_time(o, p->backoff.cap_ms);
    put32(o, p->backoff.factor_milli);
    put8(o, p->backoff.list_count);
    for (unsigned i = 0; i < p->backoff.list_count; i++)
        put32(o, p->backoff.list_seconds[i]);
    put_time(o, p->lease_ms);
    put_time(o, p->delay_ms);
    put_time(o, p->ttl_ms);
    put64(o, p->messages_max);
    put64(o, p->bytes_max);
    put_time(o, p->idempotency_window_ms);
    put_time(o, p->keep_succeeded_ms);
    put64(o, p->keep_succeeded_max);
    put_time(o, p->keep_dead_ms);
    put16(o, p->redrive_limit);
    put32(o, p->deliveries_max);
    put32(o, p->retry_budget_ppm);
    put8(o, p->overflow);
    put8(o, p->order);
    put16(o, p->target_reasons);
    put8(o, p->breaker.is_on);
    put32(o, p->breaker.share_ppm);
    put32(o, p->breaker.outcomes_min);
    put32(o, p->breaker.probes);
    put_time(o, p->breaker.window_ms);
    put_time(o, p->breaker.open_ms);
}

static struct policy policy_get(struct in *in) {
    struct policy p = {0};
    p.max_retries = get8(in);
    p.backoff.kind = get_up_to(in, BACKOFF_LIST);
    p.backoff.jitter = get_up_to(in, JITTER_EQUAL);
    p.backoff.base_ms = get_time(in);
    p.backoff.cap_ms = get_time(in);
    p.backoff.factor_milli = get32(in);
    p.backoff.list_count = get_up_to(in, LIMIT_BACKOFF_LIST);
    for (unsigned i = 0; i < p.backoff.list_count; i++)
        p.backoff.list_seconds[i] = get32(in);
    p.lease_ms = get_time(in);
    p.delay_ms = get_time(in);
    p.ttl_ms = get_time(in);
    p.messages_max = get64(in);
    p.bytes_max = get64(in);
    p.idempotency_window_ms = get_time(in);
    p.keep_succeeded_ms = get_time(in);
    p.keep_succeeded_max = get64(in);
    p.keep_dead_ms = get_time(in);
    p.redrive_limit = get16(in);
    p.deliveries_max = get32(in);
    p.retry_budget_ppm = get32(in);
    p.overflow = get_up_to(in, OVERFLOW_DEAD);
    p.order = get_up_to(in, ORDER_PARK);
    p.target_reasons = get16(in);
    p.breaker.is_on = get_up_to(in, 1);
    p.breaker.share_ppm = get32(in);
    p.breaker.outcomes_min = get32(in);
    p.breaker.probes = get32(in);
    p.breaker.window_ms = get_time(in);
    p.breaker.open_ms = get_time(in);
    return p;
}

/* What most messages do not have is left out of their images. */
enum {
    HAS_RETRY = 1,
    HAS_FAILED = 2,
    HAS_LETTER = 4,
    HAS_ORDER = 8,
    IS_ALONE = 16,
    IN_COMPANY = 32,
    IS_UNROUTABLE = 64,
    HAS_ARRIVAL = 128,
    HAS_ALL = 255
};

static void letter_put(struct out *o, const struct letter_image *l) {
    put_time(o, l->died_at);
    put64(o, l->dead_seq);
    put64(o, l->edited_to);
    put32(o, l->group);
    put32(o, l->job);
    put8(o, l->job_part);
    put32(o, l->deliveries_before);
    put16(o, l->redrive_count);
    put8(o, l->version);
}

static struct letter_image letter_get(struct in *in) {
    struct letter_image l = {0};
    l.died_at = get_time(in);
    l.dead_seq = get64(in);
    l.edited_to = get64(in);
    l.group = get32(in);
    l.job = get32(in);
    l.job_part = get_up_to(in, JOB_PART_OPEN);
    l.deliveries_before = get32(in);
    l.redrive_count = get16(in);
    l.version = get8(in);
    return l;
}

static void image_put(struct out *o, const struct message_image *m) {
    put8(o, m->state);
    put8(o, m->reason);
    put8(o, m->retry_count);
    put8(o, m->max_retries);
    put8(o, m->priority);
    put8(o, (m->is_retry ? HAS_RETRY : 0U) | (m->first_failed_at ? HAS_FAILED : 0U) |
                (m->has_letter ? HAS_LETTER : 0U) | (m->is_ordered ? HAS_ORDER : 0U) |
                (m->is_alone ? IS_ALONE : 0U) | (m->in_company ? IN_COMPANY : 0U) |
                (m->is_unroutable ? IS_UNROUTABLE : 0U) | (m->arrival ? HAS_ARRIVAL : 0U));
    put32(o, m->deliveries);
    put_time(o, m->updated_at);
    put_time(o, m->next_at);
    put_time(o, m->expires_at);
    if (m->first_failed_at)
        put_time(o, m->first_failed_at);
    if (m->is_ordered) {
        put64(o, m->order_key);
        put64(o, m->order_rank);
    }
    if (m->arrival)
        put64(o, m->arrival);
    if (m->has_letter)
        letter_put(o, &m->letter);
}

static struct message_image image_get(struct in *in) {
    struct message_image m = {0};
    m.state = get_up_to(in, STATE_DISCARDED);
    m.reason = get_up_to(in, REASON_MANUAL);
    m.retry_count = get8(in);
    m.max_retries = get8(in);
    m.priority = get_up_to(in, PRIORITY_MAX);
    unsigned has = get_up_to(in, HAS_ALL);
    m.is_retry = (has & HAS_RETRY) != 0;
    m.has_letter = (has & HAS_LETTER) != 0;
    m.is_ordered = (has & HAS_ORDER) != 0;
    m.is_alone = (has & IS_ALONE) != 0;
    m.in_company = (has & IN_COMPANY) != 0;
    m.is_unroutable = (has & IS_UNROUTABLE) != 0;
    m.deliveries = get32(in);
    m.updated_at = get_time(in);
    m.next_at = get_time(in);
    m.expires_at = get_time(in);
    if (has & HAS_FAILED)
        m.first_failed_at = get_time(in);
    if (m.is_ordered) {
        m.order_key = get64(in);
        m.order_rank = get64(in);
    }
    if (has & HAS_ARRIVAL)
        m.arrival = get64(in);
    if (m.arrival > LIMIT_ID)
        in->bad = true;
    if (m.has_letter)
        m.letter = letter_get(in);
    /* What died has a cause. */
    if ((m.state == STATE_DEAD || m.state == STATE_DISCARDED) && m.letter.group == 0)
        in->bad = true;
    return m;
}

static void event_put(struct out *o, const struct record_event *e) {
    put8(o, e->event);
    put32(o, e->attempt);
    put64(o, e->previous);
    put8(o, (unsigned)e->worker.n);
    put8(o, (unsigned)e->worker_version.n);
    put8(o, (unsigned)e->error_class.n);
    put16(o, e->error.n);
    put16(o, e->detail.n);
    put8(o, (unsigned)e->fingerprint.n);
}

static struct record_event event_get(struct in *in, struct span *data) {
    struct record_event e = {0};
    e.event = get_up_to(in, EVENT_COUNT - 1);
    e.attempt = get32(in);
    e.previous = get64(in);
    size_t worker = get8(in), version = get8(in), class = get8(in);
    size_t error = get16(in), detail = get16(in), fingerprint = get8(in);
    e.worker = get_data(in, data, worker);
    e.worker_version = get_data(in, data, version);
    e.error_class = get_data(in, data, class);
    e.error = get_data(in, data, error);
    e.detail = get_data(in, data, detail);
    e.fingerprint = get_data(in, data, fingerprint);
    return e;
}

void record_event_spans(const struct record_event *r, struct span ret[static EVENT_SPANS]) {
    ret[0] = r->worker;
    ret[1] = r->worker_version;
    ret[2] = r->error_class;
    ret[3] = r->error;
    ret[4] = r->detail;
    ret[5] = r->fingerprint;
}

/* -- records --------------------------------------------------------------------------------- */

size_t record_engine_put(uint8_t meta[static RECORD_META_MAX], const struct record_engine *r) {
    struct out o = {meta, 0};
    put64(&o, r->next_id);
    put64(&o, r->next_queue);
    put64(&o, r->next_dead_seq);
    put64(&o, r->next_audit);
    put32(&o, r->next_group);
    put32(&o, r->next_job);
    put64(&o, r->next_exchange);
    put64(&o, r->next_binding);
    put32(&o, r->next_pattern);
    ledger_put(&o, &r->deleted);
    return o.n;
}

enum err record_engine_get(struct span meta, struct record_engine *ret) {
    struct in in = {.left = meta};
    struct record_engine r;
    r.next_id = get64(&in);
    r.next_queue = get64(&in);
    r.next_dead_seq = get64(&in);
    r.next_audit = get64(&in);
    r.next_group = get32(&in);
    r.next_job = get32(&in);
    r.next_exchange = get64(&in);
    r.next_binding = get64(&in);
    r.next_pattern = get32(&in);
    r.deleted = ledger_get(&in);
    *ret = r;
    return done(&in, no_data);
}

/* Without its texts. */
static void amqp_put(struct out *o, const struct record_queue_amqp *a) {
    const struct queue_settings *s = &a->settings;
    put8(o, (a->is_declared ? 1U : 0U) | (a->durable ? 2U : 0U) | (a->exclusive ? 4U : 0U) |
                (a->auto_delete ? 8U : 0U) | (s->single_active_consumer ? 16U : 0U) |
                (s->has_dlx ? 32U : 0U) | (s->has_dlrk ? 64U : 0U));
    put8(o, a->type);
    put8(o, (unsigned)(s->overflow + 1));
    put_time(o, s->message_ttl_ms);
    put_time(o, s->expires_ms);
    put_time(o, s->max_length);
    put_time(o, s->max_length_bytes);
    put_time(o, s->delivery_limit);
    put_time(o, s->max_priority);
    put64(o, a->expired);
    put64(o, a->max_length);
}

static struct record_queue_amqp amqp_get(struct in *in) {
    struct record_queue_amqp a = {.settings = queue_settings_none()};
    struct queue_settings *s = &a.settings;
    unsigned flags = get_up_to(in, 127);
    a.is_declared = (flags & 1) != 0;
    a.durable = (flags & 2) != 0;
    a.exclusive = (flags & 4) != 0;
    a.auto_delete = (flags & 8) != 0;
    s->single_active_consumer = (flags & 16) != 0;
    s->has_dlx = (flags & 32) != 0;
    s->has_dlrk = (flags & 64) != 0;
    a.type = get_up_to(in, QUEUE_QUORUM);
    s->overflow = (int)get_up_to(in, LENGTH_REJECT_PUBLISH_DLX + 1) - 1;
    s->message_ttl_ms = get_time(in);
    s->expires_ms = get_time(in);
    s->max_length = get_time(in);
    s->max_length_bytes = get_time(in);
    s->delivery_limit = get_time(in);
    s->max_priority = get_time(in);
    a.expired = get64(in);
    a.max_length = get64(in);
    return a;
}

size_t record_queue_put(uint8_t meta[static RECORD_META_MAX], const struct record_queue *r) {
    assert(r->name.n <= LIMIT_QUEUE_NAME);
    struct out o = {meta, 0};
    put64(&o, r->queue);
    put8(&o, r->dropping);
    put_time(&o, r->created_at);
    ledger_put(&o, &r->ledger);
    put64(&o, r->deliveries);
    put64(&o, r->failures);
    for (int i = 0; i < REASON_COUNT; i++)
        put64(&o, r->deaths_by[i]);
    put64(&o, r->redriven);
    put64(&o, r->redriven_succeeded);
    put64(&o, r->redriven_died);
    put_time(&o, r->paused_at);
    put_text(&o, r->paused_by);
    put_text(&o, r->pause_reason);
    put_text(&o, r->name);
    put8(&o, r->breaker);
    put_time(&o, r->breaker_at);
    put_time(&o, r->breaker_until);
    put64(&o, r->breaker_opened);
    put64(&o, r->alone_claims);
    struct span texts[QUEUE_SPANS];
    record_queue_spans(r, texts);
    for (int i = 0; i < QUEUE_SPANS; i++)
        put32(&o, texts[i].n);
    policy_put(&o, &r->policy);
    put8(&o, r->has_amqp);
    if (r->has_amqp)
        amqp_put(&o, &r->amqp);
    assert(o.n <= RECORD_META_MAX);
    return o.n;
}

void record_queue_spans(const struct record_queue *r, struct span ret[static QUEUE_SPANS]) {
    policy_texts_spans(&r->texts, ret);
    ret[POLICY_TEXTS] = r->breaker_cause;
    ret[POLICY_TEXTS + 1] = r->amqp.arguments;
    ret[POLICY_TEXTS + 2] = r->amqp.settings.dlx;
    ret[POLICY_TEXTS + 3] = r->amqp.settings.dlrk;
}

enum err record_queue_get(struct span meta, struct span data, struct record_queue *ret) {
    struct in in = {.left = meta};
    struct record_queue r = {0};
    r.queue = get64(&in);
    r.dropping = get_up_to(&in, 1);
    r.created_at = get_time(&in);
    r.ledger = ledger_get(&in);
    r.deliveries = get64(&in);
    r.failures = get64(&in);
    for (int i = 0; i < REASON_COUNT; i++)
        r.deaths_by[i] = get64(&in);
    r.redriven = get64(&in);
    r.redriven_succeeded = get64(&in);
    r.redriven_died = get64(&in);
    r.paused_at = get_time(&in);
    r.paused_by = get_text(&in);
    r.pause_reason = get_text(&in);
    r.name = get_text(&in);
    r.breaker = get_up_to(&in, BREAKER_HALF_OPEN);
    r.breaker_at = get_time(&in);
    r.breaker_until = get_time(&in);
    r.breaker_opened = get64(&in);
    r.alone_claims = get64(&in);
    size_t n[QUEUE_SPANS];
    struct span texts[QUEUE_SPANS];
    for (int i = 0; i < QUEUE_SPANS; i++)
        n[i] = get32(&in);
    for (int i = 0; i < QUEUE_SPANS; i++)
        texts[i] = get_data(&in, &data, n[i]);
    r.texts = policy_texts_of(texts);
    r.breaker_cause = texts[POLICY_TEXTS];
    r.policy = policy_get(&in);
    r.has_amqp = get_up_to(&in, 1);
    r.amqp.settings = queue_settings_none();
    if (r.has_amqp)
        r.amqp = amqp_get(&in);
    r.amqp.arguments = texts[POLICY_TEXTS + 1];
    r.amqp.settings.dlx = texts[POLICY_TEXTS + 2];
    r.amqp.settings.dlrk = texts[POLICY_TEXTS + 3];
    *ret = r;
    return r.name.n == 0 ? ERR_CORRUPT : done(&in, data);
}

size_t record_queue_gone_put(uint8_t meta[static RECORD_META_MAX],
                             const struct record_queue_gone *r) {
    struct out o = {meta, 0};
    put64(&o, r->queue);
    ledger_put(&o, &r->ledger);
    return o.n;
}

enum err record_queue_gone_get(struct span meta, struct record_queue_gone *ret) {
    struct in in = {.left = meta};
    ret->queue = get64(&in);
    ret->ledger = ledger_get(&in);
    return done(&in, no_data);
}

size_t record_message_put(uint8_t meta[static RECORD_META_MAX], const struct record_message *r) {
    struct out o = {meta, 0};
    put64(&o, r->id);
    put64(&o, r->queue);
    put8(&o, r->how);
    if (r->how == MESSAGE_MOVED)
        put64(&o, r->moved_from);
    image_put(&o, &r->image);
    put_time(&o, r->created_at);
    put_time(&o, r->ttl_ms);
    put_time(&o, r->idempotency_until);
    if (r->idempotency_until) {
        put64(&o, r->idempotency_hash.lo);
        put64(&o, r->idempotency_hash.hi);
    }
    put64(&o, r->parent_id);
    put8(&o, (unsigned)r->trail.n);
    put8(&o, (unsigned)r->origin.n);
    put32(&o, r->headers.n);
    put8(&o, (unsigned)r->key.n);
    put32(&o, r->envelope.n);
    put32(&o, r->payload.n);
    return o.n;
}

enum err record_message_get(struct span meta, struct span data, struct record_message *ret) {
    struct in in = {.left = meta};
    struct record_message r = {0};
    r.id = get64(&in);
    r.queue = get64(&in);
    r.how = get_up_to(&in, MESSAGE_COPIED);
    if (r.how == MESSAGE_MOVED)
        r.moved_from = get64(&in);
    r.image = image_get(&in);
    r.created_at = get_time(&in);
    r.ttl_ms = get_time(&in);
    r.idempotency_until = get_time(&in);
    if (r.idempotency_until) {
        r.idempotency_hash.lo = get64(&in);
        r.idempotency_hash.hi = get64(&in);
    }
    r.parent_id = get64(&in);
    size_t trail = get8(&in), origin = get8(&in), headers = get32(&in), key = get8(&in);
    size_t envelope = get32(&in), payload = get32(&in);
    r.trail = get_data(&in, &data, trail);
    r.origin = get_data(&in, &data, origin);
    r.headers = get_data(&in, &data, headers);
    r.key = get_data(&in, &data, key);
    r.envelope = get_data(&in, &data, envelope);
    r.payload = get_data(&in, &data, payload);
    *ret = r;
    return r.id == 0 || r.id > LIMIT_ID ? ERR_CORRUPT : done(&in, data);
}

void record_message_spans(const struct record_message *r, struct span ret[static MESSAGE_SPANS]) {
    ret[0] = r->trail;
    ret[1] = r->origin;
    ret[2] = r->headers;
    ret[3] = r->key;
    ret[4] = r->envelope;
    ret[5] = r->payload;
}

size_t record_state_put(uint8_t meta[static RECORD_META_MAX], const struct record_state *r) {
    struct out o = {meta, 0};
    put64(&o, r->id);
    put64(&o, r->queue);
    image_put(&o, &r->image);
    if (r->image.has_letter)
        put8(&o, r->job_was);
    event_put(&o, &r->event);
    return o.n;
}

enum err record_state_get(struct span meta, struct span data, struct record_state *ret) {
    struct in in = {.left = meta};
    struct record_state r = {0};
    r.id = get64(&in);
    r.queue = get64(&in);
    r.image = image_get(&in);
    if (r.image.has_letter)
        r.job_was = get_up_to(&in, JOB_PART_OPEN);
    r.event = event_get(&in, &data);
    r.event.at = r.image.updated_at;
    r.event.next_at = r.image.state == STATE_DISCARDED ? 0 : r.image.next_at;
    *ret = r;
    return r.id == 0 || r.id > LIMIT_ID ? ERR_CORRUPT : done(&in, data);
}

size_t record_history_put(uint8_t meta[static RECORD_META_MAX], const struct record_history *r) {
    struct out o = {meta, 0};
    put64(&o, r->id);
    put8(&o, r->is_error);
    put_time(&o, r->event.at);
    put_time(&o, r->event.next_at);
    event_put(&o, &r->event);
    return o.n;
}

enum err record_history_get(struct span meta, struct span data, struct record_history *ret) {
    struct in in = {.left = meta};
    struct record_history r = {0};
    r.id = get64(&in);
    r.is_error = get_up_to(&in, 1);
    int64_t at = get_time(&in), next_at = get_time(&in);
    r.event = event_get(&in, &data);
    r.event.at = at;
    r.event.next_at = next_at;
    *ret = r;
    return r.id == 0 || r.id > LIMIT_ID ? ERR_CORRUPT : done(&in, data);
}

size_t record_gone_put(uint8_t meta[static RECORD_GONE_META_MAX], const struct record_gone *r) {
    assert(r->count > 0 && r->count <= RECORD_GONE_IDS);
    struct out o = {meta, 0};
    put64(&o, r->queue);
    put8(&o, r->cause);
    put32(&o, r->job);
    put8(&o, r->job_part);
    put16(&o, r->count);
    for (uint32_t i = 0; i < r->count; i++)
        put64(&o, r->ids[i]);
    return o.n;
}

enum err record_gone_get(struct span meta, uint64_t ids[static RECORD_GONE_IDS],
                         struct record_gone *ret) {
    struct in in = {.left = meta};
    struct record_gone r = {.ids = ids};
    r.queue = get64(&in);
    uint8_t cause = get_up_to(&in, GONE_CLEARED);
    r.job = get32(&in);
    r.job_part = get_up_to(&in, JOB_PART_OPEN);
    r.count = get16(&in);
    if (in.bad || cause == 0 || r.count == 0 || r.count > RECORD_GONE_IDS)
        return ERR_CORRUPT;
    r.cause = (enum gone_cause)cause;
    for (uint32_t i = 0; i < r.count; i++)
        ids[i] = get64(&in);
    *ret = r;
    return done(&in, no_data);
}

size_t record_cleaned_put(uint8_t meta[static RECORD_META_MAX], uint64_t segment) {
    struct out o = {meta, 0};
    put64(&o, segment);
    return o.n;
}

enum err record_cleaned_get(struct span meta, uint64_t *ret_segment) {
    struct in in = {.left = meta};
    *ret_segment = get64(&in);
    return done(&in, no_data);
}

/* -- trails ---------------------------------------------------------------------------------- */

bool trail_add(struct span trail, uint64_t queue, enum reason reason,
               uint8_t ret[static TRAIL_MAX * TRAIL_ENTRY_BYTES], size_t *ret_bytes) {
    if (trail.n >= TRAIL_MAX * TRAIL_ENTRY_BYTES)
        return false;
    if (trail.n)
        memcpy(ret, trail.p, trail.n);
    le_put64(ret + trail.n, queue);
    ret[trail.n + 8] = (uint8_t)reason;
    *ret_bytes = trail.n + TRAIL_ENTRY_BYTES;
    return true;
}

bool trail_has(struct span trail, uint64_t queue, enum reason reason) {
    for (size_t at = trail.n; at >= TRAIL_ENTRY_BYTES; at -= TRAIL_ENTRY_BYTES) {
        const uint8_t *p = trail.p + at - TRAIL_ENTRY_BYTES;
        if (p[8] == REASON_PERMANENT || p[8] == REASON_REJECTED)
            return false;
        if (le_get64(p) == queue && p[8] == (uint8_t)reason)
            return true;
    }
    return false;
}
