/* What AMQP knows of a message beside its payload and headers: where it was published to and by which
 * keys, its properties as on the wire, when it expires, and where it died before. Packed into one
 * span of bytes that the log keeps with the message; a message that came by another way has none.
 * Pure functions; any thread. */
#pragma once

#include "base/err.h"
#include "model/message.h"

#define ENVELOPE_KEYS 64   /* routing keys: the first, then those of CC, then of BCC */
#define ENVELOPE_DEATHS 16 /* over it the oldest but the first is forgotten */
/* The same for all deaths together, packed: room for the two that are always kept. So x-death never
 * outgrows a frame. */
#define ENVELOPE_DEATHS_BYTES (36 * 1024)
#define ENVELOPE_TEXT 255 /* bytes of each name, key and expiration */

/* One entry of x-death: all deaths in one queue for one reason. */
struct death {
    struct span queue; /* its name within its vhost */
    enum reason reason;
    bool is_first; /* the message's first death was one of these: of exactly one entry */
    uint32_t count;
    int64_t at;                      /* of the first of them; milliseconds */
    struct span exchange;            /* published to before that one */
    struct span keys[ENVELOPE_KEYS]; /* the routing keys then, without those of BCC */
    uint8_t key_count;
    struct span expiration; /* decimal milliseconds, as the publisher wrote it; empty = none */
};

struct envelope {
    struct span exchange; /* last published to, within its vhost; empty: the default exchange */
    struct span keys[ENVELOPE_KEYS];
    uint8_t key_count; /* with those of BCC */
    uint8_t bcc_count; /* of them, at the end */
    /* The property list of AMQP 0-9-1 (flags, then values), without the header BCC and without
     * `expiration`; empty: no property. The headers' table is in it, exactly as it came. */
    struct span properties;
    struct span expiration; /* of this life: removed when it is dead-lettered; empty = none */
    struct death deaths[ENVELOPE_DEATHS]; /* the newest first */
    uint8_t death_count;
};

/* Appends the packed form (nothing for an envelope of nothing); the largest one has
 * ENVELOPE_BYTES_MAX + properties.n bytes. Nothing in it depends on the queue that holds it, so that
 * it may move with the message. */
#define ENVELOPE_BYTES_MAX ((ENVELOPE_KEYS + 4) * 256 + ENVELOPE_DEATHS_BYTES)
void envelope_pack(struct buf *out, const struct envelope *v);
/* The spans point into `packed`. An empty one is an envelope of nothing. ERR_CORRUPT when it is not
 * what envelope_pack writes. */
enum err envelope_unpack(struct span packed, struct envelope *ret) MUST_CHECK;

/* One more death, by the rules of x-death: the entry of this queue and reason is counted up and goes
 * to the front, or a new one is made from where the message is now. Then the message's exchange,
 * keys and expiration are those of its next publishing: `exchange`, `key` (NULL: the keys it has),
 * none. The spans must outlive the envelope. `reason` is one of rejected, expired, max_length,
 * delivery_limit. */
void envelope_die(struct envelope *v, struct span queue, enum reason reason, int64_t now,
                  struct span exchange, const struct span *key);

/* A history from elsewhere, entry by entry, the newest first: `d` is older than all that are there. One
 * of a queue and reason that are there already is passed over; over ENVELOPE_DEATHS the oldest gives
 * way. Then envelope_recalled, once: of several that are marked as the first the newest is it, of none
 * the oldest, and what is over ENVELOPE_DEATHS_BYTES is forgotten. */
void envelope_recall(struct envelope *v, const struct death *d);
void envelope_recalled(struct envelope *v);

/* True when sending it on to `queue` would close a circle without a rejection in it: seen from the
 * newest death to the first one in that queue, none is for `rejected`. A circle longer than the deaths
 * that are kept is not seen. */
bool envelope_makes_cycle(const struct envelope *v, struct span queue);

/* The word of x-death for a reason of death: rejected, expired, maxlen, delivery_limit; NULL for
 * those that AMQP does not tell. */
const char *envelope_death_word(enum reason r);
/* The value of a header that a message with deaths has by them: x-first-death-reason, -queue and
 * -exchange, and the same of x-last-death. False: it is none of these, or there was no death. */
bool envelope_death_header(const struct envelope *v, struct span name, struct span *ret);
