/* The signature of a webhook: what tells its receiver that it came from here, and when. Any
 * thread. */
#pragma once

#include "base/bytes.h"

#define ALERT_SIGNATURE_SIZE 96 /* "t=SECONDS,v1=" + 64 hex digits + NUL */

/* "t=SECONDS,v1=HEX", HEX being HMAC-SHA256(secret, "SECONDS." + body) in lower case. */
void alert_sign(struct span secret, int64_t seconds, struct span body,
                char ret[static ALERT_SIGNATURE_SIZE]);
