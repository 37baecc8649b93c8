#include "model/triage.h"

#include <assert.h>

static int parse(struct span name, const char *const names[], int first, int count) {
    for (int i = first; i < count; i++) {
        if (span_equal_str(name, names[i]))
            return i;
    }
    return -1;
}

static const char *const group_states[GROUP_STATE_COUNT] = {
    [GROUP_OPEN] = "open", [GROUP_ACKNOWLEDGED] = "acknowledged", [GROUP_RESOLVED] = "resolved"};

const char *group_state_name(enum group_state s) {
    assert((unsigned)s < GROUP_STATE_COUNT);
    return group_states[s];
}

int group_state_parse(struct span name) {
    return parse(name, group_states, 0, GROUP_STATE_COUNT);
}

const char *job_kind_name(enum job_kind k) {
    static const char *const names[] = {
        [JOB_REDRIVE] = "redrive", [JOB_DISCARD] = "discard", [JOB_PURGE] = "purge"};
    assert(k >= JOB_REDRIVE && k <= JOB_PURGE);
    return names[k];
}

static const char *const job_states[] = {
    [JOB_SAMPLING] = "sampling", [JOB_RUNNING] = "running",     [JOB_PAUSED] = "paused",
    [JOB_STOPPED] = "stopped",   [JOB_CANCELLED] = "cancelled", [JOB_DONE] = "done"};

const char *job_state_name(enum job_state s) {
    assert(s >= JOB_SAMPLING && s <= JOB_DONE);
    return job_states[s];
}

int job_state_parse(struct span name) {
    return parse(name, job_states, JOB_SAMPLING, JOB_DONE + 1);
}

const char *job_skip_name(enum job_skip s) {
    static const char *const names[SKIP_COUNT] = {[SKIP_OTHER_JOB] = "other_job",
                                                  [SKIP_REDRIVE_LIMIT] = "redrive_limit",
                                                  [SKIP_EDITED] = "edited",
                                                  [SKIP_REPLAYED] = "replayed",
                                                  [SKIP_UNPATCHABLE] = "unpatchable"};
    assert((unsigned)s < SKIP_COUNT);
    return names[s];
}

uint64_t job_skipped(const struct job_counts *c) {
    uint64_t sum = 0;
    for (int i = 0; i < SKIP_COUNT; i++)
        sum += c->skipped[i];
    return sum;
}

bool job_counts_hold(const struct job_counts *c) {
    return c->selected ==
           c->succeeded + c->died_again + c->open + c->discarded + job_skipped(c) + c->remaining;
}

static const char *const audit_actions[AUDIT_ACTION_COUNT] = {
    [0] = "",
    [AUDIT_REPLAY] = "replay",
    [AUDIT_EDIT] = "edit",
    [AUDIT_DISCARD] = "discard",
    [AUDIT_UNDISCARD] = "undiscard",
    [AUDIT_IMPORT] = "import",
    [AUDIT_GROUP] = "group",
    [AUDIT_JOB_CREATED] = "job_created",
    [AUDIT_JOB_CHANGED] = "job_changed",
    [AUDIT_JOB_DONE] = "job_done",
    [AUDIT_QUEUE_CREATED] = "queue_created",
    [AUDIT_QUEUE_CHANGED] = "queue_changed",
    [AUDIT_QUEUE_DELETED] = "queue_deleted",
    [AUDIT_QUEUE_PAUSED] = "queue_paused",
    [AUDIT_QUEUE_RESUMED] = "queue_resumed",
    [AUDIT_POLICY_CHANGED] = "policy_changed",
    [AUDIT_POLICY_DELETED] = "policy_deleted",
    [AUDIT_VHOST_CHANGED] = "vhost_changed",
};

const char *audit_action_name(enum audit_action a) {
    assert(a > 0 && a < AUDIT_ACTION_COUNT);
    return audit_actions[a];
}

int audit_action_parse(struct span name) {
    return parse(name, audit_actions, 1, AUDIT_ACTION_COUNT);
}
