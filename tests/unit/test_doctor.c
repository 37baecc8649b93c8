/* The doctor: each check just before and just after it speaks. */
#include "check.h"

#include "model/doctor.h"

#define MINUTE INT64_C(60000)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)
#define NOW (INT64_C(1780000000) * 1000)

/* -- what was found ---------------------------------------------------------------------------- */

static struct {
    char code[8], fact[512], fix[512];
    enum severity severity;
    bool has_queue;
} found[32];
static int found_count;

static void copy(char *to, size_t room, struct span text) {
    (void)snprintf(to, room, "%.*s", (int)text.n, (const char *)text.p);
}

static void note(void *ctx, const struct finding *f) {
    (void)ctx;
    copy(found[found_count].code, sizeof found[0].code, span_str(f->code));
    copy(found[found_count].fact, sizeof found[0].fact, f->fact);
    copy(found[found_count].fix, sizeof found[0].fix, f->fix);
    found[found_count].severity = f->severity;
    found[found_count++].has_queue = f->queue.n > 0;
}

/* The place of a code among the findings, or -1. */
static int place(const char *code) {
    for (int i = 0; i < found_count; i++) {
        if (strcmp(found[i].code, code) == 0)
            return i;
    }
    return -1;
}

#define FOUND(code_, severity_, fact_)                                                             \
    do {                                                                                           \
        int at = place(code_);                                                                     \
        CHECK(at >= 0);                                                                            \
        if (at >= 0) {                                                                             \
            CHECK_EQ(found[at].severity, severity_);                                               \
            CHECK(strstr(found[at].fact, fact_) != NULL);                                          \
            if (strstr(found[at].fact, fact_) == NULL)                                             \
                printf("# it says: %s\n", found[at].fact);                                         \
            CHECK(found[at].fix[0] != '\0');                                                       \
        }                                                                                          \
    } while (0)

/* -- a queue without a finding ----------------------------------------------------------------- */

static struct policy policy;
static struct policy_texts texts;
static struct doctor_state state;
static struct doctor_queue queue;
static uint64_t durations[DOCTOR_ATTEMPT_BUCKETS];

static void begin(void) {
    policy = policy_default();
    policy.max_retries = 12; /* 2 + 4 + ... + 2^11 seconds: 68 minutes */
    texts = (struct policy_texts){.owner = span_str("ann")};
    state = (struct doctor_state){.now = NOW, .asked_at = NOW};
    memset(durations, 0, sizeof durations);
    queue = (struct doctor_queue){
        .name = span_str("orders"), .policy = &policy, .texts = &texts, .state = &state};
}

static void look(void) {
    found_count = 0;
    doctor_check_queue(&queue, note, NULL);
}

static void a_healthy_queue_has_no_findings(void) {
    begin();
    look();
    CHECK_EQ(found_count, 0);
    queue.state = NULL;
    look();
    CHECK_EQ(found_count, 0);
}

static void retention_of_the_dead(void) {
    begin();
    policy.keep_dead_ms = DAY;
    look();
    CHECK(place("D02") < 0);
    policy.keep_dead_ms = DAY - 1000;
    look();
    FOUND("D02", SEVERITY_WARN, "discarded after 86399s");
    policy.keep_dead_ms = MINUTE;
    look();
    FOUND("D02", SEVERITY_WARN, "discarded after 1m: before anybody");
    policy.keep_dead_ms = MINUTE - 1000;
    look();
    FOUND("D01", SEVERITY_CRITICAL, "discarded after 59s: that is no dead-lettering");
    CHECK(place("D02") < 0);
    policy.keep_dead_ms = 0;
    look();
    CHECK_EQ(found_count, 0);
    policy.keep_dead_ms = DAY;
    policy.backoff.kind = BACKOFF_FIXED;
    policy.backoff.base_ms = 3 * HOUR; /* eleven times: 33 hours */
    look();
    FOUND("D02", SEVERITY_WARN, "after 1d, sooner than the 1d09h");
}

static void number_of_retries(void) {
    begin();
    policy.max_retries = 100;
    look();
    CHECK(place("D03") < 0);
    policy.max_retries = 101;
    look();
    FOUND("D03", SEVERITY_WARN, "101 times");
    policy.max_retries = 1;
    look();
    FOUND("D03", SEVERITY_WARN, "the first failure is the last");
}

/* What a rule for every failure does where nothing else ends a message. */
static void rules_that_never_end_a_message(void) {
    static const struct {
        const char *rules, *fact; /* NULL: no finding */
    } cases[] = {
        {"[]", NULL},
        {"[{\"error\": \"Http429\", \"action\": \"release\"}]", NULL},
        {"[{\"action\": \"retry\"}]", NULL},
        {"[{\"action\": \"release\"}]", "rules[0] (release) lets every failure go without counting "
                                        "it, and there is no max_deliveries: a message that kills"},
        {"[{\"action\": \"pause\"}]", "rules[0] (pause)"},
        {"[{\"error\": \"*\", \"message\": \"*\", \"action\": \"release\"}]", "rules[0]"},
        {"[{\"error_regex\": \".\", \"action\": \"release\"}]", "rules[0]"},
        {"[{\"error\": \"lease_*\", \"action\": \"release\"}]", "that kills its worker"},
        /* The catch-all comes too late, or only for what is no expired lease. */
        {"[{\"action\": \"dead\"}, {\"action\": \"release\"}]", NULL},
        {"[{\"error\": \"lease_expired\", \"action\": \"retry\"}, {\"action\": \"release\"}]",
         "rules[1] (release) lets every failure go without counting it, and there is no "
         "max_deliveries: a failure that no other rule names"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        begin();
        texts.rules = span_str(cases[i].rules);
        look();
        if (cases[i].fact == NULL) {
            CHECK_EQ(found_count, 0);
            continue;
        }
        FOUND("D23", SEVERITY_WARN, cases[i].fact);
        CHECK_EQ(found_count, 1);
        queue.state = NULL;
        look();
        CHECK_EQ(found_count, 1);
        policy.deliveries_max = 100;
        look();
        CHECK_EQ(found_count, 0);
        policy.deliveries_max = 0;
        policy.ttl_ms = DAY;
        look();
        CHECK_EQ(found_count, 0);
    }
}

static void the_horizon(void) {
    begin();
    policy.backoff.kind = BACKOFF_FIXED;
    policy.backoff.base_ms = MINUTE;
    policy.max_retries = 5;
    CHECK_EQ(doctor_horizon_ms(&policy), 4 * MINUTE);
    look();
    FOUND("D04", SEVERITY_WARN, "max_retries of 5 spans 4m00s");
    policy.max_retries = 16;
    CHECK_EQ(doctor_horizon_ms(&policy), 15 * MINUTE);
    look();
    CHECK(place("D04") < 0);
    policy.backoff.jitter = JITTER_FULL;
    CHECK_EQ(doctor_horizon_ms(&policy), 15 * MINUTE / 2);
    look();
    FOUND("D04", SEVERITY_WARN, "spans 7m30s");
    policy.backoff.jitter = JITTER_EQUAL;
    CHECK_EQ(doctor_horizon_ms(&policy), 15 * MINUTE * 3 / 4);
    policy.breaker.is_on = true;
    look();
    CHECK(place("D04") < 0);
    policy.max_retries = 1;
    CHECK_EQ(doctor_horizon_ms(&policy), 0);
}

static void leases(void) {
    begin();
    policy.lease_ms = 30000;
    look();
    CHECK(place("D05") < 0);
    state.durations = durations;
    durations[10] = 98;
    durations[16] = 1; /* up to 65.5 s */
    look();
    CHECK(place("D05") < 0); /* 99 attempts say nothing */
    durations[16] = 2;
    look();
    FOUND("D05", SEVERITY_WARN,
          "the lease is 30s, and the slowest hundredth of 100 attempts took more than 32.8s");
    CHECK(strstr(found[place("D05")].fix, "lease_seconds: 132") != NULL);
    policy.lease_ms = 66000;
    look();
    CHECK(place("D05") < 0);
    policy.lease_ms = 30000;
    durations[10] = 9998; /* the two are the slowest in 5000 */
    look();
    CHECK(place("D05") < 0);
}

static void workers(void) {
    begin();
    state.asked_at = NOW - 10 * MINUTE - 1;
    look();
    CHECK(place("D06") < 0);
    state.ready = 12;
    look();
    FOUND("D06", SEVERITY_CRITICAL,
          "12 messages ready, and no worker has asked for work for 10m00s");
    CHECK(strcmp(found[place("D06")].fix, "nixie work orders -- COMMAND") == 0);
    state.is_paused = true;
    look();
    CHECK(place("D06") < 0);
    state.is_paused = false;
    state.is_asked = true;
    look();
    CHECK(place("D06") < 0);
    state.is_asked = false;
    state.asked_at = NOW - 10 * MINUTE;
    look();
    CHECK(place("D06") < 0);
}

static void targets(void) {
    begin();
    texts.target = span_str("dead");
    look();
    CHECK(place("D07") < 0);
    queue.target = TARGET_MISSING;
    look();
    FOUND("D07", SEVERITY_WARN, "dead is not there");
    queue.target = TARGET_REFUSES;
    look();
    FOUND("D07", SEVERITY_WARN, "allow_from");
    queue.target = TARGET_MOVES_ON;
    look();
    FOUND("D07", SEVERITY_WARN, "a dead_target of its own");
    queue.target = TARGET_PAUSED;
    look();
    FOUND("D15", SEVERITY_WARN, "its dead_target dead is paused");
    CHECK(strcmp(found[place("D15")].fix, "nixie resume dead") == 0 && place("D07") < 0);
    queue.target = TARGET_FINE;
    queue.sharer = span_str("bills");
    queue.sharer_owner = span_str("bob");
    look();
    FOUND("D22", SEVERITY_WARN, "those of bills, owned by bob, all go to dead; it is owned by ann");
}

static void letters_at_their_limit(void) {
    begin();
    state.at_limit = 7;
    state.at_limit_is_all = true;
    look();
    FOUND("D08", SEVERITY_WARN, "7 letters died again and reached the redrive_limit of 3");
    CHECK(strncmp(found[place("D08")].fact, "7", 1) == 0);
    state.at_limit_is_all = false;
    look();
    FOUND("D08", SEVERITY_WARN, "at least 7 letters");
}

static void expiry(void) {
    begin();
    state.soonest_expiry = NOW + DAY;
    look();
    CHECK(place("D09") < 0);
    state.soonest_expiry = NOW + DAY - 1000;
    look();
    FOUND("D09", SEVERITY_CRITICAL, "in 23h59m");
    state.soonest_expiry = NOW - 1000;
    look();
    FOUND("D09", SEVERITY_CRITICAL, "in 0s");
}

/* -- groups ------------------------------------------------------------------------------------ */

static struct doctor_group group(uint64_t letters, int64_t first_seen) {
    return (struct doctor_group){.state = GROUP_OPEN,
                                 .reason = REASON_MAX_RETRIES,
                                 .has_error_class = true,
                                 .letters = letters,
                                 .first_seen = first_seen};
}

static void add(struct doctor_group g) {
    doctor_add_group(&state.letters, &g, NOW);
}

static void groups_that_nobody_acknowledged(void) {
    begin();
    add(group(5, NOW - 4 * HOUR));
    struct doctor_group g = group(5, NOW - 9 * HOUR);
    g.state = GROUP_ACKNOWLEDGED;
    add(g);
    g = group(5, NOW - 9 * HOUR);
    g.state_at = NOW - HOUR; /* it came back then */
    add(g);
    add(group(0, NOW - 9 * HOUR));
    look();
    CHECK(place("D10") < 0);
    add(group(3, NOW - 5 * HOUR));
    add(group(4, NOW - 6 * HOUR));
    look();
    FOUND("D10", SEVERITY_WARN,
          "open and not acknowledged: 2 causes with 7 letters, the longest for 6h00m");
}

static void letters_without_a_class(void) {
    begin();
    struct doctor_group g = group(5, NOW);
    add(g);
    g.has_error_class = false;
    add(g);
    g.reason = REASON_EXPIRED; /* nobody failed it */
    g.letters = 100;
    add(g);
    look();
    CHECK(place("D16") < 0);
    g.reason = REASON_PERMANENT;
    g.letters = 1;
    add(g);
    look();
    FOUND("D16", SEVERITY_INFO, "6 of 11 letters");
}

static void too_many_groups(void) {
    begin();
    for (int i = 0; i < 9; i++)
        add(group(3, NOW));
    add(group(2, NOW));
    look();
    CHECK(place("D17") < 0); /* 29 letters */
    add(group(1, NOW));
    look();
    FOUND("D17", SEVERITY_INFO, "30 letters have 11 causes");
    add(group(3, NOW));
    add(group(3, NOW));
    add(group(3, NOW));
    add(group(9, NOW));
    look();
    CHECK(place("D17") < 0); /* 15 of 48 */
}

static void one_version(void) {
    begin();
    add(group(90, NOW));
    doctor_add_version(&state.letters, span_str("1.4.2"), 90);
    add(group(10, NOW));
    doctor_add_version(&state.letters, span_str("1.4.1"), 10);
    look();
    CHECK(place("D14") < 0); /* 90 % is not more than 90 % */
    add(group(1, NOW));
    doctor_add_version(&state.letters, span_str("1.4.2"), 1);
    look();
    FOUND("D14", SEVERITY_INFO, "91 of 101 letters were failed by workers of version 1.4.2");
    CHECK_EQ(found_count, 1);
    /* Versions beyond the table are left out, and names that are none. */
    for (char name = 'a'; name <= 'z'; name++)
        doctor_add_version(&state.letters, span_of(&name, 1), 1);
    doctor_add_version(&state.letters, span_str(""), 1);
    CHECK_EQ(state.letters.version_count, DOCTOR_VERSIONS);
}

static void one_key(void) {
    static struct doctor_keys keys;
    begin();
    state.keys = &keys;
    for (int i = 0; i < 5; i++) {
        doctor_add_key(&keys, span_str("account 7"));
        doctor_add_key(&keys, span_str(i % 2 ? "account 8" : ""));
    }
    look();
    CHECK(place("D13") < 0); /* half of them */
    doctor_add_key(&keys, span_str("account 7"));
    look();
    FOUND("D13", SEVERITY_INFO, "6 of the newest 11 letters have the key account 7");
    keys = (struct doctor_keys){0};
    for (int i = 0; i < 9; i++)
        doctor_add_key(&keys, span_str("account 7"));
    look();
    CHECK(place("D13") < 0); /* of so few */
    for (int i = 0; i < 100; i++)
        doctor_add_key(&keys, span_str(""));
    CHECK_EQ(keys.looked_at, DOCTOR_KEYS);
    look();
    CHECK_EQ(found_count, 0); /* no key is none */
}

static void redrives(void) {
    begin();
    state.redrive = (struct doctor_redrive){.number = 7, .to = span_str("bills")};
    look();
    FOUND("D15", SEVERITY_WARN, "redrive 7 sends its letters to bills, which is paused");
    CHECK(strcmp(found[place("D15")].fix, "nixie resume bills") == 0);
    state.redrive.is_missing = true;
    look();
    FOUND("D15", SEVERITY_WARN, "redrive 7 sends its letters to bills, which is not there");
    CHECK(strcmp(found[place("D15")].fix, "nixie jobs 7 --cancel") == 0);
}

static void clocks(void) {
    begin();
    state.newest_at = NOW + 5000;
    look();
    CHECK_EQ(found_count, 0);
    state.newest_at = NOW + 5001;
    look();
    FOUND("D18", SEVERITY_WARN, "lies 5s ahead of the server's clock");
}

/* -- care, names, the server ------------------------------------------------------------------- */

static void owner_and_alerts(void) {
    begin();
    texts.owner = span_str("");
    look();
    FOUND("D11", SEVERITY_WARN, "nobody");
    texts.alerts = span_str("[{}]");
    look();
    CHECK(place("D11") < 0);
    FOUND("D21", SEVERITY_INFO, "no owner");
    texts.owner = span_str("ann");
    look();
    CHECK_EQ(found_count, 0);
}

static void names_are_quoted_for_a_shell(void) {
    begin();
    state.ready = 1;
    state.asked_at = 0;
    queue.name = span_str("it's; rm -rf /");
    look();
    CHECK(strcmp(found[place("D06")].fix, "nixie work 'it'\\''s; rm -rf /' -- COMMAND") == 0);
    queue.name = span_str("-f");
    look();
    CHECK(strcmp(found[place("D06")].fix, "nixie work '-f' -- COMMAND") == 0);
    char longest[LIMIT_QUEUE_NAME];
    memset(longest, '\'', sizeof longest);
    queue.name = queue.sharer = texts.target = span_of(longest, sizeof longest);
    queue.target = TARGET_REFUSES;
    look();
    CHECK(place("D06") >= 0 && place("D07") >= 0 && place("D22") >= 0);
}

static void the_server(void) {
    struct doctor_server s = {.audit_entries = LIMIT_AUDIT / 10 * 9 - 1};
    found_count = 0;
    doctor_check_server(&s, note, NULL);
    CHECK_EQ(found_count, 0);
    s = (struct doctor_server){.is_disk_full = true, .audit_entries = LIMIT_AUDIT};
    doctor_check_server(&s, note, NULL);
    FOUND("D12", SEVERITY_CRITICAL, "the disk is full");
    FOUND("D20", SEVERITY_INFO, "1000000 of 1000000");
    CHECK(!found[0].has_queue && !found[1].has_queue);
    found_count = 0;
    s = (struct doctor_server){.clock_behind_ms = 5000};
    doctor_check_server(&s, note, NULL);
    CHECK_EQ(found_count, 0);
    s = (struct doctor_server){.clock_behind_ms = 2 * HOUR, .is_open_to_all = true};
    doctor_check_server(&s, note, NULL);
    FOUND("D18", SEVERITY_WARN, "went back by 2h00m");
    FOUND("D19", SEVERITY_WARN, "no token is asked for");
}

static void severities(void) {
    for (int s = 0; s < SEVERITY_COUNT; s++)
        CHECK_EQ(severity_parse(span_str(severity_name((enum severity)s))), s);
    CHECK_EQ(severity_parse(span_str("fatal")), -1);
}

int main(void) {
    RUN(a_healthy_queue_has_no_findings);
    RUN(retention_of_the_dead);
    RUN(number_of_retries);
    RUN(rules_that_never_end_a_message);
    RUN(the_horizon);
    RUN(leases);
    RUN(workers);
    RUN(targets);
    RUN(letters_at_their_limit);
    RUN(expiry);
    RUN(groups_that_nobody_acknowledged);
    RUN(letters_without_a_class);
    RUN(too_many_groups);
    RUN(one_version);
    RUN(one_key);
    RUN(redrives);
    RUN(clocks);
    RUN(owner_and_alerts);
    RUN(names_are_quoted_for_a_shell);
    RUN(the_server);
    RUN(severities);
    return check_done();
}
