/* What a job does, a bounded step at a time, from engine_tick:
 *
 *   selecting: looks for letters up to the fence and marks them as its own ("remaining")
 *   sampling:  sends the first few, then waits for what becomes of them
 *   running:   sends (or discards) the rest at its rate
 *
 * A letter goes in one frame: it is either still dead and remaining, or on its way and open. */
#include "engine/jobs.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define FRAME_LETTERS 100 /* that change in place, in one frame */
#define NS_PER_MS 1000000
#define CATCH_UP_NS 1000000000 /* a job that was held up catches up with its rate for so long */
#define UNSYNCED_MOST (LIMIT_UNSYNCED / 4) /* live traffic has the rest of the disk's patience */
#define BUSY_PAUSE_MS 5

/* -- selecting ------------------------------------------------------------------------------- */

static bool is_taken(const struct engine *e, const struct letter *l, uint32_t job) {
    if (l->job_part != JOB_PART_REMAINING || l->job == job)
        return false;
    const struct job *other = job_by_number(&e->st, l->job);
    return other && !job_has_ended(other);
}

static void count_version(struct record_job *r, struct span name) {
    for (unsigned i = 0; i < r->version_count; i++)
        if (span_equal(r->versions[i].name, name)) {
            r->versions[i].total++;
            return;
        }
    if (r->version_count < GROUP_VERSIONS_STORED)
        r->versions[r->version_count++] = (struct group_version){.name = name, .total = 1};
}

bool selection_add(struct selection *sel, const struct slot *s, const struct letter *l) {
    struct engine_state *st = &sel->engine->st;
    struct record_job *r = sel->job;
    r->counts.selected++;
    bool at_limit = l->redrive_count >= queue_at(st, s->queue)->policy.redrive_limit;
    if (is_taken(sel->engine, l, r->job)) {
        r->counts.skipped[SKIP_OTHER_JOB]++;
        return false;
    }
    if (r->kind == JOB_REDRIVE) {
        r->redriven_before += l->redrive_count > 0;
        r->at_limit += at_limit;
        if (l->edited_to && !r->force) {
            r->counts.skipped[SKIP_EDITED]++;
            return false;
        }
        if (at_limit && !r->force) {
            r->counts.skipped[SKIP_REDRIVE_LIMIT]++;
            return false;
        }
        const struct record_group *g = &group_at(st, l->group)->image;
        if (l->version < g->version_count)
            count_version(r, g->versions[l->version].name);
    }
    r->counts.remaining++;
    return true;
}

void settle_sample(struct record_job *r) {
    if (r->sample == SAMPLE_BY_DEFAULT)
        r->sample = r->counts.selected > LIMIT_SAMPLE_FROM ? LIMIT_SAMPLE : 0;
    if (r->sample == 0)
        r->sample_passed = true;
    if (r->sample_passed && r->state == JOB_SAMPLING)
        r->state = JOB_RUNNING;
}

struct taking {
    struct selection selection;
    uint64_t *ids;
    uint32_t n, looked;
};

static bool take_letter(void *ctx, const struct slot *s, const struct letter *l) {
    struct taking *t = ctx;
    if (selection_add(&t->selection, s, l))
        t->ids[t->n++] = s->id;
    t->looked++;
    return t->looked < LIMIT_JOB_LETTERS;
}

static void append_letters(struct engine *e, const struct record_job_letters *r) {
    uint8_t meta[RECORD_JOB_LETTERS_META_MAX];
    append_bare(e, RECORD_JOB_LETTERS, meta, record_job_letters_put(meta, r));
    apply_job_letters(&e->st, r);
}

static uint32_t select_some(struct engine *e, struct job *j, int64_t now) {
    struct record_job r = job_image(j);
    struct walk w = {.query = {.filter = job_filter(j),
                               .oldest_first = true,
                               .has_after = true,
                               .after = {r.cursor_died_at, r.cursor_seq},
                               .fence = r.fence},
                     .only = queue_by_number(&e->st, r.queue),
                     .looked_most = LIMIT_JOB_LOOKS,
                     .reads_most = LIMIT_JOB_READS};
    struct taking t = {.selection = {.engine = e, .job = &r}, .ids = e->ids};
    struct letter_place next = w.query.after;
    /* Nothing had died, or all of it goes with its queue. */
    bool is_nothing = r.fence == 0 || (r.queue && (!w.only || w.only->dropping));
    bool is_last = is_nothing || letters_walk(e, &w, take_letter, &t, &next);
    r.cursor_died_at = next.died_at;
    r.cursor_seq = next.dead_seq;
    r.selecting = !is_last;
    char result[64];
    const struct act who = {.actor = r.actor};
    struct audit_entry entry = job_entry(&r, now, AUDIT_JOB_CHANGED, &who);
    if (is_last) {
        settle_sample(&r);
        snprintf(result, sizeof result, "%" PRIu64 " selected, %" PRIu64 " of them skipped",
                 r.counts.selected, job_skipped(&r.counts));
        entry.result = span_str(result);
    }
    log_frame_begin(e->log, log_record_bytes(RECORD_JOB_LETTERS_META_MAX, 0) + job_bytes(&r) +
                                audit_bytes(&entry));
    if (is_last)
        append_audit(e, &entry);
    if (t.n > 0)
        append_letters(e, &(struct record_job_letters){.job = r.job, .count = t.n, .ids = t.ids});
    append_job(e, &r);
    log_frame_end(e->log);
    return t.looked + 1;
}

/* -- after a restart ------------------------------------------------------------------------- */

struct mark {
    struct letter_place place;
    uint64_t id;
};

static int compare_marks(const void *pa, const void *pb) {
    const struct mark *a = pa, *b = pb;
    if (a->place.died_at != b->place.died_at)
        return a->place.died_at < b->place.died_at ? -1 : 1;
    return a->place.dead_seq < b->place.dead_seq ? -1 : a->place.dead_seq > b->place.dead_seq;
}

/* The letters that say they remain in the job, in the order of going. */
static void load(struct engine *e, struct job *j) {
    struct engine_state *st = &e->st;
    struct buf marks;
    buf_init(&marks, SIZE_MAX);
    for (uint32_t g = 1; g <= st->group_count; g++) {
        if (!st->groups[g])
            continue;
        for (uint32_t i = dead_first(st, st->groups[g]); i;) {
            const struct letter *l = letter_at(st, i);
            struct mark m = {{l->died_at, l->dead_seq}, slot_at(st, l->slot)->id};
            if (l->job == j->number && l->job_part == JOB_PART_REMAINING)
                buf_add(&marks, &m, sizeof m);
            i = dead_above(st, st->groups[g], m.place);
        }
    }
    size_t n = marks.n / sizeof(struct mark);
    struct mark *mark = (struct mark *)(void *)marks.p;
    if (n > 0)
        qsort(mark, n, sizeof *mark, compare_marks);
    for (size_t i = 0; i < n; i++)
        job_push_id(j, mark[i].id);
    buf_release(&marks);
    j->is_loaded = true;
}

/* -- sending --------------------------------------------------------------------------------- */

/* The next letter that still remains in the job; 0 = none. */
static uint32_t next_letter(struct engine *e, struct job *j) {
    while (j->next < j->id_count) {
        uint32_t i = slot_find(&e->st, j->ids[j->next]);
        const struct letter *l = i ? slot_letter(&e->st, slot_at(&e->st, i)) : NULL;
        if (l && l->job == j->number && l->job_part == JOB_PART_REMAINING)
            return i;
        j->next++;
    }
    return 0;
}

static void sign(const struct job *j, char text[static 24], struct record_event *ev) {
    snprintf(text, 24, "job %" PRIu32, j->number);
    ev->worker = span_str(text);
}

static struct record_state change_by(struct engine *e, const struct job *j, uint32_t slot,
                                     int64_t now, char actor[static 24]) {
    const struct slot *s = slot_at(&e->st, slot);
    struct record_state r;
    if (j->image.kind == JOB_DISCARD) {
        r = change_of(e, s, now, EVENT_DISCARDED);
        discard_change(&r, now, j->image.why, j->image.reason);
    } else {
        r = change_of(e, s, now, EVENT_REDRIVEN);
        send_again(e, s, now, &r);
        r.image.letter.job_part = JOB_PART_OPEN;
    }
    sign(j, actor, &r.event);
    return r;
}

/* Letters that change where they are, many in one frame. */
static uint32_t change_in_place(struct engine *e, struct job *j, int64_t now, uint32_t most) {
    uint32_t n = 0, i;
    char actor[24];
    if (most > FRAME_LETTERS)
        most = FRAME_LETTERS;
    size_t one = log_record_bytes(STATE_RECORD_BYTES, sizeof actor + 32 + j->image.reason.n);
    log_frame_begin(e->log, most * one);
    while (n < most && (i = next_letter(e, j))) {
        struct record_state r = change_by(e, j, i, now, actor);
        append_state(e, &r);
        j->next++;
        n++;
    }
    log_frame_end(e->log);
    return n;
}

static uint32_t purge_some(struct engine *e, struct job *j, uint32_t most) {
    struct record_gone gone = {.queue = j->image.queue,
                               .cause = GONE_PURGED,
                               .job = j->number,
                               .job_part = JOB_PART_REMAINING,
                               .ids = e->ids};
    uint32_t i;
    while (gone.count < most && (i = next_letter(e, j))) {
        e->ids[gone.count++] = slot_at(&e->st, i)->id;
        j->next++;
    }
    if (gone.count > 0)
        emit_gone(e, &gone);
    return gone.count;
}

/* In another queue its settings hold, too. */
static void take_settings(struct record_message *m, const struct queue *to, int64_t now) {
    set_ttl(m, to, now, m->ttl_ms ? m->ttl_ms : -1);
    m->image.priority = priority_of_letter(to, m->image.priority);
}

/* A letter that goes to another queue: its whole image is written there, with its story. */
static void move(struct engine *e, struct job *j, uint32_t slot, const struct queue *to,
                 int64_t now) {
    const struct slot *s = slot_at(&e->st, slot);
    const struct queue *from = queue_at(&e->st, s->queue);
    char actor[24];
    struct record_state r = change_by(e, j, slot, now, actor);
    r.image.letter.group = 0; /* it belonged to the other queue */
    buf_clear(&e->result);
    buf_add_str(&e->result, "from ");
    buf_add(&e->result, from->name, from->name_bytes);
    buf_add_str(&e->result, " to ");
    buf_add(&e->result, to->name, to->name_bytes);

    struct record_message m;
    read_message(e, s, &e->message, &m);
    if (j->image.clear_deaths)
        (void)forget_deaths(e, &m);
    m.how = MESSAGE_MOVED;
    m.moved_from = from->number;
    m.queue = to->number;
    m.image = r.image;
    take_place(&m.image, to, m.id, m.key); /* it stood in a line of the other queue */
    take_settings(&m, to, now);
    r.image = m.image;
    if (m.origin.n == 0)
        m.origin = span_of(from->name, from->name_bytes);
    else if (span_equal(m.origin, span_of(to->name, to->name_bytes)))
        m.origin = (struct span){0}; /* home again */
    struct carry carry;
    carry_plan(e, s, &m, &carry);
    r.queue = to->number;
    r.event.error = buf_span(&e->result);
    size_t bytes = carry.bytes + state_bytes(&r);
    if (bytes > log_frame_bytes_max(e->log)) {
        /* Its story makes way. */
        carry.count = 0;
        bytes = message_bytes(&m) + state_bytes(&r);
    }
    log_frame_begin(e->log, bytes);
    carry_append(e, &m, &carry);
    r.event.previous = slot_extra(&e->st, slot_at(&e->st, slot))->history;
    append_state(e, &r);
    log_frame_end(e->log);
    carry_release(&carry);
}

/* One that forgets where it died changes where it is. */
static void send_renewed(struct engine *e, struct job *j, uint32_t slot, int64_t now) {
    const struct slot *s = slot_at(&e->st, slot);
    char actor[24];
    struct record_state r = change_by(e, j, slot, now, actor);
    size_t bytes = state_bytes(&r);
    struct renewal renewal;
    renewal_plan(e, s, true, &bytes, &renewal);
    log_frame_begin(e->log, bytes);
    renewal_append(e, s, &renewal, &r);
    append_state(e, &r);
    log_frame_end(e->log);
    renewal_release(&renewal);
}

static void skip(struct engine *e, struct job *j, uint64_t id, enum job_skip why) {
    const struct record_job_skip r = {.job = j->number, .id = id, .why = why};
    uint8_t meta[RECORD_META_MAX];
    size_t n = record_job_skip_put(meta, &r);
    log_frame_begin(e->log, log_record_bytes(n, 0));
    append_bare(e, RECORD_JOB_SKIP, meta, n);
    log_frame_end(e->log);
    apply_job_skip(&e->st, &r);
}

/* A changed copy goes in the letter's place. False when it cannot be made: skipped. */
static bool send_patched(struct engine *e, struct job *j, uint32_t slot, const struct queue *to,
                         int64_t now) {
    const struct slot *s = slot_at(&e->st, slot);
    struct record_message copy;
    read_message(e, s, &e->message, &copy);
    if (patch_apply(j->image.patch, copy.headers, copy.payload, &e->texts[0], &e->texts[1]) != OK) {
        skip(e, j, s->id, SKIP_UNPATCHABLE);
        return false;
    }
    copy_of(e, s, now, &copy);
    if (!span_equal(copy.headers, buf_span(&e->texts[0])))
        forget_properties(e, &copy);
    if (j->image.clear_deaths)
        (void)forget_deaths(e, &copy);
    copy.headers = buf_span(&e->texts[0]);
    copy.payload = buf_span(&e->texts[1]);
    copy.image.letter.job = j->number;
    copy.image.letter.job_part = JOB_PART_OPEN;
    if (to) {
        copy.queue = to->number;
        take_place(&copy.image, to, copy.id, copy.key);
        take_settings(&copy, to, now);
    }
    char actor[24], number[24];
    struct record_state r = change_of(e, s, now, EVENT_PATCHED);
    sign(j, actor, &r.event);
    snprintf(number, sizeof number, "%" PRIu64, copy.id);
    r.event.error = span_str(number);
    r.image.letter.edited_to = copy.id;
    r.image.letter.job_part = JOB_PART_NONE;
    size_t bytes = message_bytes(&copy) + state_bytes(&r);
    if (bytes > log_frame_bytes_max(e->log) || copy.headers.n > LIMIT_HEADERS) {
        skip(e, j, s->id, SKIP_UNPATCHABLE);
        return false;
    }
    log_frame_begin(e->log, bytes);
    append_message(e, &copy);
    append_state(e, &r);
    log_frame_end(e->log);
    return true;
}

/* One letter a frame: to another queue, as a changed copy, or without its deaths. Returns how many were sent. */
static uint32_t send_one(struct engine *e, struct job *j, const struct queue *to, int64_t now) {
    uint32_t i = next_letter(e, j);
    if (!i)
        return 0;
    bool was_sent = true;
    if (j->image.patch.n > 0)
        was_sent = send_patched(e, j, i, to, now);
    else if (to)
        move(e, j, i, to, now);
    else
        send_renewed(e, j, i, now);
    j->next++;
    return was_sent;
}

static bool sends_one_by_one(const struct job *j, const struct queue *to) {
    return j->image.patch.n > 0 || to != NULL || j->image.clear_deaths;
}

static uint32_t send_some(struct engine *e, struct job *j, const struct queue *to, int64_t now,
                          uint32_t most) {
    uint32_t sent = 0, tries = 0;
    while (sent < most && tries < LIMIT_JOB_LETTERS && j->image.counts.remaining > 0 &&
           log_has_room(e->log, LOG_USE_SETTLE, LOG_DEATH_ROOM) &&
           log_unsynced_bytes(e->log) < UNSYNCED_MOST) {
        uint32_t n = j->image.kind == JOB_PURGE ? purge_some(e, j, most - sent)
                     : sends_one_by_one(j, to)  ? send_one(e, j, to, now)
                                                : change_in_place(e, j, now, most - sent);
        sent += n;
        tries += n ? n : 1;
        if (n == 0 && !next_letter(e, j))
            break;
    }
    return sent;
}

/* -- deciding -------------------------------------------------------------------------------- */

bool job_state_is_over(enum job_state s) {
    return s == JOB_CANCELLED || s == JOB_DONE;
}

static void change_state(struct engine *e, struct job *j, int64_t now, enum job_state state,
                         enum audit_action action, const char *result) {
    struct record_job r = job_image(j);
    r.state = state;
    r.changed_at = now;
    r.sample_passed |= state == JOB_RUNNING;
    if (state == JOB_DONE)
        r.ended_at = now;
    if (state == JOB_STOPPED)
        r.stop_reason = span_str(result);
    const struct act who = {.actor = r.actor};
    struct audit_entry entry = job_entry(&r, now, action, &who);
    entry.result = span_str(result);
    emit_job(e, &r, &entry);
}

static void finish(struct engine *e, struct job *j, int64_t now) {
    const struct job_counts *c = &j->image.counts;
    char result[160];
    snprintf(result, sizeof result,
             "%" PRIu64 " succeeded, %" PRIu64 " died again, %" PRIu64 " discarded, %" PRIu64
             " skipped",
             c->succeeded, c->died_again, c->discarded, job_skipped(c));
    change_state(e, j, now, JOB_DONE, AUDIT_JOB_DONE, result);
}

/* True when too many died again: the job is stopped. `of`: what their share is taken of. */
static bool stops(struct engine *e, struct job *j, int64_t now, uint64_t of) {
    const struct record_job *r = &j->image;
    uint64_t died = r->counts.died_again - r->died_before;
    if (r->stop_if_ppm == STOP_NEVER || of == 0 || died * 1000000 <= (uint64_t)r->stop_if_ppm * of)
        return false;
    char result[128];
    snprintf(result, sizeof result,
             "%" PRIu64 " of %" PRIu64 " died again: %.3g %%, more than %.3g %%", died, of,
             100.0 * (double)died / (double)of, (double)r->stop_if_ppm / 10000);
    change_state(e, j, now, JOB_STOPPED, AUDIT_JOB_CHANGED, result);
    return true;
}

static uint64_t outcomes(const struct record_job *r) {
    return r->counts.succeeded - r->succeeded_before + r->counts.died_again - r->died_before;
}

/* Whether the job goes on to send. */
static bool goes_on(struct engine *e, struct job *j, int64_t now) {
    const struct record_job *r = &j->image;
    if (r->counts.remaining == 0) {
        if (r->counts.open == 0)
            finish(e, j, now);
        return false;
    }
    if (r->kind != JOB_REDRIVE)
        return true;
    if (r->state == JOB_SAMPLING && r->sent >= r->sample) {
        if (stops(e, j, now, r->counts.open ? r->sample : outcomes(r)) || r->counts.open > 0)
            return false;
        change_state(e, j, now, JOB_RUNNING, AUDIT_JOB_CHANGED, "the sample is good");
    }
    return r->state == JOB_SAMPLING || outcomes(r) < LIMIT_STOP_OUTCOMES ||
           !stops(e, j, now, outcomes(r));
}

static int64_t interval_ns(const struct record_job *r) {
    return (int64_t)(INT64_C(1000000000000) / (int64_t)r->rate_milli);
}

/* How many may go now, by sample and rate. */
static uint32_t quota(struct job *j, int64_t now) {
    const struct record_job *r = &j->image;
    uint64_t n = LIMIT_JOB_LETTERS;
    if (r->state == JOB_SAMPLING && r->sample - r->sent < n)
        n = r->sample - r->sent;
    if (r->rate_milli == 0)
        return (uint32_t)n;
    int64_t now_ns = now * NS_PER_MS;
    if (j->due_ns < now_ns - CATCH_UP_NS)
        j->due_ns = now_ns - CATCH_UP_NS;
    if (j->due_ns > now_ns)
        return 0;
    uint64_t by_rate = (uint64_t)((now_ns - j->due_ns) / interval_ns(r)) + 1;
    return (uint32_t)(by_rate < n ? by_rate : n);
}

static void plan_next(struct engine *e, struct job *j, int64_t at) {
    timers_set(&e->st.timers, TIMER_OF_JOB | j->number, at);
}

static uint32_t send_now(struct engine *e, struct job *j, int64_t now) {
    const struct record_job *r = &j->image;
    const struct queue *q = r->queue ? queue_by_number(&e->st, r->queue) : NULL;
    const struct queue *to = r->to ? queue_by_number(&e->st, r->to) : NULL;
    if (r->to && (!to || to->dropping)) {
        char result[LIMIT_QUEUE_NAME + 32];
        snprintf(result, sizeof result, "the target queue %.*s is gone", (int)r->to_name.n,
                 (const char *)r->to_name.p);
        change_state(e, j, now, JOB_STOPPED, AUDIT_JOB_CHANGED, result);
        return 1;
    }
    if (r->queue && (!q || q->dropping))
        return 0; /* its letters are on their way out: each wakes the job */
    uint64_t remained = r->counts.remaining;
    uint32_t most = quota(j, now), sent = most ? send_some(e, j, to, now, most) : 0;
    if (r->rate_milli)
        j->due_ns += (int64_t)sent * interval_ns(r);
    bool is_held_up = most > 0 && remained > 0 && r->counts.remaining == remained;
    int64_t by_rate = j->due_ns / NS_PER_MS + (j->due_ns % NS_PER_MS != 0);
    if (is_held_up)
        plan_next(e, j, now + BUSY_PAUSE_MS);
    else
        plan_next(e, j, r->rate_milli && by_rate > now ? by_rate : now);
    return sent;
}

bool job_due(struct engine *e, struct job *j, int64_t now, uint32_t *ret_done) {
    *ret_done = 1;
    timers_clear(&e->st.timers, TIMER_OF_JOB | j->number);
    if (j->image.state != JOB_SAMPLING && j->image.state != JOB_RUNNING)
        return true;
    if (!log_has_room(e->log, LOG_USE_SETTLE, 2 * RECORD_JOB_LETTERS_META_MAX + LIMIT_PATCH)) {
        plan_next(e, j, now);
        return false;
    }
    if (!j->is_loaded) {
        load(e, j);
        j->due_ns = now * NS_PER_MS + (j->image.rate_milli ? interval_ns(&j->image) : 0);
    }
    if (j->image.selecting) {
        *ret_done = select_some(e, j, now);
        if (!job_has_ended(j))
            plan_next(e, j, now); /* behind what was due before */
    } else if (goes_on(e, j, now)) {
        *ret_done = send_now(e, j, now);
    }
    return true;
}
