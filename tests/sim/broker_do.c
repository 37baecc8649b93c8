/* The broker's operations, done in the engine. */
#include "sim/broker_world.h"

#include <stdio.h>
#include <string.h>

static const struct act nobody;

static enum err do_vhost(struct world *w, struct broker_op *op, struct broker_reply *got) {
    (void)got;
    const struct vhost_settings plain = {0};
    return engine_vhost_put(w->engine, op->now, vhost_name(op->name.vhost), &plain, NULL);
}

static enum err do_exchange(struct world *w, struct broker_op *op, struct broker_reply *got) {
    (void)got;
    const struct broker_exchange *x = &op->exchange;
    const struct exchange_new new = {.name = place_name(op->name),
                                     .type = x->type,
                                     .durable = x->durable,
                                     .auto_delete = x->auto_delete,
                                     .internal = x->internal,
                                     .alternate = text_or_none(x->alternate),
                                     .has_alternate = x->alternate >= 0};
    return engine_exchange_declare(w->engine, op->now, &new);
}

static enum err do_exchange_delete(struct world *w, struct broker_op *op,
                                   struct broker_reply *got) {
    (void)got;
    return engine_exchange_delete(w->engine, op->now, place_name(op->name), op->if_unused);
}

static struct binding_new binding_of(const struct broker_op *op) {
    return (struct binding_new){.source = place_name(op->name),
                                .destination = place_name(op->to),
                                .to_exchange = op->to_exchange,
                                .key = text_of(op->keys[0]),
                                .arguments = table_text(op->arguments)};
}

static enum err do_bind(struct world *w, struct broker_op *op, struct broker_reply *got) {
    (void)got;
    const struct binding_new b = binding_of(op);
    return engine_bind(w->engine, op->now, &b);
}

static enum err do_unbind(struct world *w, struct broker_op *op, struct broker_reply *got) {
    (void)got;
    const struct binding_new b = binding_of(op);
    return engine_unbind(w->engine, op->now, &b);
}

/* As AMQP's queue.declare: from its arguments. */
static enum err do_declare(struct world *w, struct broker_op *op, struct broker_reply *got) {
    const struct broker_declare *d = &op->declare;
    struct json_error json_error;
    struct settings_error error;
    struct queue_declare new = {.name = place_name(op->name),
                                .durable = d->durable,
                                .exclusive = d->exclusive,
                                .auto_delete = d->auto_delete,
                                .arguments = settings_text(&d->settings, true, d->is_quorum)};
    struct json *v = json_parse(new.arguments, &json_error);
    if (!queue_settings_read(v, true, &new.settings, &new.type, &error))
        world_fail(w, "declare: %s", error.text);
    enum err e = engine_queue_declare(w->engine, op->now, &new, &got->created);
    json_free(v);
    return e;
}

static enum err do_queue_put(struct world *w, struct broker_op *op, struct broker_reply *got) {
    const struct broker_native *n = &op->native;
    const struct policy_texts texts = {.target = text_or_none(n->target)};
    return engine_queue_put(w->engine, op->now, place_name(op->name), &n->policy, &texts, &nobody,
                            &got->created);
}

static enum err do_queue_delete(struct world *w, struct broker_op *op, struct broker_reply *got) {
    (void)got;
    return engine_queue_delete(w->engine, op->now, place_name(op->name), op->discard, &nobody);
}

static enum err do_purge(struct world *w, struct broker_op *op, struct broker_reply *got) {
    return engine_queue_purge(w->engine, op->now, place_name(op->name), &got->ids[0]);
}

static enum err do_policy(struct world *w, struct broker_op *op, struct broker_reply *got) {
    (void)got;
    const struct broker_policy *p = &op->policy;
    const struct pattern_policy new = {.vhost = vhost_name(p->vhost),
                                       .name = policy_name(p->name),
                                       .pattern = pattern_text(p->pattern),
                                       .applies = p->applies,
                                       .priority = p->priority,
                                       .definition = settings_text(&p->settings, false, false)};
    return engine_pattern_policy_put(w->engine, op->now, &new, &nobody);
}

static enum err do_policy_delete(struct world *w, struct broker_op *op, struct broker_reply *got) {
    (void)got;
    return engine_pattern_policy_delete(w->engine, op->now, vhost_name(op->policy.vhost),
                                        policy_name(op->policy.name), &nobody);
}

static enum err do_publish(struct world *w, struct broker_op *op, struct broker_reply *got) {
    static struct envelope v;
    const uint8_t properties[] = {0x08, 0, op->priority};
    char expiration[24] = "";
    if (op->expiration_ms >= 0)
        snprintf(expiration, sizeof expiration, "%lld", (long long)op->expiration_ms);
    v = (struct envelope){.exchange = text_of(op->name.text),
                          .key_count = op->key_count,
                          .bcc_count = op->bcc_count,
                          .expiration = span_str(expiration),
                          .properties = span_of(properties, op->priority ? sizeof properties : 0)};
    for (int i = 0; i < op->key_count; i++)
        v.keys[i] = text_of(op->keys[i]);
    const struct publish p = {.exchange = place_name(op->name),
                              .envelope = &v,
                              .payload = model_bytes(0, op->tag, op->bytes),
                              .headers = table_text(op->headers),
                              .priority = op->priority,
                              .expiration_ms = op->expiration_ms};
    struct published done;
    enum err e = engine_publish(w->engine, op->now, &p, &done);
    got->queues = done.queues;
    got->refused = done.refused;
    return e;
}

static enum err do_enqueue(struct world *w, struct broker_op *op, struct broker_reply *got) {
    struct message_new items[BROKER_BATCH];
    struct enqueued done[BROKER_BATCH];
    static uint8_t payloads[BROKER_BATCH][4096];
    for (size_t i = 0; i < op->n; i++) {
        const struct broker_item *item = &op->items[i];
        struct span bytes = model_bytes(0, item->tag, item->bytes);
        if (bytes.n)
            memcpy(payloads[i], bytes.p, bytes.n);
        items[i] = (struct message_new){.payload = span_of(payloads[i], bytes.n),
                                        .headers = table_text(item->headers),
                                        .priority = item->priority,
                                        .delay_ms = item->delay_ms,
                                        .ttl_ms = item->ttl_ms};
    }
    enum err e = engine_enqueue(w->engine, op->now, place_name(op->name), items, op->n, done);
    for (size_t i = 0; e == OK && i < op->n; i++)
        got->ids[got->n++] = done[i].id;
    return e;
}

static enum err do_claim(struct world *w, struct broker_op *op, struct broker_reply *got) {
    enum err e =
        engine_claim(w->engine, op->now, place_name(op->name), &op->claim, got->ids, &got->n);
    op->n = got->n;
    return e;
}

static enum err do_settle(struct world *w, struct broker_op *op, struct broker_reply *got) {
    struct settle items[BROKER_BATCH];
    for (size_t i = 0; i < op->n; i++) {
        const struct broker_item *item = &op->items[i];
        items[i] = (struct settle){.action = item->action,
                                   .id = item->id,
                                   .lease = item->lease,
                                   .delay_ms = item->delay_ms,
                                   .lease_ms = item->lease_ms,
                                   .permanent = item->permanent};
        if (item->tells)
            items[i].error = span_str("it broke");
    }
    return engine_settle(w->engine, op->now, place_name(op->name), items, op->n, got->results);
}

static enum err do_replay(struct world *w, struct broker_op *op, struct broker_reply *got) {
    (void)got;
    return engine_replay(w->engine, op->now, place_name(op->name), op->id, op->force,
                         op->clear_deaths, &nobody);
}

static enum err do_discard(struct world *w, struct broker_op *op, struct broker_reply *got) {
    (void)got;
    return engine_discard(w->engine, op->now, place_name(op->name), op->id, DISCARD_OBSOLETE,
                          &nobody);
}

static enum err do_edit(struct world *w, struct broker_op *op, struct broker_reply *got) {
    const struct edit edit = {.has_payload = op->has_payload,
                              .has_headers = op->has_headers,
                              .payload = model_bytes(0, op->tag, op->bytes),
                              .headers = table_text(op->headers),
                              .force = op->force};
    return engine_edit(w->engine, op->now, place_name(op->name), op->id, &edit, &nobody,
                       &got->ids[0]);
}

static enum err do_job(struct world *w, struct broker_op *op, struct broker_reply *got) {
    const struct job_new job = {.kind = JOB_REDRIVE,
                                .queue = place_name(op->name),
                                .to = op->has_to ? place_name(op->to) : (struct span){0},
                                .stop_if_ppm = STOP_NEVER,
                                .force = true,
                                .clear_deaths = op->clear_deaths};
    uint32_t number = 0;
    enum err e = engine_job_start(w->engine, op->now, &job, &number);
    got->ids[0] = number;
    return e;
}

static enum err do_tick(struct world *w, struct broker_op *op, struct broker_reply *got) {
    (void)got;
    int64_t next = op->now;
    for (unsigned calls = 0; next <= op->now; calls++) {
        if (calls > 10000)
            world_fail(w, "the tick does not end");
        next = engine_tick(w->engine, op->now);
    }
    w->next_due = next;
    return OK;
}

static enum err do_begin(struct world *w, struct broker_op *op, struct broker_reply *got) {
    (void)got;
    for (unsigned calls = 0; engine_begin(w->engine, op->now); calls++)
        if (calls > 10000)
            world_fail(w, "the start does not end");
    return OK;
}

static const struct {
    const char *name;
    enum err (*act)(struct world *w, struct broker_op *op, struct broker_reply *got);
} ops[BROKER_OPS] = {
    [BROKER_VHOST] = {"vhost put", do_vhost},
    [BROKER_EXCHANGE] = {"exchange declare", do_exchange},
    [BROKER_EXCHANGE_DELETE] = {"exchange delete", do_exchange_delete},
    [BROKER_BIND] = {"bind", do_bind},
    [BROKER_UNBIND] = {"unbind", do_unbind},
    [BROKER_DECLARE] = {"declare", do_declare},
    [BROKER_QUEUE_PUT] = {"queue put", do_queue_put},
    [BROKER_QUEUE_DELETE] = {"queue delete", do_queue_delete},
    [BROKER_PURGE] = {"purge", do_purge},
    [BROKER_POLICY] = {"policy put", do_policy},
    [BROKER_POLICY_DELETE] = {"policy delete", do_policy_delete},
    [BROKER_PUBLISH] = {"publish", do_publish},
    [BROKER_ENQUEUE] = {"enqueue", do_enqueue},
    [BROKER_CLAIM] = {"claim", do_claim},
    [BROKER_SETTLE] = {"settle", do_settle},
    [BROKER_REPLAY] = {"replay", do_replay},
    [BROKER_DISCARD] = {"discard", do_discard},
    [BROKER_EDIT] = {"edit", do_edit},
    [BROKER_JOB] = {"job", do_job},
    [BROKER_TICK] = {"tick", do_tick},
    [BROKER_BEGIN] = {"begin", do_begin},
};

enum err broker_do(struct world *w, struct broker_op *op, struct broker_reply *got) {
    return ops[op->kind].act(w, op, got);
}

const char *broker_op_name(enum broker_op_kind kind) {
    return ops[kind].name;
}
