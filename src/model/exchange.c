#include "model/exchange.h"

#include "base/mem.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- words ----------------------------------------------------------------------------------- */

static const char *const exchange_types[] = {[EXCHANGE_DIRECT] = "direct",
                                             [EXCHANGE_FANOUT] = "fanout",
                                             [EXCHANGE_TOPIC] = "topic",
                                             [EXCHANGE_HEADERS] = "headers",
                                             NULL};
static const char *const queue_types[] = {
    [QUEUE_CLASSIC] = "classic", [QUEUE_QUORUM] = "quorum", NULL};
static const char *const overflows[] = {[LENGTH_DROP_HEAD] = "drop-head",
                                        [LENGTH_REJECT_PUBLISH] = "reject-publish",
                                        [LENGTH_REJECT_PUBLISH_DLX] = "reject-publish-dlx",
                                        NULL};
static const char *const applies[] = {[APPLIES_ALL] = "all",
                                      [APPLIES_QUEUES] = "queues",
                                      [APPLIES_EXCHANGES] = "exchanges",
                                      [APPLIES_CLASSIC] = "classic_queues",
                                      [APPLIES_QUORUM] = "quorum_queues",
                                      NULL};

static int parse(struct span name, const char *const names[]) {
    for (int i = 0; names[i] != NULL; i++) {
        if (span_equal_str(name, names[i]))
            return i;
    }
    return -1;
}

const char *exchange_type_name(enum exchange_type t) {
    assert(t <= EXCHANGE_HEADERS);
    return exchange_types[t];
}

int exchange_type_parse(struct span name) {
    return parse(name, exchange_types);
}

const char *queue_type_name(enum queue_type t) {
    assert(t <= QUEUE_QUORUM);
    return queue_types[t];
}

const char *length_overflow_name(enum length_overflow o) {
    assert(o <= LENGTH_REJECT_PUBLISH_DLX);
    return overflows[o];
}

const char *policy_applies_name(enum policy_applies a) {
    assert(a <= APPLIES_QUORUM);
    return applies[a];
}

int policy_applies_parse(struct span name) {
    return parse(name, applies);
}

/* -- reading settings ------------------------------------------------------------------------ */

struct reading {
    const struct json *object;
    bool with_x;
    struct settings_error *error;
    bool is_bad;
};

static void refuse(struct reading *r, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The first thing that is wrong is told. */
static void refuse(struct reading *r, const char *name, const char *format, ...) {
    if (r->is_bad)
        return;
    r->is_bad = true;
    struct settings_error *e = r->error;
    snprintf(e->name, sizeof e->name, "%s%s", r->with_x ? "x-" : "", name);
    va_list args;
    va_start(args, format);
    vsnprintf(e->why, sizeof e->why, format, args);
    va_end(args);
    e->why[span_cut_utf8(span_str(e->why), sizeof e->why - 4).n] = '\0';
    snprintf(e->text, sizeof e->text, "invalid arg '%s': %s", e->name, e->why);
}

static void refuse_type(struct reading *r, const char *name, const struct json *v) {
    static const char *const kinds[] = {
        [JSON_NULL] = "void",   [JSON_BOOL] = "bool",      [JSON_INTEGER] = "long",
        [JSON_REAL] = "double", [JSON_STRING] = "longstr", [JSON_ARRAY] = "array",
        [JSON_OBJECT] = "table"};
    refuse(r, name, "{unacceptable_type,%s}", kinds[json_kind_of(v)]);
}

/* The value, or NULL when it is not given or not of that kind. */
static const struct json *get(struct reading *r, const char *name, enum json_kind kind) {
    char full[48];
    snprintf(full, sizeof full, "%s%s", r->with_x ? "x-" : "", name);
    const struct json *v = json_get(r->object, full);
    if (v == NULL || json_is(v, kind))
        return v;
    refuse_type(r, name, v);
    return NULL;
}

static int64_t get_number(struct reading *r, const char *name, int64_t low, int64_t high,
                          int64_t fallback) {
    const struct json *v = get(r, name, JSON_INTEGER);
    if (v == NULL)
        return fallback;
    int64_t n = json_integer(v);
    if (n < low && n < 0)
        refuse(r, name, "{value_negative,%" PRId64 "}", n);
    else if (n < low)
        refuse(r, name, "{value_zero,%" PRId64 "}", n);
    else if (n > high)
        refuse(r, name, "{value_too_large,%" PRId64 "}", n);
    return n;
}

static bool get_string(struct reading *r, const char *name, struct span *ret) {
    const struct json *v = get(r, name, JSON_STRING);
    *ret = v != NULL ? json_string(v) : span_of(NULL, 0);
    return v != NULL;
}

static int get_choice(struct reading *r, const char *name, const char *const names[],
                      const char *otherwise, int fallback) {
    struct span s;
    if (!get_string(r, name, &s))
        return fallback;
    int i = parse(s, names);
    if (i < 0)
        refuse(r, name, "%s", otherwise);
    return i;
}

static enum queue_type get_type(struct reading *r) {
    struct span s;
    if (!get_string(r, "queue-type", &s))
        return QUEUE_CLASSIC;
    int type = parse(s, queue_types);
    if (type >= 0)
        return (enum queue_type)type;
    if (span_equal_str(s, "stream"))
        refuse(r, "queue-type", "streams are not supported");
    else
        refuse(r, "queue-type", "unsupported queue type '%.*s'", (int)(s.n < 64 ? s.n : 64),
               (const char *)s.p);
    return QUEUE_CLASSIC;
}

/* Those that are checked but change nothing here: they tune what a queue of RabbitMQ does inside. */
static void check_ignored(struct reading *r) {
    static const char *const strategies[] = {"at-most-once", "at-least-once", NULL};
    static const char *const retries[] = {"disabled", "all", "failed", "returned", NULL};
    static const char *const numbers[] = {"delayed-retry-min", "delayed-retry-max",
                                          "consumer-timeout", "consumer-disconnected-timeout"};
    (void)get_choice(r, "dead-letter-strategy", strategies, "invalid_dlx_strategy", -1);
    (void)get_choice(r, "delayed-retry-type", retries, "invalid_delayed_retry_type", -1);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        (void)get_number(r, numbers[i], 0, INT64_MAX, -1);
}

static void read_arguments_only(struct reading *r, struct queue_settings *ret) {
    const struct json *v = get(r, "single-active-consumer", JSON_BOOL);
    ret->single_active_consumer = v != NULL && json_bool(v);
    v = get(r, "max-priority", JSON_INTEGER);
    if (v != NULL && json_integer(v) > QUEUE_PRIORITY_MOST)
        refuse(r, "max-priority", "{max_value_exceeded,%" PRId64 "}", json_integer(v));
    ret->max_priority = get_number(r, "max-priority", 0, QUEUE_PRIORITY_MOST, -1);
    if (ret->has_dlrk && !ret->has_dlx)
        refuse(r, "dead-letter-routing-key", "routing_key_but_no_dlx_defined");
}

bool queue_settings_read(const struct json *object, bool with_x, struct queue_settings *ret,
                         enum queue_type *ret_type, struct settings_error *ret_error) {
    struct reading r = {.object = object, .with_x = with_x, .error = ret_error};
    *ret = queue_settings_none();
    *ret_type = with_x ? get_type(&r) : QUEUE_CLASSIC;
    ret->has_dlx = get_string(&r, "dead-letter-exchange", &ret->dlx);
    ret->has_dlrk = get_string(&r, "dead-letter-routing-key", &ret->dlrk);
    ret->message_ttl_ms = get_number(&r, "message-ttl", 0, QUEUE_TIME_MOST, -1);
    ret->expires_ms = get_number(&r, "expires", 1, QUEUE_TIME_MOST, -1);
    ret->max_length = get_number(&r, "max-length", 0, INT64_MAX, -1);
    ret->max_length_bytes = get_number(&r, "max-length-bytes", 0, INT64_MAX, -1);
    ret->overflow = get_choice(&r, "overflow", overflows, "invalid_overflow", -1);
    static_assert(NO_LIMIT_GIVEN < -INT64_MAX, "no number that can be given");
    ret->delivery_limit = get_number(&r, "delivery-limit", -INT64_MAX, INT64_MAX, NO_LIMIT_GIVEN);
    check_ignored(&r);
    if (with_x)
        read_arguments_only(&r, ret);
    else
        ret->has_alternate = get_string(&r, "alternate-exchange", &ret->alternate);
    return !r.is_bad;
}

/* -- what holds ------------------------------------------------------------------------------ */

struct queue_settings queue_settings_none(void) {
    return (struct queue_settings){.message_ttl_ms = -1,
                                   .expires_ms = -1,
                                   .max_length = -1,
                                   .max_length_bytes = -1,
                                   .delivery_limit = NO_LIMIT_GIVEN,
                                   .max_priority = -1,
                                   .overflow = -1};
}

static int64_t smaller(int64_t a, int64_t b) {
    if (a < 0 || b < 0)
        return a < 0 ? b : a;
    return a < b ? a : b;
}

static int64_t limit_of(int64_t own, int64_t policy) {
    if (own == NO_LIMIT_GIVEN || policy == NO_LIMIT_GIVEN)
        return own == NO_LIMIT_GIVEN ? policy : own;
    bool is_own = own < 0 || policy < 0 ? own > policy : own < policy;
    return is_own ? own : policy;
}

static void merge_policy(struct queue_settings *s, const struct queue_settings *policy,
                         enum queue_type type) {
    s->message_ttl_ms = smaller(s->message_ttl_ms, policy->message_ttl_ms);
    s->expires_ms = smaller(s->expires_ms, policy->expires_ms);
    s->max_length = smaller(s->max_length, policy->max_length);
    s->max_length_bytes = smaller(s->max_length_bytes, policy->max_length_bytes);
    s->delivery_limit = limit_of(s->delivery_limit, policy->delivery_limit);
    if (s->overflow < 0 || (type == QUEUE_QUORUM && policy->overflow >= 0))
        s->overflow = policy->overflow;
    if (!s->has_dlx) {
        s->has_dlx = policy->has_dlx;
        s->dlx = policy->dlx;
    }
    if (!s->has_dlrk) {
        s->has_dlrk = policy->has_dlrk;
        s->dlrk = policy->dlrk;
    }
}

struct queue_settings queue_settings_merge(const struct queue_settings *own,
                                           const struct queue_settings *policy,
                                           enum queue_type type) {
    struct queue_settings s = *own;
    if (policy != NULL)
        merge_policy(&s, policy, type);
    if (s.delivery_limit == NO_LIMIT_GIVEN && type == QUEUE_QUORUM)
        s.delivery_limit = QUORUM_DELIVERY_LIMIT;
    return s;
}

/* -- comparing arguments --------------------------------------------------------------------- */

struct member {
    const char *name;
    const struct json *value;
};

struct members {
    struct member *items;
    size_t n;
};

static bool add_member(void *ctx, const char *name, const struct json *value) {
    struct members *m = ctx;
    m->items[m->n++] = (struct member){.name = name, .value = value};
    return true;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(((const struct member *)a)->name, ((const struct member *)b)->name);
}

/* By name: looking each one up would take very long for some objects. */
static struct members members_of(const struct json *object) {
    struct members m = {.items = mem_alloc((json_count(object) + 1) * sizeof *m.items)};
    (void)json_each(object, add_member, &m);
    qsort(m.items, m.n, sizeof *m.items, compare_names);
    return m;
}

static bool is_same(const struct json *a, const struct json *b);

static bool is_same_object(const struct json *a, const struct json *b) {
    if (json_count(a) != json_count(b))
        return false;
    struct members left = members_of(a), right = members_of(b);
    bool same = true;
    for (size_t i = 0; same && i < left.n; i++)
        same = strcmp(left.items[i].name, right.items[i].name) == 0 &&
               is_same(left.items[i].value, right.items[i].value);
    free(left.items);
    free(right.items);
    return same;
}

static bool is_same_array(const struct json *a, const struct json *b) {
    if (json_count(a) != json_count(b))
        return false;
    for (size_t i = 0; i < json_count(a); i++) {
        if (!is_same(json_at(a, i), json_at(b, i)))
            return false;
    }
    return true;
}

static bool is_number(const struct json *v) {
    return json_is(v, JSON_INTEGER) || json_is(v, JSON_REAL);
}

static bool is_same(const struct json *a, const struct json *b) {
    if (is_number(a) && is_number(b)) {
        if (json_is(a, JSON_INTEGER) && json_is(b, JSON_INTEGER))
            return json_integer(a) == json_integer(b);
        return json_number(a) >= json_number(b) && json_number(a) <= json_number(b);
    }
    if (json_kind_of(a) != json_kind_of(b))
        return false;
    switch (json_kind_of(a)) {
    case JSON_BOOL:
        return json_bool(a) == json_bool(b);
    case JSON_STRING:
        return span_equal(json_string(a), json_string(b));
    case JSON_ARRAY:
        return is_same_array(a, b);
    case JSON_OBJECT:
        return is_same_object(a, b);
    case JSON_NULL:
    case JSON_INTEGER:
    case JSON_REAL:
        break;
    }
    return true;
}

/* NULL for what is no JSON: then only the same bytes are equal. */
static struct json *parse_arguments(struct span text) {
    struct json_error error;
    return json_parse(text.n > 0 ? text : span_str("{}"), &error);
}

bool arguments_equal(struct span a, struct span b) {
    if (span_equal(a, b))
        return true;
    struct json *left = parse_arguments(a), *right = parse_arguments(b);
    bool same = left != NULL && right != NULL && is_same(left, right);
    json_free(left);
    json_free(right);
    return same;
}

static bool is_default(const char *name, const struct json *v) {
    return v == NULL || (strcmp(name, "x-queue-type") == 0 && json_is(v, JSON_STRING) &&
                         span_equal_str(json_string(v), "classic"));
}

/* Arguments that RabbitMQ compares, those of exchanges among them. */
static const char *const compared[] = {"x-expires",
                                       "x-message-ttl",
                                       "x-dead-letter-exchange",
                                       "x-dead-letter-routing-key",
                                       "x-dead-letter-strategy",
                                       "x-max-length",
                                       "x-max-length-bytes",
                                       "x-max-priority",
                                       "x-overflow",
                                       "x-single-active-consumer",
                                       "x-queue-type",
                                       "x-delivery-limit",
                                       "x-delayed-retry-type",
                                       "x-delayed-retry-min",
                                       "x-delayed-retry-max",
                                       "x-consumer-timeout",
                                       "x-queue-mode",
                                       "x-queue-version",
                                       "x-queue-leader-locator",
                                       "x-quorum-initial-group-size",
                                       "x-max-in-memory-length",
                                       "x-max-in-memory-bytes",
                                       "alternate-exchange"};

bool arguments_difference(struct span a, struct span b, char ret_name[64]) {
    if (span_equal(a, b))
        return false;
    struct json *left = parse_arguments(a), *right = parse_arguments(b);
    bool differs = false;
    for (size_t i = 0; !differs && i < sizeof compared / sizeof compared[0]; i++) {
        const struct json *l = json_get(left, compared[i]), *r = json_get(right, compared[i]);
        if (is_default(compared[i], l) && is_default(compared[i], r))
            continue;
        differs = l == NULL || r == NULL || !is_same(l, r);
        if (differs)
            snprintf(ret_name, 64, "%s", compared[i]);
    }
    json_free(left);
    json_free(right);
    return differs;
}
