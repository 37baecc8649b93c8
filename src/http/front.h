/* The inside of the front end, shared by the files of src/http: its state, and one request at work.
 * Loop thread. */
#pragma once

#include "http/bodies.h"
#include "http/http.h"
#include "http/request.h"
#include "http/response.h"
#include "http/waiters.h"

struct connection;

struct http {
    struct server *server;
    struct connection *connections; /* all of them; see connection.c */
    unsigned connection_count;
    unsigned refused_count; /* of them: over the limit, on their way out */
    unsigned inflight;      /* whole requests that wait for the disk or for a message */
    int64_t started_at;
    uint64_t reply_counts[6]; /* by hundreds of the status */
    struct date_text date;
    struct waiters waiters;
    struct import *imports; /* of definitions, at work (definitions.c) */
    unsigned import_count;

    /* Memory of the request at work: there is one at a time, from dispatch to its reply, however
     * long that then waits for the disk. */
    struct buf body;    /* of its reply */
    struct buf scratch; /* its query, decoded */
    struct buf name;    /* its queue or key, decoded */
    struct buf policy;  /* texts of the policy in it */
    struct field_errors errors;
    struct enqueue_body enqueue;
    struct settle_body settle;
    union {
        struct enqueued enqueued[LIMIT_BATCH];
        enum err results[LIMIT_BATCH];
        enum imported imported[LIMIT_BATCH];
    };
    uint64_t ids[LIMIT_BATCH];
};

/* One request at work. */
struct call {
    struct http *http;
    struct server *server;
    struct connection *connection;
    const struct request *request;
    struct span queue; /* of the path, decoded */
    uint64_t id;       /* of the path: a message's or a job's */
    struct span key;   /* of the path: a cause group's, or a vhost's or policy's name; decoded */
    int64_t now;
    struct reply reply;
    bool is_stateful; /* the engine was asked: what the reply says must be on disk first */
    bool waits;       /* something replies later (http/connection.h) */
};

/* The engine, which is only reached through here. */
struct engine *call_engine(struct call *c);

/* Who makes the request: the header Nixie-Actor, else the name of the token, else "anonymous";
 * UTF-8, at most LIMIT_ACTOR bytes. False when the reply is set (422): ill-formed or too long. */
bool call_actor(struct call *c, struct span *ret_actor);

/* The request's body as JSON. False when the reply is set: malformed, or missing where it is
 * required. An empty body is NULL where it is not. The caller frees it. */
bool call_body(struct call *c, bool is_required, struct json **ret_json);

/* Sets the 422 when there are errors in http->errors (cleared before each handler); true when there
 * are none. */
bool call_is_valid(struct call *c);

/* True when a body was found good; else the reply is set from http->errors: a 422, or the 413 of a
 * payload that is too large. */
bool call_body_is_good(struct call *c, enum body_verdict verdict);

/* Replies with a message as it is now. It may have moved on from the queue of the path, to the target
 * of its dead letters. */
void call_show(struct call *c, uint64_t id);
/* Replies with the error of a verb on the message of the path; in a wrong state it says in which. */
void call_refuse_verb(struct call *c, enum err e);
/* Parses a filter; NULL when it is ill-formed, with an error on `field` that says where. The caller
 * frees it. */
struct filter *call_filter(struct call *c, struct span text, const char *field,
                           enum filter_scope scope);

/* Answers one request: sets its reply, or makes it a waiter. */
void call_dispatch(struct call *c);

/* True when the request carries the token, or needs none. */
bool call_is_allowed(const struct http *h, const struct request *r);
/* The 401. */
void call_refuse(struct reply *r);

/* Imports that are not done are left so. */
void definitions_release(struct http *h);
/* Frees what an unusually large request left. */
void http_trim(struct http *h);

/* -- the handlers, one a route --------------------------------------------------------------- */

/* messages.c */
void handle_enqueue(struct call *c);
void handle_list(struct call *c);
void handle_message(struct call *c);
void handle_any_message(struct call *c); /* by its id alone */
void handle_payload(struct call *c);
void handle_attempts(struct call *c);

/* claims.c */
void handle_claim(struct call *c);

/* settle.c */
void handle_succeed(struct call *c);
void handle_fail(struct call *c);
void handle_release(struct call *c);
void handle_extend(struct call *c);
void handle_settle(struct call *c);

/* letter.c: one dead letter */
void handle_replay(struct call *c);
void handle_edit(struct call *c);
void handle_discard(struct call *c);
void handle_undiscard(struct call *c);

/* letters.c: finding, taking in */
void handle_dead(struct call *c);
void handle_dead_import(struct call *c);

/* groups.c */
void handle_groups(struct call *c);
void handle_group(struct call *c);
void handle_group_change(struct call *c);

/* jobs.c */
void handle_redrive(struct call *c); /* POST /redrives */
void handle_redrives(struct call *c);
void handle_redrive_read(struct call *c);
void handle_redrive_change(struct call *c);
void handle_discards_post(struct call *c);
void handle_discards(struct call *c);
void handle_discards_read(struct call *c);
void handle_discards_change(struct call *c);
void handle_purge(struct call *c);

/* audit.c */
void handle_audit(struct call *c);

/* doctor.c */
void handle_doctor(struct call *c);

/* queues.c */
void handle_queue_pause(struct call *c);
void handle_queue_resume(struct call *c);
void handle_alerts_snooze(struct call *c);
void handle_classify(struct call *c);
void handle_queues(struct call *c);
void handle_queue(struct call *c);
void handle_queue_put(struct call *c);
void handle_queue_delete(struct call *c);

/* policies.c */
void handle_vhosts(struct call *c);
void handle_vhost(struct call *c);
void handle_vhost_put(struct call *c);
void handle_policies(struct call *c);
void handle_policy(struct call *c);
void handle_policy_put(struct call *c);
void handle_policy_delete(struct call *c);

/* definitions.c, definitions_export.c */
void handle_definitions(struct call *c);
void handle_definitions_post(struct call *c);

/* info.c */
void handle_root(struct call *c);
void handle_healthz(struct call *c);
void handle_readyz(struct call *c);
void handle_openapi(struct call *c);

/* metrics.c */
void handle_metrics(struct call *c);
