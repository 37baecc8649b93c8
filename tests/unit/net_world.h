/* For the tests of net/: a server whose protocol does what the case says and notes what it saw. Connections are real sockets: the loop runs
 * on the main thread, a blocking client on another. What a server callback saw is read by the client only through atomics, or by the main
 * thread after the client is joined. */
#pragma once

#include "check.h"
#include "net_client.h"

#include "net/conn.h"
#include "net/loop.h"

#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A receive buffer much below the loopback's 64 KiB segments makes the kernel drop and wait: seconds, on a busy machine. */
enum { BIG_REPLY = 1024 * 1024, SMALL_BUFFER = 128 * 1024 };

/* -- the world of one case --------------------------------------------------------------------- */

enum place { NOWHERE, IN_OPENED, IN_READABLE, IN_ENDED, IN_EXPIRED, IN_DRAINED };

struct world {
    struct loop *loop;
    struct listener *listener;
    int port;
    int left_open; /* a client's socket to be closed after the server's end */

    /* what the protocol does */
    enum place close_in;
    bool is_refusing;
    bool is_pausing_first;   /* on the first input, until the client says resume */
    bool is_waiting_for_all; /* consumes only when `wanted` bytes are there */
    bool is_replying_big;
    bool is_finishing; /* conn_close_after_flush after the first reply */
    size_t wanted;
    int64_t deadline_ms;
    size_t reply_bytes;

    /* what it saw */
    atomic_int opened, readable, ended, drained, expired, closed;
    atomic_int reason;
    atomic_size_t in_most, in_second, out_most, input_bytes;
    atomic_int turns;
    atomic_bool is_command; /* the client's: run on_command on the loop thread */
    void (*on_command)(struct world *w);
    struct conn *conn; /* the newest open one; loop thread */
};

static inline void note_most(atomic_size_t *most, size_t n) {
    if (n > *most)
        *most = n;
}

static inline struct world *world_of(struct conn *c) {
    return conn_user(c);
}

static inline bool on_opened(struct conn *c, void *ctx) {
    struct world *w = ctx;
    w->opened++;
    if (w->is_refusing)
        return false;
    conn_set_user(c, w);
    conn_set_deadline(c, w->deadline_ms);
    w->conn = c;
    if (w->close_in == IN_OPENED)
        conn_close(c, CLOSE_LIMIT);
    return true;
}

static inline void on_readable(struct conn *c) {
    struct world *w = world_of(c);
    w->readable++;
    struct span in = conn_in(c);
    note_most(&w->in_most, in.n);
    if (w->readable == 2)
        w->in_second = in.n;
    if (w->close_in == IN_READABLE) {
        conn_close(c, CLOSE_PROTOCOL);
        return;
    }
    if (w->is_pausing_first) {
        w->is_pausing_first = false;
        conn_pause(c);
        return;
    }
    if (w->is_waiting_for_all && in.n < w->wanted)
        return;

    w->input_bytes += in.n;
    if (w->is_replying_big) {
        /* One byte asks for one big reply. */
        memset(buf_reserve(conn_out(c), w->reply_bytes), 'x', w->reply_bytes);
        conn_out(c)->n += w->reply_bytes;
        conn_consume(c, 1);
        conn_flush(c);
        if (conn_in(c).n > 0)
            conn_resume(c); /* the next one soon */
    } else {
        buf_add_span(conn_out(c), in);
        conn_consume(c, in.n);
        conn_flush(c);
    }
    note_most(&w->out_most, conn_out_pending(c));
    if (w->is_finishing)
        conn_close_after_flush(c, CLOSE_DONE);
}

static inline void on_ended(struct conn *c) {
    struct world *w = world_of(c);
    w->ended++;
    if (w->close_in == IN_ENDED)
        conn_close(c, CLOSE_PEER);
    else if (w->is_waiting_for_all)
        return; /* half-open, until the client's command */
    else
        conn_close_after_flush(c, CLOSE_PEER);
}

static inline void on_drained(struct conn *c) {
    struct world *w = world_of(c);
    w->drained++;
    CHECK_EQ(conn_out_pending(c), 0);
    if (w->close_in == IN_DRAINED)
        conn_close(c, CLOSE_DONE);
}

static inline void on_expired(struct conn *c) {
    struct world *w = world_of(c);
    w->expired++;
    if (w->close_in == IN_EXPIRED)
        conn_close(c, CLOSE_TIMEOUT);
    else
        conn_close_after_flush(c, CLOSE_TIMEOUT);
}

static inline void on_closed(struct conn *c, enum close_reason reason) {
    struct world *w = world_of(c);
    if (w->conn == c)
        w->conn = NULL;
    w->reason = (int)reason;
    w->closed++;
}

static const struct protocol test_protocol = {
    .name = "test",
    .opened = on_opened,
    .readable = on_readable,
    .ended = on_ended,
    .drained = on_drained,
    .expired = on_expired,
    .closed = on_closed,
};

struct client {
    struct world *w;
    void (*f)(struct world *w);
    atomic_bool is_done;
};

static inline void on_turn(void *ctx) {
    struct world *w = ctx;
    w->turns++;
}

static inline void on_wake(void *ctx) {
    struct client *client = ctx;
    if (client->w->is_command) {
        client->w->on_command(client->w);
        client->w->is_command = false;
    }
    if (client->is_done)
        loop_stop(client->w->loop);
}

static inline void *run_client(void *ctx) {
    struct client *client = ctx;
    client->f(client->w);
    client->is_done = true;
    loop_wake(client->w->loop);
    return NULL;
}

static inline int open_files(void) {
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    if (d == NULL)
        return 0;
    while (readdir(d) != NULL)
        n++;
    closedir(d);
    return n;
}

/* The next read says that the peer closed in an orderly way. */
static inline bool is_at_end(int fd) {
    char byte;
    return recv(fd, &byte, 1, 0) == 0;
}

/* Runs a server as w says, with `client` beside it, until that returns; then ends the server and checks that it left nothing. */
static inline void with_server(struct world *w, const char *host, size_t in_max,
                               void (*client)(struct world *w)) {
    loop_free(loop_new()); /* libuv opens a few descriptors once a process: they do not count */
    int files_before = open_files();
    char error[200] = "";
    w->loop = loop_new();
    struct listener_config config = {
        .host = host,
        .port = "0",
        .protocol = &test_protocol,
        .ctx = w,
        .in_bytes_max = in_max,
    };
    w->listener = listener_new(w->loop, &config, error, sizeof error);
    CHECK(w->listener != NULL);
    if (w->listener == NULL) {
        printf("# %s\n", error);
        loop_free(w->loop);
        return;
    }
    w->port = (int)strtol(strrchr(listener_address(w->listener), ':') + 1, NULL, 10);

    struct client state = {.w = w, .f = client};
    loop_on_wake(w->loop, on_wake, &state);
    loop_on_turn(w->loop, on_turn, w);
    pthread_t thread;
    pthread_create(&thread, NULL, run_client, &state);
    loop_run(w->loop);
    pthread_join(thread, NULL);

    listener_free(w->listener);
    loop_free(w->loop);
    if (w->left_open > 0) {
        CHECK(is_at_end(w->left_open));
        close(w->left_open);
    }
    CHECK_EQ(open_files(), files_before);
    if (!w->is_refusing)
        CHECK_EQ(w->opened, w->closed);
}

/* -- client things ----------------------------------------------------------------------------- */

static inline int dial_with(const struct world *w, int in_buffer_bytes) {
    int fd = dial_port(w->port, in_buffer_bytes), on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

static inline int dial(const struct world *w) {
    return dial_with(w, 0);
}

static inline void send_all(int fd, const void *p, size_t n) {
    const uint8_t *bytes = p;
    while (n > 0) {
        ssize_t sent = send(fd, bytes, n, MSG_NOSIGNAL);
        CHECK(sent > 0);
        if (sent <= 0)
            return;
        bytes += sent;
        n -= (size_t)sent;
    }
}

/* Reads exactly n bytes, or fewer when the peer ends: says how many. */
static inline size_t receive_all(int fd, void *p, size_t n) {
    size_t got = 0;
    while (got < n) {
        ssize_t r = recv(fd, (uint8_t *)p + got, n - got, 0);
        if (r <= 0)
            break;
        got += (size_t)r;
    }
    return got;
}

static inline void reset_and_close(int fd) {
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(fd);
}

static inline void command(struct world *w, void (*f)(struct world *w)) {
    w->on_command = f;
    w->is_command = true;
    loop_wake(w->loop);
    for (int i = 0; i < PATIENCE_MS && w->is_command; i++)
        nap();
    CHECK(!w->is_command);
}

static inline void resume(struct world *w) {
    if (w->conn != NULL)
        conn_resume(w->conn);
}

static inline void finish(struct world *w) {
    if (w->conn != NULL)
        conn_close_after_flush(w->conn, CLOSE_DONE);
}
