#include "sim/model.h"

#include "base/mem.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- operations and what they remember ---------------------------------------------------------------- */

struct run {
    struct model *m;
    struct op *op;
    struct engine *look;
    unsigned frames_left;
    char *wrong;
    size_t wrong_bytes;
};

void op_release(struct op *op) {
    free(op->seen);
    op->seen = NULL;
    op->seen_count = op->seen_cap = 0;
}

__attribute__((format(printf, 2, 3))) static void complain(struct run *r, const char *format, ...) {
    if (r->wrong[0])
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(r->wrong, r->wrong_bytes, format, args);
    va_end(args);
}

/* A value that only the engine knows: `found` the first time, what was remembered after that. */
static uint64_t remember(struct run *r, uint64_t found) {
    struct op *op = r->op;
    if (!r->look) {
        assert(op->seen_next < op->seen_count);
        return op->seen[op->seen_next++];
    }
    if (op->seen_count == op->seen_cap) {
        op->seen_cap = op->seen_cap ? op->seen_cap * 2 : 8;
        op->seen = mem_grow(op->seen, op->seen_cap * sizeof *op->seen);
    }
    op->seen[op->seen_count++] = found;
    return found;
}

/* One more frame of the operation; false when it ends before. */
static bool next_frame(struct run *r) {
    if (r->frames_left == 0)
        return false;
    r->frames_left--;
    return true;
}

static bool engine_has(struct run *r, const struct model_message *x, struct message_view *ret) {
    return engine_message(r->look, model_queue_name(x->queue), x->id, ret) == OK;
}

/* -- the parts of the model --------------------------------------------------------------------------------- */

void model_init(struct model *m) {
    memset(m, 0, sizeof *m);
    m->next_id = m->next_serial = 1;
    for (size_t i = 0; i < MODEL_MESSAGES; i++)
        m->free_stories[m->free_story_count++] = i;
}

struct model_message *model_find(struct model *m, uint64_t id) {
    for (size_t i = 0; i < m->message_count; i++)
        if (m->messages[i].id == id)
            return &m->messages[i];
    return NULL;
}

static uint64_t count_of(const struct model *m, int queue, enum state state) {
    uint64_t n = 0;
    for (size_t i = 0; i < m->message_count; i++)
        n += m->messages[i].queue == queue && m->messages[i].state == state;
    return n;
}

uint64_t model_unfinished(const struct model *m, int queue) {
    return count_of(m, queue, STATE_PENDING) + count_of(m, queue, STATE_PROCESSING);
}

static void message_remove(struct model *m, size_t i) {
    m->free_stories[m->free_story_count++] = m->messages[i].story;
    memmove(&m->messages[i], &m->messages[i + 1], (--m->message_count - i) * sizeof *m->messages);
}

static void tell(struct model *m, struct model_message *x, enum event event, int64_t now,
                 uint32_t tag, uint8_t worker) {
    struct model_story *s = &m->stories[x->story];
    s->last = (struct model_line){.event = event,
                                  .attempt = x->deliveries,
                                  .tag = tag,
                                  .at = now,
                                  .next_at = x->state == STATE_DEAD ? 0 : x->next_at,
                                  .worker = worker};
    if (s->n < MODEL_STORY)
        s->lines[s->n] = s->last;
    s->n++;
}

static void touch(struct model_message *x, int64_t now) {
    x->updated_at = now;
    x->waiting = x->state == STATE_PENDING && x->next_at > now;
    x->kept = x->state == STATE_SUCCEEDED && x->idempotency_until > now;
}

static void queue_make(struct model *m, int queue, int64_t now, const struct policy *policy) {
    m->queues[queue] = (struct model_queue){.exists = true,
                                            .created_at = now,
                                            .serial = m->next_serial++,
                                            .policy = policy ? *policy : policy_default()};
}

/* -- producing -------------------------------------------------------------------------------------------------- */

/* The id of the first message with this key, 0 = none. When the clock was set back, the window may or may not be over: the engine says. */
static uint64_t key_known(struct run *r, int queue, uint8_t key, bool engine_says) {
    const struct model_key *newest = NULL;
    for (size_t i = 0; i < r->m->key_count; i++)
        if (r->m->keys[i].queue == queue && r->m->keys[i].key == key)
            newest = &r->m->keys[i];
    if (!newest || newest->until <= r->op->now || !model_find(r->m, newest->id))
        return 0;
    return newest->until > r->m->latest || engine_says ? newest->id : 0;
}

static void key_add(struct model *m, int queue, uint8_t key, uint64_t id, int64_t until) {
    size_t kept = 0;
    for (size_t i = 0; i < m->key_count; i++)
        if (m->keys[i].queue != queue || m->keys[i].key != key)
            m->keys[kept++] = m->keys[i];
    m->key_count = kept;
    assert(m->key_count < MODEL_KEYS);
    m->keys[m->key_count++] = (struct model_key){queue, key, id, until};
}

static struct model_message *message_add(struct run *r, const struct op_item *item) {
    struct model *m = r->m;
    const struct policy *p = &m->queues[r->op->queue].policy;
    int64_t now = r->op->now, delay_ms = item->delay_ms < 0 ? p->delay_ms : item->delay_ms;
    assert(m->message_count < MODEL_MESSAGES);
    struct model_message *x = &m->messages[m->message_count++];
    *x = (struct model_message){
        .id = m->next_id++,
        .queue = r->op->queue,
        .state = STATE_PENDING,
        .max_retries = item->max_retries ? item->max_retries : p->max_retries,
        .priority = item->priority,
        .created_at = now,
        .next_at = delay_ms > 0 ? now + delay_ms : 0,
        .ttl_ms = item->ttl_ms < 0 ? p->ttl_ms : item->ttl_ms,
        .tag = item->tag,
        .payload_bytes = item->payload_bytes,
        .headers_bytes = item->headers_bytes,
        .key_bytes = item->key_bytes,
        .story = m->free_stories[--m->free_story_count],
    };
    x->expires_at = x->ttl_ms ? now + x->ttl_ms : 0;
    m->stories[x->story].n = 0;
    touch(x, now);
    m->queues[x->queue].ledger.accepted++;
    return x;
}

static uint64_t bytes_of(const struct model *m, int queue) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < m->message_count; i++)
        if (m->messages[i].queue == queue && m->messages[i].state != STATE_SUCCEEDED &&
            m->messages[i].state != STATE_DEAD)
            bytes += m->messages[i].payload_bytes;
    return bytes;
}

static void enqueue(struct run *r, struct outcome *ret) {
    struct model *m = r->m;
    struct op *op = r->op;
    struct model_queue *q = &m->queues[op->queue];
    /* A full disk may show after the queue was made. */
    bool makes = !q->exists;
    if (op->error == ERR_DISK_FULL) {
        struct queue_view v;
        makes = makes && remember(r, r->look && engine_queue(r->look, model_queue_name(op->queue),
                                                             &v) == OK);
    }
    if (makes && next_frame(r))
        queue_make(m, op->queue, op->now, NULL);
    if (op->error == ERR_DISK_FULL) {
        ret->error = ERR_DISK_FULL;
        return;
    }
    /* Only what is new can be in the way of a limit. */
    uint64_t messages = 0, bytes = 0;
    for (size_t i = 0; i < op->n; i++) {
        const struct op_item *item = &op->items[i];
        if (item->idempotency && key_known(r, op->queue, item->idempotency, ret->duplicates[i]))
            continue;
        messages++;
        bytes += item->payload_bytes;
    }
    const struct policy *p = &q->policy;
    bool over = messages > 0 &&
                ((p->messages_max && model_unfinished(m, op->queue) + messages > p->messages_max) ||
                 (p->bytes_max && bytes_of(m, op->queue) + bytes > p->bytes_max));
    if (r->look ? over : op->error == ERR_QUEUE_FULL) {
        ret->error = ERR_QUEUE_FULL;
        return;
    }
    if (!next_frame(r))
        return;
    for (size_t i = 0; i < op->n; i++) {
        const struct op_item *item = &op->items[i];
        bool said = remember(r, ret->duplicates[i]);
        uint64_t known = item->idempotency ? key_known(r, op->queue, item->idempotency, said) : 0;
        ret->duplicates[i] = known != 0;
        ret->ids[i] = known ? known : m->next_id;
        if (known)
            continue;
        struct model_message *x = message_add(r, item);
        if (item->idempotency) {
            x->idempotency_until = op->now + q->policy.idempotency_window_ms;
            key_add(m, op->queue, item->idempotency, x->id, x->idempotency_until);
        }
    }
    ret->n = op->n;
}

/* -- dying and failing ----------------------------------------------------------------------------------------------- */

static void die(struct model *m, struct model_message *x, int64_t now, enum reason reason) {
    struct model_queue *q = &m->queues[x->queue];
    x->state = STATE_DEAD;
    x->reason = reason;
    x->is_retry = false;
    x->died_at = now;
    x->next_at = q->policy.keep_dead_ms ? now + q->policy.keep_dead_ms : 0;
    q->deaths++;
}

static void expire(struct model *m, struct model_message *x, int64_t now) {
    die(m, x, now, REASON_EXPIRED);
    tell(m, x, EVENT_EXPIRED, now, 0, 0);
    touch(x, now);
}

struct line_search {
    enum event event;
    uint32_t attempt;
    int64_t next_at;
};

static void search_line(void *ctx, const struct history_entry *entry) {
    struct line_search *s = ctx;
    if (entry->event == s->event && entry->attempt == s->attempt)
        s->next_at = entry->next_at;
}

/* The wait chosen by the engine must lie within what the policy's jitter allows. */
static int64_t backoff(struct run *r, const struct model_message *x, enum event event) {
    struct backoff b = r->m->queues[x->queue].policy.backoff;
    enum jitter jitter = b.jitter;
    b.jitter = JITTER_NONE;
    int64_t most = backoff_delay_ms(&b, x->retry_count, 0), least = most;
    if (jitter == JITTER_NONE)
        return most;
    least = jitter == JITTER_FULL ? 0 : most / 2;
    struct line_search line = {.event = event, .attempt = x->deliveries};
    if (r->look &&
        engine_history(r->look, model_queue_name(x->queue), x->id, search_line, &line) != OK)
        complain(r, "message %llu has no story", (unsigned long long)x->id);
    int64_t wait = (int64_t)remember(r, (uint64_t)(line.next_at - r->op->now));
    if (wait < least || wait > most)
        complain(r, "message %llu waits %lld ms, which is not in %lld..%lld",
                 (unsigned long long)x->id, (long long)wait, (long long)least, (long long)most);
    return wait;
}

static void fail(struct run *r, struct model_message *x, enum event event, uint32_t tag,
                 bool permanent, int64_t delay_ms) {
    struct model *m = r->m;
    int64_t now = r->op->now;
    x->retry_count++;
    m->queues[x->queue].failures++;
    x->has_error = true;
    x->error_tag = tag;
    if (permanent || x->retry_count >= x->max_retries) {
        die(m, x, now,
            permanent                      ? REASON_PERMANENT
            : event == EVENT_LEASE_EXPIRED ? REASON_LEASE_EXPIRED
                                           : REASON_MAX_RETRIES);
    } else {
        x->state = STATE_PENDING;
        x->is_retry = true;
        x->next_at = now + (delay_ms < 0 ? backoff(r, x, event) : delay_ms);
    }
    tell(m, x, event, now, tag, 0);
    touch(x, now);
}

/* -- consuming ----------------------------------------------------------------------------------------------------------- */

static struct model_message *first_ready(struct model *m, int queue) {
    struct model_message *best = NULL;
    for (size_t i = 0; i < m->message_count; i++) {
        struct model_message *x = &m->messages[i];
        if (x->queue == queue && x->state == STATE_PENDING && !x->waiting &&
            (!best || x->priority > best->priority))
            best = x;
    }
    return best;
}

static void claim(struct run *r, struct outcome *ret) {
    struct model *m = r->m;
    const struct op *op = r->op;
    struct model_queue *q = &m->queues[op->queue];
    size_t bytes = 0;
    while (q->exists && ret->n < op->claim.count) {
        struct model_message *x = first_ready(m, op->queue);
        if (!x)
            break;
        bool is_over = x->expires_at && x->expires_at <= op->now;
        if (!is_over && ret->n > 0 && bytes + x->payload_bytes > op->claim.bytes_max)
            break;
        if (op->full) { /* it may have stopped anywhere */
            struct message_view v;
            bool done = r->look && engine_has(r, x, &v) && v.state != STATE_PENDING;
            if (!remember(r, done))
                break;
        }
        if (!next_frame(r))
            return;
        if (is_over) {
            expire(m, x, op->now);
            continue;
        }
        bytes += x->payload_bytes;
        x->state = STATE_PROCESSING;
        x->is_retry = false;
        x->deliveries++;
        x->next_at = op->now + (op->claim.lease_ms ? op->claim.lease_ms : q->policy.lease_ms);
        q->deliveries++;
        tell(m, x, EVENT_CLAIMED, op->now, 0, op->worker);
        touch(x, op->now);
        ret->ids[ret->n++] = x->id;
    }
    if (op->error == ERR_DISK_FULL)
        ret->error = ret->n == 0 ? ERR_DISK_FULL : OK;
}

static void succeed(struct model *m, struct model_message *x, int64_t now) {
    x->state = STATE_SUCCEEDED;
    x->next_at = 0;
    m->queues[x->queue].ledger.succeeded++;
    tell(m, x, EVENT_SUCCEEDED, now, 0, 0);
    /* Of a success at the first attempt nothing is kept but that. */
    struct model_story *story = &m->stories[x->story];
    bool is_plain = true;
    for (size_t i = 0; i + 1 < story->n && i < MODEL_STORY; i++)
        is_plain = is_plain && story->lines[i].event == EVENT_CLAIMED;
    if (is_plain) {
        story->lines[0] = story->last;
        story->n = 1;
    }
    touch(x, now);
}

static void settle_one(struct run *r, struct model_message *x, const struct op_item *item) {
    int64_t now = r->op->now;
    switch (item->action) {
    case SETTLE_SUCCEED:
        succeed(r->m, x, now);
        return;
    case SETTLE_FAIL:
        fail(r, x, EVENT_FAILED, item->tag, item->permanent, item->delay_ms);
        return;
    case SETTLE_RELEASE:
        x->state = STATE_PENDING;
        x->next_at = item->delay_ms > 0 ? now + item->delay_ms : 0;
        tell(r->m, x, EVENT_RELEASED, now, 0, 0);
        break;
    case SETTLE_EXTEND:
        x->next_at =
            now + (item->lease_ms ? item->lease_ms : r->m->queues[x->queue].policy.lease_ms);
        break;
    }
    touch(x, now);
}

static void settle(struct run *r, struct outcome *ret) {
    const struct op *op = r->op;
    if (!r->m->queues[op->queue].exists || op->error == ERR_DISK_FULL) {
        ret->error = r->m->queues[op->queue].exists ? ERR_DISK_FULL : ERR_NO_QUEUE;
        return;
    }
    for (size_t i = 0; i < op->n; i++) {
        const struct op_item *item = &op->items[i];
        struct model_message *x = model_find(r->m, item->id);
        if (!x || x->queue != op->queue)
            ret->results[i] = ERR_NO_MESSAGE;
        else if (item->lease && item->lease != x->deliveries)
            ret->results[i] = ERR_STALE_LEASE;
        else if (x->state != STATE_PROCESSING)
            ret->results[i] = item->lease ? ERR_STALE_LEASE : ERR_WRONG_STATE;
        else if (next_frame(r))
            settle_one(r, x, item);
        else
            return;
    }
}

static void replay(struct run *r, struct outcome *ret) {
    const struct op *op = r->op;
    struct model_message *x = model_find(r->m, op->id);
    if (!r->m->queues[op->queue].exists)
        ret->error = ERR_NO_QUEUE;
    else if (!x || x->queue != op->queue)
        ret->error = ERR_NO_MESSAGE;
    else if (x->state != STATE_DEAD)
        ret->error = ERR_WRONG_STATE;
    else if (op->error == ERR_DISK_FULL)
        ret->error = ERR_DISK_FULL;
    if (ret->error != OK || !next_frame(r))
        return;
    x->state = STATE_PENDING;
    x->reason = REASON_NONE;
    x->retry_count = 0;
    x->next_at = x->died_at = 0;
    x->expires_at = x->ttl_ms ? op->now + x->ttl_ms : 0;
    x->has_error = false;
    tell(r->m, x, EVENT_REPLAYED, op->now, 0, 0);
    touch(x, op->now);
}

/* -- queues ----------------------------------------------------------------------------------------------------------------- */

static void queue_put(struct run *r, struct outcome *ret) {
    const struct op *op = r->op;
    struct model_queue *q = &r->m->queues[op->queue];
    ret->created = !q->exists;
    if (op->error == ERR_DISK_FULL) {
        ret->error = ERR_DISK_FULL;
        return;
    }
    if (q->exists && (!op->has_policy || policy_equal(&q->policy, &op->policy)))
        return;
    if (!next_frame(r))
        return;
    if (!q->exists)
        queue_make(r->m, op->queue, op->now, op->has_policy ? &op->policy : NULL);
    q->policy = op->has_policy ? op->policy : policy_default();
}

static void queue_delete(struct run *r, struct outcome *ret) {
    struct model *m = r->m;
    const struct op *op = r->op;
    struct model_queue *q = &m->queues[op->queue];
    uint64_t unfinished = model_unfinished(m, op->queue) + count_of(m, op->queue, STATE_DEAD);
    if (!q->exists)
        ret->error = ERR_NO_QUEUE;
    else if (unfinished && !op->discard)
        ret->error = ERR_NOT_EMPTY;
    else if (op->error == ERR_DISK_FULL)
        ret->error = ERR_DISK_FULL;
    if (ret->error != OK || !next_frame(r))
        return;
    m->dropping.accepted += q->ledger.accepted;
    m->dropping.succeeded += q->ledger.succeeded;
    m->dropping.discarded += q->ledger.discarded + unfinished;
    m->dropping.expired += q->ledger.expired;
    for (size_t i = m->message_count; i > 0; i--)
        if (m->messages[i - 1].queue == op->queue) {
            message_remove(m, i - 1);
            m->dropping_messages++;
        }
    size_t kept = 0;
    for (size_t i = 0; i < m->key_count; i++)
        if (m->keys[i].queue != op->queue)
            m->keys[kept++] = m->keys[i];
    m->key_count = kept;
    q->exists = false;
}

/* -- time --------------------------------------------------------------------------------------------------------------------- */

/* With a full disk, what is due may have been left: the engine says. */
static bool was_done(struct run *r, const struct model_message *x) {
    if (!r->op->full)
        return true;
    struct message_view v;
    bool done = r->look && (!engine_has(r, x, &v) || v.state != x->state ||
                            v.deliveries != x->deliveries || v.retry_count != x->retry_count);
    return remember(r, done);
}

/* Of a retry the engine does not show it: the next tick that ends well decides. */
static bool wait_is_over(struct run *r, const struct model_message *x) {
    if (!r->op->full || x->is_retry)
        return true;
    struct message_view v;
    return remember(r, r->look && engine_has(r, x, &v) && v.available_at == 0);
}

/* True when the message is gone. */
static bool message_due(struct run *r, struct model_message *x) {
    int64_t now = r->op->now;
    if (x->state == STATE_PROCESSING && x->next_at <= now && was_done(r, x))
        fail(r, x, EVENT_LEASE_EXPIRED, MODEL_LEASE_TAG, false, -1);
    if (x->state == STATE_PENDING && x->expires_at && x->expires_at <= now && was_done(r, x))
        expire(r->m, x, now);
    if (x->state == STATE_PENDING && x->waiting && x->next_at <= now && wait_is_over(r, x))
        x->waiting = false;
    if (x->kept && x->idempotency_until <= now)
        x->kept = false;
    if (x->state == STATE_DEAD && x->next_at && x->next_at <= now && x->idempotency_until <= now &&
        was_done(r, x)) {
        r->m->queues[x->queue].ledger.discarded++;
        r->m->queues[x->queue].ledger.expired++;
        return true;
    }
    return false;
}

/* Which succeeded messages retention let go: each must be allowed to go. */
static void retention(struct run *r, int queue) {
    struct model *m = r->m;
    const struct policy *p = &m->queues[queue].policy;
    uint64_t held = count_of(m, queue, STATE_SUCCEEDED);
    uint64_t over = held > p->keep_succeeded_max ? held - p->keep_succeeded_max : 0;
    for (size_t i = 0; i < m->message_count;) {
        struct model_message *x = &m->messages[i];
        struct message_view v;
        if (x->queue != queue || x->state != STATE_SUCCEEDED || x->kept ||
            !remember(r, r->look && !engine_has(r, x, &v))) {
            i++;
            continue;
        }
        bool by_time = x->updated_at + p->keep_succeeded_ms <= r->op->now;
        if (!by_time && over == 0)
            complain(r, "message %llu went before its retention was over",
                     (unsigned long long)x->id);
        over -= !by_time && over > 0;
        message_remove(m, i);
    }
}

/* And none may be left that had to go. */
static void retention_done(struct run *r, int queue) {
    const struct model *m = r->m;
    const struct policy *p = &m->queues[queue].policy;
    uint64_t held = count_of(m, queue, STATE_SUCCEEDED);
    for (size_t i = 0; i < m->message_count; i++) {
        const struct model_message *x = &m->messages[i];
        if (x->queue != queue || x->state != STATE_SUCCEEDED || x->kept)
            continue;
        if (held > p->keep_succeeded_max || x->updated_at + p->keep_succeeded_ms <= r->op->now)
            complain(r, "message %llu is kept longer than its retention",
                     (unsigned long long)x->id);
    }
}

static void tick(struct run *r) {
    struct model *m = r->m;
    for (size_t i = 0; i < m->message_count;)
        if (message_due(r, &m->messages[i]))
            message_remove(m, i);
        else
            i++;
    for (int q = 0; q < MODEL_QUEUES; q++)
        if (m->queues[q].exists)
            retention(r, q);
    if (r->op->full)
        return;
    for (int q = 0; q < MODEL_QUEUES; q++)
        if (m->queues[q].exists)
            retention_done(r, q);
    m->deleted.accepted += m->dropping.accepted;
    m->deleted.succeeded += m->dropping.succeeded;
    m->deleted.discarded += m->dropping.discarded;
    m->deleted.expired += m->dropping.expired;
    m->dropping = (struct ledger){0};
    m->dropping_messages = 0;
}

/* -- the whole ------------------------------------------------------------------------------------------------------------------- */

void model_apply(struct model *m, struct op *op, struct engine *look, struct outcome *ret,
                 char *wrong, size_t wrong_bytes) {
    struct run r = {m, op, look, op->limit, wrong, wrong_bytes};
    wrong[0] = '\0';
    op->seen_next = 0;
    if (look)
        op->seen_count = 0;
    else
        memset(ret->duplicates, 0, sizeof ret->duplicates);
    ret->error = OK;
    ret->n = 0;
    ret->created = false;
    memset(ret->results, 0, sizeof ret->results);
    switch (op->kind) {
    case OP_ENQUEUE:
        enqueue(&r, ret);
        break;
    case OP_CLAIM:
        claim(&r, ret);
        break;
    case OP_SETTLE:
        settle(&r, ret);
        break;
    case OP_REPLAY:
        replay(&r, ret);
        break;
    case OP_QUEUE_PUT:
        queue_put(&r, ret);
        break;
    case OP_QUEUE_DELETE:
        queue_delete(&r, ret);
        break;
    case OP_WATCH:
        ret->error = op->error == ERR_DISK_FULL ? ERR_DISK_FULL : OK;
        if (op->error == OK && !m->queues[op->queue].exists && next_frame(&r))
            queue_make(m, op->queue, op->now, NULL);
        break;
    case OP_TICK:
        tick(&r);
        break;
    }
    if (op->now > m->latest)
        m->latest = op->now;
}

void model_restart(struct model *m) {
    for (size_t i = 0; i < m->message_count; i++)
        touch(&m->messages[i], m->messages[i].updated_at);
}
