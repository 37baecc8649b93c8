/* What the files of net/ know of the loop beyond loop.h: libuv's loop, the memory that connections
 * share, and the list of connections that are to be looked at before the loop waits. Loop thread.
 */
#pragma once

#include "base/bytes.h"
#include "net/loop.h"

#include <uv.h>

struct conn;

/* One read takes at most this much; shared by all connections, so that an idle one holds no memory
 * for input. */
#define LOOP_READ_BYTES (64 * 1024)

struct loop_signal;

struct loop {
    uv_loop_t uv;
    uv_prepare_t turn;
    uv_idle_t idle; /* active: the next poll does not wait */
    uv_poll_t wake; /* of wake_fd, an eventfd */
    int wake_fd;
    struct loop_signal *signals;
    bool again;

    void (*on_turn)(void *ctx);
    void *on_turn_ctx;
    void (*on_wake)(void *ctx);
    void *on_wake_ctx;

    /* Connections to be looked at before the loop waits; see conn_schedule. */
    struct conn *ready;

    /* Each is in use only within one callback from libuv, never across two. */
    uint8_t *read_buf; /* LOOP_READ_BYTES: what came from a socket */
    struct buf plain;  /* what TLS decrypted of it */
    struct buf wire;   /* what TLS wants to send */
};

/* In conn.c: looks at them. */
void conn_run_ready(struct loop *l);
