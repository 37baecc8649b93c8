#include "check.h"

#include "model/fields.h"
#include "model/message.h"

static struct json *object;
static struct field_errors errors;

static struct fields read(const char *text, const char *prefix) {
    struct json_error error;
    json_free(object);
    object = json_parse(span_str(text), &error);
    errors.count = 0;
    return (struct fields){.object = object, .prefix = prefix, .errors = &errors};
}

static bool said(unsigned i, const char *field, const char *code) {
    return i < errors.count && strcmp(errors.items[i].field, field) == 0 &&
           strcmp(errors.items[i].code, code) == 0 && errors.items[i].message[0] != '\0';
}

static void whole_numbers(void) {
    struct fields f =
        read("{\"a\": 7, \"b\": 11, \"c\": 2.5, \"d\": true, \"e\": \"3\", \"n\": null}", "");
    CHECK_EQ(field_int(&f, "a", 1, 10, 3), 7);
    CHECK_EQ(field_int(&f, "absent", 1, 10, 3), 3);
    CHECK_EQ(errors.count, 0);
    CHECK_EQ(field_int(&f, "b", 1, 10, 3), 3);
    CHECK(said(0, "b", "out_of_range"));
    CHECK(strcmp(errors.items[0].message, "must be a whole number from 1 to 10") == 0);
    CHECK_EQ(field_int(&f, "c", 1, 10, 3), 3);
    CHECK_EQ(field_int(&f, "d", 1, 10, 3), 3);
    CHECK_EQ(field_int(&f, "e", 1, 10, 3), 3);
    CHECK_EQ(field_int(&f, "n", 1, 10, 3), 3);
    CHECK(said(1, "c", "wrong_type") && said(2, "d", "wrong_type") && said(3, "e", "wrong_type") &&
          said(4, "n", "wrong_type"));
    CHECK_EQ(field_int_or_null(&f, "n", 1, 10, 0), 0);
    CHECK_EQ(field_int_or_null(&f, "a", 1, 10, 0), 7);
    CHECK_EQ(errors.count, 5);
}

static void numbers_and_bools(void) {
    struct fields f =
        read("{\"a\": 1.5, \"b\": 2, \"c\": 101, \"d\": \"x\", \"t\": true, \"u\": 1}", "");
    CHECK(field_number(&f, "a", 1, 100, 2) == 1.5);
    CHECK(field_number(&f, "b", 1, 100, 3) == 2);
    CHECK(field_number(&f, "absent", 1, 100, 3) == 3);
    CHECK(field_bool(&f, "t", false));
    CHECK(field_bool(&f, "absent", true));
    CHECK_EQ(errors.count, 0);
    CHECK(field_number(&f, "c", 1, 100, 3) == 3);
    CHECK(field_number(&f, "d", 1, 100, 3) == 3);
    CHECK(!field_bool(&f, "u", false));
    CHECK(said(0, "c", "out_of_range") && said(1, "d", "wrong_type") && said(2, "u", "wrong_type"));
}

static void strings(void) {
    struct fields f = read("{\"a\": \"four\", \"e\": \"\", \"n\": 1, \"z\": \"a\\u0000b\"}", "");
    CHECK(span_equal_str(field_string(&f, "a", 4), "four"));
    CHECK(field_string(&f, "e", 4).p != NULL);
    CHECK(field_string(&f, "absent", 4).p == NULL);
    CHECK_EQ(field_string(&f, "z", 4).n, 3);
    CHECK_EQ(errors.count, 0);
    CHECK_EQ(field_string(&f, "a", 3).n, 0);
    CHECK_EQ(field_string(&f, "n", 3).n, 0);
    CHECK(said(0, "a", "too_long") && said(1, "n", "wrong_type"));
}

static void choices(void) {
    static const char *const names[] = {"one", "two", NULL};
    struct fields f = read("{\"a\": \"two\", \"b\": \"three\", \"c\": 2}", "");
    CHECK_EQ(field_choice(&f, "a", names, 0), 1);
    CHECK_EQ(field_choice(&f, "absent", names, 0), 0);
    CHECK_EQ(errors.count, 0);
    CHECK_EQ(field_choice(&f, "b", names, 0), 0);
    CHECK_EQ(field_choice(&f, "c", names, 0), 0);
    CHECK(said(0, "b", "out_of_range") && said(1, "c", "wrong_type"));
    CHECK(strcmp(errors.items[0].message, "must be one of one, two") == 0);
}

static void unknown_members_are_named_with_their_prefix(void) {
    static const char *const names[] = {"delay_seconds", NULL};
    struct fields f = read("{\"dealy_seconds\": 1, \"delay_seconds\": 2}", "[2].");
    fields_known(&f, names);
    CHECK_EQ(errors.count, 1);
    CHECK(said(0, "[2].dealy_seconds", "unknown_field"));

    f.object = NULL; /* an absent body */
    fields_known(&f, names);
    CHECK_EQ(field_int(&f, "delay_seconds", 0, 10, 5), 5);
    CHECK_EQ(errors.count, 1);
}

static void an_error_may_say_where(void) {
    struct fields f = read("{}", "");
    field_error_add(f.errors, "", "q", "wrong_type", "must be text");
    field_error_add_at(f.errors, "q", "bad_filter", 12, 6, "100% unknown word");
    CHECK(said(0, "q", "wrong_type") && said(1, "q", "bad_filter"));
    CHECK(!errors.items[0].has_position && errors.items[1].has_position);
    CHECK_EQ(errors.items[1].position, 12);
    CHECK_EQ(errors.items[1].length, 6);
    CHECK(strcmp(errors.items[1].message, "100% unknown word") == 0);
    for (int i = 0; i < 2 * FIELD_ERRORS_MAX; i++)
        field_error_add_at(f.errors, "x", "bad_filter", 1, 1, "full");
    CHECK_EQ(errors.count, FIELD_ERRORS_MAX);
}

static void long_names_are_cut_at_a_character(void) {
    struct buf text;
    buf_init(&text, 400);
    buf_add_str(&text, "{\"");
    for (int i = 0; i < 60; i++)
        buf_add_str(&text, "\xe2\x82\xac"); /* the euro sign, three bytes */
    buf_add(&text, "\": 1}", 6);            /* with its NUL */
    static const char *const names[] = {NULL};
    struct fields f = read((const char *)text.p, "x.");
    fields_known(&f, names);
    CHECK_EQ(errors.count, 1);
    CHECK(span_is_utf8(span_str(errors.items[0].field)));
    CHECK_EQ(strlen(errors.items[0].field), 2 + 31 * 3);
    buf_release(&text);
}

static void errors_are_bounded(void) {
    struct buf text;
    buf_init(&text, 2000);
    for (int i = 0; i < 50; i++)
        buf_printf(&text, "%s\"m%d\": 1", i == 0 ? "{" : ",", i);
    buf_add(&text, "}", 2); /* with its NUL */
    static const char *const names[] = {NULL};
    struct fields f = read((const char *)text.p, "");
    fields_known(&f, names);
    CHECK_EQ(errors.count, FIELD_ERRORS_MAX);
    CHECK(said(0, "m0", "unknown_field"));
    buf_release(&text);
}

static void words_of_the_model(void) {
    for (int s = 0; s < STATE_COUNT; s++)
        CHECK_EQ(state_parse(span_str(state_name((enum state)s))), s);
    CHECK_EQ(state_parse(span_str("lost")), -1);
    CHECK_EQ(state_parse(span_str("")), -1);
    CHECK(strcmp(reason_name(REASON_LEASE_EXPIRED), "lease_expired") == 0);
    CHECK(strcmp(event_name(EVENT_REPLAYED), "replayed") == 0);
}

int main(void) {
    RUN(whole_numbers);
    RUN(numbers_and_bools);
    RUN(strings);
    RUN(choices);
    RUN(unknown_members_are_named_with_their_prefix);
    RUN(an_error_may_say_where);
    RUN(long_names_are_cut_at_a_character);
    RUN(errors_are_bounded);
    RUN(words_of_the_model);
    json_free(object);
    return check_done();
}
