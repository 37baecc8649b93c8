/* What the files of steps share. Internal to tests/sim/. */
#pragma once

#include "sim/world.h"

/* -- steps_disk.c ---------------------------------------------------------------------------------------- */

uint64_t dice(struct world *w, uint64_t n); /* 0..n-1 */
void step_commit(struct world *w);
void step_clean(struct world *w);
void step_crash(struct world *w);
void step_fault(struct world *w);
void room_again(struct world *w);
void room_in_time(struct world *w); /* when it was small for long enough */

/* -- steps.c --------------------------------------------------------------------------------------------- */

int any_queue(struct world *w);
/* A message of the queue in that state; with luck: any other, or none at all. */
uint64_t any_message(struct world *w, int queue, enum state state);
struct who any_who(struct world *w);
uint32_t any_size(struct world *w);
/* A payload and headers, now and then as JSON. */
void any_content(struct world *w, struct op_item *item, uint32_t bytes);
uint32_t any_error(struct world *w);
struct key any_key(struct world *w, uint32_t tag);

/* -- steps_queues.c ------------------------------------------------------------------------------------ */

void step_queue_put(struct world *w);
void step_turn_target(struct world *w);
void step_queue_delete(struct world *w);
void step_queue_pause(struct world *w);
void step_watch(struct world *w);
/* With a policy, mostly one that suits it. */
void put_queue(struct world *w, int queue);

/* -- steps_letters.c ----------------------------------------------------------------------------------- */

void step_replay(struct world *w);
void step_edit(struct world *w);
void step_discard(struct world *w);
void step_undiscard(struct world *w);
void step_import(struct world *w);
void step_group(struct world *w);
void step_job_start(struct world *w);
void step_job_change(struct world *w);
void step_letters(struct world *w); /* reading */
/* Jobs that wait for somebody go on, or are cancelled. True: none is left that has not ended. */
bool jobs_go_on(struct world *w);
