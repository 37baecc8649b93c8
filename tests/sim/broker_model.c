/* Exchanges, bindings, policies and queues, as the broker's model has them. */
#include "sim/broker_int.h"

#include "base/mem.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- running an operation ---------------------------------------------------------------------------- */

void broker_object(struct broker_run *r, const char *format, ...) {
    if (r->wrong[0])
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(r->wrong, r->wrong_bytes, format, args);
    va_end(args);
}

bool broker_is_at_end(struct broker_run *r) {
    r->is_cut |= r->frames_left == 0;
    return r->is_cut;
}

bool broker_frame(struct broker_run *r) {
    if (broker_is_at_end(r))
        return false;
    r->frames_left--;
    r->op->frames++;
    return true;
}

struct doing *broker_doing(struct broker_run *r, uint64_t id, int kind) {
    for (size_t i = 0; i < r->op->doing_count; i++) {
        struct doing *d = &r->op->doings[i];
        bool is_wanted = kind < 0 ? d->is_death : d->kind == (enum doing_kind)kind;
        if (d->id == id && !d->is_taken && is_wanted)
            return d;
    }
    return NULL;
}

/* -- the parts of the model ---------------------------------------------------------------------------- */

void broker_init(struct broker *b) {
    *b = (struct broker){.next_id = 1, .next_queue = 1, .next_exchange = 1};
}

void broker_release(struct broker *b) {
    free(b->messages);
}

void broker_copy(struct broker *to, const struct broker *from) {
    struct broker_message *messages = to->messages;
    size_t cap = to->message_cap;
    if (cap < from->message_count) {
        cap = from->message_cap;
        messages = mem_grow(messages, cap * sizeof *messages);
    }
    if (from->message_count)
        memcpy(messages, from->messages, from->message_count * sizeof *messages);
    *to = *from;
    to->messages = messages;
    to->message_cap = cap;
}

struct broker_queue *broker_queue_at(struct broker *b, struct place name) {
    for (size_t i = 0; i < b->queue_count; i++)
        if (is_same_place(b->queues[i].name, name))
            return &b->queues[i];
    return NULL;
}

struct broker_queue *broker_queue_of(struct broker *b, uint64_t number) {
    for (size_t i = 0; i < b->queue_count; i++)
        if (b->queues[i].number == number)
            return &b->queues[i];
    return NULL;
}

struct broker_exchange *broker_exchange_at(struct broker *b, struct place name) {
    for (size_t i = 0; i < b->exchange_count; i++)
        if (is_same_place(b->exchanges[i].name, name))
            return &b->exchanges[i];
    return NULL;
}

struct broker_exchange *broker_exchange_of(struct broker *b, uint64_t number) {
    for (size_t i = 0; i < b->exchange_count; i++)
        if (b->exchanges[i].number == number)
            return &b->exchanges[i];
    return NULL;
}

struct broker_message *broker_find(struct broker *b, uint64_t id) {
    for (size_t i = 0; i < b->message_count; i++)
        if (b->messages[i].id == id)
            return &b->messages[i];
    return NULL;
}

bool broker_has_vhost(struct broker *b, unsigned vhost) {
    return broker_exchange_at(b, (struct place){.vhost = (uint8_t)vhost}) != NULL;
}

struct broker_message *broker_put(struct broker_run *r, struct broker_queue *q) {
    struct broker *b = r->b;
    if (b->message_count == b->message_cap) {
        b->message_cap = b->message_cap ? b->message_cap * 2 : 256;
        b->messages = mem_grow(b->messages, b->message_cap * sizeof *b->messages);
    }
    struct broker_message *x = &b->messages[b->message_count++];
    *x = (struct broker_message){.id = b->next_id,
                                 .arrival = b->next_id,
                                 .queue = q->number,
                                 .state = STATE_PENDING,
                                 .max_retries = q->native.policy.max_retries,
                                 .created_at = r->op->now};
    b->next_id++;
    q->ledger.accepted++;
    broker_touch(r, x);
    return x;
}

void broker_remove(struct broker *b, struct broker_message *x) {
    *x = b->messages[--b->message_count];
}

void broker_touch(struct broker_run *r, struct broker_message *x) {
    x->updated_at = r->op->now;
    x->waiting = x->state == STATE_PENDING && x->next_at > r->op->now;
    x->changed = r->b->operations;
}

void broker_restart(struct broker *b) {
    for (size_t i = 0; i < b->message_count; i++) {
        struct broker_message *x = &b->messages[i];
        x->waiting = x->state == STATE_PENDING && x->next_at > x->updated_at;
    }
}

bool broker_is_ready(const struct broker_message *x) {
    return x->state == STATE_PENDING && !x->waiting;
}

uint64_t broker_ready(const struct broker *b, const struct broker_queue *q) {
    uint64_t n = 0;
    for (size_t i = 0; i < b->message_count; i++)
        n += b->messages[i].queue == q->number && broker_is_ready(&b->messages[i]);
    return n;
}

/* -- settings that hold ----------------------------------------------------------------------------------- */

static bool applies(const struct broker_policy *p, struct place name, bool is_queue,
                    bool is_quorum) {
    static const enum policy_applies kinds[] = {APPLIES_CLASSIC, APPLIES_QUORUM};
    bool is_kind = p->applies == APPLIES_ALL ||
                   (is_queue ? p->applies == APPLIES_QUEUES || p->applies == kinds[is_quorum]
                             : p->applies == APPLIES_EXCHANGES);
    return is_kind && p->vhost == name.vhost && pattern_takes_name(p->pattern, name.text);
}

/* The highest priority; of those the first by name. */
static const struct broker_policy *policy_for(struct broker *b, struct place name, bool is_queue,
                                              bool is_quorum) {
    const struct broker_policy *best = NULL;
    for (size_t i = 0; i < b->policy_count; i++) {
        const struct broker_policy *p = &b->policies[i];
        if (!applies(p, name, is_queue, is_quorum))
            continue;
        if (!best || p->priority > best->priority ||
            (p->priority == best->priority && strcmp((const char *)policy_name(p->name).p,
                                                     (const char *)policy_name(best->name).p) < 0))
            best = p;
    }
    return best;
}

/* Of what is given. */
static int64_t smaller(int64_t a, int64_t b) {
    return a < 0 ? b : b < 0 ? a : a < b ? a : b;
}

static int64_t limit_of(int64_t a, int64_t b) {
    if (a == NO_LIMIT_GIVEN)
        return b;
    if (b == NO_LIMIT_GIVEN)
        return a;
    bool is_none = a < 0 || b < 0;
    return (a < b) == is_none ? b : a;
}

struct settings broker_settings(struct broker *b, const struct broker_queue *q,
                                const struct broker_policy **ret_policy) {
    struct settings s = q->is_declared ? q->declare.settings : settings_none();
    bool is_quorum = q->is_declared && q->declare.is_quorum;
    const struct broker_policy *p = policy_for(b, q->name, true, is_quorum);
    *ret_policy = p;
    if (p) {
        const struct settings *t = &p->settings;
        s.ttl_ms = smaller(s.ttl_ms, t->ttl_ms);
        s.expires_ms = smaller(s.expires_ms, t->expires_ms);
        s.length = smaller(s.length, t->length);
        s.bytes = smaller(s.bytes, t->bytes);
        s.limit = limit_of(s.limit, t->limit);
        if (t->overflow >= 0 && (is_quorum || s.overflow < 0))
            s.overflow = t->overflow;
        if (s.dlx < 0)
            s.dlx = t->dlx;
        if (s.dlrk < 0)
            s.dlrk = t->dlrk;
    }
    if (is_quorum && s.limit == NO_LIMIT_GIVEN)
        s.limit = 20;
    return s;
}

int broker_alternate(struct broker *b, const struct broker_exchange *x) {
    const struct broker_policy *p = policy_for(b, x->name, false, false);
    bool is_default = x->name.text == 0;
    return x->alternate >= 0 ? x->alternate : p && !is_default ? p->settings.alternate : NO_TEXT;
}

void broker_set_ttl(struct broker_run *r, struct broker_message *x, int64_t ttl_ms) {
    const struct broker_policy *policy;
    struct settings s = broker_settings(r->b, broker_queue_of(r->b, x->queue), &policy);
    ttl_ms = smaller(ttl_ms, s.ttl_ms);
    if (ttl_ms == 0)
        ttl_ms = 1; /* it may still be taken in the same millisecond */
    x->ttl_ms = ttl_ms < 0 ? 0 : ttl_ms;
    x->expires_at = ttl_ms < 0 ? 0 : r->op->now + ttl_ms;
}

uint8_t broker_priority_in(struct broker *b, const struct broker_queue *q, uint8_t priority) {
    const struct broker_policy *policy;
    struct settings s = broker_settings(b, q, &policy);
    int most = s.priority < 0 ? 0 : s.priority < PRIORITY_MAX ? s.priority : PRIORITY_MAX;
    return priority < most ? priority : (uint8_t)most;
}

/* -- bindings and what goes with them --------------------------------------------------------------------- */

static void lose_binding(struct broker *b, size_t i) {
    struct broker_exchange *from = broker_exchange_of(b, b->bindings[i].from);
    if (from)
        from->has_lost = true;
    memmove(&b->bindings[i], &b->bindings[i + 1], (--b->binding_count - i) * sizeof *b->bindings);
}

static uint64_t bindings_from(const struct broker *b, uint64_t number) {
    uint64_t n = 0;
    for (size_t i = 0; i < b->binding_count; i++)
        n += b->bindings[i].from == number;
    return n;
}

static void lose_bindings(struct broker *b, uint64_t number, bool is_exchange) {
    for (size_t i = b->binding_count; i-- > 0;) {
        const struct broker_binding *l = &b->bindings[i];
        if ((is_exchange && l->from == number) ||
            (l->to == number && l->to_exchange == is_exchange))
            lose_binding(b, i);
    }
}

void broker_exchange_drop(struct broker_run *r, struct broker_exchange *x) {
    struct broker *b = r->b;
    if (!broker_frame(r))
        return;
    uint64_t number = x->number;
    size_t i = (size_t)(x - b->exchanges);
    lose_bindings(b, number, true);
    memmove(x, x + 1, (--b->exchange_count - i) * sizeof *x);
}

void broker_orphans_go(struct broker_run *r) {
    struct broker *b = r->b;
    for (size_t i = 0; i < r->op->doing_count && !r->is_cut; i++) {
        struct doing *d = &r->op->doings[i];
        if (d->is_taken || d->kind != DOING_EXCHANGE_GONE)
            continue;
        struct broker_exchange *x = broker_exchange_of(b, d->id);
        if (!x || !x->auto_delete || !x->has_lost || bindings_from(b, x->number) > 0)
            return; /* not for this: it is found out, as nobody took it */
        d->is_taken = true;
        broker_exchange_drop(r, x);
    }
    for (size_t i = 0; i < b->exchange_count && !r->is_cut; i++) {
        struct broker_exchange *x = &b->exchanges[i];
        if (x->auto_delete && x->has_lost && bindings_from(b, x->number) == 0 && !r->op->full)
            broker_object(r, "an exchange lost its last binding and is still there: %s",
                          place_words(x->name));
    }
}

/* -- queues --------------------------------------------------------------------------------------------------- */

struct broker_queue *broker_queue_new(struct broker_run *r, struct place name) {
    struct broker *b = r->b;
    assert(b->queue_count < BROKER_QUEUES);
    struct broker_queue *q = &b->queues[b->queue_count++];
    *q = (struct broker_queue){.number = b->next_queue++,
                               .name = name,
                               .created_at = r->op->now,
                               .native = {.policy = policy_default(), .target = NO_TEXT}};
    return q;
}

static void ledger_add(struct ledger *sum, const struct ledger *l) {
    sum->accepted += l->accepted;
    sum->moved_in += l->moved_in;
    sum->succeeded += l->succeeded;
    sum->discarded += l->discarded;
    sum->moved_out += l->moved_out;
}

void broker_queue_drop(struct broker_run *r, struct broker_queue *q) {
    struct broker *b = r->b;
    if (!broker_frame(r))
        return;
    uint64_t number = q->number;
    for (size_t i = b->message_count; i-- > 0;)
        if (b->messages[i].queue == number) {
            q->ledger.discarded++;
            broker_remove(b, &b->messages[i]);
        }
    ledger_add(&b->dropping, &q->ledger);
    size_t i = (size_t)(q - b->queues);
    memmove(q, q + 1, (--b->queue_count - i) * sizeof *q);
    lose_bindings(b, number, false);
    broker_orphans_go(r);
}

static uint64_t held_by(const struct broker *b, const struct broker_queue *q) {
    uint64_t n = 0;
    for (size_t i = 0; i < b->message_count; i++)
        n += b->messages[i].queue == q->number;
    return n;
}

/* -- the verbs ---------------------------------------------------------------------------------------------- */

static enum err put_vhost(struct broker_run *r) {
    static const enum exchange_type types[TEXT_AMQS] = {EXCHANGE_DIRECT,  EXCHANGE_FANOUT,
                                                        EXCHANGE_TOPIC,   EXCHANGE_HEADERS,
                                                        EXCHANGE_HEADERS, EXCHANGE_TOPIC};
    struct broker *b = r->b;
    uint8_t vhost = r->op->name.vhost;
    if (broker_has_vhost(b, vhost) || r->op->error == ERR_DISK_FULL)
        return broker_has_vhost(b, vhost) ? OK : ERR_DISK_FULL;
    if (!broker_frame(r))
        return OK;
    for (int i = -1; i < TEXT_AMQS; i++)
        b->exchanges[b->exchange_count++] = (struct broker_exchange){
            .number = b->next_exchange++,
            .name = {.vhost = vhost, .text = (uint8_t)(i < 0 ? 0 : TEXT_AMQ + i)},
            .type = i < 0 ? EXCHANGE_DIRECT : types[i],
            .durable = true,
            .internal = i == TEXT_AMQS - 1,
            .alternate = NO_TEXT};
    return OK;
}

static enum err declare_exchange(struct broker_run *r) {
    struct broker *b = r->b;
    const struct broker_op *op = r->op;
    if (broker_exchange_at(b, op->name))
        return OK;
    if (!broker_has_vhost(b, op->name.vhost))
        return ERR_NO_VHOST;
    if (op->error == ERR_DISK_FULL)
        return ERR_DISK_FULL;
    assert(b->exchange_count < BROKER_EXCHANGES);
    if (broker_frame(r)) {
        struct broker_exchange *x = &b->exchanges[b->exchange_count++];
        *x = op->exchange;
        x->name = op->name;
        x->number = b->next_exchange++;
    }
    return OK;
}

static enum err delete_exchange(struct broker_run *r) {
    struct broker_exchange *x = broker_exchange_at(r->b, r->op->name);
    if (!x)
        return OK;
    if (r->op->if_unused && bindings_from(r->b, x->number) > 0)
        return ERR_IN_USE;
    if (r->op->error == ERR_DISK_FULL)
        return ERR_DISK_FULL;
    struct doing *d = broker_doing(r, x->number, DOING_EXCHANGE_GONE);
    if (d)
        d->is_taken = true;
    broker_exchange_drop(r, x);
    broker_orphans_go(r);
    return OK;
}

static enum err find_ends(struct broker_run *r, struct broker_binding *ret) {
    const struct broker_op *op = r->op;
    const struct broker_exchange *from = broker_exchange_at(r->b, op->name);
    const struct broker_exchange *x = op->to_exchange ? broker_exchange_at(r->b, op->to) : NULL;
    const struct broker_queue *q = op->to_exchange ? NULL : broker_queue_at(r->b, op->to);
    if (!from || (op->to_exchange && !x))
        return ERR_NO_EXCHANGE;
    if (!op->to_exchange && !q)
        return ERR_NO_QUEUE;
    *ret = (struct broker_binding){.from = from->number,
                                   .to = x ? x->number : q->number,
                                   .to_exchange = op->to_exchange,
                                   .key = op->keys[0],
                                   .arguments = op->arguments};
    return OK;
}

/* The place of the same binding; binding_count = there is none. */
static size_t binding_like(const struct broker *b, const struct broker_binding *l) {
    size_t i = 0;
    for (; i < b->binding_count; i++) {
        const struct broker_binding *m = &b->bindings[i];
        if (m->from == l->from && m->to == l->to && m->to_exchange == l->to_exchange &&
            m->key == l->key && is_same_table(m->arguments, l->arguments))
            break;
    }
    return i;
}

static enum err bind(struct broker_run *r) {
    struct broker *b = r->b;
    struct broker_binding l;
    enum err e = find_ends(r, &l);
    if (e != OK || binding_like(b, &l) < b->binding_count)
        return e;
    if (r->op->error == ERR_DISK_FULL)
        return ERR_DISK_FULL;
    assert(b->binding_count < BROKER_BINDINGS);
    if (broker_frame(r))
        b->bindings[b->binding_count++] = l;
    return OK;
}

static enum err unbind(struct broker_run *r) {
    struct broker_binding l;
    if (find_ends(r, &l) != OK)
        return OK;
    size_t i = binding_like(r->b, &l);
    if (i == r->b->binding_count)
        return OK;
    if (r->op->error == ERR_DISK_FULL)
        return ERR_DISK_FULL;
    if (broker_frame(r)) {
        lose_binding(r->b, i);
        broker_orphans_go(r);
    }
    return OK;
}

static enum err declare_queue(struct broker_run *r) {
    struct broker *b = r->b;
    struct broker_queue *q = broker_queue_at(b, r->op->name);
    if (q && q->is_declared)
        return OK;
    if (!broker_has_vhost(b, r->op->name.vhost))
        return ERR_NO_VHOST;
    if (r->op->error == ERR_DISK_FULL)
        return ERR_DISK_FULL;
    if (!broker_frame(r))
        return OK;
    r->ret->created = !q;
    if (!q)
        q = broker_queue_new(r, r->op->name);
    q->is_declared = true;
    q->declare = r->op->declare;
    broker_relieve(r);
    return OK;
}

/* Targets must not lead back. */
static bool leads_back(struct broker *b, const struct broker_op *op) {
    int target = op->native.target;
    for (size_t steps = 0; target >= 0; steps++) {
        struct place at = {.text = (uint8_t)target};
        if (is_same_place(at, op->name) || steps > b->queue_count)
            return true;
        const struct broker_queue *q = broker_queue_at(b, at);
        target = q ? q->native.target : NO_TEXT;
    }
    return false;
}

static enum err put_queue(struct broker_run *r) {
    struct broker *b = r->b;
    struct broker_queue *q = broker_queue_at(b, r->op->name);
    const struct broker_native *n = &r->op->native;
    if (leads_back(b, r->op))
        return ERR_TARGET_CYCLE;
    r->ret->created = !q;
    if (q && policy_equal(&q->native.policy, &n->policy) && q->native.target == n->target)
        return OK;
    if (r->op->error == ERR_DISK_FULL)
        return ERR_DISK_FULL;
    if (!broker_frame(r))
        return OK;
    if (!q)
        q = broker_queue_new(r, r->op->name);
    q->native = *n;
    return OK;
}

static enum err delete_queue(struct broker_run *r) {
    struct broker_queue *q = broker_queue_at(r->b, r->op->name);
    if (!q)
        return ERR_NO_QUEUE;
    if (!r->op->discard && held_by(r->b, q) > 0)
        return ERR_NOT_EMPTY;
    if (r->op->error == ERR_DISK_FULL)
        return ERR_DISK_FULL;
    broker_queue_drop(r, q);
    return OK;
}

static struct broker_policy *policy_named(struct broker *b, unsigned vhost, unsigned name) {
    for (size_t i = 0; i < b->policy_count; i++)
        if (b->policies[i].vhost == vhost && b->policies[i].name == name)
            return &b->policies[i];
    return NULL;
}

static enum err put_policy(struct broker_run *r) {
    struct broker *b = r->b;
    const struct broker_policy *new = &r->op->policy;
    struct broker_policy *p = policy_named(b, new->vhost, new->name);
    if (!broker_has_vhost(b, new->vhost))
        return ERR_NO_VHOST;
    if (r->op->error == ERR_DISK_FULL)
        return ERR_DISK_FULL;
    if (!broker_frame(r))
        return OK;
    if (!p)
        p = &b->policies[b->policy_count++];
    *p = *new;
    broker_relieve(r);
    return OK;
}

static enum err delete_policy(struct broker_run *r) {
    struct broker *b = r->b;
    struct broker_policy *p = policy_named(b, r->op->policy.vhost, r->op->policy.name);
    if (!p)
        return ERR_NO_POLICY;
    if (r->op->error == ERR_DISK_FULL)
        return ERR_DISK_FULL;
    if (!broker_frame(r))
        return OK;
    size_t i = (size_t)(p - b->policies);
    memmove(p, p + 1, (--b->policy_count - i) * sizeof *p);
    broker_relieve(r);
    return OK;
}

void broker_change_topology_as(struct broker_run *r, enum broker_op_kind kind) {
    static enum err (*const verbs[BROKER_OPS])(struct broker_run * r) = {
        [BROKER_VHOST] = put_vhost,
        [BROKER_EXCHANGE] = declare_exchange,
        [BROKER_EXCHANGE_DELETE] = delete_exchange,
        [BROKER_BIND] = bind,
        [BROKER_UNBIND] = unbind,
        [BROKER_DECLARE] = declare_queue,
        [BROKER_QUEUE_PUT] = put_queue,
        [BROKER_QUEUE_DELETE] = delete_queue,
        [BROKER_POLICY] = put_policy,
        [BROKER_POLICY_DELETE] = delete_policy,
    };
    r->ret->error = verbs[kind](r);
}
