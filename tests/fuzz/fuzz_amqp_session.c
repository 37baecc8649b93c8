/* Whole sessions of AMQP: lists of frames, time steps, disconnects and syncs of the disk, against the front end, the engine and a log on
 * the simulated disk. Connections and loop are made here, in memory: this file takes the place of src/net/.
 *
 * Each step is a byte that chooses what is done and bytes for its details. Checked, whatever comes in:
 * - what a client gets is whole frames; content is one header and exactly its bytes; delivery tags rise;
 * - a confirm comes when what it confirms is on disk, and not before (A1 of front.h);
 * - when all connections are gone, no message is held by anybody, and the engine's books are right. */
#include "amqp/be.h"
#include "amqp/content.h"
#include "amqp/front.h"

#include "base/clock.h"
#include "base/logging.h"
#include "base/mem.h"
#include "engine/verify.h"
#include "sim/crash_io.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define CONNS 3
#define STEPS_MAX 200
#define SEQ_MAX 512
#define PAYLOAD_MAX 8192

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* -- the net, in memory -------------------------------------------------------------------------- */

struct conn {
    struct buf in, out;
    void *user;
    bool is_open, is_finishing, is_paused, wants_run, is_over, is_ended;
    bool reads; /* the client takes what comes */
    /* the client's side */
    struct buf got;
    uint64_t content_left;
    bool wants_header;
    uint64_t tags[8], confirmed[8];
    uint64_t published[8];         /* by channel: confirms asked for */
    uint64_t position[8][SEQ_MAX]; /* the log's end behind each of them */
    unsigned opens[8]; /* confirms are checked in a channel's first life: later ones count anew */
};

static struct server server;
static struct conn conns[CONNS];
static struct loop_timer *timers[4];
static int64_t loop_ms;

void *conn_user(const struct conn *c) {
    return c->user;
}
void conn_set_user(struct conn *c, void *user) {
    c->user = user;
}
struct loop *conn_loop(const struct conn *c) {
    (void)c;
    return NULL;
}
struct span conn_in(const struct conn *c) {
    return buf_span(&c->in);
}
void conn_consume(struct conn *c, size_t n) {
    /* the bytes stay where they are until the callback returns */
    c->in.p += n;
    c->in.n -= n;
    c->in.cap -= n;
}
void conn_set_in_max(struct conn *c, size_t n) {
    (void)c;
    (void)n;
}
void conn_set_out_hold(struct conn *c, size_t n) {
    (void)c;
    (void)n;
}
void conn_pause(struct conn *c) {
    c->is_paused = true;
}
void conn_resume(struct conn *c) {
    c->is_paused = false;
    c->wants_run = true;
}
bool conn_is_ended(const struct conn *c) {
    return c->is_ended;
}
struct buf *conn_out(struct conn *c) {
    return &c->out;
}
void conn_flush(struct conn *c) {
    if (c->reads) {
        buf_add_span(&c->got, buf_span(&c->out));
        buf_clear(&c->out);
    }
    c->is_over = c->is_over || c->out.n > CONN_OUT_HIGH;
}
size_t conn_out_pending(const struct conn *c) {
    return c->out.n;
}
void conn_set_deadline(struct conn *c, int64_t after_ms) {
    (void)c;
    (void)after_ms;
}
void conn_close(struct conn *c, enum close_reason reason) {
    assert(c->is_open);
    c->is_open = false;
    amqp_protocol.closed(c, reason);
}
void conn_close_after_flush(struct conn *c, enum close_reason reason) {
    (void)reason;
    c->is_finishing = true;
}
const char *conn_peer(const struct conn *c) {
    (void)c;
    return "127.0.0.1:1";
}
const char *close_reason_text(enum close_reason r) {
    (void)r;
    return "";
}
int64_t loop_now(const struct loop *l) {
    (void)l;
    return loop_ms;
}
void loop_again(struct loop *l) {
    (void)l;
}
void loop_timer_init(struct loop *l, struct loop_timer *t, void (*fire)(struct loop_timer *t)) {
    (void)l;
    t->fire = fire;
    for (size_t i = 0; i < sizeof timers / sizeof timers[0]; i++) {
        if (timers[i] == NULL) {
            timers[i] = t;
            return;
        }
    }
    abort();
}
void loop_timer_start(struct loop_timer *t, int64_t after_ms) {
    (void)t;
    (void)after_ms;
}
void loop_timer_stop(struct loop_timer *t) {
    (void)t;
}
void loop_timer_close(struct loop_timer *t) {
    for (size_t i = 0; i < sizeof timers / sizeof timers[0]; i++) {
        if (timers[i] == t)
            timers[i] = NULL;
    }
}
int64_t server_now(struct server *s) {
    return s->now;
}

/* -- what a client gets ---------------------------------------------------------------------------- */

static void got_confirm(struct conn *c, unsigned channel, uint64_t tag, bool multiple) {
    if (c->opens[channel] > 1)
        return;
    uint64_t first = multiple ? c->confirmed[channel] + 1 : tag;
    assert(first == c->confirmed[channel] + 1 && tag >= first && tag <= c->published[channel]);
    for (uint64_t i = first; i <= tag; i++)
        assert(i >= SEQ_MAX || c->position[channel][i] <= log_durable(server.log));
    c->confirmed[channel] = tag;
}

static void got_method(struct conn *c, const struct frame *f) {
    assert(f->payload.n >= 4 && c->content_left == 0 && !c->wants_header);
    uint32_t id = be_get32(f->payload.p);
    unsigned n = f->channel < 8 ? f->channel : 0;
    struct span rest = span_of(f->payload.p + 4, f->payload.n - 4);
    if (id == AMQP_BASIC_DELIVER_METHOD || id == AMQP_BASIC_GET_OK_METHOD ||
        id == AMQP_BASIC_RETURN_METHOD)
        c->wants_header = true;
    if (id == AMQP_BASIC_ACK_METHOD || id == AMQP_BASIC_NACK_METHOD)
        got_confirm(c, n, be_get64(rest.p), (rest.p[8] & 1) != 0);
    if (id == AMQP_BASIC_DELIVER_METHOD || id == AMQP_BASIC_GET_OK_METHOD) {
        size_t skip = id == AMQP_BASIC_DELIVER_METHOD ? 1U + rest.p[0] : 0;
        uint64_t tag = be_get64(rest.p + skip);
        assert(tag == c->tags[n] + 1);
        c->tags[n] = tag;
    }
    if (id == AMQP_CHANNEL_OPEN_OK_METHOD) {
        c->tags[n] = c->confirmed[n] = 0;
        c->opens[n]++;
    }
}

static void look_at_output(struct conn *c) {
    struct frame f;
    const char *why;
    while (c->got.n > 0) {
        if (c->got.n >= 4 && memcmp(c->got.p, "AMQP", 4) == 0) {
            buf_consume(&c->got, 8);
            continue;
        }
        enum frame_result r = frame_read(buf_span(&c->got), FRAME_MAX_MOST, &f, &why);
        assert(r == FRAME_WHOLE);
        if (f.type == FRAME_METHOD) {
            got_method(c, &f);
        } else if (f.type == FRAME_HEADER) {
            struct content_head head;
            assert(c->wants_header && content_head_read(f.payload, &head) == OK);
            c->wants_header = false;
            c->content_left = head.body_bytes;
        } else if (f.type == FRAME_BODY) {
            assert(f.payload.n > 0 && f.payload.n <= c->content_left);
            c->content_left -= f.payload.n;
        }
        buf_consume(&c->got, f.bytes);
    }
}

/* -- a turn ---------------------------------------------------------------------------------------- */

static struct amqp *front;

/* What is unread is moved into memory of its own, so that the sanitizer sees who reads beyond it. */
static void run_conn(struct conn *c) {
    uint8_t *whole = c->in.p;
    c->wants_run = false;
    if (c->is_open && !c->is_finishing && !c->is_paused && !c->is_over && c->in.n > 0)
        amqp_protocol.readable(c);
    struct buf rest;
    buf_init(&rest, SIZE_MAX);
    buf_add(&rest, c->in.p, c->in.n);
    free(whole);
    c->in = rest;
}

/* Confirms are counted by what the server has given numbers to. */
static void note_published(struct conn *c) {
    if (!c->is_open)
        return;
    const struct session *s = c->user;
    for (unsigned i = 0; i < 8 && i < s->channel_cap; i++) {
        const struct channel *k = s->channels[i];
        if (k == NULL)
            continue;
        if (k->publish_seq < c->published[i])
            c->opens[i] = 2; /* anew, and what is in the socket may be of both */
        if (c->opens[i] > 1)
            continue;
        while (c->published[i] < k->publish_seq) {
            c->published[i]++;
            if (c->published[i] < SEQ_MAX)
                c->position[i][c->published[i]] = log_end(server.log);
        }
    }
}

static void turn(void) {
    for (unsigned i = 0; i < CONNS; i++)
        run_conn(&conns[i]);
    for (unsigned i = 0; i < CONNS; i++)
        note_published(&conns[i]);
    for (struct queue *q; (q = engine_woken(server.engine));)
        amqp_on_woken(front, q);
    (void)engine_tick(server.engine, server.now);
    for (struct queue *q; (q = engine_woken(server.engine));)
        amqp_on_woken(front, q);
    (void)amqp_turn(front, server.now);
    (void)engine_clean(server.engine);
    for (unsigned i = 0; i < CONNS; i++) {
        struct conn *c = &conns[i];
        look_at_output(c);
        if (c->is_finishing && c->is_open && (c->out.n == 0 || !c->reads))
            conn_close(c, CLOSE_DONE);
    }
}

static void sync_disk(void) {
    if (log_batch_take(server.log)) {
        enum err e = log_batch_write(server.log);
        assert(e == OK);
        log_batch_done(server.log);
    }
    barrier_release(&server.barrier, log_durable(server.log));
    for (unsigned i = 0; i < CONNS; i++)
        look_at_output(&conns[i]);
}

/* -- what a client does ------------------------------------------------------------------------------ */

struct input {
    const uint8_t *p, *end;
};

static uint8_t next(struct input *in) {
    return in->p < in->end ? *in->p++ : 0;
}

static amqp_bytes_t name_of(uint8_t n) {
    static const char *const names[] = {"q0",         "q1",          "q2",  "",   "amq.direct",
                                        "amq.fanout", "amq.headers", "x0",  "x1", "amq.topic",
                                        REPLY_QUEUE,  "q0\r\n",      "\r\n"};
    return method_str(names[n % (sizeof names / sizeof names[0])]);
}

static amqp_table_t arguments_of(uint8_t n, amqp_table_entry_t entry[2]) {
    static const struct {
        const char *name;
        int kind;
        int64_t number;
        const char *text;
    } all[] = {
        {"x-max-length", AMQP_FIELD_KIND_I32, 1, NULL},
        {"x-message-ttl", AMQP_FIELD_KIND_I64, 10, NULL},
        {"x-dead-letter-exchange", AMQP_FIELD_KIND_UTF8, 0, "x0"},
        {"x-dead-letter-exchange", AMQP_FIELD_KIND_UTF8, 0, ""},
        {"x-expires", AMQP_FIELD_KIND_I32, 50, NULL},
        {"x-queue-type", AMQP_FIELD_KIND_UTF8, 0, "quorum"},
        {"x-single-active-consumer", AMQP_FIELD_KIND_BOOLEAN, 1, NULL},
        {"x-overflow", AMQP_FIELD_KIND_UTF8, 0, "reject-publish"},
        {"x-delivery-limit", AMQP_FIELD_KIND_I32, 1, NULL},
        {"x-priority", AMQP_FIELD_KIND_I32, 5, NULL},
        {"x-match", AMQP_FIELD_KIND_UTF8, 0, "any"},
        {"alternate-exchange", AMQP_FIELD_KIND_UTF8, 0, "x1"},
        {"x-message-ttl", AMQP_FIELD_KIND_UTF8, 0, "no"},
        {"x-nixie-ids", AMQP_FIELD_KIND_BOOLEAN, 1, NULL},
    };
    const unsigned count = sizeof all / sizeof all[0];
    amqp_table_t t = {.entries = entry};
    for (unsigned part = 0; part < 2; part++) {
        unsigned i = part == 0 ? n & 15 : n >> 4;
        if (i >= count)
            continue;
        amqp_table_entry_t *e = &entry[t.num_entries++];
        *e = (amqp_table_entry_t){.key = method_str(all[i].name)};
        e->value.kind = (uint8_t)all[i].kind;
        if (all[i].kind == AMQP_FIELD_KIND_UTF8)
            e->value.value.bytes = method_str(all[i].text);
        else if (all[i].kind == AMQP_FIELD_KIND_BOOLEAN)
            e->value.value.boolean = 1;
        else if (all[i].kind == AMQP_FIELD_KIND_I32)
            e->value.value.i32 = (int32_t)all[i].number;
        else
            e->value.value.i64 = all[i].number;
    }
    return t;
}

static void send_content(struct conn *c, uint16_t channel, struct input *in) {
    uint8_t how = next(in), n = next(in);
    struct buf *out = &c->in;
    size_t body = (size_t)n * (how & 1 ? 40 : 1);
    size_t mark = frame_begin(out, FRAME_HEADER, channel);
    be_add16(out, CONTENT_CLASS);
    be_add16(out, 0);
    be_add64(out, body);
    uint16_t flags = (uint16_t)(how & 2 ? PLACE_FLAG(PLACE_EXPIRATION) : 0);
    if (how & 4)
        flags |= PLACE_FLAG(PLACE_REPLY_TO);
    be_add16(out, flags);
    const char *reply = (how & 0x18) == 0x18 ? REPLY_QUEUE : "r";
    if (how & 4) {
        buf_add_byte(out, (uint8_t)strlen(reply));
        buf_add_str(out, reply);
    }
    if (how & 2)
        buf_add_str(out, (how & 0x50) == 0x50 ? "\1x" : "\0015");
    frame_end(out, mark);
    for (size_t sent = 0; sent < body;) {
        size_t part = how & 32 ? (body + 1) / 2 : body;
        part = part < body - sent ? part : body - sent;
        mark = frame_begin(out, FRAME_BODY, channel);
        memset(buf_reserve(out, part), 'x', part);
        out->n += part;
        frame_end(out, mark);
        sent += part;
    }
}

static void put(struct conn *c, uint16_t channel, uint32_t id, void *decoded) {
    method_write(&c->in, channel, id, decoded);
}

static void send_queue_method(struct conn *c, uint16_t channel, struct input *in) {
    static const char *const types[] = {"direct", "fanout", "topic", "headers"};
    amqp_table_entry_t entries[2];
    uint8_t what = next(in), name = next(in), bits = next(in), arguments = next(in);
    amqp_table_t table = arguments_of(arguments, entries);
    switch (what % 9) {
    case 0:
    case 1:
        put(c, channel, AMQP_QUEUE_DECLARE_METHOD,
            &(amqp_queue_declare_t){.queue = name_of(name),
                                    .passive = (bits & 24) == 24,
                                    .durable = bits & 1,
                                    .exclusive = (bits >> 1) & 1,
                                    .auto_delete = (bits >> 2) & 1,
                                    .arguments = table});
        break;
    case 2:
        put(c, channel, AMQP_QUEUE_BIND_METHOD,
            &(amqp_queue_bind_t){.queue = name_of(name),
                                 .exchange = name_of(bits),
                                 .routing_key = name_of(bits >> 4),
                                 .arguments = table});
        break;
    case 3:
        put(c, channel, AMQP_QUEUE_UNBIND_METHOD,
            &(amqp_queue_unbind_t){.queue = name_of(name),
                                   .exchange = name_of(bits),
                                   .routing_key = name_of(bits >> 4),
                                   .arguments = table});
        break;
    case 4:
        put(c, channel, AMQP_QUEUE_PURGE_METHOD, &(amqp_queue_purge_t){.queue = name_of(name)});
        break;
    case 5:
        put(c, channel, AMQP_QUEUE_DELETE_METHOD,
            &(amqp_queue_delete_t){
                .queue = name_of(name), .if_unused = bits & 1, .if_empty = (bits >> 1) & 1});
        break;
    case 6:
        put(c, channel, AMQP_EXCHANGE_DECLARE_METHOD,
            &(amqp_exchange_declare_t){.exchange = name_of(name),
                                       .type = method_str(types[bits & 3]),
                                       .passive = (bits & 12) == 12,
                                       .durable = (bits >> 4) & 1,
                                       .auto_delete = (bits >> 5) & 1,
                                       .internal = (bits >> 6) & 1,
                                       .arguments = table});
        break;
    case 7:
        put(c, channel, AMQP_EXCHANGE_DELETE_METHOD,
            &(amqp_exchange_delete_t){.exchange = name_of(name), .if_unused = bits & 1});
        break;
    default:
        put(c, channel, AMQP_EXCHANGE_BIND_METHOD,
            &(amqp_exchange_bind_t){.destination = name_of(name),
                                    .source = name_of(bits),
                                    .routing_key = name_of(bits >> 4)});
    }
}

static void send_publish(struct conn *c, uint16_t channel, struct input *in) {
    uint8_t exchange = next(in), key = next(in);
    uint8_t name = (exchange & 15) < 8 ? 3 : exchange;
    put(c, channel, AMQP_BASIC_PUBLISH_METHOD,
        &(amqp_basic_publish_t){
            .exchange = name_of(name), .routing_key = name_of(key), .mandatory = exchange >> 7});
    send_content(c, channel, in);
}

static void send_basic_method(struct conn *c, uint16_t channel, struct input *in) {
    amqp_table_entry_t entries[2];
    uint8_t what = next(in), a = next(in), b = next(in);
    uint64_t tag = a & 15;
    switch (what % 12) {
    case 0:
        put(c, channel, AMQP_BASIC_CONSUME_METHOD,
            &(amqp_basic_consume_t){.queue = name_of(a),
                                    .consumer_tag = name_of(b),
                                    .no_ack = (b >> 4) & 1,
                                    .exclusive = (b >> 5) == 7,
                                    .arguments = arguments_of(b | 0xf0, entries)});
        break;
    case 1:
        put(c, channel, AMQP_BASIC_CANCEL_METHOD,
            &(amqp_basic_cancel_t){.consumer_tag = name_of(a)});
        break;
    case 2:
        put(c, channel, AMQP_BASIC_GET_METHOD,
            &(amqp_basic_get_t){.queue = name_of(a), .no_ack = b & 1});
        break;
    case 3:
    case 4:
        put(c, channel, AMQP_BASIC_ACK_METHOD,
            &(amqp_basic_ack_t){.delivery_tag = tag, .multiple = b & 1});
        break;
    case 5:
    case 6:
        put(c, channel, AMQP_BASIC_NACK_METHOD,
            &(amqp_basic_nack_t){.delivery_tag = tag, .multiple = b & 1, .requeue = (b >> 1) & 1});
        break;
    case 7:
        put(c, channel, AMQP_BASIC_QOS_METHOD,
            &(amqp_basic_qos_t){.prefetch_count = a & 3, .global = b & 1});
        break;
    case 8:
        put(c, channel, AMQP_BASIC_RECOVER_METHOD, &(amqp_basic_recover_t){.requeue = b & 1});
        break;
    case 9:
        put(c, channel, b & 1 ? AMQP_TX_SELECT_METHOD : AMQP_CONFIRM_SELECT_METHOD,
            &(amqp_confirm_select_t){0});
        break;
    case 10:
        put(c, channel, b & 1 ? AMQP_TX_COMMIT_METHOD : AMQP_TX_ROLLBACK_METHOD, NULL);
        break;
    default:
        put(c, channel, b & 1 ? AMQP_CHANNEL_CLOSE_METHOD : AMQP_CHANNEL_CLOSE_OK_METHOD,
            &(amqp_channel_close_t){.reply_code = 200, .reply_text = method_str("")});
    }
}

static void connect(struct conn *c) {
    if (c->is_open)
        return;
    buf_clear(&c->in);
    buf_clear(&c->out);
    buf_clear(&c->got);
    struct buf in = c->in, out = c->out, got = c->got;
    *c = (struct conn){.in = in, .out = out, .got = got, .is_open = true, .reads = true};
    bool ok = amqp_protocol.opened(c, front);
    assert(ok);
    buf_add(&c->in, "AMQP\0\0\11\1", 8);
    put(c, 0, AMQP_CONNECTION_START_OK_METHOD,
        &(amqp_connection_start_ok_t){.mechanism = method_str("PLAIN"),
                                      .response = {.len = 12, .bytes = "\0guest\0guest"},
                                      .locale = method_str("en_US")});
    put(c, 0, AMQP_CONNECTION_TUNE_OK_METHOD,
        &(amqp_connection_tune_ok_t){.frame_max = 131072, .channel_max = 2047});
    put(c, 0, AMQP_CONNECTION_OPEN_METHOD,
        &(amqp_connection_open_t){.virtual_host = method_str("/")});
    for (uint16_t channel = 1; channel <= 3; channel++)
        put(c, channel, AMQP_CHANNEL_OPEN_METHOD, &(amqp_channel_open_t){0});
}

/* Something to begin with. */
static void declare_some(struct conn *c) {
    put(c, 1, AMQP_QUEUE_DECLARE_METHOD,
        &(amqp_queue_declare_t){.queue = method_str("q0"), .durable = 1});
    put(c, 1, AMQP_QUEUE_DECLARE_METHOD, &(amqp_queue_declare_t){.queue = method_str("q1")});
    put(c, 1, AMQP_EXCHANGE_DECLARE_METHOD,
        &(amqp_exchange_declare_t){.exchange = method_str("x0"), .type = method_str("fanout")});
    put(c, 1, AMQP_QUEUE_BIND_METHOD,
        &(amqp_queue_bind_t){.queue = method_str("q1"), .exchange = method_str("x0")});
}

/* Most of what clients send goes to a channel that is there: errors end sessions soon enough. */
static void need_channel(struct conn *c, uint16_t n) {
    const struct session *s = c->user;
    if (!c->is_open || s->phase != OPEN || c->in.n > 0)
        return;
    const struct channel *k = n < s->channel_cap ? s->channels[n] : NULL;
    if (k != NULL && k->is_closing)
        put(c, n, AMQP_CHANNEL_CLOSE_OK_METHOD, NULL);
    if (k == NULL || k->is_closing)
        put(c, n, AMQP_CHANNEL_OPEN_METHOD, &(amqp_channel_open_t){0});
}

static void step(struct input *in) {
    uint8_t what = next(in), who = next(in);
    struct conn *c = &conns[who % CONNS];
    uint16_t channel = 1 + (who >> 4) % 3;
    if (what % 16 >= 2 && what % 16 <= 9) {
        connect(c);
        need_channel(c, channel);
    }
    switch (what % 16) {
    case 0:
        connect(c);
        break;
    case 1:
        if (c->is_open)
            put(c, channel, AMQP_CHANNEL_OPEN_METHOD, &(amqp_channel_open_t){0});
        break;
    case 2:
    case 3:
        send_queue_method(c, channel, in);
        break;
    case 4:
    case 5:
    case 6:
        send_publish(c, channel, in);
        break;
    case 7:
    case 8:
    case 9:
        send_basic_method(c, channel, in);
        break;
    case 10:
        if (who & 0x40)
            break;
        for (unsigned n = next(in) % 24; n > 0; n--)
            buf_add_byte(&c->in, next(in));
        break;
    case 11:
        server.now += next(in);
        loop_ms += 1000;
        for (size_t i = 0; i < sizeof timers / sizeof timers[0]; i++) {
            if (timers[i] != NULL)
                timers[i]->fire(timers[i]);
        }
        break;
    case 12:
        if (c->is_open && who & 0x80)
            conn_close(c, CLOSE_PEER);
        else if (c->is_open)
            put(c, 0, AMQP_CONNECTION_CLOSE_METHOD,
                &(amqp_connection_close_t){.reply_code = 200, .reply_text = method_str("")});
        break;
    case 13:
        c->reads = !c->reads;
        if (c->is_open)
            conn_flush(c);
        if (c->is_open && c->reads && c->is_over) {
            c->is_over = false;
            amqp_protocol.drained(c);
        }
        break;
    default:
        sync_disk();
    }
    turn();
}

/* -- the whole --------------------------------------------------------------------------------------- */

static bool check_queue(void *ctx, const struct queue_view *q) {
    (void)ctx;
    assert(queue_view_holds(q) && q->count[STATE_PROCESSING] == 0);
    return true;
}

static void begin(struct crash_io *disk) {
    const struct log_config config = {
        .io = &crash_io_table, .io_ctx = disk, .segment_bytes = LOG_SEGMENT_BYTES_MIN};
    struct log_findings found;
    struct log_trouble trouble;
    log_level_set(LOG_LEVEL_ERROR);
    server = (struct server){.now = 1000000, .test_clock = true};
    server.limits.connections_max = 10;
    server.limits.payload_bytes_max = PAYLOAD_MAX;
    server.engine = engine_new(1);
    barrier_init(&server.barrier);
    struct log_reader reader = engine_reader(server.engine);
    enum err e = log_open(&config, &reader, &server.log, &found, &trouble);
    assert(e == OK);
    engine_attach(server.engine, server.log);
    while (engine_begin(server.engine, server.now))
        ;
    const struct amqp_config amqp = {.product = "Nixie", .version = "0"};
    front = amqp_new(&server, &amqp);
}

static void end(struct crash_io *disk) {
    for (unsigned i = 0; i < CONNS; i++) {
        if (conns[i].is_open)
            conn_close(&conns[i], CLOSE_PEER);
    }
    for (int i = 0; i < 3; i++) {
        turn();
        sync_disk();
    }
    char text[256];
    bool ok = engine_verify(server.engine, text, sizeof text);
    if (!ok)
        log_error("%s", text);
    assert(ok);
    enum err e = engine_queues(server.engine, (struct span){0}, check_queue, NULL);
    assert(e == OK);
    amqp_free(front);
    engine_free(server.engine);
    log_free(server.log);
    crash_io_free(disk);
    for (unsigned i = 0; i < CONNS; i++) {
        buf_release(&conns[i].in);
        buf_release(&conns[i].out);
        buf_release(&conns[i].got);
        conns[i] = (struct conn){0};
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct crash_io *disk = crash_io_new(1);
    struct input in = {.p = data, .end = data + size};
    for (unsigned i = 0; i < CONNS; i++) {
        buf_init(&conns[i].in, SIZE_MAX);
        buf_init(&conns[i].out, SIZE_MAX);
        buf_init(&conns[i].got, SIZE_MAX);
    }
    begin(disk);
    connect(&conns[0]);
    declare_some(&conns[0]);
    turn();
    for (int i = 0; i < STEPS_MAX && in.p < in.end; i++)
        step(&in);
    end(disk);
    return 0;
}
