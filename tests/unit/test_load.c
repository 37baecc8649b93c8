#include "base/mem.h"
#include "check.h"
#include "cli/load.h"

#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* -- histograms -------------------------------------------------------------------------------- */

static void a_value_is_read_back_within_half_a_percent(void) {
    struct load_histogram *h = mem_alloc(sizeof *h);
    for (int64_t v = 1; v < INT64_C(1000000000000); v += v / 7 + 1) {
        memset(h, 0, sizeof *h);
        load_histogram_add(h, v);
        load_histogram_add(h, INT64_MAX); /* the longest does not stand in for the others */
        double error = (double)(load_histogram_at(h, 0.25) - v) / (double)v;
        CHECK(error > -0.005 && error < 0.005);
    }
    free(h);
}

static void shares_are_where_they_belong(void) {
    struct load_histogram *h = mem_alloc(sizeof *h);
    CHECK_EQ(load_histogram_at(h, 0.5), 0);
    for (int64_t v = 1; v <= 200; v++)
        load_histogram_add(h, v);
    CHECK_EQ(load_histogram_at(h, 0), 1);
    CHECK_EQ(load_histogram_at(h, 0.5), 101);
    CHECK_EQ(load_histogram_at(h, 0.99), 199);
    CHECK_EQ(load_histogram_at(h, 1), 200);
    CHECK_EQ(h->max_ns, 200);
    free(h);
}

/* -- runs against a server of one thread that serves connections one after the other -------------- */

/* The protocol: one byte is asked, "ab" answered. */
struct peer {
    int listener;
    char port[8];
    unsigned connections;
    unsigned answers_max; /* then it closes */
    bool in_two_pieces;
    pthread_t thread;
    unsigned answered;
};

static void *peer_serve(void *arg) {
    struct peer *p = arg;
    for (unsigned i = 0; i < p->connections; i++) {
        int fd = accept(p->listener, NULL, NULL);
        char c;
        while (p->answered < p->answers_max && recv(fd, &c, 1, 0) == 1) {
            p->answered++;
            if (p->in_two_pieces) {
                (void)send(fd, "a", 1, MSG_NOSIGNAL);
                usleep(100);
                (void)send(fd, "b", 1, MSG_NOSIGNAL);
            } else {
                (void)send(fd, "ab", 2, MSG_NOSIGNAL);
            }
        }
        close(fd);
    }
    return NULL;
}

static void peer_start(struct peer *p) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    p->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(p->listener, (struct sockaddr *)&a, n) == 0 && listen(p->listener, 16) == 0);
    CHECK(getsockname(p->listener, (struct sockaddr *)&a, &n) == 0);
    snprintf(p->port, sizeof p->port, "%u", (unsigned)ntohs(a.sin_port));
    CHECK(pthread_create(&p->thread, NULL, peer_serve, p) == 0);
}

static void peer_end(struct peer *p) {
    pthread_join(p->thread, NULL);
    close(p->listener);
}

/* Two steps a turn; the second one's reply completes 5 units, the first one's fails when asked to. */
struct script_state {
    bool first_fails;
    bool dislikes;
    unsigned asked[2];
};

static struct span ask(void *ctx, unsigned connection, unsigned step) {
    struct script_state *s = ctx;
    CHECK_EQ(connection, 0);
    assert(step < 2);
    s->asked[step]++;
    return span_str("?");
}

static enum load_verdict take(void *ctx, unsigned connection, unsigned step, struct span bytes,
                              struct load_reply *ret) {
    const struct script_state *s = ctx;
    CHECK_EQ(connection, 0);
    if (s->dislikes)
        return LOAD_BROKEN;
    if (bytes.n < 2)
        return LOAD_MORE;
    CHECK(span_equal_str(bytes, "ab"));
    if (step == 0) {
        ret->is_failure = s->first_fails;
        return s->first_fails ? LOAD_TURN : LOAD_STEP;
    }
    ret->units = 5;
    return LOAD_TURN;
}

static enum err run(struct script_state *state, const struct peer *p, uint64_t units,
                    int64_t duration_ms, struct load_result *ret) {
    const struct load_script script = {.ctx = state,
                                       .step_count = 2,
                                       .step_names = {"one", "two"},
                                       .units_per_turn = 5,
                                       .request = ask,
                                       .reply = take};
    const struct load_options options = {.host = "127.0.0.1",
                                         .port = p->port,
                                         .connections = 1,
                                         .units = units,
                                         .duration_ms = duration_ms};
    return load_run(&options, &script, ret);
}

static void a_run_counts_what_it_did(void) {
    struct peer p = {.connections = 1, .answers_max = 1000, .in_two_pieces = true};
    struct script_state s = {.first_fails = false};
    struct load_result *r = mem_alloc(sizeof *r);
    peer_start(&p);
    CHECK(run(&s, &p, 48, 0, r) == OK); /* ten turns of five are begun */
    peer_end(&p);
    CHECK_EQ(r->units, 50);
    CHECK_EQ(r->requests, 20);
    CHECK_EQ(r->failures, 0);
    CHECK_EQ(r->steps[0].count, 10);
    CHECK_EQ(r->steps[1].count, 10);
    CHECK_EQ(s.asked[1], 10);
    CHECK(r->elapsed_ns > 0 && r->steps[0].max_ns >= 100000 && r->steps[0].max_ns <= r->elapsed_ns);
    free(r);
}

static void a_failure_ends_the_turn_and_is_counted(void) {
    struct peer p = {.connections = 1, .answers_max = 1000};
    struct script_state s = {.first_fails = true};
    struct load_result *r = mem_alloc(sizeof *r);
    peer_start(&p);
    CHECK(run(&s, &p, 20, 0, r) == OK);
    peer_end(&p);
    CHECK_EQ(r->failures, 4);
    CHECK_EQ(r->units, 0);
    CHECK_EQ(s.asked[1], 0);
    free(r);
}

static void time_ends_a_run(void) {
    struct peer p = {.connections = 1, .answers_max = UINT32_MAX};
    struct script_state s = {.first_fails = false};
    struct load_result *r = mem_alloc(sizeof *r);
    peer_start(&p);
    CHECK(run(&s, &p, 0, 30, r) == OK);
    peer_end(&p);
    CHECK(r->elapsed_ns >= 30000000 && r->units > 0);
    free(r);
}

static void trouble_is_said(void) {
    struct peer p = {.connections = 1, .answers_max = 3};
    struct script_state s = {.first_fails = false};
    struct load_result *r = mem_alloc(sizeof *r);
    peer_start(&p);
    CHECK(run(&s, &p, 1000, 0, r) == ERR_IO); /* the server goes away */
    peer_end(&p);
    CHECK(r->trouble[0] != '\0');
    CHECK_EQ(r->requests, 3);

    p = (struct peer){.connections = 1, .answers_max = 1000};
    s = (struct script_state){.dislikes = true};
    peer_start(&p);
    CHECK(run(&s, &p, 1000, 0, r) == ERR_IO); /* not the protocol */
    peer_end(&p);
    CHECK(r->trouble[0] != '\0');
    CHECK_EQ(r->requests, 0);

    CHECK(run(&s, &p, 1000, 0, r) == ERR_IO); /* nobody listens any more */
    CHECK(strstr(r->trouble, "cannot connect") != NULL);
    free(r);
}

int main(void) {
    RUN(a_value_is_read_back_within_half_a_percent);
    RUN(shares_are_where_they_belong);
    RUN(a_run_counts_what_it_did);
    RUN(a_failure_ends_the_turn_and_is_counted);
    RUN(time_ends_a_run);
    RUN(trouble_is_said);
    return check_done();
}
