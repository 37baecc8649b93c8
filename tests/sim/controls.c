/* Engines broken on purpose, by reaching into their memory: what is wrong then, the simulation has to
 * find out. (Controls that break the harness are where they break it, in world.c.) */
#include "sim/world.h"

#include "base/clock.h"
#include "engine/engine_int.h"

#include <stdio.h>

/* A dead letter; with a job: one that a job once took. 0 when there is none. */
static uint32_t any_letter(struct world *w, bool with_job) {
    const struct model *m = &w->live;
    size_t start = m->message_count ? rng_below(&w->rng, m->message_count) : 0;
    for (size_t i = 0; i < m->message_count; i++) {
        const struct model_message *x = &m->messages[(start + i) % m->message_count];
        uint32_t slot = slot_find(&w->engine->st, x->id);
        if (slot && slot_at(&w->engine->st, slot)->state == STATE_DEAD && (!with_job || x->job))
            return slot;
    }
    return 0;
}

static struct letter *letter_of(const struct world *w, uint32_t slot) {
    return slot_letter(&w->engine->st, slot_at(&w->engine->st, slot));
}

/* -- after an operation -------------------------------------------------------------------------- */

/* Its story says so once more. */
static void send_twice(struct world *w) {
    struct engine *e = w->engine;
    uint32_t slot = any_letter(w, true);
    if (!slot)
        return;
    const struct slot *s = slot_at(&e->st, slot);
    char job[24];
    snprintf(job, sizeof job, "job %u", letter_of(w, slot)->job);
    struct record_history line = {.id = s->id,
                                  .event = {.event = EVENT_REDRIVEN,
                                            .attempt = (uint32_t)s->deliveries,
                                            .at = w->now,
                                            .previous = slot_extra(&e->st, s)->history,
                                            .worker = span_str(job)}};
    uint64_t position;
    log_frame_begin(e->log, STATE_RECORD_BYTES);
    append_history(e, &line, &position);
    log_frame_end(e->log);
}

/* A job that has not ended; NULL = none. */
static struct job *any_job(struct world *w) {
    struct engine_state *st = &w->engine->st;
    for (uint32_t i = st->job_count; i > 0; i--)
        if (!job_has_ended(st->jobs[i - 1]))
            return st->jobs[i - 1];
    return NULL;
}

static void drift(struct world *w) {
    struct job *j = any_job(w);
    if (j)
        j->image.counts.succeeded++;
}

static void take_above_fence(struct world *w) {
    struct job *j = any_job(w);
    uint32_t slot = any_letter(w, false);
    if (!j || !slot || letter_of(w, slot)->dead_seq <= j->image.fence)
        return;
    uint64_t id = slot_at(&w->engine->st, slot)->id;
    j->image.counts.selected++;
    j->image.counts.remaining++;
    apply_job_letters(&w->engine->st,
                      &(struct record_job_letters){.job = j->number, .count = 1, .ids = &id});
}

static void overtake(struct world *w) {
    struct engine_state *st = &w->engine->st;
    for (size_t i = 0; i < w->live.message_count; i++) {
        uint32_t slot = slot_find(st, w->live.messages[i].id);
        struct slot *s = slot ? slot_at(st, slot) : NULL;
        if (!s || !s->behind || slot_set(s) != SET_READY)
            continue;
        set_remove(st, queue_at(st, s->queue), SET_READY, slot);
        s->behind = 0;
        set_add(st, queue_at(st, s->queue), SET_READY, slot);
    }
}

static void repeat_dead_seq(struct world *w) {
    if (w->engine->st.next_dead_seq > 1)
        w->engine->st.next_dead_seq--;
}

static void count_no_death(struct world *w) {
    struct engine_state *st = &w->engine->st;
    struct group *g = st->group_count ? st->groups[1 + rng_below(&w->rng, st->group_count)] : NULL;
    if (g)
        group_count_death(g, w->now, VERSION_NONE);
}

static void change_letter(struct world *w) {
    uint32_t slot = any_letter(w, false);
    if (slot)
        letter_of(w, slot)->redrive_count++;
}

static void forget_retention(struct world *w) {
    struct engine_state *st = &w->engine->st;
    for (uint32_t i = st->oldest_queue; i; i = queue_at(st, i)->newer) {
        queue_at(st, i)->dead_trim_at = TIME_NEVER;
        queue_plan_upkeep(st, queue_at(st, i));
    }
}

void world_spoil(struct world *w) {
    static void (*const spoil[CONTROL_COUNT])(struct world * w) = {
        [CONTROL_JOB_SENDS_TWICE] = send_twice,       [CONTROL_JOB_COUNT_DRIFT] = drift,
        [CONTROL_JOB_ABOVE_FENCE] = take_above_fence, [CONTROL_JOB_OVERTAKES] = overtake,
        [CONTROL_DEAD_SEQ_AGAIN] = repeat_dead_seq,   [CONTROL_GROUP_DRIFT] = count_no_death,
        [CONTROL_LETTER_TOUCHED] = change_letter,     [CONTROL_LETTER_KEPT] = forget_retention,
        [CONTROL_ORDER_OVERTAKES] = spoil_order,      [CONTROL_BREAKER_FORGETS] = spoil_breaker,
    };
    if (spoil[w->control] && rng_below(&w->rng, 8) == 0)
        spoil[w->control](w);
}

/* -- during a tick ------------------------------------------------------------------------------- */

#define SAVED_MOST 4096
static int64_t saved[SAVED_MOST];

static void spoil_jobs(struct world *w, bool begins) {
    struct engine_state *st = &w->engine->st;
    for (uint32_t i = 0; i < st->job_count && i < SAVED_MOST; i++) {
        struct job *j = st->jobs[i];
        uint32_t *value =
            w->control == CONTROL_JOB_NO_STOP ? &j->image.stop_if_ppm : &j->image.sample;
        if (w->control == CONTROL_JOB_TOO_FAST) {
            j->due_ns = 0;
            continue;
        }
        if (begins) {
            saved[i] = *value;
            *value = w->control == CONTROL_JOB_NO_STOP ? STOP_NEVER : *value + 3;
        } else {
            *value = (uint32_t)saved[i];
        }
    }
}

static void spoil_retention(struct world *w, bool begins) {
    struct engine_state *st = &w->engine->st;
    for (uint32_t i = st->oldest_queue; i; i = queue_at(st, i)->newer) {
        struct queue *q = queue_at(st, i);
        if (begins) {
            saved[i % SAVED_MOST] = q->policy.keep_dead_ms;
            q->policy.keep_dead_ms /= 2;
            q->dead_trim_at = INT64_MIN;
        } else {
            q->policy.keep_dead_ms = saved[i % SAVED_MOST];
            q->dead_trim_at = INT64_MIN;
        }
        queue_plan_upkeep(st, q);
    }
}

void world_spoil_tick(struct world *w, bool begins) {
    if (w->control >= CONTROL_JOB_TOO_FAST && w->control <= CONTROL_JOB_NO_STOP)
        spoil_jobs(w, begins);
    else if (w->control == CONTROL_LETTER_EARLY)
        spoil_retention(w, begins);
}

/* -- while letters are listed -------------------------------------------------------------------- */

void world_spoil_pages(struct world *w, bool begins) {
    static uint32_t slot;
    struct engine_state *st = &w->engine->st;
    if (w->control != CONTROL_LETTER_UNLISTED)
        return;
    if (begins)
        slot = any_letter(w, false);
    if (!slot)
        return;
    struct group *g = group_at(st, letter_of(w, slot)->group);
    uint32_t letter = slot_extra(st, slot_at(st, slot))->letter;
    if (begins)
        dead_remove(st, g, letter);
    else
        dead_add(st, g, letter);
}

/* -- instead of a verb --------------------------------------------------------------------------- */

void world_write_now(struct world *w) {
    crash_io_fail(w->disk, 0, 0, 0, 0);
    if (w->batch_out || !log_batch_take(w->log))
        return;
    w->batch_out = true;
    w->batch_written = log_batch_write(w->log) == OK;
    crash_io_die_in(w->disk, 1 + (unsigned)rng_below(&w->rng, 3));
}

bool world_replay_spoilt(struct world *w, const struct op *op) {
    struct engine *e = w->engine;
    uint32_t i;
    bool is_there = find_message(e, model_queue_name(op->queue), op->id, &i) == OK;
    const struct slot *s = is_there ? slot_at(&e->st, i) : NULL;
    if (!s || s->state != STATE_DEAD || !op->force || log_stats(e->log).full ||
        (w->control != CONTROL_AUDIT_LOST && w->control != CONTROL_AUDIT_APART))
        return false;
    const struct act act = model_act(op->who), who = act_cut(&act);
    struct record_state r = change_of(e, s, op->now, EVENT_REPLAYED);
    send_again(e, s, op->now, &r);
    r.image.letter.job_part = JOB_PART_NONE;
    r.event.worker = who.actor;
    const struct audit_entry entry = {.at = op->now,
                                      .action = AUDIT_REPLAY,
                                      .count = 1,
                                      .target = op->id,
                                      .queue = model_queue_name(op->queue),
                                      .actor = who.actor,
                                      .reason = who.reason,
                                      .result = span_str("sent again, forced")};
    emit_state(e, &r);
    if (w->control == CONTROL_AUDIT_LOST)
        return true;
    world_write_now(w);
    log_frame_begin(e->log, audit_bytes(&entry));
    append_audit(e, &entry);
    log_frame_end(e->log);
    return true;
}
