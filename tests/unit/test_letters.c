/* Finding dead letters, against a list of all that died: filters at each of their levels, in both orders and pages of any size. */
#include "base/clock.h"
#include "base/limits.h"
#include "base/rng.h"
#include "engine_rig.h"
#include "model/fingerprint.h"

static struct rig rig;
static struct rng rng;

/* -- a crowd of letters ------------------------------------------------------------------------------ */

#define CROWD 400

/* What is known of each: an answer to every filter by itself. */
struct fact {
    struct rig_death death;
    char payload[64], error[64];
    int n; /* in the payload; -1: it is no JSON */
    uint64_t id, dead_seq, group_key;
    int64_t died_at, first_failed_at;
    unsigned redrives, deliveries;
    bool is_edited;
};

static struct fact facts[CROWD]; /* in order of death */

#define PICK(...)                                                                                  \
    pick((const char *const[]){__VA_ARGS__}, sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *))
static const char *pick(const char *const *texts, size_t n) {
    return texts[rng_below(&rng, n)];
}

#define TRACED                                                                                     \
    "{\"tenant\":\"acme\",\"traceparent\":\"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-" \
    "01\"}"

static void invent(struct fact *f) {
    *f = (struct fact){.n = (int)rng_below(&rng, 21) - 1};
    snprintf(f->payload, sizeof f->payload, f->n < 0 ? "no JSON" : "{\"n\":%d,\"text\":\"%s\"}",
             f->n, rng_below(&rng, 2) ? "a" : "a longer text");
    snprintf(f->error, sizeof f->error, rng_below(&rng, 2) ? "took %u ms" : "no customer %u",
             (unsigned)rng_below(&rng, 1000));
    f->death = (struct rig_death){
        .queue = PICK("orders", "mails", "mails-slow"),
        .class = PICK("Timeout", "TimeoutOfPeer", "Refused", NULL),
        .error = f->error,
        .fingerprint = rng_below(&rng, 5) ? NULL : PICK("fp-1", "fp-2"),
        .worker = PICK("w1", "w2", NULL),
        .version = PICK("1.0", "1.1", "2.0", NULL),
        .key = PICK("k1", "k2", NULL),
        .headers = PICK("{\"tenant\":\"acme\"}", TRACED, "{\"tenant\":7}", NULL),
        .payload = f->payload,
        .priority = (uint8_t)rng_below(&rng, PRIORITY_MAX + 1),
        .permanent = rng_below(&rng, 2),
    };
}

/* Some are released a few times, sent again and die again. */
static void live_and_die(struct fact *f) {
    const struct rig_death *d = &f->death;
    f->redrives = rng_below(&rng, 3) ? 0 : (unsigned)rng_below(&rng, 3);
    rig_enqueue(&rig, d, 1);
    for (unsigned life = 0; life <= f->redrives; life++) {
        unsigned releases = rng_below(&rng, 4) ? 0 : 1;
        for (unsigned i = 0; i <= releases; i++, f->deliveries++) {
            rig_claim(&rig, d, 1, &f->id);
            rig_settle(&rig, d, i < releases ? SETTLE_RELEASE : SETTLE_FAIL, &f->id, 1);
        }
        if (life == 0)
            f->first_failed_at = rig.now;
        if (life < f->redrives) {
            rig.now += (int64_t)rng_below(&rng, 2000);
            rig_replay(&rig, d->queue, f->id);
        }
    }
    f->is_edited = rng_below(&rng, 10) == 0;
    const struct act act = {.actor = span_str("ann")};
    uint64_t copy;
    if (f->is_edited) {
        CHECK(engine_edit(rig.engine, rig.now, span_str(d->queue), f->id,
                          &(struct edit){.force = true}, &act, &copy) == OK);
        rig_claim(&rig, d, 1, &copy);
        rig_settle(&rig, d, SETTLE_SUCCEED, &copy, 1);
    }
}

static void begin(void) {
    rng_seed(&rng, 9);
    rig_begin(&rig);
    for (int i = 0; i < CROWD; i++) {
        struct fact *f = &facts[i];
        invent(f);
        live_and_die(f);
        struct message_view v;
        CHECK(engine_letter(rig.engine, f->id, &v) == OK);
        CHECK(v.state == STATE_DEAD && v.died_at == rig.now && v.deliveries == f->deliveries &&
              v.redrive_count == f->redrives);
        f->died_at = v.died_at;
        f->dead_seq = v.dead_seq;
        f->group_key = v.group_key;
        if (rng_below(&rng, 3))
            rig.now += (int64_t)rng_below(&rng, 3000);
    }
}

/* -- asking ------------------------------------------------------------------------------------------ */

/* Compares what a filter finds with those of the crowd that `wants` wants; in both orders, in pages of several sizes. Returns
 * how many. */
static size_t finds(const char *text, const char *queue, bool (*wants)(const struct fact *f)) {
    struct filter *filter = text ? rig_filter(&rig, text) : NULL;
    uint64_t expected[CROWD], found[CROWD];
    size_t n = 0;
    for (int newest_first = 0; newest_first < 2; newest_first++) {
        n = 0;
        for (int i = 0; i < CROWD; i++) {
            const struct fact *f = &facts[newest_first ? CROWD - 1 - i : i];
            if ((!queue || strcmp(queue, f->death.queue) == 0) && wants(f))
                expected[n++] = f->id;
        }
        const size_t limits[] = {1, 7, 100, LIMIT_BATCH};
        for (size_t i = 0; i < 4; i++) {
            struct letter_query q = {.filter = filter,
                                     .queue = span_str(queue),
                                     .oldest_first = !newest_first,
                                     .limit = limits[i]};
            size_t m = rig_letters(&rig, q, found, CROWD);
            if (m != n || !rig_is_same(found, expected, n))
                printf("# %s: %zu found of %zu, in pages of %zu\n", text ? text : "(all)", m, n,
                       limits[i]);
            CHECK(m == n && rig_is_same(found, expected, n));
        }
    }
    filter_free(filter);
    return n;
}

/* As finds, of something; without a look at the disk. */
static void finds_in_memory(const char *text, bool (*wants)(const struct fact *f)) {
    uint64_t before = crash_io_counts(rig.disk).reads;
    CHECK(finds(text, NULL, wants) > 0);
    if (crash_io_counts(rig.disk).reads != before)
        printf("# %s reads the disk\n", text);
    CHECK(crash_io_counts(rig.disk).reads == before);
}

/* -- who is wanted ----------------------------------------------------------------------------------- */

static bool same(const char *a, const char *b) {
    return strcmp(a ? a : "", b ? b : "") == 0;
}

static bool is_any(const struct fact *f) {
    return f != NULL;
}

static bool is_none(const struct fact *f) {
    return f == NULL;
}

static bool is_of_mails(const struct fact *f) {
    return same(f->death.queue, "mails");
}

static bool is_of_mails_any(const struct fact *f) {
    return strncmp(f->death.queue, "mails", 5) == 0;
}

static bool is_permanent(const struct fact *f) {
    return f->death.permanent;
}

static bool is_not_permanent(const struct fact *f) {
    return !f->death.permanent;
}

static bool is_timeout(const struct fact *f) {
    return same(f->death.class, "Timeout");
}

static bool is_like_timeout(const struct fact *f) {
    return f->death.class && strncmp(f->death.class, "Timeout", 7) == 0;
}

static bool is_without_class(const struct fact *f) {
    return !f->death.class;
}

static bool is_timeout_of_mails(const struct fact *f) {
    return is_timeout(f) && is_of_mails(f);
}

static bool is_timeout_or_permanent(const struct fact *f) {
    return is_timeout(f) || is_permanent(f);
}

static bool is_like_the_first(const struct fact *f) {
    return f->group_key == facts[0].group_key;
}

static bool is_of_version_1(const struct fact *f) {
    return f->death.version && f->death.version[0] == '1';
}

static bool is_without_version(const struct fact *f) {
    return !f->death.version;
}

static bool is_redriven_twice(const struct fact *f) {
    return f->redrives >= 2;
}

static bool is_never_redriven(const struct fact *f) {
    return f->redrives == 0;
}

static bool is_delivered_once(const struct fact *f) {
    return f->deliveries == 1;
}

static bool is_of_some_ids(const struct fact *f) {
    return f->id >= facts[50].id && f->id <= facts[90].id;
}

static bool is_urgent(const struct fact *f) {
    return f->death.priority > 7;
}

static bool is_small(const struct fact *f) {
    return strlen(f->payload) <= 20;
}

static bool is_edited(const struct fact *f) {
    return f->is_edited;
}

static bool is_old(const struct fact *f) {
    return f->died_at < rig.now - 120000;
}

static int64_t from_second, to_second; /* whole seconds, as a filter's text says them */

static bool died_between(const struct fact *f) {
    return f->died_at >= from_second && f->died_at <= to_second + 999;
}

static bool first_failed_between(const struct fact *f) {
    return f->first_failed_at >= from_second && f->first_failed_at <= to_second + 999;
}

static bool is_urgent_timeout_between(const struct fact *f) {
    return died_between(f) && is_timeout(f) && is_urgent(f);
}

static bool is_slow(const struct fact *f) {
    return strncmp(f->error, "took", 4) == 0;
}

static bool is_of_key_1(const struct fact *f) {
    return same(f->death.key, "k1");
}

static bool is_of_worker_2(const struct fact *f) {
    return same(f->death.worker, "w2");
}

static bool is_traced(const struct fact *f) {
    return same(f->death.headers, TRACED);
}

static bool is_of_acme(const struct fact *f) {
    return f->death.headers && strstr(f->death.headers, "acme");
}

static bool has_five(const struct fact *f) {
    return f->n == 5;
}

static bool has_less_than_five(const struct fact *f) {
    return f->n >= 0 && f->n < 5;
}

static bool has_not_five(const struct fact *f) {
    return f->n != 5;
}

static bool is_timeout_with_five(const struct fact *f) {
    return is_timeout(f) && has_five(f);
}

static bool is_urgent_or_has_five(const struct fact *f) {
    return is_urgent(f) || has_five(f);
}

/* -- filters ----------------------------------------------------------------------------------------- */

static void all_and_by_queue(void) {
    begin();
    CHECK_EQ(finds(NULL, NULL, is_any), CROWD);
    CHECK(finds(NULL, "mails", is_any) > 0);
    CHECK(finds("error:Timeout", "mails", is_timeout) > 0);
    CHECK_EQ(finds("queue:orders", "mails", is_none), 0);
    CHECK_EQ(finds(NULL, "no such queue", is_any), 0);
    CHECK_EQ(finds("error:NoSuchClass", NULL, is_none), 0);
    rig_end(&rig);
}

static void of_groups(void) {
    begin();
    char group[64], key[GROUP_KEY_SIZE];
    group_key_write(facts[0].group_key, key);
    snprintf(group, sizeof group, "group:%s", key);
    finds_in_memory("queue:mails", is_of_mails);
    finds_in_memory("queue:mails*", is_of_mails_any);
    finds_in_memory("reason:permanent", is_permanent);
    finds_in_memory("-reason:permanent", is_not_permanent);
    finds_in_memory(group, is_like_the_first);
    /* A worker's fingerprint gathers several classes: only the letter's own story knows. */
    CHECK(finds("error:Timeout", NULL, is_timeout) > 0);
    CHECK(finds("error:Timeout*", NULL, is_like_timeout) > 0);
    CHECK(finds("error:\"\"", NULL, is_without_class) > 0);
    CHECK(finds("queue:mails error:Timeout", NULL, is_timeout_of_mails) > 0);
    CHECK(finds("error:Timeout OR reason:permanent", NULL, is_timeout_or_permanent) > 0);
    rig_end(&rig);
}

static void of_what_is_in_memory(void) {
    begin();
    char text[128], from[TIME_TEXT_SIZE], to[TIME_TEXT_SIZE];
    finds_in_memory("version:1.*", is_of_version_1);
    finds_in_memory("version:\"\"", is_without_version);
    finds_in_memory("redrives:>=2", is_redriven_twice);
    finds_in_memory("redrives:0", is_never_redriven);
    finds_in_memory("deliveries:1", is_delivered_once);
    finds_in_memory("priority:>7", is_urgent);
    finds_in_memory("size:<=20", is_small);
    finds_in_memory("edited:yes", is_edited);
    finds_in_memory("age:>2m", is_old);
    CHECK_EQ(finds("expires:<1d", NULL, is_none), 0);
    snprintf(text, sizeof text, "id:%llu..%llu", (unsigned long long)facts[50].id,
             (unsigned long long)facts[90].id);
    finds_in_memory(text, is_of_some_ids);
    from_second = facts[100].died_at / 1000 * 1000;
    to_second = facts[200].died_at / 1000 * 1000;
    time_format(from_second, from);
    time_format(to_second, to);
    from[10] = to[10] = 'T';
    snprintf(text, sizeof text, "died:%s..%s", from, to);
    finds_in_memory(text, died_between);
    snprintf(text, sizeof text, "first:%s..%s", from, to);
    finds_in_memory(text, first_failed_between);
    snprintf(text, sizeof text, "priority:>7 died:%s..%s error:Timeout", from, to);
    CHECK(finds(text, NULL, is_urgent_timeout_between) > 0);
    rig_end(&rig);
}

static void of_what_is_on_disk(void) {
    begin();
    CHECK(finds("message:took*", NULL, is_slow) > 0);
    CHECK(finds("key:k1", NULL, is_of_key_1) > 0);
    CHECK(finds("worker:w2", NULL, is_of_worker_2) > 0);
    CHECK(finds("trace:4bf92f3577b34da6a3ce929d0e0e4736", NULL, is_traced) > 0);
    CHECK(finds("header.tenant:acme", NULL, is_of_acme) > 0);
    CHECK(finds("payload.n:5", NULL, has_five) > 0);
    CHECK(finds("payload.n:<5", NULL, has_less_than_five) > 0);
    CHECK(finds("-payload.n:5", NULL, has_not_five) > 0);
    CHECK(finds("error:Timeout payload.n:5", NULL, is_timeout_with_five) > 0);
    CHECK(finds("priority:>7 OR payload.n:5", NULL, is_urgent_or_has_five) > 0);
    rig_end(&rig);
}

/* Memory decides first: nothing is read for those it rules out. */
static void the_disk_comes_last(void) {
    begin();
    struct filter *filter = rig_filter(&rig, "payload.n:5 priority:>7 queue:mails");
    const struct letter_query q = {.filter = filter, .limit = LIMIT_BATCH};
    uint64_t ids[LIMIT_BATCH], before = crash_io_counts(rig.disk).reads;
    struct letter_page page;
    engine_letters(rig.engine, rig.now, &q, ids, &page);
    uint64_t candidates = 0, mails = 0;
    for (int i = 0; i < CROWD; i++) {
        candidates += is_of_mails(&facts[i]) && is_urgent(&facts[i]);
        mails += is_of_mails(&facts[i]);
    }
    CHECK_EQ(page.looked_at, mails); /* other queues' groups are passed over as a whole */
    CHECK(candidates < mails / 2);
    CHECK(crash_io_counts(rig.disk).reads - before <= 2 * candidates); /* message and failure */
    filter_free(filter);
    rig_end(&rig);
}

/* Of more worker versions than a group tells apart, the rest is read from the stories. */
static void more_versions_than_a_group_holds(void) {
    rig_begin(&rig);
    uint64_t ids[GROUP_VERSIONS + 4], found[4];
    char version[16];
    for (unsigned i = 0; i < GROUP_VERSIONS + 4; i++, rig.now++) {
        snprintf(version, sizeof version, "1.%u", i);
        const struct rig_death d = {
            .queue = "q", .class = "Timeout", .version = version, .payload = "x"};
        rig_die(&rig, &d, 1, &ids[i]);
    }
    for (unsigned i = 0; i < GROUP_VERSIONS + 4; i++) {
        char text[32];
        snprintf(text, sizeof text, "version:1.%u", i);
        struct filter *filter = rig_filter(&rig, text);
        struct letter_page page;
        engine_letters(rig.engine, rig.now, &(struct letter_query){.filter = filter, .limit = 4},
                       found, &page);
        CHECK(page.n == 1 && found[0] == ids[i]);
        filter_free(filter);
    }
    struct filter *filter = rig_filter(&rig, "-version:1.*");
    struct letter_page page;
    engine_letters(rig.engine, rig.now, &(struct letter_query){.filter = filter, .limit = 4}, found,
                   &page);
    CHECK(page.n == 0 && page.is_last);
    filter_free(filter);
    rig_end(&rig);
}

static void the_same_after_a_restart(void) {
    begin();
    rig_restart(&rig);
    CHECK_EQ(finds(NULL, NULL, is_any), CROWD);
    finds_in_memory("redrives:>=2", is_redriven_twice);
    CHECK(finds("queue:mails error:Timeout", NULL, is_timeout_of_mails) > 0);
    CHECK(finds("payload.n:5", NULL, has_five) > 0);
    rig_end(&rig);
}

int main(void) {
    RUN(all_and_by_queue);
    RUN(of_groups);
    RUN(of_what_is_in_memory);
    RUN(of_what_is_on_disk);
    RUN(the_disk_comes_last);
    RUN(more_versions_than_a_group_holds);
    RUN(the_same_after_a_restart);
    return check_done();
}
