/* A window on one segment file for reading it in order, in big pieces. Not for others than
 * src/log/. */
#pragma once

#include "log/log_io.h"

struct window {
    const struct log_io *io;
    void *io_ctx;
    int handle;
    uint64_t file_bytes;
    uint8_t *p;
    size_t cap;
    uint64_t begin; /* what p holds: file offsets begin .. begin + n */
    size_t n;
    size_t ahead; /* how much the last read asked for beyond need */
    int error;    /* -errno of the read that failed; all later window_at give NULL */
};

void window_init(struct window *w, const struct log_io *io, void *io_ctx);
void window_release(struct window *w);
void window_file(struct window *w, int handle, uint64_t file_bytes);

/* n bytes at an offset, valid until the next call; NULL past the end of the file or on a read error
 * (w->error). */
const uint8_t *window_at(struct window *w, uint64_t offset, size_t n);
