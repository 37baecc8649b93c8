#include "cli/story.h"

#include "cli/out.h"
#include "cli/text.h"

#include <stdio.h>
#include <string.h>

int story_read_id(const struct cli *cli, const char *arg, int64_t *ret_id) {
    if (text_number(span_str(arg), 1, (int64_t)LIMIT_ID, ret_id) != OK)
        return cli_usage_error(cli, "%s: not an id (a whole number, 1 or more)", arg);
    return -1;
}

/* Runs the GET that was begun; the reply is the caller's. The queue's name may be the server's. */
static int take(struct call *r, const char *queue, int64_t id, struct json **ret) {
    struct buf what;
    buf_init(&what, TEXT_BYTES_MAX);
    if (queue != NULL) {
        text_escape(span_str(queue), TEXT_ONE_LINE, &what);
        buf_add_byte(&what, ' ');
    }
    buf_printf(&what, "%lld", (long long)id);
    buf_add_byte(&what, '\0');
    call_run(r, "GET", 0);
    int code = call_check(r, (const char *)what.p);
    buf_release(&what);
    if (code < 0) {
        *ret = r->reply;
        r->reply = NULL;
    }
    return code;
}

int story_get_message(struct call *r, const char *queue, int64_t id, struct json **ret_message) {
    if (queue != NULL)
        call_begin_queue(r, queue);
    else
        call_begin(r);
    buf_printf(&r->path, "/messages/%lld", (long long)id);
    return take(r, queue, id, ret_message);
}

int story_queue_of(const struct cli *cli, const struct json *message,
                   char ret_queue[static LIMIT_QUEUE_NAME + 1]) {
    struct span name = call_text(message, "queue");
    if (name.n == 0 || name.n > LIMIT_QUEUE_NAME || memchr(name.p, '\0', name.n) != NULL) {
        cli_error(cli, "%lld: the server does not say in which queue it is",
                  (long long)call_number(message, "id", 0));
        return CLI_FAILED;
    }
    (void)snprintf(ret_queue, LIMIT_QUEUE_NAME + 1, "%.*s", (int)name.n, (const char *)name.p);
    return -1;
}

int story_find_queue(struct call *r, int64_t id, char ret_queue[static LIMIT_QUEUE_NAME + 1]) {
    struct json *message = NULL;
    int code = story_get_message(r, NULL, id, &message);
    if (code < 0)
        code = story_queue_of(r->cli, message, ret_queue);
    json_free(message);
    return code;
}

int story_get(struct call *r, const char *queue, int64_t id, struct json **ret_story) {
    call_begin_queue(r, queue);
    buf_printf(&r->path, "/messages/%lld/attempts", (long long)id);
    return take(r, queue, id, ret_story);
}

const struct json *story_lines(const struct json *story) {
    const struct json *lines = json_get(story, "attempts");
    return json_is(lines, JSON_ARRAY) ? lines : NULL;
}

const char *story_who(const struct json *line) {
    return json_get(line, "actor") != NULL ? "actor" : "worker";
}

void story_print_details(const struct json *lines) {
    char title[64];
    for (size_t i = 0; i < json_count(lines); i++) {
        const struct json *line = json_at(lines, i);
        struct span detail = call_text(line, "detail");
        if (detail.n == 0)
            continue;
        (void)snprintf(title, sizeof title,
                       "Detail of attempt %lld:", (long long)call_number(line, "attempt", 0));
        out_line(span_str(""));
        out_line(span_str(title));
        out_lines(detail, 0);
    }
}
