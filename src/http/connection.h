/* One HTTP connection: its requests in order, one at a time. See connection.c for its states. Loop
 * thread. */
#pragma once

#include "http/response.h"

struct connection;

/* What replies to a request in a later turn, by connection_answer. */
struct later {
    void (*closed)(struct later *l); /* the connection is going: there is nobody to reply to */
    void (*drain)(struct later *l);  /* the server drains: to reply now; NULL: it will anyway */
    bool ends_with_peer;             /* when its client wants to say no more */
};
/* What will reply to the request at work; NULL when that has ended. */
void connection_set_later(struct connection *k, struct later *l);
/* The reply; what made it has ended. */
void connection_answer(struct connection *k, const struct reply *reply);
