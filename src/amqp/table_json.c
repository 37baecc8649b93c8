/* Field tables as JSON, and back. */
#include "amqp/be.h"
#include "amqp/method.h"
#include "amqp/table.h"
#include "base/mem.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

/* -- to JSON --------------------------------------------------------------------------------- */

/* A writer for one scalar: its own depth is too small for tables, so brackets and commas are put
 * here. */
static struct json_writer scalar(struct buf *out) {
    struct json_writer w;
    json_writer_init(&w, out);
    return w;
}

static void put_base64(amqp_bytes_t b, struct buf *out) {
    struct json_writer w = scalar(out);
    json_begin(&w, '{');
    json_name(&w, "base64");
    json_put_base64(&w, method_span(b));
    json_end(&w, '}');
}

static void put_text(amqp_bytes_t b, struct buf *out) {
    struct json_writer w = scalar(out);
    if (method_is_string(b))
        json_put_string(&w, method_span(b));
    else
        put_base64(b, out);
}

static void put_real(double v, struct buf *out) {
    struct json_writer w = scalar(out);
    if (isfinite(v))
        json_put_double(&w, v);
    else
        json_put_null(&w);
}

/* Exactly, as a JSON number with an exponent; RabbitMQ takes the value as signed. */
static void put_decimal(amqp_decimal_t d, struct buf *out) {
    buf_add_i64(out, (int32_t)d.value);
    if (d.decimals > 0)
        buf_printf(out, "e-%u", d.decimals);
}

static void put_table(const amqp_table_t *t, const char *skip, struct buf *out);

static void put_array(const amqp_array_t *a, struct buf *out);

static void put_value(const amqp_field_value_t *v, struct buf *out) {
    struct json_writer w = scalar(out);
    switch (v->kind) {
    case AMQP_FIELD_KIND_BOOLEAN:
        json_put_bool(&w, v->value.boolean != 0);
        return;
    case AMQP_FIELD_KIND_I8:
        json_put_i64(&w, v->value.i8);
        return;
    case AMQP_FIELD_KIND_U8:
        json_put_i64(&w, v->value.u8);
        return;
    case AMQP_FIELD_KIND_I16:
        json_put_i64(&w, v->value.i16);
        return;
    case AMQP_FIELD_KIND_U16:
        json_put_i64(&w, v->value.u16);
        return;
    case AMQP_FIELD_KIND_I32:
        json_put_i64(&w, v->value.i32);
        return;
    case AMQP_FIELD_KIND_U32:
        json_put_i64(&w, v->value.u32);
        return;
    case AMQP_FIELD_KIND_I64:
    case AMQP_FIELD_KIND_U64: /* signed, as RabbitMQ has it */
        json_put_i64(&w, v->value.i64);
        return;
    case AMQP_FIELD_KIND_TIMESTAMP:
        json_put_i64(&w, v->value.u64 > INT64_MAX ? INT64_MAX : (int64_t)v->value.u64);
        return;
    case AMQP_FIELD_KIND_F32:
        put_real((double)v->value.f32, out);
        return;
    case AMQP_FIELD_KIND_F64:
        put_real(v->value.f64, out);
        return;
    case AMQP_FIELD_KIND_DECIMAL:
        put_decimal(v->value.decimal, out);
        return;
    case AMQP_FIELD_KIND_UTF8:
        put_text(v->value.bytes, out);
        return;
    case AMQP_FIELD_KIND_BYTES:
        put_base64(v->value.bytes, out);
        return;
    case AMQP_FIELD_KIND_TABLE:
        put_table(&v->value.table, NULL, out);
        return;
    case AMQP_FIELD_KIND_ARRAY:
        put_array(&v->value.array, out);
        return;
    case AMQP_FIELD_KIND_VOID:
    default:
        json_put_null(&w);
        return;
    }
}

static void put_array(const amqp_array_t *a, struct buf *out) {
    buf_add_byte(out, '[');
    for (int i = 0; i < a->num_entries; i++) {
        if (i > 0)
            buf_add_byte(out, ',');
        put_value(&a->entries[i], out);
    }
    buf_add_byte(out, ']');
}

static int compare_entries(const void *a, const void *b) {
    const amqp_table_entry_t *x = *(const amqp_table_entry_t *const *)a;
    const amqp_table_entry_t *y = *(const amqp_table_entry_t *const *)b;
    int order = span_compare(method_span(x->key), method_span(y->key));
    if (order != 0)
        return order;
    return x < y ? -1 : x > y;
}

/* The entries whose key came before, or that JSON cannot name: one flag each, by index. NULL: none.
 * The caller frees it. Sorted, so that a table made of equal keys costs no more than another. */
static bool *find_skipped(const amqp_table_t *t) {
    size_t n = (size_t)t->num_entries;
    if (n == 0)
        return NULL;
    const amqp_table_entry_t **sorted = mem_alloc(n * sizeof *sorted);
    bool *skipped = mem_alloc(n * sizeof *skipped);
    for (size_t i = 0; i < n; i++) {
        sorted[i] = &t->entries[i];
        amqp_bytes_t key = t->entries[i].key;
        skipped[i] = !method_is_string(key) || (key.len > 0 && memchr(key.bytes, 0, key.len));
    }
    qsort(sorted, n, sizeof(*sorted), compare_entries);
    for (size_t i = 1; i < n; i++)
        if (span_equal(method_span(sorted[i]->key), method_span(sorted[i - 1]->key)))
            skipped[sorted[i] - t->entries] = true;
    free(sorted);
    return skipped;
}

static void put_table(const amqp_table_t *t, const char *skip, struct buf *out) {
    bool *skipped = find_skipped(t);
    bool is_first = true;
    buf_add_byte(out, '{');
    for (int i = 0; i < t->num_entries; i++) {
        struct span key = method_span(t->entries[i].key);
        if (skipped[i] || (skip != NULL && span_equal_str(key, skip)))
            continue;
        if (!is_first)
            buf_add_byte(out, ',');
        is_first = false;
        struct json_writer w = scalar(out);
        json_put_string(&w, key);
        buf_add_byte(out, ':');
        put_value(&t->entries[i].value, out);
    }
    buf_add_byte(out, '}');
    free(skipped);
}

void table_to_json(const amqp_table_t *t, const char *skip, struct buf *out) {
    put_table(t, skip, out);
}

/* -- from JSON ------------------------------------------------------------------------------- */

static void add_long(uint8_t letter, struct span s, struct buf *out) {
    buf_add_byte(out, letter);
    be_add32(out, (uint32_t)s.n);
    buf_add_span(out, s);
}

static size_t begin_long(struct buf *out) {
    be_add32(out, 0);
    return out->n;
}

static void end_long(struct buf *out, size_t start) {
    be_put32(out->p + start - 4, (uint32_t)(out->n - start));
}

/* True when v was bytes: then they are appended. */
static bool add_bytes(const struct json *v, struct buf *out) {
    const struct json *text = json_get(v, "base64");
    if (json_count(v) != 1 || !json_is(text, JSON_STRING))
        return false;
    size_t mark = out->n;
    buf_add_byte(out, 'x');
    size_t start = begin_long(out);
    if (base64_decode(json_string(text), out) != OK) {
        out->n = mark;
        return false;
    }
    end_long(out, start);
    return true;
}

static void add_object(const struct json *v, unsigned depth, struct buf *out);

static void add_value(const struct json *v, unsigned depth, struct buf *out) {
    switch (json_kind_of(v)) {
    case JSON_NULL:
        buf_add_byte(out, 'V');
        return;
    case JSON_BOOL:
        buf_add_byte(out, 't');
        buf_add_byte(out, json_bool(v) ? 1 : 0);
        return;
    case JSON_INTEGER:
        buf_add_byte(out, 'l');
        be_add64(out, (uint64_t)json_integer(v));
        return;
    case JSON_REAL: {
        double real = json_number(v);
        uint64_t bits;
        memcpy(&bits, &real, sizeof bits);
        buf_add_byte(out, 'd');
        be_add64(out, bits);
        return;
    }
    case JSON_STRING:
        add_long('S', json_string(v), out);
        return;
    case JSON_ARRAY:
    case JSON_OBJECT:
        break;
    }
    if (json_is(v, JSON_OBJECT) && add_bytes(v, out))
        return;
    if (depth >= TABLE_DEPTH_MAX) {
        buf_add_byte(out, 'V');
        return;
    }
    if (json_is(v, JSON_OBJECT)) {
        buf_add_byte(out, 'F');
        add_object(v, depth + 1, out);
        return;
    }
    buf_add_byte(out, 'A');
    size_t start = begin_long(out);
    for (size_t i = 0; i < json_count(v); i++)
        add_value(json_at(v, i), depth + 1, out);
    end_long(out, start);
}

struct members {
    struct buf *out;
    unsigned depth;
};

static bool add_member(void *ctx, const char *name, const struct json *member) {
    struct members *m = ctx;
    struct span key = span_cut_utf8(span_str(name), 255);
    buf_add_byte(m->out, (uint8_t)key.n);
    buf_add_span(m->out, key);
    add_value(member, m->depth, m->out);
    return true;
}

static void add_object(const struct json *v, unsigned depth, struct buf *out) {
    struct members m = {.out = out, .depth = depth};
    size_t start = begin_long(out);
    json_each(v, add_member, &m);
    end_long(out, start);
}

void table_wire_from_json(const struct json *object, struct buf *out) {
    assert(json_is(object, JSON_OBJECT));
    add_object(object, 1, out);
}

amqp_table_t table_from_json(struct method_pool *p, const struct json *object) {
    struct buf wire;
    buf_init(&wire, SIZE_MAX);
    table_wire_from_json(object, &wire);
    amqp_table_t t;
    enum err e = table_read(p, buf_span(&wire), &t);
    assert(e == OK);
    buf_release(&wire);
    return t;
}
