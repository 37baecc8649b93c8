/* Reading the frames of one segment in order: for opening, checking and cleaning. Not for others
 * than src/log/. */
#pragma once

#include "log/format.h"
#include "log/log.h"
#include "log/window.h"

/* Frames with at least this much body may have the data of their records left unread, where the
 * caller says they are trusted. */
#define SCAN_SKIP_BYTES ((size_t)64 * 1024)

enum scan_stop {
    SCAN_END,    /* the frame that says "go on in the next segment" */
    SCAN_BAD,    /* no valid frame at `offset` (zeros among them) */
    SCAN_BUDGET, /* as many bytes as asked for were read */
    SCAN_READER, /* the reader said no: `error` */
    SCAN_IO,     /* the window's error */
};

struct scan {
    struct window *window;
    uint64_t segment_begin;          /* position of its first byte */
    uint64_t offset;                 /* in: where to begin; out: where it stopped */
    uint64_t budget;                 /* stop after so many bytes; 0 = no limit */
    bool trusted;                    /* big data is neither read nor verified */
    const struct log_reader *reader; /* NULL: only verify */
    uint64_t durable_max;            /* highest durable position seen (accumulates) */
    uint64_t frames, records;
    enum err error;
};

enum scan_stop scan_frames(struct scan *s);

/* Looks behind `offset` for any valid frame whose durable position is above `position`; true and
 * where when there is one. */
bool scan_finds_later(struct window *w, uint64_t segment_begin, uint64_t offset, uint64_t position,
                      uint64_t *ret_offset);
