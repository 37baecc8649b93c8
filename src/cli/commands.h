/* The commands. Each takes its own argv (argv[0] is its name) and returns the exit code. */
#pragma once

#include "cli/context.h"

int command_queues(struct cli *cli, int argc, char **argv);
int command_enqueue(struct cli *cli, int argc, char **argv);
int command_claim(struct cli *cli, int argc, char **argv);
int command_succeed(struct cli *cli, int argc, char **argv);
int command_fail(struct cli *cli, int argc, char **argv);
int command_release(struct cli *cli, int argc, char **argv);
int command_extend(struct cli *cli, int argc, char **argv);
int command_replay(struct cli *cli, int argc, char **argv);
int command_ls(struct cli *cli, int argc, char **argv);
int command_show(struct cli *cli, int argc, char **argv);
int command_work(struct cli *cli, int argc, char **argv);
