/* The inside of a connection, shared by conn.c (life and input), conn_out.c (output) and
 * listener.c. Loop thread.
 *
 * A connection's life:
 *
 *     open --conn_close--------------------------------> closing --libuv's close callback--> freed
 *       \--conn_close_after_flush--> finishing --sent, peer ended or time is up--^
 *
 * Invariants:
 * C1 `closing` and `finishing` never become false again; a protocol is called in neither, but for
 *    closed() on the way into `closing`.
 * C2 The memory lives until libuv's close callback, which runs only from the loop itself: code
 *    that called a protocol may still look at the connection's flags afterwards, and a list of
 *    connections may be walked while they close.
 * C3 Between two callbacks from libuv, `unread` lies in `in` or is empty; within one it may lie in
 *    the loop's shared memory.
 * C4 While `sending` is set, libuv owns bytes of this connection, and `out` waits behind them. */
#pragma once

#include "net/conn.h"
#include "net/loop_internal.h"
#include "net/tls.h"

#include <uv.h>

enum {
    CONN_KEEP_BYTES = 64 * 1024, /* a buffer that grew larger is freed as soon as it is empty */
    CONN_PAUSED_IN_BYTES = 16 * 1024, /* read ahead while paused, to notice a closing peer */
    CONN_FINISH_MS = 5000,            /* to send the rest and wait for the peer's end, in all */
    /* Input thrown away while finishing. Closing a socket with unread input resets it, and the peer
     * may lose the reply before it has read it; many clients read the reply only when they have
     * sent their whole body. */
    CONN_LINGER_BYTES = 32 * 1024 * 1024,
};

/* Output that the socket did not take at once. */
struct sending {
    uv_write_t req;
    struct conn *c;
    struct buf bytes;  /* libuv's until its callback */
    struct buf queued; /* goes next, before c->out: what a TLS session has to say meanwhile */
};

struct conn {
    struct listener *listener;
    struct conn *next, **link; /* the listener's */
    int64_t deadline;          /* loop_now() of it; 0: none */

    bool reading;   /* libuv is to tell us of input */
    bool paused;    /* by the protocol */
    bool over_high; /* much output: drained() is owed */
    bool over_hold; /* too much: treated as paused */
    bool offering;  /* inside readable() */
    bool ended;     /* the peer will send no more */
    bool active;    /* since the last sweep */
    bool failed;    /* writing failed; closed before the loop waits */
    bool finishing;
    bool tls_ended; /* nothing more can be encrypted */
    bool shut;      /* our end was sent */
    bool closing;
    enum close_reason reason; /* of failing or finishing */

    struct loop *loop;
    const struct protocol *protocol;
    void *user;
    struct conn *ready_next, **ready_link; /* the loop's; link is NULL when it is not on the list */

    struct span unread;
    uint8_t *in;
    size_t in_cap, in_max;
    struct buf out;
    size_t out_hold;
    size_t out_start; /* with TLS: up to here it is encrypted and sent */
    struct sending *sending;
    struct tls *tls;
    size_t lingered_bytes;

    char peer[56];
    uv_tcp_t tcp;
};

/* -- conn.c ---------------------------------------------------------------------------------- */

/* Takes over fd (closed on failure) and calls opened(). */
void conn_accept(struct listener *listener, int fd, const char *peer);
/* Once a second for every connection. */
void conn_sweep(struct conn *c, int64_t now);
/* Has it looked at before the loop waits: input to offer, failed, or finishing. */
void conn_schedule(struct conn *c);
/* Tells libuv whether we want input now. */
void conn_update_reading(struct conn *c);
/* The next step of finishing, when the one before is done. May close; only called from the loop. */
void conn_finish_step(struct conn *c);
enum close_reason conn_reason_of(int uv_error);

/* -- conn_out.c ------------------------------------------------------------------------------ */

/* Sends all of b, which is empty afterwards: what the socket does not take now has moved to
 * c->sending. */
void conn_send(struct conn *c, struct buf *b);
/* The last bytes of a TLS session, as far as the socket takes them at once. */
void conn_send_tls_end(struct conn *c);

/* -- listener.c ------------------------------------------------------------------------------ */

void listener_add(struct listener *l, struct conn *c);
/* It counts no more, but stays on the list. */
void listener_on_closing(struct listener *l);
/* It is about to be freed. */
void listener_remove(struct listener *l, struct conn *c);
const struct listener_config *listener_config_of(const struct listener *l);
struct loop *listener_loop(const struct listener *l);
