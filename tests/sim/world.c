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

struct world *world_new(const struct world_kind *kind, uint64_t seed, enum control control,
                        bool trace, struct report *report) {
    struct world *w = mem_alloc(sizeof *w);
    w->kind = kind;
    w->control = control;
    w->trace = trace;
    w->report = report;
    w->now = INT64_C(1780000000000);
    w->next_tag = 1;
    rng_seed(&w->rng, seed);
    w->disk = crash_io_new(rng_u64(&w->rng));
    if (control == CONTROL_LOST_FRAME)
        crash_io_lie(w->disk, 10);
    open_log(w);
    w->kind->begin(w);
    return w;
}

void world_free(struct world *w) {
    if (w->watched)
        engine_unwatch(w->engine, w->watched);
    engine_free(w->engine);
    log_free(w->log);
    crash_io_free(w->disk);
    w->kind->release(w);
    free(w);
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
    w->kind->certain(w, log_durable(w->log));
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

bool world_has_room(struct world *w) {
    return log_unsynced_bytes(w->log) <= UNSYNCED_MAX || world_commit(w);
}

void world_clean(struct world *w) {
    if (!world_has_room(w))
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

void world_verify(struct world *w) {
    char text[256];
    if (!engine_verify(w->engine, text, sizeof text))
        world_fail(w, "verify: %s", text);
}

/* What was appended just now is on disk, without any fault. */
void world_commit_safely(struct world *w) {
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
    world_verify(w);
    engine_attach(w->engine, w->log);
    w->kind->survive(w, found.end);
    world_verify(w);
}
