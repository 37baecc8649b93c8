#include "http/front.h"
#include "http/openapi.h"

void handle_root(struct call *c) {
    struct json_writer w;
    json_writer_init(&w, c->reply.body);
    json_begin(&w, '{');
    json_name(&w, "name");
    json_put_str(&w, "nixie");
    json_name(&w, "version");
    json_put_str(&w, NIXIE_VERSION);
    json_name(&w, "links");
    json_begin(&w, '{');
    json_name(&w, "queues");
    json_put_str(&w, "/queues");
    json_name(&w, "dead");
    json_put_str(&w, "/dead");
    json_name(&w, "groups");
    json_put_str(&w, "/groups");
    json_name(&w, "redrives");
    json_put_str(&w, "/redrives");
    json_name(&w, "discards");
    json_put_str(&w, "/discards");
    json_name(&w, "policies");
    json_put_str(&w, "/policies");
    json_name(&w, "definitions");
    json_put_str(&w, "/definitions");
    json_name(&w, "audit");
    json_put_str(&w, "/audit");
    json_name(&w, "doctor");
    json_put_str(&w, "/doctor");
    json_name(&w, "openapi");
    json_put_str(&w, "/openapi.json");
    json_name(&w, "metrics");
    json_put_str(&w, "/metrics");
    json_name(&w, "health");
    json_put_str(&w, "/healthz");
    json_name(&w, "ready");
    json_put_str(&w, "/readyz");
    json_end(&w, '}');
    json_end(&w, '}');
}

void handle_healthz(struct call *c) {
    buf_add_str(c->reply.body, "{\"status\":\"ok\"}");
}

void handle_readyz(struct call *c) {
    /* What a small message takes: less room than that is none. */
    const size_t bytes = 4096;
    if (c->server->draining)
        reply_problem(&c->reply, 503, "not ready", "the server is draining: it shuts down");
    else if (!log_has_room(c->server->log, LOG_USE_ACCEPT, bytes))
        reply_problem(&c->reply, 503, "not ready", "the disk is full");
    else
        buf_add_str(c->reply.body, "{\"status\":\"ready\"}");
}

void handle_openapi(struct call *c) {
    buf_add_span(c->reply.body, openapi_text());
}
