/* The content of a segment: whatever the bytes are, the log opens it, cuts a tail or refuses, and goes on from what it took; and records
 * are read or refused.
 *
 * The first byte chooses. Even: the rest is the segment behind its header. Odd: the rest are records, each `type, meta bytes (2), data
 * bytes (1), meta`, which are framed with good checksums first, so that their meaning is reached. */
#include "base/le.h"
#include "log/format.h"
#include "log/log.h"
#include "log/record.h"
#include "sim/crash_io.h"

#include <assert.h>
#include <string.h>

#define SEGMENT LOG_SEGMENT_BYTES_MIN
#define NAME "segment-0000000000000001"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void get(enum err e) {
    assert(e == OK || e == ERR_CORRUPT);
}

static enum err read_record(void *ctx, const struct log_record *r) {
    static uint64_t ids[RECORD_GONE_IDS];
    struct record_engine engine;
    struct record_queue queue;
    struct record_queue_gone queue_gone;
    struct record_message message;
    struct record_state state;
    struct record_gone gone;
    struct record_history history;
    struct record_exchange exchange;
    struct record_binding binding;
    struct record_pattern pattern;
    uint64_t segment, number, *count = ctx;
    (*count)++;
    get(record_engine_get(r->meta, &engine));
    get(record_queue_get(r->meta, r->data, &queue));
    get(record_queue_gone_get(r->meta, &queue_gone));
    get(record_message_get(r->meta, r->data, &message));
    get(record_state_get(r->meta, r->data, &state));
    get(record_gone_get(r->meta, ids, &gone));
    get(record_history_get(r->meta, r->data, &history));
    get(record_cleaned_get(r->meta, &segment));
    get(record_exchange_get(r->meta, r->data, &exchange));
    get(record_binding_get(r->meta, r->data, &binding));
    get(record_pattern_get(r->meta, r->data, &pattern));
    get(record_number_get(r->meta, &number));
    return OK;
}

/* Opens the disk; false when it was refused. */
static bool open_log(struct crash_io *d, uint64_t *ret_records, struct log_findings *ret_found,
                     bool append) {
    const struct log_config config = {.io = &crash_io_table, .io_ctx = d, .segment_bytes = SEGMENT};
    struct log_trouble trouble;
    struct log_reader reader = {.ctx = ret_records, .record = read_record};
    struct log *log;
    *ret_records = 0;
    enum err e = log_open(&config, &reader, &log, ret_found, &trouble);
    if (e != OK) {
        assert(e == ERR_CORRUPT && trouble.text[0]);
        return false;
    }
    if (append) {
        log_frame_begin(log, log_record_bytes(8, 0));
        log_record_append(log, RECORD_CLEANED, span_of("12345678", 8), NULL, 0);
        log_frame_end(log);
        bool taken = log_batch_take(log);
        assert(taken);
        e = log_batch_write(log);
        assert(e == OK);
        log_batch_done(log);
    }
    log_free(log);
    return true;
}

static void check_disk(struct crash_io *d) {
    const struct log_config config = {.io = &crash_io_table, .io_ctx = d, .segment_bytes = SEGMENT};
    struct log_trouble trouble;
    struct log_findings looked, found;
    uint64_t records = 0, before;
    struct log_reader reader = {.ctx = &records, .record = read_record};
    enum err e = log_check(&config, &reader, &looked, &trouble);
    before = records;
    if (!open_log(d, &records, &found, true)) {
        assert(e == ERR_CORRUPT);
        return;
    }
    assert(e == OK && records == before && found.end == looked.end &&
           found.torn_bytes == looked.torn_bytes);
    bool again = open_log(d, &records, &found, false);
    assert(again && records == before + 1 && found.torn_bytes == 0);
}

/* One good frame that holds the records; returns its bytes. */
static size_t frame_records(uint8_t *p, struct span in) {
    static const uint8_t text[256];
    size_t at = FRAME_HEADER_BYTES, room = SEGMENT / 2;
    while (in.n >= 4) {
        size_t meta_bytes = le_get16(in.p + 1), data_bytes = in.p[3];
        if (meta_bytes > in.n - 4)
            meta_bytes = in.n - 4;
        size_t used = align8(RECORD_HEADER_BYTES + meta_bytes + data_bytes);
        if (at + used > room)
            break;
        struct record_header h = {.meta_bytes = (uint32_t)meta_bytes,
                                  .data_bytes = (uint32_t)data_bytes,
                                  .type = in.p[0]};
        record_header_put(p + at, &h);
        memcpy(p + at + RECORD_HEADER_BYTES, in.p + 4, meta_bytes);
        memcpy(p + at + RECORD_HEADER_BYTES + meta_bytes, text, data_bytes);
        at += used;
        in = span_of(in.p + 4 + meta_bytes, in.n - 4 - meta_bytes);
    }
    if (at == FRAME_HEADER_BYTES)
        return 0;
    frame_header_put(p, &(struct frame_header){.kind = FRAME_DATA,
                                               .body_bytes = (uint32_t)(at - FRAME_HEADER_BYTES),
                                               .position = SEGMENT + SEGMENT_HEADER_BYTES});
    return frame_seal(p, SEGMENT + SEGMENT_HEADER_BYTES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static uint8_t segment[SEGMENT];
    if (size == 0 || size > SEGMENT / 2)
        return 0;
    memset(segment, 0, sizeof segment);
    segment_header_put(segment, 1, SEGMENT);
    if (data[0] & 1)
        frame_records(segment + SEGMENT_HEADER_BYTES, span_of(data + 1, size - 1));
    else
        memcpy(segment + SEGMENT_HEADER_BYTES, data + 1, size - 1);
    struct crash_io *d = crash_io_new(1);
    crash_io_poke(d, NAME, 0, segment, sizeof segment);
    check_disk(d);
    crash_io_free(d);
    return 0;
}
