#include "base/err.h"

#ifdef NDEBUG
#error "asserts guard durable data and stay on in every build: do not define NDEBUG"
#endif

const char *err_text(enum err e) {
    switch (e) {
    case OK:
        return "ok";
    case ERR_INVALID:
        return "invalid value";
    case ERR_TOO_LARGE:
        return "too large";
    case ERR_NO_QUEUE:
        return "no such queue";
    case ERR_NO_MESSAGE:
        return "no such message";
    case ERR_WRONG_STATE:
        return "the message is in another state";
    case ERR_STALE_LEASE:
        return "stale lease";
    case ERR_NOT_EMPTY:
        return "the queue has unfinished messages";
    case ERR_QUEUE_FULL:
        return "the queue is full";
    case ERR_TOO_MANY_QUEUES:
        return "too many queues";
    case ERR_NO_GROUP:
        return "no such cause group";
    case ERR_NO_JOB:
        return "no such job";
    case ERR_TOO_MANY_JOBS:
        return "too many jobs";
    case ERR_REDRIVE_LIMIT:
        return "redrive limit reached";
    case ERR_TARGET_CYCLE:
        return "the targets form a cycle";
    case ERR_TARGET_REFUSED:
        return "the target refuses this queue";
    case ERR_NO_VHOST:
        return "no such vhost";
    case ERR_NO_EXCHANGE:
        return "no such exchange";
    case ERR_NO_POLICY:
        return "no such policy";
    case ERR_IN_USE:
        return "the exchange is in use";
    case ERR_REFUSED:
        return "the exchange is internal";
    case ERR_TOO_MANY_EXCHANGES:
        return "too many exchanges";
    case ERR_TOO_MANY_BINDINGS:
        return "too many bindings";
    case ERR_EDITED:
        return "an edited copy was sent";
    case ERR_DISK_FULL:
        return "the disk is full";
    case ERR_IO:
        return "a file operation failed";
    case ERR_CORRUPT:
        return "the log is corrupt";
    case ERR_LOCKED:
        return "the data directory is in use by another process";
    case ERR_VERSION:
        return "the log was written in a newer format";
    }
    return "unknown error";
}
