/* nixie diff: two attempts of a message, or two messages: fields side by side, texts line by
 * line. */
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/line_diff.h"
#include "cli/options.h"
#include "cli/out.h"
#include "cli/story.h"
#include "cli/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* SIDE_BY_SIDE: bytes of the longest text in the table; NESTED_MAX: levels of members that are
 * compared one by one. */
enum { SIDE_BY_SIDE = 48, NESTED_MAX = 3, NAME_MAX_BYTES = 64 };

struct side {
    int64_t id, attempt; /* attempt -1: not given */
    char title[NAME_MAX_BYTES];
    struct json *message, *story;
    const struct json *subject; /* the message, or a line of the story */
};

/* -- which two ------------------------------------------------------------------------------- */

static int read_attempt(const struct cli *cli, const char *arg, int64_t *ret) {
    if (text_number(span_str(arg), 0, LIMIT_DELIVERIES, ret) != OK)
        return cli_usage_error(cli, "%s: not the number of an attempt", arg);
    return -1;
}

/* "42" or "42@3" */
static int read_side(const struct cli *cli, const char *arg, struct side *s) {
    char id[NAME_MAX_BYTES];
    const char *at = strchr(arg, '@');
    int n = at != NULL ? (int)(at - arg) : (int)strlen(arg);
    if (n >= NAME_MAX_BYTES)
        return cli_usage_error(cli, "%s: not an id (a whole number, 1 or more)", arg);
    (void)snprintf(id, sizeof id, "%.*s", n, arg);
    int code = story_read_id(cli, id, &s->id);
    if (code < 0 && at != NULL)
        code = read_attempt(cli, at + 1, &s->attempt);
    return code;
}

static int read_sides(const struct cli *cli, int n, char **args, struct side sides[static 2]) {
    sides[0].attempt = sides[1].attempt = -1;
    int code = read_side(cli, args[0], &sides[0]);
    if (n == 2)
        return code < 0 ? read_side(cli, args[1], &sides[1]) : code;
    if (code < 0 && sides[0].attempt >= 0)
        return cli_usage_error(cli, "%s: ID@ATTEMPT, or ID ATTEMPT ATTEMPT", args[0]);
    sides[1].id = sides[0].id;
    for (int i = 0; i < 2 && code < 0; i++)
        code = read_attempt(cli, args[1 + i], &sides[i].attempt);
    return code;
}

/* True for what a worker or the server made of an attempt, not for what people and jobs did. */
static bool is_outcome(const struct json *line) {
    static const char *const names[] = {"claimed",  "failed",  "lease_expired",
                                        "released", "expired", "succeeded"};
    struct span event = call_text(line, "event");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (span_equal_str(event, names[i]))
            return true;
    }
    return false;
}

/* The last word on an attempt. */
static const struct json *find_attempt(const struct json *lines, int64_t attempt) {
    const struct json *found = NULL;
    for (size_t i = 0; i < json_count(lines); i++) {
        const struct json *line = json_at(lines, i);
        if (call_number(line, "attempt", -1) == attempt && is_outcome(line))
            found = line;
    }
    return found;
}

static int get_attempt(struct call *r, const char *queue, struct side *s) {
    if (s->attempt < 0)
        s->attempt = call_number(s->message, "deliveries", 0);
    int code = story_get(r, queue, s->id, &s->story);
    if (code >= 0)
        return code;
    s->subject = find_attempt(story_lines(s->story), s->attempt);
    if (s->subject != NULL)
        return -1;
    int64_t total = call_number(s->story, "attempts_total", 0);
    if (s->attempt >= 1 && s->attempt <= total)
        cli_error(r->cli, "attempt %lld of %lld has no line: the first %d and the last %d are kept",
                  (long long)s->attempt, (long long)s->id, LIMIT_ATTEMPTS_FIRST,
                  LIMIT_ATTEMPTS_LAST);
    else
        cli_error(r->cli, "%lld has no attempt %lld: there were %lld", (long long)s->id,
                  (long long)s->attempt, (long long)total);
    return CLI_NOT_FOUND;
}

static int get_side(struct call *r, struct side *s, bool by_attempts) {
    char queue[LIMIT_QUEUE_NAME + 1];
    int code = story_get_message(r, NULL, s->id, &s->message);
    if (code < 0)
        code = story_queue_of(r->cli, s->message, queue);
    if (code >= 0)
        return code;
    s->subject = s->message;
    if (by_attempts)
        code = get_attempt(r, queue, s);
    if (by_attempts)
        (void)snprintf(s->title, sizeof s->title, "%lld@%lld", (long long)s->id,
                       (long long)s->attempt);
    else
        (void)snprintf(s->title, sizeof s->title, "%lld", (long long)s->id);
    return code;
}

static void release_side(struct side *s) {
    json_free(s->message);
    json_free(s->story);
}

/* -- facts: the members of both, and of their members ---------------------------------------- */

struct fact {
    char *name; /* "death.worker" */
    const struct json *values[2];
};

struct facts {
    struct fact *items;
    size_t n, cap;
};

static struct fact *fact_named(struct facts *f, const char *name) {
    for (size_t i = 0; i < f->n; i++) {
        if (strcmp(f->items[i].name, name) == 0)
            return &f->items[i];
    }
    if (f->n == f->cap) {
        f->cap = f->cap == 0 ? 64 : 2 * f->cap;
        f->items = mem_grow(f->items, f->cap * sizeof f->items[0]);
    }
    f->items[f->n] = (struct fact){.name = mem_strdup(name)};
    return &f->items[f->n++];
}

static void facts_release(struct facts *f) {
    for (size_t i = 0; i < f->n; i++)
        free(f->items[i].name);
    free(f->items);
}

/* What tells them apart anyway, or is said twice. */
static bool is_passed_over(const char *name) {
    static const char *const names[] = {"id",
                                        "attempt",
                                        "updated_at",
                                        "generation",
                                        "death.dead_seq",
                                        "death.died_at",
                                        "death.first_enqueued_at",
                                        "death.redrive_count",
                                        "death.origin.id",
                                        "death.origin.queue"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0)
            return true;
    }
    return false;
}

struct walk {
    struct facts *facts;
    const char *prefix; /* "" or "death." */
    int side, depth;
};

static bool take_member(void *ctx, const char *name, const struct json *member) {
    const struct walk *walk = ctx;
    struct buf full;
    buf_init(&full, TEXT_BYTES_MAX);
    buf_printf(&full, "%s%s", walk->prefix, name);
    buf_add_byte(&full, '\0');
    if (json_is(member, JSON_OBJECT) && walk->depth < NESTED_MAX) {
        full.p[full.n - 1] = '.';
        buf_add_byte(&full, '\0');
        struct walk inner = {.facts = walk->facts,
                             .prefix = (const char *)full.p,
                             .side = walk->side,
                             .depth = walk->depth + 1};
        (void)json_each(member, take_member, &inner);
    } else if (!is_passed_over((const char *)full.p)) {
        fact_named(walk->facts, (const char *)full.p)->values[walk->side] = member;
    }
    buf_release(&full);
    return true;
}

static void facts_collect(struct facts *f, const struct side sides[static 2]) {
    for (int i = 0; i < 2; i++) {
        struct walk walk = {.facts = f, .prefix = "", .side = i, .depth = 1};
        (void)json_each(sides[i].subject, take_member, &walk);
    }
}

static bool is_same(const struct json *a, const struct json *b) {
    if (a == NULL || b == NULL)
        return a == b;
    struct buf text_a, text_b;
    buf_init(&text_a, TEXT_BYTES_MAX);
    buf_init(&text_b, TEXT_BYTES_MAX);
    json_dump(a, &text_a);
    json_dump(b, &text_b);
    bool same = span_equal(buf_span(&text_a), buf_span(&text_b));
    buf_release(&text_a);
    buf_release(&text_b);
    return same;
}

/* -- showing --------------------------------------------------------------------------------- */

static struct span text_of(const struct json *v) {
    return json_is(v, JSON_STRING) ? json_string(v) : span_str("");
}

static bool is_long(const struct json *v) {
    struct span text = text_of(v);
    return text.n > SIDE_BY_SIDE || (text.n > 0 && memchr(text.p, '\n', text.n) != NULL);
}

/* A text over lines of its own: neither side is a value of another kind, one is long. */
static bool is_text(const struct fact *f) {
    for (int i = 0; i < 2; i++) {
        const struct json *v = f->values[i];
        if (v != NULL && !json_is(v, JSON_STRING) && !json_is(v, JSON_NULL))
            return false;
    }
    return is_long(f->values[0]) || is_long(f->values[1]);
}

/* Appends a text as it is compared: JSON in lines of its own, all else as it is. */
static void add_lines(struct span text, struct buf *out) {
    struct json_error ignored;
    struct json *v = json_parse(text, &ignored);
    if (json_is(v, JSON_OBJECT) || json_is(v, JSON_ARRAY)) {
        struct buf compact;
        buf_init(&compact, TEXT_BYTES_MAX);
        json_dump(v, &compact);
        text_add_json(buf_span(&compact), true, 0, out);
        buf_add_byte(out, '\n');
        buf_release(&compact);
    } else {
        buf_add_span(out, text);
    }
    json_free(v);
}

static void print_text(const struct fact *f) {
    struct buf a, b, diff;
    struct span left = text_of(f->values[0]), right = text_of(f->values[1]);
    buf_init(&a, TEXT_BYTES_MAX);
    buf_init(&b, TEXT_BYTES_MAX);
    buf_init(&diff, TEXT_BYTES_MAX);
    add_lines(left, &a);
    add_lines(right, &b);
    bool is_layout = span_equal(buf_span(&a), buf_span(&b)); /* of the same JSON */
    line_diff(is_layout ? left : buf_span(&a), is_layout ? right : buf_span(&b), &diff);
    out_line(span_str(""));
    out_line(span_str(f->name));
    out_lines(buf_span(&diff), 0);
    buf_release(&a);
    buf_release(&b);
    buf_release(&diff);
}

static void add_row(struct out *o, const struct json *item) {
    out_cell_member(o, item, "field");
    out_cell_member(o, item, "left");
    out_cell_member(o, item, "right");
}

/* {"field": "worker", "left": "w1", "right": "w2"}; a side that has none is left out. */
static void print_fact(struct out *o, const struct fact *f) {
    static const char *const names[] = {"left", "right"};
    struct buf text, value;
    struct json_writer w;
    struct json_error ignored;
    buf_init(&text, TEXT_BYTES_MAX);
    buf_init(&value, TEXT_BYTES_MAX);
    json_writer_init(&w, &text);
    json_begin(&w, '{');
    json_name(&w, "field");
    json_put_str(&w, f->name);
    for (int i = 0; i < 2; i++) {
        if (f->values[i] == NULL)
            continue;
        buf_clear(&value);
        json_dump(f->values[i], &value);
        json_name(&w, names[i]);
        json_put_raw(&w, buf_span(&value));
    }
    json_end(&w, '}');
    struct json *item = json_parse(buf_span(&text), &ignored);
    out_item(o, item);
    json_free(item);
    buf_release(&text);
    buf_release(&value);
}

static int print(const struct cli *cli, const struct facts *facts,
                 const struct side sides[static 2]) {
    const struct column columns[] = {
        {.title = "FIELD", .width_max = 32},
        {.title = sides[0].title, .width_max = SIDE_BY_SIDE},
        {.title = sides[1].title, .width_max = SIDE_BY_SIDE},
    };
    struct out o;
    size_t differences = 0;
    bool is_table = cli->format == FORMAT_TABLE;
    out_init(&o, cli, true, columns, sizeof columns / sizeof columns[0], add_row);
    for (size_t i = 0; i < facts->n; i++) {
        const struct fact *f = &facts->items[i];
        if (is_same(f->values[0], f->values[1]))
            continue;
        differences++;
        if (!is_table || !is_text(f))
            print_fact(&o, f);
    }
    if (is_table)
        out_flush(&o);
    for (size_t i = 0; is_table && i < facts->n; i++) {
        const struct fact *f = &facts->items[i];
        if (is_text(f) && !is_same(f->values[0], f->values[1]))
            print_text(f);
    }
    if (differences == 0)
        cli_note(cli, "%s and %s are the same in all that is compared", sides[0].title,
                 sides[1].title);
    return out_finish(&o, CLI_DONE);
}

int command_diff(struct cli *cli, int argc, char **argv) {
    struct side sides[2] = {{.id = 0}};
    const struct option_spec specs[] = {OPTION_END};
    int first;
    int code = options_parse(cli, specs, argc, argv, &first);
    if (code < 0)
        code = read_sides(cli, argc - first, argv + first, sides);
    if (code >= 0)
        return code;
    bool by_attempts = sides[0].attempt >= 0 || sides[1].attempt >= 0;
    struct call r;
    call_init(&r, cli);
    for (int i = 0; i < 2 && code < 0; i++)
        code = get_side(&r, &sides[i], by_attempts);
    if (code < 0) {
        struct facts facts = {.n = 0};
        facts_collect(&facts, sides);
        code = print(cli, &facts, sides);
        facts_release(&facts);
    }
    release_side(&sides[0]);
    release_side(&sides[1]);
    call_release(&r);
    return code;
}
