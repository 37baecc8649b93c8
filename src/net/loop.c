/* A turn of libuv 1.x is: timers, idle, prepare, poll, check, closing. The turn hook is the prepare
 * handle: it runs after the sockets (poll) and the timers, and before the loop waits again, so that
 * nothing they caused is left lying while the loop sleeps. */
#include "net/loop.h"

#include "base/mem.h"
#include "net/loop_internal.h"

#include <assert.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* A chunk of output as it is encrypted (64 KiB and the records' overhead), or a flight of a
 * handshake. */
enum { WIRE_BYTES_MAX = 1024 * 1024 };

struct loop_signal {
    uv_signal_t handle;
    void (*f)(void *ctx, int signal);
    void *ctx;
    struct loop_signal *next;
};

/* -- a turn ---------------------------------------------------------------------------------- */

static void on_idle(uv_idle_t *handle) {
    uv_idle_stop(handle);
}

static void on_prepare(uv_prepare_t *handle) {
    struct loop *l = handle->data;
    if (l->ready != NULL)
        conn_run_ready(l);
    if (l->on_turn != NULL)
        l->on_turn(l->on_turn_ctx);
    if (l->again || l->ready != NULL) {
        l->again = false;
        uv_idle_start(&l->idle, on_idle);
    }
}

static void on_woken(uv_poll_t *handle, int status, int events) {
    (void)status;
    (void)events;
    struct loop *l = handle->data;
    eventfd_t n;
    (void)eventfd_read(l->wake_fd, &n);
    if (l->on_wake != NULL)
        l->on_wake(l->on_wake_ctx);
}

/* -- life ------------------------------------------------------------------------------------ */

struct loop *loop_new(void) {
    struct loop *l = mem_alloc(sizeof *l);
    /* A write to a connection that was reset must be an error, not the end of the process. */
    signal(SIGPIPE, SIG_IGN);

    /* These fail only for want of descriptors or memory at start. */
    int failed = uv_loop_init(&l->uv);
    assert(failed == 0);
    failed = uv_prepare_init(&l->uv, &l->turn);
    assert(failed == 0);
    failed = uv_idle_init(&l->uv, &l->idle);
    assert(failed == 0);
    l->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    assert(l->wake_fd >= 0);
    failed = uv_poll_init(&l->uv, &l->wake, l->wake_fd);
    assert(failed == 0);
    uv_poll_start(&l->wake, UV_READABLE, on_woken);
    l->turn.data = l;
    l->idle.data = l;
    l->wake.data = l;
    uv_prepare_start(&l->turn, on_prepare);

    l->read_buf = mem_alloc(LOOP_READ_BYTES);
    buf_init(&l->plain, LOOP_READ_BYTES);
    buf_init(&l->wire, WIRE_BYTES_MAX);
    return l;
}

static void on_signal_closed(uv_handle_t *handle) {
    free(handle->data);
}

void loop_free(struct loop *l) {
    if (l == NULL)
        return;
    uv_close((uv_handle_t *)&l->turn, NULL);
    uv_close((uv_handle_t *)&l->idle, NULL);
    uv_close((uv_handle_t *)&l->wake, NULL);
    for (struct loop_signal *s = l->signals, *next; s != NULL; s = next) {
        next = s->next;
        uv_close((uv_handle_t *)&s->handle, on_signal_closed);
    }

    /* The second turn is for what the callbacks of the first closed. */
    uv_run(&l->uv, UV_RUN_NOWAIT);
    uv_run(&l->uv, UV_RUN_NOWAIT);
    int busy = uv_loop_close(&l->uv);
    assert(busy == 0); /* else a listener or a timer was not closed by its owner */
    close(l->wake_fd);

    free(l->read_buf);
    buf_release(&l->plain);
    buf_release(&l->wire);
    free(l);
}

void loop_run(struct loop *l) {
    uv_run(&l->uv, UV_RUN_DEFAULT);
}

void loop_stop(struct loop *l) {
    uv_stop(&l->uv);
}

/* -- hooks ----------------------------------------------------------------------------------- */

void loop_on_turn(struct loop *l, void (*f)(void *ctx), void *ctx) {
    l->on_turn = f;
    l->on_turn_ctx = ctx;
}

void loop_again(struct loop *l) {
    l->again = true;
}

void loop_on_wake(struct loop *l, void (*f)(void *ctx), void *ctx) {
    l->on_wake = f;
    l->on_wake_ctx = ctx;
}

void loop_wake(struct loop *l) {
    (void)eventfd_write(l->wake_fd, 1);
}

static void wait_for(int fd, int64_t us) {
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    const struct timespec most = {.tv_nsec = us * 1000};
    (void)ppoll(&readable, 1, &most, NULL);
}

void loop_nap(struct loop *l, int64_t us) {
    wait_for(l->wake_fd, us);
}

void loop_wait(struct loop *l, int64_t us) {
    wait_for(uv_backend_fd(&l->uv), us);
    loop_again(l);
}

static void on_signal(uv_signal_t *handle, int signal_number) {
    struct loop_signal *s = handle->data;
    s->f(s->ctx, signal_number);
}

void loop_on_signal(struct loop *l, int signal, void (*f)(void *ctx, int signal), void *ctx) {
    struct loop_signal *s = mem_alloc(sizeof *s);
    s->f = f;
    s->ctx = ctx;
    s->handle.data = s;
    int failed = uv_signal_init(&l->uv, &s->handle);
    assert(failed == 0);
    failed = uv_signal_start(&s->handle, on_signal, signal);
    assert(failed == 0);
    s->next = l->signals;
    l->signals = s;
}

/* -- timers ---------------------------------------------------------------------------------- */

static void on_timer(uv_timer_t *handle) {
    struct loop_timer *t = handle->data;
    t->fire(t);
}

static void on_timer_closed(uv_handle_t *handle) {
    free(handle);
}

void loop_timer_init(struct loop *l, struct loop_timer *t, void (*fire)(struct loop_timer *t)) {
    /* libuv needs the handle a little longer than the owner may live: until its close callback. */
    uv_timer_t *handle = mem_alloc(sizeof *handle);
    uv_timer_init(&l->uv, handle);
    handle->data = t;
    t->fire = fire;
    t->impl = handle;
}

void loop_timer_start(struct loop_timer *t, int64_t after_ms) {
    uv_timer_start(t->impl, on_timer, after_ms > 0 ? (uint64_t)after_ms : 0, 0);
}

void loop_timer_stop(struct loop_timer *t) {
    uv_timer_stop(t->impl);
}

void loop_timer_close(struct loop_timer *t) {
    if (t->impl == NULL)
        return;
    uv_close(t->impl, on_timer_closed);
    t->impl = NULL;
}

int64_t loop_now(const struct loop *l) {
    return (int64_t)uv_now(&l->uv);
}
