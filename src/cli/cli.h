/* The command line, all of it but `serve` and `log`. */
#pragma once

/* Exit codes: a promise to scripts, written in every help text and in nixie(1). An interrupted
 * command ends by SIGINT, which a shell shows as 130. */
enum {
    CLI_DONE = 0,
    CLI_FAILED = 1,
    CLI_USAGE = 2,       /* nothing was sent */
    CLI_PARTLY = 3,      /* some of several were done; stderr says which were not */
    CLI_NOT_FOUND = 4,   /* no such queue or message, or nothing to claim */
    CLI_CONFLICT = 5,    /* the message's state or lease, or the queue's contents, forbid it */
    CLI_DENIED = 6,      /* the token is missing, wrong, or not enough */
    CLI_UNREACHABLE = 7, /* no server there, or no reply in time */
    CLI_WARN = 10,       /* nixie doctor: the worst it found is a warning */
    CLI_CRITICAL = 11,   /* nixie doctor: something critical */
};

/* Runs the command in argv and returns the exit code. argv is the process's own: argv[0] the
 * program, then options common to all commands, then the command. */
int cli_main(int argc, char **argv);
