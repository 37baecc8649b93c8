/* In what order the engine did what it does of itself: read from the frames it has just appended, which
 * are still in the log's memory. */
#include "sim/broker_world.h"

#include "base/mem.h"
#include "engine/engine_int.h"
#include "log/log_int.h"

#include <assert.h>

static unsigned frame; /* that is looked at */

static struct doing *add(struct broker_op *op, enum doing_kind kind, uint64_t id, bool is_death) {
    if (op->doing_count == op->doing_cap) {
        op->doing_cap = op->doing_cap ? op->doing_cap * 2 : 8;
        op->doings = mem_grow(op->doings, op->doing_cap * sizeof *op->doings);
    }
    op->doings[op->doing_count] =
        (struct doing){.kind = kind, .id = id, .frame = frame, .is_death = is_death};
    return &op->doings[op->doing_count++];
}

static void look_at_state(struct broker_op *op, const struct record_state *r) {
    enum event event = r->event.event;
    bool is_dead = r->image.state == STATE_DEAD;
    if (event == EVENT_REDRIVEN)
        add(op, DOING_SENT, r->id, false);
    else if (event == EVENT_LEASE_EXPIRED)
        add(op, DOING_LEASE, r->id, is_dead);
    else if (is_dead && event == EVENT_EXPIRED && r->image.reason == REASON_EXPIRED)
        add(op, DOING_EXPIRES, r->id, true);
    else if (is_dead && event == EVENT_EXPIRED && r->image.reason == REASON_MAX_LENGTH)
        add(op, DOING_LENGTH, r->id, true);
    else if (is_dead && (event == EVENT_FAILED || event == EVENT_EXPIRED))
        add(op, DOING_DIES, r->id, true);
}

/* It died in the same frame. */
static void look_at_message(struct broker_op *op, const struct record_message *r) {
    if (r->how == MESSAGE_ACCEPTED && r->image.state == STATE_DEAD)
        add(op, DOING_DIES, r->id, true);
    for (size_t i = op->doing_count; r->how == MESSAGE_MOVED && i-- > 0;)
        if (op->doings[i].id == r->id) {
            op->doings[i].went = true;
            break;
        }
}

static void look_at_gone(struct broker_op *op, const struct record_gone *r) {
    if (r->cause != GONE_EXPIRED && r->cause != GONE_MAX_LENGTH)
        return;
    for (uint32_t i = 0; i < r->count; i++)
        add(op, r->cause == GONE_EXPIRED ? DOING_EXPIRES : DOING_LENGTH, r->ids[i], true);
}

static void look_at(struct broker_op *op, uint8_t type, struct span meta, struct span data) {
    struct record_state state;
    struct record_message message;
    struct record_gone gone;
    uint64_t number, ids[RECORD_GONE_IDS];
    enum err e = OK;
    if (type == RECORD_STATE && (e = record_state_get(meta, data, &state)) == OK)
        look_at_state(op, &state);
    else if (type == RECORD_MESSAGE && (e = record_message_get(meta, data, &message)) == OK)
        look_at_message(op, &message);
    else if (type == RECORD_GONE && (e = record_gone_get(meta, ids, &gone)) == OK)
        look_at_gone(op, &gone);
    else if (type == RECORD_EXCHANGE_GONE && (e = record_number_get(meta, &number)) == OK)
        add(op, DOING_EXCHANGE_GONE, number, false);
    assert(e == OK);
}

static const uint8_t *bytes_in(const struct chunk_list *list, uint64_t position) {
    for (const struct chunk *c = list->first; c; c = c->next)
        if (position >= c->position && position < c->position + c->n)
            return c->p + (position - c->position);
    return NULL;
}

/* (A control may have written some of them in the middle of the operation.) */
static const uint8_t *bytes_at(const struct log *log, uint64_t position) {
    const uint8_t *p = bytes_in(&log->filling, position);
    return p ? p : bytes_in(&log->taken, position);
}

static void look_at_frame(struct broker_op *op, const uint8_t *p, const struct frame_header *h) {
    p += FRAME_HEADER_BYTES;
    for (size_t at = 0; at < h->body_bytes;) {
        struct record_header r = record_header_get(p + at);
        const uint8_t *meta = p + at + RECORD_HEADER_BYTES;
        look_at(op, r.type, span_of(meta, r.meta_bytes),
                span_of(meta + r.meta_bytes, r.data_bytes));
        at += align8(RECORD_HEADER_BYTES + (size_t)r.meta_bytes + r.data_bytes);
    }
}

/* Of what waited with a full disk: whose wait is over now. */
static void look_at_waits(struct world *w, struct broker_op *op) {
    struct engine_state *st = &w->engine->st;
    const struct broker *b = &w->broker->live;
    for (size_t i = 0; i < b->message_count; i++) {
        uint32_t slot = slot_find(st, b->messages[i].id);
        bool was_dropped = false;
        for (size_t k = 0; k < op->doing_count; k++)
            was_dropped |=
                op->doings[k].kind == DOING_LENGTH && op->doings[k].id == b->messages[i].id;
        if (b->messages[i].waiting &&
            (was_dropped || (slot && slot_set(slot_at(st, slot)) == SET_READY)))
            add(op, DOING_WAIT_ENDS, b->messages[i].id, false);
    }
}

void broker_look(struct world *w, struct broker_op *op) {
    uint64_t segment = w->log->segment_bytes;
    frame = 0;
    for (uint64_t at = op->begin; at < op->end;) {
        const uint8_t *p = bytes_at(w->log, at);
        struct frame_header h = p ? frame_header_get(p) : (struct frame_header){0};
        if (!p || h.kind == FRAME_END) { /* it goes on in the next segment */
            at = (at / segment + 1) * segment + SEGMENT_HEADER_BYTES;
            continue;
        }
        frame++;
        if (h.kind == FRAME_DATA)
            look_at_frame(op, p, &h);
        at += FRAME_HEADER_BYTES + h.body_bytes;
    }
    if (op->kind == BROKER_TICK && op->full)
        look_at_waits(w, op);
}
