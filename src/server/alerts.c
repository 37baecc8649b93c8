#include "server/alerts.h"

#include "base/logging.h"
#include "base/mem.h"
#include "server/alerts_address.h"
#include "server/alerts_post.h"
#include "server/alerts_watch.h"
#include "server/server.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define LOOK_MS 2000
#define QUEUES_A_LOOK 32 /* the others at the next ones, in turn */

struct alerts {
    struct server *server;
    bool private_is_fine;
    struct alerts_post *post;
    struct watch **watches; /* of the queues with alerts, in no order */
    size_t count, cap;
    size_t next;     /* where the next look begins */
    int64_t look_at; /* not before */
    struct buf body;
};

/* -- which queues ---------------------------------------------------------------------------- */

/* NULL when the queue is none of them. Looked for from one to the other: few queues have alerts, and
 * only a changed policy and a person who reads a queue ask. */
static struct watch *find(const struct alerts *a, struct span queue) {
    for (size_t i = 0; i < a->count; i++) {
        if (span_equal(watch_name(a->watches[i]), queue))
            return a->watches[i];
    }
    return NULL;
}

static struct watch *add(struct alerts *a, struct span queue) {
    if (a->count == a->cap) {
        a->cap = a->cap == 0 ? 16 : a->cap * 2;
        a->watches = mem_grow(a->watches, a->cap * sizeof(struct watch *));
    }
    return a->watches[a->count++] = watch_new(queue);
}

static void drop(struct alerts *a, struct watch *w) {
    size_t i = 0;
    while (a->watches[i] != w)
        i++;
    a->watches[i] = a->watches[--a->count];
    watch_free(w);
}

static bool add_if_alerted(void *ctx, const struct queue_view *q) {
    if (q->texts->alerts.n > 0)
        add(ctx, q->name);
    return true;
}

struct alerts *alerts_new(struct server *server, bool private_is_fine) {
    struct alerts *a = mem_alloc(sizeof *a);
    a->server = server;
    a->private_is_fine = private_is_fine;
    a->post = alerts_post_new(server, private_is_fine);
    buf_init(&a->body, ALERT_BODY_MAX);
    enum err e = engine_queues(server->engine, span_of(NULL, 0), add_if_alerted, a);
    assert(e == OK);
    return a;
}

void alerts_free(struct alerts *a) {
    if (a == NULL)
        return;
    alerts_post_free(a->post);
    for (size_t i = 0; i < a->count; i++)
        watch_free(a->watches[i]);
    free(a->watches);
    buf_release(&a->body);
    free(a);
}

void alerts_note(struct alerts *a, struct span queue, int64_t now) {
    struct queue_view q;
    if (a == NULL || engine_queue_brief(a->server->engine, queue, &q) != OK)
        return;
    struct watch *w = find(a, queue);
    if (w == NULL && q.texts->alerts.n > 0)
        w = add(a, queue);
    if (w != NULL && !watch_update(w, a->server->engine, now))
        drop(a, w);
}

/* -- looking --------------------------------------------------------------------------------- */

/* False: the queue has no alerts any more. */
static bool look(struct alerts *a, struct watch *w, struct stopped_jobs *stopped, int64_t now) {
    struct engine *e = a->server->engine;
    struct queue_view q;
    if (!watch_update(w, e, now))
        return false;
    for (size_t i = 0; i < w->count; i++) {
        /* Anew for each: what it points to is valid until the engine is called again. */
        if (engine_queue(e, watch_name(w), &q) != OK)
            return false;
        if (i == 0)
            watch_look(w, &q, now);
        buf_clear(&a->body);
        if (!watch_ask(w, e, i, &q, stopped, now, &a->body))
            continue;
        enum err err =
            alerts_post_put(a->post, now, watch_name(w), &w->alerts[i], buf_span(&a->body));
        if (err == OK)
            watch_told(w, i, &q, now);
        else
            log_warn("an alert could not be told: %s", err_text(err)); /* the next look tries */
    }
    return true;
}

static void look_around(struct alerts *a, int64_t now) {
    struct stopped_jobs stopped = {0};
    size_t n = a->count < QUEUES_A_LOOK ? a->count : QUEUES_A_LOOK;
    for (size_t i = 0; i < n && a->count > 0; i++) {
        a->next = a->next < a->count ? a->next : 0;
        if (look(a, a->watches[a->next], &stopped, now))
            a->next++;
        else
            drop(a, a->watches[a->next]);
    }
}

void alerts_turn(struct alerts *a, int64_t now) {
    /* A test's clock stands, jumps and goes back: then each turn looks. */
    bool looks = a->server->test_clock || now >= a->look_at;
    if (looks && now > 0 && !a->server->draining) {
        a->look_at = now + LOOK_MS;
        look_around(a, now);
        alerts_post_look(a->post);
    }
    alerts_post_turn(a->post, now);
}

void alerts_drain(struct alerts *a) {
    alerts_post_break(a->post);
}

bool alerts_is_quiet(const struct alerts *a) {
    return !alerts_post_is_busy(a->post);
}

/* -- for the front end ----------------------------------------------------------------------- */

void alerts_check_urls(const struct alerts *a, struct span text, struct field_errors *errors) {
    if (a == NULL || text.n == 0)
        return;
    struct alert *alerts = mem_alloc(ALERTS_MAX * sizeof *alerts);
    size_t n = alerts_read(text, alerts, ALERTS_MAX);
    for (size_t i = 0; i < n; i++) {
        char field[48];
        snprintf(field, sizeof field, "alerts[%zu].url", i);
        enum alert_url url = alert_url_check(alerts[i].url);
        if (url == ALERT_URL_BROKEN)
            field_error_add(errors, "", field, "out_of_range", "must be a URL with a host");
        else if (url == ALERT_URL_PRIVATE && !a->private_is_fine)
            field_error_add(errors, "", field, "not_allowed",
                            "must not be a private address, unless the server is started with "
                            "--alerts-private");
    }
    free(alerts);
}

bool alerts_snooze(struct alerts *a, struct span queue, int64_t until) {
    struct watch *w = a == NULL ? NULL : find(a, queue);
    if (w == NULL)
        return false;
    w->snoozed_until = until;
    return true;
}

int64_t alerts_snoozed_until(const struct alerts *a, struct span queue, int64_t now) {
    const struct watch *w = a == NULL || a->count == 0 ? NULL : find(a, queue);
    return w != NULL && w->snoozed_until > now ? w->snoozed_until : 0;
}
