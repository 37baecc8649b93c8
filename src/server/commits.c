#include "server/commits.h"

#include "base/clock.h"
#include "base/logging.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

/* What nobody waits for (acknowledgements of AMQP) goes to the disk so much later, or when it is so
 * much: a consumer's ack must not delay the next publishing by a sync. */
#define LAZY_MS 5
#define LAZY_BYTES (256 * 1024)
/* The wait for company: half of what the sync before took, at most this. */
#define COMPANY_US 500
#define PASS_MOST 64 /* batches that do not wait, after waits in vain: 1, 2, 4 ... */
/* The wait for the disk. Others are served so much later. */
#define DISK_US 200

static void push(struct commits *c) {
    if (c->is_out || !log_thread_push(c->thread))
        return;
    c->is_out = true;
    c->out_us = clock_monotonic_us();
    c->expected = 0;
}

static void on_lazy(struct loop_timer *t) {
    struct commits *c = (struct commits *)(void *)((char *)t - offsetof(struct commits, lazy));
    c->is_lazy = false;
    push(c);
}

/* -- company --------------------------------------------------------------------------------- */

static void expect(struct commits *c, unsigned count, int64_t sync_us) {
    if (count < 2 || (c->misses > 0 && ++c->passed < 1U << (c->misses - 1)))
        return;
    int64_t most = sync_us / 2 < COMPANY_US ? sync_us / 2 : COMPANY_US;
    c->expected = count;
    c->expected_until_us = clock_monotonic_us() + most;
}

/* True when the batch should wait; then another turn comes soon. */
static bool waits_for_company(struct commits *c) {
    unsigned here = c->barrier->count;
    if (c->expected == 0 || here == 0)
        return false;
    int64_t left_us = c->expected_until_us - clock_monotonic_us();
    if (here >= c->expected) {
        c->misses = 0;
    } else if (left_us > 0) {
        loop_wait(c->loop, left_us);
        return true;
    } else {
        c->passed = 0;
        c->misses += 1U << c->misses <= PASS_MOST;
    }
    c->expected = 0;
    return false;
}

/* -- batches --------------------------------------------------------------------------------- */

static void wake(void *ctx) {
    struct commits *c = ctx;
    loop_wake(c->loop);
}

static void on_batch(struct commits *c) {
    int64_t sync_us = clock_monotonic_us() - c->out_us;
    unsigned all = c->barrier->count;
    unsigned answered = barrier_covered(c->barrier, log_durable(c->log));
    c->is_out = false;
    if (all - answered > answered)
        push(c); /* before the replies: the disk should not wait for sockets */
    else if (answered > 0)
        expect(c, all, sync_us);
    barrier_release(c->barrier, log_durable(c->log));
}

static void on_wake(void *ctx) {
    struct commits *c = ctx;
    switch (log_thread_collect(c->thread)) {
    case COLLECTED_NOTHING:
        break;
    case COLLECTED_BATCH:
        on_batch(c);
        break;
    case COLLECTED_FULL:
        log_warn("the disk is full: what waits for it is tried again until there is room");
        break;
    case COLLECTED_FAILED:
        log_fatal("the disk failed: %s: stopped at once; nothing that was not on disk was "
                  "acknowledged",
                  strerror(errno));
    }
}

void commits_turn(struct commits *c, bool is_urgent, bool is_streamed) {
    bool is_waited_for = !barrier_is_empty(c->barrier);
    if (is_urgent || log_unsynced_bytes(c->log) > LAZY_BYTES) {
        push(c);
    } else if (is_waited_for) {
        if (!c->is_out && !waits_for_company(c))
            push(c);
    } else if (!c->is_lazy && log_end(c->log) > log_durable(c->log)) {
        c->is_lazy = true;
        loop_timer_start(&c->lazy, LAZY_MS);
    }
    if (is_streamed && c->is_out)
        loop_nap(c->loop, DISK_US);
}

/* -- life ------------------------------------------------------------------------------------ */

void commits_init(struct commits *c, struct loop *loop, struct barrier *barrier) {
    *c = (struct commits){.loop = loop, .barrier = barrier};
    loop_timer_init(loop, &c->lazy, on_lazy);
    loop_on_wake(loop, on_wake, c);
}

void commits_start(struct commits *c, struct log *log) {
    c->log = log;
    c->thread = log_thread_new(log, wake, c);
}

void commits_release(struct commits *c) {
    log_thread_free(c->thread);
    loop_timer_close(&c->lazy);
}
