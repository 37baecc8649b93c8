/* The table of jobs, in order of their numbers, and what events count in them. While the log is read
 * an event may speak of a job whose image is still to come: it is there without one until then. */
#include "engine/state.h"

#include "base/mem.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* The place of the first job with at least this number. */
static uint32_t place_of(const struct engine_state *st, uint32_t number) {
    uint32_t low = 0, high = st->job_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (st->jobs[middle]->number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct job *job_by_number(const struct engine_state *st, uint32_t number) {
    uint32_t i = place_of(st, number);
    return i < st->job_count && st->jobs[i]->number == number ? st->jobs[i] : NULL;
}

struct job *job_of_record(struct engine_state *st, uint32_t number) {
    uint32_t i = place_of(st, number);
    if (i < st->job_count && st->jobs[i]->number == number)
        return st->jobs[i];
    if (st->job_count == st->job_cap) {
        st->job_cap = st->job_cap ? st->job_cap * 2 : 16;
        st->jobs = mem_grow(st->jobs, st->job_cap * sizeof(struct job *));
    }
    memmove(st->jobs + i + 1, st->jobs + i, (st->job_count - i) * sizeof(struct job *));
    struct job *j = mem_alloc(sizeof *j);
    j->number = number;
    st->jobs[i] = j;
    st->job_count++;
    if (number >= st->next_job)
        st->next_job = number + 1;
    return j;
}

bool job_has_ended(const struct job *j) {
    return j->image.state == JOB_CANCELLED || j->image.state == JOB_DONE;
}

static bool is_active(const struct job *j) {
    return j->image.kind != 0 && !job_has_ended(j);
}

void job_wake(struct engine_state *st, struct job *j) {
    if (is_active(j))
        timers_set(&st->timers, TIMER_OF_JOB | j->number, INT64_MIN);
}

static void forget_ids(struct job *j) {
    free(j->ids);
    j->ids = NULL;
    j->id_count = j->id_cap = j->next = 0;
    j->is_loaded = false;
}

static void keep_texts(struct job *j, const struct record_job *r) {
    struct span spans[JOB_SPANS];
    char *texts = spans_keep(spans, record_job_spans(r, spans));
    j->image = *r;
    struct span *const places[] = {
        &j->image.queue_name, &j->image.to_name,     &j->image.filter,
        &j->image.name,       &j->image.actor,       &j->image.reason,
        &j->image.patch,      &j->image.stop_reason, &j->image.idempotency_key};
    size_t texts_count = sizeof places / sizeof places[0];
    for (size_t i = 0; i < texts_count; i++)
        *places[i] = spans[i];
    for (unsigned i = 0; i < r->version_count; i++)
        j->image.versions[i].name = spans[texts_count + i];
    free(j->texts); /* r may point into the old ones */
    j->texts = texts;
}

void apply_job(struct engine_state *st, const struct record_job *r, uint64_t position,
               size_t bytes) {
    struct job *j = job_of_record(st, r->job);
    bool was_active = is_active(j);
    keep_texts(j, r);
    st->live_bytes += bytes - j->image_bytes;
    j->position = position;
    j->image_bytes = bytes;
    if (is_active(j) && !was_active)
        st->jobs_active++;
    if (!is_active(j) && was_active) {
        st->jobs_active--;
        timers_clear(&st->timers, TIMER_OF_JOB | j->number);
        forget_ids(j);
    }
    job_wake(st, j);
}

void job_push_id(struct job *j, uint64_t id) {
    if (j->id_count == j->id_cap) {
        j->id_cap = j->id_cap ? j->id_cap * 2 : 64;
        j->ids = mem_grow(j->ids, j->id_cap * sizeof *j->ids);
    }
    j->ids[j->id_count++] = id;
}

void apply_job_letters(struct engine_state *st, const struct record_job_letters *r) {
    struct job *j = job_of_record(st, r->job);
    for (uint32_t k = 0; k < r->count; k++) {
        uint32_t i = slot_find(st, r->ids[k]);
        if (!i) {
            st->orphans++;
            continue;
        }
        struct letter *l = slot_need_letter(st, i);
        l->job = r->job;
        l->job_part = JOB_PART_REMAINING;
        if (j->is_loaded)
            job_push_id(j, r->ids[k]);
    }
}

static void job_remove(struct engine_state *st, uint32_t i) {
    struct job *j = st->jobs[i];
    if (is_active(j))
        st->jobs_active--;
    timers_clear(&st->timers, TIMER_OF_JOB | j->number);
    st->live_bytes -= j->image_bytes;
    forget_ids(j);
    filter_free(j->filter);
    free(j->texts);
    free(j);
    st->job_count--;
    memmove(st->jobs + i, st->jobs + i + 1, (st->job_count - i) * sizeof(struct job *));
}

void apply_job_gone(struct engine_state *st, uint32_t number) {
    uint32_t i = place_of(st, number);
    if (i < st->job_count && st->jobs[i]->number == number)
        job_remove(st, i);
}

void jobs_release(struct engine_state *st) {
    for (uint32_t i = 0; i < st->job_count; i++) {
        forget_ids(st->jobs[i]);
        filter_free(st->jobs[i]->filter);
        free(st->jobs[i]->texts);
        free(st->jobs[i]);
    }
    free(st->jobs);
}

/* -- counting: functions of the record alone -------------------------------------------------- */

static void leave_part(struct job_counts *c, enum job_part part) {
    if (part == JOB_PART_REMAINING)
        c->remaining--;
    else
        c->open--;
}

void job_count_event(struct engine_state *st, const struct record_state *r) {
    if (!r->image.has_letter || r->job_was == JOB_PART_NONE)
        return;
    struct job *j = job_of_record(st, r->image.letter.job);
    struct job_counts *c = &j->image.counts;
    switch (r->event.event) {
    case EVENT_REDRIVEN:
    case EVENT_PATCHED:
        c->open++;
        j->image.sent++;
        break;
    case EVENT_SUCCEEDED:
        c->succeeded++;
        break;
    case EVENT_FAILED:
    case EVENT_LEASE_EXPIRED:
    case EVENT_EXPIRED:
        if (r->image.state != STATE_DEAD)
            return;
        c->died_again++;
        break;
    case EVENT_DISCARDED:
        c->discarded++;
        break;
    case EVENT_REPLAYED:
        c->skipped[SKIP_REPLAYED]++;
        break;
    case EVENT_EDITED:
        c->skipped[SKIP_EDITED]++;
        break;
    case EVENT_NONE:
    case EVENT_CLAIMED:
    case EVENT_RELEASED:
    case EVENT_UNDISCARDED:
    case EVENT_DEAD_LETTERED:
        return;
    }
    leave_part(c, r->job_was);
    job_wake(st, j);
}

void job_count_gone(struct engine_state *st, const struct record_gone *r) {
    if (r->job_part == JOB_PART_NONE)
        return;
    struct job *j = job_of_record(st, r->job);
    for (uint32_t i = 0; i < r->count; i++)
        leave_part(&j->image.counts, r->job_part);
    j->image.counts.discarded += r->count;
    job_wake(st, j);
}

void apply_job_skip(struct engine_state *st, const struct record_job_skip *r) {
    struct job *j = job_of_record(st, r->job);
    j->image.counts.skipped[r->why]++;
    j->image.counts.remaining--;
    uint32_t i = slot_find(st, r->id);
    if (i)
        slot_need_letter(st, i)->job_part = JOB_PART_NONE;
    else
        st->orphans++;
    job_wake(st, j);
}
