#include "jansson_oracle.h"

#include <jansson.h>
#include <string.h>

static json_t *load(const void *text, size_t n) {
    json_error_t error;
    return json_loadb(n > 0 ? text : "", n,
                      JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &error);
}

bool oracle_takes(const void *text, size_t n) {
    /* It takes a NUL after a number for the end of the text. */
    if (n > 0 && memchr(text, 0, n) != NULL)
        return false;
    json_t *root = load(text, n);
    json_decref(root);
    return root != NULL;
}

bool oracle_finds_equal(const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
    json_t *first = load(a, a_bytes), *second = load(b, b_bytes);
    bool is_equal = first != NULL && second != NULL && json_equal(first, second);
    json_decref(first);
    json_decref(second);
    return is_equal;
}
