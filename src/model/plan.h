/* What limits mean, in numbers: how long messages are retried, and what an outage, poison and chance
 * do in that time. Pure arithmetic over averages; any thread.
 *
 * An attempt that is not the last is followed by the delay of its number (model/policy.h); a jitter
 * takes its average share of it. How long an attempt itself takes is left out of these times. */
#pragma once

#include "model/policy.h"

#define PLAN_NOT_GIVEN (-1.0)

/* Each may be missing: PLAN_NOT_GIVEN, or 0 attempts, or no backoff. */
struct plan_inputs {
    double rate;     /* messages a second */
    double outage_s; /* of what all messages depend on: every attempt in it fails */
    unsigned attempts;
    bool has_backoff;
    struct backoff backoff;
    double poison;    /* share of messages that kill their worker, each time */
    double handler_s; /* how long a message takes, or poison until it kills */
    double lease_s;   /* after it, a message whose worker was killed is handed out again */
    double transient; /* share of attempts that fail by chance */
};

struct plan_inputs plan_inputs_none(void);

/* Negative when an input that it follows from is missing. */
struct plan_results {
    /* From a message's first attempt to its last: the sum of attempts - 1 delays. */
    double horizon_s;
    /* Healthy messages that the outage dead-letters: those that came so early in it that it outlasts
     * their horizon. max(0, outage - horizon) * rate */
    double outage_dead;
    /* Claims a second at the end of the outage that are retries: each delay that ends within the
     * outage adds the rate. rate * |{n < attempts: delay 1 + ... + delay n <= outage}| */
    double outage_claims_per_s;
    /* rate * poison * one day */
    double poison_per_day;
    /* Workers that poison takes after a day when nothing limits it: each message of it holds one for
     * `handler` of every lease. poison_per_day * handler / lease */
    double poison_workers;
    /* The same for ever, with the attempts for a limit. rate * poison * attempts * handler */
    double poison_workers_limited;
    /* Messages a day whose every attempt fails by chance. rate * one day * transient^attempts */
    double false_dead_per_day;
};

struct plan_results plan_compute(const struct plan_inputs *in);
