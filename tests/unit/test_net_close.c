/* How connections end, and that nothing is left of them. */
#include "net_world.h"

#include "base/logging.h"
#include "base/mem.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static void talk_until_closed_client(struct world *w) {
    int fd = dial_with(w, SMALL_BUFFER);
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
    int fd = dial_with(w, SMALL_BUFFER);
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
    int fd = dial_with(w, SMALL_BUFFER);
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
