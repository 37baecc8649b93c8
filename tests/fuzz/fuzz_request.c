/* HTTP requests, shown whole and again in pieces: both must be understood alike. The first byte picks the size of the pieces. */
#include "http/request.h"

#include "base/mem.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { BODY_MAX = 1000, REQUESTS_MAX = 50 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What was understood, by value. */
struct seen {
    enum parsed parsed;
    enum method method;
    unsigned status;
    bool flags[4];
    size_t bytes, sizes[8];
    uint64_t sum;
};
_Static_assert(sizeof(struct seen) == 4 * 4 + 8 * 10, "compared as bytes: without padding");

static void add(struct seen *s, size_t i, struct span text) {
    s->sizes[i] = text.p == NULL ? SIZE_MAX : text.n;
    if (text.p == NULL)
        return;
    for (size_t at = 0; at < text.n; at++)
        s->sum = s->sum * 31 + text.p[at];
}

static struct seen look(enum parsed parsed, const struct request *r,
                        const struct request_failure *f) {
    struct seen s = {.parsed = parsed};
    if (parsed == PARSED_FAILED) {
        s.status = f->status;
        assert(f->detail != NULL && f->detail[0] != '\0');
    }
    if (parsed != PARSED_WHOLE)
        return s;
    s.method = r->method;
    s.flags[0] = r->is_http_1_0;
    s.flags[1] = r->keep_alive;
    s.flags[2] = r->expects_continue;
    s.flags[3] = r->has_length;
    s.bytes = r->bytes;
    assert(r->path.n > 0 && r->body.n <= BODY_MAX);
    add(&s, 0, r->path);
    add(&s, 1, r->query);
    add(&s, 2, r->authorization);
    add(&s, 3, r->idempotency_key);
    add(&s, 4, r->x_now);
    add(&s, 5, r->body);
    add(&s, 6, r->actor);
    s.sizes[7] = r->wants_ndjson ? 1 : 0;
    return s;
}

/* Shows `in` in growing pieces, each time in memory of its own. */
static struct seen parse(struct request_parser *p, struct span in, size_t step) {
    struct request r;
    struct request_failure f;
    size_t n = 0;
    for (;;) {
        n = in.n - n > step ? n + step : in.n;
        uint8_t *copy = mem_alloc(n);
        memcpy(copy, in.p, n);
        enum parsed parsed = request_parse(p, span_of(copy, n), &r, &f);
        if (parsed == PARSED_WHOLE || parsed == PARSED_FAILED || n == in.n) {
            struct seen s = look(parsed == PARSED_HEAD ? PARSED_MORE : parsed, &r, &f);
            free(copy);
            return s;
        }
        free(copy);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2)
        return 0;
    size_t step = 1 + data[0] % 64;
    struct span in = span_of(data + 1, size - 1);
    struct request_parser *whole = request_parser_new(BODY_MAX),
                          *pieces = request_parser_new(BODY_MAX);
    for (int i = 0; i < REQUESTS_MAX && in.n > 0; i++) {
        struct seen a = parse(whole, in, in.n), b = parse(pieces, in, step);
        assert(memcmp(&a, &b, sizeof a) == 0);
        if (a.parsed != PARSED_WHOLE)
            break;
        assert(a.bytes > 0 && a.bytes <= in.n);
        in = span_of(in.p + a.bytes, in.n - a.bytes);
        request_parser_reset(whole);
        request_parser_reset(pieces);
    }
    request_parser_free(whole);
    request_parser_free(pieces);
    return 0;
}
