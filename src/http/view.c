#include "http/view.h"

#include "http/bodies.h"

#include "base/clock.h"

static void put_time(struct json_writer *w, const char *name, int64_t ms) {
    char text[TIME_TEXT_SIZE];
    time_format(ms, text);
    json_name(w, name);
    json_put_string(w, span_of(text, TIME_TEXT_SIZE - 1));
}

static void put_time_or_null(struct json_writer *w, const char *name, int64_t ms) {
    if (ms != 0) {
        put_time(w, name, ms);
        return;
    }
    json_name(w, name);
    json_put_null(w);
}

static void put_text(struct json_writer *w, const char *name, struct span text) {
    json_name(w, name);
    json_put_string(w, text);
}

static void put_text_if_any(struct json_writer *w, const char *name, struct span text) {
    if (text.n > 0)
        put_text(w, name, text);
}

static void put_u64(struct json_writer *w, const char *name, uint64_t value) {
    json_name(w, name);
    json_put_u64(w, value);
}

static void put_payload(struct json_writer *w, struct span payload) {
    json_name(w, "payload");
    if (span_is_utf8(payload)) {
        json_put_string(w, payload);
        return;
    }
    json_put_null(w);
    json_name(w, "payload_base64");
    json_put_base64(w, payload);
}

static void put_lease(struct json_writer *w, const struct message_view *m) {
    char text[48];
    struct buf token = {.p = (uint8_t *)text, .cap = sizeof text, .max = sizeof text};
    lease_write(m->id, m->deliveries, &token);
    put_text(w, "lease", buf_span(&token));
    put_time(w, "lease_expires_at", m->lease_expires_at);
    put_u64(w, "attempt", m->deliveries);
}

/* What is only there when it says something. */
static void put_rare(struct json_writer *w, const struct message_view *m, unsigned flags,
                     int64_t now) {
    if (m->headers.n > 0) {
        json_name(w, "headers");
        json_put_raw(w, m->headers);
    }
    put_text_if_any(w, "key", m->key);
    if (m->priority != 0)
        put_u64(w, "priority", m->priority);
    if (m->state == STATE_PENDING && m->available_at > now)
        put_time(w, "available_at", m->available_at);
    if (m->expires_at != 0)
        put_time(w, "expires_at", m->expires_at);
    if (m->deliveries != 0)
        put_u64(w, "deliveries", m->deliveries);
    if ((flags & VIEW_CLAIM) != 0)
        put_lease(w, m);
    if (m->has_error) {
        put_text_if_any(w, "error_class", m->error_class);
        if ((flags & VIEW_DETAIL) != 0)
            put_text_if_any(w, "detail", m->detail);
    }
    if (m->state == STATE_DEAD) {
        json_name(w, "reason");
        json_put_str(w, reason_name(m->reason));
        put_time(w, "died_at", m->died_at);
    }
}

void view_message(const struct message_view *m, unsigned flags, int64_t now,
                  struct json_writer *w) {
    json_begin(w, '{');
    put_u64(w, "id", m->id);
    put_text(w, "queue", m->queue);
    put_payload(w, m->payload);
    json_name(w, "status");
    json_put_str(w, state_name(m->state));
    put_u64(w, "retry_count", m->retry_count);
    put_u64(w, "max_retries", m->max_retries);
    put_time_or_null(w, "retry_after", m->retry_after);
    json_name(w, "last_error");
    if (m->has_error)
        json_put_string(w, m->error);
    else
        json_put_null(w);
    put_time(w, "created_at", m->created_at);
    put_time(w, "updated_at", m->updated_at);
    put_rare(w, m, flags, now);
    json_end(w, '}');
}

void view_history(const struct history_entry *entry, struct json_writer *w) {
    json_begin(w, '{');
    put_u64(w, "attempt", entry->attempt);
    json_name(w, "event");
    json_put_str(w, event_name(entry->event));
    put_time(w, "at", entry->at);
    put_text_if_any(w, "worker", entry->worker);
    put_text_if_any(w, "worker_version", entry->worker_version);
    put_text_if_any(w, "error_class", entry->error_class);
    put_text_if_any(w, "error", entry->error);
    put_text_if_any(w, "detail", entry->detail);
    json_end(w, '}');
}

void view_queue(const struct queue_view *q, struct json_writer *w) {
    json_begin(w, '{');
    put_text(w, "queue", q->name);
    put_time(w, "created_at", q->created_at);
    json_name(w, "policy");
    policy_to_json(q->policy, w);

    json_name(w, "counts");
    json_begin(w, '{');
    put_u64(w, "pending", q->count[STATE_PENDING]);
    put_u64(w, "ready", q->ready);
    put_u64(w, "processing", q->count[STATE_PROCESSING]);
    put_u64(w, "parked", q->count[STATE_PARKED]);
    put_u64(w, "dead", q->count[STATE_DEAD]);
    put_u64(w, "succeeded", q->count[STATE_SUCCEEDED]);
    json_end(w, '}');
    put_u64(w, "bytes", q->bytes);

    json_name(w, "conservation");
    json_begin(w, '{');
    put_u64(w, "accepted", q->ledger.accepted);
    put_u64(w, "moved_in", q->ledger.moved_in);
    put_u64(w, "pending", q->count[STATE_PENDING]);
    put_u64(w, "processing", q->count[STATE_PROCESSING]);
    put_u64(w, "parked", q->count[STATE_PARKED]);
    put_u64(w, "dead", q->count[STATE_DEAD]);
    put_u64(w, "succeeded_total", q->ledger.succeeded);
    put_u64(w, "discarded_total", q->ledger.discarded);
    put_u64(w, "moved_out", q->ledger.moved_out);
    json_name(w, "holds");
    json_put_bool(w, queue_view_holds(q));
    json_end(w, '}');
    json_end(w, '}');
}
