/* Jobs over many dead letters: making, showing, changing them. What they do is in redrive.c. */
#include "engine/jobs.h"

#include <assert.h>

/* -- who says so ----------------------------------------------------------------------------- */

struct audit_entry job_entry(const struct record_job *r, int64_t now, enum audit_action action,
                             const struct act *who) {
    return (struct audit_entry){.at = now,
                                .action = action,
                                .count = r->counts.selected,
                                .target = r->job,
                                .queue = r->queue_name,
                                .actor = who->actor,
                                .scope = r->filter,
                                .reason = who->reason};
}

void emit_job(struct engine *e, const struct record_job *r, const struct audit_entry *entry) {
    log_frame_begin(e->log, job_bytes(r) + audit_bytes(entry));
    append_audit(e, entry); /* first: its spans may point into what the job's image replaces */
    append_job(e, r);
    log_frame_end(e->log);
}

struct record_job job_image(const struct job *j) {
    struct record_job r = j->image;
    r.job = j->number;
    return r;
}

const struct filter *job_filter(struct job *j) {
    if (!j->filter && j->image.filter.n > 0) {
        struct filter_error error;
        j->filter = filter_parse(j->image.filter, FILTER_LETTERS, j->image.created_at, &error);
        assert(j->filter); /* it was parsed before the job was made */
    }
    return j->filter;
}

/* -- showing --------------------------------------------------------------------------------- */

static bool is_claiming(const struct queue *q, int64_t now, struct span version) {
    for (int i = 0; q->claimers && i < CLAIMERS; i++) {
        const struct claimer *c = &q->claimers[i];
        if (c->at && now - c->at <= LIMIT_WORKER_SEEN_MS &&
            span_equal(span_of(c->version, c->bytes), version))
            return true;
    }
    return false;
}

/* The queue that gets the letters; NULL for a discard, or when it is gone. */
static const struct queue *receiver(const struct engine *e, const struct record_job *r) {
    return r->kind == JOB_REDRIVE ? queue_by_number(&e->st, r->to ? r->to : r->queue) : NULL;
}

static void view_warnings(const struct engine *e, int64_t now, struct job_view *v,
                          const struct record_job *r) {
    struct job_warnings *w = &v->warnings;
    w->redriven_before = r->redriven_before;
    w->at_limit = r->at_limit;
    const struct queue *q = receiver(e, r);
    v->version_count = r->version_count;
    for (unsigned i = 0; i < r->version_count; i++) {
        v->versions[i] =
            (struct job_version){.name = r->versions[i].name, .count = r->versions[i].total};
        v->versions[i].is_claiming = q && is_claiming(q, now, r->versions[i].name);
        w->old_version_claims |= v->versions[i].is_claiming;
    }
    if (!q || job_state_is_over(r->state))
        return;
    w->is_paused = q->paused_at != 0;
    bool was_seen = q->claimed_at && now - q->claimed_at <= LIMIT_WORKER_SEEN_MS;
    w->has_no_worker = !was_seen && q->watchers == 0;
}

static struct job_view view_of(const struct engine *e, int64_t now, const struct record_job *r) {
    struct job_view v = {
        .number = r->job,
        .kind = r->kind,
        .state = r->state,
        .is_selecting = r->selecting,
        .queue = r->queue_name,
        .to = r->to_name,
        .filter = r->filter,
        .name = r->name,
        .actor = r->actor,
        .reason = r->reason,
        .patch = r->patch,
        .stop_reason = r->stop_reason,
        .why = r->why,
        .fence = r->fence,
        .rate_milli = r->rate_milli,
        .sample = r->sample,
        .stop_if_ppm = r->stop_if_ppm,
        .force = r->force,
        .clear_deaths = r->clear_deaths,
        .counts = r->counts,
        .sent = r->sent,
        .new_since_is_complete = true,
        .created_at = r->created_at,
        .changed_at = r->changed_at,
        .ended_at = r->ended_at,
    };
    if (r->sample == SAMPLE_BY_DEFAULT)
        v.sample = LIMIT_SAMPLE; /* as far as one can tell now */
    view_warnings(e, now, &v, r);
    return v;
}

struct newcomers {
    const struct job *job;
    uint64_t count;
    bool is_over;
};

static bool count_newcomer(void *ctx, const struct slot *s, const struct letter *l) {
    (void)s;
    struct newcomers *n = ctx;
    n->is_over = l->died_at < n->job->image.created_at;
    n->count += l->dead_seq > n->job->image.fence && l->job != n->job->number;
    return !n->is_over;
}

/* The newest deaths come first: those since the job was made are looked at. */
static void view_newcomers(struct engine *e, struct job *j, struct job_view *v) {
    if (j->image.fence == engine_fence(e))
        return;
    struct walk w = {.query = {.filter = job_filter(j)},
                     .looked_most = LIMIT_JOB_LOOKS,
                     .reads_most = LIMIT_JOB_READS};
    w.only = queue_by_number(&e->st, j->image.queue);
    if (j->image.queue && (!w.only || w.only->dropping))
        return;
    struct newcomers n = {.job = j};
    struct letter_place next;
    bool is_last = letters_walk(e, &w, count_newcomer, &n, &next);
    v->new_since = n.count;
    v->new_since_is_complete = is_last || n.is_over;
}

enum err engine_job(struct engine *e, int64_t now, uint32_t number, struct job_view *ret) {
    struct job *j = job_by_number(&e->st, number);
    if (!j)
        return ERR_NO_JOB;
    struct record_job image = job_image(j);
    *ret = view_of(e, now, &image);
    view_newcomers(e, j, ret);
    return OK;
}

void engine_jobs(struct engine *e, int64_t now, int kind, uint32_t before,
                 bool (*f)(void *ctx, const struct job_view *job), void *ctx) {
    for (uint32_t i = e->st.job_count; i > 0; i--) {
        const struct job *j = e->st.jobs[i - 1];
        if ((before && j->number >= before) || (kind && (int)j->image.kind != kind))
            continue;
        struct record_job image = job_image(j);
        struct job_view v = view_of(e, now, &image);
        if (!f(ctx, &v))
            return;
    }
}

/* -- making ---------------------------------------------------------------------------------- */

static enum err image_of_new(const struct engine *e, int64_t now, const struct job_new *job,
                             struct record_job *ret) {
    const struct queue *q = NULL, *to = NULL;
    if (job->queue.n > 0 && !(q = queue_by_name(&e->st, job->queue)))
        return ERR_NO_QUEUE;
    if (job->to.n > 0 && !(to = queue_by_name(&e->st, job->to)))
        return ERR_NO_QUEUE;
    bool samples = job->kind == JOB_REDRIVE && job->sample > 0;
    struct act who = act_cut(&job->act);
    *ret = (struct record_job){
        .job = e->st.next_job,
        .kind = job->kind,
        .state = samples ? JOB_SAMPLING : JOB_RUNNING,
        .selecting = true,
        .sample_passed = !samples,
        .force = job->force,
        .clear_deaths = job->clear_deaths,
        .queue = q ? q->number : 0,
        .to = to && to != q ? to->number : 0,
        .fence = engine_fence(e),
        .rate_milli = job->rate_milli,
        .sample = samples ? job->sample : 0,
        .stop_if_ppm = job->kind == JOB_REDRIVE ? job->stop_if_ppm : STOP_NEVER,
        .why = job->why,
        .created_at = now,
        .changed_at = now,
        .cursor_died_at = INT64_MIN,
        .queue_name = job->queue,
        .to_name = to && to != q ? job->to : (struct span){0},
        .filter = job->filter,
        .name = job->name,
        .actor = who.actor,
        .reason = who.reason,
        .patch = job->patch,
        .idempotency_key = job->idempotency_key,
    };
    return OK;
}

enum err engine_job_find(struct engine *e, int64_t now, enum job_kind kind, struct span key,
                         uint32_t *ret_number) {
    for (uint32_t i = e->st.job_count; i > 0; i--) {
        const struct record_job *r = &e->st.jobs[i - 1]->image;
        if (r->created_at < now - LIMIT_JOB_KEY_MS)
            break;
        if (r->kind == kind && key.n > 0 && span_equal(r->idempotency_key, key)) {
            *ret_number = e->st.jobs[i - 1]->number;
            return OK;
        }
    }
    return ERR_NO_JOB;
}

static void forget_oldest(struct engine *e) {
    for (uint32_t i = 0; i < e->st.job_count; i++) {
        const struct job *j = e->st.jobs[i];
        if (!job_has_ended(j) || j->image.counts.open > 0)
            continue;
        uint8_t meta[RECORD_META_MAX];
        size_t n = record_job_gone_put(meta, j->number);
        log_frame_begin(e->log, log_record_bytes(n, 0));
        append_bare(e, RECORD_JOB_GONE, meta, n);
        log_frame_end(e->log);
        apply_job_gone(&e->st, j->number);
        return;
    }
}

enum err engine_job_start(struct engine *e, int64_t now, const struct job_new *job,
                          uint32_t *ret_number) {
    struct record_job r;
    enum err err = image_of_new(e, now, job, &r);
    if (err != OK)
        return err;
    if (e->st.jobs_active >= LIMIT_JOBS_ACTIVE)
        return ERR_TOO_MANY_JOBS;
    const struct act who = {.actor = r.actor, .reason = r.reason};
    struct audit_entry entry = job_entry(&r, now, AUDIT_JOB_CREATED, &who);
    entry.result = span_str(job_kind_name(r.kind));
    if (!log_has_room(e->log, LOG_USE_SETTLE, job_bytes(&r) + audit_bytes(&entry)))
        return ERR_DISK_FULL;
    if (e->st.job_count >= LIMIT_JOBS_KEPT)
        forget_oldest(e);
    emit_job(e, &r, &entry);
    struct job *j = job_by_number(&e->st, r.job);
    j->is_loaded = true;
    j->due_ns = now * 1000000;
    uint32_t done;
    if (!job_due(e, j, now, &done))
        job_wake(&e->st, j); /* the disk is full: engine_tick tries again */
    *ret_number = r.job;
    return OK;
}

/* -- planning -------------------------------------------------------------------------------- */

struct plan {
    struct selection selection;
    uint64_t *ids;
    size_t n, most;
};

static bool plan_letter(void *ctx, const struct slot *s, const struct letter *l) {
    struct plan *p = ctx;
    if (selection_add(&p->selection, s, l) && p->n < p->most)
        p->ids[p->n++] = s->id;
    return true;
}

enum err engine_job_plan(struct engine *e, int64_t now, const struct job_new *job,
                         struct job_view *ret, bool *ret_is_complete, uint64_t *ret_ids,
                         size_t ids_max, size_t *ret_n) {
    struct record_job r;
    enum err err = image_of_new(e, now, job, &r);
    if (err != OK)
        return err;
    struct filter_error error;
    struct filter *filter =
        job->filter.n ? filter_parse(job->filter, FILTER_LETTERS, now, &error) : NULL;
    assert(filter || job->filter.n == 0);
    struct walk w = {.query = {.filter = filter, .oldest_first = true, .fence = r.fence},
                     .only = r.queue ? queue_by_number(&e->st, r.queue) : NULL,
                     .looked_most = LIMIT_WALK_LETTERS,
                     .reads_most = LIMIT_WALK_READS};
    struct plan plan = {.selection = {.engine = e, .job = &r}, .ids = ret_ids, .most = ids_max};
    struct letter_place next;
    *ret_is_complete = r.fence == 0 || letters_walk(e, &w, plan_letter, &plan, &next);
    r.selecting = !*ret_is_complete;
    if (r.selecting) {
        bool is_exact;
        uint64_t count = letters_count(e, &w, &is_exact);
        if (is_exact) {
            r.counts.remaining += count - r.counts.selected;
            r.counts.selected = count;
            r.selecting = false;
        }
    }
    filter_free(filter);
    settle_sample(&r);
    *ret = view_of(e, now, &r);
    ret->number = 0;
    *ret_n = plan.n;
    return OK;
}

/* -- changing -------------------------------------------------------------------------------- */

static void say_change(struct engine *e, const struct job_change *c) {
    buf_clear(&e->result);
    if (c->has_state)
        buf_add_str(&e->result, c->state == JOB_RUNNING ? "resumed" : job_state_name(c->state));
    if (c->has_rate && c->rate_milli)
        buf_printf(&e->result, "%srate %.10g/s", e->result.n ? ", " : "",
                   (double)c->rate_milli / 1000);
    else if (c->has_rate)
        buf_printf(&e->result, "%sno rate", e->result.n ? ", " : "");
    if (c->has_stop_if && c->stop_if_ppm != STOP_NEVER)
        buf_printf(&e->result, "%sstop_if %.10g", e->result.n ? ", " : "",
                   (double)c->stop_if_ppm / 1000000);
    else if (c->has_stop_if)
        buf_printf(&e->result, "%sno stop_if", e->result.n ? ", " : "");
}

static void change_state(struct record_job *r, int64_t now, enum job_state state) {
    if (state == JOB_PAUSED && r->state != JOB_STOPPED) {
        r->state = JOB_PAUSED;
    } else if (state == JOB_CANCELLED) {
        r->state = JOB_CANCELLED;
        r->ended_at = now;
    } else if (state == JOB_RUNNING && (r->state == JOB_PAUSED || r->state == JOB_STOPPED)) {
        if (r->state == JOB_STOPPED) {
            /* Whoever resumes has seen the sample. */
            r->sample_passed = true;
            r->succeeded_before = r->counts.succeeded;
            r->died_before = r->counts.died_again;
            r->stop_reason = (struct span){0};
        }
        r->state = r->sample_passed ? JOB_RUNNING : JOB_SAMPLING;
    }
}

enum err engine_job_change(struct engine *e, int64_t now, uint32_t number,
                           const struct job_change *change, const struct act *act) {
    struct job *j = job_by_number(&e->st, number);
    if (!j)
        return ERR_NO_JOB;
    if (job_has_ended(j))
        return change->has_state && change->state == j->image.state ? OK : ERR_WRONG_STATE;
    struct record_job r = job_image(j);
    if (change->has_state)
        change_state(&r, now, change->state);
    if (change->has_rate)
        r.rate_milli = change->rate_milli;
    if (change->has_stop_if)
        r.stop_if_ppm = change->stop_if_ppm;
    r.changed_at = now;
    struct act who = act_cut(act);
    say_change(e, change);
    struct audit_entry entry = job_entry(&r, now, AUDIT_JOB_CHANGED, &who);
    entry.result = buf_span(&e->result);
    if (!log_has_room(e->log, LOG_USE_SETTLE, job_bytes(&r) + audit_bytes(&entry)))
        return ERR_DISK_FULL;
    emit_job(e, &r, &entry);
    j->due_ns = now * 1000000;
    return OK;
}
