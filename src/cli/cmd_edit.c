/* nixie edit: a changed copy of a dead letter is sent in its place. */
#include "cli/ask.h"
#include "cli/call.h"
#include "cli/change.h"
#include "cli/commands.h"
#include "cli/editor.h"
#include "cli/input.h"
#include "cli/options.h"
#include "cli/out.h"
#include "cli/patch_args.h"
#include "cli/text.h"
#include "model/triage.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct edit {
    /* as asked for */
    const char *queue;
    int64_t id;
    const char *file; /* the payload; "-": standard input */
    bool is_headers;  /* in the editor: the headers instead of the payload */
    struct patch_args patch_args;
    const char *reason;
    bool force, is_sure;

    char what[300];                      /* queue and id, for messages */
    struct buf payload, headers;         /* of the letter; headers as JSON, empty: none */
    struct buf new_payload, new_headers; /* of the copy */
    struct buf patch;                    /* JSON; empty: none */
};

static void edit_init(struct edit *e) {
    buf_init(&e->payload, CALL_REPLY_MAX);
    buf_init(&e->headers, CALL_REPLY_MAX);
    buf_init(&e->new_payload, LIMIT_PAYLOAD_MOST + 1);
    buf_init(&e->new_headers, CALL_REPLY_MAX);
    buf_init(&e->patch, TEXT_BYTES_MAX);
}

static void edit_release(struct edit *e) {
    buf_release(&e->payload);
    buf_release(&e->headers);
    buf_release(&e->new_payload);
    buf_release(&e->new_headers);
    buf_release(&e->patch);
}

/* -- the letter ------------------------------------------------------------------------------ */

static int check_dead(const struct edit *e, const struct cli *cli, const struct json *letter) {
    struct span status = call_text(letter, "status");
    int64_t copy = call_number(letter, "edited_to", 0);
    if (!span_equal_str(status, "dead")) {
        struct buf text;
        buf_init(&text, TEXT_BYTES_MAX);
        text_escape(status, TEXT_ONE_LINE, &text);
        cli_error(cli, "%s is %.*s: only a dead letter can be edited", e->what, (int)text.n,
                  (const char *)text.p);
        buf_release(&text);
        return CLI_CONFLICT;
    }
    if (copy > 0 && !e->force) {
        cli_error(cli, "%s: an edited copy was sent in its place: %lld (--force sends another)",
                  e->what, (long long)copy);
        return CLI_CONFLICT;
    }
    return -1;
}

static int read_letter(struct edit *e, struct call *r) {
    call_begin_queue(r, e->queue);
    buf_printf(&r->path, "/messages/%lld", (long long)e->id);
    call_run(r, "GET", 0);
    int code = call_check(r, e->what);
    if (code < 0)
        code = check_dead(e, r->cli, r->reply);
    if (code >= 0)
        return code;
    const struct json *headers = json_get(r->reply, "headers");
    if (json_is(headers, JSON_OBJECT))
        json_dump(headers, &e->headers);
    struct span base64 = call_text(r->reply, "payload_base64");
    if (base64.n == 0)
        buf_add_span(&e->payload, call_text(r->reply, "payload"));
    else if (base64_decode(base64, &e->payload) != OK) {
        cli_error(r->cli, "%s: what the server sent is no base64", e->what);
        return CLI_FAILED;
    }
    return -1;
}

/* -- the copy -------------------------------------------------------------------------------- */

/* Replaces new_headers by them as compact JSON; empty when there are none. */
static int take_headers(struct edit *e, const struct cli *cli) {
    struct json_error error;
    struct span text = buf_span(&e->new_headers);
    size_t spaces = 0;
    while (spaces < text.n && memchr(" \t\r\n", text.p[spaces], 4) != NULL)
        spaces++;
    if (spaces == text.n) {
        buf_clear(&e->new_headers);
        return -1;
    }
    struct json *v = json_parse(text, &error);
    if (v == NULL) {
        cli_error(cli, "the headers: line %d, column %d: %s", error.line, error.column, error.text);
        return CLI_FAILED;
    }
    bool is_object = json_is(v, JSON_OBJECT);
    if (is_object) {
        buf_clear(&e->new_headers);
        if (json_count(v) > 0)
            json_dump(v, &e->new_headers);
    } else {
        cli_error(cli, "the headers: must be a JSON object");
    }
    json_free(v);
    return is_object ? -1 : CLI_FAILED;
}

static int edit_headers(struct edit *e, const struct cli *cli) {
    struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    text_add_json(e->headers.n > 0 ? buf_span(&e->headers) : span_str("{}"), true, 0, &text);
    buf_add_byte(&text, '\n');
    int code = editor_run(cli, buf_span(&text), LIMIT_PAYLOAD_MOST, &e->new_headers);
    buf_release(&text);
    if (code >= 0)
        return code;
    code = take_headers(e, cli);
    if (code >= 0)
        editor_keep(cli, buf_span(&e->new_headers));
    return code;
}

static int apply_patch(struct edit *e, const struct cli *cli) {
    enum err err = patch_apply(buf_span(&e->patch), buf_span(&e->headers), buf_span(&e->payload),
                               &e->new_headers, &e->new_payload);
    if (err == OK)
        return -1;
    cli_error(cli, "%s: %s", e->what,
              err == ERR_TOO_LARGE
                  ? "the copy would be too large"
                  : "its payload is no JSON, or what is to be set leads through a value there");
    return CLI_FAILED;
}

/* Fills new_payload and new_headers. */
static int make_copy(struct edit *e, const struct cli *cli) {
    if (e->patch.n > 0)
        return apply_patch(e, cli);
    if (e->is_headers) {
        buf_add_span(&e->new_payload, buf_span(&e->payload));
        return edit_headers(e, cli);
    }
    buf_add_span(&e->new_headers, buf_span(&e->headers));
    if (e->file != NULL)
        return input_read_file(cli, e->file, LIMIT_PAYLOAD_MOST, &e->new_payload);
    return editor_run(cli, buf_span(&e->payload), LIMIT_PAYLOAD_MOST, &e->new_payload);
}

/* -- sending it ------------------------------------------------------------------------------ */

static int confirm(const struct edit *e, const struct cli *cli) {
    struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    change_add("headers", buf_span(&e->headers), buf_span(&e->new_headers), &text);
    change_add("payload", buf_span(&e->payload), buf_span(&e->new_payload), &text);
    if (!e->is_sure || !cli->quiet)
        (void)fwrite(text.p, 1, text.n, stderr);
    buf_clear(&text);
    buf_add_str(&text, "Send this copy of ");
    text_escape(span_str(e->what), TEXT_ONE_LINE, &text);
    buf_add_str(&text, "?");
    buf_add_byte(&text, '\0');
    int code = e->is_sure ? -1 : ask_yes(cli, (const char *)text.p);
    buf_release(&text);
    return code;
}

static void write_body(const struct edit *e, struct json_writer *w) {
    json_begin(w, '{');
    if (e->patch.n > 0) {
        json_name(w, "patch");
        json_put_raw(w, buf_span(&e->patch));
    } else if (e->is_headers) {
        json_name(w, "headers");
        json_put_raw(w, e->new_headers.n > 0 ? buf_span(&e->new_headers) : span_str("null"));
    } else if (span_is_utf8(buf_span(&e->new_payload))) {
        json_name(w, "payload");
        json_put_string(w, buf_span(&e->new_payload));
    } else {
        json_name(w, "payload_base64");
        json_put_base64(w, buf_span(&e->new_payload));
    }
    if (e->force) {
        json_name(w, "force");
        json_put_bool(w, true);
    }
    call_put_text(w, "reason", e->reason);
    json_end(w, '}');
}

static const struct column columns[] = {
    {.title = "ID", .is_right = true},
    {.title = "STATUS"},
    {.title = "COPY OF", .is_right = true},
    {.title = "QUEUE"},
};

static void add_row(struct out *o, const struct json *message) {
    out_cell_member(o, message, "id");
    out_cell_member(o, message, "status");
    out_cell_member(o, message, "parent_id");
    out_cell_member(o, message, "queue");
}

static int send_copy(const struct edit *e, struct call *r) {
    struct json_writer w;
    struct out o;
    call_begin_queue(r, e->queue);
    buf_printf(&r->path, "/messages/%lld/edit", (long long)e->id);
    json_writer_init(&w, &r->body);
    write_body(e, &w);
    call_run(r, "POST", 0);
    int code = call_check(r, e->what);
    if (code >= 0)
        return code;
    cli_note(r->cli, "%s: sent as %lld; the letter stays, marked", e->what,
             (long long)call_number(r->reply, "id", 0));
    out_init(&o, r->cli, false, columns, sizeof columns / sizeof columns[0], add_row);
    out_item(&o, r->reply);
    return out_finish(&o, CLI_DONE);
}

static int run(struct edit *e, struct call *r) {
    int code = read_letter(e, r);
    if (code < 0)
        code = make_copy(e, r->cli);
    if (code >= 0)
        return code;
    if (span_equal(buf_span(&e->payload), buf_span(&e->new_payload)) &&
        span_equal(buf_span(&e->headers), buf_span(&e->new_headers))) {
        cli_note(r->cli, "%s: unchanged; nothing was sent", e->what);
        return CLI_DONE;
    }
    code = confirm(e, r->cli);
    if (code >= 0)
        return code;
    code = send_copy(e, r);
    if (code >= 0 && code != CLI_DONE && e->patch.n == 0 && e->file == NULL)
        editor_keep(r->cli, buf_span(e->is_headers ? &e->new_headers : &e->new_payload));
    return code;
}

/* -- the command ----------------------------------------------------------------------------- */

static int check(const struct cli *cli, struct edit *e) {
    bool is_patch = patch_args_given(&e->patch_args);
    int code = input_check_queue(cli, e->queue);
    if (code < 0)
        code = option_check_reason(cli, e->reason);
    if (code >= 0)
        return code;
    if (is_patch + e->is_headers + (e->file != NULL) > 1)
        return cli_usage_error(
            cli, "--payload, --headers, or --set, --remove and --header: only one of them");
    if (!is_patch && e->file == NULL && !isatty(STDIN_FILENO))
        return cli_usage_error(cli, "without a terminal for an editor, say what is to change: "
                                    "--payload, --set, --remove, --header");
    if (!e->is_sure && !isatty(STDIN_FILENO))
        return cli_usage_error(cli, "without a terminal to ask at, this needs --yes");
    return is_patch ? patch_args_build(&e->patch_args, cli, &e->patch) : -1;
}

int command_edit(struct cli *cli, int argc, char **argv) {
    struct edit e = {.queue = NULL};
    const struct option_spec specs[] = {
        {.name = "payload",
         .value = "FILE",
         .text = &e.file,
         .help = "the copy's payload is the content of FILE (-: standard input)"},
        {.name = "headers",
         .flag = &e.is_headers,
         .help = "edit the headers, as JSON, instead of the payload"},
        patch_option_set(&e.patch_args),
        patch_option_remove(&e.patch_args),
        patch_option_header(&e.patch_args),
        {.name = "force", .flag = &e.force, .help = "also when a copy was sent already"},
        option_reason(&e.reason),
        option_yes(&e.is_sure),
        OPTION_END,
    };
    int first;
    int code = options_parse(cli, specs, argc, argv, &first);
    if (code >= 0)
        return code;
    e.queue = argv[first];
    if (text_number(span_str(argv[first + 1]), 1, (int64_t)LIMIT_ID, &e.id) != OK)
        return cli_usage_error(cli, "%s: not an id (a whole number, 1 or more)", argv[first + 1]);
    (void)snprintf(e.what, sizeof e.what, "%s %lld", e.queue, (long long)e.id);
    edit_init(&e);
    code = check(cli, &e);
    if (code < 0) {
        struct call r;
        call_init(&r, cli);
        code = run(&e, &r);
        call_release(&r);
    }
    edit_release(&e);
    return code;
}
