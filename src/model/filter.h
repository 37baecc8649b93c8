/* The filter language of dead letters: one text for the API, the client, jobs and alerts.
 *
 *   filter = and { "OR" and }         and  = item { item }
 *   item   = [ "-" ] ( "(" filter ")" | word ":" value )
 *   value  = number, time or duration with an optional comparison, a range LOW..HIGH, or text
 *
 * A filter is a tree of terms. It knows nothing of where letters live: whoever evaluates it answers
 * for one term at a time with yes, no or "cannot tell from here", so the same filter is asked of a
 * whole cause group, of what is in memory of a letter, and of the letter with its payload. The
 * words, their kinds of value and the grammar are documented in docs/dead-letters.md. Any thread. */
#pragma once

#include "base/json.h"

#include <stdbool.h>
#include <stdint.h>

#define FILTER_BYTES_MAX 4096 /* over it: an error at that position */
#define FILTER_TERMS_MAX 64   /* the same */
#define FILTER_DEPTH_MAX 16   /* of parentheses; the same */

enum filter_word {
    /* the same for all letters of most cause groups */
    WORD_QUEUE,  /* text: name of the queue it is dead in */
    WORD_REASON, /* text: reason_name(); a name that is no reason (and no pattern) is an error */
    WORD_ERROR,  /* text: error class of its last failure */
    WORD_GROUP,  /* text: key of its cause group */
    /* in memory */
    WORD_AGE,        /* duration: since it died */
    WORD_DIED,       /* time */
    WORD_REDRIVES,   /* number: how often it was sent again */
    WORD_VERSION,    /* text: worker version of its last failure */
    WORD_DELIVERIES, /* number */
    WORD_ID,         /* number */
    WORD_PRIORITY,   /* number */
    WORD_SIZE,       /* number: bytes of payload; 10k and 2m are powers of 1024 */
    WORD_EXPIRES,    /* duration: until retention discards it; no match when it never does */
    WORD_FIRST,      /* time: its first failure */
    WORD_EDITED,     /* yes or no (the numbers 1 and 0): an edited copy was sent in its place */
    /* on disk */
    WORD_ENQUEUED, /* time: when it was first accepted */
    WORD_MESSAGE,  /* text: error message of its last failure */
    WORD_KEY,      /* text: ordering key */
    WORD_WORKER,   /* text: worker of its last failure */
    WORD_TRACE,    /* text: trace id of the header traceparent, lower case hex */
    WORD_HEADER,   /* header.NAME: value of a header */
    WORD_PAYLOAD,  /* payload.PATH: value in a JSON payload */
    /* of cause groups only */
    WORD_STATE, /* text: open, acknowledged, resolved */
    WORD_OWNER, /* text */
    WORD_COUNT, /* number: letters in the group now */
    WORD_SEEN,  /* time: when the group was last seen */
};
#define WORD_COUNT_ALL (WORD_SEEN + 1)

/* Which words are allowed. */
enum filter_scope {
    FILTER_LETTERS, /* all but those of cause groups only */
    FILTER_GROUPS,  /* queue, reason, error, group, message (of the group's title), version, and
                       those of cause groups only */
};

/* One `word:value`. Spans live as long as the filter. */
struct filter_term {
    enum filter_word word;
    bool is_numeric;   /* the range decides, else the pattern */
    bool is_quoted;    /* header and payload: some of the value is quoted, so only strings match */
    bool has_wildcard; /* the pattern holds * that stand for any run of bytes, also an empty one */
    struct span name;  /* header: its name. payload: its path as in the text */
    struct span pattern; /* decoded: without quotes and escapes; empty when numeric */
    const uint8_t *wild; /* one byte for each of the pattern: 1 where it is such a star */

    /* A closed range: of numbers, of 1 (yes) or 0 (no), of times in milliseconds since the epoch. A
     * duration is a range of times too: age one of times of death, expires one of times of expiry
     * (who answers says no for what never expires). INT64_MIN and INT64_MAX: no bound. A text has
     * the empty range, low > high.
     *
     * For header and payload it is the range of whole numbers, exact in all 64 bits, and beside it
     * stands that of the others. A text that reads as a number has the range of just that number
     * without being numeric: 123 matches "123", 123 and 123.0. */
    int64_t low, high;
    double low_real, high_real; /* infinite: no bound */
    bool low_open, high_open;   /* of low_real, high_real: the bound itself is outside */

    size_t at, bytes; /* the term in the text, without its "-" */
};

struct filter_error {
    size_t at, bytes; /* offset and length, in bytes, of what is wrong; 0 bytes: it is missing */
    char text[160];   /* what is wrong and what would be right, without the position; UTF-8 */
};

struct filter;

/* Parses. Relative times (age, expires) are fixed by `now`: age:>2h becomes the range of times of
 * death that end before now - 2h, so that a filter means the same for ever. NULL and *ret_error
 * when the text is ill-formed or empty (only spaces). The text may go away. */
struct filter *filter_parse(struct span text, enum filter_scope scope, int64_t now,
                            struct filter_error *ret_error);
void filter_free(struct filter *f); /* NULL is fine */

/* What is known of a term. */
enum verdict { VERDICT_NO, VERDICT_YES, VERDICT_MAYBE };

/* Answers for one term. */
typedef enum verdict filter_ask(void *ctx, const struct filter_term *term);

/* Evaluates with Kleene's logic: MAYBE only when what is not known decides. Asks no more than
 * needed, and within an AND or an OR in the order of enum filter_word (of each side's greatest
 * word; equals from left to right), so that the disk is not read for what memory decides. */
enum verdict filter_eval(const struct filter *f, filter_ask *ask, void *ctx);

/* The times of death that can match, from WORD_AGE and WORD_DIED (both are ranges of times of death
 * after parsing): nothing outside matches. INT64_MIN and INT64_MAX where there is no bound, and for
 * whatever is negated; low > high when nothing can match. */
void filter_died_range(const struct filter *f, int64_t *ret_low, int64_t *ret_high);

/* True when some term has this word. */
bool filter_has(const struct filter *f, enum filter_word word);

/* -- for those who answer -------------------------------------------------------------------- */

/* The whole text by the pattern, byte for byte, in linear time; false when t is numeric. */
bool term_matches_text(const struct filter_term *t, struct span text);
bool term_matches_number(const struct filter_term *t, int64_t number); /* low <= number <= high */
/* For header and payload. A string by the pattern. A number by the range; when the term has a
 * wildcard, also as it is written in JSON. true, false and null by their words. An array when any
 * of its elements matches, an object never. NULL (there is none) never matches. */
bool term_matches_json(const struct filter_term *t, const struct json *value);
/* The value at a payload term's path: names between dots, "quoted" where they hold dots, digits
 * index an array. NULL when there is none. */
const struct json *term_value_at(const struct filter_term *t, const struct json *root);

/* -- the table of words, for help and completion ---------------------------------------------- */

enum filter_kind { KIND_TEXT, KIND_NUMBER, KIND_TIME, KIND_DURATION, KIND_YES_NO, KIND_JSON };
const char *filter_word_name(enum filter_word w); /* "header" and "payload" without the dot */
enum filter_kind filter_word_kind(enum filter_word w);
bool filter_word_allowed(enum filter_word w, enum filter_scope scope);
