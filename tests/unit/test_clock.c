#include "base/clock.h"
#include "base/rng.h"
#include "check.h"

#include <time.h>

static bool formats_as(int64_t ms, const char *expected) {
    char text[TIME_TEXT_SIZE];
    time_format(ms, text);
    if (strcmp(text, expected) == 0)
        return true;
    printf("# %lld is %s, not %s\n", (long long)ms, text, expected);
    return false;
}

static void known_times(void) {
    CHECK(formats_as(0, "1970-01-01 00:00:00"));
    CHECK(formats_as(999, "1970-01-01 00:00:00"));
    CHECK(formats_as(1000, "1970-01-01 00:00:01"));
    CHECK(formats_as(INT64_C(951782399999), "2000-02-28 23:59:59"));
    CHECK(formats_as(INT64_C(951782400000), "2000-02-29 00:00:00"));
    CHECK(formats_as(INT64_C(1709164800000), "2024-02-29 00:00:00"));
    CHECK(formats_as(INT64_C(1780272000000), "2026-06-01 00:00:00"));
    CHECK(formats_as(INT64_C(4107542399000), "2100-02-28 23:59:59"));
    CHECK(formats_as(INT64_C(4107542400000), "2100-03-01 00:00:00"));
    CHECK(formats_as(INT64_C(253402300799999), "9999-12-31 23:59:59"));
}

static void other_times_are_clamped(void) {
    CHECK(formats_as(-1, "1970-01-01 00:00:00"));
    CHECK(formats_as(INT64_MIN, "1970-01-01 00:00:00"));
    CHECK(formats_as(INT64_C(253402300800000), "9999-12-31 23:59:59"));
    CHECK(formats_as(TIME_NEVER, "9999-12-31 23:59:59"));
}

static void agrees_with_the_library(int64_t seconds) {
    time_t t = (time_t)seconds;
    struct tm tm;
    char expected[64], text[TIME_TEXT_SIZE];
    gmtime_r(&t, &tm);
    strftime(expected, sizeof expected, "%Y-%m-%d %H:%M:%S", &tm);
    time_format(seconds * 1000 + 123, text);
    CHECK(strcmp(text, expected) == 0);

    int64_t back = -1;
    CHECK(time_parse(span_str(text), &back) == OK);
    CHECK_EQ(back, seconds * 1000);
}

static void every_day_agrees_with_the_library(void) {
    struct rng rng;
    rng_seed(&rng, 1);
    for (int64_t day = 0; day < 2932897;
         day += 1 + (day > 60000 ? (int64_t)rng_below(&rng, 60) : 0))
        agrees_with_the_library(day * 86400 + (int64_t)rng_below(&rng, 86400));
    agrees_with_the_library(INT64_C(253402300799));
}

static void only_the_exact_form_is_read(void) {
    static const char *const wrong[] = {
        "",
        "2026-06-01",
        "2026-06-01 00:00",
        "2026-06-01T00:00:00",
        "2026-06-01 00:00:00Z",
        " 2026-06-01 00:00:00",
        "2026-06-01 00:00:0",
        "2026/06/01 00:00:00",
        "2026-06-01 00.00.00",
        "2026-6-01 000:00:00",
        "+026-06-01 00:00:00",
        "2026-06-01 -1:00:00",
        "2026-06- 1 00:00:00",
        "2026-06-01 00:00:6a",
        "2026-06-01 0\xd9\xa1:00:00",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        int64_t ms = 42;
        CHECK(time_parse(span_str(wrong[i]), &ms) == ERR_INVALID);
        CHECK_EQ(ms, 42);
    }
    int64_t ms = 42;
    CHECK(time_parse(span_of("2026-06-01 00:00:0\0", 19), &ms) == ERR_INVALID);
    CHECK(time_parse(span_of(NULL, 0), &ms) == ERR_INVALID);
    CHECK_EQ(ms, 42);
}

static void only_real_dates_are_read(void) {
    static const char *const wrong[] = {
        "2026-02-29 00:00:00", "2026-02-30 00:00:00", "2100-02-29 00:00:00", "2024-02-30 00:00:00",
        "2026-00-01 00:00:00", "2026-13-01 00:00:00", "2026-01-00 00:00:00", "2026-01-32 00:00:00",
        "2026-04-31 00:00:00", "2026-06-31 00:00:00", "2026-09-31 00:00:00", "2026-11-31 00:00:00",
        "2026-06-01 24:00:00", "2026-06-01 00:60:00", "2026-06-01 00:00:60", "1969-12-31 23:59:59",
        "0000-01-01 00:00:00",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        int64_t ms = 42;
        CHECK(time_parse(span_str(wrong[i]), &ms) == ERR_INVALID);
        CHECK_EQ(ms, 42);
    }
    int64_t ms;
    CHECK(time_parse(span_str("2024-02-29 23:59:59"), &ms) == OK);
    CHECK(time_parse(span_str("2000-02-29 00:00:00"), &ms) == OK);
    CHECK(ms == INT64_C(951782400000));
    CHECK(time_parse(span_str("9999-12-31 23:59:59"), &ms) == OK);
    CHECK(ms == INT64_C(253402300799000));
}

static void the_clocks_run(void) {
    int64_t wall = clock_now_ms();
    CHECK(wall > INT64_C(1700000000000));
    int64_t before = clock_monotonic_us();
    CHECK(clock_monotonic_us() >= before);
    CHECK(clock_now_ms() / 1000 - (int64_t)time(NULL) <= 1);
}

int main(void) {
    RUN(known_times);
    RUN(other_times_are_clamped);
    RUN(every_day_agrees_with_the_library);
    RUN(only_the_exact_form_is_read);
    RUN(only_real_dates_are_read);
    RUN(the_clocks_run);
    return check_done();
}
