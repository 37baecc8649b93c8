/* Finding dead letters: a merge of the cause groups that can match, in order of death. What a group
 * or the memory of a letter rules out is never read from disk, and the work of a call is bounded. */
#include "engine/engine_int.h"

#include "model/fingerprint.h"
#include "model/trace.h"

#include <assert.h>
#include <string.h>

/* -- does it match? -------------------------------------------------------------------------- */

/* What is looked at: a group, a letter of it, and the letter's message once it was read. */
struct look {
    const struct engine_state *st;
    const struct group *group;
    const struct slot *slot; /* NULL: the group as a whole */
    const struct letter *letter;
    const struct message_view *view; /* NULL: not read */
    struct json *headers, *payload;  /* parsed when first asked for */
    bool headers_parsed, payload_parsed;
};

static enum verdict known(bool is_so) {
    return is_so ? VERDICT_YES : VERDICT_NO;
}

static bool table_is_full(const struct group *g) {
    return g->image.version_count == GROUP_VERSIONS_STORED;
}

static enum verdict ask_version(const struct look *k, const struct filter_term *t) {
    const struct record_group *r = &k->group->image;
    if (k->slot) {
        if (k->letter->version < r->version_count)
            return known(term_matches_text(t, r->versions[k->letter->version].name));
        if (!table_is_full(k->group))
            return known(term_matches_text(t, (struct span){0}));
        return k->view ? known(term_matches_text(t, k->view->worker_version)) : VERDICT_MAYBE;
    }
    if (table_is_full(k->group) || term_matches_text(t, (struct span){0}))
        return VERDICT_MAYBE;
    for (unsigned i = 0; i < r->version_count; i++)
        if (term_matches_text(t, r->versions[i].name))
            return VERDICT_MAYBE;
    return VERDICT_NO;
}

/* What all letters of a group have in common, unless a worker's own fingerprint made it. */
static enum verdict ask_group(const struct look *k, const struct filter_term *t) {
    const struct record_group *r = &k->group->image;
    const struct queue *q = queue_at(k->st, k->group->queue);
    char key[GROUP_KEY_SIZE];
    if (t->word == WORD_QUEUE)
        return known(term_matches_text(t, span_of(q->name, q->name_bytes)));
    if (t->word == WORD_GROUP) {
        group_key_write(r->key, key);
        return known(term_matches_text(t, span_str(key)));
    }
    if (t->word == WORD_REASON) {
        if (k->slot)
            return known(term_matches_text(
                t, span_str(reason_name((enum reason)slot_extra(k->st, k->slot)->reason))));
        return r->is_explicit ? VERDICT_MAYBE
                              : known(term_matches_text(t, span_str(reason_name(r->reason))));
    }
    if (!r->is_explicit)
        return known(term_matches_text(t, r->error_class));
    return k->view ? known(term_matches_text(t, k->view->error_class)) : VERDICT_MAYBE;
}

static enum verdict ask_memory(const struct look *k, const struct filter_term *t) {
    const struct slot *s = k->slot;
    const struct letter *l = k->letter;
    const struct queue *q = queue_at(k->st, k->group->queue);
    int64_t number = 0;
    switch ((int)t->word) {
    case WORD_AGE:
    case WORD_DIED:
        number = l->died_at;
        break;
    case WORD_REDRIVES:
        number = l->redrive_count;
        break;
    case WORD_DELIVERIES:
        number = (int64_t)s->deliveries;
        break;
    case WORD_ID:
        number = (int64_t)s->id;
        break;
    case WORD_PRIORITY:
        number = (int64_t)s->priority;
        break;
    case WORD_SIZE:
        number = s->payload_bytes;
        break;
    case WORD_FIRST:
        number = slot_extra(k->st, s)->first_failed_at;
        break;
    case WORD_EDITED:
        number = l->edited_to != 0;
        break;
    case WORD_EXPIRES:
        if (!q->policy.keep_dead_ms)
            return VERDICT_NO;
        number = l->died_at + q->policy.keep_dead_ms;
        break;
    default:
        assert(false && "not a word of memory");
    }
    return known(term_matches_number(t, number));
}

/* A JSON text parsed once; NULL when it is none. */
static const struct json *parsed(struct span text, struct json **json, bool *was_parsed) {
    struct json_error error;
    if (!*was_parsed && text.n > 0)
        *json = json_parse(text, &error);
    *was_parsed = true;
    return *json;
}

static const struct json *header_of(const struct json *headers, struct span name) {
    /* Names in JSON may hold any byte but NUL; json_get wants its end marked. */
    char text[FILTER_BYTES_MAX + 1];
    if (name.n > FILTER_BYTES_MAX || !headers)
        return NULL;
    memcpy(text, name.p, name.n);
    text[name.n] = '\0';
    return json_get(headers, text);
}

static enum verdict ask_disk(struct look *k, const struct filter_term *t) {
    const struct message_view *v = k->view;
    char trace[TRACE_ID_SIZE];
    switch ((int)t->word) {
    case WORD_ENQUEUED:
        return known(term_matches_number(t, v->created_at));
    case WORD_MESSAGE:
        return known(term_matches_text(t, v->error));
    case WORD_KEY:
        return known(term_matches_text(t, v->key));
    case WORD_WORKER:
        return known(term_matches_text(t, v->worker));
    case WORD_TRACE:
        return known(trace_id_of(v->headers, trace) && term_matches_text(t, span_str(trace)));
    case WORD_HEADER:
        return known(term_matches_json(
            t, header_of(parsed(v->headers, &k->headers, &k->headers_parsed), t->name)));
    case WORD_PAYLOAD:
        return known(term_matches_json(
            t, term_value_at(t, parsed(v->payload, &k->payload, &k->payload_parsed))));
    default:
        assert(false && "not a word of letters");
    }
    return VERDICT_NO;
}

static enum verdict ask(void *ctx, const struct filter_term *t) {
    struct look *k = ctx;
    if (t->word == WORD_VERSION)
        return ask_version(k, t);
    if (t->word <= WORD_GROUP)
        return ask_group(k, t);
    if (t->word <= WORD_EDITED)
        return k->slot ? ask_memory(k, t) : VERDICT_MAYBE;
    return k->view ? ask_disk(k, t) : VERDICT_MAYBE;
}

/* True when the filter's answer had to come from the disk: counted against the walk's reads. */
static bool matches_on_disk(struct engine *e, struct look *k, struct walk *w) {
    struct message_view v;
    view_slot(e, k->slot, &v);
    w->reads++;
    w->read_bytes += v.payload.n + v.headers.n + v.detail.n + 512;
    k->view = &v;
    enum verdict verdict = filter_eval(w->query.filter, ask, k);
    assert(verdict != VERDICT_MAYBE);
    json_free(k->headers);
    json_free(k->payload);
    k->view = NULL;
    return verdict == VERDICT_YES;
}

static bool matches(struct engine *e, struct walk *w, const struct letter *l, bool is_sure) {
    if (w->query.fence && l->dead_seq > w->query.fence)
        return false;
    if (is_sure)
        return true;
    struct look k = {.st = &e->st,
                     .group = group_at(&e->st, l->group),
                     .slot = slot_at(&e->st, l->slot),
                     .letter = l};
    enum verdict verdict = filter_eval(w->query.filter, ask, &k);
    return verdict == VERDICT_MAYBE ? matches_on_disk(e, &k, w) : verdict == VERDICT_YES;
}

/* -- the merge ------------------------------------------------------------------------------- */

/* The next letter of a group. */
struct head {
    struct letter_place place;
    uint32_t letter, group;
    bool is_sure; /* all letters of the group match */
};

static bool goes_first(const struct head *a, const struct head *b, bool oldest_first) {
    bool is_older = a->place.died_at != b->place.died_at ? a->place.died_at < b->place.died_at
                                                         : a->place.dead_seq < b->place.dead_seq;
    return is_older == oldest_first;
}

/* Moves the head at `at` down to where it belongs. */
static void sift(struct head *heads, size_t n, size_t at, bool oldest_first) {
    struct head moved = heads[at];
    for (size_t child = 2 * at + 1; child < n; child = 2 * at + 1) {
        if (child + 1 < n && goes_first(&heads[child + 1], &heads[child], oldest_first))
            child++;
        if (!goes_first(&heads[child], &moved, oldest_first))
            break;
        heads[at] = heads[child];
        at = child;
    }
    heads[at] = moved;
}

static bool set_head(const struct engine_state *st, struct head *h, struct letter_place after,
                     bool oldest_first) {
    const struct group *g = group_at(st, h->group);
    h->letter = oldest_first ? dead_above(st, g, after) : dead_below(st, g, after);
    if (!h->letter)
        return false;
    const struct letter *l = letter_at(st, h->letter);
    h->place = (struct letter_place){l->died_at, l->dead_seq};
    return true;
}

/* Where the walk begins, before its first letter. */
static struct letter_place start_of(const struct letter_query *q, int64_t low, int64_t high) {
    struct letter_place p =
        q->oldest_first ? (struct letter_place){low, 0} : (struct letter_place){high, UINT64_MAX};
    if (!q->has_after)
        return p;
    bool is_further =
        q->oldest_first ? q->after.died_at >= p.died_at : q->after.died_at <= p.died_at;
    return is_further ? q->after : p;
}

static void add_head(struct engine *e, const struct walk *w, const struct group *g,
                     struct letter_place start) {
    enum verdict verdict = VERDICT_YES;
    if (w->query.filter) {
        struct look k = {.st = &e->st, .group = g};
        verdict = filter_eval(w->query.filter, ask, &k);
    }
    if (verdict == VERDICT_NO)
        return;
    struct head h = {.group = g->place, .is_sure = verdict == VERDICT_YES};
    if (set_head(&e->st, &h, start, w->query.oldest_first))
        buf_add(&e->heads, &h, sizeof h);
}

static size_t begin_walk(struct engine *e, const struct walk *w, struct letter_place start) {
    const struct engine_state *st = &e->st;
    buf_clear(&e->heads);
    if (w->only) {
        for (uint32_t i = w->only->first_group; i; i = group_at(st, i)->next_of_queue)
            if (group_at(st, i)->count)
                add_head(e, w, group_at(st, i), start);
    } else {
        for (uint32_t i = 1; i <= st->group_count; i++)
            if (st->groups[i] && st->groups[i]->count &&
                !queue_at(st, st->groups[i]->queue)->dropping)
                add_head(e, w, st->groups[i], start);
    }
    size_t n = e->heads.n / sizeof(struct head);
    for (size_t i = n / 2; i > 0; i--)
        sift((struct head *)(void *)e->heads.p, n, i - 1, w->query.oldest_first);
    return n;
}

static bool is_used_up(const struct walk *w) {
    return w->looked_at >= w->looked_most || w->reads >= w->reads_most ||
           w->read_bytes >= LIMIT_WALK_BYTES;
}

bool letters_walk(struct engine *e, struct walk *w,
                  bool (*f)(void *ctx, const struct slot *s, const struct letter *l), void *ctx,
                  struct letter_place *ret_next) {
    int64_t low = INT64_MIN, high = INT64_MAX;
    if (w->query.filter)
        filter_died_range(w->query.filter, &low, &high);
    bool oldest_first = w->query.oldest_first;
    struct letter_place start = start_of(&w->query, low, high);
    size_t n = begin_walk(e, w, start);
    struct head *heads = (struct head *)(void *)e->heads.p;
    *ret_next = start;
    while (n > 0) {
        struct head *h = &heads[0];
        if (oldest_first ? h->place.died_at > high : h->place.died_at < low)
            return true;
        if (is_used_up(w))
            return false;
        const struct letter *l = letter_at(&e->st, h->letter);
        w->looked_at++;
        struct letter_place place = h->place;
        bool goes_on = true;
        if (matches(e, w, l, h->is_sure))
            goes_on = f(ctx, slot_at(&e->st, l->slot), l);
        *ret_next = place;
        if (!set_head(&e->st, h, place, oldest_first))
            heads[0] = heads[--n];
        if (n > 0)
            sift(heads, n, 0, oldest_first);
        if (!goes_on)
            return n == 0;
    }
    return true;
}

uint64_t letters_count(struct engine *e, const struct walk *w, bool *ret_is_exact) {
    int64_t low = INT64_MIN, high = INT64_MAX;
    if (w->query.filter)
        filter_died_range(w->query.filter, &low, &high);
    *ret_is_exact = low == INT64_MIN && high == INT64_MAX && engine_fence(e) == w->query.fence;
    size_t n = begin_walk(e, w, start_of(&w->query, low, high));
    const struct head *heads = (const struct head *)(const void *)e->heads.p;
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += group_at(&e->st, heads[i].group)->count;
        if (!heads[i].is_sure)
            *ret_is_exact = false;
    }
    return sum;
}

/* -- pages ----------------------------------------------------------------------------------- */

struct page {
    uint64_t *ids;
    size_t n, limit;
};

static bool add_to_page(void *ctx, const struct slot *s, const struct letter *l) {
    (void)l;
    struct page *p = ctx;
    p->ids[p->n++] = s->id;
    return p->n < p->limit;
}

void engine_letters(struct engine *e, int64_t now, const struct letter_query *query,
                    uint64_t *ret_ids, struct letter_page *ret_page) {
    assert(query->limit > 0 && query->limit <= LIMIT_BATCH);
    (void)now;
    struct walk w = {
        .query = *query, .looked_most = LIMIT_WALK_LETTERS, .reads_most = LIMIT_WALK_READS};
    if (query->queue.n > 0 && !(w.only = queue_by_name(&e->st, query->queue))) {
        *ret_page = (struct letter_page){.is_last = true, .is_complete = true};
        return;
    }
    struct page page = {.ids = ret_ids, .limit = query->limit};
    struct letter_place next;
    bool is_last = letters_walk(e, &w, add_to_page, &page, &next);
    *ret_page = (struct letter_page){.n = page.n,
                                     .is_last = is_last,
                                     .next = next,
                                     .is_complete = is_last || page.n == query->limit,
                                     .looked_at = w.looked_at};
}

uint64_t engine_fence(const struct engine *e) {
    return e->st.next_dead_seq - 1;
}
