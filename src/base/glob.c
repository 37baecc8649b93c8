#include "base/glob.h"

#include <string.h>

/* Stars cut the pattern into pieces. The first and the last are tied to the ends of the text; each
 * of the others is taken at the first place behind the one before, which leaves the most to the
 * rest. marks tells where the stars are: it holds `mark` there. */
static bool match(struct span pattern, const uint8_t *marks, uint8_t mark, struct span text) {
    const uint8_t *star = pattern.n > 0 ? memchr(marks, mark, pattern.n) : NULL;
    if (star == NULL)
        return span_equal(pattern, text);
    if (text.n == 0)
        text = span_str(""); /* no pointer arithmetic with NULL */
    const uint8_t *last = memrchr(star, mark, pattern.n - (size_t)(star - marks));
    size_t head = (size_t)(star - marks), at = (size_t)(last - marks) + 1;
    size_t tail = pattern.n - at;
    if (text.n < head + tail || memcmp(text.p, pattern.p, head) != 0 ||
        memcmp(text.p + text.n - tail, pattern.p + at, tail) != 0)
        return false;

    const uint8_t *p = text.p + head, *end = text.p + text.n - tail;
    while (star < last) {
        const uint8_t *next = memchr(star + 1, mark, (size_t)(last - star));
        size_t n = (size_t)(next - star) - 1;
        const uint8_t *piece = pattern.p + (star + 1 - marks);
        const uint8_t *found = memmem(p, (size_t)(end - p), piece, n);
        if (found == NULL)
            return false;
        p = found + n;
        star = next;
    }
    return true;
}

bool glob_match(struct span pattern, struct span text) {
    return match(pattern, pattern.p, '*', text);
}

bool glob_match_marked(struct span pattern, const uint8_t *marks, struct span text) {
    return match(pattern, marks, 1, text);
}
