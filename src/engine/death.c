/* How messages fail and die. A death is one frame: the cause group when it is new or has something
 * new to say, then the message. */
#include "engine/engine_int.h"

#include "model/fingerprint.h"

#include <assert.h>

/* Who held a message in processing: the newest line of its story is the claim. */
static void read_claim(struct engine *e, const struct slot *s, struct record_event *ev) {
    uint64_t at = slot_extra(&e->st, s)->history;
    struct record_event claim = {0};
    size_t bytes;
    if (at)
        read_event(e, at, &e->story, &claim, &bytes);
    if (claim.event == EVENT_CLAIMED) {
        ev->worker = claim.worker;
        ev->worker_version = claim.worker_version;
    }
}

static void emit_death(struct engine *e, struct record_state *r, const struct slot *s, int64_t now,
                       const struct failure_facts *facts) {
    const struct queue *q = queue_at(&e->st, s->queue);
    struct group_choice choice;
    group_choose(e, now, q, facts, r->event.worker_version, &choice);
    r->image.state = STATE_DEAD;
    r->image.reason = facts->reason;
    r->image.is_retry = false;
    r->image.next_at = 0;
    r->image.has_letter = true;
    struct letter_image *l = &r->image.letter;
    l->died_at = now;
    l->dead_seq = e->st.next_dead_seq;
    l->group = choice.group;
    l->version = choice.version;
    l->job_part = JOB_PART_NONE;
    log_frame_begin(e->log, choice.bytes + state_bytes(r));
    group_append(e, &choice);
    append_state(e, r);
    log_frame_end(e->log);
}

static void die_of_failure(struct engine *e, struct record_state *r, const struct slot *s,
                           int64_t now, enum reason reason) {
    read_claim(e, s, &r->event);
    const struct queue *q = queue_at(&e->st, s->queue);
    const struct failure_facts facts = {
        .queue = span_of(q->name, q->name_bytes),
        .reason = reason,
        .fingerprint = r->event.fingerprint,
        .error_class = r->event.error_class,
        .error = r->event.error,
        .detail = r->event.detail,
    };
    emit_death(e, r, s, now, &facts);
}

void fail_message(struct engine *e, struct slot *s, int64_t now, const struct failure *f) {
    struct record_state r = change_of(e, s, now, f->event);
    const struct queue *q = queue_at(&e->st, s->queue);
    r.event.error_class = f->error_class;
    r.event.error = f->error;
    r.event.detail = f->detail;
    r.event.fingerprint = f->fingerprint;
    r.image.retry_count++;
    if (!r.image.first_failed_at)
        r.image.first_failed_at = now;
    if (f->permanent) {
        die_of_failure(e, &r, s, now, REASON_PERMANENT);
    } else if (r.image.retry_count >= r.image.max_retries) {
        die_of_failure(e, &r, s, now,
                       f->event == EVENT_LEASE_EXPIRED ? REASON_LEASE_EXPIRED : REASON_MAX_RETRIES);
    } else {
        int64_t delay = f->delay_ms;
        if (delay < 0)
            delay = backoff_delay_ms(&q->policy.backoff, r.image.retry_count, rng_u64(&e->rng));
        r.image.state = STATE_PENDING;
        r.image.next_at = now + delay;
        r.image.is_retry = true;
        emit_state(e, &r);
    }
}

void expire_message(struct engine *e, struct slot *s, int64_t now) {
    struct record_state r = change_of(e, s, now, EVENT_EXPIRED);
    const struct queue *q = queue_at(&e->st, s->queue);
    struct failure_facts facts = {.queue = span_of(q->name, q->name_bytes),
                                  .reason = REASON_EXPIRED};
    /* Its last failure says more of the cause than that time ran out. */
    uint64_t error = slot_extra(&e->st, s)->error;
    if (error) {
        struct record_event failure;
        size_t bytes;
        read_event(e, error, &e->story, &failure, &bytes);
        facts.error_class = failure.error_class;
        facts.error = failure.error;
        facts.detail = failure.detail;
        facts.fingerprint = failure.fingerprint;
    }
    emit_death(e, &r, s, now, &facts);
}
