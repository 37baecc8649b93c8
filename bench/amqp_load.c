/* amqp_load: what `bench/run amqp` asks of a broker besides cycles. Built by it, with librabbitmq.
 *
 *   amqp_load PORT idle N                       N connections with a channel each, until standard input ends
 *   amqp_load PORT declare PREFIX N THREADS     N durable queues, by that many connections
 *   amqp_load PORT latency QUEUE TYPE RATE SECONDS SIZE   paced publishes, one consumer: JSON
 *   amqp_load PORT fill QUEUE N SIZE            confirmed publishes to a durable classic queue
 *   amqp_load PORT stall QUEUE PREFETCH         consumes and never reads, until standard input ends
 */
#include <amqp.h>
#include <amqp_tcp_socket.h>

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define WINDOW 512 /* unconfirmed publishes */

static int port;

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void fail(const char *what) {
    fprintf(stderr, "amqp_load: %s failed\n", what);
    exit(1);
}

static void check(amqp_connection_state_t c, const char *what) {
    if (amqp_get_rpc_reply(c).reply_type != AMQP_RESPONSE_NORMAL)
        fail(what);
}

static amqp_connection_state_t dial(void) {
    amqp_connection_state_t c = amqp_new_connection();
    amqp_socket_t *s = amqp_tcp_socket_new(c);
    if (s == NULL || amqp_socket_open(s, "127.0.0.1", port) != AMQP_STATUS_OK)
        fail("connect");
    amqp_rpc_reply_t reply =
        amqp_login(c, "/", 0, 131072, 0, AMQP_SASL_METHOD_PLAIN, "guest", "guest");
    if (reply.reply_type != AMQP_RESPONSE_NORMAL)
        fail("login");
    amqp_channel_open(c, 1);
    check(c, "channel.open");
    return c;
}

static void declare(amqp_connection_state_t c, const char *queue, const char *type) {
    amqp_table_entry_t entry = {
        .key = amqp_cstring_bytes("x-queue-type"),
        .value = {.kind = AMQP_FIELD_KIND_UTF8, .value = {.bytes = amqp_cstring_bytes(type)}}};
    amqp_table_t arguments = {1, &entry};
    amqp_queue_declare(c, 1, amqp_cstring_bytes(queue), 0, 1, 0, 0, arguments);
    check(c, "queue.declare");
}

static void await_end_of_input(void) {
    printf("ready\n");
    fflush(stdout);
    char c;
    while (read(STDIN_FILENO, &c, 1) > 0) {}
}

/* -- idle ------------------------------------------------------------------------------------------------ */

static void idle(unsigned count) {
    struct rlimit files = {count + 64, count + 64};
    setrlimit(RLIMIT_NOFILE, &files);
    for (unsigned i = 0; i < count; i++)
        dial();
    await_end_of_input();
}

/* -- declare --------------------------------------------------------------------------------------------- */

struct declarer {
    pthread_t thread;
    const char *prefix;
    unsigned first, step, count;
};

static void *declare_some(void *context) {
    const struct declarer *d = context;
    amqp_connection_state_t c = dial();
    for (unsigned i = d->first; i < d->count; i += d->step) {
        char name[256];
        snprintf(name, sizeof name, "%s-%u", d->prefix, i);
        declare(c, name, "classic");
    }
    amqp_connection_close(c, AMQP_REPLY_SUCCESS);
    return NULL;
}

static void declare_all(const char *prefix, unsigned count, unsigned threads) {
    struct declarer *declarers = calloc(threads, sizeof *declarers);
    if (declarers == NULL)
        fail("calloc");
    int64_t begin = now_ns();
    for (unsigned i = 0; i < threads; i++) {
        declarers[i] =
            (struct declarer){.prefix = prefix, .first = i, .step = threads, .count = count};
        pthread_create(&declarers[i].thread, NULL, declare_some, &declarers[i]);
    }
    for (unsigned i = 0; i < threads; i++)
        pthread_join(declarers[i].thread, NULL);
    printf("{\"seconds\": %.3f}\n", (double)(now_ns() - begin) / 1e9);
    free(declarers);
}

/* -- publishing with confirms ------------------------------------------------------------------------------ */

struct publisher {
    amqp_connection_state_t c;
    uint64_t sent, confirmed;
    amqp_bytes_t key, body;
};

static void publisher_open(struct publisher *p, const char *queue, const char *type, size_t size) {
    p->c = dial();
    declare(p->c, queue, type);
    amqp_confirm_select(p->c, 1);
    check(p->c, "confirm.select");
    p->key = amqp_cstring_bytes(queue);
    p->body = amqp_bytes_malloc(size);
    memset(p->body.bytes, 'x', size);
}

static void publish(struct publisher *p) {
    amqp_basic_properties_t properties = {._flags = AMQP_BASIC_DELIVERY_MODE_FLAG,
                                          .delivery_mode = 2};
    if (amqp_basic_publish(p->c, 1, amqp_empty_bytes, p->key, 0, 0, &properties, p->body) < 0)
        fail("publish");
    p->sent++;
}

/* Reads one confirm, waiting as long as `timeout` says; false when none came. */
static int read_confirm(struct publisher *p, const struct timeval *timeout) {
    amqp_frame_t frame;
    int status = amqp_simple_wait_frame_noblock(p->c, &frame, timeout);
    if (status == AMQP_STATUS_TIMEOUT)
        return 0;
    if (status != AMQP_STATUS_OK || frame.frame_type != AMQP_FRAME_METHOD ||
        frame.payload.method.id != AMQP_BASIC_ACK_METHOD)
        fail("confirm");
    const amqp_basic_ack_t *ack = frame.payload.method.decoded;
    if (ack->multiple)
        p->confirmed = ack->delivery_tag;
    else
        p->confirmed++;
    amqp_maybe_release_buffers(p->c);
    return 1;
}

static void fill(const char *queue, unsigned count, size_t size) {
    struct publisher p = {0};
    publisher_open(&p, queue, "classic", size);
    const struct timeval limit = {30, 0};
    while (p.confirmed < count) {
        while (p.sent < count && p.sent - p.confirmed < WINDOW)
            publish(&p);
        if (!read_confirm(&p, &limit))
            fail("confirm in time");
    }
    amqp_connection_close(p.c, AMQP_REPLY_SUCCESS);
}

/* -- latency --------------------------------------------------------------------------------------------- */

struct receiver {
    const char *queue;
    unsigned count;
    int64_t *taken_ns; /* of each message, from its publish to its delivery */
};

static void *receive(void *context) {
    struct receiver *r = context;
    amqp_connection_state_t c = dial();
    amqp_basic_qos(c, 1, 0, WINDOW, 0);
    check(c, "basic.qos");
    amqp_basic_consume(c, 1, amqp_cstring_bytes(r->queue), amqp_empty_bytes, 0, 0, 0,
                       amqp_empty_table);
    check(c, "basic.consume");
    for (unsigned i = 0; i < r->count; i++) {
        amqp_envelope_t envelope;
        const struct timeval limit = {30, 0};
        amqp_maybe_release_buffers(c);
        if (amqp_consume_message(c, &envelope, &limit, 0).reply_type != AMQP_RESPONSE_NORMAL)
            fail("delivery");
        int64_t sent;
        memcpy(&sent, envelope.message.body.bytes, sizeof sent);
        r->taken_ns[i] = now_ns() - sent;
        amqp_basic_ack(c, 1, envelope.delivery_tag, 0);
        amqp_destroy_envelope(&envelope);
    }
    amqp_connection_close(c, AMQP_REPLY_SUCCESS);
    return NULL;
}

static int by_size(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static void latency(const char *queue, const char *type, unsigned rate, unsigned seconds,
                    size_t size) {
    struct publisher p = {0};
    publisher_open(&p, queue, type, size < sizeof(int64_t) ? sizeof(int64_t) : size);
    struct receiver r = {.queue = queue, .count = rate * seconds};
    r.taken_ns = calloc(r.count, sizeof *r.taken_ns);
    if (r.taken_ns == NULL)
        fail("calloc");
    pthread_t thread;
    pthread_create(&thread, NULL, receive, &r);
    usleep(200000);

    /* When it is late it catches up, and what waited is charged from the time it should have gone. */
    int64_t begin = now_ns();
    for (unsigned i = 0; i < r.count; i++) {
        int64_t due = begin + (int64_t)i * 1000000000 / rate;
        for (int64_t left; (left = due - now_ns()) > 0;) {
            struct timeval wait = {0, left / 1000};
            read_confirm(&p, &wait);
        }
        memcpy(p.body.bytes, &due, sizeof due);
        publish(&p);
        struct timeval no_wait = {0, 0};
        while (read_confirm(&p, &no_wait)) {}
    }
    pthread_join(thread, NULL);
    qsort(r.taken_ns, r.count, sizeof *r.taken_ns, by_size);
    printf("{\"messages\": %u, \"p50_us\": %.1f, \"p99_us\": %.1f, \"max_us\": %.1f}\n", r.count,
           (double)r.taken_ns[r.count / 2] / 1e3,
           (double)r.taken_ns[r.count - 1 - r.count / 100] / 1e3,
           (double)r.taken_ns[r.count - 1] / 1e3);
    amqp_connection_close(p.c, AMQP_REPLY_SUCCESS);
    free(r.taken_ns);
}

/* -- a consumer that does not read ----------------------------------------------------------------------- */

static void stall(const char *queue, unsigned prefetch) {
    amqp_connection_state_t c = dial();
    declare(c, queue, "classic");
    amqp_basic_qos(c, 1, 0, (uint16_t)prefetch, 0);
    check(c, "basic.qos");
    amqp_basic_consume(c, 1, amqp_cstring_bytes(queue), amqp_empty_bytes, 0, 0, 0,
                       amqp_empty_table);
    check(c, "basic.consume");
    await_end_of_input();
}

static unsigned number(const char *text) {
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (*text == '\0' || *end != '\0' || value > INT32_MAX)
        fail("reading a number");
    return (unsigned)value;
}

int main(int n, char **v) {
    if (n < 4)
        return 2;
    port = (int)number(v[1]);
    const char *mode = v[2];
    if (strcmp(mode, "idle") == 0)
        idle(number(v[3]));
    else if (strcmp(mode, "declare") == 0 && n == 6)
        declare_all(v[3], number(v[4]), number(v[5]));
    else if (strcmp(mode, "latency") == 0 && n == 8)
        latency(v[3], v[4], number(v[5]), number(v[6]), number(v[7]));
    else if (strcmp(mode, "fill") == 0 && n == 6)
        fill(v[3], number(v[4]), number(v[5]));
    else if (strcmp(mode, "stall") == 0 && n == 5)
        stall(v[3], number(v[4]));
    else
        return 2;
    return 0;
}
