/* The whole of the unit-test framework: CHECK says what failed and goes on; RUN names a case; check_done() prints the totals that
 * `make test` adds up. One program a module. */
#pragma once

#include <stdio.h>
#include <string.h>

static int check_failed_in_case, check_cases_passed, check_cases_failed;

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            printf("# %s:%d: not so: %s\n", __FILE__, __LINE__, #what);                            \
            check_failed_in_case++;                                                                \
        }                                                                                          \
    } while (0)

#define CHECK_EQ(a, b)                                                                             \
    do {                                                                                           \
        long long check_a = (long long)(a), check_b = (long long)(b);                              \
        if (check_a != check_b) {                                                                  \
            printf("# %s:%d: %s is %lld, %s is %lld\n", __FILE__, __LINE__, #a, check_a, #b,       \
                   check_b);                                                                       \
            check_failed_in_case++;                                                                \
        }                                                                                          \
    } while (0)

#define RUN(test)                                                                                  \
    do {                                                                                           \
        check_failed_in_case = 0;                                                                  \
        test();                                                                                    \
        printf("%s %s\n", check_failed_in_case ? "not ok" : "ok", #test);                          \
        check_failed_in_case ? check_cases_failed++ : check_cases_passed++;                        \
    } while (0)

static inline int check_done(void) {
    printf("%d passed, %d failed\n", check_cases_passed, check_cases_failed);
    return check_cases_failed != 0;
}
