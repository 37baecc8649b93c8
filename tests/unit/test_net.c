/* Connections over real sockets: the loop runs on the main thread, a blocking client on another. What a server callback saw is read by the
 * client only through atomics, or by the main thread after the client is joined. */
#include "check.h"

#include "base/logging.h"
#include "base/mem.h"
#include "net/conn.h"
#include "net/loop.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PATIENCE_MS = 10000 };

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

static void note_most(atomic_size_t *most, size_t n) {
    if (n > *most)
        *most = n;
}

static struct world *world_of(struct conn *c) {
    return conn_user(c);
}

static bool on_opened(struct conn *c, void *ctx) {
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

static void on_readable(struct conn *c) {
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

static void on_ended(struct conn *c) {
    struct world *w = world_of(c);
    w->ended++;
    if (w->close_in == IN_ENDED)
        conn_close(c, CLOSE_PEER);
    else if (w->is_waiting_for_all)
        return; /* half-open, until the client's command */
    else
        conn_close_after_flush(c, CLOSE_PEER);
}

static void on_drained(struct conn *c) {
    struct world *w = world_of(c);
    w->drained++;
    CHECK_EQ(conn_out_pending(c), 0);
    if (w->close_in == IN_DRAINED)
        conn_close(c, CLOSE_DONE);
}

static void on_expired(struct conn *c) {
    struct world *w = world_of(c);
    w->expired++;
    if (w->close_in == IN_EXPIRED)
        conn_close(c, CLOSE_TIMEOUT);
    else
        conn_close_after_flush(c, CLOSE_TIMEOUT);
}

static void on_closed(struct conn *c, enum close_reason reason) {
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

static void on_turn(void *ctx) {
    struct world *w = ctx;
    w->turns++;
}

static void on_turn(void *ctx) {
    struct world *w = ctx;
    w->turns++;
}

static void on_wake(void *ctx) {
    struct client *client = ctx;
    if (client->w->is_command) {
        client->w->on_command(client->w);
        client->w->is_command = false;
    }
    if (client->is_done)
        loop_stop(client->w->loop);
}

static void *run_client(void *ctx) {
    struct client *client = ctx;
    client->f(client->w);
    client->is_done = true;
    loop_wake(client->w->loop);
    return NULL;
}

static int open_files(void) {
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (d != NULL && readdir(d) != NULL)
        n++;
    closedir(d);
    return n;
}

/* The next read says that the peer closed in an orderly way. */
static bool is_at_end(int fd) {
    char byte;
    return recv(fd, &byte, 1, 0) == 0;
}

/* Runs a server as w says, with `client` beside it, until that returns; then ends the server and checks that it left nothing. */
static void with_server(struct world *w, const char *host, size_t in_max,
                        void (*client)(struct world *w)) {
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

static int dial_with(const struct world *w, int in_buffer_bytes) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)w->port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    struct timeval patience = {.tv_sec = PATIENCE_MS / 1000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (in_buffer_bytes > 0)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &in_buffer_bytes, sizeof in_buffer_bytes);
    CHECK_EQ(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static int dial(const struct world *w) {
    return dial_with(w, 0);
}

static void send_all(int fd, const void *p, size_t n) {
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
static size_t receive_all(int fd, void *p, size_t n) {
    size_t got = 0;
    while (got < n) {
        ssize_t r = recv(fd, (uint8_t *)p + got, n - got, 0);
        if (r <= 0)
            break;
        got += (size_t)r;
    }
    return got;
}

static void reset_and_close(int fd) {
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(fd);
}

static void nap(void) {
    poll(NULL, 0, 1);
}

static bool wait_for(atomic_int *n, int value) {
    for (int i = 0; i < PATIENCE_MS && *n < value; i++)
        nap();
    return *n >= value;
}

static void command(struct world *w, void (*f)(struct world *w)) {
    w->on_command = f;
    w->is_command = true;
    loop_wake(w->loop);
    for (int i = 0; i < PATIENCE_MS && w->is_command; i++)
        nap();
    CHECK(!w->is_command);
}

static void resume(struct world *w) {
    if (w->conn != NULL)
        conn_resume(w->conn);
}

static void finish(struct world *w) {
    if (w->conn != NULL)
        conn_close_after_flush(w->conn, CLOSE_DONE);
}

/* -- cases ------------------------------------------------------------------------------------- */

static void echo_client(struct world *w) {
    int fd = dial(w);
    for (int i = 0; i < 100; i++) {
        char text[6] = "";
        send_all(fd, "hello", 5);
        CHECK_EQ(receive_all(fd, text, 5), 5);
        CHECK(strcmp(text, "hello") == 0);
    }
    shutdown(fd, SHUT_WR);
    CHECK(is_at_end(fd));
    close(fd);
    CHECK(wait_for(&w->closed, 1));
}

static void echoes(void) {
    struct world w = {0};
    with_server(&w, "127.0.0.1", 65536, echo_client);
    CHECK_EQ(w.ended, 1);
    CHECK_EQ(w.reason, CLOSE_PEER);
}

static void listens_everywhere(void) {
    struct world w = {0};
    with_server(&w, "*", 65536, echo_client);
    struct world v = {0};
    with_server(&v, "localhost", 65536, echo_client);
}

static void listening_fails_with_a_message(void) {
    struct loop *l = loop_new();
    char error[200] = "";
    struct listener_config config = {.host = "127.0.0.1", .port = "0", .protocol = &test_protocol};
    struct listener *first = listener_new(l, &config, error, sizeof error);
    CHECK(first != NULL);
    CHECK(strncmp(listener_address(first), "127.0.0.1:", 10) == 0);
    config.port = strrchr(listener_address(first), ':') + 1;
    CHECK(listener_new(l, &config, error, sizeof error) == NULL);
    CHECK(strstr(error, "in use") != NULL);
    config.host = "192.0.2.1";
    CHECK(listener_new(l, &config, error, sizeof error) == NULL);
    CHECK(strncmp(error, "cannot listen on 192.0.2.1", 26) == 0);
    listener_free(first);
    loop_free(l);
}

enum { BIG_REPLY = 1024 * 1024, BIG_REPLIES = 40 };

static void slow_reader_client(struct world *w) {
    int fd = dial_with(w, 8192);
    char asks[BIG_REPLIES] = {0};
    send_all(fd, asks, sizeof asks);
    for (int i = 0; i < PATIENCE_MS && w->out_most <= CONN_OUT_HIGH; i++)
        nap(); /* until nothing fits into the sockets any more */
    size_t bytes = (size_t)BIG_REPLY * BIG_REPLIES, got = 0;
    char *p = mem_alloc(256 * 1024);
    while (got < bytes) {
        size_t n = receive_all(fd, p, 256 * 1024);
        if (n == 0)
            break;
        got += n;
    }
    free(p);
    CHECK_EQ(got, bytes);
    close(fd);
    CHECK(wait_for(&w->closed, 1));
}

static void a_slow_reader_holds_a_bounded_amount(void) {
    struct world w = {.is_replying_big = true, .reply_bytes = BIG_REPLY};
    with_server(&w, "127.0.0.1", 65536, slow_reader_client);
    CHECK(w.out_most > CONN_OUT_HIGH); /* else it was not slow */
    CHECK(w.out_most <= CONN_OUT_HIGH + BIG_REPLY);
    CHECK(w.drained > 0);
    CHECK_EQ(w.input_bytes >= BIG_REPLIES, 1);
}

static void pause_client(struct world *w) {
    int fd = dial(w);
    char text[12] = "";
    send_all(fd, "first", 5);
    CHECK(wait_for(&w->readable, 1));
    send_all(fd, "second", 6);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    CHECK_EQ(poll(&p, 1, 50), 0); /* nothing is said while paused */
    CHECK_EQ(w->readable, 1);
    command(w, resume);
    CHECK_EQ(receive_all(fd, text, 11), 11);
    CHECK(strcmp(text, "firstsecond") == 0);
    close(fd);
    CHECK(wait_for(&w->closed, 1));
}

static void pauses_and_resumes(void) {
    struct world w = {.is_pausing_first = true};
    with_server(&w, "127.0.0.1", 65536, pause_client);
}

static void flood_while_paused_client(struct world *w) {
    int fd = dial(w);
    enum { BYTES = 1024 * 1024 };
    uint8_t *out = mem_alloc(BYTES), *in = mem_alloc(BYTES);
    for (size_t i = 0; i < BYTES; i++)
        out[i] = (uint8_t)(i * 31 >> 3);
    send_all(fd, out, 1);
    CHECK(wait_for(&w->readable, 1));
    send_all(fd, out + 1, BYTES / 8 - 1); /* more than is read ahead, less than the sockets hold */
    nap();
    command(w, resume);
    size_t half = BYTES / 8;
    CHECK_EQ(receive_all(fd, in, half), half);
    for (size_t at = half; at < BYTES; at += half) {
        send_all(fd, out + at, half);
        CHECK_EQ(receive_all(fd, in + at, half), half);
    }
    CHECK(memcmp(in, out, BYTES) == 0);
    free(in);
    free(out);
    close(fd);
    CHECK(wait_for(&w->closed, 1));
}

static void reads_little_ahead_while_paused(void) {
    struct world w = {.is_pausing_first = true};
    with_server(&w, "127.0.0.1", 65536, flood_while_paused_client);
    CHECK(w.in_most <= 65536);
    CHECK(w.in_second > 1);
    CHECK(w.in_second <= 32768);
}

static void end_while_paused_client(struct world *w) {
    int fd = dial(w);
    send_all(fd, "wait for me", 11);
    CHECK(wait_for(&w->readable, 1));
    CHECK_EQ(w->ended, 0);
    close(fd);
    CHECK(wait_for(&w->ended, 1));
    CHECK(wait_for(&w->closed, 1));
}

static void notices_the_end_while_paused(void) {
    struct world w = {.is_pausing_first = true};
    with_server(&w, "127.0.0.1", 65536, end_while_paused_client);
    CHECK_EQ(w.readable, 1);
}

static void resume_and_close(struct world *w) {
    conn_resume(w->conn);
    conn_close(w->conn, CLOSE_LIMIT);
}

static void resume_and_close_client(struct world *w) {
    int fd = dial(w);
    send_all(fd, "wait for me", 11);
    CHECK(wait_for(&w->readable, 1));
    command(w, resume_and_close);
    CHECK(is_at_end(fd));
    close(fd);
}

static void closing_forgets_a_resume(void) {
    struct world w = {.is_pausing_first = true};
    with_server(&w, "127.0.0.1", 65536, resume_and_close_client);
    CHECK_EQ(w.readable, 1);
    CHECK_EQ(w.reason, CLOSE_LIMIT);
}

static void reset_while_paused_client(struct world *w) {
    int fd = dial(w);
    send_all(fd, "wait for me", 11);
    CHECK(wait_for(&w->readable, 1));
    reset_and_close(fd);
    CHECK(wait_for(&w->closed, 1));
}

static void notices_a_reset_while_paused(void) {
    struct world w = {.is_pausing_first = true};
    with_server(&w, "127.0.0.1", 65536, reset_while_paused_client);
    CHECK_EQ(w.ended, 0);
    CHECK_EQ(w.reason, CLOSE_PEER);
}

static void half_open_client(struct world *w) {
    int fd = dial(w);
    char text[6] = "";
    send_all(fd, "he", 2);
    send_all(fd, "llo", 3);
    shutdown(fd, SHUT_WR);
    CHECK_EQ(receive_all(fd, text, 5), 5);
    CHECK(strcmp(text, "hello") == 0);
    CHECK(wait_for(&w->ended, 1));
    command(w, finish);
    CHECK(is_at_end(fd));
    close(fd);
}

static void a_half_open_peer_gets_its_reply(void) {
    struct world w = {.is_waiting_for_all = true, .wanted = 5};
    with_server(&w, "127.0.0.1", 65536, half_open_client);
    CHECK_EQ(w.ended, 1);
}

static void in_max_client(struct world *w) {
    int fd = dial(w);
    enum { BYTES = 3000 };
    uint8_t out[BYTES], in[BYTES];
    for (size_t i = 0; i < BYTES; i++)
        out[i] = (uint8_t)i;
    for (size_t i = 0; i < BYTES; i += 500)
        send_all(fd, out + i, 500);
    CHECK_EQ(receive_all(fd, in, BYTES), BYTES);
    CHECK(memcmp(in, out, BYTES) == 0);
    close(fd);
    CHECK(wait_for(&w->closed, 1));
}

static void unread_input_has_a_maximum(void) {
    struct world w = {.is_waiting_for_all = true, .wanted = 1000, .close_in = IN_ENDED};
    with_server(&w, "127.0.0.1", 1000, in_max_client);
    CHECK_EQ(w.in_most, 1000);
}

static void big_request_client(struct world *w) {
    int fd = dial(w);
    size_t n = w->wanted;
    uint8_t *out = mem_alloc(n), *in = mem_alloc(n);
    for (size_t i = 0; i < n; i++)
        out[i] = (uint8_t)(i * 17 >> 5);
    send_all(fd, out, n);
    CHECK_EQ(receive_all(fd, in, n), n);
    CHECK(memcmp(in, out, n) == 0);
    free(in);
    free(out);
    close(fd);
    CHECK(wait_for(&w->closed, 1));
}

static void gathers_a_big_request(void) {
    struct world w = {.is_waiting_for_all = true, .wanted = 5000000, .close_in = IN_ENDED};
    with_server(&w, "127.0.0.1", 5000000, big_request_client);
    CHECK_EQ(w.in_most, 5000000);
}

static void talk_until_closed_client(struct world *w) {
    int fd = dial_with(w, 8192);
    send(fd, "hello", 5, MSG_NOSIGNAL);
    if (w->close_in == IN_ENDED)
        shutdown(fd, SHUT_WR);
    char p[4096];
    while (recv(fd, p, sizeof p, 0) > 0)
        continue;
    CHECK(errno != EAGAIN);
    close(fd);
    CHECK(wait_for(&w->closed, 1));
}

static void may_close_in_every_callback(void) {
    static const struct {
        enum place place;
        enum close_reason reason;
    } cases[] = {
        {IN_OPENED, CLOSE_LIMIT},    {IN_READABLE, CLOSE_PROTOCOL}, {IN_ENDED, CLOSE_PEER},
        {IN_EXPIRED, CLOSE_TIMEOUT}, {IN_DRAINED, CLOSE_DONE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        errno = 0;
        struct world w = {.close_in = cases[i].place, .deadline_ms = cases[i].place == IN_EXPIRED};
        w.is_replying_big = cases[i].place == IN_DRAINED;
        w.reply_bytes = 8 * BIG_REPLY;
        with_server(&w, "127.0.0.1", 65536, talk_until_closed_client);
        CHECK_EQ(w.reason, cases[i].reason);
        CHECK_EQ(w.closed, 1);
    }
}

static void refused_client(struct world *w) {
    int fd = dial(w);
    CHECK(is_at_end(fd));
    close(fd);
    CHECK_EQ(w->opened, 1);
}

static void refuses(void) {
    struct world w = {.is_refusing = true};
    with_server(&w, "127.0.0.1", 65536, refused_client);
    CHECK_EQ(w.closed, 0);
}

static void deadline_client(struct world *w) {
    int fd = dial(w);
    CHECK(is_at_end(fd));
    CHECK_EQ(w->expired, 1);
    close(fd);
    CHECK(wait_for(&w->closed, 1));
}

static void the_deadline_passes(void) {
    struct world w = {.deadline_ms = 1};
    with_server(&w, "127.0.0.1", 65536, deadline_client);
    CHECK_EQ(w.reason, CLOSE_TIMEOUT);
}

/* Sends much more than is read, so that closing at once would reset the connection and lose the reply. */
static void error_reply_client(struct world *w) {
    int fd = dial(w);
    enum { BYTES = 4 * 1024 * 1024 };
    char *p = mem_alloc(BYTES);
    send_all(fd, p, BYTES);
    free(p);
    char reply[5] = "";
    CHECK_EQ(receive_all(fd, reply, 5), 5);
    char rest[4096];
    ssize_t n;
    while ((n = recv(fd, rest, sizeof rest, 0)) > 0)
        continue;
    CHECK_EQ(n, 0);
    close(fd);
    CHECK(wait_for(&w->closed, 1));
}

static void the_peer_can_read_the_last_reply(void) {
    struct world w = {.is_finishing = true};
    with_server(&w, "127.0.0.1", 65536, error_reply_client);
    CHECK_EQ(w.readable, 1);
    CHECK_EQ(w.ended, 0);
    CHECK_EQ(w.reason, CLOSE_DONE);
}

static void finish_big_client(struct world *w) {
    int fd = dial_with(w, 8192);
    send_all(fd, "x", 1);
    CHECK(wait_for(&w->readable, 1));
    char *p = mem_alloc(w->reply_bytes);
    CHECK_EQ(receive_all(fd, p, w->reply_bytes), w->reply_bytes);
    free(p);
    CHECK(is_at_end(fd));
    close(fd);
    CHECK(wait_for(&w->closed, 1));
}

static void finishing_sends_everything_first(void) {
    struct world w = {.is_finishing = true, .is_replying_big = true, .reply_bytes = 16 * BIG_REPLY};
    with_server(&w, "127.0.0.1", 65536, finish_big_client);
    CHECK_EQ(w.drained, 0);
    CHECK_EQ(w.reason, CLOSE_DONE);
}

static void reset_under_output_client(struct world *w) {
    int fd = dial_with(w, 8192);
    send_all(fd, "x", 1);
    CHECK(wait_for(&w->readable, 1));
    reset_and_close(fd);
    CHECK(wait_for(&w->closed, 1));
}

static void a_reset_under_output_closes(void) {
    struct world w = {.is_replying_big = true, .reply_bytes = 16 * BIG_REPLY};
    with_server(&w, "127.0.0.1", 65536, reset_under_output_client);
    CHECK_EQ(w.reason, CLOSE_PEER);
}

static void many_client(struct world *w) {
    enum { MANY = 1000, AT_ONCE = 100 };
    int fds[AT_ONCE];
    for (int i = 0; i < MANY; i += AT_ONCE) {
        for (int k = 0; k < AT_ONCE; k++) {
            fds[k] = dial(w);
            send_all(fds[k], "x", 1);
        }
        for (int k = 0; k < AT_ONCE; k++) {
            char byte;
            CHECK_EQ(receive_all(fds[k], &byte, 1), 1);
            if (k % 3 == 0)
                reset_and_close(fds[k]);
            else
                close(fds[k]);
        }
    }
    CHECK(wait_for(&w->closed, MANY));
}

static void a_thousand_connections_leave_nothing(void) {
    struct world w = {0};
    with_server(&w, "127.0.0.1", 65536, many_client);
    CHECK_EQ(w.opened, 1000);
}

static void close_conn(struct conn *c, void *ctx) {
    (void)ctx;
    conn_close(c, CLOSE_SHUTDOWN);
}

static void close_each(struct world *w) {
    CHECK_EQ(listener_count(w->listener), 10);
    listener_stop(w->listener);
    listener_each(w->listener, close_conn, NULL);
    CHECK_EQ(listener_count(w->listener), 0);
}

static void close_each_client(struct world *w) {
    int fds[10];
    for (int i = 0; i < 10; i++)
        fds[i] = dial(w);
    CHECK(wait_for(&w->opened, 10));
    command(w, close_each);
    for (int i = 0; i < 10; i++) {
        CHECK(is_at_end(fds[i]));
        close(fds[i]);
    }
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)w->port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    CHECK_EQ(connect(fd, (struct sockaddr *)&to, sizeof to), -1);
    close(fd);
}

static void closes_each(void) {
    struct world w = {0};
    with_server(&w, "127.0.0.1", 65536, close_each_client);
}

static void open_client(struct world *w) {
    w->left_open = dial(w);
    CHECK(wait_for(&w->opened, 1));
}

static void freeing_a_listener_closes(void) {
    struct world w = {0};
    with_server(&w, "127.0.0.1", 65536, open_client);
    CHECK_EQ(w.reason, CLOSE_SHUTDOWN);
    CHECK_EQ(w.ended, 0);
}

static void out_of_files_client(struct world *w) {
    /* Descriptors of this process are those of the server too: take all but the one for dialing. */
    int fds[4096], n = 0;
    while (n < 4096 && (fds[n] = dup(0)) >= 0)
        n++;
    close(fds[--n]);
    int fd = dial(w);
    send_all(fd, "hello", 5);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int turns = w->turns;
    CHECK_EQ(poll(&p, 1, 100), 0);
    CHECK_EQ(w->opened, 0);
    CHECK(w->turns - turns < 10); /* it waits instead of trying without end */
    while (n > 0)
        close(fds[--n]);
    char text[5];
    CHECK_EQ(receive_all(fd, text, 5), 5);
    close(fd);
    CHECK(wait_for(&w->closed, 1));
}

static void running_out_of_files_is_a_pause(void) {
    struct rlimit before, few;
    getrlimit(RLIMIT_NOFILE, &before);
    few = before;
    few.rlim_cur = 256;
    setrlimit(RLIMIT_NOFILE, &few);
    log_level_set(LOG_LEVEL_ERROR); /* the warning is expected */
    struct world w = {0};
    with_server(&w, "127.0.0.1", 65536, out_of_files_client);
    setrlimit(RLIMIT_NOFILE, &before);
    log_level_set(LOG_LEVEL_INFO);
}

int main(void) {
    loop_free(loop_new()); /* libuv opens a few descriptors once a process: they do not count */
    RUN(echoes);
    RUN(listens_everywhere);
    RUN(listening_fails_with_a_message);
    RUN(a_slow_reader_holds_a_bounded_amount);
    RUN(pauses_and_resumes);
    RUN(reads_little_ahead_while_paused);
    RUN(notices_the_end_while_paused);
    RUN(closing_forgets_a_resume);
    RUN(notices_a_reset_while_paused);
    RUN(a_half_open_peer_gets_its_reply);
    RUN(unread_input_has_a_maximum);
    RUN(gathers_a_big_request);
    RUN(may_close_in_every_callback);
    RUN(refuses);
    RUN(the_deadline_passes);
    RUN(the_peer_can_read_the_last_reply);
    RUN(finishing_sends_everything_first);
    RUN(a_reset_under_output_closes);
    RUN(a_thousand_connections_leave_nothing);
    RUN(closes_each);
    RUN(freeing_a_listener_closes);
    RUN(running_out_of_files_is_a_pause);
    return check_done();
}
