/* The words of work on dead letters: cause groups, jobs, the audit. Plain enums, structs and names;
 * nothing that acts. Any thread. */
#pragma once

#include "base/json.h"
#include "model/message.h"

struct field_errors; /* model/fields.h */

/* -- who and why ----------------------------------------------------------------------------- */

/* Of every change by a person. Borrowed for the call; cut to LIMIT_ACTOR and LIMIT_AUDIT_REASON. */
struct act {
    struct span actor;
    struct span reason; /* free text, or empty */
};

/* -- cause groups ---------------------------------------------------------------------------- */

/* Stored in the log by number: append only. */
enum group_state { GROUP_OPEN = 0, GROUP_ACKNOWLEDGED = 1, GROUP_RESOLVED = 2 };
#define GROUP_STATE_COUNT 3
const char *group_state_name(enum group_state s);
int group_state_parse(struct span name); /* -1 when it is none */

/* -- jobs ------------------------------------------------------------------------------------ */

/* Stored in the log by number: append only. */
enum job_kind {
    JOB_REDRIVE = 1, /* sends letters again, or changed copies of them */
    JOB_DISCARD = 2, /* discards them; can be undone for a day */
    JOB_PURGE = 3,   /* discards all of a queue's for good */
};
const char *job_kind_name(enum job_kind k);

/* Stored in the log by number: append only.
 *
 *   SAMPLING --outcomes good--> RUNNING --nothing remains or is open--> DONE
 *      |  \--too many died-->STOPPED<--too many died--/
 *      +-- any of them <--pause, resume--> PAUSED; any that is not DONE --cancel--> CANCELLED */
enum job_state {
    JOB_SAMPLING = 1,
    JOB_RUNNING = 2,
    JOB_PAUSED = 3,
    JOB_STOPPED = 4, /* by itself; resuming goes on */
    JOB_CANCELLED = 5,
    JOB_DONE = 6,
};
const char *job_state_name(enum job_state s);
int job_state_parse(struct span name); /* -1 when it is none */

/* Why a letter that was selected was not sent. Stored in the log by number: append only. */
enum job_skip {
    SKIP_OTHER_JOB = 0,     /* another job had taken it */
    SKIP_REDRIVE_LIMIT = 1, /* redriven as often as its queue allows */
    SKIP_EDITED = 2,        /* an edited copy was sent in its place */
    SKIP_REPLAYED = 3,      /* a person replayed it before its turn came */
    SKIP_UNPATCHABLE = 4,   /* its payload is no JSON, or the path leads nowhere */
};
#define SKIP_COUNT 5
const char *job_skip_name(enum job_skip s);

/* selected = succeeded + died_again + open + discarded + skipped[..] + remaining, at every instant */
struct job_counts {
    uint64_t selected, succeeded, died_again, open, discarded, remaining;
    uint64_t skipped[SKIP_COUNT];
};
uint64_t job_skipped(const struct job_counts *c); /* the sum */
bool job_counts_hold(const struct job_counts *c);

/* -- patches: what a job or an edit changes in a letter's copy ------------------------------- */

/* The form of docs/http-api.md: [{"op": "set", "path": "payload.customer.id", "value": 7}, ...].
 * Checked when the job is made (patch_check), kept as text, applied letter by letter. */

/* Adds errors about `patch` (any JSON value) under `field`. */
void patch_check(const struct json *patch, const char *field, struct field_errors *errors);
/* Applies a checked patch (as JSON text) to headers and payload; the results replace the two
 * buffers. ERR_INVALID: the payload is no JSON, or a path leads nowhere. */
enum err patch_apply(struct span patch, struct span headers, struct span payload,
                     struct buf *ret_headers, struct buf *ret_payload) MUST_CHECK;

/* -- the audit ------------------------------------------------------------------------------- */

/* Stored in the log by number: append only. */
enum audit_action {
    AUDIT_REPLAY = 1,
    AUDIT_EDIT = 2,
    AUDIT_DISCARD = 3,
    AUDIT_UNDISCARD = 4,
    AUDIT_IMPORT = 5,
    AUDIT_GROUP = 6,       /* state, owner or note changed */
    AUDIT_JOB_CREATED = 7, /* of any kind */
    AUDIT_JOB_CHANGED = 8, /* rate, stop_if, paused, resumed, cancelled, stopped by itself */
    AUDIT_JOB_DONE = 9,
    AUDIT_QUEUE_CREATED = 10, /* by a person: those that spring up on first use are traffic */
    AUDIT_QUEUE_CHANGED = 11,
    AUDIT_QUEUE_DELETED = 12,
    AUDIT_QUEUE_PAUSED = 13,
    AUDIT_QUEUE_RESUMED = 14,
    AUDIT_POLICY_CHANGED = 15, /* a policy by pattern was made or changed */
    AUDIT_POLICY_DELETED = 16,
    AUDIT_VHOST_CHANGED = 17, /* was made, or its settings changed */
};
#define AUDIT_ACTION_COUNT 18
const char *audit_action_name(enum audit_action a); /* "replay", "job_created" */
int audit_action_parse(struct span name);           /* -1 when it is none */

struct audit_entry {
    uint64_t number; /* from 1, without gaps */
    int64_t at;
    enum audit_action action;
    uint64_t count;  /* letters it is about (a job's end: sent or discarded) */
    uint64_t target; /* id of the message or job, key of the group; 0 = none */
    struct span queue;
    struct span actor;
    struct span scope;  /* the filter of a job; else empty */
    struct span reason; /* as given */
    struct span result; /* what came of it, in words */
};
