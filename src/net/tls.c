/* OpenSSL reads from and writes to memory through a BIO of our own: the span that was just
 * received, and the buffer that is about to be sent. OpenSSL reads no further than the record it
 * needs, so a session holds bytes of its own only while the plain side has no room. */
#include "net/tls.h"

#include "base/mem.h"

#include <assert.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    HELD_BYTES_MAX =
        1024 * 1024,          /* the caller reads no further while tls_has_more(), so far less */
    RECORD_BYTES = 16 * 1024, /* the most plain bytes in one record */
};

struct tls_context {
    SSL_CTX *ssl;
    BIO_METHOD *method;
    unsigned
        refs; /* its owner's and each session's: a BIO points to its method until it is freed */
};

struct tls {
    struct tls_context *context;
    SSL *ssl;
    struct buf held;   /* received and not yet read by OpenSSL, for want of room */
    struct span input; /* within a call: what OpenSSL may read */
    struct buf *wire;  /* within a call: where it writes to */
    bool failed;
};

/* -- the BIO --------------------------------------------------------------------------------- */

static int bio_read(BIO *bio, char *p, int n) {
    struct tls *s = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (n <= 0)
        return 0;
    if (s->input.n == 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    size_t taken = s->input.n < (size_t)n ? s->input.n : (size_t)n;
    memcpy(p, s->input.p, taken);
    s->input.p += taken;
    s->input.n -= taken;
    return (int)taken;
}

static int bio_write(BIO *bio, const char *p, int n) {
    struct tls *s = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (n <= 0 || s->wire == NULL)
        return -1;
    buf_add(s->wire, p, (size_t)n);
    return n;
}

static long bio_ctrl(BIO *bio, int command, long n, void *p) {
    (void)bio;
    (void)n;
    (void)p;
    return command == BIO_CTRL_FLUSH ? 1 : 0;
}

/* -- the context ----------------------------------------------------------------------------- */

static void say(char *error, size_t error_bytes, const char *what, const char *file) {
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());
    if (file != NULL)
        snprintf(error, error_bytes, "%s %s: %s", what, file,
                 reason != NULL ? reason : "unknown error");
    else
        snprintf(error, error_bytes, "%s: %s", what, reason != NULL ? reason : "unknown error");
    ERR_clear_error();
}

/* OpenSSL's default asks on the terminal, where a server has nobody to answer. */
static int no_passphrase(char *p, int size, int is_writing, void *ctx) {
    (void)p;
    (void)size;
    (void)is_writing;
    (void)ctx;
    return -1;
}

static int choose_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_bytes,
                       const unsigned char *in, unsigned in_bytes, void *ctx) {
    (void)ssl;
    (void)ctx;
    static const unsigned char ours[] = "\x08http/1.1";
    unsigned char *chosen = NULL;
    if (SSL_select_next_proto(&chosen, out_bytes, ours, sizeof ours - 1, in, in_bytes) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_NOACK;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

static bool configure(SSL_CTX *ssl, const char *cert_file, const char *key_file, char *error,
                      size_t error_bytes) {
    SSL_CTX_set_options(ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_read_ahead(ssl, 0);
    /* Resumption is by tickets, which cost the server no memory. */
    SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_default_passwd_cb(ssl, no_passphrase);
    SSL_CTX_set_alpn_select_cb(ssl, choose_alpn, NULL);
    if (SSL_CTX_set_min_proto_version(ssl, TLS1_2_VERSION) != 1) {
        say(error, error_bytes, "cannot set up TLS", NULL);
        return false;
    }
    if (SSL_CTX_use_certificate_chain_file(ssl, cert_file) != 1) {
        say(error, error_bytes, "cannot use certificate", cert_file);
        return false;
    }
    if (SSL_CTX_use_PrivateKey_file(ssl, key_file, SSL_FILETYPE_PEM) != 1) {
        say(error, error_bytes, "cannot use key", key_file);
        return false;
    }
    return true;
}

static BIO_METHOD *method_new(void) {
    BIO_METHOD *m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "memory");
    if (m != NULL) {
        BIO_meth_set_read(m, bio_read);
        BIO_meth_set_write(m, bio_write);
        BIO_meth_set_ctrl(m, bio_ctrl);
    }
    return m;
}

static void unref(struct tls_context *t) {
    if (--t->refs > 0)
        return;
    SSL_CTX_free(t->ssl);
    BIO_meth_free(t->method);
    free(t);
}

struct tls_context *tls_context_new(const char *cert_file, const char *key_file, char *error,
                                    size_t error_bytes) {
    ERR_clear_error();
    struct tls_context *t = mem_alloc(sizeof *t);
    t->refs = 1;
    t->ssl = SSL_CTX_new(TLS_server_method());
    t->method = method_new();
    if (t->ssl == NULL || t->method == NULL) {
        say(error, error_bytes, "cannot set up TLS", NULL);
        unref(t);
        return NULL;
    }
    if (!configure(t->ssl, cert_file, key_file, error, error_bytes)) {
        unref(t);
        return NULL;
    }
    return t;
}

void tls_context_free(struct tls_context *t) {
    if (t != NULL)
        unref(t);
}

/* -- sessions -------------------------------------------------------------------------------- */

struct tls *tls_new(struct tls_context *t) {
    struct tls *s = mem_alloc(sizeof *s);
    s->context = t;
    t->refs++;
    buf_init(&s->held, HELD_BYTES_MAX);

    ERR_clear_error();
    s->ssl = SSL_new(t->ssl);
    BIO *bio = BIO_new(t->method);
    assert(s->ssl != NULL && bio != NULL); /* fails only for want of memory */
    BIO_set_data(bio, s);
    BIO_set_init(bio, 1);
    SSL_set_bio(s->ssl, bio, bio);
    SSL_set_accept_state(s->ssl);
    return s;
}

void tls_free(struct tls *s) {
    if (s == NULL)
        return;
    SSL_free(s->ssl);
    buf_release(&s->held);
    unref(s->context);
    free(s);
}

bool tls_is_ready(const struct tls *s) {
    return !s->failed && SSL_is_init_finished(s->ssl);
}

bool tls_has_more(const struct tls *s) {
    return !s->failed && (s->held.n > 0 || SSL_pending(s->ssl) > 0);
}

/* What OpenSSL's return value means, after a call that read. */
static enum tls_result result_of(struct tls *s, int returned) {
    switch (SSL_get_error(s->ssl, returned)) {
    case SSL_ERROR_NONE:
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        return TLS_OK;
    case SSL_ERROR_ZERO_RETURN:
        return TLS_CLOSED;
    default:
        s->failed = true;
        ERR_clear_error();
        return TLS_FAILED;
    }
}

static enum tls_result decrypt(struct tls *s, struct buf *plain, size_t plain_max) {
    if (!SSL_is_init_finished(s->ssl)) {
        int done = SSL_do_handshake(s->ssl);
        if (done != 1)
            return result_of(s, done);
    }
    while (plain_max > 0) {
        size_t room = plain_max < RECORD_BYTES ? plain_max : RECORD_BYTES, n = 0;
        int done = SSL_read_ex(s->ssl, buf_reserve(plain, room), room, &n);
        if (done != 1)
            return result_of(s, done);
        plain->n += n;
        plain_max -= n;
    }
    return TLS_OK;
}

enum tls_result tls_receive(struct tls *s, struct span from_socket, struct buf *plain,
                            size_t plain_max, struct buf *wire) {
    if (s->failed)
        return TLS_FAILED;
    bool is_held = s->held.n > 0;
    if (is_held) {
        buf_add_span(&s->held, from_socket);
        from_socket = buf_span(&s->held);
    }

    s->input = from_socket;
    s->wire = wire;
    ERR_clear_error();
    enum tls_result result = decrypt(s, plain, plain_max);
    s->wire = NULL;

    if (is_held)
        buf_consume(&s->held, from_socket.n - s->input.n);
    else
        buf_add_span(&s->held, s->input);
    if (s->held.n == 0)
        buf_release(&s->held);
    s->input = (struct span){0};
    return result;
}

enum tls_result tls_send(struct tls *s, struct span plain, struct buf *wire) {
    if (s->failed || !SSL_is_init_finished(s->ssl))
        return TLS_FAILED;
    if (plain.n == 0)
        return TLS_OK;
    s->wire = wire;
    ERR_clear_error();
    size_t n = 0;
    int done = SSL_write_ex(s->ssl, plain.p, plain.n, &n);
    s->wire = NULL;
    /* Without partial writes it is all or nothing, and memory always takes it. */
    if (done == 1 && n == plain.n)
        return TLS_OK;
    s->failed = true;
    ERR_clear_error();
    return TLS_FAILED;
}

void tls_close(struct tls *s, struct buf *wire) {
    if (s->failed || !SSL_is_init_finished(s->ssl))
        return;
    s->wire = wire;
    ERR_clear_error();
    (void)SSL_shutdown(s->ssl);
    s->wire = NULL;
    ERR_clear_error();
}
