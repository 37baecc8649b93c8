/* Brokers broken on purpose, by reaching into the engine's memory: what is wrong then, the simulation
 * has to find out. */
#include "sim/broker_int.h"
#include "sim/broker_world.h"

#include "engine/engine_int.h"

/* -- for the time of an operation: what holds for queues and exchanges is not what they were given ------ */

#define SAVED_MOST 256

static struct saved_queue {
    uint64_t number;
    bool is_hidden, keeps, durable, exclusive;
    struct queue_settings effective;
} queues[SAVED_MOST];
static struct saved_exchange {
    uint64_t number;
    bool auto_delete, has_alternate;
} exchanges[SAVED_MOST];
static size_t queue_count, exchange_count;

static void save_all(struct engine_state *st) {
    queue_count = exchange_count = 0;
    for (uint32_t i = st->oldest_queue; i && queue_count < SAVED_MOST; i = queue_at(st, i)->newer) {
        const struct queue *q = queue_at(st, i);
        if (q->dropping || !q->name)
            continue;
        struct saved_queue *s = &queues[queue_count++];
        *s = (struct saved_queue){.number = q->number};
        if (q->amqp)
            *s = (struct saved_queue){.number = q->number,
                                      .keeps = q->amqp->keeps,
                                      .durable = q->amqp->image.durable,
                                      .exclusive = q->amqp->image.exclusive,
                                      .effective = q->amqp->effective};
    }
    for (uint32_t i = 1; i <= st->topology.exchange_count && exchange_count < SAVED_MOST; i++) {
        const struct exchange *x = exchange_at(st, i);
        if (x)
            exchanges[exchange_count++] =
                (struct saved_exchange){x->number, x->image.auto_delete, x->has_alternate};
    }
}

static void mend_all(struct engine_state *st) {
    for (size_t i = 0; i < queue_count; i++) {
        const struct saved_queue *s = &queues[i];
        struct queue *q = queue_by_number(st, s->number);
        if (!q)
            continue;
        if (s->is_hidden)
            q->dropping = false;
        if (!q->amqp)
            continue;
        q->amqp->keeps = s->keeps;
        q->amqp->image.durable = s->durable;
        q->amqp->image.exclusive = s->exclusive;
        q->amqp->effective = s->effective;
    }
    for (size_t i = 0; i < exchange_count; i++) {
        struct exchange *x = exchange_by_number(st, exchanges[i].number);
        if (!x)
            continue;
        x->image.auto_delete = exchanges[i].auto_delete;
        x->has_alternate = exchanges[i].has_alternate;
    }
}

static void spoil_amqp(enum control control, struct queue_amqp *a) {
    struct queue_settings *s = &a->effective;
    bool refuses = s->overflow == LENGTH_REJECT_PUBLISH || s->overflow == LENGTH_REJECT_PUBLISH_DLX;
    switch ((int)control) {
    case CONTROL_SETTINGS_UNMERGED:
        *s = queue_settings_merge(&a->image.settings, NULL, a->image.type);
        break;
    case CONTROL_TTL_FORGOTTEN:
        s->message_ttl_ms = -1;
        break;
    case CONTROL_RETURNS_UNBOUND:
        s->delivery_limit = NO_LIMIT_GIVEN;
        break;
    case CONTROL_DLX_FORGOTTEN:
        s->has_dlx = false;
        break;
    case CONTROL_DLRK_FORGOTTEN:
        s->has_dlrk = false;
        break;
    case CONTROL_LENGTH_FORGOTTEN:
        s->max_length = s->max_length_bytes = -1;
        break;
    case CONTROL_REFUSED_KEPT:
        if (refuses)
            s->max_length = s->max_length_bytes = -1;
        break;
    case CONTROL_PRIORITY_FORGOTTEN:
        s->max_priority = -1;
        break;
    case CONTROL_KEEP_FORGOTTEN:
        a->keeps = false;
        break;
    case CONTROL_TRANSIENT_KEPT:
        a->image.durable = true;
        a->image.exclusive = false;
        break;
    default:
        break;
    }
}

static void spoil_settings(struct world *w) {
    struct engine_state *st = &w->engine->st;
    for (size_t i = 0; i < queue_count; i++) {
        struct queue *q = queue_by_number(st, queues[i].number);
        if (q->amqp)
            spoil_amqp(w->control, q->amqp);
    }
    for (size_t i = 0; i < exchange_count; i++) {
        struct exchange *x = exchange_by_number(st, exchanges[i].number);
        if (w->control == CONTROL_ORPHAN_KEPT)
            x->image.auto_delete = false;
        if (w->control == CONTROL_ALTERNATE_FORGOTTEN)
            x->has_alternate = false;
    }
}

/* Is not seen by routing. */
static void hide(struct engine_state *st, struct saved_queue *s) {
    queue_by_number(st, s->number)->dropping = s->is_hidden = true;
}

static void hide_one(struct world *w, const struct broker_op *op) {
    struct engine_state *st = &w->engine->st;
    size_t i = queue_count ? rng_below(&w->rng, queue_count) : 0;
    const struct queue *own = queue_by_name(st, place_name(op->name));
    if (queue_count && !(own && own->number == queues[i].number))
        hide(st, &queues[i]);
}

/* What connections held looks as if it had a lease. */
static void hide_held(struct world *w, bool begins) {
    const struct broker *b = &w->broker->live;
    for (size_t i = 0; i < b->message_count; i++) {
        uint32_t slot = slot_find(&w->engine->st, b->messages[i].id);
        struct slot *s = slot ? slot_at(&w->engine->st, slot) : NULL;
        if (!s || s->state != STATE_PROCESSING || !s->extra)
            continue;
        int64_t *next_at = &extra_at(&w->engine->st, s->extra)->next_at;
        if (begins && *next_at == 0)
            *next_at = INT64_MAX;
        else if (!begins && *next_at == INT64_MAX)
            *next_at = 0;
    }
}

/* Heads look as if they were of the highest priority: others are dropped. */
static void raise_heads(struct world *w, bool begins) {
    struct engine_state *st = &w->engine->st;
    struct broker *b = &w->broker->live;
    static struct {
        uint64_t id;
        uint8_t priority;
    } heads[BROKER_QUEUES];
    for (size_t i = 0; i < b->queue_count; i++) {
        const struct broker_message *head = broker_head(b, &b->queues[i]);
        if (begins)
            heads[i].id = head ? head->id : 0;
        uint32_t slot = heads[i].id ? slot_find(st, heads[i].id) : 0;
        struct slot *s = slot ? slot_at(st, slot) : NULL;
        if (!s || s->state != STATE_PENDING || s->aside)
            continue;
        if (begins)
            heads[i].priority = (uint8_t)s->priority;
        slot_detach(st, slot);
        s->priority = (begins ? PRIORITY_MAX : (unsigned)heads[i].priority) & 0xf;
        slot_attach(st, slot);
    }
}

/* -- a letter goes on in one frame, and its copies in another ------------------------------------------ */

static struct {
    size_t n;
    uint64_t first_id, original;
    struct broker_message copies[BROKER_QUEUES];
} apart;

static void send_copies_apart(struct world *w, const struct broker_op *op) {
    struct engine *e = w->engine;
    struct broker_world *k = w->broker;
    struct broker_op tried = *op;
    struct broker_reply reply = {0};
    char wrong[200];
    apart.n = 0;
    if (op->n != 1 || op->items[0].action != SETTLE_REJECT || w->batch_out ||
        log_stats(e->log).full)
        return;
    broker_copy(&k->scratch, &k->live);
    broker_apply(&k->scratch, &tried, &reply, wrong, sizeof wrong);
    for (size_t i = 0; i < k->scratch.message_count && apart.n < BROKER_QUEUES; i++)
        if (k->scratch.messages[i].id >= k->live.next_id)
            apart.copies[apart.n++] = k->scratch.messages[i];
    apart.first_id = k->live.next_id;
    apart.original = op->items[0].id;
    for (size_t i = 0; i < k->scratch.queue_count; i++)
        if (broker_is_over(&k->scratch, &k->scratch.queues[i]))
            apart.n = 0; /* more than that would happen */
    for (size_t i = 0; i < apart.n; i++)
        for (size_t n = 0; n < queue_count; n++)
            if (queues[n].number == apart.copies[i].queue)
                hide(&e->st, &queues[n]);
    e->st.next_id += apart.n;
}

static void append_copies_apart(struct world *w, const struct broker_op *op) {
    struct engine *e = w->engine;
    uint32_t slot = apart.n ? slot_find(&e->st, apart.original) : 0;
    if (!slot)
        return;
    world_write_now(w);
    struct record_message m;
    read_message(e, slot_at(&e->st, slot), &e->message, &m);
    struct span from = place_name(op->name);
    log_frame_begin(e->log, apart.n * (message_bytes(&m) + LIMIT_QUEUE_NAME));
    for (size_t i = 0; i < apart.n; i++) {
        const struct broker_message *x = &apart.copies[i];
        struct queue *q = queue_by_number(&e->st, x->queue);
        struct record_message copy = m;
        copy.id = x->id;
        copy.queue = x->queue;
        copy.how = MESSAGE_ACCEPTED;
        copy.created_at = w->now;
        copy.origin = from;
        copy.image = (struct message_image){.state = STATE_PENDING,
                                            .max_retries = q->policy.max_retries,
                                            .priority = x->priority,
                                            .updated_at = w->now};
        set_ttl(&copy, q, w->now, -1);
        append_message(e, &copy);
    }
    log_frame_end(e->log);
    (void)relieve(e, w->now);
}

/* -- when which control acts ------------------------------------------------------------------------------ */

static bool is_work(enum broker_op_kind kind) {
    return kind == BROKER_PUBLISH || kind == BROKER_ENQUEUE || kind == BROKER_CLAIM ||
           kind == BROKER_SETTLE || kind == BROKER_REPLAY || kind == BROKER_EDIT ||
           kind == BROKER_TICK;
}

static bool acts(enum control control, enum broker_op_kind kind) {
    switch ((int)control) {
    case CONTROL_TRANSIENT_KEPT:
    case CONTROL_HELD_KEPT:
        return kind == BROKER_BEGIN;
    case CONTROL_ORPHAN_KEPT:
        return kind == BROKER_UNBIND || kind == BROKER_QUEUE_DELETE ||
               kind == BROKER_EXCHANGE_DELETE;
    case CONTROL_QUEUE_MISSED:
    case CONTROL_TAIL_DROPPED:
        return kind == BROKER_PUBLISH;
    case CONTROL_COPY_MISSING:
    case CONTROL_COPIES_APART:
        return kind == BROKER_SETTLE;
    default:
        return is_work(kind);
    }
}

void broker_spoil(struct world *w, const struct broker_op *op, bool begins) {
    if (w->control < CONTROL_BROKERS || !acts(w->control, op->kind))
        return;
    if (begins) {
        save_all(&w->engine->st);
        spoil_settings(w);
        if (w->control == CONTROL_QUEUE_MISSED || w->control == CONTROL_COPY_MISSING)
            hide_one(w, op);
        if (w->control == CONTROL_COPIES_APART)
            send_copies_apart(w, op);
    }
    if (w->control == CONTROL_HELD_KEPT)
        hide_held(w, begins);
    if (w->control == CONTROL_TAIL_DROPPED)
        raise_heads(w, begins);
    if (begins)
        return;
    mend_all(&w->engine->st);
    if (w->control == CONTROL_COPIES_APART)
        append_copies_apart(w, op);
}

/* -- behind an operation ---------------------------------------------------------------------------------- */

static void drop_unroutable(struct engine *e, const struct slot *s) {
    if (s->state == STATE_DEAD && slot_extra(&e->st, s)->is_unroutable)
        emit_gone(e, &(struct record_gone){.queue = queue_at(&e->st, s->queue)->number,
                                           .cause = GONE_PURGED,
                                           .count = 1,
                                           .ids = &(uint64_t){s->id}});
}

static void forget_where_it_died(struct engine *e, const struct slot *s) {
    struct renewal renewal;
    struct record_state unused = {0};
    size_t bytes = 0;
    renewal_plan(e, s, true, &bytes, &renewal);
    if (renewal.is_needed) {
        log_frame_begin(e->log, bytes);
        renewal_append(e, s, &renewal, &unused);
        log_frame_end(e->log);
    }
    renewal_release(&renewal);
}

static void forget_arrival(struct engine *e, struct slot *s) {
    uint32_t i = slot_find(&e->st, s->id);
    if (!s->extra)
        return;
    slot_detach(&e->st, i);
    extra_at(&e->st, s->extra)->arrival = 0;
    slot_attach(&e->st, i);
}

static void spoil_dead(struct world *w, uint64_t id) {
    struct engine *e = w->engine;
    uint32_t i = slot_find(&e->st, id);
    struct slot *s = i ? slot_at(&e->st, i) : NULL;
    if (!s)
        return;
    if (w->control == CONTROL_CIRCLE_DROPS)
        drop_unroutable(e, s);
    else if (w->control == CONTROL_DEATH_UNTOLD)
        forget_where_it_died(e, s);
    else if (w->control == CONTROL_ARRIVAL_FORGOTTEN)
        forget_arrival(e, s);
    else if (w->control == CONTROL_UNROUTABLE_UNMARKED && s->extra)
        extra_at(&e->st, s->extra)->is_unroutable = false;
}

void broker_spoil_after(struct world *w, const struct broker_op *op) {
    if (w->control < CONTROL_BROKERS)
        return;
    for (size_t i = 0; i < op->doing_count; i++)
        if (op->doings[i].is_death)
            spoil_dead(w, op->doings[i].id);
    if (w->control == CONTROL_BINDING_FORGOTTEN && op->kind == BROKER_BIND)
        apply_binding_gone(&w->engine->st, w->engine->st.topology.next_binding - 1);
}
