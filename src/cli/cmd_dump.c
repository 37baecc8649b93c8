/* nixie dump: the policies of the server as a file that nixie apply takes. */
#include "cli/call.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/out.h"
#include "cli/queue_walk.h"
#include "cli/text.h"
#include "cli/yaml.h"

#include <stdio.h>

struct dump {
    uint64_t queues;
};

static bool print(void *ctx, const struct json *queue) {
    struct dump *d = ctx;
    struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    if (d->queues++ == 0)
        buf_add_str(&text, "queues:\n");
    buf_add_str(&text, "  ");
    yaml_add_text(call_text(queue, "queue"), &text);
    buf_add_str(&text, ":\n");
    const struct json *policy = json_get(queue, "policy");
    if (json_is(policy, JSON_OBJECT))
        yaml_add_object(policy, 4, &text);
    (void)fwrite(text.p, 1, text.n, stdout);
    buf_release(&text);
    return true;
}

int command_dump(struct cli *cli, int argc, char **argv) {
    const struct option_spec specs[] = {OPTION_END};
    int first;
    int code = options_parse(cli, specs, argc, argv, &first);
    if (code >= 0)
        return code;
    struct dump d = {0};
    struct call r;
    call_init(&r, cli);
    code = first < argc ? queue_walk_named(&r, argv + first, argc - first, print, &d)
                        : queue_walk(&r, print, &d);
    call_release(&r);
    if (code < 0 && d.queues == 0)
        (void)puts("queues: {}");
    return out_check(cli, code < 0 ? CLI_DONE : code);
}
