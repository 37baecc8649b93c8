/* Exchanges, queues, bindings and policies out of JSON: whatever the text, either errors or something
 * that holds together; arguments equal themselves. */
#include "http/topology_body.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_arguments(struct span text) {
    char name[64];
    struct json_error error;
    assert(text.n <= LIMIT_ARGUMENTS && arguments_equal(text, text));
    assert(!arguments_difference(text, text, name));
    if (text.n == 0)
        return;
    struct json *v = json_parse(text, &error);
    assert(json_is(v, JSON_OBJECT) && json_count(v) > 0);
    json_free(v);
}

static void check_queue(const struct fields *f, struct buf *texts) {
    struct queue_declare q;
    queue_read(&q, f, texts);
    if (f->errors->count > 0)
        return;
    const struct queue_settings *s = &q.settings;
    check_arguments(q.arguments);
    assert(q.name.n > 0 && q.name.n <= LIMIT_QUEUE_NAME && (!s->has_dlrk || s->has_dlx));
    assert(s->message_ttl_ms >= -1 && s->message_ttl_ms <= QUEUE_TIME_MOST);
    assert(s->max_priority >= -1 && s->max_priority <= QUEUE_PRIORITY_MOST);
    assert(s->overflow >= -1 && s->overflow <= LENGTH_REJECT_PUBLISH_DLX);
    struct queue_settings merged = queue_settings_merge(s, s, q.type);
    assert(merged.message_ttl_ms == s->message_ttl_ms && merged.max_length == s->max_length);
    assert(merged.overflow == s->overflow && merged.has_dlx == s->has_dlx);
}

static void check_policy(const struct fields *f, struct buf *texts) {
    struct pattern_policy p;
    pattern_policy_read(&p, f, texts);
    if (f->errors->count > 0)
        return;
    check_arguments(p.definition);
    assert(p.definition.n > 0 && p.pattern.n <= POLICY_PATTERN_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct json_error error;
    struct json *v = json_parse(span_of(data, size), &error);
    struct field_errors errors = {0};
    const struct fields f = {.object = v, .prefix = "", .errors = &errors};
    struct exchange_new x;
    struct binding_new b;
    struct buf texts;
    buf_init(&texts, 16 * size + 1000);
    check_queue(&f, &texts);
    errors.count = 0;
    check_policy(&f, &texts);
    errors.count = 0;
    exchange_read(&x, &f, &texts);
    if (errors.count == 0)
        check_arguments(x.arguments);
    errors.count = 0;
    binding_read(&b, &f, &texts);
    if (errors.count == 0)
        check_arguments(b.arguments);
    buf_release(&texts);
    json_free(v);
    return 0;
}
