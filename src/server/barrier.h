/* The commit barrier: replies wait here until what they say is on disk. Positions only grow, so the
 * waiters are a queue. Loop thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Embedded in whoever waits. */
struct barrier_waiter {
    uint64_t position;
    /* called once, from the loop, never from barrier_wait */
    void (*done)(struct barrier_waiter *w);
    struct barrier_waiter *next, **link; /* link is NULL when it is not waiting */
};

struct barrier {
    struct barrier_waiter *first, **last;
    uint64_t newest;
    unsigned count; /* who wait */
};

void barrier_init(struct barrier *b);

/* Waits until everything below `position` is durable. The positions of successive calls never go
 * down (assert). */
void barrier_wait(struct barrier *b, struct barrier_waiter *w, uint64_t position);
/* The waiter is going away; not waiting is fine. */
void barrier_cancel(struct barrier *b, struct barrier_waiter *w);

bool barrier_is_empty(const struct barrier *b); /* nobody waits */
/* Those who wait for at most `durable`; walks over them. */
unsigned barrier_covered(const struct barrier *b, uint64_t durable);

/* Calls done() of all that waited for at most `durable`. */
void barrier_release(struct barrier *b, uint64_t durable);
