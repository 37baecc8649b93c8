/* Publishing: method, header and bodies become one call of the engine; and its confirm.
 *
 * Confirms of a channel are merged: acks (or nacks) of publishings that follow one another become one
 * frame with `multiple`, written at the end of the turn, and sent when all of them are on disk. A
 * basic.return is written at once, so that it is before its confirm. */
#include "amqp/content.h"
#include "amqp/front.h"

#include "base/mem.h"
#include "model/scope.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define BODY_ABSURD (UINT64_C(512) * 1024 * 1024) /* over it the connection ends */
#define EXPIRATION_MAX INT64_C(315360000000)      /* ten years of milliseconds */
#define BODY_KEPT 16384

struct publishing {
    bool is_open, has_header, mandatory;
    uint8_t names[2 * 255]; /* the exchange's, then the key */
    uint8_t exchange_bytes, key_bytes;
    struct content_head content; /* points into `header` */
    size_t kept_bytes;           /* counted in the session's */
    struct buf header, body;
};

bool publish_is_open(const struct channel *c) {
    return c->publishing != NULL && c->publishing->is_open;
}

/* The publishing is whole, or goes with its channel. */
static void let_go(struct channel *c) {
    c->session->kept_bytes -= c->publishing->kept_bytes;
    c->publishing->kept_bytes = 0;
}

void publish_free(struct channel *c) {
    if (c->publishing == NULL)
        return;
    let_go(c);
    buf_release(&c->publishing->header);
    buf_release(&c->publishing->body);
    free(c->publishing);
    c->publishing = NULL;
}

/* -- confirms -------------------------------------------------------------------------------- */

static void link_unconfirmed(struct channel *c) {
    struct amqp *a = c->session->amqp;
    if (c->link_unconfirmed != NULL)
        return;
    c->next_unconfirmed = a->unconfirmed;
    c->link_unconfirmed = &a->unconfirmed;
    if (c->next_unconfirmed != NULL)
        c->next_unconfirmed->link_unconfirmed = &c->next_unconfirmed;
    a->unconfirmed = c;
}

static void unlink_unconfirmed(struct channel *c) {
    if (c->link_unconfirmed == NULL)
        return;
    *c->link_unconfirmed = c->next_unconfirmed;
    if (c->next_unconfirmed != NULL)
        c->next_unconfirmed->link_unconfirmed = c->link_unconfirmed;
    c->link_unconfirmed = NULL;
}

/* All below `confirm_from` are answered: `multiple` means just those of the run. */
static void write_run(struct channel *c) {
    if (c->confirm_from == 0)
        return;
    bool multiple = c->confirm_to > c->confirm_from;
    if (c->confirm_is_nack) {
        amqp_basic_nack_t nack = {.delivery_tag = c->confirm_to, .multiple = multiple};
        channel_send(c, true, AMQP_BASIC_NACK_METHOD, &nack);
    } else {
        amqp_basic_ack_t ack = {.delivery_tag = c->confirm_to, .multiple = multiple};
        channel_send(c, true, AMQP_BASIC_ACK_METHOD, &ack);
    }
    c->confirm_from = 0;
}

void confirms_write(struct channel *c) {
    write_run(c);
    unlink_unconfirmed(c);
}

static void confirm(struct channel *c, uint64_t seq, bool is_nack) {
    if (seq == 0)
        return;
    if (c->confirm_from != 0 && c->confirm_is_nack != is_nack)
        write_run(c);
    if (c->confirm_from == 0)
        c->confirm_from = seq;
    c->confirm_to = seq;
    c->confirm_is_nack = is_nack;
    link_unconfirmed(c);
}

/* -- one publishing -------------------------------------------------------------------------- */

#define METHOD AMQP_BASIC_PUBLISH_METHOD

/* Decimal digits, nothing else; -1 when it is none. */
static int64_t read_expiration(struct span text) {
    int64_t v = 0;
    if (text.n == 0 || text.n > 15)
        return -1;
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] < '0' || text.p[i] > '9')
            return -1;
        v = v * 10 + (text.p[i] - '0');
    }
    return v <= EXPIRATION_MAX ? v : -1;
}

/* False: the channel failed. */
static bool check_properties(struct channel *c, const struct content_head *content,
                             int64_t *ret_expiration_ms) {
    const struct session *s = c->session;
    *ret_expiration_ms = -1;
    if (content_has(content, PLACE_USER_ID)) {
        struct span user = content_text(content, PLACE_USER_ID);
        if (!span_equal_str(user, s->user)) {
            channel_fail(c, CODE_PRECONDITION_FAILED, METHOD,
                         "user_id property set to '%.*s' but authenticated user was '%s'",
                         TEXT(span_cut_utf8(user, 64)), s->user);
            return false;
        }
    }
    if (content_has(content, PLACE_EXPIRATION)) {
        struct span text = content_text(content, PLACE_EXPIRATION);
        *ret_expiration_ms = read_expiration(text);
        if (*ret_expiration_ms < 0) {
            channel_fail(c, CODE_PRECONDITION_FAILED, METHOD,
                         "invalid expiration '%.*s': it must be a number of milliseconds, at most "
                         "%" PRId64,
                         TEXT(span_cut_utf8(text, 64)), EXPIRATION_MAX);
            return false;
        }
    }
    if (content->bad_keys) {
        channel_fail(c, CODE_PRECONDITION_FAILED, METHOD,
                     "invalid message: CC and BCC must be arrays of strings");
        return false;
    }
    return true;
}

/* The keys of the method, CC and BCC. False: the channel failed. */
static bool read_keys(struct channel *c, const struct publication *p, struct envelope *v) {
    size_t n = 1;
    v->keys[0] = p->key;
    enum err e = content_keys(p->content->cc, v->keys, ENVELOPE_KEYS, &n);
    size_t shown = n;
    if (e == OK)
        e = content_keys(p->content->bcc, v->keys, ENVELOPE_KEYS, &n);
    if (e != OK) {
        channel_fail(c, CODE_PRECONDITION_FAILED, METHOD,
                     e == ERR_TOO_LARGE
                         ? "invalid message: CC and BCC have more than %d keys"
                         : "invalid message: CC and BCC must be arrays of at most %d strings",
                     ENVELOPE_KEYS - 1);
        return false;
    }
    v->key_count = (uint8_t)n;
    v->bcc_count = (uint8_t)(n - shown);
    return true;
}

/* The headers as JSON, for headers exchanges and for people. False: the channel failed. */
static bool read_headers(struct channel *c, const struct content_head *content, struct span *ret) {
    struct amqp *a = c->session->amqp;
    struct span wire = content_headers(content);
    *ret = (struct span){0};
    if (wire.n <= 4)
        return true;
    amqp_table_t table;
    buf_clear(&a->json);
    enum err e = table_read(a->pool, wire, &table);
    if (e == OK)
        table_to_json(&table, "BCC", &a->json);
    if (e != OK || a->json.n > LIMIT_HEADERS) {
        channel_fail(c, CODE_PRECONDITION_FAILED, METHOD,
                     "invalid message: its headers are larger than %d bytes", LIMIT_HEADERS);
        return false;
    }
    *ret = buf_span(&a->json);
    return true;
}

/* Where it died before, when its vhost takes the publisher's word for it: then its headers are those in
 * `without`. */
static const struct content_head *read_deaths(struct channel *c, const struct publication *p,
                                              struct envelope *v, struct content_head *without) {
    struct amqp *a = c->session->amqp;
    struct vhost_settings settings;
    v->death_count = 0;
    if (!p->content->has_deaths ||
        engine_vhost(a->server->engine, session_vhost(c->session), &settings) != OK ||
        !settings.reads_deaths || !content_take_deaths(p->content, v))
        return p->content;
    buf_clear(&a->headers);
    content_headers_without_deaths(p->content, &a->headers);
    *without = *p->content;
    without->values[PLACE_HEADERS] = buf_span(&a->headers);
    return without;
}

static bool are_small(struct channel *c, size_t properties_bytes) {
    if (properties_bytes <= CONTENT_PROPERTIES_MAX)
        return true;
    channel_fail(c, CODE_PRECONDITION_FAILED, METHOD,
                 "invalid message: its properties are larger than %d bytes",
                 CONTENT_PROPERTIES_MAX);
    return false;
}

/* The property list to keep; the address of answers is filled in. False: the channel failed. */
static bool read_list(struct channel *c, const struct content_head *content, struct span *ret) {
    struct amqp *a = c->session->amqp;
    struct content_head with_address;
    uint8_t address[1 + UINT8_MAX];
    if (content_has(content, PLACE_REPLY_TO) &&
        span_equal_str(content_text(content, PLACE_REPLY_TO), REPLY_QUEUE)) {
        struct span name = reply_name(c);
        if (name.n == 0) {
            channel_fail(c, CODE_PRECONDITION_FAILED, METHOD, "fast reply consumer does not exist");
            return false;
        }
        address[0] = (uint8_t)name.n;
        memcpy(address + 1, name.p, name.n);
        with_address = *content;
        with_address.values[PLACE_REPLY_TO] = span_of(address, name.n + 1);
        content = &with_address;
    }
    buf_clear(&a->packed);
    content_properties(content, &a->packed);
    *ret = buf_span(&a->packed);
    return are_small(c, ret->n); /* numbers were widened */
}

static enum published_how fail_publish(struct channel *c, const struct publication *p, enum err e) {
    struct span vhost = session_vhost(c->session);
    if (e == ERR_DISK_FULL && p->seq != 0) {
        confirm(c, p->seq, true);
        return PUBLISH_REFUSED;
    }
    if (e == ERR_NO_EXCHANGE)
        channel_fail(c, CODE_NOT_FOUND, METHOD, "no exchange '%.*s' in vhost '%.*s'",
                     TEXT(p->exchange), TEXT(vhost));
    else if (e == ERR_REFUSED)
        channel_fail(c, CODE_ACCESS_REFUSED, METHOD,
                     "cannot publish to internal exchange '%.*s' in vhost '%.*s'",
                     TEXT(p->exchange), TEXT(vhost));
    else
        channel_fail_err(c, METHOD, e);
    return PUBLISH_FAILED;
}

/* To an address of answers. */
static enum published_how publish_answer(struct channel *c, const struct publication *p) {
    if (!reply_deliver(c->session->amqp, p) && p->mandatory)
        handout_return(c, p);
    confirm(c, p->seq, false);
    return PUBLISH_DONE;
}

enum published_how publish_now(struct channel *c, const struct publication *p) {
    struct amqp *a = c->session->amqp;
    struct envelope *v = a->envelope;
    struct publish publish = {.envelope = v, .payload = p->body};
    struct published done = {0};
    if (!check_properties(c, p->content, &publish.expiration_ms))
        return PUBLISH_FAILED;
    if (p->exchange.n == 0 && reply_is_address(p->key))
        return publish_answer(c, p);
    struct content_head without;
    const struct content_head *content = read_deaths(c, p, v, &without);
    v->exchange = p->exchange;
    v->expiration = content_text(p->content, PLACE_EXPIRATION);
    if (!read_keys(c, p, v) || !read_list(c, content, &v->properties) ||
        !read_headers(c, content, &publish.headers))
        return PUBLISH_FAILED;
    publish.priority = content_priority(p->content);
    if (!scope_name(session_vhost(c->session), p->exchange, &a->name))
        return fail_publish(c, p, ERR_NO_EXCHANGE);
    publish.exchange = buf_span(&a->name);

    enum err e = engine_publish(a->server->engine, server_now(a->server), &publish, &done);
    if (e != OK)
        return fail_publish(c, p, e);
    if (p->mandatory && done.queues == 0 && done.refused == 0)
        handout_return(c, p);
    confirm(c, p->seq, done.refused > 0);
    return done.refused > 0 ? PUBLISH_REFUSED : PUBLISH_DONE;
}

/* -- receiving ------------------------------------------------------------------------------- */

bool publish_keep(struct channel *c, size_t n) {
    struct session *s = c->session;
    if (n <= LIMIT_AMQP_KEPT - s->kept_bytes) {
        s->kept_bytes += n;
        return true;
    }
    channel_fail(c, CODE_PRECONDITION_FAILED, METHOD,
                 "this connection's messages that are not whole, and its transactions, are larger "
                 "than %d bytes",
                 LIMIT_AMQP_KEPT);
    return false;
}

/* The same for what is received. */
static bool keep_part(struct channel *c, struct span part) {
    if (!publish_keep(c, part.n))
        return false;
    c->publishing->kept_bytes += part.n;
    return true;
}

void publish_begin(struct channel *c, const struct method *m) {
    const amqp_basic_publish_t *publish = m->decoded;
    struct publishing *w = c->publishing;
    if (publish->immediate) {
        channel_fail(c, CODE_NOT_IMPLEMENTED, METHOD, "immediate=true");
        return;
    }
    if (w == NULL) {
        w = c->publishing = mem_alloc(sizeof *w);
        buf_init(&w->header, FRAME_MAX_MOST);
        buf_init(&w->body, LIMIT_PAYLOAD_MOST);
    }
    c->session->has_published = true;
    w->is_open = true;
    w->has_header = false;
    w->mandatory = publish->mandatory;
    w->exchange_bytes = (uint8_t)publish->exchange.len;
    w->key_bytes = (uint8_t)publish->routing_key.len;
    memcpy(w->names, publish->exchange.bytes, publish->exchange.len);
    memcpy(w->names + publish->exchange.len, publish->routing_key.bytes, publish->routing_key.len);
    buf_clear(&w->body);
}

static void complete(struct channel *c, struct span body) {
    struct publishing *w = c->publishing;
    const struct publication p = {
        .exchange = span_of(w->names, w->exchange_bytes),
        .key = span_of(w->names + w->exchange_bytes, w->key_bytes),
        .mandatory = w->mandatory,
        .seq = c->confirms ? ++c->publish_seq : 0,
        .content = &w->content,
        .body = body,
    };
    w->is_open = false;
    let_go(c);
    if (!access_publish(c, p.exchange))
        return;
    if (c->is_tx) {
        tx_publish(c, &p, buf_span(&w->header));
        return;
    }
    if (publish_now(c, &p) == PUBLISH_FAILED)
        return;
    if (w->body.cap > BODY_KEPT)
        buf_release(&w->body);
    if (w->header.cap > BODY_KEPT)
        buf_release(&w->header);
}

static void header_frame(struct channel *c, struct span payload) {
    struct publishing *w = c->publishing;
    struct session *s = c->session;
    buf_clear(&w->header);
    buf_add_span(&w->header, payload);
    if (content_head_read(buf_span(&w->header), &w->content) != OK) {
        session_fail(s, CODE_SYNTAX_ERROR, METHOD, "a content header that is ill-formed");
        return;
    }
    if (w->content.class_id != CONTENT_CLASS) {
        session_fail(s, CODE_UNEXPECTED_FRAME, METHOD,
                     "expected content header for class 60, got one for class %u instead",
                     w->content.class_id);
        return;
    }
    uint64_t n = w->content.body_bytes;
    if (n > BODY_ABSURD) {
        session_fail(s, CODE_FRAME_ERROR, METHOD, "a body of %" PRIu64 " bytes", n);
        return;
    }
    size_t max = s->amqp->server->limits.payload_bytes_max;
    if (n > max) {
        channel_fail(c, CODE_PRECONDITION_FAILED, METHOD,
                     "message size %" PRIu64 " is larger than configured max size %zu", n, max);
        return;
    }
    if (!are_small(c, w->content.properties.n))
        return;
    w->has_header = true;
    if (n == 0)
        complete(c, (struct span){0});
    else
        (void)keep_part(c, payload);
}

static void body_frame(struct channel *c, struct span payload) {
    struct publishing *w = c->publishing;
    uint64_t left = w->content.body_bytes - w->body.n;
    if (payload.n > left) {
        session_fail(c->session, CODE_FRAME_ERROR, METHOD,
                     "body frame of %zu bytes where %" PRIu64 " are missing", payload.n, left);
        return;
    }
    if (w->body.n == 0 && payload.n == left) {
        complete(c, payload); /* without copying it */
        return;
    }
    if (!keep_part(c, payload))
        return;
    buf_add_span(&w->body, payload);
    if (payload.n == left)
        complete(c, buf_span(&w->body));
}

void publish_frame(struct channel *c, const struct frame *f) {
    const struct publishing *w = c->publishing;
    bool is_header = f->type == FRAME_HEADER;
    if (!publish_is_open(c))
        session_fail(c->session, CODE_UNEXPECTED_FRAME, 0,
                     "expected method frame, got non method frame instead");
    else if (is_header == w->has_header)
        session_fail(c->session, CODE_UNEXPECTED_FRAME, METHOD,
                     is_header ? "expected content body, got non content body frame instead"
                               : "expected content header for class 60, got non content header "
                                 "frame instead");
    else if (is_header)
        header_frame(c, f->payload);
    else
        body_frame(c, f->payload);
    method_pool_clear(c->session->amqp->pool);
}
