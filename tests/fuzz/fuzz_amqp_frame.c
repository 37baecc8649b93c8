/* A stream of frames as a server reads it, and the methods in them: nothing is read beyond the input, a
 * frame that is whole stays so whatever follows, what is refused is refused for a reason, and a method
 * that is read can be written and read again as the same. */
#include "amqp/be.h"
#include "amqp/method.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct method_pool *pool;

/* Those without tables and bits that are no bits come out as they went in; the others at least are
 * read again. */
static void write_again(const struct method *m) {
    struct buf out;
    buf_init(&out, (size_t)16 * FRAME_MAX_MOST);
    if (m->id != METHOD_UPDATE_SECRET) {
        method_write(&out, 7, m->id, m->decoded);
        struct frame f;
        const char *why;
        enum frame_result r = frame_read(buf_span(&out), UINT32_MAX, &f, &why);
        assert(r == FRAME_WHOLE && f.bytes == out.n && f.channel == 7 && f.type == FRAME_METHOD);
        struct method again;
        enum err e = method_read(pool, f.payload, &again);
        assert(e == OK && again.id == m->id);
        struct buf twice;
        buf_init(&twice, (size_t)16 * FRAME_MAX_MOST);
        method_write(&twice, 7, again.id, again.decoded);
        assert(span_equal(buf_span(&out), buf_span(&twice)));
        buf_release(&twice);
    }
    buf_release(&out);
}

static void read_method(struct span payload) {
    struct method m;
    enum err e = method_read(pool, payload, &m);
    assert(e == OK || e == ERR_INVALID || e == ERR_CORRUPT || e == ERR_NO_MESSAGE);
    assert(payload.n < 4 || m.id == be_get32(payload.p));
    if (e == OK)
        write_again(&m);
    method_pool_clear(pool);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (pool == NULL)
        pool = method_pool_new();
    struct span in = span_of(data, size);
    if (in.n > 0 && in.p[0] == 'M') { /* a method alone */
        read_method(span_of(in.p + 1, in.n - 1));
        return 0;
    }
    for (;;) {
        struct frame f;
        const char *why = NULL;
        switch (frame_read(in, FRAME_MAX_LEAST, &f, &why)) {
        case FRAME_MORE:
            assert(in.n < FRAME_MAX_LEAST + FRAME_OVERHEAD);
            return 0;
        case FRAME_BAD:
            assert(why != NULL);
            return 0;
        case FRAME_WHOLE:
            break;
        }
        assert(f.bytes <= in.n && f.payload.p == in.p + 7 &&
               f.bytes == f.payload.n + FRAME_OVERHEAD);
        struct frame cut;
        enum frame_result r = frame_read(span_of(in.p, f.bytes), FRAME_MAX_LEAST, &cut, &why);
        assert(r == FRAME_WHOLE && cut.bytes == f.bytes);
        r = frame_read(span_of(in.p, f.bytes - 1), FRAME_MAX_LEAST, &cut, &why);
        assert(r == FRAME_MORE);
        if (f.type == FRAME_METHOD)
            read_method(f.payload);
        in = span_of(in.p + f.bytes, in.n - f.bytes);
    }
}
