/* What people and jobs do with letters, as the broker's model has it. */
#include "sim/broker_int.h"

/* -- one letter -------------------------------------------------------------------------------------------- */

static enum err find_letter(struct broker_run *r, struct broker_queue **ret_queue,
                            struct broker_message **ret) {
    *ret_queue = broker_queue_at(r->b, r->op->name);
    *ret = broker_find(r->b, r->op->id);
    if (!*ret_queue)
        return ERR_NO_QUEUE;
    if (!*ret || (*ret)->queue != (*ret_queue)->number)
        return ERR_NO_MESSAGE;
    return (*ret)->state == STATE_DEAD ? OK : ERR_WRONG_STATE;
}

static enum err may_go_again(const struct broker_run *r, const struct broker_queue *q,
                             const struct broker_message *x) {
    if (r->op->force)
        return OK;
    return x->edited_to                                         ? ERR_EDITED
           : x->redrive_count >= q->native.policy.redrive_limit ? ERR_REDRIVE_LIMIT
                                                                : OK;
}

static void go_again(struct broker_run *r, struct broker_message *x, bool clear_deaths) {
    x->state = STATE_PENDING;
    x->retry_count = 0;
    x->next_at = 0;
    x->expires_at = x->ttl_ms ? r->op->now + x->ttl_ms : 0;
    x->deliveries_before = x->deliveries;
    x->redrive_count++;
    x->remains_in = 0;
    if (clear_deaths)
        x->envelope.death_count = 0;
    broker_touch(r, x);
}

enum err broker_replay(struct broker_run *r) {
    struct broker_queue *q;
    struct broker_message *x;
    enum err e = find_letter(r, &q, &x);
    if (e != OK)
        return e;
    e = may_go_again(r, q, x);
    if (e != OK)
        return e;
    if (r->op->error == ERR_DISK_FULL)
        return ERR_DISK_FULL;
    if (!broker_frame(r))
        return OK;
    q->redriven++;
    go_again(r, x, r->op->clear_deaths);
    broker_relieve(r);
    return OK;
}

/* A changed copy, in its queue; the letter stays dead. */
static void put_edited(struct broker_run *r, struct broker_queue *q, uint64_t id) {
    const struct broker_op *op = r->op;
    struct broker_message *copy = broker_put(r, q), *x = broker_find(r->b, id);
    uint64_t new_id = copy->id;
    x->edited_to = new_id;
    x->remains_in = 0;
    broker_touch(r, x);
    *copy = *x;
    copy->id = copy->arrival = new_id;
    copy->parent = id;
    copy->edited_to = 0;
    copy->state = STATE_PENDING;
    copy->retry_count = 0;
    copy->deliveries = copy->deliveries_before = 0;
    copy->redrive_count++;
    copy->created_at = op->now;
    copy->expires_at = copy->ttl_ms ? op->now + copy->ttl_ms : 0;
    copy->has_origin = false;
    copy->trail.n = 0;
    copy->moves = 0;
    if (op->has_payload) {
        copy->tag = op->tag;
        copy->bytes = op->bytes;
    }
    if (op->has_headers) { /* its properties told the old ones */
        copy->headers = op->headers;
        copy->envelope.priority = 0;
    }
    r->ret->ids[0] = new_id;
}

enum err broker_edit(struct broker_run *r) {
    struct broker_queue *q;
    struct broker_message *x;
    enum err e = find_letter(r, &q, &x);
    if (e == OK)
        e = may_go_again(r, q, x);
    if (e == OK && !broker_fits(r->b, q, 1))
        e = ERR_QUEUE_FULL;
    if (e == OK && r->op->error == ERR_DISK_FULL)
        e = ERR_DISK_FULL;
    if (e == OK && broker_frame(r)) {
        put_edited(r, q, x->id);
        broker_relieve(r);
    }
    return e;
}

enum err broker_discard(struct broker_run *r) {
    struct broker_queue *q;
    struct broker_message *x;
    enum err e = find_letter(r, &q, &x);
    if (e == OK && r->op->error == ERR_DISK_FULL)
        e = ERR_DISK_FULL;
    if (e == OK && broker_frame(r)) {
        q->ledger.discarded++;
        broker_remove(r->b, x);
    }
    return e;
}

/* -- jobs -------------------------------------------------------------------------------------------------- */

/* A redrive of all letters of a queue that are dead now, as fast as it can. */
enum err broker_job_start(struct broker_run *r) {
    struct broker *b = r->b;
    const struct broker_op *op = r->op;
    const struct broker_queue *q = broker_queue_at(b, op->name);
    const struct broker_queue *to = op->has_to ? broker_queue_at(b, op->to) : NULL;
    if (!q || (op->has_to && !to))
        return ERR_NO_QUEUE;
    if (op->error != OK)
        return op->error == ERR_TOO_MANY_JOBS ? ERR_TOO_MANY_JOBS : ERR_DISK_FULL;
    if (!broker_frame(r))
        return OK;
    struct broker_job *j = &b->jobs[b->job_count++ % BROKER_JOBS];
    *j = (struct broker_job){.number = b->job_count,
                             .has_to = op->has_to && to != q,
                             .to = to ? to->number : 0,
                             .clear_deaths = op->clear_deaths};
    r->ret->ids[0] = j->number;
    for (size_t i = 0; i < b->message_count; i++) {
        struct broker_message *x = &b->messages[i];
        if (x->queue == q->number && x->state == STATE_DEAD && !x->remains_in)
            x->remains_in = j->number;
    }
    return OK;
}

static struct broker_job *job_of(struct broker *b, const struct broker_message *x) {
    for (size_t i = 0; i < BROKER_JOBS; i++)
        if (b->jobs[i].number == x->remains_in)
            return &b->jobs[i];
    return NULL;
}

/* Many letters that stay in their queue may go in one frame. */
static bool is_in_next_frame(struct broker_run *r, const struct doing *d) {
    if (d->frame == r->frame_sent)
        return true;
    r->frame_sent = d->frame;
    return broker_frame(r);
}

void broker_send(struct broker_run *r, struct doing *d) {
    struct broker *b = r->b;
    struct broker_message *x = broker_find(b, d->id);
    const struct broker_job *j = x && x->remains_in ? job_of(b, x) : NULL;
    struct broker_queue *q = x ? broker_queue_of(b, x->queue) : NULL;
    struct broker_queue *to = j && j->has_to ? broker_queue_of(b, j->to) : q;
    if (!j || !to || x->state != STATE_DEAD) {
        broker_object(r, "no job should send message %llu", (unsigned long long)d->id);
        return;
    }
    d->is_taken = true;
    if (!is_in_next_frame(r, d))
        return;
    if (to != q) {
        q->ledger.moved_out++;
        to->ledger.moved_in++;
        broker_take_origin(x, q->name, to->name);
        x->queue = to->number;
    }
    to->redriven++;
    x->behind = true;
    x->sent_by = j->number;
    go_again(r, x, j->clear_deaths);
    if (to != q) { /* its settings hold, too */
        broker_set_ttl(r, x, x->ttl_ms ? x->ttl_ms : -1);
        x->priority = broker_priority_there(b, to, x->priority);
    }
}

void broker_jobs_are_done(struct broker_run *r) {
    for (size_t i = 0; i < r->b->message_count; i++) {
        const struct broker_message *x = &r->b->messages[i];
        const struct broker_job *j = x->remains_in ? job_of(r->b, x) : NULL;
        /* One whose target is gone has stopped. */
        if (j && (!j->has_to || broker_queue_of(r->b, j->to)))
            broker_object(r, "message %llu remains in a job", (unsigned long long)x->id);
    }
}
