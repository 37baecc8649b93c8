/* nixie apply: makes the queues of a file what it says, and only where they differ. */
#include "cli/ask.h"
#include "cli/call.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/out.h"
#include "cli/policy_file.h"
#include "cli/text.h"

#include "base/mem.h"
#include "model/alert.h"

#include <stdio.h>
#include <stdlib.h>

enum stand { STAND_SAME, STAND_NEW, STAND_OTHER }; /* of a queue's policy on the server */

struct apply {
    const struct cli *cli;
    struct call call;
    struct policy_file file;
    enum stand *stands; /* of each entry; STAND_SAME once it is applied */
    size_t created, changed;
    struct out out;
    const char *reason;
};

/* -- what differs ---------------------------------------------------------------------------- */

static void dump_or_null(const struct json *v, struct buf *out) {
    if (v != NULL)
        json_dump(v, out);
    else
        buf_add_str(out, "null");
}

static bool is_same(const struct json *a, const struct json *b) {
    struct buf x, y;
    buf_init(&x, TEXT_BYTES_MAX);
    buf_init(&y, TEXT_BYTES_MAX);
    dump_or_null(a, &x);
    dump_or_null(b, &y);
    bool same = span_equal(buf_span(&x), buf_span(&y));
    buf_release(&x);
    buf_release(&y);
    return same;
}

/* Members of two objects, compared one by one. */
struct comparison {
    const struct json *old, *new;
    const char *outer; /* the member that both are, or NULL at the top */
    bool is_new;       /* the queue is not there: `old` are the defaults */
    struct json_writer *w;
    size_t differences;
};

static void put_value(struct json_writer *w, const char *name, const struct json *v) {
    struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    dump_or_null(v, &text);
    json_name(w, name);
    json_put_raw(w, buf_span(&text));
    buf_release(&text);
}

static void put_difference(struct comparison *c, const char *name) {
    struct buf path;
    buf_init(&path, TEXT_BYTES_MAX);
    if (c->outer != NULL)
        buf_printf(&path, "%s.", c->outer);
    buf_add_str(&path, name);
    json_begin(c->w, '{');
    json_name(c->w, "member");
    json_put_string(c->w, buf_span(&path));
    if (!c->is_new)
        put_value(c->w, "old", json_get(c->old, name));
    put_value(c->w, "new", json_get(c->new, name));
    json_end(c->w, '}');
    buf_release(&path);
    c->differences++;
}

static bool compare_member(void *ctx, const char *name, const struct json *value);

/* What only the old one has. */
static bool compare_old_member(void *ctx, const char *name, const struct json *value) {
    struct comparison *c = ctx;
    if (json_get(c->new, name) == NULL && !json_is(value, JSON_NULL))
        put_difference(c, name);
    return true;
}

static void compare(struct comparison *c) {
    (void)json_each(c->new, compare_member, c);
    /* At the top those would be members that this program does not know. */
    if (c->outer != NULL && !c->is_new)
        (void)json_each(c->old, compare_old_member, c);
}

static bool compare_member(void *ctx, const char *name, const struct json *value) {
    struct comparison *c = ctx;
    const struct json *old = json_get(c->old, name);
    if (is_same(old, value))
        return true;
    if (c->outer == NULL && json_is(old, JSON_OBJECT) && json_is(value, JSON_OBJECT)) {
        struct comparison inner = {
            .old = old, .new = value, .outer = name, .is_new = c->is_new, .w = c->w};
        compare(&inner);
        c->differences += inner.differences;
    } else {
        put_difference(c, name);
    }
    return true;
}

/* -- as shown -------------------------------------------------------------------------------- */

static void print_page(const struct json *item) {
    const struct json *members = json_get(item, "members");
    struct buf line;
    buf_init(&line, TEXT_BYTES_MAX);
    buf_add_span(&line, call_text(item, "queue"));
    buf_add_str(&line, span_equal_str(call_text(item, "action"), "create") ? ": new" : ":");
    out_line(buf_span(&line));
    for (size_t i = 0; i < json_count(members); i++) {
        const struct json *m = json_at(members, i), *old = json_get(m, "old");
        buf_clear(&line);
        buf_add_str(&line, "  ");
        buf_add_span(&line, call_text(m, "member"));
        buf_add_str(&line, ": ");
        if (old != NULL) {
            json_dump(old, &line);
            buf_add_str(&line, " -> ");
        }
        dump_or_null(json_get(m, "new"), &line);
        out_line(buf_span(&line));
    }
    buf_release(&line);
}

/* The policy as the server would show it: without the secrets of alerts. */
static struct json *policy_json(const struct policy *p, const struct policy_texts *t) {
    struct buf text, alerts;
    struct json_writer w;
    struct json_error error;
    struct policy_texts shown = *t;
    buf_init(&text, TEXT_BYTES_MAX);
    buf_init(&alerts, TEXT_BYTES_MAX);
    alerts_mask(t->alerts, &alerts);
    shown.alerts = buf_span(&alerts);
    json_writer_init(&w, &text);
    policy_to_json(p, &shown, &w);
    struct json *v = json_parse(buf_span(&text), &error);
    buf_release(&alerts);
    buf_release(&text);
    return v;
}

/* A secret in the file may be another than the one on the server, which does not show it. */
static bool has_secret(const struct policy_texts *t) {
    struct json_error error;
    struct json *alerts = t->alerts.n > 0 ? json_parse(t->alerts, &error) : NULL;
    bool has = false;
    for (size_t i = 0; i < json_count(alerts) && !has; i++) {
        struct span secret = call_text(json_at(alerts, i), "secret");
        has = secret.n > 0 && !span_equal_str(secret, ALERT_SECRET_MASK);
    }
    json_free(alerts);
    return has;
}

static void put_secret_difference(struct comparison *c) {
    json_begin(c->w, '{');
    json_name(c->w, "member");
    json_put_str(c->w, "alerts.secret");
    json_name(c->w, "old");
    json_put_str(c->w, ALERT_SECRET_MASK);
    json_name(c->w, "new");
    json_put_str(c->w, "another");
    json_end(c->w, '}');
    c->differences++;
}

/* Compares and shows; `present` is NULL when the queue is not there. other_secrets: all the same, a
 * put would change the policy. */
static enum stand show(struct apply *a, const struct policy_entry *e, const struct json *present,
                       bool other_secrets) {
    const struct policy defaults = policy_default();
    const struct policy_texts no_texts = {0};
    struct json *fallback = policy_json(&defaults, &no_texts);
    struct json *wanted = policy_json(&e->policy, &e->texts);
    struct buf text;
    struct json_writer w;
    struct json_error error;
    buf_init(&text, TEXT_BYTES_MAX);
    json_writer_init(&w, &text);
    json_begin(&w, '{');
    json_name(&w, "queue");
    json_put_str(&w, e->queue);
    json_name(&w, "action");
    json_put_str(&w, present != NULL ? "change" : "create");
    json_name(&w, "members");
    json_begin(&w, '[');
    struct comparison c = {.old = present != NULL ? present : fallback,
                           .new = wanted,
                           .is_new = present == NULL,
                           .w = &w};
    compare(&c);
    if (other_secrets && c.differences == 0)
        put_secret_difference(&c);
    json_end(&w, ']');
    json_end(&w, '}');
    enum stand stand = present == NULL ? STAND_NEW : c.differences == 0 ? STAND_SAME : STAND_OTHER;
    if (stand != STAND_SAME) {
        struct json *item = json_parse(buf_span(&text), &error);
        if (a->cli->format == FORMAT_TABLE)
            print_page(item);
        else
            out_item(&a->out, item);
        json_free(item);
    }
    buf_release(&text);
    json_free(wanted);
    json_free(fallback);
    return stand;
}

/* -- asking the server ----------------------------------------------------------------------- */

static void put(struct apply *a, struct call *r, const struct policy_entry *e, bool is_dry_run) {
    struct json_writer w;
    call_begin_queue(r, e->queue);
    if (a->reason != NULL)
        call_query(r, "reason", a->reason);
    if (is_dry_run)
        call_query(r, "dry_run", "true");
    json_writer_init(&w, &r->body);
    policy_to_json(&e->policy, &e->texts, &w);
    call_run(r, "PUT", 0);
}

/* Where only the server can tell: whether a put would change anything. A put that would fail is left
 * to fail when it is done. */
static bool would_change(struct apply *a, const struct policy_entry *e) {
    struct call r;
    call_init(&r, a->cli);
    put(a, &r, e, true);
    bool does = call_is_success(&r) && span_equal_str(call_text(r.reply, "action"), "change");
    call_release(&r);
    return does;
}

static int compare_all(struct apply *a) {
    struct call *r = &a->call;
    for (size_t i = 0; i < a->file.count; i++) {
        const struct policy_entry *e = &a->file.entries[i];
        call_begin_queue(r, e->queue);
        call_run(r, "GET", 0);
        int code = r->status == 404 ? -1 : call_check(r, e->queue);
        if (code >= 0)
            return code;
        bool is_there = r->status != 404;
        bool other_secrets = is_there && has_secret(&e->texts) && would_change(a, e);
        a->stands[i] = show(a, e, is_there ? json_get(r->reply, "policy") : NULL, other_secrets);
        a->created += a->stands[i] == STAND_NEW;
        a->changed += a->stands[i] == STAND_OTHER;
    }
    return -1;
}

/* -- doing it -------------------------------------------------------------------------------- */

/* One pass over what is left; *ret_done of them went through. What is in conflict may fit once
 * others are done: a target that must allow it first, a circle that is turned round. So it is said
 * only when is_last. */
static int pass(struct apply *a, bool is_last, size_t *ret_done) {
    int worst = -1;
    *ret_done = 0;
    for (size_t i = 0; i < a->file.count; i++) {
        if (a->stands[i] == STAND_SAME)
            continue;
        put(a, &a->call, &a->file.entries[i], false);
        if (call_is_success(&a->call)) {
            a->stands[i] = STAND_SAME;
            ++*ret_done;
        } else if (a->call.status != 409 || is_last) {
            int code = call_check(&a->call, a->file.entries[i].queue);
            a->stands[i] = STAND_SAME; /* never again */
            worst = worst < 0 ? code : worst;
        }
    }
    return worst;
}

static int put_all(struct apply *a) {
    size_t wanted = a->created + a->changed, done = 0, n;
    int code = -1;
    do {
        int failed = pass(a, false, &n);
        code = code < 0 ? failed : code;
        done += n;
    } while (n > 0 && done < wanted);
    int failed = pass(a, true, &n);
    code = code < 0 ? failed : code;
    done += n;
    if (code < 0)
        return CLI_DONE;
    return done > 0 ? CLI_PARTLY : code;
}

static int ask(const struct apply *a) {
    char question[128];
    (void)snprintf(question, sizeof question, "Make %zu queues, change %zu?", a->created,
                   a->changed);
    return ask_yes(a->cli, question);
}

static const struct column no_columns[] = {{.title = ""}}; /* for people it is a page */

static int run(struct apply *a, bool is_sure, bool is_dry_run) {
    out_init(&a->out, a->cli, true, no_columns, 1, NULL);
    int code = out_finish(&a->out, compare_all(a));
    if (code >= 0)
        return code;
    cli_note(a->cli, "%zu to make, %zu to change, %zu are as the file says", a->created, a->changed,
             a->file.count - a->created - a->changed);
    if (a->created + a->changed == 0 || is_dry_run)
        return CLI_DONE;
    code = is_sure ? -1 : ask(a);
    return code < 0 ? put_all(a) : code;
}

int command_apply(struct cli *cli, int argc, char **argv) {
    struct apply a = {.cli = cli};
    const char *file = NULL;
    bool is_sure = false, is_dry_run = false;
    const struct option_spec specs[] = {
        {.name = "file",
         .letter = 'f',
         .value = "FILE",
         .text = &file,
         .help = "the policies (-: standard input, with --yes or --dry-run)"},
        {.name = "dry-run", .flag = &is_dry_run, .help = "show what differs; change nothing"},
        option_yes(&is_sure),
        option_reason(&a.reason),
        OPTION_END,
    };
    int first;
    int code = options_parse(cli, specs, argc, argv, &first);
    if (code < 0)
        code = option_check_reason(cli, a.reason);
    if (code < 0 && file == NULL)
        code = cli_usage_error(cli, "which file? -f FILE");
    if (code < 0)
        code = policy_file_read(cli, file, &a.file);
    if (code >= 0)
        return code;
    a.stands = mem_alloc((a.file.count + 1) * sizeof *a.stands);
    call_init(&a.call, cli);
    code = run(&a, is_sure, is_dry_run);
    call_release(&a.call);
    free(a.stands);
    policy_file_release(&a.file);
    return code;
}
