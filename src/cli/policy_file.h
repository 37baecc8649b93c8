/* Policies as a file, for nixie apply, dump and doctor:
 *
 *   queues:
 *     orders:
 *       max_retries: 5
 *       breaker: {share: 0.5}
 *
 * Each queue has the members of the policy of docs/http-api.md, or none at all; those that are not
 * given have their defaults. One thread. */
#pragma once

#include "cli/context.h"
#include "cli/yaml.h"
#include "model/policy.h"

#define POLICY_FILE_BYTES_MAX ((size_t)8 * 1024 * 1024)

struct policy_entry {
    const char *queue;
    const struct json *given; /* as it stands in the file, NULL: nothing */
    struct policy policy;
    struct policy_texts texts;
    struct buf memory; /* of the texts */
};

struct policy_file {
    struct yaml yaml;
    struct policy_entry *entries; /* in the order of the file */
    size_t count;
};

/* Reads a file ("-": standard input) and checks all of it. -1, or the exit code and each mistake
 * said with its line, the member, and what is allowed; then there is nothing to release. */
int policy_file_read(const struct cli *cli, const char *path, struct policy_file *ret);
void policy_file_release(struct policy_file *f);

/* The entry of a queue, or NULL. */
const struct policy_entry *policy_file_find(const struct policy_file *f, struct span queue);
