/* Arguments of queues and definitions of policies: what they say, what is refused and how, which of
 * two holds, and when two are the same. */
#include "check.h"

#include "model/exchange.h"

static struct json *root;
static struct queue_settings settings;
static enum queue_type type;
static struct settings_error error;

static bool reads(const char *text, bool with_x) {
    struct json_error json_error;
    json_free(root);
    root = json_parse(span_str(text), &json_error);
    memset(&error, 0, sizeof error);
    return queue_settings_read(root, with_x, &settings, &type, &error);
}

static bool refuses(const char *text, const char *wanted) {
    bool told = !reads(text, true) && strcmp(error.text, wanted) == 0;
    if (!told)
        printf("# %s: %s\n", text, error.text);
    return told;
}

static void words(void) {
    CHECK_EQ(exchange_type_parse(span_str("topic")), EXCHANGE_TOPIC);
    CHECK_EQ(exchange_type_parse(span_str("x-delayed-message")), -1);
    CHECK(strcmp(exchange_type_name(EXCHANGE_HEADERS), "headers") == 0);
    CHECK_EQ(policy_applies_parse(span_str("quorum_queues")), APPLIES_QUORUM);
    CHECK_EQ(policy_applies_parse(span_str("streams")), -1);
    CHECK(strcmp(policy_applies_name(APPLIES_ALL), "all") == 0);
    CHECK(strcmp(queue_type_name(QUEUE_QUORUM), "quorum") == 0);
    CHECK(strcmp(length_overflow_name(LENGTH_REJECT_PUBLISH_DLX), "reject-publish-dlx") == 0);
}

static void nothing_given(void) {
    CHECK(queue_settings_read(NULL, true, &settings, &type, &error));
    CHECK(settings.message_ttl_ms == -1 && settings.delivery_limit == NO_LIMIT_GIVEN);
    CHECK(type == QUEUE_CLASSIC && !settings.has_dlx && settings.overflow == -1);
    CHECK(reads("{\"x-unheard-of\": [1, {}], \"message-ttl\": true}", true));
    CHECK(settings.message_ttl_ms == -1);
}

static void all_arguments(void) {
    CHECK(reads("{\"x-message-ttl\": 134217728000, \"x-expires\": 1, \"x-max-length\": 0,"
                " \"x-max-length-bytes\": 5, \"x-delivery-limit\": -1, \"x-max-priority\": 255,"
                " \"x-overflow\": \"reject-publish-dlx\", \"x-single-active-consumer\": true,"
                " \"x-dead-letter-exchange\": \"\", \"x-dead-letter-routing-key\": \"k\","
                " \"x-queue-type\": \"quorum\", \"x-dead-letter-strategy\": \"at-least-once\","
                " \"x-queue-mode\": \"lazy\", \"alternate-exchange\": \"a\"}",
                true));
    CHECK_EQ(settings.message_ttl_ms, INT64_C(134217728000));
    CHECK_EQ(settings.expires_ms, 1);
    CHECK_EQ(settings.max_length, 0);
    CHECK_EQ(settings.max_length_bytes, 5);
    CHECK_EQ(settings.delivery_limit, -1);
    CHECK_EQ(settings.max_priority, 255);
    CHECK_EQ(settings.overflow, LENGTH_REJECT_PUBLISH_DLX);
    CHECK(settings.single_active_consumer && settings.has_dlx && settings.dlx.n == 0);
    CHECK(settings.has_dlrk && span_equal_str(settings.dlrk, "k"));
    CHECK(type == QUEUE_QUORUM && !settings.has_alternate);
}

static void wrong_arguments(void) {
    CHECK(refuses("{\"x-message-ttl\": -1}", "invalid arg 'x-message-ttl': {value_negative,-1}"));
    CHECK(strcmp(error.name, "x-message-ttl") == 0 &&
          strcmp(error.why, "{value_negative,-1}") == 0);
    CHECK(refuses("{\"x-message-ttl\": 315360000001}",
                  "invalid arg 'x-message-ttl': {value_too_large,315360000001}"));
    CHECK(reads("{\"x-message-ttl\": 315360000000}", true));
    CHECK(refuses("{\"x-message-ttl\": \"1\"}",
                  "invalid arg 'x-message-ttl': {unacceptable_type,longstr}"));
    CHECK(refuses("{\"x-message-ttl\": 1.0}",
                  "invalid arg 'x-message-ttl': {unacceptable_type,double}"));
    CHECK(refuses("{\"x-expires\": 0}", "invalid arg 'x-expires': {value_zero,0}"));
    CHECK(refuses("{\"x-expires\": null}", "invalid arg 'x-expires': {unacceptable_type,void}"));
    CHECK(refuses("{\"x-max-length\": -5}", "invalid arg 'x-max-length': {value_negative,-5}"));
    CHECK(refuses("{\"x-max-priority\": 256}",
                  "invalid arg 'x-max-priority': {max_value_exceeded,256}"));
    CHECK(refuses("{\"x-overflow\": \"drop\"}", "invalid arg 'x-overflow': invalid_overflow"));
    CHECK(refuses("{\"x-dead-letter-exchange\": 5}",
                  "invalid arg 'x-dead-letter-exchange': {unacceptable_type,long}"));
    CHECK(refuses("{\"x-dead-letter-routing-key\": \"k\"}",
                  "invalid arg 'x-dead-letter-routing-key': routing_key_but_no_dlx_defined"));
    CHECK(refuses("{\"x-dead-letter-exchange\": \"\", \"x-dead-letter-routing-key\": {}}",
                  "invalid arg 'x-dead-letter-routing-key': {unacceptable_type,table}"));
    CHECK(refuses("{\"x-dead-letter-strategy\": \"x\"}",
                  "invalid arg 'x-dead-letter-strategy': invalid_dlx_strategy"));
    CHECK(refuses("{\"x-single-active-consumer\": 1}",
                  "invalid arg 'x-single-active-consumer': {unacceptable_type,long}"));
    CHECK(refuses("{\"x-queue-type\": \"stream\"}",
                  "invalid arg 'x-queue-type': streams are not supported"));
    CHECK(refuses("{\"x-queue-type\": \"mirror\"}",
                  "invalid arg 'x-queue-type': unsupported queue type 'mirror'"));
}

static void long_values_are_cut_at_a_character(void) {
    char text[400];
    size_t n = (size_t)snprintf(text, sizeof text, "{\"x-queue-type\": \"a");
    for (int i = 0; i < 60; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "\xe2\x82\xac");
    (void)snprintf(text + n, sizeof text - n, "\"}");
    CHECK(!reads(text, true));
    CHECK(span_is_utf8(span_str(error.text)) && span_is_utf8(span_str(error.why)));
}

static void definitions_of_policies(void) {
    CHECK(reads("{\"message-ttl\": 5, \"dead-letter-routing-key\": \"k\", \"queue-type\": 7,"
                " \"alternate-exchange\": \"ae\", \"delivery-limit\": -3, \"ha-mode\": \"all\","
                " \"max-priority\": \"x\", \"x-message-ttl\": 9}",
                false));
    CHECK_EQ(settings.message_ttl_ms, 5);
    CHECK(settings.has_dlrk && !settings.has_dlx);
    CHECK(settings.has_alternate && span_equal_str(settings.alternate, "ae"));
    CHECK_EQ(settings.delivery_limit, -3);
    CHECK_EQ(settings.max_priority, -1);
    CHECK(!reads("{\"expires\": 0}", false));
    CHECK(strcmp(error.text, "invalid arg 'expires': {value_zero,0}") == 0);
}

static void which_of_two_holds(void) {
    struct queue_settings own = queue_settings_none(), policy = queue_settings_none();
    own.message_ttl_ms = 10;
    policy.message_ttl_ms = 5;
    policy.expires_ms = 7;
    own.max_length = 3;
    own.has_dlx = true;
    own.dlx = span_str("mine");
    policy.has_dlx = policy.has_dlrk = true;
    policy.dlx = span_str("theirs");
    policy.dlrk = span_str("key");
    own.overflow = LENGTH_REJECT_PUBLISH;
    policy.overflow = LENGTH_DROP_HEAD;
    struct queue_settings s = queue_settings_merge(&own, &policy, QUEUE_CLASSIC);
    CHECK(s.message_ttl_ms == 5 && s.expires_ms == 7 && s.max_length == 3);
    CHECK(s.max_length_bytes == -1 && s.overflow == LENGTH_REJECT_PUBLISH);
    CHECK(span_equal_str(s.dlx, "mine") && span_equal_str(s.dlrk, "key") && s.has_dlrk);
    CHECK(s.delivery_limit == NO_LIMIT_GIVEN);
    s = queue_settings_merge(&own, &policy, QUEUE_QUORUM);
    CHECK(s.overflow == LENGTH_DROP_HEAD && s.delivery_limit == QUORUM_DELIVERY_LIMIT);
    policy.overflow = -1;
    CHECK_EQ(queue_settings_merge(&own, &policy, QUEUE_QUORUM).overflow, LENGTH_REJECT_PUBLISH);
    CHECK_EQ(queue_settings_merge(&own, NULL, QUEUE_CLASSIC).message_ttl_ms, 10);
}

static int64_t limit_of(int64_t own_limit, int64_t policy_limit) {
    struct queue_settings own = queue_settings_none(), policy = queue_settings_none();
    own.delivery_limit = own_limit;
    policy.delivery_limit = policy_limit;
    return queue_settings_merge(&own, &policy, QUEUE_QUORUM).delivery_limit;
}

static void delivery_limits(void) {
    CHECK_EQ(limit_of(3, 5), 3);
    CHECK_EQ(limit_of(5, 3), 3);
    CHECK_EQ(limit_of(-1, 5), 5);
    CHECK_EQ(limit_of(5, -1), 5);
    CHECK_EQ(limit_of(-1, -1), -1);
    CHECK_EQ(limit_of(-1, NO_LIMIT_GIVEN), -1);
    CHECK_EQ(limit_of(NO_LIMIT_GIVEN, 7), 7);
    CHECK_EQ(limit_of(NO_LIMIT_GIVEN, NO_LIMIT_GIVEN), QUORUM_DELIVERY_LIMIT);
}

static bool equal(const char *a, const char *b) {
    bool one = arguments_equal(span_str(a), span_str(b));
    return one == arguments_equal(span_str(b), span_str(a)) && one;
}

static void equality(void) {
    CHECK(equal("", "{}"));
    CHECK(
        equal("{\"a\": 1, \"b\": [true, {\"c\": null}]}", "{\"b\":[true,{\"c\":null}],\"a\":1.0}"));
    CHECK(!equal("{\"a\": 1}", "{\"a\": 2}"));
    CHECK(!equal("{\"a\": 1}", "{\"a\": \"1\"}"));
    CHECK(!equal("{\"a\": 1}", "{\"a\": true}"));
    CHECK(!equal("{\"a\": 9007199254740993}", "{\"a\": 9007199254740992}"));
    CHECK(!equal("{\"a\": 1}", "{\"b\": 1}"));
    CHECK(!equal("{\"a\": 1}", "{\"a\": 1, \"b\": null}"));
    CHECK(!equal("{\"a\": [1, 2]}", "{\"a\": [2, 1]}"));
    CHECK(!equal("{\"a\": [1, 2]}", "{\"a\": [1]}"));
    CHECK(!equal("{\"a\": true}", "{\"a\": false}"));
    CHECK(!equal("{\"a\": null}", "{\"a\": false}"));
    CHECK(!equal("{\"a\": {\"b\": 1}}", "{\"a\": {\"b\": 1.5}}"));
    CHECK(equal("no json", "no json") && !equal("no json", "{}"));
}

static bool differ(const char *a, const char *b, const char *wanted) {
    char name[64] = "";
    bool differs = arguments_difference(span_str(a), span_str(b), name);
    return wanted == NULL ? !differs : differs && strcmp(name, wanted) == 0;
}

static void differences(void) {
    CHECK(differ("{\"x-message-ttl\": 1}", "{\"x-message-ttl\": 1}", NULL));
    CHECK(differ("{\"x-message-ttl\": 1}", "{\"x-message-ttl\": 2}", "x-message-ttl"));
    CHECK(differ("{\"x-message-ttl\": 1}", "", "x-message-ttl"));
    CHECK(differ("{\"x-ha-policy\": \"all\"}", "{}", NULL));
    CHECK(differ("{\"x-queue-type\": \"classic\"}", "", NULL));
    CHECK(differ("", "{\"x-queue-type\": \"classic\"}", NULL));
    CHECK(differ("", "{\"x-queue-type\": \"quorum\"}", "x-queue-type"));
    CHECK(differ("{\"alternate-exchange\": \"a\"}", "{\"alternate-exchange\": \"b\"}",
                 "alternate-exchange"));
    CHECK(differ("{\"x-expires\": null}", "{\"x-expires\": 1}", "x-expires"));
    CHECK(differ("no json", "{}", NULL));
}

int main(void) {
    RUN(words);
    RUN(nothing_given);
    RUN(all_arguments);
    RUN(wrong_arguments);
    RUN(long_values_are_cut_at_a_character);
    RUN(definitions_of_policies);
    RUN(which_of_two_holds);
    RUN(delivery_limits);
    RUN(equality);
    RUN(differences);
    json_free(root);
    return check_done();
}
