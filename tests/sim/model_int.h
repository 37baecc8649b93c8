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

/* What a tick has to keep in mind. */
struct tick {
    size_t death_count;
    uint64_t deaths[MODEL_MESSAGES];   /* ids; they reach their groups in the order of dead_seq */
    bool group_left[MODEL_GROUPS];     /* a letter of it went */
    uint64_t purged_due[MODEL_QUEUES]; /* purged, and due for retention as well: which was it? */
};

__attribute__((format(printf, 2, 3))) void object(struct run *r, const char *format, ...);
/* A value that only the engine knows: `found` the first time, what was remembered after that. */
uint64_t remember(struct run *r, uint64_t found);
/* One more frame of the operation; false when it ends before. */
bool next_frame(struct run *r);
bool engine_has(struct run *r, const struct model_message *x, struct message_view *ret);

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
void fail(struct run *r, struct model_message *x, enum event event, uint32_t tag, bool permanent,
          int64_t delay_ms);
void expire(struct run *r, struct model_message *x);
void audit_add(struct model *m, const struct model_audit *entry);

/* -- model_tick.c ---------------------------------------------------------------------------------- */

void tick(struct run *r);

/* -- model_letters.c --------------------------------------------------------------------------------- */

void die(struct run *r, struct model_message *x, enum reason reason, uint8_t version);
/* A death reaches its cause group. */
void group_join(struct run *r, struct model_message *x);
void go_again(struct model_message *x, int64_t now);
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
