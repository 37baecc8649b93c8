/* Dead letters and their cause groups, as the model has them: dying, and what people do. */
#include "sim/model_int.h"

#include "base/limits.h"
#include "model/fingerprint.h"

#include <assert.h>
#include <string.h>

/* -- cause groups ---------------------------------------------------------------------------------- */

/* Letters that name it: dead, on their way again, or discarded. */
static uint64_t members(const struct model *m, size_t group) {
    uint64_t n = 0;
    for (size_t i = 0; i < m->message_count; i++)
        n += m->messages[i].group == group + 1;
    return n;
}

static struct failure_facts facts_of(const struct model_death *d) {
    struct failure_facts f = {.queue = model_queue_name(d->queue), .reason = d->reason};
    if (d->has_error) {
        f.fingerprint = span_cut_utf8(model_fingerprint(d->error_tag), LIMIT_FINGERPRINT);
        f.error_class = error_class_kept(d->error_tag);
        f.error = error_kept(d->error_tag);
        f.detail = detail_kept(d->error_tag);
    }
    return f;
}

static size_t group_find(const struct model *m, int queue, uint64_t key) {
    size_t i = 0;
    while (i < m->group_count &&
           (!m->groups[i].exists || m->groups[i].key != key || m->groups[i].queue != queue))
        i++;
    return i;
}

static size_t group_make(struct run *r, const struct model_death *d, uint64_t key) {
    struct model *m = r->m;
    size_t i = 0;
    while (i < m->group_count && m->groups[i].exists)
        i++;
    assert(i < MODEL_GROUPS);
    if (i == m->group_count)
        m->group_count++;
    m->groups[i] = (struct model_group){.exists = true,
                                        .queue = d->queue,
                                        .key = key,
                                        .reason = d->reason,
                                        .has_error = d->has_error,
                                        .error_tag = d->error_tag,
                                        .state_at = r->op->now};
    return i;
}

/* Another letter comes to a group that was done with: it is open again. When letters left it in the
 * same tick, the engine says whether the last one went before. */
static void reopen(struct run *r, size_t group) {
    struct model_group *g = &r->m->groups[group];
    int64_t now = r->op->now;
    bool is_resolved = g->state == GROUP_RESOLVED, is_empty = members(r->m, group) == 0;
    if (!is_resolved && is_empty && r->tick && r->tick->group_left[group]) {
        struct group_view v;
        is_empty = remember(r, r->look && engine_group(r->look, now, g->key, &v) == OK &&
                                   v.regressed_at == now);
    }
    if (!is_resolved && !is_empty)
        return;
    g->state = GROUP_OPEN;
    g->state_at = g->regressed_at = now;
    g->quiet_ms = now > g->last_seen ? now - g->last_seen : 0;
}

/* Counts one more in a window of `size` buckets that end with the newest. */
static void count_in(struct model_bucket *buckets, size_t *count, size_t size, int64_t number) {
    int64_t newest = number;
    for (size_t i = 0; i < *count; i++)
        if (buckets[i].number > newest)
            newest = buckets[i].number;
    if (number <= newest - (int64_t)size)
        return;
    size_t kept = 0;
    bool is_new = true;
    for (size_t i = 0; i < *count; i++) {
        struct model_bucket b = buckets[i];
        if (b.number <= newest - (int64_t)size)
            continue;
        is_new = is_new && b.number != number;
        b.deaths += b.number == number;
        buckets[kept++] = b;
    }
    if (is_new)
        buckets[kept++] = (struct model_bucket){number, 1};
    *count = kept;
}

static void count_version(struct model_group *g, uint8_t version) {
    size_t i = 0;
    while (i < g->version_count && g->versions[i] != version)
        i++;
    if (i == g->version_count)
        g->versions[g->version_count++] = version;
    g->version_total[i]++;
}

/* One that moves on is counted, and leaves its group as it was. */
void group_join(struct run *r, const struct model_death *d) {
    struct model *m = r->m;
    struct failure_facts facts = facts_of(d);
    uint64_t key = fingerprint_v1(&facts);
    size_t i = group_find(m, d->queue, key);
    if (i == m->group_count) {
        i = group_make(r, d, key);
        m->groups[i].is_explicit = facts.fingerprint.n > 0;
    } else if (d->stays) {
        reopen(r, i);
    }
    struct model_group *g = &m->groups[i];
    model_find(m, d->id)->group = d->stays ? i + 1 : 0;
    g->total++;
    if (d->died_at > g->last_seen)
        g->last_seen = d->died_at;
    if (!g->first_seen || d->died_at < g->first_seen)
        g->first_seen = d->died_at;
    if (d->version)
        count_version(g, d->version);
    count_in(g->minutes, &g->minute_count, MODEL_MINUTES, d->died_at / 60000);
    count_in(g->hours, &g->hour_count, MODEL_HOURS, d->died_at / 3600000);
}

/* -- dying ------------------------------------------------------------------------------------------- */

static struct model_death death_of(const struct model_message *x, bool stays) {
    return (struct model_death){.id = x->id,
                                .queue = x->queue,
                                .reason = x->reason,
                                .stays = stays,
                                .has_error = x->has_error,
                                .error_tag = x->error_tag,
                                .version = x->death_version,
                                .died_at = x->died_at};
}

void die(struct run *r, struct model_message *x, enum reason reason, uint8_t version, bool stays) {
    struct model_queue *q = &r->m->queues[x->queue];
    x->state = STATE_DEAD;
    x->reason = reason;
    x->is_retry = x->is_alone = x->in_company = false;
    x->died_at = r->op->now;
    x->next_at = 0;
    x->death_version = version;
    q->deaths_by[reason]++;
    q->redriven_died += x->redrive_count > 0;
    struct job_counts *c = job_leave(r->m, x);
    if (c)
        c->died_again++;
    struct model_death d = death_of(x, stays);
    if (!r->tick) {
        x->dead_seq = r->m->next_dead_seq++;
        group_join(r, &d);
        return;
    }
    struct looked l = {0};
    if (r->look)
        l = look_inside(r->look, x->id, 0, EVENT_NONE);
    if (r->look && !l.position)
        object(r, "message %llu should have died", (unsigned long long)x->id);
    d.position = remember(r, l.position);
    r->tick->deaths[r->tick->death_count++] = d;
}

/* -- one letter ---------------------------------------------------------------------------------------- */

static void audit_letter(struct run *r, enum audit_action action, const struct model_message *x) {
    audit_add(r->m, &(struct model_audit){.at = r->op->now,
                                          .action = action,
                                          .count = 1,
                                          .target = x->id,
                                          .queue = (int8_t)x->queue,
                                          .who = r->op->who});
}

/* The message of the operation in that state, or an error. */
static struct model_message *letter_of(struct run *r, enum state state, struct outcome *ret) {
    struct model_message *x = model_find(r->m, r->op->id);
    if (!r->m->queues[r->op->queue].exists)
        ret->error = ERR_NO_QUEUE;
    else if (!x || x->queue != r->op->queue)
        ret->error = ERR_NO_MESSAGE;
    else if (x->state != state)
        ret->error = ERR_WRONG_STATE;
    return ret->error == OK ? x : NULL;
}

/* The same, that may be sent again. */
static struct model_message *letter_to_send(struct run *r, struct outcome *ret) {
    struct model_message *x = letter_of(r, STATE_DEAD, ret);
    if (!x || r->op->force)
        return x;
    if (x->edited_to)
        ret->error = ERR_EDITED;
    else if (x->redrive_count >= r->m->queues[x->queue].policy.redrive_limit)
        ret->error = ERR_REDRIVE_LIMIT;
    return ret->error == OK ? x : NULL;
}

/* Whether a full disk was in the way of what is allowed otherwise; else it is one frame. */
static bool goes_on(struct run *r, struct outcome *ret) {
    if (r->op->error == ERR_DISK_FULL)
        ret->error = ERR_DISK_FULL;
    return ret->error == OK && next_frame(r);
}

void go_again(const struct model *m, struct model_message *x, int64_t now) {
    x->state = STATE_PENDING;
    x->deliveries_before = x->deliveries;
    if (!x->is_ordered)
        stand_in_line(m, x); /* one that came in dead has never stood in line */
    x->reason = REASON_NONE;
    x->retry_count = 0;
    x->next_at = 0;
    x->expires_at = x->ttl_ms ? now + x->ttl_ms : 0;
    x->has_error = false;
    x->dead_seq = 0;
    x->redrive_count++;
    touch(x, now);
}

void replay(struct run *r, struct outcome *ret) {
    struct model_message *x = letter_to_send(r, ret);
    if (!x || !goes_on(r, ret))
        return;
    struct job_counts *c = job_leave(r->m, x);
    if (c)
        c->skipped[SKIP_REPLAYED]++;
    go_again(r->m, x, r->op->now);
    r->m->queues[x->queue].redriven++;
    tell(r->m, x, r->op->now,
         (struct model_line){.event = EVENT_REPLAYED, .actor = r->op->who.actor});
    audit_letter(r, AUDIT_REPLAY, x);
}

struct model_message *copy_put(struct model *m, const struct model_message *x, int queue,
                               int64_t now) {
    struct model_message of = *x; /* it may move */
    struct model_message *c = message_put(m, m->next_id, queue, now);
    c->max_retries = of.max_retries;
    c->priority = of.priority;
    c->ttl_ms = of.ttl_ms;
    c->expires_at = of.ttl_ms ? now + of.ttl_ms : 0;
    c->tag = of.tag;
    c->key = of.key;
    c->payload = of.payload;
    c->headers = of.headers;
    c->redrive_count = of.redrive_count + 1;
    c->parent = of.id;
    stand_in_line(m, c);
    if (of.is_ordered && queue == of.queue)
        c->rank = of.rank;
    touch(c, now);
    m->queues[queue].ledger.accepted++;
    return c;
}

void edit(struct run *r, struct outcome *ret) {
    struct model *m = r->m;
    const struct op *op = r->op;
    struct model_message *x = letter_to_send(r, ret);
    if (!x)
        return;
    const struct op_item *item = &op->items[0];
    uint32_t bytes = op->has_payload ? item->payload.bytes : x->payload.bytes;
    if (queue_is_full(m, x->queue, 1, bytes))
        ret->error = ERR_QUEUE_FULL;
    if (!goes_on(r, ret))
        return;
    struct model_message *copy = copy_put(m, x, x->queue, op->now);
    if (op->has_payload)
        copy->payload = item->payload;
    if (op->has_headers)
        copy->headers = item->headers;
    struct job_counts *c = job_leave(m, x);
    if (c)
        c->skipped[SKIP_EDITED]++;
    x->edited_to = copy->id;
    touch(x, op->now);
    tell(m, x, op->now,
         (struct model_line){.event = EVENT_EDITED, .actor = op->who.actor, .copy = copy->id});
    audit_letter(r, AUDIT_EDIT, x);
    ret->ids[0] = copy->id;
    ret->n = 1;
}

void discard(struct model *m, struct model_message *x, int64_t now, struct model_line line) {
    struct job_counts *c = job_leave(m, x);
    if (c)
        c->discarded++;
    x->state = STATE_DISCARDED;
    x->next_at = now + LIMIT_UNDISCARD_MS;
    x->why = line.why;
    m->queues[x->queue].ledger.discarded++;
    touch(x, now);
    tell(m, x, now, line);
}

void discard_one(struct run *r, struct outcome *ret) {
    struct model_message *x = letter_of(r, STATE_DEAD, ret);
    if (!x || !goes_on(r, ret))
        return;
    discard(r->m, x, r->op->now,
            (struct model_line){.event = EVENT_DISCARDED,
                                .actor = r->op->who.actor,
                                .why = r->op->why,
                                .reason = r->op->who.reason});
    audit_letter(r, AUDIT_DISCARD, x);
}

void undiscard(struct run *r, struct outcome *ret) {
    struct model_message *x = letter_of(r, STATE_DISCARDED, ret);
    if (!x || !goes_on(r, ret))
        return;
    x->state = STATE_DEAD;
    x->next_at = 0;
    x->why = DISCARD_NONE;
    x->dead_seq = r->m->next_dead_seq++;
    struct ledger *l = &r->m->queues[x->queue].ledger;
    l->discarded--;
    l->undiscarded++;
    touch(x, r->op->now);
    tell(r->m, x, r->op->now,
         (struct model_line){.event = EVENT_UNDISCARDED, .actor = r->op->who.actor});
    audit_letter(r, AUDIT_UNDISCARD, x);
}

/* -- letters from elsewhere ------------------------------------------------------------------------------ */

static enum imported look_at(struct run *r, size_t at, enum imported said) {
    const struct op *op = r->op;
    const struct op_item *item = &op->items[at];
    for (size_t i = 0; i < at; i++)
        if (op->items[i].id == item->id)
            return op->items[i].created_at == item->created_at ? IMPORT_KNOWN : IMPORT_ID_TAKEN;
    const struct model_message *x = model_find(r->m, item->id);
    if (x)
        return x->queue == op->queue && x->created_at == item->created_at ? IMPORT_KNOWN
                                                                          : IMPORT_ID_TAKEN;
    /* A message on its way out with its queue still has its id. */
    bool is_leaving = remember(r, said == IMPORT_ID_TAKEN) && r->m->dropping_messages > 0;
    return is_leaving ? IMPORT_ID_TAKEN : IMPORT_NEW;
}

static void tell_story(struct model *m, struct model_message *x, const struct op_item *item) {
    for (uint32_t i = 1; i <= item->failures; i++) {
        x->deliveries = i;
        int64_t at = item->created_at + 2 * i;
        tell(m, x, at,
             (struct model_line){
                 .event = EVENT_CLAIMED, .worker = item->worker, .version = item->version});
        tell(m, x, at + 1,
             (struct model_line){.event = EVENT_FAILED,
                                 .tag = item->tag,
                                 .worker = item->worker,
                                 .version = item->version});
        x->has_error = true;
        x->error_at = at + 1;
    }
    if (!item->replayed_by)
        return;
    tell(m, x, item->died_at,
         (struct model_line){.event = EVENT_REPLAYED, .actor = item->replayed_by});
    x->has_error = false;
}

static void import_one(struct run *r, const struct op_item *item) {
    struct model *m = r->m;
    struct model_message *x = message_put(m, item->id, r->op->queue, item->created_at);
    x->state = STATE_DEAD;
    x->reason = item->reason;
    x->retry_count = item->retry_count;
    x->max_retries = item->max_retries;
    x->priority = item->priority;
    x->ttl_ms = item->ttl_ms;
    x->tag = item->tag;
    x->key = item->key;
    x->payload = item->payload;
    x->headers = item->headers;
    x->died_at = item->died_at;
    x->first_failed_at = item->failures ? item->created_at + 3 : 0;
    x->redrive_count = item->redrive_count;
    x->origin = item->origin;
    x->error_tag = item->tag;
    tell_story(m, x, item);
    if (x->has_error) {
        x->error_worker = item->worker;
        x->error_version = x->death_version = item->version;
    }
    x->dead_seq = m->next_dead_seq++;
    touch(x, item->died_at);
    m->queues[x->queue].ledger.moved_in++;
    struct model_death d = death_of(x, true);
    group_join(r, &d);
}

void import(struct run *r, struct outcome *ret) {
    struct model *m = r->m;
    const struct op *op = r->op;
    uint64_t count = 0;
    enum imported results[MODEL_BATCH] = {0};
    for (size_t i = 0; i < op->n; i++) {
        results[i] = look_at(r, i, ret->imported[i]);
        count += results[i] == IMPORT_NEW;
        if (results[i] == IMPORT_ID_TAKEN)
            ret->error = ERR_INVALID;
    }
    memcpy(ret->imported, results, sizeof results);
    if (ret->error == OK && op->error == ERR_DISK_FULL)
        ret->error = ERR_DISK_FULL;
    if (ret->error != OK || op->dry_run || count == 0)
        return;
    if (!m->queues[op->queue].exists) {
        if (!next_frame(r))
            return;
        queue_make(m, op->queue, op->now, NULL);
    }
    if (!next_frame(r))
        return;
    for (size_t i = 0; i < op->n; i++)
        if (results[i] == IMPORT_NEW)
            import_one(r, &op->items[i]);
    audit_add(m, &(struct model_audit){.at = op->now,
                                       .action = AUDIT_IMPORT,
                                       .count = count,
                                       .queue = (int8_t)op->queue,
                                       .who = op->who});
}

/* -- what people say of a cause -------------------------------------------------------------------------- */

void change_group(struct run *r, struct outcome *ret) {
    struct model *m = r->m;
    const struct op *op = r->op;
    size_t i = 0;
    while (i < m->group_count && (!m->groups[i].exists || m->groups[i].key != op->group))
        i++;
    if (i == m->group_count)
        ret->error = ERR_NO_GROUP;
    if (ret->error != OK || !goes_on(r, ret))
        return;
    struct model_group *g = &m->groups[i];
    if (op->change.has_state) {
        g->state = op->change.state;
        g->state_at = op->now;
    }
    if (op->change.has_owner)
        g->owner = op->owner;
    if (op->change.has_note)
        g->note = op->note;
    uint64_t dead = 0;
    for (size_t k = 0; k < m->message_count; k++)
        dead += m->messages[k].group == i + 1 && m->messages[k].state == STATE_DEAD;
    audit_add(m, &(struct model_audit){.at = op->now,
                                       .action = AUDIT_GROUP,
                                       .count = dead,
                                       .target = g->key,
                                       .queue = (int8_t)g->queue,
                                       .who = op->who});
}
