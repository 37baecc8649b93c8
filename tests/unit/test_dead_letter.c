#include "topology_rig.h"

static void begin(struct rig *r) {
    topology_begin(r);
}

static void restart(struct rig *r) {
    topology_restart(r);
}

static struct envelope *envelope_of(struct rig *r, const char *queue, uint64_t id) {
    static struct envelope v;
    struct message_view m = message(r, queue, id);
    CHECK(envelope_unpack(m.envelope, &v) == OK);
    return &v;
}

static void rejected_goes_on(void) {
    struct rig r;
    begin(&r);
    exchange(&r, "dlx", EXCHANGE_DIRECT);
    declare(&r, "work", "{\"x-dead-letter-exchange\":\"dlx\"}");
    declare(&r, "dlq", NULL);
    bind(&r, "dlx", "dlq", "work", NULL);
    publish(&r, "", "work");
    uint64_t id = hold(&r, "work");
    settle_with(&r, "work", id, SETTLE_REJECT, NULL, NULL);
    CHECK(ready(&r, "dlq") == 1 && dead(&r, "work") == 0);
    CHECK(view(&r, "work").ledger.moved_out == 1 && view(&r, "dlq").ledger.moved_in == 1);
    CHECK(view(&r, "work").deaths_by[REASON_REJECTED] == 1);
    for (int round = 0; round < 2; round++) {
        struct envelope *v = envelope_of(&r, "dlq", id);
        CHECK(v->death_count == 1 && v->deaths[0].reason == REASON_REJECTED);
        CHECK(v->deaths[0].count == 1 && span_equal_str(v->deaths[0].queue, "work"));
        CHECK(v->deaths[0].exchange.n == 0 && v->deaths[0].key_count == 1);
        CHECK(span_equal_str(v->exchange, "dlx") && span_equal_str(v->keys[0], "work"));
        restart(&r);
    }
    struct message_view m = message(&r, "dlq", id);
    CHECK(m.deliveries == 1 && span_equal_str(m.origin, "work"));
    CHECK(span_equal_str(m.payload, "payload"));
    rig_end(&r);
}

static void orders_stay(void) {
    struct rig r;
    begin(&r);
    declare(&r, "work", "{\"x-dead-letter-exchange\":\"\",\"x-dead-letter-routing-key\":\"dlq\"}");
    declare(&r, "dlq", NULL);
    uint64_t ids[100];
    for (int i = 0; i < 100; i++)
        publish(&r, "", "work");
    for (int i = 0; i < 100; i++) {
        ids[i] = hold(&r, "work");
        settle_with(&r, "work", ids[i], SETTLE_REJECT, NULL, NULL);
    }
    for (int i = 0; i < 100; i++)
        CHECK(hold(&r, "dlq") == ids[i]);
    rig_end(&r);
}

static void expired_goes_on(void) {
    struct rig r;
    begin(&r);
    declare(&r, "work",
            "{\"x-message-ttl\":10,\"x-dead-letter-exchange\":\"\","
            "\"x-dead-letter-routing-key\":\"dlq\"}");
    declare(&r, "dlq", NULL);
    const char *key = "work";
    publish_all(&r, "", &key, 1, 0, NULL, 5, "short");
    publish_all(&r, "", &key, 1, 0, NULL, 500, "long");
    r.now += 5;
    engine_tick(r.engine, r.now);
    CHECK(ready(&r, "work") == 1 && ready(&r, "dlq") == 1);
    struct envelope *v = envelope_of(&r, "dlq", first_id(&r, "dlq", STATE_PENDING));
    CHECK(v->deaths[0].reason == REASON_EXPIRED && span_equal_str(v->deaths[0].expiration, "5"));
    CHECK(v->expiration.n == 0);
    r.now += 5;
    engine_tick(r.engine, r.now);
    CHECK(ready(&r, "work") == 0 && ready(&r, "dlq") == 2);
    r.now += 1000000;
    engine_tick(r.engine, r.now);
    CHECK(ready(&r, "dlq") == 2); /* the expiration is over */
    rig_end(&r);
}

static void too_long_goes_on(void) {
    struct rig r;
    begin(&r);
    declare(&r, "work",
            "{\"x-max-length\":1,\"x-dead-letter-exchange\":\"\","
            "\"x-dead-letter-routing-key\":\"dlq\"}");
    declare(&r, "dlq", NULL);
    publish_with(&r, "", "work", NULL, "1");
    publish_with(&r, "", "work", NULL, "2");
    publish_with(&r, "", "work", NULL, "3");
    CHECK(ready(&r, "work") == 1 && ready(&r, "dlq") == 2);
    struct message_view m = message(&r, "work", first_id(&r, "work", STATE_PENDING));
    CHECK(span_equal_str(m.payload, "3"));
    m = message(&r, "dlq", first_id(&r, "dlq", STATE_PENDING));
    CHECK(span_equal_str(m.payload, "1"));
    CHECK(envelope_of(&r, "dlq", m.id)->deaths[0].reason == REASON_MAX_LENGTH);
    restart(&r);
    rig_end(&r);
}

static void refused_and_dead_lettered(void) {
    struct rig r;
    begin(&r);
    declare(&r, "work",
            "{\"x-max-length\":1,\"x-overflow\":\"reject-publish-dlx\","
            "\"x-dead-letter-exchange\":\"\",\"x-dead-letter-routing-key\":\"dlq\"}");
    declare(&r, "dlq", NULL);
    const char *key = "work";
    CHECK(publish(&r, "", "work") == 1);
    struct published done = publish_all(&r, "", &key, 1, 0, NULL, -1, "2");
    CHECK(done.queues == 0 && done.refused == 1);
    CHECK(ready(&r, "work") == 1 && ready(&r, "dlq") == 1);
    CHECK(view(&r, "work").ledger.accepted == 2 && view(&r, "work").ledger.moved_out == 1);
    restart(&r);
    CHECK(ready(&r, "work") == 1 && ready(&r, "dlq") == 1);
    rig_end(&r);
}

static void delivered_too_often(void) {
    struct rig r;
    begin(&r);
    declare(&r, "work",
            "{\"x-queue-type\":\"quorum\",\"x-delivery-limit\":2,\"x-dead-letter-exchange\":\"\","
            "\"x-dead-letter-routing-key\":\"dlq\"}");
    declare(&r, "dlq", "{\"x-queue-type\":\"quorum\",\"x-delivery-limit\":0}");
    publish(&r, "", "work");
    for (int i = 0; i < 3; i++) {
        CHECK(ready(&r, "work") == 1);
        settle_with(&r, "work", hold(&r, "work"), SETTLE_RETURN, NULL, NULL);
    }
    CHECK(ready(&r, "work") == 0 && ready(&r, "dlq") == 1);
    uint64_t id = first_id(&r, "dlq", STATE_PENDING);
    CHECK(envelope_of(&r, "dlq", id)->deaths[0].reason == REASON_DELIVERY_LIMIT);
    /* It counts anew there; without an exchange it rests. */
    settle_with(&r, "dlq", hold(&r, "dlq"), SETTLE_RETURN, "Class", "what went wrong");
    CHECK(dead(&r, "dlq") == 1);
    struct message_view m = message(&r, "dlq", id);
    CHECK(m.reason == REASON_DELIVERY_LIMIT && !m.is_unroutable);
    CHECK(span_equal_str(m.error_class, "Class"));
    restart(&r);
    declare(&r, "default", "{\"x-queue-type\":\"quorum\"}");
    publish(&r, "", "default");
    for (int i = 0; i < 21; i++) {
        CHECK(ready(&r, "default") == 1);
        settle_with(&r, "default", hold(&r, "default"), SETTLE_RETURN, NULL, NULL);
    }
    CHECK(dead(&r, "default") == 1);
    rig_end(&r);
}

static void rests_where_nothing_is_found(void) {
    struct rig r;
    begin(&r);
    declare(&r, "work", "{\"x-dead-letter-exchange\":\"absent\"}");
    publish(&r, "", "work");
    publish(&r, "", "work");
    publish(&r, "", "work");
    reject(&r, "work");
    CHECK(dead(&r, "work") == 1);
    exchange(&r, "absent", EXCHANGE_FANOUT);
    reject(&r, "work");
    CHECK(dead(&r, "work") == 2);
    uint64_t id = first_id(&r, "work", STATE_DEAD);
    restart(&r);
    struct message_view m = message(&r, "work", id);
    CHECK(m.is_unroutable && m.reason == REASON_REJECTED);
    declare(&r, "dlq", NULL);
    bind(&r, "absent", "dlq", "", NULL);
    reject(&r, "work");
    CHECK(dead(&r, "work") == 2 && ready(&r, "dlq") == 1);
    /* Sent again, it goes its way. */
    rig_replay(&r, "work", id);
    CHECK(!message(&r, "work", id).is_unroutable);
    CHECK(span_equal_str(envelope_of(&r, "work", id)->keys[0], "work"));
    reject(&r, "work");
    CHECK(ready(&r, "dlq") == 2);
    rig_end(&r);
}

static void deaths_are_cleared(void) {
    struct rig r;
    begin(&r);
    declare(&r, "work", "{\"x-dead-letter-exchange\":\"\",\"x-dead-letter-routing-key\":\"dlq\"}");
    declare(&r, "dlq", NULL);
    for (int i = 0; i < 3; i++) {
        publish(&r, "", "work");
        reject(&r, "work");
        reject(&r, "dlq");
    }
    uint64_t first = first_id(&r, "dlq", STATE_DEAD);
    const struct act act = {.actor = s("ann")};
    CHECK(engine_replay(r.engine, r.now, s("dlq"), first, true, true, &act) == OK);
    restart(&r);
    struct envelope *v = envelope_of(&r, "dlq", first);
    CHECK(v->death_count == 0 && span_equal_str(v->keys[0], "dlq"));
    CHECK(message(&r, "dlq", first).redrive_count == 1);
    const struct job_new job = {.kind = JOB_REDRIVE,
                                .queue = s("dlq"),
                                .act = act,
                                .stop_if_ppm = STOP_NEVER,
                                .clear_deaths = true};
    uint32_t number;
    CHECK(engine_job_start(r.engine, r.now, &job, &number) == OK);
    while (engine_tick(r.engine, r.now) <= r.now)
        rig_commit(&r);
    CHECK(ready(&r, "dlq") == 3);
    struct job_view seen;
    CHECK(engine_job(r.engine, r.now, number, &seen) == OK && seen.clear_deaths);
    uint64_t id;
    while ((id = hold(&r, "dlq")))
        CHECK(envelope_of(&r, "dlq", id)->death_count == 0);
    restart(&r);
    rig_end(&r);
}

/* What receivers see of its deaths counts for an exchange that looks at headers. */
static void headers_of_deaths(void) {
    struct rig r;
    begin(&r);
    exchange(&r, "dlx", EXCHANGE_HEADERS);
    declare(&r, "work", "{\"x-max-length\":0,\"x-dead-letter-exchange\":\"dlx\"}");
    declare(&r, "a", NULL);
    declare(&r, "b", NULL);
    bind(&r, "dlx", "a", "",
         "{\"x-match\":\"all-with-x\",\"x-first-death-reason\":\"maxlen\","
         "\"x-last-death-queue\":\"work\"}");
    bind(&r, "dlx", "b", "", "{\"x-match\":\"any-with-x\",\"x-first-death-reason\":\"rejected\"}");
    publish_with(&r, "", "work", "{\"x-first-death-reason\":\"rejected\"}", "payload");
    CHECK(ready(&r, "a") == 1 && ready(&r, "b") == 0);
    rig_end(&r);
}

static void cycles(void) {
    struct rig r;
    begin(&r);
    declare(&r, "self",
            "{\"x-message-ttl\":1,\"x-dead-letter-exchange\":\"\","
            "\"x-dead-letter-routing-key\":\"self\"}");
    publish(&r, "", "self");
    reject(&r, "self"); /* never a cycle */
    CHECK(ready(&r, "self") == 1);
    reject(&r, "self");
    struct envelope *v = envelope_of(&r, "self", first_id(&r, "self", STATE_PENDING));
    CHECK(v->death_count == 1 && v->deaths[0].count == 2);
    r.now += 2;
    engine_tick(r.engine, r.now);
    CHECK(ready(&r, "self") == 0 && dead(&r, "self") == 1);
    struct message_view m = message(&r, "self", first_id(&r, "self", STATE_DEAD));
    CHECK(m.is_unroutable && m.reason == REASON_EXPIRED);

    /* Two that are too long for each other. */
    declare(&r, "a",
            "{\"x-max-length\":1,\"x-dead-letter-exchange\":\"\","
            "\"x-dead-letter-routing-key\":\"b\"}");
    declare(&r, "b",
            "{\"x-max-length\":1,\"x-dead-letter-exchange\":\"\","
            "\"x-dead-letter-routing-key\":\"a\"}");
    for (int i = 0; i < 10; i++)
        publish(&r, "", i % 2 ? "a" : "b");
    CHECK(ready(&r, "a") == 1 && ready(&r, "b") == 1);
    CHECK(dead(&r, "a") + dead(&r, "b") == 8);
    restart(&r);
    rig_end(&r);
}

static void keys_that_are_kept(void) {
    struct rig r;
    begin(&r);
    exchange(&r, "in", EXCHANGE_DIRECT);
    exchange(&r, "dlx", EXCHANGE_DIRECT);
    declare(&r, "work", "{\"x-dead-letter-exchange\":\"dlx\"}");
    declare(&r, "one", NULL);
    declare(&r, "cc", NULL);
    declare(&r, "bcc", NULL);
    bind(&r, "in", "work", "one", NULL);
    bind(&r, "dlx", "one", "one", NULL);
    bind(&r, "dlx", "cc", "cc", NULL);
    bind(&r, "dlx", "bcc", "bcc", NULL);
    const char *keys[] = {"one", "cc", "bcc"};
    publish_all(&r, "in", keys, 3, 1, NULL, -1, "payload");
    uint64_t id = hold(&r, "work");
    settle_with(&r, "work", id, SETTLE_REJECT, NULL, NULL);
    CHECK(ready(&r, "one") == 1 && ready(&r, "cc") == 1 && ready(&r, "bcc") == 1);
    CHECK(first_id(&r, "one", STATE_PENDING) == id); /* the oldest queue has itself */
    CHECK(view(&r, "one").ledger.moved_in == 1 && view(&r, "cc").ledger.accepted == 1);
    uint64_t copy = first_id(&r, "bcc", STATE_PENDING);
    struct envelope *v = envelope_of(&r, "bcc", copy);
    CHECK(v->deaths[0].key_count == 2 && span_equal_str(v->deaths[0].exchange, "in"));
    struct message_view m = message(&r, "bcc", copy);
    CHECK(span_equal_str(m.origin, "work") && m.deliveries == 0);
    restart(&r);
    CHECK(ready(&r, "one") == 1 && ready(&r, "cc") == 1 && ready(&r, "bcc") == 1);
    rig_end(&r);
}

/* The power goes before, in, or after the frame of a death that goes to three queues. */
static void all_of_it_or_nothing(void) {
    for (int with_commit = 0; with_commit < 2; with_commit++) {
        struct rig r;
        begin(&r);
        exchange(&r, "dlx", EXCHANGE_FANOUT);
        declare(&r, "work", "{\"x-dead-letter-exchange\":\"dlx\"}");
        const char *queues[] = {"a", "b", "c"};
        for (int i = 0; i < 3; i++) {
            declare(&r, queues[i], NULL);
            bind(&r, "dlx", queues[i], "", NULL);
        }
        publish(&r, "", "work");
        rig_commit(&r);
        reject(&r, "work");
        if (with_commit)
            rig_commit(&r);
        rig_close(&r);
        crash_io_restart(r.disk, true);
        rig_open(&r);
        while (engine_begin(r.engine, r.now))
            continue;
        uint64_t there = ready(&r, "work"), gone = 0;
        for (int i = 0; i < 3; i++)
            gone += ready(&r, queues[i]);
        CHECK(with_commit ? there == 0 && gone == 3 : there == 1 && gone == 0);
        rig_end(&r);
    }
}

static void without_an_exchange(void) {
    struct rig r;
    begin(&r);
    declare(&r, "ttl", "{\"x-message-ttl\":0}");
    declare(&r, "keeps", "{\"x-message-ttl\":0,\"x-nixie-keep\":true}");
    for (int i = 0; i < 10; i++) {
        publish(&r, "", "ttl");
        publish(&r, "", "keeps");
    }
    r.now++;
    engine_tick(r.engine, r.now);
    CHECK(dead(&r, "ttl") == 0 && dead(&r, "keeps") == 10);
    CHECK(view(&r, "ttl").ledger.discarded == 10 && amqp(&r, "ttl").expired == 10);
    restart(&r);
    CHECK(dead(&r, "ttl") == 0 && dead(&r, "keeps") == 10);
    CHECK(view(&r, "ttl").ledger.discarded == 10 && amqp(&r, "ttl").expired == 10);
    declare(&r, "work", NULL);
    publish(&r, "", "work");
    reject(&r, "work");
    CHECK(dead(&r, "work") == 1);
    CHECK(!message(&r, "work", first_id(&r, "work", STATE_DEAD)).is_unroutable);
    rig_end(&r);
}

static void facts_of_headers(void) {
    struct rig r;
    begin(&r);
    declare(&r, "work", NULL);
    publish_with(&r, "", "work",
                 "{\"x-error-class\":\"Boom\",\"x-error\":\"it broke\",\"x-error-detail\":\"d\"}",
                 "payload");
    reject(&r, "work");
    struct message_view m = message(&r, "work", first_id(&r, "work", STATE_DEAD));
    struct group_view g;
    CHECK(engine_group(r.engine, r.now, m.group_key, &g) == OK);
    CHECK(span_equal_str(g.error_class, "Boom"));
    publish(&r, "", "work");
    settle_with(&r, "work", hold(&r, "work"), SETTLE_REJECT, "Other", "text");
    CHECK(dead(&r, "work") == 2);
    rig_end(&r);
}

/* A queue of HTTP's that is full sends what is too much to its target. */
static void overflow_goes_to_the_target(void) {
    struct rig r;
    begin(&r);
    bool created;
    struct policy p = policy_default();
    p.messages_max = 2;
    p.overflow = OVERFLOW_DEAD;
    p.target_reasons = UINT32_MAX;
    const struct policy_texts texts = {.target = s("dlq")};
    const struct act act = {.actor = s("ann")};
    CHECK(engine_queue_put(r.engine, r.now, s("dlq"), NULL, NULL, &act, &created) == OK);
    CHECK(engine_queue_put(r.engine, r.now, s("work"), &p, &texts, &act, &created) == OK);
    const struct rig_death d = {.queue = "work", .payload = "p"};
    rig_enqueue(&r, &d, 5);
    CHECK(ready(&r, "work") == 2 && dead(&r, "work") == 0 && ready(&r, "dlq") == 3);
    CHECK(view(&r, "work").ledger.accepted == 5 && view(&r, "work").ledger.moved_out == 3);
    restart(&r);
    CHECK(ready(&r, "work") == 2 && dead(&r, "work") == 0 && ready(&r, "dlq") == 3);
    rig_end(&r);
}

static void http_and_settings(void) {
    struct rig r;
    begin(&r);
    declare(&r, "full", "{\"x-max-length\":1,\"x-overflow\":\"reject-publish\"}");
    const struct message_new items[2] = {{.payload = s("1"), .delay_ms = -1, .ttl_ms = -1},
                                         {.payload = s("2"), .delay_ms = -1, .ttl_ms = -1}};
    struct enqueued done[2];
    CHECK(engine_enqueue(r.engine, r.now, s("full"), items, 2, done) == ERR_QUEUE_FULL);
    CHECK(engine_enqueue(r.engine, r.now, s("full"), items, 1, done) == OK);
    CHECK(engine_enqueue(r.engine, r.now, s("full"), items, 1, done) == ERR_QUEUE_FULL);
    /* Its failures go through the exchange as well. */
    declare(&r, "dlq", NULL);
    declare(&r, "work", "{\"x-dead-letter-exchange\":\"\",\"x-dead-letter-routing-key\":\"dlq\"}");
    const struct rig_death d = {.queue = "work", .payload = "p", .error = "e"};
    uint64_t id;
    rig_die(&r, &d, 1, &id);
    CHECK(ready(&r, "dlq") == 1);
    struct envelope *v = envelope_of(&r, "dlq", id);
    CHECK(v->deaths[0].reason == REASON_DELIVERY_LIMIT && v->deaths[0].key_count == 1);
    CHECK(span_equal_str(v->deaths[0].keys[0], "work"));
    rig_end(&r);
}

/* What is not in a queue's head may be the last thing to die: of the lowest priority, oldest first. */
static void priorities(void) {
    struct rig r;
    begin(&r);
    declare(&r, "work", "{\"x-max-length\":2,\"x-max-priority\":5}");
    static struct envelope v = {.key_count = 1};
    v.keys[0] = s("work");
    const uint8_t given[] = {9, 1, 3, 4};
    struct published done;
    for (int i = 0; i < 4; i++) {
        const struct publish p = {
            .envelope = &v, .payload = s("x"), .priority = given[i], .expiration_ms = -1};
        CHECK(engine_publish(r.engine, r.now, &p, &done) == OK);
    }
    CHECK(message(&r, "work", hold(&r, "work")).priority == 5);
    CHECK(message(&r, "work", hold(&r, "work")).priority == 4);
    CHECK(ready(&r, "work") == 0);
    rig_end(&r);
}

static void returns_that_are_too_many(void) {
    struct rig r;
    begin(&r);
    declare(&r, "work", "{\"x-max-length\":1}");
    publish(&r, "", "work");
    uint64_t id = hold(&r, "work");
    publish(&r, "", "work");
    CHECK(ready(&r, "work") == 1);
    settle_with(&r, "work", id, SETTLE_RETURN, NULL, NULL);
    CHECK(ready(&r, "work") == 1 && first_id(&r, "work", STATE_PENDING) != id);
    CHECK(amqp(&r, "work").max_length == 1);
    rig_end(&r);
}

/* What came through an exchange stands behind what is there, though its id is smaller. */
static void too_long_loses_its_oldest(void) {
    struct rig r;
    begin(&r);
    declare(&r, "first",
            "{\"x-dead-letter-exchange\":\"\",\"x-dead-letter-routing-key\":\"work\"}");
    declare(&r, "work", "{\"x-nixie-keep\":true}");
    publish(&r, "", "first");
    publish(&r, "", "work");
    uint64_t came = hold(&r, "first"), old = hold(&r, "work");
    const struct settle item = {.action = SETTLE_FAIL, .id = old, .error = s("it broke")};
    enum err result;
    CHECK(engine_settle(r.engine, r.now, s("work"), &item, 1, &result) == OK && result == OK);
    settle_with(&r, "first", came, SETTLE_REJECT, NULL, NULL);
    CHECK(came < old && ready(&r, "work") == 2);
    policy(&r, "short", "^work$", 0, "{\"max-length\":1}");
    CHECK(first_id(&r, "work", STATE_PENDING) == came && first_id(&r, "work", STATE_DEAD) == old);
    rig_end(&r);
}

/* Of several that find a queue of HTTP's full, each goes its own way. */
static void overflow_goes_its_own_way(void) {
    struct rig r;
    begin(&r);
    bool created;
    struct policy p = policy_default();
    p.messages_max = 1;
    p.overflow = OVERFLOW_DEAD;
    const struct act act = {.actor = s("ann")};
    CHECK(engine_queue_put(r.engine, r.now, s("work"), &p, NULL, &act, &created) == OK);
    declare(&r, "dlq", NULL);
    bind(&r, "amq.headers", "dlq", "", "{\"a\":1}");
    policy(&r, "dlx", "^work$", 0, "{\"dead-letter-exchange\":\"amq.headers\"}");
    struct message_new items[3] = {{.payload = s("1"), .delay_ms = -1, .ttl_ms = -1},
                                   {.payload = s("2"), .delay_ms = -1, .ttl_ms = -1},
                                   {.payload = s("3"), .delay_ms = -1, .ttl_ms = -1}};
    items[2].headers = s("{\"a\":1}");
    struct enqueued done[3];
    CHECK(engine_enqueue(r.engine, r.now, s("work"), items, 3, done) == OK);
    CHECK(ready(&r, "work") == 1 && ready(&r, "dlq") == 1 && dead(&r, "work") == 1);
    CHECK(message(&r, "work", done[1].id).is_unroutable);
    rig_end(&r);
}

/* A letter that a job sends to another queue is there by that queue's settings. */
static void redriven_elsewhere(void) {
    struct rig r;
    begin(&r);
    declare(&r, "work", "{\"x-max-priority\":9}");
    declare(&r, "delay",
            "{\"x-message-ttl\":10,\"x-dead-letter-exchange\":\"\","
            "\"x-dead-letter-routing-key\":\"work\"}");
    const struct message_new m = {.payload = s("p"), .priority = 5, .delay_ms = -1, .ttl_ms = -1};
    struct enqueued done;
    CHECK(engine_enqueue(r.engine, r.now, s("work"), &m, 1, &done) == OK);
    reject(&r, "work");
    const struct job_new job = {
        .kind = JOB_REDRIVE, .queue = s("work"), .to = s("delay"), .stop_if_ppm = STOP_NEVER};
    uint32_t number;
    CHECK(engine_job_start(r.engine, r.now, &job, &number) == OK);
    engine_tick(r.engine, r.now);
    struct message_view v = message(&r, "delay", done.id);
    CHECK(v.priority == 0 && v.ttl_ms == 10 && v.expires_at == r.now + 10);
    restart(&r);
    r.now += 10;
    engine_tick(r.engine, r.now);
    CHECK(ready(&r, "delay") == 0 && ready(&r, "work") == 1);
    rig_end(&r);
}

static void chains_are_bounded(void) {
    struct rig r;
    begin(&r);
    char name[16], arguments[128];
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "q%d", i);
        snprintf(arguments, sizeof arguments,
                 "{\"x-max-length\":0,\"x-dead-letter-exchange\":\"\","
                 "\"x-dead-letter-routing-key\":\"q%d\"}",
                 i + 1);
        declare(&r, name, arguments);
    }
    declare(&r, "q100", NULL);
    for (int i = 0; i < 30; i++)
        publish(&r, "", "q0");
    for (int i = 0; i < 100; i++) { /* it waits for the disk now and then */
        rig_commit(&r);
        engine_tick(r.engine, r.now);
    }
    CHECK(ready(&r, "q100") == 30);
    restart(&r);
    rig_end(&r);
}

int main(void) {
    RUN(rejected_goes_on);
    RUN(orders_stay);
    RUN(expired_goes_on);
    RUN(too_long_goes_on);
    RUN(refused_and_dead_lettered);
    RUN(delivered_too_often);
    RUN(rests_where_nothing_is_found);
    RUN(deaths_are_cleared);
    RUN(headers_of_deaths);
    RUN(cycles);
    RUN(keys_that_are_kept);
    RUN(all_of_it_or_nothing);
    RUN(without_an_exchange);
    RUN(facts_of_headers);
    RUN(overflow_goes_to_the_target);
    RUN(http_and_settings);
    RUN(priorities);
    RUN(returns_that_are_too_many);
    RUN(too_long_loses_its_oldest);
    RUN(overflow_goes_its_own_way);
    RUN(redriven_elsewhere);
    RUN(chains_are_bounded);
    return check_done();
}
