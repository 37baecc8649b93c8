/* What a tick does of jobs and dead letters, as the model has them. In which order the turns of a
 * tick did what is the engine's: what became of each letter is looked up, and the entries on the
 * audit say how far each job came; all of it is checked against what a job may do. */
#include "sim/model_int.h"

#include "base/limits.h"

#include <stdio.h>

#define NS_PER_MS 1000000
#define CATCH_UP_NS 1000000000

/* -- retention --------------------------------------------------------------------------------------- */

static int64_t retained_until(const struct model *m, const struct model_message *x) {
    int64_t keep_ms = m->queues[x->queue].policy.keep_dead_ms;
    if (!keep_ms)
        return INT64_MAX;
    int64_t until = x->died_at + keep_ms;
    return until < x->idempotency_until ? x->idempotency_until : until;
}

/* With many groups a walk over them may be that late. */
static int64_t lateness(const struct model *m, int queue) {
    int64_t groups = 0;
    for (size_t i = 0; i < m->group_count; i++)
        groups += m->groups[i].exists && m->groups[i].queue == queue;
    return groups / 10;
}

/* -- before ------------------------------------------------------------------------------------------ */

/* Then it is known what it finds; else letters may have gone before it came to them, or match now and
 * did not when it passed them. */
static bool selects_alone(const struct run *r, const struct model_job *j) {
    const struct model *m = r->m;
    if (j->filter.by == BY_EXPIRES || j->filter.by == BY_EDITED)
        return false;
    for (size_t i = 0; i < m->job_count; i++)
        if (m->jobs[i].acts && &m->jobs[i] != j)
            return false;
    for (size_t i = 0; i < m->message_count; i++)
        if (m->messages[i].state == STATE_DEAD && retained_until(m, &m->messages[i]) <= r->op->now)
            return false;
    return m->dropping_messages == 0 && !j->adopts;
}

static int64_t interval_ns(const struct model_job *j) {
    return j->rate_milli ? INT64_C(1000000000000) / (int64_t)j->rate_milli : 0;
}

/* A restart does not know what went just before. */
static int64_t first_due(const struct model_job *j, int64_t now) {
    return now * NS_PER_MS + interval_ns(j);
}

/* The first time it acts since a restart; on a full disk perhaps not yet. */
static void load(struct run *r, struct model_job *j) {
    int64_t due_ns = first_due(j, r->op->now);
    if (j->is_restarted || (j->may_be_loaded && due_ns < j->due_ns))
        j->due_ns = due_ns;
    j->may_be_loaded = (j->is_restarted || j->may_be_loaded) && r->op->full;
    j->is_restarted = false;
}

void jobs_begin_tick(struct run *r) {
    struct model *m = r->m;
    for (size_t i = 0; i < m->job_count; i++) {
        struct model_job *j = &m->jobs[i];
        j->acts = j->state == JOB_SAMPLING || j->state == JOB_RUNNING;
        j->has_selected = false;
        j->adopts = j->adopts && !model_job_has_ended(j);
        j->went = 0;
        j->sent_before = j->sent;
        if (j->acts)
            load(r, j);
        j->last = (struct letter_place){INT64_MIN, 0};
    }
    for (size_t i = 0; i < m->job_count; i++) {
        struct model_job *j = &m->jobs[i];
        if (!j->acts || !j->selecting)
            continue;
        if (selects_alone(r, j))
            j->has_selected = job_select(r, j);
        else
            j->adopts = true;
    }
}

/* -- what becomes of letters ------------------------------------------------------------------------- */

static bool is_before(struct letter_place a, struct letter_place b) {
    return a.died_at != b.died_at ? a.died_at < b.died_at : a.dead_seq < b.dead_seq;
}

/* The job has done its work on a letter that may go. */
static void goes(struct run *r, struct model_job *j, const struct model_message *x) {
    struct letter_place place = {x->died_at, x->dead_seq};
    if (!j->acts)
        object(r, "job %u took message %llu, and is %s", j->number, (unsigned long long)x->id,
               job_state_name(j->state));
    if (x->dead_seq > j->fence)
        object(r, "job %u took message %llu, which died after its fence", j->number,
               (unsigned long long)x->id);
    if (is_before(j->last, place))
        j->last = place;
    j->went++;
}

static void leaves_group(struct run *r, const struct model_message *x) {
    if (x->group)
        r->tick->group_left[x->group - 1] = true;
}

static bool is_there(const struct model *m, int queue, uint64_t serial) {
    return m->queues[queue].exists && m->queues[queue].serial == serial;
}

static void is_moved(struct run *r, const struct model_job *j, struct model_message *x) {
    struct model *m = r->m;
    if (!is_there(m, j->to, j->to_serial))
        object(r, "job %u sent message %llu to a queue that is gone", j->number,
               (unsigned long long)x->id);
    leaves_group(r, x);
    move_to(m, x, j->to);
}

static void is_sent(struct run *r, struct model_job *j, struct model_message *x) {
    goes(r, j, x);
    struct model_line line = {.event = EVENT_REDRIVEN, .job = j->number};
    (void)job_leave(r->m, x);
    go_again(r->m, x, r->op->now);
    x->part = JOB_PART_OPEN;
    j->counts.open++;
    j->sent++;
    if (j->to >= 0) {
        line.moved_from = (int8_t)x->queue;
        line.moved_to = (int8_t)j->to;
        is_moved(r, j, x);
    }
    r->m->queues[x->queue].redriven++;
    tell(r->m, x, r->op->now, line);
}

static void is_copied(struct run *r, struct model_job *j, struct model_message *x) {
    struct model *m = r->m;
    int64_t now = r->op->now;
    goes(r, j, x);
    (void)job_leave(m, x);
    struct model_message *copy = copy_put(m, x, j->to >= 0 ? j->to : x->queue, now);
    if (!patch_contents(j->patch, j->patch_k, &copy->headers, &copy->payload))
        object(r, "job %u patched message %llu, which cannot be", j->number,
               (unsigned long long)x->id);
    copy->job = j->number;
    copy->part = JOB_PART_OPEN;
    j->counts.open++;
    j->sent++;
    x->edited_to = copy->id;
    touch(x, now);
    tell(m, x, now,
         (struct model_line){.event = EVENT_PATCHED, .job = j->number, .copy = copy->id});
}

/* By their ids, which are new: in the order in which they were made. */
static void find_copies(struct run *r) {
    struct model *m = r->m;
    struct message_view v = {0};
    uint64_t first = m->next_id, n = 0;
    while (r->look && engine_letter(r->look, first + n, &v) == OK)
        n++;
    n = remember(r, n);
    for (uint64_t i = 0; i < n; i++) {
        v = (struct message_view){0};
        if (r->look && engine_letter(r->look, first + i, &v) != OK)
            object(r, "message %llu went", (unsigned long long)(first + i));
        struct model_message *x = model_find(m, remember(r, v.parent_id));
        struct model_job *j = x ? model_job(m, (uint32_t)remember(r, v.job)) : NULL;
        if (!j || (j != job_of(m, x) && !j->adopts) || !j->patch) {
            object(r, "message %llu came from nowhere", (unsigned long long)(first + i));
            return;
        }
        x->job = j->number;
        is_copied(r, j, x);
    }
}

enum fate { STAYS, WENT, SENT, DISCARDED, UNPATCHABLE };

static enum fate find_fate(struct run *r, const struct model_message *x, const struct model_job *j,
                           uint32_t *ret_job) {
    struct message_view v;
    enum state state;
    bool is_at_home =
        engine_message_state(r->look, model_queue_name(x->queue), x->id, &state) == OK;
    if (is_at_home && state == STATE_DEAD && !(j && j->patch))
        return STAYS;
    if (engine_letter(r->look, x->id, &v) != OK)
        return WENT;
    *ret_job = v.job;
    if (v.state == STATE_DISCARDED)
        return DISCARDED;
    if (v.state != STATE_DEAD)
        return SENT;
    bool has_left = v.job_part == JOB_PART_NONE || (j && v.job != j->number);
    return j && j->patch && has_left ? UNPATCHABLE : STAYS;
}

static void is_unpatchable(struct run *r, struct model_job *j, struct model_message *x) {
    struct content headers = x->headers, payload = x->payload;
    if (!j->acts || patch_contents(j->patch, j->patch_k, &headers, &payload))
        object(r, "job %u did not patch message %llu", j->number, (unsigned long long)x->id);
    struct letter_place place = {x->died_at, x->dead_seq};
    if (is_before(j->last, place))
        j->last = place;
    (void)job_leave(r->m, x);
    j->counts.skipped[SKIP_UNPATCHABLE]++;
}

/* The one of that kind that adopts: its letters are not known. */
static struct model_job *adopting(struct model *m, enum job_kind kind) {
    for (size_t i = 0; i < m->job_count; i++)
        if (m->jobs[i].adopts && (!kind || m->jobs[i].kind == kind))
            return &m->jobs[i];
    return NULL;
}

/* Taken by retention or a purge. When it was due for both, either may have been. */
static void went(struct run *r, struct model_message *x, bool is_due) {
    struct ledger *l = &r->m->queues[x->queue].ledger;
    struct model_job *j = job_of(r->m, x), *purge = adopting(r->m, JOB_PURGE);
    if (j && j->kind == JOB_PURGE && j->acts)
        purge = j;
    else if (j && !j->patch)
        purge = NULL;
    if (j && purge && j != purge && !is_due)
        is_unpatchable(r, j, x); /* the one passed it over, and then the other had it */
    if (purge && is_due)
        r->tick->purged_due[x->queue]++;
    else if (purge && !purge->adopts)
        goes(r, purge, x);
    else if (!purge && is_due)
        l->expired++;
    else if (!purge)
        object(r, "dead letter %llu went before its retention was over", (unsigned long long)x->id);
    l->discarded++;
    struct job_counts *c = job_leave(r->m, x);
    if (c)
        c->discarded++;
    /* Its patch may have been tried first. */
    if (j && j->patch && is_due)
        j->adopts = true;
    leaves_group(r, x);
}

static void must_stay(struct run *r, const struct model_message *x) {
    int64_t until = retained_until(r->m, x);
    if (until != INT64_MAX && !r->op->full && until + lateness(r->m, x->queue) <= r->op->now)
        object(r, "dead letter %llu is kept longer than its retention", (unsigned long long)x->id);
}

/* True when the message is gone. */
static bool letter_goes(struct run *r, struct model_message *x) {
    struct model *m = r->m;
    bool is_due = retained_until(m, x) <= r->op->now;
    struct model_job *j = job_of(m, x);
    if (x->state != STATE_DEAD || (!is_due && !j && !adopting(m, 0)))
        return false;
    uint32_t number = 0;
    enum fate fate = (enum fate)remember(r, r->look ? find_fate(r, x, j, &number) : 0);
    number = (uint32_t)remember(r, number);
    if (fate == WENT) {
        went(r, x, is_due);
        return true;
    }
    if (fate == STAYS) {
        must_stay(r, x);
        return false;
    }
    struct model_job *other = model_job(m, number);
    if (other && other != j && other->adopts && fate != UNPATCHABLE) {
        if (j) /* it had it first, and could not patch it */
            is_unpatchable(r, j, x);
        j = other;
    }
    if (!j) {
        object(r, "message %llu was sent or discarded, and is in no job",
               (unsigned long long)x->id);
        return false;
    }
    x->job = j->number;
    if (fate == SENT) {
        is_sent(r, j, x);
    } else if (fate == UNPATCHABLE) {
        is_unpatchable(r, j, x);
    } else {
        goes(r, j, x);
        discard(m, x, r->op->now,
                (struct model_line){.event = EVENT_DISCARDED,
                                    .job = j->number,
                                    .why = j->why,
                                    .reason = j->who.reason});
    }
    return false;
}

void letters_go(struct run *r) {
    struct model *m = r->m;
    find_copies(r);
    for (size_t i = 0; i < m->message_count;)
        if (letter_goes(r, &m->messages[i]))
            message_remove(m, i);
        else
            i++;
    for (int q = 0; q < MODEL_QUEUES; q++) {
        struct queue_view v;
        uint64_t *expired = &m->queues[q].ledger.expired;
        if (!r->tick->purged_due[q])
            continue;
        bool looks = r->look && engine_queue(r->look, model_queue_name(q), &v) == OK;
        uint64_t more = remember(r, looks ? v.ledger.expired - *expired : 0);
        if (more > r->tick->purged_due[q])
            object(r, "queue %d: more letters expired than were due", q);
        *expired += more;
    }
}

/* -- after: what the jobs came to -------------------------------------------------------------------- */

/* Letters of deleted queues are not seen any more; they count as discarded once they are gone. */
static void count_dropped(struct run *r) {
    struct model *m = r->m;
    static uint64_t open[MODEL_JOBS], remaining[MODEL_JOBS];
    for (size_t i = 0; i < m->job_count; i++)
        open[i] = remaining[i] = 0;
    for (size_t i = 0; i < m->message_count; i++) {
        const struct model_message *x = &m->messages[i];
        if (x->part == JOB_PART_OPEN)
            open[x->job - 1]++;
        else if (x->part == JOB_PART_REMAINING)
            remaining[x->job - 1]++;
    }
    for (size_t i = 0; i < m->job_count; i++) {
        struct job_counts *c = &m->jobs[i].counts;
        if (model_job_has_ended(&m->jobs[i]))
            remaining[i] = c->remaining;
        if (m->jobs[i].adopts || (c->open == open[i] && c->remaining == remaining[i]))
            continue;
        if (r->op->full) { /* some may still be there */
            struct job_view v = {0};
            if (r->look && !job_view_of(r->look, r->op->now, m->jobs[i].number, &v))
                object(r, "there is no job %u", m->jobs[i].number);
            uint64_t still_open = remember(r, v.counts.open),
                     still_remaining = remember(r, v.counts.remaining);
            if (still_open < open[i] || still_open > c->open || still_remaining < remaining[i] ||
                still_remaining > c->remaining)
                object(r, "the counts of job %u are wrong", m->jobs[i].number);
            open[i] = still_open;
            remaining[i] = still_remaining;
        }
        c->discarded += c->open - open[i] + c->remaining - remaining[i];
        c->open = open[i];
        c->remaining = remaining[i];
    }
}

static void adopt_letters(struct run *r, const struct model_job *j) {
    for (size_t i = 0; i < r->m->message_count; i++) {
        struct model_message *x = &r->m->messages[i];
        struct message_view v = {0};
        if (x->state != STATE_DEAD)
            continue;
        if (r->look && !engine_has(r, x, &v))
            object(r, "message %llu is gone", (unsigned long long)x->id);
        uint64_t part = remember(r, v.job == j->number ? 1 + (uint64_t)v.job_part : 0);
        if (part) {
            x->job = j->number;
            x->part = (enum job_part)(part - 1);
        }
    }
}

/* It selected beside others, so that what it found could not be told: its counts have to add up. */
static void adopt(struct run *r, struct model_job *j) {
    struct job_view v = {0};
    if (r->look && !job_view_of(r->look, r->op->now, j->number, &v))
        object(r, "there is no job %u", j->number);
    if (!job_counts_hold(&v.counts))
        object(r, "the counts of job %u do not add up", j->number);
    struct job_counts *c = &j->counts;
    uint64_t *const ours[] = {&c->selected,   &c->succeeded,  &c->died_again,      &c->open,
                              &c->discarded,  &c->remaining,  &j->redriven_before, &j->at_limit,
                              &c->skipped[0], &c->skipped[1], &c->skipped[2],      &c->skipped[3],
                              &c->skipped[4], &j->sent};
    const struct job_counts *d = &v.counts;
    const uint64_t theirs[] = {d->selected,
                               d->succeeded,
                               d->died_again,
                               d->open,
                               d->discarded,
                               d->remaining,
                               v.warnings.redriven_before,
                               v.warnings.at_limit,
                               d->skipped[0],
                               d->skipped[1],
                               d->skipped[2],
                               d->skipped[3],
                               d->skipped[4],
                               v.sent};
    for (size_t i = 0; i < sizeof theirs / sizeof *theirs; i++)
        *ours[i] = remember(r, theirs[i]);
    for (uint8_t version = 1; version < MODEL_VERSIONS; version++) {
        uint64_t n = 0;
        for (size_t i = 0; i < v.version_count; i++)
            if (span_equal(v.versions[i].name, model_version(version)))
                n = v.versions[i].count;
        j->version_total[version] = remember(r, n);
    }
    adopt_letters(r, j);
    bool selects = remember(r, v.is_selecting);
    if (selects)
        return;
    j->adopts = false;
    if (!j->selecting)
        return;
    j->has_selected = true;
    job_end_selection(j);
}

/* -- after: the audit tells of it -------------------------------------------------------------------- */

enum news { SELECTED, SAMPLE_GOOD, STOPPED_SHARE, STOPPED_TARGET, DONE, NO_NEWS };
#define NEWS_MOST 256

struct news_list {
    size_t n;
    struct {
        uint64_t job;
        enum news news;
    } items[NEWS_MOST];
};

static bool has_text(struct span text, const char *part) {
    struct span s = span_str(part);
    for (size_t i = 0; i + s.n <= text.n; i++)
        if (span_equal(span_of(text.p + i, s.n), s))
            return true;
    return false;
}

static void add_news(void *ctx, const struct audit_entry *entry) {
    struct news_list *list = ctx;
    enum news news = NO_NEWS;
    if (entry->action == AUDIT_JOB_DONE)
        news = DONE;
    else if (entry->action == AUDIT_JOB_CHANGED && has_text(entry->result, "died again"))
        news = STOPPED_SHARE;
    else if (entry->action == AUDIT_JOB_CHANGED && has_text(entry->result, "is gone"))
        news = STOPPED_TARGET;
    else if (entry->action == AUDIT_JOB_CHANGED && has_text(entry->result, "the sample is good"))
        news = SAMPLE_GOOD;
    else if (entry->action == AUDIT_JOB_CHANGED && has_text(entry->result, " selected"))
        news = SELECTED;
    list->items[list->n].job = entry->target;
    list->items[list->n++].news = news;
}

static void read_news(struct run *r, struct news_list *list) {
    struct engine_stats stats = engine_stats(r->look);
    uint64_t newest = stats.audit_entries ? stats.audit_first + stats.audit_entries - 1 : 0, next;
    if (newest == r->m->audit_count)
        return;
    if (newest < r->m->audit_count || newest - r->m->audit_count > NEWS_MOST) {
        object(r, "the audit has %llu entries, should have %llu or a few more",
               (unsigned long long)newest, (unsigned long long)r->m->audit_count);
        return;
    }
    struct audit_query query = {.after = r->m->audit_count, .limit = NEWS_MOST};
    do {
        engine_audit(r->look, &query, add_news, list, &next);
        query.after = next;
    } while (next);
}

static uint64_t died_of(const struct model_job *j) {
    return j->counts.died_again - j->died_before;
}

static uint64_t outcomes_of(const struct model_job *j) {
    return j->counts.succeeded - j->succeeded_before + died_of(j);
}

static bool is_over_share(const struct model_job *j, uint64_t of) {
    return j->stop_if_ppm != STOP_NEVER && of > 0 &&
           died_of(j) * 1000000 > (uint64_t)j->stop_if_ppm * of;
}

/* Only deaths come in a tick, so a share that was reached in it is over at its end. */
static bool may_stop(const struct model_job *j) {
    if (j->kind != JOB_REDRIVE)
        return false;
    if (j->state == JOB_SAMPLING)
        return j->sent >= j->sample &&
               is_over_share(j, j->counts.open ? j->sample : outcomes_of(j));
    return j->state == JOB_RUNNING && outcomes_of(j) >= LIMIT_STOP_OUTCOMES &&
           is_over_share(j, outcomes_of(j));
}

/* All of the sample had died or succeeded before any other letter went. */
static bool may_pass(const struct model_job *j) {
    return j->state == JOB_SAMPLING && j->sent_before >= j->sample &&
           j->counts.open == j->sent - j->sent_before && !is_over_share(j, outcomes_of(j));
}

static bool may_be(const struct run *r, const struct model_job *j, enum news news) {
    switch (news) {
    case SELECTED:
        return j->has_selected;
    case SAMPLE_GOOD:
        return may_pass(j);
    case STOPPED_SHARE:
        return may_stop(j);
    case STOPPED_TARGET:
        return j->to >= 0 && !is_there(r->m, j->to, j->to_serial) &&
               (j->state == JOB_SAMPLING || j->state == JOB_RUNNING);
    case DONE:
        return (j->state == JOB_SAMPLING || j->state == JOB_RUNNING) && j->counts.remaining == 0 &&
               j->counts.open == 0;
    case NO_NEWS:
        break;
    }
    return false;
}

static void hear(struct run *r, struct model_job *j, enum news news) {
    if (!may_be(r, j, news) || (j->selecting && news != SELECTED))
        object(r, "job %u: the audit tells what may not be (%d)", j->number, (int)news);
    audit_job(r, j, news == DONE ? AUDIT_JOB_DONE : AUDIT_JOB_CHANGED,
              (struct who){.actor = j->who.actor});
    if (news == SELECTED) {
        j->has_selected = false;
        return;
    }
    j->changed_at = r->op->now;
    j->sample_passed |= news == SAMPLE_GOOD;
    j->state = news == DONE ? JOB_DONE : news == SAMPLE_GOOD ? JOB_RUNNING : JOB_STOPPED;
    j->target_gone = news == STOPPED_TARGET;
    if (news == DONE)
        j->ended_at = r->op->now;
}

static void hear_news(struct run *r) {
    struct news_list list = {0};
    if (r->look)
        read_news(r, &list);
    uint64_t n = remember(r, list.n);
    for (size_t i = 0; i < n; i++) {
        uint32_t number = (uint32_t)remember(r, list.items[i].job);
        enum news news = (enum news)remember(r, list.items[i].news);
        struct model_job *j = model_job(r->m, number);
        if (j)
            hear(r, j, news);
        else
            object(r, "the audit speaks of job %u, which is not there", number);
    }
}

/* -- after: what has to be ------------------------------------------------------------------------------ */

/* So many letters a second, and when it was held up, those of one second at once. */
static void check_rate(struct run *r, struct model_job *j) {
    if (!j->rate_milli || !j->went)
        return;
    int64_t interval = interval_ns(j);
    int64_t now_ns = r->op->now * NS_PER_MS, due = j->due_ns;
    if (due < now_ns - CATCH_UP_NS)
        due = now_ns - CATCH_UP_NS;
    uint64_t most = due > now_ns ? 0 : (uint64_t)((now_ns - due) / interval) + 1;
    if (j->went > most && !r->op->is_rest)
        object(r, "job %u: %llu letters went at once, its rate allows %llu", j->number,
               (unsigned long long)j->went, (unsigned long long)most);
    j->due_ns = r->op->is_rest ? first_due(j, r->op->now) : due + (int64_t)j->went * interval;
}

/* None that still remains came before one that went. */
static void check_order(struct run *r) {
    for (size_t i = 0; i < r->m->message_count; i++) {
        const struct model_message *x = &r->m->messages[i];
        const struct model_job *j = job_of(r->m, x);
        if (j && !j->adopts && is_before((struct letter_place){x->died_at, x->dead_seq}, j->last))
            object(r, "job %u passed over message %llu", j->number, (unsigned long long)x->id);
    }
}

/* Nothing is left undone that could be done now. */
static const char *left_undone(const struct model_job *j) {
    if (j->selecting)
        return "selects";
    if (j->counts.remaining == 0)
        return j->counts.open == 0 ? "has nothing to do" : NULL;
    /* With the last of a sample that goes by rate, it looks when the next would be due. */
    if (may_stop(j) && !(j->rate_milli && j->state == JOB_SAMPLING))
        return "should have stopped";
    if (j->state == JOB_SAMPLING && j->sent >= j->sample)
        return j->counts.open == 0 ? "should be through with its sample" : NULL;
    return j->rate_milli ? NULL : "should have sent all it may";
}

void jobs_end_tick(struct run *r) {
    struct model *m = r->m;
    for (size_t i = 0; i < m->job_count; i++)
        if (m->jobs[i].adopts)
            adopt(r, &m->jobs[i]);
    count_dropped(r);
    hear_news(r);
    for (size_t i = 0; i < m->job_count; i++) {
        struct model_job *j = &m->jobs[i];
        check_rate(r, j);
        bool acts = j->state == JOB_SAMPLING || j->state == JOB_RUNNING;
        if (j->has_selected)
            object(r, "job %u: the audit does not tell that it selected", j->number);
        if (!j->sample_passed && j->sent > j->sample)
            object(r, "job %u sent more than its sample", j->number);
        /* A clock that was set back makes it wait, too. */
        bool waits = r->op->full || r->op->now < m->latest;
        const char *undone = acts && !waits ? left_undone(j) : NULL;
        if (undone)
            object(r, "job %u is %s and %s", j->number, job_state_name(j->state), undone);
    }
    check_order(r);
}
