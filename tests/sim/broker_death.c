/* Deaths, as the broker's model has them: what becomes of the message, through exchanges or a queue's
 * own target, and what its envelope tells of it. */
#include "sim/broker_int.h"

#include <assert.h>
#include <string.h>

/* -- what x-death tells ------------------------------------------------------------------------------- */

static enum reason told_as(enum reason reason) {
    if (reason == REASON_PERMANENT || reason == REASON_REJECTED)
        return REASON_REJECTED;
    return reason == REASON_EXPIRED || reason == REASON_MAX_LENGTH ? reason : REASON_DELIVERY_LIMIT;
}

static void forget_death(struct broker_envelope *v, size_t i) {
    memmove(&v->deaths[i], &v->deaths[i + 1], (--v->death_count - i) * sizeof *v->deaths);
}

static void add_death(struct broker_envelope *v, const struct broker_death *d) {
    memmove(&v->deaths[1], &v->deaths[0], v->death_count++ * sizeof *v->deaths);
    v->deaths[0] = *d;
}

/* One entry for a queue and a reason, the newest first; over the most the oldest but the first goes. */
static void tell_death(struct broker_envelope *v, uint8_t queue, enum reason reason, int64_t now) {
    for (size_t i = 0; i < v->death_count; i++) {
        struct broker_death d = v->deaths[i];
        if (d.queue != queue || d.reason != reason)
            continue;
        d.count++;
        forget_death(v, i);
        add_death(v, &d);
        return;
    }
    struct broker_death d = {.queue = queue,
                             .reason = reason,
                             .is_first = v->death_count == 0,
                             .count = 1,
                             .at = now,
                             .exchange = v->exchange,
                             .key_count = (uint8_t)(v->key_count - v->bcc_count),
                             .expiration_ms = v->expiration_ms};
    memcpy(d.keys, v->keys, sizeof d.keys);
    if (v->death_count == ENVELOPE_DEATHS)
        forget_death(v, v->death_count - (v->deaths[v->death_count - 1].is_first ? 2 : 1));
    add_death(v, &d);
}

/* Seen from the newest death to the first one in that queue, none was a rejection. */
static bool closes_circle(const struct broker_envelope *v, uint8_t queue) {
    size_t i = 0;
    while (i < v->death_count && v->deaths[i].queue != queue)
        i++;
    if (i == v->death_count)
        return false;
    for (size_t k = 0; k <= i; k++)
        if (v->deaths[k].reason == REASON_REJECTED)
            return false;
    return true;
}

/* -- where it goes -------------------------------------------------------------------------------------- */

struct ways {
    size_t n;
    uint64_t queues[BROKER_QUEUES];
    bool by_exchange;
    struct broker_envelope envelope;
    uint8_t priority; /* as it was asked for, or else as it was */
};

static void find_by_exchange(struct broker_run *r, const struct broker_message *x,
                             const struct broker_queue *q, const struct settings *s,
                             enum reason reason, struct ways *w) {
    struct broker *b = r->b;
    struct broker_envelope *v = &w->envelope;
    w->by_exchange = true;
    if (!v->is_there) /* it did not come through AMQP: as if it was published to its queue */
        *v = (struct broker_envelope){
            .is_there = true, .key_count = 1, .keys = {q->name.text}, .expiration_ms = -1};
    if (v->priority)
        w->priority = v->priority > PRIORITY_MAX ? PRIORITY_MAX : v->priority;
    enum reason as = told_as(reason);
    tell_death(v, q->name.text, as, r->op->now);
    v->exchange = (uint8_t)s->dlx;
    v->expiration_ms = -1;
    if (s->dlrk >= 0) {
        v->keys[0] = (uint8_t)s->dlrk;
        v->key_count = 1;
        v->bcc_count = 0;
    }
    struct place name = {.vhost = q->name.vhost, .text = (uint8_t)s->dlx};
    const struct broker_exchange *dlx = broker_exchange_at(b, name);
    const struct broker_keys keys = {v->keys, v->key_count, x->headers, v};
    uint64_t found[BROKER_QUEUES];
    size_t n = dlx ? broker_route(b, dlx, &keys, found) : 0;
    for (size_t i = 0; i < n; i++)
        if (as == REASON_REJECTED || !closes_circle(v, broker_queue_of(b, found[i])->name.text))
            w->queues[w->n++] = found[i];
}

/* It died there of that, and was not rejected since. */
static bool comes_back(const struct broker_trail *t, uint64_t queue, enum reason reason) {
    for (size_t i = t->n; i > 0; i--) {
        if (t->reasons[i - 1] == REASON_PERMANENT || t->reasons[i - 1] == REASON_REJECTED)
            return false;
        if (t->queues[i - 1] == queue && t->reasons[i - 1] == reason)
            return true;
    }
    return false;
}

static void find_by_target(struct broker_run *r, const struct broker_message *x,
                           const struct broker_queue *q, enum reason reason, struct ways *w) {
    if (q->native.target < 0)
        return;
    const struct broker_queue *to =
        broker_queue_at(r->b, (struct place){.text = (uint8_t)q->native.target});
    if (to && to != q && x->trail.n < TRAIL_MAX && !comes_back(&x->trail, to->number, reason))
        w->queues[w->n++] = to->number;
}

uint8_t broker_priority_there(struct broker *b, const struct broker_queue *q, uint8_t priority) {
    return q->is_declared ? broker_priority_in(b, q, priority) : priority;
}

static void copy_to(struct broker_run *r, const struct broker_message *original,
                    struct broker_queue *q, struct place from, const struct ways *w) {
    struct broker_message *x = broker_put(r, q);
    x->tag = original->tag;
    x->bytes = original->bytes;
    x->headers = original->headers;
    x->envelope = original->envelope;
    x->trail = original->trail;
    x->has_origin = true;
    x->origin = from;
    x->priority = broker_priority_there(r->b, q, w->priority);
    broker_set_ttl(r, x, -1);
}

void broker_take_origin(struct broker_message *x, struct place from, struct place to) {
    if (!x->has_origin) {
        x->has_origin = true;
        x->origin = from;
    } else if (is_same_place(x->origin, to)) {
        x->has_origin = false;
    }
}

/* Dead by now in the same frame: the first queue found gets the message itself, the others copies. */
static void move_on(struct broker_run *r, struct broker_message *x, enum reason reason,
                    const struct ways *w) {
    struct broker *b = r->b;
    struct broker_queue *q = broker_queue_of(b, x->queue);
    struct broker_queue *to = broker_queue_of(b, w->queues[0]);
    struct place from = q->name;
    q->ledger.moved_out++;
    to->ledger.moved_in++;
    if (w->by_exchange)
        x->envelope = w->envelope;
    if (x->trail.n < TRAIL_MAX) {
        x->trail.queues[x->trail.n] = q->number;
        x->trail.reasons[x->trail.n++] = reason;
    }
    uint64_t id = x->id;
    for (size_t i = 1; i < w->n; i++) {
        struct broker_message original = *broker_find(b, id);
        copy_to(r, &original, broker_queue_of(b, w->queues[i]), from, w);
    }
    x = broker_find(b, id);
    if (w->by_exchange) /* behind what is there already */
        x->arrival = b->next_id++;
    broker_take_origin(x, from, to->name);
    x->moves++;
    x->moved_from = from;
    x->moved_to = to->name;
    x->queue = to->number;
    x->state = STATE_PENDING;
    x->next_at = 0;
    x->retry_count = 0;
    x->max_retries = to->native.policy.max_retries;
    x->priority = broker_priority_there(b, to, w->priority);
    x->deliveries_before = x->deliveries;
    x->is_unroutable = false;
    broker_set_ttl(r, x, -1);
    broker_touch(r, x);
}

static void rest(struct broker_run *r, struct broker_message *x, enum reason reason) {
    x->state = STATE_DEAD;
    x->reason = reason;
    x->is_retry = x->is_alone = x->in_company = x->behind = false;
    x->next_at = 0;
    x->died_at = r->op->now;
    broker_touch(r, x);
}

/* Copies want room: where the disk is full, the engine says. */
static void find_ways(struct broker_run *r, struct broker_message *x, enum reason reason,
                      const struct doing *d, struct ways *w) {
    const struct broker_queue *q = broker_queue_of(r->b, x->queue);
    const struct broker_policy *policy;
    struct settings s = broker_settings(r->b, q, &policy);
    *w = (struct ways){.envelope = x->envelope, .priority = x->priority};
    if (s.dlx >= 0)
        find_by_exchange(r, x, q, &s, reason, w);
    else
        find_by_target(r, x, q, reason, w);
    if (r->op->full && w->n > 1 && d && !d->went)
        w->n = 0;
    x->is_unroutable = s.dlx >= 0 && w->n == 0;
}

/* -- dying ------------------------------------------------------------------------------------------------ */

/* AMQP's queues keep no letters that nobody rejected, unless they have somewhere to go, or are asked to. */
static bool is_discarded(struct broker *b, const struct broker_queue *q, enum reason reason) {
    const struct broker_policy *policy;
    struct settings s = broker_settings(b, q, &policy);
    return q->is_declared && s.dlx < 0 && !s.keeps &&
           (reason == REASON_EXPIRED || reason == REASON_MAX_LENGTH);
}

static struct doing *take_death(struct broker_run *r, const struct broker_message *x) {
    struct doing *d = broker_doing(r, x->id, -1);
    if (d)
        d->is_taken = true;
    else
        broker_object(r, "message %llu should have died", (unsigned long long)x->id);
    return d;
}

void broker_die(struct broker_run *r, struct broker_message *x, enum reason reason,
                bool has_failed) {
    static struct ways w;
    if (!broker_frame(r))
        return;
    struct broker_queue *q = broker_queue_of(r->b, x->queue);
    find_ways(r, x, reason, take_death(r, x), &w);
    if (w.n == 0 && is_discarded(r->b, q, reason)) {
        q->ledger.discarded++;
        q->expired += reason == REASON_EXPIRED;
        q->max_length += reason == REASON_MAX_LENGTH;
        broker_remove(r->b, x);
        return;
    }
    q->deaths_by[reason]++;
    q->failures += has_failed;
    rest(r, x, reason);
    if (w.n > 0)
        move_on(r, x, reason, &w);
}

void broker_arrive_dead(struct broker_run *r, struct broker_message *x) {
    static struct ways w;
    find_ways(r, x, REASON_MAX_LENGTH, take_death(r, x), &w);
    broker_queue_of(r->b, x->queue)->deaths_by[REASON_MAX_LENGTH]++;
    rest(r, x, REASON_MAX_LENGTH);
    if (w.n > 0)
        move_on(r, x, REASON_MAX_LENGTH, &w);
}

/* -- failing ------------------------------------------------------------------------------------------------ */

/* What costs no attempt waits as after the first one. */
static int64_t backoff_of(const struct policy *p, unsigned failures) {
    failures = failures ? failures : 1;
    int64_t ms = p->backoff.base_ms;
    for (unsigned i = 0; i < failures && p->backoff.kind == BACKOFF_EXPONENTIAL; i++)
        ms = ms * p->backoff.factor_milli / 1000;
    return ms;
}

static void back(struct broker_run *r, struct broker_message *x, struct broker_queue *q) {
    if (!broker_frame(r))
        return;
    q->failures++;
    x->state = STATE_PENDING;
    x->is_retry = true;
    x->in_company = false;
    x->next_at = r->op->now + backoff_of(&q->native.policy, x->retry_count);
    broker_touch(r, x);
}

void broker_fail(struct broker_run *r, struct broker_message *x, bool is_lease, bool permanent) {
    struct broker_queue *q = broker_queue_of(r->b, x->queue);
    bool is_last = x->retry_count + 1 >= x->max_retries;
    if (broker_is_at_end(r))
        return;
    x->is_alone = false;
    if (!permanent && is_last && is_lease && x->in_company) {
        /* Perhaps it was another one: it gets one more chance, alone. */
        if (x->retry_count + 2 <= x->max_retries)
            x->retry_count++;
        x->is_alone = true;
        back(r, x, q);
        return;
    }
    x->retry_count++;
    if (permanent) {
        broker_die(r, x, REASON_PERMANENT, true);
    } else if (is_last) {
        broker_die(r, x, is_lease ? REASON_LEASE_EXPIRED : REASON_MAX_RETRIES, true);
    } else {
        x->is_alone = is_lease && x->retry_count + 1 >= x->max_retries;
        back(r, x, q);
    }
}

/* -- lengths ------------------------------------------------------------------------------------------------- */

int broker_overflow(struct broker *b, const struct broker_queue *q) {
    const struct broker_policy *policy;
    int overflow = broker_settings(b, q, &policy).overflow;
    bool is_quorum = q->is_declared && q->declare.is_quorum;
    bool drops = overflow < 0 || (overflow == LENGTH_REJECT_PUBLISH_DLX && is_quorum);
    return drops ? LENGTH_DROP_HEAD : overflow;
}

bool broker_is_over(struct broker *b, struct broker_queue *q) {
    const struct broker_policy *policy;
    struct settings s = broker_settings(b, q, &policy);
    uint64_t n = 0, bytes = 0;
    for (size_t i = 0; i < b->message_count; i++) {
        const struct broker_message *x = &b->messages[i];
        if (x->queue != q->number || !broker_is_ready(x))
            continue;
        n++;
        bytes += x->bytes;
    }
    bool is_long =
        (s.length >= 0 && n > (uint64_t)s.length) || (s.bytes >= 0 && bytes > (uint64_t)s.bytes);
    return is_long && broker_overflow(b, q) == LENGTH_DROP_HEAD;
}

/* The lowest priority; of those the one that is there for longest. */
struct broker_message *broker_head(struct broker *b, const struct broker_queue *q) {
    struct broker_message *head = NULL;
    for (size_t i = 0; i < b->message_count; i++) {
        struct broker_message *x = &b->messages[i];
        if (x->queue != q->number || !broker_is_ready(x))
            continue;
        if (!head || x->priority < head->priority ||
            (x->priority == head->priority && x->arrival < head->arrival))
            head = x;
    }
    return head;
}

void broker_lose_head(struct broker_run *r, struct doing *d) {
    struct broker_message *x = broker_find(r->b, d->id);
    struct broker_queue *q = x ? broker_queue_of(r->b, x->queue) : NULL;
    const struct broker_message *head = q ? broker_head(r->b, q) : NULL;
    if (!q || !broker_is_over(r->b, q))
        broker_object(r, "message %llu was dropped from a queue that is not too long",
                      (unsigned long long)d->id);
    else if (head != x)
        broker_object(r, "message %llu was dropped from queue %s, whose head is %llu",
                      (unsigned long long)d->id, place_words(q->name),
                      head ? (unsigned long long)head->id : 0);
    else
        broker_die(r, x, REASON_MAX_LENGTH, false);
}

void broker_relieve(struct broker_run *r) {
    size_t n = 0;
    for (size_t i = 0; i < r->op->doing_count && !r->is_cut && !r->wrong[0]; i++) {
        struct doing *d = &r->op->doings[i];
        if (d->is_taken || d->kind != DOING_LENGTH)
            continue;
        broker_lose_head(r, d);
        n++;
    }
    bool may_go_on = r->op->full || n >= LIMIT_TICK_MESSAGES;
    for (size_t i = 0; i < r->b->queue_count && !r->is_cut && !may_go_on; i++)
        if (broker_is_over(r->b, &r->b->queues[i]))
            broker_object(r, "queue %s is too long", place_words(r->b->queues[i].name));
}
