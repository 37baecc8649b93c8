/* Error messages without what differs from one message to the next.
 *
 * One pass over the text: at each place the first recogniser that knows what stands there writes a
 * placeholder and steps over it; what none of them knows is copied.
 *
 * N1 Time is linear. A recogniser that may look far ahead in vain is tried once a stretch: where
 *    the run of bytes begins that it looks at, or it leaves a mark that nothing is to be found
 *    before (dense_end) or behind (unclosed).
 * N2 A word is never folded for being a word: what is folded holds a digit, stands between quotes,
 *    or is an address or a time by its form.
 * N3 At most FINGERPRINT_NORMAL_MAX bytes are written: less than is read, since where the reading
 *    ends depends on the length of the values before.
 * N4 All of it is part of the keys of version 1: no change, not even for the better. */
#include "model/ascii.h"
#include "model/fingerprint.h"
#include "model/token.h"

#include <string.h>

enum {
    HEX_LEAST = 7,     /* digits of a short hash; fewer may be part of a name */
    HEX_LONG = 16,     /* from here on it is no number */
    MIXED_LONG = 16,   /* bytes of letters and digits in turn: no name has so many */
    WORD_LEAST = 4,    /* letters of one case in a row: a word */
    CODE_DIGITS = 3,   /* of a status */
    CODE_HEX = 10,     /* bytes of one that is hexadecimal */
    CODE_DISTANCE = 4, /* bytes between "status" and its number */
    OBJECT_HASH = 5,   /* hexadecimal digits after the @ in a Java object's text */
    KEY_MAX = 64,      /* bytes of a member's name */
    NAME_SIZE = 12     /* of the names that are known here, with a NUL */
};

struct text {
    const uint8_t *begin, *at, *end;
    bool is_cut; /* there was more */

    struct buf *out;
    size_t start, stop; /* of what is written */
    bool is_full;

    const uint8_t *code_word; /* the end of the last word that has a status after it, or NULL */
    size_t code_least;        /* digits of that status */
    const uint8_t *dense_end; /* no dense id begins before */
    unsigned unclosed;        /* quotes that are not closed again from here on, one bit a kind */
};

/* -- reading and writing --------------------------------------------------------------------- */

/* The byte at p, 0 outside of the text. */
static uint8_t byte_at(const struct text *t, const uint8_t *p) {
    return p >= t->begin && p < t->end ? *p : 0;
}

/* The byte n before this place. */
static uint8_t byte_back(const struct text *t, size_t n) {
    return (size_t)(t->at - t->begin) >= n ? *(t->at - n) : 0;
}

static uint8_t byte_before(const struct text *t) {
    return byte_back(t, 1);
}

static struct span rest_of(const struct text *t) {
    return span_of(t->at, (size_t)(t->end - t->at));
}

static bool is_one_of(uint8_t c, const char *set) {
    return c != 0 && strchr(set, c) != NULL;
}

static void put(struct text *t, struct span s) {
    size_t room = t->stop - t->out->n;
    t->is_full |= s.n > room;
    buf_add_span(t->out, span_cut_utf8(s, room));
}

/* Copies n bytes of the text. */
static void copy(struct text *t, size_t n) {
    put(t, span_of(t->at, n));
    t->at += n;
}

static bool has_tail(const struct text *t, struct span before, struct span separator) {
    size_t n = before.n + separator.n;
    if (t->out->n - t->start < n)
        return false;
    const uint8_t *tail = t->out->p + t->out->n - n;
    return memcmp(tail, before.p, before.n) == 0 &&
           memcmp(tail + before.n, separator.p, separator.n) == 0;
}

/* Writes a placeholder for n bytes of the text. Of a list of equal ones one is kept: how many there
 * were is not the cause. */
static void fold(struct text *t, const char *placeholder, size_t n) {
    static const char *const separators[] = {"", ",", ", ", "-", "_"};
    struct span s = span_str(placeholder);
    size_t separators_n = span_equal_str(s, "<id>") ? 5 : 3;
    t->at += n;
    for (size_t i = 0; i < separators_n; i++) {
        struct span separator = span_str(separators[i]);
        if (has_tail(t, s, separator)) {
            t->out->n -= separator.n;
            return;
        }
    }
    put(t, s);
}

static bool fold_if(struct text *t, const char *placeholder, size_t n) {
    if (n > 0)
        fold(t, placeholder, n);
    return n > 0;
}

/* The bytes of the space or control character at p, 0 when there is none. */
static size_t blank_bytes(const struct text *t, const uint8_t *p) {
    if (*p <= ' ' || *p == 0x7f)
        return 1;
    uint8_t next = byte_at(t, p + 1);
    return *p == 0xc2 && next >= 0x80 && next <= 0xa0 ? 2 : 0; /* C1, no-break space */
}

/* One space for a run of blanks, none at the start. */
static bool take_blank(struct text *t) {
    size_t n = blank_bytes(t, t->at);
    if (n == 0)
        return false;
    t->at += n;
    if (t->out->n > t->start && t->out->p[t->out->n - 1] != ' ')
        put(t, span_str(" "));
    return true;
}

/* -- quoted values --------------------------------------------------------------------------- */

struct quote {
    const char *open, *close, *other_close;
    bool is_apostrophe; /* the closing one may also be part of a word */
};

static const struct quote quotes[] = {
    {"\"", "\"", "\"", false},
    {"'", "'", "'", true},
    {"`", "`", "'", false}, /* `old' style, too */
    {"\xe2\x80\x9c", "\xe2\x80\x9d", "\xe2\x80\x9d", false},
    {"\xe2\x80\x98", "\xe2\x80\x99", "\xe2\x80\x99", true},
    {"=(", ")", ")", false}, /* PostgreSQL: Key (id)=(7) */
};
enum { QUOTES = sizeof quotes / sizeof *quotes };

static bool is_at(const struct text *t, const uint8_t *p, const char *word) {
    size_t n = strlen(word);
    return (size_t)(t->end - p) >= n && memcmp(p, word, n) == 0;
}

/* True when a quote may open here: not within a word, but after the letter of a Python string. */
static bool may_open(const struct text *t) {
    uint8_t c = byte_before(t);
    return !is_word(c) || (is_one_of(c, "bfru") && !is_word(byte_back(t, 2)));
}

static bool closes(const struct text *t, const uint8_t *p, const struct quote *q) {
    if (!is_at(t, p, q->close) && !is_at(t, p, q->other_close))
        return false;
    return !q->is_apostrophe || !is_word(byte_at(t, p + strlen(q->close)));
}

/* Where the closing quote of q begins, NULL when there is none. When the opening one has a
 * backslash before it, so has that. */
static const uint8_t *find_close(const struct text *t, const struct quote *q) {
    bool is_escaped = byte_before(t) == '\\';
    for (const uint8_t *p = t->at + strlen(q->open); p < t->end; p++) {
        if (*p == '\\' && !is_escaped && p + 1 < t->end)
            p++;
        else if (closes(t, p, q))
            return p;
    }
    return t->is_cut ? t->end : NULL;
}

static void note_word(struct text *t, const uint8_t *word, size_t n);

/* The name of a member in an object ({"name": ...): it is kept, unless it has digits. */
static bool is_key(const struct text *t, const uint8_t *close) {
    size_t back = 1;
    while (is_one_of(byte_back(t, back), " \\"))
        back++;
    const uint8_t *after = close + 1;
    while (byte_at(t, after) == ' ')
        after++;
    if (!is_one_of(byte_back(t, back), "{,") || byte_at(t, after) != ':' || close - t->at > KEY_MAX)
        return false;
    for (const uint8_t *p = t->at + 1; p < close; p++) {
        if (!is_letter(*p) && !is_one_of(*p, "_-\\"))
            return false;
    }
    return true;
}

static void take_key(struct text *t, const uint8_t *close) {
    const uint8_t *word = close;
    while (is_letter(word[-1]))
        word--;
    note_word(t, word, (size_t)(close - word));
    copy(t, (size_t)(close - t->at) + 1);
}

static bool take_quoted(struct text *t) {
    if (!is_one_of(*t->at, "\"'`=\xe2"))
        return false;
    for (unsigned i = 0; i < QUOTES; i++) {
        const struct quote *q = &quotes[i];
        if (!is_at(t, t->at, q->open) || (t->unclosed & 1U << i) != 0 || !may_open(t))
            continue;
        const uint8_t *close = find_close(t, q);
        if (close == NULL) {
            t->unclosed |= 1U << i;
            continue;
        }
        if (i < 2 && close < t->end && is_key(t, close)) {
            take_key(t, close);
            return true;
        }
        size_t n = (size_t)(close - t->at) + (close < t->end ? strlen(q->close) : 0);
        if (*q->open == '=')
            put(t, span_str("="));
        fold(t, "<s>", n);
        return true;
    }
    return false;
}

/* -- numbers --------------------------------------------------------------------------------- */

/* Lower case, with NULs up to the end. False when it is too long for any name that is known. */
static bool name_of(const uint8_t *word, size_t n, char ret_name[static NAME_SIZE]) {
    if (n >= NAME_SIZE)
        return false;
    memset(ret_name, 0, NAME_SIZE);
    for (size_t i = 0; i < n; i++)
        ret_name[i] = (char)(is_upper(word[i]) ? word[i] | 0x20 : word[i]);
    return true;
}

/* Words that have a status after them, and the least digits of one. */
static void note_word(struct text *t, const uint8_t *word, size_t n) {
    static const struct {
        char name[NAME_SIZE];
        uint8_t least;
    } words[] = {
        {"code", 1},
        {"status", 1},
        {"statuscode", 1},
        {"errorcode", 1},
        {"exitcode", 1},
        {"exit", 1},
        {"errno", 1},
        {"signal", 1},
        {"hresult", 1},
        {"http", CODE_DIGITS},
        {"error", CODE_DIGITS},
        {"response", CODE_DIGITS},
        {"utf", 1},
        {"sha", 1},
    };
    char name[NAME_SIZE];
    if (!name_of(word, n, name))
        return;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (words[i].name[0] == name[0] && memcmp(words[i].name, name, NAME_SIZE) == 0) {
            t->code_word = word + n;
            t->code_least = words[i].least;
            return;
        }
    }
}

/* True when what stands here is right after such a word. */
static bool follows_code_word(const struct text *t) {
    if (t->code_word == NULL || t->at - t->code_word > CODE_DISTANCE)
        return false;
    for (const uint8_t *p = t->code_word; p < t->at; p++) {
        if (!is_one_of(*p, " :=/([#\"'-"))
            return false;
    }
    return true;
}

/* A status of n digits, or the version of HTTP before one. */
static bool take_code(struct text *t, size_t n) {
    if (!follows_code_word(t) || is_word(byte_at(t, t->at + n)))
        return false;
    if (memchr(t->at, '.', n) == NULL && memchr(t->at, ',', n) == NULL && n >= t->code_least &&
        n <= CODE_DIGITS) {
        copy(t, n);
        return true;
    }
    if (t->code_least < CODE_DIGITS || byte_before(t) != '/')
        return false;
    copy(t, n);
    t->code_word = t->at;
    return true;
}

/* True when a sign or a path may begin after this byte. */
static bool may_begin(uint8_t before) {
    switch (before) {
    case '"':
    case '\'':
    case '(':
    case ',':
    case ':':
    case '<':
    case '=':
    case '>':
    case '[':
    case '{':
    case '|':
        return true;
    default:
        return before <= ' ';
    }
}

static bool take_number(struct text *t) {
    uint8_t c = *t->at;
    size_t sign = (c == '-' || c == '+') && may_begin(byte_before(t));
    struct span digits = rest_of(t);
    digits = span_of(digits.p + sign, digits.n - sign);
    size_t n = token_number(digits);
    if (n == 0)
        return false;
    if (sign > 0 && follows_code_word(t))
        copy(t, sign);
    else
        n += sign;
    if (!take_code(t, n))
        fold(t, "<n>", n);
    return true;
}

/* -- words ----------------------------------------------------------------------------------- */

/* What a run of bytes is made of. */
struct shape {
    size_t n, digits, uppers, lowers, others;
    size_t turns;    /* from letter to digit or back */
    size_t changes;  /* of kind: upper, lower, digit, other */
    size_t longest;  /* letters of one case in a row */
    size_t in_words; /* letters that have three more of their case beside them */
    bool is_hex;
};

enum byte_kind { BYTE_NONE, BYTE_DIGIT, BYTE_UPPER, BYTE_LOWER, BYTE_OTHER };

static enum byte_kind kind_of(uint8_t c) {
    return is_digit(c)   ? BYTE_DIGIT
           : is_upper(c) ? BYTE_UPPER
           : is_lower(c) ? BYTE_LOWER
                         : BYTE_OTHER;
}

/* Of the bytes from p on that are part of it. */
static struct shape shape_of(const uint8_t *p, const uint8_t *end, bool (*is_part)(uint8_t c)) {
    struct shape s = {.is_hex = true};
    enum byte_kind last = BYTE_NONE;
    size_t in_row = 0;
    for (; p < end && is_part(*p); p++) {
        enum byte_kind kind = kind_of(*p);
        s.n++;
        s.digits += kind == BYTE_DIGIT;
        s.uppers += kind == BYTE_UPPER;
        s.lowers += kind == BYTE_LOWER;
        s.others += kind == BYTE_OTHER;
        s.is_hex &= is_hex(*p);
        s.changes += kind != last;
        s.turns += last != BYTE_NONE && (kind == BYTE_DIGIT) != (last == BYTE_DIGIT);
        in_row = kind == last ? in_row + 1 : 1;
        last = kind;
        if (kind != BYTE_UPPER && kind != BYTE_LOWER)
            continue;
        s.longest = in_row > s.longest ? in_row : s.longest;
        s.in_words += in_row == WORD_LEAST ? WORD_LEAST : in_row > WORD_LEAST;
    }
    return s;
}

/* Names that have digits and are no numbered ones. */
static bool is_name_with_digits(const uint8_t *word, size_t n) {
    static const char names[][NAME_SIZE] = {
        "utf8",   "utf16",  "utf32",  "utf8mb3", "utf8mb4", "md5",    "sha1",    "sha224",
        "sha256", "sha384", "sha512", "base32",  "base58",  "base64", "int8",    "int16",
        "int32",  "int64",  "uint8",  "uint16",  "uint32",  "uint64", "float32", "float64",
        "ipv4",   "ipv6",   "http2",  "http3",   "oauth1",  "oauth2", "x509",    "latin1",
        "win32",  "s3",     "ec2",    "k8s",     "i18n",    "l10n",   "p12",     "log4j",
    };
    char name[NAME_SIZE];
    if (!name_of(word, n, name))
        return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (names[i][0] == name[0] && memcmp(names[i], name, NAME_SIZE) == 0)
            return true;
    }
    return false;
}

static bool is_of_token(uint8_t c) {
    return is_letter(c) || is_digit(c) || is_one_of(c, "_-+/=.");
}

/* True when it is not made of words. Only known of both cases: of one, letters come in long rows by
 * chance, too. */
static bool is_wordless(const struct shape *s) {
    return s->uppers == 0 || s->lowers == 0 || s->in_words * 3 < s->n;
}

/* Tokens like V1StGXR8_Z5jdHi6B-myT, a piece of Base64, a JWT: at every second byte another kind
 * begins. Their bytes, else 0. */
static size_t dense_bytes(struct text *t) {
    if (t->at < t->dense_end)
        return 0;
    struct shape s = shape_of(t->at, t->end, is_of_token);
    t->dense_end = t->at + s.n;
    bool is_dense = s.n >= MIXED_LONG && s.uppers > 0 && s.lowers > 0 && s.digits > 0 &&
                    s.changes * 2 >= s.n && is_wordless(&s);
    if (!is_dense)
        return 0;
    while (t->at[s.n - 1] == '.')
        s.n--;
    return s.n;
}

static void take_letters(struct text *t) {
    const uint8_t *p = t->at;
    while (p < t->end && is_word(*p) && !is_digit(*p) && blank_bytes(t, p) == 0)
        p++;
    size_t n = (size_t)(p - t->at);
    note_word(t, t->at, n);
    copy(t, n);
}

/* What a word of hexadecimal digits is folded to, NULL when it is none. */
static const char *hex_placeholder(const struct text *t, const struct shape *w) {
    if (!w->is_hex)
        return NULL;
    if (w->n >= OBJECT_HASH && byte_before(t) == '@')
        return "<ptr>";
    if (w->digits == w->n)
        return NULL;
    if (w->n >= HEX_LONG)
        return "<id>";
    /* A short one may also come out as digits alone, by chance. */
    return w->n >= HEX_LEAST || w->turns >= 3 ? "<n>" : NULL;
}

/* Letters and digits in turn. */
static bool is_mixed_id(const struct shape *w) {
    if (w->others > 0 || w->turns < 3)
        return false;
    return w->n >= MIXED_LONG ? is_wordless(w) : w->longest < WORD_LEAST;
}

static bool is_pointer(const struct text *t, size_t n) {
    if (n < 3 || t->at[0] != '0' || (t->at[1] | 0x20) != 'x')
        return false;
    for (size_t i = 2; i < n; i++) {
        if (!is_hex(t->at[i]))
            return false;
    }
    return true;
}

/* The rest of a word of which something was taken: number by number. */
static void take_piece(struct text *t) {
    if (!take_number(t))
        take_letters(t);
}

static bool take_word(struct text *t) {
    if (!is_word(*t->at))
        return false;
    struct shape w = {.n = 0};
    if (!is_word(byte_before(t)))
        w = shape_of(t->at, t->end, is_word);
    if (w.digits == 0) {
        take_piece(t);
        return true;
    }
    if (is_pointer(t, w.n) && !(follows_code_word(t) && w.n <= CODE_HEX))
        return fold_if(t, "<ptr>", w.n);
    if (is_pointer(t, w.n) || is_name_with_digits(t->at, w.n)) {
        copy(t, w.n);
        return true;
    }
    const char *hex = hex_placeholder(t, &w);
    if (hex != NULL)
        return fold_if(t, hex, w.n);
    size_t id = w.digits < w.n ? dense_bytes(t) : 0;
    if (id == 0 && is_mixed_id(&w))
        id = w.n;
    if (!fold_if(t, "<id>", id))
        take_piece(t);
    return true;
}

/* -- all of it ------------------------------------------------------------------------------- */

/* Addresses and times, where a word begins. */
static bool take_known_form(struct text *t) {
    uint8_t before = byte_before(t), c = *t->at;
    struct span rest = rest_of(t);
    if (token_is_local(c) && !token_is_local(before) && fold_if(t, "<email>", token_email(rest)))
        return true;
    if (is_word(before))
        return false;
    if (is_letter(c) && fold_if(t, "<url>", token_url(rest)))
        return true;
    if (may_begin(before) && before != '<' && fold_if(t, "<path>", token_path(rest)))
        return true;
    if (is_hex(c) && fold_if(t, "<id>", token_uuid(rest)))
        return true;
    if ((is_digit(c) || is_upper(c)) && fold_if(t, "<time>", token_time(rest)))
        return true;
    if ((is_digit(c) || c == 'P') && fold_if(t, "<time>", token_duration(rest)))
        return true;
    if (before == '.')
        return false;
    if (is_digit(c) && fold_if(t, "<addr>", token_ip4(rest)))
        return true;
    return (is_hex(c) || c == ':') && before != ':' && fold_if(t, "<addr>", token_ip6(rest));
}

void message_normalise(struct span message, struct buf *out) {
    if (message.n == 0)
        return;
    struct span s = span_cut_utf8(message, FINGERPRINT_MESSAGE_MAX);
    struct text t = {
        .begin = s.p,
        .at = s.p,
        .end = s.p + s.n,
        .is_cut = s.n < message.n,
        .out = out,
        .start = out->n,
        .stop = out->n + FINGERPRINT_NORMAL_MAX,
    };
    t.dense_end = t.begin;
    while (t.at < t.end && !t.is_full) {
        if (!take_blank(&t) && !take_quoted(&t) && !take_known_form(&t) && !take_word(&t) &&
            !take_number(&t))
            copy(&t, 1);
    }
    while (out->n > t.start && out->p[out->n - 1] == ' ')
        out->n--;
}
