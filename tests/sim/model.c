/* Queues, producing and consuming, as the model has them. */
#include "sim/model_int.h"

#include "base/mem.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- operations and what they remember ----------------------------------------------------------- */

void op_release(struct op *op) {
    free(op->seen);
    free(op->ended);
    op->seen = op->ended = NULL;
    op->seen_count = op->seen_cap = 0;
}

void object(struct run *r, const char *format, ...) {
    if (r->wrong[0])
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(r->wrong, r->wrong_bytes, format, args);
    va_end(args);
}

uint64_t remember(struct run *r, uint64_t found) {
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

bool next_frame(struct run *r) {
    if (r->frames_left == 0)
        return false;
    r->frames_left--;
    return true;
}

bool engine_has(struct run *r, const struct model_message *x, struct message_view *ret) {
    return engine_message(r->look, model_queue_name(x->queue), x->id, ret) == OK;
}

/* -- the parts of the model ---------------------------------------------------------------------- */

void model_init(struct model *m) {
    memset(m, 0, sizeof *m);
    m->next_id = m->next_serial = m->next_dead_seq = 1;
    for (size_t i = 0; i < MODEL_MESSAGES; i++)
        m->free_stories[m->free_story_count++] = i;
}

void model_copy(struct model *to, const struct model *from) {
    memcpy(to, from, offsetof(struct model, messages));
    memcpy(to->messages, from->messages, from->message_count * sizeof *from->messages);
    memcpy(to->keys, from->keys, from->key_count * sizeof *from->keys);
    memcpy(to->groups, from->groups, from->group_count * sizeof *from->groups);
    memcpy(to->jobs, from->jobs, from->job_count * sizeof *from->jobs);
    memcpy(to->audit, from->audit, sizeof from->audit);
    memcpy(to->free_stories, from->free_stories, sizeof from->free_stories);
    to->free_story_count = from->free_story_count;
    for (size_t i = 0; i < from->message_count; i++)
        to->stories[from->messages[i].story] = from->stories[from->messages[i].story];
}

struct model_message *model_find(struct model *m, uint64_t id) {
    for (size_t i = 0; i < m->message_count; i++)
        if (m->messages[i].id == id)
            return &m->messages[i];
    return NULL;
}

uint64_t count_of(const struct model *m, int queue, enum state state) {
    uint64_t n = 0;
    for (size_t i = 0; i < m->message_count; i++)
        n += (queue < 0 || m->messages[i].queue == queue) && m->messages[i].state == state;
    return n;
}

uint64_t model_unfinished(const struct model *m, int queue) {
    return count_of(m, queue, STATE_PENDING) + count_of(m, queue, STATE_PROCESSING);
}

uint64_t model_dead(const struct model *m, int queue) {
    return count_of(m, queue, STATE_DEAD);
}

struct model_message *message_put(struct model *m, uint64_t id, int queue, int64_t now) {
    assert(m->message_count < MODEL_MESSAGES);
    size_t i = m->message_count++;
    while (i > 0 && m->messages[i - 1].id > id)
        i--;
    memmove(&m->messages[i + 1], &m->messages[i], (m->message_count - 1 - i) * sizeof *m->messages);
    m->messages[i] = (struct model_message){.id = id,
                                            .queue = queue,
                                            .state = STATE_PENDING,
                                            .created_at = now,
                                            .origin = -1,
                                            .story = m->free_stories[--m->free_story_count]};
    m->stories[m->messages[i].story].n = 0;
    if (id >= m->next_id)
        m->next_id = id + 1;
    return &m->messages[i];
}

void message_remove(struct model *m, size_t i) {
    m->free_stories[m->free_story_count++] = m->messages[i].story;
    memmove(&m->messages[i], &m->messages[i + 1], (--m->message_count - i) * sizeof *m->messages);
}

void tell(struct model *m, const struct model_message *x, int64_t now, struct model_line line) {
    struct model_story *s = &m->stories[x->story];
    line.attempt = x->deliveries;
    line.at = now;
    line.next_at = x->state == STATE_PENDING || x->state == STATE_PROCESSING ? x->next_at : 0;
    s->last = line;
    if (s->n < MODEL_STORY)
        s->lines[s->n] = line;
    s->n++;
}

void touch(struct model_message *x, int64_t now) {
    x->updated_at = now;
    x->waiting = x->state == STATE_PENDING && x->next_at > now;
    x->kept = x->state == STATE_SUCCEEDED && x->idempotency_until > now;
}

void queue_make(struct model *m, int queue, int64_t now, const struct policy *policy) {
    m->queues[queue] = (struct model_queue){.exists = true,
                                            .created_at = now,
                                            .serial = m->next_serial++,
                                            .policy = policy ? *policy : policy_default()};
}

void audit_add(struct model *m, const struct model_audit *entry) {
    m->audit[++m->audit_count % MODEL_AUDIT] = *entry;
}

/* -- producing ----------------------------------------------------------------------------------- */

/* The id of the first message with this key, 0 = none. When the clock was set back, the window may or
 * may not be over: the engine says. */
static uint64_t key_known(struct run *r, int queue, uint8_t key, bool engine_says) {
    const struct model_key *newest = NULL;
    for (size_t i = 0; i < r->m->key_count; i++)
        if (r->m->keys[i].queue == queue && r->m->keys[i].key == key)
            newest = &r->m->keys[i];
    if (!newest || newest->until <= r->op->now)
        return 0;
    const struct model_message *x = model_find(r->m, newest->id);
    if (!x || !x->idempotency_until) /* gone; or gone, and a letter with its id was imported */
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
    int64_t now = r->op->now;
    const struct policy *p = &m->queues[r->op->queue].policy;
    int64_t delay_ms = item->delay_ms < 0 ? p->delay_ms : item->delay_ms;
    struct model_message *x = message_put(m, m->next_id, r->op->queue, now);
    x->max_retries = item->max_retries ? item->max_retries : p->max_retries;
    x->priority = item->priority;
    x->next_at = delay_ms > 0 ? now + delay_ms : 0;
    x->ttl_ms = item->ttl_ms < 0 ? p->ttl_ms : item->ttl_ms;
    x->expires_at = x->ttl_ms ? now + x->ttl_ms : 0;
    x->tag = item->tag;
    x->key = item->key;
    x->payload = item->payload;
    x->headers = item->headers;
    stand_in_line(m, x);
    touch(x, now);
    m->queues[x->queue].ledger.accepted++;
    return x;
}

static uint64_t bytes_of(const struct model *m, int queue) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < m->message_count; i++) {
        const struct model_message *x = &m->messages[i];
        if (x->queue == queue && (x->state == STATE_PENDING || x->state == STATE_PROCESSING))
            bytes += x->payload.bytes;
    }
    return bytes;
}

bool queue_is_full(const struct model *m, int queue, uint64_t messages, uint64_t bytes) {
    const struct policy *p = &m->queues[queue].policy;
    return (p->messages_max && model_unfinished(m, queue) + messages > p->messages_max) ||
           (p->bytes_max && bytes_of(m, queue) + bytes > p->bytes_max);
}

/* Only what is new can be in the way of a limit. */
static bool is_over_limit(struct run *r, const struct outcome *ret) {
    const struct op *op = r->op;
    uint64_t messages = 0, bytes = 0;
    for (size_t i = 0; i < op->n; i++) {
        const struct op_item *item = &op->items[i];
        if (item->idempotency && key_known(r, op->queue, item->idempotency, ret->duplicates[i]))
            continue;
        messages++;
        bytes += item->payload.bytes;
    }
    return messages > 0 && r->m->queues[op->queue].policy.overflow == OVERFLOW_REJECT &&
           queue_is_full(r->m, op->queue, messages, bytes);
}

/* Accepted, and dead at once: it never stood in line. */
static void overflow(struct run *r, struct model_message *x) {
    x->next_at = 0;
    x->is_ordered = false;
    struct message_view v;
    bool is_alone = r->op->n == 1;
    int to = is_alone ? target_with_room(r, x, REASON_MAX_LENGTH)
                      : target_of(r->m, x, REASON_MAX_LENGTH);
    /* All of a batch goes on in one frame, or stays when that would not hold it: the engine says. */
    if (to >= 0 && !is_alone && remember(r, r->look && engine_has(r, x, &v)))
        to = -1;
    die(r, x, REASON_MAX_LENGTH, 0, to < 0);
    touch(x, r->op->now);
    if (to >= 0)
        dead_letter(r, x, to);
}

static void enqueue_one(struct run *r, size_t i, struct outcome *ret) {
    struct model *m = r->m;
    const struct op *op = r->op;
    const struct op_item *item = &op->items[i];
    bool said = remember(r, ret->duplicates[i]);
    uint64_t known = item->idempotency ? key_known(r, op->queue, item->idempotency, said) : 0;
    ret->duplicates[i] = known != 0;
    ret->ids[i] = known ? known : m->next_id;
    if (known)
        return;
    bool is_full = queue_is_full(m, op->queue, 1, item->payload.bytes);
    struct model_message *x = message_add(r, item);
    if (is_full && m->queues[op->queue].policy.overflow == OVERFLOW_DEAD)
        overflow(r, x);
    if (item->idempotency) {
        x->idempotency_until = op->now + m->queues[op->queue].policy.idempotency_window_ms;
        key_add(m, op->queue, item->idempotency, x->id, x->idempotency_until);
    }
}

static void enqueue(struct run *r, struct outcome *ret) {
    struct model *m = r->m;
    struct op *op = r->op;
    /* A full disk may show after the queue was made. */
    bool makes = !m->queues[op->queue].exists;
    if (op->error == ERR_DISK_FULL) {
        struct queue_view v;
        makes = makes && remember(r, r->look && engine_queue(r->look, model_queue_name(op->queue),
                                                             &v) == OK);
    }
    if (makes && next_frame(r))
        queue_make(m, op->queue, op->now, NULL);
    if (op->error == ERR_DISK_FULL)
        ret->error = ERR_DISK_FULL;
    else if (r->look ? is_over_limit(r, ret) : op->error == ERR_QUEUE_FULL)
        ret->error = ERR_QUEUE_FULL;
    if (ret->error != OK || !next_frame(r))
        return;
    for (size_t i = 0; i < op->n; i++)
        enqueue_one(r, i, ret);
    ret->n = op->n;
}

/* -- consuming ----------------------------------------------------------------------------------- */

static bool is_ready(const struct model *m, const struct model_message *x) {
    return x->state == STATE_PENDING && !x->waiting && model_standing(m, x) == GOES;
}

/* What a job sent goes behind all else. When retries have had their share, they go behind the others. */
static bool goes_before(const struct model_message *a, const struct model_message *b,
                        bool fresh_first) {
    bool a_behind = a->part == JOB_PART_OPEN, b_behind = b->part == JOB_PART_OPEN;
    if (a_behind != b_behind)
        return b_behind;
    bool a_again = a->retry_count > 0, b_again = b->retry_count > 0;
    if (fresh_first && !a_behind && a_again != b_again)
        return b_again;
    return a->priority > b->priority; /* else by id, as they stand */
}

static struct model_message *first_ready(struct model *m, int queue, int64_t now) {
    struct model_message *best = NULL;
    bool fresh_first = model_budget_is_spent(m, queue, now);
    for (size_t i = 0; i < m->message_count; i++) {
        struct model_message *x = &m->messages[i];
        if (x->queue == queue && (!best || goes_before(x, best, fresh_first)) && is_ready(m, x))
            best = x;
    }
    return best;
}

size_t count_ready(const struct model *m, int queue) {
    size_t n = 0;
    for (size_t i = 0; i < m->message_count; i++)
        n += m->messages[i].queue == queue && is_ready(m, &m->messages[i]);
    return n;
}

static void hand_out(struct run *r, struct model_message *x, bool in_company) {
    const struct op *op = r->op;
    struct model_queue *q = &r->m->queues[x->queue];
    x->state = STATE_PROCESSING;
    x->is_retry = false;
    x->in_company = in_company;
    x->deliveries++;
    q->alone_claims += x->is_alone;
    q->probes_out += q->breaker == BREAKER_HALF_OPEN;
    model_budget_note(r->m, x->queue, op->now, x->retry_count > 0);
    x->next_at = op->now + (op->claim.lease_ms ? op->claim.lease_ms : q->policy.lease_ms);
    x->worker = op->worker;
    x->version = op->version;
    q->deliveries++;
    tell(r->m, x, op->now,
         (struct model_line){.event = EVENT_CLAIMED, .worker = op->worker, .version = op->version});
    touch(x, op->now);
}

static void claim(struct run *r, struct outcome *ret) {
    struct model *m = r->m;
    const struct op *op = r->op;
    struct model_queue *q = &m->queues[op->queue];
    size_t bytes = 0;
    bool in_company = false, is_alone = false;
    if (q->exists && !model_breaker_due(r, op->queue))
        return;
    while (q->exists && !is_alone && !q->paused_at && ret->n < op->claim.count &&
           model_breaker_lets_go(m, op->queue, 1)) {
        struct model_message *x = first_ready(m, op->queue, op->now);
        if (!x)
            break;
        bool is_late = x->expires_at && x->expires_at <= op->now;
        bool is_over = is_late || is_at_delivery_limit(m, x);
        if (!is_over && ret->n > 0 &&
            (x->is_alone || bytes + x->payload.bytes > op->claim.bytes_max))
            break;
        if (op->full) { /* it may have stopped anywhere */
            struct message_view v;
            bool done = r->look && (!engine_has(r, x, &v) || v.state != STATE_PENDING);
            if (!remember(r, done))
                break;
        }
        if (!next_frame(r))
            return;
        if (is_over) {
            die_waiting(r, x, is_late ? REASON_EXPIRED : REASON_DELIVERY_LIMIT);
            continue;
        }
        bytes += x->payload.bytes;
        is_alone = x->is_alone;
        if (ret->n == 0)
            in_company = op->claim.count > 1 && count_ready(m, op->queue) > 1 && !is_alone &&
                         model_breaker_lets_go(m, op->queue, 2);
        hand_out(r, x, in_company);
        ret->ids[ret->n++] = x->id;
    }
    if (op->error == ERR_DISK_FULL)
        ret->error = ret->n == 0 ? ERR_DISK_FULL : OK;
}

static void succeed(struct run *r, struct model_message *x) {
    struct model *m = r->m;
    int64_t now = r->op->now;
    x->state = STATE_SUCCEEDED;
    x->is_alone = x->in_company = false;
    x->next_at = 0;
    x->group = 0; /* its outcome is known */
    struct model_queue *q = &m->queues[x->queue];
    q->ledger.succeeded++;
    q->redriven_succeeded += x->redrive_count > 0;
    struct job_counts *c = job_leave(m, x);
    if (c)
        c->succeeded++;
    tell(m, x, now, (struct model_line){.event = EVENT_SUCCEEDED});
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
    model_breaker_outcome(r, x->queue, true, 0);
}

static void settle_one(struct run *r, struct model_message *x, const struct op_item *item) {
    int64_t now = r->op->now;
    if (item->action == SETTLE_FAIL) {
        fail(r, x, EVENT_FAILED, item->tag, item->permanent, item->delay_ms);
        return;
    }
    if (!next_frame(r))
        return;
    switch (item->action) {
    case SETTLE_SUCCEED:
        succeed(r, x);
        return;
    case SETTLE_FAIL:
        return;
    case SETTLE_RELEASE:
        model_breaker_probe_back(r->m, x->queue);
        x->state = STATE_PENDING;
        x->in_company = false;
        x->next_at = item->delay_ms > 0 ? now + item->delay_ms : 0;
        tell(r->m, x, now, (struct model_line){.event = EVENT_RELEASED});
        break;
    case SETTLE_EXTEND:
        x->next_at =
            now + (item->lease_ms ? item->lease_ms : r->m->queues[x->queue].policy.lease_ms);
        break;
    case SETTLE_RETURN:
    case SETTLE_REJECT:
        assert(false && "not among the steps");
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
        else
            settle_one(r, x, item);
    }
}

/* -- queues -------------------------------------------------------------------------------------- */

static void audit_queue(struct run *r, enum audit_action action) {
    audit_add(r->m, &(struct model_audit){.at = r->op->now,
                                          .action = action,
                                          .queue = (int8_t)r->op->queue,
                                          .who = r->op->who});
}

/* Anything but what succeeded: with it, the order stays. */
static bool holds_something(const struct model *m, int queue) {
    return model_unfinished(m, queue) + model_dead(m, queue) + count_of(m, queue, STATE_DISCARDED) >
           0;
}

static void queue_put(struct run *r, struct outcome *ret) {
    const struct op *op = r->op;
    struct model_queue *q = &r->m->queues[op->queue];
    if (op->has_policy)
        ret->error = target_check(r->m, op->queue, &op->texts);
    if (ret->error != OK)
        return;
    ret->created = !q->exists;
    if (q->exists && (!op->has_policy || (policy_equal(&q->policy, &op->policy) &&
                                          is_same_texts(&q->texts, &op->texts))))
        return;
    if (q->exists && op->policy.order != q->policy.order && holds_something(r->m, op->queue))
        ret->error = ERR_NOT_EMPTY;
    else if (op->error == ERR_DISK_FULL)
        ret->error = ERR_DISK_FULL;
    if (ret->error != OK || !next_frame(r))
        return;
    audit_queue(r, q->exists ? AUDIT_QUEUE_CHANGED : AUDIT_QUEUE_CREATED);
    if (!q->exists)
        queue_make(r->m, op->queue, op->now, op->has_policy ? &op->policy : NULL);
    q->policy = op->has_policy ? op->policy : policy_default();
    q->texts = op->has_policy ? op->texts : (struct queue_texts){0};
}

static void queue_pause(struct run *r, struct outcome *ret) {
    const struct op *op = r->op;
    struct model_queue *q = &r->m->queues[op->queue];
    if (!q->exists)
        ret->error = ERR_NO_QUEUE;
    else if (op->paused || q->paused_at)
        ret->error = op->error == ERR_DISK_FULL ? ERR_DISK_FULL : OK;
    if (ret->error != OK || (!op->paused && !q->paused_at) || !next_frame(r))
        return;
    q->paused_at = !op->paused ? 0 : q->paused_at ? q->paused_at : op->now;
    q->paused_by = op->who;
    audit_queue(r, op->paused ? AUDIT_QUEUE_PAUSED : AUDIT_QUEUE_RESUMED);
}

static void forget_queue(struct model *m, int queue) {
    for (size_t i = m->message_count; i > 0; i--)
        if (m->messages[i - 1].queue == queue) {
            message_remove(m, i - 1);
            m->dropping_messages++;
        }
    size_t kept = 0;
    for (size_t i = 0; i < m->key_count; i++)
        if (m->keys[i].queue != queue)
            m->keys[kept++] = m->keys[i];
    m->key_count = kept;
    for (size_t i = 0; i < m->group_count; i++)
        if (m->groups[i].queue == queue)
            m->groups[i].exists = false;
    m->queues[queue].exists = false;
}

static void queue_delete(struct run *r, struct outcome *ret) {
    struct model *m = r->m;
    const struct op *op = r->op;
    struct model_queue *q = &m->queues[op->queue];
    uint64_t unfinished = model_unfinished(m, op->queue) + model_dead(m, op->queue);
    if (!q->exists)
        ret->error = ERR_NO_QUEUE;
    else if (unfinished && !op->discard)
        ret->error = ERR_NOT_EMPTY;
    else if (op->error == ERR_DISK_FULL)
        ret->error = ERR_DISK_FULL;
    if (ret->error != OK || !next_frame(r))
        return;
    m->dropping.accepted += q->ledger.accepted;
    m->dropping.moved_in += q->ledger.moved_in;
    m->dropping.succeeded += q->ledger.succeeded;
    m->dropping.discarded += q->ledger.discarded + unfinished;
    m->dropping.moved_out += q->ledger.moved_out;
    m->dropping.expired += q->ledger.expired;
    m->dropping.undiscarded += q->ledger.undiscarded;
    audit_queue(r, AUDIT_QUEUE_DELETED);
    forget_queue(m, op->queue);
}

/* -- the whole ----------------------------------------------------------------------------------- */

static void watch(struct run *r, struct outcome *ret) {
    const struct op *op = r->op;
    ret->error = op->error == ERR_DISK_FULL ? ERR_DISK_FULL : OK;
    if (op->error == OK && !r->m->queues[op->queue].exists && next_frame(r))
        queue_make(r->m, op->queue, op->now, NULL);
}

static void tick_whole(struct run *r, struct outcome *ret) {
    (void)ret;
    tick(r);
}

void model_apply(struct model *m, struct op *op, struct engine *look, struct outcome *ret,
                 char *wrong, size_t wrong_bytes) {
    static void (*const verbs[])(struct run * r, struct outcome * ret) = {
        [OP_ENQUEUE] = enqueue,
        [OP_CLAIM] = claim,
        [OP_SETTLE] = settle,
        [OP_REPLAY] = replay,
        [OP_EDIT] = edit,
        [OP_DISCARD] = discard_one,
        [OP_UNDISCARD] = undiscard,
        [OP_IMPORT] = import,
        [OP_GROUP] = change_group,
        [OP_JOB_START] = job_start,
        [OP_JOB_CHANGE] = job_change,
        [OP_QUEUE_PUT] = queue_put,
        [OP_QUEUE_PAUSE] = queue_pause,
        [OP_QUEUE_DELETE] = queue_delete,
        [OP_WATCH] = watch,
        [OP_TICK] = tick_whole,
    };
    struct run r = {m, op, look, op->limit, wrong, wrong_bytes, NULL};
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
    verbs[op->kind](&r, ret);
    if (op->now > m->latest)
        m->latest = op->now;
}

void model_restart(struct model *m) {
    for (size_t i = 0; i < m->message_count; i++)
        touch(&m->messages[i], m->messages[i].updated_at);
    for (size_t i = 0; i < m->job_count; i++)
        m->jobs[i].is_restarted = true;
    for (int i = 0; i < MODEL_QUEUES; i++) {
        struct model_queue *q = &m->queues[i];
        memset(&q->outcomes, 0, sizeof q->outcomes);
        memset(&q->claims, 0, sizeof q->claims);
        q->probes_out = q->probes_good = 0;
    }
}
