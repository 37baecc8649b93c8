#include "model/policy_guards.h"

#include "model/alert.h"
#include "model/message.h"
#include "model/rules.h"

#include <assert.h>
#include <stdio.h>

_Static_assert(REASONS_ALL == (1U << REASON_COUNT) - 2, "each reason has its bit");

#define MILLION 1000000
#define DELIVERIES_MAX_MOST 1000000
#define OUTCOMES_MOST 100000
#define PROBES_MOST 1000
#define WINDOW_SECONDS_MOST 3600
#define OPEN_SECONDS_MOST 86400
#define ALLOWED_MOST 1000
/* More than any good rules, allow_from or alerts take as JSON: 64 rules of two patterns, 16 alerts,
 * or 1000 names, with each of their bytes escaped. */
#define DUMP_BYTES_MAX (2 * 1024 * 1024)

static const char *const overflow_names[] = {"reject", "dead", NULL};
static const char *const order_names[] = {"none", "block", "park", NULL};

void policy_texts_spans(const struct policy_texts *t, struct span ret[static POLICY_TEXTS]) {
    ret[0] = t->owner;
    ret[1] = t->breaker_error;
    ret[2] = t->target;
    ret[3] = t->rules;
    ret[4] = t->allow_from;
    ret[5] = t->alerts;
}

struct policy_texts policy_texts_of(const struct span spans[static POLICY_TEXTS]) {
    return (struct policy_texts){.owner = spans[0],
                                 .breaker_error = spans[1],
                                 .target = spans[2],
                                 .rules = spans[3],
                                 .allow_from = spans[4],
                                 .alerts = spans[5]};
}

bool policy_texts_equal(const struct policy_texts *a, const struct policy_texts *b) {
    struct span x[POLICY_TEXTS], y[POLICY_TEXTS];
    policy_texts_spans(a, x);
    policy_texts_spans(b, y);
    for (int i = 0; i < POLICY_TEXTS; i++) {
        if (!span_equal(x[i], y[i]))
            return false;
    }
    return true;
}

bool policy_admits(const struct policy_texts *t, struct span from) {
    if (t->allow_from.n == 0)
        return true;
    struct json_error error;
    struct json *names = json_parse(t->allow_from, &error);
    bool is_named = false;
    for (size_t i = 0; i < json_count(names) && !is_named; i++)
        is_named = span_equal(json_string(json_at(names, i)), from);
    json_free(names);
    return is_named;
}

bool policy_guards_equal(const struct policy *a, const struct policy *b) {
    const struct breaker_policy *x = &a->breaker, *y = &b->breaker;
    return a->deliveries_max == b->deliveries_max && a->retry_budget_ppm == b->retry_budget_ppm &&
           a->overflow == b->overflow && a->order == b->order &&
           a->target_reasons == b->target_reasons && x->is_on == y->is_on &&
           x->share_ppm == y->share_ppm && x->outcomes_min == y->outcomes_min &&
           x->probes == y->probes && x->window_ms == y->window_ms && x->open_ms == y->open_ms;
}

/* -- reading --------------------------------------------------------------------------------- */

/* A member of that kind; NULL when it is absent or null, or of another kind, and that is told. */
static const struct json *member(const struct fields *f, const char *name, enum json_kind kind,
                                 const char *wanted) {
    const struct json *v = json_get(f->object, name);
    if (v == NULL || json_is(v, JSON_NULL))
        return NULL;
    if (json_is(v, kind))
        return v;
    field_error_add(f->errors, f->prefix, name, "wrong_type", "must be %s or null", wanted);
    return NULL;
}

static struct span text_or_null(const struct fields *f, const char *name, size_t most) {
    if (json_is(json_get(f->object, name), JSON_NULL))
        return (struct span){0};
    return field_string(f, name, most);
}

static uint32_t share_ppm(const struct fields *f, const char *name, double fallback) {
    double share = field_number(f, name, 0.001, 1, fallback);
    return (uint32_t)(share * MILLION + 0.5);
}

static void read_breaker(const struct fields *outer, struct breaker_policy *b,
                         struct span *ret_error) {
    static const char *const names[] = {
        "share", "min_outcomes", "window_seconds", "open_seconds", "probes", "error", NULL};
    const struct json *v = member(outer, "breaker", JSON_OBJECT, "an object");
    if (v == NULL)
        return;
    const struct fields f = {.object = v, .prefix = "breaker.", .errors = outer->errors};
    fields_known(&f, names);
    b->is_on = true;
    b->share_ppm = share_ppm(&f, "share", 0.5);
    b->outcomes_min = (uint32_t)field_int(&f, "min_outcomes", 1, OUTCOMES_MOST, 20);
    b->window_ms = 1000 * field_int(&f, "window_seconds", 1, WINDOW_SECONDS_MOST, 60);
    b->open_ms = 1000 * field_int(&f, "open_seconds", 1, OPEN_SECONDS_MOST, 30);
    b->probes = (uint32_t)field_int(&f, "probes", 1, PROBES_MOST, 1);
    *ret_error = text_or_null(&f, "error", LIMIT_ERROR_CLASS);
}

/* An error about an element of an array. */
static void refuse_element(const struct fields *f, const char *list, size_t i, const struct json *v,
                           const char *message) {
    char name[48];
    snprintf(name, sizeof name, "%s[%zu]", list, i);
    field_error_add(f->errors, f->prefix, name,
                    json_is(v, JSON_STRING) ? "out_of_range" : "wrong_type", "%s", message);
}

static uint32_t read_reasons(const struct fields *f) {
    const struct json *list = member(f, "reasons", JSON_ARRAY, "an array of reasons");
    if (list == NULL)
        return REASONS_ALL;
    uint32_t bits = 0;
    for (size_t i = 0; i < json_count(list); i++) {
        const struct json *v = json_at(list, i);
        int reason = json_is(v, JSON_STRING) ? reason_parse(json_string(v)) : -1;
        if (reason < 0) {
            refuse_element(f, "reasons", i, v, "must name a reason");
            return REASONS_ALL;
        }
        bits |= 1U << reason;
    }
    if (bits == 0)
        field_error_add(f->errors, f->prefix, "reasons", "out_of_range",
                        "must name at least one reason, or be left out for all");
    return bits;
}

static void read_target(const struct fields *outer, struct policy *p, struct span *ret_target) {
    static const char *const names[] = {"queue", "reasons", NULL};
    const struct json *v = member(outer, "dead_target", JSON_OBJECT, "an object");
    if (v == NULL)
        return;
    const struct fields f = {.object = v, .prefix = "dead_target.", .errors = outer->errors};
    fields_known(&f, names);
    const struct json *queue = json_get(v, "queue");
    *ret_target = field_string(&f, "queue", LIMIT_QUEUE_NAME);
    if (queue == NULL)
        field_error_add(f.errors, f.prefix, "queue", "required", "is required");
    else if (json_is(queue, JSON_STRING) && json_string(queue).n == 0)
        field_error_add(f.errors, f.prefix, "queue", "out_of_range", "must name a queue");
    p->target_reasons = read_reasons(&f);
}

static const struct json *read_allowed(const struct fields *f) {
    const struct json *list = member(f, "allow_from", JSON_ARRAY, "an array of names of queues");
    if (json_count(list) > ALLOWED_MOST) {
        field_error_add(f->errors, f->prefix, "allow_from", "out_of_range",
                        "must hold at most %d names", ALLOWED_MOST);
        return list;
    }
    for (size_t i = 0; i < json_count(list); i++) {
        const struct json *v = json_at(list, i);
        if (!json_is(v, JSON_STRING) || json_string(v).n == 0 ||
            json_string(v).n > LIMIT_QUEUE_NAME)
            refuse_element(f, "allow_from", i, v, "must be the name of a queue");
    }
    return list;
}

/* Where a text is in memory, as long as that grows and may move. */
struct piece {
    size_t at, n;
};

/* Appends the JSON of a member that was found good, when it is short enough. */
static struct piece keep_json(const struct fields *f, const char *name, const struct json *v,
                              struct buf *memory) {
    struct piece piece = {.at = memory->n};
    if (v == NULL)
        return piece;
    struct buf json;
    buf_init(&json, DUMP_BYTES_MAX);
    json_dump(v, &json);
    if (json.n <= LIMIT_POLICY_TEXT)
        buf_add_span(memory, buf_span(&json));
    else
        field_error_add(f->errors, f->prefix, name, "too_long", "must be at most %d bytes as JSON",
                        LIMIT_POLICY_TEXT);
    buf_release(&json);
    piece.n = memory->n - piece.at;
    return piece;
}

static struct span span_at(const struct buf *memory, struct piece piece) {
    return piece.n > 0 ? span_of(memory->p + piece.at, piece.n) : (struct span){0};
}

/* The members that are kept as JSON. */
static void read_json_texts(const struct fields *f, struct buf *memory, struct policy_texts *t) {
    const struct json *rules = member(f, "rules", JSON_ARRAY, "an array of rules");
    const struct json *allowed = read_allowed(f);
    const struct json *alerts = member(f, "alerts", JSON_ARRAY, "an array of alerts");
    if (rules != NULL)
        rules_check(rules, f->errors);
    if (alerts != NULL)
        alerts_check(alerts, f->errors);
    if (f->errors->count > 0)
        return; /* what is wrong may be of any size */
    struct piece r = keep_json(f, "rules", rules, memory);
    struct piece a = keep_json(f, "allow_from", allowed, memory);
    struct piece l = keep_json(f, "alerts", alerts, memory);
    t->rules = span_at(memory, r);
    t->allow_from = span_at(memory, a);
    t->alerts = span_at(memory, l);
}

void policy_guards_read(const struct fields *f, struct buf *memory, struct policy *p,
                        struct policy_texts *ret_texts) {
    p->deliveries_max = (uint32_t)field_int_or_null(f, "max_deliveries", 1, DELIVERIES_MAX_MOST, 0);
    const struct json *budget = json_get(f->object, "retry_budget");
    if (budget != NULL && !json_is(budget, JSON_NULL))
        p->retry_budget_ppm = share_ppm(f, "retry_budget", 1);
    p->overflow = (enum overflow)field_choice(f, "overflow", overflow_names, OVERFLOW_REJECT);
    p->order = (enum order)field_choice(f, "order", order_names, ORDER_NONE);
    struct policy_texts t = {0};
    read_breaker(f, &p->breaker, &t.breaker_error);
    t.owner = text_or_null(f, "owner", LIMIT_OWNER);
    read_target(f, p, &t.target);

    read_json_texts(f, memory, &t);
    *ret_texts = t;
}

/* -- writing --------------------------------------------------------------------------------- */

static void put_share(struct json_writer *w, const char *name, uint32_t ppm) {
    json_name(w, name);
    if (ppm)
        json_put_double(w, (double)ppm / MILLION);
    else
        json_put_null(w);
}

static void put_number(struct json_writer *w, const char *name, int64_t value) {
    json_name(w, name);
    json_put_i64(w, value);
}

static void put_text_or_null(struct json_writer *w, const char *name, struct span text) {
    json_name(w, name);
    if (text.n)
        json_put_string(w, text);
    else
        json_put_null(w);
}

static void put_json_or_null(struct json_writer *w, const char *name, struct span json) {
    json_name(w, name);
    if (json.n)
        json_put_raw(w, json);
    else
        json_put_null(w);
}

static void write_breaker(const struct breaker_policy *b, struct span error,
                          struct json_writer *w) {
    json_name(w, "breaker");
    if (!b->is_on) {
        json_put_null(w);
        return;
    }
    json_begin(w, '{');
    put_share(w, "share", b->share_ppm);
    put_number(w, "min_outcomes", b->outcomes_min);
    put_number(w, "window_seconds", b->window_ms / 1000);
    put_number(w, "open_seconds", b->open_ms / 1000);
    put_number(w, "probes", b->probes);
    put_text_or_null(w, "error", error);
    json_end(w, '}');
}

static void write_target(const struct policy *p, struct span target, struct json_writer *w) {
    json_name(w, "dead_target");
    if (target.n == 0) {
        json_put_null(w);
        return;
    }
    json_begin(w, '{');
    put_text_or_null(w, "queue", target);
    json_name(w, "reasons");
    if (p->target_reasons == REASONS_ALL) {
        json_put_null(w);
    } else {
        json_begin(w, '[');
        for (int r = REASON_NONE + 1; r < REASON_COUNT; r++) {
            if (p->target_reasons & 1U << r)
                json_put_str(w, reason_name((enum reason)r));
        }
        json_end(w, ']');
    }
    json_end(w, '}');
}

void policy_guards_write(const struct policy *p, const struct policy_texts *t,
                         struct json_writer *w) {
    json_name(w, "max_deliveries");
    if (p->deliveries_max)
        json_put_u64(w, p->deliveries_max);
    else
        json_put_null(w);
    put_share(w, "retry_budget", p->retry_budget_ppm);
    json_name(w, "overflow");
    json_put_str(w, overflow_names[p->overflow]);
    json_name(w, "order");
    json_put_str(w, order_names[p->order]);
    write_breaker(&p->breaker, t->breaker_error, w);
    put_text_or_null(w, "owner", t->owner);
    put_json_or_null(w, "rules", t->rules);
    write_target(p, t->target, w);
    put_json_or_null(w, "allow_from", t->allow_from);
    put_json_or_null(w, "alerts", t->alerts);
}
