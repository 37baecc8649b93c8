/* What guards a queue's consumer: the breaker and the retry budget. Internal to src/engine/. */
#pragma once

#include "engine/engine_int.h"

/* -- the breaker: closed, open (claims get nothing), half open (a few go, to see) --------------- */

/* True when a failure of this class is one that the queue's breaker looks at. */
bool breaker_sees(const struct queue *q, struct span error_class);
/* An attempt ended. `cause`: of a failure, its class. Opens or closes the breaker when that follows. */
void breaker_note(struct engine *e, struct queue *q, int64_t now, bool is_good, struct span cause);
/* Opens it, whatever was seen. */
void breaker_open(struct engine *e, struct queue *q, int64_t now, struct span cause);
/* The time of an open one is over: half open. */
void breaker_due(struct engine *e, struct queue *q, int64_t now);
/* How many messages may be handed out now. */
size_t breaker_allows(const struct queue *q, size_t wanted);
/* A probe was handed out, or came back without an outcome: another may go. */
void breaker_probe_sent(struct queue *q);
void breaker_probe_back(struct engine *e, struct queue *q);
/* How long a failed probe makes way for others. */
int64_t breaker_probe_pause_ms(const struct queue *q);

/* -- the retry budget ------------------------------------------------------------------------ */

/* True when one more retry would be over the queue's budget. */
bool budget_is_spent(const struct queue *q, int64_t now);
void budget_note(struct queue *q, int64_t now, bool is_retry);

/* -- what is counted (struct queue_tally) ------------------------------------------------------ */

/* A message was just handed out. */
void claim_note(const struct engine_state *st, struct queue *q, const struct slot *s);
/* It failed and is tried again. */
void failing_note(const struct engine_state *st, struct queue *q, uint64_t id,
                  int64_t first_failed_at);
/* It succeeded, or died. */
void end_note(struct queue *q, bool is_good, uint32_t deliveries);
/* A dead letter is sent again, for the redrive_count-th time. */
void redrive_note(struct queue *q, uint32_t redrive_count);

const struct queue_tally *tally_of(const struct queue *q); /* NULL: nothing was counted */
int64_t failing_since(const struct engine_state *st, const struct queue *q);

/* How long an attempt took, for the doctor. */
void duration_note(struct queue *q, int64_t ms);
