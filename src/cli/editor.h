/* A text in the user's editor. One thread. */
#pragma once

#include "base/bytes.h"
#include "cli/context.h"

/* Runs $VISUAL, $EDITOR or vi on a file with the text, which only the user can read and which is
 * gone afterwards, and appends what became of it to ret (whose max is at least bytes_max + 1). A
 * newline that the editor added to a last line without one is taken off. -1, or the exit code,
 * said: also when the editor ended with another exit status than 0. */
int editor_run(const struct cli *cli, struct span text, size_t bytes_max, struct buf *ret);

/* Keeps what the user wrote, when it could not be sent, in a new file, and says where. */
void editor_keep(const struct cli *cli, struct span text);
