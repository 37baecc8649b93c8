/* The story of a message: the engine's lines, told as the API does. What a claim said (who, since
 * when) is told again on the line of how it ended. Loop thread. */
#pragma once

#include "base/json.h"
#include "base/limits.h"
#include "engine/engine.h"

/* Writes the array of lines, oldest first. ret_omitted: attempts without a line. With VIEW_EXACT
 * times in milliseconds, too. A story that outgrows `bytes_max` of JSON ends early. ERR_NO_QUEUE,
 * ERR_NO_MESSAGE: nothing was written. */
enum err story_write(struct engine *e, struct span queue, uint64_t id, unsigned flags,
                     struct json_writer *w, uint64_t *ret_count, uint32_t *ret_omitted) MUST_CHECK;
