/* TLS for connections, over memory buffers; the only file that knows OpenSSL is tls.c. Loop thread.
 */
#pragma once

#include "base/bytes.h"

#include <stdbool.h>
#include <stddef.h>

struct tls_context;

/* A server's certificate chain and key, PEM files (the key without a passphrase); TLS 1.2 or newer.
 * NULL and a message in `error` on failure. Sessions that still live keep what they need of it. */
struct tls_context *tls_context_new(const char *cert_file, const char *key_file, char *error,
                                    size_t error_bytes);
void tls_context_free(struct tls_context *t);

/* One connection's session. */
struct tls;
struct tls *tls_new(struct tls_context *t);
void tls_free(struct tls *s);

enum tls_result {
    TLS_OK,
    TLS_CLOSED, /* the peer said that it will send no more */
    /* no TLS, or broken; `wire` may hold an alert that says so. Nothing but tls_free may follow. */
    TLS_FAILED,
};

/* Feeds bytes from the socket; appends plain bytes to `plain` (at most `plain_max` more) and bytes
 * for the socket to `wire`. What there was no room for is kept: tls_has_more() is true, and an
 * empty span gets it. */
enum tls_result tls_receive(struct tls *s, struct span from_socket, struct buf *plain,
                            size_t plain_max, struct buf *wire);
bool tls_has_more(const struct tls *s);
/* The handshake is done. Before that nothing can be sent. */
bool tls_is_ready(const struct tls *s);
/* Encrypts plain bytes into `wire`; only when ready. */
enum tls_result tls_send(struct tls *s, struct span plain, struct buf *wire);
/* Appends the closing alert to `wire`, if the session is in a state to send one. */
void tls_close(struct tls *s, struct buf *wire);
