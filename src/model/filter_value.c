/* The values of a filter's terms. Numbers, times and durations are read alike: what stands on a side
 * of a comparison or a range is a point, and a point is a closed interval of whole numbers (a day
 * has 86,400,000 milliseconds). */
#include "base/clock.h"
#include "model/filter_internal.h"
#include "model/message.h"
#include "model/triage.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SECOND INT64_C(1000)
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)
#define WEEK (7 * DAY)

/* -- text ------------------------------------------------------------------------------------ */

static bool is_reason(struct span name) {
    for (int r = REASON_NONE + 1; r <= REASON_MANUAL; r++) {
        if (span_equal_str(name, reason_name((enum reason)r)))
            return true;
    }
    return false;
}

static bool read_text(struct filter_reader *r, struct span raw, struct filter_term *t) {
    if (!filter_decode(r, raw, &t->pattern, &t->wild))
        return false;
    t->has_wildcard = memchr(t->wild, 1, t->pattern.n) != NULL;
    if (t->word == WORD_REASON && !t->has_wildcard && !is_reason(t->pattern))
        return filter_fail(r, raw,
                           "a reason is max_retries, permanent, rejected, expired, max_length, "
                           "delivery_limit, lease_expired, unroutable or manual");
    if (t->word == WORD_STATE && group_state_parse(t->pattern) < 0)
        return filter_fail(r, raw, "a state is open, acknowledged or resolved");
    return true;
}

static bool read_yes_no(struct filter_reader *r, struct span raw, struct filter_term *t) {
    bool is_yes = span_equal_str(raw, "yes");
    if (!is_yes && !span_equal_str(raw, "no"))
        return filter_fail(r, raw, "the value is yes or no");
    t->is_numeric = true;
    t->low = t->high = is_yes;
    return true;
}

/* -- comparisons and ranges ------------------------------------------------------------------ */

/* A value taken apart: what stands on each side, empty where nothing does. */
struct sides {
    struct span low, high; /* both the whole value, when it is neither comparison nor range */
    bool low_open, high_open;
    bool is_comparison, is_range;
};

/* The first ".." that is not quoted, or NULL. */
static const uint8_t *find_dots(struct span raw) {
    bool is_quoted = false;
    for (size_t i = 0; i + 1 < raw.n; i++) {
        if (raw.p[i] == '"')
            is_quoted = !is_quoted;
        else if (!is_quoted && raw.p[i] == '.' && raw.p[i + 1] == '.')
            return raw.p + i;
    }
    return NULL;
}

static struct sides sides_of(struct span raw) {
    struct sides s = {.low = raw, .high = raw};
    const uint8_t *dots = find_dots(raw), *end = raw.p + raw.n;
    s.is_comparison = raw.p[0] == '<' || raw.p[0] == '>';
    s.is_range = dots != NULL;
    if (s.is_comparison) {
        bool is_open = raw.n == 1 || raw.p[1] != '=';
        struct span side = span_of(raw.p + 2 - is_open, raw.n - 2 + is_open);
        bool is_low = raw.p[0] == '>';
        s.low = is_low ? side : span_of(raw.p, 0);
        s.high = is_low ? span_of(raw.p, 0) : side;
        s.low_open = is_low && is_open;
        s.high_open = !is_low && is_open;
    } else if (s.is_range) {
        s.low = span_of(raw.p, (size_t)(dots - raw.p));
        s.high = span_of(dots + 2, (size_t)(end - dots) - 2);
    }
    return s;
}

/* -- points ---------------------------------------------------------------------------------- */

struct point {
    int64_t first, last;
};

static struct span without_quotes(struct span raw) {
    return filter_is_quoted(raw) ? span_of(raw.p + 1, raw.n - 2) : raw;
}

static bool is_digit_at(struct span s, size_t i) {
    return i < s.n && s.p[i] >= '0' && s.p[i] <= '9';
}

/* Reads digits from *at on, if there are any. False when there are too many. */
static bool read_digits(struct span s, size_t *at, int64_t *ret_number) {
    int64_t number = 0;
    for (; is_digit_at(s, *at); ++*at) {
        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, s.p[*at] - '0', &number))
            return false;
    }
    *ret_number = number;
    return number < INT64_MAX; /* which is no bound */
}

static bool fail_too_large(struct filter_reader *r, struct span raw) {
    return filter_fail(r, raw, "this number is too large");
}

static bool read_number(struct filter_reader *r, enum filter_word word, struct span raw,
                        struct point *ret_point) {
    struct span s = without_quotes(raw);
    size_t at = 0;
    int64_t number, unit = 1;
    if (!read_digits(s, &at, &number))
        return fail_too_large(r, raw);
    if (word == WORD_SIZE && at > 0 && s.n - at == 1 && (s.p[at] == 'k' || s.p[at] == 'm')) {
        unit = s.p[at] == 'k' ? 1024 : 1024 * 1024;
        at++;
    }
    if (at == 0 || at < s.n)
        return filter_fail(r, raw,
                           word == WORD_SIZE
                               ? "a number of bytes is expected: 512, 10k (times 1024) or 2m"
                               : "a whole number is expected");
    if (__builtin_mul_overflow(number, unit, &number))
        return fail_too_large(r, raw);
    *ret_point = (struct point){number, number};
    return true;
}

static bool read_duration(struct filter_reader *r, struct span raw, struct point *ret_point) {
    static const char names[] = "wdhms";
    static const int64_t units[] = {WEEK, DAY, HOUR, MINUTE, SECOND};
    struct span s = without_quotes(raw);
    int64_t duration = 0;
    size_t at = 0, unit = 0; /* the greatest that may still come */
    do {
        int64_t number;
        size_t start = at;
        if (!read_digits(s, &at, &number))
            return fail_too_large(r, raw);
        const char *name = at < s.n ? memchr(names, s.p[at], sizeof names - 1) : NULL;
        if (at == start || name == NULL)
            return filter_fail(r, raw, "a duration is expected, in w, d, h, m and s: 30m, 1h30m");
        if ((size_t)(name - names) < unit)
            return filter_fail(r, raw, "the units of a duration fall, each once: 1d12h, 1h30m");
        unit = (size_t)(name - names);
        if (__builtin_mul_overflow(number, units[unit], &number) ||
            __builtin_add_overflow(duration, number, &duration))
            return filter_fail(r, raw, "this duration is too long");
        unit++;
        at++;
    } while (at < s.n);
    *ret_point = (struct point){duration, duration};
    return true;
}

/* True when s looks like the beginning of a time. */
static bool is_like_time(struct span s) {
    static const char form[] = "0000-00-00T00:00:00";
    for (size_t i = 0; i < s.n; i++) {
        bool is_like = form[i] == '0'   ? is_digit_at(s, i)
                       : form[i] == 'T' ? s.p[i] == 'T' || s.p[i] == ' '
                                        : s.p[i] == (uint8_t)form[i];
        if (!is_like)
            return false;
    }
    return true;
}

static bool read_time(struct filter_reader *r, struct span raw, struct point *ret_point) {
    enum { TO_DAY = 10, TO_MINUTE = 16, TO_SECOND = 19 };
    struct span s = without_quotes(raw);
    if (s.n > TO_DAY + 1 && s.p[s.n - 1] == 'Z')
        s.n--;
    if ((s.n != TO_DAY && s.n != TO_MINUTE && s.n != TO_SECOND) || !is_like_time(s))
        return filter_fail(r, raw,
                           "a time is expected, in UTC: 2026-06-01, 2026-06-01T12:00 or "
                           "2026-06-01T12:00:00Z");

    char whole[] = "0000-00-00 00:00:00";
    memcpy(whole, s.p, s.n);
    whole[TO_DAY] = ' ';
    int64_t first;
    if (time_parse(span_str(whole), &first) != OK)
        return filter_fail(r, raw, "no such time in the years 1970 to 9999");
    int64_t length = s.n == TO_DAY ? DAY : s.n == TO_MINUTE ? MINUTE : SECOND;
    *ret_point = (struct point){first, first + length - 1};
    return true;
}

static bool read_point(struct filter_reader *r, enum filter_word word, struct span raw,
                       struct point *ret_point) {
    enum filter_kind kind = filter_word_kind(word);
    if (kind == KIND_TIME)
        return read_time(r, raw, ret_point);
    if (kind == KIND_DURATION)
        return read_duration(r, raw, ret_point);
    return read_number(r, word, raw, ret_point);
}

/* -- ranges of whole numbers, times and durations -------------------------------------------- */

static bool fail_inverted(struct filter_reader *r, struct span raw) {
    return filter_fail(r, raw, "the range ends before it begins");
}

static int64_t sum(int64_t a, int64_t b) {
    int64_t s;
    if (__builtin_add_overflow(a, b, &s))
        return b < 0 ? INT64_MIN : INT64_MAX;
    return s;
}

/* From a duration to the time that is so long ago, or so far ahead. No bound stays none; a duration
 * is never much below 0, so that its negative fits. */
static void fix_duration(int64_t now, struct filter_term *t) {
    int64_t low = t->low, high = t->high;
    if (t->word == WORD_AGE) {
        t->low = high == INT64_MAX ? INT64_MIN : sum(now, -high);
        t->high = low == INT64_MIN ? INT64_MAX : sum(now, -low);
    } else {
        t->low = low == INT64_MIN ? INT64_MIN : sum(now, low);
        t->high = high == INT64_MAX ? INT64_MAX : sum(now, high);
    }
}

static bool check_sides(struct filter_reader *r, struct span raw, const struct sides *s) {
    if (s->is_comparison && s->is_range)
        return filter_fail(r, raw, "either a comparison or a range, not both");
    if (s->low.n == 0 && s->high.n == 0)
        return filter_fail(r, raw, "a value is missing beside '%.*s'", (int)raw.n,
                           (const char *)raw.p);
    return true;
}

static bool read_range(struct filter_reader *r, struct span raw, struct filter_term *t) {
    const struct sides s = sides_of(raw);
    struct point low = {0}, high = {0};
    if (!check_sides(r, raw, &s) || (s.low.n > 0 && !read_point(r, t->word, s.low, &low)) ||
        (s.high.n > 0 && !read_point(r, t->word, s.high, &high)))
        return false;
    bool is_duration = filter_word_kind(t->word) == KIND_DURATION;
    if (is_duration && !s.is_comparison && !s.is_range)
        return filter_fail(r, raw,
                           "a duration is never met exactly: write >2h, <2h or a range 1h..2h");

    t->is_numeric = true;
    t->low = INT64_MIN;
    t->high = INT64_MAX;
    if (s.low.n > 0)
        t->low = s.low_open ? low.last + 1 : low.first;
    if (s.high.n > 0)
        t->high = s.high_open ? high.first - 1 : high.last;
    if (t->low > t->high)
        return fail_inverted(r, raw);
    if (is_duration)
        fix_duration(r->now, t);
    return true;
}

/* -- values of JSON -------------------------------------------------------------------------- */

/* NULL when raw is no JSON number. */
static struct json *number_of(struct span raw) {
    if (!is_digit_at(raw, 0) && (raw.n == 0 || raw.p[0] != '-'))
        return NULL;
    struct json_error error;
    return json_parse(raw, &error);
}

/* The least whole number that is not below v. False when there is none of 64 bits. */
static bool whole_from(const struct json *v, bool is_open, int64_t *ret_whole) {
    if (json_is(v, JSON_INTEGER)) {
        *ret_whole = json_integer(v);
    } else {
        double up = ceil(json_number(v));
        if (up >= 0x1p63)
            return false;
        is_open = is_open && up == json_number(v) && up >= -0x1p63;
        *ret_whole = up < -0x1p63 ? INT64_MIN : (int64_t)up;
    }
    return !is_open || !__builtin_add_overflow(*ret_whole, 1, ret_whole);
}

/* The greatest that is not above v. */
static bool whole_to(const struct json *v, bool is_open, int64_t *ret_whole) {
    if (json_is(v, JSON_INTEGER)) {
        *ret_whole = json_integer(v);
    } else {
        double down = floor(json_number(v));
        if (down < -0x1p63)
            return false;
        is_open = is_open && down == json_number(v) && down < 0x1p63;
        *ret_whole = down >= 0x1p63 ? INT64_MAX : (int64_t)down;
    }
    return !is_open || !__builtin_sub_overflow(*ret_whole, 1, ret_whole);
}

static void set_bounds(struct filter_term *t, const struct sides *s, const struct json *low,
                       const struct json *high) {
    t->low_open = s->low_open;
    t->high_open = s->high_open;
    t->low_real = low != NULL ? json_number(low) : (double)-INFINITY;
    t->high_real = high != NULL ? json_number(high) : (double)INFINITY;
    t->low = INT64_MIN;
    t->high = INT64_MAX;
    if ((low != NULL && !whole_from(low, s->low_open, &t->low)) ||
        (high != NULL && !whole_to(high, s->high_open, &t->high))) {
        t->low = INT64_MAX;
        t->high = INT64_MIN;
    }
}

static bool is_inverted(const struct json *low, const struct json *high) {
    if (json_is(low, JSON_INTEGER) && json_is(high, JSON_INTEGER))
        return json_integer(low) > json_integer(high);
    return json_number(low) > json_number(high);
}

/* What does not read as a number is a text, but for what begins like a comparison: that somebody
 * looks for a text with a < at its beginning is rarer than that he compares what cannot be. */
static bool read_numbers(struct filter_reader *r, struct span raw, struct filter_term *t) {
    const struct sides s = sides_of(raw);
    struct json *low = number_of(s.low), *high = number_of(s.high);
    bool is_good = true;
    if ((low == NULL && high == NULL) || (low == NULL && s.low.n > 0) ||
        (high == NULL && s.high.n > 0)) {
        if (s.is_comparison)
            is_good = filter_fail(r, raw, "only numbers are compared; quote a text that begins so");
    } else if (low != NULL && high != NULL && is_inverted(low, high)) {
        is_good = fail_inverted(r, raw);
    } else {
        t->is_numeric = s.is_comparison || s.is_range;
        set_bounds(t, &s, low, high);
    }
    json_free(low);
    json_free(high);
    return is_good;
}

static bool read_json(struct filter_reader *r, struct span raw, struct filter_term *t) {
    t->is_quoted = memchr(raw.p, '"', raw.n) != NULL;
    t->low_real = (double)INFINITY;
    t->high_real = (double)-INFINITY;
    return read_numbers(r, raw, t) && (t->is_numeric || read_text(r, raw, t));
}

bool filter_read_value(struct filter_reader *r, struct span raw, struct filter_term *t) {
    if (raw.n == 0)
        return filter_fail(r, raw, "a value is missing; the empty text is \"\"");
    switch (filter_word_kind(t->word)) {
    case KIND_TEXT:
        return read_text(r, raw, t);
    case KIND_YES_NO:
        return read_yes_no(r, raw, t);
    case KIND_JSON:
        return read_json(r, raw, t);
    case KIND_NUMBER:
    case KIND_TIME:
    case KIND_DURATION:
        return read_range(r, raw, t);
    }
    assert(false && "not a kind");
    return false;
}
