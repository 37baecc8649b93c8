#include "model/alert.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { PREFIX_SIZE = 32 };

#define MILLION 1000000
#define YEAR_SECONDS INT64_C(31536000)
#define PER_MINUTE_MOST 1000000000
#define REPEAT_SECONDS_LEAST 60

static const char *const kind_names[ALERT_KIND_COUNT + 1] = {
    [ALERT_DEAD_LETTER] = "dead_letter",       [ALERT_RATE] = "rate",
    [ALERT_NEW_GROUP] = "new_group",           [ALERT_REGRESSED_GROUP] = "regressed_group",
    [ALERT_OLDEST_AGE] = "oldest_age",         [ALERT_SOONEST_EXPIRY] = "soonest_expiry",
    [ALERT_BREAKER_OPENED] = "breaker_opened", [ALERT_REDRIVE_STOPPED] = "redrive_stopped",
};

const char *alert_kind_name(enum alert_kind k) {
    assert((unsigned)k < ALERT_KIND_COUNT);
    return kind_names[k];
}

int alert_kind_parse(struct span name) {
    for (int k = 0; k < ALERT_KIND_COUNT; k++) {
        if (span_equal_str(name, kind_names[k]))
            return k;
    }
    return -1;
}

/* -- one alert ------------------------------------------------------------------------------- */

/* The rest of a text behind `start`; empty when it does not begin so. */
static struct span behind(struct span text, const char *start) {
    size_t n = strlen(start);
    bool begins = text.n >= n && memcmp(text.p, start, n) == 0;
    return begins ? span_of(text.p + n, text.n - n) : span_of(NULL, 0);
}

/* A scheme, something for a host, and no byte that would have to be encoded. */
static bool is_url(struct span url) {
    struct span rest = behind(url, "https://");
    if (rest.n == 0)
        rest = behind(url, "http://");
    for (size_t i = 0; i < rest.n; i++) {
        if (rest.p[i] <= ' ' || rest.p[i] >= 0x7f)
            return false;
    }
    return rest.n > 0 && memchr("/?#:@", rest.p[0], 5) == NULL;
}

static void read_url(const struct fields *f, char ret[static ALERT_URL_MAX + 1]) {
    unsigned errors_before = f->errors->count;
    struct span url = field_string(f, "url", ALERT_URL_MAX);
    if (json_get(f->object, "url") == NULL)
        field_error_add(f->errors, f->prefix, "url", "required", "is required");
    else if (f->errors->count == errors_before && !is_url(url))
        field_error_add(f->errors, f->prefix, "url", "out_of_range",
                        "must be a URL that begins with https:// or http://, in ASCII");
    if (url.n > 0)
        memcpy(ret, url.p, url.n);
    ret[url.n] = '\0';
}

/* Whether the alert's kind looks at this member; told when it is there and has no effect. */
static bool is_of(const struct fields *f, enum alert_kind kind, enum alert_kind wanted,
                  const char *name) {
    if (kind != wanted && json_get(f->object, name) != NULL)
        field_error_add(f->errors, f->prefix, name, "not_allowed", "has no meaning with kind %s",
                        kind_names[kind]);
    return kind == wanted;
}

static void read_kind(const struct fields *f, struct alert *a) {
    if (json_get(f->object, "kind") == NULL)
        field_error_add(f->errors, f->prefix, "kind", "required", "is required");
    int kind = field_choice(f, "kind", kind_names, -1);
    if (kind < 0)
        return;
    a->kind = (enum alert_kind)kind;
    if (is_of(f, a->kind, ALERT_DEAD_LETTER, "after_seconds"))
        a->after_ms = 1000 * field_int(f, "after_seconds", 0, YEAR_SECONDS, 3600);
    if (is_of(f, a->kind, ALERT_RATE, "per_minute"))
        a->per_minute = (uint32_t)field_int(f, "per_minute", 1, PER_MINUTE_MOST, 60);
    if (is_of(f, a->kind, ALERT_OLDEST_AGE, "share"))
        a->share_ppm = (uint32_t)(field_number(f, "share", 0.01, 1, 0.8) * MILLION + 0.5);
    if (is_of(f, a->kind, ALERT_SOONEST_EXPIRY, "within_seconds"))
        a->within_ms = 1000 * field_int(f, "within_seconds", 1, YEAR_SECONDS, 86400);
}

static void read_alert(const struct json *v, size_t number, struct field_errors *errors,
                       struct alert *ret) {
    static const char *const names[] = {"kind",       "url",   "secret",         "after_seconds",
                                        "per_minute", "share", "within_seconds", "repeat_seconds",
                                        NULL};
    char prefix[PREFIX_SIZE];
    snprintf(prefix, sizeof prefix, "alerts[%zu].", number);
    const struct fields f = {.object = v, .prefix = prefix, .errors = errors};
    memset(ret, 0, sizeof *ret);
    fields_known(&f, names);
    read_kind(&f, ret);
    read_url(&f, ret->url);
    struct span secret = field_string(&f, "secret", ALERT_SECRET_MAX);
    if (secret.n > 0)
        memcpy(ret->secret, secret.p, secret.n);
    ret->secret_bytes = secret.n;
    ret->repeat_ms =
        1000 * field_int(&f, "repeat_seconds", REPEAT_SECONDS_LEAST, YEAR_SECONDS, 3600);
}

/* -- all of them ----------------------------------------------------------------------------- */

void alerts_check(const struct json *alerts, struct field_errors *errors) {
    if (!json_is(alerts, JSON_ARRAY)) {
        field_error_add(errors, "", "alerts", "wrong_type", "must be an array of alerts");
        return;
    }
    if (json_count(alerts) > ALERTS_MAX) {
        field_error_add(errors, "", "alerts", "out_of_range", "must hold at most %d alerts",
                        ALERTS_MAX);
        return;
    }
    for (size_t i = 0; i < json_count(alerts); i++) {
        struct alert ignored;
        if (json_is(json_at(alerts, i), JSON_OBJECT)) {
            read_alert(json_at(alerts, i), i, errors, &ignored);
        } else {
            char name[PREFIX_SIZE];
            snprintf(name, sizeof name, "alerts[%zu]", i);
            field_error_add(errors, "", name, "wrong_type", "must be an object");
        }
    }
}

size_t alerts_read(struct span json, struct alert *ret, size_t most) {
    if (json.n == 0)
        return 0;
    struct json_error json_error;
    struct json *v = json_parse(json, &json_error);
    assert(json_is(v, JSON_ARRAY));
    struct field_errors errors = {0};
    size_t n = json_count(v) < most ? json_count(v) : most;
    for (size_t i = 0; i < n; i++)
        read_alert(json_at(v, i), i, &errors, &ret[i]);
    assert(errors.count == 0); /* alerts_check found it good */
    json_free(v);
    return n;
}

/* -- secrets that are not shown -------------------------------------------------------------- */

static struct span text_of(const struct json *alert, const char *name) {
    const struct json *v = json_get(alert, name);
    return json_is(v, JSON_STRING) ? json_string(v) : span_of(NULL, 0);
}

/* One alert, written anew with another secret. */
struct rewriting {
    struct json_writer *w;
    struct span secret;
};

static bool rewrite_member(void *ctx, const char *name, const struct json *member) {
    struct rewriting *r = ctx;
    json_name(r->w, name);
    if (strcmp(name, "secret") == 0) {
        json_put_string(r->w, r->secret);
        return true;
    }
    struct buf text;
    buf_init(&text, LIMIT_POLICY_TEXT);
    json_dump(member, &text);
    json_put_raw(r->w, buf_span(&text));
    buf_release(&text);
    return true;
}

static void rewrite(const struct json *alert, struct span secret, struct json_writer *w) {
    struct rewriting r = {.w = w, .secret = secret};
    json_begin(w, '{');
    (void)json_each(alert, rewrite_member, &r);
    json_end(w, '}');
}

void alerts_mask(struct span json, struct buf *out) {
    if (json.n == 0)
        return;
    struct json_error error;
    struct json_writer w;
    struct json *alerts = json_parse(json, &error);
    assert(json_is(alerts, JSON_ARRAY)); /* alerts_check found it good */
    json_writer_init(&w, out);
    json_begin(&w, '[');
    for (size_t i = 0; i < json_count(alerts); i++) {
        const struct json *alert = json_at(alerts, i);
        bool is_signed = text_of(alert, "secret").n > 0;
        rewrite(alert, span_str(is_signed ? ALERT_SECRET_MASK : ""), &w);
    }
    json_end(&w, ']');
    json_free(alerts);
}

/* The secret of an alert among `present`; empty when there is none to the same URL. */
static struct span find_secret(const struct json *present, const struct json *alert) {
    struct span found = {0};
    for (size_t i = 0; i < json_count(present); i++) {
        const struct json *other = json_at(present, i);
        if (!span_equal(text_of(other, "url"), text_of(alert, "url")) ||
            text_of(other, "secret").n == 0)
            continue;
        if (span_equal(text_of(other, "kind"), text_of(alert, "kind")))
            return text_of(other, "secret");
        if (found.n == 0)
            found = text_of(other, "secret");
    }
    return found;
}

void alerts_unmask(struct span json, struct span present, struct buf *out,
                   struct field_errors *errors) {
    if (json.n == 0)
        return;
    struct json_error error;
    struct json_writer w;
    struct json *alerts = json_parse(json, &error);
    struct json *known = present.n > 0 ? json_parse(present, &error) : NULL;
    assert(json_is(alerts, JSON_ARRAY) && (present.n == 0 || json_is(known, JSON_ARRAY)));
    json_writer_init(&w, out);
    json_begin(&w, '[');
    for (size_t i = 0; i < json_count(alerts); i++) {
        const struct json *alert = json_at(alerts, i);
        struct span secret = text_of(alert, "secret");
        if (span_equal_str(secret, ALERT_SECRET_MASK)) {
            char prefix[PREFIX_SIZE];
            snprintf(prefix, sizeof prefix, "alerts[%zu].", i);
            secret = find_secret(known, alert);
            if (secret.n == 0)
                field_error_add(errors, prefix, "secret", "required",
                                "stands for the secret that the queue has for this URL, and it "
                                "has none: give the secret itself");
        }
        rewrite(alert, secret, &w);
    }
    json_end(&w, ']');
    json_free(known);
    json_free(alerts);
}
