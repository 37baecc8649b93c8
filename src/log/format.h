/* The bytes of a segment: headers of segment, frame and record, and their checksums. Pure
 * functions; any thread. docs/storage-format.md is the same in words. All numbers little-endian,
 * everything at multiples of 8 from the segment's begin.
 *
 *   segment header, 64 bytes:  magic[8] u32 version u32 zero u64 number u64 segment_bytes
 *                              u64 zero[3] u64 sum (XXH3 of the 56 before)
 *   frame header, 32 bytes:    u32 kind u32 body_bytes u64 position u64 durable u64 sum
 *   record header, 32 bytes:   u32 meta_bytes u32 data_bytes u8 type u8 zero[7]
 *                              u64 meta_sum u64 data_sum
 *   then meta, data, zeros up to a multiple of 8.
 *
 * A frame's sum covers its header and the headers of its records; each record header carries the
 * sums of its meta and of its data. So a frame can be verified without reading big data, and one
 * record can be verified without its frame. */
#pragma once

#include "base/bytes.h"

#include <stdbool.h>
#include <stdint.h>

#define SEGMENT_HEADER_BYTES 64
#define FRAME_HEADER_BYTES 32
#define RECORD_HEADER_BYTES 32

/* Kinds of frames; 0 is "nothing here". */
#define FRAME_DATA 0x4446584eU /* "NXFD": records */
#define FRAME_END 0x4546584eU  /* "NXFE": the stream goes on in the next segment */
#define FRAME_MARK 0x4d46584eU /* "NXFM": nothing, but its `durable` counts */

struct frame_header {
    uint32_t kind, body_bytes;
    uint64_t position, durable, sum;
};

struct record_header {
    uint32_t meta_bytes, data_bytes;
    uint8_t type;
    uint64_t meta_sum, data_sum;
};

static inline size_t align8(size_t n) {
    return (n + 7) & ~(size_t)7;
}

void segment_header_put(uint8_t *p, uint64_t number, uint64_t segment_bytes);
/* OK, ERR_VERSION (a newer format), ERR_CORRUPT. */
enum err segment_header_get(const uint8_t *p, uint64_t *ret_number,
                            uint64_t *ret_segment_bytes) MUST_CHECK;

void frame_header_put(uint8_t *p, const struct frame_header *h);
struct frame_header frame_header_get(const uint8_t *p);
/* True when kind, position and size can be those of a frame at `position` with `room` bytes left in
 * its segment. */
bool frame_header_plausible(const struct frame_header *h, uint64_t position, uint64_t room);

void record_header_put(uint8_t *p, const struct record_header *h);
struct record_header record_header_get(const uint8_t *p);

/* Fills in all sums of the frame at p (header and whole body in memory), and `durable`. Returns the
 * frame's bytes. */
size_t frame_seal(uint8_t *p, uint64_t durable);

/* True when the record's own sums hold. */
bool record_sums_hold(const struct record_header *h, struct span meta, struct span data);

/* The running sum of a frame: start with its header's first 24 bytes, then each record header. */
uint64_t frame_sum_begin(const uint8_t *frame_header);
uint64_t frame_sum_add(uint64_t sum, const uint8_t *record_header);

/* Verifies every byte of a frame in memory (the header was found plausible). */
bool frame_body_valid(const uint8_t *frame, const struct frame_header *h);
