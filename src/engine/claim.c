#include "engine/engine_int.h"

#include "base/mem.h"

#include <assert.h>
#include <string.h>

static bool is_over(const struct engine *e, const struct slot *s, int64_t now) {
    int64_t expires_at = slot_extra(&e->st, s)->expires_at;
    return expires_at && expires_at <= now;
}

static void hand_out(struct engine *e, struct slot *s, int64_t now, int64_t lease_ms,
                     const struct claim *claim) {
    struct record_state r = change_of(e, s, now, EVENT_CLAIMED);
    r.image.state = STATE_PROCESSING;
    r.image.next_at = now + lease_ms;
    r.image.is_retry = false;
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

enum err engine_claim(struct engine *e, int64_t now, struct span queue, const struct claim *claim,
                      uint64_t *ret_ids, size_t *ret_n) {
    assert(claim->count > 0 && claim->count <= LIMIT_BATCH);
    size_t n = 0, bytes = 0;
    struct queue *q = queue_by_name(&e->st, queue);
    int64_t lease_ms = q && !claim->lease_ms ? q->policy.lease_ms : claim->lease_ms;
    if (q)
        note_claimer(q, now, claim->worker_version);
    while (q && !q->paused_at && n < claim->count) {
        uint32_t i = set_first(&e->st, q, SET_READY);
        if (!i)
            break;
        struct slot *s = slot_at(&e->st, i);
        if (!log_has_room(e->log, LOG_USE_SETTLE, LOG_DEATH_ROOM)) {
            if (n == 0)
                return ERR_DISK_FULL;
            break;
        }
        if (is_over(e, s, now)) {
            expire_message(e, s, now);
            continue;
        }
        if (n > 0 && bytes + s->payload_bytes > claim->bytes_max)
            break;
        bytes += s->payload_bytes;
        hand_out(e, s, now, lease_ms, claim);
        ret_ids[n++] = s->id;
    }
    *ret_n = n;
    return OK;
}
