/* A session: a list of operations, advances of time, faults and crashes against engine and log on the simulated disk, compared with the
 * model after each as in tests/sim/. Three bytes a step: its kind, and a number that its details follow from. */
#include "base/mem.h"
#include "sim/world.h"

#include <stdlib.h>

#define STEPS_MAX 100

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct report report;
    report = (struct report){0};
    struct world *w = world_new(&world_of_queues, 1, CONTROL_NONE, false, &report);
    w->aborts = true;
    for (size_t at = 0; at + 3 <= size && report.step < STEPS_MAX; at += 3) {
        report.step++;
        uint64_t seed = (uint64_t)data[at + 1] << 8 | data[at + 2];
        rng_seed(&w->rng, seed);
        crash_io_reseed(w->disk, seed);
        world_step_of(w, data[at]);
    }
    world_settle_all(w);
    world_free(w);
    return 0;
}
