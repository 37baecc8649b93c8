/* Which rule of a queue would take a failure. */
#include "http/front.h"
#include "http/query.h"
#include "http/view.h"
#include "model/rules.h"

/* "rules[1]: error matches Http429 and message matches *slow*", from the rule as it was given. */
static void add_why(const struct json *rule, size_t number, struct buf *why) {
    static const char *const tests[] = {"error", "error_regex", "message", "message_regex"};
    const char *before = "";
    buf_printf(why, "rules[%zu]: ", number);
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
        const struct json *pattern = json_get(rule, tests[i]);
        if (!json_is(pattern, JSON_STRING))
            continue;
        buf_printf(why, "%s%s matches ", before, tests[i]);
        buf_add_span(why, json_string(pattern));
        before = " and ";
    }
    if (before[0] == '\0')
        buf_add_str(why, "matches everything");
}

static void put_rule(struct json_writer *w, const struct rule *rule, struct span rules) {
    struct json_error error;
    struct json *all = json_parse(rules, &error);
    struct buf why;
    buf_init(&why, LIMIT_BODY);
    add_why(json_at(all, rule->number), rule->number, &why);
    view_str(w, "action", rule_action_name(rule->action));
    view_number(w, "rule", rule->number);
    view_text(w, "why", buf_span(&why));
    buf_release(&why);
    json_free(all);
    if (rule->max_retries)
        view_number(w, "max_retries", rule->max_retries);
    if (rule->has_backoff) {
        json_name(w, "backoff");
        backoff_to_json(&rule->backoff, w);
    }
    if (rule->action == RULE_RELEASE && rule->delay_ms >= 0)
        view_number(w, "delay_seconds", (uint64_t)(rule->delay_ms / 1000));
}

void handle_classify(struct call *c) {
    static const char *const names[] = {"class", "message", NULL};
    struct span values[2];
    query_read(c->request->query, names, values, &c->http->scratch, &c->http->errors);
    if (!call_is_valid(c))
        return;
    struct queue_view q;
    enum err e = engine_queue_brief(call_engine(c), c->queue, &q);
    if (e != OK) {
        reply_error(&c->reply, e);
        return;
    }
    struct rules *rules = rules_new(q.texts->rules);
    struct rule rule;
    struct json_writer w;
    json_writer_init(&w, c->reply.body);
    json_begin(&w, '{');
    if (rules_find(rules, values[0], values[1], &rule)) {
        put_rule(&w, &rule, q.texts->rules);
    } else {
        view_str(&w, "action", rule_action_name(RULE_RETRY));
        json_name(&w, "rule");
        json_put_null(&w);
        view_str(&w, "why", "no rule matches: the queue's own backoff and limit");
    }
    json_end(&w, '}');
    rules_free(rules);
}
