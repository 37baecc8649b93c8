/* dead: makes dead letters, and looks at them, under the load generator of `nixie bench`.
 *
 * `kill` claims the messages of a queue and fails them for good, `retry` fails them in the same words so that they come again in an hour.
 * A round claims a number of messages first; what is measured is the failing alone. The words are those of a worker in Python: a class, a
 * message that holds numbers, and a stack trace whose inner frames tell one cause from another. With --batch 1 each is a request of its own.
 *
 * `get` asks for one path, again and again. */
#include "base/bytes.h"
#include "base/limits.h"
#include "base/mem.h"
#include "cli/load.h"
#include "cli/load_report.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CAUSES_MAX 676 /* two letters name one */
#define FRAMES 5       /* the inner ones, of the cause */
#define CLAIMS 100     /* of a request, when failures go one by one */
#define REQUEST_MAX LIMIT_BODY_MOST

struct dead {
    const char *host, *port, *queue, *path, *version;
    bool is_kill;
    unsigned connections, causes;
    unsigned batch, claims; /* failures of a request, claims of a request */
    size_t detail_bytes;
    struct buf claim, get;        /* requests, the same for all connections */
    struct buf words[CAUSES_MAX]; /* the end of a failure's fields: class and detail */
    struct buf body;              /* of the request that is being made */
    struct buf *settles;          /* requests by connection */
    uint64_t *ids;                /* claimed */
    size_t id_count, settled;     /* how many, and how many of them were failed */
    char first_failure[400];
};

/* -- replies --------------------------------------------------------------------------------------------- */

/* LOAD_TURN and the body when `bytes` is one whole reply; the server says Content-Length always. */
static enum load_verdict take_reply(struct dead *d, struct span bytes, struct load_reply *ret,
                                    struct span *ret_body) {
    const uint8_t *blank = memmem(bytes.p, bytes.n, "\r\n\r\n", 4);
    if (blank == NULL)
        return bytes.n <= LIMIT_HEAD ? LOAD_MORE : LOAD_BROKEN;
    size_t head = (size_t)(blank - bytes.p) + 4;
    const uint8_t *length = memmem(bytes.p, head, "Content-Length: ", 16);
    if (length == NULL || memcmp(bytes.p, "HTTP/1.1 ", 9) != 0)
        return LOAD_BROKEN;
    size_t body = strtoul((const char *)length + 16, NULL, 10); /* the line's \r ends it */
    if (bytes.n < head + body)
        return LOAD_MORE;
    *ret_body = span_of(bytes.p + head, body);
    ret->is_failure = bytes.p[9] != '2';
    if (ret->is_failure && d->first_failure[0] == '\0')
        snprintf(d->first_failure, sizeof d->first_failure, "%.*s", (int)(body < 300 ? body : 300),
                 (const char *)ret_body->p);
    return bytes.n == head + body ? LOAD_TURN : LOAD_BROKEN;
}

static enum load_verdict fail_run(struct dead *d, const char *what, struct load_reply *ret) {
    ret->is_failure = true;
    if (d->first_failure[0] == '\0')
        snprintf(d->first_failure, sizeof d->first_failure, "%s", what);
    return LOAD_TURN;
}

/* -- claiming -------------------------------------------------------------------------------------------- */

static struct span claim_request(void *ctx, unsigned connection, unsigned step) {
    struct dead *d = ctx;
    (void)connection;
    (void)step;
    return buf_span(&d->claim);
}

/* Keeps the ids. A payload cannot hold `"id":`: its quotes are escaped. */
static enum load_verdict claim_reply(void *ctx, unsigned connection, unsigned step,
                                     struct span bytes, struct load_reply *ret) {
    struct dead *d = ctx;
    (void)connection;
    (void)step;
    struct span body;
    enum load_verdict v = take_reply(d, bytes, ret, &body);
    if (v != LOAD_TURN || ret->is_failure)
        return v;
    size_t before = d->id_count;
    const uint8_t *p = body.p, *end = body.p + body.n;
    while (d->id_count - before < d->claims && (p = memmem(p, (size_t)(end - p), "\"id\":", 5))) {
        p += 5;
        d->ids[d->id_count++] = strtoull((const char *)p, NULL, 10); /* a comma ends it */
    }
    ret->units = d->id_count - before;
    return ret->units == d->claims ? LOAD_TURN : fail_run(d, "a claim brought too little", ret);
}

/* -- failing --------------------------------------------------------------------------------------------- */

static void add_request(const struct dead *d, struct buf *out, const char *verb, struct span body) {
    buf_printf(out,
               "POST /queues/%s/%s HTTP/1.1\r\nHost: %s:%s\r\n"
               "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
               d->queue, verb, d->host, d->port, body.n);
    buf_add_span(out, body);
}

/* A failure as its fields; as long for either kind. */
static void add_failure(const struct dead *d, struct buf *out, uint64_t id) {
    buf_add_str(out, d->is_kill ? "\"permanent\":true           " : "\"retry_after_seconds\":3600");
    buf_add_str(out, ",\"error\":\"customer ");
    buf_add_u64(out, id * 7919 % 1000003);
    buf_add_str(out, ": the upstream host-");
    buf_add_u64(out, id % 17);
    buf_add_str(out, " did not answer within ");
    buf_add_u64(out, 100 + id % 900);
    buf_add_str(out, " ms");
    buf_add_span(out, buf_span(&d->words[id % d->causes]));
}

static void add_items(struct dead *d, struct buf *out) {
    buf_add_str(out, "{\"items\":[");
    for (unsigned i = 0; i < d->batch; i++) {
        uint64_t id = d->ids[d->settled++];
        buf_add_str(out, i > 0 ? ",{\"id\":" : "{\"id\":");
        buf_add_u64(out, id);
        buf_add_str(out, ",\"action\":\"fail\",");
        add_failure(d, out, id);
        buf_add_byte(out, '}');
    }
    buf_add_str(out, "]}");
}

static struct span settle_request(void *ctx, unsigned connection, unsigned step) {
    struct dead *d = ctx;
    (void)step;
    struct buf *request = &d->settles[connection];
    char verb[48] = "settle";
    buf_clear(request);
    buf_clear(&d->body);
    if (d->batch == 1) {
        uint64_t id = d->ids[d->settled++];
        snprintf(verb, sizeof verb, "messages/%llu/fail", (unsigned long long)id);
        buf_add_byte(&d->body, '{');
        add_failure(d, &d->body, id);
        buf_add_byte(&d->body, '}');
    } else {
        add_items(d, &d->body);
    }
    add_request(d, request, verb, buf_span(&d->body));
    return buf_span(request);
}

static enum load_verdict settle_reply(void *ctx, unsigned connection, unsigned step,
                                      struct span bytes, struct load_reply *ret) {
    struct dead *d = ctx;
    (void)connection;
    (void)step;
    struct span body;
    enum load_verdict v = take_reply(d, bytes, ret, &body);
    if (v != LOAD_TURN || ret->is_failure)
        return v;
    if (d->batch > 1 && memmem(body.p, body.n, "\"error\":", 8) != NULL)
        return fail_run(d, "an item could not be settled", ret);
    ret->units = d->batch;
    return LOAD_TURN;
}

/* -- looking --------------------------------------------------------------------------------------------- */

static struct span get_request(void *ctx, unsigned connection, unsigned step) {
    struct dead *d = ctx;
    (void)connection;
    (void)step;
    return buf_span(&d->get);
}

static enum load_verdict get_reply(void *ctx, unsigned connection, unsigned step, struct span bytes,
                                   struct load_reply *ret) {
    struct dead *d = ctx;
    (void)connection;
    (void)step;
    struct span body;
    ret->units = 1;
    return take_reply(d, bytes, ret, &body);
}

/* -- set-up ---------------------------------------------------------------------------------------------- */

/* The end of an item, as JSON: its class, and a stack trace of about so many bytes. */
static void make_words(struct dead *d, unsigned cause) {
    static const char *const classes[] = {"TimeoutError", "ConnectionRefused", "KeyError",
                                          "ValidationError"};
    const char *class = classes[cause % 4];
    struct buf *b = &d->words[cause];
    buf_init(b, LIMIT_DETAIL * 2);
    buf_printf(b, "\",\"error_class\":\"%s\",\"detail\":\"", class);
    size_t begin = b->n;
    char name[3] = {(char)('a' + cause / 26), (char)('a' + cause % 26), '\0'};
    buf_add_str(b, "Traceback (most recent call last):\\n");
    /* Escapes and the cause's own frames are some 500 bytes. */
    for (unsigned line = 11; b->n - begin + 500 < d->detail_bytes; line += 7)
        buf_printf(b,
                   "  File \\\"/srv/app/middleware/layer.py\\\", line %u, in layer\\n"
                   "    return following(message, context)\\n",
                   line);
    for (unsigned i = 0; i < FRAMES; i++)
        buf_printf(b,
                   "  File \\\"/srv/app/jobs/%s.py\\\", line %u, in %s_%c\\n    return call(x)\\n",
                   name, 20 + 9 * i, name, (char)('a' + i));
    buf_printf(b, "%s: gave up\\n\"", class);
}

static void dead_init(struct dead *d, size_t ids_max) {
    char body[300];
    snprintf(body, sizeof body,
             "{\"count\":%u,\"lease_seconds\":3600,\"worker\":\"bench\",\"worker_version\":\"%s\"}",
             d->claims, d->version);
    buf_init(&d->body, REQUEST_MAX);
    buf_init(&d->claim, REQUEST_MAX);
    add_request(d, &d->claim, "claim", span_str(body));
    buf_init(&d->get, REQUEST_MAX);
    buf_printf(&d->get, "GET %s HTTP/1.1\r\nHost: %s:%s\r\n\r\n", d->path, d->host, d->port);
    for (unsigned i = 0; i < d->causes; i++)
        make_words(d, i);
    d->settles = mem_alloc(d->connections * sizeof *d->settles);
    for (unsigned i = 0; i < d->connections; i++)
        buf_init(&d->settles[i], REQUEST_MAX);
    d->ids = mem_alloc(ids_max * sizeof *d->ids);
}

static void dead_release(struct dead *d) {
    buf_release(&d->claim);
    buf_release(&d->get);
    buf_release(&d->body);
    for (unsigned i = 0; i < d->causes; i++)
        buf_release(&d->words[i]);
    for (unsigned i = 0; i < d->connections; i++)
        buf_release(&d->settles[i]);
    free(d->settles);
    free(d->ids);
}

/* -- rounds ---------------------------------------------------------------------------------------------- */

static void add_result(struct load_result *sum, const struct load_result *r) {
    sum->units += r->units;
    sum->requests += r->requests;
    sum->failures += r->failures;
    sum->elapsed_ns += r->elapsed_ns;
    sum->cpu_ns += r->cpu_ns;
    struct load_histogram *h = &sum->steps[0];
    h->count += r->steps[0].count;
    if (r->steps[0].max_ns > h->max_ns)
        h->max_ns = r->steps[0].max_ns;
    for (size_t i = 0; i < LOAD_BUCKETS; i++)
        h->bucket[i] += r->steps[0].bucket[i];
}

/* Claims `units` of messages and fails them; the failing is added to `sum`. */
static enum err run_round(struct dead *d, struct load_options *options, uint64_t units,
                          const struct load_script *settle, struct load_result *sum) {
    const struct load_script claim = {.ctx = d,
                                      .step_count = 1,
                                      .step_names = {"claim"},
                                      .units_per_turn = d->claims,
                                      .request = claim_request,
                                      .reply = claim_reply};
    struct load_result *r = mem_alloc(sizeof *r);
    options->units = units;
    d->id_count = d->settled = 0;
    enum err e = load_run(options, &claim, r);
    if (e == OK && r->failures == 0) {
        e = load_run(options, settle, r);
        add_result(sum, r);
    } else {
        sum->failures += r->failures;
    }
    memcpy(sum->trouble, r->trouble, sizeof sum->trouble);
    free(r);
    return e;
}

static const char usage[] =
    "usage: dead kill|retry --port PORT [--queue NAME] [--messages N] [--hold N] [--batch N]\n"
    "                       [--connections N] [--causes N] [--detail BYTES] [--version TEXT]\n"
    "       dead get --port PORT --path PATH [--messages N]\n";

struct arguments {
    unsigned long messages, hold, batch, connections, causes, detail;
    bool is_get;
};

/* So many messages are claimed and failed in whole requests. */
static bool are_whole(const struct arguments *a, unsigned long messages) {
    unsigned long unit = a->batch > 1 ? a->batch : CLAIMS;
    return messages >= unit && messages % unit == 0;
}

static bool arguments_parse(int argc, char **argv, struct dead *d, struct arguments *a) {
    static const struct option known[] = {
        {"host", required_argument, NULL, 'h'},        {"port", required_argument, NULL, 'p'},
        {"queue", required_argument, NULL, 'q'},       {"path", required_argument, NULL, 'a'},
        {"version", required_argument, NULL, 'v'},     {"messages", required_argument, NULL, 'n'},
        {"hold", required_argument, NULL, 'o'},        {"batch", required_argument, NULL, 'b'},
        {"connections", required_argument, NULL, 'c'}, {"causes", required_argument, NULL, 'u'},
        {"detail", required_argument, NULL, 'd'},      {NULL, 0, NULL, 0},
    };
    const char **const texts[] = {['h'] = &d->host,
                                  ['p'] = &d->port,
                                  ['q'] = &d->queue,
                                  ['a'] = &d->path,
                                  ['v'] = &d->version};
    unsigned long *const numbers[] = {
        ['n'] = &a->messages,    ['o'] = &a->hold,   ['b'] = &a->batch,
        ['c'] = &a->connections, ['u'] = &a->causes, ['d'] = &a->detail};
    for (int o; (o = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (o == '?')
            return false;
        if ((size_t)o < sizeof texts / sizeof *texts && texts[o] != NULL)
            *texts[o] = optarg;
        else
            *numbers[o] = strtoul(optarg, NULL, 10);
    }
    const char *mode = optind == argc - 1 ? argv[optind] : "";
    d->is_kill = strcmp(mode, "kill") == 0;
    a->is_get = strcmp(mode, "get") == 0;
    if (a->is_get)
        return d->port != NULL && d->path != NULL && a->messages >= 1;
    return (d->is_kill || strcmp(mode, "retry") == 0) && d->port != NULL && a->batch >= 1 &&
           a->batch <= LIMIT_BATCH && are_whole(a, a->messages) && are_whole(a, a->hold) &&
           a->connections >= 1 && a->connections <= LOAD_CONNECTIONS_MAX && a->causes >= 1 &&
           a->causes <= CAUSES_MAX && a->detail <= LIMIT_DETAIL;
}

/* All rounds, or all looks. */
static enum err run_all(struct dead *d, const struct arguments *a, const struct load_script *script,
                        struct load_result *sum) {
    struct load_options options = {.host = d->host, .port = d->port, .connections = d->connections};
    if (a->is_get) {
        options.units = a->messages;
        return load_run(&options, script, sum);
    }
    enum err e = OK;
    for (uint64_t left = a->messages, n; left > 0 && e == OK && sum->failures == 0; left -= n) {
        n = left < a->hold ? left : a->hold;
        e = run_round(d, &options, n, script, sum);
    }
    return e;
}

int main(int argc, char **argv) {
    struct dead d = {.host = "127.0.0.1", .queue = "bench", .version = "1.0"};
    struct arguments a = {.messages = 100,
                          .hold = 20000,
                          .batch = 100,
                          .connections = 16,
                          .causes = 50,
                          .detail = 2048};
    if (!arguments_parse(argc, argv, &d, &a)) {
        fputs(usage, stderr);
        return 2;
    }
    d.connections = a.is_get ? 1 : (unsigned)a.connections;
    d.batch = a.is_get ? 1 : (unsigned)a.batch;
    d.claims = d.batch == 1 ? CLAIMS : d.batch;
    d.causes = (unsigned)a.causes;
    d.detail_bytes = a.detail;
    dead_init(&d, a.hold);

    const char *mode = a.is_get ? "get" : d.is_kill ? "kill" : "retry";
    const struct load_script script = {.ctx = &d,
                                       .step_count = 1,
                                       .step_names = {mode},
                                       .units_per_turn = d.batch,
                                       .request = a.is_get ? get_request : settle_request,
                                       .reply = a.is_get ? get_reply : settle_reply};
    struct load_result *sum = mem_alloc(sizeof *sum);
    enum err e = run_all(&d, &a, &script, sum);
    if (e != OK || sum->failures > 0)
        fprintf(stderr, "dead: %s%s\n", sum->trouble, d.first_failure);
    const struct load_setup setup = {
        .target = "nixie", .mode = mode, .connections = d.connections, .batch = d.batch};
    load_report_json(stdout, &setup, &script, sum);
    int status = e == OK && sum->failures == 0 ? 0 : 1;
    free(sum);
    dead_release(&d);
    return status;
}
