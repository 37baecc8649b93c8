/* When batches go to the disk: at once, with what others wait for, or after a wait for company. */
#include "log_rig.h"

#include "base/clock.h"
#include "server/commits.h"

#define SOON_US INT64_C(300000) /* more than a loaded machine takes for a few calls */

struct bench {
    struct crash_io *disk;
    struct rig log;
    struct loop *loop;
    struct barrier barrier;
    struct commits commits;
    struct barrier_waiter waiters[4];
};

static void done(struct barrier_waiter *w) {
    (void)w;
}

static void begin(struct bench *b) {
    *b = (struct bench){.disk = crash_io_new(1), .loop = loop_new()};
    for (size_t i = 0; i < sizeof b->waiters / sizeof b->waiters[0]; i++)
        b->waiters[i].done = done;
    rig_on_disk(&b->log, b->disk);
    rig_open(&b->log);
    barrier_init(&b->barrier);
    commits_init(&b->commits, b->loop, &b->barrier);
    commits_start(&b->commits, b->log.log);
}

static void end(struct bench *b) {
    commits_release(&b->commits);
    loop_free(b->loop);
    log_free(b->log.log);
    crash_io_free(b->disk);
}

static void ask(struct bench *b, int who) {
    rig_append(&b->log, 1, 100);
    barrier_wait(&b->barrier, &b->waiters[who], log_end(b->log.log));
}

static void turn(struct bench *b) {
    commits_turn(&b->commits, false, false);
}

static void stop_when_back(void *ctx) {
    struct bench *b = ctx;
    if (!b->commits.is_out)
        loop_stop(b->loop);
}

static void until_back(struct bench *b) {
    loop_on_turn(b->loop, stop_when_back, b);
    loop_run(b->loop);
}

/* Two were answered together, and are expected together. */
static void two_come_together(struct bench *b) {
    ask(b, 0);
    ask(b, 1);
    turn(b);
    CHECK(b->commits.is_out);
    until_back(b);
    CHECK_EQ(b->barrier.count, 0);
}

static void goes_at_once_for_one(void) {
    struct bench b;
    begin(&b);
    for (int i = 0; i < 3; i++) {
        ask(&b, 0);
        turn(&b);
        CHECK(b.commits.is_out);
        until_back(&b);
        CHECK(b.waiters[0].link == NULL);
    }
    end(&b);
}

static void waits_for_company(void) {
    struct bench b;
    begin(&b);
    two_come_together(&b);
    CHECK_EQ(b.commits.expected, 2);
    b.commits.expected_until_us = clock_monotonic_us() + SOON_US;
    ask(&b, 0);
    turn(&b);
    CHECK(!b.commits.is_out);
    ask(&b, 1);
    turn(&b);
    CHECK(b.commits.is_out && b.commits.misses == 0);
    until_back(&b);
    CHECK_EQ(b.barrier.count, 0);
    end(&b);
}

static void does_not_wait_for_ever(void) {
    struct bench b;
    begin(&b);
    two_come_together(&b);
    b.commits.expected_until_us = clock_monotonic_us() + SOON_US;
    ask(&b, 0);
    turn(&b); /* waits here */
    CHECK(clock_monotonic_us() >= b.commits.expected_until_us);
    CHECK(!b.commits.is_out);
    turn(&b);
    CHECK(b.commits.is_out);
    CHECK_EQ(b.commits.misses, 1);
    until_back(&b);
    end(&b);
}

static void in_vain_it_waits_seldom(void) {
    struct bench b;
    begin(&b);
    unsigned waited = 0;
    for (int i = 0; i < 200; i++) {
        two_come_together(&b);
        waited += b.commits.expected > 0;
        b.commits.expected_until_us = 0; /* has passed when the first comes back */
        ask(&b, 0);
        turn(&b);
        CHECK(b.commits.is_out);
        until_back(&b);
        b.commits.expected = 0;
    }
    CHECK(waited >= 4 && waited <= 20);
    end(&b);
}

/* Most wait already: the batch goes before those who were answered come back. */
static void most_do_not_wait_for_few(void) {
    struct bench b;
    begin(&b);
    ask(&b, 0);
    turn(&b);
    ask(&b, 1);
    ask(&b, 2);
    turn(&b);
    until_back(&b); /* until both are: the second went when the first was back */
    CHECK_EQ(b.barrier.count, 0);
    end(&b);
}

static void what_nobody_waits_for_waits(void) {
    struct bench b;
    begin(&b);
    rig_append(&b.log, 1, 100);
    turn(&b);
    CHECK(!b.commits.is_out && b.commits.is_lazy);
    rig_append(&b.log, 1, 100);
    commits_turn(&b.commits, true, false);
    CHECK(b.commits.is_out);
    until_back(&b);
    CHECK(log_durable(b.log.log) == log_end(b.log.log));
    end(&b);
}

int main(void) {
    RUN(goes_at_once_for_one);
    RUN(waits_for_company);
    RUN(does_not_wait_for_ever);
    RUN(in_vain_it_waits_seldom);
    RUN(most_do_not_wait_for_few);
    RUN(what_nobody_waits_for_waits);
    return check_done();
}
