#include "cli/patch_args.h"

#include "base/json.h"
#include "base/limits.h"
#include "cli/input.h"
#include "cli/text.h"
#include "model/fields.h"
#include "model/triage.h"

#include <string.h>

enum { CHANGES_MAX = 32 }; /* the server's */

struct option_spec patch_option_set(struct patch_args *args) {
    return (struct option_spec){.name = "set",
                                .value = "PATH=JSON",
                                .list = &args->sets,
                                .help =
                                    "set payload.a.b or header.NAME in each copy; may be repeated"};
}

struct option_spec patch_option_remove(struct patch_args *args) {
    return (struct option_spec){
        .name = "remove",
        .value = "PATH",
        .list = &args->removals,
        .help = "remove payload.a.b or header.NAME from each copy; may be repeated"};
}

struct option_spec patch_option_header(struct patch_args *args) {
    return (struct option_spec){.name = "header",
                                .letter = 'H',
                                .value = "K=V",
                                .list = &args->headers,
                                .help = "set a header to a text; may be repeated"};
}

bool patch_args_given(const struct patch_args *args) {
    return args->removals.n + args->sets.n + args->headers.n > 0;
}

static void begin_change(struct json_writer *w, const char *op, const char *prefix,
                         struct span path) {
    struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    buf_add_str(&text, prefix);
    buf_add_span(&text, path);
    json_begin(w, '{');
    json_name(w, "op");
    json_put_str(w, op);
    json_name(w, "path");
    json_put_string(w, buf_span(&text));
    buf_release(&text);
}

/* The = after the path; one within the quotes of a name does not count. */
static const char *find_equals(const char *item) {
    bool is_quoted = false, can_quote = strncmp(item, "payload.", 8) == 0;
    for (const char *p = item; *p != '\0'; p++) {
        if (*p == '=' && !is_quoted)
            return p;
        if (is_quoted && *p == '\\' && p[1] != '\0')
            p++;
        else if (*p == '"' && can_quote)
            is_quoted = !is_quoted;
    }
    return NULL;
}

static int add_set(const struct cli *cli, const char *item, struct json_writer *w) {
    const char *equals = find_equals(item);
    struct json_error error;
    if (equals == NULL)
        return cli_usage_error(cli, "--set %s: must be PATH=JSON", item);
    struct json *value = json_parse(span_str(equals + 1), &error);
    if (value == NULL)
        return cli_usage_error(cli, "--set %s: %s is not JSON: %s (a text is written '\"so\"')",
                               item, equals + 1, error.text);
    json_free(value);
    begin_change(w, "set", "", span_of(item, (size_t)(equals - item)));
    json_name(w, "value");
    json_put_raw(w, span_str(equals + 1));
    json_end(w, '}');
    return -1;
}

static int add_header(const struct cli *cli, const char *item, struct json_writer *w) {
    const char *equals = strchr(item, '=');
    if (equals == NULL || equals == item)
        return cli_usage_error(cli, "--header %s: must be NAME=VALUE", item);
    begin_change(w, "set", "header.", span_of(item, (size_t)(equals - item)));
    json_name(w, "value");
    json_put_str(w, equals + 1);
    json_end(w, '}');
    return -1;
}

static int add_removal(const struct cli *cli, const char *item, struct json_writer *w) {
    (void)cli;
    begin_change(w, "remove", "", span_str(item));
    json_end(w, '}');
    return -1;
}

/* By the rules that the server has, so that what is wrong is said of the option. */
static int check_change(const struct cli *cli, const char *option, const char *item,
                        struct span change) {
    struct field_errors errors = {.count = 0};
    struct json_error error;
    struct buf array;
    buf_init(&array, TEXT_BYTES_MAX);
    buf_add_byte(&array, '[');
    buf_add_span(&array, change);
    buf_add_byte(&array, ']');
    struct json *v = json_parse(buf_span(&array), &error);
    if (v != NULL)
        patch_check(v, "patch", &errors);
    json_free(v);
    buf_release(&array);
    if (v == NULL)
        return cli_usage_error(cli, "%s %s: %s", option, item, error.text);
    if (errors.count > 0)
        return cli_usage_error(cli, "%s %s: %s", option, item, errors.items[0].message);
    return -1;
}

static int add_all(const struct cli *cli, const char *option, const struct option_list *list,
                   int (*add)(const struct cli *cli, const char *item, struct json_writer *w),
                   struct json_writer *w) {
    int code = -1;
    for (size_t i = 0; i < list->n && code < 0; i++) {
        struct buf change;
        struct json_writer writer;
        buf_init(&change, TEXT_BYTES_MAX);
        json_writer_init(&writer, &change);
        code = input_check_text(cli, option, list->items[i], LIMIT_PATCH);
        if (code < 0)
            code = add(cli, list->items[i], &writer);
        if (code < 0)
            code = check_change(cli, option, list->items[i], buf_span(&change));
        if (code < 0)
            json_put_raw(w, buf_span(&change));
        buf_release(&change);
    }
    return code;
}

int patch_args_build(const struct patch_args *args, const struct cli *cli, struct buf *ret) {
    struct json_writer w;
    json_writer_init(&w, ret);
    json_begin(&w, '[');
    int code = add_all(cli, "--remove", &args->removals, add_removal, &w);
    if (code < 0)
        code = add_all(cli, "--set", &args->sets, add_set, &w);
    if (code < 0)
        code = add_all(cli, "--header", &args->headers, add_header, &w);
    json_end(&w, ']');
    if (code < 0 && args->removals.n + args->sets.n + args->headers.n > CHANGES_MAX)
        code = cli_usage_error(cli, "more than %d changes", CHANGES_MAX);
    if (code < 0 && ret->n > LIMIT_PATCH)
        code = cli_usage_error(cli, "the changes: longer than %d bytes", LIMIT_PATCH);
    return code;
}
