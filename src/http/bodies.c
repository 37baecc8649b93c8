#include "http/bodies.h"

#include "http/query.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { PREFIX_SIZE = 32 };

/* True when v is an object, or nothing where nothing will do. */
static bool check_object(const struct json *v, bool may_be_absent, const char *field,
                         struct field_errors *errors) {
    if (v == NULL ? may_be_absent : json_is(v, JSON_OBJECT))
        return true;
    field_error_add(errors, "", field, "wrong_type", "must be an object");
    return false;
}

/* -- payload and headers --------------------------------------------------------------------- */

/* Numbers of headers grow when they are written out again (9e14), by less than a factor of five. */
enum { BYTES_FACTOR = 8 };

size_t content_bytes_max(size_t body_bytes_max) {
    return BYTES_FACTOR * body_bytes_max + 1024;
}

static void read_payload(struct content *c, const struct fields *f, struct buf *bytes) {
    const struct json *text = json_get(f->object, "payload");
    const struct json *base64 = json_get(f->object, "payload_base64");
    if (base64 != NULL && json_is(text, JSON_NULL))
        text = NULL; /* as a message object has it */
    if (text == NULL && base64 == NULL) {
        field_error_add(f->errors, f->prefix, "payload", "required", "is required");
        return;
    }
    if (text != NULL && base64 != NULL) {
        field_error_add(f->errors, f->prefix, "payload_base64", "conflict",
                        "must not be given together with payload");
        return;
    }
    if (text != NULL) {
        c->payload = field_string(f, "payload", SIZE_MAX);
        return;
    }
    struct span encoded = field_string(f, "payload_base64", SIZE_MAX);
    if (encoded.p == NULL)
        return;
    size_t at = bytes->n;
    if (base64_decode(encoded, bytes) != OK) {
        field_error_add(f->errors, f->prefix, "payload_base64", "bad_encoding",
                        "must be base64 (RFC 4648) with padding");
        return;
    }
    c->payload_at = at + 1;
    c->payload.n = bytes->n - at;
}

static void read_headers(struct content *c, const struct fields *f, struct buf *bytes) {
    const struct json *headers = json_get(f->object, "headers");
    if (headers == NULL)
        return;
    if (!json_is(headers, JSON_OBJECT)) {
        field_error_add(f->errors, f->prefix, "headers", "wrong_type", "must be an object");
        return;
    }
    if (json_count(headers) == 0)
        return;
    size_t at = bytes->n;
    json_dump(headers, bytes);
    size_t n = bytes->n - at;
    if (n > LIMIT_HEADERS) {
        bytes->n = at;
        field_error_add(f->errors, f->prefix, "headers", "too_long",
                        "must be at most %d bytes as JSON", LIMIT_HEADERS);
        return;
    }
    c->headers_at = at + 1;
    c->headers.n = n;
}

void content_read(struct content *c, const struct fields *f, struct buf *bytes) {
    *c = (struct content){0};
    buf_reserve(bytes, 1); /* places count from memory that is there, also when nothing is in it */
    read_payload(c, f, bytes);
    read_headers(c, f, bytes);
}

void content_place(struct content *c, const struct buf *bytes) {
    if (c->payload_at != 0)
        c->payload.p = bytes->p + c->payload_at - 1;
    if (c->headers_at != 0)
        c->headers.p = bytes->p + c->headers_at - 1;
}

bool content_is_too_large(const struct content *c, const char *prefix, size_t payload_bytes_max,
                          struct field_errors *errors) {
    if (c->payload.n <= payload_bytes_max)
        return false;
    errors->count = 0;
    field_error_add(errors, prefix, "payload", "too_long", "must be at most %zu bytes",
                    payload_bytes_max);
    return true;
}

/* -- enqueue --------------------------------------------------------------------------------- */

void enqueue_body_init(struct enqueue_body *b, size_t body_bytes_max) {
    buf_init(&b->bytes, content_bytes_max(body_bytes_max));
}

void enqueue_body_release(struct enqueue_body *b) {
    buf_release(&b->bytes);
}

static struct span read_idempotency_key(const struct fields *f, struct span header_key) {
    if (json_get(f->object, "idempotency_key") == NULL) {
        if (header_key.p != NULL && (header_key.n == 0 || header_key.n > LIMIT_IDEMPOTENCY_KEY))
            field_error_add(f->errors, "", "Idempotency-Key",
                            header_key.n == 0 ? "out_of_range" : "too_long",
                            "must be 1 to %d bytes", LIMIT_IDEMPOTENCY_KEY);
        return header_key;
    }
    struct span key = field_string(f, "idempotency_key", LIMIT_IDEMPOTENCY_KEY);
    if (key.p != NULL && key.n == 0)
        field_error_add(f->errors, f->prefix, "idempotency_key", "out_of_range",
                        "must be 1 to %d bytes", LIMIT_IDEMPOTENCY_KEY);
    return key;
}

/* Milliseconds of a field in seconds; -1 when it is not given. */
static int64_t read_seconds(const struct fields *f, const char *name, int64_t low, int64_t high) {
    int64_t seconds = field_int(f, name, low, high, -1);
    return seconds < 0 ? -1 : seconds * 1000;
}

static void read_item(struct enqueue_body *b, size_t i, const struct fields *f,
                      struct span header_key) {
    static const char *const names[] = {
        "payload", "payload_base64", "max_retries",     "priority", "delay_seconds", "ttl_seconds",
        "key",     "headers",        "idempotency_key", NULL};
    struct message_new *m = &b->items[i];
    *m = (struct message_new){0};

    content_read(&b->contents[i], f, &b->bytes);
    m->max_retries = (uint8_t)field_int(f, "max_retries", 1, LIMIT_RETRIES, 0);
    m->priority = (uint8_t)field_int(f, "priority", 0, PRIORITY_MAX, 0);
    m->delay_ms = read_seconds(f, "delay_seconds", 0, LIMIT_DELAY_SECONDS);
    m->ttl_ms = read_seconds(f, "ttl_seconds", 1, LIMIT_DELAY_SECONDS);
    m->key = field_string(f, "key", LIMIT_KEY);
    m->idempotency_key = read_idempotency_key(f, header_key);
    fields_known(f, names);
}

/* `bytes` moved while it grew: the spans into it are set when it is complete. */
static void set_places(struct enqueue_body *b) {
    for (size_t i = 0; i < b->count; i++) {
        content_place(&b->contents[i], &b->bytes);
        b->items[i].payload = b->contents[i].payload;
        b->items[i].headers = b->contents[i].headers;
    }
}

static enum body_verdict read_batch(struct enqueue_body *b, const struct json *v,
                                    const struct enqueue_limits *limits,
                                    struct field_errors *errors) {
    b->is_batch = true;
    b->count = json_count(v);
    if (b->count < 1 || b->count > LIMIT_BATCH) {
        field_error_add(errors, "", "body", "out_of_range", "must hold 1 to %d messages",
                        LIMIT_BATCH);
        return BODY_INVALID;
    }
    if (limits->header_key.p != NULL)
        field_error_add(errors, "", "Idempotency-Key", "not_allowed",
                        "is not for batches: give each item its idempotency_key");

    for (size_t i = 0; i < b->count; i++) {
        char prefix[PREFIX_SIZE];
        snprintf(prefix, sizeof prefix, "[%zu].", i);
        const struct json *item = json_at(v, i);
        if (!json_is(item, JSON_OBJECT)) {
            prefix[strlen(prefix) - 1] = '\0';
            field_error_add(errors, "", prefix, "wrong_type", "must be an object");
            continue;
        }
        struct fields f = {.object = item, .prefix = prefix, .errors = errors};
        read_item(b, i, &f, span_of(NULL, 0));
        if (content_is_too_large(&b->contents[i], prefix, limits->payload_bytes_max, errors))
            return BODY_TOO_LARGE;
    }
    return errors->count == 0 ? BODY_GOOD : BODY_INVALID;
}

enum body_verdict enqueue_body_read(struct enqueue_body *b, const struct json *v,
                                    const struct enqueue_limits *limits,
                                    struct field_errors *errors) {
    buf_clear(&b->bytes);
    b->count = 0;
    enum body_verdict verdict;
    if (json_is(v, JSON_ARRAY)) {
        verdict = read_batch(b, v, limits, errors);
    } else {
        b->is_batch = false;
        if (!json_is(v, JSON_OBJECT)) {
            field_error_add(errors, "", "body", "wrong_type",
                            "must be an object, or an array of objects");
            return BODY_INVALID;
        }
        b->count = 1;
        struct fields f = {.object = v, .prefix = "", .errors = errors};
        read_item(b, 0, &f, limits->header_key);
        if (content_is_too_large(&b->contents[0], "", limits->payload_bytes_max, errors))
            return BODY_TOO_LARGE;
        verdict = errors->count == 0 ? BODY_GOOD : BODY_INVALID;
    }
    if (verdict == BODY_GOOD)
        set_places(b);
    return verdict;
}

/* -- claim ----------------------------------------------------------------------------------- */

void claim_body_read(struct claim_body *b, const struct json *v, const char *prefix,
                     struct field_errors *errors) {
    static const char *const names[] = {"lease_seconds", "count",          "wait_seconds",
                                        "worker",        "worker_version", NULL};
    const struct fields f = {.object = v, .prefix = prefix, .errors = errors};
    *b = (struct claim_body){
        .claim =
            {
                .count = (size_t)field_int(&f, "count", 1, LIMIT_BATCH, 1),
                .lease_ms = 1000 * field_int(&f, "lease_seconds", 1, LIMIT_LEASE_SECONDS, 0),
                .bytes_max = LIMIT_REPLY,
                .worker = field_string(&f, "worker", LIMIT_WORKER),
                .worker_version = field_string(&f, "worker_version", LIMIT_WORKER),
            },
        .has_count = json_get(v, "count") != NULL,
        .wait_ms = 1000 * field_int(&f, "wait_seconds", 0, LIMIT_WAIT_SECONDS, 0),
    };
    fields_known(&f, names);
    if (*prefix == '\0')
        check_object(v, true, "body", errors);
}

/* -- settle ---------------------------------------------------------------------------------- */

/* What each action takes; the first two are for the items of a batch alone. */
static const char *const *names_of(enum settle_action action, bool is_item) {
    static const char *const succeed[] = {"id", "action", "lease", NULL};
    static const char *const fail[] = {"id",          "action",      "lease",
                                       "error",       "error_class", "detail",
                                       "fingerprint", "permanent",   "retry_after_seconds",
                                       NULL};
    static const char *const release[] = {"id", "action", "lease", "delay_seconds", NULL};
    static const char *const extend[] = {"id", "action", "lease", "lease_seconds", NULL};
    size_t skipped = is_item ? 0 : 2;
    switch (action) {
    case SETTLE_SUCCEED:
        return succeed + skipped;
    case SETTLE_FAIL:
        return fail + skipped;
    case SETTLE_RELEASE:
        return release + skipped;
    case SETTLE_EXTEND:
        return extend + skipped;
    case SETTLE_RETURN:
    case SETTLE_REJECT:
        break; /* not over HTTP */
    }
    assert(false && "not an action");
    return succeed;
}

static struct settle read_settle(const struct fields *f, enum settle_action action, uint64_t id,
                                 bool is_item) {
    struct settle s = {.action = action, .id = id, .delay_ms = -1};
    struct span lease = field_string(f, "lease", SIZE_MAX);
    if (lease.p != NULL)
        s.lease = lease_parse(lease, id);

    switch (action) {
    case SETTLE_SUCCEED:
        break;
    case SETTLE_FAIL:
        s.error = field_string(f, "error", SIZE_MAX);
        s.error_class = field_string(f, "error_class", SIZE_MAX);
        s.detail = field_string(f, "detail", SIZE_MAX);
        s.fingerprint = field_string(f, "fingerprint", SIZE_MAX);
        s.permanent = field_bool(f, "permanent", false);
        s.delay_ms = read_seconds(f, "retry_after_seconds", 0, LIMIT_DELAY_SECONDS);
        break;
    case SETTLE_RELEASE:
        s.delay_ms = read_seconds(f, "delay_seconds", 0, LIMIT_DELAY_SECONDS);
        break;
    case SETTLE_EXTEND:
        s.lease_ms = 1000 * field_int(f, "lease_seconds", 1, LIMIT_LEASE_SECONDS, 0);
        break;
    case SETTLE_RETURN:
    case SETTLE_REJECT:
        break; /* not over HTTP */
    }
    fields_known(f, names_of(action, is_item));
    return s;
}

void settle_verb_read(struct settle *s, enum settle_action action, uint64_t id,
                      const struct json *v, struct field_errors *errors) {
    const struct fields f = {.object = v, .prefix = "", .errors = errors};
    *s = read_settle(&f, action, id, false);
    check_object(v, true, "body", errors);
}

static void read_settle_item(struct settle *s, size_t i, const struct json *v,
                             struct field_errors *errors) {
    static const char *const actions[] = {
        [SETTLE_SUCCEED] = "succeed",
        [SETTLE_FAIL] = "fail",
        [SETTLE_RELEASE] = "release",
        [SETTLE_EXTEND] = "extend",
        NULL,
    };
    char prefix[PREFIX_SIZE];
    snprintf(prefix, sizeof prefix, "items[%zu].", i);
    if (!json_is(v, JSON_OBJECT)) {
        prefix[strlen(prefix) - 1] = '\0';
        field_error_add(errors, "", prefix, "wrong_type", "must be an object");
        return;
    }

    const struct fields f = {.object = v, .prefix = prefix, .errors = errors};
    if (json_get(v, "id") == NULL)
        field_error_add(errors, prefix, "id", "required", "is required");
    uint64_t id = (uint64_t)field_int(&f, "id", 1, (int64_t)LIMIT_ID, 1);
    int action = field_choice(&f, "action", actions, -1);
    if (json_get(v, "action") == NULL)
        field_error_add(errors, prefix, "action", "required", "is required");
    if (action >= 0)
        *s = read_settle(&f, (enum settle_action)action, id, true);
}

void settle_body_read(struct settle_body *b, const struct json *v, struct field_errors *errors) {
    static const char *const names[] = {"items", "claim", NULL};
    b->count = 0;
    b->has_claim = false;
    if (!check_object(v, false, "body", errors))
        return;
    const struct fields f = {.object = v, .prefix = "", .errors = errors};
    fields_known(&f, names);

    const struct json *items = json_get(v, "items");
    if (items == NULL) {
        field_error_add(errors, "", "items", "required", "is required");
    } else if (!json_is(items, JSON_ARRAY)) {
        field_error_add(errors, "", "items", "wrong_type", "must be an array");
    } else if (json_count(items) > LIMIT_BATCH) {
        field_error_add(errors, "", "items", "out_of_range", "must hold at most %d items",
                        LIMIT_BATCH);
    } else {
        b->count = json_count(items);
        for (size_t i = 0; i < b->count; i++)
            read_settle_item(&b->items[i], i, json_at(items, i), errors);
    }

    const struct json *claim = json_get(v, "claim");
    b->has_claim = claim != NULL;
    if (b->has_claim && check_object(claim, false, "claim", errors))
        claim_body_read(&b->claim, claim, "claim.", errors);
}

/* -- lease tokens ---------------------------------------------------------------------------- */

uint32_t lease_parse(struct span token, uint64_t id) {
    const uint8_t *dash = token.n > 0 ? memchr(token.p, '-', token.n) : NULL;
    if (dash == NULL)
        return LEASE_NEVER;
    size_t n = (size_t)(dash - token.p);
    uint64_t named, deliveries;
    if (!number_parse(span_of(token.p, n), LIMIT_ID, &named) || named != id)
        return LEASE_NEVER;
    if (!number_parse(span_of(dash + 1, token.n - n - 1), LIMIT_DELIVERIES, &deliveries) ||
        deliveries == 0)
        return LEASE_NEVER;
    return (uint32_t)deliveries;
}

void lease_write(uint64_t id, uint32_t deliveries, struct buf *out) {
    buf_add_u64(out, id);
    buf_add_byte(out, '-');
    buf_add_u64(out, deliveries);
}
