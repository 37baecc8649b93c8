/* Exchanges, queues, bindings and policies out of JSON, in the form of RabbitMQ's definitions. Pure
 * functions: JSON in, structs or errors out; nothing here asks the engine. Any thread. */
#pragma once

#include "model/exchange.h"
#include "model/fields.h"

#define POLICY_PATTERN_MAX 1024
#define POLICY_PRIORITY_MOST INT32_MAX

/* The members pattern, apply-to, priority and definition; name and vhost are the caller's. Spans
 * borrow from the JSON tree, the definition's text from `texts`, which is cleared. */
void pattern_policy_read(struct pattern_policy *p, const struct fields *f, struct buf *texts);

/* The members of the others; names are as they stand there, not scoped. Spans borrow as above. */
void exchange_read(struct exchange_new *x, const struct fields *f, struct buf *texts);
/* A queue's `type` is the argument x-queue-type where that is not given: it is then added to the
 * arguments. */
void queue_read(struct queue_declare *q, const struct fields *f, struct buf *texts);
void binding_read(struct binding_new *b, const struct fields *f, struct buf *texts);

/* Names that a policy's definition has and that mean nothing here. */
bool policy_key_is_known(const char *name);
/* Arguments of a queue that are kept, but change what RabbitMQ does and not what happens here. */
bool queue_argument_is_idle(const char *name);
