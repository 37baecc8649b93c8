/* Kinds of bytes, whatever the locale. Any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

static inline bool is_digit(uint8_t c) {
    return c >= '0' && c <= '9';
}

static inline bool is_lower(uint8_t c) {
    return c >= 'a' && c <= 'z';
}

static inline bool is_upper(uint8_t c) {
    return c >= 'A' && c <= 'Z';
}

static inline bool is_letter(uint8_t c) {
    return is_lower(c) || is_upper(c);
}

static inline bool is_hex(uint8_t c) {
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* Of a word: a letter or digit, or part of a character that is not ASCII. */
static inline bool is_word(uint8_t c) {
    return is_letter(c) || is_digit(c) || c >= 0x80;
}
