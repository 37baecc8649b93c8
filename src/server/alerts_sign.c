#include "server/alerts_sign.h"

#include <assert.h>
#include <inttypes.h>
#include <openssl/hmac.h>
#include <stdio.h>

enum { DIGEST_BYTES = 32, SIGNED_BYTES_MAX = 1024 * 1024 };

void alert_sign(struct span secret, int64_t seconds, struct span body,
                char ret[static ALERT_SIGNATURE_SIZE]) {
    struct buf text;
    buf_init(&text, SIGNED_BYTES_MAX);
    buf_printf(&text, "%" PRId64 ".", seconds);
    buf_add_span(&text, body);
    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    const uint8_t *done = HMAC(EVP_sha256(), secret.p, (int)secret.n, text.p, text.n, digest, &n);
    assert(done != NULL && n == DIGEST_BYTES);
    buf_release(&text);
    int at = snprintf(ret, ALERT_SIGNATURE_SIZE, "t=%" PRId64 ",v1=", seconds);
    assert(at > 0 && at + 2 * DIGEST_BYTES < ALERT_SIGNATURE_SIZE);
    for (unsigned i = 0; i < n; i++)
        at += snprintf(ret + at, ALERT_SIGNATURE_SIZE - (size_t)at, "%02x", digest[i]);
}
