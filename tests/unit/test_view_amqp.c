/* What the API shows of AMQP: of a message's envelope, and of a queue's arguments. */
#include "check.h"

#include "http/view.h"
#include "model/envelope.h"

static struct buf out, packed;

static bool shows(const char *wanted) {
    bool same = span_equal_str(buf_span(&out), wanted);
    if (!same)
        printf("# %.*s\n# %s\n", (int)out.n, (const char *)out.p, wanted);
    return same;
}

static void view(const struct envelope *v) {
    struct json_writer w;
    buf_clear(&out);
    buf_clear(&packed);
    envelope_pack(&packed, v);
    json_writer_init(&w, &out);
    view_envelope(buf_span(&packed), &w);
}

static void no_envelope(void) {
    static const struct envelope nothing;
    view(&nothing);
    CHECK(shows("null"));
}

static void a_usual_message(void) {
    static struct envelope v = {.key_count = 1};
    v.keys[0] = span_str("orders");
    v.properties = span_of("\x10\x00\x02", 3);
    view(&v);
    CHECK(
        shows("{\"exchange\":\"\",\"routing_key\":\"orders\",\"delivery_mode\":2,\"deaths\":[]}"));
}

static void hidden_keys_are_not_shown(void) {
    static struct envelope v = {.key_count = 3, .bcc_count = 1};
    v.exchange = span_str("events");
    v.keys[0] = span_str("a");
    v.keys[1] = span_str("cc");
    v.keys[2] = span_str("bcc");
    v.expiration = span_str("500");
    view(&v);
    CHECK(shows("{\"exchange\":\"events\",\"routing_key\":\"a\",\"cc\":[\"cc\"],"
                "\"expiration\":\"500\",\"deaths\":[]}"));
}

static void all_properties(void) {
    static const char list[] = "\xde\xfc\x01"
                               "a\x01"
                               "b\x02\x09\x01"
                               "c\x02\xff\xfe\x01"
                               "f\x00\x00\x00\x00\x00\x00\x00\x07\x01"
                               "g\x01"
                               "h\x01"
                               "i\x01"
                               "j";
    static struct envelope v = {.key_count = 1};
    v.properties = span_of(list, sizeof list - 1);
    view(&v);
    CHECK(shows("{\"exchange\":\"\",\"routing_key\":\"\",\"content_type\":\"a\","
                "\"content_encoding\":\"b\",\"correlation_id\":\"c\",\"reply_to\":"
                "{\"base64\":\"//4=\"},\"message_id\":\"f\",\"type\":\"g\",\"user_id\":\"h\","
                "\"app_id\":\"i\",\"cluster_id\":\"j\",\"delivery_mode\":2,\"priority\":9,"
                "\"timestamp\":7,\"deaths\":[]}"));
}

static void deaths(void) {
    static struct envelope v = {.key_count = 1};
    v.keys[0] = span_str("work");
    v.expiration = span_str("10");
    struct span key = span_str("again");
    envelope_die(&v, span_str("work"), REASON_MAX_LENGTH, 1780315200000, span_str("dlx"), &key);
    view(&v);
    CHECK(shows("{\"exchange\":\"dlx\",\"routing_key\":\"again\",\"deaths\":[{\"queue\":\"work\","
                "\"reason\":\"max_length\",\"count\":1,\"first_at\":\"2026-06-01 12:00:00\","
                "\"exchange\":\"\",\"routing_keys\":[\"work\"],\"original_expiration\":\"10\"}]}"));
}

static void what_is_damaged_shows_nothing(void) {
    struct json_writer w;
    buf_clear(&out);
    json_writer_init(&w, &out);
    view_envelope(span_str("\xff"), &w);
    CHECK(shows("{}"));
}

static void view_of_queue(const struct queue_amqp_view *q) {
    struct json_writer w;
    buf_clear(&out);
    json_writer_init(&w, &out);
    view_queue_amqp(q, &w);
}

static void queues(void) {
    struct queue_amqp_view q = {.durable = true, .effective = queue_settings_none()};
    view_of_queue(NULL);
    CHECK(shows("null"));
    view_of_queue(&q);
    CHECK(shows("null"));
    q.policy = span_str("limits");
    q.effective.max_length = 5;
    q.max_length = 3;
    view_of_queue(&q);
    CHECK(shows("{\"durable\":true,\"exclusive\":false,\"auto_delete\":false,\"type\":\"classic\","
                "\"arguments\":{},\"policy\":\"limits\",\"effective\":{\"max-length\":5},"
                "\"discarded\":{\"expired\":0,\"max_length\":3}}"));
    q = (struct queue_amqp_view){.is_declared = true,
                                 .exclusive = true,
                                 .type = QUEUE_QUORUM,
                                 .arguments = span_str("{\"x-queue-type\":\"quorum\"}"),
                                 .effective = queue_settings_none()};
    q.effective.has_dlx = q.effective.has_dlrk = true;
    q.effective.dlrk = span_str("k");
    q.effective.overflow = LENGTH_REJECT_PUBLISH;
    q.effective.delivery_limit = -1;
    q.effective.message_ttl_ms = 0;
    view_of_queue(&q);
    CHECK(shows("{\"durable\":false,\"exclusive\":true,\"auto_delete\":false,\"type\":\"quorum\","
                "\"arguments\":{\"x-queue-type\":\"quorum\"},\"policy\":null,\"effective\":{"
                "\"dead-letter-exchange\":\"\",\"dead-letter-routing-key\":\"k\",\"message-ttl\":0,"
                "\"overflow\":\"reject-publish\",\"delivery-limit\":-1},"
                "\"discarded\":{\"expired\":0,\"max_length\":0}}"));
}

int main(void) {
    buf_init(&out, 100000);
    buf_init(&packed, 100000);
    RUN(no_envelope);
    RUN(a_usual_message);
    RUN(hidden_keys_are_not_shown);
    RUN(all_properties);
    RUN(deaths);
    RUN(what_is_damaged_shows_nothing);
    RUN(queues);
    buf_release(&out);
    buf_release(&packed);
    return check_done();
}
