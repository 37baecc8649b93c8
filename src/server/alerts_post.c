#include "server/alerts_post.h"

#include "base/logging.h"
#include "base/mem.h"
#include "net/loop.h"
#include "server/alerts.h"
#include "server/alerts_sender.h"
#include "server/server.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LEASE_MS 60000 /* longer than any call */
#define BACKOFF_BASE_MS 5000
#define BACKOFF_CAP_MS 900000
#define RETRIES 10 /* together some 80 minutes */
#define HEADERS_BYTES_MAX (16 * 1024)

/* idle -> claimed (its record is on its way to the disk) -> out (at the sender) -> idle */
enum stage { STAGE_IDLE, STAGE_CLAIMED, STAGE_OUT };

struct alerts_post {
    struct server *server;
    struct alert_sender *sender;
    enum stage stage;
    bool may_have; /* something to claim */
    uint64_t id;   /* of the message at work */
    uint32_t lease;
    uint64_t position; /* of the log: durable there, the claim counts */
};

static void wake_loop(void *ctx) {
    struct alerts_post *p = ctx;
    loop_wake(p->server->loop);
}

struct alerts_post *alerts_post_new(struct server *server, bool private_is_fine) {
    struct alerts_post *p = mem_alloc(sizeof *p);
    p->server = server;
    p->sender = alert_sender_new(private_is_fine, wake_loop, p);
    p->may_have = true;
    return p;
}

void alerts_post_free(struct alerts_post *p) {
    if (p == NULL)
        return;
    alert_sender_free(p->sender);
    free(p);
}

/* -- in -------------------------------------------------------------------------------------- */

static enum err need_queue(struct engine *e, int64_t now) {
    struct queue_view q;
    if (engine_queue_brief(e, span_str(ALERTS_QUEUE), &q) == OK)
        return OK;
    static const struct policy_texts none;
    struct policy policy = policy_default();
    policy.max_retries = RETRIES;
    policy.backoff.base_ms = BACKOFF_BASE_MS;
    policy.backoff.cap_ms = BACKOFF_CAP_MS;
    policy.backoff.jitter = JITTER_EQUAL;
    const struct act act = {.actor = span_str("nixie"), .reason = span_str("the first alert")};
    bool is_created;
    return engine_queue_put(e, now, span_str(ALERTS_QUEUE), &policy, &none, &act, &is_created);
}

enum err alerts_post_put(struct alerts_post *p, int64_t now, struct span queue,
                         const struct alert *alert, struct span body) {
    struct engine *e = p->server->engine;
    enum err err = need_queue(e, now);
    if (err != OK)
        return err;
    struct buf headers;
    struct json_writer w;
    buf_init(&headers, HEADERS_BYTES_MAX);
    json_writer_init(&w, &headers);
    json_begin(&w, '{');
    json_name(&w, "url");
    json_put_str(&w, alert->url);
    json_name(&w, "kind");
    json_put_str(&w, alert_kind_name(alert->kind));
    json_name(&w, "queue");
    json_put_string(&w, queue);
    json_end(&w, '}');
    const struct message_new item = {
        .payload = body, .headers = buf_span(&headers), .delay_ms = -1, .ttl_ms = -1};
    struct enqueued ignored;
    err = engine_enqueue(e, now, span_str(ALERTS_QUEUE), &item, 1, &ignored);
    buf_release(&headers);
    if (err == OK)
        p->may_have = true;
    return err;
}

/* -- out ------------------------------------------------------------------------------------- */

static void settle(struct alerts_post *p, int64_t now, struct settle *how) {
    how->id = p->id;
    how->lease = p->lease;
    enum err result = OK;
    enum err e = engine_settle(p->server->engine, now, span_str(ALERTS_QUEUE), how, 1, &result);
    /* Its lease ran out, or somebody settled it by hand: then that holds. */
    if (e != OK || result != OK)
        log_warn("alert %" PRIu64 " could not be settled: %s", p->id,
                 err_text(e != OK ? e : result));
    p->stage = STAGE_IDLE;
    p->may_have = true;
}

static void fail(struct alerts_post *p, int64_t now, const char *class, const char *text,
                 bool permanent) {
    struct settle how = {.action = SETTLE_FAIL,
                         .delay_ms = -1,
                         .permanent = permanent,
                         .error = span_str(text),
                         .error_class = span_str(class)};
    log_warn("alert %" PRIu64 " was not delivered: %s: %s", p->id, class, text);
    settle(p, now, &how);
}

static void give_back(struct alerts_post *p, int64_t now) {
    struct settle how = {.action = SETTLE_RELEASE, .delay_ms = -1};
    settle(p, now, &how);
}

static struct span text_member(const struct json *v, const char *name) {
    const struct json *member = json_get(v, name);
    return json_is(member, JSON_STRING) ? json_string(member) : span_of(NULL, 0);
}

/* The alert of a message, as the policy has it now, into *ret; false when there is none. */
static bool find_alert(struct engine *e, const struct json *headers, struct alert *ret) {
    struct queue_view q;
    struct span url = text_member(headers, "url");
    int kind = alert_kind_parse(text_member(headers, "kind"));
    if (engine_queue_brief(e, text_member(headers, "queue"), &q) != OK)
        return false;
    struct alert *alerts = mem_alloc(ALERTS_MAX * sizeof *alerts);
    size_t n = alerts_read(q.texts->alerts, alerts, ALERTS_MAX);
    size_t i = 0;
    while (i < n && !((int)alerts[i].kind == kind && span_equal_str(url, alerts[i].url)))
        i++;
    if (i < n)
        *ret = alerts[i];
    free(alerts);
    return i < n;
}

static void hand_over(struct alerts_post *p, int64_t now) {
    struct engine *e = p->server->engine;
    struct message_view m;
    if (engine_message(e, span_str(ALERTS_QUEUE), p->id, &m) != OK || m.state != STATE_PROCESSING ||
        m.deliveries != p->lease) {
        p->stage = STAGE_IDLE; /* somebody settled it meanwhile */
        return;
    }
    if (p->server->draining) {
        give_back(p, now);
        return;
    }
    struct json_error ignored;
    struct json *headers = json_parse(m.headers, &ignored);
    struct alert *alert = mem_alloc(sizeof *alert);
    if (m.payload.n > ALERT_BODY_MAX || !find_alert(e, headers, alert)) {
        fail(p, now, "Withdrawn", "the queue's policy has no such alert any more", true);
    } else {
        /* Asked again: finding the alert ended what the first answer was valid for. */
        enum err err = engine_message(e, span_str(ALERTS_QUEUE), p->id, &m);
        assert(err == OK);
        const struct alert_call call = {.url = alert->url,
                                        .body = m.payload,
                                        .secret = span_of(alert->secret, alert->secret_bytes),
                                        .seconds = now / 1000,
                                        .message = p->id};
        alert_sender_push(p->sender, &call);
        p->stage = STAGE_OUT;
    }
    free(alert);
    json_free(headers);
}

static void claim(struct alerts_post *p, int64_t now) {
    const struct claim how = {.count = 1,
                              .lease_ms = LEASE_MS,
                              .bytes_max = ALERT_BODY_MAX + HEADERS_BYTES_MAX,
                              .worker = span_str("nixie")};
    struct engine *e = p->server->engine;
    size_t n = 0;
    struct message_view m;
    p->may_have = false;
    if (engine_claim(e, now, span_str(ALERTS_QUEUE), &how, &p->id, &n) != OK || n == 0)
        return;
    enum err err = engine_message(e, span_str(ALERTS_QUEUE), p->id, &m);
    assert(err == OK);
    p->lease = m.deliveries;
    p->position = log_end(p->server->log);
    p->stage = STAGE_CLAIMED;
}

static void collect(struct alerts_post *p, int64_t now) {
    struct alert_outcome o;
    if (!alert_sender_collect(p->sender, &o))
        return;
    if (o.is_good) {
        struct settle how = {.action = SETTLE_SUCCEED, .delay_ms = -1};
        settle(p, now, &how);
    } else if (o.is_broken_off) {
        give_back(p, now);
    } else {
        fail(p, now, o.error_class, o.error, o.is_refused);
    }
}

void alerts_post_look(struct alerts_post *p) {
    p->may_have = true;
}

void alerts_post_turn(struct alerts_post *p, int64_t now) {
    if (p->stage == STAGE_OUT)
        collect(p, now);
    if (p->stage == STAGE_IDLE && p->may_have && !p->server->draining)
        claim(p, now);
    if (p->stage == STAGE_CLAIMED && log_durable(p->server->log) >= p->position)
        hand_over(p, now);
}

bool alerts_post_is_busy(const struct alerts_post *p) {
    return p->stage != STAGE_IDLE;
}

void alerts_post_break(struct alerts_post *p) {
    if (p->stage == STAGE_OUT)
        alert_sender_break(p->sender);
}
