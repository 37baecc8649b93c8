/* nixie ls and nixie show. */
#include "cli/call.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/options.h"
#include "cli/out.h"
#include "cli/story.h"
#include "cli/text.h"

#include <stdio.h>
#include <string.h>

/* -- ls -------------------------------------------------------------------------------------- */

static const struct column columns[] = {
    {.title = "ID", .is_right = true},
    {.title = "STATUS"},
    {.title = "RETRIES", .is_right = true},
    {.title = "CREATED"},
    {.title = "RETRY AFTER"},
    {.title = "ERROR", .width_max = 48},
    {.title = "PAYLOAD", .width_max = 60},
};

static void add_row(struct out *o, const struct json *message) {
    const struct json *count = json_get(message, "retry_count"),
                      *max = json_get(message, "max_retries");
    char retries[48] = "-";
    if (json_is(count, JSON_INTEGER) && json_is(max, JSON_INTEGER))
        (void)snprintf(retries, sizeof retries, "%lld/%lld", (long long)json_integer(count),
                       (long long)json_integer(max));
    out_cell_member(o, message, "id");
    out_cell_pair(o, message, "status", " (", "reason", ")");
    out_cell(o, span_str(retries));
    out_cell_member(o, message, "created_at");
    out_cell_member(o, message, "retry_after");
    out_cell_pair(o, message, "error_class", ": ", "last_error", "");
    out_cell_payload(o, message);
}

struct listing {
    const char *queue, *status;
    int64_t limit, offset, after;
    bool is_all;
};

/* One page of at most `limit`: -1, how many came, and l->after moved behind them; or the exit
 * code. */
static int list_page(struct call *r, struct listing *l, int64_t limit, struct out *o,
                     size_t *ret_count) {
    call_begin_queue(r, l->queue);
    buf_printf(&r->path, "/messages?limit=%lld", (long long)limit);
    if (l->status != NULL) {
        buf_add_str(&r->path, "&status=");
        text_add_segment(l->status, &r->path);
    }
    if (l->offset > 0)
        buf_printf(&r->path, "&offset=%lld", (long long)l->offset);
    if (l->after != OPTION_NOT_GIVEN)
        buf_printf(&r->path, "&after=%lld", (long long)l->after);
    call_run(r, "GET", 0);
    int code = call_check(r, l->queue);
    if (code >= 0)
        return code;
    const struct json *messages = json_get(r->reply, "messages");
    size_t n = json_is(messages, JSON_ARRAY) ? json_count(messages) : 0;
    for (size_t i = 0; i < n; i++) {
        const struct json *id = json_get(json_at(messages, i), "id");
        if (!json_is(id, JSON_INTEGER) || json_integer(id) <= l->after) {
            cli_error(r->cli, "%s: the server's list is out of order", l->queue);
            return CLI_FAILED;
        }
        l->after = json_integer(id);
        out_item(o, json_at(messages, i));
    }
    out_flush(o);
    l->offset = 0; /* it was counted through: from here on `after` says where */
    *ret_count = n;
    return -1;
}

/* A page may end early (it holds much payload): only an empty one is the end. */
static int list(struct call *r, struct listing *l) {
    struct out o;
    out_init(&o, r->cli, true, columns, sizeof columns / sizeof columns[0], add_row);
    int code = -1;
    int64_t left = l->is_all ? INT64_MAX : l->limit;
    size_t n = 1;
    while (code < 0 && n > 0 && left > 0) {
        code = list_page(r, l, left < LIMIT_BATCH ? left : LIMIT_BATCH, &o, &n);
        if (code < 0)
            left -= (int64_t)n < left ? (int64_t)n : left;
    }
    if (code < 0 && o.items == 0)
        cli_note(r->cli, "%s: no messages", l->queue);
    bool has_more = code < 0 && left == 0 && r->cli->format == FORMAT_TABLE;
    code = out_finish_list(&o, code);
    if (has_more)
        cli_note(r->cli, "there may be more: --after %lld, or --all", (long long)l->after);
    return code;
}

static int check_status(const struct cli *cli, const char *status) {
    static const char *const names[] = {"pending",   "processing", "parked",
                                        "succeeded", "dead",       "discarded"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (status == NULL || strcmp(status, names[i]) == 0)
            return -1;
    }
    return cli_usage_error(
        cli, "--status %s: must be pending, processing, parked, succeeded, dead or discarded",
        status);
}

int command_ls(struct cli *cli, int argc, char **argv) {
    struct listing l = {.limit = 100, .offset = 0, .after = OPTION_NOT_GIVEN};
    const struct option_spec specs[] = {
        {.name = "status",
         .letter = 's',
         .value = "STATUS",
         .text = &l.status,
         .help = "only pending, processing, succeeded, dead or discarded ones"},
        option_limit(&l.limit),
        {.name = "offset",
         .value = "N",
         .number = &l.offset,
         .max = LIMIT_OFFSET,
         .help = "skip the first N"},
        {.name = "after",
         .value = "ID",
         .number = &l.after,
         .max = (int64_t)LIMIT_ID,
         .help = "only younger ones than ID"},
        {.name = "all", .letter = 'a', .flag = &l.is_all, .help = "all of them"},
        OPTION_END,
    };
    int first;
    int code = options_parse(cli, specs, argc, argv, &first);
    if (code < 0)
        code = input_check_queue(cli, argv[first]);
    if (code < 0)
        code = check_status(cli, l.status);
    if (code >= 0)
        return code;
    l.queue = argv[first];
    struct call r;
    call_init(&r, cli);
    code = list(&r, &l);
    call_release(&r);
    return code;
}

/* -- show ------------------------------------------------------------------------------------ */

static const struct column story_columns[] = {
    {.title = "ATTEMPT", .is_right = true},
    {.title = "EVENT"},
    {.title = "AT"},
    {.title = "BY", .width_max = 40},
    {.title = "CLASS", .width_max = 40},
    {.title = "ERROR", .width_max = 200},
};

static void add_story_row(struct out *o, const struct json *event) {
    out_cell_member(o, event, "attempt");
    out_cell_member(o, event, "event");
    out_cell_member(o, event, "at");
    out_cell_member(o, event, story_who(event));
    out_cell_member(o, event, "error_class");
    out_cell_member(o, event, "error");
}

static int print_table(const struct cli *cli, const struct json *message,
                       const struct json *attempts) {
    struct out o;
    out_object(message);
    out_init(&o, cli, true, story_columns, sizeof story_columns / sizeof story_columns[0],
             add_story_row);
    if (attempts != NULL && json_count(attempts) > 0) {
        (void)fputc('\n', stdout);
        (void)out_items(&o, attempts);
        out_flush(&o);
        story_print_details(attempts); /* they are long */
    }
    return out_finish(&o, CLI_DONE);
}

/* {"message": ..., "attempts": [...]} */
static int print_document(const struct cli *cli, const struct json *message,
                          const struct json *attempts) {
    struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    buf_add_str(&text, "{\"message\":");
    json_dump(message, &text);
    buf_add_str(&text, ",\"attempts\":");
    if (attempts != NULL)
        json_dump(attempts, &text);
    else
        buf_add_str(&text, "[]");
    buf_add_byte(&text, '}');
    out_text(cli, buf_span(&text));
    buf_release(&text);
    return out_check(cli, CLI_DONE);
}

/* The payload as it is: bytes, not JSON. */
static int show_payload(struct call *r, const char *queue, int64_t id) {
    char found[LIMIT_QUEUE_NAME + 1], what[LIMIT_QUEUE_NAME + 32];
    int code = queue == NULL ? story_find_queue(r, id, found) : -1;
    if (code >= 0)
        return code;
    queue = queue == NULL ? found : queue;
    call_begin_queue(r, queue);
    buf_printf(&r->path, "/messages/%lld/payload", (long long)id);
    call_run(r, "GET", 0);
    (void)snprintf(what, sizeof what, "%s %lld", queue, (long long)id);
    if (!call_is_success(r))
        return call_check(r, what);
    out_bytes(buf_span(&r->received));
    return out_check(r->cli, CLI_DONE);
}

static int show(struct call *r, const char *queue, int64_t id) {
    char found[LIMIT_QUEUE_NAME + 1];
    struct json *message = NULL, *story = NULL;
    int code = story_get_message(r, queue, id, &message);
    if (code < 0 && queue == NULL) {
        code = story_queue_of(r->cli, message, found);
        queue = found;
    }
    if (code < 0)
        code = story_get(r, queue, id, &story);
    if (code < 0)
        code = r->cli->format == FORMAT_TABLE ? print_table(r->cli, message, story_lines(story))
                                              : print_document(r->cli, message, story_lines(story));
    json_free(message);
    json_free(story);
    return code;
}

int command_show(struct cli *cli, int argc, char **argv) {
    bool is_payload = false;
    const struct option_spec specs[] = {
        {.name = "payload", .flag = &is_payload, .help = "only the payload, byte for byte"},
        OPTION_END,
    };
    int first;
    int64_t id = 0;
    int code = options_parse(cli, specs, argc, argv, &first);
    if (code >= 0)
        return code;
    const char *queue = argc - first == 2 ? argv[first] : NULL;
    if (queue != NULL)
        code = input_check_queue(cli, queue);
    if (code < 0)
        code = story_read_id(cli, argv[argc - 1], &id);
    if (code >= 0)
        return code;
    struct call r;
    call_init(&r, cli);
    code = is_payload ? show_payload(&r, queue, id) : show(&r, queue, id);
    call_release(&r);
    return code;
}
