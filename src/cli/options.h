/* Options: one table a command gives both the parsing and the help. GNU rules: options may stand
 * before or after arguments, "--" ends them. One thread. */
#pragma once

#include "cli/context.h"

#include <stddef.h>

#define OPTION_LIST_MAX 256

/* For an option that may be repeated. */
struct option_list {
    const char *items[OPTION_LIST_MAX];
    size_t n;
};

/* Exactly one of the pointers is set: it says what kind of value it is and where it goes. */
struct option_spec {
    const char *name;
    char letter;       /* 0: none */
    const char *value; /* its name in the help, NULL for a flag */
    const char *help;
    bool *flag;
    const char **text;
    int64_t *number, *seconds;
    int64_t min, max; /* of a number or seconds */
    struct option_list *list;
};

#define OPTION_NOT_GIVEN INT64_MIN /* what a number is initialised with to know it later */

/* Ends a table of options. */
#define OPTION_END                                                                                 \
    { .name = NULL }

/* --limit N of a list; 100 where the number begins, as the help says. */
struct option_spec option_limit(int64_t *number);

/* Options of commands that change something: --yes, without which they ask (cli/ask.h), and
 * --reason, the words for the audit (option_check_reason: -1, or CLI_USAGE and said). A queue and a
 * filter among the arguments are read by cli/scope.h. */
struct option_spec option_yes(bool *flag);
struct option_spec option_reason(const char **text);
int option_check_reason(const struct cli *cli, const char *reason);

/* Reads argv (argv[0] is the command's name) and the environment. Returns -1 and in *ret_args the
 * index of the first argument when the command may go on, else the exit code: help was printed, or
 * an error said. Also checks the number of arguments. Permutes argv. */
int options_parse(struct cli *cli, const struct option_spec *specs, int argc, char **argv,
                  int *ret_args);

/* The same for what stands before the command: stops at the first argument, reads no environment,
 * prints no help. */
struct options_asked {
    bool help, version;
};
int options_parse_common(struct cli *cli, int argc, char **argv, struct options_asked *ret,
                         int *ret_args);

/* What --help ends with, everywhere. */
void options_print_common(void);
