/* What the files of the model share. Internal to tests/sim/. */
#pragma once

#include "sim/model.h"

struct run {
    struct model *m;
    struct op *op;
    struct engine *look;
    unsigned frames_left;
    char *wrong;
    size_t wrong_bytes;
    struct tick *tick; /* NULL in other operations */
};

/* A death on its way to its cause group; the message may be in another queue by then. */
struct model_death {
    uint64_t id, position; /* where in the log */
    int queue;
    enum reason reason;
    bool stays; /* it does not move on to a target */
    bool has_error;
    uint32_t error_tag;
    uint8_t version;
    int64_t died_at;
};

/* What a tick has to keep in mind. */
struct tick {
    size_t death_count;
    struct model_death deaths[MODEL_MESSAGES]; /* they reach their groups in the order of the log */
    bool group_left[MODEL_GROUPS];             /* a letter of it went */
    uint64_t purged_due[MODEL_QUEUES];   /* purged, and due for retention as well: which was it? */
    bool costs_nothing;                  /* the lease that ends now, as the engine has it */
    uint64_t probe_pauses[MODEL_QUEUES]; /* of failed probes */
};

__attribute__((format(printf, 2, 3))) void object(struct run *r, const char *format, ...);
/* A value that only the engine knows: `found` the first time, what was remembered after that. */
uint64_t remember(struct run *r, uint64_t found);
/* One more frame of the operation; false when it ends before. */
bool next_frame(struct run *r);
bool engine_has(struct run *r, const struct model_message *x, struct message_view *ret);

/* -- look.c: what the engine does not show, but chose: the order of its doings, above all ------------ */

struct looked {
    uint64_t position; /* of the newest line of its story: the order in which things were done */
    bool waits;
    int64_t failed_next_at; /* on the line of the failure of its last attempt; 0 = died of it */
    bool has_counts;        /* after that: */
    bool is_alone;
    uint8_t retry_count;
};
/* Zeros when there is no such message. */
struct looked look_inside(struct engine *e, uint64_t id, uint32_t attempt, enum event failure);

/* -- model.c --------------------------------------------------------------------------------------- */

/* A message of that id, pending and new, with an empty story. Moves those of greater ids. */
struct model_message *message_put(struct model *m, uint64_t id, int queue, int64_t now);
void message_remove(struct model *m, size_t i);
/* Adds a line to its story; attempt and times are put in. */
void tell(struct model *m, const struct model_message *x, int64_t now, struct model_line line);
/* It was changed: what follows from that. */
void touch(struct model_message *x, int64_t now);
void queue_make(struct model *m, int queue, int64_t now, const struct policy *policy);
bool queue_is_full(const struct model *m, int queue, uint64_t messages, uint64_t bytes);
uint64_t count_of(const struct model *m, int queue, enum state state);
size_t count_ready(const struct model *m, int queue);
void audit_add(struct model *m, const struct model_audit *entry);

/* -- model_fail.c ------------------------------------------------------------------------------------ */

/* One failure of a message in work: what becomes of it, one frame, and of its queue's breaker, another. */
void fail(struct run *r, struct model_message *x, enum event event, uint32_t tag, bool permanent,
          int64_t delay_ms);
/* The same of a message that is not in work: its time to live is over, or it was delivered too often. */
void die_waiting(struct run *r, struct model_message *x, enum reason reason);
bool is_at_delivery_limit(const struct model *m, const struct model_message *x);
/* Whether what the engine says of an expired lease has to be asked for: did it cost an attempt? */
bool is_doubtful(const struct model *m, const struct model_message *x, uint32_t tag);
/* If its lease ends now, and that costs an attempt, it is not back at once. */
bool is_sure_not_to_go_at_once(const struct model *m, const struct model_message *x);

/* -- model_order.c ----------------------------------------------------------------------------------- */

/* Its place among those of its key, in the queue that it is in now. */
void stand_in_line(const struct model *m, struct model_message *x);

/* -- model_breaker.c --------------------------------------------------------------------------------- */

/* One frame; false when the operation ends before. */
bool model_breaker_turn(struct run *r, int queue, enum breaker_state state, uint32_t cause);
/* Half open when its time has come. False when the operation ends before. */
bool model_breaker_due(struct run *r, int queue);
/* An attempt ended well, or in a failure that the breaker looks at. */
void model_breaker_outcome(struct run *r, int queue, bool is_good, uint32_t tag);
/* It came back without an outcome. */
void model_breaker_probe_back(struct model *m, int queue);
bool model_breaker_lets_go(const struct model *m, int queue, uint64_t most);
/* A failed probe makes way for others so long. */
int64_t probe_pause_ms(const struct model *m, int queue);
int64_t model_breaker_open_ms(const struct model *m, int queue);
bool model_budget_is_spent(const struct model *m, int queue, int64_t now);
void model_budget_note(struct model *m, int queue, int64_t now, bool is_retry);
/* Before and after the leases that end in a tick. */
void breakers_begin_tick(struct run *r);
void breakers_end_tick(struct run *r);

/* -- model_target.c ---------------------------------------------------------------------------------- */

/* The queue that a message that dies of this moves on to; -1 = none. */
int target_of(const struct model *m, const struct model_message *x, enum reason reason);
/* Of big messages the engine says whether there is room for the move. */
int target_with_room(struct run *r, const struct model_message *x, enum reason reason);
void move_to(struct model *m, struct model_message *x, int queue);
void dead_letter(struct run *r, struct model_message *x, int to);
enum err target_check(const struct model *m, int queue, const struct queue_texts *texts);

/* -- model_tick.c ---------------------------------------------------------------------------------- */

void tick(struct run *r);

/* -- model_letters.c --------------------------------------------------------------------------------- */

/* It is dead; `stays`: and does not move on. */
void die(struct run *r, struct model_message *x, enum reason reason, uint8_t version, bool stays);
/* A death reaches its cause group. */
void group_join(struct run *r, const struct model_death *d);
void go_again(const struct model *m, struct model_message *x, int64_t now);
/* Makes a letter's copy, the message after all others. */
struct model_message *copy_put(struct model *m, const struct model_message *x, int queue,
                               int64_t now);
void discard(struct model *m, struct model_message *x, int64_t now, struct model_line line);
void replay(struct run *r, struct outcome *ret);
void edit(struct run *r, struct outcome *ret);
void discard_one(struct run *r, struct outcome *ret);
void undiscard(struct run *r, struct outcome *ret);
void import(struct run *r, struct outcome *ret);
void change_group(struct run *r, struct outcome *ret);

/* -- model_jobs.c -------------------------------------------------------------------------------------- */

/* The letter's part in its job is over: the counts that say what became of it, NULL when it has none. */
struct job_counts *job_leave(struct model *m, struct model_message *x);
void job_start(struct run *r, struct outcome *ret);
void job_change(struct run *r, struct outcome *ret);
/* In which job that has not ended the letter remains; NULL = none. */
struct model_job *job_of(struct model *m, const struct model_message *x);
/* Selection goes on as far as it did in the engine; true when it came to its end. */
bool job_select(struct run *r, struct model_job *j);
/* The default sample becomes a number. */
void job_end_selection(struct model_job *j);
void audit_job(struct run *r, const struct model_job *j, enum audit_action action, struct who who);
/* The engine's view of a job, without those that are new since. False: there is none. */
bool job_view_of(struct engine *e, int64_t now, uint32_t number, struct job_view *ret);

/* -- model_job_tick.c: the parts of a tick, in this order ---------------------------------------------- */

void jobs_begin_tick(struct run *r);
/* What becomes of dead letters: sent, discarded and purged by jobs, taken by retention. */
void letters_go(struct run *r);
void jobs_end_tick(struct run *r);
