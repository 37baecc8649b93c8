/* What was delivered and is not settled: each channel's ring, and the settling of a turn.
 *
 * D1 A delivery is in its channel's ring, or taken out of it by somebody who settles it or puts it
 *    back. Until it is settled it counts in its channel, its consumer and its queue's `refs`.
 * D2 Tags in a ring rise. A settled delivery keeps its place until all before it are settled, or until
 *    half of the ring is such places.
 * D3 A method settles at most LIMIT_AMQP_SETTLE of them in a turn. Until it has settled the rest, its
 *    session is not read, so that nothing overtakes it.
 * D4 Acknowledgements wait in `settling` for others of their queue, at most until the end of the turn.
 *    What gives a message back, or lets it die, is settled at once: the order is seen from outside. */
#include "amqp/front.h"

#include "base/mem.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define RING_FIRST 16
#define RING_KEPT 1024 /* an empty ring that is larger is freed */
#define HOLES_BEFORE_PACKED 64

/* Settled when there is room on the disk again. */
struct late {
    struct amqp_queue *queue;
    struct settle item;
};

struct settling {
    struct amqp_queue *queue; /* of all items; counted in its `refs` */
    size_t n;
    struct settle items[LIMIT_BATCH];
    enum err results[LIMIT_BATCH];
    struct late *late;
    size_t late_count, late_cap;
};

/* -- settling -------------------------------------------------------------------------------- */

static void keep_for_later(struct settling *t) {
    while (t->late_count + t->n > t->late_cap) {
        t->late_cap = t->late_cap ? t->late_cap * 2 : LIMIT_BATCH;
        t->late = mem_grow(t->late, t->late_cap * sizeof *t->late);
    }
    for (size_t i = 0; i < t->n; i++) {
        t->queue->refs++;
        t->late[t->late_count++] = (struct late){.queue = t->queue, .item = t->items[i]};
    }
}

static void flush_now(struct amqp *a) {
    struct settling *t = a->settling;
    if (t->n == 0)
        return;
    struct amqp_queue *q = t->queue;
    /* Deliveries that were settled over HTTP meanwhile, or went with their queue, are nothing to tell
     * a client of. */
    enum err e = engine_settle(a->server->engine, server_now(a->server), q->name, t->items, t->n,
                               t->results);
    if (e != OK && e != ERR_NO_QUEUE)
        keep_for_later(t);
    q->refs -= (unsigned)t->n;
    t->n = 0;
    t->queue = NULL;
    registry_release(q);
}

/* Tries again what found no room, in its order, as far as there is room. */
static void flush_late(struct amqp *a) {
    struct settling *t = a->settling;
    size_t n = 0;
    for (; n < t->late_count; n++) {
        struct late *l = &t->late[n];
        enum err e = engine_settle(a->server->engine, server_now(a->server), l->queue->name,
                                   &l->item, 1, t->results);
        if (e != OK && e != ERR_NO_QUEUE)
            break;
        l->queue->refs--;
        registry_release(l->queue);
    }
    if (n == 0)
        return;
    t->late_count -= n;
    memmove(t->late, t->late + n, t->late_count * sizeof *t->late);
}

void settling_flush(struct amqp *a) {
    if (a->settling->late_count > 0)
        flush_late(a);
    flush_now(a);
}

void settling_add(struct amqp *a, struct amqp_queue *q, uint64_t id, uint32_t lease,
                  enum settle_action action) {
    struct settling *t = a->settling;
    if (t->n == LIMIT_BATCH || (t->n > 0 && t->queue != q))
        flush_now(a);
    t->queue = q;
    /* no text, no time: what else there is stays zero */
    t->items[t->n].action = action;
    t->items[t->n].id = id;
    t->items[t->n].lease = lease;
    t->items[t->n].delay_ms = -1;
    t->n++;
    q->refs++;
}

void settling_init(struct amqp *a) {
    a->settling = mem_alloc(sizeof *a->settling);
}

void settling_release(struct amqp *a) {
    if (a->settling == NULL)
        return;
    settling_flush(a);
    free(a->settling->late);
    free(a->settling);
    a->settling = NULL;
}

/* -- the ring -------------------------------------------------------------------------------- */

static struct delivery *at(const struct deliveries *r, uint32_t i) {
    return &r->items[(r->first + i) & (r->cap - 1)];
}

static void grow(struct deliveries *r) {
    uint32_t cap = r->cap ? r->cap * 2 : RING_FIRST;
    struct delivery *items = mem_alloc(cap * sizeof *items);
    for (uint32_t i = 0; i < r->count; i++)
        items[i] = *at(r, i);
    free(r->items);
    r->items = items;
    r->cap = cap;
    r->first = 0;
}

/* Closes up (D2). */
static void tidy(struct deliveries *r) {
    while (r->count > 0 && at(r, 0)->id == 0) {
        r->first = (r->first + 1) & (r->cap - 1);
        r->count--;
        r->settled--;
    }
    if (r->settled > HOLES_BEFORE_PACKED && r->settled > r->count / 2) {
        uint32_t n = 0;
        for (uint32_t i = 0; i < r->count; i++) {
            if (at(r, i)->id != 0)
                *at(r, n++) = *at(r, i);
        }
        r->count = n;
        r->settled = 0;
    }
    if (r->count == 0 && r->cap > RING_KEPT) {
        free(r->items);
        *r = (struct deliveries){0};
    }
}

/* The index of the first one with at least this tag; count when there is none. */
static uint32_t find(const struct deliveries *r, uint64_t tag) {
    if (r->count == 0)
        return 0;
    /* Tags without a gap are the rule. */
    uint64_t guess = tag - at(r, 0)->tag;
    if (guess < r->count && at(r, (uint32_t)guess)->tag == tag)
        return (uint32_t)guess;
    uint32_t low = 0, high = r->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (at(r, middle)->tag < tag)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void delivery_add(struct channel *c, const struct delivery *d) {
    struct deliveries *r = &c->unacked;
    if (r->count == r->cap)
        grow(r);
    *at(r, r->count++) = *d;
    d->queue->refs++;
    if (d->consumer != NULL)
        d->consumer->unacked++;
    if (!d->is_get)
        c->consumer_unacked++;
}

static void take(struct deliveries *r, uint32_t i, void (*f)(void *ctx, const struct delivery *d),
                 void *ctx) {
    struct delivery *d = at(r, i);
    if (d->id == 0)
        return;
    struct delivery taken = *d;
    d->id = 0;
    r->settled++;
    f(ctx, &taken);
}

/* Whether the one found for the tag is the one, and not settled. */
static bool is_out(const struct deliveries *r, uint32_t i, uint64_t tag) {
    return i < r->count && at(r, i)->tag == tag && at(r, i)->id != 0;
}

bool deliveries_take(struct channel *c, uint64_t tag, bool multiple,
                     void (*f)(void *ctx, const struct delivery *d), void *ctx) {
    struct deliveries *r = &c->unacked;
    uint32_t last;
    if (multiple && tag == 0) {
        last = r->count;
    } else {
        uint32_t i = find(r, tag);
        if (!is_out(r, i, tag))
            return false;
        last = i + 1;
        if (!multiple) {
            take(r, i, f, ctx);
            tidy(r);
            return true;
        }
    }
    for (uint32_t i = 0; i < last; i++)
        take(r, i, f, ctx);
    tidy(r);
    return true;
}

static int by_tag(const void *a, const void *b) {
    const struct delivery *x = a, *y = b;
    return x->tag < y->tag ? -1 : x->tag > y->tag;
}

void deliveries_put_back(struct channel *c, const struct delivery *items, size_t n) {
    struct deliveries *r = &c->unacked;
    if (n == 0)
        return;
    struct deliveries all = {.cap = RING_FIRST};
    while (all.cap < r->count + n)
        all.cap *= 2;
    all.items = mem_alloc(all.cap * sizeof *all.items);
    for (uint32_t i = 0; i < r->count; i++) {
        if (at(r, i)->id != 0)
            all.items[all.count++] = *at(r, i);
    }
    for (size_t i = 0; i < n; i++)
        all.items[all.count++] = items[i];
    qsort(all.items, all.count, sizeof *all.items, by_tag);
    free(r->items);
    *r = all;
}

/* -- what becomes of them -------------------------------------------------------------------- */

void delivery_settle(struct channel *c, const struct delivery *d, enum settle_action action) {
    struct amqp *a = c->session->amqp;
    if (!d->is_get)
        c->consumer_unacked--;
    settling_add(a, d->queue, d->id, d->lease, action); /* holds it in memory */
    d->queue->refs--;
    if (d->consumer != NULL) {
        queue_schedule(d->queue);
        consumer_settled(d->consumer);
    }
}

struct to_settle {
    struct channel *channel;
    enum settle_action action;
};

static void settle_taken(void *ctx, const struct delivery *d) {
    const struct to_settle *to = ctx;
    delivery_settle(to->channel, d, to->action);
}

static void after_settling(struct channel *c, enum settle_action action) {
    if (action != SETTLE_SUCCEED)
        settling_flush(c->session->amqp);
    if (c->prefetch_channel != 0)
        channel_schedule(c);
}

/* Of those up to `settle_to` so many, the oldest first; true when there are more. */
static bool settle_some(struct channel *c, uint32_t most) {
    struct to_settle to = {.channel = c, .action = c->settle_action};
    struct deliveries *r = &c->unacked;
    uint32_t i = 0;
    for (; i < r->count && at(r, i)->tag <= c->settle_to && i < most; i++)
        take(r, i, settle_taken, &to);
    bool has_more = i < r->count && at(r, i)->tag <= c->settle_to;
    tidy(r);
    after_settling(c, c->settle_action);
    return has_more;
}

static void link_unsettled(struct channel *c) {
    struct amqp *a = c->session->amqp;
    c->session->is_settling = true;
    c->next_unsettled = a->unsettled;
    c->link_unsettled = &a->unsettled;
    if (c->next_unsettled != NULL)
        c->next_unsettled->link_unsettled = &c->next_unsettled;
    a->unsettled = c;
}

static void unlink_unsettled(struct channel *c) {
    if (c->link_unsettled == NULL)
        return;
    c->session->is_settling = false;
    *c->link_unsettled = c->next_unsettled;
    if (c->next_unsettled != NULL)
        c->next_unsettled->link_unsettled = c->link_unsettled;
    c->link_unsettled = NULL;
}

bool deliveries_settle(struct channel *c, uint64_t tag, bool multiple, enum settle_action action) {
    struct to_settle to = {.channel = c, .action = action};
    if (!multiple) {
        if (!deliveries_take(c, tag, false, settle_taken, &to))
            return false;
        after_settling(c, action);
        return true;
    }
    if (tag != 0 && !is_out(&c->unacked, find(&c->unacked, tag), tag))
        return false;
    c->settle_to = tag != 0 ? tag : c->delivery_tag;
    c->settle_action = action;
    if (settle_some(c, LIMIT_AMQP_SETTLE))
        link_unsettled(c);
    return true;
}

static void tell_recovered(struct channel *c) {
    amqp_basic_recover_ok_t ok = {0};
    c->is_recovering = false;
    channel_send(c, true, AMQP_BASIC_RECOVER_OK_METHOD, &ok);
}

bool deliveries_settle_rest(struct amqp *a) {
    for (struct channel *c = a->unsettled, *next; c != NULL; c = next) {
        next = c->next_unsettled;
        if (settle_some(c, LIMIT_AMQP_SETTLE))
            continue;
        unlink_unsettled(c);
        if (c->is_recovering)
            tell_recovered(c);
        session_settled(c->session);
    }
    return a->unsettled != NULL;
}

void deliveries_recover(struct channel *c, bool tell) {
    (void)deliveries_settle(c, 0, true, SETTLE_RETURN);
    c->is_recovering = tell;
    if (tell && c->link_unsettled == NULL)
        tell_recovered(c);
}

/* What is left of a method that settles is given back, too, when its channel ends meanwhile. */
void deliveries_free(struct channel *c) {
    unlink_unsettled(c);
    c->settle_to = c->delivery_tag;
    c->settle_action = SETTLE_RETURN;
    bool has_more = settle_some(c, UINT32_MAX);
    assert(!has_more && c->unacked.count == 0);
    free(c->unacked.items);
    c->unacked = (struct deliveries){0};
}
