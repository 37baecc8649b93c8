/* A call: one HTTP request at a time over a libcurl handle that keeps its connection. Said once
 * here for all commands: which server, which token, how long to wait, how much to take, and what a
 * failure is called. Nothing the server sends is trusted to be short. One thread. */
#pragma once

#include "base/json.h"
#include "base/limits.h"
#include "cli/context.h"

#include <curl/curl.h>

/* A reply's body: LIMIT_REPLY bytes of payload and as many headers, all of it escaped as \uNNNN. A
 * longer one is refused. */
#define CALL_REPLY_MAX ((size_t)12 * LIMIT_REPLY)
/* Of what is sent. Whoever fills it is bounded well below by LIMIT_PAYLOAD_MOST and ARG_MAX. */
#define CALL_BODY_MAX ((size_t)128 * 1024 * 1024)

struct call {
    const struct cli *cli;
    CURL *easy;
    struct curl_slist *headers;
    struct buf path; /* NUL-terminated once prepared */
    struct buf body;
    struct buf received;
    struct json *reply; /* of the newest reply, NULL when it is no JSON */
    long status;        /* of the newest reply, 0 when there was none */
    bool is_too_long;
    char trouble[CURL_ERROR_SIZE]; /* why there was none */
};

void call_init(struct call *r, const struct cli *cli);
void call_release(struct call *r);

/* Begins a new request: clears the last one and the path and body that the caller then writes
 * (into r->path, r->body). */
void call_begin(struct call *r);
/* Begins the path "/queues/NAME". */
void call_begin_queue(struct call *r, const char *queue);
/* Appends "?NAME=VALUE" to the path, or "&NAME=VALUE". The caller bounds the values: the path holds
 * 32 KiB, and each of their bytes may take three. */
void call_query(struct call *r, const char *name, const char *value);
void call_query_number(struct call *r, const char *name, int64_t value);

/* Sends what was written and waits; wait_s is how long the server may take on purpose. A body is
 * sent when r->body is not empty, or the method is POST. The outcome is in r->status. */
void call_run(struct call *r, const char *method, int64_t wait_s);

/* call_run in two parts, for a curl_multi: the handle is r->easy. */
void call_prepare(struct call *r, const char *method, int64_t wait_s);
void call_complete(struct call *r, CURLcode result);

/* Members of a body; none when text is NULL or v is OPTION_NOT_GIVEN. */
void call_put_text(struct json_writer *w, const char *name, const char *utf8);
void call_put_number(struct json_writer *w, const char *name, int64_t v);

/* Members of a reply: a text, empty when there is none; a whole number, or `otherwise`. */
struct span call_text(const struct json *v, const char *name);
int64_t call_number(const struct json *v, const char *name, int64_t otherwise);

static inline bool call_is_success(const struct call *r) {
    return r->status >= 200 && r->status <= 299;
}

/* Appends why it failed, one line, harmless on a terminal. Not after success. */
void call_explain(const struct call *r, struct buf *out);
/* The same for a problem object inside a reply (status, title, detail, errors). */
void call_explain_problem(const struct json *problem, struct buf *out);
/* The exit code that stands for an HTTP status (0: none came). */
int call_exit_code(long status);

/* -1 after success with a JSON reply. Else says "WHAT: why" and returns the exit code. `what` may
 * be NULL. */
int call_check(const struct call *r, const char *what);
