/* POST /definitions: RabbitMQ's definitions, taken in. */
#include "http/definitions.h"
#include "http/query.h"
#include "http/view.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"

#include <assert.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- names ----------------------------------------------------------------------------------- */

/* Where it is, or where it would go. Two names of one hash would be one name: then the report of a
 * dry run says less than is done. */
static size_t place_of(const struct names *s, uint64_t hash) {
    size_t i = hash & (s->cap - 1);
    while (s->places[i] != 0 && s->places[i] != hash)
        i = (i + 1) & (s->cap - 1);
    return i;
}

static uint64_t hash_of(char kind, struct span name) {
    return hash64(name, (uint64_t)(unsigned char)kind) | 1;
}

static void put(struct names *s, uint64_t hash) {
    size_t i = place_of(s, hash);
    s->n += s->places[i] == 0;
    s->places[i] = hash;
}

void names_add(struct names *s, char kind, struct span name) {
    if (s->n >= s->cap / 2) {
        struct names grown = {.cap = s->cap > 0 ? s->cap * 2 : 64};
        grown.places = mem_alloc(grown.cap * sizeof *grown.places);
        for (size_t i = 0; i < s->cap; i++) {
            if (s->places[i] != 0)
                put(&grown, s->places[i]);
        }
        free(s->places);
        *s = grown;
    }
    put(s, hash_of(kind, name));
}

bool names_have(const struct names *s, char kind, struct span name) {
    return s->cap > 0 && s->places[place_of(s, hash_of(kind, name))] != 0;
}

enum { REASON_BYTES = 1000 }; /* why an entry is not carried; cut */

/* -- the report ------------------------------------------------------------------------------ */

void import_refuse(struct import *im, const char *kind, struct span name, const struct span *vhost,
                   const char *format, ...) {
    if (im->not_carried++ >= NOT_CARRIED_MAX)
        return;
    struct buf *text = &im->what;
    buf_clear(text);
    buf_printf(text, "%s '", kind);
    buf_add_span(text, name);
    buf_add_str(text, "'");
    if (vhost != NULL) {
        buf_add_str(text, " in vhost '");
        buf_add_span(text, *vhost);
        buf_add_str(text, "'");
    }
    json_begin(&im->w, '{');
    view_text(&im->w, "what", buf_span(text));
    char why[REASON_BYTES + 4];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(why, sizeof why, format, args);
    va_end(args);
    assert(n >= 0);
    view_text(&im->w, "why", span_cut_utf8(span_str(why), sizeof why - 4));
    json_end(&im->w, '}');
}

static void put_section(struct json_writer *w, const char *name, const struct section *s) {
    json_name(w, name);
    json_begin(w, '{');
    view_number(w, "made", s->made);
    view_number(w, "changed", s->changed);
    view_number(w, "there", s->there);
    json_end(w, '}');
}

static void put_report(struct import *im) {
    struct json_writer *w = &im->w;
    json_end(w, ']');
    view_number(w, "not_carried_count", im->not_carried);
    put_section(w, "vhosts", &im->vhosts);
    put_section(w, "exchanges", &im->exchanges);
    put_section(w, "queues", &im->queues);
    put_section(w, "bindings", &im->bindings);
    put_section(w, "policies", &im->policies);
    json_end(w, '}');
}

/* -- what is not carried --------------------------------------------------------------------- */

static struct span text_of(const struct json *item, const char *name) {
    const struct json *v = json_get(item, name);
    return json_is(v, JSON_STRING) ? json_string(v) : span_of(NULL, 0);
}

static void refuse_user(struct import *im, const struct json *item) {
    import_refuse(im, "user", text_of(item, "name"), NULL,
                  "users come without passwords: nixie serve --amqp-user NAME:PASSWORD");
    if (json_count(json_get(item, "limits")) > 0)
        import_refuse(im, "limits of user", text_of(item, "name"), NULL,
                      "there are no limits of connections or channels");
}

static const char *const patterns[] = {"configure", "write", "read"};
enum { PATTERNS = sizeof patterns / sizeof patterns[0] };

static bool is_all(const struct json *permission) {
    for (size_t i = 0; i < PATTERNS; i++) {
        if (!span_equal_str(text_of(permission, patterns[i]), ".*"))
            return false;
    }
    return true;
}

static int compare_users(const void *a, const void *b) {
    return span_compare(text_of(*(const struct json *const *)a, "user"),
                        text_of(*(const struct json *const *)b, "user"));
}

/* Whom the file gives less than everything in all its vhosts: a user without options may do that
 * here. */
static void know_users(struct import *im, const struct json *definitions) {
    const struct json *permissions = json_get(definitions, "permissions");
    size_t n = json_count(permissions), vhosts = json_count(json_get(definitions, "vhosts"));
    const struct json **by_user = mem_alloc((n + 1) * sizeof(const struct json *));
    for (size_t i = 0; i < n; i++)
        by_user[i] = json_at(permissions, i);
    qsort(by_user, n, sizeof(const struct json *), compare_users);
    for (size_t i = 0, next; i < n; i = next) {
        size_t all = 0;
        for (next = i; next < n && compare_users(&by_user[i], &by_user[next]) == 0; next++)
            all += is_all(by_user[next]);
        if (all < next - i || all < vhosts)
            names_add(&im->bounded, 'u', text_of(by_user[i], "user"));
    }
    free(by_user);
}

/* As a field of --amqp-permission, within single quotes. */
static bool add_field(struct buf *out, struct span text, const char *when_empty) {
    if (out->p[out->n - 1] != '\'')
        buf_add_byte(out, ' ');
    if (text.n == 0)
        buf_add_str(out, when_empty);
    buf_add_span(out, text);
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] <= ' ' || text.p[i] == '\'')
            return false;
    }
    return text.n > 0 || *when_empty != '\0';
}

static void refuse_permission(struct import *im, const struct json *item) {
    struct span user = text_of(item, "user"), vhost = import_vhost_of(im, item);
    if (!names_have(&im->bounded, 'u', user))
        return;
    struct buf *option = &im->texts;
    buf_clear(option);
    buf_add_str(option, "nixie serve --amqp-permission '");
    bool is_good = add_field(option, user, "") && add_field(option, vhost, "");
    for (size_t i = 0; is_good && i < PATTERNS; i++)
        is_good = add_field(option, text_of(item, patterns[i]), "^$");
    buf_add_byte(option, '\'');
    if (is_good && option->n < REASON_BYTES)
        import_refuse(im, "permissions of user", user, &vhost, "%.*s", (int)option->n,
                      (const char *)option->p);
    else
        import_refuse(im, "permissions of user", user, &vhost,
                      "--amqp-permission cannot say it: a name or expression holds a space or a "
                      "quote, or they are too long");
}

static void refuse_topic_permission(struct import *im, const struct json *item) {
    struct span vhost = import_vhost_of(im, item);
    import_refuse(im, "topic permissions of user", text_of(item, "user"), &vhost,
                  "there are no permissions on topics: to write to an exchange is all");
}

static void refuse_parameter(struct import *im, const struct json *item) {
    static const struct {
        const char *component, *kind, *why;
    } known[] = {
        {"operator_policy", "operator policy", "there are no operator policies"},
        {"shovel", "shovel", "there are no shovels; nixie redrive moves dead letters"},
        {"federation-upstream", "federation upstream", "there is no federation"},
        {"federation-upstream-set", "federation upstream set", "there is no federation"},
        {"vhost-limits", "limits", "there are no limits of connections or queues"},
    };
    struct span vhost = import_vhost_of(im, item), component = text_of(item, "component");
    const char *kind = "parameter", *why = "it is not known here";
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (span_equal_str(component, known[i].component)) {
            kind = known[i].kind;
            why = known[i].why;
        }
    }
    import_refuse(im, kind, text_of(item, "name"), &vhost, "%s", why);
}

static void refuse_global_parameter(struct import *im, const struct json *item) {
    static const char *const names[] = {"cluster_name", "internal_cluster_id", "cluster_tags"};
    struct span name = text_of(item, "name");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (span_equal_str(name, names[i]))
            return;
    }
    import_refuse(im, "global parameter", name, NULL, "it is not known here");
}

/* -- all of it ------------------------------------------------------------------------------- */

/* In the order of the work: what an entry needs comes before it. */
static const struct {
    const char *name;
    void (*import)(struct import *im, const struct json *item);
} sections[] = {
    {"vhosts", import_vhost},           {"users", refuse_user},
    {"permissions", refuse_permission}, {"topic_permissions", refuse_topic_permission},
    {"parameters", refuse_parameter},   {"global_parameters", refuse_global_parameter},
    {"policies", import_policy},        {"exchanges", import_exchange},
    {"queues", import_queue},           {"bindings", import_binding},
};
enum { SECTIONS = sizeof sections / sizeof sections[0] };

static bool check_member(void *ctx, const char *name, const struct json *value) {
    static const char *const others[] = {
        "rabbit_version",     "rabbitmq_version", "rabbitmq_definition_format", "product_name",
        "product_version",    "explanation",      "original_vhost_name",        "metadata",
        "default_queue_type", "description"};
    struct field_errors *errors = ctx;
    for (size_t i = 0; i < SECTIONS; i++) {
        if (strcmp(name, sections[i].name) != 0)
            continue;
        if (!json_is(value, JSON_ARRAY))
            field_error_add(errors, "", name, "wrong_type", "must be an array");
        for (size_t k = 0; k < json_count(value); k++) {
            if (json_is(value, JSON_ARRAY) && !json_is(json_at(value, k), JSON_OBJECT))
                field_error_add(errors, "", name, "wrong_type", "must hold objects");
        }
        return true;
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (strcmp(name, others[i]) == 0)
            return true;
    }
    field_error_add(errors, "", name, "unknown_field", "is no part of RabbitMQ's definitions");
    return true;
}

/* -- in slices ------------------------------------------------------------------------------- */

/* A timer of no time would fire again in the same turn. */
enum { SLICE_US = 4000, NEXT_TURN_MS = 1, DISK_BEHIND_MS = 2 };

static void import_free(struct import *im) {
    *im->link = im->next;
    if (im->next != NULL)
        im->next->link = im->link;
    im->http->import_count--;
    if (im->connection != NULL)
        connection_set_later(im->connection, NULL);
    loop_timer_close(&im->timer);
    json_free(im->definitions);
    free(im->made.places);
    free(im->bounded.places);
    struct buf *const buffers[] = {&im->report, &im->vhost_text,  &im->actor, &im->reason,
                                   &im->source, &im->destination, &im->texts, &im->what};
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        buf_release(buffers[i]);
    free(im);
}

void definitions_release(struct http *h) {
    while (h->imports != NULL)
        import_free(h->imports);
}

/* True when it is done. */
static bool do_slice(struct import *im) {
    const int64_t end = clock_monotonic_us() + SLICE_US;
    im->now = server_now(im->http->server);
    while (im->error == OK && im->section < SECTIONS) {
        const struct json *items = json_get(im->definitions, sections[im->section].name);
        if (im->item >= json_count(items)) {
            im->section++;
            im->item = 0;
            continue;
        }
        sections[im->section].import(im, json_at(items, im->item++));
        if (clock_monotonic_us() >= end)
            return false;
    }
    return true;
}

/* Into the reply, and the import is over. */
static void finish(struct import *im, struct reply *r) {
    if (im->error == OK) {
        put_report(im);
        buf_add_span(r->body, buf_span(&im->report));
    } else {
        reply_error(r, im->error);
    }
    import_free(im);
}

static void on_timer(struct loop_timer *t) {
    struct import *im = (struct import *)t;
    struct http *h = im->http;
    if (log_unsynced_bytes(h->server->log) >= LIMIT_UNSYNCED) {
        loop_timer_start(t, DISK_BEHIND_MS);
        return;
    }
    if (!do_slice(im)) {
        loop_timer_start(t, NEXT_TURN_MS);
        return;
    }
    struct connection *k = im->connection;
    struct reply r;
    reply_init(&r, &h->body);
    finish(im, &r);
    if (k != NULL)
        connection_answer(k, &r);
}

/* It goes on: half of it is of no use to whoever sent it. */
static void on_closed(struct later *l) {
    struct import *im = (struct import *)(void *)((char *)l - offsetof(struct import, later));
    im->connection = NULL;
}

/* Most are done before their request is. */
static void begin(struct call *c, struct import *im) {
    know_users(im, im->definitions);
    json_writer_init(&im->w, &im->report);
    json_begin(&im->w, '{');
    json_name(&im->w, "dry_run");
    json_put_bool(&im->w, im->is_dry);
    json_name(&im->w, "not_carried");
    json_begin(&im->w, '[');
    if (do_slice(im)) {
        finish(im, &c->reply);
        return;
    }
    im->connection = c->connection;
    im->later = (struct later){.closed = on_closed};
    connection_set_later(c->connection, &im->later);
    c->waits = true;
    loop_timer_start(&im->timer, NEXT_TURN_MS);
}

/* -- the request ----------------------------------------------------------------------------- */

static struct span keep(struct buf *b, struct span text) {
    buf_init(b, SIZE_MAX);
    buf_add_span(b, text);
    return buf_span(b);
}

static struct import *import_new(struct call *c, struct json *definitions) {
    struct http *h = c->http;
    struct import *im = mem_alloc(sizeof *im);
    im->http = h;
    im->engine = call_engine(c);
    im->definitions = definitions;
    buf_init(&im->report, SIZE_MAX);
    buf_init(&im->source, LIMIT_QUEUE_NAME);
    buf_init(&im->destination, LIMIT_QUEUE_NAME);
    buf_init(&im->texts, SIZE_MAX);
    buf_init(&im->what, SIZE_MAX);
    loop_timer_init(c->server->loop, &im->timer, on_timer);
    im->next = h->imports;
    if (im->next != NULL)
        im->next->link = &im->next;
    im->link = &h->imports;
    h->imports = im;
    h->import_count++;
    return im;
}

/* The import that is asked for, which has the JSON now; NULL when the reply is set. */
static struct import *read_request(struct call *c, struct json *json) {
    static const char *const names[] = {"vhost", "dry_run", "reason", NULL};
    struct span values[3];
    struct field_errors *errors = &c->http->errors;
    struct act act;
    query_read(c->request->query, names, values, &c->http->scratch, errors);
    struct span vhost = parameter_text(values[0], "vhost", LIMIT_QUEUE_NAME, errors);
    bool is_dry = parameter_flag(values[1], "dry_run", errors);
    act.reason = parameter_text(values[2], "reason", LIMIT_AUDIT_REASON, errors);
    if (!json_is(json, JSON_OBJECT))
        field_error_add(errors, "", "body", "wrong_type", "must be an object");
    else
        (void)json_each(json, check_member, errors);
    if (!call_actor(c, &act.actor) || !call_is_valid(c))
        return NULL;
    struct import *im = import_new(c, json);
    im->is_dry = is_dry;
    im->vhost = keep(&im->vhost_text, vhost.p != NULL ? vhost : span_str("/"));
    im->act.actor = keep(&im->actor, act.actor);
    im->act.reason = keep(&im->reason, act.reason);
    return im;
}

void handle_definitions_post(struct call *c) {
    struct json *json;
    if (c->http->import_count >= LIMIT_IMPORTS) {
        reply_problem(&c->reply, 503, "too many imports",
                      "the server takes in as many definitions at once as it may");
        c->reply.retry_after_s = 1;
        return;
    }
    if (!call_body(c, true, &json))
        return;
    struct import *im = read_request(c, json);
    if (im != NULL)
        begin(c, im);
    else
        json_free(json);
}
