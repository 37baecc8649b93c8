/* What the simulation is made of: names, payloads, errors, people, filters and patches, all of which
 * follow from small numbers, so that the model need not keep their bytes. */
#pragma once

#include "model/policy.h"
#include "model/rules.h"
#include "model/triage.h"

#include <stdbool.h>
#include <stdint.h>

#define MODEL_QUEUES 5
#define MODEL_WORKERS 4 /* number 0 is none, here and below */
#define MODEL_VERSIONS 4
#define MODEL_ACTORS 4
#define MODEL_REASONS 4
#define MODEL_OWNERS 3
#define MODEL_NOTES 3

struct span model_queue_name(int queue);
struct span model_queue_or_none(int queue); /* empty when it is negative */
struct span model_worker(uint8_t worker);
struct span model_version(uint8_t version);
struct span model_owner(uint8_t owner);
struct span model_note(uint8_t note);

/* Who did something and why, as given: texts may be too long. */
struct who {
    uint8_t actor, reason;
};
struct act model_act(struct who who);
struct span model_actor_kept(uint8_t actor);
struct span model_reason_kept(uint8_t reason);

/* Valid until the next call with the same `slot` (0..3). */
struct span model_bytes(unsigned slot, uint32_t tag, size_t n);

/* -- ordering keys ------------------------------------------------------------------------------- */

/* One of a few that many messages share, or one of its own; no two have the same bytes. */
#define MODEL_SHARED_KEYS 4
struct key {
    uint32_t tag;
    uint8_t bytes; /* 0 = none */
};
struct key shared_key(unsigned number);
struct key own_key(uint32_t tag, uint8_t bytes); /* has 8 bytes at least */
struct span key_bytes(struct key key);           /* valid until the next call */
bool is_same_key(struct key a, struct key b);

/* -- payloads and headers ---------------------------------------------------------------------- */

/* Bytes that follow from the tag, or JSON: {"pad":"...","k":7} as a payload, {"x":"7"} as headers. */
struct content {
    bool is_json;
    int16_t k;      /* -1 = not there; headers are empty then */
    uint32_t tag;   /* also of the pad's length */
    uint32_t bytes; /* what it takes */
};
struct content content_of(uint32_t tag, uint32_t bytes);
struct content json_payload(uint32_t tag, int16_t k);
struct content json_headers(int16_t k);
struct span payload_bytes(unsigned slot, const struct content *c);
struct span headers_bytes(unsigned slot, const struct content *c);

enum patch_kind { PATCH_NONE, PATCH_SET, PATCH_REMOVE, PATCH_HEADER };
struct span patch_text(enum patch_kind patch, int16_t k); /* valid until the next call */
/* False when it cannot be applied. */
bool patch_contents(enum patch_kind patch, int16_t k, struct content *headers,
                    struct content *payload);

/* -- errors ------------------------------------------------------------------------------------ */

/* A tag with this bit is one of a few causes, each in many wordings: letters of a cause fall into
 * few groups. Other tags are each their own cause. */
#define CAUSE_TAG UINT32_C(0x80000000)
#define CAUSES 8
uint32_t cause_tag(unsigned cause, uint32_t wording);
#define MODEL_LEASE_TAG UINT32_C(0x7fffffff) /* the texts of an expired lease */

/* As given: may be too long; valid for ever. */
struct span model_error(uint32_t tag);
struct span model_error_class(uint32_t tag);
struct span model_detail(uint32_t tag);
struct span model_fingerprint(uint32_t tag);
/* As kept. */
struct span error_kept(uint32_t tag);
struct span error_class_kept(uint32_t tag);
struct span detail_kept(uint32_t tag);

/* -- filters ------------------------------------------------------------------------------------- */

enum filter_by {
    BY_NOTHING, /* all */
    BY_REASON,
    BY_CLASS, /* of a cause; CAUSES: of any */
    BY_REDRIVES,
    BY_PAYLOAD,
    BY_HEADER,
    BY_GROUP,
    BY_AGE,     /* seconds */
    BY_EXPIRES, /* seconds */
    BY_VERSION,
    BY_PRIORITY,
    BY_EDITED, /* 0: no, 1: yes */
    BY_COUNT
};
struct letter_filter {
    enum filter_by by;
    bool is_negated;
    uint64_t value; /* of redrives, age, expires and priority: more than */
};
/* Empty for BY_NOTHING. Valid until the next call. */
struct span letter_filter_text(const struct letter_filter *f);

/* -- texts of policies (content_policy.c) ---------------------------------------------------------- */

#define MODEL_RULE_SETS 5
#define MODEL_PATTERNS 4

/* 0 = none, each. */
struct queue_texts {
    uint8_t rules;
    uint8_t breaker_error;
    uint8_t target; /* a queue + 1 */
    uint8_t
        allow; /* a bit for each queue that may target it; bit MODEL_QUEUES: a queue that is not there */
};
struct policy_texts model_policy_texts(const struct queue_texts *t); /* valid until the next call */
bool is_same_texts(const struct queue_texts *a, const struct queue_texts *b);
/* The first rule of the set for a failure of that tag; false = none. */
bool rule_for(uint8_t rules, uint32_t tag, struct rule *ret);
/* Whether the pattern of a breaker takes the class of that tag. */
bool pattern_takes(uint8_t pattern, uint32_t tag);
