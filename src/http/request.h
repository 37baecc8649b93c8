/* HTTP/1.x requests out of bytes. The grammar is llhttp's; this module finds the parts we want and
 * holds the limits.
 *
 * It is a function over a growing input: the same request's bytes from its first one on, more of
 * them with each call, until it says whole or failed. It keeps offsets, no pointers, so the input
 * may lie elsewhere at each call, and it copies nothing but the pieces of a chunked body. It writes
 * no reply and knows no route. One connection's thread. */
#pragma once

#include "base/bytes.h"

#include <stdbool.h>
#include <stddef.h>

enum method {
    METHOD_GET,
    METHOD_HEAD,
    METHOD_POST,
    METHOD_PUT,
    METHOD_DELETE,
    METHOD_PATCH,
    METHOD_OTHER
};

/* Spans point into the input of the call that gave the request (a chunked body: into the parser),
 * until the next call. */
struct request {
    enum method method;
    bool is_http_1_0;
    bool keep_alive;       /* the client wants the connection to stay */
    bool expects_continue; /* the body comes when asked for (never with HTTP/1.0) */
    bool has_length;       /* Content-Length or chunks were given */
    bool wants_ndjson;     /* Accept names application/x-ndjson */
    struct span path;      /* as sent, percent-encoded; begins with '/' or is "*" */
    struct span query;     /* as sent, without '?'; empty when there is none */
    /* header values; p is NULL when not given */
    struct span authorization, idempotency_key, actor, x_now;
    struct span body;
    size_t bytes; /* what the whole request took of the input */
};

enum parsed {
    PARSED_MORE, /* not whole yet */
    /* said once, when the head is whole and the body is not: everything but body and bytes is given
     */
    PARSED_HEAD,
    PARSED_WHOLE,  /* reset the parser before the next request */
    PARSED_FAILED, /* nothing more can be read on this connection */
};

struct request_failure {
    unsigned status;    /* 400 413 414 431 */
    const char *detail; /* static */
};

struct request_parser;

struct request_parser *request_parser_new(size_t body_bytes_max);
void request_parser_free(struct request_parser *p); /* NULL is fine */
void request_parser_reset(struct request_parser *p);

/* `in` begins with the request's first byte. *ret_request is set for HEAD and WHOLE, *ret_failure
 * for FAILED. */
enum parsed request_parse(struct request_parser *p, struct span in, struct request *ret_request,
                          struct request_failure *ret_failure);

/* The most input a request can take: head, body, and the framing of its chunks. */
size_t request_bytes_max(size_t body_bytes_max);
