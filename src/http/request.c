#include "http/request.h"

#include "base/limits.h"
#include "base/mem.h"

#include <assert.h>
#include <llhttp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A part of the input by offset. */
struct piece {
    bool is_given;
    size_t at, n;
};

enum wanted {
    WANTED_ACCEPT, /* may stand more than once: only what it is asked for is kept */
    WANTED_ACTOR,
    WANTED_AUTHORIZATION,
    WANTED_EXPECT,
    WANTED_IDEMPOTENCY_KEY,
    WANTED_TRANSFER_ENCODING,
    WANTED_X_NOW,
    WANTED_COUNT, /* a header nobody asked for */
};

static const char *const wanted_names[WANTED_COUNT] = {
    [WANTED_ACCEPT] = "Accept",
    [WANTED_ACTOR] = "Nixie-Actor",
    [WANTED_AUTHORIZATION] = "Authorization",
    [WANTED_EXPECT] = "Expect",
    [WANTED_IDEMPOTENCY_KEY] = "Idempotency-Key",
    [WANTED_TRANSFER_ENCODING] = "Transfer-Encoding",
    [WANTED_X_NOW] = "X-Now",
};

struct request_parser {
    llhttp_t llhttp;
    size_t body_bytes_max;

    const uint8_t *base; /* the input of the call that is running */
    size_t fed;          /* how much of it llhttp has seen */
    bool is_head_whole, is_head_said, is_whole, is_chunked;
    struct request_failure failure; /* status 0: none */

    struct piece url, name, value, body;
    struct piece headers[WANTED_COUNT];
    enum wanted current;
    struct buf chunks;

    enum method method;
    bool is_http_1_0, keep_alive, has_length, wants_ndjson;
};

size_t request_bytes_max(size_t body_bytes_max) {
    return LIMIT_HEAD + body_bytes_max + body_bytes_max / 8 + 1024;
}

/* -- what llhttp calls ----------------------------------------------------------------------- */

static int fail(struct request_parser *p, unsigned status, const char *detail) {
    p->failure = (struct request_failure){.status = status, .detail = detail};
    return HPE_USER;
}

/* Appends what llhttp found to a piece; false when it does not follow directly (a folded header
 * line). */
static bool piece_extend(struct request_parser *p, struct piece *piece, const char *at, size_t n) {
    size_t offset = (size_t)((const uint8_t *)at - p->base);
    if (!piece->is_given)
        *piece = (struct piece){.is_given = true, .at = offset};
    else if (piece->at + piece->n != offset)
        return false;
    piece->n += n;
    return true;
}

static int on_url(llhttp_t *llhttp, const char *at, size_t n) {
    struct request_parser *p = llhttp->data;
    bool follows = piece_extend(p, &p->url, at, n);
    assert(follows);
    return 0;
}

static int on_header_field(llhttp_t *llhttp, const char *at, size_t n) {
    struct request_parser *p = llhttp->data;
    if (!p->is_head_whole && !piece_extend(p, &p->name, at, n))
        return fail(p, 400, "a header's name is broken");
    return 0;
}

static enum wanted wanted_find(struct span name) {
    for (int i = 0; i < WANTED_COUNT; i++) {
        if (strlen(wanted_names[i]) == name.n &&
            strncasecmp(wanted_names[i], (const char *)name.p, name.n) == 0)
            return (enum wanted)i;
    }
    return WANTED_COUNT;
}

/* llhttp may be built to let blanks in names pass. */
static int on_header_field_complete(llhttp_t *llhttp) {
    struct request_parser *p = llhttp->data;
    if (p->is_head_whole)
        return 0; /* a trailer */
    struct span name = span_of(p->base + p->name.at, p->name.n);
    p->name = p->value = (struct piece){0};
    if (name.n == 0 || memchr(name.p, ' ', name.n) != NULL)
        return fail(p, 400, "a header's name is broken");
    p->current = wanted_find(name);
    if (p->current != WANTED_COUNT && p->current != WANTED_ACCEPT &&
        p->headers[p->current].is_given)
        return fail(p, 400, "a header that may stand once is given twice");
    return 0;
}

static int on_header_value(llhttp_t *llhttp, const char *at, size_t n) {
    struct request_parser *p = llhttp->data;
    if (!p->is_head_whole && !piece_extend(p, &p->value, at, n))
        return fail(p, 400, "a header's value goes over several lines");
    return 0;
}

/* True when a list of media types holds this one. */
static bool has_media_type(struct span list, const char *type) {
    size_t n = strlen(type);
    while (list.n > 0) {
        while (list.n > 0 && strchr(", \t", *list.p) != NULL)
            list = span_of(list.p + 1, list.n - 1);
        const uint8_t *comma = list.n > 0 ? memchr(list.p, ',', list.n) : NULL;
        size_t item_n = comma == NULL ? list.n : (size_t)(comma - list.p);
        if (item_n >= n && strncasecmp((const char *)list.p, type, n) == 0 &&
            (item_n == n || strchr("; \t", list.p[n]) != NULL))
            return true;
        list = span_of(list.p + item_n, list.n - item_n);
    }
    return false;
}

static int on_header_value_complete(llhttp_t *llhttp) {
    struct request_parser *p = llhttp->data;
    if (p->is_head_whole)
        return 0;
    if (p->current == WANTED_ACCEPT) {
        struct span value = span_of(p->base + p->value.at, p->value.n);
        p->wants_ndjson = p->wants_ndjson || has_media_type(value, "application/x-ndjson");
    } else if (p->current != WANTED_COUNT) {
        p->headers[p->current] = p->value;
        p->headers[p->current].is_given = true;
    }
    return 0;
}

static enum method method_of(uint8_t llhttp_method) {
    switch (llhttp_method) {
    case HTTP_GET:
        return METHOD_GET;
    case HTTP_HEAD:
        return METHOD_HEAD;
    case HTTP_POST:
        return METHOD_POST;
    case HTTP_PUT:
        return METHOD_PUT;
    case HTTP_DELETE:
        return METHOD_DELETE;
    case HTTP_PATCH:
        return METHOD_PATCH;
    default:
        return METHOD_OTHER;
    }
}

/* The value of a header without blanks around it; {NULL, 0} when it was not given. */
static struct span header_value(const struct request_parser *p, enum wanted which) {
    const struct piece *piece = &p->headers[which];
    if (!piece->is_given)
        return span_of(NULL, 0);
    struct span value = span_of(p->base + piece->at, piece->n);
    while (value.n > 0 && (value.p[value.n - 1] == ' ' || value.p[value.n - 1] == '\t'))
        value.n--;
    return value;
}

static bool is_word(struct span value, const char *word) {
    return value.n == strlen(word) && strncasecmp((const char *)value.p, word, value.n) == 0;
}

/* Takes scheme and authority off an absolute form, and the query off the path; false when it is no
 * form we serve. */
static bool split_url(struct span url, struct request *ret) {
    if (url.n > 0 && memchr(url.p, '#', url.n) != NULL)
        return false;
    static const char *const schemes[] = {"http://", "https://"};
    for (size_t i = 0; i < 2; i++) {
        size_t n = strlen(schemes[i]);
        if (url.n < n || strncasecmp((const char *)url.p, schemes[i], n) != 0)
            continue;
        url = span_of(url.p + n, url.n - n);
        while (url.n > 0 && *url.p != '/' && *url.p != '?')
            url = span_of(url.p + 1, url.n - 1);
        break;
    }

    const uint8_t *mark = url.n > 0 ? memchr(url.p, '?', url.n) : NULL;
    size_t path_bytes = mark == NULL ? url.n : (size_t)(mark - url.p);
    ret->query = mark == NULL ? span_of(NULL, 0) : span_of(mark + 1, url.n - path_bytes - 1);
    if (path_bytes == 0) {
        ret->path = span_str("/");
        return true;
    }
    ret->path = span_of(url.p, path_bytes);
    return *url.p == '/' || span_equal_str(ret->path, "*");
}

static int on_headers_complete(llhttp_t *llhttp) {
    struct request_parser *p = llhttp->data;
    p->is_head_whole = true;

    if (llhttp->http_major != 1)
        return fail(p, 400, "only HTTP/1.0 and HTTP/1.1 are spoken here");
    if (llhttp->method == HTTP_CONNECT)
        return fail(p, 400, "this is no proxy");
    struct request target;
    if (!split_url(span_of(p->base + p->url.at, p->url.n), &target))
        return fail(p, 400, "the request's target is not a path");
    struct span coding = header_value(p, WANTED_TRANSFER_ENCODING);
    if (coding.p != NULL && !is_word(coding, "chunked"))
        return fail(p, 400, "the only transfer coding known here is chunked");
    bool has_content_length = (llhttp->flags & F_CONTENT_LENGTH) != 0;
    if (has_content_length && llhttp->content_length > p->body_bytes_max)
        return fail(p, 413, "the body is over the limit");

    p->is_chunked = (llhttp->flags & F_CHUNKED) != 0;
    p->has_length = has_content_length || p->is_chunked;
    p->method = method_of(llhttp->method);
    p->is_http_1_0 = llhttp->http_minor == 0;
    p->keep_alive = llhttp_should_keep_alive(llhttp) != 0;
    llhttp->upgrade = 0; /* an offer to speak something else is not taken up */
    return 0;
}

static int on_body(llhttp_t *llhttp, const char *at, size_t n) {
    struct request_parser *p = llhttp->data;
    if (!p->is_chunked) {
        bool follows = piece_extend(p, &p->body, at, n);
        assert(follows);
        return 0;
    }
    if (n > p->body_bytes_max - p->chunks.n)
        return fail(p, 413, "the body is over the limit");
    buf_add(&p->chunks, at, n);
    return 0;
}

static int on_message_complete(llhttp_t *llhttp) {
    struct request_parser *p = llhttp->data;
    p->is_whole = true;
    return HPE_PAUSED; /* what follows is the next request's */
}

static const llhttp_settings_t settings = {
    .on_url = on_url,
    .on_header_field = on_header_field,
    .on_header_field_complete = on_header_field_complete,
    .on_header_value = on_header_value,
    .on_header_value_complete = on_header_value_complete,
    .on_headers_complete = on_headers_complete,
    .on_body = on_body,
    .on_message_complete = on_message_complete,
};

/* -- the parser ------------------------------------------------------------------------------ */

struct request_parser *request_parser_new(size_t body_bytes_max) {
    struct request_parser *p = mem_alloc(sizeof *p);
    p->body_bytes_max = body_bytes_max;
    buf_init(&p->chunks, body_bytes_max);
    llhttp_init(&p->llhttp, HTTP_REQUEST, &settings);
    p->llhttp.data = p;
    p->current = WANTED_COUNT;
    return p;
}

void request_parser_free(struct request_parser *p) {
    if (p == NULL)
        return;
    buf_release(&p->chunks);
    free(p);
}

void request_parser_reset(struct request_parser *p) {
    llhttp_reset(&p->llhttp);
    buf_release(&p->chunks);
    p->fed = 0;
    p->is_head_whole = p->is_head_said = p->is_whole = p->is_chunked = p->wants_ndjson = false;
    p->url = p->name = p->value = p->body = (struct piece){0};
    memset(p->headers, 0, sizeof p->headers);
    p->current = WANTED_COUNT;
}

/* Gives llhttp what it has not seen, the head by itself so that its limit holds whatever follows.
 */
static void feed(struct request_parser *p, struct span in) {
    p->base = in.p;
    while (p->failure.status == 0 && !p->is_whole && p->fed < in.n) {
        size_t n = in.n - p->fed;
        if (!p->is_head_whole && n > LIMIT_HEAD - p->fed)
            n = LIMIT_HEAD - p->fed;

        const char *from = (const char *)in.p + p->fed;
        llhttp_errno_t result = llhttp_execute(&p->llhttp, from, n);
        if (p->is_whole) {
            p->fed += (size_t)(llhttp_get_error_pos(&p->llhttp) - from);
        } else if (result == HPE_OK) {
            p->fed += n;
        } else if (p->failure.status == 0) {
            const char *reason = llhttp_get_error_reason(&p->llhttp);
            fail(p, 400, reason != NULL && *reason != '\0' ? reason : "this is not HTTP/1.1");
        }

        if (p->failure.status == 0 && !p->is_head_whole && p->fed == LIMIT_HEAD) {
            if (p->url.n > LIMIT_HEAD / 2)
                fail(p, 414, "the path is over the limit");
            else
                fail(p, 431, "request line and headers are over the limit");
        }
    }
    if (p->failure.status == 0 && !p->is_whole && p->fed >= request_bytes_max(p->body_bytes_max))
        fail(p, 413, "the body with the framing of its chunks is over the limit");
}

static void fill(const struct request_parser *p, struct request *ret) {
    *ret = (struct request){
        .method = p->method,
        .is_http_1_0 = p->is_http_1_0,
        .keep_alive = p->keep_alive,
        .has_length = p->has_length,
        .wants_ndjson = p->wants_ndjson,
        .authorization = header_value(p, WANTED_AUTHORIZATION),
        .idempotency_key = header_value(p, WANTED_IDEMPOTENCY_KEY),
        .actor = header_value(p, WANTED_ACTOR),
        .x_now = header_value(p, WANTED_X_NOW),
    };
    struct span expect = header_value(p, WANTED_EXPECT);
    ret->expects_continue = !p->is_http_1_0 && expect.p != NULL && is_word(expect, "100-continue");
    bool is_path = split_url(span_of(p->base + p->url.at, p->url.n), ret);
    assert(is_path); /* on_headers_complete looked */
}

enum parsed request_parse(struct request_parser *p, struct span in, struct request *ret_request,
                          struct request_failure *ret_failure) {
    feed(p, in);
    if (p->failure.status != 0) {
        *ret_failure = p->failure;
        return PARSED_FAILED;
    }
    if (!p->is_head_whole || (p->is_head_said && !p->is_whole))
        return PARSED_MORE;

    struct request request;
    fill(p, &request);
    p->is_head_said = true;
    if (p->is_whole) {
        request.body = p->is_chunked ? buf_span(&p->chunks) : span_of(in.p + p->body.at, p->body.n);
        request.bytes = p->fed;
    }
    *ret_request = request;
    return p->is_whole ? PARSED_WHOLE : PARSED_HEAD;
}
