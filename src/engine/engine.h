/* The engine: the verbs of a queue and the state they act on.
 *
 * A verb checks the request against the state and *decides*: it appends effect records to the log
 * and apply_* changes the state by them, here and on recovery alike. An enqueue is one frame, all
 * or none; what a claim, a settle or a tick does to each message is a frame of its own: after a
 * crash some may be done and some not, and nobody was told. An error means that nothing the caller
 * asked for was done. What was done counts when log_durable() reaches log_end() as it was after the
 * call: the caller holds the reply back until then, also for reads.
 *
 * No clock, no socket, no thread, no global: `now` is an argument (milliseconds; it may go back),
 * random bits come from the seed, and the only file access is through the log. One engine belongs
 * to one thread.
 *
 * Spans given are borrowed for the call; spans returned are valid until the next call on this
 * engine. */
#pragma once

#include "base/bytes.h"
#include "log/log.h"
#include "model/filter.h"
#include "model/policy.h"
#include "model/triage.h"

#include <stdbool.h>

struct engine;

/* An empty engine. `seed` feeds jitter and hash order. */
struct engine *engine_new(uint64_t seed);
void engine_free(struct engine *e); /* not its log; NULL is fine */

/* Recovery: the reader to open the log with, then the log to go on with. After a failed log_open
 * only engine_free may follow. */
struct log_reader engine_reader(struct engine *e);
void engine_attach(struct engine *e, struct log *log);
/* False when what was read misses something it speaks of: the log is damaged in a way its checksums
 * cannot tell. Ask before attaching. */
bool engine_is_whole(const struct engine *e);

/* -- producing ------------------------------------------------------------------------------- */

struct enqueued {
    uint64_t id;
    bool duplicate; /* known idempotency key: id is the first message's */
};

/* All n (1..LIMIT_BATCH) or none; makes the queue when it is missing. ret: n entries.
 * ERR_QUEUE_FULL, ERR_TOO_MANY_QUEUES, ERR_TOO_LARGE (the batch does not fit one frame),
 * ERR_DISK_FULL. */
enum err engine_enqueue(struct engine *e, int64_t now, struct span queue,
                        const struct message_new *items, size_t n, struct enqueued *ret) MUST_CHECK;

/* The id of the message first enqueued with this idempotency key, when its window is still open.
 * ERR_NO_QUEUE, ERR_NO_MESSAGE. */
enum err engine_key_find(struct engine *e, int64_t now, struct span queue, struct span key,
                         uint64_t *ret_id) MUST_CHECK;

/* -- consuming ------------------------------------------------------------------------------- */

struct claim {
    size_t count;     /* 1..LIMIT_BATCH */
    int64_t lease_ms; /* 0 = the queue's; CLAIM_HELD: no time, it ends with the connection */
    /* of payload and headers together; the first message is given whatever its size */
    size_t bytes_max;
    struct span worker, worker_version;
};

#define CLAIM_HELD                                                                                 \
    (-1) /* whoever holds it settles it (SETTLE_RETURN), or engine_begin after a restart */

/* Hands out up to count ready messages; their deliveries are raised. *ret_n is 0 when there is
 * nothing (also when there is no such queue). ERR_DISK_FULL. The lease token of a message is its
 * `deliveries`. */
enum err engine_claim(struct engine *e, int64_t now, struct span queue, const struct claim *claim,
                      uint64_t *ret_ids, size_t *ret_n) MUST_CHECK;

enum settle_action {
    SETTLE_SUCCEED,
    SETTLE_FAIL,
    SETTLE_RELEASE,
    SETTLE_EXTEND,
    SETTLE_RETURN, /* AMQP's requeue: as release, but dead at once when it was delivered too often */
    SETTLE_REJECT, /* dead at once with reason rejected, by its receiver */
};

struct settle {
    enum settle_action action;
    uint64_t id;
    uint32_t lease;   /* deliveries at the claim; 0 = whoever holds it */
    int64_t delay_ms; /* fail: instead of the backoff; release: until due again; -1 = not given */
    int64_t lease_ms; /* extend: from now; 0 = the queue's */
    bool permanent;   /* fail: dead at once */
    struct span error, error_class, detail, fingerprint; /* fail; cut to their limits */
};

/* Settles n (1..LIMIT_BATCH) items in order, each OK or an error in ret_results: ERR_NO_MESSAGE,
 * ERR_WRONG_STATE, ERR_STALE_LEASE. Returns ERR_NO_QUEUE, ERR_DISK_FULL, ERR_TOO_LARGE for the
 * whole. */
enum err engine_settle(struct engine *e, int64_t now, struct span queue, const struct settle *items,
                       size_t n, enum err *ret_results) MUST_CHECK;

/* -- one dead letter (letter.c); each is on the audit in the same frame ----------------------- */

/* A dead message becomes pending with no failures. Unless `force`: ERR_REDRIVE_LIMIT when it was
 * sent again as often as its queue's redrive_limit, ERR_EDITED when an edited copy was sent in its
 * place. `clear_deaths`: its envelope forgets where it died (x-death); its story does not.
 * ERR_NO_QUEUE, ERR_NO_MESSAGE, ERR_WRONG_STATE, ERR_DISK_FULL. */
enum err engine_replay(struct engine *e, int64_t now, struct span queue, uint64_t id, bool force,
                       bool clear_deaths, const struct act *act) MUST_CHECK;

struct edit {
    bool has_payload, has_headers; /* else as it was */
    struct span payload, headers;
    bool force;
};
/* Enqueues a changed copy of a dead letter into its queue, with the same key, priority, retries and
 * time to live, linked both ways; the letter stays dead. ERR_EDITED when there is a copy already, as
 * for a replay; ERR_QUEUE_FULL, ERR_TOO_LARGE. */
enum err engine_edit(struct engine *e, int64_t now, struct span queue, uint64_t id,
                     const struct edit *edit, const struct act *act, uint64_t *ret_id) MUST_CHECK;

/* A dead letter is discarded, counted at once, gone LIMIT_UNDISCARD_MS later; until then undiscard
 * makes it the dead letter it was (with a new dead_seq). ERR_WRONG_STATE. */
enum err engine_discard(struct engine *e, int64_t now, struct span queue, uint64_t id,
                        enum discard_reason why, const struct act *act) MUST_CHECK;
enum err engine_undiscard(struct engine *e, int64_t now, struct span queue, uint64_t id,
                          const struct act *act) MUST_CHECK;

/* A letter from elsewhere. */
struct letter_attempt {
    enum event event;
    uint32_t attempt;
    int64_t at, next_at;
    struct span worker, worker_version, error_class, error, detail, fingerprint;
};
struct letter_new {
    uint64_t id;
    struct span payload, headers, key;
    uint8_t max_retries, retry_count, priority;
    enum reason reason;
    uint32_t deliveries, redrive_count;
    int64_t created_at, died_at, first_failed_at, ttl_ms;
    uint64_t parent_id, edited_to; /* 0 = none */
    struct span origin;
    struct span envelope;                  /* packed and good, or empty */
    const struct letter_attempt *attempts; /* oldest first, at most LIMIT_IMPORT_ATTEMPTS */
    size_t attempt_count;
};
enum imported { IMPORT_NEW, IMPORT_KNOWN, IMPORT_ID_TAKEN };
/* Lands n (1..LIMIT_BATCH) letters as dead, in one frame with the audit, making the queue when it is
 * missing. One whose id is there already with the same queue and time of creation is
 * IMPORT_KNOWN and left as it is; with another, IMPORT_ID_TAKEN: then nothing at all is done (ERR_INVALID).
 * ret_results: n. `dry_run`: only says what would be done. ERR_TOO_MANY_QUEUES, ERR_TOO_LARGE,
 * ERR_DISK_FULL. */
enum err engine_import(struct engine *e, int64_t now, struct span queue,
                       const struct letter_new *items, size_t n, bool dry_run,
                       const struct act *act, enum imported *ret_results) MUST_CHECK;

/* -- queues ---------------------------------------------------------------------------------- */

/* Makes the queue with this policy (NULL: the default), or gives it the policy (NULL: leaves it; else
 * texts belong to it). ERR_TOO_MANY_QUEUES, ERR_DISK_FULL; ERR_TARGET_CYCLE, ERR_TARGET_REFUSED;
 * ERR_NOT_EMPTY when the order would change while there are messages. */
enum err engine_queue_put(struct engine *e, int64_t now, struct span queue,
                          const struct policy *policy, const struct policy_texts *texts,
                          const struct act *act, bool *ret_created) MUST_CHECK;

/* While a queue is paused its claims get nothing; all else goes on. Pausing a paused queue gives it
 * the new actor and reason. ERR_NO_QUEUE, ERR_DISK_FULL. */
enum err engine_queue_pause(struct engine *e, int64_t now, struct span queue, bool paused,
                            const struct act *act) MUST_CHECK;

/* ERR_NOT_EMPTY unless `discard`; ERR_NO_QUEUE, ERR_DISK_FULL. The name is free at once; its
 * messages go in later turns of engine_tick. */
enum err engine_queue_delete(struct engine *e, int64_t now, struct span queue, bool discard,
                             const struct act *act) MUST_CHECK;

/* What is counted since the start of the engine and is not durable: for metrics. */
#define DELIVERY_BUCKETS 7
struct deliveries_at_end {
    uint64_t count[DELIVERY_BUCKETS]; /* by delivery_bucket_most; the last: more than all of them */
    uint64_t deliveries;              /* of all of them together */
};
/* The most deliveries of a message in this bucket (not the last). */
uint32_t delivery_bucket_most(unsigned number);
struct queue_tally {
    uint64_t claims;         /* messages handed out; of them: */
    uint64_t redeliveries;   /* that were handed out before, for whatever reason they came back */
    uint64_t retries;        /* that had failed before, since they were last sent again */
    uint64_t redriven_again; /* letters sent again that had been sent again before */
    struct deliveries_at_end succeeded, died;
};

struct queue_view {
    struct span name;
    int64_t created_at;
    const struct policy *policy;
    /* messages now, by state; STATE_SUCCEEDED: what retention still holds */
    uint64_t count[STATE_COUNT];
    uint64_t ready; /* part of pending that can be claimed */
    /* payload and headers of what is pending, processing, parked or dead */
    uint64_t bytes;
    struct ledger ledger;
    uint64_t deliveries, failures, deaths; /* totals, as counted since the log was begun */
    uint64_t deaths_by[REASON_COUNT];      /* the same by reason */
    uint64_t dead_by[REASON_COUNT];        /* dead now */
    /* replays and redrives since ever, and what came of them */
    uint64_t redriven, redriven_succeeded, redriven_died;
    int64_t oldest_ready_at; /* since when the first in line has been as it is, 0 = none */
    int64_t paused_at;       /* 0 = not paused */
    struct span paused_by, pause_reason;
    uint64_t groups;         /* cause groups that have letters */
    int64_t soonest_expiry;  /* when retention takes the next dead letter, 0 = never */
    int64_t oldest_death_at; /* of the letters dead now, 0 = none */
    int64_t claimed_at;      /* when a worker last asked for work, since the start; 0 = never */
    unsigned waiting;        /* claims that wait */
    const struct policy_texts *texts;
    uint64_t held;        /* part of pending: behind the head of their key */
    uint64_t parked_keys; /* whose head is dead */
    uint64_t alone_claims;
    enum breaker_state breaker;
    int64_t breaker_at, breaker_until; /* in this state since; open: half open from */
    uint64_t breaker_opened;
    struct span breaker_cause;
    /* NULL: nothing was counted; good as long as the queue is, and nothing happens */
    const struct queue_tally *tally;
    /* First failure of the message that has been failing for longest and is not over yet, as far as
     * that is known: of those that failed or were handed out again since the last one that was known
     * ended. 0 = none. Not in a brief view. */
    int64_t failing_since;
    const uint64_t *durations; /* of attempts since the start: [n] took up to 2^n ms; 32, or NULL */
};

/* True when the equation of conservation holds for it. */
bool queue_view_holds(const struct queue_view *q);

/* ERR_NO_QUEUE */
enum err engine_queue(struct engine *e, struct span queue, struct queue_view *ret) MUST_CHECK;
/* The same without what its cause groups tell (groups, oldest_death_at, soonest_expiry): costs
 * nothing, for the path of each claim. */
enum err engine_queue_brief(struct engine *e, struct span queue, struct queue_view *ret) MUST_CHECK;

/* Walks the queues in order of creation, beginning after the named one (empty: from the first;
 * ERR_NO_QUEUE); stops when f says false. */
enum err engine_queues(struct engine *e, struct span after,
                       bool (*f)(void *ctx, const struct queue_view *q), void *ctx) MUST_CHECK;

/* -- reading --------------------------------------------------------------------------------- */

/* ERR_NO_QUEUE, ERR_NO_MESSAGE. */
enum err engine_message(struct engine *e, struct span queue, uint64_t id,
                        struct message_view *ret) MUST_CHECK;

/* Its state alone, without reading the log. ERR_NO_QUEUE, ERR_NO_MESSAGE. */
enum err engine_message_state(struct engine *e, struct span queue, uint64_t id,
                              enum state *ret) MUST_CHECK;

/* The story, oldest first: the lines of the first LIMIT_ATTEMPTS_FIRST and the last
 * LIMIT_ATTEMPTS_LAST attempts; *ret_omitted of the attempts between have no line.
 * ERR_NO_QUEUE, ERR_NO_MESSAGE. */
enum err engine_history(struct engine *e, struct span queue, uint64_t id,
                        void (*f)(void *ctx, const struct history_entry *entry), void *ctx,
                        uint32_t *ret_omitted) MUST_CHECK;

struct list {
    int state;      /* enum state, or -1 for all that are not discarded */
    uint64_t after; /* only what stands behind the message of this id, 0 = all */
    size_t offset;  /* skip so many */
    size_t limit;   /* 1..LIMIT_BATCH */
};
/* Ids in order of arrival in the queue (what came through a dead-letter exchange: when it came) into ret_ids (list->limit entries); *ret_n of them. None when there is no
 * such queue. */
void engine_list(struct engine *e, struct span queue, const struct list *list, uint64_t *ret_ids,
                 size_t *ret_n);

/* -- dead letters: finding (letters.c) -------------------------------------------------------- */

/* A place in the order of deaths: (died_at, dead_seq). */
struct letter_place {
    int64_t died_at;
    uint64_t dead_seq;
};

struct letter_query {
    const struct filter *filter; /* of FILTER_LETTERS; NULL = all */
    struct span queue;           /* empty = of all queues */
    bool oldest_first;           /* else newest death first */
    bool has_after;
    struct letter_place after; /* only what comes after this place in that order */
    uint64_t fence;            /* only dead_seq up to it; 0 = all */
    size_t limit;              /* 1..LIMIT_BATCH */
};
struct letter_page {
    size_t n;                 /* ids given */
    bool is_last;             /* nothing comes after */
    struct letter_place next; /* unless is_last: where the next page begins */
    /* False: the work of one call was used up before the page was full, and what matches further on
     * was not looked at. */
    bool is_complete;
    uint64_t looked_at; /* letters */
};
/* Walks over the cause groups that can match, reading memory first and the disk where the filter
 * asks for it: at most LIMIT_WALK_LETTERS letters and LIMIT_WALK_BYTES read from disk. ret_ids:
 * `limit` entries. None when there is no such queue. */
void engine_letters(struct engine *e, int64_t now, const struct letter_query *query,
                    uint64_t *ret_ids, struct letter_page *ret_page);

/* The message of an id in any queue; else as engine_message. */
enum err engine_letter(struct engine *e, uint64_t id, struct message_view *ret) MUST_CHECK;

/* The highest dead_seq given out; a fence of this moment. */
uint64_t engine_fence(const struct engine *e);

/* -- cause groups (groups.c) ----------------------------------------------------------------- */

#define GROUP_VERSIONS 16

struct group_view {
    uint64_t key;
    struct span queue;
    struct span title, error_class; /* of its first letter */
    enum reason reason;             /* the same */
    bool is_explicit;               /* the fingerprint came from the worker */
    uint64_t count;                 /* dead now */
    uint64_t open;                  /* sent again, outcome unknown */
    uint64_t total;                 /* deaths since ever */
    uint64_t hour, day;             /* deaths in the last 60 minutes, 24 hours */
    int64_t first_seen, last_seen;
    enum group_state state; /* resolved also when no letter is dead or open any more */
    int64_t state_at;
    int64_t regressed_at; /* 0 = never: it was resolved, and then another letter came */
    int64_t quiet_ms;     /* how long it had been quiet then */
    struct span owner, note;
    size_t version_count;
    struct {
        struct span name;
        uint64_t count, total;
    } versions
        [GROUP_VERSIONS];    /* of workers, by first appearance; further ones are not told apart */
    uint64_t newest, oldest; /* ids of letters, 0 = none */
};

enum group_order { GROUPS_BY_LAST_SEEN, GROUPS_BY_COUNT, GROUPS_BY_FIRST_SEEN, GROUPS_BY_TITLE };
struct group_query {
    const struct filter *filter; /* of FILTER_GROUPS; NULL = all */
    enum group_order order;      /* times and counts: the greatest first */
    bool with_empty;             /* also those without a letter, dead or open */
    size_t offset, limit;        /* limit 1..LIMIT_BATCH */
};
/* Calls f for each group of the page; *ret_total is the number of those that match. */
void engine_groups(struct engine *e, int64_t now, const struct group_query *query,
                   void (*f)(void *ctx, const struct group_view *g), void *ctx,
                   uint64_t *ret_total);
/* ERR_NO_GROUP */
enum err engine_group(struct engine *e, int64_t now, uint64_t key,
                      struct group_view *ret) MUST_CHECK;

struct group_change {
    bool has_state, has_owner, has_note;
    enum group_state state;
    struct span owner, note; /* at most LIMIT_OWNER, LIMIT_NOTE */
};
enum err engine_group_change(struct engine *e, int64_t now, uint64_t key,
                             const struct group_change *change, const struct act *act) MUST_CHECK;

/* -- jobs over many letters (jobs.c, redrive.c) ----------------------------------------------- */

#define SAMPLE_BY_DEFAULT UINT32_MAX
#define STOP_NEVER UINT32_MAX

struct job_new {
    enum job_kind kind;
    struct span queue;  /* redrive, purge: required. discard: empty = all queues */
    struct span filter; /* text of FILTER_LETTERS, parsed by the caller before; empty: all */
    struct span name;   /* for people, or empty */
    struct span idempotency_key; /* or empty */
    struct act act;
    /* redrive: */
    struct span to;      /* another queue; empty: each letter's own */
    struct span patch;   /* JSON, checked; empty: letters go as they are */
    uint64_t rate_milli; /* letters in 1000 seconds; 0 = as fast as it can */
    uint32_t sample; /* letters; 0 = no sample; SAMPLE_BY_DEFAULT: LIMIT_SAMPLE of more than 100 */
    uint32_t stop_if_ppm;    /* share that died again, in millionths; STOP_NEVER */
    bool force;              /* also letters at their redrive limit, and edited ones */
    bool clear_deaths;       /* as in engine_replay */
    enum discard_reason why; /* discard */
};

/* What a redrive is warned of. */
struct job_warnings {
    bool is_paused; /* the queue that gets the letters is paused */
    bool
        has_no_worker; /* nobody asked it for work in the last LIMIT_WORKER_SEEN_MS, nobody waits */
    /* versions[i].is_claiming: workers of a version that failed these letters still claim there */
    bool old_version_claims;
    uint64_t redriven_before; /* of the letters */
    uint64_t at_limit;        /* of the letters: skipped unless forced */
};

struct job_version {
    struct span name;
    uint64_t count; /* letters of the job that it failed */
    bool is_claiming;
};

struct job_view {
    uint32_t number;
    enum job_kind kind;
    enum job_state state;
    bool is_selecting; /* `selected` still grows */
    struct span queue, to, filter, name, actor, reason, patch;
    struct span stop_reason; /* stopped: why */
    enum discard_reason why;
    uint64_t fence;
    uint64_t rate_milli;
    uint32_t sample; /* 0 = none */
    uint32_t stop_if_ppm;
    bool force, clear_deaths;
    struct job_counts counts;
    uint64_t sent;
    uint64_t new_since; /* letters that match and died after the fence, now */
    bool new_since_is_complete;
    int64_t created_at, changed_at, ended_at; /* 0 = not ended */
    struct job_warnings warnings;
    size_t version_count;
    struct job_version versions[GROUP_VERSIONS];
};

/* What a job would do, without making it: as much as the work of one call finds out.
 * ret->counts.selected, skipped, remaining, warnings, versions, fence; *ret_is_complete. The first
 * n_ids ids that would go, oldest first. ERR_NO_QUEUE (the queue, or `to`). */
enum err engine_job_plan(struct engine *e, int64_t now, const struct job_new *job,
                         struct job_view *ret, bool *ret_is_complete, uint64_t *ret_ids,
                         size_t ids_max, size_t *ret_n) MUST_CHECK;

/* Makes the job and does the first step of its selection; the rest happens in engine_tick.
 * ERR_NO_QUEUE, ERR_TOO_MANY_JOBS (LIMIT_JOBS_ACTIVE not ended), ERR_DISK_FULL. */
enum err engine_job_start(struct engine *e, int64_t now, const struct job_new *job,
                          uint32_t *ret_number) MUST_CHECK;
/* The job of this kind that was made with this idempotency key in the last LIMIT_JOB_KEY_MS.
 * ERR_NO_JOB. */
enum err engine_job_find(struct engine *e, int64_t now, enum job_kind kind, struct span key,
                         uint32_t *ret_number) MUST_CHECK;

/* ERR_NO_JOB */
enum err engine_job(struct engine *e, int64_t now, uint32_t number,
                    struct job_view *ret) MUST_CHECK;
/* Walks from the newest down, below `before` (0 = from the newest); stops when f says false. Only
 * one kind, or all when `kind` is 0. new_since is not counted. */
void engine_jobs(struct engine *e, int64_t now, int kind, uint32_t before,
                 bool (*f)(void *ctx, const struct job_view *job), void *ctx);

struct job_change {
    bool has_state, has_rate, has_stop_if;
    enum job_state state; /* JOB_PAUSED, JOB_RUNNING (resumes, also what stopped), JOB_CANCELLED */
    uint64_t rate_milli;
    uint32_t stop_if_ppm;
};
/* ERR_NO_JOB, ERR_WRONG_STATE (it has ended), ERR_DISK_FULL. To the state it is in: OK. */
enum err engine_job_change(struct engine *e, int64_t now, uint32_t number,
                           const struct job_change *change, const struct act *act) MUST_CHECK;

/* -- the audit (audit.c) --------------------------------------------------------------------- */

struct audit_query {
    uint64_t after;    /* only numbers above */
    bool newest_first; /* then: only numbers below `before` (0 = from the newest) */
    uint64_t before;
    struct span queue; /* empty = all */
    struct span actor; /* empty = all */
    int action;        /* enum audit_action, or 0 */
    size_t limit;      /* 1..LIMIT_BATCH */
};
/* Looks at no more than LIMIT_AUDIT_WALK entries. *ret_next: where the next page begins (its `after`
 * or `before`), 0 when there is none. */
void engine_audit(struct engine *e, const struct audit_query *query,
                  void (*f)(void *ctx, const struct audit_entry *entry), void *ctx,
                  uint64_t *ret_next);

/* -- time and upkeep ------------------------------------------------------------------------- */

/* Moves what is due: retries, delays, leases, times to live, retention, deleted queues; a bounded
 * amount of work. Returns when to call again: `now` when more is due already, TIME_NEVER when
 * nothing has a time. With a full disk it waits. */
int64_t engine_tick(struct engine *e, int64_t now);

/* Carries live records of the oldest segment forward, a bounded amount; true when it should be
 * called again next turn. */
bool engine_clean(struct engine *e);

/* Waiting consumers: a watched queue that has ready messages is reported by engine_woken, once,
 * until it is asked again. Watches nest. A queue handle stays valid while it is watched, even when
 * the queue is deleted. */
struct queue;
/* makes it */
enum err engine_watch(struct engine *e, int64_t now, struct span queue,
                      struct queue **ret) MUST_CHECK;
void engine_unwatch(struct engine *e, struct queue *q);
/* The handle of a queue that is watched; NULL when nobody waits for it. */
struct queue *engine_watched(const struct engine *e, struct span queue);
struct queue *engine_woken(struct engine *e); /* NULL when there is none (any more) */

/* -- for metrics, tests and tools ------------------------------------------------------------ */

struct engine_stats {
    uint64_t queues, messages;
    uint64_t live_bytes;    /* what the live records take in the log */
    struct ledger deleted;  /* of the queues that are gone */
    uint64_t cleaned_bytes; /* carried forward since the start */
    uint64_t groups, jobs_active;
    uint64_t audit_entries, audit_first; /* kept; the number of the oldest */
};
struct engine_stats engine_stats(const struct engine *e);

/* A checksum over the durable state, independent of positions in the log: two engines that agree
 * hold the same. Slow. */
uint64_t engine_checksum(const struct engine *e);

/* Recounts everything from the messages and compares with the maintained counters; false, with the
 * first difference in text. Slow. */
bool engine_verify(const struct engine *e, char *text, size_t text_bytes);
