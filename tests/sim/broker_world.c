/* The world of brokers: operations are run, compared with the model, and kept until it is certain that
 * they are on disk; after a restart, what is left of them is found out. */
#include "sim/broker_world.h"

#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- operations ------------------------------------------------------------------------------------------- */

struct broker_op *broker_op(struct world *w, enum broker_op_kind kind, struct place name) {
    struct broker_op *op = mem_alloc(sizeof *op);
    op->kind = kind;
    op->name = name;
    op->now = w->now;
    op->limit = UINT32_MAX;
    return op;
}

static void op_free(struct broker_op *op) {
    free(op->doings);
    free(op);
}

static void ops_forget(struct broker_world *k, size_t n) {
    for (size_t i = 0; i < n; i++)
        op_free(k->ops[i]);
    k->op_count -= n;
    if (n > 0)
        memmove(k->ops, k->ops + n, k->op_count * sizeof *k->ops);
}

static void note_op(struct world *w, const struct broker_op *op, const struct broker_reply *got) {
    bool has_to = op->kind == BROKER_BIND || op->kind == BROKER_UNBIND || op->has_to;
    bool has_id = op->id != 0;
    uint64_t first = has_id ? op->id : op->kind == BROKER_SETTLE ? op->items[0].id : got->ids[0];
    world_note(w, "t+%lld %s %s%s%s: %s, n %zu, first %llu, queues %u, refused %u, doings %zu%s",
               (long long)(w->now - INT64_C(1780000000000)), broker_op_name(op->kind),
               place_words(op->name), has_to ? " to " : "", has_to ? place_words(op->to) : "",
               err_text(op->error), op->kind == BROKER_SETTLE ? op->n : got->n,
               (unsigned long long)first, got->queues, got->refused, op->doing_count,
               op->full ? ", disk full" : "");
}

static void compare_reply(struct world *w, const struct broker_op *op,
                          const struct broker_reply *got, const struct broker_reply *want) {
    const char *name = broker_op_name(op->kind);
    if (got->error != want->error)
        world_fail(w, "%s: %s, should be %s", name, err_text(got->error), err_text(want->error));
    if (got->error != OK)
        return;
    if (got->queues != want->queues || got->refused != want->refused)
        world_fail(w, "%s: %u queues, %u refused, should be %u, %u", name, got->queues,
                   got->refused, want->queues, want->refused);
    if (got->n != want->n || got->created != want->created)
        world_fail(w, "%s: %zu messages, created %d, should be %zu, %d", name, got->n, got->created,
                   want->n, want->created);
    if (memcmp(got->ids, want->ids, sizeof got->ids) != 0)
        world_fail(w, "%s: other messages than should be", name);
    for (size_t i = 0; op->kind == BROKER_SETTLE && i < op->n; i++)
        if (got->results[i] != want->results[i])
            world_fail(w, "settle of message %llu: %s, should be %s",
                       (unsigned long long)op->items[i].id, err_text(got->results[i]),
                       err_text(want->results[i]));
}

static void compare_touched(struct world *w, const struct broker_op *op) {
    struct broker *b = &w->broker->live;
    const char *name = broker_op_name(op->kind);
    char text[256];
    bool is_topology = op->kind < BROKER_PURGE || op->kind == BROKER_POLICY ||
                       op->kind == BROKER_POLICY_DELETE || op->kind == BROKER_BEGIN;
    if (!broker_same_queues(b, w->engine, text, sizeof text) ||
        (is_topology && !broker_same_topology(b, w->engine, text, sizeof text)))
        world_fail(w, "after %s: %s", name, text);
    for (size_t i = 0; i < b->message_count; i++)
        if (b->messages[i].changed == b->operations &&
            !broker_same_message(b, w->engine, &b->messages[i], text, sizeof text))
            world_fail(w, "after %s: %s", name, text);
    if (b->queue_count > 0) {
        const struct broker_queue *q = &b->queues[rng_below(&w->rng, b->queue_count)];
        if (!broker_same_list(b, w->engine, q, text, sizeof text))
            world_fail(w, "after %s: %s", name, text);
    }
}

static void keep_op(struct broker_world *k, struct broker_op *op) {
    if (k->op_count == k->op_cap) {
        k->op_cap = k->op_cap ? k->op_cap * 2 : 64;
        k->ops = mem_grow(k->ops, k->op_cap * sizeof *k->ops);
    }
    k->ops[k->op_count++] = op;
}

void broker_run(struct world *w, struct broker_op *op) {
    if (!world_has_room(w)) {
        op_free(op);
        return;
    }
    struct broker_reply got = {0}, want = {0};
    char wrong[200];
    op->now = w->now;
    op->begin = log_end(w->log);
    bool was_full = log_stats(w->log).full;
    broker_spoil(w, op, true);
    op->error = got.error = broker_do(w, op, &got);
    broker_spoil(w, op, false);
    op->full = was_full || log_stats(w->log).full;
    op->end = log_end(w->log);
    w->report->operations++;
    broker_look(w, op);
    broker_spoil_after(w, op);
    note_op(w, op, &got);
    if (op->error == ERR_DISK_FULL && !op->full)
        world_fail(w, "%s: the disk is not full", broker_op_name(op->kind));
    broker_apply(&w->broker->live, op, &want, wrong, sizeof wrong);
    if (wrong[0])
        world_fail(w, "%s: %s", broker_op_name(op->kind), wrong);
    compare_reply(w, op, &got, &want);
    compare_touched(w, op);
    keep_op(w->broker, op);
}

void broker_compare(struct world *w) {
    char text[256];
    if (!broker_same(&w->broker->live, w->engine, text, sizeof text))
        world_fail(w, "%s", text);
    world_verify(w);
}

/* -- after a restart ------------------------------------------------------------------------------------------ */

static void apply_to(struct broker *b, struct broker_op *op) {
    struct broker_reply unused = {0};
    char wrong[200];
    broker_apply(b, op, &unused, wrong, sizeof wrong);
}

/* `scratch` is base and the first `frames` frames of op, as after a restart. */
static bool is_prefix(struct world *w, struct broker_op *op, unsigned frames, char *text,
                      size_t text_bytes) {
    struct broker_world *k = w->broker;
    broker_copy(&k->scratch, &k->base);
    if (op) {
        op->limit = frames;
        apply_to(&k->scratch, op);
        op->limit = UINT32_MAX;
    }
    broker_restart(&k->scratch);
    return broker_same(&k->scratch, w->engine, text, text_bytes);
}

static void find_survivors(struct world *w, uint64_t end) {
    struct broker_world *k = w->broker;
    char text[256] = "", first[256] = "";
    size_t n = 0;
    for (; n < k->op_count && k->ops[n]->end <= end; n++)
        apply_to(&k->base, k->ops[n]);
    struct broker_op *next = n < k->op_count ? k->ops[n] : NULL;
    world_note(w, "%zu of %zu operations survived, perhaps a part of the next: %s", n, k->op_count,
               next ? broker_op_name(next->kind) : "none");
    bool same = is_prefix(w, NULL, 0, first, sizeof first);
    for (unsigned frames = 1; !same && next; frames++) {
        same = is_prefix(w, next, frames, text, sizeof text);
        if (next->frames < frames)
            break; /* it has no more */
    }
    if (!same)
        world_fail(w, "after the restart: %s%s%s", first,
                   text[0] ? "; or with a part of the next: " : "", text);
    broker_copy(&k->base, &k->scratch);
    broker_copy(&k->live, &k->scratch);
    ops_forget(k, k->op_count);
}

/* As the server starts. (That the disk is full then is not simulated.) */
static void start(struct world *w) {
    world_commit_safely(w);
    log_look_for_room(w->log);
    world_commit_safely(w);
    broker_run(w, broker_op(w, BROKER_BEGIN, (struct place){0}));
    broker_run(w, broker_op(w, BROKER_TICK, (struct place){0}));
}

/* -- its life ---------------------------------------------------------------------------------------------------- */

static void begin(struct world *w) {
    w->broker = mem_alloc(sizeof *w->broker);
    broker_init(&w->broker->live);
    broker_init(&w->broker->base);
    start(w);
}

static void release(struct world *w) {
    struct broker_world *k = w->broker;
    ops_forget(k, k->op_count);
    free(k->ops);
    broker_release(&k->live);
    broker_release(&k->base);
    broker_release(&k->scratch);
    free(k);
}

/* Replies went out. */
static void certain(struct world *w, uint64_t durable) {
    struct broker_world *k = w->broker;
    size_t n = 0;
    for (; n < k->op_count && k->ops[n]->end <= durable; n++)
        apply_to(&k->base, k->ops[n]);
    ops_forget(k, n);
}

static void survive(struct world *w, uint64_t end) {
    find_survivors(w, end);
    start(w);
}

const struct world_kind world_of_brokers = {
    .name = "brokers",
    .begin = begin,
    .release = release,
    .certain = certain,
    .survive = survive,
    .step = broker_step,
    .settle_all = broker_settle_all,
};
