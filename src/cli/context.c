#include "cli/context.h"

#include <stdarg.h>
#include <stdio.h>

static void __attribute__((format(printf, 2, 0)))
say(const struct cli *cli, const char *format, va_list ap) {
    (void)fflush(stdout);
    (void)fputs("nixie: ", stderr);
    if (cli->command != NULL) {
        (void)fprintf(stderr, "%s: ", cli->command->name);
    }
    (void)vfprintf(stderr, format, ap);
    (void)fputc('\n', stderr);
}

void cli_error(const struct cli *cli, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    say(cli, format, ap);
    va_end(ap);
}

void cli_note(const struct cli *cli, const char *format, ...) {
    if (cli->quiet) {
        return;
    }
    va_list ap;
    va_start(ap, format);
    say(cli, format, ap);
    va_end(ap);
}

int cli_usage_error(const struct cli *cli, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    say(cli, format, ap);
    va_end(ap);
    if (cli->command != NULL) {
        (void)fprintf(stderr, "Usage: nixie %s %s\nMore: nixie help %s\n", cli->command->name,
                      cli->command->usage, cli->command->name);
    } else {
        (void)fputs("More: nixie --help\n", stderr);
    }
    return CLI_USAGE;
}
