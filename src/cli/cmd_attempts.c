/* nixie attempts: the story of a message, an attempt a line. */
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/options.h"
#include "cli/out.h"
#include "cli/story.h"
#include "cli/text.h"

static const struct column columns[] = {
    {.title = "ATTEMPT", .is_right = true},
    {.title = "OUTCOME"},
    {.title = "AT"},
    {.title = "BY", .width_max = 32},
    {.title = "VERSION", .width_max = 20},
    {.title = "TOOK", .is_right = true},
    {.title = "NEXT"},
    {.title = "CLASS", .width_max = 40},
    {.title = "ERROR", .width_max = 200},
};

static void add_row(struct out *o, const struct json *line) {
    struct buf took;
    int64_t duration_ms = call_number(line, "duration_ms", -1);
    buf_init(&took, TEXT_BYTES_MAX);
    if (duration_ms >= 0)
        text_add_duration(duration_ms, &took);
    else
        buf_add_byte(&took, '-');
    out_cell_member(o, line, "attempt");
    out_cell_member(o, line, "event");
    out_cell_member(o, line, "at");
    out_cell_member(o, line, story_who(line));
    out_cell_member(o, line, "worker_version");
    out_cell(o, buf_span(&took));
    out_cell_member(o, line, "next_at");
    out_cell_member(o, line, "error_class");
    out_cell_member(o, line, "error");
    buf_release(&took);
}

/* A claim whose outcome is the next line tells people nothing. */
static bool is_passed_over(const struct json *lines, size_t i) {
    return span_equal_str(call_text(json_at(lines, i), "event"), "claimed") &&
           i + 1 < json_count(lines) &&
           call_number(json_at(lines, i), "attempt", -1) ==
               call_number(json_at(lines, i + 1), "attempt", -2);
}

static int print(const struct cli *cli, const struct json *story, bool with_details) {
    const struct json *lines = story_lines(story);
    struct out o;
    bool is_table = cli->format == FORMAT_TABLE;
    out_init(&o, cli, true, columns, sizeof columns / sizeof columns[0], add_row);
    for (size_t i = 0; i < json_count(lines); i++) {
        if (!is_table || !is_passed_over(lines, i))
            out_item(&o, json_at(lines, i));
    }
    if (is_table) {
        out_flush(&o);
        if (with_details)
            story_print_details(lines);
    }
    int code = out_finish(&o, CLI_DONE);
    int64_t omitted = call_number(story, "attempts_omitted", 0);
    if (json_count(lines) == 0)
        cli_note(cli, "nothing happened to it yet");
    if (omitted > 0)
        cli_note(cli,
                 "%lld of its %lld attempts have no line: the first %d and the last %d are kept",
                 (long long)omitted, (long long)call_number(story, "attempts_total", 0),
                 LIMIT_ATTEMPTS_FIRST, LIMIT_ATTEMPTS_LAST);
    return code;
}

int command_attempts(struct cli *cli, int argc, char **argv) {
    bool with_details = false;
    const struct option_spec specs[] = {
        {.name = "detail",
         .flag = &with_details,
         .help = "in a table, with the details, such as stack traces"},
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

    char found[LIMIT_QUEUE_NAME + 1];
    struct json *story = NULL;
    struct call r;
    call_init(&r, cli);
    if (queue == NULL)
        code = story_find_queue(&r, id, found);
    if (code < 0)
        code = story_get(&r, queue != NULL ? queue : found, id, &story);
    if (code < 0)
        code = print(cli, story, with_details);
    json_free(story);
    call_release(&r);
    return code;
}
