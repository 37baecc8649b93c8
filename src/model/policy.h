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
    int64_t keep_dead_ms;   /* 0 = for ever */
    uint32_t redrive_limit; /* how often a message may be sent again, unless forced */
};

struct policy policy_default(void);
bool policy_equal(const struct policy *a, const struct policy *b);

/* How long failure number n (1 for the first) waits. `random` is used when there is jitter. The
 * result is within 0 .. one year. */
int64_t backoff_delay_ms(const struct backoff *b, unsigned n, uint64_t random);

/* Reads the JSON object of docs/http-api.md; members not given keep their defaults. Problems are
 * added to `errors`; the result is only good when there are none. */
struct policy policy_from_json(const struct json *v, struct field_errors *errors);
void policy_to_json(const struct policy *p, struct json_writer *w);
