/* Transactions, and the switch to confirms. Commit does the publishings in their order, then the
 * acknowledgements; each is as durable as it would be alone, and commit-ok comes when all are on disk.
 * A crash in the middle may leave some done: AMQP promises no more. */
#include "amqp/content.h"
#include "amqp/front.h"

#include "base/mem.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    TX_ITEMS_MAX = 10000,
    TX_BYTES_MAX = 64 * 1024 * 1024,
};

struct kept {
    uint8_t *bytes; /* exchange, key, header, body; owned */
    size_t exchange_bytes, key_bytes, header_bytes, body_bytes;
    bool mandatory;
};

struct to_settle {
    struct delivery delivery;
    enum settle_action action;
};

struct tx {
    struct kept *kept;
    size_t kept_count, kept_cap;
    struct to_settle *settles;
    size_t settle_count, settle_cap;
    size_t bytes;
    enum settle_action action; /* of those that are being taken */
};

static struct tx *need(struct channel *c) {
    if (c->tx == NULL)
        c->tx = mem_alloc(sizeof *c->tx);
    return c->tx;
}

static void release(struct channel *c, struct tx *t) {
    c->session->kept_bytes -= t->bytes;
    for (size_t i = 0; i < t->kept_count; i++)
        free(t->kept[i].bytes);
    free(t->kept);
    free(t->settles);
    free(t);
}

/* -- what is kept ---------------------------------------------------------------------------- */

static uint8_t *put(uint8_t *at, struct span s) {
    if (s.n > 0)
        memcpy(at, s.p, s.n);
    return at + s.n;
}

void tx_publish(struct channel *c, const struct publication *p, struct span header) {
    struct tx *t = need(c);
    struct kept k = {
        .exchange_bytes = p->exchange.n,
        .key_bytes = p->key.n,
        .header_bytes = header.n,
        .body_bytes = p->body.n,
        .mandatory = p->mandatory,
    };
    size_t n = p->exchange.n + p->key.n + header.n + p->body.n;
    if (t->kept_count >= TX_ITEMS_MAX || t->bytes + n > TX_BYTES_MAX) {
        channel_fail(c, CODE_PRECONDITION_FAILED, AMQP_BASIC_PUBLISH_METHOD,
                     "a transaction of more than %d publishings or %d bytes", TX_ITEMS_MAX,
                     TX_BYTES_MAX);
        return;
    }
    if (!publish_keep(c, n))
        return;
    k.bytes = mem_alloc(n + 1);
    put(put(put(put(k.bytes, p->exchange), p->key), header), p->body);
    if (t->kept_count == t->kept_cap) {
        t->kept_cap = t->kept_cap ? t->kept_cap * 2 : 16;
        t->kept = mem_grow(t->kept, t->kept_cap * sizeof *t->kept);
    }
    t->kept[t->kept_count++] = k;
    t->bytes += n;
}

static void keep_settle(void *ctx, const struct delivery *d) {
    struct tx *t = ctx;
    if (t->settle_count == t->settle_cap) {
        t->settle_cap = t->settle_cap ? t->settle_cap * 2 : 16;
        t->settles = mem_grow(t->settles, t->settle_cap * sizeof *t->settles);
    }
    t->settles[t->settle_count++] = (struct to_settle){.delivery = *d, .action = t->action};
}

bool tx_settle(struct channel *c, uint64_t tag, bool multiple, enum settle_action action) {
    struct tx *t = need(c);
    t->action = action;
    if (!deliveries_take(c, tag, multiple, keep_settle, t))
        return false;
    if (t->settle_count > TX_ITEMS_MAX)
        channel_fail(c, CODE_PRECONDITION_FAILED, AMQP_BASIC_ACK_METHOD,
                     "a transaction of more than %d acknowledgements", TX_ITEMS_MAX);
    return true;
}

/* -- its end --------------------------------------------------------------------------------- */

static void roll_back(struct channel *c, struct tx *t) {
    struct delivery *all = mem_alloc((t->settle_count + 1) * sizeof *all);
    for (size_t i = 0; i < t->settle_count; i++)
        all[i] = t->settles[i].delivery;
    deliveries_put_back(c, all, t->settle_count);
    free(all);
    release(c, t);
}

void tx_free(struct channel *c) {
    struct tx *t = c->tx;
    c->tx = NULL;
    if (t != NULL)
        roll_back(c, t);
}

static enum published_how publish_kept(struct channel *c, const struct kept *k) {
    struct content_head content;
    struct publication p = {.mandatory = k->mandatory, .content = &content};
    p.exchange = span_of(k->bytes, k->exchange_bytes);
    p.key = span_of(p.exchange.p + p.exchange.n, k->key_bytes);
    struct span header = span_of(p.key.p + p.key.n, k->header_bytes);
    p.body = span_of(header.p + header.n, k->body_bytes);
    enum err e = content_head_read(header, &content);
    assert(e == OK); /* as it was before */
    return publish_now(c, &p);
}

static void commit_ok(struct channel *c) {
    amqp_tx_commit_ok_t ok = {0};
    channel_send(c, true, AMQP_TX_COMMIT_OK_METHOD, &ok);
}

static void commit(struct channel *c) {
    struct tx *t = c->tx;
    if (t == NULL) {
        commit_ok(c);
        return;
    }
    bool is_whole = true;
    c->tx = NULL; /* it outlives a channel that fails meanwhile */
    for (size_t i = 0; i < t->kept_count; i++) {
        enum published_how how = publish_kept(c, &t->kept[i]);
        if (how == PUBLISH_FAILED) {
            /* the channel is closing, and its other deliveries went back */
            roll_back(c, t);
            deliveries_free(c);
            return;
        }
        is_whole = is_whole && how == PUBLISH_DONE;
    }
    for (size_t i = 0; i < t->settle_count; i++)
        delivery_settle(c, &t->settles[i].delivery, t->settles[i].action);
    settling_flush(c->session->amqp);
    release(c, t);
    channel_schedule(c);
    if (is_whole)
        commit_ok(c);
    else
        channel_fail(c, CODE_PRECONDITION_FAILED, AMQP_TX_COMMIT_METHOD, "partial tx completion");
}

/* -- methods --------------------------------------------------------------------------------- */

void tx_method(struct channel *c, const struct method *m) {
    if (m->id == AMQP_TX_SELECT_METHOD) {
        if (c->confirms) {
            channel_fail(c, CODE_PRECONDITION_FAILED, m->id,
                         "cannot switch from confirm to tx mode");
            return;
        }
        c->is_tx = true;
        amqp_tx_select_ok_t ok = {0};
        channel_send(c, false, AMQP_TX_SELECT_OK_METHOD, &ok);
    } else if (m->id != AMQP_TX_COMMIT_METHOD && m->id != AMQP_TX_ROLLBACK_METHOD) {
        channel_unexpected(c, m);
    } else if (!c->is_tx) {
        channel_fail(c, CODE_PRECONDITION_FAILED, m->id, "channel is not transactional");
    } else if (m->id == AMQP_TX_COMMIT_METHOD) {
        commit(c);
    } else {
        tx_free(c);
        amqp_tx_rollback_ok_t ok = {0};
        channel_send(c, false, AMQP_TX_ROLLBACK_OK_METHOD, &ok);
    }
}

void confirm_method(struct channel *c, const struct method *m) {
    if (m->id != AMQP_CONFIRM_SELECT_METHOD) {
        channel_unexpected(c, m);
        return;
    }
    if (c->is_tx) {
        channel_fail(c, CODE_PRECONDITION_FAILED, m->id, "cannot switch from tx to confirm mode");
        return;
    }
    c->confirms = true;
    amqp_confirm_select_ok_t ok = {0};
    if (!((const amqp_confirm_select_t *)m->decoded)->nowait)
        channel_send(c, false, AMQP_CONFIRM_SELECT_OK_METHOD, &ok);
}
