/* Steps about the disk, of any world: committing, cleaning, losing power, failing, filling up. */
#include "sim/steps_int.h"

#include <errno.h>

uint64_t dice(struct world *w, uint64_t n) {
    return rng_below(&w->rng, n);
}

void step_commit(struct world *w) {
    switch (dice(w, 4)) {
    case 0:
        world_take(w);
        break;
    case 1:
        world_take(w);
        (void)world_write(w);
        break;
    case 2:
        world_done(w);
        break;
    default:
        (void)world_commit(w);
    }
    if (log_stats(w->log).full && dice(w, 4) == 0)
        log_look_for_room(w->log);
    if (dice(w, 30) == 0)
        log_mark(w->log);
}

void step_clean(struct world *w) {
    uint64_t n = 1 + dice(w, 6);
    struct log *log = w->log;
    for (uint64_t i = 0; i < n && w->log == log; i++)
        world_clean(w);
}

void step_crash(struct world *w) {
    if (dice(w, 3)) { /* in the middle of a commit */
        unsigned calls = 1 + (unsigned)dice(w, 8);
        crash_io_die_in(w->disk, calls);
        (void)world_commit(w);
        crash_io_die_in(w->disk, 0);
    }
    world_crash(w, dice(w, 2));
}

void step_fault(struct world *w) {
    switch (dice(w, 4)) {
    case 0:
        crash_io_fail(w->disk, CRASH_SYNC | CRASH_WRITE, (unsigned)dice(w, 6), 1, EIO);
        world_note(w, "a sync or write will fail");
        break;
    case 1:
        crash_io_fail(w->disk, CRASH_SYNC_DIR | CRASH_RENAME | CRASH_REMOVE, (unsigned)dice(w, 3),
                      1, EIO);
        world_note(w, "a call on the directory will fail");
        break;
    case 2:
        crash_io_fail(w->disk, CRASH_CREATE, (unsigned)dice(w, 2), 1 + (unsigned)dice(w, 4),
                      ENOSPC);
        world_note(w, "making a file will fail for lack of room");
        break;
    default:
        crash_io_capacity(w->disk, crash_io_counts(w->disk).bytes +
                                       (int64_t)dice(w, 3) * LOG_SEGMENT_BYTES_MIN);
        w->capacity_until = w->report->step + dice(w, 400);
        world_note(w, "the disk is small");
    }
}

void room_again(struct world *w) {
    crash_io_capacity(w->disk, 0);
    w->capacity_until = 0;
    log_look_for_room(w->log);
    world_note(w, "the disk has room again");
}

void room_in_time(struct world *w) {
    if (w->capacity_until && w->report->step >= w->capacity_until)
        room_again(w);
}
