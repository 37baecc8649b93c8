/* Cause groups: where a death belongs, and what people see and say of them. */
#include "engine/engine_int.h"

#include "base/mem.h"
#include "model/fingerprint.h"

#include <assert.h>
#include <stdlib.h>

/* -- where a death belongs ------------------------------------------------------------------- */

/* The one that has been quiet for longest, of those that say nothing to anybody; 0 = none. */
static uint32_t find_forgettable(struct engine *e) {
    if (e->emptied_seen == e->st.emptied_groups)
        return 0; /* none became empty since there was none */
    const struct group *quietest = NULL;
    for (uint32_t i = 1; i <= e->st.group_count; i++) {
        const struct group *g = e->st.groups[i];
        if (!g || !group_is_empty(g) || g->image.owner.n || g->image.note.n ||
            g->image.state == GROUP_ACKNOWLEDGED)
            continue;
        if (!quietest || g->image.last_seen < quietest->image.last_seen)
            quietest = g;
    }
    if (!quietest)
        e->emptied_seen = e->st.emptied_groups;
    return quietest ? quietest->number : 0;
}

/* The place of a worker version in the group's table; a new one is added to the image. */
static uint8_t version_place(struct record_group *image, struct span version, bool *ret_is_new) {
    *ret_is_new = false;
    if (version.n == 0)
        return VERSION_NONE;
    for (uint8_t i = 0; i < image->version_count; i++)
        if (span_equal(image->versions[i].name, version))
            return i;
    if (image->version_count == GROUP_VERSIONS_STORED)
        return VERSION_NONE;
    image->versions[image->version_count] = (struct group_version){.name = version};
    *ret_is_new = true;
    return image->version_count++;
}

static void begin_group(struct engine *e, int64_t now, const struct queue *q,
                        const struct failure_facts *facts, uint64_t key, struct group_choice *c) {
    fingerprint_title(facts, &e->title);
    c->image = (struct record_group){
        .group = e->st.next_group,
        .queue = q->number,
        .key = key,
        .reason = facts->reason,
        .is_explicit = facts->fingerprint.n > 0,
        .state_at = now,
        .title = buf_span(&e->title),
        .error_class = facts->error_class,
    };
    c->is_written = true;
}

/* Another letter came to a group that was done with. */
static bool reopen(const struct group *g, int64_t now, struct record_group *image) {
    if (image->state != GROUP_RESOLVED && !group_is_empty(g))
        return false;
    if (image->total == 0)
        return false;
    image->state = GROUP_OPEN;
    image->state_at = now;
    image->regressed_at = now;
    image->quiet_ms = now > image->last_seen ? now - image->last_seen : 0;
    return true;
}

void group_choose(struct engine *e, int64_t now, const struct queue *q,
                  const struct failure_facts *facts, struct span worker_version, bool stays,
                  struct group_choice *ret) {
    /* Where causes that do not fit any more go. */
    const struct failure_facts other = {
        .queue = facts->queue, .reason = facts->reason, .fingerprint = span_str("(other causes)")};
    uint64_t key = fingerprint_v1(facts);
    struct group *g = group_by_key(&e->st, key, q->place);
    *ret = (struct group_choice){0};
    if (!g && e->st.live_groups >= LIMIT_GROUPS) {
        ret->forgotten = find_forgettable(e);
        if (!ret->forgotten) {
            facts = &other;
            key = fingerprint_v1(facts);
            g = group_by_key(&e->st, key, q->place);
        }
    }
    if (g) {
        ret->image = g->image;
        ret->image.group = g->number;
        ret->is_written = stays && reopen(g, now, &ret->image);
    } else {
        begin_group(e, now, q, facts, key, ret);
    }
    bool is_new_version;
    ret->version = version_place(&ret->image, worker_version, &is_new_version);
    ret->is_written |= is_new_version;
    ret->group = ret->image.group;
    if (ret->forgotten)
        ret->bytes += log_record_bytes(STATE_RECORD_BYTES, 0);
    if (ret->is_written)
        ret->bytes += group_bytes(&ret->image);
}

void group_append(struct engine *e, const struct group_choice *c) {
    if (c->forgotten) {
        uint8_t meta[RECORD_META_MAX];
        append_bare(e, RECORD_GROUP_GONE, meta, record_group_gone_put(meta, c->forgotten));
        apply_group_gone(&e->st, c->forgotten);
    }
    if (c->is_written)
        append_group(e, &c->image);
}

/* -- what people see ------------------------------------------------------------------------- */

static uint64_t id_of_letter(const struct engine_state *st, uint32_t letter) {
    return letter ? slot_at(st, letter_at(st, letter)->slot)->id : 0;
}

static struct group_view view_of(const struct engine *e, const struct group *g, int64_t now) {
    const struct record_group *r = &g->image;
    const struct queue *q = queue_at(&e->st, g->queue);
    struct group_view v = {
        .key = r->key,
        .queue = span_of(q->name, q->name_bytes),
        .title = r->title,
        .error_class = r->error_class,
        .reason = r->reason,
        .is_explicit = r->is_explicit,
        .count = g->count,
        .open = g->open,
        .total = r->total,
        .first_seen = r->first_seen,
        .last_seen = r->last_seen,
        .state = g->count + g->open == 0 ? GROUP_RESOLVED : r->state,
        .state_at = r->state_at,
        .regressed_at = r->regressed_at,
        .quiet_ms = r->quiet_ms,
        .owner = r->owner,
        .note = r->note,
        .version_count = r->version_count,
        .newest = id_of_letter(&e->st, dead_last(&e->st, g)),
        .oldest = id_of_letter(&e->st, dead_first(&e->st, g)),
    };
    group_window(g, now, &v.hour, &v.day);
    for (unsigned i = 0; i < r->version_count; i++) {
        v.versions[i].name = r->versions[i].name;
        v.versions[i].total = r->versions[i].total;
        v.versions[i].count = g->version_count[i];
    }
    return v;
}

static enum verdict known(bool is_so) {
    return is_so ? VERDICT_YES : VERDICT_NO;
}

static enum verdict ask_group(void *ctx, const struct filter_term *t) {
    const struct group_view *v = ctx;
    char key[GROUP_KEY_SIZE];
    switch (t->word) {
    case WORD_QUEUE:
        return known(term_matches_text(t, v->queue));
    case WORD_REASON:
        return known(term_matches_text(t, span_str(reason_name(v->reason))));
    case WORD_ERROR:
        return known(term_matches_text(t, v->error_class));
    case WORD_GROUP:
        group_key_write(v->key, key);
        return known(term_matches_text(t, span_str(key)));
    case WORD_MESSAGE:
        return known(term_matches_text(t, v->title));
    case WORD_VERSION:
        for (size_t i = 0; i < v->version_count; i++)
            if (term_matches_text(t, v->versions[i].name))
                return VERDICT_YES;
        return VERDICT_NO;
    case WORD_STATE:
        return known(term_matches_text(t, span_str(group_state_name(v->state))));
    case WORD_OWNER:
        return known(term_matches_text(t, v->owner));
    case WORD_COUNT:
        return known(term_matches_number(t, (int64_t)v->count));
    case WORD_SEEN:
        return known(term_matches_number(t, v->last_seen));
    case WORD_AGE:
    case WORD_DIED:
    case WORD_REDRIVES:
    case WORD_DELIVERIES:
    case WORD_ID:
    case WORD_PRIORITY:
    case WORD_SIZE:
    case WORD_EXPIRES:
    case WORD_FIRST:
    case WORD_EDITED:
    case WORD_ENQUEUED:
    case WORD_KEY:
    case WORD_WORKER:
    case WORD_TRACE:
    case WORD_HEADER:
    case WORD_PAYLOAD:
        break;
    }
    assert(false && "the parser lets no other word through");
    return VERDICT_NO;
}

static int order_down(int64_t a, int64_t b) {
    return a > b ? -1 : a < b;
}

/* By what they are sorted for; then the newest first, so that pages are stable. */
static int compare(const void *pa, const void *pb, void *order) {
    const struct group *const *ga = pa, *const *gb = pb;
    const struct group *a = *ga, *b = *gb;
    int c = 0;
    switch (*(enum group_order *)order) {
    case GROUPS_BY_LAST_SEEN:
        c = order_down(a->image.last_seen, b->image.last_seen);
        break;
    case GROUPS_BY_COUNT:
        c = order_down((int64_t)a->count, (int64_t)b->count);
        break;
    case GROUPS_BY_FIRST_SEEN:
        c = order_down(a->image.first_seen, b->image.first_seen);
        break;
    case GROUPS_BY_TITLE:
        c = span_compare(a->image.title, b->image.title);
        break;
    }
    return c ? c : order_down(a->number, b->number);
}

void engine_groups(struct engine *e, int64_t now, const struct group_query *query,
                   void (*f)(void *ctx, const struct group_view *g), void *ctx,
                   uint64_t *ret_total) {
    assert(query->limit > 0 && query->limit <= LIMIT_BATCH);
    struct group **found = mem_alloc((e->st.live_groups + 1) * sizeof(struct group *));
    size_t n = 0;
    for (uint32_t i = 1; i <= e->st.group_count; i++) {
        struct group *g = e->st.groups[i];
        if (!g || queue_at(&e->st, g->queue)->dropping ||
            (!query->with_empty && g->count + g->open == 0))
            continue;
        if (query->filter) {
            struct group_view v = view_of(e, g, now);
            if (filter_eval(query->filter, ask_group, &v) != VERDICT_YES)
                continue;
        }
        found[n++] = g;
    }
    enum group_order order = query->order;
    qsort_r(found, n, sizeof(struct group *), compare, &order);
    for (size_t i = query->offset; i < n && i - query->offset < query->limit; i++) {
        struct group_view v = view_of(e, found[i], now);
        f(ctx, &v);
    }
    free(found);
    *ret_total = n;
}

enum err engine_group(struct engine *e, int64_t now, uint64_t key, struct group_view *ret) {
    const struct group *g = group_by_key(&e->st, key, 0);
    if (!g)
        return ERR_NO_GROUP;
    *ret = view_of(e, g, now);
    return OK;
}

/* -- what people say ------------------------------------------------------------------------- */

static void say_change(struct engine *e, const struct group_change *c) {
    buf_clear(&e->result);
    if (c->has_state)
        buf_printf(&e->result, "state %s", group_state_name(c->state));
    if (c->has_owner) {
        buf_add_str(&e->result, e->result.n ? ", owner " : "owner ");
        buf_add_span(&e->result, c->owner.n ? c->owner : span_str("nobody"));
    }
    if (c->has_note)
        buf_add_str(&e->result, e->result.n ? ", note" : "note");
}

enum err engine_group_change(struct engine *e, int64_t now, uint64_t key,
                             const struct group_change *change, const struct act *act) {
    const struct group *g = group_by_key(&e->st, key, 0);
    if (!g)
        return ERR_NO_GROUP;
    struct record_group image = g->image;
    image.group = g->number;
    if (change->has_state) {
        image.state = change->state;
        image.state_at = now;
    }
    if (change->has_owner)
        image.owner = change->owner;
    if (change->has_note)
        image.note = change->note;
    struct act who = act_cut(act);
    const struct queue *q = queue_at(&e->st, g->queue);
    say_change(e, change);
    const struct audit_entry entry = {.at = now,
                                      .action = AUDIT_GROUP,
                                      .count = g->count,
                                      .target = key,
                                      .queue = span_of(q->name, q->name_bytes),
                                      .actor = who.actor,
                                      .reason = who.reason,
                                      .result = buf_span(&e->result)};
    size_t bytes = group_bytes(&image) + audit_bytes(&entry);
    if (!log_has_room(e->log, LOG_USE_SETTLE, bytes))
        return ERR_DISK_FULL;
    log_frame_begin(e->log, bytes);
    append_group(e, &image);
    append_audit(e, &entry);
    log_frame_end(e->log);
    return OK;
}
