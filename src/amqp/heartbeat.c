/* Heartbeats, and what else is looked at now and then in every session. On the loop's clock: the
 * test clock has nothing to say here. */
#include "amqp/front.h"

#include <stddef.h>

enum { BEAT_MS = 1000, BEAT_FAST_MS = 250, FAST_BELOW_S = 4 };

/* After half an interval without output. A session whose output does not leave needs none. */
static void send_heartbeat(struct session *s, int64_t now) {
    if (now - s->sent_at < s->heartbeat_s * INT64_C(500) || conn_out_pending(s->conn) > 0)
        return;
    /* Past what waits for the disk: it tells of nothing but life. */
    frame_end(conn_out(s->conn), frame_begin(conn_out(s->conn), FRAME_HEARTBEAT, 0));
    conn_flush(s->conn);
    s->sent_at = now;
}

/* It is no silence when our disk or our work keeps us from reading. A client that is not read because it does not
 * read lives by what it takes: one that has stopped, but whose system keeps the connection, would else
 * hold its messages for ever. */
static void notice_life(struct session *s, int64_t now) {
    size_t unsent = conn_out_pending(s->conn);
    if (unsent < s->unsent || session_waits_for_us(s))
        s->heard_at = now;
    s->unsent = unsent;
}

/* Two intervals and a half of silence. */
static bool is_dead(const struct session *s, int64_t now) {
    return now - s->heard_at > s->heartbeat_s * INT64_C(2500);
}

static void look_at(struct session *s, int64_t now) {
    if (s->held.n == 0 && s->held.cap > 0)
        buf_release(&s->held);
    if (s->phase != OPEN || s->heartbeat_s == 0)
        return;
    notice_life(s, now);
    if (is_dead(s, now))
        conn_close(s->conn, CLOSE_TIMEOUT);
    else
        send_heartbeat(s, now);
}

static void on_beat(struct loop_timer *t) {
    struct amqp *a = (struct amqp *)(void *)((char *)t - offsetof(struct amqp, beat));
    int64_t now = loop_now(a->server->loop), after = BEAT_MS;
    struct session *following;
    session_look_at_disk(a);
    for (struct session *s = a->sessions; s != NULL; s = following) {
        following = s->next;
        if (s->heartbeat_s > 0 && s->heartbeat_s < FAST_BELOW_S)
            after = BEAT_FAST_MS;
        look_at(s, now); /* may close it */
    }
    a->is_beating = a->sessions != NULL;
    if (a->is_beating)
        loop_timer_start(t, after);
}

void heartbeat_start(struct amqp *a) {
    if (a->is_beating)
        return;
    a->is_beating = true;
    loop_timer_start(&a->beat, BEAT_FAST_MS);
}

void heartbeat_init(struct amqp *a) {
    loop_timer_init(a->server->loop, &a->beat, on_beat);
}

void heartbeat_release(struct amqp *a) {
    loop_timer_close(&a->beat);
}
