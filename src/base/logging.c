#include "base/logging.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LINE_SIZE = 2048, EXIT_FATAL = 70 };

static const char *const names[] = {
    [LOG_LEVEL_ERROR] = "error",
    [LOG_LEVEL_WARN] = "warn",
    [LOG_LEVEL_INFO] = "info",
    [LOG_LEVEL_DEBUG] = "debug",
};

static atomic_int level_max = LOG_LEVEL_INFO;

void log_level_set(enum log_level level) {
    atomic_store_explicit(&level_max, (int)level, memory_order_relaxed);
}

int log_level_parse(const char *name) {
    for (int i = 0; i <= LOG_LEVEL_DEBUG; i++) {
        if (strcmp(name, names[i]) == 0)
            return i;
    }
    return -1;
}

static void write_all(const char *p, size_t n) {
    while (n > 0) {
        ssize_t written = write(STDERR_FILENO, p, n);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return; /* there is nobody left to tell */
        p += written;
        n -= (size_t)written;
    }
}

/* One write a line, so that lines of two threads do not mix; a longer one is cut. */
static void write_line(const char *word, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

static void write_line(const char *word, const char *format, va_list args) {
    int saved_errno = errno;
    char line[LINE_SIZE];
    int head = snprintf(line, sizeof line, "%s ", word);
    size_t n = head > 0 ? (size_t)head : 0;

    int body = vsnprintf(line + n, sizeof line - n, format, args);
    if (body > 0)
        n += (size_t)body;
    if (n > sizeof line - 1)
        n = sizeof line - 1;

    /* Texts of clients end up here: they must not be able to forge a line or drive a terminal. */
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)line[i];
        if (c < 0x20 || c == 0x7f)
            line[i] = ' ';
    }
    line[n++] = '\n';
    write_all(line, n);
    errno = saved_errno;
}

static int level_is_on(enum log_level level) {
    return (int)level <= atomic_load_explicit(&level_max, memory_order_relaxed);
}

void log_error(const char *format, ...) {
    va_list args;
    va_start(args, format);
    write_line("ERROR", format, args);
    va_end(args);
}

void log_warn(const char *format, ...) {
    if (!level_is_on(LOG_LEVEL_WARN))
        return;
    va_list args;
    va_start(args, format);
    write_line("WARN", format, args);
    va_end(args);
}

void log_info(const char *format, ...) {
    if (!level_is_on(LOG_LEVEL_INFO))
        return;
    va_list args;
    va_start(args, format);
    write_line("INFO", format, args);
    va_end(args);
}

void log_debug(const char *format, ...) {
    if (!level_is_on(LOG_LEVEL_DEBUG))
        return;
    va_list args;
    va_start(args, format);
    write_line("DEBUG", format, args);
    va_end(args);
}

void log_fatal(const char *format, ...) {
    va_list args;
    va_start(args, format);
    write_line("FATAL", format, args);
    va_end(args);
    _exit(EXIT_FATAL);
}
