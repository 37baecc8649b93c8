/* Connections and listeners, plain or TLS, shared by all protocols. A connection has a bounded
 * input buffer (no room: the socket is not read), an output buffer, one deadline, and one close
 * function with a reason. It is not a parser: it knows nothing of what the bytes mean.
 *
 * Promises to a protocol:
 * - No callback is called from inside a conn_ function, but for closed() by conn_close.
 * - Any of these functions may be called from any callback; after conn_close the connection is
 * gone, and the callback just returns.
 * - No callback comes after closed().
 * Loop thread. */
#pragma once

#include "base/bytes.h"
#include "net/loop.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct conn;

enum close_reason {
    CLOSE_PEER,     /* the other side closed or reset */
    CLOSE_DONE,     /* the protocol is finished */
    CLOSE_TIMEOUT,  /* its deadline passed */
    CLOSE_PROTOCOL, /* rubbish came in */
    CLOSE_LIMIT,    /* a limit of this server */
    CLOSE_SHUTDOWN, /* the server stops */
    CLOSE_ERROR,    /* socket or TLS error */
};
const char *close_reason_text(enum close_reason r);

/* Output waiting for the socket; over it: see drained(). */
#define CONN_OUT_HIGH (256 * 1024)
/* Hard maximum of the output buffer: appending more is a broken invariant. */
#define CONN_OUT_MAX (128 * 1024 * 1024)

/* A protocol. Its own state of a connection hangs at `conn_user`. */
struct protocol {
    const char *name;
    /* A connection came in; sets user data and deadline. False refuses: the connection is closed
     * and closed() is not called. With TLS it comes before the handshake, so that the deadline
     * bounds that too. */
    bool (*opened)(struct conn *c, void *listener_ctx);
    /* There is new input in conn_in(c) (also called again by conn_resume). What it leaves is kept,
     * and it is called again when more came. */
    void (*readable)(struct conn *c);
    /* The peer will send no more (it may still read). Comes once, at once, paused or not:
     * conn_in(c) may hold input not yet worked on, for which conn_resume still calls readable().
     * The connection stays open until it is closed, so this closes it sooner or later. */
    void (*ended)(struct conn *c);
    /* All output was handed to the socket after conn_out_pending() had been over CONN_OUT_HIGH; may
     * be NULL. After it was over what conn_set_out_hold says, the connection is treated as paused
     * meanwhile: readable() is not called, so a peer that sends but does not read cannot make the
     * output grow without end. */
    void (*drained)(struct conn *c);
    /* The deadline passed; closes or sets another. */
    void (*expired)(struct conn *c);
    /* The last call: frees the protocol's own state. */
    void (*closed)(struct conn *c, enum close_reason reason);
};

void *conn_user(const struct conn *c);
void conn_set_user(struct conn *c, void *user);
struct loop *conn_loop(const struct conn *c);

/* -- input ----------------------------------------------------------------------------------- */

/* The unread bytes. They often lie in memory shared by all connections: the span is valid only
 * until the callback it is read in returns (consuming does not move them); what must live longer is
 * copied. */
struct span conn_in(const struct conn *c);
void conn_consume(struct conn *c, size_t n);
/* Hard maximum of unread bytes (a default is set by the listener); reading stops there until
 * something is consumed. */
void conn_set_in_max(struct conn *c, size_t n);
/* Stops and resumes readable(); both are flags and cost no system call. While paused a closing peer
 * is still noticed (so that a long poll of a gone client ends), unless it first sent more than the
 * few KiB that are read ahead. */
void conn_pause(struct conn *c);
/* Calls readable() soon, never from inside this, when there is unread input. */
void conn_resume(struct conn *c);
bool conn_is_ended(const struct conn *c); /* ended() was called */

/* -- output ---------------------------------------------------------------------------------- */
/* The buffer to append to (only append: the front may be bytes that are on their way); conn_flush
 * sends it: at once with one write call when the socket takes it, the rest as it drains. A broken
 * socket shows later, as closed(). */
struct buf *conn_out(struct conn *c);
void conn_flush(struct conn *c);
/* How much output may wait while input is offered still: CONN_OUT_HIGH, or more. */
void conn_set_out_hold(struct conn *c, size_t n);
size_t conn_out_pending(const struct conn *c); /* appended but not yet taken by the socket */

/* -- life ------------------------------------------------------------------------------------ */
/* 0 = none. Cheap to call for every request: deadlines are looked at once a second, so expired()
 * comes up to one second late. */
void conn_set_deadline(struct conn *c, int64_t after_ms);
/* Closes now; closed() is called before it returns; c must not be used after. Unsent output is
 * lost. */
void conn_close(struct conn *c, enum close_reason reason);
/* Closes when the output was sent (bounded by a deadline of a few seconds; lingers so that the peer
 * can read an error reply). From now on the only callback is closed(), later. */
void conn_close_after_flush(struct conn *c, enum close_reason reason);
const char *conn_peer(const struct conn *c); /* "127.0.0.1:5555", for the log */

/* -- listeners ------------------------------------------------------------------------------- */
struct listener;
struct tls_context; /* net/tls.h */

struct listener_config {
    /* Address or name (of a name its IPv4 address, if it has one); "", "*" or NULL is all, IPv6 and
     * IPv4. */
    const char *host;
    const char *port; /* "0" picks a free one */
    const struct protocol *protocol;
    void *ctx;               /* given to opened() */
    struct tls_context *tls; /* NULL: plain */
    size_t in_bytes_max;     /* of each connection, until conn_set_in_max */
};

/* Listens; on failure NULL and a message in `error`. */
struct listener *listener_new(struct loop *l, const struct listener_config *config, char *error,
                              size_t error_bytes);
/* "127.0.0.1:8072" as bound. */
const char *listener_address(const struct listener *l);
/* Accepts no more; connections stay. */
void listener_stop(struct listener *l);
/* Stops, and closes what connections it has with CLOSE_SHUTDOWN. */
void listener_free(struct listener *l);
/* Calls f for each open connection (which may close it or any other). */
void listener_each(struct listener *l, void (*f)(struct conn *c, void *ctx), void *ctx);
unsigned listener_count(const struct listener *l);
