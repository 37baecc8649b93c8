/* One queue that is looked at: whether an alert of its policy has something to tell, and the text
 * of it. Internal to alerts.c. Loop thread.
 *
 * Some conditions last (a letter is dead for too long); others are news: what happened since they
 * were last told, up to now but without this very millisecond, which is not over yet. */
#pragma once

#include "engine/engine.h"
#include "model/alert.h"

/* What an alert of the policy has told. */
struct alert_told {
    int64_t at;      /* 0 = never */
    int64_t since;   /* news begin here */
    uint64_t opened; /* the breaker, by then */
};

/* Deaths by a time: a minute of them, one each look. */
#define WATCH_SAMPLES 40
struct deaths_sample {
    int64_t at;
    uint64_t deaths;
};

struct watch {
    uint8_t name[LIMIT_QUEUE_NAME];
    size_t name_bytes;
    struct buf text; /* the alerts as they stand in the policy */
    struct alert *alerts;
    struct alert_told told[ALERTS_MAX];
    size_t count;
    int64_t snoozed_until;
    struct deaths_sample samples[WATCH_SAMPLES]; /* a ring */
    size_t sample_count, sample_next;
    uint64_t deaths_seen; /* by the newest look; only deaths make or reopen a group */
    int64_t died_at;      /* the look that saw the newest */
};

/* Redrives that stopped by themselves, found once a look when somebody asks. */
struct stopped_jobs {
    bool is_known;
    size_t n;
    uint32_t numbers[LIMIT_JOBS_ACTIVE];
};

struct watch *watch_new(struct span name);
void watch_free(struct watch *w);
struct span watch_name(const struct watch *w);

/* Takes over the alerts of the queue's policy when they are others than before: what was told to an
 * address stays told. False: there are none (any more). */
bool watch_update(struct watch *w, struct engine *e, int64_t now);

/* Notes what the queue looks like now; before watch_ask. */
void watch_look(struct watch *w, const struct queue_view *q, int64_t now);

/* True when alert i has something to tell, which is appended to `body` as JSON (ALERT_BODY_MAX). */
bool watch_ask(struct watch *w, struct engine *e, size_t i, const struct queue_view *q,
               struct stopped_jobs *stopped, int64_t now, struct buf *body);
/* It was told. */
void watch_told(struct watch *w, size_t i, const struct queue_view *q, int64_t now);
