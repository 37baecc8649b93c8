#include "model/doctor.h"

#include "model/rules.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SECOND_MS INT64_C(1000)
#define MINUTE_MS (60 * SECOND_MS)
#define HOUR_MS (60 * MINUTE_MS)
#define DAY_MS (24 * HOUR_MS)

#define HORIZON_LEAST_MS (15 * MINUTE_MS)
#define RETRIES_SENSIBLE 100
#define UNASKED_MOST_MS (10 * MINUTE_MS)
#define EXPIRY_SOON_MS DAY_MS
#define UNACKNOWLEDGED_MOST_MS (4 * HOUR_MS)
#define KEEP_DEAD_LEAST_MS DAY_MS
#define KEEP_DEAD_AT_ALL_MS MINUTE_MS
#define CLOCK_BEHIND_MOST_MS (5 * SECOND_MS)

/* Below so many of them a share says nothing. */
#define ATTEMPTS_LEAST 100
#define LETTERS_LEAST 10
#define LETTERS_LEAST_FOR_GROUPS 30

/* More than the longest finding: two names of LIMIT_QUEUE_NAME bytes quoted, two owners. */
#define TEXT_BYTES (16 * 1024)

static const char *const severity_names[SEVERITY_COUNT] = {"info", "warn", "critical"};

const char *severity_name(enum severity s) {
    assert((unsigned)s < SEVERITY_COUNT);
    return severity_names[s];
}

int severity_parse(struct span name) {
    for (int s = 0; s < SEVERITY_COUNT; s++) {
        if (span_equal_str(name, severity_names[s]))
            return s;
    }
    return -1;
}

/* -- telling --------------------------------------------------------------------------------- */

struct check {
    const struct doctor_queue *q; /* NULL: the server */
    doctor_found *found;
    void *ctx;
    struct buf fact, fix;
};

static void check_init(struct check *c, const struct doctor_queue *q, doctor_found *found,
                       void *ctx) {
    *c = (struct check){.q = q, .found = found, .ctx = ctx};
    buf_init(&c->fact, TEXT_BYTES);
    buf_init(&c->fix, TEXT_BYTES);
}

static void check_release(struct check *c) {
    buf_release(&c->fact);
    buf_release(&c->fix);
}

/* Says what stands in c->fact and c->fix. */
static void tell(struct check *c, const char *code, enum severity severity) {
    const struct finding f = {
        .code = code,
        .severity = severity,
        .queue = c->q != NULL ? c->q->name : span_of(NULL, 0),
        .fact = buf_span(&c->fact),
        .fix = buf_span(&c->fix),
    };
    c->found(c->ctx, &f);
    buf_clear(&c->fact);
    buf_clear(&c->fix);
}

/* 90s, 5m, 2h, 12d: in the largest unit that leaves no rest, as the command line takes it. */
static void put_time(struct buf *out, int64_t ms) {
    static const struct {
        int64_t ms;
        const char *name;
    } units[] = {{DAY_MS, "d"}, {HOUR_MS, "h"}, {MINUTE_MS, "m"}, {SECOND_MS, "s"}};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (ms >= units[i].ms && ms % units[i].ms == 0) {
            buf_printf(out, "%" PRId64 "%s", ms / units[i].ms, units[i].name);
            return;
        }
    }
    if (ms >= SECOND_MS)
        buf_printf(out, "%.1fs", (double)ms / 1000.0);
    else
        buf_printf(out, "%" PRId64 "ms", ms);
}

/* How long ago, or until then: whole units, rounded down. */
static void put_span(struct buf *out, int64_t ms) {
    int64_t unit = ms >= DAY_MS ? HOUR_MS : ms >= HOUR_MS ? MINUTE_MS : SECOND_MS;
    if (ms >= DAY_MS)
        buf_printf(out, "%" PRId64 "d%02" PRId64 "h", ms / DAY_MS, ms % DAY_MS / unit);
    else if (ms >= HOUR_MS)
        buf_printf(out, "%" PRId64 "h%02" PRId64 "m", ms / HOUR_MS, ms % HOUR_MS / unit);
    else if (ms >= MINUTE_MS)
        buf_printf(out, "%" PRId64 "m%02" PRId64 "s", ms / MINUTE_MS, ms % MINUTE_MS / unit);
    else
        buf_printf(out, "%" PRId64 "s", ms / SECOND_MS);
}

static bool is_plain(uint8_t c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           strchr("._-/:+@%", c) != NULL;
}

/* A name as an argument of a shell. */
static void put_argument(struct buf *out, struct span name) {
    bool is_bare = name.n > 0 && name.p[0] != '-';
    for (size_t i = 0; i < name.n; i++)
        is_bare &= name.p[i] != '\0' && is_plain(name.p[i]);
    if (is_bare) {
        buf_add_span(out, name);
        return;
    }
    buf_add_byte(out, '\'');
    for (size_t i = 0; i < name.n; i++) {
        if (name.p[i] == '\'')
            buf_add_str(out, "'\\''");
        else
            buf_add_byte(out, name.p[i]);
    }
    buf_add_byte(out, '\'');
}

static void put_text(struct buf *out, const char *before, struct span text, const char *after) {
    buf_add_str(out, before);
    buf_add_span(out, text);
    buf_add_str(out, after);
}

static void put_count(struct buf *out, uint64_t n, const char *thing) {
    buf_printf(out, "%" PRIu64 " %s%s", n, thing, n == 1 ? "" : "s");
}

/* nixie COMMAND QUEUE, and what follows */
static void fix_command(struct check *c, const char *command, const char *after) {
    buf_printf(&c->fix, "nixie %s ", command);
    put_argument(&c->fix, c->q->name);
    buf_add_str(&c->fix, after);
}

/* -- of the policy --------------------------------------------------------------------------- */

/* The mean wait after failure n. */
static int64_t mean_delay_ms(const struct backoff *b, unsigned n) {
    struct backoff plain = *b;
    plain.jitter = JITTER_NONE;
    int64_t wait_ms = backoff_delay_ms(&plain, n, 0);
    switch (b->jitter) {
    case JITTER_NONE:
        return wait_ms;
    case JITTER_FULL:
        return wait_ms / 2;
    case JITTER_EQUAL:
        return wait_ms - wait_ms / 4;
    }
    return wait_ms;
}

int64_t doctor_horizon_ms(const struct policy *p) {
    int64_t sum_ms = 0;
    for (unsigned n = 1; n < p->max_retries; n++)
        sum_ms += mean_delay_ms(&p->backoff, n);
    return sum_ms;
}

static void check_keeping(struct check *c) {
    int64_t keep_ms = c->q->policy->keep_dead_ms, horizon_ms = doctor_horizon_ms(c->q->policy);
    if (keep_ms == 0 || (keep_ms >= KEEP_DEAD_LEAST_MS && keep_ms >= horizon_ms))
        return;
    bool is_kept = keep_ms >= KEEP_DEAD_AT_ALL_MS;
    buf_add_str(&c->fact, "dead letters are discarded after ");
    put_time(&c->fact, keep_ms);
    if (!is_kept) {
        buf_add_str(&c->fact, ": that is no dead-lettering, what fails is lost");
    } else if (keep_ms < KEEP_DEAD_LEAST_MS) {
        buf_add_str(&c->fact, ": before anybody looks at them the next day");
    } else {
        buf_add_str(&c->fact, ", sooner than the ");
        put_span(&c->fact, horizon_ms);
        buf_add_str(&c->fact, " for which a message is retried");
    }
    buf_add_str(&c->fix, "retention.dead_seconds: 1209600 (two weeks), or null to keep them");
    tell(c, is_kept ? "D02" : "D01", is_kept ? SEVERITY_WARN : SEVERITY_CRITICAL);
}

static void check_retries(struct check *c) {
    unsigned retries = c->q->policy->max_retries;
    if (retries > 1 && retries <= RETRIES_SENSIBLE)
        return;
    if (retries <= 1) {
        buf_add_str(&c->fact, "max_retries is 1: the first failure is the last, whatever it was");
        buf_add_str(&c->fix, "max_retries: 5, with a backoff; and rules for what no retry helps");
    } else {
        buf_printf(&c->fact,
                   "max_retries is %u: a message that cannot succeed is worked on %u times",
                   retries, retries);
        buf_add_str(&c->fix, "max_retries: 20 with a longer backoff; for outages a breaker");
    }
    tell(c, "D03", SEVERITY_WARN);
}

static void check_horizon(struct check *c) {
    int64_t horizon_ms = doctor_horizon_ms(c->q->policy);
    if (c->q->policy->breaker.is_on || horizon_ms >= HORIZON_LEAST_MS)
        return;
    buf_printf(&c->fact, "max_retries of %u spans ", c->q->policy->max_retries);
    put_span(&c->fact, horizon_ms);
    buf_add_str(&c->fact, ", and there is no breaker: in a longer outage healthy messages die");
    buf_add_str(&c->fix, "breaker: {}, or a backoff and max_retries that span at least 15m "
                         "(nixie plan shows how long)");
    tell(c, "D04", SEVERITY_WARN);
}

/* What the engine says of a lease that ran out, and a failure that nobody wrote a rule for. */
static const struct {
    const char *error_class, *error, *words;
} endless_failures[] = {
    {"lease_expired", "the lease ran out before the message was settled",
     "a message that kills its worker is handed out for ever"},
    {"\001", "\001", "a failure that no other rule names is tried for ever"},
};

/* A rule by which failures cost nothing, where nothing else ends the message. */
static void check_endless(struct check *c) {
    const struct policy *p = c->q->policy;
    if (c->q->texts->rules.n == 0 || p->deliveries_max > 0 || p->ttl_ms > 0)
        return;
    struct rules *rules = rules_new(c->q->texts->rules);
    for (size_t i = 0; i < sizeof endless_failures / sizeof endless_failures[0]; i++) {
        struct rule rule;
        if (!rules_find(rules, span_str(endless_failures[i].error_class),
                        span_str(endless_failures[i].error), &rule) ||
            (rule.action != RULE_RELEASE && rule.action != RULE_PAUSE))
            continue;
        buf_printf(&c->fact,
                   "rules[%zu] (%s) lets every failure go without counting it, and there "
                   "is no max_deliveries: %s",
                   rule.number, rule_action_name(rule.action), endless_failures[i].words);
        buf_add_str(&c->fix, "max_deliveries: 100, or a rule that names what it releases");
        tell(c, "D23", SEVERITY_WARN);
        break;
    }
    rules_free(rules);
}

static void check_target(struct check *c) {
    struct span target = c->q->texts->target;
    switch (c->q->target) {
    case TARGET_FINE:
        return;
    case TARGET_MISSING:
        put_text(&c->fact, "its dead_target ", target,
                 " is not there: letters stay where they died");
        buf_add_str(&c->fix, "echo '{}' | nixie queues ");
        put_argument(&c->fix, target);
        buf_add_str(&c->fix, " --put -");
        break;
    case TARGET_REFUSES:
        put_text(&c->fact, "its dead_target ", target,
                 " does not name it in allow_from: letters stay where they died");
        put_text(&c->fix, "name ", c->q->name, " in allow_from of ");
        buf_add_span(&c->fix, target);
        break;
    case TARGET_MOVES_ON:
        put_text(&c->fact, "its dead_target ", target,
                 " has a dead_target of its own: letters wander on");
        put_text(&c->fix, "dead_target: null in the policy of ", target, "");
        break;
    case TARGET_PAUSED:
        put_text(&c->fact, "its dead_target ", target, " is paused: letters pile up there");
        buf_add_str(&c->fix, "nixie resume ");
        put_argument(&c->fix, target);
        tell(c, "D15", SEVERITY_WARN);
        return;
    }
    tell(c, "D07", SEVERITY_WARN);
}

static void check_care(struct check *c) {
    bool has_owner = c->q->texts->owner.n > 0, has_alert = c->q->texts->alerts.n > 0;
    if (has_owner)
        return;
    if (!has_alert) {
        buf_add_str(&c->fact, "nobody is told of dead letters, and nobody answers for them");
        buf_add_str(&c->fix, "owner: NAME, and alerts: [{kind: dead_letter, url: ...}]");
        tell(c, "D11", SEVERITY_WARN);
    } else {
        buf_add_str(&c->fact, "it has alerts, but no owner who answers for it");
        buf_add_str(&c->fix, "owner: NAME");
        tell(c, "D21", SEVERITY_INFO);
    }
}

static void check_sharer(struct check *c) {
    if (c->q->sharer.n == 0)
        return;
    put_text(&c->fact, "its dead letters and those of ", c->q->sharer, ", owned by ");
    buf_add_span(&c->fact, c->q->sharer_owner);
    put_text(&c->fact, ", all go to ", c->q->texts->target, "; it is owned by ");
    buf_add_span(&c->fact, c->q->texts->owner);
    buf_add_str(&c->fix, "a dead_target for each owner");
    tell(c, "D22", SEVERITY_WARN);
}

/* -- of a running queue ---------------------------------------------------------------------- */

/* The number of the bucket that holds the attempt which 99 of 100 do not exceed. */
static int p99_bucket(const uint64_t *durations, uint64_t *ret_attempts) {
    uint64_t attempts = 0, passed = 0;
    for (int n = 0; n < DOCTOR_ATTEMPT_BUCKETS; n++)
        attempts += durations[n];
    *ret_attempts = attempts;
    for (int n = 0; n < DOCTOR_ATTEMPT_BUCKETS; n++) {
        passed += durations[n];
        if (passed >= attempts - attempts / 100)
            return n;
    }
    return DOCTOR_ATTEMPT_BUCKETS - 1;
}

static void check_lease(struct check *c, const struct doctor_state *s) {
    if (s->durations == NULL)
        return;
    uint64_t attempts;
    int bucket = p99_bucket(s->durations, &attempts);
    int64_t p99_ms = INT64_C(1) << bucket, lease_ms = c->q->policy->lease_ms;
    if (attempts < ATTEMPTS_LEAST || lease_ms >= p99_ms)
        return;
    buf_add_str(&c->fact, "the lease is ");
    put_time(&c->fact, lease_ms);
    buf_printf(&c->fact, ", and the slowest hundredth of %" PRIu64 " attempts took more than ",
               attempts);
    put_time(&c->fact, p99_ms / 2);
    int64_t fit_s = (2 * p99_ms + SECOND_MS - 1) / SECOND_MS;
    buf_printf(&c->fix, "lease_seconds: %" PRId64 ", or workers that extend their leases",
               fit_s < LIMIT_LEASE_SECONDS ? fit_s : LIMIT_LEASE_SECONDS);
    tell(c, "D05", SEVERITY_WARN);
}

static void check_workers(struct check *c, const struct doctor_state *s) {
    int64_t unasked_ms = s->now - s->asked_at;
    if (s->ready == 0 || s->is_paused || s->is_asked || unasked_ms <= UNASKED_MOST_MS)
        return;
    put_count(&c->fact, s->ready, "message");
    buf_add_str(&c->fact, " ready, and no worker has asked for work for ");
    put_span(&c->fact, unasked_ms);
    fix_command(c, "work", " -- COMMAND");
    tell(c, "D06", SEVERITY_CRITICAL);
}

static void check_limit(struct check *c, const struct doctor_state *s) {
    if (s->at_limit == 0)
        return;
    unsigned limit = c->q->policy->redrive_limit;
    buf_add_str(&c->fact, s->at_limit_is_all ? "" : "at least ");
    put_count(&c->fact, s->at_limit, "letter");
    buf_printf(&c->fact, " died again and reached the redrive_limit of %u", limit);
    fix_command(c, "dead", "");
    buf_printf(&c->fix, " 'redrives:>=%u'; then edit or discard them", limit);
    tell(c, "D08", SEVERITY_WARN);
}

static void check_expiry(struct check *c, const struct doctor_state *s) {
    if (s->soonest_expiry == 0 || s->soonest_expiry - s->now >= EXPIRY_SOON_MS)
        return;
    int64_t left_ms = s->soonest_expiry > s->now ? s->soonest_expiry - s->now : 0;
    buf_add_str(&c->fact, "retention discards the next dead letter in ");
    put_span(&c->fact, left_ms);
    fix_command(c, "dead",
                " 'expires:<1d'; redrive or export them, or raise "
                "retention.dead_seconds");
    tell(c, "D09", SEVERITY_CRITICAL);
}

static void check_groups(struct check *c, const struct doctor_state *s) {
    const struct doctor_letters *l = &s->letters;
    if (l->waiting_groups > 0) {
        buf_add_str(&c->fact, "open and not acknowledged: ");
        put_count(&c->fact, l->waiting_groups, "cause");
        buf_add_str(&c->fact, " with ");
        put_count(&c->fact, l->waiting_letters, "letter");
        buf_add_str(&c->fact, ", the longest for ");
        put_span(&c->fact, s->now - l->waiting_since);
        fix_command(c, "groups", " state:open; then nixie group KEY --ack");
        tell(c, "D10", SEVERITY_WARN);
    }
    if (l->fallible >= LETTERS_LEAST && l->unnamed > l->fallible / 2) {
        buf_printf(&c->fact,
                   "%" PRIu64 " of %" PRIu64 " letters that workers failed have no error class",
                   l->unnamed, l->fallible);
        buf_add_str(&c->fix, "workers that give error_class with fail");
        tell(c, "D16", SEVERITY_INFO);
    }
    if (l->letters >= LETTERS_LEAST_FOR_GROUPS && l->groups > l->letters / 3) {
        buf_printf(&c->fact,
                   "%" PRIu64 " letters have %" PRIu64 " causes, more than one for three letters",
                   l->letters, l->groups);
        buf_add_str(&c->fix, "workers that give a fingerprint with fail");
        tell(c, "D17", SEVERITY_INFO);
    }
}

static void check_versions(struct check *c, const struct doctor_letters *l) {
    for (size_t i = 0; i < l->version_count && l->letters >= LETTERS_LEAST; i++) {
        struct span name = span_of(l->versions[i].name, l->versions[i].name_bytes);
        uint64_t of = l->versions[i].letters;
        if (of * 10 <= l->letters * 9)
            continue;
        buf_printf(&c->fact,
                   "%" PRIu64 " of %" PRIu64 " letters were failed by workers of version ", of,
                   l->letters);
        buf_add_span(&c->fact, name);
        put_text(&c->fix, "replace version ", name, ", then ");
        fix_command(c, "redrive", " --all --sample 10");
        tell(c, "D14", SEVERITY_INFO);
    }
}

static void check_keys(struct check *c, const struct doctor_keys *k) {
    for (size_t i = 0; k != NULL && i < k->count && k->looked_at >= LETTERS_LEAST; i++) {
        struct span name = span_of(k->keys[i].name, k->keys[i].name_bytes);
        if (k->keys[i].letters * 2 <= k->looked_at)
            continue;
        buf_printf(&c->fact, "%" PRIu64 " of the newest %zu letters have the key ",
                   k->keys[i].letters, k->looked_at);
        buf_add_span(&c->fact, name);
        buf_add_str(&c->fix, "look at what this key sends; where its order matters, order: park "
                             "holds it and lets others flow");
        tell(c, "D13", SEVERITY_INFO);
    }
}

static void check_redrive(struct check *c, const struct doctor_redrive *r) {
    if (r->number == 0)
        return;
    buf_printf(&c->fact, "redrive %" PRIu32 " sends its letters to ", r->number);
    put_text(&c->fact, "", r->to, r->is_missing ? ", which is not there" : ", which is paused");
    if (r->is_missing) {
        buf_printf(&c->fix, "nixie jobs %" PRIu32 " --cancel", r->number);
    } else {
        buf_add_str(&c->fix, "nixie resume ");
        put_argument(&c->fix, r->to);
    }
    tell(c, "D15", SEVERITY_WARN);
}

/* Its timers wait until the clock is where it was. */
static void check_clock(struct check *c, const struct doctor_state *s) {
    int64_t ahead_ms = s->newest_at - s->now;
    if (ahead_ms <= CLOCK_BEHIND_MOST_MS)
        return;
    buf_add_str(&c->fact, "what happened last in it lies ");
    put_span(&c->fact, ahead_ms);
    buf_add_str(&c->fact,
                " ahead of the server's clock: retries, leases and retention wait as long");
    buf_add_str(&c->fix, "set the clock of the server's machine (NTP), and restart the server");
    tell(c, "D18", SEVERITY_WARN);
}

void doctor_check_queue(const struct doctor_queue *q, doctor_found *found, void *ctx) {
    struct check c;
    check_init(&c, q, found, ctx);
    check_keeping(&c);
    check_retries(&c);
    check_horizon(&c);
    check_endless(&c);
    if (q->state != NULL) {
        check_lease(&c, q->state);
        check_workers(&c, q->state);
    }
    check_target(&c);
    if (q->state != NULL) {
        check_limit(&c, q->state);
        check_expiry(&c, q->state);
        check_groups(&c, q->state);
        check_versions(&c, &q->state->letters);
        check_keys(&c, q->state->keys);
        check_redrive(&c, &q->state->redrive);
        check_clock(&c, q->state);
    }
    check_care(&c);
    check_sharer(&c);
    check_release(&c);
}

/* -- groups ---------------------------------------------------------------------------------- */

/* A worker said what went wrong, or could have. */
static bool is_fallible(enum reason r) {
    return r == REASON_MAX_RETRIES || r == REASON_PERMANENT || r == REASON_REJECTED;
}

void doctor_add_group(struct doctor_letters *l, const struct doctor_group *g, int64_t now) {
    if (g->letters == 0)
        return;
    l->groups++;
    l->letters += g->letters;
    if (is_fallible(g->reason)) {
        l->fallible += g->letters;
        l->unnamed += g->has_error_class ? 0 : g->letters;
    }
    int64_t since = g->state_at > g->first_seen ? g->state_at : g->first_seen;
    if (g->state != GROUP_OPEN || now - since <= UNACKNOWLEDGED_MOST_MS)
        return;
    if (l->waiting_groups == 0 || since < l->waiting_since)
        l->waiting_since = since;
    l->waiting_groups++;
    l->waiting_letters += g->letters;
}

void doctor_add_version(struct doctor_letters *l, struct span version, uint64_t letters) {
    if (version.n == 0 || version.n > sizeof l->versions[0].name)
        return;
    size_t i = 0;
    while (i < l->version_count &&
           !span_equal(version, span_of(l->versions[i].name, l->versions[i].name_bytes)))
        i++;
    if (i == DOCTOR_VERSIONS)
        return;
    if (i == l->version_count) {
        memcpy(l->versions[i].name, version.p, version.n);
        l->versions[i].name_bytes = version.n;
        l->versions[i].letters = 0;
        l->version_count++;
    }
    l->versions[i].letters += letters;
}

/* -- keys ------------------------------------------------------------------------------------ */

void doctor_add_key(struct doctor_keys *k, struct span key) {
    if (k->looked_at == DOCTOR_KEYS || key.n > sizeof k->keys[0].name)
        return;
    k->looked_at++;
    size_t i = 0;
    while (i < k->count && !span_equal(key, span_of(k->keys[i].name, k->keys[i].name_bytes)))
        i++;
    if (key.n == 0)
        return;
    if (i == k->count) {
        memcpy(k->keys[i].name, key.p, key.n);
        k->keys[i].name_bytes = key.n;
        k->keys[i].letters = 0;
        k->count++;
    }
    k->keys[i].letters++;
}

/* -- the server ------------------------------------------------------------------------------ */

void doctor_check_server(const struct doctor_server *s, doctor_found *found, void *ctx) {
    struct check c;
    check_init(&c, NULL, found, ctx);
    if (s->is_disk_full) {
        buf_add_str(&c.fact, "the disk is full: no message is accepted");
        buf_add_str(&c.fix, "make room on the server's disk");
        tell(&c, "D12", SEVERITY_CRITICAL);
    }
    if (s->clock_behind_ms > CLOCK_BEHIND_MOST_MS) {
        buf_add_str(&c.fact, "the system's clock went back by ");
        put_span(&c.fact, s->clock_behind_ms);
        buf_add_str(&c.fact, ": the server's time stands still until it has caught up");
        buf_add_str(&c.fix, "set the clock of the server's machine (NTP), and restart the server");
        tell(&c, "D18", SEVERITY_WARN);
    }
    if (s->is_open_to_all) {
        buf_add_str(&c.fact,
                    "no token is asked for, and other machines can reach it: anybody there "
                    "may read payloads, redrive and discard");
        buf_add_str(&c.fix, "nixie serve --token-file FILE, or --http 127.0.0.1:8072");
        tell(&c, "D19", SEVERITY_WARN);
    }
    if (s->audit_entries >= LIMIT_AUDIT / 10 * 9) {
        buf_printf(&c.fact,
                   "the audit holds %" PRIu64 " of %d entries; then the oldest are forgotten",
                   s->audit_entries, LIMIT_AUDIT);
        buf_add_str(&c.fix, "nixie audit --all -o ndjson > audit.ndjson");
        tell(&c, "D20", SEVERITY_INFO);
    }
    check_release(&c);
}
