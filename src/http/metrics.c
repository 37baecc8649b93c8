/* GET /metrics: the Prometheus text format. The numbers of the queues are copied first, in one
 * walk, because the format wants all series of a metric together; so they are also all of one
 * moment. */
#include "http/front.h"

#include "base/mem.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* More queues than this are counted, not shown one by one: a scrape must stay cheap for the server
 * and for who stores it. */
enum { QUEUES_SHOWN_MAX = 5000, NAMES_BYTES_MAX = 1024 * 1024 };

struct numbers {
    size_t name_at, name_bytes; /* in `names`, escaped */
    struct queue_view view;     /* its texts are not for use: they are the engine's */
    int64_t keep_dead_ms;
    bool holds;
};

struct metrics {
    struct buf *out;
    int64_t now;
    struct buf names;
    struct numbers *queues;
    size_t count, cap;
};

/* -- text ------------------------------------------------------------------------------------ */

static void put_head(struct buf *out, const char *name, const char *type, const char *help) {
    buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_one(struct buf *out, const char *name, const char *type, const char *help,
                    uint64_t value) {
    put_head(out, name, type, help);
    buf_add_str(out, name);
    buf_add_byte(out, ' ');
    buf_add_u64(out, value);
    buf_add_byte(out, '\n');
}

static void add_escaped(struct buf *out, struct span text) {
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] == '\n') {
            buf_add(out, "\\n", 2);
            continue;
        }
        if (text.p[i] == '"' || text.p[i] == '\\')
            buf_add_byte(out, '\\');
        buf_add_byte(out, text.p[i]);
    }
}

/* -- queues ---------------------------------------------------------------------------------- */

static bool copy_queue(void *ctx, const struct queue_view *q) {
    struct metrics *m = ctx;
    if (m->count == QUEUES_SHOWN_MAX || m->names.n + 2 * LIMIT_QUEUE_NAME > NAMES_BYTES_MAX)
        return false;
    if (m->count == m->cap) {
        m->cap = m->cap == 0 ? 64 : m->cap * 2;
        m->queues = mem_grow(m->queues, m->cap * sizeof m->queues[0]);
    }
    struct numbers *n = &m->queues[m->count++];
    *n = (struct numbers){
        .name_at = m->names.n,
        .view = *q,
        .keep_dead_ms = q->policy->keep_dead_ms,
        .holds = queue_view_holds(q),
    };
    add_escaped(&m->names, q->name);
    n->name_bytes = m->names.n - n->name_at;
    return true;
}

/* With a label of its own besides the queue, unless `label` is NULL. */
static void put_sample(const struct metrics *m, const char *name, const struct numbers *n,
                       const char *label, const char *label_value, uint64_t value) {
    buf_add_str(m->out, name);
    buf_add_str(m->out, "{queue=\"");
    buf_add(m->out, m->names.p + n->name_at, n->name_bytes);
    if (label != NULL) {
        buf_add_str(m->out, "\",");
        buf_add_str(m->out, label);
        buf_add_str(m->out, "=\"");
        buf_add_str(m->out, label_value);
    }
    buf_add_str(m->out, "\"} ");
    buf_add_u64(m->out, value);
    buf_add_byte(m->out, '\n');
}

static void put_states(const struct metrics *m) {
    static const enum state states[] = {STATE_PENDING, STATE_PROCESSING, STATE_PARKED, STATE_DEAD,
                                        STATE_SUCCEEDED};
    const char *name = "nixie_queue_messages";
    put_head(m->out, name, "gauge", "Messages by state; succeeded: what retention still holds.");
    for (size_t i = 0; i < m->count; i++) {
        for (size_t s = 0; s < sizeof states / sizeof states[0]; s++)
            put_sample(m, name, &m->queues[i], "state", state_name(states[s]),
                       m->queues[i].view.count[states[s]]);
    }
}

/* Of the time, in whole seconds; 0 when there is none. */
static uint64_t age_s(int64_t since, int64_t now) {
    return since == 0 || since >= now ? 0 : (uint64_t)(now - since) / 1000;
}

/* -- dead letters ---------------------------------------------------------------------------- */

/* True when the reason has a series: the usual ones always, so that their first death is seen as an
 * increase, the others once there was one. */
static bool is_reason_shown(const struct queue_view *q, enum reason r) {
    return r == REASON_MAX_RETRIES || r == REASON_PERMANENT || r == REASON_EXPIRED ||
           r == REASON_LEASE_EXPIRED || q->deaths_by[r] > 0 || q->dead_by[r] > 0;
}

static void put_reasons(const struct metrics *m, const char *name, bool is_total) {
    for (size_t i = 0; i < m->count; i++) {
        const struct queue_view *q = &m->queues[i].view;
        for (int r = REASON_NONE + 1; r < REASON_COUNT; r++) {
            if (is_reason_shown(q, (enum reason)r))
                put_sample(m, name, &m->queues[i], "reason", reason_name((enum reason)r),
                           is_total ? q->deaths_by[r] : q->dead_by[r]);
        }
    }
}

static void put_outcomes(const struct metrics *m, const char *name) {
    for (size_t i = 0; i < m->count; i++) {
        const struct numbers *n = &m->queues[i];
        put_sample(m, name, n, "outcome", "succeeded", n->view.redriven_succeeded);
        put_sample(m, name, n, "outcome", "died_again", n->view.redriven_died);
    }
}

/* Left out for a queue whose letters stay. */
static void put_retention(const struct metrics *m, const char *name) {
    for (size_t i = 0; i < m->count; i++) {
        if (m->queues[i].keep_dead_ms != 0)
            put_sample(m, name, &m->queues[i], NULL, NULL,
                       (uint64_t)m->queues[i].keep_dead_ms / 1000);
    }
}

/* The same. */
static void put_min_ttl(const struct metrics *m, const char *name) {
    for (size_t i = 0; i < m->count; i++) {
        int64_t expiry = m->queues[i].view.soonest_expiry;
        if (expiry != 0)
            put_sample(m, name, &m->queues[i], NULL, NULL,
                       expiry > m->now ? (uint64_t)(expiry - m->now) / 1000 : 0);
    }
}

static void put_dead(const struct metrics *m) {
    const char *name = "nixie_dead_messages";
    put_head(m->out, name, "gauge", "Dead letters by the reason of their death.");
    put_reasons(m, name, false);
    name = "nixie_dead_lettered_total";
    put_head(m->out, name, "counter", "Messages that became dead letters, by reason.");
    put_reasons(m, name, true);
    name = "nixie_redrive_outcome_total";
    put_head(m->out, name, "counter", "What became of messages that were sent again.");
    put_outcomes(m, name);
    name = "nixie_dead_min_ttl_seconds";
    put_head(m->out, name, "gauge", "Time until retention discards the next dead letter.");
    put_min_ttl(m, name);
    name = "nixie_dead_retention_seconds";
    put_head(m->out, name, "gauge", "How long retention keeps a dead letter.");
    put_retention(m, name);
}

/* -- deliveries ------------------------------------------------------------------------------- */

/* Of a queue in which nothing happened since the start. */
static const struct queue_tally *tally(const struct numbers *n) {
    static const struct queue_tally none;
    return n->view.tally != NULL ? n->view.tally : &none;
}

/* One line of a histogram; `edge` NULL: no bucket. */
static void put_part(const struct metrics *m, const char *name, const struct numbers *n,
                     const char *outcome, const char *edge, uint64_t value) {
    buf_printf(m->out, "%s{queue=\"", name);
    buf_add(m->out, m->names.p + n->name_at, n->name_bytes);
    buf_printf(m->out, "\",outcome=\"%s\"", outcome);
    if (edge != NULL)
        buf_printf(m->out, ",le=\"%s\"", edge);
    buf_add_str(m->out, "} ");
    buf_add_u64(m->out, value);
    buf_add_byte(m->out, '\n');
}

static void put_histogram(const struct metrics *m, const struct numbers *n, const char *outcome,
                          const struct deliveries_at_end *d) {
    uint64_t sum = 0;
    for (unsigned b = 0; b < DELIVERY_BUCKETS; b++) {
        char edge[16] = "+Inf";
        if (b + 1 < DELIVERY_BUCKETS)
            (void)snprintf(edge, sizeof edge, "%u", (unsigned)delivery_bucket_most(b));
        sum += d->count[b];
        put_part(m, "nixie_message_deliveries_bucket", n, outcome, edge, sum);
    }
    put_part(m, "nixie_message_deliveries_sum", n, outcome, NULL, d->deliveries);
    put_part(m, "nixie_message_deliveries_count", n, outcome, NULL, sum);
}

static void put_deliveries(const struct metrics *m) {
    put_head(m->out, "nixie_message_deliveries", "histogram",
             "How often a message had been handed out when it succeeded or died; since the start.");
    for (size_t i = 0; i < m->count; i++) {
        put_histogram(m, &m->queues[i], "succeeded", &tally(&m->queues[i])->succeeded);
        put_histogram(m, &m->queues[i], "died", &tally(&m->queues[i])->died);
    }
}

/* -- one series a queue ---------------------------------------------------------------------- */

enum series {
    SERIES_READY,
    SERIES_BYTES,
    SERIES_OLDEST,
    SERIES_PAUSED,
    SERIES_HOLDS,
    SERIES_ACCEPTED,
    SERIES_SUCCEEDED,
    SERIES_DISCARDED,
    SERIES_UNDISCARDED,
    SERIES_EXPIRED,
    SERIES_MOVED_IN,
    SERIES_MOVED_OUT,
    SERIES_DELIVERIES,
    SERIES_FAILURES,
    SERIES_DEATHS,
    SERIES_REDRIVEN,
    SERIES_REDRIVEN_AGAIN,
    SERIES_CLAIMS,
    SERIES_REDELIVERIES,
    SERIES_RETRIES,
    SERIES_FAILING_OLDEST,
    SERIES_DEAD_OLDEST,
    SERIES_GROUPS,
    SERIES_HELD,
    SERIES_KEYS_PARKED,
    SERIES_KEYS_PARKED_OLDEST,
    SERIES_ALONE,
    SERIES_BREAKER,
    SERIES_BREAKER_OPENED,
    SERIES_BREAKER_HELD,
    SERIES_CONSUMERS,
    SERIES_COUNT,
};

static uint64_t tally_value(enum series series, const struct queue_tally *t) {
    return series == SERIES_CLAIMS         ? t->claims
           : series == SERIES_REDELIVERIES ? t->redeliveries
           : series == SERIES_RETRIES      ? t->retries
                                           : t->redriven_again;
}

static uint64_t series_value(enum series series, const struct numbers *n, int64_t now) {
    const struct queue_view *q = &n->view;
    switch (series) {
    case SERIES_READY:
        return q->ready;
    case SERIES_BYTES:
        return q->bytes;
    case SERIES_OLDEST:
        return age_s(q->oldest_ready_at, now);
    case SERIES_PAUSED:
        return q->paused_at != 0 ? 1 : 0;
    case SERIES_HOLDS:
        return n->holds ? 1 : 0;
    case SERIES_ACCEPTED:
        return q->ledger.accepted;
    case SERIES_SUCCEEDED:
        return q->ledger.succeeded;
    case SERIES_DISCARDED:
        return q->ledger.discarded + q->ledger.undiscarded;
    case SERIES_UNDISCARDED:
        return q->ledger.undiscarded;
    case SERIES_EXPIRED:
        return q->ledger.expired;
    case SERIES_MOVED_IN:
        return q->ledger.moved_in;
    case SERIES_MOVED_OUT:
        return q->ledger.moved_out;
    case SERIES_DELIVERIES:
        return q->deliveries;
    case SERIES_FAILURES:
        return q->failures;
    case SERIES_DEATHS:
        return q->deaths;
    case SERIES_REDRIVEN:
        return q->redriven;
    case SERIES_REDRIVEN_AGAIN:
    case SERIES_CLAIMS:
    case SERIES_REDELIVERIES:
    case SERIES_RETRIES:
        return tally_value(series, tally(n));
    case SERIES_FAILING_OLDEST:
        return age_s(q->failing_since, now);
    case SERIES_DEAD_OLDEST:
        return age_s(q->oldest_death_at, now);
    case SERIES_GROUPS:
        return q->groups;
    case SERIES_HELD:
        return q->held;
    case SERIES_KEYS_PARKED:
        return q->parked_keys;
    case SERIES_KEYS_PARKED_OLDEST:
        return q->parked_keys > 0 ? age_s(q->oldest_death_at, now) : 0;
    case SERIES_ALONE:
        return q->alone_claims;
    case SERIES_BREAKER:
        return (uint64_t)q->breaker;
    case SERIES_BREAKER_OPENED:
        return q->breaker_opened;
    case SERIES_BREAKER_HELD:
        return q->breaker != BREAKER_CLOSED ? q->ready : 0;
    case SERIES_CONSUMERS:
        return q->waiting;
    case SERIES_COUNT:
        break;
    }
    assert(false && "not a series");
    return 0;
}

static const struct {
    const char *name, *type, *help;
} one_series[SERIES_COUNT] = {
    [SERIES_READY] = {"nixie_queue_ready", "gauge", "Pending messages that can be claimed now."},
    [SERIES_BYTES] = {"nixie_queue_bytes", "gauge",
                      "Payload and headers of pending, processing, parked and dead messages."},
    [SERIES_OLDEST] = {"nixie_queue_oldest_ready_age_seconds", "gauge",
                       "Age of the oldest message that can be claimed now, 0 when there is none."},
    [SERIES_PAUSED] = {"nixie_queue_paused", "gauge",
                       "1 when its claims get nothing until it is resumed."},
    [SERIES_HOLDS] = {"nixie_queue_conservation_holds", "gauge",
                      "1 when every accepted message is accounted for."},
    [SERIES_ACCEPTED] = {"nixie_accepted_total", "counter", "Messages accepted."},
    [SERIES_SUCCEEDED] = {"nixie_succeeded_total", "counter", "Messages that succeeded."},
    [SERIES_DISCARDED] = {"nixie_discarded_total", "counter",
                          "Messages discarded by a policy or a person, also those whose "
                          "discard was undone."},
    [SERIES_UNDISCARDED] = {"nixie_undiscarded_total", "counter", "Discards that were undone."},
    [SERIES_EXPIRED] = {"nixie_dead_expired_total", "counter",
                        "Dead letters discarded by retention."},
    [SERIES_MOVED_IN] = {"nixie_moved_in_total", "counter",
                         "Messages that a redrive moved here from another queue."},
    [SERIES_MOVED_OUT] = {"nixie_moved_out_total", "counter",
                          "Messages that a redrive moved to another queue."},
    [SERIES_DELIVERIES] = {"nixie_deliveries_total", "counter", "Messages handed to a worker."},
    [SERIES_FAILURES] = {"nixie_failures_total", "counter",
                         "Failed attempts, expired leases among them."},
    [SERIES_DEATHS] = {"nixie_deaths_total", "counter", "Messages that became dead letters."},
    [SERIES_REDRIVEN] = {"nixie_redriven_total", "counter",
                         "Dead letters sent again, by a person or a job."},
    [SERIES_REDRIVEN_AGAIN] = {"nixie_redriven_again_total", "counter",
                               "Of them, those that had been sent again before; since the "
                               "start."},
    [SERIES_CLAIMS] = {"nixie_claims_total", "counter",
                       "Messages handed to a worker since the start."},
    [SERIES_REDELIVERIES] = {"nixie_redeliveries_total", "counter",
                             "Of the claims, messages that had been handed out before."},
    [SERIES_RETRIES] = {"nixie_retries_total", "counter",
                        "Of the claims, messages that had failed before."},
    [SERIES_FAILING_OLDEST] = {"nixie_failing_oldest_age_seconds", "gauge",
                               "Time since the first failure of the message that has been "
                               "failing for longest, as far as it is known."},
    [SERIES_DEAD_OLDEST] = {"nixie_dead_oldest_age_seconds", "gauge",
                            "Time since the oldest death among the dead letters, 0 when there "
                            "is none."},
    [SERIES_GROUPS] = {"nixie_dead_groups", "gauge", "Cause groups that have letters."},
    [SERIES_HELD] = {"nixie_queue_held", "gauge",
                     "Pending messages that wait behind the head of their key."},
    [SERIES_KEYS_PARKED] = {"nixie_keys_parked", "gauge",
                            "Keys that wait for a decision about their dead head."},
    [SERIES_KEYS_PARKED_OLDEST] = {"nixie_keys_parked_oldest_age_seconds", "gauge",
                                   "Time since the oldest death in a queue with parked keys, 0 "
                                   "when there is none."},
    [SERIES_ALONE] = {"nixie_alone_claims_total", "counter",
                      "Messages handed out alone, because they may have ended their worker."},
    [SERIES_BREAKER] = {"nixie_queue_breaker_state", "gauge", "0 closed, 1 open, 2 half open."},
    [SERIES_BREAKER_OPENED] = {"nixie_breaker_opened_total", "counter",
                               "Times that the breaker opened."},
    [SERIES_BREAKER_HELD] = {"nixie_breaker_held", "gauge",
                             "Ready messages that wait because the breaker is not closed."},
    [SERIES_CONSUMERS] = {"nixie_queue_consumers", "gauge", "Claims that wait for a message now."},
};

static void put_queues(const struct metrics *m) {
    put_states(m);
    put_dead(m);
    put_deliveries(m);
    for (int s = 0; s < SERIES_COUNT; s++) {
        put_head(m->out, one_series[s].name, one_series[s].type, one_series[s].help);
        for (size_t i = 0; i < m->count; i++)
            put_sample(m, one_series[s].name, &m->queues[i], NULL, NULL,
                       series_value((enum series)s, &m->queues[i], m->now));
    }
}

/* -- the server ------------------------------------------------------------------------------ */

static void put_engine(struct buf *out, const struct engine_stats *stats) {
    put_one(out, "nixie_queues", "gauge", "Queues.", stats->queues);
    put_one(out, "nixie_messages", "gauge", "Messages held, whatever their state.",
            stats->messages);
    put_one(out, "nixie_redrives_active", "gauge",
            "Redrives, discards and purges that have not ended.", stats->jobs_active);
    put_one(out, "nixie_audit_entries", "gauge", "Entries of the audit that are kept.",
            stats->audit_entries);
}

static void put_deleted(struct buf *out, const struct ledger *deleted) {
    put_one(out, "nixie_deleted_queues_accepted_total", "counter",
            "Messages accepted by queues that were deleted.", deleted->accepted);
    put_one(out, "nixie_deleted_queues_succeeded_total", "counter",
            "Messages that succeeded in queues that were deleted.", deleted->succeeded);
    put_one(out, "nixie_deleted_queues_discarded_total", "counter",
            "Messages discarded in or with queues that were deleted.",
            deleted->discarded + deleted->undiscarded);
    put_one(out, "nixie_deleted_queues_undiscarded_total", "counter",
            "Discards that were undone in queues that were deleted.", deleted->undiscarded);
    put_one(out, "nixie_deleted_queues_dead_expired_total", "counter",
            "Dead letters discarded by retention in queues that were deleted.", deleted->expired);
    put_one(out, "nixie_deleted_queues_moved_in_total", "counter",
            "Messages that a redrive moved to queues that were deleted.", deleted->moved_in);
    put_one(out, "nixie_deleted_queues_moved_out_total", "counter",
            "Messages that a redrive moved from queues that were deleted.", deleted->moved_out);
}

static void put_log(struct buf *out, const struct server *s, const struct engine_stats *engine) {
    const struct log *log = s->log;
    const struct log_stats stats = log_stats(log);
    put_one(out, "nixie_log_bytes", "gauge", "What the log takes on disk.", log_bytes(log));
    put_one(out, "nixie_log_capacity_bytes", "gauge",
            "What the log may take: it and what is free beside it, or --data-max-bytes.",
            server_capacity_bytes(s));
    put_one(out, "nixie_log_live_bytes", "gauge", "What of it is still needed.",
            engine->live_bytes);
    put_one(out, "nixie_log_cleaned_bytes_total", "counter", "Bytes carried forward by cleaning.",
            engine->cleaned_bytes);
    put_one(out, "nixie_log_syncs_total", "counter", "Syncs to disk.", stats.syncs);
    put_one(out, "nixie_log_written_bytes_total", "counter", "Bytes written.", stats.written_bytes);
    put_one(out, "nixie_log_frames_total", "counter", "Transactions written.", stats.frames);
    put_one(out, "nixie_log_segments_made_total", "counter", "Segments begun.",
            stats.segments_made);
    put_one(out, "nixie_log_segments_removed_total", "counter", "Segments cleaned and removed.",
            stats.segments_removed);
    put_one(out, "nixie_log_full", "gauge", "1 when there is no room for new messages.",
            stats.full ? 1 : 0);
}

/* Of this process; 0 where the system does not tell. */
static uint64_t resident_bytes(void) {
    FILE *f = fopen("/proc/self/statm", "re");
    if (f == NULL)
        return 0;
    unsigned long long all = 0, resident = 0;
    int n = fscanf(f, "%llu %llu", &all, &resident);
    fclose(f);
    long page_bytes = sysconf(_SC_PAGESIZE);
    return n == 2 && page_bytes > 0 ? resident * (uint64_t)page_bytes : 0;
}

static void put_http(struct buf *out, const struct http *h) {
    const char *name = "nixie_http_requests_total";
    put_head(out, name, "counter", "Requests answered, by class of status.");
    for (unsigned i = 2; i <= 5; i++) {
        if (i != 3)
            buf_printf(out, "%s{code=\"%uxx\"} %llu\n", name, i,
                       (unsigned long long)h->reply_counts[i]);
    }
    put_one(out, "nixie_http_connections", "gauge", "Open connections.", h->connection_count);
    put_one(out, "nixie_http_inflight", "gauge",
            "Requests that wait for the disk or for a message.", h->inflight);
}

void handle_metrics(struct call *c) {
    struct buf *out = c->reply.body;
    struct metrics m = {.out = out, .now = c->now};
    buf_init(&m.names, NAMES_BYTES_MAX + 2 * LIMIT_QUEUE_NAME);
    struct engine *engine = call_engine(c);
    enum err e = engine_queues(engine, span_of(NULL, 0), copy_queue, &m);
    assert(e == OK);

    const struct engine_stats stats = engine_stats(engine);
    put_head(out, "nixie_build_info", "gauge", "The version that runs.");
    buf_add_str(out, "nixie_build_info{version=\"" NIXIE_VERSION "\"} 1\n");
    put_one(out, "nixie_start_time_seconds", "gauge", "When the server started, since the epoch.",
            (uint64_t)(c->http->started_at / 1000));
    put_one(out, "nixie_resident_memory_bytes", "gauge", "Memory of the process.",
            resident_bytes());
    put_http(out, c->http);
    put_log(out, c->server, &stats);
    put_engine(out, &stats);
    put_deleted(out, &stats.deleted);
    put_one(out, "nixie_queues_not_shown", "gauge", "Queues without series of their own here.",
            stats.queues > m.count ? stats.queues - m.count : 0);
    put_queues(&m);

    c->reply.content_type = "text/plain; version=0.0.4; charset=utf-8";
    buf_release(&m.names);
    free(m.queues);
}
