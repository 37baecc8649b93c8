/* Patterns with stars, against the plainest matcher there is. */
#include "check.h"

#include "base/glob.h"
#include "base/rng.h"

static bool matches(const char *pattern, const char *text) {
    return glob_match(span_str(pattern), span_str(text));
}

static void without_stars_it_is_the_text(void) {
    CHECK(matches("", ""));
    CHECK(matches("Timeout", "Timeout"));
    CHECK(!matches("Timeout", "timeout"));
    CHECK(!matches("Timeout", "Timeouts"));
    CHECK(!matches("", "x"));
    CHECK(!matches("x", ""));
    CHECK(glob_match(span_of(NULL, 0), span_of(NULL, 0)));
    CHECK(!glob_match(span_str("a"), span_of(NULL, 0)));
}

static void stars_stand_for_anything(void) {
    CHECK(matches("*", "") && matches("*", "x") && matches("**", ""));
    CHECK(glob_match(span_str("*"), span_of(NULL, 0)));
    CHECK(matches("Time*", "Timeout") && matches("Time*", "Time"));
    CHECK(matches("*out", "Timeout") && !matches("*out", "Timeouts"));
    CHECK(matches("*refused*", "connection refused by peer"));
    CHECK(!matches("*refused*", "connection reset by peer"));
    CHECK(matches("a*b*c", "a-b-b-c") && !matches("a*b*c", "a-c-b"));
    CHECK(!matches("ab*ba", "aba")); /* the ends do not overlap */
    CHECK(matches("*aab*", "aaaab"));
    CHECK(matches("a*\xc3\xa4", "a\n\xc3\xa4"));
    CHECK(glob_match(span_of("a\0*", 3), span_of("a\0b", 3)));
}

static void marks_say_which_stars_count(void) {
    static const uint8_t marks[] = {0, 0, 1};
    CHECK(glob_match_marked(span_str("a**"), marks, span_str("a*xyz")));
    CHECK(!glob_match_marked(span_str("a**"), marks, span_str("axyz")));
    CHECK(!glob_match_marked(span_str("a*x"), (const uint8_t[]){0, 0, 0}, span_str("axx")));
    CHECK(glob_match_marked(span_of(NULL, 0), NULL, span_of(NULL, 0)));
}

static bool slowly(const char *p, const char *t) {
    if (*p == '\0')
        return *t == '\0';
    if (*p == '*')
        return slowly(p + 1, t) || (*t != '\0' && slowly(p, t + 1));
    return *p == *t && slowly(p + 1, t + 1);
}

static void fill(struct rng *rng, const char *letters, char *out, size_t most) {
    size_t n = rng_below(rng, most + 1);
    for (size_t i = 0; i < n; i++)
        out[i] = letters[rng_below(rng, strlen(letters))];
    out[n] = '\0';
}

static void it_agrees_with_the_plain_way(void) {
    struct rng rng;
    rng_seed(&rng, 1);
    int matched = 0;
    for (int i = 0; i < 200000; i++) {
        char pattern[8], text[12];
        fill(&rng, "ab**", pattern, sizeof pattern - 1);
        fill(&rng, "ab", text, sizeof text - 1);
        bool expected = slowly(pattern, text);
        if (matches(pattern, text) != expected)
            printf("# %s on %s\n", pattern, text);
        CHECK(matches(pattern, text) == expected);
        matched += expected;
    }
    CHECK(matched > 1000);
}

int main(void) {
    RUN(without_stars_it_is_the_text);
    RUN(stars_stand_for_anything);
    RUN(marks_say_which_stars_count);
    RUN(it_agrees_with_the_plain_way);
    return check_done();
}
