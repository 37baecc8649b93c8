#include "cli/load.h"

#include "base/mem.h"
#include "base/rng.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define FIRST_BUFFER_BYTES (16 * 1024)
#define EVENTS_AT_ONCE 256
#define PROGRESS_NS INT64_C(200000000)
#define NS_PER_MS INT64_C(1000000)

struct conn {
    int fd;
    unsigned step;
    bool is_waiting;    /* a request is out */
    struct span unsent; /* the rest of it that the socket did not take */
    int64_t sent_ns;
    uint8_t *in;
    size_t in_bytes, in_room;
};

struct run {
    const struct load_options *options;
    const struct load_script *script;
    struct load_result *result;
    struct conn *conns;
    unsigned conn_count; /* connected so far */
    unsigned waiting;    /* connections with a request out */
    uint64_t units_begun;
    int64_t start_ns, deadline_ns;
    int epoll_fd;
    bool is_broken;
};

/* -- time and histograms --------------------------------------------------------------------- */

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int64_t cpu_ns(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return ((int64_t)u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000000 +
           ((int64_t)u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000;
}

/* Values below 256 have a bucket each; above, the top eight bits choose it. */
static size_t bucket_of(uint64_t v) {
    if (v < 256)
        return (size_t)v;
    unsigned shift = 63U - (unsigned)__builtin_clzll(v) - 7U;
    size_t i = (size_t)shift * 128 + (size_t)(v >> shift);
    return i < LOAD_BUCKETS ? i : LOAD_BUCKETS - 1;
}

static int64_t bucket_middle(size_t i) {
    if (i < 256)
        return (int64_t)i;
    unsigned shift = (unsigned)(i / 128) - 1U;
    uint64_t low = (uint64_t)(i % 128 + 128) << shift;
    return (int64_t)(low + ((UINT64_C(1) << shift) >> 1));
}

void load_histogram_add(struct load_histogram *h, int64_t ns) {
    h->bucket[bucket_of(ns > 0 ? (uint64_t)ns : 0)]++;
    h->count++;
    if (ns > h->max_ns)
        h->max_ns = ns;
}

int64_t load_histogram_at(const struct load_histogram *h, double q) {
    if (h->count == 0)
        return 0;
    uint64_t rank = (uint64_t)(q * (double)h->count);
    if (rank >= h->count)
        return h->max_ns;
    uint64_t seen = 0;
    for (size_t i = 0; i < LOAD_BUCKETS; i++) {
        seen += h->bucket[i];
        if (seen > rank) {
            int64_t v = bucket_middle(i);
            return v < h->max_ns ? v : h->max_ns;
        }
    }
    return h->max_ns;
}

void load_fill(char *p, size_t n) {
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";
    struct rng rng;
    rng_seed(&rng, 1);
    for (size_t i = 0; i < n; i++)
        p[i] = digits[rng_below(&rng, 64)];
}

/* -- connecting ------------------------------------------------------------------------------ */

int load_dial(const char *host, const char *port, char *trouble, size_t trouble_bytes) {
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_family = AF_UNSPEC};
    struct addrinfo *list = NULL;
    int rc = getaddrinfo(host, port, &hints, &list);
    if (rc != 0) {
        snprintf(trouble, trouble_bytes, "%s: %s", host, gai_strerror(rc));
        return -1;
    }

    int fd = -1, failed = 0;
    for (const struct addrinfo *a = list; a != NULL && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) != 0) {
            failed = errno;
            close(fd);
            fd = -1;
        } else if (fd < 0) {
            failed = errno;
        }
    }
    freeaddrinfo(list);
    if (fd < 0) {
        snprintf(trouble, trouble_bytes, "cannot connect to %s:%s: %s", host, port,
                 strerror(failed));
        return -1;
    }
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    /* A congestion control that paces by timers (bbr) costs an eighth of our time on loopback. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
    return fd;
}

/* Edge-triggered for both directions and never changed again: no epoll_ctl() in the loop. */
static bool run_connect_all(struct run *r) {
    struct load_result *result = r->result;
    for (unsigned i = 0; i < r->options->connections; i++) {
        int fd =
            load_dial(r->options->host, r->options->port, result->trouble, sizeof result->trouble);
        if (fd < 0)
            return false;
        struct conn *c = &r->conns[r->conn_count++];
        c->fd = fd;
        c->in_room = FIRST_BUFFER_BYTES;
        c->in = mem_alloc(c->in_room);

        struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data = {.u32 = i}};
        if (fcntl(fd, F_SETFL, O_NONBLOCK) != 0 ||
            epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, fd, &e) != 0) {
            snprintf(result->trouble, sizeof result->trouble, "cannot watch a socket: %s",
                     strerror(errno));
            return false;
        }
    }
    return true;
}

/* -- one connection -------------------------------------------------------------------------- */

static void run_break(struct run *r, const char *what, int number) {
    if (!r->is_broken)
        snprintf(r->result->trouble, sizeof r->result->trouble, "%s%s%s", what,
                 number != 0 ? ": " : "", number != 0 ? strerror(number) : "");
    r->is_broken = true;
}

static void conn_flush(struct run *r, struct conn *c) {
    while (c->unsent.n > 0) {
        ssize_t n = send(c->fd, c->unsent.p, c->unsent.n, MSG_NOSIGNAL);
        if (n < 0) {
            if (errno == EINTR)
                continue;
            if (errno != EAGAIN)
                run_break(r, "the connection broke while sending", errno);
            return;
        }
        c->unsent.p += n;
        c->unsent.n -= (size_t)n;
    }
}

static bool run_may_begin(const struct run *r, int64_t now) {
    if (r->options->units > 0 && r->units_begun >= r->options->units)
        return false;
    return r->deadline_ns == 0 || now < r->deadline_ns;
}

static void conn_send_step(struct run *r, struct conn *c, int64_t now) {
    unsigned index = (unsigned)(c - r->conns);
    c->unsent = r->script->request(r->script->ctx, index, c->step);
    c->sent_ns = now;
    c->in_bytes = 0;
    if (!c->is_waiting) {
        c->is_waiting = true;
        r->waiting++;
    }
    conn_flush(r, c);
}

static void conn_begin_turn(struct run *r, struct conn *c, int64_t now) {
    c->step = 0;
    if (run_may_begin(r, now)) {
        r->units_begun += r->script->units_per_turn;
        conn_send_step(r, c, now);
    } else if (c->is_waiting) {
        c->is_waiting = false;
        r->waiting--;
    }
}

/* Gives the script what has come; true when the reply was whole and the connection has gone on. */
static bool conn_take_reply(struct run *r, struct conn *c) {
    const struct load_script *script = r->script;
    struct load_reply reply = {0};
    unsigned index = (unsigned)(c - r->conns);
    enum load_verdict verdict =
        script->reply(script->ctx, index, c->step, (struct span){c->in, c->in_bytes}, &reply);
    if (verdict == LOAD_MORE)
        return false;
    if (verdict == LOAD_BROKEN || c->unsent.n > 0) {
        run_break(r, "the server's reply is not what the protocol allows", 0);
        return false;
    }

    int64_t now = now_ns();
    load_histogram_add(&r->result->steps[c->step], now - c->sent_ns);
    r->result->requests++;
    r->result->units += reply.units;
    if (reply.is_failure)
        r->result->failures++;
    if (verdict == LOAD_STEP) {
        c->step++;
        assert(c->step < script->step_count);
        conn_send_step(r, c, now);
    } else {
        conn_begin_turn(r, c, now);
    }
    return true;
}

/* Edge-triggered: read until the socket is known to be empty. A short read says so without another
 * call. */
static void conn_read(struct run *r, struct conn *c) {
    for (;;) {
        size_t room = c->in_room - c->in_bytes;
        ssize_t n = recv(c->fd, c->in + c->in_bytes, room, 0);
        if (n < 0) {
            if (errno == EINTR)
                continue;
            if (errno != EAGAIN)
                run_break(r, "the connection broke while reading", errno);
            return;
        }
        if (n == 0) {
            run_break(r, "the server closed a connection", 0);
            return;
        }
        if (!c->is_waiting) {
            run_break(r, "the server sent something nobody asked for", 0);
            return;
        }
        c->in_bytes += (size_t)n;
        bool took = conn_take_reply(r, c);
        if (r->is_broken || (size_t)n < room)
            return;
        if (!took && c->in_bytes == c->in_room) {
            if (c->in_room >= LOAD_REPLY_MAX) {
                run_break(r, "a reply is too long", 0);
                return;
            }
            c->in_room *= 2;
            c->in = mem_grow(c->in, c->in_room);
        }
    }
}

/* -- the loop -------------------------------------------------------------------------------- */

static void run_loop(struct run *r) {
    struct epoll_event events[EVENTS_AT_ONCE];
    int64_t reported_ns = r->start_ns, heard_ns = r->start_ns;

    while (r->waiting > 0 && !r->is_broken) {
        int n = epoll_wait(r->epoll_fd, events, EVENTS_AT_ONCE, 200);
        if (n < 0 && errno != EINTR) {
            run_break(r, "epoll_wait", errno);
            return;
        }
        for (int i = 0; i < n && !r->is_broken; i++) {
            struct conn *c = &r->conns[events[i].data.u32];
            if ((events[i].events & EPOLLOUT) != 0 && c->unsent.n > 0)
                conn_flush(r, c);
            if ((events[i].events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0)
                conn_read(r, c);
        }

        int64_t now = now_ns();
        if (n > 0)
            heard_ns = now;
        else if (now - heard_ns > LOAD_STALL_MS * NS_PER_MS)
            run_break(r, "no reply for 30 seconds", 0);
        if (r->options->progress != NULL && now - reported_ns >= PROGRESS_NS) {
            reported_ns = now;
            r->options->progress(r->options->progress_ctx, r->result->units,
                                 (now - r->start_ns) / NS_PER_MS);
        }
    }
}

enum err load_run(const struct load_options *options, const struct load_script *script,
                  struct load_result *ret) {
    assert(options->connections >= 1 && options->connections <= LOAD_CONNECTIONS_MAX);
    assert(options->units > 0 || options->duration_ms > 0);
    assert(script->step_count >= 1 && script->step_count <= LOAD_STEPS &&
           script->units_per_turn > 0);

    memset(ret, 0, sizeof *ret);
    struct run r = {.options = options, .script = script, .result = ret};
    r.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (r.epoll_fd < 0) {
        snprintf(ret->trouble, sizeof ret->trouble, "epoll_create1: %s", strerror(errno));
        return ERR_IO;
    }
    r.conns = mem_alloc(options->connections * sizeof *r.conns);

    enum err result = ERR_IO;
    if (!run_connect_all(&r))
        goto out;

    int64_t cpu_before = cpu_ns();
    r.start_ns = now_ns();
    r.deadline_ns = options->duration_ms > 0 ? r.start_ns + options->duration_ms * NS_PER_MS : 0;
    for (unsigned i = 0; i < r.conn_count && !r.is_broken; i++)
        conn_begin_turn(&r, &r.conns[i], now_ns());
    run_loop(&r);
    ret->elapsed_ns = now_ns() - r.start_ns;
    ret->cpu_ns = cpu_ns() - cpu_before;
    result = r.is_broken ? ERR_IO : OK;
out:
    for (unsigned i = 0; i < r.conn_count; i++) {
        close(r.conns[i].fd);
        free(r.conns[i].in);
    }
    free(r.conns);
    close(r.epoll_fd);
    return result;
}
