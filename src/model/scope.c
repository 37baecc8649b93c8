#include "model/scope.h"

#include "base/limits.h"

#include <string.h>

static bool has_nul(struct span s) {
    return s.n > 0 && memchr(s.p, 0, s.n) != NULL;
}

static bool begins_with_two_slashes(struct span s) {
    return s.n >= 2 && s.p[0] == '/' && s.p[1] == '/';
}

/* How long the vhost is that `s` begins with: up to the first slash after the first byte. */
static size_t vhost_length(struct span s) {
    if (s.n < 2)
        return s.n;
    const uint8_t *slash = memchr(s.p + 1, '/', s.n - 1);
    return slash != NULL ? (size_t)(slash - s.p) : s.n;
}

bool scope_vhost_is_valid(struct span vhost) {
    if (span_equal_str(vhost, "/"))
        return true;
    return vhost.n > 0 && vhost_length(vhost) == vhost.n && vhost.n + 3 <= LIMIT_QUEUE_NAME &&
           !has_nul(vhost);
}

bool scope_name(struct span vhost, struct span name, struct buf *out) {
    buf_clear(out);
    if (name.n > LIMIT_QUEUE_NAME || has_nul(name))
        return false;
    if (span_equal_str(vhost, "/")) {
        if (begins_with_two_slashes(name))
            return false;
        buf_add_span(out, name);
        return true;
    }
    if (!scope_vhost_is_valid(vhost) || vhost.n + name.n + 3 > LIMIT_QUEUE_NAME)
        return false;
    buf_add_str(out, "//");
    buf_add_span(out, vhost);
    buf_add_byte(out, '/');
    buf_add_span(out, name);
    return true;
}

void scope_split(struct span scoped, struct span *ret_vhost, struct span *ret_name) {
    *ret_vhost = span_str("/");
    *ret_name = scoped;
    if (!begins_with_two_slashes(scoped))
        return;
    struct span rest = span_of(scoped.p + 2, scoped.n - 2);
    struct span vhost = span_of(rest.p, vhost_length(rest));
    if (vhost.n == rest.n || !scope_vhost_is_valid(vhost) || span_equal_str(vhost, "/"))
        return;
    *ret_vhost = vhost;
    *ret_name = span_of(rest.p + vhost.n + 1, rest.n - vhost.n - 1);
}
