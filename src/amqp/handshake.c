/* From the first byte to connection.open-ok:
 *
 *   AWAIT_HEADER --AMQP 0 0 9 1: start--> AWAIT_START_OK --a user: tune--> AWAIT_TUNE_OK
 *                --> AWAIT_OPEN --a vhost: open-ok--> OPEN
 *
 * Every other method on the way ends the connection; so does the time (LIMIT_AMQP_HANDSHAKE_MS). */
#include "amqp/front.h"

#include "base/logging.h"
#include "base/mem.h"

#include <inttypes.h>
#include <string.h>

#define HEADER_BYTES 8

#define MECHANISMS "PLAIN AMQPLAIN"

/* -- the protocol header ------------------------------------------------------------------------- */

static amqp_table_entry_t text_entry(const char *key, const char *text) {
    amqp_table_entry_t e = {.key = method_str(key)};
    e.value.kind = AMQP_FIELD_KIND_UTF8;
    e.value.value.bytes = method_str(text);
    return e;
}

static amqp_table_entry_t table_entry(const char *key, amqp_table_t table) {
    amqp_table_entry_t e = {.key = method_str(key)};
    e.value.kind = AMQP_FIELD_KIND_TABLE;
    e.value.value.table = table;
    return e;
}

static void send_start(struct session *s) {
    static const char *const can[] = {
        "publisher_confirms", "exchange_exchange_bindings",   "basic.nack",
        "connection.blocked", "authentication_failure_close", "consumer_cancel_notify",
        "per_consumer_qos",   "consumer_priorities",          "direct_reply_to",
    };
    enum { CAN = sizeof can / sizeof can[0] };
    amqp_table_entry_t capabilities[CAN];
    for (size_t i = 0; i < CAN; i++) {
        capabilities[i] = (amqp_table_entry_t){.key = method_str(can[i])};
        capabilities[i].value.kind = AMQP_FIELD_KIND_BOOLEAN;
        capabilities[i].value.value.boolean = 1;
    }
    const struct amqp_config *config = &s->amqp->config;
    amqp_table_entry_t entries[] = {
        table_entry("capabilities", (amqp_table_t){.num_entries = CAN, .entries = capabilities}),
        text_entry("cluster_name", "nixie"),
        text_entry("copyright", "Copyright (c) the Nixie authors, MIT License"),
        text_entry("information", "Nixie " NIXIE_VERSION),
        text_entry("platform", "Nixie " NIXIE_VERSION),
        text_entry("product", config->product),
        text_entry("version", config->version),
    };
    amqp_connection_start_t start = {
        .version_major = 0,
        .version_minor = 9,
        .server_properties = {.num_entries = sizeof entries / sizeof entries[0],
                              .entries = entries},
        .mechanisms = method_str(MECHANISMS),
        .locales = method_str("en_US"),
    };
    session_send(s, AMQP_CONNECTION_START_METHOD, &start);
}

/* 0-9-1, and 0-9, which all that claim it treat alike. */
static bool is_ours(const uint8_t *header) {
    return memcmp(header, "AMQP\0\0\11\1", HEADER_BYTES) == 0 ||
           memcmp(header, "AMQP\1\1\0\11", HEADER_BYTES) == 0;
}

size_t handshake_header(struct session *s, struct span in) {
    static const char name[] = "AMQP";
    size_t n = in.n < sizeof name - 1 ? in.n : sizeof name - 1;
    bool is_amqp = memcmp(in.p, name, n) == 0;
    if (is_amqp && in.n < HEADER_BYTES)
        return 0;
    if (is_amqp && is_ours(in.p)) {
        s->phase = AWAIT_START_OK;
        send_start(s);
        return HEADER_BYTES;
    }
    /* Another version, another protocol (HTTP, TLS): what is spoken here, and the end. */
    buf_add(session_out(s, false), "AMQP\0\0\11\1", HEADER_BYTES);
    session_finish(s, CLOSE_PROTOCOL);
    return in.n;
}

/* -- start-ok ------------------------------------------------------------------------------------ */

static const amqp_field_value_t *find(const amqp_table_t *t, const char *key, uint8_t kind) {
    for (int i = 0; i < t->num_entries; i++)
        if (span_equal_str(method_span(t->entries[i].key), key))
            return t->entries[i].value.kind == kind ? &t->entries[i].value : NULL;
    return NULL;
}

static char *text_of(struct span s) {
    char *text = mem_alloc(s.n + 1);
    if (s.n > 0)
        memcpy(text, s.p, s.n);
    return text;
}

static bool says_yes(const amqp_table_t *t, const char *key) {
    const amqp_field_value_t *v = find(t, key, AMQP_FIELD_KIND_BOOLEAN);
    return v != NULL && v->value.boolean;
}

static void read_properties(struct session *s, const amqp_table_t *t) {
    const amqp_field_value_t *name = find(t, "connection_name", AMQP_FIELD_KIND_UTF8);
    if (name != NULL && method_is_string(name->value.bytes))
        s->name = text_of(span_cut_utf8(method_span(name->value.bytes), LIMIT_AMQP_NAME));
    const amqp_field_value_t *can = find(t, "capabilities", AMQP_FIELD_KIND_TABLE);
    if (can == NULL)
        return;
    s->can_cancel_notify = says_yes(&can->value.table, "consumer_cancel_notify");
    s->can_blocked = says_yes(&can->value.table, "connection.blocked");
    s->can_auth_close = says_yes(&can->value.table, "authentication_failure_close");
}

static void refuse(struct session *s, const char *mechanism, struct span user) {
    struct span shown = span_cut_utf8(user, 64);
    log_warn("amqp %s: login of '%.*s' was refused", conn_peer(s->conn),
             span_is_utf8(shown) ? (int)shown.n : 0, (const char *)shown.p);
    if (s->can_auth_close)
        session_fail(s, CODE_ACCESS_REFUSED, 0,
                     "Login was refused using authentication mechanism %s. For details see the "
                     "broker logfile.",
                     mechanism);
    else
        session_finish(s, CLOSE_PROTOCOL);
}

static void start_ok(struct session *s, const amqp_connection_start_ok_t *m) {
    read_properties(s, &m->client_properties);
    struct span mechanism = method_span(m->mechanism);
    bool is_amqplain = span_equal_str(mechanism, "AMQPLAIN");
    const char *name = is_amqplain ? "AMQPLAIN" : "PLAIN";
    if (!is_amqplain && !span_equal_str(mechanism, "PLAIN")) {
        session_fail(s, CODE_COMMAND_INVALID, AMQP_CONNECTION_START_OK_METHOD,
                     "unknown authentication mechanism '%.*s'", TEXT(span_cut_utf8(mechanism, 64)));
        return;
    }
    struct credentials c;
    if (auth_read(is_amqplain, method_span(m->response), &c) != OK) {
        session_fail(s, CODE_SYNTAX_ERROR, AMQP_CONNECTION_START_OK_METHOD,
                     "response of the authentication mechanism %s is ill-formed", name);
        return;
    }
    if (!auth_is_user(&s->amqp->config, &c, conn_peer(s->conn))) {
        refuse(s, name, c.user);
        return;
    }
    s->user = text_of(c.user);
    s->phase = AWAIT_TUNE_OK;
    amqp_connection_tune_t tune = {
        .channel_max = LIMIT_AMQP_CHANNELS,
        .frame_max = FRAME_MAX_MOST,
        .heartbeat = LIMIT_AMQP_HEARTBEAT_S,
    };
    session_send(s, AMQP_CONNECTION_TUNE_METHOD, &tune);
}

/* -- tune-ok, open --------------------------------------------------------------------------------- */

/* False: it failed. */
static bool check_tuned(struct session *s, const char *what, uint32_t given, uint32_t least,
                        uint32_t most) {
    if (given > most || given == 0)
        session_fail(s, CODE_NOT_ALLOWED, AMQP_CONNECTION_TUNE_OK_METHOD,
                     "negotiated %s = %" PRIu32
                     " is higher than the maximum allowed value (%" PRIu32 ")",
                     what, given, most);
    else if (given < least)
        session_fail(s, CODE_NOT_ALLOWED, AMQP_CONNECTION_TUNE_OK_METHOD,
                     "negotiated %s = %" PRIu32 " is lower than the minimum allowed value (%" PRIu32
                     ")",
                     what, given, least);
    return s->phase != CLOSING;
}

static void tune_ok(struct session *s, const amqp_connection_tune_ok_t *m) {
    if (!check_tuned(s, "frame_max", m->frame_max, FRAME_MAX_LEAST, FRAME_MAX_MOST) ||
        !check_tuned(s, "channel_max", m->channel_max, 1, LIMIT_AMQP_CHANNELS))
        return;
    s->frame_max = m->frame_max;
    s->channel_max = m->channel_max;
    s->heartbeat_s = m->heartbeat;
    s->phase = AWAIT_OPEN;
}

static void open_session(struct session *s, const amqp_connection_open_t *m) {
    struct span vhost = method_span(m->virtual_host);
    if (!engine_vhost_is_there(s->amqp->server->engine, vhost)) {
        session_fail(s, CODE_NOT_ALLOWED, AMQP_CONNECTION_OPEN_METHOD, "vhost %.*s not found",
                     TEXT(vhost));
        return;
    }
    if (!access_open(s, vhost)) {
        session_fail(s, CODE_NOT_ALLOWED, AMQP_CONNECTION_OPEN_METHOD,
                     "access to vhost '%.*s' refused for user '%s'", TEXT(vhost), s->user);
        return;
    }
    s->vhost = text_of(vhost);
    s->phase = OPEN;
    conn_set_deadline(s->conn, 0);
    conn_set_in_max(s->conn, LIMIT_AMQP_UNREAD);
    conn_set_out_hold(s->conn, LIMIT_AMQP_UNSENT);
    heartbeat_start(s->amqp);
    amqp_connection_open_ok_t ok = {.known_hosts = amqp_empty_bytes};
    session_send(s, AMQP_CONNECTION_OPEN_OK_METHOD, &ok);
}

void handshake_method(struct session *s, const struct method *m) {
    if (s->phase == AWAIT_START_OK && m->id == AMQP_CONNECTION_START_OK_METHOD)
        start_ok(s, m->decoded);
    else if (s->phase == AWAIT_TUNE_OK && m->id == AMQP_CONNECTION_TUNE_OK_METHOD)
        tune_ok(s, m->decoded);
    else if (s->phase == AWAIT_OPEN && m->id == AMQP_CONNECTION_OPEN_METHOD)
        open_session(s, m->decoded);
    else
        session_fail(s, CODE_CHANNEL_ERROR, m->id, "unexpected method in connection state %s",
                     s->phase == AWAIT_START_OK  ? "starting"
                     : s->phase == AWAIT_TUNE_OK ? "tuning"
                                                 : "opening");
}
