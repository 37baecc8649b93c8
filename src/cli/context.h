/* What every command is given: its entry in the table of commands and the settings that are common
 * to all. One thread. */
#pragma once

#include "cli/cli.h"

#include <stdbool.h>
#include <stdint.h>

struct cli;

struct command {
    const char *name;
    const char *summary;  /* one line */
    const char *usage;    /* what follows the name */
    const char *help;     /* further paragraphs, or NULL */
    const char *examples; /* lines, each with its newline */
    int args_min;
    int args_max; /* -1: any number */
    /* argv[0] is the command's name. NULL for a command that main() runs itself. Returns the exit
     * code. */
    int (*run)(struct cli *cli, int argc, char **argv);
};

enum format { FORMAT_AUTO, FORMAT_TABLE, FORMAT_JSON, FORMAT_NDJSON };

struct cli {
    const struct command *command; /* NULL before it is known */
    const char *server;            /* URL, no slash at its end */
    const char *token;             /* NULL: none */
    const char *token_file;
    const char *cacert; /* NULL: the system's */
    const char *actor;  /* who acts, for the audit; NULL: nobody knows */
    const char *format_name;
    enum format format; /* FORMAT_AUTO only before the options are read */
    int64_t timeout_s;
    /* what those above point to when it was made here, not given */
    char *own_server, *own_token, *own_actor;
    bool quiet; /* no notes or progress on stderr; errors still */
};

/* All three print "nixie: COMMAND: ..." and a newline on stderr. */
void cli_error(const struct cli *cli, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Not when quiet. */
void cli_note(const struct cli *cli, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Adds where the help is; returns CLI_USAGE. */
int cli_usage_error(const struct cli *cli, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
