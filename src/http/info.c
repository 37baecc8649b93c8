#include "http/front.h"
#include "http/openapi.h"
#include "http/view.h"

void handle_root(struct call *c) {
    struct json_writer w;
    json_writer_init(&w, c->reply.body);
    json_begin(&w, '{');
    view_str(&w, "name", "nixie");
    view_str(&w, "version", NIXIE_VERSION);
    json_name(&w, "links");
    json_begin(&w, '{');
    view_str(&w, "queues", "/queues");
    view_str(&w, "dead", "/dead");
    view_str(&w, "groups", "/groups");
    view_str(&w, "redrives", "/redrives");
    view_str(&w, "discards", "/discards");
    view_str(&w, "policies", "/policies");
    view_str(&w, "definitions", "/definitions");
    view_str(&w, "audit", "/audit");
    view_str(&w, "doctor", "/doctor");
    view_str(&w, "openapi", "/openapi.json");
    view_str(&w, "metrics", "/metrics");
    view_str(&w, "health", "/healthz");
    view_str(&w, "ready", "/readyz");
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
