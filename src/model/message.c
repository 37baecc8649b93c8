#include "model/message.h"

#include <assert.h>

static const char *const state_names[STATE_COUNT] = {
    [STATE_PENDING] = "pending", [STATE_PROCESSING] = "processing", [STATE_SUCCEEDED] = "succeeded",
    [STATE_DEAD] = "dead",       [STATE_PARKED] = "parked",         [STATE_DISCARDED] = "discarded",
};

static const char *const reason_names[REASON_COUNT] = {
    [REASON_NONE] = "none",
    [REASON_MAX_RETRIES] = "max_retries",
    [REASON_PERMANENT] = "permanent",
    [REASON_REJECTED] = "rejected",
    [REASON_EXPIRED] = "expired",
    [REASON_MAX_LENGTH] = "max_length",
    [REASON_DELIVERY_LIMIT] = "delivery_limit",
    [REASON_LEASE_EXPIRED] = "lease_expired",
    [REASON_UNROUTABLE] = "unroutable",
    [REASON_MANUAL] = "manual",
};

static const char *const event_names[EVENT_COUNT] = {
    [EVENT_NONE] = "none",
    [EVENT_CLAIMED] = "claimed",
    [EVENT_FAILED] = "failed",
    [EVENT_LEASE_EXPIRED] = "lease_expired",
    [EVENT_RELEASED] = "released",
    [EVENT_EXPIRED] = "expired",
    [EVENT_REPLAYED] = "replayed",
    [EVENT_SUCCEEDED] = "succeeded",
    [EVENT_REDRIVEN] = "redriven",
    [EVENT_EDITED] = "edited",
    [EVENT_PATCHED] = "patched",
    [EVENT_DISCARDED] = "discarded",
    [EVENT_UNDISCARDED] = "undiscarded",
    [EVENT_DEAD_LETTERED] = "dead_lettered",
};

static const char *const discard_names[DISCARD_COUNT] = {
    [DISCARD_NONE] = "none",         [DISCARD_FIXED] = "fixed",
    [DISCARD_OBSOLETE] = "obsolete", [DISCARD_DUPLICATE] = "duplicate",
    [DISCARD_BAD_DATA] = "bad data", [DISCARD_TEST] = "test",
    [DISCARD_OTHER] = "other",
};

/* The place of a name from `first` on, -1 when it is none. */
static int parse(struct span name, const char *const names[], int first, int count) {
    for (int i = first; i < count; i++) {
        if (span_equal_str(name, names[i]))
            return i;
    }
    return -1;
}

const char *state_name(enum state s) {
    assert((unsigned)s < STATE_COUNT);
    return state_names[s];
}

int state_parse(struct span name) {
    return parse(name, state_names, 0, STATE_COUNT);
}

const char *reason_name(enum reason r) {
    assert((unsigned)r < REASON_COUNT);
    return reason_names[r];
}

int reason_parse(struct span name) {
    return parse(name, reason_names, 1, REASON_COUNT);
}

const char *event_name(enum event e) {
    assert((unsigned)e < EVENT_COUNT);
    return event_names[e];
}

int event_parse(struct span name) {
    return parse(name, event_names, 1, EVENT_COUNT);
}

const char *breaker_state_name(enum breaker_state s) {
    static const char *const names[] = {
        [BREAKER_CLOSED] = "closed", [BREAKER_OPEN] = "open", [BREAKER_HALF_OPEN] = "half_open"};
    return names[s];
}

const char *discard_reason_name(enum discard_reason r) {
    assert((unsigned)r < DISCARD_COUNT);
    return discard_names[r];
}

int discard_reason_parse(struct span name) {
    return parse(name, discard_names, 1, DISCARD_COUNT);
}

enum decider reason_decider(enum reason r) {
    switch (r) {
    case REASON_PERMANENT:
    case REASON_REJECTED:
        return BY_RECEIVER;
    case REASON_MANUAL:
        return BY_OPERATOR;
    case REASON_NONE:
    case REASON_MAX_RETRIES:
    case REASON_EXPIRED:
    case REASON_MAX_LENGTH:
    case REASON_DELIVERY_LIMIT:
    case REASON_LEASE_EXPIRED:
    case REASON_UNROUTABLE:
        break;
    }
    return BY_SYSTEM;
}

const char *decider_name(enum decider d) {
    static const char *const names[] = {
        [BY_SYSTEM] = "system", [BY_RECEIVER] = "receiver", [BY_OPERATOR] = "operator"};
    return names[d];
}
