/* The trace a message belongs to, out of its headers (W3C Trace Context). Pure; any thread. */
#pragma once

#include "base/bytes.h"

#define TRACE_ID_SIZE 33 /* 32 hex digits + NUL */

/* Finds the member `traceparent` (in any case) of a JSON object and writes the trace id in it to
 * `out`: 32 lower-case hex digits, and NUL. False, and out is left alone, when there is none or it
 * is not what the standard allows: VERSION-TRACE-PARENT-FLAGS in lower-case hex of 2, 32, 16 and 2
 * digits; version ff and a trace or parent of zeros are invalid; only versions above 00 may go on
 * after another "-". `headers` may be empty. */
bool trace_id_of(struct span headers, char out[static TRACE_ID_SIZE]);
