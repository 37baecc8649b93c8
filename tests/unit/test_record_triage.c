/* The records of work on dead letters: cause groups, jobs, the audit. Round trips, cuts, changes, noise. */
#include "record_values.h"

#define ROUNDS 300

static uint8_t meta[RECORD_JOB_LETTERS_META_MAX];
static const struct span no_data = {0};

/* -- parts ------------------------------------------------------------------------------------------- */

static uint8_t names[GROUP_VERSIONS_STORED][255];

static uint8_t any_versions(struct group_version *versions) {
    uint8_t count = (uint8_t)rng_below(&rng, GROUP_VERSIONS_STORED + 1);
    for (unsigned i = 0; i < count; i++)
        versions[i] = (struct group_version){any_span(names[i], 255), any64()};
    return count;
}

static bool versions_equal(unsigned n, const struct group_version *a,
                           const struct group_version *b) {
    for (unsigned i = 0; i < n; i++)
        if (!span_equal(a[i].name, b[i].name) || a[i].total != b[i].total)
            return false;
    return true;
}

/* -- reading ----------------------------------------------------------------------------------------- */

static enum err read_group(struct span m, struct span data) {
    struct record_group r;
    struct span parts[GROUP_SPANS];
    enum err e = record_group_get(m, data, &r);
    if (e != OK)
        return e;
    size_t n = record_group_spans(&r, parts);
    CHECK(r.group > 0 && r.reason < REASON_COUNT && r.state < GROUP_STATE_COUNT &&
          r.version_count <= GROUP_VERSIONS_STORED && are_all_parts(parts, n, data));
    return e;
}

static enum err read_group_gone(struct span m, struct span data) {
    uint32_t group;
    (void)data;
    enum err e = record_group_gone_get(m, &group);
    if (e == OK)
        CHECK(group > 0);
    return e;
}

static enum err read_job(struct span m, struct span data) {
    struct record_job r;
    struct span parts[JOB_SPANS];
    enum err e = record_job_get(m, data, &r);
    if (e != OK)
        return e;
    size_t n = record_job_spans(&r, parts);
    CHECK(r.job > 0 && r.kind >= JOB_REDRIVE && r.kind <= JOB_PURGE && r.state >= JOB_SAMPLING &&
          r.state <= JOB_DONE && r.why < DISCARD_COUNT &&
          r.version_count <= GROUP_VERSIONS_STORED && are_all_parts(parts, n, data));
    return e;
}

static enum err read_job_letters(struct span m, struct span data) {
    static uint64_t ids[RECORD_JOB_IDS];
    struct record_job_letters r;
    (void)data;
    enum err e = record_job_letters_get(m, ids, &r);
    if (e == OK)
        CHECK(r.job > 0 && r.count > 0 && r.count <= RECORD_JOB_IDS && r.ids == ids);
    return e;
}

static enum err read_job_skip(struct span m, struct span data) {
    struct record_job_skip r;
    (void)data;
    enum err e = record_job_skip_get(m, &r);
    if (e == OK)
        CHECK(r.job > 0 && r.why < SKIP_COUNT);
    return e;
}

static enum err read_job_gone(struct span m, struct span data) {
    uint32_t job;
    (void)data;
    enum err e = record_job_gone_get(m, &job);
    if (e == OK)
        CHECK(job > 0);
    return e;
}

static enum err read_audit(struct span m, struct span data) {
    struct audit_entry r;
    struct span parts[AUDIT_SPANS];
    enum err e = record_audit_get(m, data, &r);
    if (e != OK)
        return e;
    record_audit_spans(&r, parts);
    CHECK(r.number > 0 && r.action > 0 && r.action < AUDIT_ACTION_COUNT &&
          are_all_parts(parts, AUDIT_SPANS, data));
    return e;
}

/* -- cause groups ------------------------------------------------------------------------------------ */

static struct record_group any_group(void) {
    static uint8_t title[255], class[LIMIT_ERROR_CLASS], owner[LIMIT_OWNER], note[LIMIT_NOTE];
    struct record_group r = {
        .group = any_number(),
        .queue = any64(),
        .key = any64(),
        .reason = (enum reason)rng_below(&rng, REASON_COUNT),
        .is_explicit = any_bool(),
        .state = (enum group_state)rng_below(&rng, GROUP_STATE_COUNT),
        .state_at = any_time(),
        .first_seen = any_time(),
        .last_seen = any_time(),
        .regressed_at = any_time(),
        .quiet_ms = any_time(),
        .total = any64(),
        .minute_at = any_time(),
        .hour_at = any_time(),
        .title = any_span(title, sizeof title),
        .error_class = any_span(class, sizeof class),
        .owner = any_span(owner, sizeof owner),
        .note = any_span(note, sizeof note),
    };
    r.version_count = any_versions(r.versions);
    for (int i = 0; i < GROUP_MINUTES; i++)
        r.minutes[i] = any32();
    for (int i = 0; i < GROUP_HOURS; i++)
        r.hours[i] = any32();
    return r;
}

static void group_round_trip(void) {
    struct buf b;
    buf_init(&b, 1 << 20);
    for (int i = 0; i < ROUNDS; i++) {
        struct record_group r = any_group(), s;
        struct span parts[GROUP_SPANS];
        struct span data = joined(&b, parts, record_group_spans(&r, parts));
        struct span m = span_of(meta, record_group_put(meta, &r));
        CHECK(record_group_get(m, data, &s) == OK);
        CHECK(s.group == r.group && s.queue == r.queue && s.key == r.key && s.reason == r.reason &&
              s.is_explicit == r.is_explicit && s.state == r.state && s.state_at == r.state_at &&
              s.first_seen == r.first_seen && s.last_seen == r.last_seen &&
              s.regressed_at == r.regressed_at && s.quiet_ms == r.quiet_ms && s.total == r.total);
        CHECK(s.minute_at == r.minute_at && s.hour_at == r.hour_at &&
              memcmp(s.minutes, r.minutes, sizeof s.minutes) == 0 &&
              memcmp(s.hours, r.hours, sizeof s.hours) == 0);
        CHECK(s.version_count == r.version_count &&
              versions_equal(s.version_count, s.versions, r.versions));
        CHECK(span_equal(s.title, r.title) && span_equal(s.error_class, r.error_class) &&
              span_equal(s.owner, r.owner) && span_equal(s.note, r.note));
        if (i < 20)
            cuts_are_corrupt(read_group, m, data);
        for (int k = 0; k < 20; k++)
            changes_are_corrupt_or_sane(read_group, m, data);
    }
    buf_release(&b);
}

/* The largest there is fits the memory that is promised to be enough. */
static void the_largest_group_and_job_fit(void) {
    static uint8_t bytes[UINT16_MAX];
    struct span text = span_of(bytes, 255), most = span_of(bytes, UINT16_MAX);
    struct record_group g = {.group = 1,
                             .version_count = GROUP_VERSIONS_STORED,
                             .title = text,
                             .error_class = text,
                             .owner = text,
                             .note = most};
    struct record_job j = {.job = 1,
                           .kind = JOB_REDRIVE,
                           .state = JOB_DONE,
                           .version_count = GROUP_VERSIONS_STORED,
                           .queue_name = most,
                           .to_name = most,
                           .filter = most,
                           .name = most,
                           .actor = most,
                           .reason = most,
                           .patch = most,
                           .stop_reason = most,
                           .idempotency_key = most};
    for (int i = 0; i < GROUP_VERSIONS_STORED; i++)
        g.versions[i].name = j.versions[i].name = text;
    struct span parts[JOB_SPANS];
    struct buf b;
    buf_init(&b, 1 << 20);
    size_t n = record_group_put(meta, &g);
    CHECK(n <= RECORD_META_MAX);
    struct span data = joined(&b, parts, record_group_spans(&g, parts));
    CHECK(read_group(span_of(meta, n), data) == OK);
    n = record_job_put(meta, &j);
    CHECK(n <= RECORD_META_MAX);
    data = joined(&b, parts, record_job_spans(&j, parts));
    CHECK(read_job(span_of(meta, n), data) == OK);
    buf_release(&b);
}

/* -- jobs -------------------------------------------------------------------------------------------- */

static struct job_counts any_counts(void) {
    struct job_counts c = {.selected = any64(),
                           .succeeded = any64(),
                           .died_again = any64(),
                           .open = any64(),
                           .discarded = any64(),
                           .remaining = any64()};
    for (int i = 0; i < SKIP_COUNT; i++)
        c.skipped[i] = any64();
    return c;
}

static bool counts_equal(const struct job_counts *a, const struct job_counts *b) {
    return a->selected == b->selected && a->succeeded == b->succeeded &&
           a->died_again == b->died_again && a->open == b->open && a->discarded == b->discarded &&
           a->remaining == b->remaining && memcmp(a->skipped, b->skipped, sizeof a->skipped) == 0;
}

static struct record_job any_job(void) {
    static uint8_t queue[LIMIT_QUEUE_NAME], to[LIMIT_QUEUE_NAME], filter[4096];
    static uint8_t name[LIMIT_JOB_NAME], actor[LIMIT_ACTOR], reason[LIMIT_AUDIT_REASON];
    static uint8_t patch[LIMIT_PATCH], stop[200], key[255];
    struct record_job r = {
        .job = any_number(),
        .kind = (enum job_kind)(1 + rng_below(&rng, JOB_PURGE)),
        .state = (enum job_state)(1 + rng_below(&rng, JOB_DONE)),
        .selecting = any_bool(),
        .sample_passed = any_bool(),
        .force = any_bool(),
        .clear_deaths = any_bool(),
        .queue = any64(),
        .to = any64(),
        .fence = any64(),
        .rate_milli = any64(),
        .sample = any32(),
        .stop_if_ppm = any32(),
        .why = (enum discard_reason)rng_below(&rng, DISCARD_COUNT),
        .created_at = any_time(),
        .changed_at = any_time(),
        .ended_at = any_time(),
        .counts = any_counts(),
        .sent = any64(),
        .redriven_before = any64(),
        .at_limit = any64(),
        .succeeded_before = any64(),
        .died_before = any64(),
        .cursor_died_at = any_time(),
        .cursor_seq = any64(),
        .queue_name = any_span(queue, sizeof queue),
        .to_name = any_span(to, sizeof to),
        .filter = any_span(filter, sizeof filter),
        .name = any_span(name, sizeof name),
        .actor = any_span(actor, sizeof actor),
        .reason = any_span(reason, sizeof reason),
        .patch = any_span(patch, sizeof patch),
        .stop_reason = any_span(stop, sizeof stop),
        .idempotency_key = any_span(key, sizeof key),
    };
    r.version_count = any_versions(r.versions);
    return r;
}

static void job_round_trip(void) {
    struct buf b;
    buf_init(&b, 1 << 20);
    for (int i = 0; i < ROUNDS; i++) {
        struct record_job r = any_job(), s;
        struct span parts[JOB_SPANS];
        struct span data = joined(&b, parts, record_job_spans(&r, parts));
        struct span m = span_of(meta, record_job_put(meta, &r));
        CHECK(record_job_get(m, data, &s) == OK);
        CHECK(s.job == r.job && s.kind == r.kind && s.state == r.state &&
              s.selecting == r.selecting && s.sample_passed == r.sample_passed &&
              s.force == r.force && s.clear_deaths == r.clear_deaths && s.queue == r.queue &&
              s.to == r.to && s.fence == r.fence && s.rate_milli == r.rate_milli &&
              s.sample == r.sample && s.stop_if_ppm == r.stop_if_ppm && s.why == r.why);
        CHECK(s.created_at == r.created_at && s.changed_at == r.changed_at &&
              s.ended_at == r.ended_at && counts_equal(&s.counts, &r.counts) && s.sent == r.sent &&
              s.redriven_before == r.redriven_before && s.at_limit == r.at_limit &&
              s.succeeded_before == r.succeeded_before && s.died_before == r.died_before &&
              s.cursor_died_at == r.cursor_died_at && s.cursor_seq == r.cursor_seq);
        CHECK(s.version_count == r.version_count &&
              versions_equal(s.version_count, s.versions, r.versions));
        CHECK(span_equal(s.queue_name, r.queue_name) && span_equal(s.to_name, r.to_name) &&
              span_equal(s.filter, r.filter) && span_equal(s.name, r.name) &&
              span_equal(s.actor, r.actor) && span_equal(s.reason, r.reason) &&
              span_equal(s.patch, r.patch) && span_equal(s.stop_reason, r.stop_reason) &&
              span_equal(s.idempotency_key, r.idempotency_key));
        if (i < 20)
            cuts_are_corrupt(read_job, m, data);
        for (int k = 0; k < 20; k++)
            changes_are_corrupt_or_sane(read_job, m, data);
    }
    buf_release(&b);
}

static void job_letters_round_trip(void) {
    static uint64_t ids[RECORD_JOB_IDS], back[RECORD_JOB_IDS];
    const uint32_t counts[] = {1, 2, 999, RECORD_JOB_IDS};
    for (size_t i = 0; i < 4; i++) {
        for (size_t k = 0; k < counts[i]; k++)
            ids[k] = any_id();
        struct record_job_letters r = {.job = any_number(), .count = counts[i], .ids = ids}, s;
        struct span m = span_of(meta, record_job_letters_put(meta, &r));
        CHECK(record_job_letters_get(m, back, &s) == OK);
        CHECK(s.job == r.job && s.count == r.count &&
              memcmp(s.ids, ids, counts[i] * sizeof *ids) == 0);
        cuts_are_corrupt(read_job_letters, m, no_data);
        for (int k = 0; k < 500; k++)
            changes_are_corrupt_or_sane(read_job_letters, m, no_data);
    }
}

static void small_ones_round_trip(void) {
    for (int i = 0; i < ROUNDS; i++) {
        struct record_job_skip r = {
            .job = any_number(), .id = any64(), .why = (enum job_skip)rng_below(&rng, SKIP_COUNT)};
        struct record_job_skip s;
        struct span m = span_of(meta, record_job_skip_put(meta, &r));
        CHECK(record_job_skip_get(m, &s) == OK && s.job == r.job && s.id == r.id && s.why == r.why);
        cuts_are_corrupt(read_job_skip, m, no_data);
        for (int k = 0; k < 20; k++)
            changes_are_corrupt_or_sane(read_job_skip, m, no_data);

        uint32_t number = any_number(), got = 0;
        m = span_of(meta, record_group_gone_put(meta, number));
        CHECK(record_group_gone_get(m, &got) == OK && got == number);
        cuts_are_corrupt(read_group_gone, m, no_data);
        m = span_of(meta, record_job_gone_put(meta, number));
        CHECK(record_job_gone_get(m, &got) == OK && got == number);
        cuts_are_corrupt(read_job_gone, m, no_data);
    }
}

/* -- the audit --------------------------------------------------------------------------------------- */

static void audit_round_trip(void) {
    static uint8_t queue[LIMIT_QUEUE_NAME], actor[LIMIT_ACTOR], scope[4096];
    static uint8_t reason[LIMIT_AUDIT_REASON], result[UINT16_MAX];
    struct buf b;
    buf_init(&b, 1 << 20);
    for (int i = 0; i < ROUNDS; i++) {
        struct audit_entry r = {
            .number = any_number(),
            .at = any_time(),
            .action = (enum audit_action)(1 + rng_below(&rng, AUDIT_ACTION_COUNT - 1)),
            .count = any64(),
            .target = any64(),
            .queue = any_span(queue, sizeof queue),
            .actor = any_span(actor, sizeof actor),
            .scope = any_span(scope, sizeof scope),
            .reason = any_span(reason, sizeof reason),
            .result = any_span(result, sizeof result),
        };
        struct audit_entry s;
        struct span parts[AUDIT_SPANS];
        record_audit_spans(&r, parts);
        struct span data = joined(&b, parts, AUDIT_SPANS);
        struct span m = span_of(meta, record_audit_put(meta, &r));
        CHECK(record_audit_get(m, data, &s) == OK);
        CHECK(s.number == r.number && s.at == r.at && s.action == r.action && s.count == r.count &&
              s.target == r.target && span_equal(s.queue, r.queue) &&
              span_equal(s.actor, r.actor) && span_equal(s.scope, r.scope) &&
              span_equal(s.reason, r.reason) && span_equal(s.result, r.result));
        if (i < 20)
            cuts_are_corrupt(read_audit, m, data);
        for (int k = 0; k < 20; k++)
            changes_are_corrupt_or_sane(read_audit, m, data);
    }
    buf_release(&b);
}

/* -- what is nothing --------------------------------------------------------------------------------- */

/* Numbers begin with 1, and so do kinds, states and actions. */
static void zeros_are_corrupt(void) {
    const struct record_group group = {.key = 1};
    CHECK(read_group(span_of(meta, record_group_put(meta, &group)), no_data) == ERR_CORRUPT);
    struct record_job job = {.job = 1, .kind = JOB_REDRIVE, .state = JOB_RUNNING};
    CHECK(read_job(span_of(meta, record_job_put(meta, &job)), no_data) == OK);
    job.job = 0;
    CHECK(read_job(span_of(meta, record_job_put(meta, &job)), no_data) == ERR_CORRUPT);
    job = (struct record_job){.job = 1, .state = JOB_RUNNING};
    CHECK(read_job(span_of(meta, record_job_put(meta, &job)), no_data) == ERR_CORRUPT);
    job = (struct record_job){.job = 1, .kind = JOB_REDRIVE};
    CHECK(read_job(span_of(meta, record_job_put(meta, &job)), no_data) == ERR_CORRUPT);
    const uint64_t id = 1;
    const struct record_job_letters letters = {.count = 1, .ids = &id};
    CHECK(read_job_letters(span_of(meta, record_job_letters_put(meta, &letters)), no_data) ==
          ERR_CORRUPT);
    const struct record_job_skip skip = {.id = 1};
    CHECK(read_job_skip(span_of(meta, record_job_skip_put(meta, &skip)), no_data) == ERR_CORRUPT);
    CHECK(read_group_gone(span_of(meta, record_group_gone_put(meta, 0)), no_data) == ERR_CORRUPT);
    CHECK(read_job_gone(span_of(meta, record_job_gone_put(meta, 0)), no_data) == ERR_CORRUPT);
    struct audit_entry entry = {.number = 1};
    CHECK(read_audit(span_of(meta, record_audit_put(meta, &entry)), no_data) == ERR_CORRUPT);
    entry = (struct audit_entry){.action = AUDIT_EDIT};
    CHECK(read_audit(span_of(meta, record_audit_put(meta, &entry)), no_data) == ERR_CORRUPT);
}

static void noise(void) {
    record_reader *const readers[] = {read_group,    read_group_gone, read_job,  read_job_letters,
                                      read_job_skip, read_job_gone,   read_audit};
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
        noise_is_corrupt_or_sane(readers[i], 50000);
}

int main(void) {
    rng_seed(&rng, 2);
    RUN(group_round_trip);
    RUN(job_round_trip);
    RUN(job_letters_round_trip);
    RUN(small_ones_round_trip);
    RUN(audit_round_trip);
    RUN(the_largest_group_and_job_fit);
    RUN(zeros_are_corrupt);
    RUN(noise);
    return check_done();
}
