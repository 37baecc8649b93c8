#include "cli/ask.h"

#include "cli/input.h"

#include <stdio.h>
#include <strings.h>
#include <unistd.h>

enum { ANSWER_BYTES_MAX = 1024 };

/* -1 and the answer in ret, or CLI_USAGE and said. */
static int ask(const struct cli *cli, const char *question, const char *hint,
               char ret[static ANSWER_BYTES_MAX + 1]) {
    if (!isatty(STDIN_FILENO))
        return cli_usage_error(cli, "without a terminal to ask at, this needs --yes");
    (void)fflush(stdout);
    (void)fprintf(stderr, "%s%s", question, hint);

    struct input_lines in;
    struct span line = {NULL, 0};
    input_lines_init(&in, STDIN_FILENO, ANSWER_BYTES_MAX);
    if (input_lines_next(&in, cli, &line) <= 0)
        line = span_str("");
    (void)snprintf(ret, ANSWER_BYTES_MAX + 1, "%.*s", (int)line.n, (const char *)line.p);
    input_lines_release(&in);
    return -1;
}

static int not_confirmed(const struct cli *cli) {
    cli_error(cli, "not confirmed; nothing was changed");
    return CLI_FAILED;
}

int ask_yes(const struct cli *cli, const char *question) {
    char answer[ANSWER_BYTES_MAX + 1];
    int code = ask(cli, question, " [y/N] ", answer);
    if (code < 0 && strcasecmp(answer, "y") != 0 && strcasecmp(answer, "yes") != 0)
        code = not_confirmed(cli);
    return code;
}

int ask_name(const struct cli *cli, const char *question, const char *name) {
    char answer[ANSWER_BYTES_MAX + 1];
    int code = ask(cli, question, "", answer);
    if (code < 0 && !span_equal_str(span_str(answer), name))
        code = not_confirmed(cli);
    return code;
}
