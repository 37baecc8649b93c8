#include "cli/text.h"

#include <stdio.h>
#include <string.h>
#include <wchar.h>

/* One character of a text: how many bytes, and which (the byte itself when it is no UTF-8). */
struct character {
    size_t n;
    uint32_t code;
    bool is_utf8;
};

static struct character character_at(struct span s, size_t i) {
    uint8_t first = s.p[i];
    if (first < 0x80)
        return (struct character){.n = 1, .code = first, .is_utf8 = true};
    size_t n = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (n > s.n - i || !span_is_utf8(span_of(s.p + i, n)))
        return (struct character){.n = 1, .code = first, .is_utf8 = false};
    uint32_t code = first & (0xffU >> (n + 1));
    for (size_t k = 1; k < n; k++)
        code = code << 6 | (s.p[i + k] & 0x3fU);
    return (struct character){.n = n, .code = code, .is_utf8 = true};
}

/* Control characters of both sets, and those that change the direction or the lines of what
 * surrounds them. */
static bool code_is_harmful(uint32_t c) {
    return c < 0x20 || (c >= 0x7f && c <= 0x9f) || c == 0x061c || c == 0x200e || c == 0x200f ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0xfeff;
}

static void add_escaped(struct character c, struct buf *out) {
    if (c.is_utf8 && c.code == '\n')
        buf_add_str(out, "\\n");
    else if (c.is_utf8 && c.code == '\r')
        buf_add_str(out, "\\r");
    else if (c.is_utf8 && c.code == '\t')
        buf_add_str(out, "\\t");
    else if (c.is_utf8 && c.code >= 0x80)
        buf_printf(out, "\\u{%04x}", c.code);
    else
        buf_printf(out, "\\x%02x", c.code);
}

void text_escape(struct span s, enum text_lines lines, struct buf *out) {
    for (size_t i = 0; i < s.n;) {
        struct character c = character_at(s, i);
        bool is_kept = lines == TEXT_KEEP_LINES && (c.code == '\n' || c.code == '\t');
        if (c.is_utf8 && (is_kept || !code_is_harmful(c.code)))
            buf_add(out, s.p + i, c.n);
        else
            add_escaped(c, out);
        i += c.n;
    }
}

static size_t code_columns(uint32_t code) {
    int width = wcwidth((wchar_t)code);
    return width < 0 ? 1 : (size_t)width;
}

size_t text_columns(struct span s) {
    size_t columns = 0;
    for (size_t i = 0; i < s.n;) {
        struct character c = character_at(s, i);
        columns += code_columns(c.code);
        i += c.n;
    }
    return columns;
}

void text_add_clipped(struct span s, size_t columns, struct buf *out) {
    size_t used = 0, cut = 0; /* cut: where the ellipsis still fits */
    for (size_t i = 0; i < s.n;) {
        struct character c = character_at(s, i);
        used += code_columns(c.code);
        if (used > columns) {
            buf_add(out, s.p, cut);
            buf_add_str(out, "…");
            return;
        }
        i += c.n;
        if (used < columns)
            cut = i;
    }
    buf_add_span(out, s);
}

static void add_json_escape(uint32_t code, struct buf *out) {
    buf_printf(out, "\\u%04x", code); /* none of the harmful ones is beyond U+FFFF */
}

/* Appends the string that begins at i, quotes included; returns where it ends. */
static size_t add_json_string(struct span json, size_t i, struct buf *out) {
    buf_add_byte(out, json.p[i++]);
    while (i < json.n) {
        struct character c = character_at(json, i);
        if (c.code == '\\' && i + 1 < json.n)
            c.n = 2;
        else if (code_is_harmful(c.code)) {
            add_json_escape(c.code, out);
            i += c.n;
            continue;
        }
        buf_add(out, json.p + i, c.n);
        i += c.n;
        if (c.n == 1 && c.code == '"')
            break;
    }
    return i;
}

static void add_line_start(unsigned columns, struct buf *out) {
    buf_add_byte(out, '\n');
    for (unsigned k = 0; k < columns; k++)
        buf_add_byte(out, ' ');
}

void text_add_json(struct span json, bool is_indented, unsigned margin, struct buf *out) {
    unsigned depth = 0;
    for (size_t i = 0; i < json.n;) {
        uint8_t c = json.p[i];
        if (c == '"') {
            i = add_json_string(json, i, out);
            continue;
        }
        i++;
        bool is_empty = i < json.n && (json.p[i] == '}' || json.p[i] == ']');
        if (is_indented && (c == '}' || c == ']') && json.p[i - 2] != '{' && json.p[i - 2] != '[')
            add_line_start(margin + 2 * (depth - 1), out);
        buf_add_byte(out, c);
        if (c == '{' || c == '[')
            depth++;
        else if (c == '}' || c == ']')
            depth--;
        if (is_indented && (c == ',' || ((c == '{' || c == '[') && !is_empty)))
            add_line_start(margin + 2 * depth, out);
        else if (is_indented && c == ':')
            buf_add_byte(out, ' ');
    }
}

void text_add_utf8(struct span s, struct buf *out) {
    for (size_t i = 0; i < s.n;) {
        struct character c = character_at(s, i);
        if (c.is_utf8)
            buf_add(out, s.p + i, c.n);
        else
            buf_add_str(out, "\xef\xbf\xbd");
        i += c.n;
    }
}

void text_add_segment(const char *s, struct buf *out) {
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_~.";
    for (size_t i = 0; s[i] != '\0'; i++) {
        if (strchr(plain, s[i]) != NULL && (i > 0 || s[i] != '.'))
            buf_add_byte(out, (uint8_t)s[i]);
        else
            buf_printf(out, "%%%02X", (unsigned)(uint8_t)s[i]);
    }
}

void text_add_grouped(uint64_t v, struct buf *out) {
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%llu", (unsigned long long)v);
    for (int i = 0; i < n; i++) {
        if (i > 0 && (n - i) % 3 == 0)
            buf_add_byte(out, ',');
        buf_add_byte(out, (uint8_t)digits[i]);
    }
}

void text_add_counted(uint64_t v, const char *one, const char *many, struct buf *out) {
    text_add_grouped(v, out);
    buf_printf(out, " %s", v == 1 ? one : many);
}

void text_add_duration(int64_t ms, struct buf *out) {
    long long s = (long long)(ms / 1000);
    if (ms % 1000 == 0 && s < 60)
        buf_printf(out, "%llds", s);
    else if (ms < 1000)
        buf_printf(out, "%lldms", (long long)ms);
    else if (s < 60)
        buf_printf(out, "%lld.%llds", s, (long long)(ms % 1000 / 100));
    else if (s < 3600)
        buf_printf(out, "%lldm%02llds", s / 60, s % 60);
    else if (s < 86400)
        buf_printf(out, "%lldh%02lldm", s / 3600, s % 3600 / 60);
    else
        buf_printf(out, "%lldd%02lldh", s / 86400, s % 86400 / 3600);
}

enum err text_number(struct span s, int64_t min, int64_t max, int64_t *ret) {
    int64_t v = 0;
    if (s.n == 0)
        return ERR_INVALID;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] < '0' || s.p[i] > '9')
            return ERR_INVALID;
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, s.p[i] - '0', &v))
            return ERR_INVALID;
    }
    if (v < min || v > max)
        return ERR_INVALID;
    *ret = v;
    return OK;
}

enum err text_seconds(const char *s, int64_t min, int64_t max, int64_t *ret_seconds) {
    struct span digits = span_str(s);
    int64_t unit = 1, v;
    if (digits.n > 0) {
        switch (digits.p[digits.n - 1]) {
        case 's':
            digits.n--;
            break;
        case 'm':
            unit = 60;
            digits.n--;
            break;
        case 'h':
            unit = 3600;
            digits.n--;
            break;
        case 'd':
            unit = 86400;
            digits.n--;
            break;
        default:
            break;
        }
    }
    if (text_number(digits, 0, INT64_MAX / unit, &v) != OK || v * unit < min || v * unit > max)
        return ERR_INVALID;
    *ret_seconds = v * unit;
    return OK;
}

enum err text_milliseconds(const char *s, int64_t min, int64_t max, int64_t *ret_ms) {
    struct span digits = span_str(s);
    int64_t v;
    if (digits.n > 2 && memcmp(digits.p + digits.n - 2, "ms", 2) == 0) {
        digits.n -= 2;
        return text_number(digits, min, max, ret_ms);
    }
    if (text_seconds(s, 0, max / 1000, &v) != OK || v * 1000 < min)
        return ERR_INVALID;
    *ret_ms = v * 1000;
    return OK;
}
