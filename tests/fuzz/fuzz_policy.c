/* Policies: whatever is accepted is within its bounds, what is shown of it reads back the same, and its rules and alerts can be
 * used. */
#include "model/alert.h"
#include "model/policy.h"
#include "model/rules.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A policy and what its texts live in. */
struct read {
    struct json *tree;
    struct buf memory;
    struct policy policy;
    struct policy_texts texts;
};

/* False when the text is no good policy; there is something to release in any case. */
static bool read_policy(struct span text, struct read *ret) {
    struct json_error error;
    struct field_errors errors = {0};
    *ret = (struct read){.tree = json_parse(text, &error)};
    buf_init(&ret->memory, POLICY_JSON_TEXTS * LIMIT_POLICY_TEXT);
    if (ret->tree == NULL)
        return false;
    ret->policy = policy_from_json(ret->tree, &errors, &ret->memory, &ret->texts);
    for (unsigned i = 0; i < errors.count; i++)
        assert(span_is_utf8(span_str(errors.items[i].field)) && errors.items[i].message[0] != '\0');
    return errors.count == 0;
}

static void read_release(struct read *r) {
    json_free(r->tree);
    buf_release(&r->memory);
}

static void check_policy(const struct policy *p) {
    static const unsigned failures[] = {1, 2, 3, 31, 32, 33, 250};
    assert(p->max_retries >= 1 && p->max_retries <= LIMIT_POLICY_RETRIES);
    assert(p->lease_ms >= 1000 && p->lease_ms <= LIMIT_LEASE_SECONDS * INT64_C(1000));
    for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++) {
        int64_t wait_ms = backoff_delay_ms(&p->backoff, failures[i], UINT64_MAX - i);
        assert(wait_ms >= 0 && wait_ms <= LIMIT_DELAY_SECONDS * INT64_C(1000));
    }
    assert(p->retry_budget_ppm <= 1000000 && p->target_reasons != 0);
    const struct breaker_policy *b = &p->breaker;
    if (b->is_on)
        assert(b->share_ppm > 0 && b->share_ppm <= 1000000 && b->outcomes_min > 0 &&
               b->probes > 0 && b->window_ms >= 1000 && b->open_ms >= 1000);
}

static void check_texts(const struct policy_texts *t) {
    static struct alert alerts[ALERTS_MAX];
    assert(t->owner.n <= LIMIT_OWNER && t->target.n <= LIMIT_QUEUE_NAME);
    assert(t->rules.n <= LIMIT_POLICY_TEXT && t->allow_from.n <= LIMIT_POLICY_TEXT &&
           t->alerts.n <= LIMIT_POLICY_TEXT);
    rules_free(rules_new(t->rules));
    size_t n = alerts_read(t->alerts, alerts, ALERTS_MAX);
    for (size_t i = 0; i < n; i++) {
        assert(strncmp(alerts[i].url, "http", 4) == 0 && alerts[i].repeat_ms >= 60000);
        assert(alert_kind_parse(span_str(alert_kind_name(alerts[i].kind))) == (int)alerts[i].kind);
    }
}

/* What is shown of alerts can be put back. */
static void check_masks(struct span json) {
    static struct alert alerts[ALERTS_MAX];
    struct field_errors errors = {0};
    struct buf masked, back;
    buf_init(&masked, 4 * LIMIT_POLICY_TEXT);
    buf_init(&back, ALERTS_MAX * LIMIT_POLICY_TEXT);
    size_t n = alerts_read(json, alerts, ALERTS_MAX);
    bool had_mask = false;
    for (size_t i = 0; i < n; i++)
        had_mask |= span_equal_str(span_of(alerts[i].secret, alerts[i].secret_bytes), "***");
    alerts_mask(json, &masked);
    alerts_unmask(buf_span(&masked), json, &back, &errors);
    assert(errors.count == 0);
    assert(alerts_read(buf_span(&back), alerts, ALERTS_MAX) == n);
    alerts_unmask(json, span_of(NULL, 0), &masked, &errors);
    assert(had_mask == (errors.count > 0));
    buf_release(&masked);
    buf_release(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct read first, second;
    if (read_policy(span_of(data, size), &first)) {
        check_policy(&first.policy);
        check_texts(&first.texts);
        check_masks(first.texts.alerts);
        struct buf out;
        buf_init(&out, POLICY_JSON_TEXTS * LIMIT_POLICY_TEXT + 65536);
        struct json_writer w;
        json_writer_init(&w, &out);
        policy_to_json(&first.policy, &first.texts, &w);
        bool is_good = read_policy(buf_span(&out), &second);
        assert(is_good && policy_equal(&first.policy, &second.policy));
        assert(policy_texts_equal(&first.texts, &second.texts));
        read_release(&second);
        buf_release(&out);
    }
    read_release(&first);
    return 0;
}
