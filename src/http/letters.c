#include "http/front.h"
#include "http/letters_body.h"
#include "http/query.h"
#include "http/story.h"
#include "http/view.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

/* -- finding --------------------------------------------------------------------------------- */

struct search {
    struct letter_query query;
    struct filter *filter; /* owned; NULL = all */
    unsigned flags;        /* of view.h */
    bool with_attempts;
};

/* "DIEDATMS-SEQ"; false when it is no such place. */
static bool cursor_parse(struct span text, struct letter_place *ret_place) {
    const uint8_t *dash = text.n > 0 ? memchr(text.p, '-', text.n) : NULL;
    if (dash == NULL)
        return false;
    size_t n = (size_t)(dash - text.p);
    uint64_t died_at, dead_seq;
    if (!number_parse(span_of(text.p, n), INT64_MAX, &died_at) ||
        !number_parse(span_of(dash + 1, text.n - n - 1), UINT64_MAX, &dead_seq))
        return false;
    *ret_place = (struct letter_place){.died_at = (int64_t)died_at, .dead_seq = dead_seq};
    return true;
}

static void cursor_write(const struct letter_place *place, struct json_writer *w) {
    char text[48];
    struct buf cursor = {.p = (uint8_t *)text, .cap = sizeof text, .max = sizeof text};
    buf_add_i64(&cursor, place->died_at);
    buf_add_byte(&cursor, '-');
    buf_add_u64(&cursor, place->dead_seq);
    json_put_string(w, buf_span(&cursor));
}

/* yes, where it is not said */
static bool read_payload_flag(struct span value, struct field_errors *errors) {
    return value.p == NULL || parameter_flag(value, "payload", errors);
}

static struct search read_search(struct call *c) {
    static const char *const names[] = {"q",       "queue",    "limit", "cursor", "order",
                                        "payload", "attempts", "exact", NULL};
    static const char *const orders[] = {"newest", "oldest", NULL};
    struct span values[8];
    struct field_errors *errors = &c->http->errors;
    query_read(c->request->query, names, values, &c->http->scratch, errors);
    struct search s = {
        .query =
            {
                .queue = parameter_text(values[1], "queue", LIMIT_QUEUE_NAME, errors),
                .limit = parameter_number(values[2], "limit", 1, LIMIT_BATCH, 100, errors),
                .oldest_first = parameter_choice(values[4], "order", orders, errors) == 1,
                .has_after = values[3].n > 0,
            },
        .flags = read_payload_flag(values[5], errors) ? 0 : VIEW_NO_PAYLOAD,
        .with_attempts = parameter_flag(values[6], "attempts", errors),
    };
    if (parameter_flag(values[7], "exact", errors))
        s.flags |= VIEW_EXACT;
    if (s.query.has_after && !cursor_parse(values[3], &s.query.after))
        field_error_add(errors, "", "cursor", "out_of_range", "must be the `next` of a page");
    if (values[0].n > 0)
        s.filter = call_filter(c, values[0], "q", FILTER_LETTERS);
    s.query.filter = s.filter;
    return s;
}

/* Asks for the story after the message was written: that ends what is known of it. */
static void put_letter(struct call *c, const struct search *s, const struct message_view *m,
                       struct json_writer *w) {
    struct engine *engine = call_engine(c);
    const uint64_t id = m->id, total = m->deliveries;
    char name[LIMIT_QUEUE_NAME];
    const struct span queue = span_of(name, m->queue.n);
    memcpy(name, m->queue.p, m->queue.n);

    json_begin(w, '{');
    view_message_members(m, s->flags, c->now, w);
    if (s->with_attempts) {
        uint64_t count;
        uint32_t omitted = 0;
        json_name(w, "attempts");
        enum err e = story_write(engine, queue, id, s->flags, w, &count, &omitted);
        assert(e == OK);
        view_number(w, "attempts_total", total);
        view_number(w, "attempts_omitted", omitted);
    }
    json_end(w, '}');
}

/* Writes the letters of a page that fit a reply; the page then ends with the last of them. */
static size_t put_letters(struct call *c, const struct search *s, struct letter_page *page,
                          struct json_writer *w) {
    size_t count = 0;
    while (count < page->n && w->out->n <= LIMIT_REPLY) {
        struct message_view m;
        enum err e = engine_letter(call_engine(c), c->http->ids[count], &m);
        assert(e == OK); /* it was found a moment ago */
        const struct letter_place place = {.died_at = m.died_at, .dead_seq = m.dead_seq};
        put_letter(c, s, &m, w);
        if (++count < page->n && w->out->n > LIMIT_REPLY) {
            page->next = place;
            page->is_last = false;
            page->is_complete = true;
        }
    }
    return count;
}

static void reply_page(struct call *c, const struct search *s) {
    struct letter_page page = {0};
    struct json_writer w;
    json_writer_init(&w, c->reply.body);
    engine_letters(call_engine(c), c->now, &s->query, c->http->ids, &page);
    json_begin(&w, '{');
    json_name(&w, "letters");
    json_begin(&w, '[');
    size_t count = put_letters(c, s, &page, &w);
    json_end(&w, ']');
    view_number(&w, "count", count);
    json_name(&w, "next");
    if (page.is_last)
        json_put_null(&w);
    else
        cursor_write(&page.next, &w);
    view_flag(&w, "complete", page.is_complete);
    view_number(&w, "looked_at", page.looked_at);
    json_end(&w, '}');
}

void handle_dead(struct call *c) {
    struct search s = read_search(c);
    if (call_is_valid(c))
        reply_page(c, &s);
    filter_free(s.filter);
}

/* -- taking in ------------------------------------------------------------------------------- */

static void reply_imported(struct call *c, const struct letters_body *b) {
    size_t known = 0;
    for (size_t i = 0; i < b->count; i++)
        known += c->http->imported[i] == IMPORT_KNOWN ? 1 : 0;
    struct json_writer w;
    json_writer_init(&w, c->reply.body);
    json_begin(&w, '{');
    view_number(&w, "imported", b->count - known);
    view_number(&w, "known", known);
    json_end(&w, '}');
}

static void reply_taken(struct call *c, const struct letters_body *b) {
    size_t i = 0;
    while (i < b->count && c->http->imported[i] != IMPORT_ID_TAKEN)
        i++;
    if (i == b->count)
        reply_error(&c->reply, ERR_INVALID);
    else
        reply_problem(&c->reply, 409, "id taken",
                      "letters[%zu]: another message has the id %" PRIu64 "; nothing was imported",
                      i, b->items[i].id);
}

static void import(struct call *c, const struct letters_body *b, bool dry_run) {
    struct act act = {.reason = b->reason};
    if (!call_actor(c, &act.actor))
        return;
    enum err e = engine_import(call_engine(c), c->now, b->queue, b->items, b->count, dry_run, &act,
                               c->http->imported);
    if (e == OK)
        reply_imported(c, b);
    else if (e == ERR_INVALID)
        reply_taken(c, b);
    else
        reply_error(&c->reply, e);
}

void handle_dead_import(struct call *c) {
    static const char *const names[] = {"dry_run", NULL};
    struct field_errors *errors = &c->http->errors;
    struct span value;
    struct json *json;
    if (!call_body(c, true, &json))
        return;
    query_read(c->request->query, names, &value, &c->http->scratch, errors);
    bool dry_run = parameter_flag(value, "dry_run", errors);

    const struct server_limits *limits = &c->server->limits;
    struct letters_body *body = letters_body_new(limits->body_bytes_max);
    if (call_body_is_good(c, letters_body_read(body, json, limits->payload_bytes_max, errors)))
        import(c, body, dry_run);
    letters_body_free(body);
    json_free(json);
}
