/* The table of routes: which method and path is whose. Pure functions over the path as it was sent.
 * Any thread. */
#pragma once

#include "base/bytes.h"
#include "http/request.h"

struct call;

enum access {
    ACCESS_OPEN,  /* needs no token */
    ACCESS_TOKEN, /* needs the token, if there is one */
    ACCESS_WORK,  /* likewise, and is refused while draining or overloaded */
};

struct route {
    enum method method;
    const char
        *path; /* segments; {queue}, {id}, {job} and {key} stand for any one that is not empty */
    void (*handle)(struct call *c);
    enum access access;
};

struct match {
    const struct route *route;  /* NULL: no route of that path, or none of that method */
    unsigned allowed;           /* a bit (1 << enum method) for each of the path; 0: no such path */
    bool has_id, is_job;        /* `id` is given, and is a job's */
    struct span queue, id, key; /* as sent */
};

/* HEAD finds the route of GET. */
struct match route_find(enum method method, struct span path);
