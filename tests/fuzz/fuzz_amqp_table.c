/* Field tables: what the walk takes librabbitmq takes, too, and writes again as it was; its JSON is
 * JSON, and a table again. Input that begins with a brace is JSON the other way round. */
#include "amqp/method.h"
#include "amqp/table.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct method_pool *pool;

static void parse_back(struct span json) {
    struct json_error error;
    struct json *root = json_parse(json, &error);
    assert(root != NULL && json_is(root, JSON_OBJECT));
    struct buf wire;
    buf_init(&wire, SIZE_MAX);
    table_wire_from_json(root, &wire);
    assert(table_check(buf_span(&wire), NULL));
    (void)table_from_json(pool, root);
    buf_release(&wire);
    json_free(root);
}

static void table_survives(struct span wire) {
    amqp_table_t t;
    if (!table_check(wire, NULL)) {
        assert(table_read(pool, wire, &t) == ERR_INVALID);
        return;
    }
    enum err e = table_read(pool, wire, &t);
    assert(e == OK);

    struct buf same, again, json;
    buf_init(&same, SIZE_MAX);
    buf_init(&again, SIZE_MAX);
    buf_init(&json, SIZE_MAX);
    buf_add_span(&same, wire);
    table_normalise(same.p, same.n);
    assert(table_check(buf_span(&same), NULL));
    table_write(&t, &again);
    assert(again.n == same.n); /* but for booleans of more than 1, and decimals' signs */

    table_to_json(&t, "BCC", &json);
    parse_back(buf_span(&json));
    buf_release(&same);
    buf_release(&again);
    buf_release(&json);
}

static void items_lie_within(struct span wire) {
    struct span rest = wire;
    struct table_item item;
    while (table_next(&rest, &item)) {
        assert(item.whole.p >= wire.p && item.whole.p + item.whole.n == rest.p);
        assert(item.value.p + item.value.n == rest.p);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (pool == NULL)
        pool = method_pool_new();
    struct span in = span_of(data, size);
    if (in.n > 0 && in.p[0] == '{') {
        struct json_error error;
        struct json *root = json_parse(in, &error);
        if (json_is(root, JSON_OBJECT)) {
            amqp_table_t t = table_from_json(pool, root);
            struct buf json;
            buf_init(&json, SIZE_MAX);
            table_to_json(&t, NULL, &json);
            parse_back(buf_span(&json));
            buf_release(&json);
        }
        json_free(root);
    } else {
        table_survives(in);
        items_lie_within(in);
    }
    method_pool_clear(pool);
    return 0;
}
