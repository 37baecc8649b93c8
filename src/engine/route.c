/* Where an exchange sends a message: to queues, and on through other exchanges. */
#include "engine/route.h"

#include "base/mem.h"
#include "model/envelope.h"
#include "model/scope.h"

#include <stdlib.h>
#include <string.h>

void routes_release(struct routes *r) {
    free(r->queues);
    free(r->exchanges);
    buf_release(&r->name);
}

/* -- topics: words between dots; * is one word, # any number of them --------------------------- */

/* The word at `at` of s; *ret_next is where the next one begins, s.n + 1 behind the last. */
static struct span word_at(struct span s, size_t at, size_t *ret_next) {
    const uint8_t *dot = at < s.n ? memchr(s.p + at, '.', s.n - at) : NULL;
    size_t end = dot ? (size_t)(dot - s.p) : s.n;
    *ret_next = end + 1;
    return span_of(s.p + at, end - at);
}

bool topic_matches(struct span pattern, struct span key) {
    /* An empty text has no words. */
    size_t p = pattern.n ? 0 : 1, k = key.n ? 0 : 1, p_next, k_next;
    size_t back_p = SIZE_MAX, back_k = 0; /* behind the last #, and what it has taken so far */
    while (k <= key.n) {
        struct span word = word_at(key, k, &k_next);
        struct span wanted = p <= pattern.n ? word_at(pattern, p, &p_next) : (struct span){0};
        if (p <= pattern.n && span_equal_str(wanted, "#")) {
            p = back_p = p_next;
            back_k = k;
        } else if (p <= pattern.n && (span_equal_str(wanted, "*") || span_equal(wanted, word))) {
            p = p_next;
            k = k_next;
        } else if (back_p != SIZE_MAX) {
            (void)word_at(key, back_k, &k_next);
            p = back_p;
            k = back_k = k_next;
        } else {
            return false;
        }
    }
    while (p <= pattern.n && span_equal_str(word_at(pattern, p, &p_next), "#"))
        p = p_next;
    return p > pattern.n;
}

/* -- headers ----------------------------------------------------------------------------------- */

static bool is_number(const struct json *v) {
    return json_is(v, JSON_INTEGER) || json_is(v, JSON_REAL);
}

static bool is_same_text(const struct json *a, const struct json *b) {
    struct buf texts[2];
    buf_init(&texts[0], SIZE_MAX);
    buf_init(&texts[1], SIZE_MAX);
    json_dump(a, &texts[0]);
    json_dump(b, &texts[1]);
    bool same = span_equal(buf_span(&texts[0]), buf_span(&texts[1]));
    buf_release(&texts[0]);
    buf_release(&texts[1]);
    return same;
}

static bool is_same(const struct json *a, const struct json *b) {
    if (is_number(a) && is_number(b)) {
        if (json_is(a, JSON_INTEGER) && json_is(b, JSON_INTEGER))
            return json_integer(a) == json_integer(b);
        return json_number(a) >= json_number(b) && json_number(a) <= json_number(b);
    }
    return json_kind_of(a) == json_kind_of(b) && is_same_text(a, b);
}

struct headers_match {
    const struct json *headers;
    const struct envelope *deaths;
    bool with_x;
    unsigned wanted, found;
};

static bool match_one(void *ctx, const char *name, const struct json *wanted) {
    struct headers_match *m = ctx;
    if (strcmp(name, "x-match") == 0 || (!m->with_x && strncmp(name, "x-", 2) == 0))
        return true;
    m->wanted++;
    struct span death;
    if (m->deaths && envelope_death_header(m->deaths, span_str(name), &death)) {
        m->found += json_is(wanted, JSON_NULL) ||
                    (json_is(wanted, JSON_STRING) && span_equal(json_string(wanted), death));
        return true;
    }
    const struct json *v = json_get(m->headers, name);
    m->found += v && (json_is(wanted, JSON_NULL) || is_same(wanted, v));
    return true;
}

static bool headers_match(const struct json *wanted, const struct json *headers,
                          const struct envelope *deaths) {
    const struct json *how = json_get(wanted, "x-match");
    struct span x = json_is(how, JSON_STRING) ? json_string(how) : span_str("all");
    struct headers_match m = {.headers = headers,
                              .deaths = deaths,
                              .with_x = span_equal_str(x, "all-with-x") ||
                                        span_equal_str(x, "any-with-x")};
    if (json_is(wanted, JSON_OBJECT))
        (void)json_each(wanted, match_one, &m);
    bool is_any = span_equal_str(x, "any") || span_equal_str(x, "any-with-x");
    return is_any ? m.found > 0 : m.found == m.wanted;
}

/* -- one exchange ------------------------------------------------------------------------------ */

static void add_queue(struct routes *r, struct queue *q) {
    if (q->dropping || q->routed == r->routing)
        return;
    q->routed = r->routing;
    if (r->n == r->cap) {
        r->cap = r->cap ? r->cap * 2 : 16;
        r->queues = mem_grow(r->queues, r->cap * sizeof *r->queues);
    }
    r->queues[r->n++] = q;
}

static void add_exchange(struct routes *r, struct exchange *x) {
    if (!x || x->routed == r->routing)
        return;
    x->routed = r->routing;
    if (r->exchange_count == r->exchange_cap) {
        r->exchange_cap = r->exchange_cap ? r->exchange_cap * 2 : 16;
        r->exchanges = mem_grow(r->exchanges, r->exchange_cap * sizeof(void *));
    }
    r->exchanges[r->exchange_count++] = x;
}

static void follow(const struct engine_state *st, struct routes *r, const struct binding *b) {
    if (b->to_exchange)
        add_exchange(r, exchange_at(st, b->to));
    else
        add_queue(r, queue_at(st, b->to));
}

static bool any_topic(const struct message_keys *m, struct span pattern) {
    for (size_t i = 0; i < m->count; i++)
        if (topic_matches(pattern, m->keys[i]))
            return true;
    return false;
}

/* The headers are parsed when the first one asks for them. */
static bool matches_headers(struct binding *b, struct routes *r, const struct message_keys *m) {
    struct json_error error;
    if (!r->headers && m->headers.n)
        r->headers = json_parse(m->headers, &error);
    if (!b->wanted && b->arguments_bytes)
        b->wanted = json_parse(binding_arguments(b), &error);
    return headers_match(b->wanted, r->headers, m->deaths);
}

/* How many bindings led on. */
static size_t follow_keys(const struct engine_state *st, struct routes *r, struct exchange *x,
                          const struct message_keys *m) {
    size_t found = 0;
    for (size_t k = 0; k < m->count; k++)
        for (uint32_t i = binding_first_of_key(st, x, m->keys[k]); i;
             i = binding_next_of_key(st, i), found++)
            follow(st, r, binding_at(st, i));
    return found;
}

static size_t follow_all(const struct engine_state *st, struct routes *r, struct exchange *x,
                         const struct message_keys *m) {
    size_t found = 0;
    for (uint32_t i = x->first; i; i = binding_at(st, i)->next) {
        struct binding *b = binding_at(st, i);
        bool leads_on = x->image.type == EXCHANGE_FANOUT ||
                        (x->image.type == EXCHANGE_TOPIC && any_topic(m, binding_key(b))) ||
                        (x->image.type == EXCHANGE_HEADERS && matches_headers(b, r, m));
        if (leads_on)
            follow(st, r, b);
        found += leads_on;
    }
    return found;
}

static size_t follow_default(const struct engine_state *st, struct routes *r, struct span vhost,
                             const struct message_keys *m) {
    size_t found = 0;
    for (size_t k = 0; k < m->count; k++) {
        struct queue *q =
            scope_name(vhost, m->keys[k], &r->name) ? queue_by_name(st, buf_span(&r->name)) : NULL;
        if (q)
            add_queue(r, q);
        found += q != NULL;
    }
    return found;
}

static void visit(const struct engine_state *st, struct routes *r, struct exchange *x,
                  const struct message_keys *m) {
    struct span vhost, name;
    scope_split(x->image.name, &vhost, &name);
    size_t found = x->is_default                      ? follow_default(st, r, vhost, m)
                   : x->image.type == EXCHANGE_DIRECT ? follow_keys(st, r, x, m)
                                                      : follow_all(st, r, x, m);
    if (found == 0 && x->has_alternate && scope_name(vhost, x->alternate, &r->name))
        add_exchange(r, exchange_by_name(st, buf_span(&r->name)));
}

static int compare_queues(const void *a, const void *b) {
    uint64_t x = (*(struct queue *const *)a)->number, y = (*(struct queue *const *)b)->number;
    return x < y ? -1 : x > y;
}

/* A number that no queue and no exchange bears. */
static uint32_t next_routing(struct engine_state *st) {
    if (++st->topology.routing > 0)
        return st->topology.routing;
    for (uint32_t i = st->oldest_queue; i; i = queue_at(st, i)->newer)
        queue_at(st, i)->routed = 0;
    for (uint32_t i = 1; i <= st->topology.exchange_count; i++)
        if (exchange_at(st, i))
            exchange_at(st, i)->routed = 0;
    return ++st->topology.routing;
}

void route(struct engine_state *st, struct exchange *x, const struct message_keys *m,
           struct routes *r) {
    r->n = r->exchange_count = 0;
    r->routing = next_routing(st);
    r->name.max = SIZE_MAX;
    add_exchange(r, x);
    for (size_t i = 0; i < r->exchange_count; i++)
        visit(st, r, r->exchanges[i], m);
    json_free(r->headers);
    r->headers = NULL;
    /* The same order whatever was read or carried when. */
    if (r->n > 1)
        qsort(r->queues, r->n, sizeof *r->queues, compare_queues);
}
