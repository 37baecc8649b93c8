#include "cli/letters.h"

#include <string.h>

/* Something that may stand in a message to a person, and in a shell's command line. */
static bool is_cursor(struct span text) {
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] <= ' ' || text.p[i] >= 0x7f)
            return false;
    }
    return text.n > 0 && text.n <= LETTERS_CURSOR_MAX;
}

/* Takes over where the next page begins; false when the reply does not say, or says the same
 * again. */
static bool move_on(struct letters *l, const struct json *reply) {
    const struct json *next = json_get(reply, "next"), *complete = json_get(reply, "complete");
    l->is_last = next == NULL || json_is(next, JSON_NULL);
    l->is_complete = json_is(complete, JSON_BOOL) && json_bool(complete);
    l->looked_at = call_number(reply, "looked_at", 0);
    if (l->is_last)
        return true;
    if (!json_is(next, JSON_STRING) || !is_cursor(json_string(next)) ||
        span_equal_str(json_string(next), l->cursor))
        return false;
    memcpy(l->cursor, json_string(next).p, json_string(next).n);
    l->cursor[json_string(next).n] = '\0';
    return true;
}

int letters_next(struct letters *l, struct call *r, int64_t limit,
                 const struct json **ret_letters) {
    call_begin(r);
    buf_add_str(&r->path, "/dead");
    scope_add_query(l->scope, r);
    call_query_number(r, "limit", limit);
    if (l->is_oldest_first)
        call_query(r, "order", "oldest");
    if (!l->has_payload)
        call_query(r, "payload", "no");
    if (l->is_exact) {
        call_query(r, "attempts", "yes");
        call_query(r, "exact", "yes");
    }
    if (l->cursor[0] != '\0')
        call_query(r, "cursor", l->cursor);
    call_run(r, "GET", 0);
    int code = scope_check(l->scope, r, l->scope->queue);
    if (code >= 0)
        return code;
    const struct json *letters = json_get(r->reply, "letters");
    if (!json_is(letters, JSON_ARRAY) || !move_on(l, r->reply)) {
        cli_error(r->cli, "the server's list of dead letters does not go on");
        return CLI_FAILED;
    }
    *ret_letters = letters;
    return -1;
}

int letters_check_queue(struct call *r, const char *queue) {
    call_begin_queue(r, queue);
    call_run(r, "GET", 0);
    return call_check(r, queue);
}

const struct json *letter_death(const struct json *letter, const char *name) {
    return json_get(json_get(letter, "death"), name);
}
