/* redis_peer: Redis streams under the load generator of `nixie bench`, so that the two servers meet the same client.
 *
 * One stream and one group; every connection is a consumer of its own. A cycle is XADD, XREADGROUP COUNT 1 of new entries, XACK of
 * what came. Entries are not deleted after the acknowledgement, which is the least work Redis can be given (and lets the stream grow).
 * Batch modes send the B XADDs of a batch pipelined in one write, then one XREADGROUP COUNT B, then one XACK of B ids.
 *
 * The server's durability is its own configuration (bench/run starts it with appendfsync always). */
#include "base/bytes.h"
#include "base/mem.h"
#include "cli/load.h"
#include "cli/load_report.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STREAM "bench"
#define GROUP "workers"
#define REQUEST_MAX (64 * 1024 * 1024)

enum step { STEP_ADD, STEP_READ, STEP_ACK };

struct peer_conn {
    struct buf read; /* XREADGROUP names the consumer */
    struct buf ack;  /* written anew each turn */
    unsigned held;   /* entries in `ack` */
};

struct peer {
    bool is_cycle;
    unsigned batch;
    struct buf add; /* the same for all */
    struct peer_conn *conns;
};

/* -- requests -------------------------------------------------------------------------------------------- */

static void add_bulk(struct buf *b, struct span s) {
    buf_add_byte(b, '$');
    buf_add_u64(b, s.n);
    buf_add_str(b, "\r\n");
    buf_add_span(b, s);
    buf_add_str(b, "\r\n");
}

static void add_command(struct buf *b, size_t count, const char *const *words) {
    buf_add_byte(b, '*');
    buf_add_u64(b, count);
    buf_add_str(b, "\r\n");
    for (size_t i = 0; i < count; i++)
        add_bulk(b, span_str(words[i]));
}

static struct span peer_request(void *ctx, unsigned connection, unsigned step) {
    struct peer *peer = ctx;
    if (step == STEP_ADD)
        return buf_span(&peer->add);
    struct peer_conn *c = &peer->conns[connection];
    return buf_span(step == STEP_READ ? &c->read : &c->ack);
}

/* -- replies --------------------------------------------------------------------------------------------- */

/* One element of a reply as RESP2 writes it: its type, its number or length, and for bulk strings its bytes. */
struct element {
    char type;
    long long number;
    struct span bulk;
};

/* 1 and the element, moving *at behind it; 0 when it is not whole; -1 when it is not RESP. */
static int element_next(struct span s, size_t *at, struct element *ret) {
    const uint8_t *p = s.p + *at;
    size_t left = s.n - *at;
    const uint8_t *end = left > 0 ? memchr(p, '\n', left) : NULL;
    if (end == NULL)
        return 0;
    if (strchr("+-:$*", p[0]) == NULL || end < p + 2 || end[-1] != '\r')
        return -1;

    struct element e = {.type = (char)p[0]};
    size_t used = (size_t)(end - p) + 1;
    if (e.type == ':' || e.type == '$' || e.type == '*')
        e.number = strtoll((const char *)p + 1, NULL, 10); /* stops at the \r */
    if (e.type == '$' && e.number >= 0) {
        size_t n = (size_t)e.number;
        if (left - used < n + 2)
            return 0;
        e.bulk = span_of(p + used, n);
        used += n + 2;
    }
    *at += used;
    *ret = e;
    return 1;
}

/* Walks `replies` whole replies. Each bulk string is given to `f` with its number. */
static enum load_verdict walk(struct span s, unsigned replies, bool *ret_failure,
                              void (*f)(void *ctx, unsigned i, struct span bulk), void *ctx) {
    size_t at = 0;
    unsigned bulks = 0;
    for (long long open = replies; open > 0; open--) {
        struct element e;
        int rc = element_next(s, &at, &e);
        if (rc <= 0)
            return rc == 0 ? LOAD_MORE : LOAD_BROKEN;
        if (e.type == '-')
            *ret_failure = true;
        if (e.type == '*' && e.number > 0)
            open += e.number;
        if (e.type == '$' && e.number >= 0 && f != NULL)
            f(ctx, bulks++, e.bulk);
    }
    return at == s.n ? LOAD_TURN : LOAD_BROKEN;
}

/* XREADGROUP's bulk strings: the stream's name, then id, field, value of each entry. */
static void take_id(void *ctx, unsigned i, struct span bulk) {
    struct peer_conn *c = ctx;
    if (i % 3 == 1) {
        add_bulk(&c->ack, bulk);
        c->held++;
    }
}

static enum load_verdict peer_read_reply(struct peer *peer, struct peer_conn *c, struct span bytes,
                                         struct load_reply *ret) {
    const char *const words[] = {"XACK", STREAM, GROUP};
    buf_clear(&c->ack);
    buf_add_byte(&c->ack, '*');
    buf_add_u64(&c->ack, 3 + (uint64_t)peer->batch);
    buf_add_str(&c->ack, "\r\n");
    for (size_t i = 0; i < 3; i++)
        add_bulk(&c->ack, span_str(words[i]));

    c->held = 0;
    enum load_verdict v = walk(bytes, 1, &ret->is_failure, take_id, c);
    if (v != LOAD_TURN)
        return v;
    if (c->held == peer->batch)
        return LOAD_STEP;
    ret->is_failure = true; /* as many were added as are asked for, so they must come */
    return LOAD_TURN;
}

static enum load_verdict peer_reply(void *ctx, unsigned connection, unsigned step,
                                    struct span bytes, struct load_reply *ret) {
    struct peer *peer = ctx;
    struct peer_conn *c = &peer->conns[connection];
    if (step == STEP_READ)
        return peer_read_reply(peer, c, bytes, ret);

    enum load_verdict v =
        walk(bytes, step == STEP_ADD ? peer->batch : 1, &ret->is_failure, NULL, NULL);
    if (v != LOAD_TURN || ret->is_failure)
        return v;
    if (step == STEP_ADD && peer->is_cycle)
        return LOAD_STEP;
    ret->units = peer->batch;
    return LOAD_TURN;
}

/* -- set-up ---------------------------------------------------------------------------------------------- */

static void peer_init(struct peer *peer, unsigned connections, size_t payload_bytes) {
    char *payload = mem_alloc(payload_bytes + 1);
    load_fill(payload, payload_bytes);
    const char *const add[] = {"XADD", STREAM, "*", "d", payload};
    buf_init(&peer->add, REQUEST_MAX);
    for (unsigned i = 0; i < peer->batch; i++)
        add_command(&peer->add, 5, add);
    free(payload);

    peer->conns = mem_alloc(connections * sizeof *peer->conns);
    for (unsigned i = 0; i < connections; i++) {
        char consumer[16], count[16];
        snprintf(consumer, sizeof consumer, "w%u", i);
        snprintf(count, sizeof count, "%u", peer->batch);
        const char *const read[] = {"XREADGROUP", "GROUP",   GROUP,  consumer, "COUNT",
                                    count,        "STREAMS", STREAM, ">"};
        buf_init(&peer->conns[i].read, REQUEST_MAX);
        buf_init(&peer->conns[i].ack, REQUEST_MAX);
        add_command(&peer->conns[i].read, 9, read);
    }
}

static void peer_release(struct peer *peer, unsigned connections) {
    for (unsigned i = 0; i < connections; i++) {
        buf_release(&peer->conns[i].read);
        buf_release(&peer->conns[i].ack);
    }
    free(peer->conns);
    buf_release(&peer->add);
}

/* A fresh stream and group. False with a message on stderr. */
static bool prepare(const char *host, const char *port) {
    static const char text[] =
        "DEL " STREAM "\r\nXGROUP CREATE " STREAM " " GROUP " $ MKSTREAM\r\n";
    char trouble[200];
    int fd = load_dial(host, port, trouble, sizeof trouble);
    if (fd < 0) {
        fprintf(stderr, "redis_peer: %s\n", trouble);
        return false;
    }
    char reply[512] = "";
    size_t n = 0;
    bool is_failure = false;
    enum load_verdict v = LOAD_BROKEN;
    if (write(fd, text, sizeof text - 1) == (ssize_t)(sizeof text - 1)) {
        do {
            ssize_t got = read(fd, reply + n, sizeof reply - n);
            if (got <= 0)
                break;
            n += (size_t)got;
            v = walk(span_of(reply, n), 2, &is_failure, NULL, NULL);
        } while (v == LOAD_MORE && n < sizeof reply);
    }
    close(fd);
    if (v == LOAD_TURN && !is_failure)
        return true;
    fprintf(stderr, "redis_peer: cannot make the stream: %.*s\n", (int)n, reply);
    return false;
}

static const char usage[] =
    "usage: redis_peer --port PORT [--host HOST] [--mode enqueue|cycle|batch-enqueue|batch-cycle]\n"
    "                  [--connections N] [--messages N] [--size BYTES] [--batch N] [-o "
    "table|json]\n";

struct arguments {
    const char *host, *port, *mode, *output;
    unsigned long connections, messages, size, batch;
};

static bool arguments_parse(int argc, char **argv, struct arguments *a) {
    static const struct option known[] = {
        {"host", required_argument, NULL, 'h'},
        {"port", required_argument, NULL, 'p'},
        {"mode", required_argument, NULL, 'm'},
        {"output", required_argument, NULL, 'o'},
        {"connections", required_argument, NULL, 'c'},
        {"messages", required_argument, NULL, 'n'},
        {"size", required_argument, NULL, 's'},
        {"batch", required_argument, NULL, 'b'},
        {NULL, 0, NULL, 0},
    };
    *a = (struct arguments){.host = "127.0.0.1",
                            .mode = "cycle",
                            .output = "table",
                            .connections = 64,
                            .messages = 100000,
                            .size = 256,
                            .batch = 100};
    for (int o; (o = getopt_long(argc, argv, "h:p:m:o:c:n:s:b:", known, NULL)) != -1;) {
        unsigned long v = optarg != NULL ? strtoul(optarg, NULL, 10) : 0;
        switch (o) {
        case 'h':
            a->host = optarg;
            break;
        case 'p':
            a->port = optarg;
            break;
        case 'm':
            a->mode = optarg;
            break;
        case 'o':
            a->output = optarg;
            break;
        case 'c':
            a->connections = v;
            break;
        case 'n':
            a->messages = v;
            break;
        case 's':
            a->size = v;
            break;
        case 'b':
            a->batch = v;
            break;
        default:
            return false;
        }
    }
    if (strncmp(a->mode, "batch-", 6) != 0)
        a->batch = 1;
    return a->port != NULL && a->connections >= 1 && a->connections <= LOAD_CONNECTIONS_MAX &&
           a->messages >= 1 && a->size <= 1024UL * 1024 && a->batch >= 1 && a->batch <= 1000;
}

int main(int argc, char **argv) {
    struct arguments a;
    if (!arguments_parse(argc, argv, &a)) {
        fputs(usage, stderr);
        return 2;
    }
    struct peer peer = {.is_cycle = strstr(a.mode, "cycle") != NULL, .batch = (unsigned)a.batch};
    if (!prepare(a.host, a.port))
        return 1;
    peer_init(&peer, (unsigned)a.connections, a.size);

    struct load_script script = {
        .ctx = &peer,
        .step_count = peer.is_cycle ? 3 : 1,
        .step_names = {"enqueue", "claim", "settle"},
        .units_per_turn = a.batch,
        .request = peer_request,
        .reply = peer_reply,
    };
    struct load_options options = {.host = a.host,
                                   .port = a.port,
                                   .units = a.messages,
                                   .connections = (unsigned)a.connections};
    struct load_setup setup = {.target = "redis",
                               .mode = a.mode,
                               .batch = (unsigned)a.batch,
                               .connections = (unsigned)a.connections,
                               .payload_bytes = a.size};
    struct load_result *result = mem_alloc(sizeof *result);
    enum err e = load_run(&options, &script, result);
    if (e != OK)
        fprintf(stderr, "redis_peer: %s\n", result->trouble);
    if (strcmp(a.output, "json") == 0)
        load_report_json(stdout, &setup, &script, result);
    else
        load_report_table(stdout, &setup, &script, result);

    int status = e == OK && result->failures == 0 ? 0 : 1;
    free(result);
    peer_release(&peer, (unsigned)a.connections);
    return status;
}
