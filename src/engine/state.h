/* The state of one engine: what is in memory of queues, messages, cause groups, jobs and the audit,
 * and apply, the only code that changes it. Internal to src/engine/.
 *
 * A message is a slot of 56 bytes; what a message needs beyond that (a time, a lease, a failure)
 * sits in its `extra`, and what there is of it since it first died in its `letter`. Payloads,
 * headers and texts stay in the log. Each slot is in exactly one ordered set of its queue; the set
 * follows from its state and `aside`.
 *
 *   PENDING --claim--> PROCESSING --succeed--> SUCCEEDED --retention--> (gone)
 *      ^  ^                |  |
 *      |  +--release/fail--+  +--fail (last), permanent--> DEAD --retention, purge--> (gone)
 *      |                                                 ^  |  ^ |
 *      |           time to live ran out, from PENDING ---+  |  | +--discard--> DISCARDED --a day--> (gone)
 *      +---------------- replay, redrive -------------------+  +--undiscard--------+
 *
 * S1 count[] of a queue equals the sizes of its sets; count and open of a cause group equal the
 *    letters that name it.
 * S2 a timer exists exactly for what has a time.
 * S3 what is counted in a ledger, a group's total or a job's counts follows from the record alone
 *    (log/record.h).
 * S4 `aside` (waiting, kept) is derived from the image and `now`: no record changes it, and it is
 *    not part of the checksum.
 * S5 the counts of a job add up after every frame (job_counts_hold); what remains in it is exactly
 *    the dead letters that say so. */
#pragma once

#include "base/hash.h"
#include "base/hash_index.h"
#include "base/rng.h"
#include "base/timers.h"
#include "engine/engine.h"
#include "log/record.h"
#include "model/expression.h"
#include "model/rules.h"

struct slot {
    uint64_t id : 53;
    uint64_t state : 3;
    uint64_t priority : 4;
    /* pending: waits for its time; succeeded: kept for its idempotency key */
    uint64_t aside : 1;
    /* ready: redriven by a job that still counts on it: goes behind all others */
    uint64_t behind : 1;
    uint64_t again : 1;       /* ready: a retry */
    uint64_t held : 1;        /* pending: waits behind the head of its key */
    uint64_t updated_at : 42; /* milliseconds since the epoch: until the year 2109 */
    uint64_t deliveries : 22;
    uint64_t position8 : 56; /* of its whole image in the log, / 8 */
    uint64_t max_retries : 8;
    uint32_t bytes8; /* of that record, / 8 */
    uint32_t payload_bytes;
    uint32_t queue;       /* place in the queue table */
    uint32_t left, right; /* in its set */
    uint32_t extra;       /* 0 = none */
    uint32_t next;        /* in the chain of its id, or of the free slots */
};
#define UPDATED_AT_MOST ((UINT64_C(1) << 42) - 1)
#define POSITION8_MOST ((UINT64_C(1) << 56) - 1)
_Static_assert(sizeof(struct slot) == 56, "the memory of a pending message is a promise");

struct extra {
    int64_t next_at, expires_at, idempotency_until, first_failed_at; /* 0 = none */
    uint64_t history; /* position of the newest line of its story, 0 = none */
    uint64_t arrival; /* its place among those of its queue, 0 = its id */
    uint64_t error;   /* position of the newest failure since the last replay */
    uint32_t history_bytes;
    uint32_t timer;  /* place in the heap */
    uint32_t letter; /* 0 = none */
    uint32_t line;   /* its place in the line of its key, 0 = none */
    uint32_t next;   /* of the free ones */
    uint8_t retry_count, reason;
    bool is_retry : 1;
    bool has_story : 1; /* more happened than a claim and a success */
    bool is_alone : 1;
    bool in_company : 1;
    bool is_unroutable : 1;
};

/* A message of an ordered queue in the line of its key: while it is pending or in processing, and,
 * where later ones are parked, while it is dead. Derived from the images. */
struct line_place {
    uint64_t key, rank; /* as in its image */
    uint32_t slot;
    uint32_t line;           /* 0 = it is in none now */
    uint8_t counted_as;      /* enum state, as its line counts it; STATE_COUNT = not at all */
    uint32_t before, behind; /* in the line; of the free ones: behind */
};

/* All messages of one key: the first is the head, the others wait. */
struct line {
    uint64_t key;
    uint32_t queue;
    uint32_t first, last;
    uint64_t pending, processing; /* how many of them are */
    bool is_parked;               /* the head is dead */
    uint32_t next;                /* in the chain of the index, or of the free ones */
};

struct letter {
    int64_t died_at;
    uint64_t dead_seq;
    uint64_t edited_to;
    uint32_t slot;
    uint32_t left, right; /* among the dead of its group, by (died_at, dead_seq); free ones: left */
    uint32_t group;       /* place, 0 = none */
    uint32_t job;         /* number */
    uint32_t deliveries_before;
    uint16_t redrive_count;
    uint8_t version;
    uint8_t job_part;
};

enum set {
    SET_READY,   /* pending, by (priority, id) */
    SET_WAITING, /* pending, for a time */
    SET_PROCESSING,
    SET_SUCCEEDED,
    SET_KEPT, /* succeeded, for its idempotency key */
    SET_DEAD,
    SET_PARKED,
    SET_DISCARDED,
    SET_HELD, /* pending, behind the head of its key */
    SET_COUNT,
};

/* A known idempotency key. */
struct idempotency {
    struct hash128 hash; /* of queue and key */
    uint64_t id;         /* 0 = a newer entry took its place */
    int64_t until;
    uint32_t next_of_chain, next_of_queue; /* next_of_queue also links the free ones */
};

/* A cause group. Without an image (while the log is read) its position is 0. */
struct group {
    uint32_t place, number;
    uint32_t queue;            /* place */
    struct record_group image; /* its spans point into texts */
    char *texts;               /* owner of all of them */
    /* letters dead now; sent again, outcome unknown; discarded, but not yet gone */
    uint64_t count, open, discarded;
    uint64_t version_count[GROUP_VERSIONS_STORED]; /* dead now */
    uint32_t letters;                              /* root of its dead */
    uint64_t position;
    size_t image_bytes;
    uint32_t next_by_number, next_by_key;
    uint32_t next_of_queue, previous_of_queue; /* places */
};

/* A job. Without an image (while the log is read) its kind is 0. */
struct job {
    uint32_t number;
    struct record_job image; /* its spans point into texts */
    char *texts;
    uint64_t position;
    size_t image_bytes;
    uint32_t timer;
    /* -- not durable: found again after a restart */
    uint64_t *ids; /* of letters selected, in the order of going; those before `next` have gone */
    size_t id_count, id_cap, next;
    bool is_loaded;        /* ids is complete as far as selection went */
    struct filter *filter; /* NULL: not parsed yet, or all */
    int64_t due_ns;        /* rate: when the next letter is due, nanoseconds since the epoch */
};

/* What a queue's guards have seen lately. Not durable: after a restart they look anew. */
#define GUARD_BUCKETS 16
struct guard {
    /* outcomes of the breaker's window, claims and retries of the budget's, by time */
    int64_t outcome_at[GUARD_BUCKETS], claim_at[GUARD_BUCKETS];
    uint32_t succeeded[GUARD_BUCKETS], failed[GUARD_BUCKETS];
    uint32_t claims[GUARD_BUCKETS], retries[GUARD_BUCKETS];
    uint32_t probes_out, probes_good; /* half open */
    uint64_t durations[32];           /* of attempts: 2^n milliseconds, since the start */
};

/* A worker version that asked for work lately. */
struct claimer {
    int64_t at; /* 0 = unused */
    uint8_t bytes;
    char version[LIMIT_WORKER];
};
#define CLAIMERS 16

/* What AMQP has to say of a queue; only of those that it declared, or that a policy by pattern
 * matches, or that discarded something for their settings. */
struct queue_amqp {
    struct record_queue_amqp image; /* its spans point into the queue's texts_memory */
    /* derived: the arguments' with those of the policy that matches */
    struct queue_settings effective; /* the policy's texts are the policy's */
    uint32_t pattern;                /* number of that policy, 0 = none */
    bool keeps;                      /* what would be discarded rests as a dead letter */
};

struct queue {
    uint32_t place;  /* in the queue table */
    uint64_t number; /* for ever its own */
    char *name;      /* NULL until its image was read */
    size_t name_bytes;
    uint32_t next_by_number, next_by_name;
    uint32_t older, newer; /* in order of creation */
    bool dropping, on_woken_list;
    bool on_over_list;       /* to be looked at for its length */
    bool on_expires_list;    /* its time to live without a use has changed */
    uint32_t routed;         /* the routing that found it last (route.c) */
    struct queue_amqp *amqp; /* or NULL */
    int64_t created_at;
    struct policy policy;
    struct ledger ledger;
    uint64_t deliveries, failures;
    uint64_t deaths_by[REASON_COUNT];
    uint64_t redriven, redriven_succeeded, redriven_died;
    int64_t paused_at;
    char *pause_texts; /* by, then reason */
    uint32_t paused_by_bytes, pause_reason_bytes;
    struct policy_texts texts; /* in texts_memory */
    char *texts_memory;
    struct rules *rules;
    enum breaker_state breaker;
    int64_t breaker_at, breaker_until;
    uint64_t breaker_opened;
    struct span breaker_cause; /* in texts_memory */
    uint64_t alone_claims;
    uint64_t held, parked, parked_keys; /* pending behind a head; of them, behind a dead one */
    struct guard *guard;                /* what was seen lately; not durable; NULL = nothing */
    uint64_t dead_by[REASON_COUNT];     /* now */
    uint32_t first_group;               /* place */
    struct claimer *claimers;           /* CLAIMERS, or NULL */
    int64_t claimed_at;                 /* since the start */
    uint64_t count[STATE_COUNT];
    uint64_t ready, ready_again; /* ready_again: of them, in the lines of retries */
    uint64_t bytes[STATE_COUNT]; /* of payloads */
    uint64_t ready_bytes;        /* the same, of those that are ready */
    uint32_t sets[SET_COUNT];
    uint32_t timer; /* retention and idempotency: when upkeep is due */
    /* Retention walks over the succeeded messages now and then: */
    int64_t trim_at;      /* when the next walk begins, or goes on */
    uint64_t trim_after;  /* the id it has reached */
    int64_t trim_next_at; /* the earliest end of retention among those it left */
    /* The same over the dead letters, group by group, each by (died_at, dead_seq): */
    int64_t dead_trim_at;      /* when a dead letter's retention may be over */
    int64_t dead_trim_next_at; /* the earliest end of retention among those it left */
    uint32_t dead_trim_group;  /* the place it has reached, 0 = none: it begins */
    uint32_t dead_trim_groups; /* that it has seen */
    struct letter_place dead_trim_after;
    uint32_t keys_oldest, keys_newest; /* idempotency entries in order of arrival */
    uint64_t position;                 /* of its image in the log, 0 = none */
    size_t image_bytes;
    unsigned watchers;
    struct queue *next_woken;
};

/* An exchange. Without an image (while the log is read) its position is 0. */
struct exchange {
    uint32_t place;
    uint64_t number;
    struct record_exchange image; /* its spans point into texts */
    char *texts;
    bool is_default; /* bound to every queue of its vhost by the queue's name */
    /* derived: its own alternate exchange or a policy's; the name within the vhost */
    bool has_alternate;
    struct span alternate;
    uint32_t first, last; /* places of the bindings from it, in order of creation */
    uint64_t from, to;    /* how many there are from it, and to it */
    uint64_t losing;      /* of those from it, while a verb looks what it takes; else 0 */
    uint32_t routed;      /* the routing that came by last */
    uint64_t position;
    size_t image_bytes;
    uint32_t next_by_number, next_by_name;
};

struct binding {
    uint64_t number;
    uint64_t destination; /* number */
    uint32_t source, to;  /* places; to: of a queue or an exchange */
    bool to_exchange;
    bool is_keyed;      /* it is in the index by key */
    uint32_t key_bytes; /* texts: the key, then the arguments */
    uint32_t arguments_bytes;
    uint32_t image_bytes;
    uint64_t position;
    char *texts;
    struct json *wanted; /* the arguments, parsed when first asked for */
    uint32_t next, previous;
    uint32_t next_by_number, next_by_key, next_by_identity, next_by_destination;
};

/* A policy by pattern. */
struct pattern {
    uint32_t number;
    struct record_pattern image; /* its spans point into texts */
    char *texts;
    struct expression *expression; /* NULL: matches nothing */
    struct json *definition;       /* owner of the settings' texts */
    struct queue_settings settings;
    uint64_t position;
    size_t image_bytes;
};

/* Exchanges and bindings by place (0 is unused), policies in order of creation. */
struct topology {
    uint64_t next_exchange, next_binding;
    uint32_t next_pattern;
    struct exchange **exchanges;
    uint32_t exchange_count, exchange_cap, live_exchanges;
    uint32_t *free_exchanges;
    uint32_t free_exchange_count;
    struct binding **bindings;
    uint32_t binding_count, binding_cap, live_bindings;
    uint32_t *free_bindings;
    uint32_t free_binding_count;
    struct hash_index exchanges_by_number, exchanges_by_name;
    /* by key: of direct exchanges only */
    struct hash_index bindings_by_number, bindings_by_key, bindings_by_identity,
        bindings_by_destination;
    struct expression_memory expression_memory;
    struct pattern **patterns;
    uint32_t pattern_count, pattern_cap;
    uint32_t routing; /* the number of the last one */
    /* Queues (by number) that may be longer than their settings say: to be looked at. */
    uint64_t *over;
    size_t over_count, over_cap;
    uint64_t *expires; /* queues (by number) whose time to live without a use has changed */
    size_t expires_count, expires_cap;
};

/* Where the entries of the audit lie: numbers first..first + count - 1. */
struct audit_place {
    uint64_t position; /* 0 = not seen yet (while the log is read) */
    uint32_t bytes;
};
struct audit_index {
    struct audit_place *places; /* a ring of cap */
    uint64_t first;
    size_t count, cap, begin; /* begin: where `first` is in the ring */
};

struct engine_state {
    uint64_t next_id, next_queue, next_dead_seq, next_audit;
    uint32_t next_group, next_job;
    struct ledger deleted;
    uint64_t engine_position;
    size_t engine_bytes;

    struct slot **slot_pages;
    uint32_t slot_count, free_slot;
    uint64_t messages;
    struct hash_index by_id;

    struct extra **extra_pages;
    uint32_t extra_count, free_extra;

    struct letter **letter_pages;
    uint32_t letter_count, free_letter;

    struct group **groups; /* by place; 0 is unused */
    uint32_t group_count, group_cap, live_groups;
    uint64_t emptied_groups; /* how often one became empty */
    uint32_t *free_groups;
    uint32_t free_group_count, free_group_cap;
    struct hash_index groups_by_number, groups_by_key;

    struct line_place **line_place_pages;
    uint32_t line_place_count, free_line_place;
    struct line *lines;
    uint32_t line_count, line_cap, free_line;
    struct hash_index lines_by_key;

    struct job **jobs; /* by number */
    uint32_t job_count, job_cap;
    uint32_t jobs_active; /* not over */

    struct audit_index audit;

    struct topology topology;

    struct queue **queues; /* by place; 0 is unused */
    uint32_t queue_count, queue_cap, live_queues, oldest_queue, newest_queue;
    uint32_t *free_places;
    uint32_t free_place_count, free_place_cap;
    struct hash_index queues_by_number, queues_by_name;
    struct queue *woken_first, *woken_last;

    struct idempotency *keys;
    uint32_t key_count, key_cap, free_key;
    struct hash_index by_key;

    struct timers timers;
    uint64_t hash_seed;
    uint64_t live_bytes;
    /* records of messages unknown since the last RECORD_CLEANED: must be 0 when the log was read */
    uint64_t orphans;
};

void state_init(struct engine_state *st, uint64_t seed);
void state_release(struct engine_state *st);
/* What apply_engine takes back. */
struct record_engine engine_image(const struct engine_state *st);

/* -- apply: the only code that changes the durable state; decides nothing -------------------- */

void apply_engine(struct engine_state *st, const struct record_engine *r, uint64_t position,
                  size_t bytes);
void apply_queue(struct engine_state *st, const struct record_queue *r, uint64_t position,
                 size_t bytes);
void apply_queue_gone(struct engine_state *st, const struct record_queue_gone *r);
void apply_message(struct engine_state *st, const struct record_message *r, uint64_t position,
                   size_t bytes);
void apply_state(struct engine_state *st, const struct record_state *r, uint64_t position,
                 size_t bytes);
void apply_gone(struct engine_state *st, const struct record_gone *r);
void apply_group(struct engine_state *st, const struct record_group *r, uint64_t position,
                 size_t bytes);
void apply_group_gone(struct engine_state *st, uint32_t number);
void apply_job(struct engine_state *st, const struct record_job *r, uint64_t position,
               size_t bytes);
void apply_job_letters(struct engine_state *st, const struct record_job_letters *r);
void apply_job_skip(struct engine_state *st, const struct record_job_skip *r);
void apply_job_gone(struct engine_state *st, uint32_t number);
void apply_audit(struct engine_state *st, const struct audit_entry *r, uint64_t position,
                 size_t bytes);
void apply_exchange(struct engine_state *st, const struct record_exchange *r, uint64_t position,
                    size_t bytes);
void apply_exchange_gone(struct engine_state *st, uint64_t number);
void apply_binding(struct engine_state *st, const struct record_binding *r, uint64_t position,
                   size_t bytes);
void apply_binding_gone(struct engine_state *st, uint64_t number);
void apply_pattern(struct engine_state *st, const struct record_pattern *r, uint64_t position,
                   size_t bytes);
void apply_pattern_gone(struct engine_state *st, uint32_t number);
/* Any of these, from the log. */
enum err apply_topology_record(struct engine_state *st, const struct log_record *r) MUST_CHECK;
void apply_history(struct engine_state *st, const struct record_history *r, uint64_t position,
                   size_t bytes);
void apply_cleaned(struct engine_state *st);

/* Decodes a record as read from the log and applies it. ERR_CORRUPT when it makes no sense. */
enum err apply_record(struct engine_state *st, const struct log_record *r) MUST_CHECK;

/* -- messages (slots.c) ---------------------------------------------------------------------- */

struct slot *slot_at(const struct engine_state *st, uint32_t i);
uint32_t slot_find(const struct engine_state *st, uint64_t id); /* 0 = none */
uint32_t slot_new(struct engine_state *st, uint64_t id);        /* in the index by id, in no set */
void slot_free(struct engine_state *st, uint32_t i);            /* with its extra */
void slots_release(struct engine_state *st);
uint64_t slot_position(const struct slot *s);
size_t slot_record_bytes(const struct slot *s);
struct extra *extra_at(const struct engine_state *st, uint32_t i);
/* zeros when it has none */
const struct extra *slot_extra(const struct engine_state *st, const struct slot *s);
struct extra *slot_need_extra(struct engine_state *st, struct slot *s);
void slot_drop_extra(struct engine_state *st, struct slot *s);
struct letter *letter_at(const struct engine_state *st, uint32_t i);
/* NULL when it never died */
struct letter *slot_letter(const struct engine_state *st, const struct slot *s);
struct letter *slot_need_letter(struct engine_state *st, uint32_t slot);
struct message_image slot_image(const struct engine_state *st, const struct slot *s);

/* -- the dead of a cause group (dead.c), by (died_at, dead_seq) -------------------------------- */

void dead_add(struct engine_state *st, struct group *g, uint32_t i);
void dead_remove(struct engine_state *st, struct group *g, uint32_t i);
uint32_t dead_first(const struct engine_state *st, const struct group *g);
uint32_t dead_last(const struct engine_state *st, const struct group *g);
/* The nearest above, or below, a place; 0 = none. */
uint32_t dead_above(const struct engine_state *st, const struct group *g, struct letter_place p);
uint32_t dead_below(const struct engine_state *st, const struct group *g, struct letter_place p);

/* -- cause groups (group_table.c) -------------------------------------------------------------- */

struct group *group_at(const struct engine_state *st, uint32_t place);
struct group *group_by_number(const struct engine_state *st, uint32_t number); /* or NULL */
/* Of this queue (place), or of any that has a name when it is 0; NULL = none. */
struct group *group_by_key(const struct engine_state *st, uint64_t key, uint32_t queue);
/* The group a record of that queue speaks of; made without an image when it is not there yet. */
struct group *group_of_record(struct engine_state *st, uint32_t number, struct queue *q);
/* One more death at that time. */
void group_count_death(struct group *g, int64_t at, uint8_t version);
void group_window(const struct group *g, int64_t now, uint64_t *ret_hour, uint64_t *ret_day);
bool group_is_empty(const struct group *g);                  /* no letter names it */
void group_remove(struct engine_state *st, struct group *g); /* it is empty */
void groups_release(struct engine_state *st);

/* -- jobs (job_table.c) ------------------------------------------------------------------------ */

struct job *job_by_number(const struct engine_state *st, uint32_t number); /* or NULL */
struct job *job_of_record(struct engine_state *st, uint32_t number);
bool job_has_ended(const struct job *j); /* done or cancelled */
/* What an event of a message counts in its job (a function of the record alone). */
void job_count_event(struct engine_state *st, const struct record_state *r);
void job_count_gone(struct engine_state *st, const struct record_gone *r);
/* Adds a letter to those of a job that is loaded. */
void job_push_id(struct job *j, uint64_t id);
/* There may be something to decide: engine_tick looks at it. */
void job_wake(struct engine_state *st, struct job *j);
void jobs_release(struct engine_state *st);

/* -- the audit (audit_table.c) ----------------------------------------------------------------- */

const struct audit_place *audit_at(const struct engine_state *st, uint64_t number); /* or NULL */
void audit_release(struct engine_state *st);

/* -- ordered sets (sets.c): treaps through the slots' own links ------------------------------ */

void set_add(struct engine_state *st, struct queue *q, enum set set, uint32_t i);
void set_remove(struct engine_state *st, struct queue *q, enum set set, uint32_t i);
uint32_t set_first(const struct engine_state *st, const struct queue *q, enum set set);
/* Where it stands among those of its queue, within its line: its id, or where it came in later. */
uint64_t slot_arrival(const struct engine_state *st, const struct slot *s);
/* The first one whose key is above that of (line, arrival); the line counts in SET_READY only. */
uint32_t set_after(const struct engine_state *st, const struct queue *q, enum set set,
                   unsigned line, uint64_t arrival);
/* In SET_READY: 0 goes first; those behind come after all others, each by falling priority. */
#define LINES (3 * (PRIORITY_MAX + 1))
#define LINE_OF_RETRIES (PRIORITY_MAX + 1)
unsigned slot_line(const struct slot *s);

/* -- where a slot belongs (place.c): counts, sets and timers following its image ------------- */

enum set slot_set(const struct slot *s);
void slot_attach(struct engine_state *st, uint32_t i); /* by its image */
void slot_detach(struct engine_state *st, uint32_t i);
/* Pending whose time has come: it is ready from now on. Kept whose key's window is over: ordinary
 * retention. */
void slot_end_aside(struct engine_state *st, uint32_t i);
void queue_plan_upkeep(struct engine_state *st, struct queue *q);
/* A letter that died at that time is there: retention may be due for it. */
void queue_plan_dead(struct queue *q, int64_t died_at);

/* -- lines of keys (lines.c): which of an ordered queue's messages may go ---------------------- */

/* By its image, which says whether and where it stands; after slot_attach or before slot_free. May
 * hold or let go others of its key. */
void line_follow(struct engine_state *st, uint32_t slot);
/* True when the slot has to wait behind another: asked while it is attached. */
bool line_holds(const struct engine_state *st, const struct slot *s);
void line_set(struct engine_state *st, uint32_t slot, uint64_t key, uint64_t rank);
void line_clear(struct engine_state *st, uint32_t slot); /* it leaves its key for good */
struct line_place *slot_line_place(const struct engine_state *st,
                                   const struct slot *s);                        /* or NULL */
const struct line *line_of(const struct engine_state *st, const struct slot *s); /* or NULL */
void lines_release(struct engine_state *st);
/* Held, or let go: moves the slot between sets. */
void slot_set_held(struct engine_state *st, uint32_t i, bool held);

/* -- queues (queue_table.c) ------------------------------------------------------------------ */

struct queue *queue_at(const struct engine_state *st, uint32_t place);
struct queue *queue_by_number(const struct engine_state *st, uint64_t number);
struct queue *queue_by_name(const struct engine_state *st, struct span name);
struct queue *queue_new(struct engine_state *st, uint64_t number); /* nameless */
/* Copies its texts and compiles its rules. */
void queue_take_texts(struct queue *q, const struct record_queue *r);
/* The queue a record speaks of. While the log is read its image may still be to come: it is
 * nameless until then. */
struct queue *queue_of_record(struct engine_state *st, uint64_t number);
void queue_set_name(struct engine_state *st, struct queue *q, struct span name);
/* its name is free; it stays until its messages are gone */
void queue_lose_name(struct engine_state *st, struct queue *q);
/* empty; freed now, or when the last watcher leaves */
void queue_remove(struct engine_state *st, struct queue *q);
void queues_release(struct engine_state *st);
struct record_queue queue_image(const struct queue *q);

/* Tells watchers that there may be something; state_woken gives one such queue back, NULL when
 * there is none. */
void queue_wake(struct engine_state *st, struct queue *q);
struct queue *state_woken(struct engine_state *st);
void queue_unwatch(struct queue *q);

/* -- exchanges, bindings, policies by pattern (topology_table.c) -------------------------------- */

void topology_init(struct engine_state *st);
void topology_release(struct engine_state *st);
struct exchange *exchange_at(const struct engine_state *st, uint32_t place);
struct exchange *exchange_by_number(const struct engine_state *st, uint64_t number);
struct exchange *exchange_by_name(const struct engine_state *st, struct span name);
struct binding *binding_at(const struct engine_state *st, uint32_t place);
struct binding *binding_by_number(const struct engine_state *st, uint64_t number);
struct span binding_key(const struct binding *b);
struct span binding_arguments(const struct binding *b);
/* The one that says the same; NULL = none. */
struct binding *binding_find(const struct engine_state *st, const struct record_binding *r);
/* Of a direct exchange: the first with that key, and the next one; 0 = none. */
uint32_t binding_first_of_key(const struct engine_state *st, const struct exchange *x,
                              struct span key);
uint32_t binding_next_of_key(const struct engine_state *st, uint32_t place);
/* One that leads to this queue or exchange; 0 = none. */
uint32_t binding_to(const struct engine_state *st, uint64_t destination, bool to_exchange);
/* All that lead to this queue go with it. */
void queue_lose_bindings(struct engine_state *st, const struct queue *q);
struct pattern *pattern_by_number(const struct engine_state *st, uint32_t number);
struct pattern *pattern_by_name(const struct engine_state *st, struct span vhost, struct span name);
struct record_binding binding_image(const struct engine_state *st, const struct binding *b);

struct queue_amqp *queue_need_amqp(struct queue *q);
/* Its effective settings, anew. */
void queue_take_settings(struct engine_state *st, struct queue *q);
/* More is ready than its settings allow. */
bool queue_is_over(const struct queue *q);
/* Notes it when it is longer than its settings allow and drops what is too much. */
void queue_note_length(struct engine_state *st, struct queue *q);
void queue_note_expires(struct engine_state *st, struct queue *q);
/* One that was noted, NULL = none (left). */
struct queue *state_over(struct engine_state *st);

/* -- idempotency keys (keys.c) --------------------------------------------------------------- */

struct hash128 key_hash(uint64_t queue, struct span key);
/* The id of the first message with this key whose window is open at `now`; 0 = none. */
uint64_t key_find(const struct engine_state *st, struct hash128 hash, int64_t now);
void key_add(struct engine_state *st, struct queue *q, struct hash128 hash, uint64_t id,
             int64_t until);
void keys_forget_until(struct engine_state *st, struct queue *q, int64_t now);
void keys_leave(struct engine_state *st, struct queue *q);

/* Owners in the timer heap. */
#define TIMER_OF_QUEUE 0x80000000U
#define TIMER_OF_JOB 0x40000000U
