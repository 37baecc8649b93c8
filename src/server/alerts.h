/* Alerts: tells whoever a queue's policy names, by HTTP, of what somebody should look at. Loop
 * thread.
 *
 * Every two seconds some of the queues with alerts in their policy are looked at (all of them, when
 * there are few). An alert whose condition holds, and that was not told within its repeat time,
 * becomes a message in the queue ALERTS_QUEUE; what is in there is sent one after the other, by
 * another thread, with the retries and the dead letters of any queue.
 *
 * What was told when, and who was snoozed until when, is in memory only: after a restart what still
 * holds is told again, and what is news is what happens from then on. */
#pragma once

#include "base/bytes.h"
#include "model/fields.h"

#define ALERTS_QUEUE "nixie.alerts"
#define ALERTS_SNOOZE_SECONDS 2592000 /* at most */

struct server;
struct alerts;

/* Of a server whose engine is ready; looks once at all queues. private_is_fine: any address may be
 * called. */
struct alerts *alerts_new(struct server *server, bool private_is_fine);
void alerts_free(struct alerts *a); /* breaks off what is being sent; NULL is fine */

/* Looks, sends and settles what is due; cheap when nothing is. Once a turn of the loop, before what
 * was appended goes to the log thread. */
void alerts_turn(struct alerts *a, int64_t now);
/* The server drains: nothing more is begun, and what is being sent is given back. */
void alerts_drain(struct alerts *a);
/* Nothing is being sent. */
bool alerts_is_quiet(const struct alerts *a);

/* -- for the front end; NULL is fine: a server without alerts --------------------------------- */

/* Adds an error for each alert (a policy's text, checked) whose URL is none that this server may
 * call, as far as the URL itself tells. */
void alerts_check_urls(const struct alerts *a, struct span text, struct field_errors *errors);
/* The queue got a policy. */
void alerts_note(struct alerts *a, struct span queue, int64_t now);
/* Tells nothing of the queue until then (0: at once again). False: it has no alerts. */
bool alerts_snooze(struct alerts *a, struct span queue, int64_t until);
int64_t alerts_snoozed_until(const struct alerts *a, struct span queue, int64_t now); /* 0 = not */
