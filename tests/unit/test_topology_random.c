/* Any order of topology, publishing, settling and time, with cleaning and restarts between: what the
 * log says is what the engine holds, everything counted adds up, and no message is lost. */
#define RIG_SEGMENT_BYTES (256 * 1024)

#include "base/rng.h"
#include "topology_rig.h"

#define QUEUES 12
#define EXCHANGES 6
#define ROUNDS 6
#define STEPS 8000

static struct rng rng;

static unsigned below(unsigned n) {
    return (unsigned)rng_below(&rng, n);
}

static const char *queue_name(unsigned i) {
    static char names[4][16];
    static unsigned at;
    char *name = names[at++ % 4];
    snprintf(name, sizeof names[0], "q%u", i);
    return name;
}

static const char *exchange_name(unsigned i) {
    static const char *const names[EXCHANGES] = {"",  "amq.fanout", "amq.topic", "amq.headers",
                                                 "x", "y"};
    return names[i];
}

static const char *key(void) {
    static const char *const keys[] = {"q0", "q1", "q2", "a.b", "a.#", "*.b", ""};
    return keys[below(7)];
}

static void declare_any(struct rig *r) {
    static const char *const arguments[] = {
        NULL,
        "{\"x-max-length\":3}",
        "{\"x-max-length\":2,\"x-dead-letter-exchange\":\"x\"}",
        "{\"x-max-length\":2,\"x-overflow\":\"reject-publish\"}",
        "{\"x-max-length\":2,\"x-overflow\":\"reject-publish-dlx\",\"x-dead-letter-exchange\":"
        "\"y\"}",
        "{\"x-message-ttl\":50,\"x-dead-letter-exchange\":\"\","
        "\"x-dead-letter-routing-key\":\"q1\"}",
        "{\"x-message-ttl\":0,\"x-nixie-keep\":true}",
        "{\"x-queue-type\":\"quorum\",\"x-delivery-limit\":1,"
        "\"x-dead-letter-exchange\":\"amq.fanout\"}",
        "{\"x-max-length-bytes\":4000,\"x-dead-letter-exchange\":\"amq.topic\","
        "\"x-max-priority\":3}",
    };
    const char *text = arguments[below(9)];
    struct queue_declare d = {
        .name = s(queue_name(below(QUEUES))), .durable = below(4) > 0, .arguments = s(text)};
    struct json_error json_error;
    struct settings_error error;
    struct json *v = text ? json_parse(s(text), &json_error) : NULL;
    CHECK(queue_settings_read(v, true, &d.settings, &d.type, &error));
    bool created;
    CHECK(engine_queue_declare(r->engine, r->now, &d, &created) == OK);
    json_free(v);
}

static void change_exchange(struct rig *r) {
    unsigned i = 4 + below(2);
    const struct exchange_new x = {.name = s(exchange_name(i)),
                                   .type = (enum exchange_type)below(4),
                                   .durable = below(4) > 0,
                                   .auto_delete = below(2),
                                   .has_alternate = below(2),
                                   .alternate = s("amq.fanout")};
    if (below(3) == 0)
        CHECK(engine_exchange_delete(r->engine, r->now, x.name, false) == OK);
    else
        CHECK(engine_exchange_declare(r->engine, r->now, &x) == OK);
}

static void change_binding(struct rig *r) {
    bool to_exchange = below(4) == 0;
    const struct binding_new b = {
        .source = s(exchange_name(1 + below(EXCHANGES - 1))),
        .destination =
            s(to_exchange ? exchange_name(1 + below(EXCHANGES - 1)) : queue_name(below(QUEUES))),
        .to_exchange = to_exchange,
        .key = s(key()),
        .arguments = s(below(2) ? "{\"a\":1}" : NULL)};
    if (below(3) == 0) {
        CHECK(engine_unbind(r->engine, r->now, &b) == OK);
        return;
    }
    enum err e = engine_bind(r->engine, r->now, &b);
    CHECK(e == OK || e == ERR_NO_QUEUE || e == ERR_NO_EXCHANGE);
}

static void change_policy(struct rig *r) {
    static const char *const definitions[] = {
        "{\"max-length\":5}", "{\"dead-letter-exchange\":\"amq.fanout\"}", "{\"message-ttl\":100}",
        "{\"alternate-exchange\":\"amq.topic\"}"};
    const struct act act = {.actor = s("ann")};
    const char *name = below(2) ? "p1" : "p2";
    if (below(3) == 0) {
        enum err e = engine_pattern_policy_delete(r->engine, r->now, s("/"), s(name), &act);
        CHECK(e == OK || e == ERR_NO_POLICY);
        return;
    }
    policy(r, name, below(2) ? "^q[0-5]$" : ".", below(3), definitions[below(4)]);
}

static void publish_any(struct rig *r) {
    static char payload[8000];
    memset(payload, 'x', sizeof payload);
    payload[below(20) == 0 ? below(7999) : below(100)] = 0;
    static struct envelope v;
    const char *to = exchange_name(below(EXCHANGES));
    v = (struct envelope){.exchange = s(to), .key_count = 1};
    v.keys[0] = s(key());
    const struct publish p = {.exchange = s(to),
                              .envelope = &v,
                              .payload = s(payload),
                              .headers = s(below(2) ? "{\"a\":1}" : NULL),
                              .priority = (uint8_t)below(12),
                              .expiration_ms = below(4) ? -1 : (int64_t)below(100)};
    struct published done;
    enum err e = engine_publish(r->engine, r->now, &p, &done);
    CHECK(e == OK || e == ERR_NO_EXCHANGE);
    memset(payload, 'x', sizeof payload);
}

static void enqueue_any(struct rig *r) {
    const struct message_new m = {.payload = s("by another way"), .delay_ms = -1, .ttl_ms = -1};
    struct enqueued done;
    enum err e = engine_enqueue(r->engine, r->now, s(queue_name(below(QUEUES))), &m, 1, &done);
    CHECK(e == OK || e == ERR_QUEUE_FULL);
}

static void work(struct rig *r) {
    const char *queue = queue_name(below(QUEUES));
    const struct claim claim = {
        .count = 1 + below(4), .bytes_max = SIZE_MAX, .lease_ms = below(2) ? CLAIM_HELD : 200};
    uint64_t ids[4];
    size_t n;
    CHECK(engine_claim(r->engine, r->now, s(queue), &claim, ids, &n) == OK);
    static const enum settle_action actions[] = {SETTLE_SUCCEED, SETTLE_RETURN, SETTLE_REJECT,
                                                 SETTLE_FAIL};
    for (size_t i = 0; i < n; i++) {
        if (below(8) == 0)
            continue; /* held on */
        const struct settle item = {
            .action = actions[below(4)], .id = ids[i], .delay_ms = 10, .error = s("it broke")};
        enum err result;
        CHECK(engine_settle(r->engine, r->now, s(queue), &item, 1, &result) == OK);
        CHECK(result == OK);
    }
}

static void replay_any(struct rig *r) {
    const char *queue = queue_name(below(QUEUES));
    uint64_t id = first_id(r, queue, STATE_DEAD);
    if (id)
        rig_replay(r, queue, id);
}

static void delete_any(struct rig *r) {
    const struct act act = {.actor = s("ann")};
    uint64_t n;
    enum err e =
        below(2) ? engine_queue_delete(r->engine, r->now, s(queue_name(below(QUEUES))), true, &act)
                 : engine_queue_purge(r->engine, r->now, s(queue_name(below(QUEUES))), &n);
    CHECK(e == OK || e == ERR_NO_QUEUE);
}

/* What is rejected in queues that lead to many others only grows. */
static void purge_all(struct rig *r) {
    const struct act act = {.actor = s("ann")};
    for (unsigned i = 0; i < QUEUES; i++) {
        enum err e = engine_queue_delete(r->engine, r->now, s(queue_name(i)), true, &act);
        CHECK(e == OK || e == ERR_NO_QUEUE);
    }
}

static void step(struct rig *r) {
    if (engine_stats(r->engine).messages > 5000)
        purge_all(r);
    unsigned what = below(100);
    if (what < 5)
        declare_any(r);
    else if (what < 7)
        change_exchange(r);
    else if (what < 13)
        change_binding(r);
    else if (what < 15)
        change_policy(r);
    else if (what < 55)
        publish_any(r);
    else if (what < 60)
        enqueue_any(r);
    else if (what < 85)
        work(r);
    else if (what < 88)
        replay_any(r);
    else if (what < 90)
        delete_any(r);
    else
        r->now += below(30);
    engine_tick(r->engine, r->now);
    if (below(8) == 0)
        rig_commit(r);
    engine_clean(r->engine);
}

/* What was not synced is gone, a frame at a time. */
static void lose_power(struct rig *r) {
    rig_close(r);
    crash_io_restart(r->disk, true);
    rig_open(r);
    while (engine_begin(r->engine, r->now))
        continue;
}

static bool adds_up(void *ctx, const struct queue_view *q) {
    CHECK(queue_view_holds(q));
    ++*(unsigned *)ctx;
    return true;
}

static void any_order(void) {
    uint64_t cleaned = 0, moved = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct rig r;
        rng_seed(&rng, round + 1);
        topology_begin(&r);
        for (unsigned i = 0; i < STEPS; i++) {
            step(&r);
            if (i % 500 != 499)
                continue;
            char text[200] = "";
            bool holds = engine_verify(r.engine, text, sizeof text);
            if (!holds)
                printf("# seed %u, step %u: %s\n", round + 1, i, text);
            CHECK(holds);
            unsigned queues = 0;
            CHECK(engine_queues(r.engine, (struct span){0}, adds_up, &queues) == OK);
            cleaned += engine_stats(r.engine).cleaned_bytes;
            if (below(2))
                topology_restart(&r);
            else
                lose_power(&r);
        }
        moved += engine_stats(r.engine).deleted.moved_in;
        rig_end(&r);
    }
    CHECK(cleaned > 0 && moved > 0);
}

int main(void) {
    RUN(any_order);
    return check_done();
}
