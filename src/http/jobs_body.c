#include "http/jobs_body.h"

#include <math.h>
#include <string.h>

enum {
    /* Numbers grow when they are written out again (9e14), by less than a factor of five. */
    TEXT_BYTES_MAX = 8 * LIMIT_BODY_MOST,
    SHARE_WHOLE = 1000000, /* a share of all, in millionths */
    SHARE_PERCENT = SHARE_WHOLE / 100,
    SHARE_DIGITS = 4, /* behind the point of a percentage: a millionth is the smallest step */
    SHARE_DEFAULT = 20 * SHARE_PERCENT,
    SAMPLE_MAX = 1000000,
};
static const double RATE_MIN = 0.001, RATE_MAX = 1000000;

/* True when v is an object, or nothing where nothing will do. */
static bool check_object(const struct json *v, bool may_be_absent, struct field_errors *errors) {
    if (v == NULL ? may_be_absent : json_is(v, JSON_OBJECT))
        return true;
    field_error_add(errors, "", "body", "wrong_type", "must be an object");
    return false;
}

static struct fields fields_of(const struct json *v, struct field_errors *errors) {
    return (struct fields){.object = v, .prefix = "", .errors = errors};
}

static struct span read_reason(const struct fields *f) {
    return field_string(f, "reason", LIMIT_AUDIT_REASON);
}

/* A string that is not empty, of at most `most` bytes; empty when it is not given. */
static struct span read_name(const struct fields *f, const char *name, size_t most) {
    struct span value = field_string(f, name, most);
    if (value.p != NULL && value.n == 0)
        field_error_add(f->errors, f->prefix, name, "out_of_range", "must not be empty");
    return value;
}

static void check_required(const struct fields *f, const char *name) {
    if (json_get(f->object, name) == NULL)
        field_error_add(f->errors, f->prefix, name, "required", "is required");
}

static enum discard_reason read_why(const struct fields *f) {
    const char *names[DISCARD_COUNT] = {NULL}; /* without the first, and with a NULL at the end */
    for (int i = 1; i < DISCARD_COUNT; i++)
        names[i - 1] = discard_reason_name((enum discard_reason)i);
    check_required(f, "why");
    return (enum discard_reason)(field_choice(f, "why", names, -1) + 1);
}

/* The text of a patch, appended to `out`; {NULL, 0} when it is not given or not good. */
static struct span read_patch(const struct fields *f, struct buf *out) {
    const struct json *v = json_get(f->object, "patch");
    if (v == NULL)
        return span_of(NULL, 0);
    unsigned errors_before = f->errors->count;
    patch_check(v, "patch", f->errors);
    if (f->errors->count > errors_before)
        return span_of(NULL, 0);
    json_dump(v, out);
    if (out->n > LIMIT_PATCH)
        field_error_add(f->errors, f->prefix, "patch", "too_long",
                        "must be at most %d bytes as JSON", LIMIT_PATCH);
    return buf_span(out);
}

/* -- jobs ------------------------------------------------------------------------------------ */

void job_body_init(struct job_body *b) {
    *b = (struct job_body){.job.sample = 0, .job.stop_if_ppm = STOP_NEVER};
    buf_init(&b->patch, TEXT_BYTES_MAX);
}

void job_body_release(struct job_body *b) {
    buf_release(&b->patch);
}

static bool is_blank(struct span text) {
    for (size_t i = 0; i < text.n; i++) {
        if (memchr(" \t\r\n", text.p[i], 4) == NULL)
            return false;
    }
    return true;
}

static void check_filter(const struct fields *f, struct span text, int64_t now) {
    if (is_blank(text)) {
        field_error_add_at(f->errors, "filter", "bad_filter", 0, text.n,
                           "is empty: to mean all letters, say all: true instead of a filter");
        return;
    }
    struct filter_error error;
    struct filter *filter = filter_parse(text, FILTER_LETTERS, now, &error);
    if (filter == NULL)
        field_error_add_at(f->errors, "filter", "bad_filter", error.at, error.bytes, error.text);
    filter_free(filter);
}

/* Which letters: a filter, or explicitly all of them. */
static struct span read_filter(const struct fields *f, int64_t now) {
    bool is_all = field_bool(f, "all", false);
    if (json_get(f->object, "filter") == NULL) {
        if (!is_all)
            field_error_add(f->errors, f->prefix, "filter", "required",
                            "is required; to mean all letters, say all: true");
        return span_of(NULL, 0);
    }
    if (is_all)
        field_error_add(f->errors, f->prefix, "all", "conflict",
                        "must not be given together with filter");
    struct span text = field_string(f, "filter", SIZE_MAX);
    if (text.p != NULL)
        check_filter(f, text, now);
    return text;
}

/* Letters in 1000 seconds; 0 when it is null or not given: as fast as it can. */
static uint64_t read_rate(const struct fields *f) {
    const struct json *v = json_get(f->object, "rate");
    if (v == NULL || json_is(v, JSON_NULL))
        return 0;
    return (uint64_t)llround(field_number(f, "rate", RATE_MIN, RATE_MAX, RATE_MIN) * 1000);
}

/* "12.5%" in millionths; false when text is no percentage. */
static bool percent_parse(struct span text, uint32_t *ret_ppm) {
    uint32_t value = 0;
    size_t i = 0, digits = 0, decimals = 0;
    bool has_point = false;
    for (; i + 1 < text.n; i++) {
        uint8_t c = text.p[i];
        if (c == '.' && digits > 0 && !has_point) {
            has_point = true;
            continue;
        }
        if (c < '0' || c > '9' || value > SHARE_WHOLE || decimals == SHARE_DIGITS)
            return false;
        value = value * 10 + (uint32_t)(c - '0');
        digits++;
        decimals += has_point ? 1 : 0;
    }
    if (digits == 0 || (has_point && decimals == 0) || text.p[i] != '%')
        return false;
    uint64_t ppm = value;
    for (; decimals < SHARE_DIGITS; decimals++)
        ppm *= 10;
    if (ppm > SHARE_WHOLE)
        return false;
    *ret_ppm = (uint32_t)ppm;
    return true;
}

uint32_t stop_if_read(const struct json *v, struct field_errors *errors) {
    if (json_is(v, JSON_NULL))
        return STOP_NEVER;
    uint32_t ppm;
    if (json_is(v, JSON_STRING) && percent_parse(json_string(v), &ppm))
        return ppm;
    bool is_number = json_is(v, JSON_INTEGER) || json_is(v, JSON_REAL);
    if (is_number && json_number(v) >= 0 && json_number(v) <= 1)
        return (uint32_t)llround(json_number(v) * SHARE_WHOLE);
    field_error_add(errors, "", "stop_if",
                    is_number || json_is(v, JSON_STRING) ? "out_of_range" : "wrong_type",
                    "must be a share: \"0%%\" to \"100%%\", 0 to 1, or null for never");
    return STOP_NEVER;
}

static uint32_t read_sample(const struct fields *f) {
    int64_t sample = field_int(f, "sample", 0, SAMPLE_MAX, -1);
    return sample < 0 ? SAMPLE_BY_DEFAULT : (uint32_t)sample;
}

/* What redrives and discards have in common. */
static void read_job(struct job_body *b, const struct fields *f, int64_t now) {
    b->job.queue = read_name(f, "queue", LIMIT_QUEUE_NAME);
    b->job.filter = read_filter(f, now);
    b->job.name = field_string(f, "name", LIMIT_JOB_NAME);
    b->job.act.reason = read_reason(f);
    b->is_dry_run = field_bool(f, "dry_run", false);
}

void redrive_body_read(struct job_body *b, const struct json *v, int64_t now,
                       struct field_errors *errors) {
    static const char *const names[] = {"queue",  "filter",  "all",          "to",    "rate",
                                        "sample", "stop_if", "patch",        "force", "name",
                                        "reason", "dry_run", "clear_deaths", NULL};
    if (!check_object(v, false, errors))
        return;
    const struct fields f = fields_of(v, errors);
    struct job_new *job = &b->job;
    job->kind = JOB_REDRIVE;
    check_required(&f, "queue");
    read_job(b, &f, now);
    job->to = read_name(&f, "to", LIMIT_QUEUE_NAME);
    if (job->to.n > 0 && span_equal(job->to, job->queue))
        field_error_add(errors, "", "to", "conflict",
                        "must be another queue; without it letters go back to their own");
    job->rate_milli = read_rate(&f);
    job->sample = read_sample(&f);
    const struct json *stop_if = json_get(v, "stop_if");
    job->stop_if_ppm = stop_if == NULL ? SHARE_DEFAULT : stop_if_read(stop_if, errors);
    job->patch = read_patch(&f, &b->patch);
    job->force = field_bool(&f, "force", false);
    job->clear_deaths = field_bool(&f, "clear_deaths", false);
    fields_known(&f, names);
}

void discards_body_read(struct job_body *b, const struct json *v, int64_t now,
                        struct field_errors *errors) {
    static const char *const names[] = {"queue",  "filter", "all",     "why",
                                        "reason", "name",   "dry_run", NULL};
    if (!check_object(v, false, errors))
        return;
    const struct fields f = fields_of(v, errors);
    b->job.kind = JOB_DISCARD;
    read_job(b, &f, now);
    b->job.why = read_why(&f);
    fields_known(&f, names);
}

void purge_body_read(struct job_body *b, struct span queue, const struct json *v,
                     struct field_errors *errors) {
    static const char *const names[] = {"confirm", "reason", NULL};
    if (!check_object(v, false, errors))
        return;
    const struct fields f = fields_of(v, errors);
    b->job.kind = JOB_PURGE;
    b->job.queue = queue;
    b->job.act.reason = read_reason(&f);
    check_required(&f, "confirm");
    struct span confirm = field_string(&f, "confirm", SIZE_MAX);
    if (confirm.p != NULL && !span_equal(confirm, queue))
        field_error_add(errors, "", "confirm", "conflict",
                        "must be the name of the queue, whose dead letters will be gone for good");
    fields_known(&f, names);
}

void job_change_read(struct job_change *change, struct span *ret_reason, bool is_redrive,
                     const struct json *v, struct field_errors *errors) {
    static const char *const states[] = {"paused", "running", "cancelled", NULL};
    static const enum job_state states_of[] = {JOB_PAUSED, JOB_RUNNING, JOB_CANCELLED};
    static const char *const names_all[] = {"rate", "stop_if", "state", "reason", NULL};
    const char *const *names = is_redrive ? names_all : names_all + 2;
    *change = (struct job_change){.state = JOB_RUNNING};
    *ret_reason = span_of(NULL, 0);
    if (!check_object(v, false, errors))
        return;
    const struct fields f = fields_of(v, errors);
    int state = field_choice(&f, "state", states, -1);
    change->has_state = state >= 0;
    if (change->has_state)
        change->state = states_of[state];
    const struct json *stop_if = json_get(v, "stop_if");
    change->has_rate = json_get(v, "rate") != NULL;
    change->has_stop_if = stop_if != NULL;
    change->rate_milli = read_rate(&f);
    if (stop_if != NULL)
        change->stop_if_ppm = stop_if_read(stop_if, errors);
    *ret_reason = read_reason(&f);
    fields_known(&f, names);
    if (errors->count == 0 && !change->has_state && !change->has_rate && !change->has_stop_if)
        field_error_add(errors, "", "state", "required",
                        is_redrive ? "is required, or rate, or stop_if" : "is required");
}

/* -- one letter ------------------------------------------------------------------------------ */

void replay_body_read(struct replay_body *b, const struct json *v, struct field_errors *errors) {
    static const char *const names[] = {"force", "clear_deaths", "reason", NULL};
    const struct fields f = fields_of(v, errors);
    *b = (struct replay_body){.force = field_bool(&f, "force", false),
                              .clear_deaths = field_bool(&f, "clear_deaths", false),
                              .reason = read_reason(&f)};
    fields_known(&f, names);
    check_object(v, true, errors);
}

void discard_body_read(struct discard_body *b, const struct json *v, struct field_errors *errors) {
    static const char *const names[] = {"why", "reason", NULL};
    *b = (struct discard_body){.why = DISCARD_NONE};
    if (!check_object(v, false, errors))
        return;
    const struct fields f = fields_of(v, errors);
    *b = (struct discard_body){.why = read_why(&f), .reason = read_reason(&f)};
    fields_known(&f, names);
}

struct span reason_body_read(const struct json *v, struct field_errors *errors) {
    static const char *const names[] = {"reason", NULL};
    const struct fields f = fields_of(v, errors);
    struct span reason = read_reason(&f);
    fields_known(&f, names);
    check_object(v, true, errors);
    return reason;
}

void edit_body_init(struct edit_body *b) {
    *b = (struct edit_body){.reason = {NULL, 0}};
    buf_init(&b->bytes, TEXT_BYTES_MAX);
    buf_init(&b->headers_text, TEXT_BYTES_MAX);
}

void edit_body_release(struct edit_body *b) {
    buf_release(&b->headers_text);
    buf_release(&b->bytes);
}

static void read_payload(struct edit_body *b, const struct fields *f) {
    b->edit.has_payload = json_get(f->object, "payload") != NULL;
    if (json_get(f->object, "payload_base64") == NULL) {
        b->edit.payload = field_string(f, "payload", SIZE_MAX);
        return;
    }
    if (b->edit.has_payload) {
        field_error_add(f->errors, f->prefix, "payload_base64", "conflict",
                        "must not be given together with payload");
        return;
    }
    b->edit.has_payload = true;
    struct span encoded = field_string(f, "payload_base64", SIZE_MAX);
    if (encoded.p != NULL && base64_decode(encoded, &b->bytes) != OK)
        field_error_add(f->errors, f->prefix, "payload_base64", "bad_encoding",
                        "must be base64 (RFC 4648) with padding");
    b->edit.payload = buf_span(&b->bytes);
}

/* An object, or null for none. */
static void read_headers(struct edit_body *b, const struct fields *f) {
    const struct json *headers = json_get(f->object, "headers");
    b->edit.has_headers = headers != NULL;
    if (headers == NULL || json_is(headers, JSON_NULL))
        return;
    if (!json_is(headers, JSON_OBJECT)) {
        field_error_add(f->errors, f->prefix, "headers", "wrong_type",
                        "must be an object, or null for none");
        return;
    }
    if (json_count(headers) == 0)
        return;
    json_dump(headers, &b->headers_text);
    b->edit.headers = buf_span(&b->headers_text);
    if (b->edit.headers.n > LIMIT_HEADERS)
        field_error_add(f->errors, f->prefix, "headers", "too_long",
                        "must be at most %d bytes as JSON", LIMIT_HEADERS);
}

enum body_verdict edit_body_read(struct edit_body *b, const struct json *v,
                                 size_t payload_bytes_max, struct field_errors *errors) {
    static const char *const names[] = {"payload", "payload_base64", "headers", "patch",
                                        "force",   "reason",         NULL};
    if (!check_object(v, false, errors))
        return BODY_INVALID;
    const struct fields f = fields_of(v, errors);
    read_payload(b, &f);
    read_headers(b, &f);
    bool has_patch = json_get(v, "patch") != NULL;
    if (has_patch && (b->edit.has_payload || b->edit.has_headers))
        field_error_add(errors, "", "patch", "conflict",
                        "must not be given together with payload or headers");
    else
        b->patch = read_patch(&f, &b->bytes);
    if (!has_patch && !b->edit.has_payload && !b->edit.has_headers)
        field_error_add(errors, "", "payload", "required",
                        "is required, or payload_base64, or headers, or patch");
    b->edit.force = field_bool(&f, "force", false);
    b->reason = read_reason(&f);
    fields_known(&f, names);
    if (b->edit.payload.n > payload_bytes_max) {
        errors->count = 0;
        field_error_add(errors, "", "payload", "too_long", "must be at most %zu bytes",
                        payload_bytes_max);
        return BODY_TOO_LARGE;
    }
    return errors->count == 0 ? BODY_GOOD : BODY_INVALID;
}

/* -- patched letters ------------------------------------------------------------------------- */

void patched_init(struct buf *headers, struct buf *payload, const struct message_view *letter,
                  size_t payload_bytes_max) {
    buf_init(headers, LIMIT_HEADERS);
    buf_init(payload,
             letter->payload.n > payload_bytes_max ? letter->payload.n : payload_bytes_max);
}

const char *patch_trouble(enum err e, struct span payload) {
    if (e == ERR_TOO_LARGE)
        return "the changed letter would be too large";
    struct json_error error;
    struct json *v = json_parse(payload, &error);
    json_free(v);
    return v == NULL ? "the payload is no JSON"
                     : "a path leads through a value that is neither object nor array, or past the "
                       "end of an array";
}
