/* What a queue wants to be told of, and where to. Plain data and its validation; any thread.
 *
 *   {"kind": "dead_letter", "url": "https://example.org/hook", "secret": "...",
 *    "after_seconds": 3600, "repeat_seconds": 3600}
 *
 * Whether an address may be called is decided where it is called, not here. */
#pragma once

#include "model/policy.h"

#define ALERTS_MAX 16
#define ALERT_URL_MAX 1024
#define ALERT_SECRET_MAX 255

enum alert_kind {
    ALERT_DEAD_LETTER,     /* a letter has been dead for longer than after_ms */
    ALERT_RATE,            /* at least per_minute deaths in a minute */
    ALERT_NEW_GROUP,       /* a cause that was not there before */
    ALERT_REGRESSED_GROUP, /* a resolved cause came back */
    ALERT_OLDEST_AGE,      /* the oldest letter has been dead for that share of retention */
    ALERT_SOONEST_EXPIRY,  /* retention discards a letter within within_ms */
    ALERT_BREAKER_OPENED,
    ALERT_REDRIVE_STOPPED, /* a job stopped by itself */
};
#define ALERT_KIND_COUNT 8
const char *alert_kind_name(enum alert_kind k);
int alert_kind_parse(struct span name); /* -1 when it is none */

/* Stands for a secret where alerts are shown, and for the secret that is there where they are set. */
#define ALERT_SECRET_MASK "***"

struct alert {
    enum alert_kind kind;
    char url[ALERT_URL_MAX + 1]; /* http:// or https://, of visible ASCII */
    uint8_t secret[ALERT_SECRET_MAX];
    size_t secret_bytes; /* 0 = what is sent is not signed */
    int64_t repeat_ms;   /* what holds on is told again after so long */
    /* of its kind; else 0 */
    int64_t after_ms, within_ms;
    uint32_t per_minute;
    uint32_t share_ppm;
};

/* Adds errors under "alerts[3].url" and the like. */
void alerts_check(const struct json *alerts, struct field_errors *errors);
/* Reads JSON text that alerts_check has found good: returns how many there are, at most `most`;
 * none for an empty text. */
size_t alerts_read(struct span json, struct alert *ret, size_t most);

/* Appends such JSON text with the mask in place of each secret; nothing for an empty text. */
void alerts_mask(struct span json, struct buf *out);
/* Appends it with the secret that `present` (of the same form) has in place of each mask: of an alert
 * to the same URL, of the same kind before others. Adds an error where there is none: a secret is
 * never sent to another receiver than the one it was given for. */
void alerts_unmask(struct span json, struct span present, struct buf *out,
                   struct field_errors *errors);
