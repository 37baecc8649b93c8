/* What AMQP has to say of messages and queues, as the API shows it. */
#include "http/view.h"

#include "model/envelope.h"
#include "model/properties.h"

/* -- messages -------------------------------------------------------------------------------- */

/* A text of a client, which may be any bytes. */
static void put_text(struct json_writer *w, const char *name, struct span text) {
    if (span_is_utf8(text)) {
        view_text(w, name, text);
        return;
    }
    json_name(w, name);
    json_begin(w, '{');
    json_name(w, "base64");
    json_put_base64(w, text);
    json_end(w, '}');
}

static void put_texts(struct json_writer *w, const char *name, const struct span *texts,
                      unsigned n) {
    json_name(w, name);
    json_begin(w, '[');
    for (unsigned i = 0; i < n; i++) {
        if (span_is_utf8(texts[i]))
            json_put_string(w, texts[i]);
        else
            json_put_base64(w, texts[i]);
    }
    json_end(w, ']');
}

static void put_properties(struct json_writer *w, struct span list) {
    struct properties p;
    if (!properties_read(list, &p))
        return; /* the message is shown all the same */
    const struct {
        enum property which;
        const char *name;
        struct span text;
    } texts[] = {
        {PROPERTY_CONTENT_TYPE, "content_type", p.content_type},
        {PROPERTY_CONTENT_ENCODING, "content_encoding", p.content_encoding},
        {PROPERTY_CORRELATION_ID, "correlation_id", p.correlation_id},
        {PROPERTY_REPLY_TO, "reply_to", p.reply_to},
        {PROPERTY_MESSAGE_ID, "message_id", p.message_id},
        {PROPERTY_TYPE, "type", p.type},
        {PROPERTY_USER_ID, "user_id", p.user_id},
        {PROPERTY_APP_ID, "app_id", p.app_id},
        {PROPERTY_CLUSTER_ID, "cluster_id", p.cluster_id},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (p.has & texts[i].which)
            put_text(w, texts[i].name, texts[i].text);
    }
    if (p.has & PROPERTY_DELIVERY_MODE)
        view_number(w, "delivery_mode", p.delivery_mode);
    if (p.has & PROPERTY_PRIORITY)
        view_number(w, "priority", p.priority);
    if (p.has & PROPERTY_TIMESTAMP)
        view_number(w, "timestamp", p.timestamp);
}

static void put_death(struct json_writer *w, const struct death *d) {
    json_begin(w, '{');
    put_text(w, "queue", d->queue);
    view_str(w, "reason", reason_name(d->reason));
    view_number(w, "count", d->count);
    view_time(w, "first_at", d->at);
    put_text(w, "exchange", d->exchange);
    put_texts(w, "routing_keys", d->keys, d->key_count);
    if (d->expiration.n > 0)
        put_text(w, "original_expiration", d->expiration);
    json_end(w, '}');
}

void view_envelope(struct span packed, struct json_writer *w) {
    if (packed.n == 0) {
        json_put_null(w);
        return;
    }
    struct envelope v;
    json_begin(w, '{');
    if (envelope_unpack(packed, &v) == OK) {
        unsigned shown = v.key_count - v.bcc_count; /* those of BCC are nobody's business */
        put_text(w, "exchange", v.exchange);
        put_text(w, "routing_key", shown > 0 ? v.keys[0] : span_of(NULL, 0));
        if (shown > 1)
            put_texts(w, "cc", v.keys + 1, shown - 1);
        put_properties(w, v.properties);
        if (v.expiration.n > 0)
            put_text(w, "expiration", v.expiration);
        json_name(w, "deaths");
        json_begin(w, '[');
        for (unsigned i = 0; i < v.death_count; i++)
            put_death(w, v.deaths + i);
        json_end(w, ']');
    }
    json_end(w, '}');
}

/* -- queues ---------------------------------------------------------------------------------- */

static void put_number_if_given(struct json_writer *w, const char *name, int64_t v,
                                int64_t not_given) {
    if (v == not_given)
        return;
    json_name(w, name);
    json_put_i64(w, v);
}

/* By the names that a policy's definition has. */
static void put_effective(struct json_writer *w, const struct queue_settings *s) {
    json_begin(w, '{');
    if (s->has_dlx)
        put_text(w, "dead-letter-exchange", s->dlx);
    if (s->has_dlrk)
        put_text(w, "dead-letter-routing-key", s->dlrk);
    put_number_if_given(w, "message-ttl", s->message_ttl_ms, -1);
    put_number_if_given(w, "expires", s->expires_ms, -1);
    put_number_if_given(w, "max-length", s->max_length, -1);
    put_number_if_given(w, "max-length-bytes", s->max_length_bytes, -1);
    if (s->overflow >= 0)
        view_str(w, "overflow", length_overflow_name((enum length_overflow)s->overflow));
    put_number_if_given(w, "delivery-limit", s->delivery_limit, NO_LIMIT_GIVEN);
    put_number_if_given(w, "max-priority", s->max_priority, -1);
    json_end(w, '}');
}

void view_queue_amqp(const struct queue_amqp_view *q, struct json_writer *w) {
    if (q == NULL || (!q->is_declared && q->policy.n == 0)) {
        json_put_null(w);
        return;
    }
    json_begin(w, '{');
    view_flag(w, "durable", q->durable);
    view_flag(w, "exclusive", q->exclusive);
    view_flag(w, "auto_delete", q->auto_delete);
    view_str(w, "type", queue_type_name(q->type));
    json_name(w, "arguments");
    json_put_raw(w, q->arguments.n > 0 ? q->arguments : span_str("{}"));
    view_text_or_null(w, "policy", q->policy);
    json_name(w, "effective");
    put_effective(w, &q->effective);
    json_name(w, "discarded");
    json_begin(w, '{');
    view_number(w, "expired", q->expired);
    view_number(w, "max_length", q->max_length);
    json_end(w, '}');
    json_end(w, '}');
}

/* -- vhosts ---------------------------------------------------------------------------------- */

const char *const view_client_x_death[] = {"opaque", "read", NULL};

void view_vhost(struct span name, const struct vhost_settings *s, struct json_writer *w) {
    json_begin(w, '{');
    view_text(w, "name", name);
    view_str(w, "client_x_death", view_client_x_death[s->reads_deaths]);
    json_end(w, '}');
}

/* -- policies by pattern --------------------------------------------------------------------- */

void view_pattern_policy(const struct pattern_policy *p, struct json_writer *w) {
    json_begin(w, '{');
    view_text(w, "vhost", p->vhost);
    view_text(w, "name", p->name);
    view_text(w, "pattern", p->pattern);
    view_str(w, "apply-to", policy_applies_name(p->applies));
    json_name(w, "priority");
    json_put_i64(w, p->priority);
    json_name(w, "definition");
    json_put_raw(w, p->definition);
    json_end(w, '}');
}
