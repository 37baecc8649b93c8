#include "model/policy.h"

#include "model/policy_guards.h"

#include <stdio.h>
#include <string.h>

#define BACKOFF_SECONDS_MAX INT64_C(31536000)    /* one year */
#define KEEP_DEAD_SECONDS_MAX INT64_C(315360000) /* ten */
#define WINDOW_SECONDS_MAX INT64_C(604800)       /* a week */
#define KEEP_SUCCEEDED_MOST INT64_C(10000000)

static const char *const kind_names[] = {"exponential", "fixed", "list", NULL};
static const char *const jitter_names[] = {"none", "full", "equal", NULL};

struct policy policy_default(void) {
    return (struct policy){
        .max_retries = 3,
        .backoff =
            {
                .kind = BACKOFF_EXPONENTIAL,
                .jitter = JITTER_NONE,
                .base_ms = 1000,
                .cap_ms = 3600 * 1000,
                .factor_milli = 2000,
            },
        .lease_ms = 300 * 1000,
        .idempotency_window_ms = 3600 * 1000,
        .keep_succeeded_ms = 3600 * 1000,
        .keep_succeeded_max = 1000000,
        .redrive_limit = 3,
        .target_reasons = REASONS_ALL,
    };
}

static bool backoff_equal(const struct backoff *a, const struct backoff *b) {
    if (a->kind != b->kind || a->jitter != b->jitter || a->base_ms != b->base_ms ||
        a->cap_ms != b->cap_ms || a->factor_milli != b->factor_milli ||
        a->list_count != b->list_count)
        return false;
    for (uint32_t i = 0; i < a->list_count; i++) {
        if (a->list_seconds[i] != b->list_seconds[i])
            return false;
    }
    return true;
}

bool policy_equal(const struct policy *a, const struct policy *b) {
    return a->max_retries == b->max_retries && backoff_equal(&a->backoff, &b->backoff) &&
           a->lease_ms == b->lease_ms && a->delay_ms == b->delay_ms && a->ttl_ms == b->ttl_ms &&
           a->messages_max == b->messages_max && a->bytes_max == b->bytes_max &&
           a->idempotency_window_ms == b->idempotency_window_ms &&
           a->keep_succeeded_ms == b->keep_succeeded_ms &&
           a->keep_succeeded_max == b->keep_succeeded_max && a->keep_dead_ms == b->keep_dead_ms &&
           a->redrive_limit == b->redrive_limit && policy_guards_equal(a, b);
}

/* -- backoff --------------------------------------------------------------------------------- */

static int64_t exponential_ms(const struct backoff *b, unsigned n) {
    double wait_ms = (double)b->base_ms, factor = b->factor_milli / 1000.0;
    for (unsigned i = 0; i < n && wait_ms < (double)b->cap_ms; i++) {
        double next_ms = wait_ms * factor;
        if (next_ms <= wait_ms)
            break; /* a factor of 1, or nothing to multiply */
        wait_ms = next_ms;
    }
    return wait_ms < (double)b->cap_ms ? (int64_t)wait_ms : b->cap_ms;
}

static int64_t base_delay_ms(const struct backoff *b, unsigned n) {
    switch (b->kind) {
    case BACKOFF_EXPONENTIAL:
        return exponential_ms(b, n);
    case BACKOFF_FIXED:
        return b->base_ms;
    case BACKOFF_LIST:
        if (b->list_count == 0)
            return 0;
        return b->list_seconds[n == 0              ? 0
                               : n > b->list_count ? b->list_count - 1
                                                   : n - 1] *
               INT64_C(1000);
    }
    return 0;
}

int64_t backoff_delay_ms(const struct backoff *b, unsigned n, uint64_t random) {
    int64_t wait_ms = base_delay_ms(b, n);
    if (wait_ms < 0)
        wait_ms = 0;
    if (wait_ms > BACKOFF_SECONDS_MAX * 1000)
        wait_ms = BACKOFF_SECONDS_MAX * 1000;

    uint64_t wait = (uint64_t)wait_ms;
    switch (b->jitter) {
    case JITTER_NONE:
        break;
    case JITTER_FULL:
        wait = random % (wait + 1);
        break;
    case JITTER_EQUAL:
        wait = wait / 2 + random % (wait - wait / 2 + 1);
        break;
    }
    return (int64_t)wait;
}

/* -- reading --------------------------------------------------------------------------------- */

static void read_list(const struct fields *f, struct backoff *b) {
    const struct json *list = json_get(f->object, "list_seconds");
    if (list == NULL) {
        field_error_add(f->errors, f->prefix, "list_seconds", "required",
                        "is required with kind list");
        return;
    }
    size_t count = json_count(list);
    if (!json_is(list, JSON_ARRAY) || count < 1 || count > LIMIT_BACKOFF_LIST) {
        field_error_add(f->errors, f->prefix, "list_seconds",
                        json_is(list, JSON_ARRAY) ? "out_of_range" : "wrong_type",
                        "must be an array of 1 to %d whole numbers", LIMIT_BACKOFF_LIST);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const struct json *v = json_at(list, i);
        bool is_integer = json_is(v, JSON_INTEGER);
        if (!is_integer || json_integer(v) < 0 || json_integer(v) > BACKOFF_SECONDS_MAX) {
            char name[32];
            snprintf(name, sizeof name, "list_seconds[%zu]", i);
            field_error_add(f->errors, f->prefix, name, is_integer ? "out_of_range" : "wrong_type",
                            "must be a whole number from 0 to %lld",
                            (long long)BACKOFF_SECONDS_MAX);
            return;
        }
        b->list_seconds[i] = (uint32_t)json_integer(v);
    }
    b->list_count = (uint32_t)count;
}

/* What another kind would use must not stand there as if it had an effect. */
static void refuse_for_kind(const struct fields *f, const char *name, enum backoff_kind kind) {
    if (json_get(f->object, name) != NULL)
        field_error_add(f->errors, f->prefix, name, "not_allowed", "has no meaning with kind %s",
                        kind_names[kind]);
}

void backoff_from_json(const struct json *v, const char *prefix, struct field_errors *errors,
                       struct backoff *b) {
    static const char *const names[] = {"kind",         "base_seconds", "factor", "cap_seconds",
                                        "list_seconds", "jitter",       NULL};
    if (v == NULL)
        return;
    if (!json_is(v, JSON_OBJECT)) {
        field_error_add(errors, prefix, "backoff", "wrong_type", "must be an object");
        return;
    }
    char inner[64];
    snprintf(inner, sizeof inner, "%sbackoff.", prefix);
    const struct fields f = {.object = v, .prefix = inner, .errors = errors};
    fields_known(&f, names);
    b->kind = (enum backoff_kind)field_choice(&f, "kind", kind_names, BACKOFF_EXPONENTIAL);
    b->jitter = (enum jitter)field_choice(&f, "jitter", jitter_names, JITTER_NONE);

    if (b->kind == BACKOFF_LIST) {
        refuse_for_kind(&f, "base_seconds", b->kind);
        read_list(&f, b);
    } else {
        refuse_for_kind(&f, "list_seconds", b->kind);
        b->base_ms =
            1000 * field_int(&f, "base_seconds", 0, BACKOFF_SECONDS_MAX, b->base_ms / 1000);
    }

    if (b->kind == BACKOFF_EXPONENTIAL) {
        double factor = field_number(&f, "factor", 1, 100, b->factor_milli / 1000.0);
        b->factor_milli = (uint32_t)(factor * 1000 + 0.5);
        b->cap_ms = 1000 * field_int(&f, "cap_seconds", 0, BACKOFF_SECONDS_MAX, b->cap_ms / 1000);
    } else {
        refuse_for_kind(&f, "factor", b->kind);
        refuse_for_kind(&f, "cap_seconds", b->kind);
    }
}

static void read_retention(const struct json *v, struct field_errors *errors, struct policy *p) {
    static const char *const names[] = {"succeeded_seconds", "succeeded_max", "dead_seconds", NULL};
    if (v == NULL)
        return;
    if (!json_is(v, JSON_OBJECT)) {
        field_error_add(errors, "", "retention", "wrong_type", "must be an object");
        return;
    }
    const struct fields f = {.object = v, .prefix = "retention.", .errors = errors};
    fields_known(&f, names);
    p->keep_succeeded_ms = 1000 * field_int(&f, "succeeded_seconds", 0, BACKOFF_SECONDS_MAX,
                                            p->keep_succeeded_ms / 1000);
    p->keep_succeeded_max = (uint64_t)field_int(&f, "succeeded_max", 0, KEEP_SUCCEEDED_MOST,
                                                (int64_t)p->keep_succeeded_max);
    p->keep_dead_ms = 1000 * field_int_or_null(&f, "dead_seconds", 1, KEEP_DEAD_SECONDS_MAX, 0);
}

struct policy policy_from_json(const struct json *v, struct field_errors *errors,
                               struct buf *memory, struct policy_texts *ret_texts) {
    static const char *const names[] = {"max_retries",
                                        "backoff",
                                        "lease_seconds",
                                        "delay_seconds",
                                        "ttl_seconds",
                                        "max_messages",
                                        "max_bytes",
                                        "idempotency_window_seconds",
                                        "redrive_limit",
                                        "retention",
                                        "max_deliveries",
                                        "retry_budget",
                                        "overflow",
                                        "order",
                                        "breaker",
                                        "owner",
                                        "rules",
                                        "dead_target",
                                        "allow_from",
                                        "alerts",
                                        NULL};
    struct policy p = policy_default();
    *ret_texts = (struct policy_texts){0};
    buf_clear(memory);
    if (v == NULL)
        return p;
    if (!json_is(v, JSON_OBJECT)) {
        field_error_add(errors, "", "body", "wrong_type", "must be an object");
        return p;
    }

    const struct fields f = {.object = v, .prefix = "", .errors = errors};
    fields_known(&f, names);
    p.max_retries = (uint8_t)field_int(&f, "max_retries", 1, LIMIT_POLICY_RETRIES, p.max_retries);
    backoff_from_json(json_get(v, "backoff"), "", errors, &p.backoff);
    p.lease_ms = 1000 * field_int(&f, "lease_seconds", 1, LIMIT_LEASE_SECONDS, p.lease_ms / 1000);
    p.delay_ms = 1000 * field_int(&f, "delay_seconds", 0, LIMIT_DELAY_SECONDS, 0);
    p.ttl_ms = 1000 * field_int_or_null(&f, "ttl_seconds", 1, LIMIT_DELAY_SECONDS, 0);
    p.messages_max = (uint64_t)field_int_or_null(&f, "max_messages", 1, (int64_t)LIMIT_ID, 0);
    p.bytes_max = (uint64_t)field_int_or_null(&f, "max_bytes", 1, (int64_t)LIMIT_ID, 0);
    p.idempotency_window_ms = 1000 * field_int(&f, "idempotency_window_seconds", 1,
                                               WINDOW_SECONDS_MAX, p.idempotency_window_ms / 1000);
    p.redrive_limit = (uint32_t)field_int(&f, "redrive_limit", 0, LIMIT_REDRIVES, p.redrive_limit);
    read_retention(json_get(v, "retention"), errors, &p);
    policy_guards_read(&f, memory, &p, ret_texts);
    return p;
}

/* -- writing --------------------------------------------------------------------------------- */

/* A number of thousandths as the number it is: 2000 is 2, 1500 is 1.5. */
static void put_milli(struct json_writer *w, const char *name, int64_t milli) {
    json_name(w, name);
    if (milli % 1000 == 0)
        json_put_i64(w, milli / 1000);
    else
        json_put_double(w, (double)milli / 1000.0);
}

static void put_or_null(struct json_writer *w, const char *name, uint64_t value) {
    json_name(w, name);
    if (value == 0)
        json_put_null(w);
    else
        json_put_u64(w, value);
}

void backoff_to_json(const struct backoff *b, struct json_writer *w) {
    json_begin(w, '{');
    json_name(w, "kind");
    json_put_str(w, kind_names[b->kind]);
    if (b->kind == BACKOFF_LIST) {
        json_name(w, "list_seconds");
        json_begin(w, '[');
        for (uint32_t i = 0; i < b->list_count; i++)
            json_put_u64(w, b->list_seconds[i]);
        json_end(w, ']');
    } else {
        put_milli(w, "base_seconds", b->base_ms);
    }
    if (b->kind == BACKOFF_EXPONENTIAL) {
        put_milli(w, "factor", b->factor_milli);
        put_milli(w, "cap_seconds", b->cap_ms);
    }
    json_name(w, "jitter");
    json_put_str(w, jitter_names[b->jitter]);
    json_end(w, '}');
}

void policy_to_json(const struct policy *p, const struct policy_texts *t, struct json_writer *w) {
    json_begin(w, '{');
    json_name(w, "max_retries");
    json_put_u64(w, p->max_retries);
    json_name(w, "backoff");
    backoff_to_json(&p->backoff, w);
    put_milli(w, "lease_seconds", p->lease_ms);
    put_milli(w, "delay_seconds", p->delay_ms);
    put_or_null(w, "ttl_seconds", (uint64_t)(p->ttl_ms / 1000));
    put_or_null(w, "max_messages", p->messages_max);
    put_or_null(w, "max_bytes", p->bytes_max);
    put_milli(w, "idempotency_window_seconds", p->idempotency_window_ms);

    json_name(w, "redrive_limit");
    json_put_u64(w, p->redrive_limit);
    json_name(w, "retention");
    json_begin(w, '{');
    put_milli(w, "succeeded_seconds", p->keep_succeeded_ms);
    json_name(w, "succeeded_max");
    json_put_u64(w, p->keep_succeeded_max);
    put_or_null(w, "dead_seconds", (uint64_t)(p->keep_dead_ms / 1000));
    json_end(w, '}');
    policy_guards_write(p, t, w);
    json_end(w, '}');
}
