/* Time: milliseconds since the epoch, UTC. Only the server reads the clock; all else is told `now`.
 * Any thread. */
#pragma once

#include "base/bytes.h"

#define TIME_NEVER INT64_MAX
#define TIME_TEXT_SIZE 20 /* "YYYY-MM-DD HH:MM:SS" and its NUL */

int64_t clock_now_ms(void);       /* wall clock */
int64_t clock_monotonic_us(void); /* for durations */

/* Writes "YYYY-MM-DD HH:MM:SS" and a NUL; years 1970 to 9999, clamped outside. No library call: it
 * runs for every reply. */
void time_format(int64_t ms, char out[static TIME_TEXT_SIZE]);

/* The reverse, exactly that form and a real date; ERR_INVALID otherwise. */
enum err time_parse(struct span text, int64_t *ret_ms) MUST_CHECK;
