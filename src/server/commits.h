/* When what was appended goes to the disk, and when the loop looks up from its sockets for it.
 *
 * While one batch is being synced the next one fills; the batch's size is set by the disk. Beside
 * that there are three short waits, each with its bound in commits.c:
 *
 * - For a reason to sync: what nobody waits for goes with what somebody does.
 * - For company: replies go out and their clients come back together, a moment apart. The first of
 *   them must not start a sync that the others have to wait out: two clients would take turns, each
 *   of them waiting for two syncs instead of one. So the next batch waits for as many as had a reply
 *   or wait already; not when most of them wait already, and seldom when it did not help before.
 * - For the disk: a connection that sends on, although what it sent before is not on disk yet, gets
 *   no answer before the batch after this one. Until this one is back the loop sleeps instead of
 *   reading such input in crumbs.
 *
 * Loop thread. */
#pragma once

#include "log/log_thread.h"
#include "net/loop.h"
#include "server/barrier.h"

struct commits {
    struct log *log;
    struct log_thread *thread;
    struct loop *loop;
    struct barrier *barrier;
    struct loop_timer lazy;
    bool is_lazy;      /* the timer runs */
    bool is_out;       /* a batch is at the disk, since: */
    int64_t out_us;    /* as all times here on the clock of clock_monotonic_us */
    unsigned expected; /* to wait for the next batch; 0 = nobody is waited for */
    int64_t expected_until_us;
    unsigned misses; /* in a row: so often those who were expected did not come */
    unsigned passed; /* batches since that did not wait */
};

/* All stay theirs. Takes loop_on_wake. */
void commits_init(struct commits *c, struct loop *loop, struct barrier *barrier);
void commits_start(struct commits *c, struct log *log);
/* Waits for the batch that is out. */
void commits_release(struct commits *c);

/* At the end of a turn. is_urgent: nothing waits for company. is_streamed: connections sent on before
 * they were answered. */
void commits_turn(struct commits *c, bool is_urgent, bool is_streamed);
