/* The thread that calls webhooks: one at a time, so that the loop never waits for somebody else's
 * server. It is started with the first call. Its functions are called on the loop thread.
 *
 * Redirects are not followed, proxies of the environment not asked, certificates verified; a call
 * takes at most ten seconds. */
#pragma once

#include "base/bytes.h"

struct alert_sender;

/* `wake` is called on the sender's thread when a call has ended: it must get alert_sender_collect
 * called on the loop. private_is_fine: any address may be called. */
struct alert_sender *alert_sender_new(bool private_is_fine, void (*wake)(void *ctx), void *ctx);
/* Breaks off the call that is out, ends the thread. */
void alert_sender_free(struct alert_sender *s);

struct alert_call {
    const char *url;
    struct span body;   /* JSON */
    struct span secret; /* empty: not signed */
    int64_t seconds;    /* the time to sign, since the epoch */
    uint64_t message;   /* told in a header: the same in each attempt */
};
/* Takes a copy. No call may be out. */
void alert_sender_push(struct alert_sender *s, const struct alert_call *call);

struct alert_outcome {
    bool is_good;       /* the receiver answered 2xx */
    bool is_refused;    /* the address is none that may be called */
    bool is_broken_off; /* by alert_sender_break */
    char error_class[32];
    char error[256];
};
/* True when the call that was out has ended. */
bool alert_sender_collect(struct alert_sender *s, struct alert_outcome *ret);

/* The call that is out ends soon. */
void alert_sender_break(struct alert_sender *s);
