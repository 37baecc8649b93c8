#include "engine/engine_int.h"

#include "base/mem.h"
#include "model/scope.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* The records that say only what is gone. */
static void append_number(struct engine *e, enum record_type type, uint64_t number) {
    uint8_t meta[RECORD_META_MAX];
    append_bare(e, type, meta, record_number_put(meta, number));
}

static size_t number_bytes(void) {
    return log_record_bytes(sizeof(uint64_t), 0);
}

static bool has_room(const struct engine *e, size_t bytes) {
    return log_has_room(e->log, LOG_USE_SETTLE, bytes);
}

/* The vhost of a scoped name is there. */
static bool has_vhost(const struct engine *e, struct span scoped) {
    struct span vhost, name;
    scope_split(scoped, &vhost, &name);
    return engine_vhost_is_there(e, vhost);
}

/* -- lists in order of creation ---------------------------------------------------------------- */

static int compare_numbers(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* The caller frees them. */
static uint64_t *exchange_numbers(const struct engine *e, size_t *ret_n) {
    const struct topology *t = &e->st.topology;
    uint64_t *numbers = mem_alloc((t->live_exchanges + 1) * sizeof *numbers);
    size_t n = 0;
    for (uint32_t i = 1; i <= t->exchange_count; i++)
        if (t->exchanges[i])
            numbers[n++] = t->exchanges[i]->number;
    qsort(numbers, n, sizeof *numbers, compare_numbers);
    *ret_n = n;
    return numbers;
}

/* -- exchanges ------------------------------------------------------------------------------- */

static struct exchange_view view_of(const struct exchange *x) {
    const struct record_exchange *r = &x->image;
    return (struct exchange_view){.name = r->name,
                                  .type = r->type,
                                  .durable = r->durable,
                                  .auto_delete = r->auto_delete,
                                  .internal = r->internal,
                                  .arguments = r->arguments,
                                  .alternate = x->alternate,
                                  .has_alternate = x->has_alternate,
                                  .bindings = x->from,
                                  .is_bound = x->from + x->to > 0};
}

enum err engine_exchange(const struct engine *e, struct span name, struct exchange_view *ret) {
    const struct exchange *x = exchange_by_name(&e->st, name);
    if (!x)
        return ERR_NO_EXCHANGE;
    *ret = view_of(x);
    return OK;
}

void engine_exchanges(const struct engine *e, bool (*f)(void *ctx, const struct exchange_view *x),
                      void *ctx) {
    size_t n;
    uint64_t *numbers = exchange_numbers(e, &n);
    for (size_t i = 0; i < n; i++) {
        struct exchange_view v = view_of(exchange_by_number(&e->st, numbers[i]));
        if (!f(ctx, &v))
            break;
    }
    free(numbers);
}

enum err engine_exchange_declare(struct engine *e, int64_t now, const struct exchange_new *x) {
    (void)now;
    assert(x->name.n <= LIMIT_QUEUE_NAME && x->alternate.n <= LIMIT_QUEUE_NAME);
    if (exchange_by_name(&e->st, x->name))
        return OK;
    if (!has_vhost(e, x->name))
        return ERR_NO_VHOST;
    if (x->arguments.n > LIMIT_ARGUMENTS)
        return ERR_TOO_LARGE;
    if (e->st.topology.live_exchanges >= LIMIT_EXCHANGES)
        return ERR_TOO_MANY_EXCHANGES;
    const struct record_exchange r = {.exchange = e->st.topology.next_exchange,
                                      .type = x->type,
                                      .durable = x->durable,
                                      .auto_delete = x->auto_delete,
                                      .internal = x->internal,
                                      .has_alternate = x->has_alternate,
                                      .name = x->name,
                                      .alternate = x->alternate,
                                      .arguments = x->arguments};
    size_t bytes = exchange_bytes(&r);
    if (!log_has_room(e->log, LOG_USE_ACCEPT, bytes))
        return ERR_DISK_FULL;
    log_frame_begin(e->log, bytes);
    append_exchange(e, &r);
    log_frame_end(e->log);
    return OK;
}

/* -- what goes with what it was bound to ------------------------------------------------------- */

/* Exchanges that delete themselves when their last binding goes: they go in the frame of what takes
 * it, found before anything is written. */
struct orphans {
    uint64_t but;       /* number of one that goes anyway, 0 = none */
    struct buf numbers; /* of those that go, in order */
    struct buf losing;  /* of those that lose a binding */
};

static size_t number_of_orphans(const struct orphans *o) {
    return o->numbers.n / sizeof(uint64_t);
}

static uint64_t orphan_at(const struct buf *numbers, size_t i) {
    uint64_t number;
    memcpy(&number, numbers->p + i * sizeof number, sizeof number);
    return number;
}

static void lose_one(struct orphans *o, struct exchange *x) {
    if (!x->image.auto_delete || x->number == o->but)
        return;
    buf_add(&o->losing, &x->number, sizeof x->number);
    if (++x->losing == x->from)
        buf_add(&o->numbers, &x->number, sizeof x->number);
}

static void lose_all_to(const struct engine_state *st, struct orphans *o, uint64_t destination,
                        bool to_exchange) {
    for (uint32_t i = binding_to(st, destination, to_exchange); i;
         i = binding_at(st, i)->next_by_destination) {
        const struct binding *b = binding_at(st, i);
        if (b->destination == destination && b->to_exchange == to_exchange)
            lose_one(o, exchange_at(st, b->source));
    }
}

/* What those that go do to others. */
static void find_more(const struct engine_state *st, struct orphans *o) {
    for (size_t i = 0; i < number_of_orphans(o); i++)
        lose_all_to(st, o, orphan_at(&o->numbers, i), true);
    for (size_t i = 0; i < o->losing.n / sizeof(uint64_t); i++)
        exchange_by_number(st, orphan_at(&o->losing, i))->losing = 0;
}

static void orphans_init(struct orphans *o, uint64_t but) {
    *o = (struct orphans){.but = but};
    buf_init(&o->numbers, SIZE_MAX);
    buf_init(&o->losing, SIZE_MAX);
}

static void orphans_release(struct orphans *o) {
    buf_release(&o->numbers);
    buf_release(&o->losing);
}

static size_t most_numbers(const struct engine *e, size_t beside) {
    return (log_frame_bytes_max(e->log) - beside) / number_bytes();
}

/* Begins the frame of what takes their bindings, with `bytes` for that. False: no room for all. */
static bool begin_with_orphans(struct engine *e, size_t bytes, const struct orphans *o) {
    size_t n = number_of_orphans(o), most = most_numbers(e, bytes);
    if (!has_room(e, bytes + n * number_bytes()))
        return false;
    log_frame_begin(e->log, bytes + (n < most ? n : most) * number_bytes());
    return true;
}

/* And ends it. With small segments there may be more than one frame holds: then there are several. */
static void end_with_orphans(struct engine *e, size_t bytes, const struct orphans *o) {
    size_t n = number_of_orphans(o), left = most_numbers(e, bytes);
    for (size_t i = 0; i < n; i++, left--) {
        if (left == 0) {
            log_frame_end(e->log);
            left = n - i < most_numbers(e, 0) ? n - i : most_numbers(e, 0);
            log_frame_begin(e->log, left * number_bytes());
        }
        append_number(e, RECORD_EXCHANGE_GONE, orphan_at(&o->numbers, i));
        apply_exchange_gone(&e->st, orphan_at(&o->numbers, i));
    }
    log_frame_end(e->log);
}

static enum err emit_gone_exchange(struct engine *e, uint64_t number) {
    struct orphans o;
    orphans_init(&o, number);
    lose_all_to(&e->st, &o, number, true);
    find_more(&e->st, &o);
    bool has_begun = begin_with_orphans(e, number_bytes(), &o);
    if (has_begun) {
        append_number(e, RECORD_EXCHANGE_GONE, number);
        apply_exchange_gone(&e->st, number);
        end_with_orphans(e, number_bytes(), &o);
    }
    orphans_release(&o);
    return has_begun ? OK : ERR_DISK_FULL;
}

enum err engine_exchange_delete(struct engine *e, int64_t now, struct span name, bool if_unused) {
    (void)now;
    const struct exchange *x = exchange_by_name(&e->st, name);
    if (!x)
        return OK;
    if (if_unused && x->from > 0)
        return ERR_IN_USE;
    return emit_gone_exchange(e, x->number);
}

enum err emit_dropping(struct engine *e, const struct record_queue *r,
                       const struct audit_entry *entry) {
    size_t bytes = queue_bytes(r) + (entry ? audit_bytes(entry) : 0);
    struct orphans o;
    orphans_init(&o, 0);
    lose_all_to(&e->st, &o, r->queue, false);
    find_more(&e->st, &o);
    bool has_begun = begin_with_orphans(e, bytes, &o);
    if (has_begun) {
        if (entry)
            append_audit(e, entry); /* first: its spans may point into what the image replaces */
        append_queue(e, r);
        end_with_orphans(e, bytes, &o);
    }
    orphans_release(&o);
    return has_begun ? OK : ERR_DISK_FULL;
}

/* -- bindings ---------------------------------------------------------------------------------- */

static enum err find_ends(const struct engine *e, const struct binding_new *b,
                          struct record_binding *ret) {
    const struct exchange *source = exchange_by_name(&e->st, b->source), *to = NULL;
    const struct queue *q = NULL;
    if (!source)
        return ERR_NO_EXCHANGE;
    if (b->to_exchange && !(to = exchange_by_name(&e->st, b->destination)))
        return ERR_NO_EXCHANGE;
    if (!b->to_exchange && !(q = queue_by_name(&e->st, b->destination)))
        return ERR_NO_QUEUE;
    *ret = (struct record_binding){.source = source->number,
                                   .destination = to ? to->number : q->number,
                                   .to_exchange = b->to_exchange,
                                   .key = b->key,
                                   .arguments = b->arguments};
    return OK;
}

bool engine_is_bound(const struct engine *e, const struct binding_new *b) {
    struct record_binding r;
    return find_ends(e, b, &r) == OK && binding_find(&e->st, &r) != NULL;
}

enum err engine_bind(struct engine *e, int64_t now, const struct binding_new *b) {
    (void)now;
    assert(b->key.n <= ENVELOPE_TEXT);
    struct record_binding r;
    enum err err = find_ends(e, b, &r);
    if (err != OK)
        return err;
    if (r.arguments.n > LIMIT_ARGUMENTS)
        return ERR_TOO_LARGE;
    if (binding_find(&e->st, &r))
        return OK;
    if (e->st.topology.live_bindings >= LIMIT_BINDINGS)
        return ERR_TOO_MANY_BINDINGS;
    r.binding = e->st.topology.next_binding;
    size_t bytes = binding_bytes(&r);
    if (!log_has_room(e->log, LOG_USE_ACCEPT, bytes))
        return ERR_DISK_FULL;
    log_frame_begin(e->log, bytes);
    append_binding(e, &r);
    log_frame_end(e->log);
    return OK;
}

enum err engine_unbind(struct engine *e, int64_t now, const struct binding_new *b) {
    (void)now;
    struct record_binding r;
    const struct binding *found = find_ends(e, b, &r) == OK ? binding_find(&e->st, &r) : NULL;
    if (!found)
        return OK;
    struct orphans o;
    orphans_init(&o, 0);
    lose_one(&o, exchange_at(&e->st, found->source));
    find_more(&e->st, &o);
    uint64_t number = found->number;
    bool has_begun = begin_with_orphans(e, number_bytes(), &o);
    if (has_begun) {
        append_number(e, RECORD_BINDING_GONE, number);
        apply_binding_gone(&e->st, number);
        end_with_orphans(e, number_bytes(), &o);
    }
    orphans_release(&o);
    return has_begun ? OK : ERR_DISK_FULL;
}

void engine_bindings(const struct engine *e, bool (*f)(void *ctx, const struct binding_new *b),
                     void *ctx) {
    const struct topology *t = &e->st.topology;
    uint64_t *numbers = mem_alloc((t->live_bindings + 1) * sizeof *numbers);
    size_t n = 0;
    for (uint32_t i = 1; i <= t->binding_count; i++)
        if (t->bindings[i])
            numbers[n++] = t->bindings[i]->number;
    qsort(numbers, n, sizeof *numbers, compare_numbers);
    for (size_t i = 0; i < n; i++) {
        const struct binding *b = binding_by_number(&e->st, numbers[i]);
        const struct queue *q = b->to_exchange ? NULL : queue_at(&e->st, b->to);
        const struct binding_new v = {.source = exchange_at(&e->st, b->source)->image.name,
                                      .destination = q ? span_of(q->name, q->name_bytes)
                                                       : exchange_at(&e->st, b->to)->image.name,
                                      .to_exchange = b->to_exchange,
                                      .key = binding_key(b),
                                      .arguments = binding_arguments(b)};
        if (!f(ctx, &v))
            break;
    }
    free(numbers);
}

/* -- queues ------------------------------------------------------------------------------------ */

enum err engine_queue_amqp(const struct engine *e, struct span queue, struct queue_amqp_view *ret) {
    const struct queue *q = queue_by_name(&e->st, queue);
    if (!q)
        return ERR_NO_QUEUE;
    const struct queue_amqp *a = q->amqp;
    *ret = (struct queue_amqp_view){.durable = true, .effective = queue_settings_none()};
    if (!a)
        return OK;
    const struct pattern *p = a->pattern ? pattern_by_number(&e->st, a->pattern) : NULL;
    ret->effective = a->effective;
    ret->policy = p ? p->image.policy.name : (struct span){0};
    ret->expired = a->image.expired;
    ret->max_length = a->image.max_length;
    if (!a->image.is_declared)
        return OK;
    ret->is_declared = true;
    ret->durable = a->image.durable;
    ret->exclusive = a->image.exclusive;
    ret->auto_delete = a->image.auto_delete;
    ret->type = a->image.type;
    ret->arguments = a->image.arguments;
    return OK;
}

enum err engine_queue_declare(struct engine *e, int64_t now, const struct queue_declare *d,
                              bool *ret_created) {
    assert(d->name.n > 0 && d->name.n <= LIMIT_QUEUE_NAME);
    const struct queue *q = queue_by_name(&e->st, d->name);
    *ret_created = false;
    if (q && q->amqp && q->amqp->image.is_declared)
        return OK;
    if (!has_vhost(e, d->name))
        return ERR_NO_VHOST;
    if (d->arguments.n + d->settings.dlx.n + d->settings.dlrk.n > LIMIT_ARGUMENTS)
        return ERR_TOO_LARGE;
    if (!q && e->st.live_queues >= LIMIT_QUEUES)
        return ERR_TOO_MANY_QUEUES;
    struct record_queue r = q ? queue_image(q) : new_queue(e, now, d->name, NULL, NULL);
    struct record_queue_amqp *a = &r.amqp;
    r.has_amqp = true;
    a->is_declared = true;
    a->durable = d->durable;
    a->exclusive = d->exclusive;
    a->auto_delete = d->auto_delete;
    a->type = d->type;
    a->settings = d->settings;
    a->arguments = d->arguments;
    if (!log_has_room(e->log, LOG_USE_ACCEPT, queue_bytes(&r)))
        return ERR_DISK_FULL;
    emit_queue(e, &r);
    (void)relieve(e, now);
    *ret_created = !q;
    return OK;
}

enum err engine_queue_purge(struct engine *e, int64_t now, struct span queue, uint64_t *ret_n) {
    (void)now;
    *ret_n = 0;
    struct queue *q = queue_by_name(&e->st, queue);
    if (!q)
        return ERR_NO_QUEUE;
    if (!has_room(e, (q->ready / RECORD_GONE_IDS + 1) * (RECORD_GONE_META_MAX + LOG_STATE_ROOM)))
        return ERR_DISK_FULL;
    uint64_t left = q->ready;
    struct record_gone gone = {.queue = q->number, .cause = GONE_CLEARED, .ids = e->ids};
    while (left > 0) {
        uint32_t i = set_first(&e->st, q, SET_READY);
        for (uint32_t n = 0; i && n < RECORD_GONE_IDS; n++, left--) {
            const struct slot *s = slot_at(&e->st, i);
            unsigned line = slot_line(s);
            uint64_t arrival = slot_arrival(&e->st, s);
            gone_add(e, &gone, s);
            ++*ret_n;
            i = set_after(&e->st, q, SET_READY, line, arrival);
        }
        gone_end(e, &gone);
    }
    return OK;
}

/* -- policies by pattern ------------------------------------------------------------------------ */

static struct audit_entry policy_entry(int64_t now, enum audit_action action, struct span vhost,
                                       struct span name, const struct act *who) {
    return (struct audit_entry){.at = now,
                                .action = action,
                                .scope = vhost,
                                .actor = who->actor,
                                .reason = who->reason,
                                .result = name};
}

enum err engine_pattern_policy_put(struct engine *e, int64_t now, const struct pattern_policy *p,
                                   const struct act *act) {
    if (!engine_vhost_is_there(e, p->vhost))
        return ERR_NO_VHOST;
    struct expression_error error;
    struct expression *expression = expression_new(p->pattern, &error);
    expression_free(expression);
    if (!expression || p->name.n == 0 || p->name.n > LIMIT_QUEUE_NAME)
        return ERR_INVALID;
    if (p->definition.n + p->pattern.n > LIMIT_ARGUMENTS)
        return ERR_TOO_LARGE;
    const struct pattern *old = pattern_by_name(&e->st, p->vhost, p->name);
    const struct record_pattern r = {.pattern = old ? old->number : e->st.topology.next_pattern,
                                     .policy = *p};
    struct act who = act_cut(act);
    struct audit_entry entry = policy_entry(now, AUDIT_POLICY_CHANGED, p->vhost, p->name, &who);
    size_t bytes = pattern_bytes(&r) + audit_bytes(&entry);
    if (!log_has_room(e->log, LOG_USE_ACCEPT, bytes))
        return ERR_DISK_FULL;
    log_frame_begin(e->log, bytes);
    append_audit(e, &entry);
    append_pattern(e, &r);
    log_frame_end(e->log);
    (void)relieve(e, now);
    return OK;
}

enum err engine_pattern_policy_delete(struct engine *e, int64_t now, struct span vhost,
                                      struct span name, const struct act *act) {
    const struct pattern *p = pattern_by_name(&e->st, vhost, name);
    if (!p)
        return ERR_NO_POLICY;
    struct act who = act_cut(act);
    struct audit_entry entry = policy_entry(now, AUDIT_POLICY_DELETED, vhost, name, &who);
    size_t bytes = number_bytes() + audit_bytes(&entry);
    if (!has_room(e, bytes))
        return ERR_DISK_FULL;
    uint32_t number = p->number;
    log_frame_begin(e->log, bytes);
    append_audit(e, &entry);
    append_number(e, RECORD_PATTERN_GONE, number);
    log_frame_end(e->log);
    apply_pattern_gone(&e->st, number);
    (void)relieve(e, now);
    return OK;
}

void engine_pattern_policies(const struct engine *e,
                             bool (*f)(void *ctx, const struct pattern_policy *p), void *ctx) {
    for (uint32_t i = 0; i < e->st.topology.pattern_count; i++)
        if (!f(ctx, &e->st.topology.patterns[i]->image.policy))
            break;
}

/* -- after a start -------------------------------------------------------------------------------- */

#define BEGIN_MESSAGES 1000

static bool drop_transient(struct engine *e, const struct queue *q) {
    struct record_queue r = queue_image(q);
    r.dropping = true;
    return emit_dropping(e, &r, NULL) == OK;
}

/* Those that connections held are in processing without an end. False when there is more to do. */
static bool give_back(struct engine *e, struct queue *q, int64_t now, uint32_t *budget) {
    static const struct settle nothing = {.action = SETTLE_RETURN};
    uint64_t after = 0;
    for (uint32_t i; (i = set_after(&e->st, q, SET_PROCESSING, 0, after));) {
        struct slot *s = slot_at(&e->st, i);
        after = slot_arrival(&e->st, s);
        if (slot_extra(&e->st, s)->next_at != 0)
            continue;
        if (*budget == 0 || !has_room(e, LOG_DEATH_ROOM))
            return false;
        return_message(e, s, now, &nothing);
        --*budget;
    }
    return true;
}

static bool begin_queues(struct engine *e, int64_t now) {
    uint32_t budget = BEGIN_MESSAGES;
    for (uint32_t i = e->st.oldest_queue, next; i; i = next) {
        struct queue *q = queue_at(&e->st, i);
        next = q->newer;
        if (q->number <= e->begun)
            continue;
        const struct queue_amqp *a = q->amqp;
        bool is_transient = a && a->image.is_declared && (!a->image.durable || a->image.exclusive);
        if (budget == 0 || !has_room(e, LOG_STATE_ROOM + queue_room(q)))
            return false;
        if (is_transient && !q->dropping) {
            if (!drop_transient(e, q))
                return false;
            budget--;
        } else if (!q->dropping && !give_back(e, q, now, &budget)) {
            return false;
        }
        e->begun = q->number;
    }
    return true;
}

/* Those that do not outlive a restart, one after the other. */
static bool begin_exchanges(struct engine *e) {
    for (uint32_t i = 1; i <= e->st.topology.exchange_count; i++) {
        const struct exchange *x = exchange_at(&e->st, i);
        if (!x || x->image.durable)
            continue;
        if (emit_gone_exchange(e, x->number) != OK)
            return false;
    }
    return true;
}

bool engine_begin(struct engine *e, int64_t now) {
    if (!engine_vhost_is_there(e, span_str("/")) &&
        engine_vhost_put(e, now, span_str("/"), &(struct vhost_settings){0}, NULL) != OK)
        return true;
    return !begin_queues(e, now) || !begin_exchanges(e) || !relieve(e, now);
}
