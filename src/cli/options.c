#include "cli/options.h"

#include "base/limits.h"
#include "base/mem.h"
#include "cli/input.h"
#include "cli/text.h"

#include <assert.h>
#include <getopt.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    SPECS_MAX = 32,
    COMMON_SPECS = 10,
    FIRST_LONG_ONLY = 256,
    TIMEOUT_MAX_S = 86400,
    SERVER_BYTES_MAX = 4096,
    TOKEN_BYTES_MAX = 4096
};

static const char server_default[] = "http://127.0.0.1:8072";

/* The common options; `is_help` is set by --help. */
static void common_specs(struct cli *cli, bool *is_help,
                         struct option_spec specs[static COMMON_SPECS]) {
    const struct option_spec all[COMMON_SPECS] = {
        {.name = "server",
         .value = "URL",
         .text = &cli->server,
         .help = "the server (NIXIE_SERVER; default http://127.0.0.1:8072)"},
        {.name = "token-file",
         .value = "FILE",
         .text = &cli->token_file,
         .help = "read the token from FILE (NIXIE_TOKEN_FILE)"},
        {.name = "token",
         .value = "TOKEN",
         .text = &cli->token,
         .help = "the token (NIXIE_TOKEN; others can see a command line)"},
        {.name = "cacert",
         .value = "FILE",
         .text = &cli->cacert,
         .help = "certificates to trust for https (NIXIE_CACERT)"},
        {.name = "actor",
         .value = "NAME",
         .text = &cli->actor,
         .help = "who does it, for the audit (NIXIE_ACTOR; default the user's name)"},
        {.name = "output",
         .letter = 'o',
         .value = "FORMAT",
         .text = &cli->format_name,
         .help = "table, json or ndjson (default: table on a terminal, else ndjson)"},
        {.name = "timeout",
         .value = "S",
         .seconds = &cli->timeout_s,
         .min = 1,
         .max = TIMEOUT_MAX_S,
         .help = "give up when no reply comes in S seconds (default 30)"},
        {.name = "quiet",
         .letter = 'q',
         .flag = &cli->quiet,
         .help = "no notes, no progress; errors only"},
        {.name = "help", .letter = 'h', .flag = is_help, .help = "this text"},
        {.name = NULL},
    };
    memcpy(specs, all, sizeof all);
}

struct option_spec option_limit(int64_t *number) {
    return (struct option_spec){.name = "limit",
                                .letter = 'n',
                                .value = "N",
                                .number = number,
                                .min = 1,
                                .max = INT64_MAX,
                                .help = "at most N (default 100)"};
}

struct option_spec option_yes(bool *flag) {
    return (struct option_spec){.name = "yes", .letter = 'y', .flag = flag, .help = "do not ask"};
}

struct option_spec option_reason(const char **text) {
    return (struct option_spec){
        .name = "reason", .value = "TEXT", .text = text, .help = "why, in words, for the audit"};
}

int option_check_reason(const struct cli *cli, const char *reason) {
    return input_check_text(cli, "--reason", reason, LIMIT_AUDIT_REASON);
}

/* -- help ------------------------------------------------------------------------------------ */

static void print_specs(const struct option_spec *specs) {
    for (; specs->name != NULL; specs++) {
        char left[64];
        (void)snprintf(left, sizeof left, "%c%c%s--%s%s%s", specs->letter != 0 ? '-' : ' ',
                       specs->letter != 0 ? specs->letter : ' ', specs->letter != 0 ? ", " : "  ",
                       specs->name, specs->value != NULL ? " " : "",
                       specs->value != NULL ? specs->value : "");
        (void)printf("  %-28s %s\n", left, specs->help);
    }
}

void options_print_common(void) {
    struct cli cli = {.quiet = false};
    bool is_help;
    struct option_spec specs[COMMON_SPECS];
    common_specs(&cli, &is_help, specs);
    (void)puts("\nCommon options:");
    print_specs(specs);
    (void)puts(
        "\nSeconds may be written as 90, 90s, 5m, 2h or 1d."
        "\n\nExit status: 0 done; 1 failed; 2 wrong usage; 3 partly done; 4 not found, or "
        "nothing to claim;"
        "\n5 conflict (state, lease, queue not empty); 6 denied; 7 server unreachable; 10, 11 "
        "what nixie doctor found;"
        "\n130 interrupted.");
}

static void print_help(const struct cli *cli, const struct option_spec *specs) {
    const struct command *c = cli->command;
    (void)printf("Usage: nixie %s %s\n\n%s.\n", c->name, c->usage, c->summary);
    if (c->help != NULL)
        (void)printf("\n%s", c->help);
    if (specs->name != NULL)
        (void)puts("\nOptions:");
    print_specs(specs);
    options_print_common();
    (void)printf("\nExamples:\n%s", c->examples);
}

/* -- parsing --------------------------------------------------------------------------------- */

static int store(struct cli *cli, const struct option_spec *spec, const char *value) {
    if (spec->flag != NULL) {
        *spec->flag = true;
    } else if (spec->text != NULL) {
        *spec->text = value;
    } else if (spec->list != NULL) {
        if (spec->list->n == OPTION_LIST_MAX)
            return cli_usage_error(cli, "--%s: given more than %d times", spec->name,
                                   OPTION_LIST_MAX);
        spec->list->items[spec->list->n++] = value;
    } else {
        int64_t *to = spec->number != NULL ? spec->number : spec->seconds;
        enum err e = spec->number != NULL ? text_number(span_str(value), spec->min, spec->max, to)
                                          : text_seconds(value, spec->min, spec->max, to);
        if (e != OK)
            return cli_usage_error(cli, "--%s %s: must be a whole number%s from %lld to %lld",
                                   spec->name, value, spec->number != NULL ? "" : " of seconds",
                                   (long long)spec->min, (long long)spec->max);
    }
    return -1;
}

/* The specs of both tables as getopt wants them. getopt's value for specs[i] is its letter or
 * FIRST_LONG_ONLY + i. */
struct getopt_tables {
    struct option longs[SPECS_MAX + 1];
    char shorts[3 + 2 * SPECS_MAX];
};

static void build_tables(const struct option_spec *specs, size_t n, bool stop_at_argument,
                         struct getopt_tables *t) {
    size_t s = 0;
    if (stop_at_argument)
        t->shorts[s++] = '+';
    t->shorts[s++] = ':';
    for (size_t i = 0; i < n; i++) {
        t->longs[i] = (struct option){
            .name = specs[i].name,
            .has_arg = specs[i].flag != NULL ? no_argument : required_argument,
            .val = specs[i].letter != 0 ? specs[i].letter : FIRST_LONG_ONLY + (int)i,
        };
        if (specs[i].letter != 0) {
            t->shorts[s++] = specs[i].letter;
            if (specs[i].flag == NULL)
                t->shorts[s++] = ':';
        }
    }
    t->longs[n] = (struct option){.name = NULL};
    t->shorts[s] = '\0';
}

static int bad_option(const struct cli *cli, int c, char **argv) {
    const char *hint = "";
    if (cli->command != NULL && strcmp(cli->command->name, "work") == 0)
        hint = " (put -- before the COMMAND to run)";
    else if (cli->command != NULL && strstr(cli->command->usage, "FILTER") != NULL)
        hint = " (put -- before a filter that begins with -)";
    if (c == ':')
        return cli_usage_error(cli, "%s: needs a value", argv[optind - 1]);
    if (optopt > 0 && optopt < FIRST_LONG_ONLY && strncmp(argv[optind - 1], "--", 2) != 0)
        return cli_usage_error(cli, "-%c: no such option%s", optopt, hint);
    return cli_usage_error(cli, "%s: no such option%s", argv[optind - 1], hint);
}

static int parse(struct cli *cli, const struct option_spec *specs, size_t n, bool stop_at_argument,
                 int argc, char **argv) {
    struct getopt_tables tables;
    build_tables(specs, n, stop_at_argument, &tables);
    opterr = 0;
    optind = 0; /* glibc: start anew */
    for (;;) {
        int c = getopt_long(argc, argv, tables.shorts, tables.longs, NULL);
        if (c == -1)
            return -1;
        if (c == '?' || c == ':')
            return bad_option(cli, c, argv);
        for (size_t i = 0; i < n; i++) {
            if (tables.longs[i].val == c) {
                int code = store(cli, &specs[i], optarg);
                if (code >= 0)
                    return code;
            }
        }
    }
}

/* -- the environment and what follows from it ------------------------------------------------ */

static void from_environment(const char **value, const char *name) {
    const char *text = getenv(name);
    if (*value == NULL && text != NULL && text[0] != '\0')
        *value = text;
}

static int read_token(struct cli *cli) {
    if (cli->token == NULL && cli->token_file == NULL)
        from_environment(&cli->token, "NIXIE_TOKEN");
    if (cli->token == NULL)
        from_environment(&cli->token_file, "NIXIE_TOKEN_FILE");
    if (cli->token == NULL && cli->token_file != NULL) {
        struct buf text;
        buf_init(&text, TOKEN_BYTES_MAX + 1);
        int code = input_read_file(cli, cli->token_file, TOKEN_BYTES_MAX, &text);
        if (code >= 0) {
            buf_release(&text);
            return CLI_USAGE;
        }
        while (text.n > 0 && (text.p[text.n - 1] == '\n' || text.p[text.n - 1] == '\r'))
            text.n--;
        buf_add_byte(&text, '\0');
        cli->token = cli->own_token = mem_strdup((const char *)text.p);
        buf_release(&text);
    }
    for (const char *p = cli->token; p != NULL && *p != '\0'; p++) {
        if (*p <= 0x20 || *p == 0x7f)
            return cli_usage_error(
                cli, "the token holds a space, a control character or a byte that is not ASCII");
    }
    return -1;
}

/* The name goes into a header of HTTP. */
static int check_actor(const struct cli *cli) {
    for (const char *p = cli->actor; *p != '\0'; p++) {
        if ((*p > 0 && *p < 0x20) || *p == 0x7f)
            return cli_usage_error(cli, "the actor's name holds a control character");
    }
    return input_check_text(cli, "the actor's name", cli->actor, LIMIT_ACTOR);
}

static int settle_actor(struct cli *cli) {
    from_environment(&cli->actor, "NIXIE_ACTOR");
    if (cli->actor != NULL)
        return check_actor(cli);
    char text[4096];
    struct passwd user, *found = NULL;
    if (getpwuid_r(geteuid(), &user, text, sizeof text, &found) == 0 && found != NULL)
        cli->actor = cli->own_actor = mem_strdup(user.pw_name);
    return -1;
}

static int settle_format(struct cli *cli) {
    if (cli->format_name == NULL)
        cli->format = isatty(STDOUT_FILENO) ? FORMAT_TABLE : FORMAT_NDJSON;
    else if (strcmp(cli->format_name, "table") == 0)
        cli->format = FORMAT_TABLE;
    else if (strcmp(cli->format_name, "json") == 0)
        cli->format = FORMAT_JSON;
    else if (strcmp(cli->format_name, "ndjson") == 0)
        cli->format = FORMAT_NDJSON;
    else
        return cli_usage_error(cli, "-o %s: must be table, json or ndjson", cli->format_name);
    return -1;
}

static int settle_server(struct cli *cli) {
    from_environment(&cli->server, "NIXIE_SERVER");
    from_environment(&cli->cacert, "NIXIE_CACERT");
    if (cli->server == NULL)
        cli->server = server_default;
    size_t n = strlen(cli->server);
    if (n > SERVER_BYTES_MAX)
        return cli_usage_error(cli, "the server's URL: longer than %d bytes", SERVER_BYTES_MAX);
    if (strncmp(cli->server, "http://", 7) != 0 && strncmp(cli->server, "https://", 8) != 0)
        return cli_usage_error(cli, "server %s: must be a URL such as %s", cli->server,
                               server_default);
    if (n > 0 && cli->server[n - 1] == '/') {
        cli->own_server = mem_strdup(cli->server);
        while (n > 0 && cli->own_server[n - 1] == '/')
            cli->own_server[--n] = '\0';
        cli->server = cli->own_server;
    }
    return -1;
}

static int check_arguments(const struct cli *cli, int given, char **args) {
    if (given < cli->command->args_min)
        return cli_usage_error(cli, "too few arguments");
    if (cli->command->args_max >= 0 && given > cli->command->args_max)
        return cli_usage_error(cli, "%s: one argument too many", args[cli->command->args_max]);
    return -1;
}

int options_parse(struct cli *cli, const struct option_spec *specs, int argc, char **argv,
                  int *ret_args) {
    struct option_spec all[SPECS_MAX];
    bool is_help = false;
    size_t n = 0;
    for (; specs[n].name != NULL; n++) {
        assert(n < SPECS_MAX - COMMON_SPECS);
        all[n] = specs[n];
    }
    common_specs(cli, &is_help, all + n);
    int code = parse(cli, all, n + COMMON_SPECS - 1, false, argc, argv);
    if (is_help) {
        print_help(cli, specs);
        return CLI_DONE;
    }
    if (code < 0)
        code = check_arguments(cli, argc - optind, argv + optind);
    int args = optind;
    if (code < 0)
        code = settle_format(cli);
    if (code < 0)
        code = settle_server(cli);
    if (code < 0)
        code = read_token(cli);
    if (code < 0)
        code = settle_actor(cli);
    if (code < 0)
        *ret_args = args;
    return code;
}

int options_parse_common(struct cli *cli, int argc, char **argv, struct options_asked *ret,
                         int *ret_args) {
    struct options_asked asked = {.help = false};
    struct option_spec specs[COMMON_SPECS];
    common_specs(cli, &asked.help, specs);
    specs[COMMON_SPECS - 1] =
        (struct option_spec){.name = "version", .letter = 'V', .flag = &asked.version};
    int code = parse(cli, specs, COMMON_SPECS, true, argc, argv);
    if (code < 0) {
        *ret = asked;
        *ret_args = optind;
    }
    return code;
}
