#include "model/token.h"

#include "model/ascii.h"

#include <string.h>

enum { UUID_BYTES = 36, ISO_DATE_BYTES = 10, DURATION_PARTS = 6 };

/* -- reading --------------------------------------------------------------------------------- */

/* 0 behind the end: no token has a NUL in it. */
static uint8_t at(struct span s, size_t i) {
    return i < s.n ? s.p[i] : 0;
}

static struct span from(struct span s, size_t i) {
    return i < s.n ? span_of(s.p + i, s.n - i) : span_of(s.p, 0);
}

static bool is_one_of(uint8_t c, const char *set) {
    return c != 0 && strchr(set, c) != NULL;
}

static bool begins(struct span s, const char *word) {
    size_t n = strlen(word);
    return s.n >= n && memcmp(s.p, word, n) == 0;
}

static size_t run(struct span s, bool (*is_it)(uint8_t c)) {
    size_t n = 0;
    while (n < s.n && is_it(s.p[n]))
        n++;
    return n;
}

/* True when the text has this form: 0 a digit, x a hexadecimal one, all else itself. */
static bool has_form(struct span s, const char *form) {
    for (size_t i = 0; form[i] != '\0'; i++) {
        uint8_t c = at(s, i);
        bool is_good = form[i] == '0'   ? is_digit(c)
                       : form[i] == 'x' ? is_hex(c)
                                        : c == (uint8_t)form[i];
        if (!is_good)
            return false;
    }
    return true;
}

/* n when a word may end there, else 0. */
static size_t if_ends(struct span s, size_t n) {
    return is_word(at(s, n)) ? 0 : n;
}

/* -- ids and numbers ------------------------------------------------------------------------- */

size_t token_uuid(struct span s) {
    if (s.n < UUID_BYTES || s.p[8] != '-' || !has_form(s, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"))
        return 0;
    return if_ends(s, UUID_BYTES);
}

/* With the exponent of a number, if there is one at i. */
static size_t after_exponent(struct span s, size_t i) {
    if (at(s, i) != 'e' && at(s, i) != 'E')
        return i;
    size_t digits = i + 1;
    if (at(s, digits) == '+' || at(s, digits) == '-')
        digits++;
    size_t n = run(from(s, digits), is_digit);
    return n > 0 && !is_word(at(s, digits + n)) ? digits + n : i;
}

size_t token_number(struct span s) {
    size_t i = run(s, is_digit);
    while ((at(s, i) == '.' || at(s, i) == ',') && is_digit(at(s, i + 1)))
        i += 1 + run(from(s, i + 1), is_digit);
    return i > 0 ? after_exponent(s, i) : 0;
}

/* -- times ----------------------------------------------------------------------------------- */

/* 1:02:03 or 01:02:03.456; when that is enough, also 01:02. */
static size_t clock_bytes(struct span s, bool minutes_are_enough) {
    size_t i = has_form(s, "00:00") ? 5 : has_form(s, "0:00") ? 4 : 0;
    if (i == 0)
        return 0;
    if (!has_form(from(s, i), ":00"))
        return minutes_are_enough && !is_digit(at(s, i)) ? i : 0;
    i += 3;
    if (is_digit(at(s, i)))
        return 0;
    if ((at(s, i) == '.' || at(s, i) == ',') && is_digit(at(s, i + 1)))
        i += 1 + run(from(s, i + 1), is_digit);
    return i;
}

static size_t zone_bytes(struct span s) {
    if (at(s, 0) == '+' || at(s, 0) == '-')
        return has_form(from(s, 1), "00:00") ? 6 : has_form(from(s, 1), "0000") ? 5 : 0;
    if (begins(s, "UTC") || begins(s, "GMT"))
        return if_ends(s, 3);
    if (begins(s, "AM") || begins(s, "PM"))
        return if_ends(s, 2);
    return at(s, 0) == 'Z' ? if_ends(s, 1) : 0;
}

/* With the zone of a clock that ends at i, if there is one. */
static size_t after_zone(struct span s, size_t i) {
    size_t n = zone_bytes(from(s, i));
    if (n == 0 && at(s, i) == ' ') {
        n = zone_bytes(from(s, i + 1));
        n += n > 0;
    }
    return i + n;
}

/* 2024-01-15 and a clock after it. */
static size_t iso_time(struct span s) {
    if (!has_form(s, "0000-00-00") || is_digit(at(s, ISO_DATE_BYTES)))
        return 0;
    size_t i = ISO_DATE_BYTES;
    if (!is_one_of(at(s, i), "Tt _"))
        return if_ends(s, i);
    size_t n = clock_bytes(from(s, i + 1), true);
    return n == 0 ? if_ends(s, i) : after_zone(s, i + 1 + n);
}

/* The parts of a date in words, each at most once, in any order. */
enum part { PART_NONE, PART_WEEKDAY, PART_MONTH, PART_DAY, PART_YEAR, PART_CLOCK, PART_ZONE };

/* The bytes of one of these words, or of its first three letters. */
static size_t name_bytes(struct span s, const char *const names[]) {
    for (size_t i = 0; names[i] != NULL; i++) {
        if (s.n < 3 || memcmp(s.p, names[i], 3) != 0)
            continue;
        size_t n = strlen(names[i]);
        if (begins(s, names[i]) && !is_word(at(s, n)))
            return n;
        return if_ends(s, 3);
    }
    return 0;
}

static enum part date_part(struct span s, size_t *ret_n) {
    static const char *const weekdays[] = {"Monday", "Tuesday",  "Wednesday", "Thursday",
                                           "Friday", "Saturday", "Sunday",    NULL};
    static const char *const months[] = {"January",  "February", "March",  "April",     "May",
                                         "June",     "July",     "August", "September", "October",
                                         "November", "December", NULL};
    if (is_digit(at(s, 0))) {
        *ret_n = clock_bytes(s, false);
        if (*ret_n > 0)
            return PART_CLOCK;
        *ret_n = if_ends(s, run(s, is_digit));
        return *ret_n == 1 || *ret_n == 2 ? PART_DAY : *ret_n == 4 ? PART_YEAR : PART_NONE;
    }
    if ((*ret_n = zone_bytes(s)) > 0)
        return PART_ZONE;
    if ((*ret_n = name_bytes(s, months)) > 0)
        return PART_MONTH;
    return (*ret_n = name_bytes(s, weekdays)) > 0 ? PART_WEEKDAY : PART_NONE;
}

/* A month with a day or a year, and what belongs to it. */
static size_t date_in_words(struct span s) {
    size_t digits = run(s, is_digit);
    if (!is_upper(at(s, digits > 0 ? digits + 1 : 0)))
        return 0;
    unsigned seen = 0;
    size_t end = 0, i = 0;
    for (;;) {
        size_t n;
        enum part part = date_part(from(s, i), &n);
        if (part == PART_NONE || (seen & 1U << part) != 0)
            break;
        seen |= 1U << part;
        end = i = i + n;
        if (is_one_of(at(s, i), ",/:-"))
            i++;
        if (at(s, i) == ' ')
            i++;
        if (i == end)
            break;
    }
    bool has_month = (seen & 1U << PART_MONTH) != 0;
    return has_month && (seen & (1U << PART_DAY | 1U << PART_YEAR)) != 0 ? end : 0;
}

size_t token_time(struct span s) {
    if (!is_digit(at(s, 0)))
        return is_lower(at(s, 1)) ? date_in_words(s) : 0;
    if (at(s, 4) == '-')
        return iso_time(s);
    if (at(s, 1) != ':' && at(s, 2) != ':')
        return date_in_words(s);
    size_t n = clock_bytes(s, false);
    return n > 0 ? if_ends(s, after_zone(s, n)) : 0;
}

static size_t unit_bytes(struct span s) {
    static const char *const units[] = {
        "ms", "min", "sec", "s", "m", "h", "d", "ns", "us", "\xc2\xb5s", "\xce\xbcs", NULL,
    };
    for (size_t i = 0; units[i] != NULL; i++) {
        size_t n = strlen(units[i]);
        if (begins(s, units[i]) && (is_digit(at(s, n)) || !is_word(at(s, n))))
            return n;
    }
    return 0;
}

/* P1DT2H3M4.5S, as ISO 8601 has it. */
static size_t iso_duration(struct span s) {
    size_t i = 1;
    bool has_number = false;
    for (; i < s.n && (is_digit(s.p[i]) || is_one_of(s.p[i], ".TYMWDHS")); i++)
        has_number |= is_digit(s.p[i]);
    i -= s.p[i - 1] == '.';
    return has_number && is_upper(s.p[i - 1]) ? if_ends(s, i) : 0;
}

size_t token_duration(struct span s) {
    if (at(s, 0) == 'P')
        return iso_duration(s);
    size_t i = 0;
    for (int part = 0; part < DURATION_PARTS && is_digit(at(s, i)); part++) {
        i += run(from(s, i), is_digit);
        if (at(s, i) == '.' && is_digit(at(s, i + 1)))
            i += 1 + run(from(s, i + 1), is_digit);
        size_t n = unit_bytes(from(s, i));
        if (n == 0)
            return 0;
        i += n;
    }
    return if_ends(s, i);
}

/* -- addresses ------------------------------------------------------------------------------- */

/* With a port or a prefix length that is after it. */
static size_t after_port(struct span s, size_t i) {
    if ((at(s, i) == ':' || at(s, i) == '/') && is_digit(at(s, i + 1)))
        i += 1 + run(from(s, i + 1), is_digit);
    return i;
}

/* Four numbers of at most three digits. */
size_t token_ip4(struct span s) {
    size_t i = 0;
    for (int group = 0; group < 4; group++) {
        if (group > 0 && at(s, i++) != '.')
            return 0;
        size_t n = run(from(s, i), is_digit);
        if (n == 0 || n > 3)
            return 0;
        i += n;
    }
    bool goes_on = is_word(at(s, i)) || (at(s, i) == '.' && is_digit(at(s, i + 1)));
    return goes_on ? 0 : after_port(s, i);
}

static bool is_of_ip6(uint8_t c) {
    return is_hex(c) || c == ':' || c == '.';
}

/* IPv6 has an empty group or eight, a MAC address six of two digits. Names in a program ("a::b")
 * have letters other than a to f, or no digit. */
static bool is_ip6(struct span s) {
    size_t colons = 0, digits = 0, in_group = 0, longest = 0;
    bool has_gap = false, is_mac = true;
    for (size_t i = 0; i <= s.n; i++) {
        if (i < s.n && s.p[i] != ':') {
            digits += is_digit(s.p[i]);
            in_group = s.p[i] == '.' ? 0 : in_group + 1; /* IPv4 may be at the end */
            longest = in_group > longest ? in_group : longest;
            continue;
        }
        has_gap |= i > 0 && i < s.n && s.p[i - 1] == ':';
        is_mac &= in_group == 2;
        in_group = 0;
        colons += i < s.n;
    }
    bool has_form = (has_gap && colons >= 2) || colons == 7 || (colons == 5 && is_mac);
    return has_form && digits > 0 && longest <= 4;
}

size_t token_ip6(struct span s) {
    size_t n = run(s, is_of_ip6);
    while (n > 0 && (s.p[n - 1] == '.' || (s.p[n - 1] == ':' && at(s, n - 2) != ':')))
        n--;
    if (n < 3 || is_word(at(s, n)) || !is_ip6(span_of(s.p, n)))
        return 0;
    if (at(s, n) == '%')
        n += 1 + run(from(s, n + 1), is_word);
    return after_port(s, n);
}

bool token_is_local(uint8_t c) {
    return is_letter(c) || is_digit(c) || c == '.' || c == '_' || c == '-' || c == '+' || c == '%';
}

static bool is_of_domain(uint8_t c) {
    return is_letter(c) || is_digit(c) || c == '.' || c == '-';
}

size_t token_email(struct span s) {
    size_t local = run(s, token_is_local);
    if (local == 0 || at(s, local) != '@')
        return 0;
    struct span domain = from(s, local + 1);
    size_t n = run(domain, is_of_domain);
    while (n > 0 && !is_letter(domain.p[n - 1]) && !is_digit(domain.p[n - 1]))
        n--;
    size_t last = n; /* of the labels: letters, so that a version ("x@1.2.3") is none */
    while (last > 0 && is_letter(domain.p[last - 1]))
        last--;
    return n - last >= 2 && last > 1 && domain.p[last - 1] == '.' ? local + 1 + n : 0;
}

static bool is_of_scheme(uint8_t c) {
    return is_letter(c) || is_digit(c);
}

static bool is_of_url(uint8_t c) {
    switch (c) {
    case '"':
    case '\'':
    case '<':
    case '>':
    case '`':
    case '{':
    case '|':
    case '}':
    case '\\':
    case 0x7f:
        return false;
    default:
        return c > ' ';
    }
}

size_t token_url(struct span s) {
    size_t scheme = is_letter(at(s, 0)) ? run(s, is_of_scheme) : 0;
    if (scheme == 0 || !begins(from(s, scheme), "://"))
        return 0;
    size_t i = scheme + 3;
    size_t n = run(from(s, i), is_of_url);
    while (n > 0 && is_one_of(s.p[i + n - 1], ".,;:!?)]"))
        n--;
    return n > 0 ? i + n : 0;
}

static bool is_of_path(uint8_t c) {
    switch (c) {
    case '\\':
        return true;
    case '(':
    case ')':
    case ',':
    case ':':
    case ';':
    case '[':
    case ']':
        return false;
    default:
        return is_of_url(c);
    }
}

size_t token_path(struct span s) {
    size_t i = 0;
    if (at(s, 0) == '~' && at(s, 1) == '/')
        i = 1;
    else if (at(s, 0) == '.')
        i = at(s, 1) == '.' ? 2 : 1;
    else if (is_letter(at(s, 0)) && at(s, 1) == ':' && is_one_of(at(s, 2), "\\/"))
        i = 2;
    else if (at(s, 0) == '\\' && at(s, 1) == '\\')
        i = 1;
    bool is_path = at(s, i) == '/' || (at(s, i) == '\\' && (i == 1 || i == 2));
    if (!is_path || !(is_word(at(s, i + 1)) || is_one_of(at(s, i + 1), "._~%$-")))
        return 0;
    size_t n = i + run(from(s, i), is_of_path);
    while (n > 0 && is_one_of(s.p[n - 1], ".!?"))
        n--;
    return n;
}
