/* One server from start to end:
 *
 *   config -> open log (recover) -> listen -> "listening" -> turns ...
 *          -> SIGTERM: drain -> last commit -> exit 0
 *
 * A failing disk or damaged data ends it at once (log_fatal): what was acknowledged is on disk, the
 * rest was not acknowledged. */
#include "server/serve.h"

#include "amqp/amqp.h"
#include "base/clock.h"
#include "base/limits.h"
#include "engine/topology.h"
#include "http/http.h"
#include "net/loop.h"
#include "net/tls.h"
#include "server/alerts.h"
#include "server/commits.h"
#include "server/config.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#define BEGIN_ROOM (64 * 1024)
#define HOUSEKEEPING_MS 1000
#define DRAIN_LOOK_MS 20
/* What AMQP clients are told to speak to, beside the product's name: some leave when it is no number
 * of three parts, or an old one. The dialect is that of this version. */
#define AMQP_VERSION_TOLD "4.0.9"

struct serve {
    struct server server;
    struct config config;
    struct log_dir *dir;
    struct commits commits;
    struct http *http;
    struct amqp *amqp;
    struct tls_context *tls;
    struct listener *listener, *amqp_listener, *amqps_listener; /* the last two may be NULL */
    struct loop_timer due, housekeeping, drain;
    int64_t due_at;    /* what the due timer is set to; TIME_NEVER = stopped */
    uint64_t end_seen; /* log_end at the last housekeeping */
    bool said_full, has_begun;
    int64_t drain_until; /* on the loop's clock */
};

int64_t server_now(struct server *s) {
    if (!s->test_clock) {
        int64_t now = clock_now_ms();
        if (now > s->now)
            s->now = now;
    }
    return s->now;
}

uint64_t server_capacity_bytes(const struct server *s) {
    if (s->data_bytes_max > 0)
        return (uint64_t)s->data_bytes_max;
    struct statvfs disk;
    if (s->data == NULL || statvfs(s->data, &disk) != 0)
        return 0;
    return log_bytes(s->log) + (uint64_t)disk.f_bavail * disk.f_frsize;
}

/* -- a turn ---------------------------------------------------------------------------------- */

static void serve_woken(struct serve *v) {
    for (struct queue *q; (q = engine_woken(v->server.engine));) {
        http_on_woken(v->http, q);
        amqp_on_woken(v->amqp, q);
    }
}

static void plan_due(struct serve *v, int64_t now, int64_t at) {
    if (at == v->due_at && at > now)
        return;
    v->due_at = at;
    if (at == TIME_NEVER || v->server.test_clock)
        loop_timer_stop(&v->due);
    else
        loop_timer_start(&v->due, at > now ? at - now : 0);
}

/* What the engine has to do after a start goes on from turn to turn. */
static void begin_engine(struct serve *v, int64_t now) {
    if (v->has_begun)
        return;
    v->has_begun = !engine_begin(v->server.engine, now);
    if (!v->has_begun && log_has_room(v->server.log, LOG_USE_ACCEPT, BEGIN_ROOM))
        loop_again(v->server.loop); /* else when housekeeping comes by */
}

static void on_turn(void *ctx) {
    struct serve *v = ctx;
    int64_t now = server_now(&v->server);
    int64_t due = TIME_NEVER;
    begin_engine(v, now);
    serve_woken(v);
    if (!v->server.test_clock || now > 0) /* a test clock that was not set yet stands nowhere */
        due = engine_tick(v->server.engine, now);
    serve_woken(v);
    int64_t amqp_due = amqp_turn(v->amqp, now);
    serve_woken(v); /* what AMQP gave back or sent on */
    if (amqp_is_busy(v->amqp))
        loop_again(v->server.loop);
    plan_due(v, now, due < amqp_due ? due : amqp_due);
    alerts_turn(v->server.alerts, now);
    if (engine_clean(v->server.engine))
        loop_again(v->server.loop);
    commits_turn(&v->commits, v->server.draining, amqp_take_streamed(v->amqp));
}

static void on_due(struct loop_timer *t) {
    (void)t; /* the turn that follows does it */
}

/* -- housekeeping ---------------------------------------------------------------------------- */

static void on_housekeeping(struct loop_timer *t) {
    struct serve *v = (struct serve *)(void *)((char *)t - offsetof(struct serve, housekeeping));
    bool full = log_stats(v->server.log).full;
    if (full != v->said_full) {
        v->said_full = full;
        if (full)
            log_warn("the disk is full: no new messages are accepted until there is room; "
                     "settling goes on from a reserve");
        else
            log_info("there is room on the disk again");
    }
    if (full)
        log_look_for_room(v->server.log);
    if (log_end(v->server.log) == v->end_seen)
        log_mark(v->server.log);
    v->end_seen = log_end(v->server.log);
    loop_timer_start(t, HOUSEKEEPING_MS);
}

/* -- stopping -------------------------------------------------------------------------------- */

static void each_listener(struct serve *v, void (*f)(struct listener *l)) {
    struct listener *all[] = {v->listener, v->amqp_listener, v->amqps_listener};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i])
            f(all[i]);
}

static unsigned count_connections(const struct serve *v) {
    return listener_count(v->listener) + (v->amqp_listener ? listener_count(v->amqp_listener) : 0) +
           (v->amqps_listener ? listener_count(v->amqps_listener) : 0);
}

static void on_drain(struct loop_timer *t) {
    struct serve *v = (struct serve *)(void *)((char *)t - offsetof(struct serve, drain));
    bool late = loop_now(v->server.loop) >= v->drain_until;
    bool quiet = http_inflight(v->http) == 0 && amqp_inflight(v->amqp) == 0 &&
                 count_connections(v) == 0 && alerts_is_quiet(v->server.alerts);
    if (quiet || late) {
        log_mark(v->server.log);
        if (log_durable(v->server.log) == log_end(v->server.log)) {
            if (late && !quiet)
                log_warn("stopping with %u requests unanswered",
                         http_inflight(v->http) + amqp_inflight(v->amqp));
            loop_stop(v->server.loop);
            return;
        }
    }
    loop_timer_start(t, DRAIN_LOOK_MS);
}

static void on_signal(void *ctx, int number) {
    struct serve *v = ctx;
    if (v->server.draining)
        return;
    log_info("%s: finishing what is in flight", number == SIGINT ? "SIGINT" : "SIGTERM");
    v->server.draining = true;
    v->drain_until = loop_now(v->server.loop) + LIMIT_DRAIN_MS;
    each_listener(v, listener_stop);
    http_drain(v->http);
    amqp_drain(v->amqp);
    alerts_drain(v->server.alerts);
    loop_timer_start(&v->drain, 0);
}

/* -- starting -------------------------------------------------------------------------------- */

static void report_findings(const struct log_findings *f, const struct engine *e, int64_t us) {
    struct engine_stats s = engine_stats(e);
    log_info("recovered %" PRIu64 " queues and %" PRIu64 " messages from %" PRIu64
             " records in %" PRId64 " ms",
             s.queues, s.messages, f->records, us / 1000);
    if (f->torn_bytes)
        log_warn("cut off a torn tail of %" PRIu64 " bytes at position %" PRIu64
                 ": the server was stopped while writing; nothing in it was acknowledged",
                 f->torn_bytes, f->torn_position);
}

static bool open_log(struct serve *v) {
    int e = log_dir_open(v->config.data, &v->dir);
    if (e < 0) {
        log_error("data directory %s: %s", v->config.data, strerror(-e));
        return false;
    }
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, 0) != sizeof seed)
        seed = (uint64_t)clock_now_ms();
    v->server.engine = engine_new(seed);
    struct log_config config = {
        .io = &log_io_posix,
        .io_ctx = v->dir,
        .segment_bytes = v->config.segment_bytes,
        .bytes_max = v->config.data_bytes_max,
        .skip_sync = v->config.durability_none,
    };
    struct log_reader reader = engine_reader(v->server.engine);
    struct log_findings findings;
    struct log_trouble trouble;
    int64_t begin = clock_monotonic_us();
    enum err r = log_open(&config, &reader, &v->server.log, &findings, &trouble);
    if (r == OK && !engine_is_whole(v->server.engine)) {
        snprintf(trouble.text, sizeof trouble.text,
                 "the log speaks of messages it does not hold; `nixie log check` tells more");
        r = ERR_CORRUPT;
    }
    if (r != OK) {
        log_error("data directory %s: %s", v->config.data, trouble.text);
        return false;
    }
    engine_attach(v->server.engine, v->server.log);
    report_findings(&findings, v->server.engine, clock_monotonic_us() - begin);
    if (v->config.limits.payload_bytes_max + LIMIT_AROUND_PAYLOAD >
        log_frame_bytes_max(v->server.log)) {
        log_error("data directory %s: its segments are too small for --payload-max %zu",
                  v->config.data, v->config.limits.payload_bytes_max);
        return false;
    }
    commits_start(&v->commits, v->server.log);
    begin_engine(v, server_now(&v->server));
    v->server.alerts = alerts_new(&v->server, v->config.alerts_private);
    return true;
}

static struct listener *listen_at(struct serve *v, const char *host, const char *port,
                                  const struct protocol *protocol, bool is_tls, char *error,
                                  size_t error_bytes) {
    struct listener_config config = {
        .host = host,
        .port = port,
        .protocol = protocol,
        .ctx = protocol == &http_protocol ? (void *)v->http : (void *)v->amqp,
        .tls = is_tls ? v->tls : NULL,
        .in_bytes_max = LIMIT_HEAD + v->config.limits.body_bytes_max,
    };
    return listener_new(v->server.loop, &config, error, error_bytes);
}

static bool cannot_listen(const char *host, const char *port, const char *error) {
    log_error("cannot listen on %s port %s: %s", host, port, error);
    return false;
}

/* AMQP's default port may be taken by a RabbitMQ: whoever did not ask for it goes on without. */
static bool start_amqp(struct serve *v) {
    const struct config *c = &v->config;
    char error[256];
    if (c->amqp_host) {
        v->amqp_listener =
            listen_at(v, c->amqp_host, c->amqp_port, &amqp_protocol, false, error, sizeof error);
        if (!v->amqp_listener && c->amqp_is_asked_for)
            return cannot_listen(c->amqp_host, c->amqp_port, error);
        if (!v->amqp_listener)
            log_warn("cannot listen on %s port %s: %s: no AMQP (--amqp ADDR:PORT for another port, "
                     "--amqp off for none)",
                     c->amqp_host, c->amqp_port, error);
    }
    if (c->amqps_host) {
        v->amqps_listener =
            listen_at(v, c->amqps_host, c->amqps_port, &amqp_protocol, true, error, sizeof error);
        if (!v->amqps_listener)
            return cannot_listen(c->amqps_host, c->amqps_port, error);
    }
    return true;
}

static bool start_listening(struct serve *v) {
    const struct config *c = &v->config;
    char error[256];
    if (c->tls_cert) {
        v->tls = tls_context_new(c->tls_cert, c->tls_key, error, sizeof error);
        if (!v->tls) {
            log_error("TLS: %s", error);
            return false;
        }
    }
    v->http = http_new(&v->server);
    const struct amqp_config amqp = {.product = c->amqp_product,
                                     .version = AMQP_VERSION_TOLD,
                                     .users = c->amqp_users,
                                     .user_count = c->amqp_user_count,
                                     .permissions = c->amqp_permissions,
                                     .permission_count = c->amqp_permission_count};
    v->amqp = amqp_new(&v->server, &amqp);
    v->listener =
        listen_at(v, c->http_host, c->http_port, &http_protocol, true, error, sizeof error);
    if (!v->listener)
        return cannot_listen(c->http_host, c->http_port, error);
    return start_amqp(v);
}

static void say_listening(const struct serve *v) {
    printf("listening http %s\n", listener_address(v->listener));
    if (v->amqp_listener)
        printf("listening amqp %s\n", listener_address(v->amqp_listener));
    if (v->amqps_listener)
        printf("listening amqps %s\n", listener_address(v->amqps_listener));
    fflush(stdout);
}

/* As many descriptors as connections may need. */
static void raise_descriptors(unsigned connections) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    rlim_t want = (rlim_t)connections + 128;
    if (limit.rlim_cur >= want)
        return;
    limit.rlim_cur = want < limit.rlim_max ? want : limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < want)
        log_warn("only %llu file descriptors: fewer connections than --connections-max",
                 (unsigned long long)limit.rlim_cur);
}

static void init(struct serve *v) {
    log_level_set(v->config.log_level);
    v->server.data = v->config.data;
    v->server.data_bytes_max = v->config.data_bytes_max;
    v->server.token = v->config.token;
    v->server.token_name = v->config.token_name;
    v->server.is_open = v->config.is_open;
    v->server.test_clock = v->config.test_clock;
    v->server.limits = v->config.limits;
    v->due_at = TIME_NEVER;
    barrier_init(&v->server.barrier);
    v->server.loop = loop_new();
    loop_on_turn(v->server.loop, on_turn, v);
    commits_init(&v->commits, v->server.loop, &v->server.barrier);
    loop_timer_init(v->server.loop, &v->due, on_due);
    loop_timer_init(v->server.loop, &v->housekeeping, on_housekeeping);
    loop_timer_init(v->server.loop, &v->drain, on_drain);
    raise_descriptors(v->config.limits.connections_max * 2); /* of HTTP, and of AMQP */
}

static void release(struct serve *v) {
    each_listener(v, listener_free);
    http_free(v->http);
    amqp_free(v->amqp);
    alerts_free(v->server.alerts);
    commits_release(&v->commits);
    tls_context_free(v->tls);
    loop_timer_close(&v->due);
    loop_timer_close(&v->housekeeping);
    loop_timer_close(&v->drain);
    loop_free(v->server.loop);
    engine_free(v->server.engine);
    log_free(v->server.log);
    log_dir_free(v->dir);
    config_release(&v->config);
}

int serve_main(int argc, char **argv) {
    struct serve v = {0};
    enum config_result c = config_read(&v.config, argc, argv);
    if (c != CONFIG_OK) {
        config_release(&v.config);
        return c == CONFIG_HELP ? 0 : 2;
    }
    init(&v);
    bool ok = open_log(&v) && start_listening(&v);
    if (ok) {
        loop_on_signal(v.server.loop, SIGTERM, on_signal, &v);
        loop_on_signal(v.server.loop, SIGINT, on_signal, &v);
        loop_timer_start(&v.housekeeping, HOUSEKEEPING_MS);
        say_listening(&v);
        loop_run(v.server.loop);
        log_info("stopped");
    }
    release(&v);
    return ok ? 0 : 1;
}
