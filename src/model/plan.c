#include "model/plan.h"

#include <math.h>

#define DAY_S 86400.0

struct plan_inputs plan_inputs_none(void) {
    return (struct plan_inputs){
        .rate = PLAN_NOT_GIVEN,
        .outage_s = PLAN_NOT_GIVEN,
        .poison = PLAN_NOT_GIVEN,
        .handler_s = PLAN_NOT_GIVEN,
        .lease_s = PLAN_NOT_GIVEN,
        .transient = PLAN_NOT_GIVEN,
    };
}

static double average_of(enum jitter jitter) {
    switch (jitter) {
    case JITTER_NONE:
        return 1;
    case JITTER_FULL:
        return 0.5;
    case JITTER_EQUAL:
        return 0.75;
    }
    return 1;
}

static double delay_s(const struct backoff *b, unsigned n) {
    struct backoff plain = *b;
    plain.jitter = JITTER_NONE;
    return (double)backoff_delay_ms(&plain, n, 0) / 1000 * average_of(b->jitter);
}

/* Of a message: up to its last, or to the last within some time. */
struct retries {
    unsigned count;
    double seconds;
};

static struct retries retries_within(const struct plan_inputs *in, double most_s) {
    struct retries r = {0};
    for (unsigned n = 1; n < in->attempts; n++) {
        double next_s = r.seconds + delay_s(&in->backoff, n);
        if (next_s > most_s)
            break;
        r.count = n;
        r.seconds = next_s;
    }
    return r;
}

struct plan_results plan_compute(const struct plan_inputs *in) {
    bool has_rate = in->rate >= 0, has_attempts = in->attempts > 0;
    bool has_horizon = has_attempts && in->has_backoff;
    bool has_outage = has_rate && has_horizon && in->outage_s >= 0;
    bool has_poison = has_rate && in->poison >= 0, has_handler = in->handler_s >= 0;
    struct plan_results r = {-1, -1, -1, -1, -1, -1, -1};
    if (has_horizon)
        r.horizon_s = retries_within(in, (double)INFINITY).seconds;
    if (has_outage) {
        r.outage_dead = fmax(0, in->outage_s - r.horizon_s) * in->rate;
        r.outage_claims_per_s = retries_within(in, in->outage_s).count * in->rate;
    }
    if (has_poison)
        r.poison_per_day = in->rate * in->poison * DAY_S;
    if (has_poison && has_handler && in->lease_s > 0)
        r.poison_workers = r.poison_per_day * in->handler_s / in->lease_s;
    if (has_poison && has_handler && has_attempts)
        r.poison_workers_limited = in->rate * in->poison * in->attempts * in->handler_s;
    if (has_rate && has_attempts && in->transient >= 0)
        r.false_dead_per_day = in->rate * DAY_S * pow(in->transient, in->attempts);
    return r;
}
