/* Text between the server, the user and a terminal: what a server sent is never printed raw.
 * Widths need a UTF-8 locale (cli_main sets it). Any thread. */
#pragma once

#include "base/bytes.h"

/* Beyond this a text is not built: no reply that is let in grows to it, whatever it holds (see
 * CALL_REPLY_MAX). */
#define TEXT_BYTES_MAX ((size_t)1 << 31)

enum text_lines { TEXT_ONE_LINE, TEXT_KEEP_LINES };

/* Appends s in a form that is harmless on a terminal: well-formed UTF-8 without control characters
 * and without those that reorder text; they become \n, \t, \xNN or \u{NNNN}, bytes that are no
 * UTF-8 \xNN. TEXT_KEEP_LINES lets newlines and tabs through. */
void text_escape(struct span s, enum text_lines lines, struct buf *out);

/* The same text in columns of a terminal. s is the work of text_escape (or our own). */
size_t text_columns(struct span s);

/* Appends s, or the beginning of it and an ellipsis, so that it takes at most `columns` (at least
 * 1). */
void text_add_clipped(struct span s, size_t columns, struct buf *out);

/* Appends compact JSON text for output: with the characters text_escape would not let through as
 * \uNNNN, which is the same value; and, with is_indented, over several lines, all but the first
 * indented by `margin`. */
void text_add_json(struct span json, bool is_indented, unsigned margin, struct buf *out);

/* Appends s as UTF-8: what is not well-formed becomes U+FFFD. */
void text_add_utf8(struct span s, struct buf *out);

/* Appends s percent-encoded as one segment of a path, never "." or "..". */
void text_add_segment(const char *s, struct buf *out);

/* Appends v as 12,345,678. */
void text_add_grouped(uint64_t v, struct buf *out);

/* Appends "1 letter" or "12,345 letters". */
void text_add_counted(uint64_t v, const char *one, const char *many, struct buf *out);

/* Appends a duration of at least 0 in two units at most: 350ms, 2.5s, 12s, 5m02s, 3h12m, 12d04h. */
void text_add_duration(int64_t ms, struct buf *out);

/* "12", "12s", "5m", "2h" or "1d" in seconds; ERR_INVALID for anything else or outside min..max.
 * text_number is for "12" only. */
enum err text_seconds(const char *s, int64_t min, int64_t max, int64_t *ret_seconds) MUST_CHECK;
/* The same, and "200ms", in milliseconds. */
enum err text_milliseconds(const char *s, int64_t min, int64_t max, int64_t *ret_ms) MUST_CHECK;
enum err text_number(struct span s, int64_t min, int64_t max, int64_t *ret) MUST_CHECK;
