/* What the world of brokers is made of: names, keys, headers, arguments and policies, all of which
 * follow from small numbers. The rules that ask for their bytes (does a pattern match, is a value the
 * same) are said here anew, without the engine's code. */
#pragma once

#include "model/exchange.h"

#include <stdbool.h>
#include <stdint.h>

/* -- texts: names, routing keys, patterns of topics ---------------------------------------------- */

#define TEXT_QUEUE 1 /* the first of so many: */
#define TEXT_QUEUES 10
#define TEXT_AMQ (TEXT_QUEUE + TEXT_QUEUES) /* amq.direct, ... */
#define TEXT_AMQS 6
#define TEXT_EXCHANGE (TEXT_AMQ + TEXT_AMQS)
#define TEXT_EXCHANGES 6
#define TEXT_ABSENT (TEXT_EXCHANGE + TEXT_EXCHANGES) /* an exchange that never is */
#define TEXT_KEY (TEXT_ABSENT + 1)
#define TEXT_KEYS 22
#define TEXTS (TEXT_KEY + TEXT_KEYS) /* number 0 is empty */
#define NO_TEXT (-1)

struct span text_of(unsigned number);
struct span text_or_none(int number); /* empty when it is negative */

#define VHOSTS 3 /* number 0 is "/" */
struct span vhost_name(unsigned number);

/* Of a queue or an exchange. */
struct place {
    uint8_t vhost, text;
};
bool is_same_place(struct place a, struct place b);
struct span place_name(struct place p);  /* scoped; valid until eight more calls */
const char *place_words(struct place p); /* the same */

/* Words between dots: * is one word, # any number of them. */
bool topic_takes(unsigned pattern, unsigned key);

/* -- tables: headers of messages, arguments of bindings ------------------------------------------- */

enum field_kind { FIELD_NUMBER, FIELD_TEXT, FIELD_YES, FIELD_VOID };
struct field {
    const char *name; /* NULL = none */
    enum field_kind kind;
    const char *value; /* as it is written */
};
#define FIELDS 3
#define TABLES 21                              /* number 0 is empty */
#define TABLE_HEADERS 9                        /* those before it are headers that somebody sends */
const struct field *table_of(unsigned number); /* FIELDS */
struct span table_text(unsigned number);       /* JSON, or empty; valid for ever */
bool is_same_field(const struct field *a, const struct field *b); /* their values */
bool is_same_table(unsigned a, unsigned b);

/* -- settings of queues --------------------------------------------------------------------------- */

/* -1 = not given, of the delivery limit NO_LIMIT_GIVEN. */
struct settings {
    int64_t ttl_ms, expires_ms, length, bytes, limit;
    int priority, overflow;
    int dlx, dlrk, alternate; /* texts */
    bool keeps;
};
struct settings settings_none(void);
/* As arguments of a queue, or a policy's definition. Valid until the next call. */
struct span settings_text(const struct settings *s, bool is_arguments, bool is_quorum);

/* -- policies by pattern --------------------------------------------------------------------------- */

#define PATTERNS 8
struct span pattern_text(unsigned number);
bool pattern_takes_name(unsigned number, unsigned text);
#define POLICY_NAMES 4
struct span policy_name(unsigned number);
