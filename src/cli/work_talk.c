#include "cli/work.h"

#include "base/clock.h"
#include "cli/text.h"

#include <assert.h>
#include <string.h>

/* -- requests -------------------------------------------------------------------------------- */

void work_talk_init(struct work *w) {
    w->multi = curl_multi_init();
    assert(w->multi != NULL);
    call_init(&w->poll.call, w->cli);
    call_init(&w->settle.call, w->cli);
}

static void leave(struct work *w, struct exchange *x) {
    (void)curl_multi_remove_handle(w->multi, x->call.easy);
    x->is_busy = false;
    assert(w->reserved >= x->claim_count);
    w->reserved -= x->claim_count;
}

void work_talk_cancel_poll(struct work *w) {
    if (w->poll.is_busy)
        leave(w, &w->poll);
}

void work_talk_release(struct work *w) {
    work_talk_cancel_poll(w);
    if (w->settle.is_busy)
        leave(w, &w->settle);
    call_release(&w->poll.call);
    call_release(&w->settle.call);
    (void)curl_multi_cleanup(w->multi);
}

static void put_result(struct json_writer *w, const struct task *task) {
    static const char *const actions[] = {
        [OUTCOME_SUCCEED] = "succeed",
        [OUTCOME_FAIL] = "fail",
        [OUTCOME_FAIL_PERMANENT] = "fail",
        [OUTCOME_RELEASE] = "release",
    };
    assert(task->outcome != OUTCOME_LOST);
    json_name(w, "action");
    json_put_str(w, actions[task->outcome]);
    if (task->outcome != OUTCOME_FAIL && task->outcome != OUTCOME_FAIL_PERMANENT)
        return;
    json_name(w, "error_class");
    json_put_str(w, task->error_class);
    json_name(w, "error");
    json_put_string(w, buf_span(&task->error));
    if (task->stderr_bytes > 0) {
        struct buf detail;
        buf_init(&detail, 4 * (size_t)WORK_TAIL_BYTES);
        task_add_detail(task, &detail);
        json_name(w, "detail");
        json_put_string(w, buf_span(&detail));
        buf_release(&detail);
    }
    if (task->outcome == OUTCOME_FAIL_PERMANENT) {
        json_name(w, "permanent");
        json_put_bool(w, true);
    }
}

static void put_item(struct json_writer *writer, const struct work *w, const struct task *task,
                     bool is_renewal) {
    json_begin(writer, '{');
    json_name(writer, "id");
    json_put_u64(writer, task->id);
    json_name(writer, "lease");
    json_put_str(writer, task->lease);
    if (is_renewal) {
        json_name(writer, "action");
        json_put_str(writer, "extend");
        call_put_number(writer, "lease_seconds", w->lease_s);
    } else {
        put_result(writer, task);
    }
    json_end(writer, '}');
}

static void put_claim(struct json_writer *writer, const struct work *w, unsigned count,
                      int64_t wait_s) {
    json_name(writer, "claim");
    json_begin(writer, '{');
    call_put_number(writer, "count", count);
    call_put_number(writer, "lease_seconds", w->lease_s);
    call_put_number(writer, "wait_seconds", wait_s);
    call_put_text(writer, "worker", w->worker);
    call_put_text(writer, "worker_version", w->worker_version);
    json_end(writer, '}');
}

/* Sends the exchange's items, and a claim of `count` (0: none). */
static void send_exchange(struct work *w, struct exchange *x, unsigned count, int64_t wait_s,
                          int64_t now_ms) {
    struct json_writer writer;
    call_begin_queue(&x->call, w->queue);
    buf_add_str(&x->call.path, "/settle");
    json_writer_init(&writer, &x->call.body);
    json_begin(&writer, '{');
    json_name(&writer, "items");
    json_begin(&writer, '[');
    for (unsigned i = 0; i < x->item_count; i++)
        put_item(&writer, w, x->items[i].task, x->items[i].is_renewal);
    json_end(&writer, ']');
    if (count > 0)
        put_claim(&writer, w, count, wait_s);
    json_end(&writer, '}');

    call_prepare(&x->call, "POST", wait_s);
    CURLMcode added = curl_multi_add_handle(w->multi, x->call.easy);
    assert(added == CURLM_OK);
    x->is_busy = true;
    x->sent_ms = now_ms;
    x->claim_count = count;
    w->reserved += count;
}

/* How many messages may be asked for when `freed` more tasks become free with the same reply. */
static unsigned claimable(const struct work *w, unsigned freed, int64_t now_ms) {
    unsigned n = freed;
    if (work_is_stopping(w) || now_ms < w->claim_hold_until_ms)
        return 0;
    for (int64_t i = 0; i < w->task_count; i++)
        n += w->tasks[i].state == TASK_FREE;
    n = n > w->reserved ? n - w->reserved : 0;
    if (w->is_once)
        return n > 0 && w->taken == 0 && w->reserved == 0 ? 1 : 0;
    return n;
}

/* Goes round the tasks from where the last exchange was full, so that none waits for ever. */
static void start_settle(struct work *w, int64_t now_ms) {
    struct exchange *x = &w->settle;
    unsigned results = 0;
    int64_t i;
    x->item_count = 0;
    for (i = 0; i < w->task_count && x->item_count < WORK_ITEMS_MAX; i++) {
        struct task *task = &w->tasks[(w->next_task + i) % w->task_count];
        bool is_result = task->state == TASK_DONE;
        bool is_renewal =
            task->state == TASK_RUNNING && !task->is_lost && now_ms >= task->renew_at_ms;
        if (!is_result && !is_renewal)
            continue;
        x->items[x->item_count].task = task;
        x->items[x->item_count++].is_renewal = is_renewal;
        task->renew_at_ms = TIME_NEVER;
        results += is_result;
    }
    w->next_task = (w->next_task + i) % w->task_count;
    if (x->item_count > 0)
        send_exchange(w, x, results > 0 ? claimable(w, results, now_ms) : 0, 0, now_ms);
}

static void start_poll(struct work *w, int64_t now_ms) {
    unsigned count = claimable(w, 0, now_ms);
    if (count > 0 && !(w->is_until_empty && w->is_empty))
        send_exchange(w, &w->poll, count, w->is_until_empty ? 0 : LIMIT_WAIT_SECONDS, now_ms);
}

void work_talk_start(struct work *w, int64_t now_ms) {
    if (now_ms < w->hold_until_ms)
        return;
    if (!w->settle.is_busy)
        start_settle(w, now_ms);
    if (!w->poll.is_busy)
        start_poll(w, now_ms);
}

/* -- replies --------------------------------------------------------------------------------- */

static int64_t member_integer(const struct json *v, const char *name) {
    const struct json *member = json_get(v, name);
    return json_is(member, JSON_INTEGER) ? json_integer(member) : 0;
}

/* Says "ID: BEFORE: why". */
static void say_problem(const struct work *w, const struct task *task, const char *before,
                        const struct json *problem) {
    struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    call_explain_problem(problem, &text);
    work_say(w, "%llu: %s: %.*s", (unsigned long long)task->id, before, (int)text.n,
             (const char *)text.p);
    buf_release(&text);
}

static void note_failure(const struct work *w, const struct task *task, bool is_dead) {
    struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    text_escape(buf_span(&task->error), TEXT_ONE_LINE, &text);
    work_note(w, "%llu: %s (%s: %.*s)", (unsigned long long)task->id,
              is_dead ? "dead" : "failed, will be retried", task->error_class, (int)text.n,
              (const char *)text.p);
    buf_release(&text);
}

static void lose(struct work *w, struct task *task, const struct json *problem, int64_t now_ms) {
    if (task->state == TASK_RUNNING) {
        say_problem(w, task, "no longer ours, its command is ended", problem);
        task->is_lost = true;
        task_terminate(task, now_ms);
        return;
    }
    say_problem(w, task,
                task->was_sent ? "settled before, or its lease ran out (the server was away)"
                               : "no longer ours, its result does not count",
                problem);
    w->lost++;
    task_free(task);
}

static void take_renewal(struct work *w, struct task *task, const struct json *problem,
                         int64_t sent_ms, int64_t now_ms) {
    int64_t status = member_integer(problem, "status");
    if (task->state != TASK_RUNNING)
        return; /* its result comes next */
    if (problem == NULL)
        task->renew_at_ms = sent_ms + w->lease_s * 1000 / 3;
    else if (status == 404 || status == 409)
        lose(w, task, problem, now_ms);
    else
        task->renew_at_ms = now_ms + WORK_ITEM_HOLD_MS;
}

static void take_result(struct work *w, struct task *task, const struct json *result,
                        const struct json *problem, int64_t now_ms) {
    int64_t status = member_integer(problem, "status");
    const struct json *state = json_get(result, "status");
    bool is_dead = json_is(state, JSON_STRING) && span_equal_str(json_string(state), "dead");
    if (status == 429 || status >= 500) {
        w->hold_until_ms = now_ms + WORK_ITEM_HOLD_MS;
        return;
    }
    w->is_empty = false;
    if (status == 404 || status == 409) {
        lose(w, task, problem, now_ms);
        return;
    }
    if (problem != NULL) {
        say_problem(w, task, "its result was refused", problem);
        w->lost++;
    } else if (task->outcome == OUTCOME_SUCCEED) {
        w->succeeded++;
    } else if (task->outcome == OUTCOME_RELEASE) {
        w->released++;
    } else {
        note_failure(w, task, is_dead);
        *(is_dead ? &w->dead : &w->failed) += 1;
    }
    task_free(task);
}

/* Items of an exchange that got no usable answer: they are sent again. */
static void take_back(struct exchange *x, int64_t now_ms) {
    for (unsigned i = 0; i < x->item_count; i++) {
        struct task *task = x->items[i].task;
        if (x->items[i].is_renewal) {
            task->renew_at_ms = task->state == TASK_RUNNING ? now_ms : TIME_NEVER;
        } else {
            task->was_sent = true;
        }
    }
}

static void trouble(struct work *w, struct exchange *x, int64_t now_ms) {
    take_back(x, now_ms);
    if (!w->is_unreachable) {
        struct buf text;
        buf_init(&text, TEXT_BYTES_MAX);
        call_explain(&x->call, &text);
        work_say(w, "%.*s; trying again until it answers", (int)text.n, (const char *)text.p);
        buf_release(&text);
    }
    w->is_unreachable = true;
    if (now_ms < w->hold_until_ms)
        return; /* the other exchange met the same trouble */
    w->backoff_ms = w->backoff_ms == 0 ? WORK_BACKOFF_FIRST_MS : w->backoff_ms * 2;
    if (w->backoff_ms > WORK_BACKOFF_MAX_MS)
        w->backoff_ms = WORK_BACKOFF_MAX_MS;
    w->hold_until_ms = now_ms + w->backoff_ms;
}

static void is_back(struct work *w) {
    if (w->is_unreachable)
        work_note(w, "the server answers again");
    w->is_unreachable = false;
    w->backoff_ms = 0;
}

/* The whole request was refused, and would be again. */
static void refused(struct work *w, struct exchange *x, int64_t now_ms) {
    const struct json *problem = x->call.reply;
    for (unsigned i = 0; i < x->item_count; i++) {
        struct task *task = x->items[i].task;
        if (x->call.status == 404 && x->items[i].is_renewal) {
            take_renewal(w, task, problem, x->sent_ms, now_ms);
        } else if (x->items[i].is_renewal) {
            task->renew_at_ms = now_ms + w->lease_s * 1000 / 3;
        } else {
            take_result(w, task, NULL, problem, now_ms);
        }
    }
    if (x->call.status == 404 && x->item_count > 0)
        return; /* the queue was deleted; the next claim makes it again */
    struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    call_explain(&x->call, &text);
    work_say(w, "%.*s", (int)text.n, (const char *)text.p);
    buf_release(&text);
    w->failure = call_exit_code(x->call.status);
    work_talk_cancel_poll(w);
}

static struct task *free_task(struct work *w) {
    for (int64_t i = 0; i < w->task_count; i++) {
        if (w->tasks[i].state == TASK_FREE)
            return &w->tasks[i];
    }
    return NULL;
}

static void take_messages(struct work *w, const struct exchange *x, int64_t now_ms) {
    const struct json *messages = json_get(x->call.reply, "messages");
    size_t n = json_is(messages, JSON_ARRAY) ? json_count(messages) : 0;
    if (x->claim_count > 0 && n == 0)
        w->is_empty = true;
    if (n > x->claim_count) {
        work_say(w,
                 "the server sent %zu messages, %u were asked for: the rest is left to its lease",
                 n, x->claim_count);
        n = x->claim_count;
    }
    for (size_t i = 0; i < n; i++) {
        struct task *task = free_task(w);
        if (task == NULL) {
            work_say(w, "a claimed message has no free task: it is left to its lease");
            return;
        }
        w->taken++;
        if (!task_start(w, task, json_at(messages, i), now_ms))
            work_say(w, "the server sent something that is not a claimed message");
    }
}

/* An answer for each item, in order. */
static bool results_fit(const struct exchange *x) {
    const struct json *results = json_get(x->call.reply, "results");
    if (x->item_count == 0)
        return true;
    if (!json_is(results, JSON_ARRAY) || json_count(results) != x->item_count)
        return false;
    for (unsigned i = 0; i < x->item_count; i++) {
        if (member_integer(json_at(results, i), "id") != (int64_t)x->items[i].task->id)
            return false;
    }
    return true;
}

static void on_reply(struct work *w, struct exchange *x, CURLcode result, int64_t now_ms) {
    const struct call *r = &x->call;
    leave(w, x);
    call_complete(&x->call, result);
    if (r->status == 0 || r->status == 408 || r->status == 429 || r->status >= 500 ||
        (call_is_success(r) && (r->reply == NULL || !results_fit(x)))) {
        trouble(w, x, now_ms);
        return;
    }
    is_back(w);
    if (!call_is_success(r)) {
        refused(w, x, now_ms);
        return;
    }
    const struct json *results = json_get(r->reply, "results");
    for (unsigned i = 0; i < x->item_count; i++) {
        const struct json *item = json_at(results, i), *problem = json_get(item, "error");
        if (x->items[i].is_renewal)
            take_renewal(w, x->items[i].task, problem, x->sent_ms, now_ms);
        else
            take_result(w, x->items[i].task, item, problem, now_ms);
    }
    take_messages(w, x, now_ms);
}

void work_talk_turn(struct work *w) {
    int running, left;
    (void)curl_multi_perform(w->multi, &running);
    const CURLMsg *message;
    while ((message = curl_multi_info_read(w->multi, &left)) != NULL) {
        struct exchange *x = message->easy_handle == w->poll.call.easy ? &w->poll : &w->settle;
        if (message->msg == CURLMSG_DONE)
            on_reply(w, x, message->data.result, clock_monotonic_us() / 1000);
    }
}
