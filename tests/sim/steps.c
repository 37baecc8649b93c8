/* What happens in a step, by weighted chance. */
#include "sim/steps_int.h"

#include "base/clock.h"
#include "base/limits.h"

#define MESSAGES_MANY 350

int any_queue(struct world *w) {
    return dice(w, 3) ? (int)dice(w, 3) : (int)dice(w, MODEL_QUEUES);
}

/* -- producing ---------------------------------------------------------------------------------------- */

uint32_t any_size(struct world *w) {
    switch (dice(w, 20)) {
    case 0:
        return (uint32_t)(64 * 1024 + dice(w, 60 * 1024));
    case 1:
    case 2:
        return (uint32_t)dice(w, 20000);
    case 3:
        return 0;
    case 4:
    case 5:
    case 6:
    case 7:
        return (uint32_t)dice(w, 3000);
    default:
        return (uint32_t)dice(w, 150);
    }
}

void any_content(struct world *w, struct op_item *item, uint32_t bytes) {
    uint32_t tag = w->next_tag++;
    if (dice(w, 5) == 0) {
        item->payload = json_payload(tag, (int16_t)dice(w, 4));
        item->headers = json_headers((int16_t)((int16_t)dice(w, 3) - 1));
        return;
    }
    item->payload = content_of(tag, bytes);
    item->headers = content_of(tag, dice(w, 4) ? 0 : (uint32_t)dice(w, 100));
}

struct key any_key(struct world *w, uint32_t tag) {
    uint64_t luck = dice(w, 8);
    if (luck < 5)
        return shared_key((unsigned)dice(w, MODEL_SHARED_KEYS));
    return luck == 5 ? own_key(tag, (uint8_t)dice(w, 256)) : (struct key){0};
}

static void step_enqueue(struct world *w) {
    if (w->live.message_count > MESSAGES_MANY)
        return;
    int queue = any_queue(w);
    if (!w->live.queues[queue].exists && dice(w, 8))
        put_queue(w, queue);
    struct op *op = world_op(w, OP_ENQUEUE, queue);
    op->n = dice(w, 4) ? 1 : 1 + dice(w, dice(w, 4) ? 6 : MODEL_BATCH);
    for (size_t i = 0; i < op->n; i++) {
        struct op_item *item = &op->items[i];
        item->tag = w->next_tag++;
        any_content(w, item, i == 0 ? any_size(w) : (uint32_t)dice(w, 1500));
        item->key = any_key(w, item->tag);
        item->idempotency = dice(w, 5) ? 0 : (uint8_t)(1 + dice(w, 30));
        item->max_retries = dice(w, 3) ? 0 : (uint8_t)(1 + dice(w, 10));
        item->priority = dice(w, 3) ? 0 : (uint8_t)dice(w, PRIORITY_MAX + 1);
        item->delay_ms = dice(w, 6) ? -1 : (int64_t)dice(w, 5000);
        item->ttl_ms = dice(w, 6) ? -1 : (int64_t)dice(w, 3) * 7000;
    }
    world_run(w, op);
}

/* -- consuming -------------------------------------------------------------------------------------------- */

/* One that has something, mostly. */
static int busy_queue(struct world *w) {
    const struct model *m = &w->live;
    return m->message_count == 0 || dice(w, 2) ? any_queue(w)
                                               : m->messages[dice(w, m->message_count)].queue;
}

static void step_claim(struct world *w) {
    struct op *op = world_op(w, OP_CLAIM, busy_queue(w));
    op->claim.count = dice(w, 3) ? 1 : 1 + dice(w, MODEL_BATCH);
    op->claim.lease_ms = dice(w, 2) ? 0 : (int64_t)(1 + dice(w, 20)) * 1000;
    op->claim.bytes_max = dice(w, 3) ? SIZE_MAX : dice(w, 5000);
    op->worker = (uint8_t)dice(w, MODEL_WORKERS);
    op->version = (uint8_t)dice(w, MODEL_VERSIONS);
    world_run(w, op);
}

uint64_t any_message(struct world *w, int queue, enum state state) {
    const struct model *m = &w->live;
    if (m->message_count == 0 || dice(w, 40) == 0)
        return 1 + dice(w, m->next_id + 2);
    size_t start = dice(w, m->message_count);
    bool choosy = dice(w, 12) != 0;
    for (size_t i = 0; i < m->message_count; i++) {
        const struct model_message *x = &m->messages[(start + i) % m->message_count];
        if (!choosy || (x->queue == queue && x->state == state))
            return x->id;
    }
    return m->messages[start].id;
}

/* Mostly one of a few causes: each other one makes a group of its own. */
uint32_t any_error(struct world *w) {
    if (dice(w, 40) == 0 && w->live.group_count < MODEL_GROUPS / 2)
        return w->next_tag++;
    return cause_tag((unsigned)dice(w, CAUSES), (uint32_t)dice(w, 8));
}

static void step_settle(struct world *w) {
    struct op *op = world_op(w, OP_SETTLE, busy_queue(w));
    op->n = dice(w, 3) ? 1 : 1 + dice(w, 10);
    for (size_t i = 0; i < op->n; i++) {
        struct op_item *item = &op->items[i];
        item->id = any_message(w, op->queue, STATE_PROCESSING);
        const struct model_message *x = model_find(&w->live, item->id);
        uint64_t luck = dice(w, 10);
        item->lease = luck == 0 || !x ? 0 : luck == 1 ? (uint32_t)dice(w, 5) : x->deliveries;
        uint64_t action = dice(w, 10);
        item->action = action < 4   ? SETTLE_SUCCEED
                       : action < 8 ? SETTLE_FAIL
                       : action < 9 ? SETTLE_RELEASE
                                    : SETTLE_EXTEND;
        item->tag = any_error(w);
        item->permanent = dice(w, 5) == 0;
        item->delay_ms = dice(w, 5) ? -1 : (int64_t)dice(w, 4000);
        item->lease_ms = dice(w, 2) ? 0 : (int64_t)(1 + dice(w, 10)) * 1000;
    }
    world_run(w, op);
}

struct who any_who(struct world *w) {
    return (struct who){.actor = (uint8_t)dice(w, MODEL_ACTORS),
                        .reason = (uint8_t)dice(w, dice(w, 20) ? 3 : MODEL_REASONS)};
}

/* -- time ------------------------------------------------------------------------------------------------------------ */

static void step_clock(struct world *w) {
    uint64_t luck = dice(w, 100);
    if (luck < 60)
        w->now += (int64_t)dice(w, 300);
    else if (luck < 90)
        w->now += (int64_t)dice(w, 8000);
    else if (luck < 96)
        w->now += (int64_t)dice(w, 90000);
    else if (luck < 98)
        w->now += dice(w, 10) ? 3700 * 1000 : LIMIT_UNDISCARD_MS;
    else if (!w->blocked)
        w->now -= (int64_t)dice(w, 3000);
    if (dice(w, 5))
        world_tick(w);
}

/* -- reading ------------------------------------------------------------------------------------------------------------ */

static void step_read(struct world *w) {
    const struct model *m = &w->live;
    int queue = any_queue(w);
    struct list list = {.state = (int)dice(w, STATE_COUNT + 1) - 1,
                        .after = dice(w, 2) ? 0 : dice(w, m->next_id + 1),
                        .offset = dice(w, 2) ? 0 : dice(w, 10),
                        .limit = 1 + dice(w, 50)};
    uint64_t ids[LIMIT_BATCH];
    size_t n, k = 0, skip = list.offset;
    engine_list(w->engine, model_queue_name(queue), &list, ids, &n);
    for (size_t i = 0; i < m->message_count && k < list.limit; i++) {
        const struct model_message *x = &m->messages[i];
        if (x->queue != queue || x->id <= list.after ||
            (list.state < 0 ? x->state == STATE_DISCARDED
                            : model_state(m, x) != (enum state)list.state))
            continue;
        if (skip > 0) {
            skip--;
            continue;
        }
        if (k >= n || ids[k] != x->id)
            world_fail(w, "list: message %llu is missing", (unsigned long long)x->id);
        k++;
    }
    if (k != n)
        world_fail(w, "list: %zu messages, should be %zu", n, k);
    char text[256];
    for (size_t i = 0; i < n && i < 3; i++) {
        const struct model_message *x = model_find(&w->live, ids[i]);
        if (!model_same_message(m, w->engine, x, true, text, sizeof text))
            world_fail(w, "%s", text);
    }
}

/* -- the choice ------------------------------------------------------------------------------------------------------------- */

static const struct {
    void (*step)(struct world *w);
    unsigned weight;
} steps[] = {
    {step_enqueue, 200},    {step_claim, 220},    {step_settle, 220},    {step_replay, 24},
    {step_edit, 6},         {step_discard, 10},   {step_undiscard, 6},   {step_import, 5},
    {step_group, 6},        {step_job_start, 8},  {step_job_change, 12}, {step_clock, 100},
    {step_commit, 140},     {step_clean, 90},     {step_read, 30},       {step_letters, 10},
    {step_watch, 10},       {step_queue_put, 12}, {step_queue_pause, 6}, {step_queue_delete, 3},
    {step_turn_target, 12}, {step_crash, 4},      {step_fault, 3},       {world_compare, 1},
};

void world_step(struct world *w) {
    room_in_time(w);
    unsigned sum = 0;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        sum += steps[i].weight;
    uint64_t pick = dice(w, sum);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        if (pick < steps[i].weight) {
            steps[i].step(w);
            return;
        }
        pick -= steps[i].weight;
    }
}

void world_step_of(struct world *w, unsigned kind) {
    room_in_time(w);
    steps[kind % (sizeof steps / sizeof *steps)].step(w);
}

/* -- the end ------------------------------------------------------------------------------------------------------------------ */

static uint64_t unfinished(const struct world *w) {
    uint64_t n = 0;
    for (int q = 0; q < MODEL_QUEUES; q++)
        n += model_unfinished(&w->live, q);
    return n;
}

static void succeed_all(struct world *w, int queue) {
    struct op *op = world_op(w, OP_CLAIM, queue);
    op->claim.count = MODEL_BATCH;
    op->claim.bytes_max = SIZE_MAX;
    world_run(w, op);
    op = world_op(w, OP_SETTLE, queue);
    for (size_t i = 0; i < w->live.message_count && op->n < MODEL_BATCH; i++) {
        const struct model_message *x = &w->live.messages[i];
        if (x->queue == queue && x->state == STATE_PROCESSING)
            op->items[op->n++] = (struct op_item){
                .action = SETTLE_SUCCEED, .id = x->id, .lease = x->deliveries, .delay_ms = -1};
    }
    if (op->n == 0)
        op->items[op->n++] = (struct op_item){.action = SETTLE_SUCCEED, .id = 1, .delay_ms = -1};
    world_run(w, op);
}

static void resume_all(struct world *w) {
    for (int q = 0; q < MODEL_QUEUES; q++)
        if (w->live.queues[q].paused_at)
            world_run(w, world_op(w, OP_QUEUE_PAUSE, q));
}

/* Parked ones wait for a decision. */
static void decide_heads(struct world *w) {
    for (size_t i = 0; i < w->live.message_count; i++) {
        const struct model_message *x = &w->live.messages[i];
        if (!model_parks(&w->live, x))
            continue;
        struct op *op = world_op(w, OP_DISCARD, x->queue);
        op->id = x->id;
        op->why = DISCARD_OBSOLETE;
        world_run(w, op);
    }
}

void world_settle_all(struct world *w) {
    crash_io_fail(w->disk, 0, 0, 0, 0);
    room_again(w);
    (void)world_commit(w);
    resume_all(w);
    for (int round = 0; !jobs_go_on(w) || unfinished(w) > 0; round++) {
        if (round > 5000)
            world_fail(w, "%llu messages and %llu jobs are never done",
                       (unsigned long long)unfinished(w),
                       (unsigned long long)model_active_jobs(&w->live));
        world_tick(w);
        decide_heads(w);
        for (int q = 0; q < MODEL_QUEUES; q++)
            if (w->live.queues[q].exists)
                succeed_all(w, q);
        (void)world_commit(w);
        world_clean(w);
        world_tick(w);
        if (w->next_due != TIME_NEVER)
            w->now = w->next_due;
    }
    (void)world_commit(w);
    world_compare(w);
    world_crash(w, true);
    (void)world_commit(w);
    world_compare(w);
}
