#include "model/fingerprint.h"

#include "base/hash.h"
#include "base/le.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* Part of the keys, like all that is hashed. */
#define SEED UINT64_C(0x6e697869652d7631)

enum { KEY_PREFIX = 3, KEY_DIGITS = 16, SCRATCH_BYTES = 2048 };

/* What a key is made of: hashed first, so that keys of two kinds never meet. */
enum kind { KIND_EXPLICIT = 1, KIND_FRAMES = 2, KIND_MESSAGE = 3 };

/* A buffer on the stack. What is written to it has a maximum that is less. */
#define SCRATCH(name)                                                                              \
    uint8_t name##_bytes[SCRATCH_BYTES];                                                           \
    struct buf name = {.p = name##_bytes, .cap = SCRATCH_BYTES, .max = SCRATCH_BYTES}

/* -- the key --------------------------------------------------------------------------------- */

/* Each part counts with its length, so that ("ab", "c") is not ("a", "bc"). */
static uint64_t key_of(enum kind kind, const struct span *parts, size_t parts_n) {
    uint8_t digest[8 + 4 * 16], *p = digest;
    assert(parts_n <= 4);
    le_put64(p, (uint64_t)kind);
    p += 8;
    for (size_t i = 0; i < parts_n; i++, p += 16) {
        le_put64(p, parts[i].n);
        le_put64(p + 8, hash64(parts[i], SEED));
    }
    uint64_t key = hash64(span_of(digest, (size_t)(p - digest)), SEED);
    return key != 0 ? key : 1;
}

uint64_t fingerprint_v1(const struct failure_facts *f) {
    if (f->fingerprint.n > 0)
        return key_of(KIND_EXPLICIT, (struct span[]){f->queue, f->fingerprint}, 2);

    SCRATCH(text);
    enum kind kind = KIND_FRAMES;
    detail_frames(f->detail, &text);
    if (text.n == 0) {
        kind = KIND_MESSAGE;
        message_normalise(f->error, &text);
    }
    uint8_t reason = (uint8_t)f->reason; /* its number in the log, which stays */
    return key_of(
        kind, (struct span[]){f->queue, span_of(&reason, 1), f->error_class, buf_span(&text)}, 4);
}

void group_key_write(uint64_t key, char out[static GROUP_KEY_SIZE]) {
    snprintf(out, GROUP_KEY_SIZE, "v1:%016llx", (unsigned long long)key);
}

bool group_key_parse(struct span text, uint64_t *ret_key) {
    if (text.n != KEY_PREFIX + KEY_DIGITS || memcmp(text.p, "v1:", KEY_PREFIX) != 0)
        return false;
    uint64_t key = 0;
    for (size_t i = KEY_PREFIX; i < text.n; i++) {
        uint8_t c = text.p[i];
        if (c >= '0' && c <= '9')
            key = key << 4 | (uint64_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            key = key << 4 | (uint64_t)(c - 'a' + 10);
        else
            return false;
    }
    if (key == 0)
        return false;
    *ret_key = key;
    return true;
}

/* -- the title ------------------------------------------------------------------------------- */

static void cut_space(struct buf *out) {
    while (out->n > 0 && out->p[out->n - 1] == ' ')
        out->n--;
}

/* Into an empty buffer, as one line: each run of control characters and spaces is a space, none at
 * the ends. */
static void put_line(struct buf *out, struct span s) {
    for (size_t i = 0; i < s.n; i++) {
        uint8_t c = s.p[i];
        bool is_c1 = c == 0xc2 && i + 1 < s.n && s.p[i + 1] >= 0x80 && s.p[i + 1] < 0xa0;
        i += is_c1;
        if (c > ' ' && c != 0x7f && !is_c1)
            buf_add_byte(out, c);
        else if (out->n > 0 && out->p[out->n - 1] != ' ')
            buf_add_byte(out, ' ');
    }
    cut_space(out);
}

/* True when the message says its class itself ("KeyError: ..."). */
static bool begins_with(struct span message, struct span class) {
    return message.n >= class.n && span_equal(span_of(message.p, class.n), class);
}

void fingerprint_title(const struct failure_facts *f, struct buf *out) {
    SCRATCH(text);
    SCRATCH(message);
    put_line(&text, span_cut_utf8(f->error_class, FINGERPRINT_TITLE_MAX));
    message_normalise(f->error, &message);
    if (begins_with(buf_span(&message), buf_span(&text)))
        buf_clear(&text);
    if (text.n > 0 && message.n > 0)
        buf_add_str(&text, ": ");
    buf_add_span(&text, buf_span(&message));
    if (text.n == 0)
        put_line(&text, span_cut_utf8(f->fingerprint, FINGERPRINT_TITLE_MAX));
    if (text.n == 0)
        buf_add_str(&text, reason_name(f->reason));
    buf_clear(out);
    buf_add_span(out, span_cut_utf8(buf_span(&text), FINGERPRINT_TITLE_MAX));
    cut_space(out);
}
