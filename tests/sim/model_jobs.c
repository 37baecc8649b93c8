/* Jobs over many letters, as the model has them: making, selecting, sending, changing. What a tick
 * does of it is in model_job_tick.c. */
#include "sim/model_int.h"

#include "base/limits.h"

#include <assert.h>

#define NS_PER_MS 1000000

struct model_job *model_job(struct model *m, uint32_t number) {
    return number > 0 && number <= m->job_count && !m->jobs[number - 1].is_forgotten
               ? &m->jobs[number - 1]
               : NULL;
}

bool model_job_has_ended(const struct model_job *j) {
    return j->state == JOB_DONE || j->state == JOB_CANCELLED;
}

uint64_t model_active_jobs(const struct model *m) {
    uint64_t n = 0;
    for (size_t i = 0; i < m->job_count; i++)
        n += !model_job_has_ended(&m->jobs[i]);
    return n;
}

struct model_job *job_of(struct model *m, const struct model_message *x) {
    struct model_job *j = x->part == JOB_PART_REMAINING ? model_job(m, x->job) : NULL;
    return j && !model_job_has_ended(j) ? j : NULL;
}

struct job_counts *job_leave(struct model *m, struct model_message *x) {
    struct model_job *j = x->part == JOB_PART_OPEN ? model_job(m, x->job) : job_of(m, x);
    if (j && x->part == JOB_PART_OPEN)
        j->counts.open--;
    else if (j)
        j->counts.remaining--;
    x->part = JOB_PART_NONE;
    return j ? &j->counts : NULL;
}

/* -- filters ----------------------------------------------------------------------------------------- */

static bool is_of_class(const struct model_message *x, uint64_t cause) {
    struct span class = x->has_error ? error_class_kept(x->error_tag) : (struct span){0};
    const uint8_t want[] = {'C', 'a', 'u', 's', 'e', (uint8_t)('A' + cause)};
    return cause == CAUSES ? class.n >= 5 && span_equal(span_of(class.p, 5), span_of(want, 5))
                           : span_equal(class, span_of(want, 6));
}

static bool is_wanted(const struct model *m, const struct letter_filter *f, int64_t parsed_at,
                      const struct model_message *x) {
    int64_t keep_ms;
    switch (f->by) {
    case BY_NOTHING:
    case BY_COUNT:
        break;
    case BY_REASON:
        return (uint64_t)x->reason == f->value;
    case BY_CLASS:
        return is_of_class(x, f->value);
    case BY_REDRIVES:
        return x->redrive_count > f->value;
    case BY_PAYLOAD:
        return x->payload.is_json && x->payload.k >= 0 && (uint64_t)x->payload.k == f->value;
    case BY_GROUP:
        return m->groups[x->group - 1].key == f->value;
    case BY_HEADER:
        return x->headers.is_json && x->headers.k >= 0 && (uint64_t)x->headers.k == f->value;
    case BY_AGE:
        return x->died_at < parsed_at - (int64_t)f->value * 1000;
    case BY_EXPIRES:
        keep_ms = m->queues[x->queue].policy.keep_dead_ms;
        return keep_ms && x->died_at + keep_ms > parsed_at + (int64_t)f->value * 1000;
    case BY_VERSION:
        return x->death_version == f->value;
    case BY_PRIORITY:
        return x->priority > f->value;
    case BY_EDITED:
        return (x->edited_to != 0) == (f->value != 0);
    }
    return true;
}

bool model_matches(const struct model *m, const struct letter_filter *f, int64_t parsed_at,
                   const struct model_message *x) {
    return x->state == STATE_DEAD && is_wanted(m, f, parsed_at, x) != f->is_negated;
}

/* -- selecting ----------------------------------------------------------------------------------------- */

static bool is_its_queue(const struct model *m, const struct model_job *j, int queue) {
    return j->queue < 0 || (j->queue == queue && m->queues[queue].exists &&
                            m->queues[queue].serial == j->queue_serial);
}

/* The first in order of death behind the place that selection has come to; NULL = none. */
static struct model_message *next_candidate(struct model *m, const struct model_job *j) {
    struct model_message *best = NULL;
    for (size_t i = 0; i < m->message_count; i++) {
        struct model_message *x = &m->messages[i];
        bool is_behind = x->died_at > j->reached_at ||
                         (x->died_at == j->reached_at && x->dead_seq > j->reached_seq);
        bool is_first = !best || x->died_at < best->died_at ||
                        (x->died_at == best->died_at && x->dead_seq < best->dead_seq);
        if (x->state == STATE_DEAD && is_behind && is_first && x->dead_seq <= j->fence &&
            is_its_queue(m, j, x->queue) && model_matches(m, &j->filter, j->created_at, x))
            best = x;
    }
    return best;
}

static void select_one(struct model *m, struct model_job *j, struct model_message *x) {
    j->reached_at = x->died_at;
    j->reached_seq = x->dead_seq;
    j->counts.selected++;
    const struct model_job *other = job_of(m, x);
    if (other && other != j) {
        j->counts.skipped[SKIP_OTHER_JOB]++;
        return;
    }
    if (j->kind == JOB_REDRIVE) {
        bool at_limit = x->redrive_count >= m->queues[x->queue].policy.redrive_limit;
        j->redriven_before += x->redrive_count > 0;
        j->at_limit += at_limit;
        if (!j->force && (x->edited_to || at_limit)) {
            j->counts.skipped[x->edited_to ? SKIP_EDITED : SKIP_REDRIVE_LIMIT]++;
            return;
        }
        if (x->death_version)
            j->version_total[x->death_version]++;
    }
    j->counts.remaining++;
    x->job = j->number;
    x->part = JOB_PART_REMAINING;
}

void job_end_selection(struct model_job *j) {
    j->selecting = false;
    if (j->sample == SAMPLE_BY_DEFAULT)
        j->sample = j->counts.selected > LIMIT_SAMPLE_FROM ? LIMIT_SAMPLE : 0;
    j->sample_passed |= j->sample == 0;
    if (j->sample_passed && j->state == JOB_SAMPLING)
        j->state = JOB_RUNNING;
}

struct job_look {
    uint32_t number;
    bool is_found;
    struct job_view *view;
};

static bool look_at_job(void *ctx, const struct job_view *v) {
    struct job_look *look = ctx;
    look->is_found = v->number == look->number;
    *look->view = *v;
    return false;
}

bool job_view_of(struct engine *e, int64_t now, uint32_t number, struct job_view *ret) {
    struct job_look look = {.number = number, .view = ret};
    engine_jobs(e, now, 0, number + 1, look_at_job, &look);
    return look.is_found;
}

bool job_select(struct run *r, struct model_job *j) {
    struct job_view v = {0};
    if (r->look && !job_view_of(r->look, r->op->now, j->number, &v))
        object(r, "there is no job %u", j->number);
    uint64_t n = remember(r, v.counts.selected) - j->counts.selected;
    bool is_last = remember(r, !v.is_selecting);
    if ((n == 0 && !is_last) || !next_frame(r))
        return false;
    for (; n > 0; n--) {
        struct model_message *x = next_candidate(r->m, j);
        if (!x) {
            object(r, "job %u selected letters that do not match", j->number);
            break;
        }
        select_one(r->m, j, x);
    }
    if (!is_last)
        return false;
    const struct model_message *x = next_candidate(r->m, j);
    if (x)
        object(r, "job %u did not select message %llu", j->number, (unsigned long long)x->id);
    job_end_selection(j);
    return true;
}

/* -- making -------------------------------------------------------------------------------------------- */

void audit_job(struct run *r, const struct model_job *j, enum audit_action action, struct who who) {
    audit_add(r->m, &(struct model_audit){.at = r->op->now,
                                          .action = action,
                                          .count = j->counts.selected,
                                          .target = j->number,
                                          .queue = (int8_t)j->queue,
                                          .who = who,
                                          .scope = j->filter});
}

static struct model_job *job_make(struct model *m, const struct op *op) {
    const struct op_job *p = &op->job;
    bool is_redrive = p->kind == JOB_REDRIVE, samples = is_redrive && p->sample > 0;
    bool has_target = p->to >= 0 && p->to != op->queue;
    assert(m->job_count < MODEL_JOBS);
    struct model_job *j = &m->jobs[m->job_count++];
    *j = (struct model_job){
        .number = (uint32_t)m->job_count,
        .kind = p->kind,
        .state = samples ? JOB_SAMPLING : JOB_RUNNING,
        .selecting = true,
        .sample_passed = !samples,
        .force = p->force,
        .queue = op->queue,
        .to = has_target ? p->to : -1,
        .queue_serial = op->queue >= 0 ? m->queues[op->queue].serial : 0,
        .to_serial = has_target ? m->queues[p->to].serial : 0,
        .filter = p->filter,
        .patch = p->patch,
        .patch_k = p->patch_k,
        .fence = m->next_dead_seq - 1,
        .rate_milli = p->rate_milli,
        .sample = samples ? p->sample : 0,
        .stop_if_ppm = is_redrive ? p->stop_if_ppm : STOP_NEVER,
        .why = op->why,
        .who = op->who,
        .created_at = op->now,
        .changed_at = op->now,
        .reached_at = INT64_MIN,
        .due_ns = op->now * NS_PER_MS,
    };
    return j;
}

/* The oldest that is over makes way. */
static void forget_oldest(struct run *r) {
    struct model *m = r->m;
    uint64_t kept = 0;
    struct model_job *oldest = NULL;
    for (size_t i = 0; i < m->job_count; i++) {
        struct model_job *j = &m->jobs[i];
        kept += !j->is_forgotten;
        if (!oldest && !j->is_forgotten && model_job_has_ended(j) && j->counts.open == 0)
            oldest = j;
    }
    if (kept >= LIMIT_JOBS_KEPT && oldest && next_frame(r))
        oldest->is_forgotten = true;
}

void job_start(struct run *r, struct outcome *ret) {
    const struct op *op = r->op;
    bool is_there = (op->queue < 0 || r->m->queues[op->queue].exists) &&
                    (op->job.to < 0 || r->m->queues[op->job.to].exists);
    if (!is_there)
        ret->error = ERR_NO_QUEUE;
    else if (model_active_jobs(r->m) >= LIMIT_JOBS_ACTIVE)
        ret->error = ERR_TOO_MANY_JOBS;
    else if (op->error == ERR_DISK_FULL)
        ret->error = ERR_DISK_FULL;
    if (ret->error != OK)
        return;
    forget_oldest(r);
    if (!next_frame(r))
        return;
    struct model_job *j = job_make(r->m, op);
    ret->ids[0] = j->number;
    ret->n = 1;
    audit_job(r, j, AUDIT_JOB_CREATED, op->who);
    if (job_select(r, j))
        audit_job(r, j, AUDIT_JOB_CHANGED, (struct who){.actor = j->who.actor});
}

const struct model_job *model_plan(struct model *m, struct op *op) {
    struct model_job *j = job_make(m, op);
    for (struct model_message *x; (x = next_candidate(m, j));)
        select_one(m, j, x);
    job_end_selection(j);
    return j;
}

/* -- changing ------------------------------------------------------------------------------------------ */

static void change_state(struct model_job *j, int64_t now, enum job_state state) {
    if (state == JOB_PAUSED && j->state != JOB_STOPPED) {
        j->state = JOB_PAUSED;
    } else if (state == JOB_CANCELLED) {
        j->state = JOB_CANCELLED;
        j->ended_at = now;
    } else if (state == JOB_RUNNING && j->state == JOB_STOPPED) {
        j->sample_passed = true;
        j->succeeded_before = j->counts.succeeded;
        j->died_before = j->counts.died_again;
        j->state = JOB_RUNNING;
    } else if (state == JOB_RUNNING && j->state == JOB_PAUSED) {
        j->state = j->sample_passed ? JOB_RUNNING : JOB_SAMPLING;
    }
}

void job_change(struct run *r, struct outcome *ret) {
    const struct op *op = r->op;
    const struct job_change *c = &op->job.change;
    struct model_job *j = model_job(r->m, op->job.number);
    if (!j)
        ret->error = ERR_NO_JOB;
    else if (model_job_has_ended(j))
        ret->error = c->has_state && c->state == j->state ? OK : ERR_WRONG_STATE;
    else if (op->error == ERR_DISK_FULL)
        ret->error = ERR_DISK_FULL;
    if (ret->error != OK || model_job_has_ended(j) || !next_frame(r))
        return;
    if (c->has_state)
        change_state(j, op->now, c->state);
    if (c->has_rate)
        j->rate_milli = c->rate_milli;
    if (c->has_stop_if)
        j->stop_if_ppm = c->stop_if_ppm;
    j->changed_at = op->now;
    j->due_ns = op->now * NS_PER_MS;
    audit_job(r, j, AUDIT_JOB_CHANGED, op->who);
}
