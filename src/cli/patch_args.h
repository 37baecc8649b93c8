/* --set PATH=JSON, --remove PATH and --header NAME=VALUE as the patch of docs/http-api.md. What is
 * removed goes before what is set, so that a value can be begun anew. One thread. */
#pragma once

#include "base/bytes.h"
#include "cli/options.h"

struct patch_args {
    struct option_list removals, sets, headers;
};

struct option_spec patch_option_set(struct patch_args *args);
struct option_spec patch_option_remove(struct patch_args *args);
struct option_spec patch_option_header(struct patch_args *args);

bool patch_args_given(const struct patch_args *args);
/* Appends the patch as JSON text. -1, or CLI_USAGE and said. */
int patch_args_build(const struct patch_args *args, const struct cli *cli, struct buf *ret);
