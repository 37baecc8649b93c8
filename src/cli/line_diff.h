/* What differs between two texts, line by line. Any thread. */
#pragma once

#include "base/bytes.h"

/* Appends the lines of both, each with a newline: "- " before those only a has, "+ " before those only b has, two spaces before those of both, of which only the nearest
 * three are shown and "..." stands for the rest. Fewest marked lines, as long as the lines in which
 * a and b differ are no more than some thousands; else all of a's are marked, then all of b's. */
void line_diff(struct span a, struct span b, struct buf *out);
