/* What the files of the broker's model share. Internal to tests/sim/. */
#pragma once

#include "sim/broker.h"

struct broker_run {
    struct broker *b;
    struct broker_op *op;
    struct broker_reply *ret;
    unsigned frames_left;
    unsigned frame_sent; /* the last one in which a job sent letters, by the log's count */
    bool is_cut;         /* the operation ended before its end */
    char *wrong;
    size_t wrong_bytes;
};

__attribute__((format(printf, 2, 3))) void broker_object(struct broker_run *r, const char *format,
                                                         ...);
/* One more frame of the operation; false when it ends before. */
bool broker_frame(struct broker_run *r);
/* The next frame is not there: nothing may be changed any more. */
bool broker_is_at_end(struct broker_run *r);
/* The next doing of the message (or exchange) of that kind, -1 = any death; NULL = none (any more). */
struct doing *broker_doing(struct broker_run *r, uint64_t id, int kind);

/* -- broker_model.c ---------------------------------------------------------------------------------- */

/* A message after all others of the queue, pending; its place and content are the caller's. */
struct broker_message *broker_put(struct broker_run *r, struct broker_queue *q);
void broker_remove(struct broker *b, struct broker_message *x);
void broker_touch(struct broker_run *r, struct broker_message *x);
/* So long in that queue, -1 = as long as its settings say. */
void broker_set_ttl(struct broker_run *r, struct broker_message *x, int64_t ttl_ms);
uint8_t broker_priority_in(struct broker *b, const struct broker_queue *q, uint8_t priority);
struct broker_queue *broker_queue_new(struct broker_run *r, struct place name);
/* One frame, and one for each exchange that goes with its last binding. */
void broker_queue_drop(struct broker_run *r, struct broker_queue *q);
/* One frame: with its bindings, both ways. */
void broker_exchange_drop(struct broker_run *r, struct broker_exchange *x);
/* Exchanges that delete themselves, when they lost their last binding in this operation. */
void broker_orphans_go(struct broker_run *r);
/* The verb of that kind. */
void broker_change_topology_as(struct broker_run *r, enum broker_op_kind kind);

/* -- broker_death.c ------------------------------------------------------------------------------------ */

/* It dies, one frame: and goes on, or rests, or is discarded. x may be gone after it. */
void broker_die(struct broker_run *r, struct broker_message *x, enum reason reason,
                bool has_failed);
/* The same, in the frame it was put in: there is no room for it. */
void broker_arrive_dead(struct broker_run *r, struct broker_message *x);
/* Failed by a worker, or by a lease that ended. */
void broker_fail(struct broker_run *r, struct broker_message *x, bool is_lease, bool permanent);
bool broker_is_over(struct broker *b, struct broker_queue *q); /* and loses its head for it */
int broker_overflow(struct broker *b, const struct broker_queue *q);
/* The one that would die of its length. */
struct broker_message *broker_head(struct broker *b, const struct broker_queue *q);
/* Queues that are too long lose their heads. */
void broker_relieve(struct broker_run *r);
void broker_lose_head(struct broker_run *r, struct doing *d);

/* The priority of a letter that comes from another queue. */
uint8_t broker_priority_there(struct broker *b, const struct broker_queue *q, uint8_t priority);
/* It moves: where it was accepted. */
void broker_take_origin(struct broker_message *x, struct place from, struct place to);

/* -- broker_letters.c ------------------------------------------------------------------------------------- */

enum err broker_replay(struct broker_run *r);
enum err broker_edit(struct broker_run *r);
enum err broker_discard(struct broker_run *r);
enum err broker_job_start(struct broker_run *r);
void broker_send(struct broker_run *r, struct doing *d); /* a letter, by its job */
void broker_jobs_are_done(struct broker_run *r);         /* after a tick: what could be sent was */

/* -- broker_work.c --------------------------------------------------------------------------------------- */

/* So many more are within the limits of HTTP's policy. */
bool broker_fits(struct broker *b, const struct broker_queue *q, uint64_t messages);
void broker_work(struct broker_run *r);  /* producing and consuming: the verbs */
void broker_begin(struct broker_run *r); /* after a start */
void broker_tick(struct broker_run *r);
