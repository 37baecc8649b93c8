#include "log/log_thread.h"

#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#define RETRY_MS 200 /* a batch that found no room is tried again after this */

/* idle -> (push) -> work -> (log thread) -> written -> (collect) -> idle; a full disk keeps it in
 * work. */
enum stage { STAGE_IDLE, STAGE_WORK, STAGE_WRITTEN, STAGE_FAILED };

struct log_thread {
    struct log *log;
    void (*wake)(void *ctx);
    void *wake_ctx;
    pthread_t thread;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t changed;
    enum stage stage;
    bool stop;
    bool full; /* the batch in work found no room so far */
    int error;
};

/* Waits a moment before trying a full disk again; true when the thread shall stop instead. */
static bool wait_for_room(struct log_thread *t) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += RETRY_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    bool first = !t->full;
    t->full = true;
    if (first) {
        pthread_mutex_unlock(&t->mutex);
        t->wake(t->wake_ctx);
        pthread_mutex_lock(&t->mutex);
    }
    while (!t->stop)
        if (pthread_cond_timedwait(&t->changed, &t->mutex, &until) == ETIMEDOUT)
            break;
    return t->stop;
}

static void *run(void *arg) {
    struct log_thread *t = arg;
    pthread_mutex_lock(&t->mutex);
    for (;;) {
        while (t->stage != STAGE_WORK && !t->stop)
            pthread_cond_wait(&t->changed, &t->mutex);
        if (t->stage != STAGE_WORK)
            break;
        pthread_mutex_unlock(&t->mutex);
        enum err e = log_batch_write(t->log);
        int error = errno;
        pthread_mutex_lock(&t->mutex);
        if (e == ERR_DISK_FULL) {
            if (wait_for_room(t))
                break;
            continue;
        }
        t->full = false;
        t->error = error;
        t->stage = e == OK ? STAGE_WRITTEN : STAGE_FAILED;
        pthread_mutex_unlock(&t->mutex);
        pthread_cond_signal(&t->changed); /* log_thread_free may wait */
        t->wake(t->wake_ctx);
        bool more = e == OK && log_zero_ahead(t->log);
        pthread_mutex_lock(&t->mutex);
        if (e != OK)
            break;
        while (more && t->stage != STAGE_WORK && !t->stop) {
            pthread_mutex_unlock(&t->mutex);
            more = log_zero_ahead(t->log);
            pthread_mutex_lock(&t->mutex);
        }
    }
    pthread_mutex_unlock(&t->mutex);
    return NULL;
}

struct log_thread *log_thread_new(struct log *log, void (*wake)(void *ctx), void *ctx) {
    struct log_thread *t = mem_alloc(sizeof *t);
    t->log = log;
    t->wake = wake;
    t->wake_ctx = ctx;
    pthread_mutex_init(&t->mutex, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&t->changed, &attr);
    pthread_condattr_destroy(&attr);
    int e = pthread_create(&t->thread, NULL, run, t);
    assert(e == 0);
    return t;
}

void log_thread_free(struct log_thread *t) {
    if (!t)
        return;
    pthread_mutex_lock(&t->mutex);
    while (t->stage == STAGE_WORK && !t->full)
        pthread_cond_wait(&t->changed, &t->mutex);
    t->stop = true;
    pthread_cond_signal(&t->changed);
    pthread_mutex_unlock(&t->mutex);
    pthread_join(t->thread, NULL);
    (void)log_thread_collect(t);
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->mutex);
    free(t);
}

bool log_thread_push(struct log_thread *t) {
    if (!log_batch_take(t->log))
        return false;
    pthread_mutex_lock(&t->mutex);
    assert(t->stage == STAGE_IDLE);
    t->stage = STAGE_WORK;
    pthread_mutex_unlock(&t->mutex);
    pthread_cond_signal(&t->changed); /* not while it would find the mutex taken */
    return true;
}

enum collected log_thread_collect(struct log_thread *t) {
    pthread_mutex_lock(&t->mutex);
    enum collected c = COLLECTED_NOTHING;
    if (t->stage == STAGE_WRITTEN) {
        t->stage = STAGE_IDLE;
        c = COLLECTED_BATCH;
    } else if (t->stage == STAGE_FAILED) {
        errno = t->error;
        c = COLLECTED_FAILED;
    } else if (t->stage == STAGE_WORK && t->full) {
        c = COLLECTED_FULL;
    }
    pthread_mutex_unlock(&t->mutex);
    if (c == COLLECTED_BATCH)
        log_batch_done(t->log);
    return c;
}
