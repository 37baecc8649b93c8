/* `nixie serve` and `nixie log`: the commands that open a data directory. Each takes the whole
 * argument list and returns an exit status. */
#pragma once

int serve_main(int argc, char **argv);
int log_main(int argc, char **argv);
