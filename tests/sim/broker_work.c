/* Producing, consuming and what time brings, as the broker's model has them. */
#include "sim/broker_int.h"

#include <string.h>

/* -- producing ---------------------------------------------------------------------------------------- */

bool broker_fits(struct broker *b, const struct broker_queue *q, uint64_t messages) {
    uint64_t n = 0;
    for (size_t i = 0; i < b->message_count; i++)
        n += b->messages[i].queue == q->number && b->messages[i].state != STATE_DEAD;
    return !q->native.policy.messages_max || n + messages <= q->native.policy.messages_max;
}

enum intake { TAKES, REFUSES, KILLS, REFUSES_DEAD };

/* What becomes of what comes to a queue. */
static enum intake intake_of(struct broker *b, const struct broker_queue *q, uint64_t messages,
                             uint64_t bytes) {
    const struct broker_policy *policy;
    struct settings s = broker_settings(b, q, &policy);
    if (!broker_fits(b, q, messages))
        return q->native.policy.overflow == OVERFLOW_DEAD ? KILLS : REFUSES;
    int overflow = broker_overflow(b, q);
    if (overflow == LENGTH_DROP_HEAD)
        return TAKES;
    for (size_t i = 0; i < b->message_count; i++) {
        const struct broker_message *x = &b->messages[i];
        if (x->queue != q->number || !broker_is_ready(x))
            continue;
        messages++;
        bytes += x->bytes;
    }
    if ((s.length < 0 || messages <= (uint64_t)s.length) &&
        (s.bytes < 0 || bytes <= (uint64_t)s.bytes))
        return TAKES;
    return overflow == LENGTH_REJECT_PUBLISH_DLX && s.dlx >= 0 ? REFUSES_DEAD : REFUSES;
}

/* -1 = the queue's, of the time to live 0 = none. */
static void take_times(struct broker_run *r, struct broker_message *x, int64_t delay_ms,
                       int64_t ttl_ms, int64_t expiration_ms) {
    const struct policy *p = &broker_queue_of(r->b, x->queue)->native.policy;
    if (delay_ms < 0)
        delay_ms = p->delay_ms;
    if (ttl_ms < 0)
        ttl_ms = p->ttl_ms;
    if (expiration_ms >= 0 && (ttl_ms <= 0 || expiration_ms < ttl_ms))
        ttl_ms = expiration_ms;
    else if (ttl_ms <= 0)
        ttl_ms = -1;
    broker_set_ttl(r, x, ttl_ms);
    x->next_at = delay_ms > 0 ? r->op->now + delay_ms : 0;
    broker_touch(r, x);
}

static struct broker_message *put_published(struct broker_run *r, struct broker_queue *q) {
    const struct broker_op *op = r->op;
    struct broker_message *x = broker_put(r, q);
    x->tag = op->tag;
    x->bytes = op->bytes;
    x->headers = op->headers;
    x->priority = broker_priority_in(r->b, q, op->priority);
    x->envelope = (struct broker_envelope){.is_there = true,
                                           .exchange = op->name.text,
                                           .key_count = op->key_count,
                                           .bcc_count = op->bcc_count,
                                           .priority = op->priority,
                                           .expiration_ms = op->expiration_ms};
    memcpy(x->envelope.keys, op->keys, sizeof op->keys);
    take_times(r, x, -1, -1, op->expiration_ms);
    return x;
}

static enum err publish(struct broker_run *r) {
    struct broker *b = r->b;
    const struct broker_op *op = r->op;
    const struct broker_exchange *x = broker_exchange_at(b, op->name);
    if (!x)
        return ERR_NO_EXCHANGE;
    if (x->internal)
        return ERR_REFUSED;
    const struct broker_keys keys = {op->keys, op->key_count, op->headers, NULL};
    uint64_t found[BROKER_QUEUES];
    enum intake intakes[BROKER_QUEUES];
    size_t n = broker_route(b, x, &keys, found);
    if (n == 0)
        return OK;
    if (op->error == ERR_DISK_FULL)
        return ERR_DISK_FULL;
    for (size_t i = 0; i < n; i++) {
        intakes[i] = intake_of(b, broker_queue_of(b, found[i]), 1, op->bytes);
        r->ret->queues += intakes[i] == TAKES || intakes[i] == KILLS;
        r->ret->refused += intakes[i] == REFUSES || intakes[i] == REFUSES_DEAD;
    }
    bool any = false;
    for (size_t i = 0; i < n && !r->is_cut; i++) /* all that take it: one frame */
        if (intakes[i] == TAKES && (any || (any = broker_frame(r))))
            put_published(r, broker_queue_of(b, found[i]));
    for (size_t i = 0; i < n && !r->is_cut; i++)
        if ((intakes[i] == KILLS || intakes[i] == REFUSES_DEAD) && broker_frame(r))
            broker_arrive_dead(r, put_published(r, broker_queue_of(b, found[i])));
    broker_relieve(r);
    return OK;
}

static void put_enqueued(struct broker_run *r, struct broker_queue *q,
                         const struct broker_item *item) {
    bool dies = q->native.policy.overflow == OVERFLOW_DEAD && !broker_fits(r->b, q, 1);
    struct broker_message *x = broker_put(r, q);
    x->tag = item->tag;
    x->bytes = item->bytes;
    x->headers = item->headers;
    x->priority = q->is_declared ? broker_priority_in(r->b, q, item->priority) : item->priority;
    x->envelope.expiration_ms = -1;
    take_times(r, x, item->delay_ms, item->ttl_ms, -1);
    if (dies)
        broker_arrive_dead(r, x);
}

static enum err enqueue(struct broker_run *r) {
    struct broker *b = r->b;
    const struct broker_op *op = r->op;
    struct broker_queue *q = broker_queue_at(b, op->name);
    bool is_refused = op->error == ERR_DISK_FULL;
    if (!q && (is_refused && op->begin == op->end))
        return ERR_DISK_FULL;
    if (!q && broker_frame(r))
        q = broker_queue_new(r, op->name);
    uint64_t bytes = 0;
    for (size_t i = 0; i < op->n; i++)
        bytes += op->items[i].bytes;
    enum intake intake = q ? intake_of(b, q, op->n, bytes) : TAKES;
    if (intake == REFUSES || intake == REFUSES_DEAD)
        return ERR_QUEUE_FULL;
    if (is_refused)
        return ERR_DISK_FULL;
    if (!broker_frame(r))
        return OK;
    for (size_t i = 0; i < op->n; i++) {
        r->ret->ids[r->ret->n++] = b->next_id;
        put_enqueued(r, broker_queue_at(b, op->name), &op->items[i]);
    }
    broker_relieve(r);
    return OK;
}

/* -- consuming ------------------------------------------------------------------------------------------ */

/* What a job sent comes last. The highest priority; of those the one that is there for longest. */
static bool goes_before(const struct broker_message *x, const struct broker_message *y) {
    if (x->behind != y->behind)
        return y->behind;
    return x->priority != y->priority ? x->priority > y->priority : x->arrival < y->arrival;
}

static struct broker_message *first_ready(struct broker *b, uint64_t queue) {
    struct broker_message *first = NULL;
    for (size_t i = 0; i < b->message_count; i++) {
        struct broker_message *x = &b->messages[i];
        if (x->queue != queue || !broker_is_ready(x))
            continue;
        if (!first || goes_before(x, first))
            first = x;
    }
    return first;
}

/* Those that are over die on the way. */
static struct broker_message *next_ready(struct broker_run *r, uint64_t queue) {
    struct broker_message *x;
    while (!r->is_cut && !r->wrong[0] && (x = first_ready(r->b, queue)) && x->expires_at &&
           x->expires_at <= r->op->now) {
        if (r->op->full && !broker_doing(r, x->id, DOING_EXPIRES))
            return NULL;
        broker_die(r, x, REASON_EXPIRED, false);
    }
    return r->is_cut || r->wrong[0] ? NULL : x;
}

static void hand_out(struct broker_run *r, struct broker_message *x, struct broker_queue *q,
                     bool in_company) {
    int64_t lease_ms = r->op->claim.lease_ms ? r->op->claim.lease_ms : q->native.policy.lease_ms;
    x->state = STATE_PROCESSING;
    x->next_at = lease_ms < 0 ? 0 : r->op->now + lease_ms;
    x->is_retry = false;
    x->in_company = in_company;
    x->deliveries++;
    q->deliveries++;
    broker_touch(r, x);
}

static enum err claim(struct broker_run *r) {
    struct broker *b = r->b;
    const struct claim *c = &r->op->claim;
    struct broker_queue *q = broker_queue_at(b, r->op->name);
    if (!q)
        return OK;
    bool in_company = false;
    uint64_t bytes = 0;
    while (r->ret->n < c->count) {
        struct broker_message *x = next_ready(r, q->number);
        if (r->op->full && r->ret->n == r->op->n)
            break; /* it had no room for more */
        bool is_first = r->ret->n == 0;
        if (!x || (!is_first && (x->is_alone || bytes + x->bytes > c->bytes_max)))
            break;
        if (is_first)
            in_company = c->count > 1 && broker_ready(b, q) > 1 && !x->is_alone;
        if (!broker_frame(r))
            break;
        bytes += x->bytes;
        hand_out(r, x, q, in_company);
        r->ret->ids[r->ret->n++] = x->id;
        if (x->is_alone)
            break;
    }
    if (r->op->error == ERR_DISK_FULL)
        return ERR_DISK_FULL;
    broker_relieve(r);
    return OK;
}

static bool is_over_limit(struct broker *b, const struct broker_queue *q,
                          const struct broker_message *x) {
    const struct broker_policy *policy;
    int64_t limit = broker_settings(b, q, &policy).limit;
    return limit >= 0 && x->deliveries - x->deliveries_before > limit;
}

static void give_back(struct broker_run *r, struct broker_message *x, bool tells) {
    struct broker_queue *q = broker_queue_of(r->b, x->queue);
    if (is_over_limit(r->b, q, x)) {
        broker_die(r, x, REASON_DELIVERY_LIMIT, tells);
        return;
    }
    if (!broker_frame(r))
        return;
    q->failures += tells;
    x->state = STATE_PENDING;
    x->next_at = 0;
    x->in_company = false;
    broker_touch(r, x);
}

static void release(struct broker_run *r, struct broker_message *x, int64_t delay_ms) {
    x->state = STATE_PENDING;
    x->next_at = delay_ms > 0 ? r->op->now + delay_ms : 0;
    x->in_company = false;
    broker_touch(r, x);
}

static void settle_as(struct broker_run *r, struct broker_queue *q, struct broker_message *x,
                      const struct broker_item *item) {
    if (broker_is_at_end(r))
        return;
    switch (item->action) {
    case SETTLE_FAIL:
        broker_fail(r, x, false, item->permanent);
        return;
    case SETTLE_RETURN:
        give_back(r, x, item->tells);
        return;
    case SETTLE_REJECT:
        x->retry_count++;
        broker_die(r, x, REASON_REJECTED, true);
        return;
    case SETTLE_SUCCEED:
    case SETTLE_RELEASE:
    case SETTLE_EXTEND:
        break;
    }
    if (!broker_frame(r))
        return;
    if (item->action == SETTLE_RELEASE) {
        release(r, x, item->delay_ms);
    } else if (item->action == SETTLE_EXTEND) {
        x->next_at = r->op->now + (item->lease_ms ? item->lease_ms : q->native.policy.lease_ms);
        broker_touch(r, x);
    } else {
        q->ledger.succeeded++;
        broker_remove(r->b, x);
    }
}

static enum err settle_one(struct broker_run *r, struct broker_queue *q,
                           const struct broker_item *item) {
    struct broker_message *x = broker_find(r->b, item->id);
    if (!x || x->queue != q->number)
        return ERR_NO_MESSAGE;
    if (item->lease && item->lease != x->deliveries)
        return ERR_STALE_LEASE;
    if (x->state != STATE_PROCESSING)
        return item->lease ? ERR_STALE_LEASE : ERR_WRONG_STATE;
    settle_as(r, q, x, item);
    return OK;
}

static enum err settle(struct broker_run *r) {
    struct broker_queue *q = broker_queue_at(r->b, r->op->name);
    if (!q)
        return ERR_NO_QUEUE;
    if (r->op->error == ERR_DISK_FULL)
        return ERR_DISK_FULL;
    for (size_t i = 0; i < r->op->n && !r->is_cut; i++)
        r->ret->results[i] = settle_one(r, q, &r->op->items[i]);
    broker_relieve(r);
    return OK;
}

/* -- the lot ------------------------------------------------------------------------------------------------ */

/* One frame for each run of them that a job sent, or none; and for so many. */
static enum err purge(struct broker_run *r) {
    struct broker *b = r->b;
    struct broker_queue *q = broker_queue_at(b, r->op->name);
    if (!q)
        return ERR_NO_QUEUE;
    if (r->op->error == ERR_DISK_FULL)
        return ERR_DISK_FULL;
    r->ret->ids[0] = broker_ready(b, q);
    struct broker_message *x;
    uint64_t run = UINT64_MAX;
    for (size_t n = 0; (x = first_ready(b, q->number)); n++) {
        uint64_t job = x->behind ? x->sent_by : 0;
        if ((job != run || n % RECORD_GONE_IDS == 0) && !broker_frame(r))
            break;
        run = job;
        q->ledger.discarded++;
        broker_remove(b, x);
    }
    return OK;
}

void broker_work(struct broker_run *r) {
    static enum err (*const verbs[BROKER_OPS])(struct broker_run * r) = {
        [BROKER_PURGE] = purge,
        [BROKER_PUBLISH] = publish,
        [BROKER_ENQUEUE] = enqueue,
        [BROKER_CLAIM] = claim,
        [BROKER_SETTLE] = settle,
        [BROKER_REPLAY] = broker_replay,
        [BROKER_DISCARD] = broker_discard,
        [BROKER_EDIT] = broker_edit,
        [BROKER_JOB] = broker_job_start,
    };
    r->ret->error = verbs[r->op->kind](r);
}

/* -- what time brings -------------------------------------------------------------------------------------- */

/* With a full disk who waits may have to go on waiting: those that did not are among the doings. */
static void waits_end(struct broker_run *r) {
    for (size_t i = 0; i < r->b->message_count; i++) {
        struct broker_message *x = &r->b->messages[i];
        bool is_over = x->expires_at && x->expires_at <= r->op->now;
        struct doing *d = broker_doing(r, x->id, DOING_WAIT_ENDS);
        if (d)
            d->is_taken = true;
        if (x->state != STATE_PENDING || !x->waiting || x->next_at > r->op->now || is_over)
            continue;
        if (!r->op->full || d)
            x->waiting = false;
    }
}

static void lease_ends(struct broker_run *r, struct doing *d, struct broker_message *x) {
    if (!x || x->state != STATE_PROCESSING || !x->next_at || x->next_at > r->op->now) {
        broker_object(r, "message %llu has a lease, and it ended", (unsigned long long)d->id);
        return;
    }
    d->is_taken = !d->is_death; /* else it is by its death */
    broker_fail(r, x, true, false);
}

static void expires(struct broker_run *r, struct doing *d, struct broker_message *x) {
    if (!x || x->state != STATE_PENDING || !x->expires_at || x->expires_at > r->op->now)
        broker_object(r, "message %llu should not expire", (unsigned long long)d->id);
    else
        broker_die(r, x, REASON_EXPIRED, false);
}

static void nothing_is_due(struct broker_run *r) {
    for (size_t i = 0; i < r->b->message_count; i++) {
        const struct broker_message *x = &r->b->messages[i];
        bool is_over = x->state == STATE_PENDING && x->expires_at && x->expires_at <= r->op->now;
        bool is_late = x->state == STATE_PROCESSING && x->next_at && x->next_at <= r->op->now;
        if (is_over || is_late)
            broker_object(r, "message %llu: its %s is over, and nothing happened",
                          (unsigned long long)x->id, is_over ? "time" : "lease");
    }
}

static void ledger_move(struct ledger *to, struct ledger *from) {
    to->accepted += from->accepted;
    to->moved_in += from->moved_in;
    to->succeeded += from->succeeded;
    to->discarded += from->discarded;
    to->moved_out += from->moved_out;
    *from = (struct ledger){0};
}

void broker_tick(struct broker_run *r) {
    waits_end(r);
    for (size_t i = 0; i < r->op->doing_count && !r->is_cut && !r->wrong[0]; i++) {
        struct doing *d = &r->op->doings[i];
        if (d->is_taken)
            continue;
        if (d->kind == DOING_LEASE)
            lease_ends(r, d, broker_find(r->b, d->id));
        else if (d->kind == DOING_EXPIRES)
            expires(r, d, broker_find(r->b, d->id));
        else if (d->kind == DOING_LENGTH)
            broker_lose_head(r, d);
        else if (d->kind == DOING_SENT)
            broker_send(r, d);
    }
    if (r->is_cut)
        return;
    broker_relieve(r); /* none is too long */
    if (!r->op->full) {
        nothing_is_due(r);
        broker_jobs_are_done(r);
        ledger_move(&r->b->deleted, &r->b->dropping);
    }
}

/* -- after a start ------------------------------------------------------------------------------------------- */

/* The oldest that a connection held. */
static struct broker_message *next_held(struct broker *b, uint64_t queue, uint64_t after) {
    struct broker_message *next = NULL;
    for (size_t i = 0; i < b->message_count; i++) {
        struct broker_message *x = &b->messages[i];
        if (x->queue == queue && x->state == STATE_PROCESSING && x->next_at == 0 &&
            x->arrival > after && (!next || x->arrival < next->arrival))
            next = x;
    }
    return next;
}

static void begin_queue(struct broker_run *r, struct broker_queue *q) {
    if (q->is_declared && (!q->declare.durable || q->declare.exclusive)) {
        broker_queue_drop(r, q);
        return;
    }
    uint64_t number = q->number, after = 0;
    struct broker_message *x;
    while (!r->is_cut && !r->wrong[0] && (x = next_held(r->b, number, after))) {
        after = x->arrival;
        give_back(r, x, false);
    }
}

static void begin_exchanges(struct broker_run *r) {
    for (size_t i = 0; i < r->op->doing_count && !r->is_cut; i++) {
        struct doing *d = &r->op->doings[i];
        struct broker_exchange *x = broker_exchange_of(r->b, d->id);
        if (d->is_taken || d->kind != DOING_EXCHANGE_GONE || !x || x->durable)
            continue;
        d->is_taken = true;
        broker_exchange_drop(r, x);
        broker_orphans_go(r);
    }
    for (size_t i = 0; i < r->b->exchange_count && !r->is_cut; i++)
        if (!r->b->exchanges[i].durable)
            broker_object(r, "exchange %s outlived the restart",
                          place_words(r->b->exchanges[i].name));
}

void broker_begin(struct broker_run *r) {
    struct broker *b = r->b;
    uint64_t last = b->next_queue;
    if (!broker_has_vhost(b, 0)) {
        r->op->name.vhost = 0;
        broker_change_topology_as(r, BROKER_VHOST);
    }
    for (uint64_t number = 1; number < last && !r->is_cut; number++) {
        struct broker_queue *q = broker_queue_of(b, number);
        if (q)
            begin_queue(r, q);
    }
    begin_exchanges(r);
    broker_relieve(r);
}

/* -- any operation ------------------------------------------------------------------------------------------- */

void broker_apply(struct broker *b, struct broker_op *op, struct broker_reply *ret, char *wrong,
                  size_t wrong_bytes) {
    struct broker_run r = {.b = b,
                           .op = op,
                           .ret = ret,
                           .frames_left = op->limit,
                           .wrong = wrong,
                           .wrong_bytes = wrong_bytes};
    wrong[0] = 0;
    op->frames = 0;
    b->operations++;
    for (size_t i = 0; i < op->doing_count; i++)
        op->doings[i].is_taken = false;
    for (size_t i = 0; i < b->exchange_count; i++)
        b->exchanges[i].has_lost = false;
    if (op->kind == BROKER_TICK)
        broker_tick(&r);
    else if (op->kind == BROKER_BEGIN)
        broker_begin(&r);
    else if (op->kind < BROKER_PURGE || op->kind == BROKER_POLICY ||
             op->kind == BROKER_POLICY_DELETE)
        broker_change_topology_as(&r, op->kind);
    else
        broker_work(&r);
    for (size_t i = 0; i < op->doing_count && !r.is_cut; i++)
        if (!op->doings[i].is_taken && op->doings[i].kind == DOING_EXCHANGE_GONE)
            broker_object(&r, "an exchange went, and should not");
        else if (!op->doings[i].is_taken && op->doings[i].kind != DOING_WAIT_ENDS)
            broker_object(&r, "message %llu died, and should not",
                          (unsigned long long)op->doings[i].id);
}
