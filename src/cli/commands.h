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
int command_dead(struct cli *cli, int argc, char **argv);
int command_groups(struct cli *cli, int argc, char **argv);
int command_group(struct cli *cli, int argc, char **argv);
int command_attempts(struct cli *cli, int argc, char **argv);
int command_diff(struct cli *cli, int argc, char **argv);
int command_audit(struct cli *cli, int argc, char **argv);
int command_export(struct cli *cli, int argc, char **argv);
int command_import(struct cli *cli, int argc, char **argv);
int command_redrive(struct cli *cli, int argc, char **argv);
int command_jobs(struct cli *cli, int argc, char **argv);
int command_discard(struct cli *cli, int argc, char **argv);
int command_undiscard(struct cli *cli, int argc, char **argv);
int command_edit(struct cli *cli, int argc, char **argv);
int command_purge(struct cli *cli, int argc, char **argv);
int command_top(struct cli *cli, int argc, char **argv);
int command_plan(struct cli *cli, int argc, char **argv);
int command_pause(struct cli *cli, int argc, char **argv);
int command_resume(struct cli *cli, int argc, char **argv);
int command_classify(struct cli *cli, int argc, char **argv);
int command_doctor(struct cli *cli, int argc, char **argv);
int command_balance(struct cli *cli, int argc, char **argv);
int command_apply(struct cli *cli, int argc, char **argv);
int command_dump(struct cli *cli, int argc, char **argv);
int command_import_rabbitmq(struct cli *cli, int argc, char **argv);
int command_vhosts(struct cli *cli, int argc, char **argv);
int command_vhost(struct cli *cli, int argc, char **argv);
int command_policies(struct cli *cli, int argc, char **argv);
int command_policy(struct cli *cli, int argc, char **argv);
