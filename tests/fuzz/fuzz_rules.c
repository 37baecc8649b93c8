/* Rules: a line of JSON, a line that is the error class, and behind it the message, which may be any bytes. Whatever rules are
 * accepted find the same rule twice, and quickly; an error is shown whole. */
#include "model/rules.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Cuts the first line off. */
static struct span line(struct span *rest) {
    const uint8_t *end = rest->n > 0 ? memchr(rest->p, '\n', rest->n) : NULL;
    size_t n = end != NULL ? (size_t)(end - rest->p) : rest->n;
    struct span cut = span_of(rest->p, n);
    n += end != NULL;
    *rest = span_of(rest->p + n, rest->n - n);
    return cut;
}

static void check_found(const struct rules *r, struct span error_class, struct span error,
                        size_t count) {
    struct rule rule = {.number = count}, again = {.number = count};
    bool is_found = rules_find(r, error_class, error, &rule);
    assert(rules_find(r, error_class, error, &again) == is_found);
    assert(rule.number == again.number && (rule.number < count) == is_found);
    if (!is_found)
        return;
    assert(rule_action_name(rule.action) != NULL);
    assert(rule.action == RULE_RETRY || (!rule.has_backoff && rule.max_retries == 0));
    assert(rule.delay_ms >= -1 && (rule.action == RULE_RELEASE || rule.delay_ms == -1));
    if (rule.has_backoff)
        assert(backoff_delay_ms(&rule.backoff, 250, UINT64_MAX) >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct span rest = span_of(data, size);
    struct span json = line(&rest), error_class = line(&rest);
    struct json_error json_error;
    struct json *v = json_parse(json, &json_error);
    if (v == NULL)
        return 0;
    size_t count = json_count(v);
    struct field_errors errors = {0};
    rules_check(v, &errors);
    json_free(v);
    for (unsigned i = 0; i < errors.count; i++)
        assert(span_is_utf8(span_str(errors.items[i].field)) && errors.items[i].message[0] != '\0');
    if (errors.count > 0)
        return 0;
    assert(count <= RULES_MAX);
    struct rules *r = rules_new(json);
    check_found(r, error_class, rest, count);
    check_found(r, rest, error_class, count);
    rules_free(r);
    return 0;
}
