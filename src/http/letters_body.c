#include "http/letters_body.h"

#include "base/clock.h"
#include "base/mem.h"
#include "model/envelope.h"
#include "model/properties.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum { PREFIX_SIZE = 96, REDRIVES_MOST = UINT16_MAX };

#define TIME_MOST ((INT64_C(1) << 42) - 1) /* as far as a message's clock goes: the year 2109 */

struct letters_body *letters_body_new(size_t body_bytes_max) {
    struct letters_body *b = mem_alloc(sizeof *b);
    buf_init(&b->bytes, content_bytes_max(body_bytes_max));
    return b;
}

void letters_body_free(struct letters_body *b) {
    if (b == NULL)
        return;
    buf_release(&b->bytes);
    free(b->attempts);
    free(b);
}

/* -- members --------------------------------------------------------------------------------- */

static void check_required(const struct fields *f, const char *name) {
    if (json_get(f->object, name) == NULL)
        field_error_add(f->errors, f->prefix, name, "required", "is required");
}

/* A time: NAME_ms, or NAME where that is not given; 0 when neither is, or it is null. */
static int64_t read_time(const struct fields *f, const char *name) {
    char exact[32];
    int n = snprintf(exact, sizeof exact, "%s_ms", name);
    assert(n > 0 && (size_t)n < sizeof exact);
    if (json_get(f->object, exact) != NULL)
        return field_int(f, exact, 1, TIME_MOST, 0);

    const struct json *v = json_get(f->object, name);
    int64_t ms;
    if (v == NULL || json_is(v, JSON_NULL))
        return 0;
    bool is_text = json_is(v, JSON_STRING);
    if (is_text && time_parse(json_string(v), &ms) == OK && ms > 0 && ms <= TIME_MOST)
        return ms;
    field_error_add(f->errors, f->prefix, name, is_text ? "out_of_range" : "wrong_type",
                    "must be a time as YYYY-MM-DD HH:MM:SS");
    return 0;
}

static int64_t read_required_time(const struct fields *f, const char *name) {
    unsigned errors_before = f->errors->count;
    int64_t ms = read_time(f, name);
    if (ms == 0 && f->errors->count == errors_before)
        field_error_add(f->errors, f->prefix, name, "required", "is required");
    return ms;
}

static struct span read_text_or_null(const struct fields *f, const char *name, size_t most) {
    return json_is(json_get(f->object, name), JSON_NULL) ? span_of(NULL, 0)
                                                         : field_string(f, name, most);
}

/* A name out of a list that is parsed by `parse`; -1 when it is not given, or wrong. */
static int read_name(const struct fields *f, const char *name, int (*parse)(struct span text)) {
    check_required(f, name);
    struct span text = field_string(f, name, SIZE_MAX);
    if (text.p == NULL)
        return -1;
    int value = parse(text);
    if (value < 0)
        field_error_add(f->errors, f->prefix, name, "out_of_range", "is not known here");
    return value;
}

/* -- the story ------------------------------------------------------------------------------- */

static struct letter_attempt *add_attempt(struct letters_body *b) {
    if (b->attempt_count == b->attempt_cap) {
        b->attempt_cap = b->attempt_cap == 0 ? 64 : 2 * b->attempt_cap;
        b->attempts = mem_grow(b->attempts, b->attempt_cap * sizeof b->attempts[0]);
    }
    struct letter_attempt *a = &b->attempts[b->attempt_count++];
    *a = (struct letter_attempt){0};
    return a;
}

/* One line; its attempt is not below that of the line before, nor above the last. */
static void read_attempt(struct letter_attempt *a, const struct fields *f, uint32_t low,
                         uint32_t high) {
    static const char *const names[] = {"attempt",     "event",       "at",     "at_ms",
                                        "next_at",     "next_at_ms",  "worker", "worker_version",
                                        "actor",       "error_class", "error",  "detail",
                                        "fingerprint", "duration_ms", NULL};
    check_required(f, "attempt");
    a->attempt = (uint32_t)field_int(f, "attempt", low, high, low);
    int event = read_name(f, "event", event_parse);
    a->event = event < 0 ? EVENT_NONE : (enum event)event;
    a->at = read_required_time(f, "at");
    a->next_at = read_time(f, "next_at");
    a->worker = field_string(f, "worker", LIMIT_WORKER);
    struct span actor = field_string(f, "actor", LIMIT_ACTOR);
    if (a->worker.n > 0 && actor.n > 0)
        field_error_add(f->errors, f->prefix, "actor", "conflict",
                        "must not be given together with worker");
    if (a->worker.n == 0)
        a->worker = actor;
    a->worker_version = field_string(f, "worker_version", LIMIT_WORKER);
    a->error_class = field_string(f, "error_class", LIMIT_ERROR_CLASS);
    a->error = field_string(f, "error", LIMIT_ERROR);
    a->detail = field_string(f, "detail", LIMIT_DETAIL);
    a->fingerprint = field_string(f, "fingerprint", LIMIT_FINGERPRINT);
    fields_known(f, names);
}

/* Without a story the newest failure is all that is known of it. */
static void add_failure(struct letters_body *b, const struct letter_new *m, const struct fields *f,
                        const struct fields *death) {
    const struct letter_attempt failure = {
        .event = m->reason == REASON_LEASE_EXPIRED ? EVENT_LEASE_EXPIRED : EVENT_FAILED,
        .attempt = m->deliveries,
        .at = read_time(death, "last_failed_at"),
        .worker = field_string(death, "worker", LIMIT_WORKER),
        .worker_version = field_string(death, "worker_version", LIMIT_WORKER),
        .error_class = field_string(f, "error_class", LIMIT_ERROR_CLASS),
        .error = read_text_or_null(f, "last_error", LIMIT_ERROR),
        .detail = field_string(f, "detail", LIMIT_DETAIL),
    };
    if (failure.at != 0)
        *add_attempt(b) = failure;
}

static void read_story(struct letters_body *b, const struct letter_new *m, const struct fields *f,
                       const struct fields *death) {
    const struct json *lines = json_get(f->object, "attempts");
    if (lines == NULL) {
        add_failure(b, m, f, death);
        return;
    }
    bool is_array = json_is(lines, JSON_ARRAY);
    if (!is_array || json_count(lines) > LIMIT_IMPORT_ATTEMPTS) {
        field_error_add(f->errors, f->prefix, "attempts", is_array ? "out_of_range" : "wrong_type",
                        "must be an array of at most %d objects", LIMIT_IMPORT_ATTEMPTS);
        return;
    }
    uint32_t low = 0;
    for (size_t i = 0; i < json_count(lines); i++) {
        char prefix[PREFIX_SIZE];
        const struct json *line = json_at(lines, i);
        if (!json_is(line, JSON_OBJECT)) {
            snprintf(prefix, sizeof prefix, "%.40sattempts[%zu]", f->prefix, i);
            field_error_add(f->errors, "", prefix, "wrong_type", "must be an object");
            continue;
        }
        snprintf(prefix, sizeof prefix, "%.40sattempts[%zu].", f->prefix, i);
        const struct fields of_line = {.object = line, .prefix = prefix, .errors = f->errors};
        struct letter_attempt *a = add_attempt(b);
        read_attempt(a, &of_line, low, m->deliveries);
        low = a->attempt;
    }
}

/* -- a letter -------------------------------------------------------------------------------- */

/* What AMQP knows of it, as exact=yes gives it: the packed form, which must hold together. */
static void read_envelope(struct letters_body *b, size_t i, const struct fields *f) {
    struct span text = field_string(f, "envelope_base64", SIZE_MAX);
    b->envelopes_at[i] = b->bytes.n;
    if (text.n == 0)
        return;
    struct envelope v;
    struct properties p;
    bool is_good = base64_decode(text, &b->bytes) == OK;
    struct span packed = span_of(b->bytes.p + b->envelopes_at[i], b->bytes.n - b->envelopes_at[i]);
    is_good = is_good && packed.n <= ENVELOPE_BYTES_MAX + LIMIT_HEADERS &&
              envelope_unpack(packed, &v) == OK && properties_read(v.properties, &p) &&
              properties_headers_check(p.headers);
    if (!is_good)
        field_error_add(f->errors, f->prefix, "envelope_base64", "bad_encoding",
                        "must be as exact=yes gives it");
    b->items[i].envelope.n = packed.n;
}

/* Also what is not looked at, as a typing error in a name should not go unnoticed. */
static void check_names(const struct fields *f, const struct fields *death) {
    static const char *const names[] = {"id",
                                        "queue",
                                        "payload",
                                        "payload_base64",
                                        "status",
                                        "retry_count",
                                        "max_retries",
                                        "retry_after",
                                        "last_error",
                                        "created_at",
                                        "updated_at",
                                        "properties",
                                        "envelope_base64",
                                        "created_at_ms",
                                        "updated_at_ms",
                                        "headers",
                                        "key",
                                        "priority",
                                        "ttl_ms",
                                        "deliveries",
                                        "error_class",
                                        "detail",
                                        "reason",
                                        "died_at",
                                        "died_at_ms",
                                        "redrive_count",
                                        "generation",
                                        "parent_id",
                                        "edited_to",
                                        "origin_queue",
                                        "job",
                                        "death",
                                        "attempts",
                                        "count",
                                        "attempts_total",
                                        "attempts_omitted",
                                        NULL};
    static const char *const death_names[] = {"dead_seq",
                                              "by",
                                              "died_at",
                                              "died_at_ms",
                                              "first_failed_at",
                                              "first_failed_at_ms",
                                              "last_failed_at",
                                              "last_failed_at_ms",
                                              "first_enqueued_at",
                                              "first_enqueued_at_ms",
                                              "expires_at",
                                              "expires_at_ms",
                                              "origin",
                                              "redrive_count",
                                              "group",
                                              "worker",
                                              "worker_version",
                                              "trace_id",
                                              "unroutable",
                                              NULL};
    fields_known(f, names);
    fields_known(death, death_names);
}

static void check_status(const struct fields *f) {
    struct span status = field_string(f, "status", SIZE_MAX);
    if (status.p != NULL && !span_equal_str(status, state_name(STATE_DEAD)))
        field_error_add(f->errors, f->prefix, "status", "out_of_range", "must be dead");
}

/* The queue it was accepted in: what it says, or the one it is taken from. */
static struct span read_origin(const struct letters_body *b, const struct fields *f) {
    struct span origin = field_string(f, "origin_queue", LIMIT_QUEUE_NAME);
    struct span from = field_string(f, "queue", LIMIT_QUEUE_NAME);
    if (origin.n == 0)
        origin = from;
    return span_equal(origin, b->queue) ? span_of(NULL, 0) : origin;
}

static void read_letter(struct letters_body *b, size_t i, const struct fields *f) {
    char prefix[PREFIX_SIZE];
    snprintf(prefix, sizeof prefix, "%.40sdeath.", f->prefix);
    const struct fields death = {
        .object = json_get(f->object, "death"), .prefix = prefix, .errors = f->errors};
    if (death.object != NULL && !json_is(death.object, JSON_OBJECT))
        field_error_add(f->errors, f->prefix, "death", "wrong_type", "must be an object");

    content_read(&b->contents[i], f, &b->bytes);
    check_required(f, "id");
    check_required(f, "max_retries");
    check_status(f);
    int reason = read_name(f, "reason", reason_parse);
    struct letter_new *m = &b->items[i];
    *m = (struct letter_new){
        .id = (uint64_t)field_int(f, "id", 1, (int64_t)LIMIT_IMPORT_ID, 1),
        .key = field_string(f, "key", LIMIT_KEY),
        .max_retries = (uint8_t)field_int(f, "max_retries", 1, LIMIT_POLICY_RETRIES, 1),
        .retry_count = (uint8_t)field_int(f, "retry_count", 0, LIMIT_POLICY_RETRIES, 0),
        .priority = (uint8_t)field_int(f, "priority", 0, PRIORITY_MAX, 0),
        .reason = reason < 0 ? REASON_NONE : (enum reason)reason,
        .deliveries = (uint32_t)field_int(f, "deliveries", 0, LIMIT_DELIVERIES, 0),
        .redrive_count = (uint32_t)field_int(f, "redrive_count", 0, REDRIVES_MOST, 0),
        .created_at = read_required_time(f, "created_at"),
        .died_at = read_required_time(f, "died_at"),
        .first_failed_at = read_time(&death, "first_failed_at"),
        .ttl_ms = field_int(f, "ttl_ms", 0, LIMIT_DELAY_SECONDS * INT64_C(1000), 0),
        .parent_id = (uint64_t)field_int(f, "parent_id", 1, (int64_t)LIMIT_ID, 0),
        .edited_to = (uint64_t)field_int(f, "edited_to", 1, (int64_t)LIMIT_ID, 0),
        .origin = read_origin(b, f),
    };
    read_envelope(b, i, f);
    b->attempts_at[i] = b->attempt_count;
    read_story(b, m, f, &death);
    m->attempt_count = b->attempt_count - b->attempts_at[i];
    check_names(f, &death);
}

/* -- the body -------------------------------------------------------------------------------- */

/* True when the letter's payload is over the limit: then that is the only error. */
static bool read_item(struct letters_body *b, size_t i, const struct json *v,
                      size_t payload_bytes_max, struct field_errors *errors) {
    char prefix[PREFIX_SIZE];
    if (!json_is(v, JSON_OBJECT)) {
        snprintf(prefix, sizeof prefix, "letters[%zu]", i);
        field_error_add(errors, "", prefix, "wrong_type", "must be an object");
        return false;
    }
    snprintf(prefix, sizeof prefix, "letters[%zu].", i);
    const struct fields f = {.object = v, .prefix = prefix, .errors = errors};
    read_letter(b, i, &f);
    if (content_is_too_large(&b->contents[i], prefix, payload_bytes_max, errors))
        return true;
    for (size_t j = 0; j < i; j++) {
        if (b->items[j].id == b->items[i].id && json_get(v, "id") != NULL) {
            field_error_add(errors, prefix, "id", "conflict", "is that of letters[%zu], too", j);
            break;
        }
    }
    return false;
}

/* What moved while it grew. */
static void place(struct letters_body *b) {
    for (size_t i = 0; i < b->count; i++) {
        content_place(&b->contents[i], &b->bytes);
        b->items[i].payload = b->contents[i].payload;
        b->items[i].headers = b->contents[i].headers;
        if (b->items[i].envelope.n > 0)
            b->items[i].envelope.p = b->bytes.p + b->envelopes_at[i];
        if (b->items[i].attempt_count > 0)
            b->items[i].attempts = b->attempts + b->attempts_at[i];
    }
}

enum body_verdict letters_body_read(struct letters_body *b, const struct json *v,
                                    size_t payload_bytes_max, struct field_errors *errors) {
    static const char *const names[] = {"queue", "letters", "reason", NULL};
    if (!json_is(v, JSON_OBJECT)) {
        field_error_add(errors, "", "body", "wrong_type", "must be an object");
        return BODY_INVALID;
    }
    const struct fields f = {.object = v, .prefix = "", .errors = errors};
    fields_known(&f, names);
    check_required(&f, "queue");
    b->queue = field_string(&f, "queue", LIMIT_QUEUE_NAME);
    if (b->queue.p != NULL && b->queue.n == 0)
        field_error_add(errors, "", "queue", "out_of_range", "must not be empty");
    b->reason = field_string(&f, "reason", LIMIT_AUDIT_REASON);

    check_required(&f, "letters");
    const struct json *letters = json_get(v, "letters");
    size_t count = json_count(letters);
    if (letters == NULL)
        return BODY_INVALID;
    if (!json_is(letters, JSON_ARRAY) || count < 1 || count > LIMIT_BATCH) {
        field_error_add(errors, "", "letters",
                        json_is(letters, JSON_ARRAY) ? "out_of_range" : "wrong_type",
                        "must be an array of 1 to %d letters", LIMIT_BATCH);
        return BODY_INVALID;
    }
    b->count = count;
    for (size_t i = 0; i < count; i++) {
        if (read_item(b, i, json_at(letters, i), payload_bytes_max, errors))
            return BODY_TOO_LARGE;
    }
    place(b);
    return errors->count == 0 ? BODY_GOOD : BODY_INVALID;
}
