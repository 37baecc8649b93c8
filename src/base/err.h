/* The closed set of errors. Every protocol maps it with one exhaustive switch. */
#pragma once

#define MUST_CHECK __attribute__((warn_unused_result))

enum err {
    OK = 0,

    /* bad input: nothing changed */
    ERR_INVALID,         /* a value is out of range or of the wrong form */
    ERR_TOO_LARGE,       /* over a hard maximum of base/limits.h or the configuration */
    ERR_NO_QUEUE,        /* no queue of that name */
    ERR_NO_MESSAGE,      /* no such id in that queue */
    ERR_WRONG_STATE,     /* the message is not in the state the verb needs */
    ERR_STALE_LEASE,     /* the lease token is not the current one */
    ERR_NOT_EMPTY,       /* the queue has unfinished messages */
    ERR_QUEUE_FULL,      /* the queue's max_messages or max_bytes is reached */
    ERR_TOO_MANY_QUEUES, /* LIMIT_QUEUES is reached */
    ERR_NO_GROUP,        /* no cause group of that key */
    ERR_NO_JOB,          /* no job of that number */
    ERR_TOO_MANY_JOBS,   /* LIMIT_JOBS_ACTIVE is reached */
    ERR_REDRIVE_LIMIT,   /* the letter was sent again as often as its queue allows */
    ERR_TARGET_CYCLE,    /* its dead letters would come back to the queue */
    ERR_TARGET_REFUSED,  /* the target does not take dead letters of this queue */
    ERR_NO_VHOST,        /* no namespace of that name */
    ERR_NO_EXCHANGE,     /* no exchange of that name */
    ERR_NO_POLICY,       /* no policy of that name */
    ERR_IN_USE,          /* something is bound to the exchange */
    ERR_REFUSED,         /* the exchange takes nothing from publishers */
    ERR_TOO_MANY_EXCHANGES,
    ERR_TOO_MANY_BINDINGS,
    ERR_EDITED, /* an edited copy was sent in the letter's place */

    /* environment: nothing changed; may pass */
    ERR_DISK_FULL, /* no room in the log for this kind of work */
    ERR_IO,        /* a file call failed; errno says why */

    /* the log on disk */
    ERR_CORRUPT, /* bytes that were durable are not what was written */
    ERR_LOCKED,  /* another process holds the data directory */
    ERR_VERSION, /* written by a newer format */
};

/* A short English phrase, never NULL, static. */
const char *err_text(enum err e);
