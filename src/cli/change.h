/* What a change does to a letter's payload or headers, for people to judge before it is sent. Pure;
 * any thread. */
#pragma once

#include "base/bytes.h"

/* Appends a line with the title and the difference as line_diff has it; nothing when both are the
 * same. JSON that stands in one line is shown over several, its values as they are written; very
 * long lines are cut. */
void change_add(const char *title, struct span before, struct span after, struct buf *out);
