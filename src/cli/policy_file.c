#include "cli/policy_file.h"

#include "base/mem.h"
#include "cli/input.h"
#include "cli/text.h"

#include <stdlib.h>
#include <string.h>

struct reading {
    const struct cli *cli;
    const char *path;
    struct policy_file *file;
    size_t queues; /* the node of all queues */
    bool has_mistakes;
};

static void say(struct reading *r, unsigned line, const char *queue, const char *field,
                const char *message) {
    struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    if (queue != NULL) {
        text_escape(span_str(queue), TEXT_ONE_LINE, &text);
        buf_add_str(&text, ": ");
    }
    if (field[0] != '\0') {
        text_escape(span_str(field), TEXT_ONE_LINE, &text);
        buf_add_byte(&text, ' ');
    }
    text_escape(span_str(message), TEXT_ONE_LINE, &text);
    cli_error(r->cli, "%s:%u: %.*s", r->path, line, (int)text.n, (const char *)text.p);
    buf_release(&text);
    r->has_mistakes = true;
}

static void check_name(struct reading *r, unsigned line, const char *queue) {
    if (strlen(queue) > LIMIT_QUEUE_NAME)
        say(r, line, NULL, "", "the name of a queue has at most 255 bytes");
}

static bool read_queue(void *ctx, const char *name, const struct json *v) {
    struct reading *r = ctx;
    struct policy_entry *e = &r->file->entries[r->file->count++];
    *e = (struct policy_entry){.queue = name, .given = json_is(v, JSON_NULL) ? NULL : v};
    buf_init(&e->memory, SIZE_MAX);
    struct field_errors errors = {0};
    size_t node = yaml_member(&r->file->yaml, r->queues, span_str(name));
    check_name(r, r->file->yaml.nodes[node].line, name);
    if (e->given != NULL && !json_is(v, JSON_OBJECT)) {
        say(r, r->file->yaml.nodes[node].line, name, "", "must be the members of a policy");
        return true;
    }
    e->policy = policy_from_json(e->given, &errors, &e->memory, &e->texts);
    for (unsigned i = 0; i < errors.count; i++)
        say(r, yaml_line(&r->file->yaml, node, errors.items[i].field), name, errors.items[i].field,
            errors.items[i].message);
    return true;
}

static bool check_top(void *ctx, const char *name, const struct json *v) {
    struct reading *r = ctx;
    (void)v;
    size_t node = yaml_member(&r->file->yaml, 0, span_str(name));
    if (strcmp(name, "queues") != 0)
        say(r, r->file->yaml.nodes[node].line, NULL, name,
            "is not known: at the top stands queues, alone");
    return true;
}

static void read_all(struct reading *r) {
    const struct json *root = r->file->yaml.root, *queues = json_get(root, "queues");
    if (json_is(root, JSON_OBJECT))
        (void)json_each(root, check_top, r);
    r->queues = yaml_member(&r->file->yaml, 0, span_str("queues"));
    if (!json_is(queues, JSON_OBJECT)) {
        say(r, r->file->yaml.nodes[r->queues].line, NULL, "queues",
            "is required: the names of queues, each with its policy");
        return;
    }
    r->file->entries = mem_alloc((json_count(queues) + 1) * sizeof *r->file->entries);
    (void)json_each(queues, read_queue, r);
}

int policy_file_read(const struct cli *cli, const char *path, struct policy_file *ret) {
    struct buf text;
    struct yaml_error error;
    struct reading r = {
        .cli = cli, .path = strcmp(path, "-") == 0 ? "standard input" : path, .file = ret};
    *ret = (struct policy_file){0};
    buf_init(&text, POLICY_FILE_BYTES_MAX + 1);
    int code = input_read_file(cli, path, POLICY_FILE_BYTES_MAX, &text);
    if (code < 0 && !yaml_read(buf_span(&text), &ret->yaml, &error))
        say(&r, error.line, NULL, "", error.text);
    else if (code < 0)
        read_all(&r);
    buf_release(&text);
    if (code < 0 && r.has_mistakes)
        code = CLI_FAILED;
    if (code >= 0)
        policy_file_release(ret);
    return code;
}

void policy_file_release(struct policy_file *f) {
    for (size_t i = 0; i < f->count; i++)
        buf_release(&f->entries[i].memory);
    free(f->entries);
    yaml_release(&f->yaml);
    *f = (struct policy_file){0};
}

const struct policy_entry *policy_file_find(const struct policy_file *f, struct span queue) {
    for (size_t i = 0; i < f->count; i++) {
        if (span_equal_str(queue, f->entries[i].queue))
            return &f->entries[i];
    }
    return NULL;
}
