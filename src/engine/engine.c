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
    buf_init(&e->cause, SIZE_MAX);
    buf_init(&e->title, SIZE_MAX);
    buf_init(&e->heads, SIZE_MAX);
    buf_init(&e->texts[0], SIZE_MAX);
    buf_init(&e->texts[1], SIZE_MAX);
    buf_init(&e->result, SIZE_MAX);
    buf_init(&e->envelope, SIZE_MAX);
    buf_init(&e->onward, SIZE_MAX);
    buf_init(&e->facts, SIZE_MAX);
    buf_init(&e->intakes, SIZE_MAX);
    buf_init(&e->scoped, SIZE_MAX);
    e->emptied_seen = UINT64_MAX;
    e->ids = mem_alloc(RECORD_GONE_IDS * sizeof *e->ids);
    return e;
}

void engine_free(struct engine *e) {
    if (!e)
        return;
    state_release(&e->st);
    buf_release(&e->message);
    buf_release(&e->story);
    buf_release(&e->cause);
    buf_release(&e->title);
    buf_release(&e->heads);
    buf_release(&e->texts[0]);
    buf_release(&e->texts[1]);
    buf_release(&e->result);
    buf_release(&e->envelope);
    buf_release(&e->onward);
    buf_release(&e->facts);
    buf_release(&e->intakes);
    buf_release(&e->scoped);
    routes_release(&e->published);
    routes_release(&e->routed);
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
    for (uint32_t i = 1; i <= e->st.group_count; i++)
        if (e->st.groups[i] && !e->st.groups[i]->position)
            return false;
    for (uint32_t i = 0; i < e->st.job_count; i++)
        if (!e->st.jobs[i]->image.kind)
            return false;
    for (uint32_t i = 1; i <= e->st.topology.exchange_count; i++)
        if (exchange_at(&e->st, i) && !exchange_at(&e->st, i)->position)
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

size_t message_bytes(const struct record_message *r) {
    struct span data[MESSAGE_SPANS];
    record_message_spans(r, data);
    return log_record_bytes(STATE_RECORD_BYTES, spans_bytes(data, MESSAGE_SPANS));
}

void append_message(struct engine *e, const struct record_message *r) {
    uint8_t meta[RECORD_META_MAX];
    size_t n = record_message_put(meta, r);
    assert(n <= STATE_RECORD_BYTES);
    struct span data[MESSAGE_SPANS];
    record_message_spans(r, data);
    uint64_t position =
        log_record_append(e->log, RECORD_MESSAGE, span_of(meta, n), data, MESSAGE_SPANS);
    apply_message(&e->st, r, position, log_record_bytes(n, spans_bytes(data, MESSAGE_SPANS)));
}

static size_t event_bytes(const struct record_event *ev) {
    struct span data[EVENT_SPANS];
    record_event_spans(ev, data);
    return spans_bytes(data, EVENT_SPANS);
}

size_t state_bytes(const struct record_state *r) {
    return log_record_bytes(STATE_RECORD_BYTES, event_bytes(&r->event));
}

void append_state(struct engine *e, const struct record_state *r) {
    uint8_t meta[RECORD_META_MAX];
    size_t n = record_state_put(meta, r);
    assert(n <= STATE_RECORD_BYTES);
    struct span data[EVENT_SPANS];
    record_event_spans(&r->event, data);
    uint64_t position =
        log_record_append(e->log, RECORD_STATE, span_of(meta, n), data, EVENT_SPANS);
    apply_state(&e->st, r, position, log_record_bytes(n, spans_bytes(data, EVENT_SPANS)));
    assert(e->st.orphans == 0);
}

void append_history(struct engine *e, const struct record_history *r, uint64_t *ret_position) {
    uint8_t meta[RECORD_META_MAX];
    size_t n = record_history_put(meta, r);
    struct span data[EVENT_SPANS];
    record_event_spans(&r->event, data);
    uint64_t position =
        log_record_append(e->log, RECORD_HISTORY, span_of(meta, n), data, EVENT_SPANS);
    apply_history(&e->st, r, position, log_record_bytes(n, spans_bytes(data, EVENT_SPANS)));
    *ret_position = position;
}

size_t queue_bytes(const struct record_queue *r) {
    struct span data[QUEUE_SPANS];
    record_queue_spans(r, data);
    return log_record_bytes(RECORD_META_MAX, spans_bytes(data, QUEUE_SPANS));
}

void append_queue(struct engine *e, const struct record_queue *r) {
    uint8_t meta[RECORD_META_MAX];
    size_t n = record_queue_put(meta, r);
    struct span data[QUEUE_SPANS];
    record_queue_spans(r, data);
    uint64_t position =
        log_record_append(e->log, RECORD_QUEUE, span_of(meta, n), data, QUEUE_SPANS);
    apply_queue(&e->st, r, position, log_record_bytes(n, spans_bytes(data, QUEUE_SPANS)));
}

void append_gone(struct engine *e, const struct record_gone *r) {
    uint8_t meta[RECORD_GONE_META_MAX];
    size_t n = record_gone_put(meta, r);
    log_record_append(e->log, RECORD_GONE, span_of(meta, n), NULL, 0);
    apply_gone(&e->st, r);
    assert(e->st.orphans == 0);
}

size_t group_bytes(const struct record_group *r) {
    struct span data[GROUP_SPANS];
    size_t n = record_group_spans(r, data);
    return log_record_bytes(RECORD_META_MAX, spans_bytes(data, n));
}

void append_group(struct engine *e, const struct record_group *r) {
    uint8_t meta[RECORD_META_MAX];
    size_t n = record_group_put(meta, r);
    struct span data[GROUP_SPANS];
    size_t count = record_group_spans(r, data);
    uint64_t position = log_record_append(e->log, RECORD_GROUP, span_of(meta, n), data, count);
    apply_group(&e->st, r, position, log_record_bytes(n, spans_bytes(data, count)));
}

size_t job_bytes(const struct record_job *r) {
    struct span data[JOB_SPANS];
    size_t n = record_job_spans(r, data);
    return log_record_bytes(RECORD_META_MAX, spans_bytes(data, n));
}

void append_job(struct engine *e, const struct record_job *r) {
    uint8_t meta[RECORD_META_MAX];
    size_t n = record_job_put(meta, r);
    struct span data[JOB_SPANS];
    size_t count = record_job_spans(r, data);
    uint64_t position = log_record_append(e->log, RECORD_JOB, span_of(meta, n), data, count);
    apply_job(&e->st, r, position, log_record_bytes(n, spans_bytes(data, count)));
}

size_t audit_bytes(const struct audit_entry *entry) {
    struct span data[AUDIT_SPANS];
    record_audit_spans(entry, data);
    return log_record_bytes(STATE_RECORD_BYTES, spans_bytes(data, AUDIT_SPANS));
}

void append_audit(struct engine *e, const struct audit_entry *entry) {
    struct audit_entry r = *entry;
    r.number = e->st.next_audit;
    uint8_t meta[RECORD_META_MAX];
    size_t n = record_audit_put(meta, &r);
    struct span data[AUDIT_SPANS];
    record_audit_spans(&r, data);
    uint64_t position =
        log_record_append(e->log, RECORD_AUDIT, span_of(meta, n), data, AUDIT_SPANS);
    apply_audit(&e->st, &r, position, log_record_bytes(n, spans_bytes(data, AUDIT_SPANS)));
}

void append_exchange(struct engine *e, const struct record_exchange *r) {
    uint8_t meta[RECORD_META_MAX];
    size_t n = record_exchange_put(meta, r);
    struct span data[EXCHANGE_SPANS];
    record_exchange_spans(r, data);
    uint64_t position =
        log_record_append(e->log, RECORD_EXCHANGE, span_of(meta, n), data, EXCHANGE_SPANS);
    apply_exchange(&e->st, r, position, log_record_bytes(n, spans_bytes(data, EXCHANGE_SPANS)));
}

size_t exchange_bytes(const struct record_exchange *r) {
    struct span data[EXCHANGE_SPANS];
    record_exchange_spans(r, data);
    return log_record_bytes(STATE_RECORD_BYTES, spans_bytes(data, EXCHANGE_SPANS));
}

void append_binding(struct engine *e, const struct record_binding *r) {
    uint8_t meta[RECORD_META_MAX];
    size_t n = record_binding_put(meta, r);
    struct span data[BINDING_SPANS];
    record_binding_spans(r, data);
    uint64_t position =
        log_record_append(e->log, RECORD_BINDING, span_of(meta, n), data, BINDING_SPANS);
    apply_binding(&e->st, r, position, log_record_bytes(n, spans_bytes(data, BINDING_SPANS)));
}

size_t binding_bytes(const struct record_binding *r) {
    struct span data[BINDING_SPANS];
    record_binding_spans(r, data);
    return log_record_bytes(STATE_RECORD_BYTES, spans_bytes(data, BINDING_SPANS));
}

void append_pattern(struct engine *e, const struct record_pattern *r) {
    uint8_t meta[RECORD_META_MAX];
    size_t n = record_pattern_put(meta, r);
    struct span data[PATTERN_SPANS];
    record_pattern_spans(r, data);
    uint64_t position =
        log_record_append(e->log, RECORD_PATTERN, span_of(meta, n), data, PATTERN_SPANS);
    apply_pattern(&e->st, r, position, log_record_bytes(n, spans_bytes(data, PATTERN_SPANS)));
}

size_t pattern_bytes(const struct record_pattern *r) {
    struct span data[PATTERN_SPANS];
    record_pattern_spans(r, data);
    return log_record_bytes(STATE_RECORD_BYTES, spans_bytes(data, PATTERN_SPANS));
}

void append_bare(struct engine *e, enum record_type type, const uint8_t *meta, size_t n) {
    log_record_append(e->log, (uint8_t)type, span_of(meta, n), NULL, 0);
}

void emit_state(struct engine *e, const struct record_state *r) {
    log_frame_begin(e->log, state_bytes(r));
    append_state(e, r);
    log_frame_end(e->log);
}

void emit_queue(struct engine *e, const struct record_queue *r) {
    log_frame_begin(e->log, queue_bytes(r));
    append_queue(e, r);
    log_frame_end(e->log);
}

void emit_gone(struct engine *e, const struct record_gone *r) {
    log_frame_begin(e->log, log_record_bytes(RECORD_GONE_META_MAX, 0));
    append_gone(e, r);
    log_frame_end(e->log);
}

void emit_engine(struct engine *e) {
    const struct record_engine r = engine_image(&e->st);
    uint8_t meta[RECORD_META_MAX];
    size_t n = record_engine_put(meta, &r), bytes = log_record_bytes(n, 0);
    log_frame_begin(e->log, bytes);
    uint64_t position = log_record_append(e->log, RECORD_ENGINE, span_of(meta, n), NULL, 0);
    log_frame_end(e->log);
    apply_engine(&e->st, &r, position, bytes);
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
    struct letter_image *l = &r.image.letter;
    /* What a cancelled job left over is nobody's. */
    if (l->job_part == JOB_PART_REMAINING) {
        const struct job *j = job_by_number(&e->st, l->job);
        if (!j || job_has_ended(j))
            l->job_part = JOB_PART_NONE;
    }
    r.job_was = l->job_part;
    return r;
}

struct act act_cut(const struct act *act) {
    return (struct act){.actor = span_cut_utf8(act->actor, LIMIT_ACTOR),
                        .reason = span_cut_utf8(act->reason, LIMIT_AUDIT_REASON)};
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
        .groups = e->st.live_groups,
        .jobs_active = e->st.jobs_active,
        .audit_entries = e->st.audit.count,
        .audit_first = e->st.audit.count ? e->st.audit.first : 0,
    };
}
