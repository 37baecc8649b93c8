#include "check.h"

#include "base/limits.h"
#include "base/mem.h"
#include "http/request.h"

#include <stdlib.h>

enum { BODY_MAX = 100 };

static struct request_parser *parser;
static struct request request;
static struct request_failure failure;
static uint8_t *input;

/* Shows the first n bytes of a text in memory of their own, so that nothing can hold on to the last call's. */
static enum parsed show(const char *text, size_t n) {
    free(input);
    input = mem_alloc(n);
    memcpy(input, text, n);
    return request_parse(parser, span_of(input, n), &request, &failure);
}

static void begin(void) {
    request_parser_free(parser);
    parser = request_parser_new(BODY_MAX);
    request = (struct request){0};
    failure = (struct request_failure){0};
}

static enum parsed parse(const char *text) {
    begin();
    return show(text, strlen(text));
}

/* Byte by byte; says whole only at the very end, and the head once before it. */
static enum parsed parse_slowly(const char *text) {
    begin();
    unsigned heads = 0;
    for (size_t n = 1; n <= strlen(text); n++) {
        enum parsed result = show(text, n);
        if (result == PARSED_HEAD)
            heads++;
        else if (result != PARSED_MORE)
            return heads <= 1 ? result : PARSED_FAILED;
    }
    return PARSED_MORE;
}

static bool is(struct span s, const char *text) {
    return span_equal_str(s, text);
}

static void a_plain_request(void) {
    const char *text = "GET /queues/a%2Fb?limit=1&x HTTP/1.1\r\nHost: h\r\n\r\n";
    CHECK_EQ(parse(text), PARSED_WHOLE);
    CHECK_EQ(request.method, METHOD_GET);
    CHECK(is(request.path, "/queues/a%2Fb") && is(request.query, "limit=1&x"));
    CHECK(request.keep_alive && !request.is_http_1_0 && !request.has_length);
    CHECK(request.authorization.p == NULL && request.x_now.p == NULL && request.body.n == 0);
    CHECK_EQ(request.bytes, strlen(text));
}

static void body_and_headers(void) {
    const char *text = "POST /q HTTP/1.1\r\ncontent-length: 5\r\nAuthorization:   Bearer t \r\n"
                       "IDEMPOTENCY-KEY: k\r\nX-Now: 2026-06-01 00:00:00\r\n\r\nhello";
    for (int slowly = 0; slowly < 2; slowly++) {
        CHECK_EQ(slowly ? parse_slowly(text) : parse(text), PARSED_WHOLE);
        CHECK_EQ(request.method, METHOD_POST);
        CHECK(is(request.body, "hello") && request.has_length);
        CHECK(is(request.authorization, "Bearer t") && is(request.idempotency_key, "k"));
        CHECK(is(request.x_now, "2026-06-01 00:00:00"));
        CHECK_EQ(request.bytes, strlen(text));
    }
}

static void a_header_without_a_value_is_given(void) {
    CHECK_EQ(parse("GET / HTTP/1.1\r\nX-Now:\r\nIdempotency-Key:  \r\n\r\n"), PARSED_WHOLE);
    CHECK(request.x_now.p != NULL && request.x_now.n == 0);
    CHECK(request.idempotency_key.p != NULL && request.idempotency_key.n == 0);
}

static void who_asks_and_for_what(void) {
    CHECK_EQ(parse("PATCH / HTTP/1.1\r\nNixie-Actor:  ann \r\n\r\n"), PARSED_WHOLE);
    CHECK_EQ(request.method, METHOD_PATCH);
    CHECK(is(request.actor, "ann") && !request.wants_ndjson);

    static const char *const wanted[] = {
        "application/x-ndjson", "text/html,\tApplication/X-NDJSON ;q=0.9, */*",
        "a/b\r\nAccept: application/x-ndjson\r\naccept: c/d", "application/x-ndjson;charset=utf-8"};
    static const char *const others[] = {"",
                                         "*/*",
                                         ",,",
                                         "application/json",
                                         "application/x-ndjsonx",
                                         "xapplication/x-ndjson",
                                         "application/x-ndjso",
                                         "text/x;y=application/x-ndjson"};
    char text[200];
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        snprintf(text, sizeof text, "GET / HTTP/1.1\r\nAccept: %s\r\n\r\n", wanted[i]);
        CHECK(parse_slowly(text) == PARSED_WHOLE && request.wants_ndjson);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        snprintf(text, sizeof text, "GET / HTTP/1.1\r\nAccept: %s\r\n\r\n", others[i]);
        CHECK(parse_slowly(text) == PARSED_WHOLE && !request.wants_ndjson);
    }
    request_parser_reset(parser);
    const char *plain = "GET / HTTP/1.1\r\n\r\n";
    CHECK(show(plain, strlen(plain)) == PARSED_WHOLE && !request.wants_ndjson);
    CHECK(request.actor.p == NULL);
}

static void chunks(void) {
    const char *text = "PUT /q HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n"
                       "3;e=\"x\"\r\nhel\r\n2\r\nlo\r\n0\r\nX-Now: trailer\r\n\r\n";
    for (int slowly = 0; slowly < 2; slowly++) {
        CHECK_EQ(slowly ? parse_slowly(text) : parse(text), PARSED_WHOLE);
        CHECK(is(request.body, "hello") && request.has_length);
        CHECK(request.x_now.p == NULL);
        CHECK_EQ(request.bytes, strlen(text));
    }
}

static void pipelined_requests_are_taken_one_by_one(void) {
    const char *first = "POST /a HTTP/1.1\r\nContent-Length: 2\r\n\r\nab";
    const char *second = "GET /b HTTP/1.1\r\nConnection: close\r\n\r\n";
    char both[200];
    snprintf(both, sizeof both, "%s%s", first, second);
    CHECK_EQ(parse(both), PARSED_WHOLE);
    CHECK_EQ(request.bytes, strlen(first));
    request_parser_reset(parser);
    CHECK_EQ(show(second, strlen(second)), PARSED_WHOLE);
    CHECK(is(request.path, "/b") && !request.keep_alive && request.body.n == 0);
}

static void versions_and_connections(void) {
    CHECK_EQ(parse("GET / HTTP/1.0\r\n\r\n"), PARSED_WHOLE);
    CHECK(request.is_http_1_0 && !request.keep_alive);
    CHECK_EQ(parse("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"), PARSED_WHOLE);
    CHECK(request.keep_alive);
    CHECK_EQ(parse("GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"), PARSED_WHOLE);
    CHECK_EQ(parse("GET / HTTP/2.0\r\n\r\n"), PARSED_FAILED);
    CHECK_EQ(parse("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), PARSED_FAILED);
}

static void expectations(void) {
    const char *head = "POST / HTTP/1.1\r\nContent-Length: 1\r\nExpect: 100-Continue\r\n\r\n";
    CHECK_EQ(parse(head), PARSED_HEAD);
    CHECK(request.expects_continue);
    CHECK_EQ(show(head, strlen(head)), PARSED_MORE);
    char whole[100];
    snprintf(whole, sizeof whole, "%sx", head);
    CHECK_EQ(show(whole, strlen(whole)), PARSED_WHOLE);
    CHECK(is(request.body, "x"));
    CHECK_EQ(parse("POST / HTTP/1.0\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n"),
             PARSED_HEAD);
    CHECK(!request.expects_continue);
}

static void targets(void) {
    CHECK_EQ(parse("GET http://host:80/healthz?x HTTP/1.1\r\n\r\n"), PARSED_WHOLE);
    CHECK(is(request.path, "/healthz") && is(request.query, "x"));
    CHECK_EQ(parse("GET http://host HTTP/1.1\r\n\r\n"), PARSED_WHOLE);
    CHECK(is(request.path, "/"));
    CHECK_EQ(parse("OPTIONS * HTTP/1.1\r\n\r\n"), PARSED_WHOLE);
    CHECK(is(request.path, "*") && request.method == METHOD_OTHER);
    CHECK_EQ(parse("CONNECT host:80 HTTP/1.1\r\n\r\n"), PARSED_FAILED);
    CHECK_EQ(parse("GET /a#b HTTP/1.1\r\n\r\n"), PARSED_FAILED);
}

static bool fails(const char *text, unsigned status) {
    enum parsed result = parse(text);
    return result == PARSED_FAILED && failure.status == status && failure.detail[0] != '\0';
}

static void what_is_refused(void) {
    CHECK(fails("hello\r\n\r\n", 400));
    CHECK(fails("GET /\r\n\r\n", 400));
    CHECK(fails("GET / HTTP/1.1\r\n: x\r\n\r\n", 400));
    CHECK(fails("GET / HTTP/1.1\r\nHost : x\r\n\r\n", 400));
    CHECK(fails("GET / HTTP/1.1\r\nA: b\r\n folded\r\n\r\n", 400));
    CHECK(fails("GET / HTTP/1.1\r\nX-Now: a\r\nX-Now: b\r\n\r\n", 400));
    CHECK(fails("GET / HTTP/1.1\r\nNixie-Actor: a\r\nNixie-Actor: b\r\n\r\n", 400));
    CHECK(fails("POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400));
    CHECK(fails("POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400));
    CHECK(fails("POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 400));
    CHECK(fails("POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", 400));
    CHECK(fails("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nz\r\n", 400));
    CHECK(fails("POST / HTTP/1.1\r\nContent-Length: 101\r\n\r\n", 413));
    CHECK_EQ(parse("POST / HTTP/1.1\r\nContent-Length: 100\r\n\r\n"), PARSED_HEAD);
}

/* A text of `prefix`, n times `part`, and `end`. */
static char *repeat(const char *prefix, const char *part, size_t n, const char *end) {
    struct buf b;
    buf_init(&b, 1024 * 1024);
    buf_add_str(&b, prefix);
    for (size_t i = 0; i < n; i++)
        buf_add_str(&b, part);
    buf_add(&b, end, strlen(end) + 1);
    return (char *)b.p;
}

static void limits_of_the_head(void) {
    char *fits = repeat("GET / HTTP/1.1\r\nA: ", "x", LIMIT_HEAD - 100, "\r\n\r\n");
    char *headers = repeat("GET / HTTP/1.1\r\n", "A: x\r\n", LIMIT_HEAD / 5, "\r\n");
    char *path = repeat("GET /", "x", LIMIT_HEAD, " HTTP/1.1\r\n\r\n");
    CHECK_EQ(parse(fits), PARSED_WHOLE);
    CHECK(fails(headers, 431));
    CHECK(fails(path, 414));
    free(fits);
    free(headers);
    free(path);
}

static void limits_of_chunks(void) {
    const char *head = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
    char *fits = repeat(head, "2\r\nab\r\n", 50, "0\r\n\r\n");
    char *over = repeat(head, "2\r\nab\r\n", 51, "0\r\n\r\n");
    char *framing =
        repeat(head, "1;xxxxxxxxxx=\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"\r\na\r\n", 1000, "");
    char *trailers = repeat(head, "", 0, "0\r\n");
    CHECK_EQ(parse(fits), PARSED_WHOLE);
    CHECK_EQ(request.body.n, 100);
    CHECK(fails(over, 413));
    CHECK(fails(framing, 413));
    char *endless = repeat(trailers, "A: x\r\n", 10000, "");
    CHECK(fails(endless, 413));
    free(fits);
    free(over);
    free(framing);
    free(trailers);
    free(endless);
}

int main(void) {
    RUN(a_plain_request);
    RUN(body_and_headers);
    RUN(a_header_without_a_value_is_given);
    RUN(who_asks_and_for_what);
    RUN(chunks);
    RUN(pipelined_requests_are_taken_one_by_one);
    RUN(versions_and_connections);
    RUN(expectations);
    RUN(targets);
    RUN(what_is_refused);
    RUN(limits_of_the_head);
    RUN(limits_of_chunks);
    request_parser_free(parser);
    free(input);
    return check_done();
}
