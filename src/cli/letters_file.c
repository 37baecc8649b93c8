#include "cli/letters_file.h"

#include "base/clock.h"
#include "base/hash.h"
#include "cli/call.h"
#include "cli/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CHECKSUM_BEFORE ",\"checksum\":\"xxh3:"
#define CHECKSUM_AFTER "\"}"
enum { SUM_BYTES = sizeof(struct letters_sum), CHECKSUM_BYTES = LETTERS_CHECKSUM_BYTES };
_Static_assert(sizeof CHECKSUM_BEFORE - 1 + 2 * SUM_BYTES + sizeof CHECKSUM_AFTER - 1 ==
                   CHECKSUM_BYTES,
               "the member that ends a manifest");

/* -- the checksum ---------------------------------------------------------------------------- */

/* The canonical form of XXH3: the high half first, both big-endian. */
static struct letters_sum hash_of(struct span s) {
    struct hash128 h = hash128(s, 0);
    struct letters_sum hash;
    for (int i = 0; i < 8; i++) {
        hash.bytes[i] = (uint8_t)(h.hi >> (56 - 8 * i));
        hash.bytes[8 + i] = (uint8_t)(h.lo >> (56 - 8 * i));
    }
    return hash;
}

static void add_hash(struct letters_sum *sum, const struct letters_sum *hash) {
    uint8_t both[2 * SUM_BYTES];
    memcpy(both, sum->bytes, SUM_BYTES);
    memcpy(both + SUM_BYTES, hash->bytes, SUM_BYTES);
    *sum = hash_of(span_of(both, sizeof both));
}

void letters_sum_add(struct letters_sum *sum, struct span line) {
    struct letters_sum hash = hash_of(line);
    add_hash(sum, &hash);
}

/* Appends the checksum of a file: the sum over its letters, then the hash of what stands in the
 * manifest before the checksum. */
static void add_checksum(struct letters_sum letters, const struct letters_sum *head,
                         struct buf *out) {
    add_hash(&letters, head);
    buf_add_str(out, CHECKSUM_BEFORE);
    for (int i = 0; i < SUM_BYTES; i++)
        buf_printf(out, "%02x", letters.bytes[i]);
    buf_add_str(out, CHECKSUM_AFTER);
}

/* -- the manifest ---------------------------------------------------------------------------- */

void manifest_write(const struct manifest *m, const struct letters_sum *sum, struct buf *out) {
    char exported_at[TIME_TEXT_SIZE];
    size_t start = out->n;
    struct json_writer w;
    time_format(m->exported_at, exported_at);
    json_writer_init(&w, out);
    json_begin(&w, '{');
    json_name(&w, "nixie_export");
    json_put_i64(&w, LETTERS_FILE_VERSION);
    json_name(&w, "queue");
    json_put_str(&w, m->queue);
    json_name(&w, "count");
    json_put_u64(&w, m->count);
    json_name(&w, "fence");
    json_put_u64(&w, m->fence);
    json_name(&w, "filter");
    if (m->filter != NULL)
        json_put_str(&w, m->filter);
    else
        json_put_null(&w);
    json_name(&w, "exported_at");
    json_put_str(&w, exported_at);
    struct letters_sum head = hash_of(span_of(out->p + start, out->n - start));
    add_checksum(*sum, &head, out); /* and the object's end */
}

/* -- reading --------------------------------------------------------------------------------- */

static int __attribute__((format(printf, 2, 3)))
refuse(const struct letters_reader *r, const char *format, ...) {
    char text[400];
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    cli_error(r->cli, "%s, line %llu: %s; nothing was imported", r->name,
              (unsigned long long)r->lines.count, text);
    return CLI_FAILED;
}

static int refuse_json(const struct letters_reader *r, const struct json_error *e) {
    return refuse(r, "at byte %d: %s", e->column, e->text);
}

/* -1 when `v` is a manifest, which is then taken over. */
static int take_manifest(struct letters_reader *r, const struct json *v) {
    struct span queue = call_text(v, "queue"), exported_at = call_text(v, "exported_at");
    int64_t version = call_number(v, "nixie_export", -1), count = call_number(v, "count", -1),
            fence = call_number(v, "fence", -1);
    if (version < 1)
        return refuse(r, "not the manifest of a nixie export");
    if (version > LETTERS_FILE_VERSION)
        return refuse(r, "version %lld, but this nixie knows only up to %d", (long long)version,
                      LETTERS_FILE_VERSION);
    if (queue.n == 0 || queue.n > LIMIT_QUEUE_NAME || memchr(queue.p, '\0', queue.n) != NULL ||
        count < 0 || fence < 0 || time_parse(exported_at, &r->manifest.exported_at) != OK)
        return refuse(r, "the manifest is damaged");
    (void)snprintf(r->manifest.queue, sizeof r->manifest.queue, "%.*s", (int)queue.n,
                   (const char *)queue.p);
    r->manifest.count = (uint64_t)count;
    r->manifest.fence = (uint64_t)fence;
    return -1;
}

/* What the checksum is over, and what it is. */
static int take_checksum(struct letters_reader *r, struct span line) {
    while (line.n > 0 && line.p[line.n - 1] == ' ')
        line.n--;
    if (line.n <= CHECKSUM_BYTES)
        return refuse(r, "the manifest is damaged");
    struct span head = span_of(line.p, line.n - CHECKSUM_BYTES);
    r->head = hash_of(head);
    memcpy(r->checksum, line.p + head.n, CHECKSUM_BYTES);
    return -1;
}

int letters_reader_init(struct letters_reader *r, const struct cli *cli, const char *name, int fd) {
    *r = (struct letters_reader){.cli = cli, .name = name};
    input_lines_init(&r->lines, fd, INPUT_LINE_MAX);
    r->lines.name = name;
    if (lseek(fd, 0, SEEK_SET) != 0) {
        cli_error(cli, "%s: cannot be read from its beginning", name);
        return CLI_FAILED;
    }
    struct span line;
    struct json_error e;
    int got = input_lines_next(&r->lines, cli, &line);
    if (got < 0)
        return CLI_FAILED;
    if (got == 0) {
        cli_error(cli, "%s: empty; nothing was imported", name);
        return CLI_FAILED;
    }
    struct json *v = json_parse(line, &e);
    int code = v == NULL ? refuse_json(r, &e) : take_manifest(r, v);
    json_free(v);
    return code < 0 ? take_checksum(r, line) : code;
}

void letters_reader_release(struct letters_reader *r) {
    input_lines_release(&r->lines);
}

int letters_reader_next(struct letters_reader *r, struct span *ret_line) {
    return input_lines_next(&r->lines, r->cli, ret_line);
}

uint64_t letters_reader_line(const struct letters_reader *r) {
    return r->lines.count;
}

/* -- verifying ------------------------------------------------------------------------------- */

struct verification {
    struct letters_reader reader;
    struct letters_sum sum;
    uint64_t letters;
    int64_t died_at_ms, dead_seq, dead_seq_max; /* of the letter before; the highest of all */
};

/* What every letter has, and the order they stand in. The server judges the rest. */
static int check_letter(struct verification *v, const struct json *letter) {
    const struct letters_reader *r = &v->reader;
    int64_t id = call_number(letter, "id", -1), died_at_ms = call_number(letter, "died_at_ms", -1),
            dead_seq = call_number(json_get(letter, "death"), "dead_seq", -1);
    if (id < 1 || died_at_ms < 0 || dead_seq < 1 ||
        (json_get(letter, "payload") == NULL && json_get(letter, "payload_base64") == NULL))
        return refuse(r, "not a letter");
    if (died_at_ms < v->died_at_ms || (died_at_ms == v->died_at_ms && dead_seq <= v->dead_seq))
        return refuse(r, "out of order: it died before the letter of the line above");
    if ((uint64_t)dead_seq > r->manifest.fence)
        return refuse(r, "it died after the fence that the manifest tells");
    v->died_at_ms = died_at_ms;
    v->dead_seq = dead_seq;
    v->dead_seq_max = dead_seq > v->dead_seq_max ? dead_seq : v->dead_seq_max;
    return -1;
}

static int check_line(struct verification *v, struct span line) {
    struct json_error e;
    if (++v->letters > v->reader.manifest.count)
        return refuse(&v->reader, "more letters than the %llu that the manifest tells",
                      (unsigned long long)v->reader.manifest.count);
    struct json *letter = json_parse(line, &e);
    int code = letter == NULL ? refuse_json(&v->reader, &e) : check_letter(v, letter);
    json_free(letter);
    letters_sum_add(&v->sum, line);
    return code;
}

static int check_letters(struct verification *v) {
    struct span line;
    int got, code = -1;
    while (code < 0 && (got = letters_reader_next(&v->reader, &line)) != 0)
        code = got < 0 ? CLI_FAILED : check_line(v, line);
    if (code < 0 && v->letters < v->reader.manifest.count)
        code = refuse(&v->reader, "cut off after it: %llu of %llu letters",
                      (unsigned long long)v->letters, (unsigned long long)v->reader.manifest.count);
    if (code < 0 && (uint64_t)v->dead_seq_max != v->reader.manifest.fence)
        code = refuse(&v->reader, "the last letter, but none is the fence that the manifest tells");
    return code;
}

static int check_sum(const struct verification *v) {
    struct buf expected;
    buf_init(&expected, CHECKSUM_BYTES);
    add_checksum(v->sum, &v->reader.head, &expected);
    bool is_right = span_equal(buf_span(&expected), span_of(v->reader.checksum, CHECKSUM_BYTES));
    buf_release(&expected);
    if (is_right)
        return -1;
    cli_error(v->reader.cli,
              "%s: the checksum in line 1 does not match: the file was changed after it was "
              "written; nothing was imported",
              v->reader.name);
    return CLI_FAILED;
}

int letters_verify(const struct cli *cli, const char *name, int fd, struct manifest *ret) {
    struct verification v = {.letters = 0};
    int code = letters_reader_init(&v.reader, cli, name, fd);
    if (code < 0)
        code = check_letters(&v);
    if (code < 0)
        code = check_sum(&v);
    if (code < 0)
        *ret = v.reader.manifest;
    letters_reader_release(&v.reader);
    return code;
}
