/* The doctor: what of a queue's policy and state is likely to hurt, said with numbers and with what
 * to do about it. Pure checks over facts that the caller gathered: of a running server, or of the
 * policies in a file. It changes nothing. Any thread. */
#pragma once

#include "model/policy.h"
#include "model/triage.h"

#define DOCTOR_VERSIONS 16
#define DOCTOR_ATTEMPT_BUCKETS 32

enum severity { SEVERITY_INFO, SEVERITY_WARN, SEVERITY_CRITICAL };
#define SEVERITY_COUNT 3
const char *severity_name(enum severity s);
int severity_parse(struct span name); /* -1 when it is none */

struct finding {
    const char *code; /* "D04"; the table is in docs/doctor.md */
    enum severity severity;
    struct span queue; /* empty: it is about the server */
    struct span fact;  /* a sentence, with the numbers */
    struct span fix;   /* a command, or a change of the policy */
};
/* The spans live for the call. */
typedef void doctor_found(void *ctx, const struct finding *finding);

/* How a queue's dead_target stands. */
enum doctor_target {
    TARGET_FINE,     /* or there is none, or nothing is known of it */
    TARGET_MISSING,  /* no such queue */
    TARGET_REFUSES,  /* its allow_from does not name this queue */
    TARGET_MOVES_ON, /* what dies there is moved to another queue */
    TARGET_PAUSED    /* it is there, and its claims get nothing */
};

/* Of the cause groups of one queue, gathered by doctor_add_group; begins as {0}. */
struct doctor_letters {
    uint64_t groups, letters;
    uint64_t fallible, unnamed; /* letters that a worker failed; of them without an error class */
    uint64_t waiting_groups, waiting_letters; /* open and unacknowledged for too long */
    int64_t waiting_since;                    /* of the longest */
    size_t version_count;
    struct {
        char name[LIMIT_WORKER];
        size_t name_bytes;
        uint64_t letters;
    } versions[DOCTOR_VERSIONS];
};
struct doctor_group {
    enum group_state state;
    enum reason reason;
    bool has_error_class;
    uint64_t letters;   /* dead now */
    int64_t first_seen; /* its first letter */
    int64_t state_at;   /* since when it is in this state, 0 = from the first letter on */
};
void doctor_add_group(struct doctor_letters *l, const struct doctor_group *g, int64_t now);
/* Letters of the group just added that workers of this version failed. Give the largest groups
 * first: further versions than DOCTOR_VERSIONS are not told apart. */
void doctor_add_version(struct doctor_letters *l, struct span version, uint64_t letters);

/* The newest letters of a queue, by their keys; begins as {0}. */
#define DOCTOR_KEYS 32
struct doctor_keys {
    size_t looked_at; /* letters, at most DOCTOR_KEYS */
    size_t count;     /* keys among them */
    struct {
        char name[LIMIT_KEY];
        size_t name_bytes;
        uint64_t letters;
    } keys[DOCTOR_KEYS];
};
/* The next newest letter; its key may be empty. */
void doctor_add_key(struct doctor_keys *k, struct span key);

/* A redrive out of the queue that has not ended, when the queue that gets its letters takes none. */
struct doctor_redrive {
    uint32_t number; /* 0 = there is none */
    bool is_missing; /* else that queue is paused */
    struct span to;
};

/* Of a running queue. */
struct doctor_state {
    int64_t now;
    int64_t newest_at; /* the latest time that is known of the queue */
    uint64_t ready;
    int64_t asked_at; /* a worker last asked for work; or start of the server, or of the queue */
    bool is_asked;    /* a worker waits for work right now */
    bool is_paused;
    int64_t soonest_expiry; /* 0 = never */
    /* of attempts: [n] took up to 2^n ms; DOCTOR_ATTEMPT_BUCKETS, or NULL */
    const uint64_t *durations;
    uint64_t at_limit;    /* letters sent again as often as redrive_limit allows; as counted */
    bool at_limit_is_all; /* else there may be more */
    struct doctor_letters letters;
    const struct doctor_keys *keys; /* NULL: not looked at */
    struct doctor_redrive redrive;
};

struct doctor_queue {
    struct span name;
    const struct policy *policy;
    const struct policy_texts *texts;
    enum doctor_target target;
    /* Another queue with the same target, whose owner is another; empty when there is none. */
    struct span sharer, sharer_owner;
    const struct doctor_state *state; /* NULL: only its policy is known */
};

/* How long a message is retried: the sum of its waits, with jitter their mean. */
int64_t doctor_horizon_ms(const struct policy *p);

void doctor_check_queue(const struct doctor_queue *q, doctor_found *found, void *ctx);

struct doctor_server {
    bool is_disk_full;
    bool is_open_to_all;     /* no token is asked for, and not only this machine can reach it */
    int64_t clock_behind_ms; /* the system's clock went back so far since the start */
    uint64_t audit_entries;  /* kept, of LIMIT_AUDIT */
};
void doctor_check_server(const struct doctor_server *s, doctor_found *found, void *ctx);
