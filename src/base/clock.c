#include "base/clock.h"

#include <stdint.h>
#include <time.h>

enum { SECONDS_PER_DAY = 86400 };

#define SECONDS_MAX INT64_C(253402300799) /* 9999-12-31 23:59:59 */

int64_t clock_now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int64_t clock_monotonic_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void put_two(char *out, uint32_t v) {
    out[0] = (char)('0' + v / 10);
    out[1] = (char)('0' + v % 10);
}

/*
 * The date part counts in years that begin on 1 March, so that the leap day is the last of its
 * year, and in eras of 400 such years (146,097 days); day 0 is 0000-03-01, which is 719,468 days
 * before the epoch. (5m + 2) / 153 and its reverse are the month lengths 31 30 31 30 31 31 30 31 30
 * 31 31 from March on.
 */
void time_format(int64_t ms, char out[static TIME_TEXT_SIZE]) {
    int64_t seconds = ms < 0 ? 0 : ms / 1000;
    if (seconds > SECONDS_MAX)
        seconds = SECONDS_MAX;

    uint32_t days = (uint32_t)(seconds / SECONDS_PER_DAY) + 719468;
    uint32_t second = (uint32_t)(seconds % SECONDS_PER_DAY);

    uint32_t era = days / 146097;
    uint32_t day_of_era = days % 146097;
    uint32_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    uint32_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    uint32_t month_from_march = (5 * day_of_year + 2) / 153;
    uint32_t day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    uint32_t month = month_from_march < 10 ? month_from_march + 3 : month_from_march - 9;
    uint32_t year = era * 400 + year_of_era + (month <= 2 ? 1 : 0);

    put_two(out, year / 100);
    put_two(out + 2, year % 100);
    out[4] = '-';
    put_two(out + 5, month);
    out[7] = '-';
    put_two(out + 8, day);
    out[10] = ' ';
    put_two(out + 11, second / 3600);
    out[13] = ':';
    put_two(out + 14, second / 60 % 60);
    out[16] = ':';
    put_two(out + 17, second % 60);
    out[19] = '\0';
}

static bool read_digits(const uint8_t *p, unsigned n, uint32_t *ret_value) {
    uint32_t value = 0;
    for (unsigned i = 0; i < n; i++) {
        if (p[i] < '0' || p[i] > '9')
            return false;
        value = value * 10 + (p[i] - '0');
    }
    *ret_value = value;
    return true;
}

static uint32_t days_in_month(uint32_t year, uint32_t month) {
    static const uint8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return month == 2 && is_leap ? 29 : days[month - 1];
}

enum err time_parse(struct span text, int64_t *ret_ms) {
    if (text.n != TIME_TEXT_SIZE - 1)
        return ERR_INVALID;

    const uint8_t *p = text.p;
    if (p[4] != '-' || p[7] != '-' || p[10] != ' ' || p[13] != ':' || p[16] != ':')
        return ERR_INVALID;

    uint32_t year, month, day, hour, minute, second;
    if (!read_digits(p, 4, &year) || !read_digits(p + 5, 2, &month) ||
        !read_digits(p + 8, 2, &day) || !read_digits(p + 11, 2, &hour) ||
        !read_digits(p + 14, 2, &minute) || !read_digits(p + 17, 2, &second))
        return ERR_INVALID;
    if (year < 1970 || month < 1 || month > 12 || day < 1 || day > days_in_month(year, month))
        return ERR_INVALID;
    if (hour > 23 || minute > 59 || second > 59)
        return ERR_INVALID;

    uint32_t march_year = month <= 2 ? year - 1 : year;
    uint32_t month_from_march = month <= 2 ? month + 9 : month - 3;
    uint32_t day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    uint32_t days = march_year * 365 + march_year / 4 - march_year / 100 + march_year / 400 +
                    day_of_year - 719468;

    uint32_t second_of_day = hour * 3600 + minute * 60 + second;
    *ret_ms = ((int64_t)days * SECONDS_PER_DAY + second_of_day) * 1000;
    return OK;
}
