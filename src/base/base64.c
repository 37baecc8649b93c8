#include "base/json.h"

static const char base64_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_encode(struct span bytes, struct buf *out) {
    size_t full = bytes.n / 3, rest = bytes.n % 3;
    uint8_t *to = buf_reserve(out, (full + (rest > 0 ? 1 : 0)) * 4);
    const uint8_t *from = bytes.p;

    for (size_t i = 0; i < full; i++, from += 3, to += 4) {
        uint32_t group = (uint32_t)from[0] << 16 | (uint32_t)from[1] << 8 | from[2];
        to[0] = (uint8_t)base64_digits[group >> 18];
        to[1] = (uint8_t)base64_digits[group >> 12 & 63];
        to[2] = (uint8_t)base64_digits[group >> 6 & 63];
        to[3] = (uint8_t)base64_digits[group & 63];
    }
    out->n += full * 4;

    if (rest > 0) {
        uint32_t group = (uint32_t)from[0] << 16 | (rest == 2 ? (uint32_t)from[1] << 8 : 0);
        to[0] = (uint8_t)base64_digits[group >> 18];
        to[1] = (uint8_t)base64_digits[group >> 12 & 63];
        to[2] = rest == 2 ? (uint8_t)base64_digits[group >> 6 & 63] : '=';
        to[3] = '=';
        out->n += 4;
    }
}

/* 0..63, or more for a byte that is no digit. Or-ing several values keeps the bit that says so. */
static uint32_t base64_value(uint8_t c) {
    if (c >= 'A' && c <= 'Z')
        return c - (uint32_t)'A';
    if (c >= 'a' && c <= 'z')
        return c - (uint32_t)'a' + 26;
    if (c >= '0' && c <= '9')
        return c - (uint32_t)'0' + 52;
    if (c == '+')
        return 62;
    return c == '/' ? 63 : 64;
}

enum err base64_decode(struct span text, struct buf *out) {
    if (text.n % 4 != 0)
        return ERR_INVALID;
    if (text.n == 0)
        return OK;

    const uint8_t *from = text.p;
    size_t padding = from[text.n - 1] != '=' ? 0 : from[text.n - 2] != '=' ? 1 : 2;
    size_t full = text.n / 4 - (padding > 0 ? 1 : 0);
    uint8_t *to = buf_reserve(out, text.n / 4 * 3);

    for (size_t i = 0; i < full; i++, from += 4, to += 3) {
        uint32_t a = base64_value(from[0]), b = base64_value(from[1]);
        uint32_t c = base64_value(from[2]), d = base64_value(from[3]);
        if ((a | b | c | d) > 63)
            return ERR_INVALID;
        uint32_t group = a << 18 | b << 12 | c << 6 | d;
        to[0] = (uint8_t)(group >> 16);
        to[1] = (uint8_t)(group >> 8);
        to[2] = (uint8_t)group;
    }
    if (padding > 0) {
        uint32_t a = base64_value(from[0]), b = base64_value(from[1]);
        uint32_t c = padding == 1 ? base64_value(from[2]) : 0;
        if ((a | b | c) > 63)
            return ERR_INVALID;
        uint32_t group = a << 18 | b << 12 | c << 6;
        /* Bits that stand for no byte must be zero, so that one text stands for some bytes and no
         * other does. */
        if ((group & (padding == 1 ? 0xffU : 0xffffU)) != 0)
            return ERR_INVALID;
        to[0] = (uint8_t)(group >> 16);
        if (padding == 1)
            to[1] = (uint8_t)(group >> 8);
    }
    out->n += text.n / 4 * 3 - padding;
    return OK;
}
