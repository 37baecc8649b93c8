#include "http/front.h"
#include "http/query.h"
#include "http/view.h"

#include "model/fingerprint.h"

#include <assert.h>

/* What an entry is about: a group by its key, all else by its number. */
static void put_target(struct json_writer *w, const struct audit_entry *entry) {
    json_name(w, "target");
    if (entry->target == 0) {
        json_put_null(w);
    } else if (entry->action == AUDIT_GROUP) {
        char key[GROUP_KEY_SIZE];
        group_key_write(entry->target, key);
        json_put_str(w, key);
    } else {
        char text[24];
        struct buf number = {.p = (uint8_t *)text, .cap = sizeof text, .max = sizeof text};
        buf_add_u64(&number, entry->target);
        json_put_string(w, buf_span(&number));
    }
}

static void put_entry(const struct audit_entry *entry, struct json_writer *w) {
    json_begin(w, '{');
    view_number(w, "number", entry->number);
    view_time(w, "at", entry->at);
    view_text(w, "actor", entry->actor);
    view_str(w, "action", audit_action_name(entry->action));
    view_text_or_null(w, "queue", entry->queue);
    view_text_or_null(w, "scope", entry->scope);
    put_target(w, entry);
    view_number(w, "count", entry->count);
    view_text_or_null(w, "reason", entry->reason);
    view_text_or_null(w, "result", entry->result);
    json_end(w, '}');
}

static int read_action(struct span value, struct field_errors *errors) {
    if (value.p == NULL)
        return 0;
    int action = audit_action_parse(value);
    if (action > 0)
        return action;
    field_error_add(errors, "", "action", "out_of_range", "is no action of the audit");
    return 0;
}

static struct audit_query read_query(struct call *c) {
    static const char *const names[] = {"after", "before", "limit",  "order",
                                        "queue", "actor",  "action", NULL};
    static const char *const orders[] = {"oldest", "newest", NULL};
    struct span values[7];
    struct field_errors *errors = &c->http->errors;
    query_read(c->request->query, names, values, &c->http->scratch, errors);
    struct audit_query q = {
        .after = parameter_number(values[0], "after", 0, LIMIT_ID, 0, errors),
        .before = parameter_number(values[1], "before", 1, LIMIT_ID, 0, errors),
        .limit = parameter_number(values[2], "limit", 1, LIMIT_BATCH, 100, errors),
        .newest_first = parameter_choice(values[3], "order", orders, errors) == 1,
        .queue = parameter_text(values[4], "queue", LIMIT_QUEUE_NAME, errors),
        .actor = parameter_text(values[5], "actor", LIMIT_ACTOR, errors),
        .action = read_action(values[6], errors),
    };
    if (q.before != 0 && !q.newest_first)
        field_error_add(errors, "", "before", "not_allowed", "is for order=newest");
    if (values[0].p != NULL && q.newest_first)
        field_error_add(errors, "", "after", "not_allowed", "is for order=oldest");
    return q;
}

/* -- as one object, or a line each ----------------------------------------------------------- */

struct page {
    struct json_writer w;
    uint64_t count;
};

static void put_item(void *ctx, const struct audit_entry *entry) {
    struct page *page = ctx;
    put_entry(entry, &page->w);
    page->count++;
}

static void put_line(void *ctx, const struct audit_entry *entry) {
    struct buf *out = ctx;
    struct json_writer w;
    json_writer_init(&w, out);
    put_entry(entry, &w);
    buf_add_byte(out, '\n');
}

static void reply_object(struct call *c, const struct audit_query *query) {
    struct page page = {0};
    struct json_writer *w = &page.w;
    uint64_t next = 0;
    json_writer_init(w, c->reply.body);
    json_begin(w, '{');
    json_name(w, "entries");
    json_begin(w, '[');
    engine_audit(call_engine(c), query, put_item, &page, &next);
    json_end(w, ']');
    view_number(w, "count", page.count);
    view_number_or_null(w, "next", next);
    json_end(w, '}');
}

void handle_audit(struct call *c) {
    const struct audit_query query = read_query(c);
    if (!call_is_valid(c))
        return;
    if (!c->request->wants_ndjson) {
        reply_object(c, &query);
        return;
    }
    c->reply.content_type = "application/x-ndjson";
    engine_audit(call_engine(c), &query, put_line, c->reply.body, &c->reply.next);
}
