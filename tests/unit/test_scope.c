/* Names of vhosts' queues: both ways, and what has no name. */
#include "check.h"

#include "base/limits.h"
#include "model/scope.h"

static struct buf out;

static bool is_named(const char *vhost, const char *name, const char *scoped) {
    if (!scope_name(span_str(vhost), span_str(name), &out))
        return scoped == NULL;
    struct span back_vhost, back_name;
    scope_split(buf_span(&out), &back_vhost, &back_name);
    return scoped != NULL && span_equal_str(buf_span(&out), scoped) &&
           span_equal_str(back_vhost, vhost) && span_equal_str(back_name, name);
}

static bool is_split(const char *scoped, const char *vhost, const char *name) {
    struct span v, n;
    scope_split(span_str(scoped), &v, &n);
    return span_equal_str(v, vhost) && span_equal_str(n, name);
}

static void names_of_the_first_vhost_stay(void) {
    CHECK(is_named("/", "orders", "orders"));
    CHECK(is_named("/", "", ""));
    CHECK(is_named("/", "/", "/"));
    CHECK(is_named("/", "/a//b", "/a//b"));
    CHECK(is_named("/", "//a/b", NULL));
    CHECK(is_named("/", "//", NULL));
}

static void names_of_others_have_the_vhost_before_them(void) {
    CHECK(is_named("shop", "orders", "//shop/orders"));
    CHECK(is_named("shop", "", "//shop/"));
    CHECK(is_named("shop", "/x/", "//shop//x/"));
    CHECK(is_named("shop", "//x/y", "//shop///x/y"));
    CHECK(is_named("s", "q", "//s/q"));
    CHECK(is_named("/staging", "q", "///staging/q"));
    CHECK(is_named("/staging", "", "///staging/"));
}

static void some_vhosts_have_no_names(void) {
    CHECK(is_named("", "q", NULL));
    CHECK(is_named("a/b", "q", NULL));
    CHECK(is_named("a/", "q", NULL));
    CHECK(is_named("//", "q", NULL));
    CHECK(is_named("//a", "q", NULL));
    CHECK(!scope_vhost_is_valid(span_str("a/b")) && !scope_vhost_is_valid(span_str("")));
    CHECK(scope_vhost_is_valid(span_str("/")) && scope_vhost_is_valid(span_str("/a")));
}

static void other_forms_are_of_the_first_vhost(void) {
    CHECK(is_split("//shop", "/", "//shop"));
    CHECK(is_split("//", "/", "//"));
    CHECK(is_split("///", "/", "///"));
    CHECK(is_split("////q", "/", "////q"));
    CHECK(is_split("", "/", ""));
}

static void what_has_a_nul_has_no_name(void) {
    CHECK(!scope_name(span_str("/"), span_of("a\0b", 3), &out));
    CHECK(!scope_name(span_str("v"), span_of("\0", 1), &out));
    CHECK(!scope_name(span_of("v\0w", 3), span_str("q"), &out));
    CHECK(!scope_vhost_is_valid(span_of("v\0w", 3)) && !scope_vhost_is_valid(span_of("\0", 1)));
}

static void long_names_have_no_room(void) {
    char name[LIMIT_QUEUE_NAME + 2];
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = '\0';
    CHECK(is_named("/", name, NULL));
    name[LIMIT_QUEUE_NAME] = '\0';
    CHECK(is_named("/", name, name));
    CHECK(is_named("v", name, NULL));
    name[LIMIT_QUEUE_NAME - 4] = '\0';
    CHECK(scope_name(span_str("v"), span_str(name), &out) && out.n == LIMIT_QUEUE_NAME);
    CHECK(!scope_name(span_str("vw"), span_str(name), &out));
}

int main(void) {
    buf_init(&out, 1000);
    RUN(names_of_the_first_vhost_stay);
    RUN(names_of_others_have_the_vhost_before_them);
    RUN(some_vhosts_have_no_names);
    RUN(other_forms_are_of_the_first_vhost);
    RUN(what_has_a_nul_has_no_name);
    RUN(long_names_have_no_room);
    buf_release(&out);
    return check_done();
}
