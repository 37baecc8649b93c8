/* Frames, methods and reply codes of AMQP. */
#include "amqp/be.h"
#include "amqp/method.h"
#include "unit/check.h"

static struct span bytes(const char *p, size_t n) {
    return span_of(p, n);
}
#define BYTES(text) bytes(text, sizeof(text) - 1)

static enum frame_result read_frame(struct span in, uint32_t max, struct frame *ret) {
    const char *why = NULL;
    enum frame_result r = frame_read(in, max, ret, &why);
    CHECK((r == FRAME_BAD) == (why != NULL));
    return r;
}

static void test_frame_is_read_whole_or_not_at_all(void) {
    struct span in = BYTES("\1\0\7\0\0\0\3abc\xce tail");
    struct frame f = {0};
    for (size_t n = 0; n < 11; n++)
        CHECK_EQ(read_frame(span_of(in.p, n), 4096, &f), FRAME_MORE);
    CHECK_EQ(read_frame(in, 4096, &f), FRAME_WHOLE);
    CHECK_EQ(f.type, FRAME_METHOD);
    CHECK_EQ(f.channel, 7);
    CHECK_EQ(f.bytes, 11);
    CHECK(span_equal_str(f.payload, "abc"));
}

static void test_bad_frames_are_told_early(void) {
    struct frame f = {0};
    CHECK_EQ(read_frame(BYTES("\4"), 4096, &f), FRAME_BAD);
    CHECK_EQ(read_frame(BYTES("\0"), 4096, &f), FRAME_BAD);
    CHECK_EQ(read_frame(BYTES("\1\0\0\0\0\x10\x01"), 4096, &f), FRAME_BAD);
    CHECK_EQ(read_frame(BYTES("\1\0\0\0\0\x10\x00"), 4096, &f), FRAME_MORE);
    CHECK_EQ(read_frame(BYTES("\3\0\1\xff\xff\xff\xff"), 4096, &f), FRAME_BAD);
    CHECK_EQ(read_frame(BYTES("\10\0\0\0\0\0\0\xcd"), 4096, &f), FRAME_BAD);
    CHECK_EQ(read_frame(BYTES("\10\0\0\0\0\0\0\xce"), 4096, &f), FRAME_WHOLE);
}

static void test_codes_have_names_and_a_scope(void) {
    CHECK(strcmp(code_name(CODE_NOT_FOUND), "NOT_FOUND") == 0);
    CHECK(strcmp(code_name(CODE_INTERNAL_ERROR), "INTERNAL_ERROR") == 0);
    CHECK(!code_is_hard(CODE_NOT_FOUND) && !code_is_hard(CODE_PRECONDITION_FAILED));
    CHECK(!code_is_hard(CODE_ACCESS_REFUSED) && !code_is_hard(CODE_RESOURCE_LOCKED));
    CHECK(code_is_hard(CODE_NOT_ALLOWED) && code_is_hard(CODE_FRAME_ERROR));
    CHECK(code_is_hard(CODE_NOT_IMPLEMENTED) && code_is_hard(CODE_CONNECTION_FORCED));
}

static void test_methods_of_clients_are_read(void) {
    struct method_pool *p = method_pool_new();
    struct method m;
    /* queue.declare: ticket, "q", durable + nowait, {"a": U 5} */
    CHECK_EQ(method_read(p, BYTES("\0\x32\0\x0a\0\0\1q\x12\0\0\0\5\1aU\0\5"), &m), OK);
    CHECK_EQ(m.id, AMQP_QUEUE_DECLARE_METHOD);
    amqp_queue_declare_t *d = m.decoded;
    CHECK(span_equal_str(method_span(d->queue), "q"));
    CHECK(!d->passive && d->durable && !d->exclusive && !d->auto_delete && d->nowait);
    CHECK_EQ(d->arguments.num_entries, 1);
    CHECK_EQ(d->arguments.entries[0].value.kind, 's');
    CHECK_EQ(d->arguments.entries[0].value.value.i16, 5);
    method_pool_clear(p);
    CHECK_EQ(method_read(p, BYTES("\0\x3c\0\x50\0\0\0\0\0\0\0\7\1"), &m), OK);
    CHECK_EQ(((amqp_basic_ack_t *)m.decoded)->delivery_tag, 7);
    CHECK_EQ(method_read(p, BYTES("\0\x0a\0\x46\0\0\0\1s\1r"), &m), OK);
    CHECK_EQ(m.id, METHOD_UPDATE_SECRET);
    CHECK_EQ(METHOD_CLASS(m.id), 10);
    CHECK_EQ(METHOD_NUMBER(m.id), 70);
    method_pool_free(p);
}

static void test_what_is_no_method_is_refused(void) {
    struct method_pool *p = method_pool_new();
    struct method m;
    CHECK_EQ(method_read(p, BYTES("\0\x32\0"), &m), ERR_INVALID);
    CHECK_EQ(m.id, 0);
    CHECK_EQ(method_read(p, BYTES("\0\x32\0\x0b\1q\0\0\0\0\0\0\0\0"), &m), ERR_NO_MESSAGE);
    CHECK_EQ(method_read(p, BYTES("\0\x63\0\1"), &m), ERR_NO_MESSAGE);
    CHECK_EQ(method_read(p, BYTES("\0\x32\0\x63"), &m), ERR_NO_MESSAGE);
    CHECK_EQ(m.id, 50U << 16 | 99);
    /* basic.ack: too short, too long */
    CHECK_EQ(method_read(p, BYTES("\0\x3c\0\x50\0\0\0\0\0\0\0\7"), &m), ERR_INVALID);
    CHECK_EQ(method_read(p, BYTES("\0\x3c\0\x50\0\0\0\0\0\0\0\7\1\0"), &m), ERR_INVALID);
    /* channel.open: a string past the end, one that is no UTF-8 */
    CHECK_EQ(method_read(p, BYTES("\0\x14\0\x0a\5abc"), &m), ERR_INVALID);
    CHECK_EQ(method_read(p,
                         BYTES("\0\x14\0\x0a\3a\xff"
                               "c"),
                         &m),
             ERR_CORRUPT);
    /* queue.declare with a table that is longer than the payload */
    CHECK_EQ(method_read(p, BYTES("\0\x32\0\x0a\0\0\1q\0\xff\xff\xff\xff"), &m), ERR_INVALID);
    method_pool_free(p);
}

static void test_methods_are_written(void) {
    struct buf out;
    buf_init(&out, 1 << 20);
    amqp_basic_deliver_t d = {.consumer_tag = method_str("t"),
                              .delivery_tag = 258,
                              .redelivered = 1,
                              .exchange = method_str(""),
                              .routing_key = method_str("k")};
    method_write(&out, 3, AMQP_BASIC_DELIVER_METHOD, &d);
    CHECK(span_equal(buf_span(&out),
                     BYTES("\1\0\3\0\0\0\22\0\x3c\0\x3c\1t\0\0\0\0\0\0\1\2\1\0\1k\xce")));
    buf_clear(&out);
    method_write(&out, 0, METHOD_UPDATE_SECRET_OK, NULL);
    CHECK(span_equal(buf_span(&out), BYTES("\1\0\0\0\0\0\4\0\x0a\0\x47\xce")));
    buf_clear(&out);
    method_write(&out, 1, AMQP_EXCHANGE_UNBIND_OK_METHOD, NULL);
    CHECK(span_equal(buf_span(&out), BYTES("\1\0\1\0\0\0\4\0\x28\0\x33\xce")));
    /* larger than the first room */
    buf_clear(&out);
    static char large[40000];
    memset(large, 'x', sizeof large);
    amqp_channel_open_ok_t ok = {.channel_id = method_bytes(span_of(large, sizeof large))};
    method_write(&out, 1, AMQP_CHANNEL_OPEN_OK_METHOD, &ok);
    CHECK_EQ(out.n, FRAME_OVERHEAD + 4 + 4 + sizeof large);
    buf_release(&out);
}

int main(void) {
    RUN(test_frame_is_read_whole_or_not_at_all);
    RUN(test_bad_frames_are_told_early);
    RUN(test_codes_have_names_and_a_scope);
    RUN(test_methods_of_clients_are_read);
    RUN(test_what_is_no_method_is_refused);
    RUN(test_methods_are_written);
    return check_done();
}
