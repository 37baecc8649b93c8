/* What the JSON reader and the writer share. Private to them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* How many bytes at p stand for themselves in a JSON string: all but control characters, quote and
 * backslash. */
size_t json_plain_run(const uint8_t *p, size_t n);
