#include "log/record.h"

#include "base/le.h"

#include <assert.h>

/* -- a cursor over meta ---------------------------------------------------------------------- */

struct out {
    uint8_t *p;
    size_t n;
};

static void put8(struct out *o, unsigned v) {
    o->p[o->n++] = (uint8_t)v;
}

static void put16(struct out *o, size_t v) {
    le_put16(o->p + o->n, (uint16_t)v);
    o->n += 2;
}

static void put32(struct out *o, uint64_t v) {
    le_put32(o->p + o->n, (uint32_t)v);
    o->n += 4;
}

static void put64(struct out *o, uint64_t v) {
    le_put64(o->p + o->n, v);
    o->n += 8;
}

static void put_time(struct out *o, int64_t v) {
    put64(o, (uint64_t)v);
}

struct in {
    struct span left;
    bool bad; /* something was missing: all later numbers read as 0 */
};

static const uint8_t *take(struct in *in, size_t n) {
    static const uint8_t zeros[8];
    if (in->left.n < n) {
        in->bad = true;
        in->left.n = 0;
        return n <= sizeof zeros ? zeros : NULL;
    }
    const uint8_t *p = in->left.p;
    in->left = span_of(p + n, in->left.n - n);
    return p;
}

static uint8_t get8(struct in *in) {
    return *take(in, 1);
}

static uint16_t get16(struct in *in) {
    return le_get16(take(in, 2));
}

static uint32_t get32(struct in *in) {
    return le_get32(take(in, 4));
}

static uint64_t get64(struct in *in) {
    return le_get64(take(in, 8));
}

static int64_t get_time(struct in *in) {
    return (int64_t)get64(in);
}

/* A number that must be one of an enum's. */
static uint8_t get_up_to(struct in *in, uint8_t most) {
    uint8_t v = get8(in);
    if (v > most)
        in->bad = true;
    return in->bad ? 0 : v;
}

/* The next n bytes of data; without bytes when data was not read. */
static struct span get_data(struct in *in, struct span *data, size_t n) {
    if (data->n < n) {
        in->bad = true;
        return (struct span){0};
    }
    struct span s = {data->p, n};
    data->p = data->p ? data->p + n : NULL;
    data->n -= n;
    return s;
}

static enum err done(const struct in *in, struct span data_left) {
    return in->bad || in->left.n != 0 || data_left.n != 0 ? ERR_CORRUPT : OK;
}

static const struct span no_data = {0};

/* -- parts ----------------------------------------------------------------------------------- */

static void ledger_put(struct out *o, const struct ledger *l) {
    put64(o, l->accepted);
    put64(o, l->moved_in);
    put64(o, l->succeeded);
    put64(o, l->discarded);
    put64(o, l->moved_out);
    put64(o, l->expired);
}

static struct ledger ledger_get(struct in *in) {
    struct ledger l;
    l.accepted = get64(in);
    l.moved_in = get64(in);
    l.succeeded = get64(in);
    l.discarded = get64(in);
    l.moved_out = get64(in);
    l.expired = get64(in);
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
    return p;
}

static void image_put(struct out *o, const struct message_image *m) {
    put8(o, m->state);
    put8(o, m->reason);
    put8(o, m->retry_count);
    put8(o, m->max_retries);
    put8(o, m->priority);
    put8(o, m->is_retry);
    put32(o, m->deliveries);
    put_time(o, m->updated_at);
    put_time(o, m->next_at);
    put_time(o, m->expires_at);
    if (m->state == STATE_DEAD) {
        put_time(o, m->died_at);
        put64(o, m->dead_seq);
    }
}

static struct message_image image_get(struct in *in) {
    struct message_image m = {0};
    m.state = get_up_to(in, STATE_DISCARDED);
    m.reason = get_up_to(in, REASON_MANUAL);
    m.retry_count = get8(in);
    m.max_retries = get8(in);
    m.priority = get_up_to(in, PRIORITY_MAX);
    m.is_retry = get_up_to(in, 1);
    m.deliveries = get32(in);
    m.updated_at = get_time(in);
    m.next_at = get_time(in);
    m.expires_at = get_time(in);
    if (m.state == STATE_DEAD) {
        m.died_at = get_time(in);
        m.dead_seq = get64(in);
    }
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
}

static struct record_event event_get(struct in *in, struct span *data) {
    struct record_event e = {0};
    e.event = get_up_to(in, EVENT_SUCCEEDED);
    e.attempt = get32(in);
    e.previous = get64(in);
    size_t worker = get8(in), version = get8(in), class = get8(in);
    size_t error = get16(in), detail = get16(in);
    e.worker = get_data(in, data, worker);
    e.worker_version = get_data(in, data, version);
    e.error_class = get_data(in, data, class);
    e.error = get_data(in, data, error);
    e.detail = get_data(in, data, detail);
    return e;
}

/* -- records --------------------------------------------------------------------------------- */

size_t record_engine_put(uint8_t meta[static RECORD_META_MAX], const struct record_engine *r) {
    struct out o = {meta, 0};
    put64(&o, r->next_id);
    put64(&o, r->next_queue);
    ledger_put(&o, &r->deleted);
    return o.n;
}

enum err record_engine_get(struct span meta, struct record_engine *ret) {
    struct in in = {.left = meta};
    struct record_engine r;
    r.next_id = get64(&in);
    r.next_queue = get64(&in);
    r.deleted = ledger_get(&in);
    *ret = r;
    return done(&in, no_data);
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
    put64(&o, r->deaths);
    put64(&o, r->next_dead_seq);
    put8(&o, (unsigned)r->name.n);
    memcpy(o.p + o.n, r->name.p, r->name.n);
    o.n += r->name.n;
    policy_put(&o, &r->policy);
    assert(o.n <= RECORD_META_MAX);
    return o.n;
}

enum err record_queue_get(struct span meta, struct record_queue *ret) {
    struct in in = {.left = meta};
    struct record_queue r = {0};
    r.queue = get64(&in);
    r.dropping = get_up_to(&in, 1);
    r.created_at = get_time(&in);
    r.ledger = ledger_get(&in);
    r.deliveries = get64(&in);
    r.failures = get64(&in);
    r.deaths = get64(&in);
    r.next_dead_seq = get64(&in);
    size_t n = get8(&in);
    r.name = span_of(take(&in, n), n);
    r.policy = policy_get(&in);
    *ret = r;
    return n == 0 ? ERR_CORRUPT : done(&in, no_data);
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
    put8(&o, r->carried);
    image_put(&o, &r->image);
    put_time(&o, r->created_at);
    put_time(&o, r->ttl_ms);
    put_time(&o, r->idempotency_until);
    if (r->idempotency_until) {
        put64(&o, r->idempotency_hash.lo);
        put64(&o, r->idempotency_hash.hi);
    }
    put32(&o, r->headers.n);
    put8(&o, (unsigned)r->key.n);
    put32(&o, r->payload.n);
    return o.n;
}

enum err record_message_get(struct span meta, struct span data, struct record_message *ret) {
    struct in in = {.left = meta};
    struct record_message r = {0};
    r.id = get64(&in);
    r.queue = get64(&in);
    r.carried = get_up_to(&in, 1);
    r.image = image_get(&in);
    r.created_at = get_time(&in);
    r.ttl_ms = get_time(&in);
    r.idempotency_until = get_time(&in);
    if (r.idempotency_until) {
        r.idempotency_hash.lo = get64(&in);
        r.idempotency_hash.hi = get64(&in);
    }
    size_t headers = get32(&in), key = get8(&in);
    size_t payload = get32(&in);
    r.headers = get_data(&in, &data, headers);
    r.key = get_data(&in, &data, key);
    r.payload = get_data(&in, &data, payload);
    *ret = r;
    return r.id == 0 || r.id > LIMIT_ID ? ERR_CORRUPT : done(&in, data);
}

size_t record_state_put(uint8_t meta[static RECORD_META_MAX], const struct record_state *r) {
    struct out o = {meta, 0};
    put64(&o, r->id);
    put64(&o, r->queue);
    image_put(&o, &r->image);
    event_put(&o, &r->event);
    return o.n;
}

enum err record_state_get(struct span meta, struct span data, struct record_state *ret) {
    struct in in = {.left = meta};
    struct record_state r = {0};
    r.id = get64(&in);
    r.queue = get64(&in);
    r.image = image_get(&in);
    r.event = event_get(&in, &data);
    r.event.at = r.image.updated_at;
    r.event.next_at = r.image.state == STATE_DEAD ? 0 : r.image.next_at;
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
    uint8_t cause = get_up_to(&in, GONE_QUEUE_DELETED);
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
