/* Listening sockets. They are polled and accepted here rather than by libuv, so that running out of
 * descriptors is a pause: the connections wait in the kernel's queue, where libuv would drop them.
 */
#include "base/logging.h"
#include "base/mem.h"
#include "net/conn.h"
#include "net/conn_internal.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    BACKLOG = 4096,
    ACCEPT_BATCH = 128, /* in one turn, so that a storm of connections does not starve the others */
    SWEEP_MS = 1000,
    WARN_EVERY_MS = 60000,
    ADDRESS_SIZE = 56, /* "[", the longest IPv6 address, "]:65535" and the NUL */
};

struct listener {
    struct loop *loop;
    struct listener_config config; /* its host and port are not kept */
    char address[ADDRESS_SIZE];
    int fd;
    uv_poll_t poll;
    uv_timer_t sweep;
    unsigned refs; /* the owner, the open handles, and each connection until it is freed */
    unsigned open_count;
    struct conn *conns; /* also those that are closing, see C2 */
    bool stopped;
    bool pausing; /* accepting, until the next sweep */
    int64_t warned_at;
};

static void unref(struct listener *l) {
    assert(l->refs > 0);
    if (--l->refs == 0)
        free(l);
}

static void on_handle_closed(uv_handle_t *handle) {
    unref(handle->data);
}

/* -- its connections ------------------------------------------------------------------------- */

void listener_add(struct listener *l, struct conn *c) {
    c->next = l->conns;
    if (c->next != NULL)
        c->next->link = &c->next;
    c->link = &l->conns;
    l->conns = c;
    l->open_count++;
    l->refs++;
}

void listener_on_closing(struct listener *l) {
    l->open_count--;
}

void listener_remove(struct listener *l, struct conn *c) {
    *c->link = c->next;
    if (c->next != NULL)
        c->next->link = c->link;
    unref(l);
}

void listener_each(struct listener *l, void (*f)(struct conn *c, void *ctx), void *ctx) {
    for (struct conn *c = l->conns; c != NULL; c = c->next) {
        if (!c->closing)
            f(c, ctx);
    }
}

unsigned listener_count(const struct listener *l) {
    return l->open_count;
}

const struct listener_config *listener_config_of(const struct listener *l) {
    return &l->config;
}

struct loop *listener_loop(const struct listener *l) {
    return l->loop;
}

/* -- accepting ------------------------------------------------------------------------------- */

union address {
    struct sockaddr_storage storage;
    struct sockaddr any;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
};

static void format_address(const union address *a, char out[static ADDRESS_SIZE]) {
    char host[INET6_ADDRSTRLEN] = "?";
    if (a->any.sa_family != AF_INET6) {
        inet_ntop(AF_INET, &a->in.sin_addr, host, sizeof host);
        snprintf(out, ADDRESS_SIZE, "%s:%u", host, (unsigned)ntohs(a->in.sin_port));
    } else if (IN6_IS_ADDR_V4MAPPED(&a->in6.sin6_addr)) {
        inet_ntop(AF_INET, &a->in6.sin6_addr.s6_addr[12], host, sizeof host);
        snprintf(out, ADDRESS_SIZE, "%s:%u", host, (unsigned)ntohs(a->in6.sin6_port));
    } else {
        inet_ntop(AF_INET6, &a->in6.sin6_addr, host, sizeof host);
        snprintf(out, ADDRESS_SIZE, "[%s]:%u", host, (unsigned)ntohs(a->in6.sin6_port));
    }
}

static void pause_accepting(struct listener *l, int error) {
    l->pausing = true;
    uv_poll_stop(&l->poll);
    int64_t now = loop_now(l->loop);
    if (l->warned_at == 0 || now - l->warned_at >= WARN_EVERY_MS) {
        l->warned_at = now;
        log_warn("cannot accept connections for now address=%s error=\"%s\"", l->address,
                 strerror(error));
    }
}

/* False when there is nothing more to accept now. */
static bool accept_one(struct listener *l) {
    union address from = {0};
    socklen_t from_bytes = sizeof from;
    int fd = accept4(l->fd, &from.any, &from_bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            return false;
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            pause_accepting(l, errno);
            return false;
        }
        return true; /* the trouble of one connection, or of its network; see accept(2) */
    }
    char peer[ADDRESS_SIZE];
    format_address(&from, peer);
    conn_accept(l, fd, peer);
    return true;
}

static void on_acceptable(uv_poll_t *handle, int status, int events) {
    (void)status;
    (void)events;
    struct listener *l = handle->data;
    int n = 0;
    while (n < ACCEPT_BATCH && !l->stopped && accept_one(l))
        n++;
}

static void on_sweep(uv_timer_t *handle) {
    struct listener *l = handle->data;
    int64_t now = loop_now(l->loop);
    for (struct conn *c = l->conns; c != NULL; c = c->next)
        conn_sweep(c, now);
    if (l->pausing && !l->stopped) {
        l->pausing = false;
        uv_poll_start(&l->poll, UV_READABLE, on_acceptable);
    }
}

/* -- life ------------------------------------------------------------------------------------ */

static bool is_everywhere(const char *host) {
    return host == NULL || host[0] == '\0' || strcmp(host, "*") == 0;
}

/* A listening socket, or -1 and errno. */
static int open_socket(const struct addrinfo *where, bool both_families) {
    int fd = socket(where->ai_family, where->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC,
                    where->ai_protocol);
    if (fd < 0)
        return -1;
    int on = 1, off = 0;
    bool ok = setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0;
    if (ok && where->ai_family == AF_INET6 && both_families)
        ok = setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) == 0;
    ok = ok && bind(fd, where->ai_addr, where->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0;
    if (ok)
        return fd;
    int saved_errno = errno;
    close(fd);
    errno = saved_errno;
    return -1;
}

/* Tries the addresses of one family, then the rest. */
static int open_first(const struct addrinfo *list, bool everywhere) {
    int family = everywhere ? AF_INET6 : AF_INET;
    for (int pass = 0; pass < 2; pass++) {
        for (const struct addrinfo *a = list; a != NULL; a = a->ai_next) {
            if ((a->ai_family == family) != (pass == 0))
                continue;
            int fd = open_socket(a, everywhere);
            if (fd >= 0)
                return fd;
        }
    }
    return -1;
}

static int listen_on(const struct listener_config *config, char *error, size_t error_bytes) {
    bool everywhere = is_everywhere(config->host);
    const char *host = everywhere ? "*" : config->host;
    struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *list = NULL;
    int failed = getaddrinfo(everywhere ? NULL : host, config->port, &hints, &list);
    if (failed != 0) {
        snprintf(error, error_bytes, "cannot find address %s port %s: %s", host, config->port,
                 gai_strerror(failed));
        return -1;
    }
    int fd = open_first(list, everywhere);
    if (fd < 0)
        snprintf(error, error_bytes, "cannot listen on %s port %s: %s", host, config->port,
                 strerror(errno));
    freeaddrinfo(list);
    return fd;
}

struct listener *listener_new(struct loop *loop, const struct listener_config *config, char *error,
                              size_t error_bytes) {
    int fd = listen_on(config, error, error_bytes);
    if (fd < 0)
        return NULL;

    struct listener *l = mem_alloc(sizeof *l);
    l->loop = loop;
    l->config = *config;
    l->config.host = l->config.port = NULL;
    l->fd = fd;
    union address bound = {0};
    socklen_t bound_bytes = sizeof bound;
    int failed = getsockname(fd, &bound.any, &bound_bytes);
    assert(failed == 0);
    format_address(&bound, l->address);

    failed = uv_poll_init_socket(&loop->uv, &l->poll, fd);
    assert(failed == 0); /* a socket can be polled */
    uv_timer_init(&loop->uv, &l->sweep);
    l->poll.data = l->sweep.data = l;
    l->refs = 3;
    uv_poll_start(&l->poll, UV_READABLE, on_acceptable);
    uv_timer_start(&l->sweep, on_sweep, SWEEP_MS, SWEEP_MS);
    return l;
}

const char *listener_address(const struct listener *l) {
    return l->address;
}

void listener_stop(struct listener *l) {
    if (l->stopped)
        return;
    l->stopped = true;
    uv_close((uv_handle_t *)&l->poll, on_handle_closed);
    close(l->fd);
}

static void shut_down(struct conn *c, void *ctx) {
    (void)ctx;
    conn_close(c, CLOSE_SHUTDOWN);
}

void listener_free(struct listener *l) {
    if (l == NULL)
        return;
    listener_stop(l);
    listener_each(l, shut_down, NULL);
    uv_close((uv_handle_t *)&l->sweep, on_handle_closed);
    unref(l);
}
