/* Direct reply-to: a channel consumes from "amq.rabbitmq.reply-to", publishes requests with that as
 * their reply_to, and gets each answer as a delivery, without a queue and without the disk. The name
 * that the other side sees is "amq.rabbitmq.reply-to." and a secret; a publishing by that key to the
 * default exchange goes to the channel, or nowhere when it is gone. */
#include "amqp/content.h"
#include "amqp/front.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

#define ADDRESS_PREFIX REPLY_QUEUE "."
#define ADDRESS_MAX 64
#define REPLIES_UNREAD_MAX (16 * 1024 * 1024) /* bytes; what comes on top is dropped */

struct reply_address {
    struct channel *channel;
    struct reply_address *next, **link;
    struct span tag;
    size_t name_bytes;
    uint8_t name[ADDRESS_MAX];
};

bool reply_has_tag(const struct channel *c, struct span tag) {
    return c->reply != NULL && span_equal(c->reply->tag, tag);
}

bool reply_consume(struct channel *c, bool no_ack, struct span tag) {
    struct amqp *a = c->session->amqp;
    const char *why = NULL;
    if (!no_ack)
        why = "reply consumer cannot acknowledge";
    else if (c->reply != NULL)
        why = "reply consumer already set";
    if (why != NULL) {
        channel_fail(c, CODE_PRECONDITION_FAILED, AMQP_BASIC_CONSUME_METHOD, "%s", why);
        return false;
    }
    struct reply_address *r = mem_alloc(sizeof *r + tag.n);
    memcpy(r + 1, tag.p, tag.n);
    r->tag = span_of(r + 1, tag.n);
    r->channel = c;
    name_make(ADDRESS_PREFIX, &a->name);
    memcpy(r->name, a->name.p, a->name.n);
    r->name_bytes = a->name.n;
    r->next = a->replies;
    r->link = &a->replies;
    if (r->next != NULL)
        r->next->link = &r->next;
    a->replies = r;
    c->reply = r;
    return true;
}

void reply_free(struct channel *c) {
    struct reply_address *r = c->reply;
    if (r == NULL)
        return;
    *r->link = r->next;
    if (r->next != NULL)
        r->next->link = r->link;
    c->reply = NULL;
    free(r);
}

struct span reply_name(const struct channel *c) {
    return c->reply != NULL ? span_of(c->reply->name, c->reply->name_bytes) : (struct span){0};
}

bool reply_is_address(struct span key) {
    size_t n = strlen(ADDRESS_PREFIX);
    return key.n > n && memcmp(key.p, ADDRESS_PREFIX, n) == 0;
}

static struct reply_address *find(const struct amqp *a, struct span key) {
    struct reply_address *r = a->replies;
    while (r != NULL && !span_equal(span_of(r->name, r->name_bytes), key))
        r = r->next;
    return r;
}

bool reply_is_there(const struct amqp *a, struct span key) {
    return find(a, key) != NULL;
}

bool reply_deliver(struct amqp *a, const struct publication *p) {
    const struct reply_address *r = find(a, p->key);
    if (r == NULL || r->channel->is_closing || r->channel->session->phase != OPEN)
        return false;
    const struct session *s = r->channel->session;
    if (s->held.n + conn_out_pending(s->conn) > REPLIES_UNREAD_MAX)
        return false;
    buf_clear(&a->packed);
    content_properties(p->content, &a->packed);
    handout_reply(r->channel, r->tag, p, buf_span(&a->packed));
    return true;
}
