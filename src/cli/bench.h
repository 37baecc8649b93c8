/* `nixie bench`: a load generator for a running server. What `make bench` measures with it, and
 * beside which peers, is bench/README.md's. One thread. */
#pragma once

#include "cli/context.h"

/* The command, as the table in cli.c calls it. Returns the exit code. */
int bench_run(struct cli *cli, int argc, char **argv);
