#include "log/window.h"

#include "base/mem.h"

#include <stdbool.h>
#include <stdlib.h>

/* Read ahead: more each time while reading goes straight on, little after a jump over what is not
 * wanted. */
#define AHEAD_MIN ((size_t)4 * 1024)
#define AHEAD_MAX ((size_t)1024 * 1024)

void window_init(struct window *w, const struct log_io *io, void *io_ctx) {
    *w = (struct window){.io = io, .io_ctx = io_ctx, .handle = -1};
}

void window_release(struct window *w) {
    free(w->p);
    w->p = NULL;
}

void window_file(struct window *w, int handle, uint64_t file_bytes) {
    w->handle = handle;
    w->file_bytes = file_bytes;
    w->begin = 0;
    w->n = 0;
    w->ahead = 0;
}

const uint8_t *window_at(struct window *w, uint64_t offset, size_t n) {
    if (w->error < 0 || offset > w->file_bytes || n > w->file_bytes - offset)
        return NULL;
    if (offset >= w->begin && offset + n <= w->begin + w->n)
        return w->p + (offset - w->begin);

    bool straight_on = offset >= w->begin && offset <= w->begin + w->n;
    w->ahead = !straight_on || w->ahead == 0 ? AHEAD_MIN : w->ahead * 2;
    if (w->ahead > AHEAD_MAX)
        w->ahead = AHEAD_MAX;
    size_t want = n > w->ahead ? n : w->ahead;
    if (want > w->file_bytes - offset)
        want = (size_t)(w->file_bytes - offset);
    if (want > w->cap) {
        w->p = mem_grow(w->p, want);
        w->cap = want;
    }
    w->n = 0;
    int e = w->io->read(w->io_ctx, w->handle, (int64_t)offset, w->p, want);
    if (e < 0) {
        w->error = e;
        return NULL;
    }
    w->begin = offset;
    w->n = want;
    return w->p;
}
