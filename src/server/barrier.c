#include "server/barrier.h"

#include <assert.h>
#include <stddef.h>

void barrier_init(struct barrier *b) {
    b->first = NULL;
    b->last = &b->first;
    b->newest = 0;
    b->count = 0;
}

void barrier_wait(struct barrier *b, struct barrier_waiter *w, uint64_t position) {
    assert(!w->link && position >= b->newest);
    b->newest = position;
    w->position = position;
    w->next = NULL;
    w->link = b->last;
    *b->last = w;
    b->last = &w->next;
    b->count++;
}

void barrier_cancel(struct barrier *b, struct barrier_waiter *w) {
    if (!w->link)
        return;
    *w->link = w->next;
    if (w->next)
        w->next->link = w->link;
    else
        b->last = w->link;
    w->link = NULL;
    b->count--;
}

bool barrier_is_empty(const struct barrier *b) {
    return b->first == NULL;
}

unsigned barrier_covered(const struct barrier *b, uint64_t durable) {
    unsigned n = 0;
    for (const struct barrier_waiter *w = b->first; w && w->position <= durable; w = w->next)
        n++;
    return n;
}

void barrier_release(struct barrier *b, uint64_t durable) {
    while (b->first && b->first->position <= durable) {
        struct barrier_waiter *w = b->first;
        barrier_cancel(b, w);
        w->done(w);
    }
}
