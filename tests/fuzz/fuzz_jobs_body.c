/* Bodies of requests that act on dead letters. The first byte picks which; what is accepted is within its bounds, and a patch that is
 * accepted can be applied: it changes both parts or neither, and leaves JSON where JSON was. */
#include "checks.h"

#include "http/jobs_body.h"

#include <assert.h>

enum { PAYLOAD_MAX = 64, INPUT_MAX = 65536 };
#define NOW INT64_C(1780272000000) /* 2026-06-01 00:00:00 */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_json(struct span text) {
    struct json_error error;
    struct json *v = json_parse(text, &error);
    json_free(v);
    return v != NULL;
}

static void try_patch(struct span patch, struct span headers, struct span payload) {
    struct buf new_headers, new_payload;
    buf_init(&new_headers, LIMIT_HEADERS);
    buf_init(&new_payload, LIMIT_PAYLOAD);
    enum err e = patch_apply(patch, headers, payload, &new_headers, &new_payload);
    assert(e == OK || e == ERR_INVALID || e == ERR_TOO_LARGE);
    if (e == OK) {
        assert(new_headers.n == 0 || is_json(buf_span(&new_headers)));
        assert(is_json(buf_span(&new_payload)) == is_json(payload));
    } else {
        assert(new_headers.n == 0 && new_payload.n == 0);
    }
    buf_release(&new_payload);
    buf_release(&new_headers);
}

static void check_patch(struct span patch) {
    assert(patch.n <= LIMIT_PATCH);
    try_patch(patch, span_of(NULL, 0), span_str("{ \"a\" : {\"b\": [1, 2.50]}, \"c\": \"d\" }"));
    try_patch(patch, span_str("{\"a\":\"x\",\"b\":{\"c\":1}}"), span_str("[]"));
    try_patch(patch, span_str("{\"a\":1}"), span_str("no JSON"));
}

static bool is_share(uint32_t ppm) {
    return ppm <= 1000000 || ppm == STOP_NEVER;
}

static void check_job(const struct job_body *b) {
    const struct job_new *j = &b->job;
    assert(j->queue.n <= LIMIT_QUEUE_NAME && j->to.n <= LIMIT_QUEUE_NAME);
    assert(j->name.n <= LIMIT_JOB_NAME && j->act.reason.n <= LIMIT_AUDIT_REASON);
    assert(j->rate_milli <= 1000000000 && is_share(j->stop_if_ppm));
    assert(j->sample <= 1000000 || j->sample == SAMPLE_BY_DEFAULT);
    assert((j->kind == JOB_DISCARD) == (j->why != DISCARD_NONE));
    assert(j->filter.n <= FILTER_BYTES_MAX);
    touch(j->queue);
    touch(j->filter);
    touch(j->to);
    touch(j->name);
    touch(j->act.reason);
    if (j->patch.n > 0)
        check_patch(j->patch);
}

static void try_job(const struct json *v, unsigned which, struct field_errors *errors) {
    struct job_body body;
    job_body_init(&body);
    if (which == 0)
        redrive_body_read(&body, v, NOW, errors);
    else if (which == 1)
        discards_body_read(&body, v, NOW, errors);
    else
        purge_body_read(&body, span_str("emails"), v, errors);
    if (errors->count == 0)
        check_job(&body);
    job_body_release(&body);
}

static void try_change(const struct json *v, bool is_redrive, struct field_errors *errors) {
    struct job_change change;
    struct span reason;
    job_change_read(&change, &reason, is_redrive, v, errors);
    if (errors->count > 0)
        return;
    assert(change.has_state || change.has_rate || change.has_stop_if);
    assert(is_redrive || (!change.has_rate && !change.has_stop_if));
    assert(change.rate_milli <= 1000000000 && is_share(change.stop_if_ppm));
    assert(reason.n <= LIMIT_AUDIT_REASON);
    touch(reason);
}

static void try_edit(const struct json *v, struct field_errors *errors) {
    struct edit_body body;
    edit_body_init(&body);
    enum body_verdict verdict = edit_body_read(&body, v, PAYLOAD_MAX, errors);
    assert((verdict == BODY_GOOD) == (errors->count == 0));
    if (verdict == BODY_GOOD) {
        assert(body.edit.payload.n <= PAYLOAD_MAX && body.edit.headers.n <= LIMIT_HEADERS);
        assert((body.patch.n > 0) != (body.edit.has_payload || body.edit.has_headers));
        touch(body.edit.payload);
        touch(body.edit.headers);
        touch(body.reason);
        if (body.patch.n > 0)
            check_patch(body.patch);
    }
    edit_body_release(&body);
}

static void try_verb(const struct json *v, unsigned which, struct field_errors *errors) {
    struct replay_body replay;
    struct discard_body discard;
    if (which == 0) {
        replay_body_read(&replay, v, errors);
        touch(replay.reason);
    } else if (which == 1) {
        discard_body_read(&discard, v, errors);
        touch(discard.reason);
        assert(errors->count > 0 || discard.why != DISCARD_NONE);
    } else {
        touch(reason_body_read(v, errors));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1 || size > INPUT_MAX)
        return 0;
    struct json_error error;
    struct json *v = json_parse(span_of(data + 1, size - 1), &error);
    if (v == NULL)
        return 0;
    struct field_errors errors = {0};
    unsigned which = data[0] % 9;
    if (which < 3)
        try_job(v, which, &errors);
    else if (which < 5)
        try_change(v, which == 3, &errors);
    else if (which == 5)
        try_edit(v, &errors);
    else
        try_verb(v, which - 6, &errors);
    check_errors(&errors);
    json_free(v);
    return 0;
}
