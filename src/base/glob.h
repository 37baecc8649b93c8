/* Patterns with stars, each for any run of bytes, also an empty one. Any thread. */
#pragma once

#include "base/bytes.h"

/* True when all of the text is as the pattern says, byte for byte. Linear in both, whatever they
 * hold. */
bool glob_match(struct span pattern, struct span text);

/* The same where not every * is a star: marks holds one byte for each of the pattern, 1 where it is
 * one. */
bool glob_match_marked(struct span pattern, const uint8_t *marks, struct span text);
