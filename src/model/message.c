#include "model/message.h"

#include <assert.h>

static const char *const state_names[STATE_COUNT] = {
    [STATE_PENDING] = "pending", [STATE_PROCESSING] = "processing", [STATE_SUCCEEDED] = "succeeded",
    [STATE_DEAD] = "dead",       [STATE_PARKED] = "parked",         [STATE_DISCARDED] = "discarded",
};

const char *state_name(enum state s) {
    assert((unsigned)s < STATE_COUNT);
    return state_names[s];
}

int state_parse(struct span name) {
    for (int i = 0; i < STATE_COUNT; i++) {
        if (span_equal_str(name, state_names[i]))
            return i;
    }
    return -1;
}

const char *reason_name(enum reason r) {
    switch (r) {
    case REASON_NONE:
        return "none";
    case REASON_MAX_RETRIES:
        return "max_retries";
    case REASON_PERMANENT:
        return "permanent";
    case REASON_REJECTED:
        return "rejected";
    case REASON_EXPIRED:
        return "expired";
    case REASON_MAX_LENGTH:
        return "max_length";
    case REASON_DELIVERY_LIMIT:
        return "delivery_limit";
    case REASON_LEASE_EXPIRED:
        return "lease_expired";
    case REASON_UNROUTABLE:
        return "unroutable";
    case REASON_MANUAL:
        return "manual";
    }
    assert(false && "not a reason");
    return "";
}

const char *event_name(enum event e) {
    switch (e) {
    case EVENT_NONE:
        return "none";
    case EVENT_CLAIMED:
        return "claimed";
    case EVENT_FAILED:
        return "failed";
    case EVENT_LEASE_EXPIRED:
        return "lease_expired";
    case EVENT_RELEASED:
        return "released";
    case EVENT_EXPIRED:
        return "expired";
    case EVENT_REPLAYED:
        return "replayed";
    case EVENT_SUCCEEDED:
        return "succeeded";
    }
    assert(false && "not an event");
    return "";
}
