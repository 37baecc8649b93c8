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

struct line {
    uint64_t position;
    size_t bytes;
    uint32_t attempt;
    bool keep;
};

/* All lines of the chain, newest first. */
static size_t read_lines(struct engine *e, uint64_t newest, struct buf *lines) {
    struct record_event ev;
    for (uint64_t at = newest; at; at = ev.previous) {
        struct line line = {.position = at};
        read_event(e, at, &e->story, &ev, &line.bytes);
        line.attempt = ev.attempt;
        buf_add(lines, &line, sizeof line);
    }
    return lines->n / sizeof(struct line);
}

/* Marks what is carried: lines of the first and the last attempts, and the newest failure, within
 * `room`. Newest count most. */
static size_t choose_lines(struct line *lines, size_t n, uint64_t error, uint32_t deliveries,
                           size_t room) {
    size_t bytes = 0;
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < n; i++) {
            struct line *l = &lines[i];
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

static void append_lines(struct engine *e, uint64_t id, const struct line *lines, size_t n,
                         uint64_t error) {
    uint64_t previous = 0;
    for (size_t i = n; i > 0; i--) {
        if (!lines[i - 1].keep)
            continue;
        struct record_history r = {.id = id, .is_error = lines[i - 1].position == error};
        size_t bytes;
        read_event(e, lines[i - 1].position, &e->story, &r.event, &bytes);
        r.event.previous = previous;
        uint8_t meta[RECORD_META_MAX];
        size_t meta_bytes = record_history_put(meta, &r);
        struct span data[5];
        event_data(&r.event, data);
        previous = log_record_append(e->log, RECORD_HISTORY, span_of(meta, meta_bytes), data, 5);
        apply_history(&e->st, &r, previous,
                      log_record_bytes(meta_bytes, event_data_bytes(&r.event)));
    }
}

static void carry_message(struct engine *e, const struct slot *s) {
    struct record_message m;
    read_message(e, s, &e->message, &m);
    m.carried = true;
    m.image = slot_image(&e->st, s);
    m.idempotency_until = slot_extra(&e->st, s)->idempotency_until;
    uint64_t error = slot_extra(&e->st, s)->error, newest = slot_extra(&e->st, s)->history;

    struct buf lines;
    buf_init(&lines, SIZE_MAX);
    size_t n = read_lines(e, newest, &lines);
    struct line *line = (struct line *)(void *)lines.p;
    size_t bytes = message_record_bytes_max(&m);
    bytes += choose_lines(line, n, error, m.image.deliveries, log_frame_bytes_max(e->log) - bytes);
    log_frame_begin(e->log, bytes);
    append_message(e, &m);
    append_lines(e, m.id, line, n, error);
    log_frame_end(e->log);
    e->cleaned_bytes += bytes;
    buf_release(&lines);
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
        err = record_queue_get(r->meta, &image);
        struct queue *q = err == OK ? queue_by_number(&e->st, image.queue) : NULL;
        if (q && q->position == r->position) {
            image = queue_image(q);
            emit_queue(e, &image);
        }
    } else if (r->type == RECORD_ENGINE && e->st.engine_position == r->position) {
        emit_engine(e);
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
