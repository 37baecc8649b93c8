#include "http/front.h"
#include "http/query.h"
#include "http/view.h"

#include "model/fingerprint.h"

/* -- as shown -------------------------------------------------------------------------------- */

static void put_versions(struct json_writer *w, const struct group_view *g) {
    json_name(w, "versions");
    json_begin(w, '[');
    for (size_t i = 0; i < g->version_count; i++) {
        json_begin(w, '{');
        view_text(w, "version", g->versions[i].name);
        view_number(w, "count", g->versions[i].count);
        view_number(w, "total", g->versions[i].total);
        json_end(w, '}');
    }
    json_end(w, ']');
}

/* How it stands with the people who care for it. */
static void put_state(struct json_writer *w, const struct group_view *g) {
    view_str(w, "state", group_state_name(g->state));
    view_time_or_null(w, "state_at", g->state_at);
    view_text_or_null(w, "owner", g->owner);
    view_text_or_null(w, "note", g->note);
    view_time_or_null(w, "regressed_at", g->regressed_at);
    json_name(w, "quiet_seconds");
    if (g->regressed_at != 0)
        json_put_i64(w, g->quiet_ms / 1000);
    else
        json_put_null(w);
}

static void put_group(const struct group_view *g, struct json_writer *w) {
    char key[GROUP_KEY_SIZE];
    group_key_write(g->key, key);
    json_begin(w, '{');
    view_str(w, "key", key);
    view_text(w, "queue", g->queue);
    view_text(w, "title", g->title);
    view_text_or_null(w, "error_class", g->error_class);
    view_str(w, "reason", reason_name(g->reason));
    view_number(w, "count", g->count);
    view_number(w, "open", g->open);
    view_number(w, "total", g->total);
    view_number(w, "last_hour", g->hour);
    view_number(w, "last_day", g->day);
    view_time(w, "first_seen", g->first_seen);
    view_time(w, "last_seen", g->last_seen);
    put_versions(w, g);
    put_state(w, g);
    view_number_or_null(w, "newest_id", g->newest);
    view_number_or_null(w, "oldest_id", g->oldest);
    json_end(w, '}');
}

/* -- one ------------------------------------------------------------------------------------- */

/* The key of the path; false when the reply is set. */
static bool read_key(struct call *c, uint64_t *ret_key) {
    if (group_key_parse(c->key, ret_key))
        return true;
    reply_error(&c->reply, ERR_NO_GROUP);
    return false;
}

static void reply_group(struct call *c, uint64_t key) {
    struct group_view g;
    enum err e = engine_group(call_engine(c), c->now, key, &g);
    if (e != OK) {
        reply_error(&c->reply, e);
        return;
    }
    struct json_writer w;
    json_writer_init(&w, c->reply.body);
    put_group(&g, &w);
}

void handle_group(struct call *c) {
    uint64_t key;
    if (read_key(c, &key))
        reply_group(c, key);
}

/* Text, or null for none; true when it is given. */
static bool read_text(const struct fields *f, const char *name, size_t most,
                      struct span *ret_text) {
    const struct json *v = json_get(f->object, name);
    *ret_text = v == NULL || json_is(v, JSON_NULL) ? span_of(NULL, 0) : field_string(f, name, most);
    return v != NULL;
}

static struct group_change read_change(const struct json *v, struct field_errors *errors,
                                       struct span *ret_reason) {
    static const char *const names[] = {"state", "owner", "note", "reason", NULL};
    const char *states[GROUP_STATE_COUNT + 1] = {NULL};
    for (int i = 0; i < GROUP_STATE_COUNT; i++)
        states[i] = group_state_name((enum group_state)i);

    const struct fields f = {.object = v, .prefix = "", .errors = errors};
    struct group_change change = {0};
    if (!json_is(v, JSON_OBJECT)) {
        field_error_add(errors, "", "body", "wrong_type", "must be an object");
        return change;
    }
    fields_known(&f, names);
    change.has_state = json_get(v, "state") != NULL;
    change.state = (enum group_state)field_choice(&f, "state", states, GROUP_OPEN);
    change.has_owner = read_text(&f, "owner", LIMIT_OWNER, &change.owner);
    change.has_note = read_text(&f, "note", LIMIT_NOTE, &change.note);
    *ret_reason = field_string(&f, "reason", LIMIT_AUDIT_REASON);
    if (!change.has_state && !change.has_owner && !change.has_note)
        field_error_add(errors, "", "state", "required", "is required, or owner, or note");
    return change;
}

void handle_group_change(struct call *c) {
    uint64_t key;
    struct json *json;
    if (!read_key(c, &key) || !call_body(c, true, &json))
        return;
    struct act act = {0};
    const struct group_change change = read_change(json, &c->http->errors, &act.reason);
    if (call_actor(c, &act.actor) && call_is_valid(c)) {
        enum err e = engine_group_change(call_engine(c), c->now, key, &change, &act);
        if (e == OK)
            reply_group(c, key);
        else
            reply_error(&c->reply, e);
    }
    json_free(json);
}

/* -- many ------------------------------------------------------------------------------------ */

struct page {
    struct json_writer w;
    uint64_t count;
};

static void put_item(void *ctx, const struct group_view *g) {
    struct page *page = ctx;
    put_group(g, &page->w);
    page->count++;
}

static void reply_groups(struct call *c, const struct group_query *query) {
    struct page page = {0};
    struct json_writer *w = &page.w;
    uint64_t total = 0;
    json_writer_init(w, c->reply.body);
    json_begin(w, '{');
    json_name(w, "groups");
    json_begin(w, '[');
    engine_groups(call_engine(c), c->now, query, put_item, &page, &total);
    json_end(w, ']');
    view_number(w, "count", page.count);
    view_number(w, "total", total);
    json_end(w, '}');
}

void handle_groups(struct call *c) {
    static const char *const names[] = {"q", "sort", "limit", "offset", "all", NULL};
    static const char *const orders[] = {
        [GROUPS_BY_LAST_SEEN] = "last_seen",
        [GROUPS_BY_COUNT] = "count",
        [GROUPS_BY_FIRST_SEEN] = "first_seen",
        [GROUPS_BY_TITLE] = "title",
        NULL,
    };
    struct span values[5];
    struct field_errors *errors = &c->http->errors;
    query_read(c->request->query, names, values, &c->http->scratch, errors);
    struct group_query query = {
        .order = (enum group_order)parameter_choice(values[1], "sort", orders, errors),
        .limit = parameter_number(values[2], "limit", 1, LIMIT_BATCH, 100, errors),
        .offset = parameter_number(values[3], "offset", 0, LIMIT_OFFSET, 0, errors),
        .with_empty = parameter_flag(values[4], "all", errors),
    };
    struct filter *filter = NULL;
    if (values[0].n > 0)
        filter = call_filter(c, values[0], "q", FILTER_GROUPS);
    query.filter = filter;
    if (call_is_valid(c))
        reply_groups(c, &query);
    filter_free(filter);
}
