#include "http/story.h"

#include "http/view.h"

#include <string.h>

/* A story is bounded by what cleaning carries on, but a young one may be longer: the newest lines
 * of an endless one are left out. */
enum { STORY_BYTES_MAX = 2 * LIMIT_REPLY };

struct name {
    uint8_t bytes[LIMIT_WORKER];
    size_t n;
};

struct story {
    struct json_writer *w;
    unsigned flags;
    size_t end; /* of the reply: where it grows no more */
    uint64_t count;
    /* the newest claim: */
    uint32_t attempt; /* 0 = none */
    int64_t claimed_at;
    struct name worker, worker_version;
};

static struct name name_copy(struct span text) {
    struct name name = {.n = text.n < LIMIT_WORKER ? text.n : LIMIT_WORKER};
    if (name.n > 0)
        memcpy(name.bytes, text.p, name.n);
    return name;
}

static struct span name_span(const struct name *name) {
    return span_of(name->bytes, name->n);
}

/* True for what a person or a job did; all else is the work of the server and its workers. */
static bool is_act(enum event e) {
    switch (e) {
    case EVENT_REPLAYED:
    case EVENT_REDRIVEN:
    case EVENT_EDITED:
    case EVENT_PATCHED:
    case EVENT_DISCARDED:
    case EVENT_UNDISCARDED:
        return true;
    case EVENT_NONE:
    case EVENT_CLAIMED:
    case EVENT_FAILED:
    case EVENT_LEASE_EXPIRED:
    case EVENT_RELEASED:
    case EVENT_EXPIRED:
    case EVENT_DEAD_LETTERED:
    case EVENT_SUCCEEDED:
        return false;
    }
    return false;
}

/* True for the line that ends the newest claim. */
static bool ends_claim(const struct story *s, const struct history_entry *entry) {
    return s->attempt != 0 && entry->attempt == s->attempt && entry->event != EVENT_CLAIMED &&
           !is_act(entry->event);
}

static void put_who(const struct story *s, const struct history_entry *entry) {
    if (is_act(entry->event)) {
        view_text_if_any(s->w, "actor", entry->worker);
        return;
    }
    bool is_end = ends_claim(s, entry);
    struct span worker = entry->worker, version = entry->worker_version;
    if (is_end && worker.n == 0)
        worker = name_span(&s->worker);
    if (is_end && version.n == 0)
        version = name_span(&s->worker_version);
    view_text_if_any(s->w, "worker", worker);
    view_text_if_any(s->w, "worker_version", version);
}

static void put_line(void *ctx, const struct history_entry *entry) {
    struct story *s = ctx;
    struct json_writer *w = s->w;
    if (w->out->n > s->end)
        return;
    json_begin(w, '{');
    view_number(w, "attempt", entry->attempt);
    view_str(w, "event", event_name(entry->event));
    view_time_as(w, "at", entry->at, s->flags);
    put_who(s, entry);
    view_text_if_any(w, "error_class", entry->error_class);
    view_text_if_any(w, "error", entry->error);
    view_text_if_any(w, "detail", entry->detail);
    view_text_if_any(w, "fingerprint", entry->fingerprint);
    if (ends_claim(s, entry) && entry->at >= s->claimed_at)
        view_number(w, "duration_ms", (uint64_t)(entry->at - s->claimed_at));
    if (entry->next_at != 0)
        view_time_as(w, "next_at", entry->next_at, s->flags);
    json_end(w, '}');
    s->count++;

    if (entry->event == EVENT_CLAIMED) {
        s->attempt = entry->attempt;
        s->claimed_at = entry->at;
        s->worker = name_copy(entry->worker);
        s->worker_version = name_copy(entry->worker_version);
    } else if (ends_claim(s, entry)) {
        s->attempt = 0;
    }
}

enum err story_write(struct engine *e, struct span queue, uint64_t id, unsigned flags,
                     struct json_writer *w, uint64_t *ret_count, uint32_t *ret_omitted) {
    struct story s = {.w = w, .flags = flags, .end = w->out->n + STORY_BYTES_MAX};
    const struct json_writer before = *w;
    size_t n = w->out->n;
    json_begin(w, '[');
    enum err result = engine_history(e, queue, id, put_line, &s, ret_omitted);
    if (result != OK) {
        *w = before;
        w->out->n = n;
        return result;
    }
    json_end(w, ']');
    *ret_count = s.count;
    return OK;
}
