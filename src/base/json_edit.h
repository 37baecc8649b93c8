/* Changes to a JSON text that keep every other byte of it: no number is read and written again.
 * Pure; any thread. */
#pragma once

#include "base/json.h"

/* A path: names between dots ("customer.id"), "quoted" (as a JSON string) where a name holds a dot,
 * a quote or is empty; digits index an array when the value there is one. */
#define JSON_PATH_NAMES_MAX 64

/* False when path is no path: empty, an empty name, a quote that is not closed or stands within a
 * name, no UTF-8, a NUL in a name, too many names. */
bool json_path_is_valid(struct span path);

/* The value at a path below root; NULL when there is none (or the path is not valid). */
const struct json *json_path_get(const struct json *root, struct span path);

/* Appends text with the value at path set to `value` (a JSON text, byte for byte): at most
 * text.n + value.n + 6 * (path.n + 1) bytes. A missing member is added last, missing objects
 * on the way are made, an array index must exist or be the array's length (appended).
 * On an error out is unchanged: ERR_INVALID when text or value is no JSON, the path is not valid or
 * leads through something that is neither object nor array or past the end of an array, or the
 * result would have more levels than json_parse reads; ERR_TOO_LARGE when it does not fit out. */
enum err json_edit_set(struct span text, struct span path, struct span value,
                       struct buf *out) MUST_CHECK;
/* The same with the value at path removed, with one comma and the spaces around that (the comma
 * after it when it is the first). When there is nothing at the path, the text is appended as it is,
 * which is OK. On an error out is unchanged: ERR_INVALID when text is no JSON or the path is not
 * valid, ERR_TOO_LARGE when the result does not fit out. */
enum err json_edit_remove(struct span text, struct span path, struct buf *out) MUST_CHECK;
