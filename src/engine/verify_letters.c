#include "engine/verify.h"

#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

bool complain(const struct complaint *c, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(c->text, c->bytes, format, args);
    va_end(args);
    return false;
}

/* What the letters say, by place of the group, and by place of the job. */
struct recount {
    uint64_t *count, *open, *discarded;
    uint64_t *remaining, *job_open;
};

static void count_job(const struct engine *e, struct recount *r, const struct letter *l) {
    for (uint32_t i = 0; i < e->st.job_count; i++)
        if (e->st.jobs[i]->number == l->job) {
            r->remaining[i] += l->job_part == JOB_PART_REMAINING;
            r->job_open[i] += l->job_part == JOB_PART_OPEN;
        }
}

static bool count_slot(const struct engine *e, struct recount *r, const struct slot *s,
                       const struct complaint *c) {
    const struct letter *l = slot_letter(&e->st, s);
    if (!l)
        return s->state == STATE_DEAD || s->state == STATE_DISCARDED
                   ? complain(c, "message %llu is dead without a letter", (unsigned long long)s->id)
                   : true;
    if (slot_at(&e->st, l->slot) != s)
        return complain(c, "the letter of message %llu is another's", (unsigned long long)s->id);
    bool is_group_of_queue = !l->group || group_at(&e->st, l->group)->queue == s->queue;
    if (!is_group_of_queue)
        return complain(c, "message %llu is in a group of another queue",
                        (unsigned long long)s->id);
    if (l->group) {
        r->count[l->group] += s->state == STATE_DEAD;
        r->discarded[l->group] += s->state == STATE_DISCARDED;
        r->open[l->group] += s->state != STATE_DEAD && s->state != STATE_DISCARDED;
    }
    if (l->job)
        count_job(e, r, l);
    return true;
}

static bool count_all(const struct engine *e, struct recount *r, const struct complaint *c) {
    for (uint32_t i = e->st.oldest_queue; i; i = queue_at(&e->st, i)->newer) {
        const struct queue *q = queue_at(&e->st, i);
        for (enum set set = 0; set < SET_COUNT; set++)
            for (uint32_t n = set_first(&e->st, q, set); n;) {
                const struct slot *s = slot_at(&e->st, n);
                if (!count_slot(e, r, s, c))
                    return false;
                n = set_after(&e->st, q, set, slot_line(s), slot_arrival(&e->st, s));
            }
    }
    return true;
}

/* The treap of a group holds as many as it counts, in order. */
static bool verify_order(const struct engine *e, const struct group *g, const struct complaint *c) {
    struct letter_place last = {INT64_MIN, 0};
    uint64_t n = 0;
    for (uint32_t i = dead_first(&e->st, g); i; n++) {
        const struct letter *l = letter_at(&e->st, i);
        struct letter_place p = {l->died_at, l->dead_seq};
        if (n > 0 && (p.died_at < last.died_at ||
                      (p.died_at == last.died_at && p.dead_seq <= last.dead_seq)))
            return complain(c, "group %u is out of order", g->number);
        last = p;
        i = dead_above(&e->st, g, p);
    }
    return n == g->count || complain(c, "group %u counts %llu letters and holds %llu", g->number,
                                     (unsigned long long)g->count, (unsigned long long)n);
}

static bool verify_groups(const struct engine *e, const struct recount *r,
                          const struct complaint *c) {
    for (uint32_t i = 1; i <= e->st.group_count; i++) {
        const struct group *g = e->st.groups[i];
        if (!g)
            continue;
        if (r->count[i] != g->count || r->open[i] != g->open || r->discarded[i] != g->discarded)
            return complain(c, "group %u is counted wrong", g->number);
        if (!verify_order(e, g, c))
            return false;
    }
    return true;
}

static bool verify_jobs(const struct engine *e, const struct recount *r,
                        const struct complaint *c) {
    uint32_t active = 0;
    for (uint32_t i = 0; i < e->st.job_count; i++) {
        const struct job *j = e->st.jobs[i];
        const struct job_counts *n = &j->image.counts;
        if (!job_counts_hold(n))
            return complain(c, "the counts of job %u do not add up", j->number);
        if (r->job_open[i] != n->open)
            return complain(c, "job %u counts %llu open letters of %llu", j->number,
                            (unsigned long long)n->open, (unsigned long long)r->job_open[i]);
        if (!job_has_ended(j) && r->remaining[i] != n->remaining)
            return complain(c, "job %u counts %llu remaining letters of %llu", j->number,
                            (unsigned long long)n->remaining, (unsigned long long)r->remaining[i]);
        active += !job_has_ended(j);
    }
    return active == e->st.jobs_active || complain(c, "active jobs are counted wrong");
}

bool verify_letters(const struct engine *e, const struct complaint *c) {
    size_t groups = e->st.group_count + 1, jobs = e->st.job_count + 1;
    uint64_t *memory = mem_alloc((3 * groups + 2 * jobs) * sizeof *memory);
    struct recount r = {.count = memory,
                        .open = memory + groups,
                        .discarded = memory + 2 * groups,
                        .remaining = memory + 3 * groups,
                        .job_open = memory + 3 * groups + jobs};
    bool holds = count_all(e, &r, c) && verify_groups(e, &r, c) && verify_jobs(e, &r, c);
    free(memory);
    return holds;
}

uint64_t triage_live_bytes(const struct engine *e) {
    uint64_t bytes = 0;
    for (uint32_t i = 1; i <= e->st.group_count; i++)
        if (e->st.groups[i])
            bytes += e->st.groups[i]->image_bytes;
    for (uint32_t i = 0; i < e->st.job_count; i++)
        bytes += e->st.jobs[i]->image_bytes;
    for (uint64_t i = 0; i < e->st.audit.count; i++) {
        const struct audit_place *p = audit_at(&e->st, e->st.audit.first + i);
        bytes += p ? p->bytes : 0;
    }
    return bytes;
}

uint64_t job_timers(const struct engine *e) {
    uint64_t n = 0;
    for (uint32_t i = 0; i < e->st.job_count; i++)
        n += e->st.jobs[i]->timer != 0;
    return n;
}
