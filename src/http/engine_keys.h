/* A question to the engine that engine.h does not have: what an enqueue with this idempotency key would answer, when its body is wrong
 * and it cannot be asked by enqueueing. */
#pragma once

#include "engine/engine.h"

/* The id of the message first enqueued with the key, when its window is still open at `now`. ERR_NO_QUEUE, ERR_NO_MESSAGE.
 * Weak: where the engine does not have it, a repeated enqueue with a wrong body is refused. */
enum err engine_key_find(struct engine *e, int64_t now, struct span queue, struct span key,
                         uint64_t *ret_id) MUST_CHECK __attribute__((weak));
