/* The model's operations, done in the engine; replies and what was touched, compared. */
#include "sim/world.h"

#include "base/limits.h"

#include <assert.h>
#include <string.h>

/* Bytes of one operation, kept until the next. */
static struct span keep(struct span s) {
    static uint8_t bytes[4 << 20];
    static size_t used;
    if (!s.p && !s.n) {
        used = 0;
        return s;
    }
    assert(used + s.n <= sizeof bytes);
    memcpy(bytes + used, s.p ? s.p : bytes, s.n);
    used += s.n;
    return span_of(bytes + used - s.n, s.n);
}

static void keep_none(void) {
    (void)keep((struct span){0});
}

/* -- producing and consuming --------------------------------------------------------------------------- */

static struct span keep_payload(const struct op_item *item) {
    struct span s = payload_bytes(0, &item->payload);
    return s.p ? keep(s) : s;
}

static struct span keep_headers(const struct op_item *item) {
    struct span s = headers_bytes(1, &item->headers);
    return s.p ? keep(s) : s;
}

static enum err do_enqueue(struct world *w, struct op *op, struct outcome *got) {
    struct message_new items[MODEL_BATCH];
    struct enqueued done[MODEL_BATCH];
    uint8_t idempotency[MODEL_BATCH];
    keep_none();
    for (size_t i = 0; i < op->n; i++) {
        const struct op_item *item = &op->items[i];
        idempotency[i] = item->idempotency;
        items[i] = (struct message_new){.payload = keep_payload(item),
                                        .headers = keep_headers(item),
                                        .key = keep(key_bytes(item->key)),
                                        .idempotency_key =
                                            span_of(&idempotency[i], item->idempotency != 0),
                                        .max_retries = item->max_retries,
                                        .priority = item->priority,
                                        .delay_ms = item->delay_ms,
                                        .ttl_ms = item->ttl_ms};
    }
    enum err e =
        engine_enqueue(w->engine, op->now, model_queue_name(op->queue), items, op->n, done);
    for (size_t i = 0; e == OK && i < op->n; i++) {
        got->ids[i] = done[i].id;
        got->duplicates[i] = done[i].duplicate;
        got->n = op->n;
    }
    return e;
}

static enum err do_claim(struct world *w, struct op *op, struct outcome *got) {
    op->claim.worker = model_worker(op->worker);
    op->claim.worker_version = model_version(op->version);
    return engine_claim(w->engine, op->now, model_queue_name(op->queue), &op->claim, got->ids,
                        &got->n);
}

static enum err do_settle(struct world *w, struct op *op, struct outcome *got) {
    struct settle items[MODEL_BATCH];
    for (size_t i = 0; i < op->n; i++) {
        const struct op_item *item = &op->items[i];
        items[i] = (struct settle){.action = item->action,
                                   .id = item->id,
                                   .lease = item->lease,
                                   .delay_ms = item->delay_ms,
                                   .lease_ms = item->lease_ms,
                                   .permanent = item->permanent};
        if (item->action != SETTLE_FAIL)
            continue;
        items[i].error = model_error(item->tag);
        items[i].error_class = model_error_class(item->tag);
        items[i].detail = model_detail(item->tag);
        items[i].fingerprint = model_fingerprint(item->tag);
    }
    return engine_settle(w->engine, op->now, model_queue_name(op->queue), items, op->n,
                         got->results);
}

/* -- letters ------------------------------------------------------------------------------------------- */

static enum err do_replay(struct world *w, struct op *op, struct outcome *got) {
    (void)got;
    const struct act act = model_act(op->who);
    if (world_replay_spoilt(w, op))
        return OK;
    return engine_replay(w->engine, op->now, model_queue_name(op->queue), op->id, op->force, false,
                         &act);
}

static enum err do_edit(struct world *w, struct op *op, struct outcome *got) {
    const struct act act = model_act(op->who);
    const struct op_item *item = &op->items[0];
    keep_none();
    const struct edit edit = {.has_payload = op->has_payload,
                              .has_headers = op->has_headers,
                              .payload = keep_payload(item),
                              .headers = keep_headers(item),
                              .force = op->force};
    enum err e = engine_edit(w->engine, op->now, model_queue_name(op->queue), op->id, &edit, &act,
                             &got->ids[0]);
    got->n = e == OK;
    return e;
}

static enum err do_discard(struct world *w, struct op *op, struct outcome *got) {
    (void)got;
    const struct act act = model_act(op->who);
    return engine_discard(w->engine, op->now, model_queue_name(op->queue), op->id, op->why, &act);
}

static enum err do_undiscard(struct world *w, struct op *op, struct outcome *got) {
    (void)got;
    const struct act act = model_act(op->who);
    return engine_undiscard(w->engine, op->now, model_queue_name(op->queue), op->id, &act);
}

#define ATTEMPTS_MAX 16

static size_t attempts_of(const struct op_item *item, struct letter_attempt *ret) {
    size_t n = 0;
    for (uint32_t i = 1; i <= item->failures; i++) {
        int64_t at = item->created_at + 2 * i;
        struct letter_attempt a = {.event = EVENT_CLAIMED,
                                   .attempt = i,
                                   .at = at,
                                   .worker = model_worker(item->worker),
                                   .worker_version = model_version(item->version)};
        ret[n++] = a;
        a.event = EVENT_FAILED;
        a.at = at + 1;
        a.error_class = error_class_kept(item->tag);
        a.error = error_kept(item->tag);
        a.detail = detail_kept(item->tag);
        a.fingerprint = span_cut_utf8(model_fingerprint(item->tag), LIMIT_FINGERPRINT);
        ret[n++] = a;
    }
    if (item->replayed_by)
        ret[n++] = (struct letter_attempt){.event = EVENT_REPLAYED,
                                           .attempt = item->failures,
                                           .at = item->died_at,
                                           .worker = model_actor_kept(item->replayed_by)};
    assert(n <= ATTEMPTS_MAX);
    return n;
}

static enum err do_import(struct world *w, struct op *op, struct outcome *got) {
    struct letter_new items[MODEL_BATCH];
    static struct letter_attempt attempts[MODEL_BATCH][ATTEMPTS_MAX];
    const struct act act = model_act(op->who);
    keep_none();
    for (size_t i = 0; i < op->n; i++) {
        const struct op_item *item = &op->items[i];
        items[i] = (struct letter_new){.id = item->id,
                                       .payload = keep_payload(item),
                                       .headers = keep_headers(item),
                                       .key = keep(key_bytes(item->key)),
                                       .max_retries = item->max_retries,
                                       .retry_count = item->retry_count,
                                       .priority = item->priority,
                                       .reason = item->reason,
                                       .deliveries = item->failures,
                                       .redrive_count = item->redrive_count,
                                       .created_at = item->created_at,
                                       .died_at = item->died_at,
                                       .first_failed_at = item->failures ? item->created_at + 3 : 0,
                                       .ttl_ms = item->ttl_ms,
                                       .origin = model_queue_or_none(item->origin),
                                       .attempts = attempts[i],
                                       .attempt_count = attempts_of(item, attempts[i])};
    }
    return engine_import(w->engine, op->now, model_queue_name(op->queue), items, op->n, op->dry_run,
                         &act, got->imported);
}

static enum err do_group(struct world *w, struct op *op, struct outcome *got) {
    (void)got;
    const struct act act = model_act(op->who);
    op->change.owner = model_owner(op->owner);
    op->change.note = model_note(op->note);
    return engine_group_change(w->engine, op->now, op->group, &op->change, &act);
}

/* -- jobs ---------------------------------------------------------------------------------------------- */

struct job_new world_job_new(const struct op *op) {
    const struct op_job *p = &op->job;
    return (struct job_new){.kind = p->kind,
                            .queue =
                                op->queue >= 0 ? model_queue_name(op->queue) : (struct span){0},
                            .filter = letter_filter_text(&p->filter),
                            .act = model_act(op->who),
                            .to = p->to >= 0 ? model_queue_name(p->to) : (struct span){0},
                            .patch = patch_text(p->patch, p->patch_k),
                            .rate_milli = p->rate_milli,
                            .sample = p->sample,
                            .stop_if_ppm = p->stop_if_ppm,
                            .force = p->force,
                            .why = op->why};
}

static enum err do_job_start(struct world *w, struct op *op, struct outcome *got) {
    const struct job_new job = world_job_new(op);
    uint32_t number = 0;
    enum err e = engine_job_start(w->engine, op->now, &job, &number);
    got->ids[0] = number;
    got->n = e == OK;
    return e;
}

static enum err do_job_change(struct world *w, struct op *op, struct outcome *got) {
    (void)got;
    const struct act act = model_act(op->who);
    return engine_job_change(w->engine, op->now, op->job.number, &op->job.change, &act);
}

/* -- queues and time ----------------------------------------------------------------------------------- */

static enum err do_queue_put(struct world *w, struct op *op, struct outcome *got) {
    static const struct queue_texts none;
    const struct policy_texts texts = model_policy_texts(op->has_policy ? &op->texts : &none);
    const struct act act = model_act(op->who);
    return engine_queue_put(w->engine, op->now, model_queue_name(op->queue),
                            op->has_policy ? &op->policy : NULL, &texts, &act, &got->created);
}

static enum err do_queue_pause(struct world *w, struct op *op, struct outcome *got) {
    (void)got;
    const struct act act = model_act(op->who);
    return engine_queue_pause(w->engine, op->now, model_queue_name(op->queue), op->paused, &act);
}

static enum err do_queue_delete(struct world *w, struct op *op, struct outcome *got) {
    (void)got;
    const struct act act = model_act(op->who);
    return engine_queue_delete(w->engine, op->now, model_queue_name(op->queue), op->discard, &act);
}

static enum err do_watch(struct world *w, struct op *op, struct outcome *got) {
    (void)got;
    struct queue *q;
    enum err e = engine_watch(w->engine, op->now, model_queue_name(op->queue), &q);
    if (e != OK)
        return e;
    if (w->watched)
        engine_unwatch(w->engine, w->watched);
    w->watched = q;
    while (engine_woken(w->engine))
        ;
    return OK;
}

static enum err do_tick(struct world *w, struct op *op, struct outcome *got) {
    (void)got;
    int64_t next = op->now;
    world_spoil_tick(w, true);
    for (unsigned calls = 0; next <= op->now; calls++) {
        if (calls > 10000)
            world_fail(w, "the tick does not end");
        next = engine_tick(w->engine, op->now);
    }
    world_spoil_tick(w, false);
    w->next_due = next;
    op->full = w->blocked = op->full && next <= op->now + 1000 && log_stats(w->log).full;
    return OK;
}

static const struct {
    const char *name;
    enum err (*act)(struct world *w, struct op *op, struct outcome *got);
} ops[] = {
    [OP_ENQUEUE] = {"enqueue", do_enqueue},
    [OP_CLAIM] = {"claim", do_claim},
    [OP_SETTLE] = {"settle", do_settle},
    [OP_REPLAY] = {"replay", do_replay},
    [OP_EDIT] = {"edit", do_edit},
    [OP_DISCARD] = {"discard", do_discard},
    [OP_UNDISCARD] = {"undiscard", do_undiscard},
    [OP_IMPORT] = {"import", do_import},
    [OP_GROUP] = {"group change", do_group},
    [OP_JOB_START] = {"job start", do_job_start},
    [OP_JOB_CHANGE] = {"job change", do_job_change},
    [OP_QUEUE_PUT] = {"queue put", do_queue_put},
    [OP_QUEUE_PAUSE] = {"queue pause", do_queue_pause},
    [OP_QUEUE_DELETE] = {"queue delete", do_queue_delete},
    [OP_WATCH] = {"watch", do_watch},
    [OP_TICK] = {"tick", do_tick},
};

enum err world_do(struct world *w, struct op *op, struct outcome *got) {
    return ops[op->kind].act(w, op, got);
}

const char *world_op_name(enum op_kind kind) {
    return ops[kind].name;
}

/* -- comparing ----------------------------------------------------------------------------------------- */

void world_compare_reply(struct world *w, const struct op *op, const struct outcome *got,
                         const struct outcome *want) {
    const char *name = world_op_name(op->kind);
    if (got->error != want->error)
        world_fail(w, "%s: %s, should be %s", name, err_text(got->error), err_text(want->error));
    for (size_t i = 0; op->kind == OP_IMPORT && i < op->n; i++)
        if (got->imported[i] != want->imported[i])
            world_fail(w, "import of message %llu: %d, should be %d",
                       (unsigned long long)op->items[i].id, (int)got->imported[i],
                       (int)want->imported[i]);
    if (got->error != OK)
        return;
    if (got->n != want->n)
        world_fail(w, "%s: %zu messages, should be %zu", name, got->n, want->n);
    if (got->created != want->created)
        world_fail(w, "%s: should %sbe created", name, want->created ? "" : "not ");
    for (size_t i = 0; i < got->n; i++)
        if (got->ids[i] != want->ids[i] || got->duplicates[i] != want->duplicates[i])
            world_fail(w, "%s: number %zu is %llu, should be %llu", name, i,
                       (unsigned long long)got->ids[i], (unsigned long long)want->ids[i]);
    for (size_t i = 0; op->kind == OP_SETTLE && i < op->n; i++)
        if (got->results[i] != want->results[i])
            world_fail(w, "settle of message %llu: %s, should be %s",
                       (unsigned long long)op->items[i].id, err_text(got->results[i]),
                       err_text(want->results[i]));
}

static void compare_message(struct world *w, uint64_t id) {
    const struct model_message *x = model_find(&w->live, id);
    char text[256];
    if (x &&
        !model_same_message(&w->live, w->engine, x, rng_below(&w->rng, 4) == 0, text, sizeof text))
        world_fail(w, "%s", text);
}

/* One by chance, of its whole. */
static void compare_group(struct world *w) {
    const struct model *m = &w->live;
    char text[256];
    size_t i = m->group_count ? rng_below(&w->rng, m->group_count) : 0;
    if (m->group_count && m->groups[i].exists &&
        !model_same_group(m, w->engine, w->now, i, text, sizeof text))
        world_fail(w, "%s", text);
}

void world_compare_touched(struct world *w, const struct op *op, const struct outcome *got,
                           uint64_t audit_before) {
    const struct model *m = &w->live;
    const char *name = world_op_name(op->kind);
    char text[256];
    int target = op->queue >= 0 ? m->queues[op->queue].texts.target - 1 : -1;
    for (int q = 0; q < MODEL_QUEUES; q++)
        if ((op->kind == OP_TICK || q == op->queue || q == target) &&
            !model_same_queue(m, w->engine, q, !w->blocked, text, sizeof text))
            world_fail(w, "after %s: %s", name, text);
    if (!model_same_counters(m, w->engine, text, sizeof text) ||
        (m->audit_count > audit_before &&
         !model_same_audit(m, w->engine, (size_t)(m->audit_count - audit_before), text,
                           sizeof text)))
        world_fail(w, "after %s: %s", name, text);
    for (size_t i = 0; op->kind != OP_JOB_START && i < got->n; i++)
        compare_message(w, got->ids[i]);
    for (size_t i = 0; (op->kind == OP_SETTLE || op->kind == OP_IMPORT) && i < op->n; i++)
        compare_message(w, op->items[i].id);
    if (op->id)
        compare_message(w, op->id);
    if (op->kind == OP_TICK && m->message_count > 0)
        compare_message(w, m->messages[rng_below(&w->rng, m->message_count)].id);
    if (op->kind == OP_GROUP || rng_below(&w->rng, 4) == 0)
        compare_group(w);
}
