/* The log thread: takes batches from the log, writes and syncs them, wakes the loop. While one
 * batch is being synced the next fills: group commit with no timer, the batch's size set by the
 * disk's own latency. Its functions are called on the loop thread. */
#pragma once

#include "log/log.h"

struct log_thread;

/* Starts the thread. `wake` is called on the log thread when a batch was written: it must get
 * log_thread_collect called on the loop. */
struct log_thread *log_thread_new(struct log *log, void (*wake)(void *ctx), void *ctx);
/* Waits for the batch that is out, collects it, ends the thread. What was not yet taken stays
 * unwritten. */
void log_thread_free(struct log_thread *t);

/* Hands over what was appended, when the thread is free; cheap when there is nothing. True: a batch
 * is on its way. */
bool log_thread_push(struct log_thread *t);

enum collected {
    COLLECTED_NOTHING, /* no batch has come back */
    COLLECTED_BATCH,   /* log_durable has moved */
    COLLECTED_FULL,    /* no room for the batch: it is tried again by itself */
    COLLECTED_FAILED,  /* the disk failed (errno): stop the process */
};
enum collected log_thread_collect(struct log_thread *t);
