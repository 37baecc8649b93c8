/* null_peer: answers every HTTP request at once with the same 201 and does nothing else: no parsing, no disk. What it costs is what
 * sockets and the load generator cost on this machine, the floor under every other figure. Driven by `nixie bench -m latency` or
 * `-m enqueue`; a request must come whole in one read, as those small ones do over loopback. Prints "listening http ADDR:PORT"; runs
 * until it is ended. */
#include "cli/load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS_AT_ONCE 256
#define BODY_BYTES 480 /* about a message object with a payload of 256 bytes */

static char reply[1024];
static size_t reply_bytes;

static void make_reply(void) {
    char body[BODY_BYTES + 1] = "";
    load_fill(body, BODY_BYTES);
    int n = snprintf(reply, sizeof reply,
                     "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\n"
                     "Content-Length: %d\r\n\r\n%s",
                     BODY_BYTES, body);
    reply_bytes = (size_t)n;
}

static int listen_anywhere(void) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, n) != 0 || listen(fd, SOMAXCONN) != 0 ||
        getsockname(fd, (struct sockaddr *)&a, &n) != 0)
        return -1;
    printf("listening http 127.0.0.1:%u\n", (unsigned)ntohs(a.sin_port));
    fflush(stdout);
    return fd;
}

static void take_connection(int epoll_fd, int listener) {
    const int on = 1;
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct epoll_event e = {.events = EPOLLIN | EPOLLET, .data = {.fd = fd}};
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e) != 0)
        close(fd);
}

int main(void) {
    static char request[65536];
    make_reply();
    int listener = listen_anywhere();
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event e = {.events = EPOLLIN, .data = {.fd = listener}};
    if (listener < 0 || epoll_fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener, &e) != 0) {
        fprintf(stderr, "null_peer: %s\n", strerror(errno));
        return 1;
    }
    for (;;) {
        struct epoll_event events[EVENTS_AT_ONCE];
        int n = epoll_wait(epoll_fd, events, EVENTS_AT_ONCE, -1);
        for (int i = 0; i < n; i++) {
            int fd = events[i].data.fd;
            if (fd == listener) {
                take_connection(epoll_fd, fd);
                continue;
            }
            if (recv(fd, request, sizeof request, 0) <= 0 ||
                send(fd, reply, reply_bytes, MSG_NOSIGNAL) != (ssize_t)reply_bytes)
                close(fd);
        }
    }
}
