/* The calculator, on figures worked out by hand. */
#include "check.h"

#include "model/plan.h"

#include <math.h>

static bool is_near(double a, double b) {
    if (fabs(a - b) <= 1e-9 * fabs(b))
        return true;
    printf("# %.17g is not %.17g\n", a, b);
    return false;
}

static struct plan_inputs with_backoff(struct backoff backoff, unsigned attempts) {
    struct plan_inputs in = plan_inputs_none();
    in.has_backoff = true;
    in.backoff = backoff;
    in.attempts = attempts;
    return in;
}

static struct plan_inputs in_outage(struct backoff backoff, unsigned attempts) {
    struct plan_inputs in = with_backoff(backoff, attempts);
    in.rate = 2000;
    in.outage_s = 600;
    return in;
}

static struct backoff fixed(int64_t seconds) {
    return (struct backoff){.kind = BACKOFF_FIXED, .base_ms = 1000 * seconds};
}

static void short_fixed_retries_lose_most(void) {
    struct plan_inputs in = in_outage(fixed(60), 5);
    struct plan_results r = plan_compute(&in);
    CHECK(is_near(r.horizon_s, 240));
    CHECK(is_near(r.outage_dead, 720000));
    CHECK(is_near(r.outage_claims_per_s, 8000));
}

static void doubling_delays_lose_less(void) {
    struct plan_inputs in = in_outage(
        (struct backoff){.kind = BACKOFF_LIST, .list_count = 4, .list_seconds = {30, 60, 120, 240}},
        5);
    struct plan_results r = plan_compute(&in);
    CHECK(is_near(r.horizon_s, 450));
    CHECK(is_near(r.outage_dead, 300000));

    /* The same as base and factor: the first failure waits base * factor. */
    in.backoff = (struct backoff){
        .kind = BACKOFF_EXPONENTIAL, .base_ms = 15000, .factor_milli = 2000, .cap_ms = 3600000};
    struct plan_results again = plan_compute(&in);
    CHECK(is_near(again.horizon_s, 450));
    CHECK(is_near(again.outage_dead, 300000));
}

static void many_retries_lose_none_but_storm(void) {
    struct plan_inputs in = in_outage(fixed(60), 20);
    struct plan_results r = plan_compute(&in);
    CHECK(is_near(r.horizon_s, 19 * 60));
    CHECK_EQ(r.outage_dead, 0);
    CHECK(is_near(r.outage_claims_per_s, 20000));
}

static void poison_takes_workers(void) {
    struct plan_inputs in = plan_inputs_none();
    in.rate = 2000;
    in.poison = 1e-5;
    in.handler_s = 2;
    in.lease_s = 60;
    struct plan_results r = plan_compute(&in);
    CHECK(is_near(r.poison_per_day, 1728));
    CHECK(is_near(r.poison_workers, 57.6));
    CHECK(r.poison_workers_limited < 0);
    in.attempts = 5;
    r = plan_compute(&in);
    CHECK(is_near(r.poison_workers_limited, 0.2));
}

static void chance_alone_kills_some(void) {
    struct plan_inputs in = plan_inputs_none();
    in.rate = 2000;
    in.transient = 0.01;
    in.attempts = 3;
    CHECK(is_near(plan_compute(&in).false_dead_per_day, 172.8));
    in.attempts = 5;
    CHECK(is_near(plan_compute(&in).false_dead_per_day, 0.01728));
    in.transient = 0;
    CHECK_EQ(plan_compute(&in).false_dead_per_day, 0);
    in.transient = 1;
    CHECK(is_near(plan_compute(&in).false_dead_per_day, 172800000));
}

static void a_jitter_counts_with_its_average(void) {
    struct backoff b = fixed(60);
    b.jitter = JITTER_FULL;
    struct plan_inputs in = with_backoff(b, 5);
    CHECK(is_near(plan_compute(&in).horizon_s, 120));
    in.backoff.jitter = JITTER_EQUAL;
    CHECK(is_near(plan_compute(&in).horizon_s, 180));
}

static void a_list_goes_on_with_its_last(void) {
    struct plan_inputs in = with_backoff(
        (struct backoff){.kind = BACKOFF_LIST, .list_count = 2, .list_seconds = {1, 10}}, 5);
    CHECK(is_near(plan_compute(&in).horizon_s, 31));
    in.attempts = 1;
    CHECK_EQ(plan_compute(&in).horizon_s, 0);
}

static int known(const struct plan_results *r) {
    return (r->horizon_s >= 0) + (r->outage_dead >= 0) + (r->outage_claims_per_s >= 0) +
           (r->poison_per_day >= 0) + (r->poison_workers >= 0) + (r->poison_workers_limited >= 0) +
           (r->false_dead_per_day >= 0);
}

static void what_is_missing_is_not_told(void) {
    struct plan_inputs in = plan_inputs_none();
    struct plan_results r = plan_compute(&in);
    CHECK_EQ(known(&r), 0);

    in.rate = 2000;
    in.outage_s = 600;
    in.handler_s = 2;
    in.lease_s = 60;
    r = plan_compute(&in);
    CHECK_EQ(known(&r), 0);
    in.attempts = 5;
    r = plan_compute(&in);
    CHECK_EQ(known(&r), 0);
    in.has_backoff = true;
    r = plan_compute(&in);
    CHECK_EQ(known(&r), 3);
    in.poison = 0;
    r = plan_compute(&in);
    CHECK_EQ(known(&r), 6);
    in.transient = 0.01;
    r = plan_compute(&in);
    CHECK_EQ(known(&r), 7);
    in.rate = PLAN_NOT_GIVEN;
    r = plan_compute(&in);
    CHECK_EQ(known(&r), 1);
    CHECK(r.horizon_s >= 0);
}

int main(void) {
    RUN(short_fixed_retries_lose_most);
    RUN(doubling_delays_lose_less);
    RUN(many_retries_lose_none_but_storm);
    RUN(poison_takes_workers);
    RUN(chance_alone_kills_some);
    RUN(a_jitter_counts_with_its_average);
    RUN(a_list_goes_on_with_its_last);
    RUN(what_is_missing_is_not_told);
    return check_done();
}
