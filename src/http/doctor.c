/* GET /doctor: the findings of model/doctor.h over a page of queues. */
#include "http/front.h"
#include "http/query.h"
#include "http/view.h"

#include "base/clock.h"
#include "base/mem.h"
#include "model/doctor.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    QUEUES_MOST = 100,     /* in one reply */
    NAME_FILTER_MAX = 600, /* queue:"NAME" with every byte of it escaped */
    /* Payloads come along when the key of a letter is read: when one reply has read so many bytes, it
     * looks at no further keys. */
    KEYS_READ_MAX = 8 * 1024 * 1024
};

/* A text of the engine's, kept over further calls. */
struct kept {
    size_t n;
    uint8_t p[LIMIT_QUEUE_NAME];
};

static void keep(struct kept *k, struct span text) {
    assert(text.n <= sizeof k->p);
    k->n = text.n;
    if (text.n > 0)
        memcpy(k->p, text.p, text.n);
}

static struct span kept(const struct kept *k) {
    return span_of(k->p, k->n);
}

struct patient {
    struct kept name, target, owner;
    struct kept sharer, sharer_owner; /* of the same target */
    struct redrive *redrive;          /* out of it, to a queue that takes none; NULL: none is */
};

/* A redrive that has not ended. */
struct redrive {
    uint32_t number;
    struct kept queue, to;
    bool is_missing; /* to; else it is paused */
};

struct round {
    struct engine *engine;
    int64_t now, started_at;
    struct json_writer w;
    uint64_t findings;

    size_t limit, n;
    bool is_last;     /* no queue comes after these */
    bool has_targets; /* some of them, with an owner */
    size_t key_bytes; /* read for keys */
    struct doctor_keys keys;
    size_t redrive_count;
    struct redrive redrives[LIMIT_JOBS_ACTIVE];
    struct patient patients[QUEUES_MOST];
};

static void put_finding(void *ctx, const struct finding *f) {
    struct round *d = ctx;
    struct json_writer *w = &d->w;
    json_begin(w, '{');
    view_str(w, "code", f->code);
    view_str(w, "severity", severity_name(f->severity));
    view_text_or_null(w, "queue", f->queue);
    view_text(w, "fact", f->fact);
    view_text(w, "fix", f->fix);
    json_end(w, '}');
    d->findings++;
}

/* -- which queues ---------------------------------------------------------------------------- */

static void add_patient(struct round *d, const struct queue_view *q) {
    struct patient *p = &d->patients[d->n++];
    *p = (struct patient){0};
    keep(&p->name, q->name);
    keep(&p->target, q->texts->target);
    keep(&p->owner, q->texts->owner);
    d->has_targets |= p->target.n > 0 && p->owner.n > 0;
}

static bool collect(void *ctx, const struct queue_view *q) {
    struct round *d = ctx;
    d->is_last = d->n < d->limit;
    if (d->is_last)
        add_patient(d, q);
    return d->is_last;
}

/* Notes a queue of another owner with the same target. */
static bool find_sharer(void *ctx, const struct queue_view *q) {
    struct round *d = ctx;
    if (q->texts->target.n == 0 || q->texts->owner.n == 0)
        return true;
    for (size_t i = 0; i < d->n; i++) {
        struct patient *p = &d->patients[i];
        if (p->sharer.n > 0 || p->owner.n == 0 || span_equal(kept(&p->owner), q->texts->owner) ||
            !span_equal(kept(&p->target), q->texts->target))
            continue;
        keep(&p->sharer, q->name);
        keep(&p->sharer_owner, q->texts->owner);
    }
    return true;
}

/* -- redrives -------------------------------------------------------------------------------- */

static bool collect_redrive(void *ctx, const struct job_view *job) {
    struct round *d = ctx;
    if (job->state == JOB_CANCELLED || job->state == JOB_DONE)
        return true;
    struct redrive *r = &d->redrives[d->redrive_count++];
    *r = (struct redrive){.number = job->number};
    keep(&r->queue, job->queue);
    keep(&r->to, job->to.n > 0 ? job->to : job->queue);
    return d->redrive_count < LIMIT_JOBS_ACTIVE;
}

/* Gives each patient the newest redrive out of it whose letters nobody gets. */
static void find_redrives(struct round *d) {
    if (engine_stats(d->engine).jobs_active > 0)
        engine_jobs(d->engine, d->now, JOB_REDRIVE, 0, collect_redrive, d);
    for (size_t i = 0; i < d->redrive_count; i++) {
        struct redrive *r = &d->redrives[i];
        struct queue_view to;
        r->is_missing = engine_queue_brief(d->engine, kept(&r->to), &to) != OK;
        if (!r->is_missing && to.paused_at == 0)
            continue;
        for (size_t k = 0; k < d->n; k++) {
            struct patient *p = &d->patients[k];
            if (p->redrive == NULL && span_equal(kept(&p->name), kept(&r->queue)))
                p->redrive = r;
        }
    }
}

/* -- the facts of one ------------------------------------------------------------------------ */

/* Its dead letters that were sent again as often as it allows. Those were redriven here, or came
 * from elsewhere: else there is nothing to look for. */
static void count_at_limit(struct round *d, const struct queue_view *q, struct span name,
                           struct doctor_state *s) {
    unsigned limit = q->policy->redrive_limit;
    if (limit == 0 || q->count[STATE_DEAD] == 0 || q->redriven + q->ledger.moved_in == 0)
        return;
    char text[32];
    struct buf words = {.p = (uint8_t *)text, .cap = sizeof text, .max = sizeof text};
    buf_printf(&words, "redrives:>=%u", limit);
    struct filter_error error;
    struct filter *filter = filter_parse(buf_span(&words), FILTER_LETTERS, d->now, &error);
    assert(filter != NULL);
    const struct letter_query query = {.filter = filter, .queue = name, .limit = LIMIT_BATCH};
    uint64_t ids[LIMIT_BATCH];
    struct letter_page page;
    engine_letters(d->engine, d->now, &query, ids, &page);
    s->at_limit = page.n;
    s->at_limit_is_all = page.is_last;
    filter_free(filter);
}

struct group_walk {
    struct doctor_letters *letters;
    int64_t now;
};

static void add_group(void *ctx, const struct group_view *g) {
    const struct group_walk *walk = ctx;
    const struct doctor_group group = {
        .state = g->state,
        .reason = g->reason,
        .has_error_class = g->error_class.n > 0,
        .letters = g->count,
        .first_seen = g->first_seen,
        .state_at = g->state_at > g->regressed_at ? g->state_at : g->regressed_at,
    };
    doctor_add_group(walk->letters, &group, walk->now);
    for (size_t i = 0; i < g->version_count; i++)
        doctor_add_version(walk->letters, g->versions[i].name, g->versions[i].count);
}

static void add_groups(struct round *d, struct span name, struct doctor_letters *letters) {
    char text[NAME_FILTER_MAX];
    struct buf words = {.p = (uint8_t *)text, .cap = sizeof text, .max = sizeof text};
    buf_add_str(&words, "queue:\"");
    for (size_t i = 0; i < name.n; i++) {
        if (name.p[i] == '"' || name.p[i] == '\\')
            buf_add_byte(&words, '\\');
        buf_add_byte(&words, name.p[i]);
    }
    buf_add_byte(&words, '"');
    struct filter_error error;
    struct filter *filter = filter_parse(buf_span(&words), FILTER_GROUPS, d->now, &error);
    assert(filter != NULL);
    struct group_walk walk = {.letters = letters, .now = d->now};
    struct group_query query = {.filter = filter, .order = GROUPS_BY_COUNT, .limit = LIMIT_BATCH};
    uint64_t total = 1;
    for (; query.offset < total; query.offset += query.limit)
        engine_groups(d->engine, d->now, &query, add_group, &walk, &total);
    filter_free(filter);
}

/* The keys of its newest letters. False: there was too much to read. */
static bool look_at_keys(struct round *d, struct span name) {
    const struct letter_query query = {.queue = name, .limit = DOCTOR_KEYS};
    uint64_t ids[DOCTOR_KEYS];
    struct letter_page page;
    d->keys.looked_at = d->keys.count = 0;
    engine_letters(d->engine, d->now, &query, ids, &page);
    for (size_t i = 0; i < page.n && d->key_bytes < KEYS_READ_MAX; i++) {
        struct message_view m;
        if (engine_message(d->engine, name, ids[i], &m) != OK)
            continue;
        doctor_add_key(&d->keys, m.key);
        d->key_bytes += m.payload.n + m.headers.n;
    }
    return d->key_bytes < KEYS_READ_MAX;
}

static enum doctor_target look_at_target(struct round *d, const struct patient *p) {
    struct queue_view target;
    if (p->target.n == 0)
        return TARGET_FINE;
    if (engine_queue_brief(d->engine, kept(&p->target), &target) != OK)
        return TARGET_MISSING;
    if (!policy_admits(target.texts, kept(&p->name)))
        return TARGET_REFUSES;
    if (target.texts->target.n > 0)
        return TARGET_MOVES_ON;
    return target.paused_at != 0 ? TARGET_PAUSED : TARGET_FINE;
}

static int64_t later(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* When something last happened in it, as far as the view tells. */
static int64_t newest_of(const struct queue_view *q) {
    int64_t at = later(later(q->created_at, q->claimed_at), later(q->paused_at, q->breaker_at));
    return later(at, later(q->oldest_ready_at, q->oldest_death_at));
}

static void check_patient(struct round *d, const struct patient *p) {
    struct queue_view q;
    struct doctor_state s = {.now = d->now};
    struct span name = kept(&p->name);
    if (engine_queue_brief(d->engine, name, &q) != OK)
        return;
    bool has_letters = q.count[STATE_DEAD] > 0;
    count_at_limit(d, &q, name, &s);
    if (has_letters) {
        add_groups(d, name, &s.letters);
        if (look_at_keys(d, name))
            s.keys = &d->keys;
    }
    if (p->redrive != NULL)
        s.redrive = (struct doctor_redrive){.number = p->redrive->number,
                                            .is_missing = p->redrive->is_missing,
                                            .to = kept(&p->redrive->to)};
    enum doctor_target target = look_at_target(d, p);

    /* What the view borrows holds until the next call: so this comes last. */
    enum err e = engine_queue(d->engine, name, &q);
    assert(e == OK);
    s.ready = q.ready;
    s.asked_at = later(q.claimed_at, later(d->started_at, q.created_at));
    s.is_asked = q.waiting > 0;
    s.is_paused = q.paused_at != 0;
    s.soonest_expiry = q.soonest_expiry;
    s.durations = q.durations;
    s.newest_at = newest_of(&q);
    const struct doctor_queue facts = {.name = q.name,
                                       .policy = q.policy,
                                       .texts = q.texts,
                                       .target = target,
                                       .sharer = kept(&p->sharer),
                                       .sharer_owner = kept(&p->sharer_owner),
                                       .state = &s};
    doctor_check_queue(&facts, put_finding, d);
}

/* -- the reply ------------------------------------------------------------------------------- */

static void check_server(struct call *c, struct round *d) {
    const size_t bytes = 4096; /* what a small message takes */
    const struct doctor_server facts = {
        .is_disk_full = !log_has_room(c->server->log, LOG_USE_ACCEPT, bytes),
        .is_open_to_all = c->server->is_open,
        .clock_behind_ms = c->server->test_clock ? 0 : c->now - clock_now_ms(),
        .audit_entries = engine_stats(d->engine).audit_entries,
    };
    doctor_check_server(&facts, put_finding, d);
}

static void reply_findings(struct call *c, struct round *d, bool with_server) {
    struct json_writer *w = &d->w;
    json_writer_init(w, c->reply.body);
    json_begin(w, '{');
    json_name(w, "findings");
    json_begin(w, '[');
    if (with_server)
        check_server(c, d);
    if (d->has_targets) {
        enum err e = engine_queues(d->engine, span_of(NULL, 0), find_sharer, d);
        assert(e == OK);
    }
    find_redrives(d);
    for (size_t i = 0; i < d->n; i++)
        check_patient(d, &d->patients[i]);
    json_end(w, ']');
    view_number(w, "count", d->findings);
    view_text_or_null(
        w, "next", d->is_last || d->n == 0 ? span_of(NULL, 0) : kept(&d->patients[d->n - 1].name));
    json_end(w, '}');
}

void handle_doctor(struct call *c) {
    static const char *const names[] = {"queue", "limit", "after", NULL};
    struct span values[3];
    struct field_errors *errors = &c->http->errors;
    query_read(c->request->query, names, values, &c->http->scratch, errors);
    size_t limit = parameter_number(values[1], "limit", 1, QUEUES_MOST, QUEUES_MOST, errors);
    if (!call_is_valid(c))
        return;

    struct round *d = mem_alloc(sizeof *d);
    *d = (struct round){.engine = call_engine(c),
                        .now = c->now,
                        .started_at = c->http->started_at,
                        .limit = limit,
                        .is_last = true};
    struct queue_view q;
    enum err e;
    if (values[0].n > 0) {
        e = engine_queue_brief(d->engine, values[0], &q);
        if (e == OK)
            add_patient(d, &q);
    } else {
        e = engine_queues(d->engine, values[2], collect, d);
    }
    if (e == OK)
        reply_findings(c, d, values[0].n == 0 && values[2].n == 0);
    else
        reply_error(&c->reply, e);
    free(d);
}
