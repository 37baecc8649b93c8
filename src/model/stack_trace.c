/* Stack traces.
 *
 * F1 A trace has one dialect, that of its first frame: what looks like a frame of another is text.
 * F2 A section is the frames of one exception. Sections of the exceptions around the root cause are
 *    kept only for the case that the root cause has no frame of the application.
 * F3 Frames are spans of the detail; nothing is allocated and a line is looked at a fixed number of
 *    times.
 * F4 All of it is part of the keys of version 1: no change, not even for the better. */
#include "model/ascii.h"
#include "model/fingerprint.h"

#include <string.h>

enum {
    NAME_MAX_BYTES = 160,
    FILE_MAX_BYTES = 64,
    HASH_LEAST = 8,
    RUST_HASH_BYTES = 19,
    LINE_LEAST = 4
};

enum dialect {
    DIALECT_NONE,
    DIALECT_PYTHON,
    DIALECT_JAVA, /* and .NET */
    DIALECT_NODE,
    DIALECT_GO,
    DIALECT_RUBY,
    DIALECT_PHP,
    DIALECT_RUST,
};

struct frame {
    struct span name, file; /* either may be empty */
};

/* The top frames, of all that were seen (n). */
struct pick {
    struct frame frames[FINGERPRINT_FRAMES];
    size_t n;
};

struct section {
    struct pick own, runtime;
};

struct trace {
    enum dialect dialect;
    struct section now, outer;
    bool is_done;             /* the root cause has been seen: what follows is around it */
    bool is_suppressed;       /* what follows is no cause, ... */
    size_t suppressed_indent; /* ... until one that is indented less */
    bool after_from;          /* Ruby: the last frame was a caller */
    bool has_backtrace;       /* Rust: the numbered lines are frames */
    struct span previous;     /* line; Go: the function of a frame */
};

/* -- texts ----------------------------------------------------------------------------------- */

/* The first byte tells it nearly always. Inline, like those below: the word is a constant then. */
static inline bool begins(struct span s, const char *word) {
    if (s.n == 0 || s.p[0] != (uint8_t)word[0])
        return false;
    size_t n = strlen(word);
    return s.n >= n && memcmp(s.p, word, n) == 0;
}

static bool begins_any(struct span s, const char *const words[]) {
    for (size_t i = 0; words[i] != NULL; i++) {
        if (begins(s, words[i]))
            return true;
    }
    return false;
}

static bool ends(struct span s, uint8_t c) {
    return s.n > 0 && s.p[s.n - 1] == c;
}

static inline struct span from(struct span s, size_t i) {
    return span_of(s.p + i, s.n - i);
}

/* Where word begins in s, s.n when it does not. Words are short: this is faster than memmem. */
static inline size_t find(struct span s, const char *word) {
    size_t n = strlen(word);
    for (size_t i = 0; i + n <= s.n; i++) {
        const uint8_t *p = memchr(s.p + i, word[0], s.n - n + 1 - i);
        if (p == NULL)
            break;
        i = (size_t)(p - s.p);
        if (memcmp(p, word, n) == 0)
            return i;
    }
    return s.n;
}

static inline bool has(struct span s, const char *word) {
    return find(s, word) < s.n;
}

static size_t find_last(struct span s, uint8_t c) {
    const uint8_t *p = s.n > 0 ? memrchr(s.p, c, s.n) : NULL;
    return p != NULL ? (size_t)(p - s.p) : s.n;
}

static struct span without_start(struct span s, const char *word) {
    return begins(s, word) ? from(s, strlen(word)) : s;
}

static struct span up_to(struct span s, const char *word) {
    return span_of(s.p, find(s, word));
}

/* The digits at the start of s, or at its end. */
static size_t digits_at_start(struct span s) {
    size_t n = 0;
    while (n < s.n && is_digit(s.p[n]))
        n++;
    return n;
}

static size_t digits_at_end(struct span s) {
    size_t n = 0;
    while (n < s.n && is_digit(s.p[s.n - n - 1]))
        n++;
    return n;
}

static struct span base_name(struct span path) {
    size_t i = path.n;
    while (i > 0 && path.p[i - 1] != '/' && path.p[i - 1] != '\\')
        i--;
    return from(path, i);
}

/* -- frames and sections --------------------------------------------------------------------- */

static void pick_frame(struct pick *pick, const struct frame *f, bool keeps_last) {
    const struct frame *last = &pick->frames[(pick->n - 1) % FINGERPRINT_FRAMES];
    bool is_again =
        pick->n > 0 && span_equal(last->name, f->name) && span_equal(last->file, f->file);
    if (is_again || (!keeps_last && pick->n == FINGERPRINT_FRAMES))
        return; /* how deep a recursion went is not the cause */
    pick->frames[pick->n++ % FINGERPRINT_FRAMES] = *f;
}

static void add_frame(struct trace *t, enum dialect dialect, struct frame f, bool is_runtime) {
    if (t->dialect == DIALECT_NONE)
        t->dialect = dialect;
    if (t->dialect != dialect || t->is_done || t->is_suppressed)
        return;
    pick_frame(is_runtime ? &t->now.runtime : &t->now.own, &f, dialect == DIALECT_PYTHON);
}

static const struct section *better(const struct section *a, const struct section *b) {
    if (a->own.n > 0 || b->own.n > 0)
        return a->own.n > 0 ? a : b;
    return a->runtime.n > 0 ? a : b;
}

/* The frames that follow are of a cause of what was seen. */
static void begin_cause(struct trace *t) {
    if (t->is_done)
        return;
    t->outer = *better(&t->now, &t->outer);
    t->now = (struct section){.own.n = 0};
}

/* The frames that follow are around what was seen. */
static void end_cause(struct trace *t) {
    t->is_done |= t->now.own.n > 0;
}

/* -- dialects: each takes a line without its indentation ------------------------------------- */

/* File "/app/orders.py", line 17, in process */
static void take_python(struct trace *t, struct span line) {
    struct span path = from(line, strlen("File \""));
    path = up_to(path, "\", line ");
    struct span rest = from(line, strlen("File \"") + path.n);
    if (rest.n == 0)
        return;
    size_t in = find(rest, ", in ");
    struct span name = from(rest, in < rest.n ? in + strlen(", in ") : rest.n);
    bool is_library = has(path, "-packages");
    bool is_runtime = begins(path, "<frozen ") ||
                      (!is_library && (has(path, "/lib/python") || has(path, "\\Lib\\")));
    add_frame(t, DIALECT_PYTHON, (struct frame){name, base_name(path)}, is_runtime);
}

/* Without ":12:34" at its end. False when it has no line. */
static bool cut_position(struct span *location) {
    bool has_line = false;
    for (int i = 0; i < 2; i++) {
        size_t n = digits_at_end(*location);
        if (n == 0 || n == location->n || location->p[location->n - n - 1] != ':')
            break;
        location->n -= n + 1;
        has_line = true;
    }
    return has_line;
}

/* process (/app/orders.js:10:5), or without a name /app/orders.js:10:5 */
static void take_node(struct trace *t, struct span name, struct span location) {
    static const char *const runtime[] = {"node:",  "internal/", "<anonymous>",
                                          "native", "index ",    NULL};
    bool is_runtime = begins_any(location, runtime);
    if (!cut_position(&location) && !is_runtime)
        return;
    name = up_to(without_start(name, "async "), " [as ");
    add_frame(t, DIALECT_NODE, (struct frame){name, base_name(location)}, is_runtime);
}

/* com.acme.Orders.process(Orders.java:42); Acme.Orders.Process(Int32 id) in C:\Orders.cs:line 42 */
static void take_java(struct trace *t, struct span name) {
    static const char *const runtime[] = {
        "java.",  "javax.",       "jdk.",    "sun.", "com.sun.", "kotlin.", "kotlinx.coroutines.",
        "scala.", "groovy.lang.", "System.", NULL};
    if (!has(name, ".") || has(name, " "))
        return;
    bool is_runtime = begins_any(name, runtime);
    size_t module = find(name, "/");
    if (module < name.n && !has(span_of(name.p, module), "$")) {
        while (module < name.n && name.p[module] == '/')
            module++;
        name = from(name, module);
    }
    is_runtime |= begins_any(name, runtime);
    add_frame(t, DIALECT_JAVA, (struct frame){.name = name}, is_runtime);
}

static void take_at(struct trace *t, struct span body) {
    body.n -= body.n > 2 && begins(from(body, body.n - 2), " {") ? 2 : 0; /* Node: members follow */
    size_t paren = find(body, "(");
    if (paren == body.n) {
        take_node(t, span_of(body.p, 0), without_start(body, "async "));
    } else if (paren > 0 && body.p[paren - 1] == ' ') {
        struct span location = from(body, paren + 1);
        if (!ends(location, ')'))
            return;
        location.n--;
        take_node(t, span_of(body.p, paren - 1), location);
    } else {
        take_java(t, span_of(body.p, paren));
    }
}

/* #0 /app/Orders.php(10): App\Orders->process('7') */
static void take_php(struct trace *t, struct span line) {
    size_t digits = digits_at_start(from(line, 1));
    if (digits == 0 || !begins(from(line, 1 + digits), " "))
        return;
    struct span rest = from(line, digits + 2);
    bool is_runtime = begins(rest, "[internal function]: ");
    size_t colon = find(rest, is_runtime ? ": " : "): ");
    if (colon == rest.n)
        return;
    struct span file = span_of(rest.p, is_runtime ? 0 : colon);
    struct span name = up_to(from(rest, colon + (is_runtime ? 2 : 3)), "(");
    file.n -= digits_at_end(file);
    file.n -= ends(file, '(');
    add_frame(t, DIALECT_PHP, (struct frame){name, base_name(file)}, is_runtime);
}

/* 2: orders::process::h0123456789abcdef */
static void take_rust(struct trace *t, struct span line) {
    static const char *const prefixes[] = {
        "std::",    "core::",    "alloc::", "<std::", "<core::", "<alloc::", "backtrace::",
        "anyhow::", "<anyhow::", "rust_",   "__rust", "_rust",   "__libc_",  NULL,
    };
    static const char *const names[] = {"main",  "_start",    "start_thread",
                                        "clone", "<unknown>", NULL};
    size_t digits = digits_at_start(line);
    if (!begins(from(line, digits), ": "))
        return;
    struct span name = from(line, digits + 2);
    while (begins(name, " "))
        name = from(name, 1);
    if (begins(name, "0x")) {
        size_t dash = find(name, " - ");
        name = from(name, dash < name.n ? dash + 3 : dash);
    }
    if (name.n > RUST_HASH_BYTES && begins(from(name, name.n - RUST_HASH_BYTES), "::h"))
        name.n -= RUST_HASH_BYTES;
    bool is_runtime = begins_any(name, prefixes);
    for (size_t i = 0; names[i] != NULL; i++)
        is_runtime |= span_equal_str(name, names[i]);
    add_frame(t, DIALECT_RUST, (struct frame){.name = name}, is_runtime);
}

/* main.(*Worker).Handle(0xc000010000, {0x4a5b6c, 0x3}); in the next line /app/main.go:42 +0x1d */
static void take_go(struct trace *t, struct span path) {
    struct span name = t->previous;
    if (ends(name, ')'))
        name.n = find_last(name, '(');
    if (span_equal_str(name, "panic")) {
        begin_cause(t); /* what was above it is who caught it */
        return;
    }
    if (!has(name, ".") || has(name, " "))
        return;
    bool is_runtime = begins(name, "runtime.") || begins(name, "runtime/") ||
                      has(path, "/local/go/src/") || has(path, "/lib/go");
    add_frame(t, DIALECT_GO, (struct frame){.name = name}, is_runtime);
}

/* from app/orders.rb:42:in `process' */
static void take_ruby(struct trace *t, struct span line, size_t in) {
    bool is_from = begins(line, "from ");
    struct span path = span_of(line.p, in), name = from(line, in + strlen(":in `"));
    path = without_start(path, "from ");
    size_t digits = digits_at_end(path);
    if (digits == 0 || path.n == digits || path.p[path.n - digits - 1] != ':')
        return;
    path.n -= digits + 1;
    if (t->after_from && !is_from)
        begin_cause(t);
    t->after_from = is_from;
    bool is_runtime =
        begins(path, "<internal:") || (has(path, "/lib/ruby/") && !has(path, "/gems/"));
    add_frame(t, DIALECT_RUBY, (struct frame){up_to(name, "'"), base_name(path)}, is_runtime);
}

/* -- lines ----------------------------------------------------------------------------------- */

static bool is_cause(struct span line) {
    static const char *const words[] = {
        "Caused by:", "[cause]:", "Traceback (most recent call last)", "Exception Group Traceback",
        NULL};
    return begins_any(line, words);
}

static bool is_end_of_cause(const struct trace *t, struct span line) {
    static const char *const words[] = {"The above exception was the direct cause of",
                                        "--- End of inner exception", "Wrapped by:", NULL};
    return begins_any(line, words) || (t->dialect == DIALECT_PHP && begins(line, "Next ")) ||
           (t->dialect == DIALECT_GO && begins(line, "goroutine "));
}

/* Lines that are told by their form alone, where a trace of that dialect may be. */
static void take_other(struct trace *t, struct span line, bool is_indented) {
    bool is_open = t->dialect == DIALECT_NONE;
    if (is_indented && (is_open || t->dialect == DIALECT_GO) && has(line, ".go:")) {
        take_go(t, line);
        return;
    }
    if (!is_open && t->dialect != DIALECT_RUBY)
        return;
    size_t in = find(line, ":in `");
    if (in == line.n)
        in = find(line, ":in '");
    if (in < line.n)
        take_ruby(t, line, in);
}

/* Of a line; the bars are those of Python's exception groups. */
static bool is_indentation(uint8_t c) {
    return c == ' ' || c == '\t' || c == '|' || c == '+';
}

static void take_line(struct trace *t, struct span line) {
    size_t indent = 0;
    while (indent < line.n && is_indentation(line.p[indent]))
        indent++;
    while (line.n > indent && line.p[line.n - 1] <= ' ')
        line.n--;
    struct span text = from(line, indent);
    if (text.n < LINE_LEAST)
        return;

    if (begins(text, "at ") && t->dialect != DIALECT_RUST) {
        take_at(t, from(text, 3));
    } else if (begins(text, "File \"")) {
        take_python(t, text);
    } else if (begins(text, "#")) {
        take_php(t, text);
    } else if (is_cause(text)) {
        t->is_suppressed &= indent >= t->suppressed_indent;
        if (!t->is_suppressed)
            begin_cause(t);
    } else if (begins(text, "Suppressed:")) {
        t->suppressed_indent = t->is_suppressed ? t->suppressed_indent : indent;
        t->is_suppressed = true;
    } else if (is_end_of_cause(t, text)) {
        end_cause(t);
    } else if (begins(text, "stack backtrace:") || begins(text, "Stack backtrace:")) {
        t->has_backtrace = true;
    } else if (t->has_backtrace && digits_at_start(text) > 0) {
        take_rust(t, text);
    } else {
        take_other(t, text, indent > 0);
    }
    t->previous = text;
}

static void take_lines(struct trace *t, struct span lines) {
    while (lines.n > 0) {
        size_t n = find(lines, "\n");
        take_line(t, span_of(lines.p, n));
        lines = from(lines, n + (n < lines.n));
    }
}

/* -- what is written ------------------------------------------------------------------------- */

struct part {
    size_t n, digits;
    bool is_hex;
};

static struct part part_at(struct span s) {
    struct part part = {.is_hex = true};
    for (; part.n < s.n && (is_letter(s.p[part.n]) || is_digit(s.p[part.n])); part.n++) {
        part.digits += is_digit(s.p[part.n]);
        part.is_hex &= is_hex(s.p[part.n]);
    }
    return part;
}

/* True when a part of a name after `before` is the compiler's or the build's: a hash, an address, a
 * number that counts what has no name. */
static bool is_generated(struct span s, const struct part *part, uint8_t before, bool is_file) {
    if (part->digits == part->n)
        return is_file || (before != 0 && strchr("$@.:|/#", before) != NULL);
    if (part->digits == 0)
        return false;
    if (begins(s, "0x"))
        return true;
    return part->is_hex && (part->n >= HASH_LEAST || before == '$');
}

/* True when the digits at the end of a part number what has no name. */
static bool is_numbered(struct span part, uint8_t before, enum dialect dialect) {
    struct span word = span_of(part.p, part.n - digits_at_end(part));
    if (dialect == DIALECT_GO)
        return before == '.' && (span_equal_str(word, "func") || span_equal_str(word, "gowrap"));
    return dialect == DIALECT_JAVA && before == '$' && span_equal_str(word, "Proxy");
}

/* C#: <Run>d__5, <>c__DisplayClass3_0; up to the next dot all numbers are the compiler's. */
static bool begins_compilers(struct span s, enum dialect dialect) {
    return dialect == DIALECT_JAVA && s.n > 3 && s.p[0] == '>' && s.p[2] == '_' && s.p[3] == '_';
}

static void put_clean(struct buf *out, struct span s, enum dialect dialect, bool is_file) {
    bool is_compilers = false;
    s = span_cut_utf8(s, is_file ? FILE_MAX_BYTES : NAME_MAX_BYTES);
    for (size_t i = 0; i < s.n;) {
        uint8_t before = i > 0 ? s.p[i - 1] : ' ';
        struct span rest = from(s, i);
        struct part part = part_at(rest);
        if (part.n == 0) {
            is_compilers = (is_compilers && *rest.p != '.') || begins_compilers(rest, dialect);
            buf_add_byte(out, *rest.p < ' ' ? ' ' : *rest.p);
            i++;
            continue;
        }
        i += part.n;
        struct span text = span_of(rest.p, part.n);
        if (is_compilers || is_numbered(text, before, dialect))
            text.n -= digits_at_end(text);
        else if (is_generated(text, &part, before, is_file))
            text.n = 0;
        buf_add_span(out, text);
    }
}

static void put_frame(struct buf *out, const struct frame *f, enum dialect dialect) {
    put_clean(out, f->name, dialect, false);
    if (f->file.n > 0) {
        buf_add_byte(out, ' ');
        put_clean(out, f->file, dialect, true);
    }
    buf_add_byte(out, '\n');
}

void detail_frames(struct span detail, struct buf *out) {
    if (detail.n == 0)
        return;
    struct trace t = {.dialect = DIALECT_NONE};
    if (detail.n <= FINGERPRINT_DETAIL_MAX) {
        take_lines(&t, detail);
    } else {
        /* Where it broke is at one of the two ends. */
        size_t half = FINGERPRINT_DETAIL_MAX / 2;
        struct span head = span_of(detail.p, half), tail = from(detail, detail.n - half);
        take_lines(&t, span_of(head.p, find_last(head, '\n')));
        take_lines(&t, from(tail, find(tail, "\n")));
    }
    const struct section *section = better(&t.now, &t.outer);
    const struct pick *pick = section->own.n > 0 ? &section->own : &section->runtime;
    size_t n = pick->n < FINGERPRINT_FRAMES ? pick->n : FINGERPRINT_FRAMES;
    for (size_t i = 0; i < n; i++) {
        bool is_last_first = t.dialect == DIALECT_PYTHON;
        size_t place = is_last_first ? (pick->n - 1 - i) % FINGERPRINT_FRAMES : i;
        put_frame(out, &pick->frames[place], t.dialect);
    }
}
