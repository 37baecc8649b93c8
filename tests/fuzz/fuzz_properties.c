/* Property lists: what is read lies within the input, in order, and accounts for all of it. So of the headers' table. */
#include "model/properties.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t bytes_of(const struct properties *p, enum property which, struct span s,
                       size_t length_bytes, struct span input) {
    if (!(p->has & which)) {
        assert(s.n == 0);
        return 0;
    }
    assert(s.p >= input.p && s.n <= (size_t)(input.p + input.n - s.p));
    return length_bytes + s.n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct span input = span_of(data, size);
    struct properties p;
    (void)properties_headers_check(input);
    if (!properties_read(input, &p) || size == 0)
        return 0;
    size_t n = 2;
    n += bytes_of(&p, PROPERTY_CONTENT_TYPE, p.content_type, 1, input);
    n += bytes_of(&p, PROPERTY_CONTENT_ENCODING, p.content_encoding, 1, input);
    n += bytes_of(&p, PROPERTY_HEADERS, p.headers, 4, input);
    n += (p.has & PROPERTY_DELIVERY_MODE) != 0;
    n += (p.has & PROPERTY_PRIORITY) != 0;
    n += bytes_of(&p, PROPERTY_CORRELATION_ID, p.correlation_id, 1, input);
    n += bytes_of(&p, PROPERTY_REPLY_TO, p.reply_to, 1, input);
    n += bytes_of(&p, PROPERTY_EXPIRATION, p.expiration, 1, input);
    n += bytes_of(&p, PROPERTY_MESSAGE_ID, p.message_id, 1, input);
    n += p.has & PROPERTY_TIMESTAMP ? 8 : 0;
    n += bytes_of(&p, PROPERTY_TYPE, p.type, 1, input);
    n += bytes_of(&p, PROPERTY_USER_ID, p.user_id, 1, input);
    n += bytes_of(&p, PROPERTY_APP_ID, p.app_id, 1, input);
    n += bytes_of(&p, PROPERTY_CLUSTER_ID, p.cluster_id, 1, input);
    assert(n == size);
    return 0;
}
