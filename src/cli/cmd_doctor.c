/* nixie doctor: what is likely to hurt, of a running server or of policies in a file. */
#include "cli/call.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/options.h"
#include "cli/out.h"
#include "cli/policy_file.h"
#include "cli/text.h"
#include "model/doctor.h"

#include <string.h>

struct report {
    const struct cli *cli;
    struct out out; /* unless it is a page */
    enum severity worst;
    uint64_t count;
};

static const struct column no_columns[] = {{.title = ""}}; /* for people it is a page */

static void report_begin(struct report *p, const struct cli *cli) {
    *p = (struct report){.cli = cli};
    out_init(&p->out, cli, true, no_columns, 1, NULL);
}

/* Two lines for people: what is so, and what to do. */
static void print_page(const struct json *finding) {
    struct buf line;
    buf_init(&line, TEXT_BYTES_MAX);
    buf_printf(&line, "%-8.*s  ", (int)call_text(finding, "severity").n,
               (const char *)call_text(finding, "severity").p);
    buf_add_span(&line, call_text(finding, "code"));
    buf_add_str(&line, "  ");
    struct span queue = call_text(finding, "queue");
    buf_add_span(&line, queue.n > 0 ? queue : span_str("(server)"));
    buf_add_str(&line, ": ");
    buf_add_span(&line, call_text(finding, "fact"));
    out_line(buf_span(&line));
    buf_clear(&line);
    buf_add_str(&line, "               fix: ");
    buf_add_span(&line, call_text(finding, "fix"));
    out_line(buf_span(&line));
    buf_release(&line);
}

static void report_add(struct report *p, const struct json *finding) {
    int severity = severity_parse(call_text(finding, "severity"));
    if (severity > (int)p->worst)
        p->worst = (enum severity)severity;
    p->count++;
    if (p->cli->format == FORMAT_TABLE)
        print_page(finding);
    else
        out_item(&p->out, finding);
}

static int report_end(struct report *p, int code) {
    if (code < 0 && p->count == 0)
        cli_note(p->cli, "nothing found");
    if (code < 0)
        code = p->worst == SEVERITY_CRITICAL ? CLI_CRITICAL
               : p->worst == SEVERITY_WARN   ? CLI_WARN
                                             : CLI_DONE;
    return out_finish(&p->out, code);
}

/* -- of a server ----------------------------------------------------------------------------- */

/* One page; `after` becomes where the next begins, empty after the last. */
static int ask_page(struct call *r, const char *queue, char after[static LIMIT_QUEUE_NAME + 1],
                    struct report *p) {
    call_begin(r);
    buf_add_str(&r->path, "/doctor");
    if (queue != NULL)
        call_query(r, "queue", queue);
    if (after[0] != '\0')
        call_query(r, "after", after);
    call_run(r, "GET", 0);
    int code = call_check(r, queue);
    if (code >= 0)
        return code;
    const struct json *findings = json_get(r->reply, "findings");
    for (size_t i = 0; json_is(findings, JSON_ARRAY) && i < json_count(findings); i++)
        report_add(p, json_at(findings, i));
    struct span next = call_text(r->reply, "next");
    if (next.n > LIMIT_QUEUE_NAME || (next.n > 0 && span_equal_str(next, after))) {
        cli_error(r->cli, "the server's findings do not go on");
        return CLI_FAILED;
    }
    if (next.n > 0)
        memcpy(after, next.p, next.n);
    after[next.n] = '\0';
    return -1;
}

static int ask_server(const struct cli *cli, const char *queue) {
    struct call r;
    struct report p;
    char after[LIMIT_QUEUE_NAME + 1] = "";
    call_init(&r, cli);
    report_begin(&p, cli);
    int code;
    do
        code = ask_page(&r, queue, after, &p);
    while (code < 0 && after[0] != '\0');
    call_release(&r);
    return report_end(&p, code);
}

/* -- of a file ------------------------------------------------------------------------------- */

static void put_member(struct json_writer *w, const char *name, struct span text) {
    json_name(w, name);
    json_put_string(w, text);
}

static void add_finding(void *ctx, const struct finding *f) {
    struct buf text;
    struct json_writer w;
    struct json_error error;
    buf_init(&text, TEXT_BYTES_MAX);
    json_writer_init(&w, &text);
    json_begin(&w, '{');
    put_member(&w, "code", span_str(f->code));
    put_member(&w, "severity", span_str(severity_name(f->severity)));
    put_member(&w, "queue", f->queue);
    put_member(&w, "fact", f->fact);
    put_member(&w, "fix", f->fix);
    json_end(&w, '}');
    struct json *finding = json_parse(buf_span(&text), &error);
    report_add(ctx, finding);
    json_free(finding);
    buf_release(&text);
}

/* A target that is not in the file may be on the server: nothing is known of it. */
static enum doctor_target target_of(const struct policy_file *file, const struct policy_entry *e) {
    const struct policy_entry *target = policy_file_find(file, e->texts.target);
    if (target == NULL)
        return TARGET_FINE;
    if (!policy_admits(&target->texts, span_str(e->queue)))
        return TARGET_REFUSES;
    return target->texts.target.n > 0 ? TARGET_MOVES_ON : TARGET_FINE;
}

static const struct policy_entry *sharer_of(const struct policy_file *file,
                                            const struct policy_entry *e) {
    for (size_t i = 0; e->texts.target.n > 0 && e->texts.owner.n > 0 && i < file->count; i++) {
        const struct policy_entry *other = &file->entries[i];
        if (other->texts.owner.n > 0 && span_equal(other->texts.target, e->texts.target) &&
            !span_equal(other->texts.owner, e->texts.owner))
            return other;
    }
    return NULL;
}

static int check_file(const struct cli *cli, const char *path, const char *queue) {
    struct policy_file file;
    int code = policy_file_read(cli, path, &file);
    if (code >= 0)
        return code;
    struct report p;
    report_begin(&p, cli);
    bool is_found = queue == NULL;
    for (size_t i = 0; i < file.count; i++) {
        const struct policy_entry *e = &file.entries[i], *sharer = sharer_of(&file, e);
        if (queue != NULL && strcmp(queue, e->queue) != 0)
            continue;
        is_found = true;
        const struct doctor_queue facts = {
            .name = span_str(e->queue),
            .policy = &e->policy,
            .texts = &e->texts,
            .target = target_of(&file, e),
            .sharer = sharer != NULL ? span_str(sharer->queue) : span_str(""),
            .sharer_owner = sharer != NULL ? sharer->texts.owner : span_str(""),
        };
        doctor_check_queue(&facts, add_finding, &p);
    }
    policy_file_release(&file);
    if (!is_found) {
        cli_error(cli, "%s: no such queue in %s", queue, path);
        code = CLI_NOT_FOUND;
    }
    return report_end(&p, code);
}

int command_doctor(struct cli *cli, int argc, char **argv) {
    const char *file = NULL;
    const struct option_spec specs[] = {
        {.name = "file",
         .letter = 'f',
         .value = "FILE",
         .text = &file,
         .help = "check the policies in FILE (-: standard input), as nixie apply takes them; no "
                 "server is asked"},
        OPTION_END,
    };
    int first;
    int code = options_parse(cli, specs, argc, argv, &first);
    const char *queue = code < 0 && first < argc ? argv[first] : NULL;
    if (code < 0 && queue != NULL)
        code = input_check_queue(cli, queue);
    if (code >= 0)
        return code;
    return file != NULL ? check_file(cli, file, queue) : ask_server(cli, queue);
}
