/* The records of exchanges, bindings and policies by pattern. */
#include "log/record.h"
#include "log/record_codec.h"

#include <assert.h>

static void sizes_put(struct out *o, const struct span *texts, int n) {
    for (int i = 0; i < n; i++)
        put32(o, texts[i].n);
}

/* -- exchanges ------------------------------------------------------------------------------- */

void record_exchange_spans(const struct record_exchange *r,
                           struct span ret[static EXCHANGE_SPANS]) {
    ret[0] = r->name;
    ret[1] = r->alternate;
    ret[2] = r->arguments;
}

size_t record_exchange_put(uint8_t meta[static RECORD_META_MAX], const struct record_exchange *r) {
    struct out o = {meta, 0};
    put64(&o, r->exchange);
    put8(&o, r->type);
    put8(&o, (r->durable ? 1U : 0U) | (r->auto_delete ? 2U : 0U) | (r->internal ? 4U : 0U) |
                 (r->has_alternate ? 8U : 0U) | (r->reads_deaths ? 16U : 0U));
    struct span texts[EXCHANGE_SPANS];
    record_exchange_spans(r, texts);
    sizes_put(&o, texts, EXCHANGE_SPANS);
    return o.n;
}

enum err record_exchange_get(struct span meta, struct span data, struct record_exchange *ret) {
    struct in in = {.left = meta};
    struct record_exchange r = {.exchange = get64(&in)};
    r.type = get_up_to(&in, EXCHANGE_HEADERS);
    unsigned flags = get_up_to(&in, 31);
    r.durable = (flags & 1) != 0;
    r.auto_delete = (flags & 2) != 0;
    r.internal = (flags & 4) != 0;
    r.has_alternate = (flags & 8) != 0;
    r.reads_deaths = (flags & 16) != 0;
    size_t name = get32(&in), alternate = get32(&in), arguments = get32(&in);
    r.name = get_data(&in, &data, name);
    r.alternate = get_data(&in, &data, alternate);
    r.arguments = get_data(&in, &data, arguments);
    *ret = r;
    return r.exchange == 0 ? ERR_CORRUPT : done(&in, data);
}

/* -- bindings -------------------------------------------------------------------------------- */

void record_binding_spans(const struct record_binding *r, struct span ret[static BINDING_SPANS]) {
    ret[0] = r->key;
    ret[1] = r->arguments;
}

size_t record_binding_put(uint8_t meta[static RECORD_META_MAX], const struct record_binding *r) {
    struct out o = {meta, 0};
    put64(&o, r->binding);
    put64(&o, r->source);
    put64(&o, r->destination);
    put8(&o, r->to_exchange);
    struct span texts[BINDING_SPANS];
    record_binding_spans(r, texts);
    sizes_put(&o, texts, BINDING_SPANS);
    return o.n;
}

enum err record_binding_get(struct span meta, struct span data, struct record_binding *ret) {
    struct in in = {.left = meta};
    struct record_binding r = {.binding = get64(&in)};
    r.source = get64(&in);
    r.destination = get64(&in);
    r.to_exchange = get_up_to(&in, 1);
    size_t key = get32(&in), arguments = get32(&in);
    r.key = get_data(&in, &data, key);
    r.arguments = get_data(&in, &data, arguments);
    *ret = r;
    bool is_sane = r.binding > 0 && r.source > 0 && r.destination > 0;
    return is_sane ? done(&in, data) : ERR_CORRUPT;
}

/* -- policies by pattern --------------------------------------------------------------------- */

void record_pattern_spans(const struct record_pattern *r, struct span ret[static PATTERN_SPANS]) {
    ret[0] = r->policy.vhost;
    ret[1] = r->policy.name;
    ret[2] = r->policy.pattern;
    ret[3] = r->policy.definition;
}

size_t record_pattern_put(uint8_t meta[static RECORD_META_MAX], const struct record_pattern *r) {
    struct out o = {meta, 0};
    put32(&o, r->pattern);
    put8(&o, r->policy.applies);
    put64(&o, (uint64_t)r->policy.priority);
    struct span texts[PATTERN_SPANS];
    record_pattern_spans(r, texts);
    sizes_put(&o, texts, PATTERN_SPANS);
    return o.n;
}

enum err record_pattern_get(struct span meta, struct span data, struct record_pattern *ret) {
    struct in in = {.left = meta};
    struct record_pattern r = {.pattern = get32(&in)};
    r.policy.applies = get_up_to(&in, APPLIES_QUORUM);
    r.policy.priority = (int64_t)get64(&in);
    size_t vhost = get32(&in), name = get32(&in), pattern = get32(&in), definition = get32(&in);
    r.policy.vhost = get_data(&in, &data, vhost);
    r.policy.name = get_data(&in, &data, name);
    r.policy.pattern = get_data(&in, &data, pattern);
    r.policy.definition = get_data(&in, &data, definition);
    *ret = r;
    return r.pattern == 0 ? ERR_CORRUPT : done(&in, data);
}

/* -- what is gone ---------------------------------------------------------------------------- */

size_t record_number_put(uint8_t meta[static RECORD_META_MAX], uint64_t number) {
    assert(number > 0);
    struct out o = {meta, 0};
    put64(&o, number);
    return o.n;
}

enum err record_number_get(struct span meta, uint64_t *ret) {
    struct in in = {.left = meta};
    *ret = get64(&in);
    return *ret == 0 ? ERR_CORRUPT : done(&in, (struct span){0});
}
