#include "engine/engine_int.h"

#include "base/mem.h"

#include <assert.h>
#include <stdlib.h>

struct engine *engine_new(uint64_t seed) {
    struct engine *e = mem_alloc(sizeof *e);
    state_init(&e->st, seed);
    rng_seed(&e->rng, seed);
    buf_init(&e->message, SIZE_MAX);
    buf_init(&e->story, SIZE_MAX);
    e->ids = mem_alloc(RECORD_GONE_IDS * sizeof *e->ids);
    return e;
}

void engine_free(struct engine *e) {
    if (!e)
        return;
    state_release(&e->st);
    buf_release(&e->message);
    buf_release(&e->story);
    free(e->ids);
    free(e);
}

static enum err recover_record(void *ctx, const struct log_record *r) {
    struct engine *e = ctx;
    return apply_record(&e->st, r);
}

struct log_reader engine_reader(struct engine *e) {
    return (struct log_reader){.ctx = e, .record = recover_record};
}

bool engine_is_whole(const struct engine *e) {
    if (e->st.orphans)
        return false;
    for (uint32_t i = e->st.oldest_queue; i; i = queue_at(&e->st, i)->newer)
        if (!queue_at(&e->st, i)->name)
            return false;
    return true;
}

void engine_attach(struct engine *e, struct log *log) {
    assert(engine_is_whole(e));
    e->log = log;
    e->clean_end_seen = log_end(log);
    if (e->st.engine_position == 0)
        emit_engine(e);
}

/* -- records: written, then applied ---------------------------------------------------------- */

void event_data(const struct record_event *ev, struct span out[static 5]) {
    out[0] = ev->worker;
    out[1] = ev->worker_version;
    out[2] = ev->error_class;
    out[3] = ev->error;
    out[4] = ev->detail;
}

size_t event_data_bytes(const struct record_event *ev) {
    return ev->worker.n + ev->worker_version.n + ev->error_class.n + ev->error.n + ev->detail.n;
}

void emit_state(struct engine *e, const struct record_state *r) {
    uint8_t meta[RECORD_META_MAX];
    size_t n = record_state_put(meta, r);
    struct span data[5];
    event_data(&r->event, data);
    size_t bytes = log_record_bytes(n, event_data_bytes(&r->event));
    log_frame_begin(e->log, bytes);
    uint64_t position = log_record_append(e->log, RECORD_STATE, span_of(meta, n), data, 5);
    log_frame_end(e->log);
    apply_state(&e->st, r, position, bytes);
    assert(e->st.orphans == 0);
}

void emit_queue(struct engine *e, const struct record_queue *r) {
    uint8_t meta[RECORD_META_MAX];
    size_t n = record_queue_put(meta, r), bytes = log_record_bytes(n, 0);
    log_frame_begin(e->log, bytes);
    uint64_t position = log_record_append(e->log, RECORD_QUEUE, span_of(meta, n), NULL, 0);
    log_frame_end(e->log);
    apply_queue(&e->st, r, position, bytes);
}

void emit_gone(struct engine *e, const struct record_gone *r) {
    uint8_t meta[RECORD_GONE_META_MAX];
    size_t n = record_gone_put(meta, r);
    log_frame_begin(e->log, log_record_bytes(n, 0));
    log_record_append(e->log, RECORD_GONE, span_of(meta, n), NULL, 0);
    log_frame_end(e->log);
    apply_gone(&e->st, r);
    assert(e->st.orphans == 0);
}

void emit_engine(struct engine *e) {
    struct record_engine r = {
        .next_id = e->st.next_id, .next_queue = e->st.next_queue, .deleted = e->st.deleted};
    uint8_t meta[RECORD_META_MAX];
    size_t n = record_engine_put(meta, &r), bytes = log_record_bytes(n, 0);
    log_frame_begin(e->log, bytes);
    uint64_t position = log_record_append(e->log, RECORD_ENGINE, span_of(meta, n), NULL, 0);
    log_frame_end(e->log);
    apply_engine(&e->st, &r, position, bytes);
}

static size_t message_data_bytes(const struct record_message *r) {
    return r->headers.n + r->key.n + r->payload.n;
}

size_t message_record_bytes_max(const struct record_message *r) {
    return log_record_bytes(STATE_RECORD_BYTES, message_data_bytes(r));
}

void append_message(struct engine *e, const struct record_message *r) {
    uint8_t meta[RECORD_META_MAX];
    size_t n = record_message_put(meta, r);
    assert(n <= STATE_RECORD_BYTES);
    struct span data[3] = {r->headers, r->key, r->payload};
    uint64_t position = log_record_append(e->log, RECORD_MESSAGE, span_of(meta, n), data, 3);
    apply_message(&e->st, r, position, log_record_bytes(n, message_data_bytes(r)));
}

/* -- shared by the verbs --------------------------------------------------------------------- */

enum err find_message(const struct engine *e, struct span queue, uint64_t id, uint32_t *ret_slot) {
    const struct queue *q = queue_by_name(&e->st, queue);
    if (!q)
        return ERR_NO_QUEUE;
    uint32_t i = slot_find(&e->st, id);
    if (!i || slot_at(&e->st, i)->queue != q->place)
        return ERR_NO_MESSAGE;
    *ret_slot = i;
    return OK;
}

struct record_state change_of(const struct engine *e, const struct slot *s, int64_t now,
                              enum event event) {
    struct record_state r = {
        .id = s->id,
        .queue = queue_at(&e->st, s->queue)->number,
        .image = slot_image(&e->st, s),
        .event = {.event = event,
                  .attempt = (uint32_t)s->deliveries,
                  .previous = slot_extra(&e->st, s)->history},
    };
    r.image.updated_at = now;
    return r;
}

static void die(const struct engine *e, struct record_state *r, const struct slot *s, int64_t now,
                enum reason reason) {
    const struct queue *q = queue_at(&e->st, s->queue);
    r->image.state = STATE_DEAD;
    r->image.reason = reason;
    r->image.is_retry = false;
    r->image.died_at = now;
    r->image.dead_seq = q->next_dead_seq;
    r->image.next_at = q->policy.keep_dead_ms ? now + q->policy.keep_dead_ms : 0;
}

void fail_message(struct engine *e, struct slot *s, int64_t now, const struct failure *f) {
    struct record_state r = change_of(e, s, now, f->event);
    const struct queue *q = queue_at(&e->st, s->queue);
    r.event.error_class = f->error_class;
    r.event.error = f->error;
    r.event.detail = f->detail;
    r.image.retry_count++;
    if (f->permanent) {
        die(e, &r, s, now, REASON_PERMANENT);
    } else if (r.image.retry_count >= r.image.max_retries) {
        die(e, &r, s, now,
            f->event == EVENT_LEASE_EXPIRED ? REASON_LEASE_EXPIRED : REASON_MAX_RETRIES);
    } else {
        int64_t delay = f->delay_ms;
        if (delay < 0)
            delay = backoff_delay_ms(&q->policy.backoff, r.image.retry_count, rng_u64(&e->rng));
        r.image.state = STATE_PENDING;
        r.image.next_at = now + delay;
        r.image.is_retry = true;
    }
    emit_state(e, &r);
}

void expire_message(struct engine *e, struct slot *s, int64_t now) {
    struct record_state r = change_of(e, s, now, EVENT_EXPIRED);
    die(e, &r, s, now, REASON_EXPIRED);
    emit_state(e, &r);
}

void read_message(struct engine *e, const struct slot *s, struct buf *into,
                  struct record_message *ret) {
    struct span meta, data;
    (void)log_record_read(e->log, slot_position(s), slot_record_bytes(s), into, &meta, &data);
    enum err r = record_message_get(meta, data, ret);
    assert(r == OK && ret->id == s->id);
}

void read_event(struct engine *e, uint64_t position, struct buf *into, struct record_event *ret,
                size_t *ret_bytes) {
    struct span meta, data;
    *ret_bytes = log_record_size(e->log, position);
    uint8_t type = log_record_read(e->log, position, *ret_bytes, into, &meta, &data);
    struct record_state state;
    struct record_history line;
    enum err r = type == RECORD_STATE ? record_state_get(meta, data, &state)
                                      : record_history_get(meta, data, &line);
    assert(r == OK);
    *ret = type == RECORD_STATE ? state.event : line.event;
}

struct engine_stats engine_stats(const struct engine *e) {
    return (struct engine_stats){
        .queues = e->st.live_queues,
        .messages = e->st.messages,
        .live_bytes = e->st.live_bytes,
        .deleted = e->st.deleted,
        .cleaned_bytes = e->cleaned_bytes,
    };
}
