/* JSON and base64: what is read and written again is read as the same, nothing is read beyond the text, and jansson agrees. */
#include "base/json.h"
#include "jansson_oracle.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void json_survives(struct span text) {
    struct json_error error;
    struct json *root = json_parse(text, &error);
    assert((root != NULL) == oracle_takes(text.p, text.n));
    if (root == NULL) {
        assert(error.line > 0 && error.column > 0 && error.text[0] != '\0');
        assert(span_is_utf8(span_str(error.text)));
        return;
    }

    struct buf first, second;
    buf_init(&first, text.n * 32 + 64);
    buf_init(&second, text.n * 32 + 64);
    json_dump(root, &first);
    assert(span_is_utf8(buf_span(&first)));

    assert(oracle_finds_equal(text.p, text.n, first.p, first.n));

    struct json *again = json_parse(buf_span(&first), &error);
    assert(again != NULL);
    json_dump(again, &second);
    assert(span_equal(buf_span(&first), buf_span(&second)));

    json_free(again);
    json_free(root);
    buf_release(&first);
    buf_release(&second);
}

static void base64_survives(struct span text) {
    struct buf bytes, again;
    buf_init(&bytes, text.n + 4);
    buf_init(&again, text.n + 4);
    if (base64_decode(text, &bytes) == OK) {
        base64_encode(buf_span(&bytes), &again);
        assert(span_equal(text, buf_span(&again)));
    }
    buf_release(&bytes);
    buf_release(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct span text = span_of(data, size);
    json_survives(text);
    base64_survives(text);
    struct span cut = span_cut_utf8(text, size / 2);
    assert(!span_is_utf8(text) || span_is_utf8(cut));
    return 0;
}
