/* Every malformed form: where it is wrong, and what is said about it. */
#include "check.h"

#include "model/filter.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

#define NOW INT64_C(1780315200000) /* 2026-06-01 12:00:00 */

static struct filter_error error;

/* `marks` stands below the text: ~ under each byte that is wrong, ^ where something is missing. */
struct wrong {
    const char *text, *marks, *says;
};

static void check_wrong(const struct wrong *all, size_t n, enum filter_scope scope) {
    for (size_t i = 0; i < n; i++) {
        const struct wrong *w = &all[i];
        struct filter *f = filter_parse(span_str(w->text), scope, NOW, &error);
        size_t at = strspn(w->marks, " "), bytes = strspn(w->marks + at, "~");
        if (f != NULL)
            printf("# %s: is read\n", w->text);
        CHECK(f == NULL);
        if (f == NULL && (error.at != at || error.bytes != bytes || strcmp(error.text, w->says)))
            printf("# %s: %zu+%zu: %s\n", w->text, error.at, error.bytes, error.text);
        CHECK(f != NULL || (error.at == at && error.bytes == bytes));
        CHECK(f != NULL || strcmp(error.text, w->says) == 0);
        filter_free(f);
    }
}

static void wrong_words(void) {
    static const struct wrong all[] = {
        {"foo:x", "~~~", "there is no word 'foo'"},
        {"queue:q raeson:x", "        ~~~~~~", "there is no word 'raeson'; did you mean reason?"},
        {"-resn:x", " ~~~~", "there is no word 'resn'; did you mean reason?"},
        {"Reason:manual", "~~~~~~", "there is no word 'Reason'; did you mean reason?"},
        {"QUEUE:x", "~~~~~", "there is no word 'QUEUE'; did you mean queue?"},
        {"aeg:>2h", "~~~", "there is no word 'aeg'; did you mean age?"},
        {"gae:>2h", "~~~", "there is no word 'gae'; did you mean age?"},
        {"aga:>2h", "~~~", "there is no word 'aga'; did you mean age?"},
        {"ueue:x", "~~~~", "there is no word 'ueue'; did you mean queue?"},
        {"PRIORITi:x", "~~~~~~~~", "there is no word 'PRIORITi'; did you mean priority?"},
        {"SIZE:x", "~~~~", "there is no word 'SIZE'; did you mean size?"},
        {"kAZ:x", "~~~", "there is no word 'kAZ'"},
        {"agge:>2h", "~~~~", "there is no word 'agge'; did you mean age?"},
        {"aggge:>2h", "~~~~~", "there is no word 'aggge'"},
        {"headers.x:1", "~~~~~~~", "there is no word 'headers'; did you mean header?"},
        {"stat:open", "~~~~", "there is no word 'stat'"},
        {"redeliveries:2", "~~~~~~~~~~~~",
         "there is no word 'redeliveries'; did you mean deliveries?"},
        {"a-word-much-longer-than-any-that-there-are-here:1",
         "~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~",
         "there is no word 'a-word-much-longer-than-any-that-there-a'"},
        {"ORDER:x", "~~~~~", "there is no word 'ORDER'; did you mean worker?"},
        {"OR:x", "~~", "there is no word 'OR'"},
        {":x", "~", "a word is missing before this"},
        {".a:x", "~", "a word is missing before this"},
        {"-:x", " ~", "a word is missing before this"},
        {"owner:me", "~~~~~", "'owner' is a word for cause groups, not for dead letters"},
        {"queue.x:y", "     ~~", "only header and payload go on with a '.'"},
        {"header:x", "      ^", "here belongs the name of a header: header.NAME:value"},
        {"header.:x", "       ^", "here belongs the name of a header: header.NAME:value"},
        {"payload:x", "       ^", "here belongs the path of a value: payload.PATH:value"},
        {"payload.:x", "        ^", "here belongs the path of a value: payload.PATH:value"},
        {"header.\"\":x", "       ~~", "the name of a header is not empty"},
        {"header.\"a\"b:x", "       ~~~~",
         "quote the whole name of the header: header.\"a name\":value"},
        {"header.a\"b\":x", "       ~~~~",
         "quote the whole name of the header: header.\"a name\":value"},
        {"header.\"a\\n\":x", "         ~",
         "in quotes, \\ stands only before \" and \\: write \\\\"},
        {"payload.a..b:x", "        ~~~~",
         "not a path: names between dots, \"quoted\" where they hold a dot or a quote, at most 64"},
        {"payload.a.:x", "        ~~",
         "not a path: names between dots, \"quoted\" where they hold a dot or a quote, at most 64"},
        {"refused", "~~~~~~~", "a term is word:value; to look for a text: message:*text*"},
        {"queue:q  \"a: b\"", "         ~~~~~~",
         "a term is word:value; to look for a text: message:*text*"},
        {"queue", "~~~~~", "':' and a value are missing behind this"},
        {"(queue)", " ~~~~~", "':' and a value are missing behind this"},
        {"header.\"a b\" id:1", "~~~~~~~~~~~~", "':' and a value are missing behind this"},
        {"queue:a AND id:1", "        ~~~", "items side by side mean AND already: leave it out"},
        {"queue:a or id:1", "        ~~", "OR stands in capitals between two items"},
        {"-OR id:1", " ~~", "OR stands in capitals between two items"},
        {"NOT id:1", "~~~", "write '-' directly before what is negated: -word:value"},
    };
    check_wrong(all, COUNT(all), FILTER_LETTERS);
    static const struct wrong of_groups[] = {
        {"state:open age:>2h", "           ~~~",
         "'age' is a word for dead letters, not for cause groups"},
        {"stat:open", "~~~~", "there is no word 'stat'; did you mean state?"},
        {"state:closed", "      ~~~~~~", "a state is open, acknowledged or resolved"},
        {"state:*", "      ~", "a state is open, acknowledged or resolved"},
    };
    check_wrong(of_groups, COUNT(of_groups), FILTER_GROUPS);
}

static void wrong_structure(void) {
    static const struct wrong all[] = {
        {"", "^", "the filter is empty"},
        {"   ", "   ^", "the filter is empty"},
        {"(id:1", "~", "this parenthesis is never closed"},
        {"id:1 (id:2 (id:3)", "     ~", "this parenthesis is never closed"},
        {"(", "~", "this parenthesis is never closed"},
        {"id:1)", "    ~", "no '(' stands before this ')'; quote a value that holds one"},
        {") id:1", "~", "no '(' stands before this ')'; quote a value that holds one"},
        {"error:f(x) id:1", "         ~",
         "no '(' stands before this ')'; quote a value that holds one"},
        {"id:1 ()", "     ~~", "these parentheses are empty"},
        {"-(  ) id:1", " ~~~~", "these parentheses are empty"},
        {"OR id:1", "~~", "nothing stands to the left of this OR"},
        {"(OR id:1)", " ~~", "nothing stands to the left of this OR"},
        {"OR", "~~", "nothing stands to the left of this OR"},
        {"id:1 OR", "     ~~", "nothing stands to the right of this OR"},
        {"(id:1 OR ) id:2", "      ~~", "nothing stands to the right of this OR"},
        {"id:1 OR OR id:2", "     ~~", "nothing stands to the right of this OR"},
        {"id:1 - id:2", "     ~", "'-' stands directly before the term or '(' that it negates"},
        {"id:1 -", "     ~", "'-' stands directly before the term or '(' that it negates"},
        {"(-)", " ~", "'-' stands directly before the term or '(' that it negates"},
        {"--id:1", "~", "'-' stands directly before the term or '(' that it negates"},
        {"queue:\"my queue", "      ~", "this quote is never closed"},
        {"queue:a\"b\\\"", "       ~", "this quote is never closed"},
        {"queue:\"\\", "      ~", "this quote is never closed"},
        {"header.\"a:b", "       ~", "this quote is never closed"},
        {"queue:a\tid:1", "       ~", "a filter holds no control characters: byte 0x09"},
        {"queue:\"a\x7f\"", "        ~", "a filter holds no control characters: byte 0x7f"},
        {"a\xff", " ~", "this byte is not UTF-8"},
        {"\xf0\x9f\x98\x80\x80", "    ~", "this byte is not UTF-8"},
        {"queue:a\xff", "       ~", "this byte is not UTF-8"},
        {"queue:\xc3\xa9\xe2\x82", "        ~", "this byte is not UTF-8"},
        {"queue:\xe2\x82\xacx\xa9 id:1", "          ~", "this byte is not UTF-8"},
    };
    check_wrong(all, COUNT(all), FILTER_LETTERS);
    struct span nul = span_of("id:1\0", 5);
    CHECK(filter_parse(nul, FILTER_LETTERS, NOW, &error) == NULL);
    CHECK_EQ(error.at, 4);
    CHECK_EQ(error.bytes, 1);
    CHECK(strcmp(error.text, "a filter holds no control characters: byte 0x00") == 0);
    CHECK(filter_parse(span_of(NULL, 0), FILTER_LETTERS, NOW, &error) == NULL);
    CHECK_EQ(error.at, 0);
}

#define IS_NO_TIME                                                                                 \
    "a time is expected, in UTC: 2026-06-01, 2026-06-01T12:00 or 2026-06-01T12:00:00Z"
#define IS_NO_DURATION "a duration is expected, in w, d, h, m and s: 30m, 1h30m"
#define IS_NO_REASON                                                                               \
    "a reason is max_retries, permanent, rejected, expired, max_length, delivery_limit, "          \
    "lease_expired, unroutable or manual"

static void wrong_texts_and_numbers(void) {
    static const struct wrong all[] = {
        {"key:", "    ^", "a value is missing; the empty text is \"\""},
        {"(key: id:1)", "     ^", "a value is missing; the empty text is \"\""},
        {"(died:)", "      ^", "a value is missing; the empty text is \"\""},
        {"key:\"a\\x\"", "      ~", "in quotes, \\ stands only before \" and \\: write \\\\"},
        {"reason:max_retires id:1", "       ~~~~~~~~~~~", IS_NO_REASON},
        {"reason:none", "       ~~~~", IS_NO_REASON},
        {"reason:\"max*\"", "       ~~~~~~", IS_NO_REASON},
        {"edited:maybe", "       ~~~~~", "the value is yes or no"},
        {"edited:Yes", "       ~~~", "the value is yes or no"},

        {"redrives:x", "         ~", "a whole number is expected"},
        {"redrives:1.5", "         ~~~", "a whole number is expected"},
        {"redrives:-1", "         ~~", "a whole number is expected"},
        {"redrives:>=2x id:1", "           ~~", "a whole number is expected"},
        {"redrives:1..b", "            ~", "a whole number is expected"},
        {"redrives:\">2\"", "         ~~~~", "a whole number is expected"},
        {"redrives:\"\"", "         ~~", "a whole number is expected"},
        {"redrives:2k", "         ~~", "a whole number is expected"},
        {"redrives:5..2", "         ~~~~", "the range ends before it begins"},
        {"redrives:..", "         ~~", "a value is missing beside '..'"},
        {"redrives:>=", "         ~~", "a value is missing beside '>='"},
        {"redrives:< id:1", "         ~", "a value is missing beside '<'"},
        {"redrives:>1..2", "         ~~~~~", "either a comparison or a range, not both"},
        {"id:9223372036854775807", "   ~~~~~~~~~~~~~~~~~~~", "this number is too large"},
        {"id:1..99999999999999999999", "      ~~~~~~~~~~~~~~~~~~~~", "this number is too large"},
        {"size:9007199254740992k", "     ~~~~~~~~~~~~~~~~~", "this number is too large"},
        {"size:10g", "     ~~~", "a number of bytes is expected: 512, 10k (times 1024) or 2m"},
        {"size:k", "     ~", "a number of bytes is expected: 512, 10k (times 1024) or 2m"},
    };
    check_wrong(all, COUNT(all), FILTER_LETTERS);
}

static void wrong_durations_and_times(void) {
    static const struct wrong all[] = {
        {"age:2h", "    ~~", "a duration is never met exactly: write >2h, <2h or a range 1h..2h"},
        {"age:>2", "     ~", IS_NO_DURATION},
        {"age:>h", "     ~", IS_NO_DURATION},
        {"age:>2y", "     ~~", IS_NO_DURATION},
        {"age:>1.5h", "     ~~~~", IS_NO_DURATION},
        {"age:1h..soon", "        ~~~~", IS_NO_DURATION},
        {"age:>\"\"", "     ~~", IS_NO_DURATION},
        {"age:>30m1h", "     ~~~~~", "the units of a duration fall, each once: 1d12h, 1h30m"},
        {"age:>1h1h", "     ~~~~", "the units of a duration fall, each once: 1d12h, 1h30m"},
        {"age:>9223372036854775808s", "     ~~~~~~~~~~~~~~~~~~~~", "this number is too large"},
        {"age:>9223372036854776s", "     ~~~~~~~~~~~~~~~~~", "this duration is too long"},
        {"age:2h..1h", "    ~~~~~~", "the range ends before it begins"},

        {"died:yesterday", "     ~~~~~~~~~", IS_NO_TIME},
        {"died:2026-6-1", "     ~~~~~~~~", IS_NO_TIME},
        {"died:x026-06-01", "     ~~~~~~~~~~", IS_NO_TIME},
        {"died:2026/06/01", "     ~~~~~~~~~~", IS_NO_TIME},
        {"died:2026-06-01T12.00", "     ~~~~~~~~~~~~~~~~", IS_NO_TIME},
        {"died:2026-06-01_12:00", "     ~~~~~~~~~~~~~~~~", IS_NO_TIME},
        {"died:2026-06-01Z", "     ~~~~~~~~~~~", IS_NO_TIME},
        {"died:>2026-06-01T12", "      ~~~~~~~~~~~~~", IS_NO_TIME},
        {"died:2026-06-01T12:00:00.5Z", "     ~~~~~~~~~~~~~~~~~~~~~~", IS_NO_TIME},
        {"died:2026-06-01T12:00+02:00", "     ~~~~~~~~~~~~~~~~~~~~~~", IS_NO_TIME},
        {"died:\"2026-06-01..2026-06-02\"", "     ~~~~~~~~~~~~~~~~~~~~~~~~", IS_NO_TIME},
        {"died:2026-06-01..never", "                 ~~~~~", IS_NO_TIME},
        {"died:2026-02-30", "     ~~~~~~~~~~", "no such time in the years 1970 to 9999"},
        {"died:1969-12-31", "     ~~~~~~~~~~", "no such time in the years 1970 to 9999"},
        {"died:>=2026-06-01T24:00", "       ~~~~~~~~~~~~~~~~",
         "no such time in the years 1970 to 9999"},
        {"died:2026-06-02..2026-06-01", "     ~~~~~~~~~~~~~~~~~~~~~~",
         "the range ends before it begins"},
    };
    check_wrong(all, COUNT(all), FILTER_LETTERS);
}

static void wrong_values_of_json(void) {
    static const struct wrong all[] = {
        {"payload.a:>x", "          ~~", "only numbers are compared; quote a text that begins so"},
        {"payload.a:<", "          ~", "only numbers are compared; quote a text that begins so"},
        {"header.a:>=\"5\"", "         ~~~~~",
         "only numbers are compared; quote a text that begins so"},
        {"payload.a:>1..2", "          ~~~~~",
         "only numbers are compared; quote a text that begins so"},
        {"payload.a:>1e999", "          ~~~~~~",
         "only numbers are compared; quote a text that begins so"},
        {"payload.a:2.5..-1", "          ~~~~~~~", "the range ends before it begins"},
        {"payload.a:9007199254740993..9007199254740992",
         "          ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~", "the range ends before it begins"},
    };
    check_wrong(all, COUNT(all), FILTER_LETTERS);
}

/* `times` times the text. */
static void add_times(struct buf *b, size_t times, const char *text) {
    while (times-- > 0)
        buf_add_str(b, text);
}

static bool is_good(const struct buf *text) {
    struct filter *f = filter_parse(buf_span(text), FILTER_LETTERS, NOW, &error);
    filter_free(f);
    return f != NULL;
}

static void limits_are_where_they_are_said_to_be(void) {
    struct buf text;
    buf_init(&text, 1 << 16);
    buf_add_str(&text, "key:");
    add_times(&text, FILTER_BYTES_MAX - 4, "k");
    CHECK(is_good(&text));
    add_times(&text, 3, " ");
    CHECK(!is_good(&text));
    CHECK_EQ(error.at, FILTER_BYTES_MAX);
    CHECK_EQ(error.bytes, 3);
    CHECK(strcmp(error.text, "a filter has at most 4096 bytes") == 0);

    buf_clear(&text);
    add_times(&text, FILTER_TERMS_MAX, "id:1 ");
    CHECK(is_good(&text));
    buf_add_str(&text, "key:\"k k\" id:x");
    CHECK(!is_good(&text));
    CHECK_EQ(error.at, FILTER_TERMS_MAX * 5);
    CHECK_EQ(error.bytes, 9);
    CHECK(strcmp(error.text, "a filter has at most 64 terms") == 0);

    buf_clear(&text);
    add_times(&text, FILTER_DEPTH_MAX / 2, "(-(");
    buf_add_str(&text, "id:1");
    add_times(&text, FILTER_DEPTH_MAX, ")");
    add_times(&text, FILTER_DEPTH_MAX, "(");
    buf_add_str(&text, "id:1");
    add_times(&text, FILTER_DEPTH_MAX, ")");
    CHECK(is_good(&text));
    size_t at = text.n + FILTER_DEPTH_MAX;
    add_times(&text, FILTER_DEPTH_MAX + 1, "(");
    CHECK(!is_good(&text));
    CHECK_EQ(error.at, at);
    CHECK_EQ(error.bytes, 1);
    CHECK(strcmp(error.text, "parentheses go at most 16 deep") == 0);

    /* as many nodes as there can be */
    buf_clear(&text);
    add_times(&text, FILTER_DEPTH_MAX, "id:1 -(id:2 OR -(id:3 id:4) OR ");
    buf_add_str(&text, "id:1");
    add_times(&text, FILTER_DEPTH_MAX, ")");
    CHECK(!is_good(&text)); /* 65 terms */
    buf_clear(&text);
    add_times(&text, FILTER_DEPTH_MAX, "id:1 -(id:2 OR -(id:3 id:4) OR ");
    text.n -= strlen(" OR ");
    add_times(&text, FILTER_DEPTH_MAX, ")");
    CHECK(!is_good(&text)); /* 17 deep */
    buf_clear(&text);
    add_times(&text, FILTER_DEPTH_MAX - 1, "id:1 -(id:2 OR -(id:3 id:4) OR ");
    buf_add_str(&text, "id:5 -(id:6 id:7 OR id:8)");
    add_times(&text, FILTER_DEPTH_MAX - 1, ")");
    CHECK(is_good(&text));
    buf_release(&text);
}

int main(void) {
    RUN(wrong_words);
    RUN(wrong_structure);
    RUN(wrong_texts_and_numbers);
    RUN(wrong_durations_and_times);
    RUN(wrong_values_of_json);
    RUN(limits_are_where_they_are_said_to_be);
    return check_done();
}
