#include "server/barrier.h"

#include "check.h"

#include <stddef.h>

static struct barrier barrier;
static struct barrier_waiter waiters[4];
static int released[8], releases;
static struct barrier_waiter *cancels; /* whom the next one to be released cancels */

static void done(struct barrier_waiter *w) {
    released[releases++] = (int)(w - waiters);
    if (cancels) {
        struct barrier_waiter *other = cancels;
        cancels = NULL;
        barrier_cancel(&barrier, other);
    }
}

static void begin(void) {
    barrier_init(&barrier);
    memset(waiters, 0, sizeof waiters);
    for (int i = 0; i < 4; i++) {
        waiters[i].done = done;
        barrier_wait(&barrier, &waiters[i], (uint64_t)(10 * (i + 1)));
    }
    releases = 0;
}

static void releases_in_order_what_is_durable(void) {
    begin();
    barrier_release(&barrier, 9);
    CHECK_EQ(releases, 0);
    barrier_release(&barrier, 20);
    CHECK_EQ(releases, 2);
    CHECK_EQ(released[0], 0);
    CHECK_EQ(released[1], 1);
    barrier_release(&barrier, 100);
    CHECK_EQ(releases, 4);
    CHECK(barrier.first == NULL);
}

static void whoever_leaves_is_not_called(void) {
    begin();
    barrier_cancel(&barrier, &waiters[3]);
    barrier_cancel(&barrier, &waiters[1]);
    barrier_cancel(&barrier, &waiters[1]);
    barrier_release(&barrier, 100);
    CHECK_EQ(releases, 2);
    CHECK_EQ(released[1], 2);
}

static void a_release_may_cancel_another(void) {
    begin();
    cancels = &waiters[1];
    barrier_release(&barrier, 100);
    CHECK_EQ(releases, 3);
    CHECK_EQ(released[1], 2);
}

static void waits_again(void) {
    begin();
    barrier_release(&barrier, 100);
    barrier_wait(&barrier, &waiters[2], 200);
    barrier_release(&barrier, 199);
    CHECK_EQ(releases, 4);
    barrier_release(&barrier, 200);
    CHECK_EQ(releases, 5);
}

int main(void) {
    RUN(releases_in_order_what_is_durable);
    RUN(whoever_leaves_is_not_called);
    RUN(a_release_may_cancel_another);
    RUN(waits_again);
    return check_done();
}
