#include "cli/queue_walk.h"

#include "cli/input.h"

#include <stdio.h>
#include <string.h>

enum { PAGE = 1000 };

/* One page after the queue of that name, which becomes its last; *ret_more: there may be more. */
static int walk_page(struct call *r, char after[static LIMIT_QUEUE_NAME + 1],
                     bool (*f)(void *ctx, const struct json *queue), void *ctx, bool *ret_more) {
    call_begin(r);
    buf_add_str(&r->path, "/queues");
    call_query_number(r, "limit", PAGE);
    if (after[0] != '\0')
        call_query(r, "after", after);
    call_run(r, "GET", 0);
    int code = call_check(r, NULL);
    if (code >= 0)
        return code;
    const struct json *queues = json_get(r->reply, "queues");
    size_t n = json_is(queues, JSON_ARRAY) ? json_count(queues) : 0;
    bool goes_on = true;
    for (size_t i = 0; i < n && goes_on; i++)
        goes_on = f(ctx, json_at(queues, i));
    *ret_more = goes_on && n >= PAGE;
    if (!*ret_more)
        return -1;
    struct span last = call_text(json_at(queues, n - 1), "queue");
    if (last.n == 0 || last.n > LIMIT_QUEUE_NAME || span_equal_str(last, after)) {
        cli_error(r->cli, "the server's list of queues does not go on");
        return CLI_FAILED;
    }
    memcpy(after, last.p, last.n);
    after[last.n] = '\0';
    return -1;
}

int queue_walk(struct call *r, bool (*f)(void *ctx, const struct json *queue), void *ctx) {
    char after[LIMIT_QUEUE_NAME + 1] = "";
    bool has_more = true;
    int code = -1;
    while (code < 0 && has_more)
        code = walk_page(r, after, f, ctx, &has_more);
    return code;
}

int queue_walk_named(struct call *r, char **names, int n,
                     bool (*f)(void *ctx, const struct json *queue), void *ctx) {
    int code = -1;
    for (int i = 0; i < n && code < 0; i++)
        code = input_check_queue(r->cli, names[i]);
    for (int i = 0; i < n && code < 0; i++) {
        call_begin_queue(r, names[i]);
        call_run(r, "GET", 0);
        code = call_check(r, names[i]);
        if (code < 0 && !f(ctx, r->reply))
            break;
    }
    return code;
}
