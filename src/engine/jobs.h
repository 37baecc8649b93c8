/* What the files about jobs share: jobs.c makes, shows and changes them, redrive.c is what they do. */
#pragma once

#include "engine/engine_int.h"

/* A job's image as it stands. */
struct record_job job_image(const struct job *j);
/* Its filter, parsed; NULL when it is over all letters. */
const struct filter *job_filter(struct job *j);
bool job_state_is_over(enum job_state s);

struct audit_entry job_entry(const struct record_job *r, int64_t now, enum audit_action action,
                             const struct act *who);
/* The image and who wants it so, as one frame; the room was checked. */
void emit_job(struct engine *e, const struct record_job *r, const struct audit_entry *entry);

/* Counts a letter that matches in the job's image: as remaining, or skipped. True: it is to go. */
struct selection {
    struct engine *engine;
    struct record_job *job;
};
bool selection_add(struct selection *sel, const struct slot *s, const struct letter *l);
/* Selection has ended: the default sample becomes a number. */
void settle_sample(struct record_job *r);
