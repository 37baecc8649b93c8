/* Steps about dead letters. */
#include "sim/steps_int.h"

#include "base/limits.h"

#include <assert.h>

#define MESSAGES_MANY 350
#define JOBS_MANY 8

/* -- one letter ------------------------------------------------------------------------------------------ */

static struct op *letter_op(struct world *w, enum op_kind kind, enum state state) {
    struct op *op = world_op(w, kind, any_queue(w));
    op->id = any_message(w, op->queue, state);
    op->who = any_who(w);
    op->force = dice(w, 4) == 0;
    op->why = (enum discard_reason)(1 + dice(w, DISCARD_COUNT - 1));
    return op;
}

void step_replay(struct world *w) {
    world_run(w, letter_op(w, OP_REPLAY, STATE_DEAD));
}

void step_edit(struct world *w) {
    if (w->live.message_count > MESSAGES_MANY)
        return;
    struct op *op = letter_op(w, OP_EDIT, STATE_DEAD);
    op->has_payload = dice(w, 3) != 0;
    op->has_headers = dice(w, 3) == 0;
    any_content(w, &op->items[0], any_size(w));
    world_run(w, op);
}

void step_discard(struct world *w) {
    world_run(w, letter_op(w, OP_DISCARD, STATE_DEAD));
}

void step_undiscard(struct world *w) {
    world_run(w, letter_op(w, OP_UNDISCARD, STATE_DISCARDED));
}

/* -- letters from elsewhere ------------------------------------------------------------------------------ */

static void any_letter(struct world *w, struct op *op, size_t i) {
    struct op_item *item = &op->items[i];
    const struct model_message *known = NULL;
    uint64_t luck = dice(w, 10);
    item->id = luck < 5 ? w->live.next_id + i + dice(w, 3) : 1 + dice(w, w->live.next_id + 3);
    if (luck == 9)
        known = model_find(&w->live, any_message(w, op->queue, STATE_DEAD));
    if (known)
        item->id = known->id;
    any_content(w, item, (uint32_t)dice(w, 2000));
    item->tag = any_error(w);
    item->key = any_key(w, w->next_tag++);
    item->max_retries = (uint8_t)(1 + dice(w, 5));
    item->priority = (uint8_t)dice(w, PRIORITY_MAX + 1);
    item->ttl_ms = dice(w, 3) ? 0 : (int64_t)(1 + dice(w, 20000));
    item->created_at = known ? known->created_at : w->now - 1000 - (int64_t)dice(w, 100000);
    item->died_at = item->created_at + 100 + (int64_t)dice(w, 900);
    item->reason = dice(w, 2) ? REASON_MAX_RETRIES : (enum reason)(1 + dice(w, REASON_COUNT - 1));
    item->failures = (uint8_t)dice(w, 5);
    item->retry_count = (uint8_t)dice(w, 4);
    item->redrive_count = (uint8_t)dice(w, 3);
    item->worker = (uint8_t)dice(w, MODEL_WORKERS);
    item->version = (uint8_t)dice(w, MODEL_VERSIONS);
    item->replayed_by = dice(w, 5) ? 0 : 1;
    item->origin = (int8_t)(dice(w, 3) ? -1 : (op->queue + 1) % MODEL_QUEUES);
}

void step_import(struct world *w) {
    if (w->live.message_count > MESSAGES_MANY)
        return;
    struct op *op = world_op(w, OP_IMPORT, any_queue(w));
    op->who = any_who(w);
    op->dry_run = dice(w, 6) == 0;
    op->n = 1 + dice(w, 6);
    for (size_t i = 0; i < op->n; i++)
        any_letter(w, op, i);
    world_run(w, op);
}

/* -- causes ---------------------------------------------------------------------------------------------- */

static uint64_t any_group_key(struct world *w) {
    const struct model *m = &w->live;
    size_t start = m->group_count ? dice(w, m->group_count) : 0;
    for (size_t i = 0; i < m->group_count && dice(w, 20); i++) {
        const struct model_group *g = &m->groups[(start + i) % m->group_count];
        if (g->exists)
            return g->key;
    }
    return 1 + dice(w, 1000);
}

void step_group(struct world *w) {
    struct op *op = world_op(w, OP_GROUP, -1);
    op->group = any_group_key(w);
    op->who = any_who(w);
    op->change.has_state = dice(w, 3) != 0;
    op->change.state = (enum group_state)dice(w, GROUP_STATE_COUNT);
    op->change.has_owner = dice(w, 3) == 0;
    op->change.has_note = dice(w, 3) == 0;
    op->owner = (uint8_t)dice(w, MODEL_OWNERS);
    op->note = (uint8_t)dice(w, MODEL_NOTES);
    world_run(w, op);
}

/* -- jobs ------------------------------------------------------------------------------------------------ */

static struct letter_filter any_filter(struct world *w) {
    struct letter_filter f = {.by = (enum filter_by)dice(w, BY_COUNT),
                              .is_negated = dice(w, 4) == 0};
    switch (f.by) {
    case BY_NOTHING:
        f.is_negated = false;
        break;
    case BY_REASON:
        f.value = 1 + dice(w, REASON_COUNT - 1);
        break;
    case BY_CLASS:
        f.value = dice(w, CAUSES + 1);
        break;
    case BY_REDRIVES:
    case BY_PAYLOAD:
    case BY_HEADER:
        f.value = dice(w, 4);
        break;
    case BY_VERSION:
        f.value = dice(w, MODEL_VERSIONS);
        break;
    case BY_PRIORITY:
        f.value = dice(w, PRIORITY_MAX);
        break;
    case BY_EDITED:
        f.value = dice(w, 2);
        break;
    case BY_GROUP:
        f.value = any_group_key(w);
        break;
    case BY_AGE:
    case BY_EXPIRES:
        f.value = dice(w, 100);
        break;
    case BY_COUNT:
        break;
    }
    return f;
}

static uint64_t any_rate(struct world *w) {
    static const uint64_t rates[] = {0, 0, 0, 100, 1000, 7777, 50000, 1000000000};
    return rates[dice(w, sizeof rates / sizeof *rates)];
}

static uint32_t any_stop_if(struct world *w) {
    uint64_t luck = dice(w, 3);
    return luck == 0 ? STOP_NEVER : luck == 1 ? 200000 : (uint32_t)dice(w, 1000001);
}

/* Copies that patching jobs may still make, and those of this one. */
static uint64_t copies_to_come(const struct model *m, int queue) {
    uint64_t n = model_dead(m, queue);
    for (size_t i = 0; i < m->job_count; i++)
        if (m->jobs[i].patch && !model_job_has_ended(&m->jobs[i]))
            n += m->jobs[i].counts.remaining;
    return n;
}

static struct op *any_job(struct world *w) {
    struct op *op = world_op(w, OP_JOB_START, any_queue(w));
    struct op_job *p = &op->job;
    uint64_t luck = dice(w, 12);
    p->kind = luck < 8 ? JOB_REDRIVE : luck < 11 ? JOB_DISCARD : JOB_PURGE;
    p->to = -1;
    op->who = any_who(w);
    if (p->kind != JOB_PURGE && dice(w, 4))
        p->filter = any_filter(w);
    if (p->kind == JOB_DISCARD) {
        op->why = (enum discard_reason)(1 + dice(w, DISCARD_COUNT - 1));
        op->queue = dice(w, 3) ? op->queue : -1;
    }
    if (p->kind != JOB_REDRIVE)
        return op;
    p->to = dice(w, 4) ? -1 : any_queue(w);
    if (dice(w, 4) == 0 && copies_to_come(&w->live, op->queue) < 300)
        p->patch = (enum patch_kind)(1 + dice(w, PATCH_HEADER));
    p->patch_k = (int16_t)dice(w, 5);
    p->rate_milli = any_rate(w);
    p->sample = dice(w, 2) ? SAMPLE_BY_DEFAULT : (uint32_t)dice(w, 6);
    p->stop_if_ppm = any_stop_if(w);
    p->force = dice(w, 4) == 0;
    return op;
}

void step_job_start(struct world *w) {
    const struct model *m = &w->live;
    if (m->job_count + 8 < MODEL_JOBS && model_active_jobs(m) < JOBS_MANY)
        world_run(w, any_job(w));
}

static uint32_t any_job_number(struct world *w) {
    const struct model *m = &w->live;
    size_t start = m->job_count ? dice(w, m->job_count) : 0;
    for (size_t i = 0; i < m->job_count && dice(w, 30); i++) {
        const struct model_job *j = &m->jobs[(start + i) % m->job_count];
        if (!model_job_has_ended(j))
            return j->number;
    }
    return (uint32_t)(1 + dice(w, m->job_count + 2));
}

void step_job_change(struct world *w) {
    static const enum job_state states[] = {JOB_PAUSED, JOB_RUNNING, JOB_RUNNING, JOB_RUNNING,
                                            JOB_CANCELLED};
    struct op *op = world_op(w, OP_JOB_CHANGE, -1);
    struct op_job *p = &op->job;
    p->number = any_job_number(w);
    op->who = any_who(w);
    const struct model_job *j = model_job(&w->live, p->number);
    p->change.has_state = dice(w, 4) != 0;
    p->change.state = states[dice(w, sizeof states / sizeof *states)];
    p->change.has_rate = j && j->kind == JOB_REDRIVE && dice(w, 4) == 0;
    p->change.rate_milli = any_rate(w);
    p->change.has_stop_if = j && j->kind == JOB_REDRIVE && dice(w, 4) == 0;
    p->change.stop_if_ppm = any_stop_if(w);
    world_run(w, op);
}

bool jobs_go_on(struct world *w) {
    bool all_ended = true;
    for (size_t i = 0; i < w->live.job_count; i++) {
        const struct model_job *j = &w->live.jobs[i];
        if (model_job_has_ended(j))
            continue;
        all_ended = false;
        if (j->state != JOB_PAUSED && j->state != JOB_STOPPED)
            continue;
        struct op *op = world_op(w, OP_JOB_CHANGE, -1);
        op->job.number = j->number;
        op->job.change.has_state = true;
        op->job.change.state =
            j->state == JOB_STOPPED && j->target_gone ? JOB_CANCELLED : JOB_RUNNING;
        world_run(w, op);
    }
    return all_ended;
}

/* -- reading --------------------------------------------------------------------------------------------- */

static void read_pages(struct world *w) {
    const struct model *m = &w->live;
    struct letter_filter f = any_filter(w);
    struct letter_query query = {.oldest_first = dice(w, 2),
                                 .limit = 1 + dice(w, 60),
                                 .fence = dice(w, 3) ? 0 : dice(w, m->next_dead_seq)};
    char text[256];
    world_spoil_pages(w, true);
    if (!model_same_pages(m, w->engine, w->now, dice(w, 2) ? -1 : any_queue(w), &f, &query, text,
                          sizeof text))
        world_fail(w, "%s", text);
    world_spoil_pages(w, false);
}

/* What a job would do, without making it. */
static void read_plan(struct world *w) {
    struct op *op = any_job(w);
    const struct job_new job = world_job_new(op);
    struct job_view v;
    bool is_complete;
    uint64_t ids[3];
    size_t n;
    enum err e =
        engine_job_plan(w->engine, w->now, &job, &v, &is_complete, ids, sizeof ids / 8, &n);
    if (e == OK) {
        model_copy(&w->scratch, &w->live);
        const struct model_job *j = model_plan(&w->scratch, op);
        const struct job_counts *got = &v.counts, *want = &j->counts;
        bool is_right = got->selected == want->selected && got->remaining == want->remaining &&
                        job_skipped(got) == job_skipped(want) &&
                        v.warnings.at_limit == j->at_limit &&
                        v.warnings.redriven_before == j->redriven_before && v.fence == j->fence &&
                        n == (want->remaining < 3 ? want->remaining : 3);
        if (is_complete ? !is_right : got->selected > want->selected || v.fence != j->fence)
            world_fail(w, "plan of a job: %llu selected, %llu remain; should be %llu, %llu",
                       (unsigned long long)got->selected, (unsigned long long)got->remaining,
                       (unsigned long long)want->selected, (unsigned long long)want->remaining);
    }
    world_op_free(op);
}

/* Those that died since, by a clock that may have gone back meanwhile. */
static void read_new_since(struct world *w) {
    const struct model *m = &w->live;
    uint32_t number = any_job_number(w);
    const struct model_job *j = model_job(&w->live, number);
    struct job_view v;
    enum err e = engine_job(w->engine, w->now, number, &v);
    if ((e == OK) != (j != NULL))
        world_fail(w, "job %u: %s", number, err_text(e));
    if (e != OK)
        return;
    uint64_t most = 0, least = 0;
    for (size_t i = 0; i < m->message_count; i++) {
        const struct model_message *x = &m->messages[i];
        bool is_new = x->dead_seq > j->fence && x->job != j->number &&
                      (j->queue < 0 ||
                       (x->queue == j->queue && m->queues[x->queue].serial == j->queue_serial)) &&
                      model_matches(m, &j->filter, j->created_at, x);
        most += is_new;
        least += is_new && x->died_at >= j->created_at;
    }
    if ((v.new_since < least && v.new_since_is_complete) || v.new_since > most)
        world_fail(w, "job %u: %llu are new since, should be %llu to %llu", number,
                   (unsigned long long)v.new_since, (unsigned long long)least,
                   (unsigned long long)most);
}

void step_letters(struct world *w) {
    switch (dice(w, 4)) {
    case 0:
        read_plan(w);
        break;
    case 1:
        read_new_since(w);
        break;
    default:
        read_pages(w);
    }
}
