/* The model beside the engine: pages of dead letters, cause groups, jobs, the audit. */
#include "sim/compare_int.h"

#include "base/limits.h"
#include "model/fingerprint.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* -- cause groups ---------------------------------------------------------------------------------- */

struct group_sums {
    uint64_t count, open, versions[MODEL_VERSIONS];
    const struct model_message *newest, *oldest;
};

static bool died_before(const struct model_message *a, const struct model_message *b) {
    return a->died_at != b->died_at ? a->died_at < b->died_at : a->dead_seq < b->dead_seq;
}

static struct group_sums sums_of(const struct model *m, size_t group) {
    struct group_sums s = {0};
    for (size_t i = 0; i < m->message_count; i++) {
        const struct model_message *x = &m->messages[i];
        if (x->group != group + 1)
            continue;
        s.open += x->state != STATE_DEAD && x->state != STATE_DISCARDED;
        if (x->state != STATE_DEAD)
            continue;
        s.count++;
        s.versions[x->death_version]++;
        if (!s.newest || died_before(s.newest, x))
            s.newest = x;
        if (!s.oldest || died_before(x, s.oldest))
            s.oldest = x;
    }
    return s;
}

static uint64_t window(const struct model_bucket *buckets, size_t n, int64_t size, int64_t now) {
    uint64_t deaths = 0;
    for (size_t i = 0; i < n; i++)
        if (buckets[i].number > now - size && buckets[i].number <= now)
            deaths += buckets[i].deaths;
    return deaths;
}

static bool same_group_texts(const struct complaint *c, const struct model_group *g,
                             const struct group_view *v) {
    static uint8_t memory[2 * FINGERPRINT_TITLE_MAX];
    struct buf title = {.p = memory, .cap = sizeof memory, .max = sizeof memory};
    struct failure_facts facts = {.queue = model_queue_name(g->queue), .reason = g->reason};
    if (g->has_error) {
        facts.error_class = error_class_kept(g->error_tag);
        facts.error = error_kept(g->error_tag);
        facts.detail = detail_kept(g->error_tag);
        facts.fingerprint = span_cut_utf8(model_fingerprint(g->error_tag), LIMIT_FINGERPRINT);
    }
    fingerprint_title(&facts, &title);
    if (!span_equal(v->title, buf_span(&title)) || !span_equal(v->error_class, facts.error_class) ||
        !span_equal(v->queue, model_queue_name(g->queue)))
        return differs(c, "group %llx: another title, class or queue", (unsigned long long)g->key);
    if (!span_equal(v->owner, model_owner(g->owner)) || !span_equal(v->note, model_note(g->note)))
        return differs(c, "group %llx: another owner or note", (unsigned long long)g->key);
    return true;
}

static bool same_group(const struct complaint *c, const struct model *m, int64_t now, size_t group,
                       const struct group_view *v) {
    const struct model_group *g = &m->groups[group];
    struct group_sums s = sums_of(m, group);
    SAME("group", group, "key", v->key, g->key);
    SAME("group", group, "reason", v->reason, g->reason);
    SAME("group", group, "is_explicit", v->is_explicit, g->is_explicit);
    SAME("group", group, "count", v->count, s.count);
    SAME("group", group, "open", v->open, s.open);
    SAME("group", group, "total", v->total, g->total);
    SAME("group", group, "first_seen", v->first_seen, g->first_seen);
    SAME("group", group, "last_seen", v->last_seen, g->last_seen);
    SAME("group", group, "state", v->state, s.count + s.open ? g->state : GROUP_RESOLVED);
    SAME("group", group, "state_at", v->state_at, g->state_at);
    SAME("group", group, "regressed_at", v->regressed_at, g->regressed_at);
    SAME("group", group, "quiet_ms", v->quiet_ms, g->quiet_ms);
    SAME("group", group, "hour", v->hour,
         window(g->minutes, g->minute_count, MODEL_MINUTES, now / 60000));
    SAME("group", group, "day", v->day,
         window(g->hours, g->hour_count, MODEL_HOURS, now / 3600000));
    SAME("group", group, "newest", v->newest, s.newest ? s.newest->id : 0);
    SAME("group", group, "oldest", v->oldest, s.oldest ? s.oldest->id : 0);
    SAME("group", group, "versions", v->version_count, g->version_count);
    for (size_t i = 0; i < g->version_count; i++) {
        if (!span_equal(v->versions[i].name, model_version(g->versions[i])))
            return differs(c, "group %zu: another version", group);
        SAME("group", group, "total of a version", v->versions[i].total, g->version_total[i]);
        SAME("group", group, "count of a version", v->versions[i].count,
             s.versions[g->versions[i]]);
    }
    return same_group_texts(c, g, v);
}

bool model_same_group(const struct model *m, struct engine *e, int64_t now, size_t group,
                      char *text, size_t text_bytes) {
    const struct complaint complaint = {text, text_bytes}, *c = &complaint;
    struct group_view v;
    if (engine_group(e, now, m->groups[group].key, &v) != OK)
        return differs(c, "group %zu is not there", group);
    return same_group(c, m, now, group, &v);
}

struct group_check {
    const struct complaint *c;
    const struct model *m;
    int64_t now;
    enum group_order order;
    size_t n;
    bool same;
    uint64_t last;
};

static uint64_t place_in(enum group_order order, const struct group_view *v) {
    return order == GROUPS_BY_COUNT        ? v->count
           : order == GROUPS_BY_FIRST_SEEN ? (uint64_t)v->first_seen
                                           : (uint64_t)v->last_seen;
}

static void check_group(void *ctx, const struct group_view *v) {
    struct group_check *k = ctx;
    size_t i = 0;
    while (i < k->m->group_count &&
           !(k->m->groups[i].exists && k->m->groups[i].key == v->key &&
             span_equal(model_queue_name(k->m->groups[i].queue), v->queue)))
        i++;
    k->n++;
    if (!k->same)
        return;
    uint64_t place = place_in(k->order, v);
    k->same = i < k->m->group_count
                  ? same_group(k->c, k->m, k->now, i, v)
                  : differs(k->c, "group %llx came from nowhere", (unsigned long long)v->key);
    if (k->same && k->n > 1 && place > k->last)
        k->same = differs(k->c, "the groups are not in order");
    k->last = place;
}

static bool same_groups(const struct complaint *c, const struct model *m, struct engine *e,
                        int64_t now) {
    struct group_check k = {.c = c, .m = m, .now = now, .same = true};
    k.order = (enum group_order)(m->next_id % 3);
    struct group_query query = {.order = k.order, .with_empty = true, .limit = 7};
    uint64_t total = 0, want = 0;
    for (; query.offset <= total && k.same; query.offset += query.limit)
        engine_groups(e, now, &query, check_group, &k, &total);
    for (size_t i = 0; i < m->group_count; i++)
        want += m->groups[i].exists;
    if (k.same)
        SAME("all", 0, "groups", total, want);
    if (k.same)
        SAME("all", 0, "groups on pages", k.n, want);
    return k.same;
}

/* -- jobs ------------------------------------------------------------------------------------------ */

static bool same_job_counts(const struct complaint *c, const struct model_job *j,
                            const struct job_view *v) {
    const struct job_counts *got = &v->counts, *want = &j->counts;
    if (!job_counts_hold(got))
        return differs(c, "the counts of job %u do not add up", j->number);
    SAME("job", j->number, "state", v->state, j->state);
    SAME("job", j->number, "is_selecting", v->is_selecting, j->selecting);
    SAME("job", j->number, "selected", got->selected, want->selected);
    SAME("job", j->number, "succeeded", got->succeeded, want->succeeded);
    SAME("job", j->number, "died_again", got->died_again, want->died_again);
    SAME("job", j->number, "open", got->open, want->open);
    SAME("job", j->number, "discarded", got->discarded, want->discarded);
    SAME("job", j->number, "remaining", got->remaining, want->remaining);
    for (int i = 0; i < SKIP_COUNT; i++)
        SAME("job", j->number, job_skip_name((enum job_skip)i), got->skipped[i], want->skipped[i]);
    SAME("job", j->number, "sent", v->sent, j->sent);
    return true;
}

static bool same_text(const struct complaint *c, uint32_t job, const char *what, struct span got,
                      struct span want) {
    return span_equal(got, want) ||
           differs(c, "job %u: %s is \"%.*s\", should be \"%.*s\"", job, what, (int)got.n,
                   (const char *)got.p, (int)want.n, (const char *)want.p);
}

static bool same_job_texts(const struct complaint *c, const struct model_job *j,
                           const struct job_view *v) {
    struct span none = {0};
    char gone[64] = "";
    if (j->target_gone)
        snprintf(gone, sizeof gone, "the target queue %s is gone",
                 (const char *)model_queue_name(j->to).p);
    if (v->state == JOB_STOPPED && (j->target_gone || v->stop_reason.n == 0) &&
        !same_text(c, j->number, "stop_reason", v->stop_reason, span_str(gone)))
        return false;
    return same_text(c, j->number, "queue", v->queue,
                     j->queue >= 0 ? model_queue_name(j->queue) : none) &&
           same_text(c, j->number, "to", v->to, j->to >= 0 ? model_queue_name(j->to) : none) &&
           same_text(c, j->number, "filter", v->filter, letter_filter_text(&j->filter)) &&
           same_text(c, j->number, "patch", v->patch, patch_text(j->patch, j->patch_k)) &&
           same_text(c, j->number, "actor", v->actor, model_actor_kept(j->who.actor)) &&
           same_text(c, j->number, "reason", v->reason, model_reason_kept(j->who.reason));
}

static bool same_job(const struct complaint *c, const struct model_job *j,
                     const struct job_view *v) {
    SAME("job", j->number, "number", v->number, j->number);
    SAME("job", j->number, "kind", v->kind, j->kind);
    SAME("job", j->number, "fence", v->fence, j->fence);
    SAME("job", j->number, "rate", v->rate_milli, j->rate_milli);
    SAME("job", j->number, "sample", v->sample,
         j->sample == SAMPLE_BY_DEFAULT ? LIMIT_SAMPLE : j->sample);
    SAME("job", j->number, "stop_if", v->stop_if_ppm, j->stop_if_ppm);
    SAME("job", j->number, "force", v->force, j->force);
    SAME("job", j->number, "why", v->why, j->why);
    SAME("job", j->number, "created_at", v->created_at, j->created_at);
    SAME("job", j->number, "changed_at", v->changed_at, j->changed_at);
    SAME("job", j->number, "ended_at", v->ended_at, j->ended_at);
    SAME("job", j->number, "redriven_before", v->warnings.redriven_before, j->redriven_before);
    SAME("job", j->number, "at_limit", v->warnings.at_limit, j->at_limit);
    size_t versions = 0;
    for (uint8_t k = 1; k < MODEL_VERSIONS; k++)
        versions += j->version_total[k] > 0;
    SAME("job", j->number, "versions", v->version_count, versions);
    for (size_t i = 0; i < v->version_count; i++)
        for (uint8_t k = 1; k < MODEL_VERSIONS; k++)
            if (span_equal(v->versions[i].name, model_version(k)))
                SAME("job", j->number, "letters of a version", v->versions[i].count,
                     j->version_total[k]);
    return same_job_texts(c, j, v) && same_job_counts(c, j, v);
}

struct job_check {
    const struct complaint *c;
    const struct model *m;
    size_t at; /* the number above the next */
    bool all, same;
};

/* The one below; what is forgotten is passed over. */
static bool check_job(void *ctx, const struct job_view *v) {
    struct job_check *k = ctx;
    while (k->at > 0 && k->m->jobs[k->at - 1].is_forgotten)
        k->at--;
    if (k->at == 0 || v->number != k->at)
        k->same = differs(k->c, "job %u is listed, should be %zu", v->number, k->at);
    else if (k->all)
        k->same = same_job(k->c, &k->m->jobs[k->at - 1], v);
    else
        k->same = same_job_counts(k->c, &k->m->jobs[k->at - 1], v);
    if (k->at > 0)
        k->at--;
    return k->same && k->all;
}

static bool same_jobs(const struct complaint *c, const struct model *m, struct engine *e,
                      int64_t now) {
    struct job_check k = {.c = c, .m = m, .at = m->job_count, .all = true, .same = true};
    engine_jobs(e, now, 0, 0, check_job, &k);
    while (k.same && k.at > 0 && m->jobs[k.at - 1].is_forgotten)
        k.at--;
    return k.same && (k.at == 0 || differs(c, "job %zu is not listed", k.at));
}

/* -- the audit --------------------------------------------------------------------------------------- */

struct audit_check {
    const struct complaint *c;
    const struct model *m;
    uint64_t number; /* of the last one seen */
    bool same;
};

static bool same_entry(const struct complaint *c, const struct audit_entry *got,
                       const struct model_audit *want) {
    SAME("audit", got->number, "action", got->action, want->action);
    SAME("audit", got->number, "time", got->at, want->at);
    SAME("audit", got->number, "count", got->count, want->count);
    SAME("audit", got->number, "target", got->target, want->target);
    struct span queue = want->queue >= 0 ? model_queue_name(want->queue) : (struct span){0};
    if (!span_equal(got->queue, queue) ||
        !span_equal(got->actor, model_actor_kept(want->who.actor)) ||
        !span_equal(got->reason, model_reason_kept(want->who.reason)) ||
        !span_equal(got->scope, letter_filter_text(&want->scope)))
        return differs(c, "audit %llu: another queue, actor, reason or scope",
                       (unsigned long long)got->number);
    return true;
}

static void check_entry(void *ctx, const struct audit_entry *entry) {
    struct audit_check *k = ctx;
    if (!k->same)
        return;
    if (entry->number != k->number - 1)
        k->same = differs(k->c, "audit: entry %llu comes before %llu",
                          (unsigned long long)k->number, (unsigned long long)entry->number);
    else
        k->same = same_entry(k->c, entry, &k->m->audit[entry->number % MODEL_AUDIT]);
    k->number = entry->number;
}

static bool same_audit(const struct complaint *c, const struct model *m, struct engine *e,
                       size_t n) {
    struct engine_stats stats = engine_stats(e);
    uint64_t kept = m->audit_count < LIMIT_AUDIT ? m->audit_count : LIMIT_AUDIT, next;
    SAME("all", 0, "entries of the audit", stats.audit_entries, kept);
    SAME("all", 0, "oldest entry of the audit", stats.audit_first,
         kept ? m->audit_count - kept + 1 : 0);
    if (n > kept)
        n = kept;
    if (n == 0)
        return true;
    struct audit_check k = {.c = c, .m = m, .number = m->audit_count + 1, .same = true};
    struct audit_query query = {.newest_first = true, .limit = 1 + n / 2};
    uint64_t last = m->audit_count + 1 - n;
    do {
        if (query.limit > k.number - last)
            query.limit = (size_t)(k.number - last);
        engine_audit(e, &query, check_entry, &k, &next);
        query.before = next;
    } while (k.same && next && k.number > last);
    if (k.same && k.number != last)
        k.same = differs(c, "audit: %zu entries should be there", n);
    return k.same;
}

bool model_same_audit(const struct model *m, struct engine *e, size_t n, char *text,
                      size_t text_bytes) {
    const struct complaint c = {text, text_bytes};
    return same_audit(&c, m, e, n);
}

/* -- pages of letters -------------------------------------------------------------------------------- */

static int compare_places(const void *pa, const void *pb) {
    const struct model_message *const *a = pa, *const *b = pb;
    return died_before(*a, *b) ? -1 : died_before(*b, *a);
}

bool model_same_pages(const struct model *m, struct engine *e, int64_t now, int queue,
                      const struct letter_filter *filter, const struct letter_query *query,
                      char *text, size_t text_bytes) {
    const struct complaint complaint = {text, text_bytes}, *c = &complaint;
    const struct model_message *want[MODEL_MESSAGES] = {0};
    size_t n = 0, k = 0;
    for (size_t i = 0; i < m->message_count; i++) {
        const struct model_message *x = &m->messages[i];
        if ((queue < 0 || x->queue == queue) && model_matches(m, filter, now, x) &&
            (!query->fence || x->dead_seq <= query->fence))
            want[n++] = x;
    }
    qsort(want, n, sizeof *want, compare_places);

    struct filter_error error;
    struct span filter_text = letter_filter_text(filter);
    struct filter *f =
        filter_text.n ? filter_parse(filter_text, FILTER_LETTERS, now, &error) : NULL;
    assert(f || filter_text.n == 0);
    struct letter_query q = *query;
    q.filter = f;
    q.queue = model_queue_or_none(queue);
    bool same = true;
    for (struct letter_page page = {0}; same && !page.is_last;) {
        uint64_t ids[LIMIT_BATCH];
        engine_letters(e, now, &q, ids, &page);
        for (size_t i = 0; same && i < page.n; i++, k++) {
            const struct model_message *x = k < n ? want[q.oldest_first ? k : n - 1 - k] : NULL;
            if (!x || x->id != ids[i])
                same = differs(c, "page of letters: message %llu, should be %llu",
                               (unsigned long long)ids[i], (unsigned long long)(x ? x->id : 0));
        }
        if (same && !page.is_last && page.n < q.limit && page.is_complete)
            same =
                differs(c, "page of letters: %zu of %zu, and says it is complete", page.n, q.limit);
        q.has_after = true;
        q.after = page.next;
    }
    filter_free(f);
    return same && (k == n || differs(c, "pages of letters: %zu letters, should be %zu", k, n));
}

/* -- all --------------------------------------------------------------------------------------------- */

bool model_same_counters(const struct model *m, struct engine *e, char *text, size_t text_bytes) {
    const struct complaint complaint = {text, text_bytes}, *c = &complaint;
    SAME("all", 0, "dead_seq", engine_fence(e), m->next_dead_seq - 1);
    if (!same_audit(c, m, e, 0))
        return false;
    SAME("all", 0, "active jobs", engine_stats(e).jobs_active, model_active_jobs(m));
    for (size_t i = m->job_count; i > 0; i--) {
        const struct model_job *j = &m->jobs[i - 1];
        if (j->is_forgotten || (model_job_has_ended(j) && j->counts.open == 0))
            continue;
        struct job_check k = {.c = c, .m = m, .at = i, .same = true};
        engine_jobs(e, 0, 0, (uint32_t)i + 1, check_job, &k);
        if (!k.same)
            return false;
    }
    return true;
}

bool same_letters(const struct complaint *c, const struct model *m, struct engine *e, int64_t now) {
    static const struct letter_filter all = {BY_NOTHING, false, 0};
    struct letter_query query = {.oldest_first = m->next_id % 2, .limit = 1 + m->next_id % 60};
    return model_same_counters(m, e, c->text, c->bytes) && same_audit(c, m, e, MODEL_AUDIT / 4) &&
           same_groups(c, m, e, now) && same_jobs(c, m, e, now) &&
           model_same_pages(m, e, now, -1, &all, &query, c->text, c->bytes);
}
