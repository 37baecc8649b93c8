/* nixie group: one cause on one page, and what people say of it. */
#include "cli/call.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/options.h"
#include "cli/out.h"
#include "cli/text.h"

#include <stdio.h>
#include <string.h>

enum { KEY_BYTES_MAX = 64, KEYS_SHOWN = 10, IDS_SHOWN = 10 };

/* -- which ----------------------------------------------------------------------------------- */

/* Only characters that mean nothing in a filter, and nothing to a terminal. */
static bool is_key(const char *text) {
    size_t n = strspn(text, "0123456789abcdefghijklmnopqrstuvwxyz:");
    return n > 0 && n <= KEY_BYTES_MAX && text[n] == '\0';
}

static int check_key(const struct cli *cli, const char *key) {
    if (!is_key(key))
        return cli_usage_error(cli, "%s: not the key of a cause (such as v1:0123456789abcdef)",
                               key);
    return -1;
}

static int say_ambiguous(const struct cli *cli, const char *key, const struct json *groups) {
    struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    size_t n = json_count(groups);
    for (size_t i = 0; i < n && i < KEYS_SHOWN; i++) {
        buf_add_str(&text, i > 0 ? ", " : "");
        text_escape(call_text(json_at(groups, i), "key"), TEXT_ONE_LINE, &text);
    }
    cli_error(cli, "%s: several begin with it: %.*s%s", key, (int)text.n, (const char *)text.p,
              n > KEYS_SHOWN ? ", ..." : "");
    buf_release(&text);
    return CLI_USAGE;
}

/* Asks for the only group whose key begins with `key`: -1 when r's reply holds a list of it alone,
 * else the exit code. */
static int find_by_prefix(struct call *r, const char *key) {
    char filter[KEY_BYTES_MAX + 16];
    call_begin(r);
    buf_add_str(&r->path, "/groups");
    (void)snprintf(filter, sizeof filter, "group:%s*", key);
    call_query(r, "q", filter);
    call_query(r, "all", "yes");
    call_query_number(r, "limit", KEYS_SHOWN + 1);
    call_run(r, "GET", 0);
    int code = call_check(r, key);
    if (code >= 0)
        return code;
    const struct json *groups = json_get(r->reply, "groups");
    size_t n = json_is(groups, JSON_ARRAY) ? json_count(groups) : 0;
    if (n > 1)
        return say_ambiguous(r->cli, key, groups);
    if (n == 1)
        return -1;
    cli_error(r->cli, "%s: no cause has a key that begins so", key);
    return CLI_NOT_FOUND;
}

/* The whole key of the group that is meant. */
static int find_key(struct call *r, const char *key, char ret[static KEY_BYTES_MAX + 1]) {
    int code = find_by_prefix(r, key);
    if (code >= 0)
        return code;
    struct span found = call_text(json_at(json_get(r->reply, "groups"), 0), "key");
    (void)snprintf(ret, KEY_BYTES_MAX + 1, "%.*s", (int)found.n, (const char *)found.p);
    if (is_key(ret))
        return -1;
    cli_error(r->cli, "%s: the server's cause has no key", key);
    return CLI_FAILED;
}

static void begin(struct call *r, const char *key) {
    call_begin(r);
    buf_add_str(&r->path, "/groups/");
    text_add_segment(key, &r->path);
}

/* -- the page -------------------------------------------------------------------------------- */

struct page {
    const char *key;
    struct json *group;
    struct json *letters; /* reply with the newest ones; NULL: not asked for */
    struct json *newest;  /* the newest letter with its detail; NULL: there is none */
};

static uint64_t count_of(const struct json *v, const char *name) {
    int64_t count = call_number(v, name, 0);
    return count > 0 ? (uint64_t)count : 0;
}

static void print_text(const char *name, struct span text) {
    if (text.n > 0)
        out_fact(name, text);
}

static void print_counts(const struct json *group) {
    struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    text_add_grouped(count_of(group, "count"), &text);
    buf_add_str(&text, " dead, ");
    text_add_grouped(count_of(group, "open"), &text);
    buf_add_str(&text, " sent again and open");
    out_fact("letters", buf_span(&text));
    buf_clear(&text);
    text_add_grouped(count_of(group, "last_hour"), &text);
    buf_add_str(&text, " in the last hour, ");
    text_add_grouped(count_of(group, "last_day"), &text);
    buf_add_str(&text, " in the last day, ");
    text_add_grouped(count_of(group, "total"), &text);
    buf_add_str(&text, " since ever");
    out_fact("deaths", buf_span(&text));
    buf_release(&text);
}

static void print_state(const struct json *group) {
    struct buf text;
    struct span since = call_text(group, "state_at"), regressed = call_text(group, "regressed_at");
    /* Without a letter it shows as resolved, whatever was said of it last; state_at is of that. */
    bool is_empty = count_of(group, "count") + count_of(group, "open") == 0;
    buf_init(&text, TEXT_BYTES_MAX);
    buf_add_span(&text, call_text(group, "state"));
    if (is_empty)
        buf_add_str(&text, ": no letter is left");
    else if (since.n > 0)
        buf_printf(&text, ", since %.*s", (int)since.n, (const char *)since.p);
    out_fact("state", buf_span(&text));
    if (regressed.n > 0) {
        int64_t quiet_s = call_number(group, "quiet_seconds", -1);
        buf_clear(&text);
        buf_add_span(&text, regressed);
        if (quiet_s >= 0 && quiet_s < INT64_MAX / 1000) {
            buf_add_str(&text, ", after it had been quiet for ");
            text_add_duration(quiet_s * 1000, &text);
        }
        out_fact("regressed", buf_span(&text));
    }
    print_text("owner", call_text(group, "owner"));
    print_text("note", call_text(group, "note"));
    buf_release(&text);
}

static const struct column version_columns[] = {
    {.title = "DEAD", .is_right = true},
    {.title = "DEATHS", .is_right = true},
    {.title = "WORKER VERSION"},
};

static void add_version(struct out *o, const struct json *version) {
    out_cell_member(o, version, "count");
    out_cell_member(o, version, "total");
    out_cell_member(o, version, "version");
}

static void print_versions(const struct cli *cli, const struct json *versions) {
    struct out o;
    size_t n = json_is(versions, JSON_ARRAY) ? json_count(versions) : 0;
    if (n == 0)
        return;
    out_line(span_str(""));
    out_init(&o, cli, true, version_columns, sizeof version_columns / sizeof version_columns[0],
             add_version);
    for (size_t i = 0; i < n; i++)
        out_item(&o, json_at(versions, i));
    (void)out_finish(&o, CLI_DONE); /* whoever prints the page checks standard output */
}

/* One full error. */
static void print_newest(const struct json *letter) {
    struct buf text;
    struct span worker = call_text(json_get(letter, "death"), "worker"),
                version = call_text(json_get(letter, "death"), "worker_version"),
                error = call_text(letter, "last_error"), detail = call_text(letter, "detail");
    buf_init(&text, TEXT_BYTES_MAX);
    buf_printf(&text, "Newest letter %lld, died ", (long long)call_number(letter, "id", 0));
    buf_add_span(&text, call_text(letter, "died_at"));
    buf_add_str(&text, " after ");
    text_add_counted(count_of(letter, "deliveries"), "attempt", "attempts", &text);
    if (worker.n > 0)
        buf_printf(&text, ", worker %.*s", (int)worker.n, (const char *)worker.p);
    if (version.n > 0)
        buf_printf(&text, " (%.*s)", (int)version.n, (const char *)version.p);
    out_line(span_str(""));
    out_line(buf_span(&text));
    out_lines(call_text(letter, "error_class"), 2);
    out_lines(error, 2);
    out_lines(detail, 2);
    buf_release(&text);
}

static void print_ids(const struct page *p) {
    const struct json *letters = json_get(p->letters, "letters");
    size_t n = json_is(letters, JSON_ARRAY) ? json_count(letters) : 0;
    uint64_t count = count_of(p->group, "count");
    if (n == 0)
        return;
    struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    buf_add_str(&text, "Letters, the newest first:");
    for (size_t i = 0; i < n; i++)
        buf_printf(&text, " %lld", (long long)call_number(json_at(letters, i), "id", 0));
    if (count > n) {
        buf_add_str(&text, " and ");
        text_add_grouped(count - n, &text);
        buf_add_str(&text, " more");
    }
    buf_printf(&text, " (nixie dead group:%s)", p->key);
    out_line(span_str(""));
    out_line(buf_span(&text));
    buf_release(&text);
}

static void print_page(const struct cli *cli, const struct page *p) {
    const struct json *group = p->group;
    out_fact("cause", call_text(group, "title"));
    out_fact("key", call_text(group, "key"));
    out_fact("queue", call_text(group, "queue"));
    out_fact("reason", call_text(group, "reason"));
    print_text("error class", call_text(group, "error_class"));
    print_counts(group);
    out_fact("first seen", call_text(group, "first_seen"));
    out_fact("last seen", call_text(group, "last_seen"));
    print_state(group);
    print_versions(cli, json_get(group, "versions"));
    if (p->newest != NULL)
        print_newest(p->newest);
    print_ids(p);
}

/* -- as JSON --------------------------------------------------------------------------------- */

static void put_members(struct json_writer *w, const struct json *v, const char *const *names,
                        size_t n) {
    struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    for (size_t i = 0; i < n; i++) {
        const struct json *member = json_get(v, names[i]);
        if (member == NULL)
            continue;
        buf_clear(&text);
        json_dump(member, &text);
        json_name(w, names[i]);
        json_put_raw(w, buf_span(&text));
    }
    buf_release(&text);
}

/* The group as the server says it, and two more members: newest_letter (without its payload) and
 * letters (ids). */
static void print_document(const struct cli *cli, const struct page *p) {
    static const char *const names[] = {"id",         "error_class", "last_error", "detail",
                                        "deliveries", "died_at",     "death"};
    struct buf text;
    struct json_writer w;
    buf_init(&text, TEXT_BYTES_MAX);
    json_dump(p->group, &text);
    if (p->letters != NULL && text.n > 2) {
        text.n--; /* the bracket */
        buf_add_str(&text, ",\"newest_letter\":");
        json_writer_init(&w, &text);
        if (p->newest != NULL) {
            json_begin(&w, '{');
            put_members(&w, p->newest, names, sizeof names / sizeof names[0]);
            json_end(&w, '}');
        } else {
            json_put_null(&w);
        }
        buf_add_str(&text, ",\"letters\":");
        json_writer_init(&w, &text);
        json_begin(&w, '[');
        const struct json *letters = json_get(p->letters, "letters");
        for (size_t i = 0; json_is(letters, JSON_ARRAY) && i < json_count(letters); i++)
            json_put_i64(&w, call_number(json_at(letters, i), "id", 0));
        json_end(&w, ']');
        buf_add_byte(&text, '}');
    }
    out_text(cli, buf_span(&text));
    buf_release(&text);
}

static int print(const struct cli *cli, const struct page *p) {
    if (cli->format == FORMAT_TABLE)
        print_page(cli, p);
    else
        print_document(cli, p);
    return out_check(cli, CLI_DONE);
}

/* -- show ------------------------------------------------------------------------------------ */

/* Runs the request that was begun; -1 and its reply, or the exit code. */
static int take(struct call *r, const char *method, const char *what, struct json **ret) {
    call_run(r, method, 0);
    int code = call_check(r, what);
    if (code >= 0)
        return code;
    *ret = r->reply;
    r->reply = NULL;
    return -1;
}

static int get_letters(struct call *r, struct page *p) {
    char filter[KEY_BYTES_MAX + 16];
    (void)snprintf(filter, sizeof filter, "group:%s", p->key);
    call_begin(r);
    buf_add_str(&r->path, "/dead");
    call_query(r, "q", filter);
    call_query(r, "payload", "no");
    call_query_number(r, "limit", IDS_SHOWN);
    int code = take(r, "GET", p->key, &p->letters);
    if (code >= 0)
        return code;
    const struct json *letters = json_get(p->letters, "letters");
    if (!json_is(letters, JSON_ARRAY) || json_count(letters) == 0)
        return -1;
    call_begin(r);
    buf_printf(&r->path, "/messages/%lld", (long long)call_number(json_at(letters, 0), "id", 0));
    call_run(r, "GET", 0);
    if (r->status == 404) /* gone meanwhile */
        return -1;
    code = call_check(r, p->key);
    if (code < 0) {
        p->newest = r->reply;
        r->reply = NULL;
    }
    return code;
}

static int show(struct call *r, struct page *p) {
    begin(r, p->key);
    int code = take(r, "GET", p->key, &p->group);
    if (code < 0)
        code = get_letters(r, p);
    return code < 0 ? print(r->cli, p) : code;
}

/* -- change ---------------------------------------------------------------------------------- */

struct change {
    bool acks, resolves, opens;
    const char *owner, *note, *reason; /* NULL: stays; empty: none */
};

static void put_text_or_null(struct json_writer *w, const char *name, const char *text) {
    if (text == NULL)
        return;
    json_name(w, name);
    if (text[0] != '\0')
        json_put_str(w, text);
    else
        json_put_null(w);
}

static int change(struct call *r, struct page *p, const struct change *c) {
    struct json_writer w;
    begin(r, p->key);
    json_writer_init(&w, &r->body);
    json_begin(&w, '{');
    call_put_text(&w, "state",
                  c->acks       ? "acknowledged"
                  : c->resolves ? "resolved"
                  : c->opens    ? "open"
                                : NULL);
    put_text_or_null(&w, "owner", c->owner);
    put_text_or_null(&w, "note", c->note);
    call_put_text(&w, "reason", c->reason);
    json_end(&w, '}');
    int code = take(r, "PATCH", p->key, &p->group);
    return code < 0 ? print(r->cli, p) : code;
}

static bool changes_anything(const struct change *c) {
    return c->acks || c->resolves || c->opens || c->owner != NULL || c->note != NULL;
}

static int check(const struct cli *cli, const char *key, const struct change *c) {
    int code = check_key(cli, key);
    if (code < 0 && c->acks + c->resolves + c->opens > 1)
        code = cli_usage_error(cli, "--ack, --resolve or --open: only one of them");
    if (code < 0 && c->reason != NULL && !changes_anything(c))
        code = cli_usage_error(cli, "--reason says why something is changed; nothing is");
    if (code < 0)
        code = input_check_text(cli, "--owner", c->owner, LIMIT_OWNER);
    if (code < 0)
        code = input_check_text(cli, "--note", c->note, LIMIT_NOTE);
    if (code < 0)
        code = option_check_reason(cli, c->reason);
    return code;
}

int command_group(struct cli *cli, int argc, char **argv) {
    struct change c = {.acks = false};
    const struct option_spec specs[] = {
        {.name = "ack", .flag = &c.acks, .help = "acknowledge it: somebody is at it"},
        {.name = "resolve", .flag = &c.resolves, .help = "it is fixed"},
        {.name = "open", .flag = &c.opens, .help = "it is neither, after all"},
        {.name = "owner",
         .value = "NAME",
         .text = &c.owner,
         .help = "whose it is; an empty one: nobody's"},
        {.name = "note",
         .value = "TEXT",
         .text = &c.note,
         .help = "for whoever looks next; an empty one: none"},
        option_reason(&c.reason),
        OPTION_END,
    };
    int first;
    int code = options_parse(cli, specs, argc, argv, &first);
    if (code < 0)
        code = check(cli, argv[first], &c);
    if (code >= 0)
        return code;
    char key[KEY_BYTES_MAX + 1];
    struct page page = {.key = key};
    struct call r;
    call_init(&r, cli);
    code = find_key(&r, argv[first], key);
    if (code < 0)
        code = changes_anything(&c) ? change(&r, &page, &c) : show(&r, &page);
    json_free(page.group);
    json_free(page.letters);
    json_free(page.newest);
    call_release(&r);
    return code;
}
