/* Nixie's HTTP API as a script for the load generator: ready-made requests, and as much of a reply
 * read as the next request needs (status, Content-Length, and of claims each id and lease). It is
 * no HTTP client: it relies on what this server sends. One thread. */
#pragma once

#include "cli/load.h"

struct bench_http_options {
    const char *host, *port; /* for the Host header */
    const char *queue;
    const char *token; /* NULL: none */
    bool is_cycle;     /* enqueue, claim, settle; else enqueue alone */
    bool is_array;     /* the requests for many messages, also when `batch` is 1 */
    bool
        /* settling and claiming the next in one request; needs is_cycle and is_array */
        is_combined;
    unsigned connections;
    unsigned batch; /* messages a request, 1..LIMIT_BATCH */
    size_t payload_bytes;
    /* Ordering keys: first_key, and on to `keys` of them, round and round; 0 = messages have none. */
    uint32_t keys, first_key;
};

struct bench_http;

/* The options are read in the call, not kept. */
struct bench_http *bench_http_new(const struct bench_http_options *options);
void bench_http_free(struct bench_http *http); /* NULL is fine */

/* The script lives as long as `http` and serves one run. A reply that is not 2xx, a claim that
 * brings less than a whole batch and an item that could not be settled are failures. */
const struct load_script *bench_http_script(struct bench_http *http);

/* What the first failure was, for people; empty when there was none. */
const char *bench_http_first_failure(const struct bench_http *http);
