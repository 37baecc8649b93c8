/* What the protocols share: one engine, its log and its clock, on one loop. Loop thread.
 *
 * In each turn of the loop, after the sockets were served, the server moves what is due, wakes
 * waiting consumers, cleans a little, and hands what was appended to the log thread: protocols call
 * verbs and wait at the barrier; they need not tell the server anything. */
#pragma once

#include "engine/engine.h"
#include "server/barrier.h"

struct alerts; /* server/alerts.h */
struct loop;   /* net/loop.h */

struct server_limits {
    size_t payload_bytes_max, body_bytes_max;
    unsigned connections_max, inflight_max;
    int64_t request_timeout_ms, idle_timeout_ms;
};

struct server {
    struct engine *engine;
    struct log *log;
    struct barrier barrier;
    struct loop *loop;
    struct alerts *alerts; /* NULL: none are told */
    struct server_limits limits;
    const char *data;       /* its directory */
    int64_t data_bytes_max; /* 0: the disk decides */
    const char *token;      /* NULL: everybody is welcome */
    const char *token_name; /* who its holders are, unless they say so themselves */
    bool is_open;           /* no token, and other machines can reach it */
    bool test_clock;
    bool draining;
    /* the latest time told: server_now never goes below it, the test clock stands at it */
    int64_t now;
};

/* How much the log may take on disk: --data-max-bytes, else what it takes and what is free there; 0
 * when the system does not tell. */
uint64_t server_capacity_bytes(const struct server *s);

/* The time of this moment: wall clock, never going back, or the test clock's. */
int64_t server_now(struct server *s);
