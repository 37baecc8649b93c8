#include "log/scan.h"

#include "base/hash.h"
#include "base/le.h"

static struct log_record record_at(const struct scan *s, uint64_t offset, const uint8_t *p,
                                   const struct record_header *h) {
    const uint8_t *meta = p + RECORD_HEADER_BYTES;
    return (struct log_record){
        .position = s->segment_begin + offset,
        .type = h->type,
        .meta = span_of(meta, h->meta_bytes),
        .data = span_of(meta + h->meta_bytes, h->data_bytes),
        .bytes = align8(RECORD_HEADER_BYTES + (size_t)h->meta_bytes + h->data_bytes),
    };
}

/* The whole frame in the window: verify, then hand out. */
static bool frame_small(struct scan *s, const struct frame_header *h) {
    size_t bytes = FRAME_HEADER_BYTES + (size_t)h->body_bytes;
    const uint8_t *p = window_at(s->window, s->offset, bytes);
    if (!p || !frame_body_valid(p, h))
        return false;
    for (size_t at = FRAME_HEADER_BYTES; at < bytes;) {
        struct record_header rh = record_header_get(p + at);
        struct log_record r = record_at(s, s->offset + at, p + at, &rh);
        s->records++;
        if (s->reader && (s->error = s->reader->record(s->reader->ctx, &r)) != OK)
            return true;
        at += r.bytes;
    }
    return true;
}

/* A big frame, record by record, leaving big data unread. Twice: a frame is applied whole or not at
 * all. */
static bool frame_big(struct scan *s, const struct frame_header *h, bool hand_out) {
    const uint8_t *p = window_at(s->window, s->offset, FRAME_HEADER_BYTES);
    if (!p)
        return false;
    uint64_t sum = frame_sum_begin(p);
    size_t end = FRAME_HEADER_BYTES + (size_t)h->body_bytes;
    for (size_t at = FRAME_HEADER_BYTES; at < end;) {
        p = window_at(s->window, s->offset + at, RECORD_HEADER_BYTES);
        if (!p || end - at < RECORD_HEADER_BYTES)
            return false;
        sum = frame_sum_add(sum, p);
        struct record_header rh = record_header_get(p);
        size_t used = align8(RECORD_HEADER_BYTES + (size_t)rh.meta_bytes + rh.data_bytes);
        if (used > end - at)
            return false;
        bool skip = rh.data_bytes >= SCAN_SKIP_BYTES;
        p = window_at(s->window, s->offset + at,
                      skip ? RECORD_HEADER_BYTES + (size_t)rh.meta_bytes : used);
        if (!p)
            return false;
        struct log_record r = record_at(s, s->offset + at, p, &rh);
        if (skip)
            r.data.p = NULL;
        if (hand_out) {
            s->records++;
            if (s->reader && (s->error = s->reader->record(s->reader->ctx, &r)) != OK)
                return true;
        } else if (hash64(r.meta, rh.type) != rh.meta_sum ||
                   (!skip && hash64(r.data, rh.type) != rh.data_sum)) {
            return false;
        }
        at += used;
    }
    return sum == h->sum;
}

/* Only then is it worth going record by record: a batch of small messages is read in one piece. */
static bool begins_with_big_data(const struct scan *s, const struct frame_header *h) {
    if (h->body_bytes < SCAN_SKIP_BYTES)
        return false;
    const uint8_t *p = window_at(s->window, s->offset + FRAME_HEADER_BYTES, RECORD_HEADER_BYTES);
    return p && record_header_get(p).data_bytes >= SCAN_SKIP_BYTES;
}

enum scan_stop scan_frames(struct scan *s) {
    uint64_t stop = s->budget ? s->offset + s->budget : UINT64_MAX;
    while (s->offset < stop) {
        const uint8_t *p = window_at(s->window, s->offset, FRAME_HEADER_BYTES);
        if (!p)
            return s->window->error < 0 ? SCAN_IO : SCAN_BAD;
        struct frame_header h = frame_header_get(p);
        if (!frame_header_plausible(&h, s->segment_begin + s->offset,
                                    s->window->file_bytes - s->offset))
            return SCAN_BAD;
        bool big = s->trusted && begins_with_big_data(s, &h);
        bool valid = big ? frame_big(s, &h, false) && frame_big(s, &h, true) : frame_small(s, &h);
        if (!valid)
            return s->window->error < 0 ? SCAN_IO : SCAN_BAD;
        if (s->error != OK)
            return SCAN_READER;
        s->frames++;
        if (h.durable > s->durable_max)
            s->durable_max = h.durable;
        if (h.kind == FRAME_END)
            return SCAN_END;
        s->offset += FRAME_HEADER_BYTES + h.body_bytes;
    }
    return SCAN_BUDGET;
}

bool scan_finds_later(struct window *w, uint64_t segment_begin, uint64_t offset, uint64_t position,
                      uint64_t *ret_offset) {
    for (uint64_t at = align8(offset); at + FRAME_HEADER_BYTES <= w->file_bytes; at += 8) {
        const uint8_t *p = window_at(w, at, FRAME_HEADER_BYTES);
        if (!p)
            return false;
        struct frame_header h = frame_header_get(p);
        if (h.durable <= position ||
            !frame_header_plausible(&h, segment_begin + at, w->file_bytes - at))
            continue;
        p = window_at(w, at, FRAME_HEADER_BYTES + (size_t)h.body_bytes);
        if (p && frame_body_valid(p, &h)) {
            *ret_offset = at;
            return true;
        }
    }
    return false;
}
