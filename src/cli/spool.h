/* A temporary file without a name, in the directory that TMPDIR names: for what does not fit into
 * memory. One thread. */
#pragma once

#include "cli/context.h"

/* A descriptor for reading and writing, which the caller closes; -1 and said when there is no room
 * for it. */
int spool_open(const struct cli *cli);

/* Copies from one descriptor to another, up to the end: -1, or CLI_FAILED and said with the names
 * of both. */
int spool_copy(const struct cli *cli, int from, const char *from_name, int to, const char *to_name);
