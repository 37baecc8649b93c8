/* How messages fail and die. What a failure means is decided in this order: permanent, the queue's
 * rules, the breaker (a failure while it is not closed costs no attempt), the limits. A death is one
 * frame: the cause group when it is new or has something new to say, the message, and where its
 * queue names a target, the move there. */
#include "engine/guard.h"

#include "model/fingerprint.h"

#include <string.h>

/* Who held a message in processing: the newest line of its story is the claim. */
static struct record_event read_claim(struct engine *e, const struct slot *s) {
    uint64_t at = slot_extra(&e->st, s)->history;
    struct record_event claim = {0};
    size_t bytes;
    if (at)
        read_event(e, at, &e->cause, &claim, &bytes);
    return claim.event == EVENT_CLAIMED ? claim : (struct record_event){0};
}

/* Queues of AMQP without a dead-letter exchange keep no letters that nobody rejected. */
static bool is_discarded(const struct queue *q, enum reason reason) {
    const struct queue_amqp *a = q->amqp;
    return a && a->image.is_declared && !a->effective.has_dlx && !a->keeps &&
           (reason == REASON_EXPIRED || reason == REASON_MAX_LENGTH);
}

static void emit_discard(struct engine *e, const struct slot *s, enum reason reason) {
    struct record_gone gone = {
        .queue = queue_at(&e->st, s->queue)->number,
        .cause = reason == REASON_EXPIRED ? GONE_EXPIRED : GONE_MAX_LENGTH,
        .ids = e->ids,
    };
    gone_add(e, &gone, s);
    gone_end(e, &gone);
}

/* What makes of an image that of a dead message. */
static void set_dead(const struct engine *e, struct message_image *m, int64_t now,
                     enum reason reason) {
    m->state = STATE_DEAD;
    m->reason = reason;
    m->is_retry = m->is_alone = m->in_company = false;
    m->next_at = 0;
    m->has_letter = true;
    m->letter.died_at = now;
    m->letter.dead_seq = e->st.next_dead_seq;
    m->letter.job_part = JOB_PART_NONE;
}

static void emit_death(struct engine *e, struct record_state *r, uint32_t slot, int64_t now,
                       const struct failure_facts *facts) {
    const struct slot *s = slot_at(&e->st, slot);
    struct queue *q = queue_at(&e->st, s->queue);
    end_note(q, false, r->image.deliveries);
    struct target target;
    target_begin(&target);
    target_find(e, q, s, now, facts->reason, &target);
    if (target.count == 0 && is_discarded(q, facts->reason)) {
        target_release(&target);
        emit_discard(e, s, facts->reason);
        return;
    }
    set_dead(e, &r->image, now, facts->reason);
    r->image.is_unroutable = target.is_unroutable;
    struct group_choice choice;
    group_choose(e, now, q, facts, r->event.worker_version, target.count == 0, &choice);
    r->image.letter.group = choice.group;
    r->image.letter.version = choice.version;
    log_frame_begin(e->log, choice.bytes + state_bytes(r) + target.bytes);
    group_append(e, &choice);
    append_state(e, r);
    if (target.count)
        target_append(e, slot, now, r, &target);
    log_frame_end(e->log);
    target_release(&target);
}

void arrival_plan(struct engine *e, int64_t now, const struct queue *q, struct record_message *m,
                  size_t room, struct arrival *ret) {
    const struct failure_facts facts = {.queue = span_of(q->name, q->name_bytes),
                                        .reason = REASON_MAX_LENGTH};
    set_dead(e, &m->image, now, facts.reason);
    m->image.is_ordered = false;
    struct target *t = &ret->target;
    target_begin(t);
    t->message = *m;
    target_find(e, q, NULL, now, facts.reason, t);
    if (t->count && t->bytes > room) {
        t->count = 0;
        t->is_unroutable = t->by_exchange;
    }
    m->image.is_unroutable = t->is_unroutable;
    group_choose(e, now, q, &facts, (struct span){0}, t->count == 0, &ret->choice);
    m->image.letter.group = ret->choice.group;
    m->image.letter.version = ret->choice.version;
    ret->bytes = ret->choice.bytes + message_bytes(m) + (t->count ? t->bytes : 0);
}

void arrival_append(struct engine *e, int64_t now, const struct record_message *m,
                    struct arrival *a) {
    group_append(e, &a->choice);
    append_message(e, m);
    if (a->target.count)
        target_append(e, slot_find(&e->st, m->id), now, NULL, &a->target);
    target_release(&a->target);
}

static struct failure_facts facts_of(const struct queue *q, const struct record_event *ev,
                                     enum reason reason) {
    return (struct failure_facts){
        .queue = span_of(q->name, q->name_bytes),
        .reason = reason,
        .fingerprint = ev->fingerprint,
        .error_class = ev->error_class,
        .error = ev->error,
        .detail = ev->detail,
    };
}

static void die_of_failure(struct engine *e, struct record_state *r, uint32_t slot, int64_t now,
                           enum reason reason) {
    struct record_event claim = read_claim(e, slot_at(&e->st, slot));
    r->event.worker = claim.worker;
    r->event.worker_version = claim.worker_version;
    const struct queue *q = queue_at(&e->st, slot_at(&e->st, slot)->queue);
    struct failure_facts facts = facts_of(q, &r->event, reason);
    emit_death(e, r, slot, now, &facts);
}

static void back(struct engine *e, struct record_state *r, int64_t now, int64_t delay_ms) {
    r->image.state = STATE_PENDING;
    r->image.next_at = now + delay_ms;
    r->image.is_retry = true;
    r->image.in_company = false;
    emit_state(e, r);
}

/* What the queue makes of a failure. */
struct verdict_of_failure {
    enum { RETRIES, DIES, FREE } what; /* FREE: it costs no attempt */
    enum reason reason;
    uint8_t max_retries;
    const struct backoff *backoff;
    int64_t delay_ms; /* -1 = the backoff */
    bool is_seen;     /* by the breaker: bad data, and what a rule releases, tell of no outage */
};

static bool is_last_delivery(const struct engine *e, const struct queue *q, const struct slot *s) {
    const struct letter *l = slot_letter(&e->st, s);
    return q->policy.deliveries_max &&
           s->deliveries - (l ? l->deliveries_before : 0) >= q->policy.deliveries_max;
}

static struct verdict_of_failure judge(struct engine *e, struct queue *q, const struct slot *s,
                                       int64_t now, const struct failure *f, struct rule *rule) {
    struct verdict_of_failure v = {.what = RETRIES,
                                   .max_retries = (uint8_t)s->max_retries,
                                   .backoff = &q->policy.backoff,
                                   .delay_ms = f->delay_ms};
    bool has_rule = !f->permanent && rules_find(q->rules, f->error_class, f->error, rule);
    if (f->permanent || (has_rule && rule->action == RULE_DEAD)) {
        v.what = DIES;
        v.reason = REASON_PERMANENT;
        return v;
    }
    /* A probe that failed makes way for another the next time, in case it is the message. */
    int64_t free_ms = q->breaker == BREAKER_HALF_OPEN ? breaker_probe_pause_ms(q) : -1;
    if (has_rule && rule->action == RULE_PAUSE)
        breaker_open(e, q, now, f->error_class);
    if (has_rule && (rule->action == RULE_RELEASE || rule->action == RULE_PAUSE)) {
        v.what = FREE;
        v.is_seen = rule->action == RULE_PAUSE;
        v.delay_ms = v.is_seen ? free_ms : rule->delay_ms;
        return v;
    }
    if (has_rule && rule->max_retries)
        v.max_retries = rule->max_retries;
    if (has_rule && rule->has_backoff)
        v.backoff = &rule->backoff;
    v.is_seen = breaker_sees(q, f->error_class);
    if (q->breaker != BREAKER_CLOSED && v.is_seen) {
        v.what = FREE;
        v.delay_ms = free_ms >= 0 ? free_ms : 0;
    }
    return v;
}

/* n: of how many failures the backoff is; none counted yet is as one. */
static int64_t delay_of(struct engine *e, const struct verdict_of_failure *v, unsigned n) {
    return v->delay_ms >= 0 ? v->delay_ms
                            : backoff_delay_ms(v->backoff, n ? n : 1, rng_u64(&e->rng));
}

/* Near its limit after a lease that ran out, a message goes alone the next time: when one of a claim
 * of many killed the worker, the others must not die with it. */
static bool goes_alone(const struct queue *q, const struct record_state *r,
                       const struct verdict_of_failure *v, uint32_t deliveries_before) {
    bool near_retries = r->image.retry_count + 1 >= v->max_retries;
    bool near_deliveries = q->policy.deliveries_max &&
                           r->image.deliveries - deliveries_before + 1 >= q->policy.deliveries_max;
    return near_retries || near_deliveries;
}

void fail_message(struct engine *e, struct slot *s, int64_t now, const struct failure *f) {
    uint32_t i = slot_find(&e->st, s->id);
    struct queue *q = queue_at(&e->st, s->queue);
    struct rule rule;
    struct verdict_of_failure v = judge(e, q, s, now, f, &rule);
    bool was_in_company = slot_extra(&e->st, s)->in_company;
    bool was_closed = q->breaker == BREAKER_CLOSED;
    duration_note(q, now - (int64_t)s->updated_at);

    struct record_state r = change_of(e, s, now, f->event);
    r.event.error_class = f->error_class;
    r.event.error = f->error;
    r.event.detail = f->detail;
    r.event.fingerprint = f->fingerprint;
    r.image.is_alone = false;
    if (!r.image.first_failed_at)
        r.image.first_failed_at = now;
    uint32_t before = r.image.letter.deliveries_before;
    bool is_expiry = f->event == EVENT_LEASE_EXPIRED;
    if (v.what == RETRIES) {
        bool is_last = r.image.retry_count + 1 >= v.max_retries || is_last_delivery(e, q, s);
        if (is_last && is_expiry && was_in_company) {
            /* It gets one more chance, alone. */
            if (r.image.retry_count + 2 <= v.max_retries)
                r.image.retry_count++;
            r.image.is_alone = true;
        } else {
            r.image.retry_count++;
            if (r.image.retry_count >= v.max_retries) {
                v.what = DIES;
                v.reason = is_expiry ? REASON_LEASE_EXPIRED : REASON_MAX_RETRIES;
            } else if (is_last) {
                v.what = DIES;
                v.reason = REASON_DELIVERY_LIMIT;
            } else {
                r.image.is_alone = is_expiry && goes_alone(q, &r, &v, before);
            }
        }
    } else if (v.what == DIES) {
        r.image.retry_count++;
    }
    /* What is free of cost waits as after a first failure. */
    unsigned failures = v.what == FREE || r.image.retry_count == 0 ? 1 : r.image.retry_count;
    if (v.what == DIES)
        die_of_failure(e, &r, i, now, v.reason);
    else
        back(e, &r, now, delay_of(e, &v, failures));
    if (v.what == RETRIES)
        failing_note(&e->st, q, s->id, r.image.first_failed_at);
    if (v.is_seen && (was_closed || q->breaker == BREAKER_HALF_OPEN))
        breaker_note(e, q, now, false, f->error_class);
    else
        breaker_probe_back(e, q);
}

/* -- facts that a message's headers tell --------------------------------------------------------- */

static struct span fact(struct engine *e, const struct json *headers, const char *name,
                        size_t most) {
    const struct json *v = json_get(headers, name);
    if (!json_is(v, JSON_STRING))
        return (struct span){0};
    struct span text = span_cut_utf8(json_string(v), most);
    size_t at = e->facts.n;
    buf_add_span(&e->facts, text);
    return span_of(e->facts.p + at, text.n);
}

/* What its consumer said when it published it anew; only the texts of `ret` are set. */
static void read_facts(struct engine *e, const struct slot *s, struct record_event *ret) {
    struct record_message m;
    read_message(e, s, &e->message, &m);
    if (m.headers.n == 0 || !memmem(m.headers.p, m.headers.n, "\"x-error", 8))
        return;
    struct json_error error;
    struct json *headers = json_parse(m.headers, &error);
    buf_clear(&e->facts);
    (void)buf_reserve(&e->facts, LIMIT_ERROR_CLASS + LIMIT_ERROR + LIMIT_DETAIL); /* stays put */
    ret->error_class = fact(e, headers, "x-error-class", LIMIT_ERROR_CLASS);
    ret->error = fact(e, headers, "x-error", LIMIT_ERROR);
    ret->detail = fact(e, headers, "x-error-detail", LIMIT_DETAIL);
    json_free(headers);
}

/* Its last failure says more of the cause than that time, or deliveries, ran out. */
static struct record_event read_failure(struct engine *e, const struct slot *s) {
    struct record_event failure = {0};
    uint64_t error = slot_extra(&e->st, s)->error;
    size_t bytes;
    if (error)
        read_event(e, error, &e->cause, &failure, &bytes);
    else
        read_facts(e, s, &failure);
    return failure;
}

static void die_unclaimed(struct engine *e, struct slot *s, int64_t now, enum event event,
                          enum reason reason) {
    uint32_t i = slot_find(&e->st, s->id);
    struct record_state r = change_of(e, s, now, event);
    const struct queue *q = queue_at(&e->st, s->queue);
    struct record_event failure = read_failure(e, s);
    struct failure_facts facts = facts_of(q, &failure, reason);
    emit_death(e, &r, i, now, &facts);
}

void expire_message(struct engine *e, struct slot *s, int64_t now) {
    die_unclaimed(e, s, now, EVENT_EXPIRED, REASON_EXPIRED);
}

void die_of_deliveries(struct engine *e, struct slot *s, int64_t now) {
    die_unclaimed(e, s, now, EVENT_EXPIRED, REASON_DELIVERY_LIMIT);
}

void die_of_length(struct engine *e, struct slot *s, int64_t now) {
    die_unclaimed(e, s, now, EVENT_EXPIRED, REASON_MAX_LENGTH);
}

/* -- given back --------------------------------------------------------------------------------- */

static bool tells_error(const struct settle *item) {
    return item->error.n > 0 || item->error_class.n > 0 || item->detail.n > 0 ||
           item->fingerprint.n > 0;
}

/* A change of a message in processing; with the error when there is one to tell. */
static struct record_state change_by_receiver(struct engine *e, const struct slot *s, int64_t now,
                                              enum event event, const struct settle *item) {
    struct record_state r = change_of(e, s, now, event);
    r.event.error_class = span_cut_utf8(item->error_class, LIMIT_ERROR_CLASS);
    r.event.error = span_cut_utf8(item->error, LIMIT_ERROR);
    r.event.detail = span_cut_utf8(item->detail, LIMIT_DETAIL);
    r.event.fingerprint = span_cut_utf8(item->fingerprint, LIMIT_FINGERPRINT);
    if (event == EVENT_FAILED && !r.image.first_failed_at)
        r.image.first_failed_at = now;
    r.image.in_company = false;
    return r;
}

void reject_message(struct engine *e, struct slot *s, int64_t now, const struct settle *item) {
    uint32_t i = slot_find(&e->st, s->id);
    struct queue *q = queue_at(&e->st, s->queue);
    duration_note(q, now - (int64_t)s->updated_at);
    struct record_state r = change_by_receiver(e, s, now, EVENT_FAILED, item);
    struct record_event failure = tells_error(item) ? r.event : read_failure(e, s);
    struct failure_facts facts = facts_of(q, &failure, REASON_REJECTED);
    if (!tells_error(item)) {
        r.event.error_class = failure.error_class;
        r.event.error = failure.error.n ? failure.error : span_str("rejected");
    }
    if (r.image.retry_count < UINT8_MAX)
        r.image.retry_count++;
    emit_death(e, &r, i, now, &facts);
    breaker_probe_back(e, q);
}

/* Handed out more often than the queue allows since it was last sent again or dead-lettered. */
static bool is_over_delivery_limit(const struct engine *e, const struct queue *q,
                                   const struct slot *s) {
    int64_t limit = q->amqp ? q->amqp->effective.delivery_limit : NO_LIMIT_GIVEN;
    const struct letter *l = slot_letter(&e->st, s);
    return limit >= 0 && (int64_t)s->deliveries - (l ? l->deliveries_before : 0) > limit;
}

void return_message(struct engine *e, struct slot *s, int64_t now, const struct settle *item) {
    uint32_t i = slot_find(&e->st, s->id);
    struct queue *q = queue_at(&e->st, s->queue);
    bool is_failure = tells_error(item);
    struct record_state r =
        change_by_receiver(e, s, now, is_failure ? EVENT_FAILED : EVENT_RELEASED, item);
    if (is_over_delivery_limit(e, q, s)) {
        struct record_event failure = is_failure ? r.event : read_failure(e, s);
        struct failure_facts facts = facts_of(q, &failure, REASON_DELIVERY_LIMIT);
        if (!is_failure)
            r.event.event = EVENT_EXPIRED;
        emit_death(e, &r, i, now, &facts);
    } else {
        r.image.state = STATE_PENDING;
        r.image.next_at = 0;
        emit_state(e, &r);
    }
    breaker_probe_back(e, q);
}
