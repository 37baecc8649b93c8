/* The ring of places of the audit against a plain array, in the orders in which a log can bring its entries. */
#include "engine/state.h"

#include "base/limits.h"
#include "check.h"

#include <stdlib.h>

#define NUMBERS 5000

static struct engine_state st;
static struct rng rng;
static uint64_t positions[NUMBERS + 1]; /* 0 = not seen */
static uint32_t sizes[NUMBERS + 1];

static void begin(void) {
    state_init(&st, 1);
    memset(positions, 0, sizeof positions);
    memset(sizes, 0, sizeof sizes);
    rng_seed(&rng, 11);
}

static void end(void) {
    state_release(&st);
}

static void apply(uint64_t number) {
    static uint64_t position;
    const struct audit_entry entry = {.number = number, .action = AUDIT_EDIT};
    position += 64;
    uint32_t bytes = 64 + 8 * (uint32_t)rng_below(&rng, 20);
    apply_audit(&st, &entry, position, bytes);
    if (number <= NUMBERS) {
        positions[number] = position;
        sizes[number] = bytes;
    }
}

/* Exactly the entries that were seen are there, where they were seen last, and their bytes are counted. */
static bool is_exactly(void) {
    uint64_t bytes = 0, highest = 0;
    for (uint64_t n = 1; n <= NUMBERS; n++) {
        const struct audit_place *p = audit_at(&st, n);
        if ((p != NULL) != (positions[n] != 0))
            return false;
        if (p && (p->position != positions[n] || p->bytes != sizes[n]))
            return false;
        bytes += sizes[n];
        highest = positions[n] ? n : highest;
    }
    return bytes == st.live_bytes && st.next_audit == highest + 1 && !audit_at(&st, 0) &&
           !audit_at(&st, NUMBERS + 1);
}

static void in_order(void) {
    begin();
    CHECK(!audit_at(&st, 0) && !audit_at(&st, 1));
    for (uint64_t n = 1; n <= NUMBERS; n++) {
        apply(n);
        if (n < 200 || n % 500 == 0)
            CHECK(is_exactly());
    }
    CHECK_EQ(st.audit.first, 1);
    CHECK_EQ(st.audit.count, NUMBERS);
    end();
}

/* The cleaner carried the oldest behind the newest: 301..400, 1..100, 401..500, 201..300, ... */
static void growing_at_both_ends(void) {
    begin();
    const uint64_t runs[] = {301, 1, 401, 201, 501, 101, 601};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        for (uint64_t n = runs[i]; n < runs[i] + 100; n++)
            apply(n);
        CHECK(is_exactly());
    }
    CHECK_EQ(st.audit.first, 1);
    CHECK_EQ(st.audit.count, 700);
    end();
}

/* Down to the first, one by one: the ring's begin goes around. */
static void backwards(void) {
    begin();
    for (uint64_t n = NUMBERS; n > 0; n--) {
        apply(n);
        if (n > NUMBERS - 200 || n % 500 == 0)
            CHECK(is_exactly());
    }
    CHECK(is_exactly());
    end();
}

static void in_any_order(void) {
    for (int round = 0; round < 20; round++) {
        begin();
        rng_seed(&rng, (uint64_t)round);
        for (int i = 0; i < 3000; i++)
            apply(1 + rng_below(&rng, round < 10 ? 100 : NUMBERS)); /* also again, elsewhere */
        CHECK(is_exactly());
        end();
    }
}

/* The newest LIMIT_AUDIT are kept. */
static void the_oldest_are_forgotten(void) {
    begin();
    const uint64_t last = LIMIT_AUDIT + 3000;
    for (uint64_t n = 1; n <= last; n++)
        apply(n);
    CHECK_EQ(st.audit.count, LIMIT_AUDIT);
    CHECK_EQ(st.audit.first, 3001);
    CHECK_EQ(st.next_audit, last + 1);
    CHECK(!audit_at(&st, 3000) && !audit_at(&st, 1) && !audit_at(&st, last + 1));
    CHECK_EQ(audit_at(&st, 3001)->position, positions[3001]);
    uint64_t bytes = 0, missing = 0;
    for (uint64_t n = 3001; n <= last; n++) {
        const struct audit_place *p = audit_at(&st, n);
        missing += !p;
        bytes += p ? p->bytes : 0;
    }
    CHECK_EQ(missing, 0);
    CHECK_EQ(st.live_bytes, bytes);

    /* One that was forgotten comes late, carried by the cleaner. */
    apply(2900);
    CHECK(!audit_at(&st, 2900));
    CHECK_EQ(st.live_bytes, bytes);
    CHECK_EQ(st.audit.first, 3001);
    /* One that is kept is carried: only its place changes. */
    uint64_t was = audit_at(&st, 3500)->bytes;
    apply(3500);
    CHECK_EQ(audit_at(&st, 3500)->position, positions[3500]);
    CHECK_EQ(st.live_bytes, bytes - was + sizes[3500]);
    CHECK_EQ(st.audit.count, LIMIT_AUDIT);
    end();
}

/* A log that begins late: the counters say how far numbers went, then come the newest and what was carried. */
static void forgotten_by_the_counters(void) {
    begin();
    const uint64_t next = 2 * (uint64_t)LIMIT_AUDIT;
    apply_engine(&st, &(struct record_engine){.next_audit = next}, 8, 0);
    apply(next - LIMIT_AUDIT - 1);
    CHECK_EQ(st.audit.count, 0);
    apply(next - LIMIT_AUDIT + 10);
    apply(next - LIMIT_AUDIT);
    CHECK_EQ(st.audit.first, next - LIMIT_AUDIT);
    CHECK_EQ(st.audit.count, 11);
    CHECK(!audit_at(&st, next - LIMIT_AUDIT + 5));
    CHECK_EQ(st.next_audit, next);
    apply(next);
    CHECK_EQ(st.audit.first, next - LIMIT_AUDIT + 1);
    CHECK_EQ(st.audit.count, LIMIT_AUDIT);
    end();
}

int main(void) {
    RUN(in_order);
    RUN(growing_at_both_ends);
    RUN(backwards);
    RUN(in_any_order);
    RUN(the_oldest_are_forgotten);
    RUN(forgotten_by_the_counters);
    return check_done();
}
