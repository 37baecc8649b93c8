/* nixie enqueue: one message, or each line of standard input. */
#include "base/clock.h"
#include "cli/call.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/options.h"
#include "cli/out.h"
#include "cli/text.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    /* Of a body: with one more line it stays below LIMIT_BODY, unless that line alone is near it.
     */
    BATCH_BYTES = 4 * 1024 * 1024,
    PROGRESS_US = 200000,
};

/* What the options say of every message. */
struct enqueue {
    const char *queue, *payload, *file, *key, *idempotency_key;
    bool by_lines;
    int64_t priority, delay_s, ttl_s, retries_max;
    struct option_list headers;
    struct buf headers_json; /* empty: none */
};

/* -- messages -------------------------------------------------------------------------------- */

static int build_headers(const struct cli *cli, struct enqueue *e) {
    struct json_writer w;
    if (e->headers.n == 0)
        return -1;
    json_writer_init(&w, &e->headers_json);
    json_begin(&w, '{');
    for (size_t i = 0; i < e->headers.n; i++) {
        const char *item = e->headers.items[i], *equals = strchr(item, '=');
        if (equals == NULL || equals == item)
            return cli_usage_error(cli, "--header %s: must be NAME=VALUE", item);
        int code = input_check_text(cli, "--header", item, LIMIT_HEADERS);
        if (code >= 0)
            return code;
        /* A member's name is written as it is: quote it as a value, and take the quotes off. */
        struct buf name;
        struct json_writer name_writer;
        buf_init(&name, 8 * (size_t)LIMIT_HEADERS);
        json_writer_init(&name_writer, &name);
        json_put_string(&name_writer, span_of(item, (size_t)(equals - item)));
        name.p[name.n - 1] = '\0';
        json_name(&w, (const char *)name.p + 1);
        json_put_str(&w, equals + 1);
        buf_release(&name);
    }
    json_end(&w, '}');
    return -1;
}

/* Base64 for what is no text, and for text that would grow more when escaped. */
static bool payload_needs_base64(struct span payload) {
    size_t escapes = 0;
    for (size_t i = 0; i < payload.n; i++)
        escapes += payload.p[i] < 0x20 && payload.p[i] != '\n' && payload.p[i] != '\t';
    return escapes > payload.n / 16 || !span_is_utf8(payload);
}

static void write_message(struct json_writer *w, const struct enqueue *e, struct span payload) {
    json_begin(w, '{');
    if (payload_needs_base64(payload)) {
        json_name(w, "payload_base64");
        json_put_base64(w, payload);
    } else {
        json_name(w, "payload");
        json_put_string(w, payload);
    }
    call_put_number(w, "max_retries", e->retries_max);
    call_put_number(w, "priority", e->priority);
    call_put_number(w, "delay_seconds", e->delay_s);
    call_put_number(w, "ttl_seconds", e->ttl_s);
    call_put_text(w, "key", e->key);
    call_put_text(w, "idempotency_key", e->idempotency_key);
    if (e->headers_json.n > 0) {
        json_name(w, "headers");
        json_put_raw(w, buf_span(&e->headers_json));
    }
    json_end(w, '}');
}

static void begin(struct call *r, const struct enqueue *e) {
    call_begin_queue(r, e->queue);
    buf_add_str(&r->path, "/messages");
}

/* -- one ------------------------------------------------------------------------------------- */

static const struct column columns[] = {
    {.title = "ID", .is_right = true},
    {.title = "STATUS"},
    {.title = "CREATED"},
    {.title = "QUEUE"},
};

static void add_row(struct out *o, const struct json *message) {
    out_cell_member(o, message, "id");
    out_cell_member(o, message, "status");
    out_cell_member(o, message, "created_at");
    out_cell_member(o, message, "queue");
}

static int enqueue_one(struct call *r, const struct enqueue *e) {
    struct buf payload;
    struct json_writer w;
    buf_init(&payload, LIMIT_PAYLOAD_MOST + 1);
    const char *file = e->file != NULL                                      ? e->file
                       : e->payload == NULL || strcmp(e->payload, "-") == 0 ? "-"
                                                                            : NULL;
    int code = -1;
    if (file != NULL)
        code = input_read_file(r->cli, file, LIMIT_PAYLOAD_MOST, &payload);
    if (code < 0) {
        begin(r, e);
        json_writer_init(&w, &r->body);
        write_message(&w, e, file != NULL ? buf_span(&payload) : span_str(e->payload));
        call_run(r, "POST", 0);
        code = call_check(r, e->queue);
    }
    buf_release(&payload);
    if (code >= 0)
        return code;
    struct out o;
    out_init(&o, r->cli, false, columns, sizeof columns / sizeof columns[0], add_row);
    out_item(&o, r->reply);
    return out_finish(&o, CLI_DONE);
}

/* -- lines ----------------------------------------------------------------------------------- */

struct lines_run {
    uint64_t sent, duplicates;
    int64_t started_us, shown_us;
    bool shows_progress;
    struct out out; /* one item a batch: the server's reply */
};

static const struct column batch_columns[] = {
    {.title = "COUNT", .is_right = true},
    {.title = "DUPLICATES", .is_right = true},
    {.title = "FIRST ID", .is_right = true},
    {.title = "LAST ID", .is_right = true},
};

static void add_id(struct out *o, const struct json *ids, bool is_last) {
    char text[24] = "-";
    size_t n = json_count(ids);
    const struct json *id =
        n > 0 && json_is(ids, JSON_ARRAY) ? json_at(ids, is_last ? n - 1 : 0) : NULL;
    if (json_is(id, JSON_INTEGER))
        (void)snprintf(text, sizeof text, "%lld", (long long)json_integer(id));
    out_cell(o, span_str(text));
}

static void add_batch_row(struct out *o, const struct json *reply) {
    out_cell_member(o, reply, "count");
    out_cell_member(o, reply, "duplicates");
    add_id(o, json_get(reply, "ids"), false);
    add_id(o, json_get(reply, "ids"), true);
}

static void show_progress(struct lines_run *run, bool is_last) {
    int64_t now_us = clock_monotonic_us();
    if (!run->shows_progress || (!is_last && now_us - run->shown_us < PROGRESS_US))
        return;
    run->shown_us = now_us;
    struct buf text;
    buf_init(&text, 256);
    buf_add_str(&text, "\r\x1b[K");
    if (!is_last) {
        int64_t elapsed_us = now_us - run->started_us;
        text_add_grouped(run->sent, &text);
        buf_add_str(&text, " enqueued | ");
        text_add_grouped(run->sent * 1000000 / (uint64_t)(elapsed_us > 0 ? elapsed_us : 1), &text);
        buf_add_str(&text, "/s");
    }
    (void)fwrite(text.p, 1, text.n, stderr);
    (void)fflush(stderr);
    buf_release(&text);
}

/* Reads up to a batch of lines into the body. The number of them, 0 at the end, -1 and said on an
 * error. */
static int read_batch(struct call *r, const struct enqueue *e, struct input_lines *in) {
    struct json_writer w;
    struct span line;
    int n = 0, got = 1;
    begin(r, e);
    json_writer_init(&w, &r->body);
    json_begin(&w, '[');
    while (n < LIMIT_BATCH && r->body.n < BATCH_BYTES &&
           (got = input_lines_next(in, r->cli, &line)) > 0) {
        write_message(&w, e, line);
        n++;
    }
    json_end(&w, ']');
    return got < 0 ? -1 : n;
}

/* Sends all lines; -1, or the exit code of what stopped it. */
static int send_lines(struct call *r, const struct enqueue *e, struct lines_run *run,
                      struct input_lines *in) {
    for (;;) {
        uint64_t first = in->count + 1;
        int n = read_batch(r, e, in);
        if (n <= 0)
            return n < 0 ? CLI_FAILED : -1;
        call_run(r, "POST", 0);
        if (!call_is_success(r))
            show_progress(run, true);
        char what[400];
        (void)snprintf(what, sizeof what, "%s: lines %llu to %llu were not enqueued", e->queue,
                       (unsigned long long)first, (unsigned long long)in->count);
        int code = call_check(r, what);
        if (code >= 0)
            return code;
        out_item(&run->out, r->reply);
        run->sent += (uint64_t)n;
        show_progress(run, false);
    }
}

static int enqueue_lines(struct call *r, const struct enqueue *e) {
    /* Not between results on the same terminal; a table comes at the end. */
    bool is_quiet = r->cli->quiet || !isatty(STDERR_FILENO) ||
                    (isatty(STDOUT_FILENO) && r->cli->format != FORMAT_TABLE);
    struct lines_run run = {.started_us = clock_monotonic_us(), .shows_progress = !is_quiet};
    struct input_lines in;
    input_lines_init(&in, STDIN_FILENO, LIMIT_PAYLOAD_MOST);
    out_init(&run.out, r->cli, true, batch_columns, sizeof batch_columns / sizeof batch_columns[0],
             add_batch_row);
    int code = send_lines(r, e, &run, &in);
    input_lines_release(&in);
    show_progress(&run, true);
    if (code >= 0 && run.sent > 0) {
        cli_error(r->cli, "%s: the first %llu lines are enqueued, the rest is not", e->queue,
                  (unsigned long long)run.sent);
        code = CLI_PARTLY;
    } else if (code < 0) {
        cli_note(r->cli, "%s: %llu messages enqueued", e->queue, (unsigned long long)run.sent);
    }
    return out_finish(&run.out, code < 0 ? CLI_DONE : code);
}

/* -- the command ----------------------------------------------------------------------------- */

static int check(const struct cli *cli, struct enqueue *e) {
    int sources = (e->payload != NULL) + (e->file != NULL) + e->by_lines;
    int code = input_check_queue(cli, e->queue);
    if (code < 0)
        code = input_check_text(cli, "--key", e->key, LIMIT_KEY);
    if (code < 0)
        code =
            input_check_text(cli, "--idempotency-key", e->idempotency_key, LIMIT_IDEMPOTENCY_KEY);
    if (code >= 0)
        return code;
    if (sources > 1)
        return cli_usage_error(cli, "a PAYLOAD, --file or --lines: only one of them");
    if (sources == 0 && isatty(STDIN_FILENO))
        return cli_usage_error(
            cli, "no payload: give it as an argument, with --file, or on standard input");
    if (e->by_lines && e->idempotency_key != NULL)
        return cli_usage_error(cli, "--idempotency-key is for one message, --lines are many");
    return build_headers(cli, e);
}

int command_enqueue(struct cli *cli, int argc, char **argv) {
    struct enqueue e = {.priority = OPTION_NOT_GIVEN,
                        .delay_s = OPTION_NOT_GIVEN,
                        .ttl_s = OPTION_NOT_GIVEN,
                        .retries_max = OPTION_NOT_GIVEN};
    const struct option_spec specs[] = {
        {.name = "file",
         .letter = 'f',
         .value = "FILE",
         .text = &e.file,
         .help = "the payload is the content of FILE (-: standard input)"},
        {.name = "lines",
         .letter = 'l',
         .flag = &e.by_lines,
         .help = "each line of standard input is a message"},
        {.name = "priority",
         .letter = 'p',
         .value = "N",
         .number = &e.priority,
         .max = 9,
         .help = "0 to 9, 9 goes first"},
        {.name = "delay",
         .value = "S",
         .seconds = &e.delay_s,
         .max = LIMIT_DELAY_SECONDS,
         .help = "not claimable for S seconds"},
        {.name = "ttl",
         .value = "S",
         .seconds = &e.ttl_s,
         .min = 1,
         .max = LIMIT_DELAY_SECONDS,
         .help = "dead when it has not succeeded in S seconds"},
        {.name = "key", .letter = 'k', .value = "KEY", .text = &e.key, .help = "the ordering key"},
        {.name = "header",
         .letter = 'H',
         .value = "K=V",
         .list = &e.headers,
         .help = "a header; may be repeated"},
        {.name = "max-retries",
         .value = "N",
         .number = &e.retries_max,
         .min = 1,
         .max = LIMIT_RETRIES,
         .help = "dead after N failures"},
        {.name = "idempotency-key",
         .value = "KEY",
         .text = &e.idempotency_key,
         .help = "enqueue once, however often this is run"},
        OPTION_END,
    };
    int first;
    int code = options_parse(cli, specs, argc, argv, &first);
    if (code >= 0)
        return code;
    e.queue = argv[first];
    e.payload = first + 1 < argc ? argv[first + 1] : NULL;
    buf_init(&e.headers_json, TEXT_BYTES_MAX);
    code = check(cli, &e);
    if (code < 0) {
        struct call r;
        call_init(&r, cli);
        code = e.by_lines ? enqueue_lines(&r, &e) : enqueue_one(&r, &e);
        call_release(&r);
    }
    buf_release(&e.headers_json);
    return code;
}
