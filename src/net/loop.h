/* The loop: libuv behind a small face, so that only src/net/ knows it. Loop thread, except
 * loop_wake. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct loop;

struct loop *loop_new(void);
void loop_free(struct loop *l);

/* Runs until loop_stop; returns when it was called. */
void loop_run(struct loop *l);
void loop_stop(struct loop *l);

/* Calls f once a turn, after all sockets of that turn were served and before waiting for the next
 * (one such hook a loop). */
void loop_on_turn(struct loop *l, void (*f)(void *ctx), void *ctx);
/* Makes sure another turn comes at once, without waiting. */
void loop_again(struct loop *l);

/* From any thread: f runs on the loop thread soon (one such hook a loop; many wakes may become one
 * call). */
void loop_on_wake(struct loop *l, void (*f)(void *ctx), void *ctx);
void loop_wake(struct loop *l);
/* Both from the turn hook only, at most so many microseconds (below a second), which timers do not
 * interrupt. Waits for a wake and serves nobody meanwhile: */
void loop_nap(struct loop *l, int64_t us);
/* Waits for anything to serve; then another turn comes at once: */
void loop_wait(struct loop *l, int64_t us);

/* A signal, delivered on the loop thread. */
void loop_on_signal(struct loop *l, int signal, void (*f)(void *ctx, int signal), void *ctx);

/* One-shot timers, embedded in their owner; durations in milliseconds on a clock that never goes
 * back. */
struct loop_timer {
    void (*fire)(struct loop_timer *t);
    void *impl; /* the loop's */
};
void loop_timer_init(struct loop *l, struct loop_timer *t, void (*fire)(struct loop_timer *t));
void loop_timer_start(struct loop_timer *t, int64_t after_ms); /* restarts */
void loop_timer_stop(struct loop_timer *t);
void loop_timer_close(struct loop_timer *t); /* before its owner's memory goes */

/* Milliseconds of this turn, on the same clock: cached, costs nothing. */
int64_t loop_now(const struct loop *l);
