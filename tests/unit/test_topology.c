#include "topology_rig.h"

static void begin(struct rig *r) {
    topology_begin(r);
}

static void restart(struct rig *r) {
    topology_restart(r);
}

static void bind_exchange(struct rig *r, const char *from, const char *to, const char *key) {
    struct binding_new b = binding(from, to, key, NULL);
    b.to_exchange = true;
    CHECK(engine_bind(r->engine, r->now, &b) == OK);
}

/* -- routing ---------------------------------------------------------------------------------- */

static void default_exchange(void) {
    struct rig r;
    begin(&r);
    declare(&r, "a", NULL);
    CHECK(publish(&r, "", "a") == 1);
    CHECK(publish(&r, "", "b") == 0);
    CHECK(ready(&r, "a") == 1);
    restart(&r);
    CHECK(ready(&r, "a") == 1);
    uint64_t id;
    const struct rig_death claim = {.queue = "a"};
    rig_claim(&r, &claim, 1, &id);
    struct message_view m;
    CHECK(engine_message(r.engine, s("a"), id, &m) == OK);
    static struct envelope v;
    CHECK(envelope_unpack(m.envelope, &v) == OK);
    CHECK(v.key_count == 1 && span_equal_str(v.keys[0], "a") && v.exchange.n == 0);
    rig_end(&r);
}

static void direct(void) {
    struct rig r;
    begin(&r);
    declare(&r, "a", NULL);
    declare(&r, "b", NULL);
    exchange(&r, "x", EXCHANGE_DIRECT);
    bind(&r, "x", "a", "one", NULL);
    bind(&r, "x", "a", "one", NULL); /* the same: nothing */
    bind(&r, "x", "a", "two", NULL);
    bind(&r, "x", "b", "two", NULL);
    CHECK(publish(&r, "x", "one") == 1);
    CHECK(publish(&r, "x", "two") == 2);
    CHECK(publish(&r, "x", "three") == 0);
    restart(&r);
    CHECK(publish(&r, "x", "two") == 2);
    const struct binding_new b = binding("x", "a", "two", NULL);
    CHECK(engine_unbind(r.engine, r.now, &b) == OK);
    CHECK(publish(&r, "x", "two") == 1);
    restart(&r);
    CHECK(publish(&r, "x", "two") == 1);
    CHECK(ready(&r, "a") == 3 && ready(&r, "b") == 4);
    rig_end(&r);
}

static void topics(void) {
    static const struct {
        const char *pattern, *key;
        bool matches;
    } table[] = {
        {"", "", true},          {"", "a", false},         {"#", "", true},
        {"#", "a.b.c", true},    {"*", "", false},         {"*", "a", true},
        {"*", "a.b", false},     {"a.*", "a.b", true},     {"a.*", "a", false},
        {"a.#", "a", true},      {"a.#", "a.b.c", true},   {"#.c", "a.b.c", true},
        {"#.c", "c", true},      {"a.#.c", "a.c", true},   {"a.#.c", "a.b.b.c", true},
        {"a.#.c", "a.b", false}, {"*.#", "", false},       {"*.#", "a", true},
        {"#.*", "a.b", true},    {"#.#", "", true},        {"a.*.c", "a.b.c", true},
        {"a.*.c", "a..c", true}, {"#.b.#", "a.b.c", true}, {"#.b.#.d", "a.b.c.b.d", true},
        {"a", "a.", false},      {"a.", "a.", true},       {"*.*", ".", true},
    };
    struct rig r;
    begin(&r);
    declare(&r, "a", NULL);
    exchange(&r, "x", EXCHANGE_TOPIC);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const struct binding_new b = binding("x", "a", table[i].pattern, NULL);
        CHECK(engine_bind(r.engine, r.now, &b) == OK);
        bool matches = publish(&r, "x", table[i].key) == 1;
        if (matches != table[i].matches)
            printf("# '%s' on '%s'\n", table[i].pattern, table[i].key);
        CHECK(matches == table[i].matches);
        CHECK(engine_unbind(r.engine, r.now, &b) == OK);
    }
    rig_end(&r);
}

static void headers_exchange(void) {
    static const struct {
        const char *wanted, *headers;
        bool matches;
    } table[] = {
        {"{}", NULL, true},
        {"{\"a\":1}", "{\"a\":1,\"b\":2}", true},
        {"{\"a\":1}", "{\"a\":2}", false},
        {"{\"a\":1}", "{\"a\":\"1\"}", false},
        {"{\"a\":1,\"b\":2}", "{\"a\":1}", false},
        {"{\"x-match\":\"any\",\"a\":1,\"b\":2}", "{\"b\":2}", true},
        {"{\"x-match\":\"any\"}", "{\"b\":2}", false},
        {"{\"a\":null}", "{\"a\":\"any\"}", true},
        {"{\"a\":null}", "{\"b\":\"any\"}", false},
        {"{\"x-a\":1}", NULL, true},
        {"{\"x-match\":\"all-with-x\",\"x-a\":1}", "{\"x-a\":2}", false},
        {"{\"x-match\":\"any-with-x\",\"x-a\":1}", "{\"x-a\":1}", true},
    };
    struct rig r;
    begin(&r);
    declare(&r, "a", NULL);
    exchange(&r, "x", EXCHANGE_HEADERS);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const struct binding_new b = binding("x", "a", "", table[i].wanted);
        CHECK(engine_bind(r.engine, r.now, &b) == OK);
        bool matches = publish_with(&r, "x", "", table[i].headers, "") == 1;
        if (matches != table[i].matches)
            printf("# %s on %s\n", table[i].wanted, table[i].headers);
        CHECK(matches == table[i].matches);
        CHECK(engine_unbind(r.engine, r.now, &b) == OK);
    }
    rig_end(&r);
}

static void exchanges_to_exchanges(void) {
    struct rig r;
    begin(&r);
    declare(&r, "a", NULL);
    declare(&r, "b", NULL);
    exchange(&r, "x", EXCHANGE_FANOUT);
    exchange(&r, "y", EXCHANGE_DIRECT);
    bind_exchange(&r, "x", "y", "");
    bind_exchange(&r, "y", "x", "k"); /* a circle */
    bind(&r, "x", "a", "", NULL);
    bind(&r, "y", "a", "k", NULL);
    bind(&r, "y", "b", "k", NULL);
    CHECK(publish(&r, "x", "k") == 2);
    CHECK(publish(&r, "x", "other") == 1);
    restart(&r);
    CHECK(engine_exchange_delete(r.engine, r.now, s("y"), true) == ERR_IN_USE);
    CHECK(engine_exchange_delete(r.engine, r.now, s("y"), false) == OK);
    CHECK(publish(&r, "x", "k") == 1);
    rig_end(&r);
}

static void alternate(void) {
    struct rig r;
    begin(&r);
    declare(&r, "a", NULL);
    exchange(&r, "spare", EXCHANGE_FANOUT);
    bind(&r, "spare", "a", "", NULL);
    const struct exchange_new x = {.name = s("x"),
                                   .type = EXCHANGE_DIRECT,
                                   .durable = true,
                                   .has_alternate = true,
                                   .alternate = s("spare")};
    CHECK(engine_exchange_declare(r.engine, r.now, &x) == OK);
    CHECK(publish(&r, "x", "nobody") == 1);
    restart(&r);
    CHECK(publish(&r, "x", "nobody") == 1);
    CHECK(ready(&r, "a") == 2);
    policy(&r, "all", ".*", 0, "{\"alternate-exchange\":\"spare\"}");
    CHECK(publish(&r, "amq.direct", "nobody") == 1);
    CHECK(publish(&r, "", "nobody") == 0);
    rig_end(&r);
}

static void queue_takes_bindings_with_it(void) {
    struct rig r;
    begin(&r);
    declare(&r, "a", NULL);
    bind(&r, "amq.fanout", "a", "", NULL);
    struct exchange_view v;
    CHECK(engine_exchange(r.engine, s("amq.fanout"), &v) == OK && v.bindings == 1);
    const struct exchange_new x = {
        .name = s("auto"), .type = EXCHANGE_FANOUT, .durable = true, .auto_delete = true};
    CHECK(engine_exchange_declare(r.engine, r.now, &x) == OK);
    bind(&r, "auto", "a", "", NULL);
    const struct act act = {.actor = s("ann")};
    CHECK(engine_queue_delete(r.engine, r.now, s("a"), true, &act) == OK);
    CHECK(engine_exchange(r.engine, s("amq.fanout"), &v) == OK && v.bindings == 0);
    CHECK(engine_exchange(r.engine, s("auto"), &v) == ERR_NO_EXCHANGE);
    restart(&r);
    CHECK(engine_exchange(r.engine, s("amq.fanout"), &v) == OK && v.bindings == 0);
    CHECK(engine_exchange(r.engine, s("auto"), &v) == ERR_NO_EXCHANGE);
    rig_end(&r);
}

static void auto_exchange(struct rig *r, const char *name, bool durable) {
    const struct exchange_new x = {
        .name = s(name), .type = EXCHANGE_FANOUT, .durable = durable, .auto_delete = true};
    CHECK(engine_exchange_declare(r->engine, r->now, &x) == OK);
}

static bool has_exchange(struct rig *r, const char *name) {
    struct exchange_view v;
    return engine_exchange(r->engine, s(name), &v) == OK;
}

/* first -> second -> the queue, and first -> third; so that no crash comes between. */
static void a_chain_goes_in_one_frame(void) {
    const struct act act = {.actor = s("ann")};
    enum { UNBIND, DELETE_QUEUE, DELETE_EXCHANGE, WAYS };
    for (int way = 0; way < WAYS; way++) {
        struct rig r;
        begin(&r);
        declare(&r, "q", NULL);
        auto_exchange(&r, "first", true);
        auto_exchange(&r, "second", true);
        auto_exchange(&r, "third", true);
        bind(&r, "second", "q", "", NULL);
        struct binding_new b = binding("first", "second", "", NULL);
        b.to_exchange = true;
        CHECK(engine_bind(r.engine, r.now, &b) == OK);
        b = binding("second", "q", "", NULL);
        uint64_t frames = log_stats(r.log).frames;
        if (way == UNBIND)
            CHECK(engine_unbind(r.engine, r.now, &b) == OK);
        else if (way == DELETE_QUEUE)
            CHECK(engine_queue_delete(r.engine, r.now, s("q"), true, &act) == OK);
        else
            CHECK(engine_exchange_delete(r.engine, r.now, s("second"), false) == OK);
        CHECK(log_stats(r.log).frames == frames + 1);
        CHECK(!has_exchange(&r, "first") && !has_exchange(&r, "second") &&
              has_exchange(&r, "third"));
        restart(&r);
        CHECK(!has_exchange(&r, "first") && !has_exchange(&r, "second") &&
              has_exchange(&r, "third"));
        rig_end(&r);
    }
}

/* More than a frame holds. */
static void many_go_in_several_frames(void) {
    struct rig r;
    begin(&r);
    declare(&r, "q", NULL);
    unsigned n = (unsigned)(log_frame_bytes_max(r.log) / 40 + 1000);
    char name[32];
    for (unsigned i = 0; i < n; i++) {
        snprintf(name, sizeof name, "auto%u", i);
        auto_exchange(&r, name, true);
        bind(&r, name, "q", "", NULL);
    }
    uint64_t frames = log_stats(r.log).frames;
    const struct act act = {.actor = s("ann")};
    CHECK(engine_queue_delete(r.engine, r.now, s("q"), true, &act) == OK);
    CHECK(log_stats(r.log).frames == frames + 2);
    CHECK(!has_exchange(&r, "auto0") && !has_exchange(&r, name));
    restart(&r);
    CHECK(!has_exchange(&r, "auto0") && !has_exchange(&r, name));
    rig_end(&r);
}

/* One of two bindings is not the last; one to a thing that outlives no restart may be. */
static void auto_exchanges_stay_and_go(void) {
    struct rig r;
    begin(&r);
    declare(&r, "q", NULL);
    auto_exchange(&r, "x", true);
    auto_exchange(&r, "transient", false);
    bind(&r, "x", "q", "a", NULL);
    bind(&r, "x", "q", "b", NULL);
    const struct binding_new b = binding("x", "q", "a", NULL);
    CHECK(engine_unbind(r.engine, r.now, &b) == OK);
    CHECK(has_exchange(&r, "x"));
    struct binding_new to = binding("x", "transient", "", NULL);
    to.to_exchange = true;
    CHECK(engine_bind(r.engine, r.now, &to) == OK);
    const struct binding_new last = binding("x", "q", "b", NULL);
    CHECK(engine_unbind(r.engine, r.now, &last) == OK);
    CHECK(has_exchange(&r, "x"));
    restart(&r);
    CHECK(!has_exchange(&r, "transient") && !has_exchange(&r, "x"));
    rig_end(&r);
}

static void vhosts(void) {
    struct rig r;
    begin(&r);
    CHECK(engine_vhost_is_there(r.engine, s("/")) && !engine_vhost_is_there(r.engine, s("v")));
    const struct queue_declare d = {
        .name = s("//v/q"), .durable = true, .settings = queue_settings_none()};
    bool created;
    CHECK(engine_queue_declare(r.engine, r.now, &d, &created) == ERR_NO_VHOST);
    CHECK(engine_vhost_put(r.engine, r.now, s("v"), &(struct vhost_settings){0}, NULL) == OK);
    CHECK(engine_vhost_put(r.engine, r.now, s("v"), &(struct vhost_settings){0}, NULL) == OK);
    CHECK(engine_queue_declare(r.engine, r.now, &d, &created) == OK && created);
    CHECK(publish(&r, "//v/", "q") == 1);
    CHECK(publish(&r, "", "q") == 0);
    restart(&r);
    CHECK(engine_vhost_is_there(r.engine, s("v")));
    CHECK(ready(&r, "//v/q") == 1);

    struct vhost_settings settings;
    CHECK(engine_vhost(r.engine, s("v"), &settings) == OK && !settings.reads_deaths);
    settings.reads_deaths = true;
    CHECK(engine_vhost_put(r.engine, r.now, s("v"), &settings, NULL) == OK);
    restart(&r);
    settings.reads_deaths = false;
    CHECK(engine_vhost(r.engine, s("v"), &settings) == OK && settings.reads_deaths);
    CHECK(engine_vhost(r.engine, s("/"), &settings) == OK && !settings.reads_deaths);
    CHECK(engine_vhost(r.engine, s("w"), &settings) == ERR_NO_VHOST);
    CHECK(publish(&r, "//v/", "q") == 1); /* the exchange is the one it was */
    rig_end(&r);
}

/* -- settings ---------------------------------------------------------------------------------- */

static void policies(void) {
    struct rig r;
    begin(&r);
    declare(&r, "jobs.a", "{\"x-max-length\":10}");
    policy(&r, "p1", "^jobs", 1, "{\"max-length\":5,\"dead-letter-exchange\":\"dlx\"}");
    policy(&r, "p2", "^jobs", 2, "{\"max-length\":20}");
    struct queue_amqp_view v = amqp(&r, "jobs.a");
    CHECK(v.effective.max_length == 10 && span_equal_str(v.policy, "p2"));
    restart(&r);
    v = amqp(&r, "jobs.a");
    CHECK(v.effective.max_length == 10 && span_equal_str(v.policy, "p2") && !v.effective.has_dlx);
    const struct act act = {.actor = s("ann")};
    CHECK(engine_pattern_policy_delete(r.engine, r.now, s("/"), s("p2"), &act) == OK);
    CHECK(engine_pattern_policy_delete(r.engine, r.now, s("/"), s("p2"), &act) == ERR_NO_POLICY);
    v = amqp(&r, "jobs.a");
    CHECK(v.effective.max_length == 5 && span_equal_str(v.effective.dlx, "dlx"));
    restart(&r);
    v = amqp(&r, "jobs.a");
    CHECK(v.effective.max_length == 5 && span_equal_str(v.policy, "p1"));
    CHECK(v.is_declared && v.durable && span_equal_str(v.arguments, "{\"x-max-length\":10}"));
    rig_end(&r);
}

static const char *changed(struct rig *r) {
    static char text[300];
    struct span queue;
    int64_t ms;
    if (!engine_expires_changed(r->engine, &queue, &ms))
        return "";
    snprintf(text, sizeof text, "%.*s %lld", (int)queue.n, (const char *)queue.p, (long long)ms);
    return text;
}
#define NEXT_IS(text) CHECK(strcmp(changed(&r), text) == 0)

static void expires(void) {
    struct rig r;
    begin(&r);
    declare(&r, "a", "{\"x-expires\":100}");
    declare(&r, "b", NULL);
    NEXT_IS("a 100");
    NEXT_IS("");
    policy(&r, "p", ".", 1, "{\"expires\":50}");
    policy(&r, "p", ".", 1, "{\"expires\":50,\"max-length\":7}");
    NEXT_IS("b 50");
    NEXT_IS("a 50");
    NEXT_IS("");
    struct queue *watched; /* makes it, as a claim over HTTP does */
    CHECK(engine_watch(r.engine, r.now, s("of-http"), &watched) == OK);
    engine_unwatch(r.engine, watched);
    NEXT_IS("of-http 50");
    restart(&r);
    NEXT_IS("of-http 50");
    NEXT_IS("b 50");
    NEXT_IS("a 50");
    const struct act act = {.actor = s("ann")};
    CHECK(engine_queue_delete(r.engine, r.now, s("b"), true, &act) == OK);
    CHECK(engine_pattern_policy_delete(r.engine, r.now, s("/"), s("p"), &act) == OK);
    NEXT_IS("of-http -1");
    NEXT_IS("a 100");
    NEXT_IS("");
    rig_end(&r);
}

static void lengths(void) {
    struct rig r;
    begin(&r);
    declare(&r, "drop", "{\"x-max-length\":2}");
    for (int i = 0; i < 5; i++)
        CHECK(publish(&r, "", "drop") == 1);
    CHECK(ready(&r, "drop") == 2);
    CHECK(amqp(&r, "drop").max_length == 3);
    restart(&r);
    CHECK(ready(&r, "drop") == 2 && amqp(&r, "drop").max_length == 3);
    policy(&r, "p", "drop", 0, "{\"max-length\":1}");
    CHECK(ready(&r, "drop") == 1);
    declare(&r, "bytes", "{\"x-max-length-bytes\":10}");
    CHECK(publish_with(&r, "", "bytes", NULL, "0123456789") == 1);
    CHECK(publish_with(&r, "", "bytes", NULL, "01234567890") == 1);
    CHECK(ready(&r, "bytes") == 0);
    declare(&r, "reject", "{\"x-max-length\":1,\"x-overflow\":\"reject-publish\"}");
    CHECK(publish(&r, "", "reject") == 1);
    static struct envelope v = {.key_count = 1};
    v.keys[0] = s("reject");
    const struct publish p = {.envelope = &v, .payload = s("x"), .expiration_ms = -1};
    struct published done;
    CHECK(engine_publish(r.engine, r.now, &p, &done) == OK);
    CHECK(done.queues == 0 && done.refused == 1);
    CHECK(ready(&r, "reject") == 1);
    rig_end(&r);
}

static void time_to_live(void) {
    struct rig r;
    begin(&r);
    declare(&r, "ttl", "{\"x-message-ttl\":0}");
    CHECK(publish(&r, "", "ttl") == 1);
    CHECK(ready(&r, "ttl") == 1); /* within the same millisecond */
    r.now++;
    engine_tick(r.engine, r.now);
    CHECK(ready(&r, "ttl") == 0 && amqp(&r, "ttl").expired == 1);
    restart(&r);
    CHECK(amqp(&r, "ttl").expired == 1);
    rig_end(&r);
}

static void transient(void) {
    struct rig r;
    begin(&r);
    bool created;
    const struct queue_declare d = {.name = s("t"), .settings = queue_settings_none()};
    CHECK(engine_queue_declare(r.engine, r.now, &d, &created) == OK && created);
    CHECK(publish(&r, "", "t") == 1);
    const struct exchange_new x = {.name = s("tx"), .type = EXCHANGE_FANOUT};
    CHECK(engine_exchange_declare(r.engine, r.now, &x) == OK);
    /* One that stays for as long as something is bound to it. */
    const struct exchange_new auto_delete = {
        .name = s("auto"), .type = EXCHANGE_FANOUT, .durable = true, .auto_delete = true};
    CHECK(engine_exchange_declare(r.engine, r.now, &auto_delete) == OK);
    struct binding_new b = binding("auto", "tx", "", NULL);
    b.to_exchange = true;
    CHECK(engine_bind(r.engine, r.now, &b) == OK);
    restart(&r);
    struct queue_view q;
    struct exchange_view v;
    CHECK(engine_queue(r.engine, s("t"), &q) == ERR_NO_QUEUE);
    CHECK(engine_exchange(r.engine, s("tx"), &v) == ERR_NO_EXCHANGE);
    CHECK(engine_exchange(r.engine, s("auto"), &v) == ERR_NO_EXCHANGE);
    engine_tick(r.engine, r.now);
    CHECK(engine_stats(r.engine).deleted.discarded == 1);
    rig_end(&r);
}

static void held(void) {
    struct rig r;
    begin(&r);
    declare(&r, "a", NULL);
    publish(&r, "", "a");
    const struct claim claim = {.count = 1, .bytes_max = SIZE_MAX, .lease_ms = CLAIM_HELD};
    uint64_t id;
    size_t n;
    CHECK(engine_claim(r.engine, r.now, s("a"), &claim, &id, &n) == OK && n == 1);
    r.now += INT64_C(1000) * 86400000;
    engine_tick(r.engine, r.now);
    CHECK(ready(&r, "a") == 0);
    restart(&r);
    CHECK(ready(&r, "a") == 1);
    rig_end(&r);
}

static void purge(void) {
    struct rig r;
    begin(&r);
    declare(&r, "a", NULL);
    for (int i = 0; i < 2500; i++)
        publish(&r, "", "a");
    uint64_t n;
    CHECK(engine_queue_purge(r.engine, r.now, s("a"), &n) == OK && n == 2500);
    CHECK(ready(&r, "a") == 0);
    CHECK(engine_queue_purge(r.engine, r.now, s("b"), &n) == ERR_NO_QUEUE);
    restart(&r);
    CHECK(ready(&r, "a") == 0);
    rig_end(&r);
}

int main(void) {
    RUN(default_exchange);
    RUN(direct);
    RUN(topics);
    RUN(headers_exchange);
    RUN(exchanges_to_exchanges);
    RUN(alternate);
    RUN(queue_takes_bindings_with_it);
    RUN(a_chain_goes_in_one_frame);
    RUN(auto_exchanges_stay_and_go);
    RUN(many_go_in_several_frames);
    RUN(vhosts);
    RUN(policies);
    RUN(expires);
    RUN(lengths);
    RUN(time_to_live);
    RUN(transient);
    RUN(held);
    RUN(purge);
    return check_done();
}
