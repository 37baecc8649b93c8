#include "cli/bench.h"

#include "base/limits.h"
#include "base/mem.h"
#include "cli/bench_http.h"
#include "cli/load_report.h"
#include "cli/options.h"
#include "cli/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What --mode says. */
struct mode {
    const char *name;
    bool is_cycle, is_array;
    unsigned connections; /* when not given */
};

static const struct mode modes[] = {
    {"enqueue", false, false, 64},   {"cycle", true, false, 64},
    {"latency", false, false, 1},    {"batch-enqueue", false, true, 16},
    {"batch-cycle", true, true, 16},
};

struct settings {
    const char *queue;
    const char *mode_name;
    const struct mode *mode;
    int64_t connections, messages, seconds, size, batch, keys, first_key;
    bool is_combined;
    char *host, *port; /* owned */
};

/* -- the command line ------------------------------------------------------------------------ */

/* "http://HOST[:PORT]", a numeric IPv6 HOST in brackets. */
static int parse_server(const struct cli *cli, struct settings *s) {
    static const char scheme[] = "http://";
    const char *host = cli->server + sizeof scheme - 1;
    if (strncmp(cli->server, scheme, sizeof scheme - 1) != 0)
        return cli_usage_error(cli, "server %s: it must be plain http://HOST:PORT here",
                               cli->server);

    const char *end = host + strcspn(host, "/?#");
    const char *bracket = host[0] == '[' ? strchr(host, ']') : NULL;
    const char *colon = memchr(bracket != NULL ? bracket : host, ':',
                               (size_t)(end - (bracket != NULL ? bracket : host)));
    const char *host_end = colon != NULL ? colon : end;
    if (bracket != NULL) {
        if (host_end != bracket + 1)
            return cli_usage_error(cli, "server %s: not a URL", cli->server);
        host++;
        host_end = bracket;
    }
    if (*end != '\0' || host_end == host || (colon != NULL && colon + 1 == end))
        return cli_usage_error(cli, "server %s: it must be plain http://HOST:PORT here",
                               cli->server);
    s->host = strndup(host, (size_t)(host_end - host));
    s->port = strdup(colon != NULL ? colon + 1 : "80");
    return -1;
}

/* What follows from what was given. */
static int settle(const struct cli *cli, struct settings *s) {
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        if (strcmp(s->mode_name, modes[i].name) == 0)
            s->mode = &modes[i];
    }
    if (s->mode == NULL)
        return cli_usage_error(cli, "--mode %s: no such mode", s->mode_name);
    if (s->is_combined && !(s->mode->is_cycle && s->mode->is_array))
        return cli_usage_error(cli, "--combined: only with --mode batch-cycle");
    if (s->queue[0] == '\0' || strlen(s->queue) > LIMIT_QUEUE_NAME)
        return cli_usage_error(cli, "a queue's name is 1 to %d bytes long", LIMIT_QUEUE_NAME);
    if (s->connections == OPTION_NOT_GIVEN)
        s->connections = s->mode->connections;
    if (s->messages == OPTION_NOT_GIVEN)
        s->messages = s->seconds == OPTION_NOT_GIVEN ? 100000 : 0;
    if (!s->mode->is_array)
        s->batch = 1;
    return parse_server(cli, s);
}

static int parse(struct cli *cli, struct settings *s, int argc, char **argv) {
    const struct option_spec specs[] = {
        {.name = "mode",
         .letter = 'm',
         .value = "MODE",
         .text = &s->mode_name,
         .help = "enqueue, cycle, latency, batch-enqueue or batch-cycle (default cycle)"},
        {.name = "connections",
         .letter = 'c',
         .value = "N",
         .number = &s->connections,
         .min = 1,
         .max = LOAD_CONNECTIONS_MAX,
         .help = "connections (default 64, in batches 16, latency 1)"},
        {.name = "messages",
         .letter = 'n',
         .value = "N",
         .number = &s->messages,
         .min = 1,
         .max = INT64_C(1000000000000),
         .help = "stop after N messages (default 100000)"},
        {.name = "for",
         .value = "S",
         .seconds = &s->seconds,
         .min = 1,
         .max = 86400 * 7,
         .help = "stop after S seconds instead"},
        {.name = "size",
         .letter = 's',
         .value = "BYTES",
         .number = &s->size,
         .min = 0,
         .max = LIMIT_PAYLOAD_MOST,
         .help = "bytes of a payload (default 256)"},
        {.name = "batch",
         .letter = 'b',
         .value = "N",
         .number = &s->batch,
         .min = 1,
         .max = LIMIT_BATCH,
         .help = "messages a request in the batch modes (default 100)"},
        {.name = "keys",
         .value = "N",
         .number = &s->keys,
         .min = 1,
         .max = UINT32_MAX,
         .help = "give messages N ordering keys, round and round (default none)"},
        {.name = "first-key",
         .value = "N",
         .number = &s->first_key,
         .min = 0,
         .max = UINT32_MAX,
         .help = "the number of the first of them (default 0)"},
        {.name = "combined",
         .flag = &s->is_combined,
         .help = "batch-cycle: settle and claim the next in one request"},
        OPTION_END,
    };
    int args = 0;
    int code = options_parse(cli, specs, argc, argv, &args);
    if (code >= 0)
        return code;
    if (args < argc)
        s->queue = argv[args];

    return settle(cli, s);
}

/* -- the run --------------------------------------------------------------------------------- */

static void show_progress(void *ctx, uint64_t units_done, int64_t elapsed_ms) {
    (void)ctx;
    fprintf(stderr, "\r%llu messages, %.0f/s ", (unsigned long long)units_done,
            elapsed_ms > 0 ? (double)units_done * 1e3 / (double)elapsed_ms : 0);
    fflush(stderr);
}

static void report(const struct cli *cli, const struct settings *s,
                   const struct load_script *script, const struct load_result *result) {
    const struct load_setup setup = {
        .target = "nixie",
        .mode = s->mode->name,
        .connections = (unsigned)s->connections,
        .batch = (unsigned)s->batch,
        .payload_bytes = (size_t)s->size,
    };
    if (cli->format == FORMAT_TABLE)
        load_report_table(stdout, &setup, script, result);
    else
        load_report_json(stdout, &setup, script, result);
}

static void say_failures(const struct cli *cli, const struct load_result *result,
                         const char *first) {
    struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    text_escape(span_str(first), TEXT_ONE_LINE, &text);
    cli_error(cli, "%llu of %llu requests failed; the first: %.*s",
              (unsigned long long)result->failures, (unsigned long long)result->requests,
              (int)text.n, (const char *)text.p);
    buf_release(&text);
}

static int run(const struct cli *cli, const struct settings *s) {
    const struct bench_http_options http_options = {
        .host = s->host,
        .port = s->port,
        .queue = s->queue,
        .token = cli->token,
        .is_cycle = s->mode->is_cycle,
        .is_array = s->mode->is_array,
        .is_combined = s->is_combined,
        .connections = (unsigned)s->connections,
        .batch = (unsigned)s->batch,
        .payload_bytes = (size_t)s->size,
        .keys = (uint32_t)s->keys,
        .first_key = (uint32_t)s->first_key,
    };
    const bool has_progress = !cli->quiet && isatty(STDERR_FILENO) != 0;
    struct load_options options = {
        .host = s->host,
        .port = s->port,
        .connections = (unsigned)s->connections,
        .units = (uint64_t)s->messages,
        .duration_ms = s->seconds != OPTION_NOT_GIVEN ? s->seconds * 1000 : 0,
        .progress = has_progress ? show_progress : NULL,
    };
    /* A combined cycle settles in its next turn what it claimed in this one. */
    if (s->is_combined && options.units > 0)
        options.units += (uint64_t)(s->connections * s->batch);

    struct bench_http *http = bench_http_new(&http_options);
    struct load_result *result = mem_alloc(sizeof *result);
    const struct load_script *script = bench_http_script(http);
    enum err e = load_run(&options, script, result);
    if (has_progress)
        fputs("\r\033[K", stderr);

    int code = CLI_DONE;
    if (result->requests > 0)
        report(cli, s, script, result);
    if (result->failures > 0) {
        say_failures(cli, result, bench_http_first_failure(http));
        code = CLI_FAILED;
    }
    if (e != OK) {
        cli_error(cli, "%s", result->trouble);
        code = result->requests > 0 ? CLI_FAILED : CLI_UNREACHABLE;
    }
    free(result);
    bench_http_free(http);
    return code;
}

int bench_run(struct cli *cli, int argc, char **argv) {
    struct settings s = {
        .queue = "bench",
        .mode_name = "cycle",
        .connections = OPTION_NOT_GIVEN,
        .messages = OPTION_NOT_GIVEN,
        .seconds = OPTION_NOT_GIVEN,
        .size = 256,
        .batch = 100,
    };
    int code = parse(cli, &s, argc, argv);
    if (code < 0)
        code = run(cli, &s);
    free(s.host);
    free(s.port);
    return code;
}
