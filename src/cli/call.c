#include "cli/call.h"

#include "base/mem.h"
#include "cli/options.h"
#include "cli/text.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum {
    CONNECT_TIMEOUT_S = 10,
    PATH_BYTES_MAX = 32 * 1024,
    HEADER_BYTES_MAX = 64 * 1024 * 1024 /* a token's length is the user's */
};

static size_t on_body(char *p, size_t size, size_t n, void *ctx) {
    struct call *r = ctx;
    size_t bytes = size * n;
    if (bytes > r->received.max - r->received.n) {
        r->is_too_long = true;
        return 0;
    }
    buf_add(&r->received, p, bytes);
    return bytes;
}

/* A proxy of the environment is for the world outside: never ask it for this machine. */
static bool server_is_loopback(const char *server) {
    CURLU *url = curl_url();
    char *host = NULL;
    bool is_loopback = false;
    if (curl_url_set(url, CURLUPART_URL, server, 0) == CURLUE_OK &&
        curl_url_get(url, CURLUPART_HOST, &host, 0) == CURLUE_OK)
        is_loopback = strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 ||
                      strcmp(host, "[::1]") == 0;
    curl_free(host);
    curl_url_cleanup(url);
    return is_loopback;
}

static void add_header(struct call *r, const char *name, const char *value) {
    struct buf line;
    buf_init(&line, HEADER_BYTES_MAX);
    buf_printf(&line, "%s%s", name, value);
    buf_add_byte(&line, '\0');
    struct curl_slist *longer = curl_slist_append(r->headers, (const char *)line.p);
    assert(longer != NULL);
    r->headers = longer;
    buf_release(&line);
}

#define SET(option, value)                                                                         \
    do {                                                                                           \
        CURLcode set_result_ = curl_easy_setopt(r->easy, option, value);                           \
        assert(set_result_ == CURLE_OK);                                                           \
    } while (false)

void call_init(struct call *r, const struct cli *cli) {
    *r = (struct call){.cli = cli, .easy = curl_easy_init()};
    assert(r->easy != NULL);
    buf_init(&r->path, PATH_BYTES_MAX);
    buf_init(&r->body, CALL_BODY_MAX);
    buf_init(&r->received, CALL_REPLY_MAX);

    add_header(r, "Content-Type: ", "application/json");
    add_header(r, "Expect:", "");
    if (cli->token != NULL)
        add_header(r, "Authorization: Bearer ", cli->token);
    if (cli->actor != NULL)
        add_header(r, "Nixie-Actor: ", cli->actor);
    SET(CURLOPT_HTTPHEADER, r->headers);
    SET(CURLOPT_USERAGENT, "nixie/" NIXIE_VERSION);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(CURLOPT_PATH_AS_IS, 1L);
    SET(CURLOPT_TCP_NODELAY, 1L);
    SET(CURLOPT_TCP_KEEPALIVE, 1L);
    SET(CURLOPT_CONNECTTIMEOUT, (long)CONNECT_TIMEOUT_S);
    SET(CURLOPT_ERRORBUFFER, r->trouble);
    SET(CURLOPT_WRITEFUNCTION, on_body);
    SET(CURLOPT_WRITEDATA, r);
    if (cli->cacert != NULL)
        SET(CURLOPT_CAINFO, cli->cacert);
    if (server_is_loopback(cli->server))
        SET(CURLOPT_NOPROXY, "*");
}

void call_release(struct call *r) {
    json_free(r->reply);
    curl_easy_cleanup(r->easy);
    curl_slist_free_all(r->headers);
    buf_release(&r->path);
    buf_release(&r->body);
    buf_release(&r->received);
}

void call_begin(struct call *r) {
    json_free(r->reply);
    r->reply = NULL;
    r->status = 0;
    r->is_too_long = false;
    r->trouble[0] = '\0';
    buf_clear(&r->path);
    buf_clear(&r->body);
    buf_clear(&r->received);
    buf_add_str(&r->path, r->cli->server);
}

void call_begin_queue(struct call *r, const char *queue) {
    call_begin(r);
    buf_add_str(&r->path, "/queues/");
    text_add_segment(queue, &r->path);
}

static void begin_query(struct call *r, const char *name) {
    bool is_first = memchr(r->path.p, '?', r->path.n) == NULL;
    buf_printf(&r->path, "%c%s=", is_first ? '?' : '&', name);
}

void call_query(struct call *r, const char *name, const char *value) {
    begin_query(r, name);
    text_add_segment(value, &r->path);
}

void call_query_number(struct call *r, const char *name, int64_t value) {
    begin_query(r, name);
    buf_add_i64(&r->path, value);
}

void call_prepare(struct call *r, const char *method, int64_t wait_s) {
    buf_add_byte(&r->path, '\0');
    SET(CURLOPT_URL, (const char *)r->path.p);
    SET(CURLOPT_TIMEOUT_MS, (long)(r->cli->timeout_s + wait_s) * 1000L);
    SET(CURLOPT_CUSTOMREQUEST, NULL);
    SET(CURLOPT_HTTPGET, 1L);
    if (r->body.n > 0 || strcmp(method, "POST") == 0) {
        SET(CURLOPT_POST, 1L);
        SET(CURLOPT_POSTFIELDS, r->body.n > 0 ? (const char *)r->body.p : "");
        SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->body.n);
    }
    SET(CURLOPT_CUSTOMREQUEST, method);
}

void call_complete(struct call *r, CURLcode result) {
    r->status = 0;
    if (r->is_too_long) {
        (void)snprintf(r->trouble, sizeof r->trouble, "the reply is longer than %zu bytes",
                       CALL_REPLY_MAX);
    } else if (result != CURLE_OK) {
        if (r->trouble[0] == '\0')
            (void)snprintf(r->trouble, sizeof r->trouble, "%s", curl_easy_strerror(result));
    } else {
        (void)curl_easy_getinfo(r->easy, CURLINFO_RESPONSE_CODE, &r->status);
    }
    const char *type = NULL;
    (void)curl_easy_getinfo(r->easy, CURLINFO_CONTENT_TYPE, &type);
    if (r->status != 0 && r->received.n > 0 && type != NULL && strstr(type, "json") != NULL) {
        struct json_error ignored;
        r->reply = json_parse(buf_span(&r->received), &ignored);
    }
}

void call_run(struct call *r, const char *method, int64_t wait_s) {
    call_prepare(r, method, wait_s);
    CURLcode result = curl_easy_perform(r->easy);
    call_complete(r, result);
}

void call_put_text(struct json_writer *w, const char *name, const char *utf8) {
    if (utf8 != NULL) {
        json_name(w, name);
        json_put_str(w, utf8);
    }
}

void call_put_number(struct json_writer *w, const char *name, int64_t v) {
    if (v != OPTION_NOT_GIVEN) {
        json_name(w, name);
        json_put_i64(w, v);
    }
}

struct span call_text(const struct json *v, const char *name) {
    const struct json *member = json_get(v, name);
    return json_is(member, JSON_STRING) ? json_string(member) : span_str("");
}

int64_t call_number(const struct json *v, const char *name, int64_t otherwise) {
    const struct json *member = json_get(v, name);
    return json_is(member, JSON_INTEGER) ? json_integer(member) : otherwise;
}

/* -- failures -------------------------------------------------------------------------------- */

int call_exit_code(long status) {
    switch (status) {
    case 0:
        return CLI_UNREACHABLE;
    case 401:
    case 403:
        return CLI_DENIED;
    case 404:
        return CLI_NOT_FOUND;
    case 409:
    case 412:
        return CLI_CONFLICT;
    default:
        return CLI_FAILED;
    }
}

static void add_member(const struct json *v, const char *name, const char *before,
                       struct buf *out) {
    struct span text = call_text(v, name);
    if (text.n == 0)
        return;
    buf_add_str(out, before);
    text_escape(text, TEXT_ONE_LINE, out);
}

void call_explain_problem(const struct json *problem, struct buf *out) {
    const struct json *status = json_get(problem, "status"), *errors = json_get(problem, "errors");
    size_t start = out->n;
    add_member(problem, "title", "", out);
    if (out->n == start)
        buf_add_str(out, "refused");
    if (json_is(status, JSON_INTEGER))
        buf_printf(out, " (%lld)", (long long)json_integer(status));
    add_member(problem, "detail", ": ", out);
    for (size_t i = 0; json_is(errors, JSON_ARRAY) && i < json_count(errors); i++) {
        add_member(json_at(errors, i), "field", i == 0 ? ": " : "; ", out);
        add_member(json_at(errors, i), "message", " ", out);
    }
}

/* What the user can do about it. */
static const char *advice(long status) {
    switch (status) {
    case 401:
        return "; give the token with --token-file, or in NIXIE_TOKEN";
    case 413:
        return "; the server's --payload-max and --body-max say how much it takes";
    case 429:
        return "; the queue's max_messages or max_bytes is reached";
    case 503:
        return "; try again in a moment";
    case 507:
        return "; make room on the server's disk";
    default:
        return "";
    }
}

void call_explain(const struct call *r, struct buf *out) {
    if (r->status == 0 && r->is_too_long) {
        buf_add_str(out, r->trouble);
        return;
    }
    if (r->status == 0) {
        buf_printf(out, "cannot reach %s: ", r->cli->server);
        text_escape(span_str(r->trouble), TEXT_ONE_LINE, out);
        buf_add_str(out, " (is it running? --server or NIXIE_SERVER says where)");
        return;
    }
    if (call_is_success(r)) {
        buf_printf(out, "%s answered %ld without JSON: is that a Nixie server?", r->cli->server,
                   r->status);
        return;
    }
    if (json_is(r->reply, JSON_OBJECT))
        call_explain_problem(r->reply, out);
    else
        buf_printf(out, "%s answered %ld: is that a Nixie server?", r->cli->server, r->status);
    buf_add_str(out, advice(r->status));
}

int call_check(const struct call *r, const char *what) {
    if (call_is_success(r) && (r->reply != NULL || r->status == 204))
        return -1;
    struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    call_explain(r, &text);
    cli_error(r->cli, "%s%s%.*s", what != NULL ? what : "", what != NULL ? ": " : "", (int)text.n,
              (const char *)text.p);
    buf_release(&text);
    return call_is_success(r) || r->is_too_long ? CLI_FAILED : call_exit_code(r->status);
}
