/* The table of commands, and its reader. */
#include "cli/cli.h"

#include "cli/bench.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/out.h"

#include <curl/curl.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int command_version(struct cli *cli, int argc, char **argv);
static int command_help(struct cli *cli, int argc, char **argv);

static const struct command commands[] = {
    {.name = "serve", .summary = "Run the server", .usage = "[options]", .args_max = -1},
    {
        .name = "queues",
        .summary = "List the queues, or show, configure or delete one",
        .usage = "[QUEUE [--put FILE | --delete [--discard]]] [options]",
        .examples =
            "  nixie queues\n"
            "  nixie queues emails\n"
            "  echo '{\"max_retries\": 5, \"lease_seconds\": 60}' | nixie queues emails --put -\n"
            "  nixie queues old --delete --discard\n",
        .args_max = 1,
        .run = command_queues,
    },
    {
        .name = "enqueue",
        .summary = "Put a message into a queue, or each line of standard input",
        .usage = "QUEUE [PAYLOAD | - | --file FILE | --lines] [options]",
        .help = "Without a payload it is read from standard input. Any bytes are welcome. --lines "
                "sends batches of\n"
                "1000; each is enqueued as a whole or not at all.\n",
        .examples = "  nixie enqueue emails '{\"to\": \"a@example.org\"}'\n"
                    "  nixie enqueue images --file cat.png --header type=image/png --priority 9\n"
                    "  nixie enqueue urls --lines < urls.txt\n",
        .args_min = 1,
        .args_max = 2,
        .run = command_enqueue,
    },
    {
        .name = "claim",
        .summary = "Take messages from a queue, for as long as their lease",
        .usage = "QUEUE [options]",
        .help = "Exit status 4 when there is nothing to claim. A claim must end in succeed, fail "
                "or release, or its\n"
                "lease runs out, which counts as a failure. nixie work does all of that for a "
                "command.\n",
        .examples = "  nixie claim emails\n"
                    "  nixie claim emails --count 100 --lease 10m --wait 20 > claimed.ndjson\n",
        .args_min = 1,
        .args_max = 1,
        .run = command_claim,
    },
    {
        .name = "succeed",
        .summary = "Settle claimed messages: done",
        .usage = "QUEUE ID... [options]",
        .help = "The id - stands for the lines of standard input: ids, or what nixie claim "
                "printed; its leases are used then.\n",
        .examples = "  nixie succeed emails 42 43\n"
                    "  nixie succeed emails - < claimed.ndjson\n",
        .args_min = 2,
        .args_max = -1,
        .run = command_succeed,
    },
    {
        .name = "fail",
        .summary = "Settle claimed messages: they failed, and are retried or dead",
        .usage = "QUEUE ID... [options]",
        .help = "The id - stands for the lines of standard input.\n",
        .examples =
            "  nixie fail emails 42 --class Timeout --error 'no answer from smtp.example.org'\n"
            "  nixie fail emails 42 --permanent --error 'no such address'\n",
        .args_min = 2,
        .args_max = -1,
        .run = command_fail,
    },
    {
        .name = "release",
        .summary = "Give claimed messages back, without counting a failure",
        .usage = "QUEUE ID... [options]",
        .help = "The id - stands for the lines of standard input.\n",
        .examples = "  nixie release emails 42 --delay 30\n",
        .args_min = 2,
        .args_max = -1,
        .run = command_release,
    },
    {
        .name = "extend",
        .summary = "Renew the lease of claimed messages",
        .usage = "QUEUE ID... [options]",
        .help = "The id - stands for the lines of standard input.\n",
        .examples = "  nixie extend emails 42 --seconds 10m --lease 42-1\n",
        .args_min = 2,
        .args_max = -1,
        .run = command_extend,
    },
    {
        .name = "replay",
        .summary = "Make dead messages pending again, with all their retries",
        .usage = "QUEUE ID... [options]",
        .help = "The id - stands for the lines of standard input.\n",
        .examples = "  nixie replay emails 42\n"
                    "  nixie dead emails error:Timeout -o ndjson | nixie replay emails -\n",
        .args_min = 2,
        .args_max = -1,
        .run = command_replay,
    },
    {
        .name = "ls",
        .summary = "List the messages of a queue, oldest first",
        .usage = "QUEUE [options]",
        .examples = "  nixie ls emails\n"
                    "  nixie ls emails --status discarded\n"
                    "  nixie ls emails --all -o ndjson > emails.ndjson\n",
        .args_min = 1,
        .args_max = 1,
        .run = command_ls,
    },
    {
        .name = "show",
        .summary = "Show a message and its whole story",
        .usage = "[QUEUE] ID [options]",
        .examples = "  nixie show 42\n"
                    "  nixie show emails 42 --payload > payload.bin\n",
        .args_min = 1,
        .args_max = 2,
        .run = command_show,
    },
    {
        .name = "dead",
        .summary = "List dead letters, newest death first",
        .usage = "[QUEUE] [FILTER] [options]",
        .help = "An argument with a colon is the filter, any other the queue. Several parts of a "
                "filter may stand as\n"
                "several arguments; < > * and quotes are the shell's, unless they are quoted.\n",
        .examples =
            "  nixie dead\n"
            "  nixie dead emails 'error:Timeout* age:>2h'\n"
            "  nixie dead emails payload.customer.id:123 --all -o ndjson > letters.ndjson\n",
        .args_max = -1,
        .run = command_dead,
    },
    {
        .name = "groups",
        .summary = "List the causes that dead letters have in common",
        .usage = "[QUEUE] [FILTER] [options]",
        .help = "An argument with a colon is the filter, any other the queue.\n",
        .examples = "  nixie groups\n"
                    "  nixie groups emails state:open --sort count\n",
        .args_max = -1,
        .run = command_groups,
    },
    {
        .name = "group",
        .summary = "Show a cause and one full error of it, or change its state",
        .usage = "KEY [--ack | --resolve | --open] [options]",
        .help = "The beginning of a key is enough when no other begins with it. State, owner and "
                "note stay when the\n"
                "letters are gone. A resolved cause that comes back is open again, and says so.\n",
        .examples = "  nixie group v1:0123\n"
                    "  nixie group v1:0123 --ack --owner ann --note 'waiting for the provider'\n"
                    "  nixie group v1:0123 --resolve --reason 'fixed in 1.4.3'\n",
        .args_min = 1,
        .args_max = 1,
        .run = command_group,
    },
    {
        .name = "attempts",
        .summary = "Show the story of a message: every attempt, and what people and jobs did",
        .usage = "[QUEUE] ID [options]",
        .examples = "  nixie attempts 42\n"
                    "  nixie attempts emails 42 --detail\n",
        .args_min = 1,
        .args_max = 2,
        .run = command_attempts,
    },
    {
        .name = "diff",
        .summary = "Show what differs between two attempts of a message, or two messages",
        .usage = "ID[@ATTEMPT] ID[@ATTEMPT] | ID ATTEMPT ATTEMPT [options]",
        .examples = "  nixie diff 42 1 3\n"
                    "  nixie diff 42@1 42@3\n"
                    "  nixie diff 42 43\n",
        .args_min = 2,
        .args_max = 3,
        .run = command_diff,
    },
    {
        .name = "redrive",
        .summary = "Send dead letters again, as a job of the server",
        .usage = "QUEUE FILTER | --all [options]",
        .help = "First it is shown how many letters match, and asked. The job then sends a sample, "
                "waits for its outcomes,\n"
                "and sends the rest, unless too many of them died again. Letters that die later "
                "are not among them. With\n"
                "--set and --remove each letter goes as a changed copy, removals first. Ctrl-C "
                "ends watching the job, not\n"
                "the job. Exit status 0 when all letters succeeded, 3 when not all, 4 when none "
                "matched. See nixie-redrive(1).\n",
        .examples =
            "  nixie redrive emails error:Timeout --sample 10 --rate 50 --stop-if 5% --reason "
            "'fixed in 1.4.3'\n"
            "  nixie redrive emails --all --to emails-slow --dry-run\n"
            "  nixie redrive emails 'payload.country:UK' --set 'payload.country=\"GB\"'\n",
        .args_min = 1,
        .args_max = -1,
        .run = command_redrive,
    },
    {
        .name = "jobs",
        .summary = "List the jobs over dead letters, or watch, pause, resume or cancel one",
        .usage = "[ID [--watch] [--pause | --resume | --cancel] [options]]",
        .help = "Ctrl-C ends watching a job, not the job. Exit status of --watch: 0 when all of "
                "its letters succeeded\n"
                "(or were discarded), 3 when not all, or when it stopped by itself.\n",
        .examples = "  nixie jobs\n"
                    "  nixie jobs 7 --watch\n"
                    "  nixie jobs 7 --rate 10 --reason 'the provider is slow'\n",
        .args_max = 1,
        .run = command_jobs,
    },
    {
        .name = "discard",
        .summary = "Discard dead letters; for a day this can be undone",
        .usage = "QUEUE ID... | --filter TEXT | --all, --why REASON [options]",
        .help = "The id - stands for the lines of standard input. With --filter or --all it is "
                "shown how many letters\n"
                "there are, and asked; then a job of the server discards them.\n",
        .examples = "  nixie discard emails 42 43 --why obsolete\n"
                    "  nixie discard emails --filter 'error:NoSuchAddress age:>7d' --why \"bad "
                    "data\"\n",
        .args_min = 1,
        .args_max = -1,
        .run = command_discard,
    },
    {
        .name = "undiscard",
        .summary = "Make discarded letters dead letters again",
        .usage = "QUEUE ID... | --job N [options]",
        .help = "Within 24 hours of the discard; then they are gone. The id - stands for the lines "
                "of standard input.\n",
        .examples = "  nixie undiscard emails 42\n"
                    "  nixie undiscard emails --job 7\n",
        .args_min = 1,
        .args_max = -1,
        .run = command_undiscard,
    },
    {
        .name = "edit",
        .summary = "Send a changed copy of a dead letter in its place",
        .usage = "QUEUE ID [options]",
        .help = "Without an option that says what to change, the payload is opened in $VISUAL, "
                "$EDITOR or vi. What\n"
                "changes is shown, and asked. The letter itself stays as it was, marked with the "
                "copy's id.\n",
        .examples = "  nixie edit emails 42\n"
                    "  nixie edit emails 42 --set 'payload.to=\"ann@example.org\"' --header "
                    "tenant=acme --yes\n"
                    "  nixie edit emails 42 --payload corrected.json\n",
        .args_min = 2,
        .args_max = 2,
        .run = command_edit,
    },
    {
        .name = "purge",
        .summary = "Discard all dead letters of a queue for good",
        .usage = "QUEUE --reason TEXT [options]",
        .help = "There is no undo. It asks for the queue's name.\n",
        .examples = "  nixie purge emails-test --reason 'load test'\n"
                    "  nixie purge emails-test --reason 'load test' --confirm emails-test\n",
        .args_min = 1,
        .args_max = 1,
        .run = command_purge,
    },
    {
        .name = "top",
        .summary = "Watch the queues and the causes of death on the terminal",
        .usage = "[options]",
        .help =
            "Anew each second. Keys: tab switches between queues and causes, s sorts by another "
            "column, q ends.\n",
        .examples = "  nixie top\n",
        .run = command_top,
    },
    {
        .name = "pause",
        .summary = "Pause a queue: nothing of it is claimed",
        .usage = "QUEUE [options]",
        .help = "All else goes on: it takes messages, and what is claimed is settled.\n",
        .examples = "  nixie pause emails --reason 'provider is down'\n",
        .args_min = 1,
        .args_max = 1,
        .run = command_pause,
    },
    {
        .name = "resume",
        .summary = "End the pause of a queue",
        .usage = "QUEUE [options]",
        .examples = "  nixie resume emails\n",
        .args_min = 1,
        .args_max = 1,
        .run = command_resume,
    },
    {
        .name = "classify",
        .summary = "Say which rule of a queue would take a failure, and why",
        .usage = "QUEUE [--class C] [--message M] [options]",
        .help = "The rules of the queue's policy are tried in order, on the error class and the "
                "error message. When none\n"
                "matches, the failure is retried by the queue's own backoff and limit.\n",
        .examples = "  nixie classify emails --class Http429 --message 'too many requests'\n"
                    "  nixie classify emails --class DatabaseDown -o json\n",
        .args_min = 1,
        .args_max = 1,
        .run = command_classify,
    },
    {
        .name = "doctor",
        .summary = "Say what of queues and their policies is likely to hurt",
        .usage = "[QUEUE] [-f FILE] [options]",
        .help = "Each finding has a code, a severity, a fact and a fix; docs/doctor.md lists the "
                "codes. Exit status 0\n"
                "when there is nothing above info, 10 when the worst is a warning, 11 when it is "
                "critical.\n",
        .examples = "  nixie doctor\n"
                    "  nixie doctor emails -o json\n"
                    "  nixie doctor -f queues.yaml || exit\n",
        .args_max = 1,
        .run = command_doctor,
    },
    {
        .name = "plan",
        .summary = "Say what limits mean in numbers: an outage, poison, chance",
        .usage = "[options]",
        .help = "Arithmetic, nothing else; only --queue asks a server. What does not follow from "
                "what is given is left out.\n"
                "The first failure waits BASE * FACTOR, each further one FACTOR times as long, up "
                "to CAP; a list goes on with\n"
                "its last. TIME may be written as 200ms, too.\n",
        .examples = "  nixie plan --rate 2000/s --outage 10m --backoff fixed:60s --attempts 5\n"
                    "  nixie plan --rate 2000/s --poison 1/100000 --handler 2s --lease 60s\n"
                    "  nixie plan --rate 50/s --outage 30m --transient 1% --queue emails\n",
        .run = command_plan,
    },
    {
        .name = "balance",
        .summary = "Add up what came into queues and what became of it",
        .usage = "[QUEUE...] [options]",
        .help = "accepted + moved in = pending + processing + parked + dead + succeeded + "
                "discarded + moved out.\n"
                "Exit status 1 when that does not hold for one.\n",
        .examples = "  nixie balance\n"
                    "  nixie balance emails emails.dead\n",
        .args_max = -1,
        .run = command_balance,
    },
    {
        .name = "apply",
        .summary = "Make queues what a file of policies says",
        .usage = "-f FILE [options]",
        .help = "The file is YAML: under queues, the name of each with the members of its policy. "
                "Members that are not\n"
                "given have their defaults; queues that are not in it are left alone. What differs "
                "is shown, and asked;\n"
                "only that is changed.\n",
        .examples = "  nixie apply -f queues.yaml\n"
                    "  nixie apply -f queues.yaml --dry-run\n"
                    "  nixie dump emails | sed 's/max_retries: 3/max_retries: 5/' | nixie apply -f "
                    "- --yes\n",
        .run = command_apply,
    },
    {
        .name = "dump",
        .summary = "Write the policies of queues as a file for nixie apply",
        .usage = "[QUEUE... | --rabbitmq] [options]",
        .help = "It is YAML, whatever the output format. The secrets of alerts are not in it: *** "
                "stands for each, and in\n"
                "nixie apply for the secret that the queue has already.\n",
        .examples = "  nixie dump > queues.yaml\n"
                    "  nixie dump emails\n"
                    "  nixie dump --rabbitmq > definitions.json\n",
        .args_max = -1,
        .run = command_dump,
    },
    {
        .name = "export",
        .summary = "Write dead letters and all that is known of them to a file",
        .usage = "QUEUE [FILTER] [options]",
        .help = "One letter a line, after a first line with their count and checksum. The letters "
                "stay where they are.\n",
        .examples = "  nixie export emails > emails.ndjson\n"
                    "  nixie export emails error:Timeout --to timeouts.ndjson\n",
        .args_min = 1,
        .args_max = -1,
        .run = command_export,
    },
    {
        .name = "import",
        .summary = "Land exported letters as dead letters",
        .usage = "FILE|- [options]",
        .help = "The whole file is checked first, then asked of the server in a dry run; a damaged "
                "file, or a letter whose\n"
                "id another message has, refuses all of it. Letters that are there already are "
                "left alone.\n",
        .examples = "  nixie import emails.ndjson --dry-run\n"
                    "  nixie import emails.ndjson --queue emails-from-old-server --yes\n",
        .args_min = 1,
        .args_max = 1,
        .run = command_import,
    },
    {
        .name = "import-rabbitmq",
        .summary = "Take in RabbitMQ's exported definitions",
        .usage = "FILE|- [options]",
        .help = "Vhosts, exchanges, queues, bindings and policies; what cannot be carried is told. "
                "What is there already\n"
                "stays, a policy is changed; so it may be done again.\n",
        .examples = "  rabbitmqctl export_definitions - | nixie import-rabbitmq - --dry-run\n"
                    "  nixie import-rabbitmq definitions.json --strict\n",
        .args_min = 1,
        .args_max = 1,
        .run = command_import_rabbitmq,
    },
    {
        .name = "policies",
        .summary = "List the policies by pattern, as RabbitMQ has them",
        .usage = "[options]",
        .examples = "  nixie policies\n"
                    "  nixie policies --vhost shop -o ndjson\n",
        .run = command_policies,
    },
    {
        .name = "policy",
        .summary = "Make, change or delete a policy by pattern",
        .usage = "put NAME PATTERN DEFINITION | delete NAME [options]",
        .help = "It takes effect at once on the queues and exchanges whose names match, by a "
                "regular expression.\n",
        .examples = "  nixie policy put dlx '^orders\\.' '{\"dead-letter-exchange\": \"dead\"}' "
                    "--apply-to queues\n"
                    "  nixie policy delete dlx\n",
        .args_min = 1,
        .args_max = 4,
        .run = command_policy,
    },
    {
        .name = "vhosts",
        .summary = "List AMQP's vhosts",
        .usage = "[options]",
        .examples = "  nixie vhosts\n",
        .run = command_vhosts,
    },
    {
        .name = "vhost",
        .summary = "Make a vhost, or change what is set for it",
        .usage = "put NAME [options]",
        .help = "What is not given gets its default.\n",
        .examples = "  nixie vhost put shop\n"
                    "  nixie vhost put / --client-x-death read\n",
        .args_min = 2,
        .args_max = 2,
        .run = command_vhost,
    },
    {
        .name = "audit",
        .summary = "Show who did what to dead letters, causes, jobs and queues",
        .usage = "[options]",
        .examples = "  nixie audit --newest\n"
                    "  nixie audit --queue emails --actor ann\n"
                    "  nixie audit -f -o ndjson\n",
        .run = command_audit,
    },
    {
        .name = "work",
        .summary = "Run a command for each message",
        .usage = "QUEUE [options] -- COMMAND [ARGUMENT...]",
        .help = "The payload is the command's standard input. Its environment holds NIXIE_ID, "
                "NIXIE_QUEUE,\n"
                "NIXIE_ATTEMPT, NIXIE_LEASE, NIXIE_KEY (when it has one), NIXIE_HEADERS (JSON), "
                "and NIXIE_HEADER_NAME\n"
                "for each header. What becomes of the message:\n"
                "  exit status 0      succeeded\n"
                "  exit status 65     failed for good: dead at once\n"
                "  any other, signal  failed: retried, or dead after its last retry; the error "
                "class is \"exit N\" or\n"
                "                     the signal's name, the error the last line of standard "
                "error, the detail its end\n"
                "With --retry-now a command that failed is first run again here, which for the "
                "server is the same attempt.\n"
                "The lease is renewed while the command runs. SIGTERM or SIGINT: nothing more is "
                "claimed, what runs\n"
                "may finish; a second one terminates it and gives its message back; a third one "
                "kills it. The exit\n"
                "status tells how working went, not the messages: 0 when it ended as asked.\n",
        .examples =
            "  nixie work emails -- ./send-mail\n"
            "  nixie work images -j 4 --kill-after 5m -- convert - -resize 100x100 "
            "\"/srv/thumbs/out.png\"\n"
            "  nixie work urls --until-empty -- sh -c 'curl -fsS -o /dev/null \"$(cat)\"'\n",
        .args_min = 2,
        .args_max = -1,
        .run = command_work,
    },
    {
        .name = "bench",
        .summary = "Put a running server under load and measure it",
        .usage = "[QUEUE] [options]",
        .help = "Each connection sends its next request when the reply to the last one is there. "
                "Modes:\n"
                "  enqueue        one message a request\n"
                "  cycle          enqueue, claim, succeed: three requests a message\n"
                "  latency        enqueue on one connection\n"
                "  batch-enqueue  arrays of --batch messages\n"
                "  batch-cycle    the same, then a claim of as many, then one settle of all\n"
                "QUEUE is \"bench\" when it is not given. Messages that are enqueued only stay "
                "there. A cycle takes\n"
                "what is first in the queue: give it one of its own.\n",
        .examples = "  nixie bench\n"
                    "  nixie bench load -m enqueue -c 256 -n 1000000\n"
                    "  nixie bench -m batch-cycle --combined --for 30s -o json\n",
        .args_max = 1,
        .run = bench_run,
    },
    {.name = "log",
     .summary = "Check a data directory, offline",
     .usage = "check DIR",
     .args_max = -1},
    {
        .name = "version",
        .summary = "Print the version of this program",
        .usage = "[options]",
        .examples = "  nixie version\n",
        .run = command_version,
    },
    {
        .name = "help",
        .summary = "Print the help of a command",
        .usage = "[COMMAND]",
        .examples = "  nixie help work\n",
        .args_max = 1,
        .run = command_help,
    },
};

static const struct command *find(const char *name) {
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    }
    return NULL;
}

static int print_overview(const struct cli *cli) {
    (void)puts("Usage: nixie COMMAND [arguments and options]\n\n"
               "A durable message queue whose dead letters keep their story.\n\nCommands:");
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        (void)printf("  %-15s %s\n", commands[i].name, commands[i].summary);
    (void)puts("\nnixie help COMMAND, or nixie COMMAND --help, tells more, with examples.");
    options_print_common();
    return out_check(cli, CLI_DONE);
}

static int print_version(const struct cli *cli) {
    if (cli->format == FORMAT_JSON || cli->format == FORMAT_NDJSON)
        (void)puts("{\"version\": \"" NIXIE_VERSION "\"}");
    else
        (void)puts("nixie " NIXIE_VERSION);
    return out_check(cli, CLI_DONE);
}

static int command_version(struct cli *cli, int argc, char **argv) {
    const struct option_spec specs[] = {OPTION_END};
    int first;
    int code = options_parse(cli, specs, argc, argv, &first);
    if (code >= 0)
        return code;
    if (cli->format_name == NULL)
        cli->format = FORMAT_TABLE;
    return print_version(cli);
}

static int help_of(struct cli *cli, const char *name) {
    const struct command *c = find(name);
    char command[16], option[] = "--help", self[] = "nixie";
    if (c == NULL)
        return cli_usage_error(cli, "%s: no such command", name);
    (void)snprintf(command, sizeof command, "%s", name);
    cli->command = c;
    if (c->run != NULL)
        return c->run(cli, 2, (char *[]){command, option, NULL});
    /* main() runs these before it gets here: ask it. */
    (void)execv("/proc/self/exe", (char *[]){self, command, option, NULL});
    (void)printf("Usage: nixie %s %s\n\n%s.\n", c->name, c->usage, c->summary);
    return CLI_DONE;
}

static int command_help(struct cli *cli, int argc, char **argv) {
    const struct option_spec specs[] = {OPTION_END};
    int first;
    int code = options_parse(cli, specs, argc, argv, &first);
    if (code >= 0)
        return code;
    return first < argc ? help_of(cli, argv[first]) : print_overview(cli);
}

static int run(struct cli *cli, int argc, char **argv) {
    struct options_asked asked;
    int first;
    int code = options_parse_common(cli, argc, argv, &asked, &first);
    if (code >= 0)
        return code;
    if (asked.version)
        return print_version(cli);
    if (first >= argc && asked.help)
        return print_overview(cli);
    if (first >= argc) {
        return cli_usage_error(cli, "which command?");
    }
    const struct command *c = find(argv[first]);
    if (c == NULL)
        return cli_usage_error(cli, "%s: no such command", argv[first]);
    if (asked.help)
        return help_of(cli, argv[first]);
    if (c->run == NULL)
        return cli_usage_error(cli, "%s: must be the first argument", argv[first]);
    cli->command = c;
    return c->run(cli, argc - first, argv + first);
}

int cli_main(int argc, char **argv) {
    struct cli cli = {.timeout_s = 30};
    /* For the width of characters, nothing else: numbers and messages stay as they are. */
    (void)setlocale(LC_CTYPE, "C.UTF-8");
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        cli_error(&cli, "libcurl does not start");
        return CLI_FAILED;
    }
    int code = run(&cli, argc, argv);
    curl_global_cleanup();
    free(cli.own_server);
    free(cli.own_token);
    free(cli.own_actor);
    return code;
}
