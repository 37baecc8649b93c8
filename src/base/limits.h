/* Every limit, with what happens when it is reached. Sizes in bytes, times in milliseconds. */
#pragma once

/* -- names and fields: over it, 422 naming the field ----------------------------------------- */
#define LIMIT_QUEUE_NAME 255
#define LIMIT_KEY 255
#define LIMIT_IDEMPOTENCY_KEY 255
#define LIMIT_HEADERS (64 * 1024) /* as JSON */
#define LIMIT_WORKER 128
#define LIMIT_BATCH 1000 /* messages in one enqueue, claim or settle */
#define LIMIT_WAIT_SECONDS 20
#define LIMIT_LEASE_SECONDS 43200
#define LIMIT_DELAY_SECONDS 31536000
#define LIMIT_RETRIES 10         /* of a message (the API's contract) */
#define LIMIT_POLICY_RETRIES 250 /* of a queue's policy */
#define LIMIT_BACKOFF_LIST 32
#define LIMIT_OFFSET 1000000 /* of a list: further pages go by `after` */

#define LIMIT_POLICY_TEXT (16 * 1024) /* rules, allow_from, alerts of a policy, each as JSON */

/* -- kept texts: longer ones are cut at a character boundary --------------------------------- */
#define LIMIT_ERROR 4096
#define LIMIT_ERROR_CLASS 255
#define LIMIT_DETAIL (32 * 1024)

/* -- sizes ----------------------------------------------------------------------------------- */
#define LIMIT_PAYLOAD (1024 * 1024)          /* default of --payload-max; over it 413 */
#define LIMIT_PAYLOAD_MOST (8 * 1024 * 1024) /* of --payload-max itself; refused at start */
#define LIMIT_BODY (16 * 1024 * 1024)        /* default of --body-max; over it 413 */
#define LIMIT_BODY_MOST (64 * 1024 * 1024)   /* of --body-max itself */
#define LIMIT_REPLY (16 * 1024 * 1024)       /* payload in one reply: a claim or list ends early */
#define LIMIT_HEAD (32 * 1024)               /* request line and headers; over it 431 or 414 */
/* Around a payload in its record; all of it must fit a segment, else refused at start. */
#define LIMIT_AROUND_PAYLOAD (LIMIT_HEADERS + 4096)
#define LIMIT_QUEUES 1000000   /* over it 507 with its own title */
#define LIMIT_EXCHANGES 100000 /* over it 507, as for queues */
#define LIMIT_BINDINGS 1000000 /* the same */
#define LIMIT_ARGUMENTS                                                                            \
    (8 * 1024) /* of a queue, exchange or binding, as JSON; a policy's definition */
#define LIMIT_ID ((UINT64_C(1) << 53) - 1)
#define LIMIT_DELIVERIES ((1U << 22) - 1) /* a message's counter stays there */

/* -- the server ------------------------------------------------------------------------------ */
#define LIMIT_CONNECTIONS 4096         /* default; over it 503 and close */
#define LIMIT_INFLIGHT 8192            /* default; over it 503 with Retry-After */
#define LIMIT_REQUEST_TIMEOUT_MS 30000 /* a request arrives whole by then, else 408 and close */
#define LIMIT_IDLE_TIMEOUT_MS 75000    /* an idle connection is closed */
#define LIMIT_IMPORTS 4                /* of definitions, at work at once; 503 */

/* AMQP; LIMIT_CONNECTIONS holds for its connections, too: over it they are closed unheard */
#define LIMIT_AMQP_HANDSHAKE_MS 10000  /* from the first byte to open-ok; then closed */
#define LIMIT_AMQP_GRACE_MS 3000       /* for close-ok; then closed */
#define LIMIT_AMQP_USERS 100           /* --amqp-user; refused at start */
#define LIMIT_AMQP_PERMISSIONS 1000    /* --amqp-permission; the same */
#define LIMIT_AMQP_CHANNELS 2047       /* open at once in a connection; 530 */
#define LIMIT_AMQP_CONSUMERS 10000     /* of a connection; 530 */
#define LIMIT_AMQP_HEARTBEAT_S 60      /* proposed; what the client answers holds */
#define LIMIT_AMQP_FRAMES 512          /* of a connection, in one turn; the rest in the next */
#define LIMIT_AMQP_SETTLE 1000         /* of a channel, in one turn; the rest in the next */
#define LIMIT_AMQP_UNREAD (256 * 1024) /* input of a connection; then its socket is not read */
/* Output of a connection that waits for its client; then its socket is not read. More than deliveries
 * come to, which end before: a client may write as long as it likes before it reads the next. */
#define LIMIT_AMQP_UNSENT (LIMIT_PAYLOAD_MOST + 2 * 1024 * 1024)
#define LIMIT_AMQP_NAME 255 /* a connection's name, given by the client; cut */
/* Of a connection's messages that are not whole, and of its transactions; 406 */
#define LIMIT_AMQP_KEPT (128 * 1024 * 1024)

#define LIMIT_DRAIN_MS 25000 /* SIGTERM: what is in flight by then is cut */

/* -- the story: what of a message's history is carried when its segment is cleaned ----------- */
#define LIMIT_ATTEMPTS_FIRST 3
#define LIMIT_ATTEMPTS_LAST 20

/* -- dead letters ---------------------------------------------------------------------------- */
#define LIMIT_FINGERPRINT 255   /* given by a worker; longer ones are cut */
#define LIMIT_ACTOR 128         /* the same */
#define LIMIT_AUDIT_REASON 1024 /* 422 */
#define LIMIT_PAUSE_REASON 255  /* shown with a paused queue; cut */
#define LIMIT_OWNER 128         /* 422 */
#define LIMIT_NOTE 4096         /* 422 */
#define LIMIT_JOB_NAME 128      /* 422 */
#define LIMIT_PATCH (16 * 1024) /* of a job, as JSON; 422 */
#define LIMIT_REDRIVES 1000     /* of a queue's redrive_limit */
#define LIMIT_GROUPS                                                                               \
    10000                         /* over it the longest quiet empty one is forgotten; when none is
                                      empty, new causes of a queue go into one group "other" */
#define LIMIT_JOBS_ACTIVE 100     /* not ended; over it 429 */
#define LIMIT_JOB_KEY_MS 86400000 /* an idempotency key of a job is known for so long */
#define LIMIT_JOBS_KEPT 10000     /* the oldest that ended is forgotten (its audit stays) */
#define LIMIT_AUDIT 1000000       /* entries; the oldest are forgotten */
#define LIMIT_UNDISCARD_MS 86400000 /* then a discarded letter is gone */
#define LIMIT_SAMPLE 10             /* the default sample, of a job over more than */
#define LIMIT_SAMPLE_FROM 100       /* so many letters */
#define LIMIT_STOP_OUTCOMES 20      /* a running job stops for its share only after so many */
#define LIMIT_WORKER_SEEN_MS 60000  /* a worker that asked for work within counts as there */
/* 422: ids given out later are above all that are there, and must not run out */
#define LIMIT_IMPORT_ID ((UINT64_C(1) << 52) - 1)
#define LIMIT_IMPORT_ATTEMPTS 1000 /* lines of story a letter; 422 */

/* -- work in one turn of the loop: the rest goes on in the next ------------------------------ */
#define LIMIT_TICK_MESSAGES 1000 /* expiries and removals */
#define LIMIT_TICK_QUEUES 1000   /* deleted, by their x-expires */
#define LIMIT_JOB_LETTERS 1000   /* selected or sent by a job */
#define LIMIT_JOB_LOOKS 5000     /* letters that a job looks at to select some */
#define LIMIT_JOB_READS 200      /* of them read from disk */
#define LIMIT_WALK_LETTERS 20000 /* looked at in memory for one page; then it says so */
#define LIMIT_WALK_READS 2000    /* messages read from disk for one page; then it says so */
#define LIMIT_WALK_BYTES (4 * 1024 * 1024) /* and bytes of them; the same */
#define LIMIT_AUDIT_WALK 20000             /* entries read for one page */
#define LIMIT_CLEAN_BYTES (512 * 1024)     /* read by the cleaner */
/* Waiting for the disk; connections are not read until it is less. */
#define LIMIT_UNSYNCED (32 * 1024 * 1024)
