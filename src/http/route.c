#include "http/route.h"

#include "http/front.h"

#include <string.h>

static const struct route routes[] = {
    {METHOD_POST, "/queues/{queue}/messages", handle_enqueue, ACCESS_WORK},
    {METHOD_POST, "/queues/{queue}/claim", handle_claim, ACCESS_WORK},
    {METHOD_POST, "/queues/{queue}/messages/{id}/succeed", handle_succeed, ACCESS_WORK},
    {METHOD_POST, "/queues/{queue}/settle", handle_settle, ACCESS_WORK},
    {METHOD_POST, "/queues/{queue}/messages/{id}/fail", handle_fail, ACCESS_WORK},
    {METHOD_POST, "/queues/{queue}/messages/{id}/extend", handle_extend, ACCESS_WORK},
    {METHOD_POST, "/queues/{queue}/messages/{id}/release", handle_release, ACCESS_WORK},
    {METHOD_POST, "/queues/{queue}/messages/{id}/replay", handle_replay, ACCESS_WORK},
    {METHOD_GET, "/queues/{queue}/messages/{id}", handle_message, ACCESS_WORK},
    {METHOD_GET, "/messages/{id}", handle_any_message, ACCESS_WORK},
    {METHOD_GET, "/queues/{queue}/messages/{id}/payload", handle_payload, ACCESS_WORK},
    {METHOD_GET, "/queues/{queue}/messages/{id}/attempts", handle_attempts, ACCESS_WORK},
    {METHOD_GET, "/queues/{queue}/messages", handle_list, ACCESS_WORK},
    {METHOD_GET, "/queues/{queue}", handle_queue, ACCESS_WORK},
    {METHOD_PUT, "/queues/{queue}", handle_queue_put, ACCESS_WORK},
    {METHOD_DELETE, "/queues/{queue}", handle_queue_delete, ACCESS_WORK},
    {METHOD_GET, "/queues", handle_queues, ACCESS_WORK},
    {METHOD_GET, "/queues/{queue}/classify", handle_classify, ACCESS_WORK},
    {METHOD_POST, "/queues/{queue}/pause", handle_queue_pause, ACCESS_WORK},
    {METHOD_POST, "/queues/{queue}/resume", handle_queue_resume, ACCESS_WORK},
    {METHOD_POST, "/queues/{queue}/alerts/snooze", handle_alerts_snooze, ACCESS_WORK},
    {METHOD_POST, "/queues/{queue}/purge", handle_purge, ACCESS_WORK},
    {METHOD_POST, "/queues/{queue}/messages/{id}/edit", handle_edit, ACCESS_WORK},
    {METHOD_POST, "/queues/{queue}/messages/{id}/discard", handle_discard, ACCESS_WORK},
    {METHOD_POST, "/queues/{queue}/messages/{id}/undiscard", handle_undiscard, ACCESS_WORK},
    {METHOD_GET, "/dead", handle_dead, ACCESS_WORK},
    {METHOD_POST, "/dead", handle_dead_import, ACCESS_WORK},
    {METHOD_GET, "/groups", handle_groups, ACCESS_WORK},
    {METHOD_GET, "/groups/{key}", handle_group, ACCESS_WORK},
    {METHOD_PATCH, "/groups/{key}", handle_group_change, ACCESS_WORK},
    {METHOD_POST, "/redrives", handle_redrive, ACCESS_WORK},
    {METHOD_GET, "/redrives", handle_redrives, ACCESS_WORK},
    {METHOD_GET, "/redrives/{job}", handle_redrive_read, ACCESS_WORK},
    {METHOD_PATCH, "/redrives/{job}", handle_redrive_change, ACCESS_WORK},
    {METHOD_POST, "/discards", handle_discards_post, ACCESS_WORK},
    {METHOD_GET, "/discards", handle_discards, ACCESS_WORK},
    {METHOD_GET, "/discards/{job}", handle_discards_read, ACCESS_WORK},
    {METHOD_PATCH, "/discards/{job}", handle_discards_change, ACCESS_WORK},
    {METHOD_GET, "/vhosts", handle_vhosts, ACCESS_WORK},
    {METHOD_GET, "/vhosts/{key}", handle_vhost, ACCESS_WORK},
    {METHOD_PUT, "/vhosts/{key}", handle_vhost_put, ACCESS_WORK},
    {METHOD_GET, "/policies", handle_policies, ACCESS_WORK},
    {METHOD_GET, "/policies/{key}", handle_policy, ACCESS_WORK},
    {METHOD_PUT, "/policies/{key}", handle_policy_put, ACCESS_WORK},
    {METHOD_DELETE, "/policies/{key}", handle_policy_delete, ACCESS_WORK},
    {METHOD_GET, "/definitions", handle_definitions, ACCESS_WORK},
    {METHOD_POST, "/definitions", handle_definitions_post, ACCESS_WORK},
    {METHOD_GET, "/audit", handle_audit, ACCESS_WORK},
    {METHOD_GET, "/doctor", handle_doctor, ACCESS_WORK},
    {METHOD_GET, "/metrics", handle_metrics, ACCESS_TOKEN},
    {METHOD_GET, "/healthz", handle_healthz, ACCESS_OPEN},
    {METHOD_GET, "/readyz", handle_readyz, ACCESS_OPEN},
    {METHOD_GET, "/openapi.json", handle_openapi, ACCESS_TOKEN},
    {METHOD_GET, "/", handle_root, ACCESS_TOKEN},
};

enum { ROUTES = sizeof routes / sizeof routes[0] };

/* Cuts "/segment" off; false at the end. */
static bool next_segment(struct span *rest, struct span *ret_segment) {
    if (rest->n == 0 || rest->p[0] != '/')
        return false;
    const uint8_t *end = rest->n > 1 ? memchr(rest->p + 1, '/', rest->n - 1) : NULL;
    size_t n = end == NULL ? rest->n : (size_t)(end - rest->p);
    *ret_segment = span_of(rest->p + 1, n - 1);
    *rest = span_of(rest->p + n, rest->n - n);
    return true;
}

enum { SEGMENTS_MAX = 5 };

struct segments {
    size_t count; /* SEGMENTS_MAX + 1: more */
    struct span items[SEGMENTS_MAX];
};

static struct segments split(struct span path) {
    struct segments s = {0};
    struct span segment;
    while (next_segment(&path, &segment)) {
        if (s.count == SEGMENTS_MAX) {
            s.count++;
            break;
        }
        s.items[s.count++] = segment;
    }
    return s;
}

/* Notes what stands in the path where the pattern has a name in braces; false when it is no such
 * name. */
static bool take(struct span wanted, struct span segment, struct match *m) {
    if (segment.n == 0)
        return false;
    if (span_equal_str(wanted, "{queue}")) {
        m->queue = segment;
    } else if (span_equal_str(wanted, "{key}")) {
        m->key = segment;
    } else if (span_equal_str(wanted, "{id}") || span_equal_str(wanted, "{job}")) {
        m->id = segment;
        m->has_id = true;
        m->is_job = wanted.p[1] == 'j';
    } else {
        return false;
    }
    return true;
}

static bool is_match(const struct segments *s, const char *pattern, struct match *m) {
    struct span rest = span_str(pattern), wanted;
    struct match found = {.allowed = m->allowed};
    size_t i = 0;
    for (; next_segment(&rest, &wanted); i++) {
        if (i == s->count)
            return false;
        if (!take(wanted, s->items[i], &found) && !span_equal(wanted, s->items[i]))
            return false;
    }
    if (i != s->count)
        return false;
    *m = found;
    return true;
}

struct match route_find(enum method method, struct span path) {
    const struct segments segments = split(path);
    struct match m = {0};
    for (size_t i = 0; i < ROUTES; i++) {
        const struct route *r = &routes[i];
        if (!is_match(&segments, r->path, &m))
            continue;
        m.allowed |= 1U << r->method;
        if (r->method == METHOD_GET)
            m.allowed |= 1U << METHOD_HEAD;
        if (r->method == method || (r->method == METHOD_GET && method == METHOD_HEAD)) {
            m.route = r;
            return m;
        }
    }
    return m;
}
