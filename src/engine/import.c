/* Letters from elsewhere land as dead, with their story, all of a batch or none. */
#include "engine/engine_int.h"

#include "model/fingerprint.h"

#include <assert.h>

/* -- what is there already ------------------------------------------------------------------- */

static enum imported look(struct engine *e, const struct queue *q, const struct letter_new *items,
                          size_t at) {
    for (size_t i = 0; i < at; i++)
        if (items[i].id == items[at].id)
            return items[i].created_at == items[at].created_at ? IMPORT_KNOWN : IMPORT_ID_TAKEN;
    uint32_t slot = slot_find(&e->st, items[at].id);
    if (!slot)
        return IMPORT_NEW;
    const struct slot *s = slot_at(&e->st, slot);
    struct record_message m;
    read_message(e, s, &e->message, &m);
    bool is_same = q && s->queue == q->place && m.created_at == items[at].created_at;
    return is_same ? IMPORT_KNOWN : IMPORT_ID_TAKEN;
}

/* -- one letter ------------------------------------------------------------------------------ */

static bool is_failure(const struct letter_attempt *a) {
    return a->event == EVENT_FAILED || a->event == EVENT_LEASE_EXPIRED;
}

/* Its newest failure since it was last sent again; NULL = none. */
static const struct letter_attempt *last_failure(const struct letter_new *l) {
    for (size_t i = l->attempt_count; i > 0; i--) {
        const struct letter_attempt *a = &l->attempts[i - 1];
        if (is_failure(a))
            return a;
        if (a->event == EVENT_REPLAYED || a->event == EVENT_REDRIVEN)
            break;
    }
    return NULL;
}

static struct record_message message_of(const struct engine *e, const struct queue *q,
                                        const struct letter_new *l,
                                        const struct group_choice *choice) {
    return (struct record_message){
        .id = l->id,
        .queue = q->number,
        .how = MESSAGE_IMPORTED,
        .image = {.state = STATE_DEAD,
                  .reason = l->reason,
                  .retry_count = l->retry_count,
                  .max_retries = l->max_retries,
                  .priority = l->priority,
                  .deliveries = l->deliveries,
                  .updated_at = l->died_at,
                  .expires_at = l->ttl_ms ? l->created_at + l->ttl_ms : 0,
                  .first_failed_at = l->first_failed_at,
                  .has_letter = true,
                  .letter = {.died_at = l->died_at,
                             .dead_seq = e->st.next_dead_seq,
                             .edited_to = l->edited_to,
                             .group = choice->group,
                             .version = choice->version,
                             .redrive_count = l->redrive_count < REDRIVE_COUNT_MOST
                                                  ? (uint16_t)l->redrive_count
                                                  : REDRIVE_COUNT_MOST}},
        .created_at = l->created_at,
        .ttl_ms = l->ttl_ms,
        .parent_id = l->parent_id,
        .origin = l->origin,
        .headers = l->headers,
        .key = l->key,
        .payload = l->payload,
        .envelope = l->envelope,
    };
}

static struct record_history history_of(uint64_t id, const struct letter_attempt *a, bool is_error,
                                        uint64_t previous) {
    assert(a);
    return (struct record_history){.id = id,
                                   .is_error = is_error,
                                   .event = {.event = a->event,
                                             .attempt = a->attempt,
                                             .at = a->at,
                                             .next_at = a->next_at,
                                             .previous = previous,
                                             .worker = a->worker,
                                             .worker_version = a->worker_version,
                                             .error_class = a->error_class,
                                             .error = a->error,
                                             .detail = a->detail,
                                             .fingerprint = a->fingerprint}};
}

static size_t lines_bytes(const struct letter_new *l) {
    size_t bytes = 0;
    for (size_t i = 0; i < l->attempt_count; i++) {
        const struct letter_attempt *a = &l->attempts[i];
        bytes += log_record_bytes(STATE_RECORD_BYTES, a->worker.n + a->worker_version.n +
                                                          a->error_class.n + a->error.n +
                                                          a->detail.n + a->fingerprint.n);
    }
    return bytes;
}

static void append_letter(struct engine *e, int64_t now, const struct queue *q,
                          const struct letter_new *l) {
    const struct letter_attempt *failure = last_failure(l);
    struct failure_facts facts = {.queue = span_of(q->name, q->name_bytes), .reason = l->reason};
    struct span version = {0};
    if (failure) {
        facts.error_class = failure->error_class;
        facts.error = failure->error;
        facts.detail = failure->detail;
        facts.fingerprint = failure->fingerprint;
        version = failure->worker_version;
    }
    struct group_choice choice;
    group_choose(e, now, q, &facts, version, true, &choice);
    group_append(e, &choice);
    struct record_message m = message_of(e, q, l, &choice);
    append_message(e, &m);
    uint64_t previous = 0;
    for (size_t i = 0; i < l->attempt_count; i++) {
        const struct letter_attempt *a = &l->attempts[i];
        struct record_history line = history_of(l->id, a, a == failure, previous);
        append_history(e, &line, &previous);
    }
}

/* -- a batch --------------------------------------------------------------------------------- */

static size_t bytes_of(const struct letter_new *items, size_t n, const enum imported *results) {
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        const struct letter_new *l = &items[i];
        if (results[i] == IMPORT_NEW)
            bytes += log_record_bytes(STATE_RECORD_BYTES, l->origin.n + l->headers.n + l->key.n +
                                                              l->payload.n + l->envelope.n) +
                     lines_bytes(l) + log_record_bytes(GROUP_ROOM, 0);
    }
    return bytes;
}

enum err engine_import(struct engine *e, int64_t now, struct span queue,
                       const struct letter_new *items, size_t n, bool dry_run,
                       const struct act *act, enum imported *ret_results) {
    assert(n > 0 && n <= LIMIT_BATCH);
    struct queue *q = queue_by_name(&e->st, queue);
    uint64_t count = 0;
    bool is_taken = false;
    for (size_t i = 0; i < n; i++) {
        assert(items[i].id > 0 && items[i].id <= LIMIT_IMPORT_ID);
        assert(items[i].attempt_count <= LIMIT_IMPORT_ATTEMPTS);
        ret_results[i] = look(e, q, items, i);
        count += ret_results[i] == IMPORT_NEW;
        is_taken |= ret_results[i] == IMPORT_ID_TAKEN;
    }
    if (is_taken)
        return ERR_INVALID;
    struct act who = act_cut(act);
    const struct audit_entry entry = {.at = now,
                                      .action = AUDIT_IMPORT,
                                      .count = count,
                                      .queue = queue,
                                      .actor = who.actor,
                                      .reason = who.reason,
                                      .result = span_str("landed as dead letters")};
    size_t bytes = bytes_of(items, n, ret_results) + audit_bytes(&entry);
    if (bytes > log_frame_bytes_max(e->log))
        return ERR_TOO_LARGE;
    if (!log_has_room(e->log, LOG_USE_ACCEPT, bytes))
        return ERR_DISK_FULL;
    if (dry_run || count == 0)
        return OK;
    enum err err = need_queue(e, now, queue, LOG_USE_ACCEPT, &q);
    if (err != OK)
        return err;
    log_frame_begin(e->log, bytes);
    for (size_t i = 0; i < n; i++)
        if (ret_results[i] == IMPORT_NEW)
            append_letter(e, now, q, &items[i]);
    append_audit(e, &entry);
    log_frame_end(e->log);
    return OK;
}
