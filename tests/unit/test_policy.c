#include "check.h"

#include "model/policy.h"

static struct field_errors errors;

static struct policy read(const char *text) {
    struct json_error error;
    struct json *v = json_parse(span_str(text), &error);
    CHECK(v != NULL);
    errors.count = 0;
    struct policy p = policy_from_json(v, &errors);
    json_free(v);
    return p;
}

static bool refused(const char *text, const char *field, const char *code) {
    read(text);
    return errors.count == 1 && strcmp(errors.items[0].field, field) == 0 &&
           strcmp(errors.items[0].code, code) == 0;
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

static void the_written_form_reads_back_the_same(void) {
    static const char *const texts[] = {
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
    };
    struct buf out;
    buf_init(&out, 65536);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct policy p = read(texts[i]);
        CHECK_EQ(errors.count, 0);
        struct json_writer w;
        buf_clear(&out);
        json_writer_init(&w, &out);
        policy_to_json(&p, &w);
        buf_add_byte(&out, '\0');
        struct policy again = read((const char *)out.p);
        CHECK_EQ(errors.count, 0);
        CHECK(policy_equal(&p, &again));
    }
    buf_release(&out);

    struct policy a = policy_default(), b = policy_default();
    CHECK(policy_equal(&a, &b));
    b.redrive_limit++;
    CHECK(!policy_equal(&a, &b));
    b = a;
    b.backoff.jitter = JITTER_FULL;
    CHECK(!policy_equal(&a, &b));
}

int main(void) {
    RUN(default_backoff_is_the_contract);
    RUN(fixed_and_list);
    RUN(fractional_factor_and_cap);
    RUN(jitter_stays_within_its_bounds);
    RUN(bad_policies_name_the_field);
    RUN(the_written_form_reads_back_the_same);
    return check_done();
}
