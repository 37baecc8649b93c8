/* What the engine does not show of a message, but chose: looked up in its memory and its log. */
#include "sim/model_int.h"

#include "engine/engine_int.h"

/* As it was right after the failure. */
static void take_failure(struct engine *e, uint64_t at, size_t bytes, struct looked *ret) {
    struct span meta, data;
    struct record_state r;
    if (log_record_read(e->log, at, bytes, &e->story, &meta, &data) != RECORD_STATE ||
        record_state_get(meta, data, &r) != OK)
        return; /* carried on, when it moved: not known any more */
    ret->has_counts = true;
    ret->retry_count = r.image.retry_count;
    ret->is_alone = r.image.is_alone;
}

struct looked look_inside(struct engine *e, uint64_t id, uint32_t attempt, enum event failure) {
    uint32_t i = slot_find(&e->st, id);
    if (!i)
        return (struct looked){0};
    const struct slot *s = slot_at(&e->st, i);
    const struct extra *x = slot_extra(&e->st, s);
    struct looked l = {.position = x->history, .waits = s->aside};
    struct record_event ev;
    size_t bytes;
    for (uint64_t at = x->history; at && failure != EVENT_NONE; at = ev.previous) {
        read_event(e, at, &e->story, &ev, &bytes);
        if (ev.event != failure || ev.attempt != attempt)
            continue;
        l.failed_next_at = ev.next_at;
        take_failure(e, at, bytes, &l);
        break;
    }
    return l;
}
