/* Policies: whatever is accepted is within its bounds, and what is shown of it reads back the same. */
#include "model/policy.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_policy(const struct policy *p) {
    static const unsigned failures[] = {1, 2, 3, 31, 32, 33, 250};
    assert(p->max_retries >= 1 && p->max_retries <= LIMIT_POLICY_RETRIES);
    assert(p->lease_ms >= 1000 && p->lease_ms <= LIMIT_LEASE_SECONDS * INT64_C(1000));
    for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++) {
        int64_t wait_ms = backoff_delay_ms(&p->backoff, failures[i], UINT64_MAX - i);
        assert(wait_ms >= 0 && wait_ms <= LIMIT_DELAY_SECONDS * INT64_C(1000));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct json_error error;
    struct json *v = json_parse(span_of(data, size), &error);
    if (v == NULL)
        return 0;
    struct field_errors errors = {0};
    struct policy p = policy_from_json(v, &errors);
    json_free(v);
    for (unsigned i = 0; i < errors.count; i++)
        assert(span_is_utf8(span_str(errors.items[i].field)) && errors.items[i].message[0] != '\0');
    if (errors.count > 0)
        return 0;
    check_policy(&p);

    struct buf out;
    buf_init(&out, 65536);
    struct json_writer w;
    json_writer_init(&w, &out);
    policy_to_json(&p, &w);
    v = json_parse(buf_span(&out), &error);
    assert(v != NULL);
    struct policy again = policy_from_json(v, &errors);
    assert(errors.count == 0 && policy_equal(&p, &again));
    json_free(v);
    buf_release(&out);
    return 0;
}
