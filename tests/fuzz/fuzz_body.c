/* Bodies of enqueue, claim, the verbs and settle. The first byte picks which; what is accepted is within its bounds. */
#include "checks.h"

#include "http/bodies.h"
#include "http/query.h"

#include <assert.h>

enum { PAYLOAD_MAX = 64, INPUT_MAX = 65536 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_enqueue(const struct json *v, bool with_key, struct field_errors *errors) {
    static struct enqueue_body body;
    const struct enqueue_limits limits = {
        .payload_bytes_max = PAYLOAD_MAX,
        .header_key = with_key ? span_str("key") : span_of(NULL, 0),
    };
    enqueue_body_init(&body, INPUT_MAX);
    enum body_verdict verdict = enqueue_body_read(&body, v, &limits, errors);
    assert((verdict == BODY_GOOD) == (errors->count == 0));
    if (verdict == BODY_GOOD) {
        assert(body.count >= 1 && body.count <= LIMIT_BATCH);
        for (size_t i = 0; i < body.count; i++) {
            const struct message_new *m = &body.items[i];
            assert(m->payload.n <= PAYLOAD_MAX && m->headers.n <= LIMIT_HEADERS &&
                   m->key.n <= LIMIT_KEY);
            assert(m->max_retries <= LIMIT_RETRIES && m->priority <= PRIORITY_MAX);
            assert(m->delay_ms >= -1 && (m->ttl_ms == -1 || m->ttl_ms >= 1000));
            touch(m->payload);
            touch(m->headers);
            touch(m->key);
            touch(m->idempotency_key);
        }
    }
    enqueue_body_release(&body);
}

static void check_claim(const struct claim_body *b) {
    assert(b->claim.count >= 1 && b->claim.count <= LIMIT_BATCH);
    assert(b->wait_ms >= 0 && b->wait_ms <= LIMIT_WAIT_SECONDS * 1000);
    assert(b->claim.worker.n <= LIMIT_WORKER && b->claim.worker_version.n <= LIMIT_WORKER);
    touch(b->claim.worker);
}

static void try_settle(const struct json *v, struct field_errors *errors) {
    static struct settle_body body;
    settle_body_read(&body, v, errors);
    if (errors->count > 0)
        return;
    assert(body.count <= LIMIT_BATCH);
    for (size_t i = 0; i < body.count; i++) {
        assert(body.items[i].id >= 1 && body.items[i].id <= LIMIT_ID &&
               body.items[i].delay_ms >= -1);
        touch(body.items[i].error);
        touch(body.items[i].detail);
    }
    if (body.has_claim)
        check_claim(&body.claim);
}

static void try_query(struct span query, struct field_errors *errors) {
    static const char *const names[] = {"status", "limit", "offset", "after", NULL};
    struct span values[4];
    struct buf scratch;
    buf_init(&scratch, INPUT_MAX);
    query_read(query, names, values, &scratch, errors);
    for (size_t i = 0; i < 4; i++)
        touch(values[i]);
    uint64_t limit = parameter_number(values[1], names[1], 1, LIMIT_BATCH, 100, errors);
    assert(limit >= 1 && limit <= LIMIT_BATCH);
    buf_release(&scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1 || size > INPUT_MAX)
        return 0;
    struct field_errors errors = {0};
    struct span text = span_of(data + 1, size - 1);
    unsigned which = data[0] % 9;
    if (which == 8) {
        try_query(text, &errors);
        check_errors(&errors);
        return 0;
    }

    struct json_error error;
    struct json *v = json_parse(text, &error);
    if (v == NULL)
        return 0;
    struct claim_body claim;
    struct settle settle;
    if (which <= 1)
        try_enqueue(v, which == 1, &errors);
    else if (which == 2)
        claim_body_read(&claim, v, "", &errors);
    else if (which == 3)
        try_settle(v, &errors);
    else
        settle_verb_read(&settle, (enum settle_action)(which - 4), 42, v, &errors);
    if (which == 2 && errors.count == 0)
        check_claim(&claim);
    check_errors(&errors);
    json_free(v);
    return 0;
}
