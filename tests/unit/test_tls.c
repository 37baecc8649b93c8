/* TLS connections against OpenSSL's own client, with a certificate made here. The loop runs on the main thread, a blocking client on
 * another; what a server callback saw is read by the client only through atomics. */
#include "check.h"
#include "net_client.h"

#include "base/mem.h"
#include "net/conn.h"
#include "net/loop.h"
#include "net/tls.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { IN_MAX = 64 * 1024 };

/* -- a certificate ----------------------------------------------------------------------------- */

static char cert_file[] = "/tmp/test-tls-cert-XXXXXX";
static char key_file[] = "/tmp/test-tls-key-XXXXXX";

static EVP_PKEY *make_key(const char *file) {
    EVP_PKEY *key = EVP_EC_gen("P-256");
    FILE *f = fopen(file, "w");
    PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL);
    fclose(f);
    return key;
}

static void make_certificate(const char *file, EVP_PKEY *key) {
    X509 *x = X509_new();
    ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
    X509_gmtime_adj(X509_getm_notBefore(x), -3600);
    X509_gmtime_adj(X509_getm_notAfter(x), 3600);
    X509_set_pubkey(x, key);
    X509_NAME *name = X509_get_subject_name(x);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"localhost", -1, -1,
                               0);
    X509_set_issuer_name(x, name);
    X509_sign(x, key, EVP_sha256());
    FILE *f = fopen(file, "w");
    PEM_write_X509(f, x);
    fclose(f);
    X509_free(x);
}

static void make_files(void) {
    close(mkstemp(cert_file));
    close(mkstemp(key_file));
    EVP_PKEY *key = make_key(key_file);
    make_certificate(cert_file, key);
    EVP_PKEY_free(key);
}

/* -- the server: an echo ----------------------------------------------------------------------- */

struct world {
    struct loop *loop;
    int port;
    void (*client)(struct world *w);
    atomic_bool is_client_done;

    bool is_refusing;  /* says "full" when a connection comes in, and finishes */
    bool is_finishing; /* after the first reply */
    bool is_pausing;   /* the first input, until the client says resume */
    size_t wanted;     /* consumes only when so much is there */
    int64_t deadline_ms;
    atomic_int opened, readable, ended, expired, closed, reason;
    atomic_bool is_resuming;
    atomic_size_t out_most, in_most;
    struct conn *conn;
};

static bool on_opened(struct conn *c, void *ctx) {
    struct world *w = ctx;
    conn_set_user(c, w);
    conn_set_deadline(c, w->deadline_ms);
    w->conn = c;
    w->opened++;
    if (w->is_refusing) {
        buf_add_str(conn_out(c), "full");
        conn_close_after_flush(c, CLOSE_LIMIT);
    }
    return true;
}

static void on_readable(struct conn *c) {
    struct world *w = conn_user(c);
    struct span in = conn_in(c);
    w->readable++;
    if (in.n > w->in_most)
        w->in_most = in.n;
    if (w->is_pausing) {
        w->is_pausing = false;
        conn_pause(c);
        return;
    }
    if (in.n < w->wanted)
        return;
    buf_add_span(conn_out(c), in);
    conn_consume(c, in.n);
    conn_flush(c);
    if (conn_out_pending(c) > w->out_most)
        w->out_most = conn_out_pending(c);
    if (w->is_finishing)
        conn_close_after_flush(c, CLOSE_DONE);
}

static void on_ended(struct conn *c) {
    struct world *w = conn_user(c);
    w->ended++;
    conn_close_after_flush(c, CLOSE_PEER);
}

static void on_expired(struct conn *c) {
    struct world *w = conn_user(c);
    w->expired++;
    conn_close(c, CLOSE_TIMEOUT);
}

static void on_closed(struct conn *c, enum close_reason reason) {
    struct world *w = conn_user(c);
    w->conn = NULL;
    w->reason = (int)reason;
    w->closed++;
}

static const struct protocol echo_protocol = {
    .name = "echo",
    .opened = on_opened,
    .readable = on_readable,
    .ended = on_ended,
    .expired = on_expired,
    .closed = on_closed,
};

static void on_wake(void *ctx) {
    struct world *w = ctx;
    if (w->is_resuming && w->conn != NULL)
        conn_resume(w->conn);
    w->is_resuming = false;
    if (w->is_client_done)
        loop_stop(w->loop);
}

static void *run_client(void *ctx) {
    struct world *w = ctx;
    w->client(w);
    w->is_client_done = true;
    loop_wake(w->loop);
    return NULL;
}

static void with_server(struct world *w, void (*client)(struct world *w)) {
    char error[200] = "";
    struct tls_context *tls = tls_context_new(cert_file, key_file, error, sizeof error);
    CHECK(tls != NULL);
    w->loop = loop_new();
    struct listener_config config = {
        .host = "127.0.0.1",
        .port = "0",
        .protocol = &echo_protocol,
        .ctx = w,
        .tls = tls,
        .in_bytes_max = IN_MAX,
    };
    struct listener *l = listener_new(w->loop, &config, error, sizeof error);
    CHECK(l != NULL);
    const char *colon = strrchr(listener_address(l), ':');
    assert(colon);
    w->port = (int)strtol(colon + 1, NULL, 10);
    w->client = client;
    loop_on_wake(w->loop, on_wake, w);
    pthread_t thread;
    pthread_create(&thread, NULL, run_client, w);
    loop_run(w->loop);
    pthread_join(thread, NULL);
    listener_free(l);
    tls_context_free(tls);
    loop_free(w->loop);
    CHECK_EQ(w->opened, w->closed);
}

/* -- the client -------------------------------------------------------------------------------- */

struct session {
    int fd;
    SSL_CTX *ctx;
    SSL *ssl;
};

static struct session session_new(const struct world *w, int version, int in_buffer_bytes) {
    struct session s = {.fd = dial_port(w->port, in_buffer_bytes),
                        .ctx = SSL_CTX_new(TLS_client_method())};
    SSL_CTX_set_min_proto_version(s.ctx, version);
    SSL_CTX_set_max_proto_version(s.ctx, version);
    SSL_CTX_set_alpn_protos(s.ctx, (const unsigned char *)"\x02h2\x08http/1.1", 12);
    s.ssl = SSL_new(s.ctx);
    SSL_set_fd(s.ssl, s.fd);
    return s;
}

static struct session session_open(const struct world *w, int version, int in_buffer_bytes) {
    struct session s = session_new(w, version, in_buffer_bytes);
    CHECK_EQ(SSL_connect(s.ssl), 1);
    return s;
}

static void session_free(struct session *s) {
    SSL_free(s->ssl);
    SSL_CTX_free(s->ctx);
    close(s->fd);
}

static void send_all(struct session *s, const void *p, size_t n) {
    size_t sent = 0;
    CHECK_EQ(SSL_write_ex(s->ssl, p, n, &sent), 1);
    CHECK_EQ(sent, n);
}

static size_t receive_all(struct session *s, void *p, size_t n) {
    size_t got = 0, r;
    while (got < n && SSL_read_ex(s->ssl, (uint8_t *)p + got, n - got, &r) == 1)
        got += r;
    return got;
}

/* The next read says that the server closed with an alert that says so. */
static bool is_at_end(struct session *s) {
    char byte;
    int r = SSL_read(s->ssl, &byte, 1);
    return r <= 0 && SSL_get_error(s->ssl, r) == SSL_ERROR_ZERO_RETURN;
}

static void say_hello(struct session *s) {
    char text[6] = "";
    send_all(s, "hello", 5);
    CHECK_EQ(receive_all(s, text, 5), 5);
    CHECK(strcmp(text, "hello") == 0);
}

/* -- cases ------------------------------------------------------------------------------------- */

static void echo_client(struct world *w) {
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    for (int i = 0; i < 2; i++) {
        struct session s = session_open(w, versions[i], 0);
        for (int k = 0; k < 100; k++)
            say_hello(&s);
        const unsigned char *alpn = NULL;
        unsigned n = 0;
        SSL_get0_alpn_selected(s.ssl, &alpn, &n);
        CHECK(n == 8 && memcmp(alpn, "http/1.1", 8) == 0);
        CHECK_EQ(SSL_shutdown(s.ssl), 0);
        CHECK_EQ(SSL_shutdown(s.ssl), 1); /* the server's answer came */
        CHECK(wait_for(&w->ended, i + 1));
        session_free(&s);
        CHECK(wait_for(&w->closed, i + 1));
    }
}

static void echoes(void) {
    struct world w = {0};
    with_server(&w, echo_client);
    CHECK_EQ(w.reason, CLOSE_PEER);
}

static void old_version_client(struct world *w) {
    struct session s = session_new(w, TLS1_1_VERSION, 0);
    SSL_set_security_level(s.ssl, 0);
    CHECK(SSL_connect(s.ssl) != 1);
    session_free(&s);
    ERR_clear_error();
    CHECK(wait_for(&w->closed, 1));
}

static void old_versions_are_refused(void) {
    struct world w = {0};
    with_server(&w, old_version_client);
    CHECK_EQ(w.reason, CLOSE_ERROR);
    CHECK_EQ(w.readable, 0);
}

enum { MUCH = 8 * 1024 * 1024 };

static void much_client(struct world *w) {
    struct session s = session_open(w, TLS1_3_VERSION, 8192);
    uint8_t *out = mem_alloc(MUCH), *in = mem_alloc(MUCH);
    for (size_t i = 0; i < MUCH; i++)
        out[i] = (uint8_t)(i * 31 >> 4);
    /* The server holds little and the socket buffers some, so the two ways go by turns in pieces that fit. */
    enum { PIECE = 256 * 1024 };
    for (size_t at = 0; at < MUCH; at += PIECE) {
        send_all(&s, out + at, PIECE);
        CHECK_EQ(receive_all(&s, in + at, PIECE), PIECE);
    }
    CHECK(memcmp(in, out, MUCH) == 0);
    free(in);
    free(out);
    session_free(&s);
    CHECK(wait_for(&w->closed, 1));
}

static void much_goes_both_ways(void) {
    struct world w = {0};
    with_server(&w, much_client);
    CHECK(w.in_most <= IN_MAX);
}

static void slow_reader_client(struct world *w) {
    struct session s = session_open(w, TLS1_3_VERSION, 8192);
    int bytes = 4096;
    setsockopt(s.fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    struct timeval short_patience = {.tv_usec = 200000};
    setsockopt(s.fd, SOL_SOCKET, SO_SNDTIMEO, &short_patience, sizeof short_patience);
    /* Sends until nothing moves any more: the server must stop reading what it cannot answer. */
    uint8_t *p = mem_alloc(16 * 1024);
    size_t sent = 0, n, got = 0;
    SSL_set_mode(s.ssl, SSL_MODE_ENABLE_PARTIAL_WRITE);
    while (sent < 256U * 1024 * 1024 && SSL_write_ex(s.ssl, p, 16 * 1024, &n) == 1)
        sent += n;
    CHECK(sent < 256U * 1024 * 1024);
    ERR_clear_error();
    while (got < sent && SSL_read_ex(s.ssl, p, 16 * 1024, &n) == 1)
        got += n;
    CHECK_EQ(got, sent);
    free(p);
    session_free(&s);
    CHECK(wait_for(&w->closed, 1));
}

static void a_slow_reader_holds_a_bounded_amount(void) {
    struct world w = {0};
    with_server(&w, slow_reader_client);
    CHECK(w.out_most > CONN_OUT_HIGH);
    CHECK(w.out_most <= CONN_OUT_HIGH + 2 * IN_MAX);
}

/* Puts the client's records on the wire a few bytes at a time, from memory. */
static void trickle(struct session *s, BIO *out, size_t piece) {
    char p[64];
    int n;
    while ((n = BIO_read(out, p, (int)piece)) > 0)
        CHECK_EQ(send(s->fd, p, (size_t)n, MSG_NOSIGNAL), n);
}

static void listen_for(struct session *s, BIO *in) {
    char p[4096];
    ssize_t n = recv(s->fd, p, sizeof p, 0);
    CHECK(n > 0);
    if (n > 0)
        BIO_write(in, p, (int)n);
}

static void trickle_client(struct world *w) {
    struct session s = session_new(w, TLS1_3_VERSION, 0);
    int on = 1;
    setsockopt(s.fd, IPPROTO_TCP, 1 /* TCP_NODELAY */, &on, sizeof on);
    BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
    BIO_set_mem_eof_return(in, -1);
    SSL_set_bio(s.ssl, in, out);
    SSL_set_connect_state(s.ssl);
    while (SSL_do_handshake(s.ssl) != 1 && check_failed_in_case == 0) {
        trickle(&s, out, 1);
        listen_for(&s, in);
    }
    SSL_write(s.ssl, "hello", 5);
    trickle(&s, out, 3);
    char text[6] = "";
    while (SSL_read(s.ssl, text, 5) <= 0 && check_failed_in_case == 0)
        listen_for(&s, in);
    CHECK(strcmp(text, "hello") == 0);
    session_free(&s);
    CHECK(wait_for(&w->closed, 1));
}

static void records_may_come_in_pieces(void) {
    struct world w = {0};
    with_server(&w, trickle_client);
    CHECK_EQ(w.ended, 1);
}

static void pause_client(struct world *w) {
    enum { BYTES = 128 * 1024 };
    struct session s = session_open(w, TLS1_3_VERSION, 0);
    uint8_t *out = mem_alloc(BYTES), *in = mem_alloc(BYTES);
    for (size_t i = 0; i < BYTES; i++)
        out[i] = (uint8_t)(i * 7 >> 2);
    send_all(&s, out, 5);
    CHECK(wait_for(&w->readable, 1));
    send_all(&s, out + 5, BYTES - 5); /* more than there is room for */
    CHECK_EQ(w->readable, 1);
    w->is_resuming = true;
    loop_wake(w->loop);
    CHECK_EQ(receive_all(&s, in, BYTES), BYTES);
    CHECK(memcmp(in, out, BYTES) == 0);
    free(in);
    free(out);
    session_free(&s);
    CHECK(wait_for(&w->closed, 1));
}

static void pauses_and_resumes(void) {
    struct world w = {.is_pausing = true};
    with_server(&w, pause_client);
    CHECK(w.in_most <= IN_MAX);
}

static void gather_client(struct world *w) {
    struct session s = session_open(w, TLS1_3_VERSION, 0);
    uint8_t *p = mem_alloc(4 * w->wanted);
    send_all(&s, p, 4 * w->wanted);
    CHECK_EQ(receive_all(&s, p, 4 * w->wanted), 4 * w->wanted);
    free(p);
    session_free(&s);
    CHECK(wait_for(&w->closed, 1));
}

static void unread_input_has_a_maximum(void) {
    struct world w = {.wanted = IN_MAX};
    with_server(&w, gather_client);
    CHECK_EQ(w.in_most, IN_MAX);
}

static void end_while_paused_client(struct world *w) {
    struct session s = session_open(w, TLS1_3_VERSION, 0);
    send_all(&s, "wait for me", 11);
    CHECK(wait_for(&w->readable, 1));
    SSL_shutdown(s.ssl);
    CHECK(wait_for(&w->ended, 1));
    CHECK(is_at_end(&s));
    session_free(&s);
    CHECK(wait_for(&w->closed, 1));
}

static void notices_the_end_while_paused(void) {
    struct world w = {.is_pausing = true};
    with_server(&w, end_while_paused_client);
    CHECK_EQ(w.reason, CLOSE_PEER);
}

static void key_update_client(struct world *w) {
    struct session s = session_open(w, TLS1_3_VERSION, 0);
    for (int i = 0; i < 5; i++) {
        say_hello(&s);
        CHECK_EQ(SSL_key_update(s.ssl, SSL_KEY_UPDATE_REQUESTED), 1);
    }
    say_hello(&s);
    session_free(&s);

    s = session_open(w, TLS1_2_VERSION, 0);
    say_hello(&s);
    SSL_renegotiate(s.ssl);
    SSL_do_handshake(s.ssl);
    char byte;
    CHECK(SSL_read(s.ssl, &byte, 1) <= 0);
    ERR_clear_error();
    session_free(&s);
    CHECK(wait_for(&w->closed, 2));
}

static void keys_may_be_updated_but_not_renegotiated(void) {
    struct world w = {0};
    with_server(&w, key_update_client);
}

static void finish_client(struct world *w) {
    struct session s = session_open(w, TLS1_3_VERSION, 0);
    char text[6] = "";
    send_all(&s, "hello", 5);
    CHECK_EQ(receive_all(&s, text, 5), 5);
    CHECK(is_at_end(&s));
    session_free(&s);
    CHECK(wait_for(&w->closed, 1));
}

static void finishing_says_goodbye(void) {
    struct world w = {.is_finishing = true};
    with_server(&w, finish_client);
    CHECK_EQ(w.reason, CLOSE_DONE);
}

static void full_client(struct world *w) {
    struct session s = session_open(w, TLS1_3_VERSION, 0);
    char text[5] = "";
    CHECK_EQ(receive_all(&s, text, 4), 4);
    CHECK(strcmp(text, "full") == 0);
    CHECK(is_at_end(&s));
    session_free(&s);
    CHECK(wait_for(&w->closed, 1));
}

static void an_early_goodbye_waits_for_the_handshake(void) {
    struct world w = {.is_refusing = true};
    with_server(&w, full_client);
    CHECK_EQ(w.reason, CLOSE_LIMIT);
}

static void rubbish_client(struct world *w) {
    static const char request[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for (int i = 0; i < 3; i++) {
        int fd = dial_port(w->port, 0);
        uint8_t rubbish[100000];
        for (size_t k = 0; k < sizeof rubbish; k++)
            rubbish[k] = (uint8_t)(k * 73 + (size_t)i);
        if (i == 0)
            CHECK(send(fd, request, sizeof request - 1, MSG_NOSIGNAL) > 0);
        else
            CHECK(send(fd, rubbish, sizeof rubbish, MSG_NOSIGNAL) > 0);
        char p[256];
        ssize_t n;
        while ((n = recv(fd, p, sizeof p, 0)) > 0)
            continue;
        CHECK_EQ(n, 0); /* an orderly end, no reset */
        close(fd);
    }
    CHECK(wait_for(&w->closed, 3));
}

static void rubbish_is_closed_cleanly(void) {
    struct world w = {0};
    with_server(&w, rubbish_client);
    CHECK_EQ(w.reason, CLOSE_ERROR);
    CHECK_EQ(w.readable, 0);
}

/* A good session, then bytes that are no record of it. */
static void broken_record_client(struct world *w) {
    struct session s = session_open(w, TLS1_3_VERSION, 0);
    say_hello(&s);
    char bad[64] = "\x17\x03\x03\x00\x20";
    CHECK(send(s.fd, bad, 5 + 32, MSG_NOSIGNAL) > 0);
    char byte;
    CHECK(SSL_read(s.ssl, &byte, 1) <= 0);
    ERR_clear_error();
    session_free(&s);
    CHECK(wait_for(&w->closed, 1));
}

static void a_broken_record_closes(void) {
    struct world w = {0};
    with_server(&w, broken_record_client);
    CHECK_EQ(w.reason, CLOSE_ERROR);
    CHECK_EQ(w.readable, 1);
}

static void silent_client(struct world *w) {
    int fd = dial_port(w->port, 0);
    CHECK_EQ(send(fd, "\x16\x03\x01", 3, MSG_NOSIGNAL), 3);
    char byte;
    CHECK_EQ(recv(fd, &byte, 1, 0), 0);
    close(fd);
    CHECK_EQ(w->expired, 1);
}

static void the_deadline_bounds_the_handshake(void) {
    struct world w = {.deadline_ms = 1};
    with_server(&w, silent_client);
    CHECK_EQ(w.reason, CLOSE_TIMEOUT);
}

static void bad_files_get_a_message(void) {
    char error[200] = "";
    CHECK(tls_context_new("/nonexistent.pem", key_file, error, sizeof error) == NULL);
    CHECK(strstr(error, "cannot use certificate /nonexistent.pem: ") != NULL);
    CHECK(tls_context_new(cert_file, "/nonexistent.pem", error, sizeof error) == NULL);
    CHECK(strstr(error, "cannot use key /nonexistent.pem: ") != NULL);

    char other_file[] = "/tmp/test-tls-other-XXXXXX";
    close(mkstemp(other_file));
    EVP_PKEY_free(make_key(other_file));
    CHECK(tls_context_new(cert_file, other_file, error, sizeof error) == NULL);
    CHECK(strstr(error, "mismatch") != NULL);

    /* A key with a passphrase must fail, not ask on the terminal. */
    EVP_PKEY *key = EVP_EC_gen("P-256");
    FILE *f = fopen(other_file, "w");
    PEM_write_PKCS8PrivateKey(f, key, EVP_aes_128_cbc(), "secret", 6, NULL, NULL);
    fclose(f);
    EVP_PKEY_free(key);
    CHECK(tls_context_new(cert_file, other_file, error, sizeof error) == NULL);
    unlink(other_file);
}

int main(void) {
    make_files();
    RUN(bad_files_get_a_message);
    RUN(echoes);
    RUN(old_versions_are_refused);
    RUN(much_goes_both_ways);
    RUN(a_slow_reader_holds_a_bounded_amount);
    RUN(records_may_come_in_pieces);
    RUN(pauses_and_resumes);
    RUN(unread_input_has_a_maximum);
    RUN(notices_the_end_while_paused);
    RUN(keys_may_be_updated_but_not_renegotiated);
    RUN(finishing_says_goodbye);
    RUN(an_early_goodbye_waits_for_the_handshake);
    RUN(rubbish_is_closed_cleanly);
    RUN(a_broken_record_closes);
    RUN(the_deadline_bounds_the_handshake);
    unlink(cert_file);
    unlink(key_file);
    return check_done();
}
