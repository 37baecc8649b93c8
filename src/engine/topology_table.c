/* The tables of exchanges, bindings and policies by pattern, and apply for their records. While the
 * log is read a binding may name an exchange or a queue whose image is still to come: that is there
 * without one until then. */
#include "engine/state.h"

#include "base/mem.h"
#include "model/scope.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* -- what the indexes need to know ----------------------------------------------------------- */

static uint64_t exchange_number_hash(void *ctx, uint32_t i) {
    return exchange_at(ctx, i)->number;
}

static uint32_t *exchange_number_link(void *ctx, uint32_t i) {
    return &exchange_at(ctx, i)->next_by_number;
}

static uint64_t exchange_name_hash(void *ctx, uint32_t i) {
    const struct engine_state *st = ctx;
    return hash64(exchange_at(st, i)->image.name, st->hash_seed);
}

static uint32_t *exchange_name_link(void *ctx, uint32_t i) {
    return &exchange_at(ctx, i)->next_by_name;
}

static uint64_t binding_number_hash(void *ctx, uint32_t i) {
    return binding_at(ctx, i)->number;
}

static uint32_t *binding_number_link(void *ctx, uint32_t i) {
    return &binding_at(ctx, i)->next_by_number;
}

static uint64_t hash_of_key(const struct engine_state *st, uint64_t source, struct span key) {
    return hash64(key, st->hash_seed ^ source);
}

static uint64_t binding_key_hash(void *ctx, uint32_t i) {
    const struct binding *b = binding_at(ctx, i);
    return hash_of_key(ctx, b->source, binding_key(b));
}

static uint32_t *binding_key_link(void *ctx, uint32_t i) {
    return &binding_at(ctx, i)->next_by_key;
}

static uint64_t hash_of_identity(const struct engine_state *st, uint64_t source,
                                 uint64_t destination, bool to_exchange, struct span key) {
    uint64_t ends[3] = {source, destination, to_exchange};
    return hash64(key, hash64(span_of(ends, sizeof ends), st->hash_seed));
}

static uint64_t binding_identity_hash(void *ctx, uint32_t i) {
    const struct binding *b = binding_at(ctx, i);
    return hash_of_identity(ctx, exchange_at(ctx, b->source)->number, b->destination,
                            b->to_exchange, binding_key(b));
}

static uint32_t *binding_identity_link(void *ctx, uint32_t i) {
    return &binding_at(ctx, i)->next_by_identity;
}

static uint64_t binding_destination_hash(void *ctx, uint32_t i) {
    const struct binding *b = binding_at(ctx, i);
    return b->destination * 2 + b->to_exchange;
}

static uint32_t *binding_destination_link(void *ctx, uint32_t i) {
    return &binding_at(ctx, i)->next_by_destination;
}

void topology_init(struct engine_state *st) {
    struct topology *t = &st->topology;
    t->next_exchange = t->next_binding = 1;
    t->next_pattern = 1;
    hash_index_init(&t->exchanges_by_number, st, exchange_number_hash, exchange_number_link);
    hash_index_init(&t->exchanges_by_name, st, exchange_name_hash, exchange_name_link);
    hash_index_init(&t->bindings_by_number, st, binding_number_hash, binding_number_link);
    hash_index_init(&t->bindings_by_key, st, binding_key_hash, binding_key_link);
    hash_index_init(&t->bindings_by_identity, st, binding_identity_hash, binding_identity_link);
    hash_index_init(&t->bindings_by_destination, st, binding_destination_hash,
                    binding_destination_link);
}

/* -- places ---------------------------------------------------------------------------------- */

static uint32_t place_new(uint32_t *free_places, uint32_t *free_count, uint32_t *count,
                          uint32_t *cap, void **table, uint32_t **ret_free) {
    if (*free_count)
        return free_places[--*free_count];
    uint32_t place = ++*count;
    if (place >= *cap) {
        *cap = *cap ? *cap * 2 : 64;
        *table = mem_grow(*table, *cap * sizeof(void *));
        *ret_free = mem_grow(free_places, *cap * sizeof *free_places);
    }
    return place;
}

struct exchange *exchange_at(const struct engine_state *st, uint32_t place) {
    return st->topology.exchanges[place];
}

struct binding *binding_at(const struct engine_state *st, uint32_t place) {
    return st->topology.bindings[place];
}

struct exchange *exchange_by_number(const struct engine_state *st, uint64_t number) {
    uint32_t i = hash_index_first(&st->topology.exchanges_by_number, number);
    while (i && exchange_at(st, i)->number != number)
        i = exchange_at(st, i)->next_by_number;
    return i ? exchange_at(st, i) : NULL;
}

struct exchange *exchange_by_name(const struct engine_state *st, struct span name) {
    uint32_t i = hash_index_first(&st->topology.exchanges_by_name, hash64(name, st->hash_seed));
    while (i && !span_equal(exchange_at(st, i)->image.name, name))
        i = exchange_at(st, i)->next_by_name;
    return i ? exchange_at(st, i) : NULL;
}

static struct exchange *exchange_of_record(struct engine_state *st, uint64_t number) {
    struct exchange *x = exchange_by_number(st, number);
    if (x)
        return x;
    struct topology *t = &st->topology;
    x = mem_alloc(sizeof *x);
    void *table = t->exchanges;
    x->place = place_new(t->free_exchanges, &t->free_exchange_count, &t->exchange_count,
                         &t->exchange_cap, &table, &t->free_exchanges);
    t->exchanges = table;
    t->exchanges[x->place] = x;
    x->number = number;
    hash_index_add(&t->exchanges_by_number, x->place);
    t->live_exchanges++;
    if (number >= t->next_exchange)
        t->next_exchange = number + 1;
    return x;
}

/* -- bindings -------------------------------------------------------------------------------- */

struct span binding_key(const struct binding *b) {
    return span_of(b->texts, b->key_bytes);
}

struct span binding_arguments(const struct binding *b) {
    return span_of(b->texts + b->key_bytes, b->arguments_bytes);
}

struct binding *binding_by_number(const struct engine_state *st, uint64_t number) {
    uint32_t i = hash_index_first(&st->topology.bindings_by_number, number);
    while (i && binding_at(st, i)->number != number)
        i = binding_at(st, i)->next_by_number;
    return i ? binding_at(st, i) : NULL;
}

struct record_binding binding_image(const struct engine_state *st, const struct binding *b) {
    return (struct record_binding){.binding = b->number,
                                   .source = exchange_at(st, b->source)->number,
                                   .destination = b->destination,
                                   .to_exchange = b->to_exchange,
                                   .key = binding_key(b),
                                   .arguments = binding_arguments(b)};
}

struct binding *binding_find(const struct engine_state *st, const struct record_binding *r) {
    uint64_t hash = hash_of_identity(st, r->source, r->destination, r->to_exchange, r->key);
    uint32_t i = hash_index_first(&st->topology.bindings_by_identity, hash);
    for (; i; i = binding_at(st, i)->next_by_identity) {
        struct binding *b = binding_at(st, i);
        if (exchange_at(st, b->source)->number == r->source && b->destination == r->destination &&
            b->to_exchange == r->to_exchange && span_equal(binding_key(b), r->key) &&
            arguments_equal(binding_arguments(b), r->arguments))
            return b;
    }
    return NULL;
}

static uint32_t next_with_key(const struct engine_state *st, uint32_t i, uint32_t source,
                              struct span key) {
    while (i && (binding_at(st, i)->source != source ||
                 !span_equal(binding_key(binding_at(st, i)), key)))
        i = binding_at(st, i)->next_by_key;
    return i;
}

uint32_t binding_first_of_key(const struct engine_state *st, const struct exchange *x,
                              struct span key) {
    uint64_t hash = hash_of_key(st, x->place, key);
    return next_with_key(st, hash_index_first(&st->topology.bindings_by_key, hash), x->place, key);
}

uint32_t binding_next_of_key(const struct engine_state *st, uint32_t place) {
    const struct binding *b = binding_at(st, place);
    return next_with_key(st, b->next_by_key, b->source, binding_key(b));
}

uint32_t binding_to(const struct engine_state *st, uint64_t destination, bool to_exchange) {
    uint32_t i =
        hash_index_first(&st->topology.bindings_by_destination, destination * 2 + to_exchange);
    while (i && (binding_at(st, i)->destination != destination ||
                 binding_at(st, i)->to_exchange != to_exchange))
        i = binding_at(st, i)->next_by_destination;
    return i;
}

/* Only where all bindings of a key are wanted, and nothing else: elsewhere thousands of bindings may
 * have one key, and removing one would look at all. */
static void index_by_key(struct engine_state *st, uint32_t place) {
    struct binding *b = binding_at(st, place);
    const struct exchange *x = exchange_at(st, b->source);
    if (b->is_keyed || !x->position || x->image.type != EXCHANGE_DIRECT)
        return;
    b->is_keyed = true;
    hash_index_add(&st->topology.bindings_by_key, place);
}

static void link_to_source(struct engine_state *st, uint32_t place) {
    struct binding *b = binding_at(st, place);
    struct exchange *x = exchange_at(st, b->source);
    b->previous = x->last;
    if (x->last)
        binding_at(st, x->last)->next = place;
    else
        x->first = place;
    x->last = place;
    x->from++;
}

static void unlink_from_source(struct engine_state *st, const struct binding *b) {
    struct exchange *x = exchange_at(st, b->source);
    if (b->previous)
        binding_at(st, b->previous)->next = b->next;
    else
        x->first = b->next;
    if (b->next)
        binding_at(st, b->next)->previous = b->previous;
    else
        x->last = b->previous;
    x->from--;
}

static void binding_destroy(struct binding *b) {
    free(b->texts);
    json_free(b->wanted);
    free(b);
}

static void binding_remove(struct engine_state *st, uint32_t place) {
    struct topology *t = &st->topology;
    struct binding *b = binding_at(st, place);
    hash_index_remove(&t->bindings_by_number, place);
    hash_index_remove(&t->bindings_by_identity, place);
    hash_index_remove(&t->bindings_by_destination, place);
    if (b->is_keyed)
        hash_index_remove(&t->bindings_by_key, place);
    unlink_from_source(st, b);
    if (b->to_exchange)
        exchange_at(st, b->to)->to--;
    st->live_bytes -= b->image_bytes;
    t->bindings[place] = NULL;
    t->free_bindings[t->free_binding_count++] = place;
    t->live_bindings--;
    binding_destroy(b);
}

void apply_binding(struct engine_state *st, const struct record_binding *r, uint64_t position,
                   size_t bytes) {
    struct topology *t = &st->topology;
    if (r->binding >= t->next_binding)
        t->next_binding = r->binding + 1;
    struct binding *b = binding_by_number(st, r->binding);
    if (b) { /* carried: a binding never changes */
        b->position = position;
        st->live_bytes += bytes - b->image_bytes;
        b->image_bytes = (uint32_t)bytes;
        return;
    }
    b = mem_alloc(sizeof *b);
    b->number = r->binding;
    b->destination = r->destination;
    b->to_exchange = r->to_exchange;
    b->source = exchange_of_record(st, r->source)->place;
    b->to = r->to_exchange ? exchange_of_record(st, r->destination)->place
                           : queue_of_record(st, r->destination)->place;
    b->key_bytes = (uint32_t)r->key.n;
    b->arguments_bytes = (uint32_t)r->arguments.n;
    b->texts = mem_alloc(r->key.n + r->arguments.n + 1);
    if (r->key.n)
        memcpy(b->texts, r->key.p, r->key.n);
    if (r->arguments.n)
        memcpy(b->texts + r->key.n, r->arguments.p, r->arguments.n);
    b->position = position;
    b->image_bytes = (uint32_t)bytes;
    st->live_bytes += bytes;
    void *table = t->bindings;
    uint32_t place = place_new(t->free_bindings, &t->free_binding_count, &t->binding_count,
                               &t->binding_cap, &table, &t->free_bindings);
    t->bindings = table;
    t->bindings[place] = b;
    t->live_bindings++;
    hash_index_add(&t->bindings_by_number, place);
    hash_index_add(&t->bindings_by_identity, place);
    hash_index_add(&t->bindings_by_destination, place);
    link_to_source(st, place);
    index_by_key(st, place);
    if (b->to_exchange)
        exchange_at(st, b->to)->to++;
}

void apply_binding_gone(struct engine_state *st, uint64_t number) {
    if (number >= st->topology.next_binding)
        st->topology.next_binding = number + 1;
    uint32_t i = hash_index_first(&st->topology.bindings_by_number, number);
    while (i && binding_at(st, i)->number != number)
        i = binding_at(st, i)->next_by_number;
    if (i)
        binding_remove(st, i);
}

static void lose_bindings_to(struct engine_state *st, uint64_t destination, bool to_exchange) {
    uint32_t i;
    while ((i = binding_to(st, destination, to_exchange)))
        binding_remove(st, i);
}

void queue_lose_bindings(struct engine_state *st, const struct queue *q) {
    lose_bindings_to(st, q->number, false);
}

/* -- policies by pattern --------------------------------------------------------------------- */

struct pattern *pattern_by_number(const struct engine_state *st, uint32_t number) {
    for (uint32_t i = 0; i < st->topology.pattern_count; i++)
        if (st->topology.patterns[i]->number == number)
            return st->topology.patterns[i];
    return NULL;
}

struct pattern *pattern_by_name(const struct engine_state *st, struct span vhost,
                                struct span name) {
    for (uint32_t i = 0; i < st->topology.pattern_count; i++) {
        struct pattern *p = st->topology.patterns[i];
        if (span_equal(p->image.policy.vhost, vhost) && span_equal(p->image.policy.name, name))
            return p;
    }
    return NULL;
}

static bool applies_to_queue(enum policy_applies a, enum queue_type type) {
    return a == APPLIES_ALL || a == APPLIES_QUEUES ||
           a == (type == QUEUE_QUORUM ? APPLIES_QUORUM : APPLIES_CLASSIC);
}

static bool goes_before(const struct pattern *a, const struct pattern *b) {
    const struct pattern_policy *p = &a->image.policy, *q = &b->image.policy;
    return p->priority != q->priority ? p->priority > q->priority
                                      : span_compare(p->name, q->name) < 0;
}

/* The one that holds for the queue (or exchange) of that scoped name. */
static const struct pattern *pattern_for(struct engine_state *st, struct span scoped, bool is_queue,
                                         enum queue_type type) {
    const struct pattern *best = NULL;
    struct span vhost, name;
    scope_split(scoped, &vhost, &name);
    for (uint32_t i = 0; i < st->topology.pattern_count; i++) {
        const struct pattern *p = st->topology.patterns[i];
        enum policy_applies a = p->image.policy.applies;
        if (is_queue ? !applies_to_queue(a, type) : a != APPLIES_ALL && a != APPLIES_EXCHANGES)
            continue;
        if (span_equal(p->image.policy.vhost, vhost) && (!best || goes_before(p, best)) &&
            p->expression &&
            expression_matches(p->expression, name, &st->topology.expression_memory))
            best = p;
    }
    return best;
}

/* -- settings that follow -------------------------------------------------------------------- */

struct queue_amqp *queue_need_amqp(struct queue *q) {
    if (!q->amqp) {
        q->amqp = mem_alloc(sizeof *q->amqp);
        q->amqp->image.settings = q->amqp->effective = queue_settings_none();
    }
    return q->amqp;
}

static bool asks_to_keep(struct span arguments) {
    struct json_error error;
    struct json *v = arguments.n ? json_parse(arguments, &error) : NULL;
    const struct json *keep = json_get(v, "x-nixie-keep");
    bool keeps = json_is(keep, JSON_BOOL) && json_bool(keep);
    json_free(v);
    return keeps;
}

void queue_take_settings(struct engine_state *st, struct queue *q) {
    if (!q->name || (!q->amqp && st->topology.pattern_count == 0))
        return;
    enum queue_type type = q->amqp ? q->amqp->image.type : QUEUE_CLASSIC;
    const struct pattern *p =
        q->dropping ? NULL : pattern_for(st, span_of(q->name, q->name_bytes), true, type);
    if (!p && !q->amqp)
        return;
    struct queue_amqp *a = queue_need_amqp(q);
    int64_t expires_ms = a->effective.expires_ms;
    a->pattern = p ? p->number : 0;
    a->effective = queue_settings_merge(&a->image.settings, p ? &p->settings : NULL, type);
    a->keeps = asks_to_keep(a->image.arguments);
    if (a->effective.expires_ms != expires_ms)
        queue_note_expires(st, q);
    if (!p && !a->image.is_declared && !a->image.expired && !a->image.max_length) {
        free(a);
        q->amqp = NULL;
        return;
    }
    queue_note_length(st, q);
}

/* (RabbitMQ's default exchange has no alternate one, whatever a policy says: what is published to a
 * queue that is not there comes back.) */
static void exchange_take_settings(struct engine_state *st, struct exchange *x) {
    const struct pattern *p = pattern_for(st, x->image.name, false, QUEUE_CLASSIC);
    bool is_policys = !x->image.has_alternate && !x->is_default && p && p->settings.has_alternate;
    x->has_alternate = x->image.has_alternate || is_policys;
    x->alternate = is_policys ? p->settings.alternate : x->image.alternate;
}

static void take_all_settings(struct engine_state *st) {
    for (uint32_t i = st->oldest_queue; i; i = queue_at(st, i)->newer)
        queue_take_settings(st, queue_at(st, i));
    for (uint32_t i = 1; i <= st->topology.exchange_count; i++)
        if (exchange_at(st, i))
            exchange_take_settings(st, exchange_at(st, i));
}

static void pattern_destroy(struct pattern *p) {
    expression_free(p->expression);
    json_free(p->definition);
    free(p->texts);
    free(p);
}

static struct pattern *pattern_of(const struct record_pattern *r, uint64_t position, size_t bytes) {
    struct pattern *p = mem_alloc(sizeof *p);
    struct span texts[PATTERN_SPANS];
    record_pattern_spans(r, texts);
    p->texts = spans_keep(texts, PATTERN_SPANS);
    p->number = r->pattern;
    p->image = *r;
    p->image.policy.vhost = texts[0];
    p->image.policy.name = texts[1];
    p->image.policy.pattern = texts[2];
    p->image.policy.definition = texts[3];
    struct expression_error expression_error;
    p->expression = expression_new(texts[2], &expression_error);
    p->position = position;
    p->image_bytes = bytes;
    struct json_error error;
    struct settings_error settings_error;
    enum queue_type type;
    p->definition = json_parse(texts[3], &error);
    if (!queue_settings_read(p->definition, false, &p->settings, &type, &settings_error))
        p->settings = queue_settings_none();
    return p;
}

/* Policies stand in order of creation. */
static uint32_t pattern_place(const struct topology *t, uint32_t number) {
    uint32_t i = t->pattern_count;
    while (i > 0 && t->patterns[i - 1]->number >= number)
        i--;
    return i;
}

void apply_pattern(struct engine_state *st, const struct record_pattern *r, uint64_t position,
                   size_t bytes) {
    struct topology *t = &st->topology;
    if (r->pattern >= t->next_pattern)
        t->next_pattern = r->pattern + 1;
    struct pattern *p = pattern_of(r, position, bytes), *old = NULL;
    uint32_t i = pattern_place(t, r->pattern);
    if (i < t->pattern_count && t->patterns[i]->number == r->pattern) {
        old = t->patterns[i];
    } else {
        if (t->pattern_count == t->pattern_cap) {
            t->pattern_cap = t->pattern_cap ? t->pattern_cap * 2 : 8;
            t->patterns = mem_grow(t->patterns, t->pattern_cap * sizeof(void *));
        }
        memmove(t->patterns + i + 1, t->patterns + i, (t->pattern_count - i) * sizeof(void *));
        t->pattern_count++;
    }
    t->patterns[i] = p;
    st->live_bytes += bytes - (old ? old->image_bytes : 0);
    take_all_settings(st);
    if (old)
        pattern_destroy(old);
}

void apply_pattern_gone(struct engine_state *st, uint32_t number) {
    struct topology *t = &st->topology;
    if (number >= t->next_pattern)
        t->next_pattern = number + 1;
    uint32_t i = pattern_place(t, number);
    if (i == t->pattern_count || t->patterns[i]->number != number)
        return;
    struct pattern *p = t->patterns[i];
    t->pattern_count--;
    memmove(t->patterns + i, t->patterns + i + 1, (t->pattern_count - i) * sizeof(void *));
    st->live_bytes -= p->image_bytes;
    take_all_settings(st);
    pattern_destroy(p);
}

/* -- exchanges ------------------------------------------------------------------------------- */

void apply_exchange(struct engine_state *st, const struct record_exchange *r, uint64_t position,
                    size_t bytes) {
    struct exchange *x = exchange_of_record(st, r->exchange);
    bool is_new = x->position == 0;
    struct span texts[EXCHANGE_SPANS];
    record_exchange_spans(r, texts);
    char *old = x->texts;
    if (!is_new)
        hash_index_remove(&st->topology.exchanges_by_name, x->place);
    x->texts = spans_keep(texts, EXCHANGE_SPANS); /* they may point into the old ones */
    x->image = *r;
    x->image.name = texts[0];
    x->image.alternate = texts[1];
    x->image.arguments = texts[2];
    free(old);
    st->live_bytes += bytes - x->image_bytes;
    x->position = position;
    x->image_bytes = bytes;
    hash_index_add(&st->topology.exchanges_by_name, x->place);
    struct span vhost, name;
    scope_split(x->image.name, &vhost, &name);
    x->is_default = name.n == 0;
    exchange_take_settings(st, x);
    for (uint32_t i = is_new ? x->first : 0; i; i = binding_at(st, i)->next)
        index_by_key(st, i);
}

static void exchange_destroy(struct exchange *x) {
    free(x->texts);
    free(x);
}

void apply_exchange_gone(struct engine_state *st, uint64_t number) {
    struct topology *t = &st->topology;
    if (number >= t->next_exchange)
        t->next_exchange = number + 1;
    struct exchange *x = exchange_by_number(st, number);
    if (!x)
        return;
    while (x->first)
        binding_remove(st, x->first);
    lose_bindings_to(st, number, true);
    hash_index_remove(&t->exchanges_by_number, x->place);
    if (x->position)
        hash_index_remove(&t->exchanges_by_name, x->place);
    st->live_bytes -= x->image_bytes;
    t->exchanges[x->place] = NULL;
    t->free_exchanges[t->free_exchange_count++] = x->place;
    t->live_exchanges--;
    exchange_destroy(x);
}

void topology_release(struct engine_state *st) {
    struct topology *t = &st->topology;
    for (uint32_t i = 1; i <= t->binding_count; i++)
        if (t->bindings[i])
            binding_destroy(t->bindings[i]);
    for (uint32_t i = 1; i <= t->exchange_count; i++)
        if (t->exchanges[i])
            exchange_destroy(t->exchanges[i]);
    for (uint32_t i = 0; i < t->pattern_count; i++)
        pattern_destroy(t->patterns[i]);
    hash_index_release(&t->exchanges_by_number);
    hash_index_release(&t->exchanges_by_name);
    hash_index_release(&t->bindings_by_number);
    hash_index_release(&t->bindings_by_key);
    hash_index_release(&t->bindings_by_identity);
    hash_index_release(&t->bindings_by_destination);
    free(t->exchanges);
    free(t->free_exchanges);
    free(t->bindings);
    free(t->free_bindings);
    free(t->patterns);
    expression_memory_release(&t->expression_memory);
    free(t->over);
    free(t->expires);
}

/* -- from the log ---------------------------------------------------------------------------- */

/* Damage of a kind that its checksums do not tell: an image that is too big to have been written. */
static bool was_read(const struct log_record *r) {
    return r->data.n == 0 || r->data.p;
}

static enum err apply_gone_record(struct engine_state *st, const struct log_record *r) {
    uint64_t number;
    enum err e = record_number_get(r->meta, &number);
    if (e != OK)
        return e;
    if (r->type == RECORD_EXCHANGE_GONE)
        apply_exchange_gone(st, number);
    else if (r->type == RECORD_BINDING_GONE)
        apply_binding_gone(st, number);
    else
        apply_pattern_gone(st, (uint32_t)number);
    return OK;
}

enum err apply_topology_record(struct engine_state *st, const struct log_record *r) {
    struct record_exchange exchange;
    struct record_binding binding;
    struct record_pattern pattern;
    enum err e = ERR_CORRUPT;
    if (!was_read(r))
        return e;
    if (r->type == RECORD_EXCHANGE) {
        if ((e = record_exchange_get(r->meta, r->data, &exchange)) == OK)
            apply_exchange(st, &exchange, r->position, r->bytes);
    } else if (r->type == RECORD_BINDING) {
        if ((e = record_binding_get(r->meta, r->data, &binding)) == OK)
            apply_binding(st, &binding, r->position, r->bytes);
    } else if (r->type == RECORD_PATTERN) {
        if ((e = record_pattern_get(r->meta, r->data, &pattern)) == OK)
            apply_pattern(st, &pattern, r->position, r->bytes);
    } else if (r->type == RECORD_EXCHANGE_GONE || r->type == RECORD_BINDING_GONE ||
               r->type == RECORD_PATTERN_GONE) {
        e = apply_gone_record(st, r);
    }
    return e;
}
