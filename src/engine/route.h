/* Routing: where an exchange sends a message. Internal to src/engine/. */
#pragma once

#include "engine/state.h"

/* What exchanges look at. */
struct message_keys {
    const struct span *keys;
    size_t count;
    struct span headers;           /* JSON, or empty */
    const struct envelope *deaths; /* that are headers, too; NULL = none */
};

/* What was found, and memory for finding it. Zeros are an empty one. */
struct routes {
    struct queue **queues; /* each once, oldest first */
    size_t n, cap;
    /* -- while it is looked for */
    struct exchange **exchanges;
    size_t exchange_count, exchange_cap;
    uint32_t routing;
    struct json *headers;
    struct buf name;
};

void route(struct engine_state *st, struct exchange *x, const struct message_keys *m,
           struct routes *r);
void routes_release(struct routes *r);

/* A topic exchange's rule: words between dots; * is one word, # any number of them. */
bool topic_matches(struct span pattern, struct span key);
