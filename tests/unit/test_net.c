/* Listening, input and output of connections, and their limits. */
#include "net_world.h"

#include "base/mem.h"

#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

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

enum { BIG_REPLIES = 40 };

static void slow_reader_client(struct world *w) {
    int fd = dial_with(w, SMALL_BUFFER);
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

int main(void) {
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
    return check_done();
}
