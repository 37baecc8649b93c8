/* A queue's policy: what it does when nobody says otherwise. Plain data, its defaults, its JSON
 * form. Any thread. */
#pragma once

#include "base/json.h"
#include "base/limits.h"
#include "model/fields.h"

#include <stdbool.h>
#include <stdint.h>

/* Stored in the log by number: append only. */
enum backoff_kind { BACKOFF_EXPONENTIAL = 0, BACKOFF_FIXED = 1, BACKOFF_LIST = 2 };
enum jitter { JITTER_NONE = 0, JITTER_FULL = 1, JITTER_EQUAL = 2 };

struct backoff {
    enum backoff_kind kind;
    enum jitter jitter;
    int64_t base_ms, cap_ms;
    uint32_t factor_milli; /* 2000 = doubles */
    uint32_t list_count;
    uint32_t list_seconds[LIMIT_BACKOFF_LIST];
};

/* What happens to an enqueue over messages_max or bytes_max: 429, or accepted and dead at once with
 * reason max_length. Stored in the log by number: append only. */
enum overflow { OVERFLOW_REJECT = 0, OVERFLOW_DEAD = 1 };

/* Over messages with one key: none; one at a time, in order; the same, and later ones are parked
 * behind one that died until it is sent again or discarded. Stored in the log by number: append
 * only. */
enum order { ORDER_NONE = 0, ORDER_BLOCK = 1, ORDER_PARK = 2 };

/* Opens when, of at least outcomes_min outcomes within the window, the share that failed reaches
 * share_ppm. While it is open claims get nothing; after open_ms it is half open and lets `probes`
 * messages through, and closes when so many succeed. */
struct breaker_policy {
    bool is_on;
    uint32_t share_ppm;
    uint32_t outcomes_min, probes;
    int64_t window_ms, open_ms;
};

struct policy {
    uint8_t max_retries;
    struct backoff backoff;
    int64_t lease_ms;
    int64_t delay_ms;
    int64_t ttl_ms;                   /* 0 = none */
    uint64_t messages_max, bytes_max; /* 0 = none */
    int64_t idempotency_window_ms;
    int64_t keep_succeeded_ms;
    uint64_t keep_succeeded_max;
    int64_t keep_dead_ms;      /* 0 = for ever */
    uint32_t redrive_limit;    /* how often a message may be sent again, unless forced */
    uint32_t deliveries_max;   /* since it was last sent again; 0 = none */
    uint32_t retry_budget_ppm; /* share of claims that may be retries; 0 = no budget */
    enum overflow overflow;
    enum order order;
    struct breaker_policy breaker;
    uint32_t target_reasons; /* a bit (1 << enum reason) for each that goes to the target */
};

/* What of a policy is text of any length. Spans are borrowed. */
struct policy_texts {
    struct span owner;         /* empty = nobody */
    struct span breaker_error; /* pattern of error classes that count for it; empty = all */
    struct span target;        /* the queue that dead letters go to; empty = they stay */
    struct span rules;         /* JSON array (model/rules.h), or empty */
    struct span
        allow_from;     /* JSON array of names of queues that may target this one; empty = all */
    struct span alerts; /* JSON array (model/alert.h), or empty */
};
#define POLICY_TEXTS 6
#define POLICY_JSON_TEXTS 3 /* of them */
void policy_texts_spans(const struct policy_texts *t, struct span ret[static POLICY_TEXTS]);
struct policy_texts policy_texts_of(const struct span spans[static POLICY_TEXTS]);
bool policy_texts_equal(const struct policy_texts *a, const struct policy_texts *b);
/* True when a queue of that policy takes dead letters from the queue `from`: its allow_from names
 * it, or is empty. */
bool policy_admits(const struct policy_texts *t, struct span from);

struct policy policy_default(void);
bool policy_equal(const struct policy *a, const struct policy *b);

/* How long failure number n (1 for the first) waits. `random` is used when there is jitter. The
 * result is within 0 .. one year. */
int64_t backoff_delay_ms(const struct backoff *b, unsigned n, uint64_t random);

/* Reads the JSON object of docs/http-api.md; members not given keep their defaults. Problems are
 * added to `errors` (empty before); the result is only good when there are none. The texts' bytes
 * are in v or in `memory`, which is replaced and may hold POLICY_JSON_TEXTS * LIMIT_POLICY_TEXT
 * bytes at least. */
struct policy policy_from_json(const struct json *v, struct field_errors *errors,
                               struct buf *memory, struct policy_texts *ret_texts);
void policy_to_json(const struct policy *p, const struct policy_texts *t, struct json_writer *w);

/* Its parts, for rules: a backoff object under the prefix, and back. */
void backoff_from_json(const struct json *v, const char *prefix, struct field_errors *errors,
                       struct backoff *b);
void backoff_to_json(const struct backoff *b, struct json_writer *w);
