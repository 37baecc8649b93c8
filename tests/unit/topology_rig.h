/* An engine with exchanges and AMQP's queues, for tests of topology and dead letters. */
#pragma once

#include "engine/topology.h"
#include "engine_rig.h"

#include <string.h>

static inline struct span s(const char *text) {
    return span_str(text);
}

static inline void topology_begin(struct rig *r) {
    rig_begin(r);
    while (engine_begin(r->engine, r->now))
        continue;
}

static inline void topology_restart(struct rig *r) {
    rig_restart(r);
    while (engine_begin(r->engine, r->now))
        continue;
}

static inline void declare(struct rig *r, const char *name, const char *arguments) {
    struct queue_declare d = {.name = s(name), .durable = true, .arguments = s(arguments)};
    struct json_error json_error;
    struct settings_error error;
    struct json *v = arguments ? json_parse(s(arguments), &json_error) : NULL;
    CHECK(queue_settings_read(v, true, &d.settings, &d.type, &error));
    bool created;
    CHECK(engine_queue_declare(r->engine, r->now, &d, &created) == OK);
    CHECK(created);
    json_free(v);
}

static inline void exchange(struct rig *r, const char *name, enum exchange_type type) {
    const struct exchange_new x = {.name = s(name), .type = type, .durable = true};
    CHECK(engine_exchange_declare(r->engine, r->now, &x) == OK);
}

static inline struct binding_new binding(const char *from, const char *to, const char *key,
                                         const char *arguments) {
    return (struct binding_new){
        .source = s(from), .destination = s(to), .key = s(key), .arguments = s(arguments)};
}

static inline void bind(struct rig *r, const char *from, const char *to, const char *key,
                        const char *arguments) {
    const struct binding_new b = binding(from, to, key, arguments);
    CHECK(engine_bind(r->engine, r->now, &b) == OK);
}

static inline void policy(struct rig *r, const char *name, const char *pattern, int64_t priority,
                          const char *definition) {
    const struct pattern_policy p = {.vhost = s("/"),
                                     .name = s(name),
                                     .pattern = s(pattern),
                                     .applies = APPLIES_ALL,
                                     .priority = priority,
                                     .definition = s(definition)};
    const struct act act = {.actor = s("ann")};
    CHECK(engine_pattern_policy_put(r->engine, r->now, &p, &act) == OK);
}

/* With all that may be said; NULL is empty, the expiration in milliseconds, or -1. */
static inline struct published publish_all(struct rig *r, const char *to, const char *const *keys,
                                           uint8_t key_count, uint8_t bcc_count,
                                           const char *headers, int64_t expiration_ms,
                                           const char *payload) {
    static struct envelope v;
    static char expiration[24];
    v = (struct envelope){.exchange = s(to), .key_count = key_count, .bcc_count = bcc_count};
    for (int i = 0; i < key_count; i++)
        v.keys[i] = s(keys[i]);
    if (expiration_ms >= 0) {
        snprintf(expiration, sizeof expiration, "%lld", (long long)expiration_ms);
        v.expiration = s(expiration);
    }
    const struct publish p = {.exchange = s(to),
                              .envelope = &v,
                              .payload = s(payload),
                              .headers = s(headers),
                              .expiration_ms = expiration_ms};
    struct published done;
    CHECK(engine_publish(r->engine, r->now, &p, &done) == OK);
    return done;
}

static inline unsigned publish_with(struct rig *r, const char *to, const char *key,
                                    const char *headers, const char *payload) {
    struct published done = publish_all(r, to, &key, 1, 0, headers, -1, payload);
    CHECK(done.refused == 0);
    return done.queues;
}

static inline unsigned publish(struct rig *r, const char *to, const char *key) {
    return publish_with(r, to, key, NULL, "payload");
}

/* Its equation of conservation is checked. */
static inline struct queue_view view(struct rig *r, const char *queue) {
    struct queue_view v;
    CHECK(engine_queue(r->engine, s(queue), &v) == OK);
    CHECK(queue_view_holds(&v));
    return v;
}

static inline uint64_t ready(struct rig *r, const char *queue) {
    return view(r, queue).ready;
}

static inline uint64_t dead(struct rig *r, const char *queue) {
    return view(r, queue).count[STATE_DEAD];
}

static inline struct queue_amqp_view amqp(struct rig *r, const char *queue) {
    struct queue_amqp_view v;
    CHECK(engine_queue_amqp(r->engine, s(queue), &v) == OK);
    return v;
}

/* The next one, held. */
static inline uint64_t hold(struct rig *r, const char *queue) {
    const struct claim claim = {.count = 1, .bytes_max = SIZE_MAX, .lease_ms = CLAIM_HELD};
    uint64_t id = 0;
    size_t n;
    CHECK(engine_claim(r->engine, r->now, s(queue), &claim, &id, &n) == OK);
    return n ? id : 0;
}

static inline void settle_with(struct rig *r, const char *queue, uint64_t id,
                               enum settle_action action, const char *class, const char *error) {
    const struct settle item = {
        .action = action, .id = id, .delay_ms = -1, .error_class = s(class), .error = s(error)};
    enum err result;
    CHECK(engine_settle(r->engine, r->now, s(queue), &item, 1, &result) == OK);
    CHECK(result == OK);
}

static inline void reject(struct rig *r, const char *queue) {
    settle_with(r, queue, hold(r, queue), SETTLE_REJECT, NULL, NULL);
}

static inline struct message_view message(struct rig *r, const char *queue, uint64_t id) {
    struct message_view m = {0};
    CHECK(engine_message(r->engine, s(queue), id, &m) == OK);
    return m;
}

/* The first by id in that state. */
static inline uint64_t first_id(struct rig *r, const char *queue, enum state state) {
    const struct list list = {.state = (int)state, .limit = 1};
    uint64_t id = 0;
    size_t n;
    engine_list(r->engine, s(queue), &list, &id, &n);
    return n ? id : 0;
}
