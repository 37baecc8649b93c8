#include "cli/input.h"

#include "base/json.h"
#include "base/limits.h"
#include "cli/text.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { READ_BYTES = 64 * 1024 };

/* 1: bytes came, 0: the end, -1: errno. At most n bytes. */
static int read_some(int fd, size_t n, struct buf *to) {
    for (;;) {
        ssize_t got = read(fd, buf_reserve(to, n), n);
        if (got > 0) {
            to->n += (size_t)got;
            return 1;
        }
        if (got == 0)
            return 0;
        if (errno != EINTR)
            return -1;
    }
}

int input_read_file(const struct cli *cli, const char *path, size_t bytes_max, struct buf *ret) {
    bool is_stdin = strcmp(path, "-") == 0;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        cli_error(cli, "%s: %s", path, strerror(errno));
        return CLI_FAILED;
    }
    int got = 1, code = -1;
    while (got > 0 && ret->n <= bytes_max) {
        size_t room = bytes_max + 1 - ret->n;
        got = read_some(fd, room < READ_BYTES ? room : READ_BYTES, ret);
    }
    if (got < 0) {
        cli_error(cli, "%s: %s", is_stdin ? "standard input" : path, strerror(errno));
        code = CLI_FAILED;
    } else if (ret->n > bytes_max) {
        cli_error(cli, "%s: longer than %zu bytes", is_stdin ? "standard input" : path, bytes_max);
        code = CLI_FAILED;
    }
    if (!is_stdin)
        (void)close(fd);
    return code;
}

/* -- lines ----------------------------------------------------------------------------------- */

void input_lines_init(struct input_lines *in, int fd, size_t line_max) {
    *in = (struct input_lines){.fd = fd, .name = "standard input", .line_max = line_max};
    buf_init(&in->pending, line_max + 1 + READ_BYTES);
}

void input_lines_release(struct input_lines *in) {
    buf_release(&in->pending);
}

static int hand_out(struct input_lines *in, size_t line_bytes, size_t with_newline,
                    struct span *ret_line) {
    *ret_line = span_of(in->pending.p + in->consumed, line_bytes);
    in->consumed += with_newline;
    in->scanned = 0;
    in->count++;
    return 1;
}

int input_lines_next(struct input_lines *in, const struct cli *cli, struct span *ret_line) {
    for (;;) {
        size_t left = in->pending.n - in->consumed;
        const uint8_t *start = left > 0 ? in->pending.p + in->consumed : NULL;
        const uint8_t *newline =
            left > 0 ? memchr(start + in->scanned, '\n', left - in->scanned) : NULL;
        if (newline != NULL && (size_t)(newline - start) <= in->line_max)
            return hand_out(in, (size_t)(newline - start), (size_t)(newline - start) + 1, ret_line);
        in->scanned = left;
        if (left > in->line_max) {
            cli_error(cli, "%s, line %llu: longer than %zu bytes", in->name,
                      (unsigned long long)in->count + 1, in->line_max);
            return -1;
        }
        if (in->is_at_end)
            return left > 0 ? hand_out(in, left, left, ret_line) : 0;
        buf_consume(&in->pending, in->consumed);
        in->consumed = 0;
        int got = read_some(in->fd, READ_BYTES, &in->pending);
        if (got < 0) {
            cli_error(cli, "%s: %s", in->name, strerror(errno));
            return -1;
        }
        in->is_at_end = got == 0;
    }
}

/* -- ids ------------------------------------------------------------------------------------- */

void input_ids_release(struct input_ids *in) {
    if (in->is_reading)
        input_lines_release(&in->lines);
    buf_release(&in->lease);
}

static bool parse_id(struct span text, uint64_t *ret) {
    int64_t v;
    if (text_number(text, 1, (int64_t)LIMIT_ID, &v) != OK)
        return false;
    *ret = (uint64_t)v;
    return true;
}

int input_ids_init(struct input_ids *in, const struct cli *cli, char **args, int n) {
    for (int i = 0; i < n; i++) {
        uint64_t id;
        if (strcmp(args[i], "-") != 0 && !parse_id(span_str(args[i]), &id))
            return cli_usage_error(cli, "%s: not an id (a whole number, 1 or more)", args[i]);
    }
    *in = (struct input_ids){.args = args, .args_left = n};
    buf_init(&in->lease, INPUT_LINE_MAX);
    return -1;
}

/* A line as `nixie claim` or `nixie ls` prints it. */
static bool parse_object(struct input_ids *in, struct span line, struct input_id *ret) {
    struct json_error ignored;
    struct json *root = json_parse(line, &ignored);
    const struct json *id = json_get(root, "id"), *lease = json_get(root, "lease");
    bool is_good =
        json_is(id, JSON_INTEGER) && json_integer(id) >= 1 && json_integer(id) <= (int64_t)LIMIT_ID;
    if (is_good) {
        ret->id = (uint64_t)json_integer(id);
        if (json_is(lease, JSON_STRING))
            buf_add_span(&in->lease, json_string(lease));
    }
    json_free(root);
    ret->lease = buf_span(&in->lease);
    return is_good;
}

static int next_line_id(struct input_ids *in, const struct cli *cli, struct input_id *ret) {
    struct span line;
    int got;
    do {
        got = input_lines_next(&in->lines, cli, &line);
        while (got > 0 && line.n > 0 && (line.p[line.n - 1] == ' ' || line.p[line.n - 1] == '\r'))
            line.n--;
    } while (got > 0 && line.n == 0);
    if (got <= 0)
        return got;
    if (parse_id(line, &ret->id) || parse_object(in, line, ret))
        return 1;
    cli_error(cli, "standard input, line %llu: neither an id nor a JSON object with one",
              (unsigned long long)in->lines.count);
    return -1;
}

int input_ids_next(struct input_ids *in, const struct cli *cli, struct input_id *ret) {
    for (;;) {
        *ret = (struct input_id){.id = 0};
        buf_clear(&in->lease);
        if (in->is_reading) {
            int got = next_line_id(in, cli, ret);
            if (got != 0)
                return got;
            input_lines_release(&in->lines);
            in->is_reading = false;
        }
        if (in->args_left == 0)
            return 0;
        const char *arg = *in->args++;
        in->args_left--;
        if (strcmp(arg, "-") == 0) {
            input_lines_init(&in->lines, STDIN_FILENO, INPUT_LINE_MAX);
            in->is_reading = true;
            continue;
        }
        bool is_id = parse_id(span_str(arg), &ret->id);
        assert(is_id); /* input_ids_init looked */
        return 1;
    }
}

/* -- checks ---------------------------------------------------------------------------------- */

int input_check_text(const struct cli *cli, const char *what, const char *text, size_t bytes_max) {
    if (text == NULL)
        return -1;
    if (!span_is_utf8(span_str(text)))
        return cli_usage_error(cli, "%s: not UTF-8", what);
    if (strlen(text) > bytes_max)
        return cli_usage_error(cli, "%s: longer than %zu bytes", what, bytes_max);
    return -1;
}

int input_check_queue(const struct cli *cli, const char *name) {
    if (name[0] == '\0')
        return cli_usage_error(cli, "the queue's name is empty");
    return input_check_text(cli, "the queue's name", name, LIMIT_QUEUE_NAME);
}
