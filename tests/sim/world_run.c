/* The world of queues: its operations are run, compared with the model, and kept until it is certain
 * that they are on disk; after a restart, what is left of them is found out. */
#include "sim/world.h"

#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void world_op_free(struct op *op) {
    op_release(op);
    free(op);
}

static void ops_forget(struct world *w, size_t n) {
    if (n == 0)
        return;
    for (size_t i = 0; i < n; i++)
        world_op_free(w->ops[i]);
    w->op_count -= n;
    memmove(w->ops, w->ops + n, w->op_count * sizeof *w->ops);
}

/* -- operations ------------------------------------------------------------------------------------------- */

struct op *world_op(struct world *w, enum op_kind kind, int queue) {
    struct op *op = mem_alloc(sizeof *op);
    op->kind = kind;
    op->queue = queue;
    op->now = w->now;
    op->limit = UINT32_MAX;
    return op;
}

/* The control: a message that somebody holds is given once more. */
static void claim_again(struct world *w, struct outcome *got) {
    for (size_t i = 0; i < w->live.message_count && got->n > 0; i++)
        if (w->live.messages[i].state == STATE_PROCESSING && rng_below(&w->rng, 4) == 0) {
            got->ids[0] = w->live.messages[i].id;
            return;
        }
}

static void note_op(struct world *w, const struct op *op, const struct outcome *got) {
    bool names_item = op->kind == OP_SETTLE || op->kind == OP_IMPORT;
    uint64_t first = names_item                  ? op->items[0].id
                     : op->kind == OP_JOB_CHANGE ? op->job.number
                     : got->n == 0 && op->id     ? op->id
                                                 : got->ids[0];
    world_note(w, "t+%lld %s queue %d: %s%s, n %zu, first %llu",
               (long long)(w->now - INT64_C(1780000000000)), world_op_name(op->kind), op->queue,
               err_text(op->error), op->kind == OP_TICK && w->blocked ? ", disk full" : "",
               names_item ? op->n : got->n, (unsigned long long)first);
}

void world_run(struct world *w, struct op *op) {
    if ((w->blocked && op->kind == OP_CLAIM) || !world_has_room(w)) {
        world_op_free(op);
        return;
    }
    static struct outcome got, want;
    memset(&got, 0, sizeof got);
    memset(&want, 0, sizeof want);
    op->now = w->now;
    op->full = log_stats(w->log).full;
    op->blocked = w->blocked;
    world_spoil_guards(w, op, true);
    op->error = got.error = world_do(w, op, &got);
    world_spoil_guards(w, op, false);
    op->end = log_end(w->log);
    w->report->operations++;
    note_op(w, op, &got);
    if (w->control == CONTROL_DOUBLE_CLAIM && op->kind == OP_CLAIM)
        claim_again(w, &got);
    if (op->kind != OP_TICK)
        world_spoil(w);

    char wrong[200];
    uint64_t audit_before = w->live.audit_count;
    memcpy(want.duplicates, got.duplicates, sizeof want.duplicates);
    memcpy(want.imported, got.imported, sizeof want.imported);
    model_apply(&w->live, op, w->engine, &want, wrong, sizeof wrong);
    if (wrong[0])
        world_fail(w, "%s: %s", world_op_name(op->kind), wrong);
    if (op->error == ERR_DISK_FULL && !op->full)
        world_fail(w, "%s: the disk is not full", world_op_name(op->kind));
    world_compare_reply(w, op, &got, &want);
    world_compare_touched(w, op, &got, audit_before);

    if (w->op_count == w->op_cap) {
        w->op_cap = w->op_cap ? w->op_cap * 2 : 64;
        w->ops = mem_grow(w->ops, w->op_cap * sizeof *w->ops);
    }
    w->ops[w->op_count++] = op;
}

void world_tick(struct world *w) {
    world_run(w, world_op(w, OP_TICK, 0));
}

/* -- after a restart ------------------------------------------------------------------------------------- */

/* `scratch` is base and the first `frames` frames of op, as after a restart. */
static bool is_prefix(struct world *w, struct op *op, unsigned frames, char *text,
                      size_t text_bytes) {
    static struct outcome unused;
    char wrong[200];
    model_copy(&w->scratch, &w->base);
    if (op) {
        op->limit = frames;
        model_apply(&w->scratch, op, NULL, &unused, wrong, sizeof wrong);
        op->limit = UINT32_MAX;
    }
    model_restart(&w->scratch);
    return model_same(&w->scratch, w->engine, w->now, true, text, text_bytes);
}

/* Whose leases ended before the crash: the engine does not know any more that they count for breakers. */
static void note_ended(struct world *w, struct op *op) {
    const struct model *m = &w->scratch;
    op->ended = mem_grow(op->ended, MODEL_MESSAGES * sizeof *op->ended);
    op->ended_count = 0;
    for (size_t i = 0; i < m->message_count; i++) {
        const struct model_message *x = &m->messages[i];
        struct message_view v;
        if (x->state == STATE_PROCESSING && x->next_at <= op->now &&
            (engine_letter(w->engine, x->id, &v) != OK || v.state != STATE_PROCESSING))
            op->ended[op->ended_count++] = x->id;
    }
}

/* Time's doings are many frames in the engine's own order: the rest of them is done now, then all must be as after the whole. */
static bool is_part_of_tick(struct world *w, struct op *op, char *text, size_t text_bytes) {
    static struct outcome unused;
    model_copy(&w->scratch, &w->base);
    model_restart(&w->scratch);
    op->full = log_stats(w->log).full;
    op->is_rest = true;
    note_ended(w, op);
    (void)world_do(w, op, &unused);
    world_commit_safely(w);
    char wrong[200];
    model_apply(&w->scratch, op, w->engine, &unused, wrong, sizeof wrong);
    if (wrong[0]) {
        snprintf(text, text_bytes, "%s", wrong);
        return false;
    }
    return model_same(&w->scratch, w->engine, w->now, !w->blocked, text, text_bytes);
}

/* The operations whose end is on disk are there, and of the next one as much as is on disk. */
static void find_survivors(struct world *w, uint64_t end) {
    static struct outcome unused;
    char wrong[200], text[256] = "", first[256] = "";
    size_t n = 0;
    for (; n < w->op_count && w->ops[n]->end <= end; n++)
        model_apply(&w->base, w->ops[n], NULL, &unused, wrong, sizeof wrong);
    struct op *next = n < w->op_count ? w->ops[n] : NULL;
    world_note(w, "%zu of %zu operations survived, perhaps a part of the next: %s", n, w->op_count,
               next ? world_op_name(next->kind) : "none");
    if (next && w->control == CONTROL_REPLY_BEFORE_SYNC)
        world_fail(w, "an acknowledged %s is lost", world_op_name(next->kind));
    bool same = is_prefix(w, NULL, 0, first, sizeof first);
    if (!same && next && next->kind == OP_TICK)
        same = is_part_of_tick(w, next, text, sizeof text);
    for (unsigned k = 1; !same && next && next->kind != OP_TICK && k < 2 * MODEL_BATCH; k++)
        same = is_prefix(w, next, k, text, sizeof text);
    if (!same)
        world_fail(w, "after the restart: %s%s%s", first,
                   text[0] ? "; or with a part of the next: " : "", text);
    model_copy(&w->base, &w->scratch);
    model_copy(&w->live, &w->scratch);
    ops_forget(w, w->op_count);
}

void world_compare(struct world *w) {
    char text[256];
    if (!model_same(&w->live, w->engine, w->now, !w->blocked, text, sizeof text))
        world_fail(w, "%s", text);
    world_verify(w);
}

/* -- its life -------------------------------------------------------------------------------------------- */

static void begin(struct world *w) {
    model_init(&w->live);
    model_init(&w->base);
}

static void release(struct world *w) {
    ops_forget(w, w->op_count);
    free(w->ops);
}

/* Replies went out. */
static void certain(struct world *w, uint64_t durable) {
    static struct outcome unused;
    char wrong[200];
    size_t n = 0;
    for (; n < w->op_count && w->ops[n]->end <= durable; n++)
        model_apply(&w->base, w->ops[n], NULL, &unused, wrong, sizeof wrong);
    ops_forget(w, n);
}

static void survive(struct world *w, uint64_t end) {
    find_survivors(w, end);
    world_tick(w);
}

const struct world_kind world_of_queues = {
    .name = "queues",
    .begin = begin,
    .release = release,
    .certain = certain,
    .survive = survive,
    .step = world_step,
    .settle_all = world_settle_all,
};
