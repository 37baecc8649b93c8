/* The JSON bodies of requests that act on dead letters, on many or on one, read into the structs
 * the engine takes. Pure functions, like those of bodies.h. What is read borrows from the JSON tree
 * and from the body's own buffers. Any thread. */
#pragma once

#include "engine/engine.h"
#include "http/bodies.h"

/* -- jobs ------------------------------------------------------------------------------------ */

struct job_body {
    struct job_new job; /* without the actor */
    bool is_dry_run;
    struct buf patch; /* the text of job.patch */
};

void job_body_init(struct job_body *b);
void job_body_release(struct job_body *b);

/* POST /redrives and /discards. Filters are parsed, for `now`, to see that they are good. */
void redrive_body_read(struct job_body *b, const struct json *v, int64_t now,
                       struct field_errors *errors);
void discards_body_read(struct job_body *b, const struct json *v, int64_t now,
                        struct field_errors *errors);
/* POST /queues/{queue}/purge */
void purge_body_read(struct job_body *b, struct span queue, const struct json *v,
                     struct field_errors *errors);

/* PATCH: what to change of a job, and why. */
void job_change_read(struct job_change *change, struct span *ret_reason, bool is_redrive,
                     const struct json *v, struct field_errors *errors);

/* A share that died again: "5%", "12.5%", 0.05, or null (STOP_NEVER), in millionths. */
uint32_t stop_if_read(const struct json *v, struct field_errors *errors);

/* -- one letter ------------------------------------------------------------------------------ */

struct replay_body {
    bool force, clear_deaths;
    struct span reason;
};
/* v may be NULL. */
void replay_body_read(struct replay_body *b, const struct json *v, struct field_errors *errors);

struct discard_body {
    enum discard_reason why;
    struct span reason;
};
void discard_body_read(struct discard_body *b, const struct json *v, struct field_errors *errors);

/* A body of `reason` alone; v may be NULL. */
struct span reason_body_read(const struct json *v, struct field_errors *errors);

struct edit_body {
    struct edit edit;
    struct span reason;
    struct span patch; /* to be applied to the letter; then `edit` has no payload yet */
    struct buf bytes;  /* the payload decoded, or the patch's text */
    struct buf headers_text;
};

void edit_body_init(struct edit_body *b);
void edit_body_release(struct edit_body *b);
enum body_verdict edit_body_read(struct edit_body *b, const struct json *v,
                                 size_t payload_bytes_max, struct field_errors *errors);

/* -- patched letters ------------------------------------------------------------------------- */

/* For what patch_apply gives of a letter: as large as a message may be, or the letter is. The
 * caller releases both. */
void patched_init(struct buf *headers, struct buf *payload, const struct message_view *letter,
                  size_t payload_bytes_max);
/* Why a patch could not be applied to a payload, as a phrase. */
const char *patch_trouble(enum err e, struct span payload);
