#include "engine/guard.h"

#include "base/mem.h"

#include <assert.h>
#include <string.h>

static bool is_over(const struct engine *e, const struct slot *s, int64_t now) {
    int64_t expires_at = slot_extra(&e->st, s)->expires_at;
    return expires_at && expires_at <= now;
}

/* It was handed out as often as it may be since it was last sent again. */
static bool is_at_delivery_limit(const struct engine *e, const struct queue *q,
                                 const struct slot *s) {
    const struct letter *l = slot_letter(&e->st, s);
    uint32_t before = l ? l->deliveries_before : 0;
    return q->policy.deliveries_max && s->deliveries - before >= q->policy.deliveries_max;
}

static void hand_out(struct engine *e, struct slot *s, int64_t now, int64_t lease_ms,
                     const struct claim *claim, bool in_company) {
    struct record_state r = change_of(e, s, now, EVENT_CLAIMED);
    r.image.state = STATE_PROCESSING;
    r.image.next_at = lease_ms < 0 ? 0 : now + lease_ms;
    r.image.is_retry = false;
    r.image.in_company = in_company;
    if (r.image.deliveries < LIMIT_DELIVERIES)
        r.image.deliveries++;
    r.event.attempt = r.image.deliveries;
    r.event.worker = claim->worker;
    r.event.worker_version = claim->worker_version;
    emit_state(e, &r);
}

/* Remembers that workers of this version ask for work: a redrive is warned of those that failed its
 * letters. The one that was away for longest makes way. */
static void note_claimer(struct queue *q, int64_t now, struct span version) {
    q->claimed_at = now;
    if (version.n == 0)
        return;
    if (!q->claimers)
        q->claimers = mem_alloc(CLAIMERS * sizeof *q->claimers);
    struct claimer *oldest = &q->claimers[0];
    for (int i = 0; i < CLAIMERS; i++) {
        struct claimer *c = &q->claimers[i];
        if (c->at && span_equal(span_of(c->version, c->bytes), version)) {
            c->at = now;
            return;
        }
        if (c->at < oldest->at)
            oldest = c;
    }
    oldest->at = now;
    oldest->bytes = (uint8_t)version.n;
    memcpy(oldest->version, version.p, version.n);
}

/* The first in line. What failed stands in lines of its own, whether its queue has a retry budget now
 * or not: the older of the two heads goes, or the fresh one when the budget is spent. */
static uint32_t first_ready(const struct engine *e, const struct queue *q, int64_t now) {
    const struct engine_state *st = &e->st;
    uint32_t fresh = set_first(st, q, SET_READY);
    if (!q->ready_again || slot_line(slot_at(st, fresh)) >= LINE_OF_RETRIES ||
        budget_is_spent(q, now))
        return fresh;
    uint32_t retry = set_after(st, q, SET_READY, LINE_OF_RETRIES, 0);
    const struct slot *f = slot_at(st, fresh), *r = slot_at(st, retry);
    bool retry_is_first = r->priority != f->priority ? r->priority > f->priority
                                                     : slot_arrival(st, r) < slot_arrival(st, f);
    return retry_is_first ? retry : fresh;
}

/* The next one that may go: those that may not any more die on the way. 0 = none, or no room to let
 * them die. */
static uint32_t next_ready(struct engine *e, struct queue *q, int64_t now) {
    uint32_t i;
    while ((i = first_ready(e, q, now)) && log_has_room(e->log, LOG_USE_SETTLE, LOG_DEATH_ROOM)) {
        struct slot *s = slot_at(&e->st, i);
        if (is_over(e, s, now))
            expire_message(e, s, now);
        else if (is_at_delivery_limit(e, q, s))
            die_of_deliveries(e, s, now);
        else
            return i;
    }
    return 0;
}

/* Whether the claim can have another one beside the first: a message that goes alone does. */
static bool has_second(struct engine *e, struct queue *q, const struct claim *claim,
                       const struct slot *first) {
    return claim->count > 1 && q->ready > 1 && breaker_allows(q, 2) > 1 &&
           !slot_extra(&e->st, first)->is_alone;
}

enum err engine_claim(struct engine *e, int64_t now, struct span queue, const struct claim *claim,
                      uint64_t *ret_ids, size_t *ret_n) {
    assert(claim->count > 0 && claim->count <= LIMIT_BATCH);
    size_t n = 0, bytes = 0;
    struct queue *q = queue_by_name(&e->st, queue);
    *ret_n = 0;
    if (!q)
        return OK;
    note_claimer(q, now, claim->worker_version);
    breaker_due(e, q, now);
    if (q->paused_at)
        return OK;
    int64_t lease_ms = claim->lease_ms ? claim->lease_ms : q->policy.lease_ms;
    bool in_company = false;
    while (n < claim->count && breaker_allows(q, 1) > 0) {
        uint32_t i = next_ready(e, q, now);
        if (!i) {
            if (n == 0 && q->ready > 0)
                return ERR_DISK_FULL;
            break;
        }
        struct slot *s = slot_at(&e->st, i);
        bool is_alone = slot_extra(&e->st, s)->is_alone;
        if (n > 0 && (is_alone || bytes + s->payload_bytes > claim->bytes_max))
            break;
        if (n == 0)
            in_company = has_second(e, q, claim, s);
        bytes += s->payload_bytes;
        bool is_retry = slot_extra(&e->st, s)->retry_count > 0;
        hand_out(e, s, now, lease_ms, claim, in_company);
        claim_note(&e->st, q, s);
        budget_note(q, now, is_retry);
        breaker_probe_sent(q);
        ret_ids[n++] = s->id;
        if (is_alone)
            break;
    }
    *ret_n = n;
    (void)relieve(e, now); /* what died on the way may have filled another queue */
    return OK;
}
