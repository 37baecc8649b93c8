/* The body of POST /dead: what is accepted is within its bounds, and what is wrong is said in good UTF-8. */
#include "checks.h"

#include "http/letters_body.h"

#include <assert.h>

enum { PAYLOAD_MAX = 64, INPUT_MAX = 65536 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_line(const struct letter_attempt *a, uint32_t deliveries) {
    assert(a->event > EVENT_NONE && a->event < EVENT_COUNT && a->attempt <= deliveries);
    assert(a->at > 0 && a->next_at >= 0);
    assert(a->worker.n <= LIMIT_WORKER && a->worker_version.n <= LIMIT_WORKER);
    assert(a->error_class.n <= LIMIT_ERROR_CLASS && a->error.n <= LIMIT_ERROR);
    assert(a->detail.n <= LIMIT_DETAIL && a->fingerprint.n <= LIMIT_FINGERPRINT);
    touch(a->worker);
    touch(a->worker_version);
    touch(a->error_class);
    touch(a->error);
    touch(a->detail);
    touch(a->fingerprint);
}

static void check_letter(const struct letter_new *m) {
    assert(m->id > 0 && m->id <= LIMIT_IMPORT_ID && m->payload.n <= PAYLOAD_MAX);
    assert(m->headers.n <= LIMIT_HEADERS && m->key.n <= LIMIT_KEY);
    assert(m->max_retries >= 1 && m->priority <= PRIORITY_MAX);
    assert(m->reason > REASON_NONE && m->reason < REASON_COUNT);
    assert(m->deliveries <= LIMIT_DELIVERIES && m->origin.n <= LIMIT_QUEUE_NAME);
    assert(m->created_at > 0 && m->died_at > 0 && m->first_failed_at >= 0 && m->ttl_ms >= 0);
    assert(m->attempt_count <= LIMIT_IMPORT_ATTEMPTS);
    touch(m->payload);
    touch(m->headers);
    touch(m->key);
    touch(m->origin);
    uint32_t attempt = 0;
    for (size_t i = 0; i < m->attempt_count; i++) {
        assert(m->attempts[i].attempt >= attempt);
        attempt = m->attempts[i].attempt;
        check_line(&m->attempts[i], m->deliveries);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > INPUT_MAX)
        return 0;
    struct json_error error;
    struct json *v = json_parse(span_of(data, size), &error);
    if (v == NULL)
        return 0;
    struct field_errors errors = {0};
    struct letters_body *body = letters_body_new(INPUT_MAX);
    enum body_verdict verdict = letters_body_read(body, v, PAYLOAD_MAX, &errors);
    assert((verdict == BODY_GOOD) == (errors.count == 0));
    if (verdict == BODY_GOOD) {
        assert(body->count >= 1 && body->count <= LIMIT_BATCH);
        assert(body->queue.n >= 1 && body->queue.n <= LIMIT_QUEUE_NAME);
        for (size_t i = 0; i < body->count; i++)
            check_letter(&body->items[i]);
    }
    check_errors(&errors);
    letters_body_free(body);
    json_free(v);
    return 0;
}
