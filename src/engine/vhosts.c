/* Vhosts: each is there as long as its default exchange is, and what is set for it stands in that
 * exchange's record. */
#include "engine/engine_int.h"

#include "model/scope.h"

#include <assert.h>

static const struct {
    const char *name;
    enum exchange_type type;
    bool internal;
} predeclared[] = {
    {"", EXCHANGE_DIRECT, false},
    {"amq.direct", EXCHANGE_DIRECT, false},
    {"amq.fanout", EXCHANGE_FANOUT, false},
    {"amq.topic", EXCHANGE_TOPIC, false},
    {"amq.headers", EXCHANGE_HEADERS, false},
    {"amq.match", EXCHANGE_HEADERS, false},
    {"amq.rabbitmq.trace", EXCHANGE_TOPIC, true},
};
#define PREDECLARED (sizeof predeclared / sizeof predeclared[0])
static_assert(VHOST_NAME_MAX + sizeof "///amq.rabbitmq.trace" - 1 == LIMIT_QUEUE_NAME,
              "all of them have names");

static const struct exchange *default_exchange(const struct engine *e, struct span vhost) {
    struct buf name;
    buf_init(&name, SIZE_MAX);
    const struct exchange *x = scope_name(vhost, (struct span){0}, &name)
                                   ? exchange_by_name(&e->st, buf_span(&name))
                                   : NULL;
    buf_release(&name);
    return x;
}

bool engine_vhost_is_there(const struct engine *e, struct span vhost) {
    return default_exchange(e, vhost) != NULL;
}

enum err engine_vhost(const struct engine *e, struct span vhost, struct vhost_settings *ret) {
    const struct exchange *x = default_exchange(e, vhost);
    *ret = (struct vhost_settings){.reads_deaths = x && x->image.reads_deaths};
    return x ? OK : ERR_NO_VHOST;
}

struct listing {
    bool (*f)(void *ctx, struct span vhost, const struct vhost_settings *settings);
    void *ctx;
    const struct engine *engine;
};

static bool list_one(void *ctx, const struct exchange_view *x) {
    const struct listing *l = ctx;
    struct span vhost, name;
    struct vhost_settings settings;
    scope_split(x->name, &vhost, &name);
    return name.n > 0 || engine_vhost(l->engine, vhost, &settings) != OK ||
           l->f(l->ctx, vhost, &settings);
}

void engine_vhosts(const struct engine *e,
                   bool (*f)(void *ctx, struct span vhost, const struct vhost_settings *settings),
                   void *ctx) {
    struct listing l = {.f = f, .ctx = ctx, .engine = e};
    engine_exchanges(e, list_one, &l);
}

/* All its exchanges, the default one first. */
static void append_all(struct engine *e, struct span vhost, const struct vhost_settings *s) {
    for (size_t i = 0; i < PREDECLARED; i++) {
        (void)scope_name(vhost, span_str(predeclared[i].name), &e->scoped);
        const struct record_exchange r = {.exchange = e->st.topology.next_exchange,
                                          .type = predeclared[i].type,
                                          .internal = predeclared[i].internal,
                                          .reads_deaths = i == 0 && s->reads_deaths,
                                          .durable = true,
                                          .name = buf_span(&e->scoped)};
        append_exchange(e, &r);
    }
}

enum err engine_vhost_put(struct engine *e, int64_t now, struct span vhost,
                          const struct vhost_settings *s, const struct act *act) {
    if (!scope_vhost_is_valid(vhost) || vhost.n > VHOST_NAME_MAX)
        return ERR_INVALID;
    const struct exchange *x = default_exchange(e, vhost);
    if (x && x->image.reads_deaths == s->reads_deaths)
        return OK;
    if (!x && e->st.topology.live_exchanges + PREDECLARED > LIMIT_EXCHANGES)
        return ERR_TOO_MANY_EXCHANGES;
    struct act who = act ? act_cut(act) : (struct act){0};
    const struct audit_entry entry = {.at = now,
                                      .action = AUDIT_VHOST_CHANGED,
                                      .scope = vhost,
                                      .actor = who.actor,
                                      .reason = who.reason};
    size_t bytes =
        PREDECLARED * log_record_bytes(STATE_RECORD_BYTES, LIMIT_QUEUE_NAME) + audit_bytes(&entry);
    if (!log_has_room(e->log, LOG_USE_ACCEPT, bytes))
        return ERR_DISK_FULL;
    log_frame_begin(e->log, bytes);
    if (act)
        append_audit(e, &entry);
    if (x) {
        struct record_exchange r = x->image;
        r.reads_deaths = s->reads_deaths;
        append_exchange(e, &r);
    } else {
        append_all(e, vhost, s);
    }
    log_frame_end(e->log);
    return OK;
}
