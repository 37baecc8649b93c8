/* The broker's model and the engine, side by side. */
#include "sim/broker.h"

#include "sim/content.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- the first difference, in text --------------------------------------------------------------------- */

struct sight {
    char *text;
    size_t bytes;
    char what[160]; /* whose values are compared */
    bool differs;
};

__attribute__((format(printf, 2, 3))) static void see(struct sight *s, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(s->what, sizeof s->what, format, args);
    va_end(args);
}

static void number(struct sight *s, const char *name, int64_t is, int64_t wanted) {
    if (s->differs || is == wanted)
        return;
    s->differs = true;
    snprintf(s->text, s->bytes, "%s: %s is %" PRId64 ", should be %" PRId64, s->what, name, is,
             wanted);
}

static void same_text(struct sight *s, const char *name, struct span is, struct span wanted) {
    if (s->differs || span_equal(is, wanted))
        return;
    s->differs = true;
    snprintf(s->text, s->bytes, "%s: %s is \"%.*s\", should be \"%.*s\"", s->what, name,
             is.n > 60 ? 60 : (int)is.n, (const char *)is.p, wanted.n > 60 ? 60 : (int)wanted.n,
             (const char *)wanted.p);
}

static void missing(struct sight *s) {
    if (!s->differs)
        snprintf(s->text, s->bytes, "%s is missing", s->what);
    s->differs = true;
}

/* -- topology -------------------------------------------------------------------------------------------- */

struct compared {
    struct sight s;
    struct broker *b;
    size_t n; /* so many were seen */
};

static bool see_exchange(void *ctx, const struct exchange_view *v) {
    struct compared *c = ctx;
    struct broker *b = c->b;
    see(&c->s, "exchange number %zu", c->n);
    if (c->n >= b->exchange_count) {
        number(&c->s, "the count", (int64_t)c->n + 1, (int64_t)b->exchange_count);
        return false;
    }
    const struct broker_exchange *x = &b->exchanges[c->n++];
    int alternate = broker_alternate(b, x);
    int64_t from = 0, to = 0;
    for (size_t i = 0; i < b->binding_count; i++) {
        from += b->bindings[i].from == x->number;
        to += b->bindings[i].to_exchange && b->bindings[i].to == x->number;
    }
    same_text(&c->s, "name", v->name, place_name(x->name));
    see(&c->s, "exchange %s", place_words(x->name));
    number(&c->s, "type", v->type, x->type);
    number(&c->s, "durable", v->durable, x->durable);
    number(&c->s, "auto_delete", v->auto_delete, x->auto_delete);
    number(&c->s, "internal", v->internal, x->internal);
    number(&c->s, "has_alternate", v->has_alternate, alternate >= 0);
    if (alternate >= 0)
        same_text(&c->s, "alternate", v->alternate, text_or_none(alternate));
    number(&c->s, "bindings", (int64_t)v->bindings, from);
    number(&c->s, "is_bound", v->is_bound, from + to > 0);
    return !c->s.differs;
}

static bool see_binding(void *ctx, const struct binding_new *v) {
    struct compared *c = ctx;
    struct broker *b = c->b;
    see(&c->s, "binding number %zu", c->n);
    if (c->n >= b->binding_count) {
        number(&c->s, "the count", (int64_t)c->n + 1, (int64_t)b->binding_count);
        return false;
    }
    const struct broker_binding *l = &b->bindings[c->n++];
    const struct broker_exchange *from = broker_exchange_of(b, l->from);
    struct place to =
        l->to_exchange ? broker_exchange_of(b, l->to)->name : broker_queue_of(b, l->to)->name;
    same_text(&c->s, "source", v->source, place_name(from->name));
    same_text(&c->s, "destination", v->destination, place_name(to));
    number(&c->s, "to_exchange", v->to_exchange, l->to_exchange);
    same_text(&c->s, "key", v->key, text_of(l->key));
    same_text(&c->s, "arguments", v->arguments, table_text(l->arguments));
    return !c->s.differs;
}

static bool see_policy(void *ctx, const struct pattern_policy *v) {
    struct compared *c = ctx;
    see(&c->s, "policy number %zu", c->n);
    if (c->n >= c->b->policy_count) {
        number(&c->s, "the count", (int64_t)c->n + 1, (int64_t)c->b->policy_count);
        return false;
    }
    const struct broker_policy *p = &c->b->policies[c->n++];
    same_text(&c->s, "vhost", v->vhost, vhost_name(p->vhost));
    same_text(&c->s, "name", v->name, policy_name(p->name));
    same_text(&c->s, "pattern", v->pattern, pattern_text(p->pattern));
    number(&c->s, "applies", v->applies, p->applies);
    number(&c->s, "priority", v->priority, p->priority);
    same_text(&c->s, "definition", v->definition, settings_text(&p->settings, false, false));
    return !c->s.differs;
}

static bool count_queue(void *ctx, const struct queue_view *v) {
    struct compared *c = ctx;
    see(&c->s, "queue number %zu", c->n);
    if (c->n < c->b->queue_count)
        same_text(&c->s, "name", v->name, place_name(c->b->queues[c->n].name));
    c->n++;
    return !c->s.differs;
}

bool broker_same_topology(struct broker *b, struct engine *e, char *text, size_t text_bytes) {
    struct compared c = {.s = {.text = text, .bytes = text_bytes}, .b = b};
    enum err err = engine_queues(e, (struct span){0}, count_queue, &c);
    see(&c.s, "queues");
    number(&c.s, "the error", err, OK);
    number(&c.s, "the count", (int64_t)c.n, (int64_t)b->queue_count);
    c.n = 0;
    if (!c.s.differs)
        engine_exchanges(e, see_exchange, &c);
    see(&c.s, "exchanges");
    number(&c.s, "the count", (int64_t)c.n, (int64_t)b->exchange_count);
    c.n = 0;
    if (!c.s.differs)
        engine_bindings(e, see_binding, &c);
    see(&c.s, "bindings");
    number(&c.s, "the count", (int64_t)c.n, (int64_t)b->binding_count);
    c.n = 0;
    if (!c.s.differs)
        engine_pattern_policies(e, see_policy, &c);
    see(&c.s, "policies");
    number(&c.s, "the count", (int64_t)c.n, (int64_t)b->policy_count);
    for (unsigned v = 0; v < VHOSTS; v++) {
        see(&c.s, "vhost %u", v);
        number(&c.s, "it", engine_vhost_is_there(e, vhost_name(v)), broker_has_vhost(b, v));
    }
    return !c.s.differs;
}

/* -- queues ------------------------------------------------------------------------------------------------ */

static void same_ledger(struct sight *s, const struct ledger *is, const struct ledger *wanted) {
    number(s, "accepted", (int64_t)is->accepted, (int64_t)wanted->accepted);
    number(s, "moved_in", (int64_t)is->moved_in, (int64_t)wanted->moved_in);
    number(s, "succeeded", (int64_t)is->succeeded, (int64_t)wanted->succeeded);
    number(s, "discarded", (int64_t)is->discarded, (int64_t)wanted->discarded);
    number(s, "moved_out", (int64_t)is->moved_out, (int64_t)wanted->moved_out);
    number(s, "expired", (int64_t)is->expired, (int64_t)wanted->expired);
}

static void same_counts(struct sight *s, const struct broker *b, const struct broker_queue *q,
                        const struct queue_view *v) {
    int64_t counts[STATE_COUNT] = {0}, dead_by[REASON_COUNT] = {0}, ready = 0, bytes = 0;
    for (size_t i = 0; i < b->message_count; i++) {
        const struct broker_message *x = &b->messages[i];
        if (x->queue != q->number)
            continue;
        counts[x->state]++;
        dead_by[x->reason] += x->state == STATE_DEAD;
        ready += broker_is_ready(x);
        bytes += x->bytes;
    }
    number(s, "pending", (int64_t)v->count[STATE_PENDING], counts[STATE_PENDING]);
    number(s, "processing", (int64_t)v->count[STATE_PROCESSING], counts[STATE_PROCESSING]);
    number(s, "dead", (int64_t)v->count[STATE_DEAD], counts[STATE_DEAD]);
    number(s, "ready", (int64_t)v->ready, ready);
    number(s, "bytes", (int64_t)v->bytes, bytes);
    for (int i = 0; i < REASON_COUNT; i++) {
        number(s, reason_name((enum reason)i), (int64_t)v->dead_by[i], dead_by[i]);
        number(s, "deaths", (int64_t)v->deaths_by[i], (int64_t)q->deaths_by[i]);
    }
}

static void same_queue(struct sight *s, const struct broker *b, const struct broker_queue *q,
                       struct engine *e) {
    struct queue_view v;
    see(s, "queue %s", place_words(q->name));
    if (engine_queue_brief(e, place_name(q->name), &v) != OK) {
        missing(s);
        return;
    }
    same_counts(s, b, q, &v);
    same_ledger(s, &v.ledger, &q->ledger);
    number(s, "deliveries", (int64_t)v.deliveries, (int64_t)q->deliveries);
    number(s, "failures", (int64_t)v.failures, (int64_t)q->failures);
    number(s, "redriven", (int64_t)v.redriven, (int64_t)q->redriven);
    number(s, "created_at", v.created_at, q->created_at);
    number(s, "policy", policy_equal(v.policy, &q->native.policy), true);
    same_text(s, "target", v.texts->target, text_or_none(q->native.target));
}

static void same_effective(struct sight *s, const struct queue_settings *is,
                           const struct settings *wanted) {
    number(s, "message-ttl", is->message_ttl_ms, wanted->ttl_ms);
    number(s, "expires", is->expires_ms, wanted->expires_ms);
    number(s, "max-length", is->max_length, wanted->length);
    number(s, "max-length-bytes", is->max_length_bytes, wanted->bytes);
    number(s, "delivery-limit", is->delivery_limit, wanted->limit);
    number(s, "max-priority", is->max_priority, wanted->priority);
    number(s, "overflow", is->overflow, wanted->overflow);
    number(s, "has_dlx", is->has_dlx, wanted->dlx >= 0);
    number(s, "has_dlrk", is->has_dlrk, wanted->dlrk >= 0);
    if (wanted->dlx >= 0)
        same_text(s, "dead-letter-exchange", is->dlx, text_or_none(wanted->dlx));
    if (wanted->dlrk >= 0)
        same_text(s, "dead-letter-routing-key", is->dlrk, text_or_none(wanted->dlrk));
}

static void same_amqp(struct sight *s, struct broker *b, const struct broker_queue *q,
                      struct engine *e) {
    struct queue_amqp_view v;
    see(s, "queue %s", place_words(q->name));
    if (engine_queue_amqp(e, place_name(q->name), &v) != OK) {
        missing(s);
        return;
    }
    const struct broker_policy *policy;
    struct settings wanted = broker_settings(b, q, &policy);
    const struct broker_declare *d = &q->declare;
    number(s, "is_declared", v.is_declared, q->is_declared);
    number(s, "durable", v.durable, !q->is_declared || d->durable);
    number(s, "exclusive", v.exclusive, q->is_declared && d->exclusive);
    number(s, "auto_delete", v.auto_delete, q->is_declared && d->auto_delete);
    number(s, "type", v.type, q->is_declared && d->is_quorum ? QUEUE_QUORUM : QUEUE_CLASSIC);
    if (q->is_declared)
        same_text(s, "arguments", v.arguments, settings_text(&d->settings, true, d->is_quorum));
    same_text(s, "policy", v.policy, policy ? policy_name(policy->name) : (struct span){0});
    number(s, "expired by settings", (int64_t)v.expired, (int64_t)q->expired);
    number(s, "dropped for length", (int64_t)v.max_length, (int64_t)q->max_length);
    same_effective(s, &v.effective, &wanted);
}

bool broker_same_queues(struct broker *b, struct engine *e, char *text, size_t text_bytes) {
    struct sight s = {.text = text, .bytes = text_bytes};
    for (size_t i = 0; i < b->queue_count && !s.differs; i++)
        same_queue(&s, b, &b->queues[i], e);
    struct engine_stats stats = engine_stats(e);
    if (b->dropping.accepted + b->dropping.moved_in == 0) { /* else how far it is, is not told */
        see(&s, "deleted queues");
        same_ledger(&s, &stats.deleted, &b->deleted);
    }
    return !s.differs;
}

/* -- messages ------------------------------------------------------------------------------------------------- */

static int compare_arrivals(const void *pa, const void *pb) {
    const struct broker_message *const *a = pa, *const *b = pb;
    return (*a)->arrival < (*b)->arrival ? -1 : (*a)->arrival > (*b)->arrival;
}

/* Those of the queue in that state, in order; *ret_n of them. The caller frees them. */
static const struct broker_message **sorted(const struct broker *b, const struct broker_queue *q,
                                            enum state state, size_t *ret_n) {
    const struct broker_message **found = calloc(b->message_count + 1, sizeof *found);
    size_t n = 0;
    for (size_t i = 0; i < b->message_count; i++)
        if (b->messages[i].queue == q->number && b->messages[i].state == state)
            found[n++] = &b->messages[i];
    qsort(found, n, sizeof *found, compare_arrivals);
    *ret_n = n;
    return found;
}

bool broker_same_list(struct broker *b, struct engine *e, const struct broker_queue *q, char *text,
                      size_t text_bytes) {
    static const enum state states[] = {STATE_PENDING, STATE_PROCESSING, STATE_DEAD};
    struct sight s = {.text = text, .bytes = text_bytes};
    for (size_t k = 0; k < sizeof states / sizeof *states; k++) {
        size_t n, seen = 0, page;
        const struct broker_message **wanted = sorted(b, q, states[k], &n);
        struct list list = {.state = (int)states[k], .limit = 100};
        do {
            uint64_t ids[100];
            engine_list(e, place_name(q->name), &list, ids, &page);
            for (size_t i = 0; i < page && !s.differs; i++, seen++) {
                see(&s, "queue %s, %s number %zu", place_words(q->name), state_name(states[k]),
                    seen);
                number(&s, "it", (int64_t)ids[i], seen < n ? (int64_t)wanted[seen]->id : 0);
            }
            list.after = page ? ids[page - 1] : 0;
        } while (page == list.limit && !s.differs);
        see(&s, "queue %s, listed", place_words(q->name));
        number(&s, state_name(states[k]), (int64_t)seen, (int64_t)n);
        free(wanted);
    }
    return !s.differs;
}

static void same_keys(struct sight *s, const char *name, const struct span *is, size_t is_n,
                      const uint8_t *wanted, size_t n) {
    number(s, name, (int64_t)is_n, (int64_t)n);
    for (size_t i = 0; i < n && !s->differs; i++)
        same_text(s, name, is[i], text_of(wanted[i]));
}

static void same_expiration(struct sight *s, struct span is, int64_t wanted) {
    char text[24] = "";
    if (wanted >= 0)
        snprintf(text, sizeof text, "%" PRId64, wanted);
    same_text(s, "expiration", is, span_str(text));
}

static void same_death(struct sight *s, const struct death *is, const struct broker_death *wanted) {
    same_text(s, "queue of a death", is->queue, text_of(wanted->queue));
    same_text(s, "reason of a death", span_str(reason_name(is->reason)),
              span_str(reason_name(wanted->reason)));
    number(s, "is_first", is->is_first, wanted->is_first);
    number(s, "count", is->count, wanted->count);
    number(s, "time of a death", is->at, wanted->at);
    same_text(s, "exchange of a death", is->exchange, text_of(wanted->exchange));
    same_keys(s, "keys of a death", is->keys, is->key_count, wanted->keys, wanted->key_count);
    same_expiration(s, is->expiration, wanted->expiration_ms);
}

static void same_envelope(struct sight *s, struct span packed, const struct broker_envelope *w) {
    static struct envelope v;
    enum err e = envelope_unpack(packed, &v);
    number(s, "the envelope's error", e, OK);
    number(s, "has an envelope", packed.n > 0, w->is_there);
    if (s->differs || !w->is_there)
        return;
    const uint8_t properties[] = {0x08, 0, w->priority};
    same_text(s, "exchange", v.exchange, text_of(w->exchange));
    same_keys(s, "keys", v.keys, v.key_count, w->keys, w->key_count);
    number(s, "keys of BCC", v.bcc_count, w->bcc_count);
    same_text(s, "properties", v.properties,
              span_of(properties, w->priority ? sizeof properties : 0));
    same_expiration(s, v.expiration, w->expiration_ms);
    number(s, "deaths", v.death_count, (int64_t)w->death_count);
    for (size_t i = 0; i < w->death_count && !s->differs; i++)
        same_death(s, &v.deaths[i], &w->deaths[i]);
}

static void same_times(struct sight *s, const struct message_view *v,
                       const struct broker_message *x) {
    bool is_open = x->state == STATE_PENDING || x->state == STATE_PROCESSING;
    number(s, "created_at", v->created_at, x->created_at);
    number(s, "updated_at", v->updated_at, x->updated_at);
    number(s, "ttl_ms", v->ttl_ms, x->ttl_ms);
    number(s, "expires_at", v->expires_at, is_open ? x->expires_at : 0);
    if (x->state == STATE_PENDING && x->is_retry)
        number(s, "retry_after", v->retry_after, x->next_at);
    if (x->state == STATE_PENDING && !x->is_retry)
        number(s, "available_at", v->available_at, x->waiting ? x->next_at : 0);
    if (x->state == STATE_PROCESSING)
        number(s, "lease_expires_at", v->lease_expires_at, x->next_at);
    if (x->state == STATE_DEAD)
        number(s, "died_at", v->died_at, x->died_at);
}

struct story {
    int64_t moves;
    char last[160]; /* from where to where */
};

static void hear(void *ctx, const struct history_entry *entry) {
    struct story *story = ctx;
    if (entry->event != EVENT_DEAD_LETTERED)
        return;
    story->moves++;
    snprintf(story->last, sizeof story->last, "%.*s", (int)entry->error.n,
             (const char *)entry->error.p);
}

/* What its story tells of moves: a long one makes way when its letter moves. */
static void same_moves(struct sight *s, struct engine *e, struct span queue,
                       const struct broker_message *x) {
    struct story story = {0};
    uint32_t omitted;
    char last[160];
    if (x->deliveries + x->redrive_count + x->moves > LIMIT_ATTEMPTS_LAST)
        return;
    if (engine_history(e, queue, x->id, hear, &story, &omitted) != OK) {
        missing(s);
        return;
    }
    number(s, "moves in its story", story.moves, x->moves);
    snprintf(last, sizeof last, "from %s to %s", place_words(x->moved_from),
             place_words(x->moved_to));
    if (x->moves > 0)
        same_text(s, "the last one", span_str(story.last), span_str(last));
}

static void same_message(struct sight *s, struct broker *b, struct engine *e,
                         const struct broker_message *x) {
    const struct broker_queue *q = broker_queue_of(b, x->queue);
    struct message_view v;
    see(s, "message %" PRIu64 " of queue %s", x->id, place_words(q->name));
    if (engine_message(e, place_name(q->name), x->id, &v) != OK) {
        missing(s);
        return;
    }
    same_text(s, "state", span_str(state_name(v.state)), span_str(state_name(x->state)));
    if (x->state == STATE_DEAD) {
        same_text(s, "reason", span_str(reason_name(v.reason)), span_str(reason_name(x->reason)));
        number(s, "is_unroutable", v.is_unroutable, x->is_unroutable);
    }
    number(s, "retry_count", v.retry_count, x->retry_count);
    number(s, "max_retries", v.max_retries, x->max_retries);
    number(s, "priority", v.priority, x->priority);
    number(s, "deliveries", v.deliveries, x->deliveries);
    number(s, "deliveries_before", v.deliveries_before, x->deliveries_before);
    number(s, "redrive_count", v.redrive_count, x->redrive_count);
    number(s, "parent", (int64_t)v.parent_id, (int64_t)x->parent);
    number(s, "edited_to", (int64_t)v.edited_to, (int64_t)x->edited_to);
    same_times(s, &v, x);
    same_text(s, "origin", v.origin, x->has_origin ? place_name(x->origin) : (struct span){0});
    number(s, "the payload", span_equal(v.payload, model_bytes(0, x->tag, x->bytes)), true);
    same_text(s, "headers", v.headers, table_text(x->headers));
    same_envelope(s, v.envelope, &x->envelope);
    same_moves(s, e, place_name(q->name), x);
}

bool broker_same_message(struct broker *b, struct engine *e, const struct broker_message *want,
                         char *text, size_t text_bytes) {
    struct sight s = {.text = text, .bytes = text_bytes};
    same_message(&s, b, e, want);
    return !s.differs;
}

/* -- all ------------------------------------------------------------------------------------------------------- */

static bool see_newest_job(void *ctx, const struct job_view *v) {
    struct compared *c = ctx;
    see(&c->s, "jobs");
    number(&c->s, "the newest", v->number, (int64_t)c->b->job_count);
    return false;
}

bool broker_same(struct broker *b, struct engine *e, char *text, size_t text_bytes) {
    struct compared c = {.s = {.text = text, .bytes = text_bytes}, .b = b};
    engine_jobs(e, 0, 0, 0, see_newest_job, &c);
    if (c.s.differs || !broker_same_queues(b, e, text, text_bytes) ||
        !broker_same_topology(b, e, text, text_bytes))
        return false;
    for (size_t i = 0; i < b->queue_count && !c.s.differs; i++)
        same_amqp(&c.s, b, &b->queues[i], e);
    for (size_t i = 0; i < b->queue_count && !c.s.differs; i++)
        if (!broker_same_list(b, e, &b->queues[i], text, text_bytes))
            return false;
    for (size_t i = 0; i < b->message_count && !c.s.differs; i++)
        same_message(&c.s, b, e, &b->messages[i]);
    return !c.s.differs;
}
