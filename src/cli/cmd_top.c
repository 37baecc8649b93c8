/* nixie top: the queues, or the causes of death, on a terminal, anew each second. Each look is one
 * request of one page; what it said before is kept only to tell how many died within a minute. */
#include "cli/call.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/text.h"

#include "base/clock.h"
#include "base/mem.h"

#define NCURSES_NOMACROS
#include <curses.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PAGE = 1000,
    SAMPLES = 61, /* of a minute, one a second */
    LOOK_MS = 1000,
    KEY_CONTROL_C = 3,
    CELL_BYTES_MAX = 64 * 1024,
};

enum tab { TAB_QUEUES, TAB_GROUPS };

static const char *const queue_orders[] = {"dead", "deaths/min", "ready", "name"};
static const char *const group_orders[] = {"last_seen", "count", "first_seen", "title"};
enum { ORDERS = 4 };

/* Of one queue: how many had died, second by second. */
struct deaths {
    char name[LIMIT_QUEUE_NAME + 1];
    int64_t totals[SAMPLES], at_ms[SAMPLES];
    unsigned count, next;
    uint64_t seen_in; /* the look that saw it last */
};

struct row {
    const struct json *item;
    int64_t order;
    struct span name;
};

struct top {
    struct call call;
    enum tab tab;
    unsigned order[2]; /* of each tab */
    struct deaths *deaths;
    size_t deaths_count, deaths_cap;
    uint64_t looks;
    struct buf cell, escaped; /* of what is drawn */
    struct buf trouble;       /* why the newest look failed */
};

/* -- deaths a minute ------------------------------------------------------------------------- */

static struct deaths *deaths_of(struct top *t, struct span name) {
    for (size_t i = 0; i < t->deaths_count; i++) {
        if (span_equal_str(name, t->deaths[i].name))
            return &t->deaths[i];
    }
    if (t->deaths_count == t->deaths_cap) {
        t->deaths_cap = t->deaths_cap == 0 ? 64 : t->deaths_cap * 2;
        t->deaths = mem_grow(t->deaths, t->deaths_cap * sizeof *t->deaths);
    }
    struct deaths *d = &t->deaths[t->deaths_count++];
    memset(d, 0, sizeof *d);
    memcpy(d->name, name.p, name.n);
    return d;
}

static void note_deaths(struct top *t, const struct json *queue, int64_t now_ms) {
    struct span name = call_text(queue, "queue");
    if (name.n > LIMIT_QUEUE_NAME)
        return;
    struct deaths *d = deaths_of(t, name);
    int64_t total = call_number(queue, "deaths_total", 0);
    unsigned newest = (d->next + SAMPLES - 1) % SAMPLES;
    if (d->count > 0 && total < d->totals[newest])
        d->count = 0; /* another queue of that name */
    d->seen_in = t->looks;
    d->totals[d->next] = total;
    d->at_ms[d->next] = now_ms;
    d->next = (d->next + 1) % SAMPLES;
    if (d->count < SAMPLES)
        d->count++;
}

/* Within the last minute, or since the first look. */
static int64_t deaths_a_minute(struct top *t, const struct json *queue) {
    struct span name = call_text(queue, "queue");
    if (name.n > LIMIT_QUEUE_NAME)
        return 0;
    const struct deaths *d = deaths_of(t, name);
    if (d->count == 0)
        return 0;
    unsigned newest = (d->next + SAMPLES - 1) % SAMPLES, oldest = newest;
    for (unsigned i = 1; i < d->count; i++) {
        unsigned at = (newest + SAMPLES - i) % SAMPLES;
        if (d->at_ms[newest] - d->at_ms[at] > 60 * LOOK_MS)
            break;
        oldest = at;
    }
    return d->totals[newest] - d->totals[oldest];
}

/* Those of queues that are gone. */
static void forget_deaths(struct top *t) {
    for (size_t i = 0; i < t->deaths_count;) {
        if (t->deaths[i].seen_in == t->looks)
            i++;
        else
            t->deaths[i] = t->deaths[--t->deaths_count];
    }
}

/* -- looking --------------------------------------------------------------------------------- */

static const struct json *items_of(const struct top *t) {
    return json_get(t->call.reply, t->tab == TAB_QUEUES ? "queues" : "groups");
}

/* What could not be seen is told in t->trouble. */
static void look(struct top *t) {
    struct call *r = &t->call;
    call_begin(r);
    if (t->tab == TAB_QUEUES)
        buf_printf(&r->path, "/queues?limit=%d", PAGE);
    else
        buf_printf(&r->path, "/groups?limit=%d&sort=%s", PAGE, group_orders[t->order[TAB_GROUPS]]);
    call_run(r, "GET", 0);
    buf_clear(&t->trouble);
    if (!call_is_success(r)) {
        call_explain(r, &t->trouble);
        return;
    }
    if (t->tab == TAB_GROUPS)
        return;
    t->looks++;
    int64_t now_ms = clock_monotonic_us() / 1000;
    const struct json *queues = items_of(t);
    for (size_t i = 0; i < json_count(queues); i++)
        note_deaths(t, json_at(queues, i), now_ms);
    forget_deaths(t);
}

static int compare_rows(const void *pa, const void *pb) {
    const struct row *a = pa, *b = pb;
    if (a->order != b->order)
        return a->order > b->order ? -1 : 1;
    return span_compare(a->name, b->name);
}

/* The queues in their order; groups come in theirs. The caller frees it. */
static struct row *rows_of(struct top *t, size_t *ret_n) {
    const struct json *items = items_of(t);
    size_t n = json_count(items);
    struct row *rows = mem_alloc((n + 1) * sizeof *rows);
    for (size_t i = 0; i < n; i++) {
        const struct json *item = json_at(items, i);
        const struct json *counts = json_get(item, "counts");
        unsigned order = t->order[TAB_QUEUES];
        rows[i] = (struct row){.item = item, .name = call_text(item, "queue")};
        if (order < 3)
            rows[i].order = order == 0   ? call_number(counts, "dead", 0)
                            : order == 1 ? deaths_a_minute(t, item)
                                         : call_number(counts, "ready", 0);
    }
    if (t->tab == TAB_QUEUES)
        qsort(rows, n, sizeof *rows, compare_rows);
    *ret_n = n;
    return rows;
}

/* -- drawing --------------------------------------------------------------------------------- */

/* The text in at most `width` columns, harmless on a terminal. */
static void draw_text(struct top *t, int y, int x, int width, struct span text) {
    int left = getmaxx(stdscr) - x;
    int columns = width < left ? width : left;
    if (columns < 1)
        return;
    buf_clear(&t->escaped);
    text_escape(span_cut_utf8(text, CELL_BYTES_MAX), TEXT_ONE_LINE, &t->escaped);
    buf_clear(&t->cell);
    text_add_clipped(buf_span(&t->escaped), (size_t)columns, &t->cell);
    mvaddnstr(y, x, (const char *)t->cell.p, (int)t->cell.n);
}

static void draw_right(struct top *t, int y, int x, int width, const char *text) {
    int n = (int)strlen(text);
    draw_text(t, y, n < width ? x + width - n : x, n, span_str(text));
}

static void draw_number(struct top *t, int y, int x, int width, int64_t number) {
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)number);
    draw_right(t, y, x, width, text);
}

/* How long ago a time of a reply was; "-" when there is none. */
static void draw_age(struct top *t, int y, int x, int width, struct span time) {
    int64_t ms;
    struct buf text;
    buf_init(&text, 64);
    if (time_parse(time, &ms) == OK) {
        int64_t age_ms = clock_now_ms() - ms;
        text_add_duration(age_ms > 0 ? age_ms / 1000 * 1000 : 0, &text);
    } else {
        buf_add_byte(&text, '-');
    }
    buf_add_byte(&text, '\0');
    draw_right(t, y, x, width, (const char *)text.p);
    buf_release(&text);
}

static const char *state_of(const struct json *queue) {
    struct span breaker = call_text(json_get(queue, "breaker"), "state");
    if (json_is(json_get(queue, "paused"), JSON_OBJECT))
        return "paused";
    if (span_equal_str(breaker, "open"))
        return "breaker open";
    if (span_equal_str(breaker, "half_open"))
        return "half open";
    return "-";
}

static void draw_queue(struct top *t, int y, const struct json *queue) {
    const struct json *counts = json_get(queue, "counts");
    draw_number(t, y, 0, 9, call_number(counts, "ready", 0));
    draw_number(t, y, 10, 10, call_number(counts, "processing", 0));
    draw_number(t, y, 21, 9, call_number(counts, "dead", 0));
    draw_number(t, y, 31, 10, deaths_a_minute(t, queue));
    draw_age(t, y, 42, 9, call_text(queue, "oldest_death"));
    draw_number(t, y, 52, 9, call_number(queue, "consumers", 0));
    draw_text(t, y, 63, 12, span_str(state_of(queue)));
    draw_text(t, y, 77, LIMIT_QUEUE_NAME, call_text(queue, "queue"));
}

static void draw_group(struct top *t, int y, const struct json *group) {
    draw_number(t, y, 0, 9, call_number(group, "count", 0));
    draw_number(t, y, 10, 9, call_number(group, "last_hour", 0));
    draw_age(t, y, 20, 9, call_text(group, "last_seen"));
    draw_text(t, y, 31, 12, call_text(group, "state"));
    draw_text(t, y, 45, 20, call_text(group, "queue"));
    draw_text(t, y, 67, CELL_BYTES_MAX, call_text(group, "title"));
}

static void draw_heads(struct top *t) {
    bool queues = t->tab == TAB_QUEUES;
    char text[128];
    snprintf(text, sizeof text, "nixie top: %s by %s   tab switch   s sort   q quit",
             queues ? "queues" : "causes",
             queues ? queue_orders[t->order[TAB_QUEUES]] : group_orders[t->order[TAB_GROUPS]]);
    draw_text(t, 0, 0, (int)sizeof text, span_str(text));
    attron(A_REVERSE);
    mvhline(2, 0, ' ', getmaxx(stdscr));
    draw_text(t, 2, 0, 256,
              span_str(queues
                           ? "    READY PROCESSING      DEAD DEATHS/MIN    OLDEST CONSUMERS  "
                             "STATE         QUEUE"
                           : "    COUNT LAST HOUR LAST SEEN  STATE         QUEUE                 "
                             "CAUSE"));
    attroff(A_REVERSE);
}

static void draw(struct top *t) {
    size_t n = 0;
    erase();
    draw_heads(t);
    if (t->trouble.n > 0) {
        draw_text(t, 1, 0, CELL_BYTES_MAX, buf_span(&t->trouble));
    } else {
        struct row *rows = rows_of(t, &n);
        for (size_t i = 0; i < n && 3 + (int)i < getmaxy(stdscr); i++) {
            if (t->tab == TAB_QUEUES)
                draw_queue(t, 3 + (int)i, rows[i].item);
            else
                draw_group(t, 3 + (int)i, rows[i].item);
        }
        free(rows);
        if (n == 0)
            draw_text(
                t, 3, 0, 64,
                span_str(t->tab == TAB_QUEUES ? "there are no queues yet" : "nothing is dead"));
    }
    refresh();
}

/* -- keys ------------------------------------------------------------------------------------ */

/* Waits for keys until the next look is due, or one asks for it; false: it is over. */
static bool wait_keys(struct top *t) {
    int64_t until = clock_monotonic_us() / 1000 + LOOK_MS;
    for (;;) {
        int64_t left = until - clock_monotonic_us() / 1000;
        if (left <= 0)
            return true;
        wtimeout(stdscr, (int)left);
        switch (wgetch(stdscr)) {
        case 'q':
        case KEY_CONTROL_C:
            return false;
        case '\t':
            t->tab = t->tab == TAB_QUEUES ? TAB_GROUPS : TAB_QUEUES;
            clearok(stdscr, TRUE);
            return true;
        case 's':
            t->order[t->tab] = (t->order[t->tab] + 1) % ORDERS;
            clearok(stdscr, TRUE);
            return true;
        case KEY_RESIZE:
            draw(t);
            break;
        default:
            break;
        }
    }
}

static int watch(struct cli *cli) {
    struct top t = {.tab = TAB_QUEUES};
    call_init(&t.call, cli);
    buf_init(&t.cell, TEXT_BYTES_MAX);
    buf_init(&t.escaped, TEXT_BYTES_MAX);
    buf_init(&t.trouble, TEXT_BYTES_MAX);
    do {
        look(&t);
        draw(&t);
    } while (wait_keys(&t));
    call_release(&t.call);
    buf_release(&t.cell);
    buf_release(&t.escaped);
    buf_release(&t.trouble);
    free(t.deaths);
    return CLI_DONE;
}

int command_top(struct cli *cli, int argc, char **argv) {
    const struct option_spec specs[] = {OPTION_END};
    int first;
    int code = options_parse(cli, specs, argc, argv, &first);
    if (code >= 0)
        return code;
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return cli_usage_error(cli, "needs a terminal; nixie queues prints the same once");
    SCREEN *screen = newterm(NULL, stdout, stdin);
    if (screen == NULL)
        return cli_usage_error(cli, "cannot draw on this terminal: is TERM right?");
    raw(); /* Control-C is a key, so that the terminal is left as it was found */
    noecho();
    keypad(stdscr, TRUE);
    curs_set(0);
    code = watch(cli);
    endwin();
    delscreen(screen);
    return code;
}
