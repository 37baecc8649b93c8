/* Messages and queues as the API shows them. Loop thread. */
#pragma once

#include "base/json.h"
#include "engine/engine.h"
#include "engine/topology.h"

enum {
    VIEW_CLAIM = 1,      /* with the lease: for the one who claimed it */
    VIEW_DETAIL = 2,     /* with the detail of the newest failure */
    VIEW_EXACT = 4,      /* with times in milliseconds beside the texts */
    VIEW_NO_PAYLOAD = 8, /* neither payload nor payload_base64 */
};

void view_message(const struct message_view *m, unsigned flags, int64_t now, struct json_writer *w);
/* Its members alone: the caller begins and ends the object, and may add some. */
void view_message_members(const struct message_view *m, unsigned flags, int64_t now,
                          struct json_writer *w);

/* `snoozed_until`: its alerts; 0 when they are not. Their secrets are masked. `amqp` is NULL when it is
 * not asked for. */
void view_queue(const struct queue_view *q, int64_t snoozed_until,
                const struct queue_amqp_view *amqp, struct json_writer *w);
/* What AMQP has to say of a queue; null when that is nothing. (view_amqp.c, as the next) */
void view_queue_amqp(const struct queue_amqp_view *q, struct json_writer *w);
/* What AMQP knows of a message, as packed (model/envelope.h); null when it came another way. */
void view_envelope(struct span packed, struct json_writer *w);
/* A vhost and its settings; the words of client_x_death, by reads_deaths (NULL-terminated). */
extern const char *const view_client_x_death[];
void view_vhost(struct span name, const struct vhost_settings *s, struct json_writer *w);
/* A policy by pattern, in RabbitMQ's words. */
void view_pattern_policy(const struct pattern_policy *p, struct json_writer *w);
/* The breaker; null when the queue has none and it never opened. */
void view_breaker(const struct queue_view *q, struct json_writer *w);
/* {"since", "by", "reason"} of a paused queue; null when it is not. */
void view_paused(const struct queue_view *q, struct json_writer *w);

/* -- members of any object ------------------------------------------------------------------- */

void view_time(struct json_writer *w, const char *name, int64_t ms);
void view_time_or_null(struct json_writer *w, const char *name, int64_t ms); /* 0 is null */
/* The time, and with VIEW_EXACT another member NAME_ms. */
void view_time_as(struct json_writer *w, const char *name, int64_t ms, unsigned flags);
void view_text(struct json_writer *w, const char *name, struct span text);
void view_text_or_null(struct json_writer *w, const char *name,
                       struct span text); /* empty is null */
void view_text_if_any(struct json_writer *w, const char *name, struct span text);
void view_number(struct json_writer *w, const char *name, uint64_t value);
void view_number_or_null(struct json_writer *w, const char *name, uint64_t value); /* 0 is null */
void view_str(struct json_writer *w, const char *name, const char *value);
void view_flag(struct json_writer *w, const char *name, bool value);
/* A payload as `payload`; one that is no UTF-8 as `payload_base64`, beside a null. */
void view_payload(struct json_writer *w, struct span payload);
