/* Regular expressions from outside: found anywhere, told where they are ill-formed, bounded. */
#include "check.h"

#include "model/expression.h"

static struct expression_memory memory;

static bool finds(const char *expression, const char *text) {
    struct expression_error error;
    struct expression *e = expression_new(span_str(expression), &error);
    bool found = e != NULL && expression_matches(e, span_str(text), &memory);
    expression_free(e);
    return found;
}

static void found_anywhere(void) {
    CHECK(finds("^work\\.", "work.a"));
    CHECK(!finds("^work\\.", "my.work.a"));
    CHECK(finds("work", "my.work.a"));
    CHECK(finds("", "x") && finds("", "") && finds(".*", ""));
    CHECK(finds("^(?!amq\\.).*", "q") && !finds("^(?!amq\\.).*", "amq.gen-x"));
    CHECK(finds("^\xc3\xa4.$", "\xc3\xa4\xc3\xb6"));
}

static void ill_formed(void) {
    struct expression_error error = {0};
    CHECK(expression_new(span_str("ab(c"), &error) == NULL);
    CHECK_EQ(error.at, 4);
    CHECK(strstr(error.text, "at offset 4") != NULL);
    CHECK(expression_new(span_str("\xff"), &error) == NULL);
    expression_free(NULL);
}

static void too_costly_is_not_found(void) {
    CHECK(!finds("(a+)+$", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"));
}

int main(void) {
    RUN(found_anywhere);
    RUN(ill_formed);
    RUN(too_costly_is_not_found);
    expression_memory_release(&memory);
    return check_done();
}
