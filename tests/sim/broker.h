/* What a broker should do: exchanges, bindings, policies by pattern, queues with their settings, and
 * the ways of messages through them, as naively as it can be said: arrays and linear scans, nothing
 * derived is kept, routes are found by walking. No cause groups, stories, orders, jobs: those are the
 * other model's (model.h).
 *
 * What the engine is free to choose is the order in which things happen that are due at once: who of
 * several expires first, which of two queues that are too long loses its head first, which of several
 * exchanges deletes itself first. That order is read from its log (broker_look.c) and kept with the
 * operation as its doings; that each of them was allowed, what came of it, and that none is missing,
 * is the model's. */
#pragma once

#include "engine/topology.h"
#include "log/record.h"
#include "sim/broker_content.h"

#define BROKER_QUEUES 64
#define BROKER_EXCHANGES 64
#define BROKER_BINDINGS 512
#define BROKER_POLICIES 16
#define BROKER_BATCH 8
#define BROKER_KEYS 6

/* -- operations ---------------------------------------------------------------------------------- */

enum broker_op_kind {
    BROKER_VHOST,
    BROKER_EXCHANGE,
    BROKER_EXCHANGE_DELETE,
    BROKER_BIND,
    BROKER_UNBIND,
    BROKER_DECLARE,
    BROKER_QUEUE_PUT,
    BROKER_QUEUE_DELETE,
    BROKER_PURGE,
    BROKER_POLICY,
    BROKER_POLICY_DELETE,
    BROKER_PUBLISH,
    BROKER_ENQUEUE,
    BROKER_CLAIM,
    BROKER_SETTLE,
    BROKER_REPLAY,
    BROKER_DISCARD,
    BROKER_EDIT,
    BROKER_JOB,
    BROKER_TICK,
    BROKER_BEGIN,
    BROKER_OPS
};

/* What the engine did of itself, in order. */
enum doing_kind {
    DOING_DIES,    /* in the course of a verb */
    DOING_EXPIRES, /* a time to live */
    DOING_LENGTH,  /* the head of a queue that is too long dies */
    DOING_LEASE,   /* a lease ends: it fails */
    DOING_SENT,    /* a letter, by its job */
    DOING_EXCHANGE_GONE,
    DOING_WAIT_ENDS, /* looked for with a full disk only */
};
struct doing {
    enum doing_kind kind;
    uint64_t id;
    unsigned frame; /* of the operation */
    bool is_death;  /* else it goes on waiting */
    bool went;      /* dead, and on to other queues */
    bool is_taken;  /* the model did it, too */
};

struct broker_item {
    /* enqueue */
    uint32_t tag, bytes;
    uint8_t headers, priority;
    int64_t delay_ms, ttl_ms;
    /* settle */
    enum settle_action action;
    uint64_t id;
    uint32_t lease;
    int64_t lease_ms;
    bool permanent, tells;
};

struct broker_exchange {
    uint64_t number; /* order of creation */
    struct place name;
    enum exchange_type type;
    bool durable, auto_delete, internal;
    int alternate; /* a text */
    bool has_lost; /* a binding, in this operation */
};

struct broker_binding {
    uint64_t from, to; /* numbers */
    bool to_exchange;
    uint8_t key, arguments;
};

struct broker_policy {
    uint8_t vhost, name, pattern;
    enum policy_applies applies;
    int priority;
    struct settings settings;
};

struct broker_declare {
    bool durable, exclusive, auto_delete, is_quorum;
    struct settings settings;
};

/* What a queue is given by HTTP; texts of its policy but the target are none. */
struct broker_native {
    struct policy policy;
    int target; /* a text: a queue of the vhost "/"; NO_TEXT */
};

struct broker_op {
    enum broker_op_kind kind;
    int64_t now;
    struct place name, to;
    struct broker_exchange exchange;
    bool to_exchange, has_to, if_unused, discard, force, clear_deaths, has_payload, has_headers;
    uint8_t arguments, headers, priority;
    struct broker_declare declare;
    struct broker_policy policy;
    struct broker_native native;
    uint8_t key_count, bcc_count, keys[BROKER_KEYS]; /* bind: the first */
    uint32_t tag, bytes;
    int64_t expiration_ms;
    size_t n;
    struct broker_item items[BROKER_BATCH];
    struct claim claim;
    uint64_t id;
    bool full;           /* the disk was: not all may have been done */
    enum err error;      /* what the engine said, where only it can know (ERR_DISK_FULL) */
    uint64_t begin, end; /* positions in the log */
    unsigned limit;      /* frames of it to apply; UINT32_MAX = all */
    unsigned frames;     /* it had, as the model has it */
    struct doing *doings;
    size_t doing_count, doing_cap;
};

struct broker_reply {
    enum err error;
    size_t n;
    uint64_t ids[BROKER_BATCH]; /* also: how many were purged */
    enum err results[BROKER_BATCH];
    bool created;
    unsigned queues, refused;
};

/* -- the model ----------------------------------------------------------------------------------- */

struct broker_death {
    uint8_t queue; /* a text; so below */
    enum reason reason;
    bool is_first;
    uint32_t count;
    int64_t at;
    uint8_t exchange, key_count, keys[BROKER_KEYS];
    int64_t expiration_ms; /* -1 = none */
};

struct broker_envelope {
    bool is_there;
    uint8_t exchange, key_count, bcc_count, keys[BROKER_KEYS];
    uint8_t priority; /* in its properties; 0 = there are none */
    int64_t expiration_ms;
    size_t death_count;
    struct broker_death deaths[ENVELOPE_DEATHS];
};

/* Where it was dead-lettered from, and why. */
struct broker_trail {
    size_t n;
    uint64_t queues[TRAIL_MAX];
    enum reason reasons[TRAIL_MAX];
};

struct broker_message {
    uint64_t id, arrival;
    uint64_t queue; /* number */
    enum state state;
    enum reason reason;
    bool is_unroutable, is_retry, is_alone, in_company;
    bool waiting;        /* pending: not ready before a tick says so */
    bool behind;         /* a job sent it: all others go first */
    uint64_t remains_in; /* the job that is to send it, 0 = none */
    uint64_t sent_by;    /* the last one that did */
    uint8_t retry_count, max_retries, priority, headers;
    uint32_t deliveries, deliveries_before, redrive_count;
    int64_t created_at, updated_at, next_at, expires_at, ttl_ms, died_at;
    uint32_t tag, bytes;
    bool has_origin;
    struct place origin;
    struct broker_trail trail;
    /* Its story tells so many moves for a death, and the last one: */
    uint32_t moves;
    struct place moved_from, moved_to;
    struct broker_envelope envelope;
    uint64_t parent, edited_to; /* ids; 0 = none */
    uint64_t changed;           /* the operation that did it last */
};

struct broker_queue {
    uint64_t number; /* order of creation */
    struct place name;
    int64_t created_at;
    struct broker_native native;
    bool is_declared;
    struct broker_declare declare;
    struct ledger ledger;
    uint64_t deliveries, failures, redriven, expired, max_length;
    uint64_t deaths_by[REASON_COUNT];
};

/* A redrive. */
struct broker_job {
    uint64_t number;
    bool has_to, clear_deaths;
    uint64_t to; /* a queue's number */
};
#define BROKER_JOBS 64 /* remembered, the newest */

struct broker {
    uint64_t next_id, next_queue, next_exchange;
    uint64_t operations;
    struct ledger deleted, dropping; /* of deleted queues: gone, and on their way out */
    size_t queue_count, exchange_count, binding_count, policy_count, message_count, message_cap;
    struct broker_queue queues[BROKER_QUEUES]; /* all in order of creation */
    struct broker_exchange exchanges[BROKER_EXCHANGES];
    struct broker_binding bindings[BROKER_BINDINGS];
    struct broker_policy policies[BROKER_POLICIES];
    uint64_t job_count; /* since ever */
    struct broker_job jobs[BROKER_JOBS];
    struct broker_message *messages; /* in no order */
};

void broker_init(struct broker *b);
void broker_release(struct broker *b);
void broker_copy(struct broker *to, const struct broker *from);
/* Applies an operation that the engine did, too. What was not allowed is said in `wrong`, which stays
 * empty otherwise. Only op->limit frames of it; op->frames are how many there were. */
void broker_apply(struct broker *b, struct broker_op *op, struct broker_reply *ret, char *wrong,
                  size_t wrong_bytes);
/* What a restart changes: who waits is decided anew from times. */
void broker_restart(struct broker *b);

struct broker_queue *broker_queue_at(struct broker *b, struct place name);
struct broker_queue *broker_queue_of(struct broker *b, uint64_t number);
struct broker_exchange *broker_exchange_at(struct broker *b, struct place name);
struct broker_exchange *broker_exchange_of(struct broker *b, uint64_t number);
struct broker_message *broker_find(struct broker *b, uint64_t id); /* NULL when it is gone */
bool broker_has_vhost(struct broker *b, unsigned vhost);
/* The settings that hold, and by which policy; *ret_policy NULL = none. */
struct settings broker_settings(struct broker *b, const struct broker_queue *q,
                                const struct broker_policy **ret_policy);
/* The alternate exchange that holds: a text. */
int broker_alternate(struct broker *b, const struct broker_exchange *x);
bool broker_is_ready(const struct broker_message *x);
uint64_t broker_ready(const struct broker *b, const struct broker_queue *q);

/* -- routing (broker_route.c) ---------------------------------------------------------------------- */

struct broker_keys {
    const uint8_t *keys;
    size_t n;
    uint8_t headers;                      /* a table */
    const struct broker_envelope *deaths; /* NULL = none */
};
/* The numbers of the queues, in order of creation; how many. */
size_t broker_route(struct broker *b, const struct broker_exchange *x, const struct broker_keys *m,
                    uint64_t ret[static BROKER_QUEUES]);

/* -- compared (broker_compare.c): false with the first difference in text ----------------------------- */

bool broker_same_topology(struct broker *b, struct engine *e, char *text, size_t text_bytes);
bool broker_same_queues(struct broker *b, struct engine *e, char *text, size_t text_bytes);
/* What stands in it, in order of arrival. */
bool broker_same_list(struct broker *b, struct engine *e, const struct broker_queue *q, char *text,
                      size_t text_bytes);
bool broker_same_message(struct broker *b, struct engine *e, const struct broker_message *want,
                         char *text, size_t text_bytes);
bool broker_same(struct broker *b, struct engine *e, char *text, size_t text_bytes);
