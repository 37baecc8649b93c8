/* `nixie log check DIR`: verifies every frame of a directory that no server has open, and the
 * equation of conservation of what it holds. */
#include "server/serve.h"

#include "base/clock.h"
#include "engine/engine.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void print_help(void) {
    printf(
        "usage: nixie log check DIR\n\n"
        "Reads every byte of the log in a data directory, changes nothing, and says what it found\n"
        "and where: segments, frames, a torn tail, damage; then checks that the state it leads to "
        "is\n"
        "whole and that nothing was lost in any queue:\n"
        "  accepted + moved_in = pending + processing + parked + dead\n"
        "                      + succeeded_total + discarded_total + moved_out\n"
        "Best run while no server uses the directory: what is being written looks torn.\n\n"
        "exit status: 0 all is well (a torn tail included); 1 damage, or the equation does not "
        "hold;\n"
        "2 wrong usage\n\n"
        "example:\n"
        "  nixie log check /var/lib/nixie\n");
}

struct balance {
    unsigned queues, broken;
};

static bool print_queue(void *ctx, const struct queue_view *q) {
    struct balance *b = ctx;
    const struct ledger *l = &q->ledger;
    bool holds = queue_view_holds(q);
    b->queues++;
    b->broken += !holds;
    printf("queue ");
    for (size_t i = 0; i < q->name.n; i++)
        putchar(q->name.p[i] < 0x20 || q->name.p[i] == 0x7f ? '?' : q->name.p[i]);
    printf(": %" PRIu64 " accepted + %" PRIu64 " moved in %s %" PRIu64 " pending + %" PRIu64
           " processing + %" PRIu64 " parked + %" PRIu64 " dead + %" PRIu64 " succeeded + %" PRIu64
           " discarded + %" PRIu64 " moved out\n",
           l->accepted, l->moved_in, holds ? "=" : "IS NOT", q->count[STATE_PENDING],
           q->count[STATE_PROCESSING], q->count[STATE_PARKED], q->count[STATE_DEAD], l->succeeded,
           l->discarded, l->moved_out);
    return true;
}

static bool check_state(struct engine *e) {
    struct balance b = {0};
    if (engine_queues(e, (struct span){0}, print_queue, &b) != OK)
        return false;
    struct engine_stats s = engine_stats(e);
    printf("deleted queues: %" PRIu64 " accepted = %" PRIu64 " succeeded + %" PRIu64
           " discarded + %" PRIu64 " moved out - %" PRIu64 " moved in\n",
           s.deleted.accepted, s.deleted.succeeded, s.deleted.discarded, s.deleted.moved_out,
           s.deleted.moved_in);
    bool ok = b.broken == 0;
    if (s.deleted.accepted + s.deleted.moved_in !=
        s.deleted.succeeded + s.deleted.discarded + s.deleted.moved_out) {
        printf("the equation does not hold for the deleted queues\n");
        ok = false;
    }
    char text[256];
    if (!engine_is_whole(e)) {
        printf("the log speaks of messages or queues it does not hold\n");
        ok = false;
    } else if (!engine_verify(e, text, sizeof text)) {
        printf("%s\n", text);
        ok = false;
    }
    printf("%" PRIu64 " messages in %u queues\n", s.messages, b.queues);
    return ok;
}

static int check(const char *path) {
    struct log_dir *dir;
    int open = log_dir_look(path, &dir);
    if (open < 0) {
        fprintf(stderr, "nixie log check: %s: %s\n", path, strerror(-open));
        return 1;
    }
    struct engine *e = engine_new(1);
    struct log_config config = {
        .io = &log_io_posix, .io_ctx = dir, .segment_bytes = LOG_SEGMENT_BYTES};
    struct log_reader reader = engine_reader(e);
    struct log_findings f;
    struct log_trouble trouble;
    int64_t begin = clock_monotonic_us();
    enum err r = log_check(&config, &reader, &f, &trouble);
    bool ok = r == OK;
    if (f.end > 0)
        printf("segments %" PRIu64 " to %" PRIu64 ": %" PRIu64 " frames, %" PRIu64
               " records, %" PRIu64 " bytes, read in %.1f s\n",
               f.first_segment, f.last_segment, f.frames, f.records, f.end - f.begin,
               (double)(clock_monotonic_us() - begin) / 1e6);
    if (!ok)
        printf("damaged: %s\n", trouble.text);
    else if (f.torn_bytes)
        printf("torn tail: %" PRIu64 " bytes at position %" PRIu64
               " that were never acknowledged; a server cuts them off when it starts\n",
               f.torn_bytes, f.torn_position);
    if (ok)
        ok = check_state(e);
    printf("%s\n", ok ? "ok" : "NOT ok");
    engine_free(e);
    log_dir_free(dir);
    return ok ? 0 : 1;
}

int log_main(int argc, char **argv) {
    if (argc >= 3 && (strcmp(argv[2], "--help") == 0 || strcmp(argv[2], "-h") == 0)) {
        print_help();
        return 0;
    }
    if (argc == 4 && strcmp(argv[2], "check") == 0) {
        if (strcmp(argv[3], "--help") == 0) {
            print_help();
            return 0;
        }
        return check(argv[3]);
    }
    fprintf(stderr, "usage: nixie log check DIR (see nixie log --help)\n");
    return 2;
}
