#include "cli/ticker.h"

#include "base/clock.h"
#include "cli/text.h"

#include <stdio.h>
#include <unistd.h>

enum { TICK_US = 200 * 1000 };

void ticker_init(struct ticker *t, const struct cli *cli, const char *word, uint64_t total) {
    int64_t now_us = clock_monotonic_us();
    *t = (struct ticker){.word = word,
                         .total = total,
                         .is_shown = !cli->quiet && isatty(STDERR_FILENO),
                         .started_us = now_us,
                         .shown_us = now_us};
}

void ticker_count(struct ticker *t, uint64_t count) {
    int64_t now_us = clock_monotonic_us();
    if (!t->is_shown || now_us - t->shown_us < TICK_US)
        return;
    uint64_t elapsed_us = (uint64_t)(now_us - t->started_us);
    struct buf line;
    buf_init(&line, 256);
    buf_add_str(&line, "\r\x1b[K");
    text_add_grouped(count, &line);
    if (t->total > 0) {
        buf_add_str(&line, " of ");
        text_add_grouped(t->total, &line);
    }
    buf_printf(&line, " %s | ", t->word);
    text_add_grouped(count * 1000000 / (elapsed_us > 0 ? elapsed_us : 1), &line);
    buf_add_str(&line, "/s");
    (void)fwrite(line.p, 1, line.n, stderr);
    (void)fflush(stderr);
    buf_release(&line);
    t->shown_us = now_us;
    t->has_line = true;
}

void ticker_clear(struct ticker *t) {
    if (t->has_line)
        (void)fputs("\r\x1b[K", stderr);
    t->has_line = false;
}
