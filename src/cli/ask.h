/* Questions to the person at the terminal, on standard error; the answer comes from standard input.
 * One thread. */
#pragma once

#include "cli/context.h"

/* Prints the question and " [y/N] ". -1 for yes; else the exit code, said: CLI_FAILED for no, CLI_USAGE when
 * there is no terminal to ask at (`--yes` is then what is needed). */
int ask_yes(const struct cli *cli, const char *question);

/* The same, but yes is to type `name`, such as a queue's, after the question (without a hint). */
int ask_name(const struct cli *cli, const char *question, const char *name);
