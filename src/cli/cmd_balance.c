/* nixie balance: the equation by which no message is lost, of every queue. */
#include "cli/call.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/out.h"
#include "cli/queue_walk.h"
#include "cli/text.h"

#include <inttypes.h>

static const struct column columns[] = {
    {.title = "ACCEPTED", .is_right = true},
    {.title = "MOVED IN", .is_right = true},
    {.title = "PENDING", .is_right = true},
    {.title = "PROCESSING", .is_right = true},
    {.title = "PARKED", .is_right = true},
    {.title = "DEAD", .is_right = true},
    {.title = "SUCCEEDED", .is_right = true},
    {.title = "DISCARDED", .is_right = true},
    {.title = "MOVED OUT", .is_right = true},
    {.title = "HOLDS"},
    {.title = "QUEUE"},
};

static const char *const terms_in[] = {"accepted", "moved_in"};
static const char *const terms_out[] = {"pending",         "processing",      "parked",   "dead",
                                        "succeeded_total", "discarded_total", "moved_out"};
enum { TERMS_IN = 2, TERMS_OUT = 7 };

struct balance {
    struct cli *cli;
    struct out out;
    uint64_t queues, broken;
};

static void add_row(struct out *o, const struct json *item) {
    for (int i = 0; i < TERMS_IN; i++)
        out_cell_member(o, item, terms_in[i]);
    for (int i = 0; i < TERMS_OUT; i++)
        out_cell_member(o, item, terms_out[i]);
    out_cell_member(o, item, "holds");
    out_cell_member(o, item, "queue");
}

/* The sum of terms, all of which must be there. */
static bool add_up(const struct json *terms, const char *const names[], int n, int64_t *ret_sum) {
    int64_t sum = 0;
    for (int i = 0; i < n; i++) {
        int64_t term = call_number(terms, names[i], -1);
        if (term < 0 || __builtin_add_overflow(sum, term, &sum))
            return false;
    }
    *ret_sum = sum;
    return true;
}

/* The server's word is not enough: the terms are added up here. */
static bool holds(const struct balance *b, const struct json *queue, const struct json *terms) {
    int64_t in, out;
    struct buf name;
    buf_init(&name, TEXT_BYTES_MAX);
    text_escape(call_text(queue, "queue"), TEXT_ONE_LINE, &name);
    bool is_so =
        add_up(terms, terms_in, TERMS_IN, &in) && add_up(terms, terms_out, TERMS_OUT, &out);
    if (!is_so)
        cli_error(b->cli, "%.*s: a term is missing", (int)name.n, (const char *)name.p);
    else if (in != out)
        cli_error(b->cli, "%.*s: %" PRId64 " came in, and %" PRId64 " are accounted for",
                  (int)name.n, (const char *)name.p, in, out);
    buf_release(&name);
    return is_so && in == out;
}

static void print(struct balance *b, const struct json *queue, const struct json *terms,
                  bool is_so) {
    struct buf text;
    struct json_writer w;
    struct json_error error;
    buf_init(&text, TEXT_BYTES_MAX);
    json_writer_init(&w, &text);
    json_begin(&w, '{');
    json_name(&w, "queue");
    json_put_string(&w, call_text(queue, "queue"));
    for (int i = 0; i < TERMS_IN; i++)
        call_put_number(&w, terms_in[i], call_number(terms, terms_in[i], OPTION_NOT_GIVEN));
    for (int i = 0; i < TERMS_OUT; i++)
        call_put_number(&w, terms_out[i], call_number(terms, terms_out[i], OPTION_NOT_GIVEN));
    json_name(&w, "holds");
    json_put_bool(&w, is_so);
    json_end(&w, '}');
    struct json *item = json_parse(buf_span(&text), &error);
    out_item(&b->out, item);
    json_free(item);
    buf_release(&text);
}

static bool weigh(void *ctx, const struct json *queue) {
    struct balance *b = ctx;
    const struct json *terms = json_get(queue, "conservation");
    bool is_so = holds(b, queue, terms);
    b->queues++;
    b->broken += !is_so;
    print(b, queue, terms, is_so);
    return true;
}

int command_balance(struct cli *cli, int argc, char **argv) {
    const struct option_spec specs[] = {OPTION_END};
    int first;
    int code = options_parse(cli, specs, argc, argv, &first);
    if (code >= 0)
        return code;
    struct balance b = {.cli = cli};
    struct call r;
    call_init(&r, cli);
    out_init(&b.out, cli, true, columns, sizeof columns / sizeof columns[0], add_row);
    code = first < argc ? queue_walk_named(&r, argv + first, argc - first, weigh, &b)
                        : queue_walk(&r, weigh, &b);
    call_release(&r);
    if (code < 0)
        code = b.broken > 0 ? CLI_FAILED : CLI_DONE;
    code = out_finish(&b.out, code);
    if (b.queues > 0)
        cli_note(cli,
                 "accepted + moved in = pending + processing + parked + dead + succeeded + "
                 "discarded + moved out: holds for %" PRIu64 " of %" PRIu64 " queues",
                 b.queues - b.broken, b.queues);
    return code;
}
