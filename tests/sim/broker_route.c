/* Where an exchange sends a message: everything that can be reached is walked over, in any order. */
#include "sim/broker.h"

#include <stdlib.h>
#include <string.h>

struct walk {
    struct broker *b;
    const struct broker_keys *m;
    bool seen[BROKER_EXCHANGES], found[BROKER_QUEUES];
};

/* -- what a binding asks for ------------------------------------------------------------------------ */

static bool any_key_is(const struct broker_keys *m, uint8_t key) {
    for (size_t i = 0; i < m->n; i++)
        if (m->keys[i] == key)
            return true;
    return false;
}

static bool any_key_fits(const struct broker_keys *m, uint8_t pattern) {
    for (size_t i = 0; i < m->n; i++)
        if (topic_takes(pattern, m->keys[i]))
            return true;
    return false;
}

static const char *word_of(enum reason reason) {
    return reason == REASON_REJECTED     ? "rejected"
           : reason == REASON_EXPIRED    ? "expired"
           : reason == REASON_MAX_LENGTH ? "maxlen"
                                         : "delivery_limit";
}

/* The headers that a message has by its deaths; NULL when it is none of them. */
static const char *death_header(const struct broker_envelope *v, const char *name) {
    const struct broker_death *first = NULL, *last = v->death_count ? &v->deaths[0] : NULL;
    for (size_t i = 0; i < v->death_count; i++)
        if (v->deaths[i].is_first)
            first = &v->deaths[i];
    if (!first)
        return NULL;
    if (strcmp(name, "x-first-death-reason") == 0)
        return word_of(first->reason);
    if (strcmp(name, "x-last-death-reason") == 0)
        return word_of(last->reason);
    if (strcmp(name, "x-first-death-queue") == 0)
        return (const char *)text_of(first->queue).p;
    if (strcmp(name, "x-last-death-queue") == 0)
        return (const char *)text_of(last->queue).p;
    if (strcmp(name, "x-first-death-exchange") == 0)
        return (const char *)text_of(first->exchange).p;
    if (strcmp(name, "x-last-death-exchange") == 0)
        return (const char *)text_of(last->exchange).p;
    return NULL;
}

static bool has_field(const struct broker_keys *m, const struct field *wanted) {
    const char *death = m->deaths ? death_header(m->deaths, wanted->name) : NULL;
    const struct field by_death = {wanted->name, FIELD_TEXT, death};
    const struct field *f = death ? &by_death : NULL, *headers = table_of(m->headers);
    for (int i = 0; !death && i < FIELDS && headers[i].name; i++)
        if (strcmp(headers[i].name, wanted->name) == 0)
            f = &headers[i];
    return f && (wanted->kind == FIELD_VOID || is_same_field(f, wanted));
}

static bool headers_fit(const struct broker_keys *m, unsigned arguments) {
    const struct field *wanted = table_of(arguments);
    const char *how = "all";
    for (int i = 0; i < FIELDS && wanted[i].name; i++)
        if (strcmp(wanted[i].name, "x-match") == 0)
            how = wanted[i].value;
    bool with_x = strstr(how, "with-x"), is_any = strncmp(how, "any", 3) == 0;
    bool some = false, all = true;
    for (int i = 0; i < FIELDS && wanted[i].name; i++) {
        bool is_x = strncmp(wanted[i].name, "x-", 2) == 0;
        if (strcmp(wanted[i].name, "x-match") == 0 || (is_x && !with_x))
            continue;
        bool has = has_field(m, &wanted[i]);
        some |= has;
        all &= has;
    }
    return is_any ? some : all;
}

static bool leads_on(const struct broker_exchange *x, const struct broker_binding *l,
                     const struct broker_keys *m) {
    switch (x->type) {
    case EXCHANGE_DIRECT:
        return any_key_is(m, l->key);
    case EXCHANGE_TOPIC:
        return any_key_fits(m, l->key);
    case EXCHANGE_HEADERS:
        return headers_fit(m, l->arguments);
    case EXCHANGE_FANOUT:
        break;
    }
    return true;
}

/* -- the walk ------------------------------------------------------------------------------------------ */

static void reach_queue(struct walk *w, const struct broker_queue *q) {
    w->found[q - w->b->queues] = true;
}

static void visit(struct walk *w, const struct broker_exchange *x);

static bool visit_default(struct walk *w, unsigned vhost) {
    bool any = false;
    for (size_t i = 0; i < w->m->n; i++) {
        struct place name = {.vhost = (uint8_t)vhost, .text = w->m->keys[i]};
        const struct broker_queue *q = broker_queue_at(w->b, name);
        if (q)
            reach_queue(w, q);
        any |= q != NULL;
    }
    return any;
}

static bool visit_bindings(struct walk *w, const struct broker_exchange *x) {
    bool any = false;
    for (size_t i = 0; i < w->b->binding_count; i++) {
        const struct broker_binding *l = &w->b->bindings[i];
        if (l->from != x->number || !leads_on(x, l, w->m))
            continue;
        any = true;
        if (l->to_exchange)
            visit(w, broker_exchange_of(w->b, l->to));
        else
            reach_queue(w, broker_queue_of(w->b, l->to));
    }
    return any;
}

static void visit(struct walk *w, const struct broker_exchange *x) {
    bool *seen = &w->seen[x - w->b->exchanges];
    if (*seen)
        return;
    *seen = true;
    bool any = x->name.text == 0 ? visit_default(w, x->name.vhost) : visit_bindings(w, x);
    int alternate = broker_alternate(w->b, x);
    if (any || alternate < 0)
        return;
    struct place name = {.vhost = x->name.vhost, .text = (uint8_t)alternate};
    const struct broker_exchange *other = broker_exchange_at(w->b, name);
    if (other)
        visit(w, other);
}

size_t broker_route(struct broker *b, const struct broker_exchange *x, const struct broker_keys *m,
                    uint64_t ret[static BROKER_QUEUES]) {
    struct walk w = {.b = b, .m = m};
    size_t n = 0;
    visit(&w, x);
    for (size_t i = 0; i < b->queue_count; i++)
        if (w.found[i])
            ret[n++] = b->queues[i].number;
    return n;
}
