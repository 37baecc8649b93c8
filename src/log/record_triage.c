/* The records of work on dead letters: cause groups, jobs, the audit. */
#include "log/record.h"
#include "log/record_codec.h"

#include <assert.h>

/* -- cause groups ---------------------------------------------------------------------------- */

static void versions_put(struct out *o, unsigned count, const struct group_version *versions) {
    put8(o, count);
    for (unsigned i = 0; i < count; i++) {
        put8(o, (unsigned)versions[i].name.n);
        put64(o, versions[i].total);
    }
}

static uint8_t versions_get(struct in *in, size_t name_bytes[static GROUP_VERSIONS_STORED],
                            struct group_version *versions) {
    uint8_t count = get_up_to(in, GROUP_VERSIONS_STORED);
    for (unsigned i = 0; i < count; i++) {
        name_bytes[i] = get8(in);
        versions[i].total = get64(in);
    }
    return count;
}

size_t record_group_put(uint8_t meta[static RECORD_META_MAX], const struct record_group *r) {
    struct out o = {meta, 0};
    put32(&o, r->group);
    put64(&o, r->queue);
    put64(&o, r->key);
    put8(&o, r->reason);
    put8(&o, r->is_explicit);
    put8(&o, r->state);
    put_time(&o, r->state_at);
    put_time(&o, r->first_seen);
    put_time(&o, r->last_seen);
    put_time(&o, r->regressed_at);
    put_time(&o, r->quiet_ms);
    put64(&o, r->total);
    put_time(&o, r->minute_at);
    put_time(&o, r->hour_at);
    for (int i = 0; i < GROUP_MINUTES; i++)
        put32(&o, r->minutes[i]);
    for (int i = 0; i < GROUP_HOURS; i++)
        put32(&o, r->hours[i]);
    put8(&o, (unsigned)r->title.n);
    put8(&o, (unsigned)r->error_class.n);
    put8(&o, (unsigned)r->owner.n);
    put16(&o, r->note.n);
    versions_put(&o, r->version_count, r->versions);
    assert(o.n <= RECORD_META_MAX);
    return o.n;
}

size_t record_group_spans(const struct record_group *r, struct span ret[static GROUP_SPANS]) {
    ret[0] = r->title;
    ret[1] = r->error_class;
    ret[2] = r->owner;
    ret[3] = r->note;
    for (unsigned i = 0; i < r->version_count; i++)
        ret[4 + i] = r->versions[i].name;
    return 4U + r->version_count;
}

enum err record_group_get(struct span meta, struct span data, struct record_group *ret) {
    struct in in = {.left = meta};
    struct record_group r = {0};
    r.group = get32(&in);
    r.queue = get64(&in);
    r.key = get64(&in);
    r.reason = get_up_to(&in, REASON_COUNT - 1);
    r.is_explicit = get_up_to(&in, 1);
    r.state = get_up_to(&in, GROUP_STATE_COUNT - 1);
    r.state_at = get_time(&in);
    r.first_seen = get_time(&in);
    r.last_seen = get_time(&in);
    r.regressed_at = get_time(&in);
    r.quiet_ms = get_time(&in);
    r.total = get64(&in);
    r.minute_at = get_time(&in);
    r.hour_at = get_time(&in);
    for (int i = 0; i < GROUP_MINUTES; i++)
        r.minutes[i] = get32(&in);
    for (int i = 0; i < GROUP_HOURS; i++)
        r.hours[i] = get32(&in);
    size_t title = get8(&in), class = get8(&in), owner = get8(&in), note = get16(&in);
    size_t names[GROUP_VERSIONS_STORED];
    r.version_count = versions_get(&in, names, r.versions);
    r.title = get_data(&in, &data, title);
    r.error_class = get_data(&in, &data, class);
    r.owner = get_data(&in, &data, owner);
    r.note = get_data(&in, &data, note);
    for (unsigned i = 0; i < r.version_count; i++)
        r.versions[i].name = get_data(&in, &data, names[i]);
    *ret = r;
    return r.group == 0 ? ERR_CORRUPT : done(&in, data);
}

static size_t number_put(uint8_t meta[static RECORD_META_MAX], uint32_t number) {
    struct out o = {meta, 0};
    put32(&o, number);
    return o.n;
}

static enum err number_get(struct span meta, uint32_t *ret) {
    struct in in = {.left = meta};
    *ret = get32(&in);
    return *ret == 0 ? ERR_CORRUPT : done(&in, (struct span){0});
}

size_t record_group_gone_put(uint8_t meta[static RECORD_META_MAX], uint32_t group) {
    return number_put(meta, group);
}

enum err record_group_gone_get(struct span meta, uint32_t *ret_group) {
    return number_get(meta, ret_group);
}

/* -- jobs ------------------------------------------------------------------------------------ */

static void counts_put(struct out *o, const struct job_counts *c) {
    put64(o, c->selected);
    put64(o, c->succeeded);
    put64(o, c->died_again);
    put64(o, c->open);
    put64(o, c->discarded);
    put64(o, c->remaining);
    for (int i = 0; i < SKIP_COUNT; i++)
        put64(o, c->skipped[i]);
}

static struct job_counts counts_get(struct in *in) {
    struct job_counts c = {0};
    c.selected = get64(in);
    c.succeeded = get64(in);
    c.died_again = get64(in);
    c.open = get64(in);
    c.discarded = get64(in);
    c.remaining = get64(in);
    for (int i = 0; i < SKIP_COUNT; i++)
        c.skipped[i] = get64(in);
    return c;
}

/* The texts that come before the versions' names. */
#define JOB_TEXTS 9

static void job_texts(const struct record_job *r, struct span ret[static JOB_TEXTS]) {
    ret[0] = r->queue_name;
    ret[1] = r->to_name;
    ret[2] = r->filter;
    ret[3] = r->name;
    ret[4] = r->actor;
    ret[5] = r->reason;
    ret[6] = r->patch;
    ret[7] = r->stop_reason;
    ret[8] = r->idempotency_key;
}

size_t record_job_put(uint8_t meta[static RECORD_META_MAX], const struct record_job *r) {
    struct out o = {meta, 0};
    put32(&o, r->job);
    put8(&o, r->kind);
    put8(&o, r->state);
    put8(&o, r->selecting);
    put8(&o, r->sample_passed);
    put8(&o, r->force);
    put8(&o, r->clear_deaths);
    put8(&o, r->why);
    put64(&o, r->queue);
    put64(&o, r->to);
    put64(&o, r->fence);
    put64(&o, r->rate_milli);
    put32(&o, r->sample);
    put32(&o, r->stop_if_ppm);
    put_time(&o, r->created_at);
    put_time(&o, r->changed_at);
    put_time(&o, r->ended_at);
    counts_put(&o, &r->counts);
    put64(&o, r->sent);
    put64(&o, r->redriven_before);
    put64(&o, r->at_limit);
    put64(&o, r->succeeded_before);
    put64(&o, r->died_before);
    put_time(&o, r->cursor_died_at);
    put64(&o, r->cursor_seq);
    struct span texts[JOB_TEXTS];
    job_texts(r, texts);
    for (int i = 0; i < JOB_TEXTS; i++)
        put16(&o, texts[i].n);
    versions_put(&o, r->version_count, r->versions);
    assert(o.n <= RECORD_META_MAX);
    return o.n;
}

size_t record_job_spans(const struct record_job *r, struct span ret[static JOB_SPANS]) {
    job_texts(r, ret);
    for (unsigned i = 0; i < r->version_count; i++)
        ret[JOB_TEXTS + i] = r->versions[i].name;
    return (size_t)JOB_TEXTS + r->version_count;
}

enum err record_job_get(struct span meta, struct span data, struct record_job *ret) {
    struct in in = {.left = meta};
    struct record_job r = {0};
    r.job = get32(&in);
    r.kind = get_up_to(&in, JOB_PURGE);
    r.state = get_up_to(&in, JOB_DONE);
    r.selecting = get_up_to(&in, 1);
    r.sample_passed = get_up_to(&in, 1);
    r.force = get_up_to(&in, 1);
    r.clear_deaths = get_up_to(&in, 1);
    r.why = get_up_to(&in, DISCARD_COUNT - 1);
    r.queue = get64(&in);
    r.to = get64(&in);
    r.fence = get64(&in);
    r.rate_milli = get64(&in);
    r.sample = get32(&in);
    r.stop_if_ppm = get32(&in);
    r.created_at = get_time(&in);
    r.changed_at = get_time(&in);
    r.ended_at = get_time(&in);
    r.counts = counts_get(&in);
    r.sent = get64(&in);
    r.redriven_before = get64(&in);
    r.at_limit = get64(&in);
    r.succeeded_before = get64(&in);
    r.died_before = get64(&in);
    r.cursor_died_at = get_time(&in);
    r.cursor_seq = get64(&in);
    size_t n[JOB_TEXTS], names[GROUP_VERSIONS_STORED];
    for (int i = 0; i < JOB_TEXTS; i++)
        n[i] = get16(&in);
    r.version_count = versions_get(&in, names, r.versions);
    r.queue_name = get_data(&in, &data, n[0]);
    r.to_name = get_data(&in, &data, n[1]);
    r.filter = get_data(&in, &data, n[2]);
    r.name = get_data(&in, &data, n[3]);
    r.actor = get_data(&in, &data, n[4]);
    r.reason = get_data(&in, &data, n[5]);
    r.patch = get_data(&in, &data, n[6]);
    r.stop_reason = get_data(&in, &data, n[7]);
    r.idempotency_key = get_data(&in, &data, n[8]);
    for (unsigned i = 0; i < r.version_count; i++)
        r.versions[i].name = get_data(&in, &data, names[i]);
    *ret = r;
    return r.job == 0 || r.kind == 0 || r.state == 0 ? ERR_CORRUPT : done(&in, data);
}

size_t record_job_letters_put(uint8_t meta[static RECORD_JOB_LETTERS_META_MAX],
                              const struct record_job_letters *r) {
    assert(r->count > 0 && r->count <= RECORD_JOB_IDS);
    struct out o = {meta, 0};
    put32(&o, r->job);
    put16(&o, r->count);
    for (uint32_t i = 0; i < r->count; i++)
        put64(&o, r->ids[i]);
    return o.n;
}

enum err record_job_letters_get(struct span meta, uint64_t ids[static RECORD_JOB_IDS],
                                struct record_job_letters *ret) {
    struct in in = {.left = meta};
    struct record_job_letters r = {.ids = ids};
    r.job = get32(&in);
    r.count = get16(&in);
    if (in.bad || r.job == 0 || r.count == 0 || r.count > RECORD_JOB_IDS)
        return ERR_CORRUPT;
    for (uint32_t i = 0; i < r.count; i++)
        ids[i] = get64(&in);
    *ret = r;
    return done(&in, (struct span){0});
}

size_t record_job_skip_put(uint8_t meta[static RECORD_META_MAX], const struct record_job_skip *r) {
    struct out o = {meta, 0};
    put32(&o, r->job);
    put64(&o, r->id);
    put8(&o, r->why);
    return o.n;
}

enum err record_job_skip_get(struct span meta, struct record_job_skip *ret) {
    struct in in = {.left = meta};
    struct record_job_skip r = {0};
    r.job = get32(&in);
    r.id = get64(&in);
    r.why = get_up_to(&in, SKIP_COUNT - 1);
    *ret = r;
    return r.job == 0 ? ERR_CORRUPT : done(&in, (struct span){0});
}

size_t record_job_gone_put(uint8_t meta[static RECORD_META_MAX], uint32_t job) {
    return number_put(meta, job);
}

enum err record_job_gone_get(struct span meta, uint32_t *ret_job) {
    return number_get(meta, ret_job);
}

/* -- the audit ------------------------------------------------------------------------------- */

size_t record_audit_put(uint8_t meta[static RECORD_META_MAX], const struct audit_entry *r) {
    struct out o = {meta, 0};
    put64(&o, r->number);
    put_time(&o, r->at);
    put8(&o, r->action);
    put64(&o, r->count);
    put64(&o, r->target);
    struct span texts[AUDIT_SPANS];
    record_audit_spans(r, texts);
    for (int i = 0; i < AUDIT_SPANS; i++)
        put16(&o, texts[i].n);
    return o.n;
}

void record_audit_spans(const struct audit_entry *r, struct span ret[static AUDIT_SPANS]) {
    ret[0] = r->queue;
    ret[1] = r->actor;
    ret[2] = r->scope;
    ret[3] = r->reason;
    ret[4] = r->result;
}

enum err record_audit_get(struct span meta, struct span data, struct audit_entry *ret) {
    struct in in = {.left = meta};
    struct audit_entry r = {0};
    r.number = get64(&in);
    r.at = get_time(&in);
    r.action = get_up_to(&in, AUDIT_ACTION_COUNT - 1);
    r.count = get64(&in);
    r.target = get64(&in);
    size_t n[AUDIT_SPANS];
    for (int i = 0; i < AUDIT_SPANS; i++)
        n[i] = get16(&in);
    r.queue = get_data(&in, &data, n[0]);
    r.actor = get_data(&in, &data, n[1]);
    r.scope = get_data(&in, &data, n[2]);
    r.reason = get_data(&in, &data, n[3]);
    r.result = get_data(&in, &data, n[4]);
    *ret = r;
    return r.number == 0 || r.action == 0 ? ERR_CORRUPT : done(&in, data);
}
