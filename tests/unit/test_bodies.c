#include "field_errors.h"

#include "http/bodies.h"
#include "http/query.h"

static struct enqueue_body enqueue;
static struct settle_body settle;
static struct claim_body claim;
static struct json *json;

static const struct json *read(const char *text) {
    struct json_error error;
    json_free(json);
    json = json_parse(span_str(text), &error);
    errors.count = 0;
    return json;
}

static enum body_verdict read_enqueue(const char *text, struct span header_key) {
    const struct enqueue_limits limits = {.payload_bytes_max = 100, .header_key = header_key};
    return enqueue_body_read(&enqueue, read(text), &limits, &errors);
}

static enum body_verdict read_plain(const char *text) {
    return read_enqueue(text, span_of(NULL, 0));
}

static void one_message(void) {
    CHECK_EQ(read_plain("{\"payload\": \"x\"}"), BODY_GOOD);
    const struct message_new *m = &enqueue.items[0];
    CHECK(!enqueue.is_batch && enqueue.count == 1);
    CHECK(span_equal_str(m->payload, "x"));
    CHECK(m->max_retries == 0 && m->priority == 0 && m->delay_ms == -1 && m->ttl_ms == -1);
    CHECK(m->headers.n == 0 && m->key.n == 0 && m->idempotency_key.n == 0);

    CHECK_EQ(read_plain("{\"payload_base64\": \"AP8=\", \"max_retries\": 10, \"priority\": 9, "
                        "\"delay_seconds\": 0,"
                        "\"ttl_seconds\": 5, \"key\": \"k\", \"headers\": {\"a\": [1]}, "
                        "\"idempotency_key\": \"i\"}"),
             BODY_GOOD);
    CHECK(m->payload.n == 2 && m->payload.p[0] == 0 && m->payload.p[1] == 0xff);
    CHECK(m->max_retries == 10 && m->priority == 9 && m->delay_ms == 0 && m->ttl_ms == 5000);
    CHECK(span_equal_str(m->headers, "{\"a\":[1]}") && span_equal_str(m->key, "k"));
    CHECK(span_equal_str(m->idempotency_key, "i"));
}

static void a_payload_as_a_message_object_has_it(void) {
    CHECK_EQ(read_plain("{\"payload\": null, \"payload_base64\": \"AP8=\"}"), BODY_GOOD);
    CHECK_EQ(enqueue.items[0].payload.n, 2);
    CHECK(read_plain("{\"payload\": null}") == BODY_INVALID && said("payload", "wrong_type"));
}

static void wrong_messages(void) {
    CHECK(read_plain("{}") == BODY_INVALID && said("payload", "required"));
    CHECK(read_plain("{\"payload\": 7}") == BODY_INVALID && said("payload", "wrong_type"));
    CHECK(read_plain("{\"payload\": \"a\", \"payload_base64\": \"\"}") == BODY_INVALID &&
          said("payload_base64", "conflict"));
    CHECK(read_plain("{\"payload_base64\": \"YQ\"}") == BODY_INVALID &&
          said("payload_base64", "bad_encoding"));
    CHECK(read_plain("{\"payload\": \"a\", \"max_retries\": 11}") == BODY_INVALID &&
          said("max_retries", "out_of_range"));
    CHECK(read_plain("{\"payload\": \"a\", \"idempotency_key\": \"\"}") == BODY_INVALID &&
          said("idempotency_key", "out_of_range"));
    CHECK(read_plain("{\"payload\": \"a\", \"dealy\": 1}") == BODY_INVALID &&
          said("dealy", "unknown_field"));
    CHECK(read_plain("7") == BODY_INVALID && said("body", "wrong_type"));
    CHECK(read_plain("[]") == BODY_INVALID && said("body", "out_of_range"));
    CHECK(read_plain("[7]") == BODY_INVALID && said("[0]", "wrong_type"));
    CHECK(read_plain("[{\"payload\": \"a\"}, {\"payload\": 1}]") == BODY_INVALID &&
          said("[1].payload", "wrong_type"));
}

static void payloads_over_the_limit(void) {
    char text[300];
    snprintf(text, sizeof text,
             "[{\"payload\": \"%0100d\"}, {\"payload\": \"%0101d\", \"nope\": 1}]", 0, 0);
    CHECK_EQ(read_plain(text), BODY_TOO_LARGE);
    CHECK(errors.count == 1 && said("[1].payload", "too_long"));
}

static void keys_of_the_header(void) {
    CHECK_EQ(read_enqueue("{\"payload\": \"x\"}", span_str("h")), BODY_GOOD);
    CHECK(span_equal_str(enqueue.items[0].idempotency_key, "h"));
    CHECK_EQ(read_enqueue("{\"payload\": \"x\", \"idempotency_key\": \"f\"}", span_str("h")),
             BODY_GOOD);
    CHECK(span_equal_str(enqueue.items[0].idempotency_key, "f"));
    CHECK(read_enqueue("{\"payload\": \"x\"}", span_str("")) == BODY_INVALID &&
          said("Idempotency-Key", "out_of_range"));
    CHECK(read_enqueue("[{\"payload\": \"x\"}]", span_str("h")) == BODY_INVALID &&
          said("Idempotency-Key", "not_allowed"));
}

/* Decoded bytes move while the buffer grows: each item must find its own. */
static void a_batch_of_decoded_payloads(void) {
    struct buf text;
    buf_init(&text, 1024 * 1024);
    for (int i = 0; i < 1000; i++)
        buf_printf(&text, "%s{\"payload_base64\": \"%04d\", \"headers\": {\"n\": %d}}",
                   i == 0 ? "[" : ",", i, i);
    buf_add(&text, "]", 2);
    CHECK_EQ(read_plain((const char *)text.p), BODY_GOOD);
    CHECK(enqueue.is_batch && enqueue.count == 1000);
    for (int i = 0; i < 1000; i++) {
        char wanted[32];
        snprintf(wanted, sizeof wanted, "{\"n\":%d}", i);
        CHECK(span_equal_str(enqueue.items[i].headers, wanted));
        struct buf encoded;
        buf_init(&encoded, 64);
        base64_encode(enqueue.items[i].payload, &encoded);
        snprintf(wanted, sizeof wanted, "%04d", i);
        CHECK(span_equal_str(buf_span(&encoded), wanted));
        buf_release(&encoded);
    }
    buf_release(&text);
}

static void claims(void) {
    errors.count = 0;
    claim_body_read(&claim, NULL, "", &errors);
    CHECK(errors.count == 0 && claim.claim.count == 1 && !claim.has_count && claim.wait_ms == 0 &&
          claim.claim.lease_ms == 0);
    claim_body_read(
        &claim,
        read("{\"count\": 1000, \"lease_seconds\": 5, \"wait_seconds\": 20, \"worker\": \"w\"}"),
        "", &errors);
    CHECK(errors.count == 0 && claim.claim.count == 1000 && claim.has_count);
    CHECK(claim.wait_ms == 20000 && claim.claim.lease_ms == 5000 &&
          span_equal_str(claim.claim.worker, "w"));
    claim_body_read(&claim, read("{\"count\": 1001}"), "claim.", &errors);
    CHECK(said("claim.count", "out_of_range"));
    claim_body_read(&claim, read("[]"), "", &errors);
    CHECK(said("body", "wrong_type"));
}

static void verbs(void) {
    struct settle s;
    errors.count = 0;
    settle_verb_read(&s, SETTLE_SUCCEED, 42, NULL, &errors);
    CHECK(errors.count == 0 && s.id == 42 && s.lease == 0 && s.delay_ms == -1);
    settle_verb_read(
        &s, SETTLE_FAIL, 42,
        read("{\"lease\": \"42-3\", \"error\": \"e\", \"error_class\": \"c\", \"detail\": \"d\","
             "\"fingerprint\": \"f\", \"permanent\": true, \"retry_after_seconds\": 7}"),
        &errors);
    CHECK(errors.count == 0 && s.lease == 3 && s.permanent && s.delay_ms == 7000);
    CHECK(span_equal_str(s.error, "e") && span_equal_str(s.error_class, "c") &&
          span_equal_str(s.detail, "d") && span_equal_str(s.fingerprint, "f"));
    settle_verb_read(&s, SETTLE_SUCCEED, 42, read("{\"error\": \"e\"}"), &errors);
    CHECK(said("error", "unknown_field"));
    settle_verb_read(&s, SETTLE_SUCCEED, 42, read("{\"id\": 42}"), &errors);
    CHECK(said("id", "unknown_field"));
    settle_verb_read(&s, SETTLE_EXTEND, 42, read("{\"lease_seconds\": 0}"), &errors);
    CHECK(said("lease_seconds", "out_of_range"));
}

static void many_settled(void) {
    settle_body_read(&settle,
                     read("{\"items\": [{\"id\": 1, \"action\": \"succeed\"}, {\"id\": 2, "
                          "\"action\": \"release\","
                          "\"delay_seconds\": 1, \"lease\": \"1-1\"}], \"claim\": {\"count\": 2}}"),
                     &errors);
    CHECK_EQ(errors.count, 0);
    CHECK(settle.count == 2 && settle.has_claim && settle.claim.claim.count == 2);
    CHECK(settle.items[0].id == 1 && settle.items[0].action == SETTLE_SUCCEED &&
          settle.items[0].lease == 0);
    CHECK(settle.items[1].delay_ms == 1000 && settle.items[1].lease == LEASE_NEVER);

    static const char *const wrong[][3] = {
        {"[]", "body", "wrong_type"},
        {"{}", "items", "required"},
        {"{\"items\": {}}", "items", "wrong_type"},
        {"{\"items\": [7]}", "items[0]", "wrong_type"},
        {"{\"items\": [{\"action\": \"succeed\"}]}", "items[0].id", "required"},
        {"{\"items\": [{\"id\": 1}]}", "items[0].action", "required"},
        {"{\"items\": [{\"id\": 1, \"action\": \"explode\"}]}", "items[0].action", "out_of_range"},
        {"{\"items\": [{\"id\": 1, \"action\": \"succeed\", \"error\": \"\"}]}", "items[0].error",
         "unknown_field"},
        {"{\"items\": [], \"claim\": 7}", "claim", "wrong_type"},
        {"{\"items\": [], \"claim\": {\"nope\": 7}}", "claim.nope", "unknown_field"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        settle_body_read(&settle, read(wrong[i][0]), &errors);
        CHECK(said(wrong[i][1], wrong[i][2]));
    }
}

static void lease_tokens(void) {
    CHECK_EQ(lease_parse(span_str("42-3"), 42), 3);
    static const char *const wrong[] = {"",      "42",    "42-",    "-3",
                                        "42-0",  "43-3",  "042-3",  "42-03",
                                        "42-3 ", " 42-3", "42-3-1", "42-99999999",
                                        "+42-3", "42-3x", "x",      "18446744073709551658-3"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        CHECK_EQ(lease_parse(span_str(wrong[i]), 42), LEASE_NEVER);

    struct buf token;
    buf_init(&token, 64);
    lease_write(LIMIT_ID, LIMIT_DELIVERIES, &token);
    CHECK_EQ(lease_parse(buf_span(&token), LIMIT_ID), LIMIT_DELIVERIES);
    buf_release(&token);
}

static void percent_encoding(void) {
    struct buf out;
    buf_init(&out, 64);
    CHECK(percent_decode(span_str("a%2Fb%c3%BC+"), false, &out) &&
          span_equal_str(buf_span(&out), "a/b\xc3\xbc+"));
    buf_clear(&out);
    CHECK(percent_decode(span_str("a+b"), true, &out) && span_equal_str(buf_span(&out), "a b"));
    static const char *const wrong[] = {"%", "%4", "%zz", "%4z", "a%00", "%0"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        CHECK(!percent_decode(span_str(wrong[i]), false, &out));
    buf_release(&out);
}

static void queries(void) {
    static const char *const names[] = {"status", "limit", NULL};
    struct span values[2];
    struct buf scratch;
    buf_init(&scratch, 4096);
    errors.count = 0;
    query_read(span_str("st%61tus=a%20b&&limit="), names, values, &scratch, &errors);
    CHECK(errors.count == 0 && span_equal_str(values[0], "a b"));
    CHECK(values[1].p != NULL && values[1].n == 0);
    query_read(span_str("limit"), names, values, &scratch, &errors);
    CHECK(values[0].p == NULL && values[1].p != NULL);
    query_read(span_str(""), names, values, &scratch, &errors);
    CHECK(errors.count == 0 && values[0].p == NULL && values[1].p == NULL);

    static const char *const wrong[][3] = {{"limit=1&limit=2", "limit", "conflict"},
                                           {"limit=%zz", "limit", "bad_encoding"},
                                           {"lmit=1", "lmit", "unknown_field"},
                                           {"%ff=1", "?", "unknown_field"},
                                           {"=1", "", "unknown_field"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        errors.count = 0;
        query_read(span_str(wrong[i][0]), names, values, &scratch, &errors);
        CHECK(said(wrong[i][1], wrong[i][2]));
    }

    errors.count = 0;
    CHECK_EQ(parameter_number(span_str("7"), "limit", 1, 10, 3, &errors), 7);
    CHECK_EQ(parameter_number(span_of(NULL, 0), "limit", 1, 10, 3, &errors), 3);
    CHECK_EQ(errors.count, 0);
    static const char *const numbers[] = {
        "", "0", "11", "-1", "1.5", "x", "01", "99999999999999999999999", " 1"};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        errors.count = 0;
        CHECK_EQ(parameter_number(span_str(numbers[i]), "limit", 1, 10, 3, &errors), 3);
        CHECK(said("limit", "out_of_range"));
    }
    uint64_t number;
    CHECK(!number_parse(span_str("18446744073709551616"), INT64_MAX, &number));
    CHECK(number_parse(span_str("18446744073709551615"), UINT64_MAX, &number) &&
          number == UINT64_MAX);
    CHECK(!number_parse(span_str("18446744073709551616"), UINT64_MAX, &number));
    buf_release(&scratch);
}

static void parameters_of_other_kinds(void) {
    static const char *const orders[] = {"newest", "oldest", NULL};
    const struct span none = span_of(NULL, 0);
    errors.count = 0;
    CHECK_EQ(parameter_choice(none, "order", orders, &errors), 0);
    CHECK_EQ(parameter_choice(span_str("oldest"), "order", orders, &errors), 1);
    CHECK(parameter_flag(span_str("yes"), "all", &errors));
    CHECK(parameter_flag(span_str("true"), "all", &errors));
    CHECK(!parameter_flag(span_str("no"), "all", &errors));
    CHECK(!parameter_flag(span_str("false"), "all", &errors));
    CHECK(!parameter_flag(none, "all", &errors));
    CHECK(span_equal_str(parameter_text(span_str("abc"), "queue", 3, &errors), "abc"));
    CHECK(parameter_text(none, "queue", 3, &errors).p == NULL);
    CHECK_EQ(errors.count, 0);

    CHECK_EQ(parameter_choice(span_str("up"), "order", orders, &errors), 0);
    CHECK(said("order", "out_of_range"));
    CHECK(strcmp(errors.items[0].message, "must be one of newest, oldest") == 0);
    errors.count = 0;
    CHECK(!parameter_flag(span_str("1"), "all", &errors) && said("all", "out_of_range"));
    errors.count = 0;
    CHECK(parameter_text(span_str("abcd"), "queue", 3, &errors).p == NULL);
    CHECK(said("queue", "too_long"));
    errors.count = 0;
    CHECK(parameter_text(span_str("\xff"), "queue", 3, &errors).p == NULL);
    CHECK(said("queue", "bad_encoding"));
}

int main(void) {
    enqueue_body_init(&enqueue, 1024 * 1024);
    RUN(one_message);
    RUN(a_payload_as_a_message_object_has_it);
    RUN(wrong_messages);
    RUN(payloads_over_the_limit);
    RUN(keys_of_the_header);
    RUN(a_batch_of_decoded_payloads);
    RUN(claims);
    RUN(verbs);
    RUN(many_settled);
    RUN(lease_tokens);
    RUN(percent_encoding);
    RUN(queries);
    RUN(parameters_of_other_kinds);
    enqueue_body_release(&enqueue);
    json_free(json);
    return check_done();
}
