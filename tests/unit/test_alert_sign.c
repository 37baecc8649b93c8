/* The signature of a webhook against vectors that other programs made (Python's hmac, openssl dgst). */
#include "check.h"

#include "server/alerts_sign.h"

#define LITERAL(text) span_of(text, sizeof(text) - 1)

static void check(struct span secret, int64_t seconds, struct span body, const char *wanted) {
    char got[ALERT_SIGNATURE_SIZE];
    memset(got, '#', sizeof got);
    alert_sign(secret, seconds, body, got);
    if (strcmp(got, wanted) != 0)
        printf("# %s\n", got);
    CHECK(strcmp(got, wanted) == 0);
}

static void vectors(void) {
    check(LITERAL("s3cret"), 1780000000, LITERAL("{\"kind\": \"rate\"}"),
          "t=1780000000,v1=95a03f9277116e0f69c54a8b7ecb96020417e94b5b5f32d5007b9d9e2a7b5fe3");
    check(LITERAL("Jefe"), 1, LITERAL("what do ya want for nothing?"),
          "t=1,v1=a9049465ce89cfb8e9aac62333abda66f80e3403f51f57f6bae3c3a4485eca38");
    check(LITERAL("s3cret"), 0, span_of(NULL, 0),
          "t=0,v1=f8f098a84b2e4238206d750bcb900ff9df6f839db0660fcc115201787a3bb832");
}

static void bytes_that_are_no_text(void) {
    check(LITERAL("\0\1\xff"), 42, LITERAL("\0\xc3\xa4\n"),
          "t=42,v1=dce401da8cb59133aa5c6af2c98060ccdb4c87bef6c0a40e9c5242897fce17cd");
}

/* Longer than a block of SHA-256: then the key is its digest. And the longest time there is. */
static void a_long_secret(void) {
    uint8_t secret[131];
    memset(secret, 0xaa, sizeof secret);
    check(span_of(secret, sizeof secret), INT64_C(9007199254740991),
          LITERAL("Test Using Larger Than Block-Size Key - Hash Key First"),
          "t=9007199254740991,v1=7190b521219286d68f1c71427a7211ce6df502ea6fce37c632522e43eb611ce1");
}

static void a_long_body(void) {
    static uint8_t body[64 * 1024];
    memset(body, 'x', sizeof body);
    check(LITERAL("s3cret"), 1780000000, span_of(body, sizeof body),
          "t=1780000000,v1=169fdb254541eb59a74d4401b7c22d590430e5af79f60ecb2376b464dc95eb26");
}

int main(void) {
    RUN(vectors);
    RUN(bytes_that_are_no_text);
    RUN(a_long_secret);
    RUN(a_long_body);
    return check_done();
}
