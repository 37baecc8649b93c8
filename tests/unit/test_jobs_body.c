#include "field_errors.h"

#include "http/jobs_body.h"

#define NOW INT64_C(1780272000000) /* 2026-06-01 00:00:00 */

static struct job_body job;
static struct edit_body edit;
static struct json *json;

static const struct json *read(const char *text) {
    struct json_error error;
    json_free(json);
    json = json_parse(span_str(text), &error);
    errors.count = 0;
    return json;
}

static void said_each(const char *const wrong[][3], size_t n, void (*f)(const char *text)) {
    for (size_t i = 0; i < n; i++) {
        f(wrong[i][0]);
        bool is_so = said(wrong[i][1], wrong[i][2]);
        CHECK(is_so);
        if (!is_so)
            printf("# case %s\n", wrong[i][0]);
    }
}

/* -- jobs ------------------------------------------------------------------------------------ */

static void read_redrive(const char *text) {
    job_body_release(&job);
    job_body_init(&job);
    redrive_body_read(&job, read(text), NOW, &errors);
}

static void read_discards(const char *text) {
    job_body_release(&job);
    job_body_init(&job);
    discards_body_read(&job, read(text), NOW, &errors);
}

static void redrive_defaults(void) {
    read_redrive("{\"queue\": \"q\", \"all\": true}");
    CHECK_EQ(errors.count, 0);
    const struct job_new *j = &job.job;
    CHECK(j->kind == JOB_REDRIVE && span_equal_str(j->queue, "q") && j->filter.n == 0);
    CHECK(j->to.n == 0 && j->patch.n == 0 && j->name.n == 0 && j->act.reason.n == 0);
    CHECK(j->rate_milli == 0 && j->sample == SAMPLE_BY_DEFAULT && j->stop_if_ppm == 200000);
    CHECK(!j->force && !job.is_dry_run);
}

static void redrive_fields(void) {
    read_redrive("{\"queue\": \"q\", \"filter\": \"error:Timeout*\", \"to\": \"r\", \"rate\": 50,"
                 "\"sample\": 0, \"stop_if\": \"5%\", \"force\": true, \"name\": \"n\","
                 "\"reason\": \"why\", \"dry_run\": true,"
                 "\"patch\": [{\"op\": \"remove\", \"path\": \"header.a\"}]}");
    CHECK_EQ(errors.count, 0);
    const struct job_new *j = &job.job;
    CHECK(span_equal_str(j->filter, "error:Timeout*") && span_equal_str(j->to, "r"));
    CHECK(j->rate_milli == 50000 && j->sample == 0 && j->stop_if_ppm == 50000);
    CHECK(j->force && job.is_dry_run && span_equal_str(j->name, "n"));
    CHECK(span_equal_str(j->act.reason, "why"));
    CHECK(span_equal_str(j->patch, "[{\"op\":\"remove\",\"path\":\"header.a\"}]"));
    read_redrive("{\"queue\": \"q\", \"all\": true, \"rate\": null, \"stop_if\": null}");
    CHECK(errors.count == 0 && j->rate_milli == 0 && j->stop_if_ppm == STOP_NEVER);
    read_redrive("{\"queue\": \"q\", \"all\": false, \"filter\": \"id:7\"}");
    CHECK(errors.count == 0 && j->filter.n == 4);
    read_redrive("{\"queue\": \"q\", \"all\": true, \"rate\": 0.001, \"sample\": 1000000}");
    CHECK(errors.count == 0 && j->rate_milli == 1 && j->sample == 1000000);
    read_redrive("{\"queue\": \"q\", \"all\": true, \"rate\": 0.5}");
    CHECK(errors.count == 0 && j->rate_milli == 500);
    read_redrive("{\"queue\": \"q\", \"all\": true, \"rate\": 1000000}");
    CHECK(errors.count == 0 && j->rate_milli == 1000000000);
}

static void wrong_redrives(void) {
    static const char *const wrong[][3] = {
        {"7", "body", "wrong_type"},
        {"{\"all\": true}", "queue", "required"},
        {"{\"queue\": 7, \"all\": true}", "queue", "wrong_type"},
        {"{\"queue\": \"\", \"all\": true}", "queue", "out_of_range"},
        {"{\"queue\": \"q\"}", "filter", "required"},
        {"{\"queue\": \"q\", \"all\": false}", "filter", "required"},
        {"{\"queue\": \"q\", \"all\": \"yes\"}", "all", "wrong_type"},
        {"{\"queue\": \"q\", \"all\": true, \"filter\": \"id:7\"}", "all", "conflict"},
        {"{\"queue\": \"q\", \"filter\": \"\"}", "filter", "bad_filter"},
        {"{\"queue\": \"q\", \"filter\": \" \\t\\n\"}", "filter", "bad_filter"},
        {"{\"queue\": \"q\", \"filter\": \"id:7 colour:red\"}", "filter", "bad_filter"},
        {"{\"queue\": \"q\", \"filter\": \"state:open\"}", "filter", "bad_filter"},
        {"{\"queue\": \"q\", \"filter\": null}", "filter", "wrong_type"},
        {"{\"queue\": \"q\", \"all\": true, \"to\": \"q\"}", "to", "conflict"},
        {"{\"queue\": \"q\", \"all\": true, \"to\": \"\"}", "to", "out_of_range"},
        {"{\"queue\": \"q\", \"all\": true, \"rate\": 0}", "rate", "out_of_range"},
        {"{\"queue\": \"q\", \"all\": true, \"rate\": 0.0009}", "rate", "out_of_range"},
        {"{\"queue\": \"q\", \"all\": true, \"rate\": 1000001}", "rate", "out_of_range"},
        {"{\"queue\": \"q\", \"all\": true, \"rate\": \"50/s\"}", "rate", "wrong_type"},
        {"{\"queue\": \"q\", \"all\": true, \"sample\": -1}", "sample", "out_of_range"},
        {"{\"queue\": \"q\", \"all\": true, \"sample\": 1000001}", "sample", "out_of_range"},
        {"{\"queue\": \"q\", \"all\": true, \"sample\": 1.5}", "sample", "wrong_type"},
        {"{\"queue\": \"q\", \"all\": true, \"stop_if\": true}", "stop_if", "wrong_type"},
        {"{\"queue\": \"q\", \"all\": true, \"patch\": []}", "patch", "out_of_range"},
        {"{\"queue\": \"q\", \"all\": true, \"force\": 1}", "force", "wrong_type"},
        {"{\"queue\": \"q\", \"all\": true, \"why\": \"fixed\"}", "why", "unknown_field"},
    };
    said_each(wrong, sizeof wrong / sizeof wrong[0], read_redrive);
    read_redrive("{\"queue\": \"q\", \"filter\": \"id:7 colour:red\"}");
    CHECK(errors.items[0].has_position && errors.items[0].position == 5);
    CHECK(errors.items[0].length > 0);
    read_redrive("{\"queue\": \"q\", \"filter\": \"  \"}");
    CHECK(errors.items[0].has_position && errors.items[0].position == 0);
    CHECK(errors.items[0].length == 2 && strstr(errors.items[0].message, "all: true") != NULL);
}

static void texts_that_are_too_long(void) {
    static const struct {
        const char *field;
        int most;
    } fields[] = {{"queue", LIMIT_QUEUE_NAME},
                  {"to", LIMIT_QUEUE_NAME},
                  {"name", LIMIT_JOB_NAME},
                  {"reason", LIMIT_AUDIT_REASON}};
    char text[2048];
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        for (int over = 0; over <= 1; over++) {
            const char *queue = i == 0 ? "" : "\"queue\": \"q\", ";
            snprintf(text, sizeof text, "{%s\"all\": true, \"%s\": \"%0*d\"}", queue,
                     fields[i].field, fields[i].most + over, 0);
            read_redrive(text);
            CHECK_EQ(errors.count, over);
            CHECK(over == 0 || said(fields[i].field, "too_long"));
        }
    }
}

static void a_patch_that_is_too_long(void) {
    struct buf text;
    buf_init(&text, 65536);
    for (int over = 0; over <= 1; over++) {
        buf_clear(&text);
        int spare = (int)sizeof "[{'op':'set','path':'header.a','value':''}]" - 1;
        buf_printf(&text,
                   "{\"queue\": \"q\", \"all\": true, \"patch\": [{\"op\": \"set\", \"path\": "
                   "\"header.a\", \"value\": \"%0*d\"}]}",
                   LIMIT_PATCH - spare + over, 0);
        buf_add_byte(&text, '\0');
        read_redrive((const char *)text.p);
        CHECK_EQ(errors.count, over);
    }
    CHECK(said("patch", "too_long"));
    buf_release(&text);
}

static void shares(void) {
    static const struct {
        const char *text;
        uint32_t ppm;
    } good[] = {{"\"0%\"", 0},
                {"\"5%\"", 50000},
                {"\"100%\"", 1000000},
                {"\"12.5%\"", 125000},
                {"\"0.0001%\"", 1},
                {"\"005%\"", 50000},
                {"0", 0},
                {"1", 1000000},
                {"0.05", 50000},
                {"0.2", 200000},
                {"1.0", 1000000},
                {"null", STOP_NEVER}};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        CHECK_EQ(stop_if_read(read(good[i].text), &errors), good[i].ppm);
        CHECK_EQ(errors.count, 0);
    }
    static const char *const bad[] = {"\"\"",
                                      "\"%\"",
                                      "\"5\"",
                                      "\"5 %\"",
                                      "\"5%%\"",
                                      "\"-5%\"",
                                      "\".5%\"",
                                      "\"5.%\"",
                                      "\"101%\"",
                                      "\"1e1%\"",
                                      "1.01",
                                      "-0.01",
                                      "\"0.00001%\"",
                                      "5",
                                      "\"100.0001%\"",
                                      "\"5%x\"",
                                      "\"99999999999999999%\"",
                                      "\"1.2.3%\""};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        stop_if_read(read(bad[i]), &errors);
        CHECK(said("stop_if", "out_of_range"));
    }
    stop_if_read(read("[]"), &errors);
    CHECK(said("stop_if", "wrong_type"));
}

static void discards(void) {
    read_discards("{\"all\": true, \"why\": \"bad data\"}");
    CHECK_EQ(errors.count, 0);
    CHECK(job.job.kind == JOB_DISCARD && job.job.queue.n == 0 && job.job.why == DISCARD_BAD_DATA);
    CHECK(job.job.stop_if_ppm == STOP_NEVER && job.job.sample == 0 && job.job.rate_milli == 0);
    read_discards("{\"queue\": \"q\", \"filter\": \"id:7\", \"why\": \"other\", \"name\": \"n\","
                  "\"reason\": \"r\", \"dry_run\": true}");
    CHECK(errors.count == 0 && job.is_dry_run && job.job.why == DISCARD_OTHER);
    static const char *const wrong[][3] = {
        {"[]", "body", "wrong_type"},
        {"{\"all\": true}", "why", "required"},
        {"{\"all\": true, \"why\": \"\"}", "why", "out_of_range"},
        {"{\"all\": true, \"why\": \"bored\"}", "why", "out_of_range"},
        {"{\"all\": true, \"why\": 7}", "why", "wrong_type"},
        {"{\"why\": \"test\"}", "filter", "required"},
        {"{\"filter\": \" \", \"why\": \"test\"}", "filter", "bad_filter"},
        {"{\"all\": true, \"queue\": \"\", \"why\": \"test\"}", "queue", "out_of_range"},
        {"{\"all\": true, \"why\": \"test\", \"rate\": 5}", "rate", "unknown_field"},
    };
    said_each(wrong, sizeof wrong / sizeof wrong[0], read_discards);
}

static void read_purge(const char *text) {
    job_body_release(&job);
    job_body_init(&job);
    purge_body_read(&job, span_str("q"), read(text), &errors);
}

static void purges(void) {
    read_purge("{\"confirm\": \"q\", \"reason\": \"r\"}");
    CHECK_EQ(errors.count, 0);
    CHECK(job.job.kind == JOB_PURGE && span_equal_str(job.job.queue, "q"));
    CHECK(job.job.filter.n == 0 && span_equal_str(job.job.act.reason, "r"));
    static const char *const wrong[][3] = {
        {"7", "body", "wrong_type"},
        {"{}", "confirm", "required"},
        {"{\"confirm\": true}", "confirm", "wrong_type"},
        {"{\"confirm\": \"Q\"}", "confirm", "conflict"},
        {"{\"confirm\": \"\"}", "confirm", "conflict"},
        {"{\"confirm\": \"q\", \"all\": true}", "all", "unknown_field"},
    };
    said_each(wrong, sizeof wrong / sizeof wrong[0], read_purge);
}

static struct job_change change;
static struct span reason;

static void read_change(const char *text) {
    job_change_read(&change, &reason, true, read(text), &errors);
}

static void read_change_of_discards(const char *text) {
    job_change_read(&change, &reason, false, read(text), &errors);
}

static void changes(void) {
    read_change("{\"state\": \"paused\", \"reason\": \"r\"}");
    CHECK(errors.count == 0 && change.has_state && change.state == JOB_PAUSED);
    CHECK(!change.has_rate && !change.has_stop_if && span_equal_str(reason, "r"));
    read_change("{\"rate\": null, \"stop_if\": 0.1}");
    CHECK(errors.count == 0 && change.has_rate && change.rate_milli == 0 && !change.has_state);
    CHECK(change.has_stop_if && change.stop_if_ppm == 100000);
    read_change_of_discards("{\"state\": \"cancelled\"}");
    CHECK(errors.count == 0 && change.state == JOB_CANCELLED);
    static const char *const wrong[][3] = {
        {"[]", "body", "wrong_type"},
        {"{}", "state", "required"},
        {"{\"reason\": \"r\"}", "state", "required"},
        {"{\"state\": \"done\"}", "state", "out_of_range"},
        {"{\"state\": null}", "state", "wrong_type"},
        {"{\"rate\": -1}", "rate", "out_of_range"},
        {"{\"stop_if\": \"x\"}", "stop_if", "out_of_range"},
        {"{\"sample\": 5}", "sample", "unknown_field"},
    };
    said_each(wrong, sizeof wrong / sizeof wrong[0], read_change);
    static const char *const wrong_of_discards[][3] = {{"{\"rate\": 5}", "rate", "unknown_field"},
                                                       {"{}", "state", "required"}};
    said_each(wrong_of_discards, 2, read_change_of_discards);
}

/* -- one letter ------------------------------------------------------------------------------ */

static void replays(void) {
    struct replay_body body;
    errors.count = 0;
    replay_body_read(&body, NULL, &errors);
    CHECK(errors.count == 0 && !body.force && body.reason.n == 0);
    replay_body_read(&body, read("{\"force\": true, \"reason\": \"r\"}"), &errors);
    CHECK(errors.count == 0 && body.force && span_equal_str(body.reason, "r"));
    replay_body_read(&body, read("{\"force\": \"yes\"}"), &errors);
    CHECK(said("force", "wrong_type"));
    replay_body_read(&body, read("{\"lease\": \"42-1\"}"), &errors);
    CHECK(said("lease", "unknown_field"));
    replay_body_read(&body, read("[]"), &errors);
    CHECK(said("body", "wrong_type"));
}

static void discards_of_one(void) {
    static const char *const names[] = {"fixed",    "obsolete", "duplicate",
                                        "bad data", "test",     "other"};
    struct discard_body body;
    char text[64];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(text, sizeof text, "{\"why\": \"%s\"}", names[i]);
        discard_body_read(&body, read(text), &errors);
        CHECK(errors.count == 0 && body.why == (enum discard_reason)(i + 1));
    }
    discard_body_read(&body, read("{}"), &errors);
    CHECK(said("why", "required"));
    CHECK(strcmp(errors.items[0].message, "is required") == 0);
    discard_body_read(&body, read("{\"why\": \"none\"}"), &errors);
    CHECK(said("why", "out_of_range"));
    discard_body_read(&body, read("[]"), &errors);
    CHECK(said("body", "wrong_type"));

    errors.count = 0;
    CHECK(reason_body_read(NULL, &errors).n == 0 && errors.count == 0);
    CHECK(span_equal_str(reason_body_read(read("{\"reason\": \"r\"}"), &errors), "r"));
    reason_body_read(read("{\"why\": \"test\"}"), &errors);
    CHECK(said("why", "unknown_field"));
}

static enum body_verdict verdict;

static void read_edit(const char *text) {
    edit_body_release(&edit);
    edit_body_init(&edit);
    verdict = edit_body_read(&edit, read(text), 10, &errors);
}

static void edits(void) {
    read_edit("{\"payload\": \"new\"}");
    CHECK(verdict == BODY_GOOD && edit.edit.has_payload && !edit.edit.has_headers);
    CHECK(span_equal_str(edit.edit.payload, "new") && !edit.edit.force && edit.patch.n == 0);
    read_edit("{\"payload_base64\": \"AP8=\", \"headers\": {\"a\": 1}, \"force\": true}");
    CHECK(verdict == BODY_GOOD && edit.edit.payload.n == 2 && edit.edit.payload.p[1] == 0xff);
    CHECK(edit.edit.force && span_equal_str(edit.edit.headers, "{\"a\":1}"));
    read_edit("{\"payload\": \"\"}");
    CHECK(verdict == BODY_GOOD && edit.edit.has_payload && edit.edit.payload.n == 0);
    read_edit("{\"headers\": null, \"reason\": \"r\"}");
    CHECK(verdict == BODY_GOOD && edit.edit.has_headers && edit.edit.headers.n == 0);
    CHECK(!edit.edit.has_payload && span_equal_str(edit.reason, "r"));
    read_edit("{\"headers\": {}}");
    CHECK(verdict == BODY_GOOD && edit.edit.has_headers && edit.edit.headers.n == 0);
    read_edit("{\"patch\": [{\"op\": \"remove\", \"path\": \"payload.a\"}]}");
    CHECK(verdict == BODY_GOOD && edit.patch.n > 0);
    CHECK(!edit.edit.has_payload && !edit.edit.has_headers);
}

static void wrong_edits(void) {
    static const char *const wrong[][3] = {
        {"7", "body", "wrong_type"},
        {"{}", "payload", "required"},
        {"{\"force\": true}", "payload", "required"},
        {"{\"payload\": 7}", "payload", "wrong_type"},
        {"{\"payload\": null}", "payload", "wrong_type"},
        {"{\"payload\": \"a\", \"payload_base64\": \"\"}", "payload_base64", "conflict"},
        {"{\"payload_base64\": \"YQ\"}", "payload_base64", "bad_encoding"},
        {"{\"headers\": [1]}", "headers", "wrong_type"},
        {"{\"patch\": {}}", "patch", "wrong_type"},
        {"{\"patch\": [{}], \"payload\": \"a\"}", "patch", "conflict"},
        {"{\"patch\": [{}], \"headers\": null}", "patch", "conflict"},
        {"{\"payload\": \"a\", \"priority\": 1}", "priority", "unknown_field"},
    };
    said_each(wrong, sizeof wrong / sizeof wrong[0], read_edit);
    read_edit("{\"payload\": \"0123456789a\", \"nope\": 1}");
    CHECK(verdict == BODY_TOO_LARGE && errors.count == 1 && said("payload", "too_long"));
}

int main(void) {
    job_body_init(&job);
    edit_body_init(&edit);
    RUN(redrive_defaults);
    RUN(redrive_fields);
    RUN(wrong_redrives);
    RUN(texts_that_are_too_long);
    RUN(a_patch_that_is_too_long);
    RUN(shares);
    RUN(discards);
    RUN(purges);
    RUN(changes);
    RUN(replays);
    RUN(discards_of_one);
    RUN(edits);
    RUN(wrong_edits);
    edit_body_release(&edit);
    job_body_release(&job);
    json_free(json);
    return check_done();
}
