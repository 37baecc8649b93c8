/* The loop by itself: turns, wakes, timers, signals. */
#include "check.h"

#include "net/loop.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct turns {
    struct loop *loop;
    struct loop_timer timer;
    int turns, fired, signals;
    bool again;
};

static void on_turn(void *ctx) {
    struct turns *t = ctx;
    t->turns++;
    if (t->again && t->turns < 10)
        loop_again(t->loop);
    else if (t->again)
        loop_stop(t->loop);
}

static void a_turn_may_ask_for_another(void) {
    struct turns t = {.loop = loop_new(), .again = true};
    loop_on_turn(t.loop, on_turn, &t);
    loop_run(t.loop);
    CHECK_EQ(t.turns, 10);
    loop_free(t.loop);
}

static void on_timer(struct loop_timer *timer) {
    struct turns *t = (struct turns *)((char *)timer - offsetof(struct turns, timer));
    if (++t->fired < 3)
        loop_timer_start(timer, 5);
    else
        raise(SIGUSR1);
}

static void on_signal(void *ctx, int signal) {
    struct turns *t = ctx;
    CHECK_EQ(signal, SIGUSR1);
    t->signals++;
    loop_stop(t->loop);
}

static void timers_and_signals(void) {
    struct turns t = {.loop = loop_new()};
    loop_on_turn(t.loop, on_turn, &t);
    loop_on_signal(t.loop, SIGUSR1, on_signal, &t);
    loop_timer_init(t.loop, &t.timer, on_timer);
    int64_t before = loop_now(t.loop);
    loop_timer_start(&t.timer, 100000);
    loop_timer_start(&t.timer, 5);
    loop_run(t.loop);
    CHECK_EQ(t.fired, 3);
    CHECK_EQ(t.signals, 1);
    CHECK(loop_now(t.loop) - before >= 14);
    loop_timer_start(&t.timer, 5);
    loop_timer_stop(&t.timer);
    loop_timer_close(&t.timer);
    loop_timer_close(&t.timer);
    loop_free(t.loop);
}

static void on_wake(void *ctx) {
    struct turns *t = ctx;
    t->fired++;
    loop_stop(t->loop);
}

static void *wake(void *ctx) {
    loop_wake(ctx);
    return NULL;
}

static void another_thread_may_wake_it(void) {
    struct turns t = {.loop = loop_new()};
    loop_on_wake(t.loop, on_wake, &t);
    loop_on_turn(t.loop, on_turn, &t);
    pthread_t thread;
    pthread_create(&thread, NULL, wake, t.loop);
    loop_run(t.loop);
    pthread_join(thread, NULL);
    CHECK_EQ(t.fired, 1);
    loop_free(t.loop);
}

static void on_timer_then_turn(struct loop_timer *timer) {
    struct turns *t = (struct turns *)((char *)timer - offsetof(struct turns, timer));
    t->again = true;
    t->turns = 9; /* so that the next turn hook stops the loop */
}

/* What a timer did is seen by the turn hook before the loop waits: here it would wait for ever. */
static void the_turn_comes_after_timers(void) {
    struct turns t = {.loop = loop_new()};
    loop_on_turn(t.loop, on_turn, &t);
    loop_timer_init(t.loop, &t.timer, on_timer_then_turn);
    loop_timer_start(&t.timer, 5);
    loop_run(t.loop);
    CHECK_EQ(t.turns, 10);
    loop_timer_close(&t.timer);
    loop_free(t.loop);
}

int main(void) {
    RUN(a_turn_may_ask_for_another);
    RUN(timers_and_signals);
    RUN(another_thread_may_wake_it);
    RUN(the_turn_comes_after_timers);
    return check_done();
}
