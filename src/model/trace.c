#include "model/trace.h"

#include "base/json.h"

#include <string.h>
#include <strings.h>

enum { AT_TRACE = 3, AT_PARENT = 36, AT_FLAGS = 53, ALL_BYTES = 55, TRACE_DIGITS = 32 };

static bool is_hex(const uint8_t *p, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (!(p[i] >= '0' && p[i] <= '9') && !(p[i] >= 'a' && p[i] <= 'f'))
            return false;
    }
    return true;
}

static bool is_zeros(const uint8_t *p, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (p[i] != '0')
            return false;
    }
    return true;
}

static bool is_traceparent(struct span s) {
    if (s.n < ALL_BYTES)
        return false;
    const uint8_t *p = s.p;
    if (!is_hex(p, 2) || p[2] != '-' || memcmp(p, "ff", 2) == 0)
        return false;
    if (!is_hex(p + AT_TRACE, TRACE_DIGITS) || p[AT_PARENT - 1] != '-' ||
        is_zeros(p + AT_TRACE, TRACE_DIGITS))
        return false;
    if (!is_hex(p + AT_PARENT, 16) || p[AT_FLAGS - 1] != '-' || is_zeros(p + AT_PARENT, 16))
        return false;
    if (!is_hex(p + AT_FLAGS, 2))
        return false;
    return s.n == ALL_BYTES || (memcmp(p, "00", 2) != 0 && p[ALL_BYTES] == '-');
}

static bool find_traceparent(void *ctx, const char *name, const struct json *member) {
    if (strcasecmp(name, "traceparent") != 0)
        return true;
    *(const struct json **)ctx = member;
    return false;
}

/* No parsing for the many messages that have no such header. The headers as they are kept have no
 * escapes in plain letters. */
static bool names_traceparent(struct span headers) {
    static const char name[] = "traceparent\"";
    for (size_t i = 0; i + sizeof name - 1 <= headers.n; i++) {
        if (strncasecmp((const char *)headers.p + i, name, sizeof name - 1) == 0)
            return true;
    }
    return false;
}

bool trace_id_of(struct span headers, char out[static TRACE_ID_SIZE]) {
    if (!names_traceparent(headers))
        return false;
    struct json_error error;
    struct json *root = json_parse(headers, &error);
    if (root == NULL)
        return false;

    const struct json *value = NULL;
    if (json_is(root, JSON_OBJECT))
        json_each(root, find_traceparent, &value);
    bool is_there = json_is(value, JSON_STRING) && is_traceparent(json_string(value));
    if (is_there) {
        memcpy(out, json_string(value).p + AT_TRACE, TRACE_DIGITS);
        out[TRACE_DIGITS] = '\0';
    }
    json_free(root);
    return is_there;
}
