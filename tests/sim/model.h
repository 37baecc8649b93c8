/* What queues should do, as naively as it can be said: arrays and linear scans, no disk, no
 * cleverness. The simulator runs the same operations through this model and through the engine and
 * compares.
 *
 * What the engine is free to choose is looked up there the first time, checked against what is
 * allowed, and remembered in the operation, so that it can be applied again to an older model: the
 * jitter of a backoff, which succeeded messages retention lets go first, what a full disk left
 * undone, in which order what time brings happens (the dead_seq of deaths), how far a job has come
 * and when, within the turns of a tick, it stopped. */
#pragma once

#include "engine/engine.h"
#include "log/record.h"
#include "sim/content.h"

#include <stdbool.h>
#include <stdint.h>

#define MODEL_MESSAGES 1024
#define MODEL_STORY 16 /* lines compared of a story; longer ones by their ends */
#define MODEL_KEYS 4096
#define MODEL_GROUPS 1024
#define MODEL_JOBS 1024
#define MODEL_AUDIT 512 /* entries remembered, the newest */
#define MODEL_BATCH 64

/* -- operations -------------------------------------------------------------------------------- */

enum op_kind {
    OP_ENQUEUE,
    OP_CLAIM,
    OP_SETTLE,
    OP_REPLAY,
    OP_EDIT,
    OP_DISCARD,
    OP_UNDISCARD,
    OP_IMPORT,
    OP_GROUP,
    OP_JOB_START,
    OP_JOB_CHANGE,
    OP_QUEUE_PUT,
    OP_QUEUE_PAUSE,
    OP_QUEUE_DELETE,
    OP_WATCH,
    OP_TICK,
};

struct op_item {
    /* enqueue, edit, import */
    struct content payload, headers;
    uint32_t tag;
    struct key key;
    uint8_t idempotency; /* 0 = none */
    uint8_t max_retries, priority;
    int64_t delay_ms, ttl_ms;
    /* settle: texts follow from the tag, 0 = none */
    enum settle_action action;
    uint64_t id;
    uint32_t lease;
    int64_t lease_ms;
    bool permanent;
    /* import: with so many failures in its story, each of the tag, and then perhaps a replay */
    int64_t created_at, died_at;
    enum reason reason;
    uint8_t retry_count, failures, redrive_count, worker, version, replayed_by;
    int8_t origin; /* a queue, -1 = none */
};

struct op_job {
    enum job_kind kind;
    struct letter_filter filter;
    int to; /* -1 = none */
    enum patch_kind patch;
    int16_t patch_k;
    uint64_t rate_milli;
    uint32_t sample, stop_if_ppm;
    bool force;
    uint32_t number; /* to be changed */
    struct job_change change;
};

struct op {
    enum op_kind kind;
    int64_t now;
    int queue; /* -1: all */
    size_t n;
    struct op_item items[MODEL_BATCH];
    struct claim claim;
    uint8_t worker, version;
    uint64_t id;
    struct who who;
    bool force, has_payload, has_headers, dry_run, paused;
    enum discard_reason why;
    uint64_t group;
    struct group_change change;
    uint8_t owner, note;
    struct op_job job;
    bool has_policy, discard;
    struct policy policy;
    struct queue_texts texts;
    bool full;       /* the disk was: not all that is due may have been done */
    bool blocked;    /* the last tick found no room: what is ready is not known */
    bool is_rest;    /* a tick that goes on where a crash ended it */
    uint64_t *ended; /* the messages whose leases had ended by then */
    size_t ended_count;
    enum err error; /* what the engine said, where only it can know (ERR_DISK_FULL) */
    uint64_t end;   /* position in the log after it */
    unsigned limit; /* frames of it to apply; UINT32_MAX = all */
    uint64_t *seen; /* what was looked up in the engine, in order */
    size_t seen_count, seen_cap, seen_next;
};

void op_release(struct op *op);

/* What the verb should have answered. */
struct outcome {
    enum err error;
    size_t n;
    uint64_t ids[MODEL_BATCH]; /* also: the copy's id, the job's number */
    bool duplicates[MODEL_BATCH];
    enum err results[MODEL_BATCH];
    enum imported imported[MODEL_BATCH];
    bool created;
};

/* -- the model --------------------------------------------------------------------------------- */

struct model_line {
    enum event event;
    uint32_t attempt, tag;
    int64_t at, next_at;
    uint8_t worker, version;
    uint8_t actor; /* a person's doing */
    uint32_t job;  /* a job's doing */
    uint64_t copy; /* edited, patched: its id */
    enum discard_reason why;
    uint8_t reason;              /* discarded: the text */
    int8_t moved_from, moved_to; /* redriven to another queue; both 0 else */
};

struct model_story {
    size_t n;
    struct model_line lines[MODEL_STORY], last;
};

/* Where a message was dead-lettered from, and why. */
struct model_trail {
    size_t n;
    uint32_t serials[TRAIL_MAX]; /* of queues */
    uint8_t reasons[TRAIL_MAX];
};

struct model_message {
    uint64_t id;
    int queue;
    enum state state;
    enum reason reason;
    uint8_t retry_count, max_retries, priority;
    bool is_retry;
    bool waiting; /* pending: not ready before a tick says so */
    bool kept;    /* succeeded: its idempotency window is open */
    uint32_t deliveries;
    int64_t created_at, updated_at, next_at, expires_at, ttl_ms, idempotency_until;
    uint32_t tag;
    struct key key;
    bool is_ordered; /* it has a place among those of its key: */
    uint64_t rank;
    struct content payload, headers;
    uint8_t worker, version; /* of the last claim */
    bool has_error;
    uint32_t error_tag;
    int64_t error_at;
    uint8_t error_worker, error_version;
    size_t story;
    /* since it died: */
    bool is_alone;   /* near its limit after a lease that ran out: handed out alone */
    bool in_company; /* processing: not the only one of its claim */
    int64_t died_at, first_failed_at;
    uint64_t dead_seq;
    uint8_t death_version;
    uint32_t deliveries_before; /* it was last sent again */
    struct model_trail trail;
    uint32_t redrive_count;
    size_t group; /* place + 1, 0 = none */
    uint32_t job;
    enum job_part part;
    uint64_t edited_to, parent;
    int8_t origin; /* a queue, -1 = none */
    enum discard_reason why;
};

/* What was seen in a window of time, told apart by sixteenths of it. */
#define MODEL_PARTS 16
struct model_window {
    struct {
        int64_t number; /* of the sixteenth, since the epoch */
        uint64_t all, bad;
    } parts[MODEL_PARTS];
};

struct model_queue {
    bool exists;
    int64_t created_at;
    uint64_t serial; /* order of creation */
    struct policy policy;
    struct queue_texts texts;
    enum breaker_state breaker;
    int64_t breaker_at, breaker_until;
    uint64_t breaker_opened;
    uint32_t breaker_cause; /* a tag; of no meaning when it never opened */
    uint64_t alone_claims;
    /* Forgotten in a restart: */
    struct model_window outcomes, claims; /* bad: that failed; that were retries */
    uint64_t probes_out, probes_good;
    struct ledger ledger;
    uint64_t deliveries, failures, redriven, redriven_succeeded, redriven_died;
    uint64_t deaths_by[REASON_COUNT];
    int64_t paused_at;
    struct who paused_by;
};

struct model_key {
    int queue;
    uint8_t key;
    uint64_t id;
    int64_t until;
};

/* Deaths in one minute, or hour, of a group. */
struct model_bucket {
    int64_t number;
    uint64_t deaths;
};
#define MODEL_MINUTES 60
#define MODEL_HOURS 24

/* A cause group. How many letters are in it is not kept, but counted. */
struct model_group {
    bool exists;
    int queue;
    uint64_t key;
    /* of its first letter: */
    enum reason reason;
    bool is_explicit, has_error;
    uint32_t error_tag;
    enum group_state state;
    int64_t state_at, first_seen, last_seen, regressed_at, quiet_ms;
    uint64_t total;
    uint8_t owner, note;
    size_t version_count;
    uint8_t versions[MODEL_VERSIONS]; /* by first appearance */
    uint64_t version_total[MODEL_VERSIONS];
    size_t minute_count, hour_count;
    struct model_bucket minutes[MODEL_MINUTES], hours[MODEL_HOURS];
};

struct model_job {
    uint32_t number;
    enum job_kind kind;
    enum job_state state;
    bool selecting, sample_passed, force, is_forgotten;
    int queue, to; /* -1: all; each its own */
    uint64_t queue_serial, to_serial;
    struct letter_filter filter;
    enum patch_kind patch;
    int16_t patch_k;
    uint64_t fence, rate_milli;
    uint32_t sample, stop_if_ppm;
    enum discard_reason why;
    struct who who;
    int64_t created_at, changed_at, ended_at;
    struct job_counts counts;
    uint64_t sent, redriven_before, at_limit;
    uint64_t version_total[MODEL_VERSIONS];
    uint64_t succeeded_before, died_before; /* what the share of stop_if leaves out */
    int64_t reached_at;                     /* selection has come to this place */
    uint64_t reached_seq;
    int64_t due_ns;                   /* by its rate, the next letter goes at this time or later */
    bool is_restarted, may_be_loaded; /* it begins anew */
    bool target_gone; /* what it stopped for; else for the share of those that died again */
    /* Within a tick: */
    bool acts;         /* it may send */
    bool adopts;       /* selects beside others: its counts are taken from the engine */
    bool has_selected; /* selection came to its end */
    uint64_t went;     /* letters, by its doing */
    uint64_t sent_before;
    struct letter_place last; /* of those that went */
};

struct model_audit {
    int64_t at;
    uint64_t count, target;
    enum audit_action action;
    int8_t queue; /* -1 = none */
    struct who who;
    struct letter_filter scope;
};

struct model {
    uint64_t next_id, next_serial, next_dead_seq;
    int64_t latest; /* the latest time any operation had */
    struct model_queue queues[MODEL_QUEUES];
    struct ledger deleted, dropping; /* of deleted queues: gone, and on their way out */
    uint64_t dropping_messages;
    size_t message_count, key_count, group_count, job_count;
    uint64_t audit_count;                          /* since ever: the number of the newest */
    struct model_message messages[MODEL_MESSAGES]; /* by id */
    struct model_key keys[MODEL_KEYS];
    struct model_group groups[MODEL_GROUPS];
    struct model_job jobs[MODEL_JOBS];     /* number i + 1 */
    struct model_audit audit[MODEL_AUDIT]; /* number i at i % MODEL_AUDIT */
    struct model_story stories[MODEL_MESSAGES];
    size_t free_stories[MODEL_MESSAGES], free_story_count;
};

void model_init(struct model *m);
/* What is in use of it: most of it is not. */
void model_copy(struct model *to, const struct model *from);

/* Applies an operation. With an engine: it has just done the same, and choices are looked up there
 * (which items it called duplicates stands in ret->duplicates, what was imported in ret->imported);
 * without: as remembered in op. A choice that is not allowed is said in `wrong` (its size
 * `wrong_bytes`), which stays empty otherwise. */
void model_apply(struct model *m, struct op *op, struct engine *look, struct outcome *ret,
                 char *wrong, size_t wrong_bytes);

/* What a restart changes: who waits is decided anew from times, rates begin anew. */
void model_restart(struct model *m);

/* Pending messages of an ordered queue may have to wait behind another of their key. */
enum standing { GOES, HELD, PARKED };
enum standing model_standing(const struct model *m, const struct model_message *x);
/* As the message is shown: parked, too. */
enum state model_state(const struct model *m, const struct model_message *x);
/* The dead letter is the head of its key: later ones are parked until something is done about it. */
bool model_parks(const struct model *m, const struct model_message *x);

struct model_message *model_find(struct model *m, uint64_t id); /* NULL when it is gone */
uint64_t model_unfinished(const struct model *m, int queue);    /* without the dead */
uint64_t model_dead(const struct model *m, int queue);          /* -1: of all */
struct model_job *model_job(struct model *m, uint32_t number);  /* NULL = none */
bool model_job_has_ended(const struct model_job *j);
uint64_t model_active_jobs(const struct model *m);
bool model_matches(const struct model *m, const struct letter_filter *f, int64_t parsed_at,
                   const struct model_message *x);
/* Makes the job of the operation, as far as its selection, in a model that is not needed any more. */
const struct model_job *model_plan(struct model *m, struct op *op);

/* -- compared (compare.c, compare_letters.c) ------------------------------------------------------ */

/* Compares all there is to see of one queue but its messages / of one message / of all. False with
 * the first difference in text. `ready` false: leaves out what a tick that found no room left open. */
bool model_same_queue(const struct model *m, struct engine *e, int queue, bool ready, char *text,
                      size_t text_bytes);
bool model_same_message(const struct model *m, struct engine *e, const struct model_message *want,
                        bool story, char *text, size_t text_bytes);
/* The cheap part, after each operation: numbers given out, the jobs that are not over. */
bool model_same_counters(const struct model *m, struct engine *e, char *text, size_t text_bytes);
/* The newest n entries of the audit. */
bool model_same_audit(const struct model *m, struct engine *e, size_t n, char *text,
                      size_t text_bytes);
/* One cause group. */
bool model_same_group(const struct model *m, struct engine *e, int64_t now, size_t group,
                      char *text, size_t text_bytes);
bool model_same(const struct model *m, struct engine *e, int64_t now, bool ready, char *text,
                size_t text_bytes);

/* Walks over all pages of letters and compares: they are those of the model, in order. The query's
 * filter follows from `filter`, parsed at `now`; its limit stands for each page. */
bool model_same_pages(const struct model *m, struct engine *e, int64_t now, int queue,
                      const struct letter_filter *filter, const struct letter_query *query,
                      char *text, size_t text_bytes);
