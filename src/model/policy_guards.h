/* The part of a policy that guards the consumer: breaker, budget, order, overflow, rules, targets.
 * Private to src/model/. */
#pragma once

#include "model/policy.h"

#define REASONS_ALL ((1U << 10) - 2) /* all but REASON_NONE */

bool policy_guards_equal(const struct policy *a, const struct policy *b);
void policy_guards_read(const struct fields *f, struct buf *memory, struct policy *p,
                        struct policy_texts *ret_texts);
void policy_guards_write(const struct policy *p, const struct policy_texts *t,
                         struct json_writer *w);
