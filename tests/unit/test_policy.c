#include "field_errors.h"

#include "model/message.h"
#include "model/policy.h"

/* Of the policy read last. */
static struct json *tree;
static struct buf memory;
static struct policy_texts texts;

static struct policy read_span(struct span text) {
    struct json_error error;
    json_free(tree);
    tree = json_parse(text, &error);
    CHECK(tree != NULL);
    errors.count = 0;
    return policy_from_json(tree, &errors, &memory, &texts);
}

static struct policy read(const char *text) {
    return read_span(span_str(text));
}

static bool refused(const char *text, const char *field, const char *code) {
    read(text);
    return said_alone(field, code);
}

static void default_backoff_is_the_contract(void) {
    struct policy p = policy_default();
    for (unsigned n = 1; n <= 250; n++) {
        int64_t seconds = n < 12 ? INT64_C(1) << n : 3600;
        if (seconds > 3600)
            seconds = 3600;
        CHECK_EQ(backoff_delay_ms(&p.backoff, n, n * 7), seconds * 1000);
    }
    CHECK_EQ(p.max_retries, 3);
    CHECK_EQ(p.redrive_limit, 3);
}

static void fixed_and_list(void) {
    struct policy p = read("{\"backoff\": {\"kind\": \"fixed\", \"base_seconds\": 7}}");
    CHECK_EQ(errors.count, 0);
    CHECK_EQ(backoff_delay_ms(&p.backoff, 1, 0), 7000);
    CHECK_EQ(backoff_delay_ms(&p.backoff, 200, 0), 7000);

    p = read("{\"backoff\": {\"kind\": \"list\", \"list_seconds\": [1, 0, 31536000]}}");
    CHECK_EQ(errors.count, 0);
    CHECK_EQ(backoff_delay_ms(&p.backoff, 1, 0), 1000);
    CHECK_EQ(backoff_delay_ms(&p.backoff, 2, 0), 0);
    CHECK_EQ(backoff_delay_ms(&p.backoff, 3, 0), INT64_C(31536000000));
    CHECK_EQ(backoff_delay_ms(&p.backoff, 9, 0), INT64_C(31536000000));
}

static void fractional_factor_and_cap(void) {
    struct policy p =
        read("{\"backoff\": {\"base_seconds\": 2, \"factor\": 1.5, \"cap_seconds\": 5}}");
    CHECK_EQ(errors.count, 0);
    CHECK_EQ(p.backoff.factor_milli, 1500);
    CHECK_EQ(backoff_delay_ms(&p.backoff, 1, 0), 3000);
    CHECK_EQ(backoff_delay_ms(&p.backoff, 2, 0), 4500);
    CHECK_EQ(backoff_delay_ms(&p.backoff, 3, 0), 5000);

    p = read("{\"backoff\": {\"factor\": 1, \"base_seconds\": 3}}");
    CHECK_EQ(backoff_delay_ms(&p.backoff, 250, 0), 3000);
    p = read("{\"backoff\": {\"base_seconds\": 0}}");
    CHECK_EQ(backoff_delay_ms(&p.backoff, 250, 0), 0);
    p = read(
        "{\"backoff\": {\"base_seconds\": 31536000, \"factor\": 100, \"cap_seconds\": 31536000}}");
    CHECK_EQ(backoff_delay_ms(&p.backoff, 250, 0), INT64_C(31536000000));
}

static void jitter_stays_within_its_bounds(void) {
    struct policy full =
        read("{\"backoff\": {\"kind\": \"fixed\", \"base_seconds\": 1, \"jitter\": \"full\"}}");
    struct policy equal =
        read("{\"backoff\": {\"kind\": \"fixed\", \"base_seconds\": 1, \"jitter\": \"equal\"}}");
    bool low_seen = false, high_seen = false;
    for (uint64_t random = 0; random < 5000; random++) {
        int64_t a = backoff_delay_ms(&full.backoff, 1, random * UINT64_C(0x9e3779b97f4a7c15));
        int64_t b = backoff_delay_ms(&equal.backoff, 1, random * UINT64_C(0x9e3779b97f4a7c15));
        CHECK(a >= 0 && a <= 1000);
        CHECK(b >= 500 && b <= 1000);
        low_seen = low_seen || a < 100;
        high_seen = high_seen || b > 900;
    }
    CHECK(low_seen && high_seen);
    CHECK_EQ(backoff_delay_ms(&full.backoff, 1, 1000), 1000);
    CHECK_EQ(backoff_delay_ms(&full.backoff, 1, 1001), 0);
}

static void bad_policies_name_the_field(void) {
    CHECK(refused("{\"max_retries\": 251}", "max_retries", "out_of_range"));
    CHECK(refused("{\"max_retries\": \"3\"}", "max_retries", "wrong_type"));
    CHECK(refused("{\"lease_seconds\": 0}", "lease_seconds", "out_of_range"));
    CHECK(refused("{\"lease_secs\": 1}", "lease_secs", "unknown_field"));
    CHECK(refused("{\"redrive_limit\": 1001}", "redrive_limit", "out_of_range"));
    CHECK(refused("{\"redrive_limit\": -1}", "redrive_limit", "out_of_range"));
    CHECK(refused("{\"redrive_limit\": null}", "redrive_limit", "wrong_type"));
    CHECK(refused("{\"backoff\": 1}", "backoff", "wrong_type"));
    CHECK(refused("{\"backoff\": {\"kind\": \"linear\"}}", "backoff.kind", "out_of_range"));
    CHECK(refused("{\"backoff\": {\"factor\": 0.5}}", "backoff.factor", "out_of_range"));
    CHECK(refused("{\"backoff\": {\"kind\": \"list\"}}", "backoff.list_seconds", "required"));
    CHECK(refused("{\"backoff\": {\"kind\": \"list\", \"list_seconds\": []}}",
                  "backoff.list_seconds", "out_of_range"));
    CHECK(refused("{\"backoff\": {\"kind\": \"list\", \"list_seconds\": [1, -1]}}",
                  "backoff.list_seconds[1]", "out_of_range"));
    CHECK(refused("{\"backoff\": {\"kind\": \"list\", \"list_seconds\": [1, true]}}",
                  "backoff.list_seconds[1]", "wrong_type"));
    CHECK(refused("{\"backoff\": {\"kind\": \"fixed\", \"factor\": 2}}", "backoff.factor",
                  "not_allowed"));
    CHECK(refused("{\"backoff\": {\"list_seconds\": [1]}}", "backoff.list_seconds", "not_allowed"));
    CHECK(refused("{\"retention\": {\"dead_seconds\": 0}}", "retention.dead_seconds",
                  "out_of_range"));
    CHECK(refused("{\"retention\": {\"succeded_max\": 0}}", "retention.succeded_max",
                  "unknown_field"));
    CHECK(refused("[]", "body", "wrong_type"));
}

/* A copy of the texts read last. */
struct kept {
    struct buf bytes;
    struct policy_texts texts;
};

static struct kept keep(void) {
    struct kept k;
    struct span spans[POLICY_TEXTS];
    policy_texts_spans(&texts, spans);
    buf_init(&k.bytes, 65536);
    for (int i = 0; i < POLICY_TEXTS; i++)
        buf_add_span(&k.bytes, spans[i]);
    const uint8_t *at = k.bytes.p;
    for (int i = 0; i < POLICY_TEXTS; i++) {
        spans[i].p = at;
        at = spans[i].n > 0 ? at + spans[i].n : at;
    }
    k.texts = policy_texts_of(spans);
    return k;
}

static void let_go(struct kept *k) {
    buf_release(&k->bytes);
}

static void the_written_form_reads_back_the_same(void) {
    static const char *const forms[] = {
        "{}",
        "{\"max_retries\": 250, \"lease_seconds\": 43200, \"delay_seconds\": 5, \"ttl_seconds\": "
        "60}",
        "{\"ttl_seconds\": null, \"max_messages\": 10, \"max_bytes\": 9007199254740991}",
        "{\"redrive_limit\": 0}",
        "{\"redrive_limit\": 1000}",
        "{\"backoff\": {\"factor\": 1.25, \"jitter\": \"equal\"}}",
        "{\"backoff\": {\"kind\": \"fixed\", \"base_seconds\": 9, \"jitter\": \"full\"}}",
        "{\"backoff\": {\"kind\": \"list\", \"list_seconds\": [1, 2, 3]}}",
        "{\"retention\": {\"succeeded_seconds\": 0, \"succeeded_max\": 0, \"dead_seconds\": "
        "315360000}}",
        "{\"max_deliveries\": 1000000, \"retry_budget\": 0.333333, \"overflow\": \"dead\", "
        "\"order\": \"block\", \"owner\": \"mail \\u0000 team\"}",
        "{\"breaker\": {\"share\": 0.123457, \"min_outcomes\": 100000, \"window_seconds\": 1, "
        "\"open_seconds\": 1, \"probes\": 7, \"error\": \"Time*\"}, \"order\": \"park\"}",
        "{\"dead_target\": {\"queue\": \"morgue\", \"reasons\": [\"lease_expired\", "
        "\"max_retries\"]}, \"allow_from\": [], \"rules\": [], \"alerts\": []}",
        "{\"dead_target\": {\"queue\": \"morgue\"}, \"allow_from\": [\"a\", \"b\\n\"], "
        "\"rules\": [{\"action\": \"release\", \"error\": \"a*\", \"delay_seconds\": 5}], "
        "\"alerts\": [{\"kind\": \"oldest_age\", \"url\": \"http://h/\", \"share\": 0.5}]}",
    };
    struct buf out;
    buf_init(&out, 65536);
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        struct policy p = read(forms[i]);
        CHECK_EQ(errors.count, 0);
        struct json_writer w;
        buf_clear(&out);
        json_writer_init(&w, &out);
        policy_to_json(&p, &texts, &w);
        struct kept kept = keep();
        struct policy again = read_span(buf_span(&out));
        CHECK_EQ(errors.count, 0);
        CHECK(policy_equal(&p, &again));
        CHECK(policy_texts_equal(&kept.texts, &texts));
        let_go(&kept);
    }
    buf_release(&out);
}

/* -- the guards ------------------------------------------------------------------------------ */

static void guards_are_off_by_default(void) {
    struct policy p = read("{}"), wanted = policy_default();
    CHECK(policy_equal(&p, &wanted));
    CHECK(!p.breaker.is_on);
    CHECK_EQ(p.deliveries_max, 0);
    CHECK_EQ(p.retry_budget_ppm, 0);
    CHECK_EQ(p.overflow, OVERFLOW_REJECT);
    CHECK_EQ(p.order, ORDER_NONE);
    struct span spans[POLICY_TEXTS];
    policy_texts_spans(&texts, spans);
    for (int i = 0; i < POLICY_TEXTS; i++)
        CHECK_EQ(spans[i].n, 0);

    struct policy nulls = read(
        "{\"max_deliveries\": null, \"retry_budget\": null, \"breaker\": null, \"owner\": null, "
        "\"rules\": null, \"dead_target\": null, \"allow_from\": null, \"alerts\": null}");
    CHECK_EQ(errors.count, 0);
    CHECK(policy_equal(&nulls, &wanted));
    nulls = policy_from_json(NULL, &errors, &memory, &texts);
    CHECK(policy_equal(&nulls, &wanted));
}

static void guards_are_read(void) {
    struct policy p =
        read("{\"max_deliveries\": 20, \"retry_budget\": 0.2, \"overflow\": \"dead\", \"order\": "
             "\"park\", \"owner\": \"mail team\", \"breaker\": {}}");
    CHECK_EQ(errors.count, 0);
    CHECK_EQ(p.deliveries_max, 20);
    CHECK_EQ(p.retry_budget_ppm, 200000);
    CHECK_EQ(p.overflow, OVERFLOW_DEAD);
    CHECK_EQ(p.order, ORDER_PARK);
    CHECK(span_equal_str(texts.owner, "mail team"));
    CHECK(p.breaker.is_on);
    CHECK_EQ(p.breaker.share_ppm, 500000);
    CHECK_EQ(p.breaker.outcomes_min, 20);
    CHECK_EQ(p.breaker.window_ms, 60000);
    CHECK_EQ(p.breaker.open_ms, 30000);
    CHECK_EQ(p.breaker.probes, 1);
    CHECK_EQ(texts.breaker_error.n, 0);

    p = read("{\"breaker\": {\"share\": 0.001, \"min_outcomes\": 1, \"window_seconds\": 3600, "
             "\"open_seconds\": 86400, \"probes\": 1000, \"error\": \"Timeout*\"}}");
    CHECK_EQ(errors.count, 0);
    CHECK_EQ(p.breaker.share_ppm, 1000);
    CHECK_EQ(p.breaker.window_ms, 3600000);
    CHECK(span_equal_str(texts.breaker_error, "Timeout*"));
}

static void a_target_takes_some_reasons_or_all(void) {
    struct policy p = read("{\"dead_target\": {\"queue\": \"morgue\"}}");
    CHECK_EQ(errors.count, 0);
    CHECK(span_equal_str(texts.target, "morgue"));
    CHECK_EQ(p.target_reasons, policy_default().target_reasons);
    for (int r = REASON_NONE; r < REASON_COUNT; r++)
        CHECK_EQ(p.target_reasons >> r & 1, r != REASON_NONE);

    p = read("{\"dead_target\": {\"queue\": \"morgue\", \"reasons\": [\"expired\", \"manual\", "
             "\"expired\"]}}");
    CHECK_EQ(errors.count, 0);
    CHECK_EQ(p.target_reasons, 1U << REASON_EXPIRED | 1U << REASON_MANUAL);
}

static void json_texts_are_kept_as_json(void) {
    read("{\"allow_from\": [ \"a\",\"b\" ], \"rules\": [{ \"action\": \"dead\" }], \"alerts\": "
         "[{\"kind\": \"rate\", \"url\": \"https://example.org/\"}]}");
    CHECK_EQ(errors.count, 0);
    CHECK(span_equal_str(texts.allow_from, "[\"a\",\"b\"]"));
    CHECK(span_equal_str(texts.rules, "[{\"action\":\"dead\"}]"));
    CHECK(span_equal_str(texts.alerts, "[{\"kind\":\"rate\",\"url\":\"https://example.org/\"}]"));

    /* Nobody is not the same as everybody. */
    read("{\"allow_from\": []}");
    CHECK(span_equal_str(texts.allow_from, "[]"));
}

static void bad_guards_name_the_field(void) {
    CHECK(refused("{\"max_deliveries\": 0}", "max_deliveries", "out_of_range"));
    CHECK(refused("{\"retry_budget\": 0}", "retry_budget", "out_of_range"));
    CHECK(refused("{\"retry_budget\": \"10%\"}", "retry_budget", "wrong_type"));
    CHECK(refused("{\"overflow\": \"drop\"}", "overflow", "out_of_range"));
    CHECK(refused("{\"order\": \"fifo\"}", "order", "out_of_range"));
    CHECK(refused("{\"owner\": 7}", "owner", "wrong_type"));
    CHECK(refused("{\"breaker\": true}", "breaker", "wrong_type"));
    CHECK(refused("{\"breaker\": {\"share\": 1.5}}", "breaker.share", "out_of_range"));
    CHECK(refused("{\"breaker\": {\"min\": 1}}", "breaker.min", "unknown_field"));
    CHECK(refused("{\"breaker\": {\"probes\": 0}}", "breaker.probes", "out_of_range"));
    CHECK(refused("{\"dead_target\": \"morgue\"}", "dead_target", "wrong_type"));
    CHECK(refused("{\"dead_target\": {}}", "dead_target.queue", "required"));
    CHECK(refused("{\"dead_target\": {\"queue\": 1}}", "dead_target.queue", "wrong_type"));
    CHECK(refused("{\"dead_target\": {\"queue\": \"\"}}", "dead_target.queue", "out_of_range"));
    CHECK(refused("{\"dead_target\": {\"queue\": \"m\", \"reasons\": []}}", "dead_target.reasons",
                  "out_of_range"));
    CHECK(refused("{\"dead_target\": {\"queue\": \"m\", \"reasons\": [\"expired\", \"none\"]}}",
                  "dead_target.reasons[1]", "out_of_range"));
    CHECK(refused("{\"dead_target\": {\"queue\": \"m\", \"reasons\": [1]}}",
                  "dead_target.reasons[0]", "wrong_type"));
    CHECK(refused("{\"allow_from\": \"a\"}", "allow_from", "wrong_type"));
    CHECK(refused("{\"allow_from\": [\"a\", \"\"]}", "allow_from[1]", "out_of_range"));
    CHECK(refused("{\"allow_from\": [null]}", "allow_from[0]", "wrong_type"));
    CHECK(refused("{\"rules\": {}}", "rules", "wrong_type"));
    CHECK(refused("{\"rules\": [{\"action\": \"drop\"}]}", "rules[0].action", "out_of_range"));
    CHECK(refused("{\"alerts\": 1}", "alerts", "wrong_type"));
    CHECK(refused("{\"alerts\": [{\"kind\": \"rate\"}]}", "alerts[0].url", "required"));
}

/* {"NAME": [ITEM, ITEM, ...]} */
static struct policy read_many(const char *name, const char *item, int count) {
    struct buf out;
    buf_init(&out, 8 * 1024 * 1024);
    buf_printf(&out, "{\"%s\": [", name);
    for (int i = 0; i < count; i++)
        buf_printf(&out, "%s%s", i > 0 ? "," : "", item);
    buf_add_str(&out, "]}");
    struct policy p = read_span(buf_span(&out));
    buf_release(&out);
    return p;
}

static bool is_refused_for(const char *field, const char *code) {
    return said_alone(field, code);
}

static void long_texts_are_refused(void) {
    read_many("allow_from", "\"a\"", 1000);
    CHECK_EQ(errors.count, 0);
    CHECK_EQ(texts.allow_from.n, 4001);
    read_many("allow_from", "\"a\"", 1001);
    CHECK(is_refused_for("allow_from", "out_of_range"));
    read_many("allow_from", "\"a\"", 1000000);
    CHECK(is_refused_for("allow_from", "out_of_range"));
    read_many("rules", "{\"action\":\"dead\"}", 65);
    CHECK(is_refused_for("rules", "out_of_range"));

    /* The longest that is good in itself: every byte of its texts is escaped. */
    struct buf item;
    buf_init(&item, 64 * 1024);
    buf_add_str(&item, "{\"action\":\"dead\",\"error\":\"");
    for (int i = 0; i < 1024; i++)
        buf_add_str(&item, "\\u0000");
    buf_add_str(&item, "\",\"message\":\"");
    for (int i = 0; i < 1024; i++)
        buf_add_str(&item, "\\u0000");
    buf_add_str(&item, "\"}");
    buf_add_byte(&item, '\0');
    read_many("rules", (const char *)item.p, 64);
    CHECK(is_refused_for("rules", "too_long"));
    read_many("rules", (const char *)item.p, 1);
    CHECK_EQ(errors.count, 0);
    CHECK_EQ(texts.rules.n, item.n - 1 + 2);
    buf_release(&item);

    buf_init(&item, 4096);
    buf_add_byte(&item, '"');
    for (int i = 0; i < LIMIT_QUEUE_NAME; i++)
        buf_add_str(&item, "\\u0000");
    buf_add_str(&item, "\"");
    buf_add_byte(&item, '\0');
    read_many("allow_from", (const char *)item.p, 1000);
    CHECK(is_refused_for("allow_from", "too_long"));
    buf_release(&item);
}

static void equal_says_what_differs(void) {
    struct policy a = policy_default(), b[11];
    for (int i = 0; i < 11; i++) {
        b[i] = policy_default();
        CHECK(policy_equal(&a, &b[i]));
    }
    b[0].backoff.jitter = JITTER_FULL;
    b[1].deliveries_max = 1;
    b[2].retry_budget_ppm = 1;
    b[3].overflow = OVERFLOW_DEAD;
    b[4].order = ORDER_BLOCK;
    b[5].breaker.is_on = true;
    b[6].breaker.share_ppm = 1;
    b[7].breaker.open_ms = 1;
    b[8].target_reasons = 2;
    b[9].breaker.probes = 1;
    b[10].redrive_limit++;
    for (int i = 0; i < 11; i++)
        CHECK(!policy_equal(&a, &b[i]));

    struct span spans[POLICY_TEXTS] = {0};
    struct policy_texts none = policy_texts_of(spans);
    for (int i = 0; i < POLICY_TEXTS; i++) {
        spans[i] = span_str("x");
        struct policy_texts some = policy_texts_of(spans);
        CHECK(!policy_texts_equal(&none, &some));
        struct span again[POLICY_TEXTS];
        policy_texts_spans(&some, again);
        CHECK(span_equal_str(again[i], "x"));
        spans[i] = span_str("");
    }
}

int main(void) {
    buf_init(&memory, POLICY_JSON_TEXTS * LIMIT_POLICY_TEXT);
    RUN(default_backoff_is_the_contract);
    RUN(fixed_and_list);
    RUN(fractional_factor_and_cap);
    RUN(jitter_stays_within_its_bounds);
    RUN(bad_policies_name_the_field);
    RUN(the_written_form_reads_back_the_same);
    RUN(guards_are_off_by_default);
    RUN(guards_are_read);
    RUN(a_target_takes_some_reasons_or_all);
    RUN(json_texts_are_kept_as_json);
    RUN(bad_guards_name_the_field);
    RUN(long_texts_are_refused);
    RUN(equal_says_what_differs);
    json_free(tree);
    buf_release(&memory);
    return check_done();
}
