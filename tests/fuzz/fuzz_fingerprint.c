/* Fingerprints of any bytes: after a byte for the reason, queue NUL own fingerprint NUL class NUL
 * message NUL detail. What is made of them is bounded, one line, UTF-8 if they are, and the same
 * again. */
#include "model/fingerprint.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What is before the next NUL, which is taken off, too. */
static struct span take_part(struct span *rest) {
    const uint8_t *nul = rest->n > 0 ? memchr(rest->p, '\0', rest->n) : NULL;
    size_t n = nul != NULL ? (size_t)(nul - rest->p) : rest->n;
    struct span part = span_of(rest->p, n);
    n += nul != NULL;
    *rest = span_of(rest->p + n, rest->n - n);
    return part;
}

/* No control characters, no space at the ends, none beside another. */
static void check_line(struct span line, bool is_utf8) {
    if (is_utf8)
        assert(span_is_utf8(line));
    for (size_t i = 0; i < line.n; i++) {
        assert(line.p[i] >= ' ' && line.p[i] != 0x7f);
        bool is_c1 = line.p[i] == 0xc2 && i + 1 < line.n && line.p[i + 1] < 0xa0;
        assert(!is_utf8 || !is_c1);
    }
    assert(line.n == 0 || (line.p[0] != ' ' && line.p[line.n - 1] != ' '));
}

static void check_message(struct span message) {
    struct buf out, again;
    buf_init(&out, FINGERPRINT_NORMAL_MAX);
    buf_init(&again, FINGERPRINT_NORMAL_MAX + 5);
    message_normalise(message, &out);
    check_line(buf_span(&out), span_is_utf8(message));

    buf_add_str(&again, "<n>, ");
    message_normalise(message, &again);
    struct span added = span_of(again.p + 5, again.n - 5);
    assert(span_equal(buf_span(&out), added));
    buf_release(&out);
    buf_release(&again);
}

static void check_frames(struct span detail) {
    enum { FRAME_BYTES_MAX = 160 + 1 + 64 + 1 };
    struct buf out;
    buf_init(&out, FINGERPRINT_FRAMES * FRAME_BYTES_MAX);
    detail_frames(detail, &out);
    size_t lines = 0;
    for (size_t i = 0; i < out.n; i++)
        lines += out.p[i] == '\n';
    assert(lines <= FINGERPRINT_FRAMES && (out.n == 0 || out.p[out.n - 1] == '\n'));
    buf_release(&out);
}

static void check_key(const struct failure_facts *f) {
    uint64_t key = fingerprint_v1(f), parsed;
    assert(key != 0 && key == fingerprint_v1(f));
    char text[GROUP_KEY_SIZE];
    group_key_write(key, text);
    bool is_key = group_key_parse(span_str(text), &parsed);
    assert(is_key && parsed == key);
}

static void check_title(const struct failure_facts *f) {
    struct buf out;
    buf_init(&out, FINGERPRINT_TITLE_MAX);
    fingerprint_title(f, &out);
    assert(out.n > 0);
    bool is_utf8 =
        span_is_utf8(f->error_class) && span_is_utf8(f->error) && span_is_utf8(f->fingerprint);
    check_line(buf_span(&out), is_utf8);
    buf_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    struct span rest = span_of(data + 1, size - 1);
    struct failure_facts f = {.reason = (enum reason)(data[0] % REASON_COUNT)};
    f.queue = take_part(&rest);
    f.fingerprint = take_part(&rest);
    f.error_class = take_part(&rest);
    f.error = take_part(&rest);
    f.detail = rest;
    check_key(&f);
    check_title(&f);
    f.fingerprint = span_of(NULL, 0);
    check_key(&f);
    check_message(f.error);
    check_message(f.detail);
    check_frames(f.detail);
    return 0;
}
