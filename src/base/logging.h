/* The server's own log: one line an event on stderr, "LEVEL message key=value ...". The level is
 * process-wide and set once at start. Any thread. Libraries below the server do not log; they
 * return errors and the server says what happened. */
#pragma once

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

void log_level_set(enum log_level level);
int log_level_parse(const char *name); /* -1 when it is none of error warn info debug */

void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Says why and ends the process at once with status 70 (EX_SOFTWARE): nothing is flushed, no reply
 * is sent. */
_Noreturn void log_fatal(const char *format, ...) __attribute__((format(printf, 1, 2)));
