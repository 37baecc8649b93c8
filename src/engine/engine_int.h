/* What the verbs share. Internal to src/engine/. */
#pragma once

#include "engine/state.h"

struct engine {
    struct engine_state st;
    struct log *log;
    struct rng rng;
    /* Memory for what is read from the log; kept between calls. */
    struct buf message, story;
    /* Cleaning */
    bool cleaning;
    uint64_t cleaned_bytes;
    uint64_t clean_end_seen; /* log_end at the last step: the pace follows what was appended */
    uint64_t *ids;           /* RECORD_GONE_IDS, for removals */
};

/* What a state record takes at most, without its texts. */
#define STATE_RECORD_BYTES 160
/* Room to ask for before one, with the frame around it and the texts that come without being asked
 * for. */
#define LOG_STATE_ROOM 1024

/* Decided: write the record as one frame and apply it. The caller has checked the room. */
void emit_state(struct engine *e, const struct record_state *r);
void emit_queue(struct engine *e, const struct record_queue *r);
void emit_gone(struct engine *e, const struct record_gone *r);
void emit_engine(struct engine *e);

/* Within a frame that is open. */
void append_message(struct engine *e, const struct record_message *r);
size_t message_record_bytes_max(const struct record_message *r);
size_t event_data_bytes(const struct record_event *ev);
void event_data(const struct record_event *ev, struct span out[static 5]);

/* The named queue's message, or 0 and ERR_NO_QUEUE, ERR_NO_MESSAGE. */
enum err find_message(const struct engine *e, struct span queue, uint64_t id,
                      uint32_t *ret_slot) MUST_CHECK;

/* Makes the queue when it is missing. ERR_TOO_MANY_QUEUES, ERR_DISK_FULL. */
enum err need_queue(struct engine *e, int64_t now, struct span name, enum log_use use,
                    struct queue **ret) MUST_CHECK;

/* A change to a message, begun from its present image. */
struct record_state change_of(const struct engine *e, const struct slot *s, int64_t now,
                              enum event event);

/* One failure of a message in processing: back to pending with its backoff, or dead. */
struct failure {
    enum event event; /* EVENT_FAILED, EVENT_LEASE_EXPIRED */
    bool permanent;
    int64_t delay_ms; /* -1 = the backoff */
    struct span error_class, error, detail;
};
void fail_message(struct engine *e, struct slot *s, int64_t now, const struct failure *f);

/* A pending message whose time to live is over: dead. */
void expire_message(struct engine *e, struct slot *s, int64_t now);

/* Reads a line of a story; spans are good until the next read into the same buffer. The record's
 * bytes come from its header. */
void read_event(struct engine *e, uint64_t position, struct buf *into, struct record_event *ret,
                size_t *ret_bytes);
/* Reads a message's whole image. */
void read_message(struct engine *e, const struct slot *s, struct buf *into,
                  struct record_message *ret);
