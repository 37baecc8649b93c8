#include "engine/guard.h"

#include "base/glob.h"
#include "base/mem.h"

#include <assert.h>

#define MILLION 1000000
#define BUDGET_WINDOW_MS 60000
#define BUDGET_CLAIMS_MIN 20 /* fewer claims in the window say nothing */
#define OPEN_MS_DEFAULT 30000
#define PROBES_BETWEEN 8 /* others that go before a failed one is the probe again */

/* What is allocated where a queue's guard points: what is counted lies behind it. */
struct guard_and_tally {
    struct guard guard;
    struct queue_tally tally;
    /* The message that has been failing for longest, as far as that is known; it may have ended. */
    uint64_t failing;
    int64_t failing_since;
};

static struct guard_and_tally *both_of(struct queue *q) {
    if (!q->guard) {
        struct guard_and_tally *both = mem_alloc(sizeof *both);
        q->guard = &both->guard;
    }
    return (struct guard_and_tally *)q->guard;
}

static struct guard *guard_of(struct queue *q) {
    return &both_of(q)->guard;
}

/* The place in a ring of time for `now`, cleared when it last stood for another time. */
static unsigned bucket(int64_t now, int64_t window_ms, int64_t at[static GUARD_BUCKETS],
                       uint32_t *a, uint32_t *b) {
    int64_t width = window_ms / GUARD_BUCKETS > 0 ? window_ms / GUARD_BUCKETS : 1;
    int64_t number = now / width;
    unsigned i = (unsigned)(number % GUARD_BUCKETS);
    if (at[i] != number) {
        at[i] = number;
        a[i] = b[i] = 0;
    }
    return i;
}

static void sum(int64_t now, int64_t window_ms, const int64_t at[static GUARD_BUCKETS],
                const uint32_t *a, const uint32_t *b, uint64_t *ret_a, uint64_t *ret_b) {
    int64_t width = window_ms / GUARD_BUCKETS > 0 ? window_ms / GUARD_BUCKETS : 1;
    int64_t number = now / width;
    *ret_a = *ret_b = 0;
    for (int i = 0; i < GUARD_BUCKETS; i++)
        if (at[i] > number - GUARD_BUCKETS && at[i] <= number) {
            *ret_a += a[i];
            *ret_b += b[i];
        }
}

/* -- the breaker ----------------------------------------------------------------------------- */

static void turn(struct engine *e, struct queue *q, int64_t now, enum breaker_state state,
                 int64_t until, struct span cause) {
    struct record_queue r = queue_image(q);
    r.breaker = state;
    r.breaker_at = now;
    r.breaker_until = until;
    r.breaker_opened += state == BREAKER_OPEN;
    if (state == BREAKER_OPEN)
        r.breaker_cause = span_cut_utf8(cause, LIMIT_ERROR_CLASS);
    if (q->guard)
        q->guard->probes_out = q->guard->probes_good = 0;
    emit_queue(e, &r);
}

bool breaker_sees(const struct queue *q, struct span error_class) {
    return q->texts.breaker_error.n == 0 || glob_match(q->texts.breaker_error, error_class);
}

static int64_t open_ms(const struct queue *q) {
    return q->policy.breaker.is_on ? q->policy.breaker.open_ms : OPEN_MS_DEFAULT;
}

void breaker_open(struct engine *e, struct queue *q, int64_t now, struct span cause) {
    if (q->breaker != BREAKER_OPEN)
        turn(e, q, now, BREAKER_OPEN, now + open_ms(q), cause);
}

static void close_breaker(struct engine *e, struct queue *q, int64_t now) {
    /* What was seen before says nothing of now. */
    for (int i = 0; i < GUARD_BUCKETS; i++)
        q->guard->succeeded[i] = q->guard->failed[i] = 0;
    turn(e, q, now, BREAKER_CLOSED, 0, (struct span){0});
}

static uint32_t probes_wanted(const struct queue *q) {
    return q->policy.breaker.is_on ? q->policy.breaker.probes : 1;
}

static void note_probe(struct engine *e, struct queue *q, int64_t now, bool is_good,
                       struct span cause) {
    struct guard *g = guard_of(q);
    if (!is_good) {
        breaker_open(e, q, now, cause);
        return;
    }
    if (g->probes_out > 0)
        g->probes_out--;
    if (++g->probes_good >= probes_wanted(q))
        close_breaker(e, q, now);
}

void breaker_note(struct engine *e, struct queue *q, int64_t now, bool is_good, struct span cause) {
    const struct breaker_policy *p = &q->policy.breaker;
    if (q->breaker == BREAKER_HALF_OPEN) {
        note_probe(e, q, now, is_good, cause);
        return;
    }
    if (!p->is_on || q->breaker == BREAKER_OPEN)
        return;
    struct guard *g = guard_of(q);
    unsigned i = bucket(now, p->window_ms, g->outcome_at, g->succeeded, g->failed);
    g->succeeded[i] += is_good;
    g->failed[i] += !is_good;
    if (is_good)
        return;
    uint64_t succeeded, failed;
    sum(now, p->window_ms, g->outcome_at, g->succeeded, g->failed, &succeeded, &failed);
    if (succeeded + failed >= p->outcomes_min &&
        failed * MILLION >= (uint64_t)p->share_ppm * (succeeded + failed))
        breaker_open(e, q, now, cause);
}

void breaker_due(struct engine *e, struct queue *q, int64_t now) {
    if (q->breaker == BREAKER_OPEN && q->breaker_until <= now)
        turn(e, q, now, BREAKER_HALF_OPEN, 0, (struct span){0});
}

size_t breaker_allows(const struct queue *q, size_t wanted) {
    if (q->breaker == BREAKER_CLOSED)
        return wanted;
    if (q->breaker == BREAKER_OPEN)
        return 0;
    uint32_t out = q->guard ? q->guard->probes_out : 0, most = probes_wanted(q);
    size_t left = out < most ? most - out : 0;
    return wanted < left ? wanted : left;
}

void breaker_probe_sent(struct queue *q) {
    if (q->breaker == BREAKER_HALF_OPEN)
        guard_of(q)->probes_out++;
}

void breaker_probe_back(struct engine *e, struct queue *q) {
    if (q->breaker != BREAKER_HALF_OPEN)
        return;
    struct guard *g = guard_of(q);
    if (g->probes_out > 0)
        g->probes_out--;
    if (q->ready > 0)
        queue_wake(&e->st, q);
}

int64_t breaker_probe_pause_ms(const struct queue *q) {
    uint64_t others = q->ready < PROBES_BETWEEN ? q->ready : PROBES_BETWEEN;
    return (int64_t)(others + 1) * open_ms(q);
}

/* -- the retry budget ------------------------------------------------------------------------ */

bool budget_is_spent(const struct queue *q, int64_t now) {
    const struct guard *g = q->guard;
    if (!q->policy.retry_budget_ppm || !g)
        return false;
    uint64_t claims, retries;
    sum(now, BUDGET_WINDOW_MS, g->claim_at, g->claims, g->retries, &claims, &retries);
    return claims >= BUDGET_CLAIMS_MIN &&
           (retries + 1) * MILLION > (uint64_t)q->policy.retry_budget_ppm * (claims + 1);
}

void budget_note(struct queue *q, int64_t now, bool is_retry) {
    if (!q->policy.retry_budget_ppm)
        return;
    struct guard *g = guard_of(q);
    unsigned i = bucket(now, BUDGET_WINDOW_MS, g->claim_at, g->claims, g->retries);
    g->claims[i]++;
    g->retries[i] += is_retry;
}

/* -- counting -------------------------------------------------------------------------------- */

static const uint32_t buckets_most[DELIVERY_BUCKETS - 1] = {1, 2, 3, 5, 10, 20};

uint32_t delivery_bucket_most(unsigned number) {
    assert(number < DELIVERY_BUCKETS - 1);
    return buckets_most[number];
}

const struct queue_tally *tally_of(const struct queue *q) {
    return q->guard ? &((const struct guard_and_tally *)q->guard)->tally : NULL;
}

void claim_note(const struct engine_state *st, struct queue *q, const struct slot *s) {
    const struct extra *x = slot_extra(st, s);
    struct queue_tally *t = &both_of(q)->tally;
    t->claims++;
    t->redeliveries += s->deliveries > 1;
    if (x->retry_count == 0)
        return;
    t->retries++;
    failing_note(st, q, s->id, x->first_failed_at);
}

void end_note(struct queue *q, bool is_good, uint32_t deliveries) {
    struct queue_tally *t = &both_of(q)->tally;
    struct deliveries_at_end *d = is_good ? &t->succeeded : &t->died;
    unsigned n = 0;
    while (n < DELIVERY_BUCKETS - 1 && buckets_most[n] < deliveries)
        n++;
    d->count[n]++;
    d->deliveries += deliveries;
}

void redrive_note(struct queue *q, uint32_t redrive_count) {
    both_of(q)->tally.redriven_again += redrive_count > 1;
}

int64_t failing_since(const struct engine_state *st, const struct queue *q) {
    const struct guard_and_tally *both = (const struct guard_and_tally *)q->guard;
    uint32_t i = both && both->failing ? slot_find(st, both->failing) : 0;
    const struct slot *s = i ? slot_at(st, i) : NULL;
    bool is_over = !s || s->queue != q->place || slot_extra(st, s)->retry_count == 0 ||
                   (s->state != STATE_PENDING && s->state != STATE_PROCESSING);
    return is_over ? 0 : both->failing_since;
}

/* The oldest of all would need an order over all that failed. One is remembered: what failed before
 * it takes its place when it comes by, and each comes by within its backoff. */
void failing_note(const struct engine_state *st, struct queue *q, uint64_t id,
                  int64_t first_failed_at) {
    struct guard_and_tally *both = both_of(q);
    int64_t since = failing_since(st, q);
    if (since && since <= first_failed_at)
        return;
    both->failing = id;
    both->failing_since = first_failed_at;
}

void duration_note(struct queue *q, int64_t ms) {
    struct guard *g = guard_of(q);
    unsigned n = 0;
    while (n < 31 && (INT64_C(1) << n) < ms)
        n++;
    g->durations[n]++;
}
