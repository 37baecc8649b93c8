/* Replies: status, body, and the head written by hand. A reply is filled in by a handler and
 * written once, into a connection's output. It decides nothing but how errors of the engine look in
 * HTTP. Loop thread. */
#pragma once

#include "base/json.h"
#include "http/request.h"
#include "model/fields.h"

struct reply {
    unsigned status;
    const char *content_type;
    unsigned retry_after_s; /* 0: no such header */
    unsigned allowed;       /* 405: a bit (1 << enum method) for each method of the route */
    bool is_challenge;      /* 401: says how to authorize */
    bool closes;            /* the connection ends after it */
    char location[40];      /* where what was made is; empty: no such header */
    uint64_t next;          /* Nixie-Next, where a page has no room for it; 0: no such header */
    struct buf *body;       /* shared by all replies of the front end: one is written at a time */
};

/* An empty 200 of JSON. */
void reply_init(struct reply *r, struct buf *body);

/* Replaces what was written by a problem (RFC 9457); the detail is one sentence without a period.
 */
void reply_problem(struct reply *r, unsigned status, const char *title, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The same for an error of the engine. */
void reply_error(struct reply *r, enum err e);
/* 422 with what is wrong (at least one error). */
void reply_fields(struct reply *r, const struct field_errors *errors);

/* How an error of the engine looks. The one place that maps them. */
struct problem {
    unsigned status, retry_after_s;
    const char *title, *detail;
};
struct problem problem_of(enum err e);
/* {"status":...,"title":...,"detail":...} */
void problem_write(struct problem p, struct json_writer *w);

/* The text of a Date header, kept for a second. */
struct date_text {
    int64_t second; /* since the epoch, of `text`; that is empty at first */
    char text[32];
};

struct reply_options {
    bool is_http_1_0;
    bool keeps_alive;
    bool is_head; /* the reply to HEAD: its head only */
    int64_t now;
};

/* Appends head and body. */
void reply_write(const struct reply *r, const struct reply_options *options, struct date_text *date,
                 struct buf *out);
