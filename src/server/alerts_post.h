/* The way out of an alert: into the queue ALERTS_QUEUE, from there to its receiver, one at a time.
 * Internal to alerts.c. Loop thread.
 *
 * A message there has the JSON that is sent as its payload, and the headers url, kind and queue. It
 * is sent only while the queue's policy has such an alert; its secret is looked up there then, so
 * that no message holds one and nothing else put into that queue is ever sent. */
#pragma once

#include "model/alert.h"

#define ALERT_BODY_MAX (64 * 1024) /* what is sent, at most */

struct server;
struct alerts_post;

struct alerts_post *alerts_post_new(struct server *server, bool private_is_fine);
void alerts_post_free(struct alerts_post *p); /* NULL is fine */

/* Enqueues; makes the queue when it is missing. */
enum err alerts_post_put(struct alerts_post *p, int64_t now, struct span queue,
                         const struct alert *alert, struct span body) MUST_CHECK;

/* There may be something to send (again). */
void alerts_post_look(struct alerts_post *p);
/* Goes on with what is being sent, begins the next; costs nothing when there is none. */
void alerts_post_turn(struct alerts_post *p, int64_t now);
bool alerts_post_is_busy(const struct alerts_post *p);
/* Breaks off what is being sent: it is given back without counting. */
void alerts_post_break(struct alerts_post *p);
