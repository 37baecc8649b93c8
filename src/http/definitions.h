/* Taking in RabbitMQ's definitions: what both files of it share. Loop thread. */
#pragma once

#include "http/connection.h"
#include "http/front.h"

#include "engine/topology.h"

#define NOT_CARRIED_MAX 1000 /* listed in the report; all are counted */

/* What became of the entries of a section. `changed`: there already, and now as the entry says. */
struct section {
    uint64_t made, changed, there;
};

/* Names that a dry run would have made: their hashes, in a table of places. */
struct names {
    uint64_t *places; /* 0: free */
    size_t n, cap;    /* cap: a power of two, at least twice n */
};

/* One import, done in slices: other work goes on between them, so that what is there is asked anew for
 * each entry. */
struct import {
    struct loop_timer timer; /* first: see on_timer */
    struct later later;
    struct http *http;
    struct import *next, **link;   /* the front end's */
    struct connection *connection; /* NULL when it is gone */
    struct json *definitions;
    size_t section, item; /* the next to be looked at */
    struct buf report, vhost_text, actor, reason;
    struct engine *engine;
    int64_t now;
    struct act act;
    bool is_dry;
    struct span vhost; /* of entries that name none */
    struct section vhosts, exchanges, queues, bindings, policies;
    uint64_t not_carried;
    struct json_writer w;           /* of the list in the report */
    struct names made;              /* by a dry run */
    struct names bounded;           /* users who may not do everything */
    struct buf source, destination; /* scoped names */
    struct buf texts, what;
    struct field_errors errors; /* of the entry at work */
    enum err error;             /* of the engine: it stops the import */
};

void import_vhost(struct import *im, const struct json *item);
void import_exchange(struct import *im, const struct json *item);
void import_queue(struct import *im, const struct json *item);
void import_binding(struct import *im, const struct json *item);
void import_policy(struct import *im, const struct json *item);

/* The vhost an entry belongs to. */
struct span import_vhost_of(const struct import *im, const struct json *item);
/* Adds a line to the report: "queue 'orders' in vhost '/'" (vhost NULL: "user 'x'"), and why. */
void import_refuse(struct import *im, const char *kind, struct span name, const struct span *vhost,
                   const char *format, ...) __attribute__((format(printf, 5, 6)));

void names_add(struct names *s, char kind, struct span name);
bool names_have(const struct names *s, char kind, struct span name);
