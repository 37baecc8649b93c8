/* Publishing: an exchange finds the queues, and each gets the message as its settings allow. */
#include "engine/engine_int.h"

#include <assert.h>

/* Into all that take it: as many in one frame as fit. */
static void put_all(struct engine *e, int64_t now, const struct message_new *m,
                    const struct publish *p, const enum intake *intakes, struct published *ret) {
    const struct routes *r = &e->published;
    size_t one = log_record_bytes(STATE_RECORD_BYTES, m->headers.n + m->payload.n + e->envelope.n);
    size_t most = log_frame_bytes_max(e->log) / one, left = 0;
    for (size_t i = 0; i < r->n; i++) {
        if (intakes[i] != INTAKE_TAKES)
            continue;
        if (left == 0) {
            if (ret->queues > 0)
                log_frame_end(e->log);
            left = r->n - i < most ? r->n - i : most;
            log_frame_begin(e->log, left * one);
        }
        struct record_message record =
            message_for(e, r->queues[i], now, m, p->expiration_ms, buf_span(&e->envelope));
        append_message(e, &record);
        ret->queues++;
        left--;
    }
    if (ret->queues > 0)
        log_frame_end(e->log);
}

/* Those that were full when the others took it: queues do not fill each other. */
static void put_rest(struct engine *e, int64_t now, const struct message_new *m,
                     const struct publish *p, const enum intake *intakes, struct published *ret) {
    const struct routes *r = &e->published;
    for (size_t i = 0; i < r->n; i++) {
        struct queue *q = r->queues[i];
        if (intakes[i] == INTAKE_TAKES)
            continue;
        if (intakes[i] == INTAKE_KILLS || intakes[i] == INTAKE_REFUSES_DEAD) {
            struct record_message record =
                message_for(e, q, now, m, p->expiration_ms, buf_span(&e->envelope));
            struct arrival a;
            arrival_plan(e, now, q, &record, log_frame_bytes_max(e->log) - 2 * LOG_DEATH_ROOM, &a);
            log_frame_begin(e->log, a.bytes);
            arrival_append(e, now, &record, &a);
            log_frame_end(e->log);
        }
        ret->queues += intakes[i] == INTAKE_KILLS;
        ret->refused += intakes[i] != INTAKE_KILLS;
    }
}

enum err engine_publish(struct engine *e, int64_t now, const struct publish *p,
                        struct published *ret) {
    *ret = (struct published){0};
    struct exchange *x = exchange_by_name(&e->st, p->exchange);
    if (!x)
        return ERR_NO_EXCHANGE;
    if (x->image.internal)
        return ERR_REFUSED;
    buf_clear(&e->envelope);
    envelope_pack(&e->envelope, p->envelope);
    size_t one = log_record_bytes(STATE_RECORD_BYTES, p->headers.n + p->payload.n + e->envelope.n);
    /* What dies on its arrival is written twice. */
    if (2 * one + LOG_DEATH_ROOM + LOG_STATE_ROOM > log_frame_bytes_max(e->log))
        return ERR_TOO_LARGE;
    const struct message_keys keys = {.keys = p->envelope->keys,
                                      .count = p->envelope->key_count,
                                      .headers = p->headers,
                                      .deaths = p->envelope};
    struct routes *r = &e->published;
    route(&e->st, x, &keys, r);
    if (r->n == 0)
        return OK;
    const struct message_new m = {.payload = p->payload,
                                  .headers = p->headers,
                                  .priority = p->priority,
                                  .delay_ms = -1,
                                  .ttl_ms = -1};
    buf_clear(&e->intakes);
    enum intake *intakes = (void *)buf_reserve(&e->intakes, r->n * sizeof *intakes);
    size_t room = 0;
    for (size_t i = 0; i < r->n; i++) {
        intakes[i] = intake_of(r->queues[i], 1, p->payload.n);
        room += intakes[i] == INTAKE_TAKES ? one : 2 * one + LOG_DEATH_ROOM;
    }
    if (!log_has_room(e->log, LOG_USE_ACCEPT, room))
        return ERR_DISK_FULL;
    put_all(e, now, &m, p, intakes, ret);
    put_rest(e, now, &m, p, intakes, ret);
    (void)relieve(e, now);
    return OK;
}
