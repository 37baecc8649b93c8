#include "http/topology_body.h"

#include "model/expression.h"

#include <assert.h>
#include <string.h>

/* -- what all have --------------------------------------------------------------------------- */

static struct span required_string(const struct fields *f, const char *name, size_t most) {
    if (json_get(f->object, name) == NULL)
        field_error_add(f->errors, f->prefix, name, "required", "is required");
    struct span s = field_string(f, name, most);
    if (s.n > 0 && memchr(s.p, '\0', s.n) != NULL)
        field_error_add(f->errors, f->prefix, name, "bad_encoding", "must not hold a NUL");
    return s;
}

/* An object as text; empty when it is not given or has no member. */
static struct span object_text(const struct fields *f, const char *name, struct buf *texts) {
    buf_clear(texts);
    const struct json *v = json_get(f->object, name);
    if (v == NULL || (json_is(v, JSON_ARRAY) && json_count(v) == 0))
        return span_of(NULL, 0); /* PHP's clients write an empty table so */
    if (!json_is(v, JSON_OBJECT)) {
        field_error_add(f->errors, f->prefix, name, "wrong_type", "must be an object");
        return span_of(NULL, 0);
    }
    if (json_count(v) == 0)
        return span_of(NULL, 0);
    json_dump(v, texts);
    if (texts->n > LIMIT_ARGUMENTS) {
        field_error_add(f->errors, f->prefix, name, "too_long", "must be at most %d bytes of JSON",
                        LIMIT_ARGUMENTS);
        return span_of(NULL, 0);
    }
    return buf_span(texts);
}

/* -- policies -------------------------------------------------------------------------------- */

static void read_pattern(struct pattern_policy *p, const struct fields *f) {
    p->pattern = required_string(f, "pattern", POLICY_PATTERN_MAX);
    struct expression_error error;
    struct expression *e = expression_new(p->pattern, &error);
    if (e == NULL)
        field_error_add_at(f->errors, "pattern", "bad_regex", error.at, 0, error.text);
    expression_free(e);
}

static void read_applies(struct pattern_policy *p, const struct fields *f) {
    static const char *const names[] = {"all",           "queues", "exchanges", "classic_queues",
                                        "quorum_queues", NULL};
    static_assert(APPLIES_QUORUM == 4, "names are in its order");
    p->applies = (enum policy_applies)field_choice(f, "apply-to", names, APPLIES_ALL);
}

static void read_definition(struct pattern_policy *p, const struct fields *f, struct buf *texts) {
    const struct json *definition = json_get(f->object, "definition");
    unsigned errors_before = f->errors->count;
    p->definition = object_text(f, "definition", texts);
    if (p->definition.n == 0 && f->errors->count == errors_before)
        field_error_add(f->errors, f->prefix, "definition", "required",
                        "is required and holds at least one setting");
    struct queue_settings settings;
    enum queue_type type;
    struct settings_error error;
    if (json_is(definition, JSON_OBJECT) &&
        !queue_settings_read(definition, false, &settings, &type, &error))
        field_error_add(f->errors, f->prefix, "definition", "out_of_range", "%s", error.text);
}

void pattern_policy_read(struct pattern_policy *p, const struct fields *f, struct buf *texts) {
    *p = (struct pattern_policy){0};
    read_pattern(p, f);
    read_applies(p, f);
    p->priority = field_int(f, "priority", -POLICY_PRIORITY_MOST, POLICY_PRIORITY_MOST, 0);
    read_definition(p, f, texts);
}

bool policy_key_is_known(const char *name) {
    static const char *const known[] = {"dead-letter-exchange",
                                        "dead-letter-routing-key",
                                        "dead-letter-strategy",
                                        "message-ttl",
                                        "expires",
                                        "max-length",
                                        "max-length-bytes",
                                        "overflow",
                                        "delivery-limit",
                                        "alternate-exchange"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(known[i], name) == 0)
            return true;
    }
    return false;
}

/* -- exchanges ------------------------------------------------------------------------------- */

void exchange_read(struct exchange_new *x, const struct fields *f, struct buf *texts) {
    *x = (struct exchange_new){.name = required_string(f, "name", LIMIT_QUEUE_NAME)};
    unsigned errors_before = f->errors->count;
    struct span type = required_string(f, "type", LIMIT_QUEUE_NAME);
    int number = exchange_type_parse(type);
    if (number >= 0)
        x->type = (enum exchange_type)number;
    else if (f->errors->count == errors_before)
        field_error_add(f->errors, f->prefix, "type", "out_of_range",
                        "must be direct, fanout, topic or headers, not %.*s", (int)type.n,
                        (const char *)type.p);
    x->durable = field_bool(f, "durable", true);
    x->auto_delete = field_bool(f, "auto_delete", false);
    x->internal = field_bool(f, "internal", false);
    x->arguments = object_text(f, "arguments", texts);
    const struct fields arguments = {
        .object = json_get(f->object, "arguments"), .prefix = "arguments.", .errors = f->errors};
    x->has_alternate = json_get(arguments.object, "alternate-exchange") != NULL;
    x->alternate = field_string(&arguments, "alternate-exchange", LIMIT_QUEUE_NAME);
}

/* -- queues ---------------------------------------------------------------------------------- */

/* The member `type` of newer exports, which RabbitMQ reads as if it were an argument. */
static void take_type(struct queue_declare *q, const struct fields *f, struct buf *texts) {
    const struct json *arguments = json_get(f->object, "arguments");
    struct span type = field_string(f, "type", LIMIT_QUEUE_NAME);
    if (type.n == 0 || span_equal_str(type, "classic") ||
        json_get(arguments, "x-queue-type") != NULL)
        return;
    if (!span_equal_str(type, "quorum")) {
        field_error_add(f->errors, f->prefix, "type", "out_of_range", "%s",
                        span_equal_str(type, "stream") ? "stream: streams are not supported"
                                                       : "is not supported");
        return;
    }
    if (texts->n == 0)
        buf_add_str(texts, "{}");
    texts->n--; /* the brace */
    buf_add_str(texts,
                texts->n > 1 ? ",\"x-queue-type\":\"quorum\"}" : "\"x-queue-type\":\"quorum\"}");
    q->type = QUEUE_QUORUM;
    q->arguments = buf_span(texts);
}

void queue_read(struct queue_declare *q, const struct fields *f, struct buf *texts) {
    *q = (struct queue_declare){.name = required_string(f, "name", LIMIT_QUEUE_NAME)};
    if (json_get(f->object, "name") != NULL && q->name.n == 0)
        field_error_add(f->errors, f->prefix, "name", "out_of_range", "must not be empty");
    q->durable = field_bool(f, "durable", true);
    q->auto_delete = field_bool(f, "auto_delete", false);
    q->arguments = object_text(f, "arguments", texts);
    struct settings_error error;
    const struct json *arguments = json_get(f->object, "arguments");
    if (!queue_settings_read(arguments, true, &q->settings, &q->type, &error))
        field_error_add(f->errors, f->prefix, "arguments", "out_of_range", "%s", error.text);
    take_type(q, f, texts);
    if (q->type == QUEUE_QUORUM && (!q->durable || q->auto_delete))
        field_error_add(f->errors, f->prefix, q->durable ? "auto_delete" : "durable", "conflict",
                        "a quorum queue is durable and not deleted by itself");
}

bool queue_argument_is_idle(const char *name) {
    static const char *const idle[] = {
        "x-delayed-retry-type", "x-delayed-retry-min",   "x-delayed-retry-max",
        "x-consumer-timeout",   "x-max-in-memory-bytes", "x-max-in-memory-length",
    };
    for (size_t i = 0; i < sizeof idle / sizeof idle[0]; i++) {
        if (strcmp(idle[i], name) == 0)
            return true;
    }
    return false;
}

/* -- bindings -------------------------------------------------------------------------------- */

void binding_read(struct binding_new *b, const struct fields *f, struct buf *texts) {
    static const char *const types[] = {"queue", "exchange", NULL};
    *b = (struct binding_new){.source = required_string(f, "source", LIMIT_QUEUE_NAME),
                              .destination = required_string(f, "destination", LIMIT_QUEUE_NAME)};
    b->to_exchange = field_choice(f, "destination_type", types, 0) == 1;
    b->key = field_string(f, "routing_key", LIMIT_KEY);
    b->arguments = object_text(f, "arguments", texts);
}
