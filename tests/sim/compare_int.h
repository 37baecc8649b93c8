/* How the comparing files tell of a difference. Internal to tests/sim/. */
#pragma once

#include "sim/model.h"

struct complaint {
    char *text;
    size_t bytes;
};

/* Always false. */
__attribute__((format(printf, 2, 3))) bool differs(const struct complaint *c, const char *format,
                                                   ...);
bool same_number(const struct complaint *c, const char *of, uint64_t id, const char *what,
                 long long got, long long want);

#define SAME(of, id, what, got, want)                                                              \
    do {                                                                                           \
        if (!same_number(c, of, id, what, (long long)(got), (long long)(want)))                    \
            return false;                                                                          \
    } while (0)

/* compare_letters.c: cause groups, jobs and the audit, all of them. */
bool same_letters(const struct complaint *c, const struct model *m, struct engine *e, int64_t now);
