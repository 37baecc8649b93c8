/* What of queues lives only in memory. An entry is there as long as something needs it: a consumer, a
 * delivery, an owner, an x-expires; a queue without any of these costs nothing here. */
#include "amqp/front.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/logging.h"
#include "base/mem.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS_FIRST 64
#define EXPIRE_RETRY_MS 1000

/* -- by name --------------------------------------------------------------------------------- */

static struct amqp_queue **bucket_of(struct amqp *a, struct span scoped) {
    return &a->buckets[hash64(scoped, 0) & (a->bucket_count - 1)];
}

static void grow_names(struct amqp *a) {
    unsigned old_count = a->bucket_count;
    struct amqp_queue **old = a->buckets;
    a->bucket_count = old_count ? old_count * 2 : BUCKETS_FIRST;
    a->buckets = mem_alloc(a->bucket_count * sizeof(struct amqp_queue *));
    for (unsigned i = 0; i < old_count; i++) {
        for (struct amqp_queue *q = old[i], *next; q != NULL; q = next) {
            next = q->next_of_bucket;
            struct amqp_queue **at = bucket_of(a, q->name);
            q->next_of_bucket = *at;
            *at = q;
        }
    }
    free(old);
}

struct amqp_queue *registry_find(struct amqp *a, struct span scoped) {
    if (a->bucket_count == 0)
        return NULL;
    struct amqp_queue *q = *bucket_of(a, scoped);
    while (q != NULL && !span_equal(q->name, scoped))
        q = q->next_of_bucket;
    return q;
}

struct amqp_queue *registry_need(struct amqp *a, struct span scoped) {
    struct amqp_queue *q = registry_find(a, scoped);
    if (q != NULL)
        return q;
    if (a->queue_count >= a->bucket_count)
        grow_names(a);
    /* the name lies behind it */
    q = mem_alloc(sizeof *q + scoped.n);
    uint8_t *name = (uint8_t *)(q + 1);
    if (scoped.n > 0)
        memcpy(name, scoped.p, scoped.n);
    q->amqp = a;
    q->name = span_of(name, scoped.n);
    q->expires_ms = -1;
    struct amqp_queue **at = bucket_of(a, scoped);
    q->next_of_bucket = *at;
    *at = q;
    a->queue_count++;
    return q;
}

static void unlink_name(struct amqp_queue *q) {
    struct amqp_queue **at = bucket_of(q->amqp, q->name);
    while (*at != q)
        at = &(*at)->next_of_bucket;
    *at = q->next_of_bucket;
    q->amqp->queue_count--;
}

/* -- by the engine's handle ------------------------------------------------------------------- */

static struct amqp_queue **watched_bucket(struct amqp *a, const struct queue *q) {
    uint64_t h = ((uintptr_t)q >> 4) * UINT64_C(0x9e3779b97f4a7c15);
    return &a->watched[(h >> 32) & (a->watched_bucket_count - 1)];
}

static void grow_watched(struct amqp *a) {
    unsigned old_count = a->watched_bucket_count;
    struct amqp_queue **old = a->watched;
    a->watched_bucket_count = old_count ? old_count * 2 : BUCKETS_FIRST;
    a->watched = mem_alloc(a->watched_bucket_count * sizeof(struct amqp_queue *));
    for (unsigned i = 0; i < old_count; i++) {
        for (struct amqp_queue *q = old[i], *next; q != NULL; q = next) {
            next = q->next_of_watched;
            struct amqp_queue **at = watched_bucket(a, q->watched);
            q->next_of_watched = *at;
            *at = q;
        }
    }
    free(old);
}

struct amqp_queue *registry_watched(struct amqp *a, const struct queue *q) {
    if (a->watched_bucket_count == 0)
        return NULL;
    struct amqp_queue *at = *watched_bucket(a, q);
    while (at != NULL && at->watched != q)
        at = at->next_of_watched;
    return at;
}

void registry_watch(struct amqp_queue *q) {
    struct amqp *a = q->amqp;
    if (q->watched != NULL)
        return;
    enum err e = engine_watch(a->server->engine, server_now(a->server), q->name, &q->watched);
    assert(e == OK); /* it is there: nothing is made */
    if (a->watched_count >= a->watched_bucket_count)
        grow_watched(a);
    struct amqp_queue **at = watched_bucket(a, q->watched);
    q->next_of_watched = *at;
    *at = q;
    a->watched_count++;
}

void registry_unwatch(struct amqp_queue *q) {
    struct amqp *a = q->amqp;
    if (q->watched == NULL)
        return;
    struct amqp_queue **at = watched_bucket(a, q->watched);
    while (*at != q)
        at = &(*at)->next_of_watched;
    *at = q->next_of_watched;
    a->watched_count--;
    engine_unwatch(a->server->engine, q->watched);
    q->watched = NULL;
}

/* -- life ------------------------------------------------------------------------------------ */

void registry_own(struct amqp_queue *q, struct session *s) {
    assert(q->owner == NULL);
    q->owner = s;
    q->next_owned = s->exclusive;
    q->link_owned = &s->exclusive;
    if (q->next_owned != NULL)
        q->next_owned->link_owned = &q->next_owned;
    s->exclusive = q;
}

static void disown(struct amqp_queue *q) {
    if (q->owner == NULL)
        return;
    *q->link_owned = q->next_owned;
    if (q->next_owned != NULL)
        q->next_owned->link_owned = q->link_owned;
    q->owner = NULL;
}

void registry_release(struct amqp_queue *q) {
    bool is_needed = q->refs > 0 || q->consumer_count > 0 || q->is_scheduled;
    if (!q->is_gone)
        is_needed = is_needed || q->owner != NULL || q->expires_ms >= 0;
    if (is_needed)
        return;
    registry_unwatch(q);
    if (!q->is_gone)
        unlink_name(q);
    free(q);
}

void registry_gone(struct amqp_queue *q) {
    if (q->is_gone)
        return;
    q->is_gone = true;
    unlink_name(q); /* one made anew under that name is another */
    disown(q);
    q->refs++;
    while (q->consumers != NULL)
        consumer_end(q->consumers);
    registry_unwatch(q);
    q->refs--;
    registry_release(q);
}

enum err registry_delete(struct amqp *a, struct span scoped, struct span actor,
                         const char *reason) {
    const struct act act = {.actor = actor, .reason = span_str(reason)};
    enum err e = engine_queue_delete(a->server->engine, server_now(a->server), scoped, true, &act);
    if (e != OK && e != ERR_NO_QUEUE)
        return e;
    struct amqp_queue *q = registry_find(a, scoped);
    if (q != NULL)
        registry_gone(q);
    return e;
}

void registry_session_end(struct session *s) {
    while (s->exclusive != NULL) {
        struct amqp_queue *q = s->exclusive;
        enum err e = registry_delete(s->amqp, q->name, span_str("amqp"), "its connection ended");
        if (e == OK || e == ERR_NO_QUEUE)
            continue;
        /* No room on the disk: later. */
        log_warn("an exclusive queue is not deleted yet: %s", err_text(e));
        disown(q);
        q->expires_ms = 0;
        q->used_at = server_now(s->amqp->server);
        s->amqp->expire_at = 0;
    }
}

/* -- x-expires -------------------------------------------------------------------------------- */

void registry_touch(struct amqp *a, struct span scoped, int64_t expires_ms) {
    struct amqp_queue *q = expires_ms >= 0 ? registry_need(a, scoped) : registry_find(a, scoped);
    if (q == NULL)
        return;
    q->used_at = server_now(a->server);
    q->expires_ms = expires_ms;
    if (expires_ms >= 0 && q->used_at + expires_ms < a->expire_at)
        a->expire_at = q->used_at + expires_ms;
    registry_release(q);
}

/* Uses that AMQP does not see: claims over HTTP, as those that wait. */
static void note_claims(struct amqp_queue *q, int64_t now) {
    struct queue_view v;
    if (engine_queue_brief(q->amqp->server->engine, q->name, &v) != OK)
        return;
    if (v.waiting > 0)
        q->used_at = now;
    else if (v.claimed_at > q->used_at)
        q->used_at = v.claimed_at;
}

/* The first of those after `from` in the table that has run out; NULL when there is none. *ret_next:
 * when the next one may. */
static struct amqp_queue *find_expired(struct amqp *a, int64_t now, unsigned *from,
                                       int64_t *ret_next) {
    for (; *from < a->bucket_count; (*from)++) {
        for (struct amqp_queue *q = a->buckets[*from]; q != NULL; q = q->next_of_bucket) {
            if (q->expires_ms < 0 || q->consumer_count > 0)
                continue;
            if (q->used_at + q->expires_ms <= now)
                note_claims(q, now);
            if (q->used_at + q->expires_ms <= now)
                return q;
            if (q->used_at + q->expires_ms < *ret_next)
                *ret_next = q->used_at + q->expires_ms;
        }
    }
    return NULL;
}

int64_t registry_expire(struct amqp *a, int64_t now) {
    struct span changed;
    int64_t expires_ms;
    /* It counts as used when that changes; those that were there before the start, at the start. */
    while (engine_expires_changed(a->server->engine, &changed, &expires_ms))
        registry_touch(a, changed, expires_ms);
    if (now < a->expire_at)
        return a->expire_at;
    int64_t next = TIME_NEVER;
    unsigned from = 0, budget = LIMIT_TICK_QUEUES;
    struct amqp_queue *q;
    while (next != now && (q = find_expired(a, now, &from, &next)) != NULL) {
        enum err e = registry_delete(a, q->name, span_str("amqp"), "x-expires");
        if (e != OK && e != ERR_NO_QUEUE) {
            next = now + EXPIRE_RETRY_MS;
            break;
        }
        if (--budget == 0)
            next = now; /* the rest in the next turn */
    }
    a->expire_at = next;
    return next;
}
