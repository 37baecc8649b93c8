/* Cleaning: the live records of the oldest segment are appended again at the tail, then the segment
 * goes (L5). Records of state need no look: whatever they say of a living message is in its image
 * when that is carried, and an image is never younger than its changes. */
#include "engine/engine_int.h"

#include <assert.h>

/* Begins when the log is more than twice what lives in it, and not for less than two segments. */
#define CLEAN_STEP_MIN ((size_t)32 * 1024)
#define LINE_ROOM 64 /* what a line may grow by when it is carried */
#define CLEAN_PACE 4 /* bytes read for each byte appended since the last step */

/* -- a message's story, shortened to the first and last attempts ----------------------------- */

struct story_line {
    uint64_t position;
    size_t bytes;
    uint32_t attempt;
    bool keep;
};

/* All lines of the chain, newest first. */
static size_t read_lines(struct engine *e, uint64_t newest, struct buf *lines) {
    struct record_event ev;
    for (uint64_t at = newest; at; at = ev.previous) {
        struct story_line line = {.position = at};
        read_event(e, at, &e->story, &ev, &line.bytes);
        line.attempt = ev.attempt;
        buf_add(lines, &line, sizeof line);
    }
    return lines->n / sizeof(struct story_line);
}

/* Marks what is carried: lines of the first and the last attempts, and the newest failure, within
 * `room`. Newest count most. */
static size_t choose_lines(struct story_line *lines, size_t n, uint64_t error, uint32_t deliveries,
                           size_t room) {
    size_t bytes = 0;
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < n; i++) {
            struct story_line *l = &lines[i];
            bool wanted = round == 0   ? l->position == error
                          : round == 1 ? l->attempt + LIMIT_ATTEMPTS_LAST > deliveries
                                       : l->attempt <= LIMIT_ATTEMPTS_FIRST;
            size_t needs = l->bytes + LINE_ROOM;
            if (!wanted || l->keep || bytes + needs > room)
                continue;
            l->keep = true;
            bytes += needs;
        }
    }
    return bytes;
}

static void append_lines(struct engine *e, uint64_t id, const struct story_line *lines, size_t n,
                         uint64_t error) {
    uint64_t previous = 0;
    for (size_t i = n; i > 0; i--) {
        if (!lines[i - 1].keep)
            continue;
        struct record_history r = {.id = id, .is_error = lines[i - 1].position == error};
        size_t bytes;
        read_event(e, lines[i - 1].position, &e->story, &r.event, &bytes);
        r.event.previous = previous;
        append_history(e, &r, &previous);
    }
}

void carry_plan(struct engine *e, const struct slot *s, const struct record_message *m,
                struct carry *c) {
    const struct extra *x = slot_extra(&e->st, s);
    c->error = x->error;
    buf_init(&c->lines, SIZE_MAX);
    c->count = read_lines(e, x->history, &c->lines);
    struct story_line *line = (struct story_line *)(void *)c->lines.p;
    c->bytes = message_bytes(m);
    c->bytes += choose_lines(line, c->count, c->error, m->image.deliveries,
                             log_frame_bytes_max(e->log) - c->bytes);
}

void carry_append(struct engine *e, const struct record_message *m, const struct carry *c) {
    append_message(e, m);
    append_lines(e, m->id, (const struct story_line *)(const void *)c->lines.p, c->count, c->error);
}

void carry_release(struct carry *c) {
    buf_release(&c->lines);
}

static void carry_message(struct engine *e, const struct slot *s) {
    struct record_message m;
    read_message(e, s, &e->message, &m);
    m.how = MESSAGE_CARRIED;
    m.queue = queue_at(&e->st, s->queue)->number;
    m.image = slot_image(&e->st, s);
    m.idempotency_until = slot_extra(&e->st, s)->idempotency_until;
    struct carry c;
    carry_plan(e, s, &m, &c);
    log_frame_begin(e->log, c.bytes);
    carry_append(e, &m, &c);
    log_frame_end(e->log);
    e->cleaned_bytes += c.bytes;
    carry_release(&c);
}

static void carry_group(struct engine *e, const struct group *g) {
    struct record_group image = g->image;
    image.group = g->number;
    log_frame_begin(e->log, group_bytes(&image));
    append_group(e, &image);
    log_frame_end(e->log);
}

static void carry_job(struct engine *e, const struct job *j) {
    struct record_job image = j->image;
    image.job = j->number;
    log_frame_begin(e->log, job_bytes(&image));
    append_job(e, &image);
    log_frame_end(e->log);
}

/* As it stands: its number is its own. */
static void carry_audit(struct engine *e, const struct log_record *r) {
    size_t bytes = log_record_bytes(r->meta.n, r->data.n);
    log_frame_begin(e->log, bytes);
    struct audit_entry entry;
    enum err err = record_audit_get(r->meta, r->data, &entry);
    assert(err == OK);
    uint64_t position = log_record_append(e->log, RECORD_AUDIT, r->meta, &r->data, 1);
    log_frame_end(e->log);
    apply_audit(&e->st, &entry, position, bytes);
}

static void carry_exchange(struct engine *e, const struct exchange *x) {
    struct record_exchange image = x->image;
    log_frame_begin(e->log, exchange_bytes(&image));
    append_exchange(e, &image);
    log_frame_end(e->log);
}

static void carry_binding(struct engine *e, const struct binding *b) {
    struct record_binding image = binding_image(&e->st, b);
    log_frame_begin(e->log, binding_bytes(&image));
    append_binding(e, &image);
    log_frame_end(e->log);
}

static void carry_pattern(struct engine *e, const struct pattern *p) {
    struct record_pattern image = p->image;
    log_frame_begin(e->log, pattern_bytes(&image));
    append_pattern(e, &image);
    log_frame_end(e->log);
}

static enum err clean_topology_record(struct engine *e, const struct log_record *r) {
    struct record_exchange exchange;
    struct record_binding binding;
    struct record_pattern pattern;
    enum err err = OK;
    if (r->type == RECORD_EXCHANGE) {
        err = record_exchange_get(r->meta, r->data, &exchange);
        const struct exchange *x = err == OK ? exchange_by_number(&e->st, exchange.exchange) : NULL;
        if (x && x->position == r->position)
            carry_exchange(e, x);
    } else if (r->type == RECORD_BINDING) {
        err = record_binding_get(r->meta, r->data, &binding);
        const struct binding *b = err == OK ? binding_by_number(&e->st, binding.binding) : NULL;
        if (b && b->position == r->position)
            carry_binding(e, b);
    } else if (r->type == RECORD_PATTERN) {
        err = record_pattern_get(r->meta, r->data, &pattern);
        const struct pattern *p = err == OK ? pattern_by_number(&e->st, pattern.pattern) : NULL;
        if (p && p->position == r->position)
            carry_pattern(e, p);
    }
    return err;
}

/* Groups, jobs, the audit. */
static enum err clean_triage_record(struct engine *e, const struct log_record *r) {
    struct record_group group;
    struct record_job job;
    struct audit_entry entry;
    enum err err = OK;
    if (r->type == RECORD_GROUP) {
        err = record_group_get(r->meta, r->data, &group);
        const struct group *g = err == OK ? group_by_number(&e->st, group.group) : NULL;
        if (g && g->position == r->position)
            carry_group(e, g);
    } else if (r->type == RECORD_JOB) {
        err = record_job_get(r->meta, r->data, &job);
        const struct job *j = err == OK ? job_by_number(&e->st, job.job) : NULL;
        if (j && j->position == r->position)
            carry_job(e, j);
    } else if (r->type == RECORD_AUDIT) {
        err = record_audit_get(r->meta, r->data, &entry);
        const struct audit_place *p = err == OK ? audit_at(&e->st, entry.number) : NULL;
        if (p && p->position == r->position)
            carry_audit(e, r);
    } else {
        err = clean_topology_record(e, r);
    }
    return err;
}

/* -- the oldest segment, record by record ---------------------------------------------------- */

static enum err clean_record(void *ctx, const struct log_record *r) {
    struct engine *e = ctx;
    struct record_message m;
    struct record_queue image;
    enum err err = OK;
    if (r->type == RECORD_MESSAGE) {
        err = record_message_get(r->meta, r->data, &m);
        uint32_t i = err == OK ? slot_find(&e->st, m.id) : 0;
        if (i && slot_position(slot_at(&e->st, i)) == r->position)
            carry_message(e, slot_at(&e->st, i));
    } else if (r->type == RECORD_QUEUE) {
        err = record_queue_get(r->meta, r->data, &image);
        struct queue *q = err == OK ? queue_by_number(&e->st, image.queue) : NULL;
        if (q && q->position == r->position) {
            image = queue_image(q);
            emit_queue(e, &image);
        }
    } else if (r->type == RECORD_ENGINE && e->st.engine_position == r->position) {
        emit_engine(e);
    } else {
        err = clean_triage_record(e, r);
    }
    return err;
}

static void end_segment(struct engine *e) {
    uint8_t meta[RECORD_META_MAX];
    size_t n = record_cleaned_put(meta, log_oldest(e->log));
    log_frame_begin(e->log, log_record_bytes(n, 0));
    log_record_append(e->log, RECORD_CLEANED, span_of(meta, n), NULL, 0);
    log_frame_end(e->log);
    apply_cleaned(&e->st);
    log_clean_drop(e->log);
}

static bool is_due(const struct engine *e) {
    uint64_t bytes = log_bytes(e->log), segment = log_frame_bytes_max(e->log);
    if (!log_can_clean(e->log))
        return false;
    /* On a full disk any segment's worth of garbage is worth the work. */
    if (!log_has_room(e->log, LOG_USE_ACCEPT, 0))
        return bytes > e->st.live_bytes + 2 * segment;
    return bytes > 2 * e->st.live_bytes && bytes > 2 * segment;
}

static size_t pace(struct engine *e) {
    uint64_t appended = log_end(e->log) - e->clean_end_seen;
    e->clean_end_seen = log_end(e->log);
    if (appended > LIMIT_CLEAN_BYTES / CLEAN_PACE)
        return LIMIT_CLEAN_BYTES;
    size_t bytes = (size_t)appended * CLEAN_PACE;
    return bytes > CLEAN_STEP_MIN ? bytes : CLEAN_STEP_MIN;
}

bool engine_clean(struct engine *e) {
    size_t bytes = pace(e);
    if (!e->cleaning && !is_due(e))
        return false;
    /* What is carried needs room, too: at most what is read, and the frames around it. */
    if (!log_can_clean(e->log) || !log_has_room(e->log, LOG_USE_CLEAN, 2 * bytes))
        return false;
    e->cleaning = true;
    struct log_reader reader = {.ctx = e, .record = clean_record};
    if (log_clean_read(e->log, bytes, &reader)) {
        end_segment(e);
        e->cleaning = false;
    }
    e->clean_end_seen = log_end(e->log);
    return e->cleaning || is_due(e);
}
