/* What happens in a step of the world of brokers, by weighted chance. */
#include "sim/broker_world.h"

#include "base/clock.h"
#include "base/limits.h"
#include "sim/steps_int.h"

#define MESSAGES_MANY 250
#define BINDINGS_MANY 25

/* -- names and keys ----------------------------------------------------------------------------------- */

static bool luck(struct world *w, uint64_t one_in) {
    return dice(w, one_in) == 0;
}

static uint8_t any_vhost(struct world *w) {
    return (uint8_t)(dice(w, 6) ? 0 : dice(w, VHOSTS));
}

static struct place any_queue_name(struct world *w, uint8_t vhost) {
    uint64_t n = dice(w, 3) ? dice(w, 5) : dice(w, TEXT_QUEUES);
    return (struct place){vhost, (uint8_t)(TEXT_QUEUE + n)};
}

static struct place any_exchange_name(struct world *w, uint8_t vhost) {
    uint64_t n = dice(w, 10);
    uint64_t text = n == 0   ? 0
                    : n == 1 ? TEXT_ABSENT
                    : n < 5  ? TEXT_AMQ + dice(w, TEXT_AMQS)
                             : TEXT_EXCHANGE + dice(w, TEXT_EXCHANGES);
    return (struct place){vhost, (uint8_t)text};
}

static uint8_t any_text(struct world *w) {
    uint64_t n = dice(w, 8);
    return (uint8_t)(n == 0  ? 0
                     : n < 4 ? TEXT_QUEUE + dice(w, TEXT_QUEUES)
                             : TEXT_KEY + dice(w, TEXT_KEYS));
}

/* A binding from an exchange of that vhost, or from that one; NULL = there is none. */
static const struct broker_binding *some_binding(struct world *w, struct place from, bool is_any) {
    struct broker *b = &w->broker->live;
    size_t start = b->binding_count ? dice(w, b->binding_count) : 0;
    for (size_t i = 0; i < b->binding_count; i++) {
        const struct broker_binding *l = &b->bindings[(start + i) % b->binding_count];
        struct place name = broker_exchange_of(b, l->from)->name;
        if (name.vhost == from.vhost && (is_any || name.text == from.text))
            return l;
    }
    return NULL;
}

/* One that is there, mostly. */
static struct place some_queue(struct world *w) {
    const struct broker *b = &w->broker->live;
    if (b->message_count > 0 && dice(w, 2)) {
        uint64_t number = b->messages[dice(w, b->message_count)].queue;
        return broker_queue_of(&w->broker->live, number)->name;
    }
    if (b->queue_count > 0 && dice(w, 8))
        return b->queues[dice(w, b->queue_count)].name;
    return any_queue_name(w, any_vhost(w));
}

static struct place some_exchange(struct world *w) {
    const struct broker *b = &w->broker->live;
    if (dice(w, 8))
        return b->exchanges[dice(w, b->exchange_count)].name;
    return any_exchange_name(w, any_vhost(w));
}

static void tick(struct world *w) {
    broker_run(w, broker_op(w, BROKER_TICK, (struct place){0}));
}

/* -- topology --------------------------------------------------------------------------------------------- */

static void step_vhost(struct world *w) {
    struct place name = {.vhost = (uint8_t)dice(w, VHOSTS)};
    broker_run(w, broker_op(w, BROKER_VHOST, name));
}

static void step_exchange(struct world *w) {
    struct place name = any_exchange_name(w, any_vhost(w));
    if (name.text < TEXT_EXCHANGE || name.text == TEXT_ABSENT)
        name.text = TEXT_EXCHANGE;
    struct broker_op *op = broker_op(w, BROKER_EXCHANGE, name);
    op->exchange =
        (struct broker_exchange){.type = (enum exchange_type)dice(w, 4),
                                 .durable = dice(w, 3) != 0,
                                 .auto_delete = luck(w, 2),
                                 .internal = luck(w, 8),
                                 .alternate = dice(w, 3) ? NO_TEXT : any_exchange_name(w, 0).text};
    broker_run(w, op);
}

static void step_exchange_delete(struct world *w) {
    struct place name = some_exchange(w);
    if (name.text < TEXT_EXCHANGE) /* AMQP says no */
        return;
    struct broker_op *op = broker_op(w, BROKER_EXCHANGE_DELETE, name);
    op->if_unused = luck(w, 3);
    broker_run(w, op);
}

static void fill_binding(struct world *w, struct broker_op *op) {
    op->to_exchange = luck(w, 3);
    op->to =
        op->to_exchange ? any_exchange_name(w, op->name.vhost) : any_queue_name(w, op->name.vhost);
    const struct broker_exchange *x = broker_exchange_at(&w->broker->live, op->name);
    bool is_topic = x && x->type == EXCHANGE_TOPIC;
    op->keys[0] = luck(w, 3) ? any_text(w)
                  : is_topic ? (uint8_t)(TEXT_KEY + 10 + dice(w, TEXT_KEYS - 10))
                             : any_queue_name(w, 0).text;
    bool is_by_headers = x && x->type == EXCHANGE_HEADERS;
    op->arguments = (uint8_t)(dice(w, 3) == 0 || is_by_headers ? dice(w, TABLES) : 0);
    if (op->name.text == 0) /* AMQP says no */
        op->name.text = TEXT_AMQ + 1;
    if (op->to_exchange && op->to.text == 0)
        op->to.text = TEXT_EXCHANGE;
}

static void step_bind(struct world *w) {
    if (w->broker->live.binding_count > BINDINGS_MANY)
        return;
    struct broker_op *op = broker_op(w, BROKER_BIND, some_exchange(w));
    if (luck(w, 3)) /* so that it leads to several */
        op->name = (struct place){.text = TEXT_AMQ + 1};
    fill_binding(w, op);
    broker_run(w, op);
}

static void step_unbind(struct world *w) {
    const struct broker *b = &w->broker->live;
    struct broker_op *op = broker_op(w, BROKER_UNBIND, some_exchange(w));
    fill_binding(w, op);
    if (b->binding_count > 0 && dice(w, 8)) {
        const struct broker_binding *l = &b->bindings[dice(w, b->binding_count)];
        op->name = broker_exchange_of(&w->broker->live, l->from)->name;
        op->to = l->to_exchange ? broker_exchange_of(&w->broker->live, l->to)->name
                                : broker_queue_of(&w->broker->live, l->to)->name;
        op->to_exchange = l->to_exchange;
        op->keys[0] = l->key;
        op->arguments = l->arguments;
    }
    broker_run(w, op);
}

/* -- queues and policies ---------------------------------------------------------------------------------- */

/* Where dead letters go: mostly to one queue, so that there are not ever more of them. */
static void any_dead_letters(struct world *w, struct settings *s) {
    uint64_t n = dice(w, 8);
    if (n < 2)
        return;
    const struct broker_binding *l = some_binding(w, (struct place){0}, true);
    s->dlx = n < 4 ? 0 : any_exchange_name(w, 0).text;
    if (n >= 5 && l)
        s->dlx = broker_exchange_of(&w->broker->live, l->from)->name.text;
    if (dice(w, 3))
        s->dlrk = n >= 5 && l && dice(w, 3) ? l->key : any_queue_name(w, 0).text;
}

/* Only few queues have a length: with many of them that send to each other, one death would be
 * thousands. */
static void any_lengths(struct world *w, struct settings *s) {
    static const int64_t lengths[] = {0, 1, 2, 3, 5, 10};
    if (dice(w, 3))
        s->length = lengths[dice(w, 6)];
    if (luck(w, 3))
        s->bytes = (int64_t)dice(w, 3000);
    if (dice(w, 2))
        s->overflow = (int)dice(w, 3);
}

static void any_rest(struct world *w, struct settings *s) {
    static const int64_t times[] = {0, 1, 20, 200, 2000, 20000};
    if (luck(w, 3))
        s->ttl_ms = times[dice(w, 6)];
    if (luck(w, 4))
        s->limit = (int64_t)dice(w, 5) - 1;
    if (luck(w, 8))
        s->expires_ms = 1 + (int64_t)dice(w, 100000);
}

static struct broker_declare any_declare(struct world *w, struct place name) {
    struct broker_declare d = {.durable = dice(w, 5) != 0,
                               .exclusive = luck(w, 12),
                               .auto_delete = luck(w, 8),
                               .is_quorum = luck(w, 3),
                               .settings = settings_none()};
    any_dead_letters(w, &d.settings);
    if (d.settings.dlx < 0)
        d.settings.dlrk = NO_TEXT; /* AMQP says no */
    if (name.text < TEXT_QUEUE + 3)
        any_lengths(w, &d.settings);
    any_rest(w, &d.settings);
    if (luck(w, 4))
        d.settings.priority = (int)(dice(w, 3) ? dice(w, 12) : 255);
    d.settings.keeps = luck(w, 4);
    return d;
}

static void declare(struct world *w, struct place name) {
    struct broker_op *op = broker_op(w, BROKER_DECLARE, name);
    op->declare = any_declare(w, name);
    broker_run(w, op);
}

static void step_declare(struct world *w) {
    declare(w, any_queue_name(w, any_vhost(w)));
}

static void step_queue_native(struct world *w) {
    struct broker_op *op = broker_op(w, BROKER_QUEUE_PUT, some_queue(w));
    struct policy p = policy_default();
    p.max_retries = (uint8_t)(1 + dice(w, 4));
    p.backoff.kind = BACKOFF_FIXED;
    p.backoff.base_ms = (int64_t)dice(w, 3) * 500;
    p.lease_ms = 500 + (int64_t)dice(w, 5000);
    p.delay_ms = dice(w, 5) ? 0 : (int64_t)dice(w, 1000);
    p.ttl_ms = dice(w, 5) ? 0 : 100 + (int64_t)dice(w, 5000);
    p.messages_max = dice(w, 3) ? 0 : 1 + dice(w, 20);
    p.overflow = dice(w, 2) ? OVERFLOW_DEAD : OVERFLOW_REJECT;
    p.redrive_limit = (uint32_t)dice(w, 4);
    p.keep_succeeded_ms = 1000;
    op->native = (struct broker_native){.policy = p,
                                        .target = dice(w, 2) ? NO_TEXT : any_queue_name(w, 0).text};
    broker_run(w, op);
}

static void delete_queue(struct world *w, struct place name, bool discard) {
    struct broker_op *op = broker_op(w, BROKER_QUEUE_DELETE, name);
    op->discard = discard;
    broker_run(w, op);
}

static void step_queue_gone(struct world *w) {
    delete_queue(w, some_queue(w), dice(w, 3) != 0);
}

static void step_purge(struct world *w) {
    broker_run(w, broker_op(w, BROKER_PURGE, some_queue(w)));
}

static void step_policy(struct world *w) {
    struct broker_op *op = broker_op(w, BROKER_POLICY, (struct place){0});
    struct settings s = settings_none();
    uint8_t pattern = (uint8_t)dice(w, PATTERNS);
    if (dice(w, 2))
        any_dead_letters(w, &s);
    if (pattern < 2) /* few queues */
        any_lengths(w, &s);
    any_rest(w, &s);
    if (luck(w, 2))
        s.alternate = any_exchange_name(w, 0).text;
    op->policy = (struct broker_policy){.vhost = any_vhost(w),
                                        .name = (uint8_t)dice(w, POLICY_NAMES),
                                        .pattern = pattern,
                                        .applies = (enum policy_applies)dice(w, 5),
                                        .priority = (int)dice(w, 4) - 1,
                                        .settings = s};
    broker_run(w, op);
}

static void step_policy_gone(struct world *w) {
    struct broker_op *op = broker_op(w, BROKER_POLICY_DELETE, (struct place){0});
    op->policy.vhost = any_vhost(w);
    op->policy.name = (uint8_t)dice(w, POLICY_NAMES);
    broker_run(w, op);
}

/* -- producing -------------------------------------------------------------------------------------------- */

/* What is too much goes: what is rejected in queues that lead to many others only grows. */
static bool is_crowded(struct world *w) {
    const struct broker *b = &w->broker->live;
    if (b->message_count < MESSAGES_MANY)
        return false;
    struct place name = some_queue(w);
    if (dice(w, 2))
        broker_run(w, broker_op(w, BROKER_PURGE, name));
    else
        delete_queue(w, name, true);
    return true;
}

static uint32_t any_bytes(struct world *w) {
    return (uint32_t)(dice(w, 6) ? dice(w, 150) : dice(w, 1500));
}

static void step_publish(struct world *w) {
    if (is_crowded(w))
        return;
    struct place name = some_exchange(w);
    if (dice(w, 3) == 0)
        name.text = 0;
    struct broker_op *op = broker_op(w, BROKER_PUBLISH, name);
    op->key_count = (uint8_t)(dice(w, 4) ? 1 : 1 + dice(w, BROKER_KEYS));
    op->bcc_count = (uint8_t)(dice(w, 2) ? 0 : dice(w, op->key_count));
    for (int i = 0; i < op->key_count; i++) {
        const struct broker_binding *l = some_binding(w, name, false);
        op->keys[i] = name.text == 0 && dice(w, 8) ? some_queue(w).text
                      : l && dice(w, 2)            ? l->key
                                                   : any_text(w);
    }
    op->headers = (uint8_t)(dice(w, 2) ? 0 : dice(w, TABLE_HEADERS));
    op->priority = (uint8_t)(dice(w, 2) ? 0 : dice(w, 12));
    op->expiration_ms = dice(w, 4) ? -1 : (int64_t)dice(w, 4) * 700;
    op->tag = w->next_tag++;
    op->bytes = dice(w, 30) ? any_bytes(w) : (uint32_t)dice(w, 8000);
    broker_run(w, op);
}

static void step_send(struct world *w) {
    if (is_crowded(w))
        return;
    struct broker_op *op = broker_op(w, BROKER_ENQUEUE, some_queue(w));
    op->n = dice(w, 2) ? 1 : 1 + dice(w, 3);
    for (size_t i = 0; i < op->n; i++)
        op->items[i] =
            (struct broker_item){.tag = w->next_tag++,
                                 .bytes = any_bytes(w),
                                 .headers = (uint8_t)(dice(w, 3) ? 0 : dice(w, TABLE_HEADERS)),
                                 .priority = (uint8_t)(dice(w, 3) ? 0 : dice(w, PRIORITY_MAX + 1)),
                                 .delay_ms = dice(w, 5) ? -1 : (int64_t)dice(w, 2000),
                                 .ttl_ms = dice(w, 5) ? -1 : (int64_t)dice(w, 3) * 900};
    broker_run(w, op);
}

/* -- consuming -------------------------------------------------------------------------------------------- */

static void step_take(struct world *w) {
    struct broker_op *op = broker_op(w, BROKER_CLAIM, some_queue(w));
    op->claim.count = dice(w, 2) ? 1 : 1 + dice(w, BROKER_BATCH);
    op->claim.lease_ms = dice(w, 3) ? CLAIM_HELD : dice(w, 2) ? 0 : 100 + (int64_t)dice(w, 3000);
    op->claim.bytes_max = dice(w, 4) ? SIZE_MAX : dice(w, 2000);
    broker_run(w, op);
}

static uint64_t some_message(struct world *w, const struct broker_queue *q, enum state state) {
    const struct broker *b = &w->broker->live;
    size_t start = b->message_count ? dice(w, b->message_count) : 0;
    for (size_t i = 0; q && i < b->message_count; i++) {
        const struct broker_message *x = &b->messages[(start + i) % b->message_count];
        if (x->queue == q->number && x->state == state)
            return x->id;
    }
    return b->message_count && dice(w, 8) ? b->messages[start].id : b->next_id + 1000;
}

static void step_settle(struct world *w) {
    static const enum settle_action actions[] = {
        SETTLE_SUCCEED, SETTLE_REJECT, SETTLE_REJECT,  SETTLE_RETURN, SETTLE_RETURN,
        SETTLE_FAIL,    SETTLE_FAIL,   SETTLE_RELEASE, SETTLE_EXTEND, SETTLE_REJECT};
    struct broker_op *op = broker_op(w, BROKER_SETTLE, some_queue(w));
    const struct broker_queue *q = broker_queue_at(&w->broker->live, op->name);
    op->n = dice(w, 3) ? 1 : 1 + dice(w, 5);
    for (size_t i = 0; i < op->n; i++) {
        struct broker_item *item = &op->items[i];
        item->id = some_message(w, q, STATE_PROCESSING);
        for (size_t k = 0; k < i; k++)
            if (op->items[k].id == item->id) /* once each */
                item->id = w->broker->live.next_id + 1000 + i;
        const struct broker_message *x = broker_find(&w->broker->live, item->id);
        uint64_t n = dice(w, 10);
        item->lease = n == 0 ? (uint32_t)dice(w, 4) : n < 4 || !x ? 0 : x->deliveries;
        item->action = actions[dice(w, sizeof actions / sizeof *actions)];
        if (w->broker->live.message_count > MESSAGES_MANY && item->action == SETTLE_REJECT)
            item->action = SETTLE_SUCCEED;
        item->permanent = luck(w, 4);
        item->tells = luck(w, 2);
        item->delay_ms = item->action == SETTLE_RELEASE && dice(w, 2) ? (int64_t)dice(w, 2000) : -1;
        item->lease_ms = dice(w, 2) ? 0 : 100 + (int64_t)dice(w, 2000);
    }
    broker_run(w, op);
}

static void step_letter(struct world *w) {
    static const enum broker_op_kind kinds[] = {BROKER_REPLAY, BROKER_REPLAY, BROKER_DISCARD,
                                                BROKER_EDIT};
    enum broker_op_kind kind = kinds[dice(w, 4)];
    struct broker_op *op = broker_op(w, kind, some_queue(w));
    op->id = some_message(w, broker_queue_at(&w->broker->live, op->name), STATE_DEAD);
    op->force = dice(w, 3) != 0;
    op->clear_deaths = luck(w, 3);
    op->has_payload = luck(w, 2);
    op->has_headers = luck(w, 2);
    op->headers = (uint8_t)dice(w, TABLE_HEADERS);
    op->tag = w->next_tag++;
    op->bytes = any_bytes(w);
    broker_run(w, op);
}

/* All letters of a queue: they go in the next tick. */
static void step_redrive(struct world *w) {
    struct broker_op *op = broker_op(w, BROKER_JOB, some_queue(w));
    op->has_to = luck(w, 3);
    op->to = some_queue(w);
    op->clear_deaths = luck(w, 3);
    broker_run(w, op);
    if (dice(w, 4))
        tick(w);
}

/* Whoever died most goes on and on, so that there are some with many deaths. */
static void step_wander(struct world *w) {
    struct broker *b = &w->broker->live;
    const struct broker_message *x = NULL;
    for (size_t i = 0; i < b->message_count; i++)
        if (!x || b->messages[i].envelope.death_count > x->envelope.death_count)
            x = &b->messages[i];
    if (!x || is_crowded(w))
        return;
    struct place name = broker_queue_of(b, x->queue)->name;
    struct broker_op *op = broker_op(w,
                                     x->state == STATE_DEAD         ? BROKER_REPLAY
                                     : x->state == STATE_PROCESSING ? BROKER_SETTLE
                                                                    : BROKER_CLAIM,
                                     name);
    op->id = x->state == STATE_DEAD ? x->id : 0;
    op->force = true;
    op->claim =
        (struct claim){.count = BROKER_BATCH, .lease_ms = CLAIM_HELD, .bytes_max = SIZE_MAX};
    if (op->kind == BROKER_SETTLE) {
        op->n = 1;
        op->items[0] = (struct broker_item){
            .id = x->id, .delay_ms = -1, .action = dice(w, 2) ? SETTLE_REJECT : SETTLE_RETURN};
    }
    broker_run(w, op);
}

/* Queues that name nothing send to another one. */
static void step_turn(struct world *w) {
    struct broker_op *op = broker_op(w, BROKER_POLICY, (struct place){0});
    struct settings s = settings_none();
    struct place to = any_queue_name(w, 0);
    s.dlx = dice(w, 3) ? 0 : TEXT_AMQ + 1;
    s.dlrk = to.text;
    s.limit = (int64_t)dice(w, 3);
    op->policy = (struct broker_policy){.pattern = 2, .priority = 3, .settings = s};
    broker_run(w, op);
    declare(w, to);
}

/* -- time ------------------------------------------------------------------------------------------------- */

static void step_time(struct world *w) {
    uint64_t n = dice(w, 100);
    if (n < 50)
        w->now += (int64_t)dice(w, 30);
    else if (n < 85)
        w->now += (int64_t)dice(w, 600);
    else if (n < 98)
        w->now += (int64_t)dice(w, 8000);
    else
        w->now += dice(w, 4) ? 3700 * 1000 : LIMIT_UNDISCARD_MS;
    if (dice(w, 4))
        tick(w);
}

/* With a full disk: until what is kept for settling is used up, too. */
static void step_storm(struct world *w) {
    struct log *log = w->log;
    for (int i = 0; i < 150 && w->log == log && log_stats(log).full; i++)
        step_wander(w);
}

/* Mostly it stays small for long. */
static void step_disk_fails(struct world *w) {
    step_fault(w);
    if (w->capacity_until)
        w->capacity_until += dice(w, 3000);
}

/* -- the choice ------------------------------------------------------------------------------------------- */

static const struct {
    void (*step)(struct world *w);
    unsigned weight;
} steps[] = {
    {step_vhost, 2},      {step_exchange, 20}, {step_exchange_delete, 6}, {step_bind, 40},
    {step_unbind, 25},    {step_declare, 45},  {step_queue_native, 15},   {step_queue_gone, 12},
    {step_purge, 4},      {step_policy, 14},   {step_policy_gone, 14},    {step_publish, 330},
    {step_send, 50},      {step_take, 170},    {step_settle, 220},        {step_letter, 35},
    {step_redrive, 8},    {step_wander, 140},  {step_turn, 24},           {step_time, 110},
    {step_commit, 140},   {step_clean, 70},    {step_crash, 5},           {step_storm, 20},
    {step_disk_fails, 3}, {broker_compare, 8},
};

void broker_step(struct world *w) {
    room_in_time(w);
    unsigned sum = 0;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        sum += steps[i].weight;
    uint64_t pick = dice(w, sum);
    size_t i = 0;
    for (; pick >= steps[i].weight; i++)
        pick -= steps[i].weight;
    steps[i].step(w);
}

/* -- the end ---------------------------------------------------------------------------------------------- */

/* All leases and times to live end, and everything is purged, discarded and deleted. */
void broker_settle_all(struct world *w) {
    struct broker *b = &w->broker->live;
    crash_io_fail(w->disk, 0, 0, 0, 0);
    room_again(w);
    (void)world_commit(w);
    for (int round = 0; w->next_due != TIME_NEVER && round < 50; round++) {
        w->now = w->next_due > w->now ? w->next_due : w->now;
        tick(w);
        (void)world_commit(w);
        world_clean(w);
    }
    broker_compare(w);
    world_crash(w, true);
    while (b->queue_count > 0)
        delete_queue(w, b->queues[0].name, true);
    (void)world_commit(w);
    tick(w);
    broker_compare(w);
    world_crash(w, true);
    (void)world_commit(w);
    broker_compare(w);
}
