#include "field_errors.h"

#include "http/letters_body.h"

static struct letters_body *body;
static struct json *json;

static enum body_verdict read(const char *text) {
    struct json_error error;
    json_free(json);
    json = json_parse(span_str(text), &error);
    CHECK(json != NULL);
    letters_body_free(body);
    body = letters_body_new(1024 * 1024);
    errors.count = 0;
    return letters_body_read(body, json, 100, &errors);
}

/* One letter with these members besides the least it needs. */
static enum body_verdict read_with(const char *members) {
    char text[4096];
    snprintf(text, sizeof text,
             "{\"queue\": \"q\", \"letters\": [{\"id\": 7, \"payload\": \"x\", \"max_retries\": 3,"
             "\"reason\": \"permanent\", \"created_at\": \"2026-06-01 00:00:00\", \"died_at_ms\": "
             "1780272005123 %s}]}",
             members);
    return read(text);
}

static void the_least_a_letter_needs(void) {
    CHECK_EQ(read_with(""), BODY_GOOD);
    CHECK(body->count == 1 && span_equal_str(body->queue, "q") && body->reason.n == 0);
    const struct letter_new *m = &body->items[0];
    CHECK(m->id == 7 && span_equal_str(m->payload, "x") && m->max_retries == 3);
    CHECK(m->reason == REASON_PERMANENT && m->retry_count == 0 && m->deliveries == 0);
    CHECK_EQ(m->created_at, INT64_C(1780272000000));
    CHECK_EQ(m->died_at, INT64_C(1780272005123));
    CHECK(m->first_failed_at == 0 && m->ttl_ms == 0 && m->parent_id == 0 && m->origin.n == 0);
    CHECK(m->headers.n == 0 && m->key.n == 0 && m->attempt_count == 0);
}

static void a_whole_letter(void) {
    CHECK_EQ(
        read("{\"queue\": \"q\", \"reason\": \"r\", \"letters\": [{\"id\": 7, \"queue\": \"a\", "
             "\"payload\": null, \"payload_base64\": \"AP8=\", \"status\": \"dead\", "
             "\"retry_count\": 2, \"max_retries\": 3, \"retry_after\": null, \"last_error\": "
             "\"two\", \"created_at\": \"x\", \"created_at_ms\": 1000, \"updated_at\": \"x\", "
             "\"updated_at_ms\": 2000, \"headers\": {\"h\": [1]}, \"key\": \"k\", \"priority\": 4, "
             "\"ttl_ms\": 500, \"deliveries\": 2, \"error_class\": \"C\", \"redrive_count\": 1, "
             "\"generation\": 2, \"parent_id\": 3, \"edited_to\": 9, \"job\": 5, \"reason\": "
             "\"expired\", \"died_at\": \"x\", \"died_at_ms\": 2000, \"death\": {\"dead_seq\": 17, "
             "\"by\": \"system\", \"died_at\": \"x\", \"died_at_ms\": 2000, \"first_failed_at\": "
             "\"x\", \"first_failed_at_ms\": 1500, \"origin\": {}, \"group\": \"g\"}, "
             "\"attempts_total\": 2, \"attempts_omitted\": 0, \"attempts\": ["
             "{\"attempt\": 1, \"event\": \"claimed\", \"at\": \"x\", \"at_ms\": 1100, \"worker\": "
             "\"w\", \"worker_version\": \"v\", \"next_at\": \"x\", \"next_at_ms\": 1200},"
             "{\"attempt\": 2, \"event\": \"failed\", \"at_ms\": 1500, \"error_class\": \"C\", "
             "\"error\": \"two\", \"detail\": \"d\", \"fingerprint\": \"f\", \"duration_ms\": 3},"
             "{\"attempt\": 2, \"event\": \"replayed\", \"at_ms\": 1600, \"actor\": \"ann\"}]}]}"),
        BODY_GOOD);
    const struct letter_new *m = &body->items[0];
    CHECK(span_equal_str(body->reason, "r"));
    CHECK(m->payload.n == 2 && m->payload.p[1] == 0xff &&
          span_equal_str(m->headers, "{\"h\":[1]}"));
    CHECK(m->created_at == 1000 && m->died_at == 2000 && m->first_failed_at == 1500);
    CHECK(m->retry_count == 2 && m->priority == 4 && m->ttl_ms == 500 && m->deliveries == 2);
    CHECK(m->redrive_count == 1 && m->parent_id == 3 && m->edited_to == 9 &&
          span_equal_str(m->origin, "a"));
    CHECK_EQ(m->attempt_count, 3);
    const struct letter_attempt *a = m->attempts;
    CHECK(a[0].event == EVENT_CLAIMED && a[0].attempt == 1 && a[0].at == 1100 &&
          a[0].next_at == 1200);
    CHECK(span_equal_str(a[0].worker, "w") && span_equal_str(a[0].worker_version, "v"));
    CHECK(a[1].event == EVENT_FAILED && span_equal_str(a[1].error_class, "C"));
    CHECK(span_equal_str(a[1].error, "two") && span_equal_str(a[1].detail, "d"));
    CHECK(span_equal_str(a[1].fingerprint, "f") && a[1].next_at == 0);
    CHECK(a[2].event == EVENT_REPLAYED && span_equal_str(a[2].worker, "ann"));
}

static void where_it_comes_from(void) {
    CHECK_EQ(read_with(", \"queue\": \"q\""), BODY_GOOD);
    CHECK_EQ(body->items[0].origin.n, 0);
    CHECK_EQ(read_with(", \"queue\": \"q\", \"origin_queue\": \"o\""), BODY_GOOD);
    CHECK(span_equal_str(body->items[0].origin, "o"));
    CHECK_EQ(read_with(", \"queue\": \"a\", \"origin_queue\": \"q\""), BODY_GOOD);
    CHECK_EQ(body->items[0].origin.n, 0);
}

static void a_failure_instead_of_a_story(void) {
    CHECK_EQ(read_with(", \"last_error\": \"boom\", \"error_class\": \"C\", \"deliveries\": 4, "
                       "\"death\": {\"last_failed_at_ms\": 99, \"worker\": \"w\"}"),
             BODY_GOOD);
    CHECK_EQ(body->items[0].attempt_count, 1);
    const struct letter_attempt *a = body->items[0].attempts;
    CHECK(a->event == EVENT_FAILED && a->attempt == 4 && a->at == 99);
    CHECK(span_equal_str(a->error, "boom") && span_equal_str(a->worker, "w"));
    CHECK_EQ(read_with(", \"last_error\": null"), BODY_GOOD);
    CHECK_EQ(body->items[0].attempt_count, 0);
    CHECK_EQ(read_with(", \"attempts\": [], \"death\": {\"last_failed_at_ms\": 99}"), BODY_GOOD);
    CHECK_EQ(body->items[0].attempt_count, 0);
}

static void wrong_letters(void) {
    CHECK(read_with(", \"died_at\": 7") == BODY_GOOD); /* the exact one counts */
    CHECK(read_with(", \"id2\": 7") == BODY_INVALID && said("letters[0].id2", "unknown_field"));
    CHECK(read_with(", \"status\": \"pending\"") == BODY_INVALID &&
          said("letters[0].status", "out_of_range"));
    CHECK(read_with(", \"death\": []") == BODY_INVALID && said("letters[0].death", "wrong_type"));
    CHECK(read_with(", \"death\": {\"x\": 1}") == BODY_INVALID &&
          said("letters[0].death.x", "unknown_field"));
    CHECK(read_with(", \"attempts\": [{\"attempt\": 1, \"event\": \"failed\", \"at_ms\": 1}]") ==
              BODY_INVALID &&
          said("letters[0].attempts[0].attempt", "out_of_range"));
    CHECK(read_with(", \"attempts\": [{\"attempt\": 0, \"event\": \"none\", \"at_ms\": 1}]") ==
              BODY_INVALID &&
          said("letters[0].attempts[0].event", "out_of_range"));
    CHECK(read_with(", \"deliveries\": 4194304") == BODY_INVALID &&
          said("letters[0].deliveries", "out_of_range"));
    CHECK(read("{\"queue\": \"q\", \"letters\": [7]}") == BODY_INVALID &&
          said("letters[0]", "wrong_type"));
    CHECK(read("{\"queue\": \"q\", \"letters\": []}") == BODY_INVALID &&
          said("letters", "out_of_range"));
    CHECK(read("{\"letters\": [{}]}") == BODY_INVALID && said("queue", "required"));
    CHECK(read("[]") == BODY_INVALID && said("body", "wrong_type"));
}

static void a_payload_over_the_limit(void) {
    char members[256];
    snprintf(members, sizeof members, ", \"key\": 7}, {\"payload\": \"%0101d\"", 0);
    CHECK_EQ(read_with(members), BODY_TOO_LARGE);
    CHECK(errors.count == 1 && said("letters[1].payload", "too_long"));
}

int main(void) {
    RUN(the_least_a_letter_needs);
    RUN(a_whole_letter);
    RUN(where_it_comes_from);
    RUN(a_failure_instead_of_a_story);
    RUN(wrong_letters);
    RUN(a_payload_over_the_limit);
    json_free(json);
    letters_body_free(body);
    return check_done();
}
