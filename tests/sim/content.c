#include "sim/content.h"

#include "base/limits.h"
#include "base/mem.h"
#include "model/fingerprint.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* -- names --------------------------------------------------------------------------------------- */

struct span model_queue_name(int queue) {
    static const char *const names[MODEL_QUEUES] = {"emails", "a/b", "\xe2\x9c\x89", "q 3", "x"};
    return span_str(names[queue]);
}

struct span model_queue_or_none(int queue) {
    struct span none = {0};
    return queue < 0 ? none : model_queue_name(queue);
}

struct span model_worker(uint8_t worker) {
    static const char *const names[MODEL_WORKERS] = {"", "w1", "worker two", "\xc3\xa4"};
    return span_str(names[worker]);
}

struct span model_version(uint8_t version) {
    static const char *const names[MODEL_VERSIONS] = {"", "1.4", "1.5-rc1", "2"};
    return span_str(names[version]);
}

struct span model_owner(uint8_t owner) {
    static const char *const names[MODEL_OWNERS] = {"", "ann", "team b"};
    return span_str(names[owner]);
}

struct span model_note(uint8_t note) {
    static const char *const notes[MODEL_NOTES] = {"", "see ticket 12", "not ours\nask team b"};
    return span_str(notes[note]);
}

/* A text of n bytes, whose letters have two of them: a cut at an odd place has to move. */
static struct span long_text(size_t n) {
    static uint8_t text[2 * LIMIT_AUDIT_REASON];
    for (size_t i = 0; i < sizeof text; i += 2)
        memcpy(text + i, "\xc3\xa9", 2);
    return span_of(text, n);
}

static struct span model_actor(uint8_t actor) {
    static const char *const names[MODEL_ACTORS - 1] = {"", "ann", "j\xc3\xb6rg"};
    return actor < MODEL_ACTORS - 1 ? span_str(names[actor]) : long_text(LIMIT_ACTOR + 2);
}

static struct span model_reason(uint8_t reason) {
    static const char *const texts[MODEL_REASONS - 1] = {"", "fix deployed", "obsolete: 1 \"x\""};
    return reason < MODEL_REASONS - 1 ? span_str(texts[reason]) : long_text(LIMIT_AUDIT_REASON + 4);
}

struct act model_act(struct who who) {
    return (struct act){.actor = model_actor(who.actor), .reason = model_reason(who.reason)};
}

struct span model_actor_kept(uint8_t actor) {
    return span_cut_utf8(model_actor(actor), LIMIT_ACTOR);
}

struct span model_reason_kept(uint8_t reason) {
    return span_cut_utf8(model_reason(reason), LIMIT_AUDIT_REASON);
}

/* -- payloads and headers ---------------------------------------------------------------------- */

static uint8_t *memory(unsigned slot, size_t n) {
    static struct {
        uint8_t *p;
        size_t cap;
    } slots[4];
    if (slots[slot].cap < n) {
        slots[slot].cap = n;
        slots[slot].p = mem_grow(slots[slot].p, n);
    }
    return slots[slot].p;
}

struct span model_bytes(unsigned slot, uint32_t tag, size_t n) {
    uint8_t *p = memory(slot, n + 8);
    uint64_t x = (uint64_t)tag * UINT64_C(0x9e3779b97f4a7c15) + slot;
    for (size_t i = 0; i < n; i += 8) {
        x += UINT64_C(0x9e3779b97f4a7c15);
        memcpy(p + i, &x, 8);
    }
    return span_of(p, n);
}

/* -- ordering keys ------------------------------------------------------------------------------- */

#define SHARED_KEY_TAG UINT32_C(0xf0000000)

struct key shared_key(unsigned number) {
    static const uint8_t bytes[MODEL_SHARED_KEYS] = {1, 5, 8, 255};
    return (struct key){SHARED_KEY_TAG + number, bytes[number]};
}

struct key own_key(uint32_t tag, uint8_t bytes) {
    return (struct key){tag, bytes < 8 ? 8 : bytes};
}

struct span key_bytes(struct key key) {
    return model_bytes(2, key.tag, key.bytes);
}

bool is_same_key(struct key a, struct key b) {
    return a.bytes == b.bytes && a.tag == b.tag;
}

/* -- payloads and headers ---------------------------------------------------------------------- */

#define JSON_BYTES 80

struct content content_of(uint32_t tag, uint32_t bytes) {
    return (struct content){.tag = tag, .bytes = bytes};
}

struct content json_payload(uint32_t tag, int16_t k) {
    struct content c = {.is_json = true, .k = k, .tag = tag};
    c.bytes = (uint32_t)payload_bytes(0, &c).n;
    return c;
}

struct content json_headers(int16_t k) {
    struct content c = {.is_json = true, .k = k};
    c.bytes = (uint32_t)headers_bytes(1, &c).n;
    return c;
}

/* What is not meant to be JSON is none by chance either. */
static struct span no_json(unsigned slot, const struct content *c) {
    struct span s = model_bytes(slot, c->tag, c->bytes);
    if (s.n > 0)
        memory(slot, s.n)[0] = 0xff;
    return s;
}

struct span payload_bytes(unsigned slot, const struct content *c) {
    if (!c->is_json)
        return no_json(slot, c);
    char *p = (char *)memory(slot, JSON_BYTES);
    static const char pads[] = "mmmmmmmmmmmmmmmmmmmm";
    int pad = (int)(c->tag % sizeof pads);
    int n = c->k < 0 ? snprintf(p, JSON_BYTES, "{\"pad\":\"%.*s\"}", pad, pads)
                     : snprintf(p, JSON_BYTES, "{\"pad\":\"%.*s\",\"k\":%d}", pad, pads, c->k);
    return span_of(p, (size_t)n);
}

struct span headers_bytes(unsigned slot, const struct content *c) {
    if (!c->is_json)
        return no_json(slot, c);
    if (c->k < 0)
        return (struct span){0};
    char *p = (char *)memory(slot, JSON_BYTES);
    return span_of(p, (size_t)snprintf(p, JSON_BYTES, "{\"x\":\"%d\"}", c->k));
}

struct span patch_text(enum patch_kind patch, int16_t k) {
    static char text[128];
    switch (patch) {
    case PATCH_NONE:
        return (struct span){0};
    case PATCH_SET:
        snprintf(text, sizeof text, "[{\"op\":\"set\",\"path\":\"payload.k\",\"value\":%d}]", k);
        break;
    case PATCH_REMOVE:
        snprintf(text, sizeof text, "[{\"op\":\"remove\",\"path\":\"payload.k\"}]");
        break;
    case PATCH_HEADER:
        snprintf(text, sizeof text, "[{\"op\":\"set\",\"path\":\"header.x\",\"value\":\"%d\"}]", k);
        break;
    }
    return span_str(text);
}

bool patch_contents(enum patch_kind patch, int16_t k, struct content *headers,
                    struct content *payload) {
    if (patch == PATCH_HEADER) {
        if (!headers->is_json && headers->bytes > 0)
            return false;
        *headers = json_headers(k);
        return true;
    }
    if (!payload->is_json)
        return false;
    *payload = json_payload(payload->tag, patch == PATCH_SET ? k : -1);
    return true;
}

/* -- errors -------------------------------------------------------------------------------------- */

#define TEXTS 256

/* Text of about n bytes whose characters have one to three: a piece of a long one. */
static struct span text_of(size_t n, uint32_t tag) {
    static const char *const letters[] = {"a", "\xc3\xa9", "\xe2\x82\xac", " "};
    static char text[LIMIT_DETAIL + TEXTS * 4];
    static size_t begins[TEXTS], end;
    for (uint32_t k = 1, i = 0; end + 3 < sizeof text; k = k * 1103515245 + 12345, i++) {
        if (i < TEXTS)
            begins[i] = end;
        for (const char *c = letters[k >> 16 & 3]; *c;)
            text[end++] = *c++;
    }
    size_t begin = begins[tag % TEXTS];
    while (((uint8_t)text[begin + n] & 0xc0) == 0x80)
        n++;
    return span_of(text + begin, n);
}

#define WORDINGS 8

uint32_t cause_tag(unsigned cause, uint32_t wording) {
    return CAUSE_TAG | cause % CAUSES | wording % WORDINGS << 8;
}

static bool is_cause(uint32_t tag) {
    return (tag & CAUSE_TAG) != 0;
}

struct cause {
    char class[16], error[64], detail[160], fingerprint[8];
};

/* The last two have a fingerprint of their own, whatever their class; the one before a trace. */
static const struct cause *cause_of(uint32_t tag) {
    static struct cause causes[CAUSES][WORDINGS];
    unsigned cause = tag & 0xff, wording = tag >> 8 & 0xff;
    assert(cause < CAUSES && wording < WORDINGS);
    struct cause *c = &causes[cause][wording];
    if (c->error[0])
        return c;
    char name = (char)('A' + cause);
    snprintf(c->class, sizeof c->class, "Cause%c", name);
    snprintf(c->error, sizeof c->error, "cause %c: 10.0.0.%u took %u ms", name, wording,
             3 * wording + 7);
    if (cause == CAUSES - 3)
        snprintf(c->detail, sizeof c->detail,
                 "Traceback (most recent call last):\n  File \"/app/work.py\", line %u, in run\n"
                 "    send()\n  File \"/app/mail.py\", line 9, in send\nCause%c: no",
                 wording + 3, name);
    if (cause >= CAUSES - 2) {
        snprintf(c->fingerprint, sizeof c->fingerprint, "fp %c", name);
        snprintf(c->class, sizeof c->class, "Cause%c%u", name, wording % 2);
    }
    return c;
}

struct span model_error(uint32_t tag) {
    if (tag == MODEL_LEASE_TAG)
        return span_str("the lease ran out before the message was settled");
    if (is_cause(tag))
        return span_str(cause_of(tag)->error);
    return text_of(tag % 37 == 0 ? LIMIT_ERROR - 5 + tag % 11 : tag % 60, tag);
}

struct span model_error_class(uint32_t tag) {
    if (tag == MODEL_LEASE_TAG)
        return span_str("lease_expired");
    if (is_cause(tag))
        return span_str(cause_of(tag)->class);
    return text_of(tag % 41 == 0 ? LIMIT_ERROR_CLASS - 5 + tag % 11 : tag % 20, tag + 1);
}

struct span model_detail(uint32_t tag) {
    if (tag == MODEL_LEASE_TAG)
        return (struct span){0};
    if (is_cause(tag))
        return span_str(cause_of(tag)->detail);
    return text_of(tag % 97 == 0 ? LIMIT_DETAIL - 5 + tag % 11 : tag % 200, tag + 2);
}

struct span model_fingerprint(uint32_t tag) {
    if (tag == MODEL_LEASE_TAG)
        return (struct span){0};
    if (is_cause(tag))
        return span_str(cause_of(tag)->fingerprint);
    struct span none = {0};
    return tag % 5 ? none : text_of(tag % 10 ? 1 + tag % 30 : LIMIT_FINGERPRINT, tag);
}

struct span error_kept(uint32_t tag) {
    struct span s = span_cut_utf8(model_error(tag), LIMIT_ERROR);
    return s.n ? s : span_str("unknown error");
}

struct span error_class_kept(uint32_t tag) {
    return span_cut_utf8(model_error_class(tag), LIMIT_ERROR_CLASS);
}

struct span detail_kept(uint32_t tag) {
    return span_cut_utf8(model_detail(tag), LIMIT_DETAIL);
}

/* -- filters --------------------------------------------------------------------------------------- */

struct span letter_filter_text(const struct letter_filter *f) {
    static char text[80];
    const char *sign = f->is_negated ? "-" : "";
    char key[GROUP_KEY_SIZE];
    switch (f->by) {
    case BY_NOTHING:
        return (struct span){0};
    case BY_REASON:
        snprintf(text, sizeof text, "%sreason:%s", sign, reason_name((enum reason)f->value));
        break;
    case BY_CLASS:
        if (f->value == CAUSES)
            snprintf(text, sizeof text, "%serror:Cause*", sign);
        else
            snprintf(text, sizeof text, "%serror:Cause%c", sign, (char)('A' + f->value));
        break;
    case BY_REDRIVES:
        snprintf(text, sizeof text, "%sredrives:>%" PRIu64, sign, f->value);
        break;
    case BY_PAYLOAD:
        snprintf(text, sizeof text, "%spayload.k:%" PRIu64, sign, f->value);
        break;
    case BY_GROUP:
        group_key_write(f->value, key);
        snprintf(text, sizeof text, "%sgroup:%s", sign, key);
        break;
    case BY_HEADER:
        snprintf(text, sizeof text, "%sheader.x:%" PRIu64, sign, f->value);
        break;
    case BY_AGE:
        snprintf(text, sizeof text, "%sage:>%" PRIu64 "s", sign, f->value);
        break;
    case BY_EXPIRES:
        snprintf(text, sizeof text, "%sexpires:>%" PRIu64 "s", sign, f->value);
        break;
    case BY_VERSION:
        snprintf(text, sizeof text, "%sversion:\"%s\"", sign,
                 (const char *)model_version((uint8_t)f->value).p);
        break;
    case BY_PRIORITY:
        snprintf(text, sizeof text, "%spriority:>%" PRIu64, sign, f->value);
        break;
    case BY_EDITED:
        snprintf(text, sizeof text, "%sedited:%s", sign, f->value ? "yes" : "no");
        break;
    case BY_COUNT:
        break;
    }
    return span_str(text);
}
