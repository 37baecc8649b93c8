#include "check.h"

#include "base/clock.h"
#include "http/response.h"
#include "http/route.h"

static struct buf body, out;
static struct date_text date;
static struct reply reply;

static bool wrote(const struct reply_options *options, const char *wanted) {
    buf_clear(&out);
    reply_write(&reply, options, &date, &out);
    if (span_equal_str(buf_span(&out), wanted))
        return true;
    printf("# wrote: %.*s\n", (int)out.n, (const char *)out.p);
    return false;
}

static int64_t at(const char *text) {
    int64_t ms = 0;
    CHECK_EQ(time_parse(span_str(text), &ms), OK);
    return ms;
}

static void heads(void) {
    struct reply_options options = {.keeps_alive = true, .now = at("2026-06-01 07:08:09")};
    reply_init(&reply, &body);
    buf_add_str(&body, "{}");
    CHECK(wrote(&options, "HTTP/1.1 200 OK\r\nDate: Mon, 01 Jun 2026 07:08:09 GMT\r\n"
                          "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"));
    options.is_head = true;
    options.is_http_1_0 = true;
    options.now = 0;
    CHECK(wrote(
        &options,
        "HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n"
        "Content-Type: application/json\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\n"));
    options = (struct reply_options){.now = at("2024-02-29 23:59:59")};
    reply.status = 204;
    CHECK(wrote(&options, "HTTP/1.1 204 No Content\r\nDate: Thu, 29 Feb 2024 23:59:59 "
                          "GMT\r\nConnection: close\r\n\r\n"));
}

static void rare_headers(void) {
    const struct reply_options options = {.keeps_alive = true};
    reply_init(&reply, &body);
    reply.status = 405;
    reply.allowed = 1U << METHOD_GET | 1U << METHOD_HEAD | 1U << METHOD_DELETE | 1U << METHOD_PATCH;
    reply.retry_after_s = 3;
    reply.is_challenge = true;
    reply.next = 7;
    snprintf(reply.location, sizeof reply.location, "/redrives/7");
    CHECK(wrote(&options,
                "HTTP/1.1 405 Method Not Allowed\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n"
                "Content-Type: application/json\r\nContent-Length: 0\r\nRetry-After: 3\r\n"
                "Allow: GET, HEAD, DELETE, PATCH\r\nWWW-Authenticate: Bearer\r\n"
                "Location: /redrives/7\r\nNixie-Next: 7\r\n\r\n"));
}

static void problems(void) {
    reply_init(&reply, &body);
    buf_add_str(&body, "half a reply");
    reply_problem(&reply, 409, "wrong \"state\"", "message %d is %s", 7, "dead");
    CHECK(
        span_equal_str(buf_span(&body),
                       "{\"type\":\"about:blank\",\"title\":\"wrong \\\"state\\\"\",\"status\":409,"
                       "\"detail\":\"message 7 is dead\"}"));
    CHECK(strcmp(reply.content_type, "application/problem+json") == 0 && reply.status == 409);

    struct field_errors errors = {0};
    field_error_add(&errors, "[1].", "payload", "required", "is required");
    reply_fields(&reply, &errors);
    CHECK(reply.status == 422);
    CHECK(span_equal_str(buf_span(&body),
                         "{\"type\":\"about:blank\",\"title\":\"invalid fields\",\"status\":422,"
                         "\"detail\":\"a field is not as it must be\","
                         "\"errors\":[{\"field\":\"[1].payload\",\"code\":\"required\",\"message\":"
                         "\"is required\"}]}"));

    errors.count = 0;
    field_error_add_at(&errors, "q", "bad_filter", 12, 0, "a value is missing");
    reply_fields(&reply, &errors);
    CHECK(span_equal_str(buf_span(&body),
                         "{\"type\":\"about:blank\",\"title\":\"invalid fields\",\"status\":422,"
                         "\"detail\":\"a field is not as it must be\","
                         "\"errors\":[{\"field\":\"q\",\"code\":\"bad_filter\",\"message\":"
                         "\"a value is missing\",\"position\":12,\"length\":0}]}"));
}

static void long_details_are_cut_at_a_character(void) {
    struct buf text;
    buf_init(&text, 2000);
    for (int i = 0; i < 400; i++)
        buf_add_str(&text, "\xe2\x82\xac");
    buf_add_byte(&text, '\0');
    reply_init(&reply, &body);
    reply_problem(&reply, 400, "t", "x%s", (const char *)text.p);
    CHECK(span_is_utf8(buf_span(&body)));
    buf_release(&text);
}

static void every_error_has_a_status(void) {
    static const struct {
        enum err e;
        unsigned status;
    } wanted[] = {{ERR_INVALID, 400},
                  {ERR_TOO_LARGE, 413},
                  {ERR_NO_QUEUE, 404},
                  {ERR_NO_MESSAGE, 404},
                  {ERR_WRONG_STATE, 409},
                  {ERR_STALE_LEASE, 409},
                  {ERR_NOT_EMPTY, 409},
                  {ERR_QUEUE_FULL, 429},
                  {ERR_TOO_MANY_QUEUES, 507},
                  {ERR_NO_GROUP, 404},
                  {ERR_NO_JOB, 404},
                  {ERR_TOO_MANY_JOBS, 429},
                  {ERR_REDRIVE_LIMIT, 409},
                  {ERR_EDITED, 409},
                  {ERR_NO_VHOST, 404},
                  {ERR_NO_EXCHANGE, 404},
                  {ERR_NO_POLICY, 404},
                  {ERR_IN_USE, 409},
                  {ERR_REFUSED, 409},
                  {ERR_TOO_MANY_EXCHANGES, 507},
                  {ERR_TOO_MANY_BINDINGS, 507},
                  {ERR_DISK_FULL, 507},
                  {ERR_IO, 500},
                  {ERR_CORRUPT, 500},
                  {ERR_LOCKED, 500},
                  {ERR_VERSION, 500}};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        reply_init(&reply, &body);
        reply_error(&reply, wanted[i].e);
        CHECK_EQ(reply.status, wanted[i].status);
    }
    reply_error(&reply, ERR_QUEUE_FULL);
    CHECK(reply.retry_after_s > 0);
    reply_error(&reply, ERR_TOO_MANY_JOBS);
    CHECK(reply.retry_after_s > 0);
}

static struct match find(enum method method, const char *path) {
    return route_find(method, span_str(path));
}

static void routes(void) {
    struct match m = find(METHOD_POST, "/queues/a%2Fb/messages/42/succeed");
    CHECK(m.route != NULL && span_equal_str(m.queue, "a%2Fb") && m.has_id &&
          span_equal_str(m.id, "42"));
    m = find(METHOD_GET, "/queues/messages/messages");
    CHECK(m.route != NULL && span_equal_str(m.queue, "messages") && !m.has_id);
    m = find(METHOD_PATCH, "/groups/v1%3A0");
    CHECK(m.route != NULL && span_equal_str(m.key, "v1%3A0") && !m.has_id && m.queue.n == 0);
    m = find(METHOD_PATCH, "/redrives/7");
    CHECK(m.route != NULL && m.has_id && m.is_job && span_equal_str(m.id, "7"));
    m = find(METHOD_GET, "/messages/7");
    CHECK(m.route != NULL && m.has_id && !m.is_job && span_equal_str(m.id, "7"));
    m = find(METHOD_GET, "/queues/{queue}");
    CHECK(m.route != NULL && span_equal_str(m.queue, "{queue}"));
    m = find(METHOD_GET, "/groups/");
    CHECK(m.route == NULL && m.allowed == 0);
    m = find(METHOD_POST, "/redrives/7");
    CHECK(m.route == NULL);
    CHECK_EQ(m.allowed, 1U << METHOD_GET | 1U << METHOD_HEAD | 1U << METHOD_PATCH);
    m = find(METHOD_HEAD, "/");
    CHECK(m.route != NULL && m.route->method == METHOD_GET && m.queue.n == 0);
    m = find(METHOD_PUT, "/queues/q/messages");
    CHECK(m.route == NULL);
    CHECK_EQ(m.allowed, 1U << METHOD_GET | 1U << METHOD_HEAD | 1U << METHOD_POST);
    m = find(METHOD_OTHER, "/queues/q/claim");
    CHECK(m.route == NULL && m.allowed == 1U << METHOD_POST);

    static const char *const unknown[] = {"",
                                          "*",
                                          "/x",
                                          "//",
                                          "/queues/",
                                          "/queues//messages",
                                          "/queues/q/",
                                          "/queues/q/messages/",
                                          "/queues/q/messages/1/",
                                          "/queues/q/messages/1/succeed/",
                                          "/queues/q/messages/1/x",
                                          "/healthz/",
                                          "/a/b/c/d/e/f/g",
                                          "queues"};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        m = find(METHOD_GET, unknown[i]);
        CHECK(m.route == NULL && m.allowed == 0);
    }
    CHECK_EQ(find(METHOD_GET, "/healthz").route->access, ACCESS_OPEN);
    CHECK_EQ(find(METHOD_GET, "/metrics").route->access, ACCESS_TOKEN);
    CHECK_EQ(find(METHOD_GET, "/queues").route->access, ACCESS_WORK);
}

int main(void) {
    buf_init(&body, 65536);
    buf_init(&out, 65536);
    RUN(heads);
    RUN(rare_headers);
    RUN(problems);
    RUN(long_details_are_cut_at_a_character);
    RUN(every_error_has_a_status);
    RUN(routes);
    buf_release(&body);
    buf_release(&out);
    return check_done();
}
