/* What the verbs share. Internal to src/engine/. */
#pragma once

#include "engine/route.h"
#include "engine/topology.h"
#include "model/fingerprint.h"

struct engine {
    struct engine_state st;
    struct log *log;
    struct rng rng;
    /* Memory for what is read from the log; kept between calls. */
    struct buf message, story;
    struct buf cause;    /* of a death: its claim, or its last failure */
    struct buf title;    /* of a new cause group */
    struct buf heads;    /* of a walk over letters */
    struct buf texts[2]; /* of a patched copy: headers, payload */
    struct buf result;   /* of an audit entry */
    struct buf envelope; /* of what is published */
    struct buf onward;   /* of what is dead-lettered */
    struct buf facts;    /* of a failure, as a message's headers tell it */
    struct buf intakes;  /* of a publishing, a queue each */
    struct buf scoped;   /* a name */
    struct routes published, routed;
    uint64_t begun;        /* engine_begin: the queue it has come to */
    uint64_t emptied_seen; /* st.emptied_groups when no group could be forgotten */
    /* Cleaning */
    bool cleaning;
    uint64_t cleaned_bytes;
    uint64_t clean_end_seen; /* log_end at the last step: the pace follows what was appended */
    uint64_t *ids;           /* RECORD_GONE_IDS, for removals and selections */
};

/* What a state record takes at most, without its texts. */
#define STATE_RECORD_BYTES 256
/* Room to ask for before one, with the frame around it and the texts that come without being asked
 * for; and before one that may come with a new cause group. */
#define LOG_STATE_ROOM 1024
#define LOG_DEATH_ROOM (12 * 1024)

/* -- records, within a frame that is open: written, then applied ------------------------------ */

/* Each append_x has an x_bytes that says what it takes at most, for log_frame_begin. */
void append_message(struct engine *e, const struct record_message *r);
size_t message_bytes(const struct record_message *r);
void append_state(struct engine *e, const struct record_state *r);
size_t state_bytes(const struct record_state *r);
void append_queue(struct engine *e, const struct record_queue *r);
size_t queue_bytes(const struct record_queue *r);
void append_gone(struct engine *e, const struct record_gone *r);
void append_group(struct engine *e, const struct record_group *r);
size_t group_bytes(const struct record_group *r);
void append_job(struct engine *e, const struct record_job *r);
size_t job_bytes(const struct record_job *r);
void append_exchange(struct engine *e, const struct record_exchange *r);
size_t exchange_bytes(const struct record_exchange *r);
void append_binding(struct engine *e, const struct record_binding *r);
size_t binding_bytes(const struct record_binding *r);
void append_pattern(struct engine *e, const struct record_pattern *r);
size_t pattern_bytes(const struct record_pattern *r);
void append_history(struct engine *e, const struct record_history *r, uint64_t *ret_position);
/* The number is given here. */
void append_audit(struct engine *e, const struct audit_entry *entry);
size_t audit_bytes(const struct audit_entry *entry);
/* Any record whose data is nothing; its apply is the caller's. */
void append_bare(struct engine *e, enum record_type type, const uint8_t *meta, size_t n);

/* One record as one frame. The caller has checked the room. */
void emit_state(struct engine *e, const struct record_state *r);
void emit_queue(struct engine *e, const struct record_queue *r);
void emit_gone(struct engine *e, const struct record_gone *r);
void emit_engine(struct engine *e);

/* -- shared by the verbs --------------------------------------------------------------------- */

/* The named queue's message, or ERR_NO_QUEUE, ERR_NO_MESSAGE. */
enum err find_message(const struct engine *e, struct span queue, uint64_t id,
                      uint32_t *ret_slot) MUST_CHECK;

/* Makes the queue when it is missing. ERR_TOO_MANY_QUEUES, ERR_DISK_FULL. */
enum err need_queue(struct engine *e, int64_t now, struct span name, enum log_use use,
                    struct queue **ret) MUST_CHECK;
struct record_queue new_queue(const struct engine *e, int64_t now, struct span name,
                              const struct policy *policy, const struct policy_texts *texts);
size_t queue_room(const struct queue *q); /* for a new image of it */
/* A queue's image that is being deleted, who wants it so (or NULL), and the exchanges that delete
 * themselves with their last binding, as one frame. ERR_DISK_FULL: nothing is done. */
enum err emit_dropping(struct engine *e, const struct record_queue *r,
                       const struct audit_entry *entry) MUST_CHECK;
/* True when so many more unfinished messages and bytes are within the queue's policy. */
bool queue_fits(const struct queue *q, uint64_t messages, uint64_t bytes);

/* What becomes of a message that comes to a queue. */
enum intake {
    INTAKE_TAKES,
    INTAKE_REFUSES,
    INTAKE_KILLS,        /* accepted, and dead of max_length */
    INTAKE_REFUSES_DEAD, /* the same; its sender is told that it was refused */
};
enum intake intake_of(const struct queue *q, uint64_t messages, uint64_t bytes);
/* The message to be appended. expiration_ms: -1 = none; with an envelope it was published. */
struct record_message message_for(const struct engine *e, const struct queue *q, int64_t now,
                                  const struct message_new *m, int64_t expiration_ms,
                                  struct span envelope);
/* For so long in that queue: its settings' time to live, when ttl_ms (-1 = none) is not less. */
void set_ttl(struct record_message *m, const struct queue *q, int64_t now, int64_t ttl_ms);
/* By the queue's settings. */
uint8_t priority_in(const struct queue *q, uint8_t priority);
/* Of one that comes from another queue: by its settings when AMQP declared it. */
uint8_t priority_of_letter(const struct queue *q, uint8_t priority);

/* Gives a message its place in the line of its key in that queue; none when the queue has no order. */
void take_place(struct message_image *image, const struct queue *q, uint64_t id, struct span key);

/* A change to a message, begun from its present image; `job_was` is set. */
struct record_state change_of(const struct engine *e, const struct slot *s, int64_t now,
                              enum event event);

/* One failure of a message in processing: back to pending with its backoff, or dead. */
struct failure {
    enum event event; /* EVENT_FAILED, EVENT_LEASE_EXPIRED */
    bool permanent;
    int64_t delay_ms; /* -1 = the backoff */
    struct span error_class, error, detail, fingerprint;
};
void fail_message(struct engine *e, struct slot *s, int64_t now, const struct failure *f);

/* A pending message whose time to live is over, or that was delivered too often: dead. */
void expire_message(struct engine *e, struct slot *s, int64_t now);
void die_of_deliveries(struct engine *e, struct slot *s, int64_t now);
void die_of_length(struct engine *e, struct slot *s, int64_t now);
/* AMQP's two ways to give back a message in processing. */
void return_message(struct engine *e, struct slot *s, int64_t now, const struct settle *item);
void reject_message(struct engine *e, struct slot *s, int64_t now, const struct settle *item);

/* -- lengths (length.c) ------------------------------------------------------------------------ */

enum length_overflow queue_overflow(const struct queue *q);
/* Kills what is over in queues that were noted; false when more is to be done: no room, or a turn's
 * work is done. At the end of a verb: slots go. */
bool relieve(struct engine *e, int64_t now);

/* What dies may be written again with its payload: so much waits for the disk that the rest of what is
 * due waits, too. */
bool is_disk_behind(const struct engine *e);

/* -- removals, one run with a record for those that stand alike in a job (due.c) ------------------ */

void gone_add(struct engine *e, struct record_gone *gone, const struct slot *s);
void gone_end(struct engine *e, struct record_gone *gone);

/* A dead letter becomes pending with no failures: the change, begun by change_of. `m` is its
 * message when it has a time to live. */
void send_again(struct engine *e, const struct slot *s, int64_t now, struct record_state *r);

/* Makes of a dead letter's message, as read, the copy to be enqueued in its place. */
void copy_of(struct engine *e, const struct slot *s, int64_t now, struct record_message *m);
void forget_properties(struct engine *e, struct record_message *m);
/* Its envelope tells no death any more; false when it told none. */
bool forget_deaths(struct engine *e, struct record_message *m);
/* Makes of a change of a dead letter its discard. */
void discard_change(struct record_state *r, int64_t now, enum discard_reason why, struct span text);

/* Reads a line of a story; spans are good until the next read into the same buffer. The record's
 * bytes come from its header. */
void read_event(struct engine *e, uint64_t position, struct buf *into, struct record_event *ret,
                size_t *ret_bytes);
/* All that is told of a message; the spans as in engine_message. (read.c) */
void view_slot(struct engine *e, const struct slot *s, struct message_view *ret);
/* Reads a message's whole image. */
void read_message(struct engine *e, const struct slot *s, struct buf *into,
                  struct record_message *ret);

/* Appends a message anew with its story, `*m` being its image as it will be (how: carried or
 * moved), in an open frame of at least carry_bytes. (clean.c) */
struct carry {
    struct buf lines;
    size_t count;
    uint64_t error;
    size_t bytes; /* what the frame needs */
};
void carry_plan(struct engine *e, const struct slot *s, const struct record_message *m,
                struct carry *c);
void carry_append(struct engine *e, const struct record_message *m, const struct carry *c);
void carry_release(struct carry *c);

/* A letter whose envelope forgets: its image anew, in the frame of the change that sends it again. */
struct renewal {
    bool is_needed;
    struct record_message message;
    struct carry carry;
};
/* Adds to *bytes what it takes. */
void renewal_plan(struct engine *e, const struct slot *s, bool is_wanted, size_t *bytes,
                  struct renewal *ret);
/* `r`: the change, whose line goes on from the story as it is then. */
void renewal_append(struct engine *e, const struct slot *s, struct renewal *n,
                    struct record_state *r);
void renewal_release(struct renewal *n);

/* -- dead-letter targets (target.c) ------------------------------------------------------------ */

/* What a cause group's image takes at most. */
#define GROUP_ROOM                                                                                 \
    (RECORD_META_MAX + FINGERPRINT_TITLE_MAX + LIMIT_ERROR_CLASS + LIMIT_OWNER + LIMIT_NOTE +      \
     GROUP_VERSIONS_STORED * LIMIT_WORKER + 64)

/* Where a message goes when it dies, found before the frame begins. */
struct target {
    struct queue *const *queues; /* the first gets the message, the others copies */
    size_t count;                /* 0: it stays dead where it is */
    struct queue *one;           /* of the queue's own policy: what queues points to */
    bool by_exchange;
    uint8_t priority;   /* as it was published, or where that is not known, as it is */
    bool is_unroutable; /* it stays because its dead-letter exchange leads nowhere */
    struct record_message message;
    uint8_t trail[TRAIL_MAX * TRAIL_ENTRY_BYTES];
    struct carry carry;
    size_t bytes;
};
/* `s` is NULL for a message that only arrives: then t->message is set. */
void target_begin(struct target *t);
void target_find(struct engine *e, const struct queue *q, const struct slot *s, int64_t now,
                 enum reason reason, struct target *t);
/* Moves the message, dead by now in the same frame, to its target. `death`: NULL for one that
 * arrived dead. */
void target_append(struct engine *e, uint32_t slot, int64_t now, const struct record_state *death,
                   struct target *t);
void target_release(struct target *t);
/* The same through the queue's dead-letter exchange (dead_letter.c). False when it has none. */
bool dead_letter_find(struct engine *e, const struct queue *q, int64_t now, enum reason reason,
                      struct target *t);
/* True when a queue with that target would, by the targets of others, come back to itself. */
bool target_makes_cycle(const struct engine *e, struct span queue, struct span target);

/* -- cause groups (groups.c) ----------------------------------------------------------------- */

/* Where a death belongs: decided before the frame begins, appended first in it. `stays`: the letter
 * does not move on to a target, so that its group, when it was done with, is open again. */
struct group_choice {
    uint32_t group;     /* number */
    uint8_t version;    /* place in its table, VERSION_NONE */
    uint32_t forgotten; /* number of a group that makes way, 0 = none */
    bool is_written;    /* image has to be appended */
    struct record_group image;
    size_t bytes;
};
struct failure_facts;
void group_choose(struct engine *e, int64_t now, const struct queue *q,
                  const struct failure_facts *facts, struct span worker_version, bool stays,
                  struct group_choice *ret);
void group_append(struct engine *e, const struct group_choice *choice);

/* -- dead on arrival (death.c): there is no room in the queue, whose policy says that then it is
 * accepted and dead of max_length, and goes where the queue's dead letters go ----------------- */

struct arrival {
    struct target target;
    struct group_choice choice;
    size_t bytes; /* of the frame */
};
/* Makes `m` dead. `room`: for its going on; where that is not enough, it stays. */
void arrival_plan(struct engine *e, int64_t now, const struct queue *q, struct record_message *m,
                  size_t room, struct arrival *ret);
void arrival_append(struct engine *e, int64_t now, const struct record_message *m,
                    struct arrival *a);

/* -- jobs (jobs.c) ---------------------------------------------------------------------------- */

/* Does what the job has to do now: a bounded step. Sets its timer. False when it has to wait for room
 * on the disk. *ret_done: letters worked on. */
bool job_due(struct engine *e, struct job *j, int64_t now, uint32_t *ret_done);

/* -- walking over letters (letters.c) --------------------------------------------------------- */

struct walk {
    struct letter_query query; /* its queue's name and limit are not looked at */
    const struct queue *only;  /* NULL = all queues */
    uint64_t looked_most, reads_most;
    uint64_t looked_at, reads;
    size_t read_bytes;
};
/* Calls f for each letter that matches, in order, until it says false or the work is used up.
 * *ret_next is where to go on. True when nothing is left. f must not change the state, nor read. */
bool letters_walk(struct engine *e, struct walk *w,
                  bool (*f)(void *ctx, const struct slot *s, const struct letter *l), void *ctx,
                  struct letter_place *ret_next);
/* How many match, by the counts of their groups; exact when the groups alone decide. */
uint64_t letters_count(struct engine *e, const struct walk *w, bool *ret_is_exact);

/* Cut to what is kept. */
struct act act_cut(const struct act *act);
