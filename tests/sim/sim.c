/* The simulator: seeded operations against engine and log on a disk that loses power, checked against a model.
 *
 * usage: sim [--world NAME] [--seed N] [--seeds COUNT] [--steps N] [--trace] [--reduce] [--control NAME]
 *            [--fixed] [--fresh-seconds S] [--until-failure]
 *
 * There are two worlds, each with its model: `queues` (what HTTP does: retries, letters, groups, jobs, guards) and `brokers` (what AMQP adds:
 * exchanges, bindings, policies by pattern, lengths, dead-lettering through exchanges). Without --world each seed is run in both, and fresh
 * ones in one after the other.
 *
 * Each seed runs in a process of its own, so that a failed assert is one seed's failure. A failure prints the seed, the step and the last
 * operations; put its seed and world into tests/sim/seeds.txt, whose seeds --fixed runs for ever. --reduce then leaves out steps as long as it still
 * fails in the same way. --fixed also runs the negative controls: harnesses broken on purpose, each of which must be found out. The last line is
 * `N passed, N failed`, one for each seed or control. */
#include "base/clock.h"
#include "base/mem.h"
#include "sim/broker_world.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SIM_SEEDS /* given by the build */
#define SIM_SEEDS "tests/sim/seeds.txt"
#endif

#define STEPS_DEFAULT 20000
#define SEEDS_MAX 1000
#define CONTROL_SEEDS_MAX 80
#define CONTROL_STEPS 4000
#define SEED_SECONDS_MAX 120 /* of one seed; longer is a failure */

static const char *const control_names[CONTROL_COUNT] = {
    [CONTROL_NONE] = "none",
    [CONTROL_REPLY_BEFORE_SYNC] = "reply-before-sync",
    [CONTROL_LOST_FRAME] = "lost-frame",
    [CONTROL_SKIP_CLEAN_CARRY] = "skip-clean-carry",
    [CONTROL_DOUBLE_CLAIM] = "double-claim",
    [CONTROL_JOB_SENDS_TWICE] = "job-sends-twice",
    [CONTROL_JOB_COUNT_DRIFT] = "job-count-drift",
    [CONTROL_JOB_ABOVE_FENCE] = "job-above-fence",
    [CONTROL_JOB_TOO_FAST] = "job-too-fast",
    [CONTROL_JOB_NO_SAMPLE] = "job-no-sample",
    [CONTROL_JOB_NO_STOP] = "job-no-stop",
    [CONTROL_JOB_OVERTAKES] = "job-overtakes",
    [CONTROL_AUDIT_LOST] = "audit-lost",
    [CONTROL_AUDIT_APART] = "audit-apart",
    [CONTROL_DEAD_SEQ_AGAIN] = "dead-seq-again",
    [CONTROL_GROUP_DRIFT] = "group-drift",
    [CONTROL_LETTER_TOUCHED] = "letter-touched",
    [CONTROL_LETTER_UNLISTED] = "letter-unlisted",
    [CONTROL_LETTER_KEPT] = "letter-kept",
    [CONTROL_LETTER_EARLY] = "letter-early",
    [CONTROL_ORDER_OVERTAKES] = "order-overtakes",
    [CONTROL_BREAKER_FORGETS] = "breaker-forgets",
    [CONTROL_ORDER_UNPARKED] = "order-unparked",
    [CONTROL_BREAKER_COSTS] = "breaker-costs",
    [CONTROL_BUDGET_FORGOTTEN] = "budget-forgotten",
    [CONTROL_DELIVERIES_UNBOUND] = "deliveries-unbound",
    [CONTROL_TARGET_FORGOTTEN] = "target-forgotten",
    [CONTROL_TARGET_UNASKED] = "target-unasked",
    [CONTROL_OVERFLOW_FORGOTTEN] = "overflow-forgotten",
    [CONTROL_OVERFLOW_REJECTS] = "overflow-rejects",
    [CONTROL_RULES_FORGOTTEN] = "rules-forgotten",
    [CONTROL_SETTINGS_UNMERGED] = "settings-unmerged",
    [CONTROL_TTL_FORGOTTEN] = "ttl-forgotten",
    [CONTROL_RETURNS_UNBOUND] = "returns-unbound",
    [CONTROL_DLX_FORGOTTEN] = "dlx-forgotten",
    [CONTROL_DLRK_FORGOTTEN] = "dlrk-forgotten",
    [CONTROL_LENGTH_FORGOTTEN] = "length-forgotten",
    [CONTROL_REFUSED_KEPT] = "refused-kept",
    [CONTROL_PRIORITY_FORGOTTEN] = "priority-forgotten",
    [CONTROL_KEEP_FORGOTTEN] = "keep-forgotten",
    [CONTROL_TRANSIENT_KEPT] = "transient-kept",
    [CONTROL_HELD_KEPT] = "held-kept",
    [CONTROL_ORPHAN_KEPT] = "orphan-kept",
    [CONTROL_ALTERNATE_FORGOTTEN] = "alternate-forgotten",
    [CONTROL_QUEUE_MISSED] = "queue-missed",
    [CONTROL_COPY_MISSING] = "copy-missing",
    [CONTROL_COPIES_APART] = "copies-apart",
    [CONTROL_TAIL_DROPPED] = "tail-dropped",
    [CONTROL_CIRCLE_DROPS] = "circle-drops",
    [CONTROL_DEATH_UNTOLD] = "death-untold",
    [CONTROL_ARRIVAL_FORGOTTEN] = "arrival-forgotten",
    [CONTROL_UNROUTABLE_UNMARKED] = "unroutable-unmarked",
    [CONTROL_BINDING_FORGOTTEN] = "binding-forgotten",
};

struct options {
    const struct world_kind *kind; /* NULL: each */
    uint64_t seed, seeds, steps;
    enum control control;
    bool trace, reduce, fixed, until_failure, has_seed;
    int64_t fresh_ms;
};

static const struct world_kind *const worlds[] = {&world_of_queues, &world_of_brokers};
#define WORLDS (sizeof worlds / sizeof worlds[0])

static struct report *report; /* shared with the process of a seed */
static struct report totals;
static uint64_t passed, failed;
static bool *left_out; /* steps that --reduce removed; shared, too */

/* -- one seed ------------------------------------------------------------------------------------------ */

static void run_seed(const struct options *o, uint64_t seed, uint64_t steps) {
    struct world *w = world_new(o->kind, seed, o->control, o->trace, report);
    for (uint64_t step = 1; step <= steps; step++) {
        report->step = step;
        if (left_out && left_out[step])
            continue;
        report->steps++;
        uint64_t mixed = seed * UINT64_C(0x9e3779b97f4a7c15) + step;
        rng_seed(&w->rng, mixed);
        crash_io_reseed(w->disk, ~mixed);
        w->kind->step(w);
    }
    report->step = steps + 1;
    w->kind->settle_all(w);
    world_free(w);
}

/* True when the seed passes. */
static bool try_seed(const struct options *o, uint64_t seed, uint64_t steps) {
    memset(report, 0, sizeof *report);
    fflush(stdout);
    pid_t child = fork();
    if (child < 0) {
        perror("fork");
        exit(1);
    }
    if (child == 0) {
        alarm(SEED_SECONDS_MAX);
        run_seed(o, seed, steps);
        fflush(stdout);
        exit(0); /* not _exit: leaks are looked for here */
    }
    int status;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (status != 0 && !report->text[0]) {
        if (WIFSIGNALED(status))
            snprintf(report->text, sizeof report->text, "ended by signal %d (%s)", WTERMSIG(status),
                     strsignal(WTERMSIG(status)));
        else
            snprintf(report->text, sizeof report->text, "ended with code %d", WEXITSTATUS(status));
    }
    return status == 0;
}

static void add_up(void) {
    totals.steps += report->steps;
    totals.operations += report->operations;
    totals.power_losses += report->power_losses;
    totals.kills += report->kills;
    totals.restarts += report->restarts;
    totals.faults += report->faults;
    totals.cleaned += report->cleaned;
}

static void print_failure(const struct options *o, uint64_t seed) {
    printf("FAILED: %s, seed %llu, step %llu: %s\n", o->kind->name, (unsigned long long)seed,
           (unsigned long long)report->step, report->text);
    uint64_t n = report->ring_count;
    for (uint64_t i = n < SIM_RING ? 0 : n - SIM_RING; i < n; i++)
        printf("  %s\n", report->ring[i % SIM_RING]);
    printf("again: sim --world %s --seed %llu --steps %llu --trace\n", o->kind->name,
           (unsigned long long)seed, (unsigned long long)report->step);
}

/* -- reducing: leaves out as many steps as it can ------------------------------------------------------------ */

static uint64_t count_left(uint64_t steps) {
    uint64_t n = 0;
    for (uint64_t i = 1; i <= steps; i++)
        n += !left_out[i];
    return n;
}

/* The same words, whatever the numbers. */
static bool is_same_failure(const char *a, const char *b) {
    for (;;) {
        while (*a >= '0' && *a <= '9')
            a++;
        while (*b >= '0' && *b <= '9')
            b++;
        if (*a != *b || !*a)
            return *a == *b;
        a++;
        b++;
    }
}

static void reduce(const struct options *o, uint64_t seed) {
    uint64_t steps = report->step <= o->steps ? report->step : o->steps;
    left_out = mmap(NULL, steps + 2, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (left_out == MAP_FAILED)
        return;
    struct options quiet = *o;
    char text[sizeof report->text];
    memcpy(text, report->text, sizeof text);
    quiet.trace = false;
    bool *before = mem_alloc(steps + 2);
    for (uint64_t piece = steps / 2; piece > 0; piece /= 2)
        for (uint64_t from = 1; from <= steps; from += piece) {
            memcpy(before, left_out, steps + 2);
            for (uint64_t i = from; i < from + piece && i <= steps; i++)
                left_out[i] = true;
            if (memcmp(before, left_out, steps + 2) == 0)
                continue;
            if (try_seed(&quiet, seed, steps) || !is_same_failure(text, report->text))
                memcpy(left_out, before, steps + 2);
        }
    printf("reduced to %llu steps:\n", (unsigned long long)count_left(steps));
    quiet.trace = true;
    (void)try_seed(&quiet, seed, steps);
    printf("  %s\n", report->text);
    free(before);
    munmap(left_out, steps + 2);
    left_out = NULL;
}

/* -- many seeds ------------------------------------------------------------------------------------------------ */

static bool one_seed(const struct options *o, const struct world_kind *kind, uint64_t seed) {
    struct options one = *o;
    one.kind = kind;
    bool ok = try_seed(&one, seed, o->steps);
    add_up();
    ok ? passed++ : failed++;
    if (!ok) {
        print_failure(&one, seed);
        if (o->reduce)
            reduce(&one, seed);
    }
    return ok;
}

static const struct world_kind *world_parse(const char *text) {
    for (size_t i = 0; i < WORLDS; i++)
        if (strcmp(text, worlds[i]->name) == 0)
            return worlds[i];
    return NULL;
}

static bool is_asked_for(const struct options *o, const struct world_kind *kind) {
    return !o->kind || o->kind == kind;
}

static void fixed_seeds(const struct options *o) {
    FILE *f = fopen(SIM_SEEDS, "r");
    if (!f) {
        printf("FAILED: cannot read %s: %s\n", SIM_SEEDS, strerror(errno));
        failed++;
        return;
    }
    char line[256], name[32];
    struct {
        uint64_t seed;
        const struct world_kind *kind;
    } seeds[SEEDS_MAX];
    size_t n = 0;
    while (n < SEEDS_MAX && fgets(line, sizeof line, f)) {
        unsigned long long seed;
        const struct world_kind *kind = NULL;
        if (sscanf(line, "%31s %llu", name, &seed) == 2 && (kind = world_parse(name))) {
            seeds[n].seed = seed;
            seeds[n++].kind = kind;
        } else if (line[0] != '#' && line[0] != '\n') {
            printf("FAILED: %s: not a world and a seed: %s", SIM_SEEDS, line);
            failed++;
        }
    }
    fclose(f); /* before there are processes that share it */
    for (size_t i = 0; i < n; i++)
        if (is_asked_for(o, seeds[i].kind))
            (void)one_seed(o, seeds[i].kind, seeds[i].seed);
}

/* Each must be found out within a few seeds. */
static void controls(const struct options *o) {
    for (int c = CONTROL_NONE + 1; c < CONTROL_COUNT; c++) {
        struct options broken = *o;
        broken.control = (enum control)c;
        broken.kind = c >= CONTROL_BROKERS ? &world_of_brokers : &world_of_queues;
        if (!is_asked_for(o, broken.kind))
            continue;
        uint64_t seed = 1;
        while (seed <= CONTROL_SEEDS_MAX && try_seed(&broken, seed, CONTROL_STEPS))
            seed++;
        if (seed <= CONTROL_SEEDS_MAX) {
            printf("control %s: found by seed %llu, step %llu: %s\n", control_names[c],
                   (unsigned long long)seed, (unsigned long long)report->step, report->text);
            passed++;
        } else {
            printf("FAILED: control %s: not found by %d seeds\n", control_names[c],
                   CONTROL_SEEDS_MAX);
            failed++;
        }
    }
}

static uint64_t fresh_seed(void) {
    uint64_t seed;
    if (getentropy(&seed, sizeof seed) != 0)
        seed = (uint64_t)clock_monotonic_us();
    return seed >> 24; /* short enough to be typed */
}

/* In each world as long as in the other. */
static void fresh_seeds(const struct options *o) {
    int64_t begin = clock_monotonic_us(), now = begin, spent[WORLDS] = {0};
    while (o->fresh_ms == 0 || now < begin + o->fresh_ms * 1000) {
        size_t i = spent[1] < spent[0];
        if (o->kind)
            i = o->kind == worlds[1];
        bool ok = one_seed(o, worlds[i], fresh_seed());
        if (!ok && o->until_failure)
            break;
        spent[i] += clock_monotonic_us() - now;
        now = clock_monotonic_us();
    }
}

/* A row of them from the given one. */
static void given_seeds(const struct options *o) {
    uint64_t first = o->has_seed ? o->seed : fresh_seed();
    for (uint64_t seed = first; seed < first + o->seeds; seed++)
        for (size_t i = 0; i < WORLDS; i++)
            if (is_asked_for(o, worlds[i]) && !one_seed(o, worlds[i], seed) && o->until_failure)
                return;
}

/* -- options ----------------------------------------------------------------------------------------------------- */

static int usage(void) {
    fprintf(stderr, "usage: sim [--world NAME] [--seed N] [--seeds COUNT] [--steps N] [--trace] "
                    "[--reduce] [--control NAME]\n"
                    "           [--fixed] [--fresh-seconds S] [--until-failure]\n");
    return 64;
}

static bool number_parse(const char *text, uint64_t *ret) {
    char *end;
    *ret = strtoull(text, &end, 10);
    return *text && !*end;
}

static bool control_parse(const char *text, enum control *ret) {
    for (int c = 0; c < CONTROL_COUNT; c++)
        if (strcmp(text, control_names[c]) == 0) {
            *ret = (enum control)c;
            return true;
        }
    return false;
}

static bool options_parse(int argc, char **argv, struct options *o) {
    static const struct option known[] = {
        {"seed", required_argument, NULL, 's'},
        {"seeds", required_argument, NULL, 'c'},
        {"steps", required_argument, NULL, 'n'},
        {"trace", no_argument, NULL, 't'},
        {"reduce", no_argument, NULL, 'r'},
        {"control", required_argument, NULL, 'b'},
        {"fixed", no_argument, NULL, 'f'},
        {"fresh-seconds", required_argument, NULL, 'F'},
        {"until-failure", no_argument, NULL, 'u'},
        {"world", required_argument, NULL, 'w'},
        {NULL, 0, NULL, 0},
    };
    uint64_t seconds = 0;
    bool ok = true;
    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        ok = ok && c != '?';
        if (c == 's')
            ok = ok && (o->has_seed = number_parse(optarg, &o->seed));
        else if (c == 'c')
            ok = ok && number_parse(optarg, &o->seeds);
        else if (c == 'n')
            ok = ok && number_parse(optarg, &o->steps);
        else if (c == 'b')
            ok = ok && control_parse(optarg, &o->control);
        else if (c == 'w')
            ok = ok && (o->kind = world_parse(optarg));
        else if (c == 'F')
            ok = ok && number_parse(optarg, &seconds) && seconds > 0 && seconds < 1000000;
        o->trace = o->trace || c == 't';
        o->reduce = o->reduce || c == 'r';
        o->fixed = o->fixed || c == 'f';
        o->until_failure = o->until_failure || c == 'u';
    }
    o->fresh_ms = (int64_t)seconds * 1000;
    return ok && optind == argc;
}

int main(int argc, char **argv) {
    struct options o = {.seeds = 1, .steps = STEPS_DEFAULT};
    if (!options_parse(argc, argv, &o))
        return usage();
    report = mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (report == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    int64_t begin = clock_monotonic_us();
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (o.fixed)
        fixed_seeds(&o);
    if (o.fresh_ms > 0 || o.until_failure)
        fresh_seeds(&o);
    if (o.has_seed || (!o.fixed && o.fresh_ms == 0 && !o.until_failure))
        given_seeds(&o);
    double seconds = (double)(clock_monotonic_us() - begin) / 1e6;
    printf("steps %llu (%.0f a second), operations %llu, power losses %llu, kills %llu, restarts "
           "%llu, "
           "io faults %llu, segments cleaned %llu\n",
           (unsigned long long)totals.steps, (double)totals.steps / seconds,
           (unsigned long long)totals.operations, (unsigned long long)totals.power_losses,
           (unsigned long long)totals.kills, (unsigned long long)totals.restarts,
           (unsigned long long)totals.faults, (unsigned long long)totals.cleaned);
    if (o.fixed)
        controls(&o);
    printf("%llu passed, %llu failed\n", (unsigned long long)passed, (unsigned long long)failed);
    return failed != 0;
}
