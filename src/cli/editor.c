#include "cli/editor.h"

#include "cli/input.h"
#include "cli/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATH_BYTES_MAX = 1024 };

static int say(const struct cli *cli, const char *what) {
    cli_error(cli, "%s: %s", what, strerror(errno));
    return CLI_FAILED;
}

static bool write_all(int fd, struct span text) {
    while (text.n > 0) {
        ssize_t n = write(fd, text.p, text.n);
        if (n < 0 && errno != EINTR)
            return false;
        if (n > 0)
            text = span_of(text.p + n, text.n - (size_t)n);
    }
    return true;
}

/* Writes a new file; -1 and its path, or the exit code, said. */
static int write_file(const struct cli *cli, struct span text, char path[static PATH_BYTES_MAX]) {
    const char *folder = getenv("TMPDIR");
    int n = snprintf(path, PATH_BYTES_MAX, "%s/nixie-edit-XXXXXX",
                     folder != NULL && folder[0] != '\0' ? folder : "/tmp");
    errno = ENAMETOOLONG;
    int fd = n > 0 && n < PATH_BYTES_MAX ? mkstemp(path) : -1;
    if (fd < 0)
        return say(cli, path);
    bool is_written = write_all(fd, text);
    is_written = close(fd) == 0 && is_written;
    if (is_written)
        return -1;
    int code = say(cli, path);
    (void)unlink(path);
    return code;
}

/* By the shell, as others do: it may be "code --wait". */
static int run_editor(const struct cli *cli, const char *path) {
    const char *editor = getenv("VISUAL");
    if (editor == NULL || editor[0] == '\0')
        editor = getenv("EDITOR");
    if (editor == NULL || editor[0] == '\0')
        editor = "vi";
    struct buf command;
    buf_init(&command, TEXT_BYTES_MAX);
    buf_printf(&command, "%s \"$NIXIE_EDITED\"", editor);
    buf_add_byte(&command, '\0');
    (void)fflush(NULL);
    int status = setenv("NIXIE_EDITED", path, 1) == 0 ? system((const char *)command.p) : -1;
    buf_release(&command);
    if (status == 0)
        return -1;
    if (status == -1)
        return say(cli, editor);
    if (WIFEXITED(status))
        cli_error(cli, "%s ended with exit status %d; nothing was sent", editor,
                  WEXITSTATUS(status));
    else
        cli_error(cli, "%s ended by signal %d; nothing was sent", editor, WTERMSIG(status));
    return CLI_FAILED;
}

int editor_run(const struct cli *cli, struct span text, size_t bytes_max, struct buf *ret) {
    char path[PATH_BYTES_MAX];
    int code = write_file(cli, text, path);
    if (code >= 0)
        return code;
    code = run_editor(cli, path);
    if (code < 0)
        code = input_read_file(cli, path, bytes_max, ret);
    (void)unlink(path);
    bool had_newline = text.n > 0 && text.p[text.n - 1] == '\n';
    if (code < 0 && !had_newline && ret->n > 0 && ret->p[ret->n - 1] == '\n')
        ret->n--;
    return code;
}

void editor_keep(const struct cli *cli, struct span text) {
    char path[PATH_BYTES_MAX];
    if (write_file(cli, text, path) < 0)
        cli_error(cli, "what you wrote is kept in %s", path);
}
