/* What people do with one dead letter. Each is one frame: the change, and who did it and why. */
#include "engine/guard.h"

#include <assert.h>
#include <stdio.h>

/* A story's line says who did it. */
static void sign(struct record_event *ev, const struct act *who) {
    ev->worker = who->actor;
}

static struct audit_entry entry_of(const struct queue *q, int64_t now, enum audit_action action,
                                   uint64_t id, const struct act *who) {
    return (struct audit_entry){.at = now,
                                .action = action,
                                .count = 1,
                                .target = id,
                                .queue = span_of(q->name, q->name_bytes),
                                .actor = who->actor,
                                .reason = who->reason};
}

static enum err emit_audited(struct engine *e, const struct record_state *r,
                             const struct audit_entry *entry) {
    size_t bytes = state_bytes(r) + audit_bytes(entry);
    if (!log_has_room(e->log, LOG_USE_SETTLE, bytes))
        return ERR_DISK_FULL;
    log_frame_begin(e->log, bytes);
    append_state(e, r);
    append_audit(e, entry);
    log_frame_end(e->log);
    return OK;
}

static enum err find_letter(const struct engine *e, struct span queue, uint64_t id,
                            enum state state, uint32_t *ret_slot) {
    enum err r = find_message(e, queue, id, ret_slot);
    if (r == OK && slot_at(&e->st, *ret_slot)->state != state)
        r = ERR_WRONG_STATE;
    return r;
}

/* -- sending again --------------------------------------------------------------------------- */

void send_again(struct engine *e, const struct slot *s, int64_t now, struct record_state *r) {
    struct record_message m = {0};
    struct queue *q = queue_at(&e->st, s->queue);
    /* One that came in dead has never stood in line. */
    bool wants_place = q->policy.order != ORDER_NONE && !r->image.is_ordered;
    if (r->image.expires_at || wants_place)
        read_message(e, s, &e->message, &m);
    if (wants_place)
        take_place(&r->image, q, m.id, m.key);
    r->image.state = STATE_PENDING;
    r->image.reason = REASON_NONE;
    r->image.retry_count = 0;
    r->image.next_at = 0;
    r->image.expires_at = m.ttl_ms ? now + m.ttl_ms : 0;
    r->image.letter.dead_seq = 0;
    r->image.letter.deliveries_before = r->image.deliveries;
    if (r->image.letter.redrive_count < REDRIVE_COUNT_MOST)
        r->image.letter.redrive_count++;
    redrive_note(q, r->image.letter.redrive_count);
}

static enum err may_send_again(const struct engine *e, const struct slot *s) {
    const struct letter *l = slot_letter(&e->st, s);
    if (l->edited_to)
        return ERR_EDITED;
    if (l->redrive_count >= queue_at(&e->st, s->queue)->policy.redrive_limit)
        return ERR_REDRIVE_LIMIT;
    return OK;
}

enum err engine_replay(struct engine *e, int64_t now, struct span queue, uint64_t id, bool force,
                       bool clear_deaths, const struct act *act) {
    uint32_t i;
    enum err err = find_letter(e, queue, id, STATE_DEAD, &i);
    struct slot *s = err == OK ? slot_at(&e->st, i) : NULL;
    if (err == OK && !force)
        err = may_send_again(e, s);
    if (err != OK)
        return err;
    struct act who = act_cut(act);
    struct record_state r = change_of(e, s, now, EVENT_REPLAYED);
    sign(&r.event, &who);
    send_again(e, s, now, &r);
    r.image.letter.job_part = JOB_PART_NONE;
    struct audit_entry entry = entry_of(queue_at(&e->st, s->queue), now, AUDIT_REPLAY, id, &who);
    entry.result = span_str(force ? "sent again, forced" : "sent again");
    size_t bytes = state_bytes(&r) + audit_bytes(&entry);
    struct renewal renewal;
    renewal_plan(e, s, clear_deaths, &bytes, &renewal);
    if (!log_has_room(e->log, LOG_USE_SETTLE, bytes))
        err = ERR_DISK_FULL;
    if (err == OK) {
        log_frame_begin(e->log, bytes);
        renewal_append(e, s, &renewal, &r);
        append_state(e, &r);
        append_audit(e, &entry);
        log_frame_end(e->log);
    }
    renewal_release(&renewal);
    (void)relieve(e, now);
    return err;
}

static void pack_anew(struct engine *e, const struct envelope *v, struct record_message *m) {
    /* One may have been packed there before, and v point into it. */
    struct buf packed;
    buf_init(&packed, SIZE_MAX);
    envelope_pack(&packed, v);
    buf_clear(&e->onward);
    buf_add_span(&e->onward, buf_span(&packed));
    buf_release(&packed);
    m->envelope = buf_span(&e->onward);
}

/* Its headers were changed: those that its properties tell are no longer its own. Where it was
 * published to, and died, is kept. */
void forget_properties(struct engine *e, struct record_message *m) {
    if (m->envelope.n == 0)
        return;
    struct envelope v;
    enum err err = envelope_unpack(m->envelope, &v);
    assert(err == OK);
    v.properties = (struct span){0};
    pack_anew(e, &v, m);
}

bool forget_deaths(struct engine *e, struct record_message *m) {
    struct envelope v;
    enum err err = envelope_unpack(m->envelope, &v);
    assert(err == OK);
    if (v.death_count == 0)
        return false;
    v.death_count = 0;
    pack_anew(e, &v, m);
    return true;
}

void renewal_plan(struct engine *e, const struct slot *s, bool is_wanted, size_t *bytes,
                  struct renewal *ret) {
    *ret = (struct renewal){0};
    if (!is_wanted)
        return;
    struct record_message *m = &ret->message;
    read_message(e, s, &e->message, m);
    ret->is_needed = forget_deaths(e, m);
    if (!ret->is_needed)
        return;
    m->how = MESSAGE_CARRIED;
    m->queue = queue_at(&e->st, s->queue)->number;
    m->image = slot_image(&e->st, s);
    m->idempotency_until = slot_extra(&e->st, s)->idempotency_until;
    carry_plan(e, s, m, &ret->carry);
    if (ret->carry.bytes + *bytes > log_frame_bytes_max(e->log)) {
        ret->carry.count = 0; /* its story makes way */
        ret->carry.bytes = message_bytes(m);
    }
    *bytes += ret->carry.bytes;
}

void renewal_append(struct engine *e, const struct slot *s, struct renewal *n,
                    struct record_state *r) {
    if (!n->is_needed)
        return;
    carry_append(e, &n->message, &n->carry);
    r->event.previous = slot_extra(&e->st, s)->history;
}

void renewal_release(struct renewal *n) {
    if (n->is_needed)
        carry_release(&n->carry);
}

/* -- an edited copy -------------------------------------------------------------------------- */

enum err engine_edit(struct engine *e, int64_t now, struct span queue, uint64_t id,
                     const struct edit *edit, const struct act *act, uint64_t *ret_id) {
    uint32_t i;
    enum err err = find_letter(e, queue, id, STATE_DEAD, &i);
    if (err != OK)
        return err;
    const struct slot *s = slot_at(&e->st, i);
    if (!edit->force && (err = may_send_again(e, s)) != OK)
        return err;
    struct record_message copy;
    read_message(e, s, &e->message, &copy);
    copy_of(e, s, now, &copy);
    if (edit->has_payload)
        copy.payload = edit->payload;
    if (edit->has_headers) {
        copy.headers = edit->headers;
        forget_properties(e, &copy);
    }

    const struct queue *q = queue_at(&e->st, s->queue);
    struct act who = act_cut(act);
    struct record_state r = change_of(e, s, now, EVENT_EDITED);
    sign(&r.event, &who);
    char number[24];
    snprintf(number, sizeof number, "%llu", (unsigned long long)copy.id);
    r.event.error = span_str(number);
    r.image.letter.edited_to = copy.id;
    r.image.letter.job_part = JOB_PART_NONE;
    struct audit_entry entry = entry_of(q, now, AUDIT_EDIT, id, &who);
    buf_clear(&e->result);
    buf_printf(&e->result, "copy %s", number);
    entry.result = buf_span(&e->result);

    size_t bytes = message_bytes(&copy) + state_bytes(&r) + audit_bytes(&entry);
    if (bytes > log_frame_bytes_max(e->log))
        return ERR_TOO_LARGE;
    if (!queue_fits(q, 1, copy.payload.n))
        return ERR_QUEUE_FULL;
    if (!log_has_room(e->log, LOG_USE_ACCEPT, bytes))
        return ERR_DISK_FULL;
    log_frame_begin(e->log, bytes);
    append_message(e, &copy);
    append_state(e, &r);
    append_audit(e, &entry);
    log_frame_end(e->log);
    *ret_id = copy.id;
    (void)relieve(e, now);
    return OK;
}

void copy_of(struct engine *e, const struct slot *s, int64_t now, struct record_message *m) {
    const struct letter *l = slot_letter(&e->st, s);
    const struct line_place *p = slot_line_place(&e->st, s);
    const struct queue *q = queue_at(&e->st, s->queue);
    m->parent_id = m->id;
    m->trail = (struct span){0};
    m->id = e->st.next_id;
    m->queue = q->number;
    m->how = MESSAGE_COPIED;
    m->created_at = now;
    m->idempotency_until = 0;
    m->origin = (struct span){0};
    m->image = (struct message_image){
        .state = STATE_PENDING,
        .max_retries = (uint8_t)s->max_retries,
        .priority = (uint8_t)s->priority,
        .updated_at = now,
        .expires_at = m->ttl_ms ? now + m->ttl_ms : 0,
        .is_ordered = p != NULL,
        .order_key = p ? p->key : 0,
        .order_rank = p ? p->rank : 0,
        .has_letter = true,
        .letter = {.redrive_count = l->redrive_count < REDRIVE_COUNT_MOST
                                        ? (uint16_t)(l->redrive_count + 1)
                                        : l->redrive_count,
                   .version = VERSION_NONE},
    };
    if (!p)
        take_place(&m->image, q, m->id, m->key);
}

/* -- ending it ------------------------------------------------------------------------------- */

void discard_change(struct record_state *r, int64_t now, enum discard_reason why,
                    struct span text) {
    r->image.state = STATE_DISCARDED;
    r->image.next_at = now + LIMIT_UNDISCARD_MS;
    r->image.letter.job_part = JOB_PART_NONE;
    r->event.error_class = span_str(discard_reason_name(why));
    r->event.error = text;
}

enum err engine_discard(struct engine *e, int64_t now, struct span queue, uint64_t id,
                        enum discard_reason why, const struct act *act) {
    uint32_t i;
    enum err err = find_letter(e, queue, id, STATE_DEAD, &i);
    if (err != OK)
        return err;
    const struct slot *s = slot_at(&e->st, i);
    struct act who = act_cut(act);
    struct record_state r = change_of(e, s, now, EVENT_DISCARDED);
    sign(&r.event, &who);
    discard_change(&r, now, why, who.reason);
    struct audit_entry entry = entry_of(queue_at(&e->st, s->queue), now, AUDIT_DISCARD, id, &who);
    entry.result = span_str(discard_reason_name(why));
    return emit_audited(e, &r, &entry);
}

enum err engine_undiscard(struct engine *e, int64_t now, struct span queue, uint64_t id,
                          const struct act *act) {
    uint32_t i;
    enum err err = find_letter(e, queue, id, STATE_DISCARDED, &i);
    if (err != OK)
        return err;
    const struct slot *s = slot_at(&e->st, i);
    struct act who = act_cut(act);
    struct record_state r = change_of(e, s, now, EVENT_UNDISCARDED);
    sign(&r.event, &who);
    r.image.state = STATE_DEAD;
    r.image.next_at = 0;
    r.image.letter.dead_seq = e->st.next_dead_seq;
    struct audit_entry entry = entry_of(queue_at(&e->st, s->queue), now, AUDIT_UNDISCARD, id, &who);
    entry.result = span_str("dead again");
    return emit_audited(e, &r, &entry);
}
