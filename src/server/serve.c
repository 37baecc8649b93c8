/* One server from start to end:
 *
 *   config -> open log (recover) -> listen -> "listening" -> turns ...
 *          -> SIGTERM: drain -> last commit -> exit 0
 *
 * A failing disk or damaged data ends it at once (log_fatal): what was acknowledged is on disk, the
 * rest was not acknowledged. */
#include "server/serve.h"

#include "base/clock.h"
#include "base/limits.h"
#include "engine/topology.h"
#include "http/http.h"
#include "log/log_thread.h"
#include "net/loop.h"
#include "net/tls.h"
#include "server/alerts.h"
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

struct serve {
    struct server server;
    struct config config;
    struct log_dir *dir;
    struct log_thread *log_thread;
    struct http *http;
    struct tls_context *tls;
    struct listener *listener;
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
    for (struct queue *q; (q = engine_woken(v->server.engine));)
        http_on_woken(v->http, q);
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
    begin_engine(v, now);
    serve_woken(v);
    if (!v->server.test_clock || now > 0) /* a test clock that was not set yet stands nowhere */
        plan_due(v, now, engine_tick(v->server.engine, now));
    serve_woken(v);
    alerts_turn(v->server.alerts, now);
    if (engine_clean(v->server.engine))
        loop_again(v->server.loop);
    log_thread_push(v->log_thread);
}

static void on_due(struct loop_timer *t) {
    (void)t; /* the turn that follows does it */
}

/* -- commits --------------------------------------------------------------------------------- */

static void wake_loop(void *ctx) {
    struct serve *v = ctx;
    loop_wake(v->server.loop);
}

static void on_wake(void *ctx) {
    struct serve *v = ctx;
    switch (log_thread_collect(v->log_thread)) {
    case COLLECTED_NOTHING:
        break;
    case COLLECTED_BATCH:
        /* The next batch goes out before the replies of this one: the disk should not wait for
         * sockets. */
        log_thread_push(v->log_thread);
        barrier_release(&v->server.barrier, log_durable(v->server.log));
        break;
    case COLLECTED_FULL:
        log_warn("the disk is full: what waits for it is tried again until there is room");
        break;
    case COLLECTED_FAILED:
        log_fatal("the disk failed: %s: stopped at once; nothing that was not on disk was "
                  "acknowledged",
                  strerror(errno));
    }
}

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

static void on_drain(struct loop_timer *t) {
    struct serve *v = (struct serve *)(void *)((char *)t - offsetof(struct serve, drain));
    bool late = loop_now(v->server.loop) >= v->drain_until;
    bool quiet = http_inflight(v->http) == 0 && listener_count(v->listener) == 0 &&
                 alerts_is_quiet(v->server.alerts);
    if (quiet || late) {
        log_mark(v->server.log);
        if (log_durable(v->server.log) == log_end(v->server.log)) {
            if (late && !quiet)
                log_warn("stopping with %u requests unanswered", http_inflight(v->http));
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
    listener_stop(v->listener);
    http_drain(v->http);
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
    v->log_thread = log_thread_new(v->server.log, wake_loop, v);
    begin_engine(v, server_now(&v->server));
    v->server.alerts = alerts_new(&v->server, v->config.alerts_private);
    return true;
}

static bool start_listening(struct serve *v) {
    char error[256];
    if (v->config.tls_cert) {
        v->tls = tls_context_new(v->config.tls_cert, v->config.tls_key, error, sizeof error);
        if (!v->tls) {
            log_error("TLS: %s", error);
            return false;
        }
    }
    v->http = http_new(&v->server);
    struct listener_config config = {
        .host = v->config.http_host,
        .port = v->config.http_port,
        .protocol = &http_protocol,
        .ctx = v->http,
        .tls = v->tls,
        .in_bytes_max = LIMIT_HEAD + v->config.limits.body_bytes_max,
    };
    v->listener = listener_new(v->server.loop, &config, error, sizeof error);
    if (!v->listener) {
        log_error("cannot listen on %s port %s: %s", config.host, config.port, error);
        return false;
    }
    return true;
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
    v->server.test_clock = v->config.test_clock;
    v->server.limits = v->config.limits;
    v->due_at = TIME_NEVER;
    barrier_init(&v->server.barrier);
    v->server.loop = loop_new();
    loop_on_turn(v->server.loop, on_turn, v);
    loop_on_wake(v->server.loop, on_wake, v);
    loop_timer_init(v->server.loop, &v->due, on_due);
    loop_timer_init(v->server.loop, &v->housekeeping, on_housekeeping);
    loop_timer_init(v->server.loop, &v->drain, on_drain);
    raise_descriptors(v->config.limits.connections_max);
}

static void release(struct serve *v) {
    if (v->listener)
        listener_free(v->listener);
    if (v->http)
        http_free(v->http);
    alerts_free(v->server.alerts);
    log_thread_free(v->log_thread);
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
        printf("listening http %s\n", listener_address(v.listener));
        fflush(stdout);
        loop_run(v.server.loop);
        log_info("stopped");
    }
    release(&v);
    return ok ? 0 : 1;
}
