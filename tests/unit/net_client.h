/* For clients in the tests of net/: a socket to a server of this process, and waiting for what that does. */
#pragma once

#include "check.h"

#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum { PATIENCE_MS = 10000 };

/* Connects to the port; in_buffer_bytes 0: the kernel's. The caller closes it. */
static inline int dial_port(int port, int in_buffer_bytes) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    struct timeval patience = {.tv_sec = PATIENCE_MS / 1000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (in_buffer_bytes > 0)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &in_buffer_bytes, sizeof in_buffer_bytes);
    CHECK_EQ(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static inline void nap(void) {
    poll(NULL, 0, 1);
}

static inline bool wait_for(atomic_int *n, int value) {
    for (int i = 0; i < PATIENCE_MS && *n < value; i++)
        nap();
    return *n >= value;
}
