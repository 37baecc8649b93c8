#include "sim/world.h"

#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define UNSYNCED_MAX (LOG_SEGMENT_BYTES_MIN / 2) /* as the server stops reading at LIMIT_UNSYNCED */

static void open_log(struct world *w);

/* -- telling ------------------------------------------------------------------------------------------ */

void world_note(struct world *w, const char *format, ...) {
    char *line = w->report->ring[w->report->ring_count++ % SIM_RING];
    int n = snprintf(line, SIM_LINE, "%llu ", (unsigned long long)w->report->step);
    va_list args;
    va_start(args, format);
    vsnprintf(line + n, SIM_LINE - (size_t)n, format, args);
    va_end(args);
    if (w->trace)
        printf("%s\n", line);
}

void world_fail(struct world *w, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(w->report->text, sizeof w->report->text, format, args);
    va_end(args);
    fflush(stdout);
    if (w->aborts) {
        fprintf(stderr, "step %llu: %s\n", (unsigned long long)w->report->step, w->report->text);
        abort();
    }
    _exit(1);
}

/* -- life ---------------------------------------------------------------------------------------------- */

struct world *world_new(uint64_t seed, enum control control, bool trace, struct report *report) {
    struct world *w = mem_alloc(sizeof *w);
    w->control = control;
    w->trace = trace;
    w->report = report;
    w->now = INT64_C(1780000000000);
    w->next_tag = 1;
    rng_seed(&w->rng, seed);
    w->disk = crash_io_new(rng_u64(&w->rng));
    if (control == CONTROL_LOST_FRAME)
        crash_io_lie(w->disk, 10);
    model_init(&w->live);
    model_init(&w->base);
    open_log(w);
    return w;
}

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

void world_free(struct world *w) {
    if (w->watched)
        engine_unwatch(w->engine, w->watched);
    engine_free(w->engine);
    log_free(w->log);
    crash_io_free(w->disk);
    ops_forget(w, w->op_count);
    free(w->ops);
    free(w);
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
    if ((w->blocked && op->kind == OP_CLAIM) ||
        (log_unsynced_bytes(w->log) > UNSYNCED_MAX && !world_commit(w))) {
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

/* -- committing ----------------------------------------------------------------------------------------------- */

void world_take(struct world *w) {
    if (!w->batch_out && log_batch_take(w->log)) {
        w->batch_out = true;
        w->batch_written = false;
    }
}

bool world_write(struct world *w) {
    if (!w->batch_out || w->batch_written)
        return true;
    enum err e = log_batch_write(w->log);
    if (e == ERR_DISK_FULL)
        return false;
    if (e == OK) {
        w->batch_written = true;
        return true;
    }
    if (e != ERR_IO)
        world_fail(w, "writing a batch: %s", err_text(e));
    /* A failing disk stops the server; the next one may find what the kernel still has. */
    world_note(w, crash_io_is_dead(w->disk) ? "died while writing" : "stopped by a failing disk");
    world_crash(w, crash_io_is_dead(w->disk) && rng_below(&w->rng, 2));
    return true;
}

/* Replies go out: what they say is certain from now on. */
void world_done(struct world *w) {
    if (!w->batch_out || !w->batch_written)
        return;
    uint64_t removed = log_stats(w->log).segments_removed;
    log_batch_done(w->log);
    w->report->cleaned += log_stats(w->log).segments_removed - removed;
    w->batch_out = false;
    size_t n = 0;
    static struct outcome unused;
    char wrong[200];
    for (; n < w->op_count && w->ops[n]->end <= log_durable(w->log); n++)
        model_apply(&w->base, w->ops[n], NULL, &unused, wrong, sizeof wrong);
    ops_forget(w, n);
    (void)log_zero_ahead(w->log);
    if (crash_io_is_dead(w->disk)) {
        world_note(w, "died while zeroing");
        world_crash(w, rng_below(&w->rng, 2));
    }
}

bool world_commit(struct world *w) {
    for (int i = 0; i < 2; i++) { /* the batch that is out, then the rest */
        world_take(w);
        if (!world_write(w))
            return false;
        world_done(w);
    }
    return true;
}

void world_clean(struct world *w) {
    if (log_unsynced_bytes(w->log) > UNSYNCED_MAX && !world_commit(w))
        return;
    if (w->control == CONTROL_SKIP_CLEAN_CARRY && log_can_clean(w->log) && world_commit(w) &&
        log_can_clean(w->log)) {
        log_clean_drop(w->log);
        log_look_for_room(w->log);
        world_commit(w);
        world_crash(w, true);
        return;
    }
    engine_clean(w->engine);
}

/* -- crashing and opening ---------------------------------------------------------------------------------------- */

static void try_open(struct world *w, struct log_findings *ret_found) {
    const struct log_config config = {
        .io = &crash_io_table, .io_ctx = w->disk, .segment_bytes = LOG_SEGMENT_BYTES_MIN};
    for (unsigned attempt = 0;; attempt++) {
        if (attempt < 3 && rng_below(&w->rng, 6) == 0)
            crash_io_die_in(w->disk, 1 + (unsigned)rng_below(&w->rng, 10));
        w->engine = engine_new(rng_u64(&w->rng));
        struct log_reader reader = engine_reader(w->engine);
        struct log_trouble trouble = {{0}};
        enum err e = log_open(&config, &reader, &w->log, ret_found, &trouble);
        bool dead = crash_io_is_dead(w->disk);
        if (e == OK && !dead)
            break;
        if (!dead)
            world_fail(w, "opening: %s: %s", err_text(e), trouble.text);
        engine_free(w->engine);
        if (e == OK)
            log_free(w->log);
        bool power = rng_below(&w->rng, 2);
        world_note(w, "died while opening (power %d)", power);
        crash_io_restart(w->disk, power);
        power ? w->report->power_losses++ : w->report->kills++;
    }
    crash_io_die_in(w->disk, 0);
    w->report->restarts++;
    w->report->bytes += ret_found->end - ret_found->begin;
}

/* Reading the same log once more gives the same state. */
static uint64_t checksum_again(struct world *w) {
    const struct log_config config = {
        .io = &crash_io_table, .io_ctx = w->disk, .segment_bytes = LOG_SEGMENT_BYTES_MIN};
    struct engine *e = engine_new(rng_u64(&w->rng));
    struct log_reader reader = engine_reader(e);
    struct log_findings found;
    struct log_trouble trouble = {{0}};
    enum err r = log_check(&config, &reader, &found, &trouble);
    if (r != OK)
        world_fail(w, "checking what was just opened: %s: %s", err_text(r), trouble.text);
    if (found.torn_bytes)
        world_fail(w, "checking what was just opened finds %llu torn bytes",
                   (unsigned long long)found.torn_bytes);
    uint64_t sum = engine_checksum(e);
    engine_free(e);
    return sum;
}

static void open_log(struct world *w) {
    struct log_findings found;
    try_open(w, &found);
    engine_attach(w->engine, w->log);
}

static void verify(struct world *w) {
    char text[256];
    if (!engine_verify(w->engine, text, sizeof text))
        world_fail(w, "verify: %s", text);
}

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

/* What was appended just now is on disk, without any fault. */
static void commit_safely(struct world *w) {
    crash_io_fail(w->disk, 0, 0, 0, 0);
    crash_io_capacity(w->disk, 0);
    w->capacity_until = 0;
    if (!log_batch_take(w->log))
        return;
    enum err e = log_batch_write(w->log);
    if (e != OK)
        world_fail(w, "writing a batch: %s", err_text(e));
    log_batch_done(w->log);
}

/* Time's doings are many frames in the engine's own order: the rest of them is done now, then all must be as after the whole. */
static bool is_part_of_tick(struct world *w, struct op *op, char *text, size_t text_bytes) {
    static struct outcome unused;
    model_copy(&w->scratch, &w->base);
    model_restart(&w->scratch);
    op->full = log_stats(w->log).full;
    op->is_rest = true;
    op->rest_from = log_end(w->log);
    (void)world_do(w, op, &unused);
    commit_safely(w);
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

void world_crash(struct world *w, bool power) {
    uint64_t sum = engine_checksum(w->engine), end = log_end(w->log), durable = log_durable(w->log);
    if (w->control == CONTROL_REPLY_BEFORE_SYNC)
        durable = end;
    world_note(w, power ? "power lost" : "killed");
    power ? w->report->power_losses++ : w->report->kills++;
    w->report->faults += crash_io_counts(w->disk).faults - w->faults_told;
    w->faults_told = crash_io_counts(w->disk).faults;
    if (w->watched)
        engine_unwatch(w->engine, w->watched);
    w->watched = NULL;
    engine_free(w->engine);
    log_free(w->log);
    if (crash_io_counts(w->disk).open_files != 0)
        world_fail(w, "%d files are still open", crash_io_counts(w->disk).open_files);
    w->batch_out = w->batch_written = w->blocked = false;
    crash_io_restart(w->disk, power);

    struct log_findings found;
    try_open(w, &found);
    if (found.end < durable)
        world_fail(w, "the log ends at %llu, and %llu was acknowledged",
                   (unsigned long long)found.end, (unsigned long long)durable);
    uint64_t again = engine_checksum(w->engine);
    if (again != checksum_again(w))
        world_fail(w, "reading the log again gives another state");
    if (found.end >= end && again != sum)
        world_fail(w, "all survived, but the state is another");
    verify(w);
    engine_attach(w->engine, w->log);
    find_survivors(w, found.end);
    world_tick(w);
    verify(w);
}

void world_compare(struct world *w) {
    char text[256];
    if (!model_same(&w->live, w->engine, w->now, !w->blocked, text, sizeof text))
        world_fail(w, "%s", text);
    verify(w);
}
