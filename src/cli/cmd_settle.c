/* The verbs on messages by id: succeed, fail, release, extend, replay. One request an id: every
 * message printed is the server's own. */
#include "cli/call.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/options.h"
#include "cli/out.h"

#include <stdio.h>

static const struct column columns[] = {
    {.title = "ID", .is_right = true},
    {.title = "STATUS"},
    {.title = "RETRIES", .is_right = true},
    {.title = "RETRY AFTER"},
    {.title = "LEASE UNTIL"},
    {.title = "ERROR", .width_max = 80},
};

static void add_row(struct out *o, const struct json *message) {
    out_cell_member(o, message, "id");
    out_cell_member(o, message, "status");
    out_cell_member(o, message, "retry_count");
    out_cell_member(o, message, "retry_after");
    out_cell_member(o, message, "lease_expires_at");
    out_cell_member(o, message, "last_error");
}

/* What a verb's body holds besides the lease. */
struct verb {
    const char *name;
    const char *lease; /* for all ids; NULL: what was read with the id, if anything */
    const char *error, *error_class, *detail, *reason;
    bool is_permanent, is_forced, clears_deaths;
    int64_t retry_after_s, delay_s, lease_s;
};

static struct verb verb_named(const char *name) {
    return (struct verb){
        .name = name,
        .retry_after_s = OPTION_NOT_GIVEN,
        .delay_s = OPTION_NOT_GIVEN,
        .lease_s = OPTION_NOT_GIVEN,
    };
}

static void write_body(const struct verb *verb, struct span lease, struct buf *body) {
    struct json_writer w;
    json_writer_init(&w, body);
    json_begin(&w, '{');
    if (lease.n > 0) {
        json_name(&w, "lease");
        json_put_string(&w, lease);
    }
    call_put_text(&w, "error", verb->error);
    call_put_text(&w, "error_class", verb->error_class);
    call_put_text(&w, "detail", verb->detail);
    if (verb->is_permanent) {
        json_name(&w, "permanent");
        json_put_bool(&w, true);
    }
    if (verb->is_forced) {
        json_name(&w, "force");
        json_put_bool(&w, true);
    }
    if (verb->clears_deaths) {
        json_name(&w, "clear_deaths");
        json_put_bool(&w, true);
    }
    call_put_text(&w, "reason", verb->reason);
    call_put_number(&w, "retry_after_seconds", verb->retry_after_s);
    call_put_number(&w, "delay_seconds", verb->delay_s);
    call_put_number(&w, "lease_seconds", verb->lease_s);
    json_end(&w, '}');
}

/* -1, or the exit code of this one. */
static int settle_one(struct call *r, const char *queue, const struct verb *verb,
                      const struct input_id *id) {
    struct span lease = verb->lease != NULL ? span_str(verb->lease) : id->lease;
    call_begin_queue(r, queue);
    buf_printf(&r->path, "/messages/%llu/%s", (unsigned long long)id->id, verb->name);
    write_body(verb, lease, &r->body);
    call_run(r, "POST", 0);
    char what[300];
    (void)snprintf(what, sizeof what, "%s %llu", queue, (unsigned long long)id->id);
    return call_check(r, what);
}

/* Goes on after a message that could not be settled, not after a server that is gone or refuses
 * the token. */
static int settle_all(struct call *r, const char *queue, const struct verb *verb,
                      struct input_ids *ids) {
    struct out o;
    struct input_id id;
    out_init(&o, r->cli, true, columns, sizeof columns / sizeof columns[0], add_row);
    int failure = -1, got;
    while ((got = input_ids_next(ids, r->cli, &id)) > 0) {
        int code = settle_one(r, queue, verb, &id);
        if (code < 0)
            out_item(&o, r->reply);
        else if (failure < 0)
            failure = code;
        if (code == CLI_UNREACHABLE || code == CLI_DENIED)
            break;
        out_flush_many(&o);
    }
    if (got < 0 && failure < 0)
        failure = CLI_USAGE;
    return out_finish_list(&o, failure);
}

static int settle(struct cli *cli, const struct verb *verb, const struct option_spec *specs,
                  int argc, char **argv) {
    int first;
    int code = options_parse(cli, specs, argc, argv, &first);
    if (code < 0)
        code = input_check_queue(cli, argv[first]);
    if (code < 0)
        code = input_check_text(cli, "--lease", verb->lease, LIMIT_KEY);
    if (code < 0)
        code = input_check_text(cli, "--error", verb->error, SIZE_MAX);
    if (code < 0)
        code = input_check_text(cli, "--class", verb->error_class, SIZE_MAX);
    if (code < 0)
        code = input_check_text(cli, "--detail", verb->detail, SIZE_MAX);
    if (code < 0)
        code = option_check_reason(cli, verb->reason);
    struct input_ids ids;
    if (code < 0)
        code = input_ids_init(&ids, cli, argv + first + 1, argc - first - 1);
    if (code >= 0)
        return code;

    struct call r;
    call_init(&r, cli);
    code = settle_all(&r, argv[first], verb, &ids);
    call_release(&r);
    input_ids_release(&ids);
    return code;
}

/* The option that the verbs on claimed messages share. */
static struct option_spec lease_option(struct verb *verb) {
    return (struct option_spec){
        .name = "lease",
        .value = "TOKEN",
        .text = &verb->lease,
        .help = "the claim's token: refused when it is not the current one",
    };
}

int command_succeed(struct cli *cli, int argc, char **argv) {
    struct verb verb = verb_named("succeed");
    const struct option_spec specs[] = {lease_option(&verb), OPTION_END};
    return settle(cli, &verb, specs, argc, argv);
}

int command_fail(struct cli *cli, int argc, char **argv) {
    struct verb verb = verb_named("fail");
    const struct option_spec specs[] = {
        {.name = "error",
         .letter = 'e',
         .value = "TEXT",
         .text = &verb.error,
         .help = "what went wrong, in words"},
        {.name = "class",
         .letter = 'c',
         .value = "NAME",
         .text = &verb.error_class,
         .help = "its kind, such as Timeout: groups dead letters"},
        {.name = "detail",
         .value = "TEXT",
         .text = &verb.detail,
         .help = "more, such as a stack trace"},
        {.name = "permanent",
         .flag = &verb.is_permanent,
         .help = "no retry can help: dead at once"},
        {.name = "retry-after",
         .value = "S",
         .seconds = &verb.retry_after_s,
         .max = LIMIT_DELAY_SECONDS,
         .help = "retry in S seconds instead of the queue's backoff"},
        lease_option(&verb),
        OPTION_END,
    };
    return settle(cli, &verb, specs, argc, argv);
}

int command_release(struct cli *cli, int argc, char **argv) {
    struct verb verb = verb_named("release");
    const struct option_spec specs[] = {
        {.name = "delay",
         .value = "S",
         .seconds = &verb.delay_s,
         .max = LIMIT_DELAY_SECONDS,
         .help = "not claimable for S seconds"},
        lease_option(&verb),
        OPTION_END,
    };
    return settle(cli, &verb, specs, argc, argv);
}

int command_extend(struct cli *cli, int argc, char **argv) {
    struct verb verb = verb_named("extend");
    const struct option_spec specs[] = {
        {.name = "seconds",
         .letter = 's',
         .value = "S",
         .seconds = &verb.lease_s,
         .min = 1,
         .max = LIMIT_LEASE_SECONDS,
         .help = "the lease ends S seconds from now (default: the queue's)"},
        lease_option(&verb),
        OPTION_END,
    };
    return settle(cli, &verb, specs, argc, argv);
}

int command_replay(struct cli *cli, int argc, char **argv) {
    struct verb verb = verb_named("replay");
    const struct option_spec specs[] = {
        {.name = "force",
         .flag = &verb.is_forced,
         .help = "also beyond the queue's redrive_limit, and when an edited copy was sent"},
        {.name = "clear-deaths",
         .flag = &verb.clears_deaths,
         .help = "it forgets where it died before: x-death begins anew"},
        option_reason(&verb.reason),
        OPTION_END,
    };
    return settle(cli, &verb, specs, argc, argv);
}
