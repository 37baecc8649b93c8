#include "http/response.h"

#include "base/clock.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { DETAIL_SIZE = 400, MS_PER_DAY = 86400000 };

static const char *phrase_of(unsigned status) {
    switch (status) {
    case 200:
        return "200 OK";
    case 201:
        return "201 Created";
    case 202:
        return "202 Accepted";
    case 204:
        return "204 No Content";
    case 400:
        return "400 Bad Request";
    case 401:
        return "401 Unauthorized";
    case 404:
        return "404 Not Found";
    case 405:
        return "405 Method Not Allowed";
    case 408:
        return "408 Request Timeout";
    case 409:
        return "409 Conflict";
    case 411:
        return "411 Length Required";
    case 413:
        return "413 Content Too Large";
    case 414:
        return "414 URI Too Long";
    case 422:
        return "422 Unprocessable Content";
    case 429:
        return "429 Too Many Requests";
    case 431:
        return "431 Request Header Fields Too Large";
    case 500:
        return "500 Internal Server Error";
    case 503:
        return "503 Service Unavailable";
    case 507:
        return "507 Insufficient Storage";
    default:
        assert(false && "a status without a phrase");
        return "500 Internal Server Error";
    }
}

static struct problem problem(unsigned status, const char *title, const char *detail) {
    return (struct problem){.status = status, .title = title, .detail = detail};
}

/* One that may pass. */
static struct problem problem_for(unsigned seconds, const char *title, const char *detail) {
    return (struct problem){
        .status = 429, .retry_after_s = seconds, .title = title, .detail = detail};
}

struct problem problem_of(enum err e) {
    switch (e) {
    case OK:
        break;
    case ERR_INVALID:
        return problem(400, "invalid request", "a value is out of range or of the wrong form");
    case ERR_TOO_LARGE:
        return problem(413, "too large", "together this is too large for one transaction");
    case ERR_NO_QUEUE:
        return problem(404, "no such queue", "there is no queue of that name");
    case ERR_NO_MESSAGE:
        return problem(404, "no such message", "there is no message of that id in the queue");
    case ERR_NO_GROUP:
        return problem(404, "no such group", "there is no cause group of that key");
    case ERR_NO_JOB:
        return problem(404, "no such job", "there is no job of that id");
    case ERR_NO_VHOST:
        return problem(404, "no such vhost", "there is no vhost of that name");
    case ERR_NO_EXCHANGE:
        return problem(404, "no such exchange", "there is no exchange of that name");
    case ERR_NO_POLICY:
        return problem(404, "no such policy", "there is no policy of that name");
    case ERR_WRONG_STATE:
        return problem(409, "wrong state", "the message is not in the state this needs");
    case ERR_STALE_LEASE:
        return problem(409, "stale lease", "the lease token is not the message's current one");
    case ERR_NOT_EMPTY:
        return problem(409, "queue not empty", "the queue has unfinished messages");
    case ERR_REDRIVE_LIMIT:
        return problem(409, "redrive limit",
                       "the message was sent again as often as its queue's redrive_limit allows; "
                       "force sends it all the same");
    case ERR_TARGET_CYCLE:
        return problem(409, "targets form a cycle",
                       "dead letters of the queue would come back to it by the targets of others");
    case ERR_TARGET_REFUSED:
        return problem(409, "target refused", "the target's allow_from does not name this queue");
    case ERR_EDITED:
        return problem(409, "edited",
                       "an edited copy was sent in the message's place; force sends it all the "
                       "same");
    case ERR_IN_USE:
        return problem(409, "exchange in use", "something is bound to the exchange");
    case ERR_REFUSED:
        return problem(409, "exchange is internal", "the exchange takes nothing from publishers");
    case ERR_QUEUE_FULL:
        return problem_for(1, "queue full", "the queue is at its max_messages or max_bytes");
    case ERR_TOO_MANY_JOBS:
        return problem_for(5, "too many jobs", "as many jobs as there may be have not ended");
    case ERR_TOO_MANY_QUEUES:
        return problem(507, "too many queues", "the server has as many queues as it can hold");
    case ERR_TOO_MANY_EXCHANGES:
        return problem(507, "too many exchanges",
                       "the server has as many exchanges as it can hold");
    case ERR_TOO_MANY_BINDINGS:
        return problem(507, "too many bindings", "the server has as many bindings as it can hold");
    case ERR_DISK_FULL:
        return problem(507, "disk full",
                       "there is no room on the disk for this; nothing has changed");
    case ERR_IO:
    case ERR_CORRUPT:
    case ERR_LOCKED:
    case ERR_VERSION:
        return problem(500, "internal error", "the server could not do this");
    }
    assert(false && "not an error of the engine");
    return problem(500, "internal error", "unknown");
}

void problem_write(struct problem p, struct json_writer *w) {
    json_begin(w, '{');
    json_name(w, "status");
    json_put_u64(w, p.status);
    json_name(w, "title");
    json_put_str(w, p.title);
    json_name(w, "detail");
    json_put_str(w, p.detail);
    json_end(w, '}');
}

/* -- problems -------------------------------------------------------------------------------- */

void reply_init(struct reply *r, struct buf *body) {
    *r = (struct reply){.status = 200, .content_type = "application/json", .body = body};
    buf_clear(body);
}

static void begin_problem(struct reply *r, struct json_writer *w, unsigned status,
                          const char *title, const char *detail) {
    r->status = status;
    r->content_type = "application/problem+json";
    buf_clear(r->body);
    json_writer_init(w, r->body);
    json_begin(w, '{');
    json_name(w, "type");
    json_put_str(w, "about:blank");
    json_name(w, "title");
    json_put_str(w, title);
    json_name(w, "status");
    json_put_u64(w, status);
    json_name(w, "detail");
    json_put_str(w, detail);
}

void reply_problem(struct reply *r, unsigned status, const char *title, const char *format, ...) {
    char detail[DETAIL_SIZE];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(detail, sizeof detail, format, args);
    va_end(args);
    assert(n >= 0);
    /* Cut without leaving half a character. */
    detail[span_cut_utf8(span_str(detail), sizeof detail - 4).n] = '\0';

    struct json_writer w;
    begin_problem(r, &w, status, title, detail);
    json_end(&w, '}');
}

void reply_error(struct reply *r, enum err e) {
    struct problem p = problem_of(e);
    reply_problem(r, p.status, p.title, "%s", p.detail);
    r->retry_after_s = p.retry_after_s;
}

void reply_fields(struct reply *r, const struct field_errors *errors) {
    assert(errors->count > 0);
    struct json_writer w;
    begin_problem(r, &w, 422, "invalid fields",
                  errors->count == 1 ? "a field is not as it must be"
                                     : "some fields are not as they must be");
    json_name(&w, "errors");
    json_begin(&w, '[');
    for (unsigned i = 0; i < errors->count; i++) {
        json_begin(&w, '{');
        json_name(&w, "field");
        json_put_str(&w, errors->items[i].field);
        json_name(&w, "code");
        json_put_str(&w, errors->items[i].code);
        json_name(&w, "message");
        json_put_str(&w, errors->items[i].message);
        if (errors->items[i].has_position) {
            json_name(&w, "position");
            json_put_u64(&w, errors->items[i].position);
            json_name(&w, "length");
            json_put_u64(&w, errors->items[i].length);
        }
        json_end(&w, '}');
    }
    json_end(&w, ']');
    json_end(&w, '}');
}

/* -- the head -------------------------------------------------------------------------------- */

/* "Mon, 01 Jun 2026 00:00:00 GMT" */
static void date_update(struct date_text *date, int64_t now) {
    static const char days[] = "ThuFriSatSunMonTueWed"; /* the epoch began on a Thursday */
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    if (date->second == now / 1000 && date->text[0] != '\0')
        return;
    date->second = now / 1000;

    char t[TIME_TEXT_SIZE]; /* YYYY-MM-DD HH:MM:SS */
    time_format(now, t);
    unsigned month = (unsigned)(t[5] - '0') * 10 + (unsigned)(t[6] - '0') - 1;
    snprintf(date->text, sizeof date->text, "%.3s, %.2s %.3s %.4s %.8s GMT",
             days + now / MS_PER_DAY % 7 * 3, t + 8, months + month * 3, t, t + 11);
}

static void write_allow(unsigned allowed, struct buf *out) {
    static const char *const names[] = {
        [METHOD_GET] = "GET", [METHOD_HEAD] = "HEAD",     [METHOD_POST] = "POST",
        [METHOD_PUT] = "PUT", [METHOD_DELETE] = "DELETE", [METHOD_PATCH] = "PATCH",
    };
    buf_add_str(out, "\r\nAllow: ");
    bool is_first = true;
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        if ((allowed & 1U << i) == 0)
            continue;
        if (!is_first)
            buf_add_str(out, ", ");
        is_first = false;
        buf_add_str(out, names[i]);
    }
}

static void write_rare_headers(const struct reply *r, struct buf *out) {
    if (r->retry_after_s != 0) {
        buf_add_str(out, "\r\nRetry-After: ");
        buf_add_u64(out, r->retry_after_s);
    }
    if (r->allowed != 0)
        write_allow(r->allowed, out);
    if (r->is_challenge)
        buf_add_str(out, "\r\nWWW-Authenticate: Bearer");
    if (r->location[0] != '\0') {
        buf_add_str(out, "\r\nLocation: ");
        buf_add_str(out, r->location);
    }
    if (r->next != 0) {
        buf_add_str(out, "\r\nNixie-Next: ");
        buf_add_u64(out, r->next);
    }
}

void reply_write(const struct reply *r, const struct reply_options *options, struct date_text *date,
                 struct buf *out) {
    date_update(date, options->now);
    buf_reserve(out, 256 + r->body->n);
    buf_add_str(out, "HTTP/1.1 ");
    buf_add_str(out, phrase_of(r->status));
    buf_add_str(out, "\r\nDate: ");
    buf_add_str(out, date->text);
    if (r->status != 204) {
        buf_add_str(out, "\r\nContent-Type: ");
        buf_add_str(out, r->content_type);
        buf_add_str(out, "\r\nContent-Length: ");
        buf_add_u64(out, r->body->n);
    }
    write_rare_headers(r, out);
    if (!options->keeps_alive)
        buf_add_str(out, "\r\nConnection: close");
    else if (options->is_http_1_0)
        buf_add_str(out, "\r\nConnection: keep-alive");
    buf_add(out, "\r\n\r\n", 4);
    if (r->status != 204 && !options->is_head)
        buf_add_span(out, buf_span(r->body));
}
