#include "http/view.h"

#include "http/bodies.h"

#include "base/clock.h"
#include "model/alert.h"
#include "model/fingerprint.h"
#include "model/trace.h"

#include <assert.h>
#include <stdio.h>

/* -- members of any object ------------------------------------------------------------------- */

void view_time(struct json_writer *w, const char *name, int64_t ms) {
    char text[TIME_TEXT_SIZE];
    time_format(ms, text);
    json_name(w, name);
    json_put_string(w, span_of(text, TIME_TEXT_SIZE - 1));
}

void view_time_or_null(struct json_writer *w, const char *name, int64_t ms) {
    if (ms != 0) {
        view_time(w, name, ms);
        return;
    }
    json_name(w, name);
    json_put_null(w);
}

/* NAME_ms */
static void put_exact(struct json_writer *w, const char *name, int64_t ms) {
    char exact[32];
    int n = snprintf(exact, sizeof exact, "%s_ms", name);
    assert(n > 0 && (size_t)n < sizeof exact);
    json_name(w, exact);
    json_put_i64(w, ms);
}

void view_time_as(struct json_writer *w, const char *name, int64_t ms, unsigned flags) {
    view_time(w, name, ms);
    if ((flags & VIEW_EXACT) != 0)
        put_exact(w, name, ms);
}

static void put_time_or_null_as(struct json_writer *w, const char *name, int64_t ms,
                                unsigned flags) {
    if (ms != 0)
        view_time_as(w, name, ms, flags);
    else
        view_time_or_null(w, name, 0);
}

void view_text(struct json_writer *w, const char *name, struct span text) {
    json_name(w, name);
    json_put_string(w, text);
}

void view_text_or_null(struct json_writer *w, const char *name, struct span text) {
    json_name(w, name);
    if (text.n > 0)
        json_put_string(w, text);
    else
        json_put_null(w);
}

void view_text_if_any(struct json_writer *w, const char *name, struct span text) {
    if (text.n > 0)
        view_text(w, name, text);
}

void view_number(struct json_writer *w, const char *name, uint64_t value) {
    json_name(w, name);
    json_put_u64(w, value);
}

void view_number_or_null(struct json_writer *w, const char *name, uint64_t value) {
    json_name(w, name);
    if (value != 0)
        json_put_u64(w, value);
    else
        json_put_null(w);
}

void view_str(struct json_writer *w, const char *name, const char *value) {
    json_name(w, name);
    json_put_str(w, value);
}

void view_flag(struct json_writer *w, const char *name, bool value) {
    json_name(w, name);
    json_put_bool(w, value);
}

void view_payload(struct json_writer *w, struct span payload) {
    json_name(w, "payload");
    if (span_is_utf8(payload)) {
        json_put_string(w, payload);
        return;
    }
    json_put_null(w);
    json_name(w, "payload_base64");
    json_put_base64(w, payload);
}

/* -- messages -------------------------------------------------------------------------------- */

static void put_lease(struct json_writer *w, const struct message_view *m) {
    char text[48];
    struct buf token = {.p = (uint8_t *)text, .cap = sizeof text, .max = sizeof text};
    lease_write(m->id, m->deliveries, &token);
    view_text(w, "lease", buf_span(&token));
    view_time(w, "lease_expires_at", m->lease_expires_at);
    view_number(w, "attempt", m->deliveries);
}

static void put_error(struct json_writer *w, const struct message_view *m, unsigned flags) {
    if (!m->has_error)
        return;
    view_text_if_any(w, "error_class", m->error_class);
    if ((flags & VIEW_DETAIL) != 0)
        view_text_if_any(w, "detail", m->detail);
}

/* The death record. */
static void put_death(struct json_writer *w, const struct message_view *m, unsigned flags) {
    bool is_dead = m->state == STATE_DEAD;
    json_name(w, "death");
    json_begin(w, '{');
    view_number(w, "dead_seq", m->dead_seq);
    view_str(w, "by", decider_name(reason_decider(m->reason)));
    view_time_as(w, "died_at", m->died_at, flags);
    put_time_or_null_as(w, "first_failed_at", m->first_failed_at, flags);
    put_time_or_null_as(w, "last_failed_at", m->has_error ? m->failed_at : 0, flags);
    view_time_as(w, "first_enqueued_at", m->created_at, flags);
    put_time_or_null_as(w, "expires_at", is_dead ? m->dead_expires_at : 0, flags);
    json_name(w, "origin");
    json_begin(w, '{');
    view_text(w, "queue", m->origin.n > 0 ? m->origin : m->queue);
    view_number(w, "id", m->id);
    json_end(w, '}');
    view_number(w, "redrive_count", m->redrive_count);
    if (m->group_key != 0) {
        char key[GROUP_KEY_SIZE];
        group_key_write(m->group_key, key);
        view_str(w, "group", key);
    }
    view_text_if_any(w, "worker", m->worker);
    view_text_if_any(w, "worker_version", m->worker_version);
    if (m->is_unroutable)
        view_flag(w, "unroutable", true);
    char trace[TRACE_ID_SIZE];
    if (trace_id_of(m->headers, trace))
        view_str(w, "trace_id", trace);
    json_end(w, '}');
}

static void put_dead(struct json_writer *w, const struct message_view *m, unsigned flags) {
    view_str(w, "reason", reason_name(m->reason));
    view_time_as(w, "died_at", m->died_at, flags);
    put_death(w, m, flags);
    if (m->state != STATE_DISCARDED)
        return;
    json_name(w, "discarded");
    json_begin(w, '{');
    view_str(w, "reason", discard_reason_name(m->discard_reason));
    view_time_as(w, "gone_at", m->dead_expires_at, flags);
    json_end(w, '}');
}

/* Where it came from, and what was done with it since. */
static void put_lineage(struct json_writer *w, const struct message_view *m) {
    if (m->redrive_count != 0) {
        view_number(w, "redrive_count", m->redrive_count);
        view_number(w, "generation", (uint64_t)m->redrive_count + 1);
    }
    if (m->parent_id != 0)
        view_number(w, "parent_id", m->parent_id);
    if (m->edited_to != 0)
        view_number(w, "edited_to", m->edited_to);
    view_text_if_any(w, "origin_queue", m->origin);
    if (m->job != 0)
        view_number(w, "job", m->job);
}

/* What is only there when it says something. */
static void put_rare(struct json_writer *w, const struct message_view *m, unsigned flags,
                     int64_t now) {
    if (m->headers.n > 0) {
        json_name(w, "headers");
        json_put_raw(w, m->headers);
    }
    view_text_if_any(w, "key", m->key);
    if (m->priority != 0)
        view_number(w, "priority", m->priority);
    if (m->state == STATE_PENDING && m->available_at > now)
        view_time_as(w, "available_at", m->available_at, flags);
    if (m->expires_at != 0)
        view_time_as(w, "expires_at", m->expires_at, flags);
    if ((flags & VIEW_EXACT) != 0 && m->ttl_ms != 0)
        put_exact(w, "ttl", m->ttl_ms);
    if ((flags & VIEW_EXACT) != 0 && m->envelope.n > 0) {
        json_name(w, "envelope_base64");
        json_put_base64(w, m->envelope);
    }
    if (m->deliveries != 0)
        view_number(w, "deliveries", m->deliveries);
    if ((flags & VIEW_CLAIM) != 0)
        put_lease(w, m);
    put_error(w, m, flags);
    put_lineage(w, m);
    if (m->state == STATE_DEAD || m->state == STATE_DISCARDED)
        put_dead(w, m, flags);
}

void view_message_members(const struct message_view *m, unsigned flags, int64_t now,
                          struct json_writer *w) {
    view_number(w, "id", m->id);
    view_text(w, "queue", m->queue);
    if ((flags & VIEW_NO_PAYLOAD) == 0)
        view_payload(w, m->payload);
    view_str(w, "status", state_name(m->state));
    view_number(w, "retry_count", m->retry_count);
    view_number(w, "max_retries", m->max_retries);
    put_time_or_null_as(w, "retry_after", m->retry_after, flags);
    json_name(w, "last_error");
    if (m->has_error)
        json_put_string(w, m->error);
    else
        json_put_null(w);
    view_time_as(w, "created_at", m->created_at, flags);
    view_time_as(w, "updated_at", m->updated_at, flags);
    json_name(w, "properties");
    view_envelope(m->envelope, w);
    put_rare(w, m, flags, now);
}

void view_message(const struct message_view *m, unsigned flags, int64_t now,
                  struct json_writer *w) {
    json_begin(w, '{');
    view_message_members(m, flags, now, w);
    json_end(w, '}');
}

/* -- queues ---------------------------------------------------------------------------------- */

void view_paused(const struct queue_view *q, struct json_writer *w) {
    if (q->paused_at == 0) {
        json_put_null(w);
        return;
    }
    json_begin(w, '{');
    view_time(w, "since", q->paused_at);
    view_text(w, "by", q->paused_by);
    view_text_or_null(w, "reason", q->pause_reason);
    json_end(w, '}');
}

void view_breaker(const struct queue_view *q, struct json_writer *w) {
    if (q->breaker_opened == 0) {
        json_put_null(w);
        return;
    }
    json_begin(w, '{');
    view_str(w, "state", breaker_state_name(q->breaker));
    view_time(w, "since", q->breaker_at);
    view_time_or_null(w, "until", q->breaker_until);
    view_text_or_null(w, "cause", q->breaker_cause);
    view_number(w, "opened_total", q->breaker_opened);
    json_end(w, '}');
}

static void put_counts(struct json_writer *w, const struct queue_view *q) {
    json_name(w, "counts");
    json_begin(w, '{');
    view_number(w, "pending", q->count[STATE_PENDING]);
    view_number(w, "ready", q->ready);
    view_number(w, "held", q->held);
    view_number(w, "processing", q->count[STATE_PROCESSING]);
    view_number(w, "parked", q->count[STATE_PARKED]);
    view_number(w, "dead", q->count[STATE_DEAD]);
    view_number(w, "succeeded", q->count[STATE_SUCCEEDED]);
    view_number(w, "discarded", q->count[STATE_DISCARDED]);
    json_end(w, '}');
}

static void put_letters(struct json_writer *w, const struct queue_view *q) {
    json_name(w, "dead_by_reason");
    json_begin(w, '{');
    for (int r = 0; r < REASON_COUNT; r++) {
        if (q->dead_by[r] != 0)
            view_number(w, reason_name((enum reason)r), q->dead_by[r]);
    }
    json_end(w, '}');
    view_number(w, "groups", q->groups);
    view_time_or_null(w, "oldest_death", q->oldest_death_at);
    view_time_or_null(w, "soonest_expiry", q->soonest_expiry);
    view_number(w, "expired_total", q->ledger.expired);
    view_number(w, "deaths_total", q->deaths);
}

static void put_conservation(struct json_writer *w, const struct queue_view *q) {
    json_name(w, "conservation");
    json_begin(w, '{');
    view_number(w, "accepted", q->ledger.accepted);
    view_number(w, "moved_in", q->ledger.moved_in);
    view_number(w, "pending", q->count[STATE_PENDING]);
    view_number(w, "processing", q->count[STATE_PROCESSING]);
    view_number(w, "parked", q->count[STATE_PARKED]);
    view_number(w, "dead", q->count[STATE_DEAD]);
    view_number(w, "succeeded_total", q->ledger.succeeded);
    view_number(w, "discarded_total", q->ledger.discarded);
    view_number(w, "moved_out", q->ledger.moved_out);
    view_flag(w, "holds", queue_view_holds(q));
    json_end(w, '}');
}

/* Secrets of alerts are for those who set them. */
static void put_policy(struct json_writer *w, const struct queue_view *q) {
    struct policy_texts texts = *q->texts;
    struct buf alerts;
    buf_init(&alerts, 2 * LIMIT_POLICY_TEXT);
    alerts_mask(texts.alerts, &alerts);
    texts.alerts = buf_span(&alerts);
    json_name(w, "policy");
    policy_to_json(q->policy, &texts, w);
    buf_release(&alerts);
}

void view_queue(const struct queue_view *q, int64_t snoozed_until,
                const struct queue_amqp_view *amqp, struct json_writer *w) {
    json_begin(w, '{');
    view_text(w, "queue", q->name);
    view_time(w, "created_at", q->created_at);
    put_policy(w, q);
    put_counts(w, q);
    put_letters(w, q);
    json_name(w, "breaker");
    view_breaker(q, w);
    view_number(w, "parked_keys", q->parked_keys);
    view_number(w, "alone_claims", q->alone_claims);
    json_name(w, "paused");
    view_paused(q, w);
    view_time_or_null(w, "alerts_snoozed_until", snoozed_until);
    view_number(w, "consumers", q->waiting);
    view_number(w, "bytes", q->bytes);
    json_name(w, "amqp");
    view_queue_amqp(amqp, w);
    put_conservation(w, q);
    json_end(w, '}');
}
